//! Size of a type: its fields, and the lines of its `impl` blocks over all files of its crate.
//!
//! A limit on the length of files alone moves size sideways: one type in twenty-five files. So the
//! `impl` blocks of a type, inherent and of traits, are added up over the crate. Test code does not count.
//!
//! Two types of one crate may have one name. An `impl` belongs to the type that its own file defines,
//! else to the first definition in the crate.

use super::policy::{FIELDS_MAX, IMPL_LINES_MAX, LARGE_TYPES};
use super::source::{Source, is_for_tests, item_attributes, lines_of};
use super::{Finding, Severity};
use std::collections::BTreeMap;
use std::path::PathBuf;
use syn::visit::{self, Visit};

/// The name of a type and the file that defines it; without one for a type of another crate.
type Key = (String, Option<PathBuf>);

#[derive(Default)]
struct Size {
    fields: usize,
    impl_lines: usize,
    impl_files: usize,
}

/// Checks the types of all crates, and that every exception is still needed.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut by_crate: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        by_crate.entry(&source.krate).or_default().push(source);
    }
    by_crate.iter().flat_map(|(krate, sources)| check_crate(krate, sources)).collect()
}

fn check_crate(krate: &str, sources: &[&Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sizes = measure(sources);
    for ((name, file), size) in &sizes {
        let Size { fields, impl_lines, impl_files } = size;
        let excepted = LARGE_TYPES.iter().any(|large| (large.krate, large.name) == (krate, name));
        if excepted || (*fields <= FIELDS_MAX && *impl_lines <= IMPL_LINES_MAX) {
            continue;
        }
        let what = format!(
            "`{name}` has {fields} fields (limit {FIELDS_MAX}) and {impl_lines} lines of impl in \
             {impl_files} files (limit {IMPL_LINES_MAX}); give part of it a type of its own"
        );
        let file = file.clone().unwrap_or_else(|| PathBuf::from("crates").join(krate));
        findings.push(Finding { severity: Severity::Error, file, what });
    }
    for large in LARGE_TYPES.iter().filter(|large| large.krate == krate) {
        let needed = sizes.iter().any(|((name, _), size)| {
            name == large.name && (size.fields > FIELDS_MAX || size.impl_lines > IMPL_LINES_MAX)
        });
        if !needed {
            findings.push(Finding {
                severity: Severity::Warning,
                file: PathBuf::from("crates").join(krate),
                what: format!(
                    "`{}` is an exception in policy.rs and no longer needs to be",
                    large.name
                ),
            });
        }
    }
    findings
}

fn measure(sources: &[&Source]) -> BTreeMap<Key, Size> {
    let mut definitions: BTreeMap<String, Vec<(PathBuf, usize)>> = BTreeMap::new();
    let mut impls: Vec<(String, PathBuf, usize)> = Vec::new();
    for source in sources {
        let mut visitor =
            Types { file: &source.shown, definitions: &mut definitions, impls: &mut impls };
        visitor.visit_file(&source.syntax);
    }
    let mut sizes: BTreeMap<Key, Size> = BTreeMap::new();
    for (name, files) in &definitions {
        for (file, fields) in files {
            let size = sizes.entry((name.clone(), Some(file.clone()))).or_default();
            size.fields = size.fields.max(*fields);
        }
    }
    impls.sort();
    let mut last: Option<(Key, PathBuf)> = None;
    for (name, file, lines) in impls {
        let defined = definitions.get(&name);
        let own = defined.and_then(|all| {
            all.iter().find(|(at, _)| *at == file).or_else(|| all.first()).map(|(at, _)| at.clone())
        });
        let here = ((name, own), file);
        let size = sizes.entry(here.0.clone()).or_default();
        size.impl_lines += lines;
        size.impl_files += usize::from(last.as_ref() != Some(&here));
        last = Some(here);
    }
    sizes
}

struct Types<'a> {
    file: &'a PathBuf,
    definitions: &'a mut BTreeMap<String, Vec<(PathBuf, usize)>>,
    impls: &'a mut Vec<(String, PathBuf, usize)>,
}

impl Types<'_> {
    fn define(&mut self, name: &syn::Ident, fields: usize) {
        let definition = (self.file.clone(), fields);
        self.definitions.entry(name.to_string()).or_default().push(definition);
    }
}

impl<'ast> Visit<'ast> for Types<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_for_tests(item_attributes(item)) {
            return;
        }
        match item {
            syn::Item::Struct(item) => self.define(&item.ident, item.fields.len()),
            syn::Item::Enum(item) => {
                let largest = item.variants.iter().map(|variant| variant.fields.len()).max();
                self.define(&item.ident, largest.unwrap_or_default());
            }
            syn::Item::Impl(item) => {
                if let syn::Type::Path(path) = item.self_ty.as_ref()
                    && let Some(last) = path.path.segments.last()
                {
                    let lines = lines_of(item).count();
                    self.impls.push((last.ident.to_string(), self.file.clone(), lines));
                }
            }
            _ => visit::visit_item(self, item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::source::parse;
    use std::path::Path;

    fn said(files: &[(&str, &str)]) -> Vec<String> {
        let parsed = files.iter().map(|(path, text)| parse(Path::new(path), (*text).to_owned()));
        let sources: Vec<Source> = parsed.filter_map(Result::ok).collect();
        assert_eq!(sources.len(), files.len());
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_type_with_too_many_fields_is_an_error() {
        let with = |fields: usize| {
            let fields: String = (0..fields).map(|n| format!("f{n}: u8,\n")).collect();
            said(&[("crates/x/src/lib.rs", &format!("struct Wide {{\n{fields}}}\n"))])
        };
        assert_eq!(with(FIELDS_MAX), Vec::<String>::new());
        let found = with(FIELDS_MAX + 1);
        assert!(found.len() == 1 && found[0].contains("`Wide` has 26 fields"), "{found:?}");
    }

    #[test]
    fn impl_lines_are_added_up_over_all_files() {
        let lines =
            |count: usize| format!("impl Long {{\n{}}}\n", "const X: u8 = 0;\n".repeat(count - 2));
        let half = lines(IMPL_LINES_MAX / 2);
        let definition = format!("struct Long;\n{half}");
        let other = format!("{half}#[cfg(test)]\n{}", lines(100));
        let fits = [("crates/x/src/a.rs", &*definition), ("crates/x/src/b.rs", &*other)];
        assert_eq!(said(&fits), Vec::<String>::new(), "tests do not count");
        let more = format!("{half}impl Clone for Long {{}}\n");
        let found = said(&[("crates/x/src/a.rs", &definition), ("crates/x/src/b.rs", &more)]);
        assert!(
            found.len() == 1 && found[0].contains("1201 lines of impl in 2 files"),
            "{found:?}"
        );
        let elsewhere = [("crates/x/src/a.rs", &*definition), ("crates/y/src/b.rs", &*more)];
        assert_eq!(said(&elsewhere), Vec::<String>::new(), "crates are counted apart");
        let own = format!("struct Long;\n{more}");
        let two_types = [("crates/x/src/a.rs", &*definition), ("crates/x/src/b.rs", &*own)];
        assert_eq!(said(&two_types), Vec::<String>::new(), "one name, two types");
    }
}

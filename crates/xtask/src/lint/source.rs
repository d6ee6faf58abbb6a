//! The Rust files of the workspace, read and parsed once for all rules.
//!
//! ```text
//!   crates/redo/src/write/log.rs ──► Source { crate: redo, module: [write, log], text, syntax }
//! ```
//!
//! Invariant: a file that is not Rust is a finding, never skipped in silence. What is compiled for tests
//! only (`#[cfg(test)]`) is recognized here, in one place: rules about the size and the order of code do
//! not apply to tests.

use super::{Finding, Severity, sorted_entries};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// One Rust file.
pub(super) struct Source {
    /// The folder of its crate below `crates/`.
    pub(super) krate: String,
    /// Its path, relative to the workspace.
    pub(super) shown: PathBuf,
    /// What it says.
    pub(super) text: String,
    /// The same, parsed.
    pub(super) syntax: syn::File,
    /// Its module path in the crate; `None` for what is not below `src`.
    pub(super) module: Option<Vec<String>>,
}

impl Source {
    /// Whether the file holds nothing but tests.
    pub(super) fn is_test(&self) -> bool {
        self.shown.components().any(|part| part.as_os_str() == "tests")
            || self.shown.file_stem().is_some_and(|stem| stem == "tests")
    }

    /// The lines that are compiled for tests only.
    pub(super) fn test_lines(&self) -> Vec<RangeInclusive<usize>> {
        let mut finder = TestLines(Vec::new());
        finder.visit_file(&self.syntax);
        finder.0
    }
}

/// Reads every Rust file below `root/crates`; what cannot be parsed goes to `findings`.
///
/// # Errors
/// When a file or directory cannot be read.
pub(super) fn read_all(root: &Path, findings: &mut Vec<Finding>) -> io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for directory in sorted_entries(&root.join("crates"))? {
        if directory.is_dir() {
            visit_directory(root, &directory, &mut sources, findings)?;
        }
    }
    Ok(sources)
}

fn visit_directory(
    root: &Path,
    directory: &Path,
    sources: &mut Vec<Source>,
    findings: &mut Vec<Finding>,
) -> io::Result<()> {
    for path in sorted_entries(directory)? {
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                visit_directory(root, &path, sources, findings)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let shown = path.strip_prefix(root).unwrap_or(&path);
            match parse(shown, std::fs::read_to_string(&path)?) {
                Ok(source) => sources.push(source),
                Err(finding) => findings.push(finding),
            }
        }
    }
    Ok(())
}

/// Parses a file; `shown` is its path below the workspace, `crates/…`.
pub(super) fn parse(shown: &Path, text: String) -> Result<Source, Finding> {
    let syntax = syn::parse_file(&text).map_err(|error| Finding {
        severity: Severity::Error,
        file: shown.to_owned(),
        what: format!("line {}: is not Rust: {error}", error.span().start().line),
    })?;
    let parts: Vec<String> = shown
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    let krate = parts.get(1).cloned().unwrap_or_default();
    let module = match parts.get(2..) {
        Some([src, module @ ..]) if src == "src" => Some(match module {
            [folder @ .., last] if ["lib", "main", "mod"].contains(&last.as_str()) => {
                folder.to_vec()
            }
            all => all.to_vec(),
        }),
        _ => None,
    };
    Ok(Source { krate, shown: shown.to_owned(), text, syntax, module })
}

/// Whether the attributes say that the item is compiled for tests only.
pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
    })
}

/// The attributes of an item of a file or module.
pub(super) fn item_attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The lines from the first to the last token of something, attributes included.
pub(super) fn lines_of(node: &impl syn::spanned::Spanned) -> RangeInclusive<usize> {
    let span = node.span();
    span.start().line..=span.end().line
}

struct TestLines(Vec<RangeInclusive<usize>>);

impl<'ast> Visit<'ast> for TestLines {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_for_tests(item_attributes(item)) {
            self.0.push(lines_of(item));
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if is_for_tests(&function.attrs) {
            self.0.push(lines_of(function));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str, text: &str) -> Source {
        parse(Path::new(path), text.to_owned()).unwrap_or_else(|finding| panic!("{finding}"))
    }

    #[test]
    fn a_path_names_its_crate_and_module() {
        for (path, module) in [
            ("crates/redo/src/lib.rs", Some(vec![])),
            ("crates/redo/src/write/mod.rs", Some(vec!["write"])),
            ("crates/redo/src/write/log.rs", Some(vec!["write", "log"])),
            ("crates/redo/tests/it/main.rs", None),
        ] {
            let source = parsed(path, "");
            let expected =
                module.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!((source.krate.as_str(), source.module), ("redo", expected), "{path}");
        }
        assert!(parsed("crates/redo/tests/it/main.rs", "").is_test());
        assert!(parsed("crates/redo/src/write/tests.rs", "").is_test());
        assert!(!parsed("crates/redo/src/write/log.rs", "").is_test());
    }

    #[test]
    fn tests_are_told_from_code() {
        let text = "fn code() {}\n#[cfg(test)]\nfn only() {\n}\nimpl X {\n    #[cfg(test)]\n    fn y() {}\n}\n\
            #[cfg(feature = \"test\")]\nmod also_code {}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(parsed("crates/x/src/lib.rs", text).test_lines(), [2..=4, 6..=7, 11..=13]);
    }

    #[test]
    fn what_is_not_rust_is_said_with_its_line() {
        let finding = parse(Path::new("crates/x/src/lib.rs"), "\nfn {}\n".to_owned());
        let finding = finding.err().map(|finding| finding.to_string()).unwrap_or_default();
        assert!(finding.contains("line 2: is not Rust"), "{finding}");
    }
}

//! Errors of a library are types: no `Result<_, String>` where another function sees it.
//!
//! A caller can only print a `String`. So in the code of a library crate no signature, field or alias
//! has one as its error, and no `FromStr` either; what stands inside a function is that function's own
//! matter. Tests and the crates that are programs may do as they like.

use super::policy::{PROGRAMS, STRING_ERRORS};
use super::source::{Source, is_for_tests, item_attributes};
use super::{Finding, Severity};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// Checks the library crates, and that every exception is still needed.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let is_library = |source: &&Source| {
        source.module.is_some() && !source.is_test() && !PROGRAMS.contains(&source.krate.as_str())
    };
    sources.iter().filter(is_library).flat_map(check_source).collect()
}

fn check_source(source: &Source) -> Vec<Finding> {
    let mut finder = Finder { lines: Vec::new() };
    finder.visit_file(&source.syntax);
    let exception = STRING_ERRORS.iter().find(|excepted| source.shown.ends_with(excepted.file));
    let finding = |severity, what| Finding { severity, file: source.shown.clone(), what };
    match exception {
        Some(_) if finder.lines.is_empty() => {
            let what = "is an exception in policy.rs (STRING_ERRORS) and no longer needs to be";
            vec![finding(Severity::Warning, what.to_owned())]
        }
        Some(_) => Vec::new(),
        None => {
            let what = |line| {
                format!(
                    "line {line}: a `String` as an error; give it a type (thiserror), each variant \
                     with what a person needs to act"
                )
            };
            let lines = finder.lines.into_iter();
            lines.map(|line| finding(Severity::Error, what(line))).collect()
        }
    }
}

struct Finder {
    lines: Vec<usize>,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_impl_item_type(&mut self, item: &'ast syn::ImplItemType) {
        if (item.ident == "Err" || item.ident == "Error") && is_string(&item.ty) {
            self.lines.push(item.span().start().line);
        }
    }

    fn visit_type_path(&mut self, path: &'ast syn::TypePath) {
        if path.path.segments.last().is_some_and(has_string_error) {
            self.lines.push(path.span().start().line);
        }
        visit::visit_type_path(self, path);
    }

    /// What stands inside a function.
    fn visit_block(&mut self, _block: &'ast syn::Block) {}
}

fn has_string_error(segment: &syn::PathSegment) -> bool {
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
    let error = arguments.args.iter().nth(1);
    segment.ident == "Result"
        && matches!(error, Some(syn::GenericArgument::Type(error)) if is_string(error))
}

fn is_string(of: &syn::Type) -> bool {
    matches!(of, syn::Type::Path(path)
        if path.path.segments.last().is_some_and(|last| last.ident == "String"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::source::parse;
    use std::path::Path;

    fn lines(path: &str, text: &str) -> Vec<String> {
        let source = parse(Path::new(path), text.to_owned()).unwrap_or_else(|e| panic!("{e}"));
        let findings = check(&[source]);
        let line = |finding: Finding| {
            assert_eq!(finding.severity, Severity::Error);
            finding.what.split(':').next().unwrap_or_default().to_owned()
        };
        findings.into_iter().map(line).collect()
    }

    #[test]
    fn a_string_as_an_error_is_seen_where_other_code_sees_it() {
        let text = "pub fn a() -> Result<(), String> { Ok(()) }\n\
            struct B {\n    check: fn(&str) -> std::result::Result<u8, std::string::String>,\n}\n\
            type C = Option<Result<u8, String>>;\n\
            trait D { fn d(f: &mut dyn FnMut() -> Result<(), String>); }\n\
            impl FromStr for B { type Err = String; }\n";
        let expected = ["line 1", "line 3", "line 5", "line 6", "line 7"];
        assert_eq!(lines("crates/x/src/lib.rs", text), expected);
    }

    #[test]
    fn other_types_bodies_tests_and_programs_are_left_alone() {
        let fine = "fn a() -> Result<String, Error> { let b: Result<u8, String> = Ok(1); }\n\
            fn c() -> io::Result<String> {}\n\
            #[cfg(test)]\nmod tests { fn d() -> Result<(), String> {} }\n\
            #[test]\nfn e() -> Result<(), String> {}\n";
        assert_eq!(lines("crates/x/src/lib.rs", fine), [""; 0]);
        let wrong = "fn a() -> Result<(), String> {}\n";
        for path in ["crates/x/tests/it/main.rs", "crates/x/src/tests.rs", "crates/cli/src/main.rs"]
        {
            assert_eq!(lines(path, wrong), [""; 0], "{path}");
        }
    }
}

//! The order of a crate's folders: what is below does not know what is above.
//!
//! ```text
//!   policy::FOLDERS   a crate's top modules (folders and files below src) in layers, lowest first
//!   use crate::…, crate::…::f(), super::…  ──►  from module → to module: `to` must be in a lower layer
//! ```
//!
//! A module imports from its own and from lower layers' modules, not from its neighbours in a layer. The
//! list of a crate is complete: a module without a place is an error, so that no file outside the order
//! can carry an import around it. A name that `lib.rs` exports again counts as the module that it comes
//! from. `lib.rs` and `main.rs` stand above all layers; test code is free.

use super::policy::{FOLDERS, FolderOrder};
use super::source::{Source, is_for_tests, item_attributes};
use super::{Finding, Severity};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// Checks all crates that have an order.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    FOLDERS
        .iter()
        .filter(|order| sources.iter().any(|source| source.krate == order.krate))
        .flat_map(|order| {
            let mut findings = check_crate(order, sources);
            findings.extend(places_without_module(order, sources));
            findings
        })
        .collect()
}

/// Places that a renamed or removed module has left behind.
fn places_without_module(order: &FolderOrder, sources: &[Source]) -> Vec<Finding> {
    let named = order.layers.iter().flat_map(|layer| layer.iter());
    named
        .filter(|name| {
            let is_it = |source: &Source| {
                let first = source.module.as_ref().and_then(|module| module.first());
                source.krate == order.krate && first.is_some_and(|first| first == *name)
            };
            !sources.iter().any(is_it)
        })
        .map(|name| Finding {
            severity: Severity::Warning,
            file: PathBuf::from("crates").join(order.krate),
            what: format!("has no module `{name}` any more: take it out of policy.rs"),
        })
        .collect()
}

fn check_crate(order: &FolderOrder, sources: &[Source]) -> Vec<Finding> {
    let own: Vec<&Source> =
        sources.iter().filter(|source| source.krate == order.krate && !source.is_test()).collect();
    let root = own.iter().find(|source| source.module.as_ref().is_some_and(Vec::is_empty));
    let exports = root.map(|root| exports_of(root)).unwrap_or_default();
    let layer = |module: &str| order.layers.iter().position(|layer| layer.contains(&module));
    let mut findings = Vec::new();
    let mut placeless = BTreeSet::new();
    for source in own {
        let Some([from, ..]) = source.module.as_deref() else { continue };
        let Some(from_layer) = layer(from) else {
            placeless.insert(from.clone());
            continue;
        };
        let mut seen = BTreeSet::new();
        for (names, line) in paths_of(source) {
            let Some(name) = names.first() else { continue };
            let to = exports.get(name).unwrap_or(name);
            let against = layer(to).is_some_and(|to_layer| to != from && to_layer >= from_layer);
            if against && seen.insert(to.clone()) {
                let what = format!("line {line}: `{from}` imports from `{to}`, {AGAINST}");
                let file = source.shown.clone();
                findings.push(Finding { severity: Severity::Error, file, what });
            }
        }
    }
    findings.extend(placeless.into_iter().map(|module| Finding {
        severity: Severity::Error,
        file: PathBuf::from("crates").join(order.krate),
        what: format!("module `{module}` has no place in the order of its crate (policy.rs)"),
    }));
    findings
}

const AGAINST: &str = "which is not below it (order of folders in policy.rs)";

/// The names that a root file imports or exports from its modules, each with its module.
fn exports_of(root: &Source) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for item in &root.syntax.items {
        let syn::Item::Use(item) = item else { continue };
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves);
        for (mut path, name) in leaves {
            if path.first().is_some_and(|first| first == "crate" || first == "self") {
                path.remove(0);
            }
            if let Some(module) = path.first().filter(|module| **module != name) {
                exports.insert(name, module.clone());
            }
        }
    }
    exports
}

/// The paths that an import names, each with the name it gets here.
fn flatten(tree: &syn::UseTree, prefix: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, String)>) {
    let mut leaf = |last: &syn::Ident, name: &syn::Ident| {
        let mut path = prefix.clone();
        path.push(last.to_string());
        leaves.push((path, name.to_string()));
    };
    match tree {
        syn::UseTree::Name(one) => leaf(&one.ident, &one.ident),
        syn::UseTree::Rename(one) => leaf(&one.ident, &one.rename),
        syn::UseTree::Glob(_) => leaves.push((prefix.clone(), "*".to_owned())),
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, leaves);
            prefix.pop();
        }
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, prefix, leaves));
        }
    }
}

/// Every path of the file that names something of its crate from the root on, with its line.
fn paths_of(source: &Source) -> Vec<(Vec<String>, usize)> {
    let module = source.module.clone().unwrap_or_default();
    let mut finder = Paths { module, found: Vec::new() };
    finder.visit_file(&source.syntax);
    finder.found
}

struct Paths {
    module: Vec<String>,
    found: Vec<(Vec<String>, usize)>,
}

impl Paths {
    /// Notes a path if it begins with `crate`, or with `super` or `self` as far as those reach.
    fn note(&mut self, names: &[String], line: usize) {
        let mut base = self.module.clone();
        let rest = match names {
            [first, rest @ ..] if first == "crate" => {
                base.clear();
                rest
            }
            [first, ..] if first == "super" || first == "self" => {
                let ups = names.iter().take_while(|name| *name == "super" || *name == "self");
                let (supers, count) = ups.fold((0, 0), |(supers, count), name| {
                    (supers + usize::from(name == "super"), count + 1)
                });
                base.truncate(base.len().saturating_sub(supers));
                &names[count..]
            }
            _ => return,
        };
        base.extend(rest.iter().cloned());
        self.found.push((base, line));
    }

    /// Macros are not parsed: their arguments are searched for `crate::name`.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.note_tokens(group.stream()),
                TokenTree::Ident(ident) if ident == "crate" => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(at + 3) {
                        let names = ["crate".to_owned(), name.to_string()];
                        self.note(&names, ident.span().start().line);
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_for_tests(item_attributes(item)) {
            return;
        }
        match item {
            syn::Item::Use(item) => {
                let mut leaves = Vec::new();
                flatten(&item.tree, &mut Vec::new(), &mut leaves);
                for (path, _) in leaves {
                    self.note(&path, item.span().start().line);
                }
            }
            syn::Item::Mod(item) => {
                self.module.push(item.ident.to_string());
                visit::visit_item_mod(self, item);
                self.module.pop();
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&names, path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.note_tokens(call.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::source::parse;
    use std::path::Path;

    const ORDER: FolderOrder = FolderOrder {
        krate: "log",
        layers: &[&["error"], &["format"], &["compact", "recover"], &["write"]],
    };

    fn said(files: &[(&str, &str)]) -> Vec<String> {
        let parsed = files.iter().map(|(path, text)| parse(Path::new(path), (*text).to_owned()));
        let sources: Vec<Source> = parsed.filter_map(Result::ok).collect();
        assert_eq!(sources.len(), files.len());
        check_crate(&ORDER, &sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn imports_from_below_pass() {
        let files = [
            ("crates/log/src/lib.rs", "mod write; pub use write::Log; use recover::open;"),
            (
                "crates/log/src/write/mod.rs",
                "use crate::{compact::Job, format::block}; use self::log::X; use super::error::E;",
            ),
            (
                "crates/log/src/write/log.rs",
                "use super::Y; use super::super::recover; use std::io;",
            ),
            ("crates/log/src/format/block.rs", "#[cfg(test)] mod tests { use crate::write::Log; }"),
            ("crates/log/tests/it/main.rs", "use crate::write::Log;"),
            ("crates/other/src/format/x.rs", "use crate::write::Log;"),
        ];
        assert_eq!(said(&files), Vec::<String>::new());
    }

    #[test]
    fn an_import_against_the_order_is_an_error_however_it_is_written() {
        for text in [
            "use crate::write::Log;",
            "use crate::{error::E, write::{Log, Device}};",
            "use crate::Log;",
            "use super::super::write;",
            "fn f() { crate::write::g() }",
            "fn f() -> Vec<crate::write::Log> { Vec::new() }",
            "fn f() { assert!(crate::write::g()) }",
            "mod inner { use super::super::super::write; }",
            "use crate::recover::open;",
        ] {
            let root = "pub use write::log::{Log, Device as D};";
            let files = [("crates/log/src/lib.rs", root), ("crates/log/src/compact/job.rs", text)];
            let found = said(&files);
            assert!(
                found.len() == 1 && found[0].contains("`compact` imports from `"),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn a_module_without_a_place_is_an_error() {
        let found = said(&[("crates/log/src/bridge.rs", "use crate::write::Log;")]);
        assert!(found.len() == 1 && found[0].contains("`bridge` has no place"), "{found:?}");
    }

    #[test]
    fn a_place_without_a_module_is_noticed() {
        let files = ["error", "format/x", "compact/x", "write/x"];
        let parsed = files.map(|name| format!("crates/log/src/{name}.rs"));
        let sources: Vec<Source> =
            parsed.iter().filter_map(|path| parse(Path::new(path), String::new()).ok()).collect();
        let found: Vec<String> =
            places_without_module(&ORDER, &sources).iter().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].contains("no module `recover`"), "{found:?}");
    }

    #[test]
    fn no_module_has_two_places() {
        for order in FOLDERS {
            let mut seen = BTreeSet::new();
            for module in order.layers.iter().flat_map(|layer| layer.iter()) {
                assert!(seen.insert(module), "{}: {module}", order.krate);
            }
        }
    }
}

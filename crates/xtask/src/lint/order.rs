//! The dependency order: which crate may depend on which.
//!
//! Every crate below `crates/` has a place in `policy::ORDER`; a dependency on one of ours that its
//! place does not name is an error, and so is a crate without a place, because the order is only worth
//! something while it is complete. Dependencies of tests are looser: a test may use a simulator that the
//! code under test must not know.
//!
//! A crate has the name of its folder; its package has the same name with [`manifest::PREFIX`], so that
//! it cannot be confused with one of a registry.

use super::manifest::{self, Use};
use super::policy::{ORDER, Place};
use super::{Finding, Severity, sorted_entries};
use std::io;
use std::path::{Path, PathBuf};

/// Checks the manifest of every crate below `root/crates`.
///
/// # Errors
/// When a directory or manifest cannot be read.
pub(super) fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for directory in sorted_entries(&root.join("crates"))? {
        let path = directory.join("Cargo.toml");
        if path.is_file() {
            let text = std::fs::read_to_string(&path)?;
            let shown = path.strip_prefix(root).unwrap_or(&path).to_owned();
            findings.extend(check_manifest(&text, &shown));
        }
    }
    Ok(findings)
}

fn check_manifest(text: &str, shown: &Path) -> Vec<Finding> {
    let error =
        |what: String| Finding { severity: Severity::Error, file: PathBuf::from(shown), what };
    let Some(package) = manifest::package_name(text) else {
        return vec![error("has no package name".to_owned())];
    };
    let folder = shown.parent().and_then(Path::file_name).unwrap_or_default();
    let expected = manifest::package_of(&folder.to_string_lossy());
    if package != expected {
        return vec![error(format!("package `{package}` must be called `{expected}`"))];
    }
    let name = manifest::crate_of(&package);
    let Some(place) = ORDER.iter().find(|place| place.name == name) else {
        return vec![error(format!(
            "crate `{name}` has no place in the dependency order; give it one in xtask's policy.rs"
        ))];
    };
    manifest::dependencies(text)
        .into_iter()
        .filter(|(dependency, _)| ORDER.iter().any(|place| place.name == dependency))
        .filter(|(dependency, use_)| !allowed(place, dependency, *use_))
        .map(|(dependency, use_)| {
            let who = if use_ == Use::Tests { "the tests of " } else { "" };
            error(format!("{who}`{name}` must not depend on `{dependency}` (dependency order)"))
        })
        .collect()
}

fn allowed(place: &Place, dependency: &str, use_: Use) -> bool {
    place.may_use.contains(&dependency)
        || use_ == Use::Tests
            && (dependency == place.name || place.tests_may_use.contains(&dependency))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_has_no_cycles() {
        for (position, place) in ORDER.iter().enumerate() {
            for used in place.may_use {
                let below = ORDER[..position].iter().any(|other| other.name == *used);
                assert!(below, "{} may use {used}, which is not below it", place.name);
            }
        }
    }
}

//! Every dependency on others' code is chosen: it has a line in `docs/dependencies.md` that says why.

use super::{Finding, Severity};
use std::io;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = "docs/dependencies.md";

/// Checks that each of the workspace's dependencies is explained.
///
/// # Errors
/// When a file that is there cannot be read.
pub(super) fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let manifest = root.join("Cargo.toml");
    if !manifest.is_file() {
        return Ok(Vec::new());
    }
    let manifest = std::fs::read_to_string(manifest)?;
    let document = root.join(DOCUMENT);
    let explained =
        if document.is_file() { std::fs::read_to_string(document)? } else { String::new() };
    Ok(others(&manifest)
        .filter(|name| !explains(&explained, name))
        .map(|name| Finding {
            severity: Severity::Error,
            file: PathBuf::from(DOCUMENT),
            what: format!("says nothing of `{name}`: why is it here, what do we still write?"),
        })
        .collect())
}

/// The names in `[workspace.dependencies]` that are not crates of this workspace.
fn others(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#') && !line.contains("path ="))
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim())
}

/// Whether the first column of a row names the crate.
fn explains(document: &str, name: &str) -> bool {
    let cells = document.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    cells.flat_map(|cell| cell.split(',')).any(|word| word.trim() == name)
}

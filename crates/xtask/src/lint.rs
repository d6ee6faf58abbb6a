//! The house rules, and what was found against them.
//!
//! ```text
//!   Cargo.toml of each crate ──► order          which crate may depend on which
//!   *.rs below crates/ ─ source ┬► files        length, essay, name, unsafe
//!                               ├► types        fields and lines of impl
//!                               ├► errors       are types, not texts
//!                               ├► folders      imports within a crate
//!   *.md ───────────────────────┴► words        words that comments and documents do without
//!   ARCHITECTURE.md, tests/README.md ──► documents   say what policy and files say
//!   workspace.dependencies   ──► dependencies   each has its line in docs/dependencies.md
//! ```
//!
//! The rules themselves (the order of the crates, the limits, the files that may hold `unsafe`) are data
//! in `policy`: to change a rule is to change a line there, in a commit that says why.

mod dependencies;
mod documents;
mod errors;
mod files;
mod folders;
mod manifest;
mod order;
mod policy;
mod source;
mod types;
mod words;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// How bad a finding is: errors fail the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Breaks a rule.
    Error,
    /// Comes near to breaking one.
    Warning,
}

/// One thing that was found, with where.
#[derive(Debug)]
pub(crate) struct Finding {
    /// Whether it fails the check.
    pub(crate) severity: Severity,
    /// The file, relative to the workspace.
    pub(crate) file: PathBuf,
    /// What is wrong and what to do.
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: {}: {}", self.file.display(), self.what)
    }
}

/// Checks the workspace in `root` against all rules.
///
/// # Errors
/// When a file or directory of the workspace cannot be read.
pub(crate) fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let mut findings = order::check(root)?;
    let sources = source::read_all(root, &mut findings)?;
    findings.extend(files::check(&sources));
    findings.extend(types::check(&sources));
    findings.extend(errors::check(&sources));
    findings.extend(folders::check(&sources));
    findings.extend(words::check(root, &sources)?);
    findings.extend(documents::check(root, &sources)?);
    findings.extend(dependencies::check(root)?);
    findings.sort_by(|a, b| a.file.cmp(&b.file).then_with(|| a.what.cmp(&b.what)));
    Ok(findings)
}

/// The entries of a directory in a fixed order.
fn sorted_entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = std::fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

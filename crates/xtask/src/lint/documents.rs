//! Documents that repeat what the code says, checked against it.
//!
//! The crate table of `ARCHITECTURE.md` is `policy::ORDER` for readers: the same crates in the same
//! order, each with what it may use. `tests/README.md` names every fuzz target.

use super::policy::{ORDER, Place};
use super::{Finding, Severity, sorted_entries};
use std::io;
use std::path::{Path, PathBuf};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const TESTS: &str = "tests/README.md";

/// Checks the documents of the workspace in `root`; one that is not there says nothing wrong.
///
/// # Errors
/// When a file that is there cannot be read.
pub(super) fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    if root.join(ARCHITECTURE).is_file() {
        let text = std::fs::read_to_string(root.join(ARCHITECTURE))?;
        findings
            .extend(check_table(&text, ORDER).into_iter().map(|what| error(ARCHITECTURE, what)));
    }
    let targets = root.join("fuzz/fuzz_targets");
    if targets.is_dir() && root.join(TESTS).is_file() {
        let text = std::fs::read_to_string(root.join(TESTS))?;
        for target in sorted_entries(&targets)? {
            let name = target.file_stem().unwrap_or_default().to_string_lossy();
            if !text.contains(&format!("`{name}`")) {
                findings.push(error(TESTS, format!("does not name the fuzz target `{name}`")));
            }
        }
    }
    Ok(findings)
}

fn error(file: &str, what: String) -> Finding {
    Finding { severity: Severity::Error, file: PathBuf::from(file), what }
}

/// What the table says otherwise than the policy.
fn check_table(document: &str, order: &[Place]) -> Vec<String> {
    let rows: Vec<(Vec<&str>, Vec<&str>)> = document
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
            Some((quoted(cells.first()?), quoted(cells.last()?)))
        })
        .collect();
    let mut wrong = Vec::new();
    let named: Vec<&str> = rows.iter().flat_map(|(names, _)| names.clone()).collect();
    let expected: Vec<&str> = order.iter().map(|place| place.name).collect();
    if named != expected {
        wrong.push(format!(
            "its table has the crates {}, in policy.rs they are {}",
            named.join(", "),
            expected.join(", ")
        ));
    }
    for (names, may_use) in &rows {
        for place in order.iter().filter(|place| names.contains(&place.name)) {
            if may_use != place.may_use {
                wrong.push(format!(
                    "its table says that `{}` may use {}; in policy.rs: {}",
                    place.name,
                    list(may_use),
                    list(place.may_use)
                ));
            }
        }
    }
    wrong
}

/// What stands between backquotes in a cell.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Crates as a cell of the table lists them.
fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: &[Place] = &[
        Place { name: "base", may_use: &[], tests_may_use: &[] },
        Place { name: "redo", may_use: &["base"], tests_may_use: &[] },
    ];

    #[test]
    fn the_table_says_what_the_policy_says() {
        let head = "text\n\n| crate | what it is | may use |\n| --- | --- | --- |\n";
        let base = "| `base` | words, `Lsn` | |\n";
        let verdict = |rows: &str| check_table(&format!("{head}{rows}\nmore\n"), PLACES);
        assert_eq!(
            verdict(&format!("{base}| `redo` | the log | `base` |\n")),
            Vec::<String>::new()
        );
        for (rows, complaint) in [
            (
                format!("{base}| `redo` | the log | `base`, `env` |\n"),
                "`redo` may use `base`, `env`",
            ),
            (format!("{base}| `redo` | the log | |\n"), "`redo` may use nothing"),
            (format!("| `redo` | the log | `base` |\n{base}"), "the crates redo, base"),
            (base.to_owned(), "the crates base, in"),
        ] {
            let wrong = verdict(&rows);
            assert!(wrong.len() == 1 && wrong[0].contains(complaint), "{rows}: {wrong:?}");
        }
    }
}

//! Documents that repeat what the code says, checked against it.
//!
//! The crate table of `ARCHITECTURE.md` is `policy::ORDER` for readers: the same crates in the same
//! order, each with what it may use. `tests/README.md` names every fuzz target. A command of cargo's in a
//! comment or in `tests/README.md` names a package that there is.

use super::manifest::package_of;
use super::policy::{ORDER, Place};
use super::source::Source;
use super::{Finding, Severity, sorted_entries, words};
use std::io;
use std::path::{Path, PathBuf};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const TESTS: &str = "tests/README.md";

/// Checks the documents of the workspace in `root`; one that is not there says nothing wrong.
///
/// # Errors
/// When a file that is there cannot be read.
pub(super) fn check(root: &Path, sources: &[Source]) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for source in sources {
        let shown = source.shown.to_string_lossy();
        let comments = words::comments(&source.text).into_iter();
        let unknown = comments.flat_map(|(number, comment)| unknown_packages(number, &comment));
        findings.extend(unknown.map(|what| error(&shown, what)));
    }
    if root.join(ARCHITECTURE).is_file() {
        let text = std::fs::read_to_string(root.join(ARCHITECTURE))?;
        findings
            .extend(check_table(&text, ORDER).into_iter().map(|what| error(ARCHITECTURE, what)));
    }
    let targets = root.join("fuzz/fuzz_targets");
    if targets.is_dir() && root.join(TESTS).is_file() {
        let text = std::fs::read_to_string(root.join(TESTS))?;
        let lines = text.lines().enumerate();
        let unknown = lines.flat_map(|(index, line)| unknown_packages(index + 1, line));
        findings.extend(unknown.map(|what| error(TESTS, what)));
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

/// The packages that the commands of cargo's in a line name, and that are none of ours.
fn unknown_packages(number: usize, line: &str) -> Vec<String> {
    if !line.contains("`cargo ") {
        return Vec::new();
    }
    let ends = |c: char| !c.is_alphanumeric() && c != '-';
    let names = line.split(" -p ").skip(1).filter_map(|rest| rest.split(ends).next());
    let unknown = names.filter(|name| ORDER.iter().all(|place| package_of(place.name) != **name));
    unknown
        .map(|name| format!("line {number}: there is no package `{name}` (indelible-FOLDER)"))
        .collect()
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
    fn a_command_names_a_package_that_there_is() {
        for fine in ["`cargo test -p indelible-redo`, `cargo run -p xtask`", "mkdir -p redo"] {
            assert_eq!(unknown_packages(1, fine), Vec::<String>::new());
        }
        let found = unknown_packages(2, "`cargo test --release -p redo --test it`");
        assert!(found.len() == 1 && found[0].contains("line 2: there is no package `redo`"));
    }

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

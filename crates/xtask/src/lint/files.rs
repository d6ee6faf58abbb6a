//! Rules of a source file: its length, its essay, its name, `unsafe`.
//!
//! Items that are compiled for tests only do not count towards the length of a file, wherever they
//! stand, and files of tests may be long. `unsafe` is looked for in code only: comments, strings and
//! the names of lints do not count.

use super::policy::{EMPTY_NAMES, LINES_ERROR, LINES_WARNING, UNSAFE_FILES};
use super::source::Source;
use super::{Finding, Severity};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Checks every Rust file.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut named: BTreeSet<PathBuf> = BTreeSet::new();
    for source in sources {
        named.extend(source.shown.ancestors().map(Path::to_owned));
    }
    let mut findings: Vec<Finding> = named.iter().filter_map(|path| check_name(path)).collect();
    for source in sources {
        findings.extend(check_text(source));
    }
    findings
}

fn error(shown: &Path, what: String) -> Finding {
    Finding { severity: Severity::Error, file: shown.to_owned(), what }
}

fn check_name(shown: &Path) -> Option<Finding> {
    let name = shown.file_stem()?.to_str()?;
    EMPTY_NAMES.contains(&name).then(|| {
        error(shown, format!("`{name}` does not say what it is for; name it after its one job"))
    })
}

fn check_text(source: &Source) -> Vec<Finding> {
    let Source { shown, text, .. } = source;
    let mut findings = Vec::new();
    if !text.starts_with("//! ") {
        findings
            .push(error(shown, "does not start with a `//!` essay: what is it for?".to_owned()));
    }
    let tests: usize = source.test_lines().into_iter().map(Iterator::count).sum();
    let lines = text.lines().count() - tests;
    if !source.is_test() && lines > LINES_WARNING {
        let severity = if lines > LINES_ERROR { Severity::Error } else { Severity::Warning };
        let what =
            format!("has {lines} lines without tests (limit {LINES_WARNING}); split it by job");
        findings.push(Finding { severity, file: shown.clone(), what });
    }
    let allowed = UNSAFE_FILES.iter().any(|file| shown == Path::new(file));
    if !allowed && let Some(line) = first_unsafe(text) {
        let what = format!("line {line}: `unsafe` outside the files that may hold it (policy.rs)");
        findings.push(error(shown, what));
    }
    findings
}

/// The number of the first line whose code has the keyword `unsafe`.
fn first_unsafe(text: &str) -> Option<usize> {
    text.lines().position(has_unsafe_code).map(|index| index + 1)
}

fn has_unsafe_code(line: &str) -> bool {
    let code = without_strings(line.split("//").next().unwrap_or_default());
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| word == "unsafe")
}

/// The line without what stands between double quotes, as far as one line shows it.
fn without_strings(line: &str) -> String {
    let (mut code, mut in_string, mut escaped) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            '"' if !escaped => in_string = !in_string,
            _ if !in_string => code.push(c),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_is_seen_in_code_only() {
        assert!(has_unsafe_code("    unsafe { read(pointer) }"));
        assert!(has_unsafe_code("pub unsafe fn read() {} // why"));
        assert!(!has_unsafe_code("    // unsafe { read(pointer) }"));
        assert!(!has_unsafe_code("#![expect(unsafe_code, reason = \"…\")]"));
        assert!(!has_unsafe_code("let text = \"unsafe \\\" unsafe { }\";"));
    }
}

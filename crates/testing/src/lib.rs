//! What tests of several crates share.
//!
//! A test that needs root, a program or a kernel's part that is not there says so and ends: a change of something else should not take its
//! installation. Where all tests must run that would hide one that never does. There `INDELIBLE_SKIPS` names a list of what may be missing, and a test that
//! is skipped for want of anything else fails. `.ci/run` sets it to `tests/skips.txt`.

use std::fmt::Display;
use std::path::Path;

/// Says that a test is skipped for want of `what`, and why.
///
/// # Panics
/// If `INDELIBLE_SKIPS` is set, and the list does not have `what`.
#[track_caller]
pub fn skipped(what: &str, why: impl Display) {
    println!("skipped for want of {what}: {why}");
    if let Some(list) = std::env::var_os("INDELIBLE_SKIPS") {
        let list = Path::new(&list);
        let text = std::fs::read_to_string(list);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", list.display()));
        assert!(
            has(&text, what),
            "a test needs {what}: {why}. Install it (tests/install-tools), or add it to {}",
            list.display()
        );
    }
}

/// Whether a list has this as a line. What is behind a `#` explains it.
fn has(list: &str, what: &str) -> bool {
    list.lines().filter_map(|line| line.split('#').next()).any(|line| line.trim() == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_what_may_be_missing() {
        let list = "# what may be missing\nnft\nan outer address  # a sandbox\n";
        assert!(has(list, "nft") && has(list, "an outer address"));
        assert!(!has(list, "an outer") && !has(list, "what may be missing") && !has(list, "root"));
    }
}

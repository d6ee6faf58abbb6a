//! `cargo xtask`: the chores of this repository that are programs rather than commands.
//!
//! ```text
//! cargo xtask lint [DIR]                 check the house rules of the workspace in DIR (default: here)
//! cargo xtask soak [--minutes N] [--seed S] [--tests]
//!                                        run the simulator for N minutes from seed S, and on request
//!                                        the tests marked `#[ignore]`
//! ```
//!
//! `lint` checks what the compiler and clippy cannot know: which crate may depend on which
//! (`lint::order`) and which folder on which (`lint::folders`), how large a type may get
//! (`lint::types`) and how long a file, whether it explains itself, what it may be called and where
//! `unsafe` may stand (`lint::files`), and which words comments do without (`lint::words`). It
//! needs nothing but the files and compiles none of them, so it is quick. An error ends it with exit code 1; warnings are only printed.

mod lint;
mod soak;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo xtask lint [DIR] | cargo xtask soak [--minutes N] [--seed S] [--tests]";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("lint") => lint_workspace(arguments.next().map_or_else(workspace_root, PathBuf::from)),
        Some("soak") => soak::run(&workspace_root(), arguments),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The directory of the workspace that this program was built from.
fn workspace_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn lint_workspace(root: PathBuf) -> ExitCode {
    let findings = match lint::check(&root) {
        Ok(findings) => findings,
        Err(error) => {
            eprintln!("error: cannot read the workspace in {}: {error}", root.display());
            return ExitCode::from(2);
        }
    };
    for finding in &findings {
        println!("{finding}");
    }
    let errors =
        findings.iter().filter(|finding| finding.severity == lint::Severity::Error).count();
    println!("xtask lint: {errors} errors, {} warnings", findings.len() - errors);
    if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! Tells the program which commit it is built from.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=INDELIBLE_COMMIT");
    let given = std::env::var("INDELIBLE_COMMIT").ok();
    let commit = given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    // What moves with the commit: HEAD, and the branch that it names.
    for name in ["HEAD".to_owned()].into_iter().chain(git(&["symbolic-ref", "-q", "HEAD"])) {
        if let Some(path) = git(&["rev-parse", "--git-path", &name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rustc-env=INDELIBLE_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// What git says, where it is installed and this is a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

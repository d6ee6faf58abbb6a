//! Runs `xtask lint` on small workspaces made for the purpose, one violation each, and on this one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn workspace(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

fn lint(root: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).arg("lint").arg(root).output().unwrap()
}

/// Lints a workspace of these files and gives whether it passed and what it printed.
fn verdict(files: &[(&str, &str)]) -> (bool, String) {
    let root = workspace(files);
    let output = lint(root.path());
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

const ESSAY: &str = "//! A file with one job.\n";

fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"indelible-{name}\"\n\n{rest}\n")
}

#[test]
fn this_workspace_keeps_the_rules() {
    let output = lint(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn allowed_dependencies_pass() {
    let (passed, said) = verdict(&[
        ("crates/base/Cargo.toml", &manifest("base", "")),
        ("crates/base/src/lib.rs", ESSAY),
        (
            "crates/redo/Cargo.toml",
            &manifest(
                "redo",
                "[dependencies]\nbase.workspace = true\nthiserror = \"2\"\n[dev-dependencies]\nenv-sim.workspace = true",
            ),
        ),
        ("crates/redo/src/lib.rs", ESSAY),
    ]);
    assert!(passed, "{said}");
    assert!(said.contains("0 errors"), "{said}");
}

#[test]
fn a_dependency_against_the_order_is_an_error() {
    for (name, dependency) in [
        ("base", "redo"),
        ("keyspace", "redo"),
        ("redo", "keyspace"),
        ("resp", "base"),
        ("command", "server"),
    ] {
        let manifest = manifest(name, &format!("[dependencies]\n{dependency}.workspace = true"));
        let (passed, said) = verdict(&[(&format!("crates/{name}/Cargo.toml"), &manifest)]);
        assert!(!passed, "{name} → {dependency} was not caught");
        assert!(
            said.contains(&format!("`{name}` must not depend on `{dependency}`")),
            "{name} → {dependency}: {said}"
        );
    }
}

#[test]
fn what_tests_may_use_the_code_may_not() {
    let code = manifest("redo", "[dependencies]\nenv-sim.workspace = true");
    let (passed, said) = verdict(&[("crates/redo/Cargo.toml", &code)]);
    assert!(!passed && said.contains("must not depend on `env-sim`"), "{said}");
}

#[test]
fn a_renamed_dependency_is_seen_through() {
    let renamed = manifest(
        "keyspace",
        "[dependencies]\nlog = { package = \"indelible-redo\", path = \"../redo\" }",
    );
    let (passed, said) = verdict(&[("crates/keyspace/Cargo.toml", &renamed)]);
    assert!(!passed && said.contains("must not depend on `redo`"), "{said}");
}

#[test]
fn a_package_without_our_prefix_is_an_error() {
    let manifest = "[package]\nname = \"base\"\n";
    let (passed, said) = verdict(&[("crates/base/Cargo.toml", manifest)]);
    assert!(!passed && said.contains("must be called `indelible-base`"), "{said}");
}

#[test]
fn a_crate_without_a_place_is_an_error() {
    let (passed, said) = verdict(&[("crates/extra/Cargo.toml", &manifest("extra", ""))]);
    assert!(!passed && said.contains("no place in the dependency order"), "{said}");
}

#[test]
fn a_long_file_warns_and_a_very_long_one_fails() {
    let with_lines = |count: usize| format!("{ESSAY}{}", "fn f() {}\n".repeat(count - 1));
    let base = manifest("base", "");
    let lint_length = |text: &str| {
        verdict(&[("crates/base/Cargo.toml", &base), ("crates/base/src/lib.rs", text)])
    };
    let (passed, said) = lint_length(&with_lines(600));
    assert!(passed && said.contains("0 errors, 0 warnings"), "{said}");
    let (passed, said) = lint_length(&with_lines(601));
    assert!(passed && said.contains("0 errors, 1 warnings"), "{said}");
    let (passed, said) = lint_length(&with_lines(1001));
    assert!(!passed && said.contains("has 1001 lines"), "{said}");
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "fn t() {}\n".repeat(2000));
    let tests_between = format!("{}{tests}{}", with_lines(300), "fn f() {}\n".repeat(300));
    let (passed, said) = lint_length(&tests_between);
    assert!(passed && said.contains("0 errors, 0 warnings"), "{said}");
}

#[test]
fn a_file_without_an_essay_a_name_or_safety_is_an_error() {
    let base = manifest("base", "");
    for (file, text, complaint) in [
        ("crates/base/src/lib.rs", "fn f() {}\n", "does not start with a `//!` essay"),
        ("crates/base/src/utils.rs", ESSAY, "does not say what it is for"),
        ("crates/base/src/helpers/x.rs", ESSAY, "does not say what it is for"),
        (
            "crates/base/src/lib.rs",
            "//! Essay.\nfn f() {\n    unsafe { g() }\n}\n",
            "line 3: `unsafe` outside the files",
        ),
    ] {
        let (passed, said) = verdict(&[("crates/base/Cargo.toml", &base), (file, text)]);
        assert!(!passed && said.contains(complaint), "{file}: {said}");
    }
}

#[test]
fn a_dependency_that_nobody_explains_is_an_error() {
    let root = "[workspace.dependencies]\nbase = { path = \"crates/base\" }\nmio = \"1\"\nsha1 = \"1\"\n\n[profile.dev]\nx = 1\n";
    let base = manifest("base", "");
    let verdict = |document| {
        let files = [
            ("Cargo.toml", root),
            ("crates/base/Cargo.toml", &base),
            ("docs/dependencies.md", document),
        ];
        verdict(&files)
    };
    let (passed, said) = verdict("| crate | why |\n| sha1, mio | epoll |\n");
    assert!(passed, "{said}");
    let (passed, said) = verdict("| crate | why |\n| sha1 | not mio |\n");
    assert!(!passed && said.contains("says nothing of `mio`"), "{said}");
}

#[test]
fn a_workspace_that_cannot_be_read_is_said_so() {
    let nothing = tempfile::tempdir().unwrap();
    let output = lint(&nothing.path().join("absent"));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read the workspace"));
}

//! `indelible doctor`, of a directory and of a server that runs.

use std::process::{Command, Output};

use serde_json::Value;

use crate::process::Program;

fn doctor(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("doctor").args(arguments).env_remove("REDISCLI_AUTH").output().unwrap()
}

/// The findings, and whether one is to be looked at; the exit code says the same.
fn findings(arguments: &[&str]) -> Vec<Value> {
    let output = doctor(&[arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let findings: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_good = findings.iter().all(|finding| finding["is_good"] == true);
    assert_eq!(output.status.code(), Some(if is_good { 0 } else { 2 }), "{text}");
    findings
}

fn seen<'a>(findings: &'a [Value], of: &str, what: &str) -> &'a str {
    let wanted = |it: &&Value| it["of"] == of && it["what"] == what;
    let finding = findings.iter().find(wanted);
    finding.unwrap_or_else(|| panic!("{of}, {what}: {findings:?}"))["seen"].as_str().unwrap()
}

#[test]
fn a_directory_is_looked_at_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let found = findings(&[place]);
    assert!(seen(&found, place, "syncs").contains("p99"), "{found:?}");
    assert!(seen(&found, place, "room").contains("free"), "{found:?}");
    assert!(seen(&found, "machine", "open files").contains("at most"), "{found:?}");
    assert_eq!(std::fs::read_dir(place).unwrap().count(), 0);
    let text = String::from_utf8(doctor(&[place]).stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("ok    ")), "{text}");
    let wrong = doctor(&["/nonexistent/data"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("/nonexistent/data"), "{wrong:?}");
}

#[test]
fn a_server_is_asked_and_its_directories_are_looked_at() {
    let mut server = Program::indelible().start(&[]);
    let address = format!("127.0.0.1:{}", server.port);
    let found = findings(&[&address]);
    assert_eq!(seen(&found, &address, "log"), "ok");
    assert_eq!(seen(&found, &address, "durability"), "always");
    let directory = server.directory().canonicalize().unwrap();
    assert!(seen(&found, directory.to_str().unwrap(), "syncs").contains("p50"));
    assert_eq!(server.connect().words("SET k v").text(), "OK");
    server.kill();
    let away = doctor(&[&address]);
    assert_eq!(away.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&away.stderr).contains(&address), "{away:?}");
}

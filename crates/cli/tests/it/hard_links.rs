//! A data directory that was copied by hard links, as scripts for backups do: neither side may change
//! what the other one reads.

use crate::process::{PATIENCE, Program};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Copies a data directory by hard links.
fn linked_copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-al").args([from, to]).status().unwrap().success());
}

/// The files of the log in a directory, with their contents.
fn segments(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory.join("redo")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "redo") {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    assert!(!found.is_empty());
    found
}

fn verify(directory: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["log", "verify"])
        .arg(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_compaction_leaves_linked_files_as_they_are() {
    let copies = tempfile::tempdir().unwrap();
    let mut server = Program::indelible().start(&["--log-compaction", "no"]);
    let mut connection = server.connect();
    for version in 0..3 {
        for key in 0..200 {
            let value = format!("{version}").repeat(1000);
            assert_eq!(connection.words(&format!("SET key:{key} {value}")).text(), "OK");
        }
    }
    let copy = copies.path().join("copy");
    linked_copy(&server.directory(), &copy);
    let before = segments(&copy);
    assert_eq!(connection.words("CHECKPOINT").text(), "OK");
    let started = Instant::now();
    while !connection.words("INFO redo").text().contains("redo_compacting:0")
        || connection.words("INFO redo").text().contains("redo_reclaimed_bytes:0\r")
    {
        assert!(started.elapsed() < PATIENCE, "the compaction does not end");
    }
    for (path, bytes) in before {
        let now = std::fs::read(&path).unwrap();
        // The one that is written goes on, perhaps over zeros.
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        assert!(
            now.starts_with(&bytes[..end]),
            "{} was {} bytes, is {}",
            path.display(),
            bytes.len(),
            now.len()
        );
    }
    // The lock is linked, too: while one of them is open the other one is not.
    server.kill();
    verify(&copy);
    verify(&server.directory());
}

#[test]
fn a_server_on_a_linked_copy_leaves_the_original_as_it_is() {
    let copies = tempfile::tempdir().unwrap();
    let mut server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    for key in 0..200 {
        assert_eq!(connection.words(&format!("SET key:{key} original")).text(), "OK");
    }
    server.kill();
    let copy = copies.path().join("copy");
    linked_copy(&server.directory(), &copy);
    let before = segments(&server.directory());
    let mut other = Program::indelible().start_on(&copy, &[]);
    for key in 0..200 {
        assert_eq!(other.connect().words(&format!("SET key:{key} other")).text(), "OK");
    }
    other.kill();
    assert_eq!(segments(&server.directory()), before);
    server.restart();
    assert_eq!(server.connect().words("GET key:7").text(), "original");
    assert_eq!(server.connect().words("DBSIZE").text(), "200");
}

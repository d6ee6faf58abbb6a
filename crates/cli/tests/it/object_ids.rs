//! The numbers of large objects over restarts: none is ever given to another object.

use crate::process::{Program, Server, wait_until};
use std::process::Command;

/// The lines that `log dump` says of roots: kind, key, object.
fn roots(server: &Server) -> Vec<(String, u64)> {
    let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["log", "dump"])
        .arg(server.directory())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| line.contains(" db ") && line.contains(" object "));
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "object").unwrap();
        (words[1].to_owned(), words[at + 1].parse().unwrap())
    };
    lines.map(of_line).collect()
}

#[test]
fn an_object_that_was_deleted_and_compacted_away_leaves_its_number_taken() {
    let mut server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    for field in 0..1000 {
        assert_eq!(connection.words(&format!("HSET h f{field} v")).text(), "1");
    }
    connection.words("DEL h");
    assert!(!connection.words("BGREWRITEAOF").is_error());
    wait_until(|| {
        let info = connection.words("INFO redo").text();
        info.contains("redo_compacting:0\r") && info.contains("redo_records:0\r")
    });
    for _ in 0..2 {
        server.terminate();
        assert_eq!(server.wait_for_exit(), Some(0));
        assert_eq!(roots(&server), [], "nothing names the hash any more");
        server.restart();
    }
    let mut connection = server.connect();
    for member in 0..1000 {
        assert_eq!(connection.words(&format!("ZADD z 1 m{member}")).text(), "1");
    }
    server.kill();
    let roots = roots(&server);
    assert!(!roots.is_empty());
    assert!(roots.iter().all(|root| *root == ("ZSet".to_owned(), 2)), "1 was the hash: {roots:?}");
}

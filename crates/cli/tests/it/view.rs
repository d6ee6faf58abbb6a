//! `indelible view` and `indelible restore --keys`: the past, to be read, and single keys of it brought back.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::damage::said;
use crate::process::{Program, Server, wait_until};
use crate::rdb_files::{digest_of, fill};
use crate::wire::Connection;

const OPTIONS: [&str; 6] =
    ["--enable-debug-command", "yes", "--appendfsync", "always", "--log-history-seconds", "600"];

/// A server in which everything was deleted, and what it had before.
fn flushed() -> (Server, String) {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    fill(&mut connection);
    for words in [
        "SET user:1 one",
        "SET user:2 two PX 600000",
        "SET user:gone x PX 100000",
        "SELECT 3",
        "SET user:3 three",
    ] {
        assert!(!connection.words(words).is_error(), "{words}");
    }
    let digest = digest_of(&mut connection);
    assert_eq!(connection.words("FLUSHALL").text(), "OK");
    (server, digest)
}

fn keys(server: &Server, to: &Server, more: &[&str]) -> Output {
    let to = format!("127.0.0.1:{}", to.port);
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command
        .arg("restore")
        .arg(server.directory())
        .args(["--before", "flush", "--keys", "user:*", "--to", &to]);
    command.args(more).output().unwrap()
}

#[test]
fn a_view_shows_what_there_was_and_takes_nothing() {
    let (server, digest) = flushed();
    let source = server.directory();
    let temporary = tempfile::tempdir().unwrap();
    let program = format!(
        "{} view {} --before flush --temporary {} --",
        env!("CARGO_BIN_EXE_indelible"),
        source.display(),
        temporary.path().display()
    );
    let mut view = Program::of_words(&program).start(&OPTIONS);
    let mut connection = view.connect();
    assert_eq!(digest_of(&mut connection), digest);
    let left_ms = |connection: &mut Connection| -> i64 {
        connection.words("PTTL user:2").text().parse().unwrap()
    };
    let (before, looked) = (left_ms(&mut connection), Instant::now());
    let reply = connection.words("SET user:1 other").text();
    assert!(reply.starts_with("READONLY"), "{reply}");
    // The server of now goes on, and the time of the view does not.
    assert_eq!(server.connect().words("SET user:1 new").text(), "OK");
    assert_eq!(connection.words("GET user:1").text(), "one");
    wait_until(|| looked.elapsed() > Duration::from_millis(50));
    assert_eq!(left_ms(&mut connection), before);
    view.terminate();
    assert_eq!(view.wait_for_exit(), Some(0));
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0, "what it was made of is gone");
}

#[test]
fn single_keys_come_back_and_nothing_is_replaced_unasked() {
    let (server, _) = flushed();
    let mut connection = server.connect();
    connection.words("SET user:1 newer");
    let output = keys(&server, &server, &["--expiry", "relative"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("3 keys are back"), "{}", said(&output));
    assert!(said(&output).contains("1 are there and stay"), "{}", said(&output));
    assert_eq!(connection.words("GET user:1").text(), "newer");
    assert_eq!(connection.words("GET user:2").text(), "two");
    let left: i64 = connection.words("PTTL user:2").text().parse().unwrap();
    assert!((1..=600_000).contains(&left), "{left}");
    assert_eq!(connection.words("DBSIZE").text(), "3", "no others came");
    connection.words("SELECT 3");
    assert_eq!(connection.words("GET user:3").text(), "three");

    let other = Program::indelible().start(&OPTIONS);
    let output = keys(&server, &other, &["--replace", "--expiry", "never"]);
    assert!(output.status.success(), "{}", said(&output));
    let mut connection = other.connect();
    assert_eq!(connection.words("GET user:1").text(), "one");
    assert_eq!(connection.words("PTTL user:gone").text(), "-1");
    let output = keys(&server, &other, &["--replace"]);
    assert!(output.status.success(), "{}", said(&output));
    let left: i64 = connection.words("PTTL user:2").text().parse().unwrap();
    assert!((1..=600_000).contains(&left), "{left}");
}

#[test]
fn what_cannot_be_viewed_is_said_and_leaves_nothing() {
    let (server, _) = flushed();
    let temporary = tempfile::tempdir().unwrap();
    for words in [
        &["view", "--at", "99999999"][..],
        &["restore", "--at", "99999999", "--keys", "*", "--to", "127.0.0.1:1"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
        command
            .arg(words[0])
            .arg(server.directory())
            .args(&words[1..])
            .arg("--temporary")
            .arg(temporary.path());
        let output = command.output().unwrap();
        assert!(!output.status.success() && !said(&output).is_empty(), "{}", said(&output));
        assert_eq!(temporary.path().read_dir().unwrap().count(), 0, "{}", said(&output));
    }
}

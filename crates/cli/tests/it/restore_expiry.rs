//! `indelible restore --expiry`: when keys of the past expire in what is restored.

use std::path::Path;
use std::process::Command;

use crate::damage::said;
use crate::process::{Program, wait_until};
use crate::wire::Connection;

const OPTIONS: [&str; 4] = ["--appendfsync", "always", "--log-history-seconds", "600"];

fn restored(source: &Path, into: &Path, expiry: &str) -> crate::process::Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("restore").arg(source).args(["--at", "then", "--expiry", expiry, "--into"]);
    let output = command.arg(into).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    Program::indelible().start_on(into, &OPTIONS)
}

fn number(connection: &mut Connection, words: &str) -> i64 {
    connection.words(words).text().parse().unwrap()
}

#[test]
fn times_to_live_are_as_they_were_or_go_on_from_then_or_are_none() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    for words in [
        "SET plain v",
        "SET hour v PX 3600000",
        "HSET hash f v",
        "PEXPIRE hash 3600000",
        "RPUSH list a b",
        "PEXPIRE list 7200000",
        // Of the state after the transaction, whatever the clock does.
        "MULTI",
        "SET short v PX 400",
        "BACKUP CREATE then",
    ] {
        assert!(!connection.words(words).is_error(), "{words}");
    }
    assert!(!connection.words("EXEC").is_error());
    let keys = ["hour", "hash", "list"];
    let times = keys.map(|key| number(&mut connection, &format!("PEXPIRETIME {key}")));
    wait_until(|| number(&mut connection, "EXISTS short") == 0);
    let target = tempfile::tempdir().unwrap();
    let dir = |name: &str| target.path().join(name);
    let here = server.directory();

    let absolute = restored(&here, &dir("absolute"), "absolute");
    let mut of = absolute.connect();
    assert_eq!(keys.map(|key| number(&mut of, &format!("PEXPIRETIME {key}"))), times);
    assert_eq!(number(&mut of, "EXISTS short"), 0);

    let never = restored(&here, &dir("never"), "never");
    let mut of = never.connect();
    assert_eq!(keys.map(|key| number(&mut of, &format!("PTTL {key}"))), [-1; 3]);
    assert_eq!(of.words("GET short").text(), "v");
    assert_eq!(of.words("HGET hash f").text(), "v");

    let relative = restored(&here, &dir("relative"), "relative");
    let mut of = relative.connect();
    let shifts = keys.map(|key| number(&mut of, &format!("PEXPIRETIME {key}")));
    let shifts: Vec<i64> = shifts.iter().zip(times).map(|(later, time)| later - time).collect();
    assert!(shifts[0] >= 300 && shifts.iter().all(|shift| *shift == shifts[0]), "{shifts:?}");
    assert_eq!(number(&mut of, "PTTL plain"), -1);

    // It had expired at the moment that is wanted, and stays so.
    assert!(!connection.words("BACKUP CREATE later").is_error());
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("restore").arg(&here).args(["--at", "later", "--expiry", "never", "--into"]);
    let output = command.arg(dir("later")).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let later = Program::indelible().start_on(&dir("later"), &OPTIONS);
    let mut of = later.connect();
    assert_eq!(number(&mut of, "EXISTS short"), 0);
    assert_eq!(number(&mut of, "PTTL hour"), -1);

    let refused = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["restore", here.to_str().unwrap(), "--at", "then", "--in-place"])
        .args(["--expiry", "never"])
        .output()
        .unwrap();
    assert!(!refused.status.success() && said(&refused).contains("--into"), "{}", said(&refused));
}

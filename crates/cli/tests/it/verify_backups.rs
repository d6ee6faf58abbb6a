//! BACKUP VERIFY, and `indelible backup verify DIR`: what is good is called good, and what is damaged by name.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::damage::said;
use crate::process::{Program, Server, wait_until};
use crate::wire::{Connection, Reply};

/// Small segments that are compacted soon, and no history but what backups need.
const OPTIONS: [&str; 8] = [
    "--appendfsync",
    "always",
    "--log-history-seconds",
    "0",
    "--log-segment-bytes",
    "1mb",
    "--log-compaction-invalid-min",
    "100",
];

fn verify(directory: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(["backup", "verify"]).arg(directory).args(more).output().unwrap()
}

fn info(connection: &mut Connection, field: &str) -> String {
    let text = connection.words("INFO everything").text();
    let prefix = format!("{field}:");
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("{field}: {text}")).trim().to_owned()
}

fn overwrite(connection: &mut Connection, tag: &str) {
    for number in 0..4000 {
        let words = format!("SET k{} {tag}-{number}-{}", number % 700, "v".repeat(300));
        assert!(!connection.words(&words).is_error());
    }
}

fn compact(connection: &mut Connection) {
    assert!(!connection.words("BGREWRITEAOF").is_error());
    wait_until(|| info(connection, "aof_rewrite_in_progress") == "0");
}

fn field(map: &Reply, name: &str) -> String {
    let fields = map.elements();
    let at = fields.iter().step_by(2).position(|field| field.text() == name).unwrap();
    fields[2 * at + 1].text()
}

fn verified(connection: &mut Connection) -> String {
    wait_until(|| info(connection, "backup_verify_state") != "running");
    info(connection, "backup_verify_state")
}

/// The files of history, and which of them the first backup needs: they were replaced before the second one.
fn history(directory: &Path) -> Vec<PathBuf> {
    let dir = directory.join("redo/history");
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Makes two backups. Returns what was replaced between them.
fn make_one_and_two(server: &Server, connection: &mut Connection) -> Vec<PathBuf> {
    overwrite(connection, "first");
    assert!(!connection.words("BACKUP CREATE one").is_error());
    overwrite(connection, "second");
    compact(connection);
    let of_one = history(&server.directory());
    assert!(!connection.words("BACKUP CREATE two").is_error());
    of_one
}

#[test]
fn a_backup_with_a_turned_bit_is_called_damaged_and_the_others_are_good() {
    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    assert_eq!(info(&mut connection, "backup_verify_state"), "never");
    let of_one = make_one_and_two(&server, &mut connection);
    overwrite(&mut connection, "third");
    compact(&mut connection);
    let before = connection.words("BACKUP STATUS one");
    assert_eq!(field(&before, "verified"), "never");
    assert_eq!(connection.words("BACKUP VERIFY").text(), "Backup verification started");
    assert_eq!(verified(&mut connection), "good");
    for name in ["one", "two"] {
        let status = connection.words(&format!("BACKUP STATUS {name}"));
        assert_eq!(
            (field(&status, "verified"), field(&status, "verified_error")),
            ("good".to_owned(), String::new())
        );
        assert!(field(&status, "verified_time_ms").parse::<i64>().unwrap() > 0);
    }
    assert!(connection.words("BACKUP VERIFY none").text().contains("there is no backup none"));
    // While it runs, from outside, too.
    let output = verify(&server.directory(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(said(&output).matches(": block").count(), 3, "{}", said(&output));
    let damaged = of_one.first().expect("something was replaced").clone();
    let mut bytes = std::fs::read(&damaged).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    std::fs::write(&damaged, bytes).unwrap();
    assert!(!connection.words("BACKUP VERIFY").is_error());
    assert_eq!(verified(&mut connection), "damaged");
    let one = connection.words("BACKUP STATUS one");
    assert_eq!(field(&one, "verified"), "damaged");
    // It is what it was found to be wherever it is told of.
    assert_eq!(
        (field(&one, "state"), field(&one, "verified_percent")),
        ("damaged".to_owned(), "100".to_owned())
    );
    assert_eq!(info(&mut connection, "backups_lost"), "1");
    let listed = connection
        .words("BACKUP LIST")
        .elements()
        .iter()
        .map(|it| field(it, "state"))
        .collect::<Vec<_>>();
    assert_eq!(listed, ["damaged", "restorable"]);
    let error = field(&one, "verified_error");
    assert!(error.contains(damaged.file_name().unwrap().to_str().unwrap()), "{error}");
    assert_eq!(field(&connection.words("BACKUP STATUS two"), "verified"), "good");
    assert!(server.log().contains("backup one"), "{}", server.log());
    server.kill();
    let output = verify(&server.directory(), &["--json"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let states = value["states"].as_array().unwrap();
    let told: Vec<_> =
        states.iter().map(|it| (it["name"].as_str(), it["state"].as_str())).collect();
    assert_eq!(
        told,
        [(Some("one"), Some("damaged")), (Some("two"), Some("good")), (None, Some("good"))]
    );
    assert_eq!(verify(&server.directory(), &["--backup", "two"]).status.code(), Some(0));
    std::fs::remove_file(&damaged).unwrap();
    let output = verify(&server.directory(), &["--backup", "one"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("LOST"), "{}", said(&output));
    let output = verify(&server.directory(), &["--backup", "three"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

/// With the window on all blocks are looked at for what states there are: a damaged one does not end that.
#[test]
fn damage_in_place_and_in_history_is_told_by_backup_with_the_window_on() {
    let options = [&OPTIONS[..], &["--log-history-seconds", "600"]].concat();
    let mut server = Program::indelible().start(&options);
    let mut connection = server.connect();
    // Nothing of it is garbage: no file is replaced.
    for number in 0..6000 {
        let words = format!("SET d{number} {}", "v".repeat(300));
        assert!(!connection.words(&words).is_error());
    }
    assert!(!connection.words("BACKUP CREATE one").is_error());
    assert!(!connection.words("BACKUP VERIFY").is_error());
    assert_eq!(verified(&mut connection), "good");
    let names = std::fs::read_dir(server.directory().join("redo")).unwrap();
    let files = names.map(|entry| entry.unwrap().path());
    // The log begins with it.
    let first = files.filter(|path| path.extension() == Some("redo".as_ref())).min().unwrap();
    let name = first.file_name().unwrap().to_str().unwrap();
    let good = std::fs::read(&first).unwrap();
    let mut bytes = good.clone();
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    std::fs::write(&first, &bytes).unwrap();
    assert!(!connection.words("BACKUP VERIFY").is_error());
    assert_eq!(verified(&mut connection), "damaged");
    let one = connection.words("BACKUP STATUS one");
    assert_eq!(field(&one, "verified"), "damaged");
    assert!(field(&one, "verified_error").contains(name), "{one:?}");
    server.kill();
    let output = verify(&server.directory(), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert_eq!(said(&output).matches("DAMAGED").count(), 2, "{}", said(&output));
    // A file that does not end as it must: the log cannot be opened at all, and no state can be restored.
    let mut bytes = good;
    let len = bytes.len();
    bytes[len - 100..].fill(7);
    std::fs::write(&first, &bytes).unwrap();
    let output = verify(&server.directory(), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains(name), "{}", said(&output));
}

#[test]
fn what_is_damaged_keeps_no_backup_from_being_restored_that_does_not_need_it() {
    let options = [&OPTIONS[..], &["--log-history-seconds", "600"]].concat();
    let mut server = Program::indelible().start(&options);
    let mut connection = server.connect();
    let of_one = make_one_and_two(&server, &mut connection);
    server.kill();
    let damaged = of_one.first().expect("something was replaced");
    let mut bytes = std::fs::read(damaged).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    std::fs::write(damaged, bytes).unwrap();
    let indelible = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_indelible")).args(words).output().unwrap()
    };
    let (from, parent) = (server.directory(), tempfile::tempdir().unwrap());
    let from = from.to_str().unwrap();
    let restore = |at: &str| {
        let into = parent.path().join(at);
        indelible(&["restore", from, "--into", into.to_str().unwrap(), "--at", at])
    };
    // Whether the first one needs it depends on when it was replaced.
    let is_one_good = verify(Path::new(from), &["--backup", "one"]).status.success();
    let restored = ["one", "two"].map(|name| restore(name).status.success());
    assert_eq!(restored, [is_one_good, true]);
    let by_time = restore("-1s");
    assert!(said(&by_time).contains("--at LSN"), "{}", said(&by_time));
    let output = indelible(&["backup", "list", from, "--json"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = listed["backups"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
    assert!(names.eq(["one", "two"]), "{listed}");
    assert!(listed["unread"].as_str().unwrap().contains("corrupt"), "{listed}");
}

//! Named backups of a server: made at once, kept over compactions, restarts and kills, restored by name; and what
//! the timeline says of dangerous commands.

use std::path::Path;
use std::process::{Command, Output};

use crate::damage::said;
use crate::process::{Program, wait_until};
use crate::rdb_files::digest_of;
use crate::wire::{Connection, Reply};

/// Small segments that are compacted soon, and no history but what backups need.
const OPTIONS: [&str; 10] = [
    "--enable-debug-command",
    "yes",
    "--appendfsync",
    "everysec",
    "--log-history-seconds",
    "0",
    "--log-segment-bytes",
    "1mb",
    "--log-compaction-invalid-min",
    "100",
];

fn indelible(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_indelible")).args(words).output().unwrap()
}

fn restore(source: &Path, into: &Path, point: &[&str]) -> Output {
    let mut words = vec!["restore", source.to_str().unwrap(), "--into", into.to_str().unwrap()];
    words.extend(point);
    indelible(&words)
}

fn digest_in(directory: &Path) -> String {
    let server = Program::indelible().start_on(directory, &OPTIONS);
    digest_of(&mut server.connect())
}

fn info(connection: &mut Connection, field: &str) -> u64 {
    let text = connection.words("INFO everything").text();
    let prefix = format!("{field}:");
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("{field}: {text}")).trim().parse().unwrap()
}

fn overwrite(connection: &mut Connection, tag: &str) {
    for number in 0..4000 {
        assert!(
            !connection
                .words(&format!("SET k{} {tag}-{number}-{}", number % 700, "v".repeat(300)))
                .is_error()
        );
    }
}

fn compact(connection: &mut Connection) {
    assert!(!connection.words("BGREWRITEAOF").is_error());
    wait_until(|| info(connection, "aof_rewrite_in_progress") == 0);
}

/// A field of a map.
fn field(map: &Reply, name: &str) -> String {
    let fields = map.elements();
    let at = fields.iter().step_by(2).position(|field| field.text() == name).unwrap();
    fields[2 * at + 1].text()
}

#[test]
fn a_backup_holds_its_state_without_history_until_it_is_deleted() {
    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    overwrite(&mut connection, "first");
    let first = digest_of(&mut connection);
    let made = connection.words("BACKUP CREATE nightly").elements().to_vec();
    assert_eq!(
        (made[0].text().as_str(), made[3].text().as_str()),
        ("b-000000", "in history until it is deleted")
    );
    // Acknowledged is durable, whatever appendfsync says.
    server.kill();
    server.restart();
    let mut connection = server.connect();
    overwrite(&mut connection, "second");
    compact(&mut connection);
    let second = digest_of(&mut connection);
    assert_eq!(connection.words("BACKUP CREATE").elements()[0].text(), "b-000001");
    overwrite(&mut connection, "third");
    compact(&mut connection);
    let held = info(&mut connection, "backups_held_bytes");
    assert!(held > 0 && info(&mut connection, "history_bytes") >= held);
    assert_eq!(info(&mut connection, "backups"), 2);
    let target = tempfile::tempdir().unwrap();
    for (name, digest) in [("nightly", &first), ("b-000001", &second)] {
        let into = target.path().join(name);
        let output = restore(&server.directory(), &into, &["--at", name]);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(&digest_in(&into), digest, "{name}");
    }
    let of_new = indelible(&["backup", "list", target.path().join("nightly").to_str().unwrap()]);
    assert!(said(&of_new).contains("there are no backups"), "{}", said(&of_new));
    let output = restore(&server.directory(), &target.path().join("none"), &["--at", "weekly"]);
    assert!(said(&output).contains("there are: nightly, b-000001"), "{}", said(&output));
    for name in ["nightly", "b-000001"] {
        assert_eq!(connection.words(&format!("BACKUP DELETE {name}")).text(), "OK");
    }
    wait_until(|| info(&mut connection, "history_files") == 0);
    server.kill();
    let output = indelible(&["backup", "list", server.directory().to_str().unwrap(), "--json"]);
    assert!(said(&output).contains(r#"{"backups":[]}"#), "{}", said(&output));
}

#[test]
fn what_is_refused_says_what_to_do() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    let mut refused = |words: &str, part: &str| {
        let reply = connection.words(words);
        assert!(reply.is_error() && reply.text().contains(part), "{words}: {}", reply.text());
    };
    refused("BACKUP CREATE a/b", "1 to 64 letters");
    refused("BACKUP CREATE x AT 99999", "there is no block 99999");
    refused("BACKUP CREATE x AT flush", "no FLUSHALL");
    refused("BACKUP CREATE x AT -30d", "give a block");
    refused("BACKUP CREATE x AT soon", "so long ago as in -90s");
    refused("BACKUP CREATE x AT 2026-11-22T10:31:05.ééZ", "so long ago as in -90s");
    refused("BACKUP DELETE x", "there is no backup x");
    refused("BACKUP STATUS x", "see BACKUP LIST");
    refused("BACKUP SEAL", "BACKUP START begins one");
    let mut connection = server.connect();
    assert!(!connection.words("BACKUP CREATE x").is_error());
    let reply = connection.words("BACKUP CREATE x");
    assert!(reply.text().contains("there is a backup of this name, b-000000"), "{}", reply.text());
    let server = Program::indelible().start(&["--appendonly", "no", "--save", ""]);
    let reply = server.connect().words("BACKUP CREATE x");
    assert!(reply.text().contains("CONFIG SET appendonly yes"), "{}", reply.text());
}

#[test]
fn the_verbs_of_redis_seal_what_there_is_then() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    let state = |connection: &mut Connection| field(&connection.words("BACKUP STATUS"), "state");
    assert_eq!(state(&mut connection), "idle");
    assert_eq!(connection.words("BACKUP START").text(), "OK");
    assert_eq!(state(&mut connection), "incrementing");
    connection.words("SET a sealed");
    assert_eq!(connection.words("BACKUP SEAL").text(), "OK");
    assert_eq!(state(&mut connection), "sealed");
    connection.words("SET a later");
    let target = tempfile::tempdir().unwrap();
    let output = restore(&server.directory(), &target.path().join("sealed"), &["--at", "sealed"]);
    assert!(output.status.success(), "{}", said(&output));
    let restored = Program::indelible().start_on(&target.path().join("sealed"), &OPTIONS);
    assert_eq!(restored.connect().words("GET a").text(), "sealed");
    assert_eq!(connection.words("BACKUP CLEANUP").text(), "OK");
    assert_eq!(state(&mut connection), "idle");
    assert_eq!(connection.words("BACKUP START").text(), "OK");
    assert_eq!(connection.words("BACKUP ABORT").text(), "OK");
    assert_eq!(state(&mut connection), "failed");
}

#[test]
fn the_timeline_says_which_command_has_lost_what() {
    let options = [&OPTIONS[..], &["--log-history-seconds", "600"]].concat();
    let mut server = Program::indelible().start(&options);
    let mut connection = server.connect();
    assert_eq!(connection.words("FLUSHALL").text(), "OK");
    connection.words("SET a 1");
    connection.words("SWAPDB 0 0");
    connection.words("SET b 1");
    connection.words("DEL b");
    connection.words("CONFIG SET requirepass secret maxmemory-samples 7");
    connection.words("MULTI");
    connection.words("BACKUP CREATE whole");
    connection.words("SET a 2");
    assert!(!connection.words("EXEC").is_error());
    connection.words("FLUSHDB");
    connection.words("SET c 1");
    connection.words("BACKUP CREATE undo AT flush");
    let entries = connection.words("BACKUP TIMELINE COUNT 50").elements().to_vec();
    let events: Vec<String> = entries.iter().map(|entry| field(entry, "event")).collect();
    assert_eq!(events, ["command", "point", "backup", "backup", "command"], "{entries:?}");
    assert_eq!(field(&entries[0], "command"), "\"FLUSHDB\"");
    assert_eq!(field(&entries[0], "user"), "default");
    assert!(field(&entries[0], "address").starts_with("127.0.0.1:"));
    let set = field(&entries[4], "command");
    assert!(set.contains("(redacted)") && !set.contains("secret"), "{set}");
    let target = tempfile::tempdir().unwrap();
    server.kill();
    let shown = indelible(&["backup", "timeline", server.directory().to_str().unwrap()]);
    assert!(said(&shown).contains("\"FLUSHDB\" by default from 127.0.0.1:"), "{}", said(&shown));
    let expected = [
        (&["--at", "whole"][..], "a", "2"),
        (&["--at", "undo"], "a", "2"),
        (&["--before", "flush"], "a", "2"),
        (&["--before-delete", "b"], "b", "1"),
        (&["--before-delete", "a"], "a", "2"),
    ];
    for (at, (point, key, value)) in expected.into_iter().enumerate() {
        let into = target.path().join(at.to_string());
        let output = restore(&server.directory(), &into, point);
        assert!(output.status.success(), "{point:?}: {}", said(&output));
        let restored = Program::indelible().start_on(&into, &OPTIONS);
        assert_eq!(restored.connect().words(&format!("GET {key}")).text(), value, "{point:?}");
    }
    let into = target.path().join("none");
    let output = restore(&server.directory(), &into, &["--before", "flush:2"]);
    assert!(said(&output).contains("the log tells of 1"), "what was empty was not emptied");
    let output = restore(&server.directory(), &into, &["--before-delete", "never"]);
    assert!(said(&output).contains("does not tell of a deletion of never"), "{}", said(&output));
}

/// What a backup says of the server that has made it: without secrets, next to what is restored, and never applied.
#[test]
fn a_backup_carries_the_configuration_and_no_secret() {
    let options = [&OPTIONS[..], &["--hz", "37"]].concat();
    let mut server = Program::indelible().start(&options);
    let mut connection = server.connect();
    // Not at its start: what waits for the server to answer has no password.
    for words in [
        "SET k v",
        "CONFIG SET maxmemory 123mb",
        "CONFIG SET requirepass hunter2",
        "BACKUP CREATE then",
    ] {
        let reply = connection.words(words);
        assert!(!reply.is_error(), "{words}: {reply:?}");
    }
    assert!(!connection.words("CONFIG SET hz 11").is_error());
    // Before the manifest has it, perhaps, and after a start that has read the note.
    server.kill();
    let target = tempfile::tempdir().unwrap();
    for round in ["note", "manifest"] {
        let shown = indelible(&["backup", "show", "then", server.directory().to_str().unwrap()]);
        let text = said(&shown);
        for line in ["hz 37", "maxmemory 123mb", "# requirepass is set, and left out here"] {
            assert!(text.lines().any(|it| it == line), "{round}, {line}: {text}");
        }
        assert!(!text.contains("hunter2"), "{text}");
        let into = target.path().join(round);
        let output = restore(&server.directory(), &into, &["--at", "then"]);
        assert!(output.status.success(), "{}", said(&output));
        let written = std::fs::read_to_string(into.join("indelible.conf.restored")).unwrap();
        assert!(written.lines().any(|line| line == "hz 37"), "{written}");
        let restored = Program::indelible().start_on(&into, &OPTIONS);
        let mut connection = restored.connect();
        assert_eq!(connection.words("CONFIG GET hz").elements()[1].text(), "10", "not applied");
        server.restart();
        assert_eq!(server.connect().words("GET k").text(), "v");
        server.kill();
    }
}

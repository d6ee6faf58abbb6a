//! `indelible restore --in-place`: the data directory of a server that has ended is set back, and set back to what it was before.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use redo::manifest::{Manifest, Rewind};

use crate::damage::said;
use crate::process::{Program, Server, free_port, wait_until};
use crate::rdb_files::{digest_of, fill};
use crate::wire::{Connection, Reply};

/// Small segments that are compacted soon.
const OPTIONS: [&str; 12] = [
    "--enable-debug-command",
    "yes",
    "--log-history-seconds",
    "600",
    "--log-segment-bytes",
    "1mb",
    "--log-compaction-invalid-min",
    "100",
    "--log-index",
    "yes",
    "--save",
    "",
];

fn in_place(directory: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("restore").arg(directory).arg("--in-place").args(more).output().unwrap()
}

fn info(connection: &mut Connection, field: &str) -> u64 {
    let text = connection.words("INFO everything").text();
    let prefix = format!("{field}:");
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("{field}: {text}")).trim().parse().unwrap()
}

fn compact(connection: &mut Connection) {
    assert!(!connection.words("BGREWRITEAOF").is_error());
    wait_until(|| info(connection, "aof_rewrite_in_progress") == 0);
}

/// Overwrites and deletes until told to stop.
fn load(port: u16, seed: u64, stop: &AtomicBool) {
    let mut connection = Connection::open(port).unwrap();
    let mut number = seed;
    while !stop.load(Ordering::Relaxed) {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let key = (number >> 33) % 40;
        let words = match (number >> 50) % 5 {
            0..3 => format!("SET load:{key} {number}:{}", "v".repeat(300)),
            3 => format!("HSET load:hash f{key} {number}:{}", "v".repeat(100)),
            _ => format!("DEL load:{key}"),
        };
        if connection.call(&words.split(' ').collect::<Vec<_>>()).is_err() {
            return;
        }
    }
}

/// Waits until so many commands more were executed.
fn wait_for_commands(connection: &mut Connection, count: u64) {
    let before = info(connection, "total_commands_processed");
    wait_until(|| info(connection, "total_commands_processed") > before + count);
}

/// The state before everything is deleted, and that it is: in one step, with others writing.
fn flush_among_others(connection: &mut Connection) -> String {
    for words in ["MULTI", "DEBUG DIGEST", "FLUSHALL"] {
        assert!(!connection.words(words).is_error());
    }
    connection.words("EXEC").elements()[0].text()
}

/// The name of the backup that a restore in place has made, from what it said.
fn backup_of(output: &Output) -> String {
    let text = said(output);
    let after = text.split("--in-place --at ").nth(1).unwrap_or_else(|| panic!("{text}"));
    after.split_whitespace().next().unwrap().to_owned()
}

/// A field of a map.
fn field(map: &Reply, name: &str) -> String {
    let fields = map.elements();
    let at = fields.iter().step_by(2).position(|field| field.text() == name).unwrap();
    fields[2 * at + 1].text()
}

fn digest(server: &Server) -> String {
    digest_of(&mut server.connect())
}

#[test]
fn flushall_in_the_middle_of_writes_is_undone_in_place_and_that_is_undone() {
    for policy in ["always", "everysec"] {
        let options = [&OPTIONS[..], &["--appendfsync", policy]].concat();
        let mut server: Server = Program::indelible().start(&options);
        let mut connection = server.connect();
        fill(&mut connection);
        let (stop, port) = (AtomicBool::new(false), server.port);
        let before = scope(|scope| {
            (1..3).for_each(|seed| {
                let stop = &stop;
                scope.spawn(move || load(port, seed, stop));
            });
            wait_for_commands(&mut connection, 3000);
            let before = flush_among_others(&mut connection);
            wait_for_commands(&mut connection, 2000);
            compact(&mut connection);
            wait_for_commands(&mut connection, 500);
            stop.store(true, Ordering::Relaxed);
            before
        });
        let after = digest_of(&mut connection);
        let directory = server.directory();
        let refused = in_place(&directory, &["--before", "flush"]);
        assert!(!refused.status.success());
        assert!(said(&refused).contains("another process uses this data directory"), "{refused:?}");
        server.kill();
        let output = in_place(&directory, &["--before", "flush"]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(!directory.join("index/manifest").exists(), "it knows another log");
        let undo = backup_of(&output);
        server.restart();
        assert_eq!(digest(&server), before, "{policy}: {}", said(&output));
        let mut connection = server.connect();
        assert_eq!(connection.words("SET of-the-new life").text(), "OK");
        let status = connection.words(&format!("BACKUP STATUS {undo}"));
        assert_eq!(field(&status, "state"), "restorable");
        let timeline = connection.words("BACKUP TIMELINE");
        let events = timeline.elements().iter();
        let commands = events.filter(|event| field(event, "event") == "command");
        let mut texts = commands.map(|command| field(command, "command"));
        assert!(texts.any(|text| text.contains("--in-place --before flush")), "{timeline:?}");
        compact(&mut connection);
        // By the index that the new life has.
        server.kill();
        server.restart();
        let changed = digest(&server);
        assert_ne!(changed, before);
        server.terminate();
        server.wait_for_exit();
        let output = in_place(&directory, &["--at", &undo]);
        assert!(output.status.success(), "{}", said(&output));
        let redo = backup_of(&output);
        server.restart();
        assert_eq!(digest(&server), after, "{policy}");
        server.kill();
        // And once more: what was done after the first undo.
        assert!(in_place(&directory, &["--at", &redo]).status.success());
        server.restart();
        assert_eq!(digest(&server), changed, "{policy}");
        let mut connection = server.connect();
        assert_eq!(connection.words("GET of-the-new").text(), "life");
        for name in [&undo, &redo] {
            assert_eq!(connection.words(&format!("BACKUP DELETE {name}")).text(), "OK");
        }
    }
}

#[test]
fn an_interrupted_one_refuses_the_server_and_is_finished_by_the_same_command() {
    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    assert_eq!(connection.words("SET k v").text(), "OK");
    server.terminate();
    server.wait_for_exit();
    let directory = server.directory();
    // As it is between two of its steps: here none is left to be taken.
    let mut manifest = Manifest::read(&env_os::OsDisk, &directory).unwrap().unwrap();
    let (to, at) = (manifest.durable_lsn, manifest.durable_lsn.next());
    manifest.rewinds.list.push(Rewind { to, at, time_ms: 1 });
    manifest.rewinds.unfinished = Some(Vec::new());
    (manifest.durable_lsn, manifest.horizon) = (at, at);
    manifest.write(&env_os::OsDisk, &directory).unwrap();
    let path = directory.to_str().unwrap();
    let port = free_port().to_string();
    let words: [&[&str]; 4] = [
        &["server", "--dir", path, "--port", &port],
        &["log", "verify", path],
        &["log", "repair", path, "--yes"],
        &["backup", "list", path],
    ];
    for words in words {
        let refused = Command::new(env!("CARGO_BIN_EXE_indelible")).args(words).output().unwrap();
        assert!(!refused.status.success(), "{words:?}");
        assert!(said(&refused).contains("run the same command again"), "{}", said(&refused));
    }
    let output = in_place(&directory, &["--at", "1"]);
    assert!(said(&output).contains("what was begun before and interrupted is finished"));
    // It was not the one that was begun.
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("run it again"), "{}", said(&output));
    server.restart();
    assert_eq!(server.connect().words("GET k").text(), "v");
}

#[test]
fn what_cannot_be_set_back_is_refused_and_stays() {
    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    assert_eq!(connection.words("SET k v").text(), "OK");
    let before = digest_of(&mut connection);
    server.terminate();
    server.wait_for_exit();
    let directory = server.directory();
    let empty = tempfile::tempdir().unwrap();
    for (words, part) in [
        (&["--latest"][..], "there is nothing to undo"),
        (&["--before", "flush"], "the log tells of 0"),
        (&["--at", "99999"], "there is no block 99999"),
        (&["--at", "weekly"], "there is no backup weekly"),
        (&["--latest", "--into", "/tmp/x"], "cannot be used with"),
        (&["--latest", "--dry-run"], "cannot be used with"),
        (&["--at", "1", "--device", empty.path().to_str().unwrap()], "is no device of this log"),
    ] {
        let output = in_place(&directory, words);
        assert!(!output.status.success(), "{words:?}");
        assert!(said(&output).contains(part), "{words:?}: {}", said(&output));
    }
    let archive = in_place(Path::new("file:///nowhere"), &["--latest"]);
    assert!(said(&archive).contains("an archive is restored --into"), "{}", said(&archive));
    let none = in_place(empty.path(), &["--latest"]);
    assert!(said(&none).contains("there is no redo log"), "{}", said(&none));
    // Files that root makes are of no use to a server of another user.
    if rustix::process::geteuid().is_root() {
        let owned = |user| {
            std::os::unix::fs::chown(directory.join("redo.manifest"), Some(user), None).unwrap();
        };
        owned(65534);
        let output = in_place(&directory, &["--at", "1"]);
        assert!(!output.status.success());
        assert!(said(&output).contains("belongs to user 65534"), "{}", said(&output));
        owned(0);
    }
    server.restart();
    assert_eq!(digest(&server), before);
}

/// What was undone is no part of the log any more, though history has it: a consumer must not be told of it.
#[test]
fn the_change_stream_gives_out_nothing_from_before() {
    let mut server = Program::indelible().start(&["--log-segment-bytes", "1mb"]);
    let mut connection = server.connect();
    for number in 0..50 {
        assert_eq!(connection.words(&format!("SET key:{number} kept")).text(), "OK");
    }
    assert_eq!(connection.words("FLUSHALL").text(), "OK");
    assert_eq!(connection.words("SET undone 1").text(), "OK");
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    let undone = in_place(&server.directory(), &["--before", "flush"]);
    assert!(undone.status.success(), "{undone:?}");
    for from in ["1", "51", "52"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
        command.args(["log", "tail"]).arg(server.directory()).args(["--from", from]);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!((output.status.code(), text.as_str()), (Some(3), ""), "{output:?}");
    }
    server.restart();
    let gone = server.connect().words("LOGTAIL 0").text();
    assert!(gone.starts_with("LOGGONE block 1 is gone"), "{gone}");
}

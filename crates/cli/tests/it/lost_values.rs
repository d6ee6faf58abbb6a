//! Damage where the log has the only copy: what is lost is lost by name, for ever, and nothing else is.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::devices::segment_files;
use crate::instant_start::info;
use crate::larger_than_memory::find;
use crate::log_index::wait_for_a_cut;
use crate::process::{Program, Server, wait_until};
use crate::wire::Connection;

/// No value stays in memory.
const OPTIONS: [&str; 12] = [
    "--enable-protected-configs",
    "yes",
    "--log-index",
    "yes",
    "--log-index-cut-bytes",
    "1mb",
    "--debug-drop-values",
    "100",
    "--log-scrub-bytes-per-second",
    "0",
    // Each life has one file.
    "--log-preallocate",
    "no",
];

const NEAR: usize = 200;
const FIELDS: usize = 100;
/// Fills a group.
const PADDING: usize = 30;

fn value(name: &str) -> String {
    format!("<{name}>").repeat(400 / (name.len() + 2))
}

/// Strings, and hashes, of which some will be lost. Others are lost with them, because they are in the
/// same groups: those are padding.
fn fill(connection: &mut Connection, life: &str) {
    let mut set = |name: String| {
        assert_eq!(connection.words(&format!("SET {name} {}", value(&name))).text(), "OK");
    };
    (0..NEAR / 2).for_each(|number| set(format!("{life}:near:{number}")));
    (0..PADDING).for_each(|number| set(format!("{life}:padding:{number}")));
    set(format!("{life}:lost"));
    (0..PADDING).for_each(|number| set(format!("{life}:more-padding:{number}")));
    (NEAR / 2..NEAR).for_each(|number| set(format!("{life}:near:{number}")));
    for key in ["sound", "lost-hash"] {
        for number in 0..FIELDS {
            let field = format!("{life}:{key}:{number}");
            let command = format!("HSET {life}:{key} {field} {}", value(&field));
            assert_eq!(connection.words(&command).text(), "1");
        }
    }
}

/// Turns a bit of the bytes that have this, where they are now.
fn damage(server: &Server, needle: &str) -> PathBuf {
    let (path, at) = find(server, needle.as_bytes());
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at as u64).unwrap();
    path
}

fn is_in(directory: &Path, name: &str) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| entry.unwrap().file_name() == name)
}

/// All that a life has written is there, but what is `lost`.
fn check(server: &Server, life: &str, lost: &[&str]) {
    let mut connection = server.connect();
    let mut get = |command: String, key: &str, expected: &str| {
        let reply = connection.words(&command);
        if lost.contains(&key) {
            assert!(
                reply.is_error() && reply.text().starts_with("CORRUPT "),
                "{command}: {reply:?}"
            );
        } else {
            assert_eq!(reply.text(), expected, "{command}");
        }
    };
    for number in 0..NEAR {
        let name = format!("{life}:near:{number}");
        get(format!("GET {name}"), "near", &value(&name));
    }
    let name = format!("{life}:lost");
    get(format!("GET {name}"), "lost", &value(&name));
    for number in 0..FIELDS {
        for key in ["sound", "lost-hash"] {
            let field = format!("{life}:{key}:{number}");
            get(format!("HGET {life}:{key} {field}"), key, &value(&field));
        }
    }
}

/// What is lost is there.
fn check_names(server: &Server, life: &str) {
    let mut connection = server.connect();
    for (key, is_type) in [("lost", "string"), ("lost-hash", "hash")] {
        assert_eq!(connection.words(&format!("TYPE {life}:{key}")).text(), is_type);
        assert_eq!(connection.words(&format!("EXISTS {life}:{key}")).text(), "1");
    }
}

fn wait_until_warm(server: &Server) {
    wait_until(|| info(server, "recovery_state") == "done");
}

/// Two files, each with a string and a field of a hash that are damaged and in no memory.
fn damaged() -> Server {
    let mut server = Program::indelible().start(&OPTIONS);
    for life in ["a", "b"] {
        fill(&mut server.connect(), life);
        if life == "a" {
            wait_for_a_cut(&server);
        }
        // What is written after a start goes to another file.
        server.kill();
        server.restart();
        wait_until_warm(&server);
        // The next start must not read what will be damaged.
        let figure = |name: &str| info(&server, name).parse::<u64>().unwrap();
        wait_until(|| figure("redo_index_cut_lsn") + 1 >= figure("redo_open_lsn"));
    }
    server
}

/// Waits until the log alone has the values of all keys.
fn wait_until_cold(server: &Server) {
    let number_of = |name: &str| info(server, name).parse::<u64>().unwrap();
    let all: u64 = keys(server).parse().unwrap();
    wait_until(|| number_of("cold_values") + number_of("cold_keys") >= all);
}

const LOST: [&str; 2] = ["lost", "lost-hash"];

fn lost_values(server: &Server) -> u64 {
    info(server, "lost_values").parse().unwrap()
}

fn keys(server: &Server) -> String {
    server.connect().words("DBSIZE").text()
}

#[test]
fn what_is_damaged_and_in_no_memory_is_lost_by_name_until_it_is_overwritten() {
    let server = damaged();
    let all = keys(&server);
    wait_until_cold(&server);
    let files = damage_both(&server);
    assert_eq!(lost_values(&server), 0);
    let lost = heal(&server, &files);
    // Values leave memory, and keys after them: some have lost their names.
    let is_told =
        |log: &str| log.contains("The value of key '") || log.contains("with their names");
    wait_until(|| is_told(&server.log()));
    for life in ["a", "b"] {
        check(&server, life, &LOST);
    }
    check_for_good(server, &all, lost);
}

#[test]
fn what_is_damaged_when_a_start_by_the_index_looks_for_it_is_lost_and_the_start_ends() {
    let mut server = damaged();
    let all = keys(&server);
    server.kill();
    let files = damage_both(&server);
    server.restart();
    wait_until_warm(&server);
    wait_until(|| server.log().contains("are lost, with their names"));
    assert_eq!(keys(&server), all, "they count");
    for life in ["a", "b"] {
        check(&server, life, &LOST);
    }
    let lost = heal(&server, &files);
    check_for_good(server, &all, lost);
}

#[test]
fn a_device_with_damage_is_emptied_and_what_was_lost_on_it_stays_so() {
    let mut server = damaged();
    let all = keys(&server);
    wait_until_cold(&server);
    damage_both(&server);
    let [old, new] = ["redo", "new"].map(|name| server.directory().join(name));
    let mut admin = server.connect();
    let reply = admin.call(&["CONFIG", "SET", "log-devices", new.to_str().unwrap()]).unwrap();
    assert_eq!(reply.text(), "OK");
    wait_until(|| segment_files(&old) == 0);
    let lost = lost_values(&server);
    assert!((4..4 * PADDING as u64).contains(&lost), "{lost}");
    for how in ["full", "instant"] {
        server.kill();
        let devices = ["--log-devices", new.to_str().unwrap(), "--recovery", how];
        server.restart_with(&[&OPTIONS[..], &devices].concat());
        wait_until_warm(&server);
        assert_eq!((keys(&server), lost_values(&server)), (all.clone(), lost));
        for life in ["a", "b"] {
            check(&server, life, &LOST);
            check_names(&server, life);
        }
    }
}

/// Damages both files.
fn damage_both(server: &Server) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for life in ["a", "b"] {
        files.push(damage(server, &value(&format!("{life}:lost"))));
        damage(server, &value(&format!("{life}:lost-hash:40")));
    }
    assert_ne!(files[0], files[1]);
    files
}

/// Lets the scrubber find the damage. Returns how many values are lost when the files are put aside.
fn heal(server: &Server, files: &[PathBuf]) -> u64 {
    let mut connection = server.connect();
    assert_eq!(connection.words("CONFIG SET log-scrub-bytes-per-second 1gb").text(), "OK");
    wait_until(|| info(server, "redo_scrub_healed") == "2");
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(!is_in(file.parent().unwrap(), name), "{name} is still in use");
    }
    let lost = lost_values(server);
    assert!((4..4 * PADDING as u64).contains(&lost), "{lost}");
    lost
}

/// What is lost stays so through starts of either kind, until it is overwritten or deleted.
fn check_for_good(mut server: Server, all: &str, lost: u64) {
    // The file is gone, and what it had lost stays so: whatever the start reads.
    for how in [["--recovery", "full"], ["--recovery", "instant"]] {
        server.kill();
        server.restart_with(&[&OPTIONS[..], &how].concat());
        wait_until_warm(&server);
        assert_eq!((keys(&server).as_str(), lost_values(&server)), (all, lost));
        for life in ["a", "b"] {
            check(&server, life, &LOST);
            check_names(&server, life);
        }
    }
    assert!(server.log().contains("DB opened by its index"), "{}", server.log());

    // What is written over it, or deletes it, works, and ends it.
    let mut connection = server.connect();
    let refused = connection.words("APPEND a:lost x");
    assert!(refused.is_error(), "{refused:?}");
    let new = value("a:lost");
    assert_eq!(connection.words(&format!("SET a:lost {new}")).text(), "OK");
    assert_eq!(connection.words("RENAME b:near:0 b:lost").text(), "OK");
    assert_eq!(connection.words("DEL a:lost-hash b:lost-hash").text(), "2");
    assert_eq!(lost_values(&server), lost - 4);
    for how in [["--recovery", "full"], ["--recovery", "instant"]] {
        server.kill();
        server.restart_with(&[&OPTIONS[..], &how].concat());
        wait_until_warm(&server);
        let mut connection = server.connect();
        assert_eq!(connection.words("GET a:lost").text(), new);
        assert_eq!(connection.words("GET b:lost").text(), value("b:near:0"));
        assert_eq!(connection.words("EXISTS a:lost-hash b:lost-hash").text(), "0");
        assert_eq!(lost_values(&server), lost - 4);
    }
    server.kill();
    let data = server.directory();
    let verified = std::process::Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["log", "verify", data.to_str().unwrap()])
        .output();
    assert!(verified.unwrap().status.success());
}

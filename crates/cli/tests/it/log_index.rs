//! `log-index yes`: an index is kept next to the log, through kills and compactions, and shown.

use std::path::Path;
use std::process::{Command, Output};

use crate::fault_injection::Fault;
use crate::process::{Program, Server, wait_until};
use crate::reload::fill;
use crate::wire::Connection;

const OPTIONS: [&str; 6] =
    ["--log-index", "yes", "--log-index-cut-bytes", "1mb", "--enable-debug-command", "yes"];

fn index(words: &str, directory: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    let command = command.args(["index", words]).arg(directory);
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [stdout, stderr].concat();
    (status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn figure(server: &Server, name: &str) -> u64 {
    let info = server.connect().words("INFO redo").text();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("{name} in {info}")).trim().parse().unwrap()
}

/// Has the index know all that is logged by now: a compaction of everything waits for that.
pub(crate) fn wait_for_a_cut(server: &Server) {
    let logged = figure(server, "redo_open_lsn") - 1;
    wait_until(|| {
        // The file that has the value before is compacted, and that waits for a cut behind the file.
        assert_eq!(server.connect().words("SET any thing").text(), "OK");
        server.connect().words("BGREWRITEAOF");
        figure(server, "redo_index_cut_lsn") >= logged
    });
}

/// Writes more than [`OPTIONS`] leave unindexed.
pub(crate) fn make_a_cut_due(connection: &mut Connection) {
    let reply = connection.call(&["SET", "large", &"v".repeat(2 << 20)]).unwrap();
    assert_eq!(reply.text(), "OK");
}

#[test]
fn an_index_is_kept_through_kills_and_compactions() {
    let mut server = Program::indelible().start(&OPTIONS);
    fill(&mut server.connect());
    wait_for_a_cut(&server);
    assert_eq!(server.connect().words("DEBUG RELOAD").text(), "OK");
    let cut = figure(&server, "redo_index_cut_lsn");
    assert_ne!(cut, 0);
    server.kill();
    let directory = server.directory();
    let (code, text) = index("verify", &directory);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(&format!("up to block {cut}")) && text.contains("good"), "{text}");
    server.restart();
    assert!(figure(&server, "redo_index_cut_lsn") >= cut, "it goes on where it was");
    wait_for_a_cut(&server);
    let (code, text) = index("rebuild", &directory);
    assert!(code == Some(1) && text.contains("in use"), "{text}");
}

#[test]
fn an_index_that_is_not_wanted_or_damaged_is_removed() {
    let mut server = Program::indelible().start(&OPTIONS);
    fill(&mut server.connect());
    wait_for_a_cut(&server);
    server.kill();
    let directory = server.directory();
    let manifest = directory.join("index/manifest");
    std::fs::write(&manifest, b"no manifest").unwrap();
    let (code, text) = index("verify", &directory);
    assert!(code == Some(1) && text.contains("manifest"), "{text}");
    server.restart();
    assert!(server.log().contains("The log index is built anew"), "{}", server.log());
    wait_for_a_cut(&server);
    server.kill();
    assert!(manifest.exists());
    server.restart_with(&["--log-index", "no"]);
    assert_eq!(figure(&server, "redo_index"), 0);
    assert!(!manifest.exists(), "what is compacted from now on is not known to it");
    assert_eq!(index("stats", &directory).0, Some(2));
}

#[test]
fn an_index_whose_disk_is_full_is_removed_until_it_has_room() {
    if !Fault::is_possible() {
        return;
    }
    let mut server = Program::indelible().start(&OPTIONS);
    fill(&mut server.connect());
    wait_for_a_cut(&server);
    let (directory, manifest) = (server.directory(), server.directory().join("index/manifest"));
    assert!(manifest.exists());
    let mut connection = server.connect();
    wait_until(|| connection.words("INFO").text().contains("aof_rewrite_in_progress:0"));
    let full = Fault::inject(&server, "indexer", "pwrite64:error=ENOSPC");
    make_a_cut_due(&mut connection);
    // What is not indexed is compacted all the same, once the index is gone.
    assert!(connection.words("BGREWRITEAOF").text().contains("started"));
    let is_given_up = || figure(&server, "redo_index_given_up") == 1;
    wait_until(|| is_given_up() && figure(&server, "redo_index_lag_bytes") == 0);
    // That it is given up is known before it is removed.
    wait_until(|| server.log().contains("The log index is removed"));
    assert!(!manifest.exists());
    wait_until(|| connection.words("INFO").text().contains("aof_rewrite_in_progress:0"));
    assert_eq!(connection.words("SET and more").text(), "OK");
    // It comes back by itself when the disk takes it again.
    drop(full);
    wait_until(|| figure(&server, "redo_index_given_up") == 0);
    assert!(server.log().contains("The log index is built anew"), "{}", server.log());
    wait_for_a_cut(&server);
    server.kill();
    assert_eq!(index("verify", &directory).0, Some(0));
    server.restart();
    assert_eq!(server.connect().words("GET and").text(), "more");
}

#[test]
fn an_index_that_can_be_neither_kept_nor_removed_is_removed_later() {
    if !Fault::is_possible() {
        return;
    }
    let server = Program::indelible().start(&OPTIONS);
    fill(&mut server.connect());
    wait_for_a_cut(&server);
    let manifest = server.directory().join("index/manifest");
    let mut connection = server.connect();
    wait_until(|| connection.words("INFO").text().contains("aof_rewrite_in_progress:0"));
    let broken = Fault::inject(&server, "indexer", "pwrite64,unlink,unlinkat:error=EIO");
    make_a_cut_due(&mut connection);
    wait_until(|| server.log().contains("can be neither kept nor removed"));
    assert!(manifest.exists());
    assert_eq!(connection.words("SET and more").text(), "OK");
    drop(broken);
    wait_until(|| server.log().contains("The log index is removed"));
    assert!(!manifest.exists());
}

/// Makes the log larger than it may be without an index (`log-index auto`).
fn fill_much(connection: &mut Connection) {
    for number in 0..70 {
        let reply = connection.call(&["SET", &format!("mb:{number}"), &"v".repeat(1 << 20)]);
        assert_eq!(reply.unwrap().text(), "OK");
    }
}

#[test]
fn an_index_is_begun_when_the_log_is_large_and_kept_from_then_on() {
    let auto = ["--log-index", "auto", "--log-index-cut-bytes", "1mb"];
    let mut server = Program::indelible().start(&auto);
    let manifest = server.directory().join("index/manifest");
    fill(&mut server.connect());
    assert_eq!(figure(&server, "redo_index"), 0);
    server.kill();
    server.restart();
    assert!(server.log().contains("DB loaded from the redo log"), "{}", server.log());
    assert_eq!(figure(&server, "redo_index"), 0);
    // What was compacted before is no matter.
    assert!(server.connect().words("BGREWRITEAOF").text().contains("started"));
    fill_much(&mut server.connect());
    wait_until(|| figure(&server, "redo_index") == 1);
    assert_eq!(server.connect().words("SET some thing").text(), "OK");
    wait_until(|| figure(&server, "redo_index_usable") == 1);
    assert!(manifest.exists());
    server.kill();
    let (code, text) = index("verify", &server.directory());
    assert!(code == Some(0) && text.contains("good"), "{text}");

    server.restart();
    assert!(server.log().contains("DB opened by its index"), "{}", server.log());
    assert_eq!(server.connect().words("GET some").text(), "thing");
    assert_eq!(server.connect().words("FLUSHALL").text(), "OK");
    fill(&mut server.connect());
    wait_until(|| {
        server.connect().words("BGREWRITEAOF");
        figure(&server, "redo_disk_bytes") < 1 << 20
    });
    server.kill();
    server.restart();
    assert!(server.log().contains("DB opened by its index"), "{}", server.log());
    assert_eq!(figure(&server, "redo_index"), 1);

    server.kill();
    server.restart_with(&["--log-index", "no"]);
    assert!(!manifest.exists());
    fill_much(&mut server.connect());
    server.kill();
    server.restart_with(&auto);
    assert_eq!(figure(&server, "redo_index"), 1, "the log was large at the start");
    wait_until(|| manifest.exists());
}

/// Copies of a directory are the same database, and their indexes fit each other's logs as far as any number can
/// tell. One that was put next to the wrong log is noticed at the latest when a key has the place of another one.
#[test]
fn an_index_of_another_copy_of_the_directory_is_built_anew() {
    // Not all that a start brings back has room, nor have all keys.
    let narrow = ["--maxmemory", "20mb", "--maxmemory-policy", "cold-lfu"];
    let options = [&OPTIONS[..], &narrow, &["--cold-keys-maxmemory", "1mb"]].concat();
    let mut server = Program::indelible().start(&options);
    server.connect().words("SET same database");
    server.kill();
    let directory = server.directory();
    let place = |name: &str| directory.with_file_name(name);
    let copy = |from: &Path, to: &Path| {
        let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(status.success());
    };
    copy(&directory, &place("copy"));
    let value = |number: usize| format!("{number}:").repeat(120);
    // Blocks of a hundred.
    let write = |server: &Server, numbers: &[usize]| {
        let mut connection = server.connect();
        for numbers in numbers.chunks(100) {
            connection.send(&["MULTI"]).unwrap();
            for number in numbers {
                connection.send(&["SET", &format!("key:{number}"), &value(*number)]).unwrap();
            }
            connection.send(&["EXEC"]).unwrap();
            (0..numbers.len() + 2).for_each(|_| _ = connection.receive().unwrap());
        }
        make_a_cut_due(&mut connection);
        let logged = figure(server, "redo_open_lsn") - 2;
        wait_until(|| figure(server, "redo_index_cut_lsn") >= logged);
    };
    let mut numbers: Vec<usize> = (10_000..40_000).collect();
    server.restart();
    write(&server, &numbers);
    server.kill();
    copy(&directory.join("index"), &place("its-index"));
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::rename(place("copy"), &directory).unwrap();

    // The same keys in the other order, and some more blocks.
    server.restart();
    numbers.reverse();
    write(&server, &numbers);
    (0..50).for_each(|_| _ = server.connect().words("SET same database"));
    server.kill();
    std::fs::remove_dir_all(directory.join("index")).unwrap();
    copy(&place("its-index"), &directory.join("index"));
    server.restart();
    let by_index = |server: &Server| server.log().matches("DB opened by its index").count();
    assert_eq!(by_index(&server), 1, "{}", server.log());
    let mut connection = server.connect();
    let mut read = |number: usize| connection.words(&format!("GET key:{number}")).text();
    for number in numbers.iter().step_by(50) {
        let found = read(*number);
        let is_refused = found.starts_with("CORRUPT") || found.starts_with("LOADING");
        assert!(found == value(*number) || is_refused, "{found}");
    }
    // What brings keys back may have noticed before any client, and that numbers do not fit either.
    wait_until(|| numbers.iter().step_by(50).all(|number| read(*number) == value(*number)));
    assert!(server.log().contains("the log is read again as a whole"), "{}", server.log());
}

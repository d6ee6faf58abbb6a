//! A dump that the database may not have is not lost to the next save: a Redis server's, another database's.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::dumps::{fingerprint, info};
use crate::process::{Program, Server, wait_until};

/// A dump of another database, with this key.
fn foreign(key: &str) -> Vec<u8> {
    let server = Program::indelible().start(&["--save", ""]);
    let mut connection = server.connect();
    assert_eq!(connection.words(&format!("SET {key} 1")).text(), "OK");
    assert_eq!(connection.words("SAVE").text(), "OK");
    std::fs::read(server.directory().join("dump.rdb")).unwrap()
}

fn stop(server: &mut Server, words: &[&str]) {
    let _ended = server.connect().call(words);
    assert_eq!(server.wait_for_exit(), Some(0));
}

#[test]
fn a_dump_that_another_server_has_left_stays_when_this_one_ends() {
    let mut server = Program::indelible().start(&["--save", "3600 1"]);
    let directory = server.directory();
    let (dump, kept) = (directory.join("dump.rdb"), directory.join("dump.rdb.replaced"));
    assert_eq!(server.connect().words("SET a 1").text(), "OK");
    stop(&mut server, &["SHUTDOWN"]);
    // Its own dump is replaced.
    server.restart();
    assert_eq!(server.connect().words("SET a 2").text(), "OK");
    stop(&mut server, &["SHUTDOWN"]);
    assert!(!kept.exists());
    let of_another = foreign("theirs");
    std::fs::write(&dump, &of_another).unwrap();
    server.restart();
    assert_eq!(server.connect().words("GET a").text(), "2");
    stop(&mut server, &["SHUTDOWN"]);
    assert_eq!(std::fs::read(&kept).unwrap(), of_another);
    assert_ne!(std::fs::read(&dump).unwrap(), of_another);
    assert!(server.log().contains("it stays as dump.rdb.replaced"), "{}", server.log());
    // And only once.
    server.restart();
    stop(&mut server, &["SHUTDOWN"]);
    assert!(!directory.join("dump.rdb.replaced-2").exists());
    let other = foreign("others");
    std::fs::write(&dump, &other).unwrap();
    server.restart();
    stop(&mut server, &["SHUTDOWN"]);
    assert_eq!(std::fs::read(&kept).unwrap(), of_another);
    assert_eq!(std::fs::read(directory.join("dump.rdb.replaced-2")).unwrap(), other);
}

#[test]
fn a_dump_that_was_not_looked_at_stays() {
    for options in [&["--save", ""][..], &["--save", "", "--appendonly", "no"]] {
        let directory = tempfile::tempdir().unwrap();
        let of_another = foreign("theirs");
        std::fs::write(directory.path().join("dump.rdb"), &of_another).unwrap();
        let options = [options, &["--ignore-redis-files", "yes"]].concat();
        let server = Program::indelible().start_on(directory.path(), &options);
        let mut connection = server.connect();
        assert_eq!(connection.words("DBSIZE").text(), "0");
        for _ in 0..2 {
            assert_eq!(connection.words("SAVE").text(), "OK");
        }
        let kept = directory.path().join("dump.rdb.replaced");
        assert_eq!(std::fs::read(kept).unwrap(), of_another);
        assert!(!directory.path().join("dump.rdb.replaced-2").exists());
    }
}

#[test]
fn a_dump_that_was_loaded_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("dump.rdb"), foreign("theirs")).unwrap();
    let options = ["--save", "", "--appendonly", "no"];
    let server = Program::indelible().start_on(directory.path(), &options);
    let mut connection = server.connect();
    assert_eq!(connection.words("GET theirs").text(), "1");
    assert_eq!(connection.words("SAVE").text(), "OK");
    assert!(!directory.path().join("dump.rdb.replaced").exists());
    fingerprint(&directory.path().join("dump.rdb"));
}

#[test]
fn what_cannot_be_looked_at_is_not_taken_for_absent() {
    for (name, target) in [("appendonlydir", "appendonlydir"), ("dump.rdb", "elsewhere/dump.rdb")] {
        let directory = tempfile::tempdir().unwrap();
        symlink(target, directory.path().join(name)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
        command.args(["server", "--port", "0", "--unixsocket", "s", "--dir"]);
        let output = command.arg(directory.path()).output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && said.contains(name), "{said}");
        assert!(!directory.path().join("redo.manifest").exists());
    }
}

#[test]
fn a_save_point_that_cannot_be_served_is_told_of() {
    let options = ["--save", "1 1", "--rdb-version", "9"];
    let server = Program::indelible().start(&options);
    let mut connection = server.connect();
    let code = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
    assert_eq!(connection.call(&["FUNCTION", "LOAD", code]).unwrap().text(), "l");
    assert_eq!(connection.words("SET a 1").text(), "OK");
    wait_until(|| info(&mut connection, "rdb_last_bgsave_status") == "err");
    assert!(server.log().contains("A save point is reached, and nothing is saved"));
}

#[test]
fn a_name_that_is_no_file_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let options = ["--dbfilename", "pipe", "--ignore-redis-files", "yes"];
    let server = Program::indelible().start_on(directory.path(), &options);
    let reply = server.connect().words("SAVE").text();
    assert!(reply.contains("it is there and is no dump"), "{reply}");
    assert!(is_there(&pipe));
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

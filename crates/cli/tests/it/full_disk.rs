//! A file system that is really full: writes are refused, reads go on, and nothing acknowledged is lost.
//!
//! The disk is a small loop device with a file of ballast next to the data: growing it fills the disk to
//! the last block, removing it makes room. One client writes one value at a time at `always` and keeps a
//! ledger of what it was told; a write that was refused must not have happened.

use crate::kill::verify_log;
use crate::ledger::is_refusal;
use crate::loop_device::{LoopDisk, texts};
use crate::process::{PATIENCE, Program, Server, wait_until};
use crate::wire::Connection;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the server sets aside, its first segment, and some room.
const DISK_BYTES: u64 = 64 << 20;

/// What is left next to the ballast when a test begins.
const FREE_BYTES: u64 = 6 << 20;

pub(crate) const VALUE_BYTES: usize = 16 << 10;

pub(crate) const OPTIONS: [&str; 8] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--log-segment-bytes",
    "2mb",
    "--log-compaction-invalid-min",
    "8",
];

/// A client that knows what it was told.
#[derive(Default)]
pub(crate) struct Ledger {
    acknowledged: BTreeMap<String, usize>,
    writes: usize,
}

impl Ledger {
    /// Writes the next version of a key; the error if it was refused.
    pub(crate) fn write(&mut self, connection: &mut Connection, key: &str) -> Result<(), String> {
        self.writes += 1;
        let reply = connection.call(&["SET", key, &value(self.writes)]).unwrap();
        if is_refusal(&reply) {
            return Err(reply.text());
        }
        assert_eq!(reply.text(), "OK");
        self.acknowledged.insert(key.to_owned(), self.writes);
        Ok(())
    }

    /// Writes new keys until the server refuses to; its error.
    fn write_until_refused(&mut self, connection: &mut Connection) -> String {
        loop {
            let key = format!("key:{}", self.writes);
            if let Err(error) = self.write(connection, &key) {
                return error;
            }
            assert!(self.writes < 10_000, "the disk does not become full");
        }
    }

    /// Writes a key as soon as the server takes writes.
    pub(crate) fn write_patiently(&mut self, connection: &mut Connection, key: &str) {
        let started = Instant::now();
        while let Err(error) = self.write(connection, key) {
            assert!(started.elapsed() < PATIENCE, "writes do not come back: {error}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Compares what is there with what was acknowledged: all of it, and nothing else.
    pub(crate) fn check(&self, connection: &mut Connection) {
        for (key, write) in &self.acknowledged {
            let found = connection.call(&["GET", key]).unwrap().text();
            assert!(found == value(*write), "{key} is not what write {write} made of it");
        }
        assert_eq!(connection.words("DBSIZE").text(), self.acknowledged.len().to_string());
    }

    /// Kills the server, starts it again, and compares; its log is whole.
    pub(crate) fn outlives_a_kill(&self, server: &mut Server) {
        server.kill();
        server.restart();
        self.check(&mut server.connect());
        verify_log(server);
    }
}

fn value(write: usize) -> String {
    format!("{write:.<VALUE_BYTES$}")
}

/// A server on a disk on which there is little room.
fn start_on_a_small_disk() -> Option<(LoopDisk, Server)> {
    let disk = LoopDisk::new(DISK_BYTES)?;
    let server = Program::indelible().start_on(&disk.data(), &OPTIONS);
    // The space that is set aside for a full disk is not what this is about.
    disk.add_ballast(disk.available_bytes().saturating_sub(FREE_BYTES));
    Some((disk, server))
}

#[test]
fn a_full_disk_refuses_writes_and_takes_them_again_when_there_is_room() {
    let Some((disk, mut server)) = start_on_a_small_disk() else { return };
    let (mut connection, mut ledger) = (server.connect(), Ledger::default());
    for _ in 0..2 {
        let error = ledger.write_until_refused(&mut connection);
        assert!(error.contains("No space left on device"), "{error}");
        // Also to the last byte of what was kept for a full disk.
        disk.fill_with_ballast();
        ledger.check(&mut connection);
        for words in ["DEL key:0", "INCR n", "FLUSHALL", "RPUSH l x"] {
            assert!(is_refusal(&connection.words(words)), "{words} was not refused");
        }
        // What health checks ask, and what is read after a night.
        assert!(is_refusal(&connection.words("PING")));
        let address = format!("127.0.0.1:{}", server.port);
        let ping = Command::new(env!("CARGO_BIN_EXE_indelible")).args(["ping", &address]).status();
        assert_eq!(ping.unwrap().code(), Some(2));
        wait_until(|| server.log().contains("is full: "));
        let info = server.connect().words("INFO").text();
        assert!(info.contains("state=Full"), "{info}");
        let health = info.lines().find_map(|line| line.strip_prefix("redo_health:"));
        assert!(health.is_some_and(|why| why.contains("No space left on device")), "{info}");
        assert!(info.contains("aof_last_write_status:err\r\n"), "{info}");
        disk.drop_ballast();
        ledger.write_patiently(&mut connection, "again");
        // Why it was full stays with the device, and nothing else says that it is.
        let info = server.connect().words("INFO").text();
        for line in ["redo_health:ok\r\n", "aof_last_write_status:ok\r\n", "state=Healthy"] {
            assert!(info.contains(line), "{line}: {info}");
        }
        assert!(info.contains("last_error=") && info.contains("No space left"), "{info}");
        disk.add_ballast(disk.available_bytes().saturating_sub(FREE_BYTES));
    }
    ledger.check(&mut connection);
    ledger.outlives_a_kill(&mut server);
}

/// What a deletion replies when it is taken: not at once where a compaction has the room just then.
fn delete_patiently(connection: &mut Connection, words: &str) -> String {
    let mut reply = connection.words(words);
    wait_until(|| {
        let is_refused = is_refusal(&reply);
        if is_refused {
            reply = connection.words(words);
        }
        !is_refused
    });
    reply.text()
}

#[test]
fn what_is_deleted_gives_a_full_disk_its_room_back() {
    let Some((_disk, mut server)) = start_on_a_small_disk() else { return };
    let (mut connection, mut ledger) = (server.connect(), Ledger::default());
    ledger.write_until_refused(&mut connection);
    for refused in ["INCR n", "EXPIRE key:0 100", "MULTI", "DEL key:0", "EXEC"] {
        let reply = connection.words(refused);
        assert!(reply.is_error() || refused == "MULTI", "{refused}: {}", reply.text());
    }
    // Of each segment some: what is left of it has to be copied.
    let deleted: Vec<String> = ledger.acknowledged.keys().step_by(2).cloned().collect();
    for (number, key) in deleted.iter().enumerate() {
        let verb = if number % 2 == 0 { "DEL" } else { "UNLINK" };
        assert_eq!(delete_patiently(&mut connection, &format!("{verb} {key}")), "1");
        ledger.acknowledged.remove(key);
    }
    ledger.write_patiently(&mut connection, "again");
    ledger.check(&mut connection);
    ledger.write_until_refused(&mut connection);
    assert_eq!(delete_patiently(&mut connection, "FLUSHALL"), "OK");
    ledger.acknowledged.clear();
    ledger.write_patiently(&mut connection, "once more");
    ledger.check(&mut connection);
    ledger.outlives_a_kill(&mut server);
}

#[test]
fn a_server_starts_on_a_full_disk_and_ends_well_there() {
    let Some((mut disk, mut server)) = start_on_a_small_disk() else { return };
    let mut ledger = Ledger::default();
    ledger.write_until_refused(&mut server.connect());
    for end in ["kill", "shutdown", "power cut", "kill", "power cut"] {
        disk.fill_with_ballast();
        match end {
            "shutdown" => {
                server.terminate();
                assert_eq!(server.wait_for_exit(), Some(0), "{}", server.log());
            }
            "power cut" => {
                let switch = disk.switch();
                server.begin_to_kill();
                switch.off();
                server.kill();
                disk.restore();
            }
            _ => server.kill(),
        }
        disk.fill_with_ballast();
        server.restart();
        let mut connection = server.connect();
        ledger.check(&mut connection);
        // A server that still has room set aside finds out with its first block.
        let error = ledger.write_until_refused(&mut connection);
        assert!(error.contains("No space left on device"), "{error}");
    }
    disk.drop_ballast();
    ledger.write_patiently(&mut server.connect(), "again");
    ledger.outlives_a_kill(&mut server);
}

#[test]
fn a_full_disk_among_others_refuses_nothing() {
    let Some(small) = LoopDisk::new(40 << 20) else { return };
    let Some(large) = LoopDisk::new(192 << 20) else { return };
    let devices = texts([small.path().join("log"), large.path().join("log")]);
    let log_devices = ["--log-devices", &devices[0], &devices[1]];
    let mut server = Program::indelible().start(&[&OPTIONS[..], &log_devices].concat());
    let (mut connection, mut ledger) = (server.connect(), Ledger::default());
    let has_full_disk = |connection: &mut Connection| {
        let info = connection.words("INFO redo").text();
        info.contains("state=Full") && info.contains("state=Healthy")
    };
    while !has_full_disk(&mut connection) {
        for _ in 0..50 {
            let key = format!("key:{}", ledger.writes);
            ledger.write(&mut connection, &key).unwrap();
        }
        assert!(ledger.writes < 10_000, "the small disk does not become full");
    }
    small.fill_with_ballast();
    for write in 0..1000 {
        ledger.write(&mut connection, &format!("key:{write}")).unwrap();
    }
    server.kill();
    small.fill_with_ballast();
    server.restart();
    let mut connection = server.connect();
    ledger.check(&mut connection);
    for write in 0..200 {
        ledger.write(&mut connection, &format!("key:{write}")).unwrap();
    }
    verify_log(&mut server);
}

#[test]
fn what_a_full_disk_cannot_take_goes_to_another() {
    let Some(small) = LoopDisk::new(40 << 20) else { return };
    let Some(large) = LoopDisk::new(256 << 20) else { return };
    let devices = texts([small.path().join("log"), large.path().join("log")]);
    let log_devices = ["--log-devices", &devices[0], &devices[1]];
    let mut server = Program::indelible().start(&[&OPTIONS[..], &log_devices].concat());
    let mut connection = server.connect();
    small.fill_with_ballast();
    // Larger than what is set aside for a full disk.
    let large_value = "x".repeat(24 << 20);
    for number in 0..4 {
        let reply = connection.call(&["SET", &format!("key:{number}"), &large_value]).unwrap();
        assert_eq!(reply.text(), "OK");
    }
    let info = connection.words("INFO redo").text();
    let given_up = info.lines().find(|line| line.contains("state=Poisoned")).unwrap();
    assert!(given_up.contains(&devices[0]) && given_up.contains("No space left"), "{given_up}");
    server.kill();
    server.restart();
    let mut connection = server.connect();
    for number in 0..4 {
        let found = connection.words(&format!("STRLEN key:{number}")).text();
        assert_eq!(found, large_value.len().to_string());
    }
    small.drop_ballast();
    verify_log(&mut server);
}

#[test]
fn a_disk_full_of_garbage_is_emptied_by_compaction() {
    let Some((disk, mut server)) = start_on_a_small_disk() else { return };
    let (mut connection, mut ledger) = (server.connect(), Ledger::default());
    let room_bytes = disk.available_bytes();
    // Three times what there is room for, and little of it is live.
    for write in 0..3 * room_bytes / VALUE_BYTES as u64 {
        ledger.write_patiently(&mut connection, &format!("key:{}", write % 50));
    }
    ledger.check(&mut connection);
    ledger.outlives_a_kill(&mut server);
}

#[test]
fn a_dump_that_there_is_no_room_for_leaves_the_old_one_and_the_log_alone() {
    let Some((disk, server)) = start_on_a_small_disk() else { return };
    let (mut connection, mut ledger) = (server.connect(), Ledger::default());
    ledger.write(&mut connection, "first").unwrap();
    disk.drop_ballast();
    assert_eq!(connection.words("SAVE").text(), "OK");
    let file = disk.data().join("dump.rdb");
    let old = std::fs::read(&file).unwrap();
    assert_eq!(connection.words("CONFIG SET rdbcompression no").text(), "OK");
    // More than there is room for twice, next to what is kept for the log.
    for _ in 0..60 {
        let key = format!("key:{}", ledger.writes);
        ledger.write(&mut connection, &key).unwrap();
    }
    disk.add_ballast(disk.available_bytes().saturating_sub(FREE_BYTES / 6 * 5));
    for _ in 0..5 {
        let reply = connection.words("SAVE").text();
        assert!(reply.contains("are kept for the redo log; make room"), "{reply}");
        assert_eq!(std::fs::read(&file).unwrap(), old);
        ledger.write(&mut connection, "again").unwrap();
    }
    let names = std::fs::read_dir(disk.data()).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.starts_with("temp-")));
    disk.drop_ballast();
    assert_eq!(connection.words("SAVE").text(), "OK");
    ledger.check(&mut connection);
}

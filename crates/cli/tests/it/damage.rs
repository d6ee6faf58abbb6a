//! A damaged data directory and the whole program: verified, refused, repaired, served again.
//!
//! The exhaustive sweep is `redo`'s; here a sample of it meets the real server with every type of
//! value, because what is left after a repair (a collection without its root, a long string
//! without its middle) must be readable by every command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::process::{PATIENCE, Program, Server, wait_for_exit};
use crate::wire::Connection;

pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

fn indelible(arguments: &[&str]) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_indelible")).args(arguments).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

pub(crate) fn read_files(directory: &Path) -> Files {
    let mut found = Files::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(read_files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

fn put_back(directory: &Path, files: &Files) {
    std::fs::remove_dir_all(directory).unwrap();
    for (path, bytes) in files {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// One value of each type, small and large, and some history.
fn fill(connection: &mut Connection) {
    let long = "x".repeat(300);
    for number in 0..40 {
        connection.words(&format!("SET string:{number} {number}-{long}"));
        connection.words(&format!("HSET hash field:{number} {long}"));
        connection.words(&format!("RPUSH list {number}-{long}"));
        connection.words(&format!("SADD set member:{number}-{long}"));
        connection.words(&format!("ZADD zset {number} member:{number}-{long}"));
        connection.words(&format!("SETRANGE chunked {} part", number * 10_000));
    }
    connection.words("HSET small a 1 b 2");
    connection.words("SADD ints 1 2 3");
    connection.words("MULTI");
    connection.words("SET one transaction");
    connection.words("SET two transaction");
    connection.words("EXEC");
    connection.words("DEL string:3");
    connection.words("SELECT 3");
    connection.words("SET elsewhere 1");
    connection.words("SELECT 0");
}

/// Everything that a client can see, by reading all of it.
fn everything(connection: &mut Connection) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for database in [3, 0] {
        connection.words(&format!("SELECT {database}"));
        let keys = connection.words("KEYS *");
        for key in keys.elements().iter().map(|key| key.text()) {
            let read = match connection.words(&format!("TYPE {key}")).text().as_str() {
                "string" => format!("GET {key}"),
                "hash" => format!("HGETALL {key}"),
                "list" => format!("LRANGE {key} 0 -1"),
                "set" => format!("SMEMBERS {key}"),
                "zset" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
                other => panic!("{key} is a {other}"),
            };
            let reply = connection.words(&read);
            assert!(!reply.is_error(), "{read}: {reply:?}");
            let mut parts: Vec<String> = reply.elements().iter().map(|part| part.text()).collect();
            if read.starts_with("SMEMBERS") || read.starts_with("HGETALL") {
                parts.sort();
            }
            let value = if parts.is_empty() { format!("{reply:?}") } else { parts.join(" ") };
            all.insert(format!("{database} {key}"), value);
        }
    }
    all
}

fn refused(data: &Path) -> String {
    let socket = data.with_file_name("socket");
    let mut child = Program::indelible()
        .command(&["--port", "0", "--unixsocket", socket.to_str().unwrap(), "--dir"])
        .arg(data)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let code = wait_for_exit(&mut child);
    if code.is_none() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(code, Some(1), "it starts: {}", said(&output));
    said(&output)
}

/// A directory with a sealed segment, a second one that is open, and the server that made it.
fn make() -> (Server, PathBuf, Files, BTreeMap<String, String>) {
    let mut server = Program::indelible().start(&[]);
    fill(&mut server.connect());
    server.kill();
    server.restart();
    let mut connection = server.connect();
    fill(&mut connection);
    connection.words("SELECT 0");
    connection.words("SET string:5 new");
    let all = everything(&mut connection);
    server.kill();
    let data = server.directory();
    let mut files = read_files(&data);
    // Nor does it matter what a compaction leaves that was not finished, or what it has replaced: that is not the
    // log's any more, and `backup verify` looks at it.
    files.retain(|path, _| {
        !path.ends_with("reserve")
            && path.extension().is_none_or(|extension| extension != "tmp")
            && path.parent().is_none_or(|directory| !directory.ends_with("history"))
    });
    (server, data, files, all)
}

#[test]
fn a_sample_of_damage_is_refused_with_its_place_then_repaired() {
    let (mut server, data, good, all) = make();
    let path = data.to_str().unwrap();
    let (mut refusals, mut starts) = (0, 0);
    for (file, bytes) in good.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let name = file.file_name().unwrap().to_str().unwrap();
        for sample in 0..7 {
            let at = (bytes.len() - 1) * sample / 6;
            let mut damaged = good.clone();
            damaged.get_mut(file).unwrap()[at] ^= 1 << sample;
            put_back(&data, &damaged);
            let what = format!("byte {at} of {name}");
            let verified = indelible(&["log", "verify", path]);
            if verified.status.success() {
                // Only the last block of all, which no other one vouches for, looks like a torn one.
                assert!(said(&verified).contains("note:"), "{what}: {}", said(&verified));
                server.restart();
                let found = everything(&mut server.connect());
                let missing = all.iter().filter(|(key, value)| found.get(*key) != Some(value));
                assert!(missing.count() <= 1, "{what}");
                server.kill();
                starts += 1;
                continue;
            }
            assert!(said(&verified).contains(name), "{what}: {}", said(&verified));
            assert!(refused(&data).contains(name), "{what}");
            let shown = indelible(&["log", "repair", path, "--dry-run"]);
            assert_eq!(read_files(&data).len(), damaged.len(), "{what}");
            assert!(damaged.iter().all(|(file, bytes)| std::fs::read(file).unwrap() == *bytes));
            if said(&shown).contains("use a newer program") {
                continue;
            }
            assert!(!shown.status.success(), "{what}: {}", said(&shown));
            let repaired = indelible(&["log", "repair", path, "--yes"]);
            assert!(repaired.status.success(), "{what}: {}", said(&repaired));
            server.restart();
            let found = everything(&mut server.connect());
            // One block is lost: what it wrote is missing or older, all else is as it was.
            let differing =
                all.iter().filter(|(key, value)| found.get(*key) != Some(value)).count();
            assert!(differing <= 2, "{what}: {differing} differ: {}", said(&repaired));
            server.kill();
            refusals += 1;
        }
    }
    // Unless something said later that the last block was durable, its damage looks like a torn write.
    assert!(refusals > 10 && starts <= 1, "{refusals} refusals, {starts} starts");
}

/// A segment that is cut in its middle, or gone, leaves collections without roots and roots without
/// elements: whatever is left can be read, written and deleted.
#[test]
fn what_is_left_of_collections_can_be_used() {
    let (mut server, data, good, _) = make();
    let path = data.to_str().unwrap();
    for (file, bytes) in
        good.iter().filter(|(file, _)| file.extension().is_some_and(|e| e == "redo"))
    {
        for share in [1, 2, 3] {
            put_back(&data, &good);
            // Zeros over a part: from every collection something is missing.
            let mut damaged = bytes.clone();
            let (from, to) = (bytes.len() * (share - 1) / 3, bytes.len() * share / 3);
            damaged[from.max(200)..to].fill(0);
            std::fs::write(file, damaged).unwrap();
            let repaired = indelible(&["log", "repair", path, "--yes"]);
            assert!(repaired.status.success(), "{}", said(&repaired));
            server.restart();
            let mut connection = server.connect();
            everything(&mut connection);
            fill(&mut connection);
            for command in [
                "SPOP set",
                "SRANDMEMBER set",
                "HRANDFIELD hash",
                "LPOP list",
                "LINDEX list 3",
                "ZPOPMIN zset",
                "ZRANGEBYSCORE zset 3 9",
                "GETRANGE chunked 0 100",
                "STRLEN chunked",
                "APPEND chunked x",
                "RENAME hash other",
                "DEL other list zset",
            ] {
                let reply = connection.words(command);
                assert!(!reply.is_error(), "{command}: {reply:?}");
            }
            let now = everything(&mut connection);
            assert!(
                ["0 one", "0 two", "0 chunked", "3 elsewhere"]
                    .iter()
                    .all(|key| now.contains_key(*key))
            );
            drop(connection);
            server.kill();
            let verified = indelible(&["log", "verify", path]);
            assert!(verified.status.success(), "{}", said(&verified));
            server.restart();
            assert_eq!(everything(&mut server.connect()), now);
            server.kill();
        }
    }
}

/// A number of INFO.
fn figure(connection: &mut Connection, name: &str) -> u64 {
    let info = connection.words("INFO redo").text();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).trim().parse().unwrap()
}

/// Polls until it is so.
fn wait_for(server: &Server, what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}: {}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn bytes_that_decay_under_a_running_server_are_found_and_written_again() {
    let mut server = Program::indelible().start(&["--log-scrub-bytes-per-second", "0"]);
    fill(&mut server.connect());
    server.kill();
    server.restart();
    let mut connection = server.connect();
    // So that delete records are in the sealed segment, and what they are about is too.
    connection.words("DEL string:7 string:8");
    connection.words("HDEL hash field:3");
    let all = everything(&mut connection);
    drop(connection);
    server.kill();
    server.restart();
    let mut connection = server.connect();
    assert_eq!(figure(&mut connection, "redo_scrub_errors"), 0);
    let data = server.directory();
    let sealed = read_files(&data).into_iter().filter(|(path, bytes)| {
        path.extension().is_some_and(|ext| ext == "redo") && bytes.ends_with(b"INDELEND")
    });
    let mut sealed: Vec<_> = sealed.collect();
    assert!(sealed.len() >= 2, "{}", sealed.len());
    for (path, bytes) in &mut sealed {
        let at = bytes.len() / 2;
        bytes[at] ^= 0x10;
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes[at..=at], at as u64).unwrap();
    }
    assert_eq!(connection.words("CONFIG SET log-scrub-bytes-per-second 1gb").text(), "OK");
    let count = sealed.len() as u64;
    wait_for(&server, "found", || figure(&mut connection, "redo_scrub_errors") == count);
    wait_for(&server, "healed", || figure(&mut connection, "redo_scrub_healed") == count);
    assert!(figure(&mut connection, "redo_scrubbed_bytes") > 0);
    for (path, bytes) in &sealed {
        let name = path.file_name().unwrap().to_str().unwrap();
        let said = server.log();
        assert!(said.lines().any(|line| line.contains(name) && line.contains("byte")), "{said}");
        let is_copy = |(other, found): (&PathBuf, &Vec<u8>)| {
            other.to_string_lossy().contains("damaged-") && found == bytes
        };
        assert!(read_files(&data).iter().any(is_copy), "{name} is kept");
    }
    assert_eq!(everything(&mut connection), all);
    // Another pass finds nothing.
    let passes = figure(&mut connection, "redo_scrub_passes");
    connection.words("CONFIG SET log-scrub-bytes-per-second 2gb");
    wait_for(&server, "pass", || figure(&mut connection, "redo_scrub_passes") > passes);
    assert_eq!(figure(&mut connection, "redo_scrub_errors"), count);
    drop(connection);
    server.kill();
    let verified = indelible(&["log", "verify", data.to_str().unwrap()]);
    assert!(verified.status.success(), "{}", said(&verified));
    server.restart();
    assert_eq!(everything(&mut server.connect()), all);
}

#[test]
fn nothing_is_repaired_that_is_good_or_in_use() {
    let mut server = Program::indelible().start(&[]);
    server.connect().words("SET a b");
    let data = server.directory();
    let path = data.to_str().unwrap();
    for arguments in [&["log", "repair", path][..], &["log", "repair", path, "--yes"]] {
        let output = indelible(arguments);
        assert!(!output.status.success() && said(&output).contains("locked"), "{}", said(&output));
    }
    server.kill();
    let before = read_files(&data);
    for arguments in [&["log", "repair", path][..], &["log", "repair", path, "--yes"]] {
        let output = indelible(arguments);
        assert!(output.status.success() && said(&output).contains("nothing to repair"));
        assert!(read_files(&data) == before, "files were changed");
    }
    let output = indelible(&["log", "repair", path, "--yes", "--dry-run"]);
    assert!(!output.status.success(), "one or the other");
}

/// What a cut file has lost is counted, and no message says that it was never acknowledged.
#[test]
fn a_file_that_was_cut_by_hand_is_not_said_to_be_whole() {
    let mut server = Program::indelible().start(&[]);
    let mut client = server.connect();
    for number in 0..25 {
        assert_eq!(client.words(&format!("SET key:{number} value")).text(), "OK");
    }
    server.kill();
    let segment = server.directory().join("redo").join("0000000001.redo");
    let cut = |count: u64| {
        let file = std::fs::File::options().write(true).open(&segment).unwrap();
        file.set_len(file.metadata().unwrap().len() - count).unwrap();
    };
    // The last block was acknowledged, and nothing in the log can know it.
    cut(20);
    server.restart();
    assert_eq!(server.connect().words("DBSIZE").text(), "24");
    let log = server.log();
    assert!(log.contains("behind block 24, the last good one, are cut off"), "{log}");
    assert!(!log.contains("acknowledged"), "{log}");
    // That start has sealed the segment: of what is cut now the log knows.
    server.kill();
    cut(150);
    let data = server.directory();
    let shown = said(&indelible(&["log", "repair", data.to_str().unwrap()]));
    assert!(shown.contains("lost: block 24, known to have been durable"), "{shown}");
    assert!(shown.contains("23 records of damaged segments are good and stay"), "{shown}");
    assert!(shown.contains("at least 1 are lost"), "{shown}");
    assert!(!shown.contains("acknowledged"), "{shown}");
}

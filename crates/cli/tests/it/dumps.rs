//! BGSAVE, SAVE, save points and `redis-cli --rdb`: files that Redis loads, of one moment, whatever happens while
//! they are written.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use rdb::{Event, Limits, Reader};

use crate::process::{Program, Server, wait_until};
use crate::rdb_files::{digest_of, fill};
use crate::wire::Connection;

/// Values whose size makes a dump last.
const BALLAST: usize = 2000;

pub(crate) fn info(connection: &mut Connection, field: &str) -> String {
    let text = connection.words("INFO persistence").text();
    let prefix = format!("{field}:");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or_else(|| panic!("{field}: {text}")).to_owned()
}

/// What `indelible rdb digest` says of a file.
pub(crate) fn fingerprint(file: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    let output = command.args(["rdb", "digest"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// What a client with a socket of its own is sent.
fn sync(port: u16) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"REPLCONF capa eof\r\nREPLCONF rdb-only 1\r\nSYNC\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let rest = bytes.strip_prefix(b"+OK\r\n+OK\r\n$EOF:").expect("it is said how it ends");
    let (mark, rest) = rest.split_at(40);
    let dump = rest.strip_prefix(b"\r\n").unwrap().strip_suffix(mark).expect("it is whole");
    dump.to_vec()
}

/// The names in a directory that are of dumps which are being written.
fn unfinished(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("temp-") || name.contains("spill")).collect()
}

/// Every way to take the data of one moment.
pub(crate) const WAYS: &[&[&str]] = &[
    &["--appendfsync", "no"],
    &["--appendonly", "no", "--save", ""],
    &["--appendfsync", "no", "--snapshot-algorithm", "piggyback"],
    &["--appendfsync", "no", "--snapshot-algorithm", "cou"],
    &["--appendfsync", "no", "--snapshot-algorithm", "fork"],
    &["--appendfsync", "no", "--snapshot-algorithm", "hourglass"],
    &["--appendonly", "no", "--save", "", "--snapshot-algorithm", "fork"],
];

#[test]
fn redis_loads_what_is_saved() {
    WAYS.iter().for_each(|way| redis_loads(way));
}

fn redis_loads(way: &[&str]) {
    let server = Program::indelible().start(&[way, &["--enable-debug-command", "yes"]].concat());
    let mut connection = server.connect();
    fill(&mut connection);
    let digest = digest_of(&mut connection);
    assert_eq!(connection.words("SAVE").text(), "OK");
    let file = server.directory().join("dump.rdb");
    assert_eq!(fingerprint(&file), digest);
    assert_eq!(info(&mut connection, "rdb_changes_since_last_save"), "0");
    assert_eq!(info(&mut connection, "rdb_saves"), "1");
    // The stream of a client is the same dump.
    let streamed = server.directory().join("streamed");
    std::fs::write(&streamed, sync(server.port)).unwrap();
    assert_eq!(fingerprint(&streamed), digest);
    let Some(program) = Program::redis() else { return };
    for form in ["auto", "10"] {
        let set = ["CONFIG", "SET", "rdb-version", form, "rdbcompression", "no"];
        assert_eq!(connection.call(&set).unwrap().text(), "OK");
        let redis = program.start(&["--enable-debug-command", "yes", "--save", ""]);
        let mut other = redis.connect();
        std::fs::copy(&file, redis.directory().join("dump.rdb")).unwrap();
        assert_eq!(other.words("DEBUG RELOAD NOSAVE").text(), "OK", "{}", redis.log());
        assert_eq!(digest_of(&mut other), digest, "{form}");
        assert_eq!(connection.words("SAVE").text(), "OK");
    }
}

/// Accounts whose balances clients move, and what they have together.
fn totals(dump: &[u8]) -> i64 {
    let mut reader = Reader::new(dump, Limits::default()).unwrap();
    let (mut total, mut is_account) = (0, false);
    loop {
        match reader.next().unwrap() {
            Event::Key(key) => is_account = key.key.starts_with(b"account:"),
            Event::String(value) if is_account => {
                total += std::str::from_utf8(value).unwrap().parse::<i64>().unwrap();
            }
            Event::End { .. } => return total,
            _ => {}
        }
    }
}

#[test]
fn each_dump_is_of_one_moment_between_transactions() {
    WAYS.iter().for_each(|way| each_is_of_one_moment(way));
}

fn each_is_of_one_moment(way: &[&str]) {
    const ACCOUNTS: u32 = 50;
    // So little that the hash is spilled; a walk of memory hands over as much at a time.
    let is_merged = way.contains(&"hourglass");
    let is_of_log = way.len() == 2 || is_merged;
    let memory = ["--snapshot-memory", if is_of_log { "8192" } else { "1mb" }];
    let server = Program::indelible().start(&[way, &memory].concat());
    let mut connection = server.connect();
    for account in 0..ACCOUNTS {
        assert_eq!(connection.words(&format!("SET account:{account} 100")).text(), "OK");
    }
    for number in 0..BALLAST {
        let value = "v".repeat(600);
        connection.call(&["HSET", "large", &format!("field{number}"), &value]).unwrap();
    }
    let port = server.port;
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = &ends;
        let writers = (0..3_u32).map(|seed| {
            scope.spawn(move || {
                let mut connection = Connection::open(port).unwrap();
                let mut number = seed;
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let (from, to) = ((number >> 8) % ACCOUNTS, (number >> 16) % ACCOUNTS);
                    for words in [
                        "MULTI".to_owned(),
                        format!("DECRBY account:{from} {}", number % 7),
                        format!("HSET large field{} {number}", number % 100),
                        format!("INCRBY account:{to} {}", number % 7),
                        "EXEC".to_owned(),
                    ] {
                        assert!(!connection.words(&words).is_error());
                    }
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let file = server.directory().join("dump.rdb");
        for _ in 0..6 {
            assert_eq!(connection.words("SAVE").text(), "OK");
            assert_eq!(totals(&std::fs::read(&file).unwrap()), i64::from(ACCOUNTS) * 100);
            assert_eq!(totals(&sync(port)), i64::from(ACCOUNTS) * 100);
        }
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    let spilled: u64 = info(&mut connection, "snapshot_spilled_bytes").parse().unwrap();
    let algorithm = if is_merged { "hourglass" } else { "bitmap" };
    assert_eq!(info(&mut connection, "snapshot_algorithm") == algorithm, is_of_log);
    assert!(spilled == 0 || is_of_log, "memory is walked");
    // Of the large hash only what has changed is sorted, if the dump is merged with the one before.
    assert!(spilled > 0 || !is_of_log || is_merged, "it does not fit into so little memory");
    assert_eq!(info(&mut connection, "snapshot_copied_bytes") != "0", is_merged);
    assert_eq!(unfinished(&server.directory()), Vec::<String>::new());
}

#[test]
fn a_dump_in_a_transaction_has_all_of_it() {
    let server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    for words in ["MULTI", "SET account:1 1", "BGSAVE", "SET account:2 2", "EXEC"] {
        assert!(!connection.words(words).is_error());
    }
    wait_until(|| info(&mut connection, "rdb_saves") == "1");
    let dump = std::fs::read(server.directory().join("dump.rdb")).unwrap();
    assert_eq!(totals(&dump), 3);
}

#[test]
fn a_child_that_is_killed_is_a_dump_that_fails() {
    let options = ["--appendonly", "no", "--save", "", "--snapshot-algorithm", "fork"];
    let server = Program::indelible().start(&[&options[..], &["--rdbcompression", "no"]].concat());
    let mut connection = server.connect();
    let value = "v".repeat(1_000_000);
    for number in 0..60 {
        connection.call(&["SET", &format!("key{number}"), &value]).unwrap();
    }
    let children = |server: &Server| {
        let path = format!("/proc/{0}/task/{0}/children", server.pid());
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let client = silent(&server);
    let child = children(&server);
    assert_eq!(connection.words("BGSAVE").text(), "Background saving started");
    let both = children(&server);
    let saver = both.split_whitespace().find(|pid| *pid != child.trim());
    if let Some(pid) = saver {
        assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
    }
    wait_until(|| info(&mut connection, "rdb_bgsave_in_progress") == "0");
    // It may have been quicker.
    let is_complete = server.directory().join("dump.rdb").exists();
    let status = info(&mut connection, "rdb_last_bgsave_status");
    assert_eq!(status, if is_complete { "ok" } else { "err" }, "{}", server.log());
    drop(client);
    wait_until(|| children(&server).trim().is_empty());
    assert_eq!(connection.words("SAVE").text(), "OK");
}

#[test]
fn save_points_are_kept_when_there_are_any() {
    let server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    assert_eq!(connection.words("CONFIG GET save").elements()[1].text(), "");
    let before = connection.words("LASTSAVE").text();
    assert_eq!(connection.words("SET a 1").text(), "OK");
    assert_eq!(connection.call(&["CONFIG", "SET", "save", "1 2"]).unwrap().text(), "OK");
    assert_eq!(connection.words("SET b 1").text(), "OK");
    wait_until(|| info(&mut connection, "rdb_saves") == "1");
    assert_ne!(connection.words("LASTSAVE").text(), before);
    assert_eq!(info(&mut connection, "rdb_changes_since_last_save"), "0");
    assert_eq!(info(&mut connection, "rdb_last_bgsave_status"), "ok");
}

#[test]
fn a_dump_that_fails_leaves_the_old_one_and_stops_writers_only_under_save_points() {
    let server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    connection.words("SET a 1");
    assert_eq!(connection.words("SAVE").text(), "OK");
    let file = server.directory().join("dump.rdb");
    let old = std::fs::read(&file).unwrap();
    // Nothing can take the name of a directory.
    let moved = server.directory().join("old.rdb");
    std::fs::rename(&file, &moved).unwrap();
    std::fs::create_dir(&file).unwrap();
    let reply = connection.words("SAVE");
    assert!(reply.text().starts_with("ERR cannot replace"), "{reply:?}");
    assert_eq!(info(&mut connection, "rdb_last_bgsave_status"), "err");
    assert_eq!(unfinished(&server.directory()), Vec::<String>::new());
    assert!(server.log().contains("Background saving error: "), "{}", server.log());
    assert_eq!(connection.words("SET a 2").text(), "OK", "there are no save points");
    assert_eq!(connection.call(&["CONFIG", "SET", "save", "3600 1"]).unwrap().text(), "OK");
    let reply = connection.words("SET a 3").text();
    assert!(reply.starts_with("MISCONF Redis is configured to save RDB snapshots"), "{reply}");
    assert_eq!(connection.words("GET a").text(), "2");
    assert_eq!(connection.words("CONFIG SET stop-writes-on-bgsave-error no").text(), "OK");
    assert_eq!(connection.words("SET a 3").text(), "OK");
    assert_eq!(connection.words("CONFIG SET stop-writes-on-bgsave-error yes").text(), "OK");
    std::fs::remove_dir(&file).unwrap();
    std::fs::rename(&moved, &file).unwrap();
    assert_eq!(connection.words("SAVE").text(), "OK");
    assert_eq!(connection.words("SET a 4").text(), "OK");
    assert_ne!(std::fs::read(&file).unwrap(), old);
}

#[test]
fn the_end_of_a_server_saves_as_in_redis() {
    let mut server = Program::indelible().start(&[]);
    let file = server.directory().join("dump.rdb");
    server.connect().words("SET account:1 1");
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    assert!(!file.exists(), "there are no save points");
    server.restart();
    let mut connection = server.connect();
    let _ended = connection.call(&["SHUTDOWN", "SAVE"]);
    assert_eq!(server.wait_for_exit(), Some(0));
    assert_eq!(totals(&std::fs::read(&file).unwrap()), 1);
    server.restart_with(&["--save", "3600 1"]);
    let mut connection = server.connect();
    connection.words("SET account:2 2");
    let _ended = connection.call(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.wait_for_exit(), Some(0));
    assert_eq!(totals(&std::fs::read(&file).unwrap()), 1);
    server.restart();
    server.connect().words("SET account:2 3");
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    assert_eq!(totals(&std::fs::read(&file).unwrap()), 4);
    // One that cannot save goes on, and says so.
    server.restart();
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let mut connection = server.connect();
    let reply = connection.call(&["SHUTDOWN"]).unwrap().text();
    assert_eq!(reply, "ERR Errors trying to SHUTDOWN. Check logs.");
    assert!(server.log().contains("Error trying to save the DB, can't exit."), "{}", server.log());
    assert_eq!(connection.words("CONFIG SET stop-writes-on-bgsave-error no").text(), "OK");
    assert_eq!(connection.words("SET account:3 1").text(), "OK", "writers wait no more");
    assert_eq!(connection.words("SHUTDOWN ABORT").text(), "ERR No shutdown in progress.");
    let _ended = connection.call(&["SHUTDOWN", "FORCE"]);
    assert_eq!(server.wait_for_exit(), Some(0));
}

#[test]
fn a_kill_while_a_dump_is_written_leaves_the_old_one_and_nothing_else() {
    let mut server = Program::indelible().start(&["--snapshot-memory", "8192"]);
    let mut connection = server.connect();
    connection.words("SET account:1 1");
    assert_eq!(connection.words("SAVE").text(), "OK");
    for number in 0..BALLAST {
        let value = "v".repeat(3000);
        connection.call(&["HSET", "large", &format!("field{number}"), &value]).unwrap();
    }
    let file = server.directory().join("dump.rdb");
    let old = std::fs::read(&file).unwrap();
    let mut met = 0;
    for _ in 0..20 {
        let reply = connection.words("BGSAVE");
        assert!(!reply.is_error(), "{reply:?}");
        // Its file is there a moment after the reply, and only for as long as it is written.
        while unfinished(&server.directory()).is_empty()
            && info(&mut connection, "rdb_bgsave_in_progress") == "1"
        {}
        server.kill();
        met += usize::from(!unfinished(&server.directory()).is_empty());
        let is_old = std::fs::read(&file).unwrap() == old;
        assert!(is_old || totals(&std::fs::read(&file).unwrap()) == 1);
        server.restart();
        assert_eq!(unfinished(&server.directory()), Vec::<String>::new());
        connection = server.connect();
    }
    assert!(met > 0, "none was killed in the middle");
    assert_eq!(connection.words("SAVE").text(), "OK");
    assert_eq!(totals(&std::fs::read(&file).unwrap()), 1);
}

/// A client that asks for a dump and reads nothing of it.
fn silent(server: &Server) -> Connection {
    let mut connection = server.connect();
    assert_eq!(connection.words("REPLCONF rdb-only 1").text(), "OK");
    connection.send_bytes(b"SYNC\r\n").unwrap();
    connection
}

#[test]
fn a_client_that_does_not_read_its_dump_costs_little_and_is_let_go() {
    let server = Program::indelible().start(&["--repl-timeout", "1", "--rdbcompression", "no"]);
    let mut connection = server.connect();
    let value = "v".repeat(100_000);
    for number in 0..400 {
        connection.call(&["SET", &format!("key{number}"), &value]).unwrap();
    }
    let clients: Vec<Connection> = (0..4).map(|_| silent(&server)).collect();
    let mut one_more = server.connect();
    one_more.words("REPLCONF rdb-only 1");
    let reply = one_more.words("SYNC").text();
    assert!(reply.starts_with("ERR too many clients are sent a dump already"), "{reply}");
    assert_eq!(info(&mut connection, "snapshot_streams"), "4");
    assert_eq!(connection.words("SET a 1").text(), "OK");
    wait_until(|| info(&mut connection, "snapshot_streams") == "0");
    assert!(server.log().contains("has taken nothing of its dump"), "{}", server.log());
    drop(clients);
    assert!(sync(server.port).len() > 1000);
}

#[test]
fn a_replica_is_refused_in_words() {
    let server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    let reply = connection.words("SYNC").text();
    assert!(reply.starts_with("ERR replication is not supported yet"), "{reply}");
    assert_eq!(connection.words("REPLCONF listening-port 1 capa eof capa psync2").text(), "OK");
    let reply = connection.words("REPLCONF rdb-filter-only keys").text();
    assert_eq!(reply, "ERR Unsupported rdb-filter-only option: keys");
    let reply = connection.words("REPLCONF what 1").text();
    assert_eq!(reply, "ERR Unrecognized REPLCONF option: what");
}

#[test]
fn damage_under_a_dump_is_named_and_healed_and_the_next_one_is_whole() {
    let options = ["--enable-debug-command", "yes", "--log-segment-bytes", "1mb"];
    let more = ["--log-compaction", "no", "--log-scrub-bytes-per-second", "0", "--log-index", "no"];
    let server = Program::indelible().start(&[&options[..], &more].concat());
    let mut connection = server.connect();
    for number in 0..BALLAST {
        let value = format!("{number:0>1500}");
        connection.call(&["SET", &format!("key{number}"), &value]).unwrap();
    }
    assert_eq!(connection.words("SAVE").text(), "OK");
    let dump = server.directory().join("dump.rdb");
    let old = std::fs::read(&dump).unwrap();
    let segment = server.directory().join("redo/0000000001.redo");
    let mut file = std::fs::OpenOptions::new().write(true).open(segment).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(300_000)).unwrap();
    file.write_all(b"damaged").unwrap();
    let reply = connection.words("SAVE").text();
    assert!(reply.contains("0000000001.redo is corrupt at byte "), "{reply}");
    assert_eq!(std::fs::read(&dump).unwrap(), old);
    let healed = |connection: &mut Connection| {
        connection.words("INFO redo").text().contains("redo_scrub_healed:1")
    };
    wait_until(|| healed(&mut connection));
    assert_eq!(connection.words("SAVE").text(), "OK");
    assert_eq!(fingerprint(&dump), digest_of(&mut connection));
}

#[test]
fn a_server_without_a_log_loads_its_dump() {
    let options = ["--appendonly", "no", "--save", "", "--enable-debug-command", "yes"];
    let mut server = Program::indelible().start(&options);
    let mut connection = server.connect();
    fill(&mut connection);
    let digest = digest_of(&mut connection);
    assert_eq!(connection.words("SAVE").text(), "OK");
    assert_eq!(connection.words("SET later 1").text(), "OK");
    server.kill();
    server.restart();
    let mut connection = server.connect();
    assert_eq!(digest_of(&mut connection), digest);
    assert_eq!(connection.words("SET account:1 5").text(), "OK");
    let _ended = connection.call(&["SHUTDOWN", "SAVE"]);
    assert_eq!(server.wait_for_exit(), Some(0));
    server.restart();
    let mut connection = server.connect();
    assert_eq!(connection.words("GET account:1").text(), "5");
    let _ended = connection.call(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.wait_for_exit(), Some(0));
    // A log that is turned on begins with the dump, too.
    server.restart_with(&["--appendonly", "yes", "--enable-debug-command", "yes"]);
    assert_eq!(server.connect().words("GET account:1").text(), "5");
    server.kill();
    // The log that is there now, and is not loaded, does not hide it.
    server.restart_with(&options);
    assert_eq!(server.connect().words("GET account:1").text(), "5");
    assert!(server.log().contains("its data is not loaded"), "{}", server.log());
}

#[test]
fn a_dump_replaces_nothing_but_a_dump() {
    let mut server = Program::indelible().start(&["--dbfilename", "redo.manifest"]);
    let mut connection = server.connect();
    assert_eq!(connection.words("SET a 1").text(), "OK");
    let reply = connection.words("SAVE").text();
    assert!(reply.contains("it is there and is no dump"), "{reply}");
    assert_eq!(info(&mut connection, "rdb_last_bgsave_status"), "err");
    server.kill();
    let manifest = server.directory().join("redo.manifest");
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    let output = command.arg("export").arg(server.directory()).arg(manifest).output().unwrap();
    assert!(!output.status.success());
    server.restart();
    assert_eq!(server.connect().words("GET a").text(), "1");
}

/// What groups of a stream know lies elsewhere in a dump than in records: one with streams is made anew, and says so.
#[test]
fn a_dump_with_streams_is_not_merged_and_says_so() {
    let options = ["--snapshot-algorithm", "hourglass", "--enable-debug-command", "yes"];
    let server = Program::indelible().start(&options);
    let mut connection = server.connect();
    let dump = server.directory().join("dump.rdb");
    let save = |connection: &mut Connection| {
        assert_eq!(connection.words("SAVE").text(), "OK");
        assert_eq!(fingerprint(&dump), digest_of(connection));
        (info(connection, "snapshot_merged_lsn") != "0", info(connection, "snapshot_whole_reason"))
    };
    assert_eq!(connection.words("SET k v").text(), "OK");
    assert!(!save(&mut connection).0);
    assert_eq!(save(&mut connection), (true, String::new()));
    assert_eq!(connection.words("XADD s 1-1 f v").text(), "1-1");
    // Dumps with streams have another form.
    assert_eq!(save(&mut connection), (false, "the last dump has another rdb-version".to_owned()));
    let streams = "the last dump has streams, which are not merged";
    assert_eq!(save(&mut connection), (false, streams.to_owned()));
    assert!(server.log().contains(streams), "{}", server.log());
    // Where there is none any more, the next one but one is merged.
    assert_eq!(connection.words("DEL s").text(), "1");
    assert_eq!(save(&mut connection), (false, streams.to_owned()));
    assert_eq!(save(&mut connection), (true, String::new()));
}

#[test]
fn a_dump_is_merged_with_the_one_before() {
    let options = ["--snapshot-algorithm", "hourglass", "--enable-debug-command", "yes"];
    let mut server = Program::indelible().start(&options);
    let mut connection = server.connect();
    fill(&mut connection);
    let dump = server.directory().join("dump.rdb");
    let save = |connection: &mut Connection| {
        assert_eq!(connection.words("SAVE").text(), "OK");
        assert_eq!(fingerprint(&dump), digest_of(connection));
        (info(connection, "snapshot_merged_lsn") != "0", info(connection, "snapshot_whole_reason"))
    };
    let first = "no dump was made by it since the log was opened".to_owned();
    assert_eq!(save(&mut connection), (false, first.clone()));
    assert_eq!(connection.words("SET later 1").text(), "OK");
    assert_eq!(save(&mut connection), (true, String::new()));
    assert_eq!(info(&mut connection, "snapshot_changed_records"), "1");
    let copied: u64 = info(&mut connection, "snapshot_copied_bytes").parse().unwrap();
    assert!(copied > 1000, "{copied}");
    assert!(server.log().contains("The dump was merged with that of block "), "{}", server.log());
    for words in ["SWAPDB 0 1", "RENAME later latest", "FLUSHDB", "SET a 1", "SWAPDB 1 0"] {
        _ = connection.words(words);
    }
    assert_eq!(save(&mut connection), (true, String::new()));
    // A client's stream has no part in it.
    std::fs::write(server.directory().join("streamed"), sync(server.port)).unwrap();
    assert_eq!(save(&mut connection), (true, String::new()));
    // Another file of that name is not taken for it.
    std::fs::write(&dump, b"REDIS0009 something else").unwrap();
    let replaced = "another file is in the place of the last dump".to_owned();
    assert_eq!(save(&mut connection), (false, replaced));
    // Nor is one that is damaged: the dump is made again, of the whole log, before the client is answered.
    let mut bytes = std::fs::read(&dump).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&dump, &bytes).unwrap();
    assert_eq!(save(&mut connection), (false, "the last dump is damaged".to_owned()));
    assert!(server.log().contains("cannot be merged with what has changed"), "{}", server.log());
    assert_eq!(save(&mut connection), (true, String::new()));
    assert_eq!(unfinished(&server.directory()), Vec::<String>::new());
    // Another way in between leaves nothing to be merged with.
    assert_eq!(connection.words("CONFIG SET snapshot-algorithm bitmap").text(), "OK");
    assert_eq!(save(&mut connection), (false, String::new()));
    assert_eq!(connection.words("CONFIG SET snapshot-algorithm hourglass").text(), "OK");
    let other = "the last dump was made by another snapshot-algorithm";
    assert_eq!(save(&mut connection), (false, other.to_owned()));
    server.kill();
    server.restart();
    let mut connection = server.connect();
    assert_eq!(save(&mut connection), (false, first));
    assert_eq!(save(&mut connection), (true, String::new()));
}

#[test]
fn without_a_log_there_is_nothing_to_merge() {
    let server = Program::indelible().start(&["--snapshot-algorithm", "hourglass"]);
    let mut connection = server.connect();
    let reply = connection.call(&["CONFIG", "SET", "save", "", "appendonly", "no"]).unwrap().text();
    assert!(
        reply.contains("'appendonly') - snapshot-algorithm hourglass needs the redo log"),
        "{reply}"
    );
    let volatile = Program::indelible().start(&["--appendonly", "no", "--save", ""]);
    let reply = volatile.connect().words("CONFIG SET snapshot-algorithm hourglass").text();
    assert!(
        reply.contains("'snapshot-algorithm') - snapshot-algorithm hourglass needs"),
        "{reply}"
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(["server", "--port", "0", "--appendonly", "no", "--save", ""]);
    let output = command.args(["--snapshot-algorithm", "hourglass"]).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = said + &String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("snapshot-algorithm hourglass needs the redo log: appendonly yes"),
        "{said}"
    );
}

//! `indelible export`: what a start would recover, or what there was after a block, as a dump, and nothing
//! in the data directory changes.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::damage::{Files, read_files, said};
use crate::dumps::fingerprint;
use crate::format_1::lay_out;
use crate::loop_device::LoopDisk;
use crate::process::{Program, Server, wait_until};
use crate::rdb_files::{digest_of, fill};
use crate::wire::Connection;

/// Small segments that are compacted soon, and values that are in several of them.
const OPTIONS: [&str; 8] = [
    "--enable-debug-command",
    "yes",
    "--appendfsync",
    "always",
    "--log-segment-bytes",
    "1mb",
    "--log-compaction-invalid-min",
    "100",
];

/// Nothing is compacted unless it is asked for.
const UNCOMPACTED: [&str; 6] =
    ["--enable-debug-command", "yes", "--appendfsync", "always", "--log-compaction", "no"];

fn export(directory: &Path, file: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("export").arg(directory).arg(file).args(more).output().unwrap()
}

/// The files of a data directory and of other directories.
fn all_files(directories: &[PathBuf]) -> Files {
    directories.iter().flat_map(|directory| read_files(directory)).collect()
}

/// Exports, and checks that nothing has changed but the dump. Returns its fingerprint, and what was said.
fn exported(server: &Server, more: &[&str]) -> (String, String) {
    exported_from(&[server.directory()], more)
}

fn exported_from(directories: &[PathBuf], more: &[&str]) -> (String, String) {
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("out.rdb");
    let before = all_files(directories);
    let output = export(&directories[0], &file, more);
    assert!(output.status.success(), "{}", said(&output));
    let after = all_files(directories);
    assert!(before == after, "{:?} {:?}", before.keys(), after.keys());
    let names: Vec<_> = std::fs::read_dir(target.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    (fingerprint(&file), said(&output))
}

fn refused(directory: &Path, file: &Path, more: &[&str], code: i32) -> String {
    let output = export(directory, file, more);
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    assert!(output.stdout.is_empty(), "{}", said(&output));
    said(&output)
}

fn ok(connection: &mut Connection, words: &str) {
    let reply = connection.words(words);
    assert!(!reply.is_error(), "{words}: {reply:?}");
}

fn info(connection: &mut Connection, field: &str) -> u64 {
    let text = connection.words("INFO everything").text();
    let prefix = format!("{field}:");
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("{field}: {text}")).trim().parse().unwrap()
}

fn compact(connection: &mut Connection) {
    ok(connection, "BGREWRITEAOF");
    wait_until(|| info(connection, "aof_rewrite_in_progress") == 0);
}

/// Writes, deletes, renames and frees values of several records until told to stop, or the server ends.
fn load(port: u16, seed: u64, stop: &AtomicBool) {
    let Ok(mut connection) = Connection::open(port) else { return };
    let mut number = seed;
    while !stop.load(Ordering::Relaxed) {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let (key, field) = ((number >> 33) % 40, (number >> 41) % 500);
        let words = match (number >> 50) % 12 {
            0..4 => format!("SET load:{key} {number}:{}", "v".repeat(300)),
            4..8 => format!("HSET load:hash:{} f{field} {}", key % 3, "v".repeat(100)),
            8 => format!("HDEL load:hash:{} f{field}", key % 3),
            9 => format!("RPUSH load:list {}", "v".repeat(200)),
            10 => format!("LTRIM load:list 20 {field}"),
            _ if field < 20 => format!("DEL load:hash:{}", key % 3),
            _ => format!("RENAME load:{key} load:{}", (key + 1) % 40),
        };
        if connection.call(&words.split(' ').collect::<Vec<_>>()).is_err() {
            return;
        }
    }
}

#[test]
fn what_is_exported_is_what_a_start_recovers() {
    let devices = tempfile::tempdir().unwrap();
    let devices: Vec<PathBuf> = ["a", "b"].map(|name| devices.path().join(name)).to_vec();
    for (policy, index, is_spread) in
        [("always", "no", false), ("no", "yes", true), ("everysec", "yes", false)]
    {
        let texts: Vec<String> =
            devices.iter().map(|path| path.join(policy).display().to_string()).collect();
        let mut options: Vec<&str> = OPTIONS.to_vec();
        options.extend(["--appendfsync", policy, "--log-index", index]);
        if is_spread {
            options.extend(["--log-devices", &texts[0], &texts[1]]);
        }
        let mut server = Program::indelible().start(&options);
        let mut directories = vec![server.directory()];
        if is_spread {
            directories.extend(texts.iter().map(PathBuf::from));
        }
        fill(&mut server.connect());
        for round in 0..4_u64 {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for seed in 0..3 {
                    let (port, stop) = (server.port, &stop);
                    scope.spawn(move || load(port, seed + round * 10, stop));
                }
                let mut connection = server.connect();
                let first = info(&mut connection, "redo_records");
                wait_until(|| info(&mut connection, "redo_compactions") > 1);
                match round {
                    0 => {
                        compact(&mut connection);
                        ok(&mut connection, "SWAPDB 0 5");
                    }
                    1 => {
                        ok(&mut connection, "SELECT 15");
                        ok(&mut connection, "FLUSHDB");
                        ok(&mut connection, "SET after flush");
                        compact(&mut connection);
                    }
                    2 => ok(&mut connection, "FLUSHALL"),
                    _ => fill(&mut connection),
                }
                wait_until(|| info(&mut connection, "redo_durable_lsn") > 0);
                assert!(first > 0);
                // In the middle of whatever goes on.
                server.begin_to_kill();
                stop.store(true, Ordering::Relaxed);
            });
            server.kill();
            let (digest, report) = exported_from(&directories, &[]);
            server.restart();
            let expected = digest_of(&mut server.connect());
            assert_eq!(digest, expected, "{policy} round {round}\n{report}");
        }
        // A log that was closed, and the same in Redis.
        let expected = digest_of(&mut server.connect());
        server.terminate();
        assert_eq!(server.wait_for_exit(), Some(0));
        let (digest, report) = exported_from(&directories, &["--rdb-version", "10"]);
        assert_eq!(digest, expected);
        assert!(report.contains("exported the end of the log, block "), "{report}");
        let Some(program) = Program::redis() else { continue };
        let redis = program.start(&["--enable-debug-command", "yes", "--save", ""]);
        let mut other = redis.connect();
        let file = redis.directory().join("dump.rdb");
        assert!(export(&directories[0], &file, &[]).status.success());
        assert_eq!(other.words("DEBUG RELOAD NOSAVE").text(), "OK", "{}", redis.log());
        assert_eq!(digest_of(&mut other), expected);
    }
}

#[test]
fn each_state_that_the_log_tells_is_exported() {
    let mut server = Program::indelible().start(&UNCOMPACTED);
    let mut connection = server.connect();
    let mut states = Vec::new();
    let mut note = |connection: &mut Connection, words: &str| {
        for command in words.split("; ") {
            ok(connection, command);
        }
        let lsn = info(connection, "redo_durable_lsn");
        states.push((lsn, digest_of(connection), words.to_owned()));
    };
    note(&mut connection, "SET a 1");
    fill(&mut connection);
    for words in [
        "PING",
        "SET a 2; DEL list:short; RENAME hash:mixed hash:renamed",
        "SWAPDB 0 15; SET b 1",
        "MULTI; SET a 3; HSET hash:short new field; SADD other 1 2 3; EXEC",
        "SELECT 5; FLUSHDB",
        "SET a 4; SELECT 0",
        "FLUSHALL",
        "SET last 1; HSET h f v",
    ] {
        note(&mut connection, words);
    }
    let newest = info(&mut connection, "redo_durable_lsn");
    server.kill();
    for (lsn, expected, words) in &states {
        let (digest, report) = exported(&server, &["--lsn", &lsn.to_string()]);
        assert_eq!(digest, *expected, "after block {lsn}, {words}");
        let what = if *lsn == newest { "the end of the log," } else { "the state after" };
        assert!(report.contains(&format!("exported {what} block {lsn}: ")), "{report}");
    }
    let (nothing, report) = exported(&server, &["--lsn", "0"]);
    assert_eq!(nothing, "0".repeat(40));
    assert!(report.contains("block 0: 0 keys in "), "{report}");
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("out.rdb");
    let beyond = (newest + 1).to_string();
    let text = refused(&server.directory(), &file, &["--lsn", &beyond], 1);
    let range =
        format!("after block {beyond}: it ends before; it tells those after blocks 0 to {newest}");
    assert!(text.contains(&range), "{text}");
    // A compaction drops states: those from the end of its work on are told.
    server.restart();
    let mut connection = server.connect();
    for number in 0..500 {
        ok(&mut connection, &format!("SET key:{} {number}", number % 50));
    }
    compact(&mut connection);
    let mut states = Vec::new();
    for number in 0..5 {
        ok(&mut connection, &format!("DEL key:{number}"));
        states.push((info(&mut connection, "redo_durable_lsn"), digest_of(&mut connection)));
    }
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    let verify = ["log", "verify"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    let verified = said(&command.args(verify).arg(server.directory()).output().unwrap());
    let told =
        verified.lines().find_map(|line| line.strip_prefix("tells the states after blocks "));
    let numbers: Vec<u64> =
        told.expect(&verified).split(' ').filter_map(|word| word.parse().ok()).collect();
    let [oldest, last] = numbers[..] else { panic!("{verified}") };
    assert!(oldest > newest && oldest <= states[0].0 && last == states[4].0, "{verified}");
    for (lsn, expected) in &states {
        assert_eq!(exported(&server, &["--lsn", &lsn.to_string()]).0, *expected, "{lsn}");
    }
    exported(&server, &["--lsn", &oldest.to_string()]);
    let text = refused(&server.directory(), &file, &["--lsn", &(oldest - 1).to_string()], 1);
    let why = format!(
        "compactions have dropped some of it; it tells those after blocks {oldest} to {last}"
    );
    assert!(text.contains(&why), "{text}");
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn the_log_that_was_off_is_exported_as_it_is() {
    let mut server = Program::indelible().start(&[&OPTIONS[..], &["--save", ""]].concat());
    let mut connection = server.connect();
    fill(&mut connection);
    let words = ["CONFIG", "SET", "save", "", "appendonly", "no"];
    assert_eq!(connection.call(&words).unwrap().text(), "OK");
    let off = digest_of(&mut connection);
    ok(&mut connection, "FLUSHALL");
    fill(&mut connection);
    ok(&mut connection, "SET more 1");
    // Turning it on logs all of it anew; killed anywhere, one or the other is there.
    ok(&mut connection, "CONFIG SET appendonly yes");
    let on = digest_of(&mut connection);
    server.kill();
    let (digest, report) = exported(&server, &[]);
    assert!(digest == off || digest == on, "{report}");
    server.restart();
    assert_eq!(digest, digest_of(&mut server.connect()), "{report}");
}

#[test]
fn a_torn_end_is_left_out_and_told() {
    let mut server = Program::indelible().start(&UNCOMPACTED);
    let mut connection = server.connect();
    ok(&mut connection, "SET a 1");
    let before = digest_of(&mut connection);
    ok(&mut connection, "SET b 1");
    server.kill();
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    let dump = said(&command.args(["log", "dump"]).arg(server.directory()).output().unwrap());
    let last = dump.lines().rfind(|line| line.starts_with("block ")).unwrap();
    let words: Vec<&str> = last.split(' ').collect();
    let [bytes, at] = ["bytes", "at"].map(|name| {
        let place = words.iter().position(|word| *word == name).unwrap();
        words[place + 1].parse::<u64>().unwrap()
    });
    let file = File::options().write(true).open(words[words.len() - 1]).unwrap();
    file.set_len(at + bytes - 1).unwrap();
    let (digest, report) = exported(&server, &[]);
    assert_eq!(digest, before);
    let told = format!("{} bytes behind block ", bytes - 1);
    assert!(report.contains(&told) && report.contains("the next start cuts them off"), "{report}");
    server.restart();
    assert_eq!(digest_of(&mut server.connect()), before);
}

#[test]
fn a_damaged_block_is_named_and_the_dump_that_was_there_stays() {
    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    fill(&mut connection);
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    let segment = server.directory().join("redo/0000000001.redo");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("out.rdb");
    std::fs::write(&file, "REDIS: older").unwrap();
    let text = refused(&server.directory(), &file, &[], 1);
    assert!(text.contains(&format!("{} is corrupt at byte ", segment.display())), "{text}");
    assert_eq!(std::fs::read(&file).unwrap(), b"REDIS: older");
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_exported_is_refused_in_words() {
    let mut server = Program::indelible().start(&OPTIONS);
    ok(&mut server.connect(), "SET a 1");
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("out.rdb");
    let text = refused(&server.directory(), &file, &[], 1);
    assert!(text.contains("is in use by a server: BGSAVE there, or redis-cli --rdb"), "{text}");
    server.kill();
    let text = refused(target.path(), &file, &[], 2);
    assert!(text.contains("there is no redo log in "), "{text}");
    let text = refused(&target.path().join("none"), &file, &[], 2);
    assert!(text.contains("there is no redo log in "), "{text}");
    let text = refused(&server.directory(), &target.path().join("none/out.rdb"), &[], 1);
    assert!(text.contains("cannot create ") && text.contains("none/out.rdb"), "{text}");
    let text = refused(&server.directory(), target.path(), &[], 1);
    assert!(text.contains("is a directory: give the name of a file"), "{text}");
    let text = refused(&server.directory(), &file, &["--rdb-version", "8"], 1);
    assert!(text.contains("choose 9 to 15 (Redis) or 80 (Valkey)"), "{text}");
    let text = refused(&server.directory(), &file, &["--lsn", "x"], 1);
    assert!(text.contains("--lsn"), "{text}");
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
    // A data directory that was copied has no lock, and gets none.
    std::fs::remove_file(server.directory().join("redo.lock")).unwrap();
    exported(&server, &[]);
}

#[test]
fn a_dump_goes_to_standard_output_and_nothing_else_does() {
    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    fill(&mut connection);
    let expected = digest_of(&mut connection);
    server.kill();
    let before = read_files(&server.directory());
    let output = export(&server.directory(), Path::new("-"), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(report.contains("database 5: ") && report.contains("exported the end"), "{report}");
    let mut streamed = tempfile::NamedTempFile::new().unwrap();
    streamed.write_all(&output.stdout).unwrap();
    assert_eq!(fingerprint(streamed.path()), expected);
    assert!(read_files(&server.directory()) == before);
    // A device that is full is no success.
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("export").arg(server.directory()).arg("-").stderr(Stdio::piped());
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("No space left on device"), "{}", said(&output));
}

#[test]
fn without_room_nothing_is_left() {
    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    let mut random = 1_u64;
    for number in 0..300 {
        // Nothing that is compressed.
        let value: Vec<u8> = (0..100_000)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
                random.to_be_bytes()[0]
            })
            .collect();
        connection.call(&[b"SET", format!("key:{number}").as_bytes(), &value]).unwrap();
    }
    let expected = digest_of(&mut connection);
    server.kill();
    let Some(disk) = LoopDisk::new(20 << 20) else { return };
    let file = disk.path().join("out.rdb");
    std::fs::write(&file, "REDIS: older").unwrap();
    let names = || std::fs::read_dir(disk.path()).unwrap().count();
    let count = names();
    let text = refused(&server.directory(), &file, &[], 1);
    assert!(text.contains("No space left on device") && text.contains("out.rdb"), "{text}");
    assert_eq!((std::fs::read(&file).unwrap(), names()), (b"REDIS: older".to_vec(), count));
    assert_eq!(exported(&server, &[]).0, expected);
}

#[test]
fn a_log_of_format_1_is_exported() {
    let directory = tempfile::tempdir().unwrap();
    lay_out(directory.path());
    let (digest, report) = exported_from(&[directory.path().to_owned()], &[]);
    let options = ["--enable-debug-command", "yes"];
    let server = Program::indelible().start_on(directory.path(), &options);
    assert_eq!(digest, digest_of(&mut server.connect()), "{report}");
    assert!(report.contains("string 1") && report.contains("set 1"), "{report}");
}

#[test]
fn a_log_that_ends_before_its_index_is_refused_as_by_a_start() {
    let options = ["--log-index", "yes", "--log-index-cut-bytes", "1mb"];
    let mut server = Program::indelible().start(&[&OPTIONS[..], &options].concat());
    let data = server.directory();
    let end = |server: &mut Server, value: u32| {
        let mut connection = server.connect();
        let logged = info(&mut connection, "redo_durable_lsn") + 1;
        let value = format!("{value}").repeat(20_000);
        for number in 0..100 {
            ok(&mut connection, &format!("SET key:{number} {value}"));
        }
        wait_until(|| info(&mut connection, "redo_index_cut_lsn") > logged);
        server.terminate();
        assert_eq!(server.wait_for_exit(), Some(0));
        let is_of_log = |path: &Path| !path.starts_with(data.join("index"));
        let mut files = read_files(&data);
        files.retain(|path, _| is_of_log(path));
        files
    };
    let older = end(&mut server, 1);
    server.restart();
    let newer = end(&mut server, 2);
    newer.keys().for_each(|path| std::fs::remove_file(path).unwrap());
    older.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    let target = tempfile::tempdir().unwrap();
    let text = refused(&server.directory(), &target.path().join("out.rdb"), &[], 1);
    assert!(text.contains("is missing although everything up to block "), "{text}");
}

/// What is `seen` of a database, which is the same after a crash, and is exported to `file`. The server has ended then.
pub(crate) fn seen_over_a_crash_and_exported(
    server: &mut Server,
    seen: impl Fn(&mut Connection) -> Vec<String>,
    file: &Path,
) -> Vec<String> {
    let expected = seen(&mut server.connect());
    server.kill();
    server.restart();
    assert_eq!(seen(&mut server.connect()), expected, "after a crash");
    server.terminate();
    server.wait_for_exit();
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    let output = command.arg("export").arg(server.directory()).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    expected
}

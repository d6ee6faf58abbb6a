//! `indelible restore`: the log as it was, in a directory of its own, while its server runs or after.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use crate::damage::{read_files, said};
use crate::process::{Program, Server, wait_until};
use crate::rdb_files::{digest_of, fill};
use crate::wire::Connection;

/// Small segments that are compacted soon.
const OPTIONS: [&str; 10] = [
    "--enable-debug-command",
    "yes",
    "--appendfsync",
    "always",
    "--log-history-seconds",
    "600",
    "--log-segment-bytes",
    "1mb",
    "--log-compaction-invalid-min",
    "100",
];

fn restore(source: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("restore").arg(source).args(more).output().unwrap()
}

fn info(connection: &mut Connection, field: &str) -> u64 {
    let text = connection.words("INFO everything").text();
    let prefix = format!("{field}:");
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("{field}: {text}")).trim().parse().unwrap()
}

/// Overwrites, deletes and creates until told to stop.
fn load(port: u16, seed: u64, stop: &AtomicBool) {
    let mut connection = Connection::open(port).unwrap();
    let mut number = seed;
    while !stop.load(Ordering::Relaxed) {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let (key, field) = ((number >> 33) % 40, (number >> 41) % 500);
        let words = match (number >> 50) % 9 {
            0..4 => format!("SET load:{key} {number}:{}", "v".repeat(300)),
            4..6 => format!("HSET load:hash:{} f{field} {}", key % 3, "v".repeat(100)),
            6 => format!("HDEL load:hash:{} f{field}", key % 3),
            7 => format!("RPUSH load:list {}", "v".repeat(200)),
            _ => format!("DEL load:hash:{}", key % 3),
        };
        if connection.call(&words.split(' ').collect::<Vec<_>>()).is_err() {
            return;
        }
    }
}

/// What a server has that is started on what was restored.
fn digest_in(directory: &Path) -> String {
    let server = Program::indelible().start_on(directory, &OPTIONS);
    digest_of(&mut server.connect())
}

/// The state before everything is deleted, and that it is: in one step, with others writing.
fn flush_among_others(connection: &mut Connection) -> String {
    for words in ["MULTI", "DEBUG DIGEST", "FLUSHALL"] {
        assert!(!connection.words(words).is_error());
    }
    connection.words("EXEC").elements()[0].text()
}

fn compact(connection: &mut Connection) {
    assert!(!connection.words("BGREWRITEAOF").is_error());
    wait_until(|| info(connection, "aof_rewrite_in_progress") == 0);
}

#[test]
fn flushall_in_the_middle_of_writes_is_undone_to_the_block_before_it() {
    for policy in ["always", "everysec"] {
        let options = [&OPTIONS[..], &["--appendfsync", policy]].concat();
        let mut server: Server = Program::indelible().start(&options);
        let mut connection = server.connect();
        fill(&mut connection);
        let (stop, port) = (AtomicBool::new(false), server.port);
        let target = tempfile::tempdir().unwrap();
        let first = scope(|scope| {
            (1..3).for_each(|seed| {
                let stop = &stop;
                scope.spawn(move || load(port, seed, stop));
            });
            std::thread::sleep(std::time::Duration::from_millis(700));
            let first = flush_among_others(&mut connection);
            std::thread::sleep(std::time::Duration::from_millis(300));
            compact(&mut connection);
            // While all of it goes on.
            let into = target.path().join("running");
            let output = restore(
                &server.directory(),
                &["--before", "flush", "--into", into.to_str().unwrap()],
            );
            assert!(output.status.success(), "{}", said(&output));
            assert!(said(&output).contains("all of them read back"), "{}", said(&output));
            assert_eq!(digest_in(&into), first, "{policy}: {}", said(&output));
            stop.store(true, Ordering::Relaxed);
            first
        });
        let second = digest_of(&mut connection);
        let files = info(&mut connection, "history_files");
        assert!(files > 0 && info(&mut connection, "history_bytes") > 0);
        assert_eq!(info(&mut connection, "history_from_lsn"), 0);
        assert_eq!(connection.words("FLUSHALL").text(), "OK");
        compact(&mut connection);
        connection.words("SET after flush");
        connection.words("WAITAOF 1 0 0");
        server.kill();
        let before = read_files(&server.directory());
        for (name, point, digest) in [("last", "flush", &second), ("first", "flush:2", &first)] {
            let into = target.path().join(name);
            let output = restore(
                &server.directory(),
                &["--before", point, "--into", into.to_str().unwrap()],
            );
            assert!(output.status.success(), "{}", said(&output));
            assert_eq!(&digest_in(&into), digest, "{policy}, {name}: {}", said(&output));
        }
        assert!(before == read_files(&server.directory()), "nothing of the source has changed");
        let output = restore(&server.directory(), &["--before", "flush:9", "--dry-run"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("the log tells of 2"), "{}", said(&output));
        // A start keeps what there is.
        server.restart();
        let mut connection = server.connect();
        assert_eq!(connection.words("GET after").text(), "flush");
        assert!(info(&mut connection, "history_files") >= files);
        let into = target.path().join("again");
        let output = restore(
            &server.directory(),
            &["--before", "flush:2", "--into", into.to_str().unwrap()],
        );
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(digest_in(&into), first);
    }
}

#[test]
fn a_time_means_what_was_there_then_and_the_newest_is_what_is_there() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    connection.words("SET k before");
    std::thread::sleep(std::time::Duration::from_millis(1200));
    let (mut times, mut blocks) = (Vec::new(), Vec::new());
    for number in 0..4 {
        connection.words(&format!("SET k {number}"));
        let clock = connection.words("TIME");
        let parts: Vec<u64> =
            clock.elements().iter().map(|part| part.text().parse().unwrap()).collect();
        // A block is ended soon after its command.
        times.push(parts[0] * 1000 + parts[1] / 1000 + 60);
        blocks.push(info(&mut connection, "redo_durable_lsn"));
        std::thread::sleep(std::time::Duration::from_millis(150));
    }
    let target = tempfile::tempdir().unwrap();
    let value_at = |name: &str, point: &[&str]| {
        let into = target.path().join(name);
        let more = [point, &["--json", "--into", into.to_str().unwrap()]].concat();
        let output = restore(&server.directory(), &more);
        assert!(output.status.success(), "{}", said(&output));
        let restored = Program::indelible().start_on(&into, &OPTIONS);
        let mut connection = restored.connect();
        (connection.words("GET k").text(), said(&output))
    };
    for number in 0..4 {
        let (seconds, ms) = (times[number] / 1000, times[number] % 1000);
        let day = 86_400;
        let (hours, minutes) = (seconds % day / 3600, seconds / 60 % 60);
        // Days are not this test's matter: an offset of a year that is none.
        let date = Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%F"]).output();
        let date = String::from_utf8(date.unwrap().stdout).unwrap();
        let time = format!("{}T{hours:02}:{minutes:02}:{:02}.{ms:03}Z", date.trim(), seconds % 60);
        let (value, text) = value_at(&format!("time{number}"), &["--at", &time]);
        assert_eq!(value, number.to_string(), "{time}: {text}");
        let (value, text) =
            value_at(&format!("lsn{number}"), &["--at", &blocks[number].to_string()]);
        assert_eq!(value, number.to_string(), "{text}");
        assert!(text.contains(&format!("\"lsn\":{}", blocks[number])), "{text}");
    }
    assert_eq!(value_at("latest", &["--latest"]).0, "3");
    assert_eq!(value_at("ago", &["--at", "-0s"]).0, "3");
    for (point, what) in [
        (["--at", "999999"], "there is no block"),
        (["--at", "1999-01-01T00:00:00Z"], "does not tell any more"),
    ] {
        let output = restore(&server.directory(), &[point[0], point[1], "--dry-run"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(what), "{}", said(&output));
    }
    let nothing = tempfile::tempdir().unwrap();
    let output = restore(nothing.path(), &["--latest", "--dry-run"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("there is no redo log in"), "{}", said(&output));
}

/// Without history only what is there now can be told, and the window can be turned off while running.
#[test]
fn a_point_that_is_gone_is_refused_with_the_nearest() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    fill(&mut connection);
    let early = info(&mut connection, "redo_durable_lsn");
    fill(&mut connection);
    assert_eq!(connection.words("FLUSHALL").text(), "OK");
    compact(&mut connection);
    assert!(info(&mut connection, "history_files") > 0);
    assert_eq!(connection.words("CONFIG SET log-history-seconds 0").text(), "OK");
    wait_until(|| info(&mut connection, "history_files") == 0);
    let floor = info(&mut connection, "history_from_lsn");
    assert!(floor > early);
    let output = restore(&server.directory(), &["--at", &early.to_string(), "--dry-run"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains(&format!("the nearest is {floor}")), "{}", said(&output));
    let output = restore(&server.directory(), &["--before", "flush", "--dry-run"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

/// What it has linked would keep the server from giving room back.
#[test]
fn a_restore_that_is_ended_leaves_no_links() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    let value = "v".repeat(100_000);
    for number in 0..400 {
        assert_eq!(connection.words(&format!("SET large:{number} {value}")).text(), "OK");
    }
    let (history, target) = (server.directory().join("redo/history"), tempfile::tempdir().unwrap());
    assert!(history.is_dir(), "the server makes it");
    let mut ended = 0;
    for (number, signal) in ["INT", "TERM"].into_iter().cycle().take(30).enumerate() {
        // One may have been faster than its signal.
        if number >= 3 && ended > 0 {
            break;
        }
        let into = target.path().join(number.to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
        let command = command.arg("restore").arg(server.directory()).arg("--latest");
        let mut child = command.arg("--into").arg(&into).stderr(Stdio::null()).spawn().unwrap();
        let reader = history.join(format!("reader.{}", child.id()));
        let is_linked = || std::fs::read_dir(&reader).is_ok_and(|names| names.count() > 2);
        wait_until(|| is_linked() || child.try_wait().unwrap().is_some());
        let arguments = [format!("-{signal}"), child.id().to_string()];
        assert!(Command::new("kill").args(arguments).status().is_ok());
        let status = child.wait().unwrap();
        ended += usize::from(status.code().is_none());
        let is_made = into.join("redo.manifest").exists();
        assert_eq!(is_made, status.success(), "all of it, or no log");
        assert!(
            !reader.exists(),
            "{signal}: {:?}",
            std::fs::read_dir(&reader).map(Iterator::count)
        );
    }
    assert!(ended > 0, "each has ended before the signal");
    assert_eq!(connection.words("SET a b").text(), "OK");
}

/// One that was cut off, by a limit of how long a file may be, is the same when it is run from another directory.
#[test]
fn how_the_source_is_spelled_does_not_matter_to_one_that_goes_on() {
    let mut server = Program::indelible().start(&OPTIONS);
    let value = "v".repeat(200_000);
    assert_eq!(server.connect().words(&format!("SET k {value}")).text(), "OK");
    server.kill();
    let (target, source) = (tempfile::tempdir().unwrap(), server.directory());
    let into = target.path().join("into");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_indelible")]);
    limited.arg("restore").arg(&source).args(["--latest", "--into"]).arg(&into);
    let output = limited.output().unwrap();
    assert!(!output.status.success() && !into.join("redo.manifest").exists(), "{}", said(&output));
    let mut relative = Command::new(env!("CARGO_BIN_EXE_indelible"));
    relative.current_dir(source.parent().unwrap()).arg("restore");
    relative.arg(source.file_name().unwrap()).args(["--latest", "--into"]).arg(&into);
    let output = relative.output().unwrap();
    assert!(
        output.status.success() && said(&output).contains("had been cut off"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_dry_run_says_how_much_room_there_is() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    fill(&mut connection);
    let target = tempfile::tempdir().unwrap();
    let into = target.path().join("none/yet");
    let output =
        restore(&server.directory(), &["--latest", "--dry-run", "--into", into.to_str().unwrap()]);
    assert!(output.status.success() && said(&output).contains("it fits"), "{}", said(&output));
    assert!(!target.path().join("none").exists());
}

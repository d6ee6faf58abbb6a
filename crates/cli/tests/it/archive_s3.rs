//! Continuous archiving to a bucket: a real server, a store in this process, and a bad way between them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::Ordering;

use crate::archive::{OPTIONS, catch_up, counted_in, info, number};
use crate::damage::said;
use crate::process::{Program, Server, wait_until};
use crate::proxy::Proxy;
use crate::rdb_files::{digest_of, fill};
use crate::store::{BUCKET, Store, variables};
use crate::wire::Connection;

fn url() -> String {
    format!("s3://{BUCKET}/of/shop")
}

/// A server that reaches the store at this address.
fn program(address: std::net::SocketAddr) -> Program {
    let variables = variables(address).into_iter().map(|(name, value)| format!("{name}={value}"));
    let words: Vec<String> = variables.collect();
    Program::of_words(&format!(
        "env {} {} server",
        words.join(" "),
        env!("CARGO_BIN_EXE_indelible")
    ))
}

pub(crate) fn start(address: std::net::SocketAddr, more: &[&str]) -> Server {
    let archive = ["--archive", &url(), "--archive-interval-ms", "300"];
    program(address).start(&[&OPTIONS[..], &archive, more].concat())
}

/// Runs a command that reaches the store itself.
fn run(store: &Store, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(words).envs(variables(store.address)).output().unwrap()
}

pub(crate) fn restore(store: &Store, into: &Path, more: &[&str]) -> Output {
    run(store, &[&["restore", &url(), "--into", into.to_str().unwrap()], more].concat())
}

/// Appends the next 200 numbers to a list, among other changes. Returns the last one.
fn append(connection: &mut Connection, last: u64) -> u64 {
    for number in last + 1..=last + 200 {
        connection.call(&["SET", &format!("key:{}", number % 50), &"v".repeat(300)]).unwrap();
        connection.call(&["RPUSH", "order", &number.to_string()]).unwrap();
    }
    last + 200
}

/// Whether a file below a directory has these bytes.
fn has_in_clear(directory: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return has_in_clear(&path, bytes);
        }
        fs::read(&path).unwrap().windows(bytes.len()).any(|part| part == bytes)
    })
}

/// The way to the store cuts connections, delays and is busy; the process is killed and its data are removed. Whatever was told
/// to be archived comes back from the bucket.
#[test]
fn what_was_archived_in_a_bucket_comes_back_when_the_data_directory_is_gone() {
    let key_place = tempfile::tempdir().unwrap();
    let key = key_place.path().join("key");
    let key = key.to_str().unwrap();
    for round in 0..2_u64 {
        let (place, store) = (tempfile::tempdir().unwrap(), Store::start());
        let proxy = Proxy::start(store.address);
        let mut keys = Vec::new();
        if round == 1 {
            keys.extend(["--key-file", key]);
            let made = run(&store, &["backup", "key"]);
            fs::write(key, &made.stdout).unwrap();
            let owners = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(key, owners).unwrap();
        }
        let options = [["--archive-compression", "none"], ["--archive-key-file", key]]
            [usize::from(round == 1)];
        let mut server = start(proxy.address, &options);
        let mut connection = server.connect();
        fill(&mut connection);
        wait_until(|| info(&mut connection, "archive_state") == "streaming");
        proxy.faults.cut.store(100, Ordering::Relaxed);
        proxy.faults.delayed.store(20, Ordering::Relaxed);
        proxy.faults.busy.store(100, Ordering::Relaxed);
        // What was told to be archived, and how much was written by then.
        let (mut told, mut count) = (Vec::new(), 0);
        while told.len() < 4 || proxy.faults.done.load(Ordering::Relaxed) < 6 {
            count = append(&mut connection, count);
            catch_up(&mut connection);
            // It may be behind a gap; what was answered before is in it all the same.
            told.push((number(&mut connection, "archive_lsn"), count));
        }
        append(&mut connection, count);
        server.kill();
        fs::remove_dir_all(server.directory()).unwrap();
        let last = told.last().unwrap().1;
        for (number, (lsn, answered)) in told.iter().rev().take(2).enumerate() {
            let into = place.path().join(number.to_string());
            let at = lsn.to_string();
            let output = restore(&store, &into, &[&["--at", &at], &keys[..]].concat());
            assert!(output.status.success(), "{}", said(&output));
            let counted = counted_in(&into);
            assert!(counted >= *answered, "{counted} of {answered} at block {lsn}");
        }
        let latest = place.path().join("latest");
        let output = restore(&store, &latest, &[&["--latest"], &keys[..]].concat());
        assert!(output.status.success(), "{}", said(&output));
        assert!(counted_in(&latest) >= last);
        let output = run(&store, &[&["backup", "verify", &url()], &keys[..]].concat());
        assert!(said(&output).contains("all of it is good"), "{}", said(&output));
        let seen = has_in_clear(&store.files(), b"order");
        assert_eq!(seen, round == 0, "the name of the list, in what the store has");
        let output = run(&store, &["backup", "timeline", &url()]);
        assert_eq!(output.status.success(), round == 0, "{}", said(&output));
    }
}

/// A copied data directory that is started, too: the one that was there first ends.
#[test]
fn of_two_servers_with_the_same_data_one_is_fenced() {
    let (place, store) = (tempfile::tempdir().unwrap(), Store::start());
    // The next start compares the last block, which is there no more once it was compacted.
    let as_written = ["--log-compaction", "no"];
    let mut first = start(store.address, &as_written);
    let mut connection = first.connect();
    fill(&mut connection);
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    // Behind the copy, too, if that was made of all so far.
    connection.words("SET behind the-copy");
    catch_up(&mut connection);
    connection.send(&["SHUTDOWN"]).unwrap();
    first.wait_for_exit();
    let copied = place.path().join("copied");
    let copy = Command::new("cp").arg("-a").arg(first.directory()).arg(&copied).status().unwrap();
    assert!(copy.success());
    first.restart();
    let mut connection = first.connect();
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    let url = url();
    let options = [&OPTIONS[..], &["--archive", &url], &as_written].concat();
    let second = program(store.address).start_on(&copied, &options);
    let mut other = second.connect();
    wait_until(|| info(&mut other, "archive_state") == "streaming");
    connection.words("SET by first");
    wait_until(|| info(&mut connection, "archive_state") == "fenced");
    other.words("SET by second");
    catch_up(&mut other);
    let into = place.path().join("into");
    let output = restore(&store, &into, &["--latest"]);
    assert!(output.status.success(), "{}", said(&output));
    let restored = Program::indelible().start_on(&into, &OPTIONS);
    assert_eq!(digest_of(&mut restored.connect()), digest_of(&mut other));
}

#[test]
fn a_bucket_that_cannot_be_reached_is_told_of_and_holds_nothing_up() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let server = start(address, &[]);
    let mut connection = server.connect();
    wait_until(|| info(&mut connection, "archive_state") == "away");
    let error = info(&mut connection, "archive_last_error");
    assert!(error.contains("s3://backups/of/shop") && !error.contains("secret"), "{error}");
    assert_eq!(connection.words("SET served yes").text(), "OK");
}

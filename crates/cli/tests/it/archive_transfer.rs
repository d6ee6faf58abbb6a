//! Continuous archiving to another machine: a server, and `indelible transfer serve`, as real processes.

use std::cmp::Reverse;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use crate::archive::{
    OPTIONS, catch_up, count_up, counted_in, info, length, number, restore, run, start,
};
use crate::damage::said;
use crate::process::{Program, wait_until};
use crate::rdb_files::{digest_of, fill};
use crate::transfer::Receiver;

pub(crate) fn url(receiver: &Receiver) -> String {
    format!("transfer:{}/of/shop", receiver.address)
}

/// The other process is killed and comes back; the server is killed, and its directory removed, under load.
#[test]
fn what_was_archived_there_comes_back_when_the_data_directory_is_gone() {
    let (place, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut receiver = Receiver::start(there.path(), &["--device-cache", "64K"]);
    let (url, address) = (url(&receiver), receiver.address.clone());
    let mut server = start(&url, &[]);
    let mut connection = server.connect();
    fill(&mut connection);
    let (stop, port) = (AtomicBool::new(false), server.port);
    let (answered, archived) = scope(|scope| {
        let counter = scope.spawn(|| count_up(port, &stop));
        wait_until(|| info(&mut connection, "archive_state") == "streaming");
        wait_until(|| length(&mut connection) > 200);
        catch_up(&mut connection);
        receiver.kill();
        wait_until(|| info(&mut connection, "archive_state") == "away");
        let meanwhile = length(&mut connection);
        wait_until(|| length(&mut connection) > meanwhile + 50);
        receiver = Receiver::start_at(&address, there.path(), &["--device-cache", "64K"]);
        wait_until(|| info(&mut connection, "archive_state") == "streaming");
        let archived = length(&mut connection);
        let lsn = catch_up(&mut connection);
        // What was put before the other process was killed is read back, too.
        wait_until(|| number(&mut connection, "archive_verified_lsn") >= lsn);
        assert_eq!(number(&mut connection, "archive_damaged_objects"), 0);
        server.kill();
        fs::remove_dir_all(server.directory()).unwrap();
        stop.store(true, Ordering::Relaxed);
        (counter.join().unwrap(), archived)
    });
    let into = place.path().join("latest");
    let output = restore(&url, &into, &["--latest"]);
    assert!(output.status.success(), "{}", said(&output));
    let counted = counted_in(&into);
    assert!(counted >= archived, "{counted} of {archived} that were archived");
    println!("{} of {answered} were lost", answered.saturating_sub(counted));
    for command in ["list", "timeline", "verify"] {
        let output = run(&["backup", command, &url]);
        assert!(output.status.success(), "{}", said(&output));
    }
    // A file that is something else is found.
    let database = fs::read_dir(there.path().join("of/shop")).unwrap().next().unwrap().unwrap();
    // Of those that end with the newest block the longest: others may have been made one, and are not read any more.
    let logs = fs::read_dir(database.path().join("log")).unwrap();
    let range = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (first, last) = name.split_once('-').unwrap();
        (last[..20].to_owned(), Reverse(first.to_owned()))
    };
    let log = logs.map(|entry| entry.unwrap().path()).max_by_key(range).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&log, bytes).unwrap();
    let output = run(&["backup", "verify", &url]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    // Nothing is heard: that is no damage.
    receiver.kill();
    let output = run(&["backup", "verify", &url]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[test]
fn what_turns_bad_before_it_was_read_back_is_told_of_and_mended_by_a_copy() {
    let there = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(there.path(), &["--device-cache", "64K"]);
    let url = url(&receiver);
    let server = start(&url, &[]);
    let mut connection = server.connect();
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    connection.words("SET small value");
    let lsn = catch_up(&mut connection);
    assert!(number(&mut connection, "archive_verified_lsn") < lsn, "nothing has come behind it");
    let database = fs::read_dir(there.path().join("of/shop")).unwrap().next().unwrap().unwrap();
    let logs = fs::read_dir(database.path().join("log")).unwrap();
    let log = logs.map(|entry| entry.unwrap().path()).max().unwrap();
    let mut bytes = fs::read(&log).unwrap();
    bytes[130] ^= 1;
    fs::write(&log, bytes).unwrap();
    for round in 0..5 {
        // What can be compressed would displace nothing.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64 + round;
        let random = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'0' + (state >> 58) as u8)
        });
        let value: String = random.take(30_000).collect();
        connection.call(&["SET", &format!("large-{round}"), &value]).unwrap();
        catch_up_or_gap(&mut connection);
    }
    wait_until(|| number(&mut connection, "archive_damaged_objects") == 1);
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    assert!(info(&mut connection, "archive_last_error").contains("read back from its medium"));
    let digest = digest_of(&mut connection);
    catch_up(&mut connection);
    let place = tempfile::tempdir().unwrap();
    let into = place.path().join("into");
    let output = restore(&url, &into, &["--latest"]);
    assert!(output.status.success(), "{}", said(&output));
    let restored = Program::indelible().start_on(&into, &OPTIONS);
    assert_eq!(digest_of(&mut restored.connect()), digest);
}

fn catch_up_or_gap(connection: &mut crate::wire::Connection) {
    let durable = number(connection, "redo_durable_lsn");
    wait_until(|| {
        number(connection, "archive_lsn") >= durable
            || number(connection, "archive_damaged_objects") > 0
    });
}

#[test]
fn without_the_token_nothing_is_sent_and_with_it_everything_is() {
    let (place, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let token = run(&["transfer", "token"]);
    let token = String::from_utf8(token.stdout).unwrap().trim().to_owned();
    let file = place.path().join("token");
    fs::write(&file, &token).unwrap();
    let receiver = Receiver::start(there.path(), &["--token-file", file.to_str().unwrap()]);
    let url = url(&receiver);
    let server = start(&url, &[]);
    let mut connection = server.connect();
    wait_until(|| info(&mut connection, "archive_state") == "away");
    let error = info(&mut connection, "archive_last_error");
    assert!(error.contains("token"), "{error}");
    assert!(!there.path().join("of").exists());
    let variable = format!("INDELIBLE_TRANSFER_TOKEN={token}");
    let program =
        Program::of_words(&format!("env {variable} {} server", env!("CARGO_BIN_EXE_indelible")));
    let server = program.start(&[&OPTIONS[..], &["--archive", &url]].concat());
    let mut connection = server.connect();
    fill(&mut connection);
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    catch_up(&mut connection);
    assert!(!connection.words("CONFIG GET *").text().contains(&token));
    let with_token = |words: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
        command.args(words).env("INDELIBLE_TRANSFER_TOKEN", &token).output().unwrap()
    };
    let output = with_token(&["backup", "verify", &url, "--restore"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(run(&["backup", "verify", &url]).status.code(), Some(1));
}

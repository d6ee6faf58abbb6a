//! What was used before the server ended is in memory first when it runs again.

use std::fs;
use std::path::PathBuf;

use crate::instant_start::info;
use crate::log_index::wait_for_a_cut;
use crate::process::{Program, Server, wait_until};
use crate::wire::{Connection, encode};

/// Five times what memory may hold.
const KEYS: usize = 140_000;
const HOT_EVERY: usize = 140;
const OPTIONS: [&str; 10] = [
    "--maxmemory",
    "30mb",
    "--maxmemory-policy",
    "cold-lfu",
    "--lfu-decay-time",
    "0",
    "--log-index",
    "yes",
    "--log-index-cut-bytes",
    "1mb",
];
const NEVER: [&str; 2] = ["--log-index-hot-seconds", "0"];

/// What a start says of a hint that it cannot use.
const OF_NO_USE: &str = "Which keys were hot before the start is not known";

fn number_of(server: &Server, name: &str) -> u64 {
    info(server, name).parse().unwrap()
}

fn hint_of(server: &Server) -> PathBuf {
    server.directory().join("index/hot")
}

/// Sends a request for each number, and says how many replies are none.
fn ask(
    connection: &mut Connection,
    numbers: impl Iterator<Item = usize>,
    request: impl Fn(usize) -> Vec<u8>,
) -> usize {
    let numbers: Vec<usize> = numbers.collect();
    let mut empty = 0;
    for numbers in numbers.chunks(500) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| request(*number)).collect();
        connection.send_bytes(&bytes).unwrap();
        for _ in numbers {
            let reply = connection.receive().unwrap();
            assert!(!reply.is_error(), "{reply:?}");
            empty += usize::from(reply.text().is_empty());
        }
    }
    empty
}

fn hot_numbers() -> impl Iterator<Item = usize> {
    (0..KEYS).step_by(HOT_EVERY)
}

fn get(number: usize) -> Vec<u8> {
    encode(&["GET", &format!("key:{number}")])
}

/// How many values are read from the log when each hot key is asked for.
fn fetches_of_hot(server: &Server) -> u64 {
    let mut connection = server.connect();
    let fetches = number_of(server, "cold_fetches");
    assert_eq!(ask(&mut connection, hot_numbers(), get), 0);
    assert_eq!(connection.words("HGET hash 77").text(), "v77");
    number_of(server, "cold_fetches") - fetches
}

fn kill_and_warm_up(server: &mut Server, more: &[&str]) {
    server.kill();
    server.restart_with(&[&OPTIONS[..], more].concat());
    wait_until(|| info(server, "recovery_state") == "done");
}

#[test]
fn what_was_hot_is_in_memory_after_a_crash_and_what_was_not_has_to_wait() {
    let mut server = Program::indelible().start(&[&OPTIONS[..], &NEVER].concat());
    let mut connection = server.connect();
    let field =
        |number: usize| encode(&["HSET", "hash", &number.to_string(), &format!("v{number}")]);
    ask(&mut connection, 0..2000, field);
    let value = "v".repeat(1000);
    ask(&mut connection, 0..KEYS, |number| encode(&["SET", &format!("key:{number}"), &value]));
    let cold = number_of(&server, "cold_values") + number_of(&server, "cold_keys");
    assert!(cold > KEYS as u64 / 2, "{cold} are cold");
    for _ in 0..30 {
        ask(&mut connection, hot_numbers(), get);
        assert_eq!(connection.words("HGET hash 77").text(), "v77");
    }
    assert!(!hint_of(&server).exists());
    assert_eq!(connection.words("CONFIG SET log-index-hot-seconds 1").text(), "OK");
    // Memory is short: what is not asked for meanwhile may leave it.
    let wanted = (KEYS / HOT_EVERY) as u64;
    wait_until(|| {
        ask(&mut connection, hot_numbers(), get);
        number_of(&server, "redo_index_hot_records") > wanted / 20 * 19
    });
    assert_eq!(connection.words("CONFIG SET log-index-hot-seconds 0").text(), "OK");

    kill_and_warm_up(&mut server, &NEVER);
    assert!(server.log().contains("keys that were hot before the start have come back"));
    let total = number_of(&server, "recovery_hot_keys_total");
    assert!(total > wanted / 2, "{total} of {wanted}");
    assert_eq!(number_of(&server, "recovery_hot_keys_done"), total);
    assert_eq!(info(&server, "recovery_stage"), "done");
    // They are warmer than what has come because there was room.
    assert_eq!(server.connect().words("OBJECT FREQ key:140").text(), "10");
    let fetches = fetches_of_hot(&server);
    assert!(fetches < wanted / 4, "{fetches} of {wanted} hot values had to be read");

    fs::remove_file(hint_of(&server)).unwrap();
    kill_and_warm_up(&mut server, &NEVER);
    let fetches = fetches_of_hot(&server);
    assert!(fetches > wanted / 2, "{fetches} of {wanted} values had to be read");
    assert!(!server.log().contains(OF_NO_USE), "{}", server.log());
}

/// Heat that counts requests and never the seconds between them, of which a slow machine has more.
const SMALL: [&str; 10] = [
    "--log-index",
    "yes",
    "--log-index-cut-bytes",
    "1mb",
    "--maxmemory-policy",
    "cold-lfu",
    "--lfu-decay-time",
    "0",
    "--lfu-log-factor",
    "0",
];

/// A server with data and an index.
fn filled() -> Server {
    let server = Program::indelible().start(&SMALL);
    let mut connection = server.connect();
    let value = "v".repeat(100);
    ask(&mut connection, 0..5000, |number| encode(&["SET", &format!("key:{number}"), &value]));
    wait_for_a_cut(&server);
    // More than a half is hot, and hotter than what `wait_for_a_cut` writes.
    for _ in 0..100 {
        assert_eq!(ask(&mut connection, 0..3000, get), 0);
    }
    server
}

/// Ends a server in order, which saves its hint if there is time.
fn ended(mut server: Server) -> Server {
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    server
}

/// A server that has ended, with a hint of all that was hot also where the end had no time for it.
fn ended_with_hint() -> Server {
    let server = filled();
    assert_eq!(server.connect().words("CONFIG SET log-index-hot-seconds 1").text(), "OK");
    wait_until(|| number_of(&server, "redo_index_hot_records") >= 2000);
    ended(server)
}

fn start_again(server: &mut Server) {
    server.restart_with(&SMALL);
    wait_until(|| info(server, "recovery_state") == "done");
    assert_eq!(info(server, "recovery_keys_cold"), "0");
    assert_eq!(server.connect().words("DBSIZE").text(), "5001");
    assert_eq!(ask(&mut server.connect(), 0..5000, get), 0);
    assert!(server.log().contains("DB opened by its index"), "{}", server.log());
}

#[test]
fn an_orderly_end_says_what_is_hot_and_a_start_after_it_knows() {
    let mut server = ended(filled());
    for _ in 0..2 {
        assert!(hint_of(&server).exists());
        start_again(&mut server);
        assert!(number_of(&server, "recovery_hot_keys_total") >= 2000);
        assert!(!server.log().contains(OF_NO_USE), "{}", server.log());
        server.terminate();
        assert_eq!(server.wait_for_exit(), Some(0));
    }
    // It goes with the index.
    server.restart_with(&["--log-index", "no"]);
    assert!(!hint_of(&server).exists());
}

#[test]
fn a_hint_that_is_of_no_use_is_told_and_does_no_harm() {
    let mut server = ended_with_hint();
    let mut other = ended_with_hint();
    let path = hint_of(&server);
    let good = fs::read(&path).unwrap();
    let foreign = fs::read(hint_of(&other)).unwrap();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let wrongs = [
        flipped(0),
        flipped(8),
        flipped(45),
        flipped(good.len() - 1),
        good[..good.len() / 2].to_vec(),
        Vec::new(),
        foreign,
    ];
    for (told, wrong) in (1..).zip(wrongs) {
        fs::write(&path, wrong).unwrap();
        start_again(&mut server);
        assert_eq!(number_of(&server, "recovery_hot_keys_total"), 0);
        assert_eq!(server.log().matches(OF_NO_USE).count(), told, "{}", server.log());
        server.kill();
    }
    fs::write(&path, good).unwrap();
    start_again(&mut server);
    assert!(number_of(&server, "recovery_hot_keys_total") >= 2000);
    start_again(&mut other);
}

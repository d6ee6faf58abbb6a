//! Keys expire that are in the log only, although no command asks for them.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::instant_start::info;
use crate::log_index::wait_for_a_cut;
use crate::process::{Program, Server, wait_until};
use crate::wire::{Connection, encode};

const KEYS: usize = 30_000;
const THIRD: usize = KEYS / 3;
const OPTIONS: [&str; 10] = [
    "--maxmemory",
    "12mb",
    "--maxmemory-policy",
    "cold-lfu",
    "--log-index",
    "yes",
    "--log-index-cut-bytes",
    "1mb",
    "--cold-keys-maxmemory",
    "500kb",
];
const FAR_MS: u128 = 1_000_000_000;

fn value(number: usize) -> String {
    format!("{number}:{}", "v".repeat(1000))
}

/// Of three keys one expires soon, one in some days, and one never.
fn fill(connection: &mut Connection) {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let (soon, far) = ((now_ms + 2_000).to_string(), (now_ms + FAR_MS).to_string());
    let numbers: Vec<usize> = (0..KEYS).collect();
    for numbers in numbers.chunks(500) {
        let set = |number: &usize| {
            let (key, value) = (format!("key:{number}"), value(*number));
            match number % 3 {
                0 => encode(&["SET", &key, &value, "PXAT", &soon]),
                1 => encode(&["SET", &key, &value, "PXAT", &far]),
                _ => encode(&["SET", &key, &value]),
            }
        };
        connection.send_bytes(&numbers.iter().flat_map(set).collect::<Vec<u8>>()).unwrap();
        numbers.iter().for_each(|_| assert_eq!(connection.receive().unwrap().text(), "OK"));
    }
}

fn number_of(server: &Server, name: &str) -> u64 {
    info(server, name).parse().unwrap()
}

fn size(server: &Server) -> usize {
    server.connect().words("DBSIZE").text().parse().unwrap()
}

/// Whether what does not expire soon is there, and INFO knows how many keys expire some day.
fn check(server: &Server) {
    assert_eq!(size(server), 2 * THIRD);
    assert_eq!(info(server, "db0"), format!("keys={},expires={THIRD},avg_ttl=0", 2 * THIRD));
    let mut connection = server.connect();
    for number in (0..KEYS).step_by(7) {
        let key = format!("key:{number}");
        let ttl_ms: i128 = connection.words(&format!("PTTL {key}")).text().parse().unwrap();
        match number % 3 {
            0 => assert_eq!(ttl_ms, -2),
            1 => assert!(ttl_ms > 0 && ttl_ms <= FAR_MS.try_into().unwrap(), "{ttl_ms}"),
            _ => assert_eq!(ttl_ms, -1),
        }
        let expected = if number % 3 == 0 { String::new() } else { value(number) };
        assert_eq!(connection.words(&format!("GET {key}")).text(), expected);
    }
    assert_eq!(info(server, "db0"), format!("keys={},expires={THIRD},avg_ttl=0", 2 * THIRD));
    assert_eq!((number_of(server, "cold_failures"), number_of(server, "evicted_keys")), (0, 0));
}

#[test]
fn what_expires_leaves_memory_and_expires_in_the_log() {
    let mut server = Program::indelible().start(&OPTIONS);
    fill(&mut server.connect());
    wait_for_a_cut(&server);
    assert_eq!(server.connect().words("DEL any").text(), "1");
    server.kill();
    // All are in the log only, and many stay there, as there is no room.
    server.restart_with(&OPTIONS);
    wait_until(|| info(&server, "recovery_state") == "done");
    assert!(number_of(&server, "cold_keys") > KEYS as u64 / 6);
    // As Redis does, some are left in memory until a command asks for them.
    wait_until(|| size(&server) < 2 * THIRD + THIRD / 10);
    let mut connection = server.connect();
    for number in (0..KEYS).step_by(3) {
        assert_eq!(connection.words(&format!("EXISTS key:{number}")).text(), "0");
    }
    assert!(number_of(&server, "cold_expired_keys") > 0);
    assert!(number_of(&server, "cold_expired_keys") <= number_of(&server, "expired_keys"));
    check(&server);
    // What came back leaves memory again, whether it expires or not.
    wait_until(|| {
        let mut connection = server.connect();
        for number in (2..KEYS).step_by(3) {
            assert_eq!(connection.words(&format!("GET key:{number}")).text(), value(number));
        }
        number_of(&server, "cold_keys") > THIRD as u64 / 2
    });
    check(&server);
    // That they are gone is in the log: nothing expires again.
    server.kill();
    server.restart_with(&OPTIONS);
    assert_eq!(size(&server), 2 * THIRD);
    wait_until(|| info(&server, "recovery_state") == "done");
    check(&server);
    assert_eq!(number_of(&server, "expired_keys"), 0);
    // Nothing is left of them but what says so.
    let count = |name: &str| number_of(&server, &format!("redo_{name}_records"));
    let all = number_of(&server, "redo_records");
    assert_eq!(all - count("invalid") - count("delete"), 2 * THIRD as u64);
}

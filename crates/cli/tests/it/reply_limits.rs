//! What one command of one client can make the server keep: not more than the client's hard limit,
//! its largest element and a MiB, whatever the command asks for. Then the client is closed, and the
//! others are served.

use std::fs;

use crate::process::{Program, Server};
use crate::wire::{Connection, encode};

const MB: u64 = 1 << 20;
const LIMIT_BYTES: u64 = 10 * MB;
const ELEMENT_BYTES: usize = 1 << 20;

/// A figure of the kernel's about the process, in bytes.
fn status_bytes(server: &Server, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// How much larger the process was at the most than before, in bytes.
fn growth_bytes(server: &Server, action: impl FnOnce()) -> u64 {
    // The kernel forgets the peak that it knows.
    assert_eq!(server.connect().words("MEMORY PURGE").text(), "OK");
    fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").unwrap();
    let before = status_bytes(server, "VmRSS");
    action();
    status_bytes(server, "VmHWM").saturating_sub(before)
}

fn start() -> (Server, Connection) {
    let limits = "normal 10mb 0 0 pubsub 10mb 0 0";
    let server = Program::indelible().start(&[
        "--client-output-buffer-limit",
        limits,
        "--appendfsync",
        "no",
    ]);
    let mut other = server.connect();
    let element = "x".repeat(ELEMENT_BYTES);
    for words in [
        vec!["SET", "string", &element],
        vec!["SADD", "set", "a", "b", &"x".repeat(100)],
        vec!["HSET", "hash", "a", "1", "b", "2"],
        vec!["ZADD", "zset", "1", "a", "2", "b"],
    ] {
        assert!(!other.call(&words).unwrap().is_error());
    }
    for _ in 0..30 {
        other.call(&["RPUSH", "list", &element]).unwrap();
    }
    (server, other)
}

/// Sends a request whose reply is too long; the client is closed and `others` are served.
fn assert_bounded(server: &Server, other: &mut Connection, name: &str, request: &[u8]) {
    let mut greedy = server.connect();
    let growth = growth_bytes(server, || {
        // The server may close the connection while it is still being written to.
        let _sent = greedy.send_bytes(request);
        while greedy.receive().is_ok() {}
        assert_eq!(other.words("PING").text(), "PONG");
    });
    // The request itself takes its bytes and, while it is executed, lists of its arguments.
    let allowed = LIMIT_BYTES + ELEMENT_BYTES as u64 + MB + 8 * request.len() as u64;
    assert!(growth <= allowed, "{name}: {growth} bytes more in memory, {allowed} allowed");
}

#[test]
fn a_reply_takes_no_more_memory_than_its_client_may_have_waiting() {
    let (server, mut other) = start();
    let many: Vec<&str> = std::iter::once("MGET").chain(["string"; 1500]).collect();
    let transaction = [
        encode(&["MULTI"]),
        encode(&many),
        encode(&["SRANDMEMBER", "set", "-80000000"]),
        encode(&["EXEC"]),
    ];
    let requests = [
        ("MGET", encode(&many)),
        ("LRANGE", encode(&["LRANGE", "list", "0", "-1"])),
        ("SRANDMEMBER", encode(&["SRANDMEMBER", "set", "-80000000"])),
        ("HRANDFIELD", encode(&["HRANDFIELD", "hash", "-80000000", "WITHVALUES"])),
        ("ZRANDMEMBER", encode(&["ZRANDMEMBER", "zset", "-80000000", "WITHSCORES"])),
        ("SORT", encode(&["SORT", "list", "BY", "nosort"])),
        ("SORT ALPHA", encode(&["SORT", "list", "ALPHA", "DESC"])),
        ("DUMP", encode(&["DUMP", "list"])),
        ("CLIENT LIST", client_list(&mut other)),
        ("EXEC", transaction.concat()),
        ("a pipeline", encode(&["GET", "string"]).repeat(1500)),
    ];
    for (name, request) in &requests {
        assert_bounded(&server, &mut other, name, request);
    }
    let log = server.log();
    let closed = log.matches("overcoming of output buffer limits").count();
    assert_eq!(closed, requests.len(), "{log}");
}

/// A CLIENT LIST that names one client often enough.
fn client_list(connection: &mut Connection) -> Vec<u8> {
    let id = connection.words("CLIENT ID").text();
    let ids = std::iter::repeat_n(id.as_str(), 40_000);
    encode(&["CLIENT", "LIST", "ID"].into_iter().chain(ids).collect::<Vec<_>>())
}

#[test]
fn a_client_is_closed_whatever_it_was_that_was_too_much_for_it() {
    let limit = ["--client-output-buffer-limit", "normal", "1mb", "0", "0"];
    let server = Program::indelible().start(&limit);
    let mut other = server.connect();
    for missing in [10, 60, 100, 300] {
        let value = "x".repeat((1 << 20) - 12 - missing);
        assert_eq!(other.call(&["SET", "almost", &value]).unwrap().text(), "OK");
        let name = "y".repeat(120);
        for last in
            [encode(&[&name]), [encode(&["MULTI"]), encode(&["GET", "a"]).repeat(40)].concat()]
        {
            let mut client = server.connect();
            let requests = [encode(&["GET", "almost"]), last.repeat(3), encode(&["PING"])].concat();
            client.send_bytes(&requests).unwrap();
            // Either everything comes or the connection ends, and never is one reply left out.
            let mut replies = 0;
            while let Ok(reply) = client.receive() {
                replies += 1;
                if reply.text() == "PONG" {
                    break;
                }
            }
            assert!(
                replies == 0 || replies >= 5,
                "{replies} replies, {missing} bytes to the limit"
            );
        }
    }
}

#[test]
fn what_a_client_does_not_want_to_read_counts_as_nothing() {
    let (server, mut other) = start();
    let mut client = server.connect();
    let many: Vec<&str> = std::iter::once("MGET").chain(["string"; 1500]).collect();
    let requests = [
        encode(&["CLIENT", "REPLY", "OFF"]),
        encode(&many),
        encode(&["NO-SUCH-COMMAND"]),
        encode(&["CLIENT", "REPLY", "ON"]),
        encode(&["CLIENT", "REPLY", "SKIP"]),
        encode(&["NO-SUCH-COMMAND"]),
        encode(&["GET", "hash"]),
    ];
    let growth = growth_bytes(&server, || {
        client.send_bytes(&requests.concat()).unwrap();
        assert_eq!(client.receive().unwrap().text(), "OK");
        let error = client.receive().unwrap().text();
        assert!(error.starts_with("WRONGTYPE"), "{error}");
    });
    assert!(growth < 4 * MB, "{growth} bytes more in memory");
    assert_eq!(other.words("PING").text(), "PONG");
}

#[test]
fn more_random_elements_than_any_reply_can_have_are_refused() {
    let (_server, mut client) = start();
    for command in ["SRANDMEMBER set", "HRANDFIELD hash", "ZRANDMEMBER zset"] {
        for count in ["-9223372036854775807", "-4611686018427387904", "-4294967296"] {
            let reply = client.words(&format!("{command} {count}")).text();
            assert!(reply.starts_with("ERR value is out of range"), "{command} {count}: {reply}");
        }
        assert_eq!(client.words(&format!("{command} -100000")).elements().len(), 100_000);
    }
}

#[test]
fn equal_elements_are_not_sorted_by_copies_of_what_they_lead_to() {
    let (server, mut other) = start();
    let words: Vec<&str> = ["RPUSH", "equal"].into_iter().chain(["a"; 3000]).collect();
    assert_eq!(other.call(&words).unwrap().text(), "3000");
    assert_eq!(other.words("RENAME string by_a").text(), "OK");
    for order in ["SORT equal BY by_* ALPHA", "SORT equal BY by_*"] {
        let growth = growth_bytes(&server, || {
            let sorted = other.words(order);
            assert!(sorted.is_error() || sorted.elements().len() == 3000);
        });
        assert!(growth < 8 * MB, "{growth} bytes more in memory");
    }
}

#[test]
fn a_message_is_in_memory_once_however_many_get_it() {
    let (server, mut other) = start();
    let mut listener = server.connect();
    let patterns: Vec<String> = (1..2000).map(|stars| format!("c{}", "*".repeat(stars))).collect();
    let words: Vec<&str> =
        std::iter::once("PSUBSCRIBE").chain(patterns.iter().map(String::as_str)).collect();
    listener.send(&words).unwrap();
    for _ in &patterns {
        listener.receive().unwrap();
    }
    let listeners: Vec<Connection> = (0..100)
        .map(|_| {
            let mut listener = server.connect();
            listener.words("SUBSCRIBE c");
            listener
        })
        .collect();
    let message = "x".repeat(ELEMENT_BYTES);
    let growth = growth_bytes(&server, || {
        // What the sockets do not take waits: one message for all of them.
        for _ in 0..3 {
            let count = other.call(&["PUBLISH", "c", &message]).unwrap().text();
            assert!(count == "2099" || count == "100", "{count}");
        }
    });
    assert!(growth < 12 * MB, "{growth} bytes more in memory");
    assert!(server.log().contains("overcoming of output buffer limits"));
    drop(listeners);
}

#[test]
fn a_large_request_leaves_nothing_with_an_idle_client() {
    let (server, mut other) = start();
    let words: Vec<&str> =
        std::iter::once("DEL").chain(std::iter::repeat_n("k", 500_000)).collect();
    let request = encode(&words);
    let before = status_bytes(&server, "VmRSS");
    let clients: Vec<Connection> = (0..20)
        .map(|_| {
            let mut client = server.connect();
            client.send_bytes(&request).unwrap();
            assert_eq!(client.receive().unwrap().text(), "0");
            client
        })
        .collect();
    let list = other.words("CLIENT LIST").text();
    for line in list.lines() {
        let total = line.split(" tot-mem=").nth(1).unwrap().split(' ').next().unwrap();
        assert!(total.parse::<u64>().unwrap() < 100_000, "{line}");
    }
    other.words("MEMORY PURGE");
    let growth = status_bytes(&server, "VmRSS").saturating_sub(before);
    assert!(growth < 60 * MB, "20 idle clients keep {growth} bytes");
    drop(clients);
}

#[test]
fn what_a_client_makes_the_server_hold_is_counted() {
    let (server, mut other) = start();
    let mut client = server.connect();
    let id = client.words("CLIENT ID").text();
    let mut total = || {
        let line = other.words(&format!("CLIENT LIST ID {id}")).text();
        let total = line.split(" tot-mem=").nth(1).unwrap().split(' ').next().unwrap();
        total.parse::<u64>().unwrap()
    };
    let idle = total();
    let keys: Vec<String> = (0..10_000).map(|number| format!("key:{number}")).collect();
    let with = |command: &[&str], last: &[&str]| {
        let keys = keys.iter().map(String::as_str);
        let words: Vec<&str> = command.iter().copied().chain(keys).chain(last.to_vec()).collect();
        encode(&words)
    };
    client.send_bytes(&with(&["WATCH"], &[])).unwrap();
    assert_eq!(client.receive().unwrap().text(), "OK");
    assert!(total() > idle + 1_000_000, "10,000 watched keys");
    assert_eq!(client.words("UNWATCH").text(), "OK");
    assert!(total() < idle + 20_000);
    assert_eq!(client.words("MULTI").text(), "OK");
    client.send_bytes(&with(&["DEL"], &[])).unwrap();
    assert_eq!(client.receive().unwrap().text(), "QUEUED");
    assert!(total() > idle + 400_000, "10,000 short arguments in a queue");
    assert_eq!(client.words("DISCARD").text(), "OK");
    client.send_bytes(&with(&["SUBSCRIBE"], &[])).unwrap();
    for _ in &keys {
        client.receive().unwrap();
    }
    assert!(total() > idle + 600_000, "10,000 channels");
}

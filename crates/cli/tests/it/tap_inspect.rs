//! `indelible tap inspect` as its users run it.

use crate::process::wait_for_exit;
use crate::tap_process::inspect;
use crate::tap_recording::{Recording, lines};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use tap::{GapReason, Outcome};

/// Two connections, a request of each class, an error and a gap.
fn recording() -> Recording {
    let mut recording = Recording::new();
    let one = recording.open();
    recording.done(one, "SELECT 1");
    let other = recording.open();
    recording.wait_ms(250);
    recording.done(other, "SET key value");
    let refused = recording.ask(one, "LPUSH key value");
    recording.wait_ms(250);
    recording.answer(refused, Outcome::Error);
    recording.gap(other, 70, GapReason::Lost);
    recording.ask(other, "GET key");
    recording.close(one);
    recording.sync();
    recording
}

/// What is shown with these options: the exit code and the lines.
fn shown(recording: &Recording, options: &[&str]) -> (Option<i32>, Vec<String>) {
    let output = inspect(&recording.dir()).args(options).output().unwrap();
    (output.status.code(), lines(&output))
}

#[test]
fn every_entry_is_a_line() {
    let at = |ms: &str, rest: &str| format!("2026-11-22T09:15:00.{ms}000000Z {rest}");
    let set = r"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
    let push = r"*3\r\n$5\r\nLPUSH\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
    let expected = [
        at("000", "c1 opened 192.0.2.7:40001 -> 192.0.2.1:6379"),
        at("000", r"c1 #1 connection 23 B *2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n"),
        at("000", "#1 completed ok"),
        at("000", "c2 opened 192.0.2.7:40002 -> 192.0.2.1:6379"),
        at("250", &format!("c2 #2 query 33 B {set}")),
        at("250", "#2 completed ok"),
        at("250", &format!("c1 #3 query 35 B {push}")),
        at("500", "#3 completed error"),
        at("500", "c2 GAP lost, 70 missing"),
        at("500", r"c2 #4 read-only 22 B *2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"),
        at("500", "c1 closed"),
    ];
    let recording = recording();
    assert_eq!(shown(&recording, &[]), (Some(1), expected.to_vec()), "1, as there is a gap");
    let since = shown(&recording, &["--since", "2"]);
    let state: Vec<_> = [0, 1, 3].into_iter().chain(6..11).map(|at| expected[at].clone()).collect();
    assert_eq!(since, (Some(1), state), "the state of the connections comes first");
    for (options, wanted) in [
        (&["--tail", "2"][..], &[9, 10][..]),
        (&["--gaps"], &[8]),
        (&["--connection", "1"], &[0, 1, 2, 6, 7, 10]),
        (&["--connection", "2"], &[3, 4, 5, 8, 9]),
        (&["--contains", "value"], &[4, 6]),
        (&["--contains", "nothing of it"], &[]),
        (&["--class", "connection"], &[1]),
        (&["--class", "query"], &[4, 6]),
        (&["--class", "read-only"], &[9]),
        (&["--class", "query", "--connection", "1"], &[6]),
        (&["--contains", "key", "--tail", "1"], &[9]),
    ] {
        let wanted: Vec<_> = wanted.iter().map(|&at| expected[at].clone()).collect();
        let has_gap = wanted.iter().any(|line| line.contains("GAP"));
        assert_eq!(shown(&recording, options), (Some(i32::from(has_gap)), wanted), "{options:?}");
    }
    let unknown = inspect(&recording.dir()).args(["--class", "reads"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(said.contains("connection, query, read-only"), "{said}");
}

#[test]
fn every_entry_is_an_object() {
    let (_, lines) = shown(&recording(), &["--json"]);
    let objects: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let begin_ns = 1_795_338_900_000_000_000_u64;
    assert_eq!(
        objects[0],
        json!({
            "kind": "opened", "at_ns": begin_ns, "connection": 1,
            "client": "192.0.2.7:40001", "server": "192.0.2.1:6379",
        })
    );
    assert_eq!(
        objects[4],
        json!({
            "kind": "request", "at_ns": begin_ns + 250_000_000, "connection": 2, "position": 2,
            "class": "query", "sequence": 7, "bytes": 33,
            "payload": r"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n",
        })
    );
    let at_ns = begin_ns + 500_000_000;
    assert_eq!(
        objects[7..9],
        [
            json!({"kind": "completed", "at_ns": at_ns, "position": 3, "outcome": "error"}),
            json!({
                "kind": "gap", "at_ns": at_ns, "connection": 2, "missing": 70, "reason": "lost",
            }),
        ]
    );
    assert_eq!(objects[10], json!({"kind": "closed", "at_ns": at_ns, "connection": 1}));
}

#[test]
fn statistics_are_sums() {
    let recording = recording();
    let (code, lines) = shown(&recording, &["--statistics", "--json"]);
    assert_eq!((code, lines.len()), (Some(1), 1));
    let begin_ns = 1_795_338_900_000_000_000_u64;
    let sums = |count: u64, bytes: u64| json!({ "count": count, "bytes": bytes });
    assert_eq!(
        serde_json::from_str::<Value>(&lines[0]).unwrap(),
        json!({
            "first_ns": begin_ns, "last_ns": begin_ns + 500_000_000, "seconds": 0.5,
            "last_position": 4, "connections": 2, "closed": 1,
            "requests": {
                "connection": sums(1, 23), "query": sums(2, 68), "read-only": sums(1, 22),
            },
            "completed": {"ok": 2, "error": 1}, "not_completed": 1,
            "gaps": {"lost": {"count": 1, "missing": 70}},
        })
    );
    let (_, lines) = shown(&recording, &["--statistics"]);
    for line in [
        "2 connections, 1 of them closed",
        "2 requests query, 68 B (4/s)",
        "1 completed error",
        "1 not completed",
        "1 GAPS lost, 70 missing",
    ] {
        assert!(lines.contains(&line.to_owned()), "{line}: {lines:?}");
    }
}

#[test]
fn a_log_that_grows_is_followed() {
    let mut recording = recording();
    let mut command = inspect(&recording.dir());
    command.args(["--follow", "--class", "query", "--tail", "1"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || shown.next().unwrap().unwrap();
    assert!(next().contains("c1 #3 query"), "the last one first");
    let late = recording.open();
    recording.done(late, "SET key later");
    recording.sync();
    assert!(next().contains("c3 #5 query"));
    // Also into the next file.
    recording.next_segment(&[(late, &[])]);
    recording.done(late, "SET key latest");
    recording.sync();
    let line = next();
    assert!(line.contains("c3 #6 query") && line.contains("latest"), "{line}");
    drop(shown);
    // Its reader has gone: it ends when it has something to say.
    recording.done(late, "SET key unheard");
    recording.sync();
    assert_eq!(wait_for_exit(&mut child), Some(0));
}

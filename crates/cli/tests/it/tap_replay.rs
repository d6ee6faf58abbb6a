//! `indelible tap replay` as its users run it: a log, a server, and what the server has afterwards.

use crate::process::{Program, Server};
use crate::tap_recording::{Recording, json, lines, replay, time};
use crate::wire::Connection;
use serde_json::{Value, json};
use tap::{GapReason, Outcome, Position};

fn server() -> Server {
    Program::indelible().start(&[])
}

/// The elements of a list.
fn list(connection: &mut Connection, key: &str) -> String {
    let reply = connection.words(&format!("LRANGE {key} 0 -1"));
    reply.elements().iter().map(|element| element.text()).collect::<Vec<_>>().join(" ")
}

/// What two clients did, one of them in database 2, and where the backup was taken. `carries` if the log
/// went on in another file meanwhile.
fn around_a_backup(carries: bool) -> (Recording, Position) {
    let mut recording = Recording::new();
    let (one, other) = (recording.open(), recording.open());
    recording.done(one, "SELECT 2");
    recording.done(one, "RPUSH list a");
    let backup = recording.done(other, "APPEND text x");
    if carries {
        recording.next_segment(&[(one, &["SELECT 2"]), (other, &[])]);
    }
    recording.done(one, "RPUSH list b");
    recording.done(other, "APPEND text y");
    recording.sync();
    (recording, backup)
}

/// Replays what is behind the backup on a server that has the backup: with the client that made it, whose
/// database is 2, and what the replay said.
fn replay_behind_a_backup(
    recording: &Recording,
    backup: Position,
) -> (Server, Connection, Option<i32>, Value) {
    let server = server();
    let mut client = server.connect();
    client.words("APPEND text x");
    client.words("SELECT 2");
    client.words("RPUSH list a");
    let mut command = replay(&recording.dir(), server.port);
    let (code, said) = json(command.args(["--since", &backup.0.to_string()]));
    (server, client, code, said)
}

#[test]
fn a_backup_and_the_log_behind_it_are_the_whole() {
    for carries in [false, true] {
        let (recording, backup) = around_a_backup(carries);
        let (_server, mut client, code, said) = replay_behind_a_backup(&recording, backup);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(list(&mut client, "list"), "a b", "the connection was in database 2 before");
        assert_eq!(client.words("DBSIZE").text(), "1");
        client.words("SELECT 0");
        assert_eq!(client.words("GET text").text(), "xy");
        assert_eq!(client.words("DBSIZE").text(), "1");
        // What sets the state of a connection is sent too.
        assert_eq!((&said["sent"], &said["last_position"]), (&json!(3), &json!(backup.0 + 2)));
    }
}

#[test]
fn a_transaction_that_was_open_at_the_backup_is_done_whole() {
    let mut recording = Recording::new();
    let (one, other) = (recording.open(), recording.open());
    recording.done(one, "SELECT 2");
    recording.done(one, "RPUSH list a");
    recording.done(one, "MULTI");
    recording.done(one, "RPUSH list b");
    let backup = recording.done(other, "APPEND text x");
    recording.next_segment(&[(one, &["SELECT 2"]), (other, &[])]);
    recording.done(one, "RPUSH list c");
    recording.done(one, "EXEC");
    recording.done(other, "APPEND text y");
    recording.sync();
    let (_server, mut client, code, said) = replay_behind_a_backup(&recording, backup);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(list(&mut client, "list"), "a b c");
    client.words("SELECT 0");
    assert_eq!(client.words("GET text").text(), "xy");
}

#[test]
fn a_replay_ends_where_it_is_told_to() {
    let mut recording = Recording::new();
    let connection = recording.open();
    for value in 0..5 {
        recording.done(connection, &format!("RPUSH list {value}"));
        recording.wait_ms(1500);
    }
    recording.sync();
    let at = |ms: u64| ("--until", time(ms));
    for (until, there, sent) in [
        (("--until", "2".into()), "0 1", 2),
        (at(3000), "0 1 2", 3),
        (at(2999), "0 1", 2),
        (("--until", "2026-11-22T09:15:04Z".into()), "0 1 2", 3),
        (("--until", "99".into()), "0 1 2 3 4", 5),
    ] {
        let server = server();
        let mut command = replay(&recording.dir(), server.port);
        let (code, said) = json(command.args([until.0, &until.1]));
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(list(&mut server.connect(), "list"), there, "{until:?}");
        assert_eq!((&said["sent"], &said["left_out"]), (&json!(sent), &json!(5 - sent)));
        assert_eq!(said["last_position"], json!(sent));
    }
    let server = server();
    let refused = replay(&recording.dir(), server.port).args(["--until", "noon"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--until noon"));
}

#[test]
fn a_replay_at_a_speed_keeps_the_order_and_the_pauses() {
    let mut recording = Recording::new();
    let (one, other) = (recording.open(), recording.open());
    for value in 0..4 {
        let connection = if value % 2 == 0 { one } else { other };
        recording.done(connection, &format!("RPUSH list {value}"));
        recording.wait_ms(400);
    }
    recording.sync();
    for parallel in [&[][..], &["--parallel"]] {
        let server = server();
        let mut command = replay(&recording.dir(), server.port);
        let (code, said) = json(command.args(["--speed", "8"]).args(parallel));
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(list(&mut server.connect(), "list"), "0 1 2 3");
        // 1.2 s were recorded between the first and the last; slower is always possible.
        assert!(said["seconds"].as_f64() >= Some(0.15), "{said}");
    }
    for nonsense in ["0", "-1", "inf", "NaN"] {
        let speed = format!("--speed={nonsense}");
        let refused = replay(&recording.dir(), 1).arg(&speed).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{speed}");
    }
}

#[test]
fn answers_of_another_kind_than_recorded_are_listed() {
    let mut recording = Recording::new();
    let connection = recording.open();
    recording.done(connection, "SET text x");
    let refused = recording.ask(connection, "LPUSH text y");
    recording.answer(refused, Outcome::Error);
    let was_good = recording.done(connection, "LPUSH text was-good");
    let was_bad = recording.ask(connection, "SET text was-bad");
    recording.answer(was_bad, Outcome::Error);
    recording.ask(connection, "SET unanswered x");
    recording.sync();
    let server = server();
    let (code, said) = json(&mut replay(&recording.dir(), server.port));
    assert_eq!(code, Some(1));
    assert_eq!(said["difference_count"], json!(2), "{said}");
    let [good, bad] = &said["differences"].as_array().unwrap()[..] else { panic!("{said}") };
    assert_eq!((&good["recorded"], &good["replayed"]), (&json!("ok"), &json!("error")));
    assert_eq!((&good["position"], &good["connection"]), (&json!(was_good.0), &json!(1)));
    assert!(good["message"].as_str().unwrap().starts_with("-WRONGTYPE"), "{good}");
    assert!(good["request"].as_str().unwrap().contains("was-good"), "{good}");
    assert_eq!((&bad["recorded"], &bad["replayed"]), (&json!("error"), &json!("ok")));
    assert_eq!(bad["position"], json!(was_bad.0));
    assert_eq!((&said["errors_as_recorded"], &said["without_record"]), (&json!(1), &json!(1)));
    for (name, is_there) in [
        ("waited", said["waited"].is_u64()),
        ("out_of_order", said["out_of_order"] == json!(0)),
        ("under_way_mean", said["under_way_mean"] == json!(1.0)),
        ("connections_max", said["connections_max"] == json!(1)),
        ("gaps", said["gaps"] == json!([])),
        ("seconds", said["seconds"].is_f64()),
    ] {
        assert!(is_there, "{name}: {said}");
    }
    // The same for people.
    let output = replay(&recording.dir(), self::server().port).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let differences: Vec<_> =
        lines(&output).into_iter().filter(|line| line.starts_with("difference: ")).collect();
    assert_eq!(differences.len(), 2, "{output:?}");
    assert!(differences[0].contains("was ok, and is error -WRONGTYPE"), "{differences:?}");
}

#[test]
fn a_gap_in_the_log_is_told_and_is_an_exit_code() {
    let mut recording = Recording::new();
    let connection = recording.open();
    recording.done(connection, "SET text x");
    recording.gap(connection, 70, GapReason::Lost);
    recording.done(connection, "SET text y");
    recording.sync();
    let server = server();
    let (code, said) = json(&mut replay(&recording.dir(), server.port));
    assert_eq!(code, Some(1));
    assert_eq!(said["gaps"][0]["connection"], json!(1), "{said}");
    assert_eq!(said["gaps"][0]["reason"], json!("Lost"), "{said}");
    assert_eq!(said["difference_count"], json!(0));
    assert_eq!(server.connect().words("GET text").text(), "y");
}

#[test]
fn what_was_not_answered_is_all_that_a_partial_recovery_sends() {
    let mut recording = Recording::new();
    let connection = recording.open();
    recording.done(connection, "SELECT 3");
    recording.done(connection, "RPUSH list a");
    recording.done(connection, "MULTI");
    recording.done(connection, "RPUSH list b");
    recording.ask(connection, "EXEC");
    recording.sync();
    let server = server();
    let mut client = server.connect();
    client.words("SELECT 3");
    client.words("RPUSH list a");
    let (code, said) = json(replay(&recording.dir(), server.port).arg("--partial"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(list(&mut client, "list"), "a b");
    assert_eq!(said["left_out"], json!(1), "{said}");
}

#[test]
fn what_is_missing_to_replay_is_said() {
    let recording = Recording::new();
    let nobody = crate::process::free_port();
    let mut recording = recording;
    let connection = recording.open();
    recording.done(connection, "SET text x");
    recording.sync();
    let output = replay(&recording.dir(), nobody).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("127.0.0.1:{nobody}")), "{said}");
    let output = replay(&recording.dir().join("elsewhere"), nobody).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("elsewhere"), "{said}");
}

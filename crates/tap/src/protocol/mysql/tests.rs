//! The MySQL conversation, with hand-written input split at random.

use proptest::prelude::*;

use super::*;
use crate::protocol::heard::{Heard, Recorder};

use Side::{Client, Server};

const AT: Time = Time(7);

fn packets(first: u8, payloads: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (sequence, payload) in (first..).zip(payloads) {
        packet::write(&mut out, sequence, payload);
    }
    out
}

const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const OK_IN_TRANSACTION: &[u8] = &[0, 0, 0, 3, 0, 0, 0];
const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
const ERROR: &[u8] = b"\xff\x48\x04#42000no";
const CAPABILITIES: u64 = capability::PROTOCOL_41
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH
    | capability::CONNECT_WITH_DB
    | capability::LONG_PASSWORD;

fn greeting() -> Vec<u8> {
    let mut payload =
        b"\x0a5.5.5-10.11.6-MariaDB\0\x05\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xff\x15".to_vec();
    payload.extend_from_slice(&[0; 10]);
    payload.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
    packets(0, &[&payload])
}

fn login(capabilities: u64) -> Vec<u8> {
    let login = Login {
        capabilities,
        max_packet: 1 << 24,
        collation: 45,
        user: b"someone".to_vec(),
        auth: vec![7; 20],
        database: b"shop".to_vec(),
        plugin: b"mysql_native_password".to_vec(),
    };
    packets(1, &[&login.write()])
}

/// A conversation after its login.
fn logged_in() -> (Mysql, Recorder) {
    let (mut conversation, mut recorder) = (Mysql::new(), Recorder::default());
    conversation.bytes(Server, &greeting(), AT, &mut recorder);
    conversation.bytes(Client, &login(CAPABILITIES), AT, &mut recorder);
    conversation.bytes(Server, &packets(2, &[OK]), AT, &mut recorder);
    assert_eq!(
        recorder.heard,
        [
            Heard::request(Class::Connection, &login(CAPABILITIES), 0),
            Heard::Response(0, Outcome::Ok)
        ]
    );
    recorder.heard.clear();
    (conversation, recorder)
}

fn query(sql: &str) -> Vec<u8> {
    packets(0, &[&[&[3], sql.as_bytes()].concat()])
}

/// A script of commands and answers, and the expected reports.
fn script() -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows =
        |end: &[u8]| packets(1, &[&[2], b"definition", b"definition", EOF, b"\x01a\xfb", end]);
    let more = &[0xfe, 0, 0, 10, 0];
    vec![
        (query("USE shop"), packets(1, &[OK])),
        (query("SELECT a, b FROM t"), rows(EOF)),
        (query("BEGIN"), packets(1, &[OK_IN_TRANSACTION])),
        (query("SELECT a, b FROM t"), rows(&[0xfe, 0, 0, 3, 0])),
        (query("UPDATE t SET a = 1"), packets(1, &[ERROR])),
        (query("COMMIT"), packets(1, &[OK])),
        (query("CALL p()"), [rows(more), packets(7, &[OK])].concat()),
        (
            packets(0, &[b"\x16SELECT ?"]),
            packets(1, &[b"\0\x05\0\0\0\x01\0\x01\0\0\0\0", b"p", EOF, b"c", EOF]),
        ),
        (packets(0, &[b"\x17\x05\0\0\0\0\x01\0\0\0\0\x01\x08\0aaaaaaaa"]), rows(EOF)),
        (packets(0, &[b"\x17\x05\0\0\0\0\x01\0\0\0\0\0aaaaaaaa"]), rows(EOF)),
        (packets(0, &[b"\x19\x05\0\0\0"]), Vec::new()),
        (packets(0, &[b"\x0e"]), packets(1, &[OK])),
        (packets(0, &[b"\x01"]), Vec::new()),
    ]
}

#[test]
fn commands_are_paired_with_their_answers_and_classed() {
    let (mut conversation, mut recorder) = logged_in();
    for (request, answer) in script() {
        conversation.bytes(Client, &request, AT, &mut recorder);
        conversation.bytes(Server, &answer, AT, &mut recorder);
    }
    use Class::{Connection, Query, ReadOnly};
    assert_eq!(
        recorder.classes(),
        [
            Connection, ReadOnly, Query, Query, Query, Query, Query,
            // The statement, its name, and its types as reported.
            Connection, Connection, Connection, ReadOnly, ReadOnly, Connection, ReadOnly, ReadOnly,
        ]
    );
    let expected: Vec<_> = (1..=15)
        .map(|number| (number, if number == 5 { Outcome::Error } else { Outcome::Ok }))
        .collect();
    assert_eq!(recorder.outcomes(), expected);
    assert_eq!(conversation.connection_requests(), [login(CAPABILITIES), query("USE shop")]);
}

#[test]
fn a_statements_id_and_types_are_carried_over() {
    let (mut conversation, mut recorder) = logged_in();
    for (request, answer) in &script()[7..9] {
        conversation.bytes(Client, request, AT, &mut recorder);
        conversation.bytes(Server, answer, AT, &mut recorder);
    }
    let carried = conversation.connection_requests();
    assert_eq!(carried[1], packets(0, &[b"\x16SELECT ?"]));
    assert_eq!(carried[2], Execute::naming(5, 1, &[8, 0]));
    let reset = packets(0, &[b"\x1f"]);
    conversation.bytes(Client, &reset, AT, &mut recorder);
    conversation.bytes(Server, &packets(1, &[OK]), AT, &mut recorder);
    assert_eq!(conversation.connection_requests(), [login(CAPABILITIES)]);
}

#[test]
fn what_cannot_be_read_is_said() {
    let (mut conversation, mut recorder) = (Mysql::new(), Recorder::default());
    conversation.bytes(Server, &greeting(), AT, &mut recorder);
    let tls = &login(CAPABILITIES | capability::SSL)[4..36];
    conversation.bytes(Client, &packets(1, &[tls]), AT, &mut recorder);
    conversation.bytes(Client, b"\x16\x03\x01", AT, &mut recorder);
    assert_eq!(recorder.heard, [Heard::Encrypted]);

    let (mut conversation, mut recorder) = (Mysql::new(), Recorder::default());
    conversation.bytes(Server, &greeting(), AT, &mut recorder);
    conversation.bytes(Client, &login(CAPABILITIES | capability::COMPRESS), AT, &mut recorder);
    conversation.bytes(Client, b"nonsense", AT, &mut recorder);
    assert_eq!(recorder.unintelligible(), 1);
    assert_eq!(recorder.heard.len(), 1);
}

#[test]
fn a_broken_deadlock_is_a_rollback() {
    let (mut conversation, mut recorder) = logged_in();
    let update = query("UPDATE t SET a = 1");
    conversation.bytes(Client, &update, AT, &mut recorder);
    conversation.bytes(Server, &packets(1, &[b"\xff\xbd\x04#40001no"]), AT, &mut recorder);
    assert_eq!(recorder.payloads(), [update, deadlock_rollback()]);
    assert_eq!(recorder.outcomes(), [(1, Outcome::Error), (2, Outcome::Ok)]);
}

#[test]
fn a_file_of_the_client_is_part_of_its_request() {
    let (mut conversation, mut recorder) = logged_in();
    let load = query("LOAD DATA LOCAL INFILE 'f' INTO TABLE t");
    let file = packets(2, &[b"1,2\n3,4\n", b""]);
    conversation.bytes(Client, &load, AT, &mut recorder);
    conversation.bytes(Server, &packets(1, &[b"\xfbf"]), AT, &mut recorder);
    conversation.bytes(Client, &file, AT, &mut recorder);
    assert!(recorder.heard.is_empty());
    conversation.bytes(Server, &packets(4, &[OK]), AT, &mut recorder);
    assert_eq!(recorder.payloads(), [[load, file].concat()]);
    assert_eq!(recorder.outcomes(), [(1, Outcome::Ok)]);
}

#[test]
fn a_payload_of_several_packets_is_one_request() {
    let (mut conversation, mut recorder) = logged_in();
    let long = query(&format!("INSERT INTO t VALUES ('{}')", "x".repeat(packet::LEN_MAX + 10)));
    for piece in long.chunks(1 << 20) {
        conversation.bytes(Client, piece, AT, &mut recorder);
    }
    conversation.bytes(Server, &packets(2, &[OK]), AT, &mut recorder);
    assert!(recorder.payloads() == [long]);
    assert_eq!(recorder.outcomes(), [(1, Outcome::Ok)]);
}

#[test]
fn after_a_gap_the_place_is_found_by_two_rounds_that_fit() {
    let (mut conversation, mut recorder) = logged_in();
    let insert = query("INSERT INTO t VALUES (1)");
    conversation.bytes(Client, &insert[..10], AT, &mut recorder);
    conversation.gap(Client, 3, AT, &mut recorder);
    conversation.bytes(Client, &insert[13..], AT, &mut recorder);
    for _ in 0..3 {
        conversation.bytes(Server, &packets(1, &[OK]), AT, &mut recorder);
        assert!(recorder.classes().is_empty());
        conversation.bytes(Client, &insert, AT, &mut recorder);
    }
    conversation.bytes(Server, &packets(1, &[OK]), AT, &mut recorder);
    let offset = login(CAPABILITIES).len() + 3 * insert.len();
    assert_eq!(
        recorder.heard[1..],
        [Heard::request(Class::Query, &insert, offset as u64), Heard::Response(1, Outcome::Ok)]
    );
}

proptest! {
    #[test]
    fn how_bytes_are_cut_makes_no_difference(cuts in prop::collection::vec(1_usize..20, 1..20)) {
        let run = |cuts: &mut dyn Iterator<Item = &usize>| {
            let (mut conversation, mut recorder) = (Mysql::new(), Recorder::default());
            let begin = [(Vec::new(), greeting()), (login(CAPABILITIES), packets(2, &[OK]))];
            for (request, answer) in begin.into_iter().chain(script()) {
                for (side, bytes) in [(Client, request), (Server, answer)] {
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let cut = (*cuts.next().expect("endless")).min(rest.len());
                        conversation.bytes(side, &rest[..cut], AT, &mut recorder);
                        rest = &rest[cut..];
                    }
                }
            }
            recorder
        };
        let whole = run(&mut std::iter::repeat(&usize::MAX));
        prop_assert_eq!(whole.heard, run(&mut cuts.iter().cycle()).heard);
    }

    #[test]
    fn any_bytes_are_heard_without_harm(
        pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..80)), 0..20),
        is_logged_in in any::<bool>(),
    ) {
        let (mut conversation, mut recorder) =
            if is_logged_in { logged_in() } else { (Mysql::new(), Recorder::default()) };
        for (of_client, mut bytes) in pieces {
            // Packets are short, so that they end.
            bytes.iter_mut().skip(1).take(2).for_each(|byte| *byte = 0);
            let side = if of_client { Client } else { Server };
            conversation.bytes(side, &bytes, AT, &mut recorder);
            if bytes.first() == Some(&7) {
                conversation.gap(side, bytes.len() as u64, AT, &mut recorder);
            }
            conversation.connection_requests();
        }
    }
}

//! The RESP conversation, with hand-written input split at random.

use proptest::prelude::*;

use super::*;
use crate::entry::Outcome;
use crate::protocol::heard::{Heard, Recorder};

const AT: Time = Time(7);

/// Runs a client and a server that take turns.
fn listen(turns: &[(Side, &[u8])]) -> Recorder {
    let (mut conversation, mut recorder) = (Resp::new(), Recorder::default());
    for (side, bytes) in turns {
        conversation.bytes(*side, bytes, AT, &mut recorder);
    }
    recorder.settings = conversation.connection_requests();
    recorder
}

use Side::{Client, Server};

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut writer = resp::Writer::new(resp::Protocol::Resp2);
    writer.array(words.len());
    words.iter().for_each(|word| writer.bulk(word));
    writer.take()
}

#[test]
fn requests_are_paired_with_their_replies() {
    let heard = listen(&[
        (Client, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\nget k\r\n*1\r\n$4\r\nINCR\r\n"),
        (Server, b"+OK\r\n$1\r\nv\r\n-ERR wrong number\r\n"),
    ]);
    assert_eq!(
        heard.heard,
        [
            Heard::request(Class::Query, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", 0),
            Heard::request(Class::ReadOnly, b"get k\r\n", 27),
            Heard::request(Class::Query, b"*1\r\n$4\r\nINCR\r\n", 34),
            Heard::Response(0, Outcome::Ok),
            Heard::Response(1, Outcome::Ok),
            Heard::Response(2, Outcome::Error),
        ]
    );
}

#[test]
fn a_transaction_is_logged_whole_and_an_aborted_one_is_an_error() {
    let heard = listen(&[
        (Client, b"watch k\r\nmulti\r\nget k\r\nexec\r\nget k\r\n"),
        (Server, b"+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n$-1\r\n"),
    ]);
    let classes: Vec<Class> = heard.classes();
    use Class::{Query, ReadOnly};
    assert_eq!(classes, [Query, Query, Query, Query, ReadOnly]);
    assert_eq!(heard.outcomes()[3..], [(3, Outcome::Error), (4, Outcome::Ok)]);
}

#[test]
fn the_connections_state_is_kept_once_the_server_agreed() {
    let heard = listen(&[
        (Client, b"auth a\r\nselect 3\r\nselect 99\r\nhello 3\r\nclient setname x\r\nselect 4\r\n"),
        (Server, b"+OK\r\n+OK\r\n-ERR DB index is out of range\r\n%0\r\n+OK\r\n"),
    ]);
    assert!(heard.classes().iter().all(|class| *class == Class::Connection));
    assert_eq!(
        heard.settings,
        [&b"auth a\r\n"[..], b"select 3\r\n", b"hello 3\r\n", b"client setname x\r\n"]
    );
    let heard = listen(&[
        (Client, b"multi\r\nselect 5\r\nexec\r\nmulti\r\nselect 6\r\ndiscard\r\n"),
        (Server, b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n+OK\r\n+QUEUED\r\n+OK\r\n"),
    ]);
    assert_eq!(heard.settings, [b"select 5\r\n"]);
    let heard = listen(&[(Client, b"select 5\r\nreset\r\n"), (Server, b"+OK\r\n+RESET\r\n")]);
    assert_eq!(heard.settings, Vec::<Vec<u8>>::new());
}

#[test]
fn subscriptions_are_confirmed_once_a_channel_and_messages_answer_nothing() {
    let two =
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n";
    let none = b"*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n";
    let heard = listen(&[
        (Client, b"subscribe a b\r\n"),
        (Server, two),
        (Server, b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n"),
        (Client, b"ping\r\nunsubscribe\r\nget k\r\n"),
        (Server, b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"),
        (Server, none),
        (Server, b"$-1\r\n"),
    ]);
    assert_eq!(heard.outcomes(), [0, 1, 2, 3].map(|number| (number, Outcome::Ok)));
    let heard = listen(&[
        (Client, b"hello 3\r\nsubscribe a\r\nget k\r\n"),
        (Server, b"%0\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"),
        (Server, b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n-ERR no\r\n"),
        (Server, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"),
    ]);
    assert_eq!(heard.outcomes()[2], (2, Outcome::Error));
    assert_eq!(heard.outcomes().len(), 3);
}

#[test]
fn what_gets_no_answer_is_done_with_the_next_one() {
    let heard = listen(&[
        (Client, b"client reply skip\r\nset a 1\r\nset b 2\r\n"),
        (Server, b"+OK\r\n"),
        (Client, b"client reply off\r\nset c 1\r\nselect 2\r\nset d 1\r\nclient reply on\r\n"),
        (Server, b"+OK\r\n"),
    ]);
    let numbers: Vec<u64> = heard.outcomes().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..8).collect::<Vec<_>>());
    assert_eq!(heard.settings, [b"select 2\r\n"]);
}

#[test]
fn monitor_lines_answer_nothing() {
    let heard = listen(&[
        (Client, b"monitor\r\n"),
        (Server, b"+OK\r\n+1700000000.123456 [0 127.0.0.1:1] \"get\" \"k\"\r\n"),
        (Client, b"quit\r\n"),
        (Server, b"+1700000000.123457 [0 lua] \"get\" \"k\"\r\n+OK\r\n"),
    ]);
    assert_eq!(heard.outcomes(), [(0, Outcome::Ok), (1, Outcome::Ok)]);
}

#[test]
fn a_replica_is_no_client() {
    let heard = listen(&[
        (Client, b"PING\r\nREPLCONF listening-port 1\r\nPSYNC ? -1\r\n"),
        (Server, b"+PONG\r\n+OK\r\n+FULLRESYNC 0 0\r\n$5\r\nREDIS*1\r\n$4\r\nPING\r\n"),
        (Client, b"REPLCONF ACK 1\r\n"),
    ]);
    assert_eq!(heard.classes(), [Class::ReadOnly; 2]);
    assert_eq!(heard.unintelligible(), 1);
}

#[test]
fn a_gap_within_a_value_costs_one_request() {
    let (mut conversation, mut recorder) = (Resp::new(), Recorder::default());
    let set = request(&[b"SET", b"k", &[b'x'; 1000]]);
    conversation.bytes(Client, &set[..100], AT, &mut recorder);
    conversation.gap(Client, 500, AT, &mut recorder);
    conversation.bytes(Client, &[&set[600..], b"get k\r\n"].concat(), AT, &mut recorder);
    conversation.bytes(Server, b"+OK\r\n$600\r\nabc", AT, &mut recorder);
    conversation.gap(Server, 590, AT, &mut recorder);
    conversation.bytes(Server, b"1234567\r\n", AT, &mut recorder);
    let offset = set.len() as u64;
    assert_eq!(
        recorder.heard,
        [Heard::request(Class::ReadOnly, b"get k\r\n", offset), Heard::Response(0, Outcome::Ok)]
    );
}

#[test]
fn after_a_gap_the_place_is_found_by_two_rounds_that_fit() {
    let (mut conversation, mut recorder) = (Resp::new(), Recorder::default());
    conversation.gap(Client, 0, AT, &mut recorder);
    conversation.gap(Server, 0, AT, &mut recorder);
    let get = request(&[b"GET", b"k"]);
    for turn in [&b"rest of a value\r\n"[..], &get, &get] {
        conversation.bytes(Client, turn, AT, &mut recorder);
        conversation.bytes(Server, b"$-1\r\n", AT, &mut recorder);
    }
    assert!(recorder.classes().is_empty());
    conversation.bytes(Client, &get, AT, &mut recorder);
    conversation.bytes(Server, b"$-1\r\n", AT, &mut recorder);
    let offset = 17 + 2 * get.len() as u64;
    assert_eq!(
        recorder.heard[2..],
        [Heard::request(Class::ReadOnly, &get, offset), Heard::Response(0, Outcome::Ok)]
    );
}

#[test]
fn a_value_that_looks_like_requests_is_not_taken_for_one() {
    let (mut conversation, mut recorder) = (Resp::new(), Recorder::default());
    let flush = request(&[b"FLUSHALL"]);
    let value = flush.repeat(100);
    let set = request(&[b"SET", b"k", &value]);
    conversation.bytes(Client, b"get k\r\n", AT, &mut recorder);
    conversation.gap(Client, 5, AT, &mut recorder);
    // The value arrives in pieces; the answer to the previous request comes in between.
    conversation.bytes(
        Client,
        &set[set.len() - 2 - 70 * flush.len()..][..flush.len()],
        AT,
        &mut recorder,
    );
    conversation.bytes(Server, b"$-1\r\n", AT, &mut recorder);
    conversation.bytes(Client, &set[set.len() - 2 - 69 * flush.len()..], AT, &mut recorder);
    conversation.bytes(Server, b"+OK\r\n", AT, &mut recorder);
    conversation.bytes(Client, &flush, AT, &mut recorder);
    assert_eq!(recorder.classes(), [Class::ReadOnly]);
}

#[test]
fn with_a_lost_server_requests_are_still_told_and_answered_later() {
    let (mut conversation, mut recorder) = (Resp::new(), Recorder::default());
    let set = request(&[b"SET", b"k", b"v"]);
    conversation.bytes(Client, &set, AT, &mut recorder);
    conversation.gap(Server, 0, AT, &mut recorder);
    for _ in 0..2 {
        conversation.bytes(Client, &set, AT, &mut recorder);
        conversation.bytes(Server, b"+OK\r\n", AT, &mut recorder);
    }
    assert_eq!(recorder.outcomes(), []);
    conversation.bytes(Client, &set, AT, &mut recorder);
    conversation.bytes(Server, b"-ERR x\r\n", AT, &mut recorder);
    use Outcome::{Error, Ok};
    assert_eq!(recorder.outcomes(), [(0, Ok), (1, Ok), (2, Ok), (3, Error)]);
}

fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(b"SET".to_vec()),
        Just(b"get".to_vec()),
        Just(b"MULTI".to_vec()),
        Just(b"EXEC".to_vec()),
        Just(b"select".to_vec()),
        Just(b"SUBSCRIBE".to_vec()),
        Just(b"CLIENT".to_vec()),
        Just(b"REPLY".to_vec()),
        Just(b"OFF".to_vec()),
        Just(b"ON".to_vec()),
        Just(b"monitor".to_vec()),
        Just(b"UNSUBSCRIBE".to_vec()),
        prop::collection::vec(any::<u8>(), 0..60),
    ];
    prop_oneof![
        4 => prop::collection::vec(word, 1..5).prop_map(|words| {
            request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
        }),
        1 => "[a-z]{1,8}( [a-z0-9]{1,5}){0,3}\r\n".prop_map(String::into_bytes),
    ]
}

fn any_reply() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"+OK\r\n".to_vec()),
        Just(b"-ERR no\r\n".to_vec()),
        Just(b"$-1\r\n".to_vec()),
        Just(b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n".to_vec()),
        Just(b"_\r\n".to_vec()),
        Just(b">2\r\n$7\r\nmessage\r\n$1\r\na\r\n".to_vec()),
        Just(b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n".to_vec()),
        Just(b"%1\r\n+a\r\n:1\r\n".to_vec()),
        Just(b"+1700000000.123456 [0 x] \"a\"\r\n".to_vec()),
    ]
}

proptest! {
    #[test]
    fn how_bytes_are_cut_makes_no_difference(
        turns in prop::collection::vec(
            (prop::collection::vec(any_request(), 1..6), prop::collection::vec(any_reply(), 1..6)), 1..5),
        gap in prop::option::of((0_usize..4, any::<bool>(), 0_u64..50)),
        cuts in prop::collection::vec(1_usize..40, 1..30),
    ) {
        let whole = std::iter::repeat(&usize::MAX);
        let run = |cuts: &mut dyn Iterator<Item = &usize>| {
            let (mut conversation, mut recorder) = (Resp::new(), Recorder::default());
            for (index, (requests, replies)) in turns.iter().enumerate() {
                for (side, bytes) in [(Client, requests.concat()), (Server, replies.concat())] {
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let cut = (*cuts.next().expect("endless")).min(rest.len());
                        conversation.bytes(side, &rest[..cut], AT, &mut recorder);
                        rest = &rest[cut..];
                    }
                }
                if let Some((at, of_client, missing)) = gap && at == index {
                    let side = if of_client { Client } else { Server };
                    conversation.gap(side, missing, AT, &mut recorder);
                }
            }
            recorder.settings = conversation.connection_requests();
            recorder
        };
        let one = run(&mut whole.into_iter());
        let other = run(&mut cuts.iter().cycle());
        prop_assert_eq!(&one.settings, &other.settings);
        prop_assert_eq!(one.of_side(Client), other.of_side(Client));
        prop_assert_eq!(one.of_side(Server), other.of_side(Server));
    }

    #[test]
    fn requests_are_those_that_the_codec_reads(
        requests in prop::collection::vec(any_request(), 1..20), cut in 1_usize..50,
    ) {
        let bytes = requests.concat();
        let pieces: Vec<(Side, &[u8])> = bytes.chunks(cut).map(|piece| (Client, piece)).collect();
        let told: Vec<Vec<u8>> = listen(&pieces).payloads();
        let (mut parser, mut from, mut expected) = (Parser::new(), 0, Vec::new());
        while let Ok(Parsed::Request { len }) = parser.parse(&bytes[from..], &Limits::default()) {
            if parser.args_len() > 0 {
                expected.push(bytes[from..from + len].to_vec());
            }
            from += len;
        }
        let replica = |payload: &Vec<u8>| payload.windows(4).any(|part| part.eq_ignore_ascii_case(b"sync"));
        prop_assume!(!expected.iter().any(replica));
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn any_bytes_are_heard_without_harm(
        pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..80)), 0..20),
    ) {
        let (mut conversation, mut recorder) = (Resp::new(), Recorder::default());
        for (of_client, bytes) in pieces {
            let side = if of_client { Client } else { Server };
            conversation.bytes(side, &bytes, AT, &mut recorder);
            if bytes.first() == Some(&7) {
                conversation.gap(side, bytes.len() as u64, AT, &mut recorder);
            }
        }
        prop_assert!(recorder.outcomes().len() <= recorder.classes().len());
    }
}

//! Messages are read as they were written, and anything else is refused.

use proptest::prelude::*;

use super::*;
use crate::entry::{self, Time};

fn path(text: &str) -> RelativePath {
    RelativePath::new(text).unwrap()
}

fn examples() -> Vec<Message> {
    let verification = Verification {
        scheme: Scheme::Sp,
        verifiers: 3,
        resends_max: 5,
        device_cache_bytes: 1 << 30,
    };
    let time = Time { seconds: -1, nanoseconds: 999_999_999 };
    let entry =
        |kind| Message::Entry(Entry { path: path("a/b"), kind, mode: 0o640, modified: time });
    vec![
        Message::Hello { verification, wish: Wish::Send { into: None } },
        Message::Hello { verification, wish: Wish::Send { into: Some(path("x/y")) } },
        Message::Hello { verification, wish: Wish::Fetch { paths: vec![path("p"), path("q")] } },
        Message::Hello { verification, wish: Wish::Fetch { paths: vec![] } },
        Message::Welcome,
        entry(entry::Kind::Directory),
        entry(entry::Kind::File { size_bytes: 5000, data_bytes: 4096 }),
        entry(entry::Kind::Link { target: b"../\xff".to_vec() }),
        Message::EntriesEnd { count: 9 },
        Message::Offer { entries: vec![(1, Origin::Staged), (2, Origin::Existing)] },
        Message::Accept { waits_for_each: true },
        Message::Refuse { why: "no".to_owned() },
        Message::Ask { entry: 1 },
        Message::Have { entry: 1, checksums: vec![1, 2], is_last: true },
        Message::Data { entry: 1, first_page: 2, checksums: vec![3] },
        Message::Hole { entry: 1, first_page: 2, pages: 3 },
        Message::Held { entry: 1, first_page: 2, checksums: vec![3] },
        Message::Same { entry: 4 },
        Message::FileEnd { entry: 4 },
        Message::Lost { entry: 4, why: "changed".to_owned() },
        Message::AllSent,
        Message::Resend { entry: 1, first_page: 2, pages: 3 },
        Message::Verified { entry: 1 },
        Message::Failed { entry: 1, why: "bad".to_owned() },
        Message::Progress { written_bytes: 1, verified_bytes: 2 },
        Message::Finished(Totals { filler_bytes: 7, ..Totals::default() }),
        Message::Hello { verification, wish: Wish::Session { into: None } },
        Message::Hello { verification, wish: Wish::Session { into: Some(path("shop")) } },
        Message::Request(Request::Put { path: path("a"), bytes: 9 }),
        Message::Request(Request::Open { path: path("a/b") }),
        Message::Request(Request::Read { path: path("a"), offset: 4096, bytes: 7 }),
        Message::Request(Request::List { path: None, directories: true }),
        Message::Request(Request::List { path: Some(path("a")), directories: false }),
        Message::Request(Request::Remove { path: path("a") }),
        Message::Request(Request::Expect {
            path: path("a"),
            bytes: 5000,
            first_page: 1,
            checksums: vec![7],
        }),
        Message::Request(Request::Stand),
        Message::Answer(Answer::Put { is_new: true }),
        Message::Answer(Answer::Opened { bytes: 5 }),
        Message::Answer(Answer::Names { names: vec![b"a".to_vec(), Vec::new()], is_last: false }),
        Message::Answer(Answer::Done),
        Message::Answer(Answer::Absent),
        Message::Answer(Answer::Stand { put: 3, verified: 2, damaged: vec![path("a/b")] }),
        Message::Answer(Answer::Failed { is_denied: true, why: "no".to_owned() }),
    ]
}

#[test]
fn every_message_is_read_as_it_was_written() {
    for message in examples() {
        let head = message.encode();
        assert_eq!(Message::decode(message.kind().code(), &head).unwrap(), message);
    }
}

#[test]
fn the_numbers_of_kinds_do_not_change() {
    let codes: Vec<u8> = Kind::ALL.iter().map(|kind| kind.code()).collect();
    assert_eq!(codes, (1..=23).collect::<Vec<u8>>());
}

#[test]
fn another_version_is_named() {
    let error = Message::decode(Kind::Welcome.code(), &[2, 0]).unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(code in 0u8..25, head in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = Message::decode(code, &head) {
            prop_assert_eq!(message.encode(), head);
        }
    }

    #[test]
    fn no_damage_makes_it_panic(which in 0usize..43, at in any::<prop::sample::Index>(), byte: u8, cut: bool) {
        let message = &examples()[which];
        let mut head = message.encode();
        if !head.is_empty() {
            let at = at.index(head.len());
            if cut { head.truncate(at) } else { head[at] = byte }
        }
        if let Ok(read) = Message::decode(message.kind().code(), &head) {
            prop_assert_eq!(read.encode(), head);
        }
    }
}

//! The protocol of transfers: what comes over a connection is read or refused, never more is allocated
//! than a frame may have, and a message is written as the bytes that it was read from.
//!
//! The right checksums are put into the input first, where its frames seem to be.

use base::checksum::crc32c;

/// Length of a frame's header, and where in it the lengths and the checksums are.
const HEADER_BYTES: usize = 20;

pub(crate) fn run(input: &[u8]) {
    let mut bytes = input.to_vec();
    seal(&mut bytes);
    // Refused or read: both are right.
    let _frames = transfer::check_frames(&bytes);
}

fn seal(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + HEADER_BYTES) {
        let length =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let (head, body) = (length(4) as usize, length(8) as usize);
        let head_at = at + HEADER_BYTES;
        let Some(crc) = bytes.get(head_at..head_at.saturating_add(head)).map(crc32c) else {
            return;
        };
        bytes[at + 12..at + 16].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c(&bytes[at..at + 16]);
        bytes[at + 16..at + 20].copy_from_slice(&crc.to_le_bytes());
        at = head_at.saturating_add(head).saturating_add(body);
    }
}

fn frame(kind: u8, head: &[u8], body: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a seed is short").to_le_bytes();
    [&[kind, 0, 0, 0], &length(head)[..], &length(body), &[0; 8], head, body].concat()
}

/// A text or a path as messages have it.
fn text(text: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("a seed is short");
    [&length.to_le_bytes(), text].concat()
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A client's first message: it asks for this.
fn hello(version: u8, wish: &[u8]) -> Vec<u8> {
    let verification = b"\x04\0\0\x03\0\0\0\0\0\0\0\0\0";
    frame(1, &joined(&[b"INDELTFR", &[version, 0], verification, wish]), b"")
}

/// A transfer, as the sender and the receiver see it.
fn transfer() -> [Vec<u8>; 3] {
    let entry = |kind: &[u8]| [b"\x03\0a/b\xa4\x01\0\0", &[0; 12][..], kind].concat();
    let file = entry(&[&[2][..], &5000_u64.to_le_bytes(), &4096_u64.to_le_bytes()].concat());
    let list = [
        hello(1, b"\x01\0\0"),
        frame(3, &entry(&[1]), b""),
        frame(3, &file, b""),
        frame(3, &entry(b"\x03\x02\0..")[..], b""),
        frame(4, &3_u32.to_le_bytes(), b""),
        frame(8, &1_u32.to_le_bytes(), b""),
    ];
    let pages = [&1_u32.to_le_bytes()[..], &0_u64.to_le_bytes()].concat();
    let data = joined(&[&pages, &[7; 4]]);
    let sent = [
        frame(10, &data, b"page"),
        frame(11, &joined(&[&pages, &[2, 0, 0, 0, 0, 0, 0, 0]]), b""),
        frame(12, &data, b""),
        frame(13, &1_u32.to_le_bytes(), b""),
        frame(14, &1_u32.to_le_bytes(), b""),
        frame(15, b"\x01\0\0\0\x04\0gone", b""),
        frame(16, b"", b""),
    ];
    let replies = [
        frame(2, &[1, 0], b""),
        frame(5, &[1, 0, 0, 0, 0, 2, 0, 0, 0, 1], b""),
        frame(6, &[1], b""),
        frame(7, b"\x02\0no", b""),
        frame(9, &[1, 0, 0, 0, 1, 9, 9, 9, 9], b""),
        frame(17, &[1; 20], b""),
        frame(18, &1_u32.to_le_bytes(), b""),
        frame(19, b"\x01\0\0\0\x03\0bad", b""),
        frame(20, &[5; 16], b""),
        frame(21, &[3; 72], b""),
    ];
    [list.concat(), sent.concat(), replies.concat()]
}

/// What a client asks for in a session, each of it.
fn requests() -> Vec<u8> {
    let (path, number) = (text(b"da/log/1"), &5000_u64.to_le_bytes()[..]);
    let requests = [
        joined(&[&[1], &path, number]),
        joined(&[&[2], &path]),
        joined(&[&[3], &path, number, &[7, 0, 0, 0]]),
        joined(&[&[4], &text(b""), &[1]]),
        joined(&[&[4], &path, &[0]]),
        joined(&[&[5], &path]),
        joined(&[&[6], &path, number, number, &[9; 8]]),
        vec![7],
    ];
    let requests = requests.map(|request| frame(22, &request, b"")).concat();
    [hello(2, b"\x03\0\0"), hello(2, b"\x03\x04\0shop"), requests].concat()
}

/// What it is answered, each of it.
fn answers() -> Vec<u8> {
    let (path, number) = (text(b"da/log/1"), &5000_u64.to_le_bytes()[..]);
    let answers = [
        vec![1, 1],
        joined(&[&[2], number]),
        joined(&[&[3, 0], &path, &text(b""), &text(b"\xff")]),
        vec![3, 1],
        vec![4],
        vec![5],
        joined(&[&[6], number, number, &path, &text(b"a")]),
        joined(&[&[7, 1], &text(b"it is full")]),
    ];
    answers.map(|answer| frame(23, &answer, b"")).concat()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let fetch = hello(1, &joined(&[&[2], &text(b"p"), &text(b"q/r")]));
    let into = hello(1, &joined(&[&[1], &text(b"x/y")]));
    let [list, sent, replies] = transfer();
    vec![list, sent, replies, requests(), answers(), fetch, into]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The numbers of the kinds of messages, requests and answers that a seed has, a frame each.
    fn kinds(seed: &[u8]) -> Vec<(u8, Option<u8>)> {
        let (mut kinds, mut rest) = (Vec::new(), seed);
        while !rest.is_empty() {
            let length = |at| u32::from_le_bytes(*rest[at..].first_chunk().unwrap()) as usize;
            let kind = rest[0];
            kinds.push((kind, (kind >= 22).then(|| rest[HEADER_BYTES])));
            rest = &rest[HEADER_BYTES + length(4) + length(8)..];
        }
        kinds
    }

    #[test]
    fn the_seeds_are_read_and_have_messages_of_every_kind() {
        let mut all = BTreeSet::new();
        for mut seed in seeds() {
            let kinds = kinds(&seed);
            seal(&mut seed);
            assert_eq!(transfer::check_frames(&seed).unwrap(), kinds.len(), "{kinds:?}");
            all.extend(kinds);
        }
        let session = (1..=7).map(Some);
        let expected = (1..22).map(|kind| (kind, None));
        let expected = expected.chain(session.clone().map(|it| (22, it)));
        assert!(all.into_iter().eq(expected.chain(session.map(|it| (23, it)))));
    }
}

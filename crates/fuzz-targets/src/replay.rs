//! Records into a keyspace: any well-formed records are applied or refused, and what was applied
//! can be read and written.
//!
//! Databases are numbered from 0 without gaps and strings may have holes, and both take memory; so
//! the input may name only the first databases and strings that are short, all of them together.

use base::{Record, RecordKind, varint};

use crate::session::Session;

/// The databases that the input may name.
const DATABASES_MAX: u8 = 64;

/// How long the strings that the input announces may be, together. Each is read and written by
/// several commands: memory for some 25 copies is allocated in all.
const STRING_BYTES_MAX: u64 = 64 << 10;

pub(crate) fn run(input: &[u8]) {
    let mut rest = input;
    let mut records = Vec::new();
    let mut announced_bytes = 0;
    while !rest.is_empty() {
        let before = rest;
        let Ok(record) = redo::record::decode(&mut rest) else { break };
        if is_small(&record, &mut announced_bytes) {
            records.push(&before[..before.len() - rest.len()]);
        }
    }
    let Some(mut session) = Session::of_records(records.into_iter()) else { return };
    for db in session.keyspace.databases().take(DATABASES_MAX.into()) {
        session.db = db;
        for key in keys(input) {
            read_and_write(&mut session, key);
        }
    }
}

fn is_small(record: &Record<'_>, announced_bytes: &mut u64) -> bool {
    let big_endian =
        |bytes: &[u8]| bytes.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
    let is_short = match record.kind {
        RecordKind::LargeString => {
            let bytes = varint::take(&mut &*record.value).unwrap_or_default();
            *announced_bytes = announced_bytes.saturating_add(bytes);
            *announced_bytes < STRING_BYTES_MAX
        }
        RecordKind::StringChunk => {
            record.sub.len() != 4 || big_endian(record.sub) * 4096 < STRING_BYTES_MAX
        }
        _ => true,
    };
    is_short && record.db.0 < u64::from(DATABASES_MAX)
}

/// The keys that the records name.
fn keys(mut input: &[u8]) -> Vec<&[u8]> {
    let mut keys = Vec::new();
    while let Ok(record) = redo::record::decode(&mut input) {
        if !record.kind.is_element() && !keys.contains(&record.key) {
            keys.push(record.key);
        }
    }
    keys
}

fn read_and_write(session: &mut Session, key: &[u8]) {
    if session.dump(key).is_none() {
        return;
    }
    let commands: &[&[&[u8]]] = match session.run(&[b"TYPE", key]).as_slice() {
        b"+string\r\n" => &[
            &[b"STRLEN"],
            &[b"GETRANGE", b"0", b"-1"],
            &[b"SETRANGE", b"7", b"abc"],
            &[b"APPEND", b"xyz"],
            &[b"SETBIT", b"3", b"1"],
        ],
        b"+list\r\n" => &[
            &[b"LLEN"],
            &[b"LINDEX", b"-1"],
            &[b"LPUSH", b"x"],
            &[b"LINSERT", b"BEFORE", b"x", b"y"],
            &[b"LSET", b"-1", b"z"],
            &[b"LREM", b"0", b"x"],
            &[b"LTRIM", b"0", b"-2"],
            &[b"RPOP"],
        ],
        b"+set\r\n" => &[&[b"SCARD"], &[b"SADD", b"x"], &[b"SREM", b"member"], &[b"SPOP"]],
        b"+zset\r\n" => &[
            &[b"ZCARD"],
            &[b"ZADD", b"5", b"x"],
            &[b"ZINCRBY", b"-1", b"member"],
            &[b"ZRANGE", b"0", b"-1"],
            &[b"ZREM", b"member"],
            &[b"ZPOPMAX"],
        ],
        _ => &[&[b"HLEN"], &[b"HSET", b"x", b"y"], &[b"HDEL", b"field"], &[b"HGETALL"]],
    };
    for words in commands {
        let mut arguments = vec![words[0], key];
        arguments.extend(&words[1..]);
        let _reply = session.run(&arguments);
    }
    let _still_a_payload = session.dump(key);
    assert_eq!(session.run(&[b"PERSIST", key]).first(), Some(&b':'));
    assert_eq!(session.run(&[b"DEL", key]).first(), Some(&b':'));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for example in crate::record::examples() {
        redo::record::encode(&mut all, &example);
    }
    let mut spread = Vec::new();
    for (number, example) in crate::record::examples().iter().enumerate().rev() {
        if number % 2 == 0 {
            redo::record::encode(&mut spread, example);
        }
    }
    varint::put_bytes(&mut spread, b"\x01\x00\x01");
    vec![all, spread]
}

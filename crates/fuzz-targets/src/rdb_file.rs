//! Dumps (RDB files): what is read in one piece is read in many, and what was read is the same after it was
//! written and read again.
//!
//! The first byte of the input says whether the rest is a dump as it is, or what stands between magic and
//! end mark, and which version that is of.

use std::io::Read;

use rdb::{Checksum, Digest, Error, Event, Fingerprint, Key, Kind, Limits, Reader, Version};
use rdb::{WriteOptions, Writer};

const RAW: u8 = 1;
const VALKEY: u8 = 2;
const OLD: u8 = 4;

const LIMITS: Limits = Limits { string_bytes_max: 1 << 20 };

pub(crate) fn run(input: &[u8]) {
    let Some((flags, bytes)) = input.split_first() else { return };
    let dump = if flags & RAW == 0 { sealed(*flags, bytes) } else { bytes.to_vec() };
    let whole = read(&dump[..]);
    let pieces = read(InPieces { bytes: &dump, piece_bytes: 1 + usize::from(*flags) });
    match (&whole, &pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces),
        (Err(whole), Err(pieces)) => assert_eq!(whole.to_string(), pieces.to_string()),
        _ => panic!("{whole:?} and in pieces {pieces:?}"),
    }
    let Ok(Seen { data, .. }) = whole else { return };
    let again = read(&write_again(&dump)[..]).expect("it was just written");
    assert_eq!(again.data, data);
    assert_eq!(again.checksum, Checksum::Right);
}

/// A dump of these bytes, without a checksum.
fn sealed(flags: u8, bytes: &[u8]) -> Vec<u8> {
    let magic: &[u8] = match (flags & VALKEY, flags & OLD) {
        (0, 0) => b"REDIS0015",
        (0, _) => b"REDIS0003",
        _ => b"VALKEY080",
    };
    let sum: &[u8] = if flags & (VALKEY | OLD) == OLD { b"" } else { &[0; 8] };
    [magic, bytes, &[0xff], sum].concat()
}

/// What there was in a dump.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Of everything, in its order.
    events: Fingerprint,
    /// Of the data alone.
    data: Fingerprint,
    checksum: Checksum,
}

fn read(source: impl Read) -> Result<Seen, Error> {
    let mut reader = Reader::new(source, LIMITS)?;
    let (mut events, mut data) = (Fingerprint::default(), Digest::default());
    loop {
        let event = reader.next()?;
        data.take(&event);
        note(&mut events, &event);
        if let Event::End { checksum } = event {
            return Ok(Seen { events, data: data.finish(), checksum });
        }
    }
}

fn note(events: &mut Fingerprint, event: &Event<'_>) {
    match *event {
        Event::Aux { name, value } => [name, value].iter().for_each(|bytes| events.item(bytes)),
        Event::Database(index) => events.item(&index.to_le_bytes()),
        Event::Sizes { keys, expiring } => {
            [keys, expiring].iter().for_each(|number| events.item(&number.to_le_bytes()));
        }
        Event::Function(code) => events.item(code),
        Event::Key(Key { key, kind, count, expires_at_ms, idle_s, frequency }) => {
            events.item(key);
            events.kind(kind);
            events.item(format!("{count:?} {expires_at_ms:?} {idle_s:?} {frequency:?}").as_bytes());
        }
        Event::Empty { key, kind } => {
            events.item(key);
            events.kind(kind);
        }
        Event::Foreign { key, what } => {
            [key, what.as_bytes()].iter().for_each(|bytes| events.item(bytes))
        }
        Event::Ignored { what } => events.item(what.as_bytes()),
        Event::EndOfKey => events.item(b"."),
        // What is in no fingerprint.
        Event::Numbers(_)
        | Event::Group { .. }
        | Event::Pending(_)
        | Event::Consumer { .. }
        | Event::Held(_) => events.item(format!("{event:?}").as_bytes()),
        Event::End { .. } => {}
        ref element => events.take(element),
    }
}

/// The same data, written.
fn write_again(dump: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(dump, LIMITS).expect("it was read before");
    let version = match reader.version() {
        Version::Redis(_) => Version::Redis(15),
        valkey @ Version::Valkey(_) => valkey,
    };
    let options = WriteOptions { version, ..WriteOptions::default() };
    let mut writer = Writer::begin(Vec::new(), options).expect("it is a version that is written");
    loop {
        match reader.next().expect("it was read before") {
            Event::Aux { name, value } => writer.aux(name, value),
            Event::Database(index) => writer.database(index),
            Event::Sizes { keys, expiring } => writer.sizes(keys, expiring),
            Event::Function(code) => writer.function(code),
            Event::Key(key) => {
                let head = Head::of(&key);
                write_value(&mut writer, &mut reader, &head)
            }
            Event::End { .. } => return writer.finish().expect("memory takes it"),
            _ => Ok(()),
        }
        .expect("memory takes it");
    }
}

/// A key, copied out of its dump.
struct Head {
    key: Vec<u8>,
    kind: Kind,
    expires_at_ms: Option<i64>,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

impl Head {
    fn of(key: &Key<'_>) -> Self {
        let Key { key, kind, expires_at_ms, idle_s, frequency, count: _ } = *key;
        Self { key: key.to_vec(), kind, expires_at_ms, idle_s, frequency }
    }
}

/// An element, copied out of its dump.
enum Element {
    String(Vec<u8>),
    Item(Vec<u8>),
    Member(Vec<u8>),
    Scored(Vec<u8>, f64),
    Field(Vec<u8>, Vec<u8>, Option<i64>),
}

fn write_value(
    writer: &mut Writer<Vec<u8>>,
    reader: &mut Reader<&[u8]>,
    head: &Head,
) -> Result<(), rdb::WriteError> {
    if head.kind == Kind::Stream {
        return write_stream(writer, reader, head);
    }
    let mut elements = Vec::new();
    loop {
        elements.push(match reader.next().expect("it was read before") {
            Event::String(bytes) => Element::String(bytes.to_vec()),
            Event::Item(item) => Element::Item(item.to_vec()),
            Event::Member(member) => Element::Member(member.to_vec()),
            Event::Scored(member, score) => Element::Scored(member.to_vec(), score),
            Event::Field { name, value, expires_at_ms } => {
                Element::Field(name.to_vec(), value.to_vec(), expires_at_ms)
            }
            _ => break,
        });
    }
    let key = Key {
        key: &head.key,
        kind: head.kind,
        count: Some(elements.len() as u64),
        expires_at_ms: head.expires_at_ms,
        idle_s: head.idle_s,
        frequency: head.frequency,
    };
    if elements.iter().any(|element| matches!(element, Element::Field(.., Some(_)))) {
        writer.hash_with_times(&key)?;
    } else {
        writer.key(&key)?;
    }
    for element in &elements {
        match element {
            Element::String(bytes) => writer.string(bytes)?,
            Element::Item(item) => writer.item(item)?,
            Element::Member(member) => writer.member(member)?,
            Element::Scored(member, score) => writer.scored(member, *score)?,
            Element::Field(name, value, at_ms) => writer.field(name, value, *at_ms)?,
        }
    }
    writer.end_of_key()
}

/// A stream as it was, an entry a node.
fn write_stream(
    writer: &mut Writer<Vec<u8>>,
    reader: &mut Reader<&[u8]>,
    head: &Head,
) -> Result<(), rdb::WriteError> {
    let (mut stream, mut groups) = (rdb::StreamValue::default(), rdb::GroupBuilder::default());
    loop {
        match reader.next().expect("it was read before") {
            Event::Entry(id) => {
                stream.entries.push(rdb::StreamEntry { id, pairs: Vec::new() });
            }
            Event::Pair(name, value) => {
                let entry = stream.entries.last_mut().expect("its entry came before");
                entry.pairs.push((name.to_vec(), value.to_vec()));
            }
            Event::Numbers(numbers) => stream.numbers = numbers,
            Event::Group { name, last_id, entries_read } => {
                // What holds what is none of the reader's business.
                stream.groups.extend(groups.group(name, last_id, entries_read).ok().flatten());
            }
            Event::Pending(pending) => groups.pending(pending),
            Event::Consumer { name, seen_ms, active_ms } => {
                groups.consumer(name, seen_ms, active_ms);
            }
            Event::Held(id) => _ = groups.held(id),
            _ => break,
        }
    }
    stream.groups.extend(groups.finish().ok().flatten());
    writer.key(&Key {
        key: &head.key,
        kind: head.kind,
        count: Some(stream.entries.len() as u64),
        expires_at_ms: head.expires_at_ms,
        idle_s: head.idle_s,
        frequency: head.frequency,
    })?;
    let mut node = rdb::NodeBuilder::default();
    for entry in &stream.entries {
        node.push(entry.id, entry.pairs.iter().map(|(name, value)| (&name[..], &value[..])));
        writer.node(&mut node)?;
    }
    let first = stream.entries.first().map_or(rdb::EntryId::default(), |entry| entry.id);
    let entries = (first, stream.entries.len() as u64);
    writer.numbers(entries, &stream.numbers, stream.groups.len() as u64)?;
    for group in &stream.groups {
        let held = group.consumers.iter().flat_map(|consumer| &consumer.pending);
        let mut pending: Vec<_> = held.copied().collect();
        pending.sort_unstable_by_key(|pending| pending.id);
        let of_group = (&group.name[..], group.last_id, group.entries_read);
        writer.group(of_group, pending.into_iter(), group.consumers.len() as u64)?;
        for consumer in &group.consumers {
            let times = (consumer.seen_ms, consumer.active_ms);
            let held = consumer.pending.iter().map(|pending| pending.id);
            writer.consumer(&consumer.name, times, held)?;
        }
    }
    writer.end_of_key()
}

/// A source that gives a few bytes at a time.
struct InPieces<'a> {
    bytes: &'a [u8],
    piece_bytes: usize,
}

impl Read for InPieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.bytes.len().min(self.piece_bytes).min(out.len());
        let (now, later) = self.bytes.split_at(bytes);
        out[..bytes].copy_from_slice(now);
        self.bytes = later;
        Ok(bytes)
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let bodies: [(u8, &[u8]); 22] = [
        // What is no value.
        (0, b"\xfa\x09redis-ver\x067.0.15\xf5\x05#!lua\xfe\x02\xfb\x03\x01\xf4\x01\x02\x03\0\x01a\x01v"),
        (0, b"\xf7\x81abcdefgh\x02\x02\x05\x01x\0\xf6\x01n\x03lua\x01\x04desc\x04code"),
        (0, b"\xfd\x02\0\0\0\xf9\x05\0\x01a\x01v\xfc\xff\x01\0\0\0\0\0\0\xf8\x40\x64\0\x01b\x01v"),
        (0, b"\xf3\x01abcd\x02\x05\0\0\x01b\x01v"),
        (VALKEY, b"\xf3\x02id\x01\x01\x02\0\x01b\xc1\xe8\x03"),
        // Plain forms.
        (0, b"\0\x01z\xc3\x04\x08\0a\xa0\0\x01\x01l\x02\x01a\xc0\x07\x02\x01s\x02\x01a\x01b"),
        (OLD, b"\x03\x01z\x03\x01a\x031.5\x01b\xfe\x01c\xff"),
        (0, b"\x05\x01y\x01\x01a\0\0\0\0\0\0\xf8\x3f\x04\x01h\x01\x01f\x01v"),
        // Packed ones.
        (OLD, b"\x09\x01k\x09\x01\x01a\x01\x021??\xff"),
        (OLD, b"\x0a\x01k\x10\x10\0\0\0\x0d\0\0\0\x02\0\0\x01f\x03\xf2\xff"),
        (OLD, b"\x0d\x01k\x10\x10\0\0\0\x0d\0\0\0\x02\0\0\x01f\x03\xf2\xff"),
        (OLD, b"\x0c\x01k\x10\x10\0\0\0\x0d\0\0\0\x02\0\0\x01f\x03\xf2\xff"),
        (0, b"\x0b\x01i\x0a\x02\0\0\0\x01\0\0\0\x01\0"),
        (0, b"\x10\x01p\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff"),
        (0, b"\x11\x01p\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff\x14\x01q\x09\x09\0\0\0\x01\0\x05\x01\xff"),
        (0, b"\x12\x01q\x02\x02\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff\x01\x03big"),
        (0, b"\x0e\x01k\x01\x10\x10\0\0\0\x0d\0\0\0\x02\0\0\x01f\x03\xf2\xff"),
        // Fields that expire, templates.
        (0, b"\x18\x01k\x10\0\0\0\0\0\0\0\x02\0\x01a\x01b\x05\x01c\x01d"),
        (0, b"\x19\x01k\0\0\0\0\0\0\0\0\x0f\x0f\0\0\0\x03\0\x81a\x02\x81b\x02\x7f\x01\xff"),
        (VALKEY, b"\x16\x01k\x01\x01f\x011\x05\0\0\0\0\0\0\0"),
        (0, b"\xf2\x07\x02\x01a\x02bb\x20\x01k\x07\x01x\xc0\x05\x1e\x01q\x0e\x0e\0\0\0\x03\0\x07\x01\x81x\x02\x05\x01\xff"),
        (0, b"\x1f\x01k\x01\x02\x01a\x02bb\x01x\xc0\x05\x07\x01m\x01\x02\x05\0\x0f\x01x\0\0\0\0\0"),
    ];
    let mut seeds: Vec<Vec<u8>> =
        bodies.iter().map(|(flags, body)| [&[*flags][..], body].concat()).collect();
    // A stream of the newest generation, with a group, and an array.
    let id = [7; 16];
    let stream = [
        &b"\0\x1b\x01x\x01\x10"[..],
        &id,
        b"\x02lp\x01\x05\x06\x05\x06\0\0\x01\x01\x01g\x01\x02\x01\x01",
        &id,
        b"timetime\x03\x01\x01ctimetimetimetime\x01",
        &id,
        b"\x01",
        &id,
        b"\x0a\x0a\x01\x01p\x01\x01i\x05\x06\x01\x02",
    ];
    seeds.push(stream.concat());
    seeds.push(b"\0\x1c\x01a\x02\x01\x05\x01\x01abcdefgh\x02\0\x01s".to_vec());
    // A dump as it is, with its checksum.
    let mut writer =
        Writer::begin(Vec::new(), WriteOptions::default()).expect("a version that is written");
    writer.aux(b"redis-ver", b"7.0.15").expect("memory takes it");
    seeds.push([&[RAW][..], &writer.finish().expect("memory takes it")].concat());
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_a_dump() {
        for seed in seeds() {
            let (flags, bytes) = seed.split_first().expect("seeds have flags");
            let dump = if flags & RAW == 0 { sealed(*flags, bytes) } else { bytes.to_vec() };
            read(&dump[..]).unwrap_or_else(|error| panic!("{error}: {}", seed.escape_ascii()));
        }
    }
}

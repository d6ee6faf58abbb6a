//! Changes as JSON: one line a block, so that a line that is whole is a whole block.
//!
//! Bytes are a string if they are UTF-8 without control characters, and `{"base64":"…"}` otherwise: a reader
//! looks at the type. Nodes of lists and scores are strings of digits: many readers of JSON take a number of 64 bits,
//! or one with a fraction, for another one that is near.

use std::io::Write as _;

use base::{DangerousCommand, Lsn, Note, NoteEvent, ObjectId, Record, RecordKind};
use keyspace::stream::{MessageLimits, StreamElement, StreamRecord, StreamRoot};
use keyspace::{BadRecord, Type, plain};

use crate::change::{Change, Database, Element, ElementName, Moved, Place};
use crate::translator::Translator;

/// Which block a line is of.
#[derive(Clone, Copy, Debug)]
pub struct Heading<'a> {
    /// Its number.
    pub lsn: Lsn,
    /// The id of its log, in hexadecimal digits: another log has another block of this number.
    pub log: &'a str,
    /// When it was ended, in Unix milliseconds.
    pub time_ms: i64,
}

/// Translates a block, and appends it to `out` as one line without its end. Returns how many changes it has.
///
/// # Errors
/// When no keyspace logs such records; `out` is as it was then.
pub fn write_block(
    translator: &mut Translator,
    heading: Heading<'_>,
    records: &[Record<'_>],
    out: &mut Vec<u8>,
) -> Result<usize, BadRecord> {
    let begin = out.len();
    let mut count = 0;
    let Heading { lsn, log, time_ms } = heading;
    put(out, format_args!(r#"{{"lsn":{lsn},"log":"{log}","time_ms":{time_ms},"changes":["#));
    let written = translator.block(records, &mut |change| {
        if count > 0 {
            out.push(b',');
        }
        count += 1;
        write_change(change, out);
    });
    if let Err(bad) = written {
        out.truncate(begin);
        return Err(bad);
    }
    out.extend_from_slice(b"]}");
    Ok(count)
}

fn put(out: &mut Vec<u8>, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a vector takes everything");
}

fn write_change(change: &Change<'_>, out: &mut Vec<u8>) {
    let operation = match change {
        Change::Set { .. } => "set",
        Change::Root { .. } => "root",
        Change::Deleted { .. } => "delete",
        Change::Element { .. } => "element",
        Change::ElementDeleted(_) => "delete-element",
        Change::ValueLost { .. } | Change::KeyLost(_) => "lost",
        Change::Library { .. } => "library",
        Change::LibraryDeleted { .. } => "delete-library",
        Change::Note(_) => "note",
        Change::Databases(_) => "databases",
    };
    put(out, format_args!(r#"{{"op":"{operation}""#));
    match change {
        Change::Set { place, value_type, record } => {
            write_place(place, out);
            write_type(Some(*value_type), out);
            write_expiry(record.expires_at_ms, out);
            write_value(record, out);
        }
        Change::Root { place, value_type, object, string_bytes, stream, expires_at_ms, from } => {
            write_place(place, out);
            write_type(Some(*value_type), out);
            write_object(*object, out);
            if let Some(bytes) = string_bytes {
                put(out, format_args!(r#","bytes":{bytes}"#));
            }
            if let Some(StreamRoot { last_id, entries_added, max_deleted_id, .. }) = stream {
                put(
                    out,
                    format_args!(r#","last_id":"{last_id}","entries_added":"{entries_added}""#),
                );
                put(out, format_args!(r#","max_deleted_id":"{max_deleted_id}""#));
            }
            write_expiry(*expires_at_ms, out);
            if let Some(from) = from {
                out.extend_from_slice(br#","from":{"#);
                let begin = out.len();
                write_place(from, out);
                // Without the comma.
                out.remove(begin);
                out.push(b'}');
            }
        }
        Change::Deleted { place, value_type } => {
            write_place(place, out);
            write_type(*value_type, out);
        }
        Change::Element { element, record } => {
            write_element(element, out);
            write_value(record, out);
        }
        Change::ElementDeleted(element) => write_element(element, out),
        Change::ValueLost { place, expires_at_ms } => {
            write_place(place, out);
            write_expiry(*expires_at_ms, out);
        }
        Change::KeyLost(database) => {
            write_database(database, out);
            out.extend_from_slice(br#","key":null"#);
        }
        Change::Library { name, source } => {
            write_named("library", name, out);
            write_named("source", source, out);
        }
        Change::LibraryDeleted { name } => write_named("library", name, out),
        Change::Note(value) => write_note(value, out),
        Change::Databases(moved) => write_moved(moved, out),
    }
    out.push(b'}');
}

/// What the log says of itself; the bytes of what this program does not know.
fn write_note(value: &[u8], out: &mut Vec<u8>) {
    let Some(Note { time_ms, event }) = Note::decode(value) else {
        return write_named("unknown", value, out);
    };
    put(out, format_args!(r#","at_ms":{time_ms},"#));
    match event {
        NoteEvent::BackupCreated { id, name, lsn } => {
            put(out, format_args!(r#""event":"backup-created","id":{id},"of_lsn":{lsn}"#));
            write_named("name", name.as_bytes(), out);
        }
        NoteEvent::BackupDeleted { id, name } => {
            put(out, format_args!(r#""event":"backup-deleted","id":{id}"#));
            write_named("name", name.as_bytes(), out);
        }
        // What it is, which has hashes of passwords, is for a restore alone.
        NoteEvent::BackupConfiguration { id, .. } => {
            put(out, format_args!(r#""event":"backup-configuration","id":{id}"#));
        }
        NoteEvent::Command(DangerousCommand { loses_data, user, address, text }) => {
            put(out, format_args!(r#""event":"command","loses_data":{loses_data}"#));
            write_named("user", user.as_bytes(), out);
            write_named("address", address.as_bytes(), out);
            write_named("command", text.as_bytes(), out);
        }
    }
}

fn write_database(database: &Database, out: &mut Vec<u8>) {
    match database.index {
        Some(index) => put(out, format_args!(r#","db":{index}"#)),
        None => out.extend_from_slice(br#","db":null"#),
    }
    put(out, format_args!(r#","db_id":{}"#, database.id.0));
}

fn write_place(place: &Place<'_>, out: &mut Vec<u8>) {
    write_database(&place.database, out);
    write_named("key", place.key, out);
}

fn write_type(value_type: Option<Type>, out: &mut Vec<u8>) {
    if let Some(value_type) = value_type {
        put(out, format_args!(r#","type":"{}""#, value_type.name()));
    }
}

fn write_object(object: ObjectId, out: &mut Vec<u8>) {
    put(out, format_args!(r#","object":{}"#, object.0));
}

fn write_expiry(expires_at_ms: Option<i64>, out: &mut Vec<u8>) {
    if let Some(at_ms) = expires_at_ms {
        put(out, format_args!(r#","expires_at_ms":{at_ms}"#));
    }
}

fn write_element(element: &Element<'_>, out: &mut Vec<u8>) {
    match &element.place {
        Some(place) => write_place(place, out),
        None => out.extend_from_slice(br#","key":null"#),
    }
    write_type(element.value_type, out);
    write_object(element.object, out);
    match element.name {
        ElementName::Offset(offset) => put(out, format_args!(r#","offset":{offset}"#)),
        ElementName::Node(node) => put(out, format_args!(r#","node":"{node}""#)),
        ElementName::Field(field) => write_named("field", field, out),
        ElementName::Member(member) => write_named("member", member, out),
        ElementName::Stream(StreamElement::Node(id)) => put(out, format_args!(r#","node":"{id}""#)),
        ElementName::Stream(StreamElement::Group(group)) => {
            put(out, format_args!(r#","group":{group}"#));
        }
        ElementName::Stream(StreamElement::Consumer(group, consumer)) => {
            put(out, format_args!(r#","group":{group},"consumer":{consumer}"#));
        }
        ElementName::Stream(StreamElement::Pending(group, id)) => {
            put(out, format_args!(r#","group":{group},"pending":"{id}""#));
        }
        ElementName::Stream(StreamElement::Message(id)) => {
            put(out, format_args!(r#","message_of":"{id}""#));
        }
        ElementName::Stream(StreamElement::Limits) => {
            out.extend_from_slice(br#","messages":"kept""#);
        }
        ElementName::Unknown(name) => write_named("name", name, out),
    }
}

fn write_moved(moved: &[Moved], out: &mut Vec<u8>) {
    out.extend_from_slice(br#","moved":["#);
    for (at, Moved { index, id, was }) in moved.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        put(out, format_args!(r#"{comma}{{"db":{index},"db_id":{},"was":"#, id.0));
        match was {
            Some(was) => put(out, format_args!("{was}}}")),
            None => out.extend_from_slice(b"null}"),
        }
    }
    out.push(b']');
}

/// What a record has besides the names of its entry.
fn write_value(record: &Record<'_>, out: &mut Vec<u8>) {
    match record.kind {
        RecordKind::SetMember => {}
        RecordKind::ZSetMember => {
            out.extend_from_slice(br#","score":"#);
            write_score(record.value, out);
        }
        RecordKind::ListPacked | RecordKind::ListNode => write_list("items", record, false, out),
        RecordKind::SetPacked => write_list("members", record, false, out),
        RecordKind::HashPacked => write_list("fields", record, true, out),
        RecordKind::HashPackedExpiring => write_expiring_fields(record, out),
        RecordKind::HashField => {
            write_expiry(record.expires_at_ms, out);
            write_named("value", record.value, out);
        }
        RecordKind::ZSetPacked => write_list("members", record, true, out),
        RecordKind::StreamNode
        | RecordKind::StreamGroup
        | RecordKind::StreamConsumer
        | RecordKind::StreamPending
        | RecordKind::StreamProducer => write_stream_record(record, out),
        _ => write_named("value", record.value, out),
    }
}

/// What the record of an element of a stream says.
fn write_stream_record(record: &Record<'_>, out: &mut Vec<u8>) {
    let Some(read) = StreamRecord::read(record.sub, record.value) else { return };
    match read {
        StreamRecord::Node { entries_added, entries, .. } => {
            put(out, format_args!(r#","entries_added":"{entries_added}","entries":["#));
            for (at, entry) in entries.enumerate() {
                let comma = if at > 0 { "," } else { "" };
                put(out, format_args!(r#"{comma}{{"id":"{}","fields":["#, entry.id));
                for (at, (name, value)) in entry.pairs().enumerate() {
                    out.extend_from_slice(if at > 0 { b",[" } else { b"[" });
                    write_bytes(name, out);
                    out.push(b',');
                    write_bytes(value, out);
                    out.push(b']');
                }
                out.extend_from_slice(b"]}");
            }
            out.push(b']');
        }
        StreamRecord::Group { name, last_id, entries_read, .. } => {
            write_named("name", name, out);
            put(out, format_args!(r#","last_id":"{last_id}","entries_read":"#));
            match entries_read {
                Some(count) => put(out, format_args!(r#""{count}""#)),
                None => out.extend_from_slice(b"null"),
            }
        }
        StreamRecord::Consumer { name, seen_ms, active_ms, .. } => {
            write_named("name", name, out);
            put(out, format_args!(r#","seen_ms":{seen_ms},"active_ms":"#));
            match active_ms {
                Some(ms) => put(out, format_args!("{ms}")),
                None => out.extend_from_slice(b"null"),
            }
        }
        StreamRecord::Pending { consumer, at_ms, count, .. } => {
            match consumer {
                Some(consumer) => put(out, format_args!(r#","consumer":{consumer}"#)),
                None => out.extend_from_slice(br#","consumer":null"#),
            }
            put(out, format_args!(r#","delivered_ms":{at_ms}"#));
            put(out, format_args!(r#","deliveries":"{count}""#));
        }
        StreamRecord::Message { producer, message, at_ms, .. } => {
            write_named("producer", producer, out);
            write_named("message", message, out);
            put(out, format_args!(r#","added_ms":{at_ms}"#));
        }
        StreamRecord::Limits(MessageLimits { duration_s, messages_max }) => {
            put(out, format_args!(r#","duration_s":{duration_s},"messages_max":{messages_max}"#));
        }
    }
}

/// The elements of a small collection or of a node; each two of them as a pair if they are.
fn write_list(name: &str, record: &Record<'_>, are_pairs: bool, out: &mut Vec<u8>) {
    put(out, format_args!(r#","{name}":["#));
    let mut elements = plain::elements(record).into_iter().flatten();
    let mut is_first = true;
    while let Some(element) = elements.next() {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        if !are_pairs {
            write_bytes(element, out);
            continue;
        }
        let value = elements.next().unwrap_or_default();
        out.push(b'[');
        write_bytes(element, out);
        out.push(b',');
        match record.kind {
            RecordKind::ZSetPacked => write_score(value, out),
            _ => write_bytes(value, out),
        }
        out.push(b']');
    }
    out.push(b']');
}

/// The fields of a small hash of which some expire: each with its value, and when it expires if it does.
fn write_expiring_fields(record: &Record<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","fields":["#);
    let mut elements = plain::elements(record).into_iter().flatten();
    let mut is_first = true;
    while let (Some(name), Some(value), Some(expiry)) =
        (elements.next(), elements.next(), elements.next())
    {
        out.extend_from_slice(if std::mem::take(&mut is_first) { b"[" } else { b",[" });
        write_bytes(name, out);
        out.push(b',');
        write_bytes(value, out);
        if let Some(at_ms) = plain::expiry(expiry) {
            put(out, format_args!(",{at_ms}"));
        }
        out.push(b']');
    }
    out.push(b']');
}

/// A score as a string of digits that reads as the same double, or `inf` and `-inf`.
fn write_score(value: &[u8], out: &mut Vec<u8>) {
    let score = value.try_into().map_or(f64::NAN, f64::from_le_bytes);
    put(out, format_args!(r#""{score:?}""#));
}

fn write_named(name: &str, bytes: &[u8], out: &mut Vec<u8>) {
    put(out, format_args!(r#","{name}":"#));
    write_bytes(bytes, out);
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| *byte >= 0x20 && *byte != 0x7f;
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(is_plain) => {
            out.push(b'"');
            for &byte in text.as_bytes() {
                if matches!(byte, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(byte);
            }
            out.push(b'"');
        }
        _ => {
            out.extend_from_slice(br#"{"base64":""#);
            write_base64(bytes, out);
            out.extend_from_slice(br#""}"#);
        }
    }
}

/// RFC 4648, with padding.
fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(word);
        for place in 0..4 {
            let digit = (word >> (18 - 6 * place)) & 63;
            out.push(if place > group.len() { b'=' } else { DIGITS[digit as usize] });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        write_bytes(bytes, &mut out);
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn bytes_are_text_or_base64() {
        assert_eq!(bytes("grün \"1\" \\".as_bytes()), r#""grün \"1\" \\""#);
        assert_eq!(bytes(b""), r#""""#);
        for (raw, text) in [
            (&b"\0"[..], "AA=="),
            (b"\n1", "CjE="),
            (b"\xff\xfe\xfd", "//79"),
            (b"\xffabcdef", "/2FiY2RlZg=="),
        ] {
            assert_eq!(bytes(raw), format!(r#"{{"base64":"{text}"}}"#));
        }
    }

    #[test]
    fn a_configuration_is_for_a_restore_alone() {
        let text = "requirepass x\nuser alice on #81b637\n".to_owned();
        let note = Note { time_ms: 7, event: NoteEvent::BackupConfiguration { id: 3, text } };
        let mut out = Vec::new();
        write_note(&note.encode(), &mut out);
        let told = String::from_utf8(out).expect("JSON is text");
        assert_eq!(told, r#","at_ms":7,"event":"backup-configuration","id":3"#);
    }

    #[test]
    fn scores_read_as_they_were() {
        let score = |score: f64| {
            let mut out = Vec::new();
            write_score(&score.to_le_bytes(), &mut out);
            String::from_utf8(out).expect("JSON is text")
        };
        let scores = [1.0, -0.0, 0.1, 1e300, f64::INFINITY, f64::NEG_INFINITY].map(score);
        assert_eq!(
            scores,
            ["1.0", "-0.0", "0.1", "1e300", "inf", "-inf"].map(|text| format!("\"{text}\""))
        );
    }
}

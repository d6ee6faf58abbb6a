//! Encodes payloads.

use crate::Value;
use crate::form::number;
use crate::strings::{put_length, put_string, seal};
use crate::writer::encode_stream;

/// Returns the payload of a value.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::String(bytes) => {
            out.push(number::STRING);
            put_string(&mut out, bytes);
        }
        Value::List(elements) => put_strings(&mut out, number::LIST, elements),
        Value::Set(members) => put_strings(&mut out, number::SET, members),
        Value::ZSet(members) => {
            out.push(number::ZSET_2);
            put_count(&mut out, members.len());
            for (member, score) in members {
                put_string(&mut out, member);
                out.extend_from_slice(&score.to_le_bytes());
            }
        }
        Value::Stream(stream) => out = encode_stream(stream),
        Value::Hash(fields) => {
            out.push(number::HASH);
            put_count(&mut out, fields.len());
            for (field, value) in fields {
                put_string(&mut out, field);
                put_string(&mut out, value);
            }
        }
    }
    seal(out)
}

fn put_strings(out: &mut Vec<u8>, form: u8, strings: &[Vec<u8>]) {
    out.push(form);
    put_count(out, strings.len());
    for string in strings {
        put_string(out, string);
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    put_length(out, count as u64);
}

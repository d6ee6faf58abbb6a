//! Encodes payloads.

use crate::crc64::crc64;
use crate::{VERSION, Value, form, length};

/// Returns the payload of a value.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::String(bytes) => {
            out.push(form::STRING);
            put_string(&mut out, bytes);
        }
        Value::List(elements) => put_strings(&mut out, form::LIST, elements),
        Value::Set(members) => put_strings(&mut out, form::SET, members),
        Value::ZSet(members) => {
            out.push(form::ZSET_2);
            put_length(&mut out, members.len());
            for (member, score) in members {
                put_string(&mut out, member);
                out.extend_from_slice(&score.to_le_bytes());
            }
        }
        Value::Hash(fields) => {
            out.push(form::HASH);
            put_length(&mut out, fields.len());
            for (field, value) in fields {
                put_string(&mut out, field);
                put_string(&mut out, value);
            }
        }
    }
    seal(out)
}

/// Completes an encoded type and value to a payload by adding version and checksum.
#[must_use]
pub fn seal(mut out: Vec<u8>) -> Vec<u8> {
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

fn put_strings(out: &mut Vec<u8>, form: u8, strings: &[Vec<u8>]) {
    out.push(form);
    put_length(out, strings.len());
    for string in strings {
        put_string(out, string);
    }
}

fn put_length(out: &mut Vec<u8>, value: usize) {
    match (u8::try_from(value), u16::try_from(value), u32::try_from(value)) {
        (Ok(small), ..) if small < 1 << 6 => out.push(small),
        (_, Ok(medium), _) if medium < 1 << 14 => {
            out.extend_from_slice(&(medium | 1 << 14).to_be_bytes());
        }
        (.., Ok(large)) => {
            out.push(length::BITS_32);
            out.extend_from_slice(&large.to_be_bytes());
        }
        _ => {
            out.push(length::BITS_64);
            out.extend_from_slice(&(value as u64).to_be_bytes());
        }
    }
}

/// Appends a string, as an integer if it is the decimal form of a small one.
fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let number: Option<i32> = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    match number {
        Some(number) if itoa::Buffer::new().format(number).as_bytes() == bytes => {
            if let Ok(number) = i8::try_from(number) {
                out.push(length::INT8);
                out.extend_from_slice(&number.to_le_bytes());
            } else if let Ok(number) = i16::try_from(number) {
                out.push(length::INT16);
                out.extend_from_slice(&number.to_le_bytes());
            } else {
                out.push(length::INT32);
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        _ => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}

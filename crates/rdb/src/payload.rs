//! Encodes payloads.

use crate::form::number;
use crate::strings::{field_time, put_length, put_string, seal, seal_as};
use crate::version::Version;
use crate::writer::encode_stream;
use crate::{VERSION, Value};

/// The version of payloads that have fields of hashes that expire: Redis 7.4's.
const WITH_EXPIRING_FIELDS: u16 = 12;

/// The version of payloads of streams that say when consumers last got something: Redis 7.2's.
const WITH_ACTIVE_TIMES: u16 = 11;

/// Returns the payload of a value, as readers of [`VERSION`] and of later versions read it.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    encode_for(value, Version::Redis(VERSION))
}

/// Returns the payload of a value, for readers of this version and of later ones. From Redis' 11 on a stream says when
/// each consumer last got something; whatever the version, one that older readers can read has their label.
#[must_use]
pub fn encode_for(value: &Value, readers: Version) -> Vec<u8> {
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
        Value::Stream(stream) => {
            let version = match readers {
                Version::Redis(..WITH_ACTIVE_TIMES) => VERSION,
                Version::Redis(_) | Version::Valkey(_) => WITH_ACTIVE_TIMES,
            };
            return seal_as(encode_stream(stream, version), version);
        }
        Value::Hash(fields) if fields.iter().any(|field| field.2.is_some()) => {
            return seal_as(encode_hash_with_times(fields), WITH_EXPIRING_FIELDS);
        }
        Value::Hash(fields) => {
            out.push(number::HASH);
            put_count(&mut out, fields.len());
            for (field, value, _) in fields {
                put_string(&mut out, field);
                put_string(&mut out, value);
            }
        }
    }
    seal(out)
}

/// A hash with times of expiry, counted from the first.
fn encode_hash_with_times(fields: &[(Vec<u8>, Vec<u8>, Option<i64>)]) -> Vec<u8> {
    let mut out = vec![number::HASH_TIMED];
    let first_ms = fields.iter().filter_map(|field| field.2).map(field_time).min().unwrap_or(0);
    out.extend_from_slice(&first_ms.to_le_bytes());
    put_count(&mut out, fields.len());
    for (field, value, expires_at_ms) in fields {
        let after_first = |at_ms| field_time(at_ms).abs_diff(first_ms) + 1;
        put_length(&mut out, expires_at_ms.map_or(0, after_first));
        put_string(&mut out, field);
        put_string(&mut out, value);
    }
    out
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

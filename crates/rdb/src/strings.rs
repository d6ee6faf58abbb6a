//! Encodes strings and lengths, and ends payloads.

use crate::VERSION;
use crate::crc64::crc64;
use crate::input::length;

/// The last time, in Unix milliseconds, at which Redis lets a field of a hash expire: it refuses a whole dump for a
/// later one. It is in the year 10889.
pub(crate) const FIELD_TIME_MS_MAX: i64 = (1 << 48) - 1;

/// When a field expires, as it is written: none expires before 1970, or later than servers read.
pub(crate) fn field_time(at_ms: i64) -> i64 {
    at_ms.clamp(0, FIELD_TIME_MS_MAX)
}

/// Completes an encoded type and value to a payload by adding version and checksum.
#[must_use]
pub fn seal(out: Vec<u8>) -> Vec<u8> {
    seal_as(out, VERSION)
}

/// As [`seal`], of this version.
pub(crate) fn seal_as(mut out: Vec<u8>, version: u16) -> Vec<u8> {
    out.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Returns how many bytes a length takes in a dump.
#[must_use]
pub fn length_bytes(value: u64) -> u64 {
    let mut bytes = Vec::with_capacity(9);
    put_length(&mut bytes, value);
    bytes.len() as u64
}

/// Appends a length, in as few bytes as it takes.
pub(crate) fn put_length(out: &mut Vec<u8>, value: u64) {
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
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// Appends a string, as an integer if it is the decimal form of a small one.
pub(crate) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    if !put_as_integer(out, bytes) {
        put_length(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

/// Appends a string that is the decimal form of an integer of 32 bits; whether it is.
pub(crate) fn put_as_integer(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    /// A sign and ten digits.
    const DIGITS_MAX: usize = 11;
    if bytes.len() > DIGITS_MAX {
        return false;
    }
    let text = std::str::from_utf8(bytes).ok();
    let Some(number) = text.and_then(|text| text.parse::<i32>().ok()) else { return false };
    if itoa::Buffer::new().format(number).as_bytes() != bytes {
        return false;
    }
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
    true
}

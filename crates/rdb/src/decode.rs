//! Decodes payloads.

use std::collections::HashSet;

use crate::crc64::crc64;
use crate::{VERSION, Value, form, length, listpack, lzf};

/// Bytes of version and checksum at the end.
const FOOTER_BYTES: usize = 10;

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPayload {
    /// The version is newer, the checksum is wrong, or it is not a payload.
    #[error("DUMP payload version or checksum are wrong")]
    Footer,
    /// The checksum is right, but the content is invalid.
    #[error("Bad data format")]
    Content,
}

/// Decodes the value of a payload.
///
/// # Errors
/// If this version cannot read it.
pub fn decode(payload: &[u8]) -> Result<Value, BadPayload> {
    let body_bytes = payload.len().checked_sub(FOOTER_BYTES).ok_or(BadPayload::Footer)?;
    let (body, footer) = payload.split_at(body_bytes);
    let (summed, sum) = payload.split_at(body_bytes + 2);
    let is_known = matches!(*footer, [low, high, ..] if u16::from_le_bytes([low, high]) <= VERSION);
    if !is_known || sum != crc64(summed).to_le_bytes() {
        return Err(BadPayload::Footer);
    }
    let mut reader = Reader(body);
    let value = reader.value().ok_or(BadPayload::Content)?;
    if reader.0.is_empty() { Ok(value) } else { Err(BadPayload::Content) }
}

/// The bytes left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn value(&mut self) -> Option<Value> {
        let value = match self.byte()? {
            form::STRING => return self.string().map(Value::String),
            form::LIST => Value::List(self.strings()?),
            form::SET => Value::Set(self.strings()?),
            form::ZSET_2 => Value::ZSet(self.scored_members()?),
            form::HASH => {
                let count = self.length()?;
                let mut fields = Vec::new();
                for _ in 0..count {
                    fields.push((self.string()?, self.string()?));
                }
                Value::Hash(fields)
            }
            form::SET_INTSET => Value::Set(listpack::intset_members(&self.string()?)?),
            form::HASH_LISTPACK => Value::Hash(pairs(listpack::elements(&self.string()?)?)?),
            form::ZSET_LISTPACK => {
                let pairs = pairs(listpack::elements(&self.string()?)?)?;
                let scored = pairs.into_iter().map(|(member, score)| {
                    let score: f64 = std::str::from_utf8(&score).ok()?.parse().ok()?;
                    (!score.is_nan()).then_some((member, score))
                });
                Value::ZSet(scored.collect::<Option<_>>()?)
            }
            form::LIST_QUICKLIST_2 => Value::List(self.quicklist()?),
            _ => return None,
        };
        // A collection is never empty, and never has a member twice.
        let is_good = match &value {
            Value::String(_) => true,
            Value::List(items) => !items.is_empty(),
            Value::Set(members) => are_distinct(members.iter().map(Vec::as_slice)),
            Value::ZSet(members) => are_distinct(members.iter().map(|(name, _)| name.as_slice())),
            Value::Hash(fields) => are_distinct(fields.iter().map(|(name, _)| name.as_slice())),
        };
        is_good.then_some(value)
    }

    fn strings(&mut self) -> Option<Vec<Vec<u8>>> {
        let count = self.length()?;
        let mut strings = Vec::new();
        for _ in 0..count {
            strings.push(self.string()?);
        }
        Some(strings)
    }

    fn scored_members(&mut self) -> Option<Vec<(Vec<u8>, f64)>> {
        let count = self.length()?;
        let mut members = Vec::new();
        for _ in 0..count {
            let member = self.string()?;
            let score = f64::from_le_bytes(self.array()?);
            if score.is_nan() {
                return None;
            }
            members.push((member, score));
        }
        Some(members)
    }

    fn quicklist(&mut self) -> Option<Vec<Vec<u8>>> {
        const PLAIN: u64 = 1;
        const PACKED: u64 = 2;
        let count = self.length()?;
        let mut elements = Vec::new();
        for _ in 0..count {
            match self.length()? {
                PLAIN => elements.push(self.string()?),
                PACKED => elements.append(&mut listpack::elements(&self.string()?)?),
                _ => return None,
            }
        }
        Some(elements)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn bytes(&mut self, count: u64) -> Option<&[u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn length(&mut self) -> Option<u64> {
        let first = self.byte()?;
        self.length_after(first)
    }

    fn length_after(&mut self, first: u8) -> Option<u64> {
        match first {
            0x00..=0x3f => Some(first.into()),
            0x40..=0x7f => Some(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            length::BITS_32 => Some(u32::from_be_bytes(self.array()?).into()),
            length::BITS_64 => Some(u64::from_be_bytes(self.array()?)),
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        let number = match self.byte()? {
            length::INT8 => i8::from_le_bytes(self.array()?).into(),
            length::INT16 => i16::from_le_bytes(self.array()?).into(),
            length::INT32 => i32::from_le_bytes(self.array()?),
            length::LZF => {
                let (packed, length) = (self.length()?, self.length()?);
                return lzf::decompress(self.bytes(packed)?, usize::try_from(length).ok()?);
            }
            first => {
                let length = self.length_after(first)?;
                return Some(self.bytes(length)?.to_vec());
            }
        };
        Some(itoa::Buffer::new().format(number).as_bytes().to_vec())
    }
}

/// Whether there are members, all of them distinct.
fn are_distinct<'a>(members: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
    let count = members.len();
    count > 0 && members.collect::<HashSet<_>>().len() == count
}

/// Pairs every other element with its successor.
fn pairs(elements: Vec<Vec<u8>>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut pairs = Vec::new();
    let mut elements = elements.into_iter();
    while let Some(first) = elements.next() {
        pairs.push((first, elements.next()?));
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    fn strings(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    /// Payloads dumped by a Redis 7.0 server.
    #[test]
    fn what_redis_dumps_is_read() {
        let hundred = "x".repeat(100);
        let list = ["a", "1", "-2", "300", "70000", "5000000000", "-9000000", &hundred];
        let pair = |field: &str, value: &str| (field.into(), value.into());
        for (hex, value) in [
            (
                "000b31323334353637383930310a00304e52d727176510",
                Value::String(b"12345678901".to_vec()),
            ),
            ("00c00c0a003c2af8515c04bcd5", Value::String(b"12".to_vec())),
            (
                "00c30b40b40361626361e0a5020162630a002b5b6bac6c26c36d",
                Value::String(b"abc".repeat(60)),
            ),
            (
                "120102c330408e1b8e00000008008161020101dffe02c12c02f270110104f400f2052a01201a0909f3\
                 c0ab76ff05e06478e05a000166ff0a0001f0f27679d5b0be",
                Value::List(strings(&list)),
            ),
            (
                "0b0e0200000003000000feff01002c010a005b0aa862f794600a",
                Value::Set(strings(&["-2", "1", "300"])),
            ),
            ("0202016101620a00fe642125eb033d0d", Value::Set(strings(&["a", "b"]))),
            (
                "111d1d0000000600816202842d696e660581610283312e35048163020301ff0a002970c58fcde6fc31",
                Value::ZSet(vec![
                    (b"b".to_vec(), f64::NEG_INFINITY),
                    (b"a".to_vec(), 1.5),
                    (b"c".to_vec(), 3.0),
                ]),
            ),
            (
                "1019190000000600816602817602816e02cfff02816d02d00002ff0a00d4aa4aa311894156",
                Value::Hash(vec![pair("f", "v"), pair("n", "4095"), pair("m", "-4096")]),
            ),
        ] {
            let compared = match decode(&payload(hex)) {
                // A set has no order.
                Ok(Value::Set(mut members)) => {
                    members.sort();
                    Ok(Value::Set(members))
                }
                decoded => decoded,
            };
            assert_eq!(compared, Ok(value));
        }
    }

    #[test]
    fn a_sum_of_zeros_is_no_sum() {
        let mut payload = crate::encode(&Value::String(b"x".to_vec()));
        let sum_at = payload.len() - 8;
        payload[sum_at..].fill(0);
        assert_eq!(decode(&payload), Err(BadPayload::Footer));
    }

    #[test]
    fn a_member_that_is_there_twice_is_damage() {
        let set = [&[form::SET_INTSET, 14, 2, 0, 0, 0, 3, 0, 0, 0][..], &[1, 0, 1, 0, 2, 0]];
        let bodies: [&[u8]; 5] = [
            b"\x02\x02\x01a\x01a",
            b"\x04\x02\x01a\x01b\x01a\x01c",
            b"\x05\x02\x01a\0\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\0",
            b"\x10\x13\x13\0\0\0\x04\0\x81a\x02\x81b\x02\x81a\x02\x81c\x02\xff",
            &set.concat(),
        ];
        for body in bodies {
            assert_eq!(decode(&crate::seal(body.to_vec())), Err(BadPayload::Content), "{body:?}");
        }
    }

    #[test]
    fn a_newer_version_is_refused() {
        let mut payload = crate::encode(&Value::String(b"x".to_vec()));
        let version_at = payload.len() - FOOTER_BYTES;
        payload[version_at] = 11;
        assert_eq!(decode(&payload), Err(BadPayload::Footer));
        assert_eq!(decode(b""), Err(BadPayload::Footer));
    }
}

//! Decodes payloads.

use std::collections::HashSet;

use crate::crc64::crc64;
use crate::event::Kind;
use crate::form::{self, Numbered, number};
use crate::input::Input;
use crate::stream::{GroupBuilder, StreamEntry, StreamValue};
use crate::value::{Begun, Element, ValueReader};
use crate::version::Version;
use crate::{Limits, Value};

/// Bytes of version and checksum at the end.
const FOOTER_BYTES: usize = 10;

/// What an element of a [`Value`] takes in memory besides its bytes: the vector, and the allocator's rounding.
const ELEMENT_BYTES: u64 = 40;

/// So many bytes of memory are justified by each byte of a payload: elements of one byte that are not compressed take this.
const BYTES_PER_BYTE: u64 = 24;

/// From so many members on it is looked whether one is there twice before all have come.
const CHECKED_FROM: usize = 1024;

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPayload {
    /// The version is not one that is read, the checksum is wrong, or it is not a payload.
    #[error("DUMP payload version or checksum are wrong")]
    Footer,
    /// The checksum is right, but the content is invalid or of a kind that a [`Value`] cannot be.
    #[error("Bad data format")]
    Content,
}

/// Decodes the value of a payload, of Redis up to 8.10 or Valkey up to 9.0.
///
/// # Errors
/// If this version cannot read it: it is damaged, is a collection without elements, a stream of Redis 8.6 on, a module's value or an array, or has
/// metadata of a module; it has a string that is longer than the limit, or takes more memory
/// than that, and than a payload of this length justifies. The texts are Redis'.
pub fn decode(payload: &[u8], limits: Limits) -> Result<Value, BadPayload> {
    let (body, version) = unseal(payload)?;
    let value = read(body, version, limits).ok_or(BadPayload::Content)?;
    if is_good(&value) { Ok(value) } else { Err(BadPayload::Content) }
}

/// Whether a payload, if it is one, has a stream.
#[must_use]
pub fn is_of_stream(payload: &[u8]) -> bool {
    matches!(payload.first(), Some(&(number::STREAM | number::STREAM_2 | number::STREAM_3)))
}

/// Whether a payload, if it is one, has a hash of a form whose fields may expire.
#[must_use]
pub fn is_of_expiring_fields(payload: &[u8]) -> bool {
    matches!(payload.first(), Some(22..=25))
}

/// Returns what a payload has in front of its footer, whose checksum is right, and its version.
pub(crate) fn unseal(payload: &[u8]) -> Result<(&[u8], Version), BadPayload> {
    let body_bytes = payload.len().checked_sub(FOOTER_BYTES).ok_or(BadPayload::Footer)?;
    let (body, footer) = payload.split_at(body_bytes);
    let (summed, sum) = payload.split_at(body_bytes + 2);
    let version = match *footer {
        [low, high, ..] => Version::of_payload(u16::from_le_bytes([low, high])),
        _ => None,
    };
    let version = version.ok_or(BadPayload::Footer)?;
    if sum == crc64(summed).to_le_bytes() { Ok((body, version)) } else { Err(BadPayload::Footer) }
}

/// Decodes a string as it stands in a dump, and nothing behind it; `None` if it is damaged, or longer than the limit.
#[must_use]
pub fn decode_string(bytes: &[u8], limits: Limits) -> Option<Vec<u8>> {
    let mut input = Input::of_payload(bytes, limits);
    let text = input.string().ok()?;
    let string = input.bytes(text).to_vec();
    input.is_at_end().ok()?.then_some(string)
}

/// Reads a value and nothing behind it.
fn read(body: &[u8], version: Version, limits: Limits) -> Option<Value> {
    let mut input = Input::of_payload(body, limits);
    let Some(Numbered::Value(form)) = form::of(input.byte().ok()?, version) else { return None };
    let mut values = ValueReader::default();
    if values.begin(&mut input, form).ok()? == Begun::Empty {
        return None;
    }
    let mut value = match form.kind() {
        Kind::String => Value::String(Vec::new()),
        Kind::List => Value::List(Vec::new()),
        Kind::Set => Value::Set(Vec::new()),
        Kind::ZSet => Value::ZSet(Vec::new()),
        Kind::Hash => Value::Hash(Vec::new()),
        Kind::Stream => Value::Stream(StreamValue::default()),
    };
    let mut groups = GroupBuilder::default();
    let taken_max = limits.string_bytes_max.max((body.len() as u64).saturating_mul(BYTES_PER_BYTE));
    let mut taken = 0;
    while let Some(element) = values.next(&mut input).ok()? {
        let first = values.first(&input);
        // Few bytes may say the same item millions of times.
        taken += first.len() as u64 + ELEMENT_BYTES;
        if element == Element::Pair {
            taken += values.second(&input).len() as u64 + ELEMENT_BYTES;
        }
        if taken > taken_max && element != Element::String {
            return None;
        }
        if let Value::Stream(stream) = &mut value {
            let second = values.second(&input);
            take_of_stream(stream, &mut groups, element, first, second)?;
            continue;
        }
        let first = first.to_vec();
        match (&mut value, element) {
            (Value::String(bytes), Element::String) => *bytes = first,
            (Value::List(items), Element::Item) => items.push(first),
            (Value::Set(members), Element::Member) => members.push(first),
            (Value::ZSet(members), Element::Scored(score)) => members.push((first, score)),
            (Value::Hash(fields), Element::Field(expires_at_ms))
                if expires_at_ms.is_none_or(|at_ms| at_ms >= 0) =>
            {
                fields.push((first, values.second(&input).to_vec(), expires_at_ms));
            }
            _ => return None,
        }
        // Few bytes may say the same member millions of times.
        let count = value.len();
        if count >= CHECKED_FROM && count.is_power_of_two() && !is_good(&value) {
            return None;
        }
    }
    if let Value::Stream(stream) = &mut value {
        stream.groups.extend(groups.finish().ok()?);
    }
    input.is_at_end().ok()?.then_some(value)
}

/// Takes an element of a stream, with its texts.
fn take_of_stream(
    stream: &mut StreamValue,
    groups: &mut GroupBuilder,
    element: Element,
    first: &[u8],
    second: &[u8],
) -> Option<()> {
    match element {
        Element::Entry(id) => stream.entries.push(StreamEntry { id, pairs: Vec::new() }),
        Element::Pair => {
            stream.entries.last_mut()?.pairs.push((first.to_vec(), second.to_vec()));
        }
        Element::Numbers(numbers) => stream.numbers = numbers,
        Element::Group(last_id, entries_read) => {
            stream.groups.extend(groups.group(first, last_id, entries_read).ok()?);
        }
        Element::Pending(pending) => groups.pending(pending),
        Element::Consumer(seen_ms, active_ms) => groups.consumer(first, seen_ms, active_ms),
        Element::Held(id) => groups.held(id).ok()?,
        _ => return None,
    }
    Some(())
}

/// A collection never has a member twice.
fn is_good(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::List(_) => true,
        Value::Set(members) => are_distinct(members.iter().map(Vec::as_slice)),
        Value::ZSet(members) => are_distinct(members.iter().map(|(name, _)| name.as_slice())),
        Value::Hash(fields) => are_distinct(fields.iter().map(|(name, ..)| name.as_slice())),
        // Ids were seen to rise, and consumers to be distinct.
        Value::Stream(stream) => are_distinct(stream.groups.iter().map(|it| it.name.as_slice())),
    }
}

fn are_distinct<'a>(members: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
    let count = members.len();
    members.collect::<HashSet<_>>().len() == count
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { string_bytes_max: 1 << 30 };

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
        let pair = |field: &str, value: &str| (field.into(), value.into(), None);
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
            let compared = match decode(&payload(hex), LIMITS) {
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
        assert_eq!(decode(&payload, LIMITS), Err(BadPayload::Footer));
    }

    #[test]
    fn a_member_that_is_there_twice_is_damage() {
        let set = [&[11, 14, 2, 0, 0, 0, 3, 0, 0, 0][..], &[1, 0, 1, 0, 2, 0]];
        let bodies: [&[u8]; 5] = [
            b"\x02\x02\x01a\x01a",
            b"\x04\x02\x01a\x01b\x01a\x01c",
            b"\x05\x02\x01a\0\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\0",
            b"\x10\x13\x13\0\0\0\x04\0\x81a\x02\x81b\x02\x81a\x02\x81c\x02\xff",
            &set.concat(),
        ];
        for body in bodies {
            assert_eq!(
                decode(&crate::seal(body.to_vec()), LIMITS),
                Err(BadPayload::Content),
                "{body:?}"
            );
        }
    }

    #[test]
    fn a_newer_version_is_refused() {
        for (version, is_read) in
            [(0, true), (15, true), (16, false), (79, false), (80, true), (81, false)]
        {
            let payload = of_version(version, b"\0\x01x");
            assert_eq!(decode(&payload, LIMITS).is_ok(), is_read, "{version}");
        }
        assert_eq!(decode(b"", LIMITS), Err(BadPayload::Footer));
    }

    /// A payload of this version with the right checksum.
    fn of_version(version: u16, body: &[u8]) -> Vec<u8> {
        let mut payload = [body, &version.to_le_bytes()].concat();
        let sum = crc64(&payload);
        payload.extend_from_slice(&sum.to_le_bytes());
        payload
    }

    #[test]
    fn forms_of_every_server_are_read() {
        let pair = |field: &str, value: &str| (field.into(), value.into(), None);
        let field = || Value::Hash(vec![pair("f", "1")]);
        let values = b"\x0b\x0b\0\0\0\x02\0\x07\x01\x01\x01\xff";
        let names = b"\x0a\x0a\0\0\0\x01\0\x81f\x02\xff";
        for (version, body, value) in [
            (6, &b"\x03\x01\x01a\x031.5"[..], Value::ZSet(vec![(b"a".to_vec(), 1.5)])),
            (2, b"\x09\x07\x01\x01f\x01\x001\xff", field()),
            (
                8,
                b"\x0e\x01\x0f\x0f\0\0\0\x0c\0\0\0\x02\0\0\xf2\x02\xf3\xff",
                Value::List(strings(&["1", "2"])),
            ),
            (9, b"\x0d\x10\x10\0\0\0\x0d\0\0\0\x02\0\0\x01f\x03\xf2\xff", field()),
            (11, b"\x14\x09\x09\0\0\0\x01\0\x05\x01\xff", Value::Set(strings(&["5"]))),
            (12, b"\x18\x01\0\0\0\0\0\0\0\x01\0\x01f\x011", field()),
            (80, b"\x16\x01\x01f\x011\xff\xff\xff\xff\xff\xff\xff\xff", field()),
            (15, &[b"\x1d\0", &names[..], values].concat(), field()),
            (15, b"\x1f\x01\x01\x01f\x011", field()),
        ] {
            let payload = of_version(version, body);
            assert_eq!(decode(&payload, LIMITS), Ok(value), "{version}: {}", body.escape_ascii());
        }
    }

    #[test]
    fn what_cannot_be_a_value_is_refused() {
        for (version, body) in [
            // A module's value, an array, a module's metadata.
            (9, &b"\x07\x01\0"[..]),
            (14, b"\x1c\0\0"),
            (13, b"\xf3\x01abcd\0\0\x01x"),
            // Fields that expire, each in the other's version.
            (12, b"\x16\x01\x01f\x011\xff\xff\xff\xff\xff\xff\xff\xff"),
            (80, b"\x18\x01\0\0\0\0\0\0\0\x01\0\x01f\x011"),
            // A template that stands in a file.
            (15, b"\x20\0\x011"),
            // Empty collections, half a pair, bytes behind the value.
            (10, b"\x01\0"),
            (10, b"\x12\0"),
            (10, b"\x12\x01\x02\x07\x07\0\0\0\0\0\xff"),
            (10, b"\x10\x07\x07\0\0\0\0\0\xff"),
            (10, b"\x10\x0a\x0a\0\0\0\x01\0\x81f\x02\xff"),
            (10, b"\0\x01xy"),
        ] {
            let payload = of_version(version, body);
            assert_eq!(
                decode(&payload, LIMITS),
                Err(BadPayload::Content),
                "{}",
                body.escape_ascii()
            );
        }
    }

    #[test]
    fn fields_that_expire_are_read_in_every_form_of_redis_and_valkey() {
        for (version, body) in [
            (12, &b"\x16\x01\x05\x01f\x011"[..]),
            (12, b"\x18\x01\0\0\0\0\0\0\0\x01\x05\x01f\x011"),
            (80, b"\x16\x01\x01f\x011\x05\0\0\0\0\0\0\0"),
        ] {
            let fields = vec![(b"f".to_vec(), b"1".to_vec(), Some(5))];
            let payload = of_version(version, body);
            let found = decode(&payload, LIMITS);
            assert_eq!(found, Ok(Value::Hash(fields)), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn few_bytes_that_say_much_are_refused() {
        // A listpack of one member, over and over, packed to a hundredth.
        let entries = 4_000_000_u32;
        let mut pack = (7 + 2 * entries).to_le_bytes().to_vec();
        pack.extend_from_slice(&[0xff, 0xff]);
        (0..entries).for_each(|_| pack.extend_from_slice(&[1, 1]));
        pack.push(0xff);
        let mut body = vec![20];
        crate::strings::put_length(&mut body, pack.len() as u64);
        body.extend_from_slice(&pack);
        let payload = of_version(11, &body);
        assert_eq!(decode(&payload, LIMITS), Err(BadPayload::Content));
        // The same of a list, where an item may be there as often as it likes: packed, and as it is.
        let list = |pack: &[u8]| of_version(10, &[&[18, 1, 2][..], pack].concat());
        let mut plain = Vec::new();
        crate::strings::put_length(&mut plain, pack.len() as u64);
        plain.extend_from_slice(&pack);
        let few = Limits { string_bytes_max: 10 << 20 };
        assert!(decode(&list(&plain), few).is_ok());
        let mut packed = Vec::new();
        let bytes =
            crate::lzf::compress_like_redis(&pack, pack.len() / 50).expect("it is all alike");
        packed.push(0xc3);
        crate::strings::put_length(&mut packed, bytes.len() as u64);
        crate::strings::put_length(&mut packed, pack.len() as u64);
        packed.extend_from_slice(&bytes);
        assert_eq!(decode(&list(&packed), few), Err(BadPayload::Content));
        // A string that is longer than any may be.
        let payload = crate::encode(&Value::String(b"0123456789".to_vec()));
        let limits = |string_bytes_max| Limits { string_bytes_max };
        assert!(decode(&payload, limits(10)).is_ok());
        assert_eq!(decode(&payload, limits(9)), Err(BadPayload::Content));
    }
}

//! Listpacks: strings and integers, from Redis 7.0 on; source: Redis' `listpack.c`.
//!
//! ```text
//!   total bytes u32 │ count u16 │ entry … entry │ 0xff
//!   entry: encoding and data │ how long that was, for reading backwards
//! ```
//!
//! A count of 65,535 means that it is not known.

use super::{Element, bytes_at, signed, u16_at, u32_at};
use crate::error::Damage;

/// Six bytes of header.
const HEADER_BYTES: usize = 6;
const COUNT_AT: usize = 4;
const COUNT_UNKNOWN: usize = 0xffff;
const END: u8 = 0xff;

const BAD: Damage = Damage("a listpack has an entry that is none");

/// See [`super::Walk`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Walk {
    at: usize,
    seen: usize,
}

impl Walk {
    pub(super) fn begin(blob: &[u8]) -> Result<Self, Damage> {
        if u32_at(blob, 0) != Some(blob.len()) {
            return Err(Damage("a listpack does not have the length that it says"));
        }
        Ok(Self { at: HEADER_BYTES, seen: 0 })
    }

    pub(super) fn next(&mut self, blob: &[u8]) -> Result<Option<Element>, Damage> {
        let entry = blob.get(self.at..).unwrap_or_default();
        if *entry.first().ok_or(BAD)? == END {
            let count = u16_at(blob, COUNT_AT);
            if entry.len() > 1 {
                return Err(Damage("a listpack goes on behind its end mark"));
            }
            if count != Some(COUNT_UNKNOWN) && count != Some(self.seen) {
                return Err(Damage("a listpack does not have as many entries as it says"));
            }
            return Ok(None);
        }
        let (element, end) = entry_at(blob, self.at).ok_or(BAD)?;
        self.at = behind_back_length(blob, end, end - self.at).ok_or(Damage(
            "an entry of a listpack does not have the length that stands behind it",
        ))?;
        self.seen += 1;
        Ok(Some(element))
    }
}

/// The entry at `at`, and where its back length begins.
fn entry_at(blob: &[u8], at: usize) -> Option<(Element, usize)> {
    let first = *blob.get(at)?;
    let int = |bytes: usize| {
        let data = blob.get(at + 1..=at + bytes)?;
        Some((Element::Number(signed(data)), at + 1 + bytes))
    };
    let string = |start: usize, bytes: usize| {
        bytes_at(blob, start, bytes).map(|element| (element, start + bytes))
    };
    let second = || blob.get(at + 1).map(|&byte| u16::from(byte));
    match first {
        0x00..=0x7f => Some((Element::Number(first.into()), at + 1)),
        0x80..=0xbf => string(at + 1, usize::from(first & 0x3f)),
        0xc0..=0xdf => {
            let value = i64::from(u16::from(first & 0x1f) << 8 | second()?);
            let value = if value >= 1 << 12 { value - (1 << 13) } else { value };
            Some((Element::Number(value), at + 2))
        }
        0xe0..=0xef => string(at + 2, usize::from(u16::from(first & 0x0f) << 8 | second()?)),
        0xf0 => string(at + 5, u32_at(blob, at + 1)?),
        0xf1 => int(2),
        0xf2 => int(3),
        0xf3 => int(4),
        0xf4 => int(8),
        _ => None,
    }
}

/// Where the back length at `at` ends, if it says `entry_bytes`: seven bits a byte, the highest first,
/// the eighth bit in all but the first.
fn behind_back_length(blob: &[u8], at: usize, entry_bytes: usize) -> Option<usize> {
    let bytes = back_length_bytes(entry_bytes);
    let back_length = blob.get(at..at + bytes)?;
    let value = back_length.iter().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    let marks_fit = back_length.iter().enumerate().all(|(at, byte)| (byte & 0x80 != 0) == (at > 0));
    (value == entry_bytes && marks_fit).then_some(at + bytes)
}

/// Begins a listpack, whose header is written by [`end`].
pub(crate) fn begin() -> Vec<u8> {
    vec![0; HEADER_BYTES]
}

/// Ends a listpack of so many elements.
///
/// # Panics
/// When it has more than 4 GiB, which none has.
pub(crate) fn end(pack: &mut Vec<u8>, count: u64) {
    pack.push(END);
    let bytes = u32::try_from(pack.len()).expect("no value has so many bytes");
    pack[..COUNT_AT].copy_from_slice(&bytes.to_le_bytes());
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    pack[COUNT_AT..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
}

/// Appends a string, as an integer if it is the decimal form of one.
pub(crate) fn put(pack: &mut Vec<u8>, bytes: &[u8]) {
    /// A sign and nineteen digits.
    const DIGITS_MAX: usize = 20;
    if bytes.len() <= DIGITS_MAX
        && let Some(number) = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok())
        && itoa::Buffer::new().format::<i64>(number).as_bytes() == bytes
    {
        return put_number(pack, number);
    }
    let at = pack.len();
    match (u8::try_from(bytes.len()), u16::try_from(bytes.len())) {
        (Ok(short), _) if short < 1 << 6 => pack.push(0x80 | short),
        (_, Ok(medium)) if medium < 1 << 12 => {
            pack.extend_from_slice(&(0xe000 | medium).to_be_bytes());
        }
        _ => {
            let long = u32::try_from(bytes.len()).expect("no string has so many bytes");
            pack.push(0xf0);
            pack.extend_from_slice(&long.to_le_bytes());
        }
    }
    pack.extend_from_slice(bytes);
    put_back_length(pack, at);
}

/// Appends an integer.
pub(crate) fn put_number(pack: &mut Vec<u8>, number: i64) {
    let (at, bytes) = (pack.len(), number.to_le_bytes());
    match number {
        0..=0x7f => pack.push(bytes[0]),
        -0x1000..=0xfff => pack.extend_from_slice(&[0xc0 | bytes[1] & 0x1f, bytes[0]]),
        -0x8000..=0x7fff => {
            pack.push(0xf1);
            pack.extend_from_slice(&bytes[..2]);
        }
        -0x80_0000..=0x7f_ffff => {
            pack.push(0xf2);
            pack.extend_from_slice(&bytes[..3]);
        }
        -0x8000_0000..=0x7fff_ffff => {
            pack.push(0xf3);
            pack.extend_from_slice(&bytes[..4]);
        }
        _ => {
            pack.push(0xf4);
            pack.extend_from_slice(&bytes);
        }
    }
    put_back_length(pack, at);
}

/// Appends how long the entry at `at` is: see [`behind_back_length`].
fn put_back_length(pack: &mut Vec<u8>, at: usize) {
    let entry_bytes = pack.len() - at;
    for index in (0..back_length_bytes(entry_bytes)).rev() {
        let mark = if index + 1 == back_length_bytes(entry_bytes) { 0 } else { 0x80 };
        pack.push(u8::try_from(entry_bytes >> (7 * index) & 0x7f).expect("seven bits") | mark);
    }
}

/// How many bytes the back length of an entry takes.
const fn back_length_bytes(entry_bytes: usize) -> usize {
    match entry_bytes {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Packing::Listpack;
    use super::super::tests::{elements, survive_damage};
    use super::*;

    /// A listpack of these entries, each without its back length.
    fn listpack(entries: &[&[u8]]) -> Vec<u8> {
        let mut body = Vec::new();
        for entry in entries {
            body.extend_from_slice(entry);
            let bytes = entry.len();
            if bytes > 127 {
                body.push(u8::try_from(bytes >> 7).unwrap());
                body.push(u8::try_from(bytes & 0x7f).unwrap() | 0x80);
            } else {
                body.push(u8::try_from(bytes).unwrap());
            }
        }
        let total = u32::try_from(body.len() + 7).unwrap();
        let count = u16::try_from(entries.len()).unwrap();
        [&total.to_le_bytes()[..], &count.to_le_bytes(), &body, &[END]].concat()
    }

    #[test]
    fn every_encoding_is_read() {
        let long = [&[0xe0, 200][..], &[b'x'; 200]].concat();
        let huge = [&[0xf0, 0x2c, 0x01, 0, 0][..], &[b'y'; 300]].concat();
        let pack = listpack(&[
            b"\x00",
            b"\x7f",
            b"\x80",
            b"\x83abc",
            b"\xc1\x2c",
            b"\xdf\xfe",
            b"\xd0\x00",
            &long,
            &huge,
            b"\xf1\x18\xfc",
            b"\xf2\x70\x11\x01",
            b"\xf3\xc0\xab\x76\xff",
            b"\xf4\x00\xf2\x05\x2a\x01\x00\x00\x00",
        ]);
        let expected: Vec<Vec<u8>> = [
            "0",
            "127",
            "",
            "abc",
            "300",
            "-2",
            "-4096",
            &"x".repeat(200),
            &"y".repeat(300),
            "-1000",
            "70000",
            "-9000000",
            "5000000000",
        ]
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .collect();
        assert_eq!(elements(Listpack, &pack), Ok(expected));
    }

    #[test]
    fn what_is_put_is_read() {
        let mut numbers = vec![i64::MIN, i64::MAX, 0];
        for bits in 0..63 {
            let power = 1_i64 << bits;
            numbers.extend([power - 1, power, -power, -power - 1]);
        }
        let mut texts: Vec<Vec<u8>> =
            numbers.iter().map(|number| number.to_string().into_bytes()).collect();
        let lengths =
            [0, 1, 62, 63, 64, 126, 4094, 4095, 4096, 16_377, 16_381, 2_097_145, 2_097_150];
        texts.extend(lengths.map(|length| vec![b'x'; length]));
        texts.extend([&b"-0"[..], b"007", b"+1", b"9223372036854775808"].map(<[u8]>::to_vec));
        let mut pack = begin();
        texts.iter().for_each(|text| put(&mut pack, text));
        numbers.iter().for_each(|number| put_number(&mut pack, *number));
        end(&mut pack, (texts.len() + numbers.len()) as u64);
        texts.extend_from_within(..numbers.len());
        assert_eq!(elements(Listpack, &pack), Ok(texts));
    }

    #[test]
    fn lengths_that_do_not_add_up_are_damage() {
        let good = listpack(&[b"\x82ab", b"\x05"]);
        assert!(elements(Listpack, &good).is_ok());
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            elements(Listpack, &bad)
        };
        assert!(with(0, 14).is_err(), "its length");
        assert!(with(4, 3).is_err(), "its count");
        assert!(with(6, 0x83).is_err(), "a string's length");
        assert!(with(9, 4).is_err(), "a back length");
        assert!(with(9, 0x83).is_err(), "a mark in a back length");
        assert!(with(10, 0xf5).is_err(), "an encoding that there is not");
        let mut uncounted = good.clone();
        uncounted[4..6].fill(0xff);
        assert!(elements(Listpack, &uncounted).is_ok());
        let mut longer = [&good[..], &[END]].concat();
        longer[0] += 1;
        assert!(elements(Listpack, &longer).is_err());
        assert!(elements(Listpack, b"").is_err());
        survive_damage(Listpack, &good);
    }
}

//! Ziplists: strings and integers, up to Redis 6.2; source: Redis' `ziplist.c`.
//!
//! ```text
//!   total bytes u32 │ where the last entry is u32 │ count u16 │ entry … entry │ 0xff
//!   entry: how long the previous one is (1 byte, or 0xfe and 4) │ encoding │ data
//! ```
//!
//! A count of 65,535 means that it is not known. Lengths inside encodings have their highest byte first,
//! everything else its lowest.

use super::{Element, bytes_at, signed, u16_at, u32_at};
use crate::error::Damage;

/// Ten bytes of header.
const HEADER_BYTES: usize = 10;
const LAST_AT: usize = 4;
const COUNT_AT: usize = 8;
const COUNT_UNKNOWN: usize = 0xffff;
const LONG_PREVIOUS: u8 = 0xfe;
const END: u8 = 0xff;

const BAD: Damage = Damage("a ziplist has an entry that is none");

/// See [`super::Walk`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Walk {
    at: usize,
    seen: usize,
    /// Where the entry before `at` begins.
    last_at: usize,
}

impl Walk {
    pub(super) fn begin(blob: &[u8]) -> Result<Self, Damage> {
        if u32_at(blob, 0) != Some(blob.len()) {
            return Err(Damage("a ziplist does not have the length that it says"));
        }
        Ok(Self { at: HEADER_BYTES, seen: 0, last_at: HEADER_BYTES })
    }

    pub(super) fn next(&mut self, blob: &[u8]) -> Result<Option<Element>, Damage> {
        let first = *blob.get(self.at).ok_or(BAD)?;
        if first == END {
            self.check_end(blob)?;
            return Ok(None);
        }
        let (previous, encoding_at) = if first == LONG_PREVIOUS {
            (u32_at(blob, self.at + 1).ok_or(BAD)?, self.at + 5)
        } else {
            (usize::from(first), self.at + 1)
        };
        if previous != self.at - self.last_at {
            return Err(Damage(
                "an entry of a ziplist does not have the length that the next one says",
            ));
        }
        let (element, end) = entry_at(blob, encoding_at).ok_or(BAD)?;
        (self.last_at, self.at) = (self.at, end);
        self.seen += 1;
        Ok(Some(element))
    }

    fn check_end(&self, blob: &[u8]) -> Result<(), Damage> {
        let count = u16_at(blob, COUNT_AT);
        if self.at + 1 != blob.len() {
            Err(Damage("a ziplist goes on behind its end mark"))
        } else if count != Some(COUNT_UNKNOWN) && count != Some(self.seen) {
            Err(Damage("a ziplist does not have as many entries as it says"))
        } else if u32_at(blob, LAST_AT) != Some(self.last_at) {
            Err(Damage("a ziplist does not have its last entry where it says"))
        } else {
            Ok(())
        }
    }
}

/// The entry with its encoding at `at`, and where it ends.
fn entry_at(blob: &[u8], at: usize) -> Option<(Element, usize)> {
    let first = *blob.get(at)?;
    let int = |bytes: usize| {
        let data = blob.get(at + 1..=at + bytes)?;
        Some((Element::Number(signed(data)), at + 1 + bytes))
    };
    let string = |start: usize, bytes: usize| {
        bytes_at(blob, start, bytes).map(|element| (element, start + bytes))
    };
    match first {
        0x00..=0x3f => string(at + 1, usize::from(first)),
        0x40..=0x7f => {
            let low = u16::from(*blob.get(at + 1)?);
            string(at + 2, usize::from(u16::from(first & 0x3f) << 8 | low))
        }
        0x80..=0xbf => {
            let bytes = u32::from_be_bytes(*blob.get(at + 1..)?.first_chunk()?);
            string(at + 5, usize::try_from(bytes).ok()?)
        }
        0xc0 => int(2),
        0xd0 => int(4),
        0xe0 => int(8),
        0xf0 => int(3),
        0xfe => int(1),
        0xf1..=0xfd => Some((Element::Number(i64::from(first & 0x0f) - 1), at + 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Packing::Ziplist;
    use super::super::tests::{elements, survive_damage};
    use super::*;

    /// A ziplist of these entries, each without the length of the previous one.
    fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
        let (mut body, mut last_at) = (Vec::new(), 0);
        for entry in entries {
            let at = body.len();
            let previous = at - last_at;
            if previous < 254 {
                body.push(u8::try_from(previous).unwrap());
            } else {
                body.push(LONG_PREVIOUS);
                body.extend_from_slice(&u32::try_from(previous).unwrap().to_le_bytes());
            }
            body.extend_from_slice(entry);
            last_at = at;
        }
        let head = [body.len() + HEADER_BYTES + 1, last_at + HEADER_BYTES];
        let head = head.map(|number| u32::try_from(number).unwrap().to_le_bytes());
        let count = u16::try_from(entries.len()).unwrap();
        [&head.concat()[..], &count.to_le_bytes(), &body, &[END]].concat()
    }

    #[test]
    fn every_encoding_is_read() {
        let long = [&[0x41, 0x2c][..], &[b'x'; 300]].concat();
        let huge = [&[0x80, 0, 0, 0x40, 0x01][..], &[b'y'; 16_385]].concat();
        let list = ziplist(&[
            b"\x00",
            b"\x03abc",
            &long,
            b"\xf1",
            b"\xfd",
            b"\xfe\xff",
            b"\xc0\x2c\x01",
            b"\xf0\x70\x11\x01",
            b"\xd0\xc0\xab\x76\xff",
            b"\xe0\x00\xf2\x05\x2a\x01\x00\x00\x00",
            &huge,
            b"\x01z",
        ]);
        let expected: Vec<Vec<u8>> = [
            "",
            "abc",
            &"x".repeat(300),
            "0",
            "12",
            "-1",
            "300",
            "70000",
            "-9000000",
            "5000000000",
            &"y".repeat(16_385),
            "z",
        ]
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .collect();
        assert_eq!(elements(Ziplist, &list), Ok(expected));
    }

    #[test]
    fn a_short_length_may_be_written_long() {
        let mut list = ziplist(&[b"\x01a", b"\x01b"]);
        list.splice(13..14, [LONG_PREVIOUS, 3, 0, 0, 0]);
        list[0] += 4;
        assert_eq!(elements(Ziplist, &list), Ok(vec![b"a".to_vec(), b"b".to_vec()]));
    }

    #[test]
    fn lengths_that_do_not_add_up_are_damage() {
        let good = ziplist(&[b"\x02ab", b"\xf6"]);
        assert!(elements(Ziplist, &good).is_ok());
        for (at, byte, what) in [
            (0, 18, "its length"),
            (4, 10, "its last entry"),
            (8, 3, "its count"),
            (11, 3, "a string's length"),
            (14, 5, "a previous length"),
            (15, 0xff, "an encoding that there is not"),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(elements(Ziplist, &bad).is_err(), "{what}");
        }
        let mut longer = [&good[..], &[END]].concat();
        longer[0] += 1;
        assert!(elements(Ziplist, &longer).is_err());
        survive_damage(Ziplist, &good);
    }
}

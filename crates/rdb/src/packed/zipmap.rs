//! Zipmaps: small hashes, before Redis 2.6; source: Redis' `zipmap.c`.
//!
//! ```text
//!   count of pairs u8 │ length name │ length, free value … │ … │ 0xff
//!   length: one byte below 254, or 254 and four bytes, the lowest first
//! ```
//!
//! A count of 254 and more means that it is not known; `free` is how many bytes behind the value are
//! unused.

use super::{Element, bytes_at, u32_at};
use crate::error::Damage;

const LONG: u8 = 254;
const END: u8 = 255;

const BAD: Damage = Damage("a zipmap has an entry that is none");

/// See [`super::Walk`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Walk {
    at: usize,
    seen: usize,
}

impl Walk {
    pub(super) fn begin(blob: &[u8]) -> Result<Self, Damage> {
        if blob.len() < 2 { Err(BAD) } else { Ok(Self { at: 1, seen: 0 }) }
    }

    pub(super) fn next(&mut self, blob: &[u8]) -> Result<Option<Element>, Damage> {
        let is_value = self.seen % 2 == 1;
        let (bytes, start) = match *blob.get(self.at).ok_or(BAD)? {
            END if is_value => return Err(Damage("a zipmap ends with a name that has no value")),
            END => {
                if self.at + 1 != blob.len() {
                    return Err(Damage("a zipmap goes on behind its end mark"));
                }
                let count = blob[0];
                if count < LONG && usize::from(count) != self.seen / 2 {
                    return Err(Damage("a zipmap does not have as many pairs as it says"));
                }
                return Ok(None);
            }
            LONG => (u32_at(blob, self.at + 1).ok_or(BAD)?, self.at + 5),
            short => (usize::from(short), self.at + 1),
        };
        let free = if is_value { usize::from(*blob.get(start).ok_or(BAD)?) } else { 0 };
        let start = start + usize::from(is_value);
        let element = bytes_at(blob, start, bytes).ok_or(BAD)?;
        self.at = start + bytes + free;
        self.seen += 1;
        Ok(Some(element))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Packing::Zipmap;
    use super::super::tests::{elements, survive_damage};
    use super::*;

    #[test]
    fn names_and_values_alternate() {
        let long = [b'v'; 300];
        let map =
            [&b"\x02\x01a\x03\x02abc??\x02bb"[..], &[LONG, 0x2c, 0x01, 0, 0, 0], &long, &[END]]
                .concat();
        let expected = vec![b"a".to_vec(), b"abc".to_vec(), b"bb".to_vec(), long.to_vec()];
        assert_eq!(elements(Zipmap, &map), Ok(expected.clone()));
        let uncounted = [&[LONG][..], &map[1..]].concat();
        assert_eq!(elements(Zipmap, &uncounted), Ok(expected));
    }

    #[test]
    fn lengths_that_do_not_add_up_are_damage() {
        let good = b"\x01\x01a\x01\x00b\xff";
        assert!(elements(Zipmap, good).is_ok());
        let bad: [&[u8]; 6] = [
            b"\x02\x01a\x01\x00b\xff",
            b"\x01\x01a\x02\x00b\xff",
            b"\x01\x01a\x01\x07b\xff",
            b"\x01\x01a\xff",
            b"\x01\x01a\x01\x00b\xff\xff",
            b"\x01",
        ];
        for map in bad {
            assert!(elements(Zipmap, map).is_err(), "{}", map.escape_ascii());
        }
        survive_damage(Zipmap, good);
    }
}

//! Integer sets; source: Redis' `intset.c`.
//!
//! ```text
//!   bytes of a member u32 │ count u32 │ members, each 2, 4 or 8 bytes
//! ```

use super::{Element, signed, u32_at};
use crate::error::Damage;

/// Eight bytes of header.
const HEADER_BYTES: usize = 8;

/// See [`super::Walk`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Walk {
    at: usize,
    width: usize,
}

impl Walk {
    pub(super) fn begin(blob: &[u8]) -> Result<Self, Damage> {
        let bad = Damage("an integer set does not have the length that it says");
        let (Some(width), Some(count)) = (u32_at(blob, 0), u32_at(blob, 4)) else {
            return Err(bad);
        };
        let is_good = matches!(width, 2 | 4 | 8)
            && count.checked_mul(width) == Some(blob.len() - HEADER_BYTES);
        if is_good { Ok(Self { at: HEADER_BYTES, width }) } else { Err(bad) }
    }

    pub(super) fn next(&mut self, blob: &[u8]) -> Result<Option<Element>, Damage> {
        let Some(member) = blob.get(self.at..self.at + self.width) else { return Ok(None) };
        self.at += self.width;
        Ok(Some(Element::Number(signed(member))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Packing::Intset;
    use super::super::tests::{elements, survive_damage};

    #[test]
    fn members_of_every_width_are_read() {
        let set = |width: u8, members: &[u8]| {
            let count = u8::try_from(members.len()).unwrap() / width;
            elements(Intset, &[&[width, 0, 0, 0, count, 0, 0, 0][..], members].concat())
        };
        assert_eq!(set(2, &[0xfe, 0xff, 0x2c, 1]), Ok(vec![b"-2".to_vec(), b"300".to_vec()]));
        assert_eq!(set(4, &[0, 0, 1, 0]), Ok(vec![b"65536".to_vec()]));
        assert_eq!(set(8, &[0, 0, 0, 0, 1, 0, 0, 0]), Ok(vec![b"4294967296".to_vec()]));
        assert!(set(3, &[0, 0, 1]).is_err());
        assert!(set(2, &[0, 0, 1]).is_err());
        survive_damage(Intset, &[2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 2, 0]);
    }
}

//! Packed blobs, Redis' sequences in one string: walked element by element, copied nowhere.
//!
//! Every walk ends with the blob verified as a whole: lengths that point at one another, the number of
//! elements in the header, the mark at the end, and nothing behind it.

mod intset;
pub(crate) mod listpack;
mod ziplist;
mod zipmap;

use crate::error::Damage;

/// How a blob is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Listpack,
    Ziplist,
    /// Strings by name and value, from before Redis 2.6.
    Zipmap,
    Intset,
}

/// An element of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// These bytes of the blob.
    Bytes { start: usize, end: usize },
    /// An integer, which is its decimal text.
    Number(i64),
}

/// How far a blob was walked; the blob itself is given with every step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Walk {
    Listpack(listpack::Walk),
    Ziplist(ziplist::Walk),
    Zipmap(zipmap::Walk),
    Intset(intset::Walk),
}

impl Walk {
    /// Begins at the first element.
    pub(crate) fn begin(packing: Packing, blob: &[u8]) -> Result<Self, Damage> {
        Ok(match packing {
            Packing::Listpack => Self::Listpack(listpack::Walk::begin(blob)?),
            Packing::Ziplist => Self::Ziplist(ziplist::Walk::begin(blob)?),
            Packing::Zipmap => Self::Zipmap(zipmap::Walk::begin(blob)?),
            Packing::Intset => Self::Intset(intset::Walk::begin(blob)?),
        })
    }

    /// Steps over the next element; `None` behind the last one.
    pub(crate) fn next(&mut self, blob: &[u8]) -> Result<Option<Element>, Damage> {
        match self {
            Self::Listpack(walk) => walk.next(blob),
            Self::Ziplist(walk) => walk.next(blob),
            Self::Zipmap(walk) => walk.next(blob),
            Self::Intset(walk) => walk.next(blob),
        }
    }

    /// Walks to the end; how many elements there were.
    pub(crate) fn count(mut self, blob: &[u8]) -> Result<u64, Damage> {
        let mut count = 0;
        while self.next(blob)?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

/// The integer that is these one to eight bytes, the least first, with the sign of the last.
fn signed(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    wide[8 - bytes.len()..].copy_from_slice(bytes);
    i64::from_le_bytes(wide) >> (64 - 8 * bytes.len())
}

/// The number of four bytes at `at`, the least first.
fn u32_at(blob: &[u8], at: usize) -> Option<usize> {
    let bytes = blob.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

/// The number of two bytes at `at`, the least first.
fn u16_at(blob: &[u8], at: usize) -> Option<usize> {
    blob.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes).into())
}

/// Bytes of the blob, if it has them.
fn bytes_at(blob: &[u8], start: usize, bytes: usize) -> Option<Element> {
    let end = start.checked_add(bytes).filter(|end| *end <= blob.len())?;
    Some(Element::Bytes { start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of a blob, integers in decimal.
    pub(super) fn elements(packing: Packing, blob: &[u8]) -> Result<Vec<Vec<u8>>, Damage> {
        let mut walk = Walk::begin(packing, blob)?;
        let mut elements = Vec::new();
        while let Some(element) = walk.next(blob)? {
            elements.push(match element {
                Element::Bytes { start, end } => blob[start..end].to_vec(),
                Element::Number(number) => number.to_string().into_bytes(),
            });
        }
        Ok(elements)
    }

    /// Every blob that differs in one byte, and every one that is cut short, is walked without a panic.
    pub(super) fn survive_damage(packing: Packing, blob: &[u8]) {
        for at in 0..blob.len() {
            let _ = elements(packing, &blob[..at]);
            for byte in 0..=u8::MAX {
                let mut damaged = blob.to_vec();
                damaged[at] = byte;
                let _ = elements(packing, &damaged);
            }
        }
    }

    #[test]
    fn integers_have_the_sign_of_their_last_byte() {
        assert_eq!(signed(&[0xfe]), -2);
        assert_eq!(signed(&[0x2c, 0x01]), 300);
        assert_eq!(signed(&[0xc0, 0xab, 0x76, 0xff]), -9_000_000);
        assert_eq!(signed(&i64::MIN.to_le_bytes()), i64::MIN);
    }
}

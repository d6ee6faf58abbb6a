//! The ids of entries: a time and a number within it.

use std::fmt;

use base::varint;

/// The id of an entry of a stream. Ids are ordered, and rise from entry to entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId {
    /// Unix milliseconds, by whatever clock gave the id.
    pub ms: u64,
    /// The number among the ids of that millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least one, which no entry has.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The greatest one.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };
    /// Its length as [`StreamId::to_bytes`] has it.
    pub(super) const BYTES: usize = 16;

    /// The id of two numbers.
    #[must_use]
    pub const fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// The next id; `None` after the greatest.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match (self.ms, self.seq) {
            (u64::MAX, u64::MAX) => None,
            (ms, u64::MAX) => Some(Self { ms: ms + 1, seq: 0 }),
            (ms, seq) => Some(Self { ms, seq: seq + 1 }),
        }
    }

    /// The id before this one; `None` before the least.
    #[must_use]
    pub const fn previous(self) -> Option<Self> {
        match (self.ms, self.seq) {
            (0, 0) => None,
            (ms, 0) => Some(Self { ms: ms - 1, seq: u64::MAX }),
            (ms, seq) => Some(Self { ms, seq: seq - 1 }),
        }
    }

    /// Both numbers in big-endian order, so that the bytes are ordered as the ids are.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }

    /// Converts back what [`StreamId::to_bytes`] made.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (ms, seq) = bytes.split_first_chunk::<8>()?;
        let seq = seq.try_into().ok().map(u64::from_be_bytes)?;
        Some(Self { ms: u64::from_be_bytes(*ms), seq })
    }

    /// Appends both numbers as varints.
    pub(super) fn put(self, out: &mut Vec<u8>) {
        varint::put(out, self.ms);
        varint::put(out, self.seq);
    }

    /// Takes what [`StreamId::put`] appended from the front of `input`.
    pub(super) fn take(input: &mut &[u8]) -> Option<Self> {
        Some(Self { ms: varint::take(input)?, seq: varint::take(input)? })
    }
}

/// As clients read it: `ms-seq`.
impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = itoa::Buffer::new();
        f.write_str(digits.format(self.ms))?;
        f.write_str("-")?;
        f.write_str(digits.format(self.seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_neighbours_up_to_the_ends() {
        let id = StreamId::new(5, u64::MAX);
        assert_eq!(id.next(), Some(StreamId::new(6, 0)));
        assert_eq!(StreamId::new(6, 0).previous(), Some(id));
        assert_eq!(
            StreamId::new(5, 7).next().and_then(StreamId::previous),
            Some(StreamId::new(5, 7))
        );
        assert_eq!((StreamId::MIN.previous(), StreamId::MAX.next()), (None, None));
    }

    #[test]
    fn an_id_comes_back_from_its_bytes() {
        for id in [StreamId::MIN, StreamId::new(1, 2), StreamId::MAX] {
            assert_eq!(StreamId::from_bytes(&id.to_bytes()), Some(id));
            let mut bytes = Vec::new();
            id.put(&mut bytes);
            assert_eq!(StreamId::take(&mut &bytes[..]), Some(id));
        }
        assert_eq!(StreamId::from_bytes(&[0; 15]), None);
        assert!(StreamId::new(1, 2).to_bytes() < StreamId::new(1, 256).to_bytes());
        assert_eq!(StreamId::new(1526919030474, 55).to_string(), "1526919030474-55");
    }
}

//! Positions in the redo log.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// The number of a block in the log: contiguous, from 1; 0 is before the first block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The position before the first block.
    pub const ZERO: Self = Self(0);

    /// A bound that no log ever reaches. A larger number in a file is damage; a reader that rejects
    /// it can increment any other number without overflow.
    pub const MAX: Self = Self(u64::MAX >> 1);

    /// The block after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a segment (a file of blocks), from 1. Numbers grow over the life of a database and
/// are never reused; a compacted segment keeps its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

impl SegmentId {
    /// A bound that no log ever reaches; as [`Lsn::MAX`].
    pub const MAX: Self = Self(u32::MAX >> 1);
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The address of a record: the `ordinal`-th record (from 0) ever written to `segment`.
///
/// It is stable for the record's life: compaction never changes it. Eight bytes, in every entry
/// in memory; an `Option` of it takes no more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordAddr(NonZeroU64);

impl RecordAddr {
    /// The address of record `ordinal` of `segment`.
    ///
    /// # Panics
    /// If `segment` is 0, which is not a valid segment.
    #[must_use]
    pub fn new(segment: SegmentId, ordinal: u32) -> Self {
        let raw = (u64::from(segment.0) << 32) | u64::from(ordinal);
        assert!(segment.0 != 0, "segments are numbered from 1");
        Self(NonZeroU64::new(raw).expect("a segment id is not 0"))
    }

    /// The segment that holds the record.
    #[must_use]
    pub const fn segment(self) -> SegmentId {
        SegmentId((self.0.get() >> 32) as u32)
    }

    /// The record's ordinal in its segment.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is the ordinal")]
    pub const fn ordinal(self) -> u32 {
        self.0.get() as u32
    }

    /// The address as one word: 0 for none, as [`RecordAddr::from_raw`] reads it.
    #[must_use]
    pub fn to_raw(addr: Option<Self>) -> u64 {
        addr.map_or(0, |addr| addr.0.get())
    }

    /// Converts back a word from [`RecordAddr::to_raw`].
    #[must_use]
    pub fn from_raw(raw: u64) -> Option<Self> {
        NonZeroU64::new(raw).map(Self)
    }
}

impl FromStr for RecordAddr {
    type Err = &'static str;

    /// Reads the address as it is displayed.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (segment, ordinal) = text.split_once(':')?;
            let segment = segment.parse().ok().filter(|segment| *segment > 0)?;
            Some(Self::new(SegmentId(segment), ordinal.parse().ok()?))
        };
        parse().ok_or("an address is SEGMENT:ORDINAL, such as 7:130")
    }
}

impl fmt::Debug for RecordAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment(), self.ordinal())
    }
}

impl fmt::Display for RecordAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment(), self.ordinal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_parts() {
        let addr = RecordAddr::new(SegmentId(7), u32::MAX);
        assert_eq!((addr.segment(), addr.ordinal()), (SegmentId(7), u32::MAX));
        assert_eq!(RecordAddr::from_raw(RecordAddr::to_raw(Some(addr))), Some(addr));
        assert_eq!(RecordAddr::from_raw(RecordAddr::to_raw(None)), None);
        assert_eq!(addr.to_string().parse(), Ok(addr));
        for none in ["", "7", "0:1", "7:", "7:-1", "7:4294967296"] {
            assert!(none.parse::<RecordAddr>().is_err(), "{none}");
        }
        assert_eq!(size_of::<Option<RecordAddr>>(), 8);
    }
}

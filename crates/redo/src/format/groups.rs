//! Groups: the runs of an image's bytes that have a checksum of their own.
//!
//! ```text
//!   block header · record · record · record ‖ record · record · block header · record ‖ block header …
//!   └───────────── a group ─────────────────┘└────────────── a group ────────────────┘
//! ```
//!
//! So one read of a few pages yields a record that can be believed, wherever it is in its block.
//!
//! A group begins with a block's header or with a record, and no record is cut. Where one may
//! begin depends on the block alone: at its header, and in it at the first record that is at least
//! [`GROUP_BYTES`] behind the header, or behind the last such place. So the executor can note these
//! places while it fills a block ([`Marker`]), and every writer of the same bytes comes to the same
//! groups ([`GroupBuilder`]): a group goes on until the first such place at which it has as many
//! bytes.

use std::collections::VecDeque;

use base::bytes::u32_at;
use base::checksum::{crc32c_append, crc32c_combine};
use base::varint;

use crate::format::block;
use crate::format::segment;
pub use crate::options::GROUP_BYTES;

/// A place in a block where a group may begin, other than the block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Where it is in the block, header included.
    pub(crate) at: u64,
    /// How many of the block's records are before it.
    pub(crate) records_before: u32,
}

/// Decides at which records of a block a group may begin.
pub(crate) struct Marker {
    group_bytes: u32,
    next_at: u64,
}

impl Marker {
    pub(crate) const fn new(group_bytes: u32) -> Self {
        Self { group_bytes, next_at: group_bytes as u64 }
    }

    pub(crate) const fn group_bytes(&self) -> u32 {
        self.group_bytes
    }

    /// Whether a group may begin at the record at `at` of the block. To be asked of each in turn.
    #[inline]
    pub(crate) const fn is_mark(&mut self, at: u64) -> bool {
        let is_mark = at >= self.next_at;
        if is_mark {
            self.next_at = at + self.group_bytes as u64;
        }
        is_mark
    }

    /// The marks of a block whose records begin at these places.
    pub(crate) fn marks(group_bytes: u32, records_at: impl Iterator<Item = u64>) -> Vec<Mark> {
        let mut marker = Self::new(group_bytes);
        let records = (0..).zip(records_at).filter(|(_, at)| marker.is_mark(*at));
        records.map(|(records_before, at)| Mark { at, records_before }).collect()
    }
}

/// A group of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Where it begins in the image.
    pub offset: u64,
    /// How many records begin before it.
    pub first_rank: u32,
    /// The CRC32C of its bytes.
    pub crc: u32,
}

/// The groups of an image, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// How long a group was to be at least.
    pub group_bytes: u32,
    /// Each begins where the one before it ends.
    pub groups: Vec<Group>,
}

impl Groups {
    /// The group in which the record of this rank begins, and where it ends in an image whose
    /// blocks end at `data_end`.
    #[must_use]
    pub fn find(&self, rank: u32, data_end: u64) -> Option<(Group, u64)> {
        // A group in which no record begins is followed by one of the same rank.
        let after = self.groups.partition_point(|group| group.first_rank <= rank);
        let group = *self.groups.get(after.checked_sub(1)?)?;
        Some((group, self.groups.get(after).map_or(data_end, |next| next.offset)))
    }

    /// Appends the groups of an image with `record_count` records that end at `data_end`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, data_end: u64, record_count: u32) {
        let ends = self.groups.iter().skip(1).map(|next| (next.offset, next.first_rank));
        let ends = ends.chain(std::iter::once((data_end, record_count)));
        for (group, (end, end_rank)) in self.groups.iter().zip(ends) {
            varint::put(out, end - group.offset);
            varint::put(out, u64::from(end_rank - group.first_rank));
            out.extend_from_slice(&group.crc.to_le_bytes());
        }
    }

    /// The `count` groups that these bytes are; `None` unless they are all of the blocks that end
    /// at `data_end`, with `record_count` records.
    pub(crate) fn decode(
        mut bytes: &[u8],
        count: u32,
        group_bytes: u32,
        data_end: u64,
        record_count: u32,
    ) -> Option<Self> {
        // Each takes six bytes at least: a count may be anything.
        let mut groups = Vec::with_capacity((count as usize).min(bytes.len() / 6));
        let (mut offset, mut rank) = (segment::HEADER_BYTES as u64, 0u32);
        for _ in 0..count {
            let length = varint::take(&mut bytes).filter(|length| *length > 0)?;
            let records = u32::try_from(varint::take(&mut bytes)?).ok()?;
            let (crc, rest) = bytes.split_at_checked(4)?;
            bytes = rest;
            groups.push(Group { offset, first_rank: rank, crc: u32_at(crc, 0) });
            offset = offset.checked_add(length)?;
            rank = rank.checked_add(records)?;
        }
        let is_all = bytes.is_empty() && (offset, rank) == (data_end, record_count);
        is_all.then_some(Self { group_bytes, groups })
    }
}

/// Finds the groups of an image, and their checksums, while its blocks go by.
pub(crate) struct GroupBuilder {
    /// The last one is not at its end.
    found: Groups,
    /// Where in the image the next byte belongs.
    at: u64,
    record_count: u32,
    /// Where the block that goes by begins.
    block_at: u64,
}

/// A block of which the header, which has the checksum of the records, is known last.
pub(crate) struct StreamedBlock {
    marks: VecDeque<Mark>,
    /// The group that its header is in.
    header_in: usize,
    /// The checksum of what is before the header in that group.
    before_crc: u32,
}

impl GroupBuilder {
    pub(crate) const fn new(group_bytes: u32) -> Self {
        Self {
            found: Groups { group_bytes, groups: Vec::new() },
            at: segment::HEADER_BYTES as u64,
            record_count: 0,
            block_at: 0,
        }
    }

    /// Takes a block that is there as a whole.
    pub(crate) fn add_block(
        &mut self,
        header: &[u8; block::HEADER_BYTES],
        mut records: &[u8],
        marks: &[Mark],
        record_count: u32,
    ) {
        self.begin_block();
        self.extend_group(header);
        for mark in marks {
            let (before, after) = records.split_at(self.bytes_to(mark));
            self.extend_group(before);
            self.begin_group_if_due(mark.records_before);
            records = after;
        }
        self.extend_group(records);
        self.record_count += record_count;
    }

    /// Begins a block with these marks that comes in pieces.
    pub(crate) fn begin_streamed(&mut self, marks: Vec<Mark>) -> StreamedBlock {
        self.begin_block();
        self.at += block::HEADER_BYTES as u64;
        let header_in = self.found.groups.len() - 1;
        let before_crc = std::mem::take(&mut self.found.groups[header_in].crc);
        StreamedBlock { marks: marks.into(), header_in, before_crc }
    }

    /// Takes the next bytes of the block's records.
    pub(crate) fn add_bytes(&mut self, block: &mut StreamedBlock, mut bytes: &[u8]) {
        while let Some(mark) = block.marks.front() {
            let Some((before, after)) = bytes.split_at_checked(self.bytes_to(mark)) else { break };
            self.extend_group(before);
            self.begin_group_if_due(mark.records_before);
            block.marks.pop_front();
            bytes = after;
        }
        self.extend_group(bytes);
    }

    /// Ends the block.
    pub(crate) fn end_streamed(
        &mut self,
        block: &StreamedBlock,
        header: &[u8; block::HEADER_BYTES],
        record_count: u32,
    ) {
        let end = self.found.groups.get(block.header_in + 1).map_or(self.at, |next| next.offset);
        let behind_bytes = end - self.block_at - header.len() as u64;
        let behind_bytes = usize::try_from(behind_bytes).expect("no more than was added");
        let crc = &mut self.found.groups[block.header_in].crc;
        *crc = crc32c_combine(crc32c_append(block.before_crc, header), *crc, behind_bytes);
        self.record_count += record_count;
    }

    fn begin_block(&mut self) {
        self.begin_group_if_due(0);
        self.block_at = self.at;
    }

    /// How far it is to the mark.
    fn bytes_to(&self, mark: &Mark) -> usize {
        usize::try_from(self.block_at + mark.at - self.at).unwrap_or(usize::MAX)
    }

    fn extend_group(&mut self, bytes: &[u8]) {
        let group = self.found.groups.last_mut().expect("a block begins with one");
        group.crc = crc32c_append(group.crc, bytes);
        self.at += bytes.len() as u64;
    }

    fn begin_group_if_due(&mut self, records_before: u32) {
        let group_bytes = u64::from(self.found.group_bytes);
        let last = self.found.groups.last();
        if last.is_none_or(|last| self.at - last.offset >= group_bytes) {
            let first_rank = self.record_count + records_before;
            self.found.groups.push(Group { offset: self.at, first_rank, crc: 0 });
        }
    }

    /// Returns the groups of what went by.
    pub(crate) const fn groups(&self) -> &Groups {
        &self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::checksum::crc32c;
    use proptest::prelude::*;

    /// A block as the lengths of its records.
    type Lengths = Vec<u64>;

    /// Where the records of a block begin in it.
    fn records_at(lengths: &Lengths) -> impl Iterator<Item = u64> {
        lengths.iter().scan(block::HEADER_BYTES as u64, |at, length| {
            *at += length;
            Some(*at - length)
        })
    }

    fn block(number: usize, lengths: &Lengths) -> ([u8; block::HEADER_BYTES], Vec<u8>) {
        let bytes: u64 = lengths.iter().sum();
        let byte = |at: u64| (at.wrapping_mul(31) + number as u64 * 7).to_le_bytes()[0];
        ([number.to_le_bytes()[0]; block::HEADER_BYTES], (0..bytes).map(byte).collect())
    }

    /// Feeds a block in pieces of these sizes, in turn; as a whole without any.
    fn feed(builder: &mut GroupBuilder, number: usize, lengths: &Lengths, pieces: &[usize]) {
        let (header, records) = block(number, lengths);
        let marks = Marker::marks(builder.found.group_bytes, records_at(lengths));
        let record_count = u32::try_from(lengths.len()).unwrap();
        if pieces.is_empty() {
            return builder.add_block(&header, &records, &marks, record_count);
        }
        let mut streamed = builder.begin_streamed(marks);
        let (mut rest, mut pieces) = (&records[..], pieces.iter().cycle());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(*pieces.next().unwrap()));
            builder.add_bytes(&mut streamed, piece);
            rest = behind;
        }
        builder.end_streamed(&streamed, &header, record_count);
    }

    proptest! {
        #[test]
        fn every_record_is_in_its_group_however_the_bytes_come(
            blocks in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![4u64..40, 4u64..40, 100u64..700], 1..30), 1..12),
            pieces in proptest::collection::vec(1usize..300, 1..5),
            group_bytes in prop_oneof![Just(64u32), Just(128), 65u32..600],
        ) {
            let mut whole = GroupBuilder::new(group_bytes);
            let mut streamed = GroupBuilder::new(group_bytes);
            // The image, and where each record and each header begins in it.
            let mut image = vec![0; segment::HEADER_BYTES];
            let (mut records, mut boundaries) = (Vec::new(), Vec::new());
            for (number, lengths) in blocks.iter().enumerate() {
                feed(&mut whole, number, lengths, &[]);
                feed(&mut streamed, number, lengths, &pieces);
                boundaries.push(image.len() as u64);
                records.extend(records_at(lengths).map(|at| image.len() as u64 + at));
                let (header, bytes) = block(number, lengths);
                image.extend_from_slice(&header);
                image.extend_from_slice(&bytes);
            }
            boundaries.extend_from_slice(&records);
            prop_assert_eq!(whole.groups(), streamed.groups());
            let (groups, data_end) = (whole.groups(), image.len() as u64);
            for (rank, at) in (0u32..).zip(&records) {
                let (group, end) = groups.find(rank, data_end).unwrap();
                prop_assert!(group.offset <= *at && *at < end, "{at} in {group:?} to {end}");
                let before = records.iter().filter(|record| **record < group.offset).count();
                prop_assert_eq!(group.first_rank as usize, before);
                let bytes = usize::try_from(group.offset).unwrap()..usize::try_from(end).unwrap();
                prop_assert_eq!(group.crc, crc32c(&image[bytes]));
            }
            for pair in groups.groups.windows(2) {
                prop_assert!(pair[1].offset - pair[0].offset >= u64::from(group_bytes));
                prop_assert!(boundaries.contains(&pair[1].offset));
            }
            prop_assert_eq!(groups.groups[0].offset, segment::HEADER_BYTES as u64);
            let (count, record_count) = (groups.groups.len(), u32::try_from(records.len()).unwrap());
            let count = u32::try_from(count).unwrap();
            let mut bytes = Vec::new();
            groups.encode(&mut bytes, data_end, record_count);
            let decoded = Groups::decode(&bytes, count, group_bytes, data_end, record_count);
            prop_assert_eq!(decoded.as_ref(), Some(groups));
            for (data_end, records) in [(data_end + 1, record_count), (data_end, record_count + 1)] {
                prop_assert_eq!(Groups::decode(&bytes, count, group_bytes, data_end, records), None);
            }
        }
    }

    /// What an entry of the table is to take, and a group of small records to be long.
    #[test]
    fn a_group_of_small_records_takes_nine_bytes_at_most() {
        let mut builder = GroupBuilder::new(GROUP_BYTES);
        feed(&mut builder, 1, &vec![60; 10_000], &[]);
        let groups = builder.groups();
        assert!(groups.groups.windows(2).all(|pair| pair[1].offset - pair[0].offset < 8192 + 60));
        let mut bytes = Vec::new();
        groups.encode(&mut bytes, 128 + 64 + 600_000, 10_000);
        assert!(bytes.len() <= groups.groups.len() * 9);
    }
}

//! The block that takes records: a buffer, bound to a segment when its first record arrives.

use base::{Lsn, Record, RecordAddr, SegmentId};

use crate::format::groups::{Mark, Marker};
use crate::format::record;
use crate::shared::sealed_block::SealedBlock;
use crate::write::block_times::BlockTimes;
use crate::write::buffers::Buffers;

/// Where a block will be.
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) device: usize,
    pub(crate) segment: SegmentId,
    pub(crate) first_ordinal: u32,
}

/// See the file's top.
pub(crate) struct OpenBlock {
    buffer: Vec<u8>,
    /// Where in it a group may begin.
    marks: Vec<Mark>,
    marker: Marker,
    /// `None` until there is a record.
    pub(crate) binding: Option<Binding>,
    record_count: u32,
    delete_count: u32,
    /// When the blocks before it were ended.
    pub(crate) times: BlockTimes,
}

impl OpenBlock {
    /// An empty block in a buffer of `spare`, for a file with groups of `group_bytes`, behind those that `times` knows.
    pub(crate) fn new(spare: &mut Buffers, group_bytes: u32, times: BlockTimes) -> Self {
        let (buffer, marks) = spare.take();
        let marker = Marker::new(group_bytes);
        Self { buffer, marks, marker, binding: None, record_count: 0, delete_count: 0, times }
    }

    /// Adds a record to a block that is bound to `binding`. Returns where it will be.
    #[inline]
    pub(crate) fn append(&mut self, binding: Binding, record: &Record<'_>) -> RecordAddr {
        let ordinal = binding.first_ordinal + self.record_count;
        let at = self.buffer.len() as u64;
        if self.marker.is_mark(at) {
            self.marks.push(Mark { at, records_before: self.record_count });
        }
        record::encode(&mut self.buffer, record);
        self.record_count += 1;
        self.delete_count += u32::from(record.kind.is_delete());
        RecordAddr::new(binding.segment, ordinal)
    }

    /// Whether there is a record.
    pub(crate) const fn has_records(&self) -> bool {
        self.record_count > 0
    }

    /// How long it is so far.
    pub(crate) const fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the record at `addr` is in it.
    pub(crate) fn has(&self, addr: RecordAddr) -> bool {
        self.binding.is_some_and(|binding| {
            binding.segment == addr.segment() && addr.ordinal() >= binding.first_ordinal
        })
    }

    /// Ends the block as number `lsn`, if it has records, and begins the next one.
    pub(crate) fn seal(
        &mut self,
        spare: &mut Buffers,
        lsn: Lsn,
        time_ms: impl FnOnce() -> i64,
    ) -> Option<SealedBlock> {
        let binding = self.binding?;
        self.binding = None;
        let time_ms = time_ms();
        self.times.note(lsn, time_ms);
        let (buffer, marks) = spare.take();
        self.marker = Marker::new(self.marker.group_bytes());
        Some(SealedBlock {
            buffer: std::mem::replace(&mut self.buffer, buffer),
            marks: std::mem::replace(&mut self.marks, marks),
            lsn,
            time_ms,
            segment: binding.segment,
            home: binding.device,
            first_ordinal: binding.first_ordinal,
            record_count: std::mem::take(&mut self.record_count),
            delete_count: std::mem::take(&mut self.delete_count),
        })
    }
}

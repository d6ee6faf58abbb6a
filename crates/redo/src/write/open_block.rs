//! The block that takes records: a buffer, bound to a segment when its first record arrives.

use base::{Lsn, Record, RecordAddr, SegmentId};

use crate::format::record;
use crate::format::segment::OFFSET_EVERY;
use crate::shared::sealed_block::SealedBlock;
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
    /// Where in it the records with ordinals divisible by 64 begin.
    marks: Vec<u64>,
    /// `None` until there is a record.
    pub(crate) binding: Option<Binding>,
    record_count: u32,
    delete_count: u32,
}

impl OpenBlock {
    /// An empty block in a buffer of `spare`.
    pub(crate) fn new(spare: &mut Buffers) -> Self {
        let (buffer, marks) = spare.take();
        Self { buffer, marks, binding: None, record_count: 0, delete_count: 0 }
    }

    /// Adds a record to a block that is bound to `binding`. Returns where it will be.
    #[inline]
    pub(crate) fn append(&mut self, binding: Binding, record: &Record<'_>) -> RecordAddr {
        let ordinal = binding.first_ordinal + self.record_count;
        if ordinal.is_multiple_of(OFFSET_EVERY) {
            self.marks.push(self.buffer.len() as u64);
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
        let ended = std::mem::replace(self, Self::new(spare));
        Some(SealedBlock {
            buffer: ended.buffer,
            marks: ended.marks,
            lsn,
            time_ms: time_ms(),
            segment: binding.segment,
            home: binding.device,
            first_ordinal: binding.first_ordinal,
            record_count: ended.record_count,
            delete_count: ended.delete_count,
        })
    }
}

//! The log in pages of 2 KiB, and the groups of records in them.
//!
//! ```text
//!   flush n              flush n + 1
//!   ├ page ┼ page ┼ page ┤ page ┼ …         a flush is durable as a whole or, if its sync
//!   │ groups ……… │ zeros │ groups …         did not complete, ignored as a whole
//! ```
//!
//! A durable page of the log is never overwritten with different contents (its place in the file
//! is, when the file is recycled), so a torn write can damage only pages that were never reported
//! as durable. Every page names its flush and contains the checksum of the page before, so that
//! pages of an incomplete flush never mix with later ones. Byte by byte: `docs/format/pages.md`.

use base::{bytes, checksum, varint};

use crate::position::{LogOffset, PageId};

/// The size of a log page.
pub(crate) const LOG_PAGE_BYTES: usize = 2048;
/// Bytes of a log page before its payload.
pub(crate) const HEADER_BYTES: usize = 40;
const PAYLOAD_BYTES: usize = LOG_PAGE_BYTES - HEADER_BYTES;

/// The number of the page that contains a position.
pub(crate) fn page_of(offset: LogOffset) -> u64 {
    offset.0 / LOG_PAGE_BYTES as u64
}

/// Memory of a flush larger than this is returned to the system.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// The first page of a log is number 1: log offset 0 is before everything.
pub(crate) const FIRST_OFFSET: LogOffset = LogOffset((LOG_PAGE_BYTES + HEADER_BYTES) as u64);

/// The kind of a group of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupKind {
    /// The redo records of a transaction, structure changes included.
    Commit,
    /// A checkpoint begins (Algorithm 1, line 1).
    CheckpointBegin,
    /// The checkpoint record (line 21).
    Checkpoint,
    /// A checkpoint ends (line 22).
    CheckpointEnd,
}

impl GroupKind {
    fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Commit,
            2 => Self::CheckpointBegin,
            3 => Self::Checkpoint,
            4 => Self::CheckpointEnd,
            _ => return None,
        })
    }

    const fn byte(self) -> u8 {
        match self {
            Self::Commit => 1,
            Self::CheckpointBegin => 2,
            Self::Checkpoint => 3,
            Self::CheckpointEnd => 4,
        }
    }
}

/// The header of a group: the length of its body, and its kind.
const GROUP_HEADER_BYTES: usize = 5;

/// Pages about to be written: the groups appended since the last flush.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    salt: u64,
    /// The number of the first page in `pages`.
    first_page: u64,
    /// The checksum of the page before `first_page`.
    previous_crc: u32,
    pages: Vec<u8>,
    /// Payload bytes in the last page of `pages`.
    used: usize,
    /// The memory of a written flush, kept for the next pages.
    spare: Vec<u8>,
}

/// Pages with their checksums.
#[derive(Debug)]
pub(crate) struct Flush {
    pub(crate) first_page: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Flush {
    /// The position after the flush.
    pub(crate) fn end(&self) -> LogOffset {
        LogOffset(self.first_page * LOG_PAGE_BYTES as u64 + self.bytes.len() as u64)
    }
}

impl LogBuffer {
    /// Creates an empty buffer that continues after page `first_page - 1`.
    pub(crate) fn new(salt: u64, first_page: u64, previous_crc: u32) -> Self {
        Self {
            salt,
            first_page,
            previous_crc,
            pages: Vec::new(),
            used: PAYLOAD_BYTES,
            spare: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// The position after the last page; the end of what becomes durable once all is written.
    pub(crate) fn end(&self) -> LogOffset {
        LogOffset(self.first_page * LOG_PAGE_BYTES as u64 + self.pages.len() as u64)
    }

    /// The log offset of the next group.
    pub(crate) fn next_offset(&self) -> LogOffset {
        let end = self.first_page * LOG_PAGE_BYTES as u64 + self.pages.len() as u64;
        if self.used == PAYLOAD_BYTES {
            LogOffset(end + HEADER_BYTES as u64)
        } else {
            LogOffset(end - (PAYLOAD_BYTES - self.used) as u64)
        }
    }

    /// Appends a group and returns its log offset.
    pub(crate) fn append(&mut self, kind: GroupKind, body: &[u8]) -> LogOffset {
        let offset = self.next_offset();
        let len = u32::try_from(body.len()).expect("a transaction is bounded far below 4 GiB");
        self.extend(&len.to_le_bytes());
        self.extend(&[kind.byte()]);
        self.extend(body);
        offset
    }

    fn extend(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.used == PAYLOAD_BYTES {
                self.pages.resize(self.pages.len() + LOG_PAGE_BYTES, 0);
                self.used = 0;
            }
            let count = bytes.len().min(PAYLOAD_BYTES - self.used);
            let at = self.pages.len() - PAYLOAD_BYTES + self.used;
            self.pages[at..at + count].copy_from_slice(&bytes[..count]);
            self.used += count;
            bytes = &bytes[count..];
        }
    }

    /// Takes the pages, ready to be written; the next group begins a new page.
    pub(crate) fn seal(&mut self) -> Flush {
        let mut bytes = std::mem::replace(&mut self.pages, std::mem::take(&mut self.spare));
        let count = bytes.len() / LOG_PAGE_BYTES;
        let pages = u32::try_from(count).expect("a log buffer is bounded far below 8 TiB");
        for (i, page) in bytes.chunks_exact_mut(LOG_PAGE_BYTES).enumerate() {
            let used = if i + 1 == count { self.used } else { PAYLOAD_BYTES };
            let used = u32::try_from(used).expect("less than a page");
            page[4..8].copy_from_slice(&self.previous_crc.to_le_bytes());
            page[8..16].copy_from_slice(&(self.first_page + i as u64).to_le_bytes());
            page[16..24].copy_from_slice(&self.first_page.to_le_bytes());
            page[24..28].copy_from_slice(&pages.to_le_bytes());
            page[28..32].copy_from_slice(&used.to_le_bytes());
            page[32..40].copy_from_slice(&self.salt.to_le_bytes());
            self.previous_crc = checksum::crc32c(&page[4..]);
            page[..4].copy_from_slice(&self.previous_crc.to_le_bytes());
        }
        let flush = Flush { first_page: self.first_page, bytes };
        self.first_page += count as u64;
        self.used = PAYLOAD_BYTES;
        flush
    }

    /// Takes back the memory of a written flush.
    pub(crate) fn reuse(&mut self, flush: Flush) {
        if flush.bytes.capacity() <= SPARE_BYTES_MAX {
            self.spare = flush.bytes;
            self.spare.clear();
        }
    }
}

/// A parsed page of the log with a correct checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogPage<'a> {
    pub(crate) crc: u32,
    pub(crate) previous_crc: u32,
    /// The first page of its flush.
    pub(crate) flush_first: u64,
    /// The number of pages of its flush.
    pub(crate) flush_pages: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> LogPage<'a> {
    /// Parses the page; `None` if this is not page `number` of this log.
    pub(crate) fn parse(bytes: &'a [u8], number: u64, salt: u64) -> Option<Self> {
        let u32_at = |at| bytes::u32_at(bytes, at);
        let u64_at = |at| bytes::u64_at(bytes, at);
        // The number tells remains of an earlier life of the file, without a checksum.
        if bytes.len() != LOG_PAGE_BYTES || u64_at(8) != number || u64_at(32) != salt {
            return None;
        }
        if u32_at(0) != checksum::crc32c(&bytes[4..]) {
            return None;
        }
        let used = usize::try_from(u32_at(28)).ok()?;
        let (flush_first, flush_pages) = (u64_at(16), u32_at(24));
        let is_in_flush = number >= flush_first && number - flush_first < u64::from(flush_pages);
        if used > PAYLOAD_BYTES || !is_in_flush {
            return None;
        }
        Some(Self {
            crc: u32_at(0),
            previous_crc: u32_at(4),
            flush_first,
            flush_pages,
            payload: &bytes[HEADER_BYTES..HEADER_BYTES + used],
        })
    }
}

/// A parsed group.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) offset: LogOffset,
    pub(crate) kind: GroupKind,
    pub(crate) body: &'a [u8],
}

/// Parses the groups in concatenated payloads. `starts` gives, for each page, the offset of its
/// payload in `bytes` and its log offset. The error has the log offset of the first invalid group.
pub(crate) fn groups<'a>(
    bytes: &'a [u8],
    starts: &[(usize, LogOffset)],
    mut visit: impl FnMut(Group<'a>) -> Result<(), String>,
) -> Result<(), (LogOffset, String)> {
    let mut at = 0;
    while at < bytes.len() {
        let (start, offset) = starts[starts.partition_point(|(start, _)| *start <= at) - 1];
        let offset = LogOffset(offset.0 + (at - start) as u64);
        let group = bytes[at..].split_at_checked(GROUP_HEADER_BYTES).and_then(|(header, rest)| {
            let len = bytes::u32_at(header, 0);
            let body = rest.get(..usize::try_from(len).ok()?)?;
            Some(Group { offset, kind: GroupKind::of(header[4])?, body })
        });
        let group = group.ok_or_else(|| (offset, String::from("this is no group of records")))?;
        at += GROUP_HEADER_BYTES + group.body.len();
        visit(group).map_err(|what| (offset, what))?;
    }
    Ok(())
}

/// Appends the record `op` of page `id` to the body of a group.
pub(crate) fn put_record(body: &mut Vec<u8>, id: PageId, op: &[u8]) {
    varint::put(body, id.0);
    varint::put_bytes(body, op);
}

/// Takes a record from the front of the body of a group.
pub(crate) fn take_record<'a>(body: &mut &'a [u8]) -> Option<(PageId, &'a [u8])> {
    let id = PageId(varint::take(body)?);
    let op = varint::take_bytes(body)?;
    (id < PageId::END).then_some((id, op))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_where_append_said() {
        let mut buffer = LogBuffer::new(5, 1, 0);
        assert_eq!(buffer.next_offset(), FIRST_OFFSET);
        let mut appended = Vec::new();
        let mut read = Vec::new();
        for flush in 0..4_usize {
            for i in 0..30_usize {
                let body = vec![7; i * 97 * (flush % 3)];
                let expected = buffer.next_offset();
                assert_eq!(buffer.append(GroupKind::Commit, &body), expected);
                appended.push((expected, body.len()));
            }
            let flush = buffer.seal();
            let mut payload = Vec::new();
            let mut starts = Vec::new();
            for (number, bytes) in (flush.first_page..).zip(flush.bytes.chunks(LOG_PAGE_BYTES)) {
                let page = LogPage::parse(bytes, number, 5).expect("sealed");
                let offset = number * LOG_PAGE_BYTES as u64 + HEADER_BYTES as u64;
                starts.push((payload.len(), LogOffset(offset)));
                payload.extend_from_slice(page.payload);
                assert!(LogPage::parse(bytes, number + 1, 5).is_none());
                assert!(LogPage::parse(bytes, number, 6).is_none());
            }
            groups(&payload, &starts, |group| {
                read.push((group.offset, group.body.len()));
                Ok(())
            })
            .expect("what was appended");
        }
        assert_eq!(read, appended);
    }
}

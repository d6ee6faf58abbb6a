//! The blocks of a log, in order, as they become durable.

use base::Lsn;
use redo::{Id, Reader};

use crate::desk::ArchiveOptions;
use crate::error::{Error, Result, TargetError};
use crate::fill::Portion;
use crate::object::{Builder, Header};

/// Blocks are shipped before the interval has passed when this part of a segment was written.
const EARLY_SHARE: u64 = 4;

/// So often a block of the log is found damaged before what is there is given up for a new copy.
const FAILURES_MAX: u32 = 6;

/// So long the log cannot be read at a block for another reason, such as a disk that fails, before that is done.
const FAILING_US: u64 = 600_000_000;

/// Blocks are shipped from here on.
pub(crate) struct Stream {
    pub(crate) next: Lsn,
    /// The checksum of the block before it, 0 if that is not known.
    before_crc: u32,
    /// When they were looked for last, and how many bytes the log had by then.
    looked_us: Option<u64>,
    looked_bytes: u64,
    /// What there was at some look. When the stream is behind that, what is not shipped has come since.
    seen: Option<Seen>,
    /// The time of the last block.
    pub(crate) time_ms: i64,
    /// The first block that was shipped without a gap.
    pub(crate) first: Lsn,
    /// How often the next block was found damaged.
    failures: u32,
    /// Since when it cannot be read.
    failing_since_us: Option<u64>,
}

/// What there was of the log when it was looked for blocks.
struct Seen {
    /// The last block.
    last: Lsn,
    whole: Whole,
}

/// What has come of looking for blocks.
pub(crate) enum Looked {
    /// It is not time yet.
    NotDue,
    /// There are none.
    None,
    /// These are next.
    Blocks(Portion),
    /// The next one was compacted, or can never be read.
    Gone,
}

/// What an archiver ships for.
pub(crate) struct Shipper<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) database: Id,
    pub(crate) writer: u64,
    pub(crate) options: &'a ArchiveOptions,
}

impl Stream {
    /// A stream that goes on behind the last block of an object with this header.
    pub(crate) const fn behind(header: &Header, last: Lsn, first: Lsn) -> Self {
        let mut stream = Self::from(last.next(), header.time_max_ms);
        (stream.before_crc, stream.first) = (header.last_crc, first);
        stream
    }

    /// A stream that begins with this block, when the one before it was the last.
    pub(crate) const fn from(next: Lsn, time_ms: i64) -> Self {
        Self {
            next,
            before_crc: 0,
            looked_us: None,
            looked_bytes: 0,
            seen: None,
            time_ms,
            first: next,
            failures: 0,
            failing_since_us: None,
        }
    }

    /// Has blocks looked for at the next call, whenever that was done last.
    pub(crate) const fn hurry(&mut self) {
        self.looked_us = None;
    }

    /// Looks for blocks, if it is time to.
    pub(crate) fn look(&mut self, shipper: &Shipper<'_>, now_us: u64) -> Result<Looked> {
        let Shipper { reader, options, .. } = shipper;
        let (written_bytes, object_bytes) = (reader.written_bytes(), options.object_bytes as u64);
        // A segment that has ended may be compacted at once.
        let early_bytes = object_bytes.min(reader.roll_bytes() / EARLY_SHARE);
        let is_early = written_bytes - self.looked_bytes >= early_bytes;
        let is_due = self.looked_us.is_none_or(|at| now_us >= at + options.interval_ms * 1000);
        if !is_due && !is_early {
            return Ok(Looked::NotDue);
        }
        let mut blocks = reader.whole_blocks(self.next);
        if blocks.end() < self.next {
            self.looked_us = Some(now_us);
            return Ok(Looked::None);
        }
        let seen_last = blocks.end();
        let mut builder =
            Builder::log(shipper.database, self.next, shipper.writer, self.before_crc);
        let mut is_all = false;
        let failed = loop {
            if builder.bytes() >= options.object_bytes {
                break None;
            }
            match blocks.next() {
                Ok(Some(block)) => {
                    if let Err(what) = builder.put_block(&block) {
                        break Some(block_error(what));
                    }
                }
                Ok(None) => {
                    is_all = true;
                    break None;
                }
                Err(error) => break Some(error.into()),
            }
        };
        // What was read is shipped first; the next look meets the error again.
        if let Some(error) = failed.filter(|_| builder.is_empty()) {
            return if self.is_lost(&error, now_us) { Ok(Looked::Gone) } else { Err(error) };
        }
        if is_all || self.seen.is_none() {
            self.seen =
                Some(Seen { last: seen_last, whole: Whole { at_us: now_us, written_bytes } });
        }
        if is_all {
            (self.looked_us, self.looked_bytes) = (Some(now_us), written_bytes);
        }
        let (header, bytes) = builder.finish();
        Ok(Looked::Blocks(Portion::new(header, bytes)))
    }

    /// Whether the next block, which was met with this error, is given up.
    fn is_lost(&mut self, error: &Error, now_us: u64) -> bool {
        let is_gone = matches!(error, Error::Log(redo::Error::BlocksGone { .. }));
        let is_damaged = matches!(
            error,
            Error::Log(redo::Error::File(redo::FileError::Corrupt { .. })) | Error::Target(_)
        );
        self.failures += u32::from(is_damaged);
        let since_us = *self.failing_since_us.get_or_insert(now_us);
        is_gone || self.failures >= FAILURES_MAX || now_us >= since_us + FAILING_US
    }

    /// An object with the blocks up to `last` is there. Returns when there were no more than those, if it was looked for blocks then: of a log that
    /// grows as fast as it is shipped, too.
    pub(crate) fn note_shipped(&mut self, header: &Header, last: Lsn) -> Option<Whole> {
        self.next = last.next();
        self.before_crc = header.last_crc;
        self.time_ms = header.time_max_ms;
        (self.failures, self.failing_since_us) = (0, None);
        self.seen.take_if(|seen| seen.last <= last).map(|seen| seen.whole)
    }
}

/// When all that there was of the log was shipped, and how many bytes that were.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole {
    pub(crate) at_us: u64,
    pub(crate) written_bytes: u64,
}

/// How much of what was written since the log was opened is shipped: about, because blocks of before it was opened are
/// shipped, too, and are not known by their bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shipped {
    whole_bytes: u64,
    since_bytes: u64,
}

impl Shipped {
    /// Nothing of what comes.
    pub(crate) const fn new(written_bytes: u64) -> Self {
        Self { whole_bytes: written_bytes, since_bytes: 0 }
    }

    /// So many bytes of blocks were, and with them all that there was at some time.
    pub(crate) fn add(&mut self, bytes: u64, whole: Option<Whole>) {
        match whole {
            Some(whole) => *self = Self::new(whole.written_bytes),
            None => self.since_bytes += bytes,
        }
    }

    /// Up to so many written bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.whole_bytes + self.since_bytes
    }
}

/// The log was read with its checksums; what it says is for a start to refuse.
fn block_error(what: &'static str) -> Error {
    let source = std::io::Error::other(what);
    TargetError { doing: "archive", place: "a block of the log".to_owned(), source }.into()
}

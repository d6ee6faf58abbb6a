//! Reading the log from a position to its end.
//!
//! ```text
//!   segments ─► window: 256 KiB, used again and again ─► pages: number, salt, checksum, chain
//!            ─► payload of a whole flush, put together ─► groups
//! ```
//!
//! [`LogFiles::scan`] gives the groups of every whole flush from a position on, and tells the end of
//! the log from damage in it: a bad page is damage if any page after it was written after it had
//! become durable, or if the master record knows of it.
//!
//! A restart waits for this, so a byte is touched as few times as can be: read into memory that is
//! in the processor's cache, summed there, and put beside the rest of its flush.

use std::io;
use std::ops::Range;

use env::{Access, File};

use crate::error::{Error, Result};
use crate::log_files::LogFiles;
use crate::log_page::{self, Flush, Group, HEADER_BYTES, LOG_PAGE_BYTES, LogPage};
use crate::position::Lsn;

/// What is read at once: it fits the processor's cache beside what is made of it.
const WINDOW_BYTES: usize = 256 << 10;

/// Where a log ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogEnd {
    /// The page that the next flush begins with.
    pub(crate) next_page: u64,
    /// The checksum of the page before.
    pub(crate) previous_crc: u32,
}

pub(crate) fn page_of(lsn: Lsn) -> u64 {
    lsn.0 / LOG_PAGE_BYTES as u64
}

impl LogFiles {
    /// Gives the groups from `start` on, which is the LSN of one, to `visit`, up to the last whole
    /// flush. Pages before `durable_end` must be there. The last flush, which may be only in the
    /// kernel's cache, is written and synced again if `rewrite`.
    pub(crate) fn scan(
        &mut self,
        salt: u64,
        start: Lsn,
        durable_end: Lsn,
        rewrite: bool,
        mut visit: impl FnMut(Group<'_>) -> Visited,
    ) -> Result<LogEnd> {
        let mut reader = Reader::new(self, salt);
        let mut skip = reader.skip_to(start)?;
        let mut end = LogEnd { next_page: page_of(start), previous_crc: 0 };
        let mut last = None;
        while let Some(crc) =
            reader.flush(end.next_page, last.as_ref().map(|_| end.previous_crc), skip)?
        {
            log_page::groups(&reader.payload, &reader.starts, &mut visit)
                .map_err(|(lsn, what)| reader.corrupt(lsn, what))?;
            let after = end.next_page + reader.starts.len() as u64;
            last = Some(end.next_page..after);
            end = LogEnd { next_page: after, previous_crc: crc };
            skip = 0;
        }
        reader.prove_end(end.next_page, durable_end)?;
        if let Some(pages) = last.filter(|_| rewrite) {
            let flush = reader.again(pages, end.previous_crc)?;
            self.write(&flush)?;
        }
        Ok(end)
    }

    /// Gives the group at `lsn`, if there is one, to `visit`.
    pub(crate) fn read_group<T>(
        &self,
        salt: u64,
        lsn: Lsn,
        visit: impl FnOnce(Group<'_>) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut reader = Reader::new(self, salt);
        let skip = reader.skip_to(lsn)?;
        if reader.flush(page_of(lsn), None, skip)?.is_none() {
            return Ok(None);
        }
        let (mut visit, mut found) = (Some(visit), None);
        let read = log_page::groups(&reader.payload, &reader.starts, |group| {
            found = visit.take().and_then(|visit| visit(group)).or(found.take());
            Ok(())
        });
        read.map_err(|(lsn, what)| reader.corrupt(lsn, what))?;
        Ok(found)
    }
}

/// What was made of a group; an error says what is wrong with it.
pub(crate) type Visited = std::result::Result<(), String>;

/// A file of the log, and its length in whole pages.
type Segment = (Box<dyn File>, u64);

/// Reads pages, mostly one after another.
struct Reader<'a> {
    files: &'a LogFiles,
    salt: u64,
    /// The number of the segment that was read last; without a file if there is none.
    segment: Option<(u64, Option<Segment>)>,
    /// Pages from `window_first` on; as many as there are bytes for.
    window: Vec<u8>,
    window_first: u64,
    window_pages: u64,
    /// The payloads of a flush, from where was asked for, and for each page where its payload
    /// begins there, and the LSN of that place.
    payload: Vec<u8>,
    starts: Vec<(usize, Lsn)>,
}

impl<'a> Reader<'a> {
    fn new(files: &'a LogFiles, salt: u64) -> Self {
        Self {
            files,
            salt,
            segment: None,
            window: vec![0; WINDOW_BYTES],
            window_first: 0,
            window_pages: 0,
            payload: Vec::new(),
            starts: Vec::new(),
        }
    }

    fn corrupt(&self, lsn: Lsn, what: String) -> Error {
        let page = page_of(lsn);
        let path = self.files.path(page / self.files.pages_per_segment());
        let offset = self.files.offset(page) + lsn.0 % LOG_PAGE_BYTES as u64;
        Error::corrupt(&path, offset, what)
    }

    /// How much of the payload of its page is before a group at `lsn`.
    fn skip_to(&self, lsn: Lsn) -> Result<usize> {
        let at = usize::try_from(lsn.0 % LOG_PAGE_BYTES as u64).expect("less than a page");
        let what = "the log is to be read from where no group can begin";
        at.checked_sub(HEADER_BYTES).ok_or_else(|| self.corrupt(lsn, String::from(what)))
    }

    /// Makes the segment of `page` the one that is read.
    fn open(&mut self, segment: u64) -> Result<()> {
        if self.segment.as_ref().is_some_and(|(number, _)| *number == segment) {
            return Ok(());
        }
        let path = self.files.path(segment);
        let file = match self.files.disk().open(&path, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other.map_err(Error::io(&path, "open"))?),
        };
        let measure = |file: Box<dyn File>| {
            file.advise_sequential();
            let len = file.len().map_err(Error::io(&path, "measure"))?;
            Ok((file, len / LOG_PAGE_BYTES as u64))
        };
        self.segment = Some((segment, file.map(measure).transpose()?));
        Ok(())
    }

    /// The bytes of a page; empty past the end of its file.
    fn page(&mut self, page: u64) -> Result<&[u8]> {
        if page < self.window_first || page - self.window_first >= self.window_pages {
            self.read_window(page)?;
        }
        let at = page.checked_sub(self.window_first).filter(|at| *at < self.window_pages);
        let Some(at) = at else { return Ok(&[]) };
        let at = usize::try_from(at).expect("less than a window") * LOG_PAGE_BYTES;
        Ok(&self.window[at..at + LOG_PAGE_BYTES])
    }

    fn read_window(&mut self, page: u64) -> Result<()> {
        let segment = page / self.files.pages_per_segment();
        self.open(segment)?;
        self.window_pages = 0;
        let Some((_, Some((file, pages)))) = &self.segment else { return Ok(()) };
        let pages = self.files.pages_per_segment().min(*pages);
        let left = pages.saturating_sub(page % self.files.pages_per_segment());
        let count = left.min((WINDOW_BYTES / LOG_PAGE_BYTES) as u64);
        let len = usize::try_from(count).expect("less than a window") * LOG_PAGE_BYTES;
        let path = self.files.path(segment);
        file.read_exact_at(&mut self.window[..len], self.files.offset(page))
            .map_err(Error::io(&path, "read"))?;
        (self.window_first, self.window_pages) = (page, count);
        Ok(())
    }

    /// Puts the flush that has page `first` together, from `skip` bytes into the payload of that
    /// page on, and gives the checksum of its last page; `None` if it is not whole.
    fn flush(&mut self, first: u64, previous: Option<u32>, mut skip: usize) -> Result<Option<u32>> {
        let salt = self.salt;
        let mut payload = std::mem::take(&mut self.payload);
        let mut starts = std::mem::take(&mut self.starts);
        payload.clear();
        starts.clear();
        let (mut previous_crc, mut flush_end) = (previous, None);
        let mut number = first;
        let found = loop {
            let Some(page) = LogPage::parse(self.page(number)?, number, salt) else { break None };
            let end = page.flush_first + u64::from(page.flush_pages);
            // Going on after another flush, this one must begin here.
            let is_next = previous.is_none() || number > first || page.flush_first == first;
            let is_linked = previous_crc.is_none_or(|crc| crc == page.previous_crc);
            if !is_next || !is_linked || *flush_end.get_or_insert(end) != end {
                break None;
            }
            let lsn = number * LOG_PAGE_BYTES as u64 + (HEADER_BYTES + skip) as u64;
            starts.push((payload.len(), Lsn(lsn)));
            payload.extend_from_slice(page.payload.get(skip..).unwrap_or_default());
            skip = 0;
            previous_crc = Some(page.crc);
            number += 1;
            if number == end {
                break Some(page.crc);
            }
        };
        (self.payload, self.starts) = (payload, starts);
        Ok(found)
    }

    /// Reads a flush, or a part of one, a second time: it must be what it was.
    fn again(&mut self, pages: Range<u64>, last_crc: u32) -> Result<Flush> {
        let (first_page, salt) = (pages.start, self.salt);
        let (mut bytes, mut crc) = (Vec::new(), None);
        for number in pages {
            let raw = self.page(number)?;
            bytes.extend_from_slice(raw);
            crc = LogPage::parse(raw, number, salt)
                .filter(|page| number == first_page || crc == Some(page.previous_crc))
                .map(|page| page.crc);
        }
        if crc != Some(last_crc) {
            let what = "the last flush of the log is another than it was a moment ago";
            return Err(self.corrupt(Lsn(first_page * LOG_PAGE_BYTES as u64), String::from(what)));
        }
        Ok(Flush { first_page, bytes })
    }

    /// Proves that what is not there from page `end` on never was durable. The log is written from
    /// front to back: a whole segment without a page of its own has none behind it either.
    fn prove_end(&mut self, end: u64, durable_end: Lsn) -> Result<()> {
        let missing = |reader: &Self| {
            let lsn = Lsn(end * LOG_PAGE_BYTES as u64);
            Err(reader.corrupt(lsn, String::from("a page of the log that was durable is damaged")))
        };
        if end * (LOG_PAGE_BYTES as u64) < durable_end.0 {
            return missing(self);
        }
        let per_segment = self.files.pages_per_segment();
        for segment in self.files.segments()? {
            if segment < end / per_segment {
                continue;
            }
            let first = segment * per_segment;
            let mut has_any = segment == end / per_segment;
            for number in first.max(end)..first + per_segment {
                let salt = self.salt;
                let bytes = self.page(number)?;
                if bytes.is_empty() {
                    break;
                }
                if let Some(page) = LogPage::parse(bytes, number, salt) {
                    has_any = true;
                    if page.flush_first > end {
                        return missing(self);
                    }
                }
            }
            if !has_any {
                break;
            }
        }
        Ok(())
    }
}

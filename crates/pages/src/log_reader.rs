//! Reads pages and flushes of the log.
//!
//! ```text
//!   segment ─► window, used again and again ─► pages: number, salt, checksum, chain
//!           ─► payload of a whole flush, put together ─► groups
//! ```
//!
//! A restart waits for this code, so it touches each byte as rarely as possible: it reads past the
//! page cache, which does not hold a log that was written past it, checksums the bytes, and copies
//! them next to the rest of their flush. The largest cost of a restart is touching memory for the
//! first time, so the reader uses little of it.

use std::io;
use std::ops::Range;

use env::{Access, File};

use crate::error::{Error, Result};
use crate::log_files::LogFiles;
use crate::log_page::{self, Flush, Group, HEADER_BYTES, LOG_PAGE_BYTES, LogPage, page_of};
use crate::position::LogOffset;

/// Bytes read at once: all windows together must fit the processor's cache.
pub(crate) const WINDOW_BYTES: usize = 512 << 10;
/// Pages read at once beyond a reader's own range, for the rest of a flush.
const OVERHANG_PAGES: u64 = 32;

/// The end of a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogEnd {
    /// The first page of the next flush.
    pub(crate) next_page: u64,
    /// The checksum of the page before.
    pub(crate) previous_crc: u32,
    /// The first page of the previous flush.
    pub(crate) last_flush: u64,
}

impl LogFiles {
    /// Writes and syncs the last flush again, because it may only be in the kernel's cache.
    pub(crate) fn rewrite_last(&mut self, salt: u64, end: LogEnd, window: &mut [u8]) -> Result<()> {
        if end.last_flush == end.next_page {
            return Ok(());
        }
        let pages = end.last_flush..end.next_page;
        let flush = Reader::new(self, salt, window).again(pages, end.previous_crc)?;
        self.write(&flush)
    }

    /// Calls `visit` with the group at `offset`, if there is one.
    pub(crate) fn read_group<T>(
        &self,
        salt: u64,
        offset: LogOffset,
        window: &mut [u8],
        visit: impl FnOnce(Group<'_>) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut reader = Reader::new(self, salt, window);
        let skip = reader.skip_to(offset)?;
        if reader.flush(page_of(offset), None, skip)?.is_none() {
            return Ok(None);
        }
        let (mut visit, mut found) = (Some(visit), None);
        let read = log_page::groups(&reader.payload, &reader.starts, |group| {
            found = visit.take().and_then(|visit| visit(group)).or(found.take());
            Ok(())
        });
        read.map_err(|(offset, what)| reader.corrupt(offset, what))?;
        Ok(found)
    }
}

/// The outcome of visiting a group; an error says what is wrong with it.
pub(crate) type Visited = std::result::Result<(), String>;

/// A file of the log, and its length in whole pages.
type Segment = (Box<dyn File>, u64);

/// Reads pages, mostly sequentially.
pub(crate) struct Reader<'a> {
    files: &'a LogFiles,
    salt: u64,
    /// The number of the current segment; without a file if it does not exist.
    segment: Option<(u64, Option<Segment>)>,
    /// The pages from `window_first` on.
    window: &'a mut [u8],
    window_first: u64,
    window_pages: u64,
    /// The first page of another reader's range.
    limit: u64,
    /// The first page of the newest flush seen.
    newest: Option<u64>,
    /// The payloads of a flush from the requested place on. For each page: the offset of its
    /// payload there, and its log offset.
    pub(crate) payload: Vec<u8>,
    pub(crate) starts: Vec<(usize, LogOffset)>,
}

impl<'a> Reader<'a> {
    /// Creates a reader that fills the whole window at once.
    pub(crate) fn new(files: &'a LogFiles, salt: u64, window: &'a mut [u8]) -> Self {
        Self {
            files,
            salt,
            segment: None,
            window,
            window_first: 0,
            window_pages: 0,
            limit: u64::MAX,
            newest: None,
            payload: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Limits reading to the pages before `limit`, and forgets the flushes seen.
    pub(crate) fn turn_to(&mut self, limit: u64) {
        self.limit = limit;
        self.newest = None;
    }

    /// The first page of the newest flush seen since then.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest
    }

    pub(crate) fn corrupt(&self, at: LogOffset, what: String) -> Error {
        let page = page_of(at);
        let path = self.files.path(page / self.files.pages_per_segment());
        let offset = self.files.offset(page) + at.0 % LOG_PAGE_BYTES as u64;
        Error::corrupt(&path, offset, what)
    }

    /// The payload bytes of its page before a group at `offset`.
    pub(crate) fn skip_to(&self, offset: LogOffset) -> Result<usize> {
        let at = usize::try_from(offset.0 % LOG_PAGE_BYTES as u64).expect("less than a page");
        let what = "the log is to be read from where no group can begin";
        at.checked_sub(HEADER_BYTES).ok_or_else(|| self.corrupt(offset, String::from(what)))
    }

    /// Opens the given segment.
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
            Ok::<_, Error>((file, len / LOG_PAGE_BYTES as u64))
        };
        self.segment = Some((segment, file.map(measure).transpose()?));
        Ok(())
    }

    /// Returns the bytes of a page; empty past the end of its file.
    fn page(&mut self, page: u64) -> Result<&[u8]> {
        if page < self.window_first || page - self.window_first >= self.window_pages {
            let beyond = page.saturating_sub(self.limit).max(OVERHANG_PAGES);
            let own = self.limit.checked_sub(page).filter(|own| *own > 0);
            self.read_window(page, own.unwrap_or(beyond))?;
        }
        let at = page.checked_sub(self.window_first).filter(|at| *at < self.window_pages);
        let Some(at) = at else { return Ok(&[]) };
        let at = usize::try_from(at).expect("less than a window") * LOG_PAGE_BYTES;
        Ok(&self.window[at..at + LOG_PAGE_BYTES])
    }

    /// Reads at most `pages_max` pages from `page` on, up to the end of its segment.
    fn read_window(&mut self, page: u64, pages_max: u64) -> Result<()> {
        let segment = page / self.files.pages_per_segment();
        self.open(segment)?;
        self.window_pages = 0;
        let Some((_, Some((file, pages)))) = &self.segment else { return Ok(()) };
        let pages = self.files.pages_per_segment().min(*pages);
        let left = pages.saturating_sub(page % self.files.pages_per_segment());
        let room = self.window.len() / LOG_PAGE_BYTES;
        let count = left.min(pages_max).min(room as u64);
        let len = usize::try_from(count).expect("less than a window") * LOG_PAGE_BYTES;
        let path = self.files.path(segment);
        file.read_once_at(&mut self.window[..len], self.files.offset(page))
            .map_err(Error::io(&path, "read"))?;
        (self.window_first, self.window_pages) = (page, count);
        Ok(())
    }

    /// Whether a segment begins with a page of its own rather than one of an earlier life.
    pub(crate) fn begins_with_its_own(&mut self, segment: u64) -> Result<bool> {
        let (number, salt) = (segment * self.files.pages_per_segment(), self.salt);
        self.read_window(number, 1)?;
        Ok(LogPage::parse(self.page(number)?, number, salt).is_some())
    }

    /// Finds the first page of the range that begins a flush, and the checksum of the page before.
    pub(crate) fn find_flush(&mut self, range: Range<u64>) -> Result<Option<(u64, u32)>> {
        let salt = self.salt;
        for number in range {
            let bytes = self.page(number)?;
            if bytes.is_empty() {
                break;
            }
            let Some(page) = LogPage::parse(bytes, number, salt) else { continue };
            let (first, previous_crc) = (page.flush_first, page.previous_crc);
            self.newest = self.newest.max(Some(first));
            if first == number {
                return Ok(Some((number, previous_crc)));
            }
        }
        Ok(None)
    }

    /// Visits pages only to learn whether they exist.
    pub(crate) fn look_at(&mut self, pages: Range<u64>) -> Result<()> {
        let (mut from, end) = (pages.start, pages.end);
        while let Some((page, _)) = self.find_flush(from..end)? {
            from = page + 1;
        }
        Ok(())
    }

    /// Assembles the flush that contains page `first`, from `skip` bytes into that page's payload
    /// on. Returns the checksum of its last page; `None` if the flush is incomplete.
    pub(crate) fn flush(
        &mut self,
        first: u64,
        previous: Option<u32>,
        mut skip: usize,
    ) -> Result<Option<u32>> {
        let salt = self.salt;
        let mut payload = std::mem::take(&mut self.payload);
        let mut starts = std::mem::take(&mut self.starts);
        payload.clear();
        starts.clear();
        let (mut previous_crc, mut flush_end) = (previous, None);
        let mut newest = self.newest;
        let mut number = first;
        let found = loop {
            let Some(page) = LogPage::parse(self.page(number)?, number, salt) else { break None };
            newest = newest.max(Some(page.flush_first));
            let end = page.flush_first + u64::from(page.flush_pages);
            // After another flush, this one must begin exactly here.
            let is_next = previous.is_none() || number > first || page.flush_first == first;
            let is_linked = previous_crc.is_none_or(|crc| crc == page.previous_crc);
            if !is_next || !is_linked || *flush_end.get_or_insert(end) != end {
                break None;
            }
            let offset = number * LOG_PAGE_BYTES as u64 + (HEADER_BYTES + skip) as u64;
            starts.push((payload.len(), LogOffset(offset)));
            payload.extend_from_slice(page.payload.get(skip..).unwrap_or_default());
            skip = 0;
            previous_crc = Some(page.crc);
            number += 1;
            if number == end {
                break Some(page.crc);
            }
        };
        (self.payload, self.starts, self.newest) = (payload, starts, newest);
        Ok(found)
    }

    /// Reads a flush, or a part of one, a second time: it must not have changed.
    fn again(&mut self, pages: Range<u64>, last_crc: u32) -> Result<Flush> {
        self.turn_to(pages.end);
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
            return Err(
                self.corrupt(LogOffset(first_page * LOG_PAGE_BYTES as u64), String::from(what))
            );
        }
        Ok(Flush { first_page, bytes })
    }
}

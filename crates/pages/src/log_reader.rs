//! Reading the log from a position to its end.
//!
//! ```text
//!   segments ─► ranges, side by side
//!            ─► window: 256 KiB, used again and again ─► pages: number, salt, checksum, chain
//!            ─► payload of a whole flush, put together ─► groups
//! ```
//!
//! [`LogFiles::scan`] gives the groups of every whole flush from a position on, and tells the end of
//! the log from damage in it: a bad page is damage if any page after it was written after it had
//! become durable, or if the master record knows of it.
//!
//! A restart waits for this, so the log is cut into ranges that are read side by side, each from the
//! first flush that begins in it to the last, and joined by their checksums. And a byte is touched as
//! few times as can be: read into memory that is in the processor's cache, summed there, and put
//! beside the rest of its flush.

use std::io;
use std::ops::Range;

use env::{Access, File};

use crate::error::{Error, Result};
use crate::log_files::LogFiles;
use crate::log_page::{self, Flush, Group, HEADER_BYTES, LOG_PAGE_BYTES, LogPage};
use crate::position::Lsn;

/// What is read at once: it fits the processor's cache beside what is made of it.
const WINDOW_BYTES: usize = 256 << 10;
const WINDOW_PAGES: u64 = (WINDOW_BYTES / LOG_PAGE_BYTES) as u64;

/// Where a log ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogEnd {
    /// The page that the next flush begins with.
    pub(crate) next_page: u64,
    /// The checksum of the page before.
    pub(crate) previous_crc: u32,
    /// The first page of the flush before.
    last_flush: u64,
}

pub(crate) fn page_of(lsn: Lsn) -> u64 {
    lsn.0 / LOG_PAGE_BYTES as u64
}

/// Who reads the ranges of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// One thread, range after range.
    One,
    /// A thread for each.
    SideBySide,
}

/// While one waits for the device another sums what it has read.
const RANGES_A_PROCESSOR: u64 = 2;
/// One thread cuts the log as well: what is tested is what runs.
const RANGES_OF_ONE: u64 = 3;

/// What came of the flushes that begin in a range of pages.
struct RangeRead {
    /// The first of them, and the checksum of the page before it; nothing in the first range,
    /// which may begin in the middle of one.
    first: Option<(u64, u32)>,
    end: LogEnd,
}

impl LogFiles {
    /// Gives the groups from `start` on, which is the LSN of one, to `visit`, up to the last whole
    /// flush. Pages before `durable_end` must be there.
    ///
    /// The log is read in ranges. What `visit` makes of one goes to what `gather` has made for a
    /// range of about so many bytes; they are given in the order of the log.
    pub(crate) fn scan<T: Send>(
        &self,
        salt: u64,
        start: Lsn,
        durable_end: Lsn,
        readers: Readers,
        gather: impl Fn(u64) -> T,
        visit: impl Fn(&mut T, Group<'_>) -> Visited + Sync,
    ) -> Result<(LogEnd, Vec<T>)> {
        let (ranges, range_bytes) = self.ranges(salt, page_of(start), readers)?;
        let mut gathered: Vec<T> = ranges.iter().map(|_| gather(range_bytes)).collect();
        let read = |range: &Range<u64>, gathered: &mut T| {
            self.read_range(salt, start, range, |group| visit(gathered, group))
        };
        let work = ranges.iter().zip(&mut gathered);
        let reads: Vec<Result<RangeRead>> = match readers {
            Readers::One => work.map(|(range, gathered)| read(range, gathered)).collect(),
            Readers::SideBySide => std::thread::scope(|scope| {
                let read = &read;
                let threads: Vec<_> = work
                    .map(|(range, gathered)| scope.spawn(move || read(range, gathered)))
                    .collect();
                let ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
                ended.map(|read| read.expect("an invariant of the log is broken")).collect()
            }),
        };
        let (end, joined) = join(&ranges, reads)?;
        gathered.truncate(joined);
        Reader::new(self, salt).prove_end(end.next_page, durable_end)?;
        Ok((end, gathered))
    }

    /// Where to cut the pages from `first` to about the last that was written, and how many bytes
    /// there are between two cuts. Each segment's first page tells whether the log reaches it.
    fn ranges(&self, salt: u64, first: u64, readers: Readers) -> Result<(Vec<Range<u64>>, u64)> {
        let count = match readers {
            Readers::One => RANGES_OF_ONE,
            Readers::SideBySide => {
                let processors = std::thread::available_parallelism();
                RANGES_A_PROCESSOR * processors.map_or(1, |count| count.get() as u64)
            }
        };
        let mut reader = Reader::new(self, salt);
        let mut segment = first / self.pages_per_segment();
        while reader.begins_with_its_own(segment + 1)? {
            segment += 1;
        }
        // Nobody knows how full the last one is.
        let end = segment * self.pages_per_segment() + self.pages_per_segment() / 2;
        let share = end.saturating_sub(first).div_ceil(count).max(1);
        let cut = |i: u64| if i == count { u64::MAX } else { first + i * share };
        Ok(((0..count).map(|i| cut(i)..cut(i + 1)).collect(), share * LOG_PAGE_BYTES as u64))
    }

    /// Gives the groups of all flushes that begin in the range to `visit`, up to one that is not
    /// whole or does not go on from the one before.
    fn read_range(
        &self,
        salt: u64,
        start: Lsn,
        range: &Range<u64>,
        mut visit: impl FnMut(Group<'_>) -> Visited,
    ) -> Result<RangeRead> {
        let mut reader = Reader::new(self, salt);
        let is_first = range.start == page_of(start);
        let first = if is_first { None } else { reader.find_flush(range.clone())? };
        let begin = first.map_or(range.start, |(page, _)| page);
        let mut skip = if is_first { reader.skip_to(start)? } else { 0 };
        let mut end = LogEnd { next_page: begin, previous_crc: 0, last_flush: begin };
        while (is_first || first.is_some()) && end.next_page < range.end {
            let previous = (end.next_page > begin).then_some(end.previous_crc);
            let Some(crc) = reader.flush(end.next_page, previous, skip)? else { break };
            log_page::groups(&reader.payload, &reader.starts, &mut visit)
                .map_err(|(lsn, what)| reader.corrupt(lsn, what))?;
            let after = end.next_page + reader.starts.len() as u64;
            end = LogEnd { next_page: after, previous_crc: crc, last_flush: end.next_page };
            skip = 0;
        }
        Ok(RangeRead { first, end })
    }

    /// Writes and syncs the last flush again, which may be only in the kernel's cache.
    pub(crate) fn rewrite_last(&mut self, salt: u64, end: LogEnd) -> Result<()> {
        if end.last_flush == end.next_page {
            return Ok(());
        }
        let pages = end.last_flush..end.next_page;
        let flush = Reader::new(self, salt).again(pages, end.previous_crc)?;
        self.write(&flush)
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

/// Puts ranges together: the end of the log, and how many of them it reaches. Where one does not go
/// on from the one before the log ends, or is damaged.
fn join(ranges: &[Range<u64>], reads: Vec<Result<RangeRead>>) -> Result<(LogEnd, usize)> {
    let mut log_end: Option<LogEnd> = None;
    for (at, (range, read)) in ranges.iter().zip(reads).enumerate() {
        let RangeRead { first, end } = read?;
        let Some(before) = log_end else {
            log_end = Some(end);
            continue;
        };
        let goes_on = match first {
            Some((page, crc)) => (page, crc) == (before.next_page, before.previous_crc),
            // A flush that begins before it goes on past it.
            None => before.next_page >= range.end,
        };
        if !goes_on {
            return Ok((before, at));
        }
        if end.last_flush < end.next_page {
            log_end = Some(end);
        }
    }
    Ok((log_end.expect("there is a range"), ranges.len()))
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
            self.read_window(page, WINDOW_PAGES)?;
        }
        let at = page.checked_sub(self.window_first).filter(|at| *at < self.window_pages);
        let Some(at) = at else { return Ok(&[]) };
        let at = usize::try_from(at).expect("less than a window") * LOG_PAGE_BYTES;
        Ok(&self.window[at..at + LOG_PAGE_BYTES])
    }

    /// Reads so many pages from `page` on, or those that are left of its segment.
    fn read_window(&mut self, page: u64, pages_max: u64) -> Result<()> {
        let segment = page / self.files.pages_per_segment();
        self.open(segment)?;
        self.window_pages = 0;
        let Some((_, Some((file, pages)))) = &self.segment else { return Ok(()) };
        let pages = self.files.pages_per_segment().min(*pages);
        let left = pages.saturating_sub(page % self.files.pages_per_segment());
        let count = left.min(pages_max);
        let len = usize::try_from(count).expect("less than a window") * LOG_PAGE_BYTES;
        let path = self.files.path(segment);
        file.read_exact_at(&mut self.window[..len], self.files.offset(page))
            .map_err(Error::io(&path, "read"))?;
        (self.window_first, self.window_pages) = (page, count);
        Ok(())
    }

    /// Whether a segment begins with a page of its own, and not with one of an earlier life.
    fn begins_with_its_own(&mut self, segment: u64) -> Result<bool> {
        let (number, salt) = (segment * self.files.pages_per_segment(), self.salt);
        self.read_window(number, 1)?;
        Ok(LogPage::parse(self.page(number)?, number, salt).is_some())
    }

    /// The first page of the range that begins a flush, and the checksum of the page before.
    fn find_flush(&mut self, range: Range<u64>) -> Result<Option<(u64, u32)>> {
        let salt = self.salt;
        for number in range {
            let bytes = self.page(number)?;
            if bytes.is_empty() {
                break;
            }
            if let Some(page) = LogPage::parse(bytes, number, salt)
                && page.flush_first == number
            {
                return Ok(Some((number, page.previous_crc)));
            }
        }
        Ok(None)
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::log_page::{FIRST_LSN, GroupKind, LogBuffer};
    use env::Disk;
    use env_sim::{Faults, SimDisk};

    const SALT: u64 = 7;

    fn lsns(files: &LogFiles, start: Lsn, readers: Readers) -> Result<Vec<Lsn>> {
        let visit = |lsns: &mut Vec<Lsn>, group: Group<'_>| {
            lsns.push(group.lsn);
            Ok(())
        };
        let scanned = files.scan(SALT, start, Lsn(0), readers, |_| Vec::new(), visit);
        scanned.map(|(_, ranges)| ranges.concat())
    }

    #[test]
    fn a_log_read_in_ranges_is_what_was_written_and_damage_in_any_is_found() {
        let disk = SimDisk::new(1, Faults::default());
        let dir = Path::new("/log");
        disk.create_dir_all(dir).expect("no faults");
        let mut files = LogFiles::new(Arc::new(disk.clone()), dir, 4 * LOG_PAGE_BYTES as u64);
        let mut buffer = LogBuffer::new(SALT, 1, 0);
        let mut written = Vec::new();
        let mut last_flush = 0;
        // One is longer than the ranges of a log that it is the half of.
        for groups in [1, 3, 2, 1, 30, 1, 1, 9, 2, 4, 1, 17, 3] {
            for i in 0..groups {
                written.push(buffer.append(GroupKind::Commit, &vec![1; 500 + 40 * i]));
            }
            let flush = buffer.seal();
            last_flush = flush.first_page;
            files.write(&flush).expect("no faults");
            for readers in [Readers::One, Readers::SideBySide] {
                let read = lsns(&files, FIRST_LSN, readers).expect("not damaged");
                assert_eq!(read, written);
                let middle = written.len() / 2;
                let read = lsns(&files, written[middle], readers).expect("not damaged");
                assert_eq!(read, written[middle..]);
            }
        }
        let end = page_of(buffer.next_lsn());
        for page in 1..end {
            let path = files.path(page / files.pages_per_segment());
            let file = disk.open(&path, Access::ReadWrite).expect("it is there");
            let at = files.offset(page) + 1000;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("no faults");
            file.write_all_at(&[!byte[0]], at).expect("no faults");
            let read = lsns(&files, FIRST_LSN, Readers::One);
            if page < last_flush {
                assert!(matches!(read, Err(Error::Corrupt { .. })), "page {page}: {read:?}");
            } else {
                let before = Lsn(last_flush * LOG_PAGE_BYTES as u64);
                let kept = written.partition_point(|lsn| *lsn < before);
                assert_eq!(read.expect("it may never have been durable"), written[..kept]);
            }
            file.write_all_at(&byte, at).expect("no faults");
        }
    }
}

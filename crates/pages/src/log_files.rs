//! The log's files: segments of a fixed size, each named after its number.
//!
//! ```text
//!   log page n is in segment n / (pages a segment)    DIR/00000000.log  DIR/00000001.log  …
//! ```
//!
//! A segment has its full size from the start: a new one is filled with zeros, and one that is no
//! longer needed gets the number after the last, contents and all. So a flush overwrites what the
//! file system has long allocated, and its sync has no metadata to write. What is left of an
//! earlier life is no danger: every page says its number, counted over the whole log, and is taken
//! only where that number belongs.
//!
//! [`LogFiles::write`] is the only way in: it writes a flush and syncs it, and a new segment's
//! name too. [`LogFiles::scan`] is the only way out: it gives the groups of every whole flush from
//! a position on, and tells the end of the log from damage in it: a bad page is damage if any
//! page after it was written after it had become durable, or if the master record knows of it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Access, Disk, File};

use crate::error::{Error, Result};
use crate::log_page::{self, Flush, Group, HEADER_BYTES, LOG_PAGE_BYTES, LogPage};
use crate::position::Lsn;

/// The segments of a log.
pub(crate) struct LogFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    pages_per_segment: u64,
    open: BTreeMap<u64, Box<dyn File>>,
    /// The segment after the last that has been written to.
    next_new: u64,
}

/// Zeros are written so many bytes at a time.
const ZEROS_BYTES: usize = 1 << 20;

/// Where a log ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogEnd {
    /// The page that the next flush begins with.
    pub(crate) next_page: u64,
    /// The checksum of the page before.
    pub(crate) previous_crc: u32,
}

fn page_of(lsn: Lsn) -> u64 {
    lsn.0 / LOG_PAGE_BYTES as u64
}

impl LogFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, segment_bytes: u64) -> Self {
        let pages_per_segment = (segment_bytes / LOG_PAGE_BYTES as u64).max(1);
        Self { disk, dir: dir.to_path_buf(), pages_per_segment, open: BTreeMap::new(), next_new: 0 }
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(format!("{segment:08}.log"))
    }

    fn offset(&self, page: u64) -> u64 {
        page % self.pages_per_segment * LOG_PAGE_BYTES as u64
    }

    /// Writes and syncs a flush. After an error nothing may be written any more.
    pub(crate) fn write(&mut self, flush: &Flush) -> Result<()> {
        let mut page = flush.first_page;
        let mut bytes = &flush.bytes[..];
        while !bytes.is_empty() {
            let segment = page / self.pages_per_segment;
            let room = self.pages_per_segment - page % self.pages_per_segment;
            let count = room.min((bytes.len() / LOG_PAGE_BYTES) as u64);
            let len = usize::try_from(count).expect("not more than there is") * LOG_PAGE_BYTES;
            let (offset, path) = (self.offset(page), self.path(segment));
            let file = self.file_to_write(segment)?;
            file.write_durably_at(&bytes[..len], offset).map_err(Error::io(&path, "write"))?;
            page += count;
            bytes = &bytes[len..];
        }
        Ok(())
    }

    fn file_to_write(&mut self, segment: u64) -> Result<&dyn File> {
        if !self.open.contains_key(&segment) {
            let path = self.path(segment);
            let file = match self.disk.open(&path, Access::ReadWrite) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.create(&path),
                other => other,
            };
            let file = file.map_err(Error::io(&path, "open"))?;
            self.fill(file.as_ref(), &path)?;
            self.disk.sync_dir(&self.dir).map_err(Error::io(&self.dir, "sync"))?;
            // Only the newest segment is written; the others were synced with their last page.
            self.open.clear();
            self.open.insert(segment, file);
            self.next_new = self.next_new.max(segment + 1);
        }
        Ok(self.open[&segment].as_ref())
    }

    /// Gives a segment its full size, in zeros that are really written: space that was merely
    /// reserved would have to be marked as written by the sync of each flush.
    fn fill(&self, file: &dyn File, path: &Path) -> Result<()> {
        let end = self.pages_per_segment * LOG_PAGE_BYTES as u64;
        let mut at = file.len().map_err(Error::io(path, "measure"))?;
        if at >= end {
            return Ok(());
        }
        let zeros = vec![0; ZEROS_BYTES];
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(ZEROS_BYTES);
            file.write_all_at(&zeros[..count], at).map_err(Error::io(path, "write"))?;
            at += count as u64;
        }
        file.sync_data().map_err(Error::io(path, "sync"))
    }

    /// Gives the segments that end before `start` to what will be written next, or removes them
    /// if more are waiting for that than this checkpoint set free. They may come back under their
    /// old names after a crash: nobody reads them then. Their new names are durable before
    /// anything is written to them.
    pub(crate) fn recycle_before(&mut self, start: Lsn) -> Result<()> {
        let first = page_of(start) / self.pages_per_segment;
        let segments = self.segments()?;
        let free: Vec<u64> = segments.iter().copied().filter(|number| *number < first).collect();
        let mut spare_count = segments.iter().filter(|number| **number >= self.next_new).count();
        let mut next = segments.last().map_or(0, |last| last + 1).max(self.next_new);
        for segment in &free {
            self.open.remove(segment);
            let path = self.path(*segment);
            if self.next_new > first && spare_count < free.len() {
                let to = self.path(next);
                self.disk.rename(&path, &to).map_err(Error::io(&path, "rename"))?;
                spare_count += 1;
                next += 1;
            } else {
                self.disk.remove(&path).map_err(Error::io(&path, "remove"))?;
            }
        }
        Ok(())
    }

    /// The numbers of the segments there are, ascending.
    pub(crate) fn segments(&self) -> Result<Vec<u64>> {
        let names = self.disk.list(&self.dir).map_err(Error::io(&self.dir, "list"))?;
        let number = |name: &std::ffi::OsString| {
            let digits = name.to_str()?.strip_suffix(".log")?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let mut segments: Vec<u64> = names.iter().filter_map(number).collect();
        segments.sort_unstable();
        Ok(segments)
    }

    fn read_segment(&self, segment: u64) -> Result<Vec<u8>> {
        let path = self.path(segment);
        let file = match self.disk.open(&path, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(Error::io(&path, "open"))?,
        };
        file.advise_sequential();
        let len = file.len().map_err(Error::io(&path, "measure"))?;
        let most = self.pages_per_segment * LOG_PAGE_BYTES as u64;
        let len = usize::try_from(len.min(most)).expect("a segment fits in memory");
        let mut bytes = vec![0; len / LOG_PAGE_BYTES * LOG_PAGE_BYTES];
        file.read_exact_at(&mut bytes, 0).map_err(Error::io(&path, "read"))?;
        Ok(bytes)
    }

    /// Gives the groups from `start` on, which is the LSN of one, to `visit`, up to the last whole
    /// flush. Pages before `durable_end` must be there. The last flush, which may be only in the
    /// kernel's cache, is written and synced again if `rewrite`.
    pub(crate) fn scan(
        &mut self,
        salt: u64,
        start: Lsn,
        durable_end: Lsn,
        rewrite: bool,
        mut visit: impl FnMut(Group<'_>) -> std::result::Result<(), String>,
    ) -> Result<LogEnd> {
        let mut reader = Reader { files: self, salt, segment: None };
        let at = usize::try_from(start.0 % LOG_PAGE_BYTES as u64).expect("less than a page");
        let Some(first_skip) = at.checked_sub(HEADER_BYTES) else {
            let what = "the log is to be read from where no group can begin";
            return Err(reader.corrupt(start, String::from(what)));
        };
        let mut page = page_of(start);
        let mut previous_crc = None;
        let mut last: Option<Flush> = None;
        loop {
            let read = reader.flush(page, previous_crc)?;
            let Some(read) = read else { break };
            let skip = if page == page_of(start) { first_skip } else { 0 };
            let payload = read.payload.get(skip..).unwrap_or_default();
            let starts: Vec<(usize, Lsn)> = (read.starts.iter())
                .map(|(at, lsn)| match at.checked_sub(skip) {
                    Some(at) => (at, *lsn),
                    None => (0, Lsn(lsn.0 + (skip - at) as u64)),
                })
                .collect();
            log_page::groups(payload, &starts, &mut visit)
                .map_err(|(lsn, what)| reader.corrupt(lsn, what))?;
            page += (read.bytes.len() / LOG_PAGE_BYTES) as u64;
            previous_crc = Some(read.crc);
            last = Some(Flush { first_page: read.first_page, bytes: read.bytes });
        }
        reader.prove_end(page, durable_end)?;
        if let Some(flush) = last.filter(|_| rewrite) {
            self.write(&flush)?;
        }
        Ok(LogEnd { next_page: page, previous_crc: previous_crc.unwrap_or(0) })
    }
}

/// A flush that was read, from the page on that was asked for.
struct ReadFlush {
    first_page: u64,
    bytes: Vec<u8>,
    payload: Vec<u8>,
    starts: Vec<(usize, Lsn)>,
    crc: u32,
}

struct Reader<'a> {
    files: &'a LogFiles,
    salt: u64,
    segment: Option<(u64, Vec<u8>)>,
}

impl Reader<'_> {
    fn corrupt(&self, lsn: Lsn, what: String) -> Error {
        let page = page_of(lsn);
        let path = self.files.path(page / self.files.pages_per_segment);
        let offset = self.files.offset(page) + lsn.0 % LOG_PAGE_BYTES as u64;
        Error::corrupt(&path, offset, what)
    }

    /// The bytes of a page; empty past the end of its file.
    fn page(&mut self, page: u64) -> Result<&[u8]> {
        let segment = page / self.files.pages_per_segment;
        if self.segment.as_ref().is_none_or(|(number, _)| *number != segment) {
            self.segment = Some((segment, self.files.read_segment(segment)?));
        }
        let at = usize::try_from(self.files.offset(page)).expect("a segment fits in memory");
        let (_, bytes) = self.segment.as_ref().expect("it was just read");
        Ok(bytes.get(at..at + LOG_PAGE_BYTES).unwrap_or_default())
    }

    /// The flush that has page `first`, from that page on; `None` if it is not whole.
    fn flush(&mut self, first: u64, mut previous_crc: Option<u32>) -> Result<Option<ReadFlush>> {
        let salt = self.salt;
        let mut read: Option<(ReadFlush, u64)> = None;
        let mut number = first;
        loop {
            let bytes = self.page(number)?;
            let Some(page) = LogPage::parse(bytes, number, salt) else { return Ok(None) };
            if previous_crc.is_some_and(|crc| crc != page.previous_crc) {
                return Ok(None);
            }
            let end = page.flush_first + u64::from(page.flush_pages);
            let (flush, flush_end) = match &mut read {
                // Going on after another flush, this one must begin here.
                None if previous_crc.is_some() && page.flush_first != first => return Ok(None),
                None => {
                    let flush = ReadFlush {
                        first_page: first,
                        bytes: Vec::new(),
                        payload: Vec::new(),
                        starts: Vec::new(),
                        crc: 0,
                    };
                    read.insert((flush, end))
                }
                Some(read) => read,
            };
            if end != *flush_end {
                return Ok(None);
            }
            let lsn = number * LOG_PAGE_BYTES as u64 + HEADER_BYTES as u64;
            flush.starts.push((flush.payload.len(), Lsn(lsn)));
            flush.payload.extend_from_slice(page.payload);
            flush.crc = page.crc;
            flush.bytes.extend_from_slice(bytes);
            previous_crc = Some(page.crc);
            number += 1;
            if number == end {
                return Ok(read.map(|(flush, _)| flush));
            }
        }
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
        let per_segment = self.files.pages_per_segment;
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
    use super::*;
    use crate::log_page::{FIRST_LSN, GroupKind, LogBuffer};
    use env_sim::{Faults, SimDisk};

    /// A flush of three pages of groups of this length.
    fn flush(body_bytes: usize) -> Flush {
        let mut buffer = LogBuffer::new(7, 1, 0);
        while buffer.len() < 3 * LOG_PAGE_BYTES {
            buffer.append(GroupKind::Commit, &vec![1; body_bytes]);
        }
        buffer.seal()
    }

    #[test]
    fn pages_of_a_flush_that_was_cut_off_do_not_mix_with_later_ones() {
        let disk = SimDisk::new(1, Faults::default());
        let dir = Path::new("/log");
        disk.create_dir_all(dir).expect("no faults");
        let mut files = LogFiles::new(Arc::new(disk), dir, 8192);
        let (old, mut new) = (flush(900), flush(901));
        assert_eq!(old.bytes.len(), new.bytes.len());
        let mut count = 0;
        let mut scan = |files: &mut LogFiles| {
            count = 0;
            let end = files.scan(7, FIRST_LSN, Lsn(0), false, |_| {
                count += 1;
                Ok(())
            });
            (end.expect("not damaged").next_page, count)
        };
        files.write(&new).expect("no faults");
        assert_eq!(scan(&mut files).0, 4);
        for page in 0..3 {
            let range = page * LOG_PAGE_BYTES..(page + 1) * LOG_PAGE_BYTES;
            let kept = new.bytes[range.clone()].to_vec();
            new.bytes[range.clone()].copy_from_slice(&old.bytes[range.clone()]);
            files.write(&new).expect("no faults");
            assert_eq!(scan(&mut files), (1, 0), "page {page} is the older flush's");
            new.bytes[range].copy_from_slice(&kept);
        }
    }

    #[test]
    fn a_segment_of_an_earlier_life_is_not_read_again() {
        let disk = SimDisk::new(1, Faults::default());
        let dir = Path::new("/log");
        disk.create_dir_all(dir).expect("no faults");
        let mut files = LogFiles::new(Arc::new(disk.clone()), dir, 4 * LOG_PAGE_BYTES as u64);
        let mut buffer = LogBuffer::new(7, 1, 0);
        let mut starts = Vec::new();
        let mut flush_one = |files: &mut LogFiles| {
            starts.push(buffer.append(GroupKind::Commit, &[9; 700]));
            files.write(&buffer.seal()).expect("no faults");
            *starts.last().expect("pushed")
        };
        let start = (0..13).map(|_| flush_one(&mut files)).last().expect("thirteen");
        files.recycle_before(start).expect("no faults");
        assert_eq!(files.segments().expect("no faults"), [3, 4, 5, 6]);
        // Every page of the spare ones is whole, of this log, and of another place in it.
        for written in 1..=12 {
            let mut count = 0;
            let end = files.scan(7, start, Lsn(0), false, |_| {
                count += 1;
                Ok(())
            });
            assert_eq!((end.expect("not damaged").next_page, count), (13 + written, written));
            flush_one(&mut files);
        }
        let names = files.segments().expect("no faults");
        assert_eq!(names, [3, 4, 5, 6], "written over in place");
        // A write that was lost leaves the old page, and the later ones prove that it is damage.
        let lost = dir.join("00000004.log");
        let file = disk.open(&lost, Access::ReadWrite).expect("it is there");
        let mut old = LogBuffer::new(7, 1, 0);
        old.append(GroupKind::Commit, &[8; 700]);
        file.write_all_at(&old.seal().bytes, LOG_PAGE_BYTES as u64).expect("no faults");
        let scanned = files.scan(7, start, Lsn(0), false, |_| Ok(()));
        assert!(matches!(scanned, Err(Error::Corrupt { .. })));
    }
}

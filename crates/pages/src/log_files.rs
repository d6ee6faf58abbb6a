//! The log's files: segments of a fixed size, each named after its number.
//!
//! ```text
//!   log page n is in segment n / (pages a segment)    DIR/00000000.log  DIR/00000001.log  …
//! ```
//!
//! A segment has its full size from the start: a new one is filled with zeros, and one no longer
//! needed is renamed to the next number, contents included. So a flush overwrites space that was
//! allocated long ago, and its sync has no metadata to write. Remains of an earlier life are
//! harmless: every page contains its number, counted over the whole log, and is accepted only at
//! that place.
//!
//! [`LogFiles::write`] is the only way in: it writes and syncs a flush and, for a new segment, its
//! name. The way out is in [`crate::log_scan`].

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Access, Disk, File};

use crate::error::{Error, Result};
use crate::log_page::{Flush, LOG_PAGE_BYTES, page_of};
use crate::position::LogOffset;

/// The segments of a log.
pub(crate) struct LogFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    pages_per_segment: u64,
    open: BTreeMap<u64, Box<dyn File>>,
    /// The segment after the last one written.
    next_new: u64,
}

/// Bytes of zeros written at a time.
const ZEROS_BYTES: usize = 1 << 20;

impl LogFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, segment_bytes: u64) -> Self {
        let pages_per_segment = (segment_bytes / LOG_PAGE_BYTES as u64).max(1);
        Self { disk, dir: dir.to_path_buf(), pages_per_segment, open: BTreeMap::new(), next_new: 0 }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    pub(crate) fn pages_per_segment(&self) -> u64 {
        self.pages_per_segment
    }

    pub(crate) fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(format!("{segment:08}.log"))
    }

    /// The offset of a page in its segment.
    pub(crate) fn offset(&self, page: u64) -> u64 {
        page % self.pages_per_segment * LOG_PAGE_BYTES as u64
    }

    /// Writes and syncs a flush. After an error, the caller must not write again.
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
            // Only the newest segment is written; older ones were synced with their last page.
            self.open.clear();
            self.open.insert(segment, file);
            self.next_new = self.next_new.max(segment + 1);
        }
        Ok(self.open[&segment].as_ref())
    }

    /// Fills a segment with written zeros. If space were merely reserved, the sync of each flush
    /// would have to mark it as written.
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

    /// Recycles the segments that end before `start`, or removes those beyond what this checkpoint
    /// freed. After a crash they may reappear under their old names, where recovery does not read
    /// them. The new names are durable before the segments are written to.
    pub(crate) fn recycle_before(&mut self, start: LogOffset) -> Result<()> {
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

    /// The numbers of all segments, ascending.
    ///
    /// # Errors
    /// [`crate::FileError::Corrupt`] if a file has a segment number that no log can reach.
    pub(crate) fn segments(&self) -> Result<Vec<u64>> {
        let names = self.disk.list(&self.dir).map_err(Error::io(&self.dir, "list"))?;
        let number_max = u64::MAX / (self.pages_per_segment * LOG_PAGE_BYTES as u64) - 1;
        let mut segments = Vec::new();
        for name in &names {
            let Some(digits) = name.to_str().and_then(|name| name.strip_suffix(".log")) else {
                continue;
            };
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            match digits.parse() {
                Ok(number) if number <= number_max => segments.push(number),
                Ok(_) | Err(_) => {
                    let what = "this segment is beyond every log; remove the file if it is not one";
                    return Err(Error::corrupt(&self.dir.join(name), 0, what));
                }
            }
        }
        segments.sort_unstable();
        Ok(segments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileError;
    use crate::log_page::{FIRST_OFFSET, Group, GroupKind, LogBuffer};
    use crate::log_reader::Visited;
    use crate::log_scan::{Gather, Readers};
    use env_sim::{Faults, SimDisk};

    struct Count;

    impl Gather for Count {
        type Gathered = u64;

        fn begin(&self, _bytes: usize) -> u64 {
            0
        }

        fn visit(&self, count: &mut u64, _group: &Group<'_>) -> Visited {
            *count += 1;
            Ok(())
        }
    }

    /// The page after the log, and the number of groups.
    fn count_groups(files: &LogFiles, start: LogOffset) -> Result<(u64, u64)> {
        let mut buffer = Readers::One.buffer(files.disk());
        let (end, counts) =
            files.scan(7, start, LogOffset(0), Readers::One, &mut buffer, &Count)?;
        Ok((end.next_page, counts.iter().sum()))
    }

    /// A flush of three pages with groups of this length.
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
        let scan = |files: &LogFiles| count_groups(files, FIRST_OFFSET).expect("not damaged");
        files.write(&new).expect("no faults");
        assert_eq!(scan(&files).0, 4);
        for page in 0..3 {
            let range = page * LOG_PAGE_BYTES..(page + 1) * LOG_PAGE_BYTES;
            let kept = new.bytes[range.clone()].to_vec();
            new.bytes[range.clone()].copy_from_slice(&old.bytes[range.clone()]);
            files.write(&new).expect("no faults");
            assert_eq!(scan(&files), (1, 0), "page {page} is the older flush's");
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
        // Every page of the spare segments is intact and of this log, but belongs elsewhere in it.
        for written in 1..=12 {
            let counted = count_groups(&files, start).expect("not damaged");
            assert_eq!(counted, (13 + written, written));
            flush_one(&mut files);
        }
        let names = files.segments().expect("no faults");
        assert_eq!(names, [3, 4, 5, 6], "written over in place");
        // A lost write leaves the old page, and later pages prove that this is damage.
        let lost = dir.join("00000004.log");
        let file = disk.open(&lost, Access::ReadWrite).expect("it is there");
        let mut old = LogBuffer::new(7, 1, 0);
        old.append(GroupKind::Commit, &[8; 700]);
        file.write_all_at(&old.seal().bytes, LOG_PAGE_BYTES as u64).expect("no faults");
        let scanned = count_groups(&files, start);
        assert!(matches!(scanned, Err(Error::File(FileError::Corrupt { .. }))));
    }

    #[test]
    fn a_name_beyond_every_log_is_an_error() {
        for number in [u64::MAX.to_string(), format!("9{}", u64::MAX), "2251799813685247".into()] {
            let disk = SimDisk::new(1, Faults::default());
            let dir = Path::new("/log");
            disk.create_dir_all(dir).expect("no faults");
            for other in ["7.log", "x.log", ".log", "8"] {
                disk.create(&dir.join(other)).expect("no faults");
            }
            let files = LogFiles::new(Arc::new(disk.clone()), dir, 8192);
            assert_eq!(files.segments().expect("no faults"), [7]);
            let named = dir.join(format!("{number}.log"));
            disk.create(&named).expect("no faults");
            let Err(Error::File(FileError::Corrupt { path, .. })) = files.segments() else {
                panic!("{number}")
            };
            assert_eq!(path, named);
        }
    }
}

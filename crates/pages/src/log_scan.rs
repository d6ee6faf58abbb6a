//! The log from a position to its end, read by several readers in parallel.
//!
//! ```text
//!   segments ─► ranges of 4 MiB ─► a free reader takes the next ─► the result of each range
//!                                                                   │ joined by their checksums
//!                      the ranges behind the end prove that it is ◄─┘ the end
//! ```
//!
//! [`LogFiles::scan`] returns the groups of every complete flush from a position on, and tells the
//! end of the log from damage: a bad page is damage if a later page was written after it had become
//! durable, or if the master record knows of it.
//!
//! A restart waits for this code. A flush belongs to the range in which it begins. A range is
//! joined to those before it if its first flush continues their last; at the first range that does
//! not, the log ends or is damaged. While one reader waits for the device, another checksums what
//! it has read. The same readers visit segments that may hold nothing of the log, because the end
//! of the log is unknown until all is read.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use env::{Disk, ReadBuffer};

use crate::error::Result;
use crate::log_files::LogFiles;
use crate::log_page::{self, Group, LOG_PAGE_BYTES, page_of};
use crate::log_reader::{LogEnd, Reader, Visited, WINDOW_BYTES};
use crate::position::LogOffset;

/// The threads that read a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// One thread, one range after another.
    One,
    /// Several threads per processor.
    SideBySide,
}

impl Readers {
    fn count(self) -> usize {
        let processors = std::thread::available_parallelism();
        match self {
            Self::One => 1,
            Self::SideBySide => READERS_A_PROCESSOR * processors.map_or(1, NonZero::get),
        }
    }

    /// Memory for all readers: reused many times, it stays in the processor's cache.
    pub(crate) fn buffer(self, disk: &dyn Disk) -> ReadBuffer {
        disk.read_buffer(self.count() * WINDOW_BYTES)
    }
}

/// While one reader waits for the device, another checksums.
const READERS_A_PROCESSOR: usize = 2;
/// Pages that a reader takes at a time.
const RANGE_PAGES: u64 = (4 << 20) / LOG_PAGE_BYTES as u64;
/// A single thread cuts the log as well, so that tests cover what runs in production.
const RANGES_A_SEGMENT_OF_ONE: u64 = 3;

/// A consumer of the groups of a log.
pub(crate) trait Gather: Sync {
    /// The result of one range.
    type Gathered: Send;

    /// Begins a range of about this many bytes.
    fn begin(&self, bytes: usize) -> Self::Gathered;

    /// Visits the next group of the range.
    fn visit(&self, gathered: &mut Self::Gathered, group: &Group<'_>) -> Visited;

    /// Ends the range after its last group.
    fn end(&self, _gathered: &mut Self::Gathered) {}
}

/// The result of the flushes that begin in a range of pages.
struct RangeRead<T> {
    /// The first of them, and the checksum of the page before it. `None` in the first range, which
    /// may begin in the middle of a flush.
    first: Option<(u64, u32)>,
    end: LogEnd,
    /// The first page of the newest flush that has a page in the range.
    newest: Option<u64>,
    gathered: T,
}

/// A scan in progress.
struct Scan<'a, G> {
    files: &'a LogFiles,
    salt: u64,
    start: LogOffset,
    gather: &'a G,
}

impl LogFiles {
    /// Passes the groups from `start` on to `gather`, up to the last complete flush. `start` is the
    /// log offset of a group. Returns the result of each range, in the order of the log. Pages
    /// before `durable_end` must exist. `buffer` is the memory of the readers.
    pub(crate) fn scan<G: Gather>(
        &self,
        salt: u64,
        start: LogOffset,
        durable_end: LogOffset,
        readers: Readers,
        buffer: &mut [u8],
        gather: &G,
    ) -> Result<(LogEnd, Vec<G::Gathered>)> {
        let mut cutter = Reader::new(self, salt, buffer);
        let ranges = self.ranges(&mut cutter, page_of(start), durable_end, readers)?;
        let scan = Scan { files: self, salt, start, gather };
        let reads = match readers {
            Readers::One => {
                let mut reader = Reader::new(self, salt, buffer);
                ranges.iter().map(|range| scan.read(&mut reader, range)).collect()
            }
            Readers::SideBySide => scan.read_side_by_side(&ranges, buffer),
        };
        let seen: Vec<Seen> = ranges
            .iter()
            .zip(&reads)
            .map(|(range, read)| Seen {
                segment: range.start / self.pages_per_segment(),
                newest: read.as_ref().ok().map(|read| read.newest),
            })
            .collect();
        let (end, gathered) = join(&ranges, reads)?;
        let mut reader = Reader::new(self, salt, buffer);
        self.prove_end(&mut reader, end.next_page, durable_end, &seen)?;
        Ok((end, gathered))
    }

    /// Cuts the pages from `first` on into ranges. They cover every segment that the log reaches
    /// and the one after; the first page of a segment tells whether the log reaches it.
    fn ranges(
        &self,
        reader: &mut Reader<'_>,
        first: u64,
        durable_end: LogOffset,
        readers: Readers,
    ) -> Result<Vec<Range<u64>>> {
        let a_segment = self.pages_per_segment();
        let range_pages = match readers {
            Readers::One => a_segment.div_ceil(RANGES_A_SEGMENT_OF_ONE),
            Readers::SideBySide => RANGE_PAGES,
        };
        let segments = self.segments()?;
        let first_segment = first / a_segment;
        // The log has reached this far; reading finds whatever was lost since then.
        let known = page_of(durable_end).saturating_sub(1) / a_segment;
        let is_there = known > first_segment && segments.binary_search(&known).is_ok();
        let mut last = if is_there { known } else { first_segment };
        while reader.begins_with_its_own(last + 1)? {
            last += 1;
        }
        let others = segments.into_iter().filter(|at| (first_segment + 1..=last + 1).contains(at));
        let mut ranges = Vec::new();
        for segment in std::iter::once(first_segment).chain(others) {
            let end = (segment + 1) * a_segment;
            let mut at = first.max(segment * a_segment);
            while at < end {
                let next = end.min(at + range_pages);
                ranges.push(at..next);
                at = next;
            }
        }
        Ok(ranges)
    }

    /// Proves that nothing durable is missing from page `end` on. The log is written front to back,
    /// so a whole segment without a page of its own has none behind it either.
    fn prove_end(
        &self,
        reader: &mut Reader<'_>,
        end: u64,
        durable_end: LogOffset,
        seen: &[Seen],
    ) -> Result<()> {
        let missing = |reader: &Reader<'_>| {
            let offset = LogOffset(end * LOG_PAGE_BYTES as u64);
            Err(reader
                .corrupt(offset, String::from("a page of the log that was durable is damaged")))
        };
        if end * (LOG_PAGE_BYTES as u64) < durable_end.0 {
            return missing(reader);
        }
        let a_segment = self.pages_per_segment();
        let end_segment = end / a_segment;
        for segment in self.segments()?.into_iter().filter(|segment| *segment >= end_segment) {
            let newest = match newest_seen(seen, segment) {
                Some(newest) => newest,
                None => {
                    reader.turn_to((segment + 1) * a_segment);
                    reader.look_at(end.max(segment * a_segment)..(segment + 1) * a_segment)?;
                    reader.newest()
                }
            };
            if newest > Some(end) {
                return missing(reader);
            }
            if newest.is_none() && segment > end_segment {
                break;
            }
        }
        Ok(())
    }
}

/// The flushes seen in a range.
struct Seen {
    segment: u64,
    /// The first page of the newest one; `None` if the range could not be read.
    newest: Option<Option<u64>>,
}

/// The newest flush of a whole segment; `None` unless all of it was read.
fn newest_seen(seen: &[Seen], segment: u64) -> Option<Option<u64>> {
    let mut of_segment = seen.iter().filter(|seen| seen.segment == segment).map(|seen| seen.newest);
    let first = of_segment.next()??;
    of_segment.try_fold(first, |newest, other| Some(newest.max(other?)))
}

impl<G: Gather> Scan<'_, G> {
    fn read_side_by_side(
        &self,
        ranges: &[Range<u64>],
        buffer: &mut [u8],
    ) -> Vec<Result<RangeRead<G::Gathered>>> {
        let next = &AtomicUsize::new(0);
        let read_some = |window| {
            let mut reader = Reader::new(self.files, self.salt, window);
            let taken = std::iter::from_fn(|| {
                let at = next.fetch_add(1, Ordering::Relaxed);
                Some((at, self.read(&mut reader, ranges.get(at)?)))
            });
            taken.collect::<Vec<_>>()
        };
        let read_some = &read_some;
        let mut reads: Vec<_> = std::thread::scope(|scope| {
            let windows = buffer.chunks_exact_mut(WINDOW_BYTES).take(ranges.len());
            let threads: Vec<_> =
                windows.map(|window| scope.spawn(move || read_some(window))).collect();
            let ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            ended.flat_map(|read| read.expect("an invariant of the log is broken")).collect()
        });
        reads.sort_unstable_by_key(|(at, _)| *at);
        reads.into_iter().map(|(_, read)| read).collect()
    }

    /// Gathers the groups of all flushes that begin in the range. Stops at the first flush that is
    /// incomplete or does not continue the one before, then looks at the pages behind it.
    fn read(&self, reader: &mut Reader<'_>, range: &Range<u64>) -> Result<RangeRead<G::Gathered>> {
        reader.turn_to(range.end);
        let is_first = range.start == page_of(self.start);
        let first = if is_first { None } else { reader.find_flush(range.clone())? };
        let begin = first.map_or(range.start, |(page, _)| page);
        let mut skip = if is_first { reader.skip_to(self.start)? } else { 0 };
        let mut end = LogEnd { next_page: begin, previous_crc: 0, last_flush: begin };
        let bytes = (range.end - range.start) * LOG_PAGE_BYTES as u64;
        let bytes = usize::try_from(bytes).expect("a range is small");
        let mut gathered = self.gather.begin(bytes);
        while (is_first || first.is_some()) && end.next_page < range.end {
            let previous = (end.next_page > begin).then_some(end.previous_crc);
            let Some(crc) = reader.flush(end.next_page, previous, skip)? else {
                reader.look_at(end.next_page..range.end)?;
                break;
            };
            log_page::groups(&reader.payload, &reader.starts, |group| {
                self.gather.visit(&mut gathered, &group)
            })
            .map_err(|(offset, what)| reader.corrupt(offset, what))?;
            let after = end.next_page + reader.starts.len() as u64;
            end = LogEnd { next_page: after, previous_crc: crc, last_flush: end.next_page };
            skip = 0;
        }
        self.gather.end(&mut gathered);
        Ok(RangeRead { first, end, newest: reader.newest(), gathered })
    }
}

/// Joins ranges. Returns the end of the log and what was gathered before it. At the first range
/// that does not continue the one before, the log ends or is damaged.
fn join<T>(ranges: &[Range<u64>], reads: Vec<Result<RangeRead<T>>>) -> Result<(LogEnd, Vec<T>)> {
    let mut joined = Vec::new();
    let mut log_end: Option<LogEnd> = None;
    for (range, read) in ranges.iter().zip(reads) {
        let RangeRead { first, end, gathered, .. } = read?;
        if let Some(before) = log_end {
            let goes_on = match first {
                Some((page, crc)) => (page, crc) == (before.next_page, before.previous_crc),
                // A flush that begins before the range continues past it.
                None => before.next_page >= range.end,
            };
            if !goes_on {
                break;
            }
        }
        if log_end.is_none() || end.last_flush < end.next_page {
            log_end = Some(end);
        }
        joined.push(gathered);
    }
    Ok((log_end.expect("there is a range"), joined))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::FileError;
    use crate::error::Error;
    use crate::log_page::{FIRST_OFFSET, GroupKind, LogBuffer};
    use env::Access;
    use env_sim::{Faults, SimDisk};

    const SALT: u64 = 7;

    struct Offsets;

    impl Gather for Offsets {
        type Gathered = Vec<LogOffset>;

        fn begin(&self, _bytes: usize) -> Vec<LogOffset> {
            Vec::new()
        }

        fn visit(&self, offsets: &mut Vec<LogOffset>, group: &Group<'_>) -> Visited {
            offsets.push(group.offset);
            Ok(())
        }
    }

    fn offsets(files: &LogFiles, start: LogOffset, readers: Readers) -> Result<Vec<LogOffset>> {
        let mut buffer = readers.buffer(files.disk());
        let scanned = files.scan(SALT, start, LogOffset(0), readers, &mut buffer, &Offsets);
        scanned.map(|(_, ranges)| ranges.concat())
    }

    fn files_with_segments_of(pages: u64) -> (SimDisk, LogFiles) {
        let disk = SimDisk::new(1, Faults::default());
        let dir = Path::new("/log");
        disk.create_dir_all(dir).expect("no faults");
        let files = LogFiles::new(Arc::new(disk.clone()), dir, pages * LOG_PAGE_BYTES as u64);
        (disk, files)
    }

    #[test]
    fn a_log_read_in_ranges_is_what_was_written_and_damage_in_any_is_found() {
        // One has ranges of two pages, the other has the whole log in one.
        for segment_pages in [4, 300] {
            let (disk, files) = files_with_segments_of(segment_pages);
            read_and_damage(&disk, files);
        }
    }

    fn read_and_damage(disk: &SimDisk, mut files: LogFiles) {
        let mut buffer = LogBuffer::new(SALT, 1, 0);
        let mut written = Vec::new();
        let mut last_flush = 0;
        // One flush is longer than the ranges of a log of which it is half.
        for groups in [1, 3, 2, 1, 30, 1, 1, 9, 2, 4, 1, 17, 3] {
            for i in 0..groups {
                written.push(buffer.append(GroupKind::Commit, &vec![1; 500 + 40 * i]));
            }
            let flush = buffer.seal();
            last_flush = flush.first_page;
            files.write(&flush).expect("no faults");
            for readers in [Readers::One, Readers::SideBySide] {
                let read = offsets(&files, FIRST_OFFSET, readers).expect("not damaged");
                assert_eq!(read, written);
                let middle = written.len() / 2;
                let read = offsets(&files, written[middle], readers).expect("not damaged");
                assert_eq!(read, written[middle..]);
            }
        }
        let end = page_of(buffer.next_offset());
        for page in 1..end {
            let path = files.path(page / files.pages_per_segment());
            let file = disk.open(&path, Access::ReadWrite).expect("it is there");
            let at = files.offset(page) + 1000;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("no faults");
            file.write_all_at(&[!byte[0]], at).expect("no faults");
            let read = offsets(&files, FIRST_OFFSET, Readers::One);
            if page < last_flush {
                assert!(
                    matches!(read, Err(Error::File(FileError::Corrupt { .. }))),
                    "page {page}: {read:?}"
                );
            } else {
                let before = LogOffset(last_flush * LOG_PAGE_BYTES as u64);
                let kept = written.partition_point(|offset| *offset < before);
                assert_eq!(read.expect("it may never have been durable"), written[..kept]);
            }
            file.write_all_at(&byte, at).expect("no faults");
        }
    }

    #[test]
    fn a_flush_that_does_not_go_on_from_the_one_before_is_none() {
        for segment_pages in [4, 300] {
            for before in 1..6 {
                let (_disk, mut files) = files_with_segments_of(segment_pages);
                let mut write = |buffer: &mut LogBuffer, pages: usize, byte: u8| {
                    (0..pages).for_each(|_| {
                        buffer.append(GroupKind::Commit, &[byte; 1990]);
                    });
                    files.write(&buffer.seal()).expect("no faults");
                };
                let mut buffer = LogBuffer::new(SALT, 1, 0);
                write(&mut buffer, before, 1);
                write(&mut buffer, 1, 2);
                // The first flush again, with other contents.
                write(&mut LogBuffer::new(SALT, 1, 0), before, 3);
                for readers in [Readers::One, Readers::SideBySide] {
                    let read =
                        offsets(&files, FIRST_OFFSET, readers).expect("the second is cut off");
                    assert_eq!(read.len(), before);
                }
            }
        }
    }
}

//! Reads the log: every entry from a position on, in order.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Access, Disk};

use super::segment::{self, Segment};
use crate::entry::{Class, Entry, Position};
use crate::error::{Error, Result};

/// Reads the log in `dir`, all of it or what comes after request `since`. The latter is for use
/// after a base backup.
///
/// With `since`, the connections open at that moment come first: their `Opened` entries, and the
/// requests of [`Class::Connection`] that established their state, at earlier positions or position
/// 0, without their completions.
///
/// The reader ends where the log ended at that moment. Calling `next` again returns what was
/// written since.
///
/// # Errors
/// If there is no log, if requests after `since` were removed, or if a file cannot be read. Damage
/// is an error of the iterator, and ends it.
pub fn read(disk: &Arc<dyn Disk>, dir: &Path, since: Option<Position>) -> Result<Reader> {
    let numbers = segment::list(&**disk, dir)?;
    let Some(oldest) = numbers.first() else { return Err(Error::NoLog { dir: dir.into() }) };
    let mut begin = Segment::open(&**disk, dir, *oldest, Access::Read)?;
    if let Some(since) = since {
        if begin.header.position > since {
            let first = Position(begin.header.position.0 + 1);
            return Err(Error::Removed { dir: dir.into(), since, first });
        }
        for number in &numbers[1..] {
            let later = Segment::open(&**disk, dir, *number, Access::Read)?;
            if later.header.position > since {
                break;
            }
            begin = later;
        }
    }
    begin.file.advise_sequential();
    Ok(Reader {
        disk: disk.clone(),
        dir: dir.into(),
        since: since.unwrap_or(Position(0)),
        first_segment: begin.header.segment,
        segment: begin,
        entries: VecDeque::new(),
        has_failed: false,
    })
}

/// Returns the name of the protocol of the log in `dir`.
///
/// # Errors
/// If there is no log, or its first file cannot be read.
pub fn protocol(disk: &Arc<dyn Disk>, dir: &Path) -> Result<String> {
    let numbers = segment::list(&**disk, dir)?;
    let Some(oldest) = numbers.first() else { return Err(Error::NoLog { dir: dir.into() }) };
    Ok(Segment::open(&**disk, dir, *oldest, Access::Read)?.header.protocol)
}

/// The entries of a log, in the order in which they were captured.
pub struct Reader {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    since: Position,
    first_segment: u64,
    segment: Segment,
    entries: VecDeque<Entry>,
    has_failed: bool,
}

impl Iterator for Reader {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entries.pop_front() {
                return Some(Ok(entry));
            }
            if self.has_failed {
                return None;
            }
            match self.next_batch() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.has_failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Reader {
    /// Reads the next batch; false at the end of the log.
    fn next_batch(&mut self) -> Result<bool> {
        // Check for a later segment before finding the end of this one: this one was complete
        // before the later one got its name.
        let later = segment::path(&self.dir, self.segment.header.segment + 1);
        let is_last = !self.disk.exists(&later).map_err(Error::on(&later, "look for"))?;
        if let Some(found) = self.segment.next_batch()? {
            let repeats =
                found.header.is_carried && self.segment.header.segment != self.first_segment;
            if !repeats {
                let entries = found.header.entries(&found.body).map_err(|(at, what)| {
                    let offset = found.offset + (super::batch::HEADER_BYTES + at) as u64;
                    Error::corrupt(&self.segment.path, offset, what)
                })?;
                let since = self.since;
                self.entries.extend(entries.into_iter().filter(|entry| is_wanted(entry, since)));
            }
            return Ok(true);
        }
        if is_last {
            let numbers = segment::list(&*self.disk, &self.dir)?;
            let next = self.segment.header.segment + 1;
            if numbers.last().is_some_and(|newest| *newest > next) && !numbers.contains(&next) {
                return Err(self.segment.corrupt("the next segment is missing"));
            }
            self.segment.must_be_torn()?;
            return Ok(false);
        }
        self.next_segment()?;
        Ok(true)
    }

    /// Continues with the next segment, which begins where this one ended.
    fn next_segment(&mut self) -> Result<()> {
        if self.segment.offset != self.segment.len()? {
            return Err(self.segment.corrupt("a batch that was durable is damaged"));
        }
        let number = self.segment.header.segment + 1;
        let next = Segment::open(&*self.disk, &self.dir, number, Access::Read)?;
        if next.header.first_batch != self.segment.batch {
            return Err(self.segment.corrupt("batches are missing at the end of the segment"));
        }
        next.file.advise_sequential();
        self.segment = next;
        Ok(())
    }
}

/// Whether an entry of the segment that contains `since` comes after it, or belongs to the state of
/// the connections at that point.
fn is_wanted(entry: &Entry, since: Position) -> bool {
    match entry {
        Entry::Request { position, class, .. } => *position > since || *class == Class::Connection,
        Entry::Completed { position, .. } => *position > since,
        Entry::Opened { .. } | Entry::Closed { .. } | Entry::Gap { .. } => true,
    }
}

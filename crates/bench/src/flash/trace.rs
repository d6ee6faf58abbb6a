//! The trace of a run: its reads and writes as they reached the file system.
//!
//! ```text
//!   file = event*     event = kind u8, file u32, offset u64, length u64     (little-endian)
//!   kind: 0 has (so long when first seen), 1 read, 2 write, 3 removed
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use base::bytes::{u32_at, u64_at};

use super::device::Access;
use crate::error::{Error, Result};

/// The unit of the device's reads and writes.
const PAGE_BYTES: u64 = 4096;
const EVENT_BYTES: usize = 21;

/// An event of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Has,
    Read,
    Write,
    Removed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) what: What,
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Gathers events of several threads in memory.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    events: Mutex<Vec<Event>>,
    names: Mutex<BTreeMap<std::path::PathBuf, u32>>,
}

impl Trace {
    pub(crate) fn add(&self, what: What, file: u32, offset: u64, len: u64) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(Event { what, file, offset, len });
    }

    /// Returns the number of the file with this name, whether it is new or known.
    pub(crate) fn file(&self, path: &std::path::Path, len: u64) -> u32 {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let next = u32::try_from(names.len()).expect("there are few files");
        let file = *names.entry(path.to_path_buf()).or_insert(next);
        if file == next {
            self.add(What::Has, file, 0, len);
        }
        file
    }

    /// Encodes all events so far.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Vec::with_capacity(events.len() * EVENT_BYTES);
        for event in events.iter() {
            bytes.push(event.what as u8);
            bytes.extend_from_slice(&event.file.to_le_bytes());
            bytes.extend_from_slice(&event.offset.to_le_bytes());
            bytes.extend_from_slice(&event.len.to_le_bytes());
        }
        bytes
    }
}

/// Decodes the result of [`Trace::encode`].
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Event>> {
    let (events, rest) = bytes.as_chunks::<EVENT_BYTES>();
    if !rest.is_empty() {
        return Err(Error::damaged("the trace ends inside an event"));
    }
    events
        .iter()
        .map(|event| {
            let what = match event[0] {
                0 => What::Has,
                1 => What::Read,
                2 => What::Write,
                3 => What::Removed,
                kind => return Err(Error::damaged(format!("the trace has an event {kind}"))),
            };
            let number = |at| u64_at(event, at);
            let file = u32_at(event, 1);
            Ok(Event { what, file, offset: number(5), len: number(13) })
        })
        .collect()
}

/// A trace on logical pages.
pub(super) struct Accesses {
    pub(super) logical_pages: usize,
    /// The pages that files had when they were first seen.
    pub(super) before: Vec<usize>,
    pub(super) during: Vec<Access>,
}

/// Assigns a logical page to every page of every file; those of removed files are reused.
pub(super) fn lay_out(events: &[Event]) -> Accesses {
    let mut pages: BTreeMap<(u32, u64), usize> = BTreeMap::new();
    let mut free: BTreeSet<usize> = BTreeSet::new();
    let mut count = 0;
    let mut allocate = |free: &mut BTreeSet<usize>| {
        free.pop_first().unwrap_or_else(|| {
            count += 1;
            count - 1
        })
    };
    let (mut before, mut during) = (Vec::new(), Vec::new());
    for event in events {
        let first = event.offset / PAGE_BYTES;
        let end = (event.offset + event.len).div_ceil(PAGE_BYTES).max(first);
        match event.what {
            What::Removed => {
                let gone: Vec<_> = pages.range((event.file, 0)..=(event.file, u64::MAX)).collect();
                let gone: Vec<_> = gone.into_iter().map(|(&key, &page)| (key, page)).collect();
                for (key, page) in gone {
                    pages.remove(&key);
                    free.insert(page);
                    during.push(Access::Trim(page));
                }
            }
            What::Has => before.extend((first..end).map(|number| {
                *pages.entry((event.file, number)).or_insert_with(|| allocate(&mut free))
            })),
            What::Read => during.extend((first..end).filter_map(|number| {
                pages.get(&(event.file, number)).map(|&page| Access::Read(page))
            })),
            What::Write => during.extend((first..end).map(|number| {
                let key = (event.file, number);
                Access::Write(*pages.entry(key).or_insert_with(|| allocate(&mut free)))
            })),
        }
    }
    Accesses { logical_pages: count, before, during }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_get_pages_as_they_grow_and_give_them_back() {
        let trace = Trace::default();
        let data = trace.file("data".as_ref(), 2 * PAGE_BYTES);
        assert_eq!(trace.file("data".as_ref(), 0), data);
        let log = trace.file("log".as_ref(), 0);
        trace.add(What::Write, log, 100, 5000);
        trace.add(What::Read, data, PAGE_BYTES, PAGE_BYTES);
        trace.add(What::Removed, log, 0, 0);
        let next = trace.file("next".as_ref(), 0);
        trace.add(What::Write, next, 0, 1);
        let events = decode(&trace.encode()).unwrap();
        let accesses = lay_out(&events);
        assert_eq!(accesses.before, [0, 1]);
        let expected = [
            Access::Write(2),
            Access::Write(3),
            Access::Read(1),
            Access::Trim(2),
            Access::Trim(3),
            Access::Write(2),
        ];
        assert_eq!(accesses.during, expected);
        assert_eq!(accesses.logical_pages, 4);
    }

    #[test]
    fn a_trace_that_is_cut_or_wrong_is_refused() {
        let trace = Trace::default();
        trace.file("data".as_ref(), 1);
        let mut bytes = trace.encode();
        assert!(decode(&bytes[1..]).is_err());
        bytes[0] = 9;
        assert!(decode(&bytes).is_err());
    }
}

//! The state of each incoming file: which pages have arrived, which were requested again, how it
//! ended.
//!
//! ```text
//!            arrive: pages in order ──► end ──► settled (durable, with its times)         
//!   open ──┤                                                               ├──► complete ──► apparent
//!            good: pages verified, until none is left ─────────────────────┘
//!        └── bad too often, lost by the sender, not writable ──► failed ──► discarded
//! ```
//!
//! A page may arrive in its turn, or because it was requested again; anything else violates the
//! protocol. So a file cannot become complete unless each of its pages was verified.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::entry::Entry;
use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Open,
    Complete,
    Failed,
}

/// A page that was found bad.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    times: u16,
    /// Whether it was requested and has not arrived.
    is_awaited: bool,
}

#[derive(Debug)]
struct FileState {
    next_page: u64,
    pages_left: u64,
    has_ended: bool,
    is_settled: bool,
    outcome: Outcome,
    asked: BTreeMap<u64, Asked>,
}

#[derive(Debug)]
struct Files {
    files: Vec<FileState>,
    open: usize,
    awaited_pages: u64,
    pages_sent_again: u64,
    all_sent: bool,
    closed: bool,
}

/// Why pages arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// For the first time.
    First,
    /// Because they were requested again.
    Again,
    /// For a file that has failed; they are dropped.
    Unwanted,
}

/// The files of one transfer, at the receiver.
pub(crate) struct Incoming {
    entries: Arc<Vec<Entry>>,
    state: Mutex<Files>,
    changed: Condvar,
}

impl Files {
    fn finish_if_complete(&mut self, entry: u32) -> bool {
        let file = &mut self.files[entry as usize];
        let is_complete = file.outcome == Outcome::Open && file.is_settled && file.pages_left == 0;
        if is_complete {
            file.outcome = Outcome::Complete;
        }
        is_complete
    }

    fn is_done(&self) -> bool {
        self.all_sent && self.open == 0
    }
}

impl Incoming {
    pub(crate) fn new(entries: Arc<Vec<Entry>>) -> Self {
        let files: Vec<FileState> = entries
            .iter()
            .map(|entry| FileState {
                next_page: 0,
                pages_left: entry.page_count(),
                has_ended: false,
                is_settled: false,
                outcome: if entry.is_file() { Outcome::Open } else { Outcome::Complete },
                asked: BTreeMap::new(),
            })
            .collect();
        let open = entries.iter().filter(|entry| entry.is_file()).count();
        let state = Files {
            files,
            open,
            awaited_pages: 0,
            pages_sent_again: 0,
            all_sent: false,
            closed: false,
        };
        Self { entries, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a file of the transfer, or an error if `entry` is not one.
    pub(crate) fn file(&self, entry: u32) -> Result<&Entry> {
        self.entries
            .get(entry as usize)
            .filter(|entry| entry.is_file())
            .ok_or_else(|| Error::protocol("a message about a file that was not announced"))
    }

    /// Notes arriving pages. On first arrival they must be the next ones, otherwise they must have
    /// been requested.
    pub(crate) fn arrive(&self, entry: u32, first_page: u64, pages: u64) -> Result<Arrival> {
        let page_count = self.file(entry)?.page_count();
        let end = first_page.checked_add(pages).filter(|&end| pages > 0 && end <= page_count);
        let end = end.ok_or_else(|| Error::protocol("pages past the end of their file"))?;
        let mut state = self.lock();
        let state = &mut *state;
        let file = &mut state.files[entry as usize];
        if file.outcome == Outcome::Failed {
            return Ok(Arrival::Unwanted);
        }
        if first_page == file.next_page && !file.has_ended {
            file.next_page = end;
            return Ok(Arrival::First);
        }
        if (first_page..end).any(|page| !file.asked.get(&page).is_some_and(|page| page.is_awaited))
        {
            return Err(Error::protocol("pages that are neither the next ones nor requested"));
        }
        for (_, asked) in file.asked.range_mut(first_page..end) {
            asked.is_awaited = false;
        }
        state.awaited_pages -= pages;
        state.pages_sent_again += pages;
        Ok(Arrival::Again)
    }

    /// Notes that the sender has sent all of a file.
    pub(crate) fn end(&self, entry: u32) -> Result<()> {
        let page_count = self.file(entry)?.page_count();
        let mut state = self.lock();
        let file = &mut state.files[entry as usize];
        if file.outcome != Outcome::Failed && (file.next_page != page_count || file.has_ended) {
            return Err(Error::protocol("the end of a file that has not ended"));
        }
        file.has_ended = true;
        Ok(())
    }

    /// Notes that a file is durable and has its times. Returns, only once, whether it is complete,
    /// with all pages verified.
    pub(crate) fn settled(&self, entry: u32) -> bool {
        let mut state = self.lock();
        state.files[entry as usize].is_settled = true;
        state.finish_if_complete(entry)
    }

    /// Notes that pages were verified. Returns whether the file is complete now.
    pub(crate) fn good(&self, entry: u32, pages: u64) -> bool {
        let mut state = self.lock();
        let file = &mut state.files[entry as usize];
        file.pages_left -= pages;
        state.finish_if_complete(entry)
    }

    /// Notes that the file already exists, complete and identical.
    pub(crate) fn same(&self, entry: u32) -> Result<()> {
        let pages = self.file(entry)?.page_count();
        let mut state = self.lock();
        let file = &mut state.files[entry as usize];
        if file.next_page != 0 || file.has_ended || file.outcome != Outcome::Open {
            return Err(Error::protocol("pages of a file that is identical"));
        }
        file.next_page = pages;
        file.pages_left = 0;
        file.has_ended = true;
        file.outcome = Outcome::Complete;
        state.open -= 1;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Notes a bad page. Returns whether it may be requested again (it is awaited then).
    pub(crate) fn bad(&self, entry: u32, page: u64, resends_max: u16) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        let file = &mut state.files[entry as usize];
        let asked = file.asked.entry(page).or_default();
        if file.outcome != Outcome::Open || asked.times >= resends_max {
            return false;
        }
        asked.times += 1;
        asked.is_awaited = true;
        state.awaited_pages += 1;
        true
    }

    /// Fails a file. Returns whether it had not failed before; then [`Incoming::told`] is to follow,
    /// once the sender was told.
    pub(crate) fn fail(&self, entry: u32) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        let file = &mut state.files[entry as usize];
        if file.outcome == Outcome::Failed {
            return false;
        }
        file.outcome = Outcome::Failed;
        let awaited = file.asked.values().filter(|asked| asked.is_awaited).count();
        file.asked.clear();
        state.awaited_pages -= awaited as u64;
        self.changed.notify_all();
        true
    }

    /// Notes that a file has appeared at its place or failed, and that the sender was told: the end of
    /// the transfer is the last message.
    pub(crate) fn told(&self) {
        let mut state = self.lock();
        state.open -= 1;
        let is_done = state.is_done();
        drop(state);
        if is_done {
            self.changed.notify_all();
        }
    }

    /// Whether any part of the file is still wanted.
    pub(crate) fn is_open(&self, entry: u32) -> bool {
        self.lock().files[entry as usize].outcome == Outcome::Open
    }

    /// Notes that only requested pages will arrive from now on.
    pub(crate) fn all_sent(&self) -> Result<()> {
        let mut state = self.lock();
        let unfinished = |file: &FileState| file.outcome == Outcome::Open && !file.has_ended;
        if state.files.iter().any(unfinished) {
            return Err(Error::protocol("the end of a transfer that has not ended"));
        }
        state.all_sent = true;
        self.changed.notify_all();
        Ok(())
    }

    /// Whether everything was sent and no requested page is outstanding.
    pub(crate) fn nothing_is_coming(&self) -> bool {
        let state = self.lock();
        state.all_sent && state.awaited_pages == 0
    }

    /// Pages that arrived more than once.
    pub(crate) fn pages_sent_again(&self) -> u64 {
        self.lock().pages_sent_again
    }

    /// Waits for the end, at most for `patience`. Returns whether it was reached, by files or by
    /// [`Incoming::close`].
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let state = self.lock();
        let waits = |state: &mut Files| !state.is_done() && !state.closed;
        let waited = self.changed.wait_timeout_while(state, patience, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_done() || state.closed
    }

    /// Whether every file has arrived or failed, rather than the transfer merely having ended.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().is_done()
    }

    /// Ends all waiting.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Kind, Time};
    use crate::relative_path::RelativePath;

    fn incoming(pages: u64) -> Incoming {
        let size_bytes = pages * 4096;
        let entry = Entry {
            path: RelativePath::new("file").unwrap(),
            kind: Kind::File { size_bytes, data_bytes: size_bytes },
            mode: 0o600,
            modified: Time { seconds: 0, nanoseconds: 0 },
        };
        Incoming::new(Arc::new(vec![entry]))
    }

    #[test]
    fn a_file_is_complete_when_settled_and_all_pages_are_good_whichever_is_later() {
        let files = incoming(2);
        assert_eq!(files.arrive(0, 0, 2).unwrap(), Arrival::First);
        files.end(0).unwrap();
        assert!(!files.settled(0));
        assert!(!files.good(0, 1));
        assert!(files.good(0, 1));

        let files = incoming(1);
        files.arrive(0, 0, 1).unwrap();
        assert!(!files.good(0, 1));
        files.end(0).unwrap();
        assert!(files.settled(0));
        assert!(!files.settled(0), "it is said once");
    }

    #[test]
    fn pages_out_of_turn_are_refused() {
        let files = incoming(4);
        assert!(files.arrive(0, 1, 1).is_err());
        files.arrive(0, 0, 2).unwrap();
        assert!(files.arrive(0, 0, 1).is_err());
        assert!(files.arrive(0, 2, 3).is_err());
        assert!(files.arrive(0, u64::MAX, 2).is_err());
        assert!(files.arrive(1, 0, 1).is_err());
        assert!(files.end(0).is_err());
        assert!(files.all_sent().is_err());
    }

    #[test]
    fn a_bad_page_is_asked_for_as_often_as_allowed() {
        let files = incoming(1);
        files.arrive(0, 0, 1).unwrap();
        files.end(0).unwrap();
        files.settled(0);
        files.all_sent().unwrap();
        for _ in 0..2 {
            assert!(files.bad(0, 0, 2));
            assert!(!files.nothing_is_coming());
            assert_eq!(files.arrive(0, 0, 1).unwrap(), Arrival::Again);
            assert!(files.nothing_is_coming());
        }
        assert!(!files.bad(0, 0, 2));
        assert!(files.fail(0));
        assert!(!files.fail(0));
        assert!(!files.wait(Duration::ZERO), "the sender was not told yet");
        files.told();
        assert!(files.wait(Duration::ZERO));
        assert_eq!(files.arrive(0, 0, 1).unwrap(), Arrival::Unwanted);
        assert_eq!(files.pages_sent_again(), 2);
    }
}

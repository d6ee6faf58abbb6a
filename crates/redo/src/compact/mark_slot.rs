//! What the executor hands to the consumer of a mark, and where.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::Duration;

use base::{Lsn, Mutex, RecordAddr};

use crate::compact::kept::MarkId;
use crate::compact::marks::MarkedSegment;

/// A mark, copied.
pub(crate) struct Marked {
    pub(crate) lsn: Lsn,
    /// Ascending.
    pub(crate) segments: Vec<MarkedSegment>,
    /// What was retired after the mark, with more at the front of the first chunk: so many.
    pub(crate) since: Vec<Arc<Vec<RecordAddr>>>,
    pub(crate) skipped: usize,
}

enum State {
    /// The open block is not sealed.
    Waiting,
    /// The mark is made; bitmaps are copied, or its block is not durable.
    Made(Lsn, MarkId),
    Ready(Marked, MarkId),
    Taken,
    /// The log has ended before.
    GivenUp(Option<MarkId>),
}

/// The place of one mark.
pub(crate) struct Slot {
    state: Mutex<State>,
    changed: Condvar,
    is_dropped: AtomicBool,
}

impl Default for Slot {
    fn default() -> Self {
        let (state, changed) = (Mutex::new(State::Waiting), Condvar::new());
        Self { state, changed, is_dropped: AtomicBool::new(false) }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Records how far the mark is. Returns whether its consumer is still there.
    pub(crate) fn set_point(&self, lsn: Lsn, id: MarkId) -> bool {
        let mut state = self.lock();
        if self.is_dropped() {
            return false;
        }
        *state = State::Made(lsn, id);
        true
    }

    pub(crate) fn publish(&self, marked: Marked) {
        let mut state = self.lock();
        if let State::Made(_, id) = *state {
            *state = State::Ready(marked, id);
        }
        self.changed.notify_all();
    }

    /// The log ends without it.
    pub(crate) fn give_up(&self) {
        let mut state = self.lock();
        let id = match *state {
            State::Waiting => None,
            State::Made(_, id) => Some(id),
            _ => return,
        };
        *state = State::GivenUp(id);
        self.changed.notify_all();
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    /// The consumer is gone; the hold that is to be closed.
    pub(crate) fn drop_consumer(&self) -> Option<MarkId> {
        let mut state = self.lock();
        self.is_dropped.store(true, Ordering::Release);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Made(_, id) | State::Ready(_, id) => Some(id),
            State::GivenUp(id) => id,
            State::Waiting | State::Taken => None,
        }
    }

    pub(crate) fn lsn(&self) -> Option<Lsn> {
        match &*self.lock() {
            State::Made(lsn, _) => Some(*lsn),
            State::Ready(marked, _) => Some(marked.lsn),
            _ => None,
        }
    }

    pub(crate) fn is_given_up(&self) -> bool {
        matches!(&*self.lock(), State::GivenUp(_))
    }

    /// What was published, once; the hold is the caller's then.
    pub(crate) fn take(&self) -> Option<(Marked, MarkId)> {
        let mut state = self.lock();
        if !matches!(&*state, State::Ready(..)) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Ready(marked, id) => Some((marked, id)),
            _ => None,
        }
    }

    /// Waits until it is published or given up, or for `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let is_pending = |state: &mut State| matches!(state, State::Waiting | State::Made(..));
        let _ = self.changed.wait_timeout_while(self.lock(), timeout, is_pending);
    }
}

//! What the engine and a tailer tell each other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Lsn, RecordAddr};
use redo::Reader;

use super::error::TailResult;
use super::tailer::TailFigures;

/// What a client wants to know.
pub(crate) struct Request {
    pub(crate) number: u64,
    /// The last block that it knows.
    pub(crate) after: Lsn,
    /// How many blocks it wants at most.
    pub(crate) count_max: usize,
    pub(crate) reader: Reader,
    /// Where the newest record of the databases is: later than every block that is durable by now, or among them.
    pub(crate) databases: Option<RecordAddr>,
    pub(crate) is_unwanted: Arc<AtomicBool>,
}

impl Request {
    /// Whether its client does not wait for it any more.
    pub(super) fn is_unwanted(&self) -> bool {
        self.is_unwanted.load(Ordering::Relaxed)
    }
}

/// What a client waits for; dropping it says that it does not any more.
#[derive(Debug)]
pub(crate) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    /// Something that is wanted, for both sides.
    pub(crate) fn new() -> (Self, Arc<AtomicBool>) {
        let is_unwanted = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&is_unwanted)), is_unwanted)
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a client is told.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The last block that it knows then.
    pub(crate) last: Lsn,
    pub(crate) lines: Vec<Arc<[u8]>>,
}

/// How a request has ended.
pub(crate) struct Reply {
    pub(crate) number: u64,
    pub(crate) result: TailResult<Answer>,
}

/// See the file's top.
#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    arrived: Condvar,
    has_replies: AtomicBool,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    replies: VecDeque<Reply>,
    figures: TailFigures,
    is_ending: bool,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        // What is in it is whole, even if a thread has panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for something.
    pub(crate) fn ask(&self, request: Request) {
        self.state().requests.push_back(request);
        self.arrived.notify_all();
    }

    /// Takes what has come of a request.
    pub(crate) fn take_reply(&self) -> Option<Reply> {
        if !self.has_replies() {
            return None;
        }
        let mut state = self.state();
        let reply = state.replies.pop_front();
        self.has_replies.store(!state.replies.is_empty(), Ordering::Release);
        reply
    }

    /// Whether there is something to take.
    pub(crate) fn has_replies(&self) -> bool {
        self.has_replies.load(Ordering::Acquire)
    }

    /// What it has cost so far.
    pub(crate) fn figures(&self) -> TailFigures {
        self.state().figures
    }

    /// Nothing is wanted any more: the tailer ends.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_ending = true;
        state.requests.clear();
        drop(state);
        self.arrived.notify_all();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.state().is_ending
    }

    pub(super) fn take_request(&self) -> Option<Request> {
        self.state().requests.pop_front()
    }

    pub(super) fn reply(&self, reply: Reply) {
        self.state().replies.push_back(reply);
        self.has_replies.store(true, Ordering::Release);
    }

    pub(super) fn tell(&self, figures: TailFigures) {
        self.state().figures = figures;
    }

    /// Waits for a request or the end, or for `timeout`.
    pub(super) fn wait(&self, timeout: Duration) {
        let state = self.state();
        if state.requests.is_empty() && !state.is_ending {
            drop(self.arrived.wait_timeout(state, timeout));
        }
    }
}

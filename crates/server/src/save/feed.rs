//! What the executor's walk of memory and the saver that writes it down have between them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many chunks may wait for the saver.
const CHUNKS_MAX: usize = 8;

#[derive(Default)]
struct State {
    chunks: VecDeque<Vec<u8>>,
    /// How many bytes they have.
    bytes: usize,
    /// No further one comes.
    has_ended: bool,
    /// A chunk was taken where there was no room for another one.
    has_made_room: bool,
}

/// Chunks on their way: the executor's end.
#[derive(Clone, Default)]
pub(crate) struct Feed {
    state: Arc<Mutex<State>>,
    is_closed: Arc<AtomicBool>,
    is_waited_for: Arc<AtomicBool>,
    walked_us: Arc<AtomicU64>,
}

/// What the saver has of a [`Feed`]. Dropping it closes it: nothing more is wanted.
pub(crate) struct Fed(Feed);

impl Feed {
    /// The saver's end.
    pub(crate) fn receiver(&self) -> Fed {
        Fed(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is in it is whole, even if a thread has panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another chunk may be pushed.
    pub(crate) fn has_room(&self) -> bool {
        self.state().chunks.len() < CHUNKS_MAX
    }

    /// How many bytes wait.
    pub(crate) fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// Pushes a chunk.
    pub(crate) fn push(&self, chunk: Vec<u8>) {
        let mut state = self.state();
        state.bytes += chunk.len();
        state.chunks.push_back(chunk);
    }

    /// No further chunk comes, whether or not the walk was complete.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
    }

    /// Commands wait for the saver, or do not any more.
    pub(crate) fn set_waited_for(&self, is_waited_for: bool) {
        self.is_waited_for.store(is_waited_for, Ordering::Release);
    }

    /// The executor has walked for so many microseconds more.
    pub(crate) fn note_walked(&self, us: u64) {
        self.walked_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Whether the saver wants nothing more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}

impl Fed {
    /// Takes the next chunk; otherwise says whether one may still come.
    pub(super) fn take(&self) -> Result<Vec<u8>, bool> {
        let mut state = self.0.state();
        state.has_made_room |= state.chunks.len() >= CHUNKS_MAX;
        let chunk = state.chunks.pop_front().ok_or(!state.has_ended)?;
        state.bytes -= chunk.len();
        Ok(chunk)
    }

    /// Whether commands wait for the saver.
    pub(super) fn is_waited_for(&self) -> bool {
        self.0.is_waited_for.load(Ordering::Acquire)
    }

    /// For how long the executor has walked, until now.
    pub(super) fn walked(&self) -> Duration {
        Duration::from_micros(self.0.walked_us.load(Ordering::Relaxed))
    }

    /// Whether there was no room before, since this was asked last.
    pub(super) fn has_made_room(&self) -> bool {
        std::mem::take(&mut self.0.state().has_made_room)
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
        let mut state = self.0.state();
        (state.chunks, state.bytes) = (VecDeque::new(), 0);
    }
}

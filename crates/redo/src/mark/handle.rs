//! The consumer's handle of a mark that is being made.

use std::sync::Arc;
use std::time::Duration;

use base::Lsn;

use crate::compact::holds::Holds;
use crate::compact::kept::MarkId;
use crate::compact::mark_slot::Slot;
use crate::id::Id;
use crate::mark::reader::MarkReader;
use crate::shared::device::Shared;

/// A mark, from [`crate::Log::mark`]. The files that it needs are kept until it, or the reader that
/// it becomes, is dropped, on any thread.
#[must_use = "what a mark holds is let go when it is dropped"]
pub struct Mark {
    slot: Arc<Slot>,
    holds: Arc<Holds>,
    shared: Arc<Shared>,
}

impl Mark {
    pub(crate) const fn new(slot: Arc<Slot>, holds: Arc<Holds>, shared: Arc<Shared>) -> Self {
        Self { slot, holds, shared }
    }

    /// Returns the last block that is part of the mark; `None` while it waits for the open block to
    /// be sealed.
    #[must_use]
    pub fn lsn(&self) -> Option<Lsn> {
        self.slot.lsn()
    }

    /// Returns the id of the database that the log is of.
    #[must_use]
    pub fn database(&self) -> Id {
        self.shared.database
    }

    /// Whether the log has ended before the mark was ready: it never will be.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.slot.is_given_up()
    }

    /// Waits until the mark is ready or given up, or for `timeout`.
    pub fn wait(&self, timeout: Duration) {
        self.slot.wait(timeout);
    }

    /// Begins to read; gives the mark back while its block is not durable, or its bitmaps are not
    /// all copied.
    ///
    /// # Errors
    /// The mark itself: ask again.
    pub fn read(self) -> Result<MarkReader, Self> {
        match self.slot.take() {
            Some((marked, id)) => {
                let hold = Hold { id, holds: Arc::clone(&self.holds) };
                Ok(MarkReader::new(Arc::clone(&self.shared), hold, marked))
            }
            None => Err(self),
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(id) = self.slot.drop_consumer() {
            self.holds.close(id);
        }
    }
}

/// Keeps files until it is dropped.
pub(crate) struct Hold {
    pub(crate) id: MarkId,
    pub(crate) holds: Arc<Holds>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.close(self.id);
    }
}

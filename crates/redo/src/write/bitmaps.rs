//! What is asked of the log's bitmaps: whether they can be believed, and marks; of its history, and of its
//! index.

use std::sync::Arc;

use base::{Lsn, RecordAddr};

use crate::compact::kept::WindowFigures;
use crate::compact::live_records::LiveRecords;
use crate::compact::mark_slot::Slot;
use crate::compact::marks::Growing;
use crate::compact::window::Moment;
use crate::error::Result;
use crate::mark::handle::Mark;
use crate::options::HistoryOptions;
use crate::write::log::Log;
use crate::write::stats::{HistoryStats, IndexStats};

impl Log {
    /// Returns whether the record is known to be garbage, or its segment is gone.
    ///
    /// After [`Recovery::run_behind`](crate::Recovery::run_behind) that is what was retired since, and
    /// later what was garbage before as well.
    #[must_use]
    pub fn is_retired(&self, addr: RecordAddr) -> bool {
        self.segments.is_retired(addr)
    }

    /// Returns whether it is known which records are garbage.
    ///
    /// Not so from a [`Recovery::run_behind`](crate::Recovery::run_behind) on until what
    /// [`Log::note_live`] was given is taken over: then nothing is compacted, put aside, healed, drained
    /// or marked, and no writer is held back for its garbage.
    #[must_use]
    pub const fn knows_validity(&self) -> bool {
        self.validity.is_known()
    }

    /// Returns the block up to which an index has durably known the log in this life, whatever has become of it since;
    /// `None` if none has.
    #[must_use]
    pub fn indexed_lsn(&self) -> Option<Lsn> {
        self.shared.index_bound.reached()
    }

    /// How the log stands with its index, if one is kept.
    #[must_use]
    pub fn index_stats(&self) -> IndexStats {
        let bound = &self.shared.index_bound;
        IndexStats {
            lag_bytes: self.index_lag.bytes(),
            is_believed: bound.is_believed(),
            unfinished_starts: bound.unfinished_starts(),
        }
    }

    /// Asks for everything up to the last block that was sealed to be indexed soon.
    pub fn want_indexed(&self) {
        let last = Lsn(self.open_lsn().0.saturating_sub(1));
        self.shared.index_bound.allows_or_wants(last);
    }

    /// Takes over which records are needed; the ticks do it, some segments each.
    ///
    /// The set has every record that is needed of those that were there at the start and were not
    /// retired since; it may have newer ones. When validity is known, or becoming so, this does nothing.
    ///
    /// # Errors
    /// When the set contradicts what the segments have: the index is not to be believed then, and
    /// nothing has changed.
    pub fn note_live(&mut self, live: Arc<LiveRecords>) -> Result<()> {
        self.validity.note_live(&self.segments, live)
    }

    /// Makes a mark: what is valid at one LSN, to be read while the log goes on. That is the last
    /// block, or the open one if it has records: then the mark is made when that is sealed, which
    /// nothing does for its sake, so that it lies between transactions. `None` while the log's
    /// bitmaps say nothing: it is frozen ([`Log::set_frozen`]), or [`Log::knows_validity`] denies it.
    ///
    /// What a thawed log retires as garbage from before it was frozen counts as valid until then.
    pub fn mark(&mut self) -> Option<Mark> {
        if self.is_frozen || !self.knows_validity() {
            return None;
        }
        let slot = Arc::new(Slot::default());
        let holds = Arc::clone(self.marks.holds());
        let mark = Mark::new(Arc::clone(&slot), holds, Arc::clone(&self.shared));
        if self.has_open_records() {
            self.marks.wait_for_seal(slot);
        } else {
            self.begin_mark(slot);
        }
        Some(mark)
    }

    /// Makes a mark at the last block; the open one is empty.
    pub(crate) fn begin_mark(&mut self, slot: Arc<Slot>) {
        let lsn = Lsn(self.open_lsn.0 - 1);
        let active = self.lanes.iter().filter_map(|lane| self.segments.get(lane.active?));
        let growing = active.map(|segment| Growing {
            segment: segment.id,
            record_count: segment.record_count,
            delete_count: segment.delete_count,
        });
        let growing = growing.collect();
        self.marks.begin(slot, lsn, &self.segments, self.next_segment, growing);
    }

    /// Changes how much is kept of what compactions replace.
    pub fn set_history(&mut self, options: HistoryOptions) {
        self.marks.holds().set_window(options, Moment::now(&*self.shared.clock));
    }

    /// How far back the log can be read as it was, and what that takes.
    #[must_use]
    pub fn history(&self) -> HistoryStats {
        let figures = self.history_figures();
        HistoryStats {
            from_lsn: figures.floor,
            from_time_ms: figures.floor_ms,
            seconds: figures.seconds,
            bytes: figures.bytes,
            files: figures.files,
            given_up: figures.given_up,
            limit_bytes: figures.limit_bytes,
            readers: figures.readers.count,
            reader_bytes: figures.readers.bytes,
        }
    }

    pub(crate) fn history_figures(&self) -> WindowFigures {
        self.marks.holds().figures(Moment::now(&*self.shared.clock))
    }

    /// Keeps, as long as history is kept and longer than the rest of it, what is needed to read the log as it
    /// was before the open block: what that block says is about to lose data that may be wanted again. What
    /// else is in the block is lost with it: seal it before the command, or the transaction.
    pub fn note_point(&mut self) {
        let last = Lsn(self.open_lsn.0 - 1);
        self.marks.holds().note_point(last, Moment::now(&*self.shared.clock));
    }

    /// Whether a file on the device is kept, or being let go of. What only history needs is given up, because
    /// the device leaves.
    pub(crate) fn keeps_leaving(&self, device: usize) -> bool {
        let holds = self.marks.holds();
        if holds.has_window_on(device) {
            holds.give_up_window(device, Moment::now(&*self.shared.clock));
        }
        holds.has_on(device)
    }

    /// Copies bitmaps of marks, about `budget_bytes` of them: [`Log::tick`] does too.
    pub fn copy_marks(&mut self, budget_bytes: usize) {
        if self.marks.notes_retirements() {
            self.marks.copy_some(&self.segments, budget_bytes);
        }
        self.marks.publish(self.durable);
    }
}

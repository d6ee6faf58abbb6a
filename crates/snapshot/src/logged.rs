//! Logged Piggyback: full snapshots as Piggyback's, and between them a write is a row and nothing else.
//!
//! Beyond the paper. What a write costs is how many lines of memory it has to get that are in no
//! cache: the row, and in Hourglass and Piggyback then the bytes that go with it, in arrays larger
//! than a cache (`docs/snapshots.md` has the numbers). But those bytes are needed only while
//! `WriteToOnline` runs, a fraction of the time, and at the next swap. So:
//!
//! ```text
//!   D, D̄     client writes *pU;  taken phase: swap(pU, pD), and with them the bits pU_b, pD_b
//!
//!   pass     begins with the swap: rows that only *pD has the latest of are copied to *pU
//!            client writes *pU and sets the bit in pU_b; reads *pU if the bit is set, else *pD
//!            snapshotter copies the rows whose bit is set in pD_b and not in pU_b; clears pD_b
//!   then     *pU has the latest of all rows
//!            client writes *pU and appends the row's number to a log; reads *pU
//!            snapshotter reads the log, and sets the bits in pU_b
//! ```
//!
//! - **A log instead of flags.** Numbers that are appended come 16 to a cache line, one line after the
//!   other. To set the bits the snapshotter's processor gets their lines, ahead of time; nobody waits
//!   for it. What it has not read when the next snapshot is taken it reads in the taken phase, so the
//!   log is bounded, and a client that finds it full sets the bit itself.
//! - **A bit a row and period**, where Piggyback has a byte with three values. The snapshot `*pD` is
//!   full and does not change, so during the pass a row that was not written in this period is *there*,
//!   whether it was copied to `*pU` already or not. After it no read looks at any bit.
//! - What both threads write are the rows of `*pU` that are being copied, and those are handed over
//!   by [`crate::window`], which also tells the client that the pass is over.
//!
//! Who writes the bits: of `pD_b` the snapshotter. Of `pU_b` during the pass the client, with a load
//! and a store; then both, with atomic read-modify-writes. The snapshotter sets its first one after
//! it has found an entry of the log, and so after everything that the client did in the pass.
//!
//! Invariant: at the end of a period `*pU` has the latest of every row. It was written by the client,
//! or copied because it was written in the period before, or the same in both copies all along.

use crate::algorithm::{Algorithm, Content, Online, Setup};
use crate::cells::{Bits, Rows};
use crate::error::Result;
use crate::gate::{Closed, Gate};
use crate::sync::{Apart, AtomicU32, AtomicUsize, Ordering};
use crate::window::{Place, Window};

/// The log has room for this many rows at most.
const LOG_ENTRIES_MAX: usize = 1 << 20;
/// The client shows its entries after this many of them, and at the end of a tick.
const SHOWN_AT_ONCE: usize = 256;
/// How far ahead of setting a bit its line is asked for.
const LOOK_AHEAD: usize = 16;
/// The snapshotter reads the log after this many rows of a traversal.
const ROWS_BETWEEN_READS: usize = 1 << 12;

/// Numbers of rows on their way from the client to the snapshotter: a ring.
struct Log {
    entries: Vec<AtomicU32>,
    client: Apart<ClientEnd>,
    /// How many entries the client has shown.
    shown: Apart<AtomicUsize>,
    /// How many of them the snapshotter has read.
    read: Apart<AtomicUsize>,
}

/// What only the client looks at.
struct ClientEnd {
    written: AtomicUsize,
    /// `read`, as it was when it was last looked at.
    read: AtomicUsize,
}

impl Log {
    fn new(rows: usize) -> Self {
        let entries = (rows / 16).next_power_of_two().clamp(2, LOG_ENTRIES_MAX);
        let client = ClientEnd { written: AtomicUsize::new(0), read: AtomicUsize::new(0) };
        Self {
            entries: (0..entries).map(|_| AtomicU32::new(0)).collect(),
            client: Apart(client),
            shown: Apart(AtomicUsize::new(0)),
            read: Apart(AtomicUsize::new(0)),
        }
    }

    fn entry(&self, number: usize) -> &AtomicU32 {
        &self.entries[number & (self.entries.len() - 1)]
    }

    /// The client appends a row, if there is room.
    #[inline]
    fn append(&self, row: u32) -> bool {
        let client = &self.client.0;
        let written = client.written.load(Ordering::Relaxed);
        if written - client.read.load(Ordering::Relaxed) == self.entries.len() {
            let read = self.read.0.load(Ordering::Acquire);
            client.read.store(read, Ordering::Relaxed);
            if written - read == self.entries.len() {
                return false;
            }
        }
        self.entry(written).store(row, Ordering::Relaxed);
        client.written.store(written + 1, Ordering::Relaxed);
        if (written + 1).is_multiple_of(SHOWN_AT_ONCE) {
            self.shown.0.store(written + 1, Ordering::Release);
        }
        true
    }

    /// The client shows all that it has appended.
    fn show(&self) {
        self.shown.0.store(self.client.0.written.load(Ordering::Relaxed), Ordering::Release);
    }

    /// The snapshotter sets the bits of the rows that it has not read yet.
    fn read_into(&self, bits: &Bits) {
        let shown = self.shown.0.load(Ordering::Acquire);
        let read = self.read.0.load(Ordering::Relaxed);
        let row = |number| self.entry(number).load(Ordering::Relaxed) as usize;
        for number in read..shown {
            if number + LOOK_AHEAD < shown {
                bits.expect(row(number + LOOK_AHEAD));
            }
            bits.set_shared(row(number));
        }
        if shown != read {
            self.read.0.store(shown, Ordering::Release);
        }
    }
}

/// See the module.
pub struct Logged {
    /// D and D̄.
    copies: [Rows; 2],
    /// The rows of each copy that were written in its period.
    written: [Bits; 2],
    /// pU. Changes under the closed gate only.
    up: AtomicUsize,
    window: Window,
    log: Log,
    rows: usize,
}

impl Logged {
    #[inline]
    fn up(&self) -> usize {
        self.up.load(Ordering::Relaxed) & 1
    }

    /// A write to a row of the window.
    #[cold]
    fn write_in_window(&self, up: usize, row: usize, value: &[u64]) {
        let _held = self.window.hold();
        self.written[up].set(row);
        self.copies[up].store(row, value);
    }

    /// Copies what must be copied of the 64 rows that share a word, whose window is adopted.
    fn copy_word(&self, word: usize) {
        let up = self.up();
        let down = up ^ 1;
        let held = self.window.hold();
        let rows = self.written[down].word(word) & !self.written[up].word(word);
        self.copies[up].stream_rows(Bits::rows(word, rows), &self.copies[down]);
        drop(held);
        self.written[down].clear_word(word);
    }
}

impl Algorithm for Logged {
    const NAME: &'static str = "logged";
    const CONTENT: Content = Content::Full;

    fn load(setup: &Setup<'_>) -> Self {
        let rows = setup.shape.rows();
        assert!(u32::try_from(rows).is_ok(), "numbers of rows are logged in 4 bytes");
        Self {
            copies: [setup.initial_rows(), setup.initial_rows()],
            written: [Bits::new(rows, setup.pages), Bits::new(rows, setup.pages)],
            up: AtomicUsize::new(0),
            window: Window::new(rows),
            log: Log::new(rows),
            rows,
        }
    }

    fn enter(&self) {
        self.window.adopt();
    }

    fn leave(&self) {
        self.log.show();
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        let up = self.up();
        match self.window.place(row) {
            Place::Over => {
                self.copies[up].store(row, value);
                #[expect(clippy::cast_possible_truncation, reason = "checked when loaded")]
                if !self.log.append(row as u32) {
                    self.written[up].set_shared(row);
                }
            }
            Place::Outside => {
                self.written[up].set(row);
                self.copies[up].store(row, value);
            }
            Place::Inside => self.write_in_window(up, row, value),
        }
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        let up = self.up();
        let in_up = self.window.place(row) == Place::Over || self.written[up].get(row);
        self.copies[if in_up { up } else { up ^ 1 }].load(row, into);
    }

    fn prepare(&self) {
        self.log.read_into(&self.written[self.up()]);
    }

    fn take(&self, closed: &Closed<'_>) -> Result<()> {
        self.prepare();
        self.up.fetch_xor(1, Ordering::Relaxed);
        self.window.begin(closed);
        Ok(())
    }

    /// Snapshotter::WriteToOnline for the rows of one word of bits.
    #[inline]
    fn write_to_online(&self, from: usize, gate: &Gate) -> Online {
        let word = from / Bits::ROWS_A_WORD;
        if self.written[self.up() ^ 1].word(word) != 0 {
            if !self.window.open(from, gate) {
                return Online::Waiting;
            }
            self.copy_word(word);
        }
        let next = from + Bits::ROWS_A_WORD;
        if next >= self.rows {
            self.window.close();
        }
        Online::From(next)
    }

    #[inline]
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        if row.is_multiple_of(ROWS_BETWEEN_READS) {
            self.prepare();
        }
        self.copies[self.up() ^ 1].load(row, into);
        Ok(true)
    }

    fn finish(&self) {}
}

//! An index brought up to the end of a log that is at rest, so that a start may believe it.
//!
//! ```text
//!   begin ── step ─► read, cut, installed ─► counted ─► merged ─► done: a start believes what is installed
//!     └── a build that an earlier start has begun goes on; an index of no use is begun anew
//! ```
//!
//! The work is that of [`LogIndex`], in bounded memory. What is new is that it ends, and that it is known how
//! far it is.
//!
//! # Invariants
//! 1. The log is open and nothing of it runs: it was judged before, all of it is durable, and nothing is
//!    written or compacted until the build has ended.
//! 2. A build that is interrupted has changed nothing but the index: the next start goes on with it, or begins
//!    it anew (see the crate's top).

use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::Disk;
use redo::Reader;

use crate::error::Result;
use crate::index::{LogIndex, Options, Step};

/// How far a build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built {
    /// The last block that was read.
    pub read: Lsn,
    /// The last block of the log.
    pub end: Lsn,
    /// A start may believe what is installed.
    pub is_done: bool,
}

impl Built {
    /// How much of the work is done, of a hundred: by the blocks, which are read before all else is.
    #[must_use]
    pub fn percentage(&self) -> u64 {
        match (self.is_done, self.end) {
            (true, _) | (_, Lsn::ZERO) => 100,
            (false, end) => self.read.0 / (end.0 / 100 + 1),
        }
    }
}

/// See the file's top.
pub struct Build {
    index: LogIndex,
    end: Lsn,
    /// It was damaged while it was built, once.
    is_begun_anew: bool,
}

impl Build {
    /// Opens the index in `dir`, or begins it. Returns why with it, if what was there was of no use.
    ///
    /// # Errors
    /// As [`LogIndex::open`].
    pub fn begin(
        disk: Arc<dyn Disk>,
        dir: &Path,
        reader: Reader,
        database: [u8; 16],
        seed: [u8; 16],
        options: Options,
    ) -> Result<(Self, Option<String>)> {
        let end = reader.blocks(Lsn(1)).end();
        let (index, unusable) = LogIndex::open(disk, dir, reader, database, seed, options)?;
        Ok((Self { index, end, is_begun_anew: false }, unusable))
    }

    /// Does some of the work.
    ///
    /// # Errors
    /// When the log or the index cannot be read or written; another step tries again.
    pub fn step(&mut self) -> Result<Built> {
        let is_idle = match self.index.step(true) {
            Ok(step) => step == Step::Idle,
            Err(error) if error.is_final() && !std::mem::replace(&mut self.is_begun_anew, true) => {
                self.index.begin_anew()?;
                false
            }
            Err(error) => return Err(error),
        };
        let is_read = self.index.read() >= self.end;
        let is_cut = self.index.cut() == self.index.read();
        if is_idle && is_read && !is_cut {
            self.index.cut_now();
        }
        let is_done = is_idle && is_read && is_cut;
        Ok(Built { read: self.index.read(), end: self.end, is_done })
    }
}

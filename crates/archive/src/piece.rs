//! What of an archive is damaged as a whole, and what is known to be.
//!
//! ```text
//!   damaged/log.00000000000000000101-00000000000000000340.0000000003      that object of the log
//!   damaged/copy.00000000000000000100.0000000003.0000000001               that copy: one of its objects is damaged
//!   damaged/leap.00000000000000000100-00000000000000000340.0000000002     that leap: one of its objects is
//! ```
//!
//! What was found to be damaged may be found so once only: a target reads back what was put, and tells it to the process that has put it. So it is
//! marked by an object of its own, which the next process finds, and the next tidier. A piece that is marked leads nowhere ([`crate::Picture`]), and
//! stays as it is where nothing else leads to what it leads to. A restore that has no other way reads it all the same: a mark takes nothing away.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use base::Lsn;
use redo::Id;

use crate::error::{Error, Result, TargetResult};
use crate::name::{Fill, Name};
use crate::object::Header;
use crate::picture::Picture;
use crate::target::Target;

/// See the file's top. If one object of a copy or a leap is damaged, all of it leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Piece {
    /// An object of the log.
    Log {
        /// Its first block.
        first: Lsn,
        /// Its last one.
        last: Lsn,
        /// Its writer.
        writer: u64,
    },
    /// A copy.
    Copy {
        /// Which.
        fill: Fill,
    },
    /// A leap.
    Leap {
        /// The block that it goes on from.
        from: Lsn,
        /// The block that it leads to.
        to: Lsn,
        /// What has made it.
        tidier: u64,
    },
}

impl Piece {
    /// What an object is, or is a part of; `None` if nothing is restored from it.
    #[must_use]
    pub const fn of(name: &Name) -> Option<Self> {
        match *name {
            Name::Log { first, last, writer } => Some(Self::Log { first, last, writer }),
            Name::Base { fill, .. } | Name::Whole { fill, .. } => Some(Self::Copy { fill }),
            Name::Thin { from, to, tidier, .. } => Some(Self::Leap { from, to, tidier }),
            _ => None,
        }
    }

    /// Of the object that is at the end of a path.
    pub(crate) fn at_end_of(path: &str) -> Option<Self> {
        Self::of(&Name::at_end_of(path)?)
    }

    /// The number of what has put it: of a writer, or of what thins out.
    pub(crate) const fn number(&self) -> u64 {
        match self {
            Self::Log { writer, .. } => *writer,
            Self::Copy { fill } => fill.writer,
            Self::Leap { tidier, .. } => *tidier,
        }
    }

    /// The last block that it tells of.
    pub(crate) const fn last(&self) -> Lsn {
        match self {
            Self::Log { last, .. } => *last,
            Self::Copy { fill } => fill.lsn,
            Self::Leap { to, .. } => *to,
        }
    }

    /// What the header of its mark says: its first block and its last, which copy of its writer it is, and the kind of object that it is of.
    pub(crate) const fn in_header(&self) -> (Lsn, Lsn, u32, u32) {
        match *self {
            Self::Log { first, last, .. } => (first, last, 0, 2),
            Self::Copy { fill } => (fill.lsn, fill.lsn, fill.number, 4),
            Self::Leap { from, to, .. } => (from, to, 0, 6),
        }
    }

    /// The one of which a header says this, by what has put it.
    pub(crate) const fn of_header(
        (first, last): (Lsn, Lsn),
        (number, copy, kind): (u64, u32, u32),
    ) -> Option<Self> {
        match kind {
            2 => Some(Self::Log { first, last, writer: number }),
            4 => Some(Self::Copy { fill: Fill { lsn: first, writer: number, number: copy } }),
            6 => Some(Self::Leap { from: first, to: last, tidier: number }),
            _ => None,
        }
    }

    /// The name of its mark in its folder.
    pub(crate) fn file_name(&self) -> String {
        match self {
            Self::Log { first, last, writer } => {
                format!("log.{:020}-{:020}.{writer:010}", first.0, last.0)
            }
            Self::Copy { fill: Fill { lsn, writer, number } } => {
                format!("copy.{:020}.{writer:010}.{number:010}", lsn.0)
            }
            Self::Leap { from, to, tidier } => {
                format!("leap.{:020}-{:020}.{tidier:010}", from.0, to.0)
            }
        }
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Log { first, last, writer } => Name::Log { first, last, writer }.fmt(f),
            Self::Copy { fill } => {
                write!(f, "the copy of block {} by writer {}", fill.lsn, fill.writer)
            }
            Self::Leap { from, to, tidier } => {
                write!(f, "what leads from block {from} to {to}, by tidier {tidier}")
            }
        }
    }
}

/// So long after a mark was refused the next attempt is made.
const REFUSED_US: u64 = 600_000_000;

/// What a process knows to be damaged.
#[derive(Default)]
pub(crate) struct Damages {
    known: BTreeSet<Piece>,
    unmarked: VecDeque<Piece>,
    /// It was not looked at yet whether the newest state needs what was found last.
    pub(crate) is_to_go_round: bool,
    /// When to put the next mark, after one was refused.
    due_us: u64,
}

impl Damages {
    /// These are damaged. Returns whether one of them was not known to be.
    pub(crate) fn note(&mut self, pieces: impl IntoIterator<Item = Piece>) -> bool {
        let new = pieces.into_iter().filter(|piece| self.known.insert(*piece));
        let before = self.unmarked.len();
        self.unmarked.extend(new);
        self.unmarked.len() > before
    }

    /// These are, and are marked.
    pub(crate) fn note_marked(&mut self, pieces: &BTreeSet<Piece>) {
        self.known.extend(pieces);
    }

    /// Puts a mark that is not there yet, unless one was refused a while ago. Returns whether there was one to be put.
    pub(crate) fn mark(&mut self, target: &dyn Target, database: Id, now_us: u64) -> Result<bool> {
        let is_due = now_us >= self.due_us;
        let Some(piece) = self.unmarked.front().filter(|_| is_due) else { return Ok(false) };
        if let Err(error) = mark(target, database, *piece) {
            if matches!(&error, Error::Target(error) if error.is_refused()) {
                self.due_us = now_us.saturating_add(REFUSED_US);
            }
            return Err(error);
        }
        self.unmarked.pop_front();
        Ok(true)
    }

    pub(crate) const fn known(&self) -> &BTreeSet<Piece> {
        &self.known
    }

    /// What there is, if these lead nowhere, nor what is marked.
    pub(crate) fn picture(&self, target: &dyn Target, database: Id) -> TargetResult<Picture> {
        let mut names = Picture::names(target, database)?;
        names.extend(self.known.iter().map(|piece| Name::Damaged { piece: *piece }));
        Ok(Picture::of(&names))
    }
}

/// Marks something as damaged.
pub(crate) fn mark(target: &dyn Target, database: Id, piece: Piece) -> Result<()> {
    let name = Name::Damaged { piece };
    // If there is one, it says the same.
    target.put_new(database, &name, &Header::new(database, name).encode())?;
    Ok(())
}

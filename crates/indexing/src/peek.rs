//! What the index says before the log is read: its manifest alone, and nothing is changed.
//!
//! ```text
//!   peek ─┬─ durable   a witness: the log was durable up to the cut, whatever the runs are worth
//!         └─ known     counts, maps, ids as of the cut ── believe ─► Believed ─► Tail
//! ```
//!
//! The witness holds even if what the index contains is of no use: it is being built, or another
//! program has cut it. A log that ends before it has lost durable blocks, and recovery refuses it.

use std::path::{Path, PathBuf};

use base::Lsn;
use env::Disk;

use crate::error::{Error, Result};
use crate::known::Known;
use crate::namer::Namer;
use crate::tail::Tail;

/// What the index in a directory says.
#[derive(Debug)]
pub struct Peeked {
    dir: PathBuf,
    cut: Lsn,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    /// There is no index, or nothing was ever installed.
    None,
    Known(Known),
    /// It cannot be gone on with.
    Useless(Unusable),
}

/// Why an index is of no use to a start.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// Nothing was ever installed.
    #[error("there is none")]
    Missing,
    /// It is damaged, of another database, or in a newer format.
    #[error(transparent)]
    Refused(logindex::Error),
    /// What is kept with the cut is not known here.
    #[error("another version of the program has cut it")]
    OtherVersion,
    /// A program that keeps no index has compacted what is behind the cut.
    #[error("blocks were compacted that it does not know")]
    Compacted,
    /// The build can go on, but says nothing yet.
    #[error("it is not built to the end")]
    Unfinished,
    /// The build has missed what was compacted.
    #[error("the log was opened without it while it was built")]
    OpenedWithout,
    /// A pass has yet to count.
    #[error("its keys are not counted yet")]
    Uncounted,
    /// What that has logged counts for nothing.
    #[error("the log was being written anew")]
    Relogging,
}

/// An index that a start may believe instead of reading the log up to its cut.
#[derive(Debug)]
pub struct Believed {
    cut: Lsn,
    known: Known,
}

/// Reads what the index in `dir` says before the log is read. Changes nothing.
///
/// An index of no use is no error: [`Peeked::believe`] says why it is of none.
///
/// # Errors
/// When the directory cannot be read.
pub fn peek(disk: &dyn Disk, dir: &Path, database: [u8; 16]) -> Result<Peeked> {
    let (cut, contents) = match logindex::installed_cut(disk, dir, database) {
        Ok(None) => (Lsn::ZERO, Contents::None),
        Ok(Some(cut)) => {
            let contents = match Known::decode(&cut.state) {
                Some(known) => Contents::Known(known),
                None => Contents::Useless(Unusable::OtherVersion),
            };
            (cut.lsn, contents)
        }
        Err(error) if is_of_no_use(&error) => {
            (Lsn::ZERO, Contents::Useless(Unusable::Refused(error)))
        }
        Err(error) => return Err(Error::unreadable(dir)(error)),
    };
    Ok(Peeked { dir: dir.to_owned(), cut, contents })
}

impl Peeked {
    /// The log was durable up to this block; 0 if the index does not tell.
    #[must_use]
    pub const fn durable(&self) -> Lsn {
        self.cut
    }

    /// Refuses a log that was durable beyond its end, which is now at `end`.
    ///
    /// # Errors
    /// [`Error::AheadOfLog`].
    pub fn check_end(&self, end: Lsn) -> Result<()> {
        match self.cut > end {
            true => Err(Error::AheadOfLog { dir: self.dir.clone(), cut: self.cut, end }),
            false => Ok(()),
        }
    }

    /// Whether a start may believe the index. `horizon` is the log's: no compaction has removed
    /// anything of a block above it.
    ///
    /// # Errors
    /// The reason, if not: the log must be read as a whole.
    pub fn believe(self, horizon: Lsn) -> std::result::Result<Believed, Unusable> {
        Err(match self.contents {
            Contents::None => Unusable::Missing,
            Contents::Useless(why) => why,
            Contents::Known(_) if horizon > self.cut => Unusable::Compacted,
            Contents::Known(known) if known.can_start() => {
                return Ok(Believed { cut: self.cut, known });
            }
            Contents::Known(known) if known.building().is_some() => Unusable::Unfinished,
            Contents::Known(known) if known.keys().is_none() => Unusable::Uncounted,
            Contents::Known(_) => Unusable::Relogging,
        })
    }

    /// What an index goes on with that follows the log opened for the `epoch`th time; `None` if it
    /// begins with the first block.
    ///
    /// # Errors
    /// The reason, if what there is must be removed.
    pub(crate) fn go_on(self, epoch: u64) -> std::result::Result<Option<Known>, Unusable> {
        match self.contents {
            Contents::None => Ok(None),
            Contents::Useless(why) => Err(why),
            Contents::Known(mut known) => {
                if known.building().is_some_and(|built| built.saturating_add(1) != epoch) {
                    return Err(Unusable::OpenedWithout);
                }
                known.note_epoch(epoch);
                Ok(Some(known))
            }
        }
    }
}

impl Believed {
    /// The cut: blocks up to here need not be read.
    #[must_use]
    pub const fn cut(&self) -> Lsn {
        self.cut
    }

    /// What was known at the cut.
    #[must_use]
    pub const fn known(&self) -> &Known {
        &self.known
    }

    /// Becomes what takes the records behind the cut. `seed` is the log's.
    #[must_use]
    pub fn tail(self, seed: [u8; 16]) -> Tail {
        Tail::behind(self.cut, self.known, Namer::new(seed))
    }
}

/// Whether the way out is to remove the index.
pub(crate) fn is_of_no_use(error: &logindex::Error) -> bool {
    match error {
        logindex::Error::OtherDatabase { .. } => true,
        logindex::Error::File(env::FileError::NewerFormat { .. }) => true,
        error => error.is_corrupt(),
    }
}

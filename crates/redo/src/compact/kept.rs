//! Files that were replaced and are kept, and what needs them: the words of [`super::holds`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use base::{Lsn, SegmentId};

use crate::compact::window::{Moment, Window};
use crate::format::manifest::KeptFile;

/// The number of a mark in the life of a log.
pub(crate) type MarkId = u64;

/// Where a mark finds a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// In the files that are in place.
    InPlace,
    /// In these, on the devices with these indices.
    Kept(Vec<(PathBuf, usize)>),
    /// Its file was replaced and could not be kept.
    Lost,
}

/// A file that was replaced and is kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) file: KeptFile,
    pub(crate) path: PathBuf,
    /// The index of its device.
    pub(crate) device: usize,
    /// The segments that it has images of.
    pub(crate) segments: Vec<SegmentId>,
    /// The marks that it is kept for.
    pub(crate) holders: BTreeSet<MarkId>,
    /// The compaction that has replaced it: files of one belong together. [`Holds::keep`] says.
    pub(crate) turn: u64,
    pub(crate) bytes: u64,
    /// It has another name too, in place, of a reader or in a copy by hard links, when that was looked for last: letting go
    /// of it makes no room.
    pub(crate) is_linked: bool,
    /// When it was replaced; after a start, when that was.
    pub(crate) kept_at: Moment,
}

/// What a mark needs.
pub(super) struct Held {
    /// Segments from here on have begun after it.
    pub(super) segment_end: SegmentId,
    /// Those that it has read.
    pub(super) released: BTreeSet<SegmentId>,
    pub(super) lost: BTreeSet<SegmentId>,
}

impl Held {
    pub(super) fn needs(&self, segment: SegmentId) -> bool {
        segment < self.segment_end && !self.released.contains(&segment)
    }
}

/// Whether the window has lost a file because that could not be kept.
#[derive(Default)]
pub(super) enum Refusal {
    /// The last one was kept.
    #[default]
    None,
    /// It was not, for this reason, which was not told yet.
    New(String),
    Told,
}

/// What readers of other processes hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReaderFigures {
    /// Directories with links; one a reader and device.
    pub(crate) count: usize,
    /// How long the files are that have no other name than one of a reader's.
    pub(crate) bytes: u64,
}

/// What [`Holds::figures`] says.
pub(crate) struct WindowFigures {
    /// The log can be read as of every block from here on.
    pub(crate) floor: Lsn,
    /// When the log was there, at the latest, in Unix milliseconds.
    pub(crate) floor_ms: i64,
    /// How long ago that is.
    pub(crate) seconds: u64,
    /// How many files went early.
    pub(crate) given_up: u64,
    /// No more than this is kept, because a device has refused more that its disk seemed to have room for.
    pub(crate) limit_bytes: Option<u64>,
    /// All files that are kept.
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// Those that are kept for marks.
    pub(crate) files_of_marks: usize,
    pub(crate) readers: ReaderFigures,
}

/// Whether neither a mark, nor the window, nor a backup needs the file.
pub(super) fn is_superfluous(kept: &Kept, held: &BTreeMap<MarkId, Held>, window: &Window) -> bool {
    let mut holders = kept.holders.iter().filter_map(|id| held.get(id));
    let needs = |held: &Held| {
        let mut segments = kept.segments.iter();
        segments.any(|segment| held.needs(*segment) && !held.lost.contains(segment))
    };
    !holders.any(needs) && !window.needs(kept)
}

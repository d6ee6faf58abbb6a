//! In which files segments were seen that share one: a hint for the next look.
//!
//! A file is named after the first of its segments. Where another one is, only the files say, and
//! opening all of them for each segment takes long where there are thousands. What is said here may be
//! out of date: a reader that does not find the segment there looks at every file, and notes all that
//! it has seen.

use std::collections::HashMap;

use base::{Mutex, SegmentId};

/// See the file's top.
#[derive(Default)]
pub(crate) struct Leaders(Mutex<HashMap<SegmentId, SegmentId>>);

impl Leaders {
    /// Notes the segments of all files, each with the one that its file is named after.
    pub(crate) fn note_all(&self, seen: impl Iterator<Item = (SegmentId, SegmentId)>) {
        let sharing = seen.filter(|(segment, leader)| segment != leader);
        *self.0.lock() = sharing.collect();
    }

    /// The segment that the file with this one was named after, if it was another.
    pub(crate) fn find(&self, segment: SegmentId) -> Option<SegmentId> {
        self.0.lock().get(&segment).copied()
    }
}

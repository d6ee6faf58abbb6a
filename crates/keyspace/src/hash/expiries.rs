//! When the fields of one large hash expire, in order of time.
//!
//! A field is in it by the hash of its name, as the table has the name already: 16 bytes a field, and the
//! field that is due first is found without looking at others. Two fields whose names have one hash and that expire
//! together share a line; it stays until the last of them goes.

use std::collections::BTreeSet;

/// About what a line takes.
const LINE_BYTES: usize = 24;

/// See the file's top.
#[derive(Default)]
pub(super) struct FieldExpiries {
    lines: BTreeSet<(i64, u64)>,
}

impl FieldExpiries {
    /// When the first field expires, and the hash of its name.
    pub(super) fn first(&self) -> Option<(i64, u64)> {
        self.lines.first().copied()
    }

    /// A field whose name has this hash expires then.
    pub(super) fn add(&mut self, at_ms: i64, hash: u64) {
        self.lines.insert((at_ms, hash));
    }

    /// No field whose name has this hash expires then any more.
    pub(super) fn remove(&mut self, at_ms: i64, hash: u64) {
        self.lines.remove(&(at_ms, hash));
    }

    /// Whether no field expires.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// About how many bytes it takes.
    pub(super) fn allocated_bytes(&self) -> usize {
        size_of::<Self>() + self.lines.len() * LINE_BYTES
    }

    /// Takes it apart line by line, as the fields are, so that no step has to free all of it.
    pub(super) fn into_lines(self) -> impl Iterator<Item = (i64, u64)> + Send {
        self.lines.into_iter()
    }
}

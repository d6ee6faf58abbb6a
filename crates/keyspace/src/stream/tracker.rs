//! What one command changes in a stream, to be logged when it ends, and what a walk has still to emit.
//!
//! ```text
//!   names    nodes ………… │ groups …… consumers …… pending
//!            emitted     cursor
//!   kept                 │   ● as it was before its change     ○ was not there
//! ```
//!
//! Everything that changes passes [`Tracker::touch`] before it does. The first time in a command that keeps the
//! address of its record, and the first time since a walk opened the shadow, behind the cursor, its value.
//!
//! # Invariants
//! - Between commands nothing is touched.
//! - A name is kept once, and only behind the cursor; what is not kept there is as it was.

use std::collections::BTreeMap;

use base::RecordAddr;

use super::name::Name;

/// What a name that is kept takes besides its value.
const KEPT_BYTES: usize = 64;

/// See the file's top.
#[derive(Default)]
pub(super) struct Tracker {
    /// The names that have changed, each with where its record was.
    touched: BTreeMap<Name, Option<RecordAddr>>,
    /// The root must be logged.
    pub(super) is_root_touched: bool,
    shadow: Option<Box<Shadow>>,
}

/// What a walk has still to emit.
pub(super) struct Shadow {
    /// The value of the root as it was, until it was emitted.
    root: Option<Box<[u8]>>,
    /// How many units there were.
    units: u64,
    /// Up to this name all was emitted.
    pub(super) cursor: Option<Name>,
    kept: BTreeMap<Name, Option<Box<[u8]>>>,
    bytes: usize,
}

/// What comes next in a walk.
pub(super) enum Kept {
    /// It is as it was.
    Live,
    /// It was this.
    Old(Box<[u8]>),
    /// It was not there.
    Absent,
}

impl Tracker {
    /// What has this name changes, or goes: its record is at `addr`, and `put` writes its value.
    pub(super) fn touch(
        &mut self,
        name: Name,
        addr: Option<RecordAddr>,
        put: impl FnOnce(&mut Vec<u8>),
    ) {
        self.touched.entry(name).or_insert(addr);
        if let Some(shadow) = &mut self.shadow {
            shadow.keep(name, || {
                let mut value = Vec::new();
                put(&mut value);
                Some(value.into_boxed_slice())
            });
        }
    }

    /// Something that was not there gets this name.
    pub(super) fn touch_new(&mut self, name: Name) {
        self.touched.entry(name).or_insert(None);
        if let Some(shadow) = &mut self.shadow {
            shadow.keep(name, || None);
        }
    }

    /// Takes what has changed.
    pub(super) fn take_touched(&mut self) -> BTreeMap<Name, Option<RecordAddr>> {
        std::mem::take(&mut self.touched)
    }

    /// See [`crate::object::Large::open_shadow`]; `root` is the value of the root's record, of so many units.
    pub(super) fn open_shadow(&mut self, root: Vec<u8>, units: u64) {
        let root = root.into_boxed_slice();
        let bytes = root.len();
        let kept = BTreeMap::new();
        let shadow = Shadow { root: Some(root), units, cursor: None, kept, bytes };
        self.shadow = Some(Box::new(shadow));
    }

    /// See [`crate::object::Large::shadow_bytes`].
    pub(super) fn shadow_bytes(&self) -> Option<usize> {
        self.shadow.as_ref().map(|shadow| shadow.bytes)
    }

    /// Takes the shadow out, to emit of it; it is put back unless that was all.
    pub(super) fn take_shadow(&mut self) -> Option<Box<Shadow>> {
        self.shadow.take()
    }

    pub(super) fn put_back(&mut self, shadow: Box<Shadow>) {
        self.shadow = Some(shadow);
    }
}

impl Shadow {
    fn keep(&mut self, name: Name, value: impl FnOnce() -> Option<Box<[u8]>>) {
        if self.cursor.is_some_and(|cursor| name <= cursor) || self.kept.contains_key(&name) {
            return;
        }
        let value = value();
        self.bytes += KEPT_BYTES + value.as_ref().map_or(0, |value| value.len());
        self.kept.insert(name, value);
    }

    /// The value of the root, the first time, and how many units there were.
    pub(super) fn take_root(&mut self) -> Option<(Box<[u8]>, u64)> {
        let root = self.root.take()?;
        self.bytes -= root.len();
        Some((root, self.units))
    }

    /// The next name, where `live` is the next one of what there is now, and what was there.
    pub(super) fn next(&mut self, live: Option<Name>) -> Option<(Name, Kept)> {
        let first = self.kept.first_entry();
        match (live, first) {
            (Some(live), Some(first)) if live < *first.key() => Some((live, Kept::Live)),
            (Some(live), None) => Some((live, Kept::Live)),
            (_, Some(first)) => {
                let (name, value) = first.remove_entry();
                self.bytes -= KEPT_BYTES + value.as_ref().map_or(0, |value| value.len());
                Some((name, value.map_or(Kept::Absent, Kept::Old)))
            }
            (None, None) => None,
        }
    }
}

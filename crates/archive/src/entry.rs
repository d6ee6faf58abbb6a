//! Which entry a record is of, in 16 bytes.
//!
//! A key in its database, an element in its object, a library of functions, or the map of the databases. Deletions are records of what they delete.

use std::hash::Hasher as _;

use base::{Record, RecordKind};
use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// See the file's top.
pub(crate) struct EntryHasher {
    key: (u64, u64),
}

/// What a record is of.
#[derive(Clone, Copy)]
enum Scope {
    Key,
    Element,
    Library,
    Databases,
}

impl EntryHasher {
    /// `key` is random: names are chosen by clients, and two that were alike would be one.
    pub(crate) const fn new(key: (u64, u64)) -> Self {
        Self { key }
    }

    /// The entry of a record; `None` of a note, which is of none, and of a lost key, which may be any.
    pub(crate) fn of(&self, record: &Record<'_>) -> Option<u128> {
        let (scope, of, name): (Scope, u64, &[u8]) = match record.kind {
            RecordKind::KeyLost | RecordKind::Note => return None,
            RecordKind::Databases => (Scope::Databases, 0, b""),
            // In no database: a key may have the same name.
            kind if kind.is_library() => (Scope::Library, 0, record.key),
            kind if kind.is_element() => (Scope::Element, record.object.0, record.sub),
            _ => (Scope::Key, record.db.0, record.key),
        };
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        hasher.write_u8(scope as u8);
        hasher.write_u64(of);
        hasher.write(name);
        Some(hasher.finish128().as_u128())
    }
}

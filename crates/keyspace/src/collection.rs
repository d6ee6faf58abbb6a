//! How collections are read and changed: a view for readers, a guard for writers.
//!
//! A handler never sees an entry. It asks the keyspace for a view ([`crate::Keyspace::read`]) or
//! passes a closure that changes the collection through its guard
//! ([`crate::Keyspace::update`]). The guard logs what it changes element by element when the
//! collection is large, and once at its end when it is packed; the keyspace then removes the key
//! if nothing is left, and tells the clients that watch or wait. So no handler can forget to log, to
//! delete an empty collection, or to signal.

use base::DbId;

use crate::entry::{Entry, Kind, Payload};
use crate::recorder::Recorder;
use crate::settings::Settings;
use crate::value_type::Type;

/// An entry checked out for a change, with what a change needs.
pub struct Cell<'a> {
    pub(crate) entry: &'a mut Entry,
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) settings: &'a Settings,
    pub(crate) db: DbId,
    pub(crate) rng: &'a mut fastrand::Rng,
    /// A buffer to build packed bytes in.
    pub(crate) scratch: &'a mut Vec<u8>,
    /// Elements that expire by then are not seen.
    pub(crate) seen_ms: i64,
}

impl Cell<'_> {
    /// Logs the key entry: whole when it is packed, its root when it is an object.
    pub(crate) fn log_key(&mut self) {
        self.recorder.log_key(self.db, self.entry);
    }

    /// Replaces the packed bytes by what is in `scratch`.
    pub(crate) fn store_packed(&mut self, kind: Kind) {
        self.entry.replace_bytes(kind, self.scratch);
    }

    /// The packed bytes, when the collection is packed.
    pub(crate) fn packed(&self) -> Option<crate::packed::Packed<'_>> {
        match self.entry.payload() {
            Payload::Packed(_, bytes) => Some(crate::packed::Packed::new(bytes)),
            _ => None,
        }
    }
}

/// How a guard left its collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// Something changed.
    pub changed: bool,
    /// No element is left.
    pub empty: bool,
    /// What changed is nothing that transactions watch a key for: what groups of a stream know, say.
    pub is_quiet: bool,
}

/// A type of collection. The marker types that implement it ([`crate::hash::Hash`] …) are what
/// [`crate::Keyspace::read`] and [`crate::Keyspace::update`] are called with.
pub trait Collection {
    /// What readers get.
    type View<'a>;
    /// What writers get.
    type Guard<'a>;
    /// The type that clients see.
    const TYPE: Type;
    #[doc(hidden)]
    fn packed_kind() -> Option<PackedKind>;
    #[doc(hidden)]
    fn view<'a>(value: ValueRef<'a>) -> Self::View<'a>;
    #[doc(hidden)]
    fn open<'a>(cell: Cell<'a>) -> Self::Guard<'a>;
    #[doc(hidden)]
    fn close(guard: Self::Guard<'_>) -> Closed;
}

/// The kind of payload that a small collection is; there is none for a type that is an object from its
/// first element on.
pub struct PackedKind(pub(crate) Kind);

/// The value of an entry that is of the asked type, and by when elements have expired that are not seen.
pub struct ValueRef<'a>(
    pub(crate) Payload<'a>,
    pub(crate) crate::hasher::KeyHasher,
    pub(crate) i64,
);

/// What a [`ValueRef`] has for a reader that sees elements that have expired.
pub(crate) const ALL_SEEN: i64 = i64::MIN;

/// What a change came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updated<R> {
    /// What the closure returned.
    pub value: R,
    /// The collection changed.
    pub changed: bool,
    /// The key was not there before and is now.
    pub created: bool,
    /// The last element went, and the key with it.
    pub emptied: bool,
}

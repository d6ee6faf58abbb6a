//! A walk of the keyspace in memory, passed on to a target.

use keyspace::walk::{DecodeError, Decoder, Key, Visitor};

use crate::error::{Error, Result};
use crate::target::{DumpedKey, Element, Target};

/// Takes the chunks of a walk in their order, and passes keys on.
pub struct WalkDump<T> {
    decoder: Decoder,
    target: T,
}

impl<T: Target> WalkDump<T> {
    /// Begins a dump of a walk.
    pub fn new(target: T) -> Self {
        Self { decoder: Decoder::default(), target }
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// When the target fails.
    pub fn chunk(&mut self, chunk: &[u8]) -> Result<()> {
        let decoded = self.decoder.decode(chunk, &mut Passing(&mut self.target));
        decoded.map_err(|error| match error {
            DecodeError::Malformed(what) => Error::Walk { what },
            DecodeError::Refused(error) => Error::Target(Box::new(error)),
        })
    }

    /// Whether every key has come.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.decoder.is_finished()
    }

    /// How many keys have come.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.decoder.keys()
    }

    /// The target, with all that it was given.
    pub fn into_target(self) -> T {
        self.target
    }
}

struct Passing<'a, T>(&'a mut T);

impl<T: Target> Visitor for Passing<'_, T> {
    type Error = T::Error;

    fn begin(&mut self, key: &Key<'_>) -> std::result::Result<(), T::Error> {
        let Key { database, key, value_type, count, expires_at_ms, has_expiring_fields, .. } = *key;
        self.0.begin(&DumpedKey {
            database,
            key,
            value_type,
            count,
            expires_at_ms,
            has_expiring_fields,
        })
    }

    fn element(&mut self, element: Element<'_>) -> std::result::Result<(), T::Error> {
        self.0.element(element)
    }

    fn end(&mut self) -> std::result::Result<(), T::Error> {
        self.0.end()
    }
}

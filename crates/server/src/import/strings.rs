//! Strings of a dump, put into the keyspace some at a time.
//!
//! Where a key belongs is far from where the one before it does, so each insertion waits for memory; those of
//! several keys that are known together wait at the same time (`Keyspace::prefetch`, `Keyspace::prefetch_room`).

use std::ops::Range;

use base::DbIndex;
use keyspace::{Expiry, Keyspace};

/// So many strings are put in together.
const STRINGS_MAX: usize = 32;

/// And so many bytes, unless one alone has more.
const BYTES_MAX: usize = 64 << 10;

/// How a key was used, as far as the dump says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    pub(super) idle_s: Option<u64>,
    pub(super) frequency: Option<u8>,
}

impl Use {
    /// Tells the keyspace.
    pub(super) fn note(self, keyspace: &mut Keyspace, db: DbIndex, key: &[u8]) {
        if self.idle_s.is_some() || self.frequency.is_some() {
            let ms = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
            keyspace.set_use(db, key, self.idle_s.map(ms), self.frequency);
        }
    }
}

struct Waiting {
    key: Range<usize>,
    value: Range<usize>,
    expires_at_ms: Option<i64>,
    usage: Use,
}

/// See the file's top.
#[derive(Default)]
pub(super) struct Strings {
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
}

impl Strings {
    /// Adds one. Whether it is time to put them in.
    pub(super) fn push(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<i64>,
        usage: Use,
    ) -> bool {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let end = self.bytes.len();
        self.waiting.push(Waiting { key: start..middle, value: middle..end, expires_at_ms, usage });
        self.waiting.len() == STRINGS_MAX || end >= BYTES_MAX
    }

    /// Puts them into a database.
    ///
    /// # Errors
    /// The first key that is there already.
    pub(super) fn put(&mut self, keyspace: &mut Keyspace, db: DbIndex) -> Result<(), Vec<u8>> {
        let hasher = keyspace.hasher();
        let mut hashes = [0; STRINGS_MAX];
        for (hash, one) in hashes.iter_mut().zip(&self.waiting) {
            *hash = hasher.hash(&self.bytes[one.key.clone()]);
        }
        let hashes = &hashes[..self.waiting.len()];
        keyspace.prefetch(db, hashes);
        keyspace.prefetch_room(db, hashes);
        for Waiting { key, value, expires_at_ms, usage } in self.waiting.drain(..) {
            let (key, value) = (&self.bytes[key], &self.bytes[value]);
            let expiry = expires_at_ms.map_or(Expiry::Clear, Expiry::At);
            if keyspace.set_string(db, key, value, expiry) {
                return Err(key.to_vec());
            }
            usage.note(keyspace, db, key);
        }
        self.bytes.clear();
        self.bytes.shrink_to(2 * BYTES_MAX);
        Ok(())
    }
}

//! The hash of keys, fields and members: SipHash-1-3 with a seed that clients do not know, so
//! that no client can choose keys that collide.
//!
//! It is the upper half of the hash by which the log's index knows the same name: the tables in memory and
//! the index have their keys in the same order, and a range of one is a range of the other.

use siphasher::sip128::SipHasher13;

/// What an index knows of a key's name: 96 bits of its hash, the upper 64 first, little-endian.
pub type Identity = [u8; 12];

/// The keyed hash of one database. The seed is kept in the log's manifest, so that the order by
/// hash is the same after a restart.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher(SipHasher13);

impl KeyHasher {
    /// A hasher with this seed.
    #[must_use]
    pub fn new(seed: [u8; 16]) -> Self {
        Self(SipHasher13::new_with_key(&seed))
    }

    /// The identity of `key`.
    #[must_use]
    pub fn identity(self, key: &[u8]) -> Identity {
        let hash = self.0.hash(key);
        let mut identity = [0; size_of::<Identity>()];
        identity[..8].copy_from_slice(&hash.h1.to_le_bytes());
        identity[8..].copy_from_slice(&hash.h2.to_le_bytes()[..4]);
        identity
    }

    /// The hash of the key with this identity.
    pub(crate) fn hash_in(identity: &Identity) -> u64 {
        u64::from_le_bytes(*identity.first_chunk().expect("it is longer"))
    }

    /// The hash of `key`.
    #[must_use]
    #[inline]
    pub fn hash(self, key: &[u8]) -> u64 {
        self.0.hash(key).h1
    }
}

//! The hash of keys, fields and members: SipHash-1-3 with a seed that clients do not know, so
//! that no client can choose keys that collide.

use siphasher::{sip::SipHasher13, sip128};

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

    /// The identity of `key`: SipHash-1-3-128 with the same seed. Rarely needed, so nothing is kept for it.
    #[must_use]
    pub fn identity(self, key: &[u8]) -> Identity {
        let hash = sip128::SipHasher13::new_with_key(&self.0.key()).hash(key);
        let mut identity = [0; size_of::<Identity>()];
        identity[..8].copy_from_slice(&hash.h1.to_le_bytes());
        identity[8..].copy_from_slice(&hash.h2.to_le_bytes()[..4]);
        identity
    }

    /// The hash of `key`.
    #[must_use]
    #[inline]
    pub fn hash(self, key: &[u8]) -> u64 {
        self.0.hash(key)
    }
}

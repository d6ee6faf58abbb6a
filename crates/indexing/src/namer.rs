//! The name by which the index knows a record.

use base::{Record, RecordAddr, RecordKind};
use keyspace::Identity;
use logindex::{Entry, Hash96, Name, Place, Scope, What};
use siphasher::sip128::SipHasher13;

/// Gives records their names.
///
/// A name is 96 bits of SipHash-1-3-128 with the database's secret seed. Numbered elements are hashed
/// like all others: a record that says that an element is gone does not say of what type it was.
#[derive(Clone, Copy, Debug)]
pub struct Namer {
    hasher: SipHasher13,
}

impl Namer {
    /// Creates the namer of a database by its seed.
    #[must_use]
    pub fn new(seed: [u8; 16]) -> Self {
        Self { hasher: SipHasher13::new_with_key(&seed) }
    }

    /// The identity of a key in its database, or of an element in its object.
    #[must_use]
    pub fn hash(&self, name: &[u8]) -> Hash96 {
        let hash = self.hasher.hash(name);
        #[expect(clippy::cast_possible_truncation, reason = "96 of 128 bits")]
        Hash96::new(hash.h1, hash.h2 as u32)
    }

    /// What the index is told of a record at `addr`; `None` for a record that is of no entry.
    #[must_use]
    pub fn entry(&self, record: &Record<'_>, addr: RecordAddr) -> Option<Entry> {
        let name = match record.kind {
            kind if kind.is_of_no_database() => return None,
            kind if kind.is_element() => {
                Name::new(Scope::object(record.object), self.hash(record.sub))
            }
            RecordKind::KeyLost => {
                let identity = record.key.try_into().ok()?;
                Name::new(Scope::database(record.db), hash_of(identity))
            }
            _ => Name::new(Scope::database(record.db), self.hash(record.key)),
        };
        if record.kind.is_delete() {
            return Some(Entry { name, what: What::Gone });
        }
        let mut place = Place::new(addr, record.kind as u8);
        // When a field of a hash expires, nothing asks the index.
        if let Some(expires_at_ms) = record.expires_at_ms.filter(|_| !record.kind.is_element()) {
            place = place.with_expiry(u64::try_from(expires_at_ms).unwrap_or(0));
        }
        if record.kind.is_root() {
            place = place.with_object(record.object);
        }
        Some(Entry { name, what: What::At(place) })
    }
}

/// The hash of a key with this identity.
#[must_use]
pub fn hash_of(identity: &Identity) -> Hash96 {
    let (high, low) = identity.split_at(8);
    let high = u64::from_le_bytes(high.try_into().expect("eight bytes"));
    Hash96::new(high, u32::from_le_bytes(low.try_into().expect("four bytes")))
}

/// The identity of a key with this hash.
#[must_use]
pub fn identity_of(hash: Hash96) -> Identity {
    let mut identity = [0; size_of::<Identity>()];
    identity[..8].copy_from_slice(&hash.high().to_le_bytes());
    identity[8..].copy_from_slice(&hash.low().to_le_bytes());
    identity
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{DbId, SegmentId};
    use keyspace::KeyHasher;

    #[test]
    fn a_key_whose_name_is_lost_has_the_name_that_it_had() {
        let (seed, addr) = ([3; 16], RecordAddr::new(SegmentId(1), 2));
        let namer = Namer::new(seed);
        let identity = KeyHasher::new(seed).identity(b"key");
        assert_eq!(identity, identity_of(namer.hash(b"key")));
        let string = Record::whole(RecordKind::String, DbId(4), b"key", b"value", None);
        let lost = Record::whole(RecordKind::KeyLost, DbId(4), &identity, &[0], None);
        let name = |record| namer.entry(record, addr).unwrap().name;
        assert_eq!(name(&string), name(&lost));
    }
}

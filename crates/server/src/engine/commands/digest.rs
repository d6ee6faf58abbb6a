//! DEBUG DIGEST: a fingerprint of the data, the one that Redis computes for the same data.
//!
//! Elements that have an order are mixed in one after the other, the others are combined by XOR, so
//! that the fingerprint depends on the data alone and not on how it lies in memory.

use base::DbIndex;
use keyspace::hash::Hash;
use keyspace::list::List;
use keyspace::set::Set;
use keyspace::zset::ZSet;
use keyspace::{Keyspace, Need, Type};
use sha1::{Digest as _, Sha1};

/// A fingerprint in the making.
#[derive(Clone, Copy, Default)]
pub(super) struct Fingerprint([u8; 20]);

impl Fingerprint {
    /// Adds bytes for which the order does not matter.
    fn xor(&mut self, bytes: &[u8]) {
        let hash = Sha1::digest(bytes);
        self.0.iter_mut().zip(hash).for_each(|(own, other)| *own ^= other);
    }

    /// Adds bytes for which the order matters.
    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    /// In hexadecimal digits.
    pub(super) fn text(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The fingerprint of all databases.
pub(super) fn of_all(keyspace: &mut Keyspace) -> Fingerprint {
    let mut all = Fingerprint::default();
    for db in keyspace.databases() {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        keyspace.for_each_key(db, None, |key, _| keys.push(key.to_vec()));
        if keys.is_empty() {
            continue;
        }
        all.mix(&u32::try_from(db.get()).expect("databases are few").to_be_bytes());
        for key in keys {
            let mut one = Fingerprint::default();
            one.mix(&key);
            let was_cold = keyspace.missing(db, &key, Need::Name).is_some();
            let was_there = keyspace.missing(db, &key, Need::Value).is_none();
            add_value(keyspace, db, &key, &mut one);
            // All values at once may be more than fits.
            if !was_there {
                keyspace.cool_key(db, &key);
            }
            if was_cold {
                keyspace.depart_key(db, &key);
            }
            all.xor(&one.0);
        }
    }
    all
}

/// The fingerprint of one value, without its key; zeros when the key is not there.
pub(super) fn of_value(keyspace: &mut Keyspace, db: DbIndex, key: &[u8]) -> Fingerprint {
    let mut fingerprint = Fingerprint::default();
    add_value(keyspace, db, key, &mut fingerprint);
    fingerprint
}

fn add_value(keyspace: &mut Keyspace, db: DbIndex, key: &[u8], fingerprint: &mut Fingerprint) {
    let Some(kind) = keyspace.type_of(db, key) else { return };
    let expires = keyspace.expires_at_ms(db, key).flatten().is_some();
    keyspace.track_access(false);
    match kind {
        Type::String => {
            fingerprint.mix(&0_u32.to_be_bytes());
            let mut digits = itoa::Buffer::new();
            if let Ok(Some(value)) = keyspace.string(db, key) {
                fingerprint.mix(value.as_bytes(&mut digits));
            }
        }
        Type::List => {
            fingerprint.mix(&1_u32.to_be_bytes());
            if let Ok(Some(list)) = keyspace.read::<List>(db, key) {
                list.iter_from(0).for_each(|element| fingerprint.mix(element));
            }
        }
        Type::Set => {
            fingerprint.mix(&2_u32.to_be_bytes());
            if let Ok(Some(set)) = keyspace.read::<Set>(db, key) {
                set.iter().for_each(|member| fingerprint.xor(member));
            }
        }
        Type::ZSet => {
            fingerprint.mix(&3_u32.to_be_bytes());
            if let Ok(Some(zset)) = keyspace.read::<ZSet>(db, key) {
                for (member, score) in zset.iter() {
                    let mut element = Fingerprint::default();
                    let mut text = Vec::new();
                    resp::format_double(score, &mut text);
                    element.mix(member);
                    element.mix(&text);
                    fingerprint.xor(&element.0);
                }
            }
        }
        Type::Hash => {
            fingerprint.mix(&4_u32.to_be_bytes());
            if let Ok(Some(hash)) = keyspace.read::<Hash>(db, key) {
                hash.for_each(|field, value| {
                    let mut element = Fingerprint::default();
                    element.mix(field);
                    element.mix(value);
                    fingerprint.xor(&element.0);
                });
            }
        }
    }
    keyspace.track_access(true);
    if expires {
        fingerprint.xor(b"!!expire!!");
    }
}

//! DEBUG DIGEST: a fingerprint of the data, the one that Redis computes for the same data
//! (`rdb::Fingerprint`).

use base::DbIndex;
use keyspace::hash::Hash;
use keyspace::list::List;
use keyspace::set::Set;
use keyspace::stream::{Stream, StreamId};
use keyspace::zset::ZSet;
use keyspace::{Keyspace, Need, Type};
use rdb::{DatasetFingerprint, EntryId, Fingerprint, Kind};

/// The fingerprint of all databases.
pub(super) fn of_all(keyspace: &mut Keyspace) -> Fingerprint {
    let mut all = DatasetFingerprint::default();
    for db in keyspace.databases() {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        keyspace.for_each_key(db, None, |key, _| keys.push(key.to_vec()));
        let index = u32::try_from(db.get()).expect("databases are few");
        for key in keys {
            let mut one = Fingerprint::of_key(&key);
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
            all.add(index, &one);
        }
    }
    all.finish()
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
            fingerprint.kind(Kind::String);
            let mut digits = itoa::Buffer::new();
            if let Ok(Some(value)) = keyspace.string(db, key) {
                fingerprint.item(value.as_bytes(&mut digits));
            }
        }
        Type::List => {
            fingerprint.kind(Kind::List);
            if let Ok(Some(list)) = keyspace.read::<List>(db, key) {
                list.iter_from(0).for_each(|element| fingerprint.item(element));
            }
        }
        Type::Set => {
            fingerprint.kind(Kind::Set);
            if let Ok(Some(set)) = keyspace.read::<Set>(db, key) {
                set.iter().for_each(|member| fingerprint.member(member));
            }
        }
        Type::ZSet => {
            fingerprint.kind(Kind::ZSet);
            if let Ok(Some(zset)) = keyspace.read::<ZSet>(db, key) {
                zset.iter().for_each(|(member, score)| fingerprint.scored(member, score));
            }
        }
        Type::Hash => {
            fingerprint.kind(Kind::Hash);
            if let Ok(Some(hash)) = keyspace.read::<Hash>(db, key) {
                hash.for_each_field(|field| {
                    fingerprint.field(field.name, field.value, field.expires_at_ms.is_some());
                });
            }
        }
        Type::Stream => {
            fingerprint.kind(Kind::Stream);
            if let Ok(Some(stream)) = keyspace.read::<Stream>(db, key) {
                for entry in stream.range(StreamId::MIN, StreamId::MAX) {
                    fingerprint.entry(EntryId::new(entry.id.ms, entry.id.seq));
                    entry.pairs().for_each(|(name, value)| fingerprint.pair(name, value));
                }
            }
        }
    }
    keyspace.track_access(true);
    if expires {
        fingerprint.expires();
    }
}

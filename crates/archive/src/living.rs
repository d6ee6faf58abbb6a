//! What of a copy, and of the blocks behind it, there is at the last of them.
//!
//! ```text
//!   1  blocks, from the last record back    which entries there are, and a bit for each record: it is the last one of its entry, and no deletion
//!   2  roots of the copy                    which objects no key has any more
//!   3  records of the copy                  stay, unless the entry is one of those; elements, unless their object is
//!   4  blocks, from the first record on     stay where the bit is set; elements, likewise
//! ```
//!
//! **Databases.** Where the map of the databases is among the blocks, what comes before it and is of a database that it has given an id, and that no
//! index has, is gone. Behind it there may be such ones that a later map gives an index (`keyspace::FullRewrite`).
//!
//! **Objects.** An element is garbage if its object had a root, and no key has it any more. One that has none yet, or whose root was gone before the copy, is not
//! known to be garbage: its elements stay. So what is remembered is what has changed, however many objects there are that have not.
//!
//! **Nothing is before it**, so no deletion is needed, nor a note of what has happened; and of each entry one record is there, whichever order they are
//! in. That takes that all entries of the blocks are known: what there is no memory for is no reason to keep more.

use std::collections::HashSet;

use base::{DbId, ObjectId, Record, RecordKind};
use keyspace::DatabaseMap;

use crate::entry::EntryHasher;
use crate::thinner::ENTRY_BYTES;

/// About what one object takes of memory.
const OBJECT_BYTES: usize = 20;

/// See the file's top.
pub(crate) struct Living {
    hasher: EntryHasher,
    memory_bytes: usize,
    /// The entries of the blocks.
    met: HashSet<u128>,
    /// Of each record of the blocks, the last one first, whether it stays.
    bits: Bits,
    map: Option<Map>,
    /// Objects that a record of the blocks which stays binds to a key; and those that had a root and have none that stays.
    bound: HashSet<ObjectId>,
    unbound: HashSet<ObjectId>,
}

/// The last map of the databases among the blocks.
struct Map {
    ids: HashSet<DbId>,
    next: DbId,
}

/// Bits, of which the last one comes first.
#[derive(Default)]
struct Bits {
    words: Vec<u64>,
    count: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.count.is_multiple_of(64) {
            self.words.push(0);
        }
        if let Some(word) = self.words.last_mut() {
            *word |= u64::from(bit) << (self.count % 64);
        }
        self.count += 1;
    }

    fn pop(&mut self) -> Option<bool> {
        self.count = self.count.checked_sub(1)?;
        let bit = self.words.last()? >> (self.count % 64) & 1 == 1;
        self.words.truncate(self.count.div_ceil(64));
        Some(bit)
    }
}

impl Living {
    /// Takes so much memory. `key` is random.
    pub(crate) fn new(memory_bytes: usize, key: (u64, u64)) -> Self {
        let (met, bound, unbound) = (HashSet::new(), HashSet::new(), HashSet::new());
        let (hasher, bits, map) = (EntryHasher::new(key), Bits::default(), None);
        Self { hasher, memory_bytes, met, bits, map, bound, unbound }
    }

    /// Whether it takes more memory than it may. Once full it stops recording, and its answers are invalid.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes() > self.memory_bytes
    }

    fn bytes(&self) -> usize {
        let objects = self.bound.len() + self.unbound.len();
        self.met.len() * ENTRY_BYTES + objects * OBJECT_BYTES + self.bits.words.len() * 8
    }

    /// Step 1: a record of the blocks, of which all later ones were met.
    pub(crate) fn meet(&mut self, record: &Record<'_>) {
        if self.is_full() {
            return;
        }
        let is_last = match self.hasher.of(record) {
            _ if self.is_dropped(record) => false,
            Some(entry) => self.met.insert(entry),
            None => record.kind != RecordKind::Note,
        };
        if is_last && record.kind == RecordKind::Databases {
            let map = DatabaseMap::read(record).ok();
            self.map = map
                .map(|map| Map { ids: map.ids().iter().copied().collect(), next: map.next_id() });
        }
        if record.kind.is_root() && is_last {
            self.bound.insert(record.object);
        } else {
            self.note_gone(record);
        }
        self.bits.push(is_last && !record.kind.is_delete());
    }

    /// Step 2: a record of the copy.
    pub(crate) fn look_at_root(&mut self, record: &Record<'_>) {
        if record.kind.is_root() && !self.is_full() && !self.stays_of_copy(record) {
            self.note_gone(record);
        }
    }

    /// Step 3: whether a record of the copy stays.
    pub(crate) fn stays_of_copy(&self, record: &Record<'_>) -> bool {
        let is_met = self.hasher.of(record).is_some_and(|entry| self.met.contains(&entry));
        let is_over = record.kind.is_delete() || record.kind == RecordKind::Note;
        !is_met && !is_over && !self.is_dropped(record) && self.is_had(record)
    }

    /// Step 4: whether the next record of the blocks stays, the first one first; `None` if there were not so many.
    pub(crate) fn next_stays(&mut self, record: &Record<'_>) -> Option<bool> {
        Some(self.bits.pop()? && self.is_had(record))
    }

    /// A record does not stay.
    fn note_gone(&mut self, record: &Record<'_>) {
        if record.kind.is_root() && !self.bound.contains(&record.object) {
            self.unbound.insert(record.object);
        }
    }

    /// Whether it is of a database that the map, which comes behind it, has given up.
    fn is_dropped(&self, record: &Record<'_>) -> bool {
        let is_of_database = !record.kind.is_element() && !record.kind.is_of_no_database();
        is_of_database
            && self
                .map
                .as_ref()
                .is_some_and(|map| record.db < map.next && !map.ids.contains(&record.db))
    }

    /// Whether it is no element of an object that no key has any more.
    fn is_had(&self, record: &Record<'_>) -> bool {
        !record.kind.is_element() || !self.unbound.contains(&record.object)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex, MutexGuard};

    use super::*;
    use base::{DbIndex, Lsn, RecordAddr, SegmentId};
    use env_sim::SimEntropy;
    use keyspace::hash::Hash;
    use keyspace::list::{End, List};
    use keyspace::set::Set;
    use keyspace::stream::{Delivery, Keep, Stream, StreamId, Trim};
    use keyspace::zset::ZSet;
    use keyspace::{Expiry, Journal, Keyspace, Survey};
    use redo::record;

    /// How many records there were, and which of them were valid.
    pub(crate) type Cut = (usize, BTreeSet<usize>);

    /// What a keyspace has logged, and which of it is garbage; or nothing, while it has no log.
    #[derive(Clone, Default)]
    struct Log(Option<Arc<Mutex<Vec<Logged>>>>);

    /// A record, encoded, and whether it is garbage.
    type Logged = (Vec<u8>, bool);

    impl Log {
        fn all(&self) -> MutexGuard<'_, Vec<Logged>> {
            self.0.as_ref().unwrap().lock().unwrap()
        }

        /// How many records there are, and which are valid now, as the bitmaps of a log say: what a writer copies.
        fn cut(&self) -> Cut {
            let all = self.all();
            let is_valid =
                |(bytes, is_retired): &Logged| !is_retired && !decoded(bytes).kind.is_delete();
            (all.len(), (0..all.len()).filter(|at| is_valid(&all[*at])).collect())
        }
    }

    pub(crate) fn decoded(bytes: &[u8]) -> Record<'_> {
        record::decode(&mut &*bytes).unwrap()
    }

    fn addr(at: usize) -> RecordAddr {
        RecordAddr::new(SegmentId(1), u32::try_from(at).unwrap())
    }

    impl Journal for Log {
        fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
            self.0.as_ref()?;
            let mut bytes = Vec::new();
            record::encode(&mut bytes, record);
            let mut all = self.all();
            all.push((bytes, false));
            Some(addr(all.len() - 1))
        }

        fn retire(&mut self, addr: RecordAddr) {
            if self.0.is_some() {
                self.all()[addr.ordinal() as usize].1 = true;
            }
        }

        fn open_lsn(&self) -> Lsn {
            Lsn(1)
        }

        fn last_lsn(&self) -> Lsn {
            Lsn(1)
        }

        fn durable_lsn(&self) -> Lsn {
            Lsn(1)
        }

        fn undurable_lsn_of(&self, _: RecordAddr) -> Option<Lsn> {
            None
        }
    }

    fn free(keyspace: &mut Keyspace<Log>) {
        while keyspace.free_step(1000) {}
    }

    /// What is done with a stream and its group.
    fn change_stream(keyspace: &mut Keyspace<Log>, (db, key): (DbIndex, &[u8]), n: &[u64; 4]) {
        let changed = keyspace.update::<Stream, _>(db, key, n[0] < 4, |stream| {
            let last = stream.view().last_id();
            match n[0] {
                0..4 => {
                    let value = vec![b'v'; 10 + 40 * usize::try_from(n[1]).unwrap()];
                    for seq in 1..=n[2] + 1 {
                        let id = StreamId::new(1, last.seq + seq);
                        stream.append(id, &[b"field", &value]);
                    }
                    let last = stream.view().last_id();
                    if n[3] == 0 {
                        stream.note_message(b"p", &last.seq.to_le_bytes(), last, 0);
                    }
                }
                4 => _ = stream.create_group(b"g", StreamId::MIN, Some(0)),
                5 if n[1] == 0 => _ = stream.destroy_group(b"g"),
                5 => _ = stream.delete(StreamId::new(1, last.seq - n[2].min(last.seq))),
                6 => _ = stream.trim(Trim { keep: Keep::Newest(n[2]), about: None }),
                _ => {
                    let Some(mut group) = stream.group(b"g") else { return };
                    let name = [b'c' + u8::from(n[1] > 2)];
                    let consumer = group.consumer(&name);
                    let consumer = consumer.unwrap_or_else(|| group.create_consumer(&name, 1));
                    let id = StreamId::new(1, n[2] + 1);
                    match n[3] {
                        0 => _ = group.delete_consumer(consumer),
                        1 => _ = group.release(id),
                        _ => group.deliver(consumer, id, Delivery { at_ms: 5, count: 1 }),
                    }
                }
            }
        });
        _ = changed.ok();
    }

    /// Lists, sorted sets, and what expires.
    fn change_others(
        keyspace: &mut Keyspace<Log>,
        (db, key): (DbIndex, &[u8]),
        names: &[Vec<u8>],
        (which, n): (usize, usize),
    ) {
        let long = |name: &Vec<u8>| [&name[..], &[b'm'; 90]].concat();
        let end = if n % 2 == 0 { End::Front } else { End::Back };
        match which {
            0..4 => {
                let changed = keyspace.update::<List, _>(db, key, true, |list| {
                    names.iter().for_each(|name| list.push(end, &long(name)));
                });
                _ = changed.ok();
            }
            4 => _ = keyspace.update::<List, _>(db, key, false, |list| list.cut(end, n)).ok(),
            5..8 => {
                let changed = keyspace.update::<ZSet, _>(db, key, true, |set| {
                    names.iter().filter_map(|name| set.set(&long(name), n as f64)).count()
                });
                _ = changed.ok();
            }
            8 => {
                let removed =
                    keyspace.update::<ZSet, _>(db, key, false, |set| set.remove_range(0..n));
                _ = removed.ok();
            }
            9 => _ = keyspace.set_expires_at_ms(db, key, Some(n as i64 * 20)),
            10 => {
                let changed = keyspace.update::<Hash, _>(db, key, false, |hash| {
                    let at_ms = Some(n as i64 * 20);
                    names.iter().filter(|name| hash.set_expiry(name, at_ms)).count()
                });
                _ = changed.ok();
            }
            _ => _ = keyspace.expire_due_fields(db, 10),
        }
    }

    /// What some clients do, at this time.
    fn command(keyspace: &mut Keyspace<Log>, rng: &mut SimEntropy, now_ms: i64) {
        let mut number = |below: u64| usize::try_from(rng.below(below)).unwrap();
        let mut dbs = || keyspace.database(number(3)).unwrap();
        let (db, other_db) = (dbs(), dbs());
        let (key, other) = ([b'a' + u8::try_from(number(5)).unwrap()], [b'a']);
        let (which, count) = (number(48), number(6));
        let names: Vec<Vec<u8>> =
            (0..count).map(|_| format!("{}", number(9)).into_bytes()).collect();
        keyspace.begin_command(now_ms);
        match which {
            0..4 => _ = keyspace.set_string(db, &key, &vec![b's'; count * 30_000], Expiry::Clear),
            4..10 => {
                let changed = keyspace.update::<Hash, _>(db, &key, true, |hash| {
                    // Fields that are this long have records of their own.
                    names.iter().filter(|name| hash.set(name, &[b'v'; 90])).count()
                });
                _ = changed.ok();
            }
            10..12 => {
                let changed = keyspace.update::<Hash, _>(db, &key, false, |hash| {
                    names.iter().filter(|name| hash.remove(name)).count()
                });
                _ = changed.ok();
            }
            12..15 => {
                let changed = keyspace.update::<Set, _>(db, &key, true, |set| {
                    let long = |name: &Vec<u8>| [&name[..], &[b'm'; 90]].concat();
                    names.iter().filter(|name| set.add(&long(name))).count()
                });
                _ = changed.ok();
            }
            15..18 => _ = keyspace.delete(db, &key),
            18..20 => {
                if keyspace.exists(db, &key, false) {
                    keyspace.rename(db, &key, other_db, &other);
                }
            }
            20 => keyspace.swap(db, other_db),
            21 => _ = keyspace.flush([db]),
            22 => keyspace.set_library(&key, vec![b'l'; count + 1].into()),
            23 => _ = keyspace.delete_library(&key),
            24..36 => change_others(keyspace, (db, &key), &names, (which - 24, number(6))),
            _ => {
                let n = [number(12), number(5), number(6), number(4)].map(|it| it as u64);
                change_stream(keyspace, (db, b"s"), &n);
            }
        }
        let _lsn = keyspace.end_command();
    }

    /// The log is taken away, and given back with all of the keyspace logged anew.
    fn rewrite(keyspace: &mut Keyspace<Log>, log: &Log, cuts: &mut Vec<Cut>) {
        free(keyspace);
        keyspace.set_journal(Log::default());
        let mut survey = Survey::default();
        for (at, (bytes, is_retired)) in log.all().iter().enumerate() {
            if !is_retired {
                survey.apply(&decoded(bytes), addr(at)).unwrap();
            }
        }
        let mut rewriting = keyspace.begin_full_rewrite(log.clone(), survey);
        while !keyspace.full_rewrite_step(&mut rewriting, 7) {
            cuts.push(log.cut());
        }
        let (journal, rewritten) = rewriting.finish();
        keyspace.set_journal(journal);
        let survey = keyspace.finish_full_rewrite(rewritten);
        keyspace.retire_surveyed(survey);
        free(keyspace);
    }

    /// The records of a log, and what was valid after some of them.
    pub(crate) fn log_of(seed: u64) -> (Vec<Vec<u8>>, Vec<Cut>) {
        let mut rng = SimEntropy::new(seed);
        let (log, mut cuts) = (Log(Some(Arc::default())), Vec::new());
        let mut keyspace = Keyspace::new(log.clone(), [1; 16], 3);
        keyspace.declare_libraries();
        keyspace.declare_messages();
        for step in 0..240 {
            command(&mut keyspace, &mut rng, step);
            free(&mut keyspace);
            if rng.below(4) == 0 {
                cuts.push(log.cut());
            }
            if step == 140 && seed.is_multiple_of(2) {
                rewrite(&mut keyspace, &log, &mut cuts);
            }
        }
        let all = log.all().iter().map(|(bytes, _)| bytes.clone()).collect();
        (all, cuts)
    }

    /// Of these records all, but for maps of the databases before the last one: until a log that is begun anew is whole the one of before is valid, too.
    pub(crate) fn with_one_map(all: &[Vec<u8>], valid: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_map = |at: &usize| decoded(&all[*at]).kind == RecordKind::Databases;
        let last = valid.iter().copied().rfind(is_map);
        valid.iter().copied().filter(|at| !is_map(at) || Some(*at) == last).collect()
    }

    /// What is made of a copy and what is behind it is what a writer would have copied, record by record.
    #[test]
    fn what_there_is_at_the_end_is_what_the_log_has_that_is_valid() {
        let (mut dropped, mut elements, mut checked) = (0, 0, 0);
        let (mut kinds, mut expiring) = (BTreeSet::new(), BTreeSet::new());
        for seed in 0..40 {
            let (all, cuts) = log_of(seed);
            let mut rng = SimEntropy::new(seed);
            for (at, (from, copied)) in cuts.iter().enumerate() {
                let later = usize::try_from(rng.below((cuts.len() - at) as u64)).unwrap();
                let (to, expected) = &cuts[at + later];
                let mut living = Living::new(usize::MAX, (seed, 2));
                let record = |at: usize| decoded(&all[at]);
                (*from..*to).rev().for_each(|at| living.meet(&record(at)));
                copied.iter().for_each(|at| living.look_at_root(&record(*at)));
                let stay = copied.iter().copied().filter(|at| living.stays_of_copy(&record(*at)));
                let mut found: BTreeSet<usize> = stay.collect();
                elements +=
                    copied.difference(&found).filter(|at| record(**at).kind.is_element()).count();
                dropped += copied.len() - found.len();
                found.extend((*from..*to).filter(|at| living.next_stays(&record(*at)).unwrap()));
                assert_eq!(living.next_stays(&record(0)), None);
                let [found, expected] = [&found, expected].map(|it| with_one_map(&all, it));
                let others = found.symmetric_difference(&expected);
                let others: Vec<_> =
                    others.map(|at| (at, record(*at), found.contains(at))).collect();
                assert!(others.is_empty(), "{seed}: {from} to {to}: {others:?}");
                checked += 1;
                let kind_of = |at: &usize| record(*at).kind as u8;
                kinds.extend(found.iter().map(kind_of));
                let expires = |at: &&usize| record(**at).expires_at_ms.is_some();
                expiring.extend(found.iter().filter(expires).map(kind_of));
            }
        }
        // But what never stays, and what is lost, which this log has not.
        let none = [RecordKind::Note, RecordKind::ValueLost, RecordKind::KeyLost];
        let missing = RecordKind::ALL.into_iter().filter(|kind| !kinds.contains(&(*kind as u8)));
        let missing: Vec<RecordKind> =
            missing.filter(|kind| !kind.is_delete() && !none.contains(kind)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(expiring.contains(&(RecordKind::Hash as u8)), "{expiring:?}");
        assert!(expiring.contains(&(RecordKind::HashField as u8)), "{expiring:?}");
        assert!(
            dropped > 1000 && elements > 300 && checked > 1000,
            "{dropped}, {elements}, {checked}"
        );
    }

    #[test]
    fn without_memory_it_says_so() {
        let mut living = Living::new(3 * ENTRY_BYTES + 8, (1, 2));
        for key in [b"a", b"b", b"a", b"c"] {
            living.meet(&Record::key_deleted(DbId(0), key));
            assert!(!living.is_full());
        }
        living.meet(&Record::key_deleted(DbId(0), b"d"));
        assert!(living.is_full());
        // However long an object is that it is met in.
        let bytes = living.bytes();
        for key in 0..1000_u32 {
            living.meet(&Record::key_deleted(DbId(0), &key.to_le_bytes()));
            living.look_at_root(&root(b"a", u64::from(key)));
        }
        assert_eq!(living.bytes(), bytes);
    }

    fn root(key: &[u8], object: u64) -> Record<'_> {
        Record::root(RecordKind::Hash, DbId(0), key, ObjectId(object), b"", None)
    }

    /// What has not changed takes no memory.
    #[test]
    fn objects_that_stay_as_they_are_take_no_memory() {
        let mut living = Living::new(3 * (ENTRY_BYTES + OBJECT_BYTES) + 8, (1, 2));
        living.meet(&root(b"b", 7));
        living.meet(&Record::key_deleted(DbId(0), b"a"));
        for object in 10..100_000 {
            living.look_at_root(&root(&u64::to_le_bytes(object), object));
        }
        let deleted = root(b"a", 5);
        living.look_at_root(&deleted);
        assert!(!living.is_full());
        let field = |object| Record::element(RecordKind::HashField, ObjectId(object), b"f", b"v");
        let stays = [5, 7, 10, 99_999].map(|object| living.stays_of_copy(&field(object)));
        assert_eq!(stays, [false, true, true, true]);
    }
}

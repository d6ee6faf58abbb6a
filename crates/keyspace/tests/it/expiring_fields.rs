//! Fields of hashes that expire, against a map, small and large, through the log.

use std::collections::{BTreeMap, BTreeSet};

use base::RecordKind;
use keyspace::hash::{Field, Hash};
use keyspace::{Journal, Keyspace, Notify};
use proptest::prelude::*;

use crate::DB0;
use crate::bare::Blocks;
use crate::cold::{Index, cold};
use crate::journal::{LoggedKeyspace, MemoryLog};

const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

/// What a hash has: values, and when they expire.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

#[derive(Debug, Clone)]
enum Op {
    Put(usize, u8, usize, Option<i64>),
    Set(usize, u8, usize),
    SetKeeping(usize, u8, usize),
    SetExpiry(usize, u8, Option<i64>),
    Remove(usize, u8),
    Rename(usize, usize),
    Copy(usize, usize),
    Delete(usize),
    /// Time goes on by so many milliseconds.
    Wait(i64),
    /// The cycle of active expiry, for so many fields.
    Cycle(usize),
    /// Commands change nothing, and pass over what has expired.
    LookFrozen(usize),
    Restart(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..KEYS.len();
    let field = 0..40_u8;
    let bytes = prop_oneof![4 => 0..12_usize, 1 => 60..200_usize];
    let time = prop::option::of(1..60_i64);
    prop_oneof![
        6 => (key.clone(), field.clone(), bytes.clone(), time.clone())
            .prop_map(|(key, field, bytes, at)| Op::Put(key, field, bytes, at)),
        3 => (key.clone(), field.clone(), bytes.clone()).prop_map(|(k, f, b)| Op::Set(k, f, b)),
        2 => (key.clone(), field.clone(), bytes).prop_map(|(k, f, b)| Op::SetKeeping(k, f, b)),
        5 => (key.clone(), field.clone(), time).prop_map(|(k, f, at)| Op::SetExpiry(k, f, at)),
        2 => (key.clone(), field).prop_map(|(k, f)| Op::Remove(k, f)),
        1 => (key.clone(), key.clone()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => (key.clone(), key.clone()).prop_map(|(from, to)| Op::Copy(from, to)),
        1 => key.clone().prop_map(Op::Delete),
        3 => (0..25_i64).prop_map(Op::Wait),
        2 => (1..5_usize).prop_map(Op::Cycle),
        1 => key.prop_map(Op::LookFrozen),
        1 => any::<u64>().prop_map(Op::Restart),
    ]
}

fn name(field: u8) -> Vec<u8> {
    format!("field-{field}").into_bytes()
}

struct World {
    log: MemoryLog,
    keyspace: LoggedKeyspace,
    model: BTreeMap<usize, Model>,
    now_ms: i64,
}

impl World {
    fn new() -> Self {
        let log = MemoryLog::default();
        let keyspace = log.keyspace();
        Self { log, keyspace, model: BTreeMap::new(), now_ms: 1000 }
    }

    /// What a command sees of a key: what has expired is gone.
    fn expire(&mut self) {
        let now_ms = self.now_ms;
        for model in self.model.values_mut() {
            model.retain(|_, (_, at_ms)| at_ms.is_none_or(|at_ms| at_ms > now_ms));
        }
        self.model.retain(|_, model| !model.is_empty());
    }

    fn change<R>(
        &mut self,
        key: usize,
        creates: bool,
        change: impl FnOnce(&mut keyspace::hash::HashGuard<'_>) -> R,
    ) -> Option<R> {
        let updated = self.keyspace.update::<Hash, _>(DB0, KEYS[key], creates, change);
        updated.expect("it is a hash").map(|updated| updated.value)
    }

    fn run(&mut self, op: &Op) {
        self.keyspace.begin_command(self.now_ms);
        self.expire();
        let now_ms = self.now_ms;
        match *op {
            Op::Put(key, field, bytes, after_ms) => {
                let (name, value) = (name(field), vec![field; bytes]);
                let expires_at_ms = after_ms.map(|after_ms| now_ms + after_ms);
                let new = Field { name: &name, value: &value, expires_at_ms };
                let is_new = self.change(key, true, |hash| hash.put(&new));
                let fields = self.model.entry(key).or_default();
                let before = fields.insert(name, (value, expires_at_ms));
                assert_eq!(is_new, Some(before.is_none()));
            }
            Op::Set(key, field, bytes) => {
                let (name, value) = (name(field), vec![field; bytes]);
                let is_new = self.change(key, true, |hash| hash.set(&name, &value));
                let before = self.model.entry(key).or_default().insert(name, (value, None));
                assert_eq!(is_new, Some(before.is_none()));
            }
            Op::SetKeeping(key, field, bytes) => {
                let (name, value) = (name(field), vec![field; bytes]);
                let is_new = self.change(key, true, |hash| hash.set_keeping_expiry(&name, &value));
                let fields = self.model.entry(key).or_default();
                let at_ms = fields.get(&name).and_then(|field| field.1);
                let before = fields.insert(name, (value, at_ms));
                assert_eq!(is_new, Some(before.is_none()));
            }
            Op::SetExpiry(key, field, after_ms) => {
                let name = name(field);
                let at_ms = after_ms.map(|after_ms| now_ms + after_ms);
                let is_set = self.change(key, false, |hash| hash.set_expiry(&name, at_ms));
                let found = self.model.get_mut(&key).and_then(|it| it.get_mut(&name));
                assert_eq!(is_set.unwrap_or(false), found.is_some());
                found.into_iter().for_each(|field| field.1 = at_ms);
            }
            Op::Remove(key, field) => {
                let name = name(field);
                let is_removed = self.change(key, false, |hash| hash.remove(&name));
                let removed = self.model.get_mut(&key).and_then(|fields| fields.remove(&name));
                assert_eq!(is_removed.unwrap_or(false), removed.is_some());
            }
            Op::Rename(from, to) => {
                let is_there = self.keyspace.rename(DB0, KEYS[from], DB0, KEYS[to]);
                let moved = self.model.get(&from).cloned();
                assert_eq!(is_there, moved.is_some());
                if let Some(moved) = moved {
                    self.model.remove(&from);
                    self.model.insert(to, moved);
                }
            }
            Op::Copy(from, to) if from != to => {
                let is_there = self.keyspace.copy(DB0, KEYS[from], DB0, KEYS[to]);
                let copied = self.model.get(&from).cloned();
                assert_eq!(is_there, copied.is_some());
                self.model.extend(copied.map(|copied| (to, copied)));
            }
            Op::Copy(..) => {}
            Op::Delete(key) => {
                let is_deleted = self.keyspace.delete(DB0, KEYS[key]);
                assert_eq!(is_deleted, self.model.remove(&key).is_some());
            }
            Op::Wait(ms) => self.now_ms += ms,
            Op::Cycle(fields_max) => while self.keyspace.expire_due_fields(DB0, fields_max) > 0 {},
            Op::LookFrozen(key) => {
                self.keyspace.set_frozen(true);
                let before = self.log.records().len();
                assert_eq!(self.seen(key), self.model.get(&key).cloned().unwrap_or_default());
                assert_eq!(self.log.records().len(), before);
                self.keyspace.set_frozen(false);
            }
            Op::Restart(keeps) => {
                self.log = self.log.snapshot();
                let keeps = |at| keeps >> (at % 64) & 1 == 1;
                self.keyspace = self.log.replay_after_crash(keeps);
            }
        }
        self.model.retain(|_, model| !model.is_empty());
        let _ = self.keyspace.take_effects();
        while self.keyspace.free_step(100) {}
    }

    fn seen(&mut self, key: usize) -> Model {
        let hash = self.keyspace.read::<Hash>(DB0, KEYS[key]).expect("it is a hash");
        let mut seen = Model::new();
        let Some(hash) = hash else { return seen };
        hash.for_each_field(|field| {
            let value = (field.value.to_vec(), field.expires_at_ms);
            assert!(seen.insert(field.name.to_vec(), value).is_none(), "twice");
        });
        assert_eq!((hash.len(), hash.is_empty()), (seen.len(), seen.is_empty()));
        let mut rng = fastrand::Rng::with_seed(self.now_ms.cast_unsigned());
        assert_eq!(hash.random(&mut rng).is_none(), seen.is_empty());
        let sample = hash.sample(5, &mut rng);
        let names: BTreeSet<_> = sample.iter().map(|(name, _)| name.to_vec()).collect();
        assert_eq!(names.len(), seen.len().min(5));
        assert!(names.iter().all(|name| seen.contains_key(name)));
        let (mut scanned, mut cursor) = (BTreeSet::new(), 0);
        loop {
            cursor = hash.scan(cursor, 3, |name, _| _ = scanned.insert(name.to_vec()));
            if cursor == 0 {
                break;
            }
        }
        assert!(scanned.iter().eq(seen.keys()));
        for field in 0..40 {
            let found = hash.field(&name(field)).map(|field| field.expires_at_ms);
            assert_eq!(found, seen.get(&name(field)).map(|field| field.1));
        }
        seen
    }

    fn check(&mut self) {
        self.keyspace.begin_command(self.now_ms);
        self.expire();
        let mut expiring = 0;
        for (key, name) in KEYS.into_iter().enumerate() {
            let expected = self.model.get(&key).cloned().unwrap_or_default();
            assert_eq!(self.seen(key), expected);
            assert_eq!(self.keyspace.exists(DB0, name, false), !expected.is_empty());
            expiring += usize::from(expected.values().any(|field| field.1.is_some()));
        }
        assert_eq!(self.keyspace.expiring_hashes(DB0), expiring);
        assert_eq!(self.keyspace.expire_due_fields(DB0, 1), 0, "all was seen, so nothing is due");
        while self.keyspace.free_step(100) {}
        // What the log has is what there is.
        let mut replayed = self.log.snapshot().replay_after_crash(|_| false);
        replayed.begin_command(0);
        for (key, name) in KEYS.into_iter().enumerate() {
            let hash = replayed.read::<Hash>(DB0, name).expect("it is a hash");
            let mut seen = Model::new();
            hash.into_iter().for_each(|hash| {
                hash.for_each_field(|field| {
                    let value = (field.value.to_vec(), field.expires_at_ms);
                    seen.insert(field.name.to_vec(), value);
                });
            });
            assert_eq!(seen, self.model.get(&key).cloned().unwrap_or_default());
        }
        assert_eq!(replayed.expiring_hashes(DB0), expiring);
    }
}

proptest! {
    #[test]
    fn fields_expire_as_in_a_map(ops in prop::collection::vec(op(), 1..80)) {
        let mut world = World::new();
        for op in &ops {
            world.run(op);
            world.check();
        }
    }

    /// Between two looks nothing removes what has expired, so that there is much of it.
    #[test]
    fn fields_expire_unseen_as_in_a_map(ops in prop::collection::vec(op(), 1..200)) {
        let mut world = World::new();
        ops.iter().for_each(|op| world.run(op));
        world.check();
    }
}

fn put(keyspace: &mut Keyspace, key: &[u8], fields: std::ops::Range<u32>, at_ms: Option<i64>) {
    let updated = keyspace.update::<Hash, _>(DB0, key, true, |hash| {
        for field in fields {
            let (name, value) = (field.to_be_bytes(), &b"value"[..]);
            hash.put(&Field { name: &name, value, expires_at_ms: at_ms });
        }
    });
    updated.expect("it is a hash").expect("it is made");
}

#[test]
fn much_that_has_expired_is_hidden_and_removed_bit_by_bit() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    keyspace.begin_command(0);
    put(&mut keyspace, b"h", 0..10_000, Some(50));
    put(&mut keyspace, b"h", 10_000..10_010, None);
    put(&mut keyspace, b"other", 0..3, Some(60));
    keyspace.begin_command(50);
    let before = log.records().len();
    let hash = keyspace.read::<Hash>(DB0, b"h").unwrap().unwrap();
    assert_eq!(hash.len(), 10, "what is still there is hidden");
    assert!((5_000..10_000).contains(&hash.stored_len()), "not all of it was removed at once");
    assert_eq!(hash.field(&9_999_u32.to_be_bytes()), None);
    let mut rng = fastrand::Rng::with_seed(1);
    assert_eq!(hash.sample(20, &mut rng).len(), 10);
    let last = 9_999_u32.to_be_bytes();
    let logged = log.records().len();
    let names = [&last[..], &10_000_u32.to_be_bytes(), b"none"];
    keyspace.expire_named_fields(DB0, b"h", names);
    let gone = log.records()[logged..].iter().filter(|record| *record.sub == last).count();
    assert_eq!(gone, 1, "what is asked for by name is gone for good");
    let hash = keyspace.read::<Hash>(DB0, b"h").unwrap().unwrap();
    let left = hash.stored_len() - 10;
    let deleted = log.records().len() - before;
    assert_eq!(deleted + left, 10_000, "a record for each");
    let mut removed = 0;
    while let count @ 1.. = keyspace.expire_due_fields(DB0, 100) {
        assert!(count <= 100);
        removed += count;
    }
    assert_eq!(removed, left);
    assert_eq!(keyspace.stats().expired_fields, 10_000);
    assert_eq!(keyspace.expiring_hashes(DB0), 1);
    keyspace.begin_command(60);
    assert_eq!(keyspace.expire_due_fields(DB0, 100), 3);
    assert!(!keyspace.exists(DB0, b"other", false), "the key goes with the last field");
    assert_eq!(keyspace.expiring_hashes(DB0), 0);
}

#[test]
fn a_field_that_expires_is_told_of_and_its_key_when_it_was_the_last() {
    let mut keyspace = MemoryLog::default().keyspace();
    keyspace.settings_mut().notify = Notify::KEYEVENT.with(Notify::HASH).with(Notify::GENERIC);
    keyspace.begin_command(0);
    put(&mut keyspace, b"h", 0..2, Some(5));
    put(&mut keyspace, b"h", 2..3, Some(7));
    let mut told = |now_ms| {
        keyspace.begin_command(now_ms);
        assert_eq!(keyspace.exists(DB0, b"h", false), now_ms < 7);
        let events = keyspace.take_effects().events;
        events.iter().map(|event| event.name).collect::<Vec<_>>()
    };
    assert_eq!(told(4), [""; 0]);
    assert_eq!(told(5), ["hexpired"]);
    assert_eq!(told(6), [""; 0]);
    assert_eq!(told(7), ["hexpired", "del"]);
}

#[test]
fn what_reads_a_field_that_has_expired_waits_for_the_record_that_says_so() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    keyspace.begin_command(0);
    put(&mut keyspace, b"h", 0..100, Some(5));
    put(&mut keyspace, b"h", 100..101, None);
    keyspace.begin_command(5);
    assert!(keyspace.read::<Hash>(DB0, b"h").unwrap().unwrap().get(&[0; 4]).is_none());
    let (_, wrote) = keyspace.end_command();
    assert!(wrote, "the reply depends on the open block");
    let deleted = |logged: &&crate::journal::Logged| logged.kind == RecordKind::ElementDeleted;
    assert_eq!(log.records().iter().filter(deleted).count(), 100);
}

#[test]
fn a_hash_without_such_fields_is_logged_as_ever() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    keyspace.begin_command(0);
    put(&mut keyspace, b"small", 0..3, None);
    put(&mut keyspace, b"large", 0..300, None);
    let bytes = keyspace.memory_usage(DB0, b"large", 0);
    assert!(log.records().iter().all(|logged| logged.kind != RecordKind::HashPackedExpiring));
    assert!(log.records().iter().all(|logged| logged.expires_at_ms.is_none()));
    put(&mut keyspace, b"large", 0..300, Some(9));
    assert!(keyspace.memory_usage(DB0, b"large", 0) > bytes);
    put(&mut keyspace, b"large", 0..300, None);
    assert_eq!(keyspace.memory_usage(DB0, b"large", 0), bytes, "nothing is left of it");
    assert_eq!(keyspace.encoding(DB0, b"small"), Some("listpack"));
    put(&mut keyspace, b"small", 0..1, Some(9));
    assert_eq!(keyspace.encoding(DB0, b"small"), Some("listpackex"));
}

#[test]
fn a_hash_of_which_no_field_expires_any_more_is_still_one_of_which_some_did() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    keyspace.begin_command(0);
    put(&mut keyspace, b"plain", 0..300, None);
    assert!(!log.snapshot().replay_after_crash(|_| false).may_have_expiring_fields());
    put(&mut keyspace, b"large", 0..300, Some(9));
    put(&mut keyspace, b"large", 0..300, None);
    // The root alone says so: dumps must have the form that such a hash has.
    let replayed = log.snapshot().replay_after_crash(|_| false);
    assert!(replayed.may_have_expiring_fields());
}

#[test]
fn what_has_left_memory_holds_up_no_hash_whose_fields_are_due() {
    const HASHES: u32 = 10_000;
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    for hash in 0..HASHES {
        put(&mut keyspace, &hash.to_be_bytes(), 0..1, Some(50));
    }
    blocks.all_indexed();
    let away = (0..HASHES).filter(|hash| hash % 2 == 0);
    let away = away.filter(|hash| keyspace.cool_key(DB0, &hash.to_be_bytes())).count();
    assert_eq!(away, HASHES as usize / 2);
    assert_eq!(keyspace.expiring_hashes(DB0), HASHES as usize / 2, "nothing is kept of the others");
    keyspace.begin_command(50);
    let mut looks = 0;
    while keyspace.expire_due_fields(DB0, 100) > 0 {
        looks += 1;
        assert!(looks <= HASHES / 2, "a look at each hash is enough");
    }
    assert_eq!(keyspace.stats().expired_fields, u64::from(HASHES / 2));
    assert_eq!(keyspace.expiring_hashes(DB0), 0);
}

#[test]
fn when_fields_expire_is_known_while_the_hash_is_in_memory() {
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    put(&mut keyspace, b"small", 0..1, Some(50));
    put(&mut keyspace, b"large", 0..300, Some(50));
    put(&mut keyspace, b"plain", 0..300, None);
    (0..2).for_each(|_| blocks.all_indexed());
    keyspace.note_indexed(blocks.indexed_lsn());
    assert_eq!(keyspace.expiring_hashes(DB0), 2);
    for dropped in 0..2 {
        if dropped == 0 {
            for key in ["small", "large", "plain"] {
                assert!(keyspace.cool_key(DB0, key.as_bytes()), "{key}");
            }
        } else {
            (0..1000).for_each(|_| keyspace.drop_some(100));
        }
        assert_eq!(keyspace.bare_values(), 3);
        assert_eq!(keyspace.expiring_hashes(DB0), 0);
        for (key, count) in [(b"small", 1), (b"plain", 1), (b"large", 2)] {
            assert!(keyspace.read::<Hash>(DB0, key).unwrap().is_some());
            assert_eq!(keyspace.expiring_hashes(DB0), count);
        }
    }
}

/// How many records there are that a field, or a key, is gone.
fn gone(blocks: &Blocks) -> usize {
    blocks.log.records().iter().filter(|logged| logged.kind.is_delete()).count()
}

#[test]
fn a_value_that_comes_back_for_a_command_has_no_fields_that_have_expired() {
    type Command = fn(&mut Keyspace) -> bool;
    let read: Command = |keyspace| keyspace.read::<Hash>(DB0, b"h").unwrap().is_some();
    let look: Command = |keyspace| keyspace.read_to_change::<Hash>(DB0, b"h").unwrap().is_some();
    let persist: Command = |keyspace| keyspace.set_expires_at_ms(DB0, b"h", None);
    let change: Command = |keyspace| {
        let updated = keyspace.update::<Hash, _>(DB0, b"h", false, |hash| {
            hash.remove(b"last");
        });
        updated.unwrap().is_some_and(|updated| !updated.emptied)
    };
    let name: Command = |keyspace| {
        keyspace.expire_named_fields(DB0, b"h", [&b"last"[..]]);
        keyspace.read::<Hash>(DB0, b"h").unwrap().is_some()
    };
    for (command, takes_last) in
        [(read, false), (look, false), (persist, false), (change, true), (name, false)]
    {
        for (count, has_last) in [(3, false), (3, true), (500, false), (500, true)] {
            let blocks = Blocks::default();
            let mut keyspace = blocks.keyspace();
            keyspace.begin_command(0);
            put(&mut keyspace, b"h", 0..count, Some(50));
            if has_last {
                let last = keyspace.update::<Hash, _>(DB0, b"h", true, |it| it.set(b"last", b"v"));
                last.unwrap();
            }
            blocks.all_indexed();
            keyspace.note_indexed(blocks.indexed_lsn());
            assert!(keyspace.cool_key(DB0, b"h"));
            keyspace.begin_command(50);
            let is_there = command(&mut keyspace);
            assert_eq!(is_there, has_last && !takes_last, "{count} {has_last} {takes_last}");
            assert!(keyspace.end_command().1, "the reply waits for the record");
            assert_eq!(keyspace.stats().expired_fields, u64::from(count));
            // A clock that goes back brings none of it back.
            assert!(gone(&blocks) > 0 || count == 3);
            let mut replayed = blocks.log.snapshot().replay_after_crash(|_| false);
            replayed.begin_command(0);
            let len = replayed.read::<Hash>(DB0, b"h").unwrap().map(|hash| hash.len());
            assert_eq!(len, is_there.then_some(1), "{count} {has_last}");
        }
    }
}

#[test]
fn a_field_that_is_asked_for_by_name_goes_also_from_a_value_that_was_not_in_memory() {
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    put(&mut keyspace, b"h", 0..3_000, Some(50));
    put(&mut keyspace, b"h", 3_000..3_001, Some(51));
    blocks.all_indexed();
    keyspace.note_indexed(blocks.indexed_lsn());
    assert!(keyspace.cool_key(DB0, b"h"));
    keyspace.begin_command(51);
    let last = 3_000_u32.to_be_bytes();
    keyspace.expire_named_fields(DB0, b"h", [&last[..]]);
    let is_last = |logged: &&crate::journal::Logged| {
        logged.kind == RecordKind::ElementDeleted && *logged.sub == last
    };
    assert_eq!(blocks.log.records().iter().filter(is_last).count(), 1);
    assert!(gone(&blocks) < 3_000, "others wait for the cycle");
}

#[test]
fn fields_of_a_hash_that_a_start_has_not_read_expire_before_a_command_sees_it() {
    for count in [3, 300] {
        for is_named_first in [false, true] {
            let log = MemoryLog::default();
            let mut before = log.keyspace();
            before.begin_command(0);
            put(&mut before, b"h", 0..count, Some(50));
            put(&mut before, b"h", count..count + 1, None);
            let mut keyspace = cold(&log, &Index::of(&log));
            keyspace.begin_command(50);
            if is_named_first {
                assert!(keyspace.exists(DB0, b"h", false));
            }
            let hash = keyspace.read::<Hash>(DB0, b"h").unwrap().expect("a field is left");
            assert_eq!((hash.len(), hash.stored_len()), (1, 1), "{count} {is_named_first}");
            assert_eq!(keyspace.stats().expired_fields, u64::from(count));
            assert!(keyspace.may_have_expiring_fields());
        }
    }
}

#[test]
fn a_hash_is_made_anew_whose_fields_had_all_expired_when_its_value_came_back() {
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    put(&mut keyspace, b"h", 0..3, Some(50));
    blocks.all_indexed();
    assert!(keyspace.cool_key(DB0, b"h"));
    keyspace.begin_command(50);
    let updated = keyspace.update::<Hash, _>(DB0, b"h", true, |hash| hash.set(b"new", b"v"));
    assert!(updated.unwrap().expect("it is made").created);
    assert_eq!(keyspace.read::<Hash>(DB0, b"h").unwrap().unwrap().len(), 1);
}

#[test]
fn random_fields_of_a_hash_that_has_nearly_all_expired_are_as_likely_and_found_in_one_pass() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    keyspace.begin_command(0);
    put(&mut keyspace, b"h", 0..200_000, Some(50));
    put(&mut keyspace, b"h", 200_000..200_004, None);
    keyspace.begin_command(50);
    let hash = keyspace.read::<Hash>(DB0, b"h").unwrap().unwrap();
    assert!(hash.stored_len() > 150_000 && !hash.is_empty());
    let mut rng = fastrand::Rng::with_seed(3);
    let (mut picks, mut counts) = (hash.picks(), BTreeMap::new());
    // A pass over all for each of them would take an hour.
    for _ in 0..100_000 {
        let (name, _) = picks.next(&mut rng).expect("some are seen");
        *counts.entry(name.to_vec()).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 4);
    assert!(counts.values().all(|count| (24_000..26_000).contains(count)), "{counts:?}");
    // One alone, too: the first ones of many lists.
    let mut firsts = BTreeMap::new();
    for _ in 0..40 {
        let (name, _) = hash.random(&mut rng).expect("some are seen");
        *firsts.entry(name.to_vec()).or_insert(0) += 1;
    }
    assert_eq!(firsts.len(), 4, "{firsts:?}");
}

#[test]
fn what_the_log_was_told_of_may_be_there_only_where_memory_has_not_seen_all() {
    let make = |expires_at_ms| {
        let blocks = Blocks::default();
        let mut keyspace = blocks.keyspace();
        keyspace.begin_command(0);
        keyspace.declare_expiring_fields();
        put(&mut keyspace, b"h", 0..10, expires_at_ms);
        (blocks, keyspace)
    };
    let (blocks, mut keyspace) = make(None);
    assert!(!keyspace.may_have_expiring_fields(), "no field expires");
    blocks.all_indexed();
    assert!(keyspace.cool_key(DB0, b"h"));
    assert!(keyspace.may_have_expiring_fields());
    let (_blocks, mut keyspace) = make(Some(50));
    assert!(keyspace.may_have_expiring_fields());
    put(&mut keyspace, b"h", 0..10, None);
    assert!(keyspace.may_have_expiring_fields(), "its form stays");
}

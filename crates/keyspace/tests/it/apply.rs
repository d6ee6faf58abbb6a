//! Records applied to a keyspace, one log at a time: what belongs together finds together, and what
//! belongs to nothing is garbage.

use std::sync::{Arc, Mutex};

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::effects::DbKey;
use keyspace::hash::Hash;
use keyspace::zset::ZSet;
use keyspace::{ApplyError, EvictionPolicy, Journal, Keyspace, NoJournal, StringRef};

use crate::{DB0, DB1, DB3};

const ID: ObjectId = ObjectId(5);

/// How many bytes may wait between two blocks, and more than that in one element.
const WAITING_BYTES_MAX: usize = 64 << 20;

fn addr(ordinal: u32) -> RecordAddr {
    RecordAddr::new(SegmentId(1), ordinal)
}

fn root(key: &[u8]) -> Record<'_> {
    Record::root(RecordKind::Hash, DbId(0), key, ID, &[0], None)
}

fn field(name: &[u8]) -> Record<'_> {
    Record::element(RecordKind::HashField, ID, name, b"v")
}

fn string<'a>(db: u64, key: &'a [u8], value: &'a [u8]) -> Record<'a> {
    Record::whole(RecordKind::String, DbId(db), key, value, None)
}

fn map(value: &[u8]) -> Record<'_> {
    Record::whole(RecordKind::Databases, DbId(0), &[], value, None)
}

/// A keyspace that records are applied to, and what was retired.
struct Fed {
    keyspace: Keyspace<NoJournal>,
    next_ordinal: u32,
    retired: Vec<RecordAddr>,
}

impl Fed {
    fn new(database_count: usize) -> Self {
        let keyspace = Keyspace::new(NoJournal, [1; 16], database_count);
        Self { keyspace, next_ordinal: 0, retired: Vec::new() }
    }

    /// After a recovery from these records.
    fn recovered(records: &[Record<'_>], database_count: usize) -> Self {
        let mut fed = Self::new(database_count);
        fed.apply(records);
        fed.keyspace.settle(&mut fed.retired).expect("well-formed");
        fed.keyspace.free_all(&mut fed.retired);
        fed
    }

    fn apply(&mut self, records: &[Record<'_>]) {
        for record in records {
            let at = addr(self.next_ordinal);
            self.keyspace.apply(record, at, Lsn(1), &mut self.retired).expect("well-formed");
            self.next_ordinal += 1;
        }
    }

    /// These records are a block.
    fn block(&mut self, records: &[Record<'_>]) {
        self.apply(records);
        self.keyspace.end_block(&mut self.retired).expect("well-formed");
    }

    fn retired(&self) -> Vec<u32> {
        let mut retired: Vec<u32> = self.retired.iter().map(|addr| addr.ordinal()).collect();
        retired.sort_unstable();
        retired
    }

    fn get(&mut self, key: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        let hash = self.keyspace.read::<Hash>(DB0, key).expect("a hash")?;
        hash.get(name).map(<[u8]>::to_vec)
    }
}

#[test]
fn an_object_whose_key_was_overwritten_is_garbage() {
    // The string reads as the object's id: only the address tells that it is no root.
    let mut fed = Fed::recovered(&[root(b"k"), field(b"f"), string(0, b"k", b"5")], 1);
    assert_eq!(fed.keyspace.string(DB0, b"k"), Ok(Some(StringRef::Int(5))));
    assert_eq!(fed.retired(), [0, 1]);
}

#[test]
fn elements_find_a_root_that_comes_later_and_moves() {
    let records = [field(b"f"), root(b"old"), root(b"new"), Record::key_deleted(DbId(0), b"old")];
    let mut fed = Fed::recovered(&records, 1);
    assert!(!fed.keyspace.exists(DB0, b"old", false));
    assert_eq!(fed.get(b"new", b"f").as_deref(), Some(&b"v"[..]));
    assert_eq!(fed.retired(), [1]);
}

#[test]
fn an_object_has_one_key_whatever_the_log_says() {
    for is_read in [false, true] {
        let mut fed = Fed::new(1);
        if is_read {
            fed.block(&[]);
        }
        fed.block(&[field(b"f"), root(b"old"), root(b"new")]);
        assert!(!fed.keyspace.exists(DB0, b"old", false));
        assert!(fed.get(b"new", b"f").is_some());
        assert_eq!(fed.retired(), [1]);
    }
}

#[test]
fn an_object_without_elements_is_no_key() {
    let gone = Record::element_deleted(ID, b"f");
    let mut fed = Fed::recovered(&[root(b"k"), field(b"f"), gone], 1);
    assert!(!fed.keyspace.exists(DB0, b"k", false));
    assert_eq!(fed.retired(), [0, 1]);
}

#[test]
fn an_object_has_one_type() {
    for is_read in [false, true] {
        let mut fed = Fed::new(1);
        if is_read {
            fed.block(&[]);
        }
        fed.apply(&[root(b"k")]);
        let member = Record::element(RecordKind::SetMember, ID, b"m", b"");
        let other_root = Record::root(RecordKind::Set, DbId(0), b"k", ID, &[0], None);
        for record in [member, other_root] {
            let applied = fed.keyspace.apply(&record, addr(9), Lsn(1), &mut fed.retired);
            assert!(matches!(applied, Err(ApplyError::Bad(_))));
        }
    }
}

#[test]
fn databases_that_no_index_maps_to_are_garbage() {
    let records =
        [string(0, b"a", b"x"), string(1, b"b", b"x"), map(&[3, 2, 1]), string(2, b"c", b"x")];
    for is_read in [false, true] {
        let mut fed = Fed::new(2);
        if is_read {
            fed.block(&[]);
        }
        fed.apply(&records);
        fed.keyspace.settle(&mut fed.retired).expect("well-formed");
        fed.keyspace.free_all(&mut fed.retired);
        assert!(fed.keyspace.exists(DB0, b"c", false) && fed.keyspace.exists(DB1, b"b", false));
        assert_eq!((fed.keyspace.size(DB0).0, fed.keyspace.size(DB1).0), (1, 1));
        assert_eq!(fed.retired(), [0]);
    }
}

#[test]
fn a_database_may_be_filled_before_an_index_maps_to_it() {
    let mut fed = Fed::new(1);
    fed.block(&[string(0, b"old", b"x"), map(&[9, 0])]);
    fed.block(&[string(7, b"new", b"x"), field(b"f")]);
    fed.block(&[Record::root(RecordKind::Hash, DbId(7), b"h", ID, &[0], None)]);
    assert!(fed.keyspace.exists(DB0, b"old", false) && !fed.keyspace.exists(DB0, b"new", false));
    fed.block(&[map(&[9, 7])]);
    assert!(!fed.keyspace.exists(DB0, b"old", false) && fed.keyspace.exists(DB0, b"new", false));
    assert!(fed.get(b"h", b"f").is_some());
    fed.keyspace.free_all(&mut fed.retired);
    assert_eq!(fed.retired(), [0, 1]);
}

#[test]
fn a_database_that_no_log_can_have_is_refused() {
    let mut fed = Fed::new(2);
    fed.apply(&[string(1 << 40, b"a", b"x")]);
    let ended = fed.keyspace.settle(&mut fed.retired);
    assert_eq!(ended.err().map(|(_, at)| at), Some(addr(0)));
}

#[test]
fn fewer_databases_hide_data_and_lose_none() {
    for is_read in [false, true] {
        let mut fed = Fed::new(2);
        if is_read {
            fed.block(&[]);
        }
        fed.block(&[string(3, b"d", b"x")]);
        assert_eq!(fed.keyspace.database_count(), 4);
        assert!(fed.keyspace.exists(DB3, b"d", false) && fed.retired().is_empty());
    }
}

#[test]
fn an_object_that_is_renamed_keeps_its_elements_and_one_that_is_deleted_loses_them() {
    let mut fed = Fed::new(1);
    fed.block(&[field(b"f"), root(b"a")]);
    fed.block(&[Record::key_deleted(DbId(0), b"a"), root(b"b")]);
    assert!(fed.get(b"b", b"f").is_some());
    fed.block(&[field(b"g")]);
    assert!(fed.get(b"b", b"g").is_some());
    fed.block(&[Record::key_deleted(DbId(0), b"b")]);
    assert_eq!(fed.retired(), [0, 1, 3, 4]);
    assert_eq!(fed.keyspace.waiting(), (0, 0));
}

#[test]
fn what_is_large_is_freed_and_retired_in_slices() {
    let mut fed = Fed::new(1);
    let names: Vec<[u8; 2]> = (0..500u16).map(u16::to_be_bytes).collect();
    let mut records: Vec<Record<'_>> = names.iter().map(|name| field(name)).collect();
    records.push(root(b"k"));
    fed.block(&records);
    fed.block(&[Record::key_deleted(DbId(0), b"k")]);
    assert_eq!((fed.retired(), fed.keyspace.freeing()), (vec![500], 1));
    let (retirements, mut keyspace) = (Retirements::default(), fed.keyspace);
    keyspace = keyspace.with_journal(NoJournal);
    let mut keyspace = keyspace.with_journal(retirements.clone());
    assert!(keyspace.free_step(100));
    assert_eq!(retirements.0.lock().expect("one thread").len(), 100);
    while keyspace.free_step(100) {}
    let mut retired = retirements.0.lock().expect("one thread").clone();
    retired.sort_unstable();
    assert_eq!(retired, (0..500).collect::<Vec<_>>());
}

#[test]
fn an_object_that_is_freed_in_one_database_stays_at_home_in_another() {
    let mut fed = Fed::new(2);
    fed.keyspace.end_block(&mut fed.retired).expect("nothing has come");
    fed.block(&[
        map(&[4, 2, 0]),
        Record::root(RecordKind::Hash, DbId(2), b"a", ID, &[0], None),
        field(b"f"),
    ]);
    // The database is dropped, and before its keys are freed the object has a root in another one.
    fed.block(&[map(&[4, 3, 0])]);
    fed.block(&[Record::root(RecordKind::Hash, DbId(3), b"b", ID, &[0], None), field(b"g")]);
    assert_eq!(fed.get(b"b", b"g"), Some(b"v".to_vec()));
    fed.keyspace.free_all(&mut fed.retired);
    fed.block(&[field(b"h")]);
    assert_eq!(fed.get(b"b", b"h"), Some(b"v".to_vec()));
}

#[test]
fn expired_keys_are_absent_until_a_record_deletes_them() {
    let mut fed = Fed::new(1);
    let expiring = Record::whole(RecordKind::String, DbId(0), b"k", b"v", Some(10));
    fed.block(&[expiring]);
    fed.keyspace.begin_command(9);
    assert!(fed.keyspace.exists(DB0, b"k", true));
    fed.keyspace.begin_command(10);
    assert!(!fed.keyspace.exists(DB0, b"k", true) && fed.keyspace.is_frozen());
    fed.keyspace.set_frozen(false);
    assert_eq!(fed.keyspace.string(DB0, b"k"), Ok(None));
    assert!(fed.keyspace.inspect_key(DB0, b"k").is_some(), "it is there for the record to delete");
    assert_eq!(fed.keyspace.stats().expired, 0);
    fed.block(&[Record::key_deleted(DbId(0), b"k")]);
    assert_eq!((fed.retired(), fed.keyspace.size(DB0)), (vec![0], (0, 0)));
    // Commands that come after the feed delete what has expired.
    fed.block(&[expiring]);
    fed.keyspace.settle(&mut fed.retired).expect("well-formed");
    assert!(!fed.keyspace.exists(DB0, b"k", true) && fed.keyspace.size(DB0) == (0, 0));
}

#[test]
fn a_key_that_a_record_changes_is_used_as_much_as_before() {
    let mut fed = Fed::new(1);
    fed.keyspace.settings_mut().eviction = EvictionPolicy::AllKeysLfu;
    fed.block(&[string(0, b"a", b"x")]);
    let new = fed.keyspace.frequency(DB0, b"a");
    (0..1000).for_each(|_| _ = fed.keyspace.exists(DB0, b"a", true));
    let often = fed.keyspace.frequency(DB0, b"a");
    fed.block(&[string(0, b"a", b"y"), string(0, b"b", b"x")]);
    assert!(often > new && fed.keyspace.frequency(DB0, b"a") >= often);
    assert_eq!(fed.keyspace.frequency(DB0, b"b"), new);
}

/// As a script may name them, that adds to two streams in turn.
#[test]
fn a_key_is_ready_once_however_often_it_changes() {
    let mut fed = Fed::new(2);
    let keys = [(DB0, &b"a"[..]), (DB0, b"b"), (DB1, b"a")];
    keys.iter().for_each(|(db, key)| fed.keyspace.await_changes(*db, key));
    for _ in 0..9000 {
        keys.iter().for_each(|(db, key)| fed.keyspace.wake(*db, key));
    }
    let ready = fed.keyspace.take_effects().ready;
    assert!(ready.iter().map(|(db, key)| (*db, &**key)).eq(keys), "{ready:?}");
}

#[test]
fn watched_keys_are_touched_and_awaited_ones_are_ready() {
    let mut fed = Fed::new(2);
    fed.block(&[string(1, b"other", b"x"), field(b"f"), root(b"h")]);
    for (db, key) in [(DB0, &b"a"[..]), (DB0, b"h"), (DB0, b"other"), (DB1, b"other"), (DB1, b"b")]
    {
        fed.keyspace.watch(db, key);
        fed.keyspace.await_key(db, key);
    }
    let effects = |fed: &mut Fed| {
        let effects = fed.keyspace.take_effects();
        assert!(effects.events.is_empty(), "no command has changed anything");
        let names = |keys: Vec<DbKey>| -> Vec<String> {
            keys.iter().map(|(db, key)| format!("{db}{}", key.escape_ascii())).collect()
        };
        (names(effects.touched), names(effects.ready))
    };
    let none: [&str; 0] = [];
    fed.block(&[string(0, b"a", b"x"), string(0, b"c", b"x"), string(9, b"a", b"x")]);
    assert_eq!(effects(&mut fed), (vec!["0a".to_owned()], vec!["0a".to_owned()]));
    fed.block(&[string(0, b"a", b"y"), field(b"g"), field(b"h"), root(b"h")]);
    assert_eq!(effects(&mut fed).0, ["0a", "0h"]);
    fed.block(&[Record::key_deleted(DbId(0), b"a"), Record::key_deleted(DbId(0), b"z")]);
    let (touched, ready) = effects(&mut fed);
    assert_eq!((touched.as_slice(), ready.len()), (&["0a".to_owned()][..], 0));
    // The databases change places: `b` was in neither.
    fed.block(&[map(&[12, 1, 0])]);
    let (mut touched, ready) = effects(&mut fed);
    touched.sort();
    assert_eq!(touched, ["0h", "0other", "1other"]);
    assert_eq!(ready, ["0other"]);
    fed.block(&[map(&[12, 1, 0])]);
    assert_eq!(effects(&mut fed).0, none);
    fed.block(&[map(&[13, 12, 0])]);
    assert_eq!(effects(&mut fed).0, ["0other"]);
}

/// Elements that wait for a root, more of them than may.
fn too_much(value: &[u8]) -> Vec<Record<'_>> {
    let names: &'static [[u8; 1]] = &[[0], [1], [2], [3], [4]];
    names.iter().map(|name| Record::element(RecordKind::HashField, ID, name, value)).collect()
}

#[test]
fn what_waits_between_two_blocks_is_bounded() {
    let value = vec![b'v'; WAITING_BYTES_MAX / 4];
    let mut fed = Fed::new(1);
    fed.block(&[string(0, b"a", b"x")]);
    // A block is whole in memory before it is applied, so what is in it may wait until its end.
    let mut copied = too_much(&value);
    copied.push(root(b"k"));
    fed.block(&copied);
    fed.block(&[Record::key_deleted(DbId(0), b"k")]);
    assert_eq!(fed.keyspace.waiting(), (0, 0));

    fed.block(&too_much(&value));
    let (objects, bytes) = fed.keyspace.waiting();
    assert!(objects == 1 && bytes > WAITING_BYTES_MAX);
    let before = fed.retired.clone();
    for record in [string(0, b"a", b"y"), root(b"k")] {
        let applied = fed.keyspace.apply(&record, addr(99), Lsn(1), &mut fed.retired);
        assert_eq!(applied, Err(ApplyError::Full(bytes)));
    }
    assert_eq!((&before, fed.keyspace.waiting()), (&fed.retired, (objects, bytes)));
    assert_eq!(fed.keyspace.string(DB0, b"a"), Ok(Some(StringRef::Bytes(b"x"))));

    // While nothing reads, as in a recovery, everything may wait.
    fed.keyspace.load();
    fed.block(&[string(0, b"b", b"y"), root(b"k")]);
    assert_eq!(fed.keyspace.waiting(), (0, 0));
    assert_eq!(fed.get(b"k", &[4]).map(|value| value.len()), Some(value.len()));
}

#[test]
fn a_recovery_may_find_any_amount_before_its_root() {
    let value = vec![b'v'; WAITING_BYTES_MAX / 4];
    let mut records = too_much(&value);
    records.extend([string(0, b"a", b"x"), root(b"k")]);
    let mut fed = Fed::recovered(&records, 1);
    assert_eq!(fed.get(b"k", &[4]).map(|value| value.len()), Some(value.len()));
    assert!(fed.retired().is_empty());
}

#[test]
fn what_never_gets_a_root_is_garbage_at_the_end() {
    let mut fed = Fed::new(1);
    fed.block(&[field(b"f"), string(0, b"a", b"x")]);
    fed.block(&[field(b"g"), field(b"f")]);
    assert_eq!((fed.retired(), fed.keyspace.waiting().0), (vec![0], 1));
    fed.keyspace.settle(&mut fed.retired).expect("well-formed");
    assert_eq!((fed.retired(), fed.keyspace.waiting()), (vec![0, 2, 3], (0, 0)));
}

#[test]
fn a_root_may_come_long_before_its_elements() {
    for is_read in [false, true] {
        let mut fed = Fed::new(1);
        if is_read {
            fed.block(&[]);
        }
        fed.block(&[root(b"k"), string(0, b"a", b"x")]);
        fed.block(&[field(b"f")]);
        assert!(fed.get(b"k", b"f").is_some());
        fed.block(&[Record::element_deleted(ID, b"f")]);
        assert!(fed.keyspace.exists(DB0, b"k", false), "more may come");
        fed.keyspace.settle(&mut fed.retired).expect("well-formed");
        assert!(!fed.keyspace.exists(DB0, b"k", false), "nothing more comes");
        assert_eq!(fed.retired(), [0, 2]);
    }
}

#[test]
fn an_order_is_kept_by_what_is_gathered_and_by_what_comes_later() {
    let member = |name: &'static [u8], score: &'static [u8; 8]| {
        Record::element(RecordKind::ZSetMember, ID, name, score)
    };
    const SCORES: [[u8; 8]; 3] = [1.0f64.to_le_bytes(), 2.0f64.to_le_bytes(), 3.0f64.to_le_bytes()];
    let mut fed = Fed::new(1);
    fed.block(&[
        member(b"c", &SCORES[2]),
        member(b"a", &SCORES[0]),
        Record::root(RecordKind::ZSet, DbId(0), b"z", ID, &[0], None),
    ]);
    fed.block(&[member(b"b", &SCORES[1]), member(b"d", &SCORES[0])]);
    fed.block(&[member(b"a", &SCORES[2]), Record::element_deleted(ID, b"d")]);
    let zset = fed.keyspace.read::<ZSet>(DB0, b"z").expect("a sorted set").expect("it is there");
    let names: Vec<&[u8]> = zset.iter().map(|(name, _)| name).collect();
    assert_eq!(names, [&b"b"[..], b"a", b"c"]);
    assert_eq!(fed.retired(), [1, 4]);
}

#[test]
fn a_reader_waits_for_the_block_that_it_saw() {
    let mut keyspace = Keyspace::new(NoJournal, [1; 16], 1).with_journal(Retirements::default());
    let mut retired = Vec::new();
    let mut block = |keyspace: &mut Keyspace<Retirements>, lsn, record: &Record<'_>| {
        keyspace.apply(record, addr(0), Lsn(lsn), &mut retired).expect("well-formed");
        keyspace.end_block(&mut retired).expect("well-formed");
    };
    block(&mut keyspace, 1, &string(0, b"a", b"x"));
    block(&mut keyspace, 2, &root(b"k"));
    block(&mut keyspace, 3, &field(b"f"));
    block(&mut keyspace, 4, &Record::key_deleted(DbId(0), b"a"));
    keyspace.begin_command(1);
    assert!(keyspace.exists(DB0, b"k", false));
    assert_eq!(keyspace.end_command(), (Lsn(3), false));
    keyspace.begin_command(1);
    assert!(!keyspace.exists(DB0, b"a", false));
    assert_eq!(keyspace.end_command(), (Lsn(4), false));
    keyspace.begin_command(1);
    assert!(!keyspace.exists(DB0, b"never", false));
    assert_eq!(keyspace.end_command(), (Lsn::ZERO, false));
    block(&mut keyspace, 5, &map(&[3, 2]));
    keyspace.begin_command(1);
    assert!(!keyspace.exists(DB0, b"k", false));
    assert_eq!(keyspace.end_command(), (Lsn(5), false));
}

/// A log of which nothing is durable and that takes nothing but addresses to retire.
#[derive(Clone, Default)]
struct Retirements(Arc<Mutex<Vec<u32>>>);

impl Journal for Retirements {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        panic!("what is fed from a log logs nothing: {record:?}")
    }

    fn retire(&mut self, addr: RecordAddr) {
        self.0.lock().expect("one thread").push(addr.ordinal());
    }

    fn open_lsn(&self) -> Lsn {
        Lsn(100)
    }

    fn last_lsn(&self) -> Lsn {
        Lsn(99)
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn::ZERO
    }

    fn undurable_lsn_of(&self, _addr: RecordAddr) -> Option<Lsn> {
        None
    }
}

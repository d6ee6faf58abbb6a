//! Random commands as the keyspace would log them: few keys, so that they meet.
//!
//! Every command changes the model and appends the records that say so, retiring the address of
//! each entry that it replaces. What a dropped object or a flushed database leaves behind is
//! retired later, some at a time, as the server does it in the background.

use std::collections::VecDeque;

use base::{DbId, ObjectId, Record, RecordAddr, RecordKind};
use env_sim::SimEntropy;

use super::model::{Model, databases_value};

const KEYS: u64 = 6;
const SUBS: u64 = 5;

/// A root and the elements that belong to it.
const OBJECTS: [(RecordKind, RecordKind); 5] = [
    (RecordKind::LargeString, RecordKind::StringChunk),
    (RecordKind::List, RecordKind::ListNode),
    (RecordKind::Hash, RecordKind::HashField),
    (RecordKind::Set, RecordKind::SetMember),
    (RecordKind::ZSet, RecordKind::ZSetMember),
];

const WHOLE: [RecordKind; 5] = [
    RecordKind::String,
    RecordKind::ListPacked,
    RecordKind::HashPacked,
    RecordKind::SetPacked,
    RecordKind::ZSetPacked,
];

/// Where the records go.
pub(crate) trait Journal {
    fn append(&mut self, record: &Record<'_>) -> RecordAddr;
    fn retire(&mut self, addr: RecordAddr);
}

/// The one thread that changes the database.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(crate) model: Model,
    rng: SimEntropy,
    next_object: u64,
    garbage: VecDeque<RecordAddr>,
}

impl Executor {
    /// Goes on from what recovery found.
    pub(crate) fn new(model: Model, seed: u64) -> Self {
        let next_object = model.object_max + 1;
        let mut new =
            Self { model, rng: SimEntropy::new(seed), next_object, garbage: VecDeque::new() };
        new.collect();
        new
    }

    /// Runs the commands of one block.
    pub(crate) fn run_block(&mut self, journal: &mut impl Journal) {
        for _ in 0..=self.rng.below(3) {
            self.command(journal);
        }
        self.collect();
        for _ in 0..self.rng.below(8) {
            if let Some(addr) = self.garbage.pop_front() {
                journal.retire(addr);
            }
        }
    }

    /// Retires what waits for it.
    pub(crate) fn retire_all(&mut self, journal: &mut impl Journal) {
        self.garbage.drain(..).for_each(|addr| journal.retire(addr));
    }

    fn collect(&mut self) {
        let garbage = self.model.collect_garbage();
        self.garbage.extend(garbage);
    }

    fn command(&mut self, journal: &mut impl Journal) {
        let (_, dbs) = self.model.databases();
        let db = dbs[usize::try_from(self.rng.below(dbs.len() as u64)).expect("small")];
        let key = self.key_name();
        match self.rng.below(100) {
            0..30 => self.set_whole(journal, db, &key),
            30..45 => self.make_object(journal, db, &key),
            45..70 => self.change_elements(journal, db, &key),
            70..82 => self.delete(journal, db, &key),
            82..92 => self.rename(journal, db, &key),
            92..95 => self.touch_expiry(journal, db, &key),
            95..97 => self.flush_or_swap(journal),
            _ => self.recreate(journal, db, &key),
        }
    }

    fn emit(&mut self, journal: &mut impl Journal, record: &Record<'_>) {
        let addr = journal.append(record);
        if let Some(old) = self.model.apply(record, addr) {
            journal.retire(old);
        }
    }

    fn key_name(&mut self) -> Vec<u8> {
        format!("key:{}", self.rng.below(KEYS)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.below(12) {
            0 => 0,
            1 => self.rng.below(1800),
            _ => self.rng.below(40),
        };
        (0..len).map(|_| (self.rng.next() >> 56).to_le_bytes()[0]).collect()
    }

    fn expiry(&mut self) -> Option<i64> {
        let at = i64::try_from(self.rng.below(1 << 40)).expect("fits");
        (self.rng.below(4) == 0).then_some(at)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.rng.below(from.len() as u64)).expect("small")]
    }

    fn set_whole(&mut self, journal: &mut impl Journal, db: DbId, key: &[u8]) {
        let (kind, value, expiry) = (self.pick(&WHOLE), self.value(), self.expiry());
        self.emit(journal, &Record::whole(kind, db, key, &value, expiry));
    }

    fn make_object(&mut self, journal: &mut impl Journal, db: DbId, key: &[u8]) {
        let (root, element) = self.pick(&OBJECTS);
        let object = ObjectId(self.next_object);
        self.next_object += 1;
        let (mut value, expiry) = (self.value(), self.expiry());
        // A root that says so would have to be declared between two commands.
        value.iter_mut().take(1).for_each(|flags| *flags &= !Record::EXPIRING_FIELDS);
        let root = Record::root(root, db, key, object, &value, expiry);
        let root_first = self.rng.coin();
        if root_first {
            self.emit(journal, &root);
        }
        for sub in 0..self.rng.below(SUBS) + 1 {
            let (sub, value) = (format!("sub:{sub}").into_bytes(), self.value());
            self.emit(journal, &Record::element(element, object, &sub, &value));
        }
        if !root_first {
            self.emit(journal, &root);
        }
    }

    fn change_elements(&mut self, journal: &mut impl Journal, db: DbId, key: &[u8]) {
        let Some(found) = self.model.key(db, key).filter(|found| found.object != ObjectId::NONE)
        else {
            return self.set_whole(journal, db, key);
        };
        let object = found.object;
        let (_, element) =
            OBJECTS.into_iter().find(|(root, _)| *root == found.kind).expect("a root");
        for _ in 0..=self.rng.below(3) {
            let sub = format!("sub:{}", self.rng.below(SUBS + 2)).into_bytes();
            if self.rng.below(3) > 0 {
                let value = self.value();
                self.emit(journal, &Record::element(element, object, &sub, &value));
            } else if self.model.element_names(object).contains(&sub) {
                self.emit(journal, &Record::element_deleted(object, &sub));
            }
        }
    }

    fn delete(&mut self, journal: &mut impl Journal, db: DbId, key: &[u8]) {
        if self.model.key(db, key).is_some() {
            self.emit(journal, &Record::key_deleted(db, key));
        }
    }

    /// Deletes and sets in one block.
    fn recreate(&mut self, journal: &mut impl Journal, db: DbId, key: &[u8]) {
        self.delete(journal, db, key);
        if self.rng.coin() {
            self.make_object(journal, db, key);
        } else {
            self.set_whole(journal, db, key);
        }
    }

    fn rename(&mut self, journal: &mut impl Journal, db: DbId, from: &[u8]) {
        let to = self.key_name();
        let Some(old) = self.model.key(db, from).cloned().filter(|_| to != from) else {
            return;
        };
        let moved = Record::root(old.kind, db, &to, old.object, &old.value, old.expires_at_ms);
        let gone = Record::key_deleted(db, from);
        let order = if self.rng.coin() { [moved, gone] } else { [gone, moved] };
        for record in order {
            self.emit(journal, &record);
        }
    }

    fn touch_expiry(&mut self, journal: &mut impl Journal, db: DbId, key: &[u8]) {
        if let Some(old) = self.model.key(db, key).cloned() {
            let expiry = self.expiry();
            let record = Record::root(old.kind, db, key, old.object, &old.value, expiry);
            self.emit(journal, &record);
        }
    }

    fn flush_or_swap(&mut self, journal: &mut impl Journal) {
        let (mut next_free, mut ids) = self.model.databases();
        match self.rng.below(3) {
            0 => ids.reverse(),
            1 => {
                let at = usize::try_from(self.rng.below(ids.len() as u64)).expect("small");
                ids[at] = DbId(next_free);
                next_free += 1;
            }
            _ => {
                for id in &mut ids {
                    *id = DbId(next_free);
                    next_free += 1;
                }
            }
        }
        let value = databases_value(next_free, &ids);
        let record = Record::whole(RecordKind::Databases, DbId(0), &[], &value, None);
        self.emit(journal, &record);
    }
}

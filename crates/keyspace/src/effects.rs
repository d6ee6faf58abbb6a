//! What a command did apart from its reply, for the server to act on after it: notifications to
//! publish, transactions whose watched keys have changed, blocked clients to serve.

use std::collections::{BTreeMap, HashSet};

use base::DbIndex;

use crate::keyspace::Keyspace;

/// Classes of keyspace notifications, and the two channels; Redis' `notify-keyspace-events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Notify(u32);

impl Notify {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// `K`: publish to `__keyspace@<db>__:<key>`.
    pub const KEYSPACE: Self = Self(1);
    /// `E`: publish to `__keyevent@<db>__:<event>`.
    pub const KEYEVENT: Self = Self(1 << 1);
    /// `g`: commands of every type (DEL, EXPIRE, RENAME …).
    pub const GENERIC: Self = Self(1 << 2);
    /// `$`: strings.
    pub const STRING: Self = Self(1 << 3);
    /// `l`: lists.
    pub const LIST: Self = Self(1 << 4);
    /// `s`: sets.
    pub const SET: Self = Self(1 << 5);
    /// `h`: hashes.
    pub const HASH: Self = Self(1 << 6);
    /// `z`: sorted sets.
    pub const ZSET: Self = Self(1 << 7);
    /// `x`: keys that expired.
    pub const EXPIRED: Self = Self(1 << 8);
    /// `e`: keys that were evicted.
    pub const EVICTED: Self = Self(1 << 9);
    /// `t`: streams.
    pub const STREAM: Self = Self(1 << 10);
    /// `m`: keys that were looked for in vain.
    pub const KEY_MISS: Self = Self(1 << 11);
    /// `d`: modules.
    pub const MODULE: Self = Self(1 << 13);
    /// `n`: new keys.
    pub const NEW: Self = Self(1 << 14);

    const LETTERS: [(char, Self); 14] = [
        ('g', Self::GENERIC),
        ('$', Self::STRING),
        ('l', Self::LIST),
        ('s', Self::SET),
        ('h', Self::HASH),
        ('z', Self::ZSET),
        ('x', Self::EXPIRED),
        ('e', Self::EVICTED),
        ('t', Self::STREAM),
        ('d', Self::MODULE),
        ('K', Self::KEYSPACE),
        ('E', Self::KEYEVENT),
        ('m', Self::KEY_MISS),
        ('n', Self::NEW),
    ];
    /// How many letters, from the front, `A` stands for.
    const ALL_LETTERS: usize = 10;

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of `other` is in it.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The classes that Redis' letters name; `None` for a letter that names none.
    #[must_use]
    pub fn parse(letters: &str) -> Option<Self> {
        letters.chars().try_fold(Self::NONE, |sum, letter| {
            if letter == 'A' {
                return Some(
                    Self::LETTERS[..Self::ALL_LETTERS].iter().fold(sum, |s, l| s.with(l.1)),
                );
            }
            Self::LETTERS.iter().find(|l| l.0 == letter).map(|l| sum.with(l.1))
        })
    }

    /// The letters, as `CONFIG GET` shows them.
    #[must_use]
    pub fn letters(self) -> String {
        let (all, rest) = Self::LETTERS.split_at(Self::ALL_LETTERS);
        let mut letters = String::new();
        if all.iter().all(|l| self.has(l.1)) {
            letters.push('A');
        } else {
            letters.extend(all.iter().filter(|l| self.has(l.1)).map(|l| l.0));
        }
        letters.extend(rest.iter().filter(|l| self.has(l.1)).map(|l| l.0));
        letters
    }
}

/// A notification to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened: `set`, `expired` …
    pub name: &'static str,
    /// The database's index.
    pub db: DbIndex,
    /// The key.
    pub key: Box<[u8]>,
}

/// A key of a database.
pub type DbKey = (DbIndex, Box<[u8]>);

/// A change of data, for clients that keep copies of what they have read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// What this key holds, in one of the databases.
    Key {
        /// The key.
        key: Box<[u8]>,
        /// No command wanted it: the key has expired, or was evicted.
        is_unasked: bool,
    },
    /// What every key holds may have changed: a database was emptied, or exchanged.
    All,
}

/// Keys that clients wait for or watch, counted.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    keys: BTreeMap<DbKey, usize>,
    /// Every change is told, of whatever key.
    pub(crate) is_in_changes: bool,
}

impl Interest {
    pub(crate) fn add(&mut self, db: DbIndex, key: &[u8]) {
        *self.keys.entry((db, key.into())).or_insert(0) += 1;
    }

    pub(crate) fn remove(&mut self, db: DbIndex, key: &[u8]) {
        let key = (db, Box::from(key));
        if let Some(count) = self.keys.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.keys.remove(&key);
            }
        }
    }

    pub(crate) fn has(&self, db: DbIndex, key: &[u8]) -> bool {
        !self.keys.is_empty() && self.keys.contains_key(&(db, Box::from(key)))
    }

    pub(crate) fn keys_of(&self, db: DbIndex) -> Vec<Box<[u8]>> {
        self.keys.keys().filter(|key| key.0 == db).map(|key| key.1.clone()).collect()
    }
}

/// Past so many mentions of keys that are ready, each is named once.
const READY_MANY: usize = 1024;

/// What a command did apart from its reply.
#[derive(Debug, Default)]
pub struct Effects {
    /// Notifications, in order.
    pub events: Vec<Event>,
    /// Watched keys that were touched.
    pub touched: Vec<DbKey>,
    /// Keys that clients block on and that have become non-empty, in order.
    pub ready: Vec<DbKey>,
    /// How many there were when each was named once.
    ready_once: usize,
    /// What has changed, in order, if that was asked for.
    pub changed: Vec<Change>,
}

impl Effects {
    /// Notes that a key was touched, if it is watched, or every change is told.
    pub(crate) fn note_touched(&mut self, watched: &Interest, db: DbIndex, key: &[u8]) {
        if watched.is_in_changes {
            self.note_changed(key);
        }
        // A command, or a block, may touch it as often as it has elements.
        let is_last = |last: &DbKey| (last.0, &*last.1) == (db, key);
        if watched.has(db, key) && !self.touched.last().is_some_and(is_last) {
            self.touched.push((db, key.into()));
        }
    }

    #[cold]
    fn note_changed(&mut self, key: &[u8]) {
        match self.changed.last_mut() {
            Some(Change::Key { key: last, is_unasked }) if **last == *key => *is_unasked = false,
            _ => self.changed.push(Change::Key { key: key.into(), is_unasked: false }),
        }
    }

    /// The change that was noted last was wanted by no command.
    pub(crate) fn note_unasked(&mut self) {
        if let Some(Change::Key { is_unasked, .. }) = self.changed.last_mut() {
            *is_unasked = true;
        }
    }

    /// Notes that every key may have changed, if changes are told.
    pub(crate) fn note_all_changed(&mut self, watched: &Interest) {
        if watched.is_in_changes {
            self.changed.push(Change::All);
        }
    }

    /// Leaves of each key that is ready the first mention: a script may change two in turn for as long as it runs, and each
    /// mention has all that wait for the key look.
    fn name_ready_once(&mut self) {
        if self.ready.len() > 1 {
            let mut named = HashSet::new();
            self.ready.retain(|(db, key)| named.insert((*db, key.clone())));
            self.ready_once = self.ready.len();
        }
    }

    /// Whether there is anything to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.touched.is_empty()
            && self.ready.is_empty()
            && self.changed.is_empty()
    }
}

impl Keyspace {
    /// Takes what the last commands did apart from their replies, to be acted on.
    pub fn take_effects(&mut self) -> Effects {
        self.effects.name_ready_once();
        std::mem::take(&mut self.effects)
    }

    /// Whether [`Keyspace::take_effects`] has anything.
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Watches the key: changes of it appear in [`Effects::touched`].
    pub fn watch(&mut self, db: DbIndex, key: &[u8]) {
        self.watched.add(db, key);
    }

    /// Takes back one [`Keyspace::watch`].
    pub fn unwatch(&mut self, db: DbIndex, key: &[u8]) {
        self.watched.remove(db, key);
    }

    /// Whether every change appears in [`Effects::changed`], from now on.
    pub const fn tell_changes(&mut self, are_told: bool) {
        self.watched.is_in_changes = are_told;
    }

    /// Waits for the key: it appears in [`Effects::ready`] when it is created.
    pub fn await_key(&mut self, db: DbIndex, key: &[u8]) {
        self.awaited.add(db, key);
    }

    /// Takes back one [`Keyspace::await_key`].
    pub fn unawait_key(&mut self, db: DbIndex, key: &[u8]) {
        self.awaited.remove(db, key);
    }

    /// Waits for any change of the key: it appears in [`Effects::ready`] also when it changes, or goes.
    pub fn await_changes(&mut self, db: DbIndex, key: &[u8]) {
        self.awaited_changes.add(db, key);
    }

    /// Takes back one [`Keyspace::await_changes`].
    pub fn unawait_changes(&mut self, db: DbIndex, key: &[u8]) {
        self.awaited_changes.remove(db, key);
    }

    /// Has the clients look that wait for any change of the key: it has changed in a way that is none for others.
    pub fn wake(&mut self, db: DbIndex, key: &[u8]) {
        let is_last = |last: &DbKey| (last.0, &*last.1) == (db, key);
        if self.awaited_changes.has(db, key) && !self.effects.ready.last().is_some_and(is_last) {
            self.effects.ready.push((db, key.into()));
            if self.effects.ready.len() >= READY_MANY.max(2 * self.effects.ready_once) {
                self.effects.name_ready_once();
            }
        }
    }

    /// As [`Keyspace::wake`], for all keys of databases that have changed as a whole.
    pub(crate) fn wake_all(&mut self, db: DbIndex) {
        let keys = self.awaited_changes.keys_of(db);
        self.effects.ready.extend(keys.into_iter().map(|key| (db, key)));
    }

    /// Notes a keyspace notification, if its class was asked for.
    pub fn notify(&mut self, class: Notify, name: &'static str, db: DbIndex, key: &[u8]) {
        let wanted = self.settings.notify;
        if wanted.has(class) && wanted.has(Notify::KEYSPACE.with(Notify::KEYEVENT)) {
            self.effects.events.push(Event { name, db, key: key.into() });
        }
    }

    /// Notes that a key changed, for the clients that watch it.
    pub(crate) fn modified(&mut self, db: DbIndex, key: &[u8]) {
        self.dirty += 1;
        self.effects.note_touched(&self.watched, db, key);
        self.wake(db, key);
    }

    /// Notes that a key was created, for the clients that wait for it.
    pub(crate) fn created(&mut self, db: DbIndex, key: &[u8]) {
        self.ready_if_awaited(db, key);
        self.notify(Notify::NEW, "new", db, key);
    }

    /// Notes a key that was not there before, for the clients that wait for it.
    pub(crate) fn ready_if_awaited(&mut self, db: DbIndex, key: &[u8]) {
        if self.awaited.has(db, key) {
            self.effects.ready.push((db, key.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_has_expired_and_is_written_then_was_changed_by_a_command() {
        let watched = Interest { is_in_changes: true, ..Interest::default() };
        let mut effects = Effects::default();
        let mut touch = |key: &[u8]| effects.note_touched(&watched, DbIndex::FIRST, key);
        touch(b"a");
        touch(b"b");
        effects.note_unasked();
        let change = |key: &[u8], is_unasked| Change::Key { key: key.into(), is_unasked };
        assert_eq!(effects.changed, [change(b"a", false), change(b"b", true)]);
        effects.note_touched(&watched, DbIndex::FIRST, b"b");
        assert_eq!(effects.changed, [change(b"a", false), change(b"b", false)]);
    }

    #[test]
    fn letters_come_back_as_redis_writes_them() {
        for (given, shown) in [("KEA", "AKE"), ("g$lshzxetd", "A"), ("Kx", "xK"), ("", "")] {
            assert_eq!(Notify::parse(given).map(Notify::letters).as_deref(), Some(shown));
        }
        assert_eq!(Notify::parse("Kq"), None);
    }
}

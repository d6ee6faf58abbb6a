//! CLIENT TRACKING: clients that keep copies of what they read are told when a copy is old.
//!
//! ```text
//!   a client reads ──► ReadTable    which clients have read which key
//!   a key changes ──┬─► ReadTable    its readers are taken out ──────────────► News ─┐
//!                   └─► Broadcast    by prefix, until the iteration's end ──► News ─┤
//!                                                                                   ▼
//!              the client, or the one that it redirects to ◄── when the change is durable
//! ```
//!
//! A change is told when others may see it: the message lies behind a gate of its block in what the client is sent
//! ([`super::output`]), behind replies with the old value and before those with the new one. Of a client whose command
//! makes the change the message follows the reply.
//!
//! What is told, and to which clients, is decided here; the engine writes it ([`telling`]).
//!
//! # Invariants
//! - A client that has read a key is in the table until the key changes or is evicted from it; either is told, but with NOLOOP
//!   not what the client has changed itself, which as in Redis it must read again to be told of the next change.
//! - No message lies inside a reply: what a command, a transaction or a script brings about is told behind it.
//! - While no client tracks nothing is remembered, and the keyspace notes no changes.
//! - The table has as many keys as `tracking-table-max-keys` says, for longer than a few iterations, and about as many
//!   readers a key as clients track.

mod broadcast;
mod prefixes;
mod read_table;
mod telling;
mod tracker;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use base::Lsn;

pub(super) use tracker::{Mode, Tracker};

use broadcast::Broadcast;
use read_table::{ReadTable, Slot};

/// How many keys of emptied tables are freed in one iteration.
const FREED_KEYS_MAX: usize = 2000;

/// How many keys are evicted from the table at a time, the first time that it has too many.
const EVICTED_KEYS: usize = 100;

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum News {
    /// This key has changed, or is tracked no longer.
    Key(Arc<[u8]>),
    /// So have these, for a client that has named prefixes: an array of the protocol.
    Keys(Arc<[u8]>),
    /// Every key may have changed.
    All,
}

/// What a client is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Telling {
    /// The id of the client that tracks.
    client: u64,
    news: News,
    /// The block of the change; it must be as durable as a reader has to wait for.
    lsn: Lsn,
    /// The client whose command has made it; none if no command wanted it.
    origin: Option<u64>,
}

/// With so many messages waiting a client is told of no key twice.
const POSTPONED_AS_OFTEN: usize = 1000;

/// What waits for the end of a command, a transaction or a script. As in Redis a client is told of a key as often as it has read it
/// and it has changed, but of no more than that many such changes.
#[derive(Debug, Default)]
struct Postponed {
    in_order: Vec<Telling>,
    /// The clients in it and the keys; none for all keys.
    known: BTreeSet<(u64, Option<Arc<[u8]>>)>,
}

impl Postponed {
    fn push(&mut self, telling: Telling) {
        let of = match &telling.news {
            News::Key(key) => Some(Some(Arc::clone(key))),
            News::All => Some(None),
            News::Keys(_) => None,
        };
        let is_new = of.is_none_or(|of| self.known.insert((telling.client, of)));
        if is_new || self.in_order.len() < POSTPONED_AS_OFTEN {
            self.in_order.push(telling);
        }
    }
}

/// See the file's top.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    /// How many clients track.
    clients: usize,
    table: ReadTable,
    broadcast: Broadcast,
    /// What is to be told now, in order.
    due: VecDeque<Telling>,
    /// What is told behind the reply of the command that is being executed.
    postponed: Postponed,
    /// How often in a row evicting was not enough.
    eviction_rounds: usize,
}

impl Tracking {
    /// How many clients track.
    pub(crate) const fn client_count(&self) -> usize {
        self.clients
    }

    /// Whether any client does.
    pub(crate) const fn is_on(&self) -> bool {
        self.clients > 0
    }

    /// How many keys the table has.
    pub(crate) fn key_count(&self) -> usize {
        self.table.len()
    }

    /// How many readers the keys of the table have, all together.
    pub(crate) const fn reader_count(&self) -> usize {
        self.table.reader_count()
    }

    /// How many prefixes there are.
    pub(crate) fn prefix_count(&self) -> usize {
        self.broadcast.prefix_count()
    }

    /// Whether something is left to be done before all waits.
    pub(crate) const fn has_work(&self) -> bool {
        self.has_changes() || self.table.is_freeing()
    }

    /// Whether clients with prefixes are to be told of something.
    pub(crate) const fn has_changes(&self) -> bool {
        self.broadcast.has_changes()
    }

    /// Frees some of what an emptied table had.
    pub(crate) fn free_step(&mut self) {
        self.table.free_step(FREED_KEYS_MAX);
    }

    /// A client tracks from now on.
    fn add_client(&mut self) {
        self.clients += 1;
    }

    /// A client does not track any more.
    fn remove_client(&mut self, id: u64, tracker: &Tracker) {
        for prefix in &tracker.prefixes {
            self.broadcast.unsubscribe(prefix, id);
        }
        self.clients -= 1;
        if self.clients == 0 {
            // None is left that could be told.
            self.table.clear();
            self.due.clear();
            self.postponed = Postponed::default();
        }
    }

    /// A client is told of changes of keys that begin so.
    fn subscribe(&mut self, prefix: &[u8], id: u64) {
        self.broadcast.subscribe(prefix, id);
    }

    /// A client has read a key. `is_told` says of a client whether it must still be told of what it has read.
    fn note_read(&mut self, hash: u64, key: &[u8], id: u64, is_told: impl Fn(u64) -> bool) {
        if let Some(displaced) = self.table.insert(hash, key, id, is_told) {
            self.tell_readers(displaced, Lsn::ZERO, None);
        }
    }

    /// A key has changed in this block.
    fn key_changed(
        &mut self,
        hash: u64,
        key: &[u8],
        lsn: Lsn,
        origin: Option<u64>,
        is_own_kept: impl Fn(u64) -> bool,
    ) {
        self.broadcast.note(key, lsn, origin, &is_own_kept, &mut self.due);
        if let Some(slot) = self.table.take(hash, key) {
            self.tell_readers(slot, lsn, origin);
        }
    }

    /// Every key may have changed in this block; these are all clients that track.
    fn all_changed(
        &mut self,
        lsn: Lsn,
        clients: impl Iterator<Item = u64>,
        is_own_kept: impl Fn(u64) -> bool,
    ) {
        self.table.clear();
        self.broadcast.end_before(lsn, &is_own_kept, &mut self.due);
        let tell = |client| Telling { client, news: News::All, lsn, origin: None };
        self.due.extend(clients.map(tell));
    }

    /// What keys with prefixes have changed is told now. `is_own_kept`: a client is not told of its own changes.
    fn end_broadcast(&mut self, is_own_kept: impl Fn(u64) -> bool) {
        self.broadcast.end(&is_own_kept, &mut self.due);
    }

    /// Takes keys out of a table that has more than it may, some at a time, by random numbers.
    fn evict(&mut self, keys_max: usize, mut random: impl FnMut() -> u64) {
        for _ in 0..EVICTED_KEYS * (self.eviction_rounds + 1) {
            if self.table.len() <= keys_max {
                break;
            }
            if let Some(slot) = self.table.take_behind(random()) {
                self.tell_readers(slot, Lsn::ZERO, None);
            }
        }
        let is_over = self.table.len() > keys_max;
        self.eviction_rounds = if is_over { self.eviction_rounds + 1 } else { 0 };
    }

    fn tell_readers(&mut self, slot: Slot, lsn: Lsn, origin: Option<u64>) {
        let key: Arc<[u8]> = slot.key.into();
        for client in slot.readers.ids() {
            let news = News::Key(Arc::clone(&key));
            self.due.push_back(Telling { client, news, lsn, origin });
        }
    }
}

/// The keys that a running script has declared, for a client that is told of what it has read: they count as read
/// whenever the script reads anything.
#[derive(Debug)]
pub(super) struct DeclaredKeys {
    keys: Vec<Box<[u8]>>,
    /// What was taken out of the table, when they were noted last.
    noted_at: Option<u64>,
}

impl DeclaredKeys {
    pub(super) fn new(keys: &[&[u8]]) -> Self {
        Self { keys: keys.iter().map(|key| Box::from(*key)).collect(), noted_at: None }
    }
}

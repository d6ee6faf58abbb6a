//! MULTI, EXEC, WATCH: commands that are executed together, or not at all.
//!
//! A client notes the keys it watches with the keyspace, which tells when one is touched; the
//! client's next EXEC then executes nothing.

use base::DbIndex;
use command::spec::Flags;
use command::table::Command;
use keyspace::Keyspace;
use keyspace::effects::DbKey;

use super::ClientKey;
use super::client::Session;
use super::sessions::Sessions;

/// The commands between MULTI and EXEC.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(super) queue: Vec<Queued>,
    /// What the queued commands are, taken together.
    pub(crate) flags: Flags,
    /// One of them was refused: EXEC will execute nothing.
    pub(crate) is_refused: bool,
    /// The memory that the arguments take.
    args_bytes: usize,
}

/// What an argument of a queued command takes in addition to its bytes.
const ARG_OVERHEAD_BYTES: usize = size_of::<Vec<u8>>() + 16;

/// What a watched key takes in addition to its name: with its client, among all, and in the keyspace.
const WATCH_OVERHEAD_BYTES: usize = 3 * 64;

/// A command that waits for EXEC.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(super) command: Command,
    pub(super) args: Vec<Vec<u8>>,
}

impl Transaction {
    pub(super) fn new() -> Self {
        Self { queue: Vec::new(), flags: Flags::NONE, is_refused: false, args_bytes: 0 }
    }

    /// How many commands wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The memory that the queue takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.args_bytes + self.queue.capacity() * size_of::<Queued>()
    }
}

/// The memory that copies of these arguments take.
pub(super) fn args_memory_bytes(args: &[&[u8]]) -> usize {
    args.iter().map(|arg| arg.len() + ARG_OVERHEAD_BYTES).sum()
}

impl Session {
    /// Puts a command, which has these flags with its arguments, in the queue of the transaction.
    pub(super) fn enqueue(&mut self, command: Command, args: &[&[u8]], flags: Flags) {
        let transaction = self.transaction.as_mut().expect("commands are queued after MULTI");
        // A transaction that cannot succeed any more need not grow.
        if !transaction.is_refused && !self.is_watch_dirty {
            transaction.args_bytes += args_memory_bytes(args);
            transaction
                .queue
                .push(Queued { command, args: args.iter().map(|arg| arg.to_vec()).collect() });
        }
        transaction.flags = transaction.flags.with(flags);
    }

    /// The flags of what is executed when the client sends a command now that has these: for EXEC those of all that is
    /// queued, for a command that is queued none.
    pub(super) fn flags_of_execution(&self, command: Command, flags: Flags) -> Option<Flags> {
        match &self.transaction {
            None => Some(flags),
            Some(transaction) if command.name == "exec" => Some(flags.with(transaction.flags)),
            Some(_) => None,
        }
    }
}

impl Sessions {
    /// Notes that a client watches a key.
    pub(super) fn watch(
        &mut self,
        key: ClientKey,
        db: DbIndex,
        name: &[u8],
        keyspace: &mut Keyspace,
    ) {
        let session = &mut self.clients[key].session;
        let place: DbKey = (db, Box::from(name));
        if session.watched.insert(place.clone()) {
            session.watched_bytes += WATCH_OVERHEAD_BYTES + name.len();
            keyspace.watch(db, name);
            self.watchers.entry(place).or_default().push(key);
        }
    }

    /// Forgets what a client watches, and what happened to it.
    pub(super) fn unwatch_all(&mut self, key: ClientKey, keyspace: &mut Keyspace) {
        let session = &mut self.clients[key].session;
        session.is_watch_dirty = false;
        session.watched_bytes = 0;
        for place in std::mem::take(&mut session.watched) {
            keyspace.unwatch(place.0, &place.1);
            if let Some(watchers) = self.watchers.get_mut(&place) {
                watchers.retain(|watcher| *watcher != key);
                if watchers.is_empty() {
                    self.watchers.remove(&place);
                }
            }
        }
    }

    /// Forgets a client's transaction and what it watches.
    pub(super) fn discard(&mut self, key: ClientKey, keyspace: &mut Keyspace) {
        self.clients[key].session.transaction = None;
        self.unwatch_all(key, keyspace);
    }

    /// A watched key has changed.
    pub(super) fn mark_watch_dirty(&mut self, place: &DbKey) {
        for watcher in self.watchers.get(place).into_iter().flatten() {
            if let Some(client) = self.clients.get_mut(*watcher) {
                client.session.is_watch_dirty = true;
            }
        }
    }
}

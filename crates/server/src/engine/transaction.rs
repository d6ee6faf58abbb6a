//! MULTI, EXEC, WATCH: commands that are executed together, or not at all.
//!
//! A client notes the keys it watches with the keyspace, which tells when one is touched; the
//! client's next EXEC then executes nothing. All records of one EXEC lie in one block of the log, so
//! a crash keeps all of them or none.

use command::error::CommandError;
use command::spec::Flags;
use command::table::Command;

use super::call::Attempt;
use super::client::{Closing, DbKey};
use super::{ClientKey, Engine};

/// The commands between MULTI and EXEC.
#[derive(Debug)]
pub(crate) struct Transaction {
    queue: Vec<Queued>,
    /// What the queued commands are, taken together.
    pub(crate) flags: Flags,
    /// One of them was refused: EXEC will execute nothing.
    pub(crate) is_refused: bool,
    /// The memory that the arguments take.
    args_bytes: usize,
}

/// What an argument of a queued command takes beside its bytes.
const ARG_OVERHEAD_BYTES: usize = size_of::<Vec<u8>>() + 16;

/// What a watched key takes beside its name: with its client, among all, and in the keyspace.
const WATCH_OVERHEAD_BYTES: usize = 3 * 64;

#[derive(Debug)]
struct Queued {
    command: Command,
    args: Vec<Vec<u8>>,
}

impl Transaction {
    fn new() -> Self {
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

impl Engine {
    /// Puts a command in the queue.
    pub(super) fn enqueue(&mut self, key: ClientKey, command: Command, args: &[&[u8]]) {
        let client = &mut self.sessions[key];
        let is_lost = client.session.is_spoiled;
        let transaction =
            client.session.transaction.as_mut().expect("commands are queued inside a transaction");
        // A transaction that cannot succeed any more need not grow.
        if !transaction.is_refused && !is_lost {
            transaction.args_bytes += args_memory_bytes(args);
            transaction
                .queue
                .push(Queued { command, args: args.iter().map(|arg| arg.to_vec()).collect() });
        }
        transaction.flags = transaction.flags.with(command.flags);
        client.connection.output.writer().simple("QUEUED");
    }

    /// MULTI.
    pub(super) fn multi(&mut self, key: ClientKey, _args: &[&[u8]]) -> Result<(), CommandError> {
        let client = &mut self.sessions[key];
        if client.session.transaction.is_some() {
            return Err(CommandError::other("ERR MULTI calls can not be nested"));
        }
        client.session.transaction = Some(Box::new(Transaction::new()));
        client.connection.output.writer().ok();
        Ok(())
    }

    /// What is executed now is like that when a client sends a command: for EXEC all that is queued,
    /// for a command that is queued nothing.
    pub(super) fn flags_of_execution(&self, key: ClientKey, command: Command) -> Option<Flags> {
        match &self.sessions[key].session.transaction {
            None => Some(command.flags),
            Some(transaction) if command.name == "exec" => {
                Some(command.flags.with(transaction.flags))
            }
            Some(_) => None,
        }
    }

    /// DISCARD.
    pub(super) fn discard_command(
        &mut self,
        key: ClientKey,
        _args: &[&[u8]],
    ) -> Result<(), CommandError> {
        if self.sessions[key].session.transaction.is_none() {
            return Err(CommandError::other("ERR DISCARD without MULTI"));
        }
        self.discard(key);
        self.reply(key).ok();
        Ok(())
    }

    /// Forgets a client's transaction and what it watches.
    pub(super) fn discard(&mut self, key: ClientKey) {
        self.sessions[key].session.transaction = None;
        self.unwatch_all(key);
    }

    /// EXEC.
    pub(super) fn exec(&mut self, key: ClientKey, _args: &[&[u8]]) -> Result<(), CommandError> {
        if self.sessions[key].session.transaction.is_none() {
            return Err(CommandError::other("ERR EXEC without MULTI"));
        }
        self.meet_expired_watched(key);
        let client = &mut self.sessions[key];
        let is_spoiled = client.session.is_spoiled;
        let transaction = client.session.transaction.take().expect("just seen");
        self.unwatch_all(key);
        if transaction.is_refused {
            return Err(CommandError::other(
                "EXECABORT Transaction discarded because of previous errors.",
            ));
        }
        if is_spoiled {
            self.reply(key).null_array();
            return Ok(());
        }
        self.reply(key).array(transaction.queue.len());
        self.in_transaction = true;
        for Queued { command, args } in &transaction.queue {
            if self.sessions[key].connection.closing == Closing::Now
                && !command.flags.has(Flags::WRITE)
            {
                // Its reply is too long already: what only adds to it is not executed.
                continue;
            }
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            // In here nothing waits: a command that would replies what it replies on a timeout.
            let waits = self.call(key, *command, &args, Attempt::InTransaction);
            debug_assert!(waits.is_none(), "a command that must not wait does not");
            self.check_large_output(key);
        }
        self.in_transaction = false;
        if std::mem::take(&mut self.checkpoint_after_exec) {
            self.start_checkpoint();
        }
        // What EXEC itself depends on, its last command has said already.
        let now_ms = self.time.unix_ms();
        self.shard.keyspace.begin_command(now_ms);
        Ok(())
    }

    /// WATCH.
    pub(super) fn watch(&mut self, key: ClientKey, args: &[&[u8]]) -> Result<(), CommandError> {
        if self.sessions[key].session.transaction.is_some() {
            return Err(CommandError::other("ERR WATCH inside MULTI is not allowed"));
        }
        let db = self.sessions[key].session.db;
        for name in &args[1..] {
            // A key that has expired already must not spoil the transaction by being found out.
            self.shard.keyspace.exists(db, name, false);
            let place: DbKey = (db, Box::from(*name));
            if self.sessions[key].session.watched.contains(&place) {
                continue;
            }
            self.shard.keyspace.watch(db, name);
            self.sessions[key].session.watched_bytes += WATCH_OVERHEAD_BYTES + name.len();
            self.sessions.watchers.entry(place.clone()).or_default().push(key);
            self.sessions[key].session.watched.insert(place);
        }
        self.reply(key).ok();
        Ok(())
    }

    /// UNWATCH.
    pub(super) fn unwatch(&mut self, key: ClientKey, _args: &[&[u8]]) -> Result<(), CommandError> {
        self.unwatch_all(key);
        self.reply(key).ok();
        Ok(())
    }

    /// Forgets what a client watches, and what happened to it.
    pub(super) fn unwatch_all(&mut self, key: ClientKey) {
        let client = &mut self.sessions[key];
        client.session.is_spoiled = false;
        client.session.watched_bytes = 0;
        for place in std::mem::take(&mut client.session.watched) {
            self.shard.keyspace.unwatch(place.0, &place.1);
            if let Some(watchers) = self.sessions.watchers.get_mut(&place) {
                watchers.retain(|watcher| *watcher != key);
                if watchers.is_empty() {
                    self.sessions.watchers.remove(&place);
                }
            }
        }
    }

    /// A watched key has changed.
    pub(super) fn spoil(&mut self, place: &DbKey) {
        for watcher in self.sessions.watchers.get(place).into_iter().flatten() {
            if let Some(client) = self.sessions.clients.get_mut(*watcher) {
                client.session.is_spoiled = true;
            }
        }
    }

    /// Watched keys that have expired meanwhile count as changed: looking finds them out.
    fn meet_expired_watched(&mut self, key: ClientKey) {
        for (db, name) in self.sessions[key].session.watched.clone() {
            self.shard.keyspace.exists(db, &name, false);
        }
        if self.shard.keyspace.has_effects() {
            let (lsn, _) = self.shard.keyspace.end_command();
            self.settle(lsn);
        }
    }
}

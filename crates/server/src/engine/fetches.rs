//! Commands that wait until their keys are in memory.
//!
//! ```text
//!   request ── a key is cold ─► asked for, once however many want it ─► Restoration, other threads
//!      ▲                          the client waits; the request stays in its input
//!      └──── executed again ◄── all of its keys were told of ◄── Comeback::Fetched
//! ```
//!
//! Only the client that asks waits. What a request behind it in the same read will need is asked for, too, and
//! so is what is queued for EXEC. A request waits once: what is still missing then (it could not be read,
//! or only the command itself could tell its name) is read by the keyspace, while the executor waits.

use std::collections::BTreeMap;

use base::{DbId, DbIndex};
use command::argument;
use command::table::Command;
use keyspace::Restored;

use super::batch::Batch;
use super::blocking::Wait;
use super::sessions::Sessions;
use super::transaction::Transaction;
use super::{ClientKey, Engine};

/// A key by the id of its database.
type Name = (DbId, Box<[u8]>);

/// See the file's top.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// What was asked for, and the waits that end with it.
    asked: BTreeMap<Name, Vec<(ClientKey, u64)>>,
    last_wait: u64,
}

impl Fetches {
    /// How many keys were asked for and have not come yet.
    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// Nothing that was asked for comes any more.
    pub(super) fn clear(&mut self) {
        self.asked.clear();
    }
}

impl Engine {
    /// Lets a client wait for the keys of its request that are not in memory. `false` if it can be
    /// executed.
    pub(super) fn waits_for_keys(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
    ) -> bool {
        let session = &mut self.sessions[key].session;
        if session.has_fetched {
            return false;
        }
        let names = match &session.transaction {
            Some(_) if command.name == "exec" => self.cold_names_of_exec(key),
            _ => {
                let db = session.db;
                self.cold_names(db, command, args)
            }
        };
        if names.is_empty() {
            return false;
        }
        self.fetches.last_wait += 1;
        let (wait, left) = (self.fetches.last_wait, names.len());
        for name in names {
            self.ask(name).push((key, wait));
        }
        self.sessions[key].session.has_fetched = true;
        self.sessions.start_wait(key, Wait::Fetch { wait, left });
        true
    }

    /// Asks for the keys of a request that is executed later.
    pub(super) fn fetch_ahead(&mut self, key: ClientKey, command: Command, args: &[&[u8]]) {
        let db = self.sessions[key].session.db;
        for name in self.cold_names(db, command, args) {
            self.ask(name);
        }
    }

    /// Asks for the keys of the requests behind the one that waits.
    pub(super) fn fetch_behind(&mut self, key: ClientKey, batch: &Batch<'_>, from: usize) {
        if !self.shard.keyspace.is_cold() {
            return;
        }
        for index in from..batch.len() {
            let (request, args) = batch.request(index);
            if let Some(command) = request.command {
                self.fetch_ahead(key, command, args);
            }
        }
    }

    fn ask(&mut self, name: Name) -> &mut Vec<(ClientKey, u64)> {
        let Self { fetches, shard, .. } = self;
        fetches.asked.entry(name).or_insert_with_key(|(db, key)| {
            shard.fetch(*db, key);
            Vec::new()
        })
    }

    /// The keys that a command names, each in its database.
    pub(super) fn named_keys<'a>(
        &self,
        db: DbIndex,
        command: Command,
        args: &[&'a [u8]],
    ) -> Vec<(DbIndex, &'a [u8])> {
        let found = command::keys::of(command.spec(), args).unwrap_or_default();
        let mut names: Vec<_> = found.into_iter().map(|found| (db, args[found.index])).collect();
        // What these two write to may be in another database.
        let other = match command.name {
            "move" => args.get(2).map(|number| (args[1], *number)),
            "copy" => {
                let options = args.get(3..).unwrap_or_default();
                let at = options.iter().position(|word| argument::is(word, "db"));
                at.and_then(|at| options.get(at + 1)).map(|number| (args[2], *number))
            }
            _ => None,
        };
        let other = other.and_then(|(name, number)| Some((self.database_of(number)?, name)));
        names.extend(other);
        names
    }

    fn database_of(&self, number: &[u8]) -> Option<DbIndex> {
        self.shard.keyspace.database(argument::count(number).ok()?)
    }

    /// The keys of a command that are not in memory and may be in the log, each once.
    fn cold_names(&mut self, db: DbIndex, command: Command, args: &[&[u8]]) -> Vec<Name> {
        let found = self.named_keys(db, command, args);
        let keyspace = &mut self.shard.keyspace;
        let mut names: Vec<Name> =
            found.into_iter().filter_map(|(db, name)| keyspace.cold_name(db, name)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Those of all commands that a client has queued, and of the keys that it watches.
    fn cold_names_of_exec(&mut self, key: ClientKey) -> Vec<Name> {
        let session = &self.sessions[key].session;
        let (db, watched) = (session.db, session.watched.clone());
        let Some(transaction) = self.sessions[key].session.transaction.take() else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for (db, name) in self.queued_keys(db, &transaction) {
            names.extend(self.shard.keyspace.cold_name(db, name));
        }
        self.sessions[key].session.transaction = Some(transaction);
        let keyspace = &mut self.shard.keyspace;
        names.extend(watched.iter().filter_map(|(db, name)| keyspace.cold_name(*db, name)));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The keys that queued commands name, where they are before the first of them.
    pub(super) fn queued_keys<'a>(
        &self,
        mut db: DbIndex,
        transaction: &'a Transaction,
    ) -> Vec<(DbIndex, &'a [u8])> {
        // Which database each index will have.
        let mut at: Vec<DbIndex> = self.shard.keyspace.databases().collect();
        let mut names = Vec::new();
        for queued in &transaction.queue {
            let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
            match (queued.command.name, &args[..]) {
                ("select", [_, number, ..]) => db = self.database_of(number).unwrap_or(db),
                ("swapdb", [_, a, b, ..]) => {
                    if let (Some(a), Some(b)) = (self.database_of(a), self.database_of(b)) {
                        at.swap(a.get(), b.get());
                    }
                }
                _ => {}
            }
            let found = self.named_keys(db, queued.command, &args);
            names.extend(found.into_iter().map(|(db, name)| (at[db.get()], name)));
        }
        names
    }

    /// A key was read, or could not be: the clients that wait for it go on.
    pub(super) fn fetched(&mut self, db: DbId, key: Box<[u8]>, restored: Option<Restored>) {
        if let Some(restored) = restored {
            self.shard.keyspace.install(restored);
        }
        for (client, wait) in self.fetches.asked.remove(&(db, key)).unwrap_or_default() {
            self.sessions.end_fetch(client, wait);
        }
    }
}

impl Sessions {
    /// One of the keys that a client waits for was told of.
    fn end_fetch(&mut self, key: ClientKey, wait: u64) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let Some(Wait::Fetch { wait: current, left }) = client.session.wait.as_deref_mut() else {
            return;
        };
        if *current != wait {
            return;
        }
        *left -= 1;
        if *left == 0 {
            client.session.wait = None;
            self.resumed.push_back(key);
        }
    }
}

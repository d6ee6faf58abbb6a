//! Commands that wait until their keys are in memory.
//!
//! ```text
//!   request ── a key is cold ─► asked for, once however many want it ─► Fetching, other threads
//!      ▲                          the client waits; the request stays in its input
//!      └──── executed again ◄── all of its keys were told of ◄────── Fetched
//! ```
//!
//! KEYS, SCAN and RANDOMKEY wait for the names of keys that are not in memory in the same way.
//!
//! Only the client that asks waits. What a request behind it in the same read will need is asked for, too, and
//! so is what is queued for EXEC. A request waits once: what is still missing then (it could not be read,
//! or only the command itself could tell its name) is read by the keyspace, while the executor waits.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use base::DbIndex;
use command::argument;
use command::keys::KeyAt;
use command::spec::KeyFlags;
use command::table::Command;
use keyspace::{HASH_GRAIN, Missing, NamesFor, NamesFound, Need, Restored};

use super::batch::Batch;
use super::blocking::Wait;
use super::sessions::Sessions;
use super::shard::Wanted;
use super::transaction::Transaction;
use super::{ClientKey, Engine};

/// A key that a command names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'a> {
    pub(super) db: DbIndex,
    pub(super) key: &'a [u8],
    /// What of it must be in memory.
    pub(super) need: Need,
}

/// What becomes of a request for which memory may lack something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchWait {
    /// It can be executed.
    None,
    /// It is executed again when all is there.
    Waits,
    /// It needs more than half of what memory may hold.
    TooMuch,
}

/// See the file's top.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// What was asked for, and the waits that end with it.
    asked: BTreeMap<Missing, Vec<(ClientKey, u64)>>,
    /// Names that were asked for, and the wait that ends with them.
    names: BTreeMap<u64, (ClientKey, u64)>,
    last_wait: u64,
}

impl Fetches {
    /// How many keys were asked for and have not come yet.
    pub(super) fn len(&self) -> usize {
        self.asked.len() + self.names.len()
    }

    /// Nothing that was asked for comes any more.
    pub(super) fn clear(&mut self) {
        self.asked.clear();
        self.names.clear();
    }
}

impl Engine {
    /// Lets a client wait for what its request needs and memory lacks.
    pub(super) fn wait_for_keys(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
    ) -> FetchWait {
        let session = &mut self.sessions[key].session;
        if session.has_fetched {
            return FetchWait::None;
        }
        let all_missing = match &session.transaction {
            Some(_) if command.name == "exec" => self.missing_of_exec(key),
            _ => {
                let db = session.db;
                self.missing(db, command, args)
            }
        };
        let limit_bytes = self.options.maxmemory_bytes;
        let bytes: u64 = all_missing.iter().map(|it| it.bytes).sum();
        // One value may be as large as it is.
        if limit_bytes > 0 && bytes > limit_bytes / 2 && all_missing.len() > 1 {
            return FetchWait::TooMuch;
        }
        self.fetches.last_wait += 1;
        let wait = self.fetches.last_wait;
        let mut left = 0;
        for missing in all_missing {
            if let Some(waits) = self.ask(missing) {
                waits.push((key, wait));
                left += 1;
            }
        }
        if self.ask_for_names(key, wait, command, args) {
            left += 1;
        }
        if left == 0 {
            return FetchWait::None;
        }
        self.sessions[key].session.has_fetched = true;
        self.sessions.start_wait(key, Wait::Fetch { wait, left });
        FetchWait::Waits
    }

    /// Asks for names of keys that a command looks at and that are not in memory. Whether there are any.
    fn ask_for_names(
        &mut self,
        key: ClientKey,
        wait: u64,
        command: Command,
        args: &[&[u8]],
    ) -> bool {
        let session = &self.sessions[key].session;
        let Some((purpose, count)) = names_of(command, args) else { return false };
        if session.transaction.is_some() {
            return false;
        }
        let db = session.db;
        let Some(wanted) = self.shard.keyspace.names_wanted(db, purpose, count) else {
            return false;
        };
        let number = wanted.number;
        let is_asked = self.shard.ask(Wanted::Names(wanted));
        if is_asked {
            self.fetches.names.insert(number, (key, wait));
        } else {
            self.shard.keyspace.forget_names_wanted(number);
        }
        is_asked
    }

    /// Names were read, or could not be: the client that waits for them goes on.
    pub(super) fn named(&mut self, number: u64, found: Option<NamesFound>) {
        let waiting = self.fetches.names.remove(&number);
        let is_waited_for =
            waiting.is_some_and(|(client, wait)| self.sessions.end_fetch(client, wait));
        match found {
            Some(found) if is_waited_for => self.shard.keyspace.install_names(number, found),
            // What could not be read is read once more by the command, which says why it cannot be.
            _ => self.shard.keyspace.forget_names_wanted(number),
        }
    }

    fn is_short_of_memory(&self) -> bool {
        let limit_bytes = self.options.maxmemory_bytes;
        limit_bytes > 0 && self.deps.host.used_bytes() > limit_bytes
    }

    /// Asks for the keys of a request that is executed later.
    pub(super) fn fetch_ahead(&mut self, key: ClientKey, command: Command, args: &[&[u8]]) {
        if self.is_short_of_memory() {
            return;
        }
        let db = self.sessions[key].session.db;
        for missing in self.missing(db, command, args) {
            self.ask(missing);
        }
    }

    /// Asks for the keys of the requests behind the one that waits.
    pub(super) fn fetch_behind(&mut self, key: ClientKey, batch: &Batch<'_>, from: usize) {
        if !self.shard.keyspace.may_lack() || self.is_short_of_memory() {
            return;
        }
        for index in from..batch.len() {
            let (request, args) = batch.request(index);
            if let Some(command) = request.command {
                self.fetch_ahead(key, command, args);
            }
        }
    }

    /// Asks for something, unless it was asked for. The waits that end with it; `None` if it cannot
    /// be asked for.
    fn ask(&mut self, missing: Missing) -> Option<&mut Vec<(ClientKey, u64)>> {
        let Self { fetches, shard, .. } = self;
        match fetches.asked.entry(missing) {
            Entry::Occupied(asked) => Some(asked.into_mut()),
            Entry::Vacant(new) => {
                let is_asked = shard.ask(Wanted::Missing(new.key().clone()));
                is_asked.then(|| new.insert(Vec::new()))
            }
        }
    }

    /// The keys that a command names, each in its database.
    pub(super) fn named_keys<'a>(
        &self,
        db: DbIndex,
        command: Command,
        args: &[&'a [u8]],
    ) -> Vec<Named<'a>> {
        let found = command::keys::of(command.spec(), args).unwrap_or_default();
        let named = |found: KeyAt| {
            let need = need_of(command, found.flags);
            Named { db, key: args[found.index], need }
        };
        let mut names: Vec<_> = found.into_iter().map(named).collect();
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
        let need = Need::Name;
        let other = other
            .and_then(|(key, number)| Some(Named { db: self.database_of(number)?, key, need }));
        names.extend(other);
        names
    }

    fn database_of(&self, number: &[u8]) -> Option<DbIndex> {
        self.shard.keyspace.database(argument::count(number).ok()?)
    }

    /// What a command needs and memory lacks, each once.
    fn missing(&mut self, db: DbIndex, command: Command, args: &[&[u8]]) -> Vec<Missing> {
        let named = self.named_keys(db, command, args);
        self.missing_of(named)
    }

    fn missing_of<'a>(&mut self, named: impl IntoIterator<Item = Named<'a>>) -> Vec<Missing> {
        let keyspace = &mut self.shard.keyspace;
        let missing = |it: Named<'a>| keyspace.missing(it.db, it.key, it.need);
        let mut all: Vec<Missing> = named.into_iter().filter_map(missing).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Those of all commands that a client has queued, and of the keys that it watches.
    fn missing_of_exec(&mut self, key: ClientKey) -> Vec<Missing> {
        let session = &self.sessions[key].session;
        let (db, watched) = (session.db, session.watched.clone());
        let Some(transaction) = self.sessions[key].session.transaction.take() else {
            return Vec::new();
        };
        let watched = watched.iter().map(|(db, key)| Named { db: *db, key, need: Need::Name });
        let queued = self.queued_keys(db, &transaction);
        let missing = self.missing_of(queued.into_iter().chain(watched));
        self.sessions[key].session.transaction = Some(transaction);
        missing
    }

    /// The keys that queued commands name, where they are before the first of them.
    pub(super) fn queued_keys<'a>(
        &self,
        mut db: DbIndex,
        transaction: &'a Transaction,
    ) -> Vec<Named<'a>> {
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
            names.extend(found.into_iter().map(|it| Named { db: at[it.db.get()], ..it }));
        }
        names
    }

    /// Nothing that was asked for comes any more: the clients that wait for it go on.
    pub(super) fn forget_fetches(&mut self) {
        self.fetches.clear();
        self.sessions.resume_fetching(&mut self.shard.keyspace);
    }

    /// Something was read, or could not be: the clients that wait for it go on.
    pub(super) fn fetched(&mut self, missing: &Missing, restored: Option<Restored>) {
        if let Some(restored) = restored {
            self.shard.keyspace.install(restored);
        }
        for (client, wait) in self.fetches.asked.remove(missing).unwrap_or_default() {
            self.sessions.end_fetch(client, wait);
        }
    }
}

/// What a command that looks at all keys wants their names for, and about how many.
fn names_of(command: Command, args: &[&[u8]]) -> Option<(NamesFor, usize)> {
    match (command.name, args) {
        ("keys", [_, pattern]) => Some((NamesFor::All(Some((*pattern).into())), 0)),
        ("randomkey", [_]) => Some((NamesFor::Random, 0)),
        ("scan", [_, cursor, options @ ..]) => {
            let cursor: u64 = std::str::from_utf8(cursor).ok()?.parse().ok()?;
            let at = options.iter().position(|word| argument::is(word, "count"));
            let count = at.and_then(|at| argument::count(options.get(at + 1)?).ok());
            Some((NamesFor::Scan(cursor.wrapping_mul(HASH_GRAIN)), count.unwrap_or(10)))
        }
        _ => None,
    }
}

/// What a command needs of a key. One that writes a value over another needs no more than a name; but an
/// expiry is logged with the value.
fn need_of(command: Command, flags: KeyFlags) -> Need {
    let is_overwritten = flags.has(KeyFlags::OW) && !flags.has(KeyFlags::ACCESS);
    match command.name {
        "watch" | "del" | "unlink" | "exists" | "touch" | "type" | "ttl" | "pttl"
        | "expiretime" | "pexpiretime" | "memory|usage" | "object|freq" | "object|idletime" => {
            Need::Name
        }
        _ if is_overwritten => Need::Name,
        _ => Need::Value,
    }
}

impl Sessions {
    /// One of the things that a client waits for was told of. Whether it did wait for it.
    fn end_fetch(&mut self, key: ClientKey, wait: u64) -> bool {
        let Some(client) = self.clients.get_mut(key) else { return false };
        let Some(Wait::Fetch { wait: current, left }) = client.session.wait.as_deref_mut() else {
            return false;
        };
        if *current != wait {
            return false;
        }
        *left -= 1;
        if *left == 0 {
            client.session.wait = None;
            self.resumed.push_back(key);
        }
        true
    }
}

//! Commands that wait until their keys are in memory.
//!
//! ```text
//!   request ── a key is cold ─► FetchBudget ── asked for, once however many want it ─► Fetching
//!      ▲                          the client waits; the request stays in its input       │ other threads
//!      └──── executed again ◄── all of its keys were told of ◄────── Fetched
//! ```
//!
//! KEYS, SCAN and RANDOMKEY wait for the names of keys that are not in memory in the same way.
//!
//! Only the client that asks waits. What a request behind it in the same read will need is asked for, too, and
//! so is what is queued for EXEC. What has gone again before its turn is asked for again, some times; what is
//! still missing then, what could not be read, and what only the command itself can name is read by the keyspace, while the
//! executor waits.

use base::DbIndex;
use command::argument;
use command::keys::KeyAt;
use command::parse_cursor;
use command::spec::KeyFlags;
use command::table::Command;
use keyspace::{
    HASH_GRAIN, Missing, NamesFor, NamesFound, NamesWanted, Need, RestoreError, Restored,
};

use super::batch::Batch;
use super::blocking::Wait;
use super::fetch_budget::RequestId;
use super::sessions::Sessions;
use super::shard::Wanted;
use super::transaction::Transaction;
use super::{ClientKey, Engine};

/// No more rests of streams are asked for unasked while so many ends wait for theirs: each may have any size.
const RESTS_MAX: usize = 4;

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
    /// It needs more than half of what memory may hold, as far as that is known, or has turned out.
    TooMuch,
}

impl Engine {
    /// Lets a client wait for what its request needs and memory lacks.
    pub(super) fn wait_for_keys(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
    ) -> FetchWait {
        let wait = self.ask_for_keys(key, command, args);
        if wait == FetchWait::Waits
            && let Some(id) = self.sessions[key].session.fetched
        {
            self.sessions.start_wait(key, Wait::Fetch(id));
        }
        wait
    }

    /// Asks for what a client's request needs and memory lacks; again if it has gone before its turn.
    pub(super) fn ask_for_keys(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
    ) -> FetchWait {
        if !self.shard.keyspace.may_lack() {
            return FetchWait::None;
        }
        let session = &self.sessions[key].session;
        if let Some(id) = session.fetched {
            return if self.fetches.is_too_much(id) {
                FetchWait::TooMuch
            } else if self.fetches.is_waiting(id) {
                FetchWait::Waits
            } else {
                self.ask_again(key, id, command, args)
            };
        }
        let all_missing = self.missing_of_request(key, command, args);
        let names = self.names_wanted(key, command, args);
        if all_missing.is_empty() && names.is_none() {
            return FetchWait::None;
        }
        let known_bytes: u64 = all_missing.iter().map(|it| it.bytes).sum();
        // One value may be as large as it is.
        let is_one = all_missing.len() == 1;
        let limit_bytes = self.options.request_bytes_max();
        if known_bytes > limit_bytes && !is_one {
            return FetchWait::TooMuch;
        }
        // Where keys are evicted, all that are there fit: they come back by themselves, too.
        let is_bounded = !is_one && self.options.eviction.is_cold();
        let bytes_max = if is_bounded { limit_bytes } else { u64::MAX };
        let id = self.fetches.enter(key, all_missing, bytes_max);
        if let Some(wanted) = names {
            self.ask_for_names(id, wanted);
        }
        let wait = self.begin_fetch(id);
        self.sessions[key].session.fetched = Some(id);
        wait
    }

    /// Asks for what a request waits for; it waits, unless nothing of that can be asked for.
    fn begin_fetch(&mut self, id: RequestId) -> FetchWait {
        self.ask_more();
        self.fetches.end_if_over(id);
        if self.fetches.is_waiting(id) { FetchWait::Waits } else { FetchWait::None }
    }

    /// Asks again for what has gone before the request could be executed.
    fn ask_again(
        &mut self,
        key: ClientKey,
        id: RequestId,
        command: Command,
        args: &[&[u8]],
    ) -> FetchWait {
        if !self.fetches.may_ask_again(id) {
            return FetchWait::None;
        }
        let all_missing = self.missing_of_request(key, command, args);
        if all_missing.is_empty() {
            return FetchWait::None;
        }
        self.fetches.enter_again(id, all_missing);
        self.begin_fetch(id)
    }

    /// What a client's request needs and memory lacks.
    fn missing_of_request(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
    ) -> Vec<Missing> {
        let session = &self.sessions[key].session;
        if session.transaction.is_some() && command.name == "exec" {
            return self.missing_of_exec(key);
        }
        let db = session.db;
        self.missing(db, command, args)
    }

    /// Names of keys that a command looks at and that are not in memory.
    fn names_wanted(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
    ) -> Option<NamesWanted> {
        let session = &self.sessions[key].session;
        let (purpose, count) = names_of(command, args)?;
        if session.transaction.is_some() {
            return None;
        }
        let db = session.db;
        self.shard.keyspace.names_wanted(db, purpose, count)
    }

    fn ask_for_names(&mut self, id: RequestId, wanted: NamesWanted) {
        let number = wanted.number;
        if self.shard.ask(Wanted::Names(wanted)) {
            self.fetches.note_names(number, id);
        } else {
            self.shard.keyspace.forget_names_wanted(number);
        }
    }

    /// Names were read, or could not be: the client that waits for them goes on.
    pub(super) fn named(&mut self, number: u64, found: Result<NamesFound, RestoreError>) {
        let waiting = self.fetches.named(number);
        self.shard.keyspace.install_names(number, found);
        if let Some(id) = waiting
            && let Some(client) = self.fetches.end_if_over(id)
        {
            self.sessions.end_fetch(client, id);
        }
    }

    pub(super) fn is_short_of_memory(&self) -> bool {
        let limit_bytes = self.options.maxmemory_bytes;
        limit_bytes > 0 && self.deps.host.used_bytes() > limit_bytes
    }

    /// Asks for the keys of a request that is executed later, as far as there is room for them.
    pub(super) fn fetch_ahead(&mut self, key: ClientKey, command: Command, args: &[&[u8]]) {
        if self.is_short_of_memory() {
            return;
        }
        let db = self.sessions[key].session.db;
        for missing in self.missing(db, command, args) {
            if !self.fetches.has_room_ahead(self.options.fetch_bytes_max()) {
                return;
            }
            self.fetch_unasked(missing);
        }
    }

    /// Asks for what no request waits for yet.
    fn fetch_unasked(&mut self, missing: Missing) {
        if !self.fetches.is_asked(&missing) && self.shard.ask_for(&missing) {
            self.fetches.note_asked(missing, None);
        }
    }

    /// Asks for what has not come back by itself: see [`super::shard::Shard::next_rest`].
    pub(super) fn fetch_rests(&mut self) {
        while self.shard.keyspace.awaited_rests() < RESTS_MAX
            && self.fetches.has_room_ahead(self.options.fetch_bytes_max())
            && !self.is_short_of_memory()
            && let Some(missing) = self.shard.next_rest()
        {
            self.fetch_unasked(missing);
        }
    }

    /// Asks for the keys of the requests behind the one that waits.
    pub(super) fn fetch_behind(&mut self, key: ClientKey, batch: &Batch<'_>, from: usize) {
        if !self.shard.keyspace.may_lack() || self.is_short_of_memory() {
            return;
        }
        for index in from..batch.len() {
            let (request, args) = batch.request(index);
            let identity = self.sessions[key].session.identity;
            // Nothing is read for one that will be refused.
            if let Some(command) = request.command
                && self.access.check(identity, command, args).is_ok()
            {
                self.fetch_ahead(key, command, args);
            }
        }
    }

    /// Asks for what waiting requests need, as far as the budget allows.
    fn ask_more(&mut self) {
        let Self { fetches, shard, sessions, options, .. } = self;
        while let Some((id, missing)) = fetches.next(options.fetch_bytes_max()) {
            // It may have come meanwhile, or been deleted.
            let is_asked = fetches.is_asked(&missing)
                || (shard.keyspace.lacks(&missing) && shard.ask_for(&missing));
            if is_asked {
                fetches.note_asked(missing, Some(id));
            } else if let Some(client) = fetches.end_if_over(id) {
                sessions.end_fetch(client, id);
            }
        }
    }

    /// What was read for a client's request was used, or is not wanted any more.
    pub(super) fn release_fetched(&mut self, key: ClientKey) {
        if let Some(id) = self.sessions[key].session.fetched.take() {
            self.release(id);
        }
    }

    /// The same of a request that its client has forgotten.
    pub(super) fn release(&mut self, id: RequestId) {
        if let Some(number) = self.fetches.release(id) {
            self.shard.keyspace.forget_names_wanted(number);
        }
        self.ask_more();
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
            let need = need_of(command, found.flags, args);
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

    /// Those of them that it looks at, as far as memory can tell before it is executed.
    pub(super) fn needed_keys<'a>(
        &mut self,
        db: DbIndex,
        command: Command,
        args: &[&'a [u8]],
    ) -> Vec<Named<'a>> {
        let mut names = self.named_keys(db, command, args);
        // One that waits is called at each change of its source, and its destination may be large.
        if command.name == "blmovem" && command::lacks_elements(&mut self.shard.keyspace, db, args)
        {
            names.retain(|it| it.key == args[1]);
        }
        names
    }

    /// What a command needs and memory lacks, each once.
    fn missing(&mut self, db: DbIndex, command: Command, args: &[&[u8]]) -> Vec<Missing> {
        let needed = self.needed_keys(db, command, args);
        self.missing_of(needed)
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
        let bytes = restored.as_ref().map_or(0, Restored::bytes) as u64;
        self.shard.keyspace.note_told(missing);
        if let Some(restored) = restored {
            self.shard.keyspace.install(restored);
        }
        let Self { fetches, sessions, .. } = self;
        fetches.came(missing, bytes, |client, id| sessions.end_fetch(client, id));
        self.ask_more();
    }
}

/// What a command that looks at all keys wants their names for, and about how many.
fn names_of(command: Command, args: &[&[u8]]) -> Option<(NamesFor, usize)> {
    match (command.name, args) {
        ("keys", [_, pattern]) => Some((NamesFor::All(Some((*pattern).into())), 0)),
        ("randomkey", [_]) => Some((NamesFor::Random, 0)),
        ("scan", [_, cursor, options @ ..]) => {
            let cursor = parse_cursor(cursor).ok()?;
            let at = options.iter().position(|word| argument::is(word, "count"));
            let count = at.and_then(|at| argument::count(options.get(at + 1)?).ok());
            Some((NamesFor::Scan(cursor.wrapping_mul(HASH_GRAIN)), count.unwrap_or(10)))
        }
        _ => None,
    }
}

/// What a command needs of a key. One that writes a value over another needs no more than a name; but an
/// expiry is logged with the value.
fn need_of(command: Command, flags: KeyFlags, args: &[&[u8]]) -> Need {
    let is_overwritten = flags.has(KeyFlags::OW) && !flags.has(KeyFlags::ACCESS);
    match command.name {
        "watch" | "del" | "unlink" | "exists" | "touch" | "type" | "ttl" | "pttl"
        | "expiretime" | "pexpiretime" | "memory|usage" | "object|freq" | "object|idletime" => {
            Need::Name
        }
        "xadd" if command::adds_at_the_end(args) => Need::End,
        // Without a condition.
        "delex" if flags.has(KeyFlags::RM) => Need::Name,
        _ if is_overwritten => Need::Name,
        _ => Need::Value,
    }
}

impl Sessions {
    /// All that a client's request waits for has come, or cannot.
    fn end_fetch(&mut self, key: ClientKey, id: RequestId) {
        let Some(client) = self.clients.get_mut(key) else { return };
        match client.session.wait.as_deref_mut() {
            Some(Wait::Fetch(waits)) if *waits == id => {
                client.session.wait = None;
                self.resumed.push_back(key);
            }
            // It is served in its place.
            Some(Wait::Keys(wait)) if client.session.fetched == Some(id) => {
                self.ready_keys.extend(wait.take_held_up());
                self.due.extend(wait.is_due().then_some(key));
            }
            _ => {}
        }
    }
}

//! Clients that wait: for a key (BLPOP and its like), for the log (WAITAOF), for blocks of it (LOGTAIL), for
//! replicas (WAIT), for the end of a pause, for the log to keep up.
//!
//! ```text
//!   key ──► client, client, client      in the order in which they came
//!            └ its command is executed again when the key is there;
//!              it either replies, or waits on in its place
//! ```
//!
//! One that claims what others hold for too long also asks to be called at a time. Then it alone is, once, for all its keys:
//! of many clients that wait for the same, each costs one execution and not one for each other.
//!
//! What else the command needs, the destination of BLMOVE, may have left memory meanwhile. Then it is asked for; the
//! client waits for both in its place, and those behind it wait, too. BLMOVEM that waits for more elements than there are
//! needs nothing else yet.
//!
//! A client that waits executes nothing; what it sends is kept until it goes on.

use std::collections::{BTreeMap, VecDeque};

use base::{DbIndex, Lsn};
use command::context::{Again, Blocking, TimeoutReply};
use command::table::Command;
use keyspace::effects::DbKey;
use keyspace::{Keyspace, Need};

use super::call::{Attempt, TOO_MUCH};
use super::client::ReplyMode;
use super::fetch_budget::RequestId;
use super::fetches::FetchWait;
use super::sessions::Sessions;
use super::transaction::args_memory_bytes;
use super::{ClientKey, Engine};

/// What a client waits for.
#[derive(Debug)]
pub(crate) enum Wait {
    /// That one of the keys is there.
    Keys(KeyWait),
    /// That a block is durable.
    Durable(DurableWait),
    /// That replicas have acknowledged; there are none, so only the time can end it.
    Replicas { deadline_ms: Option<i64> },
    /// That the pause is over.
    Pause,
    /// That the log keeps up with what is written.
    Room,
    /// That so much of what its request needs is in memory.
    Fetch(RequestId),
    /// That the script ends which it has called.
    Script,
    /// That the owner of the engine has done what it was asked for.
    HostRequest,
    /// That the dump into the file is complete.
    Save,
    /// The end of the server.
    Shutdown,
    /// That all of a dump was sent to it.
    Dump,
    /// That its keys are at another server, or cannot be.
    Migration,
    /// That there are blocks of the log for it, or that they were read.
    Tail(TailWait),
}

/// A command that waits for keys.
#[derive(Debug)]
pub(crate) struct KeyWait {
    command: Command,
    args: Vec<Vec<u8>>,
    db: DbIndex,
    keys: Vec<Box<[u8]>>,
    /// Those of them that were there when what its command needs besides was not: clients behind it were not
    /// served from them.
    held_up: Vec<Box<[u8]>>,
    deadline_ms: Option<i64>,
    on_timeout: TimeoutReply,
    /// Any change of a key is of interest, also that it has gone.
    at_any_change: bool,
    look: Look,
    /// The memory that the arguments and the keys take.
    memory_bytes: usize,
}

/// When a command that waits is executed again, whatever has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// It has not asked for that.
    Never,
    /// At this time, in Unix milliseconds.
    At(i64),
    /// As soon as it may be; it is in [`Sessions::due`], or what it needs besides is on its way.
    Due,
}

impl Look {
    const fn at_ms(self) -> Option<i64> {
        if let Self::At(ms) = self { Some(ms) } else { None }
    }
}

impl From<Option<i64>> for Look {
    fn from(at_ms: Option<i64>) -> Self {
        at_ms.map_or(Self::Never, Self::At)
    }
}

impl KeyWait {
    /// Its time has come, and it could not be executed: it is called again when it can.
    pub(super) fn is_due(&self) -> bool {
        self.look == Look::Due
    }

    /// It holds nothing up any more: from where it and those behind it may be served.
    pub(super) fn take_held_up(&mut self) -> impl Iterator<Item = DbKey> + use<> {
        let db = self.db;
        std::mem::take(&mut self.held_up).into_iter().map(move |name| (db, name))
    }
}

/// A WAITAOF.
#[derive(Debug)]
pub(crate) struct DurableWait {
    pub(crate) lsn: Lsn,
    pub(crate) deadline_ms: Option<i64>,
    /// It also waits for replicas, of which there are none.
    pub(crate) wants_replicas: bool,
}

/// A LOGTAIL.
#[derive(Debug)]
pub(crate) struct TailWait {
    /// Which of all there were.
    pub(crate) number: u64,
    /// The last block that its client knows.
    pub(crate) after: Lsn,
    /// Until when it waits for blocks; `None` also while they are read.
    pub(crate) deadline_ms: Option<i64>,
}

impl Wait {
    /// Whether CLIENT LIST shows it, and CLIENT UNBLOCK can end it.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self, Self::Keys(_) | Self::Durable(_) | Self::Replicas { .. } | Self::Tail(_))
    }

    /// The call that waits for keys, if one does.
    pub(super) fn call(&self) -> Option<(Command, &[Vec<u8>])> {
        if let Self::Keys(wait) = self { Some((wait.command, &wait.args)) } else { None }
    }

    /// The memory that it points to, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        if let Self::Keys(wait) = self { wait.memory_bytes } else { 0 }
    }

    /// When something must be done for it.
    fn due_ms(&self) -> Option<i64> {
        match self {
            Self::Keys(wait) => wait.deadline_ms.into_iter().chain(wait.look.at_ms()).min(),
            Self::Durable(wait) => wait.deadline_ms,
            Self::Replicas { deadline_ms } => *deadline_ms,
            Self::Tail(wait) => wait.deadline_ms,
            _ => None,
        }
    }
}

/// The clients that wait for keys, by key, the one that came first in front.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    pub(super) by_key: BTreeMap<DbKey, VecDeque<ClientKey>>,
    /// Clients that wait for the log.
    pub(crate) durable: Vec<ClientKey>,
}

impl Sessions {
    /// How many clients wait for something that CLIENT UNBLOCK can end.
    pub(super) fn blocked_count(&self) -> usize {
        let blocks = |wait: &Wait| !matches!(wait, Wait::Room | Wait::Fetch(_) | Wait::Script);
        self.clients
            .iter()
            .filter(|(_, client)| client.session.wait.as_deref().is_some_and(blocks))
            .count()
    }

    /// Makes a client wait for keys.
    pub(super) fn block(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
        blocking: Blocking,
        keyspace: &mut Keyspace,
    ) {
        let db = self.clients[key].session.db;
        // Each once, in whatever order: clients are served in the order of their queues.
        let mut keys: Vec<Box<[u8]>> = blocking.keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        let at_any_change = blocking.at_any_change;
        for name in &keys {
            keyspace.await_key(db, name);
            if at_any_change {
                keyspace.await_changes(db, name);
            }
            self.waiters.by_key.entry((db, name.clone())).or_default().push_back(key);
        }
        // Each key lies in three places: with its client, among the waiters, in the keyspace.
        let memory_bytes = 4 * args_memory_bytes(args);
        let args = blocking.args.unwrap_or_else(|| args.iter().map(|arg| arg.to_vec()).collect());
        let (deadline_ms, on_timeout) = (blocking.deadline_ms, blocking.on_timeout);
        let look = Look::from(blocking.look_ms);
        self.start_wait(
            key,
            Wait::Keys(KeyWait {
                command,
                args,
                db,
                keys,
                held_up: Vec::new(),
                deadline_ms,
                on_timeout,
                at_any_change,
                look,
                memory_bytes,
            }),
        );
    }

    /// Makes a client wait.
    pub(super) fn start_wait(&mut self, key: ClientKey, wait: Wait) {
        if let Some(due_ms) = wait.due_ms() {
            self.deadlines.insert((due_ms, key));
        }
        if matches!(wait, Wait::Durable(_)) {
            self.waiters.durable.push(key);
        }
        self.clients[key].session.wait = Some(Box::new(wait));
    }

    /// A client that waits for keys was called and waits on. It has looked at all of them if it `has_looked`, and is called
    /// again at `look_ms`, or when it was to be because of the others.
    fn look_at(&mut self, key: ClientKey, look_ms: Option<i64>, has_looked: bool) {
        let client = self.clients.get_mut(key);
        let wait = client.and_then(|client| client.session.wait.as_deref_mut());
        let Some(wait) = wait else { return };
        let before = wait.due_ms();
        if let Wait::Keys(wait) = wait {
            wait.look = match wait.look {
                Look::Due if !has_looked => Look::Due,
                Look::At(before) if !has_looked => Look::At(look_ms.unwrap_or(before).min(before)),
                Look::Never | Look::At(_) | Look::Due => Look::from(look_ms),
            };
            // What it was to be called with may have been given back.
            self.due.extend(wait.is_due().then_some(key));
        }
        let after = wait.due_ms();
        before.into_iter().for_each(|due_ms| _ = self.deadlines.remove(&(due_ms, key)));
        after.into_iter().for_each(|due_ms| _ = self.deadlines.insert((due_ms, key)));
    }

    /// Notes a client to be called again, if its time for that has come. Whether it has.
    fn look_again(&mut self, key: ClientKey, now_ms: i64) -> bool {
        let client = self.clients.get_mut(key);
        let wait = client.and_then(|client| client.session.wait.as_deref_mut());
        let Some(Wait::Keys(wait)) = wait else { return false };
        let is_over = wait.deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms);
        let look_ms = wait.look.at_ms().filter(|look_ms| *look_ms <= now_ms && !is_over);
        let Some(look_ms) = look_ms else { return false };
        wait.look = Look::Due;
        self.due.push_back(key);
        self.deadlines.remove(&(look_ms, key));
        self.deadlines.extend(wait.deadline_ms.map(|deadline_ms| (deadline_ms, key)));
        true
    }

    /// Takes the next client that is to be called for all its keys.
    fn take_due(&mut self) -> Option<ClientKey> {
        loop {
            let key = self.due.pop_front()?;
            let client = self.clients.get(key);
            // Others have gone, or were called meanwhile.
            if let Some(Wait::Keys(wait)) = client.and_then(|it| it.session.wait.as_deref())
                && wait.is_due()
            {
                return Some(key);
            }
        }
    }

    /// Takes a client out of everything it waits in, without a reply.
    pub(super) fn stop_waiting(&mut self, key: ClientKey, keyspace: &mut Keyspace) -> Option<Wait> {
        let mut wait = *self.clients.get_mut(key)?.session.wait.take()?;
        if let Some(due_ms) = wait.due_ms() {
            self.deadlines.remove(&(due_ms, key));
        }
        match &mut wait {
            Wait::Keys(wait) => {
                self.given_up.extend(self.clients[key].session.fetched.take());
                self.ready_keys.extend(wait.take_held_up());
                for name in &wait.keys {
                    keyspace.unawait_key(wait.db, name);
                    if wait.at_any_change {
                        keyspace.unawait_changes(wait.db, name);
                    }
                    let place = (wait.db, name.clone());
                    if let Some(queue) = self.waiters.by_key.get_mut(&place) {
                        queue.retain(|waiter| *waiter != key);
                        if queue.is_empty() {
                            self.waiters.by_key.remove(&place);
                        }
                    }
                }
            }
            Wait::Durable(_) => self.waiters.durable.retain(|waiter| *waiter != key),
            Wait::Room => self.congestion.forget(key),
            _ => {}
        }
        Some(wait)
    }

    /// Lets a client that waited go on with what it has sent meanwhile. Its reply begins at
    /// `before` in its output; one that wants none gets none.
    pub(super) fn resume(&mut self, key: ClientKey, before: usize) {
        let client = &mut self.clients[key];
        if client.session.reply_mode == ReplyMode::Off {
            client.connection.output.truncate(before);
        }
        self.note(key);
        self.resumed.push_back(key);
    }

    /// Ends the waits whose time is up.
    pub(super) fn end_waits(&mut self, now_ms: i64, durable: Lsn, keyspace: &mut Keyspace) {
        while let Some((deadline_ms, key)) = self.deadlines.first().copied() {
            if deadline_ms > now_ms {
                break;
            }
            if !self.look_again(key, now_ms) {
                self.time_out(key, durable, keyspace);
            }
        }
    }

    /// Ends a wait as if its time were up.
    pub(super) fn time_out(&mut self, key: ClientKey, durable: Lsn, keyspace: &mut Keyspace) {
        let Some(wait) = self.stop_waiting(key, keyspace) else { return };
        let before = self.clients[key].connection.output.len();
        let reply = self.clients[key].connection.output.writer();
        match wait {
            Wait::Keys(wait) => match wait.on_timeout {
                TimeoutReply::NullArray => reply.null_array(),
                TimeoutReply::Null => reply.null(),
            },
            Wait::Durable(wait) => {
                reply.array(2);
                reply.int(i64::from(wait.lsn <= durable));
                reply.int(0);
            }
            Wait::Replicas { .. } => reply.int(0),
            Wait::Tail(wait) => {
                reply.array(2);
                reply.int(wait.after.0.cast_signed());
                reply.array(0);
            }
            _ => {}
        }
        self.resume(key, before);
    }

    /// Ends a wait with an error. Returns whether the client waited.
    pub(super) fn end_wait_with_error(
        &mut self,
        key: ClientKey,
        error: &str,
        keyspace: &mut Keyspace,
    ) -> bool {
        if self.stop_waiting(key, keyspace).is_none() {
            return false;
        }
        let before = self.clients[key].connection.output.len();
        self.clients[key].connection.output.writer().error(error);
        self.resume(key, before);
        true
    }

    /// Ends a wait with OK.
    pub(super) fn end_wait_with_ok(&mut self, key: ClientKey, keyspace: &mut Keyspace) {
        if self.stop_waiting(key, keyspace).is_some() {
            let before = self.clients[key].connection.output.len();
            self.clients[key].connection.output.writer().ok();
            self.resume(key, before);
        }
    }

    /// Answers the WAITAOFs whose blocks are durable.
    pub(super) fn wake_durable(&mut self, durable: Lsn, keyspace: &mut Keyspace) {
        for key in self.waiters.durable.clone() {
            let is_over =
                match self.clients.get(key).and_then(|client| client.session.wait.as_deref()) {
                    Some(Wait::Durable(wait)) => wait.lsn <= durable && !wait.wants_replicas,
                    _ => false,
                };
            if is_over {
                self.time_out(key, durable, keyspace);
            }
        }
    }

    /// Lets a command wait until the pause is over.
    pub(super) fn postpone(&mut self, key: ClientKey) {
        self.start_wait(key, Wait::Pause);
    }

    /// Lets the clients go on that waited for the end of the pause.
    pub(super) fn resume_paused(&mut self, keyspace: &mut Keyspace) {
        self.resume_all(keyspace, |wait| matches!(wait, Wait::Pause));
    }

    /// Lets the clients go on that waited for what nothing brings any more.
    pub(super) fn resume_fetching(&mut self, keyspace: &mut Keyspace) {
        self.resume_all(keyspace, |wait| matches!(wait, Wait::Fetch(_)));
        for key in self.clients.keys() {
            // It is asked for again.
            let session = &mut self.clients[key].session;
            session.fetched = None;
            if let Some(Wait::Keys(wait)) = session.wait.as_deref_mut() {
                self.ready_keys.extend(wait.take_held_up());
                self.due.extend(wait.is_due().then_some(key));
            }
        }
    }

    fn resume_all(&mut self, keyspace: &mut Keyspace, is_over: impl Fn(&Wait) -> bool) {
        for key in self.clients.keys() {
            if self.clients[key].session.wait.as_deref().is_some_and(&is_over) {
                self.stop_waiting(key, keyspace);
                let before = self.clients[key].connection.output.len();
                self.resume(key, before);
            }
        }
    }
}

impl Engine {
    /// Whether there are commands that waited for keys and may be executed now. What makes a key appear is
    /// refused where these must not write; but what they need besides may come at any time.
    pub(super) fn can_serve(&self) -> bool {
        (!self.sessions.ready_keys.is_empty() || !self.sessions.due.is_empty())
            && !self.migrations.holds_writers()
            && self.may_write_unasked()
            && self.shard.write_refusal().is_none()
    }

    /// Whether what clients have asked for earlier may change keys now: no client has held writers up since.
    pub(super) fn may_write_unasked(&self) -> bool {
        !self.in_transaction
            && !self.scripting.is_running()
            && self.pause.is_none()
            && !self.saves.final_save
            && !self.shard.is_loading()
            && !self.shard.log_state().is_copying()
    }

    /// Executes the commands that have waited for what they need besides.
    pub(super) fn serve_late(&mut self) {
        if self.can_serve() {
            self.shard.keyspace.begin_command(self.time.unix_ms());
            self.serve_ready_keys();
            self.end_unasked();
            self.seal_if_large();
        }
        self.release_given_up();
    }

    /// Gives back what was read for clients that do not wait for it any more.
    fn release_given_up(&mut self) {
        for id in std::mem::take(&mut self.sessions.given_up) {
            self.release(id);
        }
    }

    /// Executes the commands that wait for keys which have appeared.
    pub(super) fn serve_ready_keys(&mut self) {
        if !self.can_serve() {
            return;
        }
        while let Some(key) = self.sessions.take_due() {
            self.retry(key, Again::Due);
        }
        while let Some(place) = self.sessions.ready_keys.pop_front() {
            let queue: Vec<ClientKey> = self
                .sessions
                .waiters
                .by_key
                .get(&place)
                .map(|queue| queue.iter().copied().collect())
                .unwrap_or_default();
            let mut is_there = true;
            for waiter in queue {
                // What only reading can tell is asked for with what else the command needs.
                let keyspace = &mut self.shard.keyspace;
                is_there = is_there
                    && (keyspace.missing(place.0, &place.1, Need::Name).is_some()
                        || keyspace.exists(place.0, &place.1, false));
                if !is_there && !self.waits_for_changes(waiter) {
                    self.end_fetch_in_vain(waiter);
                } else if !self.retry(waiter, Again::Ready(&place.1)) {
                    break;
                }
            }
        }
        self.tell_postponed();
    }

    /// Whether a client waits also to learn that a key has gone.
    fn waits_for_changes(&self, key: ClientKey) -> bool {
        let client = self.sessions.clients.get(key);
        let wait = client.and_then(|client| client.session.wait.as_deref());
        matches!(wait, Some(Wait::Keys(wait)) if wait.at_any_change)
    }

    /// What a client needs that waits for keys has come, and the keys have gone.
    fn end_fetch_in_vain(&mut self, key: ClientKey) {
        let fetched = self.sessions.clients.get(key).and_then(|client| client.session.fetched);
        if fetched.is_some_and(|id| !self.fetches.is_waiting(id)) {
            self.release_fetched(key);
        }
    }

    /// Executes the command of a client that waits for keys again. Returns whether those behind it may be
    /// served; otherwise what its command needs is on its way.
    fn retry(&mut self, key: ClientKey, again: Again<'_>) -> bool {
        let Some(client) = self.sessions.clients.get_mut(key) else { return true };
        let (command, args, has_looked) = match client.session.wait.as_deref_mut() {
            Some(Wait::Keys(wait)) => {
                let has_looked = again == Again::Due || wait.keys.len() == 1;
                (wait.command, std::mem::take(&mut wait.args), has_looked)
            }
            _ => return true,
        };
        let before = client.connection.output.len();
        let argv: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let fetch = self.ask_for_keys(key, command, &argv);
        if fetch == FetchWait::TooMuch {
            self.end_wait_with_error(key, TOO_MUCH);
            return true;
        }
        let is_asked = fetch == FetchWait::Waits;
        // A client that wants no replies may be told something all the same.
        self.mute_unwanted(key);
        let mut look_ms = None;
        let waits_on = is_asked
            || self.call(key, command, &argv, Attempt::Again(again)).is_some_and(|blocking| {
                look_ms = blocking.look_ms;
                true
            });
        let client = &mut self.sessions[key];
        client.connection.output.unmute();
        if waits_on {
            client.connection.output.truncate(before);
            if let Some(Wait::Keys(wait)) = client.session.wait.as_deref_mut() {
                wait.args = args;
                if let Again::Ready(ready) = again
                    && is_asked
                    && !wait.held_up.iter().any(|name| **name == *ready)
                {
                    wait.held_up.push(ready.into());
                }
            }
            if !is_asked {
                self.sessions.look_at(key, look_ms, has_looked);
                self.release_fetched(key);
            }
            self.tell_postponed();
            return !is_asked;
        }
        self.sessions.stop_waiting(key, &mut self.shard.keyspace);
        self.sessions.resume(key, before);
        self.tell_postponed();
        true
    }

    /// Ends a wait with an error.
    pub(super) fn end_wait_with_error(&mut self, key: ClientKey, error: &str) {
        if self.sessions.end_wait_with_error(key, error, &mut self.shard.keyspace) {
            self.observed.counters.error(error.as_bytes());
        }
    }
}

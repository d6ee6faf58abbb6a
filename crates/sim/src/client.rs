//! A simulated client: what it has sent, what it waits for, and what the replies promise it.
//!
//! A reply is worth a promise when its client asked for strictness: then everything that the reply
//! shows or says is done must survive from the moment at which the client has read it.

use std::collections::VecDeque;

use base::{DbIndex, Lsn};
use server::engine::ClientKey;

use crate::machine::Wrote;
use crate::named::Asked;
use crate::picture::Name;
use crate::reply::Reply;
use crate::wiretap::Tap;
use crate::workload::{Kind, Op};

/// A reply that is to come.
#[derive(Debug, Clone)]
struct Expected {
    kind: Kind,
    /// What must survive once the reply was read.
    need: Lsn,
    /// The same, if the reply says that a transaction was given up.
    need_if_nil: Lsn,
    /// Whether the command wrote: an error inside a transaction does not take that back.
    wrote: bool,
    is_strict: bool,
    /// A script in its transaction exchanges databases: what is behind it names other keys than it seems to.
    swaps_by_script: bool,
    /// For WAITAOF: the client's last write.
    written: Lsn,
    asked: Option<Asked>,
    text: String,
}

/// See the file's top.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) key: ClientKey,
    pub(crate) number: usize,
    pub(crate) db: DbIndex,
    /// What CLIENT DURABILITY has set; 3 for nothing.
    pub(crate) durability: u8,
    pub(crate) is_blocked: bool,
    pub(crate) in_multi: bool,
    /// Its transaction has a command that seals the open block.
    pub(crate) multi_seals: bool,
    /// See [`Expected::swaps_by_script`].
    multi_swaps: bool,
    /// Bytes of its latest command that are still on their way, and the command.
    pub(crate) underway: Option<(Vec<u8>, Op)>,
    expected: VecDeque<Expected>,
    incoming: Vec<u8>,
    last_write: Lsn,
    multi_shows: Vec<Name>,
    watched: Vec<Name>,
}

/// What a client has been told.
pub(crate) struct Told {
    /// What must survive from now on.
    pub(crate) need: Lsn,
    /// What must survive the process.
    pub(crate) shown: Lsn,
    /// By what.
    pub(crate) what: String,
    pub(crate) reply: Reply,
    /// What it was asked of a backup.
    pub(crate) asked: Option<Asked>,
}

impl Client {
    pub(crate) fn new(key: ClientKey, number: usize) -> Self {
        Self {
            key,
            number,
            db: DbIndex::FIRST,
            durability: 3,
            is_blocked: false,
            in_multi: false,
            multi_seals: false,
            multi_swaps: false,
            underway: None,
            expected: VecDeque::new(),
            incoming: Vec::new(),
            last_write: Lsn::ZERO,
            multi_shows: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// How many replies are to come.
    pub(crate) fn outstanding(&self) -> usize {
        self.expected.len()
    }

    /// The engine has executed these commands in one call, which has written what `wrote` says.
    /// `is_strict`: the client was promised that it sees nothing that may vanish.
    pub(crate) fn executed(
        &mut self,
        ops: &[Op],
        wrote: Wrote,
        tap: &Tap,
        is_strict: bool,
        keeps_texts: bool,
    ) {
        let is_single = ops.len() == 1;
        for (at, op) in ops.iter().enumerate() {
            let is_last = at + 1 == ops.len();
            let mut expected = Expected {
                kind: op.kind,
                need: Lsn::ZERO,
                need_if_nil: Lsn::ZERO,
                wrote: is_last && wrote.lsn.is_some(),
                is_strict,
                swaps_by_script: false,
                written: self.last_write,
                asked: Asked::of(&op.args).filter(|_| op.kind == Kind::Backup),
                text: if keeps_texts { op.text() } else { String::new() },
            };
            if let Some(lsn) = wrote.lsn.filter(|_| is_last) {
                expected.need = lsn;
                self.last_write = lsn;
            } else if is_single && !self.in_multi {
                let shown = op.shows.iter().map(|key| tap.depends_on(self.db, key));
                expected.need = shown.max().unwrap_or(Lsn::ZERO);
            }
            self.follow(op, &mut expected, tap);
            self.expected.push_back(expected);
        }
    }

    /// Keeps track of transactions and of the selected database.
    fn follow(&mut self, op: &Op, expected: &mut Expected, tap: &Tap) {
        let depend = |names: &[Name]| {
            let lsns = names.iter().map(|(db, key)| tap.depends_on(*db, key));
            lsns.max().unwrap_or(Lsn::ZERO)
        };
        match op.kind {
            Kind::Multi => self.in_multi = true,
            Kind::Exec | Kind::Discard if self.in_multi => {
                if op.kind == Kind::Exec {
                    expected.need = expected.need.max(depend(&self.multi_shows));
                    expected.need_if_nil = depend(&self.watched);
                }
                self.in_multi = false;
                expected.swaps_by_script = std::mem::take(&mut self.multi_swaps);
                self.multi_seals = false;
                self.multi_shows.clear();
                self.watched.clear();
            }
            _ if self.in_multi => {
                let db = self.db;
                self.multi_swaps |= op.args[1..].iter().any(|arg| arg == b"SWAPDB");
                self.multi_seals |= matches!(op.args[0].as_slice(), b"BGREWRITEAOF" | b"BGSAVE");
                let shown = op.shows.iter().map(|key| (db, Box::from(key.as_slice())));
                self.multi_shows.extend(shown);
            }
            Kind::Watch => {
                let db = self.db;
                let watched = op.shows.iter().map(|key| (db, Box::from(key.as_slice())));
                self.watched.extend(watched);
                // That a key is watched says nothing of it.
                expected.need = Lsn::ZERO;
            }
            Kind::Select(db) => self.db = db,
            Kind::Durability(level) => self.durability = level,
            _ => {}
        }
    }

    /// It has waited and does so no more: the call that ended it has written what `wrote` says.
    pub(crate) fn unblocked(&mut self, wrote: Wrote, is_strict: bool) {
        self.is_blocked = false;
        if let Some(expected) = self.expected.back_mut()
            && expected.kind == Kind::Blocking
        {
            expected.is_strict = is_strict;
            if let Some(lsn) = wrote.lsn {
                expected.need = lsn;
                expected.need_if_nil = Lsn::ZERO;
                expected.wrote = true;
            }
        }
    }

    /// Bytes have arrived: the replies in them, and what they promise.
    ///
    /// # Errors
    /// When they are no replies, or none is expected.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Told>, String> {
        self.incoming.extend_from_slice(bytes);
        let (mut told, mut at) = (Vec::new(), 0);
        while at < self.incoming.len() {
            let Some((reply, len)) = Reply::parse(&self.incoming[at..])? else { break };
            at += len;
            let Some(expected) = self.expected.pop_front() else {
                return Err(format!("client {}: nobody has asked for {reply:?}", self.number));
            };
            let is_prepared = expected.kind == Kind::Exec && !expected.swaps_by_script;
            if is_prepared && reply.has_unreadable_key() {
                let text = &expected.text;
                return Err(format!("HALF: some of a transaction was executed, {text}: {reply:?}"));
            }
            let shown = needed(&expected, &reply);
            let is_told_durable = matches!(expected.kind, Kind::WaitAof | Kind::Backup);
            let is_promise = expected.is_strict || is_told_durable;
            let need = if is_promise { shown } else { Lsn::ZERO };
            let is_served = !reply.is_nil() && !reply.is_error();
            if expected.kind == Kind::Blocking && expected.wrote && is_served {
                // Neither was its time up nor the key of another type: the call that ended the wait
                // has written for it.
                self.last_write = self.last_write.max(expected.need);
            }
            let what = format!("client {} read {reply:?} to {}", self.number, expected.text);
            told.push(Told { need, shown, what, reply, asked: expected.asked });
        }
        self.incoming.drain(..at);
        Ok(told)
    }
}

/// The block that what this reply says depends on.
fn needed(expected: &Expected, reply: &Reply) -> Lsn {
    if expected.kind == Kind::WaitAof {
        let is_durable = *reply == Reply::Array(Some(vec![Reply::Int(1), Reply::Int(0)]));
        return if is_durable { expected.written } else { Lsn::ZERO };
    }
    if reply.is_error() {
        return Lsn::ZERO;
    }
    match (expected.kind, reply) {
        (Kind::Exec, reply) if reply.is_nil() => expected.need_if_nil,
        (Kind::Exec, Reply::Array(Some(replies))) => {
            let is_telling = expected.wrote || !replies.iter().any(Reply::is_error);
            if is_telling { expected.need } else { Lsn::ZERO }
        }
        // The time was up: what others wrote meanwhile is not in it.
        (Kind::Blocking, reply) if reply.is_nil() => Lsn::ZERO,
        _ => expected.need,
    }
}

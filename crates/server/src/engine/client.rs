//! One connected client: what it has sent, what it waits for, what it is to be sent.

use std::collections::BTreeSet;

use base::{DbIndex, Lsn};
use command::table::Command;
use keyspace::effects::DbKey;
use resp::{Limits, Parser, Protocol};

use super::access::Identity;
use super::blocking::Wait;
use super::fetch_budget::RequestId;
use super::output::Output;
use super::pubsub::Subscriptions;
use super::tracking::{Mode, Tracker};
use super::transaction::Transaction;
use crate::config::FsyncPolicy;

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// `127.0.0.1:50000`, or the path of the unix socket and `:0`.
    pub address: String,
    /// Our end.
    pub local_address: String,
    /// Whether it is on this machine.
    pub is_loopback: bool,
    /// Whether it came through the unix socket.
    pub is_unix_socket: bool,
    /// Whether it came to the TLS port.
    pub is_tls: bool,
    /// The number of the socket, for CLIENT LIST.
    pub socket: i32,
}

/// Whether the connection has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Opening {
    /// It has.
    #[default]
    Done,
    /// Its TLS handshake is not done.
    Handshake,
}

/// Whether the connection is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closing {
    /// It is not.
    #[default]
    No,
    /// When everything has been sent.
    AfterReply,
    /// At once.
    Now,
}

/// What a client wants of SYNC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WantedDump {
    /// It wants a dump and no more.
    pub(crate) is_only: bool,
    pub(crate) part: DumpPart,
}

/// What of the data a dump has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DumpPart {
    /// All of it.
    #[default]
    All,
    /// The libraries of functions.
    Libraries,
    /// None of it.
    Nothing,
}

/// Whether commands are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    /// They are.
    #[default]
    On,
    /// None is, until CLIENT REPLY ON.
    Off,
    /// The next one is not.
    SkipNext,
    /// This one is not.
    Skip,
}

/// See the file's top.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) connection: Connection,
    pub(crate) session: Session,
}

/// What the socket needs: the bytes that come and go, and whether it is to be closed.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    pub(crate) parser: Parser,
    /// What the client has sent and the engine has not executed.
    pub(crate) input: Vec<u8>,
    /// How many bytes are being looked at; they lie elsewhere meanwhile.
    pub(crate) in_process_bytes: usize,
    pub(crate) output: Output,
    /// Whether the engine has put it on the list of those to look at.
    pub(crate) is_noted: bool,
    pub(crate) opening: Opening,
    pub(crate) closing: Closing,
    pub(crate) connected_us: u64,
    pub(crate) active_us: u64,
    /// Since when its output is above the soft limit.
    pub(crate) soft_limit_since_us: Option<u64>,
    /// CLIENT NO-EVICT.
    pub(crate) is_exempt_from_eviction: bool,
}

/// What execution needs: what the client has said of itself, and what its commands have left.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) name: Vec<u8>,
    /// What CLIENT SETINFO told of the library at the other end.
    pub(crate) library_name: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
    pub(crate) db: DbIndex,
    pub(crate) identity: Identity,
    pub(crate) reply_mode: ReplyMode,
    pub(crate) transaction: Option<Box<Transaction>>,
    pub(crate) watched: BTreeSet<DbKey>,
    /// The memory that these take.
    pub(crate) watched_bytes: usize,
    /// A watched key has changed: EXEC will execute nothing.
    pub(crate) is_watch_dirty: bool,
    pub(crate) wait: Option<Box<Wait>>,
    /// Its next request waits for its keys, or has.
    pub(crate) fetched: Option<RequestId>,
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    /// How it tracks, if it does.
    pub(crate) tracking: Option<Box<Tracker>>,
    /// The user that it monitors as, if it does.
    pub(crate) monitor: Option<Identity>,
    /// Its commands are no use of the keys that they read (CLIENT NO-TOUCH).
    pub(crate) is_no_touch: bool,
    /// What CLIENT DURABILITY has set, in place of the server's policy.
    pub(crate) durability: Option<FsyncPolicy>,
    /// What it wants of SYNC: REPLCONF rdb-only and rdb-filter-only.
    pub(crate) wanted_dump: WantedDump,
    /// The last block that it knows by LOGTAIL, if it has ever asked.
    pub(crate) tailed: Option<Lsn>,
    /// The block of its latest write, for WAITAOF.
    pub(crate) last_write: Lsn,
    pub(crate) last_command: Option<Command>,
}

impl Client {
    /// The classes that output limits distinguish.
    pub(crate) fn output_class(&self) -> usize {
        if self.session.monitor.is_some() {
            1
        } else if self.is_subscribed() {
            2
        } else {
            0
        }
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.session.subscriptions.is_some()
    }

    /// Whether it may only subscribe, unsubscribe and little else.
    pub(crate) fn is_in_pubsub_context(&self) -> bool {
        self.is_subscribed() && self.connection.output.protocol() == Protocol::Resp2
    }

    /// Whether its next request may be executed now.
    pub(crate) fn may_execute(&self) -> bool {
        self.session.wait.is_none() && self.connection.closing == Closing::No
    }

    /// What its requests may be.
    pub(crate) fn limits(&self, bulk_bytes_max: u64) -> Limits {
        Limits { bulk_bytes_max, authenticated: !self.session.is_stranger() }
    }

    /// The memory it takes, its output included.
    pub(crate) fn memory_bytes(&self) -> usize {
        let queued =
            self.session.transaction.as_ref().map_or(0, |transaction| transaction.memory_bytes());
        let waiting = self.session.wait.as_ref().map_or(0, |wait| wait.memory_bytes());
        let names = self.session.subscriptions.as_ref().map_or(0, |names| names.memory_bytes());
        let input = self.connection.input.capacity() + self.connection.parser.memory_bytes();
        let told = self.session.name.capacity()
            + self.session.library_name.capacity()
            + self.session.library_version.capacity();
        let tracked = self.session.tracking.as_ref().map_or(0, |tracker| tracker.memory_bytes());
        let kept = queued + tracked + waiting + names + self.session.watched_bytes + told;
        size_of::<Self>() + input + self.connection.output.memory_bytes() + kept
    }

    /// The letters of CLIENT LIST.
    pub(crate) fn flags(&self) -> String {
        let tracker = self.session.tracking.as_deref();
        let letters = [
            (self.session.monitor.is_some(), 'O'),
            (self.is_subscribed(), 'P'),
            (self.session.transaction.is_some(), 'x'),
            (self.session.wait.as_ref().is_some_and(|wait| wait.is_blocking()), 'b'),
            (tracker.is_some(), 't'),
            (tracker.is_some_and(|tracker| tracker.is_broken), 'R'),
            (tracker.is_some_and(|tracker| tracker.mode == Mode::Broadcast), 'B'),
            (self.session.is_watch_dirty, 'd'),
            (self.connection.closing == Closing::AfterReply, 'c'),
            (self.connection.closing == Closing::Now, 'A'),
            (self.connection.peer.is_unix_socket, 'U'),
            (self.connection.is_exempt_from_eviction, 'e'),
            (self.session.is_no_touch, 'T'),
        ];
        let flags: String =
            letters.into_iter().filter_map(|(is_set, letter)| is_set.then_some(letter)).collect();
        if flags.is_empty() { "N".to_owned() } else { flags }
    }
}

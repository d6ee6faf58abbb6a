//! A client of the command handlers, without a server: a keyspace that logs nothing, a clock that
//! stands still unless told, and one command after the other.

use base::DbIndex;
use command::context::{Again, Blocking, Context};
use command::{handlers, table};
use keyspace::{Keyspace, NoJournal, Notify};
use resp::{Protocol, Writer};

/// The time at which every session starts, in Unix milliseconds.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// See the file's top.
pub(crate) struct Session {
    pub(crate) keyspace: Keyspace<NoJournal>,
    pub(crate) db: DbIndex,
    pub(crate) now_ms: i64,
    pub(crate) protocol: Protocol,
    /// What the last command waits for; it has no reply then.
    pub(crate) blocking: Option<Blocking>,
    /// The key that [`Session::run_blocked`] says is there.
    ready: Option<Vec<u8>>,
    may_block: bool,
    /// Whether a command that reads may store what it has found out.
    pub(crate) may_store: bool,
}

impl Session {
    /// Sixteen empty databases, all notifications on.
    pub(crate) fn new() -> Self {
        let mut keyspace = Keyspace::new(NoJournal, [7; 16], 16);
        keyspace.settings_mut().notify = Notify::parse("KEAn").expect("known letters");
        Self {
            keyspace,
            db: DbIndex::FIRST,
            now_ms: START_MS,
            protocol: Protocol::Resp2,
            blocking: None,
            ready: None,
            may_block: false,
            may_store: true,
        }
    }

    /// The reply to a command, as bytes without `\r` and with spaces for `\n`; an error is
    /// its line with a `-` in front. Arguments are separated by spaces.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run_arguments(&arguments)
    }

    /// [`Session::run`] for arguments that have spaces.
    pub(crate) fn run_arguments(&mut self, arguments: &[&[u8]]) -> String {
        let reply = String::from_utf8_lossy(&self.run_raw(arguments)).replace('\r', "");
        reply.strip_suffix('\n').unwrap_or(&reply).replace('\n', " ")
    }

    /// The reply as it is.
    pub(crate) fn run_raw(&mut self, arguments: &[&[u8]]) -> Vec<u8> {
        let command = match table::resolve(arguments) {
            Ok(command) => command,
            Err(error) => return format!("-ERR {error}\r\n").into_bytes(),
        };
        assert!(command.accepts(arguments.len()), "wrong number of arguments: {arguments:?}");
        let Some(handler) = handlers::of(command) else { panic!("{} is no handler", command.name) };
        let mut reply = Writer::new(self.protocol);
        self.keyspace.begin_command(self.now_ms);
        let mut context = Context {
            keyspace: &mut self.keyspace,
            db: self.db,
            reply: &mut reply,
            string_bytes_max: 512 << 20,
            payload_readers: rdb::Version::Redis(rdb::VERSION),
            may_block: self.may_block,
            in_script: false,
            may_store: self.may_store,
            may_read_all_keys: true,
            again: self.ready.as_deref().map(Again::Ready),
            blocking: None,
        };
        let done = handler(&mut context, arguments);
        self.blocking = context.blocking;
        if let Err(error) = done {
            reply.error(&error.to_string());
        }
        reply.take()
    }

    /// [`Session::run`] of a client that may wait; `ready` is the key whose creation woke it.
    pub(crate) fn run_blocked(&mut self, line: &str, ready: Option<&str>) -> String {
        (self.may_block, self.ready) = (true, ready.map(|key| key.as_bytes().to_vec()));
        let reply = self.run(line);
        (self.may_block, self.ready) = (false, None);
        reply
    }

    /// The notifications since the last call, as `event key`, those of new keys left out.
    pub(crate) fn events(&mut self) -> Vec<String> {
        let events = self.keyspace.take_effects().events;
        let told = events.iter().filter(|event| event.name != "new");
        told.map(|event| format!("{} {}", event.name, String::from_utf8_lossy(&event.key)))
            .collect()
    }
}

/// Runs commands, and compares the reply to each with what [`Session::run`] is to make of it.
#[track_caller]
pub(crate) fn replies(session: &mut Session, calls: &[(&str, &str)]) {
    for (line, reply) in calls {
        assert_eq!(session.run(line), *reply, "{line}");
    }
}

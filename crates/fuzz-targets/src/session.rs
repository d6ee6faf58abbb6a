//! Commands on a keyspace without a server, which logs into a vector.

use std::sync::{Arc, Mutex, PoisonError};

use base::{DbIndex, Lsn, Record, RecordAddr, SegmentId};
use command::context::Context;
use command::{handlers, table};
use keyspace::{Journal, Keyspace, NoJournal};
use resp::{Protocol, Writer};

const DATABASES: usize = 16;

/// The time at which every session starts, in Unix milliseconds.
const START_MS: i64 = 1_700_000_000_000;

/// What was logged, as bytes.
#[derive(Clone, Default)]
pub(crate) struct Logged(Arc<Mutex<Vec<Vec<u8>>>>);

impl Logged {
    pub(crate) fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The address of the n-th record.
pub(crate) fn address(number: usize) -> RecordAddr {
    RecordAddr::new(SegmentId(1), u32::try_from(number).expect("inputs are small"))
}

impl Journal for Logged {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        let mut bytes = Vec::new();
        redo::record::encode(&mut bytes, record);
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logged.push(bytes);
        Some(address(logged.len() - 1))
    }

    fn retire(&mut self, _addr: RecordAddr) {}

    fn open_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn last_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn undurable_lsn_of(&self, _addr: RecordAddr) -> Option<Lsn> {
        None
    }
}

/// A client with an empty or a recovered keyspace.
pub(crate) struct Session {
    pub(crate) keyspace: Keyspace<Logged>,
    pub(crate) db: DbIndex,
    pub(crate) now_ms: i64,
}

/// A key as clients see it: database, name, value, encoding, when it expires.
pub(crate) type Seen = (DbIndex, Vec<u8>, rdb::Value, Vec<u8>, Vec<u8>);

impl Session {
    /// An empty keyspace, and what will be logged.
    pub(crate) fn new() -> (Self, Logged) {
        let logged = Logged::default();
        let keyspace = Keyspace::new(logged.clone(), [7; 16], DATABASES);
        (Self { keyspace, db: DbIndex::FIRST, now_ms: START_MS }, logged)
    }

    /// The keyspace of these records; `None` when one of them makes no sense.
    pub(crate) fn of_records<'a>(records: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut keyspace = Keyspace::new(NoJournal, [7; 16], DATABASES);
        let mut retired = Vec::new();
        for (number, mut bytes) in records.enumerate() {
            let record = redo::record::decode(&mut bytes).ok()?;
            keyspace.apply(&record, address(number), Lsn(1), &mut retired).ok()?;
        }
        keyspace.settle(&mut retired).ok()?;
        let keyspace = keyspace.with_journal(Logged::default());
        Some(Self { keyspace, db: DbIndex::FIRST, now_ms: START_MS })
    }

    /// The reply to a command.
    pub(crate) fn run(&mut self, arguments: &[&[u8]]) -> Vec<u8> {
        self.try_run(arguments).expect("the targets know their commands")
    }

    /// The reply to a command, if it is one that needs nothing but a keyspace.
    pub(crate) fn try_run(&mut self, arguments: &[&[u8]]) -> Option<Vec<u8>> {
        let command = table::resolve(arguments).ok()?;
        let handler = handlers::of(command)?;
        if !command.accepts(arguments.len()) {
            return None;
        }
        let mut reply = Writer::new(Protocol::Resp2);
        self.keyspace.begin_command(self.now_ms);
        let mut context = Context {
            keyspace: &mut self.keyspace,
            db: self.db,
            reply: &mut reply,
            string_bytes_max: 64 << 10,
            payload_readers: rdb::Version::Redis(rdb::VERSION),
            may_block: false,
            in_script: false,
            may_store: true,
            may_read_all_keys: true,
            again: None,
            blocking: None,
        };
        if let Err(error) = handler(&mut context, arguments) {
            reply.error(&error.to_string());
        }
        let _what_it_depends_on = self.keyspace.end_command();
        let _what_others_are_told = self.keyspace.take_effects();
        Some(reply.take())
    }

    /// All that is there.
    pub(crate) fn contents(&mut self) -> Vec<Seen> {
        let mut contents = Vec::new();
        for db in self.keyspace.databases() {
            self.db = db;
            let mut keys = Vec::new();
            self.keyspace.begin_command(self.now_ms);
            self.keyspace.for_each_key(db, None, |key, _| keys.push(key.to_vec()));
            keys.sort();
            for key in keys {
                let payload = self.dump(&key).expect("it was listed");
                let value =
                    rdb::decode(&payload, rdb::Limits::default()).expect("it was just encoded");
                // What is a string's is not logged: it follows from the bytes, as after a restart of Redis.
                let is_string = matches!(value, rdb::Value::String(_));
                let encoding =
                    if is_string { Vec::new() } else { self.run(&[b"OBJECT", b"ENCODING", &key]) };
                let expires_at = self.run(&[b"PEXPIRETIME", &key]);
                contents.push((db, key, without_order(value), encoding, expires_at));
            }
        }
        self.db = DbIndex::FIRST;
        contents
    }

    /// The payload of a key.
    pub(crate) fn dump(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        bulk(&self.run(&[b"DUMP", key])).map(<[u8]>::to_vec)
    }
}

/// The bytes of a bulk string.
fn bulk(reply: &[u8]) -> Option<&[u8]> {
    let head = reply.iter().position(|byte| *byte == b'\n')?;
    if reply.first() != Some(&b'$') || reply.get(1) == Some(&b'-') {
        return None;
    }
    reply[head + 1..].strip_suffix(b"\r\n")
}

/// Sets and hashes have no order.
pub(crate) fn without_order(mut value: rdb::Value) -> rdb::Value {
    match &mut value {
        rdb::Value::Set(members) => members.sort(),
        rdb::Value::Hash(fields) => fields.sort(),
        rdb::Value::ZSet(members) => members.sort_by(|a, b| a.0.cmp(&b.0)),
        rdb::Value::Stream(stream) => {
            stream.groups.sort_by(|a, b| a.name.cmp(&b.name));
            for group in &mut stream.groups {
                group.consumers.sort_by(|a, b| a.name.cmp(&b.name));
                // What a payload need not say: it is estimated, or taken for the time at which the consumer was seen.
                group.entries_read = rdb::EntriesRead::Unsaid;
                for consumer in &mut group.consumers {
                    consumer.active_ms = None;
                }
            }
        }
        rdb::Value::String(_) | rdb::Value::List(_) => {}
    }
    value
}

//! Commands on a keyspace without a server, which logs into a vector.

use std::sync::{Arc, Mutex, PoisonError};

use base::{Lsn, Record, RecordAddr, SegmentId};
use command::context::Context;
use command::spec::Action;
use command::table;
use keyspace::{Journal, Keyspace, Replay};
use resp::{Protocol, Writer};

const DATABASES: usize = 16;

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
    pub(crate) keyspace: Keyspace,
    pub(crate) db: usize,
}

impl Session {
    /// An empty keyspace, and what will be logged.
    pub(crate) fn new() -> (Self, Logged) {
        let logged = Logged::default();
        let keyspace = Keyspace::new(Box::new(logged.clone()), [7; 16], DATABASES);
        (Self { keyspace, db: 0 }, logged)
    }

    /// The keyspace of these records; `None` when one of them makes no sense.
    pub(crate) fn replayed<'a>(records: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut replay = Replay::new(Self::new().0.keyspace);
        let mut retired = Vec::new();
        for (number, mut bytes) in records.enumerate() {
            let record = redo::record::decode(&mut bytes).ok()?;
            replay.apply(&record, address(number), &mut retired).ok()?;
        }
        let keyspace = replay.finish(&mut retired);
        Some(Self { keyspace, db: 0 })
    }

    /// The reply to a command.
    pub(crate) fn run(&mut self, arguments: &[&[u8]]) -> Vec<u8> {
        let command = table::resolve(arguments).expect("the targets know their commands");
        let Action::Data(handler) = command.action else {
            panic!("{} is no handler", command.name)
        };
        let mut reply = Writer::new(Protocol::Resp2);
        self.keyspace.begin_command(1_700_000_000_000);
        let mut context = Context {
            keyspace: &mut self.keyspace,
            db: self.db,
            reply: &mut reply,
            string_bytes_max: 1 << 20,
            may_block: false,
            ready: None,
            blocking: None,
        };
        if let Err(error) = handler(&mut context, arguments) {
            reply.error(&error.to_string());
        }
        reply.take()
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

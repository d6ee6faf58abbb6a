//! memtier's load: keys, values, the order of the fill, and clients that each wait for their reply.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt::Write as _;

use base::{DbIndex, Lsn};
use keyspace::{Expiry, Keyspace, StringRef};

use super::journal::Durable;
use super::ledger::Ledger;
use crate::error::{Error, Result};
use crate::histogram::Histogram;

/// The size of a value: memtier's default.
const VALUE_BYTES: usize = 32;

/// Which requests the clients make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// GET only.
    Ro,
    /// GET and SET, 5:5.
    Rw,
    /// SET only.
    Wo,
}

/// Writes the key with this number to `key`.
pub(super) fn write_key(key: &mut String, number: u64) {
    key.clear();
    write!(key, "memtier-{number}").expect("a string takes everything");
}

/// The value that `version` gives to the key with this number.
pub(super) fn value(number: u64, version: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    for (digits, word) in value.chunks_exact_mut(16).zip([number, version]) {
        for (at, digit) in digits.iter_mut().rev().enumerate() {
            let low = (word >> (4 * at)).to_le_bytes()[0] & 15;
            *digit = b"0123456789abcdef"[usize::from(low)];
        }
    }
    value
}

/// The order in which a database is filled: every key once in each round, shuffled.
pub(super) struct FillOrder {
    keys: Vec<u64>,
    at: usize,
    version: u64,
    left: u64,
    random: fastrand::Rng,
}

impl FillOrder {
    pub(super) fn new(keys: u64, records_per_key: u64) -> Self {
        let random = fastrand::Rng::with_seed(1);
        Self { keys: (0..keys).collect(), at: 0, version: 0, left: keys * records_per_key, random }
    }
}

impl Iterator for FillOrder {
    /// A key's number, and the version of its value.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        if self.at == 0 {
            self.random.shuffle(&mut self.keys);
        }
        let key = self.keys[self.at];
        self.at = (self.at + 1) % self.keys.len();
        self.version += 1;
        Some((key, self.version))
    }
}

/// A request of a client, and what its reply waits for.
struct Pending {
    client: usize,
    lsn: Lsn,
}

/// How many clients there are, and what each does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub(super) workload: Workload,
    pub(super) clients: usize,
    /// Of each client.
    pub(super) requests: u64,
    /// The time between two requests of a client; 0: the next one follows the reply.
    pub(super) interval_ns: u64,
}

/// Clients in one thread. Each makes its next request when it has the reply to the one before, or
/// when it is due: one that is late counts from when it was due.
pub(super) struct Clients {
    demand: Demand,
    keys: u64,
    random: fastrand::Rng,
    /// Of each client, how many requests it has not begun.
    left: Vec<u64>,
    /// Of each client, when its request was made or due, in nanoseconds since the exec.
    made_ns: Vec<u64>,
    ready: Vec<usize>,
    /// Clients by when their next request is due.
    idle: BinaryHeap<Reverse<(u64, usize)>>,
    pending: Vec<Pending>,
    version: u64,
    ledger: Option<Ledger>,
    key: String,
}

impl Clients {
    /// `first_version` is larger than all versions that were written before. The first requests of the
    /// clients are made when the process is started, or spread over the first interval.
    pub(super) fn new(
        demand: Demand,
        keys: u64,
        first_version: u64,
        ledger: Option<Ledger>,
    ) -> Self {
        let Demand { clients, requests, interval_ns, .. } = demand;
        let first_ns = |client: usize| interval_ns * client as u64 / clients as u64;
        let made_ns: Vec<u64> = (0..clients).map(first_ns).collect();
        let begins = made_ns.iter().copied().zip(0..).map(Reverse);
        Self {
            demand,
            keys,
            random: fastrand::Rng::with_seed(first_version),
            left: vec![requests; clients],
            idle: if requests == 0 { BinaryHeap::new() } else { begins.collect() },
            made_ns,
            ready: Vec::new(),
            pending: Vec::new(),
            version: first_version,
            ledger,
            key: String::new(),
        }
    }

    /// Executes a request of each client that waits for no reply, and whose request is due.
    pub(super) fn execute(
        &mut self,
        keyspace: &mut Keyspace<Box<dyn Durable>>,
        now_ns: u64,
        now_ms: i64,
    ) -> Result<()> {
        while let Some(&Reverse((due_ns, client))) = self.idle.peek()
            && due_ns <= now_ns
        {
            self.idle.pop();
            self.ready.push(client);
        }
        for client in std::mem::take(&mut self.ready) {
            let number = self.random.u64(..self.keys);
            write_key(&mut self.key, number);
            let is_write = match self.demand.workload {
                Workload::Ro => false,
                Workload::Rw => self.random.bool(),
                Workload::Wo => true,
            };
            keyspace.begin_command(now_ms);
            if is_write {
                self.version += 1;
                let value = value(number, self.version);
                keyspace.set_string(DbIndex::FIRST, self.key.as_bytes(), &value, Expiry::Clear);
            } else {
                check(keyspace, number, &self.key)?;
            }
            if let Some(error) = keyspace.take_restore_failure() {
                return Err(Error::damaged(error.to_string()));
            }
            let (lsn, _) = keyspace.end_command();
            if let Some(ledger) = self.ledger.as_mut().filter(|_| is_write) {
                ledger.note(lsn, number, self.version);
            }
            self.pending.push(Pending { client, lsn });
        }
        // What may become durable from here on must be in the ledger.
        self.ledger.as_mut().map_or(Ok(()), Ledger::write)
    }

    /// Gives out the replies that wait for nothing any more.
    pub(super) fn reply(
        &mut self,
        durable: Lsn,
        now_ns: u64,
        latencies: &mut Histogram,
    ) -> Result<()> {
        if let Some(ledger) = &mut self.ledger {
            ledger.acknowledge(durable)?;
        }
        let Self { demand, pending, ready, idle, left, made_ns, .. } = self;
        pending.retain(|Pending { client, lsn }| {
            let waits = *lsn > durable;
            if !waits {
                latencies.add(now_ns - made_ns[*client]);
                left[*client] -= 1;
                let due_ns = match demand.interval_ns {
                    0 => now_ns,
                    interval_ns => made_ns[*client] + interval_ns,
                };
                made_ns[*client] = due_ns;
                match left[*client] {
                    0 => {}
                    _ if due_ns <= now_ns => ready.push(*client),
                    _ => idle.push(Reverse((due_ns, *client))),
                }
            }
            waits
        });
        Ok(())
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether every client has every reply.
    pub(super) fn are_done(&self) -> bool {
        self.ready.is_empty() && self.idle.is_empty() && self.pending.is_empty()
    }
}

/// Reads a key, and checks that its value is one of its own.
fn check(keyspace: &mut Keyspace, number: u64, key: &str) -> Result<()> {
    let own = value(number, 0);
    match keyspace.string(DbIndex::FIRST, key.as_bytes()) {
        Ok(Some(StringRef::Bytes(bytes))) if bytes.starts_with(&own[..16]) => Ok(()),
        other => Err(Error::damaged(format!("{key} is {other:?}"))),
    }
}

/// What the fill leaves: the version of each key's value.
pub(super) fn filled(keys: u64, records_per_key: u64) -> HashMap<u64, u64> {
    FillOrder::new(keys, records_per_key).collect()
}

#[cfg(test)]
mod tests {
    use base::{Record, RecordAddr};
    use keyspace::Journal;

    use super::*;

    /// What is written is durable at once.
    struct Nowhere;

    impl Journal for Nowhere {
        fn append(&mut self, _record: &Record<'_>) -> Option<RecordAddr> {
            None
        }

        fn retire(&mut self, _addr: RecordAddr) {}

        fn open_lsn(&self) -> Lsn {
            Lsn::ZERO
        }

        fn last_lsn(&self) -> Lsn {
            Lsn::ZERO
        }

        fn durable_lsn(&self) -> Lsn {
            Lsn::MAX
        }

        fn undurable_lsn_of(&self, _addr: RecordAddr) -> Option<Lsn> {
            None
        }
    }

    impl Durable for Nowhere {
        fn seal(&mut self) -> Result<()> {
            Ok(())
        }

        fn poll(&mut self) -> Lsn {
            Lsn::MAX
        }
    }

    #[test]
    fn a_late_request_counts_from_when_it_was_due() {
        let journal: Box<dyn Durable> = Box::new(Nowhere);
        let mut keyspace = Keyspace::new(journal, [1; 16], 1);
        let demand = Demand { workload: Workload::Wo, clients: 2, requests: 3, interval_ns: 10 };
        let mut clients = Clients::new(demand, 100, 1, None);
        let mut latencies = Histogram::new();
        // The clients' requests are due at 0, 10, 20 and at 5, 15, 25.
        let mut at = |now_ns| {
            clients.execute(&mut keyspace, now_ns, 0).unwrap();
            clients.reply(Lsn::MAX, now_ns, &mut latencies).unwrap();
            (latencies.total(), latencies.max(), clients.are_done())
        };
        assert_eq!(at(0), (1, 0, false));
        assert_eq!(at(4), (1, 0, false));
        assert_eq!(at(17), (3, 12, false));
        assert_eq!(at(17), (4, 12, false), "what was due while it waited follows at once");
        assert_eq!(at(100), (6, 80, true));
    }

    #[test]
    fn the_fill_writes_every_key_equally_often() {
        let mut counts = [0; 7];
        let mut last = 0;
        for (key, version) in FillOrder::new(7, 5) {
            counts[usize::try_from(key).unwrap()] += 1;
            assert_eq!(version, last + 1);
            last = version;
        }
        assert_eq!(counts, [5; 7]);
        assert_eq!(filled(7, 5).len(), 7);
    }

    #[test]
    fn a_value_tells_its_key_and_its_version() {
        assert_eq!(&value(0xbeef, 26), b"000000000000beef000000000000001a");
    }
}

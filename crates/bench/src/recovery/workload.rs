//! memtier's load: keys, values, the order of the fill, and clients that each wait for their reply.

use std::collections::HashMap;
use std::fmt::Write as _;

use base::{DbIndex, Lsn};
use keyspace::{Expiry, Keyspace, StringRef};

use super::histogram::Histogram;
use super::journal::Durable;
use super::ledger::Ledger;
use crate::error::{Error, Result};

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

/// Clients in one thread. Each makes its next request when it has the reply to the one before.
pub(super) struct Clients {
    workload: Workload,
    keys: u64,
    random: fastrand::Rng,
    /// Of each client, how many requests it has not begun.
    left: Vec<u64>,
    /// Of each client, when its running request was made, in nanoseconds since the exec.
    made_ns: Vec<u64>,
    ready: Vec<usize>,
    pending: Vec<Pending>,
    version: u64,
    ledger: Option<Ledger>,
    key: String,
}

impl Clients {
    /// `first_version` is larger than all versions that were written before. The first request of each
    /// client was made when the process was started.
    pub(super) fn new(
        workload: Workload,
        keys: u64,
        clients: usize,
        requests: u64,
        first_version: u64,
        ledger: Option<Ledger>,
    ) -> Self {
        Self {
            workload,
            keys,
            random: fastrand::Rng::with_seed(first_version),
            left: vec![requests; clients],
            made_ns: vec![0; clients],
            ready: if requests == 0 { Vec::new() } else { (0..clients).collect() },
            pending: Vec::new(),
            version: first_version,
            ledger,
            key: String::new(),
        }
    }

    /// Executes a request of each client that waits for no reply.
    pub(super) fn execute(
        &mut self,
        keyspace: &mut Keyspace<Box<dyn Durable>>,
        now_ms: i64,
    ) -> Result<()> {
        for client in std::mem::take(&mut self.ready) {
            let number = self.random.u64(..self.keys);
            write_key(&mut self.key, number);
            let is_write = match self.workload {
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
        let Self { pending, ready, left, made_ns, .. } = self;
        pending.retain(|Pending { client, lsn }| {
            let waits = *lsn > durable;
            if !waits {
                latencies.add(now_ns - made_ns[*client]);
                made_ns[*client] = now_ns;
                left[*client] -= 1;
                if left[*client] > 0 {
                    ready.push(*client);
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
        self.ready.is_empty() && self.pending.is_empty()
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
    use super::*;

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

//! Writes the requests of operations, and judges and counts their replies.
//!
//! ```text
//!   Read              GET | HGETALL
//!   Update            SET | HSET
//!   Insert            SET | HSET       ─► ZADD
//!   Scan              ZRANGEBYSCORE    ─► GET | HGETALL ─► GET | HGETALL ─► …
//!   ReadModifyWrite   GET | HGETALL    ─► SET | HSET
//! ```
//!
//! An operation has one request under way, as in YCSB's binding for Redis; what follows is written when its
//! reply is there. Its latency is that of the whole.

use std::collections::HashSet;

use super::connection::{Purpose, Request};
use super::keys::Keys;
use super::ledger::{Comparison, Ledger};
use super::meter::{Answer, Meter};
use super::records::{self, Found, Records};
use super::reply::Reply;

/// The records of a scan: 1 to so many.
const SCAN_MAX: u64 = 100;

/// What a reply was to the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The server is loading.
    Loading,
    /// The operation is over.
    Over,
    /// The operation goes on with this request, which is written.
    GoesOn(Request),
}

/// How an operation goes on.
enum Step {
    Next(u64, Purpose),
    Over(Answer),
}

/// See the file's top.
pub(super) struct Books {
    pub(super) records: Records,
    /// Whether there is an index of all records.
    pub(super) has_index: bool,
    pub(super) ledger: Option<Ledger>,
    pub(super) keys: Keys,
    /// The keys that are asked for most often.
    pub(super) popular: HashSet<u64>,
    pub(super) meter: Meter,
    /// Of the task `check`.
    pub(super) comparison: Option<Comparison>,
    /// Whether records are written for the first time.
    pub(super) is_fill: bool,
    /// The version of the last write without a ledger.
    pub(super) version: u32,
    /// Which field is updated, and how many records are scanned.
    pub(super) random: fastrand::Rng,
}

impl Books {
    /// Writes a request, and returns it.
    pub(super) fn write(
        &mut self,
        key: u64,
        purpose: Purpose,
        due_ns: u64,
        out: &mut Vec<u8>,
    ) -> Request {
        match purpose {
            Purpose::Probe | Purpose::Read(_) | Purpose::ReadToModify | Purpose::ScanRecord(_) => {
                self.records.read(out, key)
            }
            Purpose::Write(version) if self.is_fill => self.records.create(out, key, version),
            Purpose::Write(version) => {
                let any = self.random.usize(..);
                self.records.update(out, key, version, any);
            }
            Purpose::Modify => {
                let (version, any) = (self.next_version(), self.random.usize(..));
                self.records.update(out, key, version, any);
            }
            Purpose::Insert => {
                let version = self.next_version();
                self.records.create(out, key, version);
            }
            Purpose::Index => records::index(out, key),
            Purpose::Scan => records::scan(out, key, self.random.u64(1..=SCAN_MAX)),
            Purpose::Remove => records::remove(out, key),
            Purpose::Unindex => records::unindex(out, key),
        }
        Request { key, purpose, due_ns }
    }

    /// The version of a write that is about to be sent.
    pub(super) fn version_of(&mut self, key: u64) -> u32 {
        match &mut self.ledger {
            Some(ledger) => ledger.send(key),
            None => self.next_version(),
        }
    }

    fn next_version(&mut self) -> u32 {
        self.version += u32::from(!self.is_fill);
        self.version
    }

    /// Takes a reply, and writes the request that follows.
    pub(super) fn take(
        &mut self,
        request: Request,
        bytes: &[u8],
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Taken {
        let reply = Reply::of(bytes);
        let Request { key, purpose, due_ns } = request;
        if let Reply::Error(error) = reply {
            if matches!(purpose, Purpose::Insert | Purpose::Index) {
                self.keys.end_insert(key);
            }
            if error.starts_with("LOADING") {
                return Taken::Loading;
            }
            self.meter.refused(error);
            return Taken::Over;
        }
        if purpose == Purpose::Probe {
            return Taken::Over;
        }
        self.meter.replied(now_ns);
        let next = match purpose {
            Purpose::Write(version) => {
                if let Some(ledger) = &mut self.ledger {
                    ledger.answer(key, version);
                }
                Step::Over(Answer::Write)
            }
            Purpose::Read(least) => {
                self.found(self.records.found(reply, key), key, least);
                Step::Over(Answer::Read { is_popular: self.popular.contains(&key) })
            }
            Purpose::Insert => Step::Next(key, Purpose::Index),
            Purpose::Index => {
                self.keys.end_insert(key);
                Step::Over(if self.is_fill { Answer::Write } else { Answer::Insert })
            }
            Purpose::Scan => {
                let keys = records::scanned(bytes);
                self.meter.troubles.wrong += u64::from(keys.is_none());
                let mut keys = keys.unwrap_or_default();
                keys.reverse();
                next_of_scan(keys)
            }
            Purpose::ScanRecord(keys) => {
                self.found(self.records.found(reply, key), key, 0);
                next_of_scan(keys)
            }
            Purpose::ReadToModify => {
                self.found(self.records.found(reply, key), key, 0);
                Step::Next(key, Purpose::Modify)
            }
            Purpose::Remove if self.has_index => Step::Next(key, Purpose::Unindex),
            Purpose::Modify => Step::Over(Answer::ReadModifyWrite),
            Purpose::Remove | Purpose::Unindex | Purpose::Probe => Step::Over(Answer::Write),
        };
        match next {
            Step::Next(key, purpose) => Taken::GoesOn(self.write(key, purpose, due_ns, out)),
            Step::Over(answer) => {
                self.meter.answered(due_ns, now_ns, answer);
                Taken::Over
            }
        }
    }

    fn found(&mut self, found: Found, key: u64, least: u32) {
        let troubles = &mut self.meter.troubles;
        let version = match found {
            Found::Version(version) => version,
            Found::Missing => 0,
            Found::Wrong => {
                troubles.wrong += 1;
                return;
            }
        };
        match (&mut self.comparison, &mut self.ledger) {
            (Some(comparison), Some(ledger)) => ledger.compare(key, version, comparison),
            (_, None) => troubles.missing += u64::from(found == Found::Missing),
            (None, Some(_)) => troubles.stale += u64::from(version < least),
        }
    }
}

/// The next record of a scan, or that it is over.
fn next_of_scan(mut keys: Vec<u64>) -> Step {
    match keys.pop() {
        Some(key) => Step::Next(key, Purpose::ScanRecord(keys)),
        None => Step::Over(Answer::Scan),
    }
}

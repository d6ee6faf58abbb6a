//! Where every record is that is needed, by what is appended and retired, and what it says.
//!
//! ```text
//!   recovery, wiretap ── note, retire ──► Addresses ──► what the index must say of the log
//!                                             └──────► what a read by address must show
//! ```
//!
//! A record is needed from when it is appended until it is retired. That is kept for what was
//! retired last, too: it may be there still or not, and nothing else is at its address.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{Lsn, Record, RecordAddr};
use env_sim::SimEntropy;
use indexing::Namer;
use logindex::Entry;
use redo::Reader;

use crate::picture::Hash;

/// So many of the records that were retired last are known.
const RETIRED_MAX: usize = 40;

/// A record, and where and since when it is needed.
#[derive(Debug, Clone, Copy)]
struct Needed {
    /// What the index must say of it; `None` for a record of no entry.
    entry: Option<Entry>,
    digest: u64,
    /// The block that it was appended to in this life, or 0.
    lsn: Lsn,
}

/// See the file's top.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    namer: Namer,
    needed: BTreeMap<RecordAddr, Needed>,
    retired: VecDeque<(RecordAddr, u64)>,
}

impl Addresses {
    /// Nothing is appended yet to the log of this seed.
    pub(crate) fn new(seed: [u8; 16]) -> Self {
        let namer = Namer::new(seed);
        Self { namer, needed: BTreeMap::new(), retired: VecDeque::new() }
    }

    /// A record is there, in this block; 0 if it was there at the start.
    pub(crate) fn note(&mut self, record: &Record<'_>, addr: RecordAddr, lsn: Lsn) {
        if record.kind.is_delete() {
            return;
        }
        let entry = self.namer.entry(record, addr);
        let needed = Needed { entry, digest: digest(record), lsn };
        let before = self.needed.insert(addr, needed);
        assert!(before.is_none(), "{addr} is given twice");
    }

    /// Nothing needs the record any more.
    pub(crate) fn retire(&mut self, addr: RecordAddr) {
        if let Some(needed) = self.needed.remove(&addr) {
            self.retired.push_back((addr, needed.digest));
            if self.retired.len() > RETIRED_MAX {
                self.retired.pop_front();
            }
        }
    }

    /// What an index that knows the whole log says.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.needed.values().filter_map(|needed| needed.entry).collect()
    }

    /// All that is needed.
    pub(crate) fn needed(&self) -> BTreeSet<RecordAddr> {
        self.needed.keys().copied().collect()
    }

    /// The newest block with a record that is needed.
    pub(crate) fn newest(&self) -> Lsn {
        self.needed.values().map(|needed| needed.lsn).max().unwrap_or_default()
    }

    /// Reads some record by its address: what is needed and durable is there, and what is there is
    /// right. With `is_damaged` a file cannot be read perhaps. Whether there was one to read.
    pub(crate) fn read_any(
        &self,
        reader: &mut Reader,
        rng: &mut SimEntropy,
        durable: Lsn,
        is_damaged: bool,
    ) -> Result<bool, String> {
        let choices = self.needed.len() + self.retired.len();
        if choices == 0 {
            return Ok(false);
        }
        let at = usize::try_from(rng.below(choices as u64)).expect("few");
        let (addr, expected, must_be_there) = match self.needed.iter().nth(at) {
            Some((addr, needed)) => (*addr, needed.digest, needed.lsn <= durable),
            None => {
                let (addr, digest) = self.retired[at - self.needed.len()];
                (addr, digest, false)
            }
        };
        match reader.record(addr) {
            Ok(Some(found)) if digest(&found.record()) == expected => Ok(true),
            Ok(Some(found)) => {
                Err(format!("BY ADDRESS: another record is at {addr}: {:?}", found.record()))
            }
            Ok(None) if must_be_there && !is_damaged => {
                Err(format!("BY ADDRESS: the record at {addr} is needed and durable, and gone"))
            }
            Err(error) if !is_damaged => {
                Err(format!("BY ADDRESS: the record at {addr} cannot be read: {error}"))
            }
            Ok(None) | Err(_) => Ok(true),
        }
    }
}

/// A number for everything that a record says.
fn digest(record: &Record<'_>) -> u64 {
    let mut hash = Hash::new(record.kind as u64);
    hash.word(record.db.0);
    hash.add(record.key);
    hash.word(record.object.0);
    hash.add(record.sub);
    hash.add(record.value);
    hash.word(record.expires_at_ms.map_or(0, |at| at.cast_unsigned().wrapping_add(1)));
    hash.word(u64::from(record.is_new));
    hash.end()
}

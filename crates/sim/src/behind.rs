//! A start that believes the index, on a copy of the disk: compared with the start that reads all.
//!
//! ```text
//!   copy ─► peek ─► run_behind ─► open_with ─► validity pass ─► note_live
//!                                                   │ what is needed, keys by database
//!                                                   ▼ as the machine has it that has read the log
//!           compact everything ─► power failure ─► the copy is read as a whole: still the same
//! ```
//!
//! There is no engine here: the log, its compactions and its index alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{DbId, Lsn, RecordAddr};
use env_sim::SimEntropy;
use indexing::{LogIndex, Peeked, ValidityPass};
use logindex::Indexer;
use redo::{Compactor, Flusher, Log, Opened, Reader, Recovery, StartPoint, Step};

use crate::addresses::Addresses;
use crate::index::{IndexShape, index_dir};
use crate::machine::Machine;
use crate::opening::{Site, find_log};
use crate::wiretap::lock;

/// So many rounds are enough to compact everything.
const ROUNDS_MAX: usize = 5000;

/// So many records are read by their addresses.
const READS: usize = 12;

/// What the machine knows that has read the log as a whole.
pub(crate) struct Whole {
    last_lsn: Lsn,
    keys: BTreeMap<DbId, u64>,
    addresses: Addresses,
    needed: BTreeSet<RecordAddr>,
    retired: BTreeSet<RecordAddr>,
}

impl Whole {
    /// As of the start of this machine, of a run with an index.
    pub(crate) fn of(machine: &Machine, last_lsn: Lsn) -> Option<Self> {
        let tap = lock(&machine.tap);
        let addresses = tap.addresses.clone()?;
        let (needed, retired) = (addresses.needed(), tap.retired.clone());
        drop(tap);
        Some(Self { last_lsn, keys: machine.keys(), addresses, needed, retired })
    }
}

/// A log that was opened behind its index.
struct Behind {
    log: Log,
    flushers: Vec<Flusher>,
    compactor: Compactor,
    index: LogIndex,
    /// What finds what is live, from the start on.
    pass: Option<ValidityPass>,
    reader: Reader,
}

/// Starts on `site` behind the index that is there, and compares. Whether the index was believed.
///
/// # Errors
/// What the two starts do not agree on.
pub(crate) fn compare(
    site: &Site<'_>,
    rng: &mut SimEntropy,
    shape: IndexShape,
    whole: &Whole,
) -> Result<bool, String> {
    let wrong = |what: String| format!("BEHIND: {what}");
    let recovery = find_log(site, rng).map_err(|error| wrong(error.to_string()))?;
    let peeked = indexing::peek(site.disk, &index_dir(), recovery.database().0);
    let peeked = peeked.map_err(|error| wrong(error.to_string()))?;
    let Some(behind) = open(site, shape, recovery, peeked, whole).map_err(wrong)? else {
        return Ok(false);
    };
    compare_live(site, rng, behind, whole).map_err(wrong)?;
    Ok(true)
}

fn open(
    site: &Site<'_>,
    shape: IndexShape,
    mut recovery: Recovery,
    peeked: Peeked,
    whole: &Whole,
) -> Result<Option<Behind>, String> {
    let (database, seed) = (recovery.database(), recovery.hash_seed());
    recovery.note_durable(peeked.durable());
    let Ok(believed) = peeked.believe(recovery.horizon()) else { return Ok(None) };
    let point = StartPoint { cut: believed.cut(), next_object: believed.known().next_object() };
    let mut tail = believed.tail(seed);
    let opened = recovery.run_behind(point, &mut tail, &mut |_| {});
    let Opened { log, flushers, compactor, summary, .. } =
        opened.map_err(|error| error.to_string())?;
    if summary.last_lsn != whole.last_lsn {
        return Err(format!("block {} is the last, not {}", summary.last_lsn, whole.last_lsn));
    }
    let (disk, reader) = (Arc::new(site.disk.clone()), log.reader());
    let options = shape.options();
    let opened = Indexer::open(disk, &index_dir(), database.0, options.runs);
    let indexer = opened.map_err(|error| error.to_string())?;
    let index = LogIndex::open_with(indexer, &index_dir(), reader, seed, options, tail);
    let (index, whole_index) = index.map_err(|error| error.to_string())?;
    let pass = ValidityPass::new(&whole_index, index.known()).map_err(|error| error.to_string())?;
    let known = index.known().keys().map(|keys| keys.filter(|(_, keys)| *keys > 0).collect());
    if known.as_ref() != Some(&whole.keys) {
        return Err(format!("keys by database {known:?}, there are {:?}", whole.keys));
    }
    let reader = log.reader();
    Ok(Some(Behind { log, flushers, compactor, index, pass: Some(pass), reader }))
}

/// What the validity pass finds is what is needed, and is what the bitmaps say afterwards.
fn compare_live(
    site: &Site<'_>,
    rng: &mut SimEntropy,
    mut behind: Behind,
    whole: &Whole,
) -> Result<(), String> {
    let mut pass = behind.pass.take().expect("nothing has taken it yet");
    let (live, counts) = loop {
        // The index writes meanwhile what the pass has in memory.
        if rng.coin() {
            behind.round(site);
        }
        let stepped = pass.step(1 + usize::try_from(rng.below(30)).expect("few"));
        if let Some(found) = stepped.map_err(|error| error.to_string())? {
            break found;
        }
    };
    let counted: BTreeMap<DbId, u64> = counts.databases.into_iter().collect();
    if counted != whole.keys {
        return Err(format!("{counted:?} keys are counted, there are {:?}", whole.keys));
    }
    if let Some(addr) = whole.needed.iter().find(|addr| !live.contains(**addr)) {
        return Err(format!("{addr} is needed, the index does not say so"));
    }
    if live.count() != whole.needed.len() as u64 {
        let needed = whole.needed.len();
        return Err(format!("{} records are needed by the index, {needed} are", live.count()));
    }
    for _ in 0..READS {
        whole.addresses.read_any(&mut behind.reader, rng, whole.last_lsn, false)?;
    }
    behind.log.note_live(Arc::new(live)).map_err(|error| error.to_string())?;
    let mut rounds = 0..ROUNDS_MAX;
    while !behind.log.knows_validity() {
        rounds.next().ok_or("it never gets to know what is garbage")?;
        behind.round(site);
    }
    if let Some(addr) = whole.needed.iter().find(|addr| behind.log.is_retired(**addr)) {
        return Err(format!("{addr} is needed, its bit says that it is garbage"));
    }
    if let Some(addr) = whole.retired.iter().find(|addr| !behind.log.is_retired(**addr)) {
        return Err(format!("{addr} is garbage, its bit says that it is needed"));
    }
    behind.log.compact_all();
    while behind.round(site) || behind.log.stats().compacting.is_some() {
        rounds.next().ok_or("it never comes to rest")?;
    }
    for _ in 0..READS {
        whole.addresses.read_any(&mut behind.reader, rng, whole.last_lsn, false)?;
    }
    Ok(())
}

impl Behind {
    /// Everything does something. Whether anything has.
    fn round(&mut self, site: &Site<'_>) -> bool {
        site.clock.advance_ms(200);
        self.log.tick();
        let mut has_worked = false;
        for flusher in &mut self.flushers {
            has_worked |= flusher.step() == Step::Worked;
        }
        has_worked |= self.compactor.step() == Step::Worked;
        has_worked |= matches!(self.index.step(true), Ok(indexing::Step::Worked) | Err(_));
        self.log.poll();
        has_worked
    }
}

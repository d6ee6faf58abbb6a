//! Makes the database that all schemes start from: one log, and what each of them makes of it.
//!
//! ```text
//!   fill    keyspace ── every key, R times ──► log                       killed when that is durable
//!   index   log ──► tree of all records · tree of the newest · sorted runs
//! ```
//!
//! The trees and the index are complete, as the paper's were "generated along with" its log; what a
//! load leaves unindexed comes with `--crash-at`. A part that is there is not made again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{DbIndex, Lsn, Record, RecordAddr};
use env_os::OsDisk;
use indexing::{LogIndex, Step};
use keyspace::{Expiry, Journal as _, Keyspace};
use redo::{Reader, Replay};

use super::database::{index_options, of_index, of_log, open_log};
use super::indexer::TreeIndexer;
use super::journal::{Durable as _, LogJournal};
use super::scheme::{Part, Scheme};
use super::timeline::event;
use super::tree::{Keeps, Tree};
use super::workload::{FillOrder, value, write_key};
use crate::error::{Error, Result};

/// Records of a block.
const BLOCK_RECORDS: u64 = 1000;

/// Memory for the pages of a tree that is being made.
const POOL_BYTES: usize = 1 << 30;

/// Fills the log in `dir`, and waits to be killed.
pub(super) fn fill_log(dir: &Path, keys: u64, records_per_key: u64) -> Result<()> {
    let recovery = open_log(&Part::Log.dir(dir), false, Arc::new(|| {}))?;
    let seed = recovery.hash_seed();
    let opened = recovery.run(&mut Nothing, &mut |_| {}).map_err(of_log)?;
    let mut keyspace = Keyspace::new(LogJournal::start(opened)?, seed, 1);
    let mut key = String::new();
    for (at, (number, version)) in (1..).zip(FillOrder::new(keys, records_per_key)) {
        write_key(&mut key, number);
        keyspace.begin_command(0);
        let value = value(number, version);
        keyspace.set_string(DbIndex::FIRST, key.as_bytes(), &value, Expiry::Clear);
        if at % BLOCK_RECORDS == 0 {
            keyspace.journal_mut().seal_now();
            while keyspace.journal_mut().is_congested() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let journal = keyspace.journal_mut();
    journal.seal_now();
    let last = journal.last_lsn();
    while journal.poll() < last {
        std::thread::sleep(Duration::from_millis(1));
    }
    event("filled", keys * records_per_key)?;
    loop {
        std::thread::park();
    }
}

/// Makes what `scheme` needs of the log in `dir`, if it is not there.
pub(super) fn index(dir: &Path, scheme: Scheme) -> Result<()> {
    let is_missing = |part: &&Part| !part.dir(dir).exists();
    for part in scheme.parts().iter().filter(is_missing) {
        let recovery = open_log(&Part::Log.dir(dir), false, Arc::new(|| {}))?;
        let (database, seed) = (recovery.database().0, recovery.hash_seed());
        let opened = recovery.run(&mut Nothing, &mut |_| {}).map_err(of_log)?;
        let (end, reader) = (opened.summary.last_lsn, opened.log.reader());
        let _journal = LogJournal::start(opened)?;
        // It gets its name when it is whole.
        let (unfinished, path) = (dir.join("unfinished"), part.dir(dir));
        let _missing = std::fs::remove_dir_all(&unfinished);
        match part {
            Part::Log => {}
            Part::Tree => fill_tree(reader, &unfinished, Keeps::All)?,
            Part::Newest => fill_tree(reader, &unfinished, Keeps::Newest)?,
            Part::Index => fill_runs(reader, &unfinished, database, seed, end)?,
        }
        std::fs::rename(&unfinished, &path).map_err(Error::file(&path))?;
    }
    Ok(())
}

fn fill_tree(reader: Reader, dir: &Path, keeps: Keeps) -> Result<()> {
    let tree = Tree::open(dir, keeps, POOL_BYTES)?;
    TreeIndexer::new(reader, Arc::clone(&tree))?.index(&|| true)?;
    tree.flush()
}

fn fill_runs(
    reader: Reader,
    dir: &Path,
    database: [u8; 16],
    seed: [u8; 16],
    end: Lsn,
) -> Result<()> {
    let opened = LogIndex::open(Arc::new(OsDisk), dir, reader, database, seed, index_options());
    let (mut index, _) = opened.map_err(of_index)?;
    loop {
        while index.step(true).map_err(of_index)? == Step::Worked {}
        if index.cut() >= end && index.known().can_start() {
            return Ok(());
        }
        index.cut_now();
    }
}

/// Reads a log for nothing but its end.
struct Nothing;

impl Replay for Nothing {
    fn apply(&mut self, _: &Record<'_>, _: RecordAddr, _: Lsn, _retired: &mut Vec<RecordAddr>) {}

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {}

    fn rejected(&self) -> Option<(RecordAddr, String)> {
        None
    }
}

//! What the index in a directory is, and whether every byte of it is right. Changes nothing.

use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::Disk;

use crate::error::{Error, Result};
use crate::filter::{LINE_BYTES, Probe};
use crate::index::open_runs;
use crate::manifest::Manifest;
use crate::run::{Run, RunInfo};
use crate::run_format::HEADER_BYTES;

/// Blocks that are read together.
const BLOCKS_AT_ONCE: usize = 64;

/// What the index in a directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// The database that it belongs to.
    pub database: [u8; 16],
    /// The installed cut.
    pub cut: Option<Lsn>,
    /// The bytes that the caller has stored with the cut.
    pub state_bytes: usize,
    /// The runs, from the newest to the oldest.
    pub runs: Vec<RunStats>,
}

/// What a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunStats {
    /// What the manifest says of it.
    pub info: RunInfo,
    /// The entries that are gone.
    pub gone: u64,
    /// The blocks.
    pub blocks: u64,
    /// The segments of the log that its entries are in.
    pub segments: u64,
    /// The bytes of its filter.
    pub filter_bytes: u64,
}

/// Returns what the index in `dir` is; `None` if there is none.
///
/// # Errors
/// Damage to the manifest or to the frame of a run, a newer format, or the error of the disk.
pub fn stats(disk: &dyn Disk, dir: &Path) -> Result<Option<Stats>> {
    Ok(read(disk, dir)?.map(|(stats, _)| stats))
}

/// Reads every byte of the index in `dir`, and compares what is said twice.
///
/// # Errors
/// The first damage, a newer format, or the error of the disk.
pub fn verify(disk: &dyn Disk, dir: &Path) -> Result<Option<Stats>> {
    let Some((stats, runs)) = read(disk, dir)? else { return Ok(None) };
    runs.iter().try_for_each(verify_run)?;
    Ok(Some(stats))
}

fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<(Stats, Vec<Arc<Run>>)>> {
    let Some(manifest) = Manifest::read(disk, dir)? else { return Ok(None) };
    let runs = open_runs(disk, dir, &manifest)?;
    let stats = Stats {
        database: manifest.database,
        cut: manifest.cut.as_ref().map(|cut| cut.lsn),
        state_bytes: manifest.cut.as_ref().map_or(0, |cut| cut.state.len()),
        runs: runs.iter().map(|run| stats_of(run)).collect(),
    };
    Ok(Some((stats, runs)))
}

fn stats_of(run: &Run) -> RunStats {
    RunStats {
        info: run.info,
        gone: run.trailer.gone,
        blocks: run.trailer.blocks.into(),
        segments: run.trailer.segments.into(),
        filter_bytes: run.trailer.filter_lines * LINE_BYTES as u64,
    }
}

fn verify_run(run: &Arc<Run>) -> Result<()> {
    let corrupt = |at, what| Err(Error::corrupt(&run.path, at, what));
    let mut rest_of_header = vec![0; run.block_bytes() - HEADER_BYTES];
    run.read_at(&mut rest_of_header, HEADER_BYTES as u64)?;
    if rest_of_header.iter().any(|byte| *byte != 0) {
        return corrupt(HEADER_BYTES as u64, "bytes behind the header");
    }
    if let Some(mut load) = run.begin_loading_filter() {
        while !load.step(1 << 20)? {}
    }
    let filter = run.filter().expect("it was loaded");
    let (mut entries, mut gone, mut last) = (0, 0, None);
    let (mut bytes, mut decoded, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    for block in 0..run.blocks() {
        let at = block % BLOCKS_AT_ONCE;
        if at == 0 {
            run.read_blocks(block, BLOCKS_AT_ONCE.min(run.blocks() - block), &mut bytes)?;
        }
        decoded.clear();
        let parsed = run.verified(&bytes[at * run.block_bytes()..], block)?;
        let result = parsed.decode(&run.dictionary, &mut decoded);
        result.map_err(|what| Error::corrupt(&run.path, run.block_at(block), what))?;
        if last.is_some_and(|last| last >= decoded[0].name) {
            return corrupt(run.block_at(block), "it begins before the end of the block before");
        }
        last = decoded.last().map(|entry| entry.name);
        entries += parsed.len() as u64;
        gone += decoded.iter().filter(|entry| entry.place().is_none()).count() as u64;
        let place = run.fences.filter_of(block);
        expected.clear();
        expected.resize(place.len(), 0);
        decoded.iter().for_each(|entry| Probe::new(entry.name).add_to(&mut expected));
        if filter[place] != expected {
            return corrupt(run.block_at(block), "the block and its filter disagree");
        }
    }
    let trailer = &run.trailer;
    if (entries, gone, last) != (trailer.entries, trailer.gone, Some(trailer.last)) {
        return corrupt(trailer.file_bytes, "blocks and trailer disagree");
    }
    Ok(())
}

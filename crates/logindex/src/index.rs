//! The index as readers see it: an immutable list of runs.

use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::Disk;

use crate::cache::BlockCache;
use crate::damage::Damage;
use crate::delta::{Batch, Cut};
use crate::error::{Error, Result};
use crate::filter::Probe;
use crate::hot;
use crate::judge::Judge;
use crate::manifest::{FILE_NAME, Manifest};
use crate::merge::{Merge, Sources};
use crate::name::{Entry, Hash96, Name, Place, Scope, What};
use crate::options::Options;
use crate::pass::{LivePass, ScopeRange};
use crate::run::{FilterLoad, Run, RunInfo};
use crate::unwritten::Unwritten;

/// What is known of a name without reading anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cached {
    /// The newest record is there.
    Found(Place),
    /// The newest record says that the entry was deleted.
    Gone,
    /// There is no record of the name.
    Absent,
    /// A block must be read first: see [`Index::probe`].
    Unknown,
}

/// The runs as of one cut. A clone is cheap, and any thread may read it.
///
/// It does not change: [`crate::Published::get`] returns the newest one that is installed. Its runs
/// can be read as long as it exists, also those that a merge has replaced.
#[derive(Debug, Clone)]
pub struct Index {
    list: Arc<List>,
}

#[derive(Debug)]
struct List {
    /// What is newer than all runs.
    unwritten: Option<Arc<Unwritten>>,
    /// From the newest to the oldest.
    runs: Vec<Arc<Run>>,
    cut: Option<Lsn>,
    cache: Arc<BlockCache>,
    chunk_bytes: usize,
    damage: Damage,
}

impl Index {
    pub(crate) fn new(
        runs: Vec<Arc<Run>>,
        cut: Option<Lsn>,
        cache: Arc<BlockCache>,
        chunk_bytes: usize,
        damage: Damage,
    ) -> Self {
        let unwritten = None;
        Self { list: Arc::new(List { unwritten, runs, cut, cache, chunk_bytes, damage }) }
    }

    /// The same with a batch on top, the next one behind the runs, which need not be written or installed.
    ///
    /// The batch is kept in memory as long as this exists: 56 bytes an entry, and 32 more once
    /// entries were asked for in their order.
    ///
    /// # Panics
    /// If there is such a batch already, or its cut does not lie behind that of the runs.
    #[must_use]
    pub fn with_batch(&self, batch: &Batch) -> Self {
        let List { unwritten, runs, cut, cache, chunk_bytes, damage } = &*self.list;
        assert!(unwritten.is_none() && Some(batch.cut.lsn) > *cut, "it is on top of the runs");
        let list = List {
            unwritten: Some(Arc::new(Unwritten::new(batch))),
            runs: runs.clone(),
            cut: Some(batch.cut.lsn),
            cache: Arc::clone(cache),
            chunk_bytes: *chunk_bytes,
            damage: damage.clone(),
        };
        Self { list: Arc::new(list) }
    }

    /// The last block of the log that the index knows.
    #[must_use]
    pub fn cut(&self) -> Option<Lsn> {
        self.list.cut
    }

    /// The number of entries of all runs, and of a batch on top of them.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        let unwritten = self.list.unwritten.as_ref().map_or(0, |unwritten| unwritten.len() as u64);
        self.runs().map(|run| run.entries).sum::<u64>() + unwritten
    }

    /// The runs, from the newest to the oldest.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = &RunInfo> {
        self.list.runs.iter().map(|run| &run.info)
    }

    pub(crate) fn run_list(&self) -> &[Arc<Run>] {
        &self.list.runs
    }

    /// The bytes of blocks in memory, of all runs.
    #[must_use]
    pub fn cached_bytes(&self) -> u64 {
        self.list.cache.used_bytes()
    }

    /// Looks a name up in what is in memory: filters and cached blocks. Never does I/O.
    ///
    /// A damaged block is [`Cached::Unknown`]; reading it again shows the damage.
    #[must_use]
    pub fn probe_cached(&self, name: Name) -> Cached {
        if let Some(entry) = self.find_unwritten(name) {
            return entry.place().map_or(Cached::Gone, |place| Cached::Found(*place));
        }
        let probe = Probe::new(name);
        for run in &self.list.runs {
            let Some(block) = run.candidate(name, probe) else { continue };
            match run.find_cached(&self.list.cache, block, name) {
                Some(Ok(None)) => {}
                Some(Ok(Some(Entry { what: What::At(place), .. }))) => return Cached::Found(place),
                Some(Ok(Some(Entry { what: What::Gone, .. }))) => return Cached::Gone,
                Some(Err(_)) | None => return Cached::Unknown,
            }
        }
        Cached::Absent
    }

    /// Looks a name up, reading at most one block of each run, the newest first.
    ///
    /// Returns the newest entry, also one that is [`What::Gone`].
    ///
    /// # Errors
    /// Damage, or the error of the disk.
    pub fn probe(&self, name: Name) -> Result<Option<Entry>> {
        let unwritten = self.find_unwritten(name);
        if unwritten.is_some() {
            return Ok(unwritten);
        }
        let probe = Probe::new(name);
        for run in &self.list.runs {
            let Some(block) = run.candidate(name, probe) else { continue };
            let found = self.list.damage.watch(run.find(&self.list.cache, block, name))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Announces that [`Index::probe`] will look this name up: blocks that it needs and memory lacks may be
    /// fetched meanwhile.
    pub fn fetch_ahead(&self, name: Name) {
        if self.find_unwritten(name).is_some() {
            return;
        }
        let probe = Probe::new(name);
        for run in &self.list.runs {
            if let Some(block) = run.candidate(name, probe) {
                run.fetch_ahead(&self.list.cache, block);
            }
        }
    }

    fn find_unwritten(&self, name: Name) -> Option<Entry> {
        self.list.unwritten.as_ref()?.find(name)
    }

    /// Streams the newest entries of a scope that are not gone, from a hash on.
    ///
    /// # Errors
    /// Damage, or the error of the disk.
    pub fn scope_range(&self, scope: Scope, from: Hash96) -> Result<ScopeRange> {
        let (first, last) = (Name::new(scope, from), Name::new(scope, Hash96::MAX));
        let merge = Merge::between(self.sources(), self.list.chunk_bytes, first, last);
        Ok(ScopeRange::new(self.list.damage.watch(merge)?, self.list.damage.clone()))
    }

    /// Begins a pass over every living entry. `judge` is as of the cut or later.
    ///
    /// # Errors
    /// Damage, or the error of the disk.
    pub fn live_pass(&self, judge: Judge) -> Result<LivePass> {
        let merge = self.list.damage.watch(Merge::all(self.sources(), self.list.chunk_bytes))?;
        Ok(LivePass::new(merge, judge, self.list.cut, self.list.damage.clone()))
    }

    fn sources(&self) -> Sources<'_> {
        Sources { unwritten: self.list.unwritten.as_ref(), runs: &self.list.runs }
    }

    /// A filter that is not in memory.
    pub(crate) fn missing_filter(&self) -> Option<FilterLoad> {
        self.list.runs.iter().find_map(Run::begin_loading_filter)
    }
}

/// Opens the index in `dir` as of its installed cut, to be read; `None` if there is none. Changes nothing.
///
/// # Errors
/// Damage, a newer format, another database, or the error of the disk.
pub fn open(
    disk: &dyn Disk,
    dir: &Path,
    database: [u8; 16],
    options: &Options,
) -> Result<Option<Index>> {
    let Some(manifest) = Manifest::read(disk, dir)? else { return Ok(None) };
    if manifest.database != database {
        return Err(Error::OtherDatabase { path: dir.join(FILE_NAME) });
    }
    let runs = open_runs(disk, dir, &manifest)?;
    let cache = Arc::new(BlockCache::new(options.cache_bytes, options.block_bytes));
    let cut = manifest.cut.as_ref().map(|cut| cut.lsn);
    Ok(Some(Index::new(runs, cut, cache, options.chunk_bytes, Damage::default())))
}

/// Returns the installed cut of the index in `dir`; `None` if there is none. Changes nothing.
///
/// Only the manifest is read: whether the runs are whole is not known yet.
///
/// # Errors
/// Damage, a newer format, another database, or the error of the disk.
pub fn installed_cut(disk: &dyn Disk, dir: &Path, database: [u8; 16]) -> Result<Option<Cut>> {
    match Manifest::read(disk, dir)? {
        Some(manifest) if manifest.database != database => {
            Err(Error::OtherDatabase { path: dir.join(FILE_NAME) })
        }
        manifest => Ok(manifest.and_then(|manifest| manifest.cut)),
    }
}

/// Removes the manifest of the index in `dir`, durably: afterwards there is no index.
///
/// Do this before anything that makes what the runs say untrue. No [`crate::Indexer`] of the
/// directory may write any more. The runs are removed, too, as far as that can be done, and so is the hint
/// of what is hot.
///
/// # Errors
/// The error of the disk; the manifest may then be there or not.
pub fn discard(disk: &dyn Disk, dir: &Path) -> Result<()> {
    if !disk.exists(dir).map_err(Error::io(dir, "look for"))? {
        return Ok(());
    }
    let path = dir.join(FILE_NAME);
    if disk.exists(&path).map_err(Error::io(&path, "look for"))? {
        disk.remove(&path).map_err(Error::io(&path, "remove"))?;
    }
    disk.sync_dir(dir).map_err(Error::io(dir, "sync"))?;
    // Runs that no manifest names are nothing but space: what stays is removed by the next open.
    let _left = remove_unnamed(disk, dir, &Manifest::empty([0; 16]));
    // And a hint that stays is no more than that.
    let _hint = disk.remove(&dir.join(hot::FILE_NAME));
    Ok(())
}

/// Removes the files that the manifest does not name: unfinished, replaced, or never installed.
///
/// What was seen of the manifest, that it is there or not, is made durable before: if a crash took that
/// back, the manifest before would name runs that are gone.
pub(crate) fn remove_unnamed(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<()> {
    let names = disk.list(dir).map_err(Error::io(dir, "list"))?;
    let unnamed = names.into_iter().map(|name| dir.join(name)).filter(|path| {
        let is_ours = path.extension().is_some_and(|end| end == "run" || end == "tmp");
        is_ours && !manifest.runs.iter().any(|run| run.path(dir) == *path)
    });
    let mut unnamed = unnamed.peekable();
    if unnamed.peek().is_some() {
        disk.sync_dir(dir).map_err(Error::io(dir, "sync"))?;
    }
    for path in unnamed {
        disk.remove(&path).map_err(Error::io(&path, "remove"))?;
    }
    Ok(())
}

/// Reads the manifest of the index in `dir` and opens its runs. Changes nothing.
pub(crate) fn open_runs(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<Vec<Arc<Run>>> {
    manifest
        .runs
        .iter()
        .map(|info| Run::open(disk, dir, manifest.database, *info).map(Arc::new))
        .collect()
}

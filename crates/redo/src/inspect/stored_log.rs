//! A log that no server has open, read by a tool: nothing is changed.
//!
//! In order, as a start reads it, or a segment's blocks alone. The log is locked meanwhile, if there
//! is a lock, so that no server starts to change it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, ObjectId, RecordKind, SegmentId};
use env::{Disk, Lock};

use crate::error::{Error, Result};
use crate::format::groups::GROUP_BYTES;
use crate::format::kinds::Kinds;
use crate::format::manifest::Manifest;
use crate::id::Id;
use crate::inspect::verify::read_catalog;
use crate::origin::Origin;
use crate::read::as_of::Reach;
use crate::read::catalog::{Catalog, KeptImages, KeptState};
use crate::read::extent::Extent;
use crate::read::in_use::lock_if_there;
use crate::read::merge::{DeviceStream, Merge};
use crate::read::parts::Parts;
use crate::read::past;
use crate::read::reader::LogBlock;
use crate::read::scan::SegmentFile;
use crate::recover::behind::{KnownBefore, StartPoint};
use crate::recover::replay::{Progress, Reading, Replay};

/// See the file's top.
pub struct StoredLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    catalog: Catalog,
    manifest: Manifest,
    _lock: Option<Box<dyn Lock>>,
}

/// Where a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredEnd {
    /// The last block that a start would keep.
    pub last_lsn: Lsn,
    /// The last block of which the log knows that it was durable. What a start keeps behind that may be gone
    /// after a loss of power.
    pub durable_lsn: Lsn,
    /// How many bytes a start would cut off behind it: a torn block, or blocks behind a gap.
    pub cut_bytes: u64,
}

impl StoredLog {
    /// Looks at the log in `dir`; `None` if there is none. `devices` as in [`crate::Options::devices`]; empty for
    /// those that the manifest names.
    ///
    /// # Errors
    /// When a server uses it, it is damaged, or cannot be read.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, devices: &[PathBuf]) -> Result<Option<Self>> {
        let lock = lock_if_there(&*disk, dir)?;
        let catalog = read_catalog(&*disk, dir, devices)?;
        let Some(manifest) = catalog.manifest.clone() else { return Ok(None) };
        Ok(Some(Self { disk, dir: dir.to_owned(), catalog, manifest, _lock: lock }))
    }

    /// Makes it be the log as it was when `lsn` was its last block.
    ///
    /// # Errors
    /// When that cannot be told any more.
    pub fn into_as_of(self, lsn: Lsn) -> Result<Self> {
        let catalog = self.catalog.as_of(&self.catalog.kept(&*self.disk, 1), lsn)?;
        Ok(Self { catalog, ..self })
    }

    /// Returns which of its past the log can tell.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.catalog.reach(&self.catalog.kept(&*self.disk, 1))
    }

    /// The database.
    #[must_use]
    pub const fn database(&self) -> Id {
        self.manifest.database
    }

    /// Whose blocks it has.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        Origin { database: self.manifest.database, parent: self.manifest.parent }
    }

    /// The seed of the keyspace's hashes.
    #[must_use]
    pub const fn hash_seed(&self) -> [u8; 16] {
        self.manifest.hash_seed
    }

    /// Whether there may be records of this kind, as far as headers tell.
    #[must_use]
    pub fn may_have(&self, kind: RecordKind) -> bool {
        let all = Kinds::all(self.catalog.files.iter().map(|file| file.header.kinds));
        all.and(Kinds::of(kind)) == all
    }

    /// See [`crate::Recovery::horizon`].
    #[must_use]
    pub fn horizon(&self) -> Lsn {
        self.catalog.horizon()
    }

    /// Returns the oldest state that the log tells completely: that after this block. What was dropped
    /// by compactions is superseded by what it says up to there.
    #[must_use]
    pub fn oldest_lsn(&self) -> Lsn {
        self.catalog.complete_from()
    }

    /// Reads all of it in order, as a start does that knows that it was `durable` up to there.
    ///
    /// # Errors
    /// When it is damaged or cannot be read, or `replay` rejects a record.
    pub fn read(
        &self,
        durable: Lsn,
        replay: &mut dyn Replay,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<StoredEnd> {
        let point = StartPoint { cut: Lsn::ZERO, next_object: ObjectId::NONE.next() };
        let reading = Reading {
            disk: &self.disk,
            dir: &self.dir,
            catalog: &self.catalog,
            is_parallel: false,
            group_bytes: GROUP_BYTES,
            before: KnownBefore { durable, point },
        };
        let state = reading.run(replay, progress)?;
        if let Some(lsn) = self.catalog.limit.filter(|limit| *limit > state.last_lsn) {
            return Err(Error::BehindEnd { lsn, last: state.last_lsn });
        }
        let files = state.files.iter().zip(&self.catalog.files);
        let cut_bytes = files.map(|(file, source)| file.cut_bytes(source)).sum();
        Ok(StoredEnd { last_lsn: state.last_lsn, durable_lsn: state.durable, cut_bytes })
    }

    /// Returns the extent of the log with what history has, of which [`StoredLog::read`] has found this end.
    #[must_use]
    pub fn extent(&self, end: StoredEnd) -> Extent {
        let durable = end.durable_lsn.min(end.last_lsn);
        let floor = self.floor(&self.catalog.kept(&*self.disk, 1));
        let (horizon, told_from) = (self.horizon().min(floor), self.oldest_lsn().min(floor));
        Extent { horizon, told_from, durable }
    }

    /// Down to where history tells.
    fn floor(&self, kept: &[KeptImages]) -> Lsn {
        past::floor(&self.manifest).max(self.catalog.reach(kept).floor)
    }

    /// Reads the blocks up to `last` in order, each as a whole. That they are those of a good log is for
    /// [`StoredLog::read`] to find out before.
    ///
    /// # Errors
    /// When a file cannot be read, or has changed since the log was opened.
    pub fn blocks(&self, last: Lsn) -> Result<StoredBlocks> {
        self.over(&self.catalog.files, last)
    }

    /// As [`StoredLog::blocks`], with what was needed when `last` was the last block, as far as history tells it.
    ///
    /// # Errors
    /// As there.
    pub fn blocks_of_state(&self, last: Lsn) -> Result<StoredBlocks> {
        let kept = self.catalog.kept(&*self.disk, 1);
        if self.oldest_lsn() <= last || last < self.floor(&kept) {
            return self.blocks(last);
        }
        self.over(&self.catalog.told_as_of(&kept, last)?.files, last)
    }

    /// As [`StoredLog::blocks`], with every record that the blocks behind the horizon of [`StoredLog::extent`] ever had.
    ///
    /// # Errors
    /// As there.
    pub fn whole_blocks(&self, from: Lsn, last: Lsn) -> Result<StoredBlocks> {
        if from > self.horizon() {
            return self.blocks(last);
        }
        let is_original = |image: &&SegmentFile| image.header.generation == 0;
        let kept = self.catalog.kept(&*self.disk, 1);
        let kept = kept.iter().filter_map(|kept| match &kept.state {
            KeptState::There(images) if kept.file.until >= from => Some(images),
            _ => None,
        });
        let images = self.catalog.files.iter().chain(kept.flatten());
        let files: Vec<SegmentFile> = images.filter(is_original).cloned().collect();
        self.over(&files, last)
    }

    fn over(&self, files: &[SegmentFile], last: Lsn) -> Result<StoredBlocks> {
        let sources: Vec<_> = files.iter().cloned().map(Arc::new).collect();
        let mut by_device = vec![Vec::new(); self.catalog.devices.len()];
        for (index, file) in files.iter().enumerate() {
            by_device[file.device].push((index, file.clone()));
        }
        let streams = by_device.into_iter().map(|it| DeviceStream::new(Arc::clone(&self.disk), it));
        let merge = Merge::sequential(streams.collect::<Result<_>>()?)?;
        Ok(StoredBlocks { sources, merge, next: Lsn(1), last })
    }

    /// Begins to read a segment. Without files it has no blocks.
    ///
    /// # Errors
    /// When a file cannot be read, or has changed since the log was opened.
    pub fn segment(&self, id: SegmentId) -> Result<StoredSegment> {
        let files = &self.catalog.files;
        let from = files.partition_point(|file| file.header.segment < id);
        let to = files.partition_point(|file| file.header.segment <= id);
        // Where a file without a footer ends, all of its blocks have come.
        let parts = Parts::open(&*self.disk, files[from..to].to_vec(), |_| Lsn::ZERO)?;
        Ok(StoredSegment { parts, last: Lsn::ZERO })
    }
}

/// The blocks of a log, each once, by their LSNs. Made by [`StoredLog::blocks`].
pub struct StoredBlocks {
    sources: Vec<Arc<SegmentFile>>,
    merge: Merge,
    /// The first block that was not given out.
    next: Lsn,
    last: Lsn,
}

impl StoredBlocks {
    /// Returns the next block; `None` behind the last one.
    ///
    /// # Errors
    /// When a file cannot be read, or is damaged.
    #[expect(clippy::should_implement_trait, reason = "as Blocks")]
    pub fn next(&mut self) -> Result<Option<LogBlock>> {
        while let Some((file, block)) = self.merge.next()? {
            let lsn = block.header.lsn;
            if lsn > self.last {
                break;
            }
            // One that was written to two devices comes twice.
            if lsn >= self.next {
                self.next = lsn.next();
                return Ok(Some(LogBlock { block, source: Arc::clone(&self.sources[file]) }));
            }
        }
        Ok(None)
    }
}

/// The blocks of a segment, each once, by their LSNs. Made by [`StoredLog::segment`].
pub struct StoredSegment {
    parts: Parts,
    /// The last block that was given out.
    last: Lsn,
}

impl StoredSegment {
    /// Returns the next block up to `end`; `None` behind the last one.
    ///
    /// # Errors
    /// When a file cannot be read, or is damaged.
    pub fn next(&mut self, end: Lsn) -> Result<Option<LogBlock>> {
        let block = self.parts.next(self.last, end)?;
        self.last = block.as_ref().map_or(self.last, LogBlock::lsn);
        Ok(block)
    }
}

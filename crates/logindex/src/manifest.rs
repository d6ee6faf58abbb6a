//! The manifest: the runs of the index, and the cut up to which they know the log.
//!
//! Runs, cut and the caller's state change together, by [`env::publish()`]: after any crash there is
//! the old manifest or the new one. A file that it does not name is no part of the index. The
//! format is in `docs/format/log-index.md`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base::bytes::{u32_at, u64_at};
use base::checksum::crc32c_append;
use base::{DbId, Lsn};
use env::{Access, Disk, File};

use crate::delta::Cut;
use crate::error::{Error, Result};
use crate::judge::{Judge, Scopes};
use crate::run::RunInfo;
use crate::run_format::{Level, check_version};

const MAGIC: [u8; 8] = *b"INDELIDX";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
const RUN_BYTES: usize = 45;
/// No manifest is longer.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// The manifest's name.
pub(crate) const FILE_NAME: &str = "manifest";
const TEMPORARY_NAME: &str = "manifest.tmp";

/// The contents of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) database: [u8; 16],
    /// No run with this number or a larger one is named by this manifest or an earlier one.
    pub(crate) next_run: u64,
    /// What the runs know; `None` before the first one.
    pub(crate) cut: Option<Cut>,
    /// From the newest to the oldest.
    pub(crate) runs: Vec<RunInfo>,
}

impl Manifest {
    pub(crate) const fn empty(database: [u8; 16]) -> Self {
        Self { database, next_run: 1, cut: None, runs: Vec::new() }
    }

    fn path(dir: &Path) -> PathBuf {
        dir.join(FILE_NAME)
    }

    /// Reads the manifest, if there is one.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>> {
        let path = Self::path(dir);
        let file = match disk.open(&path, Access::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::io(&path, "open"))?,
        };
        let len = file.len().map_err(Error::io(&path, "measure"))?;
        if len > MANIFEST_BYTES_MAX {
            return Err(Error::corrupt(&path, 16, "longer than a manifest can be"));
        }
        let mut bytes = vec![0; usize::try_from(len).expect("below 2^30")];
        file.read_exact_at(&mut bytes, 0).map_err(Error::io(&path, "read"))?;
        Self::decode(&bytes, &path).map(Some)
    }

    /// Makes this the manifest; after an error it is this or the one before.
    pub(crate) fn publish(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let temporary = dir.join(TEMPORARY_NAME);
        let _file: Box<dyn File> =
            env::publish(disk, &temporary, &Self::path(dir), &self.encode())?;
        Ok(())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&self.database);
        put_u64(&mut bytes, self.next_run);
        put_u32(&mut bytes, self.runs.len());
        for run in &self.runs {
            put_u64(&mut bytes, run.id);
            bytes.push(run.level.raw());
            put_u64(&mut bytes, run.after.0);
            put_u64(&mut bytes, run.up_to.0);
            put_u64(&mut bytes, run.entries);
            put_u64(&mut bytes, run.bytes);
            bytes.extend_from_slice(&run.trailer_crc.to_le_bytes());
        }
        bytes.push(u8::from(self.cut.is_some()));
        if let Some(cut) = &self.cut {
            encode_cut(cut, &mut bytes);
        }
        let body_bytes = (bytes.len() - HEADER_BYTES) as u64;
        bytes[16..24].copy_from_slice(&body_bytes.to_le_bytes());
        let crc = crc_of(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let corrupt = |offset, what| Error::corrupt(path, offset, what);
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return Err(corrupt(0, "not the manifest of a log index"));
        }
        check_version(path, u32_at(bytes, 8), VERSION)?;
        if u64_at(bytes, 16) != (bytes.len() - HEADER_BYTES) as u64 {
            return Err(corrupt(16, "another length than the manifest says"));
        }
        if u32_at(bytes, 12) != crc_of(bytes) {
            return Err(corrupt(12, "the manifest's checksum"));
        }
        let mut body = Body { rest: &bytes[HEADER_BYTES..] };
        let decoded = body.manifest().filter(|_| body.rest.is_empty());
        let manifest = decoded.ok_or_else(|| corrupt(24, "fields that no manifest has"))?;
        manifest.check().map_err(|what| corrupt(48, what))?;
        Ok(manifest)
    }

    /// Checks that the runs follow one another in the log, level by level.
    pub(crate) fn check(&self) -> std::result::Result<(), &'static str> {
        let known = self.cut.as_ref().map_or(Lsn::ZERO, |cut| cut.lsn);
        let mut newest = known;
        let mut level = Level::Zero;
        for run in &self.runs {
            if run.id >= self.next_run {
                return Err("a run with a number that is not given yet");
            }
            if run.up_to > newest || run.after >= run.up_to || run.level < level {
                return Err("runs that are not ordered from the newest to the oldest");
            }
            (newest, level) = (run.after, run.level);
        }
        if self.runs.iter().filter(|run| run.level == Level::Bottom).count() > 1 {
            return Err("more than one bottom");
        }
        Ok(())
    }
}

fn crc_of(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c_append(0, &bytes[..12]), &bytes[16..])
}

fn put_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_u32(bytes: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).expect("far fewer than 2^32");
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn encode_cut(cut: &Cut, bytes: &mut Vec<u8>) {
    put_u64(bytes, cut.lsn.0);
    match &cut.judge {
        Judge::Relogging => bytes.push(0),
        Judge::Settled(scopes) => match scopes.map() {
            None => bytes.push(1),
            Some((next, named)) => {
                bytes.push(2);
                put_u64(bytes, next.0);
                put_u32(bytes, named.len());
                named.iter().for_each(|id| put_u64(bytes, id.0));
            }
        },
    }
    put_u64(bytes, cut.state.len() as u64);
    bytes.extend_from_slice(&cut.state);
}

/// The fields of a manifest, taken one after the other; `None` where there are too few bytes.
struct Body<'a> {
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32_at(bytes, 0))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|bytes| u64_at(bytes, 0))
    }

    /// A position that a log can reach.
    fn lsn(&mut self) -> Option<Lsn> {
        self.u64().map(Lsn).filter(|lsn| *lsn <= Lsn::MAX)
    }

    fn manifest(&mut self) -> Option<Manifest> {
        let database = self.take(16)?.try_into().ok()?;
        let next_run = self.u64()?;
        let count = usize::try_from(self.u32()?).ok()?;
        let mut runs = Vec::with_capacity(count.min(self.rest.len() / RUN_BYTES));
        for _ in 0..count {
            runs.push(self.run()?);
        }
        let cut = match self.u8()? {
            0 => None,
            1 => Some(self.cut()?),
            _ => return None,
        };
        Some(Manifest { database, next_run, cut, runs })
    }

    fn run(&mut self) -> Option<RunInfo> {
        Some(RunInfo {
            id: self.u64()?,
            level: Level::from_raw(self.u8()?)?,
            after: self.lsn()?,
            up_to: self.lsn()?,
            entries: self.u64()?,
            bytes: self.u64()?,
            trailer_crc: self.u32()?,
        })
    }

    fn cut(&mut self) -> Option<Cut> {
        let lsn = self.lsn()?;
        let judge = match self.u8()? {
            0 => Judge::Relogging,
            1 => Judge::Settled(Scopes::without_map()),
            2 => {
                let next = DbId(self.u64()?);
                let count = usize::try_from(self.u32()?).ok()?;
                let named = self.take(count.checked_mul(8)?)?;
                let named = named.chunks_exact(8).map(|bytes| DbId(u64_at(bytes, 0)));
                Judge::Settled(Scopes::mapped(next, named))
            }
            _ => return None,
        };
        let len = usize::try_from(self.u64()?).ok()?;
        let state = self.take(len)?.to_vec();
        Some(Cut { lsn, state, judge })
    }
}

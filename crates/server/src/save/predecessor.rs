//! The file that a dump replaces. What the database may not have stays, under a second name.
//!
//! ```text
//!   what this server has loaded or written, or a dump of this database
//!   that shows no more than the new one ───────────────────────────────► is replaced
//!   any other dump: of Redis, of another database, of a later state ───► stays as NAME.replaced, NAME.replaced-2 …
//!   the new one lacks keys whose values damage has taken ──────────────► the one before stays as NAME.before-loss, once
//! ```
//!
//! A dump that an import has read counts as any other: it was promised that originals stay.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Lsn;
use env::{Access, Disk, FileError, FileVersion};
use rdb::{Event, Limits, Reader};
use redo::TimeOfBlock;

use crate::file_bytes::Bytes;

/// A dump of ours says what it is in the first few of its fields, in few bytes: another one may have any number, of any length.
const FIELDS_MAX: usize = 64;
const FIELD_BYTES_MAX: u64 = 1024;

/// So many dumps may stay next to each other.
const KEPT_MAX: u32 = 100;

/// A file that has got a second name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The database may not have what is in it. The how many-th that stays.
    Replaced(u32),
    /// The dump after it lacks what damage has taken.
    BeforeLoss,
}

impl Kept {
    /// Why it stays: what is said of it.
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Self::Replaced(_) => "was not written by this database",
            Self::BeforeLoss => "may have the keys that this one lacks",
        }
    }

    /// The second name of `path`.
    pub(crate) fn name(self, path: &Path) -> PathBuf {
        let mut name = path.to_owned().into_os_string();
        match self {
            Self::Replaced(1) => name.push(".replaced"),
            Self::Replaced(number) => name.push(format!(".replaced-{number}")),
            Self::BeforeLoss => name.push(".before-loss"),
        }
        name.into()
    }
}

/// The file of which this process knows that the database has all of it.
#[derive(Clone, Default)]
pub struct KnownDump(Arc<Mutex<Option<(PathBuf, FileVersion)>>>);

impl KnownDump {
    fn known(&self) -> MutexGuard<'_, Option<(PathBuf, FileVersion)>> {
        // What is in it is whole, even if a thread has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of this file was loaded or has just been written.
    pub(crate) fn note(&self, disk: &dyn Disk, path: &Path) {
        *self.known() = disk.version(path).ok().map(|version| (path.to_owned(), version));
    }

    fn is(&self, path: &Path, version: FileVersion) -> bool {
        self.known().as_ref().is_some_and(|known| (known.0.as_path(), known.1) == (path, version))
    }
}

/// See the file's top.
pub(crate) struct Predecessor {
    /// The database of the new dump, and the block up to which it shows it; `None` without a log.
    pub(crate) database: Option<(redo::Id, Lsn)>,
    /// What is replaced in any case.
    pub(crate) known: KnownDump,
}

impl Predecessor {
    /// Gives the file at `path` a second name, durably, if it must stay.
    ///
    /// # Errors
    /// When that cannot be: nothing else would have what is in it.
    pub(crate) fn keep(
        &self,
        disk: &dyn Disk,
        path: &Path,
        lost_keys: u64,
    ) -> Result<Option<Kept>, FileError> {
        let version = match disk.version(path) {
            Ok(version) => version,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::io(path, "look at")(error)),
        };
        let is_ours = || {
            let is_its = |(database, lsn)| is_dump_of(disk, path, database, lsn);
            version.bytes == 0 || self.known.is(path, version) || self.database.is_some_and(is_its)
        };
        let kept = if !is_ours() {
            link_replaced(disk, path, version)?
        } else if lost_keys > 0 {
            link(disk, path, version, Kept::BeforeLoss)?
        } else {
            return Ok(None);
        };
        let directory = path.parent().unwrap_or(Path::new(""));
        disk.sync_dir(directory).map_err(FileError::io(directory, "sync"))?;
        Ok(kept)
    }
}

fn link_replaced(
    disk: &dyn Disk,
    path: &Path,
    version: FileVersion,
) -> Result<Option<Kept>, FileError> {
    for kept in (1..=KEPT_MAX).map(Kept::Replaced) {
        let made = link(disk, path, version, kept)?;
        if made.is_some() {
            return Ok(made);
        }
    }
    let what = "it is not of this database, and many such files were kept already; move them away";
    let error = io::Error::new(ErrorKind::AlreadyExists, what);
    Err(FileError::io(path, "replace")(error))
}

/// `None` if another file has that name.
fn link(
    disk: &dyn Disk,
    path: &Path,
    version: FileVersion,
    kept: Kept,
) -> Result<Option<Kept>, FileError> {
    let name = kept.name(path);
    match disk.link(path, &name) {
        Ok(()) => Ok(Some(kept)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // By an attempt that did not come to its end.
            let is_same = version.number != 0 && disk.version(&name).is_ok_and(|it| it == version);
            Ok(is_same.then_some(kept))
        }
        Err(error) => Err(FileError::io(&name, "keep the dump before as")(error)),
    }
}

/// What a dump says of itself before its first key; nothing of what is no dump, or cannot be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// The server that has made it, as it calls itself.
    maker: Option<String>,
    /// When, in Unix seconds.
    made_s: Option<i64>,
    /// Of which database of Indelible it is.
    database: Option<String>,
    /// What it had up to which block.
    lsn: Option<u64>,
}

impl Fields {
    /// Reads them, of the file at `path`.
    pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Self {
        let mut fields = Self::default();
        if !disk.version(path).is_ok_and(|version| version.is_regular) {
            return fields;
        }
        let Ok(file) = disk.open(path, Access::Read) else { return fields };
        let Ok(bytes) = file.len() else { return fields };
        let source = Bytes::new(&*file, bytes);
        let limits = Limits { string_bytes_max: FIELD_BYTES_MAX };
        let Ok(mut reader) = Reader::new(source, limits) else { return fields };
        for _ in 0..FIELDS_MAX {
            let Ok(Event::Aux { name, value }) = reader.next() else { break };
            let value = || String::from_utf8_lossy(value).escape_debug().to_string();
            match name {
                b"redis-ver" => {
                    _ = fields.maker.get_or_insert_with(|| format!("redis {}", value()))
                }
                b"valkey-ver" => fields.maker = Some(format!("valkey {}", value())),
                b"indelible-ver" => fields.maker = Some(format!("indelible {}", value())),
                b"ctime" => fields.made_s = value().parse().ok(),
                b"indelible-database" => fields.database = Some(value()),
                b"indelible-lsn" => fields.lsn = value().parse().ok(),
                _ => {}
            }
        }
        fields
    }

    /// For a person, as of `now_ms`; `None` if nothing is known.
    pub(crate) fn told(&self, now_ms: i64) -> Option<String> {
        let maker = self.maker.as_ref()?;
        let mut told = format!("it was made by {maker}");
        if let Some(made_s) = self.made_s {
            let age_s = (now_ms / 1000).saturating_sub(made_s);
            told += &match made_s.checked_mul(1000) {
                Some(made_ms) if age_s >= 0 => {
                    format!(" at {}, {} ago", TimeOfBlock(made_ms), Age(age_s))
                }
                Some(made_ms) => format!(" at {}, which is to come", TimeOfBlock(made_ms)),
                None => String::new(),
            };
        }
        if let (Some(database), Some(lsn)) = (&self.database, self.lsn) {
            told += &format!(
                ", of database {database} as it was after block {lsn}: what came later was in its log alone"
            );
        }
        Some(told)
    }
}

/// Seconds, in the unit in which they are few.
struct Age(i64);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, unit) = match self.0 {
            ..120 => (1, "s"),
            120..7_200 => (60, "minutes"),
            7_200..172_800 => (3600, "hours"),
            _ => (86_400, "days"),
        };
        write!(f, "{} {unit}", self.0 / of)
    }
}

/// Whether the file at `path` is a dump that a server of this database has written, of what it had up to this block.
pub(crate) fn is_dump_of(disk: &dyn Disk, path: &Path, database: redo::Id, last: Lsn) -> bool {
    let fields = Fields::read(disk, path);
    let is_ours = fields.database.is_some_and(|of| of == database.to_string());
    is_ours && fields.lsn.is_some_and(|lsn| lsn <= last.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use env_sim::{Faults, SimDisk};
    use rdb::{WriteOptions, Writer};

    const DUMP: &str = "/data/dump.rdb";
    const DATABASE: redo::Id = redo::Id([7; 16]);

    fn disk_with(bytes: &[u8]) -> SimDisk {
        let disk = SimDisk::new(1, Faults::default());
        disk.create_dir_all(Path::new("/data")).unwrap();
        disk.create(Path::new(DUMP)).unwrap().write_all_at(bytes, 0).unwrap();
        disk
    }

    fn dump(database: &str, lsn: &str) -> Vec<u8> {
        let mut writer = Writer::begin(Vec::new(), WriteOptions::default()).unwrap();
        writer.aux(b"redis-ver", b"7.0.15").unwrap();
        writer.aux(b"indelible-database", database.as_bytes()).unwrap();
        writer.aux(b"indelible-lsn", lsn.as_bytes()).unwrap();
        writer.finish().unwrap()
    }

    /// Another dump takes its name.
    fn replace(disk: &SimDisk, bytes: &[u8]) {
        let new = Path::new("/data/new");
        disk.create(new).unwrap().write_all_at(bytes, 0).unwrap();
        disk.rename(new, Path::new(DUMP)).unwrap();
    }

    fn keep(disk: &SimDisk, known: &KnownDump, lost_keys: u64) -> Result<Option<Kept>, FileError> {
        let before = Predecessor { database: Some((DATABASE, Lsn(10))), known: known.clone() };
        before.keep(disk, Path::new(DUMP), lost_keys)
    }

    #[test]
    fn a_dump_of_this_database_is_told_from_others() {
        let mut long = Writer::begin(Vec::new(), WriteOptions::default()).unwrap();
        (0..FIELDS_MAX).for_each(|_| long.aux(b"redis-ver", b"7.0.15").unwrap());
        long.aux(b"indelible-database", DATABASE.to_string().as_bytes()).unwrap();
        long.aux(b"indelible-lsn", b"10").unwrap();
        for (bytes, is_ours) in [
            (dump(&DATABASE.to_string(), "10"), true),
            (dump(&DATABASE.to_string(), "11"), false),
            (dump(&redo::Id([8; 16]).to_string(), "10"), false),
            (dump(&DATABASE.to_string(), "x"), false),
            (b"REDIS0011".to_vec(), false),
            (long.finish().unwrap(), false),
        ] {
            let (disk, unknown) = (disk_with(&bytes), KnownDump::default());
            assert_eq!(is_dump_of(&disk, Path::new(DUMP), DATABASE, Lsn(10)), is_ours);
            let kept = (!is_ours).then_some(Kept::Replaced(1));
            assert_eq!(keep(&disk, &unknown, 0).unwrap(), kept);
            assert_eq!(disk.exists(Path::new("/data/dump.rdb.replaced")).unwrap(), !is_ours);
        }
    }

    #[test]
    fn a_dump_tells_where_it_comes_from() {
        let told =
            |bytes: &[u8], now_ms| Fields::read(&disk_with(bytes), Path::new(DUMP)).told(now_ms);
        let mut writer = Writer::begin(Vec::new(), WriteOptions::default()).unwrap();
        writer.aux(b"redis-ver", b"7.0.15").unwrap();
        writer.aux(b"ctime", b"1700000000").unwrap();
        let of_redis = writer.finish().unwrap();
        assert_eq!(
            told(&of_redis, 1_700_010_000_000).unwrap(),
            "it was made by redis 7.0.15 at 2023-11-14T22:13:20.000Z, 2 hours ago"
        );
        let of_us = told(&dump("abc", "12"), 0).unwrap();
        assert!(of_us.contains("of database abc as it was after block 12"), "{of_us}");
        assert_eq!(told(b"*1\r\n$4\r\nPING\r\n", 0), None);
    }

    #[test]
    fn what_was_loaded_is_replaced_and_what_came_after_it_is_not() {
        let (disk, known) = (disk_with(b"REDIS0011"), KnownDump::default());
        known.note(&disk, Path::new(DUMP));
        assert_eq!(keep(&disk, &known, 0).unwrap(), None);
        replace(&disk, b"REDIS0011 later");
        assert_eq!(keep(&disk, &known, 0).unwrap(), Some(Kept::Replaced(1)));
    }

    #[test]
    fn each_one_that_stays_has_a_name_of_its_own() {
        let (disk, unknown) = (disk_with(b"REDIS0011"), KnownDump::default());
        for number in 1..=KEPT_MAX {
            // The second time as after an attempt that has failed.
            for _ in 0..2 {
                assert_eq!(keep(&disk, &unknown, 0).unwrap(), Some(Kept::Replaced(number)));
            }
            replace(&disk, b"REDIS0011");
        }
        let error = keep(&disk, &unknown, 0).unwrap_err().to_string();
        assert!(error.contains("move them away"), "{error}");
    }

    #[test]
    fn the_dump_before_a_loss_stays_once() {
        let (disk, unknown) = (disk_with(&dump(&DATABASE.to_string(), "10")), KnownDump::default());
        assert_eq!(keep(&disk, &unknown, 3).unwrap(), Some(Kept::BeforeLoss));
        assert!(disk.exists(Path::new("/data/dump.rdb.before-loss")).unwrap());
        replace(&disk, &dump(&DATABASE.to_string(), "9"));
        assert_eq!(keep(&disk, &unknown, 3).unwrap(), None);
    }
}

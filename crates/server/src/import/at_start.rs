//! What a start imports: the files that Redis would load from the same directory.
//!
//! ```text
//!   a log is there, and used ────► nothing (what an import has left next to it is removed, and files
//!                                  that are newer than the log are told of)
//!   a log is there, and is not ──► dbfilename, as without a log: an AOF may be what it was made of
//!   ignore-redis-files yes ──────► nothing (what an interrupted import has left is removed)
//!   appendonly yes ── AOF ───────► that: the manifest in appenddirname that is named after appendfilename, or
//!                 └── none ─┐      appendfilename of before Redis 7.0
//!   appendonly no ──────────┴────► dbfilename
//!   not given, and there are both  refused: it is yes here and no in Redis
//! ```
//!
//! What cannot be looked at is not taken for absent: an empty database, or an older one, must not start in its place.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Disk, FileError, Lock};
use keyspace::{Keyspace, NoJournal, Notify};

use super::build::{BUILD_DIR, Place, build, is_unfinished};
use super::manifest::SUFFIX;
use super::{Contents, ImportError, Progress, Report, Source, Target, check};
use crate::config::Config;
use crate::engine::keyspace_settings;
use crate::logger::Logger;
use crate::save::{Fields, KnownDump};

/// It is said every so many percent how far it is.
const SAID_PERCENT: u64 = 10;

/// What a start finds in its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A log, or nothing.
    Nothing,
    /// Files that Redis would load.
    Files {
        /// Them.
        path: PathBuf,
        /// Others, which it would not load, that were changed later.
        newer: Option<PathBuf>,
    },
    /// Files of Redis, which it would not load with this configuration.
    OtherFiles {
        /// Them.
        path: PathBuf,
        /// What to do.
        what: &'static str,
    },
    /// Two sets of files, and the configuration does not say which of them Redis would load.
    Both {
        /// With `appendonly yes`.
        aof: PathBuf,
        /// With `appendonly no`.
        dump: PathBuf,
    },
    /// What is left of an import, and nothing to repeat it with.
    Unfinished,
}

/// What the configuration says of AOFs, before this server turned its log on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appends {
    /// `appendonly yes`.
    Yes,
    /// `appendonly no`.
    No,
    /// Nothing: it is yes here, and no in Redis.
    NotSaid,
}

impl Appends {
    /// Of this configuration; `is_kept` if the log was turned on for the sake of save points.
    pub(crate) fn of(config: &Config, is_kept: bool) -> Self {
        match config.gives_appendonly() {
            _ if is_kept || !config.is_yes("appendonly") => Self::No,
            true => Self::Yes,
            false => Self::NotSaid,
        }
    }
}

/// The files of Redis in a directory, as the configuration names them.
#[derive(Default)]
struct Files {
    /// The manifest of an AOF, or an AOF of before Redis 7.0.
    aof: Option<PathBuf>,
    dump: Option<PathBuf>,
    /// The directory of an AOF with another name.
    unnamed: Option<PathBuf>,
}

impl Files {
    fn look(disk: &dyn Disk, directory: &Path, config: &Config) -> Result<Self, ImportError> {
        let path = |name: &str| (!name.is_empty()).then(|| directory.join(name));
        let there = |path: Option<PathBuf>| match path {
            Some(path) if is_there(disk, &path)? => Ok(Some(path)),
            _ => Ok::<_, ImportError>(None),
        };
        let name = config.value("appendfilename");
        let several = path(config.value("appenddirname"));
        let manifest = there(several.as_ref().map(|dir| dir.join(format!("{name}{SUFFIX}"))))?;
        let unnamed = match several {
            Some(dir) if manifest.is_none() && has_files(disk, &dir)? => Some(dir),
            _ => None,
        };
        let aof = if manifest.is_some() { manifest } else { there(path(name))? };
        Ok(Self { aof, dump: there(path(config.value("dbfilename")))?, unnamed })
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.aof.iter().chain(&self.dump).chain(&self.unnamed)
    }
}

/// Whether there is something of that name, a link that leads nowhere too.
fn is_there(disk: &dyn Disk, path: &Path) -> Result<bool, ImportError> {
    let found = disk.exists(path).and_then(|is_there| Ok(is_there || disk.is_symlink(path)?));
    match found {
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(false),
        found => Ok(found.map_err(FileError::io(path, "look for"))?),
    }
}

/// Whether there are files in this directory, if it is one.
fn has_files(disk: &dyn Disk, dir: &Path) -> Result<bool, ImportError> {
    match disk.list(dir) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        names => Ok(!names.map_err(FileError::io(dir, "read"))?.is_empty()),
    }
}

/// When the file, or a file of that AOF, was changed last.
fn changed_at_ms(disk: &dyn Disk, path: &Path) -> Option<i64> {
    let is_manifest = path.to_str().is_some_and(|path| path.ends_with(SUFFIX));
    let directory = path.parent().filter(|_| is_manifest).unwrap_or(path);
    newest_in(disk, directory).or_else(|| disk.changed_at_ms(path).ok().flatten())
}

fn newest_in(disk: &dyn Disk, directory: &Path) -> Option<i64> {
    let names = disk.list(directory).unwrap_or_default();
    names.iter().filter_map(|name| disk.changed_at_ms(&directory.join(name)).ok().flatten()).max()
}

/// Looks at the directory.
///
/// # Errors
/// [`ImportError::File`] when that cannot be.
pub(crate) fn find(
    disk: &dyn Disk,
    directory: &Path,
    config: &Config,
    appends: Appends,
) -> Result<Found, ImportError> {
    let has_log = is_there(disk, &redo::manifest::path_in(directory))?;
    if config.is_yes("ignore-redis-files") || (has_log && config.is_yes("appendonly")) {
        return Ok(Found::Nothing);
    }
    let files = Files::look(disk, directory, config)?;
    if has_log {
        let found = files.dump.map(|path| Found::Files { path, newer: None });
        return Ok(found.unwrap_or(Found::Nothing));
    }
    Ok(choose(disk, directory, &files, appends))
}

/// What Redis would load of these, where there is no log.
fn choose(disk: &dyn Disk, directory: &Path, files: &Files, appends: Appends) -> Found {
    let chosen = match (&files.aof, &files.dump, appends) {
        (Some(aof), Some(dump), Appends::NotSaid) => {
            return Found::Both { aof: aof.clone(), dump: dump.clone() };
        }
        (Some(aof), None, Appends::NotSaid) | (Some(aof), _, Appends::Yes) => aof,
        (_, Some(dump), _) => dump,
        (Some(aof), None, Appends::No) => {
            let what = "it is imported with appendonly yes";
            return Found::OtherFiles { path: aof.clone(), what };
        }
        (None, None, _) => {
            let what =
                "it is imported with appendonly yes and the name of its manifest as appendfilename";
            return match &files.unnamed {
                Some(path) => Found::OtherFiles { path: path.clone(), what },
                None if is_unfinished(disk, directory) => Found::Unfinished,
                None => Found::Nothing,
            };
        }
    };
    let chosen_at_ms = changed_at_ms(disk, chosen);
    let newer = files.all().find(|it| *it != chosen && changed_at_ms(disk, it) > chosen_at_ms);
    Found::Files { path: chosen.clone(), newer: newer.cloned() }
}

/// Removes what an import has left that is of no use any more: it has come to its end, or is not wanted.
///
/// # Errors
/// When another process uses the directory, or the disk refuses.
pub(crate) fn tidy(disk: &dyn Disk, directory: &Path) -> Result<(), ImportError> {
    let build = directory.join(BUILD_DIR);
    if disk.exists(&build).unwrap_or(false) {
        let _lock = redo::lock(disk, directory)?;
        redo::discard(disk, &build, directory)?;
    }
    Ok(())
}

/// Whether the file is the dump, and not an AOF.
fn is_dump(path: &Path, config: &Config) -> bool {
    path.file_name().is_some_and(|name| name == config.value("dbfilename"))
}

fn open(disk: &dyn Disk, path: &Path, config: &Config) -> Result<Source, ImportError> {
    if is_dump(path, config) { Source::open_dump(disk, path) } else { Source::open(disk, path) }
}

/// Gives a dump of which something is left out a second name: the next save replaces the first one.
///
/// # Errors
/// When that cannot be; otherwise nothing would have what is left out any more.
fn keep(
    disk: &dyn Disk,
    path: &Path,
    contents: &Contents,
    config: &Config,
    logger: &Logger,
) -> Result<(), ImportError> {
    if !is_dump(path, config) || contents.not_served.is_empty() {
        return Ok(());
    }
    let mut kept = path.to_owned().into_os_string();
    kept.push(".imported");
    let kept = PathBuf::from(kept);
    let made = match disk.link(path, &kept) {
        // By a start that was interrupted.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let is_same = disk.version(path).and_then(|it| Ok(it == disk.version(&kept)?));
            if is_same.unwrap_or(false) { Ok(()) } else { Err(error) }
        }
        made => made,
    };
    let directory = path.parent().unwrap_or(Path::new(""));
    made.and_then(|()| disk.sync_dir(directory)).map_err(|source| ImportError::NotKept {
        path: path.to_owned(),
        kept: kept.clone(),
        source,
    })?;
    logger.warning(&format!(
        "WARNING: not all of {} is served; it stays as {}, since the next save replaces {0}",
        path.display(),
        kept.display()
    ));
    Ok(())
}

/// Imports what is at `path`, and tells the log file of it. `lock` is that of the data directory.
///
/// # Errors
/// See [`build`] and [`check`]; there is no log then.
pub(crate) fn import(
    place: &Place,
    lock: Box<dyn Lock>,
    path: &Path,
    config: &Config,
    logger: &Logger,
    tell: &mut dyn FnMut(Progress),
) -> Result<(), ImportError> {
    logger.notice(&format!(
        "There is no redo log, and {} is there: it is imported, and stays as it is",
        path.display()
    ));
    if let Some(told) = Fields::read(&*place.disk, path).told(place.clock.now_ms()) {
        logger.notice(&format!("Of {}: {told}", path.display()));
    }
    let started_us = place.clock.monotonic_us();
    let mut tell = saying(path, logger, tell);
    let source = open(&*place.disk, path, config)?;
    let checked = check(&source, config, &mut tell)?;
    keep(&*place.disk, path, &checked.contents, config, logger)?;
    let built = build(place, Some(lock), &source, &checked, config, &mut tell)?;
    let mut report = built.report;
    report.micros = place.clock.monotonic_us() - started_us;
    report.warnings.iter().for_each(|warning| logger.warning(&format!("WARNING: {warning}")));
    let lines = report.lines();
    lines[report.warnings.len()..]
        .iter()
        .for_each(|line| logger.notice(&format!("Imported: {line}")));
    // The log is loaded as every start loads it, and needs the memory.
    drop(built.keyspace);
    Ok(())
}

/// Loads what is at `path` into memory, where there is no log, and tells the log file of it, and `known`.
///
/// # Errors
/// See [`check`]; and what is noticed only when it is loaded.
pub(crate) fn load_into_memory(
    place: &Place,
    path: &Path,
    config: &Config,
    logger: &Logger,
    known: &KnownDump,
    tell: &mut dyn FnMut(Progress),
) -> Result<Keyspace<NoJournal>, ImportError> {
    let mut tell = saying(path, logger, tell);
    let source = open(&*place.disk, path, config)?;
    let checked = check(&source, config, &mut tell)?;
    let options = config.options();
    let mut seed = [0; 16];
    (place.entropy)().fill(&mut seed);
    let mut keyspace = Keyspace::new(NoJournal, seed, options.databases);
    keyspace_settings(config, &options, keyspace.settings_mut());
    keyspace.settings_mut().notify = Notify::NONE;
    let mut target = Target::in_memory(keyspace, Arc::clone(&place.clock));
    let contents = target.fill(&source, &checked, &mut tell)?;
    source.check_unchanged(&*place.disk)?;
    known.note(&*place.disk, path);
    keep(&*place.disk, path, &checked.contents, config, logger)?;
    checked.warnings.iter().for_each(|warning| logger.warning(&format!("WARNING: {warning}")));
    let (log_bytes, micros) = (0, 0);
    let (source_bytes, warnings) = (source.bytes(), Vec::new());
    let report = Report { contents, warnings, source_bytes, log_bytes, micros };
    report.lines().iter().for_each(|line| logger.notice(&format!("Loaded: {line}")));
    Ok(target.into_keyspace().with_journal(NoJournal))
}

/// Tells the log file now and then, and `tell` always, how far an import is.
fn saying(path: &Path, logger: &Logger, tell: &mut dyn FnMut(Progress)) -> impl FnMut(Progress) {
    let mut said = None;
    move |so_far: Progress| {
        let Progress { stage, bytes_done, bytes_total, items } = so_far;
        let tenths = bytes_done * 100 / bytes_total.max(1) / SAID_PERCENT;
        if said.replace((stage, tenths)) != Some((stage, tenths)) {
            let (what, percentage) = (stage.name(), tenths * SAID_PERCENT);
            let path = path.display();
            logger.notice(&format!("{what} {path}: {percentage} %, {items} keys or commands"));
        }
        tell(so_far);
    }
}

/// The files of Redis next to a log that were changed after it: another server may have had the directory in
/// between. To be asked before the log is opened.
pub(crate) fn newer_than_log(disk: &dyn Disk, directory: &Path, config: &Config) -> Vec<PathBuf> {
    // The log is loaded whatever they are.
    let files = Files::look(disk, directory, config).unwrap_or_default();
    if !redo::is_there(disk, directory) || files.all().next().is_none() {
        return Vec::new();
    }
    let devices = redo::devices_of(disk, directory).unwrap_or_default();
    // The directory's own files are of several, but the manifest is the log's.
    let manifest = disk.changed_at_ms(&redo::manifest::path_in(directory)).ok().flatten();
    let log = devices.iter().filter_map(|device| newest_in(disk, device)).chain(manifest).max();
    let newer = files.all().filter(|path| changed_at_ms(disk, path) > log);
    newer.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use env_sim::{Faults, SimClock, SimDisk};

    fn disk_with(files: &[(&str, &[u8])]) -> SimDisk {
        let disk = SimDisk::new(1, Faults::default());
        disk.create_dir_all(Path::new("/data")).unwrap();
        for (path, bytes) in files {
            let path = Path::new(path);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.create(path).unwrap().write_all_at(bytes, 0).unwrap();
        }
        disk
    }

    fn config(options: &[&str]) -> Config {
        let words: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
        crate::config::load(None, &words).unwrap()
    }

    fn found(files: &[&str], options: &[&str]) -> Found {
        let files: Vec<(&str, &[u8])> = files.iter().map(|path| (*path, &b"x"[..])).collect();
        let mut config = config(options);
        let is_kept = config.keep_what_redis_keeps();
        let appends = Appends::of(&config, is_kept);
        find(&disk_with(&files), Path::new("/data"), &config, appends).unwrap()
    }

    const DUMP: &str = "/data/dump.rdb";
    const OLD_AOF: &str = "/data/appendonly.aof";
    const AOF: &str = "/data/appendonlydir/appendonly.aof.manifest";

    #[test]
    fn what_redis_would_load_is_found() {
        let files = |path: &str| Found::Files { path: path.into(), newer: None };
        let other = |found: Found| match found {
            Found::OtherFiles { path, .. } => path,
            found => panic!("{found:?}"),
        };
        let (yes, no) = (["--appendonly", "yes"], ["--appendonly", "no"]);
        let nowhere = ["--appendonly", "no", "--save", ""];
        assert_eq!(found(&[], &yes), Found::Nothing);
        assert_eq!(found(&[DUMP], &yes), files(DUMP));
        assert_eq!(found(&[DUMP, OLD_AOF], &yes), files(OLD_AOF));
        assert_eq!(found(&[DUMP, OLD_AOF, AOF], &yes), files(AOF));
        for no in [&no[..], &nowhere] {
            assert_eq!(found(&[DUMP, OLD_AOF, AOF], no), files(DUMP));
            assert_eq!(other(found(&[AOF], no)), Path::new(AOF));
        }
        let ignoring = ["--ignore-redis-files", "yes"];
        assert_eq!(found(&[DUMP], &ignoring), Found::Nothing);
        assert_eq!(found(&[DUMP, "/data/redo.manifest"], &yes), Found::Nothing);
        assert_eq!(found(&["/data/import-tmp/redo.manifest"], &yes), Found::Unfinished);
        assert_eq!(found(&["/data/import-tmp/redo.manifest", DUMP], &yes), files(DUMP));
        let names = ["--dbfilename", "d", "--appenddirname", "a", "--appendfilename", "f"];
        assert_eq!(found(&[DUMP, AOF, OLD_AOF], &names), Found::Nothing);
        assert_eq!(found(&["/data/d", "/data/f"], &[&names[..], &yes].concat()), files("/data/f"));
        // An AOF is found by its name alone.
        for another in ["temp-appendonly.aof.manifest", "other.manifest", "a.1.incr.aof"] {
            let another = format!("/data/appendonlydir/{another}");
            assert_eq!(found(&[&another, AOF], &yes), files(AOF));
            assert_eq!(found(&[&another, OLD_AOF, DUMP], &yes), files(OLD_AOF));
            assert_eq!(found(&[&another, DUMP], &yes), files(DUMP));
            assert_eq!(other(found(&[&another], &yes)), Path::new("/data/appendonlydir"));
        }
    }

    #[test]
    fn where_the_configuration_does_not_say_which_files_count_none_are_taken() {
        let files = |path: &str| Found::Files { path: path.into(), newer: None };
        for options in [&[][..], &["--save", "60 1"], &["--save", ""]] {
            for aof in [AOF, OLD_AOF] {
                let both = Found::Both { aof: aof.into(), dump: DUMP.into() };
                assert_eq!(found(&[DUMP, aof], options), both);
                assert_eq!(found(&[aof], options), files(aof));
            }
            assert_eq!(found(&[DUMP], options), files(DUMP));
        }
    }

    #[test]
    fn a_dump_of_which_something_is_left_out_keeps_a_name() {
        const KEPT: &str = "/data/dump.rdb.imported";
        let (disk, config) = (disk_with(&[(DUMP, b"x")]), config(&[]));
        let logger = Logger::to_nothing(Arc::new(SimClock::new(0)));
        let mut contents = Contents::default();
        let keep = |contents: &Contents, disk: &SimDisk, path: &str| {
            keep(disk, Path::new(path), contents, &config, &logger)
        };
        keep(&contents, &disk, DUMP).unwrap();
        assert!(!disk.exists(Path::new(KEPT)).unwrap());
        contents.note_not_served("keys of type stream");
        for _ in 0..2 {
            keep(&contents, &disk, DUMP).unwrap();
            assert!(disk.exists(Path::new(KEPT)).unwrap());
        }
        keep(&contents, &disk, OLD_AOF).unwrap();
        // Another file has that name.
        let disk = disk_with(&[(DUMP, b"x"), (KEPT, b"y")]);
        let error = keep(&contents, &disk, DUMP).unwrap_err().to_string();
        assert!(error.contains(KEPT), "{error}");
    }
}

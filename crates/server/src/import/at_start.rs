//! What a start imports: the files that Redis would load from the same directory.
//!
//! ```text
//!   a log is there ──────────────► nothing (what an import has left next to it is removed, and files
//!                                  that are newer than the log are told of)
//!   ignore-redis-files yes ──────► nothing (what an interrupted import has left is removed)
//!   appendonly yes ── AOF ───────► that: appenddirname, or appendfilename of before Redis 7.0
//!                 └── none ─┐
//!   appendonly no ──────────┴────► dbfilename
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env::{Access, Disk};
use keyspace::{Keyspace, NoJournal, Notify};
use rdb::{Event, Limits, Reader};

use super::build::{BUILD_DIR, Place, build, is_unfinished};
use super::source::Bytes;
use super::{ImportError, Progress, Report, Source, Target, check};
use crate::config::Config;
use crate::engine::keyspace_settings;
use crate::logger::Logger;

/// It is said every so many percent how far it is.
const SAID_PERCENT: u64 = 10;

/// What a start finds in its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A log, or nothing.
    Nothing,
    /// Files that Redis would load.
    Files(PathBuf),
    /// Files of Redis, which it would not load with this configuration.
    OtherFiles(PathBuf),
    /// What is left of an import, and nothing to repeat it with.
    Unfinished,
}

/// The files of Redis that a configuration names, as far as they are there: of an AOF, and a dump.
fn files(disk: &dyn Disk, directory: &Path, config: &Config) -> (Option<PathBuf>, Option<PathBuf>) {
    let path = |directive: &str| {
        let name = config.value(directive);
        let path = (!name.is_empty()).then(|| directory.join(name));
        path.filter(|path| disk.exists(path).unwrap_or(false))
    };
    let several = path("appenddirname").filter(|dir| !disk.list(dir).is_ok_and(|it| it.is_empty()));
    (several.or_else(|| path("appendfilename")), path("dbfilename"))
}

/// Looks at the directory. `appends` is what `appendonly` was before this server turned it on.
pub(crate) fn find(disk: &dyn Disk, directory: &Path, config: &Config, appends: bool) -> Found {
    if redo::is_there(disk, directory) || config.is_yes("ignore-redis-files") {
        return Found::Nothing;
    }
    let (aof, dump) = files(disk, directory, config);
    match (aof, dump) {
        (Some(aof), _) if appends => Found::Files(aof),
        (_, Some(dump)) => Found::Files(dump),
        (Some(aof), None) => Found::OtherFiles(aof),
        (None, None) if is_unfinished(disk, directory) => Found::Unfinished,
        (None, None) => Found::Nothing,
    }
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

/// Imports what is at `path`, and tells the log file of it.
///
/// # Errors
/// See [`build`] and [`check`]; there is no log then.
pub(crate) fn import(
    place: &Place,
    path: &Path,
    config: &Config,
    logger: &Logger,
    tell: &mut dyn FnMut(Progress),
) -> Result<(), ImportError> {
    logger.notice(&format!(
        "There is no redo log, and {} is there: it is imported, and stays as it is",
        path.display()
    ));
    let started_us = place.clock.monotonic_us();
    let mut tell = saying(path, logger, tell);
    let source = Source::open(&*place.disk, path)?;
    let checked = check(&source, config, &mut tell)?;
    let built = build(place, &source, &checked, config, &mut tell)?;
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

/// Loads what is at `path` into memory, where there is no log, and tells the log file of it.
///
/// # Errors
/// See [`check`]; and what is noticed only when it is loaded.
pub(crate) fn load_into_memory(
    place: &Place,
    path: &Path,
    config: &Config,
    logger: &Logger,
    tell: &mut dyn FnMut(Progress),
) -> Result<Keyspace<NoJournal>, ImportError> {
    let mut tell = saying(path, logger, tell);
    let source = Source::open(&*place.disk, path)?;
    let checked = check(&source, config, &mut tell)?;
    let options = config.options();
    let mut seed = [0; 16];
    (place.entropy)().fill(&mut seed);
    let mut keyspace = Keyspace::new(NoJournal, seed, options.databases);
    keyspace_settings(config, &options, keyspace.settings_mut());
    keyspace.settings_mut().notify = Notify::NONE;
    let mut target = Target::in_memory(keyspace, Arc::clone(&place.clock));
    let contents = target.fill(&source, &checked, &mut tell)?;
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
    let (aof, dump) = files(disk, directory, config);
    if !redo::is_there(disk, directory) || (aof.is_none() && dump.is_none()) {
        return Vec::new();
    }
    let changed = |path: &Path| disk.changed_at_ms(path).ok().flatten();
    let newest_in = |dir: &Path| {
        let names = disk.list(dir).unwrap_or_default();
        names.iter().filter_map(|name| changed(&dir.join(name))).max()
    };
    let devices = redo::devices_of(disk, directory).unwrap_or_default();
    // The directory's own files are of several, but the manifest is the log's.
    let manifest = changed(&redo::manifest::path_in(directory));
    let log = devices.iter().filter_map(|device| newest_in(device)).chain(manifest).max();
    let newest = |path: &Path| newest_in(path).or_else(|| changed(path));
    let files = aof.into_iter().chain(dump);
    files.filter(|path| newest(path).is_some_and(|at_ms| Some(at_ms) > log)).collect()
}

/// Whether a dump is one that the server of this log has written, of what the log has.
pub(crate) fn is_our_dump(disk: &dyn Disk, path: &Path, database: redo::Id, last: Lsn) -> bool {
    let Ok(file) = disk.open(path, Access::Read) else { return false };
    let Ok(bytes) = file.len() else { return false };
    let source = Bytes::new(&*file, bytes);
    let Ok(mut reader) = Reader::new(source, Limits::default()) else { return false };
    let (mut is_ours, mut is_old) = (false, false);
    while let Ok(Event::Aux { name, value }) = reader.next() {
        let value = String::from_utf8_lossy(value);
        match name {
            b"indelible-database" => is_ours = value == database.to_string(),
            b"indelible-lsn" => is_old = value.parse().is_ok_and(|lsn: u64| lsn <= last.0),
            _ => {}
        }
    }
    is_ours && is_old
}

#[cfg(test)]
mod tests {
    use super::*;
    use env_sim::{Faults, SimDisk};
    use rdb::{WriteOptions, Writer};

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

    fn found(files: &[&str], options: &[&str], appends: bool) -> Found {
        let files: Vec<(&str, &[u8])> = files.iter().map(|path| (*path, &b"x"[..])).collect();
        let words: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
        let config = crate::config::load(None, &words).unwrap();
        find(&disk_with(&files), Path::new("/data"), &config, appends)
    }

    const DUMP: &str = "/data/dump.rdb";
    const OLD_AOF: &str = "/data/appendonly.aof";
    const AOF: &str = "/data/appendonlydir/appendonly.aof.manifest";

    #[test]
    fn what_redis_would_load_is_found() {
        let files = |path: &str| Found::Files(path.into());
        assert_eq!(found(&[], &[], true), Found::Nothing);
        assert_eq!(found(&[DUMP], &[], true), files(DUMP));
        assert_eq!(found(&[DUMP, OLD_AOF], &[], true), files(OLD_AOF));
        assert_eq!(found(&[DUMP, OLD_AOF, AOF], &[], true), files("/data/appendonlydir"));
        assert_eq!(found(&[DUMP, OLD_AOF, AOF], &[], false), files(DUMP));
        assert_eq!(found(&[AOF], &[], false), Found::OtherFiles("/data/appendonlydir".into()));
        assert_eq!(found(&[DUMP], &["--ignore-redis-files", "yes"], true), Found::Nothing);
        assert_eq!(found(&[DUMP, "/data/redo.manifest"], &[], true), Found::Nothing);
        assert_eq!(found(&["/data/import-tmp/redo.manifest"], &[], true), Found::Unfinished);
        assert_eq!(found(&["/data/import-tmp/redo.manifest", DUMP], &[], true), files(DUMP));
        let names = ["--dbfilename", "d", "--appenddirname", "a", "--appendfilename", "f"];
        assert_eq!(found(&[DUMP, AOF, OLD_AOF], &names, true), Found::Nothing);
        assert_eq!(found(&["/data/d", "/data/f"], &names, true), files("/data/f"));
    }

    #[test]
    fn a_dump_of_this_log_is_told_from_others() {
        let database = redo::Id([7; 16]);
        let dump = |name: &str, lsn: &str| {
            let mut writer = Writer::begin(Vec::new(), WriteOptions::default()).unwrap();
            writer.aux(b"redis-ver", b"7.0.15").unwrap();
            writer.aux(b"indelible-database", name.as_bytes()).unwrap();
            writer.aux(b"indelible-lsn", lsn.as_bytes()).unwrap();
            writer.finish().unwrap()
        };
        for (bytes, is_ours) in [
            (dump(&database.to_string(), "10"), true),
            (dump(&database.to_string(), "11"), false),
            (dump(&redo::Id([8; 16]).to_string(), "10"), false),
            (dump(&database.to_string(), "x"), false),
            (b"REDIS0011".to_vec(), false),
        ] {
            let disk = disk_with(&[(DUMP, &bytes)]);
            assert_eq!(is_our_dump(&disk, Path::new(DUMP), database, Lsn(10)), is_ours);
        }
    }
}

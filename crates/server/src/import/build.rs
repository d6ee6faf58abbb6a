//! The second pass: a new log from checked files, which counts when all of it is durable.
//!
//! ```text
//!   lock dir · discard what an earlier attempt has left
//!   dir/import-tmp/redo.manifest ── devices as they will be      load · close
//!   publish: dir/redo.manifest                                   from here on it is the log of dir
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Clock, Disk, Entropy, Lock};
use keyspace::{Keyspace, Notify};
use rdb::Reader;

use super::check::{Checked, Rules};
use super::contents::{Contents, Report};
use super::dump::DumpLoad;
use super::play::Play;
use super::source::{Form, Source, SourceFile};
use super::target::{Bell, Target};
use super::{ImportError, Progress, Stage, Teller};
use crate::config::Config;
use crate::engine::{BoxedLog, LogState, keyspace_settings};
use crate::load::{Shape, load, log_options};

/// Where the manifest is until it counts, below the data directory.
pub(super) const BUILD_DIR: &str = "import-tmp";

/// Where a log is built, and what that takes.
pub struct Place {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub entropy: fn() -> Box<dyn Entropy>,
    /// The data directory.
    pub directory: PathBuf,
    /// Starts what steps the log's flushers.
    pub start: fn(redo::Opened) -> io::Result<BoxedLog>,
}

/// A log that was built.
pub struct Built {
    /// What is in it.
    pub report: Report,
    /// All of that, without a journal. To free it takes a while.
    pub keyspace: Keyspace<LogState>,
}

/// Whether an import into `directory` has not come to its end.
#[must_use]
pub fn is_unfinished(disk: &dyn Disk, directory: &Path) -> bool {
    let has_begun = disk.exists(&directory.join(BUILD_DIR)).unwrap_or(false);
    has_begun && !redo::is_there(disk, directory)
}

/// Builds the log of `place` from files that were checked. Its directory is locked meanwhile, by `lock` if that
/// was done before.
///
/// # Errors
/// When there is a log, or it is in use; when what was noticed only now is wrong with the files; or when the
/// disk refuses. There is no log then.
pub fn build(
    place: &Place,
    lock: Option<Box<dyn Lock>>,
    source: &Source,
    checked: &Checked,
    config: &Config,
    tell: &mut dyn FnMut(Progress),
) -> Result<Built, ImportError> {
    let (disk, dir) = (&*place.disk, &place.directory);
    let started_us = place.clock.monotonic_us();
    let _lock = lock.map_or_else(|| redo::lock(disk, dir), Ok)?;
    let build = dir.join(BUILD_DIR);
    redo::discard(disk, &build, dir)?;
    if redo::is_there(disk, dir) {
        let what = "holds a redo log: data is imported into new directories only";
        return Err(ImportError::NotNew { path: dir.clone(), what });
    }
    redo::begin(disk, &build, dir, &[])?;
    let made = make(place, &build, source, checked, config, tell);
    let published = made.and_then(|built| {
        source.check_unchanged(disk)?;
        redo::publish(disk, &build, dir)?;
        Ok(built)
    });
    match published {
        Ok(mut built) => {
            built.report.micros = place.clock.monotonic_us() - started_us;
            Ok(built)
        }
        Err(why) => {
            // What stays is removed by the next attempt.
            let _ignored = redo::discard(disk, &build, dir);
            Err(why)
        }
    }
}

fn make(
    place: &Place,
    build: &Path,
    source: &Source,
    checked: &Checked,
    config: &Config,
    tell: &mut dyn FnMut(Progress),
) -> Result<Built, ImportError> {
    let options = config.options();
    let mut log_options = log_options(&options, place.directory.clone());
    log_options.devices = log_options.device_dirs();
    // What it was while it was built is of no use.
    log_options.history = redo::HistoryOptions::OFF;
    log_options.destination = Some(place.directory.clone());
    log_options.dir = build.to_owned();
    let bell = Bell::new();
    let env = redo::Env {
        disk: Arc::clone(&place.disk),
        clock: Arc::clone(&place.clock),
        entropy: (place.entropy)(),
        waker: bell.waker(),
    };
    let recovery = redo::Recovery::open(env, log_options)?;
    let shape = Shape::new(&options, place.clock.now_ms());
    let (keyspace, opened) = load(recovery, shape, None, &mut |_| {})?;
    let mut keyspace = keyspace.expect("only a bounded one is given up");
    keyspace_settings(config, &options, keyspace.settings_mut());
    // There are no clients that would hear of it.
    keyspace.settings_mut().notify = Notify::NONE;
    let log = (place.start)(opened).map_err(ImportError::NoThread)?;
    let mut target = Target::with_log(keyspace, log, Arc::clone(&place.clock), bell);
    let contents = match fill(&mut target, source, checked, tell) {
        Ok(contents) => contents,
        Err(why) => {
            target.abandon();
            return Err(why);
        }
    };
    let (keyspace, log_bytes) = target.close()?;
    let report = Report {
        contents,
        warnings: checked.warnings.clone(),
        source_bytes: source.bytes(),
        log_bytes,
        micros: 0,
    };
    Ok(Built { report, keyspace })
}

impl Target {
    /// Loads files that were checked. Returns what is there then.
    ///
    /// # Errors
    /// What was noticed only now: keys that stand twice, commands that fail.
    pub fn fill(
        &mut self,
        source: &Source,
        checked: &Checked,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Contents, ImportError> {
        fill(self, source, checked, tell)
    }
}

fn fill(
    target: &mut Target,
    source: &Source,
    checked: &Checked,
    tell: &mut dyn FnMut(Progress),
) -> Result<Contents, ImportError> {
    let now_ms = target.keyspace.now_ms();
    let rules = &checked.rules;
    let mut teller = Teller::new(Stage::Loading, source.bytes(), tell);
    // What was left out was counted already.
    let Contents { left_out, not_served, libraries, .. } = checked.contents.clone();
    let mut contents = Contents::default();
    target.keyspace.set_timeless(true);
    for (file, end) in source.files.iter().zip(&checked.ends) {
        file_into(target, file, *end, rules, &mut contents, now_ms, &mut teller)?;
        teller.end_file(file.bytes);
    }
    if contents.commands != checked.contents.commands {
        return Err(ImportError::Changed { path: source.path().to_owned() });
    }
    target.keyspace.set_timeless(false);
    if contents.commands > 0 {
        contents.count(&mut target.keyspace);
    }
    (contents.left_out, contents.not_served) = (left_out, not_served);
    if target.keyspace.libraries().len() as u64 != libraries {
        return Err(ImportError::Changed { path: source.path().to_owned() });
    }
    contents.libraries = libraries;
    Ok(contents)
}

fn file_into(
    target: &mut Target,
    file: &SourceFile,
    end: u64,
    rules: &Rules,
    contents: &mut Contents,
    now_ms: i64,
    teller: &mut Teller<'_>,
) -> Result<(), ImportError> {
    let source = file.read_to(end);
    let dump_error = |source: rdb::Error| ImportError::Dump { path: file.path.clone(), source };
    let databases = rules.databases;
    if file.form == Form::Dump {
        let reader = Reader::new(source, rules.limits()).map_err(dump_error)?;
        let drops_expired_before_ms = Some(now_ms);
        DumpLoad { file, reader, target, databases, contents, drops_expired_before_ms }
            .run(teller)?;
        return Ok(());
    }
    if !file.begins_as_dump()? {
        return Play { file, target, rules, contents, end }.run(source, 0, teller);
    }
    let reader = Reader::embedded(source, rules.limits()).map_err(dump_error)?;
    let load =
        DumpLoad { file, reader, target, databases, contents, drops_expired_before_ms: None };
    let reader = load.run(teller)?;
    let offset = reader.offset();
    Play { file, target, rules, contents, end }.run(reader.into_rest(), offset, teller)
}

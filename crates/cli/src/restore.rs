//! `indelible restore`: makes a data directory of a log as it was.

use std::fs::File;
use std::io::Write as _;
use std::num::NonZero;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::{ArgGroup, Parser};
use env::Clock as _;
use env_os::{OsClock, OsDisk, OsEntropy};
use redo::{RestorePoint, RestoreRequest, Restored, Restoring, TimeOfBlock, WantedKey};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::archive::{FromArchive, is_archive};
use crate::archive_places::KeyFiles;
use crate::expiry::Expiry;
use crate::in_place::InPlace;
use crate::progress::Line;

/// Makes a new data directory of the log in another one, as it was after a block: what the log has, and what its
/// server has kept of what compactions replaced (log-history-seconds). The server may run meanwhile; nothing of its data is changed. What is made
/// is a database of its own, checked to the last record. Or, with --in-place, sets the data directory of a server that has ended
/// back to what it was. Or, with --keys PATTERN --to HOST:PORT, brings single keys of then into a server that runs: see
/// indelible restore --keys --help.
#[derive(Parser)]
#[command(name = "indelible restore", version)]
#[command(group(ArgGroup::new("point").required(true).args(["at", "before", "before_delete", "latest"])))]
#[command(group(ArgGroup::new("target").required(true).multiple(true).args(["into", "in_place", "dry_run"])))]
pub(crate) struct Arguments {
    /// The data directory of the server, or an archive of its log: file:///path, s3://bucket/prefix or transfer:HOST:PORT/name.
    source: PathBuf,
    /// The data directory that is made: empty, or not there yet.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Sets the data directory itself back, whose server has ended: what it is now is kept as a backup, files are put back in
    /// place, and no more is written than segments that have blocks on both sides.
    #[arg(long, conflicts_with_all = ["into", "dry_run"])]
    in_place: bool,
    /// The state of this backup, after this block of the log, or at this time: 2026-11-22T10:31:05.412+01:00, or so long ago: -90s, -2m, -1h,
    /// -1d. Of a time it is the last block that was ended by then.
    #[arg(long, value_name = "NAME|LSN|TIME", allow_hyphen_values = true, value_parser = wanted)]
    at: Option<Wanted>,
    /// The state before the last FLUSHALL, FLUSHDB or SWAPDB; flush:2 for the one before that.
    #[arg(long, value_name = "flush[:N]", value_parser = flush)]
    before: Option<usize>,
    /// The state before the block in which this key was lost last: deleted, expired, or flushed with its database.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    before_delete: Option<String>,
    /// The database of that key.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "before_delete")]
    db: u64,
    /// The newest state.
    #[arg(long)]
    latest: bool,
    /// When keys expire: absolute, when they would have; relative, after as long as they had left then; or never.
    #[arg(long, value_enum, default_value_t = Expiry::Absolute)]
    expiry: Expiry,
    /// Says what would be restored, and makes nothing.
    #[arg(long)]
    dry_run: bool,
    /// Says it as an object of JSON.
    #[arg(long)]
    json: bool,
    /// The directories of log-devices; without them, those that the log itself names.
    #[arg(long = "device", visible_alias = "log-devices", value_name = "DIRECTORY", num_args = 1..)]
    devices: Vec<PathBuf>,
    /// Of an archive: the database, if it has several.
    #[arg(long, value_name = "ID")]
    database: Option<String>,
    #[command(flatten)]
    keys: KeyFiles,
}

/// What `--at` says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    Lsn(u64),
    /// Unix milliseconds.
    Time(i64),
    /// So many milliseconds ago.
    Ago(i64),
    /// The backup of this name.
    Backup(String),
}

/// Which state of an archive or a log a text means, as of `--at`.
pub(crate) fn point_of(text: &str) -> anyhow::Result<RestorePoint> {
    let now_ms = OsClock::new().now_ms();
    Ok(match wanted(text).map_err(anyhow::Error::msg)? {
        Wanted::Lsn(lsn) => RestorePoint::Lsn(lsn),
        Wanted::Time(time_ms) => RestorePoint::Time(time_ms),
        Wanted::Ago(ms) => RestorePoint::Time(now_ms.saturating_sub(ms)),
        Wanted::Backup(name) => RestorePoint::Backup(name),
    })
}

fn wanted(text: &str) -> Result<Wanted, String> {
    if let Ok(lsn) = text.parse() {
        return Ok(Wanted::Lsn(lsn));
    }
    if text.starts_with('-') {
        let ago = redo::parse_ago(text).map(Wanted::Ago);
        return ago.ok_or_else(|| "give a number of s, m, h or d: -90s".to_owned());
    }
    if let Some(time_ms) = redo::parse_time(text) {
        let is_to_come = time_ms > OsClock::new().now_ms();
        let what = "that time is still to come: --latest is the newest state";
        return if is_to_come { Err(what.to_owned()) } else { Ok(Wanted::Time(time_ms)) };
    }
    let what = "give the name of a backup, a block, a time as in 2026-11-22T10:31:05Z or 2026-11-22T10:31:05.412+01:00, or -90s";
    let is_name = redo::is_backup_name(text);
    is_name.then(|| Wanted::Backup(text.to_owned())).ok_or_else(|| what.to_owned())
}

fn flush(text: &str) -> Result<usize, &'static str> {
    let count = match text.strip_prefix("flush") {
        Some("") => Some(1),
        Some(count) => count.strip_prefix(':').and_then(|count| count.parse().ok()),
        None => None,
    };
    count.filter(|count| *count > 0).ok_or("say flush, or flush:2 for the one before the last")
}

/// Runs `indelible restore` with these arguments, the first of which is `restore`.
pub(crate) fn restore(arguments: &[String]) -> ExitCode {
    crate::arguments::run(arguments, Arguments::run)
}

impl Arguments {
    fn point(&self) -> RestorePoint {
        let now_ms = OsClock::new().now_ms();
        if let Some(key) = &self.before_delete {
            let (database, key) = (self.db, key.clone().into_bytes());
            return RestorePoint::BeforeDelete(WantedKey { database, key });
        }
        match (&self.at, self.before) {
            (Some(Wanted::Lsn(lsn)), _) => RestorePoint::Lsn(*lsn),
            (Some(Wanted::Time(time_ms)), _) => RestorePoint::Time(*time_ms),
            (Some(Wanted::Ago(ms)), _) => RestorePoint::Time(now_ms.saturating_sub(*ms)),
            (Some(Wanted::Backup(name)), _) => RestorePoint::Backup(name.clone()),
            (None, Some(count)) => RestorePoint::BeforeFlush(count),
            (None, None) => RestorePoint::Latest,
        }
    }

    fn run_from_archive(&self, point: RestorePoint) -> anyhow::Result<ExitCode> {
        let into =
            self.into.as_deref().filter(|_| !self.dry_run).map(std::path::absolute).transpose()?;
        let point = match point {
            RestorePoint::Latest => archive::Point::Latest,
            RestorePoint::Lsn(lsn) => archive::Point::Lsn(lsn),
            RestorePoint::Time(time_ms) => archive::Point::Time(time_ms),
            RestorePoint::BeforeFlush(count) => archive::Point::BeforeFlush(count),
            RestorePoint::Backup(name) => archive::Point::Backup(name),
            RestorePoint::BeforeDelete(key) => archive::Point::BeforeDelete(key),
        };
        let from = FromArchive {
            url: self.source.to_str().unwrap_or_default(),
            keys: &self.keys,
            database: self.database.as_deref(),
            into: into.as_deref(),
            point,
            expiry: self.expiry.of_log(),
            is_json: self.json,
        };
        from.run()
    }

    fn run(self) -> anyhow::Result<ExitCode> {
        let point = self.point();
        if self.in_place {
            anyhow::ensure!(!is_archive(&self.source), "an archive is restored --into a directory");
            anyhow::ensure!(
                self.expiry == Expiry::Absolute,
                "--expiry {} writes every key that expires anew, and --in-place writes as good as nothing: restore --into a \
                 directory",
                self.expiry.word()
            );
            let in_place =
                InPlace { source: &self.source, devices: &self.devices, point, is_json: self.json };
            return Ok(in_place.run()?.unwrap_or_else(|| no_log(&self.source)));
        }
        if is_archive(&self.source) {
            return self.run_from_archive(point);
        }
        let durable = match redo::database_of(&OsDisk, &self.source)? {
            // An index may be the only witness of what was durable.
            Some(database) => {
                indexing::peek(&OsDisk, &self.source.join("index"), database.0)?.durable()
            }
            None => return Ok(no_log(&self.source)),
        };
        let into =
            self.into.as_deref().filter(|_| !self.dry_run).map(std::path::absolute).transpose()?;
        // However it is spelled this time: one that was cut off goes on.
        let source = std::path::absolute(&self.source)?;
        let request = RestoreRequest {
            source: &source,
            devices: &self.devices,
            into: into.as_deref(),
            room_in: self.into.as_deref().filter(|_| self.dry_run),
            point,
            durable,
            reader: std::process::id(),
            expiry: self.expiry.of_log(),
            threads: threads(),
        };
        let number = request.reader;
        remove_links_when_ended(&self.source, &self.devices, number)?;
        let (mut line, started) = (Line::new(), Instant::now());
        let disk: Arc<dyn env::Disk> = Arc::new(OsDisk);
        let mut entropy = OsEntropy;
        let restored = redo::restore(&disk, &request, &mut entropy, &mut |so_far| match so_far {
            Restoring::Finding(done, all) => line.show_bytes("reading the log", done, all),
            Restoring::Copying(done, all) => line.show_bytes("copying", done, all),
            Restoring::Verifying => line.show_bytes("verifying", 0, 0),
        });
        line.end();
        let Some(restored) = restored? else { return Ok(no_log(&self.source)) };
        if let (Some(into), Some(text)) = (&into, &restored.configuration) {
            write_configuration(into, text);
        }
        if self.json {
            println!("{}", json(&restored));
        } else {
            print!("{}", report(&restored, into.as_deref(), started.elapsed().as_secs_f64()));
        }
        if let Some(into) = self.into.as_deref().filter(|_| self.dry_run && !self.json) {
            print!("{}", room(&restored, into));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Says which state of a log would be restored. `None` if there is no log, which was said.
pub(crate) fn look(
    source: &Path,
    devices: &[PathBuf],
    point: RestorePoint,
) -> anyhow::Result<Option<Restored>> {
    let Some(database) = redo::database_of(&OsDisk, source)? else {
        no_log(source);
        return Ok(None);
    };
    let durable = indexing::peek(&OsDisk, &source.join("index"), database.0)?.durable();
    let reader = std::process::id();
    let request = RestoreRequest {
        source,
        devices,
        into: None,
        room_in: None,
        point,
        durable,
        reader,
        expiry: redo::Expiry::Absolute,
        threads: threads(),
    };
    remove_links_when_ended(source, devices, reader)?;
    let mut line = Line::new();
    let disk: Arc<dyn env::Disk> = Arc::new(OsDisk);
    let restored = redo::restore(&disk, &request, &mut OsEntropy, &mut |so_far| {
        if let Restoring::Finding(done, all) = so_far {
            line.show_bytes("reading the log", done, all);
        }
    });
    line.end();
    Ok(restored?)
}

/// How many threads a restore takes at most: each has a file of its own, and no disk gains from more.
pub(crate) fn threads() -> NonZero<usize> {
    const MAX: NonZero<usize> = NonZero::new(16).expect("it is not 0");
    std::thread::available_parallelism().map_or(NonZero::<usize>::MIN, |count| count.min(MAX))
}

/// Writes the configuration that a backup carries next to the data, where nothing reads it. What was restored is as good without.
pub(crate) fn write_configuration(directory: &Path, text: &str) {
    let path = directory.join("indelible.conf.restored");
    let head = "# What the server's configuration was then. It is not applied. Of secret directives it has no\n\
                # values; of users it has SHA-256 of their passwords, without a salt.\n";
    match replace_file(&path, [head, text].concat().as_bytes()) {
        Ok(()) => eprintln!("the configuration of then is in {}, and not applied", path.display()),
        Err(error) => eprintln!(
            "all is restored, but the configuration of then could not be written to {}: {error}; `indelible backup show` has it",
            path.display()
        ),
    }
}

/// Puts a file that only its owner reads in the place of what has its name: a link there is replaced, and never followed, because the directory
/// may be another user's.
fn replace_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let new = path.with_file_name(name);
    // A file of this process alone: one of that name is of a process that is gone.
    let _none = std::fs::remove_file(&new);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(bytes).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        let _kept = std::fs::remove_file(&new);
    }
    written
}

fn no_log(directory: &Path) -> ExitCode {
    crate::log::say_no_log(directory);
    ExitCode::FAILURE
}

fn shown_time(time_ms: Option<i64>) -> String {
    time_ms
        .map_or_else(|| "at a time that is not known".to_owned(), |ms| TimeOfBlock(ms).to_string())
}

/// What was restored, for a person.
pub(crate) fn report(restored: &Restored, into: Option<&Path>, seconds: f64) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let lsn = restored.parent.lsn;
    let _infallible = writeln!(text, "block {lsn}, ended {}", shown_time(restored.time_ms));
    let (before, after) = restored.neighbours;
    for (what, block) in [("the one before it", before), ("the next one", after)] {
        if let Some(block) = block {
            let _infallible =
                writeln!(text, "{what}: {}, ended {}", block.lsn, TimeOfBlock(block.time_ms));
        }
    }
    if restored.is_resumed {
        text.push_str("it went on where a restore of the same block had been cut off\n");
    }
    let Restored { files, bytes, blocks, records, .. } = restored;
    let _infallible = match (into, restored.database) {
        (Some(into), Some(database)) => writeln!(
            text,
            "restored {records} records in {blocks} blocks, all of them read back: {files} files, {bytes} bytes, in \
             {seconds:.1} s\n\
             {} is database {database}, and begins behind block {lsn} of {}\n\
             start it: indelible server --dir {}",
            into.display(),
            restored.parent.database,
            into.display()
        ),
        _ => writeln!(text, "would read {files} files of {bytes} bytes; nothing was made"),
    };
    text
}

/// Whether what would be restored fits, for a person.
fn room(restored: &Restored, into: &Path) -> String {
    let Some(room) = restored.room else { return String::new() };
    let redo::Room { needed_bytes, free_bytes, left_bytes } = room;
    let with = match left_bytes {
        0 => String::new(),
        left => format!(", with {left} that the server that runs on that disk must have left"),
    };
    let so = if room.fits() { "it fits" } else { "IT DOES NOT FIT, and would be refused" };
    format!(
        "it takes up to {needed_bytes} bytes{with}; {free_bytes} are free in {}: {so}\n",
        into.display()
    )
}

/// Takes away the links to a running server's files when the process is ended by SIGINT or SIGTERM; what is
/// made is unfinished then, and the same command goes on with it.
pub(crate) fn remove_links_when_ended(
    source: &Path,
    devices: &[PathBuf],
    number: u32,
) -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let (source, devices) = (source.to_owned(), devices.to_vec());
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _until_the_end = redo::abandon_reader(&OsDisk, &source, &devices, number);
            let _never = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

pub(crate) fn json(restored: &Restored) -> serde_json::Value {
    let block = |block: Option<redo::BlockTime>| {
        block.map(|block| serde_json::json!({ "lsn": block.lsn.0, "time_ms": block.time_ms }))
    };
    serde_json::json!({
        "lsn": restored.parent.lsn.0,
        "time_ms": restored.time_ms,
        "before": block(restored.neighbours.0),
        "after": block(restored.neighbours.1),
        "parent": restored.parent.database.to_string(),
        "database": restored.database.map(|database| database.to_string()),
        "running": restored.is_running,
        "files": restored.files,
        "bytes": restored.bytes,
        "needed_bytes": restored.room.map(|room| room.needed_bytes),
        "free_bytes": restored.room.map(|room| room.free_bytes),
        "resumed": restored.is_resumed,
        "blocks": restored.blocks,
        "records": restored.records,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A restore by root in a directory of another user, with a link of that name.
    #[test]
    fn a_configuration_never_goes_where_a_link_leads() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, path) =
            (directory.path().join("victim"), directory.path().join("indelible.conf.restored"));
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        for text in ["port 1\n", "port 2\n"] {
            write_configuration(directory.path(), text);
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
            assert!(std::fs::read_to_string(&path).unwrap().ends_with(text));
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            assert!(metadata.is_file() && metadata.permissions().mode() & 0o777 == 0o600);
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn points_are_blocks_times_or_so_long_ago() {
        assert_eq!(wanted("81250007"), Ok(Wanted::Lsn(81_250_007)));
        assert_eq!(wanted("-90s"), Ok(Wanted::Ago(90_000)));
        assert_eq!(wanted("-2m"), Ok(Wanted::Ago(120_000)));
        assert_eq!(wanted("1970-01-01T00:00:00Z"), Ok(Wanted::Time(0)));
        assert_eq!(wanted("2000-03-01T00:00:00.5Z"), Ok(Wanted::Time(951_868_800_500)));
        assert_eq!(wanted("2026-11-25 13:34:56.789+01:00"), Ok(Wanted::Time(1_795_610_096_789)));
        assert_eq!(wanted("2026-11-25T11:04:56.789-01:30"), Ok(Wanted::Time(1_795_610_096_789)));
        assert_eq!(wanted("nightly-1"), Ok(Wanted::Backup("nightly-1".to_owned())));
        for bad in ["", "-", "-5", "-xs", "two words", "2026-11-25T10:00Z", "2026-13-25T10:00:00Z"]
        {
            assert!(wanted(bad).is_err(), "{bad}");
        }
        assert_eq!([flush("flush"), flush("flush:3")], [Ok(1), Ok(3)]);
        assert!(flush("flush:0").is_err() && flush("delete").is_err());
    }
}

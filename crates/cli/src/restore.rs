//! `indelible restore`: makes a data directory of a log as it was.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::{ArgGroup, Parser};
use env::Clock as _;
use env_os::{OsClock, OsDisk, OsEntropy};
use redo::{RestorePoint, RestoreRequest, Restored, Restoring, TimeOfBlock};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::archive::{FromArchive, is_archive};
use crate::archive_places::KeyFiles;
use crate::progress::Said;

/// Makes a new data directory of the log in another one, as it was after a block: what the log has, and what its
/// server has kept of what compactions replaced (log-history-seconds). The server may run meanwhile; nothing of its data is changed. What is made
/// is a database of its own, checked to the last record.
#[derive(Parser)]
#[command(name = "indelible restore", version)]
#[command(group(ArgGroup::new("point").required(true).args(["at", "before", "latest"])))]
#[command(group(ArgGroup::new("target").required(true).multiple(true).args(["into", "dry_run"])))]
struct Arguments {
    /// The data directory of the server, or an archive of its log: file:///path or s3://bucket/prefix.
    source: PathBuf,
    /// The data directory that is made: empty, or not there yet.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// The state after this block of the log, or at this time: 2026-11-22T10:31:05.412+01:00, or so long ago: -90s, -2m, -1h,
    /// -1d. Of a time it is the last block that was ended by then.
    #[arg(long, value_name = "LSN|TIME", allow_hyphen_values = true, value_parser = wanted)]
    at: Option<Wanted>,
    /// The state before the last FLUSHALL, FLUSHDB or SWAPDB; flush:2 for the one before that.
    #[arg(long, value_name = "flush[:N]", value_parser = flush)]
    before: Option<usize>,
    /// The newest state.
    #[arg(long)]
    latest: bool,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Lsn(u64),
    /// Unix milliseconds.
    Time(i64),
    /// So many milliseconds ago.
    Ago(i64),
}

fn wanted(text: &str) -> Result<Wanted, String> {
    if let Ok(lsn) = text.parse() {
        return Ok(Wanted::Lsn(lsn));
    }
    if let Some(ago) = text.strip_prefix('-') {
        let unit = ago.chars().last().unwrap_or(' ');
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err("say s, m, h or d: -90s".to_owned()),
        };
        let count: Option<i64> = ago[..ago.len() - 1].parse().ok();
        let ms = count.filter(|count| *count >= 0).and_then(|it| it.checked_mul(seconds * 1000));
        return ms.map(Wanted::Ago).ok_or_else(|| "give a number: -90s".to_owned());
    }
    let what = "give a block, or a time as in 2026-11-22T10:31:05Z or 2026-11-22T10:31:05.412+01:00, or -90s";
    time(text).map(Wanted::Time).ok_or_else(|| what.to_owned())
}

/// The time of RFC 3339, in Unix milliseconds.
fn time(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut date = date.splitn(3, '-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = clock.splitn(3, ':').map(digits);
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let ms = digits(&format!("{fraction:0<3}")[..3])?;
    digits(fraction)?;
    let offset = match zone {
        "Z" | "z" => 0,
        zone => {
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let offset = digits(hours)? * 60 + digits(minutes)?;
            if zone.starts_with('-') { -offset } else { offset }
        }
    };
    let is_date =
        (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds =
        days_of(year, month, day) * 86_400 + hour * 3600 + (minute - offset) * 60 + second;
    Some(seconds * 1000 + ms)
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// The day of a date, counted from 1970-01-01.
const fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March: a leap day is the last of them.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, in_era) = (year.div_euclid(400), year.rem_euclid(400));
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719_468
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
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match arguments.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn point(&self) -> RestorePoint {
        let now_ms = OsClock::new().now_ms();
        match (self.at, self.before) {
            (Some(Wanted::Lsn(lsn)), _) => RestorePoint::Lsn(lsn),
            (Some(Wanted::Time(time_ms)), _) => RestorePoint::Time(time_ms),
            (Some(Wanted::Ago(ms)), _) => RestorePoint::Time(now_ms.saturating_sub(ms)),
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
        };
        let from = FromArchive {
            url: self.source.to_str().unwrap_or_default(),
            keys: &self.keys,
            database: self.database.as_deref(),
            into: into.as_deref(),
            point,
            is_json: self.json,
        };
        from.run()
    }

    fn run(self) -> anyhow::Result<ExitCode> {
        let point = self.point();
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
        let request = RestoreRequest {
            source: &self.source,
            devices: &self.devices,
            into: into.as_deref(),
            point,
            durable,
            reader: std::process::id(),
        };
        let number = request.reader;
        remove_links_when_ended(&self.source, &self.devices, number)?;
        let (mut said, started) = (Said::default(), Instant::now());
        let percentage = |done: u64, all: u64| done.saturating_mul(100) / all.max(1);
        let disk: Arc<dyn env::Disk> = Arc::new(OsDisk);
        let mut entropy = OsEntropy;
        let restored = redo::restore(&disk, &request, &mut entropy, &mut |so_far| match so_far {
            Restoring::Finding(done, all) => said.say("reading the log", percentage(done, all)),
            Restoring::Copying(done, all) => said.say("copying", percentage(done, all)),
            Restoring::Verifying => said.say("verifying", 0),
        })?;
        let Some(restored) = restored else { return Ok(no_log(&self.source)) };
        if self.json {
            println!("{}", json(&restored, self.into.as_deref()));
        } else {
            print!("{}", report(&restored, into.as_deref(), started.elapsed().as_secs_f64()));
        }
        if let Some(into) = self.into.as_deref().filter(|_| self.dry_run && !self.json) {
            print!("{}", room(&restored, into));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn no_log(directory: &Path) -> ExitCode {
    eprintln!(
        "there is no redo log in {}: give the data directory of the server (dir in its configuration)",
        directory.display()
    );
    ExitCode::from(2)
}

fn shown_time(time_ms: Option<i64>) -> String {
    time_ms
        .map_or_else(|| "at a time that is not known".to_owned(), |ms| TimeOfBlock(ms).to_string())
}

/// What was restored, for a person.
fn report(restored: &Restored, into: Option<&Path>, seconds: f64) -> String {
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
    match redo::free_bytes(&OsDisk, into) {
        Some(free) if free < restored.bytes => {
            format!("{free} bytes are free in {}, which may be too little\n", into.display())
        }
        Some(free) => format!("{free} bytes are free in {}\n", into.display()),
        None => String::new(),
    }
}

/// Takes away the links to a running server's files when the process is ended by SIGINT or SIGTERM; what is
/// made is unfinished then, and the same command begins anew.
fn remove_links_when_ended(source: &Path, devices: &[PathBuf], number: u32) -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let (source, devices) = (source.to_owned(), devices.to_vec());
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // What is linked at this moment the server finds.
            redo::abandon_reader(&OsDisk, &source, &devices, number);
            let _never = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

fn json(restored: &Restored, into: Option<&Path>) -> serde_json::Value {
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
        "free_bytes": into.and_then(|into| redo::free_bytes(&OsDisk, into)),
        "blocks": restored.blocks,
        "records": restored.records,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_blocks_times_or_so_long_ago() {
        assert_eq!(wanted("81250007"), Ok(Wanted::Lsn(81_250_007)));
        assert_eq!(wanted("-90s"), Ok(Wanted::Ago(90_000)));
        assert_eq!(wanted("-2m"), Ok(Wanted::Ago(120_000)));
        assert_eq!(wanted("1970-01-01T00:00:00Z"), Ok(Wanted::Time(0)));
        assert_eq!(wanted("2000-03-01T00:00:00.5Z"), Ok(Wanted::Time(951_868_800_500)));
        assert_eq!(wanted("2026-11-25 13:34:56.789+01:00"), Ok(Wanted::Time(1_795_610_096_789)));
        assert_eq!(wanted("2026-11-25T11:04:56.789-01:30"), Ok(Wanted::Time(1_795_610_096_789)));
        for bad in
            ["", "-", "-5", "-xs", "now", "2026-11-25", "2026-11-25T10:00Z", "2026-13-25T10:00:00Z"]
        {
            assert!(wanted(bad).is_err(), "{bad}");
        }
        assert_eq!([flush("flush"), flush("flush:3")], [Ok(1), Ok(3)]);
        assert!(flush("flush:0").is_err() && flush("delete").is_err());
    }
}

//! Archives: `indelible backup`, and `indelible restore` from one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use ::archive::{self, Key, Overview, Point, Request, Restored, Restoring, Target};
use clap::{Parser, Subcommand};
use env_os::{OsDisk, OsEntropy};
use redo::{Id, TimeOfBlock};
use serde_json::json;
use server::config::ArchivePlace;

use crate::archive_places::{self, KeyFiles};
use crate::arguments::with_causes;
use crate::backup;
use crate::backup_moment::{self, Export, Rehearsal, Show};
use crate::backup_tidy::{self, Tidy};
use crate::progress::Line;
use crate::restore::{threads, write_configuration};
use crate::size::Size;

/// What damage is told with.
const DAMAGED: u8 = 2;

/// What is told with when a newest state was restored behind which there is more.
pub(crate) const NOT_NEWEST: u8 = 3;

/// Says what `indelible restore` can restore: of the redo log in a data directory, whose server may run meanwhile, or of an
/// archive, which a server writes with its directive `archive`. Exit code 0: all is good; 1: it cannot be looked at; 2:
/// something of it is damaged; 3: the newest state of an archive is not one that can be restored.
#[derive(Parser)]
#[command(name = "indelible backup", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the named backups of a log, or the databases that there are archives of.
    List(Place),
    /// Shows which blocks and times can be restored; of a log also its backups, the points before databases were emptied
    /// or exchanged, and the last dangerous commands.
    Timeline(Place),
    /// Says of one state what a restore would read for it.
    Show(Show),
    /// Reads all that a restore from an archive may read, and compares it with its checksums; of a data directory, whose server
    /// may run meanwhile, all records of each backup and of the newest state. With --restore the restore is rehearsed, too: to a
    /// temporary directory, to the last record and key, and removed.
    Verify(Verify),
    /// Thins out an archive: which states are kept is said by --keep, as in the directive archive-keep. Also next to the server that
    /// writes it, and on any machine that reaches the archive.
    Tidy(Tidy),
    /// Writes one state as a dump (an RDB file).
    Export(Export),
    /// Prints a new key for `archive-key-file`: keep it where neither the server's disks nor the archive are.
    Key,
}

#[derive(clap::Args)]
struct Verify {
    #[command(flatten)]
    place: Place,
    /// Of a data directory: this backup only.
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,
    #[command(flatten)]
    rehearsal: Rehearsal,
}

#[derive(clap::Args)]
pub(crate) struct Place {
    /// A data directory, or an archive as in the directive: file:///path, s3://bucket/prefix or transfer:HOST:PORT/name.
    #[arg(value_name = "DIR|URL")]
    pub(crate) url: String,
    /// Of an archive: the database, if there are archives of several.
    #[arg(long, value_name = "ID")]
    pub(crate) database: Option<String>,
    /// Says it as an object of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The directories of log-devices; without them, those that the log itself names.
    #[arg(long = "device", visible_alias = "log-devices", value_name = "DIRECTORY", num_args = 1..)]
    pub(crate) devices: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) keys: KeyFiles,
}

impl Place {
    /// The data directory, if it is one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        Some(Path::new(&self.url)).filter(|path| !is_archive(path))
    }

    pub(crate) fn target(&self) -> anyhow::Result<Box<dyn Target>> {
        target_of(&self.url, &self.keys)
    }

    /// The archive, and the database of it that is meant.
    pub(crate) fn archive(&self) -> anyhow::Result<(Box<dyn Target>, Id)> {
        let target = self.target()?;
        let database = database_of(&*target, self.database.as_deref())?;
        Ok((target, database))
    }
}

/// Whether what is to be restored is an archive.
pub(crate) fn is_archive(source: &Path) -> bool {
    let schemes = ["file:", "s3:", "transfer:"];
    let is_url =
        |source: &str| source.contains("://") || schemes.iter().any(|it| source.starts_with(it));
    source.to_str().is_some_and(is_url)
}

/// The exit code for a data directory in which no log was found: what is there of one may be damaged.
pub(crate) fn code_without_log(directory: &Path) -> ExitCode {
    let is_damaged = crate::log::lacks_its_manifest(directory);
    if is_damaged { ExitCode::from(DAMAGED) } else { ExitCode::FAILURE }
}

/// Says how an archive is named, if a directory is one.
pub(crate) fn say_if_archive(directory: &Path) {
    let Ok(path) = std::fs::canonicalize(directory) else { return };
    let entries = path.read_dir().into_iter().flatten().flatten();
    if entries.map(|entry| entry.path()).any(|database| database.join("writer").is_dir()) {
        eprintln!("there is an archive in it: give file://{}", path.display());
    }
}

/// The target that a URL names, with the keys of what is there.
pub(crate) fn target_of(url: &str, keys: &KeyFiles) -> anyhow::Result<Box<dyn Target>> {
    let place = ArchivePlace { url: url.to_owned(), key_files: keys.key_files.clone() };
    let disk: Arc<dyn env::Disk> = Arc::new(OsDisk);
    Ok(archive_places::open(&disk, &place)?)
}

/// The database with this id, of those that there are.
pub(crate) fn database_of(target: &dyn Target, wanted: Option<&str>) -> anyhow::Result<Id> {
    match wanted {
        None => Ok(archive::database_of(target, None)?),
        Some(wanted) => {
            let known = target.databases()?;
            let found = known.into_iter().find(|id| id.to_string() == wanted);
            found.ok_or_else(|| anyhow::anyhow!("there is no archive of database {wanted} there"))
        }
    }
}

/// Runs `indelible backup` with these arguments, the first of which is `backup`.
pub(crate) fn backup(arguments: &[String]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let done = match &arguments.command {
        Command::List(place) => list(place),
        Command::Timeline(place) => timeline(place),
        Command::Show(show) => backup_moment::show(show),
        Command::Verify(verify) => verify.run(),
        Command::Tidy(tidy) => backup_tidy::tidy(tidy),
        Command::Export(export) => backup_moment::export(export),
        Command::Key => {
            print!("{}", Key::generate(&mut OsEntropy));
            Ok(ExitCode::SUCCESS)
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{}", with_causes(&error));
            if is_damage(&error) { ExitCode::from(DAMAGED) } else { ExitCode::FAILURE }
        }
    }
}

/// Whether something could not be done because what is there is damaged.
fn is_damage(error: &anyhow::Error) -> bool {
    let of_archive = error.downcast_ref::<archive::Error>();
    let of_log = error.downcast_ref::<redo::Error>();
    matches!(of_archive, Some(archive::Error::Damaged { .. } | archive::Error::Record { .. }))
        || of_log.is_some_and(redo::Error::is_damage)
}

/// What is told with when something was looked at.
pub(crate) fn code_of(is_damaged: bool) -> ExitCode {
    if is_damaged { ExitCode::from(DAMAGED) } else { ExitCode::SUCCESS }
}

/// Says what of an archive is damaged, as far as it is marked or was seen. Returns whether something is.
fn say_damage(overview: &Overview) -> bool {
    for piece in &overview.damaged {
        eprintln!(
            "{piece} is marked as damaged: what only it leads to is not told as restorable, and is tried if you ask for its block"
        );
    }
    say_nameless(&overview.backups);
    !overview.damaged.is_empty() || !overview.backups.damaged.is_empty()
}

/// Says so if the newest state that can be restored is not the newest of which there is something, or there is none. Returns
/// whether it is so.
fn say_cut_off(newest: Option<u64>, cut_off: Option<u64>) -> bool {
    match (newest, cut_off) {
        (Some(_), None) => return false,
        (Some(newest), Some(last)) => eprintln!(
            "NOT THE NEWEST STATE: block {newest} is the newest that can be restored; there is something of blocks up to {last}, and \
             some between are missing or damaged. A server that archives there makes a new copy of the data"
        ),
        (None, _) => eprintln!(
            "NOTHING CAN BE RESTORED: there is no complete copy of the data. A server that archives there makes one"
        ),
    }
    true
}

/// The newest block whose state can be restored.
fn newest_of(overview: &Overview) -> Option<u64> {
    overview.spans.last().map(|span| span.last.0)
}

/// What is told with when what is there was looked at, and perhaps the newest of it cannot be restored.
fn code_with(is_damaged: bool, is_cut_off: bool) -> ExitCode {
    if is_cut_off && !is_damaged { ExitCode::from(NOT_NEWEST) } else { code_of(is_damaged) }
}

fn list(place: &Place) -> anyhow::Result<ExitCode> {
    if let Some(directory) = place.directory() {
        return backup::tell(directory, &place.devices, true, place.json);
    }
    let target = &*place.target()?;
    let databases = match &place.database {
        Some(wanted) => vec![database_of(target, Some(wanted))?],
        None => match target.databases()? {
            // None, which is an error as it is for each other command.
            none if none.is_empty() => vec![database_of(target, None)?],
            databases => databases,
        },
    };
    let (mut all, mut is_damaged, mut is_cut_off) = (Vec::new(), false, false);
    for database in databases {
        let overview = archive::overview(target, database, true)?;
        is_damaged |= say_damage(&overview);
        is_cut_off |= say_cut_off(newest_of(&overview), overview.cut_off.map(|lsn| lsn.0));
        if place.json {
            all.push(as_json(database, &overview));
            continue;
        }
        let Overview { objects, bytes, .. } = overview;
        let newest = overview.spans.last().map_or_else(
            || "nothing can be restored yet".to_owned(),
            |span| format!("up to block {}, of {}", span.last, TimeOfBlock(span.last_time_ms)),
        );
        println!("{database}  {objects} objects, {}, {newest}", Size(bytes));
    }
    if place.json {
        println!("{}", serde_json::Value::Array(all));
    }
    Ok(code_with(is_damaged, is_cut_off))
}

fn as_json(database: Id, overview: &Overview) -> serde_json::Value {
    let span = |span: &archive::Span| {
        json!({
            "first_lsn": span.first.0,
            "last_lsn": span.last.0,
            "first_time_ms": span.first_time_ms,
            "last_time_ms": span.last_time_ms,
            "bases": span.copies.iter().map(|lsn| lsn.0).collect::<Vec<_>>(),
            "log_objects": span.logs,
            "thinned": span.is_thinned,
        })
    };
    let backup =
        |backup: &archive::ArchivedBackup| json!({ "name": backup.name, "lsn": backup.lsn.0 });
    json!({
        "database": database.to_string(),
        "writer": overview.writer,
        "objects": overview.objects,
        "bytes": overview.bytes,
        "restorable": overview.spans.iter().map(span).collect::<Vec<_>>(),
        "cut_off_lsn": overview.cut_off.map(|lsn| lsn.0),
        "backups": overview.backups.known.iter().map(backup).collect::<Vec<_>>(),
        "damaged_names": strings(&overview.backups.damaged),
        "damaged": strings(&overview.damaged),
    })
}

fn strings<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Says which backups have names that cannot be read.
pub(crate) fn say_nameless(backups: &archive::ArchivedBackups) {
    for name in &backups.damaged {
        eprintln!(
            "{name} is damaged: the backup of that block has no name any more, and is kept; it is restored by the number of the block"
        );
    }
}

fn timeline(place: &Place) -> anyhow::Result<ExitCode> {
    if let Some(directory) = place.directory() {
        return backup::tell(directory, &place.devices, false, place.json);
    }
    let target = &*place.target()?;
    let database = database_of(target, place.database.as_deref())?;
    let overview = archive::overview(target, database, place.json)?;
    let is_damaged = say_damage(&overview);
    if place.json {
        println!("{}", as_json(database, &overview));
    } else {
        print!("{}", timeline_of(database, &overview));
    }
    let is_cut_off = say_cut_off(newest_of(&overview), overview.cut_off.map(|lsn| lsn.0));
    Ok(code_with(is_damaged, is_cut_off))
}

/// What can be restored of an archive, for a person.
fn timeline_of(database: Id, overview: &Overview) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "database {database}, {} objects, last written by writer {}\n",
        overview.objects, overview.writer
    );
    if overview.spans.is_empty() {
        text.push_str("nothing can be restored yet: the first copy of the data is not complete\n");
    }
    let mut last = None;
    for span in &overview.spans {
        let is_behind = |last: &u64| !span.is_thinned && last + 1 < span.first.0;
        if let Some(last) = last.filter(is_behind) {
            let _infallible =
                writeln!(text, "  ┄ blocks behind {last} up to {} are missing", span.first);
        }
        last = Some(span.last.0);
        let named = overview.backups.known.iter();
        let named = named.filter(|it| (span.first..=span.last).contains(&it.lsn));
        let names: Vec<String> =
            named.map(|it| format!("{} (block {})", it.name, it.lsn)).collect();
        let named =
            if names.is_empty() { String::new() } else { format!("; {}", names.join(", ")) };
        if span.first == span.last {
            let _infallible = writeln!(
                text,
                "  ● block {}, {}{named}",
                span.first,
                TimeOfBlock(span.first_time_ms)
            );
            continue;
        }
        let _infallible = writeln!(
            text,
            "  ━ blocks {} to {}, {} to {}: each can be restored{named}",
            span.first,
            span.last,
            TimeOfBlock(span.first_time_ms),
            TimeOfBlock(span.last_time_ms)
        );
        let copies: Vec<String> =
            span.copies.iter().rev().take(8).map(ToString::to_string).collect();
        let more = if span.copies.len() > copies.len() { " …" } else { "" };
        if !copies.is_empty() {
            let _infallible =
                writeln!(text, "    copies of the data at {}{more}", copies.join(", "));
        }
    }
    text
}

impl Verify {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let Self { place, backup, rehearsal } = self;
        let (is_good, mut said) = match (place.directory(), backup.as_deref()) {
            (Some(directory), name) => {
                let verified = backup::verify(directory, &place.devices, name, place.json)?;
                let Some(verified) = verified else { return Ok(code_without_log(directory)) };
                verified
            }
            (None, None) => verify(place)?,
            (None, Some(name)) => anyhow::bail!(
                "--backup is for data directories; of an archive all is read, and with --restore --at {name} that state is restored \
                 to a temporary place"
            ),
        };
        let rehearsed = (is_good && rehearsal.is_wanted()).then(|| rehearsal.run(place));
        if let Some(rehearsed) = &rehearsed {
            said["restored"] = match rehearsed {
                Ok(Some(rehearsed)) => rehearsed.clone(),
                Ok(None) => json!({ "failed": true }),
                Err(error) => json!({ "failed": true, "error": with_causes(error) }),
            };
        }
        if place.json {
            println!("{said}");
        }
        if let Some(None) = rehearsed.transpose()? {
            return Ok(ExitCode::FAILURE);
        }
        let is_newest = said["restored"]["is_newest"] != false && said["is_newest"] != false;
        Ok(code_with(!is_good, !is_newest))
    }
}

/// Reads all of an archive. Returns whether it is good, and what is said of it.
fn verify(place: &Place) -> anyhow::Result<(bool, serde_json::Value)> {
    let (target, database) = place.archive()?;
    let mut line = Line::new();
    let verified = archive::verify(&*target, database, &mut |done, total| {
        line.show_count("verifying", done, total, "objects");
    });
    line.end();
    let mut verified = verified?;
    // What cannot be read without another key is not known to be damaged; but among what can be, it was put there by another.
    if verified.errors.is_empty() && !verified.locked.is_empty() {
        let is_in_clear =
            |error: &archive::Error| matches!(error, archive::Error::NotEncrypted { .. });
        if verified.objects == 0 || !verified.locked.iter().any(is_in_clear) {
            verified.locked[1..].iter().for_each(|error| eprintln!("{error}"));
            return Err(verified.locked.swap_remove(0).into());
        }
    }
    let errors = verified.errors.iter().chain(&verified.locked);
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    errors.iter().for_each(|error| eprintln!("{error}"));
    let anew = verified.ranges.windows(2).filter(|two| two[1].thinned.is_none());
    let gaps = anew.map(|two| (two[0].last.0 + 1, two[1].first.0 - 1));
    // The copy that follows may be of the next block.
    let gaps: Vec<(u64, u64)> = gaps.filter(|(first, last)| first <= last).collect();
    if !place.json {
        println!(
            "{} objects with {} records in {} blocks, {}: {}",
            verified.objects,
            verified.records,
            verified.blocks,
            Size(verified.bytes),
            match errors.len() {
                0 => "all of it is good".to_owned(),
                count => format!("{count} are damaged, or are not what was put there"),
            }
        );
        for (first, last) in &gaps {
            println!(
                "blocks {first} to {last}: some are missing, and none of these states can be restored"
            );
        }
    }
    let newest = verified.ranges.last().map(|range| range.last.0);
    let is_cut_off = say_cut_off(newest, verified.cut_off.map(|lsn| lsn.0));
    let said = json!({
        "database": database.to_string(),
        "objects": verified.objects,
        "blocks": verified.blocks,
        "records": verified.records,
        "bytes": verified.bytes,
        "errors": errors,
        "gaps": gaps,
        "is_newest": !is_cut_off,
        "cut_off_lsn": verified.cut_off.map(|lsn| lsn.0),
    });
    Ok((errors.is_empty(), said))
}

/// What is restored from an archive.
pub(crate) struct FromArchive<'a> {
    pub(crate) url: &'a str,
    pub(crate) keys: &'a KeyFiles,
    pub(crate) database: Option<&'a str>,
    pub(crate) into: Option<&'a Path>,
    pub(crate) point: Point,
    pub(crate) expiry: redo::Expiry,
    pub(crate) is_json: bool,
}

impl FromArchive<'_> {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let target = &*target_of(self.url, self.keys)?;
        let database = database_of(target, self.database)?;
        let request = Request {
            target,
            database: Some(database),
            into: self.into,
            point: self.point.clone(),
            expiry: self.expiry,
            threads: threads(),
            keep_bytes: archive::KEEP_BYTES,
        };
        let (mut line, started) = (Line::new(), Instant::now());
        let disk: Arc<dyn env::Disk> = Arc::new(OsDisk);
        let restored =
            archive::restore(&disk, &request, &mut OsEntropy, &mut |so_far| match so_far {
                Restoring::Finding => line.show_bytes("reading the archive", 0, 0),
                Restoring::Doubting(done, all) => {
                    line.show_count("reading what is marked as damaged", done, all, "objects");
                }
                Restoring::Copying(done, total) => line.show_bytes("copying", done, total),
                Restoring::Verifying => line.show_bytes("verifying", 0, 0),
            });
        line.end();
        let restored = restored?;
        if let (Some(into), Some(text)) = (self.into, &restored.configuration) {
            write_configuration(into, text);
        }
        if self.is_json {
            println!("{}", restored_as_json(&restored));
        } else {
            print!("{}", self.report(&restored, started.elapsed().as_secs_f64()));
        }
        if let Some(damage) = &restored.damage {
            eprintln!("damaged or not to be read, and gone round: {damage}");
        }
        let Some((last, last_time_ms)) = restored.cut_off else { return Ok(ExitCode::SUCCESS) };
        let behind_ms = last_time_ms.saturating_sub(restored.time_ms.unwrap_or(last_time_ms));
        // Of what is damaged the time may not be known.
        let (of, seconds) = match last_time_ms {
            0 => (String::new(), String::new()),
            ms => {
                let missing = std::time::Duration::from_millis(behind_ms.max(0).cast_unsigned());
                let seconds = format!(" and {:.1} s", missing.as_secs_f64());
                (format!(", of {},", TimeOfBlock(ms)), seconds)
            }
        };
        eprintln!(
            "NOT THE NEWEST STATE: the archive has blocks up to {last}{of} but lacks some behind block {}, or they are damaged, \
             and no complete copy of the data is behind those (see `indelible backup timeline`). {} blocks{seconds} are \
             missing; if the server's own disks are there, they have them",
            restored.parent.lsn,
            last.0 - restored.parent.lsn.0,
        );
        Ok(ExitCode::from(NOT_NEWEST))
    }

    fn report(&self, restored: &Restored, seconds: f64) -> String {
        use std::fmt::Write as _;
        let Restored { parent, base, objects, bytes, .. } = restored;
        let time = restored.time_ms.map_or_else(String::new, |ms| format!(", {}", TimeOfBlock(ms)));
        let mut text = format!(
            "block {}{time}: the copy of block {base}, and what leads from it there; {objects} objects, {}\n",
            parent.lsn,
            Size(*bytes)
        );
        if restored.is_resumed {
            text.push_str("it went on where a restore of the same block had been cut off\n");
        }
        let _infallible = match (self.into, restored.made) {
            (Some(into), Some(made)) => writeln!(
                text,
                "restored {} records in {} blocks, all of them read back: {} files, {}, in {seconds:.1} s\n\
                 {into} is database {}, and begins behind block {} of {}\n\
                 start it: indelible server --dir {into}",
                made.records,
                made.blocks,
                made.files,
                Size(made.bytes),
                made.database,
                parent.lsn,
                parent.database,
                into = into.display()
            ),
            _ => writeln!(text, "nothing was made"),
        };
        text
    }
}

pub(crate) fn restored_as_json(restored: &Restored) -> serde_json::Value {
    json!({
        "lsn": restored.parent.lsn.0,
        "time_ms": restored.time_ms,
        "parent": restored.parent.database.to_string(),
        "cut_off_lsn": restored.cut_off.map(|(lsn, _)| lsn.0),
        "cut_off_time_ms": restored.cut_off.map(|(_, time_ms)| time_ms),
        "damage": restored.damage,
        "resumed": restored.is_resumed,
        "base_lsn": restored.base.0,
        "objects": restored.objects,
        "archive_bytes": restored.bytes,
        "database": restored.made.map(|made| made.database.to_string()),
        "files": restored.made.map(|made| made.files),
        "bytes": restored.made.map(|made| made.bytes),
        "blocks": restored.made.map(|made| made.blocks),
        "records": restored.made.map(|made| made.records),
    })
}

//! One state of a log or an archive: what a restore of it would read, as a dump, and rehearsed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use archive::{Restored, Restoring};
use env_os::{OsDisk, OsEntropy};
use rdb::Version;
use redo::{RestorePoint, TimeOfBlock};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::archive::{NOT_NEWEST, Place, is_archive, restored_as_json, say_nameless};
use crate::export::{self, Dump};
use crate::moment::{Made, Moment};
use crate::progress::Line;
use crate::restore::{self, threads};
use crate::size::Size;
use crate::view::room_for_a_copy;

#[derive(clap::Args)]
pub(crate) struct Show {
    /// The state: the name of a backup, a block, or a time, as of indelible restore --at.
    #[arg(value_name = "NAME|LSN|TIME", allow_hyphen_values = true)]
    at: String,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub(crate) struct Export {
    #[command(flatten)]
    moment: Moment,
    /// The dump, which appears when it is complete; - for standard output.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How the dump is labelled: 9 to 15 of Redis, or 80 of Valkey. Without it 9, or 10 if there are libraries of functions.
    #[arg(long, value_name = "V", value_parser = export::version)]
    rdb_version: Option<Version>,
    /// The directory in which the data are made first, which takes as much room as they did; without it, the system's for temporary
    /// files.
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
    /// Says it as an object of JSON.
    #[arg(long)]
    json: bool,
}

/// How a restore is rehearsed.
#[derive(clap::Args)]
pub(crate) struct Rehearsal {
    /// Restores, too: to a temporary directory, which is removed.
    #[arg(long)]
    restore: bool,
    /// The state that is restored, as of indelible restore --at; without it, the newest.
    #[arg(long, value_name = "NAME|LSN|TIME", requires = "restore", allow_hyphen_values = true)]
    at: Option<String>,
    /// The directory for it; without it, the system's for temporary files.
    #[arg(long, value_name = "DIR", requires = "restore")]
    temporary: Option<PathBuf>,
}

/// A directory that is removed when this is dropped, also when the process is asked to end.
struct Temporary {
    directory: tempfile::TempDir,
    is_given_up: Arc<AtomicBool>,
}

impl Temporary {
    fn new(given: Option<&Path>) -> anyhow::Result<Self> {
        let near = room_for_a_copy(given)?;
        let is_given_up = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_given_up))?;
        }
        let directory = tempfile::Builder::new().prefix("indelible-backup-").tempdir_in(near)?;
        Ok(Self { directory, is_given_up })
    }

    /// Restores a state into it. `None` if it could not be, which was said.
    fn restore(&self, moment: &Moment) -> anyhow::Result<Option<(PathBuf, Made)>> {
        let data = self.directory.path().join("data");
        let made = moment.restore_into(&data, &self.is_given_up)?;
        let made = made.filter(|_| !self.is_given_up.load(Ordering::Acquire));
        Ok(made.map(|made| (data, made)))
    }
}

/// Says what a restore of a state would read.
pub(crate) fn show(show: &Show) -> anyhow::Result<ExitCode> {
    let Show { at, place } = show;
    let point = restore::point_of(at)?;
    if let Some(directory) = place.directory() {
        let Some(found) = restore::look(directory, &place.devices, point)? else {
            return Ok(ExitCode::FAILURE);
        };
        if place.json {
            let mut said = restore::json(&found);
            said["configuration"] = json!(found.configuration);
            println!("{said}");
        } else {
            print!("{}", restore::report(&found, None, 0.0));
            found.configuration.iter().for_each(|text| say_configuration(text));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let point = match point {
        RestorePoint::Lsn(lsn) => archive::Point::Lsn(lsn),
        RestorePoint::Time(time_ms) => archive::Point::Time(time_ms),
        RestorePoint::Backup(name) => archive::Point::Backup(name),
        _ => anyhow::bail!("give the name of a backup, a block or a time"),
    };
    let (target, database) = place.archive()?;
    let request = archive::Request {
        target: &*target,
        database: Some(database),
        into: None,
        point,
        expiry: redo::Expiry::Absolute,
        threads: threads(),
        keep_bytes: archive::KEEP_BYTES,
    };
    let disk: Arc<dyn env::Disk> = Arc::new(OsDisk);
    let mut line = Line::new();
    let found = archive::restore(&disk, &request, &mut OsEntropy, &mut |so_far| {
        if so_far == Restoring::Finding {
            line.show_bytes("reading the archive", 0, 0);
        }
    });
    line.end();
    let found = found?;
    let backups = archive::backups(&*target, database)?;
    say_nameless(&backups);
    let names = backups.known.into_iter().filter(|backup| backup.lsn == found.parent.lsn);
    let names: Vec<String> = names.map(|backup| backup.name).collect();
    if place.json {
        let mut said = restored_as_json(&found);
        said["names"] = json!(names);
        said["configuration"] = json!(found.configuration);
        println!("{said}");
    } else {
        print!("{}", shown(&found, &names));
        found.configuration.iter().for_each(|text| say_configuration(text));
    }
    Ok(ExitCode::SUCCESS)
}

fn say_configuration(text: &str) {
    print!(
        "the server's configuration then (of users it has SHA-256 of their passwords):\n\n{text}"
    );
}

fn shown(found: &Restored, names: &[String]) -> String {
    let Restored { parent, base, objects, bytes, .. } = found;
    let time = found.time_ms.map_or_else(String::new, |ms| format!(", {}", TimeOfBlock(ms)));
    let named = if names.is_empty() { String::new() } else { format!("{}: ", names.join(", ")) };
    format!(
        "{named}block {}{time}, of database {}\na restore reads the copy of block {base} and what leads from it there: {objects} objects, {}\n",
        parent.lsn,
        parent.database,
        Size(*bytes)
    )
}

/// Writes a state as a dump.
pub(crate) fn export(export: &Export) -> anyhow::Result<ExitCode> {
    let temporary = Temporary::new(export.temporary.as_deref())?;
    let Some((data, made)) = temporary.restore(&export.moment)? else {
        return Ok(ExitCode::FAILURE);
    };
    let Made { lsn, time_ms, is_newest } = made;
    let near = export.temporary.as_deref().unwrap_or_else(|| temporary.directory.path());
    let dump = Dump {
        directory: &data,
        devices: &[],
        lsn: None,
        version: export.rdb_version,
        temporary: Some(near),
    };
    let written = dump.write(&export.file)?;
    let said = if export.json {
        let said = json!({
            "lsn": lsn,
            "time_ms": time_ms,
            "keys": export::keys_of(&written.exported),
            "bytes": written.exported.bytes,
        });
        format!("{said}\n")
    } else {
        export::report(&written.exported, written.seconds)
    };
    // What goes to the standard output is the dump.
    if written.is_streamed {
        eprint!("{said}");
    } else {
        print!("{said}");
    }
    Ok(if is_newest { ExitCode::SUCCESS } else { ExitCode::from(NOT_NEWEST) })
}

impl Rehearsal {
    pub(crate) const fn is_wanted(&self) -> bool {
        self.restore
    }

    /// Restores to a temporary place, which reads back every record, and makes a dump of it for nothing, which reads every key. `None` if it
    /// could not be restored, which was said.
    pub(crate) fn run(&self, place: &Place) -> anyhow::Result<Option<serde_json::Value>> {
        let started = Instant::now();
        let temporary = Temporary::new(self.temporary.as_deref())?;
        let moment = Moment::of(&place.url, self.at.as_deref());
        let devices = if is_archive(Path::new(&place.url)) { &[] } else { &place.devices[..] };
        let moment = moment.with(place.database.as_deref(), devices, &place.keys);
        let Some((data, made)) = temporary.restore(&moment)? else { return Ok(None) };
        let Made { lsn, time_ms, is_newest } = made;
        let dump = Dump {
            directory: &data,
            devices: &[],
            lsn: None,
            version: None,
            temporary: Some(temporary.directory.path()),
        };
        let exported = dump.rehearse()?;
        let keys = export::keys_of(&exported);
        temporary.directory.close()?;
        let seconds = started.elapsed().as_secs_f64();
        if !place.json {
            let time = time_ms.map_or_else(String::new, |ms| format!(", {}", TimeOfBlock(ms)));
            println!(
                "block {lsn}{time} was restored, every record of it read back, and {keys} keys as a dump of {}, in {seconds:.1} s; all of \
                 that is removed",
                Size(exported.bytes)
            );
        }
        Ok(Some(json!({
            "lsn": lsn,
            "time_ms": time_ms,
            "is_newest": is_newest,
            "keys": keys,
            "dump_bytes": exported.bytes,
            "seconds": seconds,
        })))
    }
}

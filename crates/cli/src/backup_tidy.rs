//! `indelible backup tidy`: thins out an archive, wherever it can be reached from.

use std::process::ExitCode;
use std::time::Duration;

use archive::{
    ArchiveOptions, Compression, Every, KEY_BYTES, KeptState, Tidied, Tidier, TidyOptions,
    TidyStep, Why,
};
use env::{Clock as _, Entropy as _};
use env_os::{OsClock, OsEntropy};
use redo::{Id, TimeOfBlock};
use serde_json::json;

use crate::archive::{Place, code_of};
use crate::progress::Line;
use crate::size::Size;

/// A step of which nothing was heard is repeated so often.
const ATTEMPTS_MAX: u32 = 5;

/// After so long.
const AGAIN: Duration = Duration::from_secs(1);

/// So often it is looked whether the waiting is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(crate) struct Tidy {
    #[command(flatten)]
    place: Place,
    /// Up to which age of how long a time one state is kept, its last; what is younger than the first age, and not yet a whole such time, is
    /// kept as it is: "24h:all 7d:hour 30d:day forever:month". Backups that have a name are kept. Ages count from the newest block.
    #[arg(long, value_name = "RULES")]
    keep: Option<archive::Keep>,
    /// Has the archive forget a backup of this name, which its server does not have any more.
    #[arg(long, value_name = "NAME")]
    forget: Vec<String>,
    /// Says what would be done, and changes nothing.
    #[arg(long)]
    dry_run: bool,
    /// So many seconds are waited before anything is removed, so that restores which read it can end.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    grace: u64,
    /// Memory for the names of what is in the blocks of an hour, or whatever is kept one of: with less, more stays. Where
    /// a window alone is kept ("24h:all"), it must have the names of what was changed between the newest copy before the
    /// window and that: with less, no copy is made.
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    memory: Size,
    /// How what is made is compressed: zstd, or not.
    #[arg(long, value_name = "yes|no", default_value = "yes", value_parser = ["yes", "no"])]
    compress: String,
}

/// Thins out an archive.
pub(crate) fn tidy(tidy: &Tidy) -> anyhow::Result<ExitCode> {
    let place = &tidy.place;
    if place.directory().is_some() {
        anyhow::bail!(
            "{} is no archive: what a server keeps of its log is said by log-history-seconds, and BACKUP DELETE",
            place.url
        );
    }
    if tidy.keep.is_none() && tidy.forget.is_empty() {
        anyhow::bail!("say what is kept: --keep \"24h:all 7d:hour 30d:day\"");
    }
    let (target, database) = place.archive()?;
    for name in &tidy.forget {
        let is_there = match tidy.dry_run {
            true => {
                let backups = archive::backups(&*target, database)?;
                backups.known.iter().any(|backup| backup.name == *name)
            }
            false => archive::forget(&*target, database, name)?,
        };
        anyhow::ensure!(is_there, "the archive has no backup named {name}");
    }
    let compression = if tidy.compress == "yes" { Compression::Zstd(1) } else { Compression::None };
    let keep = tidy.keep.unwrap_or_default();
    let archive = ArchiveOptions { keep, compression, ..ArchiveOptions::default() };
    let options = TidyOptions {
        archive,
        memory_bytes: usize::try_from(tidy.memory.0).unwrap_or(usize::MAX),
        grace_us: tidy.grace.saturating_mul(1_000_000),
        ..TidyOptions::new(archive)
    };
    let mut seed = [0; KEY_BYTES];
    OsEntropy.fill(&mut seed);
    let (clock, mut tidier) = (OsClock::new(), Tidier::new(database, options, seed));
    if tidy.dry_run {
        tidier.plan(&*target, &clock)?;
    } else {
        run(&mut tidier, &*target, &clock)?;
    }
    if place.json {
        println!("{}", as_json(database, tidier.tidied(), tidy.dry_run));
    } else {
        print!("{}", report(tidier.tidied(), tidy.dry_run));
    }
    Ok(code_of(!tidier.tidied().damaged.is_empty()))
}

fn run(tidier: &mut Tidier, target: &dyn archive::Target, clock: &OsClock) -> anyhow::Result<()> {
    let (mut line, mut attempts, mut most) = (Line::new(), 1, (0, 0));
    loop {
        let step = tidier.step(target, clock);
        let left = tidier.left();
        most = (most.0.max(left.0), most.1.max(left.1));
        match step {
            Ok(TidyStep::Worked) => {
                attempts = 1;
                let (leaps, objects) = left;
                if leaps > 0 {
                    let (done, all) = ((most.0 - leaps) as u64, most.0 as u64);
                    line.show_count("thinning out", done, all, "leaps and copies");
                } else if tidier.is_reading() {
                    line.show_count("reading what takes its place", 0, objects as u64, "objects");
                } else if objects > 0 {
                    let (done, all) = ((most.1 - objects) as u64, most.1 as u64);
                    line.show_count("removing", done, all, "objects");
                }
            }
            Ok(TidyStep::Waiting(until_us)) => {
                let left_us = until_us.saturating_sub(clock.monotonic_us());
                let why = if tidier.is_fenced() {
                    "waiting, because another one that has not ended may still remove something"
                } else {
                    "waiting, so that restores can end"
                };
                line.show_left(why, left_us / 1_000_000);
                std::thread::sleep(LOOK_EVERY);
            }
            Ok(TidyStep::Finished) => break,
            Err(archive::Error::Target(error)) if attempts < ATTEMPTS_MAX => {
                eprintln!("{error}; trying again");
                attempts += 1;
                std::thread::sleep(AGAIN);
            }
            Err(error) => {
                line.end();
                return Err(error.into());
            }
        }
    }
    line.end();
    Ok(())
}

const fn why(kept: &KeptState) -> &'static str {
    match kept.why {
        Why::Named => "a backup",
        Why::Copy => "a copy that others need",
        Why::BeforeYoung => "what is kept whole goes on from it",
        Why::Rule(every) => match every {
            Every::All => "each",
            Every::Minute => "one a minute",
            Every::Hour => "one an hour",
            Every::Day => "one a day",
            Every::Week => "one a week",
            Every::Month => "one a month",
            Every::Year => "one a year",
        },
    }
}

fn as_json(database: Id, tidied: &Tidied, is_dry: bool) -> serde_json::Value {
    let kept = tidied
        .kept
        .iter()
        .map(|kept| json!({ "lsn": kept.lsn.0, "time_ms": kept.time_ms, "why": why(kept) }));
    json!({
        "database": database.to_string(),
        "dry_run": is_dry,
        "kept": kept.collect::<Vec<_>>(),
        "last_old_lsn": tidied.last_old.0,
        "states_before": tidied.states_before,
        "states_after": tidied.states_after,
        "leaps": tidied.leaps,
        "copies": tidied.copies,
        "objects_put": tidied.objects_put,
        "bytes_put": tidied.bytes_put,
        "objects_removed": tidied.objects_removed,
        "damaged": tidied.damaged.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// What was done, for a person.
fn report(tidied: &Tidied, is_dry: bool) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for kept in &tidied.kept {
        let time = kept.time_ms.map_or_else(String::new, |ms| format!(", {}", TimeOfBlock(ms)));
        let _infallible = writeln!(text, "  ● block {}{time}: {}", kept.lsn, why(kept));
    }
    for name in &tidied.damaged {
        let _infallible = writeln!(text, "{name} is damaged: what only it leads to stays as it is");
    }
    let were = if is_dry { "would be " } else { "were " };
    let _infallible = writeln!(
        text,
        "every block behind {} is kept; of {} states that can be restored {} {}",
        tidied.last_old,
        tidied.states_before,
        tidied.states_after,
        if is_dry { "would stay" } else { "have stayed" }
    );
    if tidied.copies > 0 {
        let made = match is_dry {
            true => "would be made of what leads to it, if --memory is enough",
            false => "was made of what leads to it",
        };
        let _infallible = writeln!(text, "a copy of block {} {made}", tidied.last_old);
    }
    let _infallible = writeln!(
        text,
        "{} times {were}thinned out{}, and {} objects {were}removed",
        tidied.leaps,
        if is_dry {
            String::new()
        } else {
            format!(" into {} objects of {}", tidied.objects_put, Size(tidied.bytes_put))
        },
        tidied.objects_removed
    );
    text
}

//! `indelible restore --in-place`: sets the log in a data directory back to what it was.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use env_os::{OsClock, OsDisk, OsEntropy};
use redo::{
    BlockTime, DangerousCommand, Env, RestorePoint, Restoring, RewindRequest, Rewinding, Rewound,
    TimeOfBlock,
};

use crate::progress::Line;

/// The longest text of a command that a log notes, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// What to do about a log that cannot be set back because it is damaged.
const OTHERWISE: &str = "a log is not set back where any of it is damaged; a state that does not need what is can be restored \
                         --into another directory (indelible backup verify says which do)";

/// What is set back, and how it is told.
pub(crate) struct InPlace<'a> {
    pub(crate) source: &'a Path,
    pub(crate) devices: &'a [PathBuf],
    pub(crate) point: RestorePoint,
    pub(crate) is_json: bool,
}

impl InPlace<'_> {
    /// Sets it back; `None` if there is no log.
    pub(crate) fn run(self) -> anyhow::Result<Option<ExitCode>> {
        let source = std::path::absolute(self.source)?;
        check_user(&source)?;
        let index = crate::index::below(&source);
        let Some(database) = redo::database_of(&OsDisk, &source)? else { return Ok(None) };
        // An index may be the only witness of what was durable.
        let durable = indexing::peek(&OsDisk, &index, database.0)?.durable();
        let devices: Vec<PathBuf> =
            self.devices.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
        let request = RewindRequest {
            dir: &source,
            devices: &devices,
            point: self.point,
            durable,
            command: command(),
            is_parallel: true,
        };
        let env = Env {
            disk: Arc::new(OsDisk),
            clock: Arc::new(OsClock::new()),
            entropy: Box::new(OsEntropy),
            waker: Arc::new(|| {}),
        };
        let mut line = Line::new();
        let rewinding = Rewinding::begin(env, &request, &mut |so_far| match so_far {
            Restoring::Finding(done, all) => line.show_bytes("reading the log", done, all),
            Restoring::Verifying => line.show_bytes("verifying what was there then", 0, 0),
            Restoring::Copying(done, all) => line.show_bytes("cutting", done, all),
        });
        line.end();
        let rewinding = rewinding.map_err(|why| {
            let is_damage = why.is_damage();
            let error = anyhow::Error::new(why);
            if is_damage { error.context(OTHERWISE) } else { error }
        });
        let Some(rewinding) = rewinding? else { return Ok(None) };
        // Before the log is another one: no crash leaves an index of what it was.
        logindex::discard(&OsDisk, &index)?;
        let rewound = rewinding.finish()?;
        if let Some(text) = &rewound.configuration {
            crate::restore::write_configuration(&source, text);
        }
        if self.is_json {
            println!("{}", json(&rewound));
        } else {
            print!("{}", report(&rewound, self.source, &devices));
        }
        if !rewound.is_as_asked {
            // The log is usable, and what was asked for has not been done.
            eprintln!(
                "another restore --in-place had been begun, the one to block {}: it is finished, and this one was not begun; run it again",
                rewound.to
            );
            return Ok(Some(ExitCode::FAILURE));
        }
        Ok(Some(ExitCode::SUCCESS))
    }
}

/// Refuses to make files in a data directory that its server could not use: those that are made belong to the user that
/// makes them.
fn check_user(source: &Path) -> anyhow::Result<()> {
    let Ok(manifest) = std::fs::metadata(source.join("redo.manifest")) else { return Ok(()) };
    let (owner, user) = (manifest.uid(), rustix::process::geteuid().as_raw());
    anyhow::ensure!(
        owner == user,
        "{} belongs to user {owner}, and this is user {user}, whose files its server could not use: run this as the user of the \
         server, such as sudo -u '#{owner}' indelible restore",
        source.display()
    );
    Ok(())
}

/// What is noted of this command, and of its user.
fn command() -> DangerousCommand {
    let user = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!("indelible {}", words.join(" "));
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    let mut user = user.filter(|user| !user.is_empty()).unwrap_or_else(|| "-".to_owned());
    user.truncate(user.floor_char_boundary(TEXT_BYTES_MAX / 2));
    DangerousCommand { loses_data: true, user, address: "the server's machine".to_owned(), text }
}

fn report(rewound: &Rewound, directory: &Path, devices: &[PathBuf]) -> String {
    let Rewound { to, time_ms, neighbours, at, backup, is_resumed, .. } = rewound;
    let directory = directory.display();
    let mut text = String::new();
    if *is_resumed {
        let _infallible =
            writeln!(text, "what was begun before and interrupted is finished, and nothing else");
    }
    let ended = time_ms.map_or(String::new(), |ms| format!(", ended {}", TimeOfBlock(ms)));
    let _infallible = writeln!(text, "block {to}{ended}");
    for (what, block) in [("the one before it", neighbours.0), ("the next one", neighbours.1)] {
        if let Some(BlockTime { lsn, time_ms }) = block {
            let _infallible = writeln!(text, "{what}: {lsn}, ended {}", TimeOfBlock(time_ms));
        }
    }
    let Rewound { put_back, cut, written_bytes, .. } = rewound;
    let _infallible = writeln!(
        text,
        "{directory} is what it was then: {put_back} files put back, {cut} cut, {written_bytes} bytes written; it goes on \
         behind block {at}"
    );
    let named = devices.iter().map(|device| format!(" --device {}", device.display()));
    let named = named.collect::<String>();
    if let Some(backup) = backup {
        let _infallible = writeln!(
            text,
            "what it was before is kept until BACKUP DELETE {backup}\n\
             undo this: indelible restore {directory} --in-place --at {backup}{named}"
        );
    }
    let _infallible = writeln!(text, "start it: indelible server --dir {directory}");
    text
}

fn json(rewound: &Rewound) -> serde_json::Value {
    let block = |block: Option<BlockTime>| {
        block.map(|block| serde_json::json!({ "lsn": block.lsn.0, "time_ms": block.time_ms }))
    };
    serde_json::json!({
        "lsn": rewound.to.0,
        "time_ms": rewound.time_ms,
        "before": block(rewound.neighbours.0),
        "after": block(rewound.neighbours.1),
        "at_lsn": rewound.at.0,
        "backup": rewound.backup,
        "resumed": rewound.is_resumed,
        "as_asked": rewound.is_as_asked,
        "put_back_files": rewound.put_back,
        "cut_files": rewound.cut,
        "written_bytes": rewound.written_bytes,
    })
}

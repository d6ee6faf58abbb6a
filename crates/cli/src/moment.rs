//! A log and a moment of it, as `indelible restore` takes them: for commands that have it restore and do more.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};

use crate::archive::NOT_NEWEST;
use crate::archive_places::KeyFiles;

/// How often it is looked whether a restore has ended, and whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// See the file's top. The words are checked by `indelible restore`.
#[derive(Args)]
#[command(group(ArgGroup::new("point").required(true).args(["at", "before", "before_delete", "latest"])))]
pub(crate) struct Moment {
    /// The data directory of the server, or an archive of its log: file:///path, s3://bucket/prefix or transfer:HOST:PORT/name.
    source: String,
    /// The state of this backup, after this block of the log, at this time, or so long ago, as for indelible restore.
    #[arg(long, value_name = "NAME|LSN|TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// The state before the last FLUSHALL, FLUSHDB or SWAPDB; flush:2 for the one before that.
    #[arg(long, value_name = "flush[:N]")]
    before: Option<String>,
    /// The state before the block in which this key was lost last.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    before_delete: Option<String>,
    /// The database of that key.
    #[arg(long, value_name = "N", requires = "before_delete")]
    db: Option<String>,
    /// The newest state.
    #[arg(long)]
    latest: bool,
    /// Of an archive: the database, if it has several.
    #[arg(long, value_name = "ID")]
    database: Option<String>,
    /// The directories of log-devices; without them, those that the log itself names.
    #[arg(long = "device", visible_alias = "log-devices", value_name = "DIRECTORY", num_args = 1..)]
    devices: Vec<String>,
    #[command(flatten)]
    keys: KeyFiles,
}

/// What was restored.
pub(crate) struct Made {
    /// The block after which it was so.
    pub(crate) lsn: u64,
    /// When that was, in Unix milliseconds, if it is known.
    pub(crate) time_ms: Option<i64>,
    /// Whether it is what was asked for: an archive may end in a gap, and lack the newest states.
    pub(crate) is_newest: bool,
}

impl Moment {
    /// The state that `at` names, or the newest, of a log or an archive.
    pub(crate) fn of(source: &str, at: Option<&str>) -> Self {
        Self {
            source: source.to_owned(),
            at: at.map(str::to_owned),
            before: None,
            before_delete: None,
            db: None,
            latest: at.is_none(),
            database: None,
            devices: Vec::new(),
            keys: KeyFiles::default(),
        }
    }

    /// With this database of an archive, these devices of a log, and these keys.
    pub(crate) fn with(self, database: Option<&str>, devices: &[PathBuf], keys: &KeyFiles) -> Self {
        let devices = devices.iter().map(|device| device.display().to_string()).collect();
        Self { database: database.map(str::to_owned), devices, keys: keys.clone(), ..self }
    }

    /// The words that say it.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec![self.source.clone()];
        let options = [
            ("--at", &self.at),
            ("--before", &self.before),
            ("--before-delete", &self.before_delete),
            ("--db", &self.db),
            ("--database", &self.database),
        ];
        for (name, value) in options {
            // With a sign: a value may begin with a dash.
            words.extend(value.iter().map(|value| format!("{name}={value}")));
        }
        let key_files = self.keys.key_files.iter();
        words.extend(key_files.map(|path| format!("--key-file={}", path.display())));
        words.extend(self.latest.then(|| "--latest".to_owned()));
        words.extend(self.devices.iter().map(|device| format!("--device={device}")));
        words
    }

    /// Restores it into a directory, by a process of its own: what it says of how far it is, it says to the same
    /// person. `None` when it could not, which was said, or when `is_given_up` came meanwhile.
    pub(crate) fn restore_into(
        &self,
        directory: &Path,
        is_given_up: &AtomicBool,
    ) -> anyhow::Result<Option<Made>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("restore").args(self.words()).arg("--json").arg("--into").arg(directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().context("cannot restore")?;
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            if is_given_up.load(Ordering::Acquire) {
                // It removes its links to the log at once.
                terminate(&process);
                process.wait()?;
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let is_newest = status.success();
        if !is_newest && status.code() != Some(i32::from(NOT_NEWEST)) {
            return Ok(None);
        }
        // A line, which a pipe holds.
        let mut said = Vec::new();
        process.stdout.take().context("no output")?.read_to_end(&mut said)?;
        let said: serde_json::Value = serde_json::from_slice(&said)?;
        let Some(lsn) = said["lsn"].as_u64() else {
            bail!("it is not known what was restored: {said}")
        };
        Ok(Some(Made { lsn, time_ms: said["time_ms"].as_i64(), is_newest }))
    }
}

/// Asks a process to end.
fn terminate(process: &Child) {
    let pid = i32::try_from(process.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It is not waited for yet, so nothing else has its number.
        let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

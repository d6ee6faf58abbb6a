//! A log and a moment of it, as `indelible restore` takes them: for commands that have it restore and do more.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};

/// See the file's top. The words are checked by `indelible restore`.
#[derive(Args)]
#[command(group(ArgGroup::new("point").required(true).args(["at", "before", "before_delete", "latest"])))]
pub(crate) struct Moment {
    /// The data directory of the server, or an archive of its log: file:///path.
    source: String,
    /// The state of this backup, after this block of the log, at this time, or so long ago, as for indelible restore.
    #[arg(long, value_name = "NAME|LSN|TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// The state before the last FLUSHALL, FLUSHDB or SWAPDB; flush:2 for the one before that.
    #[arg(long, value_name = "flush[:N]")]
    before: Option<String>,
    /// The state before the block in which this key was lost last.
    #[arg(long, value_name = "KEY")]
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
}

/// What was restored.
pub(crate) struct Made {
    /// The block after which it was so.
    pub(crate) lsn: u64,
    /// When that was, in Unix milliseconds, if it is known.
    pub(crate) time_ms: Option<i64>,
}

impl Moment {
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
        words.extend(self.latest.then(|| "--latest".to_owned()));
        words.extend(self.devices.iter().map(|device| format!("--device={device}")));
        words
    }

    /// Restores it into a directory, by a process of its own: what it says of how far it is, it says to the same
    /// person. `None` when it could not; why was said.
    pub(crate) fn restore_into(&self, directory: &Path) -> anyhow::Result<Option<Made>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("restore").args(self.words()).arg("--json").arg("--into").arg(directory);
        let output = command.stderr(Stdio::inherit()).output().context("cannot restore")?;
        if !output.status.success() {
            return Ok(None);
        }
        let said: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let Some(lsn) = said["lsn"].as_u64() else {
            bail!("it is not known what was restored: {said}")
        };
        Ok(Some(Made { lsn, time_ms: said["time_ms"].as_i64() }))
    }
}

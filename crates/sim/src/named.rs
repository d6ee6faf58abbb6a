//! Named backups: what clients were told of them, and what a recovery must find.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::Lsn;
use env::Disk;

use crate::instant::copy_of;
use crate::machine::{data_dir, device_dir};
use crate::reply::Reply;
use crate::run::Run;

/// Runs from this seed on make named backups.
pub(crate) const BACKUP_SEEDS: u64 = 10_000_000_000;

/// So many backups are restored at a recovery.
const RESTORED_MAX: u64 = 3;

/// What a command says of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Create(String),
    Delete(String),
}

impl Asked {
    /// What the arguments of a command say.
    pub(crate) fn of(args: &[Vec<u8>]) -> Option<Self> {
        let text = |at: usize| String::from_utf8_lossy(&args[at]).into_owned();
        match args {
            [first, second, _, ..] if first == b"BACKUP" && second == b"CREATE" => {
                Some(Self::Create(text(2)))
            }
            [first, second, _] if first == b"BACKUP" && second == b"DELETE" => {
                Some(Self::Delete(text(2)))
            }
            _ => None,
        }
    }
}

/// Backups that clients were told of.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedBackups {
    made: BTreeMap<String, Lsn>,
    /// Those whose deletion a client was told of.
    deleted: BTreeMap<String, Lsn>,
    /// Those that were lost with a file that was about to be put aside as damaged when the power failed.
    lost: BTreeSet<String>,
    /// Reads of the life before may have failed, or told of damage.
    may_have_lost: bool,
}

impl NamedBackups {
    /// Sets whether files may be put aside as damaged in this life.
    pub(crate) fn note_may_lose(&mut self, may_lose: bool) {
        self.may_have_lost = may_lose;
    }

    /// Whether this one may be lost, and is from now on.
    fn may_be_lost(&mut self, name: &str) -> bool {
        if self.may_have_lost {
            self.lost.insert(name.to_owned());
        }
        self.lost.contains(name)
    }

    /// A client has read this reply.
    pub(crate) fn note(&mut self, asked: Asked, reply: &Reply) {
        match (asked, reply) {
            (Asked::Create(name), Reply::Array(Some(parts))) => {
                if let Some(Reply::Int(lsn)) = parts.get(1) {
                    self.made.insert(name, Lsn(lsn.cast_unsigned()));
                }
            }
            (Asked::Delete(name), reply) if !reply.is_error() => {
                let lsn = self.made.remove(&name).unwrap_or_default();
                self.deleted.insert(name, lsn);
            }
            _ => {}
        }
    }
}

impl Run {
    /// Looks whether the log has the backups that it must have, and restores some; it ends with `last`.
    ///
    /// # Errors
    /// A backup that is missing, or another than it was, or there again.
    pub(crate) fn find_backups(&mut self, last: Lsn) -> Result<(), String> {
        if self.plan.seed < BACKUP_SEEDS {
            return Ok(());
        }
        let disk: Arc<dyn Disk> = Arc::new(copy_of(&self.disk));
        let found = redo::stored_history(&*disk, &data_dir(), &[], 1, &mut |_, _| {});
        let found = found.map_err(|error| format!("BACKUP: {error}"))?;
        let Some(history) = found else { return Ok(()) };
        // Of the last blocks everything may be gone by right, and their files with them.
        let last = last.max(history.last.0);
        // What was put aside as damaged is gone for backups, too.
        let is_damaged = (0..self.shape.devices).map(device_dir).any(|dir| {
            let names = disk.list(&dir).unwrap_or_default();
            names.iter().any(|name| name.to_string_lossy().starts_with("damaged-"))
        });
        for (name, lsn) in &self.named.made.clone() {
            let backup = history.backups.iter().find(|backup| backup.name == *name);
            match backup {
                _ if self.workload.deleted.contains(name) => {}
                None => return Err(format!("BACKUP: {name} of block {lsn} is gone")),
                Some(backup) if backup.lsn != *lsn => {
                    return Err(format!("BACKUP: {name} is of block {}, not {lsn}", backup.lsn));
                }
                Some(backup) if backup.is_lost && !is_damaged && !self.named.may_be_lost(name) => {
                    return Err(format!("BACKUP: {name} of block {lsn} is lost"));
                }
                Some(_) => {}
            }
        }
        if let Some(again) =
            history.backups.iter().find(|it| self.named.deleted.contains_key(&it.name))
        {
            return Err(format!("BACKUP: {} was deleted, and is there again", again.name));
        }
        let good: Vec<_> = history.backups.iter().filter(|backup| !backup.is_lost).collect();
        for _ in 0..RESTORED_MAX.min(good.len() as u64) {
            let at = self.rng.below(good.len() as u64);
            let backup = good[usize::try_from(at).expect("few")];
            let (name, lsn) = (&backup.name, backup.lsn);
            if lsn > last {
                return Err(format!("BACKUP: {name} is of block {lsn}, the last one is {last}"));
            }
            let found = self.restored(lsn)?;
            let found = found.ok_or_else(|| format!("BACKUP: {name}, block {lsn}, is refused"))?;
            self.ledger
                .judge_restored(lsn, &found)
                .map_err(|what| format!("BACKUP {name}: {what}"))?;
            self.tally.restored_backups += 1;
        }
        Ok(())
    }
}

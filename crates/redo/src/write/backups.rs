//! Named backups, and the notes that say so, as the executor asks for them.
//!
//! ```text
//!   create ─► held from now on ─► note in the open block ─► durable: the client is told
//!                                                               └─► a flusher writes the manifest
//! ```
//!
//! A crash before the manifest is written is no matter: the start finds the note, because compaction writes the
//! manifest before it drops one, and no index goes beyond one that the manifest lacks. So the note need not
//! be kept, and a backup costs what a write does.

use base::{DangerousCommand, Lsn};

use crate::compact::backups::{BackupFigures, BackupRefusal, BackupState, NewBackup};
use crate::format::manifest::HistoryPoint;
use crate::format::registry::{NamedBackup, NotedCommand};
use crate::write::log::Log;

/// What a backup is to be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupPoint {
    /// The open block, once it is ended.
    Now,
    /// This block.
    Lsn(Lsn),
    /// The last block that was ended by this time, in Unix milliseconds.
    Time(i64),
    /// The last block before databases were emptied or exchanged.
    Flush,
}

impl Log {
    /// Makes a backup, and holds what it needs from now on. The caller appends its note to the open block, and
    /// tells nothing of it before that is durable. Without a name it is called after its number.
    ///
    /// # Errors
    /// Why there is none.
    pub fn create_backup(
        &mut self,
        name: Option<String>,
        point: BackupPoint,
    ) -> Result<NamedBackup, BackupRefusal> {
        let holds = self.marks.holds();
        let lsn = match point {
            BackupPoint::Now => self.open_lsn,
            BackupPoint::Lsn(lsn) if lsn >= self.open_lsn => {
                return Err(BackupRefusal::BehindEnd { lsn, last: Lsn(self.open_lsn.0 - 1) });
            }
            BackupPoint::Lsn(lsn) => lsn,
            BackupPoint::Time(time_ms) if time_ms > self.shared.clock.now_ms() => {
                return Err(BackupRefusal::ToCome);
            }
            BackupPoint::Time(time_ms) => {
                let found = self.block_times().find(time_ms).ok_or(BackupRefusal::NoTime)?;
                match found {
                    (first, last) if first == last => first,
                    (first, last) => return Err(BackupRefusal::ClockWentBack { first, last }),
                }
            }
            BackupPoint::Flush => {
                let points = self.told().1;
                points.last().map(|point| point.lsn).ok_or(BackupRefusal::NoFlush)?
            }
        };
        let time_ms = self.shared.clock.now_ms();
        let new = NewBackup { name, lsn, noted_lsn: self.open_lsn, time_ms };
        holds.create_backup(new, &self.shared.index_bound)
    }

    /// Has a backup that was just made carry the server's configuration, whose note the caller appends to the same block.
    pub fn configure_backup(&mut self, id: u64, text: &str) {
        self.marks.holds().set_configuration(id, text);
    }

    /// Deletes a backup; the caller does as for [`Log::create_backup`]. `None` if there is none of this name.
    pub fn delete_backup(&mut self, name: &str) -> Option<NamedBackup> {
        self.marks.holds().delete_backup(name, self.open_lsn, &self.shared.index_bound)
    }

    /// The backups, in the order in which they were made.
    #[must_use]
    pub fn backups(&self) -> Vec<BackupState> {
        self.marks.holds().backups()
    }

    /// All of them in a few numbers.
    #[must_use]
    pub fn backup_figures(&self) -> BackupFigures {
        self.marks.holds().backup_figures()
    }

    /// The backup of this name.
    #[must_use]
    pub fn backup(&self, name: &str) -> Option<NamedBackup> {
        self.marks.holds().backup(name)
    }

    /// Remembers a dangerous command, whose note the caller appends to the open block.
    pub fn note_command(&mut self, command: DangerousCommand) {
        let (lsn, time_ms) = (self.open_lsn, self.shared.clock.now_ms());
        let noted = NotedCommand { lsn, time_ms, command };
        self.marks.holds().note_command(noted, &self.shared.index_bound);
    }

    /// The last commands that were dangerous, and the last blocks behind which databases were emptied or exchanged.
    #[must_use]
    pub fn told(&self) -> (Vec<NotedCommand>, Vec<HistoryPoint>) {
        let (commands, mut points) = self.marks.holds().told();
        // Behind these, too, that would be to be read which the log was set back over.
        points.retain(|point| !self.shared.manifest.is_abandoned(point.lsn.next()));
        (commands, points)
    }

    /// Says which backups have lost something.
    pub(crate) fn tell_lost_backups(&mut self) {
        let lost = self.marks.holds().take_lost_backups();
        if !lost.is_empty() {
            let names = lost.join(", ");
            self.tell(format!(
                "WARNING: backups have lost a file that they need, and cannot be restored any more: {names}"
            ));
        }
    }
}

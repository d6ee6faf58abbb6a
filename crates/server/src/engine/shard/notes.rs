//! What the log is told of itself: named backups, and dangerous commands.
//!
//! A note is a record that nothing needs: it is retired as soon as it is appended. That a command is noted is
//! worth no refusal, so a log that takes no writes is not told.

use base::{DangerousCommand, DbId, Lsn, Note, NoteEvent, Record, RecordKind};
use redo::{BackupPoint, BackupRefusal, NamedBackup};

use super::{LogHealth, LogState, Shard, ShardLog};

impl Shard {
    /// Lets notes follow. Between commands only: the first one of a log begins new files.
    pub(in crate::engine) fn declare_notes(&mut self) {
        // Whether or not it takes notes now: it may before the next one follows.
        let is_on = matches!(self.log_state(), LogState::On(_)) && !self.is_loading();
        if let Some(log) = self.log_mut().filter(|_| is_on) {
            log.declare(RecordKind::Note);
        }
    }

    /// Makes a backup that carries the server's configuration, without secrets, and returns it with the block that says so.
    /// Notes were declared.
    pub(in crate::engine) fn create_backup(
        &mut self,
        name: Option<String>,
        point: BackupPoint,
        now_ms: i64,
        configuration: String,
    ) -> Result<NamedBackup, BackupRefusal> {
        let Some(log) = self.noted_log() else { return Err(BackupRefusal::NoLog) };
        let backup = log.create_backup(name, point)?;
        let NamedBackup { id, ref name, lsn, .. } = backup;
        append(log, NoteEvent::BackupCreated { id, name: name.clone(), lsn }, now_ms);
        log.configure_backup(id, &configuration);
        append(log, NoteEvent::BackupConfiguration { id, text: configuration }, now_ms);
        Ok(backup)
    }

    /// Deletes the backup of this name; the block that says so. `None` if there is none. Notes were declared.
    pub(in crate::engine) fn delete_backup(&mut self, name: &str, now_ms: i64) -> Option<Lsn> {
        // Also of a full disk, which this makes room on.
        let log = self.log_mut()?;
        let NamedBackup { id, name, .. } = log.delete_backup(name)?;
        append(log, NoteEvent::BackupDeleted { id, name }, now_ms);
        Some(log.open_lsn())
    }

    /// Notes a dangerous command, if the log takes notes. They were declared.
    pub(in crate::engine) fn note_command(&mut self, command: DangerousCommand, now_ms: i64) {
        if let Some(log) = self.noted_log() {
            log.note_command(command.clone());
            append(log, NoteEvent::Command(command), now_ms);
        }
    }

    /// Keeps what was there before the open block longer than other history: that is about to lose data.
    pub(in crate::engine) fn note_point(&mut self) {
        if let Some(log) = self.log_mut() {
            log.note_point();
        }
    }

    /// The log, if it takes notes.
    fn noted_log(&mut self) -> Option<&mut (dyn ShardLog + 'static)> {
        let is_on = matches!(self.log_state(), LogState::On(_)) && !self.is_loading();
        let log = self.log_mut().filter(|_| is_on)?;
        (log.health() == LogHealth::Good).then_some(log)
    }
}

fn append(log: &mut dyn ShardLog, event: NoteEvent, now_ms: i64) {
    let value = Note { time_ms: now_ms, event }.encode();
    let record = Record::whole(RecordKind::Note, DbId(0), &[], &value, None);
    if let Some(addr) = log.append(&record) {
        log.retire(addr);
    }
}

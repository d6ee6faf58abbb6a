//! The `# Backup` section of INFO: how far back the log can be read, and named backups.

use super::super::Engine;
use super::info::line;

/// Writes the section.
pub(super) fn section(engine: &Engine, out: &mut String) {
    let history = engine.shard.log().map(|log| log.history()).unwrap_or_default();
    line(out, "history_from_lsn", history.from_lsn.0);
    line(out, "history_from_time", history.from_time_ms / 1000);
    line(out, "history_seconds", history.seconds);
    line(out, "history_bytes", history.bytes);
    line(out, "history_files", history.files);
    line(out, "history_given_up", history.given_up);
    let log = engine.shard.log();
    let backups = log.map(|log| log.backups()).unwrap_or_default();
    let lost = backups.iter().filter(|it| it.backup.is_lost).count();
    line(out, "backups", backups.len());
    line(out, "backups_lost", lost);
    line(out, "backups_held_bytes", log.map_or(0, |log| log.backup_bytes()));
    if let Some(redo::BackupState { backup, .. }) = backups.last() {
        line(out, "backup_last_name", &backup.name);
        line(out, "backup_last_lsn", backup.lsn.0);
        line(out, "backup_last_time", backup.time_ms / 1000);
        line(out, "backup_last_us", engine.backups.last_us);
    }
}

//! The `# Backup` section of INFO: how far back the log can be read, named backups, and where else it is.

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
    line(out, "history_limit_bytes", history.limit_bytes.unwrap_or_default());
    line(out, "history_readers", history.readers);
    line(out, "history_reader_bytes", history.reader_bytes);
    backups(engine, out);
    archive(engine, out);
}

fn backups(engine: &Engine, out: &mut String) {
    let figures = engine.shard.log().map(|log| log.backup_figures()).unwrap_or_default();
    line(out, "backups", figures.count);
    line(out, "backups_lost", engine.verifying.lost_among(figures.lost, || engine.known_backups()));
    line(out, "backups_held_bytes", figures.held_bytes);
    if let Some(backup) = &figures.last {
        line(out, "backup_last_name", &backup.name);
        line(out, "backup_last_lsn", backup.lsn.0);
        line(out, "backup_last_time", backup.time_ms / 1000);
        line(out, "backup_last_us", engine.backups.last_us);
    }
    let known = engine.verifying.known_of_all();
    line(out, "backup_verify_state", known.state);
    line(out, "backup_verify_percent", known.percentage);
    line(out, "backup_verify_time", known.time_ms / 1000);
    line(out, "backup_verify_error", known.why.replace(['\r', '\n'], " "));
}

fn archive(engine: &Engine, out: &mut String) {
    let figures = engine.archives.figures_at(engine.time.now_us, engine.shard.reach.durable);
    line(out, "archive_state", figures.state.name());
    line(out, "archive_target", engine.config.value("archive"));
    line(out, "archive_writer", figures.writer);
    line(out, "archive_lsn", figures.archived.0);
    line(out, "archive_time", figures.archived_time_ms / 1000);
    line(out, "archive_from_lsn", figures.restorable_from.0);
    line(out, "archive_verified_lsn", figures.verified.0);
    line(out, "archive_damaged_objects", figures.damaged);
    line(out, "archive_lag_blocks", figures.lag_blocks);
    line(out, "archive_lag_bytes", figures.lag_bytes);
    line(out, "archive_lag_seconds", figures.lag_ms / 1000);
    line(out, "archive_behind_seconds", figures.behind_ms / 1000);
    line(out, "archive_objects", figures.objects);
    line(out, "archive_bytes", figures.bytes);
    line(out, "archive_raw_bytes", figures.raw_bytes);
    line(out, "archive_bases", figures.fills);
    line(out, "archive_fill_done_records", figures.fill_done);
    line(out, "archive_fill_total_records", figures.fill_total);
    line(out, "archive_gaps", figures.gaps);
    line(out, "archive_tidy_state", figures.tidy.state.name());
    line(out, "archive_tidy_damaged", figures.tidy.damaged);
    line(out, "archive_tidied", figures.tidy.times);
    line(out, "archive_tidied_objects", figures.tidy.objects);
    line(out, "archive_tidied_time", figures.tidy.time_ms / 1000);
    line(out, "archive_errors", figures.errors);
    let error = figures.last_error.unwrap_or_default().replace(['\r', '\n'], " ");
    line(out, "archive_last_error", error);
}

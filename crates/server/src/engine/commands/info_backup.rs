//! The `# Backup` section of INFO: how far back the log can be read.

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
    line(out, "history_readers", history.readers);
    line(out, "history_reader_bytes", history.reader_bytes);
}

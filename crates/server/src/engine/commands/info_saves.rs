//! INFO persistence: dumps of the data.

use dump::HourglassFigures;

use super::super::Engine;
use super::super::saves::FileSave;
use super::info::line;
use crate::config::SnapshotAlgorithm;
use crate::save::SaveFigures;

/// Writes what is said of dumps, with Redis' names first.
pub(super) fn section(engine: &Engine, out: &mut String) {
    let saves = &engine.saves;
    let running = match &saves.file {
        FileSave::Running(running) => Some(running),
        FileSave::None | FileSave::Wanted => None,
    };
    let figures = running.map_or(saves.last.figures, |running| running.ticket.figures());
    let SaveFigures { records_done, records_total, keys, spilled_bytes, lsn, .. } = figures;
    let (keys, keys_total) = running.map_or((0, 0), |running| (keys, running.keys_total));
    let percent = match running {
        Some(_) => (records_done * 10_000 / records_total.max(1)).min(10_000),
        None => 0,
    };
    line(out, "async_loading", 0);
    line(out, "current_cow_peak", engine.walking.handed_bytes_max);
    line(out, "current_cow_size", engine.shard.keyspace.handed_bytes());
    line(out, "current_cow_size_age", 0);
    line(out, "current_fork_perc", format!("{}.{:02}", percent / 100, percent % 100));
    line(out, "current_save_keys_processed", keys);
    line(out, "current_save_keys_total", keys_total);
    line(out, "rdb_changes_since_last_save", engine.shard.keyspace.dirty() - saves.dirty);
    line(out, "rdb_bgsave_in_progress", u8::from(!matches!(saves.file, FileSave::None)));
    line(out, "rdb_last_save_time", saves.last_unix_s);
    line(out, "rdb_last_bgsave_status", if saves.last.is_good { "ok" } else { "err" });
    line(out, "rdb_last_bgsave_time_sec", seconds(saves.last.duration_s));
    let elapsed = |begun_us| engine.time.now_us.saturating_sub(begun_us) / 1_000_000;
    let running_s = running.map(|running| elapsed(running.begun_us));
    line(out, "rdb_current_bgsave_time_sec", seconds(running_s));
    line(out, "rdb_saves", saves.completed);
    line(out, "rdb_last_cow_size", 0);
    line(out, "rdb_last_load_keys_expired", 0);
    line(out, "rdb_last_load_keys_loaded", 0);
    let algorithm = match engine.snapshot_algorithm() {
        SnapshotAlgorithm::Auto | SnapshotAlgorithm::Bitmap => "bitmap",
        SnapshotAlgorithm::Piggyback => "piggyback",
        SnapshotAlgorithm::CopyOnUpdate => "cou",
        SnapshotAlgorithm::Fork => "fork",
        SnapshotAlgorithm::Hourglass => "hourglass",
    };
    line(out, "snapshot_algorithm", algorithm);
    line(out, "snapshot_lsn", lsn);
    line(out, "snapshot_taken_usec", saves.taken_us);
    line(out, "snapshot_spilled_bytes", spilled_bytes);
    line(out, "snapshot_handed_bytes_peak", engine.walking.handed_bytes_max);
    line(out, "snapshot_streams", saves.streams.len());
    line(out, "snapshot_lost_keys", saves.last.figures.lost_keys);
    // Of the last dump that is complete.
    let HourglassFigures { last_lsn, whole, copied_bytes, changed_records, companion_bytes } =
        saves.last.figures.made_of;
    line(out, "snapshot_merged_lsn", last_lsn.unwrap_or_default());
    line(out, "snapshot_copied_bytes", copied_bytes);
    line(out, "snapshot_changed_records", changed_records);
    line(out, "snapshot_companion_bytes", companion_bytes);
    line(out, "snapshot_whole_reason", whole.map_or_else(String::new, |why| why.to_string()));
}

fn seconds(seconds: Option<u64>) -> String {
    seconds.map_or_else(|| "-1".to_owned(), |seconds| seconds.to_string())
}

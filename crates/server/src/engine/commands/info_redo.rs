//! The `# Redo` section of INFO: the log in numbers.

use crate::engine::IndexFigures;
use redo::{DeviceState, DeviceStats, Stats};

use super::super::Engine;
use super::info::line;

/// Writes the section.
pub(super) fn section(engine: &Engine, out: &mut String) {
    line(out, "redo_enabled", u8::from(engine.shard.log().is_some()));
    line(out, "redo_turning_on", u8::from(engine.shard.log_state().is_turning_on()));
    line(out, "redo_policy", engine.options.fsync.name());
    line(out, "redo_durable_lsn", engine.shard.reach.durable.0);
    line(out, "redo_written_lsn", engine.shard.reach.written.0);
    line(out, "redo_held_replies", engine.sessions.held.len());
    if let Some(log) = engine.shard.log() {
        let health = log.health();
        let health = health.reason().map_or("ok".to_owned(), |why| why.replace(['\r', '\n'], " "));
        line(out, "redo_health", health);
        line(out, "redo_congested", u8::from(log.is_congested()));
        line(out, "redo_clients_held_back", engine.sessions.congestion.held_back_count());
        let stats = log.stats();
        line(out, "redo_disk_bytes", stats.bytes);
        log.reader().iter().for_each(|log| line(out, "redo_log_id", log.database()));
        figures(&stats, out);
        let index = log.index_figures();
        line(out, "redo_index", u8::from(index.is_some()));
        index.iter().for_each(|index| figures_of_index(index, out));
    }
    figures_of_tails(engine, out);
}

fn figures_of_tails(engine: &Engine, out: &mut String) {
    let figures = engine.tails.figures();
    let durable = engine.shard.reach.durable;
    let clients = || engine.sessions.clients.iter().filter_map(|(_, client)| client.session.tailed);
    let lag = clients().min().map_or(0, |last| durable.0.saturating_sub(last.0));
    line(out, "logtail_clients", clients().count());
    line(out, "logtail_waiting", engine.tails.waiting_count());
    line(out, "logtail_lag_blocks", lag);
    line(out, "logtail_requests", figures.requests);
    line(out, "logtail_errors", figures.errors);
    line(out, "logtail_blocks", figures.blocks);
    line(out, "logtail_changes", figures.changes);
    line(out, "logtail_bytes", figures.bytes);
    line(out, "logtail_usec", figures.spent_us);
    line(out, "logtail_learnings", figures.learnings);
    line(out, "logtail_learned_blocks", figures.learned_blocks);
    line(out, "logtail_roots_bytes", figures.roots_bytes);
    line(out, "logtail_roots_forgotten", figures.roots_forgotten);
}

fn figures(stats: &Stats, out: &mut String) {
    line(out, "redo_epoch", stats.epoch);
    line(out, "redo_open_lsn", stats.open_lsn.0);
    line(out, "redo_in_flight_bytes", stats.in_flight_bytes);
    line(out, "redo_segments", stats.segments);
    line(out, "redo_files", stats.files);
    line(out, "redo_records", stats.records);
    line(out, "redo_invalid_records", stats.invalid_records);
    line(out, "redo_delete_records", stats.delete_records);
    line(out, "redo_bitmap_bytes", stats.bitmap_bytes);
    line(out, "redo_compacting", u8::from(stats.compacting.is_some()));
    line(out, "redo_compactions", stats.compactions);
    line(out, "redo_compactions_failed", stats.compactions_failed);
    line(out, "redo_reclaimed_bytes", stats.reclaimed_bytes);
    line(out, "redo_scrubbed_bytes", stats.scrubbed_bytes);
    line(out, "redo_scrub_passes", stats.scrub_passes);
    line(out, "redo_scrub_last_pass_time", stats.scrub_pass_ended_at_ms / 1000);
    line(out, "redo_scrub_errors", stats.scrub_errors);
    line(out, "redo_scrub_healed", stats.scrub_healed);
    line(out, "redo_scrub_last_error", one_line(stats.scrub_error.as_deref()));
    line(out, "redo_devices", stats.devices.len());
    for (index, device) in stats.devices.iter().enumerate() {
        line(out, "redo_device", figures_of_device(index, device));
    }
}

fn figures_of_index(index: &IndexFigures, out: &mut String) {
    line(out, "redo_index_read_lsn", index.read_lsn);
    line(out, "redo_index_cut_lsn", index.cut_lsn);
    line(out, "redo_index_runs", index.runs);
    line(out, "redo_index_bytes", index.bytes);
    line(out, "redo_index_entries", index.entries);
    line(out, "redo_index_cached_bytes", index.cached_bytes);
    line(out, "redo_index_usable", u8::from(index.of_log.is_believed));
    line(out, "redo_index_lag_bytes", index.of_log.lag_bytes);
    line(out, "redo_index_unfinished_starts", index.of_log.unfinished_starts);
    line(out, "redo_index_given_up", u8::from(index.is_given_up));
    line(out, "redo_index_hot_records", index.hot_records);
    line(out, "redo_index_hot_saves", index.hot_saves);
    line(out, "redo_index_last_error", one_line(index.last_error.as_deref()));
}

fn figures_of_device(index: usize, device: &DeviceStats) -> String {
    let state = match device.state {
        DeviceState::Healthy if device.is_draining => "Draining",
        DeviceState::Healthy => "Healthy",
        DeviceState::Full => "Full",
        DeviceState::Poisoned => "Poisoned",
    };
    format!(
        "index={index},path={},state={state},segments={},queued_bytes={},written_bytes={},written_blocks={},\
         syncs={},writes={},spare={},bytes={},records={},invalid_records={},sync_usec={},busy_usec={},last_error={}",
        device.path.display(),
        device.segments,
        device.queued_bytes,
        device.written_bytes,
        device.written_blocks,
        device.sync_latency.count,
        if device.is_over_zeros { "over-zeros" } else { "growing" },
        u8::from(device.has_spare),
        device.bytes,
        device.records,
        device.invalid_records,
        device.sync_latency.sum_us,
        device.busy_us,
        one_line(device.last_error.as_deref()),
    )
}

/// An error as INFO shows it.
pub(super) fn one_line(error: Option<&str>) -> String {
    error.unwrap_or("none").replace([',', '\r', '\n'], " ")
}

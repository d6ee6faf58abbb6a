//! The figures as OpenMetrics: one row a metric, by the name that INFO has for it.
//!
//! Labels are the numbers of devices, names of commands that the server knows, states of a fixed list and the first
//! databases: nothing that a client can make more of.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::info::Info;
use crate::report::{Bound, Latency, LogDevice};
use crate::watch::Picture;

/// More databases than these are not told apart.
const DATABASES_MAX: usize = 64;

/// The states that a device may have.
const DEVICE_STATES: [&str; 4] = ["Healthy", "Draining", "Full", "Poisoned"];

/// What a figure of INFO is in OpenMetrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
    /// 1 if the text is this one.
    Is(&'static str),
    /// 0 if the text is this one, else 1.
    IsNot(&'static str),
}

use Kind::{Counter, Gauge, Is, IsNot};

/// What a figure is measured in.
#[derive(Clone, Copy)]
enum Measure {
    Count,
    Bytes,
    Seconds,
}

impl Measure {
    const fn unit(self) -> Option<Unit> {
        match self {
            Self::Count => None,
            Self::Bytes => Some(Unit::Bytes),
            Self::Seconds => Some(Unit::Seconds),
        }
    }
}

#[derive(Clone, Copy)]
struct Row {
    /// INFO's name.
    field: &'static str,
    /// Ours, without prefix and unit.
    name: &'static str,
    measure: Measure,
    /// What the figure is multiplied with to be in that unit.
    factor: f64,
    kind: Kind,
    help: &'static str,
}

const fn row(field: &'static str, name: &'static str, kind: Kind, help: &'static str) -> Row {
    Row { field, name, measure: Measure::Count, factor: 1.0, kind, help }
}

const fn bytes(field: &'static str, name: &'static str, kind: Kind, help: &'static str) -> Row {
    Row { measure: Measure::Bytes, ..row(field, name, kind, help) }
}

const fn seconds(field: &'static str, name: &'static str, kind: Kind, help: &'static str) -> Row {
    Row { measure: Measure::Seconds, ..row(field, name, kind, help) }
}

/// What INFO has in milliseconds or microseconds, as seconds.
const fn scaled(
    field: &'static str,
    name: &'static str,
    kind: Kind,
    factor: f64,
    help: &'static str,
) -> Row {
    Row { factor, ..seconds(field, name, kind, help) }
}

/// The table.
const ROWS: &[Row] = &[
    seconds("uptime_in_seconds", "uptime", Gauge, "Since the server started"),
    // Is the data safe?
    row("redo_enabled", "log_enabled", Gauge, "Whether there is a redo log"),
    row(
        "redo_policy",
        "durability_always",
        Is("always"),
        "Whether a write is durable when it is answered",
    ),
    row("redo_health", "log_healthy", Is("ok"), "Whether the log takes writes without an error"),
    row(
        "aof_last_write_status",
        "writes_refused",
        IsNot("ok"),
        "Whether writes are refused because of the log",
    ),
    row("redo_durable_lsn", "log_durable_lsn", Gauge, "The last block of the durable prefix"),
    row("redo_written_lsn", "log_written_lsn", Gauge, "The last block that was written"),
    row("redo_open_lsn", "log_open_lsn", Gauge, "The block that takes records"),
    row("redo_held_replies", "log_held_replies", Gauge, "Replies that wait for the log"),
    row("redo_congested", "log_congested", Gauge, "Whether the log does not keep up"),
    row(
        "redo_clients_held_back",
        "log_clients_held_back",
        Gauge,
        "Clients that are not read until the log keeps up",
    ),
    row("lost_values", "lost_values", Gauge, "Values that were lost in damage"),
    // The log.
    bytes("redo_disk_bytes", "log_disk", Gauge, "The files of the log"),
    row("redo_segments", "log_segments", Gauge, "Segments of the log"),
    row("redo_files", "log_files", Gauge, "Files of the log"),
    row("redo_records", "log_records", Gauge, "Records in the log"),
    row("redo_invalid_records", "log_invalid_records", Gauge, "Records that are garbage"),
    row(
        "redo_delete_records",
        "log_delete_records",
        Gauge,
        "Records that say that an entry is gone",
    ),
    bytes("redo_bitmap_bytes", "log_bitmap", Gauge, "Memory of the validity bitmaps"),
    bytes(
        "redo_in_flight_bytes",
        "log_in_flight",
        Gauge,
        "Blocks that were handed over and are not given back",
    ),
    row("redo_compacting", "log_compacting", Gauge, "Whether a segment is being compacted"),
    row("redo_compactions", "log_compactions", Counter, "Compactions that came to a good end"),
    row("redo_compactions_failed", "log_compactions_failed", Counter, "Compactions that failed"),
    bytes("redo_reclaimed_bytes", "log_reclaimed", Counter, "What compactions have freed"),
    bytes("redo_scrubbed_bytes", "log_scrubbed", Counter, "What was read again to find damage"),
    row(
        "redo_scrub_passes",
        "log_scrub_passes",
        Counter,
        "How often all of the log was read again",
    ),
    seconds(
        "redo_scrub_last_pass_time",
        "log_scrub_last_pass_timestamp",
        Gauge,
        "When all of it was read again last",
    ),
    row("redo_scrub_errors", "log_scrub_errors", Gauge, "Damaged files that were found"),
    row(
        "redo_scrub_healed",
        "log_scrub_healed",
        Gauge,
        "Damaged files that were mended from memory",
    ),
    row("redo_index", "index_enabled", Gauge, "Whether there is an index of the log"),
    row("redo_index_usable", "index_usable", Gauge, "Whether a start would believe the index"),
    row("redo_index_given_up", "index_given_up", Gauge, "Whether the index was given up"),
    bytes("redo_index_bytes", "index_disk", Gauge, "The files of the index"),
    bytes(
        "redo_index_lag_bytes",
        "index_lag",
        Gauge,
        "What of the log lies behind the cut of the index",
    ),
    // Recovery and warm-up.
    row("loading", "loading", Gauge, "Whether the data is being loaded"),
    bytes("loading_total_bytes", "loading_total", Gauge, "What is to be loaded"),
    bytes("loading_loaded_bytes", "loading_loaded", Gauge, "What of it is loaded"),
    seconds("loading_eta_seconds", "loading_eta", Gauge, "How long loading takes still"),
    row("recovery_keys_total", "recovery_keys", Gauge, "Keys that there were at the start"),
    row("recovery_keys_cold", "recovery_keys_cold", Gauge, "Keys that are still in the log only"),
    row("recovery_hot_keys_total", "recovery_hot_keys", Gauge, "Keys that come back first"),
    row("recovery_hot_keys_done", "recovery_hot_keys_done", Gauge, "Those that have"),
    seconds("recovery_eta_seconds", "recovery_eta", Gauge, "How long the warm-up takes still"),
    scaled("recovery_elapsed_ms", "recovery_elapsed", Gauge, 1e-3, "How long it has taken"),
    // Memory by residence.
    bytes("used_memory", "memory_used", Gauge, "What the program has asked the allocator for"),
    bytes("used_memory_rss", "memory_resident", Gauge, "What the process has of the machine"),
    bytes("used_memory_peak", "memory_used_peak", Gauge, "The most that was used"),
    bytes("used_memory_dataset", "memory_dataset", Gauge, "What of it is data"),
    bytes("used_memory_overhead", "memory_overhead", Gauge, "What of it is not"),
    bytes("mem_clients_normal", "memory_clients", Gauge, "What clients take"),
    bytes("maxmemory", "memory_max", Gauge, "The limit of memory, 0 for none"),
    row("mem_fragmentation_ratio", "memory_fragmentation", Gauge, "Resident memory by used memory"),
    row("cold_keys", "cold_keys", Gauge, "Keys that are in the log only"),
    row("cold_values", "cold_values", Gauge, "Entries in memory whose value is in the log only"),
    row("cold_lookups", "cold_lookups", Counter, "Looks for keys that were not in memory"),
    row(
        "cold_fetches",
        "cold_fetches",
        Counter,
        "Keys that came back before a command needed them",
    ),
    row(
        "cold_blocking_fetches",
        "cold_blocking_fetches",
        Counter,
        "Values that the executor read itself",
    ),
    row("cold_failures", "cold_failures", Counter, "Reads of what was not in memory that failed"),
    row(
        "cold_fetching_clients",
        "cold_fetching_clients",
        Gauge,
        "Clients that wait for keys from the log",
    ),
    bytes("cold_fetched_bytes", "cold_fetched", Counter, "What was read from the log for commands"),
    // Snapshots, history, backups, archive.
    row("rdb_bgsave_in_progress", "dump_in_progress", Gauge, "Whether a dump is being written"),
    row(
        "rdb_last_bgsave_status",
        "dump_last_failed",
        IsNot("ok"),
        "Whether the last dump has failed",
    ),
    seconds("rdb_last_save_time", "dump_last_timestamp", Gauge, "When the last dump was complete"),
    row("rdb_saves", "dumps", Counter, "Dumps that were written"),
    row(
        "rdb_changes_since_last_save",
        "dump_changes_since_last",
        Gauge,
        "Changes since the last dump",
    ),
    row(
        "history_from_lsn",
        "history_from_lsn",
        Gauge,
        "The log can be read as of every block from this one on",
    ),
    seconds("history_seconds", "history", Gauge, "How far back that is"),
    bytes("history_bytes", "history_disk", Gauge, "Files that are kept for it"),
    row(
        "history_given_up",
        "history_given_up",
        Counter,
        "Files that were given up before they were old",
    ),
    row("backups", "backups", Gauge, "Named backups"),
    row("backups_lost", "backups_lost", Gauge, "Named backups that cannot be restored any more"),
    bytes("backups_held_bytes", "backups_held", Gauge, "Files that are kept for them"),
    seconds("backup_last_time", "backup_last_timestamp", Gauge, "When the last one was made"),
    seconds(
        "backup_verify_time",
        "backup_verified_timestamp",
        Gauge,
        "When backups were verified last",
    ),
    row("archive_lsn", "archive_lsn", Gauge, "The last block that is in the archive"),
    row(
        "archive_from_lsn",
        "archive_from_lsn",
        Gauge,
        "The first block that the archive can restore",
    ),
    row(
        "archive_lag_blocks",
        "archive_lag_blocks",
        Gauge,
        "Durable blocks that are not in the archive",
    ),
    bytes("archive_lag_bytes", "archive_lag", Gauge, "Their bytes"),
    seconds(
        "archive_behind_seconds",
        "archive_behind",
        Gauge,
        "How old what the archive could restore is",
    ),
    bytes("archive_bytes", "archive_shipped", Counter, "What was sent to the archive"),
    row("archive_errors", "archive_errors", Counter, "Errors of the archive's store"),
    row("archive_gaps", "archive_gaps", Counter, "Gaps in the archive"),
    row(
        "archive_damaged_objects",
        "archive_damaged_objects",
        Gauge,
        "Objects that were found damaged",
    ),
    // Clients and traffic.
    row("connected_clients", "clients", Gauge, "Connected clients"),
    row("blocked_clients", "clients_blocked", Gauge, "Clients that wait in a blocking command"),
    row("maxclients", "clients_max", Gauge, "How many there may be"),
    row("total_connections_received", "connections", Counter, "Connections that were accepted"),
    row(
        "rejected_connections",
        "connections_rejected",
        Counter,
        "Connections that were turned away",
    ),
    row("total_commands_processed", "commands_processed", Counter, "Commands that were executed"),
    row("total_error_replies", "error_replies", Counter, "Errors that were replied"),
    bytes("total_net_input_bytes", "network_received", Counter, "What clients have sent"),
    bytes("total_net_output_bytes", "network_sent", Counter, "What was sent to them"),
    row("keyspace_hits", "keyspace_hits", Counter, "Looks for keys that were there"),
    row("keyspace_misses", "keyspace_misses", Counter, "Looks for keys that were not"),
    row("expired_keys", "expired_keys", Counter, "Keys that have expired"),
    row("evicted_keys", "evicted_keys", Counter, "Keys that were evicted"),
    row("evicted_values", "evicted_values", Counter, "Values that have left memory"),
    row("acl_access_denied_auth", "auth_failures", Counter, "Wrong passwords"),
    row(
        "acl_access_denied_cmd",
        "acl_denied_commands",
        Counter,
        "Commands that a user may not use",
    ),
    row("acl_access_denied_key", "acl_denied_keys", Counter, "Keys that a user may not use"),
    row("logtail_clients", "change_stream_clients", Gauge, "Clients that follow the change stream"),
    row(
        "logtail_lag_blocks",
        "change_stream_lag_blocks",
        Gauge,
        "How far the last of them is behind",
    ),
    seconds("used_cpu_sys", "cpu_system", Counter, "Processor time in the kernel"),
    seconds("used_cpu_user", "cpu_user", Counter, "Processor time outside of it"),
    scaled(
        "eventloop_duration_sum",
        "executor_busy",
        Counter,
        1e-6,
        "How long the executor's loop has worked",
    ),
    row("eventloop_cycles", "executor_cycles", Counter, "Turns of the executor's loop"),
];

/// Encodes a picture, or that there is none.
pub(crate) fn encode(picture: Option<&Picture>) -> String {
    let mut registry = Registry::with_prefix("indelible");
    registry.register_collector(Box::new(Figures(Scrape::of(picture))));
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("a String takes what is written to it");
    out
}

/// What a scrape needs of a picture, on its own: a collector lives as long as it likes.
struct Scrape {
    seen: Option<Seen>,
}

struct Seen {
    info: Info,
    age: Duration,
    devices: Vec<LogDevice>,
    commands: Vec<crate::report::CommandLatency>,
    slow: usize,
}

impl Scrape {
    fn of(picture: Option<&Picture>) -> Self {
        let seen = picture.map(|picture| Seen {
            info: picture.info.clone(),
            age: picture.at.elapsed(),
            devices: picture.report.devices.clone(),
            commands: picture.report.commands.clone(),
            slow: picture.report.slow.total,
        });
        Self { seen }
    }
}

struct Figures(Scrape);

impl fmt::Debug for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Figures")
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Some(seen) = &self.0.seen else {
            return one(&mut encoder, &row("", "up", Gauge, UP), 0.0);
        };
        let is_up = if seen.age < Duration::from_secs(3) { 1.0 } else { 0.0 };
        one(&mut encoder, &row("", "up", Gauge, UP), is_up)?;
        let age = seconds("", "report_age", Gauge, "How old these figures are");
        one(&mut encoder, &age, seen.age.as_secs_f64())?;
        build(&mut encoder, &seen.info)?;
        for row in ROWS {
            if let Some(value) = row.value(&seen.info) {
                one(&mut encoder, row, value)?;
            }
        }
        let slow = row("", "slow_commands", Gauge, "Commands in the slow log");
        #[expect(clippy::cast_precision_loss, reason = "the slow log is short")]
        one(&mut encoder, &slow, seen.slow as f64)?;
        keyspace(&mut encoder, &seen.info)?;
        devices(&mut encoder, &seen.devices)?;
        commands(&mut encoder, &seen.commands)
    }
}

const UP: &str = "Whether the executor has answered within three seconds";

impl Row {
    fn value(&self, info: &Info) -> Option<f64> {
        let is = |what: &str| !info.text(self.field).is_empty() && info.text(self.field) == what;
        let of = |is: bool| if is { 1.0 } else { 0.0 };
        match self.kind {
            Gauge | Counter => info.get::<f64>(self.field).map(|it| it * self.factor),
            Is(what) => (!info.text(self.field).is_empty()).then(|| of(is(what))),
            IsNot(what) => (!info.text(self.field).is_empty()).then(|| of(!is(what))),
        }
    }
}

fn one(encoder: &mut DescriptorEncoder, row: &Row, value: f64) -> fmt::Result {
    let unit = row.measure.unit();
    let unit = unit.as_ref();
    if row.kind == Counter {
        let mut metric =
            encoder.encode_descriptor(row.name, row.help, unit, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    } else {
        let mut metric = encoder.encode_descriptor(row.name, row.help, unit, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    }
}

fn build(encoder: &mut DescriptorEncoder, info: &Info) -> fmt::Result {
    let mut metric = encoder.encode_descriptor("build", "The program", None, MetricType::Info)?;
    metric.encode_info(&[
        ("version", info.text("indelible_version")),
        ("commit", info.text("redis_git_sha1")),
        ("redis_version", info.text("redis_version")),
    ])
}

fn keyspace(encoder: &mut DescriptorEncoder, info: &Info) -> fmt::Result {
    let databases = info.databases();
    type Part = fn(&(u64, u64, u64)) -> u64;
    let parts: [(&str, &str, Part); 2] = [
        ("keys", "Keys, of the first databases", |it| it.1),
        ("keys_expiring", "Keys that expire, of the first databases", |it| it.2),
    ];
    for (name, help, part) in parts {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for database in databases.iter().take(DATABASES_MAX) {
            let labels = [("db", database.0)];
            metric.encode_family(&labels)?.encode_gauge(&part(database))?;
        }
    }
    Ok(())
}

fn devices(encoder: &mut DescriptorEncoder, devices: &[LogDevice]) -> fmt::Result {
    let help = "How a device of the log is: 1 for the state that it is in";
    let mut metric =
        encoder.encode_descriptor("log_device_state", help, None, MetricType::Gauge)?;
    for device in devices {
        for state in DEVICE_STATES {
            let labels = [("device", device.index.to_string()), ("state", state.to_owned())];
            metric.encode_family(&labels)?.encode_gauge(&u64::from(device.state == state))?;
        }
    }
    type Part = fn(&LogDevice) -> u64;
    let gauges: [(&str, &str, Option<Unit>, Part); 5] = [
        ("log_device_segments", "Segments on a device", None, |it| it.segments),
        ("log_device_disk", "The files of the log on a device", Some(Unit::Bytes), |it| it.bytes),
        ("log_device_records", "Records on a device", None, |it| it.records),
        ("log_device_invalid_records", "Garbage on a device", None, |it| it.invalid_records),
        ("log_device_queued", "What waits to be written to a device", Some(Unit::Bytes), |it| {
            it.queued_bytes
        }),
    ];
    for (name, help, unit, part) in gauges {
        let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for device in devices {
            metric.encode_family(&[("device", device.index)])?.encode_gauge(&part(device))?;
        }
    }
    let busy = "How long the write or sync that is under way on a device has taken by now";
    let unit = Unit::Seconds;
    let mut metric =
        encoder.encode_descriptor("log_device_busy", busy, Some(&unit), MetricType::Gauge)?;
    for device in devices {
        let labels = [("device", device.index)];
        metric.encode_family(&labels)?.encode_gauge(&device.busy.as_secs_f64())?;
    }
    let counters: [(&str, &str, Option<Unit>, Part); 2] = [
        ("log_device_written", "What was written to a device", Some(Unit::Bytes), |it| {
            it.written_bytes
        }),
        ("log_device_blocks", "Blocks that were written to a device", None, |it| it.written_blocks),
    ];
    for (name, help, unit, part) in counters {
        let mut metric =
            encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        for device in devices {
            let labels = [("device", device.index)];
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, f64>(&part(device), None)?;
        }
    }
    let help = "How long a device takes to make writes durable";
    let mut metric =
        encoder.encode_descriptor("log_device_sync", help, Some(&unit), MetricType::Histogram)?;
    for device in devices {
        let (buckets, count) = in_seconds(&device.syncs);
        let sum = device.syncs.sum.as_secs_f64();
        let labels = [("device", device.index)];
        let mut metric = metric.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

fn commands(
    encoder: &mut DescriptorEncoder,
    commands: &[crate::report::CommandLatency],
) -> fmt::Result {
    let unit = Unit::Seconds;
    let help = "How long commands run; only calls made while latency-tracking is yes";
    let mut metric =
        encoder.encode_descriptor("command_duration", help, Some(&unit), MetricType::Histogram)?;
    for command in commands {
        let (buckets, count) = in_seconds(&command.latency);
        let sum = command.latency.sum.as_secs_f64();
        let labels = [("command", command.name.as_str())];
        let mut metric = metric.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    type Part = fn(&crate::report::CommandLatency) -> u64;
    let counters: [(&str, &str, Part); 3] = [
        ("command_calls", "Calls that were executed", |it| it.calls),
        ("command_failed", "Calls that replied an error", |it| it.failed),
        ("command_rejected", "Calls that were refused before they ran", |it| it.rejected),
    ];
    for (name, help, part) in counters {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for command in commands {
            let labels = [("command", command.name.as_str())];
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, f64>(&part(command), None)?;
        }
    }
    Ok(())
}

/// The buckets by themselves, as the encoder wants them, with their bounds in seconds, and how many all of them have.
fn in_seconds(latency: &Latency) -> (Vec<(f64, u64)>, u64) {
    let (mut buckets, mut between, mut total) = (Vec::new(), 0_u64, 0);
    for (at, (bound, count)) in latency.buckets().enumerate() {
        (between, total) = (between + count, total + count);
        let bound = match bound {
            #[expect(clippy::cast_precision_loss, reason = "bounds are powers of two")]
            Bound::UpTo(us) => us as f64 * 1e-6,
            Bound::Above(_) => f64::INFINITY,
        };
        // Half of the bounds are enough for quantiles over time.
        if at.is_multiple_of(2) || bound.is_infinite() {
            buckets.push((bound, std::mem::take(&mut between)));
        }
    }
    (buckets, total)
}

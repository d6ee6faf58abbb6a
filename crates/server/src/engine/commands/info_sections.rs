//! The sections of INFO.

use std::fmt::{Display, Write as _};

use super::super::super::LogHealth;
use super::super::info_redo::one_line;
use super::{Engine, REDIS_VERSION};
use crate::network::Listening;

/// Adds a line.
pub(crate) fn line(out: &mut String, name: &str, value: impl Display) {
    let _infallible = write!(out, "{name}:{value}\r\n");
}

/// Adds lines that are always the same here, because what they count cannot happen.
fn constants(out: &mut String, lines: &[(&str, &str)]) {
    for (name, value) in lines {
        line(out, name, value);
    }
}

/// The first eight digits of a commit, as Redis tells of its own; zeros if it is not known.
fn short(commit: &str) -> &str {
    let digits = commit.get(..8).filter(|it| it.bytes().all(|digit| digit.is_ascii_hexdigit()));
    digits.unwrap_or("00000000")
}

pub(super) fn server(engine: &Engine, out: &mut String) {
    let uptime_s = engine.time.now_us.saturating_sub(engine.time.started_us) / 1_000_000;
    line(out, "redis_version", REDIS_VERSION);
    line(out, "redis_git_sha1", short(engine.deps.commit));
    constants(out, &[("redis_git_dirty", "0"), ("redis_build_id", "0")]);
    line(out, "indelible_version", crate::VERSION);
    line(out, "indelible_durability", engine.durability());
    line(out, "redis_mode", "standalone");
    line(out, "os", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    line(out, "arch_bits", usize::BITS);
    constants(
        out,
        &[
            ("monotonic_clock", "POSIX clock_gettime"),
            ("multiplexing_api", "epoll"),
            ("atomicvar_api", "rust"),
        ],
    );
    line(out, "gcc_version", "0.0.0");
    line(out, "process_id", std::process::id());
    line(out, "process_supervised", engine.config.value("supervised"));
    line(out, "run_id", &engine.run_id);
    let ports = ["port", "tls-port"].map(|name| engine.config.value(name));
    line(out, "tcp_port", ports.into_iter().find(|port| *port != "0").unwrap_or("0"));
    line(out, "server_time_usec", engine.time.unix_us());
    line(out, "uptime_in_seconds", uptime_s);
    line(out, "uptime_in_days", uptime_s / 86_400);
    line(out, "hz", engine.options.hz);
    line(out, "configured_hz", engine.config.value("hz"));
    line(out, "lru_clock", engine.time.unix_s() & 0x00ff_ffff);
    let executable =
        std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    line(out, "executable", executable);
    let file =
        engine.config.file.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    line(out, "config_file", file);
    line(out, "io_threads_active", u8::from(engine.config.value("io-threads") != "1"));
    listeners(engine, out);
}

/// Where clients connect to: each kind of socket with what it is bound to.
fn listeners(engine: &Engine, out: &mut String) {
    let mut all = Vec::new();
    let at = Listening::of(&engine.config);
    let addresses: String = at.bind.iter().map(|address| format!("bind={address},")).collect();
    for (wire, port) in at.open_ports() {
        all.push(format!("name={},{addresses}port={port}", wire.name().to_lowercase()));
    }
    let path = engine.config.value("unixsocket");
    if !path.is_empty() {
        all.push(format!("name=unix,bind={path}"));
    }
    for (index, listener) in all.iter().enumerate() {
        line(out, &format!("listener{index}"), listener);
    }
}

pub(super) fn clients(engine: &Engine, out: &mut String) {
    let input = engine
        .sessions
        .clients
        .iter()
        .map(|(_, client)| client.connection.input.len())
        .max()
        .unwrap_or(0);
    let output = engine
        .sessions
        .clients
        .iter()
        .map(|(_, client)| client.connection.output.waiting_bytes())
        .max()
        .unwrap_or(0);
    line(out, "connected_clients", engine.sessions.clients.len());
    line(out, "cluster_connections", 0);
    line(out, "maxclients", engine.options.max_clients);
    line(out, "client_recent_max_input_buffer", input);
    line(out, "client_recent_max_output_buffer", output);
    line(out, "blocked_clients", engine.sessions.blocked_count());
    line(out, "tracking_clients", engine.sessions.tracking.client_count());
    line(out, "clients_in_timeout_table", engine.sessions.deadlines.len());
    let (keys, keys_of_groups) = engine.sessions.awaited_keys();
    line(out, "total_blocking_keys", keys);
    line(out, "total_blocking_keys_on_nokey", keys_of_groups);
}

pub(super) fn memory(engine: &Engine, out: &mut String) {
    let usage = engine.deps.host.memory();
    let used = usage.allocated_bytes;
    let peak = engine.observed.peak_memory_bytes.max(used);
    let clients: usize =
        engine.sessions.clients.iter().map(|(_, client)| client.memory_bytes()).sum();
    let tables: usize = engine
        .shard
        .keyspace
        .databases()
        .map(|db| {
            let (keys, expiring) = engine.shard.keyspace.table_bytes(db);
            keys + expiring
        })
        .sum();
    let overhead = usage.startup_bytes + (clients + tables) as u64;
    let dataset = used.saturating_sub(overhead);
    let mut both = |name: &str, value: u64| {
        line(out, name, value);
        line(out, &format!("{name}_human"), human(value));
    };
    both("used_memory", used);
    both("used_memory_rss", usage.process_bytes);
    both("used_memory_peak", peak);
    line(out, "used_memory_peak_perc", percent(used, peak));
    line(out, "used_memory_overhead", overhead);
    line(out, "used_memory_startup", usage.startup_bytes);
    line(out, "used_memory_dataset", dataset);
    line(
        out,
        "used_memory_dataset_perc",
        percent(dataset, used.saturating_sub(usage.startup_bytes)),
    );
    line(out, "allocator_allocated", usage.allocated_bytes);
    line(out, "allocator_active", usage.active_bytes);
    line(out, "allocator_resident", usage.resident_bytes);
    line(out, "total_system_memory", usage.system_bytes);
    line(out, "total_system_memory_human", human(usage.system_bytes));
    let scripts = engine.scripting.figures();
    let functions = engine.scripting.functions.figures();
    line(out, "used_memory_lua", scripts.machine_bytes);
    line(out, "used_memory_vm_eval", scripts.machine_bytes);
    line(out, "used_memory_lua_human", human(scripts.machine_bytes));
    line(out, "used_memory_scripts_eval", scripts.source_bytes);
    line(out, "number_of_cached_scripts", scripts.count);
    line(out, "number_of_functions", functions.functions);
    line(out, "number_of_libraries", functions.libraries);
    line(out, "used_memory_vm_functions", functions.machine_bytes);
    let machines = scripts.machine_bytes + functions.machine_bytes;
    line(out, "used_memory_vm_total", machines);
    line(out, "used_memory_vm_total_human", human(machines));
    line(out, "used_memory_functions", functions.source_bytes);
    let sources = scripts.source_bytes + functions.source_bytes;
    line(out, "used_memory_scripts", sources);
    line(out, "used_memory_scripts_human", human(sources));
    line(out, "maxmemory", engine.options.maxmemory_bytes);
    line(out, "maxmemory_human", human(engine.options.maxmemory_bytes));
    line(out, "maxmemory_policy", engine.config.value("maxmemory-policy"));
    line(out, "allocator_frag_ratio", ratio(usage.active_bytes, usage.allocated_bytes));
    line(out, "allocator_frag_bytes", usage.active_bytes.saturating_sub(usage.allocated_bytes));
    line(out, "allocator_rss_ratio", ratio(usage.resident_bytes, usage.active_bytes));
    line(out, "allocator_rss_bytes", usage.resident_bytes.saturating_sub(usage.active_bytes));
    line(out, "rss_overhead_ratio", ratio(usage.process_bytes, usage.resident_bytes));
    line(
        out,
        "rss_overhead_bytes",
        usage.process_bytes.cast_signed() - usage.resident_bytes.cast_signed(),
    );
    line(out, "mem_fragmentation_ratio", ratio(usage.process_bytes, used));
    line(out, "mem_fragmentation_bytes", usage.process_bytes.cast_signed() - used.cast_signed());
    constants(
        out,
        &[
            ("mem_not_counted_for_evict", "0"),
            ("mem_replication_backlog", "0"),
            ("mem_total_replication_buffers", "0"),
            ("mem_clients_slaves", "0"),
        ],
    );
    line(out, "mem_clients_normal", clients);
    constants(out, &[("mem_cluster_links", "0"), ("mem_aof_buffer", "0")]);
    line(out, "mem_allocator", usage.allocator);
    line(out, "active_defrag_running", 0);
    line(out, "lazyfree_pending_objects", engine.shard.keyspace.freeing());
    line(out, "lazyfreed_objects", 0);
}

/// How far the comeback of keys is, after a start by the log's index.
fn recovery(engine: &Engine, out: &mut String) {
    let figures = engine.shard.restore_figures(engine.time.now_us);
    let state = match figures {
        _ if engine.shard.is_loading() => "loading",
        Some(figures) if figures.is_failing => "failing",
        Some(_) if engine.shard.restore_failure().is_some() => "on_demand",
        Some(figures) if !figures.is_done => "restoring",
        _ => "done",
    };
    line(out, "recovery_state", state);
    let Some(figures) = figures else { return };
    let stage = if figures.is_done { "done" } else { figures.stage.name() };
    line(out, "recovery_stage", stage);
    line(out, "recovery_hot_keys_total", figures.hot_total);
    line(out, "recovery_hot_keys_done", figures.hot_done);
    line(out, "recovery_elapsed_ms", figures.elapsed_us / 1000);
    line(out, "recovery_keys_total", figures.keys_total);
    line(out, "recovery_keys_cold", figures.keys_cold);
    line(out, "recovery_keys_per_sec", figures.keys_per_second());
    line(out, "recovery_eta_seconds", figures.seconds_left());
    line(out, "recovery_log_garbage_known", u8::from(engine.shard.knows_validity()));
    line(out, "recovery_last_error", one_line(engine.shard.restore_failure()));
}

/// What memory lacks, and how it comes back.
fn cold(engine: &Engine, out: &mut String) {
    let keyspace = &engine.shard.keyspace;
    line(out, "lost_values", keyspace.lost_values());
    let Some(stats) = keyspace.cold_stats() else { return };
    line(out, "cold_keys", keyspace.cold_keys());
    line(out, "cold_values", keyspace.bare_values());
    line(out, "cold_stream_ends", keyspace.stream_ends());
    line(out, "cold_lookups", stats.lookups);
    line(out, "cold_fetches", stats.warmed);
    line(out, "cold_expired_keys", stats.expired);
    line(out, "cold_blocking_fetches", stats.fetched);
    let by_command = engine.blocking_fetches();
    if !by_command.is_empty() {
        let parts: Vec<String> =
            by_command.iter().map(|(name, count)| format!("{name}={count}")).collect();
        line(out, "cold_blocking_fetches_by", parts.join(","));
    }
    line(out, "cold_failures", stats.failed);
    line(out, "cold_fetches_waiting", engine.fetches.asked_count());
    line(out, "cold_fetching_clients", engine.fetches.waiting_count());
    line(out, "cold_fetched_bytes", engine.fetches.bytes());
}

pub(super) fn persistence(engine: &Engine, out: &mut String) {
    line(out, "loading", u8::from(engine.shard.is_loading()));
    if let Some(progress) = engine.shard.data.progress() {
        let elapsed_s = engine.time.unix_s().saturating_sub(progress.started_unix_s).max(1);
        let left_bytes = progress.total_bytes.saturating_sub(progress.loaded_bytes);
        let per_second = (progress.loaded_bytes / elapsed_s.unsigned_abs()).max(1);
        line(out, "loading_start_time", progress.started_unix_s);
        line(out, "loading_total_bytes", progress.total_bytes);
        line(out, "loading_loaded_bytes", progress.loaded_bytes);
        line(
            out,
            "loading_loaded_perc",
            percent(progress.loaded_bytes, progress.total_bytes).trim_end_matches('%'),
        );
        line(out, "loading_eta_seconds", left_bytes / per_second);
    }
    recovery(engine, out);
    cold(engine, out);
    super::super::info_saves::section(engine, out);
    let is_good = engine.shard.log_health() == LogHealth::Good;
    let is_compacting = engine.shard.log_state().is_turning_on()
        || engine.shard.log().is_some_and(|log| log.is_compacting());
    let is_on = engine.shard.log().is_some() || engine.shard.log_state().is_turning_on();
    line(out, "aof_enabled", u8::from(is_on));
    line(out, "aof_rewrite_in_progress", u8::from(is_compacting));
    constants(
        out,
        &[
            ("aof_rewrite_scheduled", "0"),
            ("aof_last_rewrite_time_sec", "-1"),
            ("aof_current_rewrite_time_sec", "-1"),
            ("aof_last_bgrewrite_status", "ok"),
            ("aof_rewrites", "0"),
            ("aof_rewrites_consecutive_failures", "0"),
        ],
    );
    line(out, "aof_last_write_status", if is_good { "ok" } else { "err" });
    constants(
        out,
        &[
            ("aof_last_cow_size", "0"),
            ("module_fork_in_progress", "0"),
            ("module_fork_last_cow_size", "0"),
        ],
    );
    if let Some(log) = engine.shard.log() {
        let bytes = log.stats().bytes;
        line(out, "aof_current_size", bytes);
        line(out, "aof_base_size", bytes);
        constants(
            out,
            &[
                ("aof_pending_rewrite", "0"),
                ("aof_buffer_length", "0"),
                ("aof_pending_bio_fsync", "0"),
                ("aof_delayed_fsync", "0"),
            ],
        );
    }
}

pub(super) fn stats(engine: &Engine, out: &mut String) {
    let counters = &engine.observed.counters;
    let keyspace = engine.shard.keyspace.stats();
    line(out, "total_connections_received", counters.connections);
    line(out, "total_commands_processed", counters.commands);
    line(out, "instantaneous_ops_per_sec", engine.observed.rates.commands.mean());
    line(out, "total_net_input_bytes", counters.input_bytes);
    line(out, "total_net_output_bytes", counters.output_bytes);
    constants(out, &[("total_net_repl_input_bytes", "0"), ("total_net_repl_output_bytes", "0")]);
    line(out, "instantaneous_input_kbps", ratio(engine.observed.rates.input.mean(), 1024));
    line(out, "instantaneous_output_kbps", ratio(engine.observed.rates.output.mean(), 1024));
    constants(
        out,
        &[("instantaneous_input_repl_kbps", "0.00"), ("instantaneous_output_repl_kbps", "0.00")],
    );
    line(out, "rejected_connections", counters.rejected_connections);
    constants(out, &[("sync_full", "0"), ("sync_partial_ok", "0"), ("sync_partial_err", "0")]);
    line(out, "expired_subkeys", keyspace.expired_fields);
    line(out, "expired_keys", keyspace.expired);
    line(out, "expired_stale_perc", format!("{:.2}", engine.shard.expiry.stale_percent * 100.0));
    line(out, "expired_time_cap_reached_count", engine.shard.expiry.time_cap_count);
    line(out, "expire_cycle_cpu_milliseconds", engine.shard.expiry.cpu_us / 1000);
    line(out, "evicted_keys", keyspace.evicted);
    line(out, "evicted_scripts", engine.scripting.figures().evicted);
    line(out, "evicted_values", keyspace.cooled);
    line(out, "evicted_entries", keyspace.departed);
    line(out, "evicted_clients", engine.sessions.client_eviction.evicted_count);
    constants(
        out,
        &[("total_eviction_exceeded_time", "0"), ("current_eviction_exceeded_time", "0")],
    );
    line(out, "keyspace_hits", keyspace.hits);
    line(out, "keyspace_misses", keyspace.misses);
    line(
        out,
        "pubsub_channels",
        engine.sessions.registry.count(super::super::super::pubsub::Kind::Channel),
    );
    line(
        out,
        "pubsub_patterns",
        engine.sessions.registry.count(super::super::super::pubsub::Kind::Pattern),
    );
    line(
        out,
        "pubsubshard_channels",
        engine.sessions.registry.count(super::super::super::pubsub::Kind::Shard),
    );
    constants(
        out,
        &[
            ("latest_fork_usec", "0"),
            ("total_forks", "0"),
            ("migrate_cached_sockets", "0"),
            ("slave_expires_tracked_keys", "0"),
            ("active_defrag_hits", "0"),
            ("active_defrag_misses", "0"),
            ("active_defrag_key_hits", "0"),
            ("active_defrag_key_misses", "0"),
            ("total_active_defrag_time", "0"),
            ("current_active_defrag_time", "0"),
        ],
    );
    let tracking = &engine.sessions.tracking;
    line(out, "tracking_total_keys", tracking.key_count());
    line(out, "tracking_total_items", tracking.reader_count());
    line(out, "tracking_total_prefixes", tracking.prefix_count());
    line(out, "unexpected_error_replies", 0);
    line(out, "total_error_replies", counters.error_replies);
    line(out, "dump_payload_sanitizations", 0);
    line(out, "total_reads_processed", counters.reads);
    line(out, "total_writes_processed", counters.writes);
    constants(
        out,
        &[
            ("io_threaded_reads_processed", "0"),
            ("io_threaded_writes_processed", "0"),
            ("reply_buffer_shrinks", "0"),
            ("reply_buffer_expands", "0"),
        ],
    );
    let (cycles, rates) = (&engine.observed.cycles, &engine.observed.rates);
    line(out, "eventloop_cycles", cycles.count);
    line(out, "eventloop_duration_sum", cycles.sum_us);
    line(out, "eventloop_duration_cmd_sum", cycles.commands_us);
    line(out, "instantaneous_eventloop_cycles_per_sec", rates.cycles.mean());
    line(out, "instantaneous_eventloop_duration_usec", rates.cycle_us.mean());
    let reasons = ["cmd", "key", "channel", "auth", "tls_cert"];
    for (what, count) in reasons.into_iter().zip(counters.denied) {
        line(out, &format!("acl_access_denied_{what}"), count);
    }
}

pub(super) fn replication(engine: &Engine, out: &mut String) {
    constants(
        out,
        &[("role", "master"), ("connected_slaves", "0"), ("master_failover_state", "no-failover")],
    );
    line(out, "master_replid", &engine.run_id);
    constants(
        out,
        &[
            ("master_replid2", "0000000000000000000000000000000000000000"),
            ("master_repl_offset", "0"),
            ("second_repl_offset", "-1"),
            ("repl_backlog_active", "0"),
        ],
    );
    line(out, "repl_backlog_size", engine.config.value("repl-backlog-size"));
    constants(out, &[("repl_backlog_first_byte_offset", "0"), ("repl_backlog_histlen", "0")]);
}

pub(super) fn cpu(engine: &Engine, out: &mut String) {
    let times = engine.deps.host.cpu();
    line(out, "used_cpu_sys", format!("{:.6}", times.system_s));
    line(out, "used_cpu_user", format!("{:.6}", times.user_s));
    constants(
        out,
        &[("used_cpu_sys_children", "0.000000"), ("used_cpu_user_children", "0.000000")],
    );
    line(out, "used_cpu_sys_main_thread", format!("{:.6}", times.thread_system_s));
    line(out, "used_cpu_user_main_thread", format!("{:.6}", times.thread_user_s));
}

pub(super) fn modules(_engine: &Engine, _out: &mut String) {}

pub(super) fn commandstats(engine: &Engine, out: &mut String) {
    for_each_command(engine, |name, stats| {
        if stats.calls + stats.rejected + stats.failed > 0 {
            #[expect(clippy::cast_precision_loss, reason = "for people to read")]
            let average =
                if stats.calls == 0 { 0.0 } else { stats.duration_us as f64 / stats.calls as f64 };
            let _infallible = write!(
                out,
                "cmdstat_{name}:calls={},usec={},usec_per_call={average:.2},rejected_calls={},failed_calls={}\r\n",
                stats.calls, stats.duration_us, stats.rejected, stats.failed
            );
        }
    });
}

pub(super) fn errorstats(engine: &Engine, out: &mut String) {
    for (code, count) in &engine.observed.counters.errors {
        let _infallible = write!(out, "errorstat_{code}:count={count}\r\n");
    }
}

pub(super) fn latencystats(engine: &Engine, out: &mut String) {
    for_each_command(engine, |name, stats| {
        let Some(latency) = &stats.latency else { return };
        let _infallible = write!(out, "latency_percentiles_usec_{name}:");
        for (index, percentile) in engine.options.latency_percentiles.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            #[expect(clippy::cast_precision_loss, reason = "for people to read")]
            let value = latency.percentile(*percentile) as f64;
            let _infallible = write!(out, "{comma}p{percentile}={value:.3}");
        }
        out.push_str("\r\n");
    });
}

fn for_each_command(
    engine: &Engine,
    mut visit: impl FnMut(&str, &super::super::super::stats::CommandStats),
) {
    let all = command::table::all()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands()));
    for command in all {
        visit(command.name, &engine.observed.counters.by_command[command.ordinal()]);
    }
}

/// What only developers ask for.
pub(super) fn debug(engine: &Engine, out: &mut String) {
    let cycles = &engine.observed.cycles;
    line(out, "eventloop_duration_aof_sum", cycles.log_us);
    line(out, "eventloop_duration_cron_sum", cycles.periodic_us);
    line(out, "eventloop_duration_max", cycles.max_us);
    line(out, "eventloop_cmd_per_cycle_max", cycles.commands_max);
}

pub(super) fn cluster(_engine: &Engine, out: &mut String) {
    line(out, "cluster_enabled", 0);
}

pub(super) fn keyspace(engine: &Engine, out: &mut String) {
    for db in engine.shard.keyspace.databases() {
        let (keys, expiring) = engine.shard.keyspace.size(db);
        if keys > 0 {
            line(out, &format!("db{db}"), format!("keys={keys},expires={expiring},avg_ttl=0"));
        }
    }
}

/// Bytes with a unit.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn human(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..0x400 => format!("{bytes}B"),
        0x400..0x10_0000 => format!("{:.2}K", value / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.2}M", value / 1_048_576.0),
        0x4000_0000..0x100_0000_0000 => format!("{:.2}G", value / 1_073_741_824.0),
        _ => format!("{:.2}T", value / 1_099_511_627_776.0),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn ratio(part: u64, whole: u64) -> String {
    format!("{:.2}", if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 })
}

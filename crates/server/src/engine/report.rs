//! What the admin page is told: INFO, and what INFO has no room for.
//!
//! Each list is cut, so that a report costs about what INFO does, whatever clients have done. Nothing of it counts as a
//! command or as a client.

use std::cmp::Reverse;
use std::time::Duration;

use admin::{
    CommandLatency, Event, EventKind, Latency, LogDevice, Report, Shown, SlowCommand, ViewedClient,
};
use redo::{DeviceState, DeviceStats, NamedBackup};

use super::Engine;
use super::client::Client;
use super::commandlog::{self, Kind};
use super::commands;
use super::stats::CommandStats;
use super::verifying::KnownBackup;

/// How many entries of each list are told.
const ENTRIES_MAX: usize = 50;

/// How many characters of a text of a client are told.
const TEXT_CHARS_MAX: usize = 512;

/// The last bound of a histogram of commands, as a power of two of microseconds: 17 seconds.
const LAST_POWER: u32 = 24;

impl Engine {
    /// What the admin page is told now.
    #[must_use]
    pub fn report(&mut self) -> Report {
        self.time.refresh();
        let stats = self.shard.log().map(|log| log.stats()).unwrap_or_default();
        Report {
            info: commands::info_everything(self),
            devices: stats.devices.iter().enumerate().map(device).collect(),
            commands: self.latencies(),
            slow: self.slow_commands(),
            clients: self.viewed_clients(),
            events: self.events(),
        }
    }

    fn latencies(&self) -> Vec<CommandLatency> {
        let all = command::table::all()
            .flat_map(|command| std::iter::once(command).chain(command.subcommands()));
        let counters = &self.observed.counters.by_command;
        let told = all.map(|command| (command.name, &counters[command.ordinal()]));
        let told = told.filter(|(_, stats)| stats.calls + stats.rejected + stats.failed > 0);
        told.map(|(name, stats)| latency(name, stats)).collect()
    }

    fn slow_commands(&self) -> Shown<SlowCommand> {
        let log = self.observed.command_logs.of(Kind::Slow);
        Shown { some: log.entries().take(ENTRIES_MAX).map(slow).collect(), total: log.len() }
    }

    /// Those with the most memory: the ones that a person may have to do something about.
    fn viewed_clients(&self) -> Shown<ViewedClient> {
        let mut all: Vec<(usize, &Client)> = self
            .sessions
            .clients
            .iter()
            .map(|(_, client)| (client.memory_bytes(), client))
            .collect();
        let total = all.len();
        if total > ENTRIES_MAX {
            all.select_nth_unstable_by_key(ENTRIES_MAX, |it| Reverse(it.0));
            all.truncate(ENTRIES_MAX);
        }
        all.sort_by_key(|(bytes, client)| (Reverse(*bytes), client.id));
        Shown { some: all.into_iter().map(|(_, client)| self.viewed(client)).collect(), total }
    }

    fn viewed(&self, client: &Client) -> ViewedClient {
        let Client { connection, session, .. } = client;
        let seconds_since = |us: u64| self.time.now_us.saturating_sub(us) / 1_000_000;
        ViewedClient {
            id: client.id,
            address: connection.peer.address.clone(),
            name: cut(&session.name),
            user: self.access.text_of(session.identity).chars().take(TEXT_CHARS_MAX).collect(),
            command: session.last_command.map_or(String::new(), |it| it.name.to_owned()),
            age_s: seconds_since(connection.connected_us),
            idle_s: seconds_since(connection.active_us),
            flags: client.flags(),
            memory_bytes: client.memory_bytes() as u64,
            output_bytes: connection.output.memory_bytes() as u64,
        }
    }

    fn events(&self) -> Shown<Event> {
        let Some(log) = self.shard.log() else { return Shown::default() };
        let (commands, points) = log.told();
        let mut all: Vec<Event> = self.known_backups().iter().map(backup).collect();
        all.extend(points.iter().map(|point| Event {
            kind: EventKind::Point,
            lsn: point.lsn.0,
            unix_ms: point.time_ms,
            text: String::new(),
        }));
        all.extend(commands.iter().map(|noted| Event {
            kind: EventKind::Command,
            lsn: noted.lsn.0,
            unix_ms: noted.time_ms,
            text: format!(
                "{} ({} {})",
                noted.command.text, noted.command.user, noted.command.address
            ),
        }));
        all.sort_by_key(|event| Reverse(event.lsn));
        let total = all.len();
        all.truncate(ENTRIES_MAX);
        Shown { some: all, total }
    }
}

fn cut(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(TEXT_CHARS_MAX)]).into_owned()
}

fn backup(known: &KnownBackup) -> Event {
    let kind = if known.is_restorable() { EventKind::Backup } else { EventKind::LostBackup };
    let NamedBackup { name, lsn, time_ms, .. } = &known.kept.backup;
    Event { kind, lsn: lsn.0, unix_ms: *time_ms, text: name.clone() }
}

fn device((index, stats): (usize, &DeviceStats)) -> LogDevice {
    let state = match stats.state {
        DeviceState::Healthy if stats.is_draining => "Draining",
        DeviceState::Healthy => "Healthy",
        DeviceState::Full => "Full",
        DeviceState::Poisoned => "Poisoned",
    };
    let syncs = &stats.sync_latency;
    LogDevice {
        index,
        path: stats.path.display().to_string(),
        state: state.to_owned(),
        segments: stats.segments as u64,
        bytes: stats.bytes,
        records: stats.records,
        invalid_records: stats.invalid_records,
        queued_bytes: stats.queued_bytes,
        written_bytes: stats.written_bytes,
        written_blocks: stats.written_blocks,
        syncs: Latency {
            count: syncs.count,
            sum: Duration::from_micros(syncs.sum_us),
            up_to_us: syncs.up_to_us.clone(),
        },
        busy: Duration::from_micros(stats.busy_us),
        last_error: stats.last_error.clone(),
    }
}

fn latency(name: &str, stats: &CommandStats) -> CommandLatency {
    let latency = match &stats.latency {
        Some(histogram) => Latency {
            count: histogram.count(),
            sum: Duration::from_micros(histogram.sum()),
            up_to_us: histogram.up_to_powers(LAST_POWER),
        },
        // latency-tracking is no, or nothing was executed.
        None => Latency::default(),
    };
    CommandLatency {
        name: name.to_owned(),
        calls: stats.calls,
        duration: Duration::from_micros(stats.duration_us),
        latency,
        rejected: stats.rejected,
        failed: stats.failed,
    }
}

fn slow(entry: &commandlog::Entry) -> SlowCommand {
    let mut text = Vec::new();
    for arg in &entry.args {
        if !text.is_empty() {
            text.push(b' ');
        }
        commands::quote(arg, &mut text);
    }
    SlowCommand {
        id: entry.id,
        unix_s: entry.unix_s,
        duration_us: entry.measure,
        text: cut(&text),
        peer: entry.peer.clone(),
        client_name: cut(&entry.client_name),
    }
}

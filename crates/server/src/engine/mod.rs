//! The engine: the whole server but its sockets, threads and clocks.
//!
//! ```text
//!   connect · receive · disconnect ─┐                      ┌─► sendable bytes of each client
//!   tick (time)                     ├─►  dispatch ─► call ─┤
//!   log_advanced (durable LSN)     ─┘       │              └─► clients to disconnect
//!                                           ├ data commands: handlers of `command` on the keyspace
//!                                           └ server commands: `commands/` on the engine itself
//! ```
//!
//! It is a step machine: an event goes in, the engine runs to the end of what the event makes
//! possible, and what is to be sent can be taken out. It never waits. So the reactor drives it with
//! real sockets, and a test or a simulation drives it with bytes.
//!
//! # Invariants
//! - A command is executed when it is complete, in the order in which its client sent it.
//! - A reply that depends on a block of the log leaves only when the block is durable, or written
//!   if that is enough for its client, and the replies behind it wait with it ([`output`]).
//! - A client's place is free only after the owner of its socket has called [`Engine::remove`].

mod access;
mod archives;
mod archiving;
mod backups;
mod batch;
mod blocking;
mod call;
mod client;
mod client_eviction;
mod commandlog;
mod commands;
mod congestion;
mod cycles;
mod dispatch;
mod fetch_budget;
mod fetches;
mod half_open;
mod held;
mod histogram;
mod host_request;
mod latency;
mod limits;
mod log_progress;
mod log_switch;
mod migrating;
mod migrations;
mod observed;
mod output;
mod pubsub;
mod ready_keys;
mod report;
mod saves;
mod saving;
pub(crate) mod scripting;
mod sessions;
mod settings;
mod shard;
mod slab;
mod sleep;
mod stats;
mod syncing;
mod tailing;
mod tails;
mod time;
mod tracking;
mod transaction;
mod verifying;
mod walking;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use env::{Clock, Disk, Entropy};
use keyspace::Keyspace;
use resp::Writer;

use crate::config::{Config, Options};
use crate::host::Host;
use crate::logger::Logger;
use crate::network::{Network, NoNetwork};

pub use access::AclFileError;
pub(crate) use access::check_acl_file;
pub use client::Peer;
pub use commands::REDIS_VERSION;
pub use host_request::HostRequest;
pub use log_switch::{ColdSource, OpenLogError, OpenedLog};
pub use output::Sendable;
pub(crate) use settings::keyspace_settings;
pub use shard::{
    BoxedLog, CloseError, Comeback, DataState, DevicesError, Fetched, Fetching, HotNews,
    IndexFigures, LogHealth, LogState, Progress, Reach, Restoration, ShardLog, Sweep, Wanted,
};
pub use slab::ClientKey;

use batch::Batch;
use client::{Client, Closing, Connection, Opening, Session};
use observed::Observed;
use sessions::Sessions;
use shard::{HotPlan, Shard};
use time::Time;

/// What the engine needs from outside.
pub struct Deps {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The disk with the configuration file.
    pub disk: Arc<dyn Disk>,
    /// Random bytes, for ids.
    pub entropy: Box<dyn Entropy>,
    /// What the process uses of the machine.
    pub host: Box<dyn Host>,
    /// Where messages for the operator go.
    pub logger: Logger,
    /// The commit that the program was built from.
    pub commit: &'static str,
}

/// How the server is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Whether a log that cannot be made durable does not hold the end up.
    pub force: bool,
}

/// What goes out to a client now.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// The bytes; may be none.
    pub bytes: Sendable<'a>,
    /// Whether nothing more waits.
    pub is_all: bool,
    /// Whether the connection ends when they are gone.
    pub ends: bool,
    /// Whether it ends at once, whatever is on its way.
    pub is_cut: bool,
}

impl Outgoing<'_> {
    fn nothing(is_cut: bool) -> Self {
        Self { bytes: Sendable::nothing(), is_all: true, ends: is_cut, is_cut }
    }
}

/// While clients wait for memory, the hand goes on at least so often.
const COOLING_PAUSE_US: u64 = 1000;

/// How many elements of what was deleted are freed in one iteration: well below a millisecond.
const FREED_ITEMS_MAX: usize = 2000;

/// Why a connection is refused; sent before it is closed.
pub type Refusal = &'static [u8];

const TOO_MANY_CLIENTS: Refusal = b"-ERR max number of clients reached\r\n";

/// See the file's top.
pub struct Engine {
    sessions: Sessions,
    access: access::Access,
    shard: Shard,
    observed: Observed,
    time: Time,
    config: Config,
    options: Options,
    deps: Deps,
    network: Box<dyn Network>,
    host_request: Option<HostRequest>,
    run_id: String,

    pause: Option<commands::client_pause::Pause>,
    sleep: sleep::Sleep,
    fetches: fetch_budget::FetchBudget,
    /// What reads a log that is being turned on.
    opened_source: Option<ColdSource>,
    in_transaction: bool,
    scripting: scripting::Scripting,
    /// A command inside the transaction wants a checkpoint.
    checkpoint_after_exec: bool,
    next_tick_us: u64,
    shutdown: Option<Shutdown>,
    saves: saves::Saves,
    backups: backups::Backups,
    tails: tails::Tails,
    archives: archives::Archives,
    verifying: verifying::Verifying,
    walking: walking::Walking,
    migrations: migrations::Migrations,

    /// What may wait for a client that has no limit: half of the machine's memory.
    unlimited_output_bytes: usize,
    /// The log took writes when the requests that are being executed were read: looking again for
    /// each of them would cost more than it is worth.
    was_log_good: bool,
    /// Its memory is used again for each read.
    batch: Batch<'static>,
}

impl Engine {
    /// A server without clients and, until [`Engine::loaded`], without data.
    #[must_use]
    pub fn new(config: Config, mut deps: Deps) -> Self {
        let options = config.options();
        let mut seed = [0; 16];
        deps.entropy.fill(&mut seed);
        let time = Time::new(Arc::clone(&deps.clock));
        let shard = Shard::new(seed, options.databases);
        let saves = saves::Saves::new(time.unix_s());
        let unlimited_output_bytes = match deps.host.memory().system_bytes / 2 {
            0 => usize::MAX,
            half => usize::try_from(half).unwrap_or(usize::MAX),
        };
        let run_id = random_hex(deps.entropy.as_mut(), 40);
        let mut engine = Self {
            sessions: Sessions::default(),
            access: access::Access::new(&config),
            shard,
            scripting: scripting::Scripting::new(deps.logger.clone()),
            observed: Observed::default(),
            next_tick_us: time.now_us,
            time,
            config,
            options,
            deps,
            network: Box::new(NoNetwork),
            host_request: None,
            run_id,
            pause: None,
            sleep: sleep::Sleep::default(),
            fetches: fetch_budget::FetchBudget::default(),
            opened_source: None,
            in_transaction: false,
            checkpoint_after_exec: false,
            shutdown: None,
            saves,
            backups: backups::Backups::default(),
            tails: tails::Tails::default(),
            archives: archives::Archives::default(),
            verifying: verifying::Verifying::default(),
            walking: walking::Walking::default(),
            migrations: migrations::Migrations::default(),
            unlimited_output_bytes,
            was_log_good: false,
            batch: Batch::default(),
        };
        engine.apply_settings();
        engine
    }

    /// Connects the listening sockets, so that CONFIG SET can change them.
    pub fn set_network(&mut self, network: Box<dyn Network>) {
        self.network = network;
    }

    /// A client has connected.
    ///
    /// # Errors
    /// What to send to it before it is disconnected, when it may not connect.
    pub fn connect(&mut self, peer: Peer) -> Result<ClientKey, Refusal> {
        self.time.refresh();
        self.observed.counters.connections += 1;
        // What comes to the TLS port is told in a session: see `secured`.
        if !peer.is_tls && self.keeps_out(&peer) {
            self.observed.counters.rejected_connections += 1;
            return Err(PROTECTED_MODE.as_bytes());
        }
        if self.sessions.clients.len() >= self.options.max_clients {
            self.observed.counters.rejected_connections += 1;
            let Some(oldest) = self.sessions.half_open.take_oldest(&self.sessions.clients) else {
                return Err(TOO_MANY_CLIENTS);
            };
            self.end_client(oldest, Closing::Now);
        }
        let opening = if peer.is_tls { Opening::Handshake } else { Opening::Done };
        self.sessions.last_client_id += 1;
        let client = Client {
            id: self.sessions.last_client_id,
            connection: Connection {
                peer,
                opening,
                connected_us: self.time.now_us,
                active_us: self.time.now_us,
                ..Connection::default()
            },
            session: Session { identity: self.access.of_new_connection(), ..Session::default() },
        };
        let id = client.id;
        let key = self.sessions.clients.insert(client);
        if opening == Opening::Handshake {
            self.sessions.half_open.add(key, id, self.time.now_us);
        }
        Ok(key)
    }

    /// A client has connected that there is no room for; what to send to it.
    pub fn reject(&mut self) -> Refusal {
        self.observed.counters.connections += 1;
        self.observed.counters.rejected_connections += 1;
        TOO_MANY_CLIENTS
    }

    /// Bytes came from a client: everything that is complete is executed.
    pub fn receive(&mut self, key: ClientKey, bytes: &[u8]) {
        self.time.refresh_monotonic();
        self.observed.counters.input_bytes += bytes.len() as u64;
        self.observed.counters.reads += 1;
        let Some(client) = self.sessions.clients.get_mut(key) else { return };
        debug_assert_eq!(client.connection.opening, Opening::Done, "nothing comes before");
        client.connection.active_us = self.time.now_us;
        if client.connection.input.is_empty() && client.may_execute() && !self.sleep.is_on() {
            let consumed = self.run(key, bytes);
            if let Some(client) = self.sessions.clients.get_mut(key) {
                client.connection.input.extend_from_slice(&bytes[consumed..]);
            }
        } else {
            client.connection.input.extend_from_slice(bytes);
            self.run_input(key);
        }
        self.check_input_size(key);
    }

    /// Where a client has connected from.
    #[must_use]
    pub fn address_of(&self, key: ClientKey) -> Option<&str> {
        self.sessions.clients.get(key).map(|client| client.connection.peer.address.as_str())
    }

    /// Whether a client is still listened to: not when its connection is about to end.
    #[must_use]
    pub fn is_listened_to(&self, key: ClientKey) -> bool {
        self.sessions
            .clients
            .get(key)
            .is_some_and(|client| client.connection.closing == Closing::No)
    }

    /// A client will send nothing more. Whether its connection can end at once: replies that wait
    /// for the log are still sent, as the client may be reading.
    pub fn end_of_input(&mut self, key: ClientKey) -> bool {
        let Some(client) = self.sessions.clients.get(key) else { return true };
        if client.connection.output.waiting_bytes() == 0 || client.session.wait.is_some() {
            return true;
        }
        self.end_client(key, Closing::AfterReply);
        false
    }

    /// The event loop has slept, and a turn of it begins.
    pub fn begin_turn(&mut self) {
        let now_us = self.deps.clock.monotonic_us();
        self.observed.cycles.begin(now_us, self.observed.counters.commands);
    }

    /// The turn ends, and the event loop is about to sleep.
    pub fn end_turn(&mut self) {
        let now_us = self.deps.clock.monotonic_us();
        self.observed.cycles.end(now_us, self.observed.counters.commands);
    }

    /// Ends an iteration of the event loop: clients that were waiting go on, and what was written to
    /// the log becomes a block on its way to a device, if it is time. `is_idle`: there is no more
    /// input.
    pub fn end_iteration(&mut self, is_idle: bool) {
        if self.scripting.is_paused() {
            // Nothing else touches the data or the open block meanwhile.
            self.log_advanced();
            return self.resume_script();
        }
        if !self.sleep.is_on() {
            while let Some(key) = self.sessions.resumed.pop_front() {
                self.run_input(key);
                self.seal_if_large();
            }
            self.shard.list_garbage();
            if self.shard.keyspace.freeing() > 0 {
                self.shard.keyspace.free_step(FREED_ITEMS_MAX);
            }
            if self.options.log.enabled && self.options.debug.drop_values > 0 {
                self.shard.drop_some(self.options.debug.drop_values);
            }
            if self.shard.waits_to_cool() {
                self.make_room_now();
            }
        }
        // Takes note of blocks that are written or durable, and so of devices that are free again.
        self.log_advanced();
        self.follow_saves();
        self.follow_migration();
        self.follow_tails();
        self.follow_archive();
        self.follow_verification();
        if self.walking.is_on() {
            let (keyspace, clock) = (&mut self.shard.keyspace, self.deps.clock.as_ref());
            self.walking.slice(keyspace, clock, is_idle, self.options.saves.cpu_percent);
        }
        self.end_broadcast();
        self.sessions.tracking.free_step();
        self.update_congestion();
        self.follow_log_switch();
        if self.shard.is_seal_due(self.time.now_us, is_idle) {
            self.seal();
            // It may have been written at once.
            self.log_advanced();
            self.follow_migration();
        }
    }

    /// How many clients have something to send or are to be disconnected; not while the server
    /// sleeps.
    #[must_use]
    pub fn noted_count(&self) -> usize {
        if self.sleep.is_on() { 0 } else { self.sessions.noted.len() }
    }

    /// A client that has something to send or is to be disconnected, each once.
    pub fn next_noted(&mut self) -> Option<ClientKey> {
        if self.sleep.is_on() {
            return None;
        }
        loop {
            let key = self.sessions.noted.pop_front()?;
            if let Some(client) = self.sessions.clients.get_mut(key) {
                client.connection.is_noted = false;
                return Some(key);
            }
        }
    }

    /// Puts a client on the list of those that have something to send.
    pub fn look_at(&mut self, key: ClientKey) {
        self.sessions.note(key);
    }

    /// What may be sent to a client now.
    pub fn outgoing(&mut self, key: ClientKey) -> Outgoing<'_> {
        let reach = self.shard.reach;
        let Some(client) = self.sessions.clients.get_mut(key) else {
            return Outgoing::nothing(true);
        };
        // Whatever has written too much: what was waiting is gone, and nothing can follow it.
        if client.connection.closing == Closing::Now || client.connection.output.is_over() {
            client.connection.output.clear();
            return Outgoing::nothing(true);
        }
        if self.sleep.is_on() {
            return Outgoing::nothing(false);
        }
        let is_ending = client.connection.closing == Closing::AfterReply;
        let waiting_bytes = client.connection.output.waiting_bytes();
        let bytes = client.connection.output.sendable(&reach);
        let is_all = bytes.len() == waiting_bytes;
        Outgoing { ends: is_ending && is_all, is_all, bytes, is_cut: false }
    }

    /// So many of the outgoing bytes were sent.
    pub fn sent(&mut self, key: ClientKey, count: usize) {
        self.observed.counters.output_bytes += count as u64;
        self.observed.counters.writes += 1;
        if let Some(client) = self.sessions.clients.get_mut(key) {
            client.connection.output.sent(count);
        }
    }

    /// The connection ends when what was taken of its output is sent: the client does nothing more until it is removed.
    pub fn finish(&mut self, key: ClientKey) {
        self.leave(key);
        self.end_client(key, Closing::AfterReply);
    }

    /// Notes every client that has something to send.
    pub fn look_at_all(&mut self) {
        for key in self.sessions.clients.keys() {
            if self.sessions[key].connection.output.waiting_bytes() > 0 {
                self.sessions.note(key);
            }
        }
    }

    /// The connection has ended, from either side: the client's place is free.
    pub fn remove(&mut self, key: ClientKey) {
        self.leave(key);
        if !self.keep_for_script(key) {
            self.sessions.clients.remove(key);
        }
    }

    /// In how many microseconds [`Engine::tick`] has something to do.
    #[must_use]
    pub fn until_next_event_us(&self) -> u64 {
        if let Some(until_us) = self.sleep.until_us() {
            let next_us = until_us.min(self.shard.sealing.due_us(true));
            return next_us.saturating_sub(self.deps.clock.monotonic_us());
        }
        if self.scripting.is_paused() {
            return 0;
        }
        let has_more = !self.sessions.resumed.is_empty() || !self.sessions.noted.is_empty();
        let has_more = has_more || self.shard.has_comeback() || self.can_serve() || self.can_feed();
        let has_more = has_more || self.tails.has_news() || self.sessions.tracking.has_work();
        if has_more || self.shard.keyspace.freeing() > 0 || self.shard.can_copy() {
            return 0;
        }
        let next_us = self.next_event_us().min(self.shard.sealing.due_us(true));
        // An iteration in which nothing comes is idle: then the walk goes on at once.
        let next_us = if self.walking.due_us().is_some() { 0 } else { next_us };
        let until_us = next_us.saturating_sub(self.deps.clock.monotonic_us());
        if self.shard.waits_to_cool() { until_us.min(COOLING_PAUSE_US) } else { until_us }
    }

    /// The next time at which [`Engine::tick`] has something to do, on the monotonic clock.
    #[must_use]
    pub fn next_event_us(&self) -> u64 {
        let deadline_us = self
            .sessions
            .deadlines
            .first()
            .map(|(deadline_ms, _)| self.time.monotonic_of_ms(*deadline_ms));
        let pause_us = self.pause.as_ref().map(|pause| self.time.monotonic_of_ms(pause.until_ms));
        let times = [deadline_us, pause_us, self.shard.expiry.again_us];
        times.into_iter().flatten().fold(self.next_tick_us, u64::min)
    }

    /// Time has passed: deadlines, expiry, rates, limits.
    pub fn tick(&mut self) {
        self.time.refresh();
        if self.sleeps_on() || self.scripting.is_paused() {
            return;
        }
        self.update_frozen();
        let now_ms = self.time.unix_ms();
        self.sessions.end_waits(now_ms, self.shard.reach.durable, &mut self.shard.keyspace);
        self.end_pause();
        self.restore_slice();
        self.serve_late();
        let (clock, logger, plan) = (&self.deps.clock, &self.deps.logger, self.hot_plan());
        self.shard.heal(self.time.now_us, clock.as_ref(), logger, self.options.log.block_bytes);
        self.shard.save_hot(self.time.now_us, clock.as_ref(), plan);
        if self.time.now_us >= self.next_tick_us {
            let begun_us = self.time.now_us;
            self.next_tick_us = begun_us + 1_000_000 / u64::from(self.options.hz);
            self.periodic();
            let now_us = self.deps.clock.monotonic_us();
            self.observed.cycles.periodic_us += now_us.saturating_sub(begun_us);
        } else if self.shard.expiry.again_us.is_some_and(|again_us| self.time.now_us >= again_us) {
            self.expire();
        }
    }

    /// How the server must end, once that was asked for.
    #[must_use]
    pub fn shutdown_requested(&self) -> Option<Shutdown> {
        // What is only in memory is worth the wait.
        self.shutdown.filter(|_| !self.saves.final_save).filter(|shutdown| {
            // A script that does not end keeps it from being turned on.
            let is_turning_on = self.shard.log_state().is_turning_on();
            shutdown.force || !is_turning_on || self.scripting.is_paused()
        })
    }

    /// Whether the server is about to end, or waits for what must be done before.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.shutdown.is_some() || self.scripting.delays_end()
    }

    /// A signal asks for the end: `directive` says how.
    pub fn request_shutdown(&mut self, directive: &str) {
        if self.shutdown.is_some() || self.delay_end(directive) {
            return;
        }
        let has = |word| self.config.words(directive).any(|it| it == word);
        let force = has("force");
        let saves = has("save") || (!has("nosave") && !self.options.saves.points.is_empty());
        if let Err(why) = self.end_server(saves, Shutdown { force }) {
            self.deps.logger.warning(&format!("The server goes on: {why}"));
        }
    }

    /// Whether a client waits for something that another client, the log or the time will bring;
    /// then it executes nothing.
    #[must_use]
    pub fn is_waiting(&self, key: ClientKey) -> bool {
        self.sessions.clients.get(key).is_some_and(|client| client.session.wait.is_some())
    }

    /// The data, to be looked at.
    #[must_use]
    pub fn keyspace(&self) -> &Keyspace {
        &self.shard.keyspace
    }

    /// What commands have read from the log while everything waited: how much, by command.
    #[must_use]
    pub fn blocking_fetches(&self) -> Vec<(&'static str, u64)> {
        let all = command::table::all()
            .flat_map(|command| std::iter::once(command).chain(command.subcommands()));
        let stats = &self.observed.counters.by_command;
        all.map(|command| (command.name, stats[command.ordinal()].fetched))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// The log, if it is open, to be looked at.
    #[must_use]
    pub fn log(&self) -> Option<&dyn ShardLog> {
        self.shard.log()
    }

    /// The configuration that applies now.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(in crate::engine) const fn hot_plan(&self) -> HotPlan {
        let Options { maxmemory_bytes, ref log, .. } = self.options;
        HotPlan { every_s: log.hot_every_s, maxmemory_bytes }
    }

    // ---- for the engine's own parts ----------------------------------------------------------

    /// Where replies to a client are written.
    fn reply(&mut self, key: ClientKey) -> &mut Writer {
        self.sessions[key].connection.output.writer()
    }

    /// Ends a connection, at once or after what is to be sent.
    fn end_client(&mut self, key: ClientKey, closing: Closing) {
        if let Some(client) = self.sessions.clients.get_mut(key) {
            client.connection.closing = client.connection.closing.max(closing);
            self.sessions.note(key);
        }
        if closing == Closing::Now {
            // A command that waits must not take an element for a client that will not get it.
            self.sessions.stop_waiting(key, &mut self.shard.keyspace);
        }
    }

    /// Takes a client out of everything that refers to it.
    fn leave(&mut self, key: ClientKey) {
        if self.sessions.clients.get(key).is_none() {
            return;
        }
        self.sessions.unwatch_all(key, &mut self.shard.keyspace);
        self.sessions.stop_waiting(key, &mut self.shard.keyspace);
        self.release_fetched(key);
        self.sessions.unsubscribe_all(key);
        self.stop_tracking(key);
        self.sessions.monitors.retain(|monitor| *monitor != key);
    }
}

const PROTECTED_MODE: &str = "-DENIED Indelible is running in protected mode because protected mode is enabled \
and no password is set for the default user. In this mode connections are only accepted from the loopback interface. \
If you want to connect from external computers, set a password with the requirepass directive, or turn protected \
mode off: CONFIG SET protected-mode no from a local connection, or the protected-mode directive, and restart.\r\n";

/// A random text of so many hexadecimal digits.
fn random_hex(entropy: &mut dyn Entropy, digits: usize) -> String {
    let mut text = String::new();
    while text.len() < digits {
        text.push_str(&format!("{:016x}", entropy.next_u64()));
    }
    text.truncate(digits);
    text
}

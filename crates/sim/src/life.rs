//! One life of the server: clients, flushers, compactor, clock and faults in random order.
//!
//! An *iteration* is what the reactor does: read from some clients, tick, end the iteration, write
//! to the clients that have something to read. In between, and sometimes in the middle of a command, the
//! flushers and the compactor step, as their threads would. Nothing is ever waited for.

use env::FileError;
use env_sim::Faults;
use server::engine::{ClientKey, Engine, HostRequest, Peer};

use crate::client::Client;
use crate::machine::{Machine, Wrote, device_dir};
use crate::opening::Site;
use crate::picture::Picture;
use crate::reply::encode;
use crate::run::Run;
use crate::thinning::thins_out;
use crate::wiretap::lock;
use crate::workload::{Kind, Op};

/// How many clients there are at most.
const CLIENTS_MAX: usize = 4;

/// Replies that a client leaves unread before it sends no more.
const OUTSTANDING_MAX: usize = 8;

/// A thorough look at everything, every so many blocks.
const THOROUGH_EVERY: u64 = 23;

/// See the file's top.
pub(crate) struct Life<'a> {
    pub(crate) run: &'a mut Run,
    pub(crate) machine: Machine,
    pub(crate) clients: Vec<Client>,
    pub(crate) next_number: usize,
    /// Nothing is expected to be in time: a device is slow or fails.
    pub(crate) is_impaired: bool,
    /// A device is slow, and nothing is worse.
    pub(crate) is_slow: bool,
    /// There is no descriptor to open something with, and nothing is worse.
    pub(crate) lacks_descriptors: bool,
    /// What the kernel was given may be lost with nothing but the process.
    pub(crate) is_kernel_false: bool,
    /// Since when `appendfsync` asks for a sync each second at least.
    pub(crate) everysec_since_us: Option<u64>,
    /// `appendfsync` is everysec all the time: then writers are made to wait for a slow device.
    pub(crate) is_everysec: bool,
    pub(crate) last_tick_us: u64,
    pub(crate) tick_gap_us: u64,
    pub(crate) restore_at: Option<u64>,
    /// The process has ended by itself.
    pub(crate) is_dead: bool,
}

/// A peer that may do everything.
pub(crate) fn local_peer() -> Peer {
    Peer { address: "127.0.0.1:1".to_owned(), is_loopback: true, ..Peer::default() }
}

impl<'a> Life<'a> {
    pub(crate) fn new(run: &'a mut Run, machine: Machine) -> Self {
        let now_us = env::Clock::monotonic_us(&run.clock);
        run.tally.instant_starts += u64::from(machine.engine.keyspace().is_cold());
        run.tally.narrow_starts += u64::from(machine.is_built);
        let everysec_since_us = (run.policy < 2).then_some(now_us);
        let is_everysec = run.policy == 1;
        Self {
            run,
            machine,
            clients: Vec::new(),
            next_number: 0,
            is_impaired: false,
            is_slow: false,
            lacks_descriptors: false,
            is_kernel_false: false,
            everysec_since_us,
            is_everysec,
            last_tick_us: now_us,
            tick_gap_us: 0,
            restore_at: None,
            is_dead: false,
        }
    }

    /// Lives until the end.
    pub(crate) fn live(mut self) -> Result<(), String> {
        let steps = match self.run.rng.below(20) {
            0 => 1200,
            1..5 => 300,
            _ => 30 + self.run.rng.below(90),
        };
        self.choose_faults(steps);
        if self.run.rng.below(5) > 0 {
            let ios = 1 + self.run.rng.below(if steps > 250 { 400 } else { 90 });
            self.run.disk.crash_after(ios);
        }
        for step in 0..steps {
            if self.restore_at == Some(step) {
                self.run.note(|| "the disk is well again".to_owned());
                self.run.disk.set_faults(Faults::default());
            }
            self.step()?;
            if self.run.disk.is_crashed() || self.is_dead {
                break;
            }
        }
        self.end()
    }

    pub(crate) fn now_us(&self) -> u64 {
        env::Clock::monotonic_us(&self.run.clock)
    }

    fn choose_faults(&mut self, steps: u64) {
        let run = &mut *self.run;
        let mut faults = Faults::default();
        let tally = &mut run.tally;
        let kind = run.rng.below(26);
        match kind {
            0 | 1 => {
                tally.lives_with_io_errors += 1;
                faults.error_per_million = [2000, 20_000][usize::from(run.rng.coin())];
                faults.short_reads = true;
            }
            2 | 3 => {
                tally.lives_with_failing_syncs += 1;
                faults.sync_error_per_million = [20_000, 200_000][usize::from(run.rng.coin())];
            }
            4 | 5 => {
                tally.lives_with_full_disk += 1;
                faults.capacity_bytes = Some(run.disk.used_bytes() + run.rng.below(9000));
                if run.rng.below(3) > 0 {
                    self.restore_at = Some(run.rng.below(steps));
                }
            }
            6 => {
                tally.lives_with_dying_device += 1;
                let index = run.rng.below(run.shape.devices as u64);
                run.disk.break_dir(&device_dir(usize::try_from(index).expect("few")));
            }
            7 | 8 => {
                tally.lives_with_slow_device += 1;
                let index = run.rng.below(run.shape.devices as u64);
                let mut works = lock(&self.machine.works);
                works.starved = Some(usize::try_from(index).expect("few"));
            }
            10 | 11 => {
                tally.lives_without_descriptors += 1;
                let share = usize::try_from(run.rng.below(3)).expect("few");
                faults.lack_per_million = [50_000, 400_000, 1_000_000][share];
                if run.rng.below(3) > 0 {
                    self.restore_at = Some(run.rng.below(steps));
                }
            }
            9 if run.rng.below(3) == 0 => {
                tally.lives_with_misdirected_writes += 1;
                faults.misdirect_per_million = 30_000;
                run.is_betrayed = true;
            }
            _ => {}
        }
        self.is_impaired = kind < 12;
        self.lacks_descriptors = matches!(kind, 10 | 11);
        self.is_kernel_false = matches!(kind, 0..4 | 6 | 9);
        self.is_slow = matches!(kind, 7 | 8);
        if !self.is_impaired {
            self.fail_reads(steps, &mut faults);
        }
        self.run.note(|| format!("a life of {steps} steps with {faults:?} ({kind})"));
        self.run.named.note_may_lose(faults.error_per_million > 0);
        self.run.disk.set_faults(faults);
    }

    fn step(&mut self) -> Result<(), String> {
        if self.run.shape.index.is_some() {
            self.try_index()?;
            if self.is_dead || self.run.disk.is_crashed() {
                return Ok(());
            }
        }
        if self.run.drops_values && self.run.rng.below(12) == 0 {
            let looks = 1 + self.run.rng.below(12);
            self.run.note(|| format!("memory is full, for {looks} looks"));
            self.run.tally.evictions += 1;
            self.machine.fill_memory(looks);
        }
        self.step_savers()?;
        self.step_archivers()?;
        let thins_out = thins_out(self.run.plan.seed);
        if thins_out && !self.is_impaired && self.run.rng.below(40) == 0 {
            return self.spend_night();
        }
        match self.run.rng.below(100) {
            0..40 => self.iteration(),
            40..74 => {
                for _ in 0..=self.run.rng.below(3) {
                    lock(&self.machine.works).step_any(&mut self.run.rng);
                }
                Ok(())
            }
            74..82 => {
                lock(&self.machine.works).step_compactor();
                Ok(())
            }
            82..96 => {
                let us = match self.run.rng.below(10) {
                    0 => 1_100_000,
                    1 | 2 => 150_000,
                    3..6 => 11_000,
                    _ => 300,
                };
                // A device that is slow is so for seconds.
                let us = self.run.rng.below(if self.is_slow { us * 4 } else { us });
                self.run.clock.advance_us(us);
                Ok(())
            }
            96 if self.run.rng.below(8) == 0 => {
                self.decay();
                Ok(())
            }
            96 if self.run.rng.below(3) == 0 => {
                let keys = 1 + self.run.rng.below(6);
                self.run.note(|| format!("memory is full, by about {keys} keys"));
                self.run.tally.evictions += 1;
                self.machine.fill_memory(keys);
                Ok(())
            }
            98 if self.run.rng.below(5) == 0 => {
                self.run.back_up();
                Ok(())
            }
            96 | 97 => {
                // Anything from a little before the time that the workload writes into expiries.
                let from_ms = match thins_out {
                    // Its hours stay in their order.
                    true => env::Clock::now_ms(&self.run.clock) - 30_000,
                    false => 1_700_000_000_000,
                };
                let wall_ms = from_ms + i64::try_from(self.run.rng.below(60_000)).expect("fits");
                self.run.tally.clock_jumps += 1;
                self.run.note(|| format!("the wall clock shows {wall_ms}"));
                self.run.clock.set_wall_ms(wall_ms);
                Ok(())
            }
            _ => self.come_or_go(),
        }
    }

    /// One turn of the event loop.
    fn iteration(&mut self) -> Result<(), String> {
        if self.clients.is_empty() {
            self.come_or_go()?;
        }
        for _ in 0..=self.run.rng.below(3) {
            let index = self.run.rng.below(self.clients.len().max(1) as u64);
            let index = usize::try_from(index).expect("few");
            if index < self.clients.len() {
                self.act(index)?;
            }
            if self.run.rng.below(4) == 0 {
                lock(&self.machine.works).step_any(&mut self.run.rng);
            }
        }
        if self.run.rng.below(5) > 0 {
            self.tick()?;
        }
        let is_idle = self.run.rng.below(4) > 0;
        self.call(|engine| engine.end_iteration(is_idle))?;
        self.deliver()?;
        self.run_request()
    }

    /// What the engine asks its owner for: to load the data again.
    fn run_request(&mut self) -> Result<(), String> {
        let request = self.machine.engine.take_request();
        match request {
            None => return Ok(()),
            Some(HostRequest::Reload) => {}
            Some(HostRequest::ReloadAll) if self.run.index.is_damaged => {}
            Some(HostRequest::ReloadAll) => {
                return Err("DISTRUSTED: the index says what the log does not".to_owned());
            }
            Some(HostRequest::OpenLog) => return Err("nobody has turned the log off".to_owned()),
        }
        // Nothing is executed between here and the end of the log.
        let state = match self.machine.engine.keyspace() {
            keyspace if keyspace.may_lack() => self.machine.look()?.clone(),
            keyspace => Picture::of(keyspace),
        };
        let (unloaded, _) = self.machine.call(Engine::unload)?;
        let (sealed, now_us) = (self.machine.sealed(), self.now_us());
        if sealed > self.run.ledger.last() {
            let object = lock(&self.machine.tap).object_max;
            self.run.ledger.note(sealed, &state, object, now_us);
        }
        self.run.note(|| format!("RELOAD, block {sealed} is the last"));
        if let Err(why) = unloaded {
            self.run.note(|| format!("the log could not be closed: {why}"));
            self.is_dead = true;
            return Ok(());
        }
        self.run.ledger.promise(sealed, || "the log was closed in good order".to_owned());
        self.run.tally.reloads += 1;
        let (seed, steps_per_million) = self.run.site_numbers();
        let run = &*self.run;
        let is_good = run.decayed.is_none() && request == Some(HostRequest::Reload);
        let (is_instant, is_narrow) =
            (run.index.is_instant && is_good, run.index.is_narrow && is_good);
        let site = Site { is_instant, is_narrow, ..run.site(seed, steps_per_million) };
        let judge = |found: &Picture, summary: &redo::Summary| {
            run.ledger.judge(summary.last_lsn, found, run.is_betrayed)
        };
        match self.machine.reload(&site, judge) {
            Ok(judged) => judged?,
            Err(error) => {
                let is_excused = run.is_betrayed
                    || run.decayed.is_some()
                    || run.disk.is_crashed()
                    || matches!(
                        &error,
                        redo::Error::File(FileError::Io { .. }) | redo::Error::MissingDevice { .. }
                    );
                if !is_excused {
                    return Err(format!("REFUSED: the data cannot be loaded again: {error}"));
                }
                self.is_dead = true;
                return Ok(());
            }
        }
        self.run.ledger.settle(sealed);
        lock(&self.machine.tap).used = self.run.ledger.object_max(sealed);
        self.call(|engine| engine.end_iteration(true))
    }

    pub(crate) fn tick(&mut self) -> Result<(), String> {
        let now_us = self.now_us();
        self.tick_gap_us = self.tick_gap_us.max(now_us - self.last_tick_us);
        self.last_tick_us = now_us;
        lock(&self.machine.tap).is_between_commands = true;
        let ticked = self.call(Engine::tick);
        lock(&self.machine.tap).is_between_commands = false;
        ticked?;
        Ok(())
    }

    /// Lets the engine do something, and takes note of what it did.
    pub(crate) fn call<T>(&mut self, what: impl FnOnce(&mut Engine) -> T) -> Result<T, String> {
        let (result, wrote) = self.machine.call(what)?;
        self.after_call(wrote)?;
        Ok(result)
    }

    fn after_call(&mut self, wrote: Wrote) -> Result<(), String> {
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            let is_waiting = self.machine.engine.is_waiting(client.key);
            if client.is_blocked && !is_waiting {
                let is_strict = self.is_strict(index);
                self.clients[index].unblocked(wrote, is_strict);
            } else {
                self.clients[index].is_blocked = is_waiting;
            }
        }
        let (sealed, last) = (self.machine.sealed(), self.run.ledger.last());
        if sealed > last.next() || (sealed > last && self.machine.has_open_records()) {
            self.note_blocks()?;
        } else if sealed > last {
            if sealed.0.is_multiple_of(THOROUGH_EVERY) {
                self.machine.look_thoroughly()?;
            }
            let now_us = env::Clock::monotonic_us(&self.run.clock);
            let object = lock(&self.machine.tap).object_max;
            self.run.ledger.note(sealed, self.machine.look()?, object, now_us);
            self.run.note(|| format!("block {sealed} is sealed"));
        }
        if self.run.shape.index.is_some() {
            let suspicion = lock(&self.machine.works).take_suspicion();
            // A build that meets a damaged file is begun anew until that is healed.
            let is_decayed = self.run.decayed.is_some();
            let is_excused = is_decayed || self.run.is_betrayed || self.run.index.is_damaged;
            if let Some(what) = suspicion.filter(|_| !is_excused) {
                return Err(what);
            }
        }
        let durable = self.machine.durable();
        if durable > sealed {
            return Err(format!("block {durable} is durable, {sealed} is the last"));
        }
        Ok(())
    }

    /// Whether what is sent now may be executed later: the engine sleeps, or writers have to wait.
    fn is_postponing(&self) -> bool {
        self.machine.engine.is_asleep() || self.machine.engine.is_congested()
    }

    /// Whether a client was promised that it sees nothing that may vanish.
    fn is_strict(&self, index: usize) -> bool {
        match self.clients[index].durability {
            3 => self.run.policy == 0,
            level => level == 0,
        }
    }

    fn come_or_go(&mut self) -> Result<(), String> {
        let is_leaving = self.clients.len() == CLIENTS_MAX
            || (self.clients.len() > 1 && self.run.rng.below(3) == 0);
        if is_leaving {
            let index = self.run.rng.below(self.clients.len() as u64);
            let key = self.clients.swap_remove(usize::try_from(index).expect("few")).key;
            return self.call(|engine| engine.remove(key));
        }
        self.come()
    }

    pub(crate) fn come(&mut self) -> Result<(), String> {
        let key = self.call(|engine| engine.connect(local_peer()))?;
        let key = key.map_err(|refusal| refusal.escape_ascii().to_string())?;
        self.clients.push(Client::new(key, self.next_number));
        self.next_number += 1;
        Ok(())
    }

    /// A client sends something, if it is its turn.
    fn act(&mut self, index: usize) -> Result<(), String> {
        let client = &self.clients[index];
        let is_exec = client.underway.as_ref().is_some_and(|(_, op)| op.kind == Kind::Exec);
        let splits = is_exec && client.multi_seals && self.may_exec_join();
        if client.underway.is_some() && (self.is_postponing() || splits) {
            return Ok(());
        }
        if let Some((bytes, op)) = self.clients[index].underway.take() {
            return self.send(index, &bytes, vec![op]);
        }
        let client = &self.clients[index];
        let key = client.key;
        if client.is_blocked
            || client.outstanding() >= OUTSTANDING_MAX
            || !self.machine.engine.is_listened_to(key)
        {
            return Ok(());
        }
        let ops = self.choose_ops(index);
        let mut bytes = Vec::new();
        ops.iter().for_each(|op| encode(&op.args, &mut bytes));
        if ops.len() == 1 && !self.is_postponing() && self.run.rng.below(12) == 0 {
            let cut = usize::try_from(self.run.rng.below(bytes.len() as u64)).expect("fits");
            let rest = bytes.split_off(cut);
            self.call(|engine| engine.receive(key, &bytes))?;
            self.clients[index].underway = ops.into_iter().next().map(|op| (rest, op));
            return Ok(());
        }
        self.send(index, &bytes, ops)
    }

    /// Whether one call may execute more than an EXEC: a client waits that it may serve, or the EXEC
    /// itself waits for its keys, or for values that may leave memory just before it. The rest lies in
    /// the block behind a checkpoint of that EXEC, and may then not be told from the EXEC's own.
    fn may_exec_join(&self) -> bool {
        let may_wait = self.run.drops_values || self.machine.engine.keyspace().is_cold();
        may_wait || self.clients.iter().any(|client| client.is_blocked)
    }

    /// What a client sends next: mostly one command, sometimes several at once.
    fn choose_ops(&mut self, index: usize) -> Vec<Op> {
        if self.is_postponing() {
            // What is executed later, in a call of its own, is promised nothing.
            let run = &mut *self.run;
            let line = ["GET s0", "SET s0 asleep", "PING"];
            return vec![Op::of(line[usize::try_from(run.rng.below(3)).expect("few")])];
        }
        if !self.clients[index].in_multi && self.begins_cold_transaction() {
            return vec![Op { kind: Kind::Multi, ..Op::of("MULTI") }];
        }
        let may_join = self.may_exec_join();
        let run = &mut *self.run;
        if self.clients[index].in_multi {
            let op = match run.rng.below(12) {
                0 => Op { kind: Kind::Discard, ..Op::of("DISCARD") },
                1..4 if may_join && self.clients[index].multi_seals => {
                    Op { kind: Kind::Discard, ..Op::of("DISCARD") }
                }
                1..4 => Op { kind: Kind::Exec, ..Op::of("EXEC") },
                4 if run.rng.below(12) == 0 => run.workload.devices(),
                5 if run.rng.below(12) == 0 => Op::of("BGREWRITEAOF"),
                6 if run.workload.saves && run.rng.below(6) == 0 => Op::of("BGSAVE"),
                _ => run.workload.data(),
            };
            return vec![op];
        }
        let first = run.workload.next();
        if first.kind != Kind::Plain || run.rng.below(6) > 0 {
            return vec![first];
        }
        let mut ops = vec![first];
        for _ in 0..=run.rng.below(4) {
            ops.push(run.workload.data());
        }
        ops
    }

    /// The last bytes of some commands arrive, and they are executed.
    pub(crate) fn send(&mut self, index: usize, bytes: &[u8], ops: Vec<Op>) -> Result<(), String> {
        let key = self.clients[index].key;
        self.run.tally.commands += ops.len() as u64;
        self.run.tally.postponed += u64::from(self.is_postponing());
        let (is_postponed, is_strict) = (self.is_postponing(), self.is_strict(index));
        let was_full = self.machine.is_memory_full();
        let is_exec = matches!(ops.as_slice(), [op] if op.kind == Kind::Exec);
        let ((), wrote) = self.machine.call(|engine| engine.receive(key, bytes))?;
        // What leaves memory before is of another block if the transaction empties databases: it begins one.
        let is_split = wrote.is_divided && is_exec && self.clients[index].multi_seals;
        if is_split && !was_full {
            return Err("SPLIT: a checkpoint stands in the middle of a transaction".to_owned());
        }
        let is_traced = self.run.plan.is_traced;
        if is_traced {
            let texts: Vec<String> = ops.iter().map(Op::text).collect();
            let number = self.clients[index].number;
            let block = wrote.lsn.map_or_else(String::new, |lsn| format!(" (block {lsn})"));
            self.run.note(|| format!("client {number}: {}{block}", texts.join(" ; ")));
        }
        if is_postponed {
            let tap = lock(&self.machine.tap);
            self.clients[index].executed(&ops, Wrote::NOTHING, &tap, false, is_traced);
        } else {
            let tap = lock(&self.machine.tap);
            // What was evicted was not written by the command: then only what it shows counts.
            let own = if was_full { Wrote::NOTHING } else { wrote };
            self.clients[index].executed(&ops, own, &tap, is_strict, is_traced);
        }
        // While writers have to wait, only reads write: what they find expired.
        if let Some(lsn) = wrote.lsn.filter(|_| !is_postponed) {
            let now_us = self.now_us();
            self.run.ledger.write(lsn, now_us);
        }
        self.after_call(wrote)?;
        if let [op] = ops.as_slice() {
            self.follow(op);
        }
        self.call(Engine::seal_if_large)
    }

    /// Notes what a command changes apart from the data.
    fn follow(&mut self, op: &Op) {
        if let Kind::Policy(level) = op.kind {
            self.run.policy = level;
            self.is_everysec = false;
            let now_us = self.now_us();
            self.everysec_since_us =
                if level < 2 { self.everysec_since_us.or(Some(now_us)) } else { None };
        }
    }

    /// All clients read what may be sent, or some of it.
    pub(crate) fn deliver(&mut self) -> Result<(), String> {
        // No client is there to read after a crash.
        if self.run.disk.is_crashed() {
            return Ok(());
        }
        while self.machine.engine.next_noted().is_some() {}
        let mut gone: Vec<ClientKey> = Vec::new();
        for client in &mut self.clients {
            let outgoing = self.machine.engine.outgoing(client.key);
            let ends = outgoing.ends;
            let mut bytes = outgoing.bytes.to_vec();
            if !bytes.is_empty() && !self.run.is_scripted && self.run.rng.below(10) == 0 {
                let some = self.run.rng.below(bytes.len() as u64 + 1);
                bytes.truncate(usize::try_from(some).expect("fits"));
            }
            self.machine.engine.sent(client.key, bytes.len());
            self.run.replies.add(&bytes);
            for told in client.receive(&bytes)? {
                self.run.tally.replies += 1;
                if self.run.plan.is_traced {
                    let at = self.run.disk.io_count();
                    let text: String = format!("{:?}", told.reply).chars().take(60).collect();
                    let line = format!(
                        "[{at}]   client {} reads {text} (needs block {})",
                        client.number, told.need
                    );
                    self.run.trace.push(line);
                }
                self.run.ledger.note_read(told.shown, || told.what.clone());
                if told.need > base::Lsn::ZERO {
                    self.run.ledger.promise(told.need, || told.what);
                }
                if let Some(asked) = told.asked {
                    self.run.tally.backups_asked += 1;
                    self.run.named.note(asked, &told.reply);
                }
            }
            if ends {
                gone.push(client.key);
            }
        }
        for key in gone {
            self.clients.retain(|client| client.key != key);
            self.call(|engine| engine.remove(key))?;
        }
        Ok(())
    }
}

//! How a life ends: a crash, a kill, a shutdown; and what is owed at that moment.

use env_sim::Faults;
use server::engine::Engine;

use crate::life::Life;
use crate::machine::device_dir;
use crate::run::DEVICES_MAX;
use crate::wiretap::lock;

/// The promise of `everysec`, and what the ticks of the engine and an open block add to it.
const EVERYSEC_US: u64 = 1_000_000 + 100_000 + 20_000;

/// What `everysec` may lose when a device is slow: what was written in two seconds; and the time
/// until the engine's next tick, an open block, and the round in which it is noticed.
const AT_STAKE_US: u64 = 2_000_000 + 2 * 100_000 + 20_000;

/// How often everything is stepped until the log must have gone on, and how much time that is each.
const GO_ON_ROUNDS: u32 = 20;
const GO_ON_US: u64 = 110_000;

impl Life<'_> {
    /// The end: a crash that was planned, a power failure, a kill, or a shutdown.
    pub(crate) fn end(mut self) -> Result<(), String> {
        let is_crashed = self.run.disk.is_crashed();
        if !self.is_dead {
            self.check_memory()?;
        }
        if !is_crashed && !self.is_dead && !self.run.is_betrayed {
            let durable = self.machine.durable();
            self.run.ledger.promise(durable, || "the log says that it is durable".to_owned());
            self.promise_of_everysec();
        }
        self.run.at_stake_us = self.at_stake_us();
        self.end_index()?;
        self.check_descriptors()?;
        let is_crashed = self.run.disk.is_crashed();
        let how = self.run.rng.below(8);
        if !is_crashed {
            self.run.disk.crash_after(u64::MAX / 4);
        }
        if how == 0 && !is_crashed && !self.is_dead {
            self.shut_down()?;
        }
        let records = lock(&self.machine.tap).records;
        self.run.tally.records += records;
        let archived = self.machine.engine.archived();
        self.run.tally.archives_tidied += archived.tidy.times;
        self.run.tally.archivers_fenced += u64::from(archived.state == archive::State::Fenced);
        self.run.tally.archivers_refused += u64::from(archived.state == archive::State::Failed);
        self.run.tally.blocks_written_now += lock(&self.machine.works).written_now;
        self.run.tally.zeros_steps += lock(&self.machine.works).zeros_steps;
        let Self { run, machine, clients, is_kernel_false, .. } = self;
        drop(clients);
        let (compactions, healed) = machine.compactions();
        run.tally.compactions += compactions;
        run.tally.decays_healed += healed;
        drop(machine);
        if is_crashed {
            run.note(|| "CRASH, as planned".to_owned());
            run.tally.crashes += 1;
            run.disk.restart();
        } else if how == 1 || (how == 0 && run.rng.coin()) {
            run.note(|| "KILL".to_owned());
            run.tally.kills += 1;
            if !is_kernel_false && !run.is_betrayed {
                run.killed = Some(run.ledger.read());
            }
            run.disk.kill();
        } else {
            run.note(|| "CRASH".to_owned());
            run.tally.crashes += 1;
            run.disk.crash();
        }
        run.disk.set_faults(Faults::default());
        (0..DEVICES_MAX).for_each(|index| run.disk.mend_dir(&device_dir(index)));
        Ok(())
    }

    /// Once there are descriptors again the log goes on, on every device.
    fn check_descriptors(&mut self) -> Result<(), String> {
        if !self.lacks_descriptors || self.is_dead || self.run.disk.is_crashed() {
            return Ok(());
        }
        self.run.note(|| "there are descriptors again".to_owned());
        self.run.disk.set_faults(Faults::default());
        for _ in 0..GO_ON_ROUNDS {
            self.run.clock.advance_us(GO_ON_US);
            lock(&self.machine.works).step_all();
            self.tick()?;
            self.deliver()?;
        }
        if self.run.disk.is_crashed() { Ok(()) } else { self.machine.check_devices() }
    }

    /// What is in memory is what the log was told.
    pub(crate) fn check_memory(&mut self) -> Result<(), String> {
        self.machine.look_thoroughly()?;
        if !self.machine.has_open_records()
            && self.machine.look()?.total() != self.run.ledger.last_total()
        {
            return Err("UNLOGGED: the state is not the one after the last block".to_owned());
        }
        Ok(())
    }

    /// What was sealed more than a second ago is safe under `everysec`, if nothing was in the way.
    fn promise_of_everysec(&mut self) {
        let Some(since_us) = self.everysec_since_us.filter(|_| !self.is_impaired) else { return };
        let now_us = self.now_us();
        let (step_gap_us, is_fair) = lock(&self.machine.works).gap_us(now_us);
        let late_us = self.tick_gap_us.max(now_us - self.last_tick_us) + step_gap_us;
        let moment_us = now_us.saturating_sub(EVERYSEC_US + 3 * late_us);
        if is_fair && moment_us > since_us {
            self.run.ledger.promise_before(moment_us, "everysec: it is older than a second");
        }
    }

    /// How much of what clients have written may be lost under `everysec`: with a device that is
    /// slow more than a second, because then the writers are made to wait, but not much more.
    fn at_stake_us(&self) -> Option<u64> {
        if !self.is_everysec || (self.is_impaired && !self.is_slow) {
            return None;
        }
        let gap_us = self.tick_gap_us.max(self.now_us() - self.last_tick_us);
        // A tick notes the block, a later one that it is late, and the one after it tells the clients.
        Some(AT_STAKE_US + 4 * gap_us)
    }

    fn shut_down(&mut self) -> Result<(), String> {
        self.run.tally.shutdowns += 1;
        let is_closed = self.call(Engine::close)?;
        self.run.note(|| format!("SHUTDOWN: {is_closed:?}"));
        if is_closed.is_ok() && !self.run.is_betrayed {
            let last = self.run.ledger.last();
            self.run.ledger.promise(last, || "the server has ended in good order".to_owned());
        }
        self.deliver()
    }
}

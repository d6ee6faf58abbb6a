//! The log turned off and on again while the server runs: CONFIG SET appendonly.
//!
//! ```text
//!   off ──► commands of which nothing is kept ──► on: the log is read, everything is logged anew
//!                                                     │ blocks, each with the state that a crash
//!                                                     ▼ brings back: the old one until the last
//! ```
//!
//! Until the last record is durable a crash brings back what the log held when it was turned off. That
//! is what the shadow says, which follows the log: so the ledger gets its state after each block.
//! No client is there meanwhile.

use server::engine::{ClientKey, HostRequest, OpenedLog};

use crate::life::{Life, local_peer};
use crate::reply::encode;
use crate::run::DEVICES_MAX;
use crate::wiretap::lock;
use crate::workload::Op;

/// So many turns of the event loop are enough to log everything anew.
const TURNS_MAX: usize = 20_000;

const OFF: &[u8] = b"CONFIG SET save \"\" appendonly no\r\n";
const ON: &[u8] = b"CONFIG SET appendonly yes\r\n";

/// Where dumps are merged, which needs the log.
const OFF_MERGING: &[u8] = b"CONFIG SET save \"\" snapshot-algorithm auto appendonly no\r\n";
const ON_MERGING: &[u8] = b"CONFIG SET appendonly yes snapshot-algorithm hourglass\r\n";

impl Life<'_> {
    /// Turns the log off, changes some data, and turns it on again.
    pub(crate) fn switch_log(&mut self) -> Result<(), String> {
        if !self.turn_log_off()? {
            return Ok(());
        }
        for _ in 0..self.run.index.rng.below(30) {
            let op = self.run.workload.data();
            self.change_unlogged(&op);
        }
        self.turn_log_on()
    }

    /// Turns the log off. Whether it is: the life has ended otherwise.
    pub(crate) fn turn_log_off(&mut self) -> Result<bool, String> {
        for client in std::mem::take(&mut self.clients) {
            self.call(|engine| engine.remove(client.key))?;
        }
        self.call(|engine| engine.end_iteration(true))?;
        let key = self.connect_operator()?;
        self.operate(key, if self.run.merges_dumps() { OFF_MERGING } else { OFF });
        self.note_blocks()?;
        let sealed = self.machine.sealed();
        if self.run.disk.is_crashed() {
            self.is_dead = true;
            return Ok(false);
        }
        if self.machine.closed_at() != Some(sealed) {
            return Err("SWITCH: the log is not closed".to_owned());
        }
        self.run.note(|| format!("the log is off, block {sealed} is the last"));
        self.run.ledger.promise(sealed, || "the log was closed in good order".to_owned());
        self.machine.let_go_of_log();
        Ok(true)
    }

    /// Executes a command of which nothing is kept.
    pub(crate) fn change_unlogged(&mut self, op: &Op) {
        let mut bytes = Vec::new();
        encode(&op.args, &mut bytes);
        let text = op.text();
        self.run.note(|| format!("unlogged: {text}"));
        if let Ok(key) = self.connect_operator() {
            self.operate(key, &bytes);
        }
    }

    /// Turns the log on: everything is in it, or the life has ended.
    pub(crate) fn turn_log_on(&mut self) -> Result<(), String> {
        let key = self.connect_operator()?;
        let on = if self.run.merges_dumps() { ON_MERGING } else { ON };
        self.machine.engine.receive(key, on);
        if self.machine.engine.take_request() != Some(HostRequest::OpenLog) {
            return Err("SWITCH: the log is not opened".to_owned());
        }
        self.run.note(|| "the log is turned on".to_owned());
        let Some(opened) = self.open_log()? else { return Ok(()) };
        self.machine.engine.log_looked_at(Ok(()));
        let last = self.run.ledger.last();
        lock(&self.machine.tap).used = self.run.ledger.object_max(last);
        self.machine.engine.log_opened(Ok(opened));
        for _ in 0..TURNS_MAX {
            let is_on = lock(&self.machine.tap).is_thawed;
            self.machine.engine.end_iteration(true);
            for _ in 0..self.run.index.rng.below(4) {
                lock(&self.machine.works).step_any(&mut self.run.index.rng);
            }
            self.run.clock.advance_us(300);
            self.machine.engine.tick();
            self.note_blocks()?;
            if self.run.disk.is_crashed() {
                self.is_dead = true;
                return Ok(());
            }
            if is_on && !self.machine.has_open_records() {
                self.disconnect(key);
                self.run.tally.log_switches += 1;
                self.run.note(|| "the log is on".to_owned());
                // What happened meanwhile says nothing of how late the log may be.
                (self.everysec_since_us, self.is_everysec) = (None, false);
                return Ok(());
            }
        }
        Err("SWITCH: the log is not on".to_owned())
    }

    /// Opens the log for the keyspace that is there; `None` if the life has ended meanwhile.
    fn open_log(&mut self) -> Result<Option<OpenedLog>, String> {
        loop {
            let (seed, steps_per_million) = self.run.site_numbers();
            let site = self.run.site(seed, steps_per_million);
            match self.machine.open_log(&site) {
                Ok(opened) => return Ok(Some(opened)),
                Err(_) if self.run.disk.is_crashed() => {
                    self.is_dead = true;
                    return Ok(None);
                }
                // The simulator's list of devices is that of the start.
                Err(redo::Error::MissingDevice { .. }) if self.run.shape.devices < DEVICES_MAX => {
                    self.run.shape.devices = DEVICES_MAX;
                }
                Err(error) => return Err(format!("REFUSED: the log cannot be turned on: {error}")),
            }
        }
    }

    /// Takes note of the state that a crash brings back after each block that was sealed.
    pub(crate) fn note_blocks(&mut self) -> Result<(), String> {
        let now_us = self.now_us();
        for state in self.machine.follow()? {
            self.run.ledger.note(state.lsn, &state.picture, state.object_max, now_us);
            self.run.note(|| format!("block {} is sealed", state.lsn));
        }
        Ok(())
    }

    fn connect_operator(&mut self) -> Result<ClientKey, String> {
        let key = self.machine.engine.connect(local_peer());
        key.map_err(|refusal| refusal.escape_ascii().to_string())
    }

    /// Sends a command, reads the reply and leaves.
    fn operate(&mut self, key: ClientKey, bytes: &[u8]) {
        self.machine.engine.receive(key, bytes);
        self.machine.engine.end_iteration(true);
        self.disconnect(key);
    }

    fn disconnect(&mut self, key: ClientKey) {
        while self.machine.engine.next_noted().is_some() {}
        let len = self.machine.engine.outgoing(key).bytes.len();
        self.machine.engine.sent(key, len);
        self.machine.engine.remove(key);
    }
}

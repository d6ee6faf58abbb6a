//! Another server with the same database, from a copy of the disk, that writes to the same archive.
//!
//! ```text
//!   disk ─┬─ this server ──► archiver 1 ─┐
//!         └─ copy ─ the other one ─► archiver 2 ─┴─► one archive: one of them is fenced, or both are
//! ```
//!
//! Both go on writing, each on a branch of its own. What each has told to be archived is restored in its branch, and none tells
//! of anything more after a later writer has claimed the archive.

use archive::{Figures, State};
use base::Lsn;
use env::Clock as _;
use env_sim::SimEntropy;
use server::engine::{ClientKey, Engine};

use crate::archives::Told;
use crate::instant::copy_of;
use crate::ledger::Ledger;
use crate::life::local_peer;
use crate::machine::{Machine, boot};
use crate::opening::Site;
use crate::reply::encode;
use crate::run::{DEVICES_MAX, Run};
use crate::wiretap::lock;
use crate::workload::Workload;

/// In one of so many steps one comes, when something is archived or before; or it dies, and claims anew.
const COMES_ONE_IN: u64 = 12;
const COMES_EARLY_ONE_IN: u64 = 120;
const DIES_ONE_IN: u64 = 80;

/// See the file's top.
pub(crate) struct Rival {
    machine: Machine,
    disk: env_sim::SimDisk,
    pub(crate) ledger: Ledger,
    pub(crate) told: Told,
    client: Option<ClientKey>,
    workload: Workload,
    rng: SimEntropy,
}

impl Rival {
    /// A server on a copy of this one's disk, as it is now, or as a power failure would leave it.
    ///
    /// # Errors
    /// When it does not start, or comes to what was not promised.
    fn begin(run: &mut Run) -> Result<Box<Self>, String> {
        let disk = copy_of(&run.disk);
        if run.rng.coin() {
            disk.crash();
        } else {
            disk.kill();
        }
        let mut rng = SimEntropy::new(run.rng.next());
        let workload = Workload::new(SimEntropy::new(rng.next()), run.plan.seed, false);
        let mut ledger = run.ledger.clone();
        let machine = start(run, &disk, &mut ledger, rng.next())?;
        run.tally.rivals += 1;
        run.note(|| format!("RIVAL: begins behind block {}", ledger.last()));
        let (told, client) = (Told::default(), None);
        Ok(Box::new(Self { machine, disk, ledger, told, client, workload, rng }))
    }

    /// One comes next to the server on `machine`, if it may, or does something, where the archive is shared.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub(crate) fn take_turn(
        run: &mut Run,
        machine: &Machine,
        may_come: bool,
    ) -> Result<(), String> {
        if !run.far.is_shared() || run.is_betrayed {
            return Ok(());
        }
        let figures = machine.engine.archived();
        let Some(mut rival) = run.archived.rival.take() else {
            let is_copying = machine.engine.log().is_none() || lock(&machine.tap).is_copying;
            let may_come =
                may_come && run.decayed.is_none() && !is_copying && !run.disk.is_crashed();
            let one_in =
                if figures.archived == Lsn::ZERO { COMES_EARLY_ONE_IN } else { COMES_ONE_IN };
            if may_come && run.rng.below(one_in) == 0 {
                run.archived.rival = Some(Self::begin(run)?);
            }
            return Ok(());
        };
        let stepped = rival.step(run, &figures);
        run.archived.rival = Some(rival);
        stepped
    }

    /// What its archiver says.
    pub(crate) fn figures(&self) -> Figures {
        self.machine.engine.archived()
    }

    /// It executes something, or its threads do.
    fn step(&mut self, run: &mut Run, other: &Figures) -> Result<(), String> {
        if self.rng.below(DIES_ONE_IN) == 0 {
            run.tally.archivers_fenced += u64::from(self.figures().state == State::Fenced);
            run.note(|| "RIVAL: dies, and starts again".to_owned());
            self.disk.crash();
            self.client = None;
            self.machine = start(run, &self.disk, &mut self.ledger, self.rng.next())?;
        }
        if self.rng.coin() {
            self.execute(run)?;
        }
        for _ in 0..self.rng.below(4) {
            lock(&self.machine.works).step_any(&mut self.rng);
        }
        if self.rng.below(4) == 0 {
            lock(&self.machine.works).step_compactor();
        }
        self.call(run, Engine::tick)?;
        self.call(run, |engine| engine.end_iteration(true))?;
        if let Some(archivers) = &self.machine.archivers {
            (0..self.rng.below(10)).for_each(|_| archivers.step(&mut self.rng));
        }
        let figures = self.figures();
        if self.told.note(&figures, Some(other), &run.far)? {
            let (from, last) = (figures.restorable_from, figures.archived);
            run.note(|| format!("RIVAL: ARCHIVED: blocks {from} to {last}"));
        }
        Ok(())
    }

    fn execute(&mut self, run: &Run) -> Result<(), String> {
        let client = match self.client {
            Some(client) if self.machine.engine.is_listened_to(client) => client,
            Some(client) => {
                self.client = None;
                return self.call(run, |engine| engine.remove(client));
            }
            None => {
                let client = self.call(run, |engine| engine.connect(local_peer()))?;
                let client = client.map_err(|refusal| refusal.escape_ascii().to_string())?;
                *self.client.insert(client)
            }
        };
        let mut bytes = Vec::new();
        encode(&self.workload.data().args, &mut bytes);
        self.call(run, |engine| engine.receive(client, &bytes))?;
        let engine = &mut self.machine.engine;
        while engine.next_noted().is_some() {}
        let outgoing = engine.outgoing(client);
        let (count, ends) = (outgoing.bytes.len(), outgoing.ends);
        engine.sent(client, count);
        if ends {
            self.client = None;
            self.call(run, |engine| engine.remove(client))?;
        }
        Ok(())
    }

    fn call<T>(&mut self, run: &Run, what: impl FnOnce(&mut Engine) -> T) -> Result<T, String> {
        let called = self.machine.call(what).map_err(|what| format!("RIVAL: {what}"));
        let (result, _) = called?;
        let now_us = run.clock.monotonic_us();
        for state in self.machine.follow().map_err(|what| format!("RIVAL: {what}"))? {
            self.ledger.note(state.lsn, &state.picture, state.object_max, now_us);
        }
        Ok(result)
    }
}

/// Starts on a disk, and judges what is found there.
fn start(
    run: &Run,
    disk: &env_sim::SimDisk,
    ledger: &mut Ledger,
    seed: u64,
) -> Result<Machine, String> {
    let (is_instant, is_narrow) = (false, false);
    let mut shape = *run.site(seed, 0).shape;
    let (machine, summary) = loop {
        let site = Site { disk, keeps_index: false, is_instant, is_narrow, ..run.site(seed, 0) };
        match boot(&Site { saves: false, shape: &shape, ..site }) {
            // One was added since the last start.
            Err(redo::Error::MissingDevice { .. }) if shape.devices < DEVICES_MAX => {
                shape.devices = DEVICES_MAX;
            }
            booted => {
                break booted.map_err(|error| format!("RIVAL: it does not start: {error}"))?;
            }
        }
    };
    let judged = ledger.judge(summary.last_lsn, machine.recovered(), false);
    judged.map_err(|what| format!("RIVAL: {what}"))?;
    ledger.settle(summary.last_lsn);
    lock(&machine.tap).used = ledger.object_max(summary.last_lsn);
    Ok(machine)
}

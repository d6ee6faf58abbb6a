//! What happens besides in the lives of a run with an index.

use env_sim::Faults;

use crate::damage;
use crate::life::Life;
use crate::wiretap::lock;

impl Life<'_> {
    /// What else happens in a run with an index: records are read by address, bits of its files turn,
    /// and the log is turned off and on.
    pub(crate) fn try_index(&mut self) -> Result<(), String> {
        let run = &mut *self.run;
        if run.index.one_in(5) {
            let is_damaged = self.is_impaired
                || run.is_betrayed
                || run.decayed.is_some()
                || run.disk.is_crashed();
            let is_read = self.machine.read_by_address(&mut run.index.rng, is_damaged)?;
            run.tally.records_by_address += u64::from(is_read);
        }
        if run.index.is_kept
            && !self.is_impaired
            && run.index.one_in(1500)
            && damage::flip_in_index(&run.disk, &mut run.index.rng)
        {
            run.index.is_damaged = true;
            run.tally.index_decays += 1;
            run.note(|| "DECAY: a bit of the index".to_owned());
        }
        let is_well = !self.is_impaired
            && !run.is_betrayed
            && run.decayed.is_none()
            && !self.machine.engine.is_asleep()
            && !run.drops_values
            && !self.machine.engine.keyspace().may_lack();
        if is_well && run.index.one_in(150) {
            self.switch_log()?;
        }
        Ok(())
    }

    /// After a start by the index: in some lives index and log cannot always be read, and all else
    /// goes well.
    pub(crate) fn fail_reads(&mut self, steps: u64, faults: &mut Faults) {
        let run = &mut *self.run;
        if !self.machine.engine.keyspace().is_cold() || !run.index.one_in(3) {
            return;
        }
        self.is_impaired = true;
        run.tally.lives_with_failing_reads += 1;
        faults.read_error_per_million = [50_000, 400_000][usize::from(run.index.one_in(2))];
        if run.index.one_in(2) {
            self.restore_at = Some(run.index.rng.below(steps));
        }
    }

    /// Whether a client begins a transaction because keys are cold: all of them must be readable
    /// before its first command.
    pub(crate) fn begins_cold_transaction(&mut self) -> bool {
        self.machine.engine.keyspace().is_cold() && self.run.index.one_in(4)
    }

    /// What came of the hint of what was hot, and of what was asked for.
    fn note_comebacks(&mut self) {
        let works = lock(&self.machine.works);
        let Some(comebacks) = &works.comebacks else { return };
        let comebacks = lock(comebacks);
        let (tally, figures) = (&mut self.run.tally, comebacks.hints);
        tally.read_together += comebacks.read_together;
        tally.hints_used += figures.used;
        tally.hints_of_no_use += figures.of_no_use;
        tally.hot_keys += figures.keys;
    }

    /// The index says at any time what is needed, if the log is at rest.
    pub(crate) fn end_index(&mut self) -> Result<(), String> {
        if let Some(stats) = self.machine.engine.keyspace().cold_stats() {
            self.run.tally.cold_fetches += stats.fetched;
            self.run.tally.values_fetched += stats.warmed;
            self.run.tally.cold_expired += stats.expired;
        }
        let lost = self.machine.engine.keyspace().lost_values();
        self.run.tally.lives_with_lost_values += u64::from(lost > 0);
        let stats = self.machine.engine.keyspace().stats();
        self.run.tally.values_dropped += stats.cooled;
        self.run.tally.keys_departed += stats.departed;
        self.run.tally.added_to_ends += stats.added_to_ends;
        if let Some(index) = &lock(&self.machine.works).index {
            let tally = &mut self.run.tally;
            tally.lives_with_index += 1;
            tally.index_cuts += index.figures.cuts;
            tally.indexes_begun_anew += index.figures.begun_anew;
            tally.indexes_given_up += index.figures.given_up;
            tally.hints_saved += index.figures.hints;
        }
        self.note_comebacks();
        let run = &mut *self.run;
        let is_disturbed = self.is_dead
            || self.is_impaired
            || run.is_betrayed
            || run.decayed.is_some()
            || run.disk.is_crashed();
        let mut waits = self.machine.engine.blocking_fetches();
        waits.retain(|(name, _)| !run.workload.may_wait(name));
        // What threads could not find by a damaged index is looked for once more, and the end of a stream may be found.
        let must_not_wait = !is_disturbed && !run.index.is_damaged;
        if must_not_wait && !waits.is_empty() {
            return Err(format!("the server waited for the device because of {waits:?}"));
        }
        if run.shape.index.is_none() || is_disturbed || run.index.one_in(3) {
            return Ok(());
        }
        let compared = self.machine.compare_index(run.index.is_damaged);
        if !run.disk.is_crashed() {
            run.note_comparison(compared?);
        }
        Ok(())
    }
}

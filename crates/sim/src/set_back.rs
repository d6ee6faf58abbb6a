//! Sets the log back between two lives, as `indelible restore --in-place` does.
//!
//! ```text
//!   1 2 3 4 5 6 7 8 │ set back to 5 │ 9 = the state after 5 │ 10 …      the states after 6, 7 and 8 can be told as before
//! ```

use std::sync::Arc;

use base::{DangerousCommand, Lsn};
use env::Disk;
use env_sim::SimEntropy;
use redo::{Env, Error, RestorePoint, RewindRequest, Rewinding, StoredLog};

use crate::index::index_dir;
use crate::instant::copy_of;
use crate::machine::data_dir;
use crate::run::Run;

/// Runs from this seed on set their logs back.
const SET_BACK_SEEDS: u64 = 21_000_000_000;

impl Run {
    /// Sets the log back, perhaps, which ends with block `last`.
    ///
    /// # Errors
    /// When that cannot be done, or the log has lost something before it.
    pub(crate) fn set_back(&mut self, last: Lsn) -> Result<(), String> {
        if self.plan.seed < SET_BACK_SEEDS || self.rng.below(3) > 0 {
            return Ok(());
        }
        let failed = |error: &dyn std::fmt::Display| format!("SET BACK: {error}");
        let copy: Arc<dyn Disk> = Arc::new(copy_of(&self.disk));
        let log = StoredLog::open(copy, &data_dir(), &[]).map_err(|error| failed(&error))?;
        let Some(told) = log.map(|log| log.reach()).filter(|told| told.floor < last) else {
            return Ok(());
        };
        let to = Lsn(told.floor.0 + self.rng.below(last.0 - told.floor.0));
        let Some(found) = self.restored(last)?.filter(|_| told.has(to)) else { return Ok(()) };
        // What it ends with is judged now: it is not what the next start finds.
        self.ledger.judge(last, &found, false)?;
        if let Some((lsn, what)) = self.killed.take().filter(|(lsn, _)| *lsn > last) {
            return Err(format!(
                "LOST: block {last} is the last after a kill, {lsn} was read: {what}"
            ));
        }
        if let Some(at_stake_us) = self.at_stake_us.take() {
            self.ledger.judge_loss(last, at_stake_us)?;
        }
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let database = redo::database_of(&*disk, &data_dir()).map_err(|error| failed(&error))?;
        let Some(database) = database else { return Ok(()) };
        let peeked = indexing::peek(&*disk, &index_dir(), database.0);
        let durable = peeked.map_err(|error| failed(&error))?.durable();
        let text = |text: &str| text.to_owned();
        let (user, address, text) = (text("-"), text("here"), text("indelible restore"));
        let request = RewindRequest {
            dir: &data_dir(),
            devices: &[],
            point: RestorePoint::Lsn(to.0),
            durable,
            command: DangerousCommand { loses_data: true, user, address, text },
            is_parallel: false,
        };
        let env = Env {
            disk: Arc::clone(&disk),
            clock: Arc::new(self.clock.clone()),
            entropy: Box::new(SimEntropy::new(self.rng.next())),
            waker: Arc::new(|| {}),
        };
        let rewinding = match Rewinding::begin(env, &request, &mut |_| {}) {
            // The log is what it was.
            Err(Error::NotCut { .. } | Error::CannotKeep { .. }) => None,
            begun => begun.map_err(|error| failed(&error))?,
        };
        let Some(rewinding) = rewinding else { return Ok(()) };
        logindex::discard(&*disk, &index_dir()).map_err(|error| failed(&error))?;
        let rewound = rewinding.finish().map_err(|error| failed(&error))?;
        self.note(|| format!("SET BACK to block {}, which is {} now", rewound.to, rewound.at));
        self.ledger.set_back(rewound.to, rewound.at);
        self.tally.set_back += 1;
        Ok(())
    }
}

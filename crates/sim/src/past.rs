//! Goes back: the log as it was after a block that it says it can tell, restored on a copy of the disk.
//!
//! ```text
//!   disk, between two lives ─► copy ─► reach ─► any block of it ─► redo::restore ─► a start on it
//!                                                                                      │
//!   ledger: the state after that block ◄──────────── equal, entry by entry ────────────┘
//! ```

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::{Clock, Disk};
use env_sim::SimEntropy;
use keyspace::{Keyspace, NoJournal};
use redo::{Env, Options, Recovery, RestorePoint, RestoreRequest, StoredLog};
use server::load::{Filling, Shape};

use crate::instant::copy_of;
use crate::machine::data_dir;
use crate::picture::Picture;
use crate::run::Run;

/// Runs from this seed on keep history, and go back.
pub(crate) const HISTORY_SEEDS: u64 = 9_000_000_000;

/// What is kept, by seed: `log-history-seconds`, `-bytes`, `-percentage`.
pub(crate) fn history_of(seed: u64) -> [&'static str; 3] {
    if seed < HISTORY_SEEDS {
        return ["0", "0", "0"];
    }
    // Without a window backups hold what they need all the same.
    if seed >= crate::named::BACKUP_SEEDS && seed.is_multiple_of(4) {
        return ["0", "0", "0"];
    }
    match seed % 3 {
        0 => ["600", "1gb", "100"],
        1 => ["2", "20000", "100"],
        _ => ["600", "0", "30"],
    }
}

impl Run {
    /// Restores the state after some blocks that can be told, and one that cannot; the log ends with `last`.
    ///
    /// # Errors
    /// A state that is another, or an answer that is wrong.
    pub(crate) fn go_back(&mut self, last: Lsn) -> Result<(), String> {
        let told = {
            let disk: Arc<dyn Disk> = Arc::new(copy_of(&self.disk));
            let log = StoredLog::open(disk, &data_dir(), &[]).map_err(|error| error.to_string())?;
            let Some(log) = log else { return Ok(()) };
            log.reach()
        };
        let points = told.points.iter().take(3);
        let mut wanted: Vec<Lsn> = points.map(|point| point.lsn).collect();
        wanted.extend([last, told.floor.min(last)]);
        for _ in 0..3 {
            let span = last.0.saturating_sub(told.floor.0) + 1;
            wanted.push(Lsn(told.floor.0 + self.rng.below(span)));
        }
        for lsn in wanted.into_iter().filter(|lsn| *lsn <= last && told.has(*lsn)) {
            let found = self.restored(lsn)?.ok_or_else(|| format!("PAST: {lsn} is refused"))?;
            self.ledger.judge_restored(lsn, &found).map_err(|what| format!("PAST: {what}"))?;
            self.tally.restored += 1;
            self.tally.restored_points += u64::from(lsn < told.floor);
        }
        if told.floor > Lsn(1) {
            let lsn = Lsn(self.rng.below(told.floor.0));
            if !told.has(lsn)
                && let Some(found) = self.restored(lsn)?
            {
                if !self.is_of_noted_backup(lsn)? {
                    return Err(format!("PAST: {lsn} was not told of and is restored: {told:?}"));
                }
                self.ledger.judge_restored(lsn, &found).map_err(|what| format!("PAST: {what}"))?;
            }
        }
        Ok(())
    }

    /// Whether the log has a backup of the state after this block, of which the manifest need not know yet.
    fn is_of_noted_backup(&self, lsn: Lsn) -> Result<bool, String> {
        let disk = copy_of(&self.disk);
        let found = redo::stored_history(&disk, &data_dir(), &[], 1, &mut |_, _| {});
        let history = found.map_err(|error| format!("PAST: {error}"))?;
        let mut backups = history.iter().flat_map(|history| &history.backups);
        Ok(backups.any(|backup| backup.lsn == lsn && !backup.is_lost))
    }

    /// The state after a block; `None` if it cannot be told.
    pub(crate) fn restored(&mut self, lsn: Lsn) -> Result<Option<Picture>, String> {
        let into = Path::new("/past");
        let disk: Arc<dyn Disk> = Arc::new(copy_of(&self.disk));
        let request = RestoreRequest {
            source: &data_dir(),
            devices: &[],
            into: Some(into),
            room_in: None,
            point: RestorePoint::Lsn(lsn.0),
            durable: Lsn::ZERO,
            reader: 1,
            expiry: redo::Expiry::Absolute,
            threads: NonZero::<usize>::MIN,
        };
        let mut entropy = SimEntropy::new(self.rng.next());
        match redo::restore(&disk, &request, &mut entropy, &mut |_| {}) {
            Err(redo::Error::OutOfReach { .. }) => return Ok(None),
            Err(error) => return Err(format!("PAST: block {lsn}: {error}")),
            Ok(None) => return Err("PAST: there is no log".to_owned()),
            Ok(Some(_)) => {}
        }
        let keyspace = self.start_restored(disk, into, lsn, entropy)?;
        Ok(Some(Picture::of(&keyspace)))
    }

    /// Starts on what was restored up to a block.
    ///
    /// # Errors
    /// When it does not start, or ends with another block.
    pub(crate) fn start_restored(
        &self,
        disk: Arc<dyn Disk>,
        into: &Path,
        lsn: Lsn,
        entropy: SimEntropy,
    ) -> Result<Keyspace<NoJournal>, String> {
        let env = Env {
            disk,
            clock: Arc::new(self.clock.clone()),
            entropy: Box::new(entropy),
            waker: Arc::new(|| {}),
        };
        let options =
            Options { parallel_loaders: false, reserve_bytes: 2000, ..Options::new(into) };
        let opened = Recovery::open(env, options).and_then(|recovery| {
            let options = self.site(0, 0).config.options();
            let shape = Shape::new(&options, self.clock.now_ms());
            let mut filling = Filling::new(&recovery, shape);
            let opened = recovery.run(&mut filling, &mut |_| {})?;
            Ok((opened.summary.last_lsn, filling.into_keyspace()))
        });
        let (end, keyspace) = opened.map_err(|error| format!("PAST: block {lsn}: {error}"))?;
        if end != lsn {
            return Err(format!("PAST: block {end} is the last of what was restored up to {lsn}"));
        }
        Ok(keyspace)
    }
}

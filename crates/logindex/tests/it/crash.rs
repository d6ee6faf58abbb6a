//! Crashes and failing disks.
//!
//! After each crash the index is opened and must equal the model as of the cut that it claims,
//! which was durable in the log, and which is not older than one that it had claimed before. Only
//! files that the manifest names are left. Then work goes on.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::Disk;
use env_sim::sweep::crash_everywhere;
use env_sim::{Faults, SimDisk};
use logindex::{Indexer, Step, discard, stats, verify};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRng, TestRunner};

use crate::harness::{DIR, Op, Writer, check, open, state_of};
use crate::model::op;

/// A client, the log and the index, until the disk crashes.
struct Life {
    writer: Writer,
    /// The last block of the log that is durable.
    durable: Lsn,
    /// The newest cut that the indexer has called installed.
    claimed: Option<Lsn>,
    random: fastrand::Rng,
}

impl Life {
    fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { writer: Writer::new(), durable: Lsn::ZERO, claimed: None, random }
    }

    /// Steps, until there is nothing to do or an error comes; whether none came.
    fn steps(&mut self, indexer: &mut Indexer, count: usize) -> bool {
        for _ in 0..count {
            let step = indexer.step(self.durable);
            self.claimed = indexer.index().cut();
            match step {
                Ok(Step::Worked) => {}
                Ok(Step::Idle) => break,
                Err(_) => return false,
            }
        }
        true
    }

    /// Runs the operations, with steps in between, the log durable to some blocks before its end.
    fn run(&mut self, disk: &SimDisk, ops: &[Op]) {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let Ok(mut indexer) = open(&shared) else { return };
        for op in ops {
            if let Some(batch) = self.writer.run(*op) {
                indexer.add(batch);
            }
            let behind = self.random.u64(0..12);
            self.durable = self.durable.max(Lsn(self.writer.lsn.0.saturating_sub(behind)));
            let count = self.random.usize(0..12);
            if !self.steps(&mut indexer, count) {
                return;
            }
        }
        if self.random.bool() {
            self.durable = self.writer.lsn;
        }
        self.steps(&mut indexer, 10_000);
    }

    /// Opens the index after a crash, judges it, and continues the client from there.
    fn recover(&mut self, disk: &SimDisk) {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let indexer = open(&shared).unwrap();
        let cut = indexer.index().cut();
        assert!(cut >= self.claimed, "it said {:?}, and has {cut:?}", self.claimed);
        assert!(cut.unwrap_or(Lsn::ZERO) <= self.durable, "rule I");
        if let Some(cut) = cut {
            assert_eq!(indexer.installed_cut().unwrap().state, state_of(cut));
            check(&indexer.index(), &self.writer.cuts[&cut]);
        }
        assert_eq!(indexer.index().runs().len() + usize::from(cut.is_some()), files(disk).len());
        verify(disk, Path::new(DIR)).unwrap();
        self.claimed = cut;
        self.writer.back_to(cut);
        self.durable = self.writer.lsn;
    }
}

/// The files of the index; each must be the manifest, or be named by it.
fn files(disk: &SimDisk) -> BTreeSet<String> {
    let names = disk.list(Path::new(DIR)).unwrap();
    let names: BTreeSet<String> =
        names.into_iter().map(|name| name.into_string().unwrap()).collect();
    let mut named: BTreeSet<String> = BTreeSet::new();
    if let Some(stats) = stats(disk, Path::new(DIR)).unwrap() {
        named.insert("manifest".to_owned());
        named.extend(stats.runs.iter().map(|run| format!("{:010}.run", run.info.id)));
    }
    assert_eq!(names, named, "stray or missing files");
    names
}

/// So many random operations.
fn ops(seed: u64, count: usize) -> Vec<Op> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let algorithm = proptest::test_runner::RngAlgorithm::ChaCha;
    let rng = TestRng::from_seed(algorithm, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..count).map(|_| op().new_tree(&mut runner).unwrap().current()).collect()
}

#[test]
fn after_a_crash_at_any_io_the_index_is_that_of_an_installed_cut() {
    let mut ios = 0;
    for seed in 0..6 {
        let start = SimDisk::new(seed, Faults::default());
        let ops = ops(seed, 60);
        ios += crash_everywhere(
            &start,
            |disk| {
                let mut life = Life::new(seed);
                life.run(disk, &ops);
                life
            },
            |disk, mut life| {
                // What recovery does to the disk can be interrupted, too.
                let interrupted = [1, 2, 3, 4].map(|n| {
                    let again = disk.fork();
                    again.crash_after(n);
                    let shared: Arc<dyn Disk> = Arc::new(again.clone());
                    drop(open(&shared));
                    again.restart();
                    again
                });
                life.recover(disk);
                interrupted.iter().for_each(|again| life.recover(again));
            },
        );
    }
    assert!(ios > 500, "only {ios} places to crash at");
}

#[test]
fn crash_after_crash_nothing_that_was_installed_is_lost() {
    let seeds = std::env::var("INDELIBLE_CRASHES").ok().and_then(|text| text.parse().ok());
    for seed in 0..seeds.unwrap_or(400) {
        let disk = SimDisk::new(seed, Faults::default());
        let mut life = Life::new(seed);
        for round in 0..6 {
            let ops = ops(seed * 10 + round, 40);
            disk.crash_after(life.random.u64(1..200));
            life.run(&disk, &ops);
            disk.restart();
            life.recover(&disk);
        }
    }
}

#[test]
fn errors_of_the_disk_lose_nothing_and_are_overcome() {
    for seed in 0..60 {
        let disk = SimDisk::new(seed, Faults::default());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut life = Life::new(seed);
        let mut indexer = open(&shared).unwrap();
        let (per_million, sync) = (20_000, 20_000);
        for op in ops(seed, 120) {
            disk.set_faults(Faults {
                error_per_million: per_million,
                sync_error_per_million: sync,
                ..Faults::default()
            });
            if let Some(batch) = life.writer.run(op) {
                indexer.add(batch);
            }
            life.durable = life.writer.lsn;
            life.steps(&mut indexer, 20);
            disk.set_faults(Faults::default());
            if let Some(cut) = indexer.index().cut() {
                check(&indexer.index(), &life.writer.cuts[&cut]);
            }
        }
        assert!(life.steps(&mut indexer, 100_000), "without faults everything succeeds");
        assert_eq!(indexer.backlog(), 0);
        drop(indexer);
        disk.crash();
        life.recover(&disk);
    }
}

#[test]
fn a_full_disk_is_overcome_when_there_is_room() {
    let disk = SimDisk::new(1, Faults::default());
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut life = Life::new(1);
    let mut indexer = open(&shared).unwrap();
    for op in ops(1, 60) {
        life.writer.run(op).into_iter().for_each(|batch| indexer.add(batch));
    }
    life.durable = life.writer.lsn;
    disk.set_faults(Faults { capacity_bytes: Some(1500), ..Faults::default() });
    for _ in 0..300 {
        life.steps(&mut indexer, 1);
    }
    assert!(indexer.backlog() > 0, "it did not fit");
    assert!(disk.list(Path::new(DIR)).unwrap().len() < 5, "attempts leave nothing behind");
    disk.set_faults(Faults::default());
    assert!(life.steps(&mut indexer, 100_000));
    assert_eq!(indexer.backlog(), 0);
    drop(indexer);
    disk.crash();
    life.recover(&disk);
}

#[test]
fn what_is_discarded_does_not_come_back() {
    (0..20).for_each(discard_on);
}

fn discard_on(seed: u64) {
    let disk = SimDisk::new(seed, Faults::default());
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    discard(&*shared, Path::new(DIR)).unwrap();
    let mut life = Life::new(1);
    life.random = fastrand::Rng::with_seed(3);
    life.run(&disk, &ops(1, 60));
    assert!(stats(&disk, Path::new(DIR)).unwrap().is_some());
    crash_everywhere(
        &disk,
        |disk| discard(disk, Path::new(DIR)).is_ok(),
        |disk, is_discarded| {
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let indexer = open(&shared).unwrap();
            let cut = indexer.index().cut();
            assert!(!is_discarded || cut.is_none());
            assert_eq!(indexer.index().runs().len() == 0, cut.is_none());
            files(disk);
        },
    );
}

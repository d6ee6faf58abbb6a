//! Random work against the model.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::Disk;
use env_sim::{Faults, SimDisk};
use logindex::{Cut, Indexer, Judge, Level, Options, Step, verify};
use proptest::prelude::*;

use crate::harness::{DATABASE, DATABASES, DIR, Op, TINY, Writer, check, open, settle, state_of};

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let db = || 0..DATABASES;
    let key = || 0_u8..12;
    let element = || 0_u8..9;
    prop_oneof![
        6 => (db(), key(), any::<bool>()).prop_map(|(db, key, expires)| Op::Set { db, key, expires }),
        3 => (db(), key()).prop_map(|(db, key)| Op::Delete { db, key }),
        2 => (db(), key(), 0_u8..40)
            .prop_map(|(db, key, elements)| Op::Create { db, key, elements }),
        3 => (db(), key(), element()).prop_map(|(db, key, element)| Op::Touch { db, key, element }),
        2 => (db(), key(), element()).prop_map(|(db, key, element)| Op::Drop { db, key, element }),
        3 => (db(), key(), key()).prop_map(|(db, from, to)| Op::Rename { db, from, to }),
        1 => db().prop_map(|db| Op::Flush { db }),
        1 => (db(), db()).prop_map(|(a, b)| Op::Swap { a, b }),
        4 => Just(Op::Cut),
    ]
}

/// What is done to the index between the operations.
#[derive(Debug, Clone, Copy)]
enum Event {
    Client(Op),
    /// Some steps, with the log durable up to so many blocks before its end.
    Steps {
        count: u8,
        behind: u8,
    },
    /// Everything is durable and done.
    Settle,
    Reopen,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => op().prop_map(Event::Client),
        4 => (0_u8..60, 0_u8..20).prop_map(|(count, behind)| Event::Steps { count, behind }),
        2 => Just(Event::Settle),
        1 => Just(Event::Reopen),
    ]
}

fn run(events: &[Event]) {
    let sim = SimDisk::new(1, Faults { short_reads: true, ..Faults::default() });
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut indexer = open(&disk).unwrap();
    let mut writer = Writer::new();
    let mut durable = Lsn::ZERO;
    for event in events {
        match *event {
            Event::Client(op) => {
                if let Some(batch) = writer.run(op) {
                    indexer.add(batch);
                }
            }
            Event::Steps { count, behind } => {
                durable = durable.max(Lsn(writer.lsn.0.saturating_sub(behind.into())));
                for _ in 0..count {
                    indexer.step(durable).unwrap();
                }
            }
            Event::Settle => {
                durable = writer.lsn;
                settle(&mut indexer, durable).unwrap();
                assert_eq!(indexer.backlog(), 0);
            }
            Event::Reopen => {
                let cut = indexer.index().cut();
                drop(indexer);
                sim.kill();
                indexer = open(&disk).unwrap();
                assert_eq!(indexer.index().cut(), cut);
                writer.back_to(cut);
                durable = writer.lsn;
            }
        }
        let installed = indexer.index().cut();
        assert!(installed.unwrap_or(Lsn::ZERO) <= durable, "rule I");
        assert_eq!(indexer.published().get().cut(), installed);
        if let Some(cut) = installed {
            let state = state_of(cut);
            let judge = writer.cuts[&cut].judge();
            assert_eq!(indexer.installed_cut(), Some(&Cut { lsn: cut, state, judge }));
            if !matches!(event, Event::Client(_)) {
                check(&indexer.index(), &writer.cuts[&cut]);
            }
        }
    }
    verify(&*disk, Path::new(DIR)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_index_says_what_the_log_says_up_to_the_cut(
        events in prop::collection::vec(event(), 1..250),
    ) {
        run(&events);
    }
}

/// While a log is written anew, elements come before their roots and databases before their map.
#[test]
fn while_a_log_is_written_anew_nothing_is_called_dead() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
    let mut indexer = open(&disk).unwrap();
    let mut writer = Writer::new();
    for key in 0..12 {
        writer.run(Op::Create { db: 0, key, elements: 9 });
        writer.run(Op::Set { db: 1, key, expires: false });
    }
    // The map does not name database 0 yet, nor its objects.
    let settled = writer.picture.clone();
    writer.picture.scopes = logindex::Scopes::mapped(base::DbId(3), [base::DbId(1)]);
    let mut object = None;
    for is_relogging in [true, false, false, false, false, false] {
        writer.picture.is_relogging = is_relogging;
        match object {
            None => object = Some(writer.elements(9)),
            Some(object) => writer.root(1, 40, object),
        }
        for key in 0..12 {
            writer.run(Op::Set { db: 1, key, expires: true });
        }
        indexer.add(writer.cut().unwrap());
        settle(&mut indexer, writer.lsn).unwrap();
        check(&indexer.index(), &writer.picture);
        if is_relogging {
            let merged: Vec<Level> = indexer.index().runs().map(|run| run.level).collect();
            assert_eq!(merged, [Level::Bottom], "a merge could have judged");
            // Whatever the map comes to say, everything is still there.
            let mut all = writer.picture.clone();
            (all.scopes, all.is_relogging) = (settled.scopes.clone(), false);
            check(&indexer.index(), &all);
        }
    }
    // Enough cuts for another merge into the bottom.
    let entries: u64 = indexer.index().runs().map(|run| run.entries).sum();
    assert!(entries < 22 * 6, "{entries}: only database 1 is alive, in a few runs");
    assert!(matches!(indexer.installed_cut().unwrap().judge, Judge::Settled(_)));
}

/// Many cuts that become durable together, as after a log was written anew.
#[test]
fn many_runs_at_once_are_merged_a_few_at_a_time() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
    let mut indexer = open(&disk).unwrap();
    let mut writer = Writer::new();
    for round in 0..40 {
        writer.run(Op::Create { db: 0, key: round % 12, elements: 3 });
        writer.run(Op::Rename { db: 0, from: round % 12, to: round % 7 });
        indexer.add(writer.cut().unwrap());
    }
    settle(&mut indexer, Lsn::ZERO).unwrap();
    assert_eq!((indexer.backlog(), indexer.index().runs().len()), (40, 0));
    indexer.step(writer.lsn).unwrap();
    assert_eq!((indexer.backlog(), indexer.index().runs().len()), (0, 40), "one manifest");
    let mut before = 40;
    while indexer.step(writer.lsn).unwrap() == Step::Worked {
        let runs = indexer.index().runs().len();
        let is_bottom = indexer.index().runs().any(|run| run.level == Level::Bottom);
        assert!(before - runs < 4 || is_bottom, "{before} runs became {runs}");
        before = runs;
        check(&indexer.index(), &writer.picture);
    }
    assert!(indexer.index().runs().len() < 5);
}

/// A bottom that is small is not written again for each cut.
#[test]
fn what_is_newer_is_merged_into_the_bottom_when_it_is_much() {
    let bottoms = |newer_min_bytes: u64| {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
        let options =
            Options { fan_in: 100, merge_max: 100, newer_per_cent: 50, newer_min_bytes, ..TINY };
        let mut indexer = Indexer::open(disk, Path::new(DIR), DATABASE, options).unwrap();
        let (mut writer, mut bottoms) = (Writer::new(), BTreeSet::new());
        for key in 0..20 {
            writer.run(Op::Set { db: 0, key: key % 3, expires: false });
            indexer.add(writer.cut().unwrap());
            settle(&mut indexer, writer.lsn).unwrap();
            check(&indexer.index(), &writer.picture);
            let index = indexer.index();
            bottoms.extend(index.runs().find(|run| run.level == Level::Bottom).map(|run| run.id));
        }
        bottoms.len()
    };
    let run_bytes = 600;
    assert!(bottoms(0) > 9, "each run is more than half of the bottom");
    let few = bottoms(10 * run_bytes);
    assert!((1..=5).contains(&few), "{few}");
    assert_eq!(bottoms(u64::MAX), 0);
}

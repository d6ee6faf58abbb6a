//! Every order in which two threads can see each other's loads and stores, on one or two rows.
//!
//! Empty unless compiled with `--cfg loom` (`make loom-snapshot`). loom runs each test once for
//! each order that the memory model allows, up to a bound of preemptions.
//!
//! Not every order after all: loom looks for a race only at the *last* access to an atomic before a
//! store. A thread that loads an atomic before storing it, as CALC does with its flag and its rows,
//! hides from loom what another thread has loaded. That is why `tests/it` has large rows.
//!
//! `docs/snapshots.md` lists the mutations that were used to prove that this finds errors.

#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use loom::sync::Arc;
use loom::thread;
use snapshot::{
    Algorithm, Calc, CopyOnUpdate, Database, Hourglass, Naive, Pages, Piggyback, PingPong, Setup,
    Shape, Source, TransactionStore, VirtualAlgorithm, VirtualHourglass, VirtualPiggyback,
    Windowed, Zigzag,
};

const ROWS: usize = 2;
/// Two words per row: one could not be torn.
const WORDS: usize = 2;
/// How often a runnable thread is preempted, at most.
const PREEMPTIONS: usize = 4;

fn setup() -> Setup<'static> {
    Setup {
        shape: Shape::new(ROWS, WORDS * 8).unwrap(),
        pages: Pages::Ordinary,
        child_disk: None,
        initial: &|_, into| into.fill(0),
    }
}

fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(body);
}

/// Merges the rows of a snapshot into those of the previous one.
fn merge(snapshot: &mut impl Source, merged: &mut [[u64; WORDS]; ROWS]) {
    snapshot
        .traverse(|row, value| {
            merged[row].copy_from_slice(value);
            Ok(())
        })
        .unwrap();
}

/// The rows before, between and after two ticks or transactions.
fn states_after_ticks() -> [[[u64; WORDS]; ROWS]; 3] {
    [[0, 0], [1, 0], [2, 2]].map(|rows| rows.map(|word| [word; WORDS]))
}

/// The client writes row 0 in tick 1 and both rows in tick 2 while two snapshots are taken. Each is
/// the state before, between or after, and the second is not older.
fn two_snapshots<A: Algorithm>() {
    explore(|| {
        let database: &'static mut Database<A> = Box::leak(Box::new(Database::new(&setup())));
        let (mut client, mut snapshotter) = database.split();
        let ticker = thread::spawn(move || {
            for number in 1..=2 {
                let mut tick = client.tick();
                for row in 0..number {
                    tick.write(row, &[number as u64; WORDS]);
                }
                let mut read = [9; WORDS];
                tick.read(0, &mut read);
                assert_eq!(read, [number as u64; WORDS], "the latest");
            }
        });
        let mut merged = [[0; WORDS]; ROWS];
        let mut last = 0;
        for _ in 0..2 {
            let mut snapshot = snapshotter.take().unwrap();
            merge(&mut snapshot, &mut merged);
            snapshot.finish();
            let states = states_after_ticks();
            let state = states.iter().position(|state| *state == merged);
            let state = state.unwrap_or_else(|| panic!("{merged:?} is the state after no tick"));
            assert!(state >= last);
            last = state;
        }
        ticker.join().unwrap();
    });
}

/// A snapshot has already been taken, of rows that were both written before. While the snapshotter
/// updates the client's copy and traverses, the client writes row 0 and reads it. Beginning here,
/// rather than at loading the rows, saves the preemptions for the hand-over.
fn a_write_meets_the_snapshotter<A: Algorithm>() {
    explore(|| {
        let database: &'static mut Database<A> = Box::leak(Box::new(Database::new(&setup())));
        let (mut client, mut snapshotter) = database.split();
        let mut merged = [[0; WORDS]; ROWS];
        // The first snapshot, so that no algorithm's second one contains every row.
        let mut first = snapshotter.take().unwrap();
        merge(&mut first, &mut merged);
        first.finish();
        for row in 0..ROWS {
            client.tick().write(row, &[1; WORDS]);
        }
        let mut snapshot = snapshotter.take().unwrap();
        let writer = thread::spawn(move || {
            client.tick().write(0, &[2; WORDS]);
            let mut read = [9; WORDS];
            client.tick().read(0, &mut read);
            assert_eq!(read, [2; WORDS], "the latest");
            client.tick().read(1, &mut read);
            assert_eq!(read, [1; WORDS], "a value that was never written");
        });
        merge(&mut snapshot, &mut merged);
        assert_eq!(merged, [[1; WORDS]; ROWS], "as it was when it was taken");
        snapshot.finish();
        writer.join().unwrap();
        let mut last = snapshotter.take().unwrap();
        merge(&mut last, &mut merged);
        assert_eq!(merged, [[2; WORDS], [1; WORDS]], "with what was written meanwhile");
        last.finish();
    });
}

/// The same with a transaction that begins after the snapshot was taken.
fn a_commit_meets_the_snapshotter<A: VirtualAlgorithm>() {
    explore(|| {
        let store = Arc::new(TransactionStore::<A>::new(&setup()));
        let mut merged = [[0; WORDS]; ROWS];
        let mut first = store.take().unwrap();
        merge(&mut first, &mut merged);
        first.finish();
        let mut snapshot = store.take().unwrap();
        let committer = {
            let store = store.clone();
            thread::spawn(move || {
                let mut transaction = store.begin();
                transaction.write(0, &[1; WORDS]).unwrap();
                transaction.commit();
            })
        };
        merge(&mut snapshot, &mut merged);
        assert_eq!(merged, [[0; WORDS]; ROWS], "as it was when it was taken");
        snapshot.finish();
        committer.join().unwrap();
        let mut last = store.take().unwrap();
        merge(&mut last, &mut merged);
        assert_eq!(merged, [[1; WORDS], [0; WORDS]], "with what was committed meanwhile");
        last.finish();
    });
}

/// Two transactions write both rows; the snapshot is the state after as many of them as it says.
fn transactions<A: VirtualAlgorithm>() {
    explore(|| {
        let store = Arc::new(TransactionStore::<A>::new(&setup()));
        let committer = {
            let store = store.clone();
            thread::spawn(move || {
                for number in 1..=2 {
                    let mut transaction = store.begin();
                    for row in 0..number {
                        transaction.write(row, &[number as u64; WORDS]).unwrap();
                    }
                    assert_eq!(transaction.commit(), number as u64);
                }
            })
        };
        let mut merged = [[0; WORDS]; ROWS];
        let mut snapshot = store.take().unwrap();
        merge(&mut snapshot, &mut merged);
        let states = states_after_ticks();
        assert_eq!(merged, states[usize::try_from(snapshot.point()).unwrap()]);
        snapshot.finish();
        committer.join().unwrap();
    });
}

macro_rules! tests {
    ($($check:ident: $($name:ident $algorithm:ident),*;)*) => {
        $(mod $check {
            use super::*;
            $(#[test] fn $name() { super::$check::<$algorithm>(); })*
        })*
    };
}

tests!(
    two_snapshots: naive Naive, copy_on_update CopyOnUpdate, zigzag Zigzag, ping_pong PingPong,
        hourglass Hourglass, piggyback Piggyback, windowed Windowed;
    a_write_meets_the_snapshotter: naive Naive, copy_on_update CopyOnUpdate, zigzag Zigzag,
        ping_pong PingPong, hourglass Hourglass, piggyback Piggyback, windowed Windowed;
    transactions: calc Calc, vhg VirtualHourglass, vpb VirtualPiggyback;
    a_commit_meets_the_snapshotter: calc Calc, vhg VirtualHourglass, vpb VirtualPiggyback;
);

//! Every order in which two threads may see each other's loads and stores, on one or two rows.
//!
//! Compiled to nothing unless with `--cfg loom` (`make loom-snapshot`). loom runs each test once for
//! each order that the memory model allows, up to a bound of preemptions.
//!
//! What is broken on purpose to see that this finds it is listed in `docs/snapshots.md`.

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
/// Two words a row: one could not be torn.
const WORDS: usize = 2;

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
    builder.preemption_bound = Some(2);
    builder.check(body);
}

/// The client writes row 0 in tick 1, both rows in tick 2, while two snapshots are taken: each is
/// the state before, between or after, and they do not go back.
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
            snapshot
                .traverse(|row, value| {
                    merged[row].copy_from_slice(value);
                    Ok(())
                })
                .unwrap();
            snapshot.finish();
            let states = [[0, 0], [1, 0], [2, 2]].map(|rows| rows.map(|word| [word; WORDS]));
            let state = states.iter().position(|state| *state == merged);
            let state = state.unwrap_or_else(|| panic!("{merged:?} is the state after no tick"));
            assert!(state >= last);
            last = state;
        }
        ticker.join().unwrap();
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
        snapshot
            .traverse(|row, value| {
                merged[row].copy_from_slice(value);
                Ok(())
            })
            .unwrap();
        let states = [[0, 0], [1, 0], [2, 2]].map(|rows| rows.map(|word| [word; WORDS]));
        assert_eq!(merged, states[usize::try_from(snapshot.point()).unwrap()]);
        snapshot.finish();
        committer.join().unwrap();
    });
}

macro_rules! tests {
    ($check:ident: $($name:ident $algorithm:ident),*) => {
        $(#[test] fn $name() { $check::<$algorithm>(); })*
    };
}

tests!(two_snapshots: naive Naive, copy_on_update CopyOnUpdate, zigzag Zigzag, ping_pong PingPong,
    hourglass Hourglass, piggyback Piggyback, windowed Windowed);
tests!(transactions: calc Calc, vhg VirtualHourglass, vpb VirtualPiggyback);

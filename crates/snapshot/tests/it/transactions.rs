//! Transactions of several threads: each snapshot is the state after exactly as many commits as it
//! says, and every transaction has read the writes of all before it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use snapshot::{
    Calc, Content, Error, Pages, Setup, Shape, Source, Transaction, TransactionStore,
    VirtualAlgorithm, VirtualHourglass, VirtualPiggyback, VirtualSnapshot,
};

use crate::value;

const WORDS: usize = 8;

fn store<A: VirtualAlgorithm>(rows: usize) -> TransactionStore<A> {
    TransactionStore::new(&Setup {
        shape: Shape::new(rows, WORDS * 8).unwrap(),
        pages: Pages::Ordinary,
        child_disk: None,
        initial: &|_, into| into.copy_from_slice(&value(0, WORDS)),
    })
}

fn read<A: VirtualAlgorithm>(transaction: &mut Transaction<'_, A>, row: usize) -> Vec<u64> {
    let mut into = vec![0; WORDS];
    transaction.read(row, &mut into).unwrap();
    into
}

/// Merges the rows of a snapshot into those of the previous one.
fn merge<A: VirtualAlgorithm>(snapshot: &mut VirtualSnapshot<'_, A>, state: &mut [Vec<u64>]) {
    let mut seen = 0;
    snapshot
        .traverse(|row, value| {
            state[row] = value.to_vec();
            seen += 1;
            Ok(())
        })
        .unwrap();
    assert!(A::CONTENT == Content::Changes || seen == state.len());
}

const ROWS: usize = 40;
const THREADS: u64 = 3;
const SNAPSHOTS: usize = if cfg!(miri) { 2 } else { 120 };

/// A transaction's reads, and the value of its writes.
struct Done {
    read: Vec<(usize, Vec<u64>)>,
    written: Vec<usize>,
    seed: u64,
}

fn transact<A: VirtualAlgorithm>(
    store: &TransactionStore<A>,
    random: &mut fastrand::Rng,
    seed: u64,
) -> Result<(u64, Done), Error> {
    let mut transaction = store.begin();
    let mut done = Done { read: Vec::new(), written: Vec::new(), seed };
    for _ in 0..random.usize(1..5) {
        let row = random.usize(0..ROWS);
        if random.bool() {
            transaction.write(row, &value(seed, WORDS))?;
            done.written.push(row);
        } else if !done.written.contains(&row) {
            let mut into = vec![0; WORDS];
            transaction.read(row, &mut into)?;
            done.read.push((row, into));
        }
    }
    // An occasional abort.
    if random.u8(0..16) == 0 {
        return Err(Error::Conflict { row: 0 });
    }
    Ok((transaction.commit(), done))
}

fn snapshots_are_states_between_commits<A: VirtualAlgorithm>() {
    let store = store::<A>(ROWS);
    let (stop, history) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    let mut snapshots = Vec::new();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, stop, history) = (&store, &stop, &history);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                let mut seed = thread + 1;
                let mut mine = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    seed += THREADS;
                    mine.extend(transact(store, &mut random, seed).ok());
                }
                history.lock().unwrap().extend(mine);
            });
        }
        let mut state = vec![Vec::new(); ROWS];
        for _ in 0..SNAPSHOTS {
            let mut snapshot = store.take().unwrap();
            merge(&mut snapshot, &mut state);
            snapshots.push((snapshot.point(), state.clone()));
            snapshot.finish();
            // Some transactions in between, so that snapshots differ.
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let history = history.into_inner().unwrap();
    let mut state = vec![value(0, WORDS); ROWS];
    let mut snapshots = snapshots.into_iter().peekable();
    for number in 0..=history.len() as u64 {
        if number > 0 {
            let done: &Done = &history[&number];
            for (row, read) in &done.read {
                assert_eq!(read, &state[*row], "row {row} as commit {number} has read it");
            }
            done.written.iter().for_each(|row| state[*row] = value(done.seed, WORDS));
        }
        while let Some((_, snapshot)) = snapshots.next_if(|(point, _)| *point == number) {
            for row in 0..ROWS {
                assert_eq!(snapshot[row], state[row], "row {row} after {number} commits");
            }
        }
    }
    assert!(snapshots.next().is_none(), "snapshots come in the order of their points");
}

/// Transactions that began before the trigger conflict with one that began after it. In these
/// cases, the paper's rule (the period of the beginning counts) gives a snapshot of no state.
fn a_transaction_from_before_the_trigger_meets_one_from_after<A: VirtualAlgorithm>() {
    let store = store::<A>(3);
    let mut state = vec![Vec::new(); 3];
    let mut first = store.take().unwrap();
    merge(&mut first, &mut state);
    first.finish();
    let mut old = store.begin();
    read(&mut old, 2);
    std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut state = state.clone();
            let mut snapshot = store.take().unwrap();
            merge(&mut snapshot, &mut state);
            let point = snapshot.point();
            snapshot.finish();
            (point, state)
        });
        // The new one writes row 0; the old one reads it and writes rows 0 and 1.
        let mut new = store.begin();
        new.write(0, &value(10, WORDS)).unwrap();
        let first = new.commit();
        assert_eq!(read(&mut old, 0), value(10, WORDS));
        old.write(1, &value(11, WORDS)).unwrap();
        old.write(0, &value(12, WORDS)).unwrap();
        let second = old.commit();
        assert_eq!((first, second), (1, 2));
        let (point, mut state) = taker.join().unwrap();
        let states = [[0, 0], [10, 0], [12, 11]];
        let expected = states[usize::try_from(point).unwrap()].map(|seed| value(seed, WORDS));
        assert_eq!(state[..2], expected, "after {point} commits");
        // And the next snapshot has the latest.
        let mut snapshot = store.take().unwrap();
        merge(&mut snapshot, &mut state);
        snapshot.finish();
        assert_eq!(state[..2], [12, 11].map(|seed| value(seed, WORDS)));
    });
}

fn a_transaction_is_whole_or_not_at_all<A: VirtualAlgorithm>() {
    let store = store::<A>(4);
    let mut transaction = store.begin();
    transaction.write(1, &value(5, WORDS)).unwrap();
    assert_eq!(read(&mut transaction, 1), value(5, WORDS), "its own write");
    let mut other = store.begin();
    assert!(matches!(other.read(1, &mut [0; WORDS]), Err(Error::Conflict { row: 1 })));
    drop((transaction, other));
    let mut after = store.begin();
    assert_eq!(read(&mut after, 1), value(0, WORDS), "it was dropped");
    after.write(1, &value(6, WORDS)).unwrap();
    assert_eq!(after.commit(), 1);
    assert_eq!(read(&mut store.begin(), 1), value(6, WORDS));
}

fn with_nothing_written_all_are_equal<A: VirtualAlgorithm>() {
    let store = store::<A>(70);
    let mut states = vec![vec![Vec::new(); 70]];
    for _ in 0..4 {
        let mut state = states.last().unwrap().clone();
        let mut snapshot = store.take().unwrap();
        assert!(matches!(store.take(), Err(Error::Unfinished)));
        merge(&mut snapshot, &mut state);
        snapshot.finish();
        states.push(state);
    }
    assert!(states[1..].iter().all(|state| *state == vec![value(0, WORDS); 70]));
}

/// Rows so large that installing or copying one takes some microseconds. A read at the wrong moment
/// would find parts of two values. And so many rows that commits overlap the traversal. Commit `n`
/// writes row `n * 7 % LARGE_ROWS`.
fn large_rows_are_never_torn<A: VirtualAlgorithm>() {
    const LARGE_ROWS: usize = if cfg!(miri) { 4 } else { 16 };
    const LARGE_WORDS: usize = if cfg!(miri) { 64 } else { 8192 };
    let store = TransactionStore::<A>::new(&Setup {
        shape: Shape::new(LARGE_ROWS, LARGE_WORDS * 8).unwrap(),
        pages: Pages::Ordinary,
        child_disk: None,
        initial: &|_, into| into.copy_from_slice(&value(0, LARGE_WORDS)),
    });
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1_u64.. {
                let mut transaction = store.begin();
                let row = usize::try_from(number).unwrap() * 7 % LARGE_ROWS;
                transaction.write(row, &value(number, LARGE_WORDS)).unwrap();
                assert_eq!(transaction.commit(), number);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut state = vec![value(0, LARGE_WORDS); LARGE_ROWS];
        let mut wrong = None;
        for _ in 0..if cfg!(miri) { SNAPSHOTS } else { SNAPSHOTS * 40 } {
            let mut snapshot = store.take().unwrap();
            merge(&mut snapshot, &mut state);
            let point = snapshot.point();
            snapshot.finish();
            let last = |row: usize| {
                (point.saturating_sub(LARGE_ROWS as u64 - 1)..=point)
                    .find(|number| *number > 0 && number * 7 % LARGE_ROWS as u64 == row as u64)
            };
            let is_right = |row: usize| state[row] == value(last(row).unwrap_or(0), LARGE_WORDS);
            if !(0..LARGE_ROWS).all(is_right) {
                wrong = Some(point);
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None, "the snapshot after this number of commits is not that");
    });
}

macro_rules! for_each_virtual_algorithm {
    ($($module:ident $algorithm:ident),*) => { $(
        mod $module {
            use super::$algorithm as Algorithm;
            #[test] fn snapshots_are_states_between_commits() {
                super::snapshots_are_states_between_commits::<Algorithm>();
            }
            #[test] fn a_transaction_from_before_the_trigger_meets_one_from_after() {
                super::a_transaction_from_before_the_trigger_meets_one_from_after::<Algorithm>();
            }
            #[test] fn large_rows_are_never_torn() {
                super::large_rows_are_never_torn::<Algorithm>();
            }
            #[test] fn a_transaction_is_whole_or_not_at_all() {
                super::a_transaction_is_whole_or_not_at_all::<Algorithm>();
            }
            #[test] fn with_nothing_written_all_are_equal() {
                super::with_nothing_written_all_are_equal::<Algorithm>();
            }
        }
    )* };
}

for_each_virtual_algorithm!(calc Calc, vhg VirtualHourglass, vpb VirtualPiggyback);

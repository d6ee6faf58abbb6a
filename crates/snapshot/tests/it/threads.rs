//! A client and a snapshotter as real threads: each snapshot is exactly the state after some tick.
//!
//! The writes of a tick follow from its number, and row 0 stores the number of the last tick. So
//! the expected contents of any snapshot can be computed.

use std::sync::atomic::{AtomicBool, Ordering};

use snapshot::{Algorithm, Content, Database, Pages, Setup, Shape, Source};

use crate::value;

const ROWS: usize = if cfg!(miri) { 70 } else { 300 };
const WORDS: usize = 8;
const WRITES_A_TICK: usize = 16;
const SNAPSHOTS: u64 = if cfg!(miri) { 3 } else { 150 };

/// The rows that tick `tick` writes, in order.
fn rows_of(tick: u64) -> impl Iterator<Item = usize> {
    let mut random = fastrand::Rng::with_seed(tick);
    // Few rows are hot, so that many writes collide with the snapshotter.
    (1..WRITES_A_TICK).map(move |_| {
        let bound = if random.bool() { 8 } else { ROWS };
        random.usize(1..bound)
    })
}

fn snapshots_are_states_between_ticks<A: Algorithm>() {
    let mut database: Database<A> = Database::new(&Setup {
        shape: Shape::new(ROWS, WORDS * 8).unwrap(),
        pages: Pages::Ordinary,
        child_disk: None,
        initial: &|_, into| into.copy_from_slice(&value(0, WORDS)),
    });
    let stop = AtomicBool::new(false);
    let (mut client, mut snapshotter) = database.split();
    std::thread::scope(|scope| {
        let ticker = scope.spawn(|| {
            let mut latest = vec![0; ROWS];
            let mut tick_number = 0;
            while !stop.load(Ordering::Relaxed) {
                tick_number += 1;
                let mut tick = client.tick();
                let mut read = [0; WORDS];
                for row in std::iter::once(0).chain(rows_of(tick_number)) {
                    tick.read(row, &mut read);
                    assert_eq!(read.to_vec(), value(latest[row], WORDS), "row {row} as latest");
                    tick.write(row, &value(tick_number, WORDS));
                    latest[row] = tick_number;
                }
            }
        });
        // Whatever happens here, the ticks must end.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut merged = vec![vec![0; WORDS]; ROWS];
            let mut expected = vec![0; ROWS];
            let mut replayed = 0;
            for _ in 0..SNAPSHOTS {
                let mut snapshot = snapshotter.take().unwrap();
                let mut seen = 0;
                snapshot
                    .traverse(|row, value| {
                        merged[row].copy_from_slice(value);
                        seen += 1;
                        Ok(())
                    })
                    .unwrap();
                snapshot.finish();
                assert!(A::CONTENT == Content::Changes || seen == ROWS);
                while value(replayed, WORDS) != merged[0] {
                    replayed += 1;
                    assert!(replayed < 10_000_000, "row 0 is of no tick");
                    expected[0] = replayed;
                    rows_of(replayed).for_each(|row| expected[row] = replayed);
                }
                for row in 0..ROWS {
                    assert_eq!(
                        merged[row],
                        value(expected[row], WORDS),
                        "row {row}, tick {replayed}"
                    );
                }
            }
        }));
        stop.store(true, Ordering::Relaxed);
        ticker.join().unwrap();
        outcome.unwrap();
    });
}

crate::for_each_algorithm!(snapshots_are_states_between_ticks);

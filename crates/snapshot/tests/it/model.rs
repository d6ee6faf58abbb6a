//! Any interleaving of reads, writes, triggers and snapshotter steps, compared with a plain `Vec`.
//!
//! A script runs in one thread, so every run can be repeated and shrunk. Between any two reads or
//! writes of the client, also inside a tick, the snapshotter may take some steps: update rows,
//! traverse rows.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use snapshot::{Algorithm, Content, Database, Pages, Setup, Shape, Snapshot, Source, Tick};

use crate::value;

/// Enough rows for several windows.
const ROWS: usize = if cfg!(miri) { 70 } else { 150 };
const WORDS: usize = 8;

#[derive(Debug, Clone, Copy)]
enum Step {
    Write(usize),
    Read(usize),
    /// The snapshotter updates some rows.
    Online(usize),
    /// The snapshotter traverses some rows.
    Traverse(usize),
}

/// Steps before the client enters, and steps while it is inside.
type Ticks = Vec<(Vec<Step>, Vec<Step>)>;

fn row() -> impl Strategy<Value = usize> {
    prop_oneof![0..4usize, 60..70usize, 0..ROWS]
}

fn snapshotter_step() -> impl Strategy<Value = Step> {
    prop_oneof![(1..70usize).prop_map(Step::Online), (1..70usize).prop_map(Step::Traverse)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => row().prop_map(Step::Write),
        2 => row().prop_map(Step::Read),
        2 => snapshotter_step(),
    ]
}

/// For each snapshot: the ticks from when it is taken until the next one is.
fn script() -> impl Strategy<Value = Vec<Ticks>> {
    let tick = (vec(snapshotter_step(), 0..3), vec(step(), 0..12));
    vec(vec(tick, 0..4), 1..6)
}

/// The expected rows.
struct Model {
    latest: Vec<u64>,
    written_since_taken: Vec<bool>,
    next_seed: u64,
}

/// The expected snapshot, and how much of it was visited.
struct Expected {
    state: Vec<u64>,
    written: Vec<bool>,
    content: Content,
    seen: Vec<bool>,
    done: bool,
}

impl Expected {
    /// Continues the traversal for some rows; each must be as at the trigger.
    fn traverse<A: Algorithm>(&mut self, snapshot: &mut Snapshot<'_, A>, rows: usize) {
        let mut read = [0; WORDS];
        for _ in 0..rows {
            let Some(row) = snapshot.next_row(&mut read).unwrap() else {
                self.done = true;
                return;
            };
            assert_eq!(read.to_vec(), value(self.state[row], WORDS), "row {row} of the snapshot");
            self.seen[row] = true;
        }
    }

    fn check_seen(&self) {
        for (row, seen) in self.seen.iter().enumerate() {
            let expected = self.content == Content::Full || self.written[row];
            assert_eq!(*seen, expected, "whether row {row} is in the snapshot");
        }
    }
}

fn client_step<A: Algorithm>(tick: &mut Tick<'_, A>, model: &mut Model, step: Step) {
    let mut read = [0; WORDS];
    match step {
        Step::Write(row) => {
            model.next_seed += 1;
            model.latest[row] = model.next_seed;
            model.written_since_taken[row] = true;
            tick.write(row, &value(model.next_seed, WORDS));
        }
        Step::Read(row) => {
            tick.read(row, &mut read);
            assert_eq!(read.to_vec(), value(model.latest[row], WORDS), "row {row} as latest");
        }
        Step::Online(_) | Step::Traverse(_) => {}
    }
}

fn snapshotter_steps<A: Algorithm>(
    snapshot: &mut Snapshot<'_, A>,
    expected: &mut Expected,
    step: Step,
) {
    match step {
        Step::Online(steps) => {
            for _ in 0..steps {
                snapshot.write_to_online_step();
            }
        }
        Step::Traverse(rows) => expected.traverse(snapshot, rows),
        Step::Write(_) | Step::Read(_) => {}
    }
}

fn run<A: Algorithm>(script: &[Ticks]) {
    let shape = Shape::new(ROWS, WORDS * 8).unwrap();
    let mut database: Database<A> = Database::new(&Setup {
        shape,
        pages: Pages::Ordinary,
        child_disk: None,
        initial: &|row, into| into.copy_from_slice(&value(row as u64, WORDS)),
    });
    let mut model = Model {
        latest: (0..ROWS as u64).collect(),
        written_since_taken: vec![true; ROWS],
        next_seed: 1000,
    };
    let (mut client, mut snapshotter) = database.split();
    for ticks in script {
        let mut snapshot = snapshotter.take().unwrap();
        let mut expected = Expected {
            state: model.latest.clone(),
            written: std::mem::replace(&mut model.written_since_taken, vec![false; ROWS]),
            content: A::CONTENT,
            seen: vec![false; ROWS],
            done: false,
        };
        for (outside, inside) in ticks {
            for step in outside {
                snapshotter_steps(&mut snapshot, &mut expected, *step);
            }
            let mut tick = client.tick();
            for step in inside {
                client_step(&mut tick, &mut model, *step);
                snapshotter_steps(&mut snapshot, &mut expected, *step);
            }
        }
        while !expected.done {
            expected.traverse(&mut snapshot, ROWS);
        }
        expected.check_seen();
        snapshot.finish();
        let mut tick = client.tick();
        for row in 0..ROWS {
            client_step(&mut tick, &mut model, Step::Read(row));
        }
    }
}

fn any_interleaving<A: Algorithm>() {
    // Each snapshot of Fork is a process.
    let cases = if cfg!(miri) {
        2
    } else if A::NAME == "fork" {
        60
    } else {
        600
    };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&script(), |script| {
        run::<A>(&script);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{}: {error}", A::NAME);
    }
}

fn nothing_written_nothing_changes<A: Algorithm>() {
    let write = |row| (vec![], vec![Step::Write(row)]);
    run::<A>(&[vec![write(3), write(69)], vec![], vec![], vec![write(3)], vec![], vec![]]);
}

/// Rows written in each period, in every second one, in none: rows that only one copy has.
fn alternating_writes<A: Algorithm>() {
    let ticks = |period: usize| {
        let writes = [
            Some(0),
            period.is_multiple_of(2).then_some(1),
            period.is_multiple_of(3).then_some(69),
        ];
        vec![(vec![], writes.into_iter().flatten().map(Step::Write).collect())]
    };
    run::<A>(&(0..8).map(ticks).collect::<Vec<Ticks>>());
}

fn one_at_a_time<A: Algorithm>() {
    let mut database: Database<A> = Database::new(&Setup {
        shape: Shape::new(3, 64).unwrap(),
        pages: Pages::Ordinary,
        child_disk: None,
        initial: &|row, into| into.fill(row as u64),
    });
    let (mut client, mut snapshotter) = database.split();
    assert!(snapshotter.unfinished().unwrap().is_none());
    snapshotter.take().unwrap().next_row(&mut [0; WORDS]).unwrap();
    client.tick().write(1, &[9; WORDS]);
    assert!(matches!(snapshotter.take(), Err(snapshot::Error::Unfinished)));
    // It still exists, from the beginning and unchanged.
    let mut rows = Vec::new();
    let mut again = snapshotter.unfinished().unwrap().unwrap();
    again
        .traverse(|row, value| {
            rows.push((row, value[0]));
            Ok(())
        })
        .unwrap();
    assert_eq!(rows, [(0, 0), (1, 1), (2, 2)]);
    again.finish();
    assert_eq!(snapshotter.take().unwrap().sequence(), 2);
}

crate::for_each_algorithm!(
    any_interleaving,
    nothing_written_nothing_changes,
    alternating_writes,
    one_at_a_time,
);

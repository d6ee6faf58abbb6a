//! Random commands with walks in between.

use keyspace::Keyspace;
use keyspace::walk::{Algorithm, Decoder, Options, Outcome, Step};
use proptest::prelude::*;

use super::commands::{Command, command, command_of_one_type, execute, keyspace};
use super::content::{self, Collector, Content};
use super::{emitted, finish};
use crate::journal::{LoggedKeyspace, MemoryLog};

#[derive(Debug, Clone)]
enum Action {
    Command(Command),
    /// Begins a walk, unless one is under way.
    Begin(Options),
    Step(usize),
    End,
}

fn options() -> impl Strategy<Value = Options> {
    let algorithm =
        prop_oneof![3 => Just(Algorithm::Piggyback), 1 => Just(Algorithm::CopyOnUpdate)];
    let chunk_bytes = prop_oneof![Just(1usize), Just(2000), Just(1 << 16)];
    let whole_bytes_max = prop_oneof![3 => Just(0usize), 1 => Just(4096)];
    (algorithm, chunk_bytes, whole_bytes_max).prop_map(
        |(algorithm, chunk_bytes, whole_bytes_max)| Options {
            algorithm,
            chunk_bytes,
            whole_bytes_max,
            ..Options::default()
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let bytes = prop_oneof![Just(1usize), Just(1000), Just(5000), 1..100_000usize];
    prop_oneof![
        30 => command().prop_map(Action::Command),
        4 => options().prop_map(Action::Begin),
        12 => bytes.prop_map(Action::Step),
        1 => Just(Action::End),
    ]
}

/// A walk that is under way, and what it must emit.
struct UnderWay {
    expected: Content,
    decoder: Decoder,
    collector: Collector,
    is_ended: bool,
}

impl UnderWay {
    fn check(self, outcome: Outcome) {
        if self.is_ended {
            assert_eq!(outcome, Outcome::Ended);
        } else {
            assert_eq!(outcome, Outcome::Complete);
            assert!(self.decoder.is_finished());
            assert_eq!(self.collector.into_content(), self.expected);
        }
    }
}

/// A keyspace that is walked, and one that is not.
struct Pair {
    walked: LoggedKeyspace,
    walked_log: MemoryLog,
    other: LoggedKeyspace,
    other_log: MemoryLog,
    now_ms: i64,
    under_way: Option<UnderWay>,
}

impl Pair {
    fn new() -> Self {
        let ((walked, walked_log), (other, other_log)) = (keyspace(), keyspace());
        Self { walked, walked_log, other, other_log, now_ms: 0, under_way: None }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Command(command) => {
                let mut now_ms = self.now_ms;
                execute(&mut self.walked, &mut now_ms, command);
                execute(&mut self.other, &mut self.now_ms, command);
                assert_eq!(now_ms, self.now_ms);
            }
            Action::Begin(options) if self.under_way.is_none() => {
                let expected = content::of(&self.walked);
                let sizes = self.walked.begin_walk(*options).expect("all is in memory");
                let keys: u64 = sizes.iter().map(|size| size.keys).sum();
                assert_eq!(keys, expected.len() as u64);
                self.under_way = Some(UnderWay {
                    expected,
                    decoder: Decoder::default(),
                    collector: Collector::default(),
                    is_ended: false,
                });
            }
            Action::Begin(options) => {
                assert!(self.walked.begin_walk(*options).is_err(), "one at a time");
            }
            Action::Step(bytes) => self.step(*bytes),
            Action::End => {
                self.walked.end_walk();
                self.under_way.iter_mut().for_each(|walk| walk.is_ended = true);
            }
        }
    }

    fn step(&mut self, bytes: usize) {
        match (self.walked.walk_step(bytes), &mut self.under_way) {
            (Step::Idle, None) | (Step::More, Some(_)) => {}
            (Step::Chunk(chunk), Some(walk)) => {
                assert!(!walk.is_ended, "it emits nothing any more");
                walk.decoder.decode(&chunk, &mut walk.collector).expect("well-formed");
            }
            (Step::Over(outcome), walk) => {
                walk.take().expect("a walk was under way").check(outcome);
            }
            (step, _) => panic!("{step:?}"),
        }
    }

    /// Ends what is under way, and compares.
    fn finish(mut self) {
        while let Some(walk) = self.under_way.take() {
            let UnderWay { expected, decoder, mut collector, is_ended } = walk;
            let outcome = finish(&mut self.walked, decoder, &mut collector, 3000);
            assert_eq!(outcome, if is_ended { Outcome::Ended } else { Outcome::Complete });
            if !is_ended {
                assert_eq!(collector.into_content(), expected);
            }
        }
        assert_eq!((self.walked.handed_bytes(), self.walked.is_walked()), (0, false));
        let content = content::of(&self.walked);
        assert_eq!(content, content::of(&self.other));
        // What one walk leaves behind another one misses.
        for (algorithm, whole_bytes_max, bytes) in
            [(Algorithm::Piggyback, 0, 700), (Algorithm::CopyOnUpdate, 4096, 1 << 20)]
        {
            let options = Options { algorithm, whole_bytes_max, ..Options::default() };
            assert_eq!(emitted(&mut self.walked, options, bytes), content);
        }
        assert_eq!(dump_order(&self.walked), dump_order(&self.other));
        for keyspace in [&mut self.walked, &mut self.other] {
            while keyspace.free_step(1000) {}
            assert_eq!(keyspace.freeing(), 0);
        }
        let (walked, other) = (self.walked_log.records(), self.other_log.records());
        assert_eq!(walked.len(), other.len());
        for (at, (a, b)) in walked.iter().zip(other.iter()).enumerate() {
            assert_eq!(a.record(), b.record(), "record {at}");
            assert_eq!(a.is_retired, b.is_retired, "record {at}: {a:?}");
        }
    }
}

/// The keys in the order of the tables.
fn dump_order(keyspace: &Keyspace) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for db in keyspace.databases() {
        keyspace.inspect(db, |key| keys.push(key.key.to_vec()));
    }
    keys
}

/// Many more in a longer run: `WALK_CASES=10000`.
fn cases() -> u32 {
    std::env::var("WALK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn a_walk_emits_the_keyspace_at_its_trigger(
        before in prop::collection::vec(command(), 0..60),
        options in options(),
        actions in prop::collection::vec(action(), 1..160),
    ) {
        let mut pair = Pair::new();
        before.into_iter().for_each(|command| pair.act(&Action::Command(command)));
        pair.act(&Action::Begin(options));
        actions.iter().for_each(|action| pair.act(action));
        pair.finish();
    }

    #[test]
    fn a_walk_emits_a_large_value_at_its_trigger(
        commands in command_of_one_type(),
        begin in any::<prop::sample::Index>(),
        options in options(),
        bytes in prop_oneof![Just(1usize), 100..4000usize],
        steps in 1..4usize,
    ) {
        let mut pair = Pair::new();
        let begin = begin.index(commands.len());
        for (at, command) in commands.into_iter().enumerate() {
            if at == begin {
                pair.act(&Action::Begin(options));
            }
            pair.act(&Action::Command(command));
            (0..steps).for_each(|_| pair.act(&Action::Step(bytes)));
        }
        pair.finish();
    }
}

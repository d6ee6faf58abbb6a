//! A walk against a deep copy: whatever commands do while it is under way, what it emits is the
//! keyspace at the trigger, each key and each element once; and a keyspace that is walked stays the
//! same, in memory and in its log, as one that is not.

mod commands;
mod content;
mod model;
mod rules;
mod speed;

use keyspace::Keyspace;
use keyspace::walk::{Decoder, Options, Outcome, Step};

use content::{Collector, Content};

/// Takes the walk to its end, in steps of so many bytes. Returns what was emitted from `decoder` on.
fn finish(
    keyspace: &mut Keyspace,
    mut decoder: Decoder,
    collector: &mut Collector,
    bytes: usize,
) -> Outcome {
    loop {
        match keyspace.walk_step(bytes) {
            Step::Chunk(chunk) => decoder.decode(&chunk, collector).expect("well-formed"),
            Step::More => {}
            Step::Idle => panic!("a walk is under way"),
            Step::Over(outcome) => {
                // One that was ended may have emitted everything before.
                assert!(decoder.is_finished() || outcome != Outcome::Complete);
                return outcome;
            }
        }
    }
}

/// What a walk emits when nothing happens meanwhile.
fn emitted(keyspace: &mut Keyspace, options: Options, bytes: usize) -> Content {
    keyspace.begin_walk(options).expect("all is in memory");
    let mut collector = Collector::default();
    let outcome = finish(keyspace, Decoder::default(), &mut collector, bytes);
    assert_eq!(outcome, Outcome::Complete);
    collector.into_content()
}

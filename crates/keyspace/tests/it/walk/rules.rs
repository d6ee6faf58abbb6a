//! What a walk promises besides what it emits: bounds, refusals, and what it leaves behind.

use base::{Lsn, RecordKind};
use keyspace::hash::Hash;
use keyspace::list::{End, List};
use keyspace::walk::{Algorithm, DecodeError, Decoder, Options, Outcome, Refused, Step};
use keyspace::zset::ZSet;
use keyspace::{Expiry, Keyspace, NoJournal, Type};
use proptest::prelude::*;

use super::content::{self, Collector};
use super::{emitted, finish};
use crate::bare::Blocks;
use crate::journal::{MemoryLog, SEED};
use crate::{DB0, DB1};

/// A hash of so many fields of about a hundred bytes.
fn fill_hash(keyspace: &mut Keyspace, key: &[u8], fields: u32) {
    keyspace.begin_command(0);
    let filled = keyspace.update::<Hash, _>(DB0, key, true, |hash| {
        for number in 0..fields {
            hash.set(&number.to_be_bytes(), &[b'v'; 100]);
        }
    });
    filled.expect("a hash");
}

fn set_field(keyspace: &mut Keyspace, key: &[u8], field: u32, value: &[u8]) {
    keyspace.begin_command(0);
    let set = keyspace.update::<Hash, _>(DB0, key, true, |hash| {
        hash.set(&field.to_be_bytes(), value);
    });
    set.expect("a hash");
}

#[test]
fn a_step_and_a_command_do_bounded_work_whatever_is_emitted() {
    for (algorithm, handed_max) in
        [(Algorithm::Piggyback, 1000), (Algorithm::CopyOnUpdate, 1 << 24)]
    {
        let mut keyspace = MemoryLog::default().keyspace();
        fill_hash(&mut keyspace, b"hash", 20_000);
        keyspace.set_string(DB0, b"string", &vec![b's'; 1 << 20], Expiry::Clear);
        let expected = content::of(&keyspace);
        let options = Options { algorithm, ..Options::default() };
        keyspace.begin_walk(options).expect("all is in memory");
        assert_eq!(keyspace.handed_bytes(), 0, "the trigger copies nothing");
        set_field(&mut keyspace, b"hash", 7, b"other");
        let handed = keyspace.handed_bytes();
        assert!(handed > 0 && handed <= handed_max, "{handed}");
        assert_eq!(algorithm == Algorithm::CopyOnUpdate, handed > 1 << 20);
        let (mut decoder, mut collector) = (Decoder::default(), Collector::default());
        let mut field = 0;
        let outcome = loop {
            let before = keyspace.handed_bytes();
            match keyspace.walk_step(10_000) {
                Step::Chunk(chunk) => {
                    assert!(chunk.len() <= Options::default().chunk_bytes);
                    decoder.decode(&chunk, &mut collector).expect("well-formed");
                }
                Step::More => {
                    let emitted = keyspace.handed_bytes().saturating_sub(before);
                    assert!(emitted < 10_000 + 4096 + 100, "{emitted} bytes in a step");
                }
                Step::Idle => panic!("a walk is under way"),
                Step::Over(outcome) => break outcome,
            }
            field += 1;
            set_field(&mut keyspace, b"hash", field * 13 % 20_000, b"changed");
        };
        assert_eq!(outcome, Outcome::Complete);
        assert_eq!(collector.into_content(), expected);
        assert_eq!(keyspace.handed_bytes(), 0);
    }
}

#[test]
fn a_walk_is_congested_until_the_consumer_has_taken_what_was_handed_over() {
    let mut keyspace = MemoryLog::default().keyspace();
    keyspace.begin_command(0);
    for number in 0..1000u32 {
        keyspace.set_string(DB0, &number.to_be_bytes(), &[b'v'; 500], Expiry::Clear);
    }
    let options = Options { handed_bytes_max: 100_000, chunk_bytes: 4096, ..Options::default() };
    keyspace.begin_walk(options).expect("all is in memory");
    for number in 0..100u32 {
        keyspace.delete(DB0, &number.to_be_bytes());
    }
    assert!(!keyspace.is_walk_congested());
    for number in 100..300u32 {
        keyspace.set_string(DB0, &number.to_be_bytes(), b"other", Expiry::Clear);
    }
    assert!(keyspace.is_walk_congested());
    let progress = keyspace.walk_progress().expect("it is under way");
    assert_eq!((progress.keys_emitted, progress.keys_total), (300, 1000));
    let (mut decoder, mut collector) = (Decoder::default(), Collector::default());
    while keyspace.is_walk_congested() {
        let Step::Chunk(chunk) = keyspace.walk_step(1) else { panic!("chunks are ready") };
        decoder.decode(&chunk, &mut collector).expect("well-formed");
    }
    assert!(keyspace.handed_bytes() > 90_000, "no more was taken than had to be");
    assert_eq!(finish(&mut keyspace, decoder, &mut collector, 5000), Outcome::Complete);
    assert_eq!(collector.into_content().len(), 1000);
}

#[test]
fn what_was_kept_of_a_large_value_counts_until_it_was_emitted() {
    let mut keyspace = MemoryLog::default().keyspace();
    fill_hash(&mut keyspace, b"hash", 1000);
    keyspace.begin_walk(Options { chunk_bytes: 1, ..Options::default() }).expect("in memory");
    (0..500).for_each(|field| set_field(&mut keyspace, b"hash", field, b"other"));
    let handed = keyspace.handed_bytes();
    assert!(handed > 50_000, "{handed}");
    let mut last = handed;
    while let Step::Chunk(_) | Step::More = keyspace.walk_step(1000) {
        last = keyspace.handed_bytes();
    }
    assert_eq!(last, 0, "all was emitted, and taken");
}

#[test]
fn what_is_deleted_is_freed_when_it_was_emitted_and_hurries_nothing_before() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    fill_hash(&mut keyspace, b"hash", 1000);
    keyspace.begin_walk(Options::default()).expect("all is in memory");
    keyspace.begin_command(0);
    assert!(keyspace.delete(DB0, b"hash"));
    let live = |log: &MemoryLog| log.records().iter().filter(|logged| !logged.is_retired).count();
    assert!(!keyspace.free_step(100_000));
    assert_eq!((keyspace.freeing(), live(&log)), (0, 1001), "its fields, and that it is gone");
    assert!(keyspace.held_bytes() > 100_000);
    let mut collector = Collector::default();
    let outcome = finish(&mut keyspace, Decoder::default(), &mut collector, 1 << 20);
    assert_eq!((outcome, collector.into_content().len()), (Outcome::Complete, 1));
    assert_eq!((keyspace.freeing(), keyspace.held_bytes()), (1, 0));
    while keyspace.free_step(100) {}
    assert_eq!(live(&log), 1);
}

#[test]
fn a_flushed_database_is_emitted_and_freed_in_steps() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    keyspace.begin_command(0);
    for number in 0..5000u32 {
        keyspace.set_string(DB1, &number.to_be_bytes(), b"value", Expiry::Clear);
    }
    let expected = content::of(&keyspace);
    keyspace.begin_walk(Options::default()).expect("all is in memory");
    keyspace.flush([DB1]);
    keyspace.set_string(DB1, b"later", b"value", Expiry::Clear);
    assert_eq!(
        (keyspace.detached_keys(), keyspace.freeing(), keyspace.handed_bytes()),
        (5000, 0, 0)
    );
    let mut collector = Collector::default();
    let outcome = finish(&mut keyspace, Decoder::default(), &mut collector, 1000);
    assert_eq!((outcome, collector.into_content()), (Outcome::Complete, expected));
    assert_eq!((keyspace.detached_keys(), keyspace.freeing()), (0, 1));
    while keyspace.free_step(100) {}
    let is_live = |kind| log.records().iter().any(|it| it.kind == kind && !it.is_retired);
    assert!(is_live(RecordKind::Databases) && is_live(RecordKind::String));
    assert_eq!(log.records().iter().filter(|logged| !logged.is_retired).count(), 2);
}

#[test]
fn no_walk_begins_when_memory_may_not_have_everything() {
    let mut fed = Keyspace::new(NoJournal, SEED, 4);
    fed.load();
    assert_eq!(fed.begin_walk(Options::default()), Err(Refused::Fed));
    fed.end_block(&mut Vec::new()).expect("nothing was applied");
    assert_eq!(fed.begin_walk(Options::default()), Err(Refused::Fed));

    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    keyspace.set_string(DB0, b"key", &[b'v'; 1000], Expiry::Clear);
    blocks.all_indexed();
    keyspace.note_indexed(Some(Lsn(u64::MAX)));
    assert!(keyspace.cool_key(DB0, b"key"), "it is in the log");
    assert_eq!(keyspace.begin_walk(Options::default()), Err(Refused::Lacking));
    keyspace.begin_command(0);
    assert!(keyspace.string(DB0, b"key").expect("a string").is_some(), "it is back");
    assert!(keyspace.begin_walk(Options::default()).is_ok());
    assert_eq!(keyspace.begin_walk(Options::default()), Err(Refused::UnderWay));
    assert!(!keyspace.cool_key(DB0, b"key"), "nothing leaves memory while it is walked");
    let cooled = keyspace.cool_step(None);
    assert_eq!((cooled.values, cooled.round.map(|round| round.gone)), (0, Some(0)));
    keyspace.drop_some(100);
    keyspace.drop_some_keys(100);
    assert!(!keyspace.depart_key(DB0, b"key"));
    assert_eq!((keyspace.bare_values(), keyspace.cold_keys()), (0, 0));
    keyspace.end_walk();
    let mut collector = Collector::default();
    let outcome = finish(&mut keyspace, Decoder::default(), &mut collector, 1000);
    assert_eq!((outcome, collector.into_content().len()), (Outcome::Ended, 0));
    assert!(keyspace.cool_key(DB0, b"key"));
}

#[test]
fn a_keyspace_that_takes_the_place_of_one_that_is_walked_says_that_the_walk_is_lost() {
    let mut before = MemoryLog::default().keyspace();
    fill_hash(&mut before, b"hash", 100);
    before.begin_walk(Options::default()).expect("all is in memory");
    let mut keyspace = MemoryLog::default().keyspace();
    keyspace.succeed(&mut before);
    assert_eq!(keyspace.walk_step(1000), Step::Over(Outcome::Lost));
    assert_eq!(keyspace.walk_step(1000), Step::Idle);
    assert_eq!(emitted(&mut keyspace, Options::default(), 1000).len(), 0);
}

#[test]
fn a_walk_goes_on_when_the_journal_is_another_one() {
    let mut keyspace = MemoryLog::default().keyspace();
    fill_hash(&mut keyspace, b"hash", 1000);
    let expected = content::of(&keyspace);
    keyspace.begin_walk(Options::default()).expect("all is in memory");
    set_field(&mut keyspace, b"hash", 1, b"other");
    let mut keyspace = keyspace.with_journal(NoJournal);
    set_field(&mut keyspace, b"hash", 2, b"other");
    let mut collector = Collector::default();
    let outcome = finish(&mut keyspace, Decoder::default(), &mut collector, 1000);
    assert_eq!((outcome, collector.into_content()), (Outcome::Complete, expected));
}

#[test]
fn the_use_of_a_key_is_emitted_as_the_entry_has_it() {
    let mut keyspace = MemoryLog::default().keyspace();
    keyspace.begin_command(5_000_000);
    keyspace.set_string(DB0, b"small", b"value", Expiry::At(9_000_000));
    keyspace
        .update::<List, _>(DB0, b"large", true, |list| {
            (0..100).for_each(|_| list.push(End::Back, b"an item of a list"));
        })
        .expect("a list");
    keyspace.begin_walk(Options::default()).expect("all is in memory");
    keyspace.begin_command(8_000_000);
    // Only the use changes.
    assert!(keyspace.exists(DB0, b"small", true));
    keyspace
        .update::<List, _>(DB0, b"large", false, |list| list.push(End::Front, b"one more"))
        .expect("a list");
    let mut seen = Uses::default();
    let mut decoder = Decoder::default();
    loop {
        match keyspace.walk_step(1000) {
            Step::Chunk(chunk) => decoder.decode(&chunk, &mut seen).expect("well-formed"),
            Step::More => {}
            Step::Idle | Step::Over(_) => break,
        }
    }
    seen.0.sort_by(|a, b| a.0.cmp(&b.0));
    let [large, small] = &seen.0[..] else { panic!("two keys") };
    assert_eq!(small, &(b"small".to_vec(), Type::String, 8000));
    assert_eq!((large.1, large.2), (Type::List, 8000));
}

/// Takes the walk as far as so many keys.
fn walk_until(
    keyspace: &mut Keyspace,
    decoder: &mut Decoder,
    collector: &mut Collector,
    is_enough: impl Fn(&Keyspace) -> bool,
) {
    while !is_enough(keyspace) {
        match keyspace.walk_step(500) {
            Step::Chunk(chunk) => decoder.decode(&chunk, collector).expect("well-formed"),
            Step::More => {}
            Step::Idle | Step::Over(_) => panic!("that was too quick"),
        }
    }
}

#[test]
fn pages_split_and_merge_while_they_are_walked() {
    for (first, last) in [(4000u32, 40u32), (300, 6000), (4000, 4000)] {
        let mut keyspace = MemoryLog::default().keyspace();
        keyspace.begin_command(0);
        for number in 0..first {
            keyspace.set_string(DB0, &number.to_be_bytes(), b"value", Expiry::Clear);
        }
        let expected = content::of(&keyspace);
        keyspace.begin_walk(Options { chunk_bytes: 100, ..Options::default() }).expect("in memory");
        let (mut decoder, mut collector) = (Decoder::default(), Collector::default());
        for part in 1..8 {
            let enough = u64::from(first) * part / 10;
            walk_until(&mut keyspace, &mut decoder, &mut collector, |keyspace| {
                keyspace.walk_progress().is_none_or(|progress| progress.keys_emitted >= enough)
            });
            // To and fro, so that the halves of a page merge of which one was visited.
            for number in last.min(first)..last.max(first) {
                let key = number.to_be_bytes();
                if (last < first) == (part % 2 == 1) {
                    keyspace.delete(DB0, &key);
                } else {
                    keyspace.set_string(DB0, &key, b"other", Expiry::Clear);
                }
            }
        }
        assert_eq!(finish(&mut keyspace, decoder, &mut collector, 300), Outcome::Complete);
        assert_eq!(collector.into_content(), expected, "{first} to {last}");
        let now = content::of(&keyspace);
        assert_eq!(emitted(&mut keyspace, Options::default(), 1000), now);
    }
}

#[test]
fn pages_of_elements_split_and_merge_while_they_are_walked() {
    for (first, last) in [(4000u32, 40u32), (300, 6000)] {
        let mut keyspace = MemoryLog::default().keyspace();
        fill_hash(&mut keyspace, b"hash", first);
        let expected = content::of(&keyspace);
        keyspace.begin_walk(Options { chunk_bytes: 1, ..Options::default() }).expect("in memory");
        let (mut decoder, mut collector) = (Decoder::default(), Collector::default());
        for part in 1..8 {
            for _ in 0..first / 60 {
                match keyspace.walk_step(500) {
                    Step::Chunk(chunk) => {
                        decoder.decode(&chunk, &mut collector).expect("well-formed");
                    }
                    Step::More => {}
                    Step::Idle | Step::Over(_) => panic!("that was too quick"),
                }
            }
            keyspace.begin_command(0);
            let updated = keyspace.update::<Hash, _>(DB0, b"hash", false, |hash| {
                for number in last.min(first)..last.max(first) {
                    if (last < first) == (part % 2 == 1) {
                        hash.remove(&number.to_be_bytes());
                    } else {
                        hash.set(&number.to_be_bytes(), b"other");
                    }
                }
            });
            updated.expect("a hash");
        }
        assert_eq!(finish(&mut keyspace, decoder, &mut collector, 300), Outcome::Complete);
        assert_eq!(collector.into_content(), expected, "{first} to {last}");
    }
}

#[test]
fn copy_on_update_ends_what_it_has_begun_before_it_changes() {
    let mut keyspace = MemoryLog::default().keyspace();
    fill_hash(&mut keyspace, b"hash", 2000);
    let expected = content::of(&keyspace);
    let options = Options { algorithm: Algorithm::CopyOnUpdate, ..Options::default() };
    keyspace.begin_walk(options).expect("all is in memory");
    assert_eq!(keyspace.walk_step(20_000), Step::More);
    assert!(keyspace.handed_bytes() < 30_000);
    set_field(&mut keyspace, b"hash", 1, b"other");
    assert!(keyspace.handed_bytes() > 200_000, "all of it");
    let mut collector = Collector::default();
    let outcome = finish(&mut keyspace, Decoder::default(), &mut collector, 1000);
    assert_eq!((outcome, collector.into_content()), (Outcome::Complete, expected));
}

/// Small enough for Miri: the order of a sorted set refers to elements, which move to the shadow.
#[test]
fn a_sorted_set_keeps_its_order_while_its_members_move() {
    let mut keyspace = MemoryLog::default().keyspace();
    let name = |number: u32| format!("member:{number}").into_bytes();
    let set = |keyspace: &mut Keyspace, from: u32, score: f64| {
        keyspace.begin_command(0);
        let updated = keyspace.update::<ZSet, _>(DB0, b"zset", true, |set| {
            for number in from..from + 20 {
                set.set(&name(number), score - f64::from(number % 5));
                set.remove(&name(number + 7));
            }
            set.remove_range(3..5);
            let view = set.view();
            let members: Vec<(f64, &[u8])> =
                view.iter().map(|(name, score)| (score, name)).collect();
            assert!(members.is_sorted());
            assert!(members.iter().all(|(score, name)| view.score(name) == Some(*score)));
        });
        updated.expect("a sorted set");
    };
    (0..8).for_each(|round| set(&mut keyspace, round * 10, f64::from(round)));
    let expected = content::of(&keyspace);
    let options = Options { whole_bytes_max: 0, chunk_bytes: 100, ..Options::default() };
    keyspace.begin_walk(options).expect("all is in memory");
    let (mut decoder, mut collector) = (Decoder::default(), Collector::default());
    for round in 0..8 {
        set(&mut keyspace, round * 9, f64::from(round + 50));
        for _ in 0..10 {
            match keyspace.walk_step(50) {
                Step::Chunk(chunk) => decoder.decode(&chunk, &mut collector).expect("well-formed"),
                Step::More => {}
                Step::Idle | Step::Over(_) => panic!("that was too quick"),
            }
        }
    }
    assert!(keyspace.delete(DB0, b"zset"));
    assert_eq!(finish(&mut keyspace, decoder, &mut collector, 50), Outcome::Complete);
    assert_eq!(collector.into_content(), expected);
    while keyspace.free_step(10) {}
}

/// The use of each key.
#[derive(Default)]
struct Uses(Vec<(Vec<u8>, Type, u32)>);

impl keyspace::walk::Visitor for Uses {
    type Error = content::Never;

    fn begin(&mut self, key: &keyspace::walk::Key<'_>) -> Result<(), content::Never> {
        self.0.push((key.key.to_vec(), key.value_type, key.access));
        Ok(())
    }

    fn element(&mut self, _: keyspace::walk::Element<'_>) -> Result<(), content::Never> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), content::Never> {
        Ok(())
    }
}

/// The chunks of a walk with values of all kinds.
fn chunks() -> Vec<Vec<u8>> {
    let mut keyspace = MemoryLog::default().keyspace();
    fill_hash(&mut keyspace, b"small", 1);
    fill_hash(&mut keyspace, b"large", 70);
    keyspace.set_string(DB0, b"number", b"12", Expiry::At(77));
    keyspace.set_string(DB1, b"string", &vec![b's'; 10_000], Expiry::Clear);
    keyspace
        .update::<List, _>(DB1, b"list", true, |list| {
            (0..100).for_each(|_| list.push(End::Back, b"an item of a list"));
        })
        .expect("a list");
    let options = Options { chunk_bytes: 3000, ..Options::default() };
    keyspace.begin_walk(options).expect("all is in memory");
    let step = |_: u32| match keyspace.walk_step(1000) {
        Step::Chunk(chunk) => Some(Some(chunk)),
        Step::More => Some(None),
        Step::Idle | Step::Over(_) => None,
    };
    (0..).map_while(step).flatten().collect()
}

#[test]
fn chunks_that_are_missing_or_cut_off_are_noticed() {
    let chunks = chunks();
    assert!(chunks.len() > 3);
    for missing in 0..chunks.len() {
        let (mut decoder, mut collector) = (Decoder::default(), Collector::default());
        let left = chunks.iter().enumerate().filter(|(at, _)| *at != missing);
        let decoded = left.map(|(_, chunk)| decoder.decode(chunk, &mut collector));
        let is_whole = decoded.collect::<Result<Vec<()>, DecodeError<_>>>().is_ok();
        assert!(!is_whole || !decoder.is_finished(), "chunk {missing} is missing");
    }
}

proptest! {
    #[test]
    fn any_chunk_is_decoded_or_refused(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut chunks = chunks();
        let all: Vec<u8> = chunks.drain(..).flatten().collect();
        let mut chunk = all[..=cut.index(all.len())].to_vec();
        let at = at.index(chunk.len());
        chunk[at] = byte;
        // Whatever it says; it must not panic.
        _ = Decoder::default().decode(&chunk, &mut Uses::default());
    }
}

#[test]
fn a_log_that_was_walked_restores_the_keyspace() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    fill_hash(&mut keyspace, b"hash", 500);
    keyspace.begin_walk(Options { whole_bytes_max: 0, ..Options::default() }).expect("in memory");
    set_field(&mut keyspace, b"hash", 3, b"other");
    keyspace.rename(DB0, b"hash", DB1, b"renamed");
    keyspace.end_walk();
    while !matches!(keyspace.walk_step(500), Step::Over(_)) {}
    while keyspace.free_step(100) {}
    let expected = content::of(&keyspace);
    let replayed = log.replay(|at| at % 2 == 0);
    assert_eq!(content::of(&replayed), expected);
}

//! Streams out of records, in any order and from any number of runs, are what memory has.

use std::collections::BTreeMap;

use env_sim::SimEntropy;
use keyspace::Keyspace;
use keyspace::stream::{Delivery, Keep, Stream, StreamId, Trim};
use rdb::{EntriesRead, EntryId, Event, PendingEntry, Version, WriteOptions};

use crate::commands::DATABASES;
use crate::journal::MemoryLog;
use crate::orders::{of_memory, of_records};

const OPTIONS: WriteOptions =
    WriteOptions { version: Version::Redis(11), compress: true, checksum: true };

/// What a file has, as text by key.
pub(crate) fn read(file: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut reader = rdb::Reader::new(file, rdb::Limits::default()).unwrap();
    let (mut all, mut key) = (BTreeMap::new(), String::new());
    loop {
        match reader.next().unwrap() {
            rdb::Event::End { checksum } => {
                assert_eq!(checksum, rdb::Checksum::Right);
                return all;
            }
            rdb::Event::Key(found) => {
                key = format!("{found:?}");
                assert!(all.insert(key.clone(), Vec::new()).is_none());
            }
            event => {
                if let Some(lines) = all.get_mut(&key) {
                    lines.push(format!("{event:?}"));
                }
            }
        }
    }
}

/// Changes streams at random, so that nodes, units, groups and what is pending come and go.
fn change(keyspace: &mut Keyspace, seed: u64) {
    let mut rng = SimEntropy::new(seed);
    let db = keyspace.database(0).unwrap();
    let mut next = [StreamId::MIN; 3];
    for step in 0..900_u64 {
        keyspace.begin_command(1_000_000 + i64::try_from(step).unwrap());
        let at = usize::try_from(rng.below(3)).unwrap();
        let key = format!("stream {at}");
        let some = |rng: &mut SimEntropy| StreamId::new(rng.below(step + 2) / 9, rng.below(9));
        let updated = keyspace.update::<Stream, _>(db, key.as_bytes(), true, |stream| {
            stream.create();
            let consumer = ["", "c1", "c2"][usize::try_from(rng.below(3)).unwrap()];
            let group = format!("g{}", rng.below(2));
            match rng.below(12) {
                0..5 => {
                    for _ in 0..rng.below(40) {
                        let id = next[at].next().unwrap().max(StreamId::new(step / 9, 1));
                        let value = vec![b'v'; usize::try_from(rng.below(30)).unwrap()];
                        let long = vec![b'x'; if rng.below(50) == 0 { 40_000 } else { 3 }];
                        stream.append(id, &[b"name", &value, b"other", &long]);
                        next[at] = id;
                    }
                }
                5 => {
                    for _ in 0..30 {
                        stream.delete(some(&mut rng));
                    }
                }
                6 => {
                    let keep = Keep::Newest(rng.below(300));
                    stream.trim(Trim { keep, about: (rng.below(2) == 0).then_some(0) });
                }
                7 => _ = stream.create_group(group.as_bytes(), some(&mut rng), Some(step)),
                8 if rng.below(4) == 0 => _ = stream.destroy_group(group.as_bytes()),
                _ => {
                    if let Some(mut group) = stream.group(group.as_bytes()) {
                        let known = group.consumer(consumer.as_bytes());
                        let consumer =
                            known.unwrap_or_else(|| group.create_consumer(consumer.as_bytes(), 7));
                        for _ in 0..rng.below(30) {
                            let delivery = Delivery { at_ms: 9, count: rng.below(5) };
                            group.deliver(consumer, some(&mut rng), delivery);
                        }
                        for _ in 0..10 {
                            group.release(some(&mut rng));
                        }
                        for _ in 0..rng.below(4) {
                            group.give_back(some(&mut rng), rng.below(5));
                        }
                        if rng.below(20) == 0 {
                            group.delete_consumer(consumer);
                        }
                    }
                }
            }
        });
        assert!(updated.is_ok());
    }
    while keyspace.free_step(1000) {}
}

#[test]
fn streams_are_whole_in_whatever_order_their_records_come() {
    for seed in 0..6 {
        let log = MemoryLog::default();
        let mut keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
        change(&mut keyspace, seed);
        let expected = read(&of_memory(&keyspace, OPTIONS));
        assert_eq!(expected.len(), 3);
        assert!(expected.values().all(|lines| lines.len() > 300), "there is much to see");
        for (how, file) in of_records(&keyspace, &log, OPTIONS) {
            assert!(read(&file) == expected, "seed {seed}, {how}");
        }
    }
}

/// Older servers read no entry that waits and that no consumer has.
#[test]
fn what_was_given_back_is_held_by_a_consumer_without_a_name() {
    for has_unnamed in [false, true] {
        let log = MemoryLog::default();
        let mut keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
        let db = keyspace.database(0).unwrap();
        keyspace.begin_command(1_000_000);
        let updated = keyspace.update::<Stream, _>(db, b"s", true, |stream| {
            stream.create();
            (1..=4).for_each(|seq| stream.append(StreamId::new(5, seq), &[b"name", b"value"]));
            stream.create_group(b"g", StreamId::MIN, None);
            let mut group = stream.group(b"g").unwrap();
            let named = group.create_consumer(b"c", 7);
            let other = if has_unnamed { group.create_consumer(b"", 8) } else { named };
            for (seq, consumer) in [(1, other), (2, named), (3, named), (4, other)] {
                let delivery = Delivery { at_ms: 9, count: 1 };
                group.deliver(consumer, StreamId::new(5, seq), delivery);
            }
            group.give_back(StreamId::new(5, 3), 6);
            group.give_back(StreamId::new(5, 1), 0);
        });
        assert!(updated.is_ok());
        let pending = |seq, at_ms, count| {
            Event::Pending(PendingEntry { id: EntryId::new(5, seq), at_ms, count })
        };
        let consumer = |name, seen_ms| Event::Consumer { name, seen_ms, active_ms: None };
        let held = |seq| Event::Held(EntryId::new(5, seq));
        let (last_id, entries_read) = (EntryId::default(), EntriesRead::Unknown);
        let group = Event::Group { name: b"g", last_id, entries_read };
        let pending = [pending(1, 0, 0), pending(2, 9, 1), pending(3, 0, 6), pending(4, 9, 1)];
        let consumers = if has_unnamed {
            [consumer(b"c", 7), held(2), consumer(b"", 8), held(1), held(3), held(4)]
        } else {
            [consumer(b"", 0), held(1), held(3), consumer(b"c", 7), held(2), held(4)]
        };
        let events = [&[group][..], &pending, &consumers, &[Event::EndOfKey]].concat();
        let expected: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
        let of_memory = ("of memory".to_owned(), of_memory(&keyspace, OPTIONS));
        for (how, file) in of_records(&keyspace, &log, OPTIONS).into_iter().chain([of_memory]) {
            let found = read(&file).into_values().next().expect("a key");
            assert!(found.ends_with(&expected), "{how}: {found:#?}");
        }
    }
}

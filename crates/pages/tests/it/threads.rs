//! Several threads on one store, with its background thread.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use pages::{Durability, LockWait, Options, PageStore, Upkeep};

use crate::harness::{World, small};

fn options() -> Options {
    Options { lock_wait: LockWait::Block, upkeep: Upkeep::Background, ..small() }
}

fn put(store: &PageStore, key: &[u8], len: usize, durability: Durability) {
    let transaction = store.begin().expect("healthy");
    transaction.table("t").insert(key, vec![7; len]).expect("each thread writes its own key");
    transaction.commit(durability).expect("no faults");
}

#[test]
fn a_group_commit_waits_until_it_is_durable() {
    let world = World::new(1);
    let store = world.open(Options { group_delay_ms: 20_000, ..options() });
    let begun = Instant::now();
    for i in 0..20_u8 {
        put(&store, &[i], 10, Durability::Group);
    }
    // No thread was there to wait for.
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop(store);
    world.disk.crash();
    world.disk.restart();
    assert_eq!(world.open(options()).check().expect("sound").keys, 20);
}

#[test]
fn group_commits_of_several_threads_share_a_write_of_the_log() {
    let world = World::new(2);
    let store = world.open(Options { group_delay_ms: 20_000, ..options() });
    let before = store.stats().log_flushes;
    let all_have_begun = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let (store, all_have_begun) = (&store, &all_have_begun);
            scope.spawn(move || {
                let transaction = store.begin().expect("healthy");
                transaction
                    .table("t")
                    .insert([thread], "x")
                    .expect("each thread writes its own key");
                all_have_begun.wait();
                transaction.commit(Durability::Group).expect("no faults");
            });
        }
    });
    assert_eq!(store.stats().log_flushes - before, 1);
    drop(store);
    world.disk.crash();
    world.disk.restart();
    assert_eq!(world.open(options()).check().expect("sound").keys, 8);
}

#[test]
fn a_commit_without_a_waiting_thread_becomes_durable_after_the_delay() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { group_delay_ms: 5, ..Options::default() };
    let store = PageStore::open_path(dir.path(), options).expect("a new store");
    let transaction = store.begin().expect("healthy");
    transaction.table("t").insert("a", "1").expect("free");
    let offset = transaction.commit(Durability::None).expect("no faults");
    let begun = Instant::now();
    while store.durable_end() <= offset {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not written by itself");
        std::thread::yield_now();
    }
}

#[test]
fn checkpoints_are_taken_in_the_background() {
    let world = World::new(3);
    let store = world.open(options());
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let store = &store;
            scope.spawn(move || {
                for i in 0..300_u16 {
                    let [high, low] = i.to_be_bytes();
                    put(store, &[high, low, thread], 400, Durability::None);
                }
            });
        }
    });
    assert!(store.stats().checkpoints > 3, "{:?}", store.stats());
    assert_eq!(store.check().expect("sound").keys, 1200);
    store.close().expect("no faults");
    assert_eq!(world.open(options()).check().expect("sound").keys, 1200);
}

#[test]
fn a_failed_sync_reaches_every_waiting_thread() {
    let world = World::new(4);
    let store = world.open(Options { group_delay_ms: 5, ..options() });
    put(&store, b"a", 10, Durability::Group);
    world.disk.set_faults(env_sim::Faults {
        sync_error_per_million: 1_000_000,
        ..env_sim::Faults::default()
    });
    std::thread::scope(|scope| {
        for thread in 0..6_u8 {
            let store = &store;
            scope.spawn(move || {
                let Ok(transaction) = store.begin() else { return };
                let put = transaction.table("t").insert([thread], "x");
                assert!(put.and_then(|()| transaction.commit(Durability::Group)).is_err());
            });
        }
    });
    assert!(matches!(store.begin(), Err(pages::Error::Poisoned { .. })));
}

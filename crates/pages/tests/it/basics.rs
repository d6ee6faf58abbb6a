//! One transaction after another.

use std::collections::BTreeMap;
use std::sync::Arc;

use env_sim::Faults;
use pages::{Durability, Error, FileError, LockWait, Options, PageStore};

use crate::harness::{World, small};

fn insert(store: &PageStore, table: &str, key: &str, value: &[u8]) {
    let transaction = store.begin().expect("healthy");
    transaction.table(table).insert(key, value).expect("free");
    transaction.commit(Durability::Immediate).expect("no faults");
}

#[test]
fn what_is_committed_is_there_and_what_is_aborted_is_not() {
    let world = World::new(1);
    let store = world.open(small());
    insert(&store, "t", "a", b"1");
    let transaction = store.begin().expect("healthy");
    transaction.table("t").insert("b", "2").expect("free");
    assert!(transaction.table("t").remove("a").expect("free"));
    assert_eq!(transaction.table("t").get("a").expect("own"), None);
    assert_eq!(transaction.table("t").get("b").expect("own").as_deref(), Some(&b"2"[..]));
    transaction.abort();
    let reader = store.begin_read().expect("healthy");
    let all: Vec<_> = reader.table("t").iter().map(|entry| entry.expect("free")).collect();
    assert_eq!(all, [(b"a".to_vec(), b"1".to_vec())]);
}

#[test]
fn a_large_tree_grows_shrinks_and_gives_its_pages_back() {
    let mut world = World::new(2);
    let store = world.open(small());
    let mut model = BTreeMap::new();
    for round in 0..400 {
        let transaction = store.begin().expect("healthy");
        let table = transaction.table("t");
        for _ in 0..20 {
            let key = format!("{:06}", world.below(3000)).into_bytes();
            let is_removed = world.below(3) == 0 || round > 300;
            if is_removed {
                let was_there = table.remove(&key).expect("free");
                assert_eq!(was_there, model.remove(&key).is_some());
            } else {
                let len = if world.below(50) == 0 { world.below(9_000) } else { world.below(300) };
                let value = vec![b'v'; len];
                table.insert(&key, &value).expect("free");
                model.insert(key, value);
            }
        }
        transaction.commit(Durability::Group).expect("no faults");
        if round % 50 == 0 {
            store.check().expect("sound");
        }
    }
    let stats = store.stats();
    assert!(stats.splits > 20 && stats.merges > 5, "{stats:?}");
    assert!(stats.evictions_flushing_less > 20 && stats.redos > 20, "{stats:?}");
    assert_eq!(stats.evictions_flushed, 0);
    assert!(stats.checkpoints > 3 && stats.page_writes > 20, "{stats:?}");
    let expected: Vec<_> = model.clone().into_iter().collect();
    let reader = store.begin_read().expect("healthy");
    let all: Vec<_> = reader.table("t").iter().map(|entry| entry.expect("free")).collect();
    assert!(all == expected);
    let mut back: Vec<_> = reader.table("t").iter().rev().map(|e| e.expect("free")).collect();
    back.reverse();
    assert!(back == expected);
    drop(reader);
    store.close().expect("no faults");
    let store = world.open(small());
    let reader = store.begin_read().expect("healthy");
    let all: Vec<_> = reader.table("t").iter().map(|entry| entry.expect("free")).collect();
    assert!(all == expected);
    drop(reader);
    let keys: Vec<_> = model.keys().collect();
    for some in keys.chunks(50) {
        let transaction = store.begin().expect("healthy");
        for key in some {
            assert!(transaction.table("t").remove(key).expect("free"));
        }
        transaction.commit(Durability::Immediate).expect("no faults");
    }
    let report = store.check().expect("sound");
    assert_eq!((report.keys, report.overflow_pages), (0, 0));
    // Page 0, the catalog, and the root of the table; everything else is free again.
    assert_eq!(report.tree_pages, 2);
    assert_eq!(report.free_pages, store.stats().pages - 3);
}

/// A checkpoint makes durable only what exists when it begins. Later commits are pending and must
/// stay out of the pages that it writes.
#[test]
fn a_checkpoint_leaves_out_what_is_committed_meanwhile() {
    let mut world = World::new(12);
    let options = Options {
        log_buffer_bytes: 64 << 20,
        checkpoint_step_pages: 1,
        min_del: 1,
        online_log_bytes: 128 << 10,
        ..small()
    };
    let store = world.open(options.clone());
    let mut model = BTreeMap::new();
    let mut commit = |world: &mut World, store: &PageStore| {
        let transaction = store.begin().expect("healthy");
        for _ in 0..3 {
            let key = format!("{:04}", world.below(400)).into_bytes();
            let value = vec![b'v'; world.below(300)];
            transaction.table("t").insert(&key, &value).expect("free");
            model.insert(key, value);
        }
        transaction.commit(Durability::None).expect("no faults");
    };
    for _ in 0..1500 {
        commit(&mut world, &store);
    }
    assert!(store.stats().checkpoints > 5, "{:?}", store.stats());
    store.check().expect("sound");
    store.flush().expect("no faults");
    drop(store);
    world.disk.crash();
    let store = world.open(options);
    let reader = store.begin_read().expect("healthy");
    let all: Vec<_> = reader.table("t").iter().map(|entry| entry.expect("free")).collect();
    assert!(all == model.into_iter().collect::<Vec<_>>());
}

#[test]
fn dirty_victims_are_written_if_that_is_wanted() {
    let mut world = World::new(3);
    let store = world.open(Options { flush_on_eviction: true, ..small() });
    for _ in 0..300 {
        let key = world.below(100_000).to_string();
        insert(&store, "t", &key, &[7; 500]);
    }
    let stats = store.stats();
    assert!(stats.evictions_flushed > 50, "{stats:?}");
    store.check().expect("sound");
}

#[test]
fn scans_are_protected_from_phantoms() {
    let world = World::new(4);
    let store = world.open(small());
    insert(&store, "t", "b", b"1");
    insert(&store, "t", "m", b"2");
    let scanner = store.begin_read().expect("healthy");
    assert_eq!(scanner.table("t").range("a".."h").count(), 1);
    let writer = store.begin().expect("healthy");
    assert!(matches!(writer.table("t").insert("c", "3"), Err(Error::Busy)));
    writer.table("t").insert("z", "4").expect("that gap was not scanned");
    drop(scanner);
    writer.table("t").insert("c", "3").expect("the scan has ended");
    let other = store.begin_read().expect("healthy");
    let table = other.table("t");
    assert!(matches!(table.range("a".."h").nth(1), Some(Err(Error::Busy))));
    writer.commit(Durability::Immediate).expect("no faults");
    assert_eq!(table.range("a".."h").filter(Result::is_ok).count(), 2);
}

#[test]
fn an_inserter_bars_scanners_also_after_its_gap_was_divided_or_united() {
    let world = World::new(9);
    let store = world.open(small());
    insert(&store, "t", "b", b"1");
    insert(&store, "t", "m", b"2");
    let one = store.begin().expect("healthy");
    one.table("t").insert("c", "3").expect("free");
    // Divides the gap before "m", in which "c" is about to appear.
    insert(&store, "t", "k", b"4");
    let scanner = store.begin_read().expect("healthy");
    let scan = scanner.table("t").range("b".."k").collect::<Result<Vec<_>, _>>();
    assert!(matches!(scan, Err(Error::Busy)));
    drop(scanner);
    let two = store.begin().expect("healthy");
    assert!(two.table("t").remove("k").expect("free"));
    two.commit(Durability::Immediate).expect("no faults");
    let scanner = store.begin_read().expect("healthy");
    let scan = scanner.table("t").range("b".."m").collect::<Result<Vec<_>, _>>();
    assert!(matches!(scan, Err(Error::Busy)));
    let back = scanner.table("t").range("b".."m").rev().collect::<Result<Vec<_>, _>>();
    assert!(matches!(back, Err(Error::Busy)));
    one.commit(Durability::Immediate).expect("no faults");
    assert_eq!(scanner.table("t").range("b".."m").count(), 2);
}

#[test]
fn a_scan_from_above_is_protected_from_phantoms() {
    let world = World::new(10);
    let store = world.open(small());
    insert(&store, "t", "b", b"1");
    insert(&store, "t", "m", b"2");
    let scanner = store.begin_read().expect("healthy");
    let last = scanner.table("t").last().expect("free").expect("there is one");
    assert_eq!(last.0, b"m");
    let writer = store.begin().expect("healthy");
    assert!(matches!(writer.table("t").insert("z", "3"), Err(Error::Busy)));
    assert!(matches!(writer.table("t").remove("m"), Err(Error::Busy)));
    drop((scanner, writer));
    let scanner = store.begin_read().expect("healthy");
    assert_eq!(scanner.table("t").range("c"..="m").rev().filter(Result::is_ok).count(), 1);
    let writer = store.begin().expect("healthy");
    assert!(matches!(writer.table("t").insert("d", "3"), Err(Error::Busy)));
}

#[test]
fn a_key_that_bounds_a_scanned_gap_is_not_removed() {
    let world = World::new(11);
    let store = world.open(small());
    for key in ["b", "k", "z"] {
        insert(&store, "t", key, b"1");
    }
    let scanner = store.begin_read().expect("healthy");
    assert_eq!(scanner.table("t").range("a".."h").count(), 1);
    // Without "k", nothing would block an insert below it.
    let writer = store.begin().expect("healthy");
    assert!(matches!(writer.table("t").remove("k"), Err(Error::Busy)));
    drop(scanner);
    assert!(writer.table("t").remove("k").expect("the scan has ended"));
}

#[test]
fn a_deadlock_is_refused_and_the_other_transaction_goes_on() {
    let world = World::new(5);
    let store = world.open(small());
    let (one, two) = (store.begin().expect("healthy"), store.begin().expect("healthy"));
    one.table("t").insert("a", "1").expect("free");
    two.table("t").insert("b", "2").expect("free");
    assert!(matches!(one.table("t").get("b"), Err(Error::Busy)));
    assert!(matches!(two.table("t").get("a"), Err(Error::Deadlock)));
    assert!(matches!(two.table("t").get("a"), Err(Error::TransactionFailed)));
    // A caller that collects errors reaches the end too.
    assert_eq!(two.table("t").iter().count(), 1);
    assert_eq!(one.table("t").get("b").expect("released"), None);
    one.commit(Durability::Immediate).expect("no faults");
    assert!(matches!(two.commit(Durability::Immediate), Err(Error::TransactionFailed)));
    assert_eq!(store.stats().deadlocks, 1);
}

#[test]
fn threads_that_move_money_neither_make_nor_lose_any() {
    let world = World::new(6);
    let store = world.open(Options { lock_wait: LockWait::Block, ..small() });
    for account in 0..20_u8 {
        insert(&store, "accounts", &account.to_string(), &100_u64.to_be_bytes());
    }
    let amount = |bytes: Option<Vec<u8>>| {
        u64::from_be_bytes(bytes.expect("an account").try_into().expect("eight bytes"))
    };
    let threads: Vec<_> = (0..4_u64)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || {
                let mut rng = env_sim::SimEntropy::new(thread);
                let mut moved = 0;
                while moved < 100 {
                    let (from, to) = (rng.below(20).to_string(), rng.below(20).to_string());
                    let transaction = store.begin().expect("healthy");
                    let table = transaction.table("accounts");
                    let step = || {
                        let have = amount(table.get(&from)?);
                        table.insert(&from, have.saturating_sub(1).to_be_bytes())?;
                        let have_too = amount(table.get(&to)?);
                        table.insert(&to, (have_too + have.min(1)).to_be_bytes())
                    };
                    match step() {
                        Ok(()) => {
                            transaction.commit(Durability::Immediate).expect("no faults");
                            moved += 1;
                        }
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let reader = store.begin_read().expect("healthy");
    let sum: u64 = reader.table("accounts").iter().map(|e| amount(e.ok().map(|e| e.1))).sum();
    assert_eq!(sum, 2000);
    drop(reader);
    store.check().expect("sound");
}

#[test]
fn a_failed_sync_poisons_the_store_until_it_is_opened_again() {
    let world = World::new(7);
    let store = world.open(small());
    insert(&store, "t", "a", b"1");
    world.disk.set_faults(env_sim::Faults {
        sync_error_per_million: 1_000_000,
        ..env_sim::Faults::default()
    });
    let transaction = store.begin().expect("healthy");
    transaction.table("t").insert("b", "2").expect("free");
    assert!(transaction.commit(Durability::Immediate).is_err());
    world.disk.set_faults(env_sim::Faults::default());
    assert!(matches!(store.begin(), Err(Error::Poisoned { .. })));
    drop(store);
    let store = world.open(small());
    let reader = store.begin_read().expect("healthy");
    assert_eq!(reader.table("t").get("a").expect("free").as_deref(), Some(&b"1"[..]));
}

#[test]
fn limits_are_errors() {
    let world = World::new(8);
    let store = world.open(small());
    let transaction = store.begin().expect("healthy");
    let table = transaction.table("t");
    assert!(matches!(table.insert([0; 1025], ""), Err(Error::KeyTooLong { .. })));
    assert!(matches!(table.insert("k", [0; 20_000]), Err(Error::TransactionTooLarge { .. })));
    table.insert([0; 1024], [1; 10_000]).expect("it fits");
    transaction.commit(Durability::Immediate).expect("no faults");
    let Err(second) = PageStore::open(&world.env(), small()) else { panic!("two at a time") };
    assert!(matches!(second, Error::File(FileError::InUse { .. })));
    let said = second.to_string();
    assert!(said.ends_with("pages.lock is locked: another process has this store open"), "{said}");
}

#[test]
fn it_works_on_a_real_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let env =
        pages::Env { disk: Arc::new(env_os::OsDisk), clock: Arc::new(env_os::OsClock::new()) };
    let store = PageStore::open(&env, Options::new(dir.path())).expect("a new store");
    for i in 0..50_u32 {
        insert(&store, "t", &i.to_string(), &[b'x'; 3000]);
    }
    drop(store);
    let store = PageStore::open(&env, Options::new(dir.path())).expect("recovered");
    assert_eq!(store.check().expect("sound").keys, 50);
}

#[test]
fn tables_are_listed_and_about_counted() {
    let world = World::new(13);
    let store = world.open(small());
    let reader = store.begin_read().expect("healthy");
    assert!(reader.table("big").is_empty().expect("free"));
    assert_eq!(reader.table("big").len_estimate().expect("free"), 0);
    drop(reader);
    for i in 0..2000_u32 {
        insert(&store, "big", &format!("{:08}", i * 7919 % 100_000), &[1; 100]);
    }
    (0..30_u8).for_each(|i| insert(&store, "small", &i.to_string(), b""));
    assert_eq!(store.list_tables().expect("sound"), [b"big".to_vec(), b"small".to_vec()]);
    let reader = store.begin_read().expect("healthy");
    assert!(!reader.table("big").is_empty().expect("free"));
    assert_eq!(reader.table("small").len_estimate().expect("free"), 30);
    let estimate = reader.table("big").len_estimate().expect("free");
    assert!((1000..4000).contains(&estimate), "{estimate}");
}

#[test]
fn a_deleted_table_gives_all_of_its_pages_back() {
    let world = World::new(14);
    let store = world.open(small());
    for i in 0..300_u32 {
        let len = if i.is_multiple_of(40) { 15_000 } else { 300 };
        insert(&store, "big", &format!("{i:08}"), &vec![1; len]);
    }
    insert(&store, "other", "k", b"v");
    let reader = store.begin_read().expect("healthy");
    assert!(reader.table("big").first().expect("free").is_some());
    let transaction = store.begin().expect("healthy");
    assert!(matches!(transaction.delete_table("big"), Err(Error::Busy)));
    drop(reader);
    assert!(transaction.delete_table("big").expect("no transaction uses it"));
    assert!(!transaction.delete_table("big").expect("its own"));
    assert!(transaction.table("big").is_empty().expect("its own"));
    transaction.table("big").insert("new", "1").expect("its own");
    let other = store.begin_read().expect("healthy");
    assert!(matches!(other.table("big").get("new"), Err(Error::Busy)));
    transaction.commit(Durability::Immediate).expect("no faults");
    assert_eq!(other.table("big").iter().count(), 1);
    drop(other);
    assert_eq!(store.list_tables().expect("sound"), [b"big".to_vec(), b"other".to_vec()]);
    let before = store.check().expect("sound");
    assert!(before.tree_pages > 5, "{before:?}: not all at once");
    drop(store);
    world.disk.crash();
    world.disk.restart();
    let store = world.open(small());
    for i in 0..40_u8 {
        insert(&store, "other", &i.to_string(), b"v");
        store.check().expect("sound");
    }
    let report = store.check().expect("sound");
    assert_eq!((report.tables, report.keys, report.tree_pages), (2, 42, 3));
    assert_eq!(report.overflow_pages, 0);
}

#[test]
fn a_deletion_of_a_table_can_be_taken_back() {
    let world = World::new(15);
    let store = world.open(small());
    insert(&store, "t", "a", b"1");
    let transaction = store.begin().expect("healthy");
    transaction.table("t").insert("b", "2").expect("free");
    assert!(transaction.delete_table("t").expect("free"));
    transaction.abort();
    let reader = store.begin_read().expect("healthy");
    assert_eq!(reader.table("t").iter().count(), 1);
    let transaction = store.begin().expect("healthy");
    let long = [b'x'; 256];
    assert!(matches!(transaction.table(long).get("a"), Err(Error::NameTooLong { .. })));
    assert!(matches!(transaction.delete_table(long), Err(Error::NameTooLong { .. })));
}

/// The bytes of log that a restart reads, at most.
fn log_bytes(world: &World) -> u64 {
    let dir = std::path::Path::new(crate::harness::DIR);
    let names = env::Disk::list(&world.disk, dir).expect("no faults");
    let logs = names.iter().filter(|name| name.to_string_lossy().ends_with(".log"));
    logs.map(|_| small().log_segment_bytes).sum()
}

#[test]
fn the_log_that_a_restart_reads_is_bounded_even_if_the_table_has_room() {
    let world = World::new(7);
    let log_bytes_max = 256 << 10;
    let options =
        Options { log_bytes_max, online_log_bytes: 64 << 20, min_del: usize::MAX, ..small() };
    let store = world.open(options);
    let mut longest = 0;
    for i in 0..3000_u32 {
        insert(&store, "t", &format!("{:04}", i * 7 % 1000), &[1; 300]);
        longest = longest.max(log_bytes(&world));
    }
    assert!(store.stats().log_page_writes * 2048 > 10 * log_bytes_max, "{:?}", store.stats());
    // Segments freed by the last checkpoint wait to be reused.
    assert!(longest < 2 * log_bytes_max, "{longest}");
    assert!(longest > log_bytes_max / 2, "{longest}");
    world.disk.kill();
    drop(store);
    let store = world.open(small());
    store.check().expect("nothing is damaged");
}

#[test]
fn what_two_threads_replay_is_what_one_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let options =
        Options { upkeep: pages::Upkeep::Background, ..Options::with_memory("", 64 << 20) };
    let store = PageStore::open_path(dir.path(), options.clone()).expect("made");
    for round in 0..60_u32 {
        let transaction = store.begin().expect("healthy");
        let table = transaction.table("t");
        for i in 0..500_u32 {
            let value = [u8::try_from(round).expect("small"); 90];
            table.insert((i * 7919 % 5003 * (1 + round % 3)).to_be_bytes(), value).expect("free");
        }
        transaction.commit(Durability::None).expect("room");
    }
    store.flush().expect("no faults");
    let all = |store: &PageStore| {
        let reader = store.begin_read().expect("healthy");
        reader.table("t").iter().collect::<Result<Vec<_>, _>>().expect("whole")
    };
    let written = all(&store);
    assert!(store.stats().page_writes == 0 && store.stats().log_page_writes > 1000);
    drop(store);
    for upkeep in [pages::Upkeep::Background, pages::Upkeep::Inline] {
        let options = Options { upkeep, ..options.clone() };
        let store = PageStore::open_path(dir.path(), options).expect("replayed");
        assert!(store.stats().online_log_bytes > 1 << 20, "{:?}", store.stats());
        assert!(all(&store) == written, "{upkeep:?}");
        store.check().expect("nothing is damaged");
    }
}

#[test]
fn a_commit_that_fails_leaves_nothing_behind_that_leads_to_a_wrong_leaf() {
    let world = World::new(8);
    // Room for everything, so that a commit does no other work.
    let options = Options {
        lock_wait: LockWait::Refuse,
        upkeep: pages::Upkeep::Inline,
        ..Options::with_memory(crate::harness::DIR, 8 << 20)
    };
    let store = world.open(options.clone());
    let key = |i: u32| format!("{i:02}");
    for i in 0..24 {
        insert(&store, "t", &key(i), &[b'v'; 900]);
    }
    insert(&store, "large", "key", &[b'v'; 10_000]);
    store.checkpoint_all().expect("no faults");
    store.close().expect("no faults");
    let store = world.open(options);
    let look = || {
        let reader = store.begin_read().expect("healthy");
        for i in 0..24 {
            assert!(reader.table("t").get(key(i)).expect("free").is_some(), "{i}");
        }
    };
    // Everything is in frames but the large value.
    look();
    let merges = store.stats().merges;
    // Another transaction holds a lock, so that gaps are passed on and the ends of leaves are
    // needed.
    let other = store.begin().expect("healthy");
    other.table("other").get("key").expect("free");

    // A leaf is merged into the one before it, which then ends the tree. Then a page read fails.
    let transaction = store.begin().expect("healthy");
    for i in 8..24 {
        assert!(transaction.table("t").remove(key(i)).expect("free"));
    }
    assert!(transaction.table("large").remove("key").expect("free"));
    let error_at_read = Some(world.disk.read_count() + 1);
    world.disk.set_faults(Faults { error_at_read, ..Faults::default() });
    let error = transaction.commit(Durability::Immediate).unwrap_err();
    assert!(matches!(error, Error::File(FileError::Io { .. })), "{error}");
    assert!(store.stats().merges > merges, "it failed behind the merge");

    // The leaf is as long as before, and keys above it are in another.
    look();
    drop(other);
    store.check().expect("sound");
}

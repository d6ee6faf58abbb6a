//! Reading a log while it is written, compacted and moved: right or an error, and nothing that a
//! crash could take back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, RecordAddr, SegmentId};
use env::Disk;
use env_sim::{Faults, SimDisk, SimEntropy};
use redo::{Blocks, Error, FoundRecord, HistoryOptions, Reader, SyncPolicy};

use crate::harness::{self, Counter, Database, index, key, options};

/// What was written where: the block, the key, and the value unless the record says "deleted".
type Written = HashMap<RecordAddr, (Lsn, Vec<u8>, Option<Vec<u8>>)>;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

struct World {
    database: Database,
    written: Written,
    rng: SimEntropy,
    keys: u64,
}

impl World {
    fn new(seed: u64, devices: usize) -> Self {
        Self::with_history(seed, devices, HistoryOptions::OFF)
    }

    fn with_history(seed: u64, devices: usize, history: HistoryOptions) -> Self {
        let mut options = options(Path::new("/data"));
        options.devices = (0..devices).map(|n| PathBuf::from(format!("/disk{n}"))).collect();
        // Small segments end often; of large ones little is left, which is gathered in one file.
        options.segment_bytes = if seed.is_multiple_of(2) { 3000 } else { 20_000 };
        options.policy = SyncPolicy::No;
        options.history = history;
        options.compaction.invalid_count_min = 2;
        options.compaction.invalid_share_min = if seed.is_multiple_of(2) { 0.2 } else { 0.6 };
        options.compaction.garbage_share_min = 0.0;
        options.compaction.gathered_min = 3;
        let disk = SimDisk::new(seed, Faults::default());
        let database = Database::open_on(Arc::new(disk), options).unwrap();
        Self { database, written: HashMap::new(), rng: SimEntropy::new(seed), keys: 60 }
    }

    fn write(&mut self) {
        for _ in 0..=self.rng.below(6) {
            let name = key(index(self.rng.below(self.keys)));
            let lsn = self.database.log.open_lsn();
            if self.rng.below(5) == 0 && self.database.keyspace.entries.contains_key(&name) {
                self.database.delete(&name);
                continue;
            }
            let value = vec![b'a' + (lsn.0 % 26) as u8; index(self.rng.below(90))];
            self.database.set(&name, &value);
            let addr = self.database.keyspace.entries[&name].1;
            self.written.insert(addr, (lsn, name, Some(value)));
        }
        self.database.log.seal();
    }

    /// Something goes on.
    fn step(&mut self) {
        let database = &mut self.database;
        match self.rng.below(10) {
            0..3 => self.write(),
            3..6 => {
                let which = index(self.rng.below(database.flushers.len() as u64));
                database.flushers[which].step();
            }
            6..8 => _ = database.compactor.step(),
            8 => {
                database.clock.advance_us(200_000);
                database.log.tick();
            }
            _ => {
                let sealed = Lsn(database.log.open_lsn().0 - 1);
                database.log.request_sync(sealed);
                if self.rng.below(4) == 0 {
                    database.log.compact_all();
                }
            }
        }
        self.database.log.poll();
    }

    fn check_record(&mut self, reader: &mut Reader) {
        let entries = &self.database.keyspace.entries;
        if entries.is_empty() {
            return;
        }
        let mut names: Vec<_> = entries.keys().cloned().collect();
        names.sort();
        let check = |name: &[u8], found: Option<FoundRecord>| {
            let (value, addr) = &entries[name];
            let (lsn, ..) = self.written[addr];
            let is_durable = lsn <= self.database.log.durable_lsn();
            assert_eq!(found.is_some(), is_durable, "{addr:?} of block {lsn}");
            if let Some(found) = found {
                let record = found.record();
                assert_eq!((record.key, record.value), (name, &value[..]));
            }
        };
        let name = &names[index(self.rng.below(names.len() as u64))];
        check(name, reader.record(entries[name].1).unwrap());
        // Several at a time, some of them in the same group.
        let share = 1 + self.rng.below(6);
        names.retain(|_| self.rng.below(share) == 0);
        let addrs: Vec<_> = names.iter().map(|name| entries[name].1).collect();
        let mut told = vec![false; addrs.len()];
        reader.records(&addrs, &mut |which, found| {
            assert!(!std::mem::replace(&mut told[which], true), "it is told of once");
            check(&names[which], found.unwrap());
        });
        assert!(told.iter().all(|told| *told));
    }

    /// Takes a block, compares it with what was written. Whether there was one; `None` when deletions
    /// were compacted away.
    fn check_block(
        &self,
        blocks: &mut Blocks,
        last: &mut Lsn,
        seen: &mut Vec<RecordAddr>,
    ) -> Option<bool> {
        let block = match blocks.next() {
            Err(Error::DeletesDropped { .. }) => return None,
            block => block.unwrap(),
        };
        let Some(block) = block else { return Some(false) };
        assert!(block.lsn() > *last, "block {} after block {last}", block.lsn());
        *last = block.lsn();
        assert!(*last <= self.database.log.durable_lsn());
        for record in block.records() {
            let (addr, record) = record.unwrap();
            if record.kind.is_delete() {
                continue;
            }
            let (lsn, name, value) = &self.written[&addr];
            assert_eq!((*lsn, &name[..]), (block.lsn(), record.key));
            assert_eq!(value.as_deref(), Some(record.value));
            seen.push(addr);
        }
        Some(true)
    }

    /// Makes everything durable.
    fn sync(&mut self) {
        self.database.log.seal();
        let sealed = Lsn(self.database.log.open_lsn().0 - 1);
        self.database.log.request_sync(sealed);
        self.database.flush();
        assert_eq!(self.database.log.durable_lsn(), sealed);
    }
}

#[test]
fn what_is_read_meanwhile_is_what_was_written() {
    let (mut compactions, mut gathered, mut refused) = (0, 0, 0);
    for seed in 0..40 {
        let mut world = World::new(seed, 1 + index(seed % 3));
        let mut reader = world.database.log.reader();
        for _ in 0..6 {
            for _ in 0..60 {
                world.step();
                world.check_record(&mut reader);
            }
            let from = Lsn(1 + world.rng.below(world.database.log.durable_lsn().0 + 2));
            let mut blocks = reader.blocks(from);
            let (mut last, mut seen) = (Lsn(from.0 - 1), Vec::new());
            let ended = loop {
                match world.check_block(&mut blocks, &mut last, &mut seen) {
                    Some(true) => (0..world.rng.below(6)).for_each(|_| world.step()),
                    ended => break ended,
                }
            };
            if ended.is_none() {
                refused += 1;
                continue;
            }
            let stats = world.database.log.stats();
            gathered += u64::from(stats.files < stats.segments);
            // What is needed to the end was needed all the time.
            for (_, addr) in world.database.keyspace.entries.values() {
                let (lsn, ..) = world.written[addr];
                let is_due = lsn >= from && lsn <= blocks.end();
                assert_eq!(seen.contains(addr), is_due, "seed {seed}: {addr:?} of block {lsn}");
            }
        }
        compactions += world.database.log.stats().compactions;
    }
    assert!(compactions > 200 && gathered > 0, "{compactions} compactions, {gathered} gathered");
    assert!(refused < 200, "{refused} of 240 are refused");
}

#[test]
fn whole_blocks_have_every_record_that_was_written_or_are_gone() {
    let (mut whole, mut gone, mut gone_midway) = (0, 0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed, 1 + index(seed % 3));
        let reader = world.database.log.reader();
        for _ in 0..6 {
            (0..60).for_each(|_| world.step());
            // Near the end, where there are such blocks.
            let durable = world.database.log.durable_lsn().0;
            let from = Lsn(1 + durable.saturating_sub(world.rng.below(40)));
            let mut blocks = reader.whole_blocks(from);
            let mut next = from;
            loop {
                let block = match blocks.next() {
                    Err(Error::BlocksGone { from, whole_from }) => {
                        assert!(from == next && whole_from > next, "{from} {whole_from} {next}");
                        let extent = reader.extent().unwrap();
                        assert!(
                            extent.horizon.next() >= whole_from
                                && extent.told_from >= extent.horizon
                        );
                        gone += 1;
                        gone_midway += usize::from(next > blocks.end().min(Lsn(durable)));
                        break;
                    }
                    block => block.unwrap(),
                };
                let Some(block) = block else {
                    assert_eq!(next, blocks.end().next().max(from), "seed {seed}");
                    break;
                };
                assert_eq!(block.lsn(), next, "seed {seed}: each one comes");
                assert!(next <= world.database.log.durable_lsn());
                let found: BTreeSet<RecordAddr> = block
                    .records()
                    .map(Result::unwrap)
                    .filter(|(_, record)| !record.kind.is_delete())
                    .map(|(addr, _)| addr)
                    .collect();
                let written = world.written.iter().filter(|(_, (lsn, ..))| *lsn == next);
                assert_eq!(found, written.map(|(addr, _)| *addr).collect(), "seed {seed}: {next}");
                next = next.next();
                whole += 1;
                (0..world.rng.below(8)).for_each(|_| world.step());
            }
        }
    }
    let counts = (whole, gone, gone_midway);
    assert!(whole > 300 && gone > 20, "{counts:?}");
}

#[test]
fn with_history_no_block_is_gone_and_no_state_forgotten() {
    let (mut whole, mut compactions) = (0, 0);
    for seed in 0..40 {
        let mut world = World::with_history(seed, 1 + index(seed % 3), HistoryOptions::ALL);
        let reader = world.database.log.reader();
        let mut moments: Vec<(Lsn, Entries)> = Vec::new();
        for _ in 0..6 {
            (0..60).for_each(|_| world.step());
            world.sync();
            let durable = world.database.log.durable_lsn();
            moments.push((durable, world.database.keyspace.contents()));
            let mut next = Lsn(1 + world.rng.below(durable.0));
            let mut blocks = reader.whole_blocks(next);
            while let Some(block) = blocks.next().unwrap() {
                assert_eq!(block.lsn(), next, "seed {seed}: each one comes");
                let records = block.records().map(Result::unwrap);
                let set = records.filter(|(_, record)| !record.kind.is_delete());
                let found: BTreeSet<RecordAddr> = set.map(|(addr, _)| addr).collect();
                let written = world.written.iter().filter(|(_, (lsn, ..))| *lsn == next);
                assert_eq!(found, written.map(|(addr, _)| *addr).collect(), "seed {seed}: {next}");
                next = next.next();
                whole += 1;
                (0..world.rng.below(4)).for_each(|_| world.step());
            }
            assert!(next > durable, "seed {seed}");
            let (lsn, expected) = &moments[index(world.rng.below(moments.len() as u64))];
            let (mut found, mut blocks) = (Entries::new(), reader.blocks_of_state(*lsn));
            while let Some(block) = blocks.next().unwrap() {
                assert!(block.lsn() <= *lsn);
                harness::follow(&mut found, &block);
                (0..world.rng.below(4)).for_each(|_| world.step());
            }
            assert_eq!(found, *expected, "seed {seed}: the state after {lsn}");
        }
        compactions += world.database.log.stats().compactions;
        // At rest, after a compaction: the last block of a file is the last one that there is, and then the only one of it.
        for count in [8, 1, 1, 1, 1] {
            (0..count).for_each(|_| world.write());
            world.sync();
            world.database.log.compact_all();
            world.database.settle();
            let durable = world.database.log.durable_lsn();
            for from in (1.max(durable.0.saturating_sub(60))..=durable.0).map(Lsn) {
                let block = reader.whole_blocks(from).next().unwrap().expect("it is durable");
                assert_eq!(block.lsn(), from, "seed {seed}");
            }
        }
        let extent = reader.extent().unwrap();
        assert_eq!((extent.horizon, extent.told_from), (Lsn::ZERO, Lsn::ZERO));
    }
    assert!(whole > 3000 && compactions > 200, "{whole} blocks, {compactions} compactions");
}

/// Goes on from `state`, which is what there was before `from`, while the log goes on, and then to its
/// end. What there is then; `None` when deletions were compacted away.
fn follow(world: &mut World, mut state: Entries, from: Lsn) -> Option<Entries> {
    let mut blocks = world.database.log.reader().blocks(from);
    let mut is_over = false;
    loop {
        let block = match blocks.next() {
            Err(Error::DeletesDropped { .. }) => return None,
            block => block.unwrap(),
        };
        let Some(block) = block else {
            if is_over {
                return Some(state);
            }
            // What was superseded after this end may be missing: what has superseded it comes.
            world.sync();
            (blocks, is_over) = (world.database.log.reader().blocks(blocks.end().next()), true);
            continue;
        };
        harness::follow(&mut state, &block);
        if !is_over {
            (0..world.rng.below(8)).for_each(|_| world.step());
        }
    }
}

#[test]
fn a_follower_keeps_nothing_that_was_deleted_or_is_refused() {
    let (mut from_first, mut from_later, mut refused) = (0, 0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed, 1 + index(seed % 3));
        for _ in 0..8 {
            world.sync();
            let (state, from) = (world.database.keyspace.contents(), world.database.log.open_lsn());
            (0..80).for_each(|_| world.step());
            world.sync();
            let (state, from) = match world.rng.below(3) {
                0 => (Entries::new(), Lsn(1)),
                _ => (state, from),
            };
            match follow(&mut world, state, from) {
                Some(found) => {
                    let expected = world.database.keyspace.contents();
                    let is_same = found == expected;
                    assert!(is_same, "seed {seed}: from {from}");
                    *(if from == Lsn(1) { &mut from_first } else { &mut from_later }) += 1;
                }
                None => refused += 1,
            }
        }
    }
    let counts = (from_first, from_later, refused);
    assert!(from_first > 20 && from_later > 20 && refused > 20, "{counts:?}");
}

#[test]
fn a_reader_says_from_where_on_deletions_are_missing() {
    let disk = SimDisk::new(6, Faults::default());
    let open = || Database::open_on(Arc::new(disk.clone()), options(Path::new("/data"))).unwrap();
    let mut database = open();
    (0..60).for_each(|number| database.set(&key(number), &[7; 100]));
    database.flush();
    let from = database.log.open_lsn();
    database.delete(&key(3));
    database.flush();
    let is_delete_next = |blocks: &mut Blocks| {
        let block = blocks.next().unwrap().expect("it is there");
        block.records().any(|record| record.unwrap().1.kind.is_delete())
    };
    assert!(is_delete_next(&mut database.log.reader().blocks(from)));
    // First the entry goes, and then, behind it, what has deleted it.
    for number in 10..50 {
        database.set(&key(number), &[8; 300]);
        database.flush();
    }
    for _ in 0..3 {
        database.log.compact_all();
        database.settle();
    }
    for is_restarted in [false, true] {
        if is_restarted {
            database.close();
            database = open();
        }
        let reader = database.log.reader();
        let error = reader.blocks(from).next().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(&format!("the blocks from {from} on")), "{error}");
        let Error::DeletesDropped { last, .. } = error else { panic!("{error}") };
        assert!(last == from || (is_restarted && last > from), "{last}");
        assert!(reader.blocks(last.next()).next().unwrap().is_some());
        assert!(reader.blocks(Lsn(1)).next().unwrap().is_some());
    }
}

#[test]
fn a_reader_follows_segments_to_other_devices() {
    let mut world = World::new(7, 2);
    let mut reader = world.database.log.reader();
    (0..100).for_each(|_| world.write());
    world.database.settle();
    (0..50).for_each(|_| world.check_record(&mut reader));
    let mut entropy = Counter(9);
    let added = world.database.log.set_devices(&[PathBuf::from("/disk1")], &mut entropy).unwrap();
    world.database.flushers.extend(added);
    for _ in 0..300 {
        world.database.clock.advance_us(100_000);
        world.database.log.tick();
        world.database.compactor.step();
        world.database.flushers.iter_mut().for_each(|flusher| _ = flusher.step());
        world.database.log.poll();
        world.check_record(&mut reader);
    }
    assert_eq!(world.database.log.stats().devices.len(), 1, "the drain has come to its end");
}

#[test]
fn records_of_a_group_are_read_at_once() {
    let disk = SimDisk::new(5, Faults::default());
    let mut options = options(Path::new("/data"));
    options.segment_bytes = 20_000;
    let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    for number in 0..600 {
        database.set(&key(number), &[7; 100]);
        if number % 50 == 49 {
            database.flush();
        }
    }
    database.settle();
    let entries = &database.keyspace.entries;
    let mut addrs: Vec<_> = entries.values().map(|(_, addr)| *addr).collect();
    addrs.sort_unstable();
    let mut reader = database.log.reader();
    // Those of the segment that is still written are in no group. The others' groups are known from then on.
    let others: BTreeSet<_> =
        reader.records_of_groups(&addrs, &mut |_, _| {}).into_iter().map(|at| addrs[at]).collect();
    addrs.retain(|addr| !others.contains(addr));
    assert!(addrs.len() >= 300, "{} of sealed segments", addrs.len());
    let (mut found, before) = (0, disk.read_count());
    assert!(reader.records_of_groups(&addrs, &mut |_, _| found += 1).is_empty());
    let reads = disk.read_count() - before;
    assert!(
        found == addrs.len() && reads * 3 < 2 * found as u64,
        "{found} records in {reads} reads"
    );
}

#[test]
fn a_turned_bit_is_an_error_and_no_answer() {
    let disk = SimDisk::new(3, Faults::default());
    let mut database =
        Database::open_on(Arc::new(disk.clone()), options(Path::new("/data"))).unwrap();
    (0..40).for_each(|number| database.set(&key(number), &[7; 50]));
    database.flush();
    let (_, addr) = database.keyspace.entries[&key(20)];
    let mut reader = database.log.reader();
    assert!(reader.record(addr).unwrap().is_some());
    let path = Path::new("/data/redo/0000000001.redo");
    let len = disk.open(path, env::Access::Read).unwrap().len().unwrap();
    assert!(disk.flip_bit(path, len.min(1500), 2));
    assert!(reader.record(addr).is_err());
    assert!(reader.blocks(Lsn(1)).next().is_err());
    assert!(disk.flip_bit(path, len.min(1500), 2));
    assert!(reader.record(addr).unwrap().is_some());
}

#[test]
fn what_is_not_there_is_none() {
    let disk = SimDisk::new(4, Faults::default());
    let mut database = Database::open_on(Arc::new(disk), options(Path::new("/data"))).unwrap();
    let mut reader = database.log.reader();
    assert!(reader.blocks(Lsn(1)).next().unwrap().is_none());
    database.set(b"a", b"1");
    let (_, addr) = database.keyspace.entries[&b"a"[..]];
    assert!(reader.record(addr).unwrap().is_none(), "it is in the open block");
    database.log.seal();
    assert!(reader.record(addr).unwrap().is_none(), "it is on its way");
    database.flush();
    assert!(reader.record(addr).unwrap().is_some());
    for addr in [RecordAddr::new(SegmentId(9), 0), RecordAddr::new(addr.segment(), 5)] {
        assert!(reader.record(addr).unwrap().is_none());
    }
}

/// Only the footer says which ordinals the records of a compacted segment have.
#[test]
fn a_compacted_segment_without_its_footer_is_an_error() {
    let disk = SimDisk::new(5, Faults::default());
    let mut database =
        Database::open_on(Arc::new(disk.clone()), options(Path::new("/data"))).unwrap();
    (0..40).for_each(|number| database.set(&key(number), &[b'a'; 50]));
    database.flush();
    (1..30).for_each(|number| database.set(&key(number), &[7; 50]));
    database.log.seal();
    database.log.compact_all();
    database.settle();
    let addrs = [0, 35].map(|number| database.keyspace.entries[&key(number)].1);
    let mut reader = database.log.reader();
    assert!(addrs.iter().all(|addr| reader.record(*addr).unwrap().is_some()));
    let path = Path::new("/data/redo/0000000001.redo");
    let len = disk.open(path, env::Access::Read).unwrap().len().unwrap();
    assert!(disk.flip_bit(path, len - 30, 1));
    let mut reader = database.log.reader();
    for addr in addrs {
        assert!(reader.record(addr).is_err(), "{addr:?}");
    }
    assert!(reader.blocks(Lsn(1)).next().is_err());
}

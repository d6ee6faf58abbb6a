//! Whatever is replaced at whichever call of a reader: what it says is right.
//!
//! A disk that at its n-th call lets compactions run to their end before it goes on with the call.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base::{Lsn, RecordAddr};
use env::{Access, Disk, File, Lock, ReadTogether};
use env_sim::{Faults, SimDisk};
use redo::{Error, FoundRecord, Mark, MarkReader, Step};

use crate::harness::{Counter, Database, follow, key, options};

/// What happens at which call from now on.
type Event = Option<(u64, Box<dyn FnOnce() + Send>)>;

/// What happens before a file is removed.
type OnRemove = Option<Box<dyn FnMut(&Path) + Send>>;

#[derive(Clone)]
pub(crate) struct Busy {
    pub(crate) disk: SimDisk,
    event: Arc<Mutex<Event>>,
    on_remove: Arc<Mutex<OnRemove>>,
    on_rename: Arc<Mutex<OnRemove>>,
    /// The next directory cannot be made durable.
    fails_directory: Arc<AtomicBool>,
}

impl Busy {
    pub(crate) fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed, Faults::default());
        Self {
            disk,
            event: Arc::default(),
            on_remove: Arc::default(),
            on_rename: Arc::default(),
            fails_directory: Arc::default(),
        }
    }

    /// Lets `event` happen before each file is removed, but for those that it removes itself.
    pub(crate) fn before_removals(&self, event: impl FnMut(&Path) + Send + 'static) {
        *self.on_remove.lock().unwrap() = Some(Box::new(event));
    }

    /// Lets `event` happen before each file gets the name that it is told.
    pub(crate) fn before_renames(&self, event: impl FnMut(&Path) + Send + 'static) {
        *self.on_rename.lock().unwrap() = Some(Box::new(event));
    }

    /// Lets `event` happen right before the call after `calls` others.
    fn after(&self, calls: u64, event: impl FnOnce() + Send + 'static) {
        *self.event.lock().unwrap() = Some((calls, Box::new(event)));
    }

    /// Whether it has not happened.
    fn is_waiting(&self) -> bool {
        self.event.lock().unwrap().is_some()
    }

    fn call(&self) {
        let taken = self.event.lock().unwrap().take();
        match taken {
            Some((0, event)) => event(),
            Some((left, event)) => *self.event.lock().unwrap() = Some((left - 1, event)),
            None => {}
        }
    }

    fn wrap(&self, file: io::Result<Box<dyn File>>) -> io::Result<Box<dyn File>> {
        Ok(Box::new(BusyFile { file: file?, disk: self.clone() }))
    }
}

struct BusyFile {
    file: Box<dyn File>,
    disk: Busy,
}

impl File for BusyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.call();
        self.file.read_at(buf, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.disk.call();
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }
    fn has_name(&self) -> io::Result<bool> {
        self.file.has_name()
    }
}

impl Disk for Busy {
    fn read_together(&self) -> Option<Box<dyn ReadTogether>> {
        self.disk.read_together()
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.call();
        self.disk.list(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.wrap(self.disk.create(path))
    }
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        self.call();
        self.wrap(self.disk.open(path, access))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        // Held meanwhile: other threads rename, too.
        if let Some(event) = &mut *self.on_rename.lock().unwrap() {
            event(to);
        }
        self.disk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call();
        Disk::link(&self.disk, from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let taken = self.on_remove.lock().unwrap().take();
        if let Some(mut event) = taken {
            event(path);
            *self.on_remove.lock().unwrap() = Some(event);
        }
        self.disk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.fails_directory.swap(false, Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.disk.sync_dir(dir)
    }
    fn has_other_names(&self, path: &Path) -> io::Result<bool> {
        self.disk.has_other_names(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.available_bytes(dir)
    }
}

type Found = BTreeMap<RecordAddr, (Vec<u8>, Vec<u8>)>;

/// Where everything is that is needed.
fn found(database: &Database) -> Found {
    let entries = database.keyspace.entries.iter();
    entries.map(|(key, (value, addr))| (*addr, (key.clone(), value.clone()))).collect()
}

/// What compactions do for a while, to their end.
fn run(database: Database) {
    let Database { mut log, mut flushers, mut compactor, clock, .. } = database;
    for _ in 0..400 {
        clock.advance_us(200_000);
        log.poll();
        log.tick();
        flushers.iter_mut().for_each(|flusher| _ = flusher.step());
        while compactor.step() == Step::Worked {}
    }
    assert!(log.stats().compactions > 0, "{:?}", log.stats());
    // It goes on, so that its threads' end changes nothing.
    std::mem::forget((log, flushers, compactor));
}

fn busy_options() -> redo::Options {
    let mut options = options(Path::new("/data"));
    options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
    options.segment_bytes = 3000;
    options.compaction.invalid_count_min = 2;
    options.compaction.gathered_min = 2;
    options
}

/// A log of two devices, half of it garbage, small files among it that are about to be gathered.
fn busy_log(disk: &Busy) -> Database {
    busy_log_of(disk, busy_options())
}

fn busy_log_of(disk: &Busy, options: redo::Options) -> Database {
    let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    for number in 0..90 {
        database.set(&key(number), &[b'a'; 70]);
        if number % 4 == 0 {
            database.flush();
        }
    }
    // Some of it is compacted already: what replaces that has the form that it has.
    (0..90).step_by(9).for_each(|number| database.delete(&key(number)));
    database.flush();
    database.log.compact_all();
    (0..5).for_each(|_| database.settle());
    database
}

fn make_garbage(database: &mut Database) {
    for number in (0..90).filter(|number| number % 3 != 0) {
        database.set(&key(number), &[b'b'; 60]);
        if number % 8 == 0 {
            database.flush();
        }
    }
    database.flush();
    database.log.compact_all();
}

fn read_mark(mark: Mark) -> Found {
    read_all(mark.read().ok().expect("it is ready"))
}

/// Reads all of a mark.
fn read_all(mut reader: MarkReader) -> Found {
    let mut found = Found::new();
    while let Some(block) = reader.next().unwrap() {
        for (addr, record) in block.records() {
            let twice = found.insert(addr, (record.key.to_vec(), record.value.to_vec()));
            assert_eq!(twice, None);
        }
    }
    found
}

#[test]
fn a_mark_is_read_right_whenever_its_files_are_replaced() {
    // The compaction is ordered before the mark, or after it.
    for is_ordered_before in [false, true] {
        for calls in 0.. {
            let disk = Busy::new(calls);
            let mut database = busy_log(&disk);
            database.flush();
            let early = (!is_ordered_before).then(|| database.log.mark().unwrap());
            let mut expected = found(&database);
            make_garbage(&mut database);
            database.log.copy_marks(usize::MAX);
            database.log.tick();
            let mark = early.unwrap_or_else(|| {
                expected = found(&database);
                let mark = database.log.mark().unwrap();
                database.log.copy_marks(usize::MAX);
                mark
            });
            disk.after(calls, move || run(database));
            assert_eq!(read_mark(mark), expected, "after {calls} calls");
            if disk.is_waiting() {
                assert!(calls > 20, "{calls}");
                break;
            }
        }
    }
}

/// By another process, of which the server knows nothing.
#[test]
fn a_log_is_restored_right_whenever_its_files_are_replaced() {
    for calls in 0.. {
        let disk = Busy::new(calls);
        let history = redo::HistoryOptions::ALL;
        let mut database = busy_log_of(&disk, redo::Options { history, ..busy_options() });
        let early = (database.log.durable_lsn(), database.keyspace.contents());
        make_garbage(&mut database);
        database.log.tick();
        let late = (database.log.durable_lsn(), database.keyspace.contents());
        let (lsn, expected) = if calls % 2 == 0 { late } else { early };
        disk.after(calls, move || run(database));
        let into = Path::new("/new");
        let request = redo::RestoreRequest {
            source: Path::new("/data"),
            devices: &[],
            into: Some(into),
            room_in: None,
            point: redo::RestorePoint::Lsn(lsn.0),
            durable: Lsn::ZERO,
            reader: 9,
            expiry: redo::Expiry::Absolute,
            threads: NonZero::<usize>::MIN,
        };
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let restored = redo::restore(&shared, &request, &mut Counter(5), &mut |_| {}).unwrap();
        assert!(restored.unwrap().is_running);
        let copy = Database::open_on(Arc::new(disk.disk.clone()), options(into)).unwrap();
        assert_eq!(copy.keyspace.contents(), expected, "after {calls} calls");
        if disk.is_waiting() {
            assert!(calls > 60, "{calls}");
            break;
        }
    }
}

#[test]
fn blocks_and_records_are_read_right_whenever_their_files_are_replaced() {
    read_blocks(busy_log, make_garbage);
    // Larger than what is read at once, and no block of it changes where it begins.
    read_blocks(
        |disk| {
            let mut options = options(Path::new("/data"));
            options.segment_bytes = 4 << 20;
            options.compaction.invalid_count_min = 2;
            let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
            for number in 0..60 {
                database.set(&key(number), &[b'a'; 40_000]);
                if number % 4 == 3 {
                    database.flush();
                }
            }
            database.delete(&key(59));
            database.flush();
            database.log.compact_all();
            (0..5).for_each(|_| database.settle());
            database
        },
        |database| {
            (0..60).filter(|n| n % 4 == 1).for_each(|number| database.delete(&key(number)));
            database.flush();
            database.log.compact_all();
        },
    );
    for (calls, are_together) in (0..60).flat_map(|calls| [(calls, false), (calls, true)]) {
        let disk = Busy::new(calls);
        let mut database = busy_log(&disk);
        make_garbage(&mut database);
        database.log.tick();
        let (expected, mut reader) = (found(&database), database.log.reader());
        disk.after(calls, move || run(database));
        let addrs: Vec<_> = expected.keys().copied().collect();
        let mut told = 0;
        let mut check = |which: usize, found: redo::Result<Option<FoundRecord>>| {
            told += 1;
            let (key, value) = &expected[&addrs[which]];
            let found = found.unwrap().expect("it is needed");
            assert_eq!((found.record().key, found.record().value), (&key[..], &value[..]));
        };
        if are_together {
            reader.records(&addrs, &mut check);
        } else {
            (0..addrs.len()).for_each(|which| check(which, reader.record(addrs[which])));
        }
        assert_eq!(told, addrs.len());
        assert!(!disk.is_waiting());
    }
}

/// The segment is in another file than the log knows, and its compaction has failed.
#[test]
fn records_are_read_right_when_a_new_name_could_not_be_made_durable() {
    for is_open in [true, false] {
        let disk = Busy::new(1);
        let mut database = busy_log(&disk);
        make_garbage(&mut database);
        let expected = found(&database);
        let mut reader = database.log.reader();
        let check = |reader: &mut redo::Reader| {
            for (addr, (key, value)) in &expected {
                let found = reader.record(*addr).unwrap().expect("it is needed");
                assert_eq!((found.record().key, found.record().value), (&key[..], &value[..]));
            }
        };
        if is_open {
            check(&mut reader);
        }
        *disk.on_rename.lock().unwrap() = Some(Box::new({
            let fails = Arc::clone(&disk.fails_directory);
            move |to: &Path| {
                if to.extension().is_some_and(|extension| extension == "redo") {
                    fails.store(true, Ordering::Relaxed);
                }
            }
        }));
        for _ in 0..40 {
            database.settle();
            check(&mut reader);
            check(&mut database.log.reader());
        }
        assert_ne!(database.log.stats().compactions_failed, 0);
        *disk.on_rename.lock().unwrap() = None;
        drop(reader);
        database.close();
        let again = Database::open_on(Arc::new(disk.clone()), busy_options()).unwrap();
        assert_eq!(found(&again), expected);
        check(&mut again.log.reader());
    }
}

/// Reads all blocks of such a log, while it is compacted after each number of calls.
fn read_blocks(make: impl Fn(&Busy) -> Database, make_garbage: impl Fn(&mut Database)) {
    for calls in 0.. {
        let disk = Busy::new(calls);
        let mut database = make(&disk);
        make_garbage(&mut database);
        database.log.tick();
        let (expected, mut reader) = (found(&database), database.log.reader());
        let end = database.log.durable_lsn();
        disk.after(calls, move || run(database));
        let mut blocks = reader.blocks(Lsn(1));
        let (mut last, mut seen) = (Lsn::ZERO, BTreeSet::new());
        loop {
            let block = match blocks.next() {
                Ok(None) => break,
                Err(Error::DeletesDropped { .. }) => {
                    (blocks, last, seen) = (reader.blocks(Lsn(1)), Lsn::ZERO, BTreeSet::new());
                    continue;
                }
                block => block.unwrap().expect("matched above"),
            };
            assert!(block.lsn() > last && block.lsn() <= end);
            last = block.lsn();
            for record in block.records() {
                let (addr, record) = record.unwrap();
                if let Some((key, value)) = expected.get(&addr) {
                    assert_eq!((record.key, record.value), (&key[..], &value[..]));
                    seen.insert(addr);
                }
            }
        }
        assert!(expected.keys().all(|addr| seen.contains(addr)), "after {calls} calls");
        if disk.is_waiting() {
            break;
        }
        for (addr, (key, value)) in expected {
            let found = reader.record(addr).unwrap().expect("it is needed");
            assert_eq!((found.record().key, found.record().value), (&key[..], &value[..]));
        }
    }
}

/// Flushers, compactor and readers on threads of their own, on real files.
#[test]
fn marks_are_read_right_among_threads() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.devices = ["a", "b"].iter().map(|name| dir.path().join(name)).collect();
    options.policy = redo::SyncPolicy::EverySec;
    options.segment_bytes = 20_000;
    options.compaction.invalid_count_min = 2;
    options.compaction.garbage_share_min = 0.0;
    let Database { mut keyspace, mut log, flushers, mut compactor, clock, .. } =
        Database::open(options).unwrap();
    let mut threads = Vec::new();
    for mut flusher in flushers {
        let bell = flusher.bell();
        threads.push(std::thread::spawn(move || {
            loop {
                match flusher.step() {
                    Step::Worked => {}
                    Step::Idle => bell.wait(std::time::Duration::from_millis(1)),
                    Step::Finished => return,
                }
            }
        }));
    }
    threads.push(std::thread::spawn(move || {
        loop {
            match compactor.step() {
                Step::Worked => {}
                Step::Idle => compactor.wait(std::time::Duration::from_millis(1)),
                Step::Finished => return,
            }
        }
    }));
    let mut waiting: Vec<(Mark, Found)> = Vec::new();
    let mut readers = Vec::new();
    let mut number = 0;
    while readers.len() < 12
        || readers.iter().any(|r: &std::thread::JoinHandle<_>| !r.is_finished())
    {
        for _ in 0..10 {
            number += 7;
            let (name, value) = (key(number % 500), vec![b'v'; number % 90]);
            let record =
                base::Record::whole(base::RecordKind::String, base::DbId(0), &name, &value, None);
            let addr = log.append(&record);
            if let Some((_, old)) = keyspace.entries.insert(name, (value, addr)) {
                log.retire(old);
            }
        }
        log.seal();
        clock.advance_us(20_000);
        log.poll();
        if number % 70 == 0 {
            log.tick();
        }
        if number % 7000 == 0 && readers.len() + waiting.len() < 12 {
            let entries = keyspace.entries.iter();
            let found = entries.map(|(key, (value, addr))| (*addr, (key.clone(), value.clone())));
            waiting.push((log.mark().unwrap(), found.collect()));
            log.request_sync(Lsn(log.open_lsn().0 - 1));
        }
        for (mark, expected) in std::mem::take(&mut waiting) {
            match mark.read() {
                Ok(reader) => readers.push(std::thread::spawn(move || {
                    assert_eq!(read_all(reader), expected);
                })),
                Err(mark) => waiting.push((mark, expected)),
            }
        }
        while log.is_congested() {
            clock.advance_us(1000);
            log.poll();
            log.tick();
            std::thread::yield_now();
        }
    }
    let compactions = log.stats().compactions;
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    log.shutdown();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(compactions > 3, "{compactions} compactions meanwhile");
}

/// Compacts everything. A reader takes its first `taken` blocks right before the `nth` rename, when
/// what that compaction drops has been noted, and the rest at the end. `None` if it is refused.
fn read_across_a_rename(nth: u64, taken: usize) -> Option<bool> {
    let disk = Busy::new(nth);
    let mut options = options(Path::new("/data"));
    options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
    options.segment_bytes = 3000;
    options.compaction.invalid_count_min = 2;
    let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    for number in 0..90 {
        database.set(&key(number), &[b'a'; 70]);
        if (10..24).contains(&number) {
            database.delete(&key(number - 8));
        }
        database.flush();
    }
    for number in (24..84).step_by(2) {
        database.set(&key(number), &[b'c'; 70]);
        database.flush();
    }
    let (reader, begun) = (database.log.reader(), Arc::new(Mutex::new(None)));
    let mut renames = 0;
    *disk.on_rename.lock().unwrap() = Some(Box::new({
        let begun = begun.clone();
        move |to: &Path| {
            renames += u64::from(to.extension().is_some_and(|extension| extension == "redo"));
            if renames == nth && begun.lock().unwrap().is_none() {
                let (mut blocks, mut state) = (reader.blocks(Lsn(1)), BTreeMap::new());
                for _ in 0..taken {
                    let block = blocks.next().unwrap();
                    block.iter().for_each(|block| follow(&mut state, block));
                }
                *begun.lock().unwrap() = Some((blocks, state));
            }
        }
    }));
    database.log.compact_all();
    (0..10).for_each(|_| database.settle());
    let (mut blocks, mut state) = begun.lock().unwrap().take()?;
    loop {
        match blocks.next() {
            Ok(Some(block)) => follow(&mut state, &block),
            Ok(None) => return Some(state == database.keyspace.contents()),
            Err(Error::DeletesDropped { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn no_deletion_is_missed_by_a_reader_that_begins_before_a_rename() {
    let mut right = 0;
    for (nth, taken) in (1..8).flat_map(|nth| (1..40).step_by(4).map(move |taken| (nth, taken))) {
        let read = read_across_a_rename(nth, taken);
        assert_ne!(read, Some(false), "rename {nth}, after {taken} blocks");
        right += u32::from(read.is_some());
    }
    assert_ne!(right, 0, "not all are refused");
}

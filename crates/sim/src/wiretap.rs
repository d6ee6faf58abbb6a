//! Listens on the line between the shard and its log.
//!
//! ```text
//!   shard ── append, retire ──► Wiretap ──► the server's own log
//!                                  │
//!                                  ├─► Tap: which call wrote what, into which block
//!                                  └─► sometimes the flushers step, as threads would
//! ```
//!
//! What it hears says, independently of what the keyspace notes for itself, which block a client's
//! reply depends on: the newest one that changed the key that the reply shows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{
    DangerousCommand, DbId, DbIndex, Lsn, Note, NoteEvent, ObjectId, Record, RecordAddr,
    RecordKind, SegmentId, varint,
};
use env::Entropy;
use env_sim::SimEntropy;
use keyspace::{Journal, Keyspace};
use redo::manifest::HistoryPoint;
use redo::{
    BackupFigures, BackupPoint, BackupRefusal, BackupState, LiveRecords, Mark, NamedBackup,
    NotedCommand,
};
use server::config::{FsyncPolicy, LogOptions};
use server::engine::{BoxedLog, CloseError, DevicesError, LogHealth, Reach, ShardLog};

use crate::addresses::Addresses;
use crate::picture::Name;
use crate::shadow::Logged;
use crate::works::Works;

type LoggedKey = (DbId, Box<[u8]>);

/// What was heard.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    /// The first and the last block that the present call has written to.
    blocks: Option<(Lsn, Lsn)>,
    /// The blocks that a checkpoint, or a change of the devices, has ended in the present call.
    checkpoints: BTreeSet<Lsn>,
    /// Keys whose state must be looked at again, and whether that is true of all.
    touched: BTreeSet<LoggedKey>,
    all_touched: bool,
    /// A library of functions has changed.
    libraries_touched: bool,
    /// The engine does what no client has asked for: it deletes what has expired, and logs anew what
    /// lies in damaged segments, which changes no key.
    pub(crate) is_between_commands: bool,
    /// The newest block that changed a key, in this life.
    changed: BTreeMap<LoggedKey, Lsn>,
    /// The id of each database, and the block that said so.
    databases: Vec<(DbId, Lsn)>,
    owners: BTreeMap<ObjectId, LoggedKey>,
    /// The largest object that a block which survived has named, in any life before.
    pub(crate) used: ObjectId,
    /// The largest of this life.
    pub(crate) object_max: ObjectId,
    /// An object that has got the number of another one.
    pub(crate) reused: Option<ObjectId>,
    pub(crate) records: u64,
    /// What was logged since the last look.
    pub(crate) logged: Vec<Logged>,
    /// What the server's keyspace says that nothing needs any more.
    pub(crate) retired: BTreeSet<RecordAddr>,
    /// Where what is needed is, in a run with an index.
    pub(crate) addresses: Option<Addresses>,
    /// A whole keyspace is logged, and each of its blocks has few records.
    pub(crate) is_copying: bool,
    /// It was told that what it was turned on for is in it.
    pub(crate) is_thawed: bool,
    /// How the log was when it was closed.
    pub(crate) closed: Option<Closed>,
}

/// What is known of a log that is closed.
#[derive(Debug, Clone)]
pub(crate) struct Closed {
    /// The block after the last.
    pub(crate) open_lsn: Lsn,
    pub(crate) durable_lsn: Lsn,
    pub(crate) stats: redo::Stats,
}

impl Tap {
    /// Before a life: what recovery found depends on nothing, and it has retired this.
    pub(crate) fn new(
        keyspace: &Keyspace,
        retired: BTreeSet<RecordAddr>,
        addresses: Option<Addresses>,
    ) -> Self {
        let mut tap = Self { retired, addresses, ..Self::default() };
        for db in keyspace.databases() {
            let id = keyspace.database_id(db);
            tap.databases.push((id, Lsn::ZERO));
            keyspace.inspect(db, |entry| {
                if entry.object != ObjectId::NONE {
                    tap.owners.insert(entry.object, (id, entry.key.into()));
                }
            });
        }
        tap
    }

    fn hear(&mut self, record: &Record<'_>, lsn: Lsn) {
        self.records += 1;
        if is_aside(record) {
            return;
        }
        let first = self.blocks.map_or(lsn, |(first, _)| first);
        self.blocks = Some((first, lsn));
        if record.kind == RecordKind::Databases {
            self.hear_databases(record.value, lsn);
            return;
        }
        if record.kind.is_library() {
            self.libraries_touched = true;
            return;
        }
        if record.kind == RecordKind::Note {
            return;
        }
        if record.kind == RecordKind::KeyLost {
            // Of which key, only what follows the log can tell.
            self.all_touched = true;
            return;
        }
        self.object_max = self.object_max.max(record.object);
        let is_known = self.owners.contains_key(&record.object);
        if record.object != ObjectId::NONE && record.object <= self.used && !is_known {
            self.reused = Some(record.object);
        }
        let key = if record.kind.is_element() {
            // Elements may come before their root, which the same command writes.
            let Some(owner) = self.owners.get(&record.object) else { return };
            owner.clone()
        } else {
            (record.db, Box::from(record.key))
        };
        if record.kind.is_root() {
            self.owners.insert(record.object, key.clone());
        }
        if record.kind.is_delete() || !self.is_between_commands {
            self.changed.insert(key.clone(), lsn);
        }
        self.touched.insert(key);
    }

    fn hear_databases(&mut self, mut value: &[u8], lsn: Lsn) {
        self.all_touched = true;
        // The first number is the next id.
        let _next = varint::take(&mut value);
        for database in &mut self.databases {
            let id = varint::take(&mut value);
            let id = DbId(id.expect("the keyspace writes an id for each database"));
            if database.0 != id {
                *database = (id, lsn);
            }
        }
    }

    /// The block that what a client sees of this key depends on.
    pub(crate) fn depends_on(&self, db: DbIndex, key: &[u8]) -> Lsn {
        let (id, mapped) = self.databases[db.get()];
        let changed = self.changed.get(&(id, Box::from(key))).copied();
        changed.unwrap_or(Lsn::ZERO).max(mapped)
    }

    /// The first and the last block that was written to since the last call.
    ///
    /// # Errors
    /// When one of them was ended by anything but a checkpoint or a change of the devices: they stand
    /// between commands, of which none lies in two blocks then.
    pub(crate) fn take_blocks(&mut self) -> Result<Option<(Lsn, Lsn)>, String> {
        let checkpoints = std::mem::take(&mut self.checkpoints);
        let Some((first, last)) = self.blocks.take() else { return Ok(None) };
        let is_between = |lsn: u64| checkpoints.contains(&Lsn(lsn));
        if (first.0..last.0).all(is_between) {
            return Ok(Some((first, last)));
        }
        Err(format!("SPLIT: the records of one call lie in blocks {first} to {last}"))
    }

    /// Nothing is known any more of which keys have changed.
    pub(crate) const fn touch_all(&mut self) {
        self.all_touched = true;
    }

    /// Whether a library of functions has changed since the last call.
    pub(crate) fn take_libraries_touched(&mut self) -> bool {
        std::mem::take(&mut self.libraries_touched)
    }

    /// The keys that have changed since the last call; `None` for all of them.
    pub(crate) fn take_touched(&mut self) -> Option<Vec<Name>> {
        let touched = std::mem::take(&mut self.touched);
        if std::mem::take(&mut self.all_touched) {
            return None;
        }
        let index = |id| {
            let mut indexes = DbIndex::all(self.databases.len());
            indexes.find(|index| self.databases[index.get()].0 == id)
        };
        Some(touched.into_iter().filter_map(|(id, key)| Some((index(id)?, key))).collect())
    }
}

/// Whether no client waits for a record: a note of a command that has written nothing else.
fn is_aside(record: &Record<'_>) -> bool {
    let is_note = record.kind == RecordKind::Note;
    let note = is_note.then(|| Note::decode(record.value)).flatten();
    let event = note.map(|note| note.event);
    matches!(event, Some(NoteEvent::Command(command)) if !command.loses_data)
}

/// The log that the server is given.
pub(crate) struct Wiretap {
    pub(crate) log: BoxedLog,
    pub(crate) tap: Arc<Mutex<Tap>>,
    pub(crate) works: Arc<Mutex<Works>>,
    pub(crate) rng: SimEntropy,
    /// How often a flusher or the compactor steps between two records, in a million.
    pub(crate) steps_per_million: u32,
}

impl Wiretap {
    /// Does what may end the open block between two commands, and notes whether it has.
    fn ending_block<T>(&mut self, run: impl FnOnce(&mut BoxedLog) -> T) -> T {
        let open_lsn = self.log.open_lsn();
        let result = run(&mut self.log);
        if self.log.open_lsn() > open_lsn {
            lock(&self.tap).checkpoints.insert(open_lsn);
        }
        result
    }
}

impl Journal for Wiretap {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        if self.rng.chance(self.steps_per_million) {
            lock(&self.works).step_any(&mut self.rng);
        }
        let lsn = self.log.open_lsn();
        let addr = self.log.append(record)?;
        let mut tap = lock(&self.tap);
        tap.hear(record, lsn);
        if let Some(addresses) = &mut tap.addresses {
            addresses.note(record, addr, lsn);
        }
        // Not behind the last one and the libraries in front of it: they are one block.
        let is_block_full =
            tap.is_copying && !record.kind.is_of_no_database() && self.rng.below(6) == 0;
        tap.logged.push(Logged::new(record, addr, lsn));
        drop(tap);
        if is_block_full {
            self.log.seal();
        }
        Some(addr)
    }

    fn declare(&mut self, kind: RecordKind) {
        self.ending_block(|log| log.declare(kind));
    }

    fn has_declared(&self, kind: RecordKind) -> Option<bool> {
        self.log.has_declared(kind)
    }

    fn retire(&mut self, addr: RecordAddr) {
        if self.rng.chance(self.steps_per_million) {
            lock(&self.works).step_any(&mut self.rng);
        }
        let mut tap = lock(&self.tap);
        assert!(tap.retired.insert(addr), "{addr} is retired twice");
        if let Some(addresses) = &mut tap.addresses {
            addresses.retire(addr);
        }
        drop(tap);
        self.log.retire(addr);
    }

    fn open_lsn(&self) -> Lsn {
        self.log.open_lsn()
    }

    fn last_lsn(&self) -> Lsn {
        self.log.last_lsn()
    }

    fn durable_lsn(&self) -> Lsn {
        self.log.durable_lsn()
    }

    fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn> {
        self.log.undurable_lsn_of(addr)
    }

    fn is_retired(&self, addr: RecordAddr) -> bool {
        self.log.is_retired(addr)
    }

    fn lsn_bound_of(&self, addr: RecordAddr) -> Option<Lsn> {
        self.log.lsn_bound_of(addr)
    }

    fn indexed_lsn(&self) -> Option<Lsn> {
        self.log.indexed_lsn()
    }
}

impl ShardLog for Wiretap {
    fn seal(&mut self) {
        self.log.seal();
    }

    fn takes_block_now(&self) -> bool {
        self.log.takes_block_now()
    }

    fn open_bytes(&self) -> usize {
        self.log.open_bytes()
    }

    fn reach(&mut self) -> Reach {
        self.log.reach()
    }

    fn want_written(&mut self, lsn: Lsn) {
        self.log.want_written(lsn);
    }

    fn request_sync(&mut self) -> Lsn {
        self.log.request_sync()
    }

    fn has_start(&self, lsn: Lsn) -> bool {
        self.log.has_start(lsn)
    }

    fn want_indexed(&mut self) -> bool {
        self.log.want_indexed()
    }

    fn reader(&self) -> Option<redo::Reader> {
        self.log.reader()
    }

    fn mark(&mut self) -> Option<Mark> {
        // What was in the block before was sealed for it.
        let sealed = Lsn(self.log.open_lsn().0 - 1);
        lock(&self.tap).checkpoints.insert(sealed);
        self.log.mark()
    }

    fn note_point(&mut self) {
        // What was in the block before was sealed for it.
        let sealed = Lsn(self.log.open_lsn().0 - 1);
        lock(&self.tap).checkpoints.insert(sealed);
        self.log.note_point();
    }

    fn begin_block(&mut self) {
        self.ending_block(|log| log.begin_block());
    }

    fn create_backup(
        &mut self,
        name: Option<String>,
        point: BackupPoint,
    ) -> Result<NamedBackup, BackupRefusal> {
        self.log.create_backup(name, point)
    }

    fn configure_backup(&mut self, id: u64, text: &str) {
        self.log.configure_backup(id, text);
    }

    fn delete_backup(&mut self, name: &str) -> Option<NamedBackup> {
        self.log.delete_backup(name)
    }

    fn backups(&self) -> Vec<BackupState> {
        self.log.backups()
    }

    fn backup_figures(&self) -> BackupFigures {
        self.log.backup_figures()
    }

    fn backup(&self, name: &str) -> Option<NamedBackup> {
        self.log.backup(name)
    }

    fn note_command(&mut self, command: DangerousCommand) {
        self.log.note_command(command);
    }

    fn told(&self) -> (Vec<NotedCommand>, Vec<HistoryPoint>) {
        self.log.told()
    }

    fn set_policy(&mut self, policy: FsyncPolicy) {
        self.log.set_policy(policy);
    }

    fn set_memory(&mut self, bytes: Option<u64>) {
        self.log.set_memory(bytes);
    }

    fn set_compaction(&mut self, options: &LogOptions) {
        self.log.set_compaction(options);
    }

    fn note_live(&mut self, live: Arc<LiveRecords>) -> Result<(), redo::Error> {
        self.log.note_live(live)
    }

    fn knows_validity(&self) -> bool {
        self.log.knows_validity()
    }

    fn thaw(&mut self) {
        let mut tap = lock(&self.tap);
        (tap.is_copying, tap.is_thawed) = (false, true);
        drop(tap);
        self.log.thaw();
    }

    fn set_devices(
        &mut self,
        devices: &[PathBuf],
        entropy: &mut dyn Entropy,
    ) -> Result<(), DevicesError> {
        self.ending_block(|log| log.set_devices(devices, entropy))
    }

    fn is_congested(&self) -> bool {
        self.log.is_congested()
    }

    fn health(&self) -> LogHealth {
        self.log.health()
    }

    fn compact_all(&mut self) -> bool {
        self.ending_block(|log| log.compact_all())
    }

    fn is_compacting(&self) -> bool {
        self.log.is_compacting()
    }

    fn tick(&mut self) {
        self.log.tick();
    }

    fn note_damage(&mut self, error: &redo::Error) {
        self.log.note_damage(error);
    }

    fn drain_events(&mut self) -> Vec<String> {
        self.log.drain_events()
    }

    fn rewrites(&self) -> Vec<SegmentId> {
        self.log.rewrites()
    }

    fn stats(&self) -> redo::Stats {
        self.log.stats()
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        self.log.has_room_for(bytes)
    }

    fn history(&self) -> redo::HistoryStats {
        self.log.history()
    }

    fn keeps_hot(&self) -> bool {
        self.log.keeps_hot()
    }

    fn save_hot(&mut self, records: Vec<Vec<RecordAddr>>) {
        self.log.save_hot(records);
    }

    fn shutdown(&mut self) -> Result<(), CloseError> {
        let ended = self.log.shutdown();
        lock(&self.tap).closed = Some(Closed {
            open_lsn: self.log.open_lsn(),
            durable_lsn: self.log.durable_lsn(),
            stats: self.log.stats(),
        });
        ended
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! An engine to be driven by a test: its clock, its log, its clients.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::{Lsn, Record, RecordAddr, SegmentId};
use env::{Clock, Entropy};
use env_sim::{Faults, SimDisk};
use keyspace::{Journal, Keyspace};
use redo::{BackupPoint, BackupRefusal, NamedBackup};

use crate::config::{FsyncPolicy, LogOptions};
use crate::engine::{
    ClientKey, CloseError, Deps, DevicesError, Engine, LogHealth, Peer, Reach, ShardLog,
};
use crate::host::{Host, NoHost, TestHost};
use crate::logger::Logger;

/// A clock that stands still until a test moves it, or someone looks at it.
#[derive(Default)]
pub(super) struct TestClock {
    ms: AtomicI64,
    /// How far it went because it was looked at.
    looks_us: AtomicU64,
    /// How far it goes with each look: where something takes its time.
    pub(super) us_per_look: AtomicU64,
}

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000 + self.ms.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        let us_per_look = self.us_per_look.load(Ordering::Relaxed);
        let looks_us = self.looks_us.fetch_add(us_per_look, Ordering::Relaxed);
        u64::try_from(self.ms.load(Ordering::Relaxed)).unwrap() * 1000 + looks_us
    }
}

/// A machine that uses as many bytes of memory as a test says.
pub(super) fn host_of(used: &Arc<AtomicU64>) -> Box<dyn Host> {
    let used = Arc::clone(used);
    Box::new(TestHost::new(move || used.load(Ordering::Relaxed)))
}

struct TestEntropy(u64);

impl Entropy for TestEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = self.0.to_le_bytes()[7];
        }
    }
}

/// A log that writes at once and becomes durable when a test says so.
#[derive(Default)]
pub(super) struct TestLog {
    pub(super) open: u64,
    pub(super) records: u32,
    pub(super) durable: Arc<AtomicU64>,
    pub(super) read_only: bool,
    pub(super) is_congested: bool,
    pub(super) has_failed: bool,
    pub(super) is_closed: bool,
    /// Its flusher writes nothing, until it syncs.
    pub(super) holds_writes: bool,
    /// The block up to which an index knows it.
    pub(super) indexed: Option<Lsn>,
    /// The block up to which it was there at the start.
    pub(super) start: Lsn,
    /// Its device has not done with the block before.
    pub(super) is_busy: bool,
    /// The blocks behind which it was told that something is about to be lost.
    pub(super) points: Vec<u64>,
    /// The named backups.
    pub(super) backups: Vec<NamedBackup>,
}

#[derive(Clone)]
pub(super) struct SharedLog(pub(super) Arc<Mutex<TestLog>>);

impl Journal for SharedLog {
    fn append(&mut self, _record: &Record<'_>) -> Option<RecordAddr> {
        let mut log = self.0.lock().unwrap();
        log.records += 1;
        Some(RecordAddr::new(SegmentId(1), log.records))
    }

    fn retire(&mut self, _addr: RecordAddr) {}

    fn open_lsn(&self) -> Lsn {
        Lsn(self.0.lock().unwrap().open)
    }

    fn last_lsn(&self) -> Lsn {
        let log = self.0.lock().unwrap();
        Lsn(if log.records > 0 { log.open } else { log.open - 1 })
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn(self.0.lock().unwrap().durable.load(Ordering::Relaxed))
    }

    fn indexed_lsn(&self) -> Option<Lsn> {
        self.0.lock().unwrap().indexed
    }

    fn undurable_lsn_of(&self, _addr: RecordAddr) -> Option<Lsn> {
        let log = self.0.lock().unwrap();
        let last = log.open - 1;
        (log.durable.load(Ordering::Relaxed) < last).then_some(Lsn(last))
    }
}

impl ShardLog for SharedLog {
    fn seal(&mut self) {
        let mut log = self.0.lock().unwrap();
        if log.records > 0 {
            log.records = 0;
            log.open += 1;
        }
    }

    fn has_start(&self, lsn: Lsn) -> bool {
        lsn >= self.0.lock().unwrap().start
    }

    fn note_point(&mut self) {
        let mut log = self.0.lock().unwrap();
        let last = log.open - 1;
        if log.points.last() != Some(&last) {
            log.points.push(last);
        }
    }

    fn create_backup(
        &mut self,
        name: Option<String>,
        _point: BackupPoint,
    ) -> Result<NamedBackup, BackupRefusal> {
        let mut log = self.0.lock().unwrap();
        let (id, lsn) = (log.backups.len() as u64, Lsn(log.open));
        let name = name.unwrap_or_default();
        let backup = NamedBackup { id, name, lsn, noted_lsn: lsn, time_ms: 0, is_lost: false };
        log.backups.push(backup.clone());
        Ok(backup)
    }

    fn delete_backup(&mut self, name: &str) -> Option<NamedBackup> {
        let mut log = self.0.lock().unwrap();
        let at = log.backups.iter().position(|backup| backup.name == name)?;
        Some(log.backups.remove(at))
    }

    fn backup(&self, name: &str) -> Option<NamedBackup> {
        let log = self.0.lock().unwrap();
        log.backups.iter().find(|backup| backup.name == name).cloned()
    }

    fn takes_block_now(&self) -> bool {
        let log = self.0.lock().unwrap();
        log.records > 0 && !log.is_busy
    }

    fn open_bytes(&self) -> usize {
        0
    }

    fn reach(&mut self) -> Reach {
        let durable = self.durable_lsn();
        let log = self.0.lock().unwrap();
        let written = if log.holds_writes { durable } else { Lsn(log.open - 1) };
        Reach { written, durable }
    }

    fn want_written(&mut self, _lsn: Lsn) {}

    fn request_sync(&mut self) -> Lsn {
        self.last_lsn()
    }

    fn set_policy(&mut self, _policy: FsyncPolicy) {}

    fn set_compaction(&mut self, _options: &LogOptions) {}

    fn thaw(&mut self) {}

    fn set_devices(&mut self, _: &[PathBuf], _: &mut dyn Entropy) -> Result<(), DevicesError> {
        Ok(())
    }

    fn is_congested(&self) -> bool {
        self.0.lock().unwrap().is_congested
    }

    fn health(&self) -> LogHealth {
        if self.0.lock().unwrap().has_failed {
            LogHealth::Failed("the disk is gone".to_owned())
        } else if self.0.lock().unwrap().read_only {
            LogHealth::ReadOnly("the disk is full".to_owned())
        } else {
            LogHealth::Good
        }
    }

    fn compact_all(&mut self) -> bool {
        self.seal();
        true
    }

    fn is_compacting(&self) -> bool {
        false
    }

    fn tick(&mut self) {}

    fn stats(&self) -> redo::Stats {
        redo::Stats::default()
    }

    fn shutdown(&mut self) -> Result<(), CloseError> {
        self.0.lock().unwrap().is_closed = true;
        Ok(())
    }
}

pub(super) struct TestServer {
    pub(super) engine: Engine,
    pub(super) clock: Arc<TestClock>,
}

impl TestServer {
    pub(super) fn new(settings: &[&str]) -> Self {
        Self::on(Box::new(NoHost), settings)
    }

    /// A server on a machine.
    fn on(host: Box<dyn Host>, settings: &[&str]) -> Self {
        let clock = Arc::new(TestClock::default());
        clock.ms.store(1000, Ordering::Relaxed);
        let arguments: Vec<String> = settings.iter().map(|word| (*word).to_owned()).collect();
        let config = crate::config::load(None, &arguments).unwrap();
        let deps = Deps {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            disk: Arc::new(SimDisk::new(1, Faults::default())),
            entropy: Box::new(TestEntropy(1)),
            host,
            logger: Logger::to_nothing(Arc::clone(&clock) as Arc<dyn Clock>),
            commit: "unknown",
        };
        Self { engine: Engine::new(config, deps), clock }
    }

    /// A server with a log, and the number up to which it is durable.
    pub(super) fn with_log(settings: &[&str]) -> (Self, SharedLog) {
        Self::with_log_on(Box::new(NoHost), settings)
    }

    /// The same on a machine.
    pub(super) fn with_log_on(host: Box<dyn Host>, settings: &[&str]) -> (Self, SharedLog) {
        let mut server = Self::on(host, settings);
        let log = SharedLog(Arc::new(Mutex::new(TestLog { open: 1, ..TestLog::default() })));
        let keyspace = Keyspace::new(keyspace::NoJournal, [7; 16], 16);
        server.engine.loaded(keyspace, Some(Box::new(log.clone())));
        (server, log)
    }

    pub(super) fn connect(&mut self) -> ClientKey {
        let peer = Peer { address: "127.0.0.1:1".to_owned(), is_loopback: true, ..Peer::default() };
        self.engine.connect(peer).unwrap()
    }

    /// Sends bytes, ends the iteration, and gives what the client reads.
    pub(super) fn send(&mut self, client: ClientKey, bytes: &str) -> String {
        self.engine.receive(client, bytes.as_bytes());
        self.engine.end_iteration(true);
        // What was sealed is written by now, unless the log holds it.
        self.engine.log_advanced();
        self.read(client)
    }

    /// What may be sent to a client now.
    pub(super) fn read(&mut self, client: ClientKey) -> String {
        while self.engine.next_noted().is_some() {}
        let mut all = Vec::new();
        loop {
            let bytes = self.engine.outgoing(client).bytes.to_vec();
            self.engine.sent(client, bytes.len());
            if bytes.is_empty() {
                return String::from_utf8(all).unwrap();
            }
            all.extend(bytes);
        }
    }

    pub(super) fn ends(&mut self, client: ClientKey) -> bool {
        self.engine.outgoing(client).ends
    }

    /// Time passes, and nothing is done meanwhile.
    pub(super) fn clock_ms(&self, ms: i64) {
        self.clock.ms.fetch_add(ms, Ordering::Relaxed);
    }

    pub(super) fn pass_ms(&mut self, ms: i64) {
        self.clock.ms.fetch_add(ms, Ordering::Relaxed);
        self.engine.tick();
        self.engine.end_iteration(true);
        self.engine.log_advanced();
    }
}

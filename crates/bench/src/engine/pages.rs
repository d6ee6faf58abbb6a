//! The page store, in its normal configuration and with flush-on-eviction.
//!
//! The pool is the sum of frames and online log table. Pages are read and written through the
//! kernel's page cache, the log past it. Group commit is `Durability::None` with a background
//! thread that writes and syncs the log when its buffer is 80 % full or the delay has passed.

use std::sync::Arc;

use env::Disk;
use env_os::{OsClock, OsDisk};
use pages::{Durability, Env, Options, PageStore, Transaction};

use super::traced_disk::TracedDisk;
use super::{
    Commit, Connection, Counters, Direction, Engine, GROUP_DELAY_MS, Settings, Table, Visitor,
};
use crate::error::{Error, Result};

/// Group commit writes the log when its buffer is this full, in percent.
const GROUP_PERCENT: usize = 80;
/// Bytes of a page of its log.
const LOG_PAGE_BYTES: u64 = 2048;

struct Pages {
    store: PageStore,
    tables: &'static [&'static str],
    durability: Durability,
}

struct PagesConnection<'e> {
    engine: &'e Pages,
    transaction: Option<Transaction>,
}

fn error(error: pages::Error) -> Error {
    if error.is_retryable() { Error::Conflict } else { Error::engine("pages")(&error) }
}

pub(super) fn open(settings: &Settings, flush_on_eviction: bool) -> Result<Box<dyn Engine>> {
    let disk: Arc<dyn Disk> = match &settings.trace {
        Some(trace) => Arc::new(TracedDisk::new(Arc::clone(trace))),
        None => Arc::new(OsDisk),
    };
    let env = Env { disk, clock: Arc::new(OsClock::new()) };
    let mut options = Options::with_memory(&settings.dir, settings.pool_bytes);
    if let Some(percent) = settings.online_log_percent {
        options.online_log_bytes = settings.pool_bytes / 100 * percent;
        options.pool_bytes = settings.pool_bytes - options.online_log_bytes;
    }
    if let Some(bytes) = settings.group_bytes {
        options.log_buffer_bytes = bytes * 100 / GROUP_PERCENT;
    }
    if let Some(bytes) = settings.log_bytes_max {
        options.log_bytes_max = bytes;
    }
    options.flush_on_eviction = flush_on_eviction;
    options.group_delay_ms = GROUP_DELAY_MS;
    let durability = match settings.commit {
        Commit::Immediate => Durability::Immediate,
        Commit::Group => Durability::None,
    };
    let store = PageStore::open(&env, options).map_err(error)?;
    Ok(Box::new(Pages { store, tables: settings.tables, durability }))
}

impl Engine for Pages {
    fn connect(&self) -> Result<Box<dyn Connection + '_>> {
        Ok(Box::new(PagesConnection { engine: self, transaction: None }))
    }

    fn counters(&self) -> Counters {
        let stats = self.store.stats();
        let more = [
            ("page_hits", stats.page_hits),
            ("log_flushes", stats.log_flushes),
            ("evictions_clean", stats.evictions_clean),
            ("evictions_flushing_less", stats.evictions_flushing_less),
            ("evictions_flushed", stats.evictions_flushed),
            ("redos", stats.redos),
            ("checkpoints", stats.checkpoints),
            ("splits", stats.splits),
            ("merges", stats.merges),
            ("deadlocks", stats.deadlocks),
        ];
        Counters {
            page_reads: stats.page_reads,
            page_writes: stats.page_writes,
            log_writes: stats.log_page_writes,
            log_bytes: stats.log_page_writes * LOG_PAGE_BYTES,
            more: more.into_iter().collect(),
        }
    }

    fn checkpoint(&self) -> Result<()> {
        self.store.checkpoint_all().map_err(error)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.store.close().map_err(error)
    }
}

impl PagesConnection<'_> {
    fn table(&self, table: Table) -> pages::Table<'_> {
        let transaction = self.transaction.as_ref().expect("a transaction was begun");
        transaction.table(self.engine.tables[table.0])
    }
}

impl Connection for PagesConnection<'_> {
    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.engine.store.begin().map_err(error)?);
        Ok(())
    }

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.table(table).get(key).map_err(error)
    }

    fn get_for_update(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.table(table).get_for_update(key).map_err(error)
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.table(table).insert(key, value).map_err(error)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<()> {
        self.table(table).remove(key).map(drop).map_err(error)
    }

    fn scan(
        &mut self,
        table: Table,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let table = self.table(table);
        let mut range = table.range(low..high);
        let mut next = || match direction {
            Direction::Up => range.next(),
            Direction::Down => range.next_back(),
        };
        while let Some(entry) = next() {
            let (key, value) = entry.map_err(error)?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let transaction = self.transaction.take().expect("a transaction was begun");
        transaction.commit(self.engine.durability).map(drop).map_err(error)
    }

    fn abort(&mut self) -> Result<()> {
        self.transaction = None;
        Ok(())
    }
}

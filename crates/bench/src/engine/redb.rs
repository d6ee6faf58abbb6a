//! redb: a copy-on-write B+tree with checksums, one writer at a time, no log.
//!
//! The pool is its cache. A commit with group durability stays in memory, except for one every 10
//! ms, which makes all before it durable. That is enough for the guarantee, except that a program
//! that stops committing must end with a durable commit, as `close` does.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use ::redb::{
    Database, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    TableDefinition, WriteTransaction,
};

use super::{
    Commit, Connection, Counters, Direction, Engine, GROUP_DELAY_MS, Settings, Table, Visitor,
};
use crate::error::{Error, Result};

type Bytes = &'static [u8];

struct Redb {
    database: Database,
    tables: &'static [&'static str],
    commit: Commit,
    /// The time of the last durable commit.
    durable_at: Mutex<Instant>,
}

struct RedbConnection<'e> {
    redb: &'e Redb,
    transaction: Option<Open>,
}

/// The transaction of a connection.
enum Open {
    Write(Box<WriteTransaction>),
    Read(Snapshot),
}

/// A read-only transaction and its open tables, by index.
struct Snapshot {
    transaction: ReadTransaction,
    tables: Vec<Option<ReadOnlyTable<Bytes, Bytes>>>,
}

fn error(error: impl std::fmt::Display) -> Error {
    Error::engine("redb")(&error)
}

pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>> {
    std::fs::create_dir_all(&settings.dir).map_err(Error::file(&settings.dir))?;
    let path = settings.dir.join("data.redb");
    let mut builder = Database::builder();
    builder.set_cache_size(settings.pool_bytes);
    let database = builder.create(path).map_err(error)?;
    let redb = Redb {
        database,
        tables: settings.tables,
        commit: settings.commit,
        durable_at: Mutex::new(Instant::now()),
    };
    // Tables are created now, so that reading one never fails.
    let transaction = redb.database.begin_write().map_err(error)?;
    for table in 0..settings.tables.len() {
        transaction.open_table(redb.definition(Table(table))).map_err(error)?;
    }
    transaction.commit().map_err(error)?;
    Ok(Box::new(redb))
}

impl Redb {
    fn definition(&self, table: Table) -> TableDefinition<'static, Bytes, Bytes> {
        TableDefinition::new(self.tables[table.0])
    }

    /// Whether the next commit is the durable one of its 10 ms.
    fn is_durable_due(&self) -> bool {
        let mut durable_at = self.durable_at.lock().expect("no holder panics");
        let is_due = self.commit == Commit::Immediate
            || durable_at.elapsed() >= Duration::from_millis(u64::from(GROUP_DELAY_MS));
        if is_due {
            *durable_at = Instant::now();
        }
        is_due
    }
}

impl Engine for Redb {
    fn connect(&self) -> Result<Box<dyn Connection + '_>> {
        Ok(Box::new(RedbConnection { redb: self, transaction: None }))
    }

    fn counters(&self) -> Counters {
        let stats = self.database.cache_stats();
        Counters { more: [("evictions_clean", stats.evictions())].into(), ..Counters::default() }
    }

    fn checkpoint(&self) -> Result<()> {
        let transaction = self.database.begin_write().map_err(error)?;
        transaction.commit().map_err(error)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()
    }
}

impl Snapshot {
    fn table(&mut self, redb: &Redb, table: Table) -> Result<&ReadOnlyTable<Bytes, Bytes>> {
        let place = &mut self.tables[table.0];
        if place.is_none() {
            *place = Some(self.transaction.open_table(redb.definition(table)).map_err(error)?);
        }
        Ok(place.as_ref().expect("it was opened just now"))
    }
}

fn value_of(table: &impl ReadableTable<Bytes, Bytes>, key: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(table.get(key).map_err(error)?.map(|value| value.value().to_vec()))
}

fn scan_of(
    table: &impl ReadableTable<Bytes, Bytes>,
    (low, high): (&[u8], &[u8]),
    direction: Direction,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    let mut range = table.range(low..high).map_err(error)?;
    let mut next = || match direction {
        Direction::Up => range.next(),
        Direction::Down => range.next_back(),
    };
    while let Some(entry) = next() {
        let (key, value) = entry.map_err(error)?;
        if !visit(key.value(), value.value()) {
            break;
        }
    }
    Ok(())
}

impl RedbConnection<'_> {
    fn writable(&self, table: Table) -> Result<::redb::Table<'_, Bytes, Bytes>> {
        let Some(Open::Write(transaction)) = &self.transaction else {
            panic!("nothing is written outside of a transaction that may write");
        };
        transaction.open_table(self.redb.definition(table)).map_err(error)
    }

    /// Returns the snapshot being read, unless this transaction may write.
    fn snapshot(&mut self) -> Option<&mut Snapshot> {
        match self.transaction.as_mut().expect("a transaction was begun") {
            Open::Write(_) => None,
            Open::Read(snapshot) => Some(snapshot),
        }
    }
}

impl Connection for RedbConnection<'_> {
    fn begin(&mut self) -> Result<()> {
        let mut transaction = self.redb.database.begin_write().map_err(error)?;
        if self.redb.commit == Commit::Group {
            transaction.set_durability(Durability::None).map_err(error)?;
        }
        self.transaction = Some(Open::Write(Box::new(transaction)));
        Ok(())
    }

    fn begin_read(&mut self) -> Result<()> {
        let transaction = self.redb.database.begin_read().map_err(error)?;
        let tables = self.redb.tables.iter().map(|_| None).collect();
        self.transaction = Some(Open::Read(Snapshot { transaction, tables }));
        Ok(())
    }

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let redb = self.redb;
        match self.snapshot() {
            Some(snapshot) => value_of(snapshot.table(redb, table)?, key),
            None => value_of(&self.writable(table)?, key),
        }
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.writable(table)?.insert(key, value).map(drop).map_err(error)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<()> {
        self.writable(table)?.remove(key).map(drop).map_err(error)
    }

    fn scan(
        &mut self,
        table: Table,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let redb = self.redb;
        match self.snapshot() {
            Some(snapshot) => scan_of(snapshot.table(redb, table)?, (low, high), direction, visit),
            None => scan_of(&self.writable(table)?, (low, high), direction, visit),
        }
    }

    fn commit(&mut self) -> Result<()> {
        let mut transaction = match self.transaction.take().expect("a transaction was begun") {
            Open::Write(transaction) => transaction,
            // Without changes, there is nothing to make durable.
            Open::Read(_) => return Ok(()),
        };
        if self.redb.is_durable_due() {
            transaction.set_durability(Durability::Immediate).map_err(error)?;
        }
        transaction.commit().map_err(error)
    }

    fn abort(&mut self) -> Result<()> {
        match self.transaction.take() {
            Some(Open::Write(transaction)) => transaction.abort().map_err(error),
            Some(Open::Read(_)) | None => Ok(()),
        }
    }
}

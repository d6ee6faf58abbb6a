//! LMDB through `heed`: a copy-on-write B+tree in a memory map, one writer at a time, no log.
//!
//! There is no pool: the map is the kernel's page cache, limited only by the memory of the machine
//! (or of a control group). Comparisons should say so. Page writes are the file pages that the
//! process wrote, as counted by the kernel.
//!
//! This file holds `unsafe` because opening a memory map is: no process may change the file
//! meanwhile.
#![expect(unsafe_code, reason = "LMDB maps its file into memory")]

use std::time::Duration;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithoutTls};

use super::background::Background;
use super::{
    Commit, Connection, Counters, Direction, Engine, GROUP_DELAY_MS, Settings, Table, Visitor,
};
use crate::error::{Error, Result};

/// Address space for the file, far larger than any data set here.
const MAP_BYTES: usize = 64 << 30;

type Tree = Database<Bytes, Bytes>;

struct Lmdb {
    // Dropped first: it uses the environment.
    _background: Option<Background>,
    env: Env<WithoutTls>,
    trees: Vec<Tree>,
}

struct LmdbConnection<'e> {
    lmdb: &'e Lmdb,
    transaction: Option<Open<'e>>,
}

/// The transaction of a connection.
enum Open<'e> {
    Write(RwTxn<'e>),
    Read(RoTxn<'e, WithoutTls>),
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn error(error: heed::Error) -> Error {
    Error::engine("lmdb")(&error)
}

pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>> {
    std::fs::create_dir_all(&settings.dir).map_err(Error::file(&settings.dir))?;
    let tables = u32::try_from(settings.tables.len()).expect("there are few tables");
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES).max_dbs(tables);
    let mut flags = EnvFlags::NO_READ_AHEAD;
    if settings.commit == Commit::Group {
        flags |= EnvFlags::NO_SYNC;
    }
    // SAFETY: the flags are those in the table of `engine`; the directory belongs to this run
    // alone.
    let env = unsafe { options.flags(flags).open(&settings.dir) }.map_err(error)?;
    let mut transaction = env.write_txn().map_err(error)?;
    let trees = settings
        .tables
        .iter()
        .map(|name| env.create_database(&mut transaction, Some(name)).map_err(error));
    let trees = trees.collect::<Result<_>>()?;
    transaction.commit().map_err(error)?;
    let background = (settings.commit == Commit::Group).then(|| {
        let env = env.clone();
        let pause = Duration::from_millis(u64::from(GROUP_DELAY_MS));
        Background::start(pause, move || env.force_sync().map_err(error))
    });
    Ok(Box::new(Lmdb { _background: background, env, trees }))
}

impl Engine for Lmdb {
    fn connect(&self) -> Result<Box<dyn Connection + '_>> {
        Ok(Box::new(LmdbConnection { lmdb: self, transaction: None }))
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn checkpoint(&self) -> Result<()> {
        self.env.force_sync().map_err(error)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()
    }
}

impl<'e> LmdbConnection<'e> {
    /// Returns the transaction for reads, and the tree of a table.
    fn reader(&self, table: Table) -> (&RoTxn<'e, WithoutTls>, Tree) {
        let reader = match self.transaction.as_ref().expect("a transaction was begun") {
            Open::Write(transaction) => transaction,
            Open::Read(transaction) => transaction,
        };
        (reader, self.lmdb.trees[table.0])
    }

    /// Returns the transaction for writes, and the tree of a table.
    fn writer(&mut self, table: Table) -> (&mut RwTxn<'e>, Tree) {
        let Some(Open::Write(transaction)) = &mut self.transaction else {
            panic!("nothing is written outside of a transaction that may write");
        };
        (transaction, self.lmdb.trees[table.0])
    }
}

impl Connection for LmdbConnection<'_> {
    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(Open::Write(self.lmdb.env.write_txn().map_err(error)?));
        Ok(())
    }

    fn begin_read(&mut self) -> Result<()> {
        self.transaction = Some(Open::Read(self.lmdb.env.read_txn().map_err(error)?));
        Ok(())
    }

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (transaction, tree) = self.reader(table);
        Ok(tree.get(transaction, key).map_err(error)?.map(<[u8]>::to_vec))
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let (transaction, tree) = self.writer(table);
        tree.put(transaction, key, value).map_err(error)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<()> {
        let (transaction, tree) = self.writer(table);
        tree.delete(transaction, key).map(drop).map_err(error)
    }

    fn scan(
        &mut self,
        table: Table,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        use std::ops::Bound::{Excluded, Included};
        let (transaction, tree) = self.reader(table);
        let bounds = (Included(low), Excluded(high));
        let mut see = |entry: heed::Result<(&[u8], &[u8])>| {
            entry.map(|(key, value)| visit(key, value)).map_err(error)
        };
        if direction == Direction::Up {
            for entry in tree.range(transaction, &bounds).map_err(error)? {
                if !see(entry)? {
                    break;
                }
            }
        } else {
            for entry in tree.rev_range(transaction, &bounds).map_err(error)? {
                if !see(entry)? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        match self.transaction.take().expect("a transaction was begun") {
            Open::Write(transaction) => transaction.commit().map_err(error),
            Open::Read(transaction) => transaction.commit().map_err(error),
        }
    }

    fn abort(&mut self) -> Result<()> {
        // Dropping it aborts it.
        self.transaction = None;
        Ok(())
    }
}

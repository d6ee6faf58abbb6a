//! The interface between workloads and stores, and the stores by name.
//!
//! A store has tables of ordered byte keys. Each thread uses its own connection, with one
//! transaction at a time; all transactions are serializable. If a store cannot run two transactions
//! concurrently, it waits or returns [`Error::Conflict`].
//!
//! # The same durability for all
//!
//! | | immediate | group |
//! |---|---|---|
//! | promise | a commit that returned survives the loss of power | a crash or the loss of power takes at most the last 10 ms |
//! | pages | log written and synced | log in memory, written and synced when its buffer is 80 % full, or after 10 ms |
//! | bdb | log written and synced | log in memory, written and synced every 10 ms |
//! | lmdb | pages and meta page written and synced | neither is synced but every 10 ms (weaker: the file may be damaged by the loss of power) |
//! | redb | written and synced | one commit in 10 ms is written and synced |
//! | sqlite | WAL written and synced | WAL written, and synced every 10 ms |
//!
//! # Transactions that only read
//!
//! [`Connection::begin_read`] begins a transaction that the workload knows to be read-only: as a
//! snapshot if the store reads one concurrently with its writer (lmdb, redb, sqlite), or with the
//! locks of any other transaction if those make it serializable (pages, bdb).

#[cfg(any(feature = "bdb", feature = "lmdb", feature = "sqlite"))]
mod background;
#[cfg(feature = "bdb")]
mod bdb;
#[cfg(feature = "lmdb")]
mod lmdb;
mod memory;
mod pages;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "sqlite")]
mod sqlite;
mod traced_disk;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::flash::trace::Trace;

/// The most that group commit may lose, in milliseconds.
pub const GROUP_DELAY_MS: u32 = 10;

/// A table, by its index in [`Settings::tables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table(pub usize);

/// The order in which a range is visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest key.
    Up,
    /// From the highest key.
    Down,
}

/// What a commit guarantees; see the table of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Commit {
    /// Durable when it returns.
    Immediate,
    /// Durable soon.
    Group,
}

/// The stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The page store.
    Pages,
    /// The page store, evicting dirty pages by writing them.
    PagesFlush,
    /// Berkeley DB 5.3.
    Bdb,
    /// LMDB.
    Lmdb,
    /// redb.
    Redb,
    /// SQLite with a write-ahead log.
    Sqlite,
    /// A tree in memory that forgets everything: the cost of the workload itself.
    Memory,
}

/// The configuration of a store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its directory; created if missing.
    pub dir: PathBuf,
    /// The names of its tables.
    pub tables: &'static [&'static str],
    /// Memory for all caches of the store.
    pub pool_bytes: usize,
    /// What a commit guarantees.
    pub commit: Commit,
    /// Pages only: the percentage of the memory for the online log table, instead of the default.
    pub online_log_percent: Option<usize>,
    /// Pages only: group commit writes the log when this many bytes have gathered.
    pub group_bytes: Option<usize>,
    /// Pages only: the log that a restart may read, instead of the default.
    pub log_bytes_max: Option<u64>,
    /// Berkeley DB only: takes a checkpoint after this much log.
    pub checkpoint_bytes: u64,
    /// Pages and Berkeley DB only: records reads and writes.
    pub(crate) trace: Option<Arc<Trace>>,
}

impl Settings {
    /// Returns the defaults for a store with these tables.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, tables: &'static [&'static str], commit: Commit) -> Self {
        Self {
            dir: dir.into(),
            tables,
            pool_bytes: 64 << 20,
            commit,
            online_log_percent: None,
            group_bytes: None,
            log_bytes_max: None,
            checkpoint_bytes: 60 << 20,
            trace: None,
        }
    }
}

/// The counters of a store since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Data pages read.
    pub page_reads: u64,
    /// Data pages written.
    pub page_writes: u64,
    /// Writes of the log.
    pub log_writes: u64,
    /// Bytes of log written.
    pub log_bytes: u64,
    /// Other counters of the store.
    pub more: BTreeMap<&'static str, u64>,
}

impl Counters {
    /// Returns the difference from `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let past = |name| before.more.get(name).copied().unwrap_or_default();
        Self {
            page_reads: self.page_reads.saturating_sub(before.page_reads),
            page_writes: self.page_writes.saturating_sub(before.page_writes),
            log_writes: self.log_writes.saturating_sub(before.log_writes),
            log_bytes: self.log_bytes.saturating_sub(before.log_bytes),
            more: self.more.iter().map(|(k, v)| (*k, v.saturating_sub(past(*k)))).collect(),
        }
    }
}

/// An open store.
pub trait Engine: Send + Sync {
    /// Opens a connection for one thread.
    ///
    /// # Errors
    /// Those of the store.
    fn connect(&self) -> Result<Box<dyn Connection + '_>>;

    /// Returns the counters, as far as the store has them.
    fn counters(&self) -> Counters;

    /// Writes everything to its place in the data files, so that a start has nothing to redo.
    ///
    /// # Errors
    /// Those of the store.
    fn checkpoint(&self) -> Result<()>;

    /// Makes everything durable and closes the store.
    ///
    /// # Errors
    /// Those of the store.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Visits an entry. Returns whether it wants the next one.
pub type Visitor<'v> = dyn FnMut(&[u8], &[u8]) -> bool + 'v;

/// A connection. A transaction lasts from `begin` to `commit` or `abort`; after an error, it can
/// only be aborted.
///
/// # Errors
/// [`Error::Conflict`] if the transaction must be aborted and retried; other errors are final.
#[expect(clippy::missing_errors_doc, reason = "said once for all of them")]
pub trait Connection {
    /// Begins a transaction.
    fn begin(&mut self) -> Result<()>;
    /// Begins a transaction that writes nothing. Stores that support it read without waiting for
    /// the writer.
    fn begin_read(&mut self) -> Result<()> {
        self.begin()
    }
    /// Returns the value of `key`.
    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Returns the value of `key`, which this transaction will write. Stores that support it lock
    /// the key for writing immediately.
    fn get_for_update(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(table, key)
    }
    /// Sets `key` to `value`, inserting or replacing.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes `key`, which must exist.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<()>;
    /// Visits the entries from `low` to before `high` in order, while `visit` wants more.
    fn scan(
        &mut self,
        table: Table,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()>;
    /// Ends the transaction with all of its changes.
    fn commit(&mut self) -> Result<()>;
    /// Ends the transaction without any change.
    fn abort(&mut self) -> Result<()>;
}

/// Opens a store, creating it if needed.
type Open = fn(&Settings) -> Result<Box<dyn Engine>>;

/// What is known of a store.
pub struct Store {
    kind: Kind,
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// The name of its file format: stores with the same name can share data. `None` if it keeps
    /// nothing on disk.
    pub format: Option<&'static str>,
    /// Whether a transaction that only reads has a snapshot, and waits for no writer.
    pub reads_snapshots: bool,
    /// Opens it; `None` if this program was built without it.
    open: Option<Open>,
}

/// The stores, in the order of [`Kind`].
static STORES: [Store; 7] = [
    Store {
        kind: Kind::Pages,
        name: "pages",
        format: Some("pages"),
        reads_snapshots: false,
        open: Some(|settings| pages::open(settings, false)),
    },
    Store {
        kind: Kind::PagesFlush,
        name: "pages-flush",
        format: Some("pages"),
        reads_snapshots: false,
        open: Some(|settings| pages::open(settings, true)),
    },
    Store {
        kind: Kind::Bdb,
        name: "bdb",
        format: Some("bdb"),
        reads_snapshots: false,
        #[cfg(feature = "bdb")]
        open: Some(bdb::open),
        #[cfg(not(feature = "bdb"))]
        open: None,
    },
    Store {
        kind: Kind::Lmdb,
        name: "lmdb",
        format: Some("lmdb"),
        reads_snapshots: true,
        #[cfg(feature = "lmdb")]
        open: Some(lmdb::open),
        #[cfg(not(feature = "lmdb"))]
        open: None,
    },
    Store {
        kind: Kind::Redb,
        name: "redb",
        format: Some("redb"),
        reads_snapshots: true,
        #[cfg(feature = "redb")]
        open: Some(redb::open),
        #[cfg(not(feature = "redb"))]
        open: None,
    },
    Store {
        kind: Kind::Sqlite,
        name: "sqlite",
        format: Some("sqlite"),
        reads_snapshots: true,
        #[cfg(feature = "sqlite")]
        open: Some(sqlite::open),
        #[cfg(not(feature = "sqlite"))]
        open: None,
    },
    Store {
        kind: Kind::Memory,
        name: "memory",
        format: None,
        reads_snapshots: false,
        open: Some(|settings| Ok(memory::open(settings))),
    },
];

impl Kind {
    /// What is known of it.
    #[must_use]
    pub fn store(self) -> &'static Store {
        &STORES[self as usize]
    }

    /// Its name on the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.store().name
    }

    /// Returns the stores on disk that this program was built with.
    pub fn built_in() -> impl Iterator<Item = Self> {
        let is_built_in = |store: &&Store| store.open.is_some() && store.format.is_some();
        STORES.iter().filter(is_built_in).map(|store| store.kind)
    }

    /// Opens the store, creating it if needed.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or the store's own.
    pub fn open(self, settings: &Settings) -> Result<Box<dyn Engine>> {
        let store = self.store();
        let open = store.open.ok_or(Error::NotBuilt { engine: store.name })?;
        open(settings)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn each_store_is_in_its_place_and_is_called_what_the_command_line_calls_it() {
        assert_eq!(Kind::value_variants().len(), STORES.len());
        for kind in Kind::value_variants() {
            assert_eq!(kind.store().kind, *kind);
            assert_eq!(kind.name(), kind.to_possible_value().expect("none is hidden").get_name());
        }
    }

    #[test]
    fn a_store_that_is_not_built_in_says_how_to_build_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = Settings::new(dir.path(), &["t"], Commit::Group);
        for store in STORES.iter().filter(|store| store.open.is_none()) {
            let why = store.kind.open(&settings).err().expect("it is not there").to_string();
            assert!(why.contains(store.name) && why.contains("make bench-peers"), "{why}");
        }
    }
}

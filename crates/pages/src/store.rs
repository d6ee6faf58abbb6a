//! The store: opening, closing, and operations on it as a whole.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::Duration;

use crate::FileError;
use crate::background::Background;
use crate::checkpoint::Effort;
use crate::error::{Error, Result};
use crate::latch::{Inner, Queue};
use crate::locks::LockTable;
use crate::options::{Env, Options, Stats, Upkeep};
use crate::position::LogOffset;
use crate::transaction::{ReadTransaction, Transaction};

/// One transaction may change the online log table's size divided by this. With the splits that
/// they cause, its records then fit the table.
const TRANSACTION_SHARE: usize = 4;

/// An open store. A clone is another handle on it, for another thread.
#[derive(Clone)]
pub struct PageStore {
    pub(crate) inner: Arc<Inner>,
    /// Ends with the last handle.
    _background: Option<Arc<Background>>,
}

impl PageStore {
    /// Opens the store in directory `dir` of the local file system, creating it if needed.
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let dir = dir.path().join("shop");
    /// use pages::{Durability, Options, PageStore};
    ///
    /// let store = PageStore::open_path(&dir, Options::default())?;
    /// let transaction = store.begin()?;
    /// transaction.table("stock").insert("apples", "12")?;
    /// transaction.commit(Durability::Immediate)?;
    /// drop(store);
    ///
    /// let store = PageStore::open_path(&dir, Options::default())?;
    /// let apples = store.begin_read()?.table("stock").get("apples")?;
    /// assert_eq!(apples.as_deref(), Some(&b"12"[..]));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`PageStore::open`].
    pub fn open_path(dir: impl Into<PathBuf>, options: Options) -> Result<Self> {
        let env = Env { disk: Arc::new(env_os::OsDisk), clock: Arc::new(env_os::OsClock::new()) };
        Self::open(&env, Options { dir: dir.into(), ..options })
    }

    /// Opens the store in `options.dir`, creating it if needed. After a crash, this reads the log
    /// from the redo starting point and no page: on-the-fly redo rebuilds each page when it is
    /// first used.
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let env = pages::Env {
    /// #     disk: std::sync::Arc::new(env_sim::SimDisk::new(1, env_sim::Faults::default())),
    /// #     clock: std::sync::Arc::new(env_sim::SimClock::new(0)),
    /// # };
    /// # use pages::{Durability, Options, PageStore};
    /// let store = PageStore::open(&env, Options::with_memory("/data", 128 << 20))?;
    /// assert!(matches!(
    ///     PageStore::open(&env, Options::new("/data")),
    ///     Err(pages::Error::File(pages::FileError::InUse { .. }))
    /// ));
    /// store.close()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`crate::FileError::InUse`] if it is open elsewhere, [`crate::FileError::Corrupt`] if
    /// durable bytes are damaged.
    pub fn open(env: &Env, options: Options) -> Result<Self> {
        let dir = options.dir.clone();
        env.disk.create_dir_all(&dir).map_err(Error::io(&dir, "create"))?;
        let path: PathBuf = dir.join("pages.lock");
        let lock = env.disk.lock(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                FileError::InUse { path: path.clone(), what: "another process has this store open" }
                    .into()
            }
            _ => Error::io(&path, "lock")(error),
        })?;
        let seed = (env.clock.now_ms().cast_unsigned() << 20) ^ env.clock.monotonic_us();
        let salt = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let core = crate::recovery::recover(env, options.clone(), salt)?;
        let inner = Arc::new(Inner {
            log: Arc::clone(&core.log),
            core: RwLock::new(core),
            queue: Queue::default(),
            turn: Mutex::new(()),
            locks: Mutex::new(LockTable::default()),
            lock_released: Condvar::new(),
            lock_wait: options.lock_wait,
            clock: Arc::clone(&env.clock),
            upkeep: options.upkeep,
            group_delay: Duration::from_millis(options.group_delay_ms.into()),
            transaction_bytes_max: options.online_log_bytes / TRANSACTION_SHARE,
            page_hits: AtomicU64::new(0),
            _lock: lock,
        });
        let is_new = inner.share().master.checkpoint == LogOffset(0);
        if is_new {
            inner.whole_checkpoint(Effort::None)?;
        }
        inner.latch().meta()?;
        let background = match options.upkeep {
            Upkeep::Background => Some(Arc::new(Background::start(&inner)?)),
            Upkeep::Inline => None,
        };
        Ok(Self { inner, _background: background })
    }

    /// Opens a store without changing its files. Whatever recovery or transactions write stays in
    /// memory and is forgotten. For looking at a store that may be damaged.
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # use pages::{Durability, Options, PageStore};
    /// # PageStore::open_path(dir.path(), Options::default())?.close()?;
    /// let store = PageStore::open_detached(dir.path(), Options::default())?;
    /// println!("{:?}", store.check()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`PageStore::open`]; [`crate::FileError::Io`] if there is no store.
    pub fn open_detached(dir: impl Into<PathBuf>, options: Options) -> Result<Self> {
        let (dir, real) = (dir.into(), Arc::new(env_os::OsDisk));
        let path = dir.join(crate::data_file::NAME);
        let is_there = env::Disk::exists(real.as_ref(), &path).map_err(Error::io(&path, "find"))?;
        if !is_there {
            return Err(Error::io(&path, "find")(std::io::ErrorKind::NotFound.into()));
        }
        let disk = Arc::new(crate::detached::DetachedDisk::new(real));
        let env = Env { disk, clock: Arc::new(env_os::OsClock::new()) };
        Self::open(&env, Options { dir, upkeep: Upkeep::Inline, ..options })
    }

    /// Begins a transaction that may read and write, serializable with all others.
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let env = pages::Env {
    /// #     disk: std::sync::Arc::new(env_sim::SimDisk::new(1, env_sim::Faults::default())),
    /// #     clock: std::sync::Arc::new(env_sim::SimClock::new(0)),
    /// # };
    /// # use pages::{Durability, Options, PageStore};
    /// # let store = PageStore::open(&env, Options::new("/data"))?;
    /// let transaction = store.begin()?;
    /// let colours = transaction.table("colours");
    /// colours.insert("sky", "blue")?;
    /// assert_eq!(colours.get("sky")?.as_deref(), Some(&b"blue"[..]));
    /// assert!(colours.remove("sky")?);
    /// colours.insert("grass", "green")?;
    /// transaction.commit(Durability::Immediate)?;
    ///
    /// let transaction = store.begin()?;
    /// transaction.table("colours").insert("grass", "grey")?;
    /// transaction.abort();
    /// let last = store.begin_read()?.table("colours").last()?;
    /// assert_eq!(last, Some((b"grass".to_vec(), b"green".to_vec())));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn begin(&self) -> Result<Transaction> {
        Transaction::begin(&self.inner)
    }

    /// Begins a transaction that only reads.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn begin_read(&self) -> Result<ReadTransaction> {
        Transaction::begin(&self.inner).map(ReadTransaction::new)
    }

    /// The most bytes that the changes of one transaction may take. Keys, values, and 64 bytes per
    /// change count. For larger changes, commit several times:
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # use pages::{Durability, Error, Options, PageStore};
    /// let store = PageStore::open_path(dir.path(), Options::with_memory("", 1 << 20))?;
    /// let rows = (0..30_000_u32).map(|i| (i.to_be_bytes(), [b'v'; 100]));
    ///
    /// let mut transaction = store.begin()?;
    /// for (key, value) in rows {
    ///     match transaction.table("large").insert(key, value) {
    ///         Err(Error::TransactionTooLarge { .. }) => {
    ///             transaction.commit(Durability::None)?;
    ///             transaction = store.begin()?;
    ///             transaction.table("large").insert(key, value)?;
    ///         }
    ///         other => other?,
    ///     }
    /// }
    /// transaction.commit(Durability::Immediate)?; // and all before it
    /// assert_eq!(store.begin_read()?.table("large").iter().count(), 30_000);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn transaction_bytes_max(&self) -> usize {
        self.inner.transaction_bytes_max()
    }

    /// Makes all committed transactions durable.
    ///
    /// # Errors
    /// [`crate::FileError::Io`] if the write fails, [`Error::Poisoned`] if an earlier one has
    /// failed.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush_all()
    }

    /// Waits until the transaction whose commit returned `offset` is durable.
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let env = pages::Env {
    /// #     disk: std::sync::Arc::new(env_sim::SimDisk::new(1, env_sim::Faults::default())),
    /// #     clock: std::sync::Arc::new(env_sim::SimClock::new(0)),
    /// # };
    /// # use pages::{Durability, Options, PageStore};
    /// # let store = PageStore::open(&env, Options::new("/data"))?;
    /// let mut last = None;
    /// for day in 1..=31_u8 {
    ///     let transaction = store.begin()?;
    ///     transaction.table("diary").insert([day], "nothing happened")?;
    ///     last = Some(transaction.commit(Durability::Group)?);
    /// }
    /// if let Some(last) = last {
    ///     store.wait_durable(last)?; // one write of the log for all of them
    /// }
    /// assert_eq!(store.begin_read()?.table("diary").range([30_u8]..).count(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`PageStore::flush`].
    pub fn wait_durable(&self, offset: LogOffset) -> Result<()> {
        self.inner.flush_past(offset)
    }

    /// The end of the durable log: a transaction is durable if its commit returned less. A program
    /// that commits without waiting learns from this what it may acknowledge.
    #[must_use]
    pub fn durable_end(&self) -> LogOffset {
        self.inner.log.durable_end()
    }

    /// Writes the log if the delay of a group commit has passed. With [`Upkeep::Inline`], a program
    /// that does not always have something to commit must call this from time to time.
    ///
    /// # Errors
    /// As [`PageStore::flush`].
    pub fn tick(&self) -> Result<()> {
        self.inner.flush_if_late(false)
    }

    /// The names of all tables that were ever committed to, in order.
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # use pages::{Durability, Options, PageStore};
    /// # let store = PageStore::open_path(dir.path(), Options::default())?;
    /// let transaction = store.begin()?;
    /// transaction.table("stock").insert("apples", "12")?;
    /// transaction.table("orders").insert("1", "apples")?;
    /// transaction.commit(Durability::Immediate)?;
    /// assert_eq!(store.list_tables()?, [b"orders".to_vec(), b"stock".to_vec()]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`]; [`crate::FileError::Corrupt`] or [`crate::FileError::Io`] if a page
    /// cannot be read.
    pub fn list_tables(&self) -> Result<Vec<Vec<u8>>> {
        let mut core = self.inner.latch();
        self.inner.log.healthy()?;
        core.table_names()
    }

    /// Takes a checkpoint now, by the same rules as an automatic one.
    ///
    /// # Errors
    /// As [`PageStore::flush`]; [`crate::FileError::Corrupt`] if a page cannot be read.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.whole_checkpoint(Effort::Normal)
    }

    /// Takes a checkpoint that writes every dirty page.
    ///
    /// # Errors
    /// As [`PageStore::checkpoint`].
    pub fn checkpoint_all(&self) -> Result<()> {
        self.inner.whole_checkpoint(Effort::All)
    }

    /// The counters of the store.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.inner.latch().stats();
        stats.page_hits += self.inner.page_hits.load(Ordering::Relaxed);
        stats
    }

    /// Walks every page and proves the invariants. Trees are in order and within the bounds of
    /// their parents, every page is in exactly one place, on-the-fly redo equals memory.
    ///
    /// # Errors
    /// [`crate::FileError::Corrupt`] with the first violation.
    pub fn check(&self) -> Result<crate::check::Report> {
        let mut core = self.inner.latch();
        self.inner.log.healthy()?;
        crate::check::check(&mut core)
    }

    /// Makes everything durable and takes a checkpoint without writing pages. Afterwards the whole
    /// log is known to exist. A store that is merely dropped is recovered on the next open, and
    /// loses what was not durable.
    ///
    /// # Errors
    /// As [`PageStore::flush`].
    pub fn close(self) -> Result<()> {
        self.inner.whole_checkpoint(Effort::None)
    }
}

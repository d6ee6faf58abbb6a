//! Berkeley DB 5.3: B-trees of 8 KiB pages, one file per table, with its transactions, log and
//! locks.
//!
//! The pool is its cache (which it enlarges by a quarter for bookkeeping if it is below 500 MB).
//! Locks are on pages, and deadlocks are detected immediately. The log is undo and redo. A thread
//! takes a checkpoint after every `checkpoint_bytes` of it; for group commit, another thread writes
//! and syncs it every 10 ms. Files are read and written through the kernel's page cache.
//!
//! This file holds `unsafe` because it calls C: pointers from Berkeley DB are used only while they
//! are valid, and buffers are passed with their lengths.
#![expect(unsafe_code, reason = "Berkeley DB is a C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::background::Background;
use super::{
    Commit, Connection, Counters, Direction, Engine, GROUP_DELAY_MS, Settings, Table, Visitor,
};
use crate::error::{Error, Result};
use crate::flash::trace::{Trace, What};

/// The initial capacity for values; buffers grow when a value is longer.
const BUFFER_BYTES: usize = 4096;
/// The longest key of a workload.
const KEY_BYTES: usize = 1024;
/// The interval of checks whether a checkpoint is due.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(100);

/// Opaque: `struct bdb` of bdb.c.
#[repr(C)]
struct Raw {
    _private: [u8; 0],
}

/// As `struct bdb_counters`.
#[repr(C)]
#[derive(Default)]
struct RawCounters {
    page_reads: u64,
    page_writes: u64,
    log_writes: u64,
    log_bytes: u64,
    log_syncs: u64,
    hits: u64,
    misses: u64,
    evictions_clean: u64,
    evictions_dirty: u64,
    deadlocks: u64,
}

unsafe extern "C" {
    fn bdb_open(
        dir: *const c_char,
        cache_bytes: u64,
        names: *const *const c_char,
        table_count: c_int,
        opened: *mut *mut Raw,
    ) -> c_int;
    fn bdb_close(bdb: *mut Raw) -> c_int;
    fn bdb_begin(bdb: *mut Raw, transaction: *mut *mut c_void) -> c_int;
    fn bdb_commit(transaction: *mut c_void, is_synced: c_int) -> c_int;
    fn bdb_abort(transaction: *mut c_void) -> c_int;
    fn bdb_get(
        bdb: *mut Raw,
        transaction: *mut c_void,
        table: c_int,
        key: *const u8,
        key_bytes: u32,
        is_for_update: c_int,
        value: *mut u8,
        capacity: u32,
        value_bytes: *mut u32,
    ) -> c_int;
    fn bdb_put(
        bdb: *mut Raw,
        transaction: *mut c_void,
        table: c_int,
        key: *const u8,
        key_bytes: u32,
        value: *const u8,
        value_bytes: u32,
    ) -> c_int;
    fn bdb_delete(
        bdb: *mut Raw,
        transaction: *mut c_void,
        table: c_int,
        key: *const u8,
        key_bytes: u32,
    ) -> c_int;
    fn bdb_cursor(
        bdb: *mut Raw,
        transaction: *mut c_void,
        table: c_int,
        cursor: *mut *mut c_void,
    ) -> c_int;
    fn bdb_cursor_close(cursor: *mut c_void) -> c_int;
    fn bdb_cursor_move(
        cursor: *mut c_void,
        to: c_int,
        key: *mut u8,
        key_capacity: u32,
        key_bytes: *mut u32,
        value: *mut u8,
        capacity: u32,
        value_bytes: *mut u32,
    ) -> c_int;
    fn bdb_flush_log(bdb: *mut Raw) -> c_int;
    fn bdb_checkpoint(bdb: *mut Raw, log_kilobytes: u32) -> c_int;
    fn bdb_count(bdb: *mut Raw, counters: *mut RawCounters) -> c_int;
    fn bdb_trace(tracer: extern "C" fn(c_int, c_int, *const c_char, u64, u64));
    fn bdb_text(error: c_int) -> *const c_char;
    fn bdb_is(error: c_int, what: c_int) -> c_int;
}

/// The questions that `bdb_is` answers.
#[derive(Clone, Copy)]
enum Is {
    Deadlock = 0,
    NotFound = 1,
    BufferSmall = 2,
}

/// The moves of `bdb_cursor_move`.
#[derive(Clone, Copy)]
enum Move {
    AtOrBehind = 0,
    Next = 1,
    Previous = 2,
    Last = 3,
}

fn is(code: c_int, what: Is) -> bool {
    // SAFETY: a pure function of numbers.
    code != 0 && unsafe { bdb_is(code, what as c_int) } != 0
}

fn check(code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    if is(code, Is::Deadlock) {
        return Err(Error::Conflict);
    }
    // SAFETY: the text is static, or in a buffer of the library that lives as long.
    let text = unsafe { CStr::from_ptr(bdb_text(code)) };
    Err(Error::engine("bdb")(&text.to_string_lossy()))
}

fn len(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("buffers and rows are far smaller than 4 GB")
}

fn number(table: Table) -> c_int {
    c_int::try_from(table.0).expect("there are few tables")
}

/// An open environment.
struct Environment(*mut Raw);

// SAFETY: the environment and its databases are opened with DB_THREAD: their handles may be used
// by several threads at once.
unsafe impl Send for Environment {}
// SAFETY: as above.
unsafe impl Sync for Environment {}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: no user of the handle is left: the connections that borrowed it are gone. A
        // caller that needs to know of a failure takes a checkpoint first.
        let _code = unsafe { bdb_close(self.0) };
    }
}

/// Where the hooks of the library record events; there is one set of hooks per process.
static TRACE: OnceLock<Arc<Trace>> = OnceLock::new();

/// The callback of the hooks. Its speed does not matter: runs with a trace are not measured.
extern "C" fn see(kind: c_int, fd: c_int, path: *const c_char, offset: u64, bytes: u64) {
    let Some(trace) = TRACE.get() else { return };
    let path = if path.is_null() {
        std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default()
    } else {
        // SAFETY: the library calls the hook with a path that ends with a zero.
        PathBuf::from(unsafe { CStr::from_ptr(path) }.to_string_lossy().as_ref())
    };
    let len = std::fs::metadata(&path).map(|metadata| metadata.len()).unwrap_or_default();
    let file = trace.file(&path, len);
    let what = match kind {
        1 => What::Read,
        2 => What::Write,
        _ => What::Removed,
    };
    trace.add(what, file, offset, bytes);
}

struct Bdb {
    // Dropped first: these threads use the environment.
    _background: Vec<Background>,
    environment: Arc<Environment>,
    is_synced: bool,
}

pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>> {
    std::fs::create_dir_all(&settings.dir).map_err(Error::file(&settings.dir))?;
    let c_string = |bytes: &[u8]| CString::new(bytes).map_err(|error| Error::engine("bdb")(&error));
    let dir = c_string(settings.dir.as_os_str().as_bytes())?;
    let names = settings.tables.iter().map(|name| c_string(name.as_bytes()));
    let names: Vec<CString> = names.collect::<Result<_>>()?;
    let pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    if let Some(trace) = &settings.trace
        && TRACE.set(Arc::clone(trace)).is_ok()
    {
        // SAFETY: the hooks are set only once, above, before the first environment is created.
        unsafe { bdb_trace(see) };
    }
    let mut raw = ptr::null_mut();
    // SAFETY: all texts end with a zero and live until the call returns.
    check(unsafe {
        let count = c_int::try_from(pointers.len()).expect("there are few tables");
        bdb_open(dir.as_ptr(), settings.pool_bytes as u64, pointers.as_ptr(), count, &raw mut raw)
    })?;
    let environment = Arc::new(Environment(raw));
    let mut background = Vec::new();
    let kilobytes = u32::try_from(settings.checkpoint_bytes >> 10).unwrap_or(u32::MAX).max(1);
    let handle = Arc::clone(&environment);
    background.push(Background::start(CHECKPOINT_PAUSE, move || {
        // SAFETY: the handle is open as long as the `Arc` is held.
        check(unsafe { bdb_checkpoint(handle.0, kilobytes) })
    }));
    if settings.commit == Commit::Group {
        let pause = Duration::from_millis(u64::from(GROUP_DELAY_MS));
        let handle = Arc::clone(&environment);
        // SAFETY: as above.
        background
            .push(Background::start(pause, move || check(unsafe { bdb_flush_log(handle.0) })));
    }
    let is_synced = settings.commit == Commit::Immediate;
    Ok(Box::new(Bdb { _background: background, environment, is_synced }))
}

impl Engine for Bdb {
    fn connect(&self) -> Result<Box<dyn Connection + '_>> {
        let (key, value) = (vec![0; KEY_BYTES], vec![0; BUFFER_BYTES]);
        Ok(Box::new(BdbConnection { bdb: self, transaction: ptr::null_mut(), key, value }))
    }

    fn counters(&self) -> Counters {
        let mut raw = RawCounters::default();
        // SAFETY: the environment is open, and the structure has the type that the call fills.
        if unsafe { bdb_count(self.environment.0, &raw mut raw) } != 0 {
            return Counters::default();
        }
        let more = [
            ("page_hits", raw.hits),
            ("page_misses", raw.misses),
            ("log_flushes", raw.log_syncs),
            ("evictions_clean", raw.evictions_clean),
            ("evictions_flushed", raw.evictions_dirty),
            ("deadlocks", raw.deadlocks),
        ];
        Counters {
            page_reads: raw.page_reads,
            page_writes: raw.page_writes,
            log_writes: raw.log_writes,
            log_bytes: raw.log_bytes,
            more: more.into_iter().collect(),
        }
    }

    fn checkpoint(&self) -> Result<()> {
        // SAFETY: the environment is open.
        check(unsafe { bdb_checkpoint(self.environment.0, 0) })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()
    }
}

struct BdbConnection<'e> {
    bdb: &'e Bdb,
    /// Null between transactions.
    transaction: *mut c_void,
    key: Vec<u8>,
    value: Vec<u8>,
}

struct Cursor(*mut c_void);

impl Drop for Cursor {
    fn drop(&mut self) {
        // SAFETY: it was opened, is closed once, and before its transaction ends. After a deadlock
        // the transaction is aborted anyway.
        let _code = unsafe { bdb_cursor_close(self.0) };
    }
}

impl BdbConnection<'_> {
    fn raw(&self) -> *mut Raw {
        self.bdb.environment.0
    }

    fn read(&mut self, table: Table, key: &[u8], is_for_update: bool) -> Result<Option<Vec<u8>>> {
        loop {
            let mut found = 0;
            // SAFETY: handles are open; key and buffer live until the call returns.
            let code = unsafe {
                bdb_get(
                    self.raw(),
                    self.transaction,
                    number(table),
                    key.as_ptr(),
                    len(key),
                    c_int::from(is_for_update),
                    self.value.as_mut_ptr(),
                    len(&self.value),
                    &raw mut found,
                )
            };
            if is(code, Is::NotFound) {
                return Ok(None);
            }
            if !is(code, Is::BufferSmall) {
                return check(code).map(|()| Some(self.value[..found as usize].to_vec()));
            }
            self.value.resize(found as usize, 0);
        }
    }

    /// Moves a cursor. Returns the lengths of key and value, or `None` at the end.
    fn step(&mut self, cursor: &Cursor, to: Move, low: &[u8]) -> Result<Option<(usize, usize)>> {
        loop {
            let (mut key_bytes, mut value_bytes) = (len(low), 0);
            self.key[..low.len()].copy_from_slice(low);
            // SAFETY: the cursor is open; both buffers live until the call returns.
            let code = unsafe {
                bdb_cursor_move(
                    cursor.0,
                    to as c_int,
                    self.key.as_mut_ptr(),
                    len(&self.key),
                    &raw mut key_bytes,
                    self.value.as_mut_ptr(),
                    len(&self.value),
                    &raw mut value_bytes,
                )
            };
            if is(code, Is::NotFound) {
                return Ok(None);
            }
            if !is(code, Is::BufferSmall) {
                return check(code).map(|()| Some((key_bytes as usize, value_bytes as usize)));
            }
            self.value.resize(value_bytes as usize, 0);
        }
    }

    fn end(&mut self) -> *mut c_void {
        std::mem::replace(&mut self.transaction, ptr::null_mut())
    }
}

impl Connection for BdbConnection<'_> {
    fn begin(&mut self) -> Result<()> {
        // SAFETY: the environment is open.
        check(unsafe { bdb_begin(self.raw(), &raw mut self.transaction) })
    }

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read(table, key, false)
    }

    fn get_for_update(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read(table, key, true)
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        // SAFETY: handles are open; key and value live until the call returns.
        check(unsafe {
            bdb_put(
                self.raw(),
                self.transaction,
                number(table),
                key.as_ptr(),
                len(key),
                value.as_ptr(),
                len(value),
            )
        })
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<()> {
        // SAFETY: handles are open; the key lives until the call returns.
        check(unsafe {
            bdb_delete(self.raw(), self.transaction, number(table), key.as_ptr(), len(key))
        })
    }

    fn scan(
        &mut self,
        table: Table,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let mut raw = ptr::null_mut();
        // SAFETY: handles are open.
        check(unsafe { bdb_cursor(self.raw(), self.transaction, number(table), &raw mut raw) })?;
        let cursor = Cursor(raw);
        let mut at = match direction {
            Direction::Up => self.step(&cursor, Move::AtOrBehind, low)?,
            Direction::Down => match self.step(&cursor, Move::AtOrBehind, high)? {
                Some(_) => self.step(&cursor, Move::Previous, b"")?,
                None => self.step(&cursor, Move::Last, b"")?,
            },
        };
        while let Some((key_bytes, value_bytes)) = at {
            let key = &self.key[..key_bytes];
            let is_inside = low <= key && key < high;
            if !is_inside || !visit(key, &self.value[..value_bytes]) {
                break;
            }
            let to = if direction == Direction::Up { Move::Next } else { Move::Previous };
            at = self.step(&cursor, to, b"")?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let transaction = self.end();
        // SAFETY: the transaction is open, and its cursors are closed; it ends here, whatever the
        // result.
        check(unsafe { bdb_commit(transaction, c_int::from(self.bdb.is_synced)) })
    }

    fn abort(&mut self) -> Result<()> {
        let transaction = self.end();
        if transaction.is_null() {
            return Ok(());
        }
        // SAFETY: as in `commit`.
        check(unsafe { bdb_abort(transaction) })
    }
}

impl Drop for BdbConnection<'_> {
    fn drop(&mut self) {
        let _aborted = self.abort();
    }
}

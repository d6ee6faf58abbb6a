//! SQLite with a write-ahead log: one WITHOUT ROWID table for each of ours, with pages of 8 KiB.
//!
//! The pool is its page cache, divided among the connections of several threads. With immediate
//! commit, every commit syncs the log (`synchronous=FULL`); with group commit (`NORMAL`), a thread
//! syncs it every 10 ms. Checkpoints are SQLite's own, after 1000 pages of log.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::background::Background;
use super::{
    Commit, Connection, Counters, Direction, Engine, GROUP_DELAY_MS, Settings, Table, Visitor,
};
use crate::error::{Error, Result};

/// The time that a transaction waits for its turn.
const BUSY_PATIENCE: Duration = Duration::from_secs(60);
/// An upper bound of the statements: six per table.
const STATEMENTS: usize = 128;

struct Sqlite {
    _background: Option<Background>,
    path: PathBuf,
    settings: Settings,
}

struct SqliteConnection {
    connection: rusqlite::Connection,
    statements: Vec<Statements>,
    is_active: bool,
}

/// The SQL statements for a table.
struct Statements {
    get: String,
    put: String,
    delete: String,
    up: String,
    down: String,
}

fn error(error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => Error::Conflict,
        _ => Error::engine("sqlite")(&error),
    }
}

pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>> {
    std::fs::create_dir_all(&settings.dir).map_err(Error::file(&settings.dir))?;
    let path = settings.dir.join("data.sqlite");
    let sqlite = Sqlite { _background: None, path, settings: settings.clone() };
    let connection = sqlite.open_connection()?;
    for table in settings.tables {
        let statement = format!(
            "CREATE TABLE IF NOT EXISTS \"{table}\" (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
        );
        connection.execute_batch(&statement).map_err(error)?;
    }
    let background = match settings.commit {
        Commit::Immediate => None,
        Commit::Group => {
            let log = settings.dir.join("data.sqlite-wal");
            // A sync through any handle covers the writes of all.
            let log = File::open(&log).map_err(Error::file(&log))?;
            let pause = Duration::from_millis(u64::from(GROUP_DELAY_MS));
            Some(Background::start(pause, move || {
                log.sync_data().map_err(|error| Error::engine("sqlite")(&error))
            }))
        }
    };
    // The log exists as long as a connection does.
    drop(connection);
    Ok(Box::new(Sqlite { _background: background, ..sqlite }))
}

impl Sqlite {
    fn open_connection(&self) -> Result<rusqlite::Connection> {
        let connection = rusqlite::Connection::open(&self.path).map_err(error)?;
        let cache_kib = self.settings.pool_bytes >> 10;
        let synchronous = match self.settings.commit {
            Commit::Immediate => "FULL",
            Commit::Group => "NORMAL",
        };
        let pragmas = format!(
            "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA cache_size = -{cache_kib}; \
             PRAGMA synchronous = {synchronous};"
        );
        connection.execute_batch(&pragmas).map_err(error)?;
        connection.busy_timeout(BUSY_PATIENCE).map_err(error)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(connection)
    }
}

impl Engine for Sqlite {
    fn connect(&self) -> Result<Box<dyn Connection + '_>> {
        let statements = self.settings.tables.iter().map(|table| {
            let range = format!(
                "SELECT key, value FROM \"{table}\" WHERE key >= ? AND key < ? ORDER BY key"
            );
            Statements {
                get: format!("SELECT value FROM \"{table}\" WHERE key = ?"),
                put: format!("INSERT OR REPLACE INTO \"{table}\" VALUES (?, ?)"),
                delete: format!("DELETE FROM \"{table}\" WHERE key = ?"),
                down: format!("{range} DESC"),
                up: range,
            }
        });
        Ok(Box::new(SqliteConnection {
            connection: self.open_connection()?,
            statements: statements.collect(),
            is_active: false,
        }))
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn checkpoint(&self) -> Result<()> {
        let connection = self.open_connection()?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(error)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()
    }
}

impl SqliteConnection {
    fn run(&mut self, statement: &str) -> Result<()> {
        self.connection.prepare_cached(statement).map_err(error)?.execute([]).map_err(error)?;
        Ok(())
    }
}

impl Connection for SqliteConnection {
    fn begin(&mut self) -> Result<()> {
        self.run("BEGIN IMMEDIATE")?;
        self.is_active = true;
        Ok(())
    }

    fn begin_read(&mut self) -> Result<()> {
        self.run("BEGIN DEFERRED")?;
        self.is_active = true;
        Ok(())
    }

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let text = &self.statements[table.0].get;
        let mut statement = self.connection.prepare_cached(text).map_err(error)?;
        statement.query_row(params![key], |row| row.get(0)).optional().map_err(error)
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let text = &self.statements[table.0].put;
        let mut statement = self.connection.prepare_cached(text).map_err(error)?;
        statement.execute(params![key, value]).map(drop).map_err(error)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<()> {
        let text = &self.statements[table.0].delete;
        let mut statement = self.connection.prepare_cached(text).map_err(error)?;
        statement.execute(params![key]).map(drop).map_err(error)
    }

    fn scan(
        &mut self,
        table: Table,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let statements = &self.statements[table.0];
        let text = if direction == Direction::Up { &statements.up } else { &statements.down };
        let mut statement = self.connection.prepare_cached(text).map_err(error)?;
        let mut rows = statement.query(params![low, high]).map_err(error)?;
        while let Some(row) = rows.next().map_err(error)? {
            let blob = |index| {
                let value = row.get_ref(index).map_err(error)?;
                value.as_blob().map_err(|wrong| Error::engine("sqlite")(&wrong))
            };
            if !visit(blob(0)?, blob(1)?) {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.run("COMMIT")?;
        self.is_active = false;
        Ok(())
    }

    fn abort(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_active) {
            self.run("ROLLBACK")?;
        }
        Ok(())
    }
}

//! A terminal: picks transactions by the standard mix, runs each to its end, and counts them.
//!
//! Every transaction uses a random warehouse, so that a few connections represent the ten terminals
//! of each warehouse. There is no keying time and no thinking time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::random::{Constants, Random};
use super::schema::{Row, Scale};
use crate::engine::{Connection, Table};
use crate::error::{Error, Result};

/// The five kinds of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new_order",
            Self::Payment => "payment",
            Self::OrderStatus => "order_status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock_level",
        }
    }

    /// The standard mix (clause 5.2.3): 45 % new orders, 43 % payments, 4 % each of the others.
    fn of_percentile(percentile: u32) -> Self {
        match percentile {
            0..45 => Self::NewOrder,
            45..88 => Self::Payment,
            88..92 => Self::OrderStatus,
            92..96 => Self::Delivery,
            _ => Self::StockLevel,
        }
    }
}

/// Which transactions are rolled back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rollbacks {
    /// One new order in a hundred, because of a missing item (clause 2.4.1.4).
    Standard,
    /// This percentage of all transactions that write, at their end.
    Percent(f64),
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Committed,
    RolledBack,
}

/// The counts of a terminal.
#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    /// Microseconds of each completed transaction, by kind, including retries.
    pub(super) latencies_us: [Vec<u32>; 5],
    /// Those of them that the benchmark rolled back on purpose.
    pub(super) rolled_back: u64,
    /// How often a transaction was aborted because of a conflict and retried.
    pub(super) conflicts: u64,
}

impl Tally {
    pub(super) fn ended(&self) -> u64 {
        self.latencies_us.iter().map(|latencies| latencies.len() as u64).sum()
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (own, others) in self.latencies_us.iter_mut().zip(&other.latencies_us) {
            own.extend_from_slice(others);
        }
        self.rolled_back += other.rolled_back;
        self.conflicts += other.conflicts;
    }
}

/// A terminal and its connection.
pub(super) struct Terminal<'e> {
    pub(super) connection: Box<dyn Connection + 'e>,
    pub(super) random: Random,
    pub(super) scale: Scale,
    pub(super) tally: Tally,
    /// Its number, from 1.
    pub(super) number: u16,
    rollbacks: Rollbacks,
    last_time_us: u64,
}

impl<'e> Terminal<'e> {
    pub(super) fn new(
        connection: Box<dyn Connection + 'e>,
        scale: Scale,
        number: u16,
        seed: u64,
        rollbacks: Rollbacks,
    ) -> Self {
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(number));
        let random = Random::new(seed, Constants::for_run());
        Self {
            connection,
            random,
            scale,
            tally: Tally::default(),
            number,
            rollbacks,
            last_time_us: 0,
        }
    }

    /// Runs one transaction of the mix to its end.
    pub(super) fn step(&mut self) -> Result<()> {
        let percentile = self.random.number(0, 99);
        let kind = Kind::of_percentile(percentile);
        let w = self.random.warehouse(self.scale.warehouses);
        let began = Instant::now();
        let ended = match kind {
            Kind::NewOrder => self.new_order(w)?,
            Kind::Payment => self.payment(w)?,
            Kind::OrderStatus => self.order_status(w)?,
            Kind::Delivery => self.delivery(w)?,
            Kind::StockLevel => self.stock_level(w)?,
        };
        self.tally.rolled_back += u64::from(ended == Ended::RolledBack);
        let latency_us = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
        self.tally.latencies_us[kind as usize].push(latency_us);
        Ok(())
    }

    /// Runs a transaction to its end, retrying after each conflict.
    pub(super) fn transact(
        &mut self,
        body: impl FnMut(&mut dyn Connection) -> Result<Ended>,
    ) -> Result<Ended> {
        self.transact_from(|connection| connection.begin(), body)
    }

    /// As [`Terminal::transact`], for a transaction that the standard declares read-only.
    pub(super) fn transact_reading(
        &mut self,
        body: impl FnMut(&mut dyn Connection) -> Result<Ended>,
    ) -> Result<Ended> {
        self.transact_from(|connection| connection.begin_read(), body)
    }

    fn transact_from(
        &mut self,
        begin: impl Fn(&mut dyn Connection) -> Result<()>,
        mut body: impl FnMut(&mut dyn Connection) -> Result<Ended>,
    ) -> Result<Ended> {
        loop {
            let connection = self.connection.as_mut();
            begin(connection)?;
            let done = body(connection).and_then(|ended| match ended {
                Ended::Committed => connection.commit().map(|()| ended),
                Ended::RolledBack => connection.abort().map(|()| ended),
            });
            match done {
                Err(Error::Conflict) => {
                    connection.abort()?;
                    self.tally.conflicts += 1;
                }
                other => return other,
            }
        }
    }

    /// Whether a writing transaction must be rolled back at its end.
    pub(super) fn end_of_writer(&mut self) -> Ended {
        match self.rollbacks {
            Rollbacks::Percent(percent) if self.random.percent(percent) => Ended::RolledBack,
            _ => Ended::Committed,
        }
    }

    /// Whether a new order should contain a missing item.
    pub(super) fn is_item_unused(&mut self) -> bool {
        let percent = match self.rollbacks {
            Rollbacks::Standard => 1.0,
            Rollbacks::Percent(percent) => percent,
        };
        self.random.percent(percent)
    }

    /// Returns the time, later than at any previous call.
    pub(super) fn time_us(&mut self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        self.last_time_us = now_us.max(self.last_time_us + 1);
        self.last_time_us
    }
}

/// Returns the bytes of a row that must exist.
pub(super) fn fetch(connection: &mut dyn Connection, table: Table, key: &[u8]) -> Result<Vec<u8>> {
    let row = connection.get(table, key)?;
    row.ok_or_else(|| missing(table, key))
}

/// As [`fetch`], for a row that will be written.
pub(super) fn fetch_for_update(
    connection: &mut dyn Connection,
    table: Table,
    key: &[u8],
) -> Result<Vec<u8>> {
    let row = connection.get_for_update(table, key)?;
    row.ok_or_else(|| missing(table, key))
}

pub(super) fn store<'b>(
    connection: &mut dyn Connection,
    table: Table,
    key: &[u8],
    row: &impl Row<'b>,
) -> Result<()> {
    connection.put(table, key, &row.encode())
}

fn missing(table: Table, key: &[u8]) -> Error {
    Error::damaged(format!("table {} has no {key:?}", super::schema::TABLES[table.0]))
}

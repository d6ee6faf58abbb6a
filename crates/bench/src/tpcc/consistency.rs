//! The consistency conditions 1 to 4 (clauses 3.3.2.1 to 3.3.2.4), checked row by row.
//!
//! 1. The takings of a warehouse equal the sum of its districts.
//! 2. The next order of a district, minus one, is its highest order and its highest new order.
//! 3. The numbers of a district's new orders have no gaps.
//! 4. The orders of a district have as many lines as they state.

use super::schema::{
    DISTRICT, District, Key, NEW_ORDER, ORDER, ORDER_LINE, Order, Row, Scale, WAREHOUSE, Warehouse,
    last_number,
};
use super::terminal::fetch;
use crate::engine::{Connection, Direction, Engine, Table};
use crate::error::{Error, Result};

/// Checks all conditions, with one transaction per district.
///
/// # Errors
/// [`Error::Damaged`] with the violated condition and its place; errors of the store.
pub(super) fn check(engine: &dyn Engine, scale: Scale) -> Result<()> {
    let mut connection = engine.connect()?;
    let connection = connection.as_mut();
    for w in 1..=scale.warehouses {
        in_transaction(connection, |connection| check_warehouse(connection, w, scale))?;
        for d in 1..=scale.districts {
            in_transaction(connection, |connection| check_district(connection, w, d))?;
        }
    }
    Ok(())
}

fn in_transaction(
    connection: &mut dyn Connection,
    mut body: impl FnMut(&mut dyn Connection) -> Result<()>,
) -> Result<()> {
    connection.begin()?;
    let done = body(connection);
    connection.abort()?;
    done
}

fn expect(holds: bool, condition: u8, what: impl FnOnce() -> String) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::damaged(format!("consistency condition {condition} does not hold: {}", what())))
}

fn check_warehouse(connection: &mut dyn Connection, w: u16, scale: Scale) -> Result<()> {
    let row = fetch(connection, WAREHOUSE, &Key::of_warehouse(w))?;
    let own = Warehouse::decode(&row)?.ytd;
    let mut sum = 0;
    for d in 1..=scale.districts {
        let row = fetch(connection, DISTRICT, &Key::of_district(w, d))?;
        sum += District::decode(&row)?.ytd;
    }
    expect(own == sum, 1, || format!("warehouse {w} has {own}, its districts have {sum}"))
}

/// The lowest and highest number of a table's rows in a district, and their count.
fn numbers(
    connection: &mut dyn Connection,
    table: Table,
    district: &Key,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Option<(u32, u32, u32)>> {
    let (mut found, mut failed) = (None, Ok(()));
    connection.scan(table, district, &district.end(), Direction::Up, &mut |key, row| {
        failed = last_number(key).and_then(|number| {
            let (low, _, count) = found.unwrap_or((number, number, 0));
            found = Some((low, number, count + 1));
            each(row)
        });
        failed.is_ok()
    })?;
    failed.map(|()| found)
}

fn check_district(connection: &mut dyn Connection, w: u16, d: u8) -> Result<()> {
    let key = Key::of_district(w, d);
    let row = fetch(connection, DISTRICT, &key)?;
    let last = District::decode(&row)?.next_order - 1;
    let mut lines = 0_u64;
    let orders = numbers(connection, ORDER, &key, |row| {
        lines += u64::from(Order::decode(row)?.lines);
        Ok(())
    })?;
    let highest = orders.map_or(0, |(_, high, _)| high);
    expect(last == highest, 2, || {
        format!("district {w}/{d} says that its last order is {last}, and has {highest}")
    })?;
    if let Some((low, high, count)) = numbers(connection, NEW_ORDER, &key, |_| Ok(()))? {
        expect(last == high, 2, || {
            format!(
                "district {w}/{d} says that its last order is {last}, the last new one is {high}"
            )
        })?;
        expect(high - low + 1 == count, 3, || {
            format!("district {w}/{d} has {count} new orders from {low} to {high}")
        })?;
    }
    let mut found = 0_u64;
    connection.scan(ORDER_LINE, &key, &key.end(), Direction::Up, &mut |_, _| {
        found += 1;
        true
    })?;
    expect(lines == found, 4, || {
        format!("the orders of district {w}/{d} say {lines} lines, there are {found}")
    })
}

//! Stock-Level (clause 2.8): how many of the items in the last 20 orders are running out.

use std::collections::BTreeSet;

use super::schema::{DISTRICT, District, Key, ORDER_LINE, OrderLine, Row, STOCK, Stock};
use super::terminal::{Ended, Terminal, fetch};
use crate::engine::{Connection, Direction};
use crate::error::Result;

/// The number of orders examined.
const ORDERS: u32 = 20;

impl Terminal<'_> {
    pub(super) fn stock_level(&mut self, w: u16) -> Result<Ended> {
        let d = self.random.small(1, self.scale.districts);
        let threshold = i32::from(self.random.small(10, 20));
        self.transact_reading(|connection| {
            let count = count_low(connection, w, d, threshold)?;
            std::hint::black_box(count);
            Ok(Ended::Committed)
        })
    }
}

fn count_low(connection: &mut dyn Connection, w: u16, d: u8, threshold: i32) -> Result<usize> {
    let row = fetch(connection, DISTRICT, &Key::of_district(w, d))?;
    let next = District::decode(&row)?.next_order;
    let low = Key::in_district(w, d, next.saturating_sub(ORDERS));
    let high = Key::in_district(w, d, next);
    let mut items = Ok(BTreeSet::new());
    connection.scan(ORDER_LINE, &low, &high, Direction::Up, &mut |_, row| {
        match (OrderLine::decode(row), &mut items) {
            (Ok(line), Ok(items)) => {
                items.insert(line.item);
            }
            (Err(error), items) => *items = Err(error),
            (Ok(_), Err(_)) => {}
        }
        items.is_ok()
    })?;
    let mut count = 0;
    for item in items? {
        let row = fetch(connection, STOCK, &Key::of_stock(w, item))?;
        count += usize::from(Stock::decode(&row)?.quantity < threshold);
    }
    Ok(count)
}

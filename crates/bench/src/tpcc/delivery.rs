//! Delivery (clause 2.7): delivers the oldest new order of each district, all in one transaction.

use super::schema::{
    CUSTOMER, Customer, Key, NEW_ORDER, ORDER, ORDER_LINE, Order, OrderLine, Row, last_number,
};
use super::terminal::{Ended, Terminal, fetch_for_update, store};
use crate::engine::{Connection, Direction};
use crate::error::Result;

struct Input {
    w: u16,
    districts: u8,
    carrier: u8,
    time_us: u64,
    end: Ended,
}

impl Terminal<'_> {
    pub(super) fn delivery(&mut self, w: u16) -> Result<Ended> {
        let input = Input {
            w,
            districts: self.scale.districts,
            carrier: self.random.small(1, 10),
            time_us: self.time_us(),
            end: self.end_of_writer(),
        };
        self.transact(|connection| {
            for d in 1..=input.districts {
                deliver_oldest(connection, &input, d)?;
            }
            Ok(input.end)
        })
    }
}

fn deliver_oldest(connection: &mut dyn Connection, input: &Input, d: u8) -> Result<()> {
    let low = Key::of_district(input.w, d);
    let mut oldest = None;
    connection.scan(NEW_ORDER, &low, &low.end(), Direction::Up, &mut |key, _| {
        oldest = Some(last_number(key));
        false
    })?;
    // A district without new orders is skipped.
    let Some(order) = oldest.transpose()? else { return Ok(()) };
    let key = Key::in_district(input.w, d, order);
    connection.delete(NEW_ORDER, &key)?;
    let row = fetch_for_update(connection, ORDER, &key)?;
    let mut header = Order::decode(&row)?;
    header.carrier = input.carrier;
    store(connection, ORDER, &key, &header)?;

    let amount = deliver_lines(connection, &key, input.time_us)?;
    let key = Key::in_district(input.w, d, header.customer);
    let row = fetch_for_update(connection, CUSTOMER, &key)?;
    let mut customer = Customer::decode(&row)?;
    customer.balance += amount;
    customer.delivery_count += 1;
    store(connection, CUSTOMER, &key, &customer)
}

/// Sets the date in every line of an order. Returns the sum of their amounts.
fn deliver_lines(connection: &mut dyn Connection, order: &Key, time_us: u64) -> Result<i64> {
    let mut lines = Vec::new();
    connection.scan(ORDER_LINE, order, &order.end(), Direction::Up, &mut |key, row| {
        lines.push((key.to_vec(), row.to_vec()));
        true
    })?;
    let mut amount = 0;
    for (key, row) in lines {
        let mut line = OrderLine::decode(&row)?;
        line.delivered = time_us;
        amount += line.amount;
        store(connection, ORDER_LINE, &key, &line)?;
    }
    Ok(amount)
}

//! Order-Status (clause 2.6): the state of a customer's last order.

use super::payment::find;
use super::schema::{
    CUSTOMER, CUSTOMER_ORDER, Customer, Key, ORDER, ORDER_LINE, Order, OrderLine, Row, last_number,
};
use super::terminal::{Ended, Terminal, fetch};
use crate::engine::{Connection, Direction};
use crate::error::{Error, Result};

impl Terminal<'_> {
    pub(super) fn order_status(&mut self, w: u16) -> Result<Ended> {
        let (d, choice) = (self.random.small(1, self.scale.districts), self.customer_choice());
        self.transact_reading(|connection| {
            let number = find(connection, w, d, &choice)?;
            let row = fetch(connection, CUSTOMER, &Key::in_district(w, d, number))?;
            std::hint::black_box(Customer::decode(&row)?.balance);
            show_last_order(connection, w, d, number)?;
            Ok(Ended::Committed)
        })
    }
}

fn show_last_order(connection: &mut dyn Connection, w: u16, d: u8, customer: u32) -> Result<()> {
    let low = Key::in_district(w, d, customer);
    let mut last = Err(Error::damaged(format!("customer {customer} has no order")));
    connection.scan(CUSTOMER_ORDER, &low, &low.end(), Direction::Down, &mut |key, _| {
        last = last_number(key);
        false
    })?;
    let key = Key::in_district(w, d, last?);
    let row = fetch(connection, ORDER, &key)?;
    std::hint::black_box(Order::decode(&row)?.carrier);
    let mut shown = Ok(());
    connection.scan(ORDER_LINE, &key, &key.end(), Direction::Up, &mut |_, row| {
        shown = OrderLine::decode(row).map(|line| {
            std::hint::black_box(line.delivered);
        });
        shown.is_ok()
    })?;
    shown
}

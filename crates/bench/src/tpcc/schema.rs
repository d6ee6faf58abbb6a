//! The nine tables of TPC-C (clause 1.3) and two indexes, as ordered byte keys and packed rows.
//!
//! ```text
//!   table           key                          row
//!   warehouse       w                            name, address, tax, ytd
//!   district        w d                          name, address, tax, ytd, next order
//!   customer        w d c                        the long one: names, address, balance, data
//!   history         terminal, microseconds       payment
//!   new_order       w d o                        empty
//!   order           w d o                        customer, date, carrier, lines
//!   order_line      w d o line                   item, supplier, delivery, amount
//!   item            i                            name, price, data
//!   stock           w i                          quantity, texts of districts, counts, data
//!   customer_name   w d last\0 first\0 c         empty: an index
//!   customer_order  w d c o                      empty: an index
//! ```
//!
//! Numbers in keys are big-endian, so that keys sort numerically. Rows are little-endian, with
//! texts preceded by their lengths; decoded text is borrowed. Money is in cents, rates are in
//! ten-thousandths.

use crate::engine::Table;
use crate::error::{Error, Result};

/// The tables by name, in the order of the constants below.
pub(super) const TABLES: &[&str] = &[
    "warehouse",
    "district",
    "customer",
    "history",
    "new_order",
    "order",
    "order_line",
    "item",
    "stock",
    "customer_name",
    "customer_order",
];
pub(super) const WAREHOUSE: Table = Table(0);
pub(super) const DISTRICT: Table = Table(1);
pub(super) const CUSTOMER: Table = Table(2);
pub(super) const HISTORY: Table = Table(3);
pub(super) const NEW_ORDER: Table = Table(4);
pub(super) const ORDER: Table = Table(5);
pub(super) const ORDER_LINE: Table = Table(6);
pub(super) const ITEM: Table = Table(7);
pub(super) const STOCK: Table = Table(8);
pub(super) const CUSTOMER_NAME: Table = Table(9);
pub(super) const CUSTOMER_ORDER: Table = Table(10);

/// The number of rows (clause 1.2); smaller in tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    /// Warehouses.
    pub(super) warehouses: u16,
    /// Districts of a warehouse.
    pub(super) districts: u8,
    /// Customers per district; there are initially as many orders.
    pub(super) customers: u32,
    /// Items.
    pub(super) items: u32,
}

impl Scale {
    /// The scale of the specification.
    pub(super) fn full(warehouses: u16) -> Self {
        Self { warehouses, districts: 10, customers: 3000, items: 100_000 }
    }

    /// A very small scale, for tests.
    pub(super) fn tiny(warehouses: u16) -> Self {
        Self { warehouses, districts: 3, customers: 30, items: 200 }
    }

    /// The first undelivered order of a district in the initial data.
    pub(super) fn first_new_order(self) -> u32 {
        self.customers * 7 / 10 + 1
    }
}

/// A key: its numbers, one after another.
pub(super) struct Key(Vec<u8>);

impl Key {
    pub(super) fn of_warehouse(w: u16) -> Self {
        Self(w.to_be_bytes().to_vec())
    }

    pub(super) fn of_district(w: u16, d: u8) -> Self {
        let mut key = Vec::with_capacity(48);
        key.extend_from_slice(&w.to_be_bytes());
        key.push(d);
        Self(key)
    }

    /// The key of a customer, an order or a new order.
    pub(super) fn in_district(w: u16, d: u8, number: u32) -> Self {
        Self::of_district(w, d).number(number)
    }

    pub(super) fn of_line(w: u16, d: u8, order: u32, line: u8) -> Self {
        let mut key = Self::in_district(w, d, order);
        key.0.push(line);
        key
    }

    pub(super) fn of_item(i: u32) -> Self {
        Self(i.to_be_bytes().to_vec())
    }

    pub(super) fn of_stock(w: u16, i: u32) -> Self {
        Self::of_warehouse(w).number(i)
    }

    pub(super) fn of_history(terminal: u16, time_us: u64) -> Self {
        let mut key = terminal.to_be_bytes().to_vec();
        key.extend_from_slice(&time_us.to_be_bytes());
        Self(key)
    }

    pub(super) fn of_last_name(w: u16, d: u8, last: &[u8]) -> Self {
        Self::of_district(w, d).text(last)
    }

    pub(super) fn of_name(w: u16, d: u8, last: &[u8], first: &[u8], customer: u32) -> Self {
        Self::of_last_name(w, d, last).text(first).number(customer)
    }

    pub(super) fn of_customer_order(w: u16, d: u8, customer: u32, order: u32) -> Self {
        Self::in_district(w, d, customer).number(order)
    }

    fn number(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn text(mut self, text: &[u8]) -> Self {
        self.0.extend_from_slice(text);
        self.0.push(0);
        self
    }

    /// The first key after all that begin with this one.
    pub(super) fn end(&self) -> Vec<u8> {
        let mut end = self.0.clone();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                break;
            }
        }
        end
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The last number of a key.
pub(super) fn last_number(key: &[u8]) -> Result<u32> {
    let tail = key.last_chunk().ok_or_else(|| Error::damaged("a key is too short"))?;
    Ok(u32::from_be_bytes(*tail))
}

/// A column.
trait Column<'b>: Sized {
    fn encode(&self, row: &mut Vec<u8>);
    fn decode(row: &mut &'b [u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Column<'_> for $number {
            fn encode(&self, row: &mut Vec<u8>) {
                row.extend_from_slice(&self.to_le_bytes());
            }

            fn decode(row: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = row.split_first_chunk()?;
                *row = rest;
                Some(Self::from_le_bytes(*bytes))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32, i64);

impl<'b> Column<'b> for &'b [u8] {
    fn encode(&self, row: &mut Vec<u8>) {
        u16::try_from(self.len()).expect("no text is longer than 500").encode(row);
        row.extend_from_slice(self);
    }

    fn decode(row: &mut &'b [u8]) -> Option<Self> {
        let len = u16::decode(row)?;
        row.split_off(..usize::from(len))
    }
}

/// A row of a table.
pub(super) trait Row<'b>: Sized {
    fn encode(&self) -> Vec<u8>;

    /// # Errors
    /// [`Error::Damaged`] if the bytes are not such a row.
    fn decode(row: &'b [u8]) -> Result<Self>;
}

macro_rules! rows {
    ($($(#[$doc:meta])* $row:ident $(<$life:lifetime>)? { $($column:ident: $kind:ty),* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(super) struct $row $(<$life>)? {
            $(pub(super) $column: $kind,)*
        }

        impl<'b> Row<'b> for $row $(<$life>)? {
            fn encode(&self) -> Vec<u8> {
                let mut row = Vec::with_capacity(128);
                $(self.$column.encode(&mut row);)*
                row
            }

            fn decode(mut row: &'b [u8]) -> Result<Self> {
                let decoded = (|| Some(Self { $($column: Column::decode(&mut row)?,)* }))();
                decoded.ok_or_else(|| Error::damaged(concat!("a row is no ", stringify!($row))))
            }
        }
    )*};
}

rows! {
    /// A row of `warehouse`; `address` is from [`address`].
    Warehouse<'b> { address: &'b [u8], tax: u32, ytd: i64 }

    /// A row of `district`.
    District<'b> { address: &'b [u8], tax: u32, ytd: i64, next_order: u32 }

    /// A row of `customer`.
    Customer<'b> {
        first: &'b [u8], middle: &'b [u8], last: &'b [u8], address: &'b [u8], phone: &'b [u8],
        since: u64, credit: &'b [u8], credit_limit: i64, discount: u32, balance: i64,
        ytd_payment: i64, payment_count: u32, delivery_count: u32, data: &'b [u8]
    }

    /// A row of `history`.
    History<'b> {
        customer: u32, customer_district: u8, customer_warehouse: u16, district: u8,
        warehouse: u16, date: u64, amount: i64, data: &'b [u8]
    }

    /// A row of `order`; carrier 0 means none yet.
    Order { customer: u32, entered: u64, carrier: u8, lines: u8, is_local: u8 }

    /// A row of `order_line`; delivered 0 means not yet.
    OrderLine<'b> {
        item: u32, supplier: u16, delivered: u64, quantity: u8, amount: i64, district: &'b [u8]
    }

    /// A row of `item`.
    Item<'b> { image: u32, name: &'b [u8], price: i64, data: &'b [u8] }

    /// A row of `stock`; `districts` is a text of 24 bytes per district.
    Stock<'b> {
        quantity: i32, districts: &'b [u8], ytd: u64, order_count: u32, remote_count: u32,
        data: &'b [u8]
    }
}

/// Joins name, two streets, city, state and zip into one text.
pub(super) fn address(parts: [&[u8]; 6]) -> Vec<u8> {
    let mut address = Vec::with_capacity(96);
    for part in parts {
        part.encode(&mut address);
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_and_short_ones_are_refused() {
        let row = Stock {
            quantity: -3,
            districts: &[b'x'; 240],
            ytd: 7,
            order_count: 1,
            remote_count: 0,
            data: b"ORIGINAL",
        };
        let bytes = row.encode();
        assert_eq!(Stock::decode(&bytes).unwrap(), row);
        for cut in 0..bytes.len() {
            assert!(Stock::decode(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn keys_order_as_their_numbers() {
        assert!(*Key::in_district(1, 2, 255) < *Key::in_district(1, 2, 256));
        assert!(*Key::in_district(1, 2, u32::MAX) < *Key::in_district(1, 3, 0));
        assert!(*Key::of_name(1, 1, b"BAR", b"z", 9) < *Key::of_name(1, 1, b"BARBAR", b"a", 1));
        let prefix = Key::of_district(1, 255);
        assert_eq!(prefix.end(), [0, 2]);
        assert_eq!(last_number(&Key::of_customer_order(1, 2, 3, 4)).unwrap(), 4);
    }
}

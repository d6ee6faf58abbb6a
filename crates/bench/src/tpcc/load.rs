//! The initial data (clause 4.3.3), table by table in key order.

use std::time::Instant;

use super::random::{Constants, Random, last_name};
use super::schema::{
    CUSTOMER, CUSTOMER_NAME, CUSTOMER_ORDER, Customer, DISTRICT, District, HISTORY, History, ITEM,
    Item, Key, NEW_ORDER, ORDER, ORDER_LINE, Order, OrderLine, Row, STOCK, Scale, Stock, WAREHOUSE,
    Warehouse, address,
};
use crate::engine::{Connection, Engine, Table};
use crate::error::Result;

/// Bytes of rows inserted per transaction.
const BATCH_BYTES: usize = 256 << 10;
/// The date of all initial data: a Thursday in 2026.
const DATE: u64 = 1_767_225_600_000_000;
/// The initial takings of a warehouse's districts, in total.
const WAREHOUSE_YTD: i64 = 30_000_000;
/// The initial payment of each customer.
const PAYMENT: i64 = 1000;

struct Loader<'e> {
    connection: Box<dyn Connection + 'e>,
    random: Random,
    scale: Scale,
    batch_bytes: usize,
    rows: u64,
    began: Instant,
    histories: u64,
}

/// Fills the tables of an empty store, reporting progress on standard error.
///
/// # Errors
/// Errors of the store.
pub(super) fn load(engine: &dyn Engine, scale: Scale, seed: u64, is_quiet: bool) -> Result<()> {
    let mut loader = Loader {
        connection: engine.connect()?,
        random: Random::new(seed, Constants::for_load()),
        scale,
        batch_bytes: 0,
        rows: 0,
        began: Instant::now(),
        histories: 0,
    };
    loader.connection.begin()?;
    loader.items()?;
    for w in 1..=scale.warehouses {
        loader.warehouse(w)?;
        loader.stock(w)?;
        for d in 1..=scale.districts {
            loader.district(w, d)?;
            loader.customers(w, d)?;
            loader.orders(w, d)?;
        }
        if !is_quiet {
            let (rows, seconds) = (loader.rows, loader.began.elapsed().as_secs());
            eprintln!("loaded {w}/{} warehouses: {rows} rows, {seconds} s", scale.warehouses);
        }
    }
    loader.connection.commit()
}

impl Loader<'_> {
    fn put(&mut self, table: Table, key: &[u8], row: &[u8]) -> Result<()> {
        self.connection.put(table, key, row)?;
        self.rows += 1;
        self.batch_bytes += key.len() + row.len() + 64;
        if self.batch_bytes > BATCH_BYTES {
            self.connection.commit()?;
            self.connection.begin()?;
            self.batch_bytes = 0;
        }
        Ok(())
    }

    fn address(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let name = random.text(6, 10);
        let (street_1, street_2, city) =
            (random.text(10, 20), random.text(10, 20), random.text(10, 20));
        let (state, mut zip) = (random.text(2, 2), random.digits(4));
        zip.extend_from_slice(b"11111");
        address([&name, &street_1, &street_2, &city, &state, &zip])
    }

    fn items(&mut self) -> Result<()> {
        for i in 1..=self.scale.items {
            let (name, data) = (self.random.text(14, 24), self.random.data());
            let (image, price) = (self.random.number(1, 10_000), self.random.cents(100, 10_000));
            let row = Item { image, name: &name, price, data: &data }.encode();
            self.put(ITEM, &Key::of_item(i), &row)?;
        }
        Ok(())
    }

    fn warehouse(&mut self, w: u16) -> Result<()> {
        let address = self.address();
        // The sum of its districts, whatever their number (clause 3.3.2.1).
        let ytd = WAREHOUSE_YTD / 10 * i64::from(self.scale.districts);
        let row = Warehouse { address: &address, tax: self.random.number(0, 2000), ytd }.encode();
        self.put(WAREHOUSE, &Key::of_warehouse(w), &row)
    }

    fn stock(&mut self, w: u16) -> Result<()> {
        for i in 1..=self.scale.items {
            let (districts, data) = (self.random.text(240, 240), self.random.data());
            let quantity = i32::from(self.random.small(10, 100));
            let row = Stock {
                quantity,
                districts: &districts,
                ytd: 0,
                order_count: 0,
                remote_count: 0,
                data: &data,
            };
            self.put(STOCK, &Key::of_stock(w, i), &row.encode())?;
        }
        Ok(())
    }

    fn district(&mut self, w: u16, d: u8) -> Result<()> {
        let address = self.address();
        let row = District {
            address: &address,
            tax: self.random.number(0, 2000),
            ytd: WAREHOUSE_YTD / 10,
            next_order: self.scale.customers + 1,
        };
        self.put(DISTRICT, &Key::of_district(w, d), &row.encode())
    }

    fn customers(&mut self, w: u16, d: u8) -> Result<()> {
        let mut names = Vec::new();
        for c in 1..=self.scale.customers {
            let number = match c {
                1..=1000 => c - 1,
                _ => self.random.name_number(self.scale.customers),
            };
            let (first, last) = (self.random.text(8, 16), last_name(number));
            let (address, phone) = (self.address(), self.random.digits(16));
            let data = self.random.text(300, 500);
            let row = Customer {
                first: &first,
                middle: b"OE",
                last: &last,
                address: &address,
                phone: &phone,
                since: DATE,
                credit: if self.random.percent(10.0) { b"BC" } else { b"GC" },
                credit_limit: 5_000_000,
                discount: self.random.number(0, 5000),
                balance: -PAYMENT,
                ytd_payment: PAYMENT,
                payment_count: 1,
                delivery_count: 0,
                data: &data,
            };
            self.put(CUSTOMER, &Key::in_district(w, d, c), &row.encode())?;
            names.push(Key::of_name(w, d, &last, &first, c).to_vec());
            self.history(w, d, c)?;
        }
        names.sort_unstable();
        names.iter().try_for_each(|name| self.put(CUSTOMER_NAME, name, b""))
    }

    fn history(&mut self, w: u16, d: u8, c: u32) -> Result<()> {
        let data = self.random.text(12, 24);
        let row = History {
            customer: c,
            customer_district: d,
            customer_warehouse: w,
            district: d,
            warehouse: w,
            date: DATE,
            amount: PAYMENT,
            data: &data,
        };
        self.histories += 1;
        self.put(HISTORY, &Key::of_history(0, self.histories), &row.encode())
    }

    fn orders(&mut self, w: u16, d: u8) -> Result<()> {
        let customers = self.random.permutation(self.scale.customers);
        let mut index = Vec::new();
        for (customer, order) in customers.into_iter().zip(1..) {
            let is_delivered = order < self.scale.first_new_order();
            let lines = self.random.small(5, 15);
            let row = Order {
                customer,
                entered: DATE,
                carrier: if is_delivered { self.random.small(1, 10) } else { 0 },
                lines,
                is_local: 1,
            };
            self.put(ORDER, &Key::in_district(w, d, order), &row.encode())?;
            index.push(Key::of_customer_order(w, d, customer, order).to_vec());
            for line in 1..=lines {
                let district = self.random.text(24, 24);
                let row = OrderLine {
                    item: self.random.number(1, self.scale.items),
                    supplier: w,
                    delivered: if is_delivered { DATE } else { 0 },
                    quantity: 5,
                    amount: if is_delivered { 0 } else { self.random.cents(1, 999_999) },
                    district: &district,
                };
                self.put(ORDER_LINE, &Key::of_line(w, d, order, line), &row.encode())?;
            }
            if !is_delivered {
                self.put(NEW_ORDER, &Key::in_district(w, d, order), b"")?;
            }
        }
        index.sort_unstable();
        index.iter().try_for_each(|key| self.put(CUSTOMER_ORDER, key, b""))
    }
}

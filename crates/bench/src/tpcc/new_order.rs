//! New-Order (clause 2.4): a customer orders 5 to 15 items.

use super::schema::{
    CUSTOMER, CUSTOMER_ORDER, Customer, DISTRICT, District, ITEM, Item, Key, NEW_ORDER, ORDER,
    ORDER_LINE, Order, OrderLine, Row, STOCK, Stock, WAREHOUSE, Warehouse,
};
use super::terminal::{Ended, Terminal, fetch, fetch_for_update, store};
use crate::engine::Connection;
use crate::error::{Error, Result};

/// The input at the terminal.
struct Input {
    w: u16,
    d: u8,
    c: u32,
    lines: Vec<Line>,
    time_us: u64,
    /// Whether the last item does not exist.
    is_item_unused: bool,
}

struct Line {
    item: u32,
    supplier: u16,
    quantity: u8,
}

/// The common data of an order's lines.
struct Head {
    order: u32,
    /// 1 + taxes, less the discount, as a factor of 10^8.
    factor: i64,
}

impl Terminal<'_> {
    pub(super) fn new_order(&mut self, w: u16) -> Result<Ended> {
        let input = self.new_order_input(w);
        self.transact(|connection| run(connection, &input))
    }

    fn new_order_input(&mut self, w: u16) -> Input {
        let d = self.random.small(1, self.scale.districts);
        let c = self.random.customer(self.scale.customers);
        let count = self.random.small(5, 15);
        let lines = (0..count)
            .map(|_| Line {
                item: self.random.item(self.scale.items),
                supplier: self.supplier(w),
                quantity: self.random.small(1, 10),
            })
            .collect();
        let is_item_unused = self.is_item_unused();
        Input { w, d, c, lines, time_us: self.time_us(), is_item_unused }
    }

    /// One line in a hundred comes from another warehouse.
    fn supplier(&mut self, home: u16) -> u16 {
        if self.random.percent(1.0) { self.other_warehouse(home) } else { home }
    }

    /// Picks another warehouse, if there is one.
    pub(super) fn other_warehouse(&mut self, home: u16) -> u16 {
        let count = self.scale.warehouses;
        if count == 1 {
            return home;
        }
        let other = self.random.warehouse(count - 1);
        if other >= home { other + 1 } else { other }
    }
}

fn run(connection: &mut dyn Connection, input: &Input) -> Result<Ended> {
    let &Input { w, d, c, .. } = input;
    let row = fetch(connection, WAREHOUSE, &Key::of_warehouse(w))?;
    let warehouse_tax = Warehouse::decode(&row)?.tax;
    let key = Key::of_district(w, d);
    let row = fetch_for_update(connection, DISTRICT, &key)?;
    let mut district = District::decode(&row)?;
    let order = district.next_order;
    district.next_order += 1;
    store(connection, DISTRICT, &key, &district)?;
    let row = fetch(connection, CUSTOMER, &Key::in_district(w, d, c))?;
    let discount = Customer::decode(&row)?.discount;

    let lines = u8::try_from(input.lines.len()).expect("15 at most");
    let is_local = u8::from(input.lines.iter().all(|line| line.supplier == w));
    let header = Order { customer: c, entered: input.time_us, carrier: 0, lines, is_local };
    store(connection, ORDER, &Key::in_district(w, d, order), &header)?;
    connection.put(NEW_ORDER, &Key::in_district(w, d, order), b"")?;
    connection.put(CUSTOMER_ORDER, &Key::of_customer_order(w, d, c, order), b"")?;

    let taxes = i64::from(10_000 + warehouse_tax + district.tax);
    let head = Head { order, factor: taxes * i64::from(10_000 - discount) };
    let mut total = 0;
    for (line, number) in input.lines.iter().zip(1..) {
        let is_unused = input.is_item_unused && number == lines;
        let item = if is_unused { 0 } else { line.item };
        let Some(item) = connection.get(ITEM, &Key::of_item(item))? else {
            let is_wanted = is_unused;
            return if is_wanted {
                Ok(Ended::RolledBack)
            } else {
                Err(Error::damaged(format!("item {} is missing", line.item)))
            };
        };
        total += order_line(connection, input, &head, line, number, &Item::decode(&item)?)?;
    }
    // The total is shown to the customer.
    std::hint::black_box(total / 10_000 * head.factor / 10_000);
    Ok(Ended::Committed)
}

fn order_line(
    connection: &mut dyn Connection,
    input: &Input,
    head: &Head,
    line: &Line,
    number: u8,
    item: &Item<'_>,
) -> Result<i64> {
    let key = Key::of_stock(line.supplier, line.item);
    let row = fetch_for_update(connection, STOCK, &key)?;
    let mut stock = Stock::decode(&row)?;
    let quantity = i32::from(line.quantity);
    stock.quantity -= quantity;
    if stock.quantity < 10 {
        stock.quantity += 91;
    }
    stock.ytd += u64::from(line.quantity);
    stock.order_count += 1;
    stock.remote_count += u32::from(line.supplier != input.w);
    store(connection, STOCK, &key, &stock)?;
    // Whether the brand is generic is shown to the customer.
    let is_original = |text: &[u8]| text.windows(8).any(|part| part == b"ORIGINAL");
    std::hint::black_box(is_original(item.data) && is_original(stock.data));

    let amount = i64::from(line.quantity) * item.price;
    let start = 24 * usize::from(input.d - 1);
    let row = OrderLine {
        item: line.item,
        supplier: line.supplier,
        delivered: 0,
        quantity: line.quantity,
        amount,
        district: &stock.districts[start..start + 24],
    };
    store(connection, ORDER_LINE, &Key::of_line(input.w, input.d, head.order, number), &row)?;
    Ok(amount)
}

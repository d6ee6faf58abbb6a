//! Payment (clause 2.5): a customer pays, found by number or by last name.

use super::random::last_name;
use super::schema::{
    CUSTOMER, CUSTOMER_NAME, Customer, DISTRICT, District, HISTORY, History, Key, Row, WAREHOUSE,
    Warehouse, last_number,
};
use super::terminal::{Ended, Terminal, fetch_for_update, store};
use crate::engine::{Connection, Direction};
use crate::error::{Error, Result};

/// The most bytes of a customer's data; the rest is cut off.
const DATA_BYTES_MAX: usize = 500;

/// How a transaction selects its customer.
pub(super) enum CustomerChoice {
    Number(u32),
    LastName(Vec<u8>),
}

struct Input {
    w: u16,
    d: u8,
    customer_w: u16,
    customer_d: u8,
    choice: CustomerChoice,
    amount: i64,
    terminal: u16,
    time_us: u64,
    end: Ended,
}

impl Terminal<'_> {
    /// Selects by last name in 60 % of the cases.
    pub(super) fn customer_choice(&mut self) -> CustomerChoice {
        if self.random.percent(60.0) {
            CustomerChoice::LastName(last_name(self.random.name_number(self.scale.customers)))
        } else {
            CustomerChoice::Number(self.random.customer(self.scale.customers))
        }
    }

    pub(super) fn payment(&mut self, w: u16) -> Result<Ended> {
        let d = self.random.small(1, self.scale.districts);
        // 15 % of the customers belong to another warehouse.
        let is_remote = self.random.percent(15.0);
        let customer_w = if is_remote { self.other_warehouse(w) } else { w };
        let customer_d = if is_remote { self.random.small(1, self.scale.districts) } else { d };
        let input = Input {
            w,
            d,
            customer_w,
            customer_d,
            choice: self.customer_choice(),
            amount: self.random.cents(100, 500_000),
            terminal: self.number,
            time_us: self.time_us(),
            end: self.end_of_writer(),
        };
        self.transact(|connection| run(connection, &input))
    }
}

/// Returns the number of a customer. Of several with the same last name, it is the middle one by
/// first name.
pub(super) fn find(
    connection: &mut dyn Connection,
    w: u16,
    d: u8,
    choice: &CustomerChoice,
) -> Result<u32> {
    let last = match choice {
        CustomerChoice::Number(number) => return Ok(*number),
        CustomerChoice::LastName(last) => last,
    };
    let low = Key::of_last_name(w, d, last);
    let mut numbers = Vec::new();
    connection.scan(CUSTOMER_NAME, &low, &low.end(), Direction::Up, &mut |key, _| {
        numbers.push(last_number(key));
        true
    })?;
    let middle = numbers.len().div_ceil(2).checked_sub(1);
    let name =
        || Error::damaged(format!("no customer is called {}", String::from_utf8_lossy(last)));
    numbers.swap_remove(middle.ok_or_else(name)?)
}

fn run(connection: &mut dyn Connection, input: &Input) -> Result<Ended> {
    let key = Key::of_warehouse(input.w);
    let row = fetch_for_update(connection, WAREHOUSE, &key)?;
    let mut warehouse = Warehouse::decode(&row)?;
    warehouse.ytd += input.amount;
    store(connection, WAREHOUSE, &key, &warehouse)?;
    let key = Key::of_district(input.w, input.d);
    let row = fetch_for_update(connection, DISTRICT, &key)?;
    let mut district = District::decode(&row)?;
    district.ytd += input.amount;
    store(connection, DISTRICT, &key, &district)?;

    let number = find(connection, input.customer_w, input.customer_d, &input.choice)?;
    pay(connection, input, number)?;

    let mut data = name(warehouse.address).to_vec();
    data.extend_from_slice(b"    ");
    data.extend_from_slice(name(district.address));
    let row = History {
        customer: number,
        customer_district: input.customer_d,
        customer_warehouse: input.customer_w,
        district: input.d,
        warehouse: input.w,
        date: input.time_us,
        amount: input.amount,
        data: &data,
    };
    store(connection, HISTORY, &Key::of_history(input.terminal, input.time_us), &row)?;
    Ok(input.end)
}

/// The name that an address begins with.
fn name(address: &[u8]) -> &[u8] {
    let len = usize::from(address.first().copied().unwrap_or_default());
    address.get(2..2 + len).unwrap_or_default()
}

fn pay(connection: &mut dyn Connection, input: &Input, number: u32) -> Result<()> {
    let key = Key::in_district(input.customer_w, input.customer_d, number);
    let row = fetch_for_update(connection, CUSTOMER, &key)?;
    let mut customer = Customer::decode(&row)?;
    customer.balance -= input.amount;
    customer.ytd_payment += input.amount;
    customer.payment_count += 1;
    let mut data;
    if customer.credit == b"BC" {
        data = format!(
            "{number} {} {} {} {} {} ",
            input.customer_d, input.customer_w, input.d, input.w, input.amount
        )
        .into_bytes();
        data.extend_from_slice(customer.data);
        data.truncate(DATA_BYTES_MAX);
        customer.data = &data;
    }
    store(connection, CUSTOMER, &key, &customer)
}

//! TPC-C-like orders: the latency of a transaction of about fifty operations when all is in memory.
//!
//! `cargo run --release -p indelible-pages --example order_entry -- [TRANSACTIONS [THREADS]]`

use std::time::Instant;

use pages::{Durability, Options, PageStore, Result, Transaction};

const ITEMS: u32 = 100_000;
const CUSTOMERS: u32 = 3000;

/// A small generator; each thread has one.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        u32::try_from((self.0 >> 33) % u64::from(end)).expect("less than end")
    }
}

fn load(store: &PageStore) -> Result<()> {
    let items: Vec<u32> = (0..ITEMS).collect();
    for some in items.chunks(500) {
        let transaction = store.begin()?;
        for item in some {
            transaction.table("item").insert(item.to_be_bytes(), [b'i'; 80])?;
            transaction.table("stock").insert(item.to_be_bytes(), [b's'; 300])?;
        }
        transaction.commit(Durability::None)?;
    }
    let transaction = store.begin()?;
    for customer in 0..CUSTOMERS {
        transaction.table("customer").insert(customer.to_be_bytes(), [b'c'; 600])?;
    }
    for district in 0..40_u32 {
        transaction.table("district").insert(district.to_be_bytes(), [0; 100])?;
    }
    transaction.commit(Durability::Immediate).map(drop)
}

fn order(transaction: &Transaction, dice: &mut Dice, number: u64) -> Result<()> {
    let district = dice.below(40).to_be_bytes();
    let districts = transaction.table("district");
    let mut row = districts.get(district)?.unwrap_or_default();
    row[0] = row[0].wrapping_add(1);
    districts.insert(district, &row)?;
    transaction.table("customer").get(dice.below(CUSTOMERS).to_be_bytes())?;
    transaction.table("orders").insert(number.to_be_bytes(), [b'o'; 40])?;
    transaction.table("new_order").insert(number.to_be_bytes(), b"")?;
    let (items, stock) = (transaction.table("item"), transaction.table("stock"));
    let lines = transaction.table("order_line");
    let mut wanted: Vec<u32> = (0..10).map(|_| dice.below(ITEMS)).collect();
    wanted.sort_unstable();
    for (line, item) in (0_u8..).zip(wanted) {
        items.get(item.to_be_bytes())?;
        let mut row = stock.get(item.to_be_bytes())?.unwrap_or_default();
        row[1] = row[1].wrapping_add(1);
        stock.insert(item.to_be_bytes(), &row)?;
        lines.insert([&number.to_be_bytes()[..], &[line]].concat(), [b'l'; 60])?;
    }
    Ok(())
}

fn run(store: &PageStore, thread: u64, count: u64) -> Result<u64> {
    let mut dice = Dice(thread + 1);
    let mut again = 0;
    for i in 0..count {
        loop {
            let transaction = store.begin()?;
            match order(&transaction, &mut dice, thread << 32 | i) {
                Ok(()) => {
                    transaction.commit(Durability::None)?;
                    break;
                }
                Err(error) if error.is_retryable() => again += 1,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(again)
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let (count, threads) = (numbers.next().unwrap_or(20_000), numbers.next().unwrap_or(1));
    let dir = tempfile::tempdir().expect("a directory for the store");
    let store = PageStore::open_path(dir.path(), Options::with_memory("", 512 << 20))?;
    load(&store)?;
    let reader = store.begin_read()?;
    let (begun, mut dice) = (Instant::now(), Dice(9));
    for _ in 0..100_000 {
        reader.table("stock").get(dice.below(ITEMS).to_be_bytes())?;
    }
    println!("a get of its own lock and page: {:?}", begun.elapsed() / 100_000);
    let begun = Instant::now();
    for _ in 0..100_000 {
        reader.table("stock").get(dice.below(100).to_be_bytes())?;
    }
    println!("a get of what is locked already: {:?}", begun.elapsed() / 100_000);
    let begun = Instant::now();
    let rows = reader.table("item").iter().count();
    println!("a row of a scan: {:?}", begun.elapsed() / u32::try_from(rows).expect("few"));
    drop(reader);
    let begun = Instant::now();
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || run(&store, thread, count / threads))
        })
        .collect();
    let mut again = 0;
    for worker in workers {
        again += worker.join().expect("it does not panic")?;
    }
    let took = begun.elapsed();
    let each = took.as_secs_f64() * 1e6 / count as f64;
    println!("{count} orders by {threads} threads: {each:.1} µs each, {again} begun again");
    println!("{:?}", store.stats());
    store.close()
}

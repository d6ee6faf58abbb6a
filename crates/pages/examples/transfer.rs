//! Moves money between accounts, from several threads, in a store that survives.
//!
//! `cargo run -p indelible-pages --example transfer -- DIRECTORY`

use std::sync::Arc;

use pages::{Durability, Env, Error, Options, PageStore, Result};

/// Moves one coin; retries the transaction whenever it is chosen as the victim of a deadlock.
fn transfer(store: &PageStore, from: u8, to: u8) -> Result<()> {
    loop {
        let transaction = store.begin()?;
        match try_transfer(&transaction.table("accounts"), from, to) {
            Ok(()) => return transaction.commit(Durability::Immediate).map(drop),
            Err(error) if error.is_retryable() => transaction.abort(),
            Err(error) => return Err(error),
        }
    }
}

fn try_transfer(accounts: &pages::Table<'_>, from: u8, to: u8) -> Result<()> {
    let balance = |account: u8| -> Result<u64> {
        let bytes = accounts.get([account])?.unwrap_or_default();
        Ok(bytes.try_into().map_or(100, u64::from_be_bytes))
    };
    let (left, right) = (balance(from)?, balance(to)?);
    if left > 0 && from != to {
        accounts.insert([from], (left - 1).to_be_bytes())?;
        accounts.insert([to], (right + 1).to_be_bytes())?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| "transfer.pages".into());
    let env = Env { disk: Arc::new(env_os::OsDisk), clock: Arc::new(env_os::OsClock::new()) };
    let store = PageStore::open(&env, Options::new(dir))?;
    let threads: Vec<_> = (0..4_u8)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || {
                (0..50_u8).try_for_each(|i| transfer(&store, (thread + i) % 10, i % 9))
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a transfer does not panic")?;
    }
    let reader = store.begin_read()?;
    let mut sum = 0;
    for entry in reader.table("accounts").iter() {
        let (account, balance) = entry?;
        let balance = balance.try_into().map_or(0, u64::from_be_bytes);
        println!("account {account:?}: {balance}");
        sum += balance;
    }
    drop(reader);
    println!("sum: {sum}");
    let report = store.check()?;
    println!("{report:?}\n{:?}", store.stats());
    match store.close() {
        Err(Error::Poisoned { cause }) => println!("not closed: {cause}"),
        other => other?,
    }
    Ok(())
}

//! How long a walk takes the executor, and what commands pay meanwhile: run by hand, in release.
//!
//! `cargo test --release -p indelible-keyspace --test it -- --ignored --nocapture walk::speed`

use std::time::{Duration, Instant};

use keyspace::hash::Hash;
use keyspace::walk::{Algorithm, Options, Step};
use keyspace::{Expiry, Keyspace, NoJournal};

use crate::DB0;
use crate::journal::SEED;

/// How much a step may do, in bytes.
const STEP_BYTES: usize = 256 << 10;

type Fill = fn(&mut Keyspace);

fn strings(keyspace: &mut Keyspace) {
    for number in 0..1_000_000u32 {
        let key = format!("key:{number:012}");
        keyspace.set_string(DB0, key.as_bytes(), &[b'v'; 100], Expiry::Clear);
    }
}

fn hashes(keyspace: &mut Keyspace) {
    for number in 0..100_000u32 {
        let key = format!("key:{number:012}");
        fill_hash(keyspace, key.as_bytes(), 10);
    }
}

fn one_hash(keyspace: &mut Keyspace) {
    fill_hash(keyspace, b"hash", 1_000_000);
}

fn fill_hash(keyspace: &mut Keyspace, key: &[u8], fields: u32) {
    let filled = keyspace.update::<Hash, _>(DB0, key, true, |hash| {
        (0..fields).for_each(|field| _ = hash.set(&field.to_be_bytes(), &[b'v'; 100]));
    });
    filled.expect("a hash");
}

/// Times a walk, with `change` between two steps.
fn time(name: &str, algorithm: Algorithm, fill: Fill, change: Option<fn(&mut Keyspace, u32)>) {
    let mut keyspace = Keyspace::new(NoJournal, SEED, 16);
    keyspace.begin_command(0);
    fill(&mut keyspace);
    let start = Instant::now();
    keyspace.begin_walk(Options { algorithm, ..Options::default() }).expect("all is in memory");
    let trigger = start.elapsed();
    let (mut steps, mut longest, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
    let (mut commands, mut longest_command, mut handed_bytes) = (0u32, Duration::ZERO, 0);
    loop {
        let start = Instant::now();
        let step = keyspace.walk_step(STEP_BYTES);
        let elapsed = start.elapsed();
        (steps, longest) = (steps + elapsed, longest.max(elapsed));
        match step {
            Step::Chunk(chunk) => bytes += chunk.len(),
            Step::More => {}
            Step::Idle | Step::Over(_) => break,
        }
        for _ in 0..50 {
            let Some(change) = change else { break };
            let start = Instant::now();
            keyspace.begin_command(0);
            change(&mut keyspace, commands);
            longest_command = longest_command.max(start.elapsed());
            commands += 1;
        }
        handed_bytes = handed_bytes.max(keyspace.handed_bytes());
    }
    println!(
        "{name:>24} {algorithm:?}: trigger {trigger:?}, {:.1} MB in {steps:?}, longest step {longest:?}; \
         {commands} commands, longest {longest_command:?}, at most {handed_bytes} bytes handed over",
        bytes as f64 / 1e6,
    );
    std::mem::forget(keyspace);
}

fn set(keyspace: &mut Keyspace, number: u32) {
    let key = format!("key:{:012}", number.wrapping_mul(2_654_435_761) % 1_000_000);
    keyspace.set_string(DB0, key.as_bytes(), &[b'w'; 100], Expiry::Clear);
}

fn set_field(keyspace: &mut Keyspace, number: u32) {
    let field = number.wrapping_mul(2_654_435_761) % 1_000_000;
    let set = keyspace.update::<Hash, _>(DB0, b"hash", true, |hash| {
        hash.set(&field.to_be_bytes(), &[b'w'; 100]);
    });
    set.expect("a hash");
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    time("1 M strings", Algorithm::Piggyback, strings, None);
    time("100 k hashes of 10", Algorithm::Piggyback, hashes, None);
    time("a hash of 1 M", Algorithm::Piggyback, one_hash, None);
    time("1 M strings, SET", Algorithm::Piggyback, strings, Some(set));
    time("a hash of 1 M, HSET", Algorithm::Piggyback, one_hash, Some(set_field));
    time("a hash of 1 M, HSET", Algorithm::CopyOnUpdate, one_hash, Some(set_field));
}

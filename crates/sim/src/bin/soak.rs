//! `soak [--minutes N] [--seed S] [--seeds N]`: the simulator for a while, or for so many seeds; `--only S` or
//! `--trace S` for one seed.
//! With `--index`, only seeds whose runs keep an index of the log.
//!
//! Progress goes to standard error; figures, as a table and as one line of JSON, to standard output.
//! The exit code is 1 when a promise was broken: the seed and what led to it are printed then.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sim::soak::{LIVES, soak};
use sim::{Plan, has_index, run};

const USAGE: &str = "usage: soak [--minutes N | --seconds N] [--seed S] [--seeds N] [--index] | soak --only S | \
                     soak --trace S";

/// The seed that is running, for the message of an assertion that fails.
static SEED: AtomicU64 = AtomicU64::new(0);

fn name_seed_in_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("seed {}:", SEED.load(Ordering::Relaxed));
        report(panic);
    }));
}

fn main() -> ExitCode {
    let (mut seconds, mut seed, mut only, mut is_traced) = (600, 1, None, false);
    let (mut is_index_only, mut count) = (false, usize::MAX);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--index" {
            is_index_only = true;
            continue;
        }
        let Some(value) = arguments.next().and_then(|text| text.parse::<u64>().ok()) else {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        };
        match name.as_str() {
            "--minutes" => seconds = value * 60,
            "--seconds" => seconds = value,
            "--seed" => seed = value,
            "--seeds" => count = usize::try_from(value).unwrap_or(usize::MAX),
            "--only" => only = Some(value),
            "--trace" => (only, is_traced) = (Some(value), true),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    if let Some(seed) = only {
        return match run(Plan { seed, lives: LIVES, is_traced }) {
            Ok(outcome) => {
                outcome.trace.iter().for_each(|line| println!("{line}"));
                println!(
                    "seed {seed}, fingerprint {:016x}: {}",
                    outcome.fingerprint, outcome.tally
                );
                ExitCode::SUCCESS
            }
            Err(violation) => {
                println!("{violation}");
                ExitCode::FAILURE
            }
        };
    }
    eprintln!("soak: {seconds} s from seed {seed}");
    name_seed_in_panics();
    let seeds = (seed..).filter(|seed| !is_index_only || has_index(*seed)).take(count);
    let seeds = seeds.inspect(|seed| SEED.store(*seed, Ordering::Relaxed));
    let report = soak(seeds, Duration::from_secs(seconds), |line| eprintln!("{line}"));
    for violation in &report.violations {
        println!("{violation}");
    }
    println!("{}", report.markdown());
    println!("{}", report.json());
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

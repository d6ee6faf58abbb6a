//! What cargo-fuzz does on nightly, as far as stable Rust can: the committed corpora, and a fixed
//! number of mutations of them, with what is allocated counted.
//!
//! `INDELIBLE_SEED` chooses other mutations, `INDELIBLE_SOAK_SECONDS` more of them (in the ignored
//! test).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mutation;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use fuzz_targets::{TARGETS, Target};
use tikv_jemalloc_ctl::thread::allocatedp;

use crate::mutation::Mutator;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The largest input that is made up.
const INPUT_BYTES_MAX: usize = 8 << 10;

/// What a target is tried with first.
fn inputs(target: &Target) -> Vec<Vec<u8>> {
    [corpus(target), (target.seeds)()].concat()
}

/// The files of a target's corpus, in the order of their names.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let directory =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name);
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Runs a target; a failure names it and shows the input.
fn run(target: &Target, input: &[u8]) -> Result<(), String> {
    let allocated = allocatedp::read().unwrap();
    let before = allocated.get();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let bytes = allocated.get() - before;
    let max = target.allocation_max(input.len() as u64);
    let what = match outcome {
        Err(_) => "panics".to_owned(),
        Ok(()) if bytes > max => format!("allocates {bytes} bytes, more than {max},"),
        Ok(()) => return Ok(()),
    };
    Err(format!("target {} {what} for b\"{}\"", target.name, input.escape_ascii()))
}

/// Runs each target with what `inputs` gives for it, until it fails once; fails if any did.
fn run_all<I: Iterator<Item = Vec<u8>>>(inputs: impl Fn(&'static Target) -> I) {
    let failures: Vec<String> = TARGETS
        .iter()
        .filter_map(|target| inputs(target).find_map(|input| run(target, &input).err()))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn seed() -> u64 {
    let given = std::env::var("INDELIBLE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(20_261_121);
    println!("INDELIBLE_SEED={seed}");
    seed
}

/// Mutations of a target's corpus, without end.
fn mutations(target: &Target, seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut mutator = Mutator::new(inputs(target), seed, INPUT_BYTES_MAX);
    std::iter::repeat_with(move || mutator.next())
}

#[test]
fn the_corpora_are_read_as_promised() {
    run_all(|target| inputs(target).into_iter());
}

#[test]
fn corpora_are_small_and_each_belongs_to_a_target() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for entry in std::fs::read_dir(corpora).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let target = Target::by_name(&name).unwrap_or_else(|| panic!("{name} is no target"));
        let bytes: usize = corpus(target).iter().map(Vec::len).sum();
        assert!(bytes <= 200 << 10, "the corpus of {name} has {bytes} bytes");
    }
}

#[test]
fn every_target_is_one_of_cargo_fuzz() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for Target { name, .. } in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        let text = std::fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(text.contains(&format!("by_name(\"{name}\")")), "{name}");
    }
}

#[test]
fn mutations_are_read_as_promised() {
    let seed = seed();
    run_all(|target| mutations(target, seed).take(2000));
}

#[test]
#[ignore = "takes INDELIBLE_SOAK_SECONDS; cargo xtask soak runs it"]
fn more_mutations_are_read_as_promised() {
    let seconds = std::env::var("INDELIBLE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let each = Duration::from_secs(seconds.unwrap_or(60)) / u32::try_from(TARGETS.len()).unwrap();
    let seed = seed();
    run_all(|target| {
        let started = Instant::now();
        mutations(target, seed).take_while(move |_| started.elapsed() < each)
    });
}

//! Writes what the corpora begin with into `fuzz/corpus`, beside what is there. Long ones stay out:
//! the test runs them all the same.

use std::path::Path;

const SEED_BYTES_MAX: usize = 8 << 10;

fn main() -> std::io::Result<()> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in fuzz_targets::TARGETS {
        let directory = corpora.join(target.name);
        std::fs::create_dir_all(&directory)?;
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            if seed.len() <= SEED_BYTES_MAX {
                std::fs::write(directory.join(format!("seed-{number:02}")), seed)?;
            }
        }
    }
    Ok(())
}

//! Writes the seeds of every target into a directory, a subdirectory each, for cargo-fuzz to begin with.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> std::io::Result<ExitCode> {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: write_seeds DIRECTORY");
        return Ok(ExitCode::from(2));
    };
    for target in fuzz_targets::TARGETS {
        let directory = directory.join(target.name);
        std::fs::create_dir_all(&directory)?;
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{number:03}")), seed)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! The long tests: those marked `#[ignore]` run here, with a bounded time and a seed that is printed.
//!
//! The tests read two environment variables: `INDELIBLE_SOAK_SECONDS`, after which a test starts no
//! further round, and `INDELIBLE_SEED`, from which it draws everything random. A failure is repeated by
//! giving the printed seed again.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

const DEFAULT_SECONDS: &str = "600";

/// Runs the ignored tests of the workspace in the release profile.
pub(crate) fn run(root: &Path, seconds: Option<String>, seed: Option<String>) -> ExitCode {
    let seconds = seconds.unwrap_or_else(|| DEFAULT_SECONDS.to_owned());
    let seed = seed.unwrap_or_else(fresh_seed);
    println!("xtask soak: about {seconds} s from seed {seed}");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["test", "--workspace", "--release", "--", "--ignored", "--test-threads=1"])
        .env("INDELIBLE_SOAK_SECONDS", &seconds)
        .env("INDELIBLE_SEED", &seed)
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => {
            println!("xtask soak: failed; repeat with: cargo xtask soak {seconds} {seed}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: cannot run cargo: {error}");
            ExitCode::from(2)
        }
    }
}

fn fresh_seed() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |elapsed| elapsed.as_secs()).to_string()
}

//! The long runs: the simulator for some minutes, and on request the tests marked `#[ignore]`.
//!
//! The seed is printed, and a failure is repeated by giving it again. The tests read two environment
//! variables: `INDELIBLE_SOAK_SECONDS`, after which a test starts no further round, and
//! `INDELIBLE_SEED`, from which it draws everything random.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

const DEFAULT_MINUTES: u64 = 10;

/// What to run, and for how long.
struct Options {
    minutes: u64,
    seed: u64,
    /// Whether the ignored tests run too, each for as long.
    with_tests: bool,
}

/// Runs what the arguments ask for, in the release profile.
pub(crate) fn run(root: &Path, arguments: impl Iterator<Item = String>) -> ExitCode {
    let Some(options) = parse(arguments) else {
        eprintln!("{}", crate::USAGE);
        return ExitCode::from(2);
    };
    let Options { minutes, seed, with_tests } = options;
    println!("xtask soak: {minutes} minutes from seed {seed}");
    let (minutes_text, seed_text) = (minutes.to_string(), seed.to_string());
    let mut simulator = cargo(root);
    simulator
        .args(["run", "--quiet", "--release", "--package", "indelible-sim", "--bin", "soak", "--"])
        .args(["--minutes", &minutes_text, "--seed", &seed_text]);
    let mut commands = vec![simulator];
    if with_tests {
        let mut tests = cargo(root);
        tests
            .args(["test", "--workspace", "--release", "--", "--ignored", "--test-threads=1"])
            .env("INDELIBLE_SOAK_SECONDS", (minutes * 60).to_string())
            .env("INDELIBLE_SEED", &seed_text);
        commands.push(tests);
    }
    for mut command in commands {
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(_) => {
                println!("xtask soak: failed; the seed was {seed}");
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("error: cannot run cargo: {error}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options { minutes: DEFAULT_MINUTES, seed: fresh_seed(), with_tests: false };
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--minutes" => options.minutes = arguments.next()?.parse().ok()?,
            "--seed" => options.seed = arguments.next()?.parse().ok()?,
            "--tests" => options.with_tests = true,
            _ => return None,
        }
    }
    Some(options)
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |elapsed| elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_named() {
        let parsed = |words: &[&str]| parse(words.iter().map(|word| (*word).to_owned()));
        let options = parsed(&["--minutes", "3", "--seed", "7", "--tests"]).expect("well-formed");
        assert_eq!((options.minutes, options.seed, options.with_tests), (3, 7, true));
        assert_eq!(parsed(&[]).map(|options| options.minutes), Some(DEFAULT_MINUTES));
        assert!(parsed(&["60", "7"]).is_none() && parsed(&["--seed"]).is_none());
    }
}

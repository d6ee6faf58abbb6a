//! Makes runs, each in its own process, and reads their results.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Arguments;
use super::plan::{Figure, Measure, Run, commit_name};
use crate::error::{Error, Result};

/// The file of a result.
fn path(arguments: &Arguments, run: &Run, round: usize) -> PathBuf {
    let Arguments { dir, warehouses, transactions, .. } = arguments;
    let name = run.name();
    let program = program_checksum();
    dir.join("runs")
        .join(format!("{program:08x}-w{warehouses}-t{transactions}-{name}-{round}.json"))
}

/// Results that another program has measured do not count as this one's.
fn program_checksum() -> u32 {
    static CHECKSUM: OnceLock<u32> = OnceLock::new();
    *CHECKSUM.get_or_init(|| {
        let program = std::env::current_exe().and_then(std::fs::read);
        base::checksum::crc32c(&program.unwrap_or_default())
    })
}

/// Makes the missing runs, round by round, until the time is over.
pub(super) fn make(
    arguments: &Arguments,
    figures: &[Figure],
    began: Instant,
    patience: Option<Duration>,
) -> Result<()> {
    let runs = side_by_side(figures);
    let dir = arguments.dir.join("runs");
    std::fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
    let total = runs.len() * arguments.rounds;
    let rounds = (0..arguments.rounds).flat_map(|round| runs.iter().map(move |&run| (round, run)));
    for (number, (round, run)) in (1..).zip(rounds) {
        let path = path(arguments, run, round);
        if path.exists() {
            continue;
        }
        if patience.is_some_and(|patience| began.elapsed() >= patience) {
            eprintln!("{} of {total} runs are made; the rest is for another time", number - 1);
            return Ok(());
        }
        eprintln!("{number}/{total}, round {}: {}", round + 1, run.name());
        make_one(arguments, run, &path, round)?;
    }
    Ok(())
}

/// Returns every run once. Runs that are compared follow one another, because the machine has good
/// and bad minutes.
fn side_by_side(figures: &[Figure]) -> Vec<&Run> {
    let mut runs: Vec<&Run> =
        figures.iter().flat_map(|figure| &figure.points).map(|point| &point.run).collect();
    runs.sort_by_cached_key(|run| (run.pool_mb, run.options.clone(), run.name()));
    runs.dedup();
    runs
}

fn make_one(arguments: &Arguments, run: &Run, path: &Path, round: usize) -> Result<()> {
    let program = std::env::current_exe().map_err(Error::file("the program itself".as_ref()))?;
    // The measured process does not load the data, which have their own seed.
    for is_load in [true, false] {
        let mut command = Command::new(&program);
        command.args(["tpcc", "--engine", run.engine.name()]);
        command.arg("--dir").arg(&arguments.dir);
        command.args(["--warehouses", &arguments.warehouses.to_string()]);
        if is_load {
            command.arg("--load-only");
        } else {
            command.args(["--commit", commit_name(run.commit)]);
            command.args(["--pool-mb", &run.pool_mb.to_string()]);
            command.args(["--transactions", &arguments.transactions.to_string()]);
            command.args(["--run-seed", &(round + 1).to_string()]);
            for (option, value) in &run.options {
                command.args([format!("--{option}"), value.to_string()]);
            }
            command.arg("--json").arg(path);
        }
        let output = command.output().map_err(Error::file(&program))?;
        if !output.status.success() {
            let what = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Engine { engine: run.engine.name(), what });
        }
    }
    Ok(())
}

/// Reads the existing results of a run, by round.
pub(super) fn results(arguments: &Arguments, run: &Run) -> Result<Vec<Value>> {
    let paths = (0..arguments.rounds).map(|round| path(arguments, run, round));
    paths
        .filter(|path| path.exists())
        .map(|path| {
            let text = std::fs::read(&path).map_err(Error::file(&path))?;
            serde_json::from_slice(&text)
                .map_err(|error| Error::damaged(format!("{}: {error}", path.display())))
        })
        .collect()
}

/// A value of a result.
pub(super) fn value(result: &Value, measure: Measure) -> f64 {
    let of = |pointer: &str| result.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let per_transaction = |pointer: &str| of(pointer) / of("/transactions");
    match measure {
        Measure::SecondsPer10k => 10_000.0 / of("/per_second"),
        Measure::TransactionsPerSecond => of("/per_second"),
        Measure::PageReads => per_transaction("/counters/page_reads"),
        Measure::PageWrites => per_transaction("/counters/page_writes"),
        Measure::LogWrites => per_transaction("/counters/log_writes"),
    }
}

/// Median, minimum and maximum of the rounds; `None` if there are none.
pub(super) fn median(results: &[Value], measure: Measure) -> Option<(f64, f64, f64)> {
    let mut values: Vec<f64> = results.iter().map(|result| value(result, measure)).collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let median = match values.len() {
        0 => return None,
        len if len % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    };
    Some((median, values[0], values[values.len() - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_are_compared_run_one_after_the_other_and_each_once() {
        let figures = crate::figures::plan::pages();
        let runs = side_by_side(&figures);
        let place = |name: &str| runs.iter().position(|run| run.name() == name).expect("planned");
        assert_eq!(
            place("bdb-immediate-40mb-threads-4") + 1,
            place("pages-immediate-40mb-threads-4")
        );
        let names: std::collections::BTreeSet<String> = runs.iter().map(|run| run.name()).collect();
        assert_eq!(names.len(), runs.len());
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let results: Vec<Value> = [5.0, 1.0, 3.0, 9.0]
            .iter()
            .map(|per_second| serde_json::json!({ "per_second": per_second }))
            .collect();
        let of = |count: usize| median(&results[..count], Measure::TransactionsPerSecond);
        assert_eq!(of(0), None);
        assert_eq!(of(3), Some((3.0, 1.0, 5.0)));
        assert_eq!(of(4), Some((4.0, 1.0, 9.0)));
    }
}

//! Draws Figures 4 to 9 of paper 002 from the runs of `bench/recovery/sweep`.
//!
//! ```text
//!   RUNS/SET-…-roundN.json ──► tables.md, figure-07.svg … 09.svg   medians of the rounds
//!   RUNS/SET-…-roundN.csv  ──► figure-04.svg … 06.svg              the course of the first round
//! ```
//!
//! Sets: `load` (Figures 4 to 6), `size` (7 to 9), and two that are killed under load, which the
//! paper's were not: `crash` and `rate`, the latter with as many requests as a network brings. `compact-load`
//! and `compact-size` are the first two with compaction, which the paper's schemes do not have.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::plot::{Line, Panel, draw};

/// The arguments of `indelible-bench recovery-figures`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The directory with the results of the runs.
    #[arg(long)]
    pub runs: PathBuf,
    /// The directory for figures and tables.
    #[arg(long)]
    pub results: PathBuf,
}

/// The order of lines and rows.
const SCHEMES: [&str; 5] = ["slr", "ailir", "ailir-newest", "silir", "runs"];

/// The columns of a table: a name, the member of the result, and by what it is divided.
const COLUMNS: [(&str, &str, f64); 8] = [
    ("records read first", "records_read", 1.0),
    ("served, s", "serving_ms", 1e3),
    ("all in memory, s", IN_MEMORY_MS, 1e3),
    ("traversed, s", "restored_ms", 1e3),
    ("complete, s", "complete_ms", 1e3),
    ("thousand requests/s", "requests_per_second", 1e3),
    ("p99, ms", "p99_us", 1e3),
    ("maximum, ms", "max_us", 1e3),
];

/// When the last key came, on demand or not: a traversal goes on to its end. Taken from the course.
const IN_MEMORY_MS: &str = "in_memory_ms";

/// The rounds of one run: equal but for their time.
struct Run {
    /// The name of its files, without the round.
    name: String,
    rounds: Vec<Value>,
    /// The course of the first round.
    course: PathBuf,
}

impl Run {
    fn text(&self, member: &str) -> &str {
        self.rounds[0][member].as_str().unwrap_or_default()
    }

    fn keys(&self) -> u64 {
        self.rounds[0]["keys"].as_u64().unwrap_or_default()
    }

    fn is_of(&self, set: &str) -> bool {
        self.name.starts_with(set)
    }

    /// The median of the rounds, the least and the most.
    fn spread(&self, member: &str) -> Option<[f64; 3]> {
        let mut values: Vec<f64> =
            self.rounds.iter().filter_map(|round| round[member].as_f64()).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some([median, least, most])
    }
}

fn read(dir: &Path) -> Result<Vec<Run>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(Error::file(dir))? {
        paths.push(entry.map_err(Error::file(dir))?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let mut runs: Vec<Run> = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
        let damaged = |error| Error::damaged(format!("{}: {error}", path.display()));
        let mut round: Value = serde_json::from_str(&text).map_err(damaged)?;
        let course = path.with_extension("csv");
        round[IN_MEMORY_MS] = in_memory_ms(&course, &round)?.into();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = stem.rsplit_once("-round").map_or(&*stem, |(name, _)| name).to_owned();
        match runs.iter_mut().find(|run| run.name == name) {
            Some(run) => run.rounds.push(round),
            None => {
                runs.push(Run { name, rounds: vec![round], course });
            }
        }
    }
    let place = |run: &Run| SCHEMES.iter().position(|scheme| *scheme == run.text("scheme"));
    runs.sort_by_key(|run| (run.keys(), place(run)));
    Ok(runs)
}

/// The first time at which all keys were in memory; at the latest, when the log was read.
fn in_memory_ms(path: &Path, round: &Value) -> Result<Option<f64>> {
    let keys = round["keys"].as_f64();
    let steps = course(path, "restored")?;
    let first = steps.into_iter().find(|(_, restored)| Some(*restored) == keys);
    let traversed = round["restored_ms"].as_f64();
    Ok(first.map(|(seconds, _)| seconds * 1e3).into_iter().chain(traversed).reduce(f64::min))
}

/// A column of a run's course, with the time in seconds.
fn course(path: &Path, column: &str) -> Result<Vec<(f64, f64)>> {
    let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap_or_default();
    let at = names.iter().position(|name| *name == column).unwrap_or_default();
    let number = |line: &[&str], index: usize| {
        line.get(index).and_then(|word| word.parse::<f64>().ok()).unwrap_or_default()
    };
    Ok(lines.map(|line| (number(&line, 0) / 1e3, number(&line, at))).collect())
}

/// Figures 4 to 6: the course of a run by scheme.
fn courses(runs: &[&Run]) -> Result<Vec<Panel>> {
    let panel = |title: &str, y_label, column, scale: f64| -> Result<Panel> {
        let mut lines = Vec::new();
        for run in runs {
            let points =
                course(&run.course, column)?.into_iter().map(|(x, y)| (x, y * scale)).collect();
            lines.push(Line { name: run.text("scheme").to_owned(), points });
        }
        let (title, x_label) = (title.to_owned(), "seconds since the exec");
        Ok(Panel { title, x_label, y_label, logarithmic: false, marks: false, lines })
    };
    #[expect(clippy::cast_precision_loss, reason = "a share for a plot")]
    let keys = runs.first().map_or(1.0, |run| run.keys() as f64);
    Ok(vec![
        // A step is 100 ms.
        panel("requests", "thousand a second", "requests", 10.0 / 1e3)?,
        panel("restored", "share of the keys", "restored", 1.0 / keys)?,
        panel("latency, p99 of each step", "ms", "p99_us", 1e-3)?,
    ])
}

/// Figures 7 to 9: a number by size.
fn by_size(runs: &[&Run], title: &str, y_label: &'static str, member: &str) -> Panel {
    let lines = SCHEMES.map(|scheme| {
        let of_scheme = runs.iter().filter(|run| run.text("scheme") == scheme);
        #[expect(clippy::cast_precision_loss, reason = "a number for a plot")]
        let points = of_scheme
            .filter_map(|run| Some((run.keys() as f64 / 1e3, run.spread(member)?[0] / 1e3)))
            .collect();
        Line { name: scheme.to_owned(), points }
    });
    let (title, x_label) = (title.to_owned(), "thousand keys");
    Panel { title, x_label, y_label, logarithmic: false, marks: true, lines: lines.into() }
}

fn table(title: &str, runs: &[&Run]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let of_first = |member: &str| first.rounds[0][member].to_string();
    let mut text = format!(
        "## {title}\n\n{} keys, {} records each; {} clients, {} requests each. Seconds from the exec on: \
         median (least – most) of {} rounds.\n\n| scheme |",
        of_first("keys"),
        of_first("records_per_key"),
        of_first("clients"),
        of_first("requests_per_client"),
        first.rounds.len()
    );
    let was_killed = first.spread("requests_per_second_before").is_some();
    let before = ("thousand requests/s before the kill", "requests_per_second_before", 1e3);
    let columns = COLUMNS.into_iter().chain(was_killed.then_some(before));
    let columns: Vec<_> = columns.collect();
    columns.iter().for_each(|(name, ..)| _ = write!(text, " {name} |"));
    text += "\n|---|";
    text += &"---:|".repeat(columns.len());
    for run in runs {
        let _ = write!(text, "\n| {} |", run.text("scheme"));
        for (_, member, divisor) in &columns {
            let Some(spread) = run.spread(member) else {
                text += " |";
                continue;
            };
            let [median, least, most] = spread.map(|value| figure(value / divisor));
            let _ = match least == most {
                true => write!(text, " {median} |"),
                false => write!(text, " {median} ({least} – {most}) |"),
            };
        }
    }
    text + "\n\n"
}

/// A number with about three digits.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Draws the figures and writes the tables.
///
/// # Errors
/// Errors of files.
pub fn run(arguments: &Arguments) -> Result<()> {
    let results = &arguments.results;
    std::fs::create_dir_all(results).map_err(Error::file(results))?;
    let runs = read(&arguments.runs)?;
    let of = |set: &str, is_wanted: &dyn Fn(&Run) -> bool| -> Vec<&Run> {
        runs.iter().filter(|run| run.is_of(set) && is_wanted(run)).collect()
    };
    let mut tables = String::from("# Runs of `bench/recovery/sweep`\n\n");
    let loads = [("ro", "read only", 4), ("rw", "5:5", 5), ("wo", "write only", 6)];
    for (workload, name, number) in loads {
        let runs = of("load-", &|run| run.text("workload") == workload);
        tables += &table(&format!("Figure {number}: {name}"), &runs);
        if !runs.is_empty() {
            draw(&results.join(format!("figure-{number:02}.svg")), 3, &courses(&runs)?)?;
        }
    }
    for (workload, name, number) in loads {
        let runs = of("compact-load-", &|run| run.text("workload") == workload);
        tables += &table(&format!("Figure {number} with compaction: {name}"), &runs);
    }
    let sized = of("size-", &|_| true);
    for (set, with) in [("size-", ""), ("compact-size-", " with compaction")] {
        let mut sizes: Vec<u64> = of(set, &|_| true).iter().map(|run| run.keys()).collect();
        sizes.dedup();
        for size in sizes {
            let runs = of(set, &|run| run.keys() == size);
            tables += &table(&format!("Figures 7 to 9{with}: {size} keys, 5:5"), &runs);
        }
    }
    let figures = [
        (7, "time until all keys are in memory", "seconds", IN_MEMORY_MS),
        (8, "average rate", "thousand requests a second", "requests_per_second"),
        (9, "time of the whole load", "seconds", "complete_ms"),
    ];
    for (number, title, y_label, member) in figures.into_iter().filter(|_| !sized.is_empty()) {
        let panel = by_size(&sized, title, y_label, member);
        draw(&results.join(format!("figure-{number:02}.svg")), 1, &[panel])?;
    }
    let killed = [
        ("crash-", "killed", "Killed under load, 5:5"),
        ("rate-", "killed-at-rate", "Killed under load at 100,000 requests a second, 5:5"),
    ];
    for (set, file, title) in killed {
        let runs = of(set, &|_| true);
        tables += &table(title, &runs);
        if !runs.is_empty() {
            draw(&results.join(file).with_extension("svg"), 3, &courses(&runs)?)?;
        }
    }
    let path = results.join("tables.md");
    std::fs::write(&path, tables.trim_end().to_owned() + "\n").map_err(Error::file(&path))
}

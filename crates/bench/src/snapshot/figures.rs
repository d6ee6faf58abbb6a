//! Draws Figures 9 to 12 and Tables 2 and 4 of paper 004 from the runs of `bench/snapshot/sweep`.
//!
//! ```text
//!   RUNS/*.json ──► data.csv, transactions.csv      one line a run
//!               ──► figure-09.svg … figure-12.svg
//!               ──► tables.md
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::plot::{Line, Panel, draw};

/// The arguments of `indelible-bench snapshot-figures`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The directory with the results of the runs.
    #[arg(long)]
    pub runs: PathBuf,
    /// The directory for figures and tables.
    #[arg(long)]
    pub results: PathBuf,
}

/// The rounds of one run of `indelible-bench snapshot`: equal except for the seed.
struct Run {
    series: String,
    rows_mb: f64,
    row_bytes: f64,
    updates: f64,
    /// 0 for uniform.
    theta: f64,
    /// Whether nothing was written.
    discarded: bool,
    rounds: Vec<Value>,
}

impl Run {
    /// Rows are in huge pages, unless the name of the series says otherwise. Fork uses ordinary
    /// pages, unless its name says otherwise.
    fn of(json: Value) -> Option<Self> {
        let arguments = &json["arguments"];
        let name = arguments["algorithm"].as_str()?;
        let huge = arguments["huge_pages"].as_bool()?;
        let suffix = match (name, huge) {
            ("fork", true) => "-huge",
            ("fork", false) | (_, true) => "",
            (_, false) => "-ordinary",
        };
        Some(Self {
            series: format!("{name}{suffix}"),
            rows_mb: arguments["rows_mb"].as_f64()?,
            row_bytes: arguments["row_bytes"].as_f64()?,
            updates: arguments["updates_per_tick"].as_f64()?,
            theta: arguments["distribution"]["zipf"].as_f64().unwrap_or(0.0),
            discarded: arguments["discard"].as_bool().unwrap_or(false),
            rounds: vec![json],
        })
    }

    fn is_of_one_kind_with(&self, other: &Self) -> bool {
        let parameters =
            |run: &Self| [run.rows_mb, run.row_bytes, run.updates, run.theta].map(f64::to_bits);
        self.series == other.series
            && self.discarded == other.discarded
            && parameters(self) == parameters(other)
    }

    /// Groups results into runs with their rounds, in order of appearance.
    fn gather(jsons: impl IntoIterator<Item = Value>) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for run in jsons.into_iter().filter_map(Self::of) {
            match runs.iter_mut().find(|other| other.is_of_one_kind_with(&run)) {
                Some(first) => first.rounds.extend(run.rounds),
                None => runs.push(run),
            }
        }
        runs
    }

    /// Returns the median of the rounds.
    fn median(&self, value: impl Fn(&Value) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
    }

    fn number(&self, name: &str) -> f64 {
        self.median(|json| json[name].as_f64().unwrap_or(0.0))
    }

    fn online_ms(&self) -> f64 {
        self.median(|json| {
            let checkpoints = json["run"]["checkpoints"].as_array();
            let times: Vec<f64> = checkpoints
                .into_iter()
                .flatten()
                .filter_map(|checkpoint| checkpoint["online_ms"].as_f64())
                .collect();
            super::mean(&times)
        })
    }

    /// Returns the latencies of the ticks of the first round.
    fn ticks_us(&self) -> impl Iterator<Item = f64> {
        let ticks = self.rounds[0]["run"]["tick_us"].as_array();
        ticks.into_iter().flatten().filter_map(Value::as_f64)
    }

    /// Whether all parameters except `but` have their default values.
    fn is_default(&self, but: Parameter) -> bool {
        (but == Parameter::RowsMb || self.rows_mb == 1024.0)
            && (but == Parameter::RowBytes || self.row_bytes == 64.0)
            && (but == Parameter::Updates || self.updates == 32768.0)
            && (but == Parameter::Theta || self.theta == 0.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parameter {
    RowsMb,
    RowBytes,
    Updates,
    Theta,
}

impl Parameter {
    const ALL: [(Self, &'static str); 4] = [
        (Self::RowsMb, "data set, MB"),
        (Self::RowBytes, "row, bytes"),
        (Self::Updates, "updates a tick"),
        (Self::Theta, "theta of Zipf (0: uniform)"),
    ];

    fn of(self, run: &Run) -> f64 {
        match self {
            Self::RowsMb => run.rows_mb,
            Self::RowBytes => run.row_bytes,
            Self::Updates => run.updates,
            Self::Theta => run.theta,
        }
    }
}

/// The order of the lines of plots and tables.
const SERIES: [&str; 9] = [
    "naive",
    "cou",
    "fork",
    "fork-huge",
    "zigzag",
    "ping-pong",
    "hourglass",
    "piggyback",
    "windowed",
];

fn lines(
    runs: &[Run],
    series: &[&str],
    parameter: Parameter,
    discarded: bool,
    value: impl Fn(&Run) -> f64,
) -> Vec<Line> {
    series
        .iter()
        .map(|name| {
            let mut points: Vec<(f64, f64)> = runs
                .iter()
                .filter(|run| run.series == *name && run.is_default(parameter))
                .filter(|run| run.discarded == discarded)
                .map(|run| (parameter.of(run), value(run)))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line { name: (*name).to_owned(), points }
        })
        .filter(|line| !line.points.is_empty())
        .collect()
}

fn read(directory: &Path) -> Result<Vec<Value>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .map_err(Error::file(directory))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let parse = |path: &PathBuf| {
        let text = std::fs::read(path).map_err(Error::file(path))?;
        serde_json::from_slice(&text).map_err(|error| Error::file(path)(error.into()))
    };
    paths.iter().map(parse).collect()
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(Error::file(path))
}

/// The columns of `data.csv` for each run.
const MEASURES: [&str; 12] = [
    "average_us",
    "p50_us",
    "p99_us",
    "p999_us",
    "maximum_us",
    "repeated_maximum_us",
    "own_maximum_us",
    "own_repeated_maximum_us",
    "taken_average_us",
    "taken_maximum_us",
    "dump_average_ms",
    "peak_memory_mb",
];

fn csv(runs: &[Run]) -> String {
    let mut text = format!(
        "algorithm,rows_mb,row_bytes,updates_per_tick,theta,discarded,rounds,online_ms,{}\n",
        MEASURES.join(",")
    );
    for run in runs {
        let _ = write!(
            text,
            "{},{},{},{},{},{},{},{:.1}",
            run.series,
            run.rows_mb,
            run.row_bytes,
            run.updates,
            run.theta,
            u8::from(run.discarded),
            run.rounds.len(),
            run.online_ms()
        );
        for measure in MEASURES {
            let _ = write!(text, ",{:.1}", run.number(measure));
        }
        text.push('\n');
    }
    text
}

/// The latency of each tick with the largest data set, nothing written.
fn traces(runs: &[Run], rows_mb: f64) -> Vec<Panel> {
    let mut panels = Vec::new();
    for name in SERIES {
        let Some(run) = runs.iter().find(|run| {
            run.series == name
                && run.rows_mb == rows_mb
                && run.discarded
                && run.is_default(Parameter::RowsMb)
        }) else {
            continue;
        };
        let points =
            (0_u32..).zip(run.ticks_us()).map(|(tick, us)| (f64::from(tick), us / 1e3)).collect();
        panels.push(Panel {
            title: format!("{name}: tick latency, {rows_mb} MB"),
            x_label: "tick",
            y_label: "ms",
            logarithmic: true,
            marks: false,
            lines: vec![Line { name: name.to_owned(), points }],
        });
    }
    panels
}

fn sweep_panels(
    runs: &[Run],
    title: &str,
    (logarithmic, discarded): (bool, bool),
    value: fn(&Run) -> f64,
) -> Vec<Panel> {
    Parameter::ALL
        .into_iter()
        .map(|(parameter, x_label)| Panel {
            title: title.to_owned(),
            x_label,
            y_label: "ms",
            logarithmic,
            marks: true,
            lines: lines(runs, &SERIES, parameter, discarded, value),
        })
        .collect()
}

/// The mean of the rounds for each number of threads.
fn transaction_panel(transactions: &[Value]) -> Panel {
    let series = |name: &&str| {
        let mut rounds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for run in transactions.iter().filter(|run| run["arguments"]["algorithm"] == *name) {
            let threads = run["arguments"]["threads"].as_u64().unwrap_or(0);
            let commits = run["commits_per_second"].as_f64().unwrap_or(0.0);
            rounds.entry(threads).or_default().push(commits / 1e3);
        }
        let point = |(threads, commits): (u64, Vec<f64>)| {
            let threads = u32::try_from(threads).unwrap_or(u32::MAX);
            (f64::from(threads), super::mean(&commits))
        };
        Line { name: (*name).to_owned(), points: rounds.into_iter().map(point).collect() }
    };
    Panel {
        title: "throughput of transactions".to_owned(),
        x_label: "threads",
        y_label: "thousand commits/s",
        logarithmic: false,
        marks: true,
        lines: ["calc", "vhg", "vpb"].iter().map(series).collect(),
    }
}

fn table(runs: &[Run], series: &[String], rows_mb: f64, discarded: bool) -> String {
    let mut lines = String::new();
    for name in series {
        for run in runs.iter().filter(|run| {
            run.series == *name
                && run.rows_mb == rows_mb
                && run.discarded == discarded
                && run.is_default(Parameter::RowsMb)
        }) {
            let _ = writeln!(
                lines,
                "| {name} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {:.0} | {:.0} | {:.0} | {} |",
                run.number("average_us"),
                run.number("p50_us"),
                run.number("p99_us"),
                run.number("maximum_us"),
                run.number("repeated_maximum_us"),
                run.number("own_maximum_us"),
                run.number("own_repeated_maximum_us"),
                run.number("taken_average_us"),
                run.online_ms(),
                run.number("dump_average_ms"),
                run.number("peak_memory_mb"),
                run.rounds.len(),
            );
        }
    }
    if lines.is_empty() {
        return lines;
    }
    let written =
        if discarded { "nothing written: snapshots are traversed" } else { "checkpoints in files" };
    format!(
        "## {rows_mb} MB, {written}\n\nRows of 64 bytes, 32 Ki uniform updates a tick. Times of ticks and \
         taken phases in µs.\n\n| algorithm | average | p50 | p99 | maximum | maximum of every checkpoint | \
         both without waiting for a processor | | taken phase | to online, ms | dump, ms | peak memory, MB | rounds |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n{lines}\n"
    )
}

fn cache_table(counts: &[Value]) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "## Table 4: cache misses, simulated\n\n`bench/snapshot/cache-misses` says of what.\n\n| algorithm | \
         misses of the last level by update |\n|---|---:|\n",
    );
    for name in SERIES {
        for count in counts.iter().filter(|count| count["algorithm"] == name) {
            let misses = count["misses_per_update"].as_f64().unwrap_or(0.0);
            let _ = writeln!(text, "| {name} | {misses:.2} |");
        }
    }
    text
}

fn tables(runs: &[Run], counts: &[Value], sizes: &[f64]) -> String {
    let series = SERIES.map(str::to_owned);
    let ordinary = SERIES.map(|name| format!("{name}-ordinary"));
    let mut text = String::new();
    for discarded in [true, false] {
        for size in sizes {
            text += &table(runs, &series, *size, discarded);
        }
    }
    let in_ordinary: String =
        sizes.iter().map(|size| table(runs, &ordinary, *size, true)).collect();
    if !in_ordinary.is_empty() {
        text += "# In ordinary pages\n\n";
        text += &in_ordinary;
    }
    text + &cache_table(counts)
}

fn transaction_csv(transactions: &[Value]) -> String {
    let names = [
        "commits_per_second",
        "conflicts_per_commit",
        "longest_transaction_us",
        "snapshots",
        "take_average_ms",
    ];
    let mut text = format!("algorithm,threads,{}\n", names.join(","));
    for run in transactions {
        let arguments = &run["arguments"];
        let _ = write!(
            text,
            "{},{}",
            arguments["algorithm"].as_str().unwrap_or(""),
            arguments["threads"]
        );
        for name in names {
            let _ = write!(text, ",{:.4}", run[name].as_f64().unwrap_or(0.0));
        }
        text.push('\n');
    }
    text
}

/// Average, maximum, taken phase and overhead of a checkpoint by each parameter, and the same with
/// files by size.
fn figure_10(runs: &[Run]) -> Vec<Panel> {
    let average = |run: &Run| run.number("average_us") / 1e3;
    let maximum = |run: &Run| run.number("repeated_maximum_us") / 1e3;
    let overhead = |run: &Run| run.number("dump_average_ms") + run.online_ms();
    let mut panels = sweep_panels(runs, "average tick latency", (true, true), average);
    panels.extend(sweep_panels(runs, "maximum tick latency", (true, true), maximum));
    panels.extend(sweep_panels(runs, "taken phase", (true, true), |run| {
        run.number("taken_average_us") / 1e3
    }));
    panels.extend(sweep_panels(runs, "time of a checkpoint, not written", (true, true), overhead));
    let by_size = |title: &str, value: fn(&Run) -> f64| {
        let mut panels = sweep_panels(runs, title, (true, false), value);
        panels.swap_remove(0)
    };
    panels.push(by_size("time of a checkpoint, in a file", overhead));
    panels.push(by_size("average tick latency, files written", average));
    panels.push(by_size("maximum tick latency, files written", maximum));
    panels
}

/// Draws figures and tables from the existing results.
///
/// # Errors
/// Errors of files.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (transactions, others): (Vec<Value>, Vec<Value>) =
        read(&arguments.runs)?.into_iter().partition(|run| !run["commits_per_second"].is_null());
    let (counts, ticks): (Vec<Value>, Vec<Value>) =
        others.into_iter().partition(|run| !run["misses_per_update"].is_null());
    let runs = Run::gather(ticks);
    let results = &arguments.results;
    std::fs::create_dir_all(results).map_err(Error::file(results))?;
    write(&results.join("data.csv"), &csv(&runs))?;
    write(&results.join("transactions.csv"), &transaction_csv(&transactions))?;
    let mut sizes: Vec<f64> = runs.iter().map(|run| run.rows_mb).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let largest = sizes.last().copied().unwrap_or(0.0);
    write(&results.join("tables.md"), &tables(&runs, &counts, &sizes))?;
    draw(&results.join("figure-09.svg"), 3, &traces(&runs, largest))?;
    draw(&results.join("figure-10.svg"), 4, &figure_10(&runs))?;
    let huge = ["fork", "fork-huge", "hourglass", "piggyback", "windowed"];
    let huge_panel = |title: &str, measure: &'static str, discarded| Panel {
        title: title.to_owned(),
        x_label: "data set, MB",
        y_label: "ms",
        logarithmic: true,
        marks: true,
        lines: lines(&runs, &huge, Parameter::RowsMb, discarded, |run| run.number(measure) / 1e3),
    };
    draw(
        &results.join("figure-11.svg"),
        2,
        &[
            huge_panel("maximum tick latency, nothing written", "repeated_maximum_us", true),
            huge_panel("average tick latency, nothing written", "average_us", true),
        ],
    )?;
    draw(&results.join("figure-12.svg"), 1, &[transaction_panel(&transactions)])
}

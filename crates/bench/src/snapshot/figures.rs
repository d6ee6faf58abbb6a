//! Figures 9 to 12 and Tables 2 and 4 of paper 004 from the runs of `bench/snapshot/sweep`.
//!
//! ```text
//!   RUNS/*.json ──► data.csv, transactions.csv      one line a run
//!               ──► figure-09.svg … figure-12.svg
//!               ──► tables.md
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::plot::{Line, Panel, draw};
use crate::error::{Error, Result};

/// What `indelible bench snapshot-figures` is told.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Where the results of the runs are.
    #[arg(long)]
    pub runs: PathBuf,
    /// Where figures and tables go.
    #[arg(long)]
    pub results: PathBuf,
}

/// One run of `indelible bench snapshot`.
struct Run {
    series: String,
    rows_mb: f64,
    row_bytes: f64,
    updates: f64,
    /// 0 for uniform.
    theta: f64,
    /// Nothing was written.
    discarded: bool,
    json: Value,
}

impl Run {
    fn of(json: Value) -> Option<Self> {
        let arguments = &json["arguments"];
        let name = arguments["algorithm"].as_str()?;
        let huge = arguments["huge_pages"].as_bool()?;
        Some(Self {
            series: if huge { format!("{name}-huge") } else { name.to_owned() },
            rows_mb: arguments["rows_mb"].as_f64()?,
            row_bytes: arguments["row_bytes"].as_f64()?,
            updates: arguments["updates_per_tick"].as_f64()?,
            theta: arguments["distribution"]["zipf"].as_f64().unwrap_or(0.0),
            discarded: arguments["discard"].as_bool().unwrap_or(false),
            json,
        })
    }

    fn number(&self, name: &str) -> f64 {
        self.json[name].as_f64().unwrap_or(0.0)
    }

    fn online_ms(&self) -> f64 {
        let checkpoints = self.json["run"]["checkpoints"].as_array();
        let times: Vec<f64> = checkpoints
            .into_iter()
            .flatten()
            .filter_map(|checkpoint| checkpoint["online_ms"].as_f64())
            .collect();
        super::mean(&times)
    }

    /// What all but one parameter are held at.
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

/// The order of the lines and of the lines of tables.
const SERIES: [&str; 9] = [
    "naive",
    "cou",
    "fork",
    "fork-huge",
    "zigzag",
    "ping-pong",
    "hourglass",
    "piggyback",
    "logged",
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

/// What is in `data.csv` of each run.
const MEASURES: [&str; 10] = [
    "average_us",
    "p50_us",
    "p99_us",
    "p999_us",
    "maximum_us",
    "repeated_maximum_us",
    "taken_average_us",
    "taken_maximum_us",
    "dump_average_ms",
    "peak_memory_mb",
];

fn csv(runs: &[Run]) -> String {
    let mut text = format!(
        "algorithm,rows_mb,row_bytes,updates_per_tick,theta,discarded,ticks,online_ms,{}\n",
        MEASURES.join(",")
    );
    for run in runs {
        let ticks = run.json["run"]["tick_us"].as_array().map_or(0, Vec::len);
        let _ = write!(
            text,
            "{},{},{},{},{},{},{ticks},{:.1}",
            run.series,
            run.rows_mb,
            run.row_bytes,
            run.updates,
            run.theta,
            u8::from(run.discarded),
            run.online_ms()
        );
        for measure in MEASURES {
            let _ = write!(text, ",{:.1}", run.number(measure));
        }
        text.push('\n');
    }
    text
}

/// The latency of each tick at the largest data set.
fn traces(runs: &[Run], rows_mb: f64) -> Vec<Panel> {
    let mut panels = Vec::new();
    for name in SERIES {
        let Some(run) = runs.iter().find(|run| {
            run.series == name && run.rows_mb == rows_mb && run.is_default(Parameter::RowsMb)
        }) else {
            continue;
        };
        let ticks = run.json["run"]["tick_us"].as_array();
        let points = (0_u32..)
            .zip(ticks.into_iter().flatten().filter_map(Value::as_f64))
            .map(|(tick, us)| (f64::from(tick), us / 1e3))
            .collect();
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

fn transaction_panel(transactions: &[Value]) -> Panel {
    let series = |name: &&str| {
        let mut points: Vec<(f64, f64)> = transactions
            .iter()
            .filter(|run| run["arguments"]["algorithm"] == *name)
            .filter_map(|run| {
                let threads = run["arguments"]["threads"].as_f64()?;
                Some((threads, run["commits_per_second"].as_f64()? / 1e3))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { name: (*name).to_owned(), points }
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

fn table(runs: &[Run], rows_mb: f64, discarded: bool) -> String {
    let written = if discarded { "Snapshots are traversed, and nothing is written. " } else { "" };
    let mut text = format!(
        "{written}{rows_mb} MB of 64-byte rows, 32 Ki uniform updates a tick. Times of ticks and taken phases \
         in µs.\n\n| algorithm | average | p50 | p99 | maximum | maximum of every checkpoint | taken \
         phase | to online, ms | dump, ms | peak memory, MB |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for name in SERIES {
        for run in runs.iter().filter(|run| {
            run.series == name
                && run.rows_mb == rows_mb
                && run.discarded == discarded
                && run.is_default(Parameter::RowsMb)
        }) {
            let _ = writeln!(
                text,
                "| {name} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {:.0} | {:.0} | {:.0} |",
                run.number("average_us"),
                run.number("p50_us"),
                run.number("p99_us"),
                run.number("maximum_us"),
                run.number("repeated_maximum_us"),
                run.number("taken_average_us"),
                run.online_ms(),
                run.number("dump_average_ms"),
                run.number("peak_memory_mb"),
            );
        }
    }
    text.push('\n');
    text
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

/// Draws what there is.
///
/// # Errors
/// Those of files.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (transactions, ticks): (Vec<Value>, Vec<Value>) =
        read(&arguments.runs)?.into_iter().partition(|run| !run["commits_per_second"].is_null());
    let runs: Vec<Run> = ticks.into_iter().filter_map(Run::of).collect();
    let results = &arguments.results;
    std::fs::create_dir_all(results).map_err(Error::file(results))?;
    write(&results.join("data.csv"), &csv(&runs))?;
    write(&results.join("transactions.csv"), &transaction_csv(&transactions))?;
    let sizes: Vec<f64> = {
        let mut sizes: Vec<f64> = runs.iter().map(|run| run.rows_mb).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        sizes
    };
    let largest = sizes.last().copied().unwrap_or(0.0);
    let tables: String = [false, true]
        .into_iter()
        .flat_map(|discarded| sizes.iter().map(move |size| (*size, discarded)))
        .map(|(size, discarded)| table(&runs, size, discarded))
        .collect();
    write(&results.join("tables.md"), &tables)?;
    draw(&results.join("figure-09.svg"), 3, &traces(&runs, largest))?;
    let mut panels = sweep_panels(&runs, "average tick latency", (false, false), |run| {
        run.number("average_us") / 1e3
    });
    panels.extend(sweep_panels(
        &runs,
        "maximum tick latency, nothing written",
        (true, true),
        |run| run.number("repeated_maximum_us") / 1e3,
    ));
    panels.extend(sweep_panels(&runs, "taken phase", (true, false), |run| {
        run.number("taken_average_us") / 1e3
    }));
    panels.extend(sweep_panels(&runs, "checkpoint overhead", (false, false), |run| {
        run.number("dump_average_ms") + run.online_ms()
    }));
    draw(&results.join("figure-10.svg"), 4, &panels)?;
    let huge = ["fork", "fork-huge", "hourglass", "piggyback", "logged"];
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
            huge_panel("average tick latency", "average_us", false),
        ],
    )?;
    draw(&results.join("figure-12.svg"), 1, &[transaction_panel(&transactions)])
}

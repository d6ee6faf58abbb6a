//! Writes the measurements: raw data, plots, and tables with the paper's findings next to ours.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::Arguments;
use super::plan::{Figure, Measure, Point};
use super::plot::{Panel, Series, draw};
use super::runs::{median, results};
use crate::error::{Error, Result};

/// The columns of `data.csv`, each with its place in a result.
const COLUMNS: [(&str, &str); 12] = [
    ("transactions", "/transactions"),
    ("seconds", "/seconds"),
    ("transactions_per_second", "/per_second"),
    ("rolled_back", "/rolled_back"),
    ("page_reads", "/counters/page_reads"),
    ("page_writes", "/counters/page_writes"),
    ("log_writes", "/counters/log_writes"),
    ("log_bytes", "/counters/log_bytes"),
    ("cpu_user_seconds", "/process/user_seconds"),
    ("cpu_system_seconds", "/process/system_seconds"),
    ("written_bytes", "/process/written_bytes"),
    ("disk_written_bytes", "/process/disk_written_bytes"),
];

/// Writes all files.
pub(super) fn write(arguments: &Arguments, figures: &[Figure]) -> Result<()> {
    let mut readme = String::from(
        "# The page store: figures of paper 003, and peers, in numbers\n\nMade by `make \
         figures-pages`; do not edit. What they mean is in README.md.\n\n",
    );
    let Arguments { warehouses, transactions, rounds, .. } = arguments;
    let _infallible = writeln!(
        readme,
        "TPC-C with {warehouses} warehouses, one terminal unless it says otherwise, {transactions} \
         transactions a run, up to {rounds} interleaved rounds. Values are medians, with minimum \
         and maximum in parentheses. Data and log are on one virtual disk, data through the \
         kernel's page cache, with memory to spare: a page read is a copy, not an access of the \
         disk, which is kinder to a store that reads more. What each commit promises is in \
         `crates/bench/src/engine.rs`.\n"
    );
    for figure in figures {
        write_figure(arguments, figure, &mut readme)?;
    }
    write_file(&arguments.results.join("tables.md"), &readme)
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::file(path))
}

/// Points with their results.
struct Measured<'f> {
    point: &'f Point,
    results: Vec<Value>,
}

fn write_figure(arguments: &Arguments, figure: &Figure, readme: &mut String) -> Result<()> {
    let measured = figure
        .points
        .iter()
        .map(|point| results(arguments, &point.run).map(|results| Measured { point, results }));
    let measured: Vec<Measured<'_>> = measured.collect::<Result<_>>()?;
    let dir = arguments.results.join(figure.name);
    fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
    write_file(&dir.join("data.csv"), &csv(figure, &measured))?;
    let panels: Vec<Panel> =
        figure.measures.iter().map(|&measure| panel(measure, &measured)).collect();
    draw(&dir.join("plot.svg"), figure.title, figure.x_label, &panels)?;

    let _infallible = writeln!(readme, "## {}\n\n![]({}/plot.svg)\n", figure.title, figure.name);
    if !figure.finding.is_empty() {
        let _infallible = writeln!(readme, "Paper: {}\n", figure.finding);
    }
    for &measure in figure.measures {
        table(figure, measure, &measured, readme);
    }
    Ok(())
}

fn csv(figure: &Figure, measured: &[Measured<'_>]) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.0).collect();
    let mut text = format!("series,{},round,run,{}\n", figure.x_label, names.join(","));
    for Measured { point, results } in measured {
        for (result, round) in results.iter().zip(1..) {
            let value = |pointer| result.pointer(pointer).map(Value::to_string).unwrap_or_default();
            let values: Vec<String> = COLUMNS.iter().map(|column| value(column.1)).collect();
            let Point { series, x, run } = point;
            let _infallible =
                writeln!(text, "\"{series}\",{x},{round},{},{}", run.name(), values.join(","));
        }
    }
    text
}

/// The names of the series, in the order of the plan.
fn series_names<'m>(measured: &'m [Measured<'_>]) -> Vec<&'m str> {
    let mut names: Vec<&str> = measured.iter().map(|m| m.point.series.as_str()).collect();
    names.dedup();
    names
}

#[expect(clippy::cast_precision_loss, reason = "x is a small number")]
fn panel(measure: Measure, measured: &[Measured<'_>]) -> Panel {
    let series = series_names(measured).into_iter().map(|name| {
        let own = measured.iter().filter(|m| m.point.series == name);
        let points = own.filter_map(|m| Some((m.point.x as f64, median(&m.results, measure)?)));
        Series { name: name.to_owned(), points: points.collect() }
    });
    Panel { y_label: measure.label(), series: series.collect() }
}

fn table(figure: &Figure, measure: Measure, measured: &[Measured<'_>], readme: &mut String) {
    let mut xs: Vec<usize> = measured.iter().map(|m| m.point.x).collect();
    xs.sort_unstable();
    xs.dedup();
    let heads: Vec<String> = xs.iter().map(|x| format!(" {x} |")).collect();
    let _infallible =
        writeln!(readme, "{}, by {}:\n\n| |{}", measure.label(), figure.x_label, heads.concat());
    let _infallible = writeln!(readme, "| --- |{}", " ---: |".repeat(xs.len()));
    for name in series_names(measured) {
        let cell = |x: &usize| {
            let found = measured.iter().find(|m| m.point.series == name && m.point.x == *x);
            match found.and_then(|m| median(&m.results, measure)) {
                Some((median, low, high)) => {
                    format!(" {} ({} – {}) |", short(median), short(low), short(high))
                }
                None => " |".to_owned(),
            }
        };
        let cells: Vec<String> = xs.iter().map(cell).collect();
        let _infallible = writeln!(readme, "| {name} |{}", cells.concat());
    }
    readme.push('\n');
}

/// Formats a value with about three digits.
fn short(value: f64) -> String {
    if value.is_nan() {
        return "?".to_owned();
    }
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::What;
    use super::super::plan;
    use super::*;

    #[test]
    fn what_is_not_measured_yet_leaves_gaps_and_no_errors() {
        let dir = tempfile::tempdir().unwrap();
        let arguments = Arguments {
            what: What::Pages,
            dir: dir.path().join("missing-runs"),
            results: dir.path().join("results"),
            rounds: 1,
            transactions: 1,
            warehouses: 1,
            only: None,
            minutes: None,
        };
        fs::create_dir(&arguments.results).unwrap();
        write(&arguments, &plan::pages()).unwrap();
        let readme = fs::read_to_string(arguments.results.join("tables.md")).unwrap();
        assert!(readme.contains("| 20 MB | | | | | | |"), "{readme}");
        assert!(arguments.results.join("figure-09/plot.svg").exists());
    }
}

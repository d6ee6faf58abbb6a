//! Draws the figures of paper 000 (section IV) from the lines of `bench/vtc/run`.
//!
//! ```text
//!   RUNS.jsonl, one line a cell ──► tables.md      medians of the rounds, least and most
//!                               ──► figures.svg    Figures 7 to 13
//!                               ──► traces.svg     Figure 1: throughput and memory around a checkpoint, of the first round
//! ```
//!
//! A cell is a system at a number of records and a share of updates. What varies with the records is shown at half
//! updates, as the paper does; what varies with the share, at the largest number of records that has several.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::plot::{Line, Panel, draw};

/// The arguments of `indelible-bench vtc-figures`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The lines of `bench/vtc/run`.
    #[arg(long)]
    pub runs: PathBuf,
    /// The directory for figures and tables.
    #[arg(long)]
    pub results: PathBuf,
}

/// The share of updates at which the records vary.
const HALF: f64 = 0.5;

/// What is told of a cell: the paper's figure, a name, a unit, and how it is computed.
struct Measure {
    figure: &'static str,
    name: &'static str,
    unit: &'static str,
    digits: usize,
    of: fn(&Value) -> Option<f64>,
}

fn member(cell: &Value, name: &str) -> Option<f64> {
    cell[name].as_f64()
}

const fn measure(
    figure: &'static str,
    name: &'static str,
    unit: &'static str,
    digits: usize,
    of: fn(&Value) -> Option<f64>,
) -> Measure {
    Measure { figure, name, unit, digits, of }
}

const MEASURES: [Measure; 11] = [
    measure("7a, 8a", "throughput", "thousand requests/s", 1, |cell| {
        Some(member(cell, "per_second")? / 1e3)
    }),
    measure("7b, 8b", "throughput during a checkpoint", "thousand requests/s", 1, |cell| {
        Some(member(cell, "checkpoint_per_second")? / 1e3)
    }),
    measure("", "throughput during a checkpoint, of that before it", "%", 0, |cell| {
        Some(member(cell, "checkpoint_per_second")? / member(cell, "outside_per_second")? * 1e2)
    }),
    measure("", "longest reply during a checkpoint", "ms", 1, |cell| {
        Some(member(cell, "checkpoint_max_us")? / 1e3)
    }),
    measure("", "processor time a request", "µs", 2, |cell| member(cell, "us_a_request")),
    measure("9a", "memory (PSS)", "MiB", 0, |cell| Some(member(cell, "pss")? / MIB)),
    measure("9b, 10", "memory during a checkpoint, more than before it", "%", 1, |cell| {
        Some((member(cell, "pss_peak")? / member(cell, "pss_before")? - 1.0) * 1e2)
    }),
    measure("11", "time of a checkpoint", "s", 2, |cell| member(cell, "checkpoint_s")),
    measure("12", "files", "MiB", 0, |cell| {
        Some((member(cell, "file_bytes")? - member(cell, "index_bytes").unwrap_or(0.0)) / MIB)
    }),
    measure("13", "restored", "s", 2, |cell| member(cell, "restore_s")),
    measure("", "first reply of a start", "s", 3, |cell| {
        member(cell, "first_reply_s").or_else(|| member(cell, "restore_s"))
    }),
];
const MIB: f64 = 1024.0 * 1024.0;

/// The cells, in the order of the file.
struct Cells(Vec<Value>);

impl Cells {
    fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
        let mut cells = Vec::new();
        for line in text.lines() {
            let damaged = || Error::damaged(format!("{}: {line}", path.display()));
            let line: Value = serde_json::from_str(line).map_err(|_| damaged())?;
            if line["what"] == "cell" {
                cells.push(line);
            }
        }
        Ok(Self(cells))
    }

    fn systems(&self) -> Vec<&str> {
        let mut systems: Vec<&str> = Vec::new();
        for system in self.0.iter().filter_map(|cell| cell["system"].as_str()) {
            if !systems.contains(&system) {
                systems.push(system);
            }
        }
        systems.sort_unstable();
        systems
    }

    /// The different values of a member, from the least on.
    fn values(&self, name: &str, is_one: impl Fn(&Value) -> bool) -> Vec<f64> {
        let cells = self.0.iter().filter(|cell| is_one(cell));
        let mut values: Vec<f64> = cells.filter_map(|cell| member(cell, name)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// The most records that were run with more than one share of updates.
    fn records_of_shares(&self) -> Option<f64> {
        let records = self.values("records", |_| true).into_iter().rev();
        let has_several =
            |records: &f64| self.values("updates", |cell| cell["records"] == *records).len() > 1;
        records.into_iter().find(has_several)
    }

    /// Median, least and most of the rounds.
    fn spread(
        &self,
        system: &str,
        records: f64,
        updates: f64,
        measure: &Measure,
    ) -> Option<[f64; 3]> {
        let is_one = |cell: &&Value| {
            cell["system"] == system
                && member(cell, "records") == Some(records)
                && member(cell, "updates") == Some(updates)
        };
        let mut values: Vec<f64> = self.0.iter().filter(is_one).filter_map(measure.of).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some([median, least, most])
    }

    /// A line for each system: what the records, or the share of updates, make of a measure.
    fn panel(&self, measure: &Measure, by_share: Option<f64>) -> Panel {
        let xs = match by_share {
            Some(records) => {
                self.values("updates", |cell| member(cell, "records") == Some(records))
            }
            None => self.values("records", |cell| member(cell, "updates") == Some(HALF)),
        };
        let line = |system: &str| {
            let point = |x: &f64| match by_share {
                Some(records) => Some((*x * 1e2, self.spread(system, records, *x, measure)?[0])),
                None => Some((*x / 1e6, self.spread(system, *x, HALF, measure)?[0])),
            };
            Line { name: system.to_owned(), points: xs.iter().filter_map(point).collect() }
        };
        let lines = self.systems().into_iter().map(line).filter(|line| !line.points.is_empty());
        Panel {
            title: format!("{} ({})", measure.name, measure.unit),
            x_label: if by_share.is_some() { "updates, %" } else { "million records" },
            y_label: measure.unit,
            logarithmic: false,
            marks: true,
            lines: lines.collect(),
        }
    }

    /// Figure 1: the course around the checkpoint of the first round, with the most records at half updates.
    fn traces(&self) -> Vec<Panel> {
        let is_first = |cell: &Value| {
            cell["round"] == 0 && member(cell, "updates") == Some(HALF) && cell["trace"].is_array()
        };
        let Some(records) = self.values("records", is_first).pop() else { return Vec::new() };
        let mut cells: Vec<&Value> = self.0.iter().collect();
        cells.retain(|cell| is_first(cell) && member(cell, "records") == Some(records));
        let course = |member_name: &str, column: usize, by: f64| {
            let line = |cell: &&Value| {
                let begun_ms = member(cell, "begun_ms").unwrap_or(0.0);
                let point = |row: &Value| {
                    Some(((row[0].as_f64()? - begun_ms) / 1e3, row[column].as_f64()? * by))
                };
                let rows = cell[member_name].as_array().map_or(&[][..], Vec::as_slice);
                let name = cell["system"].as_str().unwrap_or_default().to_owned();
                Line { name, points: rows.iter().filter_map(point).collect() }
            };
            cells.iter().map(line).collect()
        };
        let panel = |title: &str, y_label, lines| Panel {
            title: format!("{title}, {} million records", records / 1e6),
            x_label: "seconds since the checkpoint was asked for",
            y_label,
            logarithmic: false,
            marks: false,
            lines,
        };
        vec![
            panel("throughput", "thousand requests/s", course("trace", 1, 1e-2)),
            panel("memory (PSS)", "MiB", course("pss_trace", 1, 1.0)),
        ]
    }

    fn tables(&self) -> String {
        let mut text = String::from(
            "# Paper 000, by records and share of updates\n\nMade by `indelible-bench vtc-figures`. Medians of the rounds (least to most).\n",
        );
        for measure in &MEASURES {
            let figure = match measure.figure {
                "" => String::new(),
                numbers => format!(" (the paper's Figure {numbers})"),
            };
            let _ = write!(
                text,
                "\n## {}, {}{figure}\n\n| records, updates |",
                measure.name, measure.unit
            );
            let systems = self.systems();
            systems.iter().for_each(|system| text.push_str(&format!(" {system} |")));
            text.push_str(&format!("\n| --- |{}\n", " --- |".repeat(systems.len())));
            for records in self.values("records", |_| true) {
                for updates in
                    self.values("updates", |cell| member(cell, "records") == Some(records))
                {
                    let _ = write!(text, "| {}, {:.0} % |", records, updates * 1e2);
                    for system in &systems {
                        let shown = self.spread(system, records, updates, measure);
                        let _ = write!(
                            text,
                            " {} |",
                            shown.map_or(String::new(), |of| told(of, measure.digits))
                        );
                    }
                    text.push('\n');
                }
            }
        }
        text
    }
}

fn told([median, least, most]: [f64; 3], digits: usize) -> String {
    match least == most {
        true => format!("{median:.digits$}"),
        false => format!("{median:.digits$} ({least:.digits$} to {most:.digits$})"),
    }
}

/// Draws the figures and writes the tables.
///
/// # Errors
/// Errors of files, and lines that are none of `bench/vtc/run`.
pub fn run(arguments: &Arguments) -> Result<()> {
    let cells = Cells::read(&arguments.runs)?;
    let at = |name: &str| arguments.results.join(name);
    std::fs::write(at("tables.md"), cells.tables()).map_err(Error::file(&at("tables.md")))?;
    let shares = cells.records_of_shares();
    let mut panels: Vec<Panel> =
        MEASURES.iter().map(|measure| cells.panel(measure, None)).collect();
    let varied = MEASURES.iter().filter(|measure| measure.figure.contains(','));
    panels.extend(varied.filter_map(|measure| Some(cells.panel(measure, Some(shares?)))));
    draw(&at("figures.svg"), 2, &panels)?;
    draw(&at("traces.svg"), 2, &cells.traces())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_become_tables_and_figures() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs.jsonl");
        let cell = |system: &str, round: u32, updates: f64, per_second: u32| {
            serde_json::json!({
                "what": "cell", "system": system, "round": round, "records": 1000, "updates": updates, "per_second": per_second,
                "pss_before": 100, "pss_peak": 150, "begun_ms": 200, "trace": [[0, 10, 1], [100, 20, 1]], "pss_trace": [[0, 7]],
            })
            .to_string()
        };
        let lines = [
            r#"{"version": "one"}"#.to_owned(),
            cell("redis", 0, 0.5, 30_000),
            cell("redis", 1, 0.5, 40_000),
            cell("indelible", 0, 0.5, 50_000),
            cell("indelible", 0, 0.9, 60_000),
        ];
        std::fs::write(&runs, lines.join("\n")).unwrap();
        let arguments = Arguments { runs: runs.clone(), results: dir.path().to_owned() };
        run(&arguments).unwrap();
        let tables = std::fs::read_to_string(dir.path().join("tables.md")).unwrap();
        assert!(tables.contains("| 1000, 50 % | 50.0 | 35.0 (30.0 to 40.0) |"), "{tables}");
        assert!(tables.contains("| 1000, 90 % | 60.0 |  |"), "{tables}");
        assert!(tables.contains("| 1000, 50 % | 50.0 | 50.0 |"), "{tables}");
        let svg = std::fs::read_to_string(dir.path().join("figures.svg")).unwrap();
        assert!(svg.contains("updates, %"));
        assert!(std::fs::read_to_string(dir.path().join("traces.svg")).unwrap().contains("MiB"));
        std::fs::write(&runs, "nothing\n").unwrap();
        assert!(run(&arguments).is_err());
    }
}

//! `indelible tap inspect`: what a log of requests says.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use env::Disk;
use env_os::OsDisk;
use serde_json::{Value, json};
use tap::{Class, ConnectionNumber, Entry, GapReason, Outcome, Position, Time};

use super::timestamp;
use crate::size::Size;

/// How often a log that is followed is looked at.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a request that are shown to people.
const SHOWN_BYTES: usize = 120;

#[derive(Args)]
pub(super) struct Inspect {
    /// The directory of the log.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Begins behind this request.
    #[arg(long, value_name = "POSITION")]
    since: Option<u64>,
    /// Shows this connection only.
    #[arg(long, value_name = "NUMBER")]
    connection: Option<u64>,
    /// Shows requests only of this class: connection, query or read-only.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Shows requests only that contain this text.
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Shows gaps only.
    #[arg(long)]
    gaps: bool,
    /// Sums up instead of showing each entry.
    #[arg(long, conflicts_with = "follow")]
    statistics: bool,
    /// Shows the last so many entries only.
    #[arg(long, value_name = "COUNT", conflicts_with = "statistics")]
    tail: Option<usize>,
    /// Waits for more at the end.
    #[arg(long)]
    follow: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Shows the log; the exit code is 1 if there are gaps in what was shown.
pub(super) fn run(inspect: &Inspect) -> Result<ExitCode, anyhow::Error> {
    let done = Shown::default().run(inspect);
    match done {
        // The reader of the output has closed it.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// What was shown so far.
#[derive(Default)]
struct Shown {
    gaps: u64,
    /// Connection of each request that waits for its completion; for filters.
    requests: HashMap<Position, ConnectionNumber>,
    statistics: Statistics,
}

impl Shown {
    fn run(mut self, inspect: &Inspect) -> Result<ExitCode, anyhow::Error> {
        if let Some(class) = &inspect.class {
            let known = ["connection", "query", "read-only"];
            anyhow::ensure!(known.contains(&class.as_str()), "--class: {}", known.join(", "));
        }
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let mut reader = tap::log::read(&disk, &inspect.dir, inspect.since.map(Position))?;
        let mut out = BufWriter::new(io::stdout().lock());
        let mut last = std::collections::VecDeque::new();
        loop {
            for entry in reader.by_ref() {
                let entry = entry?;
                if !self.is_wanted(inspect, &entry) {
                    continue;
                }
                if inspect.statistics {
                    self.gaps += u64::from(is_gap(&entry));
                    self.statistics.add(&entry);
                } else if let Some(count) = inspect.tail {
                    last.push_back(entry);
                    if last.len() > count {
                        last.pop_front();
                    }
                } else {
                    self.gaps += u64::from(is_gap(&entry));
                    show(&mut out, &entry, inspect.json)?;
                }
            }
            for entry in last.drain(..) {
                self.gaps += u64::from(is_gap(&entry));
                show(&mut out, &entry, inspect.json)?;
            }
            if inspect.statistics {
                self.statistics.show(&mut out, inspect.json)?;
            }
            out.flush()?;
            if !inspect.follow {
                break;
            }
            std::thread::sleep(FOLLOW_PAUSE);
        }
        Ok(if self.gaps > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn is_wanted(&mut self, inspect: &Inspect, entry: &Entry) -> bool {
        let of_requests = inspect.class.is_some() || inspect.contains.is_some();
        let connection = match entry {
            Entry::Opened { connection, .. }
            | Entry::Closed { connection, .. }
            | Entry::Request { connection, .. } => Some(*connection),
            Entry::Completed { position, .. } => self.requests.remove(position),
            Entry::Gap { connection, .. } => *connection,
        };
        if let Entry::Request { position, connection, class, payload, .. } = entry {
            let has_text = |text: &String| {
                text.is_empty()
                    || payload.windows(text.len()).any(|window| window == text.as_bytes())
            };
            if inspect.class.as_deref().is_some_and(|wanted| wanted != class_name(*class))
                || !inspect.contains.as_ref().is_none_or(has_text)
            {
                return false;
            }
            if inspect.connection.is_some() {
                self.requests.insert(*position, *connection);
            }
        } else if of_requests {
            return false;
        }
        if inspect.gaps && !matches!(entry, Entry::Gap { .. }) {
            return false;
        }
        inspect.connection.is_none_or(|wanted| connection == Some(ConnectionNumber(wanted)))
    }
}

fn is_gap(entry: &Entry) -> bool {
    matches!(entry, Entry::Gap { .. })
}

fn show(out: &mut impl Write, entry: &Entry, as_json: bool) -> io::Result<()> {
    if as_json {
        return writeln!(out, "{}", entry_json(entry));
    }
    match entry {
        Entry::Opened { connection, at, client, server } => {
            writeln!(out, "{} c{} opened {client} -> {server}", timestamp::show(*at), connection.0)
        }
        Entry::Request { position, connection, at, class, payload, .. } => writeln!(
            out,
            "{} c{} #{} {} {} B {}{}",
            timestamp::show(*at),
            connection.0,
            position.0,
            class_name(*class),
            payload.len(),
            payload[..payload.len().min(SHOWN_BYTES)].escape_ascii(),
            if payload.len() > SHOWN_BYTES { "…" } else { "" }
        ),
        Entry::Completed { position, at, outcome } => {
            let outcome = outcome_name(*outcome);
            writeln!(out, "{} #{} completed {outcome}", timestamp::show(*at), position.0)
        }
        Entry::Gap { connection, at, missing, reason } => {
            let whose =
                connection.map_or("-".to_owned(), |connection| format!("c{}", connection.0));
            let reason = reason_name(*reason);
            writeln!(out, "{} {whose} GAP {reason}, {missing} missing", timestamp::show(*at))
        }
        Entry::Closed { connection, at } => {
            writeln!(out, "{} c{} closed", timestamp::show(*at), connection.0)
        }
    }
}

fn entry_json(entry: &Entry) -> Value {
    match entry {
        Entry::Opened { connection, at, client, server } => json!({
            "kind": "opened", "at_ns": at.0, "connection": connection.0,
            "client": client.to_string(), "server": server.to_string(),
        }),
        Entry::Request { position, connection, at, class, sequence, payload } => json!({
            "kind": "request", "at_ns": at.0, "connection": connection.0, "position": position.0,
            "class": class_name(*class), "sequence": sequence, "bytes": payload.len(),
            "payload": payload.escape_ascii().to_string(),
        }),
        Entry::Completed { position, at, outcome } => json!({
            "kind": "completed", "at_ns": at.0, "position": position.0,
            "outcome": outcome_name(*outcome),
        }),
        Entry::Gap { connection, at, missing, reason } => json!({
            "kind": "gap", "at_ns": at.0, "connection": connection.map(|connection| connection.0),
            "missing": missing, "reason": reason_name(*reason),
        }),
        Entry::Closed { connection, at } => json!({
            "kind": "closed", "at_ns": at.0, "connection": connection.0,
        }),
    }
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Connection => "connection",
        Class::Query => "query",
        Class::ReadOnly => "read-only",
    }
}

fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Error => "error",
    }
}

fn reason_name(reason: GapReason) -> &'static str {
    match reason {
        GapReason::RingOverflow => "ring overflow",
        GapReason::Lost => "lost",
        GapReason::MidStream => "mid-stream",
        GapReason::OutOfBuffer => "out of buffer",
        GapReason::Unintelligible => "unintelligible",
        GapReason::Stopped => "nobody listened",
        GapReason::DiskFull => "disk full",
    }
}

/// Sums over a log.
#[derive(Default)]
struct Statistics {
    first: Option<Time>,
    last: Option<Time>,
    last_position: u64,
    connections: u64,
    closed: u64,
    /// Requests and bytes by class.
    requests: BTreeMap<&'static str, (u64, u64)>,
    outcomes: BTreeMap<&'static str, u64>,
    gaps: BTreeMap<&'static str, (u64, u64)>,
    open: HashSet<Position>,
}

impl Statistics {
    fn add(&mut self, entry: &Entry) {
        let at = match entry {
            Entry::Opened { at, .. } => {
                self.connections += 1;
                at
            }
            Entry::Request { position, at, class, payload, .. } => {
                let (count, bytes) = self.requests.entry(class_name(*class)).or_default();
                *count += 1;
                *bytes += payload.len() as u64;
                self.last_position = self.last_position.max(position.0);
                self.open.insert(*position);
                at
            }
            Entry::Completed { position, at, outcome } => {
                *self.outcomes.entry(outcome_name(*outcome)).or_default() += 1;
                self.open.remove(position);
                at
            }
            Entry::Gap { at, missing, reason, .. } => {
                let (count, sum) = self.gaps.entry(reason_name(*reason)).or_default();
                *count += 1;
                *sum = sum.saturating_add(*missing);
                at
            }
            Entry::Closed { at, .. } => {
                self.closed += 1;
                at
            }
        };
        self.first = Some(self.first.map_or(*at, |first| first.min(*at)));
        self.last = Some(self.last.map_or(*at, |last| last.max(*at)));
    }

    fn show(&self, out: &mut impl Write, as_json: bool) -> io::Result<()> {
        let seconds = match (self.first, self.last) {
            (Some(first), Some(last)) => (last.0 - first.0) as f64 / 1e9,
            _ => 0.0,
        };
        if as_json {
            let counts = |(count, bytes): &(u64, u64)| json!({ "count": count, "bytes": bytes });
            let by_class: BTreeMap<_, _> =
                self.requests.iter().map(|(name, sums)| (*name, counts(sums))).collect();
            let gaps: BTreeMap<_, _> = self
                .gaps
                .iter()
                .map(|(name, (count, missing))| {
                    (*name, json!({"count": count, "missing": missing}))
                })
                .collect();
            let whole = json!({
                "first_ns": self.first.map(|time| time.0), "last_ns": self.last.map(|time| time.0),
                "seconds": seconds, "last_position": self.last_position,
                "connections": self.connections, "closed": self.closed, "requests": by_class,
                "completed": self.outcomes, "not_completed": self.open.len(), "gaps": gaps,
            });
            return writeln!(out, "{whole}");
        }
        let time = |time: Option<Time>| time.map_or("-".to_owned(), timestamp::show);
        writeln!(out, "from {} to {} ({seconds:.1} s)", time(self.first), time(self.last))?;
        writeln!(out, "{} connections, {} of them closed", self.connections, self.closed)?;
        for (name, (count, bytes)) in &self.requests {
            let rate = *count as f64 / seconds.max(1e-9);
            writeln!(out, "{count} requests {name}, {} ({rate:.0}/s)", Size(*bytes))?;
        }
        for (name, count) in &self.outcomes {
            writeln!(out, "{count} completed {name}")?;
        }
        writeln!(out, "{} not completed", self.open.len())?;
        for (name, (count, missing)) in &self.gaps {
            writeln!(out, "{count} GAPS {name}, {missing} missing")?;
        }
        Ok(())
    }
}

//! Compares servers: the same load on each in turn, what clients see of it, and what it costs the server.
//!
//! ```text
//!   fill A, fill B ─► rest ─► round 1: A, rest, B, rest ─► round 2: B A ─► round 3: A B ─► … ─► table
//!                                      │
//!                                      ├ client    the load, with the round's seed              one line of JSON
//!                                      ├ sampler   processor by thread, device bytes, PSS        for each run
//!                                      └ removes what the run has inserted
//! ```
//!
//! A run with errors, or with replies that are wrong, is no measurement: the table is printed, and the comparison has failed.
//!
//! Servers run already, and stay; all of them hold their data from the beginning to the end. One is under load, the
//! others rest: one that works without clients (compaction, BGSAVE) takes from the other. Client and servers should
//! have processors of their own (`taskset`).
//!
//! What a server costs is read from `/proc`, so from one on this machine, by its own user or root.

mod listener;
mod process;
mod sampler;
mod table;
mod target;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use process::Process;
use sampler::{Cost, Sampler};
use table::Table;
pub use target::Target;

use crate::client::{Arguments as Run, Load, Outcome, Task, WhenAway, measure};
use crate::error::{Error, Result};

/// How a server is filled: as fast as it goes.
const FILL_CONNECTIONS: usize = 8;
const FILL_PIPELINE: usize = 64;
/// So many of the keys that are there are looked at before they are taken for the records.
const SAMPLE: u64 = 1000;

/// The arguments of `indelible-bench compare`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// A server, `NAME=[HOST:]PORT[/PID]`; repeated, the first one is what the others are compared with. The process is found
    /// by its port if it is on this machine.
    #[arg(long = "target", required = true)]
    pub targets: Vec<Target>,
    /// How often each is measured.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// How long servers rest after they are filled, and after each run, in seconds: what one does afterwards takes from the next.
    #[arg(long, default_value_t = 2.0)]
    pub rest: f64,
    /// The keys are there already: they are neither written nor looked for.
    #[arg(long)]
    pub no_fill: bool,
    /// Samples PSS as often during a run, in seconds, not only at its begin and end. The kernel walks all pages for it,
    /// which takes milliseconds of a processor for each GB.
    #[arg(long)]
    pub pss_every: Option<f64>,
    /// A file for the lines of JSON, instead of standard output.
    #[arg(long)]
    pub runs: Option<PathBuf>,
    /// What is asked for, and how.
    #[command(flatten)]
    pub load: Load,
}

/// The first line: what was compared.
#[derive(serde::Serialize)]
struct Header<'a> {
    command: Vec<String>,
    version: &'a str,
    kernel: String,
    processors: usize,
    targets: Vec<Subject>,
}

/// A server that is compared.
#[derive(serde::Serialize)]
struct Subject {
    #[serde(flatten)]
    target: Target,
    /// What INFO says.
    version: String,
    /// How it was started, if its process is known.
    command: Vec<String>,
    #[serde(skip)]
    process: Option<Process>,
}

/// A line: a run.
#[derive(serde::Serialize)]
struct Line<'a> {
    target: &'a str,
    /// From 1 on.
    round: usize,
    /// The place in its round, from 1 on.
    place: usize,
    #[serde(flatten)]
    outcome: &'a Outcome,
    /// `None`: the server's process is not known.
    server: Option<&'a Cost>,
}

/// Compares the servers, and prints a line of JSON for each run and a table.
///
/// # Errors
/// A server that is not there, is not empty, answers with an error while it is filled, or goes away; errors of files.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut lines: Box<dyn Write> = match &arguments.runs {
        Some(path) => Box::new(File::create(path).map_err(Error::file(path))?),
        None => Box::new(std::io::stdout()),
    };
    let mut say = |line: String| {
        writeln!(lines, "{line}")
            .and_then(|()| lines.flush())
            .map_err(Error::file("the output".as_ref()))
    };
    let mut subjects = Vec::new();
    for target in &arguments.targets {
        subjects.push(Subject::new(target.clone())?);
    }
    let header = Header {
        command: std::env::args().skip(1).collect(),
        version: env!("CARGO_PKG_VERSION"),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        processors: std::thread::available_parallelism().map_or(0, usize::from),
        targets: subjects,
    };
    say(json(&header))?;
    let subjects = header.targets;
    if !arguments.no_fill {
        for subject in &subjects {
            subject.fill(&arguments.load)?;
        }
        std::thread::sleep(Duration::from_secs_f64(arguments.rest));
    }
    let mut table = Table::new(subjects.iter().map(|subject| subject.target.name.clone()));
    let mut faults = Vec::new();
    for round in 1..=arguments.rounds {
        for place in 1..=subjects.len() {
            let index = (place - 1 + round - 1) % subjects.len();
            let (target, subject) = (&*subjects[index].target.name, &subjects[index]);
            let (outcome, cost) = subject.measure(arguments, round)?;
            let line = Line { target, round, place, outcome: &outcome, server: cost.as_ref() };
            say(json(&line))?;
            note(&mut table, index, round, &outcome, cost.as_ref());
            if outcome.troubles.has_faults() {
                faults.push(format!("{target} in round {round}: {}", json(&outcome.troubles)));
            }
            std::thread::sleep(Duration::from_secs_f64(arguments.rest));
        }
    }
    print!("\n{table}");
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Error::damaged(format!("no measurement: {}", faults.join("; ")))),
    }
}

fn json(line: &impl serde::Serialize) -> String {
    serde_json::to_string(line).expect("it is plain data")
}

/// Adds the figures of a run to the table.
fn note(table: &mut Table, target: usize, round: usize, run: &Outcome, cost: Option<&Cost>) {
    table.begin(target, round);
    let mut note = |name: &str, value: f64| table.note(name, target, round, value);
    note("operations/s", run.per_second);
    note("requests/s", run.requests as f64 / run.seconds);
    note("p50 µs", run.all.p50_us);
    note("p99 µs", run.all.p99_us);
    note("p99.9 µs", run.all.p999_us);
    note("max µs", run.all.max_us);
    if let Some(corrected) = &run.corrected {
        note("corrected p99 µs", corrected.latencies.p99_us);
        note("corrected p99.9 µs", corrected.latencies.p999_us);
    }
    note("not as it should be", run.troubles.sum() as f64);
    note("client's processor, %", run.client_processor * 100.0);
    let Some(cost) = cost else { return };
    let requests = run.requests.max(1) as f64;
    note("CPU µs/request", cost.cpu_us / requests);
    for (thread, us) in &cost.threads_us {
        note(&format!("CPU µs/request, {thread}"), us / requests);
    }
    if let Some(pss_bytes) = cost.pss_bytes {
        note("PSS MB", pss_bytes as f64 / 1e6);
    }
    if let Some(written_bytes) = cost.device_written_bytes {
        note("device bytes written/request", written_bytes as f64 / requests);
    }
    if let Some(read_bytes) = cost.device_read_bytes.filter(|bytes| *bytes > 0) {
        note("device bytes read/request", read_bytes as f64 / requests);
    }
}

impl Subject {
    fn new(mut target: Target) -> Result<Self> {
        let version = target.version()?;
        let process = target.process()?;
        target.pid = process.map(|Process(pid)| pid);
        if process.is_none() {
            let name = &target.name;
            eprintln!("{name}: its process is not known: nothing of the server is measured");
        }
        let command = process.map(Process::command).unwrap_or_default();
        Ok(Self { target, version, command, process })
    }

    fn task(&self, task: Task, load: Load, first_key: u64) -> Run {
        Run {
            task,
            port: self.target.port,
            host: self.target.host.clone(),
            first_key,
            load,
            when_away: WhenAway::Fail,
            ledger: None,
            steps: None,
            samples: None,
        }
    }

    /// Runs a task that takes all keys in turn.
    fn go_through(&self, task: Task, load: &Load, first_key: u64, keys: u64) -> Result<()> {
        let load = Load {
            keys,
            connections: FILL_CONNECTIONS,
            pipeline: FILL_PIPELINE,
            settle: None,
            ..load.clone()
        };
        let label = format!("{} {task:?}", self.target.name).to_lowercase();
        let outcome = measure(&self.task(task, load, first_key), &label)?;
        match outcome.troubles.sum() {
            0 => Ok(()),
            _ => Err(Error::damaged(format!("{label}: {}", json(&outcome.troubles)))),
        }
    }

    fn fill(&self, load: &Load) -> Result<()> {
        let expected = load.keys + u64::from(load.workload.is_some());
        match self.target.keys()? {
            0 => self.go_through(Task::Fill, load, 0, load.keys),
            keys if keys == expected => {
                self.go_through(Task::Check, load, 0, load.keys.min(SAMPLE))?;
                let name = &self.target.name;
                eprintln!("{name}: {keys} keys are there, and are taken for its records");
                Ok(())
            }
            keys => Err(Error::damaged(format!(
                "{} has {keys} keys and is not written over: empty it, or use --no-fill",
                self.target.name
            ))),
        }
    }

    /// Runs the load, and removes what it has inserted: as many keys as there are more.
    fn measure(&self, arguments: &Arguments, round: usize) -> Result<(Outcome, Option<Cost>)> {
        let mut load = arguments.load.clone();
        let settle = *load.settle.get_or_insert(1.0);
        load.seed += round as u64;
        let [settle, seconds] = [settle, load.seconds].map(Duration::from_secs_f64);
        let pss_every = arguments.pss_every.map(Duration::from_secs_f64);
        let start = |process| Sampler::start(process, settle, seconds, pss_every);
        let before = self.target.keys()?;
        let sampler = self.process.map(start);
        let label = format!("{}, round {round}", self.target.name);
        let measured = measure(&self.task(Task::Run, load, 0), &label);
        let cost = sampler.map(Sampler::end);
        let outcome = measured?;
        let more = self.target.keys()?.checked_sub(before);
        if outcome.inserted > 0 && more != Some(outcome.inserted) {
            let (name, inserted) = (&self.target.name, outcome.inserted);
            return Err(Error::damaged(format!(
                "{name} was to have {inserted} new keys after round {round}, and not {more:?}: some were there, or have gone"
            )));
        }
        if outcome.inserted > 0 {
            let keys = arguments.load.keys;
            self.go_through(Task::Remove, &arguments.load, keys, outcome.inserted)?;
        }
        Ok((outcome, cost))
    }
}

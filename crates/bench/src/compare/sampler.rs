//! Samples a server while a client loads it, on a thread of its own.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::process::{Counts, Process};

/// How often processor time and device bytes are read.
const EVERY: Duration = Duration::from_secs(1);

/// What a run has cost the server, from the end of its settling on.
#[derive(Debug, Default, serde::Serialize)]
pub(super) struct Cost {
    /// How long it was watched.
    pub(super) seconds: f64,
    /// Processor time of all threads and children, in steps of 10 ms.
    pub(super) cpu_us: f64,
    /// Processor time by thread, by the scheduler's account; those of one name together. One that has ended is in
    /// `cpu_us` alone.
    pub(super) threads_us: BTreeMap<String, f64>,
    /// The largest PSS that was seen, with children.
    pub(super) pss_bytes: Option<u64>,
    pub(super) device_read_bytes: Option<u64>,
    pub(super) device_written_bytes: Option<u64>,
    samples: Vec<Sample>,
}

/// Sums from the beginning up to a moment.
#[derive(Debug, serde::Serialize)]
struct Sample {
    ms: u64,
    cpu_us: f64,
    device_written_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pss_bytes: Option<u64>,
}

/// See the file's top.
pub(super) struct Sampler {
    over: Sender<()>,
    thread: JoinHandle<Cost>,
}

impl Sampler {
    /// Watches the process after `settle` for `time`; its memory before that and after it, and each `pss_every`.
    pub(super) fn start(
        process: Process,
        settle: Duration,
        time: Duration,
        pss_every: Option<Duration>,
    ) -> Self {
        let begun = Instant::now();
        let (over, is_over) = channel::<()>();
        let work = move || {
            // Returns whether the client has ended before.
            let sleep = |until: Duration| {
                let left = until.saturating_sub(begun.elapsed());
                !matches!(is_over.recv_timeout(left), Err(RecvTimeoutError::Timeout))
            };
            let pss_before = process.pss_bytes();
            sleep(settle);
            let mut course = Course::new(process);
            course.cost.pss_bytes = pss_before;
            let end = settle + time;
            let (mut next, mut next_pss) = (settle + EVERY, pss_every.map(|every| settle + every));
            loop {
                let at = next.min(next_pss.unwrap_or(next)).min(end);
                let is_last = sleep(at) || at == end;
                let is_pss = next_pss.is_some_and(|next| next <= at);
                course.sample(is_pss);
                if is_last {
                    return course.end();
                }
                if is_pss {
                    next_pss = pss_every.map(|every| at + every.max(Duration::from_millis(10)));
                }
                if next <= at {
                    next += EVERY;
                }
            }
        };
        Self { over, thread: std::thread::spawn(work) }
    }

    /// Returns what was sampled, once it is over.
    pub(super) fn end(self) -> Cost {
        drop(self.over);
        self.thread.join().expect("the sampler does not panic")
    }
}

/// What was sampled up to now.
struct Course {
    process: Process,
    begun: Instant,
    first: Counts,
    last: Counts,
    cost: Cost,
}

impl Course {
    fn new(process: Process) -> Self {
        let first = process.counts();
        let last = first.clone();
        Self { process, begun: Instant::now(), first, last, cost: Cost::default() }
    }

    fn sample(&mut self, is_pss: bool) {
        self.last = self.process.counts();
        let elapsed = self.begun.elapsed();
        self.cost.seconds = elapsed.as_secs_f64();
        let pss_bytes = is_pss.then(|| self.process.pss_bytes()).flatten();
        self.cost.pss_bytes = self.cost.pss_bytes.max(pss_bytes);
        self.cost.samples.push(Sample {
            ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            cpu_us: self.last.cpu_us - self.first.cpu_us,
            device_written_bytes: self.device_bytes().map(|(_, written)| written),
            pss_bytes,
        });
    }

    fn device_bytes(&self) -> Option<(u64, u64)> {
        let (before, after) = (self.first.device_bytes?, self.last.device_bytes?);
        Some((after.0.saturating_sub(before.0), after.1.saturating_sub(before.1)))
    }

    fn end(mut self) -> Cost {
        let device_bytes = self.device_bytes();
        let cost = &mut self.cost;
        cost.cpu_us = self.last.cpu_us - self.first.cpu_us;
        (cost.device_read_bytes, cost.device_written_bytes) = device_bytes.unzip();
        for (thread, us) in &self.last.threads_us {
            let before = self.first.threads_us.get(thread).copied().unwrap_or_default();
            *cost.threads_us.entry(thread.2.clone()).or_default() += us - before;
        }
        cost.threads_us.retain(|_, us| *us > 0.0);
        cost.pss_bytes = cost.pss_bytes.max(self.process.pss_bytes());
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_watched_until_its_time_or_its_load_is_over() {
        let this = Process(std::process::id());
        let ms = Duration::from_millis;
        let cost = Sampler::start(this, ms(10), ms(60), Some(ms(20)));
        cost.thread.is_finished();
        std::thread::sleep(ms(100));
        let cost = cost.end();
        assert!(cost.seconds >= 0.05, "{cost:?}");
        assert!(cost.pss_bytes.is_some() && cost.device_written_bytes.is_some(), "{cost:?}");
        assert!(cost.samples.len() >= 2 && cost.samples.is_sorted_by_key(|it| it.ms), "{cost:?}");
        // An hour is not waited for.
        let cost = Sampler::start(this, ms(0), Duration::from_secs(3600), None).end();
        assert!(cost.seconds < 600.0, "{cost:?}");
    }
}

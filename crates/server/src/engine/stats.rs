//! What is counted: for INFO, for LATENCY HISTOGRAM, for the operator.

use std::collections::BTreeMap;

use command::table::ORDINAL_COUNT;

use super::histogram::Histogram;

/// How many samples a rate is the mean of.
const RATE_SAMPLES: usize = 16;

/// A count per second, or per another count, sampled ten times a second.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    last_count: u64,
    /// The last time, in microseconds, or the last other count.
    last_base: u64,
    samples: [u64; RATE_SAMPLES],
    next: usize,
}

impl Rate {
    /// Notes a count per second.
    pub(crate) fn sample(&mut self, count: u64, now_us: u64) {
        self.sample_of(count, now_us, 1_000_000);
    }

    /// Notes a count per `unit` of another one.
    pub(crate) fn sample_of(&mut self, count: u64, base: u64, unit: u64) {
        let elapsed = base.saturating_sub(self.last_base);
        let change = count.saturating_sub(self.last_count);
        self.samples[self.next] = change.saturating_mul(unit).checked_div(elapsed).unwrap_or(0);
        self.next = (self.next + 1) % RATE_SAMPLES;
        self.last_count = count;
        self.last_base = base;
    }

    /// The mean of the last samples, each per second or per unit.
    pub(crate) fn mean(&self) -> u64 {
        self.samples.iter().sum::<u64>() / RATE_SAMPLES as u64
    }
}

/// What is known about the calls of one command.
#[derive(Debug, Default)]
pub(crate) struct CommandStats {
    pub(crate) calls: u64,
    pub(crate) duration_us: u64,
    /// Refused before execution.
    pub(crate) rejected: u64,
    /// Executed, with an error as the reply.
    pub(crate) failed: u64,
    /// What was read from the log while the command ran.
    pub(crate) fetched: u64,
    pub(crate) latency: Option<Box<Histogram>>,
}

/// The counters; CONFIG RESETSTAT starts them again.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) connections: u64,
    pub(crate) rejected_connections: u64,
    pub(crate) commands: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) error_replies: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) by_command: Vec<CommandStats>,
    /// The sum of what was read while commands ran.
    pub(crate) fetched: u64,
    /// What users may not do, by [`acl::Reason`].
    pub(crate) denied: [u64; acl::REASON_COUNT],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            connections: 0,
            rejected_connections: 0,
            commands: 0,
            input_bytes: 0,
            output_bytes: 0,
            reads: 0,
            writes: 0,
            error_replies: 0,
            errors: BTreeMap::new(),
            denied: [0; acl::REASON_COUNT],
            by_command: (0..ORDINAL_COUNT).map(|_| CommandStats::default()).collect(),
            fetched: 0,
        }
    }
}

impl Counters {
    /// Notes how much was read while a command ran, when so much was noted before; what those have read that EXEC calls
    /// is theirs.
    pub(crate) fn note_fetched(&mut self, ordinal: usize, count: u64, noted_before: u64) {
        let of_others = self.fetched.saturating_sub(noted_before);
        let own = count.saturating_sub(of_others);
        self.by_command[ordinal].fetched += own;
        self.fetched += own;
    }

    /// Notes an error reply, `-CODE text`.
    pub(crate) fn error(&mut self, reply: &[u8]) {
        self.error_replies += 1;
        let code: &[u8] =
            reply.split(|byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default();
        let code = String::from_utf8_lossy(code.strip_prefix(b"-").unwrap_or(code));
        match self.errors.get_mut(code.as_ref()) {
            Some(count) => *count += 1,
            None => {
                self.errors.insert(code.into_owned(), 1);
            }
        }
    }
}

/// The rates that INFO shows.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    pub(crate) commands: Rate,
    pub(crate) input: Rate,
    pub(crate) output: Rate,
    pub(crate) cycles: Rate,
    /// How long a turn of the event loop takes.
    pub(crate) cycle_us: Rate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_code() {
        let mut counters = Counters::default();
        counters.error(b"-WRONGTYPE Operation\r\n");
        counters.error(b"-ERR x\r\n");
        counters.error(b"-ERR y\r\n");
        assert_eq!(counters.errors["ERR"], 2);
        assert_eq!(counters.errors["WRONGTYPE"], 1);
    }

    #[test]
    fn what_exec_reads_and_what_its_commands_read_is_counted_apart() {
        let mut counters = Counters::default();
        let (exec, get, set) = (3, 4, 5);
        counters.note_fetched(get, 1, 0);
        let before = counters.fetched;
        // EXEC reads two itself, and its commands three and none.
        counters.note_fetched(get, 3, counters.fetched);
        counters.note_fetched(set, 0, counters.fetched);
        counters.note_fetched(exec, 5, before);
        let read = [exec, get, set].map(|ordinal| counters.by_command[ordinal].fetched);
        assert_eq!((read, counters.fetched), ([2, 4, 0], 6));
    }

    #[test]
    fn a_rate_is_a_mean() {
        let mut rate = Rate::default();
        for step in 1..=16 {
            rate.sample(step * 100, step * 100_000);
        }
        assert_eq!(rate.mean(), 1000);
    }
}

//! A thread that may take as long as it wants to takes less where processors are short.
//!
//! ```text
//!   work: 4 ms of a processor ─► did the executor, or this thread, wait for a processor? ── no ─► work
//!      ▲                                                                              └── yes ─┐
//!      └────────────────── rest: nine times as long as it has worked ◄────────────────────────┘
//! ```
//!
//! Niceness decides which of two threads on one processor goes first, but not on which processors they are. Where the
//! executor and its clients need all that there are, schedulers put these on one and give the nice thread another, for
//! itself; or it shares one with the clients, which wait for the end of its time slice whenever they have something to do. So it
//! looks at what the system counts: how long a thread was ready to run and had no processor. As long as the executor or it itself
//! waits more than a little, it takes a tenth of a processor at most, in which it comes to its end all the same.
//!
//! Never done at a time that commands or the end of the server wait for.

use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// So much of a processor it uses before it looks.
const WORK: Duration = Duration::from_millis(4);

/// A rest is so many times as long as the work before it: a tenth of a processor is left, as of one that a thread of niceness
/// 10 shares with the executor.
const RESTS: u32 = 9;

/// Processors are short when a thread waits for one in more than this share of the time, of 1,000.
const SHORT_PERMILLE: u128 = 100;

/// Nothing else needs processors, however long threads wait for one, while the executor works for others in less than this share
/// of the time, of 1,000: where there is one processor, its walk of memory and this thread wait for each other.
const LOADED_PERMILLE: u128 = 50;

/// What the system counts of one thread.
pub(crate) struct Accounts(File);

/// How long a thread has run, and how long it was ready to and had no processor.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    ran: Duration,
    waited: Duration,
}

impl Accounts {
    /// Those of the calling thread; `None` where the system does not keep them.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        let file = File::open(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        let accounts = Self(file);
        accounts.read().is_some().then_some(accounts)
    }

    /// The same ones, for another thread to look at.
    pub(crate) fn another(&self) -> Result<Self> {
        self.0.try_clone().map(Self)
    }

    fn read(&self) -> Option<Counted> {
        let mut text = [0; 80];
        let length = self.0.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        let mut numbers =
            text.split_ascii_whitespace().map(|word| word.parse().map(Duration::from_nanos));
        let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Counted { ran, waited })
    }
}

/// Of one thread, toward the executor. See the file's top.
pub(crate) struct Courtesy {
    own: Accounts,
    executor: Accounts,
    rests: Rests,
}

impl Courtesy {
    /// Of the calling thread; `None` where the system keeps no accounts of it.
    pub(crate) fn toward(executor: Accounts) -> Option<Self> {
        Some(Self { own: Accounts::of_this_thread()?, executor, rests: Rests::default() })
    }

    /// How long to rest from now on, where the executor has worked for this thread for so long until now; `None` to go on with
    /// the work. To be asked between any two pieces of it.
    pub(crate) fn rest(&mut self, worked_for_this: Duration) -> Option<Duration> {
        // Accounts that cannot be read any more tell of no waiting.
        let own = self.own.read()?;
        self.rests.look(Instant::now(), own, || {
            let Counted { ran, waited } = self.executor.read().unwrap_or_default();
            Counted { ran: ran.saturating_sub(worked_for_this), waited }
        })
    }
}

/// Decides when there is a rest, and how long it is.
#[derive(Default)]
struct Rests {
    /// The beginning of this piece of work: what was counted of this thread, and of the executor.
    work: Option<(Instant, Counted, Counted)>,
    /// The end of the rest.
    until: Option<Instant>,
}

impl Rests {
    fn look(
        &mut self,
        now: Instant,
        own: Counted,
        executor: impl Fn() -> Counted,
    ) -> Option<Duration> {
        if let Some(left) = self.until.and_then(|until| until.checked_duration_since(now)) {
            return Some(left);
        }
        self.until = None;
        let Some((began, own_before, executor_before)) = self.work else {
            self.work = Some((now, own, executor()));
            return None;
        };
        let worked = own.ran.saturating_sub(own_before.ran);
        if worked < WORK {
            return None;
        }
        let executor = executor();
        let passed = now.saturating_duration_since(began);
        let is_above = |now: Duration, before: Duration, permille| {
            now.saturating_sub(before).as_nanos() * 1_000 > passed.as_nanos() * permille
        };
        let is_short =
            |now: Counted, before: Counted| is_above(now.waited, before.waited, SHORT_PERMILLE);
        if is_above(executor.ran, executor_before.ran, LOADED_PERMILLE)
            && (is_short(own, own_before) || is_short(executor, executor_before))
        {
            self.work = None;
            self.until = Some(now + worked * RESTS);
            return Some(worked * RESTS);
        }
        self.work = Some((now, own, executor));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a thread for some seconds that, while it works, waits for a processor in this share of the time, next to an
    /// executor that is busy and waits in that share of it. Returns the share of the time that it ran.
    fn runs(own_waits: f64, executor_waits: f64) -> f64 {
        runs_next_to(0.5, own_waits, executor_waits)
    }

    /// The same, with an executor that works for others in such a share of the time.
    fn runs_next_to(executor_runs: f64, own_waits: f64, executor_waits: f64) -> f64 {
        let (began, step) = (Instant::now(), Duration::from_micros(500));
        let (mut rests, mut now) = (Rests::default(), began);
        let (mut own, mut executor) = (Counted::default(), Counted::default());
        while now < began + Duration::from_secs(5) {
            if rests.look(now, own, || executor).is_none_or(|left| left.is_zero()) {
                own.ran += step.mul_f64(1.0 - own_waits);
                own.waited += step.mul_f64(own_waits);
                executor.waited += step.mul_f64(executor_waits);
            }
            executor.ran += step.mul_f64(executor_runs);
            now += step;
        }
        own.ran.as_secs_f64() / (now - began).as_secs_f64()
    }

    #[test]
    fn where_there_is_a_processor_to_spare_it_takes_all_of_it() {
        assert!(runs(0.0, 0.0) > 0.99);
        assert!(runs(0.05, 0.05) > 0.94);
    }

    #[test]
    fn where_the_executor_waits_a_tenth_is_left() {
        let share = runs(0.0, 0.3);
        assert!((0.09..0.12).contains(&share), "{share}");
    }

    #[test]
    fn where_it_waits_itself_it_rests_for_what_it_ran_and_not_for_what_it_waited() {
        // A tenth of a processor while it works: 40 ms, and 36 ms of rest.
        let share = runs(0.9, 0.0);
        assert!((0.045..0.06).contains(&share), "{share}");
    }

    #[test]
    fn next_to_an_executor_that_does_nothing_for_others_it_does_not_rest() {
        assert!(runs_next_to(0.01, 0.6, 0.3) > 0.35);
    }

    #[test]
    fn the_system_counts_what_this_thread_runs() {
        let Some(accounts) = Accounts::of_this_thread() else { return };
        let before = accounts.read().expect("it was read").ran;
        let again = accounts.another().expect("a descriptor");
        let until = before + Duration::from_millis(1);
        while again.read().expect("it was read").ran < until {
            std::hint::spin_loop();
        }
    }
}

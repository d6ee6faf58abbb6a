//! Two bars at the bottom of the terminal: what is transferred, and what of it is verified.
//!
//! ```text
//!   transfer [##########################--------------]  66%    1.2 GiB/s       0:04
//!   verify   [#############---------------------------]  34%  903.5 MiB/s       0:09
//! ```
//!
//! The rate is that of the last few seconds, and the time is what is left at that rate; when nothing
//! is left, the rate is that of the whole, and the time what it took. Columns stay where they are from
//! one drawing to the next, and a line is never as long as the terminal is wide: one that wraps cannot
//! be drawn over.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;
use transfer::Progress;

use crate::size::Size;

/// How often the bars are drawn.
const INTERVAL: Duration = Duration::from_millis(200);
/// The rate is taken over so many intervals.
const WINDOW: usize = 15;
/// Characters of the longest bar; of the shortest one that is worth having.
const WIDTHS: (usize, usize) = (40, 5);
/// What is on a line besides the bar and its brackets.
const TEXT_WIDTH: usize = 40;
/// If the terminal does not say how wide it is.
const USUAL_COLUMNS: usize = 80;

/// One of the two.
struct Bar {
    name: &'static str,
    total: u64,
    /// When it was looked at, after the beginning, and how far it was.
    seen: VecDeque<(Duration, u64)>,
    /// When nothing was left.
    done_after: Option<Duration>,
}

/// Runs something and shows its progress on standard error meanwhile.
pub(super) fn beside<T>(progress: &Progress, run: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (ended, wait) = mpsc::channel::<()>();
        scope.spawn(move || draw(progress, || wait.recv_timeout(INTERVAL)));
        let result = run();
        drop(ended);
        result
    })
}

/// Draws until the wait is over, and leaves nothing behind.
fn draw(progress: &Progress, wait: impl Fn() -> Result<(), RecvTimeoutError>) {
    let started = Instant::now();
    let mut bars: Option<[Bar; 2]> = None;
    while wait() == Err(RecvTimeoutError::Timeout) {
        let total = progress.total_bytes();
        if total == 0 {
            continue;
        }
        // From the second time on: the line above is the first of the two.
        let back = if bars.is_some() { "\x1b[1A\r" } else { "\r" };
        let [transfer, verify] =
            bars.get_or_insert_with(|| [Bar::new("transfer", total), Bar::new("verify", total)]);
        transfer.see(started.elapsed(), progress.written_bytes());
        verify.see(started.elapsed(), progress.verified_bytes());
        let columns = tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { USUAL_COLUMNS } else { columns };
        eprint!("{back}{}\x1b[K\n{}\x1b[K", transfer.line(columns), verify.line(columns));
        // A terminal that is gone takes nothing amiss.
        let _gone = std::io::stderr().flush();
    }
    if bars.is_some() {
        eprint!("\r\x1b[K\x1b[1A\r\x1b[K");
    }
}

impl Bar {
    fn new(name: &'static str, total: u64) -> Self {
        Self { name, total, seen: VecDeque::with_capacity(WINDOW), done_after: None }
    }

    fn see(&mut self, now: Duration, done: u64) {
        let done = done.min(self.total);
        if self.seen.len() == WINDOW {
            self.seen.pop_front();
        }
        self.seen.push_back((now, done));
        if done == self.total && self.done_after.is_none() {
            self.done_after = Some(now);
        }
    }

    /// Bytes that are done.
    fn done(&self) -> u64 {
        self.seen.back().map_or(0, |&(_, done)| done)
    }

    fn bytes_per_second(&self) -> f64 {
        let (Some(&first), Some(&last)) = (self.seen.front(), self.seen.back()) else { return 0.0 };
        let (first, last) = match self.done_after {
            Some(time) => ((Duration::ZERO, 0), (time, self.total)),
            None => (first, last),
        };
        let time = last.0.saturating_sub(first.0).as_secs_f64();
        if time > 0.0 { last.1.saturating_sub(first.1) as f64 / time } else { 0.0 }
    }

    fn line(&self, columns: usize) -> String {
        let done = self.done();
        // It says 100 when nothing is left and not before.
        let percent = u128::from(done) * 100 / u128::from(self.total.max(1));
        let bytes_per_second = self.bytes_per_second();
        let time = match self.done_after {
            Some(time) => format!("in {}", clock(time.as_secs_f64())),
            None if bytes_per_second >= 1.0 => clock((self.total - done) as f64 / bytes_per_second),
            None => "-:--".to_owned(),
        };
        let room = columns.saturating_sub(TEXT_WIDTH + 1).min(WIDTHS.0);
        let mut bar = String::new();
        if room >= WIDTHS.1 {
            let full = (1..=room as u128).filter(|place| place * 100 <= percent * room as u128);
            let full = full.count();
            bar = format!("[{}{}] ", "#".repeat(full), "-".repeat(room - full));
        }
        let rate = format!("{}/s", rate(bytes_per_second));
        let line = format!("{:<8} {bar}{percent:3}% {rate:>12} {time:>10}", self.name);
        line.chars().take(columns.saturating_sub(1)).collect()
    }
}

/// Seconds as `m:ss` or `h:mm:ss`, rounded up: what is left is not nothing until it is.
fn clock(seconds: f64) -> String {
    let seconds = rate(seconds.ceil()).0;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        1..100 => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
        _ => "days".to_owned(),
    }
}

/// Bytes in a second, for people.
pub(super) fn rate(bytes_per_second: f64) -> Size {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and casts of floats saturate"
    )]
    Size(bytes_per_second as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn bar(total: u64, seen: &[(u64, u64)]) -> Bar {
        let mut bar = Bar::new("verify", total);
        seen.iter().for_each(|&(seconds, done)| bar.see(Duration::from_secs(seconds), done));
        bar
    }

    #[test]
    fn a_bar_says_how_much_how_fast_and_how_long() {
        let half = bar(1000 * MIB, &[(1, 0), (6, 500 * MIB)]);
        assert_eq!(
            half.line(80),
            "verify   [###################--------------------]  50%  100.0 MiB/s       0:05"
        );
        assert_eq!(half.line(20), "verify    50%  100.");
        let nothing = bar(10, &[(0, 0)]);
        assert!(
            nothing.line(80).ends_with("   0%        0 B/s       -:--"),
            "{}",
            nothing.line(80)
        );
    }

    #[test]
    fn what_is_done_says_how_long_it_took_and_stays_like_that() {
        let done = bar(100 * MIB, &[(1, 50 * MIB), (2, 100 * MIB), (9, 100 * MIB)]);
        let line = done.line(120);
        assert!(line.ends_with(" 100%   50.0 MiB/s    in 0:02"), "{line}");
    }

    #[test]
    fn lines_fit_the_terminal_and_columns_stay() {
        for columns in [0, 1, 30, 48, 49, 50, 80, 200] {
            let mut lengths = Vec::new();
            for seen in [(1, 0), (1, 3), (7, 900_000 * MIB), (100_000, 999_999 * MIB)] {
                let line = bar(1_000_000 * MIB, &[(0, 0), seen]).line(columns);
                assert!(line.len() < columns.max(1), "{columns}: {line}");
                lengths.push(line.len());
            }
            assert!(lengths.iter().all(|&length| length == lengths[0]), "{columns}: {lengths:?}");
        }
    }

    #[test]
    fn what_is_left_is_rounded_up() {
        let times = [0.0, 0.2, 59.9, 3599.0, 3600.0, 360_000.0, f64::INFINITY].map(clock);
        assert_eq!(times, ["0:00", "0:01", "1:00", "59:59", "1:00:00", "days", "days"]);
    }
}

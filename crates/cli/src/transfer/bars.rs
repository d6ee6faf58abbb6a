//! Two bars on one line of the terminal: what is transferred, and what of it is verified.
//!
//! ```text
//!   transfer [########----]  62%  1.2 GiB/s 0:04   verify [####--------]  31%  0.9 GiB/s 0:09
//! ```
//!
//! The rate is that of the last few seconds, the time is what is left at that rate.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use transfer::Progress;

use crate::size::Size;

/// How often the line is drawn.
const INTERVAL: Duration = Duration::from_millis(200);
/// The rate is taken over so many intervals.
const WINDOW: usize = 15;
/// Characters of a bar.
const WIDTH: usize = 12;

/// Runs something and shows its progress on standard error meanwhile.
pub(super) fn beside<T>(progress: &Progress, run: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (ended, wait) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut seen = VecDeque::with_capacity(WINDOW);
            while wait.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                seen.push_back((
                    Instant::now(),
                    progress.written_bytes(),
                    progress.verified_bytes(),
                ));
                if seen.len() > WINDOW {
                    seen.pop_front();
                }
                if progress.total_bytes() > 0 {
                    eprint!("\r{}\x1b[K", line(progress.total_bytes(), &seen));
                    // A terminal that is gone takes nothing amiss.
                    let _gone = std::io::stderr().flush();
                }
            }
            eprint!("\r\x1b[K");
        });
        let result = run();
        drop(ended);
        result
    })
}

fn line(total: u64, seen: &VecDeque<(Instant, u64, u64)>) -> String {
    let (Some(first), Some(last)) = (seen.front(), seen.back()) else { return String::new() };
    let time = last.0.duration_since(first.0).as_secs_f64();
    let bar = |name: &str, before: u64, now: u64| {
        let rate = if time > 0.0 { now.saturating_sub(before) as f64 / time } else { 0.0 };
        one(name, total, now, rate)
    };
    format!("{}   {}", bar("transfer", first.1, last.1), bar("verify", first.2, last.2))
}

fn one(name: &str, total: u64, done: u64, bytes_per_second: f64) -> String {
    let done = done.min(total);
    let percent = u128::from(done) * 100 / u128::from(total.max(1));
    let full = (0..WIDTH).take_while(|&place| (place as u128 + 1) * 100 <= percent * WIDTH as u128);
    let full = full.count();
    let left = if bytes_per_second >= 1.0 {
        let seconds = Duration::from_secs_f64((total - done) as f64 / bytes_per_second).as_secs();
        format!("{}:{:02}", seconds / 60, seconds % 60)
    } else {
        "-:--".to_owned()
    };
    format!(
        "{name} [{}{}] {percent:3}% {}/s {left}",
        "#".repeat(full),
        "-".repeat(WIDTH - full),
        rate(bytes_per_second)
    )
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

    #[test]
    fn a_bar_says_how_much_how_fast_and_how_long() {
        assert_eq!(
            one("verify", 1000 << 20, 500 << 20, f64::from(100 << 20)),
            "verify [######------]  50% 100.0 MiB/s 0:05"
        );
        assert_eq!(one("x", 10, 0, 0.0), "x [------------]   0% 0 B/s -:--");
        assert_eq!(one("x", 10, 10, 10.0), "x [############] 100% 10 B/s 0:00");
    }
}

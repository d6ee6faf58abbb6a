//! How far something long is, said on standard error: every ten percent, or in one line that changes.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// It is said every so many percent.
const SAID_PERCENT: u64 = 10;

/// What was said last of how far something is.
#[derive(Default)]
pub(crate) struct Said(Option<(&'static str, u64)>);

impl Said {
    /// Says how far `what` is, unless that was said already.
    pub(crate) fn say(&mut self, what: &'static str, percentage: u64) {
        let tenths = percentage / SAID_PERCENT;
        if self.0.replace((what, tenths)) != Some((what, tenths)) {
            eprintln!("{what}: {} %", tenths * SAID_PERCENT);
        }
    }
}

/// A line changes at most so often.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// The width of a bar, in characters.
const BAR_CHARACTERS: usize = 24;

/// A line on a terminal that says how far something is; where there is none, what [`Said`] says.
pub(crate) struct Line {
    is_terminal: bool,
    said: Said,
    what: &'static str,
    started: Instant,
    shown: Option<Instant>,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            said: Said::default(),
            what: "",
            started: Instant::now(),
            shown: None,
        }
    }

    /// Shows how far `what` is: bytes, how many keys were in them, and the rate.
    pub(crate) fn show(&mut self, what: &'static str, done: u64, total: u64, items: u64) {
        self.draw(what, done, total, |rate| {
            format!("{}/{} MiB  {items} keys  {rate:.0} MiB/s", done >> 20, total >> 20)
        });
    }

    /// Shows how far `what` is: bytes, and the rate.
    pub(crate) fn show_bytes(&mut self, what: &'static str, done: u64, total: u64) {
        self.draw(what, done, total, |rate| {
            format!("{}/{} MiB  {rate:.0} MiB/s", done >> 20, total >> 20)
        });
    }

    /// Shows how far `what` is: how many things.
    pub(crate) fn show_count(&mut self, what: &'static str, done: u64, total: u64, things: &str) {
        self.draw(what, done, total, |_| format!("{done}/{total} {things}"));
    }

    /// Shows that `what` goes on for so many seconds more.
    pub(crate) fn show_left(&mut self, what: &'static str, seconds: u64) {
        let is_new = self.what != what;
        self.what = what;
        if !self.is_terminal {
            if is_new {
                eprintln!("{what}: {seconds} s");
            }
            return;
        }
        self.shown = Some(Instant::now());
        eprint!("\r{what}: {seconds} s\x1b[K");
        let _ignored = std::io::stderr().flush();
    }

    fn draw(
        &mut self,
        what: &'static str,
        done: u64,
        total: u64,
        how_far: impl FnOnce(f64) -> String,
    ) {
        if self.what != what {
            (self.what, self.started, self.shown) = (what, Instant::now(), None);
        }
        let percentage = done * 100 / total.max(1);
        if !self.is_terminal {
            self.said.say(what, percentage);
            return;
        }
        if done < total && self.shown.is_some_and(|shown| shown.elapsed() < SHOWN_EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let percents = usize::try_from(percentage).unwrap_or_default().min(100);
        let filled = percents * BAR_CHARACTERS / 100;
        let bar = format!("{}{}", "#".repeat(filled), ".".repeat(BAR_CHARACTERS - filled));
        let rate = (done >> 20) as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
        eprint!("\r{what} [{bar}] {percentage:3} %  {}\x1b[K", how_far(rate));
        let _ignored = std::io::stderr().flush();
    }

    /// Ends the line.
    pub(crate) fn end(&mut self) {
        if self.is_terminal && self.shown.take().is_some() {
            eprintln!();
        }
    }
}

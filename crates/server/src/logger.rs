//! Messages for the operator, in Redis' format, in Valkey's `logfmt`, or as JSON (`log-format`):
//!
//! ```text
//!   1234:M 05 Mar 2025 10:11:12.345 * Ready to accept connections
//!   pid  role  when                level: . debug  - verbose  * notice  # warning
//!
//!   pid=1234 role=primary timestamp="05 Mar 2025 10:11:12.345" level=notice message="Ready to accept connections"
//!
//!   {"pid":1234,"role":"primary","timestamp":"2025-03-05T10:11:12.345Z","level":"notice","message":"Ready to accept connections"}
//! ```
//!
//! A logger is cheap to clone; all clones write to one place and obey one level and one format.
//!
//! # Invariants
//! - A message is one line in `logfmt` and JSON, whatever is in it.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use base::Mutex;

/// How important a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Debug,
    Verbose,
    Notice,
    Warning,
}

impl Level {
    const fn mark(self) -> char {
        match self {
            Self::Debug => '.',
            Self::Verbose => '-',
            Self::Notice => '*',
            Self::Warning => '#',
        }
    }

    /// As Valkey's `logfmt` has it.
    const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Verbose => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
        }
    }
}

/// What lines look like (`log-format`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Legacy,
    Logfmt,
    Json,
}

/// How a line says when it was written (`log-timestamp-format`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamp {
    Legacy,
    Iso8601,
    Milliseconds,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Style {
    form: Form,
    stamp: Stamp,
}

impl Style {
    const LEGACY: Self = Self { form: Form::Legacy, stamp: Stamp::Legacy };

    fn line(self, unix_ms: i64, level: Level, message: &str) -> String {
        let pid = std::process::id();
        let when = match (self.form, self.stamp) {
            (_, Stamp::Milliseconds) => unix_ms.to_string(),
            (_, Stamp::Iso8601) | (Form::Json, Stamp::Legacy) => iso8601(unix_ms),
            (_, Stamp::Legacy) => format_time(unix_ms),
        };
        match self.form {
            Form::Legacy => format!("{pid}:M {when} {} {message}\n", level.mark()),
            Form::Logfmt => {
                let level = level.name();
                let message: String = message.chars().map(plain).collect();
                format!(
                    "pid={pid} role=primary timestamp=\"{when}\" level={level} message=\"{message}\"\n"
                )
            }
            Form::Json => {
                let when = match self.stamp {
                    Stamp::Milliseconds => when,
                    _ => format!("\"{when}\""),
                };
                let (level, message) = (level.name(), serde_json::Value::from(message));
                format!(
                    "{{\"pid\":{pid},\"role\":\"primary\",\"timestamp\":{when},\"level\":\"{level}\",\"message\":{message}}}\n"
                )
            }
        }
    }
}

/// What takes the place of a character that would end a value of `logfmt`, or its line.
fn plain(character: char) -> char {
    match character {
        '"' => '\'',
        '\\' => '/',
        other if other.is_control() => ' ',
        other => other,
    }
}

/// Where messages go.
enum Target {
    /// Nowhere.
    Nothing,
    /// Standard output.
    Stdout,
    /// A file.
    File(LogFile),
}

/// How often it is looked whether the log file is still where it was opened.
const LOOKED_AT_EVERY_US: u64 = 1_000_000;

/// A file that may be moved away (`mv log log.1`, logrotate): then another one takes its place.
struct LogFile {
    path: PathBuf,
    file: File,
    looked_at_us: u64,
}

impl LogFile {
    fn open(path: &Path) -> std::io::Result<File> {
        OpenOptions::new().create(true).append(true).open(path)
    }

    /// Opens the file anew if its name is another file's by now, or no file's.
    fn follow(&mut self, now_us: u64) {
        if now_us.saturating_sub(self.looked_at_us) < LOOKED_AT_EVERY_US {
            return;
        }
        self.looked_at_us = now_us;
        let is_same = |(there, open): (std::fs::Metadata, std::fs::Metadata)| {
            (there.dev(), there.ino()) == (open.dev(), open.ino())
        };
        let both =
            std::fs::metadata(&self.path).and_then(|there| Ok((there, self.file.metadata()?)));
        // Where none can be opened, the old one is better than none.
        if !both.is_ok_and(is_same)
            && let Ok(file) = Self::open(&self.path)
        {
            self.file = file;
        }
    }
}

impl Target {
    fn put(&mut self, line: &str, now_us: u64) {
        // A message that cannot be written cannot be reported either.
        let _ignored = match self {
            Self::Nothing => Ok(()),
            Self::Stdout => std::io::stdout().write_all(line.as_bytes()),
            Self::File(log) => {
                log.follow(now_us);
                log.file.write_all(line.as_bytes())
            }
        };
    }
}

/// How often a warning is written that may come much more often.
const SPARSE_EVERY: Duration = Duration::from_secs(1);

/// A warning that has many causes, some of which strangers can bring about: it is written once a second, with how often it was not.
#[derive(Debug, Default)]
pub(crate) struct SparseWarning {
    written_at: Option<Instant>,
    left_out: u64,
}

impl SparseWarning {
    /// Writes `message` if it is time.
    pub(crate) fn write(&mut self, logger: &Logger, message: &str) {
        if let Some(message) = self.due(message, Instant::now()) {
            logger.warning(&message);
        }
    }

    fn due(&mut self, message: &str, now: Instant) -> Option<String> {
        let is_due = self.written_at.is_none_or(|at| now.duration_since(at) >= SPARSE_EVERY);
        if !is_due {
            self.left_out += 1;
            return None;
        }
        self.written_at = Some(now);
        Some(match std::mem::take(&mut self.left_out) {
            0 => message.to_owned(),
            count => format!("{message} (and {count} more since the last one that was written)"),
        })
    }
}

struct Shared {
    /// The least [`Level`] that is written, if one is.
    level: AtomicU8,
    style: Mutex<Style>,
    reports_crashes: AtomicBool,
    target: Mutex<Target>,
    clock: Arc<dyn env::Clock>,
}

/// See the file's top.
#[derive(Clone)]
pub struct Logger {
    shared: Arc<Shared>,
}

impl Logger {
    /// Messages go to standard output.
    #[must_use]
    pub fn to_stdout(clock: Arc<dyn env::Clock>) -> Self {
        Self::new(Target::Stdout, clock)
    }

    /// Messages are appended to a file. When it is moved away, another one is begun in its place
    /// within a second.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn to_file(path: &Path, clock: Arc<dyn env::Clock>) -> std::io::Result<Self> {
        // The process goes to its data directory later.
        let path = std::path::absolute(path)?;
        let (file, looked_at_us) = (LogFile::open(&path)?, clock.monotonic_us());
        Ok(Self::new(Target::File(LogFile { path, file, looked_at_us }), clock))
    }

    /// Messages go nowhere.
    #[must_use]
    pub fn to_nothing(clock: Arc<dyn env::Clock>) -> Self {
        Self::new(Target::Nothing, clock)
    }

    fn new(target: Target, clock: Arc<dyn env::Clock>) -> Self {
        let level = AtomicU8::new(Level::Notice as u8);
        let (style, target) = (Mutex::new(Style::LEGACY), Mutex::new(target));
        let reports_crashes = AtomicBool::new(true);
        Self { shared: Arc::new(Shared { level, style, reports_crashes, target, clock }) }
    }

    /// Lines look like this from now on: `log-format`, and `log-timestamp-format`.
    pub fn set_format(&self, form: &str, stamp: &str) {
        let form = match form {
            "logfmt" => Form::Logfmt,
            "json" => Form::Json,
            _ => Form::Legacy,
        };
        let stamp = match stamp {
            "iso8601" => Stamp::Iso8601,
            "milliseconds" => Stamp::Milliseconds,
            _ => Stamp::Legacy,
        };
        *self.shared.style.lock() = Style { form, stamp };
    }

    /// Messages below the level of this name (`loglevel`) are dropped from now on.
    pub fn set_level(&self, name: &str) {
        let least = match name {
            "debug" => Level::Debug as u8,
            "verbose" => Level::Verbose as u8,
            "warning" => Level::Warning as u8,
            "nothing" => Level::Warning as u8 + 1,
            _ => Level::Notice as u8,
        };
        self.shared.level.store(least, Ordering::Relaxed);
    }

    /// For developers.
    pub fn debug(&self, message: &str) {
        self.write(Level::Debug, message);
    }

    /// Rarely useful.
    pub fn verbose(&self, message: &str) {
        self.write(Level::Verbose, message);
    }

    /// What an operator wants to know.
    pub fn notice(&self, message: &str) {
        self.write(Level::Notice, message);
    }

    /// What an operator must know.
    pub fn warning(&self, message: &str) {
        self.write(Level::Warning, message);
    }

    fn write(&self, level: Level, message: &str) {
        if (level as u8) < self.shared.level.load(Ordering::Relaxed) {
            return;
        }
        let style = *self.shared.style.lock();
        let line = style.line(self.shared.clock.now_ms(), level, message);
        self.shared.target.lock().put(&line, self.shared.clock.monotonic_us());
    }

    /// Whether a panic leaves its report here from now on (`crash-log-enabled`).
    pub fn set_crash_reports(&self, are_wanted: bool) {
        self.shared.reports_crashes.store(are_wanted, Ordering::Relaxed);
    }

    /// Writes a report as warnings, if it is wanted, and waits for nothing: to standard error where another thread, or this one, is writing.
    pub(crate) fn last_words(&self, lines: &[String]) {
        let Shared { style, target, clock, .. } = &*self.shared;
        if !self.shared.reports_crashes.load(Ordering::Relaxed) {
            return;
        }
        let style = style.try_lock().map_or(Style::LEGACY, |style| *style);
        let mut target = target.try_lock();
        for line in lines {
            let line = style.line(clock.now_ms(), Level::Warning, line);
            match &mut target {
                Some(target) => target.put(&line, clock.monotonic_us()),
                None => eprint!("{line}"),
            }
        }
    }
}

/// `2025-03-05T10:11:12.345Z` of Unix milliseconds.
fn iso8601(unix_ms: i64) -> String {
    let Moment { year, month, day, time } = Moment::of(unix_ms);
    format!("{year:04}-{:02}-{day:02}T{time}Z", month + 1)
}

/// `05 Mar 2025 10:11:12.345` of Unix milliseconds, in UTC.
fn format_time(unix_ms: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let Moment { year, month, day, time } = Moment::of(unix_ms);
    format!("{day:02} {} {year} {time}", MONTHS[month])
}

/// A time in UTC.
struct Moment {
    year: i64,
    /// From 0.
    month: usize,
    day: i64,
    /// `10:11:12.345`
    time: String,
}

impl Moment {
    fn of(unix_ms: i64) -> Self {
        let (days, ms_of_day) = (unix_ms.div_euclid(86_400_000), unix_ms.rem_euclid(86_400_000));
        // Days since 1 March of the year 0, in which leap days come last in a year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month =
            if month_from_march < 10 { month_from_march + 2 } else { month_from_march - 10 };
        let year = year_of_era + era * 400 + i64::from(month < 2);
        let month = usize::try_from(month).expect("from 0 to 11");
        let (hours, minutes) = (ms_of_day / 3_600_000, ms_of_day / 60_000 % 60);
        let (seconds, ms) = (ms_of_day / 1000 % 60, ms_of_day % 1000);
        let time = format!("{hours:02}:{minutes:02}:{seconds:02}.{ms:03}");
        Self { year, month, day, time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(format_time(0), "01 Jan 1970 00:00:00.000");
        assert_eq!(format_time(951_782_400_000), "29 Feb 2000 00:00:00.000");
        assert_eq!(format_time(1_741_169_472_345), "05 Mar 2025 10:11:12.345");
        assert_eq!(format_time(1_735_689_599_999), "31 Dec 2024 23:59:59.999");
        assert_eq!(iso8601(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso8601(1_735_689_599_999), "2024-12-31T23:59:59.999Z");
    }

    #[test]
    fn a_message_is_a_line_whatever_is_in_it() {
        let line = |form, stamp, message: &str| {
            let line = Style { form, stamp }.line(1_741_169_472_345, Level::Notice, message);
            line.replace(&std::process::id().to_string(), "1234")
        };
        assert_eq!(
            line(Form::Legacy, Stamp::Legacy, "a \"b\""),
            "1234:M 05 Mar 2025 10:11:12.345 * a \"b\"\n"
        );
        let form = |message| line(Form::Logfmt, Stamp::Iso8601, message);
        assert_eq!(
            form("a \"b\" level=x\nc\\"),
            "pid=1234 role=primary timestamp=\"2025-03-05T10:11:12.345Z\" level=notice \
             message=\"a 'b' level=x c/\"\n"
        );
        for (stamp, when) in [
            (Stamp::Legacy, "\"2025-03-05T10:11:12.345Z\""),
            (Stamp::Milliseconds, "1741169472345"),
        ] {
            assert_eq!(
                line(Form::Json, stamp, "a \"b\"\n\u{7}ü"),
                format!(
                    "{{\"pid\":1234,\"role\":\"primary\",\"timestamp\":{when},\"level\":\"notice\",\
                     \"message\":\"a \\\"b\\\"\\n\\u0007ü\"}}\n"
                )
            );
        }
    }

    #[test]
    fn what_comes_too_often_is_counted() {
        let (mut warning, now) = (SparseWarning::default(), Instant::now());
        let mut at = |ms| warning.due("no", now + Duration::from_millis(ms));
        assert_eq!(at(0).as_deref(), Some("no"));
        assert_eq!((at(1), at(999)), (None, None));
        let expected = "no (and 2 more since the last one that was written)";
        assert_eq!(at(1000).as_deref(), Some(expected));
        assert_eq!((at(1500), at(2000).is_some()), (None, true));
    }
}

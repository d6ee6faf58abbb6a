//! Messages for the operator, in Redis' format:
//!
//! ```text
//!   1234:M 05 Mar 2025 10:11:12.345 * Ready to accept connections
//!   pid  role  when                level: . debug  - verbose  * notice  # warning
//! ```
//!
//! A logger is cheap to clone; all clones write to one place and obey one level.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
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
    level: AtomicU8,
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
        Self { shared: Arc::new(Shared { level, target: Mutex::new(target), clock }) }
    }

    /// Messages below the level of this name (`loglevel`) are dropped from now on.
    pub fn set_level(&self, name: &str) {
        let level = match name {
            "debug" => Level::Debug,
            "verbose" => Level::Verbose,
            "warning" => Level::Warning,
            _ => Level::Notice,
        };
        self.shared.level.store(level as u8, Ordering::Relaxed);
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
        let mark = match level {
            Level::Debug => '.',
            Level::Verbose => '-',
            Level::Notice => '*',
            Level::Warning => '#',
        };
        let when = format_time(self.shared.clock.now_ms());
        let line = format!("{}:M {when} {mark} {message}\n", std::process::id());
        let mut target = self.shared.target.lock();
        // A message that cannot be written cannot be reported either.
        let _ignored = match &mut *target {
            Target::Nothing => Ok(()),
            Target::Stdout => std::io::stdout().write_all(line.as_bytes()),
            Target::File(log) => {
                log.follow(self.shared.clock.monotonic_us());
                log.file.write_all(line.as_bytes())
            }
        };
    }
}

/// `05 Mar 2025 10:11:12.345` of Unix milliseconds, in UTC.
fn format_time(unix_ms: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
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
    let month = if month_from_march < 10 { month_from_march + 2 } else { month_from_march - 10 };
    let year = year_of_era + era * 400 + i64::from(month < 2);
    let name = MONTHS[usize::try_from(month).expect("from 0 to 11")];
    let (hours, minutes) = (ms_of_day / 3_600_000, ms_of_day / 60_000 % 60);
    let (seconds, ms) = (ms_of_day / 1000 % 60, ms_of_day % 1000);
    format!("{day:02} {name} {year} {hours:02}:{minutes:02}:{seconds:02}.{ms:03}")
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

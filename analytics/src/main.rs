//! `indelible-parquet`: a dump, or the data of a running server, as Parquet files.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use analytics::{Compression, Exported, Options, Progress, Source, export, file_name};
use clap::{Parser, ValueEnum};
use rdb::Checksum;

/// How often a terminal is told how far the export is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// What a row group has room for at most: DuckDB and pyarrow hold one in memory.
const ROWS_MAX: i64 = 10_000_000;

/// The environment variable that redis-cli reads a password from, too.
const PASSWORD_VARIABLE: &str = "REDISCLI_AUTH";

/// Writes a dump of Redis, Valkey or Indelible as Parquet files, one a type.
///
/// All of OUT is there at the end, or nothing is. `redis-cli --rdb - | indelible-parquet - OUT` exports a running
/// server through redis-cli.
#[derive(Parser)]
#[command(name = "indelible-parquet", version)]
struct Arguments {
    /// The dump: a file, `-` for standard input, or a server that is asked for one, as `HOST:PORT` or
    /// `redis://[[USER]:PASSWORD@]HOST[:PORT]`. The environment variable REDISCLI_AUTH can have the password.
    #[arg(value_name = "SRC")]
    source: String,
    /// The directory that is written. It must not be there.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Fields of hashes that have a column of their own; others are in the map `fields`.
    #[arg(long, value_delimiter = ',', value_name = "A,B,...")]
    fields: Vec<String>,
    /// Exports the keys of this database only.
    #[arg(long, value_name = "N")]
    database: Option<u32>,
    /// Rows of a row group at most; one has at most 64 MiB, too.
    #[arg(long, default_value_t = 122_880, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ROWS_MAX))]
    row_group_rows: u32,
    /// How columns are compressed.
    #[arg(long, default_value = "zstd", value_enum)]
    compression: Codec,
    /// Leaves streams, modules' values and arrays out, and counts them; otherwise one of them ends the export.
    #[arg(long)]
    skip_unknown: bool,
    /// The longest string or packed value that is read, in MiB.
    #[arg(long, default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=1024))]
    string_mib_max: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Codec {
    Zstd,
    Snappy,
    None,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(exported) => {
            // A report that goes nowhere does not change what was exported.
            let _ = report(&exported, &mut std::io::stdout().lock());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Exported, analytics::Error> {
    let source = Source::parse(&arguments.source, std::env::var(PASSWORD_VARIABLE).ok())?;
    let options = Options {
        fields: arguments.fields.clone(),
        database: arguments.database,
        row_group_rows: arguments.row_group_rows as usize,
        compression: match arguments.compression {
            Codec::Zstd => Compression::Zstd,
            Codec::Snappy => Compression::Snappy,
            Codec::None => Compression::None,
        },
        skip_unknown: arguments.skip_unknown,
        string_bytes_max: u64::from(arguments.string_mib_max) << 20,
        ..Options::default()
    };
    let mut line = Line::default();
    let exported = export(&source, &arguments.out, &options, |progress| line.show(progress));
    line.clear();
    exported
}

/// The line at the bottom of a terminal.
#[derive(Default)]
struct Line {
    shown: Option<Instant>,
}

impl Line {
    fn show(&mut self, progress: Progress) {
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= PROGRESS_INTERVAL);
        if is_due && std::io::stderr().is_terminal() {
            let Progress { bytes, bytes_total, keys } = progress;
            let share = bytes_total
                .filter(|total| *total > 0)
                .map(|total| format!(" ({} %)", bytes * 100 / total));
            eprint!("\r{keys} keys, {}{}\x1b[K", size(bytes), share.unwrap_or_default());
            self.shown = Some(Instant::now());
        }
    }

    fn clear(&self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

fn report(exported: &Exported, to: &mut impl Write) -> std::io::Result<()> {
    for file in &exported.files {
        let (name, bytes) = (file_name(file.kind), size(file.bytes));
        writeln!(to, "{name}: {} rows, {} keys, {bytes}", file.rows, file.keys)?;
    }
    for (what, count) in &exported.skipped {
        writeln!(to, "left out: {count} keys of type {what}")?;
    }
    if exported.functions > 0 {
        writeln!(to, "left out: {} libraries of functions", exported.functions)?;
    }
    if exported.expiring_fields > 0 {
        let count = exported.expiring_fields;
        writeln!(to, "left out: when {count} fields of hashes expire; the fields are there")?;
    }
    let sum = match exported.checksum {
        Checksum::Right => "the checksum is right",
        Checksum::Absent => "it has no checksum",
    };
    let (keys, bytes, version) = (exported.keys(), size(exported.bytes), exported.version);
    writeln!(to, "{keys} keys of a dump of {bytes} ({version}): {sum}")
}

fn size(bytes: u64) -> String {
    if bytes < 1 << 20 {
        return format!("{} KiB", bytes.div_ceil(1 << 10));
    }
    format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20)
}

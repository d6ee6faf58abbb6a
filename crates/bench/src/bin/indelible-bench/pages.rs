//! `indelible-bench pages`: inspects a page store that no process has open, without changing it.

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _, stdout};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use pages::{Options, PageStore};

/// Entries that a dump reads in one transaction: each holds locks until its transaction ends.
const ENTRIES: usize = 1000;

/// The arguments of `indelible-bench pages`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Checks every page; exits with 0 if the store is intact.
    Check {
        /// The directory of the store.
        directory: PathBuf,
    },
    /// Prints the size of the store and its tables.
    Stats {
        /// The directory of the store.
        directory: PathBuf,
    },
    /// Prints every entry of every table in order.
    Dump {
        /// The directory of the store.
        directory: PathBuf,
        /// Only this table.
        #[arg(long, value_name = "NAME")]
        table: Option<String>,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command that the arguments name. Returns the exit code.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let directory = arguments.action.directory();
    if !directory.join("pages.data").exists() {
        eprintln!(
            "there is no page store in {}: give the directory that holds its pages.data",
            directory.display()
        );
        return ExitCode::FAILURE;
    }
    match arguments.action.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn open(directory: &Path) -> pages::Result<PageStore> {
    PageStore::open_detached(directory, Options::default())
}

impl Action {
    fn directory(&self) -> &Path {
        let (Self::Check { directory } | Self::Stats { directory } | Self::Dump { directory, .. }) =
            self;
        directory
    }

    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Check { directory } => {
                let report = open(&directory)?.check()?;
                println!(
                    "good: {} tables, {} keys, {} pages of trees, {} of large values, {} free",
                    report.tables,
                    report.keys,
                    report.tree_pages,
                    report.overflow_pages,
                    report.free_pages
                );
            }
            Self::Stats { directory } => stats(&open(&directory)?)?,
            Self::Dump { directory, table, json } => {
                let store = open(&directory)?;
                let mut out = BufWriter::new(stdout().lock());
                let tables = match table {
                    Some(table) => vec![table.into_bytes()],
                    None => store.list_tables()?,
                };
                for table in tables {
                    dump(&store, &table, json, &mut out)?;
                }
                out.flush()?;
            }
        }
        Ok(())
    }
}

fn stats(store: &PageStore) -> anyhow::Result<()> {
    let stats = store.stats();
    println!("pages {} free {}", stats.pages, stats.free_pages);
    println!(
        "pages older in storage than in the log {}, records of them {} bytes",
        stats.dirty_pages, stats.online_log_bytes
    );
    let reader = store.begin_read()?;
    for table in store.list_tables()? {
        let entries = reader.table(&table).len_estimate()?;
        let mut line = String::from("table ");
        text_bytes(&mut line, &table);
        println!("{line} about {entries} entries");
    }
    Ok(())
}

fn dump(
    store: &PageStore,
    table: &[u8],
    json: bool,
    out: &mut impl std::io::Write,
) -> anyhow::Result<()> {
    let mut from = Bound::Unbounded;
    loop {
        let reader = store.begin_read()?;
        let mut count = 0;
        for entry in reader.table(table).range((from.clone(), Bound::Unbounded)).take(ENTRIES) {
            let (key, value) = entry?;
            let mut line = String::new();
            for (name, bytes) in [("table", table), ("key", &key), ("value", &value)] {
                line.push(if !json {
                    ' '
                } else if line.is_empty() {
                    '{'
                } else {
                    ','
                });
                if json { json_bytes(&mut line, name, bytes) } else { text_bytes(&mut line, bytes) }
            }
            writeln!(out, "{}{}", line.trim_start(), if json { "}" } else { "" })?;
            from = Bound::Excluded(key);
            count += 1;
        }
        if count < ENTRIES {
            return Ok(());
        }
    }
}

/// Appends `"name":"…"`, or `"name_hex":"…"` if it is not UTF-8.
fn json_bytes(line: &mut String, name: &str, bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        push(line, format_args!(r#""{name}_hex":""#));
        bytes.iter().for_each(|byte| push(line, format_args!("{byte:02x}")));
        line.push('"');
        return;
    };
    push(line, format_args!(r#""{name}":""#));
    for char in text.chars() {
        match char {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            char if u32::from(char) < 0x20 => {
                push(line, format_args!("\\u{:04x}", u32::from(char)))
            }
            char => line.push(char),
        }
    }
    line.push('"');
}

/// Appends a string as redis-cli shows it.
fn text_bytes(line: &mut String, bytes: &[u8]) {
    line.push('"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => line.extend(['\\', char::from(byte)]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            0x20..=0x7e => line.push(char::from(byte)),
            _ => push(line, format_args!("\\x{byte:02x}")),
        }
    }
    line.push('"');
}

fn push(line: &mut String, args: std::fmt::Arguments<'_>) {
    line.write_fmt(args).expect("a string takes everything");
}

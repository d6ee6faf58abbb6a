//! From events to tables.

use std::collections::BTreeMap;
use std::path::Path;

use parquet::basic;
use parquet::basic::ZstdLevel;
use rdb::{Checksum, Event, Key, Kind, Limits, Reader, Version};

use crate::error::Error;
use crate::schema::{KINDS, check_fields};
use crate::source::{Opened, Source, Wrong};
use crate::table::Table;
use crate::target::Target;
use crate::values::Element;

/// Progress is reported every so many bytes of the dump.
const PROGRESS_BYTES: u64 = 4 << 20;

/// The facts of a dump that become metadata of the files.
const FACTS: [&str; 3] = ["indelible-lsn", "indelible-database", "redis-ver"];

/// What is exported, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The fields of hashes that have a column of their own.
    pub fields: Vec<String>,
    /// The only database that is exported; `None` for all.
    pub database: Option<u32>,
    /// Rows of a row group at most.
    pub row_group_rows: usize,
    /// How columns are compressed.
    pub compression: Compression,
    /// Whether keys of types that have no file are left out; otherwise they are an error.
    pub skip_unknown: bool,
    /// The longest string of a dump that is read.
    pub string_bytes_max: u64,
    /// What memory is used for.
    pub bounds: Bounds,
}

/// What is held in memory at most, of each type.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A batch is encoded when it has so many bytes.
    pub batch_bytes: usize,
    /// A row group is written when so many bytes were encoded.
    pub row_group_bytes: usize,
    /// A value of more bytes is several rows. One element is never split.
    pub part_bytes: usize,
}

/// How columns are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Zstandard, at its first level.
    Zstd,
    /// Snappy.
    Snappy,
    /// Not at all.
    None,
}

/// How far an export is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes of the dump that were read.
    pub bytes: u64,
    /// Bytes that it has, if that is known.
    pub bytes_total: Option<u64>,
    /// Keys that were exported.
    pub keys: u64,
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Each file.
    pub files: Vec<Written>,
    /// Keys that were left out, by their type.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Libraries of functions, which are in no file.
    pub functions: u64,
    /// Fields of hashes that expire: when they do is in no file.
    pub expiring_fields: u64,
    /// The version of the dump.
    pub version: Version,
    /// Bytes of the dump.
    pub bytes: u64,
    /// What became of its checksum.
    pub checksum: Checksum,
}

/// A file that was written.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// The type of its keys.
    pub kind: Kind,
    /// Its rows.
    pub rows: u64,
    /// Its keys; large ones have several rows.
    pub keys: u64,
    /// Its bytes.
    pub bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            fields: Vec::new(),
            database: None,
            row_group_rows: 122_880,
            compression: Compression::Zstd,
            skip_unknown: false,
            string_bytes_max: Limits::default().string_bytes_max,
            bounds: Bounds::default(),
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self { batch_bytes: 8 << 20, row_group_bytes: 64 << 20, part_bytes: 64 << 20 }
    }
}

impl Compression {
    pub(crate) fn codec(self) -> basic::Compression {
        match self {
            Self::Zstd => basic::Compression::ZSTD(ZstdLevel::default()),
            Self::Snappy => basic::Compression::SNAPPY,
            Self::None => basic::Compression::UNCOMPRESSED,
        }
    }
}

impl Exported {
    /// Returns the number of keys in all files.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.files.iter().map(|file| file.keys).sum()
    }
}

/// Writes the dump of `source` as files in `out`, which must not be there.
///
/// # Errors
/// If the dump is damaged or cut short, cannot be read, or has what is not exported; if `out` is there
/// or cannot be written. Nothing is at `out` then.
pub fn export(
    source: &Source,
    out: &Path,
    options: &Options,
    mut progress: impl FnMut(Progress),
) -> Result<Exported, Error> {
    check_fields(&options.fields)?;
    let target = Target::create(out)?;
    let tables = Tables::create(target.directory(), options)?;
    let exported = read(source, options, tables, &mut progress)?;
    target.finish()?;
    Ok(exported)
}

/// A table for each type.
struct Tables([Table; KINDS.len()]);

impl Tables {
    fn create(directory: &Path, options: &Options) -> Result<Self, Error> {
        let table = |kind| Table::create(directory, kind, options);
        let [strings, lists, sets, zsets, hashes] = KINDS;
        Ok(Self([table(strings)?, table(lists)?, table(sets)?, table(zsets)?, table(hashes)?]))
    }

    fn of(&mut self, kind: Kind) -> &mut Table {
        let index = KINDS.iter().position(|it| *it == kind);
        &mut self.0[index.expect("every type has a table")]
    }

    fn keys(&self) -> u64 {
        self.0.iter().map(Table::keys).sum()
    }

    /// Ends all files; each says what is known of the dump, and how many keys all of them have.
    fn finish(self, mut facts: Vec<(&'static str, String)>) -> Result<Vec<Written>, Error> {
        facts.push(("indelible-total-keys", self.keys().to_string()));
        self.0.into_iter().map(|table| table.finish(&facts)).collect()
    }
}

/// Reads a dump to its end and what is behind it; the files are synced.
fn read(
    source: &Source,
    options: &Options,
    tables: Tables,
    progress: &mut impl FnMut(Progress),
) -> Result<Exported, Error> {
    let Opened { reader, ending, bytes: bytes_total } = source.open()?;
    let from = source.to_string();
    let wrong = |source| Error::Dump { from: from.clone(), source };
    let limits = Limits { string_bytes_max: options.string_bytes_max };
    let mut reader = Reader::embedded(reader, limits).map_err(wrong)?;
    let mut sorter = Sorter::new(options, tables);
    let mut next_progress = 0;
    let checksum = loop {
        let event = reader.next().map_err(wrong)?;
        if let Event::End { checksum } = event {
            break checksum;
        }
        sorter.take(&event)?;
        if reader.offset() >= next_progress {
            next_progress = reader.offset() + PROGRESS_BYTES;
            progress(Progress { bytes: reader.offset(), bytes_total, keys: sorter.tables.keys() });
        }
    };
    let (version, bytes) = (reader.version(), reader.offset());
    ending.check(bytes, reader.into_rest()).map_err(|what| match what {
        Wrong::Io(error) => wrong(rdb::Error::Io(error)),
        Wrong::Ending(what) => Error::Ending { from: from.clone(), what },
    })?;
    let Sorter { tables, facts, skipped, functions, expiring_fields, .. } = sorter;
    let files = tables.finish(facts)?;
    Ok(Exported { files, skipped, functions, expiring_fields, version, bytes, checksum })
}

/// Gives each key to the table of its type, and counts what has none.
struct Sorter<'a> {
    options: &'a Options,
    tables: Tables,
    facts: Vec<(&'static str, String)>,
    database: u32,
    /// The type of the key in progress, if it is exported.
    open: Option<Kind>,
    skipped: BTreeMap<&'static str, u64>,
    functions: u64,
    expiring_fields: u64,
}

impl<'a> Sorter<'a> {
    fn new(options: &'a Options, tables: Tables) -> Self {
        Self {
            options,
            tables,
            facts: Vec::new(),
            database: 0,
            open: None,
            skipped: BTreeMap::new(),
            functions: 0,
            expiring_fields: 0,
        }
    }

    fn take(&mut self, event: &Event<'_>) -> Result<(), Error> {
        match *event {
            Event::Aux { name, value } => self.note(name, value),
            Event::Database(index) => self.database = index,
            Event::Function(_) => self.functions += 1,
            Event::Key(Key { kind: Kind::Stream, key, .. }) if self.is_wanted() => {
                self.refuse(key, Kind::Stream.name())?;
            }
            Event::Key(key) if self.is_wanted() => {
                self.open = Some(key.kind);
                self.tables.of(key.kind).begin(self.database, &key);
            }
            Event::String(value) => self.push(Element::String(value))?,
            Event::Item(item) | Event::Member(item) => self.push(Element::Item(item))?,
            Event::Scored(member, score) => self.push(Element::Scored(member, score))?,
            Event::Field { name, value, expires_at_ms } => {
                self.expiring_fields += u64::from(self.open.is_some() && expires_at_ms.is_some());
                self.push(Element::Field(name, value))?;
            }
            Event::EndOfKey => {
                if let Some(kind) = self.open.take() {
                    self.tables.of(kind).end()?;
                }
            }
            Event::Foreign { key, what } if self.is_wanted() => self.refuse(key, what)?,
            // Of a stream, which was refused.
            Event::Entry(_)
            | Event::Pair(..)
            | Event::Numbers(_)
            | Event::Group { .. }
            | Event::Pending(_)
            | Event::Consumer { .. }
            | Event::Held(_)
            | Event::Key(_)
            | Event::Empty { .. }
            | Event::Foreign { .. }
            | Event::Sizes { .. }
            | Event::Ignored { .. }
            | Event::End { .. } => {}
        }
        Ok(())
    }

    /// A key has a value that there is no file for.
    fn refuse(&mut self, key: &[u8], what: &'static str) -> Result<(), Error> {
        if !self.options.skip_unknown {
            let key = key.escape_ascii().to_string();
            return Err(Error::Foreign { key, database: self.database, what });
        }
        *self.skipped.entry(what).or_default() += 1;
        Ok(())
    }

    fn is_wanted(&self) -> bool {
        self.options.database.is_none_or(|wanted| wanted == self.database)
    }

    fn push(&mut self, element: Element<'_>) -> Result<(), Error> {
        match self.open {
            Some(kind) => self.tables.of(kind).push(element),
            None => Ok(()),
        }
    }

    fn note(&mut self, name: &[u8], value: &[u8]) {
        let known = FACTS.iter().find(|fact| fact.as_bytes() == name);
        let is_new = |fact: &str| self.facts.iter().all(|(noted, _)| *noted != fact);
        if let Some(fact) = known.filter(|fact| is_new(fact)) {
            self.facts.push((fact, String::from_utf8_lossy(value).into_owned()));
        }
    }
}

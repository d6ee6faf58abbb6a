//! A dump as an RDB file.

use std::io::Write;

use keyspace::Type;
use rdb::{Key, Kind, WriteError, WriteOptions, Writer};

use crate::stream_target::StreamParts;
use crate::target::{DumpedKey, Element, Target};

/// A string up to so long is gathered, and may be compressed; a longer one is passed on as it comes.
const GATHERED_BYTES: u64 = 1 << 20;

/// Writes what it is given as an RDB file.
#[derive(Debug)]
pub struct RdbTarget<W> {
    writer: Writer<W>,
    /// The database of the key before.
    database: Option<u32>,
    /// By database: how many keys it has and how many of them expire, until that is written.
    sizes: Vec<Option<(u64, u64)>>,
    /// The string that is gathered.
    string: Vec<u8>,
    is_gathered: bool,
    /// The stream that is written.
    stream: Option<StreamParts>,
}

impl<W: Write> RdbTarget<W> {
    /// Begins a file, with facts about it: names and values.
    ///
    /// # Errors
    /// When the version cannot be written, or the target fails.
    pub fn begin(
        target: W,
        options: WriteOptions,
        facts: &[(&str, String)],
    ) -> Result<Self, WriteError> {
        let mut writer = Writer::begin(target, options)?;
        for (name, value) in facts {
            writer.aux(name.as_bytes(), value.as_bytes())?;
        }
        let (sizes, string) = (Vec::new(), Vec::new());
        let (is_gathered, stream) = (false, None);
        Ok(Self { writer, database: None, sizes, string, is_gathered, stream })
    }

    /// Takes how many keys each database has, and how many of them expire. The file says so before
    /// the first key of the database, and readers make their tables of that size at once.
    #[must_use]
    pub fn with_sizes(mut self, sizes: Vec<(u64, u64)>) -> Self {
        self.sizes = sizes.into_iter().map(Some).collect();
        self
    }

    /// Writes libraries of functions, which come before the first key.
    ///
    /// # Errors
    /// When the version has none, or the target fails.
    pub fn with_libraries<'a>(
        mut self,
        sources: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, WriteError> {
        sources.into_iter().try_for_each(|source| self.writer.function(source))?;
        Ok(self)
    }

    /// How many bytes the file has so far.
    pub(crate) const fn position(&self) -> u64 {
        self.writer.position()
    }

    /// Says which database the next key is in, unless the one before is in it, too.
    pub(crate) fn select(&mut self, database: u32) -> Result<(), WriteError> {
        if self.database == Some(database) {
            return Ok(());
        }
        self.database = Some(database);
        self.writer.database(database)?;
        let sizes = self.sizes.get_mut(database as usize).and_then(Option::take);
        match sizes {
            Some((keys, expiring)) => self.writer.sizes(keys, expiring),
            None => Ok(()),
        }
    }

    /// Copies bytes of another file: see [`Writer::copy`].
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.writer.copy(bytes)
    }

    /// Begins a key whose times, form and name were copied.
    pub(crate) fn key_copied(&mut self, value_type: Type, count: u64) -> Result<(), WriteError> {
        let kind = kind_of(value_type);
        self.writer.key_copied(kind, count)?;
        self.begin_string(kind, count)
    }

    /// So many elements of the key were copied.
    pub(crate) fn elements_copied(&mut self, count: u64) {
        self.writer.elements_copied(count);
    }

    fn begin_string(&mut self, kind: Kind, bytes: u64) -> Result<(), WriteError> {
        self.is_gathered = kind == Kind::String && !is_in_parts(bytes);
        if kind == Kind::String && !self.is_gathered {
            self.writer.string_in_parts(bytes)?;
        }
        Ok(())
    }

    /// Ends the file, and returns the target, to which everything is written and not synced.
    ///
    /// # Errors
    /// When the target fails.
    pub fn finish(self) -> Result<W, WriteError> {
        self.writer.finish()
    }

    /// The same, with the checksum that it ends with, if it has one.
    pub(crate) fn finish_summed(self) -> Result<(W, Option<u64>), WriteError> {
        self.writer.finish_summed()
    }
}

/// Whether a string of so many bytes is written as it comes, and never compressed.
pub(crate) const fn is_in_parts(bytes: u64) -> bool {
    bytes > GATHERED_BYTES
}

const fn kind_of(value_type: Type) -> Kind {
    match value_type {
        Type::String => Kind::String,
        Type::List => Kind::List,
        Type::Hash => Kind::Hash,
        Type::Set => Kind::Set,
        Type::ZSet => Kind::ZSet,
        Type::Stream => Kind::Stream,
    }
}

impl<W: Write> Target for RdbTarget<W> {
    type Error = WriteError;

    fn begin(&mut self, key: &DumpedKey<'_>) -> Result<(), WriteError> {
        self.select(key.database)?;
        let kind = kind_of(key.value_type);
        if kind == Kind::Stream {
            // How many nodes it has, its root says.
            self.stream = Some(StreamParts::new(key.key, key.expires_at_ms));
            return Ok(());
        }
        let count = (kind != Kind::String).then_some(key.count);
        let (expires_at_ms, idle_s, frequency) = (key.expires_at_ms, None, None);
        let written = Key { key: key.key, kind, count, expires_at_ms, idle_s, frequency };
        if key.has_expiring_fields {
            self.writer.hash_with_times(&written)?;
        } else {
            self.writer.key(&written)?;
        }
        self.begin_string(kind, key.count)
    }

    fn element(&mut self, element: Element<'_>) -> Result<(), WriteError> {
        match element {
            Element::Part(bytes) if self.is_gathered => {
                self.string.extend_from_slice(bytes);
                Ok(())
            }
            Element::Part(bytes) => self.writer.part(bytes),
            Element::Item(item) => self.writer.item(item),
            Element::Member(member) => self.writer.member(member),
            Element::Scored(member, score) => self.writer.scored(member, score),
            Element::Field(name, value, at_ms) => self.writer.field(name, value, at_ms),
            Element::Stream(root) => {
                let stream = self.stream.as_mut().expect("it was begun");
                stream.root(&root, &mut self.writer)
            }
            Element::Record(name, value) => {
                let stream = self.stream.as_mut().expect("it was begun");
                stream.record(name, value, &mut self.writer)
            }
        }
    }

    fn end(&mut self) -> Result<(), WriteError> {
        if let Some(mut stream) = self.stream.take() {
            stream.end(&mut self.writer)?;
        }
        if std::mem::take(&mut self.is_gathered) {
            self.writer.string(&self.string)?;
            self.string.clear();
        }
        self.writer.end_of_key()
    }
}

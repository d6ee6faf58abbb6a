//! The writer of dumps: everything in the plain forms that every server since Redis 5.0 reads.
//!
//! ```text
//!   begin ─► aux* ─► (database ─► sizes? ─► (key ─► string │ element* ─► end_of_key)*)* ─► finish
//! ```
//!
//! Plain forms are labelled version 9 as a rule: the reader brings them into its own encodings, and no
//! server refuses the label. Functions need version 10, fields that expire 12, or Valkey's 80. A stream is written in the
//! form that the version has: below 10 without what Redis counts since 7.0, below 11 without when consumers got something.

mod stream;

use std::io::{self, Write};

use crate::crc64::Crc64;
use crate::event::{Key, Kind};
use crate::form::{number, opcode};
use crate::input::length;
use crate::lzf::Packer;
use crate::strings::{field_time, put_as_integer, put_length};
use crate::version::Version;
use crate::{PACKED_BYTES_MIN, SAVED_BYTES_MIN};

/// What is gathered before it is written.
const BUFFER_BYTES: usize = 256 << 10;

/// How a dump is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// What it is labelled: 9 to 15 of Redis, or 80 of Valkey.
    pub version: Version,
    /// Whether strings of more than 20 bytes are compressed where that saves some.
    pub compress: bool,
    /// Whether it ends with a checksum; otherwise with zeros in its place.
    pub checksum: bool,
}

impl WriteOptions {
    /// The oldest version that has functions, and all that a stream counts.
    pub const WITH_FUNCTIONS: Version = Version::Redis(10);

    /// The oldest version of Redis that has fields of hashes that expire.
    pub const WITH_EXPIRING_FIELDS: Version = Version::Redis(12);

    /// Whether a dump that is written so may have functions.
    ///
    /// # Errors
    /// If the version is below 10.
    pub const fn check_functions(&self) -> Result<(), WriteError> {
        self.version.check("functions", Self::WITH_FUNCTIONS)
    }
}

impl Default for WriteOptions {
    /// Version 9, compressed, with a checksum: what Redis does by default, and every server reads.
    fn default() -> Self {
        Self { version: Version::Redis(9), compress: true, checksum: true }
    }
}

impl Version {
    const fn check(self, what: &'static str, at_least: Self) -> Result<(), WriteError> {
        match (self, at_least) {
            (Self::Redis(has), Self::Redis(needs)) if has < needs => {
                Err(WriteError::Unknown { version: self, what, at_least })
            }
            _ => Ok(()),
        }
    }
}

pub(crate) use stream::encode_stream;

/// Why a dump could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It cannot be labelled with this version.
    #[error("a dump cannot be written as {0}: choose REDIS0009 to REDIS0015, or VALKEY080")]
    Version(Version),

    /// It has something that its version does not have.
    #[error(
        "a dump of version {version} has no {what}: choose {at_least} or VALKEY080, or leave them out"
    )]
    Unknown {
        /// What it is labelled.
        version: Version,
        /// What it does not have.
        what: &'static str,
        /// The oldest version of Redis that has it.
        at_least: Version,
    },

    /// A key did not get as many elements, or a string as many bytes, as was said: a broken promise of the caller's.
    #[error(
        "a key was said to have {said} elements and was given {given}: this is a mistake in the program"
    )]
    Count {
        /// What the key said.
        said: u64,
        /// What came until its end.
        given: u64,
    },

    /// Its target cannot be written.
    #[error("cannot be written: {0}; check its device or connection, and try again")]
    Io(#[from] io::Error),
}

/// Writes a dump. After an error it is to be given up.
///
/// # Panics
/// Its methods panic where the caller breaks the order that the file's top shows: an element that the
/// key's kind does not have, or outside of a key; a key within a key.
#[derive(Debug)]
pub struct Writer<W> {
    target: W,
    version: Version,
    buffer: Vec<u8>,
    /// How many bytes the target has.
    written: u64,
    sum: Option<Crc64>,
    packer: Option<Packer>,
    packed: Vec<u8>,
    open: Option<Open>,
}

/// A key that is not complete.
#[derive(Clone, Copy, Debug)]
struct Open {
    kind: Kind,
    /// Elements, or bytes of a string that comes in parts.
    said: u64,
    given: u64,
    fields_expire: bool,
    is_in_parts: bool,
}

impl<W: Write> Writer<W> {
    /// Begins a dump.
    ///
    /// # Errors
    /// If the version cannot be written.
    pub fn begin(target: W, options: WriteOptions) -> Result<Self, WriteError> {
        let WriteOptions { version, compress, checksum } = options;
        if !matches!(
            version,
            Version::Redis(9..=crate::REDIS_VERSION_MAX) | Version::Valkey(crate::VALKEY_VERSION)
        ) {
            return Err(WriteError::Version(version));
        }
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        buffer.extend_from_slice(version.to_string().as_bytes());
        Ok(Self {
            target,
            version,
            buffer,
            written: 0,
            sum: checksum.then(Crc64::new),
            packer: compress.then(Packer::new),
            packed: Vec::new(),
            open: None,
        })
    }

    /// Writes a fact about the dump, before the first key; readers ignore names that they do not know.
    ///
    /// # Errors
    /// If the target cannot be written, as everywhere below.
    pub fn aux(&mut self, name: &[u8], value: &[u8]) -> Result<(), WriteError> {
        self.outside();
        self.buffer.push(opcode::AUX);
        self.put_string(name)?;
        self.put_string(value)
    }

    /// Writes the code of a library of functions, its first line included.
    ///
    /// # Errors
    /// If the version is below 10.
    pub fn function(&mut self, code: &[u8]) -> Result<(), WriteError> {
        self.outside();
        self.needs("functions", WriteOptions::WITH_FUNCTIONS)?;
        self.buffer.push(opcode::FUNCTION);
        self.put_string(code)
    }

    /// Says which database the keys that follow are in; before the first call it is 0.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn database(&mut self, index: u32) -> Result<(), WriteError> {
        self.outside();
        self.buffer.push(opcode::DATABASE);
        put_length(&mut self.buffer, index.into());
        self.flush_full()
    }

    /// Says how many keys the database will have, and how many of them expire: a hint for tables.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn sizes(&mut self, keys: u64, expiring: u64) -> Result<(), WriteError> {
        self.outside();
        self.buffer.push(opcode::SIZES);
        put_length(&mut self.buffer, keys);
        put_length(&mut self.buffer, expiring);
        self.flush_full()
    }

    /// Begins a key; its value follows, as many elements as its `count` says.
    ///
    /// # Errors
    /// If the count is not given for a collection, or is zero.
    pub fn key(&mut self, key: &Key<'_>) -> Result<(), WriteError> {
        self.begin_key(key, false)
    }

    /// Begins a hash with fields of which at least one expires.
    ///
    /// # Errors
    /// As [`Writer::key`], and if the version has no such fields.
    pub fn hash_with_times(&mut self, key: &Key<'_>) -> Result<(), WriteError> {
        assert_eq!(key.kind, Kind::Hash, "only fields of hashes expire");
        self.needs("fields of hashes that expire", WriteOptions::WITH_EXPIRING_FIELDS)?;
        self.begin_key(key, true)
    }

    fn begin_key(&mut self, key: &Key<'_>, fields_expire: bool) -> Result<(), WriteError> {
        self.outside();
        let said = if key.kind == Kind::String { 1 } else { key.count.unwrap_or(0) };
        if said == 0 && key.kind != Kind::Stream {
            return Err(WriteError::Count { said, given: 0 });
        }
        if let Some(at_ms) = key.expires_at_ms {
            self.buffer.push(opcode::EXPIRES_MS);
            self.buffer.extend_from_slice(&at_ms.to_le_bytes());
        }
        if let Some(idle_s) = key.idle_s {
            self.buffer.push(opcode::IDLE);
            put_length(&mut self.buffer, idle_s);
        }
        if let Some(frequency) = key.frequency {
            self.buffer.extend_from_slice(&[opcode::FREQUENCY, frequency]);
        }
        self.buffer.push(match (key.kind, self.version) {
            (Kind::String, _) => number::STRING,
            (Kind::List, _) => number::LIST,
            (Kind::Set, _) => number::SET,
            (Kind::ZSet, _) => number::ZSET_2,
            (Kind::Hash, Version::Valkey(_)) if fields_expire => number::VALKEY_HASH_TIMED,
            (Kind::Hash, Version::Redis(_)) if fields_expire => number::HASH_TIMED,
            (Kind::Hash, _) => number::HASH,
            (Kind::Stream, _) => stream::form_of_streams(self.version),
        });
        self.put_string(key.key)?;
        if fields_expire && matches!(self.version, Version::Redis(_)) {
            // Times are counted from 1970 and not from the smallest, which is not known yet.
            self.buffer.extend_from_slice(&0_i64.to_le_bytes());
        }
        if key.kind != Kind::String {
            put_length(&mut self.buffer, said);
        }
        self.open =
            Some(Open { kind: key.kind, said, given: 0, fields_expire, is_in_parts: false });
        Ok(())
    }

    /// Writes the value of a string.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn string(&mut self, value: &[u8]) -> Result<(), WriteError> {
        self.element(Kind::String);
        self.put_string(value)
    }

    /// Begins the value of a string of so many bytes that comes in parts; it is not compressed.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn string_in_parts(&mut self, bytes: u64) -> Result<(), WriteError> {
        self.element(Kind::String);
        put_length(&mut self.buffer, bytes);
        if let Some(open) = &mut self.open {
            (open.said, open.given, open.is_in_parts) = (bytes, 0, true);
        }
        self.flush_full()
    }

    /// Writes the next part of a string.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn part(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let open = self.open.as_mut().filter(|open| open.is_in_parts);
        let open = open.expect("string_in_parts was called");
        open.given += bytes.len() as u64;
        self.put_bytes(bytes)
    }

    /// Writes the next item of a list.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn item(&mut self, item: &[u8]) -> Result<(), WriteError> {
        self.element(Kind::List);
        self.put_string(item)
    }

    /// Writes a member of a set.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn member(&mut self, member: &[u8]) -> Result<(), WriteError> {
        self.element(Kind::Set);
        self.put_string(member)
    }

    /// Writes a member of a sorted set.
    ///
    /// # Errors
    /// If the target cannot be written.
    ///
    /// # Panics
    /// If the score is no number: no server reads that.
    pub fn scored(&mut self, member: &[u8], score: f64) -> Result<(), WriteError> {
        assert!(!score.is_nan(), "scores are numbers");
        self.element(Kind::ZSet);
        self.put_string(member)?;
        self.buffer.extend_from_slice(&score.to_le_bytes());
        Ok(())
    }

    /// Writes a field of a hash, with when it expires in milliseconds of Unix time; the nearest time that servers read,
    /// if they do not read that one.
    ///
    /// # Errors
    /// If the target cannot be written.
    ///
    /// # Panics
    /// If it expires, and the hash was not begun as one with such fields.
    pub fn field(
        &mut self,
        name: &[u8],
        value: &[u8],
        expires_at_ms: Option<i64>,
    ) -> Result<(), WriteError> {
        let fields_expire = self.element(Kind::Hash).fields_expire;
        assert!(fields_expire || expires_at_ms.is_none(), "hash_with_times begins such a hash");
        let expires_at_ms = expires_at_ms.map(field_time);
        let times_come_first = fields_expire && matches!(self.version, Version::Redis(_));
        if times_come_first {
            let after_base = |at_ms: i64| at_ms.cast_unsigned() + 1;
            put_length(&mut self.buffer, expires_at_ms.map_or(0, after_base));
        }
        self.put_string(name)?;
        self.put_string(value)?;
        if fields_expire && !times_come_first {
            self.buffer.extend_from_slice(&expires_at_ms.unwrap_or(-1).to_le_bytes());
        }
        Ok(())
    }

    /// Ends a key.
    ///
    /// # Errors
    /// If it did not get as many elements as it said.
    pub fn end_of_key(&mut self) -> Result<(), WriteError> {
        let Open { said, given, .. } = self.open.take().expect("a key was begun");
        if said == given { Ok(()) } else { Err(WriteError::Count { said, given }) }
    }

    /// How many bytes the dump has so far.
    pub const fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Writes bytes of another dump of the same version as they are: whole keys between keys, or, in a key, what
    /// [`Writer::key_copied`] and [`Writer::elements_copied`] are told of.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn copy(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.put_bytes(bytes)
    }

    /// Begins a key whose times, form and name were copied. A collection has `count` elements; a string is written
    /// by [`Writer::string`] or [`Writer::string_in_parts`].
    ///
    /// # Errors
    /// If the count is zero.
    pub fn key_copied(&mut self, kind: Kind, count: u64) -> Result<(), WriteError> {
        self.outside();
        let said = if kind == Kind::String { 1 } else { count };
        if said == 0 {
            return Err(WriteError::Count { said, given: 0 });
        }
        if kind != Kind::String {
            put_length(&mut self.buffer, said);
        }
        self.open = Some(Open { kind, said, given: 0, fields_expire: false, is_in_parts: false });
        Ok(())
    }

    /// Says that so many elements of the key were copied.
    pub fn elements_copied(&mut self, count: u64) {
        self.open.as_mut().expect("a key was begun").given += count;
    }

    /// Ends the dump, and returns its target, to which everything is written and not synced.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn finish(self) -> Result<W, WriteError> {
        self.finish_summed().map(|(target, _)| target)
    }

    /// The same, with the checksum that it ends with, if it has one.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn finish_summed(mut self) -> Result<(W, Option<u64>), WriteError> {
        self.outside();
        self.buffer.push(opcode::END);
        self.flush()?;
        let sum = self.sum.as_ref().map(Crc64::sum);
        self.target.write_all(&sum.unwrap_or(0).to_le_bytes())?;
        self.target.flush()?;
        Ok((self.target, sum))
    }

    /// Asserts that no key is open.
    fn outside(&self) {
        assert!(self.open.is_none(), "the key before has not ended");
    }

    /// Counts an element of the key that is open.
    fn element(&mut self, kind: Kind) -> Open {
        let open = self.open.as_mut().expect("a key was begun");
        assert_eq!(open.kind, kind, "what a key is given is of its kind");
        open.given += 1;
        *open
    }

    fn needs(&self, what: &'static str, at_least: Version) -> Result<(), WriteError> {
        self.version.check(what, at_least)
    }

    fn put_string(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        if bytes.len() >= PACKED_BYTES_MIN
            && let Some(packer) = &mut self.packer
        {
            self.packed.clear();
            if packer.compress(bytes, bytes.len() - SAVED_BYTES_MIN, &mut self.packed) {
                self.buffer.push(length::LZF);
                put_length(&mut self.buffer, self.packed.len() as u64);
                put_length(&mut self.buffer, bytes.len() as u64);
                let packed = std::mem::take(&mut self.packed);
                let written = self.put_bytes(&packed);
                self.packed = packed;
                return written;
            }
        }
        if put_as_integer(&mut self.buffer, bytes) {
            return self.flush_full();
        }
        put_length(&mut self.buffer, bytes.len() as u64);
        self.put_bytes(bytes)
    }

    /// Appends bytes; many go to the target as they are.
    fn put_bytes(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        if bytes.len() < BUFFER_BYTES {
            self.buffer.extend_from_slice(bytes);
            return self.flush_full();
        }
        self.flush()?;
        if let Some(sum) = &mut self.sum {
            sum.update(bytes);
        }
        self.target.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn flush_full(&mut self) -> Result<(), WriteError> {
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        if let Some(sum) = &mut self.sum {
            sum.update(&self.buffer);
        }
        self.target.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

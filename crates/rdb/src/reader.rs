//! The reader of dumps: a pull parser, one event at a time.
//!
//! ```text
//!   REDIS0012 │ (AUX, FUNCTION, … )* │ (DATABASE │ SIZES │ (times │ form │ key │ value)*)* │ END │ CRC64
//!             └──────────── opcodes ───────────┘            └── Key, elements, EndOfKey ──┘
//! ```
//!
//! Invariants: an event is reported only when the bytes that it is made of are what the format allows;
//! a value that is one blob is verified as a whole before its key is reported. Whether all bytes are
//! those that were written is known at [`Event::End`] only.

use std::io::{Cursor, Read};

use crate::Limits;
use crate::error::Error;
use crate::event::{Checksum, Event, Key, Kind};
use crate::form::{self, Numbered, opcode};
use crate::input::{Input, Text, clear};
use crate::skip;
use crate::value::{Begun, Element, ValueReader};
use crate::version::Version;

/// Reads a dump from its first byte on.
///
/// It holds one string or packed blob at a time, packed and unpacked, next to the name of its key and
/// of its field, each at most as long as [`Limits`] allow, and, where a dump has templates of hashes
/// (Redis 8.10), these. It never takes more memory than it has read or unpacked.
///
/// A member, field or key that stands twice in a dump is reported twice: telling needs all of them in
/// memory. The caller has to notice, as Redis does when it loads.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    version: Version,
    /// Whether the source ends with the dump.
    is_whole: bool,
    phase: Phase,
    /// What was said of the next key.
    coming: Coming,
    values: ValueReader,
    /// The name of a key or AUX field, or a library of functions.
    name: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// An opcode or a form is next.
    Opcode,
    /// The elements of a value are next.
    Value,
    Ended(Checksum),
}

/// What stands before the form of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Coming {
    expires_at_ms: Option<i64>,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

/// What was found where an opcode or a form stands.
enum Found {
    Aux {
        value: Text,
    },
    Database(u32),
    Sizes {
        keys: u64,
        expiring: u64,
    },
    Function(Text),
    /// Of a release candidate, brought into today's shape in `name`.
    OldFunction,
    Key {
        kind: Kind,
        count: Option<u64>,
        coming: Coming,
    },
    Empty(Kind),
    Foreign(&'static str),
    Ignored(&'static str),
    End(Checksum),
}

impl<R: Read> Reader<R> {
    /// Begins a dump that ends where its source ends: bytes behind its end are damage.
    ///
    /// # Errors
    /// If the source cannot be read, or does not begin with a version that is read.
    pub fn new(source: R, limits: Limits) -> Result<Self, Error> {
        Self::begin(source, limits, true)
    }

    /// Begins a dump that something else follows in its source: [`Reader::into_rest`].
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn embedded(source: R, limits: Limits) -> Result<Self, Error> {
        Self::begin(source, limits, false)
    }

    fn begin(source: R, limits: Limits, is_whole: bool) -> Result<Self, Error> {
        let mut input = Input::of_file(source, limits);
        let magic = input.array()?;
        let version = Version::of_magic(&magic).ok_or(Error::Version(magic))?;
        Ok(Self {
            input,
            version,
            is_whole,
            phase: Phase::Opcode,
            coming: Coming::default(),
            values: ValueReader::default(),
            name: Vec::new(),
        })
    }

    /// The version of the dump.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the value of the key that was reported last is a hash of a form whose fields may expire.
    pub fn has_times(&self) -> bool {
        self.values.has_times()
    }

    /// How many bytes of the dump were read.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Returns the source from where reading stopped: after [`Event::End`], what follows the dump.
    pub fn into_rest(self) -> std::io::Chain<Cursor<Vec<u8>>, R> {
        let (fetched, source) = self.input.into_rest();
        Cursor::new(fetched).chain(source)
    }

    /// Returns what comes next. Its bytes are good until the next call; after [`Event::End`] it is
    /// always that.
    ///
    /// # Errors
    /// If the dump is damaged, has a string longer than the limit, or cannot be read. After an error
    /// there is nothing more to be read from it.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its items")]
    pub fn next(&mut self) -> Result<Event<'_>, Error> {
        match self.phase {
            Phase::Value => match self.values.next(&mut self.input)? {
                Some(element) => Ok(self.element(element)),
                None => {
                    self.phase = Phase::Opcode;
                    Ok(Event::EndOfKey)
                }
            },
            Phase::Opcode => {
                let found = self.opcode()?;
                Ok(self.event(found))
            }
            Phase::Ended(checksum) => Ok(Event::End { checksum }),
        }
    }

    fn element(&self, element: Element) -> Event<'_> {
        let first = self.values.first(&self.input);
        match element {
            Element::String => Event::String(first),
            Element::Item => Event::Item(first),
            Element::Member => Event::Member(first),
            Element::Scored(score) => Event::Scored(first, score),
            Element::Field(expires_at_ms) => {
                Event::Field { name: first, value: self.values.second(&self.input), expires_at_ms }
            }
            Element::Entry(id) => Event::Entry(id),
            Element::Pair => Event::Pair(first, self.values.second(&self.input)),
            Element::Numbers(numbers) => Event::Numbers(numbers),
            Element::Group(last_id, entries_read) => {
                Event::Group { name: first, last_id, entries_read }
            }
            Element::Pending(pending) => Event::Pending(pending),
            Element::Consumer(seen_ms, active_ms) => {
                Event::Consumer { name: first, seen_ms, active_ms }
            }
            Element::Held(id) => Event::Held(id),
        }
    }

    fn event(&self, found: Found) -> Event<'_> {
        match found {
            Found::Aux { value } => Event::Aux { name: &self.name, value: self.input.bytes(value) },
            Found::Database(index) => Event::Database(index),
            Found::Sizes { keys, expiring } => Event::Sizes { keys, expiring },
            Found::Function(code) => Event::Function(self.input.bytes(code)),
            Found::OldFunction => Event::Function(&self.name),
            Found::Key { kind, count, coming: Coming { expires_at_ms, idle_s, frequency } } => {
                Event::Key(Key { key: &self.name, kind, count, expires_at_ms, idle_s, frequency })
            }
            Found::Empty(kind) => Event::Empty { key: &self.name, kind },
            Found::Foreign(what) => Event::Foreign { key: &self.name, what },
            Found::Ignored(what) => Event::Ignored { what },
            Found::End(checksum) => Event::End { checksum },
        }
    }

    /// Reads on until there is something to report.
    fn opcode(&mut self) -> Result<Found, Error> {
        loop {
            match self.input.byte()? {
                opcode::EXPIRES_MS => {
                    // Redis takes -1 for never.
                    let at_ms = i64::from_le_bytes(self.input.array()?);
                    self.coming.expires_at_ms = Some(at_ms).filter(|at_ms| *at_ms != -1);
                }
                opcode::EXPIRES_S => {
                    let at_s = i32::from_le_bytes(self.input.array()?);
                    self.coming.expires_at_ms = Some(i64::from(at_s) * 1000);
                }
                opcode::IDLE => self.coming.idle_s = Some(self.input.length()?),
                opcode::FREQUENCY => self.coming.frequency = Some(self.input.byte()?),
                opcode::HASH_TEMPLATE if matches!(self.version, Version::Redis(_)) => {
                    self.values.read_template(&mut self.input)?;
                }
                opcode::AUX => {
                    self.read_name()?;
                    return Ok(Found::Aux { value: self.input.string()? });
                }
                opcode::DATABASE => {
                    let index = u32::try_from(self.input.length()?);
                    let index = index
                        .map_err(|_| self.input.corrupt("a database has a number that none has"))?;
                    return Ok(Found::Database(index));
                }
                opcode::SIZES => {
                    let (keys, expiring) = (self.input.length()?, self.input.length()?);
                    return Ok(Found::Sizes { keys, expiring });
                }
                opcode::FUNCTION => return Ok(Found::Function(self.input.string()?)),
                opcode::FUNCTION_PRE_GA => return self.old_function(),
                opcode::SLOT_INFO => {
                    skip::slot_info(&mut self.input)?;
                    return Ok(Found::Ignored("sizes of a slot"));
                }
                opcode::MODULE_AUX => {
                    skip::module_aux(&mut self.input)?;
                    return Ok(Found::Ignored("data of a module"));
                }
                opcode::KEY_METADATA => return self.metadata(),
                opcode::END => return self.end(),
                number => return self.key(number),
            }
        }
    }

    /// What Redis and Valkey write under the same number.
    fn metadata(&mut self) -> Result<Found, Error> {
        match self.version {
            Version::Redis(_) => {
                skip::key_metadata(&mut self.input)?;
                Ok(Found::Ignored("a module's metadata of a key"))
            }
            Version::Valkey(_) => {
                skip::slot_import(&mut self.input)?;
                Ok(Found::Ignored("an import of slots"))
            }
        }
    }

    fn key(&mut self, number: u8) -> Result<Found, Error> {
        let Some(numbered) = form::of(number, self.version) else {
            return Err(self.input.corrupt("no form of a value that this version has is there; another program may have written it"));
        };
        self.read_name()?;
        let coming = std::mem::take(&mut self.coming);
        match numbered {
            Numbered::Foreign(foreign) => {
                skip::value(&mut self.input, foreign)?;
                Ok(Found::Foreign(foreign.name()))
            }
            Numbered::Value(form) => {
                let kind = form.kind();
                match self.values.begin(&mut self.input, form)? {
                    Begun::Empty => Ok(Found::Empty(kind)),
                    Begun::Value { count } => {
                        self.phase = Phase::Value;
                        Ok(Found::Key { kind, count, coming })
                    }
                }
            }
        }
    }

    fn read_name(&mut self) -> Result<(), Error> {
        clear(&mut self.name);
        self.append_name()
    }

    fn append_name(&mut self) -> Result<(), Error> {
        let name = self.input.string()?;
        self.name.extend_from_slice(self.input.bytes(name));
        Ok(())
    }

    /// A library as Redis 7.0's release candidates wrote it: its name, its engine, a description or
    /// none, and its code, which lacks the line that names the first two.
    fn old_function(&mut self) -> Result<Found, Error> {
        self.read_name()?;
        let name = self.name.clone();
        clear(&mut self.name);
        self.name.extend_from_slice(b"#!");
        self.append_name()?;
        self.name.extend_from_slice(b" name=");
        self.name.extend_from_slice(&name);
        self.name.push(b'\n');
        match self.input.length()? {
            0 => {}
            1 => self.input.skip_string()?,
            _ => {
                return Err(self
                    .input
                    .corrupt("a library has a description of no kind that there is"));
            }
        }
        self.append_name()?;
        let (bytes, bytes_max) = (self.name.len() as u64, self.input.string_bytes_max());
        if bytes > bytes_max {
            return Err(Error::TooLong { offset: self.input.offset(), bytes, bytes_max });
        }
        Ok(Found::OldFunction)
    }

    fn end(&mut self) -> Result<Found, Error> {
        let mut checksum = Checksum::Absent;
        if self.version.has_checksum() {
            let sum = self.input.sum();
            let written = u64::from_le_bytes(self.input.array()?);
            if written != 0 {
                if sum != Some(written) {
                    return Err(self.input.corrupt("its bytes do not add up to its checksum"));
                }
                checksum = Checksum::Right;
            }
        }
        if self.is_whole && !self.input.is_at_end()? {
            return Err(self.input.corrupt("it goes on behind its end mark"));
        }
        self.phase = Phase::Ended(checksum);
        Ok(Found::End(checksum))
    }
}

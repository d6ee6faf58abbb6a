//! Strings: inline in the key's entry while they are small, an object in chunks when large.
//!
//! A large string is one piece of memory, but its log is by chunks of 4 KiB: a change of some
//! bytes logs the chunks that it touched. So SETBIT on a megabyte logs 4 KiB.
//!
//! # Invariants
//! - A string of more than [`CHUNK_BYTES`] is an object, a shorter one only if it was cut.
//! - How a large one is kept is known to `large` alone.

mod large;

use base::{DbIndex, Record};

use crate::access;
use crate::entry::{Entry, Kind, Payload};
use crate::keyspace::Keyspace;
use crate::object::{Body, Object};
use crate::recorder::Recorder;
use crate::value_type::{Type, WrongType, entry_type};

pub(crate) use large::LargeString;

/// The size of a chunk, in bytes; strings up to it are inline.
pub const CHUNK_BYTES: usize = 4096;

/// The longest string that Redis calls `embstr`, in bytes.
const EMBSTR_BYTES_MAX: usize = 44;

/// What becomes of a key's expiry when its value is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// The key does not expire any more.
    Clear,
    /// As it was.
    Keep,
    /// At this Unix time in milliseconds.
    At(i64),
}

/// A string, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringRef<'a> {
    /// Its bytes.
    Bytes(&'a [u8]),
    /// It is the decimal form of this number.
    Int(i64),
}

impl<'a> StringRef<'a> {
    /// The bytes; `digits` holds those of a number.
    #[must_use]
    pub fn as_bytes<'b>(self, digits: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Int(value) => digits.format(value).as_bytes(),
        }
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.as_bytes(&mut itoa::Buffer::new()).len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::Bytes(&[])
    }

    /// The number that the string is the decimal form of.
    #[must_use]
    pub fn as_int(self) -> Option<i64> {
        match self {
            Self::Bytes(bytes) => parse_int(bytes),
            Self::Int(value) => Some(value),
        }
    }
}

/// The number whose decimal form, exactly as it would be written, the bytes are.
#[must_use]
pub fn parse_int(bytes: &[u8]) -> Option<i64> {
    let digits = match bytes {
        b"0" => return Some(0),
        [b'-', rest @ ..] => rest,
        all => all,
    };
    if digits.len() > 19 || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// How a string that is set as a whole is kept, as far as OBJECT ENCODING tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As SET keeps it: a number as one.
    Compact,
    /// Never as a number: what INCRBYFLOAT makes.
    Text,
    /// As bytes that may change in place: what BITOP makes.
    Raw,
}

impl Form {
    /// The number that `value` is kept as.
    fn number(self, value: &[u8]) -> Option<i64> {
        if self == Self::Compact { parse_int(value) } else { None }
    }

    fn kind(self) -> Kind {
        if self == Self::Raw { Kind::StrRaw } else { Kind::Str }
    }
}

/// The string that an entry of the type holds.
pub(crate) fn string_of(entry: &Entry) -> Option<StringRef<'_>> {
    match entry.payload() {
        Payload::Str(bytes) => Some(StringRef::Bytes(bytes)),
        Payload::Int(value) => Some(StringRef::Int(value)),
        Payload::Object(Object { body: Body::String(string), .. }) => {
            Some(StringRef::Bytes(string.bytes()))
        }
        Payload::Packed(..) | Payload::Object(_) => None,
    }
}

/// The encoding that OBJECT ENCODING names for an inline string.
pub(crate) fn inline_encoding(entry: &Entry) -> &'static str {
    match (entry.kind(), entry.payload()) {
        (Kind::Int, _) => "int",
        (Kind::Str, Payload::Str(bytes)) if bytes.len() <= EMBSTR_BYTES_MAX => "embstr",
        _ => "raw",
    }
}

/// An entry for a string that was set as a whole; a large one's chunks are logged, the key not.
fn new_entry(key: &[u8], value: &[u8], form: Form, recorder: &mut Recorder) -> Entry {
    if let Some(number) = form.number(value) {
        Entry::with_int(key, number)
    } else if value.len() <= CHUNK_BYTES {
        Entry::with_bytes(key, form.kind(), value)
    } else {
        Entry::with_object(key, Box::new(new_object(value.to_vec(), recorder)))
    }
}

fn new_object(bytes: Vec<u8>, recorder: &mut Recorder) -> Object {
    let id = recorder.new_object_id();
    let string = LargeString::new(id, recorder, bytes);
    let mut object = Object::new(id, Body::String(string));
    object.changed_at = recorder.open_lsn();
    object
}

impl Keyspace {
    /// A string, to be read.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    pub fn string(&mut self, db: DbIndex, key: &[u8]) -> Result<Option<StringRef<'_>>, WrongType> {
        match self.lookup(db, key) {
            None => Ok(None),
            Some(entry) => string_of(entry).map(Some).ok_or(WrongType),
        }
    }

    /// A string that is about to be changed: this does not count as a read.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    pub fn string_to_change(
        &mut self,
        db: DbIndex,
        key: &[u8],
    ) -> Result<Option<StringRef<'_>>, WrongType> {
        match self.peek(db, key) {
            None => Ok(None),
            Some(entry) => string_of(entry).map(Some).ok_or(WrongType),
        }
    }

    /// Sets a key to a string, whatever it held. Whether the key was there.
    pub fn set_string(&mut self, db: DbIndex, key: &[u8], value: &[u8], expiry: Expiry) -> bool {
        self.set_string_as(Form::Compact, db, key, value, expiry)
    }

    /// Sets a key to a string that is kept in a given form. Whether the key was there.
    pub fn set_string_as(
        &mut self,
        form: Form,
        db: DbIndex,
        key: &[u8],
        value: &[u8],
        expiry: Expiry,
    ) -> bool {
        let hash = self.hash_of(key);
        let found = self.locate_name(db, hash, key);
        let Some(place) = found else {
            let mut entry = new_entry(key, value, form, &mut self.recorder);
            entry.set_access(access::fresh(self.settings(), self.now_ms()));
            let expires_at_ms = if let Expiry::At(at) = expiry { Some(at) } else { None };
            self.insert_logged(db, key, entry, expires_at_ms);
            return false;
        };
        let old = self.dbs[db].take_value(&mut self.walk, place, hash);
        let entry = self.dbs[db].change(&mut self.walk, place, hash);
        if let Some(number) = form.number(value) {
            entry.replace_int(number);
        } else if value.len() <= CHUNK_BYTES {
            entry.replace_bytes(form.kind(), value);
        } else {
            entry.replace_object(Box::new(new_object(value.to_vec(), &mut self.recorder)));
        }
        match expiry {
            Expiry::Keep => {}
            Expiry::Clear => self.dbs[db].set_expiry(&mut self.walk, place, hash, None),
            Expiry::At(at) => self.dbs[db].set_expiry(&mut self.walk, place, hash, Some(at)),
        }
        self.mark_used(db, place);
        self.mark_changed(db, place);
        self.log_key(db, place);
        self.free.value(&mut self.recorder, old);
        self.modified(db, key);
        true
    }

    /// Makes a string `len` bytes long at least, zeros at its end, and lets `change` change the
    /// bytes of `range`. A key that is not there is created. Returns the new length.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    ///
    /// # Panics
    /// When `range` ends past `len` and past the string.
    pub fn change_string(
        &mut self,
        db: DbIndex,
        key: &[u8],
        len: usize,
        range: std::ops::Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<usize, WrongType> {
        let hash = self.hash_of(key);
        let Some(place) = self.locate_name(db, hash, key) else {
            let mut bytes = vec![0; len];
            change(&mut bytes[range]);
            let mut entry = if len <= CHUNK_BYTES {
                Entry::with_bytes(key, Kind::StrRaw, &bytes)
            } else {
                Entry::with_object(key, Box::new(new_object(bytes, &mut self.recorder)))
            };
            entry.set_access(access::fresh(self.settings(), self.now_ms()));
            self.insert_logged(db, key, entry, None);
            return Ok(len);
        };
        let entry = self.dbs[db].keys().at(place);
        if entry_type(entry) != Type::String {
            self.note_read(db, place);
            return Err(WrongType);
        }
        if self.with_value(db, place).is_none() {
            // It is there, and cannot be read: nothing is made in its place.
            return Ok(0);
        }
        self.mark_used(db, place);
        self.mark_changed(db, place);
        let entry = self.dbs[db].change(&mut self.walk, place, hash);
        let (len, log_key) = if entry.object().is_some() {
            change_large(entry, &mut self.recorder, len, range, change)
        } else {
            let len = change_inline(entry, &mut self.recorder, &mut self.scratch, len, |bytes| {
                change(&mut bytes[range]);
            });
            (len, true)
        };
        if self.walk.is_some() {
            self.note_walked(db, place);
        }
        if log_key {
            self.log_key(db, place);
        }
        self.modified(db, key);
        Ok(len)
    }
}

impl Keyspace {
    /// Keeps a string from now on as bytes that may change in place, as a command that could have
    /// changed it leaves it in Redis: it has used it. Its value and its record are as they were.
    pub fn make_raw(&mut self, db: DbIndex, key: &[u8]) {
        let hash = self.hash_of(key);
        let Some(place) = self.locate(db, hash, key) else { return };
        self.mark_used(db, place);
        let Self { dbs, scratch, walk, .. } = self;
        let entry = dbs[db].change(walk, place, hash);
        let is_inline = matches!(entry.kind(), Kind::Str | Kind::Int);
        if let Some(string) = string_of(entry).filter(|_| is_inline) {
            scratch.clear();
            scratch.extend_from_slice(string.as_bytes(&mut itoa::Buffer::new()));
            entry.replace_bytes(Kind::StrRaw, scratch);
        }
    }
}

/// Changes an inline string, which becomes an object when it grows too large. Returns its length.
fn change_inline(
    entry: &mut Entry,
    recorder: &mut Recorder,
    scratch: &mut Vec<u8>,
    len: usize,
    change: impl FnOnce(&mut [u8]),
) -> usize {
    let old = string_of(entry).expect("the type was checked");
    scratch.clear();
    scratch.extend_from_slice(old.as_bytes(&mut itoa::Buffer::new()));
    scratch.resize(len.max(scratch.len()), 0);
    change(scratch);
    let len = scratch.len();
    if len <= CHUNK_BYTES {
        entry.replace_bytes(Kind::StrRaw, scratch);
    } else {
        entry.replace_object(Box::new(new_object(std::mem::take(scratch), recorder)));
    }
    len
}

/// Changes a large string. Returns its length, and whether that is new (the root then needs to
/// be logged).
fn change_large(
    entry: &mut Entry,
    recorder: &mut Recorder,
    len: usize,
    range: std::ops::Range<usize>,
    change: impl FnOnce(&mut [u8]),
) -> (usize, bool) {
    let object = entry.object_mut().expect("the caller saw one");
    object.changed_at = recorder.open_lsn();
    let id = object.id();
    let Body::String(string) = &mut object.body else {
        unreachable!("the type was checked at lookup")
    };
    let old_len = string.bytes().len();
    let len = string.change(id, recorder, len, range, change);
    (len, len != old_len)
}

/// The entry that a `String` record restores.
pub(crate) fn entry_of(record: &Record<'_>) -> Entry {
    match parse_int(record.value) {
        Some(number) => Entry::with_int(record.key, number),
        None => Entry::with_bytes(record.key, Kind::Str, record.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_decimals_are_numbers() {
        for (text, number) in [
            ("0", Some(0)),
            ("-0", None),
            ("01", None),
            ("+1", None),
            ("", None),
            ("-", None),
            (" 1", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("12a", None),
        ] {
            assert_eq!(parse_int(text.as_bytes()), number, "{text}");
        }
    }
}

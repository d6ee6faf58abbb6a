//! What is stored under a key: a string, or a hash of fields; each value says whose it is.
//!
//! ```text
//!   key:000000000007   VERSION(10) KEY(12) filler     one value of a string, or of each field
//! ```

use std::fmt::Write as _;
use std::io::Write as _;

use super::reply::{Reply, strings};

/// The bytes of a value before the filler.
const HEAD_BYTES: usize = 24;
/// The bytes that fillers are cut from. They do not compress, so a file that is compressed is not smaller.
const FILLER_BYTES: usize = 1 << 16;

/// See the file's top.
pub(super) struct Records {
    /// 0: strings.
    fields: usize,
    /// Of a string, or a field.
    value_bytes: usize,
    filler: String,
    value: String,
}

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The record, in this version.
    Version(u32),
    /// No such key.
    Missing,
    /// Something that was never written under this key.
    Wrong,
}

impl Records {
    /// Records of `value_bytes` in all.
    pub(super) fn new(fields: usize, value_bytes: usize) -> Result<Self, String> {
        let value_bytes = value_bytes / fields.max(1);
        if !(HEAD_BYTES..=FILLER_BYTES).contains(&value_bytes) {
            return Err(format!("a value has from {HEAD_BYTES} to {FILLER_BYTES} bytes"));
        }
        let mut random = fastrand::Rng::with_seed(1);
        let filler = (0..2 * FILLER_BYTES).map(|_| random.alphanumeric()).collect();
        Ok(Self { fields, value_bytes, filler, value: String::new() })
    }

    /// Whether a record is one value, and so has one version.
    pub(super) fn is_string(&self) -> bool {
        self.fields == 0
    }

    fn make_value(&mut self, key: u64, version: u32) {
        self.value.clear();
        write!(self.value, "{version:010} {key:012} ").expect("a string takes everything");
        let at = key.wrapping_mul(31).wrapping_add(u64::from(version).wrapping_mul(7919));
        let at = usize::try_from(at % FILLER_BYTES as u64).expect("less than the filler");
        self.value.push_str(&self.filler[at..at + self.value_bytes - HEAD_BYTES]);
    }

    /// Appends a request that writes the whole record.
    pub(super) fn create(&mut self, out: &mut Vec<u8>, key: u64, version: u32) {
        self.make_value(key, version);
        if self.fields == 0 {
            request(out, &["SET", &name(key), &self.value]);
            return;
        }
        let fields: Vec<String> = (0..self.fields).map(field).collect();
        let key = name(key);
        let mut words = vec!["HSET", &key];
        fields.iter().for_each(|field| words.extend([field.as_str(), self.value.as_str()]));
        request(out, &words);
    }

    /// Appends a request that writes the string anew, or one field of the hash.
    pub(super) fn update(&mut self, out: &mut Vec<u8>, key: u64, version: u32, any: usize) {
        self.make_value(key, version);
        match self.fields {
            0 => request(out, &["SET", &name(key), &self.value]),
            fields => request(out, &["HSET", &name(key), &field(any % fields), &self.value]),
        }
    }

    /// Appends a request that reads all of a record.
    pub(super) fn read(&self, out: &mut Vec<u8>, key: u64) {
        request(out, &[if self.is_string() { "GET" } else { "HGETALL" }, &name(key)]);
    }

    /// Judges the reply to [`Records::read`], which is no error.
    pub(super) fn found(&self, reply: Reply<'_>, key: u64) -> Found {
        let bytes = match reply {
            Reply::Missing => return Found::Missing,
            Reply::Error(_) => return Found::Wrong,
            Reply::Other(bytes) => bytes,
        };
        let found = strings(bytes);
        let values: Vec<&[u8]> = match self.fields {
            0 => found,
            _ => found.chunks_exact(2).map(|pair| pair[1]).collect(),
        };
        let versions = values.iter().map(|value| self.version(value, key));
        match versions.collect::<Option<Vec<u32>>>() {
            Some(versions) if versions.len() == self.fields.max(1) => {
                Found::Version(versions.into_iter().max().unwrap_or_default())
            }
            _ => Found::Wrong,
        }
    }

    /// Returns the version that a value of `key` says.
    fn version(&self, value: &[u8], key: u64) -> Option<u32> {
        let number = |from: usize, to: usize| {
            std::str::from_utf8(value.get(from..to)?).ok()?.parse::<u64>().ok()
        };
        let is_its = value.len() == self.value_bytes && number(11, 23) == Some(key);
        is_its.then(|| number(0, 10).and_then(|version| u32::try_from(version).ok())).flatten()
    }
}

/// The name of a key: 16 bytes.
pub(super) fn name(key: u64) -> String {
    format!("key:{key:012}")
}

fn field(number: usize) -> String {
    format!("field{number}")
}

fn request(out: &mut Vec<u8>, words: &[&str]) {
    write!(out, "*{}\r\n", words.len()).expect("memory takes everything");
    for word in words {
        write!(out, "${}\r\n{word}\r\n", word.len()).expect("memory takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_its_key_and_version() {
        let mut strings = Records::new(0, 100).unwrap();
        strings.make_value(7, 3);
        let reply = format!("$100\r\n{}\r\n", strings.value);
        assert_eq!(strings.found(Reply::of(reply.as_bytes()), 7), Found::Version(3));
        assert_eq!(strings.found(Reply::of(reply.as_bytes()), 8), Found::Wrong);
        assert_eq!(strings.found(Reply::of(b"$3\r\nabc\r\n"), 7), Found::Wrong);
        assert_eq!(strings.found(Reply::Missing, 7), Found::Missing);
    }

    #[test]
    fn a_hash_has_the_newest_version_of_its_fields() {
        let mut hashes = Records::new(2, 100).unwrap();
        hashes.make_value(7, 1);
        let old = hashes.value.clone();
        hashes.make_value(7, 4);
        let pair = |field, value: &str| format!("$6\r\n{field}\r\n${}\r\n{value}\r\n", value.len());
        let both = pair("field0", &old) + &pair("field1", &hashes.value);
        let reply = format!("*4\r\n{both}");
        assert_eq!(hashes.found(Reply::of(reply.as_bytes()), 7), Found::Version(4));
        let half = format!("*2\r\n{}", pair("field0", &old));
        assert_eq!(hashes.found(Reply::of(half.as_bytes()), 7), Found::Wrong);
    }
}

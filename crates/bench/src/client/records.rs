//! What is stored under a key: a string, or a hash of fields; each value says whose it is. And the index of
//! YCSB's binding for Redis: a sorted set of all names, by Java's hash of the name that YCSB gives the record. Its names have
//! hashes of numbers, so that records next to each other in the index are not those that were written one after the other.
//!
//! ```text
//!   key:000000000007   VERSION(10) KEY(12) filler     one value of a string, or of each field
//!   _indices           key:000000000007 …
//! ```

use super::keys::fnv;
use super::reply::{Reply, strings};

/// The bytes of a value before the filler.
const HEAD_BYTES: usize = 24;
/// The bytes that fillers are cut from. They do not compress, so a file that is compressed is not smaller.
const FILLER_BYTES: usize = 1 << 16;
/// The sorted set of all names.
const INDEX: &[u8] = b"_indices";
/// What a name begins with.
const PREFIX: &[u8] = b"key:";
/// The digits of a number in a name.
const DIGITS: usize = 12;

/// See the file's top.
pub(super) struct Records {
    /// 0: strings.
    fields: usize,
    /// Of a string, or a field.
    value_bytes: usize,
    filler: Vec<u8>,
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
        let mut letter = || u8::try_from(random.alphanumeric()).expect("they are ASCII");
        let filler = (0..2 * FILLER_BYTES).map(|_| letter()).collect();
        Ok(Self { fields, value_bytes, filler })
    }

    /// Whether a record is one value, and so has one version.
    pub(super) fn is_string(&self) -> bool {
        self.fields == 0
    }

    /// Appends a value as a word of a request.
    fn value(&self, out: &mut Vec<u8>, key: u64, version: u32) {
        length(out, self.value_bytes);
        decimal(out, u64::from(version), 10);
        out.push(b' ');
        decimal(out, key, DIGITS);
        out.push(b' ');
        let at = key.wrapping_mul(31).wrapping_add(u64::from(version).wrapping_mul(7919));
        let at = usize::try_from(at % FILLER_BYTES as u64).expect("less than the filler");
        out.extend_from_slice(&self.filler[at..at + self.value_bytes - HEAD_BYTES]);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends a request that writes the whole record.
    pub(super) fn create(&self, out: &mut Vec<u8>, key: u64, version: u32) {
        if self.fields == 0 {
            return self.set(out, key, version);
        }
        request(out, 2 + 2 * self.fields, &[b"HSET"]);
        name_word(out, key);
        for number in 0..self.fields {
            field(out, number);
            self.value(out, key, version);
        }
    }

    /// Appends a request that writes the string anew, or one field of the hash.
    pub(super) fn update(&self, out: &mut Vec<u8>, key: u64, version: u32, any: usize) {
        if self.fields == 0 {
            return self.set(out, key, version);
        }
        request(out, 4, &[b"HSET"]);
        name_word(out, key);
        field(out, any % self.fields);
        self.value(out, key, version);
    }

    fn set(&self, out: &mut Vec<u8>, key: u64, version: u32) {
        request(out, 3, &[b"SET"]);
        name_word(out, key);
        self.value(out, key, version);
    }

    /// Appends a request that reads all of a record.
    pub(super) fn read(&self, out: &mut Vec<u8>, key: u64) {
        request(out, 2, &[if self.is_string() { b"GET" } else { b"HGETALL" }]);
        name_word(out, key);
    }

    /// Judges the reply to [`Records::read`], which is no error.
    pub(super) fn found(&self, reply: Reply<'_>, key: u64) -> Found {
        let bytes = match reply {
            Reply::Missing => return Found::Missing,
            Reply::Error(_) => return Found::Wrong,
            Reply::Other(bytes) => bytes,
        };
        let found = strings(bytes);
        let values = found.iter().skip(usize::from(self.fields > 0));
        let versions = values.step_by(1 + usize::from(self.fields > 0));
        let versions = versions.map(|value| self.version(value, key));
        match versions.collect::<Option<Vec<u32>>>() {
            Some(versions) if versions.len() == self.fields.max(1) => {
                Found::Version(versions.into_iter().max().unwrap_or_default())
            }
            _ => Found::Wrong,
        }
    }

    /// Returns the version that a value of `key` says.
    fn version(&self, value: &[u8], key: u64) -> Option<u32> {
        let is_its = value.len() == self.value_bytes && number(value.get(11..23)?)? == key;
        is_its.then(|| u32::try_from(number(&value[..10])?).ok()).flatten()
    }
}

/// Appends a request that removes a record.
pub(super) fn remove(out: &mut Vec<u8>, key: u64) {
    request(out, 2, &[b"DEL"]);
    name_word(out, key);
}

/// Appends a request that adds a record to the index.
pub(super) fn index(out: &mut Vec<u8>, key: u64) {
    request(out, 4, &[b"ZADD", INDEX]);
    word(out, score(key).to_string().as_bytes());
    name_word(out, key);
}

/// Appends a request that takes a record out of the index.
pub(super) fn unindex(out: &mut Vec<u8>, key: u64) {
    request(out, 3, &[b"ZREM", INDEX]);
    name_word(out, key);
}

/// Appends a request for the names of `count` records of the index, from that of `key`.
pub(super) fn scan(out: &mut Vec<u8>, key: u64, count: u64) {
    request(out, 7, &[b"ZRANGEBYSCORE", INDEX]);
    word(out, score(key).to_string().as_bytes());
    word(out, b"+inf");
    word(out, b"LIMIT");
    word(out, b"0");
    word(out, count.to_string().as_bytes());
}

/// Returns the keys that the reply to [`scan`] names; `None` if it names anything else.
pub(super) fn scanned(reply: &[u8]) -> Option<Vec<u64>> {
    let key = |name: &[u8]| number(name.strip_prefix(PREFIX)?);
    strings(reply).into_iter().map(key).collect()
}

/// A record's place in the index: of the name that YCSB gives it.
fn score(key: u64) -> i32 {
    java_hash(format!("user{}", fnv(key)).as_bytes())
}

/// Java's `hashCode` of a string.
fn java_hash(name: &[u8]) -> i32 {
    name.iter().fold(0, |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(*byte)))
}

/// Appends the beginning of a request of `count` words: the first ones.
fn request(out: &mut Vec<u8>, count: usize, words: &[&[u8]]) {
    out.push(b'*');
    decimal(out, count as u64, 1);
    out.extend_from_slice(b"\r\n");
    words.iter().for_each(|it| word(out, it));
}

fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    length(out, bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn length(out: &mut Vec<u8>, bytes: usize) {
    out.push(b'$');
    decimal(out, bytes as u64, 1);
    out.extend_from_slice(b"\r\n");
}

fn name_word(out: &mut Vec<u8>, key: u64) {
    length(out, PREFIX.len() + DIGITS);
    out.extend_from_slice(PREFIX);
    decimal(out, key, DIGITS);
    out.extend_from_slice(b"\r\n");
}

fn field(out: &mut Vec<u8>, number: usize) {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    length(out, b"field".len() + digits);
    out.extend_from_slice(b"field");
    decimal(out, number as u64, 1);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number with `width` digits or more.
fn decimal(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}

/// Reads digits and nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    let add = |number: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    digits.iter().try_fold(0, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value as a reply.
    fn value(records: &Records, key: u64, version: u32) -> String {
        let mut out = Vec::new();
        records.value(&mut out, key, version);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_value_tells_its_key_and_version() {
        let strings = Records::new(0, 100).unwrap();
        let reply = value(&strings, 7, 3);
        assert!(reply.starts_with("$100\r\n0000000003 000000000007 "), "{reply}");
        assert_eq!(reply.len(), 108);
        assert_eq!(strings.found(Reply::of(reply.as_bytes()), 7), Found::Version(3));
        assert_eq!(strings.found(Reply::of(reply.as_bytes()), 8), Found::Wrong);
        assert_eq!(strings.found(Reply::of(b"$3\r\nabc\r\n"), 7), Found::Wrong);
        assert_eq!(strings.found(Reply::Missing, 7), Found::Missing);
    }

    #[test]
    fn a_hash_has_the_newest_version_of_its_fields() {
        let hashes = Records::new(2, 100).unwrap();
        let (old, new) = (value(&hashes, 7, 1), value(&hashes, 7, 4));
        let reply = format!("*4\r\n$6\r\nfield0\r\n{old}$6\r\nfield1\r\n{new}");
        assert_eq!(hashes.found(Reply::of(reply.as_bytes()), 7), Found::Version(4));
        let half = format!("*2\r\n$6\r\nfield0\r\n{old}");
        assert_eq!(hashes.found(Reply::of(half.as_bytes()), 7), Found::Wrong);
    }

    #[test]
    fn requests_are_what_the_binding_sends() {
        let records = Records::new(11, 330).unwrap();
        let text = |encode: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            encode(&mut out);
            let whole = String::from_utf8(out).unwrap();
            let mut parts = whole.split("\r\n");
            let count: usize = parts.next().unwrap()[1..].parse().unwrap();
            let parts: Vec<&str> = parts.collect();
            let pairs = parts.chunks_exact(2);
            assert_eq!(pairs.len(), count, "{whole}");
            assert!(pairs.clone().all(|pair| pair[0] == format!("${}", pair[1].len())), "{whole}");
            pairs.map(|pair| pair[1].split(' ').next().unwrap()).collect::<Vec<_>>().join(" ")
        };
        let name = "key:000000000012";
        assert_eq!(text(&|out| records.read(out, 12)), format!("HGETALL {name}"));
        let update = format!("HSET {name} field10 0000000009");
        assert_eq!(text(&|out| records.update(out, 12, 9, 21)), update);
        assert!(text(&|out| records.create(out, 12, 1)).ends_with(" field10 0000000001"));
        assert_eq!(text(&|out| remove(out, 12)), format!("DEL {name}"));
        assert_eq!(text(&|out| unindex(out, 12)), format!("ZREM _indices {name}"));
        // "user…".hashCode(), by hand: s[0] * 31^n + … + s[n], in 32 bits.
        let of_ycsb = format!("user{}", fnv(12));
        let sum = of_ycsb.bytes().fold(0_i64, |sum, byte| (sum * 31 + i64::from(byte)) % (1 << 32));
        let score = if sum < 1 << 31 { sum } else { sum - (1 << 32) };
        assert_eq!(text(&|out| index(out, 12)), format!("ZADD _indices {score} {name}"));
        let expected = format!("ZRANGEBYSCORE _indices {score} +inf LIMIT 0 5");
        assert_eq!(text(&|out| scan(out, 12, 5)), expected);
        assert_eq!(java_hash(b"hello"), 99_162_322);
        // Neighbours in the index were not written one after the other.
        let mut keys: Vec<u64> = (0..1000).collect();
        keys.sort_by_key(|key| super::score(*key));
        assert!(keys.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count() < 20);
    }

    #[test]
    fn a_scan_names_keys_of_ours() {
        let reply = b"*2\r\n$16\r\nkey:000000000007\r\n$16\r\nkey:000000000012\r\n";
        assert_eq!(scanned(reply), Some(vec![7, 12]));
        assert_eq!(scanned(b"*1\r\n$5\r\nother\r\n"), None);
    }
}

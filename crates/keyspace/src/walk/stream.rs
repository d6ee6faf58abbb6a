//! What a walk emits: a sequence of tokens, cut into chunks.
//!
//! ```text
//!   SMALL   kind · head · payload                    a key that is one entry, its payload as memory has it
//!   LARGE   type · head · count   (PART | NODE | ELEMENT)*   END            a key whose elements are entries
//!   FINISH  count of the keys     nothing follows
//!
//!   A hash that has, or had, fields that expire is flagged (MAY_EXPIRE) next to its type, and such a field (EXPIRES): it has its expiry behind its value.
//!
//!   head    index of the database · use (3 bytes) · expiry (8 bytes, if flagged) · name
//! ```
//!
//! Copying is all that the executor does: packed bytes and the nodes of lists are taken apart by
//! [`crate::walk::Decoder`], on the thread of the consumer.
//!
//! # Invariants
//! - A token lies in one chunk. A chunk is larger than asked for if a single token is.
//! - Between LARGE and END there is nothing of another key.

use std::collections::VecDeque;

use base::varint;

use crate::element::Element;
use crate::entry::{Entry, Payload};
use crate::table::Keyed;
use crate::value_type::Type;

pub(super) const SMALL: u8 = 1;
pub(super) const LARGE: u8 = 2;
pub(super) const PART: u8 = 3;
pub(super) const NODE: u8 = 4;
pub(super) const ELEMENT: u8 = 5;
pub(super) const END: u8 = 6;
pub(super) const FINISH: u8 = 7;
/// The flag of a SMALL or LARGE token whose key expires, and of an ELEMENT that does.
pub(super) const EXPIRES: u8 = 0x80;

/// The flag of the type of a LARGE token that has elements that expire, or had.
pub(super) const MAY_EXPIRE: u8 = 0x80;

/// The kind of a SMALL token that is a string.
pub(super) const BYTES: u8 = 0;
/// That of one that is a number, eight bytes in little-endian order.
pub(super) const NUMBER: u8 = 1;
/// The least of those that are packed; the next ones are those of the other types, as [`Type`] has them.
pub(super) const PACKED: u8 = 2;

/// More than the fixed parts of a token take.
const TOKEN_BYTES: usize = 48;
/// Looking at something that is not emitted costs about as much as emitting so many bytes.
const LOOK_COST: usize = 16;
/// The most bytes of a string in one token.
pub(crate) const PART_BYTES_MAX: usize = 1 << 16;

/// What is emitted of a key before its value.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) index: u32,
    pub(crate) key: &'a [u8],
    pub(crate) access: u32,
    pub(crate) expires_at_ms: Option<i64>,
}

impl<'a> Head<'a> {
    pub(crate) fn of(index: u32, entry: &'a Entry) -> Self {
        let (access, expires_at_ms) = (entry.access(), entry.expires_at_ms());
        Self { index, key: entry.key(), access, expires_at_ms }
    }

    fn flag(self) -> u8 {
        if self.expires_at_ms.is_some() { EXPIRES } else { 0 }
    }

    fn put(self, out: &mut Vec<u8>) {
        varint::put(out, u64::from(self.index));
        out.extend_from_slice(&self.access.to_le_bytes()[..3]);
        out.extend(self.expires_at_ms.iter().flat_map(|at_ms| at_ms.to_le_bytes()));
        varint::put_bytes(out, self.key);
    }
}

/// See the file's top.
pub(crate) struct Stream {
    open: Vec<u8>,
    ready: VecDeque<Vec<u8>>,
    ready_bytes: usize,
    chunk_bytes: usize,
    /// What was done so far, in bytes that were emitted, and what took as long.
    work: usize,
    /// The step ends when so much was done.
    work_max: usize,
    /// Nothing is kept: the walk is at most cleaning up.
    is_mute: bool,
}

impl Stream {
    pub(super) fn new(chunk_bytes: usize) -> Self {
        Self {
            open: Vec::new(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            chunk_bytes,
            work: 0,
            work_max: 0,
            is_mute: false,
        }
    }

    /// Begins a step that may do so much.
    pub(super) const fn begin_step(&mut self, bytes: usize) {
        (self.work, self.work_max) = (0, bytes);
    }

    /// How much the step may still do.
    pub(crate) const fn work_left(&self) -> usize {
        self.work_max.saturating_sub(self.work)
    }

    /// Whether the step has done what it may.
    pub(crate) const fn is_spent(&self) -> bool {
        self.work >= self.work_max
    }

    /// Notes that something was looked at that is not emitted.
    pub(crate) const fn note_look(&mut self) {
        self.work += LOOK_COST;
    }

    /// From now on nothing is kept.
    pub(super) fn mute(&mut self) {
        self.is_mute = true;
        (self.open, self.ready, self.ready_bytes) = (Vec::new(), VecDeque::new(), 0);
    }

    pub(super) const fn is_mute(&self) -> bool {
        self.is_mute
    }

    /// The bytes that wait for the consumer.
    pub(super) const fn bytes(&self) -> usize {
        self.ready_bytes + self.open.len()
    }

    /// A chunk that is full.
    pub(super) fn take_ready(&mut self) -> Option<Vec<u8>> {
        let chunk = self.ready.pop_front()?;
        self.ready_bytes -= chunk.len();
        Some(chunk)
    }

    /// Makes a chunk of what there is.
    pub(super) fn seal(&mut self) {
        if !self.open.is_empty() {
            self.ready_bytes += self.open.len();
            self.ready.push_back(std::mem::take(&mut self.open));
        }
    }

    /// Takes over whole keys that were emitted elsewhere.
    pub(super) fn append(&mut self, keys: &mut Self) {
        if keys.bytes() > 0 {
            self.seal();
            self.ready.append(&mut keys.ready);
            self.ready_bytes += std::mem::take(&mut keys.ready_bytes);
            self.open = std::mem::take(&mut keys.open);
        }
    }

    fn put(&mut self, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let bytes = bytes + TOKEN_BYTES;
        self.work += bytes;
        if self.is_mute {
            return;
        }
        if self.open.len() + bytes > self.chunk_bytes {
            self.seal();
        }
        if self.open.is_empty() {
            self.open.reserve(self.chunk_bytes.max(bytes));
        }
        write(&mut self.open);
    }

    /// A key that is one entry.
    pub(super) fn small(&mut self, head: Head<'_>, value_type: Type, payload: Payload<'_>) {
        let number;
        let (kind, bytes) = match payload {
            Payload::Str(bytes) => (BYTES, bytes),
            Payload::Int(value) => {
                number = value.to_le_bytes();
                (NUMBER, &number[..])
            }
            Payload::Packed(_, bytes) => (PACKED + value_type as u8, bytes),
            Payload::Object(_) => unreachable!("an object is not one entry"),
        };
        self.put(head.key.len() + bytes.len(), |out| {
            out.extend_from_slice(&[SMALL | head.flag(), kind]);
            head.put(out);
            varint::put_bytes(out, bytes);
        });
    }

    /// Begins a key whose elements follow, so many, or of a string so many bytes.
    pub(super) fn large(
        &mut self,
        head: Head<'_>,
        value_type: Type,
        has_expiring_fields: bool,
        count: u64,
    ) {
        let flag = if has_expiring_fields { MAY_EXPIRE } else { 0 };
        self.put(head.key.len(), |out| {
            out.extend_from_slice(&[LARGE | head.flag(), value_type as u8 | flag]);
            head.put(out);
            varint::put(out, count);
        });
    }

    /// The next bytes of a string.
    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.put(bytes.len(), |out| {
            out.push(PART);
            varint::put_bytes(out, bytes);
        });
    }

    /// The next items of a list, packed.
    pub(crate) fn node(&mut self, bytes: &[u8]) {
        self.put(bytes.len(), |out| {
            out.push(NODE);
            varint::put_bytes(out, bytes);
        });
    }

    /// An element of a hash, a set or a sorted set.
    pub(crate) fn element(&mut self, element: &Element) {
        let (name, value) = (element.name(), element.value());
        let Some(at_ms) = element.expires_at_ms() else { return self.named(name, value) };
        self.put(name.len() + value.len(), |out| {
            out.push(ELEMENT | EXPIRES);
            varint::put_bytes(out, name);
            varint::put_bytes(out, value);
            out.extend_from_slice(&at_ms.to_le_bytes());
        });
    }

    /// What has a record of its own, and a name.
    pub(crate) fn named(&mut self, name: &[u8], value: &[u8]) {
        self.put(name.len() + value.len(), |out| {
            out.push(ELEMENT);
            varint::put_bytes(out, name);
            varint::put_bytes(out, value);
        });
    }

    /// Ends a key that was begun.
    pub(super) fn end(&mut self) {
        self.put(0, |out| out.push(END));
    }

    /// Ends the walk, which has emitted so many keys if nothing went wrong.
    pub(super) fn finish(&mut self, keys: u64) {
        self.put(0, |out| {
            out.push(FINISH);
            varint::put(out, keys);
        });
        self.seal();
    }
}

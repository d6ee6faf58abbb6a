//! Entries without their values: what is left of a value that only the log has, or that is lost.

use base::{Lsn, ObjectId};

use super::{ACCESS_AT, BARE_BIT, Entry, Kind, Payload, RETURNED_FLAG, class};
use crate::object::Object;
use crate::value_type::Type;

/// What is left of a small value: its length.
pub(super) const TRACE_BYTES: usize = 2;
/// Of an object: its bytes, type, incarnation, and the block of its last change.
const OBJECT_TRACE_BYTES: usize = 25;
/// How much of an object is looked at to tell its bytes.
const TRACE_SAMPLES: usize = 16;

impl Entry {
    /// An entry whose value, of this type, is lost.
    pub(crate) fn lost(key: &[u8], value_type: Type) -> Self {
        let mut entry = Self::with_bytes(key, Kind::Str, &[]);
        entry.make_lost(value_type);
        entry
    }

    /// Drops the value, which nothing has then.
    pub(crate) fn make_lost(&mut self, value_type: Type) {
        match small_kind(value_type) {
            Some(kind) => {
                self.replace_bytes(Kind::Str, &[]);
                self.set_kind_code(kind as u32 | BARE_BIT);
            }
            None => {
                self.replace_bytes(Kind::Str, &[value_type as u8]);
                self.set_kind_code(Kind::Object as u32 | BARE_BIT);
            }
        }
    }

    /// Whether not even the log has the value.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_bare() && self.payload_len() < TRACE_BYTES
    }

    /// An entry whose value, of this type, only the log has; of a large one with its incarnation, and the block
    /// after which it has not changed. Its size is not known.
    pub(crate) fn bare(key: &[u8], value_type: Type, object: Option<(ObjectId, Lsn)>) -> Self {
        let (kind, trace) = match object {
            Some((id, changed_at)) => (Kind::Object, &trace_of(0, value_type, id, changed_at)[..]),
            None => (small_kind(value_type).expect("it is no object"), &[0; TRACE_BYTES][..]),
        };
        let mut entry = Self::with_bytes(key, Kind::Str, trace);
        entry.set_kind_code(kind as u32 | BARE_BIT);
        entry
    }

    /// Drops the value, which the log has. Returns it if it is large.
    pub(crate) fn make_bare(&mut self) -> Option<Box<Object>> {
        let (kind, len) = (self.kind(), self.payload_len());
        let object = self.take_object();
        match &object {
            Some(object) => {
                let bytes = object.allocated_bytes(TRACE_SAMPLES) as u64;
                let trace = trace_of(bytes, object.value_type(), object.id(), object.changed_at);
                self.replace_bytes(Kind::Str, &trace);
            }
            None => {
                let len = u16::try_from(len).unwrap_or(u16::MAX);
                self.replace_bytes(Kind::Str, &len.to_ne_bytes());
            }
        }
        self.set_kind_code(kind as u32 | BARE_BIT);
        object
    }

    /// The type and the incarnation of the object that is the value of a bare entry.
    pub(crate) fn bare_object(&self) -> Option<(Type, ObjectId)> {
        let is_object = self.kind_code() == Kind::Object as u32 | BARE_BIT && !self.is_lost();
        is_object.then(|| {
            let value_type = Type::ALL[usize::from(self.bytes()[8])];
            (value_type, ObjectId(self.trace_number(9)))
        })
    }

    /// The type of the value of a bare entry, if it is, or was, an object.
    pub(crate) fn bare_type(&self) -> Option<Type> {
        match *self.bytes() {
            _ if self.kind_code() != Kind::Object as u32 | BARE_BIT => None,
            [number] => Some(Type::ALL[usize::from(number)]),
            _ => self.bare_object().map(|(value_type, _)| value_type),
        }
    }

    /// The large value of a bare entry has not changed after this block, but for the end of a stream that memory may have.
    pub(crate) fn bare_changed_at(&self) -> Lsn {
        if self.bare_object().is_some() { Lsn(self.trace_number(17)) } else { Lsn::ZERO }
    }

    /// Sets [`Entry::bare_changed_at`]: of the end of a stream that memory has, or had, the log has what was changed up to this block.
    pub(crate) fn set_bare_changed_at(&mut self, lsn: Lsn) {
        if let Some((value_type, id)) = self.bare_object() {
            let trace = trace_of(self.bare_bytes(), value_type, id, lsn);
            let kind = self.kind_code();
            self.replace_bytes(Kind::Str, &trace);
            self.set_kind_code(kind);
        }
    }

    fn trace_number(&self, at: usize) -> u64 {
        let bytes = self.bytes()[at..].first_chunk().expect("a bare object leaves a trace");
        u64::from_ne_bytes(*bytes)
    }

    /// About how many bytes the value of a bare entry takes in memory.
    pub(crate) fn bare_bytes(&self) -> u64 {
        match *self.bytes() {
            [low, high] => u64::from(u16::from_ne_bytes([low, high])),
            ref trace => trace.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)),
        }
    }

    /// Puts the value of `from` in the place of the one that is missing, as it was kept before.
    pub(crate) fn fill(&mut self, mut from: Self) {
        let was_raw = self.value_kind() == Kind::StrRaw;
        match from.payload() {
            Payload::Str(bytes) => {
                self.replace_bytes(if was_raw { Kind::StrRaw } else { from.kind() }, bytes);
            }
            Payload::Int(value) if was_raw => {
                self.replace_bytes(Kind::StrRaw, itoa::Buffer::new().format(value).as_bytes());
            }
            Payload::Int(value) => self.replace_int(value),
            Payload::Packed(kind, bytes) => self.replace_bytes(kind, bytes),
            Payload::Object(_) => {
                self.replace_object(from.take_object().expect("the payload says so"));
            }
        }
        self.note_returned();
    }

    /// Notes that the value has come back.
    pub(crate) fn note_returned(&mut self) {
        let word = self.read_u32(ACCESS_AT);
        self.write_u32(ACCESS_AT, word | RETURNED_FLAG);
    }

    /// Whether the value has come back since this was asked last.
    pub(crate) fn take_returned(&mut self) -> bool {
        let word = self.read_u32(ACCESS_AT);
        self.write_u32(ACCESS_AT, word & !RETURNED_FLAG);
        word & RETURNED_FLAG != 0
    }

    /// How many bytes dropping the value gives back to the allocator; 0 for a large one.
    pub(crate) fn droppable_bytes(&self) -> usize {
        let apart = if self.is_apart() { class(self.payload_len()) } else { 0 };
        let (size, rest) = (self.layout().size(), self.payload_at());
        (class(size) + apart).saturating_sub(class(rest + TRACE_BYTES))
    }
}

/// What a bare entry keeps of an object.
fn trace_of(
    bytes: u64,
    value_type: Type,
    id: ObjectId,
    changed_at: Lsn,
) -> [u8; OBJECT_TRACE_BYTES] {
    let mut trace = [0; OBJECT_TRACE_BYTES];
    trace[..8].copy_from_slice(&bytes.to_ne_bytes());
    trace[8] = value_type as u8;
    trace[9..17].copy_from_slice(&id.0.to_ne_bytes());
    trace[17..].copy_from_slice(&changed_at.0.to_ne_bytes());
    trace
}

/// The kind of a value of this type that is not large; none for a type whose values always are.
const fn small_kind(value_type: Type) -> Option<Kind> {
    match value_type {
        Type::String => Some(Kind::Str),
        Type::List => Some(Kind::ListPacked),
        Type::Hash => Some(Kind::HashPacked),
        Type::Set => Some(Kind::SetPacked),
        Type::ZSet => Some(Kind::ZSetPacked),
        Type::Stream => None,
    }
}

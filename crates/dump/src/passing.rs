//! Hands keys to a target: those of one record, and large ones as they come out of the sorter.

use base::{DbId, ObjectId, Record, RecordAddr, RecordKind, varint};
use keyspace::stream::{StreamRecord, StreamRoot};
use keyspace::string::CHUNK_BYTES;
use keyspace::{Type, plain};

use crate::dumper::Figures;
use crate::error::{Error, Result};
use crate::objects::Merged;
use crate::order::Order;
use crate::target::{DumpedKey, Element, Noted, Target};

/// The root of an object, on its way through the sorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    kind: RecordKind,
    database: u32,
    expires_at_ms: Option<i64>,
    /// Of a string, how long it is.
    string_bytes: u64,
    /// How much of the record's value is kept: all of a stream's.
    value_bytes: u8,
    has_expiring_fields: bool,
}

/// The bit of the kind of an element, on its way through the sorter, that says that an expiry follows.
pub(crate) const EXPIRES: u8 = 0x40;

/// What [`Root::head`] takes.
const HEAD_BYTES: usize = 1 + 4 + 1 + 8 + 8 + 1 + 1;

/// What the address of a record takes in front of what is sorted of it.
const ADDRESS_BYTES: usize = 8;

impl Root {
    pub(crate) fn of(record: &Record<'_>, database: u32) -> Self {
        let (expires_at_ms, string_bytes) = (record.expires_at_ms, plain::string_bytes(record));
        let value_bytes = match record.kind {
            RecordKind::Stream => u8::try_from(record.value.len()).expect("numbers are short"),
            _ => 0,
        };
        let has_expiring_fields = record.has_expiring_fields();
        let kind = record.kind;
        Self { kind, database, expires_at_ms, string_bytes, value_bytes, has_expiring_fields }
    }

    /// What of the value goes between the head and the key.
    pub(crate) fn kept_value<'a>(&self, record: &Record<'a>) -> &'a [u8] {
        &record.value[..self.value_bytes.into()]
    }

    pub(crate) fn head(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[0] = self.kind as u8;
        head[1..5].copy_from_slice(&self.database.to_le_bytes());
        head[5] = self.expires_at_ms.is_some().into();
        head[6..14].copy_from_slice(&self.expires_at_ms.unwrap_or(0).to_le_bytes());
        head[14..22].copy_from_slice(&self.string_bytes.to_le_bytes());
        head[22] = self.value_bytes;
        head[23] = self.has_expiring_fields.into();
        head
    }

    /// Returns it, and the value and the key behind it.
    fn read(payload: &[u8]) -> (Self, &[u8], &[u8]) {
        let (head, rest) = payload.split_first_chunk::<HEAD_BYTES>().expect("as it was pushed");
        let number = |at: usize| *head[at..].first_chunk::<8>().expect("it is in the head");
        let expires_at_ms = (head[5] == 1).then(|| i64::from_le_bytes(number(6)));
        let root = Self {
            kind: RecordKind::from_u8(head[0]).expect("as it was pushed"),
            database: u32::from_le_bytes(*head[1..].first_chunk().expect("it is in the head")),
            expires_at_ms,
            string_bytes: u64::from_le_bytes(number(14)),
            value_bytes: head[22],
            has_expiring_fields: head[23] == 1,
        };
        let (value, key) = rest.split_at(root.value_bytes.into());
        (root, value, key)
    }
}

/// The key that is passed on.
#[derive(Debug, Clone, Copy)]
struct Open {
    object: ObjectId,
    value_type: Type,
    /// Elements, or bytes, that are still to come.
    left: u64,
    /// Of a string, how many bytes have come.
    at: u64,
}

/// What has the target.
pub(crate) struct Passing<T> {
    pub(crate) target: T,
    open: Option<Open>,
    /// Whether a collection without elements is no error.
    pub(crate) takes_empty: bool,
    pub(crate) figures: Figures,
}

impl<T: Target> Passing<T> {
    pub(crate) fn new(target: T) -> Self {
        Self { target, open: None, takes_empty: false, figures: Figures::default() }
    }

    /// A key that is one record.
    pub(crate) fn whole(
        &mut self,
        addr: RecordAddr,
        record: &Record<'_>,
        database: u32,
    ) -> Result<()> {
        self.note(Noted::Key(addr))?;
        let value_type = Type::of_record(record.kind).expect("only keys with values come here");
        let (key, expires_at_ms) = (record.key, record.expires_at_ms);
        let has_expiring_fields = record.has_expiring_fields();
        let begun = |count| DumpedKey {
            database,
            key,
            value_type,
            count,
            expires_at_ms,
            has_expiring_fields,
        };
        let Some(elements) = plain::elements(record) else {
            let count = record.value.len() as u64;
            self.begin(&begun(count))?;
            if count > 0 {
                self.element(Element::Part(record.value))?;
            }
            return self.end();
        };
        let arity = arity(value_type) + u64::from(has_expiring_fields);
        self.begin(&begun(elements.clone().count() as u64 / arity))?;
        self.packed(value_type, has_expiring_fields, elements)?;
        self.end()
    }

    /// Passes on packed elements.
    fn packed<'a>(
        &mut self,
        value_type: Type,
        has_expiring_fields: bool,
        mut elements: impl Iterator<Item = &'a [u8]>,
    ) -> Result<()> {
        while let Some(first) = elements.next() {
            let mut next = || elements.next().expect("their number was checked");
            self.element(match value_type {
                Type::String | Type::Stream => unreachable!("they are not packed"),
                Type::List => Element::Item(first),
                Type::Set => Element::Member(first),
                Type::Hash => {
                    let (value, expiry) = (next(), if has_expiring_fields { next() } else { &[] });
                    Element::Field(first, value, plain::expiry(expiry))
                }
                Type::ZSet => Element::Scored(first, score(next())),
            })?;
        }
        Ok(())
    }

    pub(crate) fn merged(&mut self, merged: &Merged<'_>) -> Result<()> {
        match *merged {
            Merged::Root { object, payload, weight } => self.root(object, payload, weight, 0),
            Merged::Element { order, payload } => self.element_of(order, payload),
            Merged::End => self.end_object(),
            Merged::Orphan(_) => {
                self.figures.orphans += 1;
                Ok(())
            }
        }
    }

    /// The root of an object of `weight` elements, which come in `parts`; the number of those matters only to
    /// a target that notes records.
    pub(crate) fn root(
        &mut self,
        object: ObjectId,
        payload: &[u8],
        weight: u64,
        parts: u64,
    ) -> Result<()> {
        let (addr, payload) = address_of::<T>(payload);
        let (root, value, key) = Root::read(payload);
        let Root { kind, database, expires_at_ms, string_bytes, has_expiring_fields, .. } = root;
        let value_type = Type::of_record(kind).expect("roots have values");
        let count = if value_type == Type::String { string_bytes } else { weight };
        // A stream may have no entries.
        if count == 0 && !matches!(value_type, Type::String | Type::Stream) {
            let what = "no elements";
            return if self.takes_empty { Ok(()) } else { Err(Error::Object { object, what }) };
        }
        if let Some(addr) = addr {
            self.note(Noted::Object { addr, object, parts })?;
        }
        self.begin(&DumpedKey {
            database,
            key,
            value_type,
            count,
            expires_at_ms,
            has_expiring_fields,
        })?;
        self.open = Some(Open { object, value_type, left: count, at: 0 });
        if value_type == Type::Stream {
            let root = StreamRoot::read(value, count).expect("the record was checked");
            self.element(Element::Stream(root))?;
        }
        Ok(())
    }

    /// A key whose beginning the target has been given already: all but `count` elements, or bytes.
    pub(crate) const fn begun(&mut self, object: ObjectId, value_type: Type, count: u64) {
        self.open = Some(Open { object, value_type, left: count, at: 0 });
    }

    /// An element of the object that is open, as it was sorted.
    pub(crate) fn element_of(&mut self, order: Order, payload: &[u8]) -> Result<()> {
        let Some(Open { object, value_type, .. }) = self.open else { return Ok(()) };
        let (addr, payload) = address_of::<T>(payload);
        if let Some(addr) = addr {
            self.note(Noted::Part { addr, order: order.major })?;
        }
        let malformed = || Error::Object { object, what: "an element of another type" };
        let (kind, payload) = payload.split_first().ok_or_else(malformed)?;
        let (expires_at_ms, payload) = match payload.split_first_chunk() {
            Some((at_ms, rest)) if kind & EXPIRES != 0 => (Some(i64::from_le_bytes(*at_ms)), rest),
            _ => (None, payload),
        };
        match (value_type, RecordKind::from_u8(kind & !EXPIRES)) {
            (Type::String, Some(RecordKind::StringChunk)) => {
                return self.chunk(order.major, payload);
            }
            (Type::List, Some(RecordKind::ListNode)) => {
                let node = Record::element(RecordKind::ListNode, object, &[0; 8], payload);
                let elements = plain::elements(&node).expect("nodes are packed");
                self.count(elements.clone().count() as u64)?;
                return self.packed(Type::List, false, elements);
            }
            (Type::Hash, Some(RecordKind::HashField))
            | (Type::Set, Some(RecordKind::SetMember))
            | (Type::ZSet, Some(RecordKind::ZSetMember)) => self.count(1)?,
            (
                Type::Stream,
                Some(
                    RecordKind::StreamNode
                    | RecordKind::StreamGroup
                    | RecordKind::StreamConsumer
                    | RecordKind::StreamPending
                    | RecordKind::StreamProducer,
                ),
            ) => {}
            _ => return Err(malformed()),
        }
        let mut rest = payload;
        let name = varint::take_bytes(&mut rest).ok_or_else(malformed)?;
        if value_type == Type::Stream {
            if let Some(StreamRecord::Node { is_first: true, .. }) = StreamRecord::read(name, rest)
            {
                self.count(1)?;
            }
            return self.element(Element::Record(name, rest));
        }
        self.element(match value_type {
            Type::Hash => Element::Field(name, rest, expires_at_ms),
            Type::ZSet => Element::Scored(name, score(rest)),
            _ => Element::Member(name),
        })
    }

    /// A chunk of a string.
    pub(crate) fn chunk(&mut self, number: u64, payload: &[u8]) -> Result<()> {
        let Some(open) = self.open else { return Ok(()) };
        if open.at != number.saturating_mul(CHUNK_BYTES as u64) {
            return Err(Error::Object { object: open.object, what: "the wrong chunks" });
        }
        self.count(payload.len() as u64)?;
        self.element(Element::Part(payload))
    }

    /// So many elements, or bytes, of the open key come.
    pub(crate) fn count(&mut self, count: u64) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let what = "too many elements";
        let object = open.object;
        open.left = open.left.checked_sub(count).ok_or(Error::Object { object, what })?;
        open.at += count;
        Ok(())
    }

    pub(crate) fn end_object(&mut self) -> Result<()> {
        match self.open.take() {
            Some(Open { object, left: 1.., .. }) => {
                Err(Error::Object { object, what: "too few elements" })
            }
            Some(_) => self.end(),
            // It was empty.
            None => Ok(()),
        }
    }

    /// A key whose value is lost.
    pub(crate) fn lost(&mut self, addr: RecordAddr, db: DbId) -> Result<()> {
        self.figures.lost_keys += 1;
        self.note(Noted::Lost { addr, db })
    }

    pub(crate) fn note(&mut self, noted: Noted) -> Result<()> {
        self.target.note(noted).map_err(|error| Error::Target(Box::new(error)))
    }

    fn begin(&mut self, key: &DumpedKey<'_>) -> Result<()> {
        self.target.begin(key).map_err(|error| Error::Target(Box::new(error)))
    }

    fn element(&mut self, element: Element<'_>) -> Result<()> {
        self.target.element(element).map_err(|error| Error::Target(Box::new(error)))
    }

    fn end(&mut self) -> Result<()> {
        self.figures.keys += 1;
        self.target.end().map_err(|error| Error::Target(Box::new(error)))
    }
}

/// What stands in front of what is sorted of a record: its address, if the target notes records.
pub(crate) fn put_address<T: Target>(addr: RecordAddr) -> ([u8; ADDRESS_BYTES], usize) {
    let bytes = RecordAddr::to_raw(Some(addr)).to_le_bytes();
    (bytes, if T::NOTES_RECORDS { ADDRESS_BYTES } else { 0 })
}

/// Splits that off.
fn address_of<T: Target>(payload: &[u8]) -> (Option<RecordAddr>, &[u8]) {
    if !T::NOTES_RECORDS {
        return (None, payload);
    }
    let (raw, rest) = payload.split_first_chunk::<ADDRESS_BYTES>().expect("as it was pushed");
    (RecordAddr::from_raw(u64::from_le_bytes(*raw)), rest)
}

/// How many packed elements make one.
const fn arity(value_type: Type) -> u64 {
    match value_type {
        Type::Hash | Type::ZSet => 2,
        Type::String | Type::List | Type::Set | Type::Stream => 1,
    }
}

fn score(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes.try_into().expect("scores were checked"))
}

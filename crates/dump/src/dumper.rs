//! From records to keys with their values.

use std::collections::BTreeMap;

use base::{DbId, ObjectId, Record, RecordAddr, RecordKind, varint};
use keyspace::string::CHUNK_BYTES;
use keyspace::{Type, plain};

use crate::error::{Error, Result};
use crate::objects::{Merged, Objects};
use crate::sorter::Sorter;
use crate::source::Sorted;
use crate::spill::SpillOptions;
use crate::target::{DumpedKey, Element, Target};

/// What is passed on in one step of merging, in bytes, about.
const STEP_BYTES: usize = 256 << 10;

/// What an item counts in a step in addition to its bytes: small ones cost a call, too.
const ITEM_BYTES: usize = 64;

/// What was dumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Keys that the target has taken.
    pub keys: u64,
    /// Keys whose values are lost: they are in no dump.
    pub lost_keys: u64,
    /// Elements that belong to nothing any more and wait to be freed.
    pub orphans: u64,
    /// How much was spilled, in bytes.
    pub spilled_bytes: u64,
}

/// Takes records in any order, and passes keys on. See the crate's essay.
pub struct Dumper<T> {
    /// The indexes of the databases that count.
    databases: BTreeMap<DbId, u32>,
    stage: Stage,
    passing: Passing<T>,
    /// The front of an item that is pushed.
    head: Vec<u8>,
}

enum Stage {
    Sorting(Sorter),
    /// Runs are merged into fewer.
    Reducing(Sorted),
    Merging(Objects),
    /// Merging could not begin, or has ended.
    Over,
}

impl<T: Target> Dumper<T> {
    /// Begins a dump of `databases`, the ids by the index that clients name them by.
    pub fn new(databases: &[DbId], target: T, options: SpillOptions) -> Self {
        let indexes = (0_u32..).zip(databases).map(|(index, id)| (*id, index));
        let (figures, takes_empty) = (Figures::default(), false);
        let passing = Passing { target, open: None, takes_empty, figures };
        let stage = Stage::Sorting(Sorter::new(options));
        Self { databases: indexes.collect(), stage, passing, head: Vec::new() }
    }

    /// Lets roots of collections that have no elements count as nothing, as a start does: a log that
    /// was repaired may have some. Otherwise they are an error.
    #[must_use]
    pub const fn taking_empty(mut self) -> Self {
        self.passing.takes_empty = true;
        self
    }

    /// What was dumped until now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let figures = self.passing.figures;
        let spilled_bytes = match &self.stage {
            Stage::Sorting(sorter) => sorter.spilled_bytes(),
            Stage::Reducing(sorted) => sorted.spilled_bytes(),
            Stage::Merging(_) | Stage::Over => figures.spilled_bytes,
        };
        Figures { spilled_bytes, ..figures }
    }

    /// The target, with all that it was given.
    pub fn into_target(self) -> T {
        self.passing.target
    }

    /// Takes a record.
    ///
    /// # Errors
    /// When it is malformed, or the target or the spill file fails.
    ///
    /// # Panics
    /// After [`Dumper::finish_records`].
    pub fn record(&mut self, addr: RecordAddr, record: &Record<'_>) -> Result<()> {
        plain::check(record).map_err(|bad| Error::Record { addr, bad })?;
        let Stage::Sorting(sorter) = &mut self.stage else { panic!("all records have come") };
        match record.kind {
            // What has libraries asks for them before the first record.
            RecordKind::Library
            | RecordKind::LibraryDeleted
            | RecordKind::Databases
            | RecordKind::Note
            | RecordKind::KeyDeleted
            | RecordKind::ElementDeleted => Ok(()),
            RecordKind::ListNode => {
                let order = record.sub.try_into().map(u64::from_be_bytes).unwrap_or_default();
                let count = plain::elements(record).map_or(0, Iterator::count);
                let kind = [record.kind as u8];
                sorter.push(record.object, Some(order), count as u64, &[&kind, record.value])
            }
            RecordKind::StringChunk => {
                let order = record.sub.try_into().map(u32::from_be_bytes).unwrap_or_default();
                let kind = [record.kind as u8];
                sorter.push(record.object, Some(order.into()), 1, &[&kind, record.value])
            }
            RecordKind::HashField | RecordKind::SetMember | RecordKind::ZSetMember => {
                self.head.clear();
                self.head.push(record.kind as u8);
                varint::put(&mut self.head, record.sub.len() as u64);
                sorter.push(record.object, Some(0), 1, &[&self.head, record.sub, record.value])
            }
            _ => {
                let Some(&database) = self.databases.get(&record.db) else { return Ok(()) };
                if matches!(record.kind, RecordKind::ValueLost | RecordKind::KeyLost) {
                    self.passing.figures.lost_keys += 1;
                    Ok(())
                } else if record.kind.is_root() {
                    let root = Root::of(record, database);
                    sorter.push(record.object, None, 0, &[&root.head(), record.key])
                } else {
                    self.passing.whole(record, database)
                }
            }
        }
    }

    /// All records have come.
    ///
    /// # Errors
    /// When the spill file fails.
    pub fn finish_records(&mut self) -> Result<()> {
        if let Stage::Sorting(sorter) = std::mem::replace(&mut self.stage, Stage::Over) {
            self.stage = Stage::Reducing(sorter.finish()?);
        }
        Ok(())
    }

    /// Passes on some of what consists of several records. Returns whether that was all.
    ///
    /// # Errors
    /// When the spill file or the target fails, or the log does not have all of a value.
    pub fn merge_step(&mut self) -> Result<bool> {
        let mut bytes = 0;
        while bytes < STEP_BYTES {
            match &mut self.stage {
                Stage::Sorting(_) | Stage::Over => return Ok(true),
                Stage::Reducing(sorted) => match sorted.step()? {
                    Some(merged) => bytes += ITEM_BYTES + merged,
                    None => self.end_reducing()?,
                },
                Stage::Merging(objects) => {
                    bytes += ITEM_BYTES;
                    let goes_on = objects.step(&mut |merged| {
                        bytes += merged.bytes();
                        self.passing.merged(&merged)
                    })?;
                    if !goes_on {
                        self.stage = Stage::Over;
                    }
                }
            }
        }
        Ok(false)
    }

    /// The runs that are left can be merged at a time.
    fn end_reducing(&mut self) -> Result<()> {
        if let Stage::Reducing(sorted) = std::mem::replace(&mut self.stage, Stage::Over) {
            let objects = Objects::of(sorted.into_source()?);
            self.passing.figures.spilled_bytes = objects.spilled_bytes();
            self.stage = Stage::Merging(objects);
        }
        Ok(())
    }
}

/// The root of an object, on its way through the sorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Root {
    kind: RecordKind,
    database: u32,
    expires_at_ms: Option<i64>,
    /// Of a string, how long it is.
    string_bytes: u64,
}

/// What [`Root::head`] takes.
const HEAD_BYTES: usize = 1 + 4 + 1 + 8 + 8;

impl Root {
    fn of(record: &Record<'_>, database: u32) -> Self {
        let (expires_at_ms, string_bytes) = (record.expires_at_ms, plain::string_bytes(record));
        Self { kind: record.kind, database, expires_at_ms, string_bytes }
    }

    fn head(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[0] = self.kind as u8;
        head[1..5].copy_from_slice(&self.database.to_le_bytes());
        head[5] = self.expires_at_ms.is_some().into();
        head[6..14].copy_from_slice(&self.expires_at_ms.unwrap_or(0).to_le_bytes());
        head[14..].copy_from_slice(&self.string_bytes.to_le_bytes());
        head
    }

    /// Returns it and the key behind it.
    fn read(payload: &[u8]) -> (Self, &[u8]) {
        let (head, key) = payload.split_first_chunk::<HEAD_BYTES>().expect("as it was pushed");
        let number = |at: usize| *head[at..].first_chunk::<8>().expect("it is in the head");
        let expires_at_ms = (head[5] == 1).then(|| i64::from_le_bytes(number(6)));
        let root = Self {
            kind: RecordKind::from_u8(head[0]).expect("as it was pushed"),
            database: u32::from_le_bytes(*head[1..].first_chunk().expect("it is in the head")),
            expires_at_ms,
            string_bytes: u64::from_le_bytes(number(14)),
        };
        (root, key)
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
struct Passing<T> {
    target: T,
    open: Option<Open>,
    /// Whether a collection without elements is no error.
    takes_empty: bool,
    figures: Figures,
}

impl<T: Target> Passing<T> {
    /// A key that is one record.
    fn whole(&mut self, record: &Record<'_>, database: u32) -> Result<()> {
        let value_type = Type::of_record(record.kind).expect("only keys with values come here");
        let (key, expires_at_ms) = (record.key, record.expires_at_ms);
        let Some(elements) = plain::elements(record) else {
            let count = record.value.len() as u64;
            self.begin(&DumpedKey { database, key, value_type, count, expires_at_ms })?;
            if count > 0 {
                self.element(Element::Part(record.value))?;
            }
            return self.end();
        };
        let (arity, count) = (arity(value_type), elements.clone().count() as u64);
        let count = count / arity;
        self.begin(&DumpedKey { database, key, value_type, count, expires_at_ms })?;
        self.packed(value_type, elements)?;
        self.end()
    }

    /// Passes on packed elements.
    fn packed<'a>(
        &mut self,
        value_type: Type,
        mut elements: impl Iterator<Item = &'a [u8]>,
    ) -> Result<()> {
        while let Some(first) = elements.next() {
            let mut second = || elements.next().expect("their number was checked");
            self.element(match value_type {
                Type::String => unreachable!("strings are not packed"),
                Type::List => Element::Item(first),
                Type::Set => Element::Member(first),
                Type::Hash => Element::Field(first, second()),
                Type::ZSet => Element::Scored(first, score(second())),
            })?;
        }
        Ok(())
    }

    fn merged(&mut self, merged: &Merged<'_>) -> Result<()> {
        match *merged {
            Merged::Root { object, payload, weight } => self.root(object, payload, weight),
            Merged::Element { order, payload } => self.large_element(order, payload),
            Merged::End => self.end_object(),
            Merged::Orphan(_) => {
                self.figures.orphans += 1;
                Ok(())
            }
        }
    }

    fn root(&mut self, object: ObjectId, payload: &[u8], weight: u64) -> Result<()> {
        let (root, key) = Root::read(payload);
        let Root { kind, database, expires_at_ms, string_bytes } = root;
        let value_type = Type::of_record(kind).expect("roots have values");
        let count = if value_type == Type::String { string_bytes } else { weight };
        if count == 0 && value_type != Type::String {
            let what = "no elements";
            return if self.takes_empty { Ok(()) } else { Err(Error::Object { object, what }) };
        }
        self.begin(&DumpedKey { database, key, value_type, count, expires_at_ms })?;
        self.open = Some(Open { object, value_type, left: count, at: 0 });
        Ok(())
    }

    fn large_element(&mut self, order: u64, payload: &[u8]) -> Result<()> {
        let Some(Open { object, value_type, .. }) = self.open else { return Ok(()) };
        let malformed = || Error::Object { object, what: "an element of another type" };
        let (kind, payload) = payload.split_first().ok_or_else(malformed)?;
        let kind = RecordKind::from_u8(*kind);
        match (value_type, kind) {
            (Type::String, Some(RecordKind::StringChunk)) => return self.chunk(order, payload),
            (Type::List, Some(RecordKind::ListNode)) => {
                let node = Record::element(RecordKind::ListNode, object, &[0; 8], payload);
                let elements = plain::elements(&node).expect("nodes are packed");
                self.count(elements.clone().count() as u64)?;
                return self.packed(Type::List, elements);
            }
            (Type::Hash, Some(RecordKind::HashField))
            | (Type::Set, Some(RecordKind::SetMember))
            | (Type::ZSet, Some(RecordKind::ZSetMember)) => {}
            _ => return Err(malformed()),
        }
        self.count(1)?;
        let mut rest = payload;
        let name = varint::take_bytes(&mut rest).ok_or_else(malformed)?;
        self.element(match value_type {
            Type::Hash => Element::Field(name, rest),
            Type::ZSet => Element::Scored(name, score(rest)),
            _ => Element::Member(name),
        })
    }

    /// A chunk of a string.
    fn chunk(&mut self, number: u64, payload: &[u8]) -> Result<()> {
        let Some(open) = self.open else { return Ok(()) };
        if open.at != number.saturating_mul(CHUNK_BYTES as u64) {
            return Err(Error::Object { object: open.object, what: "the wrong chunks" });
        }
        self.count(payload.len() as u64)?;
        self.element(Element::Part(payload))
    }

    /// So many elements of the open key come.
    fn count(&mut self, count: u64) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let what = "too many elements";
        let object = open.object;
        open.left = open.left.checked_sub(count).ok_or(Error::Object { object, what })?;
        open.at += count;
        Ok(())
    }

    fn end_object(&mut self) -> Result<()> {
        match self.open.take() {
            Some(Open { object, left: 1.., .. }) => {
                Err(Error::Object { object, what: "too few elements" })
            }
            Some(_) => self.end(),
            // It was empty.
            None => Ok(()),
        }
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

/// How many packed elements make one.
const fn arity(value_type: Type) -> u64 {
    match value_type {
        Type::Hash | Type::ZSet => 2,
        Type::String | Type::List | Type::Set => 1,
    }
}

fn score(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes.try_into().expect("scores were checked"))
}

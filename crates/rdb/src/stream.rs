//! Streams: what a dump has of them, and the listpacks that their entries are in.
//!
//! ```text
//!   node      id of its first entry (16 bytes) │ listpack
//!   listpack  count │ deleted │ names: count, name … │ 0 │ entry …
//!   entry     flags │ ms and sequence less the node's │ (count, name, value …) or (value …) │ how many elements
//!   then      length │ last id │ first id, largest deleted id, count of all (from Redis 7.0 on)
//!   group     name │ last id │ entries read (7.0) │ pending: id, time, count … │ consumers
//!   consumer  name │ seen │ active (7.2) │ ids that it holds …
//! ```
//!
//! Source: Redis' `t_stream.c` and `rdb.c`.

use std::collections::BTreeMap;
use std::fmt;

use crate::packed::listpack;

/// The id of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Milliseconds.
    pub ms: u64,
    /// The number among those of the millisecond.
    pub seq: u64,
}

impl EntryId {
    /// Its length as [`EntryId::to_bytes`] has it.
    pub(crate) const BYTES: usize = 16;

    /// The id of two numbers.
    #[must_use]
    pub const fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// Both numbers, the highest byte first.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }

    pub(crate) fn of_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let number = u128::from_be_bytes(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "these are its halves")]
        let (ms, seq) = ((number >> 64) as u64, number as u64);
        Self { ms, seq }
    }
}

/// As clients read it: `ms-seq`.
impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// What a stream says of all entries that it ever had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamNumbers {
    /// The largest id that an entry had.
    pub last_id: EntryId,
    /// The largest id of those that were deleted one by one; 0-0 for none.
    pub max_deleted_id: EntryId,
    /// How many entries were added.
    pub entries_added: u64,
}

/// How many entries a group has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntriesRead {
    /// So many.
    Known(u64),
    /// The server that wrote the dump did not know.
    Unknown,
    /// Dumps of that version do not say: it is to be estimated.
    Unsaid,
}

/// A stream, in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamValue {
    /// Its entries; ids rise.
    pub entries: Vec<StreamEntry>,
    /// What it says of all that it ever had.
    pub numbers: StreamNumbers,
    /// Its groups of consumers.
    pub groups: Vec<StreamGroup>,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its id.
    pub id: EntryId,
    /// Names and values.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A group of consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamGroup {
    /// Its name.
    pub name: Vec<u8>,
    /// The last entry that it was given.
    pub last_id: EntryId,
    /// How many entries it was given.
    pub entries_read: EntriesRead,
    /// Its consumers.
    pub consumers: Vec<StreamConsumer>,
}

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConsumer {
    /// Its name.
    pub name: Vec<u8>,
    /// When it was heard of last, in Unix milliseconds.
    pub seen_ms: i64,
    /// When it got something last; `None` if it never did.
    pub active_ms: Option<i64>,
    /// What it holds; ids rise.
    pub pending: Vec<PendingEntry>,
}

/// An entry that waits to be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// Its id; the entry itself may be gone.
    pub id: EntryId,
    /// When it was given to its consumer, in Unix milliseconds.
    pub at_ms: i64,
    /// How often it was given to one.
    pub count: u64,
}

/// What groups cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadGroup(pub &'static str);

/// Makes groups of what comes of them, one after the other.
#[derive(Debug, Default)]
pub struct GroupBuilder {
    group: Option<StreamGroup>,
    /// What no consumer holds yet.
    pending: BTreeMap<EntryId, PendingEntry>,
}

impl GroupBuilder {
    /// Begins a group. Returns the one before.
    ///
    /// # Errors
    /// What the one before cannot be.
    pub fn group(
        &mut self,
        name: &[u8],
        last_id: EntryId,
        entries_read: EntriesRead,
    ) -> Result<Option<StreamGroup>, BadGroup> {
        let before = self.finish()?;
        let (name, consumers) = (name.to_vec(), Vec::new());
        self.group = Some(StreamGroup { name, last_id, entries_read, consumers });
        Ok(before)
    }

    /// An entry waits to be acknowledged.
    pub fn pending(&mut self, pending: PendingEntry) {
        self.pending.insert(pending.id, pending);
    }

    /// Begins a consumer.
    pub fn consumer(&mut self, name: &[u8], seen_ms: i64, active_ms: Option<i64>) {
        let (name, pending) = (name.to_vec(), Vec::new());
        if let Some(group) = &mut self.group {
            group.consumers.push(StreamConsumer { name, seen_ms, active_ms, pending });
        }
    }

    /// The consumer holds this entry.
    ///
    /// # Errors
    /// That it does not wait, or that another one holds it.
    pub fn held(&mut self, id: EntryId) -> Result<(), BadGroup> {
        let pending = self
            .pending
            .remove(&id)
            .ok_or(BadGroup("a consumer of a stream holds an entry that does not wait for it"))?;
        if let Some(consumer) = self.group.as_mut().and_then(|group| group.consumers.last_mut()) {
            consumer.pending.push(pending);
        }
        Ok(())
    }

    /// Ends the last group, if there is one.
    ///
    /// # Errors
    /// What it cannot be.
    pub fn finish(&mut self) -> Result<Option<StreamGroup>, BadGroup> {
        let Some(group) = self.group.take() else { return Ok(None) };
        if !self.pending.is_empty() {
            return Err(BadGroup("an entry of a stream waits for no consumer"));
        }
        let mut names: Vec<&[u8]> = group.consumers.iter().map(|it| &it.name[..]).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(BadGroup("two consumers of a group of a stream have one name"));
        }
        Ok(Some(group))
    }
}

/// The entry has the field names of the node's first one.
pub(crate) const SAME_NAMES: i64 = 2;
/// The entry is deleted.
pub(crate) const DELETED: i64 = 1;
/// Flags, both numbers of the id, and how many elements there are.
pub(crate) const ENTRY_ELEMENTS: i64 = 3;

/// Makes nodes of entries.
#[derive(Debug, Default)]
pub struct NodeBuilder {
    master: EntryId,
    /// The names of its first entry.
    names: Vec<Vec<u8>>,
    /// The entries, as the listpack has them.
    body: Vec<u8>,
    elements: u64,
    entries: u64,
}

impl NodeBuilder {
    /// Whether it has no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Adds an entry, whose id is above those before.
    pub fn push<'a>(
        &mut self,
        id: EntryId,
        pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) {
        if self.entries == 0 {
            self.master = id;
            self.names.extend(pairs.clone().map(|(name, _)| name.to_vec()));
        }
        let names = self.names.iter().map(Vec::as_slice);
        let has_same_names = names.eq(pairs.clone().map(|(name, _)| name));
        let (mut pairs_count, body) = (0_i64, &mut self.body);
        listpack::put_number(body, if has_same_names { SAME_NAMES } else { 0 });
        listpack::put_number(body, id.ms.wrapping_sub(self.master.ms).cast_signed());
        listpack::put_number(body, id.seq.wrapping_sub(self.master.seq).cast_signed());
        if !has_same_names {
            let count = pairs.clone().count();
            listpack::put_number(body, i64::try_from(count).expect("they are in memory"));
        }
        for (name, value) in pairs {
            if !has_same_names {
                listpack::put(body, name);
            }
            listpack::put(body, value);
            pairs_count += 1;
        }
        let elements = entry_elements(pairs_count, has_same_names);
        listpack::put_number(body, elements);
        self.elements += elements.cast_unsigned() + 1;
        self.entries += 1;
    }

    /// Empties it. Returns the id of the first entry, and the listpack.
    pub(crate) fn take(&mut self) -> (EntryId, Vec<u8>) {
        let Self { master, names, body, elements, entries } = std::mem::take(self);
        let number = |number: u64| number.cast_signed();
        let mut pack = listpack::begin();
        listpack::put_number(&mut pack, number(entries));
        listpack::put_number(&mut pack, 0);
        listpack::put_number(&mut pack, number(names.len() as u64));
        names.iter().for_each(|name| listpack::put(&mut pack, name));
        listpack::put_number(&mut pack, 0);
        pack.extend_from_slice(&body);
        listpack::end(&mut pack, elements + names.len() as u64 + 4);
        (master, pack)
    }
}

/// How many elements an entry with so many fields is, without the one that says so.
pub(crate) const fn entry_elements(pairs: i64, has_same_names: bool) -> i64 {
    if has_same_names { pairs + ENTRY_ELEMENTS } else { 2 * pairs + 1 + ENTRY_ELEMENTS }
}

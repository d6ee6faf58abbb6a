//! A node: some consecutive entries of a stream as bytes, with one record of their own.
//!
//! ```text
//!   ┌────────────────────────┬───────┬────┬─────┬────────────────┬──
//!   │ count · name · name …  │ flags │ ms │ seq │ value · value… │ …
//!   └────────────────────────┴───────┴────┴─────┴────────────────┴──
//!     the master's names       an entry with these names
//!                              one with others has:  count · name · value · name · value …
//! ```
//!
//! The *master* is the node's first entry, and stays its measure when that entry is gone: the node has its
//! id for a name, the other ids are written as the difference from it, and an entry with the
//! master's field names has only values. Redis' nodes are built so; here an entry needs no length at its
//! end, as a node is short enough to be read forwards.
//!
//! All numbers are varints; a name or a value is a length and so many bytes. `ms` is missing when it is the
//! master's, and `seq`, counted from the master's then, when it is 0.
//!
//! # Invariants
//! - No node is empty; the ids rise, and none is less than the master's.
//! - A node of more than [`NODE_BYTES_MAX`] bytes has had a single entry since it began, or was restored: then its
//!   entries take about as many bytes as the master's names, which they share.

use base::{RecordAddr, varint};

use super::StreamId;
use crate::packed::PACKED_BYTES_MAX;
use crate::rank_tree::Weighted;

/// A node takes no further entry that would make it longer than this, for the reason for which a list's
/// node does not: each change logs all of it.
pub(super) const NODE_BYTES_MAX: usize = PACKED_BYTES_MAX;

/// The entry has the master's field names.
const SAME_NAMES: u8 = 1;
/// The entry has the master's milliseconds.
const SAME_MS: u8 = 2;
/// The sequence number, as it is counted, is 0.
const SEQ_0: u8 = 4;
const KNOWN_FLAGS: u8 = SAME_NAMES | SAME_MS | SEQ_0;

/// Some entries.
pub(super) struct Node {
    pub(super) master: StreamId,
    pub(super) addr: Option<RecordAddr>,
    bytes: Box<[u8]>,
    count: u32,
    /// How many entries its unit had before it; see [`super::entries`].
    pub(super) in_unit: u32,
}

/// What the record of a node has.
pub(super) struct NodeRecord<'a> {
    /// How many entries the stream had had.
    pub(super) added: u64,
    pub(super) in_unit: u32,
    pub(super) bytes: &'a [u8],
    pub(super) count: u32,
}

impl<'a> NodeRecord<'a> {
    pub(super) fn read(master: StreamId, mut value: &'a [u8]) -> Option<Self> {
        let added = varint::take(&mut value)?;
        let in_unit = u32::try_from(varint::take(&mut value)?).ok()?;
        let count = checked_count(master, value)?;
        Some(Self { added, in_unit, bytes: value, count })
    }
}

impl Weighted for Node {
    fn weight(&self) -> usize {
        self.count as usize
    }
}

impl Node {
    /// A node of one entry; `pairs` are names and values in turn.
    pub(super) fn of_entry(master: StreamId, pairs: &[&[u8]], in_unit: u32) -> Self {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, pairs.len() as u64 / 2);
        pairs.iter().step_by(2).for_each(|name| varint::put_bytes(&mut bytes, name));
        bytes.push(SAME_NAMES | SAME_MS | SEQ_0);
        pairs.iter().skip(1).step_by(2).for_each(|value| varint::put_bytes(&mut bytes, value));
        Self { master, addr: None, bytes: bytes.into_boxed_slice(), count: 1, in_unit }
    }

    /// The node that a record restores, and how many entries the stream had had then.
    pub(super) fn of_record(
        master: StreamId,
        value: &[u8],
        addr: Option<RecordAddr>,
    ) -> Option<(Self, u64)> {
        let NodeRecord { added, in_unit, bytes, count } = NodeRecord::read(master, value)?;
        Some((Self { master, addr, bytes: bytes.into(), count, in_unit }, added))
    }

    /// Writes the value of its record, for a stream that has had `added` entries.
    pub(super) fn put(&self, added: u64, out: &mut Vec<u8>) {
        varint::put(out, added);
        varint::put(out, u64::from(self.in_unit));
        out.extend_from_slice(&self.bytes);
    }

    /// The size of the entries, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many entries there are.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// The entries in their order.
    pub(super) fn entries(&self) -> Entries<'_> {
        Entries::of(self.master, &self.bytes)
    }

    /// The id of the last entry.
    pub(super) fn last_id(&self) -> StreamId {
        self.entries().last().map_or(self.master, |entry| entry.id)
    }

    /// The entry with this id.
    pub(super) fn find(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        self.entries().find(|entry| entry.id == id)
    }

    /// How many bytes the master's names take.
    pub(super) fn names_bytes(&self) -> usize {
        self.entries().names.bytes.len()
    }

    /// The bytes of an entry that comes behind the others; `None` if there is no room for it in a node of so many bytes.
    pub(super) fn fitted(
        &self,
        id: StreamId,
        pairs: &[&[u8]],
        bytes_max: usize,
    ) -> Option<Vec<u8>> {
        let room = bytes_max.checked_sub(self.bytes.len())?;
        // Values are in it whole, whatever the names.
        if pairs.iter().skip(1).step_by(2).map(|value| value.len()).sum::<usize>() > room {
            return None;
        }
        let mut entry = Vec::with_capacity(room.min(NODE_BYTES_MAX));
        put_entry(self.master, self.entries().names, id, pairs, &mut entry);
        (entry.len() <= room).then_some(entry)
    }

    /// Adds an entry, as [`Node::fitted`] has made it.
    pub(super) fn append(&mut self, entry: &[u8]) {
        let mut bytes = std::mem::take(&mut self.bytes).into_vec();
        bytes.reserve_exact(entry.len());
        bytes.extend_from_slice(entry);
        self.bytes = bytes.into_boxed_slice();
        self.count += 1;
    }

    /// Removes an entry, which must be there and not the only one.
    pub(super) fn remove(&mut self, id: StreamId) {
        let mut entries = self.entries();
        let mut at = entries.at(&self.bytes);
        while entries.next().expect("the caller has found it").id != id {
            at = entries.at(&self.bytes);
        }
        let end = entries.at(&self.bytes);
        self.splice(at, end, 1);
    }

    /// Removes the first `count` entries, which must be fewer than there are.
    pub(super) fn cut_front(&mut self, count: u32) {
        let mut entries = self.entries();
        let at = entries.at(&self.bytes);
        for _ in 0..count {
            entries.next();
        }
        let end = entries.at(&self.bytes);
        self.splice(at, end, count);
    }

    /// Removes the bytes of `count` entries.
    fn splice(&mut self, at: usize, end: usize, count: u32) {
        assert!(count < self.count, "no node is empty");
        self.bytes = [&self.bytes[..at], &self.bytes[end..]].concat().into_boxed_slice();
        self.count -= count;
    }

    /// A copy without a record.
    pub(super) fn copy(&self) -> Self {
        let Self { master, bytes, count, in_unit, .. } = self;
        Self { master: *master, addr: None, bytes: bytes.clone(), count: *count, in_unit: *in_unit }
    }
}

/// Field names that entries share.
#[derive(Debug, Clone, Copy)]
struct Names<'a> {
    count: usize,
    /// Each with its length in front.
    bytes: &'a [u8],
}

impl Names<'_> {
    /// Whether these are the names of `pairs`.
    fn are_of(mut self, pairs: &[&[u8]]) -> bool {
        self.count == pairs.len() / 2
            && pairs.iter().step_by(2).all(|name| varint::take_bytes(&mut self.bytes) == Some(name))
    }
}

/// An entry of a stream, read.
#[derive(Debug, Clone, Copy)]
pub struct StreamEntry<'a> {
    /// Its id.
    pub id: StreamId,
    count: usize,
    /// `None` when each value has its name in front.
    names: Option<&'a [u8]>,
    values: &'a [u8],
}

impl<'a> StreamEntry<'a> {
    /// How many fields there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none, which no command makes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Names and values, in the order in which they were given.
    #[must_use]
    pub const fn pairs(&self) -> Pairs<'a> {
        Pairs { names: self.names, values: self.values }
    }
}

/// The fields of an entry.
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    names: Option<&'a [u8]>,
    values: &'a [u8],
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.values.is_empty() {
            return None;
        }
        let mut value = || varint::take_bytes(&mut self.values).expect("nodes are well-formed");
        let name = match &mut self.names {
            Some(names) => varint::take_bytes(names).expect("nodes are well-formed"),
            None => value(),
        };
        Some((name, value()))
    }
}

/// The entries of a node.
#[derive(Debug, Clone)]
pub(super) struct Entries<'a> {
    master: StreamId,
    names: Names<'a>,
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    /// The entries that these bytes of a node are.
    pub(super) fn of(master: StreamId, bytes: &'a [u8]) -> Self {
        let mut rest = bytes;
        let names = take_names(&mut rest).expect("nodes are well-formed");
        Self { master, names, rest }
    }
}

impl Entries<'_> {
    /// None.
    pub(super) const NONE: Self =
        Self { master: StreamId::MIN, names: Names { count: 0, bytes: &[] }, rest: &[] };

    /// Where the next entry begins in the `bytes` of the node.
    const fn at(&self, bytes: &[u8]) -> usize {
        bytes.len() - self.rest.len()
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = take_entry(&mut self.rest, self.master, self.names);
        Some(entry.expect("nodes are well-formed"))
    }
}

fn put_entry(master: StreamId, names: Names<'_>, id: StreamId, pairs: &[&[u8]], out: &mut Vec<u8>) {
    let has_same_names = names.are_of(pairs);
    let ms = id.ms - master.ms;
    let seq = if ms == 0 { id.seq - master.seq } else { id.seq };
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    out.push(flag(has_same_names, SAME_NAMES) | flag(ms == 0, SAME_MS) | flag(seq == 0, SEQ_0));
    if ms > 0 {
        varint::put(out, ms);
    }
    if seq > 0 {
        varint::put(out, seq);
    }
    if has_same_names {
        pairs.iter().skip(1).step_by(2).for_each(|value| varint::put_bytes(out, value));
    } else {
        varint::put(out, pairs.len() as u64 / 2);
        pairs.iter().for_each(|part| varint::put_bytes(out, part));
    }
}

fn take_names<'a>(input: &mut &'a [u8]) -> Option<Names<'a>> {
    let count = take_count(input)?;
    Some(Names { count, bytes: take_strings(input, count)? })
}

fn take_entry<'a>(
    input: &mut &'a [u8],
    master: StreamId,
    names: Names<'a>,
) -> Option<StreamEntry<'a>> {
    let (&flags, rest) = input.split_first()?;
    *input = rest;
    let ms = if flags & SAME_MS == 0 { varint::take(input)? } else { 0 };
    let seq = if flags & SEQ_0 == 0 { varint::take(input)? } else { 0 };
    let id = StreamId {
        ms: master.ms.checked_add(ms)?,
        seq: if ms == 0 { master.seq.checked_add(seq)? } else { seq },
    };
    if flags & !KNOWN_FLAGS != 0 {
        return None;
    }
    if flags & SAME_NAMES == 0 {
        let count = take_count(input)?;
        let values = take_strings(input, count.checked_mul(2)?)?;
        return Some(StreamEntry { id, count, names: None, values });
    }
    let values = take_strings(input, names.count)?;
    Some(StreamEntry { id, count: names.count, names: Some(names.bytes), values })
}

fn take_count(input: &mut &[u8]) -> Option<usize> {
    usize::try_from(varint::take(input)?).ok().filter(|count| *count > 0)
}

/// Takes `count` strings, each with its length in front.
fn take_strings<'a>(input: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let all = *input;
    for _ in 0..count {
        varint::take_bytes(input)?;
    }
    Some(&all[..all.len() - input.len()])
}

/// How many entries these bytes of a log have; `None` if no node has such bytes.
fn checked_count(master: StreamId, mut bytes: &[u8]) -> Option<u32> {
    let names = take_names(&mut bytes)?;
    let (mut count, mut before) = (0_u32, None);
    while !bytes.is_empty() {
        let id = take_entry(&mut bytes, master, names)?.id;
        if before.is_some_and(|before| id <= before) {
            return None;
        }
        (count, before) = (count.checked_add(1)?, Some(id));
    }
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs_of(entry: &StreamEntry<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
        entry.pairs().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    }

    #[test]
    fn an_entry_like_the_master_takes_its_values_and_two_bytes() {
        let mut node = Node::of_entry(StreamId::new(1000, 3), &[b"name", b"value"], 0);
        for id in [StreamId::new(1000, 9), StreamId::new(1100, 0)] {
            let entry =
                node.fitted(id, &[b"name", b"other"], NODE_BYTES_MAX).expect("there is room");
            assert_eq!(entry.len(), 2 + 6);
            node.append(&entry);
        }
        assert_eq!(node.last_id(), StreamId::new(1100, 0));
    }

    #[test]
    fn a_node_takes_what_fits() {
        let node = Node::of_entry(StreamId::new(1, 0), &[b"f", &[b'v'; 2000]], 0);
        assert!(node.fitted(StreamId::new(1, 1), &[b"f", b""], NODE_BYTES_MAX).is_none());
        let node = Node::of_entry(StreamId::new(1, 0), &[b"f", &[b'v'; 200]], 0);
        let fits = |value: &[u8], bytes_max| {
            node.fitted(StreamId::new(1, 1), &[b"f", value], bytes_max).is_some()
        };
        assert!(fits(&[b'v'; 47], NODE_BYTES_MAX) && !fits(&[b'v'; 48], NODE_BYTES_MAX));
        assert!(fits(&[b'v'; 48], NODE_BYTES_MAX + 1));
    }

    proptest! {
        #[test]
        fn entries_come_back(
            values in prop::collection::vec((0..3u64, 0..4u64, 0..3usize, "[a-z]{0,9}"), 1..30),
            gone in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            let mut id = StreamId::new(7, u64::MAX - 20);
            let mut model = Vec::new();
            let mut node: Option<Node> = None;
            for (ms, seq, shape, value) in &values {
                let last = id;
                id = StreamId { ms: id.ms + ms, seq: if *ms > 0 { *seq } else { id.seq.saturating_add(1 + seq) } };
                if id <= last && node.is_some() {
                    break;
                }
                let pairs: &[&[u8]] = match shape {
                    0 => &[b"field", value.as_bytes()],
                    1 => &[b"field", value.as_bytes(), b"second", b""],
                    _ => &[b"f", b"1"],
                };
                match &mut node {
                    None => node = Some(Node::of_entry(id, pairs, 5)),
                    Some(node) => match node.fitted(id, pairs, NODE_BYTES_MAX) {
                        Some(entry) => node.append(&entry),
                        None => break,
                    },
                }
                let pairs = pairs.chunks(2).map(|pair| (pair[0].to_vec(), pair[1].to_vec()));
                model.push((id, pairs.collect::<Vec<_>>()));
            }
            let mut node = node.expect("there is an entry");
            for index in gone {
                if model.len() > 1 {
                    let (id, _) = model.remove(index.index(model.len()));
                    node.remove(id);
                }
            }
            if model.len() > 2 {
                model.drain(..2);
                node.cut_front(2);
            }
            let mut value = Vec::new();
            node.put(77, &mut value);
            let (again, added) = Node::of_record(node.master, &value, None).expect("just written");
            prop_assert_eq!((added, again.in_unit, again.count()), (77, 5, node.count()));
            let read: Vec<_> = again.entries().map(|entry| (entry.id, pairs_of(&entry))).collect();
            prop_assert_eq!(&read, &model);
            prop_assert_eq!(again.last_id(), model[model.len() - 1].0);
            prop_assert!(model.iter().all(|(id, _)| node.find(*id).is_some()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, ms: u64) {
            let master = StreamId::new(ms, 3);
            if let Some((node, _)) = Node::of_record(master, &bytes, None) {
                prop_assert_eq!(node.entries().count(), node.count() as usize);
                prop_assert!(node.entries().all(|entry| entry.pairs().count() == entry.len()));
                prop_assert!(node.last_id() >= master);
            }
        }
    }
}

//! Streams, read piece by piece: see [`crate::stream`] for their form.
//!
//! Ids must rise, from node to node and among what is pending; so nothing is there twice, and nothing has to be held
//! to tell. That consumers hold what is pending, and all of it, the caller has to see:
//! [`GroupBuilder`](crate::GroupBuilder).

use std::io::Read;

use super::Blob;
use crate::error::Error;
use crate::input::Input;
use crate::packed::{self, Packing, Walk};
use crate::stream::{
    DELETED, EntriesRead, EntryId, PendingEntry, SAME_NAMES, StreamNumbers, entry_elements,
};

/// What comes next of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    Entry(EntryId),
    /// A name and a value: elements of this blob.
    Pair(Blob, packed::Element, packed::Element),
    Numbers(StreamNumbers),
    Group(GroupHead),
    Pending(PendingEntry),
    Consumer(ConsumerHead),
    Held(EntryId),
    End,
}

/// A group, without its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GroupHead {
    pub(crate) last_id: EntryId,
    pub(crate) entries_read: EntriesRead,
}

/// A consumer, without its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ConsumerHead {
    pub(crate) seen_ms: i64,
    pub(crate) active_ms: Option<i64>,
}

/// See the file's top.
#[derive(Debug)]
pub(crate) struct StreamReader {
    /// 1 of Redis 5.0, 2 of 7.0, 3 of 7.2.
    generation: u8,
    nodes_left: u64,
    node: Option<Node>,
    /// The last entry.
    last: Option<EntryId>,
    length: u64,
    stage: Stage,
    groups_left: u64,
    pending_left: u64,
    consumers_left: u64,
    held_left: u64,
    /// The id before, of what is pending or held.
    before: Option<EntryId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Entries,
    Groups,
    Pending,
    Consumers,
    Held,
}

/// A node that is walked.
#[derive(Clone, Copy, Debug)]
struct Node {
    blob: Blob,
    master: EntryId,
    /// At the first of its names.
    names: Walk,
    names_count: i64,
    /// Entries, deleted ones too.
    left: i64,
    entry: Option<Entry>,
    /// How many bytes of names entries had that are written once.
    repeated_bytes: u64,
}

/// An entry whose fields come.
#[derive(Clone, Copy, Debug)]
struct Entry {
    left: i64,
    /// Where its names are, unless each stands in front of its value.
    names: Option<Walk>,
    elements: i64,
}

const NODE_DAMAGE: &str = "a node of a stream has something else than entries";
const NO_NUMBER: &str = "a node of a stream has a text where a number should be";
const REPETITION: &str = "the entries of a node of a stream repeat its field names to more than 1,024 times its length, which takes \
     stream-node-max-bytes and stream-node-max-entries far above the defaults";
const DISORDER: &str = "the ids of a stream do not rise";

/// The names that a node's entries repeat are at most so many times as long as the node. A file of a megabyte could say
/// terabytes otherwise. Redis' nodes of 4096 bytes have up to 100 entries.
const REPEATED_PER_BYTE: u64 = 1024;

impl StreamReader {
    pub(crate) fn begin<R: Read>(input: &mut Input<R>, generation: u8) -> Result<Self, Error> {
        Ok(Self {
            generation,
            nodes_left: input.length()?,
            node: None,
            last: None,
            length: 0,
            stage: Stage::Entries,
            groups_left: 0,
            pending_left: 0,
            consumers_left: 0,
            held_left: 0,
            before: None,
        })
    }

    /// What comes next; the name of a group or a consumer is put into `name`, as more is read behind it.
    pub(crate) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
        name: &mut Vec<u8>,
    ) -> Result<Part, Error> {
        loop {
            match self.stage {
                Stage::Entries => {
                    if let Some(node) = &mut self.node {
                        match node.next(input)? {
                            Some(Found::Entry(id)) => {
                                if self.last.is_some_and(|last| id <= last)
                                    || id == EntryId::new(0, 0)
                                {
                                    return Err(node.blob.corrupt(DISORDER));
                                }
                                self.last = Some(id);
                                self.length += 1;
                                return Ok(Part::Entry(id));
                            }
                            Some(Found::Pair(name, value)) => {
                                return Ok(Part::Pair(node.blob, name, value));
                            }
                            None => self.node = None,
                        }
                    } else if self.nodes_left > 0 {
                        self.nodes_left -= 1;
                        self.node = Some(Node::begin(input)?);
                    } else {
                        let numbers = self.numbers(input)?;
                        self.groups_left = input.length()?;
                        self.stage = Stage::Groups;
                        return Ok(Part::Numbers(numbers));
                    }
                }
                Stage::Groups if self.groups_left == 0 => return Ok(Part::End),
                Stage::Groups => {
                    self.groups_left -= 1;
                    return self.group(input, name);
                }
                Stage::Pending if self.pending_left == 0 => {
                    self.consumers_left = input.length()?;
                    self.stage = Stage::Consumers;
                }
                Stage::Pending => {
                    self.pending_left -= 1;
                    let id = self.rising(input)?;
                    let at_ms = i64::from_le_bytes(input.array()?);
                    return Ok(Part::Pending(PendingEntry { id, at_ms, count: input.length()? }));
                }
                Stage::Consumers if self.consumers_left == 0 => self.stage = Stage::Groups,
                Stage::Consumers => {
                    self.consumers_left -= 1;
                    return self.consumer(input, name);
                }
                Stage::Held if self.held_left == 0 => self.stage = Stage::Consumers,
                Stage::Held => {
                    self.held_left -= 1;
                    return Ok(Part::Held(self.rising(input)?));
                }
            }
        }
    }

    fn id<R: Read>(input: &mut Input<R>) -> Result<EntryId, Error> {
        Ok(EntryId::new(input.length()?, input.length()?))
    }

    /// An id that is behind the one before.
    fn rising<R: Read>(&mut self, input: &mut Input<R>) -> Result<EntryId, Error> {
        let id = EntryId::of_bytes(input.array()?);
        if self.before.is_some_and(|before| id <= before) {
            return Err(input.corrupt(DISORDER));
        }
        self.before = Some(id);
        Ok(id)
    }

    fn numbers<R: Read>(&self, input: &mut Input<R>) -> Result<StreamNumbers, Error> {
        let length = input.length()?;
        if length != self.length {
            return Err(input.corrupt("a stream does not have as many entries as it says"));
        }
        let mut numbers = StreamNumbers {
            last_id: Self::id(input)?,
            max_deleted_id: EntryId::default(),
            entries_added: length,
        };
        if self.last.is_some_and(|last| last > numbers.last_id) {
            return Err(input.corrupt("a stream has an entry behind its last id"));
        }
        if self.generation >= 2 {
            // The first one there is.
            Self::id(input)?;
            numbers.max_deleted_id = Self::id(input)?;
            numbers.entries_added = input.length()?;
        }
        Ok(numbers)
    }

    fn set_aside<R: Read>(input: &mut Input<R>, name: &mut Vec<u8>) -> Result<(), Error> {
        let text = input.string()?;
        crate::input::clear(name);
        name.extend_from_slice(input.bytes(text));
        Ok(())
    }

    fn group<R: Read>(&mut self, input: &mut Input<R>, name: &mut Vec<u8>) -> Result<Part, Error> {
        Self::set_aside(input, name)?;
        let last_id = Self::id(input)?;
        let entries_read = match self.generation {
            1 => EntriesRead::Unsaid,
            _ => match input.length()? {
                u64::MAX => EntriesRead::Unknown,
                count => EntriesRead::Known(count),
            },
        };
        (self.pending_left, self.before) = (input.length()?, None);
        self.stage = Stage::Pending;
        Ok(Part::Group(GroupHead { last_id, entries_read }))
    }

    fn consumer<R: Read>(
        &mut self,
        input: &mut Input<R>,
        name: &mut Vec<u8>,
    ) -> Result<Part, Error> {
        Self::set_aside(input, name)?;
        let seen_ms = i64::from_le_bytes(input.array()?);
        let active_ms = match self.generation {
            // As Redis takes it.
            1 | 2 => Some(seen_ms),
            _ => Some(i64::from_le_bytes(input.array()?)).filter(|ms| *ms != -1),
        };
        (self.held_left, self.before) = (input.length()?, None);
        self.stage = Stage::Held;
        Ok(Part::Consumer(ConsumerHead { seen_ms, active_ms }))
    }
}

/// What is next in a node.
enum Found {
    Entry(EntryId),
    Pair(packed::Element, packed::Element),
}

impl Node {
    fn begin<R: Read>(input: &mut Input<R>) -> Result<Self, Error> {
        let key = input.string()?;
        let Ok(master) = input.bytes(key).try_into() else {
            return Err(input.corrupt("a node of a stream has a key that is no id"));
        };
        let master = EntryId::of_bytes(master);
        let mut blob = Blob::read(input, Packing::Listpack)?;
        // All of it is a listpack, before anything of it is given out.
        blob.count(input)?;
        let (count, deleted) = (number(&mut blob, input)?, number(&mut blob, input)?);
        let names_count = number(&mut blob, input)?;
        let names = blob.walk;
        let left = count.checked_add(deleted).filter(|_| count >= 0 && deleted >= 0);
        let (Some(left), 1..) = (left, names_count) else { return Err(blob.corrupt(NODE_DAMAGE)) };
        for _ in 0..names_count {
            blob.expect(input)?;
        }
        if number(&mut blob, input)? != 0 {
            return Err(blob.corrupt(NODE_DAMAGE));
        }
        let mut node =
            Self { blob, master, names, names_count, left, entry: None, repeated_bytes: 0 };
        if node.count_live(input)? != count {
            return Err(blob.corrupt("a node of a stream does not have as many entries as it says"));
        }
        Ok(node)
    }

    /// Walks over a copy: how many entries are not deleted.
    fn count_live<R: Read>(&mut self, input: &Input<R>) -> Result<i64, Error> {
        let (mut copy, mut live) = (*self, 0);
        while let Some(found) = copy.next(input)? {
            live += i64::from(matches!(found, Found::Entry(_)));
        }
        Ok(live)
    }

    fn next<R: Read>(&mut self, input: &Input<R>) -> Result<Option<Found>, Error> {
        loop {
            if let Some(found) = self.pair(input)? {
                return Ok(Some(found));
            }
            if self.left == 0 {
                return match self.blob.next(input)? {
                    None => Ok(None),
                    Some(_) => Err(self.blob.corrupt(NODE_DAMAGE)),
                };
            }
            self.left -= 1;
            let flags = number(&mut self.blob, input)?;
            let (ms, seq) = (number(&mut self.blob, input)?, number(&mut self.blob, input)?);
            if flags & !(SAME_NAMES | DELETED) != 0 {
                return Err(self.blob.corrupt(NODE_DAMAGE));
            }
            let has_same_names = flags & SAME_NAMES != 0;
            let count =
                if has_same_names { self.names_count } else { number(&mut self.blob, input)? };
            // Of two elements for each there are never so many.
            if !(1..=i64::from(u32::MAX)).contains(&count) {
                return Err(self.blob.corrupt(NODE_DAMAGE));
            }
            let elements = entry_elements(count, has_same_names);
            let names = has_same_names.then_some(self.names);
            self.entry = Some(Entry { left: count, names, elements });
            if flags & DELETED == 0 {
                let id = EntryId {
                    ms: self.master.ms.wrapping_add(ms.cast_unsigned()),
                    seq: self.master.seq.wrapping_add(seq.cast_unsigned()),
                };
                return Ok(Some(Found::Entry(id)));
            }
            while self.pair(input)?.is_some() {}
        }
    }

    /// The next field of the entry; behind the last one the entry is closed.
    fn pair<R: Read>(&mut self, input: &Input<R>) -> Result<Option<Found>, Error> {
        let Some(entry) = &mut self.entry else { return Ok(None) };
        if entry.left == 0 {
            let elements = entry.elements;
            self.entry = None;
            return match number(&mut self.blob, input)? == elements {
                true => Ok(None),
                false => Err(self.blob.corrupt(NODE_DAMAGE)),
            };
        }
        entry.left -= 1;
        let name = match &mut entry.names {
            None => self.blob.expect(input)?,
            Some(names) => {
                let mut blob = Blob { walk: *names, ..self.blob };
                let name = blob.expect(input)?;
                *names = blob.walk;
                if let packed::Element::Bytes { start, end } = name {
                    self.repeated_bytes += (end - start) as u64;
                }
                let bytes = input.bytes(blob.text).len() as u64;
                if self.repeated_bytes > bytes.saturating_mul(REPEATED_PER_BYTE) {
                    return Err(self.blob.corrupt(REPETITION));
                }
                name
            }
        };
        Ok(Some(Found::Pair(name, self.blob.expect(input)?)))
    }
}

/// An element that is a number.
fn number<R: Read>(blob: &mut Blob, input: &Input<R>) -> Result<i64, Error> {
    let number = match blob.expect(input)? {
        packed::Element::Number(number) => Some(number),
        packed::Element::Bytes { start, end } => {
            let text = std::str::from_utf8(&input.bytes(blob.text)[start..end]).ok();
            text.and_then(|text| text.parse().ok())
        }
    };
    number.ok_or_else(|| blob.corrupt(NO_NUMBER))
}

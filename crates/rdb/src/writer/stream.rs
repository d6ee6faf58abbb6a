//! Streams, written piece by piece, in the form that the version has.

use std::io::Write;

use super::{WriteError, Writer};
use crate::event::Kind;
use crate::form::number;
use crate::stream::{
    EntriesRead, EntryId, NodeBuilder, PendingEntry, StreamEntry, StreamNumbers, StreamValue,
};
use crate::strings::put_length;
use crate::version::Version;

impl<W: Write> Writer<W> {
    /// Writes the next node of a stream, and empties it.
    ///
    /// # Errors
    /// If the target cannot be written.
    ///
    /// # Panics
    /// If it has no entry.
    pub fn node(&mut self, node: &mut NodeBuilder) -> Result<(), WriteError> {
        assert!(!node.is_empty(), "a node has entries");
        self.element(Kind::Stream);
        self.put_node(node)
    }

    fn put_node(&mut self, node: &mut NodeBuilder) -> Result<(), WriteError> {
        let (master, pack) = node.take();
        self.put_string(&master.to_bytes())?;
        self.put_string(&pack)
    }

    /// Writes, behind its nodes, what a stream says of its entries: the first one there is (0-0 if there is none), and how
    /// many there are. So many groups follow.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn numbers(
        &mut self,
        (first_id, length): (EntryId, u64),
        numbers: &StreamNumbers,
        groups: u64,
    ) -> Result<(), WriteError> {
        let StreamNumbers { last_id, max_deleted_id, entries_added } = numbers;
        put_length(&mut self.buffer, length);
        self.put_id(*last_id);
        if form_of_streams(self.version) != number::STREAM {
            self.put_id(first_id);
            self.put_id(*max_deleted_id);
            put_length(&mut self.buffer, *entries_added);
        }
        put_length(&mut self.buffer, groups);
        self.flush_full()
    }

    fn put_id(&mut self, id: EntryId) {
        put_length(&mut self.buffer, id.ms);
        put_length(&mut self.buffer, id.seq);
    }

    /// Writes a group of a stream, with all that is pending in the order of ids. So many consumers follow.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn group(
        &mut self,
        (name, last_id, entries_read): (&[u8], EntryId, EntriesRead),
        pending: impl ExactSizeIterator<Item = PendingEntry>,
        consumers: u64,
    ) -> Result<(), WriteError> {
        self.put_string(name)?;
        self.put_id(last_id);
        if form_of_streams(self.version) != number::STREAM {
            let count = match entries_read {
                EntriesRead::Known(count) => count,
                EntriesRead::Unknown | EntriesRead::Unsaid => u64::MAX,
            };
            put_length(&mut self.buffer, count);
        }
        put_length(&mut self.buffer, pending.len() as u64);
        for PendingEntry { id, at_ms, count } in pending {
            self.buffer.extend_from_slice(&id.to_bytes());
            self.buffer.extend_from_slice(&at_ms.to_le_bytes());
            put_length(&mut self.buffer, count);
            self.flush_full()?;
        }
        put_length(&mut self.buffer, consumers);
        self.flush_full()
    }

    /// Writes a consumer of the group: when it was seen, and got something if it ever did, and what it holds in the
    /// order of ids.
    ///
    /// # Errors
    /// If the target cannot be written.
    pub fn consumer(
        &mut self,
        name: &[u8],
        (seen_ms, active_ms): (i64, Option<i64>),
        held: impl ExactSizeIterator<Item = EntryId>,
    ) -> Result<(), WriteError> {
        self.put_string(name)?;
        self.buffer.extend_from_slice(&seen_ms.to_le_bytes());
        if form_of_streams(self.version) == number::STREAM_3 {
            self.buffer.extend_from_slice(&active_ms.unwrap_or(-1).to_le_bytes());
        }
        put_length(&mut self.buffer, held.len() as u64);
        for id in held {
            self.buffer.extend_from_slice(&id.to_bytes());
            self.flush_full()?;
        }
        self.flush_full()
    }

    /// Writes what stands behind the name of a key that is a stream.
    fn whole_stream(&mut self, stream: &StreamValue) -> Result<(), WriteError> {
        /// As Redis' `stream-node-max-bytes` and `-entries` are by default.
        const NODE_BYTES: usize = 4096;
        const NODE_ENTRIES: usize = 100;
        let mut nodes: Vec<&[StreamEntry]> = Vec::new();
        let mut rest = &stream.entries[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fit = rest.iter().take(NODE_ENTRIES).take_while(|entry| {
                bytes +=
                    entry.pairs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
                bytes < NODE_BYTES
            });
            let (node, behind) = rest.split_at(fit.count().max(1));
            nodes.push(node);
            rest = behind;
        }
        put_length(&mut self.buffer, nodes.len() as u64);
        let mut builder = NodeBuilder::default();
        for node in nodes {
            for entry in node {
                let pairs = entry.pairs.iter().map(|(name, value)| (&name[..], &value[..]));
                builder.push(entry.id, pairs);
            }
            self.put_node(&mut builder)?;
        }
        let first = stream.entries.first().map_or(EntryId::default(), |entry| entry.id);
        let length = stream.entries.len() as u64;
        self.numbers((first, length), &stream.numbers, stream.groups.len() as u64)?;
        for group in &stream.groups {
            let held = group.consumers.iter().flat_map(|consumer| &consumer.pending);
            let mut pending: Vec<PendingEntry> = held.copied().collect();
            pending.sort_unstable_by_key(|pending| pending.id);
            let head = (&group.name[..], group.last_id, group.entries_read);
            self.group(head, pending.into_iter(), group.consumers.len() as u64)?;
            for consumer in &group.consumers {
                let held = consumer.pending.iter().map(|pending| pending.id);
                self.consumer(&consumer.name, (consumer.seen_ms, consumer.active_ms), held)?;
            }
        }
        Ok(())
    }
}

/// The number of the form that this version has for streams.
pub(super) const fn form_of_streams(version: Version) -> u8 {
    match version {
        Version::Redis(..10) => number::STREAM,
        Version::Redis(10) => number::STREAM_2,
        Version::Redis(_) | Version::Valkey(_) => number::STREAM_3,
    }
}

/// Returns the form and the value of a stream, as payloads of this version of Redis' have them.
pub(crate) fn encode_stream(stream: &StreamValue, version: u16) -> Vec<u8> {
    let version = Version::Redis(version);
    let mut writer = Writer {
        target: Vec::new(),
        version,
        buffer: vec![form_of_streams(version)],
        written: 0,
        sum: None,
        packer: None,
        packed: Vec::new(),
        open: None,
    };
    let written = writer.whole_stream(stream).and_then(|()| writer.flush());
    written.expect("a vector takes everything");
    writer.target
}

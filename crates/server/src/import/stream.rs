//! A stream of a dump, on its way into a keyspace.
//!
//! ```text
//!   Entry, Pair, Pair, …  ─► an entry is added when the next thing comes
//!   Numbers ─► Group, Pending …, Consumer, Held … ─► a group is added when the next one comes, or the end
//! ```
//!
//! Entries grow in the keyspace; of groups one at a time is held here.

use command::{add_group, set_numbers};
use keyspace::stream::{StreamGuard, StreamId};
use rdb::{BadGroup, EntryId, Event, GroupBuilder, StreamGroup};

/// What of the stream is not in the keyspace yet.
#[derive(Debug, Default)]
pub(super) struct StreamLoad {
    entry: Option<EntryId>,
    /// Names and values of the entry, in turn: where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    groups: GroupBuilder,
}

impl StreamLoad {
    /// Takes what comes next of a stream.
    pub(super) fn take(
        &mut self,
        stream: &mut StreamGuard<'_>,
        event: &Event<'_>,
    ) -> Result<(), BadGroup> {
        if !matches!(event, Event::Pair(..)) {
            self.add_entry(stream);
        }
        match *event {
            Event::Entry(id) => self.entry = Some(id),
            Event::Pair(name, value) => {
                for part in [name, value] {
                    self.bytes.extend_from_slice(part);
                    self.ends.push(self.bytes.len());
                }
            }
            Event::Numbers(numbers) => {
                stream.create();
                set_numbers(stream, numbers);
            }
            Event::Group { name, last_id, entries_read } => {
                let before = self.groups.group(name, last_id, entries_read)?;
                add(stream, before)?;
            }
            Event::Pending(pending) => self.groups.pending(pending),
            Event::Consumer { name, seen_ms, active_ms } => {
                self.groups.consumer(name, seen_ms, active_ms);
            }
            Event::Held(id) => self.groups.held(id)?,
            Event::EndOfKey => add(stream, self.groups.finish()?)?,
            _ => {}
        }
        Ok(())
    }

    fn add_entry(&mut self, stream: &mut StreamGuard<'_>) {
        let Some(EntryId { ms, seq }) = self.entry.take() else { return };
        let mut begin = 0;
        let parts =
            self.ends.drain(..).map(|end| &self.bytes[std::mem::replace(&mut begin, end)..end]);
        let pairs: Vec<&[u8]> = parts.collect();
        stream.restore(StreamId::new(ms, seq), &pairs);
        self.bytes.clear();
    }
}

fn add(stream: &mut StreamGuard<'_>, group: Option<StreamGroup>) -> Result<(), BadGroup> {
    match group {
        Some(group) if !add_group(stream, &group) => {
            Err(BadGroup("two groups of a stream have one name"))
        }
        _ => Ok(()),
    }
}

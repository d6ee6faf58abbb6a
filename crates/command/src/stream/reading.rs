//! What a reader of streams is given, and how much of it.
//!
//! ```text
//!   find ─► what others have held for too long, then what is new     each entry, while the budget has room
//! ```

use keyspace::stream::{Delivery, StreamEntry, StreamGuard, StreamId, StreamView};
use resp::Writer;

use super::{write_entry, write_id, write_pairs};

/// A group and a consumer of it.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) group: &'a [u8],
    pub(super) consumer: &'a [u8],
    /// What is delivered need not be acknowledged.
    pub(super) no_ack: bool,
    /// What others hold is delivered first, if it was not for so long.
    pub(super) min_idle_ms: Option<i64>,
}

/// How much may still be written, of all streams together.
pub(super) struct Budget {
    /// The reply began here.
    pub(super) start: usize,
    pub(super) entries: usize,
    /// No entry follows when there are so many bytes.
    pub(super) bytes_max: usize,
    pub(super) is_used: bool,
}

impl Budget {
    /// How many entries there may be room for.
    fn entries_max(&self, reply: &Writer) -> usize {
        /// An id, a name and a value that are empty, and the figures of one that is claimed.
        const ENTRY_BYTES_MIN: usize = 32;
        let left_bytes = self.bytes_max.saturating_sub(reply.len() - self.start);
        self.entries.min((left_bytes / ENTRY_BYTES_MIN).saturating_add(1))
    }

    /// Whether there is room for an entry. For the first one there is.
    pub(super) fn has_room(&self, reply: &Writer) -> bool {
        let has_bytes = reply.len() - self.start < self.bytes_max;
        self.entries > 0 && (has_bytes || !self.is_used)
    }

    /// An entry was written.
    pub(super) fn spend(&mut self) {
        (self.entries, self.is_used) = (self.entries - 1, true);
    }
}

/// Whether the stream has an entry behind this one.
pub(super) fn has_after(stream: StreamView<'_>, id: StreamId) -> bool {
    stream.last().is_some_and(|last| last.id > id)
}

/// Entries that others have held for too long, the longest first, if they are wanted. What waits for entries that
/// are gone is forgotten.
fn claimable(
    stream: &mut StreamGuard<'_>,
    reader: Reader<'_>,
    now_ms: i64,
    count: usize,
) -> Vec<(StreamId, Delivery)> {
    let Some(min_idle_ms) = reader.min_idle_ms else { return Vec::new() };
    let mut group = stream.group(reader.group).expect("the caller has seen it");
    let idle = group.idle_since(now_ms.saturating_sub(min_idle_ms), count);
    for id in idle.gone {
        group.release(id);
    }
    idle.there
}

/// What there is for a consumer.
pub(super) enum Found {
    /// Nothing now; it may be looked again then.
    Nothing { look_ms: Option<i64> },
    /// What it holds behind this id.
    Held(StreamId),
    /// What it can claim, and whether there is more that is new.
    Entries { claimable: Vec<(StreamId, Delivery)>, has_new: bool },
}

/// When one that waits to claim looks again: as soon as something may have been held for long enough. What is
/// delivered from now on, of which it is not told, is not before it looks next.
fn next_look_ms(
    stream: &mut StreamGuard<'_>,
    reader: Reader<'_>,
    min_idle_ms: i64,
    now_ms: i64,
) -> i64 {
    /// It does not look more often without a reason.
    const PERIOD_MS: i64 = 100;
    let mut group = stream.group(reader.group).expect("the caller has seen it");
    let idle = group.oldest_given_ms().map(|at_ms| at_ms.saturating_add(min_idle_ms));
    let period = now_ms.saturating_add(min_idle_ms.max(PERIOD_MS));
    idle.map_or(period, |idle| idle.min(period)).max(now_ms.saturating_add(1))
}

/// What one consumer is given of one stream.
pub(super) struct Reading<'a, 'b> {
    pub(super) reply: &'a mut Writer,
    pub(super) budget: &'a mut Budget,
    pub(super) reader: Reader<'b>,
    pub(super) now_ms: i64,
}

impl Reading<'_, '_> {
    /// What there is besides what the consumer holds.
    pub(super) fn find(&self, stream: &mut StreamGuard<'_>, count: usize) -> Found {
        let count = count.min(self.budget.entries_max(self.reply));
        let claimable = claimable(stream, self.reader, self.now_ms, count);
        let view = stream.view();
        let group = view.group(self.reader.group).expect("the caller has seen it");
        let has_new = has_after(view, group.last_id());
        if !claimable.is_empty() || has_new {
            return Found::Entries { claimable, has_new };
        }
        let look_ms = self
            .reader
            .min_idle_ms
            .map(|min_idle_ms| next_look_ms(stream, self.reader, min_idle_ms, self.now_ms));
        Found::Nothing { look_ms }
    }

    /// An entry, when it was delivered before this, and how often, if the command claims.
    fn write(&mut self, entry: &StreamEntry<'_>, before: Option<Delivery>) {
        if self.reader.min_idle_ms.is_none() {
            write_entry(self.reply, entry);
        } else {
            let (idle_ms, count) = before.map_or((0, 0), |before| {
                let idle_ms = self.now_ms.saturating_sub(before.at_ms).max(0);
                (idle_ms, i64::try_from(before.count).unwrap_or(i64::MAX))
            });
            self.reply.array(4);
            write_id(self.reply, entry.id);
            write_pairs(self.reply, entry);
            self.reply.int(idle_ms);
            self.reply.int(count);
        }
        self.budget.spend();
    }

    /// Entries that are claimed, and then those that the group was not given yet.
    pub(super) fn new_entries(
        &mut self,
        stream: &mut StreamGuard<'_>,
        claimable: Vec<(StreamId, Delivery)>,
        count: usize,
    ) {
        let (mark, mut written) = (self.reply.mark(), 0);
        let (mut claimed, mut ids) = (Vec::new(), Vec::new());
        let view = stream.view();
        let last_id = view.group(self.reader.group).expect("the caller has seen it").last_id();
        for (id, before) in claimable {
            if !self.budget.has_room(self.reply) {
                break;
            }
            let entry = view.get(id).expect("it was just seen");
            self.write(&entry, Some(before));
            claimed.push((id, before.again(self.now_ms)));
            written += 1;
        }
        let start = last_id.next().filter(|_| has_after(view, last_id));
        let new = start.map(|start| view.range(start, StreamId::MAX));
        for entry in new.into_iter().flatten().take(count - written) {
            if !self.budget.has_room(self.reply) {
                break;
            }
            self.write(&entry, None);
            ids.push(entry.id);
            written += 1;
        }
        self.reply.finish_array(mark, written);
        let at_ms = self.now_ms;
        let mut group = stream.group(self.reader.group).expect("the caller has seen it");
        let consumer = group.consumer(self.reader.consumer).expect("the caller has seen it");
        for (id, delivery) in claimed {
            group.deliver(consumer, id, delivery);
        }
        for id in ids {
            group.advance(id);
            if !self.reader.no_ack {
                group.deliver(consumer, id, Delivery { at_ms, count: 1 });
            }
        }
    }

    /// Entries that the consumer holds. None of them is claimed.
    pub(super) fn history(&mut self, stream: &mut StreamGuard<'_>, after: StreamId, count: usize) {
        let view = stream.view();
        let group = view.group(self.reader.group).expect("the caller has seen it");
        let consumer = group.consumer(self.reader.consumer).expect("the caller has seen it");
        let start = after.next().expect("the greatest id means something else");
        let (mark, mut written, mut again) = (self.reply.mark(), 0, Vec::new());
        for held in group.held_from(consumer, start).take(count) {
            if !self.budget.has_room(self.reply) {
                break;
            }
            match view.get(held.id) {
                Some(entry) => {
                    write_entry(self.reply, &entry);
                    again.push((held.id, held.delivery.again(self.now_ms)));
                }
                None => {
                    self.reply.array(2);
                    write_id(self.reply, held.id);
                    self.reply.null_array();
                }
            }
            self.budget.spend();
            written += 1;
        }
        self.reply.finish_array(mark, written);
        let mut group = stream.group(self.reader.group).expect("as above");
        let consumer = group.consumer(self.reader.consumer).expect("as above");
        again.into_iter().for_each(|(id, delivery)| group.deliver(consumer, id, delivery));
    }
}

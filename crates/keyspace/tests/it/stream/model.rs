//! Any commands, against a model of maps: what is read, what a crash leaves, and what a walk emits.

use keyspace::stream::{References, Removal};
use keyspace::walk::{
    Algorithm, Decoder, Element, Key, Options, Outcome, Step as WalkStep, Visitor,
};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    /// How far each id is from the one before, the shape of the entry, and a value.
    Add(Vec<(u64, u64, u8, Bytes)>),
    Delete(Vec<Index>),
    Remove(References, Vec<Index>),
    Keep(usize, Option<u64>),
    /// A trim that heeds what groups know, to so many entries, by units or not.
    KeepWith(References, usize, bool),
    KeepFrom(Index, Option<u64>),
    SetIds(u64, Option<u64>),
    CreateGroup(u8, Option<Index>),
    DestroyGroup(u8),
    CreateConsumer(u8, u8),
    DeleteConsumer(u8, u8),
    /// So many new entries.
    Read(u8, u8, usize),
    Acknowledge(u8, Vec<Index>),
    /// Of this producer, a message of this name, so many seconds later.
    Produce(u8, u8, i64),
    /// Takes out all entries, and lets ids begin anew.
    BeginAnew,
    KeepMessages(MessageLimits),
    /// What streams without messages are to keep.
    Configure(MessageLimits),
    Claim(u8, u8, Vec<Index>),
    /// Entries that are pending are given back to the group.
    GiveBack(u8, Vec<Index>),
    DeleteKey,
    /// Replaces the stream by a copy of it.
    Copy,
    /// Begins a walk, whose steps have so many bytes.
    Walk(usize, bool),
    Restart(usize),
    Crash(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let group = 0..2u8;
    let consumer = 0..3u8;
    let some = || prop::collection::vec(any::<Index>(), 1..12);
    let value = prop::collection::vec(b'a'..=b'c', 0..40);
    let value = prop_oneof![9 => value, 1 => Just(vec![b'x'; 400])];
    let entry = (0..3u64, 1..4u64, 0..4u8, value);
    let limit = prop::option::of(0..60u64);
    let references = prop_oneof![
        1 => Just(References::Keep),
        3 => Just(References::Delete),
        3 => Just(References::Acknowledged),
    ];
    prop_oneof![
        8 => prop::collection::vec(entry, 1..40).prop_map(Step::Add),
        3 => some().prop_map(Step::Delete),
        2 => (references.clone(), some()).prop_map(|(r, some)| Step::Remove(r, some)),
        1 => (0..80usize, limit.clone()).prop_map(|(count, limit)| Step::Keep(count, limit)),
        2 => (references, 0..80usize, any::<bool>())
            .prop_map(|(r, count, about)| Step::KeepWith(r, count, about)),
        1 => (any::<Index>(), limit).prop_map(|(index, limit)| Step::KeepFrom(index, limit)),
        1 => (prop_oneof![4 => 0..9u64, 1 => Just(1 << 40)], prop::option::of(0..500u64))
            .prop_map(|(up, added)| Step::SetIds(up, added)),
        1 => Just(Step::BeginAnew),
        2 => (group.clone(), any::<Option<Index>>()).prop_map(|(g, from)| Step::CreateGroup(g, from)),
        1 => group.clone().prop_map(Step::DestroyGroup),
        1 => (group.clone(), consumer.clone()).prop_map(|(g, c)| Step::CreateConsumer(g, c)),
        1 => (group.clone(), consumer.clone()).prop_map(|(g, c)| Step::DeleteConsumer(g, c)),
        6 => (group.clone(), consumer.clone(), 1..90usize).prop_map(|(g, c, n)| Step::Read(g, c, n)),
        4 => (group.clone(), some()).prop_map(|(g, some)| Step::Acknowledge(g, some)),
        2 => (group.clone(), some()).prop_map(|(g, some)| Step::GiveBack(g, some)),
        2 => (group, consumer, some()).prop_map(|(g, c, some)| Step::Claim(g, c, some)),
        4 => (0..3u8, 0..6u8, prop_oneof![5 => 0..3i64, 1 => -20..20i64]).prop_map(|(p, m, s)| Step::Produce(p, m, s)),
        1 => (1..9u32, 1..5u32).prop_map(|(duration_s, messages_max)| {
            Step::KeepMessages(MessageLimits { duration_s, messages_max })
        }),
        1 => prop_oneof![
            1 => Just(MessageLimits::default()),
            2 => (1..9u32, 1..5u32).prop_map(|(duration_s, messages_max)| {
                MessageLimits { duration_s, messages_max }
            }),
        ]
        .prop_map(Step::Configure),
        1 => Just(Step::DeleteKey),
        1 => Just(Step::Copy),
        2 => (50..3000usize, any::<bool>()).prop_map(|(bytes, whole)| Step::Walk(bytes, whole)),
        1 => (1..5usize).prop_map(Step::Restart),
        1 => (1..5usize).prop_map(Step::Crash),
    ]
}

/// A walk that is under way, and what it must emit.
struct Walked {
    expected: Option<Seen>,
    bytes: usize,
    decoder: Decoder,
    collector: Collector,
}

struct Checked {
    log: MemoryLog,
    keyspace: LoggedKeyspace,
    model: Option<Seen>,
    now_ms: i64,
    /// The entries of messages, in the order in which they were added.
    added: Vec<StreamId>,
    configured: MessageLimits,
    walked: Option<Walked>,
}

fn name(number: u8) -> Bytes {
    vec![b'a' + number]
}

impl Checked {
    fn new() -> Self {
        let log = MemoryLog::default();
        let mut keyspace = log.keyspace();
        keyspace.settings_mut().stream_node_max_entries = 20;
        let configured = MessageLimits::default();
        Self { keyspace, log, model: None, now_ms: 0, added: Vec::new(), configured, walked: None }
    }

    fn change<R>(&mut self, run: impl FnOnce(&mut StreamGuard<'_>) -> R) -> R {
        change(&mut self.keyspace, b"s", run)
    }

    /// The group of this number, made if there is none.
    fn group(&mut self, number: u8) -> (Bytes, &mut SeenGroup) {
        let name = name(number);
        self.change(|stream| stream.create_group(&name, StreamId::MIN, Some(0)));
        let groups = &mut self.model.get_or_insert_default().groups;
        let new = || SeenGroup { read: Some(0), ..SeenGroup::default() };
        (name.clone(), groups.entry(name).or_insert_with(new))
    }

    fn add(&mut self, entries: &[(u64, u64, u8, Bytes)]) {
        let mut last_id = self.model.as_ref().map_or(StreamId::MIN, |stream| stream.last_id);
        let mut added = Vec::new();
        for (ms, seq, shape, value) in entries {
            let first_seq = if *ms > 0 { 0 } else { last_id.seq };
            last_id = StreamId::new(last_id.ms + ms, first_seq + seq);
            let pairs: &[(&[u8], &[u8])] = match shape {
                0 | 1 => &[(b"name", value)],
                2 => &[(b"name", value), (b"", b"1")],
                _ => &[(value, value), (b"x", b"y"), (b"x", b"z")],
            };
            let pairs = pairs.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
            added.push((last_id, pairs.collect::<Vec<_>>()));
        }
        self.change(|stream| {
            for (id, pairs) in &added {
                let flat: Vec<&[u8]> = pairs.iter().flat_map(|(n, v)| [&n[..], &v[..]]).collect();
                stream.append(*id, &flat);
            }
        });
        let stream = self.model.get_or_insert_default();
        (stream.last_id, stream.added) = (last_id, stream.added + added.len() as u64);
        stream.entries.append(&mut added);
    }

    fn trim(&mut self, keep: Keep, about: Option<u64>) {
        let removed = self.change(|stream| {
            let removed = stream.trim(Trim { keep, about });
            stream.create();
            removed
        });
        let entries = &mut self.model.get_or_insert_default().entries;
        let goes = match keep {
            Keep::Newest(count) => {
                entries.len().saturating_sub(usize::try_from(count).expect("few"))
            }
            Keep::From(id) => entries.iter().filter(|(it, _)| *it < id).count(),
        } as u64;
        match about {
            None => assert_eq!(removed, goes),
            Some(limit) => {
                assert!(removed <= goes && (limit == 0 || removed <= limit));
                // Nothing but the unit that would leave too few may be left.
                assert!(limit > 0 || goes - removed < 20);
            }
        }
        entries.drain(..usize::try_from(removed).expect("there are so many"));
    }

    fn delete(&mut self, indexes: &[Index]) {
        let Some(stream) = &mut self.model else { return };
        let mut ids = Vec::new();
        for index in indexes {
            // Some that are not there, too.
            let at = index.index(stream.entries.len() + 2);
            if at < stream.entries.len() {
                let (id, _) = stream.entries.remove(at);
                stream.max_deleted_id = stream.max_deleted_id.max(id);
                ids.push((id, true));
            } else {
                ids.push((StreamId::new(1 << 40, 0), false));
            }
        }
        self.change(|stream| {
            for (id, is_there) in ids {
                assert_eq!(stream.delete(id), is_there);
                assert!(!stream.delete(id));
            }
        });
    }

    /// Whether a group of the model has use for an entry.
    fn is_needed(&self, id: StreamId) -> bool {
        let mut groups = self.model.iter().flat_map(|stream| stream.groups.values());
        groups.any(|group| group.last_id < id || group.pending.contains_key(&id))
    }

    /// No group of the model waits for these.
    fn forget(&mut self, ids: &[StreamId]) {
        let groups = self.model.iter_mut().flat_map(|stream| stream.groups.values_mut());
        groups.for_each(|group| group.pending.retain(|id, _| !ids.contains(id)));
    }

    fn remove(&mut self, references: References, indexes: &[Index]) {
        let Some(stream) = &self.model else { return };
        let mut ids: Vec<StreamId> = stream.entries.iter().map(|(id, _)| *id).collect();
        // Some that are pending and not there, and some that never were.
        ids.extend(stream.groups.values().flat_map(|group| group.pending.keys().copied()));
        ids.push(StreamId::new(1 << 40, 0));
        for index in indexes {
            let id = *index.get(&ids);
            let is_needed = references == References::Acknowledged && self.is_needed(id);
            let entries = &self.model.as_ref().expect("it is there").entries;
            let place = entries.iter().position(|(other, _)| *other == id);
            let expected = match place {
                _ if is_needed => Removal::Needed,
                None => Removal::Absent,
                Some(place) => {
                    let stream = self.model.as_mut().expect("it is there");
                    stream.entries.remove(place);
                    stream.max_deleted_id = stream.max_deleted_id.max(id);
                    Removal::Removed
                }
            };
            if references == References::Delete {
                self.forget(&[id]);
            }
            assert_eq!(self.change(|stream| stream.delete_with(id, references)), expected);
        }
    }

    fn trim_with(&mut self, references: References, count: usize, is_about: bool) {
        if self.model.is_none() {
            return;
        }
        let trim = Trim { keep: Keep::Newest(count as u64), about: is_about.then_some(0) };
        let removed = self.change(|stream| stream.trim_with(trim, references));
        let entries = &self.model.as_ref().expect("it is there").entries;
        let goes = entries.len().saturating_sub(count);
        let mut ids: Vec<StreamId> = entries.iter().map(|(id, _)| *id).collect();
        if is_about {
            // What goes is tested without groups; here, that it is not what is needed.
            let left =
                self.keyspace.read::<Stream>(DB0, b"s").expect("a stream").expect("it is there");
            let left: Vec<_> =
                left.range(StreamId::MIN, StreamId::MAX).map(|entry| entry.id).collect();
            ids.retain(|id| !left.contains(id));
            assert!(ids.len() <= goes && ids.len() as u64 == removed);
        } else if references != References::Acknowledged {
            ids.truncate(goes);
        }
        if references == References::Acknowledged {
            let before = ids.len();
            ids.retain(|id| !self.is_needed(*id));
            assert!(!is_about || ids.len() == before, "a group needs what is gone");
            ids.truncate(goes);
        }
        assert_eq!(removed, ids.len() as u64);
        if references == References::Delete {
            self.forget(&ids);
        }
        self.model.as_mut().expect("it is there").entries.retain(|(id, _)| !ids.contains(id));
    }

    /// Adds a message, unless it is known.
    fn produce(&mut self, producer: u8, message: u8, later_s: i64) {
        let (producer, message) = (name(producer), name(message));
        self.now_ms = (self.now_ms + later_s * 1000).max(0);
        let (now_ms, now) = (self.now_ms, self.now_ms.unsigned_abs());
        let stream = self.model.get_or_insert_default();
        if stream.messages.is_empty() && self.configured != MessageLimits::default() {
            stream.limits.get_or_insert(self.configured);
        }
        let last_id = stream.last_id;
        let next = StreamId::new(last_id.ms, last_id.seq + 1);
        let id = if now > last_id.ms { StreamId::new(now, 0) } else { next };
        let limits = stream.limits.unwrap_or_default();
        let is_known =
            |of: &SeenMessage| now.abs_diff(of.at_ms) < u64::from(limits.duration_s) * 1000;
        let is_same = |of: &SeenMessage| (&of.producer, &of.name) == (&producer, &message);
        let mut messages = stream.messages.iter();
        let known = messages.find(|(_, of)| is_same(of) && is_known(of)).map(|(id, _)| *id);
        let found = self.change(|stream| {
            let found = stream.view().message(&producer, &message, now_ms);
            if found.is_none() {
                stream.append(id, &[b"f", &message]);
                stream.note_message(&producer, &message, id, now_ms);
            }
            stream.create();
            found
        });
        assert_eq!(found, known);
        if found.is_some() {
            return;
        }
        let stream = self.model.get_or_insert_default();
        stream.entries.push((id, vec![(b"f".to_vec(), message.clone())]));
        (stream.last_id, stream.added) = (id, stream.added + 1);
        let messages = &mut stream.messages;
        self.added.retain(|id| messages.contains_key(id));
        let old = self.added.iter().take(4).take_while(|id| !is_known(&messages[*id]));
        let old: Vec<StreamId> = old.copied().collect();
        messages.retain(|it, of| *it != id && !old.contains(it) && !is_same(of));
        self.added.retain(|id| messages.contains_key(id));
        let (producer, name) = (producer.clone(), message.clone());
        let of_producer = self.added.iter().filter(|id| messages[*id].producer == producer);
        let of_producer: Vec<StreamId> = of_producer.copied().collect();
        if of_producer.len() >= limits.messages_max as usize {
            messages.remove(&of_producer[0]);
        }
        messages.insert(id, SeenMessage { producer, name, at_ms: now });
        self.added.push(id);
    }

    fn read(&mut self, group: u8, consumer: u8, count: usize) {
        self.now_ms += 1;
        let now_ms = self.now_ms;
        let (group, _) = self.group(group);
        let consumer = name(consumer);
        let ids: Vec<StreamId> = {
            let stream = self.model.as_ref().expect("it has a group");
            let after = stream.groups[&group].last_id;
            let ids = stream.entries.iter().map(|(id, _)| *id).filter(|id| *id > after);
            ids.take(count).collect()
        };
        let read = self.change(|stream| {
            let mut group = stream.group(&group).expect("it is there");
            let number = group.consumer(&consumer);
            let number = number.unwrap_or_else(|| group.create_consumer(&consumer, now_ms));
            for id in &ids {
                group.advance(*id);
                group.deliver(number, *id, Delivery { at_ms: now_ms, count: 1 });
            }
            group.note_seen(number, now_ms, !ids.is_empty());
            group.view().entries_read()
        });
        let stream = self.model.as_mut().expect("it has a group");
        let group = stream.groups.get_mut(&group).expect("it is there");
        let of = group.consumers.entry(consumer.clone()).or_insert((now_ms, None));
        *of = (now_ms, if ids.is_empty() { of.1 } else { Some(now_ms) });
        // When this is known is tested elsewhere.
        group.read = read;
        group.last_id = ids.last().copied().unwrap_or(group.last_id);
        let delivery = Delivery { at_ms: now_ms, count: 1 };
        group.pending.extend(ids.into_iter().map(|id| (id, (consumer.clone(), delivery))));
    }

    fn pending_of(&self, group: &[u8], indexes: &[Index]) -> Vec<StreamId> {
        let pending = &self.model.as_ref().expect("it has a group").groups[group].pending;
        let ids: Vec<StreamId> = pending.keys().copied().collect();
        if ids.is_empty() {
            return Vec::new();
        }
        indexes.iter().map(|index| *index.get(&ids)).collect()
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Add(entries) => self.add(entries),
            Step::Delete(indexes) => self.delete(indexes),
            Step::Remove(references, indexes) => self.remove(*references, indexes),
            Step::KeepWith(references, count, is_about) => {
                self.trim_with(*references, *count, *is_about);
            }
            Step::Keep(count, about) => self.trim(Keep::Newest(*count as u64), *about),
            Step::KeepFrom(index, about) => {
                let entries = self.model.as_ref().map_or(&[][..], |stream| &stream.entries);
                let id = if entries.is_empty() { id(9, 9) } else { index.get(entries).0 };
                self.trim(Keep::From(id), *about);
            }
            Step::SetIds(up, added) => {
                let last_id = self.model.get_or_insert_default().last_id;
                let last_id = StreamId::new(last_id.ms + up, last_id.seq + up);
                self.change(|stream| stream.set_ids(last_id, *added, None));
                let stream = self.model.get_or_insert_default();
                (stream.last_id, stream.added) = (last_id, added.unwrap_or(stream.added));
            }
            Step::BeginAnew => {
                self.trim(Keep::Newest(0), None);
                self.change(|stream| stream.set_ids(StreamId::MIN, None, None));
                self.model.get_or_insert_default().last_id = StreamId::MIN;
            }
            Step::CreateGroup(group, from) => {
                let entries = self.model.as_ref().map_or(&[][..], |stream| &stream.entries);
                let from = from.filter(|_| !entries.is_empty());
                let last_id = from.map_or(StreamId::MIN, |from| from.get(entries).0);
                let name = name(*group);
                let is_new = self.change(|stream| {
                    let is_new = stream.create_group(&name, last_id, None);
                    assert!(!stream.create_group(&name, StreamId::MAX, None));
                    is_new
                });
                let groups = &mut self.model.get_or_insert_default().groups;
                assert_eq!(is_new, !groups.contains_key(&name));
                groups.entry(name).or_insert(SeenGroup { last_id, ..SeenGroup::default() });
            }
            Step::DestroyGroup(group) => {
                let name = name(*group);
                let was_there = self.change(|stream| {
                    stream.create();
                    stream.destroy_group(&name)
                });
                let groups = &mut self.model.get_or_insert_default().groups;
                assert_eq!(was_there, groups.remove(&name).is_some());
            }
            Step::CreateConsumer(group, consumer) => self.read(*group, *consumer, 0),
            Step::DeleteConsumer(group, consumer) => {
                let (group, of) = self.group(*group);
                let name = name(*consumer);
                let before = of.pending.len();
                of.pending.retain(|_, (consumer, _)| *consumer != name);
                let held = of.consumers.remove(&name).map(|_| before - of.pending.len());
                let deleted = self.change(|stream| {
                    let mut group = stream.group(&group).expect("it is there");
                    group.consumer(&name).map(|consumer| group.delete_consumer(consumer))
                });
                assert_eq!(deleted, held);
            }
            Step::Read(group, consumer, count) => self.read(*group, *consumer, *count),
            Step::Acknowledge(group, indexes) => {
                let (group, _) = self.group(*group);
                let ids = self.pending_of(&group, indexes);
                let released = self.change(|stream| {
                    let mut group = stream.group(&group).expect("it is there");
                    ids.iter().filter(|id| group.release(**id)).count()
                });
                let stream = self.model.as_mut().expect("it has a group");
                let pending = &mut stream.groups.get_mut(&group).expect("it is there").pending;
                let removed = ids.iter().filter(|id| pending.remove(*id).is_some()).count();
                assert_eq!(released, removed);
            }
            Step::Claim(group, consumer, indexes) => {
                self.read(*group, *consumer, 0);
                let (group, _) = self.group(*group);
                let (ids, name) = (self.pending_of(&group, indexes), name(*consumer));
                let delivery = Delivery { at_ms: -1, count: 9 };
                self.change(|stream| {
                    let mut group = stream.group(&group).expect("it is there");
                    let consumer = group.consumer(&name).expect("it was made");
                    ids.iter().for_each(|id| group.deliver(consumer, *id, delivery));
                });
                let stream = self.model.as_mut().expect("it has a group");
                let pending = &mut stream.groups.get_mut(&group).expect("it is there").pending;
                pending.extend(ids.into_iter().map(|id| (id, (name.clone(), delivery))));
            }
            Step::GiveBack(group, indexes) => {
                let (group, _) = self.group(*group);
                let ids = self.pending_of(&group, indexes);
                self.change(|stream| {
                    let mut group = stream.group(&group).expect("it is there");
                    ids.iter().for_each(|id| group.give_back(*id, 7));
                });
                let stream = self.model.as_mut().expect("it has a group");
                let pending = &mut stream.groups.get_mut(&group).expect("it is there").pending;
                let given_back = Delivery { at_ms: 0, count: 7 };
                pending.extend(ids.into_iter().map(|id| (id, (Bytes::new(), given_back))));
            }
            Step::Produce(producer, message, later_s) => {
                self.produce(*producer, *message, *later_s)
            }
            Step::KeepMessages(limits) => {
                self.change(|stream| {
                    stream.create();
                    stream.set_message_limits(*limits);
                });
                let stream = self.model.get_or_insert_default();
                // The same again forget nothing.
                if stream.limits.replace(*limits) != Some(*limits) {
                    stream.messages.clear();
                }
            }
            Step::Configure(limits) => self.configured = *limits,
            Step::DeleteKey => {
                assert_eq!(self.keyspace.delete(DB0, b"s"), self.model.take().is_some());
            }
            Step::Copy => {
                if self.keyspace.copy(DB0, b"s", DB0, b"copy") {
                    self.keyspace.rename(DB0, b"copy", DB0, b"s");
                }
            }
            Step::Walk(bytes, is_whole) => self.begin_walk(*bytes, *is_whole),
            Step::Restart(nth) => {
                self.finish_walk();
                while self.keyspace.free_step(100) {}
                self.keyspace = self.log.replay(|at| at % nth == 0);
            }
            Step::Crash(nth) => {
                self.walked = None;
                self.keyspace = self.log.replay_after_crash(|at| at % nth == 0);
            }
        }
        self.keyspace.settings_mut().stream_node_max_entries = 20;
        self.keyspace.settings_mut().message_limits = self.configured;
        self.walk_step();
    }

    fn begin_walk(&mut self, bytes: usize, is_whole: bool) {
        if self.walked.is_some() || self.keyspace.is_walked() {
            return;
        }
        let whole_bytes_max = if is_whole { 4096 } else { 0 };
        let algorithm =
            if bytes.is_multiple_of(5) { Algorithm::CopyOnUpdate } else { Algorithm::Piggyback };
        let options =
            Options { algorithm, chunk_bytes: 500, whole_bytes_max, ..Options::default() };
        self.keyspace.begin_walk(options).expect("all is in memory");
        let (decoder, collector) = (Decoder::default(), Collector::default());
        self.walked = Some(Walked { expected: self.model.clone(), bytes, decoder, collector });
    }

    /// Goes on with the walk. Whether it goes on.
    fn walk_step(&mut self) -> bool {
        let Some(walked) = &mut self.walked else { return false };
        match self.keyspace.walk_step(walked.bytes) {
            WalkStep::Chunk(chunk) => {
                walked.decoder.decode(&chunk, &mut walked.collector).expect("well-formed");
            }
            WalkStep::More => {}
            WalkStep::Idle => panic!("a walk is under way"),
            WalkStep::Over(outcome) => {
                assert_eq!(outcome, Outcome::Complete);
                let walked = self.walked.take().expect("as above");
                assert!(walked.decoder.is_finished());
                assert_eq!(walked.collector.stream(), walked.expected, "what was walked");
                return false;
            }
        }
        true
    }

    fn finish_walk(&mut self) {
        while self.walk_step() {}
    }

    fn check(&mut self) {
        let read = seen_in(&mut self.keyspace, b"s");
        assert_eq!(read, self.model);
        let Some(model) = &self.model else { return };
        let stream = self.keyspace.read::<Stream>(DB0, b"s").expect("a stream").expect("there");
        assert_eq!(stream.len(), model.entries.len());
        let ids: Vec<StreamId> = model.entries.iter().map(|(id, _)| *id).collect();
        let back = stream.range_back(StreamId::MIN, StreamId::MAX).map(|entry| entry.id);
        assert!(back.eq(ids.iter().rev().copied()));
        assert_eq!(stream.first().map(|entry| entry.id), ids.first().copied());
        assert_eq!(stream.last().map(|entry| entry.id), ids.last().copied());
        let third = ids.len() / 3;
        let Some((start, end)) = ids.get(third).zip(ids.get(2 * third)) else { return };
        assert!(stream.get(*start).is_some_and(|entry| entry.id == *start));
        assert!(
            stream
                .range(*start, *end)
                .map(|entry| entry.id)
                .eq(ids[third..=2 * third].iter().copied())
        );
        let back = stream.range_back(*start, *end).map(|entry| entry.id);
        assert!(back.eq(ids[third..=2 * third].iter().rev().copied()));
    }
}

/// The records that a walk emits.
#[derive(Default)]
struct Collector {
    records: Vec<(Bytes, Bytes)>,
    count: u64,
    units: u64,
    /// Nodes that begin a unit.
    first_nodes: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("never")]
struct Never;

impl Visitor for Collector {
    type Error = Never;

    fn begin(&mut self, key: &Key<'_>) -> Result<(), Never> {
        assert_eq!((key.key, key.value_type), (&b"s"[..], Type::Stream));
        self.count += key.count;
        Ok(())
    }

    fn element(&mut self, element: Element<'_>) -> Result<(), Never> {
        match element {
            Element::Stream(root) => {
                let mut value = vec![0];
                let max = root.max_deleted_id;
                for number in
                    [root.last_id.ms, root.last_id.seq, root.entries_added, max.ms, max.seq, 0, 0]
                {
                    base::varint::put(&mut value, number);
                }
                self.units = root.units;
                self.records.push((Vec::new(), value));
            }
            Element::Record(name, value) => {
                let read = StreamRecord::read(name, value).expect("well-formed");
                self.first_nodes +=
                    u64::from(matches!(read, StreamRecord::Node { is_first: true, .. }));
                self.records.push((name.to_vec(), value.to_vec()));
            }
            _ => panic!("{element:?}"),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Never> {
        Ok(())
    }
}

impl Collector {
    /// The stream that these records make.
    fn stream(&self) -> Option<Seen> {
        assert_eq!(self.records.len() as u64, self.count);
        assert_eq!(self.first_nodes, self.units);
        let mut keyspace = Keyspace::new(NoJournal, SEED, 4);
        for (at, (sub, value)) in (1..).zip(&self.records) {
            let kind = match sub.first() {
                None => RecordKind::Stream,
                Some(0) => RecordKind::StreamNode,
                Some(1) => RecordKind::StreamGroup,
                Some(2) => RecordKind::StreamConsumer,
                Some(3) => RecordKind::StreamPending,
                _ => RecordKind::StreamProducer,
            };
            let record = if kind == RecordKind::Stream {
                Record::root(kind, DbId(0), b"s", ObjectId(1), value, None)
            } else {
                Record::element(kind, ObjectId(1), sub, value)
            };
            let addr = RecordAddr::new(SegmentId(1), at);
            let mut retired = Vec::new();
            keyspace.apply(&record, addr, Lsn(1), &mut retired).expect("well-formed");
            assert!(retired.is_empty(), "each of them once");
        }
        keyspace.settle(&mut Vec::new()).expect("well-formed");
        seen_in(&mut keyspace, b"s")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_stream_is_its_maps_and_survives_crashes(
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut checked = Checked::new();
        for step in &steps {
            checked.step(step);
            checked.check();
            checked.log.key_counts();
        }
        checked.finish_walk();
        for nth in [1, 2, usize::MAX] {
            while checked.keyspace.free_step(100) {}
            checked.keyspace = checked.log.replay(|at| at % nth == 0);
            checked.check();
        }
        checked.keyspace.delete(DB0, b"s");
        while checked.keyspace.free_step(100) {}
        let records = checked.log.records();
        let is_live = |kind: RecordKind, is_retired: bool| !kind.is_delete() && !is_retired;
        let live = records.iter().filter(|it| is_live(it.kind, it.is_retired)).count();
        prop_assert_eq!(live, 0, "nothing is left of it");
    }
}

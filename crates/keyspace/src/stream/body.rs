//! A stream as the body of an object: its entries and groups, and their records.

use std::collections::BTreeMap;

use base::{ObjectId, RecordAddr, RecordKind, varint};

use super::StreamId;
use super::entries::Entries;
use super::groups::Groups;
use super::name::Name;
use super::node::Node;
use super::producers::Producers;
use super::tracker::{Kept, Tracker};
use crate::hasher::KeyHasher;
use crate::object::Large;
use crate::recorder::Recorder;
use crate::walk::Stream as Emitted;

/// See the file's top.
#[derive(Default)]
pub(crate) struct LargeStream {
    pub(super) entries: Entries,
    pub(super) groups: Groups,
    pub(super) producers: Producers,
    pub(super) tracker: Tracker,
    /// Records that were not taken over yet: all while they are gathered, later those whose group or consumer is
    /// still to come.
    waiting: BTreeMap<Name, (RecordAddr, Box<[u8]>)>,
    /// Where an approximate trim goes on that keeps what groups need. It is not logged.
    pub(super) trim_from: StreamId,
    /// Its root was logged, or has come from the log.
    pub(super) is_rooted: bool,
}

impl LargeStream {
    /// The next name after `after`, or the first.
    fn next_name(&self, after: Option<Name>) -> Option<Name> {
        let node = match after {
            None => self.entries.next_master(None),
            Some(Name::Node(master)) => self.entries.next_master(Some(master)),
            Some(_) => None,
        };
        let name = node.map(Name::Node).or_else(|| self.groups.next_name(after));
        name.or_else(|| self.producers.next_name(after))
    }

    /// Writes the value of a record, and returns where that is; `None` if there is nothing of this name.
    fn put(&self, name: Name, out: &mut Vec<u8>) -> Option<Option<RecordAddr>> {
        out.clear();
        match name {
            Name::Node(master) => self.entries.put(master, out),
            Name::Message(_) | Name::Limits => self.producers.put(name, out),
            name => self.groups.put(name, out),
        }
    }

    fn set_addr(&mut self, name: Name, addr: Option<RecordAddr>) {
        match name {
            Name::Node(master) => self.entries.set_addr(master, addr),
            Name::Message(_) | Name::Limits => self.producers.set_addr(name, addr),
            name => self.groups.set_addr(name, addr),
        }
    }

    /// A stream whose root was logged; its elements are still to come.
    pub(crate) fn rooted() -> Self {
        Self { is_rooted: true, ..Self::default() }
    }

    /// The name that the last node's record has, as the value of a root's record says it.
    pub(crate) fn last_node_of(root: &[u8]) -> Option<Box<[u8]>> {
        Entries::last_node_of(root).map(|master| Box::from(&*Name::Node(master).sub()))
    }

    /// See [`Entries::has_stale_root`].
    pub(crate) fn has_stale_root(&self) -> bool {
        self.entries.has_stale_root()
    }

    /// See [`Entries::note_root`].
    pub(crate) fn note_root(&mut self) {
        self.entries.note_root();
    }

    /// Of the last unit the last node alone was read.
    pub(crate) fn note_partial_unit(&mut self) {
        self.entries.note_partial_unit();
    }

    /// Puts the end of the stream behind what the log had of it; see [`super::end`].
    pub(super) fn join(&mut self, end: Self) {
        self.entries.join(end.entries);
        self.is_rooted = true;
    }

    /// Logs what has changed since the last time. Whether anything was logged, and whether the root must be, too.
    pub(super) fn log(&mut self, id: ObjectId, recorder: &mut Recorder) -> (bool, bool) {
        let touched = self.tracker.take_touched();
        let mut value = Vec::new();
        let mut is_logged = false;
        for (name, old) in &touched {
            if self.put(*name, &mut value).is_some() {
                // It may wait, of a consumer that is lost.
                let old = old.or_else(|| self.waiting.remove(name).map(|(addr, _)| addr));
                let addr = recorder.log_element(name.kind(), id, &name.sub(), &value, old);
                self.set_addr(*name, addr);
                is_logged = true;
            }
        }
        // What belongs to something goes before it.
        for (name, old) in touched.into_iter().rev() {
            if self.put(name, &mut value).is_none() {
                recorder.log_element_deleted(id, &name.sub(), old);
                is_logged |= old.is_some();
            }
        }
        let is_root_touched = std::mem::take(&mut self.tracker.is_root_touched);
        let was_rooted = std::mem::replace(&mut self.is_rooted, true);
        let is_root_due = is_root_touched || !was_rooted || self.entries.has_stale_root();
        if is_root_due {
            self.entries.note_root();
        }
        (is_logged, is_root_due)
    }

    /// Logs what these names have, with `old` for the record that each one supersedes.
    fn log_names(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        names: impl IntoIterator<Item = Name>,
        old: impl Fn(Option<RecordAddr>) -> Old,
    ) {
        let mut value = Vec::new();
        for name in names {
            let Some(addr) = self.put(name, &mut value) else { continue };
            if let Old::Superseded(old) = old(addr) {
                let addr = recorder.log_element(name.kind(), id, &name.sub(), &value, old);
                self.set_addr(name, addr);
            }
        }
    }

    /// The names of a piece of what is logged anew.
    fn piece(&self, piece: usize) -> Option<Vec<Name>> {
        let Some(piece) = piece.checked_sub(self.entries.nodes().len()) else {
            let node = self.entries.nodes().get(piece).expect("it is one of them");
            return Some(vec![Name::Node(node.master)]);
        };
        match piece.checked_sub(self.producers.pieces()) {
            None => Some(self.producers.piece(piece)),
            Some(piece) => self.groups.piece(piece),
        }
    }

    /// Takes over what waits and can be taken over.
    fn settle_waiting(&mut self) {
        for (name, (addr, value)) in std::mem::take(&mut self.waiting) {
            let is_taken = match name {
                Name::Node(_) => unreachable!("nodes wait for nothing"),
                Name::Message(_) | Name::Limits => {
                    self.producers.apply(name, &value, addr);
                    true
                }
                name => self.groups.apply(name, &value, addr).is_ok(),
            };
            if !is_taken {
                self.groups.note_orphan(name, &value);
                self.waiting.insert(name, (addr, value));
            }
        }
    }

    fn apply_to_group(&mut self, name: Name, value: &[u8], addr: RecordAddr) -> Option<RecordAddr> {
        match self.groups.apply(name, value, addr) {
            Ok(old) => {
                let before = self.waiting.remove(&name).map(|(addr, _)| addr);
                if old.is_none() && !matches!(name, Name::Pending(..)) && !self.waiting.is_empty() {
                    self.settle_waiting();
                }
                old.or(before)
            }
            Err(_) => {
                self.groups.note_orphan(name, value);
                self.waiting.insert(name, (addr, value.into())).map(|(addr, _)| addr)
            }
        }
    }
}

/// What becomes of the record that something has when it is logged anew.
enum Old {
    /// It stays, and nothing is logged.
    Stays,
    /// It is superseded, unless another log has it.
    Superseded(Option<RecordAddr>),
}

impl Large for LargeStream {
    fn empty() -> Self {
        Self::default()
    }

    fn root_value(&self, out: &mut Vec<u8>) {
        self.entries.put_root(out);
    }

    fn apply_root(&mut self, value: &[u8]) {
        self.is_rooted = true;
        self.entries.apply_root(value);
    }

    fn gather(
        &mut self,
        _: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        self.waiting.insert(Name::of_sub(sub)?, (addr, value.into())).map(|(addr, _)| addr)
    }

    fn gather_deleted(&mut self, _: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        self.waiting.remove(&Name::of_sub(sub)?).map(|(addr, _)| addr)
    }

    fn arrange(&mut self, _: KeyHasher) {
        let nodes = self.waiting.extract_if(.., |name, _| matches!(name, Name::Node(_)));
        let nodes: Vec<_> = nodes.collect();
        let nodes = nodes.into_iter().map(|(name, (addr, value))| {
            let Name::Node(master) = name else { unreachable!("they were selected") };
            Node::of_record(master, &value, Some(addr)).expect("it was checked")
        });
        self.entries.arrange(nodes);
        self.settle_waiting();
    }

    fn apply_element(
        &mut self,
        _: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        match Name::of_sub(sub)? {
            Name::Node(master) => {
                let (node, added) = Node::of_record(master, value, Some(addr))?;
                self.entries.apply(node, added)
            }
            name @ (Name::Message(_) | Name::Limits) => self.producers.apply(name, value, addr),
            name => self.apply_to_group(name, value, addr),
        }
    }

    fn apply_deleted(&mut self, _: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        let name = Name::of_sub(sub)?;
        if let Name::Node(master) = name {
            return self.entries.apply_deleted(master);
        }
        if matches!(name, Name::Message(_) | Name::Limits) {
            return self.producers.apply_deleted(name);
        }
        if let Some((addr, _)) = self.waiting.remove(&name) {
            return Some(addr);
        }
        let gone = self.groups.apply_deleted(name);
        for (name, addr, value) in gone.orphans {
            self.groups.note_orphan(name, &value);
            self.waiting.insert(name, (addr, value.into()));
        }
        gone.addr
    }

    fn len(&self) -> usize {
        // The root counts: a stream without entries and groups is one all the same.
        let of_groups = self.groups.elements() + self.waiting.len();
        let elements = self.entries.nodes().len() + of_groups + self.producers.elements();
        elements + usize::from(self.is_rooted)
    }

    fn duplicate(&self, id: ObjectId, recorder: &mut Recorder) -> Self {
        let (entries, groups) = (self.entries.copy(), self.groups.copy());
        let producers = self.producers.copy();
        let mut copy = Self { entries, groups, producers, is_rooted: true, ..Self::default() };
        let mut name = copy.next_name(None);
        while let Some(next) = name {
            copy.log_names(id, recorder, [next], |_| Old::Superseded(None));
            name = copy.next_name(Some(next));
        }
        copy
    }

    fn rewrite(&mut self, id: ObjectId, recorder: &mut Recorder, piece: usize) -> Option<usize> {
        // Another log, which may have none yet.
        recorder.journal.declare(RecordKind::Stream);
        if self.producers.elements() > 0 {
            recorder.journal.declare(RecordKind::StreamProducer);
        }
        let names = self.piece(piece)?;
        let count = names.len();
        self.log_names(id, recorder, names, |_| Old::Superseded(None));
        Some(count)
    }

    fn rewrite_lost(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        piece: usize,
        is_lost: &dyn Fn(RecordAddr) -> bool,
    ) -> Option<usize> {
        let names = self.piece(piece)?;
        let count = names.len();
        self.log_names(id, recorder, names, |addr| match addr {
            Some(addr) if is_lost(addr) => Old::Superseded(Some(addr)),
            _ => Old::Stays,
        });
        Some(count)
    }

    fn encoding(&self) -> &'static str {
        "stream"
    }

    fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send> {
        let waiting = self.waiting.into_values().map(|(addr, _)| Some(addr));
        let of_groups = self.groups.into_addrs().chain(self.producers.into_addrs());
        Box::new(self.entries.into_addrs().chain(of_groups).chain(waiting))
    }

    fn allocated_bytes(&self, samples: usize) -> usize {
        let entries = self.entries.allocated_bytes(samples);
        entries + self.groups.allocated_bytes() + self.producers.allocated_bytes()
    }

    fn walked_count(&self) -> u64 {
        (self.len() - self.waiting.len()) as u64
    }

    fn open_shadow(&mut self) {
        let mut root = Vec::new();
        self.root_value(&mut root);
        self.tracker.open_shadow(root, self.entries.units() as u64);
    }

    fn shadow_bytes(&self) -> Option<usize> {
        self.tracker.shadow_bytes()
    }

    fn emit(&mut self, _: KeyHasher, stream: &mut Emitted) -> bool {
        let Some(mut shadow) = self.tracker.take_shadow() else { return true };
        if let Some((root, units)) = shadow.take_root() {
            emit_root(&root, units, stream);
        }
        let mut value = Vec::new();
        while !stream.is_spent() {
            let live = self.next_name(shadow.cursor);
            let Some((name, kept)) = shadow.next(live) else { return true };
            match kept {
                Kept::Absent => stream.note_look(),
                Kept::Old(value) => stream.named(&name.sub(), &value),
                Kept::Live => {
                    self.put(name, &mut value);
                    stream.named(&name.sub(), &value);
                }
            }
            shadow.cursor = Some(name);
        }
        self.tracker.put_back(shadow);
        false
    }

    fn emit_whole(&self, stream: &mut Emitted) {
        let mut value = Vec::new();
        self.root_value(&mut value);
        emit_root(&value, self.entries.units() as u64, stream);
        let mut name = self.next_name(None);
        while let Some(next) = name {
            self.put(next, &mut value);
            stream.named(&next.sub(), &value);
            name = self.next_name(Some(next));
        }
    }
}

/// Emits the value of a root, by the number of units.
fn emit_root(root: &[u8], units: u64, stream: &mut Emitted) {
    let mut name = Vec::new();
    varint::put(&mut name, units);
    stream.named(&name, root);
}

impl LargeStream {
    /// Gives out the value of the root, and the name and value of each element, as records have them.
    pub(super) fn for_each_record<E>(
        &self,
        root: impl FnOnce(&[u8]) -> Result<(), E>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut value = Vec::new();
        self.root_value(&mut value);
        root(&value)?;
        let mut name = self.next_name(None);
        while let Some(next) = name {
            self.put(next, &mut value);
            visit(&next.sub(), &value)?;
            name = self.next_name(Some(next));
        }
        Ok(())
    }
}

/// Whether a record of a stream's element can have this name and this value.
pub(crate) fn is_element(sub: &[u8], kind: base::RecordKind, value: &[u8]) -> bool {
    Name::of_sub(sub).is_some_and(|name| {
        name.kind() == kind
            && match name {
                Name::Node(master) => Node::of_record(master, value, None).is_some(),
                Name::Message(_) | Name::Limits => {
                    super::producers::Value::read(name, value).is_some()
                }
                name => super::group::is_value(name, value),
            }
    })
}

impl LargeStream {
    /// Whether an entry from `start` on may have been deleted, not trimmed.
    fn may_lack_from(&self, start: StreamId) -> bool {
        let max_deleted_id = self.entries.max_deleted_id();
        // What was deleted before the first entry leaves no gap.
        let is_within = self.entries.first().is_some_and(|first| first.id <= max_deleted_id);
        is_within && max_deleted_id != StreamId::MIN && start <= max_deleted_id
    }

    /// How many entries were added up to the one with this id, deleted ones too, if that can be told.
    pub(super) fn added_up_to(&self, id: StreamId) -> Option<u64> {
        let entries = &self.entries;
        let (added, last_id) = (entries.added(), entries.last_id());
        if added == 0 {
            return Some(0);
        }
        let Some(first) = entries.first() else {
            return (id <= last_id).then_some(added);
        };
        if id >= last_id {
            return (id == last_id).then_some(added);
        }
        let max_deleted_id = entries.max_deleted_id();
        let before_first = added.checked_sub(entries.len() as u64)?;
        if max_deleted_id != StreamId::MIN && max_deleted_id >= first.id || id > first.id {
            return None;
        }
        Some(if id == first.id { before_first + 1 } else { before_first })
    }

    /// How many entries a group has read when it was given the one with this id, which is the next one that is there.
    pub(super) fn read_with(&self, read: Option<u64>, id: StreamId) -> Option<u64> {
        match read {
            Some(read) if !self.may_lack_from(id) => Some(read.saturating_add(1)),
            _ if self.entries.added() > 0 => self.added_up_to(id),
            read => read,
        }
    }

    /// How many entries a group that has read so many, up to `last_id`, has still to be given.
    pub(super) fn lag(&self, read: Option<u64>, last_id: StreamId) -> Option<i64> {
        let added = self.entries.added();
        if added == 0 {
            return Some(0);
        }
        let read = read.filter(|_| !self.may_lack_from(last_id));
        let read = read.or_else(|| self.added_up_to(last_id))?;
        Some(added.cast_signed().wrapping_sub(read.cast_signed()))
    }
}

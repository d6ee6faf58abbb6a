//! The elements of a large hash, set or sorted set by name, each with a record of its own.
//!
//! # Invariants
//! - No name is there twice.
//! - An element that was logged has the address of its newest record.
//! - The table changes in this file alone, and what a walk has still to emit of it is kept before.

mod shadow;

use base::{ObjectId, Record, RecordAddr, RecordKind};

use crate::element::Element;
use crate::hasher::KeyHasher;
use crate::inspect;
use crate::recorder::Recorder;
use crate::sample;
use crate::table::Table;
use crate::walk::Stream;

use shadow::Shadow;

/// See the file's top.
pub(crate) struct Elements {
    table: Table<Element>,
    /// While a walk emits them.
    shadow: Option<Box<Shadow>>,
    /// The kind of their records.
    kind: RecordKind,
}

impl Elements {
    /// None yet; their records will be of this kind.
    pub(crate) fn new(kind: RecordKind) -> Self {
        Self { table: Table::new(), shadow: None, kind }
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.table.len()
    }

    /// The element with this name, whose hash is `hash`.
    pub(crate) fn find(&self, hash: u64, name: &[u8]) -> Option<&Element> {
        self.table.find(hash, name)
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Element> {
        self.table.iter()
    }

    /// A random one; every one is as likely.
    pub(crate) fn random(&self, rng: &mut fastrand::Rng) -> Option<&Element> {
        self.table.random(rng)
    }

    /// `count` different random ones, or all when there are fewer.
    pub(crate) fn sample(&self, count: usize, rng: &mut fastrand::Rng) -> Vec<&Element> {
        sample::distinct(&self.table, count, rng)
    }

    /// Visits about `count` elements, as [`crate::Keyspace::scan`] visits keys.
    pub(crate) fn scan<'a>(
        &'a self,
        hasher: KeyHasher,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&'a Element),
    ) -> u64 {
        let (mut cursor, mut visited) = (cursor, 0);
        loop {
            cursor = self.table.scan(hasher, cursor, |element| {
                visited += 1;
                visit(element);
            });
            if cursor == 0 || visited >= count {
                return cursor;
            }
        }
    }

    /// Adds an element that is not there, and logs it.
    pub(crate) fn add(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        hash: u64,
        name: &[u8],
        value: &[u8],
    ) -> &Element {
        self.add_until(id, recorder, hash, name, value, None)
    }

    /// As [`Elements::add`]; the element may expire.
    pub(crate) fn add_until(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        hash: u64,
        name: &[u8],
        value: &[u8],
        expires_at_ms: Option<i64>,
    ) -> &Element {
        if let Some(shadow) = &mut self.shadow {
            shadow.note_added(recorder.hasher, hash, name);
        }
        let mut element = Element::until(name, value, expires_at_ms);
        element.set_addr(log(self.kind, id, recorder, &element, None));
        let place = self.table.insert(recorder.hasher, hash, element);
        self.table.at(place)
    }

    /// Gives an element that does not expire another value, and logs that. Returns it, if it is there; it
    /// may lie elsewhere than before.
    // In two callers; a call of its own would be 30 instructions more for each.
    #[inline(always)]
    pub(crate) fn change(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        hash: u64,
        name: &[u8],
        value: &[u8],
    ) -> Option<&Element> {
        let element = self.table.find_mut(hash, name)?;
        let addr = recorder.log_element(self.kind, id, name, value, element.addr());
        match &mut self.shadow {
            None => element.set_value(value),
            Some(shadow) => shadow.change(recorder.hasher, hash, element, value, None),
        }
        element.set_addr(addr);
        Some(element)
    }

    /// Gives an element that is there another value and expiry, and logs that.
    pub(crate) fn change_until(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        hash: u64,
        name: &[u8],
        value: &[u8],
        expires_at_ms: Option<i64>,
    ) {
        let element = self.table.find_mut(hash, name).expect("the caller has found it");
        let old = element.addr();
        match &mut self.shadow {
            None => element.set(value, expires_at_ms),
            Some(shadow) => shadow.change(recorder.hasher, hash, element, value, expires_at_ms),
        }
        let addr = log(self.kind, id, recorder, element, old);
        element.set_addr(addr);
    }

    /// The name of one of the elements whose names have this hash that expires then.
    pub(crate) fn name_until(&self, hash: u64, hasher: KeyHasher, at_ms: i64) -> Option<&[u8]> {
        let is_it = |element: &Element| {
            element.expires_at_ms() == Some(at_ms) && hasher.hash(element.name()) == hash
        };
        self.table.find_by(hash, is_it).map(Element::name)
    }

    /// Removes an element, and logs that. Whether it was there.
    pub(crate) fn remove(&mut self, id: ObjectId, recorder: &mut Recorder, name: &[u8]) -> bool {
        let hash = recorder.hasher.hash(name);
        let Some(element) = self.table.remove(recorder.hasher, hash, name) else { return false };
        recorder.log_element_deleted(id, name, element.addr());
        if let Some(shadow) = &mut self.shadow {
            shadow.note_removed(recorder.hasher, hash, element);
        }
        true
    }

    /// Takes over an element's record. Returns the address of the one that it supersedes.
    pub(crate) fn apply(
        &mut self,
        hasher: KeyHasher,
        name: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        self.apply_until(hasher, name, value, None, addr)
    }

    /// As [`Elements::apply`]; the element may expire.
    pub(crate) fn apply_until(
        &mut self,
        hasher: KeyHasher,
        name: &[u8],
        value: &[u8],
        expires_at_ms: Option<i64>,
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        debug_assert!(self.shadow.is_none(), "what is fed from a log is not walked");
        let hash = hasher.hash(name);
        if let Some(element) = self.table.find_mut(hash, name) {
            let old = element.addr();
            element.set(value, expires_at_ms);
            element.set_addr(Some(addr));
            return old;
        }
        let mut element = Element::until(name, value, expires_at_ms);
        element.set_addr(Some(addr));
        self.table.insert(hasher, hash, element);
        None
    }

    /// Takes over a record that says that an element is gone. Returns the address of its record.
    pub(crate) fn apply_deleted(&mut self, hasher: KeyHasher, name: &[u8]) -> Option<RecordAddr> {
        self.table.remove(hasher, hasher.hash(name), name)?.addr()
    }

    /// See [`crate::object::Large::open_shadow`].
    pub(crate) fn open_shadow(&mut self) {
        self.shadow = Some(Box::new(Shadow::new()));
    }

    /// See [`crate::object::Large::shadow_bytes`].
    pub(crate) fn shadow_bytes(&self) -> Option<usize> {
        self.shadow.as_ref().map(|shadow| shadow.bytes())
    }

    /// See [`crate::object::Large::emit`].
    pub(crate) fn emit(&mut self, hasher: KeyHasher, stream: &mut Stream) -> bool {
        let Some(shadow) = &mut self.shadow else { return true };
        let is_last = shadow.emit(&self.table, hasher, stream);
        if is_last {
            self.shadow = None;
        }
        is_last
    }

    /// See [`crate::object::Large::emit_whole`].
    pub(crate) fn emit_whole(&self, stream: &mut Stream) {
        self.table.iter().for_each(|element| stream.element(element));
    }

    /// See [`crate::object::Large::rewrite`].
    pub(crate) fn rewrite(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        piece: usize,
    ) -> Option<usize> {
        let mut count = 0;
        for element in self.table.page_mut(piece)? {
            let addr = log(self.kind, id, recorder, element, None);
            element.set_addr(addr);
            count += 1;
        }
        Some(count)
    }

    /// See [`crate::object::Large::rewrite_lost`].
    pub(crate) fn rewrite_lost(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        piece: usize,
        is_lost: &dyn Fn(RecordAddr) -> bool,
    ) -> Option<usize> {
        let mut count = 0;
        for element in self.table.page_mut(piece)? {
            count += 1;
            if let Some(old) = element.addr().filter(|addr| is_lost(*addr)) {
                let addr = log(self.kind, id, recorder, element, Some(old));
                element.set_addr(addr);
            }
        }
        Some(count)
    }

    /// Takes them apart one by one, yielding the addresses of their records.
    pub(crate) fn into_addrs(self) -> impl Iterator<Item = Option<RecordAddr>> + Send {
        self.table.into_items().map(|element| element.addr())
    }

    /// See [`crate::object::Large::allocated_bytes`].
    pub(crate) fn allocated_bytes(&self, samples: usize) -> usize {
        let elements = self.table.iter();
        self.table.allocated_bytes()
            + inspect::sampled(elements, self.len(), samples, Element::block_bytes)
    }
}

/// Logs the state of an element, whose record was at `old`, and returns where it is now.
fn log(
    kind: RecordKind,
    id: ObjectId,
    recorder: &mut Recorder,
    element: &Element,
    old: Option<RecordAddr>,
) -> Option<RecordAddr> {
    let record = Record::element(kind, id, element.name(), element.value());
    recorder.log_element_record(&record.until(element.expires_at_ms()), old)
}

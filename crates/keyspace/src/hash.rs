//! Hashes: packed in the key's entry while they are small, an entry a field when large.
//!
//! # Invariants
//! - A packed hash alternates field and value and has no field twice.
//! - Every field of a large hash has the address of its own `HashField` record.
//! - The flag [`packed::LARGE_ENCODING`] says whether Redis would call the encoding `hashtable`;
//!   once set it stays. It has nothing to do with how the hash is really stored.

use base::{ObjectId, RecordAddr, RecordKind};

use crate::collection::{Cell, Closed, Collection, PackedKind, ValueRef};
use crate::element::Element;
use crate::elements::Elements;
use crate::entry::{Kind, Payload};
use crate::hasher::KeyHasher;
use crate::keyspace::body_of;
use crate::object::{Body, Large, Object};
use crate::packed::{self, LARGE_ENCODING, PACKED_BYTES_MAX, Packed};
use crate::recorder::Recorder;
use crate::sample;
use crate::value_type::Type;
use crate::walk::Stream;

/// The marker of hashes, for [`crate::Keyspace::read`] and [`crate::Keyspace::update`].
#[derive(Debug, Clone, Copy)]
pub struct Hash;

/// A hash with an entry a field.
pub(crate) struct LargeHash {
    fields: Elements,
    large_encoding: bool,
}

/// A hash, read.
#[derive(Clone, Copy)]
pub struct HashView<'a>(View<'a>);

#[derive(Clone, Copy)]
enum View<'a> {
    Packed(Packed<'a>),
    Large(&'a LargeHash, KeyHasher),
}

impl<'a> HashView<'a> {
    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.0 {
            View::Packed(packed) => packed.count() / 2,
            View::Large(hash, _) => hash.fields.len(),
        }
    }

    /// Whether there are none, which no key ever has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field.
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<&'a [u8]> {
        match self.0 {
            View::Packed(packed) => pairs(packed).find(|pair| pair.0 == field).map(|pair| pair.1),
            View::Large(hash, hasher) => {
                hash.fields.find(hasher.hash(field), field).map(Element::value)
            }
        }
    }

    /// Visits every field and value, in no order.
    pub fn for_each(&self, mut visit: impl FnMut(&'a [u8], &'a [u8])) {
        match self.0 {
            View::Packed(packed) => pairs(packed).for_each(|(field, value)| visit(field, value)),
            View::Large(hash, _) => {
                hash.fields.iter().for_each(|field| visit(field.name(), field.value()));
            }
        }
    }

    /// A random field and its value; every field is as likely.
    #[must_use]
    pub fn random(&self, rng: &mut fastrand::Rng) -> Option<(&'a [u8], &'a [u8])> {
        match self.0 {
            View::Packed(packed) => pairs(packed).nth(rng.usize(..self.len().max(1))),
            View::Large(hash, _) => hash.fields.random(rng).map(|f| (f.name(), f.value())),
        }
    }

    /// `count` different random fields and their values, or all when there are fewer.
    #[must_use]
    pub fn sample(&self, count: usize, rng: &mut fastrand::Rng) -> Vec<(&'a [u8], &'a [u8])> {
        match self.0 {
            View::Packed(packed) => sample::select(pairs(packed), self.len(), count, rng).collect(),
            View::Large(hash, _) => {
                let fields = hash.fields.sample(count, rng);
                fields.into_iter().map(|field| (field.name(), field.value())).collect()
            }
        }
    }

    /// Visits about `count` fields, as [`crate::Keyspace::scan`] visits keys.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&'a [u8], &'a [u8]),
    ) -> u64 {
        let View::Large(hash, hasher) = self.0 else {
            self.for_each(visit);
            return 0;
        };
        hash.fields.scan(hasher, cursor, count, |field| visit(field.name(), field.value()))
    }
}

/// A hash, to be changed.
pub struct HashGuard<'a> {
    cell: Cell<'a>,
    changed: bool,
    /// The packed bytes changed and wait to be logged.
    unlogged: bool,
}

impl HashGuard<'_> {
    /// The hash as it is now.
    #[must_use]
    pub fn view(&self) -> HashView<'_> {
        Hash::view(ValueRef(self.cell.entry.payload(), self.cell.recorder.hasher))
    }

    /// Sets a field. Whether it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.changed = true;
        let is_long = field.len().max(value.len()) > self.cell.settings.hash_max_listpack_value;
        if let Some(packed) = self.cell.packed() {
            let old = pairs(packed).find(|pair| pair.0 == field).map(|pair| pair.1);
            let fields = packed.count() / 2 + usize::from(old.is_none());
            let limit = self.cell.settings.hash_max_listpack_entries;
            let flags = if is_long || fields > limit { LARGE_ENCODING } else { packed.flags() };
            let size = |bytes: &[u8]| packed::element_bytes(bytes.len());
            let mut bytes = packed.bytes() + size(value);
            match old {
                Some(old) => bytes -= size(old),
                None => bytes += size(field),
            }
            let is_new = old.is_none();
            if bytes <= PACKED_BYTES_MAX {
                self.repack(flags, Some((field, value)), field);
                return is_new;
            }
            self.unpack();
        }
        self.set_large(field, value, is_long)
    }

    /// Removes a field. Whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        if let Some(packed) = self.cell.packed() {
            if !pairs(packed).any(|pair| pair.0 == field) {
                return false;
            }
            self.repack(packed.flags(), None, field);
            self.changed = true;
            return true;
        }
        let (id, hash, recorder) = self.large();
        let is_removed = hash.fields.remove(id, recorder, field);
        self.changed |= is_removed;
        is_removed
    }

    /// Rebuilds the packed bytes with `field` in its new state, in its old place.
    fn repack(&mut self, flags: u8, mut new: Option<(&[u8], &[u8])>, field: &[u8]) {
        let scratch = std::mem::take(self.cell.scratch);
        let mut out = scratch;
        packed::begin(&mut out, flags);
        let packed = self.cell.packed().expect("the caller saw it");
        for (name, value) in pairs(packed) {
            let kept = if name == field { new.take() } else { Some((name, value)) };
            if let Some((name, value)) = kept {
                packed::push(&mut out, name);
                packed::push(&mut out, value);
            }
        }
        if let Some((name, value)) = new {
            packed::push(&mut out, name);
            packed::push(&mut out, value);
        }
        *self.cell.scratch = out;
        self.cell.store_packed(Kind::HashPacked);
        self.unlogged = true;
    }

    /// Makes a packed hash a large one, every field logged.
    fn unpack(&mut self) {
        let Cell { entry, recorder, .. } = &mut self.cell;
        let Payload::Packed(_, bytes) = entry.payload() else { return };
        let packed = Packed::new(bytes);
        let mut hash = LargeHash::empty();
        hash.large_encoding = packed.flags() & LARGE_ENCODING != 0;
        let id = recorder.new_object_id();
        for (field, value) in pairs(packed) {
            hash.fields.add(id, recorder, recorder.hasher.hash(field), field, value);
        }
        entry.replace_object(Box::new(Object::new(id, Body::Hash(hash))));
        self.cell.log_key();
        self.unlogged = false;
    }

    fn large(&mut self) -> (ObjectId, &mut LargeHash, &mut Recorder) {
        let Cell { entry, recorder, .. } = &mut self.cell;
        let object = entry.object_mut().expect("a hash that is not packed is large");
        let id = object.id();
        match &mut object.body {
            Body::Hash(hash) => (id, hash, recorder),
            _ => unreachable!("the type was checked at lookup"),
        }
    }

    fn set_large(&mut self, name: &[u8], value: &[u8], is_long: bool) -> bool {
        let limit = self.cell.settings.hash_max_listpack_entries;
        let (id, hash, recorder) = self.large();
        let key_hash = recorder.hasher.hash(name);
        let is_new = hash.fields.change(id, recorder, key_hash, name, value).is_none();
        if is_new {
            hash.fields.add(id, recorder, key_hash, name, value);
        }
        if !hash.large_encoding && (is_long || hash.fields.len() > limit) {
            hash.large_encoding = true;
            self.cell.log_key();
        }
        is_new
    }
}

fn pairs(packed: Packed<'_>) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut elements = packed.iter();
    std::iter::from_fn(move || Some((elements.next()?, elements.next()?)))
}

impl Collection for Hash {
    type View<'a> = HashView<'a>;
    type Guard<'a> = HashGuard<'a>;
    const TYPE: Type = Type::Hash;

    fn packed_kind() -> Option<PackedKind> {
        Some(PackedKind(Kind::HashPacked))
    }

    fn view<'a>(value: ValueRef<'a>) -> HashView<'a> {
        HashView(match value.0 {
            Payload::Packed(_, bytes) => View::Packed(Packed::new(bytes)),
            Payload::Object(object) => View::Large(body_of!(object, Hash), value.1),
            Payload::Str(_) | Payload::Int(_) => unreachable!("the type was checked at lookup"),
        })
    }

    fn open<'a>(cell: Cell<'a>) -> HashGuard<'a> {
        HashGuard { cell, changed: false, unlogged: false }
    }

    fn close(mut guard: HashGuard<'_>) -> Closed {
        let empty = guard.view().is_empty();
        if guard.unlogged && !empty {
            guard.cell.log_key();
        }
        Closed { changed: guard.changed, empty, is_quiet: false }
    }
}

impl Large for LargeHash {
    fn empty() -> Self {
        Self { fields: Elements::new(RecordKind::HashField), large_encoding: false }
    }

    fn root_value(&self, out: &mut Vec<u8>) {
        out.push(if self.large_encoding { LARGE_ENCODING } else { 0 });
    }

    fn apply_root(&mut self, value: &[u8]) {
        self.large_encoding = value.first().is_some_and(|flags| flags & LARGE_ENCODING != 0);
    }

    fn gather(
        &mut self,
        hasher: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        self.fields.apply(hasher, sub, value, addr)
    }

    fn gather_deleted(&mut self, hasher: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        self.fields.apply_deleted(hasher, sub)
    }

    fn len(&self) -> usize {
        self.fields.len()
    }

    fn duplicate(&self, id: ObjectId, recorder: &mut Recorder) -> Self {
        let mut copy = Self { large_encoding: self.large_encoding, ..Self::empty() };
        for field in self.fields.iter() {
            let hash = recorder.hasher.hash(field.name());
            copy.fields.add(id, recorder, hash, field.name(), field.value());
        }
        copy
    }

    fn rewrite(&mut self, id: ObjectId, recorder: &mut Recorder, piece: usize) -> Option<usize> {
        self.fields.rewrite(id, recorder, piece)
    }

    fn rewrite_lost(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        piece: usize,
        is_lost: &dyn Fn(RecordAddr) -> bool,
    ) -> Option<usize> {
        self.fields.rewrite_lost(id, recorder, piece, is_lost)
    }

    fn encoding(&self) -> &'static str {
        if self.large_encoding { "hashtable" } else { "listpack" }
    }

    fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send> {
        Box::new(self.fields.into_addrs())
    }

    fn allocated_bytes(&self, samples: usize) -> usize {
        self.fields.allocated_bytes(samples)
    }

    fn open_shadow(&mut self) {
        self.fields.open_shadow();
    }

    fn shadow_bytes(&self) -> Option<usize> {
        self.fields.shadow_bytes()
    }

    fn emit(&mut self, hasher: KeyHasher, stream: &mut Stream) -> bool {
        self.fields.emit(hasher, stream)
    }

    fn emit_whole(&self, stream: &mut Stream) {
        self.fields.emit_whole(stream);
    }
}

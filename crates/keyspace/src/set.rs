//! Sets: packed in the key's entry while they are small, an entry a member when large.
//!
//! # Invariants
//! - A packed set has no member twice.
//! - Every member of a large set has the address of its own `SetMember` record.
//! - The flag [`packed::LARGE_ENCODING`] says whether Redis would call the encoding `hashtable`
//!   rather than `intset`; once set it stays. Without it all members are integers, and a packed
//!   set has them in ascending order. It has nothing to do with how the set is really stored.

use base::{ObjectId, RecordAddr, RecordKind};

use crate::collection::{ALL_SEEN, Cell, Closed, Collection, PackedKind, ValueRef};
use crate::element::Element;
use crate::elements::Elements;
use crate::entry::{Kind, Payload};
use crate::hasher::KeyHasher;
use crate::keyspace::body_of;
use crate::object::{Body, Large, Object};
use crate::packed::{self, LARGE_ENCODING, PACKED_BYTES_MAX, Packed};
use crate::recorder::Recorder;
use crate::sample;
use crate::string::parse_int;
use crate::value_type::Type;
use crate::walk::Stream;

/// The marker of sets, for [`crate::Keyspace::read`] and [`crate::Keyspace::update`].
#[derive(Debug, Clone, Copy)]
pub struct Set;

/// A set with an entry a member.
pub(crate) struct LargeSet {
    members: Elements,
    large_encoding: bool,
}

/// A set, read.
#[derive(Clone, Copy)]
pub struct SetView<'a>(View<'a>);

#[derive(Clone, Copy)]
enum View<'a> {
    Packed(Packed<'a>),
    Large(&'a LargeSet, KeyHasher),
}

impl<'a> SetView<'a> {
    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.0 {
            View::Packed(packed) => packed.count(),
            View::Large(set, _) => set.members.len(),
        }
    }

    /// Whether there are none, which no key ever has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has a member.
    #[must_use]
    pub fn contains(&self, member: &[u8]) -> bool {
        match self.0 {
            View::Packed(packed) => packed.iter().any(|other| other == member),
            View::Large(set, hasher) => set.members.find(hasher.hash(member), member).is_some(),
        }
    }

    /// The members: in ascending order when Redis would call it an intset, otherwise in none.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (packed, large) = match self.0 {
            View::Packed(packed) => (Some(packed.iter()), None),
            View::Large(set, _) => (None, Some(set.iter())),
        };
        packed.into_iter().flatten().chain(large.into_iter().flatten())
    }

    /// A random member; every one is as likely.
    #[must_use]
    pub fn random(&self, rng: &mut fastrand::Rng) -> Option<&'a [u8]> {
        match self.0 {
            View::Packed(packed) => packed.iter().nth(rng.usize(..self.len().max(1))),
            View::Large(set, _) => set.members.random(rng).map(Element::name),
        }
    }

    /// `count` different random members, or all of them when there are fewer.
    #[must_use]
    pub fn sample(&self, count: usize, rng: &mut fastrand::Rng) -> Vec<&'a [u8]> {
        match self.0 {
            View::Packed(packed) => sample::select(packed.iter(), self.len(), count, rng).collect(),
            View::Large(set, _) => {
                set.members.sample(count, rng).into_iter().map(Element::name).collect()
            }
        }
    }

    /// Visits about `count` members, as [`crate::Keyspace::scan`] visits keys.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&'a [u8])) -> u64 {
        let View::Large(set, hasher) = self.0 else {
            self.iter().for_each(visit);
            return 0;
        };
        set.members.scan(hasher, cursor, count, |member| visit(member.name()))
    }
}

/// A set, to be changed.
pub struct SetGuard<'a> {
    cell: Cell<'a>,
    changed: bool,
    /// The packed bytes changed and wait to be logged.
    unlogged: bool,
}

impl SetGuard<'_> {
    /// The set as it is now.
    #[must_use]
    pub fn view(&self) -> SetView<'_> {
        Set::view(ValueRef(self.cell.entry.payload(), self.cell.recorder.hasher, ALL_SEEN))
    }

    /// Adds a member. Whether it is new.
    pub fn add(&mut self, member: &[u8]) -> bool {
        let limit = self.cell.settings.set_max_intset_entries;
        let is_integer = parse_int(member).is_some();
        if let Some(packed) = self.cell.packed() {
            if packed.iter().any(|other| other == member) {
                return false;
            }
            let is_large = !is_integer || packed.count() >= limit;
            let flags = packed.flags() | if is_large { LARGE_ENCODING } else { 0 };
            if packed.bytes() + packed::element_bytes(member.len()) <= PACKED_BYTES_MAX {
                self.pack_with(member, flags);
                self.changed = true;
                return true;
            }
            self.unpack();
        }
        let (id, set, recorder) = self.large();
        if !set.insert(id, recorder, member) {
            return false;
        }
        if !set.large_encoding && (!is_integer || set.members.len() > limit) {
            set.large_encoding = true;
            self.cell.log_key();
        }
        self.changed = true;
        true
    }

    /// Removes a member. Whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        if let Some(packed) = self.cell.packed() {
            if !packed.iter().any(|other| other == member) {
                return false;
            }
            self.repack(packed.flags(), |out, packed| {
                let kept = packed.iter().filter(|other| *other != member);
                kept.for_each(|other| packed::push(out, other));
            });
        } else {
            let (id, set, recorder) = self.large();
            if !set.members.remove(id, recorder, member) {
                return false;
            }
        }
        self.changed = true;
        true
    }

    /// Removes `count` random members, or all when there are fewer.
    pub fn pop(&mut self, count: usize) -> Vec<Box<[u8]>> {
        let mut rng = self.cell.rng.fork();
        let picked: Vec<Box<[u8]>> =
            self.view().sample(count, &mut rng).into_iter().map(Box::from).collect();
        for member in &picked {
            self.remove(member);
        }
        picked
    }

    /// Adds a member that is not there to the packed bytes: in its place when they are ordered.
    fn pack_with(&mut self, member: &[u8], flags: u8) {
        let is_ordered = flags & LARGE_ENCODING == 0;
        self.repack(flags, |out, packed| {
            let mut pending = Some(member);
            for other in packed.iter() {
                if is_ordered && parse_int(other) > parse_int(member) {
                    pending.take().into_iter().for_each(|member| packed::push(out, member));
                }
                packed::push(out, other);
            }
            pending.into_iter().for_each(|member| packed::push(out, member));
        });
    }

    /// Rebuilds the packed bytes from what they were.
    fn repack(&mut self, flags: u8, build: impl FnOnce(&mut Vec<u8>, Packed<'_>)) {
        let mut out = std::mem::take(self.cell.scratch);
        packed::begin(&mut out, flags);
        build(&mut out, self.cell.packed().expect("the caller saw it"));
        *self.cell.scratch = out;
        self.cell.store_packed(Kind::SetPacked);
        self.unlogged = true;
    }

    /// Makes a packed set a large one, every member logged.
    fn unpack(&mut self) {
        let Cell { entry, recorder, .. } = &mut self.cell;
        let Payload::Packed(_, bytes) = entry.payload() else { return };
        let packed = Packed::new(bytes);
        let mut set = LargeSet::empty();
        set.large_encoding = packed.flags() & LARGE_ENCODING != 0;
        let id = recorder.new_object_id();
        for member in packed.iter() {
            set.insert(id, recorder, member);
        }
        entry.replace_object(Box::new(Object::new(id, Body::Set(set))));
        self.cell.log_key();
        self.unlogged = false;
    }

    fn large(&mut self) -> (ObjectId, &mut LargeSet, &mut Recorder) {
        let Cell { entry, recorder, .. } = &mut self.cell;
        let object = entry.object_mut().expect("a set that is not packed is large");
        let id = object.id();
        match &mut object.body {
            Body::Set(set) => (id, set, recorder),
            _ => unreachable!("the type was checked at lookup"),
        }
    }
}

impl LargeSet {
    /// Adds a member, logged. Whether it is new.
    fn insert(&mut self, id: ObjectId, recorder: &mut Recorder, name: &[u8]) -> bool {
        let hash = recorder.hasher.hash(name);
        if self.members.find(hash, name).is_some() {
            return false;
        }
        self.members.add(id, recorder, hash, name, &[]);
        true
    }

    /// See [`SetView::iter`].
    fn iter(&self) -> Box<dyn Iterator<Item = &[u8]> + '_> {
        let members = self.members.iter().map(Element::name);
        if self.large_encoding {
            return Box::new(members);
        }
        let mut members: Vec<&[u8]> = members.collect();
        members.sort_unstable_by_key(|member| parse_int(member));
        Box::new(members.into_iter())
    }
}

impl Collection for Set {
    type View<'a> = SetView<'a>;
    type Guard<'a> = SetGuard<'a>;
    const TYPE: Type = Type::Set;

    fn packed_kind() -> Option<PackedKind> {
        Some(PackedKind(Kind::SetPacked))
    }

    fn view<'a>(value: ValueRef<'a>) -> SetView<'a> {
        SetView(match value.0 {
            Payload::Packed(_, bytes) => View::Packed(Packed::new(bytes)),
            Payload::Object(object) => View::Large(body_of!(object, Set), value.1),
            Payload::Str(_) | Payload::Int(_) => unreachable!("the type was checked at lookup"),
        })
    }

    fn open<'a>(cell: Cell<'a>) -> SetGuard<'a> {
        SetGuard { cell, changed: false, unlogged: false }
    }

    fn close(mut guard: SetGuard<'_>) -> Closed {
        let empty = guard.view().is_empty();
        if guard.unlogged && !empty {
            guard.cell.log_key();
        }
        Closed { changed: guard.changed, empty, is_quiet: false }
    }
}

impl Large for LargeSet {
    fn empty() -> Self {
        Self { members: Elements::new(RecordKind::SetMember), large_encoding: false }
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
        _value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        self.members.apply(hasher, sub, &[], addr)
    }

    fn gather_deleted(&mut self, hasher: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        self.members.apply_deleted(hasher, sub)
    }

    fn len(&self) -> usize {
        self.members.len()
    }

    fn duplicate(&self, id: ObjectId, recorder: &mut Recorder) -> Self {
        let mut copy = Self { large_encoding: self.large_encoding, ..Self::empty() };
        for member in self.members.iter() {
            copy.insert(id, recorder, member.name());
        }
        copy
    }

    fn rewrite(&mut self, id: ObjectId, recorder: &mut Recorder, piece: usize) -> Option<usize> {
        self.members.rewrite(id, recorder, piece)
    }

    fn rewrite_lost(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        piece: usize,
        is_lost: &dyn Fn(RecordAddr) -> bool,
    ) -> Option<usize> {
        self.members.rewrite_lost(id, recorder, piece, is_lost)
    }

    fn encoding(&self) -> &'static str {
        if self.large_encoding { "hashtable" } else { "intset" }
    }

    fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send> {
        Box::new(self.members.into_addrs())
    }

    fn allocated_bytes(&self, samples: usize) -> usize {
        self.members.allocated_bytes(samples)
    }

    fn open_shadow(&mut self) {
        self.members.open_shadow();
    }

    fn shadow_bytes(&self) -> Option<usize> {
        self.members.shadow_bytes()
    }

    fn emit(&mut self, hasher: KeyHasher, stream: &mut Stream) -> bool {
        self.members.emit(hasher, stream)
    }

    fn emit_whole(&self, stream: &mut Stream) {
        self.members.emit_whole(stream);
    }
}

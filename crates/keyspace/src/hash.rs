//! Hashes: packed in the key's entry while they are small, an entry a field when large.
//!
//! A field may expire. A reader does not see one that has, whether or not it is there still; what removes
//! it logs that: [`crate::Keyspace`] does before a command sees the hash, as many as may go at once, and the
//! cycle of active expiry.
//!
//! # Invariants
//! - A packed hash has field and value in turn, or field, value and expiry if one of them expires or did; and no
//!   field twice.
//! - The flag [`packed::LARGE_ENCODING`] says whether Redis would call the encoding `hashtable`, and
//!   [`packed::EXPIRING_FIELDS`] whether `listpackex` otherwise; once set they stay. They have nothing to do with
//!   how the hash is really stored.

mod expiries;
mod large;

use base::ObjectId;

use crate::collection::{ALL_SEEN, Cell, Closed, Collection, PackedKind, ValueRef};
use crate::element::Element;
use crate::entry::{Entry, Kind, Payload};
use crate::hasher::KeyHasher;
use crate::keyspace::body_of;
use crate::object::{Body, Large, Object};
use crate::packed::{
    self, EXPIRING_FIELDS, LARGE_ENCODING, PACKED_BYTES_MAX, PACKED_EXPIRING_BYTES_MAX, Packed,
};
use crate::recorder::Recorder;
use crate::sample;
use crate::value_type::Type;

pub(crate) use large::LargeHash;

/// How often a random field is picked before those are listed that have not expired: few then, compared with all.
const PICKS_MAX: usize = 100;

/// The marker of hashes, for [`crate::Keyspace::read`] and [`crate::Keyspace::update`].
#[derive(Debug, Clone, Copy)]
pub struct Hash;

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// When it expires, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
}

impl<'a> Field<'a> {
    fn of(element: &'a Element) -> Self {
        let expires_at_ms = element.expires_at_ms();
        Self { name: element.name(), value: element.value(), expires_at_ms }
    }

    fn is_visible(&self, seen_ms: i64) -> bool {
        is_visible(self.expires_at_ms, seen_ms)
    }

    /// The bytes that it takes in a packed hash with these flags.
    fn packed_bytes(&self, flags: u8) -> usize {
        let size = |bytes: &[u8]| packed::element_bytes(bytes.len());
        let expiry = if self.expires_at_ms.is_some() { size_of::<i64>() } else { 0 };
        let has_expiry = flags & EXPIRING_FIELDS != 0;
        let expiry = if has_expiry { packed::element_bytes(expiry) } else { 0 };
        size(self.name) + size(self.value) + expiry
    }

    fn pack(&self, flags: u8, out: &mut Vec<u8>) {
        packed::push(out, self.name);
        packed::push(out, self.value);
        if flags & EXPIRING_FIELDS != 0 {
            let expiry = self.expires_at_ms.map(i64::to_le_bytes);
            packed::push(out, expiry.as_ref().map_or(&[], |expiry| &expiry[..]));
        }
    }
}

/// Whether a field that expires then is seen at `seen_ms`.
const fn is_visible(expires_at_ms: Option<i64>, seen_ms: i64) -> bool {
    match expires_at_ms {
        None => true,
        Some(at_ms) => at_ms > seen_ms,
    }
}

/// Returns when the first field of a hash in memory expires; `None` of anything else.
pub(crate) fn first_expiry_ms(entry: &Entry) -> Option<i64> {
    if entry.is_bare() {
        return None;
    }
    match entry.payload() {
        Payload::Packed(Kind::HashPacked, bytes) => first_packed_expiry_ms(Packed::new(bytes)),
        Payload::Object(object) => object.first_expiry_ms(),
        _ => None,
    }
}

/// Whether it is a hash in memory of which a field expires, or did.
pub(crate) fn has_expiring_fields(entry: &Entry) -> bool {
    if entry.is_bare() {
        return false;
    }
    match entry.payload() {
        Payload::Packed(Kind::HashPacked, bytes) => {
            Packed::new(bytes).flags() & EXPIRING_FIELDS != 0
        }
        Payload::Object(object) => object.has_expiring_fields(),
        _ => false,
    }
}

fn first_packed_expiry_ms(packed: Packed<'_>) -> Option<i64> {
    if packed.flags() & EXPIRING_FIELDS == 0 {
        return None;
    }
    fields(packed).filter_map(|field| field.expires_at_ms).min()
}

/// The name of the encoding that Redis would have.
pub(crate) const fn encoding_of(large_encoding: bool, expiring_fields: bool) -> &'static str {
    match (large_encoding, expiring_fields) {
        (true, _) => "hashtable",
        (false, true) => "listpackex",
        (false, false) => "listpack",
    }
}

/// A hash, read.
#[derive(Clone, Copy)]
pub struct HashView<'a> {
    view: View<'a>,
    /// What expires by then is not seen.
    seen_ms: i64,
}

#[derive(Clone, Copy)]
enum View<'a> {
    Packed(Packed<'a>),
    Large(&'a LargeHash, KeyHasher),
}

impl<'a> HashView<'a> {
    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.has_hidden() { self.all().count() } else { self.stored_len() }
    }

    /// How many fields there are, those among them that have expired and were not removed yet.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        match self.view {
            View::Packed(packed) => field_count(packed),
            View::Large(hash, _) => hash.fields.len(),
        }
    }

    /// Whether there are none, which is so only of a hash whose fields have all expired.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        if self.has_hidden() { self.all().next().is_none() } else { self.stored_len() == 0 }
    }

    /// Whether a field expires, or did.
    #[must_use]
    pub fn has_expiring_fields(&self) -> bool {
        match self.view {
            View::Packed(packed) => packed.flags() & EXPIRING_FIELDS != 0,
            View::Large(hash, _) => hash.has_expiring_fields(),
        }
    }

    /// When the first field expires that has not been removed.
    #[must_use]
    pub fn first_expiry_ms(&self) -> Option<i64> {
        match self.view {
            View::Packed(packed) => first_packed_expiry_ms(packed),
            View::Large(hash, _) => hash.first_expiry_ms(),
        }
    }

    fn has_hidden(&self) -> bool {
        match self.view {
            View::Packed(packed) if packed.flags() & EXPIRING_FIELDS == 0 => false,
            View::Packed(packed) => {
                first_packed_expiry_ms(packed).is_some_and(|at_ms| at_ms <= self.seen_ms)
            }
            View::Large(hash, _) => hash.has_hidden(self.seen_ms),
        }
    }

    /// The value of a field.
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<&'a [u8]> {
        self.field(field).map(|field| field.value)
    }

    /// The field of a name.
    #[must_use]
    pub fn field(&self, name: &[u8]) -> Option<Field<'a>> {
        let field = match self.view {
            View::Packed(packed) => fields(packed).find(|field| field.name == name),
            View::Large(hash, hasher) => hash.fields.find(hasher.hash(name), name).map(Field::of),
        };
        field.filter(|field| field.is_visible(self.seen_ms))
    }

    /// A random field of a large hash, seen or not.
    fn any(&self, rng: &mut fastrand::Rng) -> Option<Field<'a>> {
        match self.view {
            View::Packed(_) => None,
            View::Large(hash, _) => hash.fields.random(rng).map(Field::of),
        }
    }

    fn all(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let (packed, large) = match self.view {
            View::Packed(packed) => (Some(packed), None),
            View::Large(hash, _) => (None, Some(hash)),
        };
        let seen_ms = self.seen_ms;
        let packed = packed.into_iter().flat_map(fields);
        let large = large.into_iter().flat_map(|hash| hash.fields.iter().map(Field::of));
        packed.chain(large).filter(move |field| field.is_visible(seen_ms))
    }

    /// Visits every field and value, in no order.
    pub fn for_each(&self, mut visit: impl FnMut(&'a [u8], &'a [u8])) {
        self.for_each_field(|field| visit(field.name, field.value));
    }

    /// Visits every field, in no order.
    pub fn for_each_field(&self, mut visit: impl FnMut(Field<'a>)) {
        let seen_ms = self.seen_ms;
        let mut see = |field: Field<'a>| {
            if field.is_visible(seen_ms) {
                visit(field);
            }
        };
        match self.view {
            View::Packed(packed) => fields(packed).for_each(see),
            View::Large(hash, _) => hash.fields.iter().for_each(|field| see(Field::of(field))),
        }
    }

    /// A random field and its value; every field is as likely.
    #[must_use]
    pub fn random(&self, rng: &mut fastrand::Rng) -> Option<(&'a [u8], &'a [u8])> {
        self.picks().next(rng)
    }

    /// Picks of random fields, which may repeat.
    #[must_use]
    pub const fn picks(&self) -> Picks<'a> {
        Picks { hash: *self, seen: None }
    }

    /// `count` different random fields and their values, or all when there are fewer.
    #[must_use]
    pub fn sample(&self, count: usize, rng: &mut fastrand::Rng) -> Vec<(&'a [u8], &'a [u8])> {
        let pair = |field: Field<'a>| (field.name, field.value);
        match self.view {
            View::Large(hash, _) if !self.has_hidden() => {
                let fields = hash.fields.sample(count, rng);
                fields.into_iter().map(|field| (field.name(), field.value())).collect()
            }
            _ => sample::select(self.all().map(pair), self.len(), count, rng).collect(),
        }
    }

    /// Visits about `count` fields, as [`crate::Keyspace::scan`] visits keys.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&'a [u8], &'a [u8]),
    ) -> u64 {
        let View::Large(hash, hasher) = self.view else {
            self.for_each(visit);
            return 0;
        };
        hash.fields.scan(hasher, cursor, count, |field| {
            if is_visible(field.expires_at_ms(), self.seen_ms) {
                visit(field.name(), field.value());
            }
        })
    }
}

/// Random fields of a hash, one after the other; every field is as likely each time.
///
/// Where nearly all fields have expired and were not removed yet, those that are seen are listed once, in a pass over
/// all.
pub struct Picks<'a> {
    hash: HashView<'a>,
    seen: Option<Vec<Field<'a>>>,
}

impl<'a> Picks<'a> {
    /// The next one and its value; `None` if there is none.
    pub fn next(&mut self, rng: &mut fastrand::Rng) -> Option<(&'a [u8], &'a [u8])> {
        let picked = if let Some(seen) = &self.seen {
            Self::of_seen(seen, rng)
        } else {
            let seen_ms = self.hash.seen_ms;
            let tries = if matches!(self.hash.view, View::Large(..)) { PICKS_MAX } else { 0 };
            let mut tried = (0..tries).filter_map(|_| self.hash.any(rng));
            match tried.find(|field| field.is_visible(seen_ms)) {
                Some(field) => Some(field),
                None => Self::of_seen(self.seen.insert(self.hash.all().collect()), rng),
            }
        };
        picked.map(|field| (field.name, field.value))
    }

    fn of_seen(seen: &[Field<'a>], rng: &mut fastrand::Rng) -> Option<Field<'a>> {
        (!seen.is_empty()).then(|| seen[rng.usize(..seen.len())])
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
        let (payload, hasher) = (self.cell.entry.payload(), self.cell.recorder.hasher);
        Hash::view(ValueRef(payload, hasher, self.cell.seen_ms))
    }

    /// Sets a field, which does not expire. Whether it is new.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> bool {
        self.put(&Field { name, value, expires_at_ms: None })
    }

    /// Sets a field, which expires when it did before. Whether it is new.
    pub fn set_keeping_expiry(&mut self, name: &[u8], value: &[u8]) -> bool {
        let expires_at_ms = if self.view().has_expiring_fields() {
            self.view().field(name).and_then(|field| field.expires_at_ms)
        } else {
            None
        };
        self.put(&Field { name, value, expires_at_ms })
    }

    /// Sets when a field expires, if it is there. Whether it is.
    pub fn set_expiry(&mut self, name: &[u8], expires_at_ms: Option<i64>) -> bool {
        let Some(old) = self.view().field(name) else { return false };
        if old.expires_at_ms != expires_at_ms {
            let value: Box<[u8]> = old.value.into();
            self.put(&Field { name, value: &value, expires_at_ms });
        }
        true
    }

    /// Puts a field in the place of the one of its name. Whether it is new.
    pub fn put(&mut self, new: &Field<'_>) -> bool {
        self.changed = true;
        let longest = new.name.len().max(new.value.len());
        let is_long = longest > self.cell.settings.hash_max_listpack_value;
        let Some(packed) = self.cell.packed() else { return self.put_large(new, is_long) };
        let old = fields(packed).find(|field| field.name == new.name);
        let count = field_count(packed) + usize::from(old.is_none());
        let before = packed.flags();
        let mut flags = before;
        if is_long || count > self.cell.settings.hash_max_listpack_entries {
            flags |= LARGE_ENCODING;
        }
        if new.expires_at_ms.is_some() {
            flags |= EXPIRING_FIELDS;
        }
        let mut bytes = packed.bytes() + new.packed_bytes(flags)
            - old.map_or(0, |old| old.packed_bytes(before));
        if flags & !before & EXPIRING_FIELDS != 0 {
            // Each of the others says that it does not expire.
            bytes += count - 1;
        }
        let is_new = old.is_none_or(|old| !old.is_visible(self.cell.seen_ms));
        let is_expiring = flags & EXPIRING_FIELDS != 0;
        let bytes_max = if is_expiring { PACKED_EXPIRING_BYTES_MAX } else { PACKED_BYTES_MAX };
        if bytes <= bytes_max {
            self.repack(flags, |field| field.name != new.name, Some(new));
            debug_assert!(self.cell.packed().is_some_and(|packed| packed.bytes() == bytes));
        } else {
            self.unpack();
            self.put_large(new, is_long);
        }
        is_new
    }

    /// Removes a field. Whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let seen_ms = self.cell.seen_ms;
        let removed = if let Some(packed) = self.cell.packed() {
            let removed = fields(packed).find(|field| field.name == name);
            let removed = removed.map(|field| field.expires_at_ms);
            if removed.is_some() {
                self.repack(packed.flags(), |field| field.name != name, None);
            }
            removed
        } else {
            let (id, hash, recorder) = self.large();
            hash.remove(id, recorder, name)
        };
        self.changed |= removed.is_some();
        removed.is_some_and(|expires_at_ms| is_visible(expires_at_ms, seen_ms))
    }

    /// Removes fields that have expired, of a large hash at most so many. Returns how many.
    pub(crate) fn remove_expired(&mut self, fields_max: usize) -> usize {
        let seen_ms = self.cell.seen_ms;
        let removed = if let Some(packed) = self.cell.packed() {
            let removed = fields(packed).filter(|field| !field.is_visible(seen_ms)).count();
            if removed > 0 {
                self.repack(packed.flags(), |field| field.is_visible(seen_ms), None);
            }
            removed
        } else {
            let (id, hash, recorder) = self.large();
            hash.remove_expired(id, recorder, seen_ms, fields_max)
        };
        self.changed |= removed > 0;
        removed
    }

    /// Removes those of these fields that have expired. Returns how many.
    pub(crate) fn remove_expired_of<'n>(
        &mut self,
        names: impl IntoIterator<Item = &'n [u8]>,
    ) -> usize {
        let mut removed = 0;
        for name in names {
            let seen_ms = std::mem::replace(&mut self.cell.seen_ms, ALL_SEEN);
            let found = self.view().field(name).map(|field| field.is_visible(seen_ms));
            self.cell.seen_ms = seen_ms;
            if found == Some(false) {
                self.remove(name);
                removed += 1;
            }
        }
        removed
    }

    /// Rebuilds the packed bytes without the fields that do not stay; `new` takes the place of the first
    /// of those, or comes last.
    fn repack(&mut self, flags: u8, stays: impl Fn(&Field<'_>) -> bool, new: Option<&Field<'_>>) {
        let mut new = new;
        let mut out = std::mem::take(self.cell.scratch);
        packed::begin(&mut out, flags);
        let packed = self.cell.packed().expect("the caller saw it");
        for field in fields(packed) {
            if stays(&field) {
                field.pack(flags, &mut out);
            } else if let Some(new) = new.take() {
                new.pack(flags, &mut out);
            }
        }
        if let Some(new) = new {
            new.pack(flags, &mut out);
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
        hash.expiring_fields = packed.flags() & EXPIRING_FIELDS != 0;
        let id = recorder.new_object_id();
        fields(packed).for_each(|field| hash.add(id, recorder, &field));
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

    fn put_large(&mut self, new: &Field<'_>, is_long: bool) -> bool {
        let limit = self.cell.settings.hash_max_listpack_entries;
        let seen_ms = self.cell.seen_ms;
        let (id, hash, recorder) = self.large();
        let before = (hash.large_encoding, hash.expiring_fields);
        let is_new = hash.put(id, recorder, new, seen_ms);
        hash.large_encoding |= is_long || hash.fields.len() > limit;
        if before != (hash.large_encoding, hash.expiring_fields) {
            self.cell.log_key();
        }
        is_new
    }
}

/// The fields of a packed hash, in their order.
fn fields(packed: Packed<'_>) -> impl Iterator<Item = Field<'_>> {
    let has_expiry = packed.flags() & EXPIRING_FIELDS != 0;
    let mut elements = packed.iter();
    std::iter::from_fn(move || {
        let (name, value) = (elements.next()?, elements.next()?);
        let expiry = if has_expiry { elements.next()? } else { &[] };
        let expires_at_ms = expiry.try_into().ok().map(i64::from_le_bytes);
        Some(Field { name, value, expires_at_ms })
    })
}

fn field_count(packed: Packed<'_>) -> usize {
    packed.count() / if packed.flags() & EXPIRING_FIELDS == 0 { 2 } else { 3 }
}

impl Collection for Hash {
    type View<'a> = HashView<'a>;
    type Guard<'a> = HashGuard<'a>;
    const TYPE: Type = Type::Hash;

    fn packed_kind() -> Option<PackedKind> {
        Some(PackedKind(Kind::HashPacked))
    }

    fn view<'a>(value: ValueRef<'a>) -> HashView<'a> {
        let view = match value.0 {
            Payload::Packed(_, bytes) => View::Packed(Packed::new(bytes)),
            Payload::Object(object) => View::Large(body_of!(object, Hash), value.1),
            Payload::Str(_) | Payload::Int(_) => unreachable!("the type was checked at lookup"),
        };
        HashView { view, seen_ms: value.2 }
    }

    fn open<'a>(cell: Cell<'a>) -> HashGuard<'a> {
        HashGuard { cell, changed: false, unlogged: false }
    }

    fn close(mut guard: HashGuard<'_>) -> Closed {
        let empty = guard.view().stored_len() == 0;
        if guard.unlogged && !empty {
            guard.cell.log_key();
        }
        Closed { changed: guard.changed, empty, is_quiet: false }
    }
}

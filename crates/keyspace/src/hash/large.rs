//! A hash with an entry a field.
//!
//! # Invariants
//! - Every field has the address of its own `HashField` record.
//! - `expiries` has exactly the fields that expire; without such a field there is none.

use base::{ObjectId, RecordAddr, RecordKind};

use super::expiries::FieldExpiries;
use super::{Field, is_visible};
use crate::element::Element;
use crate::elements::Elements;
use crate::hasher::KeyHasher;
use crate::object::Large;
use crate::packed::{EXPIRING_FIELDS, LARGE_ENCODING};
use crate::recorder::Recorder;
use crate::walk::Stream;

/// See the file's top.
pub(crate) struct LargeHash {
    pub(super) fields: Elements,
    expiries: Option<Box<FieldExpiries>>,
    pub(super) large_encoding: bool,
    /// A field expires, or did.
    pub(super) expiring_fields: bool,
}

impl LargeHash {
    /// Whether a field expires, or did.
    pub(crate) const fn has_expiring_fields(&self) -> bool {
        self.expiring_fields
    }

    /// When the first field expires.
    pub(crate) fn first_expiry_ms(&self) -> Option<i64> {
        self.expiries.as_ref().and_then(|expiries| expiries.first()).map(|(at_ms, _)| at_ms)
    }

    /// Whether a field that is there is not seen any more.
    pub(super) fn has_hidden(&self, seen_ms: i64) -> bool {
        self.first_expiry_ms().is_some_and(|at_ms| at_ms <= seen_ms)
    }

    /// Puts a field in the place of the one of its name, and logs that. Whether none was seen there.
    pub(super) fn put(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        new: &Field<'_>,
        seen_ms: i64,
    ) -> bool {
        let Field { name, value, expires_at_ms } = *new;
        let hash = recorder.hasher.hash(name);
        if self.expiries.is_none() && expires_at_ms.is_none() {
            let is_new = self.fields.change(id, recorder, hash, name, value).is_none();
            if is_new {
                self.fields.add(id, recorder, hash, name, value);
            }
            return is_new;
        }
        let Some(old) = self.fields.find(hash, name).map(Element::expires_at_ms) else {
            self.fields.add_until(id, recorder, hash, name, value, expires_at_ms);
            self.note_expiry(recorder.hasher, hash, None, expires_at_ms);
            return true;
        };
        self.fields.change_until(id, recorder, hash, name, value, expires_at_ms);
        self.note_expiry(recorder.hasher, hash, old, expires_at_ms);
        !is_visible(old, seen_ms)
    }

    /// Adds a field that is not there, and logs it.
    pub(super) fn add(&mut self, id: ObjectId, recorder: &mut Recorder, new: &Field<'_>) {
        let hash = recorder.hasher.hash(new.name);
        self.fields.add_until(id, recorder, hash, new.name, new.value, new.expires_at_ms);
        self.note_expiry(recorder.hasher, hash, None, new.expires_at_ms);
    }

    /// Removes a field, and logs that. Whether it was there, seen or not.
    pub(super) fn remove(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        name: &[u8],
    ) -> Option<Option<i64>> {
        if self.expiries.is_none() {
            return self.fields.remove(id, recorder, name).then_some(None);
        }
        let hash = recorder.hasher.hash(name);
        let old = self.fields.find(hash, name)?.expires_at_ms();
        self.fields.remove(id, recorder, name);
        self.note_expiry(recorder.hasher, hash, old, None);
        Some(old)
    }

    /// Removes at most so many of the fields that have expired by `seen_ms`, those first that did so first,
    /// and logs that. Returns how many.
    pub(super) fn remove_expired(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        seen_ms: i64,
        fields_max: usize,
    ) -> usize {
        let mut removed = 0;
        while removed < fields_max
            && let Some(expiries) = &self.expiries
            && let Some((at_ms, hash)) = expiries.first().filter(|first| first.0 <= seen_ms)
        {
            let name = self.fields.name_until(hash, recorder.hasher, at_ms);
            let name: Box<[u8]> = name.expect("a line is of a field").into();
            self.remove(id, recorder, &name);
            removed += 1;
        }
        removed
    }

    /// A field whose name has this hash, and which the table has as it is now, expired at `old` before, and
    /// now at `new`.
    fn note_expiry(&mut self, hasher: KeyHasher, hash: u64, old: Option<i64>, new: Option<i64>) {
        if old == new {
            return;
        }
        if let Some(at_ms) = new {
            self.expiries.get_or_insert_default().add(at_ms, hash);
            self.expiring_fields = true;
        }
        if let Some(at_ms) = old
            && self.fields.name_until(hash, hasher, at_ms).is_none()
            && let Some(expiries) = &mut self.expiries
        {
            expiries.remove(at_ms, hash);
            if expiries.is_empty() {
                self.expiries = None;
            }
        }
    }

    /// When the field of this name expires, if it is there and does.
    fn expiry_of(&self, hasher: KeyHasher, name: &[u8]) -> Option<i64> {
        self.expiries.as_ref()?;
        self.fields.find(hasher.hash(name), name)?.expires_at_ms()
    }

    /// Takes over the record of a field that expires. Returns the address of the record that it supersedes.
    pub(crate) fn apply_expiring(
        &mut self,
        hasher: KeyHasher,
        name: &[u8],
        value: &[u8],
        at_ms: i64,
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        let (old, new) = (self.expiry_of(hasher, name), Some(at_ms));
        let before = self.fields.apply_until(hasher, name, value, new, addr);
        self.note_expiry(hasher, hasher.hash(name), old, new);
        before
    }
}

impl Large for LargeHash {
    fn empty() -> Self {
        let fields = Elements::new(RecordKind::HashField);
        Self { fields, expiries: None, large_encoding: false, expiring_fields: false }
    }

    fn root_value(&self, out: &mut Vec<u8>) {
        let large = if self.large_encoding { LARGE_ENCODING } else { 0 };
        out.push(large | if self.expiring_fields { EXPIRING_FIELDS } else { 0 });
    }

    fn apply_root(&mut self, value: &[u8]) {
        let flags = value.first().copied().unwrap_or(0);
        self.large_encoding = flags & LARGE_ENCODING != 0;
        self.expiring_fields |= flags & EXPIRING_FIELDS != 0;
    }

    fn gather(
        &mut self,
        hasher: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        let old = self.expiry_of(hasher, sub);
        let before = self.fields.apply(hasher, sub, value, addr);
        if old.is_some() {
            self.note_expiry(hasher, hasher.hash(sub), old, None);
        }
        before
    }

    fn gather_deleted(&mut self, hasher: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        let old = self.expiry_of(hasher, sub);
        let before = self.fields.apply_deleted(hasher, sub);
        if old.is_some() {
            self.note_expiry(hasher, hasher.hash(sub), old, None);
        }
        before
    }

    fn len(&self) -> usize {
        self.fields.len()
    }

    fn duplicate(&self, id: ObjectId, recorder: &mut Recorder) -> Self {
        let (large_encoding, expiring_fields) = (self.large_encoding, self.expiring_fields);
        let mut copy = Self { large_encoding, expiring_fields, ..Self::empty() };
        self.fields.iter().for_each(|field| copy.add(id, recorder, &Field::of(field)));
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
        super::encoding_of(self.large_encoding, self.expiring_fields)
    }

    fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send> {
        let fields = self.fields.into_addrs();
        match self.expiries {
            None => Box::new(fields),
            Some(expiries) => Box::new(fields.chain(expiries.into_lines().map(|_| None))),
        }
    }

    fn allocated_bytes(&self, samples: usize) -> usize {
        let expiries = self.expiries.as_ref().map_or(0, |expiries| expiries.allocated_bytes());
        self.fields.allocated_bytes(samples) + expiries
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::LargeList;
    use crate::object::Body;
    use crate::set::LargeSet;
    use crate::stream::LargeStream;
    use crate::string::LargeString;
    use crate::zset::LargeZSet;

    /// A large hash of which no field could expire.
    #[expect(dead_code, reason = "for its size")]
    struct Timeless(Elements, bool);

    /// What objects would be with it.
    #[expect(dead_code, reason = "for its size")]
    enum Without {
        String(LargeString),
        List(LargeList),
        Hash(Timeless),
        Set(LargeSet),
        ZSet(LargeZSet),
        Stream(LargeStream),
    }

    #[test]
    fn that_fields_may_expire_makes_no_object_larger() {
        assert_eq!(size_of::<Body>(), size_of::<Without>());
    }
}

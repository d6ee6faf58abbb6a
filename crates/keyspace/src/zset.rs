//! Sorted sets: packed in the key's entry while they are small, an object with an entry a member
//! when large.
//!
//! ```text
//!  packed   flags · (member · score) · (member · score) …     ordered by (score, member)
//!  large    a table by member and a rank tree by (score, member): see `large`
//! ```
//!
//! Every range of a sorted set, by rank, by score or by member, is a range of indexes: the view
//! finds the indexes ([`ZSetView::score_range`], [`ZSetView::lex_range`]) and iterates over them
//! from either end without allocating.
//!
//! # Invariants
//! - Members are unique; the order is by score, then by the bytes of the member; no score is NaN.
//! - Packed bytes are never more than [`PACKED_BYTES_MAX`]; an object never becomes packed again.

mod large;
mod range;
mod scored;

use std::ops::Range;

use crate::collection::{Cell, Closed, Collection, PackedKind, ValueRef};
use crate::entry::{Kind, Payload};
use crate::hasher::KeyHasher;
use crate::keyspace::body_of;
use crate::object::{Body, Large, Object};
use crate::packed::{self, LARGE_ENCODING, PACKED_BYTES_MAX, Packed};
use crate::recorder::Recorder;
use crate::value_type::Type;

pub(crate) use large::LargeZSet;
pub use range::{LexBound, LexRange, ScoreRange};
pub use scored::ScoredView;

use large::{compare, score_from};
use range::{Cut, indexes};

/// The type of sorted sets.
#[derive(Debug, Clone, Copy)]
pub struct ZSet;

impl Collection for ZSet {
    type View<'a> = ZSetView<'a>;
    type Guard<'a> = ZSetGuard<'a>;
    const TYPE: Type = Type::ZSet;

    fn packed_kind() -> Option<PackedKind> {
        Some(PackedKind(Kind::ZSetPacked))
    }

    fn view(value: ValueRef<'_>) -> ZSetView<'_> {
        ZSetView::of(value.0, value.1)
    }

    fn open(cell: Cell<'_>) -> ZSetGuard<'_> {
        ZSetGuard { cell, changed: false, root_changed: false, cleared: false }
    }

    fn close(mut guard: ZSetGuard<'_>) -> Closed {
        let empty = guard.is_empty();
        // A packed set is logged whole, and an object's root when it is new or says something
        // new. What is empty is about to be deleted.
        let is_packed = guard.cell.packed().is_some();
        if !empty && guard.changed && (is_packed || guard.root_changed) {
            guard.cell.log_key();
        }
        Closed { changed: guard.changed, empty, is_quiet: false }
    }
}

/// A sorted set, read.
#[derive(Clone, Copy)]
pub struct ZSetView<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Packed(Packed<'a>),
    Large(&'a LargeZSet, KeyHasher),
}

impl<'a> ZSetView<'a> {
    fn of(payload: Payload<'a>, hasher: KeyHasher) -> Self {
        match payload {
            Payload::Packed(_, bytes) => Self(Repr::Packed(Packed::new(bytes))),
            Payload::Object(object) => Self(Repr::Large(body_of!(object, ZSet), hasher)),
            Payload::Str(_) | Payload::Int(_) => unreachable!("the type was checked at lookup"),
        }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(self) -> usize {
        match self.0 {
            Repr::Packed(packed) => packed.count() / 2,
            Repr::Large(large, _) => large.len(),
        }
    }

    /// Whether there are none; only a guard's view can be empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The score of a member.
    #[must_use]
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self.0 {
            Repr::Packed(packed) => pairs(packed).find(|pair| pair.0 == member).map(|pair| pair.1),
            Repr::Large(large, hasher) => large.score(hasher, member),
        }
    }

    /// The index of a member, and its score.
    #[must_use]
    pub fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        match self.0 {
            Repr::Packed(packed) => pairs(packed)
                .enumerate()
                .find(|(_, pair)| pair.0 == member)
                .map(|(index, pair)| (index, pair.1)),
            Repr::Large(large, hasher) => {
                let score = large.score(hasher, member)?;
                Some((large.rank(score, member), score))
            }
        }
    }

    /// The indexes of the members with scores in `range`.
    #[must_use]
    pub fn score_range(self, range: &ScoreRange) -> Range<usize> {
        self.cut(range)
    }

    /// The indexes of the members in `range`. When not all scores are equal the answer is of no
    /// use, as with Redis.
    #[must_use]
    pub fn lex_range(self, range: &LexRange<'_>) -> Range<usize> {
        self.cut(range)
    }

    fn cut(self, cut: &impl Cut) -> Range<usize> {
        match self.0 {
            Repr::Packed(packed) => {
                let start = pairs(packed).take_while(|pair| cut.is_below(pair.1, pair.0)).count();
                let end = pairs(packed)
                    .skip(start)
                    .take_while(|pair| !cut.is_above(pair.1, pair.0))
                    .count();
                indexes(start, start + end)
            }
            Repr::Large(large, _) => large.range(cut),
        }
    }

    /// The member at `index`, and its score.
    #[must_use]
    pub fn at(self, index: usize) -> Option<(&'a [u8], f64)> {
        self.range(index..index.saturating_add(1)).next()
    }

    /// The members with these indexes, clamped to what there is, and their scores.
    #[must_use]
    pub fn range(self, range: Range<usize>) -> Members<'a> {
        Members(match self.0 {
            Repr::Packed(packed) => {
                let end = range.end.min(self.len());
                let start = range.start.min(end);
                let mut front = pairs(packed);
                for _ in 0..start {
                    front.next();
                }
                MembersRepr::Packed { packed, front, range: start..end }
            }
            Repr::Large(large, _) => MembersRepr::Large(large.iter(range)),
        })
    }

    /// All members in order, and their scores.
    #[must_use]
    pub fn iter(self) -> Members<'a> {
        self.range(0..self.len())
    }

    /// Visits about `count` members, from `cursor` on (0 to begin), and returns the cursor to go
    /// on from (0 at the end). A member that is there all the while is visited.
    pub fn scan(self, cursor: u64, count: usize, visit: impl FnMut(&'a [u8], f64)) -> u64 {
        let Repr::Large(large, hasher) = self.0 else {
            let mut visit = visit;
            self.iter().for_each(|(member, score)| visit(member, score));
            return 0;
        };
        large.scan(hasher, cursor, count, visit)
    }
}

/// The members of a packed set, in order.
fn pairs(packed: Packed<'_>) -> Pairs<'_> {
    Pairs(packed.iter())
}

#[derive(Clone)]
struct Pairs<'a>(packed::Elements<'a>);

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        let member = self.0.next()?;
        let score = self.0.next().expect("every member has a score");
        Some((member, score_from(score)))
    }
}

/// Members of a sorted set and their scores, in order, from both ends.
#[derive(Clone)]
pub struct Members<'a>(MembersRepr<'a>);

#[derive(Clone)]
enum MembersRepr<'a> {
    Packed { packed: Packed<'a>, front: Pairs<'a>, range: Range<usize> },
    Large(large::Iter<'a>),
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            MembersRepr::Packed { front, range, .. } => {
                range.next()?;
                front.next()
            }
            MembersRepr::Large(members) => members.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            MembersRepr::Packed { range, .. } => range.size_hint(),
            MembersRepr::Large(members) => members.size_hint(),
        }
    }
}

impl DoubleEndedIterator for Members<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            // Packed bytes are read forwards only, but there are some twenty members at most.
            MembersRepr::Packed { packed, range, .. } => {
                let index = range.next_back()?;
                pairs(*packed).nth(index)
            }
            MembersRepr::Large(members) => members.next_back(),
        }
    }
}

impl ExactSizeIterator for Members<'_> {}

/// A sorted set, being changed.
pub struct ZSetGuard<'a> {
    cell: Cell<'a>,
    changed: bool,
    /// The object's root is not logged as it is now.
    root_changed: bool,
    /// Everything is to go with the key.
    cleared: bool,
}

impl ZSetGuard<'_> {
    /// The set as it is now.
    #[must_use]
    pub fn view(&self) -> ZSetView<'_> {
        ZSetView::of(self.cell.entry.payload(), self.cell.recorder.hasher)
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.cleared { 0 } else { self.view().len() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives a member a score, adds it if need be. Returns the score that it had.
    ///
    /// # Panics
    /// If the score is NaN.
    pub fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        assert!(!score.is_nan(), "scores are not NaN");
        assert!(!self.cleared, "a cleared set is on its way out");
        let old = self.view().score(member);
        if old == Some(score) {
            return old;
        }
        if old.is_none() {
            self.note_encoding(member);
        }
        // Redis' listpack holds whole numbers as such, and so no negative zero.
        let score = if score == 0.0 && !self.is_skiplist() { 0.0 } else { score };
        self.changed = true;
        if self.cell.packed().is_some() {
            self.set_packed(member, score);
        } else {
            let (large, object, recorder) = self.large();
            large.set(object, recorder, member, score);
        }
        old
    }

    /// Removes a member. Whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let removed = if self.cell.packed().is_some() {
            match self.view().rank(member) {
                Some((index, _)) => {
                    self.rebuild_without(index..index + 1);
                    true
                }
                None => false,
            }
        } else {
            let (large, object, recorder) = self.large();
            large.remove(object, recorder, member)
        };
        self.changed |= removed;
        removed
    }

    /// Removes the members with these indexes, clamped to what there is. How many there were.
    pub fn remove_range(&mut self, range: Range<usize>) -> usize {
        let len = self.len();
        let range = range.start.min(len)..range.end.min(len);
        if range.is_empty() {
            return 0;
        }
        self.changed = true;
        if range == (0..len) {
            // The key goes, and its one record takes the members along.
            self.cleared = true;
        } else if self.cell.packed().is_some() {
            self.rebuild_without(range.clone());
        } else {
            let mut name = std::mem::take(self.cell.scratch);
            let (large, object, recorder) = self.large();
            for _ in range.clone() {
                large.remove_at(object, recorder, range.start, &mut name);
            }
            *self.cell.scratch = name;
        }
        range.len()
    }

    fn large(&mut self) -> (&mut LargeZSet, base::ObjectId, &mut Recorder) {
        let object = self.cell.entry.object_mut().expect("what is not packed is an object");
        let id = object.id();
        let Body::ZSet(large) = &mut object.body else {
            unreachable!("the type was checked at lookup")
        };
        (large, id, self.cell.recorder)
    }

    fn is_skiplist(&self) -> bool {
        match self.view().0 {
            Repr::Packed(packed) => packed.flags() & LARGE_ENCODING != 0,
            Repr::Large(large, _) => large.is_skiplist,
        }
    }

    /// Notes whether Redis would change the encoding when it adds `member`.
    fn note_encoding(&mut self, member: &[u8]) {
        let settings = self.cell.settings;
        let outgrown = self.len() >= settings.zset_max_listpack_entries
            || member.len() > settings.zset_max_listpack_value;
        if !outgrown {
            return;
        }
        if self.cell.packed().is_some() {
            self.cell.entry.bytes_mut()[0] |= LARGE_ENCODING;
        } else {
            let (large, ..) = self.large();
            let was = std::mem::replace(&mut large.is_skiplist, true);
            self.root_changed |= !was;
        }
    }

    /// Sets a member's score in packed bytes; they become an object when they get too many.
    fn set_packed(&mut self, member: &[u8], score: f64) {
        let mut bytes = std::mem::take(self.cell.scratch);
        let old = self.cell.packed().expect("the caller saw packed bytes");
        packed::begin(&mut bytes, old.flags());
        let mut pending = Some((member, score));
        for pair in pairs(old) {
            if let Some(new) = pending
                && compare((new.1, new.0), (pair.1, pair.0)).is_lt()
            {
                push_pair(&mut bytes, new);
                pending = None;
            }
            if pair.0 != member {
                push_pair(&mut bytes, pair);
            }
        }
        if let Some(new) = pending {
            push_pair(&mut bytes, new);
        }
        if bytes.len() <= PACKED_BYTES_MAX {
            self.cell.entry.replace_bytes(Kind::ZSetPacked, &bytes);
        } else {
            self.become_object(Packed::new(&bytes));
        }
        *self.cell.scratch = bytes;
    }

    fn become_object(&mut self, packed: Packed<'_>) {
        let recorder = &mut *self.cell.recorder;
        let id = recorder.new_object_id();
        let is_skiplist = packed.flags() & LARGE_ENCODING != 0;
        let large = LargeZSet::from_sorted(id, recorder, pairs(packed), is_skiplist);
        self.cell.entry.replace_object(Box::new(Object::new(id, Body::ZSet(large))));
        self.root_changed = true;
    }

    fn rebuild_without(&mut self, removed: Range<usize>) {
        let mut bytes = std::mem::take(self.cell.scratch);
        let old = self.cell.packed().expect("the caller saw packed bytes");
        packed::begin(&mut bytes, old.flags());
        for (index, pair) in pairs(old).enumerate() {
            if !removed.contains(&index) {
                push_pair(&mut bytes, pair);
            }
        }
        self.cell.entry.replace_bytes(Kind::ZSetPacked, &bytes);
        *self.cell.scratch = bytes;
    }
}

fn push_pair(out: &mut Vec<u8>, (member, score): (&[u8], f64)) {
    packed::push(out, member);
    packed::push(out, &score.to_le_bytes());
}

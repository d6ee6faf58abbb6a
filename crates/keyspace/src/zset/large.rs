//! A large sorted set: its members by name, and their order next to it.
//!
//! ```text
//!  members  Table<Element>         by hash of the name, owns the elements
//!                 │ owns
//!                 ▼
//!           Element: address · name · score
//!                 ▲ refers to
//!  order    RankTree<Ranked>       by (score, name): score · reference, 16 bytes
//! ```
//!
//! # Invariants
//! - Once it is arranged, `order` refers to exactly the elements of `members`, ordered by score and
//!   then by the bytes of the name, and each [`Ranked::score`] is the score in its element.
//! - While records are gathered `order` is empty; [`Large::arrange`] sorts once.
//! - A reference leaves `order` before its element leaves `members` or changes, and there is no other
//!   one: a [`Ranked`] can be moved, not copied. So the block of an element does not move while it is
//!   referred to.
#![expect(unsafe_code, reason = "the order refers to elements that the table owns")]

use std::cmp::Ordering;

use base::{ObjectId, RecordAddr, RecordKind};

use super::range::{Cut, indexes};
use crate::element::ElementRef;
use crate::elements::Elements;
use crate::hasher::KeyHasher;
use crate::object::Large;
use crate::packed::LARGE_ENCODING;
use crate::rank_tree::{self, RankTree, Weighted};
use crate::recorder::Recorder;
use crate::walk::Stream;

/// A member in the order.
pub(super) struct Ranked {
    score: f64,
    element: ElementRef,
}

impl Weighted for Ranked {
    fn weight(&self) -> usize {
        1
    }
}

/// See the file's top.
pub(crate) struct LargeZSet {
    members: Elements,
    order: RankTree<Ranked>,
    /// Redis would report the encoding `skiplist`.
    pub(super) is_skiplist: bool,
}

/// The order of sorted sets. Scores are never NaN.
pub(super) fn compare(left: (f64, &[u8]), right: (f64, &[u8])) -> Ordering {
    left.0.partial_cmp(&right.0).expect("scores are not NaN").then_with(|| left.1.cmp(right.1))
}

/// A score as records and elements hold it.
pub(super) fn score_from(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes.try_into().expect("a score takes eight bytes"))
}

impl LargeZSet {
    /// The name of a member that is, or was until now, in the order.
    fn name(&self, ranked: &Ranked) -> &[u8] {
        // SAFETY: by the invariants on top the element is in `members`, which is borrowed as long as
        // the name is used.
        unsafe { ranked.element.name() }
    }

    /// The score of a member.
    pub(super) fn score(&self, hasher: KeyHasher, member: &[u8]) -> Option<f64> {
        let element = self.members.find(hasher.hash(member), member)?;
        Some(score_from(element.value()))
    }

    /// How many members come before one with this score and name.
    pub(super) fn rank(&self, score: f64, member: &[u8]) -> usize {
        self.order.partition_point(|ranked| {
            compare((ranked.score, self.name(ranked)), (score, member)).is_lt()
        })
    }

    /// The indexes of the members in a range.
    pub(super) fn range(&self, cut: &impl Cut) -> std::ops::Range<usize> {
        let is_below = |ranked: &Ranked| cut.is_below(ranked.score, self.name(ranked));
        let is_above = |ranked: &Ranked| cut.is_above(ranked.score, self.name(ranked));
        let start = self.order.partition_point(is_below);
        let end = self.order.partition_point(|ranked| !is_above(ranked));
        indexes(start, end)
    }

    /// The members with these indexes.
    pub(super) fn iter(&self, range: std::ops::Range<usize>) -> Iter<'_> {
        Iter { zset: self, order: self.order.range(range) }
    }

    /// Visits about `count` members, in no order; see [`Elements::scan`].
    pub(super) fn scan<'a>(
        &'a self,
        hasher: KeyHasher,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&'a [u8], f64),
    ) -> u64 {
        self.members.scan(hasher, cursor, count, |element| {
            visit(element.name(), score_from(element.value()));
        })
    }

    /// Gives a member a score, adds it if need be, and logs that. Returns the score that it had.
    pub(super) fn set(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        member: &[u8],
        score: f64,
    ) -> Option<f64> {
        let hash = recorder.hasher.hash(member);
        let value = score.to_le_bytes();
        let Some(old) = self.members.find(hash, member).map(|el| score_from(el.value())) else {
            let at = self.rank(score, member);
            let element = self.members.add(id, recorder, hash, member, &value).as_ref();
            self.order.insert(at, Ranked { score, element });
            return None;
        };
        if old != score {
            // The block moves if a walk has still to emit it.
            self.order.remove(self.rank(old, member));
            let at = self.rank(score, member);
            let changed = self.members.change(id, recorder, hash, member, &value);
            let element = changed.expect("it was found").as_ref();
            self.order.insert(at, Ranked { score, element });
        }
        Some(old)
    }

    /// Removes a member and logs that. Whether it was there.
    pub(super) fn remove(&mut self, id: ObjectId, recorder: &mut Recorder, member: &[u8]) -> bool {
        let hash = recorder.hasher.hash(member);
        let Some(element) = self.members.find(hash, member) else { return false };
        let at = self.rank(score_from(element.value()), member);
        self.order.remove(at);
        self.members.remove(id, recorder, member)
    }

    /// Removes the member at `index`, which must be there, and logs that. `name` receives its
    /// name. Returns its score.
    pub(super) fn remove_at(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        index: usize,
        name: &mut Vec<u8>,
    ) -> f64 {
        let ranked = self.order.remove(index);
        name.clear();
        name.extend_from_slice(self.name(&ranked));
        self.members.remove(id, recorder, name);
        ranked.score
    }

    /// A set of these members, which come in order, with a record for each.
    pub(super) fn from_sorted<'a>(
        id: ObjectId,
        recorder: &mut Recorder,
        sorted: impl Iterator<Item = (&'a [u8], f64)>,
        is_skiplist: bool,
    ) -> Self {
        let hasher = recorder.hasher;
        let mut members = Elements::new(RecordKind::ZSetMember);
        let order = sorted
            .map(|(member, score)| {
                let value = score.to_le_bytes();
                let element = members.add(id, recorder, hasher.hash(member), member, &value);
                Ranked { score, element: element.as_ref() }
            })
            .collect();
        Self { members, order, is_skiplist }
    }
}

impl Large for LargeZSet {
    fn empty() -> Self {
        let members = Elements::new(RecordKind::ZSetMember);
        Self { members, order: RankTree::new(), is_skiplist: false }
    }

    fn root_value(&self, out: &mut Vec<u8>) {
        out.push(if self.is_skiplist { LARGE_ENCODING } else { 0 });
    }

    fn apply_root(&mut self, value: &[u8]) {
        self.is_skiplist = value.first().is_some_and(|flags| flags & LARGE_ENCODING != 0);
    }

    fn gather(
        &mut self,
        hasher: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        self.members.apply(hasher, sub, value, addr)
    }

    fn gather_deleted(&mut self, hasher: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        self.members.apply_deleted(hasher, sub)
    }

    fn apply_element(
        &mut self,
        hasher: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        let (score, old) = (score_from(value), self.score(hasher, sub));
        if let Some(old) = old {
            self.order.remove(self.rank(old, sub));
        }
        let superseded = self.members.apply(hasher, sub, value, addr);
        let element = self.members.find(hasher.hash(sub), sub).expect("just applied").as_ref();
        let at = self.rank(score, sub);
        self.order.insert(at, Ranked { score, element });
        superseded
    }

    fn apply_deleted(&mut self, hasher: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        let score = self.score(hasher, sub)?;
        self.order.remove(self.rank(score, sub));
        self.members.apply_deleted(hasher, sub)
    }

    fn arrange(&mut self, _: KeyHasher) {
        let mut order: Vec<Ranked> = self
            .members
            .iter()
            .map(|element| Ranked { score: score_from(element.value()), element: element.as_ref() })
            .collect();
        let by_rank =
            |a: &Ranked, b: &Ranked| compare((a.score, self.name(a)), (b.score, self.name(b)));
        order.sort_unstable_by(by_rank);
        self.order = order.into_iter().collect();
    }

    fn len(&self) -> usize {
        self.members.len()
    }

    fn duplicate(&self, id: ObjectId, recorder: &mut Recorder) -> Self {
        Self::from_sorted(id, recorder, self.iter(0..self.len()), self.is_skiplist)
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
        if self.is_skiplist { "skiplist" } else { "listpack" }
    }

    fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send> {
        let Self { members, mut order, .. } = self;
        Box::new(members.into_addrs().inspect(move |_| {
            // Which reference it is does not matter: none is followed any more.
            order.pop_back();
        }))
    }

    fn allocated_bytes(&self, samples: usize) -> usize {
        self.members.allocated_bytes(samples) + self.order.allocated_bytes()
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

/// Members of a large sorted set in order.
#[derive(Clone)]
pub(super) struct Iter<'a> {
    zset: &'a LargeZSet,
    order: rank_tree::Iter<'a, Ranked>,
}

impl<'a> Iter<'a> {
    fn member(&self, ranked: &Ranked) -> (&'a [u8], f64) {
        (self.zset.name(ranked), ranked.score)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        let ranked = self.order.next()?;
        Some(self.member(ranked))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.order.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let ranked = self.order.next_back()?;
        Some(self.member(ranked))
    }
}

//! A large sorted set: its members by name, and their order beside it.
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
//! - A reference leaves `order` before its element leaves `members`.

use std::cmp::Ordering;

use base::{ObjectId, RecordAddr, RecordKind};

use super::range::{Cut, indexes};
use crate::element::{Element, ElementRef};
use crate::hasher::KeyHasher;
use crate::object::Large;
use crate::packed::LARGE_ENCODING;
use crate::rank_tree::{self, RankTree, Weighted};
use crate::recorder::Recorder;
use crate::table::Table;

/// A member in the order.
#[derive(Clone, Copy)]
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
    members: Table<Element>,
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
    /// The score of a member.
    pub(super) fn score(&self, hasher: KeyHasher, member: &[u8]) -> Option<f64> {
        let element = self.members.find(hasher.hash(member), member)?;
        Some(score_from(element.value()))
    }

    /// How many members come before one with this score and name.
    pub(super) fn rank(&self, score: f64, member: &[u8]) -> usize {
        self.order.partition_point(|ranked| {
            compare((ranked.score, ranked.element.name(&self.members)), (score, member)).is_lt()
        })
    }

    /// The indexes of the members in a range.
    pub(super) fn range(&self, cut: &impl Cut) -> std::ops::Range<usize> {
        let name = |ranked: &Ranked| ranked.element.name(&self.members);
        let start = self.order.partition_point(|ranked| cut.is_below(ranked.score, name(ranked)));
        let end = self.order.partition_point(|ranked| !cut.is_above(ranked.score, name(ranked)));
        indexes(start, end)
    }

    /// The members with these indexes.
    pub(super) fn iter(&self, range: std::ops::Range<usize>) -> Iter<'_> {
        Iter { members: &self.members, order: self.order.range(range) }
    }

    /// Visits the members of one page of the table; see [`Table::scan`].
    pub(super) fn scan<'a>(
        &'a self,
        hasher: KeyHasher,
        cursor: u64,
        mut visit: impl FnMut(&'a [u8], f64),
    ) -> u64 {
        self.members.scan(hasher, cursor, |element| {
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
        let hasher = recorder.hasher;
        let hash = hasher.hash(member);
        let value = score.to_le_bytes();
        let Some(old) = self.members.find(hash, member).map(|el| score_from(el.value())) else {
            let mut element = Element::new(member, &value);
            let addr = recorder.log_element(RecordKind::ZSetMember, id, member, &value, None);
            element.set_addr(addr);
            let at = self.rank(score, member);
            self.order.insert(at, Ranked { score, element: element.as_ref() });
            self.members.insert(hasher, hash, element);
            return None;
        };
        if old != score {
            let ranked = self.order.remove(self.rank(old, member));
            let at = self.rank(score, member);
            self.order.insert(at, Ranked { score, ..ranked });
            let element = self.members.find_mut(hash, member).expect("it was just found");
            element.set_value(&value);
            let old = element.addr();
            let addr = recorder.log_element(RecordKind::ZSetMember, id, member, &value, old);
            element.set_addr(addr);
        }
        Some(old)
    }

    /// Removes a member and logs that. Whether it was there.
    pub(super) fn remove(&mut self, id: ObjectId, recorder: &mut Recorder, member: &[u8]) -> bool {
        let hash = recorder.hasher.hash(member);
        let Some(element) = self.members.find(hash, member) else { return false };
        let at = self.rank(score_from(element.value()), member);
        self.order.remove(at);
        let element = self.members.remove(recorder.hasher, hash, member);
        let addr = element.expect("it was just found").addr();
        recorder.log_element_deleted(id, member, addr);
        true
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
        name.extend_from_slice(ranked.element.name(&self.members));
        let element = self.members.remove(recorder.hasher, recorder.hasher.hash(name), name);
        let addr = element.expect("the order refers to members").addr();
        recorder.log_element_deleted(id, name, addr);
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
        let mut members = Table::new();
        let order = sorted
            .map(|(member, score)| {
                let value = score.to_le_bytes();
                let mut element = Element::new(member, &value);
                let kind = RecordKind::ZSetMember;
                element.set_addr(recorder.log_element(kind, id, member, &value, None));
                let ranked = Ranked { score, element: element.as_ref() };
                members.insert(hasher, hasher.hash(member), element);
                ranked
            })
            .collect();
        Self { members, order, is_skiplist }
    }
}

impl Large for LargeZSet {
    fn empty() -> Self {
        Self { members: Table::new(), order: RankTree::new(), is_skiplist: false }
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
        let hash = hasher.hash(sub);
        if let Some(element) = self.members.find_mut(hash, sub) {
            let old = element.addr();
            element.set_value(value);
            element.set_addr(Some(addr));
            return old;
        }
        let mut element = Element::new(sub, value);
        element.set_addr(Some(addr));
        self.members.insert(hasher, hash, element);
        None
    }

    fn gather_deleted(&mut self, hasher: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        self.members.remove(hasher, hasher.hash(sub), sub)?.addr()
    }

    fn apply_element(
        &mut self,
        hasher: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        let hash = hasher.hash(sub);
        let (score, old) = (score_from(value), self.score(hasher, sub));
        if let Some(old) = old {
            self.order.remove(self.rank(old, sub));
        }
        let superseded = self.gather(hasher, sub, value, addr);
        let element = self.members.find(hash, sub).expect("it was just put there").as_ref();
        let at = self.rank(score, sub);
        self.order.insert(at, Ranked { score, element });
        superseded
    }

    fn apply_deleted(&mut self, hasher: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        let score = self.score(hasher, sub)?;
        self.order.remove(self.rank(score, sub));
        self.gather_deleted(hasher, sub)
    }

    fn arrange(&mut self, _: KeyHasher) {
        let mut order: Vec<Ranked> = self
            .members
            .iter()
            .map(|element| Ranked { score: score_from(element.value()), element: element.as_ref() })
            .collect();
        let name = |ranked: &Ranked| ranked.element.name(&self.members);
        order.sort_unstable_by(|a, b| compare((a.score, name(a)), (b.score, name(b))));
        self.order = order.into_iter().collect();
    }

    fn len(&self) -> usize {
        self.members.len()
    }

    fn duplicate(&self, id: ObjectId, recorder: &mut Recorder) -> Self {
        Self::from_sorted(id, recorder, self.iter(0..self.len()), self.is_skiplist)
    }

    fn relog(&mut self, id: ObjectId, recorder: &mut Recorder, piece: usize) -> Option<usize> {
        let elements = self.members.page_mut(piece)?;
        Some(recorder.relog_elements(RecordKind::ZSetMember, id, elements))
    }

    fn rewrite(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        piece: usize,
        is_lost: &dyn Fn(RecordAddr) -> bool,
    ) -> Option<usize> {
        let elements = self.members.page_mut(piece)?;
        Some(recorder.rewrite_elements(RecordKind::ZSetMember, id, elements, is_lost))
    }

    fn encoding(&self) -> &'static str {
        if self.is_skiplist { "skiplist" } else { "listpack" }
    }

    fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send> {
        let Self { members, mut order, .. } = self;
        Box::new(members.into_items().map(move |element| {
            // Whose reference it is does not matter: none is followed any more.
            order.pop_back();
            element.addr()
        }))
    }

    fn allocated_bytes(&self, samples: usize) -> usize {
        let count = if samples == 0 { self.len() } else { samples.min(self.len()) };
        let sampled: usize = self.members.iter().take(count).map(Element::block_bytes).sum();
        let elements = sampled.checked_div(count).unwrap_or(0) * self.len();
        self.members.allocated_bytes() + self.order.allocated_bytes() + elements
    }
}

/// Members of a large sorted set in order.
#[derive(Clone)]
pub(super) struct Iter<'a> {
    members: &'a Table<Element>,
    order: rank_tree::Iter<'a, Ranked>,
}

impl<'a> Iter<'a> {
    fn member(&self, ranked: &Ranked) -> (&'a [u8], f64) {
        (ranked.element.name(self.members), ranked.score)
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

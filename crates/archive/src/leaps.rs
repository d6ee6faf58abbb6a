//! Leaps of an archive, found by their ends.

use std::collections::BTreeMap;

use base::Lsn;

use crate::picture::{Picture, Thinned};

/// See the file's top.
pub(crate) struct Leaps {
    by_ends: BTreeMap<(Lsn, Lsn), Thinned>,
    /// Where the leaps begin that can be used, ascending, and where the longest so far ends.
    covers: Vec<(Lsn, Lsn)>,
}

impl Leaps {
    pub(crate) fn of(picture: &Picture) -> Self {
        let by_ends: BTreeMap<(Lsn, Lsn), Thinned> =
            picture.thinned.iter().map(|leap| ((leap.from, leap.to), leap.clone())).collect();
        let (mut covers, mut end): (Vec<(Lsn, Lsn)>, Lsn) = (Vec::new(), Lsn::ZERO);
        for (from, to) in by_ends.keys().filter(|(from, _)| picture.range_of(*from).is_some()) {
            end = end.max(*to);
            covers.push((*from, end));
        }
        Self { by_ends, covers }
    }

    /// The one from one block to another.
    pub(crate) fn get(&self, from: Lsn, to: Lsn) -> Option<&Thinned> {
        self.by_ends.get(&(from, to))
    }

    /// The longest from this block that leads no further than to `most`.
    pub(crate) fn longest(&self, from: Lsn, most: Lsn) -> Option<&Thinned> {
        self.by_ends.range((from, Lsn::ZERO)..=(from, most)).next_back().map(|(_, leap)| leap)
    }

    /// Where the first one begins of those between two blocks that lead no further than to `most`.
    pub(crate) fn first_between(&self, after: Lsn, before: Lsn, most: Lsn) -> Option<Lsn> {
        if after.next() >= before {
            return None;
        }
        let between = self.by_ends.range((after.next(), Lsn::ZERO)..(before, Lsn::ZERO));
        between.map(|(ends, _)| *ends).find(|(_, to)| *to <= most).map(|(from, _)| from)
    }

    /// Whether a block is strictly inside one that can be used.
    pub(crate) fn is_inside(&self, lsn: Lsn) -> bool {
        let at = self.covers.partition_point(|(from, _)| *from < lsn);
        at.checked_sub(1).is_some_and(|at| self.covers[at].1 > lsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{Fill, Name};

    #[test]
    fn leaps_are_found_as_by_looking_at_all_of_them() {
        let ends = [(10, 20), (10, 40), (12, 15), (20, 30), (40, 50), (45, 46), (60, 70)];
        let leaps = ends.map(|(from, to)| {
            let [from, to] = [from, to].map(Lsn);
            Name::Thin { first: from.next(), last: to, from, to, tidier: 1 }
        });
        let fill = Fill { lsn: Lsn(10), writer: 1, number: 1 };
        let log = Name::Log { first: Lsn(11), last: Lsn(13), writer: 1 };
        let names = [&leaps[..], &[Name::Whole { fill, objects: 0 }, log]].concat();
        let picture = Picture::of(&names);
        let found = Leaps::of(&picture);
        let all = || picture.thinned.iter();
        for at in (0..80).map(Lsn) {
            let is_used = |leap: &&Thinned| picture.range_of(leap.from).is_some();
            let inside = all().filter(is_used).any(|leap| leap.from < at && at < leap.to);
            assert_eq!(found.is_inside(at), inside, "{at}");
            for most in (0..80).map(Lsn) {
                let from_here = all().filter(|leap| leap.from == at && leap.to <= most);
                assert_eq!(found.longest(at, most), from_here.max_by_key(|leap| leap.to));
                let between = all().filter(|leap| leap.from > at && leap.from < Lsn(45));
                let first = between.filter(|leap| leap.to <= most).map(|leap| leap.from).min();
                assert_eq!(found.first_between(at, Lsn(45), most), first, "{at}, {most}");
            }
        }
        assert!(found.is_inside(Lsn(13)) && !found.is_inside(Lsn(65)), "nothing leads to 60");
    }
}

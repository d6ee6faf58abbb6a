//! Which blocks are told of by what counts, and what only is if a later writer has not begun where it says.
//!
//! ```text
//!   writer 1   101 ─────────────────── 5500        begin of writer 2 at 5000: perhaps forged
//!   writer 3                               5501 ────── copy 7000 ───► 9000
//!   counts     101 ───────── 4999                      7000 ───────── 9000
//!   hidden                    5000 ────── 6999         stays, with the copy that leads to it
//! ```
//!
//! An object that says where a writer has begun is not encrypted, and anything that may put objects can put one. So what it hides stays as it is, unless
//! what counts tells of the same blocks: as they are, or thinned out.

use std::collections::HashSet;

use base::Lsn;

use crate::name::{Folder, Name};
use crate::picture::{Chain, Picture};
use crate::piece::Piece;

/// Blocks, as spans behind the first of two up to the second, ascending, none next to another.
pub(crate) struct Told(Vec<(Lsn, Lsn)>);

impl Told {
    /// The blocks that are in something.
    pub(crate) fn blocks(picture: &Picture) -> Self {
        Self::of(picture, |range| (range.first, range.last))
    }

    /// Those whose states can be restored, or were given up.
    fn states(picture: &Picture) -> Self {
        Self::of(picture, |range| (Lsn(range.first.0.saturating_sub(1)), range.last))
    }

    fn of(picture: &Picture, span: impl Fn(&crate::picture::Range) -> (Lsn, Lsn)) -> Self {
        let leaps = picture.thinned.iter().map(|leap| (leap.from, leap.to));
        let mut spans: Vec<(Lsn, Lsn)> = picture.ranges.iter().map(span).chain(leaps).collect();
        spans.sort_unstable();
        let mut merged: Vec<(Lsn, Lsn)> = Vec::new();
        for (after, to) in spans {
            match merged.last_mut() {
                Some(last) if after <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((after, to)),
            }
        }
        Self(merged)
    }

    /// Whether all of these are among them.
    pub(crate) fn has_all(&self, first: Lsn, last: Lsn) -> bool {
        let at = self.0.partition_point(|(_, to)| *to < first);
        self.0.get(at).is_some_and(|(after, to)| *after < first && last <= *to)
    }

    /// The last one of each of the spans of these that are not among them.
    fn ends_of_others(&self, first: Lsn, last: Lsn) -> Vec<Lsn> {
        let (mut next, mut ends) = (first, Vec::new());
        while next <= last {
            let at = self.0.partition_point(|(_, to)| *to < next);
            let span = self.0.get(at).filter(|(after, _)| *after < last);
            match span {
                Some((after, to)) if *after < next => next = to.next(),
                Some((after, to)) => {
                    ends.push(*after);
                    next = to.next();
                }
                None => {
                    ends.push(last);
                    break;
                }
            }
        }
        ends
    }
}

/// What leads to the states up to `last` that only count if no writer is believed to have begun without having put anything that can be read.
pub(crate) fn hidden(names: &[Name], sound: &Picture, last: Lsn) -> Vec<Chain> {
    let is_good = |name: &Name| Piece::of(name).is_none_or(|piece| !sound.damaged.contains(&piece));
    let open: Vec<Name> = names
        .iter()
        .copied()
        .filter(|name| name.folder() != Folder::Begin && is_good(name))
        .collect();
    let (open, told) = (Picture::of_all(&open), Told::states(sound));
    let ends = open.ranges.iter().flat_map(|range| {
        let ends = told.ends_of_others(range.first, range.last.min(last));
        ends.into_iter().filter(|lsn| *lsn >= range.first).collect::<Vec<_>>()
    });
    let ends: HashSet<Lsn> = ends.collect();
    ends.into_iter().filter_map(|lsn| open.chain(lsn)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Fill;

    fn copy(lsn: u64, writer: u64) -> Name {
        Name::Whole { fill: Fill { lsn: Lsn(lsn), writer, number: 1 }, objects: 0 }
    }

    fn log(first: u64, last: u64, writer: u64) -> Name {
        Name::Log { first: Lsn(first), last: Lsn(last), writer }
    }

    #[test]
    fn what_is_told_is_found_and_what_is_not() {
        let leap = |from, to| {
            let [first, last, from, to] = [from + 1, to, from, to].map(Lsn);
            Name::Thin { first, last, from, to, tidier: 1 }
        };
        let names = [copy(100, 1), log(101, 200, 1), leap(200, 300), leap(300, 400), copy(600, 1)];
        let picture = Picture::of(&names);
        let (blocks, states) = (Told::blocks(&picture), Told::states(&picture));
        assert!(blocks.has_all(Lsn(101), Lsn(400)) && states.has_all(Lsn(100), Lsn(400)));
        assert!(!blocks.has_all(Lsn(100), Lsn(400)), "block 100 itself is in nothing");
        assert!(!blocks.has_all(Lsn(400), Lsn(401)) && !blocks.has_all(Lsn(600), Lsn(600)));
        let ends = |first, last| states.ends_of_others(Lsn(first), Lsn(last));
        assert_eq!(ends(150, 400), []);
        assert_eq!(ends(50, 450), [Lsn(99), Lsn(450)]);
        assert_eq!(ends(50, 700), [Lsn(99), Lsn(599), Lsn(700)]);
        assert_eq!(ends(599, 600), [Lsn(599)]);
        assert_eq!(ends(600, 600), []);
    }

    #[test]
    fn what_a_stranger_hides_is_found_with_what_leads_to_it() {
        let begin = Name::Begin { lsn: Lsn(501), writer: 3 };
        let names = [
            copy(100, 1),
            log(101, 300, 1),
            log(301, 500, 1),
            begin,
            log(501, 699, 3),
            copy(700, 3),
            log(700, 900, 3),
        ];
        let ends = |names: &[Name]| {
            let mut ends: Vec<_> = hidden(names, &Picture::of(names), Lsn(800))
                .iter()
                .map(|chain| (chain.fill.lsn.0, chain.logs.len()))
                .collect();
            ends.sort_unstable();
            ends
        };
        assert_eq!(ends(&names), []);
        let forged = Name::Begin { lsn: Lsn(400), writer: 2 };
        assert_eq!(ends(&[&names[..], &[forged]].concat()), [(100, 3)]);
        // Garbage that would begin there, and is known to be.
        let garbage = log(400, 900, 2);
        let mark = Name::Damaged { piece: Piece::of(&garbage).unwrap() };
        assert_eq!(ends(&[&names[..], &[garbage, mark]].concat()), [(100, 3)]);
    }
}

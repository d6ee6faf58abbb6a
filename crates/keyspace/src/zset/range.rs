//! Ranges of a sorted set: by score and by member.

use std::ops::Range;

/// Scores between two bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreRange {
    /// The lower bound.
    pub min: f64,
    /// The upper bound.
    pub max: f64,
    /// Whether a score of `min` is outside.
    pub min_excluded: bool,
    /// Whether a score of `max` is outside.
    pub max_excluded: bool,
}

/// A bound of a range by member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member (`-`).
    Least,
    /// After every member (`+`).
    Greatest,
    /// At this member (`[member`).
    Included(&'a [u8]),
    /// Just past this member, towards the inside (`(member`).
    Excluded(&'a [u8]),
}

/// Members between two bounds, by their bytes; of use when all scores are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LexRange<'a> {
    /// The lower bound.
    pub min: LexBound<'a>,
    /// The upper bound.
    pub max: LexBound<'a>,
}

/// What cuts an ordered set in three: what is below it, in it, and above it.
pub(super) trait Cut {
    /// Whether a member comes before the range.
    fn is_below(&self, score: f64, member: &[u8]) -> bool;
    /// Whether a member comes after the range.
    fn is_above(&self, score: f64, member: &[u8]) -> bool;
}

impl Cut for ScoreRange {
    fn is_below(&self, score: f64, _: &[u8]) -> bool {
        if self.min_excluded { score <= self.min } else { score < self.min }
    }

    fn is_above(&self, score: f64, _: &[u8]) -> bool {
        if self.max_excluded { score >= self.max } else { score > self.max }
    }
}

impl Cut for LexRange<'_> {
    fn is_below(&self, _: f64, member: &[u8]) -> bool {
        match self.min {
            LexBound::Least => false,
            LexBound::Greatest => true,
            LexBound::Included(bound) => member < bound,
            LexBound::Excluded(bound) => member <= bound,
        }
    }

    fn is_above(&self, _: f64, member: &[u8]) -> bool {
        match self.max {
            LexBound::Least => true,
            LexBound::Greatest => false,
            LexBound::Included(bound) => member > bound,
            LexBound::Excluded(bound) => member >= bound,
        }
    }
}

/// The indexes between two, none if they are the wrong way round.
pub(super) fn indexes(start: usize, end: usize) -> Range<usize> {
    start..end.max(start)
}

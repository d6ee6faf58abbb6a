//! Order keys: the names that nodes have in the log, whose order is the order of the list.
//!
//! The first node gets the middle of the key space, nodes at the ends get keys at a distance of
//! [`STEP`], and a node between two others gets the middle of the gap. When a gap is used up,
//! nodes around it are renamed: as few as leave room again, and more the more crowded the
//! neighbourhood is, so that N insertions at one place rename O(N log² N) nodes in all.

/// The key of the first node of a list.
pub(super) const MIDDLE: u64 = 1 << 63;

/// The distance of a node that is added at an end; there is room for 2⁴³ of them on either side.
pub(super) const STEP: u64 = 1 << 20;

/// A key between two neighbours, where there is one.
pub(super) fn between(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    match (before, after) {
        (None, None) => Some(MIDDLE),
        (Some(before), None) => before.checked_add(STEP).or_else(|| middle(before, u64::MAX)),
        (None, Some(after)) => after.checked_sub(STEP).or_else(|| middle(0, after)),
        (Some(before), Some(after)) => middle(before, after),
    }
}

fn middle(before: u64, after: u64) -> Option<u64> {
    let middle = before.midpoint(after);
    (before < middle && middle < after).then_some(middle)
}

/// How many nodes on either side are looked at, and how far apart they must come to lie if they
/// are renamed, in keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) reach: usize,
    pub(super) spacing_min: u64,
}

impl Window {
    /// The smallest.
    pub(super) const FIRST: Self = Self { reach: 4, spacing_min: 16 };

    /// The next larger: the more nodes are renamed, the more room they must win.
    pub(super) const fn wider(self) -> Self {
        let spacing_min = self.spacing_min.saturating_add(self.spacing_min / 2);
        Self { reach: self.reach.saturating_mul(2), spacing_min }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_lies_between_its_neighbours() {
        assert_eq!(between(None, None), Some(MIDDLE));
        assert_eq!(between(Some(MIDDLE), None), Some(MIDDLE + STEP));
        assert_eq!(between(None, Some(MIDDLE)), Some(MIDDLE - STEP));
        assert_eq!(between(Some(4), Some(6)), Some(5));
        assert_eq!(between(Some(4), Some(5)), None);
    }

    #[test]
    fn the_ends_of_the_key_space_are_gaps_too() {
        assert_eq!(between(Some(u64::MAX - 4), None), Some(u64::MAX - 2));
        assert_eq!(between(Some(u64::MAX), None), None);
        assert_eq!(between(None, Some(2)), Some(1));
        assert_eq!(between(None, Some(0)), None);
    }
}

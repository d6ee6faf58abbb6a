//! Names in the form in which they are compared most: two numbers, without a jump.
//!
//! Sorting and merging compare names that cannot be predicted. A comparison field by field costs a
//! mispredicted jump each time; this one is arithmetic.

use std::cmp::Ordering;

use crate::name::Name;

/// A name, and a number that tells equal names apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SortKey {
    scope: u64,
    /// The upper part of the hash.
    high: u64,
    /// The lower part of the hash, and the number.
    back: u64,
}

impl SortKey {
    /// Behind, or equal to, every other key.
    pub(crate) const END: Self = Self { scope: u64::MAX, high: u64::MAX, back: u64::MAX };

    #[inline]
    pub(crate) fn new(name: Name, number: u32) -> Self {
        Self {
            scope: name.scope.raw(),
            high: name.hash.high(),
            back: (u64::from(name.hash.low()) << 32) | u64::from(number),
        }
    }

    const fn front(self) -> u128 {
        ((self.scope as u128) << 64) | self.high as u128
    }

    #[inline]
    pub(crate) const fn is_before(self, other: Self) -> bool {
        let (front, other_front) = (self.front(), other.front());
        (front < other_front) | ((front == other_front) & (self.back < other.back))
    }

    #[inline]
    pub(crate) const fn has_name_of(self, other: Self) -> bool {
        self.front() == other.front() && self.back >> 32 == other.back >> 32
    }

    /// The number.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub(crate) const fn number(self) -> u32 {
        self.back as u32
    }
}

impl Ord for SortKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        if self.is_before(*other) {
            Ordering::Less
        } else if other.is_before(*self) {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }
}

impl PartialOrd for SortKey {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{Hash96, Scope};
    use base::{DbId, ObjectId};

    #[test]
    fn keys_are_ordered_as_names_then_numbers() {
        let scopes =
            [Scope::database(DbId(0)), Scope::database(DbId(1)), Scope::object(ObjectId(1))];
        let hashes = [Hash96::MIN, Hash96::new(0, 1), Hash96::new(1, 0), Hash96::MAX];
        let names = scopes.iter().flat_map(|scope| hashes.map(|hash| Name::new(*scope, hash)));
        let pairs: Vec<(Name, u32)> =
            names.flat_map(|name| [0, 1, u32::MAX].map(|number| (name, number))).collect();
        for a in &pairs {
            for b in &pairs {
                let (x, y) = (SortKey::new(a.0, a.1), SortKey::new(b.0, b.1));
                assert_eq!(x.cmp(&y), a.cmp(b));
                assert_eq!((x.is_before(y), x.has_name_of(y)), (a < b, a.0 == b.0));
                assert_eq!(x.number(), a.1);
            }
        }
    }
}

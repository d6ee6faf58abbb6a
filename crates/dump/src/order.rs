//! Where an element has its place in its object.

/// The place of an element: a number, or of a node of a stream two of them. Where the order does not matter, all are
/// alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Order {
    pub(crate) major: u64,
    pub(crate) minor: u64,
}

impl Order {
    /// Behind all others: what a stream has besides its entries.
    pub(crate) const LAST: Self = Self { major: u64::MAX, minor: u64::MAX };

    pub(crate) const fn of(number: u64) -> Self {
        Self { major: number, minor: 0 }
    }
}

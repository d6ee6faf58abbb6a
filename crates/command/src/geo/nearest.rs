//! What is found, in the order in which it is told: as it comes, or by distance, and then hardly more of it than is asked for.

use std::cmp::Ordering;

/// See the file's top.
pub(super) struct Nearest<T> {
    /// Whether the farthest are told first; `None` for the order in which they come.
    is_descending: Option<bool>,
    /// How many are asked for.
    count_max: usize,
    /// In an order: fewer than twice as many as are asked for, all that can be among them.
    found: Vec<Found<T>>,
    /// How many have come.
    added: u64,
}

/// Something with its place in the order: those of the same distance are told as they come.
struct Found<T> {
    /// Its distance; below zero if the farthest are told first.
    key: f64,
    number: u64,
    what: T,
}

impl<T> Found<T> {
    fn compare(&self, other: &Self) -> Ordering {
        self.key.total_cmp(&other.key).then(self.number.cmp(&other.number))
    }
}

impl<T> Nearest<T> {
    /// Nothing yet. `count`: the first so many of an order are asked for, `None` for all.
    pub(super) fn new(is_descending: Option<bool>, count: Option<usize>) -> Self {
        let count_max = count.unwrap_or(usize::MAX);
        Self { is_descending, count_max, found: Vec::new(), added: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Takes one that is so far away.
    pub(super) fn add(&mut self, distance_m: f64, what: T) {
        let key = if self.is_descending == Some(true) { -distance_m } else { distance_m };
        self.added += 1;
        self.found.push(Found { key, number: self.added, what });
        if self.is_descending.is_some() && self.found.len() >= self.count_max.saturating_mul(2) {
            // Each pass over all that is kept lets half of it go: a few comparisons for each that comes.
            self.found.select_nth_unstable_by(self.count_max, Found::compare);
            self.found.truncate(self.count_max);
        }
    }

    /// Those that are asked for, in their order.
    pub(super) fn into_iter(mut self) -> impl Iterator<Item = T> {
        if self.is_descending.is_some() {
            self.found.sort_unstable_by(Found::compare);
        }
        self.found.truncate(self.count_max);
        self.found.into_iter().map(|found| found.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distances of which many are equal, each with its number.
    fn places() -> impl Iterator<Item = (f64, u32)> {
        (0..500).map(|number| (f64::from((number * 7919) % 37), number))
    }

    #[test]
    fn what_is_kept_is_the_beginning_of_all_in_order() {
        for is_descending in [None, Some(false), Some(true)] {
            let mut sorted: Vec<_> = places().collect();
            match is_descending {
                Some(true) => sorted.sort_by(|a, b| b.0.total_cmp(&a.0)),
                Some(false) => sorted.sort_by(|a, b| a.0.total_cmp(&b.0)),
                None => {}
            }
            for count in [1, 2, 13, 250, 499, 500, 501, usize::MAX] {
                let mut nearest = Nearest::new(is_descending, Some(count));
                for place in places() {
                    nearest.add(place.0, place);
                    let is_bounded =
                        is_descending.is_none() || nearest.len() < count.saturating_mul(2);
                    assert!(is_bounded, "{} of {count}", nearest.len());
                }
                let found: Vec<_> = nearest.into_iter().collect();
                assert_eq!(found, sorted[..count.min(500)], "{is_descending:?} {count}");
            }
        }
    }
}

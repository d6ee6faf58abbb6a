//! Random subsets of a collection's elements, every subset of the asked size as likely.

use std::collections::HashSet;

use crate::element::Element;
use crate::table::Table;

/// Above this share of a table (one in so many) a walk over all of it is cheaper than picking.
const WALK_SHARE: usize = 3;

/// `count` of the `len` items that `items` yields, in their order (Knuth's selection sampling).
pub(crate) fn select<'a, I: Iterator + 'a>(
    items: I,
    len: usize,
    count: usize,
    rng: &'a mut fastrand::Rng,
) -> impl Iterator<Item = I::Item> + 'a {
    let (mut left, mut wanted) = (len, count.min(len));
    items.filter(move |_| {
        let taken = rng.usize(..left) < wanted;
        left -= 1;
        wanted -= usize::from(taken);
        taken
    })
}

/// `count` different elements of a table, or all of them when there are fewer.
pub(crate) fn distinct<'a>(
    table: &'a Table<Element>,
    count: usize,
    rng: &mut fastrand::Rng,
) -> Vec<&'a Element> {
    if count >= table.len() / WALK_SHARE {
        return select(table.iter(), table.len(), count, rng).collect();
    }
    let mut picked = Vec::with_capacity(count);
    let mut names = HashSet::with_capacity(count);
    while picked.len() < count {
        let element = table.random(rng).expect("the table has three times as many");
        if names.insert(element.name()) {
            picked.push(element);
        }
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_selected_as_often() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            let picked: Vec<usize> = select(0..10, 10, 3, &mut rng).collect();
            assert_eq!(picked.len(), 3);
            assert!(picked.is_sorted());
            picked.iter().for_each(|item| counts[*item] += 1);
        }
        assert!(counts.iter().all(|count| (2700..3300).contains(count)), "{counts:?}");
        assert_eq!(select(0..4, 4, 9, &mut rng).count(), 4);
        assert_eq!(select(0..4, 4, 0, &mut rng).count(), 0);
    }
}

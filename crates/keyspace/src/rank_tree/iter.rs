//! Walking along a rank tree.

use std::ops::Range;

use super::RankTree;

/// Items of a [`RankTree`] in order, from both ends, without allocating: it walks along a leaf and
/// finds the next one from the root.
#[derive(Debug)]
pub struct Iter<'a, T> {
    tree: &'a RankTree<T>,
    /// The indexes that are in neither leaf below.
    unread: Range<usize>,
    front: std::slice::Iter<'a, T>,
    back: std::slice::Iter<'a, T>,
}

impl<'a, T> Iter<'a, T> {
    /// The items with the indexes `unread`, which must be there.
    pub(super) fn new(tree: &'a RankTree<T>, unread: Range<usize>) -> Self {
        Self { tree, unread, front: [].iter(), back: [].iter() }
    }
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self {
            tree: self.tree,
            unread: self.unread.clone(),
            front: self.front.clone(),
            back: self.back.clone(),
        }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if let Some(item) = self.front.next() {
            return Some(item);
        }
        if self.unread.is_empty() {
            return self.back.next();
        }
        let (leaf, within) = self.tree.leaf_at(self.unread.start);
        let end = leaf.len().min(within + self.unread.len());
        self.unread.start += end - within;
        self.front = leaf[within..end].iter();
        self.front.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.front.len() + self.unread.len() + self.back.len();
        (left, Some(left))
    }
}

impl<'a, T> DoubleEndedIterator for Iter<'a, T> {
    fn next_back(&mut self) -> Option<&'a T> {
        if let Some(item) = self.back.next_back() {
            return Some(item);
        }
        if self.unread.is_empty() {
            return self.front.next_back();
        }
        let (leaf, within) = self.tree.leaf_at(self.unread.end - 1);
        let start = (within + 1).saturating_sub(self.unread.len());
        self.unread.end -= within + 1 - start;
        self.back = leaf[start..=within].iter();
        self.back.next_back()
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

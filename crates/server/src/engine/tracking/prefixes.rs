//! Prefixes of keys: which of them mean the same keys, and which of them a key has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Two prefixes of one client that some keys would have both.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Overlap {
    /// The client has the other one already.
    #[error(
        "ERR Prefix '{0}' overlaps with an existing prefix '{1}'. Prefixes for a single client must not overlap."
    )]
    Existing(String, String),
    /// It has named both now.
    #[error(
        "ERR Prefix '{0}' overlaps with another provided prefix '{1}'. Prefixes for a single client must not overlap."
    )]
    Provided(String, String),
}

fn text(prefix: &[u8]) -> String {
    String::from_utf8_lossy(prefix).into_owned()
}

/// Checks that no key has two of these prefixes.
pub(super) fn check(existing: &BTreeSet<Box<[u8]>>, provided: &[&[u8]]) -> Result<(), Overlap> {
    if let Some(prefix) = provided.first()
        && existing.contains(&b""[..])
    {
        // It has come without being named, and is the one that may overlap others.
        return Err(Overlap::Existing(text(prefix), String::new()));
    }
    for prefix in provided {
        // No two of these overlap: only the last before this one can be the beginning of it.
        let up_to_it = (Bound::Unbounded, Bound::Included(*prefix));
        let before = existing.range::<[u8], _>(up_to_it).next_back();
        let behind = existing.range::<[u8], _>((Bound::Excluded(*prefix), Bound::Unbounded)).next();
        let found = before
            .filter(|other| prefix.starts_with(other))
            .or_else(|| behind.filter(|other| other.starts_with(prefix)));
        if let Some(other) = found {
            return Err(Overlap::Existing(text(prefix), text(other)));
        }
    }
    let mut sorted: Vec<(&[u8], usize)> =
        provided.iter().enumerate().map(|(index, prefix)| (*prefix, index)).collect();
    sorted.sort_unstable();
    // If one begins another, it also begins the one that follows it.
    let overlapping = sorted.windows(2).find(|pair| pair[1].0.starts_with(pair[0].0));
    if let Some(pair) = overlapping {
        let (first, second) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
        return Err(Overlap::Provided(text(provided[first]), text(provided[second])));
    }
    Ok(())
}

/// Prefixes with something about each, found by a key that has them.
#[derive(Debug)]
pub(super) struct PrefixMap<T> {
    by_prefix: BTreeMap<Box<[u8]>, T>,
    /// How many prefixes there are of each length.
    lengths: BTreeMap<usize, usize>,
}

impl<T> Default for PrefixMap<T> {
    fn default() -> Self {
        Self { by_prefix: BTreeMap::new(), lengths: BTreeMap::new() }
    }
}

impl<T: Default> PrefixMap<T> {
    pub(super) fn len(&self) -> usize {
        self.by_prefix.len()
    }

    /// What there is about a prefix.
    pub(super) fn get_mut(&mut self, prefix: &[u8]) -> Option<&mut T> {
        self.by_prefix.get_mut(prefix)
    }

    /// The same; a new one has the default.
    pub(super) fn entry(&mut self, prefix: &[u8]) -> &mut T {
        if !self.by_prefix.contains_key(prefix) {
            *self.lengths.entry(prefix.len()).or_default() += 1;
        }
        self.by_prefix.entry(prefix.into()).or_default()
    }

    pub(super) fn remove(&mut self, prefix: &[u8]) {
        if self.by_prefix.remove(prefix).is_some()
            && let Some(count) = self.lengths.get_mut(&prefix.len())
        {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
    }

    /// Looks at each prefix that a key has: as many looks as there are lengths, and never more than the key is long.
    pub(super) fn for_each_of(&mut self, key: &[u8], mut visit: impl FnMut(&[u8], &mut T)) {
        for (length, _) in self.lengths.range(..=key.len()) {
            let prefix = &key[..*length];
            if let Some(about) = self.by_prefix.get_mut(prefix) {
                visit(prefix, about);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_has_no_two_prefixes_of_one_key() {
        let has: BTreeSet<Box<[u8]>> =
            [&b"FOO"[..], b"a:", b"b:"].map(Box::from).into_iter().collect();
        let of = |provided: &[&str]| {
            let provided: Vec<&[u8]> = provided.iter().map(|prefix| prefix.as_bytes()).collect();
            check(&has, &provided).map_err(|overlap| overlap.to_string())
        };
        assert_eq!(of(&["c:", "d:", "FO!", "a", ""][..3]), Ok(()));
        for (provided, wanted) in [
            (&["FO"][..], "'FO' overlaps with an existing prefix 'FOO'"),
            (&["x", "FOOBAR"], "'FOOBAR' overlaps with an existing prefix 'FOO'"),
            (&["a:"], "'a:' overlaps with an existing prefix 'a:'"),
            (&[""], "'' overlaps with an existing prefix 'FOO'"),
            (&["xy", "x"], "'xy' overlaps with another provided prefix 'x'"),
            (&["q", "x", "z", "xy"], "'x' overlaps with another provided prefix 'xy'"),
            (&["x", "x"], "'x' overlaps with another provided prefix 'x'"),
        ] {
            let error = of(provided).unwrap_err();
            assert!(error.starts_with(&format!("ERR Prefix {wanted}. ")), "{error}");
        }
        let every_key = [Box::from(&b""[..]), Box::from(&b"a"[..])].into_iter().collect();
        let error = check(&every_key, &[b"b"]).unwrap_err().to_string();
        assert!(error.starts_with("ERR Prefix 'b' overlaps with an existing prefix ''"), "{error}");
    }

    #[test]
    fn every_prefix_of_a_key_is_found() {
        let mut map = PrefixMap::<u32>::default();
        for (prefix, number) in [(&b""[..], 1), (b"a", 2), (b"ab", 3), (b"b", 4), (b"abcd", 5)] {
            *map.entry(prefix) = number;
        }
        let mut of = |key: &[u8]| {
            let mut found = Vec::new();
            map.for_each_of(key, |_, number| found.push(*number));
            found
        };
        assert_eq!(of(b"abc"), [1, 2, 3]);
        assert_eq!(of(b"b"), [1, 4]);
        assert_eq!(of(b""), [1]);
        map.remove(b"a");
        map.remove(b"abcd");
        map.remove(b"abcd");
        let mut found = Vec::new();
        map.for_each_of(b"abcd", |_, number| found.push(*number));
        assert_eq!((found, map.len()), (vec![1, 3], 3));
    }
}

//! A page compared with a map, damaged pages, and the invariants of heads and prefix.

use super::*;
use env_sim::SimEntropy;
use std::collections::BTreeMap;

impl Page {
    /// Inserts or replaces a cell; false if it does not fit.
    #[must_use]
    pub(crate) fn put(&mut self, cell: &Cell<'_>) -> bool {
        self.put_at(self.search(cell.key), cell)
    }
}

#[test]
fn behaves_as_a_map_until_it_is_full() {
    for seed in 0..50 {
        let mut rng = SimEntropy::new(seed);
        let mut page = Page::blank();
        page.format(PageId(7), Kind::Leaf, 0, 0);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for _ in 0..600 {
            let key = vec![b'k'; usize::try_from(rng.below(60)).expect("small")];
            if rng.below(3) == 0 {
                let removed = page.search(&key).ok().map(|i| page.remove_at(i)).is_some();
                assert_eq!(removed, model.remove(&key).is_some());
            } else {
                let value = vec![1; usize::try_from(rng.below(300)).expect("small")];
                let cell = Cell { key: &key, value: &value, is_overflow: false };
                let fits = page.fits(&cell);
                assert_eq!(page.put(&cell), fits);
                if fits {
                    model.insert(key, value);
                }
            }
            assert_eq!(page.verify_shape(), Ok(()), "seed {seed}");
        }
        let found: Vec<_> = page.cells().map(|c| (c.key.to_vec(), c.value.to_vec())).collect();
        assert_eq!(found, model.into_iter().collect::<Vec<_>>(), "seed {seed}");
    }
}

/// Keys of few distinct bytes, so that they collide. Some are empty, some prefixes of others, some
/// end in zeros, some have much in common.
fn any_key(rng: &mut SimEntropy, long: &[u8]) -> Vec<u8> {
    let mut below = |max| usize::try_from(rng.below(max)).expect("small");
    let mut key = match below(8) {
        0 => Vec::new(),
        1 => long[..below(long.len() as u64 + 1)].to_vec(),
        _ => long.to_vec(),
    };
    for _ in 0..below(7) {
        key.push([0, 0, 1, b'a', b'b', 255][below(6)]);
    }
    key
}

#[test]
fn finds_any_key_where_a_map_has_it() {
    for seed in 0..120 {
        let mut rng = SimEntropy::new(seed);
        let long = vec![b'p'; usize::try_from(rng.below(3) * 20).expect("small")];
        let mut page = Page::blank();
        page.format(PageId(7), Kind::Leaf, 0, 0);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for round in 0..400_u32 {
            let key = any_key(&mut rng, &long);
            let place = page.search(&key);
            let below = model.range(..key.clone()).count();
            let expected = if model.contains_key(&key) { Ok(below) } else { Err(below) };
            assert_eq!(place, expected, "seed {seed}, round {round}, key {key:?}");
            match rng.below(60) {
                0 => {
                    page.truncate(place.unwrap_or_else(|i| i));
                    drop(model.split_off(&key));
                }
                1..20 => {
                    assert_eq!(place.is_ok(), model.remove(&key).is_some());
                    place.into_iter().for_each(|i| page.remove_at(i));
                }
                _ => {
                    let len = [8, 8, 300][usize::try_from(rng.below(3)).expect("small")];
                    let value = vec![1; len];
                    let cell = Cell { key: &key, value: &value, is_overflow: false };
                    if page.put_at(place, &cell) {
                        model.insert(key, value);
                    }
                }
            }
            assert_eq!(page.verify_shape(), Ok(()), "seed {seed}, round {round}");
        }
        let found: Vec<_> = page.cells().map(|c| (c.key.to_vec(), c.value.to_vec())).collect();
        assert_eq!(found, model.into_iter().collect::<Vec<_>>(), "seed {seed}");
    }
}

fn page_of(keys: &[&[u8]]) -> Page {
    let mut page = Page::blank();
    page.format(PageId(7), Kind::Leaf, 0, 0);
    for key in keys {
        assert!(page.put(&Cell { key, value: b"12345678", is_overflow: false }));
    }
    page
}

#[test]
fn the_prefix_is_as_long_as_the_keys_allow_until_one_is_removed() {
    for (keys, prefix_len) in [
        (&[&b"warehouse"[..]][..], 9),
        (&[b"", b"warehouse"], 9),
        (&[b"warehouse", b"wares"], 4),
        (&[b"ab\0", b"ab"], 2),
        (&[b"ab", b"b", b""], 0),
    ] {
        assert_eq!(page_of(keys).prefix_len(), prefix_len, "{keys:?}");
    }
    let mut page = page_of(&[b"aaa1", b"aaa2", b"b"]);
    page.remove_at(2);
    assert_eq!(page.prefix_len(), 0);
    page.truncate(2);
    assert_eq!(page.prefix_len(), 3);
    page.truncate(0);
    assert!(page.put(&Cell { key: b"other", value: b"", is_overflow: false }));
    assert_eq!(page.prefix_len(), 5);
}

#[test]
fn ascending_keys_shorten_the_prefix_a_few_times_only() {
    let mut page = page_of(&[]);
    let mut prefixes = Vec::new();
    for number in 1_000_000_u32.. {
        let key = [&[0, 7, 3][..], &number.to_be_bytes(), &[1]].concat();
        if !page.put(&Cell { key: &key, value: &[0; 20], is_overflow: false }) {
            break;
        }
        prefixes.push(page.prefix_len());
    }
    prefixes.dedup();
    assert_eq!(prefixes, [8, 6, 5]);
}

#[test]
fn a_wrong_head_or_prefix_is_seen() {
    let page = page_of(&[b"", b"key 1", b"key 2"]);
    assert_eq!(page.verify_shape(), Ok(()));
    for i in 0..3 {
        for byte in 2..SLOT_BYTES {
            let mut page = page.clone();
            page.bytes[HEADER_BYTES + i * SLOT_BYTES + byte] ^= 1;
            assert!(page.verify_shape().is_err(), "slot {i}, byte {byte}");
        }
    }
    for prefix_len in (0..4).chain(5..8) {
        let mut page = page.clone();
        page.put_u16(AT_PREFIX, prefix_len);
        assert!(page.verify_shape().is_err(), "prefix of {prefix_len} bytes");
        page.set_prefix_len(prefix_len);
        assert_eq!(page.verify_shape().is_ok(), prefix_len < 4, "prefix of {prefix_len} bytes");
    }
}

#[test]
fn every_flipped_bit_is_seen() {
    let mut page = Page::blank();
    page.format(PageId(7), Kind::Leaf, 0, 0);
    assert!(page.put(&Cell { key: b"key", value: b"value", is_overflow: false }));
    page.seal();
    assert_eq!(page.verify(PageId(7)), Ok(()));
    assert!(page.verify(PageId(8)).is_err());
    for at in 0..PAGE_BYTES {
        page.bytes_mut()[at] ^= 4;
        assert!(page.verify(PageId(7)).is_err(), "byte {at}");
        page.bytes_mut()[at] ^= 4;
    }
}

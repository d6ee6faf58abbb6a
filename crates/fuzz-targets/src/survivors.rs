//! The survivors' bitmap: it counts, ranks and is written as what it contains.
//!
//! The first two bytes of the input are how many ordinals there ever were.

use redo::survivors::Survivors;

pub(crate) fn run(input: &[u8]) {
    let Some((&len, bytes)) = input.split_first_chunk() else { return };
    let len = u32::from(u16::from_le_bytes(len));
    let Some(set) = Survivors::decode(bytes, len) else { return };
    assert_eq!(set.len(), len);
    let mut count = 0;
    let mut at = 0;
    while let Some(ordinal) = set.next(at) {
        assert!(ordinal < len && set.contains(ordinal));
        assert_eq!(set.rank(ordinal), count);
        count += 1;
        at = ordinal + 1;
        // Ranking is a walk through the words: some thousand are enough.
        if count > 2000 {
            return;
        }
    }
    assert_eq!((set.count(), set.rank(len)), (count, count));
    let mut again = Vec::new();
    set.encode(&mut again);
    assert!(again.len() <= 1 + (len as usize).div_ceil(64) * 8);
    assert_eq!(Survivors::decode(&again, len), Some(set));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut sparse = Survivors::none(1000);
    [0, 1, 2, 500, 999].into_iter().for_each(|ordinal| sparse.insert(ordinal));
    let mut dense = Survivors::none(130);
    (0..130).step_by(2).for_each(|ordinal| dense.insert(ordinal));
    [Survivors::all(65_535), Survivors::none(0), sparse, dense]
        .into_iter()
        .map(|set| {
            let mut bytes = u16::try_from(set.len()).expect("chosen so").to_le_bytes().to_vec();
            set.encode(&mut bytes);
            bytes
        })
        .collect()
}

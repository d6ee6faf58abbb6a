//! The footer of a sealed segment, with its checksum put right.

use base::Lsn;
use redo::segment::Footer;
use redo::survivors::Survivors;

use crate::checksums::{self, DATABASE};

pub(crate) fn run(input: &[u8]) {
    assert!(
        Footer::decode(input, DATABASE)
            .is_none_or(|footer| footer.encode(DATABASE).len() <= input.len())
    );
    let mut bytes = input.to_vec();
    checksums::seal_footer(&mut bytes);
    let Some(footer) = Footer::decode(&bytes, DATABASE) else { return };
    assert!(footer.survivors.count() <= footer.survivors.len());
    assert_eq!(Footer::decode(&footer.encode(DATABASE), DATABASE), Some(footer));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut some = Survivors::none(200);
    [1, 2, 3, 150].into_iter().for_each(|ordinal| some.insert(ordinal));
    let footer = |survivors: Survivors, offsets: Vec<u64>| Footer {
        block_count: 1,
        min_lsn: Lsn(2),
        max_lsn: Lsn(3),
        data_end: 4096,
        delete_count: 5,
        survivors,
        offsets,
    };
    vec![
        footer(some, vec![128]).encode(DATABASE),
        footer(Survivors::all(130), vec![128, 900, 2000]).encode(DATABASE),
        footer(Survivors::none(0), Vec::new()).encode(DATABASE),
    ]
}

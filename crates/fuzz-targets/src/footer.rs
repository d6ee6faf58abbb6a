//! The footer of a sealed segment, with its checksum put right.

use base::Lsn;
use redo::groups::{Group, Groups};
use redo::segment::{Footer, Table};
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
    if let Table::Groups(groups) = &footer.table {
        for rank in (0..footer.survivors.count()).take(10_000) {
            let (group, end) = groups.find(rank, footer.data_end).expect("each record has a group");
            assert!(group.first_rank <= rank && group.offset < end && end <= footer.data_end);
        }
    }
    assert_eq!(Footer::decode(&footer.encode(DATABASE), DATABASE), Some(footer));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut some = Survivors::none(200);
    [1, 2, 3, 150].into_iter().for_each(|ordinal| some.insert(ordinal));
    let footer = |survivors: Survivors, data_end, table| Footer {
        block_count: 1,
        min_lsn: Lsn(2),
        max_lsn: Lsn(3),
        data_end,
        delete_count: 5,
        survivors,
        table,
    };
    let group = |offset, first_rank| Group { offset, first_rank, crc: 0x1234_5678 };
    let groups = |groups| Table::Groups(Groups { group_bytes: 8192, groups });
    let three = vec![group(128, 0), group(9000, 1), group(30_000, 3)];
    vec![
        footer(some.clone(), 4096, Table::Offsets(vec![128])).encode(DATABASE),
        footer(Survivors::all(130), 4096, Table::Offsets(vec![128, 900, 2000])).encode(DATABASE),
        footer(Survivors::none(0), 128, Table::Offsets(Vec::new())).encode(DATABASE),
        footer(some, 40_000, groups(three)).encode(DATABASE),
        footer(Survivors::all(130), 400, groups(vec![group(128, 0)])).encode(DATABASE),
        footer(Survivors::all(0), 128, groups(Vec::new())).encode(DATABASE),
    ]
}

//! A page of the page store's log, and the groups of records in it: refused, or the same again.

const LOG_PAGE_BYTES: usize = 2048;

pub(crate) fn run(input: &[u8]) {
    let mut page = [0; LOG_PAGE_BYTES];
    // The header but for what `fuzz::log_page` puts in: pages of the flush, bytes of payload.
    let Some((head, payload)) = input.split_at_checked(4) else { return };
    page[24] = head[0].max(1);
    page[28..30].copy_from_slice(&head[2..4]);
    let len = payload.len().min(LOG_PAGE_BYTES - 40);
    page[40..40 + len].copy_from_slice(&payload[..len]);
    pages::fuzz::log_page(&page);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let groups: [(u8, &[u8]); 4] = [
        // Transaction 1 puts "k" = "v" into page 2, and removes it again.
        (1, b"\x01\x02\x04\x05\x01kv\x02\x02\x07k"),
        (2, b""),
        // Begun at 70, page 3 is dirty since 60, transaction 4 runs, one byte of slots.
        (3, b"\x46\x01\x03\x3c\x01\x04\x01\x08"),
        (4, b""),
    ];
    let mut seeds = Vec::new();
    let mut all = Vec::new();
    for (kind, body) in groups {
        let len = u32::try_from(body.len()).expect("short");
        all.extend([&len.to_le_bytes()[..], &[kind], body].concat());
        let used = u16::try_from(all.len()).expect("short").to_le_bytes();
        seeds.push([&[1, 0], &used[..], &all].concat());
    }
    seeds
}

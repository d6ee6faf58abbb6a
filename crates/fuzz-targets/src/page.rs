//! A page of the page store, and a redo record for it: with a right checksum it is refused, or can be
//! worked with.

use pages::PAGE_BYTES;

/// The input is a record with its length in front, and as much of a page as there is.
pub(crate) fn run(input: &[u8]) {
    let Some((len, rest)) = input.split_first() else { return };
    let (record, image) = rest.split_at(rest.len().min(usize::from(*len)));
    let mut page = [0; PAGE_BYTES];
    // The cells are at the end of a page, the header at its front: both are in a short input.
    let head = image.len().min(256);
    page[..head].copy_from_slice(&image[..head]);
    let tail = (image.len() - head).min(PAGE_BYTES - head);
    page[PAGE_BYTES - tail..].copy_from_slice(&image[head..head + tail]);
    pages::fuzz::page(&page, record);
}

/// A page with these cells, the last first, as `run` takes it.
fn image(kind: u8, level: u8, cells: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut heap = Vec::new();
    let mut slots = Vec::new();
    for (key, value) in cells.iter().rev() {
        let mut cell = Vec::new();
        cell.extend_from_slice(&u16::try_from(key.len()).expect("short").to_le_bytes());
        cell.extend_from_slice(&u16::try_from(value.len()).expect("short").to_le_bytes());
        cell.extend_from_slice(key);
        cell.extend_from_slice(value);
        slots.push(heap.len());
        heap.extend(cell);
    }
    let at = PAGE_BYTES - heap.len();
    let short = |number: usize| u16::try_from(number).expect("within a page").to_le_bytes();
    let mut head = vec![0; 256];
    head[4] = kind;
    head[5] = level;
    head[6..8].copy_from_slice(&short(cells.len()));
    head[24..26].copy_from_slice(&short(at));
    // No prefix: the heads are the first bytes of the keys.
    for (i, slot) in slots.iter().rev().enumerate() {
        let slot_at = 40 + 6 * i;
        head[slot_at..slot_at + 2].copy_from_slice(&short(at + slot));
        let key = cells[i].0;
        let head_len = key.len().min(4);
        head[slot_at + 2..][..head_len].copy_from_slice(&key[..head_len]);
    }
    [head, heap].concat()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let leaf = image(2, 0, &[(b"a", b"1"), (b"bb", b"22"), (b"c", b"")]);
    let branch = image(3, 1, &[(b"", &[9; 8]), (b"m", &[8; 8])]);
    let records: [&[u8]; 8] = [
        b"\x05\x01b3",
        b"\x07bb",
        b"\x08bb",
        b"\x09\x00\x01z\x019",
        b"\x01\x02\x00\x00\x01k\x01v",
        b"\x0a\x02bb\x01\x013",
        b"\x02\x05part",
        b"\x03\x06",
    ];
    let mut seeds = Vec::new();
    for page in [&leaf, &branch] {
        for record in records {
            let len = u8::try_from(record.len()).expect("short");
            seeds.push([&[len], record, page].concat());
        }
    }
    seeds
}

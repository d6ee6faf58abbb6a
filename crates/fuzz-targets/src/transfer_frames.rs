//! The protocol of transfers: what comes over a connection is read or refused, never more is allocated
//! than a frame may have, and a message means the same after it was written and read again.
//!
//! The right checksums are put into the input first, where its frames seem to be.

use base::checksum::crc32c;

/// Length of a frame's header, and where in it the lengths and the checksums are.
const HEADER_BYTES: usize = 20;

pub(crate) fn run(input: &[u8]) {
    let mut bytes = input.to_vec();
    seal(&mut bytes);
    // Refused or read: both are right.
    let _frames = transfer::check_frames(&bytes);
}

fn seal(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + HEADER_BYTES) {
        let length =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let (head, body) = (length(4) as usize, length(8) as usize);
        let head_at = at + HEADER_BYTES;
        let Some(crc) = bytes.get(head_at..head_at.saturating_add(head)).map(crc32c) else {
            return;
        };
        bytes[at + 12..at + 16].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c(&bytes[at..at + 16]);
        bytes[at + 16..at + 20].copy_from_slice(&crc.to_le_bytes());
        at = head_at.saturating_add(head).saturating_add(body);
    }
}

fn frame(kind: u8, head: &[u8], body: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a seed is short").to_le_bytes();
    [&[kind, 0, 0, 0], &length(head)[..], &length(body), &[0; 8], head, body].concat()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let hello = b"INDELTFR\x01\0\x04\0\0\x03\0\0\0\0\0\0\0\0\0\x01\0\0";
    let entry = |kind: &[u8]| [b"\x03\0a/b\xa4\x01\0\0", &[0; 12][..], kind].concat();
    let file = entry(&[&[2][..], &5000_u64.to_le_bytes(), &4096_u64.to_le_bytes()].concat());
    let list = [
        frame(1, hello, b""),
        frame(3, &entry(&[1]), b""),
        frame(3, &file, b""),
        frame(3, &entry(b"\x03\x02\0..")[..], b""),
        frame(4, &3_u32.to_le_bytes(), b""),
    ];
    let data = [&1_u32.to_le_bytes()[..], &0_u64.to_le_bytes(), &[7; 4]].concat();
    let replies = [
        frame(2, &[1, 0], b""),
        frame(5, &[1, 0, 0, 0, 0, 2, 0, 0, 0, 1], b""),
        frame(6, &[1], b""),
        frame(9, &[1, 0, 0, 0, 1, 9, 9, 9, 9], b""),
        frame(17, &[1; 20], b""),
        frame(19, b"\x01\0\0\0\x03\0bad", b""),
        frame(21, &[3; 72], b""),
    ];
    vec![list.concat(), [frame(10, &data, b"page"), frame(16, b"", b"")].concat(), replies.concat()]
}

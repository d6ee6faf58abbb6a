//! Editing packed elements as bytes: where elements lie, and copies with some of them exchanged.
//!
//! All functions take packed bytes, flags in front, and trust them to be well-formed.

use std::ops::Range;

use base::varint;

use crate::packed::{self, Packed};

/// Where the first element begins: behind the flags.
pub(super) const FIRST: usize = 1;

/// Where the `count`-th element after the one that begins at `at` begins.
pub(super) fn skip(bytes: &[u8], at: usize, count: usize) -> usize {
    let mut rest = &bytes[at..];
    for _ in 0..count {
        varint::take_bytes(&mut rest).expect("packed bytes are well-formed");
    }
    bytes.len() - rest.len()
}

/// The bytes of `count` elements from the one with the index `from` on.
pub(super) fn of(bytes: &[u8], from: usize, count: usize) -> Range<usize> {
    let start = skip(bytes, FIRST, from);
    start..skip(bytes, start, count)
}

/// The element that begins at `at`.
pub(super) fn element(bytes: &[u8], at: usize) -> &[u8] {
    varint::take_bytes(&mut &bytes[at..]).expect("packed bytes are well-formed")
}

/// Appends to `out` the bytes with `replaced` replaced by `element`.
pub(super) fn splice(
    bytes: &[u8],
    replaced: Range<usize>,
    element: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&bytes[..replaced.start]);
    if let Some(element) = element {
        packed::push(out, element);
    }
    out.extend_from_slice(&bytes[replaced.end..]);
}

/// Appends to `out` the bytes without `removed` elements that equal `element`, after the first
/// `kept` ones.
pub(super) fn without(
    bytes: &[u8],
    element: &[u8],
    kept: usize,
    removed: usize,
    out: &mut Vec<u8>,
) {
    let mut found = 0;
    out.extend_from_slice(&bytes[..FIRST]);
    for other in Packed::new(bytes).iter() {
        if other == element {
            found += 1;
            if (kept + 1..=kept + removed).contains(&found) {
                continue;
            }
        }
        packed::push(out, other);
    }
}

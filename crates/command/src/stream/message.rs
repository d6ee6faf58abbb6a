//! What a message of a producer is called.
//!
//! The name is in the log, and a retry must have the same one wherever the stream is by then: after a restore, or in a
//! log that was turned on later. So nothing goes into it but what the producer has sent.

use std::borrow::Cow;

use keyspace::stream::MESSAGE_NAME_BYTES_MAX;
use sha2::{Digest, Sha256};

const DIGEST_BYTES: usize = 32;

/// What a producer or a message is known as that calls itself so: that, or, if it is too long, the front of it and a
/// digest of all of it. None that is short enough is so long.
pub(super) fn shortened(name: &[u8]) -> Cow<'_, [u8]> {
    if name.len() < MESSAGE_NAME_BYTES_MAX {
        return name.into();
    }
    let digest: [u8; DIGEST_BYTES] = Sha256::digest(name).into();
    let front = &name[..MESSAGE_NAME_BYTES_MAX - DIGEST_BYTES];
    [front, &digest].concat().into()
}

/// The name of a message that has these names and values in turn, in whatever order the pairs are.
pub(super) fn name_of(pairs: &[&[u8]]) -> [u8; 16] {
    let mut pairs: Vec<&[&[u8]]> = pairs.chunks_exact(2).collect();
    pairs.sort_unstable();
    let mut digest = Sha256::new();
    for part in pairs.into_iter().flatten() {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let digest: [u8; DIGEST_BYTES] = digest.finalize().into();
    *digest.first_chunk().expect("it is longer")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in logs names messages so.
    #[test]
    fn an_entry_has_the_same_name_everywhere() {
        let name = [
            0xb8, 0xc5, 0xc8, 0xdc, 0xbe, 0x93, 0xf7, 0x02, 0x11, 0xd3, 0x0c, 0x54, 0xa3, 0xf4,
            0xb9, 0xc8,
        ];
        assert_eq!(name_of(&[b"f", b"v", b"g", b"w"]), name);
        assert_eq!(name_of(&[b"g", b"w", b"f", b"v"]), name, "the order does not count");
    }

    #[test]
    fn a_long_name_is_known_by_its_front_and_a_digest() {
        let long = |len: usize, last: u8| [vec![b'n'; len - 1], vec![last]].concat();
        let most = long(MESSAGE_NAME_BYTES_MAX - 1, b'x');
        assert_eq!(*shortened(&most), *most);
        let names = [
            most,
            long(MESSAGE_NAME_BYTES_MAX, b'x'),
            long(MESSAGE_NAME_BYTES_MAX, b'y'),
            long(65_536, b'x'),
            long(65_536, b'y'),
        ];
        let shorter: std::collections::BTreeSet<_> =
            names.iter().map(|name| shortened(name)).collect();
        assert_eq!(shorter.len(), names.len());
        assert!(shorter.iter().all(|name| name.len() <= MESSAGE_NAME_BYTES_MAX));
    }

    #[test]
    fn another_entry_has_another_name() {
        let entries: [&[&[u8]]; 7] = [
            &[b"f", b"v"],
            &[b"v", b"f"],
            &[b"fv", b""],
            &[b"", b"fv"],
            &[b"f", b"v", b"f", b"v"],
            &[b"f", b"w", b"g", b"v"],
            &[b"f", b"v", b"g", b"w"],
        ];
        let names: std::collections::BTreeSet<_> = entries.iter().map(|it| name_of(it)).collect();
        assert_eq!(names.len(), entries.len());
    }
}

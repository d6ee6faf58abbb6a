//! LZF, the compression of strings inside dumps; decompression only.
//!
//! A control byte below 32 is followed by that many literal bytes plus one. Any other control byte
//! refers to earlier output: three bits of length (7: another byte of length follows), then five
//! bits and one more byte for the distance back.

/// No run of literals is longer than this.
const LITERALS_MAX: usize = 32;

/// Appends what `input` expands to; whether it has that `length`. Memory is taken as output appears.
pub(crate) fn decompress(mut input: &[u8], length: usize, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    // What compresses at all is rarely less than half as long.
    out.reserve(length.min(input.len().saturating_mul(2)));
    while !input.is_empty() {
        let Some(rest) = piece(input, begin, out) else { return false };
        if out.len() - begin > length {
            return false;
        }
        input = rest;
    }
    out.len() - begin == length
}

/// Appends what the first control byte says; returns what is behind it, `None` if that cannot be.
fn piece<'a>(input: &'a [u8], begin: usize, out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (&control, rest) = input.split_first()?;
    let control = usize::from(control);
    if control < LITERALS_MAX {
        let (literal, behind) = rest.split_at_checked(control + 1)?;
        out.extend_from_slice(literal);
        return Some(behind);
    }
    let (extra, rest) = if control >> 5 == 7 {
        let (&extra, behind) = rest.split_first()?;
        (usize::from(extra), behind)
    } else {
        (0, rest)
    };
    let (&low, rest) = rest.split_first()?;
    let bytes = (control >> 5) + 2 + extra;
    let distance = ((control & 0x1f) << 8 | usize::from(low)) + 1;
    let from = out.len().checked_sub(distance).filter(|from| *from >= begin)?;
    if distance >= bytes {
        out.extend_from_within(from..from + bytes);
    } else {
        // The piece overlaps its own output.
        for at in from..from + bytes {
            out.push(out[at]);
        }
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(input: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut out = b"kept".to_vec();
        decompress(input, length, &mut out).then(|| out.split_off(4))
    }

    #[test]
    fn pieces_may_overlap_themselves() {
        // One literal byte, then seven bytes from one byte back.
        assert_eq!(expand(&[0, b'a', 5 << 5, 0], 8), Some(b"aaaaaaaa".to_vec()));
    }

    #[test]
    fn lies_are_found_out() {
        assert_eq!(expand(&[0, b'a', 5 << 5, 0], 9), None);
        assert_eq!(expand(&[0, b'a', 5 << 5, 0], 7), None);
        assert_eq!(expand(&[5 << 5, 0], 7), None, "nothing is before the first byte");
        assert_eq!(expand(&[3, b'a'], 4), None);
        assert_eq!(expand(&[7 << 5, 1], 9), None);
        let mut out = Vec::new();
        assert!(!decompress(&[], 1 << 40, &mut out));
        assert!(out.capacity() < 1 << 10);
    }
}

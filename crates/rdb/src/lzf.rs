//! LZF, the compression of strings inside payloads; decompression only.
//!
//! A control byte below 32 is followed by that many literal bytes plus one. Any other control byte
//! refers to earlier output: three bits of length (7: another byte of length follows), then five
//! bits and one more byte for the distance back.

/// No control sequence of three bytes yields more than this.
const PIECE_BYTES_MAX: usize = 264;

/// Expands `input` to `length` bytes; `None` if it does not have that length.
pub(crate) fn decompress(mut input: &[u8], length: usize) -> Option<Vec<u8>> {
    if length > input.len().checked_mul(PIECE_BYTES_MAX)? {
        return None;
    }
    let mut out = Vec::with_capacity(length);
    while let [control, rest @ ..] = input {
        let (control, mut rest) = (usize::from(*control), rest);
        if control < 32 {
            let (literal, behind) = rest.split_at_checked(control + 1)?;
            out.extend_from_slice(literal);
            rest = behind;
        } else {
            let mut piece = (control >> 5) + 2;
            if piece == 9 {
                let (more, behind) = rest.split_first()?;
                piece += usize::from(*more);
                rest = behind;
            }
            let (low, behind) = rest.split_first()?;
            let distance = ((control & 0x1f) << 8 | usize::from(*low)) + 1;
            let from = out.len().checked_sub(distance)?;
            // The piece may overlap its own output.
            for at in from..from + piece {
                out.push(out[at]);
            }
            rest = behind;
        }
        if out.len() > length {
            return None;
        }
        input = rest;
    }
    (out.len() == length).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn pieces_may_overlap_themselves() {
        // One literal byte, then seven bytes from one byte back.
        assert_eq!(decompress(&[0, b'a', 5 << 5, 0], 8), Some(b"aaaaaaaa".to_vec()));
    }

    #[test]
    fn lies_are_found_out() {
        assert_eq!(decompress(&[0, b'a', 5 << 5, 0], 9), None);
        assert_eq!(decompress(&[0, b'a', 5 << 5, 0], 7), None);
        assert_eq!(decompress(&[5 << 5, 0], 7), None);
        assert_eq!(decompress(&[3, b'a'], 4), None);
        assert_eq!(decompress(&[], 1 << 40), None);
    }
}

//! LEB128 varints: seven bits a byte, the least significant first, the top bit says "more".

/// The longest encoding of a `u64`, in bytes.
pub const LEN_MAX: usize = 10;

/// Appends `value` to `out`.
#[expect(clippy::cast_possible_truncation, reason = "seven bits are taken at a time")]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a varint from the front of `input`. `None` if the bytes end inside the number, or if it
/// does not fit 64 bits.
#[inline]
pub fn take(input: &mut &[u8]) -> Option<u64> {
    // Most numbers are small: a reader of millions of them would be slowed by the loop.
    match **input {
        [byte, ref rest @ ..] if byte < 0x80 => {
            *input = rest;
            Some(u64::from(byte))
        }
        [first, second, ref rest @ ..] if second < 0x80 => {
            *input = rest;
            Some(u64::from(first & 0x7f) | u64::from(second) << 7)
        }
        [first, second, third, ref rest @ ..] if third < 0x80 => {
            *input = rest;
            let low = u64::from(first & 0x7f) | u64::from(second & 0x7f) << 7;
            Some(low | u64::from(third) << 14)
        }
        _ => take_long(input),
    }
}

fn take_long(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (at, &byte) in input.iter().enumerate().take(LEN_MAX) {
        let bits = u64::from(byte & 0x7f);
        if at == LEN_MAX - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if byte & 0x80 == 0 {
            *input = &input[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Takes a varint length and that many bytes from the front of `input`.
#[inline]
pub fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take(input)?).ok()?;
    let (bytes, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(bytes)
}

/// Appends the length of `bytes` as a varint, then `bytes`.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The number of bytes that [`put`] writes for `value`.
#[must_use]
pub const fn len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(value: u64, tail: Vec<u8>) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            prop_assert_eq!(bytes.len(), len(value));
            bytes.extend_from_slice(&tail);
            let mut input = &bytes[..];
            prop_assert_eq!(take(&mut input), Some(value));
            prop_assert_eq!(input, &tail[..]);
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes: Vec<u8>) {
            let mut input = &bytes[..];
            let _ = take(&mut input);
            let mut input = &bytes[..];
            if let Some(taken) = take_bytes(&mut input) {
                prop_assert!(taken.len() < bytes.len());
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut input = &[0xff; 10][..];
        assert_eq!(take(&mut input), None);
        let mut input = &[0x80][..];
        assert_eq!(take(&mut input), None);
    }
}

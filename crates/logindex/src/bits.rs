//! Numbers of any width up to 96 bits, packed without gaps.

/// What must follow the last byte that holds a number, so that writes need no special case.
pub(crate) const PAD_BYTES: usize = 16;

/// The bits that a number needs.
pub(crate) const fn width_of(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// The bits that a number of more than 64 bits needs.
pub(crate) const fn wide_width_of(number: u128) -> u32 {
    u128::BITS - number.leading_zeros()
}

/// Which bit of the word that begins with byte `from` is bit `at` of all: one behind the word where a number of no
/// bits is at the end.
#[expect(clippy::cast_possible_truncation, reason = "at most 128")]
const fn bit_of(at: usize, from: usize) -> u32 {
    (at - from * 8) as u32
}

/// Reads `width` bits, up to 57, from bit `at` on; of eight bytes at least.
#[inline]
pub(crate) fn get(bytes: &[u8], at: usize, width: u32) -> u64 {
    debug_assert!(width <= 57 && at + width as usize <= bytes.len() * 8);
    // The last eight bytes have whatever would need some from behind the end.
    let from = (at / 8).min(bytes.len() - 8);
    let word: [u8; 8] = bytes[from..from + 8].try_into().expect("eight bytes");
    u64::from_le_bytes(word).wrapping_shr(bit_of(at, from)) & ((1 << width) - 1)
}

/// Reads `width` bits, up to 96, from bit `at` on; of sixteen bytes at least.
#[inline]
pub(crate) fn get_wide(bytes: &[u8], at: usize, width: u32) -> u128 {
    debug_assert!(width <= 96 && at + width as usize <= bytes.len() * 8);
    let from = (at / 8).min(bytes.len() - 16);
    let word: [u8; 16] = bytes[from..from + 16].try_into().expect("sixteen bytes");
    u128::from_le_bytes(word).wrapping_shr(bit_of(at, from)) & ((1 << width) - 1)
}

/// Writes `width` bits, up to 96, from bit `at` on, where all bits are zero.
#[inline]
pub(crate) fn put(bytes: &mut [u8], at: usize, width: u32, number: u128) {
    debug_assert!(width <= 96 && wide_width_of(number) <= width);
    let place: &mut [u8; 16] = (&mut bytes[at / 8..at / 8 + 16]).try_into().expect("sixteen bytes");
    *place = (u128::from_le_bytes(*place) | (number << (at % 8))).to_le_bytes();
}

/// The bits that are set among the `count` bits from bit `at` on.
pub(crate) fn count_ones(bytes: &[u8], at: usize, count: usize) -> usize {
    (0..count)
        .step_by(56)
        .map(|from| {
            let width = u32::try_from((count - from).min(56)).expect("at most 56");
            get(bytes, at + from, width).count_ones() as usize
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_got() {
        let mut bytes = vec![0; 4096 + PAD_BYTES];
        let mut random = fastrand::Rng::with_seed(1);
        let mut at = 0;
        let mut put_so_far = Vec::new();
        while at < 4096 * 8 {
            let left = u32::try_from(4096 * 8 - at).unwrap();
            let width = random.u32(0..=96).min(left);
            let number = random.u128(..) & ((1 << width) - 1);
            put(&mut bytes, at, width, number);
            put_so_far.push((at, width, number));
            at += width as usize;
        }
        bytes.truncate(4096);
        assert_eq!((get(&bytes, 4096 * 8, 0), get_wide(&bytes, 4096 * 8, 0)), (0, 0));
        let mut ones = 0;
        for (at, width, number) in put_so_far {
            assert_eq!(get_wide(&bytes, at, width), number);
            if width <= 57 {
                assert_eq!(u128::from(get(&bytes, at, width)), number);
            }
            assert_eq!(count_ones(&bytes, 0, at), ones);
            ones += number.count_ones() as usize;
        }
        assert_eq!((width_of(0), width_of(1), width_of(255), width_of(256)), (0, 1, 8, 9));
    }
}

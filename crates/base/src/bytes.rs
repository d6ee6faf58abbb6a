//! Numbers at fixed places of a header, little-endian as in all formats of Indelible.
//!
//! The caller has verified the fixed length of the header: a place past the end is a bug in the
//! program, and panics. Input of unverified length is read by [`crate::varint`] or `first_chunk`,
//! which can fail.

/// Returns the number in the two bytes at `at`.
///
/// # Panics
/// If the bytes end inside it.
#[inline]
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// Returns the number in the four bytes at `at`.
///
/// # Panics
/// If the bytes end inside it.
#[inline]
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// Returns the number in the eight bytes at `at`.
///
/// # Panics
/// If the bytes end inside it.
#[inline]
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Returns the `N` bytes at `at`.
///
/// # Panics
/// If there are fewer.
#[inline]
#[must_use]
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("a place within a header whose length was checked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_little_endian_and_where_they_are_looked_for() {
        let bytes: Vec<u8> = (0..12).collect();
        assert_eq!(u16_at(&bytes, 10), 0x0b0a);
        assert_eq!(u32_at(&bytes, 8), 0x0b0a_0908);
        assert_eq!(u64_at(&bytes, 1), 0x0807_0605_0403_0201);
        assert_eq!(array_at::<3>(&bytes, 9), [9, 10, 11]);
    }

    #[test]
    #[should_panic(expected = "a place within a header")]
    fn a_place_beyond_the_end_is_a_mistake() {
        let _number = u32_at(&[0; 7], 4);
    }
}

//! The checksum of payloads and files: CRC64 with Jones' polynomial, bits reflected, no inversion.

use crc_fast::{CrcAlgorithm, Digest};

/// A sum of bytes that come in pieces.
#[derive(Clone, Debug)]
pub struct Crc64(Digest);

impl Crc64 {
    /// The sum of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc64Redis))
    }

    /// Adds a piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the sum of all pieces.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.finalize()
    }
}

impl Default for Crc64 {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the checksum of `bytes`.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Redis, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_redis() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn pieces_sum_up_to_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        for piece_bytes in [1, 7, 255, 4096] {
            let mut sum = Crc64::new();
            bytes.chunks(piece_bytes).for_each(|piece| sum.update(piece));
            assert_eq!(sum.sum(), crc64(&bytes), "pieces of {piece_bytes}");
        }
        assert_eq!(Crc64::new().sum(), 0);
    }
}

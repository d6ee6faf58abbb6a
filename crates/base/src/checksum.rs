//! CRC32C (Castagnoli), computed by the processor's own instruction where it has one.

/// Returns the CRC32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// Continues the CRC32C `crc` with `bytes`.
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(crc, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn appending_equals_one_pass() {
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), crc32c(b"123456789"));
    }
}

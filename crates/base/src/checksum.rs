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

/// Returns the CRC32C of two runs of bytes from that of each; the second one has `bytes` bytes.
/// Takes microseconds, however few bytes that are.
#[must_use]
pub fn crc32c_combine(first: u32, second: u32, bytes: usize) -> u32 {
    ::crc32c::crc32c_combine(first, second, bytes)
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
        assert_eq!(crc32c_combine(crc32c(b"1234"), crc32c(b"56789"), 5), crc32c(b"123456789"));
    }
}

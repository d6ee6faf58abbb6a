//! The checksum of payloads: CRC64 with Jones' polynomial, bits reflected, no inversion.

/// The polynomial, reflected.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

static TABLE: [u64; 256] = build_table();

const fn build_table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

/// Returns the checksum of `bytes`.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, &byte| {
        let [low, ..] = sum.to_le_bytes();
        TABLE[usize::from(low ^ byte)] ^ (sum >> 8)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_is_redis() {
        assert_eq!(super::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}

//! Random bytes: ids, hash seeds, samples.

/// A source of random bytes.
pub trait Entropy: Send {
    /// Fills `bytes`. Cannot fail: a missing source is detected at the start.
    fn fill(&mut self, bytes: &mut [u8]);

    /// Returns a random number.
    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

//! The generator behind every choice of a simulated run: splitmix64.
//!
//! Eight lines that pass BigCrush; the numbers need not be hard to guess, only cheap and
//! repeatable.

use env::Entropy;

/// A seeded source of randomness. A clone continues from the same point independently.
#[derive(Debug, Clone)]
pub struct SimEntropy {
    state: u64,
}

impl SimEntropy {
    /// Creates the generator of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which is not 0. The bias is below `end / 2^64`.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        self.next() % end
    }

    /// Returns true `per_million` times in a million.
    pub fn chance(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < u64::from(per_million)
    }

    /// Returns true half of the time.
    pub fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }
}

impl Entropy for SimEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

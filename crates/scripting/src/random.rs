//! `math.random`: the same sequence for the same seed on every machine.
//!
//! The generator is POSIX' `lrand48`: 48 bits, x ← x · 0x5DEECE66D + 11, of which the upper 31 count.
//! Each state of Lua begins with the seed of Redis and goes on from script to script.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// The lower 16 bits of a seeded state.
const SEED_LOW: u64 = 0x330E;

/// The state of the generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(0x1234_ABCD_330E)
    }
}

impl Random {
    /// Begins the sequence of a seed, of which 32 bits count.
    pub(crate) fn of_seed(seed: i64) -> Self {
        Self((seed.cast_unsigned() & 0xFFFF_FFFF) << 16 | SEED_LOW)
    }

    /// The next number, at least 0 and below 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        let value = u32::try_from(self.0 >> 17).expect("31 bits");
        // Redis divides by 2^31 - 1, modulo which a number is taken first.
        const MAX: u32 = i32::MAX.cast_unsigned();
        f64::from(value % MAX) / f64::from(MAX)
    }
}

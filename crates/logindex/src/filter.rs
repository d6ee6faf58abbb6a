//! Filters: a few bits that say of most absent names that they are not in a block.
//!
//! Each block of a run has a filter of its own, of whole lines of 64 bytes, about ten bits a name:
//! a blocked Bloom filter. A name sets seven bits of one line, so a question costs one cache line, and
//! about 1.3 % of absent names pass. Which line and which bits is part of the format.

use crate::name::Name;

/// The bytes of a line.
pub(crate) const LINE_BYTES: usize = 64;
const LINE_BITS: usize = LINE_BYTES * 8;
const BITS_PER_NAME: usize = 10;
const PROBES: u32 = 7;

/// The lines of the filter for so many names.
pub(crate) const fn lines_for(names: usize) -> usize {
    (names * BITS_PER_NAME).div_ceil(LINE_BITS)
}

/// The mixing function of MurmurHash3.
const fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// A name, prepared for questions to several filters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe(u64);

impl Probe {
    pub(crate) fn new(name: Name) -> Self {
        let scope = name.scope.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let low = u64::from(name.hash.low()).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        Self(mix(scope ^ name.hash.high() ^ low))
    }

    /// Where the line begins in a filter of so many bytes.
    const fn line(self, filter_bytes: usize) -> usize {
        let lines = (filter_bytes / LINE_BYTES) as u64;
        (((self.0 >> 32) * lines) >> 32) as usize * LINE_BYTES
    }

    /// The bits in the line, as pairs of byte and mask.
    fn bits(self) -> impl Iterator<Item = (usize, u8)> {
        let bits = self.0.wrapping_mul(0xd6e8_feb8_6659_fd93);
        (0..PROBES).map(move |n| {
            let bit = usize::try_from((bits >> (9 * n)) & 0x1ff).expect("nine bits");
            (bit / 8, 1 << (bit % 8))
        })
    }

    /// Adds the name to a filter.
    pub(crate) fn add_to(self, filter: &mut [u8]) {
        let line = self.line(filter.len());
        let line: &mut [u8; LINE_BYTES] =
            (&mut filter[line..line + LINE_BYTES]).try_into().expect("a line");
        for (byte, mask) in self.bits() {
            line[byte] |= mask;
        }
    }

    /// Whether the filter may contain the name. False is certain.
    pub(crate) fn may_be_in(self, filter: &[u8]) -> bool {
        let line = self.line(filter.len());
        let line: &[u8; LINE_BYTES] = filter[line..line + LINE_BYTES].try_into().expect("a line");
        self.bits().all(|(byte, mask)| line[byte] & mask != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{Hash96, Scope};
    use base::DbId;

    #[test]
    fn all_names_pass_and_few_others_do() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut name =
            || Name::new(Scope::database(DbId(1)), Hash96::new(random.u64(..), random.u32(..)));
        let mut passed = 0;
        for _ in 0..100 {
            let names: Vec<Name> = (0..297).map(|_| name()).collect();
            let mut filter = vec![0; lines_for(names.len()) * LINE_BYTES];
            names.iter().for_each(|name| Probe::new(*name).add_to(&mut filter));
            assert!(names.iter().all(|name| Probe::new(*name).may_be_in(&filter)));
            passed += (0..1000).filter(|_| Probe::new(name()).may_be_in(&filter)).count();
        }
        assert!(passed < 2_000, "{passed} of 100,000 absent names pass");
    }
}

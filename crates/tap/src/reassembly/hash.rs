//! The hash of a connection in the table: its two ends multiplied together, with a secret seed, so
//! that no client can choose addresses that collide.
//!
//! It is computed for every packet; the standard library's hash took a seventh of a packet's time.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Odd, and with as many ones as zeros.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The random seed of a table.
#[derive(Clone, Debug)]
pub(super) struct Seed(u64);

impl Seed {
    /// Creates an unpredictable seed.
    pub(super) fn random() -> Self {
        Self(RandomState::new().hash_one(FACTOR))
    }
}

impl BuildHasher for Seed {
    type Hasher = Product;

    fn build_hasher(&self) -> Product {
        Product(self.0)
    }
}

/// The product so far.
#[derive(Debug)]
pub(super) struct Product(u64);

impl Hasher for Product {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves of the product are used")]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * u128::from(FACTOR);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn neighbours_are_spread_over_a_table_and_seeds_differ() {
        let server: SocketAddr = "192.0.2.1:6379".parse().expect("an address");
        let seed = Seed::random();
        for client in ["192.0.2.7", "2001:db8::7"] {
            let client = client.parse().expect("an address");
            let hashes: Vec<u64> = (1024..5120_u16)
                .map(|port| seed.hash_one((SocketAddr::new(client, port), server)))
                .collect();
            // The table uses the low bits for the place, and the seven highest in addition.
            let places: HashSet<u64> = hashes.iter().map(|hash| hash % 4096).collect();
            let tags: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(places.len() > 2000 && tags.len() > 100, "{} {}", places.len(), tags.len());
        }
        assert_ne!(seed.hash_one(server), Seed::random().hash_one(server));
    }
}

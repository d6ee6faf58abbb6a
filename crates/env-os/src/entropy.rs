//! Random bytes from the kernel.

use env::Entropy;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// The kernel's random number generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match getrandom(&mut *rest, GetRandomFlags::empty()) {
                Ok(n) => rest = &mut rest[n..],
                Err(Errno::INTR) => {}
                Err(error) => panic!("the kernel has no getrandom: {error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_all_of_it_and_never_the_same() {
        let mut first = [0; 1000];
        let mut second = [0; 1000];
        OsEntropy.fill(&mut first);
        OsEntropy.fill(&mut second);
        assert_ne!(first, second);
        assert!(first[900..].iter().any(|byte| *byte != 0));
    }
}

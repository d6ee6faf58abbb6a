//! Inputs made of a corpus: bits flipped, bytes and numbers replaced, pieces cut out, repeated, and
//! taken from elsewhere. No feedback from coverage: what that finds comes here as a corpus.

/// Numbers at which decoders go wrong.
const INTERESTING: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// See the file's top.
pub(crate) struct Mutator {
    corpus: Vec<Vec<u8>>,
    state: u64,
    bytes_max: usize,
}

impl Mutator {
    /// The same inputs for the same corpus and seed.
    pub(crate) fn new(mut corpus: Vec<Vec<u8>>, seed: u64, bytes_max: usize) -> Self {
        assert!(!corpus.is_empty());
        // The few long ones are for the replay: mutations of them take too long.
        if corpus.iter().any(|input| input.len() <= bytes_max) {
            corpus.retain(|input| input.len() <= bytes_max);
        }
        Self { corpus, state: seed, bytes_max }
    }

    /// The next input.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut input = self.pick().clone();
        for _ in 0..=self.below(4) {
            self.mutate(&mut input);
        }
        input.truncate(self.bytes_max);
        input
    }

    /// A number below `end` (SplitMix64).
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let random = usize::try_from(z ^ (z >> 31)).unwrap();
        random % end.max(1)
    }

    fn pick(&mut self) -> &Vec<u8> {
        let index = self.below(self.corpus.len());
        &self.corpus[index]
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        if input.is_empty() {
            input.push(0);
        }
        let at = self.below(input.len());
        match self.below(8) {
            0 => input[at] ^= 1 << self.below(8),
            1 => input[at] = self.below(256).to_le_bytes()[0],
            2 => input.truncate(at),
            3 => {
                let number = INTERESTING[self.below(INTERESTING.len())].to_le_bytes();
                let bytes = [1, 2, 4, 8][self.below(4)].min(input.len() - at);
                input[at..at + bytes].copy_from_slice(&number[..bytes]);
            }
            4 => {
                let end = at + self.below(16).min(input.len() - at);
                input.drain(at..end);
            }
            5 => {
                let end = at + self.below(64).min(input.len() - at);
                let piece = input[at..end].to_vec();
                input.splice(at..at, piece);
            }
            6 => {
                let other = self.pick().clone();
                let from = self.below(other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {
                let other = self.pick().clone();
                let from = self.below(other.len());
                let bytes = self.below(32).min(other.len() - from);
                input.splice(at..at, other[from..from + bytes].iter().copied());
            }
        }
    }
}

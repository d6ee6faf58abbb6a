//! LZF, the compression of strings inside dumps.
//!
//! A control byte below 32 is followed by that many literal bytes plus one. Any other control byte
//! refers to earlier output: three bits of length (7: another byte of length follows), then five
//! bits and one more byte for the distance back.

/// No control sequence of three bytes yields more than this.
const PIECE_BYTES_MAX: usize = 264;

/// No reference reaches further back than this.
const DISTANCE_MAX: usize = 1 << 13;

/// No run of literals is longer than this.
const LITERALS_MAX: usize = 32;

/// A reference saves nothing below this.
const PIECE_BYTES_MIN: usize = 3;

/// Appends what `input` expands to; whether it has that `length`. Memory is taken as output appears.
pub(crate) fn decompress(mut input: &[u8], length: usize, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    // A first guess; the rest grows as it appears.
    out.reserve(length.min(input.len().saturating_mul(2)));
    while !input.is_empty() {
        let Some(rest) = piece(input, begin, out) else { return false };
        if out.len() - begin > length {
            return false;
        }
        input = rest;
    }
    out.len() - begin == length
}

/// Appends what the first control byte says; returns what is behind it, `None` if that cannot be.
fn piece<'a>(input: &'a [u8], begin: usize, out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (&control, rest) = input.split_first()?;
    let control = usize::from(control);
    if control < LITERALS_MAX {
        let (literal, behind) = rest.split_at_checked(control + 1)?;
        out.extend_from_slice(literal);
        return Some(behind);
    }
    let (extra, rest) = if control >> 5 == 7 {
        let (&extra, behind) = rest.split_first()?;
        (usize::from(extra), behind)
    } else {
        (0, rest)
    };
    let (&low, rest) = rest.split_first()?;
    let bytes = (control >> 5) + 2 + extra;
    let distance = ((control & 0x1f) << 8 | usize::from(low)) + 1;
    let from = out.len().checked_sub(distance).filter(|from| *from >= begin)?;
    if distance >= bytes {
        out.extend_from_within(from..from + bytes);
    } else {
        // The piece overlaps its own output.
        for at in from..from + bytes {
            out.push(out[at]);
        }
    }
    Some(rest)
}

/// Bits of a hash of three bytes.
const HASH_BITS: u32 = 13;

/// After so many strings in a row that became no shorter it is not tried with each.
const IN_VAIN_MAX: u32 = 16;

/// It is tried with one string in so many then, until one becomes shorter,
const TRIED_OF: u32 = 8;

/// and with all that are longer than this.
const PASSED_OVER_BYTES_MAX: usize = 4096;

/// Compresses strings one after the other.
#[derive(Debug)]
pub(crate) struct Packer {
    /// Where three bytes of this hash were last, plus `base`; below it: in an earlier string.
    places: Box<[u32]>,
    base: u32,
    /// How many strings in a row became no shorter, those among them that were passed over.
    in_vain: u32,
}

impl Packer {
    pub(crate) fn new() -> Self {
        Self { places: vec![0; 1 << HASH_BITS].into_boxed_slice(), base: 1, in_vain: 0 }
    }

    /// Appends `input` compressed to at most `bytes_max` bytes; whether it fits. Otherwise `out` has
    /// something of no use at its end. Where strings do not become shorter, most are passed over: data
    /// that is encrypted, compressed or random costs little.
    pub(crate) fn compress(&mut self, input: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> bool {
        let is_tried = self.in_vain < IN_VAIN_MAX
            || self.in_vain.is_multiple_of(TRIED_OF)
            || input.len() > PASSED_OVER_BYTES_MAX;
        let fits = is_tried && self.fits(input, bytes_max, out);
        self.in_vain = if fits { 0 } else { self.in_vain.wrapping_add(1) };
        fits
    }

    fn fits(&mut self, input: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> bool {
        let Ok(input_bytes) = u32::try_from(input.len()) else { return false };
        if self.base.checked_add(input_bytes).is_none() {
            self.places.fill(0);
            self.base = 1;
            if self.base.checked_add(input_bytes).is_none() {
                return false;
            }
        }
        let fits = self.pack(input, bytes_max, out);
        self.base += input_bytes;
        fits
    }

    fn pack(&mut self, input: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> bool {
        let begin = out.len();
        let (mut at, mut literals_from) = (0, 0);
        while let Some(three) = input[at..].first_chunk() {
            let Some(from) = self.last_place(*three, at) else {
                at += 1;
                continue;
            };
            let bytes_same = same_bytes(input, from, at);
            if bytes_same < PIECE_BYTES_MIN {
                at += 1;
                continue;
            }
            put_literals(&input[literals_from..at], out);
            put_reference(bytes_same, at - from, out);
            if out.len() - begin > bytes_max {
                return false;
            }
            // Only the last two places of a piece are noted: the text goes on from there.
            let end = at + bytes_same;
            for place in end - 2..end {
                if let Some(three) = input[place..].first_chunk() {
                    self.last_place(*three, place);
                }
            }
            (at, literals_from) = (end, end);
        }
        put_literals(&input[literals_from..], out);
        out.len() - begin <= bytes_max
    }

    /// Notes that these bytes are at `at`; returns where bytes of the same hash were before, in reach.
    fn last_place(&mut self, three: [u8; 3], at: usize) -> Option<usize> {
        let [a, b, c] = three.map(u32::from);
        let hash = (a << 16 | b << 8 | c).wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS);
        let place = &mut self.places[hash as usize];
        let before = place.checked_sub(self.base);
        // Inputs are shorter than 4 GiB.
        *place = self.base + u32::try_from(at).ok()?;
        before.map(|before| before as usize).filter(|before| at - before <= DISTANCE_MAX)
    }
}

/// How many bytes at `at` are those at `from`, which is before; at most as many as a piece has.
fn same_bytes(input: &[u8], from: usize, at: usize) -> usize {
    let here = &input[at..];
    let pairs = input[from..].iter().zip(&here[..here.len().min(PIECE_BYTES_MAX)]);
    pairs.take_while(|(before, now)| before == now).count()
}

fn put_literals(literals: &[u8], out: &mut Vec<u8>) {
    for run in literals.chunks(LITERALS_MAX) {
        out.push(low_byte(run.len() - 1));
        out.extend_from_slice(run);
    }
}

fn put_reference(bytes: usize, distance: usize, out: &mut Vec<u8>) {
    let (length, distance) = (bytes - 2, distance - 1);
    if length < 7 {
        out.push(low_byte(length << 5 | distance >> 8));
    } else {
        out.push(low_byte(7 << 5 | distance >> 8));
        out.push(low_byte(length - 7));
    }
    out.push(low_byte(distance));
}

fn low_byte(number: usize) -> u8 {
    number.to_le_bytes()[0]
}

/// Bits of the hash of liblzf's table.
const TABLE_BITS: u32 = 16;

/// Compresses `input` to at most `bytes_max` bytes, `None` if it does not fit: byte by byte what Redis' `lzf_compress`
/// makes of it, which is one of many right answers.
pub(crate) fn compress_like_redis(input: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    /// As the macro `IDX`, of three bytes.
    fn hash(three: &[u8]) -> usize {
        let three = three[..3].iter().fold(0_u32, |hash, byte| hash << 8 | u32::from(*byte));
        let mixed = (three >> (24 - TABLE_BITS)).wrapping_sub(three.wrapping_mul(5));
        (mixed & ((1 << TABLE_BITS) - 1)) as usize
    }
    fn end_run(out: &mut [u8], to: usize, literals: usize) {
        out[to - literals - 1] = low_byte(literals.wrapping_sub(1));
    }
    if input.is_empty() || bytes_max == 0 {
        return None;
    }
    // Where three bytes of this hash were last. What is at 0 is never referred to.
    let mut places = vec![0_usize; 1 << TABLE_BITS];
    let mut out = vec![0; bytes_max];
    // `literals` bytes in front of `to` are a run, whose length is in front of them.
    let (mut at, mut to, mut literals) = (0, 1, 0);
    while at + 2 < input.len() {
        let from = std::mem::replace(&mut places[hash(&input[at..])], at);
        let is_near = from > 0 && at - from <= DISTANCE_MAX;
        if !is_near || input[from..from + 3] != input[at..at + 3] {
            *out.get_mut(to)? = input[at];
            (at, to, literals) = (at + 1, to + 1, literals + 1);
            if literals == LITERALS_MAX {
                end_run(&mut out, to, literals);
                (to, literals) = (to + 1, 0);
            }
            continue;
        }
        let is_empty = usize::from(literals == 0);
        if to - is_empty + 4 >= bytes_max {
            return None;
        }
        end_run(&mut out, to, literals);
        to -= is_empty;
        let same = same_like_redis(input, from, at);
        let (length, distance) = (same - 2, at - from - 1);
        if length < 7 {
            out[to] = low_byte((distance >> 8) + (length << 5));
        } else {
            out[to] = low_byte((distance >> 8) + (7 << 5));
            out[to + 1] = low_byte(length - 7);
            to += 1;
        }
        out[to + 1] = low_byte(distance);
        // The length of the next run has its place.
        (at, to, literals) = (at + same, to + 3, 0);
        if at + 2 >= input.len() {
            break;
        }
        for place in [at - 2, at - 1] {
            places[hash(&input[place..])] = place;
        }
    }
    if to + 3 > bytes_max {
        return None;
    }
    for byte in &input[at..] {
        out[to] = *byte;
        (to, literals) = (to + 1, literals + 1);
        if literals == LITERALS_MAX {
            end_run(&mut out, to, literals);
            (to, literals) = (to + 1, 0);
        }
    }
    end_run(&mut out, to, literals);
    out.truncate(to - usize::from(literals == 0));
    Some(out)
}

/// How many bytes at `at` Redis takes for those at `from`, of which three are the same. Its loop, sixteen of whose turns
/// are written out, finds up to two bytes more near the end.
fn same_like_redis(input: &[u8], from: usize, at: usize) -> usize {
    let bytes_max = (input.len() - at - 2).min(PIECE_BYTES_MAX);
    let mut bytes = 2;
    if bytes_max > 16 {
        for _ in 0..16 {
            bytes += 1;
            if input[from + bytes] != input[at + bytes] {
                return bytes;
            }
        }
    }
    loop {
        bytes += 1;
        if bytes >= bytes_max || input[from + bytes] != input[at + bytes] {
            return bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expand(input: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut out = b"kept".to_vec();
        decompress(input, length, &mut out).then(|| out.split_off(4))
    }

    #[test]
    fn pieces_may_overlap_themselves() {
        // One literal byte, then seven bytes from one byte back.
        assert_eq!(expand(&[0, b'a', 5 << 5, 0], 8), Some(b"aaaaaaaa".to_vec()));
    }

    #[test]
    fn lies_are_found_out() {
        assert_eq!(expand(&[0, b'a', 5 << 5, 0], 9), None);
        assert_eq!(expand(&[0, b'a', 5 << 5, 0], 7), None);
        assert_eq!(expand(&[5 << 5, 0], 7), None, "nothing is before the first byte");
        assert_eq!(expand(&[3, b'a'], 4), None);
        assert_eq!(expand(&[7 << 5, 1], 9), None);
        let mut out = Vec::new();
        assert!(!decompress(&[], 1 << 40, &mut out));
        assert!(out.capacity() < 1 << 10);
    }

    #[test]
    fn what_repeats_becomes_short() {
        let mut packer = Packer::new();
        let text = b"abcdefghij".repeat(100);
        for _ in 0..2 {
            let mut out = Vec::new();
            assert!(packer.compress(&text, text.len() - 4, &mut out));
            assert!(out.len() < 40, "{}", out.len());
            assert_eq!(expand(&out, text.len()), Some(text.clone()));
        }
        let mut out = Vec::new();
        assert!(!packer.compress(b"0123456789abcdefghijkl", 18, &mut out));
    }

    #[test]
    fn a_string_is_packed_the_same_whatever_came_before() {
        let mut used = Packer::new();
        used.base = u32::MAX - 100;
        used.compress(&[7; 90], 90, &mut Vec::new());
        let text = [[7; 90], [8; 90]].concat();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert!(Packer::new().compress(&text, 180, &mut first));
        assert!(used.compress(&text, 180, &mut second));
        assert_eq!(first, second);
    }

    #[test]
    fn what_never_becomes_shorter_is_tried_now_and_then() {
        let mut packer = Packer::new();
        let mut compresses = |text: &[u8]| packer.compress(text, text.len() - 4, &mut Vec::new());
        let (same, long) = ([7; 100], [7; PASSED_OVER_BYTES_MAX + 1]);
        for number in 0..100_u8 {
            // No three bytes come twice.
            assert!(!compresses(&std::array::from_fn::<u8, 100, _>(
                |at| number.wrapping_add(low_byte(at))
            )));
        }
        let tries = 1 + (0..TRIED_OF).take_while(|_| !compresses(&same)).count();
        assert!((2..=8).contains(&tries), "{tries}");
        assert!(compresses(&same), "one has become shorter");
        (0..100_u8).for_each(|_| _ = compresses(&std::array::from_fn::<u8, 100, _>(low_byte)));
        assert!(compresses(&long), "a long one is always tried");
    }

    proptest! {
        #[test]
        fn what_is_packed_unfolds(
            pieces in prop::collection::vec(prop::collection::vec(0..4_u8, 0..400), 0..60),
        ) {
            let text = pieces.concat();
            let mut out = Vec::new();
            prop_assert!(Packer::new().compress(&text, usize::MAX, &mut out));
            prop_assert_eq!(expand(&out, text.len()), Some(text));
        }

        #[test]
        fn what_is_packed_like_redis_unfolds(
            pieces in prop::collection::vec(prop::collection::vec(0..4_u8, 0..400), 0..60),
            saved in 0..40_usize,
        ) {
            let text = pieces.concat();
            if let Some(out) = compress_like_redis(&text, text.len().saturating_sub(saved)) {
                prop_assert!(out.len() <= text.len() - saved);
                prop_assert_eq!(expand(&out, text.len()), Some(text));
            }
        }
    }
}

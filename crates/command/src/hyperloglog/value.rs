//! The bytes of a HyperLogLog, as Redis lays them out.
//!
//! ```text
//!  "HYLL" · encoding · 3 unused · cached count, 8 bytes   little-endian, top bit: not valid
//!  dense    16,384 registers of 6 bits, the lowest bits first
//!  sparse   00nnnnnn              n + 1 registers are 0
//!           01nnnnnn nnnnnnnn     the same, for longer runs
//!           1vvvvvnn              n + 1 registers are v + 1
//! ```
//!
//! The estimate is that of O. Ertl, *New cardinality estimation algorithms for HyperLogLog
//! sketches* (2017), algorithm 6. The bytes may be a client's own: a run that leads past the last
//! register, or runs that end before it, make the value [`Corrupted`].

use std::ops::Range;

use crate::error::CommandError;

pub(super) const REGISTER_COUNT: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// The bits of a hash behind the index.
const RANK_BITS: usize = 50;
const HEADER_BYTES: usize = 16;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTER_COUNT * 6 / 8;
/// No sparse form is longer: each code, of at most two bytes, is for a register at least.
const SPARSE_BYTES_MAX: usize = HEADER_BYTES + 2 * REGISTER_COUNT;
const NOT_VALID: u8 = 0x80;
/// The largest register of the sparse form.
const SPARSE_REGISTER_MAX: u8 = 32;
const SPARSE_VALUES_MAX: usize = 4;

/// The bytes name other registers than there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("INVALIDOBJ Corrupted HLL object detected")]
pub(super) struct Corrupted;

impl From<Corrupted> for CommandError {
    fn from(corrupted: Corrupted) -> Self {
        Self::Other(corrupted.to_string().into())
    }
}

/// The registers, a byte each.
pub(super) type Registers = [u8; REGISTER_COUNT];

/// A run of equal registers in the sparse form, and the bytes that its code takes.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) value: u8,
    pub(super) len: usize,
    pub(super) code_bytes: usize,
}

impl Run {
    /// The first run; `None` when the code is cut off or there is none.
    fn first(bytes: &[u8]) -> Option<Self> {
        let run =
            |value, len: u8, code_bytes| Self { value, len: usize::from(len) + 1, code_bytes };
        match *bytes {
            [code, ..] if code & 0x80 != 0 => Some(run((code >> 2 & 31) + 1, code & 3, 1)),
            [code, ..] if code & 0x40 == 0 => Some(run(0, code, 1)),
            [high, low, ..] => {
                let len = (usize::from(high & 0x3f) << 8 | usize::from(low)) + 1;
                Some(Self { value: 0, len, code_bytes: 2 })
            }
            _ => None,
        }
    }

    /// Appends the code of `len` registers of this value, if there are any.
    #[expect(clippy::cast_possible_truncation, reason = "runs are at most all registers long")]
    fn push(out: &mut Vec<u8>, value: u8, len: usize) {
        match (value, len) {
            (_, 0) => {}
            (0, 1..=64) => out.push((len - 1) as u8),
            (0, _) => out.extend([0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]),
            _ => out.push(0x80 | (value - 1) << 2 | (len - 1) as u8),
        }
    }

    /// Whether its code is long, whatever its length.
    pub(super) const fn is_long(self) -> bool {
        self.code_bytes == 2
    }
}

/// A HyperLogLog's bytes where they are, the header checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// That of a string.
    ///
    /// # Errors
    /// When the bytes are no HyperLogLog, or are [`Corrupted`] because there are too many.
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, CommandError> {
        const NOT_ONE: CommandError =
            CommandError::other("WRONGTYPE Key is not a valid HyperLogLog string value.");
        let is_one = bytes.len() >= HEADER_BYTES
            && bytes.starts_with(b"HYLL")
            && (bytes[4] == 1 || (bytes[4] == 0 && bytes.len() == DENSE_BYTES));
        if !is_one {
            return Err(NOT_ONE);
        }
        if bytes.len() > SPARSE_BYTES_MAX {
            return Err(Corrupted.into());
        }
        Ok(Self(bytes))
    }

    pub(super) fn is_sparse(self) -> bool {
        self.0[4] == 1
    }

    /// The count in the header, if it is valid.
    pub(super) fn cached(self) -> Option<i64> {
        let count = self.0[8..HEADER_BYTES].try_into().expect("eight bytes");
        Some(i64::from_le_bytes(count)).filter(|count| *count >= 0)
    }

    /// The runs of the sparse form, up to one that is cut off.
    pub(super) fn runs(self) -> impl Iterator<Item = Run> + use<'a> {
        let mut rest = &self.0[HEADER_BYTES..];
        std::iter::from_fn(move || {
            let run = Run::first(rest)?;
            rest = &rest[run.code_bytes..];
            Some(run)
        })
    }

    /// Raises each of `registers` to what it is here.
    pub(super) fn raise(self, registers: &mut Registers) -> Result<(), Corrupted> {
        if !self.is_sparse() {
            for (index, register) in registers.iter_mut().enumerate() {
                *register = (*register).max(self.dense(index));
            }
            return Ok(());
        }
        let mut at = 0;
        for run in self.runs() {
            let span = registers.get_mut(at..at + run.len).ok_or(Corrupted)?;
            span.iter_mut().for_each(|register| *register = (*register).max(run.value));
            at += run.len;
        }
        if at == REGISTER_COUNT { Ok(()) } else { Err(Corrupted) }
    }

    pub(super) fn registers(self) -> Result<Box<Registers>, Corrupted> {
        let mut registers = Box::new([0; REGISTER_COUNT]);
        self.raise(&mut registers)?;
        Ok(registers)
    }

    fn dense(self, index: usize) -> u8 {
        let (byte, shift) = (HEADER_BYTES + index * 6 / 8, index * 6 % 8);
        let high = self.0.get(byte + 1).copied().unwrap_or(0);
        (u16::from_le_bytes([self.0[byte], high]) >> shift & 63) as u8
    }
}

/// A HyperLogLog's bytes, and which of them are other ones than where they come from.
#[derive(Debug, Clone)]
pub(super) struct HyperLogLog {
    bytes: Vec<u8>,
    changes: Changes,
}

/// What was changed of a value.
#[derive(Debug, Clone)]
pub(super) enum Changes {
    /// These bytes of the header, and these of the dense registers; each may be none.
    Parts([Range<usize>; 2]),
    /// Its length, too.
    All,
}

impl Changes {
    const NONE: Self = Self::Parts([0..0, 0..0]);

    fn add(&mut self, part: usize, bytes: Range<usize>) {
        if let Self::Parts(parts) = self {
            let range = &mut parts[part];
            let is_first = Range::is_empty(range);
            let start = if is_first { bytes.start } else { range.start.min(bytes.start) };
            *range = start..range.end.max(bytes.end);
        }
    }
}

impl HyperLogLog {
    /// Nothing counted yet.
    pub(super) fn empty() -> Self {
        let mut bytes = b"HYLL\x01".to_vec();
        bytes.resize(HEADER_BYTES, 0);
        Run::push(&mut bytes, 0, REGISTER_COUNT);
        Self { bytes, changes: Changes::All }
    }

    /// A copy of what a string has, to be changed.
    pub(super) fn of(view: View<'_>) -> Self {
        Self { bytes: view.0.to_vec(), changes: Changes::NONE }
    }

    /// What is in it.
    pub(super) fn view(&self) -> View<'_> {
        View(&self.bytes)
    }

    /// What is not as it was where the bytes come from.
    pub(super) const fn changes(&self) -> &Changes {
        &self.changes
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn is_sparse(&self) -> bool {
        self.view().is_sparse()
    }

    /// Stores the count in the header, where it counts as valid if it is not below zero.
    pub(super) fn cache(&mut self, count: i64) {
        let count = count.to_le_bytes();
        if self.bytes[8..HEADER_BYTES] != count {
            self.bytes[8..HEADER_BYTES].copy_from_slice(&count);
            self.changes.add(0, 8..HEADER_BYTES);
        }
    }

    pub(super) fn invalidate(&mut self) {
        if self.view().cached().is_some() {
            self.bytes[HEADER_BYTES - 1] |= NOT_VALID;
            self.changes.add(0, HEADER_BYTES - 1..HEADER_BYTES);
        }
    }

    /// Counts as changed, even if no register was raised.
    pub(super) fn touch(&mut self) {
        self.changes.add(0, HEADER_BYTES - 1..HEADER_BYTES);
    }

    /// Makes it dense. Whether it was sparse.
    pub(super) fn make_dense(&mut self) -> Result<bool, Corrupted> {
        if !self.is_sparse() {
            return Ok(false);
        }
        let registers = self.view().registers()?;
        self.changes = Changes::All;
        self.bytes.truncate(HEADER_BYTES);
        self.bytes[4] = 0;
        self.bytes.resize(DENSE_BYTES, 0);
        for (index, value) in registers.iter().enumerate() {
            self.set_dense(index, *value);
        }
        Ok(true)
    }

    /// Adds an element. Whether a register has changed.
    pub(super) fn add(&mut self, element: &[u8], sparse_max: usize) -> Result<bool, Corrupted> {
        let (index, rank) = place(element);
        self.set(index, rank, sparse_max)
    }

    /// Raises a register. Whether it was lower. The sparse form has at most `sparse_max` bytes.
    pub(super) fn set(&mut self, at: usize, to: u8, sparse_max: usize) -> Result<bool, Corrupted> {
        // One that is too long already was written by something else: to look for a register in it takes long, each time.
        if self.is_sparse()
            && self.bytes.len() <= sparse_max.saturating_add(HEADER_BYTES)
            && to <= SPARSE_REGISTER_MAX
            && let Some(changed) = self.set_sparse(at, to, sparse_max)?
        {
            return Ok(changed);
        }
        self.make_dense()?;
        let is_lower = self.view().dense(at) < to;
        if is_lower {
            self.set_dense(at, to);
        }
        Ok(is_lower)
    }

    /// `None` when the sparse form has no room for it.
    fn set_sparse(&mut self, at: usize, to: u8, max: usize) -> Result<Option<bool>, Corrupted> {
        let (mut offset, mut before, mut first) = (HEADER_BYTES, None, 0);
        let run = loop {
            let run = Run::first(&self.bytes[offset..]).ok_or(Corrupted)?;
            if at < first + run.len {
                break run;
            }
            before = Some(offset);
            offset += run.code_bytes;
            first += run.len;
        };
        if run.value >= to {
            return Ok(Some(false));
        }
        let mut codes = Vec::with_capacity(5);
        Run::push(&mut codes, run.value, at - first);
        Run::push(&mut codes, to, 1);
        Run::push(&mut codes, run.value, first + run.len - 1 - at);
        if codes.len() > run.code_bytes && self.bytes.len() + codes.len() - run.code_bytes > max {
            return Ok(None);
        }
        self.changes = Changes::All;
        self.bytes.splice(offset..offset + run.code_bytes, codes);
        self.join(before.unwrap_or(HEADER_BYTES));
        Ok(Some(true))
    }

    /// Joins runs of the same value among the five that follow.
    fn join(&mut self, mut offset: usize) {
        for _ in 0..5 {
            let Some(run) = Run::first(&self.bytes[offset..]) else { return };
            let next = Run::first(&self.bytes[offset + run.code_bytes..]);
            if let Some(next) = next
                && run.value != 0
                && next.value == run.value
                && run.len + next.len <= SPARSE_VALUES_MAX
            {
                let mut code = Vec::with_capacity(1);
                Run::push(&mut code, run.value, run.len + next.len);
                self.bytes.splice(offset..offset + 2, code);
            } else {
                offset += run.code_bytes;
            }
        }
    }

    fn set_dense(&mut self, index: usize, value: u8) {
        let (byte, shift) = (HEADER_BYTES + index * 6 / 8, index * 6 % 8);
        let high = self.bytes.get(byte + 1).copied().unwrap_or(0);
        let old = u16::from_le_bytes([self.bytes[byte], high]);
        let [low, high] = (old & !(63 << shift) | u16::from(value) << shift).to_le_bytes();
        self.bytes[byte] = low;
        if let Some(byte) = self.bytes.get_mut(byte + 1) {
            *byte = high;
        }
        self.changes.add(1, byte..(byte + 2).min(DENSE_BYTES));
    }
}

/// About how many different elements have made these registers. More than a number of 63 bits has room for are the
/// smallest number, as in Redis on x86-64: only registers that no element has made come to that.
pub(super) fn estimate(registers: &Registers) -> i64 {
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let mut histogram = [0_u16; 64];
    for register in registers {
        histogram[usize::from(*register & 63)] += 1;
    }
    let m = f64::from(1_u16 << INDEX_BITS);
    let mut z = m * tau((m - f64::from(histogram[RANK_BITS + 1])) / m);
    for count in histogram[1..=RANK_BITS].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    /// 2^63.
    const END: f64 = 9_223_372_036_854_775_808.0;
    let count = (ALPHA * m * m / z).round();
    #[expect(clippy::cast_possible_truncation, reason = "it was compared")]
    if count < END { count as i64 } else { i64::MIN }
}

#[expect(clippy::float_cmp, reason = "it goes on until the sum does not change any more")]
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

#[expect(clippy::float_cmp, reason = "it goes on until the sum does not change any more")]
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// The register of an element, and what it is raised to.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the index has 14 bits, the rank is at most 51"
)]
pub(super) fn place(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    let index = hash as usize & (REGISTER_COUNT - 1);
    let rest = hash >> INDEX_BITS | 1 << RANK_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

/// `MurmurHash64A` (A. Appleby), on little-endian words.
fn hash(bytes: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const SEED: u64 = 0xadc8_3b19;
    let mut state = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut k = u64::from_le_bytes(word.try_into().expect("eight bytes")).wrapping_mul(M);
        k ^= k >> 47;
        state = (state ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    let tail = words.remainder();
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        state = (state ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    state ^= state >> 47;
    state = state.wrapping_mul(M);
    state ^ state >> 47
}

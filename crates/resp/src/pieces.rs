//! A buffer in pieces: writes extend it without moving earlier bytes, sent bytes are released piece
//! by piece, and several clients can share one copy of a message.
//!
//! ```text
//!   ┌ full ─────────────────────────────────────┐  ┌ tail ────────────┐
//!   [64 KiB][one large element, its own size][shared][small writes ...  ]
//! ```
//!
//! Invariants: no piece of `full` is empty; `full_bytes` and `full_memory_bytes` are the sums of
//! their lengths and capacities; the tail is at most [`PIECE_BYTES_MAX`] long, unless a larger
//! piece became the tail again after what followed it was truncated.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

/// The largest piece in which small writes gather. An element larger than this gets its own.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// The first allocation of a tail.
const TAIL_BYTES_MIN: usize = 256;

/// Bytes up to this length are copied rather than shared: a piece costs more than the copy.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// Bytes that several buffers share.
pub type SharedBytes = Arc<[u8]>;

#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    Shared(SharedBytes),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.capacity(),
            Self::Shared(bytes) => bytes.len(),
        }
    }
}

/// A buffer in pieces; see the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    full: VecDeque<Piece>,
    full_bytes: usize,
    /// The memory of the pieces of `full`.
    full_memory_bytes: usize,
    tail: Vec<u8>,
}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.full_bytes + self.tail.len()
    }

    /// The memory of all pieces; a shared one counts as if it were not shared.
    pub(crate) fn memory_bytes(&self) -> usize {
        let places = self.full.capacity() * size_of::<Piece>();
        places + self.full_memory_bytes + self.tail.capacity()
    }

    /// The bytes that fit without an allocation, by appending to [`Pieces::tail`].
    #[inline]
    pub(crate) fn spare(&self) -> usize {
        self.tail.capacity() - self.tail.len()
    }

    /// The tail, for appending bytes that fit [`Pieces::spare`].
    #[inline]
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Makes room for a few bytes in the tail.
    #[cold]
    pub(crate) fn reserve(&mut self, count: usize) {
        debug_assert!(count <= TAIL_BYTES_MIN, "larger things are appended in pieces");
        if self.tail.len() + count > PIECE_BYTES_MAX {
            self.seal();
        }
        self.grow(count);
    }

    /// Appends bytes that do not fit the current tail.
    #[cold]
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        if bytes.len() > PIECE_BYTES_MAX {
            self.seal();
            self.push(Piece::Own(bytes.to_vec()));
            return;
        }
        let room = PIECE_BYTES_MAX.saturating_sub(self.tail.len());
        if bytes.len() > room {
            let (fitting, rest) = bytes.split_at(room);
            self.grow(fitting.len());
            self.tail.extend_from_slice(fitting);
            self.seal();
            bytes = rest;
        }
        self.grow(bytes.len());
        self.tail.extend_from_slice(bytes);
    }

    /// Appends owned bytes, without a copy unless they are few.
    pub(crate) fn give(&mut self, bytes: Vec<u8>) {
        if bytes.len() <= PIECE_BYTES_MAX {
            self.append(&bytes);
        } else {
            self.seal();
            self.push(Piece::Own(bytes));
        }
    }

    /// Appends bytes without a copy, unless they are few.
    pub(crate) fn share(&mut self, bytes: &SharedBytes) {
        if bytes.len() <= COPIED_BYTES_MAX {
            self.append(bytes);
        } else {
            self.seal();
            self.push(Piece::Shared(bytes.clone()));
        }
    }

    /// Truncates to the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        while len < self.full_bytes {
            let piece = self.full.pop_back().expect("its bytes are counted");
            self.full_bytes -= piece.bytes().len();
            self.full_memory_bytes -= piece.memory_bytes();
            self.tail = match piece {
                Piece::Own(bytes) => bytes,
                Piece::Shared(bytes) => bytes[..len.saturating_sub(self.full_bytes)].to_vec(),
            };
        }
        self.tail.truncate(len - self.full_bytes);
    }

    /// Inserts a few bytes at `at`.
    pub(crate) fn insert(&mut self, at: usize, bytes: &[u8]) {
        let mut end = self.len();
        let mut start = self.full_bytes;
        if at >= start {
            self.tail.splice(at - start..at - start, bytes.iter().copied());
            return;
        }
        for piece in self.full.iter_mut().rev() {
            end = start;
            start = end - piece.bytes().len();
            if at >= start {
                self.full_memory_bytes -= piece.memory_bytes();
                match piece {
                    Piece::Own(own) => {
                        own.splice(at - start..at - start, bytes.iter().copied());
                    }
                    Piece::Shared(shared) => {
                        let (before, behind) = shared.split_at(at - start);
                        *piece = Piece::Own([before, bytes, behind].concat());
                    }
                }
                self.full_memory_bytes += piece.memory_bytes();
                self.full_bytes += bytes.len();
                return;
            }
        }
        debug_assert!(false, "{at} lies in 0..{end}");
    }

    /// Collects the bytes from `from` to `to`, as far as `out` holds their pieces. Returns the
    /// numbers of pieces and bytes collected.
    pub(crate) fn slices<'a>(
        &'a self,
        from: usize,
        to: usize,
        out: &mut [IoSlice<'a>],
    ) -> (usize, usize) {
        let to = to.min(self.len());
        if from >= to || out.is_empty() {
            return (0, 0);
        }
        if self.full.is_empty() {
            // Nearly every reply.
            let slice = &self.tail[from..to];
            out[0] = IoSlice::new(slice);
            return (1, slice.len());
        }
        let (mut start, mut count, mut total) = (0, 0, 0);
        let pieces = self.full.iter().map(Piece::bytes).chain(std::iter::once(&self.tail[..]));
        for bytes in pieces {
            let end = start + bytes.len();
            if count == out.len() || start >= to {
                break;
            }
            if end > from {
                let slice = &bytes[from.max(start) - start..to.min(end) - start];
                if !slice.is_empty() {
                    out[count] = IoSlice::new(slice);
                    count += 1;
                    total += slice.len();
                }
            }
            start = end;
        }
        (count, total)
    }

    /// Releases the pieces that lie wholly within the first `count` bytes. Returns their total
    /// length.
    pub(crate) fn drop_front(&mut self, count: usize) -> usize {
        let mut dropped = 0;
        while let Some(piece) = self.full.front() {
            let len = piece.bytes().len();
            if dropped + len > count {
                break;
            }
            dropped += len;
            self.full_memory_bytes -= piece.memory_bytes();
            self.full.pop_front();
        }
        self.full_bytes -= dropped;
        if self.full.is_empty() && self.full.capacity() > 64 {
            self.full = VecDeque::new();
        }
        dropped
    }

    pub(crate) fn is_one_piece(&self) -> bool {
        self.full.is_empty()
    }

    /// Drops the first `count` bytes of the tail; there must be no other pieces.
    pub(crate) fn drain_tail(&mut self, count: usize) {
        debug_assert!(self.full.is_empty(), "what lies in front is forgotten first");
        self.tail.drain(..count);
    }

    /// Drops everything, and releases memory beyond `kept_bytes_max`.
    pub(crate) fn reset(&mut self, kept_bytes_max: usize) {
        self.full = VecDeque::new();
        self.full_bytes = 0;
        self.full_memory_bytes = 0;
        if self.tail.capacity() > kept_bytes_max {
            self.tail = Vec::new();
        } else {
            self.tail.clear();
        }
    }

    /// Copies everything into one piece.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        self.full.iter().for_each(|piece| all.extend_from_slice(piece.bytes()));
        all.extend_from_slice(&self.tail);
        all
    }

    /// Takes everything, as one piece.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        if self.full.is_empty() {
            return std::mem::take(&mut self.tail);
        }
        let all = self.to_vec();
        *self = Self::default();
        all
    }

    /// Closes the tail; the next write begins a new one.
    fn seal(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        let mut piece = std::mem::take(&mut self.tail);
        if piece.len() < piece.capacity() / 2 {
            piece.shrink_to_fit();
        }
        self.push(Piece::Own(piece));
    }

    fn push(&mut self, piece: Piece) {
        debug_assert!(self.tail.is_empty(), "pieces are in order");
        self.full_bytes += piece.bytes().len();
        self.full_memory_bytes += piece.memory_bytes();
        self.full.push_back(piece);
    }

    /// Grows the tail for `count` more bytes, to at least twice its size and at most a piece.
    fn grow(&mut self, count: usize) {
        let wanted = self.tail.len() + count;
        if wanted > self.tail.capacity() {
            let doubled = (self.tail.capacity() * 2).clamp(TAIL_BYTES_MIN, PIECE_BYTES_MAX);
            self.tail.reserve_exact(doubled.max(wanted) - self.tail.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Append(usize),
        Share(usize),
        Truncate(usize),
        Insert(usize),
        Send(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let length = prop_oneof![0_usize..300, 60_000_usize..70_000, 130_000_usize..140_000];
        prop_oneof![
            4 => length.clone().prop_map(Step::Append),
            1 => length.prop_map(Step::Share),
            1 => (0_usize..1000).prop_map(Step::Truncate),
            1 => (0_usize..1000).prop_map(Step::Insert),
            2 => (0_usize..1000).prop_map(Step::Send),
        ]
    }

    fn seen(pieces: &Pieces, from: usize, to: usize) -> Vec<u8> {
        let mut out = [IoSlice::new(&[]); 64];
        let (count, total) = pieces.slices(from, to, &mut out);
        let bytes: Vec<u8> = out[..count].iter().flat_map(|it| it.iter().copied()).collect();
        assert_eq!(bytes.len(), total);
        bytes
    }

    proptest! {
        #[test]
        fn pieces_are_one_string_of_bytes(steps in prop::collection::vec(step(), 1..30)) {
            let (mut pieces, mut model) = (Pieces::default(), Vec::<u8>::new());
            for (number, step) in steps.into_iter().enumerate() {
                let fill = u8::try_from(number).unwrap();
                match step {
                    Step::Append(len) => {
                        pieces.append(&vec![fill; len]);
                        model.extend(vec![fill; len]);
                    }
                    Step::Share(len) => {
                        pieces.share(&SharedBytes::from(vec![fill; len]));
                        model.extend(vec![fill; len]);
                    }
                    Step::Truncate(promille) => {
                        let len = model.len() * promille / 1000;
                        pieces.truncate(len);
                        model.truncate(len);
                    }
                    Step::Insert(promille) => {
                        let at = model.len() * promille / 1000;
                        pieces.insert(at, b"header");
                        model.splice(at..at, b"header".iter().copied());
                    }
                    Step::Send(promille) => {
                        let dropped = pieces.drop_front(model.len() * promille / 1000);
                        model.drain(..dropped);
                    }
                }
                prop_assert_eq!(pieces.len(), model.len());
                let memory: usize = pieces.full.iter().map(Piece::memory_bytes).sum();
                prop_assert_eq!(pieces.full_memory_bytes, memory);
                prop_assert!(pieces.to_vec() == model);
                let (from, to) = (model.len() / 3, model.len() / 3 * 2);
                prop_assert!(seen(&pieces, from, to) == model[from..to]);
            }
        }
    }

    #[test]
    fn what_was_sent_is_given_back() {
        let mut pieces = Pieces::default();
        for _ in 0..100 {
            pieces.append(&[1; 50_000]);
        }
        assert!(pieces.memory_bytes() < 5_000_000 + 2 * PIECE_BYTES_MAX);
        let dropped = pieces.drop_front(4_950_000);
        assert!(dropped > 4_950_000 - PIECE_BYTES_MAX);
        assert!(pieces.memory_bytes() <= 3 * PIECE_BYTES_MAX);
    }
}

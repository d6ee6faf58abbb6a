//! One direction of a connection: puts bytes in order by their sequence numbers.
//!
//! ```text
//!      given to the handler │  hole  │ waiting │ hole │ waiting
//!   ────────────────────────┴────────┴─────────┴──────┴─────────► places, counted from the beginning
//!                          next
//! ```

use std::collections::BTreeMap;

/// A sequence number farther than this from the next expected byte belongs to another connection.
/// No window is that large in practice.
const NEAR_BYTES: i64 = 1 << 28;

/// The position of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// The stream has not begun.
    Unknown,
    /// This many bytes before the next expected one.
    Behind(u64),
    /// This many bytes after it, or at it.
    Ahead(u64),
    /// Too far away.
    Elsewhere,
}

/// A piece of a stream, with the sequence number of its first byte. It is bytes, or the number of
/// missing ones.
type Given<'a> = (u32, Result<&'a [u8], u64>);

#[derive(Debug, Default)]
pub(super) struct Stream {
    has_begun: bool,
    /// The sequence number of the byte at place 0.
    first: u32,
    /// The place of the next expected byte.
    next: u64,
    /// The place after the last byte, once a FIN has arrived.
    end: Option<u64>,
    /// Parts behind a hole, by place; they do not overlap.
    waiting: BTreeMap<u64, Vec<u8>>,
    waiting_bytes: usize,
}

impl Stream {
    /// Begins with the byte of this number, unless the stream has begun.
    pub(super) fn begin(&mut self, sequence: u32) {
        if !self.has_begun {
            self.has_begun = true;
            self.first = sequence;
        }
    }

    /// Whether the stream began, or may have begun, with a SYN of this number.
    pub(super) fn begins_at(&self, syn: u32) -> bool {
        !self.has_begun || syn.wrapping_add(1) == self.first
    }

    /// The number of the next expected byte.
    #[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap")]
    pub(super) fn next_sequence(&self) -> u32 {
        self.first.wrapping_add(self.next as u32)
    }

    pub(super) fn place(&self, sequence: u32) -> Placed {
        if !self.has_begun {
            return Placed::Unknown;
        }
        let distance = i64::from(sequence.wrapping_sub(self.next_sequence()).cast_signed());
        match distance {
            0..NEAR_BYTES => Placed::Ahead(distance.unsigned_abs()),
            _ if distance < 0 && distance > -NEAR_BYTES => Placed::Behind(distance.unsigned_abs()),
            _ => Placed::Elsewhere,
        }
    }

    /// Whether a RST of this number can belong to this connection.
    pub(super) fn is_near(&self, sequence: u32) -> bool {
        match self.place(sequence) {
            Placed::Unknown | Placed::Ahead(_) => true,
            // A RST repeats the number of the FIN before it.
            Placed::Behind(behind) => behind <= 1,
            Placed::Elsewhere => false,
        }
    }

    /// Notes that the sender ends before this number.
    pub(super) fn ends_at(&mut self, sequence: u32) {
        if let Placed::Ahead(ahead) = self.place(sequence) {
            self.end.get_or_insert(self.next + ahead);
        }
    }

    /// Whether all its bytes were passed on or reported missing, and no more can arrive.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    /// Handles bytes, of which the first has this number. If more than `waiting_max` bytes wait
    /// behind a hole, reports the hole as missing.
    pub(super) fn payload(
        &mut self,
        sequence: u32,
        bytes: &[u8],
        waiting_max: usize,
        mut give: impl FnMut(u32, Result<&[u8], u64>),
    ) {
        if bytes.is_empty() {
            return;
        }
        match self.place(sequence) {
            Placed::Unknown | Placed::Elsewhere => {}
            Placed::Behind(behind) => {
                // The beginning was received before; the rest may be new.
                let known = usize::try_from(behind).unwrap_or(usize::MAX);
                if let Some(rest) = bytes.get(known..) {
                    self.give(rest, &mut give);
                }
            }
            Placed::Ahead(0) => self.give(bytes, &mut give),
            Placed::Ahead(ahead) => {
                self.wait(self.next + ahead, bytes);
                while self.waiting_bytes > waiting_max {
                    let hole_end = *self.waiting.keys().next().expect("bytes wait");
                    self.skip(hole_end, &mut give);
                }
            }
        }
    }

    /// Notes that the receiver has everything before this number. What is missing here was lost on
    /// the way to the sidecar.
    pub(super) fn acknowledged(
        &mut self,
        sequence: u32,
        mut give: impl FnMut(u32, Result<&[u8], u64>),
    ) {
        let Placed::Ahead(ahead) = self.place(sequence) else { return };
        // The FIN takes the number after the last byte.
        let place = (self.next + ahead).min(self.end.unwrap_or(u64::MAX));
        while self.next < place {
            let hole_end = self.waiting.keys().next().map_or(place, |first| place.min(*first));
            self.skip(hole_end, &mut give);
        }
    }

    /// Drops what waits, because what it waits for will not arrive.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    /// Passes on bytes at the next place, and those that waited for them.
    fn give(&mut self, bytes: &[u8], give: &mut impl FnMut(u32, Result<&[u8], u64>)) {
        if !bytes.is_empty() {
            let (sequence, given): Given<'_> = (self.next_sequence(), Ok(bytes));
            give(sequence, given);
            self.next += bytes.len() as u64;
        }
        while let Some(entry) = self.waiting.first_entry() {
            let place = *entry.key();
            if place > self.next {
                break;
            }
            let waited = entry.remove();
            self.waiting_bytes -= waited.len();
            let known = usize::try_from(self.next - place).unwrap_or(usize::MAX);
            if let Some(rest) = waited.get(known..).filter(|rest| !rest.is_empty()) {
                give(self.next_sequence(), Ok(rest));
                self.next += rest.len() as u64;
            }
        }
    }

    /// Reports the bytes up to `place` as missing, and continues behind them.
    fn skip(&mut self, place: u64, give: &mut impl FnMut(u32, Result<&[u8], u64>)) {
        give(self.next_sequence(), Err(place - self.next));
        self.next = place;
        self.give(&[], give);
    }

    /// Keeps the bytes at `place`, except those already waiting.
    fn wait(&mut self, mut place: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // Whether the previous part ends after `place`.
            if let Some((before, part)) = self.waiting.range(..=place).next_back() {
                let covered = (before + part.len() as u64).saturating_sub(place);
                if covered > 0 {
                    let covered = usize::try_from(covered).unwrap_or(usize::MAX).min(bytes.len());
                    place += covered as u64;
                    bytes = &bytes[covered..];
                    continue;
                }
            }
            let room =
                self.waiting.range(place..).next().map_or(u64::MAX, |(after, _)| after - place);
            let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
            self.waiting.insert(place, bytes[..fits].to_vec());
            self.waiting_bytes += fits;
            place += fits as u64;
            bytes = &bytes[fits..];
        }
    }
}

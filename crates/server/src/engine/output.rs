//! What waits to be sent to one client, in order, and what of it may be sent yet.
//!
//! ```text
//!   writer   |sent|  free to go  |  waits for block 17  |  waits for block 19  |
//!                 base                gate                    gate
//! ```
//!
//! A gate says that everything behind a place in the stream must wait until a block of the log is
//! durable, or at least written: the reply of a write, or of a read that saw what is not so yet.
//! Gates open from the front, so whatever is behind a closed gate waits with it and replies never
//! overtake one another.

use std::collections::VecDeque;
use std::io::IoSlice;

use base::Lsn;
use resp::{Protocol, Writer};

use super::shard::{Level, Reach};

/// How many pieces are sent at once, at most.
const SLICES_MAX: usize = 16;

/// A buffer larger than this is given back to the allocator when it has been sent.
const KEPT_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Copy, Debug)]
struct Gate {
    /// The place in the stream from which bytes wait.
    from: u64,
    /// The block that must have come to `level`, as all before it.
    lsn: Lsn,
    level: Level,
}

impl Gate {
    /// Whether it is open only when the other one is open, too.
    fn implies(&self, level: Level, lsn: Lsn) -> bool {
        self.lsn >= lsn && self.level >= level
    }
}

/// Bytes that may be sent, in order.
#[derive(Debug)]
pub struct Sendable<'a> {
    slices: [IoSlice<'a>; SLICES_MAX],
    count: usize,
    len: usize,
}

impl<'a> Sendable<'a> {
    pub(crate) fn nothing() -> Self {
        Self { slices: [IoSlice::new(&[]); SLICES_MAX], count: 0, len: 0 }
    }

    /// The bytes, in pieces.
    #[must_use]
    pub fn slices(&self) -> &[IoSlice<'a>] {
        &self.slices[..self.count]
    }

    /// How many bytes they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.first(self.len)
    }

    /// A copy of the first bytes, at most `bytes_max`.
    #[must_use]
    pub fn first(&self, bytes_max: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len.min(bytes_max));
        for slice in self.slices() {
            let room = bytes_max - bytes.len();
            bytes.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        bytes
    }
}

/// See the file's top.
#[derive(Debug)]
pub(crate) struct Output {
    writer: Writer,
    /// Where replies go that the client does not want.
    muted: Option<Box<Writer>>,
    /// Where a command replies that a script calls, while it does.
    aside: Option<Writer>,
    /// How many bytes may wait.
    waiting_bytes_max: usize,
    /// How many bytes of the writer were sent.
    sent: usize,
    /// The place in the stream of the writer's first byte.
    base: u64,
    gates: VecDeque<Gate>,
}

/// What of an unwanted reply is kept while it is made: nothing that was not asked for.
const MUTED_BYTES_MAX: usize = 64 * 1024;

impl Default for Output {
    fn default() -> Self {
        Self {
            writer: Writer::default(),
            muted: None,
            aside: None,
            waiting_bytes_max: usize::MAX,
            sent: 0,
            base: 0,
            gates: VecDeque::new(),
        }
    }
}

impl Output {
    /// Where replies are written.
    pub(crate) fn writer(&mut self) -> &mut Writer {
        match (&mut self.aside, &mut self.muted) {
            (Some(aside), _) => aside,
            (None, Some(muted)) => muted,
            (None, None) => &mut self.writer,
        }
    }

    /// Until [`Output::end_aside`], replies go to `writer` and not to the client.
    pub(crate) fn begin_aside(&mut self, writer: Writer) {
        self.aside = Some(writer);
    }

    /// Replies go to the client again. Returns what was written meanwhile.
    pub(crate) fn end_aside(&mut self) -> Writer {
        self.aside.take().unwrap_or_default()
    }

    /// The place at which a reply begins that is written now, for [`Output::withdraw`].
    pub(crate) fn reply_start(&self) -> usize {
        self.aside.as_ref().unwrap_or(&self.writer).len()
    }

    /// Takes back the reply that began there.
    pub(crate) fn withdraw(&mut self, start: usize) {
        match &mut self.aside {
            Some(aside) => aside.truncate(start),
            None => self.truncate(start),
        }
    }

    /// Writes what follows in this version of the protocol.
    pub(crate) fn set_protocol(&mut self, protocol: Protocol) {
        self.writer.set_protocol(protocol);
        if let Some(muted) = &mut self.muted {
            muted.set_protocol(protocol);
        }
    }

    /// Until [`Output::unmute`], replies are made and not kept.
    pub(crate) fn mute(&mut self) {
        let mut muted = Writer::new(self.writer.protocol());
        muted.limit(MUTED_BYTES_MAX);
        self.muted = Some(Box::new(muted));
    }

    /// Whether replies are not kept.
    pub(crate) fn is_muted(&self) -> bool {
        self.muted.is_some()
    }

    /// Replies are kept again.
    pub(crate) fn unmute(&mut self) {
        self.muted = None;
    }

    /// Where messages are written, which are kept whatever becomes of replies.
    pub(crate) fn unasked(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// The version of the protocol that this client speaks.
    pub(crate) fn protocol(&self) -> Protocol {
        self.writer.protocol()
    }

    /// How many bytes were written to the buffer that is being filled.
    pub(crate) fn len(&self) -> usize {
        self.writer.len()
    }

    /// How many bytes wait, for the client or for the log.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.writer.len().saturating_sub(self.sent)
    }

    /// Sets how many bytes may wait. What would be more is not kept, see [`Output::is_over`].
    pub(crate) fn limit(&mut self, waiting_bytes_max: usize) {
        self.waiting_bytes_max = waiting_bytes_max;
        self.writer.limit(self.sent.saturating_add(waiting_bytes_max));
    }

    /// Whether more was written than may wait. What waited is gone then, and the connection is of
    /// no use any more.
    pub(crate) fn is_over(&self) -> bool {
        self.writer.is_over()
    }

    /// The memory that the buffer takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.writer.memory_bytes()
    }

    /// Holds everything behind the first `start` bytes of the buffer back until `lsn` has come to
    /// `level`. Whether this made a new gate: then the caller looks again when it has.
    pub(crate) fn hold(&mut self, start: usize, level: Level, lsn: Lsn) -> bool {
        // A later gate for an earlier block would be open before the one in front of it.
        // What is not kept holds back what follows it all the same: a client that asks for replies
        // again takes the first one for a sign that everything before was done.
        let is_empty = self.writer.len() == start && self.muted.is_none();
        if is_empty || self.gates.back().is_some_and(|last| last.implies(level, lsn)) {
            return false;
        }
        self.gates.push_back(Gate { from: self.base + start as u64, lsn, level });
        true
    }

    /// Takes back everything behind the first `len` bytes of the buffer.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.writer.truncate(len);
        let end = self.base + self.writer.len() as u64;
        // The gates stay, before whatever is written next: a gate lies in the buffer.
        for gate in self.gates.iter_mut().rev().take_while(|gate| gate.from > end) {
            gate.from = end;
        }
    }

    /// Opens the gates that the log has reached and returns what may be sent, or as much of it as
    /// is sent at once.
    pub(crate) fn sendable(&mut self, reach: &Reach) -> Sendable<'_> {
        while self.gates.front().is_some_and(|gate| reach.has(gate.level, gate.lsn)) {
            self.gates.pop_front();
        }
        let end = match self.gates.front() {
            None => self.writer.len(),
            Some(gate) => {
                usize::try_from(gate.from - self.base).expect("a gate lies in the buffer")
            }
        };
        let mut sendable = Sendable::nothing();
        (sendable.count, sendable.len) =
            self.writer.slices(self.sent, end.max(self.sent), &mut sendable.slices);
        sendable
    }

    /// Forgets `count` bytes that were sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.forget(count);
        self.limit(self.waiting_bytes_max);
    }

    fn forget(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.writer.len() {
            self.base += self.sent as u64;
            self.sent = 0;
            self.writer.reset(KEPT_BYTES_MAX);
            return;
        }
        // The client reads slowly: what it has read need not stay in memory.
        let dropped = self.writer.drop_front(self.sent);
        self.base += dropped as u64;
        self.sent -= dropped;
        if dropped == 0 && self.sent > self.writer.len() / 2 && self.sent > KEPT_BYTES_MAX {
            self.drain_tail();
        }
    }

    /// Forgets the sent part of the last piece when no other one is in front of it.
    fn drain_tail(&mut self) {
        if self.writer.is_one_piece() {
            self.writer.drain_front(self.sent);
            self.base += self.sent as u64;
            self.sent = 0;
        }
    }

    /// Whether anything waits for what the log has not reached.
    pub(crate) fn is_held(&self, reach: &Reach) -> bool {
        self.gates.iter().any(|gate| !reach.has(gate.level, gate.lsn))
    }

    /// Lets everything go.
    pub(crate) fn open_gates(&mut self) {
        self.gates.clear();
    }

    /// Forgets everything that was not sent.
    pub(crate) fn clear(&mut self) {
        self.gates.clear();
        self.base += self.writer.len() as u64;
        self.sent = 0;
        self.writer.reset(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sendable(output: &mut Output, durable: u64) -> String {
        let reach = Reach { written: Lsn(durable), durable: Lsn(durable) };
        String::from_utf8(output.sendable(&reach).to_vec()).unwrap()
    }

    #[test]
    fn what_depends_on_nothing_goes_at_once() {
        let mut output = Output::default();
        output.writer().ok();
        assert_eq!(sendable(&mut output, 0), "+OK\r\n");
        output.sent(5);
        assert_eq!(output.waiting_bytes(), 0);
    }

    #[test]
    fn replies_wait_for_their_block_and_for_one_another() {
        let mut output = Output::default();
        output.writer().int(1);
        let start = output.len();
        output.writer().int(2);
        assert!(output.hold(start, Level::Durable, Lsn(7)));
        output.writer().int(3);
        let start = output.len();
        output.writer().int(4);
        assert!(!output.hold(start, Level::Durable, Lsn(6)), "7 is in front of it");
        let start = output.len();
        output.writer().int(5);
        assert!(output.hold(start, Level::Durable, Lsn(9)));

        assert_eq!(sendable(&mut output, 6), ":1\r\n");
        output.sent(4);
        assert_eq!(sendable(&mut output, 6), "");
        assert_eq!(sendable(&mut output, 8), ":2\r\n:3\r\n:4\r\n");
        output.sent(4);
        assert_eq!(sendable(&mut output, 8), ":3\r\n:4\r\n");
        output.sent(8);
        assert_eq!(sendable(&mut output, 9), ":5\r\n");
    }

    #[test]
    fn what_waits_for_less_does_not_overtake_what_waits_for_more() {
        let mut output = Output::default();
        output.writer().int(1);
        assert!(output.hold(0, Level::Written, Lsn(7)));
        let start = output.len();
        output.writer().int(2);
        assert!(output.hold(start, Level::Durable, Lsn(7)), "written is not enough");
        let start = output.len();
        output.writer().int(3);
        assert!(!output.hold(start, Level::Written, Lsn(7)), "what is durable is written");
        let start = output.len();
        output.writer().int(4);
        assert!(output.hold(start, Level::Written, Lsn(8)));

        let mut sendable = |written, durable| {
            let bytes = output.sendable(&Reach { written: Lsn(written), durable: Lsn(durable) });
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        assert_eq!(sendable(6, 6), "");
        assert_eq!(sendable(8, 6), ":1\r\n");
        assert_eq!(sendable(8, 7), ":1\r\n:2\r\n:3\r\n:4\r\n");
    }

    #[test]
    fn gates_stay_in_place_when_the_sent_part_is_dropped() {
        let mut output = Output::default();
        output.writer().raw(&vec![b'x'; 40_000]);
        let start = output.len();
        output.writer().ok();
        output.hold(start, Level::Durable, Lsn(3));
        output.sent(30_000);
        assert_eq!(output.waiting_bytes(), 10_005);
        assert_eq!(sendable(&mut output, 2).len(), 10_000);
        output.sent(10_000);
        assert_eq!(sendable(&mut output, 2), "");
        assert_eq!(sendable(&mut output, 3), "+OK\r\n");
    }
}

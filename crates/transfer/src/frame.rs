//! Frames: the units of a connection (docs/format/transfer.md).
//!
//! ```text
//!   kind 1 · zeros 3 · head length 4 · body length 4 · CRC of the head 4 · CRC of these 16 │ head │ body
//! ```
//!
//! Lengths are verified before they are used, because the reader would wait forever for a wrong
//! one. The head is the message; the body, which only `Data` has, contains pages of a file, whose
//! checksums are in the head. So a checksum covers every byte. Page checksums are computed once, at
//! the sender, and used twice at the receiver: when the page arrives, and when it is read back.

use std::io::{Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base::bytes::u32_at;
use base::checksum::crc32c;

use crate::error::{Error, Result};
use crate::message::{Kind, Message};

/// The unit of checksums, of resuming and of resending.
pub const PAGE_BYTES: usize = 4096;
/// The most pages in one `Data` message.
pub(crate) const PAGES_PER_FRAME: usize = 256;
/// The longest body: the pages of one message.
pub(crate) const BODY_MAX: usize = PAGE_BYTES * PAGES_PER_FRAME;
/// The longest head.
pub(crate) const HEAD_MAX: usize = 1 << 20;
/// The bytes before the head.
const HEADER_BYTES: usize = 20;

fn header(kind: Kind, head: &[u8], body_bytes: usize) -> [u8; HEADER_BYTES] {
    let length = |bytes: usize| u32::try_from(bytes).expect("heads and bodies are at most 1 MiB");
    let mut header = [0; HEADER_BYTES];
    header[0] = kind.code();
    header[4..8].copy_from_slice(&length(head.len()).to_le_bytes());
    header[8..12].copy_from_slice(&length(body_bytes).to_le_bytes());
    header[12..16].copy_from_slice(&crc32c(head).to_le_bytes());
    let crc = crc32c(&header[..16]);
    header[16..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The sending half of a connection, shared by threads: frames never interleave.
pub(crate) struct FrameWriter {
    out: Mutex<Box<dyn Write + Send>>,
}

impl FrameWriter {
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out: Mutex::new(out) }
    }

    fn out(&self) -> MutexGuard<'_, Box<dyn Write + Send>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message.
    pub(crate) fn queue(&self, message: &Message) -> Result<()> {
        self.queue_with_body(message, &[])
    }

    /// Queues a message together with its pages.
    pub(crate) fn queue_with_body(&self, message: &Message, body: &[u8]) -> Result<()> {
        let head = message.encode();
        assert!(head.len() <= HEAD_MAX && body.len() <= BODY_MAX, "messages are split before");
        let header = header(message.kind(), &head, body.len());
        let mut out = self.out();
        [header.as_slice(), &head, body]
            .into_iter()
            .try_for_each(|part| out.write_all(part))
            .map_err(Error::connection)
    }

    /// Sends a message now, after everything queued before it.
    pub(crate) fn send(&self, message: &Message) -> Result<()> {
        self.queue(message)?;
        self.flush()
    }

    /// Sends everything queued.
    pub(crate) fn flush(&self) -> Result<()> {
        self.out().flush().map_err(Error::connection)
    }
}

/// The receiving half.
pub(crate) struct FrameReader<R> {
    input: R,
    head: Vec<u8>,
    body_left: usize,
}

impl<R: Read> FrameReader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, head: Vec::new(), body_left: 0 }
    }

    fn fill(&mut self, buf: &mut [u8]) -> Result<()> {
        self.input.read_exact(buf).map_err(Error::connection)
    }

    /// Reads the next message. [`Error::BrokenOff`] at the end of the connection.
    ///
    /// # Panics
    /// If the body of the previous message has not been read.
    pub(crate) fn next(&mut self) -> Result<Message> {
        assert_eq!(self.body_left, 0, "a body is read before the next message");
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header)?;
        let word = |at| u32_at(&header, at);
        if crc32c(&header[..16]) != word(16) {
            return Err(Error::protocol("a frame with a wrong checksum"));
        }
        let (head_bytes, body_bytes) = (word(4) as usize, word(8) as usize);
        if head_bytes > HEAD_MAX || body_bytes > BODY_MAX {
            return Err(Error::protocol("a frame longer than the maximum"));
        }
        let mut head = std::mem::take(&mut self.head);
        head.resize(head_bytes, 0);
        self.fill(&mut head)?;
        if crc32c(&head) != word(12) {
            return Err(Error::protocol("a frame with a wrong checksum"));
        }
        let message = Message::decode(header[0], &head)?;
        self.head = head;
        if header[1..4] != [0; 3] || (body_bytes > 0) != (message.kind() == Kind::Data) {
            return Err(Error::protocol("a malformed frame"));
        }
        self.body_left = body_bytes;
        Ok(message)
    }

    /// Reads and drops input until the end, an error or `until`.
    pub(crate) fn drain(&mut self, until: Instant) {
        let mut discarded = vec![0; BODY_MAX];
        while Instant::now() < until && self.input.read(&mut discarded).is_ok_and(|read| read > 0) {
        }
    }

    /// The length of the last message's body.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body_left
    }

    /// Reads the whole body of the last message.
    pub(crate) fn read_body(&mut self, buf: &mut [u8]) -> Result<()> {
        assert_eq!(buf.len(), self.body_left, "a body is read in one piece");
        self.body_left = 0;
        self.fill(buf)
    }
}

/// Reads frames to the end of `bytes` as a connection would, and returns their number. For fuzzing:
/// an accepted message must be written as the same bytes. So each message has one form.
///
/// # Errors
/// If something is not a frame, or is cut short.
///
/// # Panics
/// If a message is not written as it was read.
pub fn check_frames(bytes: &[u8]) -> Result<usize> {
    let mut reader = FrameReader::new(bytes);
    let mut count = 0;
    while !reader.input.is_empty() {
        let message = reader.next()?;
        assert_eq!(message.encode(), reader.head, "written as it was read: {message:?}");
        let mut body = vec![0; reader.body_bytes()];
        reader.read_body(&mut body)?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A stand-in for a socket that records what is written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn some_frames() -> Vec<u8> {
        let written = Written::default();
        let writer = FrameWriter::new(Box::new(written.clone()));
        let data = Message::Data { entry: 7, first_page: 3, checksums: vec![crc32c(b"page")] };
        writer.queue_with_body(&data, b"page").unwrap();
        writer.send(&Message::AllSent).unwrap();
        written.0.lock().unwrap().clone()
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = some_frames();
        let mut reader = FrameReader::new(bytes.as_slice());
        let message = reader.next().unwrap();
        assert!(matches!(message, Message::Data { entry: 7, first_page: 3, .. }), "{message:?}");
        let mut body = vec![0; reader.body_bytes()];
        reader.read_body(&mut body).unwrap();
        assert_eq!(body, b"page");
        assert_eq!(reader.next().unwrap(), Message::AllSent);
        assert!(matches!(reader.next(), Err(Error::BrokenOff)));
    }

    #[test]
    fn every_flipped_bit_outside_of_pages_is_noticed() {
        let good = some_frames();
        let body_at = good.windows(4).position(|window| window == b"page").unwrap();
        for at in (0..good.len()).filter(|at| !(body_at..body_at + 4).contains(at)) {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let mut reader = FrameReader::new(bad.as_slice());
                let read_all = |reader: &mut FrameReader<&[u8]>| -> Result<()> {
                    for _ in 0..2 {
                        reader.next()?;
                        let mut body = vec![0; reader.body_bytes()];
                        reader.read_body(&mut body)?;
                    }
                    Ok(())
                };
                assert!(read_all(&mut reader).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}

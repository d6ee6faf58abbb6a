//! `snapshot-algorithm fork`: a child process dumps the memory that it was born with, as Redis does.
//!
//! ```text
//!   child    keyspace ─► rdb ─► frames ─► pipe
//!   saver                                  └─► frames ─► the sink
//!
//!   frame    length u32 │ bytes           length 0: keys u64, and the end
//! ```
//!
//! It is the baseline of the measurements, and needs no log. The parent stands still while the page tables are
//! copied, and memory that is written meanwhile exists twice.

use std::io::{self, Read, Write};

use dump::{RdbTarget, Step, pass_on};
use keyspace::Keyspace;
use rdb::WriteOptions;

use super::error::SaveError;
use super::sink::Sink;

/// How much is sent in a frame, and read at a time.
const FRAME_BYTES: usize = 64 << 10;

/// What the child sends at the end.
const END_BYTES: usize = 4 + 8;

/// The pipe, in frames.
struct Frames<'a> {
    pipe: &'a mut dyn Write,
    frame: Vec<u8>,
}

impl Frames<'_> {
    fn send(&mut self) -> io::Result<()> {
        let len = u32::try_from(self.frame.len()).map_err(io::Error::other)?;
        if len > 0 {
            self.pipe.write_all(&len.to_le_bytes())?;
            self.pipe.write_all(&self.frame)?;
            self.frame.clear();
        }
        Ok(())
    }
}

impl Write for Frames<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(FRAME_BYTES - self.frame.len());
        self.frame.extend_from_slice(&bytes[..taken]);
        if self.frame.len() == FRAME_BYTES {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

/// Dumps a keyspace into a pipe: what the child does.
///
/// # Errors
/// When the pipe is closed.
pub(crate) fn dump_into(
    pipe: &mut dyn Write,
    keyspace: &Keyspace,
    options: WriteOptions,
    facts: &[(&'static str, String)],
    sizes: &[(u64, u64)],
) -> io::Result<()> {
    let frames = Frames { pipe, frame: Vec::with_capacity(FRAME_BYTES) };
    let target = RdbTarget::begin(frames, options, facts).map_err(io::Error::other)?;
    let libraries = keyspace.libraries().map(|(_, source)| &**source);
    let target = target.with_libraries(libraries).map_err(io::Error::other)?;
    let mut target = target.with_sizes(sizes.to_vec());
    let (mut keys, mut passed) = (0_u64, Ok(()));
    for (number, db) in (0_u32..).zip(keyspace.databases()) {
        keyspace.inspect(db, |entry| {
            if passed.is_ok() {
                passed = pass_on(&entry, number, &mut target).map_err(io::Error::other);
                keys += 1;
            }
        });
    }
    passed?;
    if keys != sizes.iter().map(|(keys, _)| keys).sum::<u64>() {
        return Err(io::Error::other("memory does not have every key"));
    }
    let mut frames = target.finish().map_err(io::Error::other)?;
    frames.flush()?;
    frames.pipe.write_all(&0_u32.to_le_bytes())?;
    frames.pipe.write_all(&keys.to_le_bytes())
}

/// What a child sends, on its way to the sink.
pub(crate) struct ChildDump {
    child: Box<dyn Read + Send>,
    sink: Sink,
    received: Vec<u8>,
    keys: Option<u64>,
}

impl ChildDump {
    pub(super) const fn new(child: Box<dyn Read + Send>, sink: Sink) -> Self {
        Self { child, sink, received: Vec::new(), keys: None }
    }

    /// How many keys the child has dumped, once that is known.
    pub(super) const fn keys(&self) -> Option<u64> {
        self.keys
    }

    /// Passes on some bytes.
    pub(super) fn step(&mut self) -> Result<Step, SaveError> {
        if self.keys.is_some() {
            return Ok(Step::Done);
        }
        let at = self.received.len();
        self.received.resize(at + FRAME_BYTES, 0);
        let read = self.child.read(&mut self.received[at..]);
        self.received.truncate(at + read.as_ref().map_or(0, |count| *count));
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Waiting),
            Err(error) => return Err(SaveError::Child(error)),
            Ok(0) => return Err(SaveError::Child(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
        }
        let mut rest = &self.received[..];
        while let Some((len, behind)) = rest.split_first_chunk::<4>() {
            let len = u32::from_le_bytes(*len) as usize;
            if len == 0 {
                let Some(keys) = behind.first_chunk::<{ END_BYTES - 4 }>() else { break };
                self.keys = Some(u64::from_le_bytes(*keys));
                break;
            }
            let Some((frame, behind)) = behind.split_at_checked(len) else { break };
            self.sink.write_all(frame).map_err(rdb::WriteError::from)?;
            rest = behind;
        }
        let done = self.received.len() - rest.len();
        self.received.drain(..done);
        Ok(Step::Worked)
    }

    /// The sink, with everything.
    pub(super) fn finish(self) -> Sink {
        self.sink
    }
}

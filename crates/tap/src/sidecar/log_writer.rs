//! The log writer: a separate thread that writes batches and syncs them at an interval, so that
//! capture never waits for a disk.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::counters::Counters;
use super::{BATCH_BYTES, Options};
use crate::capture::pin_to_cpu;
use crate::entry::{ConnectionNumber, Position, Time};
use crate::error::{Error, Result};
use crate::log::{Batch, Carried, Writer};

/// The delay before a retry on a full disk.
const FULL_PAUSE: Duration = Duration::from_millis(200);
/// Written batches kept for reuse, at most.
const SPARES_MAX: usize = 4;
/// Messages handled before a sync, at most.
const MESSAGES_MAX: usize = 64;
/// Tries on a full disk after a stop was requested.
const LAST_TRIES: u32 = 5;

enum Message {
    /// Entries, and since when the oldest of them has waited.
    Batch(Batch, Instant),
    Rotate(Vec<Carried>, ConnectionNumber, Time),
}

/// The thread, as the capturing thread sees it.
pub(super) struct LogWriter {
    queue: Option<Sender<Message>>,
    thread: Option<JoinHandle<Result<()>>>,
    /// Written batches, whose memory is reused.
    spares: Receiver<Batch>,
    counters: Arc<Counters>,
    queue_bytes: usize,
}

impl LogWriter {
    pub(super) fn start(writer: Writer, options: &Options, counters: Arc<Counters>) -> Self {
        let (queue, messages) = mpsc::channel();
        let (written, spares) = mpsc::sync_channel(SPARES_MAX);
        let mut own = Thread {
            writer,
            messages,
            written,
            counters: counters.clone(),
            sync_interval: options.sync_interval,
            unsynced_since: None,
            unsynced_batches: 0,
        };
        let cpu = options.writer_cpu;
        let thread = std::thread::Builder::new()
            .name("log writer".into())
            .spawn(move || {
                if let Some(cpu) = cpu {
                    pin_to_cpu(cpu)?;
                }
                own.run()?;
                own.writer.close()?;
                own.counters.batches_durable(own.unsynced_batches);
                Ok(())
            })
            .expect("a process that has just begun can start a thread");
        Self {
            queue: Some(queue),
            thread: Some(thread),
            spares,
            counters,
            queue_bytes: options.queue_bytes,
        }
    }

    /// Returns an empty batch for entries after `position`.
    pub(super) fn spare(&self, position: Position) -> Batch {
        let Ok(mut spare) = self.spares.try_recv() else { return Batch::after(position) };
        spare.begin_after(position);
        spare
    }

    /// Whether there is room for more waiting bytes.
    pub(super) fn has_room(&self) -> bool {
        self.counters.queued_bytes() < self.queue_bytes
    }

    /// Hands a batch over, whose oldest entry has waited since `since`.
    ///
    /// # Errors
    /// If the log can no longer be written; [`LogWriter::finish`] says why.
    pub(super) fn write(&mut self, batch: Batch, since: Instant) -> Result<()> {
        self.counters.queued(batch.len_bytes());
        self.send(Message::Batch(batch, since))
    }

    /// Continues the log in a new segment after everything handed over.
    ///
    /// # Errors
    /// As [`LogWriter::write`].
    pub(super) fn rotate(
        &mut self,
        carried: Vec<Carried>,
        connection: ConnectionNumber,
        now: Time,
    ) -> Result<()> {
        self.send(Message::Rotate(carried, connection, now))
    }

    fn send(&self, message: Message) -> Result<()> {
        let ended = || Error::io("the log writer", std::io::Error::other("has stopped"));
        let queue = self.queue.as_ref().ok_or_else(ended)?;
        queue.send(message).map_err(|_| ended())
    }

    /// Waits until everything is written and durable, and closes the log.
    ///
    /// # Errors
    /// If some of it could not be written.
    pub(super) fn finish(mut self) -> Result<()> {
        self.queue = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

/// The thread, from inside.
struct Thread {
    writer: Writer,
    messages: Receiver<Message>,
    written: SyncSender<Batch>,
    counters: Arc<Counters>,
    sync_interval: Duration,
    /// Since when the oldest written entry has not been durable.
    unsynced_since: Option<Instant>,
    unsynced_batches: usize,
}

impl Thread {
    /// Writes until all senders are gone.
    fn run(&mut self) -> Result<()> {
        loop {
            let patience = match self.unsynced_since {
                Some(since) => self.sync_interval.saturating_sub(since.elapsed()),
                // Nothing to sync, and nothing to do until a message arrives.
                None => Duration::from_secs(3600),
            };
            match self.messages.recv_timeout(patience) {
                Ok(message) => {
                    self.take(message)?;
                    // A slow disk must not be synced for each of the gathered messages.
                    for _ in 1..MESSAGES_MAX {
                        let Ok(message) = self.messages.try_recv() else { break };
                        self.take(message)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.unsynced_since.is_some_and(|since| since.elapsed() >= self.sync_interval) {
                self.sync()?;
            }
        }
    }

    fn take(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Batch(mut batch, since) => {
                self.write(&mut batch, since)?;
                self.counters.written(batch.len_bytes());
                // A surplus batch is freed, and so is one that grew beyond the usual size.
                if batch.len_bytes() <= 2 * BATCH_BYTES {
                    let _dropped = self.written.try_send(batch);
                }
            }
            Message::Rotate(carried, connection, now) => {
                match self.writer.rotate(&carried, connection, now) {
                    // The old segment remains in use, longer than usual.
                    Err(error) if error.is_storage_full() => {}
                    result => {
                        result?;
                        self.synced();
                        self.counters.rotated();
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes a batch, however long the disk is full.
    fn write(&mut self, batch: &mut Batch, since: Instant) -> Result<()> {
        let mut last_tries = LAST_TRIES;
        loop {
            match self.writer.write(batch) {
                Err(error) if error.is_storage_full() => {
                    self.counters.set_disk_full(true);
                    // What was written before the disk was full can still be made durable.
                    self.writer.sync()?;
                    self.synced();
                    if self.counters.is_stopping() {
                        if last_tries == 0 {
                            return Err(error);
                        }
                        last_tries -= 1;
                    }
                    std::thread::sleep(FULL_PAUSE);
                }
                result => {
                    self.counters.set_disk_full(false);
                    self.unsynced_since.get_or_insert(since);
                    self.unsynced_batches += 1;
                    return result;
                }
            }
        }
    }

    fn sync(&mut self) -> Result<()> {
        let began = Instant::now();
        self.writer.sync()?;
        self.counters.sync(began.elapsed());
        self.synced();
        Ok(())
    }

    fn synced(&mut self) {
        self.unsynced_since = None;
        self.counters.batches_durable(std::mem::take(&mut self.unsynced_batches));
    }
}

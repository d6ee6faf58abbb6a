//! Turns streams into entries: follows the conversation of each connection, numbers connections and
//! requests, and gathers entries into batches (the paper's data classifier).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::counters::Counters;
use super::log_writer::LogWriter;
use super::{Ends, Options};
use crate::entry::{Class, ConnectionNumber, GapReason, Outcome, Position, Time};
use crate::error::Result;
use crate::log::{Batch, Carried, Writer};
use crate::protocol::{Conversation, Listener, Protocol, Side};
use crate::reassembly::{Handler, Table};

/// Unanswered requests tracked per connection; older ones count as never answered.
const AWAITED_MAX: usize = 1 << 16;

/// A connection being followed.
pub(super) struct Followed {
    conversation: Box<dyn Conversation + Send>,
    facts: Facts,
}

struct Facts {
    number: ConnectionNumber,
    opened: Time,
    client: SocketAddr,
    server: SocketAddr,
    /// TCP's number of the client's first byte, once one has arrived.
    first_sequence: Option<u32>,
    /// Requests reported so far, logged or not.
    told: u64,
    /// Logged requests without an answer: the conversation's number, and the log's.
    awaited: VecDeque<(u64, Position)>,
}

/// Turns reported requests into entries.
pub(super) struct Recorder {
    protocol: Protocol,
    logs_read_only: bool,
    batch: Batch,
    /// Since when the batch has contained entries.
    gathered_since: Option<Instant>,
    connection: ConnectionNumber,
    counters: Arc<Counters>,
    encrypted: Option<Ends>,
    /// Bytes of dropped batches since the last gap that reports them.
    dropped_bytes: u64,
    segment_bytes: u64,
    /// Bytes handed over since the segment began.
    segment_filled_bytes: u64,
}

impl Recorder {
    pub(super) fn new(options: &Options, counters: Arc<Counters>, writer: &Writer) -> Self {
        Self {
            protocol: options.protocol,
            logs_read_only: options.logs_read_only,
            batch: Batch::after(writer.position()),
            gathered_since: None,
            connection: writer.connection(),
            counters,
            encrypted: None,
            dropped_bytes: 0,
            segment_bytes: options.segment_bytes,
            segment_filled_bytes: 0,
        }
    }

    /// The size of the current batch.
    pub(super) fn batch_bytes(&self) -> usize {
        self.batch.len_bytes()
    }

    /// Returns the batch for adding an entry.
    fn entries(&mut self) -> &mut Batch {
        if self.gathered_since.is_none() {
            let now = Instant::now();
            self.gathered_since = Some(now);
            self.counters.batch_begun(now);
        }
        &mut self.batch
    }

    /// How long the oldest entry has waited to be handed over.
    pub(super) fn gathered_for(&self) -> Duration {
        self.gathered_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Discards what was gathered, as if it had been written.
    #[cfg(test)]
    pub(super) fn discard(&mut self) {
        self.batch.clear();
        if self.gathered_since.take().is_some() {
            self.counters.batch_dropped();
        }
    }

    /// An encrypted connection, if there was one.
    pub(super) fn encrypted(&self) -> Option<Ends> {
        self.encrypted
    }

    /// Whether entries were dropped, so that the log no longer knows the connections.
    pub(super) fn has_dropped(&self) -> bool {
        self.dropped_bytes > 0
    }

    /// Hands what was gathered to the log, or drops it if too much waits there already.
    pub(super) fn hand_over(&mut self, log: &mut LogWriter) -> Result<()> {
        let Some(since) = self.gathered_since.take() else { return Ok(()) };
        let next = log.spare(self.batch.position());
        let batch = std::mem::replace(&mut self.batch, next);
        if self.has_dropped() || !log.has_room() {
            self.dropped_bytes += batch.len_bytes() as u64;
            self.counters.dropped(batch.len_bytes());
            self.counters.batch_dropped();
            return Ok(());
        }
        self.segment_filled_bytes += batch.len_bytes() as u64;
        log.write(batch, since)
    }

    /// Whether the segment has reached its size limit.
    pub(super) fn wants_rotation(&self) -> bool {
        self.segment_filled_bytes >= self.segment_bytes
    }

    /// Records a loss whose connection is unknown.
    pub(super) fn gap(&mut self, at: Time, missing: u64, reason: GapReason) {
        self.entries().gap(None, at, missing, reason);
        self.counters.gap(reason);
    }

    /// Records the gap after entries were dropped, and introduces each connection as a new one with
    /// its current state.
    pub(super) fn begin_anew(&mut self, table: &mut Table<Followed>, now: Time) {
        let dropped = std::mem::take(&mut self.dropped_bytes);
        self.gap(now, dropped, GapReason::DiskFull);
        for followed in table.kept_mut() {
            let Followed { conversation, facts } = followed;
            self.connection.0 += 1;
            facts.number = self.connection;
            facts.opened = now;
            facts.awaited.clear();
            self.entries().opened(facts.number, now, facts.client, facts.server);
            for payload in conversation.connection_requests() {
                let port = facts.client.port();
                self.entries().request(facts.number, now, Class::Connection, port, 0, &payload);
            }
        }
    }

    /// Begins a new segment with the open connections.
    pub(super) fn rotate(
        &mut self,
        table: &Table<Followed>,
        log: &mut LogWriter,
        now: Time,
    ) -> Result<()> {
        let mut carried: Vec<Carried> = table
            .kept()
            .map(|Followed { conversation, facts }| Carried {
                connection: facts.number,
                opened: facts.opened,
                client: facts.client,
                server: facts.server,
                requests: conversation.connection_requests(),
            })
            .collect();
        carried.sort_by_key(|carried| carried.connection);
        self.segment_filled_bytes = 0;
        log.rotate(carried, self.connection, now)
    }
}

impl Handler for Recorder {
    type Connection = Followed;

    fn opened(&mut self, client: SocketAddr, server: SocketAddr, at: Time) -> Followed {
        self.connection.0 += 1;
        let number = self.connection;
        self.entries().opened(number, at, client, server);
        self.counters.opened();
        Followed {
            conversation: self.protocol.conversation(),
            facts: Facts {
                number: self.connection,
                opened: at,
                client,
                server,
                first_sequence: None,
                told: 0,
                awaited: VecDeque::new(),
            },
        }
    }

    fn bytes(
        &mut self,
        followed: &mut Followed,
        side: Side,
        sequence: u32,
        bytes: &[u8],
        at: Time,
    ) {
        let Followed { conversation, facts } = followed;
        if side == Side::Client && facts.first_sequence.is_none() {
            facts.first_sequence = Some(sequence);
            if is_tls(bytes) {
                self.encrypted.get_or_insert((facts.client, facts.server));
            }
        }
        conversation.bytes(side, bytes, at, &mut Ear { recorder: self, facts });
    }

    fn gap(
        &mut self,
        followed: &mut Followed,
        side: Side,
        sequence: u32,
        missing: u64,
        reason: GapReason,
        at: Time,
    ) {
        let Followed { conversation, facts } = followed;
        if side == Side::Client {
            facts.first_sequence.get_or_insert(sequence);
        }
        // Both directions of a connection begin in the middle; reporting it once is enough.
        if reason != GapReason::MidStream || side == Side::Client {
            self.entries().gap(Some(facts.number), at, missing, reason);
            self.counters.gap(reason);
        }
        conversation.gap(side, missing, at, &mut Ear { recorder: self, facts });
    }

    fn closed(&mut self, followed: Followed, at: Time) {
        self.entries().closed(followed.facts.number, at);
        self.counters.closed();
    }
}

/// Whether a client's first bytes are a TLS record, with which none of the protocols begins.
fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x14..=0x17, 3, 0..=4, ..])
}

/// Listens to one conversation.
struct Ear<'a> {
    recorder: &'a mut Recorder,
    facts: &'a mut Facts,
}

impl Listener for Ear<'_> {
    #[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap")]
    fn request(&mut self, class: Class, payload: &[u8], offset: u64, at: Time) {
        let Self { recorder, facts } = self;
        let number = facts.told;
        facts.told += 1;
        if class == Class::ReadOnly && !recorder.logs_read_only {
            recorder.counters.request(class, payload.len());
            return;
        }
        let sequence = facts.first_sequence.unwrap_or(0).wrapping_add(offset as u32);
        let port = facts.client.port();
        let position = recorder.entries().request(facts.number, at, class, port, sequence, payload);
        recorder.counters.request(class, payload.len());
        if facts.awaited.len() == AWAITED_MAX {
            facts.awaited.pop_front();
        }
        facts.awaited.push_back((number, position));
    }

    fn response(&mut self, number: u64, outcome: Outcome, at: Time) {
        let awaited = &mut self.facts.awaited;
        let found = match awaited.front() {
            Some((first, _)) if *first == number => awaited.pop_front(),
            _ => awaited
                .binary_search_by_key(&number, |(number, _)| *number)
                .ok()
                .and_then(|index| awaited.remove(index)),
        };
        if let Some((_, position)) = found {
            self.recorder.entries().completed(position, at, outcome);
            self.recorder.counters.completed(outcome);
        }
    }

    fn unintelligible(&mut self, _: Side, _: &str, at: Time) {
        self.recorder.entries().gap(Some(self.facts.number), at, 0, GapReason::Unintelligible);
        self.recorder.counters.gap(GapReason::Unintelligible);
    }

    fn encrypted(&mut self, _: Time) {
        self.recorder.encrypted.get_or_insert((self.facts.client, self.facts.server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Keep, Settings};

    #[test]
    fn what_was_counted_lags_until_it_is_durable() {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = Settings { protocol: "resp".into(), keep: Keep::default() };
        let writer = Writer::open(Arc::new(env_os::OsDisk), dir.path(), settings, Time(1));
        let writer = writer.expect("a log");
        let counters = Arc::new(Counters::default());
        // Nothing is durable before the log is closed.
        let sync_interval = Duration::from_secs(3600);
        let options = Options { sync_interval, ..super::super::throughput::options() };
        let mut recorder = Recorder::new(&options, counters.clone(), &writer);
        let mut log = LogWriter::start(writer, &options, counters.clone());
        let [client, server] = [40_000, 6379].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(counters.lag(), Duration::ZERO);
        let mut lag = Duration::ZERO;
        for _ in 0..100 {
            let mut followed = recorder.opened(client, server, Time(2));
            let request = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
            recorder.bytes(&mut followed, Side::Client, 1, request, Time(3));
            assert!(counters.lag() > lag, "it was counted");
            lag = counters.lag();
            recorder.hand_over(&mut log).expect("a log that is written");
            assert!(counters.lag() > lag, "it was handed over");
            lag = counters.lag();
        }
        assert_eq!(counters.requests(Class::Query).0, 100);
        log.finish().expect("a disk with room");
        assert_eq!(counters.lag(), Duration::ZERO);
    }
}

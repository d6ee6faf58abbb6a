//! Reconstructs TCP streams as the two ends see them from passing segments: for each connection,
//! the bytes of both directions, in order and each once, or a gap.
//!
//! ```text
//!   segment ─► table ─► connection ─┬─ client's stream ─► bytes, gaps ─┐
//!              by addresses         └─ server's stream ─► bytes, gaps ─┴─► Handler
//! ```
//!
//! A segment may arrive twice, late or early, or overlap others; sequence numbers wrap. Missing
//! bytes are waited for, because the sender may send them again, until the other end acknowledges
//! them. After that they will not be sent again: the sidecar has lost them. An acknowledgement
//! cannot pass before the bytes it acknowledges: capture takes place in front of the receiver, in
//! the order of events.
//!
//! A connection begins with SYN, or in its middle if the sidecar started later (which is a gap). It
//! ends when both ends have sent everything and FIN, with RST, with a new SYN on the same ports, or
//! when sequence numbers jump so far that it must be another connection whose SYN was lost. An
//! ended connection is remembered for a while, so that late repetitions do not look like a new one.
//!
//! # Invariants
//! 1. The bytes and missing bytes of a stream, in order, have the same places in the stream as at
//!    the receiver.
//! 2. At most [`Limits::waiting_bytes`] wait in one stream, and [`Limits::connections`] are
//!    remembered.

mod hash;
mod stream;

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::entry::{GapReason, Time};
use crate::protocol::Side;
use hash::Seed;
use stream::{Placed, Stream};

/// The header fields of a TCP segment that matter here.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The client's end.
    pub client: SocketAddr,
    /// The server's end.
    pub server: SocketAddr,
    /// The direction.
    pub side: Side,
    /// Its sequence number.
    pub sequence: u32,
    /// The next sequence number that its sender expects, if present.
    pub acknowledgment: Option<u32>,
    /// Opens the connection.
    pub syn: bool,
    /// The sender will send no more.
    pub fin: bool,
    /// Breaks the connection off.
    pub rst: bool,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// Receives the events of connections. The table stores its data about each.
pub trait Handler {
    /// The data stored for a connection.
    type Connection;

    /// Called when a connection was opened, or first seen.
    fn opened(&mut self, client: SocketAddr, server: SocketAddr, at: Time) -> Self::Connection;

    /// Called with the next bytes of a side; `sequence` is that of the first.
    fn bytes(
        &mut self,
        connection: &mut Self::Connection,
        side: Side,
        sequence: u32,
        bytes: &[u8],
        at: Time,
    );

    /// Called when `missing` bytes of a side, from this sequence number on, will never arrive (0:
    /// unknown number).
    fn gap(
        &mut self,
        connection: &mut Self::Connection,
        side: Side,
        sequence: u32,
        missing: u64,
        reason: GapReason,
        at: Time,
    );

    /// Called when a connection has ended.
    fn closed(&mut self, connection: Self::Connection, at: Time);
}

/// Limits on what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one stream that wait for missing ones before them.
    pub waiting_bytes: usize,
    /// Connections, including those that ended recently.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waiting_bytes: 8 << 20, connections: 1 << 17 }
    }
}

/// How long an ended connection is remembered: the maximum lifetime of a segment in a network.
const LINGER_NS: u64 = 60_000_000_000;

/// All connections to a server.
pub struct Table<C> {
    connections: HashMap<(SocketAddr, SocketAddr), Connection<C>, Seed>,
    limits: Limits,
}

struct Connection<C> {
    client: Stream,
    server: Stream,
    /// The handler's data; `None` once the connection has ended.
    kept: Option<C>,
    seen: Time,
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl<C> Table<C> {
    /// Creates a table with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { connections: HashMap::with_hasher(Seed::random()), limits }
    }

    /// The number of open connections.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.connections.values().filter(|connection| connection.kept.is_some()).count()
    }

    /// The handler's data of each open connection.
    pub fn kept(&self) -> impl Iterator<Item = &C> {
        self.connections.values().filter_map(|connection| connection.kept.as_ref())
    }

    /// The same, mutably.
    pub fn kept_mut(&mut self) -> impl Iterator<Item = &mut C> {
        self.connections.values_mut().filter_map(|connection| connection.kept.as_mut())
    }

    /// Handles a segment that passed at `at`.
    pub fn segment<H>(&mut self, segment: &Segment<'_>, at: Time, handler: &mut H)
    where
        H: Handler<Connection = C>,
    {
        let key = (segment.client, segment.server);
        if let Some(connection) = self.connections.get_mut(&key) {
            if !connection.is_replaced_by(segment) {
                connection.take(segment, at, self.limits.waiting_bytes, handler);
                return;
            }
            connection.end(at, handler);
        }
        // A segment without bytes is the rest of an ended connection, or too quiet to matter; and
        // every segment after the first SYN acknowledges.
        let is_middle = !segment.payload.is_empty() && segment.acknowledgment.is_some();
        if segment.rst || !(segment.syn || is_middle) {
            return;
        }
        if self.connections.len() >= self.limits.connections {
            self.make_room(at, handler);
        }
        let mut connection = Connection {
            client: Stream::default(),
            server: Stream::default(),
            kept: Some(handler.opened(segment.client, segment.server, at)),
            seen: at,
        };
        connection.begin(segment, at, handler);
        connection.take(segment, at, self.limits.waiting_bytes, handler);
        self.connections.insert(key, connection);
    }

    /// Forgets the connections that ended a while ago. If there are none, ends the one that has
    /// been idle longest.
    fn make_room<H: Handler<Connection = C>>(&mut self, now: Time, handler: &mut H) {
        self.connections.retain(|_, connection| {
            connection.kept.is_some() || now.0.saturating_sub(connection.seen.0) < LINGER_NS
        });
        if self.connections.len() < self.limits.connections {
            return;
        }
        let quietest = self
            .connections
            .iter()
            .min_by_key(|(_, connection)| (connection.kept.is_some(), connection.seen))
            .map(|(key, _)| *key);
        if let Some(mut connection) = quietest.and_then(|key| self.connections.remove(&key)) {
            connection.end(now, handler);
        }
    }
}

impl<C> Connection<C> {
    /// Whether the segment belongs to another connection with the same addresses.
    fn is_replaced_by(&self, segment: &Segment<'_>) -> bool {
        let (own, _) = self.streams(segment.side);
        if segment.syn {
            return segment.side == Side::Client && !own.begins_at(segment.sequence);
        }
        if segment.payload.is_empty() || segment.rst {
            return false;
        }
        match own.place(segment.sequence) {
            Placed::Elsewhere => true,
            // Bytes that had not been sent when it ended.
            Placed::Ahead(_) => self.kept.is_none(),
            Placed::Behind(behind) => self.kept.is_none() && behind < segment.payload.len() as u64,
            Placed::Unknown => false,
        }
    }

    fn streams(&self, side: Side) -> (&Stream, &Stream) {
        match side {
            Side::Client => (&self.client, &self.server),
            Side::Server => (&self.server, &self.client),
        }
    }

    fn stream_mut(&mut self, side: Side) -> &mut Stream {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Handles the first segment of a connection.
    fn begin<H>(&mut self, segment: &Segment<'_>, at: Time, handler: &mut H)
    where
        H: Handler<Connection = C>,
    {
        if segment.syn {
            return;
        }
        self.stream_mut(segment.side).begin(segment.sequence);
        if let Some(other) = segment.acknowledgment {
            self.stream_mut(segment.side.other()).begin(other);
        }
        let kept = self.kept.as_mut().expect("it was opened just now");
        for (side, stream) in [(Side::Client, &self.client), (Side::Server, &self.server)] {
            handler.gap(kept, side, stream.next_sequence(), 0, GapReason::MidStream, at);
        }
    }

    fn take<H>(&mut self, segment: &Segment<'_>, at: Time, waiting_bytes: usize, handler: &mut H)
    where
        H: Handler<Connection = C>,
    {
        self.seen = at;
        let Some(kept) = self.kept.as_mut() else { return };
        let side = segment.side;
        let (own, other) = match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        };
        let mut first = segment.sequence;
        if segment.syn {
            first = first.wrapping_add(1);
            own.begin(first);
        }
        if let Some(acknowledged) = segment.acknowledgment {
            other.begin(acknowledged);
            other.acknowledged(acknowledged, |sequence, given| match given {
                Ok(bytes) => handler.bytes(kept, side.other(), sequence, bytes, at),
                Err(missing) => {
                    handler.gap(kept, side.other(), sequence, missing, GapReason::Lost, at);
                }
            });
        }
        if segment.rst {
            if own.is_near(segment.sequence) {
                self.end(at, handler);
            }
            return;
        }
        own.begin(first);
        let length = u32::try_from(segment.payload.len()).expect("an IP packet is shorter");
        if segment.fin {
            own.ends_at(first.wrapping_add(length));
        }
        own.payload(first, segment.payload, waiting_bytes, |sequence, given| match given {
            Ok(bytes) => handler.bytes(kept, side, sequence, bytes, at),
            Err(missing) => {
                handler.gap(kept, side, sequence, missing, GapReason::OutOfBuffer, at);
            }
        });
        if self.client.has_ended() && self.server.has_ended() {
            self.end(at, handler);
        }
    }

    /// Reports the end of the connection, once.
    fn end<H: Handler<Connection = C>>(&mut self, at: Time, handler: &mut H) {
        if let Some(kept) = self.kept.take() {
            handler.closed(kept, at);
        }
        self.client.forget_waiting();
        self.server.forget_waiting();
    }
}

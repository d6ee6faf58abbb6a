//! A batch of entries as bytes: one write with one checksum.
//!
//! ```text
//!   CRC │ "TAPB" │ number │ synced │ time │ position │ length │ flags │ entry, entry, …
//!   └──────────────────────── 48 bytes ───────────────────────────────┘
//! ```
//!
//! A request is the paper's log entry (figure 6.3: source port, sequence number, payload length,
//! payload) after a kind, a time and a connection. Times and positions are differences from the
//! previous entry, so a completion takes about five bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::bytes::{u32_at, u64_at};
use base::checksum::crc32c;
use base::varint;

use super::Carried;
use super::segment::NUMBER_MAX;
use crate::entry::{Class, ConnectionNumber, Entry, GapReason, Outcome, Position, Time};

/// Bytes before the entries.
pub(super) const HEADER_BYTES: usize = 48;
/// The second word of every batch.
pub(super) const MAGIC: [u8; 4] = *b"TAPB";
/// Flag: the entries repeat those of earlier segments.
const CARRIED_OVER: u32 = 1;

const OPENED: u8 = 1;
const REQUEST_CONNECTION: u8 = 2;
const REQUEST_QUERY: u8 = 3;
const REQUEST_READ_ONLY: u8 = 4;
const COMPLETED_OK: u8 = 5;
const COMPLETED_ERROR: u8 = 6;
const GAP: u8 = 7;
const CLOSED: u8 = 8;

/// Encoded entries on their way to the log.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    /// The time of the previous entry; for the first entry, its own.
    time: Option<Time>,
    /// The position of the last request before this batch.
    before: u64,
    /// The position of the last request in the batch, or `before`.
    position: u64,
    /// The position of the last completion in the batch, or `before`.
    completed: u64,
    is_carried: bool,
}

impl Default for Batch {
    fn default() -> Self {
        Self::after(Position(0))
    }
}

impl Batch {
    /// Creates an empty batch whose first request, if any, will come after `position`.
    #[must_use]
    pub fn after(position: Position) -> Self {
        Self {
            bytes: vec![0; HEADER_BYTES],
            time: None,
            before: position.0,
            position: position.0,
            completed: position.0,
            is_carried: false,
        }
    }

    /// Creates a batch of the connections with which a segment begins.
    pub(super) fn carrying(connections: &[Carried], position: Position) -> Self {
        let mut batch = Self { is_carried: true, ..Self::after(position) };
        for carried in connections {
            let Carried { connection, opened, client, server, requests } = carried;
            batch.opened(*connection, *opened, *client, *server);
            for payload in requests {
                batch.request(*connection, *opened, Class::Connection, client.port(), 0, payload);
            }
        }
        batch.before = position.0;
        batch.position = position.0;
        batch
    }

    /// Whether the batch is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_BYTES
    }

    /// Its length on disk.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The position of the last request in the batch or before it.
    #[must_use]
    pub fn position(&self) -> Position {
        Position(self.position)
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If it is a request whose position does not follow the previous one.
    pub fn push(&mut self, entry: &Entry) {
        match entry {
            Entry::Opened { connection, at, client, server } => {
                self.opened(*connection, *at, *client, *server);
            }
            Entry::Request { position, connection, at, class, sequence, payload } => {
                let given = self.request(*connection, *at, *class, 0, *sequence, payload);
                assert_eq!(given, *position, "positions of requests follow one another");
            }
            Entry::Completed { position, at, outcome } => self.completed(*position, *at, *outcome),
            Entry::Gap { connection, at, missing, reason } => {
                self.gap(*connection, *at, *missing, *reason);
            }
            Entry::Closed { connection, at } => self.closed(*connection, *at),
        }
    }

    /// Appends [`Entry::Opened`].
    pub fn opened(
        &mut self,
        connection: ConnectionNumber,
        at: Time,
        client: SocketAddr,
        server: SocketAddr,
    ) {
        self.begin(OPENED, at);
        varint::put(&mut self.bytes, connection.0);
        put_address(&mut self.bytes, client);
        put_address(&mut self.bytes, server);
    }

    /// Appends [`Entry::Request`] of `payload`, sent from the client's `source_port`, and returns
    /// its position.
    ///
    /// # Panics
    /// If the payload is longer than 4 GiB, which no protocol allows.
    pub fn request(
        &mut self,
        connection: ConnectionNumber,
        at: Time,
        class: Class,
        source_port: u16,
        sequence: u32,
        payload: &[u8],
    ) -> Position {
        let kind = match class {
            Class::Connection => REQUEST_CONNECTION,
            Class::Query => REQUEST_QUERY,
            Class::ReadOnly => REQUEST_READ_ONLY,
        };
        self.begin(kind, at);
        varint::put(&mut self.bytes, connection.0);
        self.bytes.extend_from_slice(&source_port.to_le_bytes());
        self.bytes.extend_from_slice(&sequence.to_le_bytes());
        let length = u32::try_from(payload.len()).expect("a request is shorter than 4 GiB");
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(payload);
        self.position += 1;
        Position(self.position)
    }

    /// Appends [`Entry::Completed`].
    pub fn completed(&mut self, position: Position, at: Time, outcome: Outcome) {
        let kind = match outcome {
            Outcome::Ok => COMPLETED_OK,
            Outcome::Error => COMPLETED_ERROR,
        };
        self.begin(kind, at);
        put_difference(&mut self.bytes, self.completed, position.0);
        self.completed = position.0;
    }

    /// Appends [`Entry::Gap`].
    pub fn gap(
        &mut self,
        connection: Option<ConnectionNumber>,
        at: Time,
        missing: u64,
        reason: GapReason,
    ) {
        self.begin(GAP, at);
        varint::put(&mut self.bytes, connection.map_or(0, |connection| connection.0));
        varint::put(&mut self.bytes, missing);
        self.bytes.push(reason_code(reason));
    }

    /// Appends [`Entry::Closed`].
    pub fn closed(&mut self, connection: ConnectionNumber, at: Time) {
        self.begin(CLOSED, at);
        varint::put(&mut self.bytes, connection.0);
    }

    fn begin(&mut self, kind: u8, at: Time) {
        if self.time.is_none() {
            self.bytes[24..32].copy_from_slice(&at.0.to_le_bytes());
        }
        let before = self.time.replace(at).unwrap_or(at);
        self.bytes.push(kind);
        put_difference(&mut self.bytes, before.0, at.0);
    }

    /// Completes it as batch `number`, with batches up to `synced` durable, and returns its bytes.
    /// Can be called again.
    pub(super) fn seal(&mut self, number: u64, synced: u64) -> &[u8] {
        let length = u32::try_from(self.bytes.len() - HEADER_BYTES)
            .expect("a batch holds requests of one ring block, or a single one");
        let flags = if self.is_carried { CARRIED_OVER } else { 0 };
        let header = &mut self.bytes[..HEADER_BYTES];
        header[4..8].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(&number.to_le_bytes());
        header[16..24].copy_from_slice(&synced.to_le_bytes());
        header[32..40].copy_from_slice(&self.before.to_le_bytes());
        header[40..44].copy_from_slice(&length.to_le_bytes());
        header[44..48].copy_from_slice(&flags.to_le_bytes());
        let crc = crc32c(&self.bytes[4..]);
        self.bytes[..4].copy_from_slice(&crc.to_le_bytes());
        &self.bytes
    }

    /// Empties it for later entries.
    pub fn clear(&mut self) {
        self.begin_after(Position(self.position));
    }

    /// Empties it for entries after `position`, keeping its memory.
    pub(crate) fn begin_after(&mut self, position: Position) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(HEADER_BYTES);
        bytes.fill(0);
        *self = Self { bytes, ..Self::after(position) };
    }
}

/// The parsed header of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) crc: u32,
    pub(super) number: u64,
    pub(super) synced: u64,
    pub(super) time: u64,
    pub(super) position: u64,
    pub(super) length: u32,
    pub(super) is_carried: bool,
}

impl Header {
    /// Decodes a header; `None` if the bytes are not one.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let flags = u32_at(bytes, 44);
        if bytes[4..8] != MAGIC || flags & !CARRIED_OVER != 0 {
            return None;
        }
        Some(Self {
            crc: u32_at(bytes, 0),
            number: u64_at(bytes, 8),
            synced: u64_at(bytes, 16),
            time: u64_at(bytes, 24),
            position: u64_at(bytes, 32),
            length: u32_at(bytes, 40),
            is_carried: flags & CARRIED_OVER != 0,
        })
    }

    /// Bytes of the whole batch.
    pub(super) fn batch_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.length)
    }

    /// Decodes the entries of a batch with a correct checksum. The error says what is wrong, and
    /// how far from the first entry.
    pub(super) fn entries(&self, body: &[u8]) -> Result<Vec<Entry>, (usize, &'static str)> {
        if self.position >= NUMBER_MAX {
            return Err((0, "a position that no log can reach"));
        }
        let mut decoder = Decoder {
            input: body,
            time: self.time,
            position: self.position,
            completed: self.position,
            is_carried: self.is_carried,
        };
        let mut entries = Vec::new();
        while !decoder.input.is_empty() {
            let at = body.len() - decoder.input.len();
            entries.push(decoder.entry().ok_or((at, "an entry that cannot be decoded"))?);
        }
        Ok(entries)
    }
}

struct Decoder<'a> {
    input: &'a [u8],
    time: u64,
    position: u64,
    completed: u64,
    is_carried: bool,
}

impl<'a> Decoder<'a> {
    fn entry(&mut self) -> Option<Entry> {
        let kind = self.byte()?;
        self.time = self.difference(self.time)?;
        let at = Time(self.time);
        Some(match kind {
            OPENED => Entry::Opened {
                connection: self.connection()?,
                at,
                client: self.address()?,
                server: self.address()?,
            },
            REQUEST_CONNECTION => self.request(Class::Connection, at)?,
            REQUEST_QUERY => self.request(Class::Query, at)?,
            REQUEST_READ_ONLY => self.request(Class::ReadOnly, at)?,
            COMPLETED_OK => self.completed(Outcome::Ok, at)?,
            COMPLETED_ERROR => self.completed(Outcome::Error, at)?,
            GAP => {
                let connection = self.connection()?;
                Entry::Gap {
                    connection: (connection.0 != 0).then_some(connection),
                    at,
                    missing: varint::take(&mut self.input)?,
                    reason: reason_of(self.byte()?)?,
                }
            }
            CLOSED => Entry::Closed { connection: self.connection()?, at },
            _ => return None,
        })
    }

    fn request(&mut self, class: Class, at: Time) -> Option<Entry> {
        let connection = self.connection()?;
        let head = self.take(10)?;
        // The source port is the connection's, which is in its `Opened` entry.
        let length = u32_at(head, 6) as usize;
        let payload = self.take(length)?.to_vec();
        let position = if self.is_carried {
            Position(0)
        } else {
            self.position += 1;
            Position(self.position)
        };
        Some(Entry::Request { position, connection, at, class, sequence: u32_at(head, 2), payload })
    }

    fn completed(&mut self, outcome: Outcome, at: Time) -> Option<Entry> {
        self.completed = self.difference(self.completed)?;
        Some(Entry::Completed { position: Position(self.completed), at, outcome })
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.input.split_at_checked(len)?;
        self.input = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn connection(&mut self) -> Option<ConnectionNumber> {
        let number = varint::take(&mut self.input)?;
        (number < NUMBER_MAX).then_some(ConnectionNumber(number))
    }

    fn difference(&mut self, before: u64) -> Option<u64> {
        let zigzag = varint::take(&mut self.input)?;
        let difference = (zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed());
        Some(before.wrapping_add_signed(difference))
    }

    fn address(&mut self) -> Option<SocketAddr> {
        let ip: IpAddr = match self.byte()? {
            4 => Ipv4Addr::from(<[u8; 4]>::try_from(self.take(4)?).ok()?).into(),
            6 => Ipv6Addr::from(<[u8; 16]>::try_from(self.take(16)?).ok()?).into(),
            _ => return None,
        };
        let port = self.take(2)?;
        Some(SocketAddr::new(ip, u16::from_le_bytes([port[0], port[1]])))
    }
}

/// Appends the difference from `from` to `to`: small numbers take few bytes whatever their sign.
fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from).cast_signed();
    varint::put(out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_le_bytes());
}

const fn reason_code(reason: GapReason) -> u8 {
    match reason {
        GapReason::RingOverflow => 1,
        GapReason::Lost => 2,
        GapReason::MidStream => 3,
        GapReason::OutOfBuffer => 4,
        GapReason::Unintelligible => 5,
        GapReason::Stopped => 6,
        GapReason::DiskFull => 7,
    }
}

const fn reason_of(code: u8) -> Option<GapReason> {
    Some(match code {
        1 => GapReason::RingOverflow,
        2 => GapReason::Lost,
        3 => GapReason::MidStream,
        4 => GapReason::OutOfBuffer,
        5 => GapReason::Unintelligible,
        6 => GapReason::Stopped,
        7 => GapReason::DiskFull,
        _ => return None,
    })
}

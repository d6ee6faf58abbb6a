//! Messages between the two ends (docs/format/transfer.md).
//!
//! ```text
//!   client                      server
//!     Hello ─────────────────────►            the sender: the client (send) or the server (fetch)
//!     ◄───────────────────── Welcome
//!
//!   sender                     receiver
//!     Entry × n, EntriesEnd ─────►            everything that will come
//!     ◄─────── Offer × n, Accept              or Refuse; what is there already
//!     Ask ───────────────────────►            what of it?
//!     ◄──────────────────────── Have          checksums of its pages
//!     Data · Hole · Held · Same ─►
//!     FileEnd or Lost ───────────►
//!     ◄────────────────────── Resend          pages that were not found as they were sent
//!     ◄─────────── Verified · Failed
//!     AllSent ───────────────────►
//!     ◄──────────────────── Finished
//! ```
//!
//! Every decoder verifies lengths before it allocates, and refuses surplus bytes at the end.

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::relative_path::RelativePath;
use crate::scheme::Scheme;

/// The first bytes of every connection.
const MAGIC: &[u8; 8] = b"INDELTFR";
/// The version of the protocol that this code implements, but for sessions.
pub(crate) const VERSION: u16 = 1;
/// The version that sessions are of.
const SESSION_VERSION: u16 = 2;

/// The direction of the files, as the client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To the server, into this directory below its own.
    Send { into: Option<RelativePath> },
    /// From the server; no paths means everything.
    Fetch { paths: Vec<RelativePath> },
    /// Files are put, read, listed and removed below this directory of the server's, as long as the client wants.
    Session { into: Option<RelativePath> },
}

impl Wish {
    fn version(&self) -> u16 {
        match self {
            Wish::Send { .. } | Wish::Fetch { .. } => VERSION,
            Wish::Session { .. } => SESSION_VERSION,
        }
    }
}

/// How the receiver must verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verification {
    /// The scheme.
    pub scheme: Scheme,
    /// Threads that verify; 0 means one per processor.
    pub verifiers: u16,
    /// How often a page is resent before its file fails.
    pub resends_max: u16,
    /// The size of the device's cache; 0 means a thousandth of its capacity.
    pub device_cache_bytes: u64,
}

/// How much of an entry the receiver already has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Part of it, from a transfer that broke off.
    Staged,
    /// A whole file with the same length and modification time.
    Existing,
}

/// What the receiver has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    pub(crate) verified_bytes: u64,
    pub(crate) unchanged_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) filler_bytes: u64,
    pub(crate) pages_sent_again: u64,
    pub(crate) resident_bytes: u64,
    pub(crate) device_cache_bytes: u64,
    pub(crate) verification_us: u64,
    pub(crate) memory_peak_bytes: u64,
}

/// A message. Entries are named by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    Hello { verification: Verification, wish: Wish },
    Welcome,
    Entry(Entry),
    EntriesEnd { count: u32 },
    Offer { entries: Vec<(u32, Origin)> },
    Accept { waits_for_each: bool },
    Refuse { why: String },
    Ask { entry: u32 },
    Have { entry: u32, checksums: Vec<u32>, is_last: bool },
    Data { entry: u32, first_page: u64, checksums: Vec<u32> },
    Hole { entry: u32, first_page: u64, pages: u64 },
    Held { entry: u32, first_page: u64, checksums: Vec<u32> },
    Same { entry: u32 },
    FileEnd { entry: u32 },
    Lost { entry: u32, why: String },
    AllSent,
    Resend { entry: u32, first_page: u64, pages: u64 },
    Verified { entry: u32 },
    Failed { entry: u32, why: String },
    Progress { written_bytes: u64, verified_bytes: u64 },
    Finished(Totals),
    Request(Request),
    Answer(Answer),
}

/// The kinds of messages, with their numbers in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Hello = 1,
    Welcome,
    Entry,
    EntriesEnd,
    Offer,
    Accept,
    Refuse,
    Ask,
    Have,
    Data,
    Hole,
    Held,
    Same,
    FileEnd,
    Lost,
    AllSent,
    Resend,
    Verified,
    Failed,
    Progress,
    Finished,
    Request,
    Answer,
}

impl Kind {
    const ALL: [Kind; 23] = [
        Kind::Hello,
        Kind::Welcome,
        Kind::Entry,
        Kind::EntriesEnd,
        Kind::Offer,
        Kind::Accept,
        Kind::Refuse,
        Kind::Ask,
        Kind::Have,
        Kind::Data,
        Kind::Hole,
        Kind::Held,
        Kind::Same,
        Kind::FileEnd,
        Kind::Lost,
        Kind::AllSent,
        Kind::Resend,
        Kind::Verified,
        Kind::Failed,
        Kind::Progress,
        Kind::Finished,
        Kind::Request,
        Kind::Answer,
    ];

    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

/// The most checksums in one message.
pub(crate) const CHECKSUMS_MAX: usize = 65_536;
/// The most entries in one `Offer`.
pub(crate) const OFFERS_MAX: usize = 65_536;
/// The longest text; longer ones are truncated before sending.
const TEXT_MAX: usize = 4096;
/// The most paths in one `Hello`, all of which must fit a head.
const PATHS_MAX: usize = 200;

impl Totals {
    fn fields(&self) -> [u64; 9] {
        [
            self.verified_bytes,
            self.unchanged_bytes,
            self.written_bytes,
            self.filler_bytes,
            self.pages_sent_again,
            self.resident_bytes,
            self.device_cache_bytes,
            self.verification_us,
            self.memory_peak_bytes,
        ]
    }
}

impl Message {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Message::Hello { .. } => Kind::Hello,
            Message::Welcome => Kind::Welcome,
            Message::Entry(_) => Kind::Entry,
            Message::EntriesEnd { .. } => Kind::EntriesEnd,
            Message::Offer { .. } => Kind::Offer,
            Message::Accept { .. } => Kind::Accept,
            Message::Refuse { .. } => Kind::Refuse,
            Message::Ask { .. } => Kind::Ask,
            Message::Have { .. } => Kind::Have,
            Message::Data { .. } => Kind::Data,
            Message::Hole { .. } => Kind::Hole,
            Message::Held { .. } => Kind::Held,
            Message::Same { .. } => Kind::Same,
            Message::FileEnd { .. } => Kind::FileEnd,
            Message::Lost { .. } => Kind::Lost,
            Message::AllSent => Kind::AllSent,
            Message::Resend { .. } => Kind::Resend,
            Message::Verified { .. } => Kind::Verified,
            Message::Failed { .. } => Kind::Failed,
            Message::Progress { .. } => Kind::Progress,
            Message::Finished(_) => Kind::Finished,
            Message::Request(_) => Kind::Request,
            Message::Answer(_) => Kind::Answer,
        }
    }

    /// Encodes the head of its frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Message::Hello { verification, wish } => {
                out.0.extend_from_slice(MAGIC);
                out.u16(wish.version()).verification(verification).wish(wish)
            }
            Message::Welcome => out.u16(VERSION),
            Message::Entry(entry) => out.entry(entry),
            Message::EntriesEnd { count } => out.u32(*count),
            Message::Offer { entries } => {
                for &(entry, origin) in entries {
                    out.u32(entry).u8(u8::from(origin == Origin::Existing));
                }
                &mut out
            }
            Message::Accept { waits_for_each } => out.u8(u8::from(*waits_for_each)),
            Message::Refuse { why } => out.text(why),
            Message::Have { entry, checksums, is_last } => {
                out.u32(*entry).u8(u8::from(*is_last)).checksums(checksums)
            }
            Message::Data { entry, first_page, checksums }
            | Message::Held { entry, first_page, checksums } => {
                out.u32(*entry).u64(*first_page).checksums(checksums)
            }
            Message::Hole { entry, first_page, pages }
            | Message::Resend { entry, first_page, pages } => {
                out.u32(*entry).u64(*first_page).u64(*pages)
            }
            Message::Ask { entry }
            | Message::Same { entry }
            | Message::FileEnd { entry }
            | Message::Verified { entry } => out.u32(*entry),
            Message::Lost { entry, why } | Message::Failed { entry, why } => {
                out.u32(*entry).text(why)
            }
            Message::AllSent => &mut out,
            Message::Progress { written_bytes, verified_bytes } => {
                out.u64(*written_bytes).u64(*verified_bytes)
            }
            Message::Finished(totals) => {
                totals.fields().into_iter().for_each(|field| {
                    out.u64(field);
                });
                &mut out
            }
            Message::Request(request) => {
                request.encode(&mut out);
                &mut out
            }
            Message::Answer(answer) => {
                answer.encode(&mut out);
                &mut out
            }
        };
        out.0
    }

    /// Decodes the head of a frame.
    pub(crate) fn decode(code: u8, head: &[u8]) -> Result<Message> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.code() == code);
        let kind = kind.ok_or_else(|| Error::protocol("an unknown kind of message"))?;
        let mut head = Reader(head);
        let message = Self::decode_kind(kind, &mut head)?;
        if head.0.is_empty() {
            Ok(message)
        } else {
            Err(Error::protocol(format!("surplus bytes in a {kind:?} message")))
        }
    }

    fn decode_kind(kind: Kind, head: &mut Reader<'_>) -> Result<Message> {
        let version = |head: &mut Reader<'_>, latest| match head.u16()? {
            known @ VERSION..=SESSION_VERSION if known <= latest => Ok(known),
            other => Err(Error::protocol(format!(
                "version {other} of it, and this is version {latest}: install the same Indelible on both ends"
            ))),
        };
        Ok(match kind {
            Kind::Hello => {
                if head.take(MAGIC.len())? != MAGIC {
                    return Err(Error::protocol("it begins with wrong bytes"));
                }
                let version = version(head, SESSION_VERSION)?;
                let (verification, wish) = (head.verification()?, head.wish()?);
                if version != wish.version() {
                    return Err(Error::protocol("a request of another version than it says"));
                }
                Message::Hello { verification, wish }
            }
            Kind::Welcome => {
                version(head, VERSION)?;
                Message::Welcome
            }
            Kind::Entry => Message::Entry(head.entry()?),
            Kind::EntriesEnd => Message::EntriesEnd { count: head.u32()? },
            Kind::Offer => Message::Offer { entries: head.offers()? },
            Kind::Accept => Message::Accept { waits_for_each: head.bool()? },
            Kind::Refuse => Message::Refuse { why: head.text()? },
            Kind::Ask => Message::Ask { entry: head.u32()? },
            Kind::Have => {
                let (entry, is_last) = (head.u32()?, head.bool()?);
                Message::Have { entry, checksums: head.checksums()?, is_last }
            }
            Kind::Data | Kind::Held => {
                let (entry, first_page, checksums) = (head.u32()?, head.u64()?, head.checksums()?);
                if kind == Kind::Data {
                    Message::Data { entry, first_page, checksums }
                } else {
                    Message::Held { entry, first_page, checksums }
                }
            }
            Kind::Hole => {
                Message::Hole { entry: head.u32()?, first_page: head.u64()?, pages: head.u64()? }
            }
            Kind::Resend => {
                Message::Resend { entry: head.u32()?, first_page: head.u64()?, pages: head.u64()? }
            }
            Kind::Same => Message::Same { entry: head.u32()? },
            Kind::FileEnd => Message::FileEnd { entry: head.u32()? },
            Kind::Verified => Message::Verified { entry: head.u32()? },
            Kind::Lost => Message::Lost { entry: head.u32()?, why: head.text()? },
            Kind::Failed => Message::Failed { entry: head.u32()?, why: head.text()? },
            Kind::AllSent => Message::AllSent,
            Kind::Progress => {
                Message::Progress { written_bytes: head.u64()?, verified_bytes: head.u64()? }
            }
            Kind::Finished => Message::Finished(head.totals()?),
            Kind::Request => Message::Request(Request::decode(head)?),
            Kind::Answer => Message::Answer(Answer::decode(head)?),
        })
    }
}

mod coding;
mod session;
#[cfg(test)]
mod tests;

use coding::{Reader, Writer};
pub(crate) use session::{Answer, NAMES_BYTES_MAX, Request};

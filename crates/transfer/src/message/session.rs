//! What a client asks for in a session, and what it is answered.
//!
//! Each request has one answer, in order, but for `Names`, of which several may be one, and what was read, which is a `Data` message.
//! `Put` is followed by its pages in `Data` messages.

use super::{Reader, Writer};
use crate::error::{Error, Result};
use crate::relative_path::RelativePath;

/// The most bytes of names in one answer.
pub(crate) const NAMES_BYTES_MAX: usize = 256 * 1024;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// A new file of this length, which follows.
    Put { path: RelativePath, bytes: u64 },
    /// The length of a file.
    Open { path: RelativePath },
    /// Bytes of a file, not more than one message holds.
    Read { path: RelativePath, offset: u64, bytes: u32 },
    /// The names in a directory: of directories, or of files.
    List { path: Option<RelativePath>, directories: bool },
    /// That a file be removed.
    Remove { path: RelativePath },
    /// That a file which an earlier session has put is read back, too: pages of it, with their checksums.
    Expect { path: RelativePath, bytes: u64, first_page: u64, checksums: Vec<u32> },
    /// How many files were put, and verified.
    Stand,
}

/// What it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The file is there, durable; `is_new` if it was not before.
    Put {
        is_new: bool,
    },
    Opened {
        bytes: u64,
    },
    /// Some of the names; more follow unless `is_last`.
    Names {
        names: Vec<Vec<u8>>,
        is_last: bool,
    },
    Done,
    /// There is no such file or directory.
    Absent,
    /// Of the files that were put or expected in this session the first `verified` were read back, and these were other than they should be.
    Stand {
        put: u64,
        verified: u64,
        damaged: Vec<RelativePath>,
    },
    /// It could not be done; `is_denied` if that is not permitted.
    Failed {
        is_denied: bool,
        why: String,
    },
}

impl Request {
    pub(super) fn encode(&self, out: &mut Writer) {
        match self {
            Self::Put { path, bytes } => out.u8(1).bytes(path.as_bytes()).u64(*bytes),
            Self::Open { path } => out.u8(2).bytes(path.as_bytes()),
            Self::Read { path, offset, bytes } => {
                out.u8(3).bytes(path.as_bytes()).u64(*offset).u32(*bytes)
            }
            Self::List { path, directories } => {
                let path = path.as_ref().map_or(&b""[..], RelativePath::as_bytes);
                out.u8(4).bytes(path).u8(u8::from(*directories))
            }
            Self::Remove { path } => out.u8(5).bytes(path.as_bytes()),
            Self::Expect { path, bytes, first_page, checksums } => {
                out.u8(6).bytes(path.as_bytes()).u64(*bytes).u64(*first_page).checksums(checksums)
            }
            Self::Stand => out.u8(7),
        };
    }

    pub(super) fn decode(head: &mut Reader<'_>) -> Result<Self> {
        Ok(match head.u8()? {
            1 => Self::Put { path: head.path()?, bytes: head.u64()? },
            2 => Self::Open { path: head.path()? },
            3 => Self::Read { path: head.path()?, offset: head.u64()?, bytes: head.u32()? },
            4 => {
                let path = head.bytes()?;
                let path = (!path.is_empty()).then(|| RelativePath::new(path)).transpose()?;
                Self::List { path, directories: head.bool()? }
            }
            5 => Self::Remove { path: head.path()? },
            6 => Self::Expect {
                path: head.path()?,
                bytes: head.u64()?,
                first_page: head.u64()?,
                checksums: head.checksums()?,
            },
            7 => Self::Stand,
            _ => return Err(Error::protocol("an unknown request of a session")),
        })
    }
}

impl Answer {
    pub(super) fn encode(&self, out: &mut Writer) {
        match self {
            Self::Put { is_new } => out.u8(1).u8(u8::from(*is_new)),
            Self::Opened { bytes } => out.u8(2).u64(*bytes),
            Self::Names { names, is_last } => {
                out.u8(3).u8(u8::from(*is_last));
                names.iter().for_each(|name| {
                    out.bytes(name);
                });
                out
            }
            Self::Done => out.u8(4),
            Self::Absent => out.u8(5),
            Self::Stand { put, verified, damaged } => {
                out.u8(6).u64(*put).u64(*verified);
                damaged.iter().for_each(|path| {
                    out.bytes(path.as_bytes());
                });
                out
            }
            Self::Failed { is_denied, why } => out.u8(7).u8(u8::from(*is_denied)).text(why),
        };
    }

    pub(super) fn decode(head: &mut Reader<'_>) -> Result<Self> {
        Ok(match head.u8()? {
            1 => Self::Put { is_new: head.bool()? },
            2 => Self::Opened { bytes: head.u64()? },
            3 => {
                let (is_last, mut names) = (head.bool()?, Vec::new());
                while !head.0.is_empty() {
                    names.push(head.bytes()?.to_vec());
                }
                Self::Names { names, is_last }
            }
            4 => Self::Done,
            5 => Self::Absent,
            6 => {
                let (put, verified, mut damaged) = (head.u64()?, head.u64()?, Vec::new());
                while !head.0.is_empty() {
                    damaged.push(head.path()?);
                }
                Self::Stand { put, verified, damaged }
            }
            7 => Self::Failed { is_denied: head.bool()?, why: head.text()? },
            _ => return Err(Error::protocol("an unknown answer of a session")),
        })
    }
}

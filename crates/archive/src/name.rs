//! Names of objects: what is in an object is in its name.
//!
//! ```text
//!   DATABASE/writer/0000000003                                        the claim of writer 3
//!   DATABASE/log/00000000000000000101-00000000000000000340.0000000003      blocks 101 to 340, by writer 3
//!   DATABASE/base/00000000000000000100.0000000003.0000000001.0000000000    of what was valid at block 100: fill 1 of writer 3, object 0
//!   DATABASE/whole/00000000000000000100.0000000003.0000000001.0000000007   that fill is complete, and has 7 objects
//!   DATABASE/begin/00000000000000000101.0000000003                    behind block 100 nothing of an earlier writer counts
//!   DATABASE/thin/FIRST-LAST.FROM-TO.0000000002       what the state after block TO needs of the blocks FIRST to LAST, behind that after FROM
//!   DATABASE/tidier/0000000002                                        the claim of what has thinned out for the second time
//!   DATABASE/named/00000000000000000340.0000000003.0000000017         block 340 has the name of backup 17, which is in the object
//!   DATABASE/config/00000000000000000340.0000000003.0000000002        how the server was configured from block 340 on, the second that writer 3 has put
//!   DATABASE/damaged/log.00000000000000000101-00000000000000000340.0000000003      that object is damaged (`piece`)
//! ```
//!
//! A name is parsed by this grammar or is none, and written back it is the same. So a path is only ever made of digits, dashes and
//! dots that were parsed before.

use std::fmt;

use base::Lsn;
use redo::Id;

use crate::piece::Piece;

/// The largest number of a writer.
pub(crate) const WRITER_MAX: u64 = 9_999_999_999;

/// The folders of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Folder {
    /// Claims.
    Writer,
    /// Blocks.
    Log,
    /// What was valid at a mark.
    Base,
    /// Which of that is complete.
    Whole,
    /// Where writers have begun.
    Begin,
    /// What is needed of blocks that were thinned out.
    Thin,
    /// Claims of what thins out.
    Tidier,
    /// Names of backups.
    Named,
    /// What is known to be damaged.
    Damaged,
    /// How the server was configured.
    Config,
}

impl Folder {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Writer,
        Self::Log,
        Self::Base,
        Self::Whole,
        Self::Begin,
        Self::Thin,
        Self::Tidier,
        Self::Named,
        Self::Damaged,
        Self::Config,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Log => "log",
            Self::Base => "base",
            Self::Whole => "whole",
            Self::Begin => "begin",
            Self::Thin => "thin",
            Self::Tidier => "tidier",
            Self::Named => "named",
            Self::Damaged => "damaged",
            Self::Config => "config",
        }
    }
}

/// A copy of all that was valid at a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fill {
    /// The mark's block.
    pub lsn: Lsn,
    /// The writer that has made it.
    pub writer: u64,
    /// Which of that writer's it is; from a bound on, which tidier has made it, next to that writer.
    pub number: u32,
}

/// From here on copies are numbered by the tidier that has made them: a writer makes not nearly so many.
const OF_TIDIERS: u32 = 1 << 31;

impl Fill {
    /// A copy of a block by a tidier, which counts as that writer's; `None` if the tidier's number is too large.
    pub(crate) fn of_tidier(lsn: Lsn, writer: u64, tidier: u64) -> Option<Self> {
        let number = u32::try_from(tidier).ok()?.checked_add(OF_TIDIERS)?;
        Some(Self { lsn, writer, number })
    }

    /// The tidier that has made it; `None` if the writer has.
    pub(crate) fn tidier(&self) -> Option<u64> {
        self.number.checked_sub(OF_TIDIERS).map(u64::from)
    }
}

/// See the file's top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// A claim.
    Writer {
        /// The number that is claimed.
        writer: u64,
    },
    /// Blocks, each whole, without a gap.
    Log {
        /// The first.
        first: Lsn,
        /// The last.
        last: Lsn,
        /// The writer.
        writer: u64,
    },
    /// Some of what was valid at a mark.
    Base {
        /// Of which copy it is.
        fill: Fill,
        /// Which object of it, from 0.
        index: u32,
    },
    /// The copy is complete.
    Whole {
        /// The copy.
        fill: Fill,
        /// How many objects it has.
        objects: u32,
    },
    /// Where a writer has begun: behind everything that it has found.
    Begin {
        /// Its first block.
        lsn: Lsn,
        /// The writer.
        writer: u64,
    },
    /// What a later state needs of some blocks.
    Thin {
        /// The first.
        first: Lsn,
        /// The last.
        last: Lsn,
        /// The block whose state it goes on from.
        from: Lsn,
        /// The block whose state it leads to: no state between is.
        to: Lsn,
        /// The number of what has made it.
        tidier: u64,
    },
    /// A claim of what thins out.
    Tidier {
        /// The number that is claimed.
        number: u64,
    },
    /// A block has the name of a backup.
    Named {
        /// The block.
        lsn: Lsn,
        /// The writer that has put it.
        writer: u64,
        /// The number of the backup.
        id: u32,
    },
    /// A mark: something is damaged.
    Damaged {
        /// What.
        piece: Piece,
    },
    /// How the server was configured.
    Config {
        /// The last block that was durable then.
        lsn: Lsn,
        /// The writer that has put it.
        writer: u64,
        /// Which of that writer's it is, from 1.
        number: u32,
    },
}

impl Name {
    /// The folder that the object is in.
    #[must_use]
    pub const fn folder(&self) -> Folder {
        match self {
            Self::Writer { .. } => Folder::Writer,
            Self::Log { .. } => Folder::Log,
            Self::Base { .. } => Folder::Base,
            Self::Whole { .. } => Folder::Whole,
            Self::Begin { .. } => Folder::Begin,
            Self::Thin { .. } => Folder::Thin,
            Self::Tidier { .. } => Folder::Tidier,
            Self::Named { .. } => Folder::Named,
            Self::Damaged { .. } => Folder::Damaged,
            Self::Config { .. } => Folder::Config,
        }
    }

    /// The writer of the object; 0 of one that no writer has put.
    #[must_use]
    pub const fn writer(&self) -> u64 {
        match self {
            Self::Writer { writer }
            | Self::Log { writer, .. }
            | Self::Begin { writer, .. }
            | Self::Named { writer, .. }
            | Self::Config { writer, .. } => *writer,
            Self::Base { fill, .. } | Self::Whole { fill, .. } => fill.writer,
            Self::Thin { .. } | Self::Tidier { .. } | Self::Damaged { .. } => 0,
        }
    }

    /// Whether tidiers put it, and no writer.
    pub(crate) fn is_of_tidiers(&self) -> bool {
        match self {
            Self::Thin { .. } | Self::Tidier { .. } => true,
            Self::Base { fill, .. } | Self::Whole { fill, .. } => fill.tidier().is_some(),
            _ => false,
        }
    }

    /// The number of what has put it: of a writer, or of what thins out.
    pub(crate) const fn number(&self) -> u64 {
        match self {
            Self::Thin { tidier, .. } => *tidier,
            Self::Tidier { number } => *number,
            Self::Damaged { piece } => piece.number(),
            _ => self.writer(),
        }
    }

    /// The last block that it tells of; `None` if it tells of none.
    pub(crate) const fn last(&self) -> Option<Lsn> {
        match self {
            Self::Log { last, .. } => Some(*last),
            Self::Thin { to, .. } => Some(*to),
            Self::Base { fill, .. } | Self::Whole { fill, .. } => Some(fill.lsn),
            _ => None,
        }
    }

    /// Its name in its folder.
    #[must_use]
    pub fn file_name(&self) -> String {
        match self {
            Self::Writer { writer: number } | Self::Tidier { number } => format!("{number:010}"),
            Self::Begin { lsn, writer } => format!("{:020}.{writer:010}", lsn.0),
            Self::Thin { first, last, from, to, tidier } => {
                format!("{:020}-{:020}.{:020}-{:020}.{tidier:010}", first.0, last.0, from.0, to.0)
            }
            Self::Named { lsn, writer, id: number } | Self::Config { lsn, writer, number } => {
                format!("{:020}.{writer:010}.{number:010}", lsn.0)
            }
            Self::Log { first, last, writer } => {
                format!("{:020}-{:020}.{writer:010}", first.0, last.0)
            }
            Self::Damaged { piece } => piece.file_name(),
            Self::Base { fill, index: number } | Self::Whole { fill, objects: number } => {
                format!("{:020}.{:010}.{:010}.{number:010}", fill.lsn.0, fill.writer, fill.number)
            }
        }
    }

    /// The object that is at the end of a path.
    pub(crate) fn at_end_of(path: &str) -> Option<Self> {
        let (rest, file) = path.rsplit_once('/')?;
        let folder = rest.rsplit_once('/').map_or(rest, |(_, folder)| folder);
        let folder = Folder::ALL.into_iter().find(|it| it.name() == folder)?;
        Self::parse(folder, file)
    }

    /// The object with this name in the folder; `None` if no object has such a name.
    #[must_use]
    pub fn parse(folder: Folder, text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.splitn(6, ['.', '-']).collect();
        let name = match (folder, &parts[..]) {
            (Folder::Writer, [writer]) => Self::Writer { writer: number(writer)? },
            (Folder::Log, [first, last, writer]) => Self::Log {
                first: lsn(first).filter(|lsn| *lsn > Lsn::ZERO)?,
                last: lsn(last)?,
                writer: number(writer)?,
            },
            (Folder::Base, [at, writer, fill, index]) => {
                Self::Base { fill: fill_of(at, writer, fill)?, index: small(index)? }
            }
            (Folder::Whole, [at, writer, fill, objects]) => {
                Self::Whole { fill: fill_of(at, writer, fill)?, objects: small(objects)? }
            }
            (Folder::Begin, [at, writer]) => Self::Begin { lsn: lsn(at)?, writer: number(writer)? },
            (Folder::Thin, [first, last, from, to, tidier]) => Self::Thin {
                first: lsn(first)?,
                last: lsn(last)?,
                from: lsn(from)?,
                to: lsn(to)?,
                tidier: number(tidier)?,
            },
            (Folder::Tidier, [claim]) => Self::Tidier { number: number(claim)? },
            (Folder::Named, [at, writer, id]) => {
                Self::Named { lsn: lsn(at)?, writer: number(writer)?, id: small(id)? }
            }
            (Folder::Config, [at, writer, count]) => {
                Self::Config { lsn: lsn(at)?, writer: number(writer)?, number: small(count)? }
            }
            (Folder::Damaged, ["log", first, last, writer]) => Self::Damaged {
                piece: Piece::Log { first: lsn(first)?, last: lsn(last)?, writer: number(writer)? },
            },
            (Folder::Damaged, ["copy", at, writer, fill]) => {
                Self::Damaged { piece: Piece::Copy { fill: fill_of(at, writer, fill)? } }
            }
            (Folder::Damaged, ["leap", from, to, tidier]) => Self::Damaged {
                piece: Piece::Leap { from: lsn(from)?, to: lsn(to)?, tidier: number(tidier)? },
            },
            _ => return None,
        };
        let is_in_order = match name {
            Self::Damaged { piece: Piece::Log { first, last, .. } } => {
                Lsn::ZERO < first && first <= last
            }
            Self::Damaged { piece: Piece::Leap { from, to, .. } } => from < to,
            Self::Log { first, last, .. } => first <= last,
            Self::Thin { first, last, from, to, .. } => from < first && first <= last && last <= to,
            _ => true,
        };
        let is_written = (1..=WRITER_MAX).contains(&name.number());
        (is_in_order && is_written && name.file_name() == text).then_some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.folder().name(), self.file_name())
    }
}

fn fill_of(at: &str, writer: &str, fill: &str) -> Option<Fill> {
    Some(Fill { lsn: lsn(at)?, writer: number(writer)?, number: small(fill)? })
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn small(text: &str) -> Option<u32> {
    number(text)?.try_into().ok()
}

fn lsn(text: &str) -> Option<Lsn> {
    number(text).map(Lsn).filter(|lsn| *lsn <= Lsn::MAX)
}

/// The database of a folder with this name; `None` if no database has such a folder.
#[must_use]
pub fn parse_database(text: &str) -> Option<Id> {
    let mut id = [0; 16];
    let digits = text.as_bytes();
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    let id = Id(id);
    (id.to_string() == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fill() -> Fill {
        Fill { lsn: Lsn(100), writer: 3, number: 1 }
    }

    #[test]
    fn names_say_what_is_in_an_object() {
        let names = [
            (Name::Writer { writer: 3 }, "writer/0000000003"),
            (
                Name::Log { first: Lsn(101), last: Lsn(340), writer: 3 },
                "log/00000000000000000101-00000000000000000340.0000000003",
            ),
            (
                Name::Base { fill: fill(), index: 0 },
                "base/00000000000000000100.0000000003.0000000001.0000000000",
            ),
            (
                Name::Whole { fill: fill(), objects: 7 },
                "whole/00000000000000000100.0000000003.0000000001.0000000007",
            ),
            (Name::Begin { lsn: Lsn(101), writer: 3 }, "begin/00000000000000000101.0000000003"),
            (
                Name::Thin {
                    first: Lsn(101),
                    last: Lsn(200),
                    from: Lsn(100),
                    to: Lsn(340),
                    tidier: 2,
                },
                "thin/00000000000000000101-00000000000000000200.00000000000000000100-00000000000000000340.0000000002",
            ),
            (Name::Tidier { number: 2 }, "tidier/0000000002"),
            (
                Name::Named { lsn: Lsn(340), writer: 3, id: 17 },
                "named/00000000000000000340.0000000003.0000000017",
            ),
            (
                Name::Config { lsn: Lsn(340), writer: 3, number: 2 },
                "config/00000000000000000340.0000000003.0000000002",
            ),
            (
                Name::Damaged { piece: Piece::Log { first: Lsn(101), last: Lsn(340), writer: 3 } },
                "damaged/log.00000000000000000101-00000000000000000340.0000000003",
            ),
            (
                Name::Damaged { piece: Piece::Copy { fill: fill() } },
                "damaged/copy.00000000000000000100.0000000003.0000000001",
            ),
            (
                Name::Damaged { piece: Piece::Leap { from: Lsn(100), to: Lsn(340), tidier: 2 } },
                "damaged/leap.00000000000000000100-00000000000000000340.0000000002",
            ),
        ];
        for (name, text) in names {
            assert_eq!(name.to_string(), text);
            let file = text.split_once('/').unwrap().1;
            assert_eq!(Name::parse(name.folder(), file), Some(name));
        }
    }

    #[test]
    fn what_is_no_name_is_none() {
        for (folder, text) in [
            (Folder::Writer, "3"),
            (Folder::Writer, "0000000000"),
            (Folder::Writer, "0000000003.tmp"),
            (Folder::Writer, "../0000000003"),
            (Folder::Log, "00000000000000000000-00000000000000000340.0000000003"),
            (Folder::Log, "00000000000000000341-00000000000000000340.0000000003"),
            (Folder::Log, "00000000000000000101.00000000000000000340.0000000003"),
            (Folder::Log, "00000000000000000101-18446744073709551615.0000000003"),
            (Folder::Whole, "00000000000000000100.0000000003.0000000001"),
            (Folder::Whole, "00000000000000000100.0000000003.0000000001.9999999999"),
            (Folder::Base, "+0000000000000000100.0000000003.0000000001.0000000000"),
            (Folder::Tidier, "0000000000"),
            (Folder::Damaged, "log.00000000000000000341-00000000000000000340.0000000003"),
            (Folder::Damaged, "log.00000000000000000101.00000000000000000340.0000000003"),
            (Folder::Damaged, "leap.00000000000000000340-00000000000000000340.0000000002"),
            (Folder::Damaged, "copy.00000000000000000100.0000000000.0000000001"),
            (Folder::Damaged, "base.00000000000000000100.0000000003.0000000001"),
            (
                Folder::Thin,
                "00000000000000000100-00000000000000000200.00000000000000000100-00000000000000000340.0000000002",
            ),
            (
                Folder::Thin,
                "00000000000000000101-00000000000000000341.00000000000000000100-00000000000000000340.0000000002",
            ),
        ] {
            assert_eq!(Name::parse(folder, text), None, "{text}");
        }
        assert_eq!(parse_database("6CA9CA1F38E5367B4461E217901DCEF3"), None);
        let id = Id([0x6c; 16]);
        assert_eq!(parse_database(&id.to_string()), Some(id));
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_that_is_written_so_or_none(text in "[0-9.-]{0,60}|\\PC{0,40}") {
            for folder in Folder::ALL {
                if let Some(name) = Name::parse(folder, &text) {
                    prop_assert_eq!(name.file_name(), text.clone());
                }
            }
        }
    }
}

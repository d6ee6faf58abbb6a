//! The server's answer to a command, up to its end.
//!
//! ```text
//!   OK | ERR                                           one packet
//!   count │ a definition each │ EOF? │ rows │ EOF/OK   a resultset; and another one, if it says so
//!   0xfb file name                                     the client sends a file, then OK | ERR
//!   OK with id and counts │ definitions │ EOF? │ …     a prepared statement
//! ```

use super::login::capability;
use super::packet::{Fields, Head};
use crate::entry::Outcome;

/// The kind of answer that a command expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The login after a greeting: OK, ERR, or more questions.
    Login,
    /// One packet.
    One,
    /// OK, ERR, result sets, or the request for a file.
    Results,
    /// A statement's id, and its parameters and columns.
    Prepared,
    /// Definitions or rows up to their end.
    UntilEnd,
    /// None at all.
    Nothing,
}

/// A statement that the server prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) id: u32,
    pub(crate) parameters: u16,
}

/// The effect of a server packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More of the answer is to come.
    More,
    /// The client must send a file.
    File,
    /// The answer is complete.
    Done { outcome: Outcome, status: Option<u16>, prepared: Option<Prepared> },
}

/// Session flags at the end of an answer (the names are the protocol's own).
pub(crate) mod status {
    pub(crate) const IN_TRANSACTION: u16 = 1;
    pub(crate) const AUTOCOMMIT: u16 = 2;
    pub(crate) const MORE_RESULTS: u16 = 8;
    pub(crate) const CURSOR: u16 = 0x40;
}

/// The next part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    First,
    /// This many definitions, then possibly an EOF, then rows.
    Columns(u64),
    ColumnsEnd,
    Rows,
    /// This many definitions, then others, each part possibly ended by an EOF.
    Definitions {
        left: u64,
        then: u64,
    },
    DefinitionsEnd {
        then: u64,
    },
}

/// The position in the answer to one command.
#[derive(Debug)]
pub(crate) struct Answer {
    expected: Expected,
    place: Place,
    /// The capabilities agreed on.
    capabilities: u64,
    prepared: Option<Prepared>,
}

const OK: Step = Step::Done { outcome: Outcome::Ok, status: None, prepared: None };
const ERROR: Step = Step::Done { outcome: Outcome::Error, status: None, prepared: None };

impl Answer {
    pub(crate) fn new(expected: Expected, capabilities: u64) -> Self {
        let place = if expected == Expected::UntilEnd { Place::Rows } else { Place::First };
        Self { expected, place, capabilities, prepared: None }
    }

    pub(crate) fn expected(&self) -> Expected {
        self.expected
    }

    fn has(&self, bit: u64) -> bool {
        self.capabilities & bit != 0
    }

    /// Handles the next packet.
    ///
    /// # Errors
    /// Why the packet cannot be part of the answer.
    pub(crate) fn packet(&mut self, head: &Head) -> Result<Step, &'static str> {
        // MariaDB's progress report looks like an error, but is not one.
        if head.first() == 0xff {
            let is_progress = head.bytes.get(1..3) == Some(&[0xff, 0xff])
                && self.has(capability::MARIADB_PROGRESS);
            return Ok(if is_progress { Step::More } else { ERROR });
        }
        match (self.expected, self.place) {
            (Expected::Nothing, _) => Err("an answer to a command that has none"),
            (Expected::Login, _) => Ok(if head.first() == 0 { Self::ok(head) } else { Step::More }),
            (Expected::One, _) => Ok(match head.first() {
                0 => Self::ok(head),
                0xfe => Self::end(Self::eof_status(head)),
                _ => OK,
            }),
            (Expected::Prepared, Place::First) => self.prepared(head),
            (_, Place::First) => self.result(head),
            (_, Place::Columns(1)) => {
                let skips = self.has(capability::DEPRECATE_EOF);
                self.place = if skips { Place::Rows } else { Place::ColumnsEnd };
                Ok(Step::More)
            }
            (_, Place::Columns(left)) => {
                self.place = Place::Columns(left - 1);
                Ok(Step::More)
            }
            (_, Place::ColumnsEnd) => {
                let status = Self::eof_status(head).ok_or("definitions without their end")?;
                self.place = Place::Rows;
                // The rows of a cursor arrive when they are fetched.
                let is_cursor = status & status::CURSOR != 0;
                Ok(if is_cursor { Self::end(Some(status)) } else { Step::More })
            }
            (_, Place::Rows) => Ok(self.row(head)),
            (_, Place::Definitions { left: 1, then }) => Ok(self.definitions_end(then)),
            (_, Place::Definitions { left, then }) => {
                self.place = Place::Definitions { left: left - 1, then };
                Ok(Step::More)
            }
            (_, Place::DefinitionsEnd { then }) => {
                Self::eof_status(head).ok_or("definitions without their end")?;
                Ok(self.definitions(then, 0))
            }
        }
    }

    /// Handles the first packet of a result.
    fn result(&mut self, head: &Head) -> Result<Step, &'static str> {
        match head.first() {
            0 => {
                let step = Self::ok(head);
                Ok(self.unless_more(step))
            }
            0xfb => Ok(Step::File),
            _ => {
                let mut fields = Fields(&head.bytes);
                let columns = fields.length_encoded().ok_or("a result without columns")?;
                let optional = capability::OPTIONAL_METADATA | capability::MARIADB_CACHE_METADATA;
                let is_left_out = self.capabilities & optional != 0
                    && head.len > (head.bytes.len() - fields.0.len()) as u64
                    && fields.u8() == Some(0);
                self.place = match (is_left_out, self.has(capability::DEPRECATE_EOF)) {
                    (false, _) => Place::Columns(columns),
                    (true, true) => Place::Rows,
                    (true, false) => Place::ColumnsEnd,
                };
                Ok(Step::More)
            }
        }
    }

    /// Handles a row, or the end of the rows.
    fn row(&mut self, head: &Head) -> Step {
        let is_end = head.first() == 0xfe
            && if self.has(capability::DEPRECATE_EOF) {
                head.len < 0xff_ffff
            } else {
                head.len < 9
            };
        if !is_end {
            return Step::More;
        }
        let status = if head.len == 5 || !self.has(capability::DEPRECATE_EOF) {
            Self::eof_status(head)
        } else {
            Self::ok_status(head)
        };
        let step = Self::end(status);
        self.unless_more(step)
    }

    fn prepared(&mut self, head: &Head) -> Result<Step, &'static str> {
        let mut fields = Fields(&head.bytes);
        let read = |fields: &mut Fields<'_>| {
            fields.u8()?;
            Some((fields.u32()?, fields.u16()?, fields.u16()?))
        };
        let (id, columns, parameters) =
            read(&mut fields).ok_or("a prepared statement without an id")?;
        self.prepared = Some(Prepared { id, parameters });
        // A filler and the warnings, then a flag for the definitions.
        let is_left_out = self.has(capability::OPTIONAL_METADATA)
            && fields.bytes(3).is_some()
            && fields.u8() == Some(0);
        if is_left_out {
            return Ok(self.definitions(0, 0));
        }
        Ok(self.definitions(u64::from(parameters), u64::from(columns)))
    }

    fn definitions(&mut self, left: u64, then: u64) -> Step {
        if left > 0 {
            self.place = Place::Definitions { left, then };
        } else if then > 0 {
            self.place = Place::Definitions { left: then, then: 0 };
        } else {
            return Step::Done { outcome: Outcome::Ok, status: None, prepared: self.prepared };
        }
        Step::More
    }

    fn definitions_end(&mut self, then: u64) -> Step {
        if self.has(capability::DEPRECATE_EOF) {
            return self.definitions(then, 0);
        }
        self.place = Place::DefinitionsEnd { then };
        Step::More
    }

    /// Begins the next result if the last one announces it.
    fn unless_more(&mut self, step: Step) -> Step {
        match step {
            Step::Done { status: Some(status), .. } if status & status::MORE_RESULTS != 0 => {
                self.place = Place::First;
                Step::More
            }
            step => step,
        }
    }

    fn ok(head: &Head) -> Step {
        Self::end(Self::ok_status(head))
    }

    fn end(status: Option<u16>) -> Step {
        Step::Done { outcome: Outcome::Ok, status, prepared: None }
    }

    fn ok_status(head: &Head) -> Option<u16> {
        let mut fields = Fields(head.bytes.get(1..)?);
        fields.length_encoded()?;
        fields.length_encoded()?;
        fields.u16()
    }

    fn eof_status(head: &Head) -> Option<u16> {
        (head.first() == 0xfe && head.len < 9).then_some(())?;
        let mut fields = Fields(head.bytes.get(3..)?);
        fields.u16()
    }
}

//! What functions want of their arguments, with the texts that Lua's own have when it is not there.

use std::borrow::Cow;

use crate::entry::Raise;
use crate::frame::{Frame, Kind};

impl<'l> Frame<'l> {
    /// The kind of an argument, whatever was pushed behind them.
    pub(crate) fn argument_kind(&self, number: i32) -> Kind {
        if number > self.arguments() { Kind::None } else { self.kind(number) }
    }

    /// The bytes of an argument that must be text.
    pub(crate) fn check_text(&self, number: i32) -> Result<&'l [u8], Raise> {
        match self.argument_kind(number) {
            Kind::None => None,
            _ => self.argument_text(number),
        }
        .ok_or_else(|| self.expected("string", number))
    }

    /// The number of an argument that must be one.
    pub(crate) fn check_number(&self, number: i32) -> Result<f64, Raise> {
        match self.argument_kind(number) {
            Kind::None => None,
            _ => self.number(number),
        }
        .ok_or_else(|| self.expected("number", number))
    }

    /// An argument that must be a number, without its fraction.
    pub(crate) fn check_integer(&self, number: i32) -> Result<i64, Raise> {
        #[expect(clippy::cast_possible_truncation, reason = "far numbers become the farthest")]
        self.check_number(number).map(|value| value as i64)
    }

    /// An argument that must be a number, of which the lower 32 bits count, as C's `int`.
    #[expect(clippy::cast_possible_truncation, reason = "that is what it does")]
    pub(crate) fn check_int(&self, number: i32) -> Result<i32, Raise> {
        self.check_integer(number).map(|value| value as i32)
    }

    /// The bytes of the argument, if there is one and it is text.
    pub(crate) fn argument_if_only_text(&self) -> Option<&'l [u8]> {
        (self.arguments() == 1 && self.kind(1) == Kind::String)
            .then(|| self.argument_text(1))
            .flatten()
    }

    /// As [`Frame::check_integer`], if it is there.
    pub(crate) fn optional_integer(&self, number: i32, default: i64) -> Result<i64, Raise> {
        match self.argument_kind(number) {
            Kind::None | Kind::Nil => Ok(default),
            _ => self.check_integer(number),
        }
    }

    /// Checks that an argument is a table.
    pub(crate) fn check_table(&self, number: i32) -> Result<(), Raise> {
        match self.kind(number) {
            Kind::Table => Ok(()),
            _ => Err(self.expected("table", number)),
        }
    }

    fn expected(&self, what: &str, number: i32) -> Raise {
        let kind = match self.argument_kind(number) {
            Kind::None => "no value",
            _ => self.kind_name(number),
        };
        Raise::argument(number, format!("{what} expected, got {kind}"))
    }

    /// Pushes an error as commands have them: a table whose `err` is the line. A line that does not begin
    /// with `-` and a code gets the code `ERR`.
    pub(crate) fn push_error(&mut self, line: &[u8]) {
        let text: Cow<'_, [u8]> = match line.strip_prefix(b"-") {
            Some(coded) if coded.contains(&b' ') => Cow::Borrowed(coded),
            Some(uncoded) => Cow::Owned([b"ERR ", uncoded].concat()),
            None => Cow::Owned([b"ERR ", line].concat()),
        };
        let start = text.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(0);
        let end =
            text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |at| at + 1);
        self.push_table(0, 1);
        self.push_bytes(&text[start..end.max(start)]);
        self.set_field(-2, "err");
    }
}

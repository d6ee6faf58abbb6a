//! `cjson`: values as JSON, with the settings and texts of Mark Pulford's library.
//!
//! A table of functions shares one set of settings, which `cjson.new()` creates anew. Those of the
//! global `cjson` stay from script to script, as in Redis.

mod decode;
mod encode;

use crate::entry::{Entry, Raise, Results};
use crate::frame::{Frame, Kind};

const FUNCTIONS: [(&str, Entry); 11] = [
    ("encode", Entry::of(encode::encode)),
    ("decode", Entry::of(decode::decode)),
    ("encode_sparse_array", Entry::of(encode_sparse_array)),
    ("encode_max_depth", Entry::of(|frame| integer(frame, |s| &mut s.encode_max_depth, i32::MAX))),
    ("decode_max_depth", Entry::of(|frame| integer(frame, |s| &mut s.decode_max_depth, i32::MAX))),
    ("encode_number_precision", Entry::of(|frame| integer(frame, |s| &mut s.number_precision, 14))),
    ("encode_keep_buffer", Entry::of(|frame| switch(frame, |s| &mut s.keep_buffer))),
    ("encode_invalid_numbers", Entry::of(encode_invalid_numbers)),
    ("decode_invalid_numbers", Entry::of(|frame| switch(frame, |s| &mut s.decode_invalid))),
    ("decode_array_with_array_mt", Entry::of(|frame| switch(frame, |s| &mut s.mark_arrays))),
    ("new", Entry::of(new)),
];

/// What `cjson` can be told. Kept by Lua, as words.
#[derive(Clone, Copy, Debug)]
struct Settings {
    /// Whether a sparse array becomes an object; otherwise it is an error.
    sparse_convert: i32,
    /// From which part of its elements on an array is not sparse; 0: any is not.
    sparse_ratio: i32,
    /// Up to which index an array is not sparse.
    sparse_safe: i32,
    encode_max_depth: i32,
    decode_max_depth: i32,
    /// The significant digits of numbers.
    number_precision: i32,
    /// Is accepted and changes nothing.
    keep_buffer: i32,
    /// NaN and infinities are 0: errors, 1: written, 2: null.
    encode_invalid: i32,
    /// Whether NaN, infinities and hexadecimal numbers are read.
    decode_invalid: i32,
    /// Whether arrays that were read are written as arrays when they are empty.
    mark_arrays: i32,
}

const WORDS: usize = 10;

/// How deep values are read and written whatever the settings say: the thread's stack has an end.
const DEPTH_MAX: i32 = 1000;

impl Settings {
    const DEFAULT: Self = Self {
        sparse_convert: 0,
        sparse_ratio: 2,
        sparse_safe: 10,
        encode_max_depth: 1000,
        decode_max_depth: 1000,
        number_precision: 14,
        keep_buffer: 1,
        encode_invalid: 0,
        decode_invalid: 1,
        mark_arrays: 0,
    };

    fn of(frame: &Frame<'_>) -> Self {
        let [
            sparse_convert,
            sparse_ratio,
            sparse_safe,
            encode_max_depth,
            decode_max_depth,
            number_precision,
            keep_buffer,
            encode_invalid,
            decode_invalid,
            mark_arrays,
        ] = frame.words::<WORDS>();
        Self {
            sparse_convert,
            sparse_ratio,
            sparse_safe,
            encode_max_depth,
            decode_max_depth,
            number_precision,
            keep_buffer,
            encode_invalid,
            decode_invalid,
            mark_arrays,
        }
    }

    fn words(self) -> [i32; WORDS] {
        [
            self.sparse_convert,
            self.sparse_ratio,
            self.sparse_safe,
            self.encode_max_depth,
            self.decode_max_depth,
            self.number_precision,
            self.keep_buffer,
            self.encode_invalid,
            self.decode_invalid,
            self.mark_arrays,
        ]
    }
}

/// The upvalue with the metatable of arrays that were read. The first one has the settings.
const ARRAY_METATABLE: i32 = 2;

/// Pushes the table `cjson`.
pub(crate) fn push_library(frame: &mut Frame<'_>) {
    frame.push_table(0, 16);
    let table = frame.top();
    frame.push_words(Settings::DEFAULT.words());
    frame.push_table(0, 1);
    frame.push_boolean(false);
    frame.set_field(-2, "__metatable");
    for (name, entry) in FUNCTIONS {
        frame.push_copy(-2);
        frame.push_copy(-2);
        frame.push_function(entry, 2);
        frame.set_field(table, name);
    }
    frame.pop(2);
    frame.push_null();
    frame.set_field(-2, "null");
    for (name, text) in [("_NAME", "cjson"), ("_VERSION", "2.1.0")] {
        frame.push_bytes(text.as_bytes());
        frame.set_field(-2, name);
    }
}

fn new(frame: &mut Frame<'_>) -> Results {
    push_library(frame);
    Ok(1)
}

/// Checks the number of arguments of a setting. Fewer are as if they were nil.
fn check_count(frame: &Frame<'_>, max: i32) -> Result<(), Raise> {
    if frame.arguments() <= max {
        return Ok(());
    }
    Err(Raise::argument(max + 1, "found too many arguments"))
}

fn is_given(frame: &Frame<'_>, number: i32) -> bool {
    !matches!(frame.argument_kind(number), Kind::None | Kind::Nil)
}

fn integer(frame: &mut Frame<'_>, of: fn(&mut Settings) -> &mut i32, max: i32) -> Results {
    check_count(frame, 1)?;
    integer_at(frame, 1, of, 1, max)?;
    Ok(1)
}

fn integer_at(
    frame: &mut Frame<'_>,
    number: i32,
    of: fn(&mut Settings) -> &mut i32,
    min: i32,
    max: i32,
) -> Result<(), Raise> {
    let mut settings = Settings::of(frame);
    if is_given(frame, number) {
        let value = frame.check_int(number)?;
        if !(min..=max).contains(&value) {
            return Err(Raise::argument(1, format!("expected integer between {min} and {max}")));
        }
        *of(&mut settings) = value;
        frame.set_words(settings.words());
    }
    frame.push_integer(i64::from(*of(&mut settings)));
    Ok(())
}

fn switch(frame: &mut Frame<'_>, of: fn(&mut Settings) -> &mut i32) -> Results {
    check_count(frame, 1)?;
    switch_at(frame, of)?;
    Ok(1)
}

/// Sets a setting to argument 1: a boolean, `off` or `on`.
fn switch_at(frame: &mut Frame<'_>, of: fn(&mut Settings) -> &mut i32) -> Result<(), Raise> {
    let mut settings = Settings::of(frame);
    if is_given(frame, 1) {
        *of(&mut settings) = match frame.kind(1) {
            Kind::Boolean => i32::from(frame.is_true(1)),
            _ => choice(frame, &["off", "on"])?,
        };
        frame.set_words(settings.words());
    }
    frame.push_boolean(*of(&mut settings) != 0);
    Ok(())
}

/// Which of the words argument 1 is.
fn choice(frame: &Frame<'_>, words: &[&str]) -> Result<i32, Raise> {
    let word = frame.check_text(1)?;
    let at = (0..).zip(words).find(|(_, known)| known.as_bytes() == word);
    at.map(|(at, _)| at).ok_or_else(|| {
        Raise::argument(1, format!("invalid option '{}'", String::from_utf8_lossy(word)))
    })
}

fn encode_sparse_array(frame: &mut Frame<'_>) -> Results {
    check_count(frame, 3)?;
    switch_at(frame, |settings| &mut settings.sparse_convert)?;
    integer_at(frame, 2, |settings| &mut settings.sparse_ratio, 0, i32::MAX)?;
    integer_at(frame, 3, |settings| &mut settings.sparse_safe, 0, i32::MAX)?;
    Ok(3)
}

fn encode_invalid_numbers(frame: &mut Frame<'_>) -> Results {
    check_count(frame, 1)?;
    let mut settings = Settings::of(frame);
    if is_given(frame, 1) {
        settings.encode_invalid = match frame.kind(1) {
            Kind::Boolean => i32::from(frame.is_true(1)),
            _ => choice(frame, &["off", "on", "null"])?,
        };
        frame.set_words(settings.words());
    }
    match settings.encode_invalid {
        2 => frame.push_bytes(b"null"),
        value => frame.push_boolean(value != 0),
    }
    Ok(1)
}

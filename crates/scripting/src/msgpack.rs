//! `cmsgpack`: values as MessagePack.
//!
//! A table is an array if its keys are 1 to their number, and a map otherwise. Numbers that are whole and fit
//! are integers. What MessagePack lacks, and tables deeper than [`PACK_DEPTH_MAX`], become nil.

use crate::entry::{Entry, Raise, Results};
use crate::frame::{Frame, Kind};

pub(crate) const FUNCTIONS: [(&str, Entry); 4] = [
    ("pack", Entry::of(pack)),
    ("unpack", Entry::of(|frame| unpack(frame, None, 0))),
    (
        "unpack_one",
        Entry::of(|frame| {
            let offset = frame.optional_integer(2, 0)?;
            unpack(frame, Some(1), offset)
        }),
    ),
    (
        "unpack_limit",
        Entry::of(|frame| {
            let limit = frame.check_integer(2)?;
            let offset = frame.optional_integer(3, 0)?;
            unpack(frame, Some(limit), offset)
        }),
    ),
];

/// How deep tables are packed: a table that contains itself has an end.
const PACK_DEPTH_MAX: u32 = 16;

const RETURN_TOO_MANY: &str =
    "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";

/// Adds the constants that the library has in Redis to the table on top.
pub(crate) fn add_names(frame: &mut Frame<'_>) {
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd."),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        frame.push_bytes(text.as_bytes());
        frame.set_field(-2, name);
    }
}

fn pack(frame: &mut Frame<'_>) -> Results {
    if frame.arguments() == 0 {
        return Err(Raise::argument(0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for number in 1..=frame.arguments() {
        frame.push_copy(number);
        pack_value(frame, &mut out, 0)?;
        frame.pop(1);
    }
    frame.check_room(out.len())?;
    frame.push_bytes(&out);
    Ok(1)
}

/// Appends the value on top.
fn pack_value(frame: &mut Frame<'_>, out: &mut Vec<u8>, depth: u32) -> Result<(), Raise> {
    frame.pulse()?;
    match frame.kind(-1) {
        Kind::String => {
            let text = frame.bytes(-1).unwrap_or_default();
            frame.check_room(out.len() + text.len())?;
            put_length(out, text.len(), &TEXT);
            out.extend_from_slice(text);
        }
        Kind::Boolean => out.push(if frame.is_true(-1) { 0xc3 } else { 0xc2 }),
        Kind::Number => pack_number(out, frame.number(-1).unwrap_or_default()),
        Kind::Table if depth < PACK_DEPTH_MAX => pack_table(frame, out, depth)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

/// Appends the shortest head for a length: within a byte, or behind a byte of 8, 16 or 32 bits.
fn put_length(out: &mut Vec<u8>, len: usize, heads: &Heads) {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let bytes = len.to_be_bytes();
    match heads.of_8_bits {
        _ if len <= u32::from(heads.fixed_max) => out.push(heads.fixed | bytes[3]),
        Some(head) if len <= 0xff => out.extend_from_slice(&[head, bytes[3]]),
        _ if len <= 0xffff => out.extend_from_slice(&[heads.of_16_bits, bytes[2], bytes[3]]),
        _ => {
            out.push(heads.of_16_bits + 1);
            out.extend_from_slice(&bytes);
        }
    }
}

/// How lengths of one kind of value are written. That of 32 bits follows that of 16.
struct Heads {
    fixed: u8,
    fixed_max: u8,
    of_8_bits: Option<u8>,
    of_16_bits: u8,
}

const TEXT: Heads = Heads { fixed: 0xa0, fixed_max: 31, of_8_bits: Some(0xd9), of_16_bits: 0xda };
const ARRAY: Heads = Heads { fixed: 0x90, fixed_max: 15, of_8_bits: None, of_16_bits: 0xdc };
const MAP: Heads = Heads { fixed: 0x80, fixed_max: 15, of_8_bits: None, of_16_bits: 0xde };

fn pack_number(out: &mut Vec<u8>, value: f64) {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() != 0.0 || !(-END..END).contains(&value) {
        // Single precision if nothing is lost.
        #[expect(clippy::cast_possible_truncation, reason = "it is compared")]
        let single = value as f32;
        if f64::from(single) == value {
            out.push(0xca);
            out.extend_from_slice(&single.to_be_bytes());
        } else {
            out.push(0xcb);
            out.extend_from_slice(&value.to_be_bytes());
        }
        return;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
    let value = value as i64;
    let bytes = value.to_be_bytes();
    let (head, width) = match value {
        -32..=127 => (None, 1),
        128..=0xff => (Some(0xcc), 1),
        0x100..=0xffff => (Some(0xcd), 2),
        0x1_0000..=0xffff_ffff => (Some(0xce), 4),
        0x1_0000_0000.. => (Some(0xcf), 8),
        -128..=-33 => (Some(0xd0), 1),
        -0x8000..=-129 => (Some(0xd1), 2),
        -0x8000_0000..=-0x8001 => (Some(0xd2), 4),
        _ => (Some(0xd3), 8),
    };
    out.extend(head);
    out.extend_from_slice(&bytes[8 - width..]);
}

/// Appends the table on top.
fn pack_table(frame: &mut Frame<'_>, out: &mut Vec<u8>, depth: u32) -> Result<(), Raise> {
    if !frame.reserve(4) {
        return Err(Raise::text("stack overflow (in function mp_encode_lua_table_as_map)"));
    }
    let table = frame.top();
    let (count, is_array) = measure(frame, table)?;
    if is_array {
        put_length(out, count, &ARRAY);
        for number in 1..=i32::try_from(count).unwrap_or(i32::MAX) {
            frame.raw_element(table, number);
            pack_value(frame, out, depth + 1)?;
            frame.pop(1);
        }
        return Ok(());
    }
    put_length(out, count, &MAP);
    frame.push_nil();
    while frame.next(table) {
        frame.push_copy(-2);
        pack_value(frame, out, depth + 1)?;
        frame.pop(1);
        pack_value(frame, out, depth + 1)?;
        frame.pop(1);
    }
    Ok(())
}

/// The number of fields of a table, and whether they are an array.
fn measure(frame: &mut Frame<'_>, table: i32) -> Result<(usize, bool), Raise> {
    let (mut count, mut max, mut is_array) = (0_usize, 0.0_f64, true);
    frame.push_nil();
    while frame.next(table) {
        frame.pulse()?;
        frame.pop(1);
        count += 1;
        let key = if frame.kind(-1) == Kind::Number { frame.number(-1) } else { None };
        match key {
            Some(key) if key >= 1.0 && key.fract() == 0.0 && key <= f64::from(i32::MAX) => {
                max = max.max(key);
            }
            _ => is_array = false,
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "tables have fewer than 2^31 fields")]
    Ok((count, is_array && max == count as f64))
}

/// How deep values are unpacked, so that a few bytes do not use up the thread's stack.
const UNPACK_DEPTH_MAX: u32 = 1000;

/// What is left to read.
struct Input<'i> {
    rest: &'i [u8],
    depth: u32,
}

/// Why values cannot be read.
enum Bad {
    End,
    Format,
    Raise(Raise),
}

impl From<Raise> for Bad {
    fn from(raise: Raise) -> Self {
        Self::Raise(raise)
    }
}

impl From<Bad> for Raise {
    fn from(bad: Bad) -> Self {
        match bad {
            Bad::End => Self::text("Missing bytes in input."),
            Bad::Format => Self::text("Bad data format in input."),
            Bad::Raise(raise) => raise,
        }
    }
}

impl<'i> Input<'i> {
    fn take(&mut self, count: usize) -> Result<&'i [u8], Bad> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Bad::End)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        Ok(self.take(N)?.try_into().expect("that many were taken"))
    }

    /// A length of 1, 2 or 4 bytes.
    fn length(&mut self, width: usize) -> Result<usize, Bad> {
        Ok(self.take(width)?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)))
    }
}

fn unpack(frame: &mut Frame<'_>, limit: Option<i64>, offset: i64) -> Results {
    let text = frame.check_text(1)?;
    if offset < 0 || limit.is_some_and(|limit| limit < 0) {
        return Err(Raise::text(format!(
            "Invalid request to unpack with offset of {offset} and limit of {}.",
            text.len()
        )));
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| text.get(offset..)) else {
        return Err(Raise::text(format!(
            "Start offset {offset} greater than input length {}.",
            text.len()
        )));
    };
    // Both zero means all, as if neither was given.
    let limit = limit.filter(|limit| *limit != 0 || offset != 0);
    let mut input = Input { rest, depth: 0 };
    if limit.is_some() {
        frame.push_nil();
    }
    let place = frame.top();
    let mut count = 0;
    while !input.rest.is_empty() && limit.is_none_or(|limit| i64::from(count) < limit) {
        unpack_value(frame, &mut input)?;
        count += 1;
    }
    if limit.is_some() {
        let end = text.len() - input.rest.len();
        let end = if input.rest.is_empty() { -1 } else { i64::try_from(end).unwrap_or(-1) };
        if !frame.reserve(1) {
            return Err(Raise::text(RETURN_TOO_MANY));
        }
        frame.push_integer(end);
        frame.replace(place);
        count += 1;
    }
    Ok(count)
}

/// Pushes the next value.
fn unpack_value(frame: &mut Frame<'_>, input: &mut Input<'_>) -> Result<(), Bad> {
    frame.pulse()?;
    let head = input.array::<1>()?[0];
    if input.depth > UNPACK_DEPTH_MAX {
        return Err(Raise::text("stack overflow (in function mp_decode_to_lua_array)").into());
    }
    if !frame.reserve(4) {
        return Err(Raise::text(RETURN_TOO_MANY).into());
    }
    input.depth += 1;
    match head {
        0x00..=0x7f => frame.push_integer(i64::from(head)),
        0xe0..=0xff => frame.push_integer(i64::from(head.cast_signed())),
        0x80..=0x8f => unpack_map(frame, input, usize::from(head & 0x0f))?,
        0x90..=0x9f => unpack_array(frame, input, usize::from(head & 0x0f))?,
        0xa0..=0xbf => unpack_text(frame, input, usize::from(head & 0x1f))?,
        0xc0 => frame.push_nil(),
        0xc2 | 0xc3 => frame.push_boolean(head == 0xc3),
        0xca => frame.push_number(f64::from(f32::from_be_bytes(input.array()?))),
        0xcb => frame.push_number(f64::from_be_bytes(input.array()?)),
        0xcc => frame.push_integer(i64::from(u8::from_be_bytes(input.array()?))),
        0xcd => frame.push_integer(i64::from(u16::from_be_bytes(input.array()?))),
        0xce => frame.push_integer(i64::from(u32::from_be_bytes(input.array()?))),
        // As in Redis, numbers of 64 bits are signed.
        0xcf => frame.push_integer(i64::from_be_bytes(input.array()?)),
        0xd0 => frame.push_integer(i64::from(i8::from_be_bytes(input.array()?))),
        0xd1 => frame.push_integer(i64::from(i16::from_be_bytes(input.array()?))),
        0xd2 => frame.push_integer(i64::from(i32::from_be_bytes(input.array()?))),
        0xd3 => frame.push_integer(i64::from_be_bytes(input.array()?)),
        0xd9..=0xdb => {
            let len = input.length(1 << (head - 0xd9))?;
            unpack_text(frame, input, len)?;
        }
        0xdc | 0xdd => {
            let len = input.length(2 << (head - 0xdc))?;
            unpack_array(frame, input, len)?;
        }
        0xde | 0xdf => {
            let len = input.length(2 << (head - 0xde))?;
            unpack_map(frame, input, len)?;
        }
        _ => return Err(Bad::Format),
    }
    input.depth -= 1;
    Ok(())
}

fn unpack_text(frame: &mut Frame<'_>, input: &mut Input<'_>, len: usize) -> Result<(), Bad> {
    let text = input.take(len)?;
    frame.check_room(text.len())?;
    frame.push_bytes(text);
    Ok(())
}

fn unpack_array(frame: &mut Frame<'_>, input: &mut Input<'_>, len: usize) -> Result<(), Bad> {
    // Every element has a byte at least: a length alone allocates nothing.
    if len > input.rest.len() {
        return Err(Bad::End);
    }
    frame.push_table(0, 0);
    for number in 1..=i32::try_from(len).map_err(|_| Bad::End)? {
        unpack_value(frame, input)?;
        frame.set_element(-2, number);
    }
    Ok(())
}

fn unpack_map(frame: &mut Frame<'_>, input: &mut Input<'_>, len: usize) -> Result<(), Bad> {
    if len > input.rest.len() / 2 {
        return Err(Bad::End);
    }
    frame.push_table(0, 0);
    for _ in 0..len {
        unpack_value(frame, input)?;
        unpack_value(frame, input)?;
        frame.raw_set(-3)?;
    }
    Ok(())
}

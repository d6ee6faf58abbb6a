//! `bit`: operations on numbers as 32 bits, as Lua BitOp has them. Results are signed.

use crate::entry::{Entry, Raise, Results};
use crate::frame::Frame;

pub(crate) const FUNCTIONS: [(&str, Entry); 12] = [
    ("tobit", Entry::of(|frame| unary(frame, |bits| bits))),
    ("bnot", Entry::of(|frame| unary(frame, |bits| !bits))),
    ("bswap", Entry::of(|frame| unary(frame, u32::swap_bytes))),
    ("band", Entry::of(|frame| all(frame, |a, b| a & b))),
    ("bor", Entry::of(|frame| all(frame, |a, b| a | b))),
    ("bxor", Entry::of(|frame| all(frame, |a, b| a ^ b))),
    ("lshift", Entry::of(|frame| shift(frame, |bits, by| bits << by))),
    ("rshift", Entry::of(|frame| shift(frame, |bits, by| bits >> by))),
    (
        "arshift",
        Entry::of(|frame| shift(frame, |bits, by| (bits.cast_signed() >> by).cast_unsigned())),
    ),
    ("rol", Entry::of(|frame| shift(frame, u32::rotate_left))),
    ("ror", Entry::of(|frame| shift(frame, u32::rotate_right))),
    ("tohex", Entry::of(tohex)),
];

/// The lower 32 bits of a number: rounded to the nearest whole one, halves to even, and exact up
/// to 2^51, as the addition of 2^52 + 2^51 makes it.
fn bits(frame: &Frame<'_>, number: i32) -> Result<u32, Raise> {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let value = frame.check_number(number)?;
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    Ok((value + SHIFT).to_bits() as u32)
}

fn push(frame: &mut Frame<'_>, bits: u32) -> Results {
    frame.push_integer(i64::from(bits.cast_signed()));
    Ok(1)
}

fn unary(frame: &mut Frame<'_>, act: impl Fn(u32) -> u32) -> Results {
    let value = act(bits(frame, 1)?);
    push(frame, value)
}

fn all(frame: &mut Frame<'_>, act: impl Fn(u32, u32) -> u32) -> Results {
    let mut value = bits(frame, 1)?;
    for number in (2..=frame.arguments()).rev() {
        value = act(value, bits(frame, number)?);
    }
    push(frame, value)
}

fn shift(frame: &mut Frame<'_>, act: impl Fn(u32, u32) -> u32) -> Results {
    let value = act(bits(frame, 1)?, bits(frame, 2)? & 31);
    push(frame, value)
}

fn tohex(frame: &mut Frame<'_>) -> Results {
    let value = bits(frame, 1)?;
    let digits = if frame.arguments() < 2 { 8 } else { bits(frame, 2)?.cast_signed() };
    let text = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let count = usize::try_from(digits.unsigned_abs()).unwrap_or(8).min(8);
    frame.push_bytes(&text.as_bytes()[8 - count..]);
    Ok(1)
}

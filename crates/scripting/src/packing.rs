//! `struct`: numbers and texts in binary forms, as Roberto Ierusalimschy's library has them.
//!
//! | option | what |
//! | --- | --- |
//! | `>` `<` `!n` | big endian, little endian, alignment |
//! | `b B h H l L T iN IN` | integers of 1, 2, 8, 8 and N bytes, signed in lower case |
//! | `f d` | floating point of 4 and 8 bytes |
//! | `s cN c0` | text that ends with a zero, text of N bytes, of as many as the number before says |
//! | `x` | a byte of padding |

use crate::entry::{Entry, Raise, Results};
use crate::frame::Frame;

pub(crate) const FUNCTIONS: [(&str, Entry); 3] =
    [("pack", Entry::of(pack)), ("unpack", Entry::of(unpack)), ("size", Entry::of(size))];

/// The widest integer.
const INTEGER_BYTES_MAX: usize = 32;

/// What `!` alone means.
const NATURAL_ALIGNMENT: usize = 8;

/// One option of a format.
struct Item {
    option: u8,
    /// How many bytes it takes: 0 for texts that say so themselves.
    size: usize,
    /// Zeros in front of it.
    padding: usize,
}

/// A format, read option by option.
struct Format<'f> {
    rest: &'f [u8],
    is_big: bool,
    alignment: usize,
}

impl<'f> Format<'f> {
    fn new(text: &'f [u8]) -> Self {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Self { rest: &text[..end], is_big: false, alignment: 1 }
    }

    /// The next option that stands for data, at position `at`.
    fn next(&mut self, at: usize) -> Result<Option<Item>, Raise> {
        while let Some((option, rest)) = self.rest.split_first() {
            self.rest = rest;
            let size = match option {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'f' => 4,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'c' => self.number(1)?,
                b'i' | b'I' => {
                    let size = self.number(4)?;
                    if size > INTEGER_BYTES_MAX {
                        return Err(Raise::text(format!(
                            "integral size {size} is larger than limit of {INTEGER_BYTES_MAX}"
                        )));
                    }
                    size
                }
                b's' => 0,
                b' ' => continue,
                b'>' | b'<' => {
                    self.is_big = *option == b'>';
                    continue;
                }
                b'!' => {
                    let alignment = self.number(NATURAL_ALIGNMENT)?;
                    if !alignment.is_power_of_two() {
                        return Err(Raise::text(format!(
                            "alignment {alignment} is not a power of 2"
                        )));
                    }
                    self.alignment = alignment;
                    continue;
                }
                other => {
                    let other = char::from(*other);
                    return Err(Raise::argument(1, format!("invalid format option '{other}'")));
                }
            };
            let padding = if size == 0 || *option == b'c' {
                0
            } else {
                // A size that is no power of two is masked like one, as in the original.
                let unit = size.min(self.alignment);
                (unit.wrapping_sub(at & (unit - 1))) & (unit - 1)
            };
            return Ok(Some(Item { option: *option, size, padding }));
        }
        Ok(None)
    }

    fn number(&mut self, default: usize) -> Result<usize, Raise> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let mut value = 0_i32;
        for digit in text {
            value = value
                .checked_mul(10)
                .and_then(|value| value.checked_add(i32::from(digit - b'0')))
                .ok_or_else(|| Raise::text("integral size overflow"))?;
        }
        Ok(usize::try_from(value).unwrap_or_default())
    }

    /// Turns little-endian bytes into the order of this format, or back.
    fn order(&self, bytes: &mut [u8]) {
        if self.is_big {
            bytes.reverse();
        }
    }
}

fn pack(frame: &mut Frame<'_>) -> Results {
    let mut format = Format::new(frame.check_text(1)?);
    let mut out: Vec<u8> = Vec::new();
    let mut argument = 2;
    while let Some(item) = format.next(out.len())? {
        frame.pulse()?;
        frame.check_room(out.len() + item.size)?;
        out.resize(out.len() + item.padding, 0);
        match item.option {
            b'x' => out.push(0),
            b'f' | b'd' => {
                let value = frame.check_number(argument)?;
                #[expect(clippy::cast_possible_truncation, reason = "that is what `f` means")]
                let mut bytes = if item.option == b'f' {
                    (value as f32).to_le_bytes().to_vec()
                } else {
                    value.to_le_bytes().to_vec()
                };
                format.order(&mut bytes);
                out.extend_from_slice(&bytes);
                argument += 1;
            }
            b'c' | b's' => {
                let text = frame.check_text(argument)?;
                let len = if item.size == 0 { text.len() } else { item.size };
                let Some(text) = text.get(..len) else {
                    // The number is one too high, as in Redis.
                    return Err(Raise::argument(argument + 1, "string too short"));
                };
                frame.check_room(out.len() + len)?;
                out.extend_from_slice(text);
                if item.option == b's' {
                    out.push(0);
                }
                argument += 1;
            }
            _ => {
                let mut bytes = [0; INTEGER_BYTES_MAX];
                bytes[..8].copy_from_slice(&integer(frame.check_number(argument)?).to_le_bytes());
                format.order(&mut bytes[..item.size]);
                out.extend_from_slice(&bytes[..item.size]);
                argument += 1;
            }
        }
    }
    frame.push_bytes(&out);
    Ok(1)
}

/// The bits of a number, as x86 converts it: 0 for what has more than 64.
#[expect(clippy::cast_possible_truncation, reason = "far numbers become the farthest")]
#[expect(clippy::cast_sign_loss, reason = "it is not negative")]
fn integer(value: f64) -> u64 {
    const END: f64 = 18_446_744_073_709_551_616.0;
    if value < 0.0 {
        (value as i64).cast_unsigned()
    } else if value < END {
        value as u64
    } else {
        0
    }
}

fn too_short() -> Raise {
    Raise::argument(2, "data string too short")
}

fn unpack(frame: &mut Frame<'_>) -> Results {
    let mut format = Format::new(frame.check_text(1)?);
    let data = frame.check_text(2)?;
    let start = frame.optional_integer(3, 1)?;
    if start == 0 {
        return Err(Raise::argument(3, "offset must be 1 or greater"));
    }
    // A negative one is far behind the end, as in Redis.
    let mut at = usize::try_from(start - 1).unwrap_or(usize::MAX);
    let mut count = 0;
    while let Some(item) = format.next(at)? {
        frame.pulse()?;
        at = at.checked_add(item.padding).ok_or_else(too_short)?;
        let bytes =
            at.checked_add(item.size).and_then(|end| data.get(at..end)).ok_or_else(too_short)?;
        if !frame.reserve(2) {
            return Err(Raise::text("stack overflow (too many results)"));
        }
        at += item.size;
        match item.option {
            b'x' => continue,
            b'f' | b'd' => {
                let mut bytes = bytes.to_vec();
                format.order(&mut bytes);
                let value = match item.option {
                    b'f' => f64::from(f32::from_le_bytes(bytes[..].try_into().expect("4 bytes"))),
                    _ => f64::from_le_bytes(bytes[..].try_into().expect("8 bytes")),
                };
                frame.push_number(value);
            }
            b'c' if item.size == 0 => {
                let len = if count == 0 { None } else { frame.number(-1) };
                let Some(len) = len else {
                    return Err(Raise::text("format 'c0' needs a previous size"));
                };
                frame.pop(1);
                count -= 1;
                #[expect(clippy::cast_possible_truncation, reason = "too long is refused")]
                #[expect(clippy::cast_sign_loss, reason = "negative is refused")]
                let len = if len >= 0.0 { len as usize } else { usize::MAX };
                let text =
                    at.checked_add(len).and_then(|end| data.get(at..end)).ok_or_else(too_short)?;
                frame.push_bytes(text);
                at += len;
            }
            b'c' => frame.push_bytes(bytes),
            b's' => {
                let rest = data.get(at..).unwrap_or_default();
                let Some(len) = rest.iter().position(|byte| *byte == 0) else {
                    return Err(Raise::text("unfinished string in data"));
                };
                frame.push_bytes(&rest[..len]);
                at += len + 1;
            }
            option => {
                let mut wide = [0; INTEGER_BYTES_MAX];
                wide[..item.size].copy_from_slice(bytes);
                format.order(&mut wide[..item.size]);
                frame.push_number(number(&wide, item.size, option.is_ascii_lowercase()));
            }
        }
        count += 1;
    }
    frame.push_integer(i64::try_from(at).unwrap_or(i64::MAX).saturating_add(1));
    Ok(count + 1)
}

/// The number in the first `size` of little-endian bytes, of which the lower 64 bits count.
#[expect(clippy::cast_precision_loss, reason = "Lua has no other numbers")]
fn number(bytes: &[u8; INTEGER_BYTES_MAX], size: usize, is_signed: bool) -> f64 {
    let low = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    if !is_signed {
        return low as f64;
    }
    let unused = 64_u32.saturating_sub(u32::try_from(size).unwrap_or(64) * 8);
    if unused == 64 {
        return 0.0;
    }
    ((low << unused).cast_signed() >> unused) as f64
}

fn size(frame: &mut Frame<'_>) -> Results {
    let mut format = Format::new(frame.check_text(1)?);
    let mut at = 0_usize;
    while let Some(item) = format.next(at)? {
        match item.option {
            b's' => return Err(Raise::argument(1, "option 's' has no fixed size")),
            b'c' if item.size == 0 => {
                return Err(Raise::argument(1, "option 'c0' has no fixed size"));
            }
            _ => {}
        }
        at = at.saturating_add(item.padding).saturating_add(item.size);
    }
    frame.push_integer(i64::try_from(at).unwrap_or(i64::MAX));
    Ok(1)
}

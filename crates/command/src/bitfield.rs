//! BITFIELD: integers of any width up to 64 bits, at any bit of a string.
//!
//! The operations of a call are done on a few bytes at a time: what is written lies in an overlay
//! until the last operation is done, and goes into the string with as few records as it can.

use std::collections::BTreeMap;

use keyspace::string::CHUNK_BYTES;
use keyspace::{Notify, StringRef};

use crate::argument;
use crate::bitmap::bit_offset;
use crate::context::Context;
use crate::error::{CommandError, Done};

/// The type of a field, `u8` or `i16` for example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldType {
    signed: bool,
    width: u32,
}

impl FieldType {
    fn parse(argument: &[u8]) -> Result<Self, CommandError> {
        const BAD_TYPE: CommandError = CommandError::other(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported \
             but i64 is.",
        );
        let (signed, digits) = match argument {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(BAD_TYPE),
        };
        let width = argument::int(digits).ok().and_then(|width| u32::try_from(width).ok());
        let width_max = if signed { 64 } else { 63 };
        match width {
            Some(width) if (1..=width_max).contains(&width) => Ok(Self { signed, width }),
            _ => Err(BAD_TYPE),
        }
    }

    /// The least and the greatest number of the type.
    fn bounds(self) -> (i128, i128) {
        if self.signed {
            (-1 << (self.width - 1), (1 << (self.width - 1)) - 1)
        } else {
            (0, (1 << self.width) - 1)
        }
    }

    /// The number whose lowest bits, as many as the type has, are those of `value`.
    fn wrap(self, value: i128) -> i128 {
        let low = value & ((1 << self.width) - 1);
        if self.signed && low >> (self.width - 1) != 0 { low - (1 << self.width) } else { low }
    }

    /// What is stored for `value`; `None` when it does not fit and must not be stored.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i128> {
        let (min, max) = self.bounds();
        match overflow {
            _ if (min..=max).contains(&value) => Some(value),
            Overflow::Wrap => Some(self.wrap(value)),
            Overflow::Saturate => Some(value.clamp(min, max)),
            Overflow::Fail => None,
        }
    }
}

/// What happens to a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(word: &[u8]) -> Result<Self, CommandError> {
        [("WRAP", Self::Wrap), ("SAT", Self::Saturate), ("FAIL", Self::Fail)]
            .into_iter()
            .find(|(name, _)| argument::is(word, name))
            .map(|(_, overflow)| overflow)
            .ok_or(CommandError::other("ERR Invalid OVERFLOW type specified"))
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Set(i64),
    Add(i64),
}

/// One operation of a call.
#[derive(Clone, Copy, Debug)]
struct Operation {
    field: FieldType,
    /// In bits.
    offset: usize,
    /// `None` for GET.
    change: Option<(Change, Overflow)>,
}

impl Operation {
    /// The bytes that the field lies in.
    fn bytes(&self) -> std::ops::Range<usize> {
        self.offset / 8..(self.offset + self.field.width as usize).div_ceil(8)
    }
}

fn parse(ctx: &Context<'_>, mut args: &[&[u8]]) -> Result<Vec<Operation>, CommandError> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    while let [word, rest @ ..] = args {
        let is = |name| argument::is(word, name);
        args = match rest {
            [field, offset, rest @ ..] if is("GET") => {
                let field = FieldType::parse(field)?;
                let offset = bit_offset(ctx, offset, Some(field.width))?;
                operations.push(Operation { field, offset, change: None });
                rest
            }
            [field, offset, value, rest @ ..] if is("SET") || is("INCRBY") => {
                let field = FieldType::parse(field)?;
                let offset = bit_offset(ctx, offset, Some(field.width))?;
                let value = argument::int(value)?;
                let change = if is("SET") { Change::Set(value) } else { Change::Add(value) };
                operations.push(Operation { field, offset, change: Some((change, overflow)) });
                rest
            }
            [word, rest @ ..] if is("OVERFLOW") => {
                overflow = Overflow::parse(word)?;
                rest
            }
            _ => return Err(CommandError::Syntax),
        };
    }
    Ok(operations)
}

/// Bytes that a call has written and that are not in the string yet, by index.
type Overlay = BTreeMap<usize, u8>;

/// BITFIELD key [GET …] [[OVERFLOW …] SET … | INCRBY …] ….
pub(crate) fn bitfield(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let operations = parse(ctx, &args[2..])?;
    execute(ctx, args[1], &operations)
}

pub(crate) fn bitfield_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let operations = parse(ctx, &args[2..])?;
    if operations.iter().any(|operation| operation.change.is_some()) {
        return Err(CommandError::other("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    execute(ctx, args[1], &operations)
}

fn execute(ctx: &mut Context<'_>, key: &[u8], operations: &[Operation]) -> Done {
    let mut digits = itoa::Buffer::new();
    let value = if operations.iter().any(|operation| operation.change.is_some()) {
        ctx.keyspace.string_to_change(ctx.db, key)?
    } else {
        ctx.keyspace.string(ctx.db, key)?
    };
    let bytes = value.unwrap_or(StringRef::Bytes(&[])).as_bytes(&mut digits);
    let old_len = bytes.len();
    let written = operations.iter().filter(|operation| operation.change.is_some());
    let len = written.map(|operation| operation.bytes().end).max().unwrap_or(0).max(old_len);
    let has_grown = len > old_len;
    let mut overlay = Overlay::new();
    let mut has_changed = false;
    ctx.reply.array(operations.len());
    for operation in operations {
        let old = load(bytes, &overlay, operation);
        let Some((change, overflow)) = operation.change else {
            write_number(ctx.reply, old);
            continue;
        };
        let new = match change {
            Change::Add(by) => old + i128::from(by),
            // An unsigned field takes a negative number as the bits that it is.
            Change::Set(value) if !operation.field.signed => i128::from(value.cast_unsigned()),
            Change::Set(value) => i128::from(value),
        };
        let Some(new) = operation.field.fit(new, overflow) else {
            ctx.reply.null();
            continue;
        };
        write_number(ctx.reply, if matches!(change, Change::Set(_)) { old } else { new });
        if new != old {
            store(bytes, &mut overlay, operation, new);
        }
        has_changed |= new != old || has_grown;
    }
    if has_grown && overlay.is_empty() {
        ctx.keyspace.change_string(ctx.db, key, len, old_len..old_len, |_| {})?;
    }
    let writes = operations.iter().any(|operation| operation.change.is_some());
    if writes && overlay.is_empty() && !has_grown {
        ctx.keyspace.make_raw(ctx.db, key);
    }
    write_back(ctx, key, len, overlay)?;
    if has_changed {
        ctx.notify(Notify::STRING, "setbit", key);
    }
    Ok(())
}

fn write_number(reply: &mut resp::Writer, number: i128) {
    reply.int(i64::try_from(number).expect("no field is wider than 64 bits, signed"));
}

fn byte_at(bytes: &[u8], overlay: &Overlay, at: usize) -> u8 {
    overlay.get(&at).or_else(|| bytes.get(at)).copied().unwrap_or(0)
}

/// The number in the operation's field.
fn load(bytes: &[u8], overlay: &Overlay, operation: &Operation) -> i128 {
    let range = operation.bytes();
    let below = range.end * 8 - (operation.offset + operation.field.width as usize);
    let window = range.fold(0, |window, at| window << 8 | i128::from(byte_at(bytes, overlay, at)));
    operation.field.wrap(window >> below)
}

/// Puts a number into the operation's field.
fn store(bytes: &[u8], overlay: &mut Overlay, operation: &Operation, number: i128) {
    let range = operation.bytes();
    let width = operation.field.width;
    let below = range.end * 8 - (operation.offset + width as usize);
    let mask = ((1i128 << width) - 1) << below;
    let mut window = (number << below) & mask;
    let mut mask = mask;
    for at in range.rev() {
        let [bits, kept] = [window & 0xff, !mask & 0xff]
            .map(|byte| u8::try_from(byte).expect("eight bits are a byte"));
        let byte = byte_at(bytes, overlay, at) & kept | bits;
        overlay.insert(at, byte);
        (window, mask) = (window >> 8, mask >> 8);
    }
}

/// Writes the overlay into the string, what lies within one chunk at once, and makes the string
/// `len` bytes long.
fn write_back(ctx: &mut Context<'_>, key: &[u8], len: usize, overlay: Overlay) -> Done {
    let written: Vec<(usize, u8)> = overlay.into_iter().collect();
    for run in written.chunk_by(|a, b| a.0 / CHUNK_BYTES == b.0 / CHUNK_BYTES) {
        let (first, last) = (run[0].0, run[run.len() - 1].0);
        ctx.keyspace.change_string(ctx.db, key, len, first..last + 1, |bytes| {
            run.iter().for_each(|(at, byte)| bytes[at - first] = *byte);
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn operation(signed: bool, width: u32, offset: usize) -> Operation {
        Operation { field: FieldType { signed, width }, offset, change: None }
    }

    proptest! {
        #[test]
        fn a_field_comes_back_and_its_neighbours_stay(
            bytes in prop::collection::vec(any::<u8>(), 0..24),
            signed: bool,
            width in 1u32..64,
            offset in 0usize..150,
            number: i64,
        ) {
            let field = operation(signed, width, offset);
            let number = field.field.wrap(i128::from(number));
            let mut overlay = Overlay::new();
            store(&bytes, &mut overlay, &field, number);
            prop_assert_eq!(load(&bytes, &overlay, &field), number);
            for bit in (0..250).filter(|bit| !(offset..offset + width as usize).contains(bit)) {
                let bit = operation(false, 1, bit);
                prop_assert_eq!(load(&bytes, &overlay, &bit), load(&bytes, &Overlay::new(), &bit));
            }
        }
    }

    #[test]
    fn numbers_wrap_saturate_or_fail() {
        let (u8_type, i8_type) =
            (FieldType { signed: false, width: 8 }, FieldType { signed: true, width: 8 });
        assert_eq!(u8_type.fit(257, Overflow::Wrap), Some(1));
        assert_eq!(u8_type.fit(-1, Overflow::Wrap), Some(255));
        assert_eq!(u8_type.fit(-1, Overflow::Saturate), Some(0));
        assert_eq!(i8_type.fit(128, Overflow::Wrap), Some(-128));
        assert_eq!(i8_type.fit(-500, Overflow::Saturate), Some(-128));
        assert_eq!(i8_type.fit(128, Overflow::Fail), None);
        let i64_type = FieldType { signed: true, width: 64 };
        assert_eq!(i64_type.fit(i128::from(i64::MAX) + 1, Overflow::Wrap), Some(i64::MIN.into()));
    }
}

//! Strings as arrays of bits: the first bit is the most significant one of the first byte.
//! [`crate::bitfield`] has the integers of any width.

use std::ops::RangeInclusive;

use keyspace::string::Form;
use keyspace::{Expiry, Notify, StringRef};

use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};

const BAD_OFFSET: CommandError =
    CommandError::other("ERR bit offset is not an integer or out of range");

/// A bit offset argument, below the longest string's end. `#n` means the n-th field of `width`
/// bits, where there is a width.
pub(crate) fn bit_offset(
    ctx: &Context<'_>,
    argument: &[u8],
    width: Option<u32>,
) -> Result<usize, CommandError> {
    let (digits, factor) = match (argument, width) {
        ([b'#', digits @ ..], Some(width)) => (digits, i64::from(width)),
        _ => (argument, 1),
    };
    argument::int(digits)
        .ok()
        .and_then(|offset| offset.checked_mul(factor))
        .and_then(|offset| usize::try_from(offset).ok())
        .filter(|offset| offset / 8 < ctx.string_bytes_max)
        .ok_or(BAD_OFFSET)
}

pub(crate) fn setbit(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    const BAD_BIT: CommandError = CommandError::other("ERR bit is not an integer or out of range");
    let (key, offset) = (args[1], bit_offset(ctx, args[2], None)?);
    let bit = match argument::int(args[3]) {
        Ok(0) => false,
        Ok(1) => true,
        _ => return Err(BAD_BIT),
    };
    let (at, mask) = (offset / 8, 0x80 >> (offset % 8));
    let mut digits = itoa::Buffer::new();
    let old = ctx.keyspace.string_to_change(ctx.db, key)?;
    let byte = old.and_then(|old| old.as_bytes(&mut digits).get(at).copied());
    let was_set = byte.is_some_and(|byte| byte & mask != 0);
    if byte.is_none() || was_set != bit {
        ctx.keyspace.change_string(ctx.db, key, at + 1, at..at + 1, |bytes| {
            bytes[0] = if bit { bytes[0] | mask } else { bytes[0] & !mask };
        })?;
        ctx.notify(Notify::STRING, "setbit", key);
    } else {
        ctx.keyspace.make_raw(ctx.db, key);
    }
    ctx.reply.int(i64::from(was_set));
    Ok(())
}

pub(crate) fn getbit(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let offset = bit_offset(ctx, args[2], None)?;
    let mut digits = itoa::Buffer::new();
    let value = ctx.keyspace.string(ctx.db, args[1])?;
    let byte = value.and_then(|value| value.as_bytes(&mut digits).get(offset / 8).copied());
    let is_set = byte.is_some_and(|byte| byte & (0x80 >> (offset % 8)) != 0);
    ctx.reply.int(i64::from(is_set));
    Ok(())
}

/// What the start and end of a range count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    fn parse(word: &[u8]) -> Result<Self, CommandError> {
        if argument::is(word, "BIT") {
            Ok(Self::Bit)
        } else if argument::is(word, "BYTE") {
            Ok(Self::Byte)
        } else {
            Err(CommandError::Syntax)
        }
    }

    /// The bits from `start` to `end`, inclusive, of a string of `len` bytes; `None` when there
    /// are none. Negative numbers count from the end, and stop at the first bit or byte.
    fn bits(self, start: i64, end: i64, len: usize) -> Option<RangeInclusive<usize>> {
        let unit = if self == Self::Bit { 1 } else { 8 };
        let total = i64::try_from(len * 8 / unit).ok()?;
        let from_end = |index: i64| if index < 0 { index.saturating_add(total) } else { index };
        let (start, end) = (from_end(start).max(0), from_end(end).max(0).min(total - 1));
        if start > end {
            return None;
        }
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
        Some(start * unit..=end * unit + unit - 1)
    }
}

/// The byte at `at` with the bits outside of `bits` cleared.
fn masked(bytes: &[u8], at: usize, bits: &RangeInclusive<usize>) -> u8 {
    let mut byte = bytes[at];
    if at == bits.start() / 8 {
        byte &= 0xff >> (bits.start() % 8);
    }
    if at == bits.end() / 8 {
        byte &= 0xff << (7 - bits.end() % 8);
    }
    byte
}

/// BITCOUNT key [start end [BYTE | BIT]].
pub(crate) fn bitcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    // The key is looked at before the rest of the call.
    let Some(value) = ctx.keyspace.string(ctx.db, args[1])? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let mut digits = itoa::Buffer::new();
    let bytes = value.as_bytes(&mut digits);
    let bits = match args {
        [_, _] => Unit::Byte.bits(0, -1, bytes.len()),
        [_, _, start, end, unit @ ..] if unit.len() <= 1 => {
            let (start, end) = (argument::int(start)?, argument::int(end)?);
            if start < 0 && end < 0 && start > end {
                None
            } else {
                let unit = unit.first().map_or(Ok(Unit::Byte), |word| Unit::parse(word))?;
                unit.bits(start, end, bytes.len())
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    let count = bits.map_or(0, |bits| count_ones(bytes, &bits));
    ctx.reply.count(count);
    Ok(())
}

fn count_ones(bytes: &[u8], bits: &RangeInclusive<usize>) -> usize {
    let (first, last) = (bits.start() / 8, bits.end() / 8);
    let ends = masked(bytes, first, bits).count_ones()
        + if last > first { masked(bytes, last, bits).count_ones() } else { 0 };
    let inner = if last > first { &bytes[first + 1..last] } else { &[] };
    let (words, rest) = inner.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones() as usize);
    let rest = rest.iter().map(|byte| byte.count_ones() as usize);
    ends as usize + words.sum::<usize>() + rest.sum::<usize>()
}

/// BITPOS key bit [start [end [BYTE | BIT]]].
pub(crate) fn bitpos(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let bit = match argument::int(args[2])? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::other("ERR The bit argument must be 1 or 0.")),
    };
    let Some(value) = ctx.keyspace.string(ctx.db, args[1])? else {
        ctx.reply.int(if bit { -1 } else { 0 });
        return Ok(());
    };
    let mut digits = itoa::Buffer::new();
    let bytes = value.as_bytes(&mut digits);
    if args.len() > 6 {
        return Err(CommandError::Syntax);
    }
    let start = args.get(3).map_or(Ok(0), |start| argument::int(start))?;
    let unit = args.get(5).map_or(Ok(Unit::Byte), |word| Unit::parse(word))?;
    let end = args.get(4).map_or(Ok(-1), |end| argument::int(end))?;
    let bits = unit.bits(start, end, bytes.len());
    let found = bits.as_ref().and_then(|bits| find_bit(bytes, bit, bits));
    // A string without a given end is as if zeros followed it.
    let past_end = || bits.filter(|_| !bit && args.len() <= 4).map(|bits| bits.end() + 1);
    match found.or_else(past_end) {
        Some(at) => ctx.reply.count(at),
        None => ctx.reply.int(-1),
    }
    Ok(())
}

/// Where in `bits` the first bit is that is set, or not set.
fn find_bit(bytes: &[u8], bit: bool, bits: &RangeInclusive<usize>) -> Option<usize> {
    let (first, last) = (bits.start() / 8, bits.end() / 8);
    let boring = if bit { 0x00 } else { 0xff };
    let is_wanted = |at: usize| {
        // The bits outside of the range must not be found.
        let ones = masked(bytes, at, bits);
        let zeros = !bytes[at] & masked(&[0xff], 0, &within_byte(at, bits));
        let wanted = if bit { ones } else { zeros };
        (wanted != 0).then(|| at * 8 + wanted.leading_zeros() as usize)
    };
    is_wanted(first).or_else(|| {
        let inner = bytes[first + 1..].iter().take(last.saturating_sub(first + 1));
        let skipped = inner.take_while(|byte| **byte == boring).count();
        let at = first + 1 + skipped;
        (at <= last).then(|| is_wanted(at)).flatten()
    })
}

/// The part of `bits` that lies in the byte at `at`, as offsets within it.
fn within_byte(at: usize, bits: &RangeInclusive<usize>) -> RangeInclusive<usize> {
    bits.start().saturating_sub(at * 8)..=(bits.end() - at * 8).min(7)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BitOperation {
    And,
    Or,
    Xor,
    Not,
    /// What the first has and none of the others.
    Diff,
    /// What one of the others has and the first has not.
    Diff1,
    /// What the first has and one of the others, too.
    AndOr,
    /// What exactly one has.
    One,
}

/// The sources read so far; each is as if zeros followed it.
#[derive(Default)]
struct Combined {
    bytes: Vec<u8>,
    /// Of DIFF, DIFF1 and ANDOR, what any source but the first has; of ONE, what several have.
    others: Vec<u8>,
}

impl BitOperation {
    const NAMES: [(&str, Self); 8] = [
        ("AND", Self::And),
        ("OR", Self::Or),
        ("XOR", Self::Xor),
        ("NOT", Self::Not),
        ("DIFF", Self::Diff),
        ("DIFF1", Self::Diff1),
        ("ANDOR", Self::AndOr),
        ("ONE", Self::One),
    ];

    /// The operation that a word names, of `source_count` sources.
    fn parse(word: &[u8], source_count: usize) -> Result<Self, CommandError> {
        const NOT_ONE_SOURCE: CommandError =
            CommandError::other("ERR BITOP NOT must be called with a single source key.");
        let found = Self::NAMES.into_iter().find(|(name, _)| argument::is(word, name));
        let (name, operation) = found.ok_or(CommandError::Syntax)?;
        match operation {
            Self::Not if source_count != 1 => Err(NOT_ONE_SOURCE),
            Self::Diff | Self::Diff1 | Self::AndOr if source_count < 2 => {
                let text =
                    format!("ERR BITOP {name} must be called with at least two source keys.");
                Err(CommandError::Other(text.into()))
            }
            _ => Ok(operation),
        }
    }

    /// Adds a source behind the first one.
    fn add(self, combined: &mut Combined, source: &[u8]) {
        let Combined { bytes, others } = combined;
        match self {
            Self::And => {
                bytes.resize(bytes.len().max(source.len()), 0);
                let (common, tail) = bytes.split_at_mut(source.len());
                common.iter_mut().zip(source).for_each(|(byte, other)| *byte &= other);
                tail.fill(0);
            }
            Self::Or => add_bits(bytes, source),
            Self::Xor => {
                bytes.resize(bytes.len().max(source.len()), 0);
                bytes.iter_mut().zip(source).for_each(|(byte, other)| *byte ^= other);
            }
            Self::Not => unreachable!("NOT has one source"),
            Self::Diff | Self::Diff1 | Self::AndOr => add_bits(others, source),
            Self::One => {
                others.resize(bytes.len(), 0);
                for ((several, any), byte) in others.iter_mut().zip(bytes.iter()).zip(source) {
                    *several |= any & byte;
                }
                add_bits(bytes, source);
            }
        }
    }

    /// The result, as long as the longest source.
    fn finish(self, combined: Combined) -> Vec<u8> {
        let Combined { mut bytes, others } = combined;
        bytes.resize(bytes.len().max(others.len()), 0);
        let (common, tail) = bytes.split_at_mut(others.len());
        let pairs = common.iter_mut().zip(&others);
        match self {
            Self::And | Self::Or | Self::Xor => {}
            Self::Not => tail.iter_mut().for_each(|byte| *byte = !*byte),
            Self::Diff | Self::One => pairs.for_each(|(byte, other)| *byte &= !other),
            Self::Diff1 => {
                pairs.for_each(|(byte, other)| *byte = !*byte & other);
                tail.fill(0);
            }
            Self::AndOr => {
                pairs.for_each(|(byte, other)| *byte &= other);
                tail.fill(0);
            }
        }
        bytes
    }
}

/// Sets the bits that `source` has, too.
fn add_bits(bytes: &mut Vec<u8>, source: &[u8]) {
    bytes.resize(bytes.len().max(source.len()), 0);
    bytes.iter_mut().zip(source).for_each(|(byte, other)| *byte |= other);
}

/// BITOP operation destination key [key ...].
pub(crate) fn bitop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (destination, sources) = (args[2], &args[3..]);
    let operation = BitOperation::parse(args[1], sources.len())?;
    let mut combined = Combined::default();
    for (index, key) in sources.iter().enumerate() {
        let mut digits = itoa::Buffer::new();
        let source = ctx.keyspace.string(ctx.db, key)?.unwrap_or(StringRef::Bytes(&[]));
        let source = source.as_bytes(&mut digits);
        if index == 0 {
            combined.bytes.extend_from_slice(source);
        } else {
            operation.add(&mut combined, source);
        }
    }
    let result = operation.finish(combined);
    if !result.is_empty() {
        ctx.keyspace.set_string_as(Form::Raw, ctx.db, destination, &result, Expiry::Clear);
        ctx.notify(Notify::STRING, "set", destination);
    } else if ctx.keyspace.delete(ctx.db, destination) {
        ctx.notify(Notify::GENERIC, "del", destination);
    }
    ctx.reply.count(result.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bit_at(bytes: &[u8], at: usize) -> bool {
        bytes[at / 8] & (0x80 >> (at % 8)) != 0
    }

    /// Whether a bit is in the result, by which sources have it.
    fn is_set(operation: BitOperation, bits: &[bool]) -> bool {
        let (first, others) = (bits[0], bits[1..].contains(&true));
        let count = bits.iter().filter(|bit| **bit).count();
        match operation {
            BitOperation::And => count == bits.len(),
            BitOperation::Or => count > 0,
            BitOperation::Xor => count % 2 == 1,
            BitOperation::Not => !first,
            BitOperation::Diff => first && !others,
            BitOperation::Diff1 => !first && others,
            BitOperation::AndOr => first && others,
            BitOperation::One => count == 1,
        }
    }

    proptest! {
        #[test]
        fn sources_are_combined_as_bit_by_bit(
            sources in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 1..6),
        ) {
            for (name, operation) in BitOperation::NAMES {
                if BitOperation::parse(name.as_bytes(), sources.len()).is_err() {
                    continue;
                }
                let mut combined = Combined { bytes: sources[0].clone(), others: Vec::new() };
                sources[1..].iter().for_each(|source| operation.add(&mut combined, source));
                let result = operation.finish(combined);
                let len = sources.iter().map(Vec::len).max().unwrap_or(0);
                prop_assert_eq!(result.len(), len, "{}", name);
                for at in 0..len * 8 {
                    let has = |source: &Vec<u8>| at / 8 < source.len() && bit_at(source, at);
                    let bits: Vec<bool> = sources.iter().map(has).collect();
                    prop_assert_eq!(bit_at(&result, at), is_set(operation, &bits), "{} at {}", name, at);
                }
            }
        }

        #[test]
        fn bits_are_counted_and_found_as_one_by_one(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 1..60),
            start in -500i64..500,
            end in -500i64..500,
            bit: bool,
        ) {
            for unit in [Unit::Bit, Unit::Byte] {
                let Some(bits) = unit.bits(start, end, bytes.len()) else { continue };
                let ones = bits.clone().filter(|at| bit_at(&bytes, *at)).count();
                prop_assert_eq!(count_ones(&bytes, &bits), ones);
                let first = bits.clone().find(|at| bit_at(&bytes, *at) == bit);
                prop_assert_eq!(find_bit(&bytes, bit, &bits), first);
            }
        }
    }

    #[test]
    fn ranges_stop_at_the_first_bit_or_byte() {
        assert_eq!(Unit::Byte.bits(0, -1, 2), Some(0..=15));
        assert_eq!(Unit::Byte.bits(0, -100, 2), Some(0..=7));
        assert_eq!(Unit::Bit.bits(-3, -2, 2), Some(13..=14));
        assert_eq!(Unit::Bit.bits(3, 2, 2), None);
        assert_eq!(Unit::Byte.bits(2, 5, 2), None);
        assert_eq!(Unit::Byte.bits(0, -1, 0), None);
    }
}

//! What is passed over, exactly: values that there is no event for, and what belongs to no value.
//!
//! ```text
//!   module   id │ (code │ number, 4 or 8 bytes, or string) … │ 0
//!   stream   nodes │ last id and counts │ groups, each with what is pending │ producers
//!   array    count │ insert position │ (place │ tag │ string or 8 bytes) …
//! ```
//!
//! Sources: Redis' `rdb.c` and `keymeta.c`, librdb, Valkey's `cluster_migrateslots.c`.

use std::io::Read;

use crate::error::Error;
use crate::form::Foreign;
use crate::input::Input;

/// Bytes of the id of an entry of a stream.
const STREAM_ID_BYTES: u64 = 16;

/// Bytes of a time in milliseconds.
const TIME_BYTES: u64 = 8;

/// Passes over the value of a key.
pub(crate) fn value<R: Read>(input: &mut Input<R>, foreign: Foreign) -> Result<(), Error> {
    match foreign {
        Foreign::OldModule => Err(input.corrupt(
            "a value of a module in the form of Redis 4.0's release candidates, \
             which nothing but the module can read",
        )),
        Foreign::Module => {
            input.length()?;
            module_data(input)
        }
        Foreign::Stream(generation) => stream(input, generation),
        Foreign::Array => array(input),
    }
}

/// What a module has written, up to its end mark: it says of each number and string what it is.
fn module_data<R: Read>(input: &mut Input<R>) -> Result<(), Error> {
    const END: u64 = 0;
    const SIGNED: u64 = 1;
    const UNSIGNED: u64 = 2;
    const FLOAT: u64 = 3;
    const DOUBLE: u64 = 4;
    const STRING: u64 = 5;
    loop {
        match input.length()? {
            END => return Ok(()),
            SIGNED | UNSIGNED => {
                input.length()?;
            }
            FLOAT => input.skip(4)?,
            DOUBLE => input.skip(8)?,
            STRING => input.skip_string()?,
            _ => {
                return Err(input.corrupt("a module's data has a part of a kind that there is not"));
            }
        }
    }
}

fn lengths<R: Read>(input: &mut Input<R>, count: usize) -> Result<(), Error> {
    for _ in 0..count {
        input.length()?;
    }
    Ok(())
}

/// A stream as of Redis 8.6 or 8.8, generations 4 and 5: those before are read.
fn stream<R: Read>(input: &mut Input<R>, generation: u8) -> Result<(), Error> {
    for _ in 0..input.length()? {
        let key = input.string()?;
        if input.bytes(key).len() as u64 != STREAM_ID_BYTES {
            return Err(input.corrupt("a node of a stream has a key that is no id"));
        }
        input.skip_string()?;
    }
    // Its length and last id; then its first id, the largest deleted one, and how many there ever were.
    lengths(input, 8)?;
    for _ in 0..input.length()? {
        group(input, generation)?;
    }
    // For how long producers' ids are remembered, and how many.
    lengths(input, 2)?;
    for _ in 0..input.length()? {
        input.skip_string()?;
        for _ in 0..input.length()? {
            input.skip_string()?;
            lengths(input, 2)?;
        }
    }
    lengths(input, 2)
}

/// A group of consumers of a stream.
fn group<R: Read>(input: &mut Input<R>, generation: u8) -> Result<(), Error> {
    input.skip_string()?;
    // The last id it was given, and how many entries it has read.
    lengths(input, 3)?;
    for _ in 0..input.length()? {
        input.skip(STREAM_ID_BYTES + TIME_BYTES)?;
        input.length()?;
    }
    for _ in 0..input.length()? {
        input.skip_string()?;
        input.skip(2 * TIME_BYTES)?;
        let pending = input.length()?;
        skip_each(input, pending, STREAM_ID_BYTES)?;
    }
    if generation >= 5 {
        let given_back = input.length()?;
        skip_each(input, given_back, STREAM_ID_BYTES)?;
    }
    Ok(())
}

fn skip_each<R: Read>(input: &mut Input<R>, count: u64, bytes: u64) -> Result<(), Error> {
    let all = count.checked_mul(bytes);
    let all = all.ok_or_else(|| input.corrupt("a count of ids is larger than any dump"))?;
    input.skip(all)
}

fn array<R: Read>(input: &mut Input<R>) -> Result<(), Error> {
    const STRING: u64 = 0;
    const INTEGER: u64 = 1;
    const DOUBLE: u64 = 2;
    const SHORT_STRING: u64 = 3;
    let count = input.length()?;
    match input.length()? {
        0 => {}
        1 => {
            input.length()?;
        }
        _ => {
            return Err(
                input.corrupt("an array has an insert position of a kind that there is not")
            );
        }
    }
    for _ in 0..count {
        input.length()?;
        match input.length()? {
            STRING | SHORT_STRING => input.skip_string()?,
            INTEGER | DOUBLE => input.skip(8)?,
            _ => return Err(input.corrupt("an array has an element of a kind that there is not")),
        }
    }
    Ok(())
}

/// How many keys of a slot there are.
pub(crate) fn slot_info<R: Read>(input: &mut Input<R>) -> Result<(), Error> {
    lengths(input, 3)
}

/// Valkey: an import of slots that was under way, its name and its ranges.
pub(crate) fn slot_import<R: Read>(input: &mut Input<R>) -> Result<(), Error> {
    input.skip_string()?;
    for _ in 0..input.length()? {
        lengths(input, 2)?;
    }
    Ok(())
}

/// Redis: what modules know of the key that follows.
pub(crate) fn key_metadata<R: Read>(input: &mut Input<R>) -> Result<(), Error> {
    const CLASS_BYTES: u64 = 4;
    for _ in 0..input.length()? {
        input.skip(CLASS_BYTES)?;
        module_data(input)?;
    }
    Ok(())
}

/// What a module has written before or behind the keys.
pub(crate) fn module_aux<R: Read>(input: &mut Input<R>) -> Result<(), Error> {
    input.length()?;
    module_data(input)
}

//! Arrays by ordinal, made of lists by name when the compiler runs.
//!
//! A crate that executes commands writes a list `("get", string::get)` and has an array from it, so
//! that a call costs one look-up by name and then one by index. What is wrong with a list does not
//! compile: a name that is not in the table, one that is in the list twice, a command that is not
//! served or that is nothing but the container of others.

use super::{INDEX, ORDINAL_COUNT, SLOT_COUNT, SPECS, hash};
use crate::spec::Spec;

/// The values of `entries` at the ordinals of their names.
///
/// # Panics
/// When a name is unknown, there twice, not served, or that of a mere container.
#[must_use]
pub const fn by_ordinal<T: Copy>(entries: &[(&str, T)]) -> [Option<T>; ORDINAL_COUNT] {
    let mut array = [None; ORDINAL_COUNT];
    let mut at = 0;
    while at < entries.len() {
        let (name, value) = entries[at];
        let Some(ordinal) = ordinal_of(name.as_bytes()) else { panic!("{}", name) };
        assert!(SPECS[ordinal].served, "a handler for a command that is not served");
        assert!(SPECS[ordinal].is_callable(), "a handler for a container");
        assert!(array[ordinal].is_none(), "two handlers for one command");
        array[ordinal] = Some(value);
        at += 1;
    }
    array
}

/// The ordinal of the command or subcommand of exactly this name.
const fn ordinal_of(name: &[u8]) -> Option<usize> {
    let mut word_len = 0;
    while word_len < name.len() && name[word_len] != b'|' {
        word_len += 1;
    }
    let (word, _) = name.split_at(word_len);
    let mut slot = hash(word) & (SLOT_COUNT - 1);
    while (INDEX[slot] as usize) < ORDINAL_COUNT {
        let ordinal = INDEX[slot] as usize;
        let spec = SPECS[ordinal];
        if is_same(spec.name.as_bytes(), word) {
            return if word_len == name.len() { Some(ordinal) } else { sub_ordinal(ordinal, name) };
        }
        slot = (slot + 1) & (SLOT_COUNT - 1);
    }
    None
}

const fn sub_ordinal(container: usize, name: &[u8]) -> Option<usize> {
    let spec: &Spec = SPECS[container];
    let mut at = 0;
    while at < spec.subcommands.len() {
        if is_same(spec.subcommands[at].name.as_bytes(), name) {
            return Some(container + 1 + at);
        }
        at += 1;
    }
    None
}

const fn is_same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

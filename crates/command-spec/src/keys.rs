//! Which of a call's arguments are keys.
//!
//! Key specs answer for nearly every command. Where one of them is `Unknown`, or where other
//! arguments decide what happens to the key (`VARIABLE_FLAGS`), a function for that command does.
//! Client-side caching, COMMAND GETKEYS and, later, routing by slot use the answer.

use crate::spec::{BeginSearch, FindKeys, Flags, KeyFlags, KeySpec, Spec, key_flags};

/// A key among the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAt {
    /// Its position; 0 is the command's name.
    pub index: usize,
    /// What the command does with it.
    pub flags: KeyFlags,
}

/// Why the keys of a call cannot be told; displayed as COMMAND GETKEYS displays it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoKeys {
    /// No call of the command has any.
    #[error("The command has no key arguments")]
    InCommand,
    /// The call has too few arguments, or too many.
    #[error("Invalid number of arguments specified for command")]
    WrongArity,
    /// The arguments make no sense.
    #[error("Invalid arguments specified for command")]
    InArguments,
}

/// The keys of a call as COMMAND GETKEYS tells them.
///
/// # Errors
/// When the command has no keys, or none can be found in this call though it must have one.
pub fn of_call(spec: &Spec, call: &[&[u8]]) -> Result<Vec<KeyAt>, NoKeys> {
    if !has_keys(spec) {
        return Err(NoKeys::InCommand);
    }
    if !spec.accepts(call.len()) {
        return Err(NoKeys::WrongArity);
    }
    let found = of(spec, call).unwrap_or_default();
    if found.is_empty() && !spec.flags.has(Flags::NO_MANDATORY_KEYS) {
        return Err(NoKeys::InArguments);
    }
    Ok(found)
}

/// Whether any call of the command can have keys.
#[must_use]
pub fn has_keys(spec: &Spec) -> bool {
    spec.keys.iter().any(|key| !key.flags.has(KeyFlags::NOT_KEY))
}

/// The keys of a call, or `None` when its arguments make no sense: there are too few of them, or
/// a `numkeys` is no number or larger than what follows it.
#[must_use]
pub fn of(spec: &Spec, arguments: &[&[u8]]) -> Option<Vec<KeyAt>> {
    let found = match spec.name {
        "set" => keys_of_set(arguments),
        "bitfield" => keys_of_bitfield(arguments),
        "sort" => keys_of_sort(arguments),
        "sort_ro" => vec![KeyAt { index: 1, flags: key_flags![RO ACCESS] }],
        "delex" => keys_of_delex(arguments),
        "migrate" => keys_of_migrate(arguments),
        "georadius" => keys_of_georadius(6, arguments),
        "georadiusbymember" => keys_of_georadius(5, arguments),
        _ => {
            let mut found = Vec::new();
            for key in spec.keys.iter().filter(|key| !key.flags.has(KeyFlags::NOT_KEY)) {
                match begin_of(spec, key, arguments) {
                    Begin::At(begin) => find_from(key, begin, arguments, &mut found)?,
                    Begin::Nowhere => {}
                    Begin::Unknown => return None,
                }
            }
            found
        }
    };
    found.iter().all(|key| key.index < arguments.len()).then_some(found)
}

/// Where the search for keys begins.
enum Begin {
    At(i32),
    /// The keyword is not there.
    Nowhere,
    Unknown,
}

/// The first step of a key spec.
fn begin_of(spec: &Spec, key: &KeySpec, arguments: &[&[u8]]) -> Begin {
    match key.begin {
        BeginSearch::Index(index) => Begin::At(index),
        BeginSearch::Keyword { keyword, start_from } => {
            let of_group =
                if spec.name == "xreadgroup" { streams_of_group(arguments) } else { None };
            let found = of_group.or_else(|| find_keyword(keyword, start_from, arguments));
            found.map_or(Begin::Nowhere, Begin::At)
        }
        BeginSearch::Unknown => Begin::Unknown,
    }
}

/// Adds the keys that one spec finds from `begin` on.
fn find_from(
    spec: &KeySpec,
    begin: i32,
    arguments: &[&[u8]],
    found: &mut Vec<KeyAt>,
) -> Option<()> {
    let end = i32::try_from(arguments.len()).ok()?;
    let (first, last, step) = match spec.find {
        // Up to the end, and there is nothing more: PFMERGE with a destination alone.
        FindKeys::Range { last, limit: 0, .. } if last < 0 && begin >= end => return Some(()),
        FindKeys::Range { last, step, .. } if last >= 0 => (begin, begin + last, step),
        FindKeys::Range { last, step, limit: 0 } => (begin, end + last, step),
        FindKeys::Range { last, step, limit } => {
            (begin, begin + (end - begin) / limit + last, step)
        }
        FindKeys::KeyNum { count_index, first_key, step } => {
            let count = *arguments.get(usize::try_from(begin + count_index).ok()?)?;
            let first = begin + first_key;
            // None are named: a script has none, and what takes no 0 refuses it.
            if count == b"0" {
                return Some(());
            }
            let distance = parse_count(count)?.checked_sub(1)?.checked_mul(step)?;
            (first, first.checked_add(distance)?, step)
        }
        FindKeys::Unknown => return None,
    };
    if last >= end || last < first || first >= end {
        return None;
    }
    let positions = usize::try_from(first).ok()?..=usize::try_from(last).ok()?;
    let step = usize::try_from(step).ok()?;
    found.extend(positions.step_by(step).map(|index| KeyAt { index, flags: spec.flags }));
    Some(())
}

/// The position after `keyword`.
fn find_keyword(keyword: &str, start_from: i32, arguments: &[&[u8]]) -> Option<i32> {
    let is_it = |index: &usize| arguments[*index].eq_ignore_ascii_case(keyword.as_bytes());
    let distance = usize::try_from(start_from.unsigned_abs()).ok()?;
    let index = if start_from >= 0 {
        (distance..arguments.len()).find(is_it)
    } else {
        (1..=arguments.len().checked_sub(distance)?).rev().find(is_it)
    };
    i32::try_from(index? + 1).ok()
}

/// A number of keys, as Redis reads it: no sign, no leading zero.
fn parse_count(text: &[u8]) -> Option<i32> {
    let is_canonical = matches!(text, [b'0'] | [b'1'..=b'9', ..]);
    if is_canonical { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

/// With GET, the old value is returned, and with a condition on the value it is compared; otherwise
/// the key is merely overwritten.
fn keys_of_set(arguments: &[&[u8]]) -> Vec<KeyAt> {
    let options = arguments.get(3..).unwrap_or_default();
    let has = |word: &str| options.iter().any(|o| o.eq_ignore_ascii_case(word.as_bytes()));
    let flags = if has("get") {
        key_flags![RW ACCESS UPDATE]
    } else if ["ifeq", "ifne", "ifdeq", "ifdne"].into_iter().any(has) {
        key_flags![RW UPDATE]
    } else {
        key_flags![OW UPDATE]
    };
    vec![KeyAt { index: 1, flags }]
}

/// Reads only if all of its operations are GET.
fn keys_of_bitfield(arguments: &[&[u8]]) -> Vec<KeyAt> {
    let mut operations = arguments.get(2..).unwrap_or_default();
    let mut reads_only = true;
    while let [word, rest @ ..] = operations {
        let operand_count = match word.to_ascii_lowercase().as_slice() {
            b"get" => 2,
            b"overflow" => 1,
            _ => usize::MAX,
        };
        let Some(following) = rest.get(operand_count..) else {
            reads_only = false;
            break;
        };
        operations = following;
    }
    let flags = if reads_only { key_flags![RO ACCESS] } else { key_flags![RW ACCESS UPDATE] };
    vec![KeyAt { index: 1, flags }]
}

/// The key to sort, and the last STORE destination; what GET and BY refer to depends on the data.
fn keys_of_sort(arguments: &[&[u8]]) -> Vec<KeyAt> {
    let mut keys = vec![KeyAt { index: 1, flags: key_flags![RO ACCESS] }];
    let mut index = 2;
    while let Some(word) = arguments.get(index) {
        match word.to_ascii_lowercase().as_slice() {
            b"limit" => index += 2,
            b"get" | b"by" => index += 1,
            b"store" if index + 1 < arguments.len() => {
                keys.truncate(1);
                keys.push(KeyAt { index: index + 1, flags: key_flags![OW UPDATE] });
            }
            _ => {}
        }
        index += 1;
    }
    keys
}

/// Without a condition the value does not matter.
fn keys_of_delex(arguments: &[&[u8]]) -> Vec<KeyAt> {
    let flags = if arguments.len() > 2 { key_flags![RW DELETE] } else { key_flags![RM DELETE] };
    vec![KeyAt { index: 1, flags }]
}

/// One key, or an empty string and the keys after KEYS, which ends the options.
fn keys_of_migrate(arguments: &[&[u8]]) -> Vec<KeyAt> {
    let flags = key_flags![RW ACCESS DELETE];
    if arguments.get(3).is_none_or(|key| !key.is_empty()) {
        return vec![KeyAt { index: 3, flags }];
    }
    let mut index = 6;
    while let Some(word) = arguments.get(index) {
        match word.to_ascii_lowercase().as_slice() {
            b"keys" => {
                return (index + 1..arguments.len()).map(|index| KeyAt { index, flags }).collect();
            }
            b"auth" => index += 1,
            b"auth2" => index += 2,
            _ => {}
        }
        index += 1;
    }
    // The key with the empty name.
    vec![KeyAt { index: 3, flags }]
}

/// The key that is searched, and every destination: the last one is written, but a client that names
/// another must not get past a check of the first alone.
fn keys_of_georadius(options: usize, arguments: &[&[u8]]) -> Vec<KeyAt> {
    let mut keys = vec![KeyAt { index: 1, flags: key_flags![RO ACCESS] }];
    let mut index = options;
    while let Some(word) = arguments.get(index) {
        match word.to_ascii_lowercase().as_slice() {
            b"count" => index += 1,
            b"store" | b"storedist" if index + 1 < arguments.len() => {
                index += 1;
                keys.push(KeyAt { index, flags: key_flags![OW UPDATE] });
            }
            _ => {}
        }
        index += 1;
    }
    keys
}

/// The position after STREAMS, if the options before it are right. A group or a consumer may have that
/// name, too.
fn streams_of_group(arguments: &[&[u8]]) -> Option<i32> {
    let (mut index, mut has_group) = (1, false);
    loop {
        index += match arguments.get(index)?.to_ascii_lowercase().as_slice() {
            b"streams" if has_group => return i32::try_from(index + 1).ok(),
            b"group" => {
                has_group = true;
                3
            }
            b"count" | b"block" | b"claim" | b"maxcount" | b"maxsize" => 2,
            b"noack" => 1,
            _ => return None,
        };
    }
}

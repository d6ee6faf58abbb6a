//! The first line of a script, `#!lua flags=no-writes,allow-oom`, or of a library, `#!lua name=mine`.

use crate::error::{LibraryError, ScriptError};

/// What a script or function says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

impl ScriptFlags {
    /// It calls no commands that write.
    pub const NO_WRITES: Self = Self(1);
    /// It may run when memory is full.
    pub const ALLOW_OOM: Self = Self(1 << 1);
    /// It may run on a replica without its primary.
    pub const ALLOW_STALE: Self = Self(1 << 2);
    /// It must not run in a cluster.
    pub const NO_CLUSTER: Self = Self(1 << 3);
    /// Its keys may be in several slots of a cluster.
    pub const ALLOW_CROSS_SLOT_KEYS: Self = Self(1 << 4);

    const NAMES: [(&'static str, Self); 5] = [
        ("no-writes", Self::NO_WRITES),
        ("allow-oom", Self::ALLOW_OOM),
        ("allow-stale", Self::ALLOW_STALE),
        ("no-cluster", Self::NO_CLUSTER),
        ("allow-cross-slot-keys", Self::ALLOW_CROSS_SLOT_KEYS),
    ];

    /// What a source declares; none if it has no `#!` line, or a wrong one.
    #[must_use]
    pub fn declared_by(source: &[u8]) -> Option<Self> {
        of_script(source).ok()?.0
    }

    /// Whether it has all of `flags`.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The names, as FUNCTION LIST has them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let named = Self::NAMES.into_iter().filter(move |(_, flag)| self.contains(*flag));
        named.map(|(name, _)| name)
    }

    /// The flag of this name.
    pub(crate) fn of_name(name: &[u8]) -> Option<Self> {
        let named = Self::NAMES.into_iter().find(|(known, _)| known.as_bytes() == name);
        named.map(|(_, flag)| flag)
    }

    pub(crate) fn add(&mut self, flags: Self) {
        self.0 |= flags.0;
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The words of the first line, and the source from its end on, so that lines keep their numbers.
fn split_first_line(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = body.iter().position(|byte| *byte == b'\n')?;
    Some(body.split_at(end))
}

fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut text, mut ranges) = (Vec::new(), Vec::new());
    resp::split_words(line, &mut text, &mut ranges)?;
    Some(ranges.into_iter().map(|range| text[range].to_vec()).collect())
}

/// The flags of a script, which has none without a first line, and its source.
pub(crate) fn of_script(body: &[u8]) -> Result<(Option<ScriptFlags>, &[u8]), ScriptError> {
    if !body.starts_with(b"#!") {
        return Ok((None, body));
    }
    let (line, source) = split_first_line(body).ok_or(ScriptError::UnendedShebang)?;
    let words = words(line).ok_or(ScriptError::InvalidShebang)?;
    let Some((engine, options)) = words.split_first() else {
        return Err(ScriptError::InvalidShebang);
    };
    if engine != b"#!lua" {
        return Err(ScriptError::UnknownEngine(lossy(engine)));
    }
    let mut flags = ScriptFlags::default();
    for option in options {
        let Some(names) = option.strip_prefix(b"flags=") else {
            return Err(ScriptError::UnknownOption(lossy(option)));
        };
        if names.is_empty() {
            continue;
        }
        for name in names.split(|byte| *byte == b',') {
            match ScriptFlags::of_name(name) {
                Some(flag) => flags.add(flag),
                None => return Err(ScriptError::UnknownFlag(lossy(name))),
            }
        }
    }
    Ok((Some(flags), source))
}

/// The name of a library, and its source.
pub(crate) fn of_library(code: &[u8]) -> Result<(Vec<u8>, &[u8]), LibraryError> {
    if !code.starts_with(b"#!") {
        return Err(LibraryError::NoMetadata);
    }
    let (line, source) = split_first_line(code).ok_or(LibraryError::InvalidMetadata)?;
    let words = words(line).ok_or(LibraryError::InvalidMetadata)?;
    let Some((engine, options)) = words.split_first() else {
        return Err(LibraryError::InvalidMetadata);
    };
    let mut name = None;
    for option in options {
        match option.split_at_checked(5) {
            Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => {
                if name.replace(value.to_vec()).is_some() {
                    return Err(LibraryError::RepeatedName);
                }
            }
            _ => return Err(LibraryError::UnknownMetadata(lossy(option))),
        }
    }
    let name = name.ok_or(LibraryError::NoName)?;
    if !is_name(&name) {
        return Err(LibraryError::InvalidName);
    }
    let engine = engine.get(2..).unwrap_or_default();
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(LibraryError::UnknownEngine(lossy(engine)));
    }
    Ok((name, source))
}

/// Whether libraries and functions may be called so.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

//! The manifest of an AOF directory: which files there are, and in which order they are loaded.
//!
//! ```text
//!   file appendonly.aof.1.base.rdb seq 1 type b
//!   file appendonly.aof.1.incr.aof seq 1 type i
//! ```
//!
//! Source: Redis' `aof.c`. Lines that begin with `#` are comments; keys that are not known are passed over
//! (Redis 8 adds offsets of replication); files of type `h` are history, which is of no use.

use std::path::Path;

use super::ImportError;

/// The longest line, and the longest file, that is read: Redis allows lines of 1 KiB.
const LINE_BYTES_MAX: usize = 64 << 10;
pub(super) const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// What ends the name of one.
pub(super) const SUFFIX: &str = ".manifest";

/// What begins the name of one that Redis has not put into its place yet.
const UNFINISHED_PREFIX: &str = "temp-";

/// Whether a file of that name in a directory is its manifest.
pub(super) fn is_manifest(name: &str) -> bool {
    name.ends_with(SUFFIX) && !name.starts_with(UNFINISHED_PREFIX)
}

/// The names of the files, the base first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) base: Option<String>,
    pub(super) incremental: Vec<String>,
}

impl Manifest {
    /// The names of the files in the order in which they are loaded.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.base.iter().chain(&self.incremental).map(String::as_str)
    }

    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Self, ImportError> {
        let wrong = |line, what| ImportError::Manifest { path: path.to_owned(), line, what };
        let (mut manifest, mut last_number) = (Self::default(), 0);
        if bytes.is_empty() {
            return Err(wrong(1, "it is empty"));
        }
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let wrong = |what| wrong(index + 1, what);
            if line.first() == Some(&b'#') {
                continue;
            }
            let Some(line) = line.strip_suffix(b"\n") else {
                return Err(wrong("it is cut off"));
            };
            if line.len() > LINE_BYTES_MAX {
                return Err(wrong("it is too long"));
            }
            let file = FileLine::parse(line).map_err(wrong)?;
            match file.kind {
                b'b' if manifest.base.is_some() => {
                    return Err(wrong("there is a second base file"));
                }
                b'b' => manifest.base = Some(file.name),
                b'i' if file.number <= last_number => {
                    return Err(wrong("a file has no higher number than the one before"));
                }
                b'i' => {
                    last_number = file.number;
                    manifest.incremental.push(file.name);
                }
                b'h' => {}
                _ => return Err(wrong("a file has a type that there is not")),
            }
        }
        Ok(manifest)
    }
}

struct FileLine {
    name: String,
    number: u64,
    kind: u8,
}

impl FileLine {
    fn parse(line: &[u8]) -> Result<Self, &'static str> {
        let (mut words, mut ranges) = (Vec::new(), Vec::new());
        resp::split_words(line.trim_ascii(), &mut words, &mut ranges)
            .ok_or("its quotes are unbalanced")?;
        let words: Vec<&[u8]> = ranges.into_iter().map(|range| &words[range]).collect();
        let (mut name, mut number, mut kind) = (None, None, None);
        let (pairs, rest) = words.as_chunks::<2>();
        for [key, value] in pairs {
            let text = std::str::from_utf8(value);
            match key.to_ascii_lowercase().as_slice() {
                b"file" => name = Some(text.map_err(|_| "a file has a name that is no text")?),
                b"seq" => number = text.ok().and_then(|text| text.parse().ok()),
                b"type" => kind = value.first().copied(),
                _ => {}
            }
        }
        let (Some(name), Some(number @ 1..), Some(kind), []) = (name, number, kind, rest) else {
            return Err("a file needs a name, a number and a type");
        };
        if name.is_empty() || name.contains(['/', '\\', '\0']) || matches!(name, "." | "..") {
            return Err("a file's name must be one of this directory");
        }
        Ok(Self { name: name.to_owned(), number, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Manifest, String> {
        Manifest::parse(text.as_bytes(), Path::new("m")).map_err(|error| error.to_string())
    }

    #[test]
    fn base_and_increments_are_found_in_order() {
        let manifest = parse(
            "# made by hand\nfile a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type h\n\
             file \"a \\x41\" seq 7 type i startoffset 3\nFILE b seq 9 TYPE i\n",
        );
        let manifest = manifest.unwrap();
        assert_eq!(manifest.files().collect::<Vec<_>>(), ["a.1.base.rdb", "a A", "b"]);
    }

    #[test]
    fn what_is_no_manifest_is_refused_by_line() {
        for (text, line, says) in [
            ("", 1, "empty"),
            ("file a seq 1 type b\nfile b seq 2 type b\n", 2, "second base"),
            ("file a seq 2 type i\nfile b seq 2 type i\n", 2, "higher number"),
            ("file a seq 1 type i", 1, "cut off"),
            ("file a seq 1 type x\n", 1, "type that there is not"),
            ("file ../a seq 1 type i\n", 1, "of this directory"),
            ("file a seq 1\n", 1, "needs a name"),
            ("file a seq 1 type i more\n", 1, "needs a name"),
            ("file \"a seq 1 type i\n", 1, "quotes"),
            ("file a seq 0 type i\n", 1, "needs a name"),
            ("\n", 1, "needs a name"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(&format!("line {line}: ")) && error.contains(says), "{error}");
        }
    }
}

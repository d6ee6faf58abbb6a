//! Paths as sent over the wire: names between slashes, always relative to their destination.
//!
//! A [`RelativePath`] is harmless by itself: no component is empty, `.` or `..`, none is longer
//! than file systems allow, none contains a NUL, and none is the directory in which transfers keep
//! incomplete files. It may still lead through symbolic links; the code that opens it must refuse
//! those ([`crate::beneath`]).

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The directory below a destination in which files wait until they are complete and verified.
pub const STAGING: &str = ".indelible-transfer";

/// The longest accepted path, in bytes; the kernel's PATH_MAX.
const PATH_MAX: usize = 4096;
/// The longest name; the kernel's NAME_MAX.
const NAME_MAX: usize = 255;

/// A path of one or more names. A name may contain any bytes except `/` and NUL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelativePath(Vec<u8>);

/// Why a path from outside is refused.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("path {path}: {fault}")]
pub struct PathError {
    /// The path; it is shown in printable form.
    path: RelativePath,
    /// What is wrong with it.
    fault: PathFault,
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum PathFault {
    /// No name, or more bytes than a path may have.
    #[error("is empty or longer than 4096 bytes")]
    Length,
    /// A name that would leave the directory.
    #[error("may escape: it contains an empty name, '.' or '..'")]
    Escapes,
    /// A name that no file can have.
    #[error("contains a NUL or a name of more than 255 bytes")]
    Name,
    /// The directory of incomplete files.
    #[error("is reserved for incomplete files")]
    Reserved,
}

impl RelativePath {
    /// Validates a path from outside.
    ///
    /// # Errors
    /// The reason, with the path in printable form.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, PathError> {
        let path = Self(bytes.into());
        match path.fault() {
            Some(fault) => Err(PathError { path, fault }),
            None => Ok(path),
        }
    }

    fn fault(&self) -> Option<PathFault> {
        if self.0.is_empty() || self.0.len() > PATH_MAX {
            return Some(PathFault::Length);
        }
        for name in self.0.split(|&byte| byte == b'/') {
            if matches!(name, b"" | b"." | b"..") {
                return Some(PathFault::Escapes);
            }
            if name.len() > NAME_MAX || name.contains(&0) {
                return Some(PathFault::Name);
            }
        }
        (self.names().next() == Some(STAGING.as_bytes())).then_some(PathFault::Reserved)
    }

    /// Appends a name to this path.
    ///
    /// # Errors
    /// As [`RelativePath::new`].
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        Self::new([&self.0, b"/".as_slice(), name].concat())
    }

    /// The names, from the top.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/')
    }

    /// Splits off the last name; the rest is `None` if there was only one.
    #[must_use]
    pub fn split_last(&self) -> (Option<&[u8]>, &[u8]) {
        match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (Some(&self.0[..at]), &self.0[at + 1..]),
            None => (None, &self.0),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path as a string of the operating system.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// Whether a symbolic link at this path with this target stays inside the tree of the path. A
    /// target may have `..` only at its front, at most as often as the link has directories above
    /// it: after any other name, it could climb out through another link.
    #[must_use]
    pub fn link_stays_inside(&self, target: &[u8]) -> bool {
        if target.is_empty() || target.len() > PATH_MAX || target[0] == b'/' || target.contains(&0)
        {
            return false;
        }
        let mut climbs_left = self.names().count() - 1;
        let mut descended = false;
        for name in target.split(|&byte| byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." if descended || climbs_left == 0 => return false,
                b".." => climbs_left -= 1,
                _ => descended = true,
            }
        }
        true
    }
}

impl AsRef<Path> for RelativePath {
    fn as_ref(&self) -> &Path {
        Path::new(self.as_os_str())
    }
}

/// Prints it with control characters and invalid UTF-8 escaped.
impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.0))
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Returns bytes as unambiguous text that is harmless to a terminal.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => text.push_str("\\\\"),
                char if char.is_control() => text.extend(char.escape_default()),
                char => text.push(char),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text).unwrap()
    }

    #[test]
    fn takes_every_name_that_a_file_may_have() {
        for name in ["a", "a b", "-rf", "\n", "a/b/c", "...", "..a", "\u{1f980}"] {
            assert_eq!(path(name).as_bytes(), name.as_bytes());
        }
        assert!(RelativePath::new(vec![0xff, 0xfe]).is_ok());
        assert!(RelativePath::new(vec![b'x'; 255]).is_ok());
    }

    #[test]
    fn refuses_paths_that_escape() {
        for bad in ["", "/", "/etc/passwd", "..", "a/..", "a/../b", "./a", "a//b", "a/", "a\0b"] {
            assert!(RelativePath::new(bad).is_err(), "{bad:?}");
        }
        assert!(RelativePath::new(vec![b'x'; 256]).is_err());
        assert!(RelativePath::new(".indelible-transfer/x").is_err());
        assert!(RelativePath::new("a/.indelible-transfer").is_ok());
    }

    #[test]
    fn links_may_climb_as_high_as_the_tree_is() {
        assert!(path("link").link_stays_inside(b"file"));
        assert!(path("a/link").link_stays_inside(b"../file"));
        assert!(path("a/b/link").link_stays_inside(b"../../c/./d"));
        assert!(!path("link").link_stays_inside(b"../file"));
        assert!(!path("a/link").link_stays_inside(b"../../file"));
        assert!(!path("a/b/link").link_stays_inside(b"c/../../d"), "c may be a link");
        assert!(!path("link").link_stays_inside(b"/etc/passwd"));
        assert!(!path("link").link_stays_inside(b""));
    }

    #[test]
    fn what_is_shown_is_printable() {
        assert_eq!(printable(b"a\nb\xffc\\"), "a\\nb\\xffc\\\\");
    }
}

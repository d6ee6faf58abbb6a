//! Errors of the system, together with the path that they concern.
//!
//! An [`io::Error`] created from a text has lost its number, and with it the difference between a
//! failing disk and a process that may not open more files. So such errors are created here.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// An error of the system and its path.
#[derive(Debug)]
struct PathError {
    path: PathBuf,
    source: io::Error,
    is_opening: bool,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for PathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Adds the path to an error; its kind and number are kept.
#[must_use]
pub fn about(path: &Path, source: io::Error) -> io::Error {
    wrap(path, source, false)
}

/// As [`about`], for a call that opens or creates a file or directory. Such a call has had no other
/// effect.
#[must_use]
pub fn opening(path: &Path, source: io::Error) -> io::Error {
    wrap(path, source, true)
}

fn wrap(path: &Path, source: io::Error, is_opening: bool) -> io::Error {
    io::Error::new(source.kind(), PathError { path: path.to_owned(), source, is_opening })
}

fn path_error(error: &io::Error) -> Option<&PathError> {
    error.get_ref()?.downcast_ref()
}

/// Returns the system's message, without the path if it is this one. It is for a caller that names
/// the path itself.
#[must_use]
pub fn reason<'a>(path: &Path, error: &'a io::Error) -> &'a dyn fmt::Display {
    match path_error(error) {
        Some(error) if error.path == path => &error.source,
        _ => error,
    }
}

/// Returns the system's number of the error, also after a path was added.
#[must_use]
pub fn system_number(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| path_error(error)?.source.raw_os_error())
}

/// Whether opening failed because the process or the system lacked a descriptor, or the memory for
/// one. Such an error says nothing about the disk. Nothing was changed, and the call may be
/// retried.
#[must_use]
pub fn lacks_descriptor(error: &io::Error) -> bool {
    match system_number(error) {
        // Only a call that opens a file returns this.
        Some(ENFILE | EMFILE) => true,
        // A sync may return this too, and then dirty data may be lost.
        Some(ENOMEM) => path_error(error).is_some_and(|error| error.is_opening),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    #[test]
    fn a_path_hides_neither_the_kind_nor_the_number() {
        let error = about(Path::new("/a"), system(28));
        assert_eq!((error.kind(), system_number(&error)), (io::ErrorKind::StorageFull, Some(28)));
        assert!(error.to_string().starts_with("/a: "), "{error}");
        let reason = |path| reason(Path::new(path), &error).to_string();
        assert!(reason("/a").starts_with("No space left"), "{}", reason("/a"));
        assert!(reason("/b").starts_with("/a: No space left"), "{}", reason("/b"));
        let words = io::Error::other("(os error 24)");
        assert_eq!((system_number(&words), lacks_descriptor(&words)), (None, false));
    }

    #[test]
    fn a_lack_of_descriptors_is_no_failure_of_a_disk() {
        for number in [ENFILE, EMFILE] {
            assert!(lacks_descriptor(&system(number)));
            assert!(lacks_descriptor(&about(Path::new("/a"), system(number))));
        }
        assert!(lacks_descriptor(&opening(Path::new("/a"), system(ENOMEM))));
        assert!(!lacks_descriptor(&about(Path::new("/a"), system(ENOMEM))), "a sync may say so");
        assert!(!lacks_descriptor(&opening(Path::new("/a"), system(5))));
    }
}

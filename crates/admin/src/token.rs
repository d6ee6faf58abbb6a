//! The token that opens the page: one line of a file that only its owner reads and writes.
//!
//! ```text
//!   there? ── yes ─► a short regular file that no other user can change ─► its token
//!        └─── no ──► written under another name, synced, linked to its own ─► the new token
//! ```
//!
//! So a crash leaves no file, or a whole one, and of two processes that make it one reads the other's.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};
use rustix::fs::OFlags;

use crate::error::{AdminError, Result};

/// How many random bytes a token is made of.
const TOKEN_BYTES: usize = 32;

/// Shorter ones, which a person has chosen, are not taken.
pub(crate) const TOKEN_CHARS_MIN: usize = 32;

/// Longer files are refused.
const FILE_BYTES_MAX: u64 = 4096;

/// What a file of a token is found to be.
pub(crate) struct TokenFile {
    pub(crate) token: String,
    /// It was not there, and was made.
    pub(crate) is_new: bool,
    /// Others than its owner can read it.
    pub(crate) is_open_to_others: bool,
}

impl TokenFile {
    /// Reads the file, or makes it with a new token if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if let Some(found) = Self::read(path)? {
            return Ok(found);
        }
        let token = new_token()?;
        let failed = |source| AdminError::TokenFile { path: path.to_owned(), source };
        if make(path, &token).map_err(failed)? {
            return Ok(Self { token, is_new: true, is_open_to_others: false });
        }
        // Another process was faster.
        Self::read(path)?.ok_or_else(|| failed(ErrorKind::NotFound.into()))
    }

    /// Reads the file, if it is there.
    fn read(path: &Path) -> Result<Option<Self>> {
        let failed = |source| AdminError::TokenFile { path: path.to_owned(), source };
        let refused = |why| AdminError::UnsafeTokenFile { path: path.to_owned(), why };
        let mut options = OpenOptions::new();
        // A pipe would wait for its other end.
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file = match options.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(refused("is no regular file"));
        }
        if metadata.len() > FILE_BYTES_MAX {
            return Err(refused("is longer than 4096 bytes"));
        }
        if ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid()) {
            return Err(refused("belongs to another user, which could change it"));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(refused("can be written by others than its owner: chmod 600"));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        let token = text.trim();
        let is_good =
            token.len() >= TOKEN_CHARS_MIN && token.bytes().all(|it| it.is_ascii_graphic());
        if !is_good {
            return Err(AdminError::NoToken { path: path.to_owned() });
        }
        let is_open_to_others = metadata.mode() & 0o077 != 0;
        Ok(Some(Self { token: token.to_owned(), is_new: false, is_open_to_others }))
    }
}

/// Makes the file of a token, whole and synced, under its name; whether it is this one's, and not another process's.
fn make(path: &Path, token: &str) -> io::Result<bool> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.new", std::process::id()));
    let unfinished = Path::new(&unfinished);
    // A file of this process alone: one of that name is of a process that is gone.
    let _none = fs::remove_file(unfinished);
    let made = write_new(unfinished, token).and_then(|()| match fs::hard_link(unfinished, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        // A file system without links.
        Err(_) => fs::rename(unfinished, path).map(|()| true),
    });
    // It is the other name of the file, or of no use.
    let _ignored = fs::remove_file(unfinished);
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    if made.as_ref().is_ok_and(|is_ours| *is_ours) {
        File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
    }
    made
}

fn write_new(path: &Path, token: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // Its mode from the first moment on.
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(format!("{token}\n").as_bytes())?;
    file.sync_all()
}

fn new_token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| AdminError::NoRandomness)?;
    Ok(hex(&bytes))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin-token");
        let made = TokenFile::open(&path).unwrap();
        assert!(made.is_new);
        let names = std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["admin-token"], "nothing unfinished is left");
        assert_eq!(made.token.len(), 64);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let found = TokenFile::open(&path).unwrap();
        assert_eq!(
            (found.token, found.is_new, found.is_open_to_others),
            (made.token, false, false)
        );
    }

    #[test]
    fn a_token_of_an_operator_is_taken_if_it_is_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for (text, is_taken) in
            [("x".repeat(31), false), ("x".repeat(32) + "\n", true), ("x y ".repeat(20), false)]
        {
            std::fs::write(&path, &text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
            let found = TokenFile::open(&path);
            assert_eq!(found.as_ref().is_ok_and(|file| file.is_open_to_others), is_taken, "{text}");
        }
        assert!(TokenFile::open(&dir.path().join("none/token")).is_err());
    }

    #[test]
    fn a_file_of_another_process_is_taken_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let [first, second] = ["1", "2"].map(|it| it.repeat(64));
        assert!(make(&path, &first).unwrap());
        assert!(!make(&path, &second).unwrap());
        assert_eq!(TokenFile::open(&path).unwrap().token, first);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_not_safe_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let why =
            |path: &Path| TokenFile::open(path).err().map_or(String::new(), |it| it.to_string());
        assert!(why(dir.path()).ends_with("is no regular file"), "{}", why(dir.path()));
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert!(why(&path).ends_with("is no regular file"), "a pipe is not waited for");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "x".repeat(4097)).unwrap();
        assert!(why(&path).ends_with("is longer than 4096 bytes"), "{}", why(&path));
        std::fs::write(&path, "x".repeat(4096)).unwrap();
        for (mode, is_refused) in [(0o600, false), (0o644, false), (0o620, true), (0o602, true)] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(why(&path).contains("chmod 600"), is_refused, "{mode:o}");
        }
        // As root, a file can belong to others.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
            assert!(why(&path).contains("belongs to another user"), "{}", why(&path));
        }
    }
}

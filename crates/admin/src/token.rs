//! The token that opens the page: one line of a file that only its owner reads.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};

use crate::error::{AdminError, Result};

/// How many random bytes a token is made of.
const TOKEN_BYTES: usize = 32;

/// Shorter ones, which a person has chosen, are not taken.
pub(crate) const TOKEN_CHARS_MIN: usize = 32;

/// Longer files are not read.
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
        let failed = |source| AdminError::TokenFile { path: path.to_owned(), source };
        match File::open(path) {
            Ok(file) => Self::read(path, file),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let token = new_token()?;
                let mut options = OpenOptions::new();
                // Its mode from the first moment on, and nothing that another process has put there meanwhile.
                let made = options.write(true).create_new(true).mode(0o600).open(path);
                let mut file = made.map_err(failed)?;
                file.write_all(format!("{token}\n").as_bytes()).map_err(failed)?;
                file.sync_all().map_err(failed)?;
                Ok(Self { token, is_new: true, is_open_to_others: false })
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn read(path: &Path, file: File) -> Result<Self> {
        let failed = |source| AdminError::TokenFile { path: path.to_owned(), source };
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        let token = text.trim();
        let is_good =
            token.len() >= TOKEN_CHARS_MIN && token.bytes().all(|it| it.is_ascii_graphic());
        if !is_good {
            return Err(AdminError::NoToken { path: path.to_owned() });
        }
        let is_open_to_others = mode & 0o077 != 0;
        Ok(Self { token: token.to_owned(), is_new: false, is_open_to_others })
    }
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

    #[test]
    fn a_token_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin-token");
        let made = TokenFile::open(&path).unwrap();
        assert!(made.is_new);
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
}

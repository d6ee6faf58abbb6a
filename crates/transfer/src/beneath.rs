//! Opens what is below a directory, and never anything else.
//!
//! `openat2` with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`: the kernel refuses `..` past the
//! top, absolute paths, and every symbolic link on the way, including one that another process
//! creates at this very moment. Linux has had it since 5.6; without it, nothing is transferred.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, openat2};
use rustix::io::Errno;

/// Flags for opening a directory.
pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Opens `path` below `top`.
pub(crate) fn open(
    top: impl AsFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(top.as_fd(), path, flags | OFlags::CLOEXEC, mode, resolve) {
            // The tree was renamed during the walk.
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Opens the directory `path` below `top`; `None` is the top itself.
pub(crate) fn open_directory(top: impl AsFd, path: Option<&[u8]>) -> Result<OwnedFd, Errno> {
    open(top, path.unwrap_or(b"."), DIRECTORY, Mode::empty())
}

/// Opens the directory `path` below `top`, creating its missing parts.
pub(crate) fn create_directory(top: impl AsFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    match open_directory(top.as_fd(), Some(path)) {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    let (parent, name) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (create_directory(top, &path[..at])?, &path[at + 1..]),
        None => (open_directory(top, None)?, path),
    };
    match mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    open_directory(parent, Some(name))
}

/// Describes an error about a path below a directory.
pub(crate) fn explain(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => io::Error::other("the path contains a symbolic link, which is not followed"),
        Errno::XDEV => {
            io::Error::other("the path leads out of the directory, or to another file system")
        }
        Errno::NOSYS => io::Error::other("this requires openat2, which Linux has had since 5.6"),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn neither_links_nor_dots_lead_out() {
        let outside = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        symlink(outside.path(), dir.path().join("absolute")).unwrap();
        symlink("../..", dir.path().join("relative")).unwrap();
        let top = std::fs::File::open(dir.path()).unwrap();
        for path in ["absolute", "relative", "..", "/", "absolute/x"] {
            assert!(open_directory(&top, Some(path.as_bytes())).is_err(), "{path}");
            assert!(create_directory(&top, path.as_bytes()).is_err(), "{path}");
        }
        create_directory(&top, b"a/b/c").unwrap();
        assert!(dir.path().join("a/b/c").is_dir());
    }
}

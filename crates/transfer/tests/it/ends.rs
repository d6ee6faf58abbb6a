//! A server on a free port with its own directory, and calls of a client.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;

use tempfile::TempDir;
use transfer::{
    Limits, Progress, Remote, Report, Result, Scheme, Server, Service, Sessions, Trust,
    Verification,
};

/// No limits, and only as much filler as a test can wait for.
pub(crate) const NO_LIMITS: Limits = Limits { size_max_bytes: None, keep_free_bytes: 0 };

/// A small device, so that tests displace it quickly.
pub(crate) const VERIFICATION: Verification =
    Verification { scheme: Scheme::Spc, verifiers: 2, resends_max: 3, device_cache_bytes: 1 << 20 };

/// A directory below the build directory, on a real file system (`/tmp` may be in memory).
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A server. Its thread lives as long as the tests.
pub(crate) struct Receiver {
    pub(crate) dir: TempDir,
    pub(crate) address: SocketAddr,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::start_with(Trust::Loopback, NO_LIMITS)
    }

    pub(crate) fn start_with(trust: Trust, limits: Limits) -> Self {
        let dir = directory();
        let (dir_path, memory_bytes, device_cache_bytes) = (dir.path().to_owned(), 16 << 20, 0);
        let sessions = Sessions::All;
        let service =
            Service { dir: dir_path, trust, limits, memory_bytes, device_cache_bytes, sessions };
        let server = Server::bind("127.0.0.1:0", service).unwrap();
        let address = server.address().unwrap();
        thread::spawn(move || server.run(&|_line| {}));
        Self { dir, address }
    }

    pub(crate) fn send(&self, path: &Path) -> Result<Report> {
        send(self.address, path, &Trust::Loopback, VERIFICATION)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The number of files in the staging directory.
    pub(crate) fn staged(&self) -> usize {
        let staging = self.dir.path().join(transfer::STAGING);
        std::fs::read_dir(staging)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name() != "lock")
            .count()
    }
}

/// Sends one path.
pub(crate) fn send(
    address: SocketAddr,
    path: &Path,
    trust: &Trust,
    verification: Verification,
) -> Result<Report> {
    let remote: Remote = address.to_string().parse().unwrap();
    transfer::send(&[path.to_owned()], &remote, trust, verification, &Progress::default())
}

/// Random bytes.
pub(crate) fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

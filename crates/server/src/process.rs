//! The process and its deps: directory, pid file, signals, the supervisor.

use rustix::process::setpriority_process;
use rustix::thread::gettid;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use mio::Waker;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};

use crate::logger::Logger;

/// Goes to the data directory, which must exist, and gives its full path.
///
/// # Errors
/// When it cannot be entered.
pub(crate) fn enter_directory(path: &str) -> std::io::Result<PathBuf> {
    std::env::set_current_dir(path)?;
    std::env::current_dir()
}

/// The file with the process id; removed at the end.
pub(crate) struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes it, if there is to be one.
    pub(crate) fn write(path: &str, logger: &Logger) -> Self {
        if path.is_empty() {
            return Self(None);
        }
        match std::fs::write(path, format!("{}\n", std::process::id())) {
            Ok(()) => Self(Some(PathBuf::from(path))),
            Err(error) => {
                logger.warning(&format!("Failed to write PID file {path}: {error}"));
                Self(None)
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It may have been removed already.
            let _ignored = std::fs::remove_file(path);
        }
    }
}

/// Signals that ask for the end of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndSignal {
    /// SIGINT, as a terminal sends it.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl EndSignal {
    /// Returns the directive that says what it does.
    pub(crate) const fn directive(self) -> &'static str {
        match self {
            Self::Interrupt => "shutdown-on-sigint",
            Self::Terminate => "shutdown-on-sigterm",
        }
    }
}

impl std::fmt::Display for EndSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Interrupt { "SIGINT" } else { "SIGTERM" })
    }
}

/// What has come of signals: none, one that was not looked at yet, or one that was.
#[derive(Debug, Default)]
pub(crate) struct Signals(AtomicI32);

/// In place of a signal: one was looked at.
const LOOKED_AT: i32 = -1;

impl Signals {
    /// Takes the signal that has come, once.
    pub(crate) fn take(&self) -> Option<EndSignal> {
        let taken = self.0.load(Ordering::Acquire);
        if taken <= 0 {
            return None;
        }
        self.0.store(LOOKED_AT, Ordering::Release);
        Some(if taken == SIGINT { EndSignal::Interrupt } else { EndSignal::Terminate })
    }

    /// The server does not end for the signal that was taken.
    pub(crate) fn forget(&self) {
        if self.0.load(Ordering::Relaxed) == 0 {
            return;
        }
        let _other = self.0.compare_exchange(LOOKED_AT, 0, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Watches for the signals that end the server: the loop is woken. While it is about to end, SIGINT
/// ends the process at once.
///
/// # Errors
/// When the system refuses.
pub(crate) fn watch_signals(waker: &Arc<Waker>) -> std::io::Result<Arc<Signals>> {
    let came = Arc::new(Signals::default());
    let (seen, waker) = (Arc::clone(&came), Arc::clone(waker));
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP, SIGPIPE])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if signal != SIGTERM && signal != SIGINT {
                continue;
            }
            if seen.0.load(Ordering::Acquire) != 0 && signal == SIGINT {
                std::process::exit(1);
            }
            if seen.0.load(Ordering::Acquire) == 0 {
                seen.0.store(signal, Ordering::Release);
            }
            let _ignored = waker.wake();
        }
    })?;
    Ok(came)
}

/// Tells systemd how we are, if it wants to know.
pub(crate) fn notify_supervisor(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let (Ok(datagram), Ok(address)) = (UnixDatagram::unbound(), address_of(&socket)) else {
        return;
    };
    // A supervisor that does not listen is its own problem.
    let _ignored = datagram.send_to_addr(state.as_bytes(), &address);
}

/// The address that `NOTIFY_SOCKET` names: a path, or an abstract name that begins with `@`.
///
/// # Errors
/// When it is too long for a socket's address.
fn address_of(socket: &OsStr) -> std::io::Result<SocketAddr> {
    match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(socket),
    }
}

/// The niceness of threads that no client waits for, but that must keep up with what clients write: they get a
/// quarter of a core that is always busy.
const BACKGROUND_NICENESS: i32 = 5;

/// The niceness of threads that may take as long as they want to: they get a tenth of such a core.
const UNHURRIED_NICENESS: i32 = 10;

/// Runs at a lower priority, on Linux that of this thread alone: where there are fewer cores than threads,
/// those that a client waits for go first.
pub(crate) fn in_background(run: impl FnOnce()) -> impl FnOnce() {
    with_niceness(BACKGROUND_NICENESS, run)
}

/// Runs at a priority that is lower still.
pub(crate) fn unhurried(run: impl FnOnce()) -> impl FnOnce() {
    with_niceness(UNHURRIED_NICENESS, run)
}

fn with_niceness(niceness: i32, run: impl FnOnce()) -> impl FnOnce() {
    move || {
        let _refused = setpriority_process(Some(gettid()), niceness);
        run();
    }
}

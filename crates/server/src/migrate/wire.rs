//! A connection to the target, as the courier sees it.

use std::io;
use std::time::Duration;

/// A connection to the target. No call takes longer than the timeout that it was made with.
pub trait Wire: Send {
    /// Sends all of these bytes.
    ///
    /// # Errors
    /// When the target does not take them in time, or is gone.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits for a line, and returns it without its end.
    ///
    /// # Errors
    /// When none comes in time, it is far too long, or the target is gone.
    fn line(&mut self) -> io::Result<Vec<u8>>;
}

/// What connects to targets.
pub trait Dialer {
    /// Connects to a target.
    ///
    /// # Errors
    /// When there is none, or it cannot be reached in time.
    fn dial(&mut self, host: &str, port: u16, timeout: Duration) -> io::Result<Box<dyn Wire>>;
}

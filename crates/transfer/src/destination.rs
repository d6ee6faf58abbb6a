//! The place where files go, as the receiver sees it: it stages, verifies and shows them.
//!
//! The real one is [`crate::tree`], a directory of this machine. Tests use another one on a
//! simulated device with three layers, each of which can corrupt what passes through it.
//!
//! At its destination, a file passes through three steps: **staged** (written under a temporary
//! name, out of sight), **settled** (complete, with its final times) and **apparent** (with its
//! permissions, renamed to its place). Or it is discarded. Permissions come last because they may
//! forbid the earlier steps. Several threads may make calls concurrently, for different files.

use std::io;

use env::File;

use crate::message::Origin;

/// A place for the files of one transfer, each named by its number.
pub trait Destination: Send + Sync {
    /// Returns the files that already exist, in whole or in part.
    fn offers(&self) -> Vec<(u32, Origin)>;

    /// Opens the existing data of an offered file for reading.
    ///
    /// # Errors
    /// The error of the operating system.
    fn open_offered(&self, entry: u32, origin: Origin) -> io::Result<Box<dyn File>>;

    /// Opens the staged file for writing: the previously staged one if `keep`, otherwise an empty
    /// one.
    ///
    /// # Errors
    /// The error of the operating system.
    fn stage(&self, entry: u32, keep: bool) -> io::Result<Box<dyn File>>;

    /// Opens the staged file for reading, past the host's cache if `direct` and supported by the
    /// file system. Offsets, lengths and memory must then be multiples of a page.
    ///
    /// # Errors
    /// The error of the operating system.
    fn open_staged(&self, entry: u32, direct: bool) -> io::Result<Box<dyn File>>;

    /// Gives the staged file its times. Durable after the next sync.
    ///
    /// # Errors
    /// The error of the operating system.
    fn settle(&self, entry: u32) -> io::Result<()>;

    /// Makes durable everything that was written to any staged file.
    ///
    /// # Errors
    /// The error of the operating system.
    fn sync_all(&self) -> io::Result<()>;

    /// Moves the staged file to its own name, with its permissions, atomically. Durable after
    /// [`Destination::finish`].
    ///
    /// # Errors
    /// The error of the operating system; the staged file remains.
    fn appear(&self, entry: u32) -> io::Result<()>;

    /// Removes the staged file.
    fn discard(&self, entry: u32);

    /// Creates an empty file for data whose only purpose is to displace other data. It disappears
    /// with the destination.
    ///
    /// # Errors
    /// The error of the operating system.
    fn filler(&self) -> io::Result<Box<dyn File>>;

    /// Creates links, sets the permissions and times of directories, and makes all names durable.
    /// Returns the failures by entry.
    ///
    /// # Errors
    /// If names cannot be made durable.
    fn finish(&self) -> io::Result<Vec<(u32, io::Error)>>;

    /// The estimated size of the device's own cache.
    fn device_cache_bytes(&self) -> u64;
}

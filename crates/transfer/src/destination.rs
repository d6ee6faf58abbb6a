//! Where files go, as the parts of the receiver see it: something that stages, verifies and shows them.
//!
//! The real one is [`crate::tree`], a directory of this machine. Tests have another one on a simulated
//! device with three layers, each of which can be made to corrupt what passes.
//!
//! A file lives at its destination in three steps: **staged** (written under a name of its own, out of
//! sight), **settled** (nothing will be written to it any more, its times are those it shall have) and
//! **apparent** (with its permissions, renamed to where it belongs), or it is discarded. Permissions come
//! last because they may forbid what has to be done before. All calls may come from several threads, for different files.

use std::io;

use env::File;

use crate::message::Origin;

/// A place for the files of one transfer, each named by its number.
pub trait Destination: Send + Sync {
    /// What of the files is there already.
    fn offers(&self) -> Vec<(u32, Origin)>;

    /// Opens what is there of an offered file, for reading.
    ///
    /// # Errors
    /// As the operating system says.
    fn open_offered(&self, entry: u32, origin: Origin) -> io::Result<Box<dyn File>>;

    /// Opens the staged file for writing: what was staged before if `keep`, an empty one otherwise.
    ///
    /// # Errors
    /// As the operating system says.
    fn stage(&self, entry: u32, keep: bool) -> io::Result<Box<dyn File>>;

    /// Opens the staged file for reading, past the host's cache if `direct` and the file system can.
    /// Offsets, lengths and memory are multiples of a page then.
    ///
    /// # Errors
    /// As the operating system says.
    fn open_staged(&self, entry: u32, direct: bool) -> io::Result<Box<dyn File>>;

    /// Gives the staged file its times. Durable after the next sync.
    ///
    /// # Errors
    /// As the operating system says.
    fn settle(&self, entry: u32) -> io::Result<()>;

    /// Makes everything durable that was written to any staged file.
    ///
    /// # Errors
    /// As the operating system says.
    fn sync_all(&self) -> io::Result<()>;

    /// Shows the staged file under its own name, with its permissions, atomically. Durable after [`Destination::finish`].
    ///
    /// # Errors
    /// As the operating system says; the staged file is still there.
    fn appear(&self, entry: u32) -> io::Result<()>;

    /// Forgets the staged file.
    fn discard(&self, entry: u32);

    /// An empty file for data whose only purpose is to displace other data. It is gone when the
    /// destination is.
    ///
    /// # Errors
    /// As the operating system says.
    fn filler(&self) -> io::Result<Box<dyn File>>;

    /// Makes links, gives directories their permissions and times, and makes all names durable.
    /// What could not be done, by entry.
    ///
    /// # Errors
    /// When names cannot be made durable.
    fn finish(&self) -> io::Result<Vec<(u32, io::Error)>>;

    /// Size of the device's own cache, as far as it can be guessed.
    fn device_cache_bytes(&self) -> u64;
}

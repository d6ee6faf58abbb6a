//! `FS_IOC_SHUTDOWN`: a file system that writes nothing more, as if the power were gone.
//!
//! The call has no safe wrapper anywhere; this file has nothing but it. It is one ioctl that reads one
//! integer: 2 means that the journal is not flushed before.

#![expect(unsafe_code, reason = "one ioctl, which has no safe wrapper")]

use rustix::ioctl::{Setter, ioctl, opcode};
use std::fs::File;

/// `FS_IOC_SHUTDOWN` of the kernel's `linux/fs.h`.
const OPCODE: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);

/// `EXT4_GOING_FLAGS_NOLOGFLUSH`.
const WITHOUT_FLUSHING_THE_JOURNAL: u32 = 2;

/// Shuts the file system down that `root` is the open root directory of.
pub(crate) fn shut_down(root: &File) -> std::io::Result<()> {
    // SAFETY: the kernel reads a u32 through the pointer, which the setter keeps alive during the
    // call, and writes nothing to this process's memory.
    unsafe { ioctl(root, Setter::<OPCODE, u32>::new(WITHOUT_FLUSHING_THE_JOURNAL)) }?;
    Ok(())
}

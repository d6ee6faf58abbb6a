//! Gives up capabilities once they are no longer needed, and pins threads to processors.

use rustix::thread::{CapabilitySet, CapabilitySets, CpuSet};

use crate::error::{Error, Result};

/// Drops every capability of the calling thread, and of threads it starts later, for good. Open
/// descriptors remain usable, so the ring continues.
///
/// # Errors
/// If the kernel refuses.
pub fn drop_capabilities() -> Result<()> {
    let failed = |error: rustix::io::Errno| Error::io("giving up capabilities", error);
    rustix::thread::set_no_new_privs(true).map_err(failed)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(failed)
}

/// Pins the calling thread to one processor.
///
/// # Errors
/// If the processor does not exist, or this process may not use it.
pub fn pin_to_cpu(cpu: usize) -> Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Error::io(format!("processor {cpu}"), std::io::ErrorKind::InvalidInput));
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    rustix::thread::sched_setaffinity(None, &cpus)
        .map_err(|error| Error::io(format!("running on processor {cpu}"), error))
}

//! What the process may do, given up once it is no longer needed, and where its threads run.

use rustix::thread::{CapabilitySet, CapabilitySets, CpuSet};

use crate::error::{Error, Result};

/// Gives up every capability of the calling thread and of those that it will start, for good. What is
/// open stays open: the ring goes on.
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

/// Lets the calling thread run on one processor only.
///
/// # Errors
/// If there is no such processor, or it is not this process's to use.
pub fn pin_to_cpu(cpu: usize) -> Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Error::io(format!("processor {cpu}"), std::io::ErrorKind::InvalidInput));
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    rustix::thread::sched_setaffinity(None, &cpus)
        .map_err(|error| Error::io(format!("running on processor {cpu}"), error))
}

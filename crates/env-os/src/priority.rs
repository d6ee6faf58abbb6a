//! How much a thread is worth to the scheduler.
//!
//! # `unsafe`
//!
//! One call of the C library, which reads a struct that outlives it.
#![expect(unsafe_code, reason = "sched_setscheduler(2)")]

use std::io;

/// Makes this thread run only when no other one wants its processor (`SCHED_IDLE`). Where it runs counts as free when
/// a place for another thread is looked for: a thread of a low priority that is not idle has a processor for itself, and
/// two busy ones share the next.
///
/// Without privileges it cannot be taken back.
///
/// # Errors
/// When the kernel refuses.
pub fn stand_back() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is a valid struct for the duration of the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

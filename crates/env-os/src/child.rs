//! A child process that has all memory as of one moment, and sends what it makes of it through a pipe.
//!
//! ```text
//!   parent   fork(2): copies the page tables ─► goes on        reads ◄── pipe ◄── child: runs, and exits
//! ```
//!
//! # `unsafe`
//!
//! `fork` in a process with threads: the child has only the thread that called it. Whatever the other threads
//! were doing stops there; a lock held by one of them is never released. So what the child runs uses nothing that another
//! thread may have locked: only memory that its thread owns, and its pipe. It may allocate, because glibc and jemalloc
//! take their own locks around a fork. It prints nothing, does not unwind into the parent's frames, and
//! exits by `_exit`, which runs none of the parent's destructors and flushes none of its buffers.
#![expect(unsafe_code, reason = "fork(2) and _exit(2)")]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// How long a read waits.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A child process. Reading gives what it sends; `WouldBlock` if nothing comes for a tenth of a second. Dropping it
/// ends it.
pub struct Child {
    pid: Pid,
    output: File,
}

impl Child {
    /// Begins one that does `run`, whose output is the pipe.
    ///
    /// # Errors
    /// When the system has no process, memory or descriptor for it.
    pub fn begin(run: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: the child continues in the branch below with this thread alone, and never returns from it. What it
        // runs is the caller's, which keeps to what the module permits.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // Sockets and files of the parent must not stay open for as long as the child lives. An old kernel refuses, and not every
            // C library has a name for it.
            let kept = writer.as_raw_fd().cast_unsigned();
            // SAFETY: what is closed is used by nothing in this process: not by `run`, and no destructor runs.
            unsafe {
                libc::syscall(libc::SYS_close_range, 3, kept - 1, 0);
                libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0);
            }
            // It must not go on when its parent is gone.
            let _refused = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            let mut writer = File::from(writer);
            let ran = catch_unwind(AssertUnwindSafe(|| run(&mut writer)));
            let status = i32::from(!matches!(ran, Ok(Ok(()))));
            // SAFETY: ends the process without running any code of the parent's.
            unsafe { libc::_exit(status) }
        }
        match Pid::from_raw(pid).filter(|_| pid > 0) {
            Some(pid) => Ok(Self { pid, output: File::from(reader) }),
            None => Err(io::Error::last_os_error()),
        }
    }
}

impl Read for Child {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut polled = [PollFd::new(&self.output, PollFlags::IN)];
        match poll(&mut polled, Some(&WAIT)) {
            Ok(0) | Err(Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(_) => self.output.read(buffer),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Child {
    /// It has nothing left to do, or what it does is no longer wanted.
    fn drop(&mut self) {
        let _gone = kill_process(self.pid, Signal::KILL);
        while matches!(waitpid(Some(self.pid), WaitOptions::empty()), Err(Errno::INTR)) {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn all_of(mut child: Child) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), [0; 1000]);
        loop {
            match child.read(&mut buffer) {
                Ok(0) => return all,
                Ok(count) => all.extend_from_slice(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    #[test]
    fn a_child_has_what_memory_had() {
        let mut value = vec![1_u8; 100_000];
        let child = Child::begin(|output| output.write_all(&value)).unwrap();
        value.fill(2);
        assert_eq!(all_of(child), vec![1; 100_000]);
    }

    #[test]
    fn one_that_is_dropped_ends() {
        let child = Child::begin(|output| {
            loop {
                output.write_all(&[0; 4096])?;
            }
        });
        let child = child.unwrap();
        let pid = child.pid;
        drop(child);
        assert!(rustix::process::test_kill_process(pid).is_err(), "it is gone");
    }

    #[test]
    fn one_that_panics_ends() {
        let child = Child::begin(|_| panic!("as it may")).unwrap();
        assert_eq!(all_of(child), b"");
    }
}

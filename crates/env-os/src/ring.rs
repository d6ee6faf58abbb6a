//! Several reads past the page cache at a time, by io_uring.
//!
//! ```text
//!   reads ── all that fit into the memory ──► submission ring ─┐ one system call,
//!     ▲                                                        │ which waits for all
//!     └── each: its bytes, or read by itself ◄── completions ◄─┘
//! ```
//!
//! A read by a thread of its own costs the processor more than the read: waking the thread, its system
//! call, telling the device of one request, switching back. Sixteen together are told of once.
//!
//! What the ring cannot do is done by [`env::File::read_once_at`]: a file that is read through the cache,
//! bytes that are not aligned, a read that came back short or with an error. So an error is always that of
//! the plain read, and a device that refuses such reads is not asked for them again.
//!
//! # `unsafe`
//!
//! The kernel writes into memory that it was told of while no reference to it exists. Three rules make that
//! sound: the memory belongs to the ring and never moves; [`Ring::round`] returns only when everything
//! that was submitted has completed; and if that cannot be had, ring and memory are leaked together.

#![expect(unsafe_code, reason = "the kernel reads into memory by its address")]

use std::io;
use std::os::fd::AsRawFd;
use std::thread::{self, ThreadId};

use env::{OnceRead, ReadBuffer, ReadTogether};
use io_uring::{IoUring, opcode, types};

use crate::large_pages;
use crate::once_reader::may_pass;

/// So many reads are in flight at most.
const READS_MAX: usize = 32;
/// So often the kernel may say in a row of submissions that it cannot now.
const REFUSALS_MAX: u32 = 100_000;
/// The memory that they read into.
const MEMORY_BYTES: usize = 1 << 20;
/// The alignment of each read's memory, sufficient for every device.
const ALIGNMENT: usize = 4096;

/// See the file's top.
pub(crate) struct Ring {
    /// `None` when it has failed.
    parts: Option<Parts>,
}

struct Parts {
    ring: IoUring,
    memory: ReadBuffer,
    /// The only thread that may use the ring.
    thread: ThreadId,
}

/// A read that is in flight.
struct InFlight {
    /// Its place among all.
    read: usize,
    /// Where in the memory its bytes will be.
    at: usize,
    len: usize,
    /// How many there are; `None` if it was not carried out.
    read_bytes: Option<usize>,
}

impl Ring {
    /// `None` where the kernel has none, or does not permit it to this process.
    pub(crate) fn new() -> Option<Self> {
        let entries = u32::try_from(READS_MAX).expect("few");
        // The thread is woken once, when all it waits for has come, and not by each completion. Kernels before 6.1
        // know no such thing.
        let mut builder = IoUring::builder();
        let ring = builder.setup_single_issuer().setup_defer_taskrun().build(entries);
        let ring = ring.or_else(|_| IoUring::new(entries)).ok()?;
        let mut memory = ReadBuffer::new(MEMORY_BYTES);
        large_pages::advise(memory.large_pages());
        Some(Self { parts: Some(Parts { ring, memory, thread: thread::current().id() }) })
    }

    /// Makes another one if it is another thread's.
    fn move_here(&mut self) {
        if self.parts.as_ref().is_some_and(|parts| parts.thread != thread::current().id()) {
            self.parts = Self::new().and_then(|ring| ring.parts);
        }
    }

    /// Carries out reads that fit into the memory together, and notes how many bytes each has read.
    ///
    /// When it fails, nothing was read, and the ring is no more.
    fn round(&mut self, reads: &[OnceRead<'_>], round: &mut [InFlight]) -> io::Result<()> {
        let Some(Parts { ring, memory, .. }) = &mut self.parts else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut submission = ring.submission();
        let mut submitted = 0;
        for (number, flight) in (0u64..).zip(&*round) {
            let read = &reads[flight.read];
            let Some(file) = read.file.past_cache() else { continue };
            let into = &mut memory[flight.at..flight.at + flight.len];
            let len = u32::try_from(flight.len).expect("at most the memory");
            let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), into.as_mut_ptr(), len)
                .offset(read.offset)
                .build()
                .user_data(number);
            // SAFETY: the memory is the ring's, is borrowed by nothing until all has completed, and no two reads of
            // a round share a byte of it. The file is borrowed for longer than this call, which waits.
            let pushed = unsafe { submission.push(&entry) };
            if pushed.is_err() {
                break;
            }
            submitted += 1;
        }
        drop(submission);
        let (mut waiting, mut refusals) = (submitted, 0);
        while waiting > 0 {
            if let Err(error) = ring.submit_and_wait(waiting) {
                // The kernel lacks memory, was interrupted, or wants completions to be taken first.
                let passes = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
                let passes = error.raw_os_error().is_some_and(|number| passes.contains(&number));
                refusals += u32::from(error.kind() != io::ErrorKind::Interrupted);
                if !passes || refusals > REFUSALS_MAX {
                    // What is in flight may be written to at any time.
                    std::mem::forget(self.parts.take());
                    return Err(error);
                }
                thread::yield_now();
            }
            for completion in ring.completion() {
                #[cfg(test)]
                tests::CARRIED_OUT
                    .set(tests::CARRIED_OUT.get() + u64::from(completion.result() > 0));
                let number = usize::try_from(completion.user_data()).expect("it is a place");
                round[number].read_bytes = usize::try_from(completion.result()).ok();
                waiting -= 1;
            }
        }
        Ok(())
    }
}

impl ReadTogether for Ring {
    fn read(&mut self, reads: &[OnceRead<'_>], each: &mut dyn FnMut(usize, io::Result<&[u8]>)) {
        self.move_here();
        let mut next = 0;
        let (mut round, mut alone) = (Vec::new(), Vec::new());
        while next < reads.len() {
            let mut used = 0;
            while next < reads.len() && round.len() < READS_MAX {
                let OnceRead { file, offset, len } = reads[next];
                let is_for_ring = self.parts.as_ref().is_some_and(|parts| {
                    let fits = len > 0 && len <= MEMORY_BYTES;
                    fits && may_pass(&parts.memory[..len], offset) && file.past_cache().is_some()
                });
                if !is_for_ring {
                    alone.push(next);
                } else if used + len > MEMORY_BYTES {
                    break;
                } else {
                    round.push(InFlight { read: next, at: used, len, read_bytes: None });
                    used = (used + len).next_multiple_of(ALIGNMENT);
                }
                next += 1;
            }
            let carried_out = self.round(reads, &mut round);
            for InFlight { read, at, len, read_bytes } in round.drain(..) {
                match &self.parts {
                    Some(parts) if carried_out.is_ok() && read_bytes == Some(len) => {
                        each(read, Ok(&parts.memory[at..at + len]));
                    }
                    _ => alone.push(read),
                }
            }
            for read in alone.drain(..) {
                let OnceRead { file, offset, len } = reads[read];
                let mut memory = ReadBuffer::new(len);
                let result = file.read_once_at(&mut memory, offset);
                each(read, result.map(|()| &*memory));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::num::NonZeroU64;
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use env::File;
    use rustix::fs::{Advice, fadvise};

    use crate::OsFile;

    use super::*;

    thread_local! {
        /// Reads that rings of this thread have carried out.
        pub(super) static CARRIED_OUT: Cell<u64> = const { Cell::new(0) };
    }

    const FILE_BYTES: usize = (2 << 20) + 700;

    fn byte(seed: usize, at: usize) -> u8 {
        ((at / 512 + at % 7 + seed) % 251).to_le_bytes()[0]
    }

    fn file(dir: &Path, seed: usize) -> OsFile {
        let file = tempfile::tempfile_in(dir).unwrap();
        let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| byte(seed, at)).collect();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        file.sync_all().unwrap();
        // Of every second file the page cache is the better place.
        if seed.is_multiple_of(2) {
            let _refused = fadvise(&file, 0, NonZeroU64::new(FILE_BYTES as u64), Advice::DontNeed);
        }
        OsFile::from(file)
    }

    /// Reads aligned and other pieces, at the end and past it, of several files, more than fit together.
    fn read_pieces(dir: &Path) -> u64 {
        let Some(mut ring) = Ring::new() else {
            println!("skipped: no io_uring");
            return 1;
        };
        let files: Vec<OsFile> = (0..5).map(|seed| file(dir, seed)).collect();
        let mut reads = Vec::new();
        for round in 0..60 {
            for (seed, file) in files.iter().enumerate() {
                let at = (round * 37 + seed * 11) % 120 * 4096;
                let pieces =
                    [(at, 8192), (at, 700 << 10), (at + 1, 511), (1 << 20, 2 << 20), (0, 0)];
                let (offset, len) = pieces[round % 5];
                reads.push((seed, OnceRead { file, offset: offset as u64, len }));
            }
            let end = FILE_BYTES / 4096 * 4096;
            reads.push((1, OnceRead { file: &files[1], offset: end as u64, len: 700 }));
            reads.push((2, OnceRead { file: &files[2], offset: end as u64, len: 4096 }));
        }
        let wanted: Vec<OnceRead<'_>> = reads.iter().map(|(_, read)| *read).collect();
        let mut told = vec![0; wanted.len()];
        ring.read(&wanted, &mut |which, result| {
            told[which] += 1;
            let (seed, OnceRead { offset, len, .. }) = reads[which];
            let offset = usize::try_from(offset).unwrap();
            match result {
                Ok(bytes) => {
                    assert_eq!(bytes.len(), len);
                    let mut expected = (offset..offset + len).map(|at| byte(seed, at));
                    assert!(bytes.iter().all(|it| Some(*it) == expected.next()), "{which}");
                }
                Err(error) => {
                    assert!(offset + len > FILE_BYTES, "{len} bytes at {offset}: {error}");
                    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                }
            }
        });
        assert!(told.iter().all(|times| *times == 1), "each was told of once");
        assert!(ring.parts.is_some(), "the ring has not failed");
        CARRIED_OUT.take()
    }

    #[test]
    fn each_read_has_its_bytes_on_every_file_system() {
        read_pieces(&std::env::temp_dir());
        let carried_out = read_pieces(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(carried_out > 0, "the ring has read");
        let in_memory = Path::new("/dev/shm");
        if in_memory.is_dir() {
            read_pieces(in_memory);
        }
    }

    #[test]
    fn a_thread_that_is_interrupted_all_the_time_reads_everything() {
        static SIGNALS: AtomicU64 = AtomicU64::new(0);
        extern "C" fn count(_: libc::c_int) {
            SIGNALS.fetch_add(1, Ordering::Relaxed);
        }
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: zeros are an action, with no flags: what is interrupted is not begun again. The handler may be
        // called anywhere, and the action is read before this ends.
        unsafe {
            (*action.as_mut_ptr()).sa_sigaction = count as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGUSR1, action.as_ptr(), std::ptr::null_mut()), 0);
        }
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let reader = thread::spawn(|| read_pieces(dir));
        let thread = std::os::unix::thread::JoinHandleExt::as_pthread_t(&reader);
        while !reader.is_finished() {
            // SAFETY: the thread was not joined.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            // Without a pause it would do nothing but be interrupted.
            thread::sleep(std::time::Duration::from_micros(200));
        }
        assert!(reader.join().unwrap() > 0, "the ring has read");
        assert!(SIGNALS.load(Ordering::Relaxed) > 0, "it was interrupted");
    }

    /// A file whose descriptor for reads past the cache cannot be read.
    struct Refusing {
        file: OsFile,
        directory: std::fs::File,
    }

    impl File for Refusing {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.file.read_at(buf, offset)
        }

        fn past_cache(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            Some(std::os::fd::AsFd::as_fd(&self.directory))
        }

        fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            unreachable!()
        }

        fn sync_data(&self) -> io::Result<()> {
            unreachable!()
        }

        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!()
        }

        fn allocate(&self, _: u64, _: u64) -> io::Result<()> {
            unreachable!()
        }
    }

    #[test]
    fn what_the_ring_cannot_read_is_read_by_itself() {
        let Some(mut ring) = Ring::new() else {
            println!("skipped: no io_uring");
            return;
        };
        let directory = std::fs::File::open("/").unwrap();
        let file = Refusing { file: file(&std::env::temp_dir(), 3), directory };
        let reads: Vec<_> =
            (0..40).map(|at| OnceRead { file: &file, offset: at * 4096, len: 4096 }).collect();
        let mut told = 0;
        let mut read = |ring: &mut Ring| {
            ring.read(&reads, &mut |which, result| {
                told += 1;
                let (from, read) = (which * 4096, result.unwrap());
                assert!(read.iter().enumerate().all(|(at, it)| *it == byte(3, from + at)));
            });
        };
        read(&mut ring);
        // And by another thread.
        thread::scope(|scope| scope.spawn(|| read(&mut ring)).join().unwrap());
        assert_eq!(told, 80);
        assert!(ring.parts.is_some(), "it has not failed");
    }
}

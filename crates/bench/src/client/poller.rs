//! Waits for sockets: which of them can be read, or written again.

use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};

/// Up to this, a wait ends on time; above, the kernel rounds it up to milliseconds.
const EXACT_NS: u64 = 20_000_000;
const EVENTS_MAX: usize = 1024;

/// See the file's top.
pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Adds a socket, until it is closed. It is told again only when more has come, so all of it must be read.
    pub(super) fn add(&self, stream: &TcpStream, number: usize) -> std::io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        Ok(epoll::add(&self.epoll, stream, EventData::new_u64(number as u64), flags)?)
    }

    /// Waits until a socket can be read or written, at most so long.
    ///
    /// Puts the numbers of those that can be read, or are closed, into `ready`.
    pub(super) fn wait(
        &mut self,
        mut timeout_ns: u64,
        ready: &mut Vec<usize>,
    ) -> std::io::Result<()> {
        let timespec = |ns: u64| Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        };
        ready.clear();
        if (1..EXACT_NS).contains(&timeout_ns) {
            let mut all = [PollFd::new(&self.epoll, PollFlags::IN)];
            uninterrupted(rustix::event::poll(&mut all, Some(&timespec(timeout_ns))))?;
            timeout_ns = 0;
        }
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        uninterrupted(epoll::wait(&self.epoll, room, Some(&timespec(timeout_ns))))?;
        let is_readable = |event: &&Event| {
            let flags = event.flags;
            flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
        };
        let number = |event: &Event| usize::try_from(event.data.u64()).expect("it was a usize");
        ready.extend(self.events.iter().filter(is_readable).map(number));
        Ok(())
    }
}

/// A wait that a signal ended has found nothing.
fn uninterrupted(waited: rustix::io::Result<usize>) -> std::io::Result<()> {
    match waited {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

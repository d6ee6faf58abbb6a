//! Capture: takes the packets of the server's port out of the kernel.
//!
//! ```text
//!   interface ─► filter (in the kernel) ─► ring (shared memory) ─► packet ─► Segment
//!                 address, port, TCP        64 blocks of 1 MiB      headers
//!                 with bytes                full: counted           taken off
//! ```
//!
//! The kernel counts packets that find no room in the ring. A count above 0 is a gap whose
//! connection is unknown; the losses of each connection show in its sequence numbers.
//!
//! The filter is classic BPF, which every kernel runs for every socket, even where eBPF programs
//! cannot be loaded. It is attached before the socket receives, so no other packet ever arrives.

mod filter;
mod packet;
mod privilege;
mod ring;

use std::io;
use std::time::Duration;

pub use packet::{Server, parse};
pub use privilege::{drop_capabilities, pin_to_cpu};

use crate::entry::Time;
use crate::error::{Error, Result};
use crate::reassembly::Segment;
use ring::{Ring, Socket};

/// The hardware type of loopback.
const LOOPBACK: u16 = 772;

/// A capture on one interface.
#[derive(Debug)]
pub struct Capture {
    ring: Ring,
    server: Server,
    interface: String,
}

/// Blocks taken at once.
const BLOCKS_MAX: usize = 4;

/// Packet counts since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets of the server, whether they were captured or found no room in the ring.
    pub packets: u64,
    /// Packets lost because they found no room.
    pub dropped: u64,
}

impl Capture {
    /// Captures packets of `server` on `interface`, with a ring of `ring_blocks` blocks of 1 MiB.
    ///
    /// # Errors
    /// If the interface does not exist or is down, or this process may not capture.
    pub fn open(interface: &str, server: Server, ring_blocks: usize) -> Result<Self> {
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::MayNotCapture,
            _ => Error::io(format!("cannot capture on {interface}"), error),
        };
        let socket = Socket::new().map_err(refused)?;
        let index = socket
            .interface(interface)
            .map_err(|_| Error::NoInterface { interface: interface.into() })?;
        socket.bind(index, false).map_err(refused)?;
        let is_loopback = socket.hardware_type().map_err(refused)? == LOOPBACK;
        socket.attach(&filter::program(&server, is_loopback)).map_err(refused)?;
        if is_loopback {
            socket.ignore_outgoing();
        }
        let ring = socket.into_ring(ring_blocks).map_err(refused)?;
        ring.bind(index).map_err(|error| match error.raw_os_error() {
            Some(libc::ENETDOWN) => Error::InterfaceDown { interface: interface.into() },
            _ => refused(error),
        })?;
        Ok(Self { ring, server, interface: interface.into() })
    }

    /// Passes every segment that has arrived to `hear`, after waiting at most `patience` for the
    /// first. Returns how many blocks they filled.
    ///
    /// # Errors
    /// If the interface has disappeared or was shut down.
    pub fn take(
        &mut self,
        patience: Duration,
        mut hear: impl FnMut(&Segment<'_>, Time),
    ) -> Result<usize> {
        if !self.ring.is_ready() {
            self.wait(patience)?;
        }
        let mut blocks = 0;
        while let Some(block) = self.ring.block() {
            for frame in block.frames() {
                let segment = packet::parse(frame.packet, &self.server, frame.is_unchecked);
                if let Some(segment) = segment {
                    hear(&segment, frame.at);
                }
            }
            blocks += 1;
            // The caller has other work now and then, even if the ring is never empty.
            if blocks == BLOCKS_MAX {
                break;
            }
        }
        Ok(blocks)
    }

    /// Returns the packets captured and lost since the last call.
    ///
    /// # Errors
    /// If the kernel returns an error.
    pub fn passed(&self) -> Result<Passed> {
        let statistics = self
            .ring
            .statistics()
            .map_err(|error| Error::io("reading the statistics of the packet ring", error))?;
        Ok(Passed { packets: statistics.passed, dropped: statistics.dropped })
    }

    fn wait(&self, patience: Duration) -> Result<()> {
        self.ring.wait(patience).map_err(|error| match error.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO) => {
                Error::InterfaceDown { interface: self.interface.clone() }
            }
            _ => Error::io(format!("waiting for packets on {}", self.interface), error),
        })
    }
}

//! The packet ring: a socket of `AF_PACKET` whose packets the kernel writes into memory that this
//! process has mapped (`TPACKET_V3`), so that a packet costs no system call.
//!
//! ```text
//!   ┌ block 0 ────────────────┐┌ block 1 ─┐┌ block 2 ─┐
//!   │ status │ frame │ frame… ││ status   ││ status   │ …   and round again
//!   └─────────────────────────┘└──────────┘└──────────┘
//!     ours: read, give back      kernel's: being filled
//! ```
//!
//! # `unsafe`
//!
//! System calls without a safe wrapper (socket options, `bind` with a link-layer address, `mmap`),
//! and the mapped memory. The status word of a block names its owner: the kernel sets
//! `TP_STATUS_USER` when it has filled a block, and does not touch the block again until this
//! process has cleared the word. A [`Block`] exists only in between, borrows the ring, and returns
//! the block when dropped. Offsets in a block are verified before use.

#![expect(unsafe_code, reason = "the packet ring is memory shared with the kernel")]

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::filter::Instruction;
use crate::entry::Time;

/// The bytes of a block. Below 128 KiB, the 64 KiB segments of loopback would be truncated.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// A hint for the kernel's own arithmetic; in version 3, frames have any length.
const FRAME_BYTES: u32 = 2048;
/// The kernel releases a block after this time even if it is not full. Each release interrupts a
/// processor, and uses up a block of the ring however little is in it.
const RETIRE_MS: u32 = 40;
/// The offset of a block's status word.
const STATUS_AT: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, block_status);
const FRAMES_AT: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, num_pkts);
const FIRST_AT: usize = offset_of!(libc::tpacket_block_desc, hdr)
    + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);

/// A socket that does not receive yet.
#[derive(Debug)]
pub(super) struct Socket {
    descriptor: OwnedFd,
}

/// A socket with its ring, receiving.
#[derive(Debug)]
pub(super) struct Ring {
    socket: Socket,
    map: NonNull<u8>,
    blocks: usize,
    /// The block to read next.
    next: usize,
}

// SAFETY: this value alone owns the mapping, and the mapping is not tied to a thread.
unsafe impl Send for Ring {}

/// Packet counts since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    /// Packets that passed the filter, including those that found no room.
    pub(super) passed: u64,
    /// Packets that found no room.
    pub(super) dropped: u64,
}

impl Socket {
    /// Creates a socket that sees packets from their IP header on.
    pub(super) fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let descriptor = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?;
        Ok(Self { descriptor })
    }

    /// Returns the number of the interface `name`.
    pub(super) fn interface(&self, name: &str) -> io::Result<u32> {
        Ok(rustix::net::netdevice::name_to_index(&self.descriptor, name)?)
    }

    /// Binds the socket to an interface, to receive all its packets or none.
    pub(super) fn bind(&self, interface: u32, receives: bool) -> io::Result<()> {
        let protocol = if receives { libc::ETH_P_ALL } else { 0 };
        let address = libc::sockaddr_ll {
            sll_family: family(),
            sll_protocol: u16::try_from(protocol).expect("an EtherType").to_be(),
            sll_ifindex: i32::try_from(interface).map_err(io::Error::other)?,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the descriptor is open; the call reads one link-layer address of the length
        // given.
        let returned = unsafe {
            libc::bind(
                self.descriptor.as_raw_fd(),
                (&raw const address).cast(),
                socklen::<libc::sockaddr_ll>(),
            )
        };
        check(returned)?;
        rustix::net::sockopt::socket_error(&self.descriptor)??;
        Ok(())
    }

    /// Returns the hardware type of the bound interface (`ARPHRD_…`).
    pub(super) fn hardware_type(&self) -> io::Result<u16> {
        let mut address = libc::sockaddr_ll {
            sll_family: 0,
            sll_protocol: 0,
            sll_ifindex: 0,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let mut length = socklen::<libc::sockaddr_ll>();
        // SAFETY: the descriptor is open; the call writes at most `length` bytes of the address.
        let returned = unsafe {
            libc::getsockname(
                self.descriptor.as_raw_fd(),
                (&raw mut address).cast(),
                &raw mut length,
            )
        };
        check(returned)?;
        Ok(address.sll_hatype)
    }

    /// Attaches `program`: from now on, only packets that it accepts pass.
    pub(super) fn attach(&self, program: &[Instruction]) -> io::Result<()> {
        let mut instructions: Vec<libc::sock_filter> = program
            .iter()
            .map(|Instruction { code, if_true, if_false, k }| libc::sock_filter {
                code: *code,
                jt: *if_true,
                jf: *if_false,
                k: *k,
            })
            .collect();
        let program = libc::sock_fprog {
            len: u16::try_from(instructions.len()).map_err(io::Error::other)?,
            filter: instructions.as_mut_ptr(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Ignores packets that this machine sends, if the kernel supports it (4.20). Loopback carries
    /// everything twice, and the filter would copy each header only to reject it.
    pub(super) fn ignore_outgoing(&self) {
        let yes: libc::c_int = 1;
        let _told_anyway = self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &yes);
    }

    /// Creates a ring of `blocks` blocks.
    pub(super) fn into_ring(self, blocks: usize) -> io::Result<Ring> {
        let count = u32::try_from(blocks).map_err(io::Error::other)?;
        let block_bytes = u32::try_from(BLOCK_BYTES).expect("a block is small");
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req3 {
            tp_block_size: block_bytes,
            tp_block_nr: count,
            tp_frame_size: FRAME_BYTES,
            tp_frame_nr: block_bytes / FRAME_BYTES * count,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping, at an address that the kernel chooses, of the ring just created
        // and of its length; it is unmapped when the value is dropped.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * BLOCK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.descriptor.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Ring { socket: self, map, blocks, next: 0 })
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: the descriptor is open; the call reads one `T`, the type of these options, and a
        // filter's instructions, which outlive it.
        check(unsafe {
            libc::setsockopt(
                self.descriptor.as_raw_fd(),
                level,
                option,
                std::ptr::from_ref(value).cast(),
                socklen::<T>(),
            )
        })
    }
}

impl Ring {
    /// Waits for a block, at most for `patience`. An interface that has disappeared is an error.
    pub(super) fn wait(&self, patience: Duration) -> io::Result<()> {
        let mut descriptors =
            [PollFd::new(&self.socket.descriptor, PollFlags::IN | PollFlags::ERR)];
        let timeout = patience.try_into().map_err(io::Error::other)?;
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if descriptors[0].revents().contains(PollFlags::ERR) {
            rustix::net::sockopt::socket_error(&self.socket.descriptor)??;
        }
        Ok(())
    }

    /// Whether the kernel has finished a block.
    pub(super) fn is_ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Returns the next block that the kernel has finished.
    pub(super) fn block(&mut self) -> Option<Block<'_>> {
        if self.is_ready() { Some(Block { ring: self }) } else { None }
    }

    /// Returns the packets passed and dropped since the last call.
    pub(super) fn statistics(&self) -> io::Result<Statistics> {
        let mut counts = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let mut length = socklen::<libc::tpacket_stats_v3>();
        // SAFETY: the descriptor is open; the call writes at most `length` bytes of the counts.
        check(unsafe {
            libc::getsockopt(
                self.socket.descriptor.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        })?;
        Ok(Statistics { passed: counts.tp_packets.into(), dropped: counts.tp_drops.into() })
    }

    /// Begins to receive the packets of an interface.
    pub(super) fn bind(&self, interface: u32) -> io::Result<()> {
        self.socket.bind(interface, true)
    }

    fn begin(&self) -> NonNull<u8> {
        // SAFETY: `next` is below `blocks`, so this is inside the mapping.
        unsafe { self.map.add(self.next * BLOCK_BYTES) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status word is inside the block and aligned, because a block begins at a
        // page; the mapping lives as long as `self`, and both sides access the word atomically.
        unsafe { AtomicU32::from_ptr(self.begin().add(STATUS_AT).as_ptr().cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was created with this length and no reference into it exists: blocks
        // borrow the ring. A failure leaves it mapped, which is harmless.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.blocks * BLOCK_BYTES) };
    }
}

/// A block that the kernel has finished; returned to it when dropped.
#[derive(Debug)]
pub(super) struct Block<'a> {
    ring: &'a mut Ring,
}

impl Block<'_> {
    /// Iterates over its packets.
    pub(super) fn frames(&self) -> Frames<'_> {
        // SAFETY: the kernel has finished this block and does not write to it while this value
        // exists; the block is inside the mapping, and the slice does not outlive the borrow of the
        // ring.
        let bytes = unsafe { std::slice::from_raw_parts(self.ring.begin().as_ptr(), BLOCK_BYTES) };
        let word = |at| u32_at(bytes, at).expect("a block is longer than its head");
        Frames { bytes, at: word(FIRST_AT) as usize, left: word(FRAMES_AT) }
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        self.ring.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.ring.next = (self.ring.next + 1) % self.ring.blocks;
    }
}

/// The packets of a block.
pub(super) struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u32,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// The bytes from the IP header on, as far as they were captured.
    pub(super) packet: &'a [u8],
    /// When it passed.
    pub(super) at: Time,
    /// Whether it has a checksum that neither the hardware nor the kernel has verified.
    pub(super) is_unchecked: bool,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        self.left = self.left.checked_sub(1)?;
        let head = self.bytes.get(self.at..)?;
        let word = |at| u32_at(head, at);
        let status = word(offset_of!(libc::tpacket3_hdr, tp_status))?;
        let captured = word(offset_of!(libc::tpacket3_hdr, tp_snaplen))? as usize;
        let seconds = word(offset_of!(libc::tpacket3_hdr, tp_sec))?;
        let nanoseconds = word(offset_of!(libc::tpacket3_hdr, tp_nsec))?;
        let network_at = offset_of!(libc::tpacket3_hdr, tp_net);
        let begin = usize::from(u16::from_ne_bytes(
            head.get(network_at..network_at + 2)?.try_into().expect("two bytes"),
        ));
        let packet = head.get(begin..begin + captured)?;
        self.at += word(offset_of!(libc::tpacket3_hdr, tp_next_offset))? as usize;
        let checked = libc::TP_STATUS_CSUM_VALID | libc::TP_STATUS_CSUMNOTREADY;
        Some(Frame {
            packet,
            at: Time(u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds)),
            is_unchecked: status & checked == 0,
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().expect("four bytes")))
}

fn family() -> u16 {
    u16::try_from(libc::AF_PACKET).expect("families are small numbers")
}

fn socklen<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("structures of the kernel are small")
}

fn check(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

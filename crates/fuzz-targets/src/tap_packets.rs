//! Packets as they may pass by: whatever they are, the bytes and gaps of each direction of a connection
//! follow one another without an overlap or a jump, and a connection ends once.
//!
//! The input is packets, each behind its length in two bytes.

use std::net::SocketAddr;

use tap::capture::{Server, parse};
use tap::protocol::Side;
use tap::reassembly::{Handler, Limits, Table};
use tap::{GapReason, Time};

const LIMITS: Limits = Limits { waiting_bytes: 4096, connections: 64 };

/// Where each direction of a connection goes on.
#[derive(Default)]
struct Places {
    next: [Option<u32>; 2],
}

struct Judge;

impl Places {
    fn go_on(&mut self, side: Side, sequence: u32, bytes: u64) {
        let next = &mut self.next[side as usize];
        assert!(next.is_none_or(|next| next == sequence), "bytes follow one another");
        let bytes = u32::try_from(bytes).expect("a window is smaller");
        *next = Some(sequence.wrapping_add(bytes));
    }
}

impl Handler for Judge {
    type Connection = Places;

    fn opened(&mut self, _: SocketAddr, _: SocketAddr, _: Time) -> Places {
        Places::default()
    }

    fn bytes(&mut self, places: &mut Places, side: Side, sequence: u32, bytes: &[u8], _: Time) {
        assert!(!bytes.is_empty(), "nothing is not told");
        places.go_on(side, sequence, bytes.len() as u64);
    }

    fn gap(
        &mut self,
        places: &mut Places,
        side: Side,
        sequence: u32,
        missing: u64,
        reason: GapReason,
        _: Time,
    ) {
        assert!(missing > 0 || reason == GapReason::MidStream, "a gap of nothing is none");
        places.go_on(side, sequence, missing);
    }

    fn closed(&mut self, _: Places, _: Time) {}
}

pub(crate) fn run(input: &[u8]) {
    let server = Server { port: 6379, addresses: Vec::new() };
    let mut table = Table::new(LIMITS);
    let mut rest = input;
    let mut at = 0;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (packet, behind) = behind.split_at(length);
        rest = behind;
        at += 1;
        if let Some(segment) = parse(packet, &server, false) {
            table.segment(&segment, Time(at), &mut Judge);
        }
        assert!(table.open_count() <= LIMITS.connections);
    }
}

fn packet(is_request: bool, sequence: u32, acknowledged: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    let total = u16::try_from(40 + bytes.len()).expect("a seed is short");
    let ports: [u16; 2] = if is_request { [40_000, 6379] } else { [6379, 40_000] };
    let hosts: [u8; 2] = if is_request { [7, 1] } else { [1, 7] };
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&total.to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 0, 64, 6, 0, 0]);
    hosts.iter().for_each(|host| packet.extend_from_slice(&[192, 0, 2, *host]));
    ports.iter().for_each(|port| packet.extend_from_slice(&port.to_be_bytes()));
    packet.extend_from_slice(&sequence.to_be_bytes());
    packet.extend_from_slice(&acknowledged.to_be_bytes());
    packet.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend_from_slice(bytes);
    [&total.to_le_bytes()[..], &packet].concat()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const ACK: u8 = 16;
    let first = u32::MAX - 3;
    let begin = [
        packet(true, first, 0, SYN, b""),
        packet(false, 99, first.wrapping_add(1), SYN | ACK, b""),
    ];
    let opened = begin.concat();
    let at = |place: u32| first.wrapping_add(1 + place);
    let whole = [
        opened.clone(),
        packet(true, at(0), 100, ACK, b"PING\r\n"),
        packet(false, 100, at(6), ACK, b"+PONG\r\n"),
        packet(true, at(6), 107, FIN | ACK, b""),
        packet(false, 107, at(7), FIN | ACK, b""),
    ];
    let disordered = [
        opened.clone(),
        packet(true, at(4), 100, ACK, b"\r\n"),
        packet(true, at(0), 100, ACK, b"PIN"),
        packet(true, at(2), 100, ACK, b"NG"),
        packet(false, 100, at(60), ACK, b"+"),
        packet(true, at(60), 0, RST, b""),
    ];
    let middle =
        [packet(false, 100, at(6), ACK, b"+PONG\r\n"), packet(true, at(6), 107, ACK, b"X")];
    vec![whole.concat(), disordered.concat(), middle.concat()]
}

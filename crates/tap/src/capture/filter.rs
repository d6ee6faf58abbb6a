//! The packet filter: a program in classic BPF that the kernel runs on every packet of the
//! interface, so that only those of the server are copied (the paper's packet filter).
//!
//! It sees packets from their IP header on. It passes TCP segments to or from the server's port,
//! and address if any are given, that carry bytes or SYN, FIN or RST. Pure acknowledgements do not
//! pass: the next segment with bytes repeats what they say.
//!
//! It runs in the context of the packet's sender, and its cost is its reads: each read is a call.
//! So it reads four whole words, and extracts the fields from them.

use std::net::IpAddr;

use super::packet::Server;

/// An instruction: `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// The operation.
    pub(super) code: u16,
    /// Instructions to skip if the comparison holds.
    pub(super) if_true: u8,
    /// Instructions to skip if it does not.
    pub(super) if_false: u8,
    /// The operand.
    pub(super) k: u32,
}

// Classic BPF: class, size and mode, operation, source (linux/bpf_common.h, linux/filter.h).
const LD_WORD: u16 = 0x20;
const LD_WORD_AT_X: u16 = 0x40;
const LD_HALF_AT_X: u16 = 0x48;
const LD_MEM: u16 = 0x60;
const LDX_IMMEDIATE: u16 = 0x01;
const LDX_MEM: u16 = 0x61;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ADD_X: u16 = 0x0c;
const AND: u16 = 0x54;
const RSH: u16 = 0x74;
const TAX: u16 = 0x07;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_X: u16 = 0x2d;
const JUMP_SET: u16 = 0x45;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;

/// The kind of packet (from, to, through this machine), at a pseudo-offset.
const PACKET_TYPE: u32 = 0xffff_f004;
const OUTGOING: u32 = 4;
/// Accept as much of the packet as there is.
const WHOLE: u32 = 0xffff_ffff;
/// Words of scratch memory.
const LENGTH: u32 = 0;
const HEADERS: u32 = 1;
const WORD: u32 = 2;

/// The target of a jump.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    Accept,
    Drop,
    /// The instruction that [`Assembler::label`] marks with this number.
    Label(usize),
}

/// A program with unresolved jumps.
#[derive(Default)]
struct Assembler {
    lines: Vec<(u16, u32, To, To)>,
    labels: Vec<Option<usize>>,
}

impl Assembler {
    fn new_label(&mut self) -> usize {
        self.labels.push(None);
        self.labels.len() - 1
    }

    fn label(&mut self, label: usize) {
        self.labels[label] = Some(self.lines.len());
    }

    fn run(&mut self, code: u16, k: u32) {
        self.lines.push((code, k, To::Next, To::Next));
    }

    fn jump(&mut self, code: u16, k: u32, if_true: To, if_false: To) {
        self.lines.push((code, k, if_true, if_false));
    }

    /// Assembles the program: the lines, then "accept", then "drop".
    fn assemble(self) -> Vec<Instruction> {
        let accept = self.lines.len();
        let place = |at: usize, to: To| match to {
            To::Next => at + 1,
            To::Accept => accept,
            To::Drop => accept + 1,
            To::Label(label) => self.labels[label].expect("every label is placed"),
        };
        let mut program: Vec<Instruction> = Vec::with_capacity(accept + 2);
        for (at, (code, k, if_true, if_false)) in self.lines.iter().enumerate() {
            let skip = |to| place(at, to) - at - 1;
            let is_conditional = matches!(*code, JUMP_EQUAL | JUMP_GREATER_X | JUMP_SET);
            let short = |to| u8::try_from(skip(to)).expect("the program is short");
            program.push(if is_conditional {
                let (if_true, if_false) = (short(*if_true), short(*if_false));
                Instruction { code: *code, if_true, if_false, k: *k }
            } else {
                let k = match *code {
                    JUMP => u32::try_from(skip(*if_true)).expect("the program is short"),
                    _ => *k,
                };
                Instruction { code: *code, if_true: 0, if_false: 0, k }
            });
        }
        for k in [WHOLE, 0] {
            program.push(Instruction { code: RETURN, if_true: 0, if_false: 0, k });
        }
        program
    }
}

/// The most addresses of one IP version that the program compares.
const ADDRESSES_MAX: usize = 8;

/// Builds the program for the packets of `server`. On loopback, every packet passes twice, outgoing
/// and incoming: with `drops_outgoing`, it is captured once. More than eight addresses are compared
/// only after capture.
#[must_use]
pub(super) fn program(server: &Server, drops_outgoing: bool) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let (version_4, version_6, payload) = (a.new_label(), a.new_label(), a.new_label());
    if drops_outgoing {
        a.run(LD_WORD, PACKET_TYPE);
        a.jump(JUMP_EQUAL, OUTGOING, To::Drop, To::Next);
    }
    a.run(LD_WORD, 0);
    a.run(ST, WORD);
    a.run(RSH, 28);
    a.jump(JUMP_EQUAL, 4, To::Label(version_4), To::Next);
    a.jump(JUMP_EQUAL, 6, To::Label(version_6), To::Drop);

    a.label(version_4);
    a.run(LD_MEM, WORD);
    a.run(AND, 0xffff);
    a.run(ST, LENGTH);
    a.run(LD_MEM, WORD);
    // The low half of the first byte is the header length in words.
    a.run(RSH, 22);
    a.run(AND, 0x3c);
    a.run(TAX, 0);
    a.run(STX, HEADERS);
    // Fragment offset, time to live, protocol.
    a.run(LD_WORD, 6);
    a.run(AND, 0x1fff_00ff);
    a.jump(JUMP_EQUAL, 6, To::Next, To::Drop);
    let words = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => Some(vec![u32::from(*ip)]),
        IpAddr::V6(_) => None,
    };
    ends(&mut a, server, [12, 16], words, payload);

    a.label(version_6);
    // Length, protocol, hop limit.
    a.run(LD_WORD, 4);
    a.run(ST, WORD);
    a.run(AND, 0xff00);
    a.jump(JUMP_EQUAL, 0x0600, To::Next, To::Drop);
    a.run(LD_MEM, WORD);
    a.run(RSH, 16);
    // The length excludes the fixed header; 0 means that it did not fit, as in version 4.
    let fits = a.new_label();
    a.jump(JUMP_EQUAL, 0, To::Label(fits), To::Next);
    a.run(LDX_IMMEDIATE, 40);
    a.run(ADD_X, 0);
    a.label(fits);
    a.run(ST, LENGTH);
    a.run(LDX_IMMEDIATE, 40);
    a.run(STX, HEADERS);
    let words = |ip: &IpAddr| match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(ip) => {
            let word =
                |at: usize| u32::from(ip.segments()[at]) << 16 | u32::from(ip.segments()[at + 1]);
            Some(vec![word(0), word(2), word(4), word(6)])
        }
    };
    ends(&mut a, server, [8, 24], words, payload);

    a.label(payload);
    a.run(LDX_MEM, HEADERS);
    // The length of the TCP header in words, and its flags.
    a.run(LD_HALF_AT_X, 12);
    a.jump(JUMP_SET, 0b111, To::Accept, To::Next);
    a.run(ST, WORD);
    a.run(LD_MEM, LENGTH);
    a.jump(JUMP_EQUAL, 0, To::Accept, To::Next);
    a.run(LD_MEM, WORD);
    a.run(AND, 0xf000);
    a.run(RSH, 10);
    a.run(ADD_X, 0);
    a.run(TAX, 0);
    a.run(LD_MEM, LENGTH);
    a.jump(JUMP_GREATER_X, 0, To::Accept, To::Drop);
    a.assemble()
}

/// Compares the two addresses of a packet, found at `places`, and its ports with the server.
/// Continues at `found`, or drops. X is the length of the IP header.
fn ends(
    a: &mut Assembler,
    server: &Server,
    places: [u32; 2],
    words: impl Fn(&IpAddr) -> Option<Vec<u32>>,
    found: usize,
) {
    let addresses: Vec<Vec<u32>> = server.addresses.iter().filter_map(words).collect();
    let port = u32::from(server.port);
    a.run(LD_WORD_AT_X, 0);
    a.run(ST, WORD);
    // The source port comes first in the TCP header, the destination port two bytes later.
    for (place, (operation, k)) in places.into_iter().zip([(RSH, 16), (AND, 0xffff)]) {
        let other_end = a.new_label();
        a.run(LD_MEM, WORD);
        a.run(operation, k);
        a.jump(JUMP_EQUAL, port, To::Next, To::Label(other_end));
        if server.addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
            a.jump(JUMP, 0, To::Label(found), To::Next);
        }
        for address in addresses.iter().take(ADDRESSES_MAX) {
            let next_address = a.new_label();
            for (at, word) in address.iter().enumerate() {
                let at = u32::try_from(at).expect("an address has four words at most");
                a.run(LD_WORD, place + 4 * at);
                a.jump(JUMP_EQUAL, *word, To::Next, To::Label(next_address));
            }
            a.jump(JUMP, 0, To::Label(found), To::Next);
            a.label(next_address);
        }
        a.label(other_end);
    }
    a.jump(JUMP, 0, To::Drop, To::Next);
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::{ends, packet};
    use super::*;

    const ACK: u8 = 16;

    /// Runs a program on a packet as the kernel does. Returns how much of the packet passes.
    fn run(program: &[Instruction], packet: &[u8], packet_type: u32) -> u32 {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; 16]);
        let mut at = 0;
        loop {
            let Instruction { code, if_true, if_false, k } = program[at];
            at += 1;
            let load = |place: u32, len: usize| {
                let place = usize::try_from(place).expect("64 bits");
                let bytes = packet.get(place..place + len)?;
                Some(bytes.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)))
            };
            let loaded = match code {
                LD_WORD if k == PACKET_TYPE => Some(packet_type),
                LD_WORD => load(k, 4),
                LD_WORD_AT_X => load(x + k, 4),
                LD_HALF_AT_X => load(x + k, 2),
                LD_MEM => Some(memory[k as usize]),
                _ => Some(a),
            };
            // On a read past the end of the packet, the kernel drops it.
            let Some(loaded) = loaded else { return 0 };
            a = loaded;
            let mut jump =
                |is_true: bool| at += usize::from(if is_true { if_true } else { if_false });
            match code {
                LDX_IMMEDIATE => x = k,
                LDX_MEM => x = memory[k as usize],
                ST => memory[k as usize] = a,
                STX => memory[k as usize] = x,
                ADD_X => a += x,
                AND => a &= k,
                RSH => a >>= k,
                TAX => x = a,
                JUMP_EQUAL => jump(a == k),
                JUMP_GREATER_X => jump(a > x),
                JUMP_SET => jump(a & k != 0),
                JUMP => at += k as usize,
                RETURN => return k,
                _ => {}
            }
        }
    }

    fn passes(server: &Server, packet: &[u8]) -> bool {
        run(&program(server, false), packet, 0) != 0
    }

    #[test]
    fn bytes_and_flags_to_and_from_the_server_pass_and_nothing_else() {
        for (client, end) in ends() {
            let server = Server { port: end.port(), addresses: Vec::new() };
            for (from, to) in [(client, end), (end, client)] {
                assert!(passes(&server, &packet(from, to, ACK, b"x")));
                assert!(!passes(&server, &packet(from, to, ACK, b"")));
                for flag in [1, 2, 4] {
                    assert!(passes(&server, &packet(from, to, ACK | flag, b"")));
                }
                // Longer than its length field can express.
                assert!(passes(&server, &packet(from, to, ACK, &[b'x'; 70_000])));
                let other = Server { port: 6380, ..server.clone() };
                assert!(!passes(&other, &packet(from, to, ACK, b"x")));
            }
            let mut udp = packet(client, end, ACK, b"x");
            let protocol_at = if end.is_ipv4() { 9 } else { 6 };
            udp[protocol_at] = 17;
            assert!(!passes(&server, &udp));
        }
    }

    #[test]
    fn addresses_are_compared_with_the_end_that_has_the_port() {
        let [(client, end), (client_6, end_6)] = ends();
        let far = "198.51.100.1".parse().expect("an address");
        let server = Server { port: end.port(), addresses: vec![far, end_6.ip(), end.ip()] };
        for (client, end) in [(client, end), (client_6, end_6)] {
            assert!(passes(&server, &packet(client, end, ACK, b"x")));
            assert!(passes(&server, &packet(end, client, ACK, b"x")));
        }
        let only_far = Server { port: end.port(), addresses: vec![far] };
        assert!(!passes(&only_far, &packet(client, end, ACK, b"x")));
        assert!(!passes(&only_far, &packet(client_6, end_6, ACK, b"x")));
        let clients = Server { port: end.port(), addresses: vec![client.ip()] };
        assert!(!passes(&clients, &packet(client, end, ACK, b"x")));
    }

    #[test]
    fn as_many_addresses_as_there_is_room_for_are_compared() {
        for (client, end) in ends() {
            let far = (1..ADDRESSES_MAX)
                .flat_map(|n| [format!("198.51.100.{n}"), format!("2001:db8:1::{n}")]);
            let mut addresses: Vec<IpAddr> =
                far.map(|text| text.parse().expect("an address")).collect();
            addresses.extend(ends().map(|(_, end)| end.ip()));
            let server = Server { port: end.port(), addresses };
            assert!(passes(&server, &packet(client, end, ACK, b"x")));
            assert!(passes(&server, &packet(end, client, ACK, b"x")));
            assert!(!passes(&server, &packet(client, client, ACK, b"x")));
        }
    }

    #[test]
    fn on_loopback_what_goes_out_is_dropped() {
        let [(client, end), _] = ends();
        let server = Server { port: end.port(), addresses: Vec::new() };
        let program = program(&server, true);
        let bytes = packet(client, end, ACK, b"x");
        assert_eq!(run(&program, &bytes, OUTGOING), 0);
        assert_eq!(run(&program, &bytes, 0), WHOLE);
    }

    #[test]
    fn fragments_and_short_packets_are_dropped() {
        let [(client, end), _] = ends();
        let server = Server { port: end.port(), addresses: Vec::new() };
        let mut fragment = packet(client, end, ACK, b"x");
        fragment[7] = 1;
        assert!(!passes(&server, &fragment));
        let whole = packet(client, end, ACK, b"x");
        for cut in 0..whole.len() - 21 {
            assert!(!passes(&server, &whole[..cut]), "cut at {cut}");
        }
    }
}

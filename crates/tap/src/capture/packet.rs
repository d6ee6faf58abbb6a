//! Parses the bytes of an IP packet into a TCP segment of one of the server's connections: the
//! paper's frame/packet header parser and packet extractor.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::protocol::Side;
use crate::reassembly::Segment;

const TCP: u8 = 6;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// The endpoint whose packets are captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Its port.
    pub port: u16,
    /// Its addresses; empty for any.
    pub addresses: Vec<IpAddr>,
}

impl Server {
    pub(super) fn is(&self, end: SocketAddr) -> bool {
        end.port() == self.port && (self.addresses.is_empty() || self.addresses.contains(&end.ip()))
    }
}

/// Parses an IP packet; `None` unless it has a complete TCP header to or from the server. The
/// payload ends where the captured bytes end. `checks` asks to verify the checksum, because neither
/// the hardware nor the kernel has; the receiver ignores a segment with a wrong one.
#[must_use]
pub fn parse<'a>(packet: &'a [u8], server: &Server, checks: bool) -> Option<Segment<'a>> {
    let (from, to, segment) = match packet.first()? >> 4 {
        4 => version_4(packet)?,
        6 => version_6(packet)?,
        _ => return None,
    };
    if segment.len() < 20 || (checks && checksum(from, to, segment) != 0) {
        return None;
    }
    let header_bytes = usize::from(segment[12] >> 4) * 4;
    let payload = segment.get(header_bytes.max(20)..)?;
    let source = SocketAddr::new(from, u16_at(segment, 0));
    let destination = SocketAddr::new(to, u16_at(segment, 2));
    let (client, server, side) = if server.is(destination) {
        (source, destination, Side::Client)
    } else if server.is(source) {
        (destination, source, Side::Server)
    } else {
        return None;
    };
    let flags = segment[13];
    Some(Segment {
        client,
        server,
        side,
        sequence: u32_at(segment, 4),
        acknowledgment: (flags & ACK != 0).then(|| u32_at(segment, 8)),
        syn: flags & SYN != 0,
        fin: flags & FIN != 0,
        rst: flags & RST != 0,
        payload,
    })
}

fn version_4(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    if packet.len() < 20 || packet[9] != TCP || u16_at(packet, 6) & 0x1fff != 0 {
        return None;
    }
    let header_bytes = usize::from(packet[0] & 15) * 4;
    let segment = trimmed(packet, usize::from(u16_at(packet, 2))).get(header_bytes.max(20)..)?;
    let address = |at: usize| {
        let octets: [u8; 4] = packet[at..at + 4].try_into().expect("four bytes");
        IpAddr::from(Ipv4Addr::from(octets))
    };
    Some((address(12), address(16), segment))
}

fn version_6(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    if packet.len() < 40 || packet[6] != TCP {
        return None;
    }
    let payload_bytes = usize::from(u16_at(packet, 4));
    let total = if payload_bytes == 0 { 0 } else { 40 + payload_bytes };
    let address = |at: usize| {
        let octets: [u8; 16] = packet[at..at + 16].try_into().expect("sixteen bytes");
        IpAddr::from(Ipv6Addr::from(octets))
    };
    Some((address(8), address(24), &trimmed(packet, total)[40..]))
}

/// Returns the packet without the padding of its frame. The length is 0 where it does not fit its
/// field, in packets that the kernel has not segmented yet.
fn trimmed(packet: &[u8], total: usize) -> &[u8] {
    if total == 0 { packet } else { &packet[..total.clamp(20, packet.len())] }
}

/// Computes the internet checksum of a segment and its pseudo-header; 0 if it is right.
fn checksum(from: IpAddr, to: IpAddr, segment: &[u8]) -> u16 {
    let mut sum = u64::from(TCP) + segment.len() as u64;
    for ip in [from, to] {
        sum += match ip {
            IpAddr::V4(ip) => sum_of_words(&ip.octets()),
            IpAddr::V6(ip) => sum_of_words(&ip.octets()),
        };
    }
    sum += sum_of_words(segment);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("it was folded")
}

fn sum_of_words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2);
    words.map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |low| u64::from(*low))).sum()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IP packet with a TCP segment, checksum and all.
    pub(in crate::capture) fn packet(
        from: SocketAddr,
        to: SocketAddr,
        flags: u8,
        payload: &[u8],
    ) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend_from_slice(&from.port().to_be_bytes());
        tcp.extend_from_slice(&to.port().to_be_bytes());
        tcp.extend_from_slice(&0x0102_0304_u32.to_be_bytes());
        tcp.extend_from_slice(&0x0a0b_0c0d_u32.to_be_bytes());
        // Two words of options: no-operations.
        tcp.extend_from_slice(&[7 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend_from_slice(&[1; 8]);
        tcp.extend_from_slice(payload);
        let sum = checksum(from.ip(), to.ip(), &tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let mut ip = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let total = u16::try_from(24 + tcp.len()).unwrap_or(0).to_be_bytes();
                let mut ip = vec![0x46, 0, total[0], total[1], 0, 0, 0x40, 0, 64, TCP, 0, 0];
                ip.extend_from_slice(&from.octets());
                ip.extend_from_slice(&to.octets());
                ip.extend_from_slice(&[1; 4]);
                ip
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let length = u16::try_from(tcp.len()).unwrap_or(0).to_be_bytes();
                let mut ip = vec![0x60, 0, 0, 0, length[0], length[1], TCP, 64];
                ip.extend_from_slice(&from.octets());
                ip.extend_from_slice(&to.octets());
                ip
            }
            _ => panic!("one version at a time"),
        };
        ip.extend_from_slice(&tcp);
        ip
    }

    pub(in crate::capture) fn ends() -> [(SocketAddr, SocketAddr); 2] {
        let end = |text: &str| text.parse::<SocketAddr>().expect("an address");
        [
            (end("192.0.2.7:40000"), end("192.0.2.1:6379")),
            (end("[2001:db8::7]:40000"), end("[2001:db8::1]:6379")),
        ]
    }

    fn server() -> Server {
        Server { port: 6379, addresses: Vec::new() }
    }

    #[test]
    fn headers_and_payload_are_found() {
        for (client, server_end) in ends() {
            let request = packet(client, server_end, ACK, b"request");
            let segment = parse(&request, &server(), true).expect("a segment");
            assert_eq!((segment.client, segment.server), (client, server_end));
            assert_eq!(segment.side, Side::Client);
            assert_eq!(segment.payload, b"request");
            assert_eq!(segment.sequence, 0x0102_0304);
            assert_eq!(segment.acknowledgment, Some(0x0a0b_0c0d));
            let mut reply = packet(server_end, client, SYN | FIN, b"");
            // The frame was shorter than the Ethernet minimum.
            reply.extend_from_slice(&[0; 6]);
            let segment = parse(&reply, &server(), true).expect("a segment");
            assert_eq!((segment.client, segment.side), (client, Side::Server));
            assert!(segment.syn && segment.fin && !segment.rst);
            assert_eq!((segment.payload, segment.acknowledgment), (&b""[..], None));
        }
    }

    #[test]
    fn packets_too_long_for_their_length_field_are_taken_whole() {
        for (client, server_end) in ends() {
            let bytes = vec![b'x'; 100_000];
            let request = packet(client, server_end, ACK, &bytes);
            assert_eq!(parse(&request, &server(), true).expect("a segment").payload, bytes);
        }
    }

    #[test]
    fn a_wrong_checksum_is_not_heard_unless_there_is_none_yet() {
        for (client, server_end) in ends() {
            let mut request = packet(client, server_end, ACK, b"request");
            *request.last_mut().expect("bytes") ^= 1;
            assert!(parse(&request, &server(), true).is_none());
            assert!(parse(&request, &server(), false).is_some());
        }
    }

    #[test]
    fn other_ports_addresses_and_fragments_are_not_the_servers() {
        let [(client, server_end), _] = ends();
        let request = packet(client, server_end, ACK, b"request");
        let elsewhere = Server { port: 6379, addresses: vec![client.ip()] };
        assert!(parse(&request, &elsewhere, true).is_none());
        assert!(parse(&request, &Server { port: 6380, addresses: Vec::new() }, true).is_none());
        let mut fragment = request;
        fragment[7] = 1;
        assert!(parse(&fragment, &server(), false).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_not(bytes: Vec<u8>, flips: Vec<(usize, u8)>, cut in 0..80usize) {
            let _ = parse(&bytes, &server(), false);
            for (client, server_end) in ends() {
                let mut packet = packet(client, server_end, ACK, b"request");
                for (at, with) in &flips {
                    let at = at % packet.len();
                    packet[at] ^= with;
                }
                packet.truncate(cut);
                let _ = parse(&packet, &server(), false);
            }
        }
    }
}

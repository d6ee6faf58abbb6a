//! Measures how many requests per second one processor handles, from packets to batches ready to be
//! written: `cargo test --release -p indelible-tap --lib throughput -- --ignored --nocapture`.
//!
//! The packets are those of `redis-benchmark -t set -P 16 -d 100`, with the requests of one round
//! in one segment and the answers in another; and those of a client that waits for each answer.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::counters::Counters;
use super::recorder::Recorder;
use super::{BATCH_BYTES, Options};
use crate::capture::{Server, parse};
use crate::entry::Time;
use crate::log::{Keep, Settings, Writer};
use crate::protocol::Protocol;
use crate::reassembly::{Limits, Table};

const CONNECTIONS: usize = 50;
const PORT: u16 = 6379;
const SEQUENCE_AT: usize = 24;
const ACKNOWLEDGMENT_AT: usize = 28;

pub(super) fn options() -> Options {
    Options {
        interface: "lo".into(),
        server: Server { port: PORT, addresses: Vec::new() },
        protocol: Protocol::Resp,
        dir: PathBuf::new(),
        segment_bytes: 1 << 30,
        keep: Keep::default(),
        sync_interval: Duration::from_millis(100),
        logs_read_only: false,
        ring_blocks: 64,
        queue_bytes: 1 << 30,
        capture_cpu: None,
        writer_cpu: None,
    }
}

/// Builds an IPv4 packet without checksums, as on loopback.
fn packet(from: SocketAddr, to: SocketAddr, flags: u8, payload: &[u8]) -> Vec<u8> {
    let total = u16::try_from(40 + payload.len()).expect("a short packet").to_be_bytes();
    let mut packet = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet.extend_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
    packet.extend_from_slice(&from.port().to_be_bytes());
    packet.extend_from_slice(&to.port().to_be_bytes());
    packet.extend_from_slice(&[0; 8]);
    packet.extend_from_slice(&[5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend_from_slice(payload);
    packet
}

/// One client: its requests and answers of one round.
struct Client {
    request: Vec<u8>,
    reply: Vec<u8>,
    sent: u32,
    answered: u32,
}

impl Client {
    fn new(number: usize, pipeline: usize) -> Self {
        let port = u16::try_from(40_000 + number).expect("a port");
        let client = SocketAddr::from(([127, 0, 0, 1], port));
        let server = SocketAddr::from(([127, 0, 0, 1], PORT));
        let value = "x".repeat(100);
        let request: String = (0..pipeline)
            .map(|key| format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n$100\r\n{value}\r\n"))
            .collect();
        Self {
            request: packet(client, server, 0x18, request.as_bytes()),
            reply: packet(server, client, 0x18, "+OK\r\n".repeat(pipeline).as_bytes()),
            sent: 1,
            answered: 1,
        }
    }
}

/// Sets the sequence and acknowledgment numbers of a packet.
fn place(packet: &mut [u8], sequence: u32, acknowledgment: u32) {
    packet[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence.to_be_bytes());
    packet[ACKNOWLEDGMENT_AT..ACKNOWLEDGMENT_AT + 4].copy_from_slice(&acknowledgment.to_be_bytes());
}

fn requests_a_second(pipeline: usize, rounds: usize) -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings { protocol: "resp".into(), keep: Keep::default() };
    let disk = Arc::new(env_os::OsDisk);
    let writer = Writer::open(disk, &dir.path().join("log"), settings, Time(1)).expect("a log");
    let counters = Arc::new(Counters::default());
    let options = options();
    let mut recorder = Recorder::new(&options, counters.clone(), &writer);
    let mut table = Table::new(Limits::default());
    let mut clients: Vec<Client> =
        (0..CONNECTIONS).map(|number| Client::new(number, pipeline)).collect();
    for client in &mut clients {
        let mut opening = client.request[..40].to_vec();
        opening[2..4].copy_from_slice(&40_u16.to_be_bytes());
        opening[33] = 2;
        let segment = parse(&opening, &options.server, false).expect("a segment");
        table.segment(&segment, Time(1), &mut recorder);
    }
    let began = Instant::now();
    let mut now = 1_795_338_900_000_000_000;
    for _ in 0..rounds {
        for client in &mut clients {
            let length = |packet: &[u8]| u32::try_from(packet.len() - 40).expect("short");
            now += 5_000;
            place(&mut client.request, client.sent, client.answered);
            client.sent = client.sent.wrapping_add(length(&client.request));
            let segment = parse(&client.request, &options.server, false).expect("a segment");
            table.segment(&segment, Time(now), &mut recorder);
            now += 5_000;
            place(&mut client.reply, client.answered, client.sent);
            client.answered = client.answered.wrapping_add(length(&client.reply));
            let segment = parse(&client.reply, &options.server, false).expect("a segment");
            table.segment(&segment, Time(now), &mut recorder);
            if recorder.batch_bytes() >= BATCH_BYTES {
                recorder.discard();
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let requests = CONNECTIONS * rounds * pipeline;
    let (heard, _) = counters.requests(crate::entry::Class::Query);
    assert_eq!(heard, requests as u64);
    assert_eq!(counters.gap_count(), 0);
    requests as f64 / seconds
}

#[test]
#[ignore = "a measurement"]
fn throughput() {
    for (pipeline, rounds) in [(16, 10_000), (1, 40_000)] {
        let best = (0..3).map(|_| requests_a_second(pipeline, rounds)).fold(0.0, f64::max);
        println!("pipeline {pipeline}: {:.2} million requests a second", best / 1e6);
    }
}

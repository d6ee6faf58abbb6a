//! Segments as a network delivers two streams, and the reassembled result.

use std::net::SocketAddr;

use proptest::prelude::*;
use tap::protocol::Side;
use tap::reassembly::{Handler, Limits, Segment, Table};
use tap::{GapReason, Time};

/// The reports about one stream: places filled with bytes, or missing.
#[derive(Clone, Debug, Default, PartialEq)]
struct Heard {
    /// `None` where bytes are missing.
    bytes: Vec<Option<u8>>,
    gaps: Vec<(u64, GapReason)>,
}

/// The reports about one connection.
#[derive(Clone, Debug, Default, PartialEq)]
struct Conversation {
    client: Heard,
    server: Heard,
    next_sequences: [Option<u32>; 2],
    is_closed: bool,
}

/// Records everything.
#[derive(Default)]
struct Recorder {
    conversations: Vec<Conversation>,
}

impl Recorder {
    fn heard(&mut self, connection: usize, side: Side, sequence: u32, length: u64) -> &mut Heard {
        let conversation = &mut self.conversations[connection];
        let next = &mut conversation.next_sequences[side as usize];
        assert!(next.is_none_or(|next| next == sequence), "numbers follow one another");
        *next = Some(sequence.wrapping_add(u32::try_from(length).unwrap()));
        match side {
            Side::Client => &mut conversation.client,
            Side::Server => &mut conversation.server,
        }
    }
}

impl Handler for Recorder {
    type Connection = usize;

    fn opened(&mut self, _: SocketAddr, _: SocketAddr, _: Time) -> usize {
        self.conversations.push(Conversation::default());
        self.conversations.len() - 1
    }

    fn bytes(&mut self, connection: &mut usize, side: Side, sequence: u32, bytes: &[u8], _: Time) {
        let heard = self.heard(*connection, side, sequence, bytes.len() as u64);
        heard.bytes.extend(bytes.iter().copied().map(Some));
    }

    fn gap(
        &mut self,
        connection: &mut usize,
        side: Side,
        sequence: u32,
        missing: u64,
        reason: GapReason,
        _: Time,
    ) {
        let heard = self.heard(*connection, side, sequence, missing);
        heard.bytes.extend((0..missing).map(|_| None));
        heard.gaps.push((missing, reason));
    }

    fn closed(&mut self, connection: usize, _: Time) {
        assert!(!self.conversations[connection].is_closed, "it ends once");
        self.conversations[connection].is_closed = true;
    }
}

/// One end of a connection.
#[derive(Clone, Copy)]
struct End {
    side: Side,
    /// The sequence number of its SYN.
    syn: u32,
}

impl End {
    fn segment<'a>(
        self,
        place: usize,
        payload: &'a [u8],
        acknowledgment: Option<u32>,
    ) -> Segment<'a> {
        Segment {
            client: "[2001:db8::2]:50000".parse().unwrap(),
            server: "[2001:db8::1]:6379".parse().unwrap(),
            side: self.side,
            sequence: self.number(place),
            acknowledgment,
            syn: false,
            fin: false,
            rst: false,
            payload,
        }
    }

    fn number(self, place: usize) -> u32 {
        self.syn.wrapping_add(1).wrapping_add(u32::try_from(place).unwrap())
    }

    fn opening(self, acknowledgment: Option<u32>) -> Segment<'static> {
        Segment { syn: true, sequence: self.syn, ..self.segment(0, &[], acknowledgment) }
    }

    fn fin(self, place: usize, acknowledgment: u32) -> Segment<'static> {
        Segment { fin: true, ..self.segment(place, &[], Some(acknowledgment)) }
    }

    fn rst(self, place: usize) -> Segment<'static> {
        Segment { rst: true, ..self.segment(place, &[], None) }
    }
}

const CLIENT: End = End { side: Side::Client, syn: 1000 };
const SERVER: End = End { side: Side::Server, syn: u32::MAX - 2 };

fn feed(segments: &[Segment<'_>], limits: Limits) -> Vec<Conversation> {
    let mut table = Table::new(limits);
    let mut recorder = Recorder::default();
    for (at, segment) in segments.iter().enumerate() {
        table.segment(segment, Time(at as u64), &mut recorder);
    }
    recorder.conversations
}

fn opened() -> Vec<Segment<'static>> {
    vec![CLIENT.opening(None), SERVER.opening(Some(CLIENT.number(0)))]
}

fn known(bytes: &[u8]) -> Vec<Option<u8>> {
    bytes.iter().copied().map(Some).collect()
}

/// A part of a stream that is sent. It has an offset, a length, and how far back in the order it is
/// moved.
type Part = (usize, usize, usize);

/// Splits a stream into parts that cover it, plus arbitrary parts.
fn parts(length: usize) -> impl Strategy<Value = Vec<Part>> {
    let cuts = proptest::collection::vec((1..40usize, 0..12usize), length..=length);
    let extra = proptest::collection::vec((0..length.max(1), 1..60usize, 0..40usize), 0..12);
    (cuts, extra).prop_map(move |(cuts, extra)| {
        let mut parts = Vec::new();
        let mut place = 0;
        for (bytes, late) in cuts {
            if place >= length {
                break;
            }
            let bytes = bytes.min(length - place);
            parts.push((place, bytes, parts.len() + late));
            place += bytes;
        }
        for (place, bytes, order) in extra {
            parts.push((place, bytes.min(length - place), order));
        }
        parts.sort_by_key(|(_, _, order)| *order);
        parts
    })
}

fn stream() -> impl Strategy<Value = (Vec<u8>, Vec<Part>)> {
    proptest::collection::vec(any::<u8>(), 1..400)
        .prop_flat_map(|bytes| (parts(bytes.len()), Just(bytes)).prop_map(|(p, b)| (b, p)))
}

proptest! {
    #[test]
    fn whatever_the_order_the_bytes_come_out_as_they_were_sent(
        (bytes, parts) in stream(),
        syn: u32,
    ) {
        let client = End { syn, ..CLIENT };
        let mut segments = vec![client.opening(None), SERVER.opening(Some(client.number(0)))];
        for (place, length, _) in parts {
            segments.push(client.segment(place, &bytes[place..place + length], None));
        }
        let conversations = feed(&segments, Limits::default());
        prop_assert_eq!(conversations.len(), 1);
        prop_assert_eq!(&conversations[0].client.bytes, &known(&bytes));
        prop_assert_eq!(&conversations[0].client.gaps, &[]);
    }

    #[test]
    fn what_is_lost_is_told_and_nothing_else(
        (bytes, parts) in stream(),
        lost in proptest::collection::vec(any::<bool>(), 500),
        syn: u32,
        waiting_bytes in 1..500usize,
    ) {
        let client = End { syn, ..CLIENT };
        let mut segments = vec![client.opening(None), SERVER.opening(Some(client.number(0)))];
        let mut arrived = vec![false; bytes.len()];
        let mut seen = vec![false; bytes.len()];
        let mut missed = vec![false; bytes.len()];
        for ((place, length, _), is_lost) in parts.into_iter().zip(lost) {
            arrived[place..place + length].fill(true);
            if !is_lost {
                segments.push(client.segment(place, &bytes[place..place + length], None));
                seen[place..place + length].fill(true);
            }
            // The receiver has all of them, and acknowledges at once.
            let all_before = arrived.iter().position(|is_there| !is_there).unwrap_or(bytes.len());
            segments.push(SERVER.segment(0, &[], Some(client.number(all_before))));
            (0..all_before).for_each(|place| missed[place] |= !seen[place]);
        }
        segments.push(client.fin(bytes.len(), SERVER.number(0)));
        segments.push(SERVER.fin(0, client.number(bytes.len() + 1)));
        let conversations = feed(&segments, Limits { waiting_bytes, ..Limits::default() });
        prop_assert_eq!(conversations.len(), 1);
        let heard = &conversations[0].client;
        prop_assert_eq!(heard.bytes.len(), bytes.len());
        for (place, byte) in heard.bytes.iter().enumerate() {
            match byte {
                Some(byte) => prop_assert_eq!(*byte, bytes[place]),
                // With little room to wait, late bytes are reported missing as well.
                None => prop_assert!(missed[place] || waiting_bytes < 400, "place {place}"),
            }
            prop_assert!(byte.is_none() || !missed[place], "place {place}");
        }
        prop_assert!(conversations[0].is_closed);
    }
}

#[test]
fn a_hole_is_missing_when_the_other_end_has_acknowledged_it_and_not_before() {
    let mut segments = opened();
    segments.push(CLIENT.segment(0, b"abc", None));
    segments.push(CLIENT.segment(5, b"fg", None));
    assert_eq!(feed(&segments, Limits::default())[0].client.bytes, known(b"abc"));
    segments.push(SERVER.segment(0, b"", Some(CLIENT.number(7))));
    let heard = &feed(&segments, Limits::default())[0].client;
    assert_eq!(heard.bytes, [known(b"abc"), vec![None, None], known(b"fg")].concat());
    assert_eq!(heard.gaps, [(2, GapReason::Lost)]);
}

#[test]
fn bytes_that_wait_are_bounded() {
    let mut segments = opened();
    segments.push(CLIENT.segment(1, &[7; 100], None));
    segments.push(CLIENT.segment(101, &[8; 100], None));
    let limits = Limits { waiting_bytes: 150, ..Limits::default() };
    let heard = &feed(&segments, limits)[0].client;
    assert_eq!(heard.gaps, [(1, GapReason::OutOfBuffer)]);
    assert_eq!(heard.bytes.len(), 201);
}

#[test]
fn a_connection_that_was_there_before_begins_with_a_gap_and_goes_on() {
    let segments = [
        CLIENT.segment(5000, b"req", Some(SERVER.number(70))),
        SERVER.segment(70, b"reply", Some(CLIENT.number(5003))),
    ];
    let conversation = &feed(&segments, Limits::default())[0];
    assert_eq!(conversation.client.gaps, [(0, GapReason::MidStream)]);
    assert_eq!(conversation.client.bytes, known(b"req"));
    assert_eq!(conversation.server.bytes, known(b"reply"));
}

#[test]
fn a_port_used_again_is_another_connection() {
    let again = End { syn: 77_000, ..CLIENT };
    let mut segments = opened();
    segments.push(CLIENT.segment(0, b"one", None));
    segments.push(again.opening(None));
    segments.push(again.segment(0, b"two", None));
    // And once more, this time with a lost SYN.
    let far = End { syn: 77_000 + (1 << 30), ..CLIENT };
    segments.push(far.segment(0, b"three", Some(SERVER.number(0))));
    let conversations = feed(&segments, Limits::default());
    let heard: Vec<_> = conversations.iter().map(|c| c.client.bytes.clone()).collect();
    assert_eq!(heard, [known(b"one"), known(b"two"), known(b"three")]);
    assert_eq!(conversations.iter().map(|c| c.is_closed).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(conversations[2].client.gaps, [(0, GapReason::MidStream)]);
}

#[test]
fn what_comes_twice_after_the_end_is_no_new_connection() {
    let mut segments = opened();
    segments.push(CLIENT.segment(0, b"one", Some(SERVER.number(0))));
    segments.push(CLIENT.fin(3, SERVER.number(0)));
    segments.push(SERVER.fin(0, CLIENT.number(4)));
    segments.push(CLIENT.segment(0, b"one", Some(SERVER.number(0))));
    segments.push(CLIENT.segment(4, b"", Some(SERVER.number(1))));
    let conversations = feed(&segments, Limits::default());
    assert_eq!(conversations.len(), 1);
    assert!(conversations[0].is_closed);
    assert_eq!(conversations[0].client.bytes, known(b"one"));
}

#[test]
fn half_closed_is_not_closed() {
    let mut segments = opened();
    segments.push(CLIENT.fin(0, SERVER.number(0)));
    segments.push(SERVER.segment(0, b"still here", Some(CLIENT.number(1))));
    let conversation = &feed(&segments, Limits::default())[0];
    assert!(!conversation.is_closed);
    assert_eq!(conversation.server.bytes, known(b"still here"));
    assert_eq!(conversation.client.gaps, [], "the number of a FIN is no byte");
}

#[test]
fn a_reset_ends_a_connection_unless_its_number_is_wrong() {
    let mut segments = opened();
    segments.push(CLIENT.segment(0, b"one", None));
    segments.push(CLIENT.rst(1 << 30));
    segments.push(CLIENT.segment(3, b"two", None));
    assert_eq!(feed(&segments, Limits::default())[0].client.bytes, known(b"onetwo"));
    segments.push(CLIENT.rst(6));
    assert!(feed(&segments, Limits::default())[0].is_closed);
    // An end that continues to send was not reset after all.
    segments.push(CLIENT.segment(6, b"three", Some(SERVER.number(0))));
    let conversations = feed(&segments, Limits::default());
    assert_eq!(conversations.len(), 2);
    assert_eq!(conversations[1].client.gaps, [(0, GapReason::MidStream)]);
}

#[test]
fn connections_are_bounded() {
    let mut table = Table::new(Limits { connections: 10, ..Limits::default() });
    let mut recorder = Recorder::default();
    for port in 1..=100u16 {
        let client = SocketAddr::new("192.0.2.1".parse().unwrap(), port);
        let segment = Segment { client, ..CLIENT.opening(None) };
        table.segment(&segment, Time(u64::from(port)), &mut recorder);
    }
    assert_eq!(table.open_count(), 10);
    let closed = recorder.conversations.iter().position(|conversation| !conversation.is_closed);
    assert_eq!(closed, Some(90), "the quietest go first");
}

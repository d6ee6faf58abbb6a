//! Sample entries.

use std::net::SocketAddr;

use proptest::prelude::*;
use tap::{Class, ConnectionNumber, Entry, GapReason, Outcome, Position, Time};

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![Just(Class::Connection), Just(Class::Query), Just(Class::ReadOnly)]
}

fn reason() -> impl Strategy<Value = GapReason> {
    prop_oneof![
        Just(GapReason::RingOverflow),
        Just(GapReason::Lost),
        Just(GapReason::MidStream),
        Just(GapReason::OutOfBuffer),
        Just(GapReason::Unintelligible),
        Just(GapReason::Stopped),
        Just(GapReason::DiskFull),
    ]
}

fn address() -> impl Strategy<Value = SocketAddr> {
    (any::<std::net::IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn connection() -> impl Strategy<Value = ConnectionNumber> {
    (1..1u64 << 62).prop_map(ConnectionNumber)
}

fn entry() -> impl Strategy<Value = Entry> {
    let at = || any::<u64>().prop_map(Time);
    prop_oneof![
        (connection(), at(), address(), address()).prop_map(|(connection, at, client, server)| {
            Entry::Opened { connection, at, client, server }
        }),
        (connection(), at(), class(), any::<u32>(), any::<Vec<u8>>()).prop_map(
            |(connection, at, class, sequence, payload)| Entry::Request {
                position: Position(0),
                connection,
                at,
                class,
                sequence,
                payload,
            }
        ),
        (any::<u64>(), at(), any::<bool>()).prop_map(|(position, at, is_ok)| Entry::Completed {
            position: Position(position),
            at,
            outcome: if is_ok { Outcome::Ok } else { Outcome::Error },
        }),
        (proptest::option::of(connection()), at(), any::<u64>(), reason()).prop_map(
            |(connection, at, missing, reason)| Entry::Gap { connection, at, missing, reason }
        ),
        (connection(), at()).prop_map(|(connection, at)| Entry::Closed { connection, at }),
    ]
}

/// Generates entries whose requests are numbered as in a log, from 1.
pub(crate) fn entries(count: usize) -> impl Strategy<Value = Vec<Entry>> {
    proptest::collection::vec(entry(), 0..count).prop_map(|mut entries| {
        let mut last = 0;
        for entry in &mut entries {
            if let Entry::Request { position, .. } = entry {
                last += 1;
                *position = Position(last);
            }
        }
        entries
    })
}

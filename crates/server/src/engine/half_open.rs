//! Clients whose TLS handshake is not done: how long it may take, and which of them gives way.
//!
//! ```text
//!   connect ─► [ oldest … newest ] ─► handshake done, or closed: forgotten when it comes to the front
//!                   │
//!                   ├─► too old: closed
//!                   └─► no room for a new connection: the oldest makes some
//! ```
//!
//! They count as clients. But they cost an attacker nothing, so where they have taken all places
//! the oldest gives its own up: a handshake takes milliseconds, and one of an attacker that opens
//! connections and leaves them becomes the oldest sooner or later.
//!
//! # Invariants
//! - Every client whose handshake is not done is in the list; what else is in it was there less
//!   than [`HANDSHAKE_US_MAX`] ago.

use std::collections::VecDeque;

use super::ClientKey;
use super::client::{Closing, Opening};
use super::slab::Slab;

/// How long a TLS handshake may take, in microseconds. Redis has no limit but `timeout`.
const HANDSHAKE_US_MAX: u64 = 10_000_000;

struct Waiting {
    key: ClientKey,
    id: u64,
    since_us: u64,
}

impl Waiting {
    fn is_still(&self, clients: &Slab) -> bool {
        clients.get(self.key).is_some_and(|client| {
            client.id == self.id
                && client.connection.opening == Opening::Handshake
                && client.connection.closing == Closing::No
        })
    }
}

/// See the file's top.
#[derive(Default)]
pub(crate) struct HalfOpen {
    waiting: VecDeque<Waiting>,
}

impl HalfOpen {
    /// A client has connected.
    pub(super) fn add(&mut self, key: ClientKey, id: u64, now_us: u64) {
        self.waiting.push_back(Waiting { key, id, since_us: now_us });
    }

    /// Takes the oldest one out.
    pub(super) fn take_oldest(&mut self, clients: &Slab) -> Option<ClientKey> {
        loop {
            let oldest = self.waiting.pop_front()?;
            if oldest.is_still(clients) {
                return Some(oldest.key);
            }
        }
    }

    /// Takes one out that takes too long.
    pub(super) fn take_late(&mut self, clients: &Slab, now_us: u64) -> Option<ClientKey> {
        while let Some(oldest) = self.waiting.front() {
            if oldest.is_still(clients) {
                let is_late = now_us.saturating_sub(oldest.since_us) > HANDSHAKE_US_MAX;
                return if is_late { self.waiting.pop_front().map(|it| it.key) } else { None };
            }
            self.waiting.pop_front();
        }
        None
    }
}

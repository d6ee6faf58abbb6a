//! The clients, what each of them waits for, and what each is told: nothing of the data.
//!
//! # Invariants
//! - A client is in a list at most as long as its place is taken: [`super::Engine::remove`] takes
//!   it out of all of them. Lists that outlive a client's visit hold its id, too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};

use keyspace::effects::DbKey;

use super::ClientKey;
use super::blocking::{Wait, Waiters};
use super::client::Client;
use super::client_eviction::ClientEviction;
use super::congestion::Congestion;
use super::fetch_budget::RequestId;
use super::half_open::HalfOpen;
use super::held::Held;
use super::pubsub::Registry;
use super::ready_keys::ReadyKeys;
use super::slab::Slab;
use super::tracking::Tracking;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Sessions {
    pub(super) clients: Slab,
    pub(super) last_client_id: u64,
    pub(super) half_open: HalfOpen,
    /// Clients that have something to send or are to be disconnected.
    pub(super) noted: VecDeque<ClientKey>,
    /// Clients whose replies wait for the log.
    pub(super) held: Held,
    /// Clients that may go on with what they have sent already.
    pub(super) resumed: VecDeque<ClientKey>,
    pub(super) congestion: Congestion,
    pub(super) client_eviction: ClientEviction,
    pub(super) watchers: BTreeMap<DbKey, Vec<ClientKey>>,
    pub(super) waiters: Waiters,
    pub(super) ready_keys: ReadyKeys,
    /// Clients that wait for keys and have asked to be called again by now.
    pub(super) due: VecDeque<ClientKey>,
    /// What waits for keys needed besides, and needs no more.
    pub(super) given_up: Vec<RequestId>,
    pub(super) deadlines: BTreeSet<(i64, ClientKey)>,
    pub(super) registry: Registry,
    pub(super) monitors: Vec<ClientKey>,
    pub(super) tracking: Tracking,
}

impl Sessions {
    /// Puts a client on the list of those to look at.
    pub(crate) fn note(&mut self, key: ClientKey) {
        if let Some(client) = self.clients.get_mut(key)
            && !client.connection.is_noted
        {
            client.connection.is_noted = true;
            self.noted.push_back(key);
        }
    }

    /// How many keys clients wait for, and how many of these a consumer of a group waits for, which is told when the key
    /// has gone.
    pub(super) fn awaited_keys(&self) -> (usize, usize) {
        let is_consumer = |key: &ClientKey| {
            let wait = self.clients.get(*key).and_then(|client| client.session.wait.as_deref());
            let call = wait.and_then(Wait::call);
            call.is_some_and(|(command, _)| command.name == "xreadgroup")
        };
        let queues = || self.waiters.by_key.values();
        (queues().count(), queues().filter(|queue| queue.iter().any(is_consumer)).count())
    }
}

impl Index<ClientKey> for Sessions {
    type Output = Client;

    fn index(&self, key: ClientKey) -> &Client {
        &self.clients[key]
    }
}

impl IndexMut<ClientKey> for Sessions {
    fn index_mut(&mut self, key: ClientKey) -> &mut Client {
        &mut self.clients[key]
    }
}

//! Clients begin and end to track, and are told.

use std::collections::BTreeSet;

use base::Lsn;
use command::spec::{Flags, Group};
use command::table::Command;
use keyspace::Change;
use resp::{Protocol, Writer};

use super::super::client::{Client, Closing};
use super::super::sessions::Sessions;
use super::super::shard::Level;
use super::super::slab::Slab;
use super::super::{ClientKey, Engine};
use super::prefixes::{self, Overlap};
use super::{Mode, News, Telling, Tracker};

/// The channel of messages for clients that speak RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

impl Telling {
    /// Whether a client that tracks like this is told.
    fn is_for(&self, tracker: &Tracker) -> bool {
        match self.news {
            // It may have changed to prefixes since it has read the key.
            News::Key(_) if tracker.mode == Mode::Broadcast => false,
            News::Key(_) => !tracker.is_own_kept || self.origin != Some(self.client),
            News::Keys(_) => tracker.mode == Mode::Broadcast,
            News::All => true,
        }
    }
}

impl News {
    fn write(&self, writer: &mut Writer) {
        if writer.is_resp3() {
            writer.push(2);
            writer.bulk_str("invalidate");
        } else {
            writer.push(3);
            writer.bulk_str("message");
            writer.bulk(CHANNEL);
        }
        match self {
            Self::Key(key) => {
                writer.array(1);
                writer.bulk(key);
            }
            Self::Keys(keys) => writer.raw(keys),
            Self::All => writer.null(),
        }
    }
}

/// Whether a client is not told of its own changes.
fn is_own_kept(clients: &Slab, id: u64) -> bool {
    let tracker = clients.by_id(id).and_then(|key| clients[key].session.tracking.as_deref());
    tracker.is_some_and(|tracker| tracker.is_own_kept)
}

/// Whether a client is told of what it has read.
fn is_told_of_reads(clients: &Slab, id: u64) -> bool {
    let tracker = clients.by_id(id).and_then(|key| clients[key].session.tracking.as_deref());
    tracker.is_some_and(|tracker| tracker.mode != Mode::Broadcast)
}

impl Sessions {
    /// A client that is there and stays.
    pub(in crate::engine) fn lasting_client(&self, id: u64) -> Option<ClientKey> {
        let key = self.clients.by_id(id)?;
        (self.clients[key].connection.closing == Closing::No).then_some(key)
    }

    /// Lets a client track in this way, from now on or differently from before.
    ///
    /// # Errors
    /// When a key would have two of its prefixes.
    fn track(
        &mut self,
        key: ClientKey,
        asked: Tracker,
        asked_prefixes: &[&[u8]],
    ) -> Result<(), Overlap> {
        let Self { clients, tracking, .. } = self;
        let Client { id, session, .. } = &mut clients[key];
        if asked.mode == Mode::Broadcast {
            let none = BTreeSet::new();
            let existing = session.tracking.as_ref().map_or(&none, |before| &before.prefixes);
            prefixes::check(existing, asked_prefixes)?;
        }
        if session.tracking.is_none() {
            tracking.add_client();
        }
        let tracker = session.tracking.get_or_insert_default();
        let Tracker { mode, is_own_kept, redirect, .. } = asked;
        (tracker.mode, tracker.is_own_kept, tracker.redirect) = (mode, is_own_kept, redirect);
        tracker.is_broken = false;
        if mode == Mode::Broadcast {
            let every_key = [&b""[..]];
            let named = if asked_prefixes.is_empty() { &every_key[..] } else { asked_prefixes };
            for prefix in named {
                tracker.add_prefix(prefix);
                tracking.subscribe(prefix, *id);
            }
        }
        Ok(())
    }
}

impl Engine {
    /// CLIENT TRACKING ON, once the options are known to fit each other.
    ///
    /// # Errors
    /// When a key would have two of the client's prefixes.
    pub(in crate::engine) fn start_tracking(
        &mut self,
        key: ClientKey,
        asked: Tracker,
        asked_prefixes: &[&[u8]],
    ) -> Result<(), Overlap> {
        self.sessions.track(key, asked, asked_prefixes)?;
        self.shard.keyspace.tell_changes(true);
        Ok(())
    }

    /// A client tracks no longer.
    pub(in crate::engine) fn stop_tracking(&mut self, key: ClientKey) {
        let Client { id, session, .. } = &mut self.sessions.clients[key];
        if let Some(tracker) = session.tracking.take() {
            let id = *id;
            self.sessions.tracking.remove_client(id, &tracker);
            self.shard.keyspace.tell_changes(self.sessions.tracking.is_on());
        }
    }

    /// What CLIENT CACHING has said was for this command, or transaction.
    pub(in crate::engine) fn end_caching(&mut self, key: ClientKey, command: Option<Command>) {
        let is_client = command.is_some_and(|command| command.name.starts_with("client|"));
        let session = &mut self.sessions[key].session;
        if session.transaction.is_none()
            && !is_client
            && !self.scripting.is_paused_for(key)
            && let Some(tracker) = &mut session.tracking
        {
            tracker.is_caching_said = false;
        }
    }

    /// Remembers which keys a client has read with a command: those that it names, or those that the script which calls
    /// it has declared.
    pub(in crate::engine) fn note_reads(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
    ) {
        // What a script reads the commands do that it calls.
        if !command.flags.has(Flags::READONLY) || command.group == Group::Scripting {
            return;
        }
        let hasher = self.shard.keyspace.hasher();
        let Sessions { clients, tracking, .. } = &mut self.sessions;
        let Client { id, session, .. } = &clients[key];
        let id = *id;
        let is_told = |reader| is_told_of_reads(clients, reader);
        if self.scripting.is_calling() {
            let Some(declared) = self.scripting.declared_keys() else { return };
            if declared.noted_at.replace(tracking.table.taken()) != Some(tracking.table.taken()) {
                for name in &declared.keys {
                    tracking.note_read(hasher.hash(name), name, id, is_told);
                }
            }
        } else if session.tracking.as_ref().is_some_and(|tracker| tracker.remembers()) {
            for found in command::keys::of(command.spec(), args).unwrap_or_default() {
                let name = args[found.index];
                tracking.note_read(hasher.hash(name), name, id, is_told);
            }
        }
        self.tell_due(Some(key));
    }

    /// Data has changed in this block: each client that may have a copy is told. `by` is the client whose command is being
    /// executed; what it is told itself it is told by [`Engine::tell_postponed`].
    pub(in crate::engine) fn data_changed(
        &mut self,
        changes: &[Change],
        lsn: Lsn,
        by: Option<ClientKey>,
    ) {
        let hasher = self.shard.keyspace.hasher();
        let Sessions { clients, tracking, .. } = &mut self.sessions;
        let is_own_kept = |id| is_own_kept(clients, id);
        let by_id = by.and_then(|key| clients.get(key)).map(|client| client.id);
        for change in changes {
            match change {
                Change::Key { key, is_unasked } => {
                    let origin = by_id.filter(|_| !is_unasked);
                    tracking.key_changed(hasher.hash(key), key, lsn, origin, is_own_kept);
                }
                Change::All => {
                    let trackers = clients.iter().filter(|it| it.1.session.tracking.is_some());
                    let ids = trackers.map(|(_, client)| client.id);
                    tracking.all_changed(lsn, ids, is_own_kept);
                }
            }
        }
        self.tell_due(by);
    }

    /// The input of one client ends: before another one is answered, clients with prefixes are told of what has changed in it.
    pub(in crate::engine) fn end_broadcast(&mut self) {
        if self.sessions.tracking.has_changes() {
            let Sessions { clients, tracking, .. } = &mut self.sessions;
            tracking.end_broadcast(|id| is_own_kept(clients, id));
            self.tell_due(None);
        }
    }

    /// Every key may have changed, as other data has taken the place of what there was.
    pub(in crate::engine) fn data_replaced(&mut self) {
        self.data_changed(&[Change::All], Lsn::ZERO, None);
    }

    /// Evicts keys from a table that has more than it may.
    pub(in crate::engine) fn limit_tracking(&mut self) {
        let keys_max = self.options.tracking_keys_max;
        let rng = self.shard.keyspace.rng();
        self.sessions.tracking.evict(keys_max, || rng.u64(..));
        self.tell_due(None);
    }

    /// A command has ended: its client is told of what it has changed itself.
    pub(in crate::engine) fn tell_postponed(&mut self) {
        if !self.sessions.tracking.postponed.in_order.is_empty() && !self.scripting.is_running() {
            for telling in std::mem::take(&mut self.sessions.tracking.postponed).in_order {
                self.tell(telling, None);
            }
        }
    }

    fn tell_due(&mut self, by: Option<ClientKey>) {
        while let Some(telling) = self.sessions.tracking.due.pop_front() {
            self.tell(telling, by);
        }
    }

    /// Tells a client, or the one that it redirects to. That the latter has gone it is told itself.
    fn tell(&mut self, telling: Telling, by: Option<ClientKey>) {
        let Some(key) = self.sessions.lasting_client(telling.client) else { return };
        let Some(tracker) = self.sessions[key].session.tracking.as_deref() else { return };
        if !telling.is_for(tracker) {
            return;
        }
        let redirect = tracker.redirect;
        let lasting = redirect.and_then(|id| self.sessions.lasting_client(id));
        let to = lasting.unwrap_or(key);
        // What no command has wanted may still come about in the middle of a transaction.
        if by == Some(to) || (by.is_none() && self.in_transaction) {
            return self.sessions.tracking.postponed.push(telling);
        }
        // It is told when it may see the change.
        let session = &mut self.sessions[key].session;
        let level = Level::from(session.durability.unwrap_or(self.options.fsync));
        let lost = redirect.filter(|_| lasting.is_none());
        if lost.is_some()
            && let Some(tracker) = session.tracking.as_deref_mut()
        {
            tracker.is_broken = true;
        }
        let client = &self.sessions[to];
        let is_resp3 = client.connection.output.protocol() == Protocol::Resp3;
        if let Some(id) = lost {
            if is_resp3 {
                self.deliver_at(to, level, telling.lsn, |writer| {
                    writer.push(2);
                    writer.bulk_str("tracking-redir-broken");
                    writer.int(id.cast_signed());
                });
            }
        } else if is_resp3 || (redirect.is_some() && client.is_subscribed()) {
            self.deliver_at(to, level, telling.lsn, |writer| telling.news.write(writer));
        }
    }
}

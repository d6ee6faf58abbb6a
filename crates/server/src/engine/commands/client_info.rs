//! One line about a client, for CLIENT LIST and CLIENT INFO.

use resp::Protocol;

use super::super::client::Client;
use super::super::pubsub::Kind;

impl Client {
    /// The line, in Redis' form, of a client that is this user.
    pub(in crate::engine) fn line(&self, now_us: u64, user: &str) -> String {
        let Self { connection, session, .. } = self;
        let seconds_since = |moment_us: u64| now_us.saturating_sub(moment_us) / 1_000_000;
        let listens = |kind| {
            session.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.of(kind).len())
        };
        let queued =
            session.transaction.as_ref().map_or(-1, |transaction| transaction.len().cast_signed());
        let queued_bytes =
            session.transaction.as_ref().map_or(0, |transaction| transaction.memory_bytes());
        let output_bytes = connection.output.waiting_bytes();
        let output_memory = connection.output.memory_bytes();
        let redirect = session
            .tracking
            .as_ref()
            .map_or(-1, |tracker| tracker.redirect.unwrap_or_default().cast_signed());
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} \
             qbuf={} qbuf-free={} argv-mem=0 multi-mem={} rbs={} rbp={} obl={} oll=0 omem={} tot-mem={} events={} \
             cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
            self.id,
            connection.peer.address,
            connection.peer.local_address,
            connection.peer.socket,
            String::from_utf8_lossy(&session.name),
            seconds_since(connection.connected_us),
            seconds_since(connection.active_us),
            self.flags(),
            session.db,
            listens(Kind::Channel),
            listens(Kind::Pattern),
            listens(Kind::Shard),
            queued,
            connection.input.len() + connection.in_process_bytes,
            connection.input.capacity() - connection.input.len(),
            queued_bytes,
            output_memory,
            output_memory,
            output_bytes,
            output_bytes,
            self.memory_bytes(),
            if output_bytes > 0 { "rw" } else { "r" },
            session.last_command.map_or("NULL", |command| command.name),
            user,
            redirect,
            if connection.output.protocol() == Protocol::Resp3 { 3 } else { 2 },
            String::from_utf8_lossy(&session.library_name),
            String::from_utf8_lossy(&session.library_version),
        )
    }
}

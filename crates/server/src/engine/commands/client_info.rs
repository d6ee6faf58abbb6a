//! One line about a client, for CLIENT LIST and CLIENT INFO.

use resp::Protocol;

use super::super::pubsub::Kind;
use super::super::{ClientKey, Engine};

impl Engine {
    /// The line, in Redis' form.
    pub(in crate::engine) fn client_line(&self, key: ClientKey) -> String {
        let client = &self.sessions[key];
        let seconds_since = |moment_us: u64| self.time.now_us.saturating_sub(moment_us) / 1_000_000;
        let listens = |kind| {
            client
                .session
                .subscriptions
                .as_ref()
                .map_or(0, |subscriptions| subscriptions.of(kind).len())
        };
        let queued = client
            .session
            .transaction
            .as_ref()
            .map_or(-1, |transaction| transaction.len().cast_signed());
        let queued_bytes =
            client.session.transaction.as_ref().map_or(0, |transaction| transaction.memory_bytes());
        let output_bytes = client.connection.output.waiting_bytes();
        let output_memory = client.connection.output.memory_bytes();
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} \
             qbuf={} qbuf-free={} argv-mem=0 multi-mem={} rbs={} rbp={} obl={} oll=0 omem={} tot-mem={} events={} \
             cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={}",
            client.id,
            client.connection.peer.address,
            client.connection.peer.local_address,
            client.connection.peer.socket,
            String::from_utf8_lossy(&client.session.name),
            seconds_since(client.connection.connected_us),
            seconds_since(client.connection.active_us),
            client.flags(),
            client.session.db,
            listens(Kind::Channel),
            listens(Kind::Pattern),
            listens(Kind::Shard),
            queued,
            client.connection.input.len() + client.connection.in_process_bytes,
            client.connection.input.capacity() - client.connection.input.len(),
            queued_bytes,
            output_memory,
            output_memory,
            output_bytes,
            output_bytes,
            client.memory_bytes(),
            if output_bytes > 0 { "rw" } else { "r" },
            client.session.last_command.map_or("NULL", |command| command.name),
            if client.connection.output.protocol() == Protocol::Resp3 { 3 } else { 2 },
            String::from_utf8_lossy(&client.session.library_name),
            String::from_utf8_lossy(&client.session.library_version),
        )
    }
}

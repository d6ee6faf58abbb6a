//! One line about a client, for CLIENT LIST and CLIENT INFO.

use resp::Protocol;

use super::super::pubsub::Kind;
use super::super::{ClientKey, Engine};

impl Engine {
    /// The line, in Redis' form.
    pub(in crate::engine) fn client_line(&self, key: ClientKey) -> String {
        let client = &self.clients[key];
        let seconds_since = |moment_us: u64| self.now_us.saturating_sub(moment_us) / 1_000_000;
        let listens = |kind| {
            client.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.of(kind).len())
        };
        let queued =
            client.transaction.as_ref().map_or(-1, |transaction| transaction.len().cast_signed());
        let queued_bytes =
            client.transaction.as_ref().map_or(0, |transaction| transaction.memory_bytes());
        let output_bytes = client.output.waiting_bytes();
        let output_memory = client.output.memory_bytes();
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} \
             qbuf={} qbuf-free={} argv-mem=0 multi-mem={} rbs={} rbp={} obl={} oll=0 omem={} tot-mem={} events={} \
             cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={}",
            client.id,
            client.peer.address,
            client.peer.local_address,
            client.peer.socket,
            String::from_utf8_lossy(&client.name),
            seconds_since(client.connected_us),
            seconds_since(client.active_us),
            client.flags(),
            client.db,
            listens(Kind::Channel),
            listens(Kind::Pattern),
            listens(Kind::Shard),
            queued,
            client.input.len() + client.in_process_bytes,
            client.input.capacity() - client.input.len(),
            queued_bytes,
            output_memory,
            output_memory,
            output_bytes,
            output_bytes,
            client.memory_bytes(),
            if output_bytes > 0 { "rw" } else { "r" },
            client.last_command.map_or("NULL", |command| command.name),
            if client.output.protocol() == Protocol::Resp3 { 3 } else { 2 },
            String::from_utf8_lossy(&client.library_name),
            String::from_utf8_lossy(&client.library_version),
        )
    }
}

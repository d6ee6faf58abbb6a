//! Dumps that are sent to clients: SYNC.
//!
//! A client that has said `REPLCONF rdb-only 1` is sent all that there is, by a saver of its own: a piece whenever it has
//! taken the one before. One that has also said `REPLCONF rdb-filter-only functions` is sent the libraries of functions
//! alone. They are in memory, and few: that takes no saver.

use dump::RdbTarget;

use super::blocking::Wait;
use super::client::{Closing, DumpPart};
use super::saves::{NotSaved, Stream};
use super::{ClientKey, Engine};
use crate::save::SaveFigures;

/// How much of a stream waits in the output of its client.
const STREAM_OUTPUT_BYTES: usize = 1 << 20;

impl Engine {
    /// Sends a client what it wants of the data, as a dump.
    ///
    /// # Errors
    /// Why not, as it is told.
    pub(super) fn begin_sync(&mut self, client: ClientKey) -> Result<(), NotSaved> {
        match self.sessions[client].session.wanted_dump.part {
            DumpPart::All => self.begin_all(client),
            DumpPart::Libraries => self.send_part(client, true),
            DumpPart::Nothing => self.send_part(client, false),
        }
    }

    /// Sends a client a dump without keys.
    fn send_part(&mut self, client: ClientKey, with_libraries: bool) -> Result<(), NotSaved> {
        let mut dump = RdbTarget::begin(Vec::new(), self.rdb_options(), &self.facts(None))?;
        if with_libraries {
            self.shard.keyspace.note_libraries_read();
            let libraries = self.shard.keyspace.libraries();
            dump = dump.with_libraries(libraries.map(|(_, source)| &**source))?;
        }
        let dump = dump.finish()?;
        let output = self.sessions[client].connection.output.writer();
        output.raw(format!("${}\r\n", dump.len()).as_bytes());
        output.raw(&dump);
        self.end_client(client, Closing::AfterReply);
        Ok(())
    }

    /// Sends a client all that there is.
    fn begin_all(&mut self, client: ClientKey) -> Result<(), NotSaved> {
        self.may_save()?;
        if !self.saves.has_place() {
            return Err(NotSaved::TooMany);
        }
        let delimiter = super::random_hex(self.deps.entropy.as_mut(), 40);
        let head = format!("$EOF:{delimiter}\r\n");
        self.sessions[client].connection.output.writer().raw(head.as_bytes());
        let address = &self.sessions[client].connection.peer.address;
        self.deps.logger.notice(&format!("Client {address} is sent a dump"));
        self.sessions.start_wait(client, Wait::Dump);
        let taken_us = self.time.now_us;
        let (chunk, sent) = (Vec::new(), 0);
        let client_id = self.sessions[client].id;
        let (ticket, is_walk) = (None, false);
        let stream =
            Stream { client, client_id, ticket, delimiter, chunk, sent, taken_us, is_walk };
        self.saves.streams.push(stream);
        self.begin_wanted();
        Ok(())
    }

    /// Whether there is a stream to pass on, and its client takes it.
    pub(super) fn can_feed(&self) -> bool {
        self.saves.streams.iter().any(|stream| {
            let output = self.sessions.clients.get(stream.client).map(|it| &it.connection.output);
            let has_room = output.is_none_or(|it| it.waiting_bytes() < STREAM_OUTPUT_BYTES);
            has_room && stream.has_news()
        })
    }

    /// Passes on some of a stream. `false` when it is over.
    pub(super) fn feed(&mut self, index: usize) -> bool {
        let Stream { client: key, client_id, .. } = self.saves.streams[index];
        let is_sent = |client: &&mut super::client::Client| {
            client.id == client_id && matches!(client.session.wait.as_deref(), Some(Wait::Dump))
        };
        let Some(client) = self.sessions.clients.get_mut(key).filter(is_sent) else { return false };
        let stream = &mut self.saves.streams[index];
        let output = &mut client.connection.output;
        let mut has_fed = false;
        while output.waiting_bytes() < STREAM_OUTPUT_BYTES
            && let Some(bytes) = stream.next(STREAM_OUTPUT_BYTES)
        {
            output.writer().raw(bytes);
            has_fed = true;
        }
        let is_stuck = output.waiting_bytes() >= STREAM_OUTPUT_BYTES;
        if has_fed || !is_stuck {
            stream.taken_us = self.time.now_us;
        }
        let silent_us = self.time.now_us.saturating_sub(stream.taken_us);
        let address = client.connection.peer.address.clone();
        if has_fed {
            self.sessions.note(key);
        }
        match self.saves.streams[index].end() {
            Some(Ok(figures)) => {
                let delimiter = std::mem::take(&mut self.saves.streams[index].delimiter);
                self.sessions[key].connection.output.writer().raw(delimiter.as_bytes());
                self.end_client(key, Closing::AfterReply);
                let SaveFigures { keys, bytes, .. } = figures;
                self.deps.logger.notice(&format!(
                    "Client {address} was sent a dump: {keys} keys, {bytes} bytes"
                ));
                false
            }
            Some(Err(why)) => {
                self.deps.logger.warning(&format!("The dump for client {address} failed: {why}"));
                self.note_damage(&why);
                self.end_client(key, Closing::Now);
                false
            }
            None if silent_us > self.options.saves.silence_s_max * 1_000_000 => {
                self.deps.logger.warning(&format!(
                    "Closing client {address}, which has taken nothing of its dump for repl-timeout"
                ));
                self.end_client(key, Closing::Now);
                false
            }
            None => true,
        }
    }
}

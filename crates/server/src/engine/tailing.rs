//! What the change stream means for clients.

use std::sync::Arc;

use base::Lsn;

use super::blocking::{TailWait, Wait};
use super::shard::LogState;
use super::tails::Tail;
use super::{ClientKey, Engine};
use crate::config::FsyncPolicy;
use crate::tail::{Answer, REPLY_BYTES_MAX, TailError, TailRunner};

impl Engine {
    /// Has the log read for clients by `runner`.
    pub fn tail_by(&mut self, runner: Box<dyn TailRunner>) {
        self.tails.set_runner(runner);
    }

    /// Makes a client wait for blocks behind `after`; until `deadline_ms`, if there are none.
    pub(super) fn begin_tail(
        &mut self,
        key: ClientKey,
        after: Lsn,
        count_max: usize,
        deadline_ms: Option<i64>,
    ) {
        let number = self.tails.begin(key, after, count_max);
        self.sessions.start_wait(key, Wait::Tail(TailWait { number, after, deadline_ms }));
        self.follow_tails();
    }

    /// Looks after clients that follow the log: has it read for those for which there is something, and gives them
    /// what was read.
    pub(super) fn follow_tails(&mut self) {
        if self.tails.is_idle() {
            return;
        }
        let clients = &self.sessions.clients;
        let waits = |tail: &Tail| {
            let client = clients.get(tail.client);
            let wait = client.and_then(|client| client.session.wait.as_deref());
            matches!(wait, Some(Wait::Tail(wait)) if wait.number == tail.number)
        };
        self.tails.keep(waits);
        while let Some((tail, result)) = self.tails.take_answer() {
            match result {
                Ok(answer) => self.answer_tail(&tail, &answer),
                Err(why) => {
                    if let TailError::Log(error) = &why
                        && let Some(log) = self.shard.log_mut()
                    {
                        log.note_damage(error);
                    }
                    self.end_wait_with_error(tail.client, &error_line(&why));
                }
            }
        }
        let durable = self.shard.reach.durable;
        let clients = &self.sessions.clients;
        let is_served = |tail: &&Tail| {
            let output = &clients[tail.client].connection.output;
            tail.after < durable && output.waiting_bytes() < REPLY_BYTES_MAX
        };
        let served = self.tails.blocked().filter(is_served);
        let served: Vec<_> = served.map(|it| (it.number, it.client, it.after)).collect();
        for (number, client, after) in served {
            self.read_for(number, client, after);
        }
        if self.tails.blocked().next().is_some() {
            self.sync_for_tails();
        }
    }

    /// Only what is durable is given out: so what clients ask for is synced now and then, whatever the policy.
    pub(super) fn sync_for_tails(&mut self) {
        let durable = self.shard.reach.durable;
        if self.options.fsync != FsyncPolicy::Always
            && let Some(log) = self.shard.log_mut()
            && log.last_lsn() > durable
            && self.tails.is_sync_due(self.time.now_us)
        {
            log.request_sync();
        }
    }

    /// Has the log read for a client.
    fn read_for(&mut self, number: u64, client: ClientKey, after: Lsn) {
        // It is being served: no deadline ends that.
        self.sessions.stop_waiting(client, &mut self.shard.keyspace);
        let wait = TailWait { number, after, deadline_ms: None };
        self.sessions.start_wait(client, Wait::Tail(wait));
        let databases = self.shard.keyspace.databases_record();
        let reader = match self.shard.log_state() {
            LogState::On(log) => log.reader(),
            _ => None,
        };
        let Some(reader) = reader else {
            return self.end_wait_with_error(client, NO_LOG);
        };
        let clock = Arc::clone(&self.deps.clock);
        if let Err(why) = self.tails.ask(number, reader, databases, &clock) {
            self.end_wait_with_error(client, &format!("ERR no thread to read the log: {why}"));
        }
    }

    fn answer_tail(&mut self, tail: &Tail, answer: &Answer) {
        let key = tail.client;
        if self.sessions.stop_waiting(key, &mut self.shard.keyspace).is_none() {
            return;
        }
        let room = self.output_room(key);
        let client = &mut self.sessions[key];
        client.session.tailed = Some(answer.last);
        let before = client.connection.output.len();
        client.connection.output.limit(room);
        let reply = client.connection.output.writer();
        reply.array(2);
        reply.int(answer.last.0.cast_signed());
        reply.array(answer.lines.len());
        answer.lines.iter().for_each(|line| reply.bulk(line));
        if client.connection.output.is_over() {
            return self.end_over_limit(key);
        }
        self.sessions.resume(key, before);
        self.check_output_size(key);
    }

    /// Nothing reads the log any more: the clients that wait learn it.
    pub(super) fn give_up_tails(&mut self) {
        let (tails, why) = self.tails.give_up();
        for Tail { client, number, .. } in tails {
            let session = self.sessions.clients.get(client).map(|client| &client.session);
            let wait = session.and_then(|session| session.wait.as_deref());
            if matches!(wait, Some(Wait::Tail(wait)) if wait.number == number) {
                self.end_wait_with_error(client, &format!("ERR {why}"));
            }
        }
    }
}

/// What a client is told that follows a log which is not there.
pub(super) const NO_LOG: &str =
    "ERR there is no redo log to follow: appendonly is no, or is being turned on";

/// An error as its client is told it: one line, with a code for the one that it can do something about.
pub(super) fn error_line(why: &TailError) -> String {
    let is_gone = matches!(why, TailError::Gone { .. } | TailError::OtherLog { .. });
    let code = if is_gone { "LOGGONE" } else { "ERR" };
    format!("{code} {why}").replace(['\r', '\n'], " ")
}

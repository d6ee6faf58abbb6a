//! The clients that follow the log, and what reads it for them.
//!
//! ```text
//!   LOGTAIL n ──► Blocked: block n is the last durable one, or the client has not taken what it was sent
//!                    │ a later one is durable, and there is room in its output
//!                    ▼
//!                 Asked: the tailer reads ──► its lines are the reply
//! ```
//!
//! A client that has not read its replies is not read for: so what waits for it is one reply, however many
//! requests it has sent.

use std::io;
use std::sync::Arc;

use base::{Lsn, RecordAddr};
use env::Clock;
use redo::Reader;

use super::ClientKey;
use crate::tail::{
    Answer, Desk, Request, TailError, TailFigures, TailResult, TailRunner, Tailer, Wanted,
};

/// With policies that do not sync each block, what clients wait for is synced so often.
const SYNC_EVERY_US: u64 = 1_000_000;

/// A client that waits for blocks.
pub(super) struct Tail {
    pub(super) number: u64,
    pub(super) client: ClientKey,
    pub(super) after: Lsn,
    pub(super) count_max: usize,
    pub(super) stage: Stage,
}

/// See the file's top.
pub(super) enum Stage {
    /// There is nothing for it yet.
    Blocked,
    /// It is read for it.
    Asked {
        /// Tells the tailer when it is not wanted any more.
        _wanted: Wanted,
    },
}

/// See the file's top.
#[derive(Default)]
pub(super) struct Tails {
    runner: Option<Box<dyn TailRunner>>,
    /// While there is a tailer.
    desk: Option<Arc<Desk>>,
    tails: Vec<Tail>,
    number: u64,
    synced_us: u64,
    /// What tailers have cost that have ended.
    before: TailFigures,
}

impl Tails {
    pub(super) fn set_runner(&mut self, runner: Box<dyn TailRunner>) {
        self.runner = Some(runner);
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.tails.is_empty()
    }

    pub(super) const fn waiting_count(&self) -> usize {
        self.tails.len()
    }

    /// Whether something was read.
    pub(super) fn has_news(&self) -> bool {
        self.desk.as_ref().is_some_and(|desk| desk.has_replies())
    }

    /// What has been given, and what it has cost.
    pub(super) fn figures(&self) -> TailFigures {
        self.desk.as_ref().map_or(self.before, |desk| self.before.and(&desk.figures()))
    }

    /// A client waits for blocks. Returns the number of its wait.
    pub(super) fn begin(&mut self, client: ClientKey, after: Lsn, count_max: usize) -> u64 {
        self.number += 1;
        let (number, stage) = (self.number, Stage::Blocked);
        self.tails.push(Tail { number, client, after, count_max, stage });
        number
    }

    /// Forgets those that do not wait any more.
    pub(super) fn keep(&mut self, waits: impl Fn(&Tail) -> bool) {
        self.tails.retain(waits);
    }

    /// Those that wait for something to be read.
    pub(super) fn blocked(&self) -> impl Iterator<Item = &Tail> {
        self.tails.iter().filter(|tail| matches!(tail.stage, Stage::Blocked))
    }

    /// Has blocks read for one of them.
    ///
    /// # Errors
    /// Why they cannot be.
    pub(super) fn ask(
        &mut self,
        number: u64,
        reader: Reader,
        databases: Option<RecordAddr>,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<()> {
        let desk = self.desk(clock)?;
        let Some(tail) = self.tails.iter_mut().find(|tail| tail.number == number) else {
            return Ok(());
        };
        let (after, count_max) = (tail.after, tail.count_max);
        let (wanted, is_unwanted) = Wanted::new();
        tail.stage = Stage::Asked { _wanted: wanted };
        desk.ask(Request { number, after, count_max, reader, databases, is_unwanted });
        Ok(())
    }

    /// Takes what was read, for a client that still waits for it.
    pub(super) fn take_answer(&mut self) -> Option<(Tail, TailResult<Answer>)> {
        loop {
            let reply = self.desk.as_ref()?.take_reply()?;
            if let Some(at) = self.tails.iter().position(|tail| tail.number == reply.number) {
                return Some((self.tails.swap_remove(at), reply.result));
            }
        }
    }

    /// Whether blocks that clients ask for should be synced now.
    pub(super) fn is_sync_due(&mut self, now_us: u64) -> bool {
        let is_due = now_us >= self.synced_us + SYNC_EVERY_US;
        if is_due {
            self.synced_us = now_us;
        }
        is_due
    }

    /// Nothing reads the log any more. Returns the clients that wait, and what they are told.
    pub(super) fn give_up(&mut self) -> (Vec<Tail>, TailError) {
        if let Some(desk) = self.desk.take() {
            desk.end();
            self.runner.iter_mut().for_each(|runner| runner.finish());
            self.before = self.before.and(&desk.figures());
        }
        (std::mem::take(&mut self.tails), TailError::Closed)
    }

    fn desk(&mut self, clock: &Arc<dyn Clock>) -> io::Result<Arc<Desk>> {
        if let Some(desk) = &self.desk {
            return Ok(Arc::clone(desk));
        }
        let runner = self.runner.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        let desk = Arc::new(Desk::default());
        runner.run(Tailer::new(Arc::clone(&desk), Arc::clone(clock)))?;
        self.desk = Some(Arc::clone(&desk));
        Ok(desk)
    }
}

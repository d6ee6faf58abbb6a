//! What a command handler works on.

use base::DbIndex;
use keyspace::effects::Notify;
use keyspace::{Keyspace, Type, Updated, WrongType};
use resp::Writer;

use crate::error::CommandError;

/// The view that a handler has of its client, the keyspace and the reply.
///
/// The fields are separate borrows on purpose: a handler reads a value through `keyspace` while
/// it writes it to `reply`.
pub struct Context<'a> {
    /// The databases.
    pub keyspace: &'a mut Keyspace,
    /// The index of the database that the client has selected.
    pub db: DbIndex,
    /// Where the reply goes.
    pub reply: &'a mut Writer,
    /// `proto-max-bulk-len`, in bytes: no string may grow past it.
    pub string_bytes_max: usize,
    /// `rdb-version`: what readers of a payload know, at least.
    pub payload_readers: rdb::Version,
    /// Whether the command may wait; not inside MULTI.
    pub may_block: bool,
    /// Whether a script calls it.
    pub in_script: bool,
    /// Whether a command that reads may store what it has found out (the count of PFCOUNT).
    pub may_store: bool,
    /// Whether the user may read every key: the patterns of SORT lead to any of them.
    pub may_read_all_keys: bool,
    /// Why the server executes a blocked command again; `None` the first time. A key of another
    /// type than it wants is not there yet then. When it sets `blocking` again, it goes on waiting
    /// as it did before.
    pub again: Option<Again<'a>>,
    /// Set by a handler that found nothing and wants to be called again when one of its keys is
    /// there. It has written no reply then.
    pub blocking: Option<Blocking>,
}

/// Why a command that waits is executed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again<'a> {
    /// This key was created, or has changed. The command looks at no other one.
    Ready(&'a [u8]),
    /// The time has come that it has asked for ([`Blocking::look_ms`]). It looks at all its keys.
    Due,
}

/// What a blocked client waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocking {
    /// The keys; the command is executed again when one of them is created.
    pub keys: Vec<Box<[u8]>>,
    /// When to give up, in Unix milliseconds; `None` for never.
    pub deadline_ms: Option<i64>,
    /// What the client reads when the time is up.
    pub on_timeout: TimeoutReply,
    /// It is executed again at any change of a key, also when one has gone.
    pub at_any_change: bool,
    /// It is executed again at this time, in Unix milliseconds, too.
    pub look_ms: Option<i64>,
    /// The arguments with which it is executed again, if they are others.
    pub args: Option<Vec<Vec<u8>>>,
}

/// The reply of a blocking command that found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutReply {
    /// A null array (BLPOP and its like).
    NullArray,
    /// A null (BLMOVE and BRPOPLPUSH inside MULTI).
    Null,
}

impl TimeoutReply {
    /// Writes the reply.
    pub fn write(self, reply: &mut Writer) {
        match self {
            Self::NullArray => reply.null_array(),
            Self::Null => reply.null(),
        }
    }
}

impl Context<'_> {
    /// Whether a command looks at this key: one that is executed again because of another key does not.
    #[must_use]
    pub fn looks_at(&self, key: &[u8]) -> bool {
        !matches!(self.again, Some(Again::Ready(ready)) if ready != key)
    }

    /// The first key of those that a blocking command names that has a value of the type it wants.
    ///
    /// # Errors
    /// [`WrongType`] when a key before it has a value of another type. A command that is executed
    /// again never fails so: the client goes on waiting.
    pub fn first_filled<'k>(
        &mut self,
        keys: &[&'k [u8]],
        wanted: Type,
    ) -> Result<Option<&'k [u8]>, WrongType> {
        for &key in keys {
            if !self.looks_at(key) {
                continue;
            }
            match self.keyspace.type_of(self.db, key) {
                Some(found) if found == wanted => return Ok(Some(key)),
                Some(_) if self.again.is_none() => return Err(WrongType),
                _ => {}
            }
        }
        Ok(None)
    }

    /// A blocking command found nothing: it waits for one of `keys`, or, where that is not
    /// possible, answers `at_once`. A wait that was in vain is answered with a null array, whatever
    /// the command (in RESP2 the two differ).
    pub fn block(&mut self, keys: &[&[u8]], deadline_ms: Option<i64>, at_once: TimeoutReply) {
        if self.may_block {
            let keys = keys.iter().map(|&key| key.into()).collect();
            let on_timeout = TimeoutReply::NullArray;
            self.blocking = Some(Blocking {
                keys,
                deadline_ms,
                on_timeout,
                at_any_change: false,
                look_ms: None,
                args: None,
            });
        } else {
            at_once.write(self.reply);
        }
    }

    /// The same of one that waits for any change of its keys, and is then, or at `look_ms`, executed with `args`.
    pub fn block_for_changes(
        &mut self,
        keys: &[&[u8]],
        deadline_ms: Option<i64>,
        look_ms: Option<i64>,
        args: Vec<Vec<u8>>,
    ) {
        self.block(keys, deadline_ms, TimeoutReply::NullArray);
        if let Some(blocking) = &mut self.blocking {
            (blocking.at_any_change, blocking.args) = (true, Some(args));
            blocking.look_ms = look_ms;
        }
    }

    /// A stream follows, if there is none yet.
    ///
    /// # Errors
    /// When the log has none and this is in the middle of a transaction or script that did not tell before that it
    /// may make one: a script that puts the name of the command together.
    pub fn bring_stream(&mut self) -> Result<(), CommandError> {
        self.check_first(self.keyspace.streams_declared(), "streams", "make")?;
        self.keyspace.declare_streams();
        Ok(())
    }

    /// Refuses the first of these things where nothing can be declared, if none of them is.
    fn check_first(
        &self,
        are_declared: Option<bool>,
        things: &str,
        make: &str,
    ) -> Result<(), CommandError> {
        if self.may_block || are_declared != Some(false) {
            return Ok(());
        }
        let text = format!(
            "ERR the log has no {things} yet, and a script can {make} the first one only if its source has the name of \
             the command in it; {make} one outside of a script once"
        );
        Err(CommandError::Other(text.into()))
    }

    /// A message of a producer follows, or what is kept of messages, perhaps of a stream that there is not yet.
    ///
    /// # Errors
    /// As [`Context::bring_stream`], when the log has no message.
    pub fn bring_message(&mut self) -> Result<(), CommandError> {
        self.check_first(self.keyspace.messages_declared(), "messages of producers", "add")?;
        self.keyspace.declare_messages();
        Ok(())
    }

    /// A field of a hash that expires follows, if there is none yet.
    ///
    /// # Errors
    /// As [`Context::bring_stream`], of fields that expire.
    pub fn bring_expiring_fields(&mut self) -> Result<(), CommandError> {
        let are_declared = self.keyspace.expiring_fields_declared();
        self.check_first(are_declared, "fields that expire", "make")?;
        self.keyspace.declare_expiring_fields();
        Ok(())
    }

    /// Counts a read that is no use of the key (EXISTS, TTL, TYPE): for the statistics,
    /// and for notifications of keys that are looked for in vain.
    pub fn count_read(&mut self, key: &[u8], found: bool) {
        let stats = self.keyspace.stats_mut();
        if found {
            stats.hits += 1;
        } else {
            stats.misses += 1;
            self.notify(Notify::KEY_MISS, "keymiss", key);
        }
    }

    /// Notes a keyspace notification for a key of the selected database.
    pub fn notify(&mut self, class: Notify, event: &'static str, key: &[u8]) {
        self.keyspace.notify(class, event, self.db, key);
    }

    /// Notes the notifications of a change: `event` when something changed, and `del` when the
    /// key went with its last element.
    pub fn notify_update<R>(
        &mut self,
        class: Notify,
        event: &'static str,
        key: &[u8],
        updated: &Updated<R>,
    ) {
        if updated.changed {
            self.notify(class, event, key);
        }
        if updated.emptied {
            self.notify(Notify::GENERIC, "del", key);
        }
    }
}

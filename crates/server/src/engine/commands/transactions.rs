//! MULTI, EXEC, DISCARD, WATCH and UNWATCH.
//!
//! All records of one EXEC lie in one block of the log, so a crash keeps all of them or none.

use std::vec::IntoIter;

use acl::Context;
use command::argument;
use command::error::{CommandError, Done};
use command::spec::Flags;
use command::table::Command;

use super::super::call::{Attempt, restore_error};
use super::super::client::Closing;
use super::super::transaction::{Queued, Transaction};
use super::super::{ClientKey, Engine};
use super::databases::loses_databases;

/// MULTI.
pub(super) fn multi(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let client = &mut engine.sessions[key];
    if client.session.transaction.is_some() {
        return Err(CommandError::other("ERR MULTI calls can not be nested"));
    }
    client.session.transaction = Some(Box::new(Transaction::new()));
    client.connection.output.writer().ok();
    Ok(())
}

/// DISCARD.
pub(super) fn discard(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    if engine.sessions[key].session.transaction.is_none() {
        return Err(CommandError::other("ERR DISCARD without MULTI"));
    }
    engine.sessions.discard(key, &mut engine.shard.keyspace);
    engine.reply(key).ok();
    Ok(())
}

/// EXEC.
pub(super) fn exec(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    if engine.sessions[key].session.transaction.is_none() {
        return Err(CommandError::other("ERR EXEC without MULTI"));
    }
    meet_expired_watched(engine, key);
    if let Some(failure) = engine.shard.keyspace.take_restore_failure() {
        return abandon(engine, key, restore_error(&failure));
    }
    let client = &mut engine.sessions[key];
    let is_watch_dirty = client.session.is_watch_dirty;
    let transaction = client.session.transaction.take().expect("just seen");
    engine.sessions.unwatch_all(key, &mut engine.shard.keyspace);
    if transaction.is_refused {
        return Err(CommandError::other(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if is_watch_dirty {
        engine.reply(key).null_array();
        return Ok(());
    }
    if engine.shard.keyspace.may_lack() {
        // All of them are executed, or none is.
        let names = engine.queued_keys(engine.sessions[key].session.db, &transaction);
        engine.restore_named(&names)?;
    }
    if transaction.queue.iter().any(|queued| is_noted(queued.command)) {
        engine.shard.declare_notes();
    }
    if transaction.queue.iter().any(|queued| brings_libraries(queued.command)) {
        engine.shard.keyspace.declare_libraries();
    }
    if transaction.queue.iter().any(brings_message)
        || transaction.queue.iter().any(|it| engine.scripting.suspicions(it).may_bring_messages)
    {
        engine.shard.keyspace.declare_messages();
    } else if transaction.queue.iter().any(brings_stream)
        || transaction.queue.iter().any(|it| engine.scripting.suspicions(it).may_bring_streams)
    {
        engine.shard.keyspace.declare_streams();
    }
    if transaction.queue.iter().any(expires_fields)
        || transaction.queue.iter().any(|it| engine.scripting.suspicions(it).may_expire_fields)
    {
        engine.shard.keyspace.declare_expiring_fields();
    }
    let loses = |queued: &Queued| {
        loses_databases(queued.command) || engine.scripting.suspicions(queued).may_lose_databases
    };
    if transaction.queue.iter().any(loses) {
        engine.shard.begin_block();
    }
    engine.reply(key).array(transaction.queue.len());
    engine.in_transaction = true;
    engine.run_queue(key, transaction.queue.into_iter());
    Ok(())
}

impl Engine {
    /// Executes what is left of a transaction; a script in it may run for so long that the rest waits.
    pub(in crate::engine) fn run_queue(&mut self, key: ClientKey, mut queue: IntoIter<Queued>) {
        while let Some(Queued { command, args }) = queue.next() {
            if self.sessions[key].connection.closing == Closing::Now
                && !command.flags.intersects(Flags::WRITE.with(Flags::MAY_WRITE))
            {
                // Its reply is too long already: what only adds to it is not executed.
                continue;
            }
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            if let Some(denial) = self.denial(key, command, &args, Context::Multi) {
                // Its user has lost the right since it was queued.
                self.observed.counters.error(denial.error_of_exec().as_bytes());
                self.reply(key).error(denial.error_of_exec());
                continue;
            }
            // In here nothing waits: a command that would replies what it replies on a timeout.
            let waits = self.call(key, command, &args, Attempt::InTransaction);
            debug_assert!(waits.is_none(), "a command that must not wait does not");
            if self.scripting.is_parking() {
                self.scripting.keep_queue(queue);
                return;
            }
            self.check_large_output(key);
        }
        self.end_transaction();
    }

    /// Does what was put off until the end of a transaction, or of a script.
    pub(in crate::engine) fn end_transaction(&mut self) {
        self.in_transaction = false;
        if std::mem::take(&mut self.backups.ends_block) {
            self.shard.end_block();
        }
        if std::mem::take(&mut self.checkpoint_after_exec) {
            self.start_checkpoint();
        }
        self.begin_wanted();
        // What it depends on itself, its last command has said already.
        let now_ms = self.time.unix_ms();
        self.shard.keyspace.begin_command(now_ms);
    }
}

/// Whether the log may be told of a command.
fn is_noted(command: Command) -> bool {
    loses_databases(command)
        || command.flags.has(Flags::MAY_WRITE)
        || command.name.starts_with("backup|")
        || matches!(command.name, "config|set" | "shutdown")
}

/// Whether the log may be told of libraries of functions by a command.
fn brings_libraries(command: Command) -> bool {
    matches!(command.name, "function|load" | "function|restore")
}

/// Whether a command may bring the first message of a producer, or limits of messages, that the log is told of.
fn brings_message(queued: &Queued) -> bool {
    let mut words = queued.args.iter();
    match queued.command.name {
        "xcfgset" => true,
        "xadd" => words.any(|word| argument::is(word, "IDMP") || argument::is(word, "IDMPAUTO")),
        _ => false,
    }
}

/// Whether a command may make the first stream that the log is told of.
fn brings_stream(queued: &Queued) -> bool {
    match queued.command.name {
        "xadd" | "xgroup|create" => true,
        "restore" => queued.args.get(3).is_some_and(|payload| rdb::is_of_stream(payload)),
        _ => false,
    }
}

/// Whether a command may make a field of a hash expire.
fn expires_fields(queued: &Queued) -> bool {
    match queued.command.name {
        "hexpire" | "hpexpire" | "hexpireat" | "hpexpireat" | "hgetex" | "hsetex" => true,
        "restore" => queued.args.get(3).is_some_and(|payload| rdb::is_of_expiring_fields(payload)),
        _ => false,
    }
}

/// Ends a transaction that cannot be executed.
fn abandon(engine: &mut Engine, key: ClientKey, why: CommandError) -> Done {
    engine.sessions.discard(key, &mut engine.shard.keyspace);
    Err(why)
}

/// WATCH.
pub(super) fn watch(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    if engine.sessions[key].session.transaction.is_some() {
        return Err(CommandError::other("ERR WATCH inside MULTI is not allowed"));
    }
    let db = engine.sessions[key].session.db;
    for name in &args[1..] {
        // A key that has expired already must not spoil the transaction by being found out.
        engine.shard.keyspace.exists(db, name, false);
        engine.sessions.watch(key, db, name, &mut engine.shard.keyspace);
    }
    engine.reply(key).ok();
    Ok(())
}

/// UNWATCH.
pub(super) fn unwatch(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.sessions.unwatch_all(key, &mut engine.shard.keyspace);
    engine.reply(key).ok();
    Ok(())
}

/// Watched keys that have expired meanwhile count as changed: looking finds them out.
fn meet_expired_watched(engine: &mut Engine, key: ClientKey) {
    for (db, name) in engine.sessions[key].session.watched.clone() {
        engine.shard.keyspace.exists(db, &name, false);
    }
    if engine.shard.keyspace.has_effects() {
        let (lsn, _) = engine.shard.keyspace.end_command();
        engine.settle(lsn, Some(key));
    }
}

//! What a client may ask of the log: WAITAOF, CLIENT DURABILITY, BGREWRITEAOF and CHECKPOINT.

use base::Lsn;
use command::argument;
use command::error::{CommandError, Done};

use super::super::blocking::{DurableWait, Wait};
use super::super::shard::Level;
use super::super::{ClientKey, Engine};
use crate::config::FsyncPolicy;

/// BGREWRITEAOF: a checkpoint.
pub(super) fn bgrewriteaof(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    must_start_checkpoint(engine)?;
    engine.reply(key).simple("Background append only file rewriting started");
    Ok(())
}

/// CHECKPOINT.
pub(super) fn checkpoint(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    must_start_checkpoint(engine)?;
    engine.reply(key).ok();
    Ok(())
}

fn must_start_checkpoint(engine: &mut Engine) -> Done {
    if engine.start_checkpoint() {
        return Ok(());
    }
    Err(CommandError::other("ERR Background append only file rewriting already in progress"))
}

impl Engine {
    /// Compacts every segment of the log that has something to lose; inside a transaction, after
    /// it, because its records must lie in one block. `false` when that is being done already.
    pub(crate) fn start_checkpoint(&mut self) -> bool {
        if self.shard.log_state().is_turning_on() {
            // What is being written is as compact as can be.
            return false;
        }
        if self.in_transaction
            && let Some(log) = self.shard.log()
        {
            let is_new = !log.is_compacting() && !self.checkpoint_after_exec;
            self.checkpoint_after_exec = true;
            return is_new;
        }
        let logger = self.deps.logger.clone();
        self.shard.start_checkpoint(self.time.now_us, &logger)
    }
}

/// CLIENT DURABILITY: always, everysec, no, or default for what the server does.
pub(super) fn client_durability(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let policy = if argument::is(args[2], "default") {
        None
    } else {
        Some(FsyncPolicy::by_name(args[2]).ok_or(CommandError::Syntax)?)
    };
    engine.sessions[key].session.durability = policy;
    engine.reply(key).ok();
    Ok(())
}

/// A timeout in milliseconds, as the moment at which it is up; 0 is never.
fn deadline(engine: &Engine, argument: &[u8]) -> Result<Option<i64>, CommandError> {
    let timeout_ms = keyspace::parse_int(argument)
        .ok_or(CommandError::other("ERR timeout is not an integer or out of range"))?;
    match timeout_ms {
        ..0 => Err(CommandError::other("ERR timeout is negative")),
        0 => Ok(None),
        _ => Ok(Some(engine.time.unix_ms().saturating_add(timeout_ms))),
    }
}

/// WAIT: there are no replicas to wait for.
pub(super) fn wait(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let wanted = argument::int(args[1])?;
    let deadline_ms = deadline(engine, args[2])?;
    if wanted <= 0 || engine.in_transaction {
        engine.reply(key).int(0);
    } else {
        engine.sessions.start_wait(key, Wait::Replicas { deadline_ms });
    }
    Ok(())
}

/// WAITAOF.
pub(super) fn waitaof(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let wants_local = match argument::int(args[1])? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::OutOfRange),
    };
    let replicas = argument::int(args[2])?;
    if replicas < 0 {
        return Err(CommandError::MustBePositive);
    }
    let deadline_ms = deadline(engine, args[3])?;
    if wants_local && engine.shard.log().is_none() {
        return Err(CommandError::other(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    let lsn = if engine.shard.log().is_some() {
        engine.sessions[key].session.last_write
    } else {
        Lsn::ZERO
    };
    let is_durable = lsn <= engine.shard.reach.durable;
    if engine.in_transaction || (replicas == 0 && (is_durable || !wants_local)) {
        let local = i64::from(engine.shard.log().is_some() && is_durable);
        let reply = engine.reply(key);
        reply.array(2);
        reply.int(local);
        reply.int(0);
        return Ok(());
    }
    engine.await_block(Level::Durable);
    engine.sessions.start_wait(
        key,
        Wait::Durable(DurableWait { lsn, deadline_ms, wants_replicas: replicas > 0 }),
    );
    Ok(())
}

//! The server as a whole: TIME, SAVE, ROLE, SHUTDOWN.
//!
//! There are no RDB files: the redo log is the database, and it is as durable as `appendfsync`
//! says at every moment. SAVE and BGSAVE, which tools call to make the data safe, therefore ask the
//! log to sync; SAVE replies when it has, and LASTSAVE tells when that was. BGSAVE also starts a
//! checkpoint, as BGREWRITEAOF does. On a log that takes nothing both are errors.

use base::Lsn;
use command::argument;
use command::error::{CommandError, Done};

use super::super::shard::Level;
use super::super::shard::NotSaved;
use super::super::{ClientKey, Engine, Shutdown};

/// What SAVE and BGSAVE say without a log.
const NOTHING_IS_KEPT: &str = "ERR nothing is kept on disk: appendonly is no. \
    CONFIG SET appendonly yes turns the redo log on";

/// TIME.
pub(super) fn time(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.time.refresh();
    let unix_us = engine.time.unix_us();
    let reply = engine.reply(key);
    reply.array(2);
    reply.bulk_int(unix_us / 1_000_000);
    reply.bulk_int(unix_us % 1_000_000);
    Ok(())
}

/// LASTSAVE.
pub(super) fn lastsave(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let saved = engine.shard.checkpoints.last_save_unix_s;
    engine.reply(key).int(saved);
    Ok(())
}

/// SAVE.
pub(super) fn save(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let lsn = engine.begin_to_save()?;
    let output = &mut engine.sessions[key].connection.output;
    let start = output.len();
    output.writer().ok();
    if !engine.shard.reach.has(Level::Durable, lsn) && output.hold(start, Level::Durable, lsn) {
        engine.hold(key, Level::Durable, lsn);
    }
    Ok(())
}

/// BGSAVE.
pub(super) fn bgsave(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    match args {
        [_] => {}
        [_, option] if argument::is(option, "schedule") => {}
        _ => return Err(CommandError::Syntax),
    }
    engine.begin_to_save()?;
    engine.deps.logger.notice("Background saving started: the redo log is synced");
    // One that is under way already is as good.
    let _is_new = engine.start_checkpoint();
    engine.reply(key).simple("Background saving started");
    Ok(())
}

/// ROLE.
pub(super) fn role(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let reply = engine.reply(key);
    reply.array(3);
    reply.bulk_str("master");
    reply.int(0);
    reply.array(0);
    Ok(())
}

/// REPLICAOF and SLAVEOF.
pub(super) fn replicaof(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    if argument::is(args[1], "no") && argument::is(args[2], "one") {
        engine.reply(key).ok();
        return Ok(());
    }
    Err(CommandError::other("ERR replication is not supported"))
}

/// LOLWUT.
pub(super) fn lolwut(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    if let [_, word, version, ..] = args
        && argument::is(word, "version")
    {
        argument::int(version)?;
    }
    let text = format!(
        "Redis ver. {}, as Indelible {} speaks it\n",
        super::info::REDIS_VERSION,
        crate::VERSION
    );
    engine.reply(key).verbatim("txt", &text);
    Ok(())
}

/// SHUTDOWN.
pub(super) fn shutdown(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let (mut abort, mut save, mut nosave, mut now, mut force) = (false, false, false, false, false);
    for option in &args[1..] {
        let option = option.to_ascii_lowercase();
        let flag = match option.as_slice() {
            b"abort" => &mut abort,
            b"save" => &mut save,
            b"nosave" => &mut nosave,
            b"now" => &mut now,
            b"force" => &mut force,
            _ => return Err(CommandError::Syntax),
        };
        *flag = true;
    }
    if (abort && (save || nosave || now || force)) || (save && nosave) {
        return Err(CommandError::Syntax);
    }
    if abort {
        // A shutdown that was asked for is under way before another command can come.
        return Err(CommandError::other("ERR No shutdown in progress."));
    }
    if save && engine.shard.log().is_none() {
        return Err(CommandError::other(NOTHING_IS_KEPT));
    }
    engine.deps.logger.warning("User requested shutdown...");
    engine.shutdown = Some(Shutdown { force });
    // The client learns of it by the end of its connection.
    engine.sessions[key].connection.closing = super::super::client::Closing::AfterReply;
    Ok(())
}

impl Engine {
    /// Asks for everything so far to be safe: the block up to which it must be durable for that.
    fn begin_to_save(&mut self) -> Result<Lsn, CommandError> {
        let lsn = self.shard.begin_to_save().map_err(|not_saved| match not_saved {
            NotSaved::TurningOn => CommandError::other(
                "ERR nothing is saved yet: the redo log is being turned on, try again",
            ),
            NotSaved::NoLog => CommandError::other(NOTHING_IS_KEPT),
            NotSaved::Failed(why) => CommandError::Other(
                format!("MISCONF The redo log takes nothing, so nothing is saved: {why}").into(),
            ),
        })?;
        self.note_saved();
        Ok(lsn)
    }

    /// Notes the time of the last save if it is complete now.
    pub(in super::super) fn note_saved(&mut self) {
        let (unix_s, logger) = (self.time.unix_s(), self.deps.logger.clone());
        self.shard.note_saved(unix_s, &logger);
    }
}

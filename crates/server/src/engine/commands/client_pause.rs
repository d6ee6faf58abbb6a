//! CLIENT PAUSE: commands wait for a while, all of them or those that write, and nothing is expired
//! or evicted meanwhile.

use command::argument;
use command::error::{CommandError, Done};
use command::spec::Flags;
use command::table::Command;

use super::super::{ClientKey, Engine};

/// A pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    /// When it ends, in Unix milliseconds.
    pub(crate) until_ms: i64,
    /// Whether commands that only read wait too.
    pub(crate) everything: bool,
}

/// CLIENT PAUSE.
pub(super) fn pause(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let everything = match args {
        [_, _, _] => true,
        [_, _, _, mode] if argument::is(mode, "all") => true,
        [_, _, _, mode] if argument::is(mode, "write") => false,
        [_, _, _, _] => {
            return Err(CommandError::other("ERR CLIENT PAUSE mode must be WRITE or ALL"));
        }
        _ => return Err(CommandError::WrongArity("client|pause".into())),
    };
    let timeout_ms = keyspace::parse_int(args[2])
        .ok_or(CommandError::other("ERR timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(CommandError::other("ERR timeout is negative"));
    }
    let until_ms = engine.time.unix_ms().saturating_add(timeout_ms);
    // A pause that is there already may become longer and stricter, not weaker.
    let old = engine.pause;
    engine.pause = Some(Pause {
        until_ms: old.map_or(until_ms, |old| old.until_ms.max(until_ms)),
        everything: everything || old.is_some_and(|old| old.everything),
    });
    engine.update_frozen();
    engine.reply(key).ok();
    Ok(())
}

/// CLIENT UNPAUSE.
pub(super) fn unpause(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.pause = None;
    engine.update_frozen();
    engine.sessions.resume_paused(&mut engine.shard.keyspace);
    engine.reply(key).ok();
    Ok(())
}

impl Engine {
    /// Whether a command, which has these flags with its arguments, has to wait for the end of a pause or of a migration,
    /// or until everything is logged.
    pub(crate) fn is_paused_for(&self, key: ClientKey, command: Command, flags: Flags) -> bool {
        if self.waits_for_copying(key, command, flags) {
            return true;
        }
        // There is one migration at a time.
        if self.migrations.is_under_way() && command.name == "migrate" {
            return true;
        }
        let holds_writers = self.saves.final_save || self.migrations.holds_writers();
        if self.pause.is_none() && !holds_writers {
            return false;
        }
        let Some(flags) = self.sessions[key].session.flags_of_execution(command, flags) else {
            return false;
        };
        // CLIENT UNPAUSE must get through.
        let is_writing = flags.intersects(Flags::WRITE.with(Flags::MAY_REPLICATE));
        let everything = self.pause.is_some_and(|pause| pause.everything);
        (everything || is_writing) && !matches!(command.name, "client|pause" | "client|unpause")
    }

    /// Ends the pause when its time is up.
    pub(crate) fn end_pause(&mut self) {
        if self.pause.is_some_and(|pause| pause.until_ms <= self.time.unix_ms()) {
            self.pause = None;
            self.update_frozen();
            self.sessions.resume_paused(&mut self.shard.keyspace);
        }
    }
}

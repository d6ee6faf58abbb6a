//! MONITOR: shows every command that is executed.

use command::error::{CommandError, Done};

use super::super::{ClientKey, Engine};

/// MONITOR.
pub(super) fn monitor(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    if engine.in_transaction {
        return Err(CommandError::other("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if !engine.sessions[key].session.is_monitor {
        engine.sessions[key].session.is_monitor = true;
        engine.sessions.monitors.push(key);
    }
    engine.reply(key).ok();
    Ok(())
}

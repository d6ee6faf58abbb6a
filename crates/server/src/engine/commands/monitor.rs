//! MONITOR: shows every command that is executed.

use command::error::{CommandError, Done};

use super::super::{ClientKey, Engine};

/// MONITOR.
pub(super) fn monitor(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    if engine.in_transaction {
        return Err(CommandError::other("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let session = &mut engine.sessions[key].session;
    if session.monitor.replace(session.identity).is_none() {
        engine.sessions.monitors.push(key);
    }
    engine.reply(key).ok();
    Ok(())
}

//! The server as a whole: TIME, ROLE, SHUTDOWN.

use command::argument;
use command::error::{CommandError, Done};

use super::super::blocking::Wait;
use super::super::saving::NOT_SHUT_DOWN;
use super::super::{ClientKey, Engine, Shutdown};

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
        if !engine.stay_up() {
            return Err(CommandError::other("ERR No shutdown in progress."));
        }
        engine.deps.logger.notice("Shutdown manually aborted.");
        engine.reply(key).ok();
        return Ok(());
    }
    if engine.scripting.is_paused() && !nosave {
        return Err(CommandError::other(engine.scripting.busy()));
    }
    let saves = save || (!nosave && !engine.options.saves.points.is_empty());
    engine.deps.logger.warning("User requested shutdown...");
    if !engine.scripting.is_paused() {
        engine.note_dangerous(key, args, false);
    }
    engine.end_server(saves, Shutdown { force })?;
    if engine.saves.final_save {
        engine.sessions.start_wait(key, Wait::Shutdown);
    } else if !engine.is_ending() {
        // The dump could not even be begun.
        return Err(CommandError::other(NOT_SHUT_DOWN));
    } else {
        // The client learns of it by the end of its connection.
        engine.sessions[key].connection.closing = super::super::client::Closing::AfterReply;
    }
    Ok(())
}

//! CLIENT: the connected clients, and what may be done to them.

use command::argument;
use command::error::{CommandError, Done};

use super::super::client::{Client, Closing, Connection, ReplyMode, Session};
use super::super::{ClientKey, Engine};
use super::client_filter::{Asking, Filter};
use super::{error, text};

/// CLIENT ID.
pub(super) fn id(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let id = engine.sessions[key].id;
    engine.reply(key).int(id.cast_signed());
    Ok(())
}

/// CLIENT INFO.
pub(super) fn info(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let line = engine.client_line(key) + "\n";
    engine.reply(key).verbatim("txt", &line);
    Ok(())
}

/// CLIENT LIST.
pub(super) fn list(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let keys = match ids_alone(&args[2..]) {
        // In this order, and as often.
        Some(ids) => ids.filter_map(|id| engine.sessions.clients.by_id(id)).collect(),
        None => {
            let (users, databases) = (&engine.access.users, engine.options.databases);
            let filter = Filter::parse(&args[2..], Asking::List, users, databases)?;
            engine.clients_of(&filter, key)
        }
    };
    let mark = engine.reply(key).begin_text();
    for listed in keys {
        let line = engine.client_line(listed) + "\n";
        let reply = engine.reply(key);
        reply.raw(line.as_bytes());
        if reply.is_over() {
            break;
        }
    }
    engine.reply(key).finish_text(mark);
    Ok(())
}

/// CLIENT GETNAME.
pub(super) fn getname(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let Client { session: Session { name, .. }, connection: Connection { output, .. }, .. } =
        &mut engine.sessions[key];
    match name.as_slice() {
        [] => output.writer().null(),
        name => output.writer().bulk(name),
    }
    Ok(())
}

/// CLIENT SETNAME.
pub(super) fn setname(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.set_client_name(key, args[2])?;
    engine.reply(key).ok();
    Ok(())
}

/// CLIENT REPLY.
pub(super) fn reply(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let client = &mut engine.sessions[key];
    match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            client.session.reply_mode = ReplyMode::On;
            client.connection.output.unmute();
            client.connection.output.writer().ok();
        }
        b"off" => client.session.reply_mode = ReplyMode::Off,
        b"skip" if client.session.reply_mode == ReplyMode::Off => {}
        b"skip" => client.session.reply_mode = ReplyMode::SkipNext,
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}

/// CLIENT NO-EVICT.
pub(super) fn no_evict(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions[key].connection.is_exempt_from_eviction = on_or_off(args[2])?;
    engine.reply(key).ok();
    Ok(())
}

/// CLIENT NO-TOUCH.
pub(super) fn no_touch(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions[key].session.is_no_touch = on_or_off(args[2])?;
    engine.reply(key).ok();
    Ok(())
}

/// CLIENT SETINFO.
pub(super) fn setinfo(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let client = &mut engine.sessions[key];
    let attribute = if argument::is(args[2], "lib-name") {
        &mut client.session.library_name
    } else if argument::is(args[2], "lib-ver") {
        &mut client.session.library_version
    } else {
        return Err(error(format!("ERR Unrecognized option '{}'", text(args[2]))));
    };
    if !is_one_word(args[3]) {
        return Err(error(format!(
            "ERR {} cannot contain spaces, newlines or special characters.",
            text(args[2])
        )));
    }
    *attribute = args[3].to_vec();
    client.connection.output.writer().ok();
    Ok(())
}

/// CLIENT UNBLOCK.
pub(super) fn unblock(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let with_error = match args.get(3) {
        None => false,
        Some(reason) if argument::is(reason, "timeout") => false,
        Some(reason) if argument::is(reason, "error") => true,
        Some(_) => {
            return Err(CommandError::other(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            ));
        }
    };
    let id = argument::int(args[2])?;
    let target = u64::try_from(id).ok().and_then(|id| engine.sessions.clients.by_id(id));
    let target = target.filter(|target| {
        engine.sessions[*target].session.wait.as_ref().is_some_and(|wait| wait.is_blocking())
    });
    if let Some(target) = target {
        if with_error {
            engine.end_wait_with_error(target, "UNBLOCKED client unblocked via CLIENT UNBLOCK");
        } else {
            engine.sessions.time_out(
                target,
                engine.shard.reach.durable,
                &mut engine.shard.keyspace,
            );
        }
    }
    engine.reply(key).int(i64::from(target.is_some()));
    Ok(())
}

/// CLIENT KILL.
pub(super) fn kill(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let (filter, is_old_form) = match args {
        [_, _, address] => (Filter::of_address(address), true),
        [_, _, options @ ..] => {
            let (users, databases) = (&engine.access.users, engine.options.databases);
            (Filter::parse(options, Asking::Kill, users, databases)?, false)
        }
        _ => return Err(CommandError::Syntax),
    };
    let mut keys = engine.clients_of(&filter, key);
    keys.retain(|candidate| engine.sessions[*candidate].connection.closing == Closing::No);
    for victim in &keys {
        let closing = if *victim == key { Closing::AfterReply } else { Closing::Now };
        engine.end_client(*victim, closing);
    }
    match (is_old_form, keys.is_empty()) {
        (true, true) => return Err(CommandError::other("ERR No such client")),
        (true, false) => engine.reply(key).ok(),
        (false, _) => engine.reply(key).count(keys.len()),
    }
    Ok(())
}

fn on_or_off(argument: &[u8]) -> Result<bool, CommandError> {
    if argument::is(argument, "on") {
        Ok(true)
    } else if argument::is(argument, "off") {
        Ok(false)
    } else {
        Err(CommandError::Syntax)
    }
}

/// Whether a name leaves the fields of CLIENT LIST apart.
fn is_one_word(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// The ids, if CLIENT LIST is asked for these and nothing else: those that a client can have.
fn ids_alone<'w>(words: &'w [&[u8]]) -> Option<impl Iterator<Item = u64> + 'w> {
    let [option, ids @ ..] = words else { return None };
    let is_it = argument::is(option, "id")
        && !ids.is_empty()
        && ids.iter().all(|id| keyspace::parse_int(id).is_some());
    let parse = |id: &&[u8]| keyspace::parse_int(id).and_then(|id| u64::try_from(id).ok());
    is_it.then(|| ids.iter().filter_map(parse))
}

impl Engine {
    /// The clients that a filter of the client `asker` means, in the order of their places.
    fn clients_of(&self, filter: &Filter<'_>, asker: ClientKey) -> Vec<ClientKey> {
        let now_us = self.time.now_us;
        let clients = self.sessions.clients.iter();
        let meant = clients.filter(|(key, client)| {
            !(filter.skips_asker && *key == asker) && filter.has(client, now_us)
        });
        meant.map(|(key, _)| key).collect()
    }

    /// Names a client.
    pub(super) fn set_client_name(&mut self, key: ClientKey, name: &[u8]) -> Done {
        check_client_name(name)?;
        self.sessions[key].session.name = name.to_vec();
        Ok(())
    }
}

/// Refuses what is no name of a client.
pub(super) fn check_client_name(name: &[u8]) -> Done {
    if is_one_word(name) {
        return Ok(());
    }
    Err(CommandError::other(
        "ERR Client names cannot contain spaces, newlines or special characters.",
    ))
}

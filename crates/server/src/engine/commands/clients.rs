//! CLIENT: the connected clients, and what may be done to them.

use command::argument;
use command::error::{CommandError, Done};

use super::super::client::{Client, Closing, Connection, ReplyMode, Session};
use super::super::{ClientKey, Engine};
use super::{error, text};

/// CLIENT ID.
pub(super) fn id(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let id = engine.sessions[key].id;
    engine.reply(key).int(id.cast_signed());
    Ok(())
}

/// CLIENT INFO.
pub(super) fn info(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let line = engine.sessions[key].line(engine.time.now_us) + "\n";
    engine.reply(key).verbatim("txt", &line);
    Ok(())
}

/// CLIENT LIST.
pub(super) fn list(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let keys = match &args[2..] {
        [] => engine.sessions.clients.keys(),
        [option, class] if argument::is(option, "type") => {
            let class = Class::parse(class)?;
            let mut keys = engine.sessions.clients.keys();
            keys.retain(|key| class.has(&engine.sessions[*key]));
            keys
        }
        [option, ids @ ..] if argument::is(option, "id") && !ids.is_empty() => {
            let mut keys = Vec::new();
            for id in ids {
                let id =
                    keyspace::parse_int(id).ok_or(CommandError::other("ERR Invalid client ID"))?;
                keys.extend(
                    u64::try_from(id).ok().and_then(|id| engine.sessions.clients.by_id(id)),
                );
            }
            keys
        }
        _ => return Err(CommandError::Syntax),
    };
    let mark = engine.reply(key).begin_text();
    for listed in keys {
        let line = engine.sessions[listed].line(engine.time.now_us) + "\n";
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
        [_, _, address] => {
            (Filter { address: Some(address), skip_me: false, ..Filter::default() }, true)
        }
        [_, _, options @ ..] => (Filter::parse(options)?, false),
        _ => return Err(CommandError::Syntax),
    };
    let mut keys = engine.sessions.clients.keys();
    keys.retain(|candidate| {
        let client = &engine.sessions[*candidate];
        client.connection.closing == Closing::No
            && filter.has(client, engine.time.now_us)
            && !(filter.skip_me && *candidate == key)
    });
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

/// Which clients CLIENT KILL means.
#[derive(Default)]
struct Filter<'a> {
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    id: Option<u64>,
    class: Option<Class>,
    /// Only those that have been connected for so many seconds at least.
    age_s: Option<u64>,
    skip_me: bool,
}

impl<'a> Filter<'a> {
    fn parse(options: &[&'a [u8]]) -> Result<Self, CommandError> {
        let mut filter = Self { skip_me: true, ..Self::default() };
        let (pairs, rest) = options.as_chunks::<2>();
        for [option, value] in pairs {
            let value = *value;
            match option.to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = keyspace::parse_int(value)
                        .and_then(|id| u64::try_from(id).ok())
                        .filter(|id| *id > 0);
                    filter.id = Some(
                        id.ok_or(CommandError::other("ERR client-id should be greater than 0"))?,
                    );
                }
                b"maxage" => filter.age_s = Some(parse_age(value)?),
                b"type" => filter.class = Some(Class::parse(value)?),
                b"addr" => filter.address = Some(value),
                b"laddr" => filter.local_address = Some(value),
                b"user" if value == b"default" => {}
                b"user" => return Err(error(format!("ERR No such user '{}'", text(value)))),
                b"skipme" if argument::is(value, "yes") => filter.skip_me = true,
                b"skipme" if argument::is(value, "no") => filter.skip_me = false,
                _ => return Err(CommandError::Syntax),
            }
        }
        if !rest.is_empty() {
            return Err(CommandError::Syntax);
        }
        Ok(filter)
    }

    fn has(&self, client: &Client, now_us: u64) -> bool {
        let age_s = now_us.saturating_sub(client.connection.connected_us) / 1_000_000;
        self.address.is_none_or(|address| client.connection.peer.address.as_bytes() == address)
            && self
                .local_address
                .is_none_or(|address| client.connection.peer.local_address.as_bytes() == address)
            && self.id.is_none_or(|id| client.id == id)
            && self.class.as_ref().is_none_or(|class| class.has(client))
            && self.age_s.is_none_or(|least_s| age_s >= least_s)
    }
}

/// The argument of MAXAGE, in seconds.
fn parse_age(argument: &[u8]) -> Result<u64, CommandError> {
    const NO_NUMBER: CommandError =
        CommandError::other("ERR maxage is not an integer or out of range");
    const TOO_SMALL: CommandError = CommandError::other("ERR maxage should be greater than 0");
    let age_s = keyspace::parse_int(argument).ok_or(NO_NUMBER)?;
    u64::try_from(age_s).ok().filter(|age_s| *age_s > 0).ok_or(TOO_SMALL)
}

/// The types of clients that can be asked for.
enum Class {
    Normal,
    PubSub,
    /// There are none.
    Replication,
}

impl Class {
    fn parse(name: &[u8]) -> Result<Self, CommandError> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Self::Normal),
            b"pubsub" => Ok(Self::PubSub),
            b"replica" | b"slave" | b"master" => Ok(Self::Replication),
            _ => Err(error(format!("ERR Unknown client type '{}'", text(name)))),
        }
    }

    fn has(&self, client: &Client) -> bool {
        match self {
            Self::Normal => !client.is_subscribed(),
            Self::PubSub => client.is_subscribed(),
            Self::Replication => false,
        }
    }
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

impl Engine {
    /// Names a client.
    pub(super) fn set_client_name(&mut self, key: ClientKey, name: &[u8]) -> Done {
        if !is_one_word(name) {
            return Err(CommandError::other(
                "ERR Client names cannot contain spaces, newlines or special characters.",
            ));
        }
        self.sessions[key].session.name = name.to_vec();
        Ok(())
    }
}

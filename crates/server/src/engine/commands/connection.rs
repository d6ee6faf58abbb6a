//! The connection itself: PING, AUTH, HELLO, SELECT, RESET, QUIT.

use base::DbIndex;
use command::argument;
use command::error::{CommandError, Done};
use resp::Protocol;

use super::super::client::{Client, Closing, ReplyMode};
use super::super::{ClientKey, Engine};
use super::clients::check_client_name;
use super::{error, text};

/// PING.
pub(super) fn ping(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let message = match args {
        [_] => None,
        [_, message] => Some(*message),
        _ => return Err(CommandError::WrongArity("ping".into())),
    };
    let in_pubsub = engine.sessions[key].is_in_pubsub_context();
    let reply = engine.reply(key);
    match message {
        _ if in_pubsub => {
            reply.array(2);
            reply.bulk_str("pong");
            reply.bulk(message.unwrap_or_default());
        }
        Some(message) => reply.bulk(message),
        None => reply.simple("PONG"),
    }
    Ok(())
}

/// ECHO.
pub(super) fn echo(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.reply(key).bulk(args[1]);
    Ok(())
}

/// QUIT.
pub(super) fn quit(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.reply(key).ok();
    engine.end_client(key, Closing::AfterReply);
    Ok(())
}

/// SELECT.
pub(super) fn select(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions[key].session.db = argument::database(args[1], &engine.shard.keyspace)?;
    engine.reply(key).ok();
    Ok(())
}

/// AUTH.
pub(super) fn auth(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let (user, password) = match args {
        [_, password] if !engine.access.users.default_user().needs_no_password() => {
            (&b"default"[..], *password)
        }
        [_, _] => {
            return Err(CommandError::other(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        [_, user, password] => (*user, *password),
        _ => return Err(CommandError::Syntax),
    };
    engine.authenticate(key, args, user, password)?;
    engine.reply(key).ok();
    Ok(())
}

/// HELLO.
pub(super) fn hello(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let protocol = match args.get(1) {
        None => None,
        Some(version) => match argument::int(version) {
            Ok(2) => Some(Protocol::Resp2),
            Ok(3) => Some(Protocol::Resp3),
            Ok(_) => return Err(CommandError::other("NOPROTO unsupported protocol version")),
            Err(_) => {
                return Err(CommandError::other(
                    "ERR Protocol version is not an integer or out of range",
                ));
            }
        },
    };
    // A call that fails changes nothing.
    let mut options = args.get(2..).unwrap_or_default();
    let (mut credentials, mut new_name) = (None, None);
    while let [option, rest @ ..] = options {
        options = match rest {
            [user, password, rest @ ..] if argument::is(option, "auth") => {
                credentials = Some((*user, *password));
                rest
            }
            [name, rest @ ..] if argument::is(option, "setname") => {
                check_client_name(name)?;
                new_name = Some(*name);
                rest
            }
            _ => return Err(error(format!("ERR Syntax error in HELLO option '{}'", text(option)))),
        };
    }
    if let Some((user, password)) = credentials {
        engine.authenticate(key, args, user, password)?;
    }
    if engine.sessions[key].session.is_stranger() {
        return Err(CommandError::other(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version \
             at the same time",
        ));
    }
    if let Some(name) = new_name {
        engine.set_client_name(key, name)?;
    }
    let client = &mut engine.sessions[key];
    let id = client.id;
    if let Some(protocol) = protocol {
        client.connection.output.set_protocol(protocol);
    }
    let reply = client.connection.output.writer();
    let version = if reply.is_resp3() { 3 } else { 2 };
    reply.map(7);
    reply.bulk_str("server");
    reply.bulk_str("redis");
    reply.bulk_str("version");
    reply.bulk_str(super::info::REDIS_VERSION);
    reply.bulk_str("proto");
    reply.int(version);
    reply.bulk_str("id");
    reply.int(id.cast_signed());
    reply.bulk_str("mode");
    reply.bulk_str("standalone");
    reply.bulk_str("role");
    reply.bulk_str("master");
    reply.bulk_str("modules");
    reply.array(0);
    Ok(())
}

/// RESET.
pub(super) fn reset(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.sessions.discard(key, &mut engine.shard.keyspace);
    engine.sessions.unsubscribe_all(key);
    engine.stop_tracking(key);
    engine.sessions.monitors.retain(|monitor| *monitor != key);
    let identity = engine.access.of_new_connection();
    let client: &mut Client = &mut engine.sessions[key];
    client.session.monitor = None;
    client.session.name.clear();
    client.session.db = DbIndex::FIRST;
    client.session.identity = identity;
    client.session.reply_mode = ReplyMode::On;
    client.connection.is_exempt_from_eviction = false;
    client.session.is_no_touch = false;
    client.session.durability = None;
    client.connection.output.unmute();
    client.connection.output.set_protocol(Protocol::Resp2);
    client.connection.output.writer().simple("RESET");
    Ok(())
}

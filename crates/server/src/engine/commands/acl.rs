//! ACL: users, and what each may do.

use acl::{Denial, Selector, SetUserError};
use command::argument;
use command::error::{CommandError, Done};

use super::super::{ClientKey, Engine};
use super::{error, text};

/// ACL WHOAMI.
pub(super) fn whoami(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let name = engine.access.name_of(engine.sessions[key].session.identity).to_owned();
    engine.reply(key).bulk(&name);
    Ok(())
}

/// ACL USERS.
pub(super) fn users(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let reply = engine.sessions[key].connection.output.writer();
    let users = engine.access.users.iter();
    reply.array(users.len());
    users.for_each(|(name, _)| reply.bulk(name));
    Ok(())
}

/// ACL LIST.
pub(super) fn list(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let reply = engine.sessions[key].connection.output.writer();
    let lines = engine.access.users.lines();
    reply.array(lines.len());
    lines.for_each(|line| reply.bulk(&line));
    Ok(())
}

/// ACL SETUSER.
pub(super) fn setuser(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine
        .access
        .users
        .set_user(args[2], &args[3..])
        .map_err(|why: SetUserError| error(format!("ERR {why}")))?;
    engine.enforce_users(Some(key));
    engine.reply(key).ok();
    Ok(())
}

/// ACL DELUSER.
pub(super) fn deluser(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    if args[2..].contains(&&b"default"[..]) {
        return Err(CommandError::other("ERR The 'default' user cannot be removed"));
    }
    let count = args[2..].iter().filter(|name| engine.access.users.delete(name)).count();
    engine.enforce_users(Some(key));
    engine.reply(key).count(count);
    Ok(())
}

/// ACL GETUSER.
pub(super) fn getuser(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let reply = engine.sessions[key].connection.output.writer();
    let Some(user) = engine.access.users.by_name(args[2]) else {
        reply.null();
        return Ok(());
    };
    reply.map(6);
    reply.bulk_str("flags");
    let flags: Vec<&str> = user.flags().collect();
    reply.set(flags.len());
    flags.into_iter().for_each(|flag| reply.bulk_str(flag));
    reply.bulk_str("passwords");
    let passwords: Vec<String> = user.passwords().collect();
    reply.array(passwords.len());
    passwords.iter().for_each(|password| reply.bulk_str(password));
    write_selector(user.root(), reply);
    reply.bulk_str("selectors");
    reply.array(user.selectors().len());
    for selector in user.selectors() {
        reply.map(3);
        write_selector(selector, reply);
    }
    Ok(())
}

fn write_selector(selector: &Selector, reply: &mut resp::Writer) {
    reply.bulk_str("commands");
    reply.bulk(&selector.describe_commands());
    reply.bulk_str("keys");
    reply.bulk(&selector.describe_keys());
    reply.bulk_str("channels");
    reply.bulk(&selector.describe_channels());
}

/// ACL LOAD.
pub(super) fn load(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.required_acl_file()?;
    engine.load_acl_file(Some(key)).map_err(|why| error(format!("ERR {why}")))?;
    engine.reply(key).ok();
    Ok(())
}

/// ACL SAVE.
pub(super) fn save(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let path = engine.required_acl_file()?;
    if let Err(why) = engine.save_acl_file(&path) {
        engine.deps.logger.warning(&format!("ACL SAVE failed: {why}"));
        return Err(CommandError::other(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        ));
    }
    engine.reply(key).ok();
    Ok(())
}

/// ACL CAT.
pub(super) fn cat(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let reply = engine.reply(key);
    match args {
        [_, _] => {
            let names: Vec<&str> = acl::categories().collect();
            reply.array(names.len());
            names.into_iter().for_each(|name| reply.bulk_str(name));
        }
        [_, _, name] => {
            let members = acl::members(name)
                .ok_or_else(|| error(format!("ERR Unknown category '{}'", text(name))))?;
            reply.array(members.len());
            members.iter().for_each(|command| reply.bulk_str(command.name));
        }
        _ => return Err(wrong_arguments(args)),
    }
    Ok(())
}

/// ACL GENPASS.
pub(super) fn genpass(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let bits = match args {
        [_, _] => 256,
        [_, _, bits] => argument::int(bits)?,
        _ => return Err(wrong_arguments(args)),
    };
    if !(1..=4096).contains(&bits) {
        return Err(CommandError::other(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = usize::try_from(bits).expect("at most 4096").div_ceil(4);
    let password = super::super::random_hex(engine.deps.entropy.as_mut(), digits);
    engine.reply(key).bulk_str(&password);
    Ok(())
}

/// ACL LOG.
pub(super) fn log(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let count = match args {
        [_, _] => 10,
        [_, _, word] if argument::is(word, "reset") => {
            engine.access.log.reset();
            engine.reply(key).ok();
            return Ok(());
        }
        [_, _, count] => usize::try_from(argument::int(count)?).unwrap_or(0),
        _ => return Err(wrong_arguments(args)),
    };
    let now_ms = engine.time.unix_ms();
    let reply = engine.sessions[key].connection.output.writer();
    let entries = engine.access.log.entries();
    let count = count.min(entries.len());
    reply.array(count);
    for entry in entries.take(count) {
        reply.map(10);
        reply.bulk_str("count");
        reply.int(entry.count.cast_signed());
        for (name, value) in [("reason", entry.reason.name()), ("context", entry.context.name())] {
            reply.bulk_str(name);
            reply.bulk_str(value);
        }
        reply.bulk_str("object");
        reply.bulk(&entry.object);
        reply.bulk_str("username");
        reply.bulk(&entry.user);
        reply.bulk_str("age-seconds");
        #[expect(clippy::cast_precision_loss, reason = "an age")]
        let age_ms = now_ms.saturating_sub(entry.updated_ms) as f64;
        reply.double(age_ms / 1000.0);
        reply.bulk_str("client-info");
        reply.bulk_str(&entry.client);
        let numbers = [
            ("entry-id", entry.id.cast_signed()),
            ("timestamp-created", entry.created_ms),
            ("timestamp-last-updated", entry.updated_ms),
        ];
        for (name, number) in numbers {
            reply.bulk_str(name);
            reply.int(number);
        }
    }
    Ok(())
}

/// ACL DRYRUN.
pub(super) fn dryrun(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let Some(user) = engine.access.users.by_name(args[2]) else {
        return Err(error(format!("ERR User '{}' not found", text(args[2]))));
    };
    let call = &args[3..];
    let Ok(command) = engine.config.commands().resolve(call) else {
        return Err(error(format!("ERR Command '{}' not found", text(call[0]))));
    };
    if !command.accepts(call.len()) {
        return Err(CommandError::WrongArity(command.name.into()));
    }
    let decision =
        user.check(command, call).map_err(|denial: Denial| denial.dry_run(args[2], command, call));
    let reply = engine.reply(key);
    match decision {
        Ok(()) => reply.ok(),
        Err(why) => reply.bulk(&why),
    }
    Ok(())
}

/// ACL HELP.
pub(super) fn help(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    super::help::help(engine, key, args)
}

/// What a subcommand says that takes fewer arguments.
fn wrong_arguments(args: &[&[u8]]) -> CommandError {
    error(format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try ACL HELP.",
        text(args[1])
    ))
}

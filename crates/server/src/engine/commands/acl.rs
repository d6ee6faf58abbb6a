//! ACL: there is one user, `default`, which may do everything after AUTH.

use command::error::{CommandError, Done};
use command::spec::Categories;
use command::table;

use super::super::{ClientKey, Engine};
use super::{error, text};

/// All of ACL's subcommands.
pub(super) fn acl(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    match args[1].to_ascii_lowercase().as_slice() {
        b"whoami" => engine.reply(key).bulk_str("default"),
        b"users" => {
            let reply = engine.reply(key);
            reply.array(1);
            reply.bulk_str("default");
        }
        b"list" => {
            let rule = if engine.options.access.require_password.is_empty() {
                "nopass"
            } else {
                "#(hidden)"
            };
            let line = format!("user default on {rule} ~* &* +@all");
            let reply = engine.reply(key);
            reply.array(1);
            reply.bulk_str(&line);
        }
        b"cat" => return categories(engine, key, &args[2..]),
        b"genpass" => return genpass(engine, key, &args[2..]),
        b"getuser" if args[2] == b"default" => getuser(engine, key),
        b"getuser" => engine.reply(key).null(),
        b"log" => match args.get(2) {
            Some(word) if word.eq_ignore_ascii_case(b"reset") => engine.reply(key).ok(),
            _ => engine.reply(key).array(0),
        },
        b"help" => return super::help::help(engine, key, args),
        _ => {
            return Err(CommandError::other(
                "ERR there is one user, default; users cannot be changed",
            ));
        }
    }
    Ok(())
}

fn categories(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let reply = engine.reply(key);
    match args {
        [] => {
            let names: Vec<&str> = all_categories().names().collect();
            reply.array(names.len());
            names.into_iter().for_each(|name| reply.bulk_str(name));
        }
        [name] => {
            let category = Categories::by_name(name)
                .ok_or_else(|| error(format!("ERR Unknown category '{}'", text(name))))?;
            let mark = reply.mark();
            let mut count = 0;
            let commands = table::all()
                .flat_map(|command| std::iter::once(command).chain(command.subcommands()));
            for command in commands.filter(|command| command.categories().has(category)) {
                reply.bulk_str(command.name);
                count += 1;
            }
            reply.finish_array(mark, count);
        }
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}

/// Every category that a command is in.
fn all_categories() -> Categories {
    table::all().fold(Categories::NONE, |all, command| all.with(command.categories()))
}

fn genpass(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let bits = match args {
        [] => 256,
        [bits] => command::argument::int(bits)?,
        _ => return Err(CommandError::Syntax),
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

fn getuser(engine: &mut Engine, key: ClientKey) {
    let needs_password = !engine.options.access.require_password.is_empty();
    let reply = engine.reply(key);
    reply.map(6);
    reply.bulk_str("flags");
    reply.set(if needs_password { 1 } else { 2 });
    reply.bulk_str("on");
    if !needs_password {
        reply.bulk_str("nopass");
    }
    reply.bulk_str("passwords");
    reply.array(0);
    for (name, rule) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        reply.bulk_str(name);
        reply.bulk_str(rule);
    }
    reply.bulk_str("selectors");
    reply.array(0);
}

//! CONFIG.

use command::error::{CommandError, Done};

use super::super::{ClientKey, Engine, HostRequest};
use super::error;
use crate::config::Config;
use crate::network::Listening;
use crate::tls::{Acceptor, TlsSettings};

/// CONFIG GET.
pub(super) fn get(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let mut found: Vec<(&'static str, String, String)> = Vec::new();
    for pattern in &args[2..] {
        let is_name = !pattern.iter().any(|byte| b"*?[".contains(byte));
        for (name, value) in engine.config.matching(pattern) {
            if !found.iter().any(|(known, ..)| *known == name) {
                // A name is repeated as the client wrote it.
                let shown = if is_name { String::from_utf8_lossy(pattern) } else { name.into() };
                found.push((name, shown.into_owned(), value.into_owned()));
            }
        }
    }
    let reply = engine.reply(key);
    reply.map(found.len());
    for (_, name, value) in found {
        reply.bulk_str(&name);
        reply.bulk_str(&value);
    }
    Ok(())
}

/// CONFIG SET.
pub(super) fn set(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let not_text =
        |_| CommandError::other("ERR CONFIG SET failed - the argument is not UTF-8 text");
    let texts = args[2..]
        .iter()
        .map(|arg| std::str::from_utf8(arg))
        .collect::<Result<Vec<_>, _>>()
        .map_err(not_text)?;
    let pairs: Vec<(&str, &str)> = texts.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let protected_allowed = engine.allows(engine.options.access.protected_configs, key);
    let (mut config, names) = engine
        .config
        .with_changes(&pairs, protected_allowed)
        .map_err(|wrong| error(wrong.to_string()))?;
    if names.contains(&"dir") {
        let directory = config.value("dir");
        if !std::path::Path::new(directory).is_dir() {
            return Err(error(
                "ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or directory",
            ));
        }
    }
    // What Redis would keep under the new configuration is kept here, too (ADR 12).
    if (names.contains(&"appendonly") || names.contains(&"save")) && config.keep_what_redis_keeps()
    {
        engine.deps.logger.warning(
            "WARNING: appendonly is no, but there are save points, under which Redis keeps the \
             data: the redo log is on. For a cache that keeps nothing: save \"\"",
        );
    }
    let is_new = |name: &str| config.value(name) != engine.config.value(name);
    if is_new("maxclients") {
        let wanted = config.number("maxclients");
        let allowed = engine.network.allow_clients(wanted, config.words("log-devices").count());
        if allowed < wanted {
            return Err(error(format!(
                "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating \
                 system is not able to handle the specified number of clients, try with {allowed}"
            )));
        }
    }
    let sets_password = names.contains(&"requirepass");
    if sets_password && let Err(why) = acl::check_password(config.value("requirepass").as_bytes()) {
        return Err(error(format!(
            "ERR CONFIG SET failed (possibly related to argument 'requirepass') - {why}"
        )));
    }
    let turns_log = is_new("appendonly");
    if turns_log && engine.shard.is_restoring() {
        return Err(error(
            "ERR CONFIG SET failed (possibly related to argument 'appendonly') - keys are still coming back from the log, try again when that is done (see INFO, recovery_state)",
        ));
    }
    let options = config.options();
    let keyspace = &engine.shard.keyspace;
    if turns_log && (keyspace.bare_values() > 0 || keyspace.is_cold()) {
        return Err(error(
            "ERR CONFIG SET failed (possibly related to argument 'appendonly') - some keys or their values are in the log only: restart with another maxmemory-policy first (see INFO, cold_keys and cold_values)",
        ));
    }
    if options.eviction.is_cold() && !options.log.enabled {
        let argument = if turns_log { "appendonly" } else { "maxmemory-policy" };
        return Err(error(format!(
            "ERR CONFIG SET failed (possibly related to argument '{argument}') - maxmemory-policy cold-lru and cold-lfu need the redo log"
        )));
    }
    if config.merges_without_log() {
        let argument = if turns_log { "appendonly" } else { "snapshot-algorithm" };
        return Err(error(format!(
            "ERR CONFIG SET failed (possibly related to argument '{argument}') - snapshot-algorithm hourglass needs the redo log"
        )));
    }
    // A file that is named again may have another certificate.
    let is_tls = |name: &&&str| name.starts_with("tls-") && **name != "tls-auth-clients-user";
    let tls = names.iter().find(is_tls);
    let acceptor = tls.map(|name| load_tls(engine, &config, name)).transpose()?.flatten();
    let changes_devices = is_new("log-devices");
    let listening = ["port", "tls-port", "bind"].into_iter().find(|name| is_new(name));
    if let Some(argument) = listening {
        listen(engine, &config, argument)?;
    }
    if changes_devices {
        let changed = change_devices(engine, &config, turns_log);
        if changed.is_err() && listening.is_some() {
            // All or nothing: back to where it listened a moment ago.
            let old = engine.config.clone();
            let _ignored = listen(engine, &old, "port");
        }
        changed?;
    }
    if let Some(acceptor) = acceptor {
        engine.network.secure(acceptor);
    }
    let changes = engine.config.describe_changes(&config);
    if !changes.is_empty() {
        engine.deps.logger.notice(&format!("CONFIG SET {changes}"));
        engine.note_dangerous(key, args, false);
    }
    engine.set_config(config);
    engine.set_access(sets_password, key);
    if names.contains(&"maxmemory") {
        engine.make_room_now();
    }
    if turns_log && engine.shard.turn_log(engine.options.log.enabled) {
        engine.request_host(HostRequest::OpenLog, key);
    } else {
        engine.reply(key).ok();
    }
    Ok(())
}

/// Uses the directories for the log that the new configuration lists; those of a log that is off,
/// or that is turned on or off now, count when it is opened.
fn change_devices(engine: &mut Engine, config: &Config, turns_log: bool) -> Done {
    if engine.shard.is_loading() || engine.shard.log_state().is_turning_on() {
        // What is being opened has the old ones, and the new ones would never come to it.
        return Err(error(
            "ERR CONFIG SET failed (possibly related to argument 'log-devices') - the log is being opened, try again when that is done (see INFO, loading and redo_turning_on)",
        ));
    }
    if turns_log {
        return Ok(());
    }
    let devices = config.options().log.devices;
    if engine.in_transaction && engine.shard.log().is_some() {
        // The open block ends with the old devices, and a transaction's records lie in one block.
        return Err(error(
            "ERR CONFIG SET failed (possibly related to argument 'log-devices') - can't be set inside a transaction",
        ));
    }
    let Some(log) = engine.shard.log_mut() else { return Ok(()) };
    log.set_devices(&devices, engine.deps.entropy.as_mut()).map_err(|why| {
        error(format!("ERR CONFIG SET failed (possibly related to argument 'log-devices') - {why}"))
    })?;
    engine.deps.logger.notice(
        "The log's devices are changed; what is no longer listed is drained (see INFO, redo_device). \
         CONFIG REWRITE keeps the list for the next start",
    );
    Ok(())
}

/// Reads the files that secure connections, if the new configuration has a port for these.
fn load_tls(
    engine: &Engine,
    config: &Config,
    argument: &str,
) -> Result<Option<Acceptor>, CommandError> {
    let Some(settings) = TlsSettings::of(config) else { return Ok(None) };
    engine.network.load_tls(&settings).map_err(|why| {
        engine.deps.logger.warning(&format!("TLS stays as it is: {why}"));
        error(format!(
            "ERR CONFIG SET failed (possibly related to argument '{argument}') - Unable to update TLS configuration. \
             Check server logs."
        ))
    })
}

/// Listens where the new configuration says.
fn listen(engine: &mut Engine, config: &Config, argument: &str) -> Done {
    engine.network.listen(&Listening::of(config)).map_err(|why| {
        engine.deps.logger.warning(&why.to_string());
        let refusal = match argument {
            "bind" => "Failed to bind to specified addresses.",
            _ => "Unable to listen on this port. Check server logs.",
        };
        error(format!(
            "ERR CONFIG SET failed (possibly related to argument '{argument}') - {refusal}"
        ))
    })
}

/// CONFIG RESETSTAT.
pub(super) fn resetstat(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.observed.reset();
    *engine.shard.keyspace.stats_mut() = keyspace::Stats::default();
    engine.reply(key).ok();
    Ok(())
}

/// CONFIG REWRITE.
pub(super) fn rewrite(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let Some(path) = engine.config.file.as_deref() else {
        return Err(CommandError::other("ERR The server is running without a config file"));
    };
    let users = engine.lines_of_users();
    if let Err(why) = engine.config.rewrite(engine.deps.disk.as_ref(), path, &users) {
        engine.deps.logger.warning(&format!("CONFIG REWRITE failed: {why}"));
        return Err(error(format!("ERR Rewriting config file: {why}")));
    }
    engine.deps.logger.warning("CONFIG REWRITE executed with success.");
    engine.reply(key).ok();
    Ok(())
}

//! CONFIG.

use command::error::{CommandError, Done};

use super::super::stats::Counters;
use super::super::{ClientKey, Engine};
use super::error;

/// CONFIG GET.
pub(super) fn get(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let mut found: Vec<(&'static str, String, String)> = Vec::new();
    for pattern in &args[2..] {
        let is_name = !pattern.iter().any(|byte| b"*?[".contains(byte));
        for (name, value) in engine.config.matching(pattern) {
            if !found.iter().any(|(known, ..)| *known == name) {
                // A name is repeated as the client wrote it.
                let shown = if is_name { String::from_utf8_lossy(pattern) } else { name.into() };
                found.push((name, shown.into_owned(), value.to_owned()));
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
    let protected_allowed = engine.allows(engine.options.protected_configs, key);
    let (config, names) = engine
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
    if names.contains(&"appendonly")
        && config.value("appendonly") != engine.config.value("appendonly")
    {
        return Err(error(
            "ERR CONFIG SET failed (possibly related to argument 'appendonly') - \
             the redo log can only be turned on or off when the server starts",
        ));
    }
    engine.set_config(config);
    if names.contains(&"maxmemory") {
        engine.make_room();
    }
    engine.reply(key).ok();
    Ok(())
}

/// CONFIG RESETSTAT.
pub(super) fn resetstat(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.counters = Counters::default();
    *engine.keyspace.stats_mut() = keyspace::Stats::default();
    engine.reply(key).ok();
    Ok(())
}

/// CONFIG REWRITE.
pub(super) fn rewrite(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    if engine.config.file.is_none() {
        return Err(CommandError::other("ERR The server is running without a config file"));
    }
    if let Err(why) = engine.config.rewrite() {
        engine.surroundings.logger.warning(&format!("CONFIG REWRITE failed: {why}"));
        return Err(error(format!("ERR Rewriting config file: {why}")));
    }
    engine.surroundings.logger.warning("CONFIG REWRITE executed with success.");
    engine.reply(key).ok();
    Ok(())
}

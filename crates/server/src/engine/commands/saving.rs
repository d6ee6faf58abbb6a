//! BGSAVE, SAVE, LASTSAVE; and what `redis-cli --rdb` asks for: REPLCONF and SYNC.

use command::argument;
use command::error::{CommandError, Done};

use super::super::blocking::Wait;
use super::super::client::DumpPart;
use super::super::{ClientKey, Engine};

/// BGSAVE.
pub(super) fn bgsave(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    match args {
        [_] => {}
        [_, option] if argument::is(option, "schedule") => {}
        _ => return Err(CommandError::Syntax),
    }
    let has_begun = engine.begin_save()?;
    let word = if has_begun { "started" } else { "scheduled" };
    engine.reply(key).simple(&format!("Background saving {word}"));
    Ok(())
}

/// SAVE: the client waits, and the server does not.
pub(super) fn save(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.begin_save()?;
    engine.sessions.start_wait(key, Wait::Save);
    Ok(())
}

/// LASTSAVE.
pub(super) fn lastsave(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let saved = engine.saves.last_unix_s;
    engine.reply(key).int(saved);
    Ok(())
}

/// REPLCONF: what a client that wants a dump tells of itself.
pub(super) fn replconf(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    for pair in args[1..].chunks_exact(2) {
        let is = |word| argument::is(pair[0], word);
        if is("rdb-only") {
            engine.sessions[key].session.wanted_dump.is_only = argument::int(pair[1])? == 1;
        } else if is("rdb-filter-only") {
            engine.sessions[key].session.wanted_dump.part = part_of(pair[1])?;
        } else if !(is("capa") || is("version") || is("listening-port") || is("ip-address")) {
            let option = String::from_utf8_lossy(pair[0]).into_owned();
            return Err(CommandError::Other(
                format!("ERR Unrecognized REPLCONF option: {option}").into(),
            ));
        }
    }
    engine.reply(key).ok();
    Ok(())
}

/// What is to be in a dump, in words: nothing but what is named.
fn part_of(words: &[u8]) -> Result<DumpPart, CommandError> {
    let mut part = DumpPart::Nothing;
    for word in words.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
        if !argument::is(word, "functions") {
            let word = String::from_utf8_lossy(word);
            let why = format!("ERR Unsupported rdb-filter-only option: {word}");
            return Err(CommandError::Other(why.into()));
        }
        part = DumpPart::Libraries;
    }
    Ok(part)
}

/// SYNC: the data as a dump, for a client that has said that it wants nothing else.
pub(super) fn sync(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    if !engine.sessions[key].session.wanted_dump.is_only {
        return Err(CommandError::other(
            "ERR replication is not supported yet; for a dump alone: redis-cli --rdb of Redis 7 or newer \
             (REPLCONF rdb-only 1, SYNC), or BGSAVE",
        ));
    }
    Ok(engine.begin_sync(key)?)
}

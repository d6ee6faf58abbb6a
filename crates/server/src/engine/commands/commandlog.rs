//! COMMANDLOG, and SLOWLOG for one of its logs.

use command::argument;
use command::error::{CommandError, Done};

use super::super::commandlog::Kind;
use super::super::{ClientKey, Engine};

/// How many entries SLOWLOG GET shows by default.
const SHOWN_DEFAULT: usize = 10;

/// Which entries are asked for: the latest so many, or all.
fn count(argument: &[u8]) -> Result<usize, CommandError> {
    const WRONG: CommandError =
        CommandError::other("ERR count should be greater than or equal to -1");
    match argument::int(argument).map_err(|_| WRONG)? {
        -1 => Ok(usize::MAX),
        count => usize::try_from(count).map_err(|_| WRONG),
    }
}

fn kind(name: &[u8]) -> Result<Kind, CommandError> {
    const UNKNOWN: CommandError = CommandError::other(
        "ERR type should be one of the following: slow, large-request, large-reply",
    );
    match name.to_ascii_lowercase().as_slice() {
        b"slow" => Ok(Kind::Slow),
        b"large-request" => Ok(Kind::LargeRequest),
        b"large-reply" => Ok(Kind::LargeReply),
        _ => Err(UNKNOWN),
    }
}

fn write(engine: &mut Engine, key: ClientKey, kind: Kind, count: usize) -> Done {
    let writer = engine.sessions[key].connection.output.writer();
    engine.observed.command_logs.of(kind).write(count, writer);
    Ok(())
}

fn write_len(engine: &mut Engine, key: ClientKey, kind: Kind) -> Done {
    let len = engine.observed.command_logs.of(kind).len();
    engine.reply(key).count(len);
    Ok(())
}

fn forget(engine: &mut Engine, key: ClientKey, kind: Kind) -> Done {
    engine.observed.command_logs.of_mut(kind).reset();
    engine.reply(key).ok();
    Ok(())
}

/// COMMANDLOG GET.
pub(super) fn get(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let count = count(args[2])?;
    write(engine, key, kind(args[3])?, count)
}

/// COMMANDLOG LEN.
pub(super) fn len(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    write_len(engine, key, kind(args[2])?)
}

/// COMMANDLOG RESET.
pub(super) fn reset(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    forget(engine, key, kind(args[2])?)
}

/// SLOWLOG GET.
pub(super) fn slow_get(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let count = args.get(2).map_or(Ok(SHOWN_DEFAULT), |argument| count(argument))?;
    write(engine, key, Kind::Slow, count)
}

/// SLOWLOG LEN.
pub(super) fn slow_len(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    write_len(engine, key, Kind::Slow)
}

/// SLOWLOG RESET.
pub(super) fn slow_reset(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    forget(engine, key, Kind::Slow)
}

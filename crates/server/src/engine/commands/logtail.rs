//! LOGTAIL: what has changed behind a block of the log.

use base::Lsn;
use command::argument;
use command::error::{CommandError, Done};
use redo::Id;

use super::super::shard::LogState;
use super::super::tailing::{NO_LOG, error_line};
use super::super::{ClientKey, Engine};
use crate::tail::check_log;

/// How many blocks a reply has if its client does not say.
const COUNT_DEFAULT: usize = 100;

/// So many clients may wait for blocks: each costs what is read for it.
const WAITING_MAX: usize = 128;

/// LOGTAIL lsn|now [COUNT n] [BLOCK ms] [LOG id].
pub(super) fn logtail(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let mut count_max = COUNT_DEFAULT;
    let (mut block_ms, mut of_log) = (None, None);
    let (options, odd) = args[2..].as_chunks::<2>();
    if !odd.is_empty() {
        return Err(CommandError::Syntax);
    }
    for [name, value] in options {
        if argument::is(name, "count") {
            count_max = argument::count(value)?;
        } else if argument::is(name, "block") {
            block_ms = Some(argument::count(value)?);
        } else if argument::is(name, "log") {
            let id = std::str::from_utf8(value).ok().and_then(|id| id.parse::<Id>().ok());
            of_log = Some(
                id.ok_or(CommandError::other("ERR the id of a log is 32 hexadecimal digits"))?,
            );
        } else {
            return Err(CommandError::Syntax);
        }
    }
    if count_max == 0 {
        return Err(CommandError::MustBePositive);
    }
    let LogState::On(log) = engine.shard.log_state() else {
        return Err(CommandError::other(NO_LOG));
    };
    let (last, durable) = (log.last_lsn(), engine.shard.reach.durable);
    let after = if argument::is(args[1], "now") {
        durable
    } else {
        let lsn = keyspace::parse_int(args[1]).and_then(|lsn| u64::try_from(lsn).ok());
        Lsn(lsn.ok_or(CommandError::OutOfRange)?)
    };
    if after > last {
        let what = format!(
            "ERR block {after} is ahead of the log, whose last one is {last}: was it another database that had it?"
        );
        return Err(CommandError::Other(what.into()));
    }
    if let Some(reader) = log.reader() {
        let checked = check_log(reader.origin(), of_log, after);
        checked.map_err(|why| CommandError::Other(error_line(&why).into()))?;
    }
    engine.sessions[key].session.tailed = Some(after);
    if after >= durable && block_ms.is_none() {
        let reply = engine.reply(key);
        reply.array(2);
        reply.int(after.0.cast_signed());
        reply.array(0);
        engine.sync_for_tails();
        return Ok(());
    }
    if engine.tails.waiting_count() >= WAITING_MAX {
        return Err(CommandError::other(
            "ERR too many clients wait for blocks of the log; try again later",
        ));
    }
    let deadline_ms = block_ms.filter(|ms| *ms > 0).map(|ms| {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        engine.time.unix_ms().saturating_add(ms)
    });
    engine.begin_tail(key, after, count_max, deadline_ms);
    Ok(())
}

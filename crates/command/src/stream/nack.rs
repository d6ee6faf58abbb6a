//! XNACK: entries that a consumer gives back to its group, without having processed them.

use keyspace::stream::{Delivery, Stream, StreamId};

use super::{group, id};
use crate::argument::{self, is};
use crate::context::Context;
use crate::error::{CommandError, Done};

/// What becomes of the number of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The last one does not count.
    Silent,
    /// It stays.
    Fail,
    /// It is the largest one: the entry cannot be processed.
    Fatal,
}

/// What is asked for, behind the group.
#[derive(Debug)]
struct Asked<'a, 'b> {
    mode: Mode,
    ids: &'a [&'b [u8]],
    retry_count: Option<u64>,
    /// Entries that the group does not wait for are given back, too.
    force: bool,
}

impl<'a, 'b> Asked<'a, 'b> {
    fn parse(words: &'a [&'b [u8]]) -> Result<Self, CommandError> {
        let [mode, words @ ..] = words else { return Err(CommandError::Syntax) };
        let mut words = words;
        let mode = match mode {
            mode if is(mode, "SILENT") => Mode::Silent,
            mode if is(mode, "FAIL") => Mode::Fail,
            mode if is(mode, "FATAL") => Mode::Fatal,
            _ => return Err(CommandError::other("ERR mode must be SILENT, FAIL, or FATAL")),
        };
        let (mut ids, mut retry_count, mut force) = (None, None, false);
        while let [word, rest @ ..] = words {
            words = match rest {
                [count, rest @ ..] if is(word, "IDS") => {
                    let (these, rest) = self::ids(count, rest)?;
                    ids = Some(these);
                    rest
                }
                rest if is(word, "FORCE") => {
                    force = true;
                    rest
                }
                [count, rest @ ..] if is(word, "RETRYCOUNT") => {
                    let error = "ERR Invalid RETRYCOUNT value, must be >= 0";
                    let count = u64::try_from(argument::int(count)?);
                    retry_count = Some(count.map_err(|_| CommandError::other(error))?);
                    rest
                }
                _ => {
                    let word = String::from_utf8_lossy(word);
                    let text = format!("ERR Unrecognized XNACK option '{word}'");
                    return Err(CommandError::Other(text.into()));
                }
            };
        }
        let ids = ids.ok_or(CommandError::other("ERR syntax error, expected IDS keyword"))?;
        Ok(Self { mode, ids, retry_count, force })
    }

    /// How often an entry was delivered, as is known from now on; `before` is what was.
    fn count(&self, before: u64) -> u64 {
        self.retry_count.unwrap_or(match self.mode {
            Mode::Silent => before.saturating_sub(1),
            Mode::Fail => before,
            Mode::Fatal => Delivery::COUNT_MAX,
        })
    }
}

/// The words of ids, and those behind them.
type Split<'a, 'b> = (&'a [&'b [u8]], &'a [&'b [u8]]);

/// Splits `count` ids from what is behind them.
fn ids<'a, 'b>(count: &[u8], words: &'a [&'b [u8]]) -> Result<Split<'a, 'b>, CommandError> {
    const NO_NUMBER: CommandError = CommandError::other("ERR numids must be a positive integer");
    const TOO_FEW: CommandError = CommandError::other("ERR number of IDs doesn't match numids");
    let count = argument::int(count).ok().filter(|it| (1..=i64::from(i32::MAX)).contains(it));
    let count = count.and_then(|count| usize::try_from(count).ok()).ok_or(NO_NUMBER)?;
    words.split_at_checked(count).ok_or(TOO_FEW)
}

pub(crate) fn xnack(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, name) = (args[1], args[2]);
    let stream = ctx.keyspace.read_to_change::<Stream>(ctx.db, key)?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        return Err(group::no_group(key, name));
    }
    let asked = Asked::parse(&args[3..])?;
    let ids: Vec<StreamId> = id::all(asked.ids)?;
    let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, false, |stream| {
        let mut given_back = 0;
        for id in ids {
            let view = stream.view();
            let pending = view.group(name).and_then(|group| group.pending(id));
            let before = match pending {
                Some(pending) => pending.delivery.count,
                None if asked.force && view.get(id).is_some() => 0,
                None => continue,
            };
            let mut group = stream.group(name).expect("it was just seen");
            group.give_back(id, asked.count(before));
            given_back += 1;
        }
        given_back
    })?;
    let given_back = updated.map_or(0, |updated| updated.value);
    if given_back > 0 {
        // Those that wait to claim find them at once.
        ctx.keyspace.wake(ctx.db, key);
    }
    ctx.reply.count(given_back);
    Ok(())
}

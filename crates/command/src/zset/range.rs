//! Ranges of sorted sets by rank, score and member: reading, counting, storing and removing them.

use std::ops::Range;

use keyspace::Notify;
use keyspace::zset::{LexBound, LexRange, ScoreRange, ZSet, ZSetView};

use super::{store, write_header, write_member};
use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::float;

const NOT_FLOATS: CommandError = CommandError::other("ERR min or max is not a float");
const NOT_LEX: CommandError = CommandError::other("ERR min or max not valid string range item");

/// What a range is measured by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// The bounds of a range.
#[derive(Clone, Copy)]
enum Bounds<'a> {
    Rank(i64, i64),
    Score(ScoreRange),
    Lex(LexRange<'a>),
}

impl<'a> Bounds<'a> {
    fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        Ok(match by {
            By::Rank => Self::Rank(argument::int(min)?, argument::int(max)?),
            By::Score => Self::Score(score_range(min, max)?),
            By::Lex => Self::Lex(lex_range(min, max)?),
        })
    }

    /// The indexes of the range; ranks count from the end if it is read in `reverse`.
    fn indexes(&self, set: ZSetView<'_>, reverse: bool) -> Range<usize> {
        match self {
            Self::Rank(start, end) => {
                let len = set.len();
                let Some(ranks) = argument::range(*start, *end, len) else { return 0..0 };
                let (start, end) = (*ranks.start(), ranks.end() + 1);
                if reverse { len - end..len - start } else { start..end }
            }
            Self::Score(range) => set.score_range(range),
            Self::Lex(range) => set.lex_range(range),
        }
    }
}

fn score_range(min: &[u8], max: &[u8]) -> Result<ScoreRange, CommandError> {
    let bound = |text: &[u8]| {
        let excluded = text.first() == Some(&b'(');
        let value = float::parse_bound(&text[usize::from(excluded)..]).ok_or(NOT_FLOATS)?;
        Ok::<_, CommandError>((value, excluded))
    };
    let ((min, min_excluded), (max, max_excluded)) = (bound(min)?, bound(max)?);
    Ok(ScoreRange { min, max, min_excluded, max_excluded })
}

fn lex_range<'a>(min: &'a [u8], max: &'a [u8]) -> Result<LexRange<'a>, CommandError> {
    let bound = |text: &'a [u8]| match text {
        b"-" => Ok(LexBound::Least),
        b"+" => Ok(LexBound::Greatest),
        [b'[', member @ ..] => Ok(LexBound::Included(member)),
        [b'(', member @ ..] => Ok(LexBound::Excluded(member)),
        _ => Err(NOT_LEX),
    };
    Ok(LexRange { min: bound(min)?, max: bound(max)? })
}

/// Which members a command of the ZRANGE family selects, and how it replies them.
struct Selection<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    offset: i64,
    /// Negative for all.
    limit: i64,
    with_scores: bool,
}

/// What the name of a command of the ZRANGE family says already; the rest is in its options.
#[derive(Clone, Copy)]
struct Fixed {
    by: Option<By>,
    reverse: Option<bool>,
    /// It stores the range; scores are not replied.
    stores: bool,
}

impl<'a> Selection<'a> {
    /// `args` are the bounds and the options.
    fn parse(args: &[&'a [u8]], fixed: Fixed) -> Result<Self, CommandError> {
        let Fixed { mut by, mut reverse, stores } = fixed;
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut options = &args[2..];
        while let [word, rest @ ..] = options {
            options = rest;
            if !stores && argument::is(word, "WITHSCORES") {
                with_scores = true;
            } else if argument::is(word, "LIMIT")
                && let [first, count, rest @ ..] = rest
            {
                (offset, limit) = (argument::int(first)?, argument::int(count)?);
                options = rest;
            } else if reverse.is_none() && argument::is(word, "REV") {
                reverse = Some(true);
            } else if by.is_none() && argument::is(word, "BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && argument::is(word, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err(CommandError::other(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            ));
        }
        if with_scores && by == By::Lex {
            return Err(CommandError::other(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (min, max) =
            if reverse && by != By::Rank { (args[1], args[0]) } else { (args[0], args[1]) };
        let bounds = Bounds::parse(by, min, max)?;
        Ok(Self { bounds, reverse, offset, limit, with_scores })
    }

    /// The indexes of the selected members.
    fn indexes(&self, set: ZSetView<'_>) -> Range<usize> {
        let all = self.bounds.indexes(set, self.reverse);
        if matches!(self.bounds, Bounds::Rank(..)) {
            return all;
        }
        let Ok(offset) = usize::try_from(self.offset) else { return 0..0 };
        let skipped = offset.min(all.len());
        let taken = usize::try_from(self.limit).unwrap_or(usize::MAX).min(all.len() - skipped);
        if self.reverse {
            let end = all.end - skipped;
            end - taken..end
        } else {
            let start = all.start + skipped;
            start..start + taken
        }
    }

    /// Visits the selected members in the order of the reply.
    fn for_each<'b>(&self, set: ZSetView<'b>, visit: impl FnMut((&'b [u8], f64))) {
        let members = set.range(self.indexes(set));
        if self.reverse { members.rev().for_each(visit) } else { members.for_each(visit) }
    }
}

fn read(ctx: &mut Context<'_>, args: &[&[u8]], by: Option<By>, reverse: Option<bool>) -> Done {
    let selection = Selection::parse(&args[2..], Fixed { by, reverse, stores: false })?;
    let Some(set) = ctx.keyspace.read::<ZSet>(ctx.db, args[1])? else {
        ctx.reply.array(0);
        return Ok(());
    };
    write_header(ctx.reply, selection.indexes(set).len(), selection.with_scores);
    let reply = &mut *ctx.reply;
    selection.for_each(set, |member| write_member(reply, member, selection.with_scores));
    Ok(())
}

pub(crate) fn zrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    read(ctx, args, None, None)
}

pub(crate) fn zrevrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    read(ctx, args, Some(By::Rank), Some(true))
}

pub(crate) fn zrangebyscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    read(ctx, args, Some(By::Score), Some(false))
}

pub(crate) fn zrevrangebyscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    read(ctx, args, Some(By::Score), Some(true))
}

pub(crate) fn zrangebylex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    read(ctx, args, Some(By::Lex), Some(false))
}

pub(crate) fn zrevrangebylex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    read(ctx, args, Some(By::Lex), Some(true))
}

pub(crate) fn zrangestore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let fixed = Fixed { by: None, reverse: None, stores: true };
    let selection = Selection::parse(&args[3..], fixed)?;
    let mut members = Vec::new();
    if let Some(set) = ctx.keyspace.read::<ZSet>(ctx.db, args[2])? {
        selection.for_each(set, |(member, score)| members.push((member.into(), score)));
    }
    store(ctx, args[1], &members, "zrangestore")
}

pub(crate) fn zcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    count(ctx, args, By::Score)
}

pub(crate) fn zlexcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    count(ctx, args, By::Lex)
}

fn count(ctx: &mut Context<'_>, args: &[&[u8]], by: By) -> Done {
    let bounds = Bounds::parse(by, args[2], args[3])?;
    let set = ctx.keyspace.read::<ZSet>(ctx.db, args[1])?;
    ctx.reply.count(set.map_or(0, |set| bounds.indexes(set, false).len()));
    Ok(())
}

pub(crate) fn zremrangebyrank(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    remove(ctx, args, By::Rank, "zremrangebyrank")
}

pub(crate) fn zremrangebyscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    remove(ctx, args, By::Score, "zremrangebyscore")
}

pub(crate) fn zremrangebylex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    remove(ctx, args, By::Lex, "zremrangebylex")
}

fn remove(ctx: &mut Context<'_>, args: &[&[u8]], by: By, event: &'static str) -> Done {
    let key = args[1];
    let bounds = Bounds::parse(by, args[2], args[3])?;
    let updated = ctx.keyspace.update::<ZSet, _>(ctx.db, key, false, |set| {
        let indexes = bounds.indexes(set.view(), false);
        set.remove_range(indexes)
    })?;
    let mut removed = 0;
    if let Some(updated) = updated {
        removed = updated.value;
        ctx.notify_update(Notify::ZSET, event, key, &updated);
    }
    ctx.reply.count(removed);
    Ok(())
}

//! The sorted-set commands.
//!
//! ```text
//!   zset (here)   adding, removing, scores, ranks, random members, ZSCAN
//!   range         ranges by rank, score and member: reading, counting, storing, removing
//!   pop           popping, blocking or not
//!   algebra       union, intersection, difference
//! ```

pub(crate) mod algebra;
pub(crate) mod pop;
pub(crate) mod range;

use std::collections::HashSet;

use keyspace::Notify;
use keyspace::zset::{ZSet, ZSetGuard};
use resp::Writer;

use crate::argument::{self, Pick};
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::float;
use crate::scan::{self, Iterated, ScanOptions};

const NOT_A_NUMBER: CommandError = CommandError::other("ERR resulting score is not a number (NaN)");

/// Writes the header of `len` members, for [`write_member`] to follow.
fn write_header(reply: &mut Writer, len: usize, with_scores: bool) {
    reply.array(if with_scores && !reply.is_resp3() { len * 2 } else { len });
}

/// Writes a member, with its score if asked for: two replies in RESP2, a pair in RESP3.
fn write_member(reply: &mut Writer, (member, score): (&[u8], f64), with_scores: bool) {
    if with_scores && reply.is_resp3() {
        reply.array(2);
    }
    reply.bulk(member);
    if with_scores {
        reply.double(score);
    }
}

/// Replaces `destination` by a sorted set of these members, or deletes it if there are none, and
/// replies how many there are.
pub(crate) fn store(
    ctx: &mut Context<'_>,
    destination: &[u8],
    members: &[(Box<[u8]>, f64)],
    event: &'static str,
) -> Done {
    if !members.is_empty() {
        ctx.keyspace.replace::<ZSet, _>(ctx.db, destination, |set| {
            for (member, score) in members {
                set.set(member, *score);
            }
        })?;
        ctx.notify(Notify::ZSET, event, destination);
    } else if ctx.keyspace.delete(ctx.db, destination) {
        ctx.notify(Notify::GENERIC, "del", destination);
    }
    ctx.reply.count(members.len());
    Ok(())
}

/// The options of ZADD.
#[derive(Default)]
pub(crate) struct AddOptions {
    /// Only new members.
    pub(crate) nx: bool,
    /// Only members that are there.
    pub(crate) xx: bool,
    /// Only to a higher score.
    gt: bool,
    /// Only to a lower score.
    lt: bool,
    /// Count changed members too.
    pub(crate) ch: bool,
    /// Add to the score.
    incr: bool,
}

impl AddOptions {
    /// Takes the options in front of the pairs, and returns the pairs.
    fn parse<'a, 'b>(&mut self, args: &'a [&'b [u8]]) -> Result<&'a [&'b [u8]], CommandError> {
        let mut pairs = args;
        while let [word, rest @ ..] = pairs {
            let option = match *word {
                word if argument::is(word, "NX") => &mut self.nx,
                word if argument::is(word, "XX") => &mut self.xx,
                word if argument::is(word, "GT") => &mut self.gt,
                word if argument::is(word, "LT") => &mut self.lt,
                word if argument::is(word, "CH") => &mut self.ch,
                word if argument::is(word, "INCR") => &mut self.incr,
                _ => break,
            };
            *option = true;
            pairs = rest;
        }
        if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
            return Err(CommandError::Syntax);
        }
        if self.nx && self.xx {
            return Err(CommandError::other(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        if (self.gt && self.lt) || (self.nx && (self.gt || self.lt)) {
            return Err(CommandError::other(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.incr && pairs.len() > 2 {
            return Err(CommandError::other(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        Ok(pairs)
    }

    /// Adds one member or changes its score, as far as the options let it.
    fn add(
        &self,
        set: &mut ZSetGuard<'_>,
        member: &[u8],
        given: f64,
    ) -> Result<Added, CommandError> {
        let Some(old) = set.view().score(member) else {
            if self.xx {
                return Ok(Added::Refused);
            }
            set.set(member, given);
            return Ok(Added::New(given));
        };
        if self.nx {
            return Ok(Added::Refused);
        }
        let score = if self.incr { old + given } else { given };
        if score.is_nan() {
            return Err(NOT_A_NUMBER);
        }
        if (self.lt && score >= old) || (self.gt && score <= old) {
            return Ok(Added::Refused);
        }
        set.set(member, score);
        Ok(if score == old { Added::Same(score) } else { Added::Changed(score) })
    }
}

/// What became of one member of a ZADD, with its score.
enum Added {
    New(f64),
    Changed(f64),
    Same(f64),
    /// The options did not let it.
    Refused,
}

pub(crate) fn zadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    add(ctx, args, AddOptions::default())
}

pub(crate) fn zincrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    add(ctx, args, AddOptions { incr: true, ..AddOptions::default() })
}

fn add(ctx: &mut Context<'_>, args: &[&[u8]], mut options: AddOptions) -> Done {
    let key = args[1];
    let pairs = options.parse(&args[2..])?;
    // All scores are checked before any is set: the command happens whole or not at all.
    let scores: Vec<f64> = pairs
        .iter()
        .step_by(2)
        .map(|text| float::parse(text))
        .collect::<Option<_>>()
        .ok_or(CommandError::NotAFloat)?;
    let members = scores.into_iter().zip(pairs.iter().skip(1).step_by(2).copied());
    add_members(ctx, key, members, &options)
}

/// Adds members with their scores, as the options say, and replies.
pub(crate) fn add_members<'a>(
    ctx: &mut Context<'_>,
    key: &[u8],
    members: impl Iterator<Item = (f64, &'a [u8])>,
    options: &AddOptions,
) -> Done {
    let (mut new, mut changed, mut last) = (0, 0, Added::Refused);
    let updated = ctx.keyspace.update::<ZSet, _>(ctx.db, key, !options.xx, |set| {
        for (score, member) in members {
            last = options.add(set, member, score)?;
            new += usize::from(matches!(last, Added::New(_)));
            changed += usize::from(matches!(last, Added::Changed(_)));
        }
        Ok::<(), CommandError>(())
    })?;
    if let Some(updated) = updated {
        updated.value.clone()?;
        ctx.notify_update(Notify::ZSET, if options.incr { "zincr" } else { "zadd" }, key, &updated);
    }
    match last {
        Added::New(score) | Added::Changed(score) | Added::Same(score) if options.incr => {
            ctx.reply.double(score);
        }
        Added::Refused if options.incr => ctx.reply.null(),
        _ => ctx.reply.count(if options.ch { new + changed } else { new }),
    }
    Ok(())
}

pub(crate) fn zrem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    let updated = ctx.keyspace.update::<ZSet, _>(ctx.db, key, false, |set| {
        args[2..].iter().filter(|member| set.remove(member)).count()
    })?;
    let mut removed = 0;
    if let Some(updated) = updated {
        removed = updated.value;
        ctx.notify_update(Notify::ZSET, "zrem", key, &updated);
    }
    ctx.reply.count(removed);
    Ok(())
}

pub(crate) fn zcard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let len = ctx.keyspace.read::<ZSet>(ctx.db, args[1])?.map_or(0, |set| set.len());
    ctx.reply.count(len);
    Ok(())
}

fn write_score(reply: &mut Writer, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

pub(crate) fn zscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let set = ctx.keyspace.read::<ZSet>(ctx.db, args[1])?;
    write_score(ctx.reply, set.and_then(|set| set.score(args[2])));
    Ok(())
}

pub(crate) fn zmscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let set = ctx.keyspace.read::<ZSet>(ctx.db, args[1])?;
    ctx.reply.array(args.len() - 2);
    for member in &args[2..] {
        write_score(ctx.reply, set.and_then(|set| set.score(member)));
    }
    Ok(())
}

pub(crate) fn zrank(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    rank(ctx, args, "zrank", false)
}

pub(crate) fn zrevrank(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    rank(ctx, args, "zrevrank", true)
}

fn rank(ctx: &mut Context<'_>, args: &[&[u8]], name: &'static str, reverse: bool) -> Done {
    let with_score = match &args[3..] {
        [] => false,
        [word] if argument::is(word, "WITHSCORE") => true,
        [_] => return Err(CommandError::Syntax),
        _ => return Err(CommandError::WrongArity(name.into())),
    };
    let set = ctx.keyspace.read::<ZSet>(ctx.db, args[1])?;
    let Some((set, (index, score))) = set.and_then(|set| Some((set, set.rank(args[2])?))) else {
        if with_score {
            ctx.reply.null_array();
        } else {
            ctx.reply.null();
        }
        return Ok(());
    };
    if with_score {
        ctx.reply.array(2);
    }
    ctx.reply.count(if reverse { set.len() - 1 - index } else { index });
    if with_score {
        ctx.reply.double(score);
    }
    Ok(())
}

pub(crate) fn zscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let cursor = scan::parse_cursor(args[2])?;
    let Some(set) = ctx.keyspace.read::<ZSet>(ctx.db, args[1])? else {
        ctx.reply.array(2);
        scan::write_cursor(ctx.reply, 0);
        ctx.reply.array(0);
        return Ok(());
    };
    let options = ScanOptions::parse(cursor, &args[3..], Iterated::ScoredMembers)?;
    let mut found = Vec::new();
    let next = set.scan(cursor, options.count, |member, score| {
        if options.matches(member) {
            found.push((member, score));
        }
    });
    ctx.reply.array(2);
    scan::write_cursor(ctx.reply, next);
    ctx.reply.array(if options.names_only { found.len() } else { found.len() * 2 });
    for (member, score) in found {
        ctx.reply.bulk(member);
        if !options.names_only {
            ctx.reply.bulk_double(score);
        }
    }
    Ok(())
}

pub(crate) fn zrandmember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    let Some(count) = args.get(2) else {
        let mut rng = ctx.keyspace.rng().fork();
        let set = ctx.keyspace.read::<ZSet>(ctx.db, key)?;
        match set.and_then(|set| set.at(rng.usize(..set.len()))) {
            Some((member, _)) => ctx.reply.bulk(member),
            None => ctx.reply.null(),
        }
        return Ok(());
    };
    let pick = Pick::parse(count)?;
    let with_scores = match &args[3..] {
        [] => false,
        [word] if argument::is(word, "WITHSCORES") => true,
        _ => return Err(CommandError::Syntax),
    };
    if with_scores && pick.count() > usize::MAX / 4 {
        return Err(CommandError::OutOfRange);
    }
    write_random(ctx, key, pick, with_scores)
}

/// Replies random members.
fn write_random(ctx: &mut Context<'_>, key: &[u8], pick: Pick, with_scores: bool) -> Done {
    let mut rng = ctx.keyspace.rng().fork();
    let Some(set) = ctx.keyspace.read::<ZSet>(ctx.db, key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let len = set.len();
    let wanted = pick.count();
    let at = |index| set.at(index).expect("the index is below the length");
    if matches!(pick, Pick::Repeated(_)) {
        pick.check(ctx.string_bytes_max)?;
        write_header(ctx.reply, wanted, with_scores);
        for _ in 0..wanted {
            write_member(ctx.reply, at(rng.usize(..len)), with_scores);
            if ctx.reply.is_over() {
                break;
            }
        }
    } else if wanted >= len {
        write_header(ctx.reply, len, with_scores);
        set.iter().rev().for_each(|member| write_member(ctx.reply, member, with_scores));
    } else if wanted > len / 3 {
        // Walk over all of them and keep each with the chance that fills up what is wanted.
        write_header(ctx.reply, wanted, with_scores);
        let mut missing = wanted;
        for (index, member) in set.iter().enumerate() {
            if rng.usize(..len - index) < missing {
                missing -= 1;
                write_member(ctx.reply, member, with_scores);
            }
        }
    } else {
        write_header(ctx.reply, wanted, with_scores);
        // Floyd's sampling: every index is as likely, and no draw is repeated.
        let mut picked = HashSet::with_capacity(wanted);
        for last in len - wanted..len {
            let mut index = rng.usize(..=last);
            if !picked.insert(index) {
                index = last;
                picked.insert(last);
            }
            write_member(ctx.reply, at(index), with_scores);
        }
    }
    Ok(())
}

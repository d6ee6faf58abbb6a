//! Intersections, unions and differences of sets.
//!
//! The inputs are read where they are, all at once; only what a STORE command puts into its
//! destination is copied. A result that Redis would build as an intset is replied in its order.

use std::collections::HashSet;

use keyspace::set::{Set, SetView};
use keyspace::{Notify, parse_int};

use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::hyperloglog;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

pub(crate) fn sinter(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply(ctx, Operation::Intersection, &args[1..])
}

pub(crate) fn sunion(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply(ctx, Operation::Union, &args[1..])
}

pub(crate) fn sdiff(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply(ctx, Operation::Difference, &args[1..])
}

pub(crate) fn sinterstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    store(ctx, Operation::Intersection, args, "sinterstore")
}

pub(crate) fn sunionstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    store(ctx, Operation::Union, args, "sunionstore")
}

pub(crate) fn sdiffstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    store(ctx, Operation::Difference, args, "sdiffstore")
}

/// SINTERCARD numkeys key [key ...] [LIMIT limit].
pub(crate) fn sintercard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    count(ctx, Operation::Intersection, args)
}

/// SUNIONCARD numkeys key [key ...] [APPROX] [LIMIT limit].
pub(crate) fn sunioncard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    count(ctx, Operation::Union, args)
}

/// SDIFFCARD numkeys key [key ...] [LIMIT limit].
pub(crate) fn sdiffcard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    count(ctx, Operation::Difference, args)
}

/// Up to this limit members are counted although an estimate would do: it is faster, and exact.
const COUNTED_MAX: usize = 4096;

/// What a command that counts is asked for.
struct Count<'a, 'b> {
    keys: &'a [&'b [u8]],
    /// The highest count that is told apart.
    limit: usize,
    /// APPROX: an estimate will do.
    is_approximate: bool,
}

impl<'a, 'b> Count<'a, 'b> {
    /// Reads `numkeys key … [LIMIT limit]`, of a union `[APPROX]`, too.
    fn parse(operation: Operation, args: &'a [&'b [u8]]) -> Result<Self, CommandError> {
        const NO_KEYS: CommandError = CommandError::other("ERR numkeys should be greater than 0");
        const TOO_MANY_KEYS: CommandError =
            CommandError::other("ERR Number of keys can't be greater than number of args");
        const NEGATIVE: CommandError = CommandError::other("ERR LIMIT can't be negative");
        let key_count = argument::count(args[0]).ok().filter(|count| *count > 0).ok_or(NO_KEYS)?;
        let (keys, mut options) = args[1..].split_at_checked(key_count).ok_or(TOO_MANY_KEYS)?;
        let mut asked = Self { keys, limit: usize::MAX, is_approximate: false };
        while let [word, rest @ ..] = options {
            if operation == Operation::Union && argument::is(word, "APPROX") {
                asked.is_approximate = true;
                options = rest;
            } else if argument::is(word, "LIMIT")
                && let [limit, rest @ ..] = rest
            {
                let limit = argument::count(limit).map_err(|_| NEGATIVE)?;
                asked.limit = if limit == 0 { usize::MAX } else { limit };
                options = rest;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(asked)
    }
}

/// Replies how many members the result has.
fn count(ctx: &mut Context<'_>, operation: Operation, args: &[&[u8]]) -> Done {
    let asked = Count::parse(operation, &args[1..])?;
    let sets = ctx.keyspace.read_many::<Set>(ctx.db, asked.keys)?;
    let found = match operation {
        Operation::Intersection => intersection(&sets).take(asked.limit).count(),
        Operation::Union if asked.is_approximate && !is_soon_counted(&sets, asked.limit) => {
            let members = sets.iter().flatten().flat_map(SetView::iter);
            hyperloglog::estimate_of(members).min(asked.limit)
        }
        Operation::Union => union_count(&sets, asked.limit),
        Operation::Difference => difference(&sets).take(asked.limit).count(),
    };
    ctx.reply.count(found);
    Ok(())
}

/// Replies the members of the result.
fn reply(ctx: &mut Context<'_>, operation: Operation, keys: &[&[u8]]) -> Done {
    let intset_max = ctx.keyspace.settings().set_max_intset_entries;
    let sets = ctx.keyspace.read_many::<Set>(ctx.db, keys)?;
    let members = result(operation, &sets, intset_max);
    ctx.reply.set(members.len());
    members.iter().for_each(|member| ctx.reply.bulk(member));
    Ok(())
}

/// Stores the result in the key behind the command's name, over whatever is there.
fn store(ctx: &mut Context<'_>, operation: Operation, args: &[&[u8]], event: &'static str) -> Done {
    let (key, sources) = (args[1], &args[2..]);
    let intset_max = ctx.keyspace.settings().set_max_intset_entries;
    let sets = ctx.keyspace.read_many::<Set>(ctx.db, sources)?;
    let members: Vec<Box<[u8]>> =
        result(operation, &sets, intset_max).into_iter().map(Box::from).collect();
    if members.is_empty() {
        if ctx.keyspace.delete(ctx.db, key) {
            ctx.notify(Notify::GENERIC, "del", key);
        }
    } else {
        ctx.keyspace.replace::<Set, _>(ctx.db, key, |set| {
            members.iter().for_each(|member| {
                set.add(member);
            });
        })?;
        ctx.notify(Notify::SET, event, key);
    }
    ctx.reply.count(members.len());
    Ok(())
}

/// The members of the result; a key that is not there is an empty set.
fn result<'a>(
    operation: Operation,
    sets: &[Option<SetView<'a>>],
    intset_max: usize,
) -> Vec<&'a [u8]> {
    let mut members: Vec<&[u8]> = match operation {
        Operation::Intersection => return intersection(sets).collect(),
        Operation::Union => {
            // In the order in which they are met: the same data give the same answer.
            let mut seen: HashSet<&[u8]> = HashSet::new();
            let all = sets.iter().flatten().flat_map(SetView::iter);
            all.filter(|member| seen.insert(member)).collect()
        }
        Operation::Difference => difference(sets).collect(),
    };
    if members.len() <= intset_max && members.iter().all(|member| parse_int(member).is_some()) {
        members.sort_unstable_by_key(|member| parse_int(member));
    }
    members
}

/// The members of the smallest set that all the others have.
fn intersection<'a>(sets: &[Option<SetView<'a>>]) -> impl Iterator<Item = &'a [u8]> {
    let mut all: Vec<SetView<'a>> = sets.iter().flatten().copied().collect();
    if all.len() < sets.len() {
        all.clear();
    }
    all.sort_by_key(SetView::len);
    let smallest = all.first().map(SetView::iter).into_iter().flatten();
    smallest.filter(move |member| all[1..].iter().all(|set| set.contains(member)))
}

/// How many members any of the sets has, at most `limit`. Only those that the largest set lacks are
/// remembered meanwhile.
fn union_count(sets: &[Option<SetView<'_>>], limit: usize) -> usize {
    let mut all: Vec<SetView<'_>> = sets.iter().flatten().copied().collect();
    all.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let Some((largest, others)) = all.split_first() else { return 0 };
    let room = limit.saturating_sub(largest.len());
    let mut seen: HashSet<&[u8]> = HashSet::new();
    let lacking = others.iter().flat_map(SetView::iter).filter(|m| !largest.contains(m));
    largest.len().min(limit) + lacking.filter(|member| seen.insert(member)).take(room).count()
}

/// Whether counting up to the limit reads few members: a set alone reaches the limit, or all are
/// small if none does.
fn is_soon_counted(sets: &[Option<SetView<'_>>], limit: usize) -> bool {
    limit <= COUNTED_MAX || sets.iter().flatten().any(|set| set.len() >= limit)
}

/// The members of the first set that none of the others has.
fn difference<'a>(sets: &[Option<SetView<'a>>]) -> impl Iterator<Item = &'a [u8]> {
    let first = sets[0].as_ref().map(SetView::iter).into_iter().flatten();
    let mut others: Vec<SetView<'a>> = sets[1..].iter().flatten().copied().collect();
    // The largest is the likeliest to have a member.
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    first.filter(move |member| !others.iter().any(|set| set.contains(member)))
}

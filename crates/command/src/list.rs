//! The list commands that never wait; [`crate::list_blocking`] has the others.

pub(crate) mod moving;

use keyspace::list::{End, List, ListGuard, ListView};
use keyspace::{Notify, Updated};

use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};

/// The end that LEFT or RIGHT names.
pub(crate) fn end(argument: &[u8]) -> Result<End, CommandError> {
    if argument::is(argument, "LEFT") {
        Ok(End::Front)
    } else if argument::is(argument, "RIGHT") {
        Ok(End::Back)
    } else {
        Err(CommandError::Syntax)
    }
}

const fn push_event(end: End) -> &'static str {
    match end {
        End::Front => "lpush",
        End::Back => "rpush",
    }
}

const fn pop_event(end: End) -> &'static str {
    match end {
        End::Front => "lpop",
        End::Back => "rpop",
    }
}

pub(crate) fn lpush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    push(ctx, args, End::Front, true)
}

pub(crate) fn rpush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    push(ctx, args, End::Back, true)
}

pub(crate) fn lpushx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    push(ctx, args, End::Front, false)
}

pub(crate) fn rpushx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    push(ctx, args, End::Back, false)
}

fn push(ctx: &mut Context<'_>, args: &[&[u8]], end: End, create: bool) -> Done {
    let updated = ctx.keyspace.update::<List, _>(ctx.db, args[1], create, |list| {
        for element in &args[2..] {
            list.push(end, element);
        }
        list.view().len()
    })?;
    if let Some(updated) = &updated {
        ctx.notify_update(Notify::LIST, push_event(end), args[1], updated);
    }
    ctx.reply.count(updated.map_or(0, |updated| updated.value));
    Ok(())
}

pub(crate) fn lpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    pop(ctx, args, End::Front, "lpop")
}

pub(crate) fn rpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    pop(ctx, args, End::Back, "rpop")
}

fn pop(ctx: &mut Context<'_>, args: &[&[u8]], end: End, command: &'static str) -> Done {
    if args.len() > 3 {
        return Err(CommandError::WrongArity(command.into()));
    }
    let count = args.get(2).map(|count| argument::count(count)).transpose()?;
    let updated = ctx.keyspace.update::<List, _>(ctx.db, args[1], false, |list| match count {
        None => {
            ctx.reply.bulk(at_end(list.view(), end));
            list.cut(end, 1);
        }
        Some(count) => write_popped(list, ctx.reply, end, count),
    })?;
    match updated {
        Some(updated) => ctx.notify_update(Notify::LIST, pop_event(end), args[1], &updated),
        None if count.is_some() => ctx.reply.null_array(),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// The element at an end of a list, which has one.
fn at_end(list: ListView<'_>, end: End) -> &[u8] {
    let found = match end {
        End::Front => list.get(0),
        End::Back => list.iter_back_from(usize::MAX).next(),
    };
    found.expect("a key has no empty list")
}

/// Removes up to `count` elements from an end and writes them as an array.
fn write_popped(list: &mut ListGuard<'_>, reply: &mut resp::Writer, end: End, count: usize) {
    let view = list.view();
    let count = count.min(view.len());
    reply.array(count);
    match end {
        End::Front => view.iter_from(0).take(count).for_each(|element| reply.bulk(element)),
        End::Back => {
            view.iter_back_from(usize::MAX).take(count).for_each(|element| reply.bulk(element));
        }
    }
    list.cut(end, count);
}

/// Pops from a list that is there, and writes the key with what was popped: an element, or an
/// array of up to `count` of them.
pub(crate) fn pop_with_key(
    ctx: &mut Context<'_>,
    key: &[u8],
    end: End,
    count: Option<usize>,
) -> Done {
    ctx.reply.array(2);
    ctx.reply.bulk(key);
    let updated = ctx.keyspace.update::<List, _>(ctx.db, key, false, |list| match count {
        None => {
            ctx.reply.bulk(at_end(list.view(), end));
            list.cut(end, 1);
        }
        Some(count) => write_popped(list, ctx.reply, end, count),
    })?;
    let updated = updated.expect("the caller saw the list");
    ctx.notify_update(Notify::LIST, pop_event(end), key, &updated);
    Ok(())
}

/// What LMPOP and BLMPOP are asked for.
pub(crate) struct PopFrom<'a, 'b> {
    pub(crate) keys: &'a [&'b [u8]],
    pub(crate) end: End,
    pub(crate) count: usize,
}

impl<'a, 'b> PopFrom<'a, 'b> {
    /// Reads `numkeys key … LEFT|RIGHT [COUNT count]`.
    pub(crate) fn parse(args: &'a [&'b [u8]]) -> Result<Self, CommandError> {
        let positive = |argument: &[u8], error: &'static str| {
            argument::int(argument)
                .ok()
                .and_then(|number| usize::try_from(number).ok())
                .filter(|number| *number > 0)
                .ok_or(CommandError::other(error))
        };
        let key_count = positive(args[0], "ERR numkeys should be greater than 0")?;
        let (keys, rest) = args[1..].split_at_checked(key_count).ok_or(CommandError::Syntax)?;
        let (&end_word, options) = rest.split_first().ok_or(CommandError::Syntax)?;
        let end = end(end_word)?;
        let count = match options {
            [] => 1,
            [word, count, more @ ..] if argument::is(word, "COUNT") => {
                let count = positive(count, "ERR count should be greater than 0")?;
                if !more.is_empty() {
                    return Err(CommandError::Syntax);
                }
                count
            }
            _ => return Err(CommandError::Syntax),
        };
        Ok(Self { keys, end, count })
    }
}

pub(crate) fn lmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let PopFrom { keys, end, count } = PopFrom::parse(&args[1..])?;
    match ctx.first_filled(keys, keyspace::Type::List)? {
        Some(key) => pop_with_key(ctx, key, end, Some(count)),
        None => {
            ctx.reply.null_array();
            Ok(())
        }
    }
}

pub(crate) fn lmove(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (from, to) = (end(args[3])?, end(args[4])?);
    move_element(ctx, args[1], args[2], from, to)
}

pub(crate) fn rpoplpush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    move_element(ctx, args[1], args[2], End::Back, End::Front)
}

/// Moves an element from an end of `source` to an end of `destination`, and writes it, or a null
/// when there is none.
pub(crate) fn move_element(
    ctx: &mut Context<'_>,
    source: &[u8],
    destination: &[u8],
    from: End,
    to: End,
) -> Done {
    let found = ctx
        .keyspace
        .update::<List, _>(ctx.db, source, false, |list| at_end(list.view(), from).to_vec())?;
    let Some(Updated { value: element, .. }) = found else {
        ctx.reply.null();
        return Ok(());
    };
    if source == destination {
        // In one change, so that a list of one element is never seen empty.
        ctx.keyspace.update::<List, _>(ctx.db, source, false, |list| {
            list.cut(from, 1);
            list.push(to, &element);
        })?;
        ctx.notify(Notify::LIST, push_event(to), source);
        ctx.notify(Notify::LIST, pop_event(from), source);
    } else {
        let push = |list: &mut ListGuard<'_>| list.push(to, &element);
        ctx.keyspace.update::<List, _>(ctx.db, destination, true, push)?;
        ctx.notify(Notify::LIST, push_event(to), destination);
        let cut = |list: &mut ListGuard<'_>| list.cut(from, 1);
        let updated = ctx.keyspace.update::<List, _>(ctx.db, source, false, cut)?;
        let updated = updated.expect("the list was just read");
        ctx.notify_update(Notify::LIST, pop_event(from), source, &updated);
    }
    ctx.reply.bulk(&element);
    Ok(())
}

pub(crate) fn llen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let list = ctx.keyspace.read::<List>(ctx.db, args[1])?;
    ctx.reply.count(list.map_or(0, |list| list.len()));
    Ok(())
}

/// The position that an index names, negative from the end; it may be past the end.
fn position(index: i64, len: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(position) => Some(position),
        Err(_) => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

pub(crate) fn lindex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let Some(list) = ctx.keyspace.read::<List>(ctx.db, args[1])? else {
        ctx.reply.null();
        return Ok(());
    };
    let found = match argument::int(args[2])? {
        -1 => Some(at_end(list, End::Back)),
        index => position(index, list.len()).and_then(|position| list.get(position)),
    };
    match found {
        Some(element) => ctx.reply.bulk(element),
        None => ctx.reply.null(),
    }
    Ok(())
}

pub(crate) fn lset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let updated = ctx.keyspace.update::<List, _>(ctx.db, args[1], false, |list| {
        let len = list.view().len();
        let position = position(argument::int(args[2])?, len).filter(|position| *position < len);
        list.set(position.ok_or(CommandError::IndexOutOfRange)?, args[3]);
        Ok::<(), CommandError>(())
    })?;
    let updated = updated.ok_or(CommandError::NoSuchKey)?;
    ctx.notify_update(Notify::LIST, "lset", args[1], &updated);
    updated.value?;
    ctx.reply.ok();
    Ok(())
}

pub(crate) fn lrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (start, stop) = (argument::int(args[2])?, argument::int(args[3])?);
    let found = ctx.keyspace.read::<List>(ctx.db, args[1])?;
    let range = found.and_then(|list| Some((list, argument::range(start, stop, list.len())?)));
    let Some((list, range)) = range else {
        ctx.reply.array(0);
        return Ok(());
    };
    let (first, count) = (*range.start(), range.end() - range.start() + 1);
    ctx.reply.array(count);
    list.iter_from(first).take(count).for_each(|element| ctx.reply.bulk(element));
    Ok(())
}

pub(crate) fn ltrim(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (start, stop) = (argument::int(args[2])?, argument::int(args[3])?);
    let updated = ctx.keyspace.update::<List, _>(ctx.db, args[1], false, |list| {
        let len = list.view().len();
        match argument::range(start, stop, len) {
            Some(kept) => {
                list.cut(End::Back, len - 1 - kept.end());
                list.cut(End::Front, *kept.start());
            }
            None => list.cut(End::Front, len),
        }
    })?;
    if let Some(updated) = updated {
        // Redis tells of a trim that cut nothing, too.
        ctx.notify(Notify::LIST, "ltrim", args[1]);
        if updated.emptied {
            ctx.notify(Notify::GENERIC, "del", args[1]);
        }
    }
    ctx.reply.ok();
    Ok(())
}

pub(crate) fn linsert(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let behind = if argument::is(args[2], "BEFORE") {
        0
    } else if argument::is(args[2], "AFTER") {
        1
    } else {
        return Err(CommandError::Syntax);
    };
    let updated = ctx.keyspace.update::<List, _>(ctx.db, args[1], false, |list| {
        let pivot = list.view().iter_from(0).position(|element| element == args[3])?;
        list.insert(pivot + behind, args[4]);
        Some(list.view().len())
    })?;
    match updated {
        None => ctx.reply.int(0),
        Some(Updated { value: None, .. }) => ctx.reply.int(-1),
        Some(Updated { value: Some(len), .. }) => {
            ctx.notify(Notify::LIST, "linsert", args[1]);
            ctx.reply.count(len);
        }
    }
    Ok(())
}

pub(crate) fn lrem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let count = argument::int(args[2])?;
    let end = if count < 0 { End::Back } else { End::Front };
    let count_max = match count {
        0 => usize::MAX,
        _ => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
    };
    let updated = ctx.keyspace.update::<List, _>(ctx.db, args[1], false, |list| {
        list.remove_equal(args[3], end, count_max)
    })?;
    if let Some(updated) = &updated {
        ctx.notify_update(Notify::LIST, "lrem", args[1], updated);
    }
    ctx.reply.count(updated.map_or(0, |updated| updated.value));
    Ok(())
}

/// The options of LPOS.
struct PositionSearch {
    /// Which match is the first that counts; from the tail when `end` is.
    rank: u64,
    end: End,
    /// How many to tell, 0 for all; `None` for one that is not in an array.
    count: Option<usize>,
    /// How many elements to look at, 0 for all.
    compared_max: usize,
}

impl PositionSearch {
    fn parse(options: &[&[u8]]) -> Result<Self, CommandError> {
        let mut search = Self { rank: 1, end: End::Front, count: None, compared_max: 0 };
        let (pairs, rest) = options.as_chunks::<2>();
        for [word, value] in pairs {
            let not_negative = |error| match argument::int(value) {
                Ok(number) => usize::try_from(number).map_err(|_| CommandError::other(error)),
                Err(_) => Err(CommandError::other(error)),
            };
            if argument::is(word, "RANK") {
                let rank = rank(value)?;
                // The one number without an opposite counts from the first match in Redis 7.0.
                search.rank = rank.checked_abs().map_or(1, i64::unsigned_abs);
                search.end = if rank < 0 { End::Back } else { End::Front };
            } else if argument::is(word, "COUNT") {
                search.count = Some(not_negative("ERR COUNT can't be negative")?);
            } else if argument::is(word, "MAXLEN") {
                search.compared_max = not_negative("ERR MAXLEN can't be negative")?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if rest.is_empty() { Ok(search) } else { Err(CommandError::Syntax) }
    }

    /// Tells `found` the positions of the matches, until it has heard enough.
    fn run(&self, list: ListView<'_>, wanted: &[u8], found: impl FnMut(usize)) {
        match self.end {
            End::Front => self.run_over(list.iter_from(0).enumerate(), wanted, found),
            End::Back => {
                let positions = (0..list.len()).rev();
                self.run_over(positions.zip(list.iter_back_from(usize::MAX)), wanted, found);
            }
        }
    }

    fn run_over<'a>(
        &self,
        elements: impl Iterator<Item = (usize, &'a [u8])>,
        wanted: &[u8],
        mut found: impl FnMut(usize),
    ) {
        let unless_zero = |number: usize| if number == 0 { usize::MAX } else { number };
        let skipped = usize::try_from(self.rank - 1).unwrap_or(usize::MAX);
        elements
            .take(unless_zero(self.compared_max))
            .filter(|(_, element)| *element == wanted)
            .skip(skipped)
            .take(unless_zero(self.count.unwrap_or(1)))
            .for_each(|(position, _)| found(position));
    }
}

fn rank(argument: &[u8]) -> Result<i64, CommandError> {
    match argument::int(argument)? {
        0 => Err(CommandError::other(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list",
        )),
        rank => Ok(rank),
    }
}

pub(crate) fn lpos(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let search = PositionSearch::parse(&args[3..])?;
    let list = ctx.keyspace.read::<List>(ctx.db, args[1])?;
    let mark = ctx.reply.mark();
    let mut count = 0;
    if let Some(list) = list {
        search.run(list, args[2], |position| {
            ctx.reply.count(position);
            count += 1;
        });
    }
    if search.count.is_some() {
        ctx.reply.finish_array(mark, count);
    } else if count == 0 {
        ctx.reply.null();
    }
    Ok(())
}

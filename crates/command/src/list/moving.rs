//! LMOVEM and BLMOVEM: several elements from an end of a list to an end of another, or of the same.
//!
//! ```text
//!   a b c │ …    LEFT LEFT COUNT 3 BULK    a b c │ …      as they lay
//!                LEFT LEFT COUNT 3 OBO     c b a │ …      each on top of the one before
//!                LEFT RIGHT, either        … │ a b c
//! ```
//!
//! OBO takes all the elements before it puts the first: of one list, `k k LEFT LEFT` reverses them,
//! where LMOVE, called as often, leaves the list as it was.

use base::DbIndex;
use keyspace::list::{End, List, ListGuard};
use keyspace::{Keyspace, Notify, Type};

use super::{end, pop_event, push_event};
use crate::argument;
use crate::context::{Context, TimeoutReply};
use crate::error::{CommandError, Done};

/// A call of LMOVEM or BLMOVEM.
#[derive(Clone, Copy)]
struct Move<'a> {
    source: &'a [u8],
    destination: &'a [u8],
    from: End,
    to: End,
    count: usize,
    /// EXACTLY: `count` elements or none.
    is_exact: bool,
    /// OBO: one after the other, rather than in one piece.
    one_by_one: bool,
}

impl<'a> Move<'a> {
    /// Reads the lists and their ends, and moves one element unless [`Move::of`] says otherwise.
    fn one(args: &[&'a [u8]]) -> Result<Self, CommandError> {
        let (source, destination) = (args[1], args[2]);
        let (from, to) = (end(args[3])?, end(args[4])?);
        Ok(Self { source, destination, from, to, count: 1, is_exact: false, one_by_one: false })
    }

    /// Reads how many elements are moved, and how: the words at the end of a call, if any.
    fn of(self, words: &[&[u8]]) -> Result<Self, CommandError> {
        const NOT_POSITIVE: CommandError =
            CommandError::other("ERR count should be greater than 0");
        let (selector, count, order) = match words {
            [] => return Ok(self),
            [selector, count, order] => (selector, count, order),
            _ => return Err(CommandError::Syntax),
        };
        // The first of two words, or the second.
        let either = |word: &[u8], [first, second]: [&str; 2]| match word {
            word if argument::is(word, first) => Ok(true),
            word if argument::is(word, second) => Ok(false),
            _ => Err(CommandError::Syntax),
        };
        let is_exact = either(selector, ["EXACTLY", "COUNT"])?;
        let count = argument::count(count).ok().filter(|count| *count > 0).ok_or(NOT_POSITIVE)?;
        let one_by_one = either(order, ["OBO", "BULK"])?;
        Ok(Self { count, is_exact, one_by_one, ..self })
    }

    /// Moves the elements and replies them as they lie in the destination. Returns whether there
    /// are enough; otherwise nothing is moved or replied.
    fn run(self, ctx: &mut Context<'_>) -> Result<bool, CommandError> {
        let Self { source, destination, from, to, .. } = self;
        let Some(list) = ctx.keyspace.read_to_change::<List>(ctx.db, source)? else {
            return Ok(false);
        };
        let count = self.count.min(list.len());
        if self.is_exact && count < self.count {
            return Ok(false);
        }
        // Where all stay in their places, moving the outermost tells of a change, and logs no more.
        let stay = source == destination && from == to && !self.one_by_one;
        let taken = if stay { 1 } else { count };
        let first = if from == End::Front { 0 } else { list.len() - taken };
        let mut moved: Vec<Box<[u8]>> = list.iter_from(first).take(taken).map(Box::from).collect();
        if self.one_by_one && from == to {
            moved.reverse();
        }
        let cut = |list: &mut ListGuard<'_>| list.cut(from, taken);
        let push = |list: &mut ListGuard<'_>| match to {
            End::Front => moved.iter().rev().for_each(|element| list.push(to, element)),
            End::Back => moved.iter().for_each(|element| list.push(to, element)),
        };
        if source == destination {
            // In one change, so that the list is never seen empty.
            ctx.keyspace.update::<List, _>(ctx.db, source, false, |list| {
                cut(list);
                push(list);
            })?;
            ctx.notify(Notify::LIST, push_event(to), source);
            ctx.notify(Notify::LIST, pop_event(from), source);
        } else {
            ctx.keyspace.update::<List, _>(ctx.db, destination, true, push)?;
            ctx.notify(Notify::LIST, push_event(to), destination);
            let updated = ctx.keyspace.update::<List, _>(ctx.db, source, false, cut)?;
            let updated = updated.expect("the list was just read");
            ctx.notify_update(Notify::LIST, pop_event(from), source, &updated);
        }
        let list = ctx.keyspace.read_to_change::<List>(ctx.db, destination)?;
        let list = list.expect("the elements were just put there");
        let first = if to == End::Front { 0 } else { list.len() - count };
        ctx.reply.array(count);
        list.iter_from(first).take(count).for_each(|element| ctx.reply.bulk(element));
        Ok(true)
    }
}

/// Whether memory tells that a BLMOVEM moves nothing: EXACTLY more elements than its source has.
/// Then it looks at nothing but the source.
pub fn lacks_elements(keyspace: &mut Keyspace, db: DbIndex, args: &[&[u8]]) -> bool {
    let call = Move::one(args).and_then(|ends| ends.of(&args[6..]));
    let call = call.ok().filter(|call| call.is_exact);
    call.is_some_and(|call| keyspace.is_known_shorter(db, call.source, call.count))
}

/// LMOVEM source destination LEFT | RIGHT LEFT | RIGHT [COUNT | EXACTLY count OBO | BULK].
pub(crate) fn lmovem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    if !Move::one(args)?.of(&args[5..])?.run(ctx)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// BLMOVEM source destination LEFT | RIGHT LEFT | RIGHT timeout [COUNT | EXACTLY count OBO | BULK].
///
/// With EXACTLY it waits until the list is long enough, and looks at it whenever it has changed. Only
/// the last look needs the destination's value: see [`lacks_elements`].
pub(crate) fn blmovem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let ends = Move::one(args)?;
    let deadline_ms = argument::deadline(args[5], ctx.keyspace.now_ms())?;
    let call = ends.of(&args[6..])?;
    let keys = &args[1..2];
    if ctx.first_filled(keys, Type::List)?.is_some() && call.run(ctx)? {
        return Ok(());
    }
    if call.is_exact {
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        ctx.block_for_changes(keys, deadline_ms, None, args);
    } else {
        ctx.block(keys, deadline_ms, TimeoutReply::NullArray);
    }
    Ok(())
}

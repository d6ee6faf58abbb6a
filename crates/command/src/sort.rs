//! SORT and SORT_RO: the elements of a list, set or sorted set in an order of the client's choice.
//!
//! ```text
//!   elements ──► weights: the element itself, or the value that the BY pattern leads to
//!            ──► order by number, or by bytes with ALPHA; cut by LIMIT
//!            ──► output: the element itself, or the values that the GET patterns lead to
//!            ──► reply, or a list stored at the STORE key
//! ```
//!
//! A BY pattern without `*` leads every element to the same value, so there is nothing to order
//! by: lists and sorted sets stay as they are, read from their end with DESC.

mod pattern;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use keyspace::list::{End, List};
use keyspace::set::Set;
use keyspace::zset::ZSet;
use keyspace::{Notify, Type, WrongType};

use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};
use pattern::Pattern;

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE key].
pub(crate) fn sort(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let query = Query::parse(&args[2..], true, ctx.may_read_all_keys)?;
    query.execute(ctx, args[1])
}

/// SORT_RO: SORT without STORE.
pub(crate) fn sort_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let query = Query::parse(&args[2..], false, ctx.may_read_all_keys)?;
    query.execute(ctx, args[1])
}

/// What a user is told that may not read every key.
fn denied(option: &str) -> CommandError {
    let why = format!("ERR {option} option of SORT denied due to insufficient ACL permissions.");
    CommandError::Other(why.into())
}

/// What a call asks for.
struct Query<'a> {
    by: Option<&'a [u8]>,
    /// No BY pattern was constant; a constant one counts even if another one follows.
    is_ordered: bool,
    gets: Vec<Pattern<'a>>,
    descending: bool,
    alpha: bool,
    offset: i64,
    /// Negative for no limit.
    count: i64,
    store: Option<&'a [u8]>,
}

/// An element with what it is ordered by.
struct Item {
    element: Box<[u8]>,
    weight: Weight,
}

/// What an element is ordered by.
#[derive(Clone)]
enum Weight {
    /// A number.
    Number(f64),
    /// The bytes that BY leads to, if it leads anywhere; the same for equal elements, so that a
    /// list of many equal ones does not copy a large value as often.
    Bytes(Option<Rc<[u8]>>),
    /// The element itself.
    Element,
}

impl<'a> Query<'a> {
    fn parse(
        mut options: &[&'a [u8]],
        may_store: bool,
        may_read_all_keys: bool,
    ) -> Result<Self, CommandError> {
        let mut query = Self {
            by: None,
            is_ordered: true,
            gets: Vec::new(),
            descending: false,
            alpha: false,
            offset: 0,
            count: -1,
            store: None,
        };
        while let [word, rest @ ..] = options {
            options = match (word.to_ascii_lowercase().as_slice(), rest) {
                (b"asc", rest) => {
                    query.descending = false;
                    rest
                }
                (b"desc", rest) => {
                    query.descending = true;
                    rest
                }
                (b"alpha", rest) => {
                    query.alpha = true;
                    rest
                }
                (b"limit", [offset, count, rest @ ..]) => {
                    query.offset = argument::int(offset)?;
                    query.count = argument::int(count)?;
                    rest
                }
                (b"store", [key, rest @ ..]) if may_store => {
                    query.store = Some(key);
                    rest
                }
                (b"by", [pattern, ..]) if !may_read_all_keys && pattern.contains(&b'*') => {
                    return Err(denied("BY"));
                }
                (b"get", [_, ..]) if !may_read_all_keys => return Err(denied("GET")),
                (b"by", [pattern, rest @ ..]) => {
                    query.by = Some(pattern);
                    query.is_ordered &= pattern.contains(&b'*');
                    rest
                }
                (b"get", [pattern, rest @ ..]) => {
                    query.gets.push(Pattern::parse(pattern));
                    rest
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        Ok(query)
    }

    fn execute(mut self, ctx: &mut Context<'_>, key: &[u8]) -> Done {
        let value_type = ctx.keyspace.type_of(ctx.db, key);
        if matches!(value_type, Some(Type::String | Type::Hash)) {
            return Err(WrongType.into());
        }
        let is_kept = self.store.is_some() || ctx.in_script;
        if !self.is_ordered && value_type == Some(Type::Set) && is_kept {
            // A set has no order of its own, and what is stored, or a script sees, should not depend on chance.
            self.is_ordered = true;
            self.alpha = true;
            self.by = None;
        }
        if self.is_too_long(ctx, key, value_type)? {
            ctx.reply.give_up();
            return Ok(());
        }
        let elements = if self.is_ordered {
            let elements = Self::load(ctx, key, value_type)?;
            self.order(ctx, elements)?
        } else {
            self.load_as_is(ctx, key, value_type)?
        };
        match self.store {
            None => self.reply(ctx, &elements),
            // What was not seen would be missing in what is stored.
            Some(_) if ctx.keyspace.has_restore_failure() => {}
            Some(destination) => self.store(ctx, destination, &elements)?,
        }
        Ok(())
    }

    /// Whether the reply is all the elements and is too long for the client: then
    /// they are not copied to be sorted. A numeric order may end with an error instead.
    fn is_too_long(
        &self,
        ctx: &mut Context<'_>,
        key: &[u8],
        value_type: Option<Type>,
    ) -> Result<bool, WrongType> {
        let is_whole = self.offset <= 0 && self.count < 0 && self.gets.is_empty();
        if !is_whole || self.store.is_some() || (self.is_ordered && !self.alpha) {
            return Ok(false);
        }
        let (keyspace, db) = (&mut *ctx.keyspace, ctx.db);
        let bytes: Option<usize> = match value_type {
            Some(Type::List) => {
                keyspace.read::<List>(db, key)?.map(|list| list.iter_from(0).map(<[u8]>::len).sum())
            }
            Some(Type::Set) => {
                keyspace.read::<Set>(db, key)?.map(|set| set.iter().map(<[u8]>::len).sum())
            }
            _ => keyspace
                .read::<ZSet>(db, key)?
                .map(|zset| zset.iter().map(|(member, _)| member.len()).sum()),
        };
        Ok(bytes.is_some_and(|bytes| bytes > ctx.reply.room()))
    }

    /// The part of `length` elements that LIMIT leaves.
    fn range(&self, length: usize) -> Range<usize> {
        let start = usize::try_from(self.offset.max(0)).unwrap_or(usize::MAX).min(length);
        let count = usize::try_from(self.count).unwrap_or(length);
        start..start.saturating_add(count).min(length)
    }

    /// All elements, in any order.
    fn load(
        ctx: &mut Context<'_>,
        key: &[u8],
        value_type: Option<Type>,
    ) -> Result<Vec<Box<[u8]>>, WrongType> {
        let mut elements: Vec<Box<[u8]>> = Vec::new();
        match value_type {
            Some(Type::List) => {
                if let Some(list) = ctx.keyspace.read::<List>(ctx.db, key)? {
                    elements.extend(list.iter_from(0).map(Box::from));
                }
            }
            Some(Type::Set) => {
                if let Some(set) = ctx.keyspace.read::<Set>(ctx.db, key)? {
                    elements.extend(set.iter().map(Box::from));
                }
            }
            _ => {
                if let Some(zset) = ctx.keyspace.read::<ZSet>(ctx.db, key)? {
                    elements.extend(zset.iter().map(|(member, _)| Box::from(member)));
                }
            }
        }
        Ok(elements)
    }

    /// The elements that LIMIT leaves, in the order that the collection has, or from its end.
    fn load_as_is(
        &self,
        ctx: &mut Context<'_>,
        key: &[u8],
        value_type: Option<Type>,
    ) -> Result<Vec<Box<[u8]>>, WrongType> {
        match value_type {
            Some(Type::List) => {
                let Some(list) = ctx.keyspace.read::<List>(ctx.db, key)? else {
                    return Ok(Vec::new());
                };
                let range = self.range(list.len());
                if range.is_empty() {
                    return Ok(Vec::new());
                }
                Ok(if self.descending {
                    let from = list.len() - 1 - range.start;
                    list.iter_back_from(from).take(range.len()).map(Box::from).collect()
                } else {
                    list.iter_from(range.start).take(range.len()).map(Box::from).collect()
                })
            }
            Some(Type::ZSet) => {
                let Some(zset) = ctx.keyspace.read::<ZSet>(ctx.db, key)? else {
                    return Ok(Vec::new());
                };
                let range = self.range(zset.len());
                let ranks = if self.descending {
                    zset.len() - range.end..zset.len() - range.start
                } else {
                    range
                };
                let mut members: Vec<_> =
                    zset.range(ranks).map(|(member, _)| Box::from(member)).collect();
                if self.descending {
                    members.reverse();
                }
                Ok(members)
            }
            _ => {
                let mut members = Self::load(ctx, key, value_type)?;
                let range = self.range(members.len());
                members.truncate(range.end);
                members.drain(..range.start);
                Ok(members)
            }
        }
    }

    /// Orders the elements and cuts them by LIMIT.
    fn order(
        &self,
        ctx: &mut Context<'_>,
        elements: Vec<Box<[u8]>>,
    ) -> Result<Vec<Box<[u8]>>, CommandError> {
        let range = self.range(elements.len());
        let mut items = self.weigh(ctx, elements)?;
        let compare = |a: &Item, b: &Item| {
            let order = compare(a, b);
            if self.descending { order.reverse() } else { order }
        };
        if range.end > 0 && range.end < items.len() {
            items.select_nth_unstable_by(range.end - 1, compare);
        }
        items.truncate(range.end);
        items.sort_by(compare);
        Ok(items.drain(range.start..).map(|item| item.element).collect())
    }

    /// The elements with what they are ordered by.
    fn weigh(
        &self,
        ctx: &mut Context<'_>,
        elements: Vec<Box<[u8]>>,
    ) -> Result<Vec<Item>, CommandError> {
        let by = self.by.map(Pattern::parse);
        let mut all_numbers = true;
        let mut number = |text: &[u8]| {
            let number = parse_weight(text);
            all_numbers &= number.is_some();
            Weight::Number(number.unwrap_or(0.0))
        };
        // Equal elements lead to the same value, which may be large: it is looked up once.
        let mut weighed: HashMap<&[u8], Weight> = HashMap::new();
        let mut weights = Vec::with_capacity(elements.len());
        for element in &elements {
            weights.push(match &by {
                None if self.alpha => Weight::Element,
                None => number(element),
                Some(by) => {
                    let look_up = || match by.look_up(ctx, element) {
                        found if self.alpha => Weight::Bytes(found.map(Rc::from)),
                        found => number(&found.unwrap_or_default()),
                    };
                    weighed.entry(element).or_insert_with(look_up).clone()
                }
            });
        }
        if !all_numbers {
            return Err(CommandError::other(
                "ERR One or more scores can't be converted into double",
            ));
        }
        let items = elements.into_iter().zip(weights);
        Ok(items.map(|(element, weight)| Item { element, weight }).collect())
    }

    fn reply(&self, ctx: &mut Context<'_>, elements: &[Box<[u8]>]) {
        ctx.reply.array(elements.len() * self.gets.len().max(1));
        for element in elements {
            if self.gets.is_empty() {
                ctx.reply.bulk(element);
            }
            for pattern in &self.gets {
                match pattern.look_up(ctx, element) {
                    Some(value) => ctx.reply.own_bulk(value.into()),
                    None => ctx.reply.null(),
                }
                if ctx.reply.is_over() {
                    return;
                }
            }
        }
    }

    /// Stores the output as a list, over whatever is there; an empty one deletes it.
    fn store(
        &self,
        ctx: &mut Context<'_>,
        destination: &[u8],
        elements: &[Box<[u8]>],
    ) -> Result<(), WrongType> {
        let mut output: Vec<Box<[u8]>> = Vec::new();
        for element in elements {
            if self.gets.is_empty() {
                output.push(element.clone());
            }
            for pattern in &self.gets {
                output.push(pattern.look_up(ctx, element).unwrap_or_default());
            }
        }
        if ctx.keyspace.has_restore_failure() {
            return Ok(());
        }
        let count = output.len();
        if count > 0 {
            // What is in the list need not be here any more.
            ctx.keyspace.replace::<List, ()>(ctx.db, destination, |list| {
                for element in output {
                    list.push(End::Back, &element);
                }
            })?;
            ctx.notify(Notify::LIST, "sortstore", destination);
        } else if ctx.keyspace.delete(ctx.db, destination) {
            ctx.notify(Notify::GENERIC, "del", destination);
        }
        ctx.reply.count(count);
        Ok(())
    }
}

/// Orders by weight, and by the elements themselves where numbers are equal.
fn compare(a: &Item, b: &Item) -> Ordering {
    match (&a.weight, &b.weight) {
        (Weight::Number(x), Weight::Number(y)) => {
            x.partial_cmp(y).unwrap_or(Ordering::Equal).then_with(|| a.element.cmp(&b.element))
        }
        (Weight::Bytes(x), Weight::Bytes(y)) => x.cmp(y),
        _ => a.element.cmp(&b.element),
    }
}

/// A number as C's `strtod` reads it: blanks in front, nothing behind, an empty text is 0.
fn parse_weight(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let text = &text[..end];
    if text.is_empty() {
        return Some(0.0);
    }
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !blank(byte)).unwrap_or(text.len());
    let number = crate::float::parse(&text[start..])?;
    let overflowed = number.is_infinite() && text.iter().any(u8::is_ascii_digit);
    (!overflowed).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_as_c_reads_them() {
        for (text, number) in [
            ("", Some(0.0)),
            ("10", Some(10.0)),
            (" -1.5e1", Some(-15.0)),
            ("inf", Some(f64::INFINITY)),
            ("0x10", Some(16.0)),
            ("1e400", None),
            ("nan", None),
            ("1 ", None),
            ("abc", None),
        ] {
            assert_eq!(parse_weight(text.as_bytes()), number, "{text}");
        }
    }
}

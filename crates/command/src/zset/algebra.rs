//! Union, intersection and difference of sorted sets and sets; a set's members have the score 1.
//!
//! The keyspace lends one value at a time, so the sources are gone through one after the other:
//! a union accumulates, an intersection and a difference thin out the members of their first
//! source. In a union and an intersection the smallest source comes first, as with Redis: that
//! is the least work, and it decides in which order scores are added up.

use std::cmp::Ordering;
use std::collections::HashMap;

use keyspace::set::{Set, SetView};
use keyspace::zset::{ZSet, ZSetView};
use keyspace::{Type, WrongType};

use super::{store, write_header, write_member};
use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::float;

/// A member of a result and its score.
type Member = (Box<[u8]>, f64);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// How the scores of a member in several sources become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(word: &[u8]) -> Option<Self> {
        [("SUM", Self::Sum), ("MIN", Self::Min), ("MAX", Self::Max)]
            .into_iter()
            .find_map(|(name, aggregate)| argument::is(word, name).then_some(aggregate))
    }

    fn apply(self, sum: f64, score: f64) -> f64 {
        match self {
            Self::Sum => zero_if_nan(sum + score),
            Self::Min if score < sum => score,
            Self::Max if score > sum => score,
            Self::Min | Self::Max => sum,
        }
    }
}

/// Infinity times zero, and infinities of both signs, come to zero by convention.
fn zero_if_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// A set or sorted set, as a source.
enum Source<'a> {
    Set(SetView<'a>),
    ZSet(ZSetView<'a>),
}

impl Source<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Set(set) => set.len(),
            Self::ZSet(set) => set.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Set(set) => set.contains(member).then_some(1.0),
            Self::ZSet(set) => set.score(member),
        }
    }

    fn for_each(&self, mut visit: impl FnMut(&[u8], f64)) {
        match self {
            Self::Set(set) => set.iter().for_each(|member| visit(member, 1.0)),
            Self::ZSet(set) => set.iter().for_each(|(member, score)| visit(member, score)),
        }
    }
}

/// A call of any of the commands.
struct Call<'a> {
    /// Keys and weights.
    sources: Vec<(&'a [u8], f64)>,
    aggregate: Aggregate,
    with_scores: bool,
    /// How many members are enough for ZINTERCARD.
    limit: usize,
}

/// What becomes of a command's result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Reply,
    Store,
    Count,
}

impl<'a> Call<'a> {
    /// `args` are the number of keys, the keys and the options.
    fn parse(
        cx: &mut Context<'_>,
        name: &'static str,
        args: &[&'a [u8]],
        operation: Operation,
        outcome: Outcome,
    ) -> Result<Self, CommandError> {
        let key_count = argument::int(args[0])?;
        if key_count < 1 {
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(CommandError::Other(text.into()));
        }
        let key_count = usize::try_from(key_count).unwrap_or(usize::MAX);
        if key_count > args.len() - 1 {
            return Err(CommandError::Syntax);
        }
        let (keys, options) = args[1..].split_at(key_count);
        // Redis looks at the keys before it looks at the options.
        for key in keys {
            if !matches!(cx.keyspace.type_of(cx.db, key), None | Some(Type::Set | Type::ZSet)) {
                return Err(WrongType.into());
            }
        }
        let sources = keys.iter().map(|&key| (key, 1.0)).collect();
        let mut call =
            Self { sources, aggregate: Aggregate::Sum, with_scores: false, limit: usize::MAX };
        call.parse_options(options, operation, outcome)?;
        Ok(call)
    }

    fn parse_options(
        &mut self,
        mut options: &[&[u8]],
        operation: Operation,
        outcome: Outcome,
    ) -> Result<(), CommandError> {
        const NOT_A_WEIGHT: CommandError = CommandError::other("ERR weight value is not a float");
        const NEGATIVE: CommandError = CommandError::other("ERR LIMIT can't be negative");
        let aggregates = operation != Operation::Difference && outcome != Outcome::Count;
        while let [word, rest @ ..] = options {
            options = rest;
            if aggregates && rest.len() >= self.sources.len() && argument::is(word, "WEIGHTS") {
                let (weights, rest) = rest.split_at(self.sources.len());
                for (source, weight) in self.sources.iter_mut().zip(weights) {
                    source.1 = float::parse(weight).ok_or(NOT_A_WEIGHT)?;
                }
                options = rest;
            } else if aggregates
                && argument::is(word, "AGGREGATE")
                && let [name, rest @ ..] = rest
            {
                self.aggregate = Aggregate::parse(name).ok_or(CommandError::Syntax)?;
                options = rest;
            } else if outcome == Outcome::Reply && argument::is(word, "WITHSCORES") {
                self.with_scores = true;
            } else if outcome == Outcome::Count
                && argument::is(word, "LIMIT")
                && let [limit, rest @ ..] = rest
            {
                let limit = argument::count(limit).map_err(|_| NEGATIVE)?;
                self.limit = if limit == 0 { usize::MAX } else { limit };
                options = rest;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(())
    }

    /// Orders the sources by how many members they have.
    fn smallest_first(&mut self, cx: &mut Context<'_>) -> Result<(), CommandError> {
        let mut sized = Vec::with_capacity(self.sources.len());
        for &(key, weight) in &self.sources {
            let len = source(cx, key)?.map_or(0, |source| source.len());
            sized.push((len, (key, weight)));
        }
        sized.sort_by_key(|source| source.0);
        self.sources = sized.into_iter().map(|source| source.1).collect();
        Ok(())
    }

    /// The members of the result, in no order.
    fn members(
        &mut self,
        cx: &mut Context<'_>,
        operation: Operation,
    ) -> Result<Vec<Member>, CommandError> {
        match operation {
            Operation::Union => {
                self.smallest_first(cx)?;
                self.union(cx)
            }
            Operation::Intersection => {
                self.smallest_first(cx)?;
                self.thin_out(cx, |aggregate, score, other, weight| {
                    other.map(|other| aggregate.apply(score, other * weight))
                })
            }
            Operation::Difference => self.thin_out(cx, |_, score, other, _| match other {
                Some(_) => None,
                None => Some(score),
            }),
        }
    }

    fn union(&self, cx: &mut Context<'_>) -> Result<Vec<Member>, CommandError> {
        let mut scores: HashMap<Box<[u8]>, f64> = HashMap::new();
        for &(key, weight) in &self.sources {
            let Some(source) = source(cx, key)? else { continue };
            source.for_each(|member, score| {
                let score = zero_if_nan(weight * score);
                match scores.get_mut(member) {
                    Some(sum) => *sum = self.aggregate.apply(*sum, score),
                    None => drop(scores.insert(member.into(), score)),
                }
            });
        }
        Ok(scores.into_iter().collect())
    }

    /// The members of the first source that `keep` keeps for every other source: it is given
    /// the score so far, and the member's score in the other source with that source's weight.
    fn thin_out(
        &self,
        cx: &mut Context<'_>,
        keep: impl Fn(Aggregate, f64, Option<f64>, f64) -> Option<f64>,
    ) -> Result<Vec<Member>, CommandError> {
        let mut members: Vec<Member> = Vec::new();
        let ((first, weight), others) = self.sources.split_first().expect("there is a key");
        if let Some(source) = source(cx, first)? {
            source.for_each(|member, score| {
                members.push((member.into(), zero_if_nan(weight * score)));
            });
        }
        for &(key, weight) in others {
            if members.is_empty() {
                break;
            }
            let source = source(cx, key)?;
            members.retain_mut(|(member, score)| {
                let other = source.as_ref().and_then(|source| source.score(member));
                let kept = keep(self.aggregate, *score, other, weight);
                *score = kept.unwrap_or(*score);
                kept.is_some()
            });
        }
        Ok(members)
    }
}

fn source<'a>(cx: &'a mut Context<'_>, key: &[u8]) -> Result<Option<Source<'a>>, CommandError> {
    if cx.keyspace.type_of(cx.db, key) == Some(Type::Set) {
        return Ok(cx.keyspace.read::<Set>(cx.db, key)?.map(Source::Set));
    }
    Ok(cx.keyspace.read::<ZSet>(cx.db, key)?.map(Source::ZSet))
}

fn by_score_and_member(left: &Member, right: &Member) -> Ordering {
    let by_score = left.1.partial_cmp(&right.1).expect("scores are not NaN");
    by_score.then_with(|| left.0.cmp(&right.0))
}

fn write_result(
    cx: &mut Context<'_>,
    name: &'static str,
    args: &[&[u8]],
    operation: Operation,
) -> Done {
    let mut call = Call::parse(cx, name, &args[1..], operation, Outcome::Reply)?;
    let mut members = call.members(cx, operation)?;
    members.sort_unstable_by(by_score_and_member);
    write_header(cx.reply, members.len(), call.with_scores);
    for (member, score) in &members {
        write_member(cx.reply, (member, *score), call.with_scores);
    }
    Ok(())
}

fn store_result(
    cx: &mut Context<'_>,
    name: &'static str,
    args: &[&[u8]],
    operation: Operation,
) -> Done {
    let mut call = Call::parse(cx, name, &args[2..], operation, Outcome::Store)?;
    let mut members = call.members(cx, operation)?;
    members.sort_unstable_by(by_score_and_member);
    store(cx, args[1], &members, name)
}

pub(crate) fn zunion(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    write_result(cx, "zunion", args, Operation::Union)
}

pub(crate) fn zinter(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    write_result(cx, "zinter", args, Operation::Intersection)
}

pub(crate) fn zdiff(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    write_result(cx, "zdiff", args, Operation::Difference)
}

pub(crate) fn zunionstore(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    store_result(cx, "zunionstore", args, Operation::Union)
}

pub(crate) fn zinterstore(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    store_result(cx, "zinterstore", args, Operation::Intersection)
}

pub(crate) fn zdiffstore(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    store_result(cx, "zdiffstore", args, Operation::Difference)
}

pub(crate) fn zintercard(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let operation = Operation::Intersection;
    let mut call = Call::parse(cx, "zintercard", &args[1..], operation, Outcome::Count)?;
    let members = call.members(cx, operation)?;
    cx.reply.count(members.len().min(call.limit));
    Ok(())
}

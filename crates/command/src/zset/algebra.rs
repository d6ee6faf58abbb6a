//! Union, intersection and difference of sorted sets and sets; a set's members have the score 1.
//!
//! In a union and an intersection the smallest source comes first, as with Redis: that is the least
//! work, and it decides in which order scores are added up.

use std::cmp::Ordering;
use std::collections::HashMap;

use base::DbIndex;
use keyspace::Keyspace;
use keyspace::zset::ScoredView;

use super::{store, write_header, write_member};
use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::float;

/// A member of a result and its score.
type Member<'a> = (&'a [u8], f64);

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
    /// The sum of the weights of the sources that have it, whatever its scores.
    Count,
}

impl Aggregate {
    fn parse(word: &[u8]) -> Option<Self> {
        [("SUM", Self::Sum), ("MIN", Self::Min), ("MAX", Self::Max), ("COUNT", Self::Count)]
            .into_iter()
            .find_map(|(name, aggregate)| argument::is(word, name).then_some(aggregate))
    }

    /// What a source of this weight that has the member with this score contributes.
    fn share(self, weight: f64, score: f64) -> f64 {
        match self {
            Self::Sum | Self::Min | Self::Max => weight * score,
            Self::Count => weight,
        }
    }

    fn apply(self, sum: f64, score: f64) -> f64 {
        match self {
            Self::Sum | Self::Count => zero_if_nan(sum + score),
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

/// What becomes of a command's result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Reply,
    Store,
    Count,
}

/// The options of all of the commands.
struct Options {
    /// One for each key; empty for 1 each.
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// How many members are enough for ZINTERCARD.
    limit: usize,
}

impl Options {
    fn parse(
        mut words: &[&[u8]],
        key_count: usize,
        operation: Operation,
        outcome: Outcome,
    ) -> Result<Self, CommandError> {
        const NOT_A_WEIGHT: CommandError = CommandError::other("ERR weight value is not a float");
        const NEGATIVE: CommandError = CommandError::other("ERR LIMIT can't be negative");
        let mut options = Self {
            weights: Vec::new(),
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: usize::MAX,
        };
        let aggregates = operation != Operation::Difference && outcome != Outcome::Count;
        while let [word, rest @ ..] = words {
            words = rest;
            if aggregates && rest.len() >= key_count && argument::is(word, "WEIGHTS") {
                let (weights, rest) = rest.split_at(key_count);
                let weights = weights.iter().map(|weight| float::parse(weight));
                options.weights = weights.collect::<Option<_>>().ok_or(NOT_A_WEIGHT)?;
                words = rest;
            } else if aggregates
                && argument::is(word, "AGGREGATE")
                && let [name, rest @ ..] = rest
            {
                options.aggregate = Aggregate::parse(name).ok_or(CommandError::Syntax)?;
                words = rest;
            } else if outcome == Outcome::Reply && argument::is(word, "WITHSCORES") {
                options.with_scores = true;
            } else if outcome == Outcome::Count
                && argument::is(word, "LIMIT")
                && let [limit, rest @ ..] = rest
            {
                let limit = argument::count(limit).map_err(|_| NEGATIVE)?;
                options.limit = if limit == 0 { usize::MAX } else { limit };
                words = rest;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

/// A source and its weight; `None` for a key that is not there.
type Source<'a> = (Option<ScoredView<'a>>, f64);

/// A call of any of the commands, its keys read.
struct Call<'a> {
    sources: Vec<Source<'a>>,
    options: Options,
    operation: Operation,
}

impl<'a> Call<'a> {
    /// `args` are the number of keys, the keys and the options.
    fn read(
        keyspace: &'a mut Keyspace,
        db: DbIndex,
        name: &'static str,
        args: &[&[u8]],
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
        let (keys, words) = args[1..].split_at(key_count);
        // Redis looks at the keys before it looks at the options.
        let views = keyspace.read_scored(db, keys)?;
        let options = Options::parse(words, key_count, operation, outcome)?;
        let weights = options.weights.iter().copied().chain(std::iter::repeat(1.0));
        let mut sources: Vec<Source<'a>> = views.into_iter().zip(weights).collect();
        if operation != Operation::Difference {
            sources.sort_by_key(|source| source.0.map_or(0, ScoredView::len));
        }
        Ok(Self { sources, options, operation })
    }

    /// The members of the result, by score and member.
    fn members(&self) -> Vec<Member<'a>> {
        let mut members = match self.operation {
            Operation::Union => self.union(),
            Operation::Intersection => self.intersection().collect(),
            Operation::Difference => self.difference(),
        };
        members.sort_unstable_by(by_score_and_member);
        members
    }

    fn union(&self) -> Vec<Member<'a>> {
        let mut scores: HashMap<&[u8], f64> = HashMap::new();
        for (source, weight) in &self.sources {
            for (member, score) in source.iter().flat_map(|source| source.iter()) {
                let score = zero_if_nan(self.options.aggregate.share(*weight, score));
                scores
                    .entry(member)
                    .and_modify(|sum| *sum = self.options.aggregate.apply(*sum, score))
                    .or_insert(score);
            }
        }
        scores.into_iter().collect()
    }

    fn intersection(&self) -> impl Iterator<Item = Member<'a>> {
        let ((smallest, weight), others) = self.sources.split_first().expect("there is a key");
        let aggregate = self.options.aggregate;
        smallest.iter().flat_map(|source| source.iter()).filter_map(move |(member, score)| {
            let first = zero_if_nan(aggregate.share(*weight, score));
            let sum = others.iter().try_fold(first, |sum, (other, weight)| {
                let score = other.as_ref()?.score(member)?;
                Some(aggregate.apply(sum, aggregate.share(*weight, score)))
            });
            Some((member, sum?))
        })
    }

    fn difference(&self) -> Vec<Member<'a>> {
        let ((first, _), others) = self.sources.split_first().expect("there is a key");
        let is_elsewhere = |member| {
            others.iter().any(|(other, _)| other.is_some_and(|o| o.score(member).is_some()))
        };
        let members = first.iter().flat_map(|source| source.iter());
        members.filter(|(member, _)| !is_elsewhere(member)).collect()
    }
}

fn by_score_and_member(left: &Member<'_>, right: &Member<'_>) -> Ordering {
    let by_score = left.1.partial_cmp(&right.1).expect("scores are not NaN");
    by_score.then_with(|| left.0.cmp(right.0))
}

fn write_result(
    ctx: &mut Context<'_>,
    name: &'static str,
    args: &[&[u8]],
    operation: Operation,
) -> Done {
    let call = Call::read(ctx.keyspace, ctx.db, name, &args[1..], operation, Outcome::Reply)?;
    let members = call.members();
    write_header(ctx.reply, members.len(), call.options.with_scores);
    for member in members {
        write_member(ctx.reply, member, call.options.with_scores);
    }
    Ok(())
}

fn store_result(
    ctx: &mut Context<'_>,
    name: &'static str,
    args: &[&[u8]],
    operation: Operation,
) -> Done {
    let call = Call::read(ctx.keyspace, ctx.db, name, &args[2..], operation, Outcome::Store)?;
    // The destination may be a source, so the result must not borrow from it.
    let members: Vec<_> =
        call.members().into_iter().map(|(member, score)| (Box::from(member), score)).collect();
    store(ctx, args[1], &members, name)
}

pub(crate) fn zunion(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    write_result(ctx, "zunion", args, Operation::Union)
}

pub(crate) fn zinter(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    write_result(ctx, "zinter", args, Operation::Intersection)
}

pub(crate) fn zdiff(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    write_result(ctx, "zdiff", args, Operation::Difference)
}

pub(crate) fn zunionstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    store_result(ctx, "zunionstore", args, Operation::Union)
}

pub(crate) fn zinterstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    store_result(ctx, "zinterstore", args, Operation::Intersection)
}

pub(crate) fn zdiffstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    store_result(ctx, "zdiffstore", args, Operation::Difference)
}

pub(crate) fn zintercard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (name, operation) = ("zintercard", Operation::Intersection);
    let call = Call::read(ctx.keyspace, ctx.db, name, &args[1..], operation, Outcome::Count)?;
    ctx.reply.count(call.intersection().take(call.options.limit).count());
    Ok(())
}

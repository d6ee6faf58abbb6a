//! Geographic indices: sorted sets whose scores are positions ([`position`]).

mod nearest;
mod options;
mod polygon;
mod position;
mod shape;

use keyspace::zset::{ScoreRange, ZSet, ZSetView};

use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::zset::{self, AddOptions};
use nearest::Nearest;
use options::{Family, From, Options, Unit};
use position::Position;

/// The position that two arguments name.
fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, CommandError> {
    let (longitude, latitude) = (argument::float(longitude)?, argument::float(latitude)?);
    let position = Position { longitude, latitude };
    if position.is_valid() {
        return Ok(position);
    }
    let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
    Err(CommandError::Other(text.into()))
}

pub(crate) fn geoadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let mut options = AddOptions::default();
    let mut members = &args[2..];
    while let [word, rest @ ..] = members {
        match *word {
            word if argument::is(word, "NX") => options.nx = true,
            word if argument::is(word, "XX") => options.xx = true,
            word if argument::is(word, "CH") => options.ch = true,
            _ => break,
        }
        members = rest;
    }
    if members.is_empty() || !members.len().is_multiple_of(3) || (options.nx && options.xx) {
        return Err(CommandError::Syntax);
    }
    let scored = |member: &[&'_ [u8]]| Ok(position(member[0], member[1])?.score());
    let scores: Vec<f64> =
        members.chunks_exact(3).map(scored).collect::<Result<_, CommandError>>()?;
    let names = members.iter().skip(2).step_by(3).copied();
    zset::add_members(ctx, args[1], scores.into_iter().zip(names), &options)
}

fn find(set: Option<ZSetView<'_>>, member: &[u8]) -> Option<Position> {
    set?.score(member).map(Position::of_score)
}

pub(crate) fn geopos(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let set = ctx.keyspace.read::<ZSet>(ctx.db, args[1])?;
    ctx.reply.array(args.len() - 2);
    for member in &args[2..] {
        match find(set, member) {
            Some(position) => write_position(ctx.reply, position),
            None => ctx.reply.null_array(),
        }
    }
    Ok(())
}

pub(crate) fn geohash(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let set = ctx.keyspace.read::<ZSet>(ctx.db, args[1])?;
    ctx.reply.array(args.len() - 2);
    for member in &args[2..] {
        match find(set, member) {
            Some(position) => ctx.reply.bulk(&position.geohash()),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

pub(crate) fn geodist(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let unit = match &args[4..] {
        [] => Unit::METER,
        [unit] => Unit::parse(unit)?,
        _ => return Err(CommandError::Syntax),
    };
    let set = ctx.keyspace.read::<ZSet>(ctx.db, args[1])?;
    match (find(set, args[2]), find(set, args[3])) {
        (Some(a), Some(b)) => write_distance(ctx.reply, a.distance_m(b) / unit.meters),
        _ => ctx.reply.null(),
    }
    Ok(())
}

fn write_distance(reply: &mut resp::Writer, distance: f64) {
    reply.bulk_str(&format!("{distance:.4}"));
}

/// Seventeen digits behind the point, without the zeros at the end.
fn write_position(reply: &mut resp::Writer, position: Position) {
    reply.array(2);
    for degrees in [position.longitude, position.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if text == "-0" { "0" } else { text };
        reply.decimal(text);
    }
}

pub(crate) fn geosearch(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    search(ctx, args, Family::Search)
}

pub(crate) fn geosearchstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    search(ctx, args, Family::SearchStore)
}

pub(crate) fn georadius(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    search(ctx, args, Family::Radius { by_member: false, stores: true })
}

pub(crate) fn georadius_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    search(ctx, args, Family::Radius { by_member: false, stores: false })
}

pub(crate) fn georadiusbymember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    search(ctx, args, Family::Radius { by_member: true, stores: true })
}

pub(crate) fn georadiusbymember_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    search(ctx, args, Family::Radius { by_member: true, stores: false })
}

/// A member that was found.
struct Found<'a> {
    member: &'a [u8],
    score: f64,
    distance_m: f64,
    position: Position,
}

fn search(ctx: &mut Context<'_>, args: &[&[u8]], family: Family) -> Done {
    let source = if family == Family::SearchStore { args[2] } else { args[1] };
    let set = ctx.keyspace.read::<ZSet>(ctx.db, source)?;
    let locate = |member: &[u8]| {
        const UNKNOWN: CommandError =
            CommandError::other("ERR could not decode requested zset member");
        set.map(|set| set.score(member).map(Position::of_score).ok_or(UNKNOWN)).transpose()
    };
    let options = Options::parse(args, family, set.is_some(), locate)?;
    let found = match (set, options.from) {
        (Some(set), From::Position(middle)) => matches(set, &options, middle),
        _ => Vec::new(),
    };
    if let Some((destination, by_distance)) = options.store {
        let score = |it: &Found<'_>| {
            if by_distance { it.distance_m / options.unit.meters } else { it.score }
        };
        let members: Vec<(Box<[u8]>, f64)> =
            found.iter().map(|it| (it.member.into(), score(it))).collect();
        let is_search = family == Family::SearchStore;
        let event = if is_search { "geosearchstore" } else { "georadiusstore" };
        return zset::store(ctx, destination, &members, event);
    }
    let extras = [options.with_distance, options.with_hash, options.with_position];
    let extra_count = extras.iter().filter(|extra| **extra).count();
    ctx.reply.array(found.len());
    for it in &found {
        if extra_count > 0 {
            ctx.reply.array(1 + extra_count);
        }
        ctx.reply.bulk(it.member);
        if options.with_distance {
            write_distance(ctx.reply, it.distance_m / options.unit.meters);
        }
        if options.with_hash {
            #[expect(clippy::cast_possible_truncation, reason = "a number of 52 bits")]
            ctx.reply.int(it.score as i64);
        }
        if options.with_position {
            write_position(ctx.reply, it.position);
        }
    }
    Ok(())
}

/// The members inside the shape, in the order that is asked for, and not more than are: with ANY those that come first,
/// cell by cell, else the nearest or the farthest.
fn matches<'a>(set: ZSetView<'a>, options: &Options<'_>, middle: Position) -> Vec<Found<'a>> {
    let enough = options.count.filter(|_| options.any).unwrap_or(usize::MAX);
    let mut found = Nearest::new(options.is_descending, options.count);
    for (min, max) in options.shape.score_ranges(middle) {
        let range = ScoreRange { min, max, min_excluded: false, max_excluded: true };
        for (member, score) in set.range(set.score_range(&range)) {
            if found.len() >= enough {
                return found.into_iter().collect();
            }
            let position = Position::of_score(score);
            if let Some(distance_m) = options.shape.distance_m(middle, position) {
                found.add(distance_m, Found { member, score, distance_m, position });
            }
        }
    }
    found.into_iter().collect()
}

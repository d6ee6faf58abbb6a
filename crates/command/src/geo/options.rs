//! The options of GEOSEARCH and GEORADIUS.

use super::polygon::{Polygon, VERTICES_MAX, VERTICES_MIN};
use super::position::Position;
use super::shape::Shape;
use crate::argument::{self, is};
use crate::error::CommandError;
use crate::float;

/// Which of the commands it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Search,
    SearchStore,
    Radius { by_member: bool, stores: bool },
}

/// A unit of length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) meters: f64,
}

impl Unit {
    pub(super) const METER: Self = Self { meters: 1.0 };

    pub(super) fn parse(word: &[u8]) -> Result<Self, CommandError> {
        const UNKNOWN: CommandError =
            CommandError::other("ERR unsupported unit provided. please use M, KM, FT, MI");
        [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)]
            .into_iter()
            .find(|(name, _)| is(word, name))
            .map(|(_, meters)| Self { meters })
            .ok_or(UNKNOWN)
    }
}

/// Where the middle is.
#[derive(Debug, Clone, Copy)]
pub(super) enum From {
    Nothing,
    /// A member of a key that is not there.
    Nowhere,
    Position(Position),
}

pub(super) struct Options<'a> {
    pub(super) from: From,
    pub(super) shape: Shape,
    pub(super) unit: Unit,
    pub(super) with_distance: bool,
    pub(super) with_hash: bool,
    pub(super) with_position: bool,
    pub(super) is_descending: Option<bool>,
    pub(super) count: Option<usize>,
    pub(super) any: bool,
    /// Where the result is stored, and whether distances are.
    pub(super) store: Option<(&'a [u8], bool)>,
}

fn length(argument: &[u8], complaint: &'static str) -> Result<f64, CommandError> {
    float::parse(argument).ok_or(CommandError::other(complaint))
}

fn circle(radius: &[u8], unit: &[u8]) -> Result<(Shape, Unit), CommandError> {
    let radius = length(radius, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(CommandError::other("ERR radius cannot be negative"));
    }
    let unit = Unit::parse(unit)?;
    Ok((Shape::Circle { radius: radius * unit.meters }, unit))
}

fn rectangle(width: &[u8], height: &[u8], unit: &[u8]) -> Result<(Shape, Unit), CommandError> {
    let width = length(width, "ERR need numeric width")?;
    let height = length(height, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::other("ERR height or width cannot be negative"));
    }
    let unit = Unit::parse(unit)?;
    Ok((Shape::Box { width: width * unit.meters, height: height * unit.meters }, unit))
}

/// The polygon that `BYPOLYGON count longitude latitude …` names, and the words after it.
fn polygon<'w, 'a>(
    count: &[u8],
    words: &'w [&'a [u8]],
) -> Result<(Polygon, &'w [&'a [u8]]), CommandError> {
    const NO_NUMBER: CommandError = CommandError::other("ERR invalid number of vertices");
    const TOO_FEW: CommandError =
        CommandError::other("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
    const TOO_MANY: CommandError =
        CommandError::other("ERR GEOSEARCH BYPOLYGON must have at most 1000 vertices");
    let count = argument::int(count).ok().and_then(|count| i32::try_from(count).ok());
    let count = usize::try_from(count.ok_or(NO_NUMBER)?).unwrap_or(0);
    if count < VERTICES_MIN || words.len() / 2 < count {
        return Err(TOO_FEW);
    }
    if count > VERTICES_MAX {
        return Err(TOO_MANY);
    }
    let (vertices, rest) = words.split_at(2 * count);
    let (pairs, _) = vertices.as_chunks::<2>();
    let vertices: Vec<Position> = pairs
        .iter()
        .map(|[longitude, latitude]| super::position(longitude, latitude))
        .collect::<Result<_, CommandError>>()?;
    Ok((Polygon::new(vertices), rest))
}

impl<'a> Options<'a> {
    pub(super) fn parse(
        args: &[&'a [u8]],
        family: Family,
        is_there: bool,
        locate: impl Fn(&[u8]) -> Result<Option<Position>, CommandError>,
    ) -> Result<Self, CommandError> {
        let locate = |member: &[u8]| {
            Ok::<_, CommandError>(locate(member)?.map_or(From::Nowhere, From::Position))
        };
        let mut shape = None;
        let (mut from, mut words) = (From::Nothing, &args[2..]);
        let mut store = None;
        match family {
            Family::Search => {}
            Family::SearchStore => (store, words) = (Some((args[1], false)), &args[3..]),
            Family::Radius { by_member: false, .. } => {
                from = From::Position(super::position(args[2], args[3])?);
                shape = Some(circle(args[4], args[5])?);
                words = &args[6..];
            }
            Family::Radius { by_member: true, .. } => {
                from = locate(args[2])?;
                // What is not there is looked for no further.
                if is_there {
                    shape = Some(circle(args[3], args[4])?);
                }
                words = &args[5..];
            }
        }
        let is_search = matches!(family, Family::Search | Family::SearchStore);
        let may_store = matches!(family, Family::Radius { stores: true, .. });
        let (mut by_circle, mut by_box, mut by_polygon) = (false, false, false);
        let (mut by_member, mut by_position) = (false, false);
        let (mut with_distance, mut with_hash, mut with_position) = (false, false, false);
        let (mut is_descending, mut count, mut any) = (None, None, false);
        while let [word, rest @ ..] = words {
            words = rest;
            match (*word, rest) {
                (word, _) if is(word, "WITHDIST") => with_distance = true,
                (word, _) if is(word, "WITHHASH") => with_hash = true,
                (word, _) if is(word, "WITHCOORD") => with_position = true,
                (word, _) if is(word, "ANY") => any = true,
                (word, _) if is(word, "ASC") => is_descending = Some(false),
                (word, _) if is(word, "DESC") => is_descending = Some(true),
                (word, [number, rest @ ..]) if is(word, "COUNT") => {
                    let number = usize::try_from(argument::int(number)?).unwrap_or(0);
                    if number == 0 {
                        return Err(CommandError::other("ERR COUNT must be > 0"));
                    }
                    (count, words) = (Some(number), rest);
                }
                (word, [key, rest @ ..]) if may_store && is(word, "STORE") => {
                    (store, words) = (Some((*key, false)), rest);
                }
                (word, [key, rest @ ..]) if may_store && is(word, "STOREDIST") => {
                    (store, words) = (Some((*key, true)), rest);
                }
                (word, [member, rest @ ..])
                    if is_search && !by_position && !by_polygon && is(word, "FROMMEMBER") =>
                {
                    (from, words, by_member) = (locate(member)?, rest, true);
                }
                (word, [longitude, latitude, rest @ ..])
                    if is_search && !by_member && !by_polygon && is(word, "FROMLONLAT") =>
                {
                    from = From::Position(super::position(longitude, latitude)?);
                    (words, by_position) = (rest, true);
                }
                (word, [radius, unit, rest @ ..])
                    if is_search && !by_box && !by_polygon && is(word, "BYRADIUS") =>
                {
                    shape = Some(circle(radius, unit)?);
                    (words, by_circle) = (rest, true);
                }
                (word, [width, height, unit, rest @ ..])
                    if is_search && !by_circle && !by_polygon && is(word, "BYBOX") =>
                {
                    shape = Some(rectangle(width, height, unit)?);
                    (words, by_box) = (rest, true);
                }
                (word, [vertices, rest @ ..])
                    if is_search
                        && !(by_circle || by_box || by_member || by_position)
                        && !rest.is_empty()
                        && is(word, "BYPOLYGON") =>
                {
                    let (area, rest) = polygon(vertices, rest)?;
                    from = From::Position(area.middle());
                    shape = Some((Shape::Polygon(area), Unit::METER));
                    (words, by_polygon) = (rest, true);
                }
                (word, _) if family == Family::SearchStore && is(word, "STOREDIST") => {
                    store = Some((args[1], true));
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        if store.is_some() && (with_distance || with_hash || with_position) {
            return Err(CommandError::other(if is_search {
                "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            } else {
                "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and \
                 WITHCOORD options"
            }));
        }
        let command = String::from_utf8_lossy(args[0]);
        let missing = |what| {
            let text = format!("ERR exactly one of {what} can be specified for {command}");
            CommandError::Other(text.into())
        };
        if matches!(from, From::Nothing) {
            return Err(missing("FROMMEMBER or FROMLONLAT"));
        }
        if is_search && shape.is_none() {
            return Err(missing("BYRADIUS and BYBOX"));
        }
        if any && count.is_none() {
            return Err(CommandError::other("ERR the ANY argument requires COUNT argument"));
        }
        if count.is_some() && !any && is_descending.is_none() {
            is_descending = Some(false);
        }
        let (shape, unit) = shape.unwrap_or((Shape::Circle { radius: 0.0 }, Unit::METER));
        Ok(Self {
            from,
            shape,
            unit,
            with_distance,
            with_hash,
            with_position,
            is_descending,
            count,
            any,
            store,
        })
    }
}

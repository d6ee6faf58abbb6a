//! Functions of `table`, and `unpack`, whose work in Lua 5.1 is bounded by their arguments' values.

use crate::entry::{Entry, Raise, Results};
use crate::frame::{Frame, Kind};
use crate::sandbox::READ_ONLY;

pub(crate) const FUNCTIONS: [(&str, Entry); 2] =
    [("insert", Entry::of(insert)), ("remove", Entry::of(remove))];

/// The length of argument 1, a table.
fn length(frame: &mut Frame<'_>) -> Result<i32, Raise> {
    frame.check_table(1)?;
    i32::try_from(frame.length(1)).map_err(|_| Raise::memory())
}

/// Moves the elements `from..to` of the table by one place.
fn shift(frame: &mut Frame<'_>, from: i32, to: i32) -> Result<(), Raise> {
    frame.pulse()?;
    frame.raw_element(1, from);
    frame.set_element(1, to);
    Ok(())
}

fn insert(frame: &mut Frame<'_>) -> Results {
    let end = length(frame)?.saturating_add(1);
    if frame.push_behind_proxy(1) {
        return Err(Raise::Plain(READ_ONLY));
    }
    let at = match frame.arguments() {
        2 => end,
        3 => {
            let at = frame.check_int(2)?;
            for to in (at.saturating_add(1)..=end).rev() {
                shift(frame, to - 1, to)?;
            }
            at
        }
        _ => return Err(Raise::text("wrong number of arguments to 'insert'")),
    };
    frame.push_copy(frame.arguments());
    frame.set_element(1, at);
    Ok(0)
}

fn remove(frame: &mut Frame<'_>) -> Results {
    // A proxy has no elements, so nothing of it is removed.
    let end = length(frame)?;
    let at = match frame.kind(2) {
        Kind::None | Kind::Nil => end,
        _ => frame.check_int(2)?,
    };
    if !(1..=end).contains(&at) {
        return Ok(0);
    }
    frame.raw_element(1, at);
    for to in at..end {
        shift(frame, to + 1, to)?;
    }
    frame.push_nil();
    frame.set_element(1, end);
    Ok(1)
}

/// `unpack(table, from, to)`.
pub(crate) fn unpack(frame: &mut Frame<'_>) -> Results {
    frame.check_table(1)?;
    let from = i64::from(match frame.kind(2) {
        Kind::None | Kind::Nil => 1,
        _ => frame.check_int(2)?,
    });
    let to = match frame.kind(3) {
        Kind::None | Kind::Nil => i64::try_from(frame.length(1)).unwrap_or(i64::MAX),
        _ => i64::from(frame.check_int(3)?),
    };
    if from > to {
        return Ok(0);
    }
    let count = i32::try_from(to - from + 1).ok().filter(|count| frame.reserve(*count));
    let Some(count) = count else {
        return Err(Raise::text("too many results to unpack"));
    };
    for number in from..=to {
        frame.raw_element(1, i32::try_from(number).expect("both ends are"));
    }
    Ok(count)
}

//! Functions of `table`, and `unpack`, whose work in Lua 5.1 is bounded by their arguments' values.

use crate::entry::{Entry, Raise, Results};
use crate::frame::{ALL_RESULTS, Frame, Kind};
use crate::sandbox::READ_ONLY;

pub(crate) const FUNCTIONS: [(&str, Entry); 4] = [
    ("insert", Entry::of(insert)),
    ("remove", Entry::of(remove)),
    ("concat", Entry::of(concat)),
    ("maxn", Entry::of(maxn)),
];

/// Functions that have Lua's own as their upvalues.
pub(crate) const OVER_LUAS_OWN: [(&str, Entry); 3] = [
    ("sort", Entry::of(sort)),
    ("foreach", Entry::of(for_each)),
    ("foreachi", Entry::of(for_each)),
];

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

/// `table.concat(table, separator, from, to)`.
fn concat(frame: &mut Frame<'_>) -> Results {
    let separator: &[u8] = match frame.argument_kind(2) {
        Kind::None | Kind::Nil => b"",
        _ => frame.check_text(2)?,
    };
    let end = length(frame)?;
    let number_or = |frame: &Frame<'_>, number, default| match frame.argument_kind(number) {
        Kind::None | Kind::Nil => Ok(default),
        _ => frame.check_int(number),
    };
    let (from, to) = (number_or(frame, 3, 1)?, number_or(frame, 4, end)?);
    let mut out = Vec::new();
    for number in from..=to {
        frame.pulse()?;
        frame.raw_element(1, number);
        if !matches!(frame.kind(-1), Kind::String | Kind::Number) {
            let kind = frame.kind_name(-1);
            let text = format!("invalid value ({kind}) at index {number} in table for 'concat'");
            return Err(Raise::text(text));
        }
        let piece = frame.pushed_text();
        frame.check_room(out.len() + piece.len() + separator.len())?;
        out.extend_from_slice(piece);
        if number < to {
            out.extend_from_slice(separator);
        }
        frame.pop(1);
    }
    frame.check_room(out.len())?;
    frame.push_bytes(&out);
    Ok(1)
}

/// `table.maxn(table)`: the largest number that is a key.
fn maxn(frame: &mut Frame<'_>) -> Results {
    frame.check_table(1)?;
    let mut max = 0.0_f64;
    frame.push_nil();
    while frame.next(1) {
        frame.pulse()?;
        frame.pop(1);
        if frame.kind(-1) == Kind::Number {
            max = max.max(frame.number(-1).unwrap_or_default());
        }
    }
    frame.push_number(max);
    Ok(1)
}

/// `table.foreach(table, function)`, or `table.foreachi`, with Lua's own as its upvalue.
fn for_each(frame: &mut Frame<'_>) -> Results {
    frame.check_table(1)?;
    if frame.argument_kind(2) != Kind::Function {
        let kind = match frame.argument_kind(2) {
            Kind::None => "no value",
            _ => frame.kind_name(2),
        };
        return Err(Raise::argument(2, format!("function expected, got {kind}")));
    }
    let top = frame.top();
    frame.push_upvalue(1);
    frame.push_copy(1);
    push_asking(frame, 2);
    frame.call(2, ALL_RESULTS)?;
    Ok(frame.top() - top)
}

/// Pushes a function that is called in a loop of Lua's own. Instructions of a script are counted; one of C has none, so
/// it is put into one that counts its calls.
fn push_asking(frame: &mut Frame<'_>, number: i32) {
    frame.push_copy(number);
    if frame.is_c_function(-1) {
        frame.push_function(Entry::of(asking), 1);
    }
}

/// Calls its upvalue, and asks from time to time whether the script goes on.
fn asking(frame: &mut Frame<'_>) -> Results {
    frame.pulse()?;
    let arguments = frame.arguments();
    frame.push_upvalue(1);
    for number in 1..=arguments {
        frame.push_copy(number);
    }
    frame.call(arguments, 1)?;
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

/// `table.sort(table, is_less)`, with Lua's own as its upvalue. Its quicksort takes quadratic time
/// for some orders, and nothing interrupts it unless it calls functions of the script; so texts and
/// numbers are sorted here.
pub(crate) fn sort(frame: &mut Frame<'_>) -> Results {
    let len = length(frame)?;
    match frame.argument_kind(2) {
        Kind::None | Kind::Nil => {
            if sort_numbers(frame, len)? || sort_texts(frame, len)? {
                return Ok(0);
            }
        }
        Kind::Function => {}
        _ => {
            let kind = frame.kind_name(2);
            return Err(Raise::argument(2, format!("function expected, got {kind}")));
        }
    }
    frame.push_upvalue(1);
    frame.push_copy(1);
    let count = frame.arguments().min(2);
    if count == 2 {
        push_asking(frame, 2);
    }
    match frame.call(count, 0) {
        Err(Raise::Value) if frame.bytes(-1) == Some(INVALID_ORDER.as_bytes()) => {
            // As if it had been called directly.
            Err(Raise::text(INVALID_ORDER))
        }
        outcome => outcome.map(|()| 0),
    }
}

const INVALID_ORDER: &str = "invalid order function for sorting";

/// Sorts the table if its elements are numbers.
fn sort_numbers(frame: &mut Frame<'_>, len: i32) -> Result<bool, Raise> {
    let mut numbers = Vec::new();
    for number in 1..=len {
        frame.pulse()?;
        frame.raw_element(1, number);
        let value = if frame.kind(-1) == Kind::Number { frame.number(-1) } else { None };
        frame.pop(1);
        let Some(value) = value else { return Ok(false) };
        numbers.push(value);
    }
    numbers.sort_unstable_by(f64::total_cmp);
    for (value, number) in numbers.into_iter().zip(1..) {
        frame.push_number(value);
        frame.set_element(1, number);
    }
    Ok(true)
}

/// Sorts the table if its elements are texts.
fn sort_texts(frame: &mut Frame<'_>, len: i32) -> Result<bool, Raise> {
    let mut texts: Vec<Box<[u8]>> = Vec::new();
    let mut bytes = 0;
    for number in 1..=len {
        frame.pulse()?;
        frame.raw_element(1, number);
        let text: Option<Box<[u8]>> = frame.bytes(-1).map(Into::into);
        frame.pop(1);
        let Some(text) = text else { return Ok(false) };
        bytes += text.len() + size_of::<Box<[u8]>>();
        frame.check_room(bytes)?;
        texts.push(text);
    }
    texts.sort_unstable();
    for (text, number) in texts.into_iter().zip(1..) {
        frame.push_bytes(&text);
        frame.set_element(1, number);
    }
    Ok(true)
}

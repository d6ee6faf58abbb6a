//! `redis.register_function`: what a library calls while its source runs.

use crate::entry::{Raise, Results};
use crate::frame::{Frame, Kind, Reference};
use crate::shebang::{ScriptFlags, is_name};

/// A function that a library has registered.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) name: Vec<u8>,
    pub(crate) description: Option<Vec<u8>>,
    pub(crate) flags: ScriptFlags,
    pub(crate) callback: Reference,
}

/// `redis.register_function(name, callback)`, or with a table of named arguments.
pub(crate) fn register_function(frame: &mut Frame<'_>) -> Results {
    if frame.run().is_none_or(|run| run.registered.is_none()) {
        return Err(Raise::reply(
            "redis.register_function can only be called on FUNCTION LOAD command",
        ));
    }
    let registered = match frame.arguments() {
        1 => read_named(frame)?,
        2 => read_positional(frame)?,
        _ => {
            return Err(Raise::reply("wrong number of arguments to redis.register_function"));
        }
    };
    let taken = frame.run().and_then(|run| run.registered.as_mut());
    let Some(functions) = taken else { return Ok(0) };
    let error = if !is_name(&registered.name) {
        "Library names can only contain letters, numbers, or underscores(_) and must be at least \
         one character long"
    } else if functions.iter().any(|it| it.name.eq_ignore_ascii_case(&registered.name)) {
        "Function already exists in the library"
    } else {
        functions.push(registered);
        return Ok(0);
    };
    frame.release(registered.callback);
    Err(Raise::reply(error))
}

fn read_positional(frame: &mut Frame<'_>) -> Result<Registered, Raise> {
    let Some(name) = frame.argument_text(1) else {
        return Err(Raise::reply("first argument to redis.register_function must be a string"));
    };
    if frame.kind(2) != Kind::Function {
        return Err(Raise::reply("second argument to redis.register_function must be a function"));
    }
    frame.push_copy(2);
    let callback = frame.keep();
    let flags = ScriptFlags::default();
    Ok(Registered { name: name.to_vec(), description: None, flags, callback })
}

fn read_named(frame: &mut Frame<'_>) -> Result<Registered, Raise> {
    if frame.kind(1) != Kind::Table {
        return Err(Raise::reply(
            "calling redis.register_function with a single argument is only applicable to Lua \
             table (representing named arguments).",
        ));
    }
    let (mut name, mut description) = (None, None);
    let mut flags = ScriptFlags::default();
    let mut has_callback = false;
    frame.push_nil();
    while frame.next(1) {
        let key = match frame.kind(-2) {
            Kind::String => frame.bytes(-2).unwrap_or_default().to_ascii_lowercase(),
            // A number could be text, which no argument is called.
            Kind::Number => Vec::new(),
            _ => {
                return Err(Raise::reply(
                    "named argument key given to redis.register_function is not a string",
                ));
            }
        };
        match &key[..] {
            b"function_name" => name = Some(read_text(frame, "function_name")?),
            b"description" => description = Some(read_text(frame, "description")?),
            b"callback" if frame.kind(-1) == Kind::Function => has_callback = true,
            b"callback" => {
                return Err(Raise::reply(
                    "callback argument given to redis.register_function must be a function",
                ));
            }
            b"flags" if frame.kind(-1) == Kind::Table => read_flags(frame, &mut flags)?,
            b"flags" => {
                return Err(Raise::reply(
                    "flags argument to redis.register_function must be a table representing \
                     function flags",
                ));
            }
            _ => {
                return Err(Raise::reply("unknown argument given to redis.register_function"));
            }
        }
        frame.pop(1);
    }
    let Some(name) = name else {
        return Err(Raise::reply("redis.register_function must get a function name argument"));
    };
    if !has_callback {
        return Err(Raise::reply("redis.register_function must get a callback argument"));
    }
    push_callback(frame);
    let callback = frame.keep();
    Ok(Registered { name, description, flags, callback })
}

/// Pushes the field `callback`, however it is written.
fn push_callback(frame: &mut Frame<'_>) {
    frame.push_nil();
    while frame.next(1) {
        let is_callback = frame.bytes(-2).is_some_and(|key| key.eq_ignore_ascii_case(b"callback"));
        if is_callback {
            frame.remove_second();
            return;
        }
        frame.pop(1);
    }
    frame.push_nil();
}

/// The topmost value as text.
fn read_text(frame: &mut Frame<'_>, what: &str) -> Result<Vec<u8>, Raise> {
    if !matches!(frame.kind(-1), Kind::String | Kind::Number) {
        return Err(Raise::reply(format!(
            "{what} argument given to redis.register_function must be a string"
        )));
    }
    Ok(frame.pushed_text().to_vec())
}

/// Adds the flags in the topmost value, a table.
fn read_flags(frame: &mut Frame<'_>, flags: &mut ScriptFlags) -> Result<(), Raise> {
    for number in 1.. {
        frame.raw_element(-1, number);
        if frame.kind(-1) == Kind::Nil {
            break;
        }
        let name = frame.bytes(-1).map(<[u8]>::to_ascii_lowercase);
        let Some(flag) = name.and_then(|name| ScriptFlags::of_name(&name)) else {
            return Err(Raise::reply("unknown flag given"));
        };
        flags.add(flag);
        frame.pop(1);
    }
    frame.pop(1);
    Ok(())
}

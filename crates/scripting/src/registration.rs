//! `redis.register_function`: what a library calls while its source runs.

use std::borrow::Cow;

use hashbrown::HashSet;

use crate::entry::{Raise, Results};
use crate::frame::{Frame, Kind, Reference};
use crate::shebang::{ScriptFlags, is_name};

/// How many functions a library may register.
const FUNCTIONS_MAX: usize = 10_000;

/// How many bytes the names and descriptions of a library's functions may have together. They are kept outside of
/// Lua, whose limit of memory does not count them.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// A function that a library has registered.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) name: Vec<u8>,
    pub(crate) description: Option<Vec<u8>>,
    pub(crate) flags: ScriptFlags,
    pub(crate) callback: Reference,
}

/// What a library has registered so far.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    functions: Vec<Registered>,
    /// Their names in lower case.
    names: HashSet<Vec<u8>>,
    text_bytes: usize,
}

impl Registry {
    /// The functions, in the order in which they were registered.
    pub(crate) fn into_functions(self) -> Vec<Registered> {
        self.functions
    }

    /// Adds a function. Returns why it cannot be, if so, and its callback, which is then to be released.
    fn add(&mut self, function: Registered) -> Result<(), (Cow<'static, str>, Reference)> {
        let description_bytes = function.description.as_ref().map_or(0, Vec::len);
        let text_bytes = self.text_bytes + function.name.len() + description_bytes;
        let error = if !is_name(&function.name) {
            "Library names can only contain letters, numbers, or underscores(_) and must be at \
             least one character long"
                .into()
        } else if self.functions.len() >= FUNCTIONS_MAX {
            format!("a library may register {FUNCTIONS_MAX} functions; make several libraries")
                .into()
        } else if text_bytes > TEXT_BYTES_MAX {
            long_text().into()
        } else if !self.names.insert(function.name.to_ascii_lowercase()) {
            "Function already exists in the library".into()
        } else {
            self.text_bytes = text_bytes;
            self.functions.push(function);
            return Ok(());
        };
        Err((error, function.callback))
    }
}

fn long_text() -> String {
    format!(
        "names and descriptions of the functions of a library may have {TEXT_BYTES_MAX} bytes together; shorten them"
    )
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
    let Some(registry) = taken else { return Ok(0) };
    let Err((error, callback)) = registry.add(registered) else { return Ok(0) };
    frame.release(callback);
    Err(Raise::reply(error))
}

/// A copy of a text that is not too long for all that is kept.
fn copy(text: &[u8]) -> Result<Vec<u8>, Raise> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Raise::reply(long_text()));
    }
    Ok(text.to_vec())
}

fn read_positional(frame: &mut Frame<'_>) -> Result<Registered, Raise> {
    let Some(name) = frame.argument_text(1) else {
        return Err(Raise::reply("first argument to redis.register_function must be a string"));
    };
    if frame.kind(2) != Kind::Function {
        return Err(Raise::reply("second argument to redis.register_function must be a function"));
    }
    let name = copy(name)?;
    frame.push_copy(2);
    let callback = frame.keep();
    let flags = ScriptFlags::default();
    Ok(Registered { name, description: None, flags, callback })
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
    copy(frame.pushed_text())
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

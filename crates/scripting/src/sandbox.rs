//! What scripts see as global variables, and that they cannot change it.
//!
//! ```text
//!   a script's globals ─► proxy, empty ── __index ──► real globals ── __index ──► "nonexistent global variable"
//!                          └ __newindex ─► "readonly"   string, table, redis, cjson, …: proxies as well
//! ```
//!
//! Redis' Lua has a flag for tables that are read only; Lua 5.1 as its authors released it has none.
//! A proxy has no fields of its own, so every assignment reaches `__newindex`. Its metatable
//! is hidden: `getmetatable` returns the *guard*, which is a proxy itself and the mark of all of
//! them. `rawset`, `rawget`, `next`, `pairs` and `setmetatable` know the mark.
//!
//! Not there, as in Redis: `print`, `dofile`, `loadfile`, `require`, `module`, `io`, `debug`, `getfenv`, `setfenv`,
//! `newproxy`, and all of `os` but `clock`.

use crate::entry::{Entry, Raise, Results};
use crate::frame::{Frame, Kind, Reference};
use crate::machine::{GUARD, Options};
use crate::{bits, json, msgpack, packing, redis_api, table, text};

/// Which functions `redis` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    /// Those of EVAL.
    Scripts,
    /// Those of functions, and other ones while a library is loaded.
    Libraries,
}

/// The metatable of the proxy of the globals.
const GLOBALS_METATABLE: Reference = Reference(2);

/// The real globals.
const GLOBALS: Reference = Reference(3);

/// What a library sees of them while it is loaded.
const LOAD_GLOBALS: Reference = Reference(4);

/// Functions of Lua's libraries that scripts must not have.
const REMOVED: [&str; 8] =
    ["print", "dofile", "loadfile", "require", "module", "getfenv", "setfenv", "newproxy"];

/// Functions that replace Lua's, or are added to them.
const BASE: [(&str, Entry); 10] = [
    ("pcall", Entry::PCALL),
    ("xpcall", Entry::XPCALL),
    ("next", Entry::NEXT),
    ("rawget", Entry::of(rawget)),
    ("rawset", Entry::of(rawset)),
    ("setmetatable", Entry::of(setmetatable)),
    ("unpack", Entry::of(table::unpack)),
    ("loadstring", Entry::of(loadstring)),
    ("load", Entry::of(load)),
    ("collectgarbage", Entry::of(collectgarbage)),
];

/// What of `coroutine` is not Lua's own.
const COROUTINES: [(&str, Entry); 3] =
    [("create", Entry::CREATE), ("resume", Entry::RESUME), ("wrap", Entry::WRAP)];

/// Raised where memory may be full: Lua looks it up where an error would end the process.
const DEEP: &[u8] = b"C stack overflow";

/// An error's text that is longer is copied only where there is room.
const LONG_BYTES: usize = 1 << 10;

/// The largest source that is compiled: far below the 2^31 bytes at which Lua's counters overflow.
const SOURCE_BYTES_MAX: usize = 256 << 20;

/// Fills a new state, and leaves the error handler and the real globals on the stack.
pub(crate) fn furnish(frame: &mut Frame<'_>, options: Options, api: Api) {
    frame.push_function(Entry::of(place_error), 0);
    frame.push_globals();
    let globals = frame.top();

    push_guard(frame);
    let guard = frame.keep();
    assert_eq!(guard, Reference(GUARD), "the first place of the registry");

    for name in REMOVED {
        frame.push_nil();
        frame.set_field(globals, name);
    }
    frame.raw_field(globals, "next");
    frame.push_function(Entry::of(pairs), 1);
    frame.set_field(globals, "pairs");
    set_functions(frame, globals, &BASE);
    for (library, functions) in [
        ("table", &table::FUNCTIONS[..]),
        ("string", &text::FUNCTIONS),
        ("math", &redis_api::MATH),
        ("coroutine", &COROUTINES),
    ] {
        frame.raw_field(globals, library);
        let at = frame.top();
        set_functions(frame, at, functions);
        frame.pop(1);
    }
    frame.raw_field(globals, "table");
    for (name, entry) in table::OVER_LUAS_OWN {
        frame.raw_field(-1, name);
        frame.push_function(entry, 1);
        frame.set_field(-2, name);
    }
    frame.pop(1);
    for (library, functions) in [
        ("bit", &bits::FUNCTIONS[..]),
        ("cmsgpack", &msgpack::FUNCTIONS),
        ("struct", &packing::FUNCTIONS),
        ("os", &redis_api::CLOCK),
    ] {
        frame.push_table(0, functions.len());
        let at = frame.top();
        set_functions(frame, at, functions);
        if library == "cmsgpack" {
            msgpack::add_names(frame);
        }
        frame.set_field(globals, library);
    }
    json::push_library(frame);
    frame.set_field(globals, "cjson");
    redis_api::push_library(frame, options, api);
    frame.set_field(globals, "redis");

    protect_fields(frame, globals);
    protect_texts(frame, globals);

    // The globals: found through a proxy, and an error when they are not there.
    add_missing_error(frame);
    frame.push_copy(globals);
    push_proxy(frame);
    frame.push_copy(-1);
    frame.set_field(globals, "_G");
    assert!(frame.push_metatable(-1), "a proxy has one");
    assert_eq!(frame.keep(), GLOBALS_METATABLE);
    frame.replace_globals();
    frame.push_copy(globals);
    assert_eq!(frame.keep(), GLOBALS);

    redis_api::push_load_library(frame, options);
    add_missing_error(frame);
    push_proxy(frame);
    frame.push_table(0, 1);
    frame.push_copy(-2);
    frame.set_field(-2, "redis");
    add_missing_error(frame);
    assert_eq!(frame.keep(), LOAD_GLOBALS);
    frame.pop(1);
    frame.push_bytes(DEEP);
    frame.keep();
}

/// Makes the globals those that a library may use while it is loaded, or all.
pub(crate) fn show_globals(frame: &mut Frame<'_>, is_loading: bool) {
    frame.push_kept(GLOBALS_METATABLE);
    frame.push_kept(if is_loading { LOAD_GLOBALS } else { GLOBALS });
    frame.set_field(-2, "__index");
    frame.pop(1);
}

/// Makes functions fields of the table at `at`.
pub(crate) fn set_functions(frame: &mut Frame<'_>, at: i32, functions: &[(&str, Entry)]) {
    for (name, entry) in functions {
        frame.push_function(*entry, 0);
        frame.set_field(at, name);
    }
}

/// Pushes the mark of proxies, which is one.
fn push_guard(frame: &mut Frame<'_>) {
    frame.push_table(0, 0);
    frame.push_table(0, 3);
    frame.push_table(0, 0);
    frame.set_field(-2, "__index");
    frame.push_function(Entry::of(refuse), 0);
    frame.set_field(-2, "__newindex");
    frame.push_copy(-2);
    frame.set_field(-2, "__metatable");
    frame.set_metatable(-2);
}

/// Replaces the table on top by a proxy.
pub(crate) fn push_proxy(frame: &mut Frame<'_>) {
    frame.push_table(0, 0);
    frame.push_table(0, 3);
    frame.push_copy(-3);
    frame.set_field(-2, "__index");
    frame.push_function(Entry::of(refuse), 0);
    frame.set_field(-2, "__newindex");
    frame.push_kept(Reference(GUARD));
    frame.set_field(-2, "__metatable");
    frame.set_metatable(-2);
    frame.remove_second();
}

/// Replaces the tables in the table at `at` by proxies.
fn protect_fields(frame: &mut Frame<'_>, at: i32) {
    let mut names = Vec::new();
    frame.push_nil();
    while frame.next(at) {
        if frame.kind(-1) == Kind::Table && !frame.is_same(-1, at) {
            let name = frame.bytes(-2).expect("names are texts");
            names.push(String::from_utf8(name.to_vec()).expect("ours, in ASCII"));
        }
        frame.pop(1);
    }
    for name in names {
        frame.raw_field(at, &name);
        push_proxy(frame);
        frame.set_field(at, &name);
    }
}

/// Hides the metatable of all texts, through which one script could change what others call.
fn protect_texts(frame: &mut Frame<'_>, globals: i32) {
    frame.push_bytes(b"");
    assert!(frame.push_metatable(-1), "texts have one");
    frame.push_table(0, 1);
    frame.raw_field(globals, "string");
    frame.set_field(-2, "__index");
    push_proxy(frame);
    frame.set_field(-2, "__metatable");
    frame.pop(2);
}

/// Makes it an error to read a field that the table on top does not have.
fn add_missing_error(frame: &mut Frame<'_>) {
    frame.push_table(0, 1);
    frame.push_function(Entry::of(miss), 0);
    frame.set_field(-2, "__index");
    frame.set_metatable(-2);
}

/// What a change of a proxy is told.
pub(crate) const READ_ONLY: &str = "Attempt to modify a readonly table";

fn refuse(_frame: &mut Frame<'_>) -> Results {
    Err(Raise::text(READ_ONLY))
}

fn miss(frame: &mut Frame<'_>) -> Results {
    let name = match frame.arguments() {
        2 => frame.argument_text(2),
        _ => None,
    };
    let Some(name) = name else {
        return Err(Raise::text(
            "Second argument to luaProtectedTableError must be a string or number",
        ));
    };
    frame.check_room(name.len().saturating_mul(3))?;
    let name = String::from_utf8_lossy(name);
    Err(Raise::text(format!("Script attempted to access nonexistent global variable '{name}'")))
}

/// Makes an error a table, with the place in which it was raised: `source` and `line`.
fn place_error(frame: &mut Frame<'_>) -> Results {
    let place = match frame.place(1) {
        Some(place) if place.is_c => frame.place(2),
        place => place,
    };
    if frame.kind(1) == Kind::Table && !frame.push_behind_proxy(1) {
        frame.push_copy(1);
    } else {
        let text = match (frame.kind(1), frame.argument_text(1)) {
            (_, Some(text)) => text,
            (Kind::Boolean, _) if frame.is_true(1) => b"true",
            (Kind::Boolean, _) => b"false",
            _ => frame.kind_name(1).as_bytes(),
        };
        if text.len() > LONG_BYTES && frame.check_room(text.len().saturating_mul(2)).is_err() {
            // There is no room for more of it: it stays as it is.
            frame.push_copy(1);
            return Ok(1);
        }
        frame.push_table(0, 3);
        frame.push_bytes(&[b"ERR ", text].concat());
        frame.set_field(-2, "err");
    }
    if let Some(place) = place {
        frame.push_bytes(&place.source);
        frame.set_field(-2, "source");
        frame.push_integer(i64::from(place.line));
        frame.set_field(-2, "line");
    }
    Ok(1)
}

fn pairs(frame: &mut Frame<'_>) -> Results {
    frame.check_table(1)?;
    if frame.push_behind_proxy(1) {
        frame.pop(1);
        frame.push_function(Entry::NEXT, 0);
    } else {
        frame.push_upvalue(1);
    }
    frame.push_copy(1);
    frame.push_nil();
    Ok(3)
}

fn check_any(frame: &Frame<'_>, number: i32) -> Result<(), Raise> {
    match frame.kind(number) {
        Kind::None => Err(Raise::argument(number, "value expected")),
        _ => Ok(()),
    }
}

fn rawget(frame: &mut Frame<'_>) -> Results {
    frame.check_table(1)?;
    check_any(frame, 2)?;
    if !frame.push_behind_proxy(1) {
        frame.push_copy(1);
    }
    frame.push_copy(2);
    frame.raw_get(-2);
    Ok(1)
}

fn rawset(frame: &mut Frame<'_>) -> Results {
    frame.check_table(1)?;
    check_any(frame, 2)?;
    check_any(frame, 3)?;
    if frame.push_behind_proxy(1) {
        return Err(Raise::Plain(READ_ONLY));
    }
    frame.push_copy(2);
    frame.push_copy(3);
    frame.raw_set(1)?;
    frame.push_copy(1);
    Ok(1)
}

fn setmetatable(frame: &mut Frame<'_>) -> Results {
    frame.check_table(1)?;
    if !matches!(frame.kind(2), Kind::Nil | Kind::Table) {
        return Err(Raise::argument(2, "nil or table expected"));
    }
    if frame.push_behind_proxy(1) {
        return Err(Raise::Plain(READ_ONLY));
    }
    if frame.push_metatable(1) {
        frame.raw_field(-1, "__metatable");
        if frame.kind(-1) != Kind::Nil {
            return Err(Raise::text("cannot change a protected metatable"));
        }
    }
    frame.push_copy(2);
    frame.set_metatable(1);
    frame.push_copy(1);
    Ok(1)
}

fn loadstring(frame: &mut Frame<'_>) -> Results {
    let source = frame.check_text(1)?;
    let name = match frame.kind(2) {
        Kind::None | Kind::Nil => source,
        _ => frame.check_text(2)?,
    };
    compile(frame, source, name)
}

/// `load(function, name)`: the source is what the function returns, piece by piece.
fn load(frame: &mut Frame<'_>) -> Results {
    if frame.kind(1) != Kind::Function {
        return Err(Raise::argument(1, format!("function expected, got {}", frame.kind_name(1))));
    }
    let name = match frame.kind(2) {
        Kind::None | Kind::Nil => b"=(load)",
        _ => frame.check_text(2)?,
    };
    let mut source = Vec::new();
    loop {
        // A function of C may bring each piece.
        frame.pulse()?;
        frame.push_copy(1);
        let problem = match frame.call(0, 1) {
            Err(Raise::Stop) => return Err(Raise::Stop),
            Err(_) => Some(None),
            Ok(()) => match frame.kind(-1) {
                Kind::Nil => break,
                Kind::String | Kind::Number => None,
                _ => Some(Some(b"reader function must return a string")),
            },
        };
        if let Some(text) = problem {
            if let Some(text) = text {
                frame.push_bytes(text);
            }
            return Ok(nil_and_text(frame));
        }
        let piece = frame.pushed_text();
        if piece.is_empty() {
            break;
        }
        let len = source.len() + piece.len();
        if len > SOURCE_BYTES_MAX {
            return Err(Raise::memory());
        }
        frame.check_room(len)?;
        source.extend_from_slice(piece);
        frame.pop(1);
    }
    frame.pop(1);
    compile(frame, &source, name)
}

fn compile(frame: &mut Frame<'_>, source: &[u8], name: &[u8]) -> Results {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(Raise::memory());
    }
    // Lua's names end at a zero.
    let name: Vec<u8> = name.iter().copied().take_while(|byte| *byte != 0).collect();
    let name = std::ffi::CString::new(name).expect("the zeros were removed");
    if frame.compile(source, &name) {
        return Ok(1);
    }
    Ok(nil_and_text(frame))
}

/// What `load` returns when it fails, for which a reason is on top.
fn nil_and_text(frame: &mut Frame<'_>) -> i32 {
    frame.push_nil();
    frame.push_copy(-2);
    2
}

/// `collectgarbage(option, argument)`. A script can start a collection and ask for the size, and
/// cannot change how other scripts' garbage is collected.
fn collectgarbage(frame: &mut Frame<'_>) -> Results {
    let option: &[u8] = match frame.kind(1) {
        Kind::None | Kind::Nil => b"collect",
        _ => frame.check_text(1)?,
    };
    let argument = frame.optional_integer(2, 0)?;
    match option {
        b"collect" => {
            frame.collect(None);
            frame.pulse()?;
            frame.push_integer(0);
        }
        b"step" => {
            let done = frame.collect(Some(i32::try_from(argument).unwrap_or(0)));
            frame.pulse()?;
            frame.push_boolean(done);
        }
        #[expect(clippy::cast_precision_loss, reason = "Lua has no other numbers")]
        b"count" => {
            let used = frame.used_bytes() as f64;
            frame.push_number(used / 1024.0);
        }
        b"stop" | b"restart" | b"setpause" | b"setstepmul" => frame.push_integer(0),
        other => {
            let other = String::from_utf8_lossy(other);
            return Err(Raise::argument(1, format!("invalid option '{other}'")));
        }
    }
    Ok(1)
}

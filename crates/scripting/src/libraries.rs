//! The libraries of FUNCTION: source that registers functions, which FCALL calls by name.
//!
//! A library is loaded as a whole or not at all. What is loaded lives in memory only: that it comes
//! back after a start is the server's matter, which keeps the source.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use resp::Writer;

use crate::entry::{Raise, Results};
use crate::error::LibraryError;
use crate::frame::{Frame, Kind, Reference};
use crate::host::{Ending, Host};
use crate::machine::{Machine, Options, Task};
use crate::sandbox::Api;
use crate::shebang::{self, ScriptFlags, is_name};

/// What errors and positions call a library's source.
const CHUNK_NAME: &std::ffi::CStr = c"@user_function";

/// What a function costs next to its texts.
const OVERHEAD_BYTES: usize = 128;

/// A function that a library has registered.
#[derive(Debug)]
pub(crate) struct Registered {
    name: Vec<u8>,
    description: Option<Vec<u8>>,
    flags: ScriptFlags,
    pub(crate) callback: Reference,
}

/// A function of a library.
#[derive(Debug)]
pub struct LibraryFunction {
    name: Box<[u8]>,
    description: Option<Box<[u8]>>,
    flags: ScriptFlags,
    callback: Reference,
}

impl LibraryFunction {
    /// What FCALL calls it.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What it is for, if it says so.
    #[must_use]
    pub fn description(&self) -> Option<&[u8]> {
        self.description.as_deref()
    }

    /// What it says of itself.
    #[must_use]
    pub fn flags(&self) -> ScriptFlags {
        self.flags
    }
}

/// A loaded library.
#[derive(Debug)]
pub struct Library {
    code: Box<[u8]>,
    functions: Vec<LibraryFunction>,
}

impl Library {
    /// Its source, first line included.
    #[must_use]
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// Its functions, in the order in which they were registered.
    #[must_use]
    pub fn functions(&self) -> &[LibraryFunction] {
        &self.functions
    }

    fn bytes(&self) -> usize {
        let texts = |function: &LibraryFunction| {
            function.name.len() + function.description.as_ref().map_or(0, |text| text.len())
        };
        let functions = self.functions.iter().map(|f| texts(f) + OVERHEAD_BYTES).sum::<usize>();
        self.code.len() + OVERHEAD_BYTES + functions
    }
}

/// A function that was found: to be called before libraries change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    callback: Reference,
    flags: ScriptFlags,
}

impl Function {
    /// What it says of itself.
    #[must_use]
    pub fn flags(&self) -> ScriptFlags {
        self.flags
    }
}

/// Lua and its libraries.
#[derive(Debug)]
pub struct Libraries {
    machine: Machine,
    libraries: BTreeMap<Box<[u8]>, Library>,
    functions: HashMap<Box<[u8]>, Function>,
    bytes: usize,
}

impl Libraries {
    /// Creates an interpreter without libraries.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            machine: Machine::new(options, Api::Libraries),
            libraries: BTreeMap::new(),
            functions: HashMap::new(),
            bytes: 0,
        }
    }

    /// Loads a library, and returns its name. One of the same name is replaced if `replaces`. On an error, all is
    /// as before.
    ///
    /// While its source runs, `host` is asked only to log and, in [`Host::interrupt`], whether it has taken too
    /// long: half a second in Redis.
    ///
    /// # Errors
    /// When the source is wrong, does not end, or has names that are taken.
    pub fn load(
        &mut self,
        code: &[u8],
        replaces: bool,
        host: &mut dyn Host,
    ) -> Result<Box<[u8]>, LibraryError> {
        let (name, source) = shebang::of_library(code)?;
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !replaces && self.libraries.contains_key(&name[..]) {
            return Err(LibraryError::Exists(lossy(&name)));
        }
        self.machine.show_globals(true);
        let registered = self.register(source, host);
        self.machine.show_globals(false);
        let registered = registered?;
        let taken = registered.iter().find(|function| {
            let is_replaced = |library: &Library| {
                library.functions.iter().any(|old| *old.name == function.name[..])
            };
            self.functions.contains_key(&function.name[..])
                && !self.libraries.get(&name[..]).is_some_and(is_replaced)
        });
        let refused = match taken {
            Some(function) => Some(LibraryError::FunctionExists(lossy(&function.name))),
            None if registered.is_empty() => Some(LibraryError::Empty),
            None => None,
        };
        if let Some(error) = refused {
            for function in registered {
                self.machine.release(function.callback);
            }
            return Err(error);
        }
        // An old one of this name goes only now.
        let _ = self.delete(&name);
        let functions: Vec<LibraryFunction> = registered
            .into_iter()
            .map(|function| LibraryFunction {
                name: function.name.into(),
                description: function.description.map(Into::into),
                flags: function.flags,
                callback: function.callback,
            })
            .collect();
        for function in &functions {
            let found = Function { callback: function.callback, flags: function.flags };
            self.functions.insert(function.name.clone(), found);
        }
        let library = Library { code: code.into(), functions };
        self.bytes += library.bytes();
        let name: Box<[u8]> = name.into();
        self.libraries.insert(name.clone(), library);
        Ok(name)
    }

    fn register(
        &mut self,
        source: &[u8],
        host: &mut dyn Host,
    ) -> Result<Vec<Registered>, LibraryError> {
        let function = self
            .machine
            .compile(source, CHUNK_NAME)
            .map_err(|error| LibraryError::NotCompiled(error.text))?;
        let registered = self.machine.register(function, host);
        self.machine.release(function);
        registered.map_err(|error| LibraryError::Failed(error.text))
    }

    /// Finds a function.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<Function> {
        self.functions.get(name).copied()
    }

    /// Calls a function, which an error calls `name`, and writes its reply.
    ///
    /// # Panics
    /// As a panic of `host` goes on.
    pub fn call(
        &mut self,
        function: Function,
        name: &[u8],
        keys: &[&[u8]],
        arguments: &[&[u8]],
        host: &mut dyn Host,
        out: &mut Writer,
    ) -> Ending {
        let function = function.callback;
        let task = Task { function, keys, arguments, name, is_script: false };
        self.machine.run(&task, host, out)
    }

    /// Drops a library.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn delete(&mut self, name: &[u8]) -> Result<(), LibraryError> {
        let library = self.libraries.remove(name).ok_or(LibraryError::NotFound)?;
        self.bytes -= library.bytes();
        for function in library.functions {
            self.functions.remove(&function.name);
            self.machine.release(function.callback);
        }
        Ok(())
    }

    /// Drops all libraries, and the state of Lua with them: FUNCTION FLUSH. Returns what is to be dropped, which
    /// may take long, on any thread.
    pub fn flush(&mut self) -> impl Send + use<> {
        let fresh = Self::new(self.machine.options());
        std::mem::replace(self, fresh)
    }

    /// The libraries with their names, in the order of the names.
    pub fn list(&self) -> impl Iterator<Item = (&[u8], &Library)> {
        self.libraries.iter().map(|(name, library)| (&**name, library))
    }

    /// The number of libraries: `number_of_libraries`.
    #[must_use]
    pub fn count(&self) -> usize {
        self.libraries.len()
    }

    /// The number of functions: `number_of_functions`.
    #[must_use]
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// The bytes of sources and tables: `used_memory_functions`.
    #[must_use]
    pub fn source_bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of Lua: `used_memory_vm_functions`.
    #[must_use]
    pub fn machine_bytes(&self) -> usize {
        self.machine.used_bytes()
    }
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
    } else if functions.iter().any(|function| function.name == registered.name) {
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

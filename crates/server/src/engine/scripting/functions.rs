//! The libraries of functions as they run: what FUNCTION changes, of clients and of files that are imported.
//!
//! ```text
//!   source ─► Functions: compiled, run once ─► its functions, for FCALL
//!                       └─► Keyspace: its record ─► the log, dumps ─► Functions::reload at a start
//! ```
//!
//! # Invariants
//! - Whether a library can be loaded depends on its source and on those that are there: what its loading may take is
//!   counted in instructions, and no clock is read. So what was loaded once is loaded by every start.
//! - A library is in memory with its record, or neither is: what is loaded together is changed together.

use std::sync::Arc;
use std::time::Duration;

use command::argument;
use command::error::{CommandError, Done};
use keyspace::Keyspace;
use rdb::Limits;
use resp::Writer;
use scripting::{
    Existing, Function, Host, Interrupt, Level, Libraries, LibraryError, Options, Permission,
};

use super::super::REDIS_VERSION;
use crate::logger::Logger;

/// The memory that Lua may have, whatever `maxmemory` is: without some no script runs, not even one that deletes.
const MEMORY_BYTES_MIN: u64 = 64 << 20;
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// Commands that lose whole databases: a script that has such a word gets a block of its own.
pub(super) const LOSING: &[&str] = &["flushall", "flushdb", "swapdb"];

/// How often a library's loading is asked whether it goes on: each 100,000 instructions, or about half a millisecond.
const ASKS_MAX: u32 = 1000;

/// What an interpreter may do, on a server with this limit of memory.
pub(super) fn lua_options(maxmemory_bytes: u64) -> Options {
    let bytes_max = match maxmemory_bytes {
        0 => MEMORY_BYTES_MAX,
        bytes => bytes.clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX),
    };
    let mut version = REDIS_VERSION.split('.').map(|part| part.parse().unwrap_or_default());
    let mut part = || version.next().unwrap_or_default();
    Options {
        memory_bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
        version: (part(), part(), part()),
        suspect_words: LOSING,
        ..Options::default()
    }
}

/// Writes a line of a script or library to the log for the operator.
pub(super) fn log(logger: &Logger, level: Level, line: &[u8]) {
    let line = String::from_utf8_lossy(line);
    match level {
        Level::Debug => logger.debug(&line),
        Level::Verbose => logger.verbose(&line),
        Level::Notice => logger.notice(&line),
        Level::Warning => logger.warning(&line),
    }
}

/// What INFO and FUNCTION STATS say of functions.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct FunctionFigures {
    pub(in crate::engine) machine_bytes: u64,
    pub(in crate::engine) source_bytes: u64,
    pub(in crate::engine) libraries: u64,
    pub(in crate::engine) functions: u64,
}

/// See the file's top.
#[derive(Default)]
pub(crate) struct Functions {
    /// None until the first use, and while a function runs.
    libraries: Option<Box<Libraries>>,
    figures: FunctionFigures,
    maxmemory_bytes: u64,
    logger: Option<Logger>,
}

impl Functions {
    /// Those of a server, whose libraries log to `logger`.
    pub(super) fn new(logger: Logger) -> Self {
        Self { logger: Some(logger), ..Self::default() }
    }

    /// What `maxmemory` is for the next interpreter.
    pub(in crate::engine) const fn limit_memory(&mut self, maxmemory_bytes: u64) {
        self.maxmemory_bytes = maxmemory_bytes;
    }

    fn with<T>(
        &mut self,
        run: impl FnOnce(&mut Libraries, &mut Loading<'_>) -> Result<T, LibraryError>,
    ) -> Result<T, CommandError> {
        let options = lua_options(self.maxmemory_bytes);
        let libraries = self.libraries.get_or_insert_with(|| Box::new(Libraries::new(options)));
        let mut loading = Loading { asks_left: ASKS_MAX, logger: self.logger.as_ref() };
        let done = run(libraries, &mut loading);
        self.note_figures();
        done.map_err(|why| CommandError::Other(format!("ERR {why}").into()))
    }

    /// FUNCTION LOAD with these words behind it. Returns the library's name; it is logged.
    ///
    /// # Errors
    /// What its client is told.
    pub(crate) fn load(
        &mut self,
        words: &[&[u8]],
        keyspace: &mut Keyspace,
    ) -> Result<Box<[u8]>, CommandError> {
        let Some((source, options)) = words.split_last() else {
            return Err(CommandError::other("ERR Function code is missing"));
        };
        if let Some(option) = options.iter().find(|option| !argument::is(option, "replace")) {
            let option = String::from_utf8_lossy(option);
            return Err(CommandError::Other(format!("ERR Unknown option given: {option}").into()));
        }
        let replaces = !options.is_empty();
        let name = self.with(|libraries, loading| libraries.load(source, replaces, loading))?;
        self.put(&name, keyspace);
        Ok(name)
    }

    /// Logs a library that was loaded.
    fn put(&self, name: &[u8], keyspace: &mut Keyspace) {
        let library = self.libraries.as_ref().and_then(|libraries| libraries.get(name));
        if let Some(library) = library {
            keyspace.set_library(name, Arc::clone(library.source()));
        }
    }

    /// FUNCTION DELETE.
    ///
    /// # Errors
    /// When there is no such library.
    pub(crate) fn delete(&mut self, name: &[u8], keyspace: &mut Keyspace) -> Done {
        let was_logged = keyspace.delete_library(name);
        // One that is kept and could not be loaded goes, too.
        self.with(|libraries, _| match libraries.delete(name) {
            Err(_) if was_logged => Ok(()),
            deleted => deleted,
        })
    }

    /// FUNCTION FLUSH. Returns what is to be dropped, on any thread.
    pub(crate) fn flush(&mut self, keyspace: &mut Keyspace) -> impl Send + use<> {
        let names: Vec<Box<[u8]>> = keyspace.libraries().map(|(name, _)| name.into()).collect();
        for name in names {
            keyspace.delete_library(&name);
        }
        let garbage = self.libraries.take();
        self.note_figures();
        garbage
    }

    /// FUNCTION RESTORE with these words behind it; what was restored is logged.
    ///
    /// # Errors
    /// What its client is told; then all is as before.
    pub(crate) fn restore(
        &mut self,
        words: &[&[u8]],
        limits: Limits,
        keyspace: &mut Keyspace,
    ) -> Done {
        let (payload, existing) = match *words {
            [payload] => (payload, Existing::Kept),
            [payload, policy] if argument::is(policy, "append") => (payload, Existing::Kept),
            [payload, policy] if argument::is(policy, "replace") => (payload, Existing::Replaced),
            [payload, policy] if argument::is(policy, "flush") => (payload, Existing::Flushed),
            [_, _] => {
                return Err(CommandError::other(
                    "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
                ));
            }
            _ => return Err(subcommand_syntax(b"RESTORE")),
        };
        let sources = rdb::decode_functions(payload, limits)
            .map_err(|why| CommandError::Other(format!("ERR {why}").into()))?;
        let names =
            self.with(|libraries, loading| libraries.restore(&sources, existing, loading))?;
        if existing == Existing::Flushed {
            let logged = keyspace.libraries().map(|(name, _)| name);
            let gone = logged.filter(|name| names.iter().all(|kept| **kept != **name));
            let gone: Vec<Box<[u8]>> = gone.map(Into::into).collect();
            for name in gone {
                keyspace.delete_library(&name);
            }
        }
        names.iter().for_each(|name| self.put(name, keyspace));
        Ok(())
    }

    /// A library of a dump, which must be new.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub(crate) fn take_dumped(&mut self, source: &[u8], keyspace: &mut Keyspace) -> Done {
        self.load(&[source], keyspace).map(|_| ())
    }

    /// Loads what the keyspace has, instead of what is there. Returns those that cannot be, which are kept all the same.
    pub(in crate::engine) fn reload(&mut self, keyspace: &Keyspace) -> Vec<(String, String)> {
        self.libraries = None;
        let mut failed = Vec::new();
        for (name, source) in keyspace.libraries() {
            let loaded = self.with(|libraries, loading| libraries.load(source, true, loading));
            if let Err(why) = loaded {
                failed.push((String::from_utf8_lossy(name).into_owned(), why.to_string()));
            }
        }
        self.note_figures();
        failed
    }

    /// Finds a function; none while one runs.
    pub(in crate::engine) fn find(&self, name: &[u8]) -> Option<&Function> {
        self.libraries.as_ref()?.find(name)
    }

    /// The libraries, unless a function of theirs runs.
    pub(in crate::engine) fn libraries(&self) -> Option<&Libraries> {
        self.libraries.as_deref()
    }

    /// Takes the interpreter, in which a function was found, for as long as that runs.
    pub(super) fn take(&mut self) -> Box<Libraries> {
        self.libraries.take().expect("none runs, and it was found in them")
    }

    /// Gives the interpreter back.
    pub(super) fn put_back(&mut self, libraries: Box<Libraries>) {
        self.libraries = Some(libraries);
        self.note_figures();
    }

    /// What INFO says.
    pub(in crate::engine) const fn figures(&self) -> FunctionFigures {
        self.figures
    }

    fn note_figures(&mut self) {
        self.figures = match &self.libraries {
            None => FunctionFigures::default(),
            Some(libraries) => FunctionFigures {
                machine_bytes: libraries.machine_bytes() as u64,
                source_bytes: libraries.source_bytes() as u64,
                libraries: libraries.count() as u64,
                functions: libraries.function_count() as u64,
            },
        };
    }
}

/// What a subcommand of FUNCTION is told that got other arguments than it takes.
pub(in crate::engine) fn subcommand_syntax(name: &[u8]) -> CommandError {
    let name = String::from_utf8_lossy(name);
    CommandError::Other(
        format!(
            "ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."
        )
        .into(),
    )
}

/// What a library can ask of the server while it is loaded.
struct Loading<'l> {
    asks_left: u32,
    logger: Option<&'l Logger>,
}

impl Host for Loading<'_> {
    fn call(&mut self, _arguments: &[&[u8]], reply: &mut Writer) {
        reply.error("ERR a library that is being loaded calls no commands");
    }

    fn log(&mut self, level: Level, line: &[u8]) {
        if let Some(logger) = self.logger {
            log(logger, level, line);
        }
    }

    fn permission(&mut self, _arguments: &[&[u8]]) -> Permission {
        Permission::Denied
    }

    fn interrupt(&mut self) -> Interrupt {
        self.asks_left = self.asks_left.saturating_sub(1);
        if self.asks_left == 0 { Interrupt::Stop } else { Interrupt::Continue }
    }

    fn clock(&mut self) -> Duration {
        Duration::ZERO
    }
}

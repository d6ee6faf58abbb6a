//! The libraries of functions as they run: what FUNCTION changes, of clients and of files that are imported.
//!
//! ```text
//!   source ─► Functions: compiled, run once ─► its functions, for FCALL
//!                       └─► Keyspace: its record ─► the log, dumps ─► Functions::reload at a start
//! ```
//!
//! # Invariants
//! - Whether a library can be loaded depends on its source and on those that are there: what its loading may take is
//!   counted in instructions and in bytes of Lua, for each library anew. Only a client is also held to a clock, because
//!   one instruction may be long; what is read from the log or a file is not. So what was loaded once is loaded by every
//!   start.
//! - A library needs more memory while it is loaded than it keeps, and finds more or less of it by what was loaded before.
//!   What all of them keep and what one needs are each no more than a client's may have; so a start, which may have
//!   loaded them in another order, has twice as much.
//! - A library is in memory with its record, or neither is: what is loaded together is changed together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use command::argument;
use command::error::{CommandError, Done};
use env::Clock;
use keyspace::Keyspace;
use rdb::FunctionLimits;
use resp::Writer;
use scripting::{
    Existing, Function, Host, Interrupt, LIBRARIES_MAX, LOADING_INTERRUPT_EVERY, Level, Libraries,
    LibraryError, Options, Permission, SOURCE_BYTES_MAX, SUSPECT_SETS, library_name,
};

use super::super::REDIS_VERSION;
use crate::logger::Logger;

/// The memory that Lua may have, whatever `maxmemory` is: without some no script runs, not even one that deletes.
const MEMORY_BYTES_MIN: u64 = 64 << 20;
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// Commands that lose whole databases: a script that has such a word gets a block of its own.
pub(super) const LOSING: &[&str] = &["flushall", "flushdb", "swapdb"];

/// Commands that make a stream where there is none: a log is told of the first one before a script begins.
pub(super) const BRINGING_STREAMS: &[&str] = &["xadd", "xgroup", "restore"];

/// Commands that make a message of a producer in a stream, or say what is kept of messages, as those.
pub(super) const BRINGING_MESSAGES: &[&str] = &["xadd", "xcfgset"];

/// Commands that make a field of a hash expire, as those.
pub(super) const EXPIRING_FIELDS: &[&str] =
    &["hexpire", "hpexpire", "hexpireat", "hpexpireat", "hgetex", "hsetex", "restore"];

/// What scripts are searched for.
pub(super) const SUSPECT: [&[&str]; SUSPECT_SETS] =
    [LOSING, BRINGING_STREAMS, BRINGING_MESSAGES, EXPIRING_FIELDS];

/// How many instructions the loading of a library may take: about half a second.
const INSTRUCTIONS_MAX: u32 = 100_000_000;

/// How long it may take on a client's behalf, in microseconds, and how much longer for so many bytes of source, which
/// are compiled in one go.
const LOADING_US_MAX: u64 = 5_000_000;
const BYTES_PER_US: u64 = 10;

/// How much longer for each library that is restored behind the first, and at most.
const RESTORED_US: u64 = 500_000;
const RESTORED_US_MAX: u64 = 60_000_000;

/// How many bytes the sources of all libraries may have: a log that is turned on gets them in one block.
const ALL_SOURCES_BYTES_MAX: usize = 256 << 20;

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
        suspect_words: SUSPECT,
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

/// What the loading of a library may take.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct LoadingLimits {
    /// Of Lua, with all that there is; for what is not brought by a client, twice as many.
    pub(in crate::engine) memory_bytes: usize,
    pub(in crate::engine) instructions: u32,
}

impl Default for LoadingLimits {
    fn default() -> Self {
        // Whatever `maxmemory` is: what was loaded with one limit must not fail with another.
        let memory_bytes = lua_options(0).memory_bytes_max;
        Self { memory_bytes, instructions: INSTRUCTIONS_MAX }
    }
}

/// See the file's top.
#[derive(Default)]
pub(crate) struct Functions {
    /// None until the first use, and while a function runs.
    libraries: Option<Box<Libraries>>,
    figures: FunctionFigures,
    logger: Option<Logger>,
    pub(in crate::engine) limits: LoadingLimits,
}

impl Functions {
    /// Those of a server, whose libraries log to `logger`.
    pub(super) fn new(logger: Logger) -> Self {
        Self { logger: Some(logger), ..Self::default() }
    }

    fn with<T>(
        &mut self,
        deadline: Option<Deadline<'_>>,
        order: Order,
        run: impl FnOnce(&mut Libraries, &mut Loading<'_>) -> Result<T, LibraryError>,
    ) -> Result<T, CommandError> {
        let LoadingLimits { memory_bytes, instructions } = self.limits;
        let options = Options { memory_bytes_max: memory_bytes, ..lua_options(0) };
        let libraries = self.libraries.get_or_insert_with(|| Box::new(Libraries::new(options)));
        if order == Order::Any {
            libraries.limit_memory(memory_bytes.saturating_mul(2));
        }
        let logger = self.logger.as_ref();
        let mut loading = Loading { asks_left: 0, instructions, deadline, logger };
        let done = run(libraries, &mut loading);
        if order == Order::Any {
            libraries.limit_memory(memory_bytes);
        }
        self.note_figures();
        done.map_err(|why| refusal(&why))
    }

    /// FUNCTION LOAD with these words behind it. Returns the library's name; it is logged. A client has a clock.
    ///
    /// # Errors
    /// What its client is told.
    pub(crate) fn load(
        &mut self,
        words: &[&[u8]],
        keyspace: &mut Keyspace,
        clock: Option<&dyn Clock>,
    ) -> Result<Box<[u8]>, CommandError> {
        let Some((source, options)) = words.split_last() else {
            return Err(CommandError::other("ERR Function code is missing"));
        };
        if let Some(option) = options.iter().find(|option| !argument::is(option, "replace")) {
            let option = String::from_utf8_lossy(option);
            return Err(CommandError::Other(format!("ERR Unknown option given: {option}").into()));
        }
        let replaces = !options.is_empty();
        if let Ok(name) = library_name(source) {
            // Also one that is kept and could not be loaded.
            if !replaces && keyspace.library(&name).is_some() {
                return Err(refusal(&LibraryError::Exists(lossy(&name))));
            }
            check_room(keyspace, |other| *other != *name, source.len())?;
        }
        let deadline = clock.map(|clock| Deadline::new(clock, 1, source.len()));
        let order = match clock {
            Some(_) => Order::AsTheyCome,
            None => {
                self.check_alone([*source].into_iter(), None)?;
                Order::Any
            }
        };
        let name = self.with(deadline, order, |libraries, loading| {
            libraries.load(source, replaces, loading)
        })?;
        keyspace.declare_libraries();
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
        self.with(None, Order::AsTheyCome, |libraries, _| match libraries.delete(name) {
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

    /// FUNCTION RESTORE with these words behind it; what was restored is logged. A client has a clock.
    ///
    /// # Errors
    /// What its client is told; then all is as before.
    pub(crate) fn restore(
        &mut self,
        words: &[&[u8]],
        keyspace: &mut Keyspace,
        clock: Option<&dyn Clock>,
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
        let limits = FunctionLimits {
            source_bytes_max: SOURCE_BYTES_MAX as u64,
            libraries_max: LIBRARIES_MAX,
            all_bytes_max: ALL_SOURCES_BYTES_MAX as u64,
        };
        let sources = rdb::decode_functions(payload, limits).map_err(|why| refusal(&why))?;
        let bytes = sources.iter().map(Vec::len).sum();
        let names: BTreeSet<Box<[u8]>> =
            sources.iter().filter_map(|source| library_name(source).ok()).collect();
        if existing == Existing::Kept
            && let Some(name) = names.iter().find(|name| keyspace.library(name).is_some())
        {
            return Err(refusal(&LibraryError::RestoredExists(lossy(name))));
        }
        let stays = |name: &[u8]| existing != Existing::Flushed && !names.contains(name);
        check_room(keyspace, stays, bytes)?;
        let deadline = clock.map(|clock| Deadline::new(clock, sources.len(), bytes));
        let names = if existing == Existing::Flushed || keyspace.libraries().len() == 0 {
            self.restore_alone(&sources, deadline)?
        } else {
            self.with(deadline, Order::AsTheyCome, |libraries, loading| {
                libraries.restore(&sources, existing, loading)
            })?
        };
        keyspace.declare_libraries();
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

    /// Restores libraries into an interpreter of their own, which replaces the one that is there. Returns their names.
    fn restore_alone(
        &mut self,
        sources: &[Vec<u8>],
        deadline: Option<Deadline<'_>>,
    ) -> Result<Vec<Box<[u8]>>, CommandError> {
        let before = self.libraries.take();
        let flush = |libraries: &mut Libraries, loading: &mut Loading<'_>| {
            libraries.restore(sources, Existing::Flushed, loading)
        };
        let mut restored = self.with(deadline, Order::AsTheyCome, flush);
        if restored.is_err() {
            // With what a client may have they may not fit in this order.
            self.libraries = None;
            restored = self
                .check_alone(sources.iter().map(Vec::as_slice), deadline)
                .and_then(|()| self.with(deadline, Order::Any, flush));
        }
        let bytes = self.libraries.as_ref().map_or(0, |libraries| libraries.machine_bytes());
        let max = self.limits.memory_bytes;
        let restored = restored.and_then(|names| match bytes > max {
            false => Ok(names),
            true => Err(refusal(&LibraryError::TooMuchMemory(bytes, max))),
        });
        if restored.is_err() {
            self.libraries = before;
            self.note_figures();
        }
        restored
    }

    /// Loads each of these libraries once into an interpreter of its own: none needs more than a client's may have, so that every start finds
    /// room for it, in whatever order.
    fn check_alone<'s>(
        &self,
        sources: impl Iterator<Item = &'s [u8]>,
        deadline: Option<Deadline<'_>>,
    ) -> Done {
        let LoadingLimits { memory_bytes, instructions } = self.limits;
        let options = Options { memory_bytes_max: memory_bytes, ..lua_options(0) };
        let mut loading = Loading { asks_left: 0, instructions, deadline, logger: None };
        for source in sources {
            let loaded = Libraries::new(options).load(source, false, &mut loading);
            loaded.map_err(|why| refusal(&why))?;
        }
        Ok(())
    }

    /// A library of a dump, which must be new.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub(crate) fn take_dumped(&mut self, source: &[u8], keyspace: &mut Keyspace) -> Done {
        self.load(&[source], keyspace, None).map(|_| ())
    }

    /// Loads what the keyspace has, instead of what is there. Returns those that cannot be, which are kept all the same.
    pub(in crate::engine) fn reload(&mut self, keyspace: &Keyspace) -> Vec<(String, String)> {
        self.libraries = None;
        let mut failed = Vec::new();
        for (name, source) in keyspace.libraries() {
            let loaded = self
                .with(None, Order::Any, |libraries, loading| libraries.load(source, true, loading));
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

fn refusal(why: &dyn std::fmt::Display) -> CommandError {
    CommandError::Other(format!("ERR {why}").into())
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Whether sources of so many bytes may come to those of the keyspace that stay.
fn check_room(keyspace: &Keyspace, stays: impl Fn(&[u8]) -> bool, new_bytes: usize) -> Done {
    let staying = keyspace.libraries().filter(|(name, _)| stays(name));
    let bytes = staying.map(|(_, source)| source.len()).sum::<usize>() + new_bytes;
    if bytes > ALL_SOURCES_BYTES_MAX {
        return Err(refusal(&LibraryError::NoRoom(bytes, ALL_SOURCES_BYTES_MAX)));
    }
    Ok(())
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

/// In which order libraries are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// In that in which a client brings them.
    AsTheyCome,
    /// In another one, although they must find room: see the file's top.
    Any,
}

/// When a client's library has taken too long.
#[derive(Clone, Copy)]
struct Deadline<'c> {
    clock: &'c dyn Clock,
    us: u64,
}

impl<'c> Deadline<'c> {
    /// That of a command with so many libraries and bytes of source, which begins now.
    fn new(clock: &'c dyn Clock, libraries: usize, source_bytes: usize) -> Self {
        let more = (libraries.saturating_sub(1) as u64).saturating_mul(RESTORED_US);
        let us = LOADING_US_MAX + more.min(RESTORED_US_MAX) + source_bytes as u64 / BYTES_PER_US;
        Self { clock, us: clock.monotonic_us() + us }
    }

    fn has_passed(&self) -> bool {
        self.clock.monotonic_us() >= self.us
    }
}

/// What a library can ask of the server while it is loaded.
struct Loading<'l> {
    /// How often the library that is being loaded may ask.
    asks_left: usize,
    /// How many instructions each may take.
    instructions: u32,
    deadline: Option<Deadline<'l>>,
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
        let is_late = self.deadline.as_ref().is_some_and(Deadline::has_passed);
        if self.asks_left == 0 || is_late { Interrupt::Stop } else { Interrupt::Continue }
    }

    fn begin_loading(&mut self) {
        self.asks_left = self.instructions as usize / LOADING_INTERRUPT_EVERY;
    }

    fn clock(&mut self) -> Duration {
        Duration::ZERO
    }
}

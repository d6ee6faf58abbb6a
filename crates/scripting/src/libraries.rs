//! The libraries of FUNCTION: source that registers functions, which FCALL calls by name.
//!
//! ```text
//!   source ─► first line ─► compiled, run once ─► Prepared: its functions ─► no name taken? ─► installed
//! ```
//!
//! What is loaded together is installed together or not at all. What is loaded lives in memory only: that it comes
//! back after a start is the server's matter, which keeps the source.
//!
//! Functions are found by their names in any case of letters, as in Redis; libraries are not.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use resp::Writer;

use crate::error::LibraryError;
use crate::frame::Reference;
use crate::host::{Ending, Host};
use crate::machine::{Machine, Options, SUSPECT_SETS, Task};
use crate::registration::Registered;
use crate::sandbox::Api;
use crate::scripts::mentions;
use crate::shebang::{self, ScriptFlags};

/// What errors and positions call a library's source.
const CHUNK_NAME: &std::ffi::CStr = c"@user_function";

/// What a function costs next to its texts.
const OVERHEAD_BYTES: usize = 128;

/// The longest source of a library: it is compiled in one piece, and is one record of a log.
pub const SOURCE_BYTES_MAX: usize = 16 << 20;

/// How many libraries there may be.
pub const LIBRARIES_MAX: usize = 10_000;

/// The name of the library with this source.
///
/// # Errors
/// When the source does not begin as one does.
pub fn library_name(source: &[u8]) -> Result<Box<[u8]>, LibraryError> {
    shebang::of_library(source).map(|(name, _)| name.into())
}

/// A function of a library.
#[derive(Debug)]
pub struct LibraryFunction {
    name: Arc<[u8]>,
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
    source: Arc<[u8]>,
    functions: Vec<LibraryFunction>,
}

impl Library {
    /// Its source, first line included.
    #[must_use]
    pub fn source(&self) -> &Arc<[u8]> {
        &self.source
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
        self.source.len() + OVERHEAD_BYTES + functions
    }
}

/// A library whose source has run, and that is not there yet. It is installed or dropped.
#[derive(Debug)]
struct Prepared {
    name: Box<[u8]>,
    library: Library,
}

/// What becomes of libraries that are there when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// They go.
    Flushed,
    /// They stay; one of the same name as one that comes is an error.
    Kept,
    /// They stay, but for those of the same names.
    Replaced,
}

/// A function that was found: to be called before libraries change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    name: Arc<[u8]>,
    callback: Reference,
    flags: ScriptFlags,
    is_suspect: [bool; SUSPECT_SETS],
}

impl Function {
    /// Its name, as its library has registered it.
    #[must_use]
    pub fn name(&self) -> &Arc<[u8]> {
        &self.name
    }

    /// What it says of itself.
    #[must_use]
    pub fn flags(&self) -> ScriptFlags {
        self.flags
    }

    /// Of each set of [`Options::suspect_words`], whether one of them is in the source of its library.
    #[must_use]
    pub fn is_suspect(&self) -> [bool; SUSPECT_SETS] {
        self.is_suspect
    }
}

/// A name as functions are found by it.
fn folded(name: &[u8]) -> Cow<'_, [u8]> {
    match name.iter().any(u8::is_ascii_uppercase) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

/// Lua and its libraries.
#[derive(Debug)]
pub struct Libraries {
    machine: Machine,
    libraries: BTreeMap<Box<[u8]>, Library>,
    /// Functions by their names in lower case.
    functions: HashMap<Box<[u8]>, Function>,
    bytes: usize,
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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
    /// long.
    ///
    /// # Errors
    /// When the source is wrong, does not end, or has names that are taken.
    pub fn load(
        &mut self,
        source: &[u8],
        replaces: bool,
        host: &mut dyn Host,
    ) -> Result<Box<[u8]>, LibraryError> {
        let is_known = |name: &[u8]| self.libraries.contains_key(name);
        let (name, _) = shebang::of_library(source)?;
        if !replaces && is_known(&name) {
            return Err(LibraryError::Exists(lossy(&name)));
        }
        if !is_known(&name) && self.libraries.len() >= LIBRARIES_MAX {
            return Err(LibraryError::TooMany(LIBRARIES_MAX));
        }
        let prepared = self.prepare(source, host)?;
        let taken = self.taken(&prepared.library, &self.freed([&*prepared.name]));
        if let Some(taken) = taken {
            let error = LibraryError::FunctionExists(lossy(&taken));
            self.forget([prepared]);
            return Err(error);
        }
        let name = prepared.name.clone();
        self.install(prepared);
        Ok(name)
    }

    /// Loads several libraries at once: FUNCTION RESTORE. Returns their names; on an error, all is as before.
    ///
    /// # Errors
    /// As [`Libraries::load`].
    pub fn restore<S: AsRef<[u8]>>(
        &mut self,
        sources: &[S],
        existing: Existing,
        host: &mut dyn Host,
    ) -> Result<Vec<Box<[u8]>>, LibraryError> {
        let mut all = Vec::new();
        let checked = self
            .prepare_all(sources, &mut all, host)
            .and_then(|()| self.check_restored(&all, existing));
        if let Err(error) = checked {
            self.forget(all);
            return Err(error);
        }
        if existing == Existing::Flushed {
            let names: Vec<_> = self.libraries.keys().cloned().collect();
            names.iter().for_each(|name| self.remove(name));
        }
        let names = all.iter().map(|prepared| prepared.name.clone()).collect();
        all.into_iter().for_each(|prepared| self.install(prepared));
        Ok(names)
    }

    /// Prepares these libraries, which must not have anything in common.
    fn prepare_all<S: AsRef<[u8]>>(
        &mut self,
        sources: &[S],
        all: &mut Vec<Prepared>,
        host: &mut dyn Host,
    ) -> Result<(), LibraryError> {
        let (mut names, mut functions) = (BTreeSet::new(), BTreeSet::new());
        for source in sources {
            let (name, _) = shebang::of_library(source.as_ref())?;
            if !names.insert(name.clone()) {
                return Err(LibraryError::Exists(lossy(&name)));
            }
            if names.len() > LIBRARIES_MAX {
                return Err(LibraryError::TooMany(LIBRARIES_MAX));
            }
            let prepared = self.prepare(source.as_ref(), host)?;
            all.push(prepared);
            let registered = all.last().map(|prepared| &prepared.library.functions);
            for function in registered.into_iter().flatten() {
                if !functions.insert(folded(&function.name).into_owned()) {
                    return Err(LibraryError::FunctionExists(lossy(&function.name)));
                }
            }
        }
        Ok(())
    }

    /// Whether all of these can be installed.
    fn check_restored(&self, all: &[Prepared], existing: Existing) -> Result<(), LibraryError> {
        if existing == Existing::Flushed {
            return Ok(());
        }
        let names: BTreeSet<&[u8]> = all.iter().map(|prepared| &*prepared.name).collect();
        let known = names.iter().filter(|name| self.libraries.contains_key(**name));
        let known: BTreeSet<&[u8]> = known.copied().collect();
        if existing == Existing::Kept
            && let Some(name) = known.first()
        {
            return Err(LibraryError::RestoredExists(lossy(name)));
        }
        if self.libraries.len() - known.len() + all.len() > LIBRARIES_MAX {
            return Err(LibraryError::TooMany(LIBRARIES_MAX));
        }
        let freed = self.freed(known);
        let taken = all.iter().find_map(|prepared| self.taken(&prepared.library, &freed));
        taken.map_or(Ok(()), |name| Err(LibraryError::FunctionExists(lossy(&name))))
    }

    /// The names, in lower case, of the functions of these libraries, as far as they are there.
    fn freed<'n>(&self, names: impl IntoIterator<Item = &'n [u8]>) -> HashSet<Cow<'_, [u8]>> {
        let libraries = names.into_iter().filter_map(|name| self.libraries.get(name));
        libraries.flat_map(|library| &library.functions).map(|it| folded(&it.name)).collect()
    }

    /// The name of a function of `library` that a function which is there has, but for those that are `freed`.
    fn taken(&self, library: &Library, freed: &HashSet<Cow<'_, [u8]>>) -> Option<Arc<[u8]>> {
        let taken = library.functions.iter().find(|function| {
            let name = folded(&function.name);
            self.functions.contains_key(&*name) && !freed.contains(&*name)
        });
        taken.map(|function| Arc::clone(&function.name))
    }

    /// Runs the source of a library.
    fn prepare(&mut self, source: &[u8], host: &mut dyn Host) -> Result<Prepared, LibraryError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(LibraryError::TooLong(source.len(), SOURCE_BYTES_MAX));
        }
        let (name, body) = shebang::of_library(source)?;
        self.machine.show_globals(true);
        let registered = self.register(body, host);
        self.machine.show_globals(false);
        let registered = registered?;
        if registered.is_empty() {
            return Err(LibraryError::Empty);
        }
        let functions = registered.into_iter().map(|function| LibraryFunction {
            name: function.name.into(),
            description: function.description.map(Into::into),
            flags: function.flags,
            callback: function.callback,
        });
        let library = Library { source: source.into(), functions: functions.collect() };
        Ok(Prepared { name: name.into(), library })
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

    /// Puts a library in the place of one of the same name.
    fn install(&mut self, Prepared { name, library }: Prepared) {
        self.remove(&name);
        let words = self.machine.options().suspect_words;
        let is_suspect = words.map(|words| mentions(&library.source, words));
        for LibraryFunction { name, flags, callback, .. } in &library.functions {
            let found =
                Function { name: Arc::clone(name), callback: *callback, flags: *flags, is_suspect };
            self.functions.insert(folded(name).into(), found);
        }
        self.bytes += library.bytes();
        self.libraries.insert(name, library);
    }

    /// Drops libraries that are not installed.
    fn forget(&mut self, all: impl IntoIterator<Item = Prepared>) {
        let functions = all.into_iter().flat_map(|prepared| prepared.library.functions);
        functions.for_each(|function| self.machine.release(function.callback));
    }

    /// Changes how many bytes Lua may have: [`Options::memory_bytes_max`].
    pub fn limit_memory(&mut self, bytes: usize) {
        self.machine.limit_memory(bytes);
    }

    /// Finds a function.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<&Function> {
        self.functions.get(&*folded(name))
    }

    /// Calls a function, and writes its reply.
    ///
    /// # Panics
    /// As a panic of `host` goes on.
    pub fn call(
        &mut self,
        function: &Function,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        host: &mut dyn Host,
        out: &mut Writer,
    ) -> Ending {
        let (name, function) = (&*function.name, function.callback);
        let task = Task { function, keys, arguments, name, is_script: false };
        self.machine.run(&task, host, out)
    }

    /// Drops a library.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn delete(&mut self, name: &[u8]) -> Result<(), LibraryError> {
        if !self.libraries.contains_key(name) {
            return Err(LibraryError::NotFound);
        }
        self.remove(name);
        Ok(())
    }

    fn remove(&mut self, name: &[u8]) {
        let Some(library) = self.libraries.remove(name) else { return };
        self.bytes -= library.bytes();
        for function in library.functions {
            self.functions.remove(&*folded(&function.name));
            self.machine.release(function.callback);
        }
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

    /// The library of this name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&Library> {
        self.libraries.get(name)
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

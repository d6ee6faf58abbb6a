//! The scripts of EVAL: compiled once, found by the SHA-1 of their source.
//!
//! Scripts that SCRIPT LOAD brought stay until SCRIPT FLUSH. Of those that came with EVAL the
//! [`EVALUATED_MAX`] used last stay, as in Redis 7.4: programs that put values into the source
//! instead of into ARGV do not fill the memory.

use hashbrown::HashMap;
use resp::Writer;

use crate::error::ScriptError;
use crate::frame::Reference;
use crate::host::{Ending, Host};
use crate::machine::{Machine, Options, SUSPECT_SETS, Task};
use crate::redis_api::sha1_hex;
use crate::sandbox::Api;
use crate::shebang::{self, ScriptFlags};

/// How many scripts that only EVAL has brought are kept.
const EVALUATED_MAX: usize = 500;

/// What errors and positions call a script's source.
const CHUNK_NAME: &std::ffi::CStr = c"@user_script";

/// What a script costs next to its source: the places in table, list and registry.
const OVERHEAD_BYTES: usize = 160;

/// The SHA-1 of a script's source, in lower-case hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScriptId([u8; 40]);

impl ScriptId {
    /// The id of a source.
    #[must_use]
    pub fn of_source(source: &[u8]) -> Self {
        Self(sha1_hex(source))
    }

    /// The id that a client has written, in either case; none if it has another length.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        Some(Self(<[u8; 40]>::try_from(text).ok()?.map(|byte| byte.to_ascii_lowercase())))
    }

    /// The 40 digits.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What brings a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// EVAL: the script may be evicted.
    Eval,
    /// SCRIPT LOAD: it stays.
    Load,
}

/// A script that was found: to be run before others are loaded or flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    slot: usize,
    id: ScriptId,
}

impl Script {
    /// The SHA-1 of its source.
    #[must_use]
    pub fn id(&self) -> ScriptId {
        self.id
    }
}

/// A compiled script.
#[derive(Debug)]
struct Compiled {
    id: ScriptId,
    source: Box<[u8]>,
    function: Reference,
    flags: Option<ScriptFlags>,
    /// Whether a word in it is one of each set of [`Options::suspect_words`].
    is_suspect: [bool; SUSPECT_SETS],
    /// The neighbours in the order of use, if it may be evicted.
    in_order: Option<Neighbours>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Neighbours {
    older: Option<usize>,
    newer: Option<usize>,
}

/// Whether one of these words is in the source, in any case of letters.
pub fn mentions(source: &[u8], words: &[&str]) -> bool {
    let has = |word: &&str| {
        source.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    words.iter().any(has)
}

/// Lua and its scripts.
#[derive(Debug)]
pub struct Scripts {
    machine: Machine,
    by_id: HashMap<ScriptId, usize>,
    /// Scripts by slot; a slot that is free is used again.
    compiled: Vec<Option<Compiled>>,
    free: Vec<usize>,
    oldest: Option<usize>,
    newest: Option<usize>,
    evictable: usize,
    evicted: u64,
    source_bytes: usize,
}

impl Scripts {
    /// Creates an interpreter without scripts.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            machine: Machine::new(options, Api::Scripts),
            by_id: HashMap::new(),
            compiled: Vec::new(),
            free: Vec::new(),
            oldest: None,
            newest: None,
            evictable: 0,
            evicted: 0,
            source_bytes: 0,
        }
    }

    /// Finds the script with this source, or compiles it.
    ///
    /// # Errors
    /// When the first line or the source is wrong.
    pub fn load(&mut self, source: &[u8], origin: Origin) -> Result<Script, ScriptError> {
        let id = ScriptId::of_source(source);
        if let Some(script) = self.find(&id) {
            if origin == Origin::Load {
                self.unlink(script.slot);
            }
            return Ok(script);
        }
        let (flags, body) = shebang::of_script(source)?;
        let function = self
            .machine
            .compile(body, CHUNK_NAME)
            .map_err(|error| ScriptError::NotCompiled(error.text))?;
        self.source_bytes += source.len() + OVERHEAD_BYTES;
        let is_suspect = self.machine.options().suspect_words.map(|words| mentions(source, words));
        let source = source.into();
        let compiled = Compiled { id, source, function, flags, is_suspect, in_order: None };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.compiled[slot] = Some(compiled);
                slot
            }
            None => {
                self.compiled.push(Some(compiled));
                self.compiled.len() - 1
            }
        };
        self.by_id.insert(id, slot);
        if origin == Origin::Eval {
            if self.evictable == EVALUATED_MAX {
                self.evict();
            }
            self.link(slot);
        }
        Ok(Script { slot, id })
    }

    /// Finds a script, and notes that it was used.
    pub fn find(&mut self, id: &ScriptId) -> Option<Script> {
        let slot = *self.by_id.get(id)?;
        if self.newest != Some(slot) && self.at(slot).in_order.is_some() {
            self.unlink(slot);
            self.link(slot);
        }
        Some(Script { slot, id: *id })
    }

    /// Whether there is such a script: SCRIPT EXISTS, which is no use of it.
    #[must_use]
    pub fn contains(&self, id: &ScriptId) -> bool {
        self.by_id.contains_key(id)
    }

    /// The source of a script: SCRIPT SHOW.
    #[must_use]
    pub fn source(&self, id: &ScriptId) -> Option<&[u8]> {
        self.by_id.get(id).map(|slot| &*self.at(*slot).source)
    }

    /// The flags of a script; none if it has no `#!` line and runs by the rules before Redis 7.
    #[must_use]
    pub fn flags(&self, script: Script) -> Option<ScriptFlags> {
        self.at(script.slot).flags
    }

    /// The flags of the script with this id, if it is there and has any.
    #[must_use]
    pub fn declared(&self, id: &ScriptId) -> Option<ScriptFlags> {
        self.at(*self.by_id.get(id)?).flags
    }

    /// Of each set of [`Options::suspect_words`], whether one of them is in its source.
    #[must_use]
    pub fn is_suspect(&self, script: Script) -> [bool; SUSPECT_SETS] {
        self.at(script.slot).is_suspect
    }

    /// Runs a script, and writes its reply.
    ///
    /// # Panics
    /// When the script was flushed or evicted since it was found; and as a panic of `host` goes on.
    pub fn run(
        &mut self,
        script: Script,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        host: &mut dyn Host,
        out: &mut Writer,
    ) -> Ending {
        let compiled = self.at(script.slot);
        assert_eq!(compiled.id, script.id, "the script is there");
        let function = compiled.function;
        let name = script.id.as_bytes();
        let task = Task { function, keys, arguments, name, is_script: true };
        self.machine.run(&task, host, out)
    }

    /// Drops all scripts, and the state of Lua with them: SCRIPT FLUSH. Returns what is to be
    /// dropped, which may take long, on any thread.
    pub fn flush(&mut self) -> impl Send + use<> {
        let fresh = Self { evicted: self.evicted, ..Self::new(self.machine.options()) };
        std::mem::replace(self, fresh)
    }

    /// The number of scripts: `number_of_cached_scripts`.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// How many scripts were evicted: `evicted_scripts`.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The bytes of sources and tables: `used_memory_scripts_eval`.
    #[must_use]
    pub fn source_bytes(&self) -> usize {
        self.source_bytes
    }

    /// The bytes of Lua: `used_memory_vm_eval`.
    #[must_use]
    pub fn machine_bytes(&self) -> usize {
        self.machine.used_bytes()
    }

    fn at(&self, slot: usize) -> &Compiled {
        self.compiled[slot].as_ref().expect("the slot of a script")
    }

    fn in_order(&mut self, slot: usize) -> &mut Option<Neighbours> {
        &mut self.compiled[slot].as_mut().expect("the slot of a script").in_order
    }

    /// Makes a script the one used last of those that may be evicted.
    fn link(&mut self, slot: usize) {
        let older = self.newest.replace(slot);
        *self.in_order(slot) = Some(Neighbours { older, newer: None });
        match older {
            Some(older) => {
                if let Some(neighbours) = self.in_order(older) {
                    neighbours.newer = Some(slot);
                }
            }
            None => self.oldest = Some(slot),
        }
        self.evictable += 1;
    }

    /// Makes a script one that stays.
    fn unlink(&mut self, slot: usize) {
        let Some(Neighbours { older, newer }) = self.in_order(slot).take() else { return };
        match older {
            Some(older) => {
                if let Some(neighbours) = self.in_order(older) {
                    neighbours.newer = newer;
                }
            }
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => {
                if let Some(neighbours) = self.in_order(newer) {
                    neighbours.older = older;
                }
            }
            None => self.newest = older,
        }
        self.evictable -= 1;
    }

    /// Drops the script that was used longest ago.
    fn evict(&mut self) {
        let Some(slot) = self.oldest else { return };
        self.unlink(slot);
        let compiled = self.compiled[slot].take().expect("the slot of a script");
        self.machine.release(compiled.function);
        self.by_id.remove(&compiled.id);
        self.source_bytes -= compiled.source.len() + OVERHEAD_BYTES;
        self.free.push(slot);
        self.evicted += 1;
    }
}

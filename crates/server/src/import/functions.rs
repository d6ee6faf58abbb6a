//! Libraries of functions in files of Redis: in dumps, and as commands of AOFs.

use command::error::{CommandError, Done};
use keyspace::{Keyspace, NoJournal};

use crate::engine::scripting::Functions;

/// What libraries count as that cannot be loaded and are left out.
pub(super) const BROKEN_LIBRARIES: &str = "libraries of functions that cannot be loaded";

/// What a command of an AOF does to libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FunctionChange {
    Load,
    Delete,
    Flush,
    Restore,
}

impl FunctionChange {
    /// That of the subcommand with this name; `None` if it changes nothing.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "function|load" => Self::Load,
            "function|delete" => Self::Delete,
            "function|flush" => Self::Flush,
            "function|restore" => Self::Restore,
            _ => return None,
        })
    }

    /// Does it.
    ///
    /// # Errors
    /// What a client would be told.
    pub(super) fn execute(
        self,
        args: &[&[u8]],
        functions: &mut Functions,
        keyspace: &mut Keyspace,
    ) -> Done {
        match self {
            Self::Load => functions.load(&args[2..], keyspace, None).map(|_| ()),
            Self::Delete => functions.delete(args[2], keyspace),
            Self::Flush => {
                drop(functions.flush(keyspace));
                Ok(())
            }
            Self::Restore => functions.restore(&args[2..], keyspace, None),
        }
    }
}

/// Libraries without data: whether those of the files can be loaded is seen before anything is made.
pub(super) struct FunctionsAlone {
    functions: Functions,
    keyspace: Keyspace<NoJournal>,
}

impl Default for FunctionsAlone {
    fn default() -> Self {
        Self { functions: Functions::default(), keyspace: Keyspace::new(NoJournal, [0; 16], 1) }
    }
}

impl FunctionsAlone {
    /// Takes a library of a dump.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub(super) fn take_dumped(&mut self, source: &[u8]) -> Result<(), CommandError> {
        self.functions.take_dumped(source, &mut self.keyspace)
    }

    /// Does what a command does.
    ///
    /// # Errors
    /// As [`FunctionChange::execute`].
    pub(super) fn execute(&mut self, change: FunctionChange, args: &[&[u8]]) -> Done {
        change.execute(args, &mut self.functions, &mut self.keyspace)
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.keyspace.libraries().len() as u64
    }
}

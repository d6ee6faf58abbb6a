//! What scripts need of the server, and how they end.

use std::time::Duration;

use resp::Writer;

/// The server, as a script sees it.
pub trait Host {
    /// Executes a command for `redis.call` and `redis.pcall`, and writes one reply to `reply`, in its
    /// protocol: 2 until the script chose another one. `arguments` has at least one element.
    /// A reply that is an error was counted in the server's statistics by this call.
    fn call(&mut self, arguments: &[&[u8]], reply: &mut Writer);

    /// Writes a line to the server's log, if the level is logged.
    fn log(&mut self, level: Level, line: &[u8]);

    /// Whether the user may execute a command with these arguments: `redis.acl_check_cmd`.
    fn permission(&mut self, arguments: &[&[u8]]) -> Permission;

    /// Called after the work of [`crate::Options::interrupt_every`] instructions, or [`crate::LOADING_INTERRUPT_EVERY`]
    /// while a library is loaded, whatever has done it: about once a millisecond. The server may serve others here,
    /// and stops scripts that were killed or that take too long.
    fn interrupt(&mut self) -> Interrupt;

    /// The source of a library begins to run; another time, when it has found no memory.
    fn begin_loading(&mut self) {}

    /// Whether the script was stopped while its command was executed: then its reply is of no use.
    fn is_stopped(&self) -> bool {
        false
    }

    /// The processor time of the process, or any other clock that runs forward: `os.clock`.
    fn clock(&mut self) -> Duration;
}

/// Whether a script goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// It goes on.
    Continue,
    /// It ends with an error that it cannot catch.
    Stop,
}

/// What [`Host::permission`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The user may.
    Granted,
    /// The user may not.
    Denied,
    /// There is no such command.
    UnknownCommand,
}

/// The level of a line for the log, as Redis numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `redis.LOG_DEBUG`, 0.
    Debug,
    /// `redis.LOG_VERBOSE`, 1.
    Verbose,
    /// `redis.LOG_NOTICE`, 2.
    Notice,
    /// `redis.LOG_WARNING`, 3.
    Warning,
}

/// How a script ended. Its reply was written in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an error belongs in the statistics, unless a call has counted it"]
pub enum Ending {
    /// It returned; the reply is the value.
    Returned,
    /// The reply is an error, raised or returned.
    Failed {
        /// It is the error of a command that the script called, which [`Host::call`] has counted.
        is_counted: bool,
    },
    /// It was stopped by [`Host::interrupt`].
    Stopped,
}

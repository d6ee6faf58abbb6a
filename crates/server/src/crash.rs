//! What a panic leaves in the log: enough to report it, and nothing of what is stored.
//!
//! ```text
//!   1234:M … # === CRASH REPORT === indelible 0.1.0 (1a2b3c4), Linux 6.1.0 x86_64
//!   1234:M … # === CRASH REPORT === thread 'main', crates/server/src/engine/call.rs:70:9: the client is there
//!   1234:M … # === CRASH REPORT === the last command of this thread: get, with 1 argument
//!   1234:M … # === CRASH REPORT ===    0: server::engine::call::…
//!   1234:M … # === CRASH REPORT === what was acknowledged is as durable as before: start the server again, and report this
//! ```
//!
//! A message that was put together when it happened may have keys and values in it; such a one is on standard error alone, where
//! the language puts it, and the log has those that are literals.
//!
//! # Invariants
//! - The report waits for nothing: a thread that panics may hold any lock, also the log's.
//! - What is noted of a command is its name in the table of commands, and how many arguments it has.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::panic::PanicHookInfo;
use std::thread;

use crate::VERSION;
use crate::logger::Logger;

/// The lines of a backtrace in a report, at most: a deep one is the same again and again.
const FRAME_LINES_MAX: usize = 200;

thread_local! {
    static LAST: Cell<(&'static str, usize)> = const { Cell::new(("", 0)) };
}

/// Notes the command that this thread executes, with the number of its arguments.
pub(crate) fn note(command: &'static str, arguments: usize) {
    LAST.set((command, arguments));
}

/// From now on a panic of any thread leaves a report in this log, of a program that was built from this commit.
pub(crate) fn report_to(logger: &Logger, commit: &'static str) {
    let (before, logger) = (std::panic::take_hook(), logger.clone());
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        logger.last_words(&report(panic, commit));
    }));
}

fn report(panic: &PanicHookInfo<'_>, commit: &str) -> Vec<String> {
    let system = rustix::system::uname();
    let words = [system.sysname(), system.release(), system.machine()];
    let system = words.map(|word| word.to_string_lossy().into_owned()).join(" ");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload().downcast_ref::<&'static str>();
    let message =
        message.copied().unwrap_or("its message is on standard error, as it may have data in it");
    let name = thread::current().name().unwrap_or("").to_owned();
    let mut lines = vec![
        format!("indelible {VERSION} ({commit}), {system}"),
        format!("thread '{name}', {place}: {message}"),
    ];
    match LAST.get() {
        ("", _) => {}
        (command, 1) => {
            lines.push(format!("the last command of this thread: {command}, with 1 argument"))
        }
        (command, count) => {
            lines.push(format!(
                "the last command of this thread: {command}, with {count} arguments"
            ));
        }
    }
    let frames = Backtrace::force_capture().to_string();
    lines.extend(frames.lines().take(FRAME_LINES_MAX).map(str::to_owned));
    lines.push(
        "what was acknowledged is as durable as before: start the server again, and report this"
            .to_owned(),
    );
    lines.into_iter().map(|line| format!("=== CRASH REPORT === {line}")).collect()
}

//! `daemonize yes`: the server goes to the background, and its parent says how that went.
//!
//! ```text
//!   parent ── spawns ──► child, its standard error a pipe to the parent
//!     │                    │  error texts, until it serves clients; then a zero byte,
//!     │ ◄── pipe ──────────┘  and its standard error is /dev/null
//!     └─ zero byte: exit code 0 · the end without one: the texts, exit code 1
//! ```

use std::fs::File;
use std::io::{Read as _, Write as _, stderr};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Once;

/// Set in the environment of a server that has gone to the background already.
const MARK: &str = "INDELIBLE_DAEMON";

/// What a child says that serves clients.
const READY: u8 = 0;

/// Whether this process is the child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the server again out of this terminal's reach, and waits until it serves clients or has
/// ended; the exit code.
pub(crate) fn start(arguments: &[String]) -> ExitCode {
    let started = std::env::current_exe().and_then(|program| {
        Command::new(program)
            // The program may be called redis-server, which needs no such argument.
            .arg0("indelible")
            .arg("server")
            .args(arguments)
            .env(MARK, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    });
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cannot go to the background: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut said = Vec::new();
    if let Some(pipe) = child.stderr.take() {
        for byte in std::io::BufReader::new(pipe).bytes() {
            match byte {
                Ok(READY) => return ExitCode::SUCCESS,
                Ok(byte) => said.push(byte),
                Err(_) => break,
            }
        }
    }
    // Its end of the pipe is closed: it has ended, or is about to.
    let _ignored = child.wait();
    let _ignored = stderr().write_all(&said);
    ExitCode::FAILURE
}

/// Tells the parent that clients are served.
pub(crate) fn report_ready() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A parent that was killed hears nothing, and the server goes on.
        let _ignored = stderr().write_all(&[READY]);
        if let Ok(nothing) = File::options().write(true).open("/dev/null") {
            let _ignored = rustix::stdio::dup2_stderr(nothing);
        }
    });
}

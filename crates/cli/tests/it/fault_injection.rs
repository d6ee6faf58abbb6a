//! System calls of one thread that fail or are slow, by `strace`.
//!
//! A [`Fault`] is an `strace` that is attached to a thread of a running server and replaces what its system
//! calls do: `fdatasync:error=EIO` makes each fail without being carried out, `fdatasync:delay_enter=50000`
//! makes each take 50 ms longer. Dropping it ends the fault. Only that thread is traced, so the others
//! are as fast as ever; `flusher-0` is the one that writes to the first device.
//!
//! Where `strace` is not installed, or may not trace, tests say so and are skipped.

use crate::process::{Server, wait_until};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// See the file's top.
pub(crate) struct Fault {
    tracer: Child,
}

impl Fault {
    /// Whether faults can be injected here; a line that says why not.
    pub(crate) fn is_possible() -> bool {
        let probe = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
        let why = match probe {
            Ok(output) if output.status.success() => return true,
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        testing::skipped("strace and the right to trace", why);
        false
    }

    /// Injects `what` into the thread called `thread`. On return it has begun.
    pub(crate) fn inject(server: &Server, thread: &str, what: &str) -> Fault {
        let (call, _) = what.split_once(':').unwrap();
        let mut command = Command::new("strace");
        command.arg("-p").arg(thread_number(server, thread));
        command.args(["-e", &format!("trace={call}"), "-e", &format!("inject={what}")]);
        let mut tracer =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("just probed");
        let mut said = BufReader::new(tracer.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("attached"), "strace says: {line}");
        // It must not be held up when its traces are not read.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Fault { tracer }
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // Killed with SIGKILL it might leave the thread stopped; SIGTERM makes it detach first.
        let pid = self.tracer.id().to_string();
        let _gone_already = Command::new("kill").args(["-TERM", &pid]).status();
        let _gone_already = self.tracer.wait();
    }
}

/// The number of the server's thread with this name, which it may have only just begun.
fn thread_number(server: &Server, name: &str) -> String {
    let mut number = None;
    wait_until(|| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        let is_it = |task: &PathBuf| {
            let comm = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
            comm.trim() == name
        };
        number = tasks.map(|task| task.unwrap().path()).find(is_it);
        number.is_some()
    });
    number.unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

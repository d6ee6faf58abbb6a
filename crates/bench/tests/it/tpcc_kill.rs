//! `indelible-bench tpcc`, killed in the middle: its data can be opened, and TPC-C's conditions
//! hold.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a run must have written before it is killed, in addition to its copy of the loaded data. It
/// covers a new segment of the log, many commits, and checkpoints.
const WRITTEN_BYTES: u64 = 24 << 20;

/// After this time, a process counts as stuck, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn tpcc(dir: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible-bench"));
    command.args(["tpcc", "--tiny", "--warehouses", "2", "--pool-mb", "2", "--dir"]);
    command.arg(dir).args(options).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A process that is killed when this is dropped, also by a failing test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Returns the total length of all files below a directory.
fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let bytes = entries.map(|entry| match entry.metadata().unwrap() {
        found if found.is_dir() => bytes_below(&entry.path()),
        found => found.len(),
    });
    bytes.sum()
}

fn written_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn a_killed_run_of_tpcc_recovers_with_its_conditions_true() {
    for (engine, commit) in [("pages", "immediate"), ("pages", "group"), ("pages-flush", "group")] {
        let dir = tempfile::tempdir().unwrap();
        let run = ["--engine", engine, "--commit", commit];
        assert!(tpcc(dir.path(), &run).arg("--load-only").status().unwrap().success());
        let wanted_bytes = bytes_below(dir.path()) + WRITTEN_BYTES;
        let mut endless = tpcc(dir.path(), &run);
        endless.args(["--seconds", "600", "--threads", "2"]);
        let mut child = Killed(endless.spawn().unwrap());
        let began = Instant::now();
        while written_bytes(child.0.id()) < wanted_bytes {
            assert!(child.0.try_wait().unwrap().is_none(), "{engine} ended by itself");
            assert!(began.elapsed() < PATIENCE, "{engine} writes too little");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(child);

        let json = dir.path().join("recovery.json");
        let json_text = json.to_str().unwrap();
        let recovered = tpcc(dir.path(), &run)
            .args(["--recover", "--threads", "2", "--json", json_text])
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&recovered.stderr);
        assert!(recovered.status.success(), "{engine}, {commit}: {complaint}");
        let text = std::fs::read_to_string(&json).unwrap();
        assert!(text.contains("first_transaction_ms"), "{text}");
    }
}

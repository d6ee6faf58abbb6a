//! Starts the lives of a database, kills them, and takes down what they say.
//!
//! ```text
//!   filled-KxR/   log, tree, newest, index: made once
//!        │ copied
//!        ▼
//!   run/   life 1 ─ kill -9 ─► life 2 …     each a process of this program
//! ```

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::scheme::Part;
use super::timeline::SinceExec;
use super::{Arguments, Role};
use crate::error::{Error, Result};

/// 100 ms of a life, up to `ms` after the exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Step {
    pub(super) ms: u64,
    pub(super) requests: u64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) max_us: u64,
    pub(super) restored: u64,
}

/// What a life has said.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) steps: Vec<Step>,
    events: Vec<(String, u64)>,
}

impl Told {
    /// The number of an event.
    pub(super) fn event(&self, name: &str) -> Option<u64> {
        self.events.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let kind = words.next()?;
        let name = if kind == "event" { words.next()? } else { "" };
        let numbers: Vec<u64> =
            words.map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
        match (kind, &numbers[..]) {
            ("event", [number]) => self.events.push((name.to_owned(), *number)),
            ("step", &[ms, requests, p50_us, p99_us, max_us, restored]) => {
                self.steps.push(Step { ms, requests, p50_us, p99_us, max_us, restored });
            }
            _ => return None,
        }
        Some(())
    }
}

/// When a life is killed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// Never: it ends by itself.
    End,
    /// When it has told of this.
    Event(&'static str),
    /// So long after it has told of this, when some request was answered.
    After(&'static str, Duration),
}

/// A process that is killed when this is dropped.
struct Life(Child);

impl Drop for Life {
    fn drop(&mut self) {
        // One that has ended by itself is gone.
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Runs this program as `role` in `dir`, until the end or until it is killed.
pub(super) fn live(arguments: &Arguments, role: Role, dir: &Path, until: Until) -> Result<Told> {
    let program = std::env::current_exe().map_err(Error::file(Path::new("/proc/self/exe")))?;
    let exec_us = SinceExec::now_us();
    let mut command = Command::new(&program);
    command.args(arguments.for_life(role, dir, exec_us));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut life = Life(command.spawn().map_err(Error::file(&program))?);
    let out = life.0.stdout.take().expect("it was asked for");
    let mut told = Told::default();
    let mut told_at = None;
    for line in BufReader::new(out).lines() {
        let line = line.map_err(Error::file(&program))?;
        told.take(&line).ok_or_else(|| Error::damaged(format!("a life has said: {line}")))?;
        let has_replied = || told.steps.iter().any(|step| step.requests > 0);
        let is_over = match until {
            Until::End => false,
            Until::Event(name) => told.event(name).is_some(),
            Until::After(name, time) => {
                if told_at.is_none() && told.event(name).is_some() {
                    told_at = Some(Instant::now());
                }
                told_at.is_some_and(|at| at.elapsed() >= time) && has_replied()
            }
        };
        if is_over {
            return Ok(told);
        }
    }
    let status = life.0.wait().map_err(Error::file(&program))?;
    match until {
        Until::End if status.success() => Ok(told),
        _ => Err(Error::engine("recovery")(&format!("{role:?} has ended early: {status}"))),
    }
}

/// Makes the filled database as far as it is missing. Returns its directory.
pub(super) fn fill(arguments: &Arguments) -> Result<PathBuf> {
    let (keys, records) = (arguments.keys, arguments.records());
    let dir = arguments.dir.join(format!("filled-{keys}x{records}"));
    let log = Part::Log.dir(&dir);
    if !log.exists() {
        let unfinished = dir.join("filling");
        let _missing = std::fs::remove_dir_all(&unfinished);
        std::fs::create_dir_all(&unfinished).map_err(Error::file(&unfinished))?;
        live(arguments, Role::Fill, &unfinished, Until::Event("filled"))?;
        std::fs::rename(Part::Log.dir(&unfinished), &log).map_err(Error::file(&log))?;
    }
    live(arguments, Role::Index, &dir, Until::End)?;
    Ok(dir)
}

/// Copies what the scheme needs of the filled database to where it lives.
pub(super) fn copy(arguments: &Arguments, filled: &Path) -> Result<PathBuf> {
    let dir = arguments.dir.join("run");
    let _missing = std::fs::remove_dir_all(&dir);
    for part in arguments.scheme.parts() {
        copy_dir(&part.dir(filled), &part.dir(&dir))?;
    }
    // Else the first life would share the disk with it.
    rustix::fs::sync();
    Ok(dir)
}

fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).map_err(Error::file(to))?;
    for entry in std::fs::read_dir(from).map_err(Error::file(from))? {
        let entry = entry.map_err(Error::file(from))?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_dir(&from, &to)?;
        } else {
            std::fs::copy(&from, &to).map_err(Error::file(&from))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_understood_or_refused() {
        let mut told = Told::default();
        told.take("event serving_ms 12").unwrap();
        told.take("step 100 5 1 2 3 4").unwrap();
        assert_eq!(told.event("serving_ms"), Some(12));
        assert_eq!(told.event("restored_ms"), None);
        let step = Step { ms: 100, requests: 5, p50_us: 1, p99_us: 2, max_us: 3, restored: 4 };
        assert_eq!(told.steps, [step]);
        assert!(told.take("step 100 5").is_none() && told.take("thread panicked").is_none());
    }
}

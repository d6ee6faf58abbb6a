//! What was written and acknowledged, in a file that the death of the process leaves behind.
//!
//! ```text
//!   w LSN KEY VERSION   will be durable with this block     written before the block is sealed
//!   d LSN               the client has the reply            written before it does
//! ```
//!
//! After `kill -9` the database must hold the writes of the blocks up to one LSN, which is at
//! least the last one that was acknowledged.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base::Lsn;

use crate::error::{Error, Result};

/// See the file's top.
pub(super) struct Ledger {
    path: PathBuf,
    file: File,
    lines: String,
    acknowledged: Lsn,
}

impl Ledger {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(Error::file(path))?;
        Ok(Self { path: path.to_owned(), file, lines: String::new(), acknowledged: Lsn::ZERO })
    }

    /// Notes a write that will be durable with block `lsn`.
    pub(super) fn note(&mut self, lsn: Lsn, key: u64, version: u64) {
        writeln!(self.lines, "w {} {key} {version}", lsn.0).expect("a string takes everything");
    }

    /// Notes that what waits for blocks up to `durable` is answered.
    pub(super) fn acknowledge(&mut self, durable: Lsn) -> Result<()> {
        if durable > self.acknowledged {
            self.acknowledged = durable;
            writeln!(self.lines, "d {}", durable.0).expect("a string takes everything");
            self.write()?;
        }
        Ok(())
    }

    /// Writes what was noted to the file.
    pub(super) fn write(&mut self) -> Result<()> {
        let written = self.file.write_all(self.lines.as_bytes());
        self.lines.clear();
        written.map_err(Error::file(&self.path))
    }
}

/// The states that a database may have after the death of the process that wrote the ledger.
pub(super) struct Allowed {
    state: HashMap<u64, u64>,
    writes: Vec<(u64, u64, u64)>,
    acknowledged: u64,
}

impl Allowed {
    /// Reads the ledger at `path` of a process that began with `state`: versions by key.
    pub(super) fn read(path: &Path, state: HashMap<u64, u64>) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
        let mut allowed = Self { state, writes: Vec::new(), acknowledged: 0 };
        // The last line may have been cut off.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let numbers: Vec<u64> =
                line.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect();
            match numbers[..] {
                [lsn, key, version] => allowed.writes.push((lsn, key, version)),
                [lsn] => allowed.acknowledged = lsn,
                _ => return Err(Error::damaged(format!("a line of the ledger: {line}"))),
            }
        }
        Ok(allowed)
    }

    /// How many writes were acknowledged.
    pub(super) fn acknowledged(&self) -> usize {
        self.writes.iter().filter(|(lsn, ..)| *lsn <= self.acknowledged).count()
    }

    /// Returns every state that the database may have.
    pub(super) fn states(&self) -> Vec<HashMap<u64, u64>> {
        let later = self.writes.iter().map(|(lsn, ..)| *lsn);
        let mut ends: BTreeSet<u64> = later.filter(|lsn| *lsn > self.acknowledged).collect();
        ends.insert(self.acknowledged);
        let up_to = |end: u64| {
            let mut state = self.state.clone();
            let written = self.writes.iter().filter(|(lsn, ..)| *lsn <= end);
            state.extend(written.map(|(_, key, version)| (*key, *version)));
            state
        };
        ends.into_iter().map(up_to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_whole_blocks_and_all_that_was_acknowledged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut ledger = Ledger::create(&path).unwrap();
        ledger.note(Lsn(1), 7, 10);
        ledger.write().unwrap();
        ledger.acknowledge(Lsn(1)).unwrap();
        ledger.note(Lsn(2), 7, 11);
        ledger.note(Lsn(2), 8, 12);
        ledger.write().unwrap();
        let allowed = Allowed::read(&path, HashMap::from([(7, 1), (9, 2)])).unwrap();
        assert_eq!(allowed.acknowledged(), 1);
        let states = allowed.states();
        assert_eq!(states[0], HashMap::from([(7, 10), (9, 2)]));
        assert_eq!(states[1], HashMap::from([(7, 11), (8, 12), (9, 2)]));
        assert_eq!(states.len(), 2);
    }
}

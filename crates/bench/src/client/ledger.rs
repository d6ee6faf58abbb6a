//! What was written, and which of it was answered: what a server that was killed must still have.
//!
//! ```text
//!   file: a pair of u32 (little-endian) a key: the last version that was answered, the last one sent; 0: none
//! ```

use std::path::Path;

use crate::error::{Error, Result};

/// The versions of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Versions {
    pub(super) answered: u32,
    pub(super) sent: u32,
}

/// See the file's top.
pub(super) struct Ledger {
    keys: Vec<Versions>,
}

/// What a comparison with the server's keys found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub(super) struct Comparison {
    /// Keys that are there.
    pub(super) keys: u64,
    /// Keys that lack writes that were answered.
    pub(super) keys_behind: u64,
    /// Writes that were answered and are not there.
    pub(super) writes_lost: u64,
    /// Keys in a version that was never sent.
    pub(super) wrong: u64,
}

impl Ledger {
    /// Reads the ledger at `path`, or begins one, for keys up to `keys`.
    pub(super) fn open(path: &Path, keys: u64) -> Result<Self> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::file(path)(error)),
        };
        let (pairs, _) = bytes.as_chunks::<8>();
        let mut all: Vec<Versions> = pairs.iter().map(|pair| versions(*pair)).collect();
        let keys = usize::try_from(keys).expect("keys fit in memory");
        all.resize(keys.max(all.len()), Versions::default());
        Ok(Self { keys: all })
    }

    /// Writes the ledger to `path`.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let pair = |it: &Versions| [it.answered.to_le_bytes(), it.sent.to_le_bytes()];
        let bytes: Vec<u8> = self.keys.iter().flat_map(pair).flatten().collect();
        std::fs::write(path, bytes).map_err(Error::file(path))
    }

    pub(super) fn of(&self, key: u64) -> Versions {
        self.keys[place(key)]
    }

    /// Notes a write that is about to be sent, and returns its version.
    pub(super) fn send(&mut self, key: u64) -> u32 {
        let versions = &mut self.keys[place(key)];
        versions.sent += 1;
        versions.sent
    }

    /// Notes that a write was answered. Those of one key are answered in their order.
    pub(super) fn answer(&mut self, key: u64, version: u32) {
        self.keys[place(key)].answered = version;
    }

    /// Compares a key with what the server has (0: nothing), which becomes what it must keep.
    pub(super) fn compare(&mut self, key: u64, found: u32, comparison: &mut Comparison) {
        let Versions { answered, sent } = self.of(key);
        comparison.keys += u64::from(found > 0);
        comparison.wrong += u64::from(found > sent);
        comparison.keys_behind += u64::from(found < answered);
        comparison.writes_lost += u64::from(answered.saturating_sub(found));
        self.keys[place(key)] = Versions { answered: found, sent: found };
    }
}

fn versions(pair: [u8; 8]) -> Versions {
    let [a, b, c, d, e, f, g, h] = pair;
    Versions { answered: u32::from_le_bytes([a, b, c, d]), sent: u32::from_le_bytes([e, f, g, h]) }
}

fn place(key: u64) -> usize {
    usize::try_from(key).expect("keys fit in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_answered_must_be_there_and_what_was_sent_may() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut ledger = Ledger::open(&path, 4).unwrap();
        for key in [0, 1, 1, 2, 2] {
            let version = ledger.send(key);
            if key < 2 {
                ledger.answer(key, version);
            }
        }
        ledger.save(&path).unwrap();
        let mut ledger = Ledger::open(&path, 8).unwrap();
        assert_eq!(ledger.of(1), Versions { answered: 2, sent: 2 });
        let mut comparison = Comparison::default();
        // One of two answered writes is lost; of two that were not answered one is there; nothing else is.
        for (key, found) in [(0, 1), (1, 1), (2, 1), (3, 0)] {
            ledger.compare(key, found, &mut comparison);
        }
        let expected = Comparison { keys: 3, keys_behind: 1, writes_lost: 1, wrong: 0 };
        assert_eq!(comparison, expected);
        ledger.compare(2, 2, &mut comparison);
        assert_eq!(comparison.wrong, 1);
    }
}

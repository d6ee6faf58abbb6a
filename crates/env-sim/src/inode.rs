//! One simulated file: what a reader sees, what the platter stores, and the writes in between.
//!
//! ```text
//!   write ──► cached  (reads come from here)
//!        └──► pending ── sync ──────────────► stored
//!                     └─ crash, failed sync ─► stored, in part, sector by sector
//! ```
//!
//! The unit of tearing is the sector, as on a real device: after a crash, a sector holds the state
//! after *some* write to it (or before all of them), never a mixture, because the kernel writes
//! back the cached sector. Sectors choose independently.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::entropy::SimEntropy;

/// The unit that a device writes as a whole or not at all.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// The contents of a file.
#[derive(Debug, Default)]
pub(crate) struct Inode {
    cached: Vec<u8>,
    stored: Vec<u8>,
    pending: Vec<Change>,
    /// The end of the reserved space.
    reserved: u64,
    /// The end of the last successful write.
    written: u64,
    /// The length written when the file got another name, whose reader expects it.
    kept: u64,
    /// Counts the open handles: a removed file lives as long as the last of them.
    open: Arc<()>,
}

/// A change that a sync makes durable.
#[derive(Debug, Clone)]
enum Change {
    /// `bytes` reach the platter at `lands_at`, which is their own place except after a
    /// misdirection.
    Write { lands_at: u64, bytes: Vec<u8> },
    /// The length.
    SetLen(u64),
}

/// The fate of one change in a crash.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Kept,
    Lost,
    /// A write: its first sectors only.
    Cut,
    /// A write: any of its sectors.
    Torn,
}

/// Converts a position in a simulated file to an index.
pub(crate) fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a simulated file fits in memory")
}

fn overlay(target: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let start = index(at);
    let end = start + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    target[start..end].copy_from_slice(bytes);
}

/// Splits `len` bytes at `at` into sectors: (sector, range within the bytes).
fn sectors(at: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let end = at + len as u64;
    let last = if len == 0 { at / SECTOR_BYTES } else { (end - 1) / SECTOR_BYTES + 1 };
    (at / SECTOR_BYTES..last).map(move |sector| {
        let from = (sector * SECTOR_BYTES).max(at);
        let to = ((sector + 1) * SECTOR_BYTES).min(end);
        (sector, index(from - at)..index(to - at))
    })
}

impl Inode {
    pub(crate) fn len(&self) -> u64 {
        self.cached.len() as u64
    }

    /// The bytes that the file takes from the disk's capacity.
    pub(crate) fn occupied(&self) -> u64 {
        self.len().max(self.reserved)
    }

    /// Returns the same contents, not open.
    pub(crate) fn fork(&self) -> Self {
        Self {
            cached: self.cached.clone(),
            stored: self.stored.clone(),
            pending: self.pending.clone(),
            reserved: self.reserved,
            written: self.written,
            kept: self.kept,
            open: Arc::default(),
        }
    }

    /// Returns a token that keeps the file alive while it exists.
    pub(crate) fn handle(&self) -> Arc<()> {
        Arc::clone(&self.open)
    }

    pub(crate) fn is_open(&self) -> bool {
        Arc::strong_count(&self.open) > 1
    }

    pub(crate) fn read(&self, buf: &mut [u8], at: u64) -> usize {
        let start = self.cached.len().min(usize::try_from(at).unwrap_or(usize::MAX));
        let count = buf.len().min(self.cached.len() - start);
        buf[..count].copy_from_slice(&self.cached[start..start + count]);
        count
    }

    /// Writes to `at`; a faulty device stores the bytes at `lands_at` instead.
    pub(crate) fn write(&mut self, bytes: &[u8], at: u64, lands_at: u64) {
        if bytes.is_empty() {
            return;
        }
        overlay(&mut self.cached, at, bytes);
        self.pending.push(Change::Write { lands_at, bytes: bytes.to_vec() });
    }

    /// Notes a successful write that ends here.
    pub(crate) fn note_written(&mut self, end: u64) {
        self.written = self.written.max(end);
    }

    /// Notes that the file has got another name. Zeros at its end are room for what is appended.
    pub(crate) fn note_linked(&mut self) {
        let written = &self.cached[..index(self.written).min(self.cached.len())];
        self.kept = written.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    }

    /// The end of the part that must not change while the file has another name.
    pub(crate) const fn kept(&self) -> u64 {
        self.kept
    }

    /// How many of `bytes`, from the first on, lie in that part and are there already at `at`: a log writes the
    /// beginning of a sector again when it appends. 0 if one of them differs.
    pub(crate) fn kept_as(&self, bytes: &[u8], at: u64) -> u64 {
        let count = self.kept.saturating_sub(at).min(bytes.len() as u64);
        let there = self.cached.get(index(at)..index(at + count));
        if there == Some(&bytes[..index(count)]) { count } else { 0 }
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        self.written = self.written.min(len);
        if len < self.len() {
            self.reserved = self.reserved.min(len);
        }
        self.cached.resize(index(len), 0);
        self.pending.push(Change::SetLen(len));
    }

    pub(crate) fn reserve(&mut self, end: u64) {
        self.reserved = self.reserved.max(end);
    }

    pub(crate) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                Change::Write { lands_at, bytes } => overlay(&mut self.stored, lands_at, &bytes),
                Change::SetLen(len) => self.stored.resize(index(len), 0),
            }
        }
    }

    /// Makes the last write durable, of `len` bytes to `at`, and nothing else. If it is not of whole
    /// sectors, or a length was set before it, everything is: the kernel must write that as well.
    pub(crate) fn sync_last(&mut self, len: usize, at: u64) {
        let is_whole = |value: u64| value.is_multiple_of(SECTOR_BYTES);
        let sets_len = |change: &Change| matches!(change, Change::SetLen(_));
        if !is_whole(at) || !is_whole(len as u64) || self.pending.iter().any(sets_len) {
            return self.sync();
        }
        let last = self.pending.pop_if(|change| match change {
            Change::Write { bytes, .. } => bytes.len() == len,
            Change::SetLen(_) => false,
        });
        let Some(Change::Write { lands_at, bytes }) = last else { return self.sync() };
        let end = lands_at + bytes.len() as u64;
        // What was written there before is superseded, and must not come back by a later sync.
        let before = std::mem::take(&mut self.pending);
        for change in before {
            let Change::Write { lands_at: from, bytes: old } = change else { continue };
            let to = from + old.len() as u64;
            let head = index(lands_at.clamp(from, to) - from);
            let tail = index(end.clamp(from, to) - from);
            for (range, lands_at) in [(0..head, from), (tail..old.len(), from + tail as u64)] {
                if !range.is_empty() {
                    self.pending.push(Change::Write { lands_at, bytes: old[range].to_vec() });
                }
            }
        }
        overlay(&mut self.stored, lands_at, &bytes);
    }

    /// Fails a sync. Some of the changes are stored, all of them are forgotten, and the cache may
    /// or may not still show those that were not stored.
    pub(crate) fn fail_sync(&mut self, rng: &mut SimEntropy) {
        self.settle(rng);
        if rng.coin() {
            self.cached.clone_from(&self.stored);
        }
    }

    /// Loses power: only what is stored remains.
    pub(crate) fn crash(&mut self, rng: &mut SimEntropy) {
        self.settle(rng);
        self.cached.clone_from(&self.stored);
        self.reserved = 0;
        self.written = self.len();
    }

    /// Flips a bit on the platter, and so for every reader from now on.
    pub(crate) fn flip(&mut self, at: u64, mask: u8) -> bool {
        let at = index(at);
        for bytes in [&mut self.cached, &mut self.stored] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= mask;
            }
        }
        at < self.cached.len()
    }

    /// Decides the fate of every pending change, and applies it to the stored state.
    fn settle(&mut self, rng: &mut SimEntropy) {
        let pending = std::mem::take(&mut self.pending);
        let fates = fates(pending.len(), rng);
        // The newest change that reached each sector. The sector includes the older changes.
        let mut newest: BTreeMap<u64, usize> = BTreeMap::new();
        for (i, (change, fate)) in pending.iter().zip(&fates).enumerate() {
            if let Change::Write { lands_at, bytes } = change {
                let count = sectors(*lands_at, bytes.len()).count() as u64;
                let cut = rng.below(count + 1);
                for (nth, (sector, _)) in sectors(*lands_at, bytes.len()).enumerate() {
                    let kept = match fate {
                        Fate::Kept => true,
                        Fate::Lost => false,
                        Fate::Cut => (nth as u64) < cut,
                        Fate::Torn => rng.coin(),
                    };
                    if kept {
                        newest.insert(sector, i);
                    }
                }
            }
        }
        for (i, (change, fate)) in pending.iter().zip(&fates).enumerate() {
            match change {
                Change::Write { lands_at, bytes } => {
                    for (sector, range) in sectors(*lands_at, bytes.len()) {
                        if newest.get(&sector).is_some_and(|last| *last >= i) {
                            let at = lands_at + range.start as u64;
                            overlay(&mut self.stored, at, &bytes[range]);
                        }
                    }
                }
                Change::SetLen(len) => {
                    let kept = match fate {
                        Fate::Kept => true,
                        Fate::Lost => false,
                        Fate::Cut | Fate::Torn => rng.coin(),
                    };
                    if kept {
                        self.stored.resize(index(*len), 0);
                    }
                }
            }
        }
    }
}

/// Chooses fates for `count` changes in order: all lost, all kept, a prefix kept, or each
/// independently.
fn fates(count: usize, rng: &mut SimEntropy) -> Vec<Fate> {
    match rng.below(6) {
        0 => vec![Fate::Lost; count],
        1 => vec![Fate::Kept; count],
        2 | 3 => {
            let edge = rng.below(count as u64 + 1);
            (0..count as u64)
                .map(|i| match i.cmp(&edge) {
                    std::cmp::Ordering::Less => Fate::Kept,
                    std::cmp::Ordering::Equal => Fate::Cut,
                    std::cmp::Ordering::Greater => Fate::Lost,
                })
                .collect()
        }
        _ => (0..count)
            .map(|_| match rng.below(4) {
                0 => Fate::Kept,
                1 => Fate::Lost,
                2 => Fate::Cut,
                _ => Fate::Torn,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crashed(seed: u64, prepare: impl Fn(&mut Inode)) -> Vec<u8> {
        let mut inode = Inode::default();
        prepare(&mut inode);
        inode.crash(&mut SimEntropy::new(seed));
        inode.stored
    }

    #[test]
    fn synced_bytes_survive_every_crash() {
        for seed in 0..200 {
            let stored = crashed(seed, |inode| {
                inode.write(&[7; 700], 0, 0);
                inode.sync();
                inode.write(&[8; 5000], 700, 700);
            });
            assert_eq!(stored[..700], [7; 700], "seed {seed}");
        }
    }

    #[test]
    fn unsynced_writes_are_lost_torn_and_reordered() {
        let (mut lost, mut kept, mut torn, mut reordered) = (0, 0, 0, 0);
        for seed in 0..500 {
            let stored = crashed(seed, |inode| {
                inode.write(&[1; 1024], 0, 0);
                inode.write(&[2; 1024], 1024, 1024);
            });
            let sector = |nth: usize| stored.get(nth * 512).copied().unwrap_or(0);
            let sectors = [sector(0), sector(1), sector(2), sector(3)];
            assert!(stored.iter().enumerate().all(|(i, byte)| *byte == sectors[i / 512]));
            match sectors {
                [0, 0, 0, 0] => lost += 1,
                [1, 1, 2, 2] => kept += 1,
                [0, 0, 2, 2] => reordered += 1,
                _ => torn += 1,
            }
        }
        assert!(lost > 20 && kept > 20 && torn > 20 && reordered > 5);
    }

    #[test]
    fn a_durable_write_makes_nothing_else_durable() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..200 {
            let stored = crashed(seed, |inode| {
                inode.write(&[0; 4096], 0, 0);
                inode.sync();
                inode.write(&[1; 1024], 512, 512);
                inode.write(&[2; 512], 1024, 1024);
                inode.sync_last(512, 1024);
            });
            assert_eq!(stored[1024..1536], [2; 512], "seed {seed}: it is durable");
            assert_eq!(stored[1536..], [0; 4096 - 1536], "seed {seed}");
            match stored[512] {
                0 => lost += 1,
                _ => kept += 1,
            }
        }
        assert!(lost > 20 && kept > 20, "{lost} {kept}");
    }

    #[test]
    fn what_a_durable_write_has_superseded_does_not_come_back() {
        let mut inode = Inode::default();
        inode.write(&[1; 2048], 0, 0);
        inode.write(&[2; 512], 512, 512);
        inode.sync_last(512, 512);
        inode.sync();
        assert_eq!((inode.stored[0], inode.stored[512], inode.stored[1024]), (1, 2, 1));
    }

    #[test]
    fn a_sector_is_never_a_mixture_of_states_it_was_not_in() {
        for seed in 0..500 {
            let stored = crashed(seed, |inode| {
                inode.write(&[1; 100], 0, 0);
                inode.write(&[2; 100], 100, 100);
            });
            assert!([0, 100, 200].contains(&stored.len()), "seed {seed}");
            assert!(stored.len() < 200 || stored[0] == 1, "seed {seed}: second without first");
        }
    }
}

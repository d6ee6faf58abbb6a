//! What a target does that none may, and what is asked of an archive then.
//!
//! A lie is found, and said: a restore comes to the state after the block that it names, or ends with an error and leaves nothing
//! that a server starts on. And what `archive::verify` calls good is.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use archive::{Folder, Keyed, Name, Point};
use base::Lsn;
use env::{Access, Disk};
use env_sim::{SimDisk, SimEntropy};
use redo::Id;
use server::config::ArchivePlace;

use crate::archives::keys_of;
use crate::far::ROOT;
use crate::run::Run;

/// One of so many objects that are put has it lie.
const ONE_IN: u64 = 12;

/// So many lists do not have what was put before, at most.
const LISTS_MAX: u64 = 40;

/// Which lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Bits of what it has turn.
    Turns,
    /// Of an object only the beginning is there.
    Tears,
    /// What it has answered for is gone some time later, or never was there.
    Forgets,
    /// What it has is not in lists, for a while.
    Hides,
    /// Lists have what is not there: not any more, or never was.
    Invents,
    /// Two objects have each other's bytes.
    Swaps,
}

impl Lie {
    pub(crate) const ALL: [Self; 6] =
        [Self::Turns, Self::Tears, Self::Forgets, Self::Hides, Self::Invents, Self::Swaps];
}

/// See the file's top.
#[derive(Debug, Clone)]
pub(crate) struct Liar {
    lie: Lie,
    rng: SimEntropy,
    /// What was put, in order, where that is.
    put: Vec<PathBuf>,
    /// What lists do not have, so many times.
    hidden: BTreeMap<Name, u64>,
    removed: Vec<Name>,
    lies: u64,
}

impl Liar {
    pub(crate) const fn new(lie: Lie, rng: SimEntropy) -> Self {
        let hidden = BTreeMap::new();
        Self { lie, rng, put: Vec::new(), hidden, removed: Vec::new(), lies: 0 }
    }

    pub(crate) const fn lies(&self) -> u64 {
        self.lies
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.rng.below(count) == 0
    }

    fn any<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() {
            return None;
        }
        let at = usize::try_from(self.rng.below(of.len() as u64)).expect("few");
        of.get(at).cloned()
    }

    /// An object was put.
    pub(crate) fn stored(&mut self, disk: &SimDisk, database: Id, name: &Name) {
        self.put.push(Path::new(ROOT).join(database.to_string()).join(name.to_string()));
        if self.lie == Lie::Hides && self.one_in(3) {
            self.hidden.insert(*name, 1 + self.rng.below(LISTS_MAX));
        }
        if self.one_in(ONE_IN) {
            self.put.retain(|path| disk.exists(path).unwrap_or(false));
            let has_lied = self.change(disk).expect("a disk without faults");
            self.lies += u64::from(has_lied);
        }
    }

    /// Something that is there is not what it was. Returns whether it is.
    fn change(&mut self, disk: &SimDisk) -> io::Result<bool> {
        let newest = self.put.len().saturating_sub(20);
        let (all, newest) = (self.put.clone(), self.put[newest..].to_vec());
        let some = if self.rng.coin() { &all } else { &newest };
        let Some(path) = self.any(some) else { return Ok(false) };
        let bytes = read(disk, &path)?;
        if bytes.is_empty() {
            return Ok(false);
        }
        match self.lie {
            Lie::Turns => {
                for _ in 0..=self.rng.below(3) {
                    let at = self.rng.below(bytes.len() as u64);
                    disk.flip_bit(&path, at, u8::try_from(self.rng.below(8)).expect("eight"));
                }
                // Two may have been the same.
                Ok(read(disk, &path)? != bytes)
            }
            Lie::Tears => {
                let len = usize::try_from(self.rng.below(bytes.len() as u64)).expect("small");
                replace(disk, &path, &bytes[..len]).map(|()| true)
            }
            Lie::Forgets => disk.remove(&path).map(|()| true),
            Lie::Swaps => {
                let others: Vec<PathBuf> =
                    all.into_iter().filter(|other| other.parent() == path.parent()).collect();
                let Some(other) = self.any(&others) else { return Ok(false) };
                let swapped = read(disk, &other)?;
                replace(disk, &path, &swapped)?;
                replace(disk, &other, &bytes)?;
                Ok(swapped != bytes)
            }
            Lie::Hides | Lie::Invents => Ok(false),
        }
    }

    /// An object was removed.
    pub(crate) fn removed(&mut self, name: &Name) {
        if self.lie == Lie::Invents {
            self.removed.push(*name);
        }
    }

    /// What it says that there is.
    pub(crate) fn listed(&mut self, folder: Folder, mut names: Vec<Name>) -> Vec<Name> {
        let there = names.len();
        names.retain(|name| match self.hidden.get_mut(name) {
            Some(0) | None => true,
            Some(left) => {
                *left -= 1;
                false
            }
        });
        if self.lie == Lie::Invents && self.one_in(ONE_IN) {
            names.extend(self.invented(folder, &names).filter(|name| !names.contains(name)));
            names.sort_unstable();
        }
        self.lies += u64::from(names.len() != there);
        names
    }

    fn invented(&mut self, folder: Folder, names: &[Name]) -> Option<Name> {
        let removed: Vec<Name> =
            self.removed.iter().copied().filter(|name| name.folder() == folder).collect();
        if self.rng.coin() && !removed.is_empty() {
            return self.any(&removed);
        }
        let more = 1 + self.rng.below(4);
        Some(match self.any(names)? {
            Name::Log { first, last, writer } => match self.rng.coin() {
                true => Name::Log { first: last.next(), last: Lsn(last.0 + more), writer },
                false => Name::Log { first, last: Lsn(last.0 + more), writer },
            },
            Name::Writer { writer } => Name::Writer { writer: writer + more },
            Name::Begin { lsn, writer } => Name::Begin { lsn: Lsn(lsn.0 + more), writer },
            Name::Base { fill, index } => Name::Base { fill, index: index + 1 },
            Name::Whole { mut fill, objects } => {
                fill.lsn = Lsn(fill.lsn.0 + more);
                Name::Whole { fill, objects }
            }
            Name::Thin { first, last, from, to, tidier } => {
                Name::Thin { first, last, from, to: Lsn(to.0 + more), tidier }
            }
            other => other,
        })
    }
}

pub(crate) fn read(disk: &SimDisk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).expect("small")];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn replace(disk: &SimDisk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    disk.remove(path)?;
    let file = disk.create(path)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()?;
    disk.sync_dir(path.parent().expect("a folder"))
}

impl Run {
    /// All local disks are gone, and the archive was on a machine that has lied.
    ///
    /// # Errors
    /// What is wrong and was passed off as good.
    pub(crate) fn doubt_everything(&mut self, place: &ArchivePlace) -> Result<(), String> {
        let copy = self.far.fork();
        copy.be_well();
        copy.power_up();
        let known = Keyed::new(Box::new(copy.directory()), keys_of(place));
        let Ok(database) = archive::database_of(&known, None) else { return Ok(()) };
        let lying = Keyed::new(Box::new(copy), keys_of(place));
        let last = self.ledger.last();
        for round in 0..3 {
            let point = match round {
                0 => Point::Latest,
                _ => Point::Lsn(self.rng.below(last.0 + 2)),
            };
            match self.bring_back(&lying, point)? {
                Ok(back) => self.judge_back(&lying, &back)?,
                Err(error) => {
                    self.note(|| format!("a liar's archive is not restored: {error}"));
                    self.tally.lies_found += 1;
                }
            }
        }
        let verified = archive::verify(&known, database, &mut |_, _| {});
        let verified = verified.map_err(|error| format!("ARCHIVE: {error}"))?;
        if !verified.errors.is_empty() || !verified.locked.is_empty() {
            self.tally.lies_found += 1;
            return Ok(());
        }
        for _ in 0..verified.ranges.len().min(2) {
            let at = usize::try_from(self.rng.below(verified.ranges.len() as u64)).expect("few");
            let range = &verified.ranges[at];
            let lsn = Lsn(range.first.0 + self.rng.below(range.last.0 - range.first.0 + 1));
            self.tally.lies_survived += 1;
            let back = self.bring_back(&known, Point::Lsn(lsn.0))?;
            let back = back.map_err(|error| format!("ARCHIVE: verified, and then {error}"))?;
            self.judge_back(&known, &back)?;
        }
        Ok(())
    }
}

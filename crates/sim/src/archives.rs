//! The archive of the log, and whether it has what it says when nothing else is left.
//!
//! ```text
//!   engine ─► archiver, stepped between everything else ─► Far: a target that does not always answer
//!                │ blocks a to b can be restored                  │ all local disks are gone
//!                ▼                                                ▼
//!            told ──────── any of them ─► archive::restore ─► a start on it ── equal to the ledger, entry by entry
//! ```
//!
//! The target loses calls before or after they have had their effect, does some later and some twice, and is
//! away for a while. It outlives every life of the server.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use archive::{
    ArchiveStep, Archiver, Directory, Folder, KEY_BYTES, Key, Keyed, Keys, Name, Object,
    ObjectReader, Picture, Point, Put, Request, Target, TargetError, TargetResult,
};
use base::{DbId, Lsn, RecordKind};
use env::Disk;
use env_sim::{Faults, SimDisk, SimEntropy};
use keyspace::{Identity, KeyHasher};
use redo::Id;
use redo::manifest::Manifest;
use server::archive_threads::ArchiveRunner;
use server::config::ArchivePlace;

use crate::instant::copy_of;
use crate::life::Life;
use crate::machine::data_dir;
use crate::run::Run;
use crate::thinning::{Kept, TIDY_SEEDS};
use crate::wiretap::lock;

/// Runs from this seed on are archived.
pub(crate) const ARCHIVE_SEEDS: u64 = 12_000_000_000;

/// How many steps an archiver takes at most to end.
const STEPS_MAX: usize = 100_000;

/// Where the log is archived, how it is compressed, and the files of its keys.
pub(crate) fn archive_of(seed: u64) -> [&'static str; 3] {
    let archive = if seed < ARCHIVE_SEEDS { "" } else { "file:///archive" };
    let compression = if seed % 4 == 3 { "none" } else { "zstd:1" };
    let key_file = if seed % 3 == 1 { "key" } else { "" };
    [archive, compression, key_file]
}

/// The keys of an archive: one, if there is a key file, whose name is as good as what it has.
pub(crate) fn keys_of(place: &ArchivePlace) -> Keys {
    Keys::new(place.key_files.iter().map(|_| Key::new([0xa5; KEY_BYTES])).collect())
}

/// Another machine, with the archive.
#[derive(Clone)]
pub(crate) struct Far(Arc<Mutex<Site>>);

struct Site {
    disk: SimDisk,
    rng: SimEntropy,
    is_away: bool,
    /// Of so many calls out of a hundred nothing is heard.
    lost_percent: u64,
    /// Objects that were sent and have not arrived yet.
    late: Vec<(Id, Name, Vec<u8>)>,
    /// What must stay.
    kept: Kept,
}

impl Far {
    pub(crate) fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed, Faults::default());
        disk.create_dir_all(Path::new("/archive")).expect("a disk without faults");
        Self::of(disk, SimEntropy::new(seed), Kept::default())
    }

    fn of(disk: SimDisk, rng: SimEntropy, kept: Kept) -> Self {
        let (is_away, lost_percent, late) = (false, 0, Vec::new());
        Self(Arc::new(Mutex::new(Site { disk, rng, is_away, lost_percent, late, kept })))
    }

    /// The same, apart from now on.
    pub(crate) fn fork(&self) -> Self {
        let site = lock(&self.0);
        Self::of(site.disk.fork(), site.rng.clone(), site.kept.clone())
    }

    /// Does something with what must stay.
    pub(crate) fn kept<T>(&self, what: impl FnOnce(&mut Kept) -> T) -> T {
        what(&mut lock(&self.0).kept)
    }

    /// It changes how it behaves.
    fn turn(&self) {
        let mut site = lock(&self.0);
        site.is_away = site.rng.below(4) == 0;
        site.lost_percent = site.rng.below(3) * 15;
    }

    /// It answers.
    pub(crate) fn be_well(&self) {
        let mut site = lock(&self.0);
        (site.is_away, site.lost_percent) = (false, 0);
    }

    /// What is there, for one that it answers at once.
    fn directory(&self) -> Directory {
        Directory::new(Arc::new(lock(&self.0).disk.clone()), Path::new("/archive"))
    }

    /// What is under way arrives, perhaps, and perhaps the call is heard of.
    fn call<T>(&self, call: impl Fn(&Directory) -> TargetResult<T>) -> TargetResult<T> {
        let directory = self.directory();
        let (is_lost, has_effect) = {
            let mut site = lock(&self.0);
            if !site.late.is_empty() && site.rng.below(3) == 0 {
                let (database, name, bytes) = site.late.remove(0);
                directory.put_new(database, &name, &bytes)?;
            }
            let is_lost = site.is_away || site.rng.below(100) < site.lost_percent;
            (is_lost, !site.is_away && site.rng.coin())
        };
        if !is_lost {
            return call(&directory);
        }
        if has_effect {
            let _unheard = call(&directory);
        }
        Err(TargetError::of("reach", "the archive")(std::io::ErrorKind::TimedOut.into()))
    }
}

impl Target for Far {
    fn put_new(&self, database: Id, name: &Name, bytes: &[u8]) -> TargetResult<Put> {
        let put = self.call(|directory| {
            let put = directory.put_new(database, name, bytes)?;
            if put == Put::New {
                self.kept(|kept| kept.note_put(*name, || picture_of(directory, database)));
            }
            // Twice does no harm.
            directory.put_new(database, name, bytes).map(|_| put)
        });
        let mut site = lock(&self.0);
        if put.is_err() && !site.is_away && site.rng.below(3) == 0 {
            site.late.push((database, *name, bytes.to_vec()));
        }
        put
    }

    fn open(&self, database: Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        self.call(|directory| directory.open(database, name))
    }

    fn list(&self, database: Id, folder: Folder) -> TargetResult<Vec<Name>> {
        self.call(|directory| directory.list(database, folder))
    }

    fn remove(&self, database: Id, name: &Name) -> TargetResult<()> {
        self.call(|directory| {
            directory.remove(database, name)?;
            self.kept(|kept| kept.note_removed(name, || picture_of(directory, database)));
            Ok(())
        })
    }

    fn clean(&self, database: Id, folders: &[Folder]) -> TargetResult<()> {
        self.call(|directory| directory.clean(database, folders))
    }

    fn databases(&self) -> TargetResult<Vec<Id>> {
        self.call(Target::databases)
    }
}

/// What a target that answers has.
fn picture_of(directory: &Directory, database: Id) -> Picture {
    Picture::read(directory, database).expect("a disk without faults")
}

/// The threads that archive, as step machines.
#[derive(Clone)]
pub(crate) struct Archivers {
    archivers: Arc<Mutex<Vec<Archiver>>>,
    far: Far,
}

impl Archivers {
    pub(crate) fn new(far: Far) -> Self {
        Self { archivers: Arc::default(), far }
    }

    /// One of them does something.
    pub(crate) fn step(&self, rng: &mut SimEntropy) {
        let mut archivers = lock(&self.archivers);
        if archivers.is_empty() {
            return;
        }
        let at = usize::try_from(rng.below(archivers.len() as u64)).expect("few");
        if archivers[at].step() == ArchiveStep::Finished {
            drop(archivers.swap_remove(at));
        }
    }
}

impl ArchiveRunner for Archivers {
    fn target(&self, place: &ArchivePlace) -> archive::Result<Box<dyn Target>> {
        Ok(Box::new(Keyed::new(Box::new(self.far.clone()), keys_of(place))))
    }

    fn run(&mut self, archiver: Archiver) -> std::io::Result<()> {
        lock(&self.archivers).push(archiver);
        Ok(())
    }

    fn finish(&mut self, _: Duration) {
        for mut archiver in lock(&self.archivers).drain(..) {
            let is_over = (0..STEPS_MAX).any(|_| archiver.step() == ArchiveStep::Finished);
            assert!(is_over, "an archiver that was told to end has ended");
        }
    }
}

/// Keys of which only the identity was known after a block. A restored log has another seed, so their records name
/// nothing in it.
#[derive(Default)]
struct Nameless {
    hasher: Option<KeyHasher>,
    identities: BTreeSet<(DbId, Identity)>,
}

impl Nameless {
    fn has(&self, db: DbId, key: &[u8]) -> bool {
        self.hasher.is_some_and(|hasher| self.identities.contains(&(db, hasher.identity(key))))
    }
}

impl Life<'_> {
    /// Archivers do something, and say what they have done.
    pub(crate) fn step_archivers(&mut self) -> Result<(), String> {
        if self.machine.archivers.is_none() {
            return Ok(());
        }
        if self.run.rng.below(60) == 0 {
            self.run.far.turn();
        }
        for _ in 0..self.run.rng.below(6) {
            self.step_archiver();
        }
        self.note_archived()
    }

    /// An archiver does something.
    pub(crate) fn step_archiver(&mut self) {
        if let Some(archivers) = &self.machine.archivers {
            archivers.step(&mut self.run.rng);
        }
    }

    /// Notes what archivers say that they have done.
    pub(crate) fn note_archived(&mut self) -> Result<(), String> {
        if self.run.is_betrayed {
            return Ok(());
        }
        let figures = self.machine.engine.archived();
        let told = (figures.restorable_from, figures.archived);
        if figures.archived > Lsn::ZERO && self.run.archived.last() != Some(&told) {
            self.run.note(|| format!("ARCHIVED: blocks {} to {}", told.0, told.1));
            self.run.archived.push(told);
        }
        if figures.archived > Lsn::ZERO {
            self.run.far.kept(|kept| kept.note_told(told));
        }
        self.run.judge_kept()
    }
}

impl Run {
    /// All local disks are gone: what was told to be archived is restored from the archive alone, and something else that
    /// it has.
    ///
    /// # Errors
    /// What is missing, or is another state.
    pub(crate) fn lose_everything(&mut self) -> Result<(), String> {
        let kept = self.far.kept(|kept| kept.blocks());
        if self.archived.is_empty() && kept.is_empty() {
            return Ok(());
        }
        let options = self.configs[usize::from(self.policy)].options();
        let Some(place) = options.log.archive.place else { return Ok(()) };
        let far = Keyed::new(Box::new(self.far.directory()), keys_of(&place));
        let failed = |error: &dyn std::fmt::Display| format!("ARCHIVE: {error}");
        let database = archive::database_of(&far, None).map_err(|error| failed(&error))?;
        let picture = Picture::read(&far, database).map_err(|error| failed(&error))?;
        if self.plan.seed >= TIDY_SEEDS {
            // What was told before may have been thinned out; what was told last is all there.
            let told = self.archived.last().copied();
            let range = |(from, last)| picture.range_of(last).filter(|range| range.first <= from);
            if let Some(told) = told.filter(|told| range(*told).is_none()) {
                return Err(format!("ARCHIVE: {told:?} was told of, and is not there"));
            }
            if let Some(what) = self.far.kept(|kept| kept.missing(&picture)) {
                return Err(format!("ARCHIVE: {what}"));
            }
            self.archived.drain(..self.archived.len().saturating_sub(1));
        }
        for (from, last) in &self.archived {
            for lsn in [*from, *last, Lsn(u64::midpoint(from.0, last.0))] {
                if picture.chain(lsn).is_none() {
                    return Err(format!("ARCHIVE: block {lsn} was told of, and is not there"));
                }
            }
        }
        let newest = self.archived.last().map(|(_, last)| *last);
        let mut wanted: Vec<Lsn> = newest.into_iter().collect();
        for _ in 0..2 {
            let at = usize::try_from(self.rng.below(picture.ranges.len() as u64)).expect("few");
            let range = &picture.ranges[at];
            wanted.push(Lsn(range.first.0 + self.rng.below(range.last.0 - range.first.0 + 1)));
        }
        for _ in 0..kept.len().min(2) {
            wanted.push(kept[usize::try_from(self.rng.below(kept.len() as u64)).expect("few")]);
            self.tally.kept_restored += 1;
        }
        for lsn in wanted.into_iter().filter(|lsn| *lsn > Lsn::ZERO) {
            let into = Path::new("/far");
            let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(self.rng.next(), Faults::default()));
            let point = Point::Lsn(lsn.0);
            let expiry = redo::Expiry::Absolute;
            let request = Request {
                target: &far,
                database: None,
                into: Some(into),
                point,
                expiry,
                threads: NonZero::<usize>::MIN,
                keep_bytes: 1,
            };
            let mut entropy = SimEntropy::new(self.rng.next());
            archive::restore(&disk, &request, &mut entropy, &mut |_| {})
                .map_err(|error| format!("ARCHIVE: block {lsn}: {error}"))?;
            let keyspace = self.start_restored(disk, into, lsn, entropy)?;
            let nameless = self.nameless(&far, database, lsn)?;
            let found = crate::picture::Picture::of(&keyspace)
                .without(|(db, key)| nameless.has(keyspace.database_id(*db), key));
            self.ledger.judge_restored(lsn, &found).map_err(|what| format!("ARCHIVE: {what}"))?;
            self.tally.archived_restored += 1;
        }
        Ok(())
    }

    /// The keys that had no names any more after a block. The archive has the records that have named them, perhaps: then they
    /// come back with the values that damage has taken.
    fn nameless(&self, far: &dyn Target, database: Id, lsn: Lsn) -> Result<Nameless, String> {
        let failed = |error: &dyn std::fmt::Display| format!("ARCHIVE: {error}");
        let picture = Picture::read(far, database).map_err(|error| failed(&error))?;
        let chain = picture.chain(lsn).ok_or("ARCHIVE: what was restored is not there")?;
        // The seed alone is read of the disk that is gone: the log itself may be damaged.
        let manifest = Manifest::read(&copy_of(&self.disk), &data_dir());
        let Ok(Some(manifest)) = manifest else { return Ok(Nameless::default()) };
        let hasher = KeyHasher::new(manifest.hash_seed);
        let mut identities = BTreeSet::new();
        let copy = (0..chain.objects).map(|index| Name::Base { fill: chain.fill, index });
        for name in copy.chain(chain.logs) {
            let opened = ObjectReader::open(far, database, name);
            let mut object = opened.map_err(|error| failed(&error))?;
            while let Some(block) = object.next().map_err(|error| failed(&error))? {
                if block.header.lsn > lsn {
                    break;
                }
                for record in block.records() {
                    if record.kind == RecordKind::KeyLost {
                        let identity = record.key.try_into().expect("it was checked");
                        identities.insert((record.db, identity));
                    } else if !record.kind.is_element() {
                        // Named again: deleted, or with another value.
                        identities.remove(&(record.db, hasher.identity(record.key)));
                    }
                }
            }
        }
        Ok(Nameless { hasher: Some(hasher), identities })
    }
}

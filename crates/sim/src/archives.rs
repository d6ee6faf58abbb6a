//! The archive of the log, and whether it has what it says when nothing else is left.
//!
//! ```text
//!   engine ─► archiver, stepped between everything else ─► Far: a target that does not always answer
//!                │ blocks a to b can be restored                  │ all local disks are gone
//!                ▼                                                ▼
//!            told ──────── any of them ─► archive::restore ─► a start on it ── equal to the ledger, entry by entry
//! ```
//!
//! How the target fails is in [`crate::far`]. It outlives every life of the server.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use archive::{
    ArchiveStep, Archiver, Figures, KEY_BYTES, Key, Keyed, Keys, Name, ObjectReader, Picture,
    Point, Request, Target,
};
use base::{DbId, Lsn, RecordKind};
use env::Disk;
use env_sim::{Faults, SimDisk, SimEntropy};
use keyspace::{Identity, KeyHasher, Keyspace, NoJournal};
use redo::manifest::Manifest;
use redo::{Env, Options, Recovery};
use server::archive_threads::ArchiveRunner;
use server::config::ArchivePlace;

use crate::far::Far;
use crate::instant::copy_of;
use crate::ledger::Ledger;
use crate::life::Life;
use crate::machine::data_dir;
use crate::rival::Rival;
use crate::run::Run;
use crate::thinning::thins_out;
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

/// What a server has said of the archive.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    /// Which blocks it has said to be there, first and last.
    pub(crate) blocks: Vec<(Lsn, Lsn)>,
    /// Those of them that it has put itself. Whatever another server puts, these are of its branch.
    own: Vec<(Lsn, Lsn)>,
    /// The numbers that its archivers had.
    writers: BTreeSet<u64>,
    /// Those of them that have said something.
    speakers: BTreeSet<u64>,
}

impl Told {
    /// What it says now, and what another server does. Whether that is something new.
    ///
    /// # Errors
    /// When it was put after a later writer had claimed the archive.
    pub(crate) fn note(
        &mut self,
        now: &Figures,
        other: Option<&Figures>,
        far: &Far,
    ) -> Result<bool, String> {
        if now.writer > 0 {
            self.writers.insert(now.writer);
        }
        let blocks = (now.restorable_from, now.archived);
        let before = self.blocks.last().copied();
        if now.archived == Lsn::ZERO || before == Some(blocks) {
            return Ok(false);
        }
        let later = other.map(|other| other.writer).filter(|by| *by > now.writer);
        // What it finds when it comes, and has claimed, may be a later one's: it is there.
        let is_first = self.speakers.insert(now.writer);
        let put = far.timely(now.archived, now.writer);
        let put = put.or_else(|| far.timely(now.archived, u64::MAX).filter(|_| is_first));
        match (put, later) {
            (Some(put), _) if put.writer == now.writer => self.own.push((put.first, put.last)),
            (None, Some(later)) => {
                let (late, lsn) = (now.writer, now.archived);
                return Err(format!("FENCE: writer {late} has archived {lsn}, after {later} came"));
            }
            // It has found it when it came.
            _ => {}
        }
        self.blocks.push(blocks);
        Ok(true)
    }

    /// Nothing that was said before counts any more.
    pub(crate) fn forget(&mut self) {
        self.blocks.clear();
        self.own.clear();
    }

    fn has_put(&self, lsn: Lsn) -> bool {
        self.own.iter().any(|(first, last)| *first <= lsn && lsn <= *last)
    }
}

/// What was said of the archive.
#[derive(Default)]
pub(crate) struct Archived {
    pub(crate) told: Told,
    /// The other server that writes to it.
    pub(crate) rival: Option<Box<Rival>>,
}

impl Archived {
    /// Whose state a block is after: that of each server that has put it and told of it, and otherwise that of the one whose
    /// archiver has put what ends with it. `ledger` is that of the first server.
    ///
    /// A server that has found the other one's blocks, and could not compare them, says that they are there, which is so.
    pub(crate) fn owners<'a>(
        &'a self,
        ledger: &'a Ledger,
        picture: &Picture,
        lsn: Lsn,
    ) -> Vec<&'a Ledger> {
        let Some(rival) = self.rival.as_deref() else { return vec![ledger] };
        let both = [(&self.told, ledger), (&rival.told, &rival.ledger)];
        let owners = both.into_iter().filter(|(told, _)| told.has_put(lsn));
        let owners: Vec<&Ledger> = owners.map(|(_, ledger)| ledger).collect();
        if !owners.is_empty() {
            return owners;
        }
        let Some(chain) = picture.chain(lsn) else { return Vec::new() };
        let writer = chain.logs.last().map_or(chain.fill.writer, Name::writer);
        vec![if rival.told.writers.contains(&writer) { &rival.ledger } else { ledger }]
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
        self.note_archived()?;
        Rival::take_turn(self.run, &self.machine, !self.is_impaired && !self.is_dead)
    }

    /// An archiver does something.
    pub(crate) fn step_archiver(&mut self) {
        if let Some(archivers) = &self.machine.archivers {
            archivers.step(&mut self.run.rng);
        }
    }

    /// Notes what archivers say that they have done.
    pub(crate) fn note_archived(&mut self) -> Result<(), String> {
        let run = &mut *self.run;
        if run.is_betrayed || run.far.lies() > 0 {
            return Ok(());
        }
        let figures = self.machine.engine.archived();
        let other = run.archived.rival.as_ref().map(|rival| rival.figures());
        if run.archived.told.note(&figures, other.as_ref(), &run.far)? {
            run.note(|| {
                let (from, last) = (figures.restorable_from, figures.archived);
                format!("ARCHIVED: blocks {from} to {last}")
            });
        }
        if figures.archived > Lsn::ZERO {
            let told = (figures.restorable_from, figures.archived);
            run.far.kept(|kept| kept.note_told(told));
        }
        run.judge_kept()
    }
}

/// What was restored from an archive, and a server has started on.
pub(crate) struct Back {
    pub(crate) lsn: Lsn,
    keyspace: Keyspace<NoJournal>,
}

impl Run {
    /// All local disks are gone: what was told to be archived is restored from the archive alone, and something else that
    /// it has; and what it does not have is refused.
    ///
    /// # Errors
    /// What is missing, or is another state.
    pub(crate) fn lose_everything(&mut self) -> Result<(), String> {
        let options = self.configs[usize::from(self.policy)].options();
        let Some(place) = options.log.archive.place else { return Ok(()) };
        if self.far.lies() > 0 {
            return self.doubt_everything(&place);
        }
        let kept = self.far.kept(|kept| kept.blocks());
        let rivals = self.archived.rival.as_ref().map(|rival| rival.told.blocks.clone());
        let rivals = rivals.unwrap_or_default();
        if self.archived.told.blocks.is_empty() && kept.is_empty() && rivals.is_empty() {
            return Ok(());
        }
        self.far.power_up();
        let far = Keyed::new(Box::new(self.far.directory()), keys_of(&place));
        let failed = |error: &dyn std::fmt::Display| format!("ARCHIVE: {error}");
        let database = archive::database_of(&far, None).map_err(|error| failed(&error))?;
        let picture = Picture::read(&far, database).map_err(|error| failed(&error))?;
        if thins_out(self.plan.seed) {
            // What was told before may have been thinned out; what was told last is all there.
            let told = self.archived.told.blocks.last().copied();
            let range = |(from, last)| picture.range_of(last).filter(|range| range.first <= from);
            if let Some(told) = told.filter(|told| range(*told).is_none()) {
                return Err(format!("ARCHIVE: {told:?} was told of, and is not there"));
            }
            if let Some(what) = self.far.kept(|kept| kept.missing(&picture)) {
                return Err(format!("ARCHIVE: {what}"));
            }
            let told = &mut self.archived.told.blocks;
            told.drain(..told.len().saturating_sub(1));
        }
        for (from, last) in self.archived.told.blocks.iter().chain(&rivals) {
            for lsn in [*from, *last, Lsn(u64::midpoint(from.0, last.0))] {
                if picture.chain(lsn).is_none() {
                    return Err(format!("ARCHIVE: block {lsn} was told of, and is not there"));
                }
            }
        }
        let own = self.archived.told.own.last().filter(|_| !thins_out(self.plan.seed));
        let told = [self.archived.told.blocks.last(), rivals.last(), own];
        let mut wanted: Vec<Lsn> = told.into_iter().flatten().map(|(_, last)| *last).collect();
        wanted.dedup();
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
            let back = self.bring_back(&far, Point::Lsn(lsn.0))?;
            let back = back.map_err(|error| format!("ARCHIVE: block {lsn}: {error}"))?;
            self.judge_of_owners(&picture, &far, &back)?;
            self.tally.archived_restored += 1;
        }
        self.refuse_what_is_not_there(&far, &place)
    }

    /// Restores from an archive alone, and starts on what was made.
    ///
    /// # Errors
    /// When what was restored is no log to start on, or what was not is one.
    pub(crate) fn bring_back(
        &mut self,
        far: &dyn Target,
        point: Point,
    ) -> Result<archive::Result<Back>, String> {
        let into = Path::new("/far");
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(self.rng.next(), Faults::default()));
        let expiry = redo::Expiry::Absolute;
        let request = Request {
            target: far,
            database: None,
            into: Some(into),
            point,
            expiry,
            threads: NonZero::<usize>::MIN,
            keep_bytes: 1,
        };
        let mut entropy = SimEntropy::new(self.rng.next());
        match archive::restore(&disk, &request, &mut entropy, &mut |_| {}) {
            Ok(restored) => {
                let lsn = restored.parent.lsn;
                let keyspace = self.start_restored(disk, into, lsn, entropy)?;
                Ok(Ok(Back { lsn, keyspace }))
            }
            Err(error) => match self.starts(&disk, into) {
                false => Ok(Err(error)),
                true => Err(format!("ARCHIVE: not restored, and a server starts on it: {error}")),
            },
        }
    }

    /// Whether a server starts on what a restore has left.
    fn starts(&self, disk: &Arc<dyn Disk>, into: &Path) -> bool {
        let env = Env {
            disk: Arc::clone(disk),
            clock: Arc::new(self.clock.clone()),
            entropy: Box::new(SimEntropy::new(0)),
            waker: Arc::new(|| {}),
        };
        let is_there = disk.exists(into).expect("a disk without faults");
        is_there && Recovery::open(env, Options::new(into)).is_ok()
    }

    /// What is wrong with what was restored of this server's archive.
    pub(crate) fn judge_back(&self, far: &dyn Target, back: &Back) -> Result<(), String> {
        self.judge_by(&self.ledger, far, back)
    }

    /// The same of an archive to which two servers write.
    pub(crate) fn judge_of_owners(
        &self,
        picture: &Picture,
        far: &dyn Target,
        back: &Back,
    ) -> Result<(), String> {
        let mut owners = self.archived.owners(&self.ledger, picture, back.lsn).into_iter();
        owners.try_for_each(|ledger| self.judge_by(ledger, far, back))
    }

    fn judge_by(&self, ledger: &Ledger, far: &dyn Target, back: &Back) -> Result<(), String> {
        let Back { lsn, keyspace } = back;
        let found = crate::picture::Picture::of(keyspace);
        if ledger.judge_restored(*lsn, &found).is_ok() {
            return Ok(());
        }
        let nameless = self.nameless(far, *lsn).unwrap_or_default();
        let found = found.without(|(db, key)| nameless.has(keyspace.database_id(*db), key));
        ledger.judge_restored(*lsn, &found).map_err(|what| format!("ARCHIVE: {what}"))
    }

    /// The keys that had no names any more after a block. The archive has the records that have named them, perhaps: then they
    /// come back with the values that damage has taken.
    fn nameless(&self, far: &dyn Target, lsn: Lsn) -> archive::Result<Nameless> {
        let database = archive::database_of(far, None)?;
        let Some(chain) = Picture::read(far, database)?.chain(lsn) else {
            return Ok(Nameless::default());
        };
        // The seed alone is read of the disk that is gone: the log itself may be damaged.
        let manifest = Manifest::read(&copy_of(&self.disk), &data_dir());
        let Ok(Some(manifest)) = manifest else { return Ok(Nameless::default()) };
        let hasher = KeyHasher::new(manifest.hash_seed);
        let mut identities = BTreeSet::new();
        let copy = (0..chain.objects).map(|index| Name::Base { fill: chain.fill, index });
        for name in copy.chain(chain.logs) {
            let mut object = ObjectReader::open(far, database, name)?;
            while let Some(block) = object.next()? {
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

//! Another machine, with the archive, and how it fails.
//!
//! | its nature | what it does beyond that | what is asked of it |
//! |---|---|---|
//! | all | loses calls before or after they have had their effect, does some later and some twice, is away for a while | everything |
//! | dies | its power fails between any two I/Os of a put, and whenever else | everything |
//! | shared | another server with the same database writes to it, too ([`crate::rival`]) | everything, of each in its own branch |
//! | lies | once in a while it does what no target may ([`crate::liar`]) | nothing wrong is passed off as good |

use std::path::Path;
use std::sync::{Arc, Mutex};

use archive::{Directory, Folder, Name, Object, Picture, Put, Target, TargetError, TargetResult};
use base::Lsn;
use env::Disk as _;
use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
use redo::Id;

use crate::liar::{Liar, Lie};
use crate::puts::{Puts, Timely};
use crate::thinning::Kept;
use crate::wiretap::lock;

/// Runs from this seed on have targets of every nature.
pub(crate) const FAR_SEEDS: u64 = 25_000_000_000;

/// Where the archives are on its disk.
pub(crate) const ROOT: &str = "/archive";

/// So many I/Os a put has at most, done twice.
const PUT_IOS: u64 = 14;

/// See the file's top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    Plain,
    Dies,
    Shared,
    Lies(Lie),
}

impl Nature {
    /// That of the run with this seed: nothing else depends on the same bits.
    pub(crate) fn of(seed: u64) -> Self {
        if seed < FAR_SEEDS {
            return Self::Plain;
        }
        match SimEntropy::new(seed).next() >> 60 {
            0..3 => Self::Plain,
            3..6 => Self::Dies,
            6..10 => Self::Shared,
            lie => Self::Lies(Lie::ALL[usize::try_from(lie - 10).expect("four bits")]),
        }
    }
}

/// See the file's top.
#[derive(Clone)]
pub(crate) struct Far(Arc<Mutex<Site>>);

#[derive(Clone)]
struct Site {
    disk: SimDisk,
    rng: SimEntropy,
    nature: Nature,
    /// It is of one of those seeds that have targets of every nature.
    is_of_some_nature: bool,
    liar: Option<Liar>,
    is_away: bool,
    /// Of so many calls out of a hundred nothing is heard.
    lost_percent: u64,
    /// Objects that were sent and have not arrived yet.
    late: Vec<(Id, Name, Vec<u8>)>,
    /// What must stay.
    kept: Kept,
    puts: Puts,
    /// How often its power has failed.
    deaths: u64,
}

impl Site {
    /// Power fails before the next put is done, perhaps.
    fn may_die(&mut self) {
        if self.nature == Nature::Dies && self.rng.below(5) == 0 {
            self.disk.crash_after(1 + self.rng.below(PUT_IOS));
        }
    }

    /// The put is over, or its machine has died of it.
    fn survive(&mut self) {
        if self.nature == Nature::Dies {
            match self.disk.is_crashed() {
                true => self.deaths += 1,
                false => self.disk.crash_after(u64::MAX / 4),
            }
        }
    }

    /// Whether there is power, which comes back one day.
    fn has_power(&mut self) -> bool {
        if self.disk.is_crashed() && self.rng.below(3) == 0 {
            self.disk.restart();
        }
        !self.disk.is_crashed()
    }
}

impl Far {
    pub(crate) fn new(seed: u64, clock: SimClock) -> Self {
        let disk = SimDisk::new(seed, Faults::default());
        disk.create_dir_all(Path::new(ROOT)).expect("a disk without faults");
        let nature = Nature::of(seed);
        let liar = match nature {
            Nature::Lies(lie) => Some(Liar::new(lie, SimEntropy::new(seed ^ 0x11a5))),
            _ => None,
        };
        let site = Site {
            disk,
            rng: SimEntropy::new(seed),
            nature,
            is_of_some_nature: seed >= FAR_SEEDS,
            liar,
            is_away: false,
            lost_percent: 0,
            late: Vec::new(),
            kept: Kept::new(seed, clock),
            puts: Puts::default(),
            deaths: 0,
        };
        Self(Arc::new(Mutex::new(site)))
    }

    /// The same, apart from now on, and nothing under way.
    pub(crate) fn fork(&self) -> Self {
        let site = lock(&self.0);
        let disk = site.disk.fork();
        let site = Site { disk, late: Vec::new(), ..site.clone() };
        Self(Arc::new(Mutex::new(site)))
    }

    /// Does something with what must stay.
    pub(crate) fn kept<T>(&self, what: impl FnOnce(&mut Kept) -> T) -> T {
        what(&mut lock(&self.0).kept)
    }

    /// By what a writer can say that a block is there: see [`Puts::of`].
    pub(crate) fn timely(&self, lsn: Lsn, writer: u64) -> Option<Timely> {
        lock(&self.0).puts.of(lsn, writer)
    }

    /// Whether its nature is one of those that later seeds have.
    pub(crate) fn is_of_some_nature(&self) -> bool {
        lock(&self.0).is_of_some_nature
    }

    /// Whether another server writes to it, too.
    pub(crate) fn is_shared(&self) -> bool {
        lock(&self.0).nature == Nature::Shared
    }

    /// How often it has lied. From the first time on nothing is known of what it has.
    pub(crate) fn lies(&self) -> u64 {
        lock(&self.0).liar.as_ref().map_or(0, Liar::lies)
    }

    /// How often its power has failed.
    pub(crate) fn deaths(&self) -> u64 {
        lock(&self.0).deaths
    }

    /// How many copies it has got that were made by what thins out.
    pub(crate) fn tidiers_copies(&self) -> u64 {
        lock(&self.0).puts.tidiers_copies
    }

    /// It changes how it behaves.
    pub(crate) fn turn(&self) {
        let mut site = lock(&self.0);
        site.is_away = site.rng.below(4) == 0;
        site.lost_percent = site.rng.below(3) * 15;
        if site.nature == Nature::Shared && site.rng.below(4) > 0 {
            // Two that both wait do nothing to each other.
            (site.is_away, site.lost_percent) = (false, 0);
        }
        if site.nature == Nature::Dies && site.rng.below(3) == 0 {
            site.disk.crash();
            site.deaths += 1;
        }
    }

    /// It answers.
    pub(crate) fn be_well(&self) {
        let mut site = lock(&self.0);
        (site.is_away, site.lost_percent) = (false, 0);
    }

    /// Its power is back.
    pub(crate) fn power_up(&self) {
        let site = lock(&self.0);
        if site.disk.is_crashed() {
            site.disk.restart();
        }
    }

    /// What is there, for one that it answers at once, and without a lie.
    pub(crate) fn directory(&self) -> Directory {
        Directory::new(Arc::new(self.disk()), Path::new(ROOT))
    }

    /// Where that is.
    pub(crate) fn disk(&self) -> SimDisk {
        lock(&self.0).disk.clone()
    }

    /// What is under way arrives, perhaps, and perhaps the call is heard of.
    fn call<T>(&self, call: impl Fn(&Directory) -> TargetResult<T>) -> TargetResult<T> {
        let unheard = || TargetError::of("reach", "the archive");
        let directory = self.directory();
        let (is_lost, has_effect) = {
            let mut site = lock(&self.0);
            if !site.has_power() {
                return Err(unheard()(std::io::ErrorKind::ConnectionRefused.into()));
            }
            if !site.late.is_empty() && site.rng.below(3) == 0 {
                let (database, name, bytes) = site.late.remove(0);
                if directory.put_new(database, &name, &bytes)? == Put::New {
                    site.puts.note(&name);
                }
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
        Err(unheard()(std::io::ErrorKind::TimedOut.into()))
    }

    /// Something was stored, removed or listed by one that may lie.
    fn lie<T>(&self, lie: impl FnOnce(&mut Liar, &SimDisk) -> T) -> Option<T> {
        let mut site = lock(&self.0);
        let disk = site.disk.clone();
        site.liar.as_mut().map(|liar| lie(liar, &disk))
    }
}

impl Target for Far {
    fn put_new(&self, database: Id, name: &Name, bytes: &[u8]) -> TargetResult<Put> {
        lock(&self.0).may_die();
        let put = self.call(|directory| {
            let put = directory.put_new(database, name, bytes)?;
            if put == Put::New {
                lock(&self.0).puts.note(name);
                self.kept(|kept| kept.note_put(*name, || picture_of(directory, database)));
                self.lie(|liar, disk| liar.stored(disk, database, name));
            }
            // Twice does no harm.
            match self.lies() {
                0 => directory.put_new(database, name, bytes).map(|_| put),
                _ => Ok(put),
            }
        });
        let mut site = lock(&self.0);
        site.survive();
        if put.is_err() && !site.is_away && site.rng.below(3) == 0 {
            site.late.push((database, *name, bytes.to_vec()));
        }
        put
    }

    fn open(&self, database: Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        self.call(|directory| directory.open(database, name))
    }

    fn list(&self, database: Id, folder: Folder) -> TargetResult<Vec<Name>> {
        let names = self.call(|directory| directory.list(database, folder))?;
        Ok(self.lie(|liar, _| liar.listed(folder, names.clone())).unwrap_or(names))
    }

    fn remove(&self, database: Id, name: &Name) -> TargetResult<()> {
        self.call(|directory| {
            directory.remove(database, name)?;
            self.lie(|liar, _| liar.removed(name));
            self.kept(|kept| kept.note_removed(name, || picture_of(directory, database)));
            Ok(())
        })
    }

    fn clean(&self, database: Id, is_such: &dyn Fn(&Name) -> bool) -> TargetResult<()> {
        self.call(|directory| directory.clean(database, is_such))
    }

    fn databases(&self) -> TargetResult<Vec<Id>> {
        self.call(Target::databases)
    }
}

/// What a target that answers has.
fn picture_of(directory: &Directory, database: Id) -> Picture {
    Picture::read(directory, database).expect("a disk without faults")
}

//! The names of keys that are not in memory, for what looks at all keys of a database.
//!
//! ```text
//!   hashes   0 ──────── from ═══════════════ end ──────── 2^64
//!                        │  one page at most │
//!   table                ●  ●     ●    ●     │   resident: visited when the command runs
//!   index                  ○  ○ ●   ○  ○     │   ○ cold: read by other threads, before
//! ```
//!
//! The table and the index have their keys in the same order, so SCAN goes over ranges of hashes, whatever
//! is in memory. A command runs when the names of its range have been read; what has left memory in between
//! is noted with the listing that is under way, and what has come back is in the table. So a key that is
//! there from the beginning to the end of a scan is visited.
//!
//! As everywhere, a name that was not read ahead is read in the middle of the command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{DbId, DbIndex, Record, RecordAddr};
use hashbrown::HashSet;

use crate::db::Db;
use crate::entry::Entry;
use crate::hasher::KeyHasher;
use crate::keyspace::Keyspace;
use crate::source::{RestoreError, Source};
use crate::table::Keyed;
use crate::value_type::{Type, entry_type, record_type};

/// So many names are read for one step of a scan at most.
const SCAN_NAMES_MAX: usize = 1 << 12;
/// So many that leave memory meanwhile are noted for one listing.
const DEPARTED_MAX: usize = 1 << 20;
/// A random key is chosen among so many that lie side by side.
const RANDOM_NAMES: usize = 8;
/// Cursors have no more bits of a hash than this: a range begins and ends there.
pub const HASH_GRAIN: u64 = 1 << 16;

/// What names are wanted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamesFor {
    /// A step of a scan from this hash on.
    Scan(u64),
    /// All that match a pattern, or all.
    All(Option<Box<[u8]>>),
    /// A random one.
    Random,
}

/// Names of cold keys that are asked for.
#[derive(Debug, Clone)]
pub struct NamesWanted {
    /// Tells requests apart.
    pub number: u64,
    /// The database.
    pub db: DbId,
    /// The first hash, a multiple of [`HASH_GRAIN`].
    pub from: u64,
    /// The hash behind the last, another multiple; none for the end.
    pub to: Option<u64>,
    /// About how many.
    pub count: usize,
    /// Where the records are of keys in memory, ascending: their names are not wanted.
    pub resident: Vec<RecordAddr>,
    /// Behind the end it goes on at the beginning, if nothing was found.
    pub wraps: bool,
    /// What they are for.
    pub purpose: NamesFor,
    /// Whether they still are wanted: the reader may give up otherwise.
    pub is_wanted: Arc<AtomicBool>,
}

impl NamesWanted {
    /// Whether a name is one of those.
    #[must_use]
    pub fn wants(&self, key: &[u8]) -> bool {
        match &self.purpose {
            NamesFor::All(Some(pattern)) => base::glob::matches(pattern, key),
            _ => true,
        }
    }
}

/// A key that is not in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColdName {
    hash: u64,
    addr: RecordAddr,
    key: Box<[u8]>,
    value_type: Type,
    expires_at_ms: Option<i64>,
}

impl ColdName {
    /// That of a key's record, read at `addr`; `None` when it is not the record of a key.
    #[must_use]
    pub fn of(record: &Record<'_>, addr: RecordAddr, hasher: KeyHasher) -> Option<Self> {
        Some(Self {
            hash: hasher.hash(record.key),
            addr,
            key: record.key.into(),
            value_type: record_type(record)?,
            expires_at_ms: record.expires_at_ms,
        })
    }

    fn of_entry(entry: &Entry, addr: RecordAddr, hash: u64) -> Self {
        Self {
            hash,
            addr,
            key: entry.key().into(),
            value_type: entry_type(entry),
            expires_at_ms: entry.expires_at_ms(),
        }
    }
}

/// What came of a [`NamesWanted`].
#[derive(Debug, Clone, Default)]
pub struct NamesFound {
    /// The names, in no order.
    pub names: Vec<ColdName>,
    /// The hash up to which these are all, a multiple of [`HASH_GRAIN`]; none for the end.
    pub end: Option<u64>,
}

/// Names that were asked for.
pub(crate) struct Listings {
    last_number: u64,
    open: Vec<Listing>,
    /// So many keys that leave memory meanwhile are noted for one of them.
    departed_max: usize,
}

impl Default for Listings {
    fn default() -> Self {
        Self { last_number: 0, open: Vec::new(), departed_max: DEPARTED_MAX }
    }
}

struct Listing {
    wanted: NamesWanted,
    found: Option<Result<NamesFound, RestoreError>>,
    /// What has left memory since.
    departed: Vec<ColdName>,
}

impl Listings {
    /// Whether what leaves memory has to be noted.
    pub(crate) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Notes that a key leaves memory whose record is at `addr`.
    pub(crate) fn note_departed(&mut self, db: DbId, hash: u64, addr: RecordAddr, entry: &Entry) {
        let Self { open, departed_max, .. } = self;
        for Listing { wanted, departed, found } in open {
            let is_in = wanted.from <= hash && wanted.to.is_none_or(|to| hash < to);
            if wanted.db != db || !is_in || !wanted.wants(entry.key()) {
                continue;
            }
            if departed.len() < *departed_max {
                departed.push(ColdName::of_entry(entry, addr, hash));
            } else if !matches!(found, Some(Err(_))) {
                let why = "too many keys have left memory while their names were read: use SCAN";
                *found = Some(Err(RestoreError::Io(why.to_owned())));
                wanted.is_wanted.store(false, Ordering::Relaxed);
            }
        }
    }

    fn position(&self, db: DbId, purpose: &NamesFor) -> Option<usize> {
        self.open.iter().position(|listing| {
            let Listing { wanted, found, .. } = listing;
            found.is_some() && wanted.db == db && wanted.purpose == *purpose
        })
    }

    fn has(&self, db: DbId, purpose: &NamesFor) -> bool {
        self.position(db, purpose).is_some()
    }

    fn take(&mut self, db: DbId, purpose: &NamesFor) -> Option<Listing> {
        self.position(db, purpose).map(|at| self.open.remove(at))
    }
}

impl Keyspace {
    /// The names that have to be read before a command looks at keys of a database; none if all are in
    /// memory. [`Keyspace::install_names`] is to be told what comes of it, or
    /// [`Keyspace::forget_names_wanted`] that nothing does.
    pub fn names_wanted(
        &mut self,
        db: DbIndex,
        purpose: NamesFor,
        count: usize,
    ) -> Option<NamesWanted> {
        let mut wanted = self.names_for(db, purpose, count)?;
        let listings = &mut self.source.as_mut()?.listings;
        listings.last_number += 1;
        wanted.number = listings.last_number;
        let without = NamesWanted { resident: Vec::new(), ..wanted.clone() };
        listings.open.push(Listing { wanted: without, found: None, departed: Vec::new() });
        Some(wanted)
    }

    /// Takes over names that were read, or why they were not.
    pub fn install_names(&mut self, number: u64, found: Result<NamesFound, RestoreError>) {
        let Some(source) = &mut self.source else { return };
        let mut open = source.listings.open.iter_mut();
        if let Some(listing) = open.find(|listing| listing.wanted.number == number) {
            listing.found.get_or_insert(found);
        }
    }

    /// Names are not wanted any more.
    pub fn forget_names_wanted(&mut self, number: u64) {
        let Some(source) = &mut self.source else { return };
        let open = &mut source.listings.open;
        if let Some(at) = open.iter().position(|listing| listing.wanted.number == number) {
            open.remove(at).wanted.is_wanted.store(false, Ordering::Relaxed);
        }
    }

    fn names_for(&mut self, db: DbIndex, purpose: NamesFor, count: usize) -> Option<NamesWanted> {
        let from = &self.dbs[db];
        let keys = from.keys();
        let Db { id, may_be_cold, cold_count, .. } = from;
        if !may_be_cold {
            return None;
        }
        let mut wanted = NamesWanted {
            number: 0,
            db: *id,
            from: 0,
            to: None,
            count: usize::MAX,
            resident: Vec::new(),
            wraps: false,
            purpose,
            is_wanted: Arc::new(AtomicBool::new(true)),
        };
        match wanted.purpose {
            NamesFor::Scan(from) => {
                (wanted.from, wanted.to) = (from, keys.page_end(from));
                wanted.count = count.clamp(1, SCAN_NAMES_MAX);
                wanted.resident = keys.page_items(from).filter_map(Entry::addr).collect();
                wanted.resident.sort_unstable();
            }
            NamesFor::All(_) => {}
            NamesFor::Random => {
                // As likely one of those in memory as they are many.
                let resident = keys.len() as u64;
                if *cold_count == 0 || self.rng.u64(..resident + cold_count) < resident {
                    return None;
                }
                wanted.from = self.rng.u64(..) & !(HASH_GRAIN - 1);
                (wanted.count, wanted.wraps) = (RANDOM_NAMES, true);
            }
        }
        Some(wanted)
    }

    /// The names that were read for this, and what has left memory since; else they are read now.
    fn take_names(
        &mut self,
        db: DbIndex,
        purpose: NamesFor,
        count: usize,
    ) -> Option<(Option<u64>, Vec<ColdName>)> {
        let id = self.dbs[db].id;
        let source = self.source.as_mut()?;
        if let Some(listing) = source.listings.take(id, &purpose) {
            let NamesFound { mut names, end } = match listing.found? {
                Ok(found) => found,
                Err(error) => {
                    source.fail(error);
                    return None;
                }
            };
            names.extend(listing.departed);
            return Some((end, names));
        }
        let wanted = self.names_for(db, purpose, count)?;
        let found = self.source.as_mut()?.names(&wanted)?;
        Some((found.end, found.names))
    }

    /// Whether a name that was read is that of a key that still is not in memory.
    fn is_cold_still(&self, db: DbIndex, name: &ColdName) -> bool {
        let is_here = self.dbs[db].keys().find(name.hash, &name.key).is_some();
        let is_expired = name.expires_at_ms.is_some_and(|at| at <= self.now_ms());
        !is_here && !is_expired && !self.recorder.journal.is_retired(name.addr)
    }

    /// The cold keys among these, each once.
    fn still_cold<'a>(
        &'a self,
        db: DbIndex,
        names: &'a [ColdName],
    ) -> impl Iterator<Item = &'a ColdName> {
        let mut seen = HashSet::new();
        names.iter().filter(move |name| self.is_cold_still(db, name) && seen.insert(&name.key))
    }

    /// A step of [`Keyspace::scan`] in a database with cold keys.
    pub(crate) fn scan_with_cold(
        &mut self,
        db: DbIndex,
        from: u64,
        count: usize,
        visit: &mut dyn FnMut(&[u8], Type),
    ) -> Option<u64> {
        let (end, names) = self.take_names(db, NamesFor::Scan(from), count)?;
        let earlier = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let keys = self.dbs[db].keys();
        let end = earlier(end, keys.page_end(from));
        let is_in = |hash: u64| hash >= from && end.is_none_or(|end| hash < end);
        for entry in keys.page_items(from).filter(|entry| is_in(self.hash_of(entry.key()))) {
            if entry.expires_at_ms().is_none_or(|at| at > self.now_ms()) {
                visit(entry.key(), entry_type(entry));
            }
        }
        let cold = self.still_cold(db, &names).filter(|name| is_in(name.hash));
        cold.for_each(|name| visit(&name.key, name.value_type));
        end
    }

    /// Visits the cold keys of a database that match a pattern, or all.
    pub(crate) fn for_each_cold(
        &mut self,
        db: DbIndex,
        pattern: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Type),
    ) {
        let Some((_, names)) = self.take_names(db, NamesFor::All(pattern.map(Into::into)), 0)
        else {
            return;
        };
        self.still_cold(db, &names).for_each(|name| visit(&name.key, name.value_type));
    }

    /// A random key that is cold. Unless that `must_be`, only if one was asked for before: else one of those in
    /// memory is to be taken.
    pub(crate) fn random_cold(&mut self, db: DbIndex, must_be: bool) -> Option<Box<[u8]>> {
        let Db { id, may_be_cold, .. } = self.dbs[db];
        let is_asked_for = self.source.as_ref()?.listings.has(id, &NamesFor::Random);
        if !may_be_cold || !(is_asked_for || must_be) {
            return None;
        }
        let (_, names) = match is_asked_for {
            true => self.take_names(db, NamesFor::Random, 0)?,
            // Whatever the dice say.
            false => self.take_names(db, NamesFor::Scan(0), RANDOM_NAMES)?,
        };
        let mut keys: Vec<_> = self.still_cold(db, &names).map(|name| name.key.clone()).collect();
        (!keys.is_empty()).then(|| keys.swap_remove(self.rng.usize(..keys.len())))
    }
}

impl Source {
    fn names(&mut self, wanted: &NamesWanted) -> Option<NamesFound> {
        match self.restorer.names(wanted) {
            Ok(found) => Some(found),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base::SegmentId;

    use super::*;
    use crate::entry::Kind;

    /// A listing of all names that match, or of those of a step of a scan.
    fn listing(purpose: NamesFor, to: Option<u64>) -> Listing {
        let wanted = NamesWanted {
            number: 1,
            db: DbId(0),
            from: 0,
            to,
            count: usize::MAX,
            resident: Vec::new(),
            wraps: false,
            purpose,
            is_wanted: Arc::new(AtomicBool::new(true)),
        };
        Listing { wanted, found: None, departed: Vec::new() }
    }

    /// The names that are noted for a listing, and whether more are wanted of it.
    fn noted(listing: &Listing) -> (usize, bool) {
        (listing.departed.len(), listing.wanted.is_wanted.load(Ordering::Relaxed))
    }

    #[test]
    fn a_listing_during_which_too_many_keys_leave_memory_fails_and_no_other_one_does() {
        let all = NamesFor::All(Some(Box::from(&b"k*"[..])));
        let open = vec![
            listing(all.clone(), None),
            listing(NamesFor::Scan(0), Some(2 * HASH_GRAIN)),
            listing(NamesFor::All(Some(Box::from(&b"other"[..]))), None),
        ];
        let mut listings = Listings { open, departed_max: 4, ..Listings::default() };
        let depart = |listings: &mut Listings, number: u64| {
            let key = format!("key:{number}");
            let entry = Entry::with_bytes(key.as_bytes(), Kind::Str, b"v");
            let addr = RecordAddr::new(SegmentId(1), u32::try_from(number).expect("few"));
            listings.note_departed(DbId(0), number * HASH_GRAIN, addr, &entry);
        };
        (0..4).for_each(|number| depart(&mut listings, number));
        assert_eq!(noted(&listings.open[0]), (4, true));
        assert!(!listings.has(DbId(0), &all), "its names are still read");
        (4..9).for_each(|number| depart(&mut listings, number));
        assert_eq!(noted(&listings.open[0]), (4, false), "the reader need not go on");
        assert_eq!(noted(&listings.open[1]), (2, true), "a step of a scan is of few hashes");
        assert_eq!(noted(&listings.open[2]), (0, true), "no key matches");
        // What the reader has found by then comes too late.
        let found = listings.open[0].found.get_or_insert(Ok(NamesFound::default()));
        let error = found.as_ref().expect_err("names are missing");
        assert!(error.to_string().ends_with("use SCAN"), "{error}");
        assert!(listings.has(DbId(0), &all), "the command is told so");
    }
}

//! Locks of transactions: on records and on the gaps between them, with deadlock detection.
//!
//! ```text
//!   table       Shared: it is used                    Exclusive: it is deleted
//!   record(k)   Shared: k was read, there or not      Exclusive: k is written
//!   gap(k)      Shared: between the key before k and k was scanned
//!               Insert: something is inserted or removed there; compatible with itself
//! ```
//!
//! Strict two-phase: everything is held until the transaction ends. A scan locks each record that
//! it returns, the gap before it, and the gap in which it ended. Inserting or removing `k` locks
//! the gap around `k` (removing also the gap before `k`). So nothing that was scanned changes (no
//! phantoms), and a pending insert blocks a scan that would miss it. The *next key* that names a
//! gap is a committed one: when a commit inserts or removes it, the rights of the gap's holders are
//! passed on ([`LockTable::inherit`]).
//!
//! A record and the gap before it are one place, with rights in each:
//!
//! ```text
//!   granted   place → claim of a transaction: READ, WRITE, SCAN, INSERT     one each at a place
//!   queue     claims that wait, in order of arrival                         one a transaction
//! ```
//!
//! A claim is granted if it is compatible with all others at its place, both granted and earlier in
//! the queue. A transaction that already has rights in the record or the gap goes ahead of those
//! waiting. Before a claim waits, the wait-for graph is searched from it: if the search leads back,
//! the claim is refused. Inheriting adds edges as well, so waiting transactions search again from
//! time to time.
//!
//! A place is identified by a 64-bit hash with a random seed, and nothing else of it is stored. Two
//! places with the same hash (probability 3 in 100 million for a million locks) share one lock.

use std::hash::{BuildHasher, Hasher};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};

/// Something that can be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockName<'a> {
    /// A whole table: shared for every use of it, exclusive for deleting it.
    Table(u32),
    /// A key of a table, whether it exists or not.
    Record(u32, &'a [u8]),
    /// The gap between a key, or the end of the table, and the key before it.
    Gap(u32, Option<&'a [u8]>),
    /// A key and the gap before it.
    NextKey(u32, &'a [u8]),
}

impl LockName<'_> {
    fn place(self, hasher: &DefaultHashBuilder) -> Place {
        let (kind, table, key) = match self {
            Self::Table(table) => (0, table, &[][..]),
            Self::Gap(table, None) => (1, table, &[][..]),
            Self::Gap(table, Some(key)) | Self::Record(table, key) | Self::NextKey(table, key) => {
                (2, table, key)
            }
        };
        let mut hasher = hasher.build_hasher();
        hasher.write_u64(u64::from(table) << 2 | kind);
        hasher.write(key);
        hasher.finish()
    }

    fn rights(self, mode: Mode) -> Rights {
        let part = match self {
            Self::Table(_) | Self::Record(..) => Rights::RECORD,
            Self::Gap(..) => Rights::GAP,
            Self::NextKey(..) => Rights::RECORD | Rights::GAP,
        };
        Rights(part & mode.rights())
    }
}

/// The mode of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
    Insert,
}

impl Mode {
    fn rights(self) -> u8 {
        match self {
            Self::Shared => Rights::READ | Rights::SCAN,
            Self::Exclusive => Rights::WRITE,
            Self::Insert => Rights::INSERT,
        }
    }
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted,
    Waiting,
    Deadlock,
}

type TransactionId = u64;

/// The hash of a lock name.
type Place = u64;

/// Rights in a record (or table), and in the gap before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rights(u8);

impl Rights {
    const READ: u8 = 1;
    const WRITE: u8 = 2;
    const SCAN: u8 = 4;
    const INSERT: u8 = 8;
    const RECORD: u8 = Self::READ | Self::WRITE;
    const GAP: u8 = Self::SCAN | Self::INSERT;
    const NONE: Self = Self(0);

    fn has(self, any: u8) -> bool {
        self.0 & any != 0
    }

    /// Whether two transactions may have these rights at once.
    fn agrees(self, other: Self) -> bool {
        let is_written = self.has(Self::WRITE) && other.has(Self::RECORD)
            || self.has(Self::RECORD) && other.has(Self::WRITE);
        let is_disturbed = self.has(Self::SCAN) && other.has(Self::INSERT)
            || self.has(Self::INSERT) && other.has(Self::SCAN);
        !is_written && !is_disturbed
    }

    /// Returns the rights that a transaction with `own` still lacks.
    fn without(self, own: Self) -> Self {
        let implied = if own.has(Self::WRITE) { Self::READ } else { 0 };
        Self(self.0 & !own.0 & !implied)
    }

    /// Whether both concern the record, or both the gap.
    fn meets(self, other: Self) -> bool {
        [Self::RECORD, Self::GAP].iter().any(|part| self.has(*part) && other.has(*part))
    }
}

/// The rights that a transaction has or waits for at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    place: Place,
    id: TransactionId,
    rights: Rights,
}

/// Claims whose memory is kept for reuse.
const SPARE_CLAIMS: usize = 4096;
/// Lists of places kept for future transactions.
const SPARE_LISTS: usize = 64;

/// All locks.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    granted: HashTable<Claim>,
    queue: Vec<Claim>,
    /// The places where each transaction has a claim.
    held: HashMap<TransactionId, Vec<Place>>,
    spare: Vec<Vec<Place>>,
    tables: HashMap<Vec<u8>, u32>,
    hasher: DefaultHashBuilder,
}

impl LockTable {
    /// Returns the number of the table with this name.
    pub(crate) fn table(&mut self, name: &[u8]) -> u32 {
        if let Some(id) = self.tables.get(name) {
            return *id;
        }
        let id = u32::try_from(self.tables.len()).expect("fewer tables than 2^32 are used");
        self.tables.insert(name.to_vec(), id);
        id
    }

    /// Requests a lock, or repeats a request that is waiting.
    pub(crate) fn request(&mut self, id: TransactionId, name: LockName<'_>, mode: Mode) -> Outcome {
        self.ask(id, name, mode, true)
    }

    /// Takes a lock if no other transaction prevents it; otherwise leaves no claim in the queue.
    /// Returns whether the lock is held.
    pub(crate) fn take_if_free(
        &mut self,
        id: TransactionId,
        name: LockName<'_>,
        mode: Mode,
    ) -> bool {
        self.ask(id, name, mode, false) == Outcome::Granted
    }

    fn ask(
        &mut self,
        id: TransactionId,
        name: LockName<'_>,
        mode: Mode,
        is_to_wait: bool,
    ) -> Outcome {
        let place = name.place(&self.hasher);
        let own = self.granted_at(place).find(|claim| claim.id == id);
        let own = own.map_or(Rights::NONE, |claim| claim.rights);
        let claim = Claim { place, id, rights: name.rights(mode).without(own) };
        match self.queue.iter().find(|claim| claim.id == id) {
            Some(waiting) if *waiting == claim => return self.judge(id),
            Some(_) => _ = self.cancel(id),
            None => {}
        }
        // A transaction that already holds part of it goes ahead: the others wait for it in any
        // case.
        let ahead = if own.meets(claim.rights) { 0 } else { self.queue.len() };
        if self.is_free(claim, ahead) {
            self.grant(claim);
            return Outcome::Granted;
        }
        if !is_to_wait {
            return Outcome::Waiting;
        }
        self.queue.insert(ahead, claim);
        self.judge(id)
    }

    fn granted_at(&self, place: Place) -> impl Iterator<Item = &Claim> {
        self.granted.iter_hash(place).filter(move |claim| claim.place == place)
    }

    /// The incompatible claims among the granted ones and the first `ahead` in the queue.
    fn in_the_way(&self, claim: Claim, ahead: usize) -> impl Iterator<Item = &Claim> {
        let ahead = self.queue[..ahead].iter().filter(move |other| other.place == claim.place);
        let others = self.granted_at(claim.place).chain(ahead);
        others.filter(move |other| other.id != claim.id && !other.rights.agrees(claim.rights))
    }

    fn is_free(&self, claim: Claim, ahead: usize) -> bool {
        self.in_the_way(claim, ahead).next().is_none()
    }

    fn grant(&mut self, claim: Claim) {
        let Claim { place, id, rights } = claim;
        let is_own = |other: &Claim| other.place == place && other.id == id;
        match self.granted.entry(place, is_own, |claim| claim.place) {
            Entry::Occupied(mut own) => own.get_mut().rights.0 |= rights.0,
            Entry::Vacant(entry) => {
                entry.insert(claim);
                let held = self.held.entry(id);
                held.or_insert_with(|| self.spare.pop().unwrap_or_default()).push(place);
            }
        }
    }

    /// Whether a waiting transaction may keep waiting.
    fn judge(&mut self, id: TransactionId) -> Outcome {
        if self.is_in_cycle(id) {
            self.cancel(id);
            return Outcome::Deadlock;
        }
        Outcome::Waiting
    }

    /// Whether another transaction may insert into a gap in which this one may. If not, there is
    /// nothing to inherit from its inserts and removals.
    pub(crate) fn shares_a_gap(&self, id: TransactionId) -> bool {
        let may_insert = |place: Place, is_own: bool| {
            let mut claims = self.granted_at(place).filter(|claim| (claim.id == id) == is_own);
            claims.any(|claim| claim.rights.has(Rights::INSERT))
        };
        let mut held = self.held.get(&id).into_iter().flatten();
        self.held.len() > 1 && held.any(|at| may_insert(*at, true) && may_insert(*at, false))
    }

    fn is_in_cycle(&self, id: TransactionId) -> bool {
        let mut seen = HashSet::new();
        let mut next = self.blockers(id);
        while let Some(other) = next.pop() {
            if other == id {
                return true;
            }
            if seen.insert(other) {
                next.extend(self.blockers(other));
            }
        }
        false
    }

    /// The transactions that this one waits for.
    fn blockers(&self, id: TransactionId) -> Vec<TransactionId> {
        let Some(ahead) = self.queue.iter().position(|claim| claim.id == id) else {
            return Vec::new();
        };
        self.in_the_way(self.queue[ahead], ahead).map(|claim| claim.id).collect()
    }

    fn cancel(&mut self, id: TransactionId) -> bool {
        let Some(place) = self.queue.iter().position(|claim| claim.id == id) else { return false };
        self.queue.remove(place);
        self.pump()
    }

    /// Grants all claims that can be granted. Returns whether there were any.
    fn pump(&mut self) -> bool {
        let waiting = self.queue.len();
        let mut i = 0;
        while i < self.queue.len() {
            if self.is_free(self.queue[i], i) {
                let claim = self.queue.remove(i);
                self.grant(claim);
            } else {
                i += 1;
            }
        }
        self.queue.len() < waiting
    }

    /// Releases all locks and requests of a transaction. Returns whether a waiting transaction was
    /// granted its claim.
    pub(crate) fn release(&mut self, id: TransactionId) -> bool {
        self.queue.retain(|claim| claim.id != id);
        let mut held = self.held.remove(&id).unwrap_or_default();
        for place in held.drain(..) {
            let own =
                self.granted.find_entry(place, |claim| claim.place == place && claim.id == id);
            own.expect("it was granted there").remove();
        }
        self.recycle(held);
        self.pump()
    }

    /// Keeps the list for the next transaction, unless it is unusually large.
    fn recycle(&mut self, list: Vec<Place>) {
        if list.capacity() <= SPARE_CLAIMS && self.spare.len() < SPARE_LISTS {
            self.spare.push(list);
        }
        let spare = self.granted.capacity() / 8;
        if spare > SPARE_CLAIMS && self.granted.len() < spare {
            self.granted.shrink_to(spare, |claim| claim.place);
        }
    }

    /// Copies insert rights in gap `from` to gap `to`, for all transactions except `except`. A
    /// commit has split the gap or merged the two.
    pub(crate) fn inherit(&mut self, from: LockName<'_>, to: LockName<'_>, except: TransactionId) {
        let (from, place) = (from.place(&self.hasher), to.place(&self.hasher));
        let inserters = self.granted_at(from).filter(|claim| claim.rights.has(Rights::INSERT));
        let heirs: Vec<_> = inserters.map(|claim| claim.id).filter(|id| *id != except).collect();
        for id in heirs {
            self.grant(Claim { place, id, rights: Rights(Rights::INSERT) });
        }
    }
}

#[cfg(test)]
mod tests;

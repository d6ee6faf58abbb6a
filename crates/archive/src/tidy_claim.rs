//! The claim of a tidier: its number, and the time that it counts ages from.
//!
//! ```text
//!   claim 5, as of 10:00 ─► … ─► claim 6, over        the next one takes 7, and looks at once
//!   claim 5, as of 10:00 ─► suspended, or dead        the next one takes 6, and waits: 5 may have looked for it just before
//! ```
//!
//! **A lease.** What has looked for later claims removes things for two minutes, by whichever clock says more: the monotonic one may
//! stand still while a machine is suspended. One that comes next to a claim which is not over waits five.
//!
//! **The pace of ages.** Where no person compares the clock with the time, ages go on by a few hours at most from one claim to the next, so a clock
//! that is a year ahead cannot empty an archive before that is seen, however often the server is started.

use env::Clock;
use redo::Id;

use crate::error::{Error, Result, TargetError};
use crate::name::{Folder, Name};
use crate::object::{HEADER_BYTES, Header};
use crate::target::{Put, Target};

/// So long a tidier removes things without looking for later ones.
const LEASE_US: u64 = 120_000_000;

/// So long one waits that has come next to another: a call that was begun within the lease may take a while.
const FENCE_US: u64 = 300_000_000;

/// So much ages go on from one claim to the next, at most.
const PACE_MS: i64 = 6 * 3_600_000;

/// See the file's top.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TidyClaim {
    database: Id,
    number: u64,
    /// What ages are counted from.
    pub(crate) now_ms: i64,
    /// Whether that is before what the clock says, and the newest block.
    pub(crate) is_behind: bool,
    /// Until when another tidier may still remove something, by the monotonic clock.
    pub(crate) fenced_until_us: Option<u64>,
}

impl TidyClaim {
    /// Takes the next number. Ages are counted from the clock, or from `newest_ms` if that is earlier; and, with `paced_from_ms`, from a few
    /// hours behind what was counted from last, or behind that if nothing was.
    pub(crate) fn take(
        target: &dyn Target,
        database: Id,
        clock: &dyn Clock,
        (newest_ms, paced_from_ms): (i64, Option<i64>),
    ) -> Result<Self> {
        let claims = target.list(database, Folder::Tidier)?;
        let last = claims.into_iter().max_by_key(Name::number);
        let last = last.map(|name| read(target, database, name)).transpose()?;
        let number = last.map_or(0, |last| last.name.number()) + 1;
        let wanted_ms = clock.now_ms().min(newest_ms);
        // Older programs did not say it.
        let counted_ms = last.map(|last| last.time_max_ms).filter(|ms| *ms > 0);
        let most_ms = paced_from_ms
            .map_or(i64::MAX, |from| counted_ms.unwrap_or(from).saturating_add(PACE_MS));
        let now_ms = wanted_ms.min(most_ms);
        let is_behind = now_ms < wanted_ms;
        let claim = Self { database, number, now_ms, is_behind, fenced_until_us: None };
        if claim.put(target, number, false)? == Put::Taken {
            return Err(Error::OtherTidier { by: number });
        }
        // The other one may have looked just before the claim was there.
        let until_us = || clock.monotonic_us().saturating_add(FENCE_US);
        let fenced_until_us = last.filter(|last| !is_over(last)).map(|_| until_us());
        Ok(Self { fenced_until_us, ..claim })
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    fn put(&self, target: &dyn Target, number: u64, is_over: bool) -> Result<Put> {
        let name = Name::Tidier { number };
        let (now_ms, blocks) = (self.now_ms, u64::from(is_over));
        let empty = Header::new(self.database, name);
        let header = Header { time_min_ms: now_ms, time_max_ms: now_ms, blocks, ..empty };
        Ok(target.put_new(self.database, &name, &header.encode())?)
    }

    /// Whether no later tidier has come: then things may be removed as long as the lease lasts.
    pub(crate) fn check(&self, target: &dyn Target, clock: &dyn Clock) -> Result<Lease> {
        let lease = Lease { us: clock.monotonic_us(), ms: clock.now_ms() };
        let claims = target.list(self.database, Folder::Tidier)?;
        let by = claims.iter().map(Name::number).max().unwrap_or(0);
        if by == self.number { Ok(lease) } else { Err(Error::OtherTidier { by }) }
    }

    /// Nothing more is removed under it: the next one need not wait.
    pub(crate) fn end(&self, target: &dyn Target) -> Result<()> {
        // If there is one of that number, another tidier has come.
        let _put = self.put(target, self.number + 1, true)?;
        for claim in target.list(self.database, Folder::Tidier)? {
            if claim.number() <= self.number {
                match target.remove(self.database, &claim) {
                    Err(error) if error.is_refused() => return Ok(()),
                    removed => removed?,
                }
            }
        }
        Ok(())
    }
}

/// What an earlier claim says. One that says nothing is not over.
fn read(target: &dyn Target, database: Id, name: Name) -> Result<Header> {
    let object = target.open(database, &name)?;
    let mut bytes = [0; HEADER_BYTES];
    let length = object.bytes().map_err(TargetError::of("read", name.to_string()))?;
    if length < bytes.len() as u64 {
        return Ok(Header::new(database, name));
    }
    object.read_at(&mut bytes, 0).map_err(TargetError::of("read", name.to_string()))?;
    Ok(Header::decode(&bytes, database, name).unwrap_or(Header::new(database, name)))
}

const fn is_over(claim: &Header) -> bool {
    claim.blocks > 0
}

/// When it was looked for later claims.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    us: u64,
    ms: i64,
}

impl Lease {
    /// Whether it must be looked again.
    pub(crate) fn is_over(&self, clock: &dyn Clock) -> bool {
        let by_wall_ms = clock.now_ms().saturating_sub(self.ms).max(0).unsigned_abs();
        let passed_us = clock.monotonic_us().saturating_sub(self.us);
        passed_us.max(by_wall_ms.saturating_mul(1000)) > LEASE_US
    }
}

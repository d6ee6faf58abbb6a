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
//! that is a year ahead cannot empty an archive before that is seen, however often the server is started. A server puts the first claim with a
//! time before anything else: what it puts itself may have a wrong one. By that pace the time of claims never goes back: a clock that stands at 1970 for
//! a while would have it catch up for years.

use env::Clock;
use redo::Id;

use crate::error::{Error, Result};
use crate::headers::bare_header;
use crate::name::{Folder, Name, WRITER_MAX};
use crate::object::Header;
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
    /// The time that the claim says: the next one's go on from it.
    said_ms: i64,
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
        let last = last_claim(target, database)?;
        let number = next_number(last.as_ref())?;
        let wanted_ms = clock.now_ms().min(newest_ms);
        // Older programs did not say it.
        let counted_ms = last.and_then(|last| time_of(&last));
        let most_ms = paced_from_ms
            .map_or(i64::MAX, |from| counted_ms.unwrap_or(from).saturating_add(PACE_MS));
        let now_ms = wanted_ms.min(most_ms);
        let said_ms = counted_ms.filter(|_| paced_from_ms.is_some()).unwrap_or(now_ms).max(now_ms);
        let is_behind = now_ms < wanted_ms;
        let claim = Self { database, number, now_ms, said_ms, is_behind, fenced_until_us: None };
        if claim.put(target, number, false)? == Put::Taken {
            return Err(Error::OtherTidier { by: number });
        }
        // The other one may have looked just before the claim was there.
        let until_us = || clock.monotonic_us().saturating_add(FENCE_US);
        let fenced_until_us = last.filter(|last| !is_over(last)).map(|_| until_us());
        Ok(Self { fenced_until_us, ..claim })
    }

    /// Puts a claim with this time if none has one, which removes nothing.
    pub(crate) fn date(target: &dyn Target, database: Id, found_ms: Option<i64>) -> Result<Dated> {
        let last = last_claim(target, database)?;
        if last.as_ref().and_then(time_of).is_some() {
            return Ok(Dated::Before);
        }
        let Some(now_ms) = found_ms else { return Ok(Dated::Unknown) };
        let number = next_number(last.as_ref())?;
        let (said_ms, is_behind, fenced_until_us) = (now_ms, false, None);
        let claim = Self { database, number, now_ms, said_ms, is_behind, fenced_until_us };
        // Another one that was at work ends, and may still remove something: so long the next one waits.
        match claim.put(target, number, last.is_none_or(|last| is_over(&last)))? {
            Put::New => Ok(Dated::Now),
            Put::Taken => Err(Error::OtherTidier { by: number }),
        }
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    fn put(&self, target: &dyn Target, number: u64, is_over: bool) -> Result<Put> {
        let name = Name::Tidier { number };
        let (said_ms, blocks) = (self.said_ms, u64::from(is_over));
        let empty = Header::new(self.database, name);
        let header = Header { time_min_ms: said_ms, time_max_ms: said_ms, blocks, ..empty };
        Ok(target.put_new(self.database, &name, &header.encode())?)
    }

    /// Whether no later tidier has come: then things may be removed as long as the lease lasts.
    pub(crate) fn check(&self, target: &dyn Target, clock: &dyn Clock) -> Result<Lease> {
        let lease = Lease { us: clock.monotonic_us(), ms: clock.now_ms() };
        let claims = target.list(self.database, Folder::Tidier)?;
        let by = claims.iter().map(Name::number).max().unwrap_or(0);
        if by == self.number { Ok(lease) } else { Err(Error::OtherTidier { by }) }
    }

    /// Nothing more is removed under it: the next one need not wait. Returns whether the target lets claims be removed.
    pub(crate) fn end(&self, target: &dyn Target) -> Result<bool> {
        // If there is one of that number, another tidier has come.
        let _put = self.put(target, self.number + 1, true)?;
        for claim in target.list(self.database, Folder::Tidier)? {
            if claim.number() <= self.number {
                match target.remove(self.database, &claim) {
                    Err(error) if error.is_refused() => return Ok(false),
                    removed => removed?,
                }
            }
        }
        Ok(true)
    }
}

/// Whether a claim says what ages go on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dated {
    /// One did.
    Before,
    /// One does now.
    Now,
    /// None does, and no time is known.
    Unknown,
}

/// What the last claim says; `None` if there is none. One that says nothing is not over.
fn last_claim(target: &dyn Target, database: Id) -> Result<Option<Header>> {
    let claims = target.list(database, Folder::Tidier)?;
    let Some(name) = claims.into_iter().max_by_key(Name::number) else { return Ok(None) };
    match bare_header(target, database, name) {
        Err(Error::Target(error)) => Err(error.into()),
        header => Ok(Some(header.unwrap_or(Header::new(database, name)))),
    }
}

fn next_number(last: Option<&Header>) -> Result<u64> {
    match last.map(|last| last.name) {
        Some(name) if name.number() + 1 >= WRITER_MAX => Err(Error::NoTidier { name }),
        name => Ok(name.map_or(0, |name| name.number()) + 1),
    }
}

/// What ages were counted from by the claim, if it says so.
fn time_of(claim: &Header) -> Option<i64> {
    Some(claim.time_max_ms).filter(|ms| *ms > 0)
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

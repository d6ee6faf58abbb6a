//! The machine that writes an archive.
//!
//! ```text
//!   claim ─► ┌ stream: blocks behind the last one, every interval ─┐
//!            │      │ gone: a gap, until there is a new copy       ├─► pending object ─► put ─► any later writer? ─► counts
//!            └ fill: when there is no copy, or the log behind it ──┘        │ failed: the same bytes again, later
//!                    has become larger than it
//! ```
//!
//! One object is under way at a time, and is kept until it is there: so an attempt of which nothing was heard is repeated
//! with the same bytes under the same name. While the target is away nothing else is read, and memory is bounded by that object.

use std::sync::Arc;
use std::time::Duration;

use base::Lsn;
use env::Clock;
use redo::{Id, Reader};

use crate::claim::Claim;
use crate::desk::{ArchiveOptions, Desk, Ending};
use crate::error::{Error, Result, TargetError};
use crate::figures::{Figures, State};
use crate::fill::{Filling, Fills, Portion};
use crate::frames::encode;
use crate::gathered::Gathered;
use crate::key::{KEY_BYTES, Salts};
use crate::name::{Folder, Name};
use crate::object::{Builder, Header, ObjectReader};
use crate::target::{Put, Target, check_same};
use crate::thinning::{Begun, Leftovers, Why, find_old};

/// How a step of an archiver has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveStep {
    /// There may be more to do.
    Worked,
    /// There is nothing to do for a while.
    Idle,
    /// Nothing will ever be.
    Finished,
}

/// How often it is looked for what is too old.
const THIN_EVERY_US: u64 = 3_600_000_000;

/// Blocks are shipped before the interval has passed when this part of a segment was written.
const EARLY_SHARE: u64 = 4;

/// So often a block of the log is found damaged before what is there is given up for a new copy.
const FAILURES_MAX: u32 = 6;

/// So long the log cannot be read at a block for another reason, such as a disk that fails, before that is done.
const FAILING_US: u64 = 600_000_000;

/// How long an archiver that ends ships what is left.
const ENDING_US: u64 = 2_000_000;

/// See the file's top.
pub struct Archiver {
    reader: Reader,
    target: Box<dyn Target>,
    clock: Arc<dyn Clock>,
    desk: Arc<Desk>,
    database: Id,
    options: ArchiveOptions,
    salts: Salts,
    retry: crate::retry::Retry,
    /// Its number, once it has claimed the archive.
    writer: Option<u64>,
    /// For good.
    over: Option<State>,
    is_away: bool,
    stream: Option<Stream>,
    fills: Fills,
    pending: Option<Portion>,
    gathered: Gathered,
    leftovers: Leftovers,
    /// When it was looked for what is too old.
    thinned_us: Option<u64>,
    /// What both clocks said at the beginning.
    begun: Begun,
    /// The time of the newest thing that was there when it was claimed.
    found_ms: Option<i64>,
    /// The last block of what was there, if it was not seen to be the log's own: nothing goes on from it.
    unlike: Option<Lsn>,
    /// The copy that the stream goes on from.
    base: Option<Base>,
    /// Since when there are blocks to be shipped.
    behind_since_us: Option<u64>,
    /// When it was looked for blocks, if all that there were then are pending.
    looked_all_us: Option<u64>,
    figures: Figures,
}

/// Blocks are shipped from here on.
struct Stream {
    next: Lsn,
    /// The checksum of the block before it, 0 if that is not known.
    before_crc: u32,
    /// When they were looked for last, and how many bytes the log had by then.
    looked_us: Option<u64>,
    looked_bytes: u64,
    /// The time of the last block.
    time_ms: i64,
    /// The first block that was shipped without a gap.
    first: Lsn,
    /// How often the next block was found damaged.
    failures: u32,
    /// Since when it cannot be read.
    failing_since_us: Option<u64>,
}

/// A complete copy.
struct Base {
    bytes: u64,
    /// How much of the log is behind it.
    log_bytes: u64,
}

impl Archiver {
    /// An archiver of the log that `reader` reads. `seed` is random, and never the same again: salts are made of it.
    #[must_use]
    pub fn new(
        reader: Reader,
        target: Box<dyn Target>,
        clock: Arc<dyn Clock>,
        desk: Arc<Desk>,
        seed: [u8; KEY_BYTES],
    ) -> Self {
        let salts = Salts::new(seed);
        let (database, options) = (reader.database(), desk.options());
        let begun = Begun { wall_ms: clock.now_ms(), us: clock.monotonic_us() };
        let archiver = Self {
            reader,
            target,
            clock,
            desk,
            database,
            options,
            retry: crate::retry::Retry::new(salts.number()),
            salts,
            writer: None,
            over: None,
            is_away: false,
            stream: None,
            fills: Fills::default(),
            pending: None,
            gathered: Gathered::default(),
            leftovers: Leftovers::default(),
            thinned_us: None,
            begun,
            found_ms: None,
            unlike: None,
            base: None,
            behind_since_us: None,
            looked_all_us: None,
            figures: Figures::default(),
        };
        archiver.desk.tell(Figures { state: State::Claiming, ..Figures::default() }, begun.us);
        archiver
    }

    /// Does some of what there is to do.
    pub fn step(&mut self) -> ArchiveStep {
        let now_us = self.clock.monotonic_us();
        self.desk.begin_step(now_us);
        self.options = self.desk.options();
        if let Some(ending) = self.desk.ending() {
            if ending == Ending::Shipping {
                self.ship_rest(now_us);
            }
            self.tell(now_us);
            return ArchiveStep::Finished;
        }
        if self.over.is_some() || !self.retry.is_due(now_us) {
            self.tell(now_us);
            return ArchiveStep::Idle;
        }
        let worked = match self.work(now_us) {
            Ok(worked) => {
                self.is_away = false;
                self.retry.note_success();
                worked
            }
            Err(error) => {
                self.note_error(&error, now_us);
                false
            }
        };
        self.tell(now_us);
        if worked { ArchiveStep::Worked } else { ArchiveStep::Idle }
    }

    /// Waits for something to do, or for `timeout`.
    pub fn wait(&self, timeout: Duration) {
        self.desk.wait(timeout);
    }

    fn work(&mut self, now_us: u64) -> Result<bool> {
        let Some(writer) = self.writer else { return self.claim().map(|()| true) };
        if self.pending.is_some() {
            return self.put(writer).map(|()| true);
        }
        // First: with a target that is slower than the log there is always something to ship, and this is in memory.
        if let Some(full) = self.gathered.take(self.options.object_bytes) {
            self.pending = Some(full);
            return self.put(writer).map(|()| true);
        }
        if self.ship(writer, now_us)? {
            return Ok(true);
        }
        if self.fill(writer, now_us)? {
            return Ok(true);
        }
        self.thin(now_us)?;
        if self.begun.is_clock_off(self.clock.now_ms(), now_us) {
            self.leftovers.keep_old();
        }
        match self.leftovers.step(&*self.target, self.database, now_us) {
            // What must not be removed stays; what is new is archived all the same.
            Err(Error::Target(error)) if error.is_refused() => {
                self.figures.errors += 1;
                self.figures.last_error = Some(error.to_string());
                self.leftovers.postpone(now_us);
                Ok(false)
            }
            done => done,
        }
    }

    /// Looks now and then for what is older than it is to be kept.
    fn thin(&mut self, now_us: u64) -> Result<()> {
        let is_due = now_us >= self.thinned_us.unwrap_or(self.begun.us) + THIN_EVERY_US;
        let keep_ms =
            i64::try_from(self.options.keep_seconds).unwrap_or(i64::MAX).saturating_mul(1000);
        if keep_ms == 0 || !is_due || self.base.is_none() {
            return Ok(());
        }
        if self.begun.is_clock_off(self.clock.now_ms(), now_us) {
            // The wall clock was set: what it says to be old may be young.
            self.thinned_us = Some(now_us);
            return Ok(());
        }
        // A clock that was wrong from the beginning makes nothing older than it is by what was found.
        let found_ms = self.found_ms.unwrap_or(self.begun.wall_ms);
        let found_ms = found_ms.saturating_add(self.begun.passed_ms(now_us));
        let now_ms = self.clock.now_ms().min(found_ms);
        match find_old(&*self.target, self.database, now_ms.saturating_sub(keep_ms)) {
            Ok(Some(old)) => {
                self.figures.restorable_from = self.figures.restorable_from.max(old.first);
                self.leftovers.add(now_us, Why::Old, old.names);
            }
            Ok(None) => {}
            Err(error @ Error::Target(_)) => return Err(error),
            // What is old is damaged: what is new is archived all the same.
            Err(error) => {
                self.figures.errors += 1;
                self.figures.last_error = Some(error.to_string());
            }
        }
        self.thinned_us = Some(now_us);
        Ok(())
    }

    /// Ships what is durable, if that is possible at once.
    fn ship_rest(&mut self, begun_us: u64) {
        let is_working = self.over.is_none() && !self.retry.is_failing() && self.stream.is_some();
        let Some(writer) = self.writer.filter(|_| is_working) else { return };
        while self.clock.monotonic_us() < begun_us + ENDING_US {
            if let Some(stream) = &mut self.stream {
                stream.looked_us = None;
            }
            let shipped = match self.pending {
                Some(_) => self.put(writer).map(|()| true),
                None => self.ship(writer, begun_us),
            };
            match shipped {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.note_error(&error, begun_us),
            }
        }
    }

    fn claim(&mut self) -> Result<()> {
        let claim = Claim::take(&*self.target, self.database, &self.reader)?;
        self.go_on_from(&claim)?;
        self.figures.writer = claim.writer;
        // Last: what could not be read is read again by the next claim.
        self.writer = Some(claim.writer);
        Ok(())
    }

    /// Finds out what the stream goes on from. Changes nothing when that cannot be read.
    fn go_on_from(&mut self, claim: &Claim) -> Result<()> {
        let Some(last) = claim.picture.last else { return Ok(()) };
        let newest = claim.picture.ranges.last();
        let whole = match newest.and_then(|range| range.fills.last()) {
            Some((fill, objects)) => {
                let name = Name::Whole { fill: *fill, objects: *objects };
                match ObjectReader::open(&*self.target, self.database, name) {
                    Ok(object) => Some(*object.header()),
                    // Another copy is made.
                    Err(Error::Damaged { .. }) => None,
                    Err(error) => return Err(error),
                }
            }
            None => None,
        };
        let times_ms = [claim.last, whole].into_iter().flatten().map(|header| header.time_max_ms);
        self.found_ms = times_ms.max();
        let Some(header) = claim.last else {
            self.unlike = Some(last);
            if let Some(range) = newest {
                // What is there stays restorable; between it and the copy to come something is missing, if anything is.
                let durable = self.reader.whole_blocks(Lsn(1)).end();
                self.figures.gaps += u64::from(durable > last);
                self.figures.restorable_from = range.first;
                let time_ms = whole.map_or(0, |whole| whole.time_max_ms);
                self.raise_archived(range.last, time_ms);
            }
            return Ok(());
        };
        // Without a copy in it, what is there leads nowhere.
        let (Some(range), Some(whole)) = (claim.picture.range_of(last), whole) else {
            return Ok(());
        };
        let (base, _) = *range.fills.last().expect("a range has a copy");
        let mut log_bytes = 0;
        for name in range
            .logs
            .iter()
            .filter(|name| matches!(name, Name::Log { last, .. } if *last > base.lsn))
        {
            log_bytes += ObjectReader::open(&*self.target, self.database, *name)?.header().bytes;
        }
        self.base = Some(Base { bytes: whole.bytes, log_bytes });
        let time_ms = header.time_max_ms;
        self.stream = Some(Stream {
            next: last.next(),
            before_crc: header.last_crc,
            looked_us: None,
            looked_bytes: 0,
            time_ms,
            first: range.first.next(),
            failures: 0,
            failing_since_us: None,
        });
        (self.figures.archived, self.figures.archived_time_ms) = (last, time_ms);
        self.figures.restorable_from = range.first;
        Ok(())
    }

    /// Looks for blocks to ship. Returns whether there were.
    fn ship(&mut self, writer: u64, now_us: u64) -> Result<bool> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let (written_bytes, object_bytes) =
            (self.reader.written_bytes(), self.options.object_bytes as u64);
        // A segment that has ended may be compacted at once.
        let early_bytes = object_bytes.min(self.reader.roll_bytes() / EARLY_SHARE);
        let is_early = written_bytes - stream.looked_bytes >= early_bytes;
        let is_due =
            stream.looked_us.is_none_or(|at| now_us >= at + self.options.interval_ms * 1000);
        if !is_due && !is_early {
            return Ok(false);
        }
        let mut blocks = self.reader.whole_blocks(stream.next);
        if blocks.end() < stream.next {
            stream.looked_us = Some(now_us);
            self.behind_since_us = None;
            return Ok(false);
        }
        self.behind_since_us.get_or_insert(now_us);
        let mut builder = Builder::log(self.database, stream.next, writer, stream.before_crc);
        let mut is_all = false;
        let failed = loop {
            if builder.bytes() >= self.options.object_bytes {
                break None;
            }
            match blocks.next() {
                Ok(Some(block)) => {
                    if let Err(what) = builder.put_block(&block) {
                        break Some(block_error(what));
                    }
                }
                Ok(None) => {
                    is_all = true;
                    break None;
                }
                Err(error) => break Some(error.into()),
            }
        };
        // What was read is shipped first; the next look meets the error again.
        if let Some(error) = failed.filter(|_| builder.is_empty()) {
            let is_gone = matches!(error, Error::Log(redo::Error::BlocksGone { .. }));
            let is_damaged = matches!(
                error,
                Error::Log(redo::Error::File(redo::FileError::Corrupt { .. })) | Error::Target(_)
            );
            stream.failures += u32::from(is_damaged);
            let since_us = *stream.failing_since_us.get_or_insert(now_us);
            if is_gone || stream.failures >= FAILURES_MAX || now_us >= since_us + FAILING_US {
                self.note_gap();
                return Ok(true);
            }
            return Err(error);
        }
        self.looked_all_us = is_all.then_some(now_us);
        if is_all {
            (stream.looked_us, stream.looked_bytes) = (Some(now_us), written_bytes);
        }
        let (header, bytes) = builder.finish();
        self.pending = Some(Portion::new(header, bytes));
        self.put(writer)?;
        Ok(true)
    }

    /// Blocks were compacted before they were shipped, or cannot be read.
    fn note_gap(&mut self) {
        (self.stream, self.base) = (None, None);
        self.figures.gaps += 1;
    }

    /// Gets on with a copy, if one is due. Returns whether something was done.
    fn fill(&mut self, writer: u64, now_us: u64) -> Result<bool> {
        if let Filling::Reading(reading) = &mut self.fills.filling {
            let next = reading.next(self.options.object_bytes);
            if next.is_err() {
                // What it needs is gone, or damaged: another one is made, of what is there then. What there is of
                // this one goes: made again and again, it would fill the target.
                let begun = reading.begun();
                self.leftovers.add(now_us, Why::Unfinished, begun);
                self.fills.give_up(now_us);
            }
            self.pending = Some(next?);
            self.put(writer)?;
            return Ok(true);
        }
        let is_due = self.is_fill_due() && self.fills.is_due(now_us);
        if matches!(self.fills.filling, Filling::Idle) && !is_due {
            return Ok(false);
        }
        // A copy of the same block would have the stream go on from what is there.
        if self.unlike.is_some_and(|last| self.reader.whole_blocks(Lsn(1)).end() <= last) {
            return Ok(false);
        }
        let now_ms = self.clock.now_ms();
        let worked = self.fills.begin(&self.desk, self.database, writer, now_ms);
        if let Filling::Reading(reading) = &self.fills.filling
            && self.stream.is_none()
        {
            // The stream goes on behind it at once, lest those blocks go, too.
            let lsn = reading.fill().lsn;
            let (next, time_ms) = (lsn.next(), reading.time_ms());
            self.stream = Some(Stream {
                next,
                before_crc: 0,
                looked_us: None,
                looked_bytes: 0,
                time_ms,
                first: next,
                failures: 0,
                failing_since_us: None,
            });
        }
        Ok(worked)
    }

    fn is_fill_due(&self) -> bool {
        let Some(base) = &self.base else { return true };
        let share = self.options.base_percentage;
        let most = (base.bytes.saturating_mul(share) / 100).max(self.options.base_bytes_min);
        share > 0 && base.log_bytes > most
    }

    /// Puts what is pending, and looks whether it counts.
    fn put(&mut self, writer: u64) -> Result<()> {
        let Some(mut portion) = self.pending.take() else { return Ok(()) };
        if portion.encoded.is_none() {
            let (header, bytes) = (portion.header.encode(), &portion.bytes);
            let key = self.target.keys().first();
            let key = key.map(|key| (key, self.salts.next(&header, bytes)));
            let compression = self.options.compression;
            portion.encoded = encode(&portion.header, &portion.bytes, compression, key);
        }
        let portion = self.pending.insert(portion);
        let (header, name) = (portion.header, portion.header.name);
        let (stored, raw_bytes) = (portion.stored(), portion.bytes.len() as u64);
        let stored_bytes = stored.len() as u64;
        if self.target.put_new(self.database, &name, stored)? == Put::Taken {
            check_same(&*self.target, self.database, &name, stored)?;
        }
        // What is told to be archived is what the next writer finds: it claims before it looks.
        let claims = self.target.list(self.database, Folder::Writer)?;
        if let Some(by) = claims.iter().map(Name::writer).max().filter(|by| *by > writer) {
            return Err(Error::Fenced { by });
        }
        let own = Name::Writer { writer };
        if !claims.contains(&own) {
            let what = "the claim of this server is gone: the directory was emptied, or what it is on is not mounted. Mount it; to begin anew, set archive to nothing and back";
            let source = std::io::Error::other(what);
            return Err(TargetError::of("archive behind", own.to_string())(source).into());
        }
        self.figures.objects += 1;
        self.figures.bytes += stored_bytes;
        self.figures.raw_bytes += raw_bytes;
        let Some(portion) = self.pending.take() else { return Ok(()) };
        match name {
            Name::Log { .. } if !portion.replaces.is_empty() => {
                let now_us = self.clock.monotonic_us();
                self.leftovers.add(now_us, Why::Replaced, portion.replaces);
            }
            Name::Log { last, .. } => {
                self.gathered.note(&portion);
                self.note_shipped(&header, last);
            }
            Name::Whole { fill, .. } => {
                self.fills.note_complete();
                self.figures.fills += 1;
                self.note_base(fill.lsn, &header);
            }
            Name::Base { .. } | Name::Writer { .. } => {}
        }
        Ok(())
    }

    fn note_shipped(&mut self, header: &Header, last: Lsn) {
        if let Some(stream) = &mut self.stream {
            stream.next = last.next();
            stream.before_crc = header.last_crc;
            stream.time_ms = header.time_max_ms;
            (stream.failures, stream.failing_since_us) = (0, None);
        }
        if let Some(looked_us) = self.looked_all_us.take() {
            // What there is now has come since.
            self.behind_since_us = Some(looked_us);
        }
        if let Some(base) = &mut self.base {
            base.log_bytes += header.bytes;
        }
        self.note_restorable();
    }

    /// A copy is complete: its block can be restored, and what the stream has behind it.
    fn note_base(&mut self, lsn: Lsn, whole: &Header) {
        let is_first = self.base.is_none();
        if self.stream.as_ref().is_some_and(|stream| stream.first <= lsn.next()) {
            // What was shipped while it was made is little, and not counted.
            self.base = Some(Base { bytes: whole.bytes, log_bytes: 0 });
        }
        if is_first {
            self.figures.restorable_from = lsn;
            // The stream may be before it, or have broken.
            self.raise_archived(lsn, whole.time_max_ms);
        }
        self.note_restorable();
    }

    /// Everything up to the stream's last block can be restored, if there is a copy to begin with.
    fn note_restorable(&mut self) {
        if let (Some(stream), Some(_)) = (&self.stream, &self.base) {
            self.raise_archived(Lsn(stream.next.0 - 1), stream.time_ms);
        }
    }

    fn raise_archived(&mut self, last: Lsn, time_ms: i64) {
        if last > self.figures.archived {
            (self.figures.archived, self.figures.archived_time_ms) = (last, time_ms);
        }
    }

    fn note_error(&mut self, error: &Error, now_us: u64) {
        self.is_away = matches!(error, Error::Target(_));
        self.figures.errors += 1;
        self.figures.last_error = Some(error.to_string());
        self.over = match error {
            Error::Fenced { .. } => Some(State::Fenced),
            Error::Ahead { .. }
            | Error::Diverged { .. }
            | Error::Different { .. }
            | Error::Damaged { .. }
            | Error::NoNumber { .. }
            | Error::Newer { .. }
            | Error::NoKey { .. }
            | Error::NotEncrypted { .. } => Some(State::Failed),
            _ => None,
        };
        self.retry.note_failure(now_us);
    }

    fn state(&self) -> State {
        match self.over {
            Some(state) => state,
            None if self.is_away || self.base.is_some() && self.retry.is_failing() => State::Away,
            None if self.writer.is_none() => State::Claiming,
            None if self.base.is_some() => State::Streaming,
            None if self.figures.gaps > 0 => State::Gap,
            None => State::Filling,
        }
    }

    fn tell(&mut self, now_us: u64) {
        let next = self.stream.as_ref().map(|stream| stream.next);
        let durable = self.reader.whole_blocks(Lsn(1)).end();
        let shipped = next.map_or(self.figures.archived, |next| Lsn(next.0 - 1));
        self.figures.shipped = shipped;
        self.figures.lag_blocks = durable.0.saturating_sub(shipped.0);
        if self.figures.lag_blocks == 0 {
            self.behind_since_us = None;
        } else {
            self.behind_since_us.get_or_insert(now_us);
        }
        let behind_us = self.behind_since_us.map_or(0, |since| now_us.saturating_sub(since));
        self.figures.lag_ms = behind_us / 1000;
        (self.figures.fill_done, self.figures.fill_total) = self.fills.filling.progress();
        self.figures.state = self.state();
        self.desk.tell(self.figures.clone(), now_us);
    }
}

/// The log was read with its checksums; what it says is for a start to refuse.
fn block_error(what: &'static str) -> Error {
    let source = std::io::Error::other(what);
    TargetError { doing: "archive", place: "a block of the log".to_owned(), source }.into()
}

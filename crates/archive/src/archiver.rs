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

use crate::claim::{Claim, Claiming, Found};
use crate::desk::{ArchiveOptions, Desk, Ending};
use crate::error::{Error, Result, TargetError};
use crate::figures::{Figures, State};
use crate::fill::{Filling, Fills, Portion};
use crate::gathered::Gathered;
use crate::headers::read_to_end;
use crate::key::{KEY_BYTES, Salts};
use crate::lag::{Lag, Reached};
use crate::leftovers::{Leftovers, Why};
use crate::name::{Folder, Name};
use crate::object::Header;
use crate::picture::Picture;
use crate::piece::{Damages, Piece};
use crate::readback::Readbacks;
use crate::stream::{Looked, Shipped, Shipper, Stream};
use crate::target::{Put, Readback, Target, check_same};
use crate::texts::{TextWriter, Texts};
use crate::tidier::Tidied;
use crate::tidying::{Begun, Tidying};

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
    claiming: Claiming,
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
    tidying: Tidying,
    texts: Texts,
    readbacks: Readbacks,
    damages: Damages,
    /// The copy that the stream goes on from.
    base: Option<Base>,
    lag: Lag,
    shipped: Shipped,
    figures: Figures,
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
        let shipped = Shipped::new(reader.written_bytes());
        let archiver = Self {
            reader,
            target,
            clock,
            desk,
            database,
            options,
            retry: crate::retry::Retry::new(salts.number()),
            salts,
            claiming: Claiming::default(),
            writer: None,
            over: None,
            is_away: false,
            stream: None,
            fills: Fills::default(),
            pending: None,
            gathered: Gathered::default(),
            leftovers: Leftovers::default(),
            tidying: Tidying::new(begun),
            texts: Texts::default(),
            readbacks: Readbacks::default(),
            damages: Damages::default(),
            base: None,
            lag: Lag::default(),
            shipped,
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
        // What the next process must know, and where ages go on from, before anything else.
        if self.mark(now_us)? || self.date(now_us)? {
            return Ok(true);
        }
        if self.damages.is_to_go_round {
            return self.go_on_without_damage(now_us).map(|()| true);
        }
        if self.pending.is_some() {
            return self.put(writer).map(|()| true);
        }
        // First: with a target that is slower than the log there is always something to ship, and this is in memory.
        if let Some(full) = self.gathered.take(self.options.object_bytes) {
            self.pending = Some(full);
            return self.put(writer).map(|()| true);
        }
        if self.put_text(writer, Texts::configure)? {
            return Ok(true);
        }
        if self.ship(writer, now_us)? {
            return Ok(true);
        }
        if self.fill(writer, now_us)? {
            return Ok(true);
        }
        let archived = self.figures.archived;
        if self.put_text(writer, |texts, to| texts.name(archived, to))? {
            return Ok(true);
        }
        if self.tidy(now_us) {
            return Ok(true);
        }
        match self.leftovers.step(&*self.target, self.database, now_us) {
            // What must not be removed stays; what is new is archived all the same.
            Err(Error::Target(error)) if error.is_refused() => {
                self.count_error(&Error::Target(error));
                self.leftovers.postpone(now_us);
                Ok(false)
            }
            done => done,
        }
    }

    /// Puts and removes names of backups, or how the server was configured.
    fn put_text(
        &mut self,
        writer: u64,
        put: impl FnOnce(&mut Texts, &mut TextWriter<'_>) -> Result<bool>,
    ) -> Result<bool> {
        self.texts.hear(&self.desk);
        let mut to = TextWriter {
            target: &*self.target,
            database: self.database,
            writer,
            salts: &mut self.salts,
            compression: self.options.compression,
        };
        put(&mut self.texts, &mut to)
    }

    /// Puts a mark of what is known to be damaged.
    fn mark(&mut self, now_us: u64) -> Result<bool> {
        match self.damages.mark(&*self.target, self.database, now_us) {
            // This process knows it all the same, and makes the copy that it takes.
            Err(Error::Target(error)) if error.is_refused() => {
                self.count_error(&error.into());
                Ok(false)
            }
            done => done,
        }
    }

    /// Puts the time that ages go on from, if there is none.
    fn date(&mut self, now_us: u64) -> Result<bool> {
        let keep = self.options.keep;
        match self.tidying.date(&*self.target, self.database, keep, now_us) {
            // Without it nothing is thinned out; what is new is archived all the same.
            Err(Error::Target(error)) if error.is_refused() => {
                self.count_error(&error.into());
                Ok(false)
            }
            Err(error @ (Error::NoTidier { .. } | Error::OtherTidier { .. })) => {
                self.count_error(&error);
                Ok(false)
            }
            done => done,
        }
    }

    /// Thins out what is old, when there is nothing else to do. Returns whether there is more.
    fn tidy(&mut self, now_us: u64) -> bool {
        if self.base.is_none() {
            return false;
        }
        if self.tidying.is_to_look(now_us) {
            // Another machine may have thinned out the archive.
            match self.damages.picture(&*self.target, self.database) {
                Ok(picture) => {
                    let range = picture.range_of(self.figures.archived);
                    self.figures.raise_restorable(range.map(|range| range.first));
                }
                Err(error) => self.count_error(&error.into()),
            }
        }
        let seed = &mut self.salts;
        let target = &*self.target;
        let of = (self.database, &self.options, self.damages.known());
        let step = self.tidying.step(target, &*self.clock, of, seed);
        let damaged = self.tidying.take_damaged();
        if self.damages.note(damaged) {
            // At once: what it has taken the place of is all that there is.
            self.leftovers.note_damage();
            self.damages.is_to_go_round = true;
        }
        let worked = match step {
            Ok(step) => {
                let from = self.tidying.restorable_from(self.figures.archived);
                self.figures.raise_restorable(from);
                if let Some(tidied) = self.tidying.take_finished() {
                    self.note_tidied(&tidied);
                }
                step
            }
            // The target cannot be used, or another one thins out: what is new is archived all the same.
            Err(error) => {
                self.tidying.note_error(&error, now_us, self.options.keep);
                self.count_error(&error);
                false
            }
        };
        worked || self.damages.is_to_go_round
    }

    fn note_tidied(&mut self, tidied: &Tidied) {
        self.figures.tidy.times += 1;
        self.figures.tidy.objects += tidied.objects_removed;
        self.figures.tidy.time_ms = self.clock.now_ms();
        self.figures.tidy.damaged = tidied.damaged.len() as u64;
        if let Some(piece) = tidied.damaged.first() {
            let what = "it is damaged: what only it leads to stays as it is; `indelible backup verify` says more";
            let source = std::io::Error::other(what);
            self.count_error(&TargetError::of("thin out", piece.to_string())(source).into());
        }
    }

    fn count_error(&mut self, error: &Error) {
        self.figures.errors += 1;
        self.figures.last_error = Some(error.to_string());
    }

    /// Ships what is durable, if that is possible at once.
    fn ship_rest(&mut self, begun_us: u64) {
        let is_working = self.over.is_none() && !self.retry.is_failing() && self.stream.is_some();
        let Some(writer) = self.writer.filter(|_| is_working) else { return };
        while self.clock.monotonic_us() < begun_us + ENDING_US {
            self.stream.iter_mut().for_each(Stream::hurry);
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
        let claim = self.claiming.take(&*self.target, self.database, &self.reader)?;
        self.go_on_from(&claim);
        self.figures.writer = claim.writer;
        self.writer = Some(claim.writer);
        Ok(())
    }

    /// Finds out what the stream goes on from.
    fn go_on_from(&mut self, claim: &Claim) {
        let Found { picture, footing, damaged } = &claim.found;
        self.damages.note(damaged.iter().copied());
        self.damages.note_marked(&picture.damaged);
        let Some(last) = picture.last else { return self.tidying.note_empty() };
        self.readbacks = Readbacks::behind(last);
        let times_ms = footing.last.iter().chain(&footing.whole).map(|header| header.time_max_ms);
        self.tidying.note_found(times_ms.max().unwrap_or(0));
        // Without a copy in it, or with something damaged before it, what is there leads nowhere.
        if let (Some(header), Some(range)) = (footing.last, picture.range_of(last))
            && let Some(whole) = footing.whole
        {
            self.base = Some(Base { bytes: whole.bytes, log_bytes: footing.log_bytes });
            self.stream = Some(Stream::behind(&header, last, range.first.next()));
            (self.figures.archived, self.figures.archived_time_ms) = (last, header.time_max_ms);
            self.figures.restorable_from = range.first;
            return;
        }
        // Nothing goes on from what cannot be read, of whatever log it was: a copy of that block begins anew. That it is marked is not enough.
        let is_damaged = |name: &Name| {
            if self.desk.ending().is_some() {
                return false;
            }
            let read = read_to_end(&*self.target, self.database, *name);
            matches!(read, Err(Error::Damaged { .. }))
        };
        let leads_nowhere = || {
            picture.range_of(last).is_none()
                && picture.of_last().iter().all(|names| names.iter().any(is_damaged))
        };
        self.fills.unlike = Some(last).filter(|_| footing.last.is_none() && !leads_nowhere());
        let Some(range) = picture.ranges.last() else {
            self.figures.gaps += u64::from(!picture.damaged.is_empty());
            return;
        };
        // What is there stays restorable; between it and the copy to come something is missing, if anything is.
        let durable = self.reader.whole_blocks(Lsn(1)).end();
        self.figures.gaps += u64::from(durable > range.last);
        self.figures.restorable_from = range.first;
        let time_ms = footing.whole.map_or(0, |whole| whole.time_max_ms);
        self.figures.raise_archived(range.last, time_ms);
    }

    /// Looks for blocks to ship. Returns whether there were.
    fn ship(&mut self, writer: u64, now_us: u64) -> Result<bool> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let (reader, options) = (&self.reader, &self.options);
        let shipper = Shipper { reader, database: self.database, writer, options };
        match stream.look(&shipper, now_us)? {
            Looked::NotDue => return Ok(false),
            Looked::None => {
                self.lag.note_none();
                return Ok(false);
            }
            Looked::Gone => self.note_gap(),
            Looked::Blocks(portion) => {
                self.lag.note_blocks(now_us);
                self.pending = Some(portion);
                self.put(writer)?;
            }
        }
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
                // What it needs is gone, or damaged: another one is made, of what is there then.
                self.give_up_fill(now_us);
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
        if self.fills.unlike.is_some_and(|last| self.reader.whole_blocks(Lsn(1)).end() <= last) {
            return Ok(false);
        }
        let worked = self.fills.begin(&self.desk, self.database, writer);
        if let Filling::Reading(reading) = &self.fills.filling
            && self.stream.is_none()
        {
            // The stream goes on behind it at once, lest those blocks go, too.
            let lsn = reading.fill().lsn;
            self.stream = Some(Stream::from(lsn.next(), reading.time_ms()));
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
        let Some(portion) = &mut self.pending else { return Ok(()) };
        portion.encode(&*self.target, &mut self.salts, self.options.compression);
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
        let readback = self.target.readback()?;
        self.figures.objects += 1;
        self.figures.bytes += stored_bytes;
        self.figures.raw_bytes += raw_bytes;
        let Some(portion) = self.pending.take() else { return Ok(()) };
        match name {
            Name::Log { first, .. } if !portion.replaces.is_empty() => {
                let now_us = self.clock.monotonic_us();
                let put = readback.as_ref().map_or(0, |readback| readback.put);
                self.readbacks.replace(first, put);
                // What was said to be read back stays until it is in something else that was.
                let behind = if self.figures.verified >= first { put } else { 0 };
                self.leftovers.add(now_us, Why::Replaced { behind }, portion.replaces);
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
            _ => {}
        }
        if let Some(readback) = readback {
            self.note_readback(&readback);
        }
        Ok(())
    }

    /// What the target has read back; what is damaged there is not gone on from.
    fn note_readback(&mut self, readback: &Readback) {
        let archived = self.base.as_ref().map(|_| self.figures.archived);
        if let Some(verified) = self.readbacks.note(readback, archived) {
            self.figures.verified = self.figures.verified.max(verified);
        }
        self.leftovers.note_verified(readback.verified);
        if let Some(path) = readback.damaged.first() {
            let what = "it was read back from its medium as something else, or is gone: a new copy of the data is made";
            let source = std::io::Error::other(what);
            self.count_error(&TargetError::of("keep", path.clone())(source).into());
            self.note_damage(&readback.damaged);
        }
    }

    /// Objects that were put are damaged: nothing is made of them, removed because of them, or said to be archived that may need them.
    fn note_damage(&mut self, paths: &[String]) {
        let now_us = self.clock.monotonic_us();
        self.figures.damaged += paths.len() as u64;
        self.damages.note(paths.iter().filter_map(|path| Piece::at_end_of(path)));
        self.give_up_fill(now_us);
        self.leftovers.note_damage();
        self.tidying.give_up(now_us);
        self.note_gap();
        match self.damages.picture(&*self.target, self.database) {
            Ok(picture) => self.figures.fall_back(&picture),
            Err(_) => {
                // Nothing is known before the target says what is there.
                self.figures.fall_back(&Picture::default());
                self.damages.is_to_go_round = true;
            }
        }
    }

    /// Something was found to be damaged that an earlier process has put, perhaps: if it is needed for the newest state a new copy is made.
    ///
    /// # Errors
    /// When the target does not say what is there: then it is looked at again before anything else is done.
    fn go_on_without_damage(&mut self, now_us: u64) -> Result<()> {
        let picture = self.damages.picture(&*self.target, self.database)?;
        self.damages.is_to_go_round = false;
        let is_going_on = self.stream.is_some() || self.base.is_some();
        if is_going_on && picture.range_of(self.figures.archived).is_none() {
            self.give_up_fill(now_us);
            self.tidying.give_up(now_us);
            self.note_gap();
        } else if let Some(range) = picture.ranges.last().filter(|_| !is_going_on) {
            // It was not known before, and something to go on from is still to come.
            self.figures.restorable_from = range.first;
            self.figures.raise_archived(range.last, 0);
        }
        self.figures.fall_back(&picture);
        Ok(())
    }

    /// A copy that is made is not made to its end. What there is of it goes: made again and again, it would fill the target.
    fn give_up_fill(&mut self, now_us: u64) {
        if let Filling::Reading(reading) = &self.fills.filling {
            self.leftovers.add(now_us, Why::Unfinished, reading.begun());
            self.fills.give_up(now_us);
        }
    }

    fn note_shipped(&mut self, header: &Header, last: Lsn) {
        let whole = self.stream.as_mut().and_then(|stream| stream.note_shipped(header, last));
        if let Some(whole) = whole {
            self.lag.note_whole(whole.at_us);
        }
        self.shipped.add(header.bytes, whole);
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
            self.figures.raise_archived(lsn, whole.time_max_ms);
        }
        self.note_restorable();
    }

    /// Everything up to the stream's last block can be restored, if there is a copy to begin with.
    fn note_restorable(&mut self) {
        if let (Some(stream), Some(_)) = (&self.stream, &self.base) {
            self.figures.raise_archived(Lsn(stream.next.0 - 1), stream.time_ms);
        }
    }

    fn note_error(&mut self, error: &Error, now_us: u64) {
        self.is_away = matches!(error, Error::Target(_));
        self.count_error(error);
        self.over = State::after(error);
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
        self.figures.lag_bytes = match self.figures.lag_blocks {
            0 => 0,
            _ => self.reader.written_bytes().saturating_sub(self.shipped.bytes()),
        };
        let (archived, is_founded) = (self.figures.archived, self.base.is_some());
        let reached = Reached { durable, shipped, archived, is_founded };
        (self.figures.lag_ms, self.figures.behind_ms) = self.lag.ms(&reached, now_us);
        (self.figures.fill_done, self.figures.fill_total) = self.fills.filling.progress();
        (self.figures.state, self.figures.tidy.state) = (self.state(), self.tidying.state);
        self.desk.tell(self.figures.clone(), now_us);
    }
}

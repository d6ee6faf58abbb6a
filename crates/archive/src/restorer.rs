//! Makes a log of an archive: `redo::NewLog` writes it.
//!
//! ```text
//!   base N: every record that was valid then, in any order ─► blocks N + 1 to X, in order ─► all of it read again ─► it counts
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::{Disk, Entropy};
use redo::manifest::Parent;
use redo::{Expiry, Id, Made, NewLog, NewLogOptions, WantedKey, side_by_side};

use crate::configurations;
use crate::error::{Error, Result};
use crate::headers::read_to_end;
use crate::moments::Moments;
use crate::name::Name;
use crate::named;
use crate::object::{Header, ObjectReader, StoredBlock};
use crate::picture::{Chain, Picture};
use crate::piece::Piece;
use crate::target::Target;

/// How often objects may be made one while they are read.
const LOOKS_MAX: usize = 100;

/// So many small objects are opened ahead, on so many threads: it is waiting, for a disk or another machine.
const AHEAD_MAX: usize = 32;
const OPENERS_MAX: usize = 8;

/// So many objects are being fetched while one is copied: what is read need not wait for what is written.
const FETCHED_AHEAD: usize = 8;

/// So many objects are asked for their length before they are read, lest each is opened twice.
const SAMPLES_MAX: usize = 64;

/// How often a restore begins anew because the archive was thinned out while it was read.
const ATTEMPTS_MAX: usize = 5;

/// So often something that was damaged is read again, and not damaged.
const DOUBTS_MAX: usize = 3;

/// It is of another history than what is before it.
pub(crate) const NOT_JOINED: &str = "it does not go on where the object before it ends";

/// Which state is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Point {
    /// The newest.
    Latest,
    /// The one after this block.
    Lsn(u64),
    /// The one at this time, in Unix milliseconds: nothing later is in it.
    Time(i64),
    /// The one before databases were emptied or exchanged: for the last time with 1, for the time before with 2.
    BeforeFlush(usize),
    /// The one before the block in which this key was lost last: deleted, expired, or flushed with its database.
    BeforeDelete(WantedKey),
    /// That of this backup.
    Backup(String),
}

/// What is restored.
pub struct Request<'a> {
    /// Where the archive is.
    pub target: &'a dyn Target,
    /// The database, if there are several.
    pub database: Option<Id>,
    /// The data directory that is made; `None` to find out only what would be.
    pub into: Option<&'a Path>,
    /// The state that is wanted.
    pub point: Point,
    /// When keys expire in the new log.
    pub expiry: Expiry,
    /// On how many threads it is made at most.
    pub threads: NonZero<usize>,
    /// After so many bytes it is noted how far it is: when it is cut off, the same one loses no more. [`KEEP_BYTES`].
    pub keep_bytes: u64,
}

/// What a restore that is cut off may lose, where nothing else is asked for.
pub const KEEP_BYTES: u64 = 256 << 20;

/// How far it is, in bytes done and in all of the step that it is at if nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restoring {
    /// Finding the block that is meant.
    Finding,
    /// Reading what is said to be damaged; in objects.
    Doubting(u64, u64),
    /// Reading the archive, and writing the log.
    Copying(u64, u64),
    /// Reading what was written.
    Verifying,
}

/// What was restored, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The database of the archive, and the last block that was restored.
    pub parent: Parent,
    /// When that block was ended, in Unix milliseconds.
    pub time_ms: Option<i64>,
    /// If this is the last block that can be restored: the last one that the archive has, if it lacks some before it, and no copy
    /// behind those is complete; and when that block was ended, 0 if that is not known.
    pub cut_off: Option<(Lsn, i64)>,
    /// What was found to be damaged first, or could not be read and is not needed, and was gone round.
    pub damage: Option<String>,
    /// How the server was configured then, without secrets, if the archive knows.
    pub configuration: Option<String>,
    /// The block whose copy the restore began with.
    pub base: Lsn,
    /// How many objects were read, or would be, and their length.
    pub objects: u64,
    /// See `objects`.
    pub bytes: u64,
    /// The new log; `None` if nothing was made.
    pub made: Option<Made>,
    /// It went on with a restore of the same state that had been cut off.
    pub is_resumed: bool,
}

/// The database that is meant.
///
/// # Errors
/// When there is none, or there are several.
pub fn database_of(target: &dyn Target, wanted: Option<Id>) -> Result<Id> {
    let databases = target.databases()?;
    match (wanted, &databases[..]) {
        (Some(wanted), _) if databases.contains(&wanted) => Ok(wanted),
        (Some(_), _) | (None, []) => Err(Error::NoArchive),
        (None, [only]) => Ok(*only),
        (None, [first, second, ..]) => {
            Err(Error::Several { count: databases.len(), first: *first, second: *second })
        }
    }
}

/// Restores what `request` says.
///
/// # Errors
/// When the state cannot be told, the archive is damaged, the new directory is not empty, or a disk refuses. Then there
/// is no log in the new directory.
pub fn restore(
    disk: &Arc<dyn Disk>,
    request: &Request<'_>,
    entropy: &mut dyn Entropy,
    progress: &mut dyn FnMut(Restoring),
) -> Result<Restored> {
    progress(Restoring::Finding);
    let database = database_of(request.target, request.database)?;
    let (mut attempts, mut ways) = (1, Ways::default());
    loop {
        // What is made one, or thinned out, while it is read is not there any more: then it is looked at anew. What was
        // begun to be made is left as a restore that was cut off leaves it, for the next one.
        match attempt(disk, request, (database, &mut ways), &mut *entropy, &mut *progress) {
            Err(Error::Target(error)) if error.is_not_found() && attempts < ATTEMPTS_MAX => {
                attempts += 1;
                ways.forget_newest(request);
            }
            Err(error) => ways.look_for_another(error, request, database)?,
            done => return done,
        }
    }
}

/// Which ways to a state are tried: first those that lead over nothing that is damaged, as far as is known.
#[derive(Default)]
struct Ways {
    /// What was found to be damaged, and the first error that said so.
    damaged: BTreeSet<Piece>,
    damage: Option<Error>,
    /// What is marked as damaged and can be read to its end, and what of it cannot be read for another reason.
    good: BTreeSet<Piece>,
    unread: BTreeSet<Piece>,
    /// How often something was damaged that could be read to its end then.
    doubts: usize,
    /// Whether what is marked as damaged is read, because there is no other way.
    is_any: bool,
    /// The block that was found to be meant.
    lsn: Option<Lsn>,
    /// Whether the first attempt that has begun to make something has gone on with what was there, and how much all of them have read.
    is_resumed: Option<bool>,
    bytes: u64,
}

impl Ways {
    fn picture(&self, target: &dyn Target, database: Id) -> Result<Picture> {
        let mut names = Picture::names(target, database)?;
        self.mark(&mut names);
        Ok(Picture::of(&names))
    }

    fn mark(&self, names: &mut Vec<Name>) {
        names.retain(|name| match name {
            Name::Damaged { piece } => !self.is_any && !self.good.contains(piece),
            _ => true,
        });
        names.extend(self.damaged.iter().map(|piece| Name::Damaged { piece: *piece }));
    }

    /// Finds out what is damaged of what would lead to a newer state than what is not marked. That something is marked is no reason to restore an
    /// older state without having looked: anything that may put objects can put a mark, and a wire may have been at fault.
    fn look_at_marks(
        &mut self,
        target: &dyn Target,
        database: Id,
        progress: &mut dyn FnMut(Restoring),
    ) -> Result<()> {
        loop {
            let mut names = Picture::names(target, database)?;
            self.mark(&mut names);
            let believed = Picture::of(&names);
            names.retain(|name| match name {
                Name::Damaged { piece } => {
                    self.damaged.contains(piece) || self.unread.contains(piece)
                }
                _ => true,
            });
            let open = Picture::of(&names);
            let last_of = |picture: &Picture| picture.ranges.last().map(|range| range.last);
            let newest = last_of(&open).filter(|last| Some(*last) > last_of(&believed));
            let Some(chain) = newest.and_then(|last| open.chain(last)) else { return Ok(()) };
            let mut marked: BTreeMap<Piece, Vec<Name>> = BTreeMap::new();
            for name in chain.names() {
                if let Some(piece) =
                    Piece::of(&name).filter(|piece| believed.damaged.contains(piece))
                {
                    marked.entry(piece).or_default().push(name);
                }
            }
            if marked.is_empty() {
                return Ok(());
            }
            let (mut done, all) = (0, marked.values().map(Vec::len).sum::<usize>() as u64);
            for (piece, names) in marked {
                let mut names = names.into_iter();
                let read = names.try_for_each(|name| {
                    progress(Restoring::Doubting(done, all));
                    done += 1;
                    read_to_end(target, database, name)
                });
                match read {
                    Ok(()) => _ = self.good.insert(piece),
                    Err(error @ (Error::Damaged { .. } | Error::Record { .. })) => {
                        self.damaged.insert(piece);
                        self.damage.get_or_insert(error);
                        break;
                    }
                    Err(Error::Target(error)) if error.is_not_found() => return Err(error.into()),
                    // Nothing speaks against the mark.
                    Err(_) => {
                        self.unread.insert(piece);
                        break;
                    }
                }
            }
        }
    }

    /// The newest state may be another one by now.
    fn forget_newest(&mut self, request: &Request<'_>) {
        self.lsn = self.lsn.filter(|_| request.point != Point::Latest);
    }

    /// Goes on without what is damaged, or with what is only said to be. The newest state is the newest one that nothing damaged leads to: what a
    /// checksum says, twice. What does not go on from what is before it may be of another history, and what a record has that is not known of a newer
    /// program: then only another way to the same state will do.
    ///
    /// # Errors
    /// When that is no other way.
    fn look_for_another(
        &mut self,
        error: Error,
        request: &Request<'_>,
        database: Id,
    ) -> Result<()> {
        match error {
            Error::Damaged { name, .. } | Error::Record { name, .. }
                if Piece::of(&name).is_some_and(|piece| !self.damaged.contains(&piece)) =>
            {
                let is_of_bytes =
                    matches!(error, Error::Damaged { what, .. } if what != NOT_JOINED);
                if is_of_bytes {
                    match read_to_end(request.target, database, name) {
                        Ok(()) if self.doubts < DOUBTS_MAX => {
                            self.doubts += 1;
                            return Ok(());
                        }
                        Ok(()) | Err(Error::Damaged { .. } | Error::Record { .. }) => {}
                        // A target that does not answer is no reason for an older state.
                        Err(error) if request.point == Point::Latest => return Err(error),
                        Err(_) => {}
                    }
                    self.forget_newest(request);
                }
                self.damaged.extend(Piece::of(&name));
                self.damage.get_or_insert(error);
                Ok(())
            }
            Error::NotThere { .. }
            | Error::Nothing
            | Error::InGap { .. }
            | Error::TooEarly { .. }
            | Error::NoFlush { .. }
            | Error::FlushOrGap { .. }
            | Error::NoDelete { .. }
            | Error::DeleteOrGap { .. } => {
                let is_any = std::mem::replace(&mut self.is_any, true);
                if is_any { Err(self.damage.take().unwrap_or(error)) } else { Ok(()) }
            }
            error => Err(error),
        }
    }
}

fn attempt(
    disk: &Arc<dyn Disk>,
    request: &Request<'_>,
    (database, ways): (Id, &mut Ways),
    entropy: &mut dyn Entropy,
    progress: &mut dyn FnMut(Restoring),
) -> Result<Restored> {
    let target = request.target;
    let is_newest = request.point == Point::Latest;
    if is_newest && ways.lsn.is_none() {
        ways.look_at_marks(target, database, progress)?;
    }
    let picture = ways.picture(target, database)?;
    let openers = if request.threads.get() > 1 { OPENERS_MAX } else { 1 };
    let moments = Moments { target, database, picture: &picture, threads: openers };
    let lsn = match (ways.lsn, &request.point) {
        (Some(lsn), _) => lsn,
        (None, Point::Latest) => {
            picture.ranges.last().map(|range| range.last).ok_or(Error::Nothing)?
        }
        (None, Point::Lsn(lsn)) => Lsn(*lsn),
        (None, Point::Time(time_ms)) => moments.at(*time_ms)?,
        (None, Point::BeforeFlush(count)) => moments.before_flush(*count)?,
        (None, Point::BeforeDelete(wanted)) => moments.before_delete(wanted)?,
        (None, Point::Backup(name)) => named::find(target, database, name)?,
    };
    ways.lsn = Some(lsn);
    let (before, after) = picture.nearest(lsn);
    let chain = picture.chain(lsn).ok_or(Error::NotThere { lsn, before, after })?;
    let mut copy = Copy {
        target,
        database,
        ways: &*ways,
        lsn,
        openers,
        done: 0,
        total: 0,
        is_exact: true,
        bytes: 0,
        progress,
    };
    let whole =
        copy.survey(&chain, if request.into.is_some() { SAMPLES_MAX } else { usize::MAX })?;
    // A state is as good without, whatever keeps it from being read.
    let (configuration, unread) = match configurations::as_of(target, database, &picture, lsn) {
        Err(Error::Target(error)) if error.is_not_found() => return Err(error.into()),
        Err(error) => (None, Some(error)),
        Ok(configuration) => (configuration, None),
    };
    let damage = ways.damage.as_ref().or(unread.as_ref());
    let mut restored = Restored {
        parent: Parent { database, lsn },
        time_ms: moments.time_of(lsn)?,
        cut_off: match picture.ranges.last().filter(|range| is_newest || range.last == lsn) {
            Some(_) => cut_off(target, database, &picture, lsn)?,
            None => None,
        },
        damage: damage.map(ToString::to_string),
        configuration,
        base: chain.fill.lsn,
        objects: u64::from(chain.objects) + chain.logs.len() as u64,
        bytes: copy.total,
        made: None,
        is_resumed: false,
    };
    if let Some(into) = request.into {
        // Clones of a database that have archives of their own have copies of the same names, and blocks of the same numbers.
        let same = format!("{whole:?}, at {:?}", restored.time_ms);
        let options = NewLogOptions {
            parent: restored.parent,
            horizon: chain.horizon,
            bytes: copy.room(),
            threads: request.threads.get(),
            what: same.as_bytes(),
            keep_bytes: request.keep_bytes,
            expiry: request.expiry,
            time_ms: restored.time_ms,
        };
        let (mut log, reached) = NewLog::begin(disk, into, &options, entropy)?;
        let from = reached.as_deref().and_then(Place::decode).filter(|from| from.leads_on(&chain));
        if from.is_none() && reached.is_some() {
            log.begin_anew(chain.horizon)?;
        }
        let copied = copy.copy(&chain, &whole, from.unwrap_or_default(), &mut log);
        let bytes = copy.bytes;
        restored.is_resumed = *ways.is_resumed.get_or_insert(from.is_some());
        ways.bytes = ways.bytes.saturating_add(bytes);
        restored.bytes = ways.bytes;
        copied?;
        progress(Restoring::Verifying);
        restored.made = Some(log.finish(restored.time_ms.unwrap_or(0))?);
    }
    Ok(restored)
}

/// The last block, if it is behind the last one that can be restored.
fn cut_off(
    target: &dyn Target,
    database: Id,
    picture: &Picture,
    restorable: Lsn,
) -> Result<Option<(Lsn, i64)>> {
    let Some(last) = picture.last.filter(|last| *last > restorable) else { return Ok(None) };
    // A copy that is damaged is behind it otherwise.
    let Some(name) = picture.last_log else { return Ok(Some((last, 0))) };
    match ObjectReader::open(target, database, name) {
        Err(Error::Target(error)) if error.is_not_found() => Err(error.into()),
        object => Ok(Some((last, object.map_or(0, |object| object.header().time_max_ms)))),
    }
}

/// The last block that was copied, and its checksum if what comes next must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    last: Lsn,
    crc: Option<u32>,
}

/// How far a restore is, between two objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// So many objects of the copy were copied, with so many blocks and records.
    Copy { objects: u32, blocks: u64, records: u64 },
    /// Behind the copy.
    Log(End),
}

impl Default for Place {
    fn default() -> Self {
        Self::Copy { objects: 0, blocks: 0, records: 0 }
    }
}

impl Place {
    fn encode(self) -> Vec<u8> {
        let text = match self {
            Self::Copy { objects, blocks, records } => format!("copy {objects} {blocks} {records}"),
            Self::Log(End { last, crc: Some(crc) }) => format!("log {last} {crc}"),
            Self::Log(End { last, crc: None }) => format!("log {last}"),
        };
        text.into_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        let what = words.next()?;
        let numbers: Vec<u64> =
            words.map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
        match (what, &numbers[..]) {
            ("copy", &[objects, blocks, records]) => {
                Some(Self::Copy { objects: objects.try_into().ok()?, blocks, records })
            }
            ("log", &[last]) => Some(Self::Log(End { last: Lsn(last), crc: None })),
            ("log", &[last, crc]) => {
                Some(Self::Log(End { last: Lsn(last), crc: Some(crc.try_into().ok()?) }))
            }
            _ => None,
        }
    }

    /// Whether the chain leads from there to its end. A leap does from where it goes on: what came and went within it is not in it.
    fn leads_on(self, chain: &Chain) -> bool {
        match self {
            Self::Copy { objects, .. } => objects <= chain.objects,
            Self::Log(End { last, .. }) => match chain.behind(last).next() {
                Some(Name::Log { first, .. }) => *first <= last.next(),
                Some(Name::Thin { from, .. }) => *from == last,
                _ => true,
            },
        }
    }
}

struct Copy<'a, 'b> {
    target: &'a dyn Target,
    database: Id,
    ways: &'a Ways,
    lsn: Lsn,
    /// On how many threads objects are opened.
    openers: usize,
    done: u64,
    /// How much there is to read, about.
    total: u64,
    is_exact: bool,
    /// Of all objects that were opened.
    bytes: u64,
    progress: &'b mut dyn FnMut(Restoring),
}

impl Copy<'_, '_> {
    fn open(&self, name: Name) -> Result<ObjectReader> {
        ObjectReader::open(self.target, self.database, name)
    }

    /// Looks at how much there is to read, in so many objects at most. Returns what the copy says of itself.
    fn survey(&mut self, chain: &Chain, samples_max: usize) -> Result<Header> {
        let whole = *self.open(chain.whole())?.header();
        let step = chain.logs.len().div_ceil(samples_max).max(1);
        let samples: Vec<Name> = chain.logs.iter().copied().step_by(step).collect();
        let (target, database) = (self.target, self.database);
        let bytes_of = |name: &Name| -> Result<u64> {
            Ok(ObjectReader::open(target, database, *name)?.header().bytes)
        };
        let mut logs_bytes: u64 = 0;
        for bytes in side_by_side(&samples, self.openers, bytes_of) {
            logs_bytes = logs_bytes.saturating_add(bytes?);
        }
        let others = (chain.logs.len() - samples.len()) as u64;
        let mean = logs_bytes / samples.len().max(1) as u64;
        self.is_exact = others == 0;
        self.total = mean.saturating_mul(others).saturating_add(logs_bytes);
        self.total = self.total.saturating_add(whole.bytes);
        Ok(whole)
    }

    /// So much it takes on the disk, at least.
    const fn room(&self) -> u64 {
        if self.is_exact { self.total } else { self.total / 4 * 3 }
    }

    fn open_all(&self, names: &[Name]) -> Vec<Result<ObjectReader>> {
        let (target, database) = (self.target, self.database);
        side_by_side(names, self.openers, |name| ObjectReader::open(target, database, *name))
    }

    fn copy(&mut self, chain: &Chain, whole: &Header, from: Place, log: &mut NewLog) -> Result<()> {
        let end = match from {
            Place::Copy { objects, blocks, records } => {
                self.copy_whole(chain, whole, (objects, blocks, records), log)?;
                End { last: chain.fill.lsn, crc: None }
            }
            Place::Log(end) => end,
        };
        self.copy_logs(chain, end, log)
    }

    /// Copies the objects of the copy, of which the first ones, with so many blocks and records, were copied before.
    fn copy_whole(
        &mut self,
        chain: &Chain,
        whole: &Header,
        (from, mut blocks, mut records): (u32, u64, u64),
        log: &mut NewLog,
    ) -> Result<()> {
        for index in from..chain.objects {
            let mut object = self.open(Name::Base { fill: chain.fill, index })?;
            object.fetch_ahead();
            self.bytes = self.bytes.saturating_add(object.header().bytes);
            (blocks, records) =
                (blocks + object.header().blocks, records + object.header().records);
            while let Some(block) = self.next(&mut object)? {
                log.put(block.header.lsn, block.header.time_ms, &block.payload)?;
            }
            log.keep(|| Place::Copy { objects: index + 1, blocks, records }.encode())?;
        }
        let name = chain.whole();
        if (blocks, records) != (whole.blocks, whole.records) {
            let what = "the copy has other blocks than it counts";
            return Err(Error::Damaged { name, at: 80, what });
        }
        Ok(())
    }

    fn copy_logs(&mut self, chain: &Chain, mut end: End, log: &mut NewLog) -> Result<()> {
        let mut logs: VecDeque<Name> = chain.behind(end.last).copied().collect();
        let mut looks = LOOKS_MAX;
        let mut opened = VecDeque::new();
        loop {
            if opened.is_empty() {
                let names: Vec<Name> = logs.drain(..logs.len().min(AHEAD_MAX)).collect();
                opened = self.open_all(&names).into();
                opened.iter().take(FETCHED_AHEAD).flatten().for_each(ObjectReader::fetch_ahead);
            }
            let Some(object) = opened.pop_front() else { break };
            if let Some(Ok(next)) = opened.get(FETCHED_AHEAD - 1) {
                next.fetch_ahead();
            }
            match object.and_then(|object| self.copy_log(object, &mut end, log)) {
                Err(Error::Target(error)) if error.is_not_found() && looks > 0 => {
                    // It was made one with others meanwhile.
                    looks -= 1;
                    logs = self.logs_behind(end.last)?.ok_or(Error::Target(error))?;
                    opened.clear();
                }
                copied => copied?,
            }
        }
        if end.last != self.lsn {
            let (before, after) = (Some(end.last), None);
            return Err(Error::NotThere { lsn: self.lsn, before, after });
        }
        Ok(())
    }

    fn copy_log(
        &mut self,
        mut object: ObjectReader,
        end: &mut End,
        log: &mut NewLog,
    ) -> Result<()> {
        self.bytes = self.bytes.saturating_add(object.header().bytes);
        check_joins(&object, end.last, end.crc)?;
        while let Some(block) = self.next(&mut object)? {
            let lsn = block.header.lsn;
            // Of what was thinned out a block has other bytes.
            let is_whole = matches!(object.header().name, Name::Log { .. });
            let is_other = |crc| is_whole && crc != block.header.payload_crc;
            if lsn == end.last && end.crc.is_some_and(is_other) {
                let name = object.header().name;
                return Err(Error::Damaged { name, at: 120, what: NOT_JOINED });
            }
            if lsn > end.last && lsn <= self.lsn {
                log.put(lsn, block.header.time_ms, &block.payload)?;
                *end = End { last: lsn, crc: Some(block.header.payload_crc) };
            }
        }
        if let Name::Thin { last, to, .. } = object.header().name {
            // Its last blocks may have had nothing that is needed.
            *end = End { last: last.max(end.last), crc: None };
            if last < to {
                // What is there is no state yet.
                return Ok(());
            }
        }
        Ok(log.keep(|| Place::Log(*end).encode())?)
    }

    /// The objects that have the blocks behind this one whole, as of now; `None` if there are none.
    fn logs_behind(&self, last: Lsn) -> Result<Option<VecDeque<Name>>> {
        let picture = self.ways.picture(self.target, self.database)?;
        let Some(range) = picture.range_of(self.lsn) else { return Ok(None) };
        let is_needed = |name: &&Name| matches!(name, Name::Log { first, last: end, .. } if *end > last && *first <= self.lsn);
        let logs: VecDeque<Name> = range.logs.iter().filter(is_needed).copied().collect();
        let goes_on =
            matches!(logs.front(), Some(Name::Log { first, .. }) if *first <= last.next());
        Ok(goes_on.then_some(logs))
    }

    fn next(&mut self, object: &mut ObjectReader) -> Result<Option<StoredBlock>> {
        let before = object.bytes_done();
        let block = object.next()?;
        if let Some(block) = &block {
            check_records(object.header().name, block)?;
        }
        let done = self.done;
        self.done += object.bytes_done() - before;
        // Every some MiB is enough.
        if done >> 22 != self.done >> 22 {
            (self.progress)(Restoring::Copying(self.done, self.total.max(self.done)));
        }
        Ok(block)
    }
}

/// Whether an object goes on behind the block that was read last.
pub(crate) fn check_joins(object: &ObjectReader, last: Lsn, last_crc: Option<u32>) -> Result<()> {
    let header = object.header();
    let (Name::Log { first, .. } | Name::Thin { first, .. }) = header.name else { return Ok(()) };
    let damaged = |what| Error::Damaged { name: header.name, at: 120, what };
    if first > last.next() {
        return Err(damaged("a block before its first one is missing"));
    }
    let is_other = |crc: u32| header.before_crc != 0 && crc != header.before_crc;
    if first == last.next() && last_crc.is_some_and(is_other) {
        return Err(damaged(NOT_JOINED));
    }
    Ok(())
}

/// Checks the records as a start does.
pub(crate) fn check_records(name: Name, block: &StoredBlock) -> Result<()> {
    let lsn = block.header.lsn;
    let checked = block.records().try_for_each(|record| keyspace::plain::check(&record));
    checked.map_err(|bad| Error::Record { name, lsn, bad })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::key::Keys;
    use crate::object::Builder;
    use crate::target::Object;

    struct Bytes(Vec<u8>);

    impl Object for Bytes {
        fn bytes(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            let at = usize::try_from(offset).map_err(io::Error::other)?;
            buffer.copy_from_slice(&self.0[at..at + buffer.len()]);
            Ok(())
        }
    }

    /// Names say which blocks are in which object; if one lies, or is another by now, what is restored has no gap all the same.
    #[test]
    fn an_object_goes_on_where_the_one_before_it_ends() {
        let database = Id([7; 16]);
        let (header, bytes) = Builder::log(database, Lsn(10), 1, 0xabcd).finish();
        let name = Name::Log { first: Lsn(10), last: Lsn(12), writer: 1 };
        let bytes = [&Header { name, ..header }.encode()[..], &bytes[128..]].concat();
        let object = ObjectReader::of(Box::new(Bytes(bytes)), (database, &Keys::NONE), name);
        let object = object.unwrap();
        let joins = |last, crc| check_joins(&object, Lsn(last), crc).map_err(|it| it.to_string());
        assert!(joins(8, None).unwrap_err().contains("a block before its first one is missing"));
        assert!(joins(9, Some(0xabce)).unwrap_err().contains(NOT_JOINED));
        for (last, crc) in [(9, Some(0xabcd)), (9, None), (11, Some(0xabce))] {
            joins(last, crc).unwrap();
        }
    }
}

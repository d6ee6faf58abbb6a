//! Serves requests, a piece of each in turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base::{Lsn, RecordAddr};
use env::Clock;
use redo::Blocks;

use super::desk::{Answer, Desk, Reply, Request};
use super::error::{TailError, TailResult};
use super::position::Position;
use super::{REPLY_BYTES_MAX, blocks};

/// How many positions are kept while no client asks.
const POSITIONS_MAX: usize = 4;

/// How many blocks are read at a time.
const SLICE_BLOCKS: usize = 64;

/// What the tail has given, and what it has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailFigures {
    /// Requests that were answered with blocks or an error.
    pub requests: u64,
    /// Those that were answered with an error.
    pub errors: u64,
    /// Blocks that were given out.
    pub blocks: u64,
    /// Their changes.
    pub changes: u64,
    /// Their lines, in bytes.
    pub bytes: u64,
    /// Blocks that were read only to know the keys of large values.
    pub learned_blocks: u64,
    /// How often that was necessary.
    pub learnings: u64,
    /// Time spent, in microseconds.
    pub spent_us: u64,
    /// What the kept keys of large values take.
    pub roots_bytes: u64,
    /// How many of them were forgotten for want of room.
    pub roots_forgotten: u64,
}

impl TailFigures {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: &Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            errors: self.errors + other.errors,
            blocks: self.blocks + other.blocks,
            changes: self.changes + other.changes,
            bytes: self.bytes + other.bytes,
            learned_blocks: self.learned_blocks + other.learned_blocks,
            learnings: self.learnings + other.learnings,
            spent_us: self.spent_us + other.spent_us,
            roots_bytes: self.roots_bytes + other.roots_bytes,
            roots_forgotten: self.roots_forgotten + other.roots_forgotten,
        }
    }
}

/// How a step of a tailer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailStep {
    /// There may be more to do.
    Worked,
    /// There is nothing to do.
    Idle,
    /// Nothing will ever be.
    Finished,
}

/// See the file's top.
pub struct Tailer {
    desk: Arc<Desk>,
    clock: Arc<dyn Clock>,
    /// Requests that were not looked at yet.
    waiting: VecDeque<Request>,
    /// Requests for which something is to be learned first.
    learners: VecDeque<Request>,
    /// What is under way, in turns: one request that reads (so that the next one for the same blocks has what it has read), and
    /// one that learns.
    jobs: VecDeque<Job>,
    /// Positions that no request uses, the one that was used last at the end.
    positions: Vec<Position>,
    figures: TailFigures,
}

/// A request that is being served.
struct Job {
    request: Request,
    stage: Stage,
}

enum Stage {
    /// It was not looked at yet.
    New,
    /// The blocks up to the client's are read, with what was needed then.
    Learning { blocks: Blocks, position: Position },
    /// The blocks behind are.
    Reading { blocks: Blocks, position: Position, lines: Vec<Arc<[u8]>>, bytes: usize },
}

/// What a slice of a job has come to.
enum Progress {
    More(Stage),
    Done(Answer, Option<Position>),
}

impl Tailer {
    /// One that serves what is asked for at `desk`.
    pub(crate) fn new(desk: Arc<Desk>, clock: Arc<dyn Clock>) -> Self {
        let (waiting, learners, jobs) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let (positions, figures) = (Vec::new(), TailFigures::default());
        Self { desk, clock, waiting, learners, jobs, positions, figures }
    }

    /// Does some of what there is to do.
    pub fn step(&mut self) -> TailStep {
        if self.desk.is_ending() {
            self.waiting.clear();
            self.learners.clear();
            self.jobs.clear();
            self.positions.clear();
            self.count_roots();
            self.desk.tell(self.figures);
            return TailStep::Finished;
        }
        while let Some(request) = self.desk.take_request() {
            self.waiting.push_back(request);
        }
        self.admit();
        let Some(Job { request, stage }) = self.jobs.pop_front() else { return TailStep::Idle };
        let begun_us = self.clock.monotonic_us();
        if request.is_unwanted() {
            // What it had is of use when the client comes again.
            if let Stage::Reading { position, .. } = stage {
                self.keep(position);
            }
            return TailStep::Worked;
        }
        let progress = match stage {
            Stage::New => self.begin(&request),
            Stage::Learning { blocks, position } => self.learn(&request, blocks, position),
            Stage::Reading { blocks, position, lines, bytes } => {
                read(&request, blocks, position, lines, bytes, &mut self.figures)
            }
        };
        self.figures.spent_us += self.clock.monotonic_us().saturating_sub(begun_us);
        let result = match progress {
            Ok(Progress::More(Stage::Learning { .. })) if self.is_learning() => {
                self.learners.push_back(request);
                return TailStep::Worked;
            }
            Ok(Progress::More(stage)) => {
                self.jobs.push_back(Job { request, stage });
                return TailStep::Worked;
            }
            Ok(Progress::Done(answer, position)) => {
                position.into_iter().for_each(|position| self.keep(position));
                Ok(answer)
            }
            Err(error) => {
                self.figures.errors += 1;
                Err(error)
            }
        };
        self.figures.requests += 1;
        self.count_roots();
        self.desk.tell(self.figures);
        self.desk.reply(Reply { number: request.number, result });
        TailStep::Worked
    }

    fn is_learning(&self) -> bool {
        self.jobs.iter().any(|job| matches!(job.stage, Stage::Learning { .. }))
    }

    /// Begins with what can be begun with.
    fn admit(&mut self) {
        let is_reading = self.jobs.iter().any(|job| !matches!(job.stage, Stage::Learning { .. }));
        let learner = if self.is_learning() { None } else { self.learners.pop_front() };
        let reader = if is_reading { None } else { self.waiting.pop_front() };
        let next = learner.into_iter().chain(reader);
        self.jobs.extend(next.map(|request| Job { request, stage: Stage::New }));
    }

    /// Whether the engine has something to take.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.desk.has_replies()
    }

    /// Waits for something to do, or for `timeout`.
    pub fn wait(&self, timeout: Duration) {
        self.desk.wait(timeout);
    }

    fn keep(&mut self, position: Position) {
        if self.positions.len() == POSITIONS_MAX {
            self.positions.remove(0);
        }
        self.positions.push(position);
    }

    fn count_roots(&mut self) {
        let roots = self.positions.iter().map(Position::roots);
        let (forgotten, bytes) =
            roots.fold((0, 0), |(forgotten, bytes), it| (forgotten + it.0, bytes + it.1 as u64));
        (self.figures.roots_forgotten, self.figures.roots_bytes) = (forgotten, bytes);
    }

    /// Finds out where the request is to begin.
    fn begin(&mut self, request: &Request) -> TailResult<Progress> {
        let (after, reader) = (request.after, &request.reader);
        let from = after.next();
        if let Some(at) = self.positions.iter().position(|it| it.serves(after)) {
            let position = self.positions.remove(at);
            if let Some(answer) = position.repeat(after, request.count_max) {
                return Ok(Progress::Done(answer, Some(position)));
            }
            return Ok(Progress::More(reading(request, position)));
        }
        let extent = blocks::extent(reader)?;
        if from <= extent.horizon {
            let whole_from = extent.horizon.next();
            return Err(TailError::Gone { from, whole_from });
        }
        if after > extent.durable {
            return Err(TailError::Ahead { from, durable: extent.durable });
        }
        let position = Position::first(reader.database());
        if after == Lsn::ZERO {
            return Ok(Progress::More(reading(request, position)));
        }
        self.figures.learnings += 1;
        let blocks = blocks::of_state(reader, after);
        Ok(Progress::More(Stage::Learning { blocks, position }))
    }

    fn learn(
        &mut self,
        request: &Request,
        mut blocks: Blocks,
        mut position: Position,
    ) -> TailResult<Progress> {
        for _ in 0..SLICE_BLOCKS {
            match blocks.next() {
                Ok(Some(block)) => {
                    self.figures.learned_blocks += 1;
                    position.learn(&block)?;
                }
                Ok(None) => {
                    let extent = blocks::extent(&request.reader)?;
                    let newest: Option<RecordAddr> = request.databases;
                    let position = position.learned(request.after.next(), extent, newest)?;
                    return Ok(Progress::More(reading(request, position)));
                }
                Err(redo::Error::BlocksGone { from, whole_from }) => {
                    return Err(TailError::Gone { from, whole_from });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Progress::More(Stage::Learning { blocks, position }))
    }
}

fn reading(request: &Request, mut position: Position) -> Stage {
    position.begin_reply();
    let blocks = blocks::whole_from(&request.reader, position.next());
    Stage::Reading { blocks, position, lines: Vec::new(), bytes: 0 }
}

fn done(position: Position, lines: Vec<Arc<[u8]>>) -> Progress {
    let last = Lsn(position.next().0 - 1);
    Progress::Done(Answer { last, lines }, Some(position))
}

fn read(
    request: &Request,
    mut blocks: Blocks,
    mut position: Position,
    mut lines: Vec<Arc<[u8]>>,
    mut bytes: usize,
    figures: &mut TailFigures,
) -> TailResult<Progress> {
    for _ in 0..SLICE_BLOCKS {
        let is_full = lines.len() >= request.count_max || bytes >= REPLY_BYTES_MAX;
        let next = if is_full { Ok(None) } else { blocks.next() };
        let block = match next {
            Ok(Some(block)) => block,
            Ok(None) => return Ok(done(position, lines)),
            // What was read goes out; the next request meets the error.
            Err(_) if !lines.is_empty() => return Ok(done(position, lines)),
            Err(redo::Error::BlocksGone { from, whole_from }) => {
                return Err(TailError::Gone { from, whole_from });
            }
            Err(error) => return Err(error.into()),
        };
        let (changes, line) = match position.write(&block) {
            Err(_) if !lines.is_empty() => return Ok(done(position, lines)),
            written => written?,
        };
        bytes += line.len();
        figures.blocks += 1;
        figures.changes += changes as u64;
        figures.bytes += line.len() as u64;
        lines.push(line);
    }
    Ok(Progress::More(Stage::Reading { blocks, position, lines, bytes }))
}

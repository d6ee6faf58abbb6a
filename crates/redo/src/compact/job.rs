//! What the executor orders from the compactor, and what it hears back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard};

use base::{Lsn, Mutex, ObjectId, SegmentId};

use crate::compact::holds::Holds;
use crate::compact::image_copy::{Copied, Keep};
use crate::compact::kept::MarkId;
use crate::error::Error;
use crate::shared::device::Part;

/// Files to compact into one.
pub(crate) struct Job {
    /// What is in them, in the order of the segments.
    pub(crate) members: Vec<Member>,
    /// The device that the new file goes to.
    pub(crate) target: usize,
    /// The LSN that was open when the bitmaps were copied.
    pub(crate) compaction_lsn: Lsn,
    pub(crate) durable_before_rename: Lsn,
    /// One above every object that a record may name which is not copied.
    pub(crate) object_floor: ObjectId,
    pub(crate) rate_bytes_per_s: u64,
    pub(crate) bytes_before: u64,
    /// The old files are damaged and superfluous: they are not read, and go to a directory of this
    /// name next to them.
    pub(crate) aside: Option<String>,
    /// Marks that were made before and may need the old files.
    pub(crate) marks: Vec<MarkId>,
}

/// A segment of a job.
pub(crate) struct Member {
    pub(crate) segment: SegmentId,
    pub(crate) device: usize,
    /// The segment that its file is named after.
    pub(crate) leader: SegmentId,
    pub(crate) parts: Vec<Part>,
    pub(crate) keep: Keep,
    /// The last block that the segment ever had.
    pub(crate) horizon: Lsn,
    /// Every record is retired: there is nothing to read.
    pub(crate) drops_all: bool,
    /// There are delete records in it.
    pub(crate) has_deletes: bool,
}

/// How a job has ended.
pub(crate) struct Outcome {
    /// The segments that it was about.
    pub(crate) segments: Vec<SegmentId>,
    pub(crate) target: usize,
    pub(crate) bytes_before: u64,
    /// What became of each.
    pub(crate) result: std::result::Result<Vec<Copied>, Failure>,
}

/// Why a job has failed.
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The new file is there, or may be: the old ones are not what the executor knows any more.
    pub(crate) is_replaced: bool,
}

/// From the executor to the compactor.
#[derive(Default)]
pub(crate) struct JobQueue {
    pub(crate) holds: Arc<Holds>,
    queue: Mutex<Queue>,
    pub(crate) arrived: Condvar,
    has_outcome: AtomicBool,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) jobs: VecDeque<Job>,
    /// How the last job has ended, until the executor takes it.
    outcome: Option<Outcome>,
    pub(crate) is_ending: bool,
}

impl JobQueue {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    pub(crate) fn push(&self, job: Job) {
        self.lock().jobs.push_back(job);
        self.arrived.notify_one();
    }

    pub(crate) fn end(&self) {
        self.lock().is_ending = true;
        self.arrived.notify_one();
    }

    pub(crate) fn report(&self, outcome: Outcome) {
        self.lock().outcome = Some(outcome);
        self.has_outcome.store(true, Ordering::Release);
    }

    /// How the job that was ordered last has ended, once. Takes no lock while it has not.
    pub(crate) fn take_outcome(&self) -> Option<Outcome> {
        let has_ended = self.has_outcome.load(Ordering::Acquire);
        if has_ended {
            self.has_outcome.store(false, Ordering::Relaxed);
        }
        has_ended.then(|| self.lock().outcome.take())?
    }
}

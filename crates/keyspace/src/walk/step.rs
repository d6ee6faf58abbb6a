//! How a walk begins, goes on and ends.

use base::ObjectId;

use super::handing::{Shadowed, Walk};
use super::{DatabaseSize, Options, Outcome, Progress, Refused, Step};
use crate::db::{Db, Dbs};
use crate::free::FreeQueue;
use crate::keyspace::Keyspace;
use crate::object::Object;
use crate::recorder::Recorder;

impl Keyspace {
    /// Begins a walk, which emits the keyspace as it is now; the work depends on the number of databases
    /// alone. Returns the sizes of those that have keys.
    ///
    /// # Errors
    /// When a walk is under way, or memory may not have everything.
    pub fn begin_walk(&mut self, options: Options) -> Result<Vec<DatabaseSize>, Refused> {
        if self.walk.is_some() {
            return Err(Refused::UnderWay);
        }
        if self.is_fed() {
            return Err(Refused::Fed);
        }
        self.note_full();
        if self.may_lack() {
            return Err(Refused::Lacking);
        }
        self.has_lost_walk = false;
        let mut sizes = Vec::new();
        for (database, db) in (0..).zip(self.dbs.iter_mut()) {
            if db.begin_walk(database) {
                let (keys, expiring) = (db.keys().len() as u64, db.expiring_count() as u64);
                sizes.push(DatabaseSize { database, keys, expiring });
            }
        }
        let keys = sizes.iter().map(|size| size.keys).sum();
        self.walk = Some(Box::new(Walk::new(options, self.recorder.hasher, keys)));
        Ok(sizes)
    }

    /// Goes on with the walk, for about as long as copying so many bytes takes. The caller goes on when
    /// there is room for a chunk.
    pub fn walk_step(&mut self, bytes: usize) -> Step {
        let Self { walk, dbs, free, recorder, .. } = self;
        let Some(under_way) = walk else {
            let has_lost = std::mem::take(&mut self.has_lost_walk);
            return if has_lost { Step::Over(Outcome::Lost) } else { Step::Idle };
        };
        let step = under_way.step(bytes, dbs, free, recorder);
        if matches!(step, Step::Over(_)) {
            *walk = None;
        }
        step
    }

    /// Gives the walk up: it emits nothing any more. [`Keyspace::walk_step`] must go on until it says that
    /// the walk is over.
    pub fn end_walk(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.mute();
        }
    }

    /// Whether a walk is under way, or is being cleaned up.
    #[must_use]
    pub const fn is_walked(&self) -> bool {
        self.walk.is_some()
    }

    /// How far the walk is; `None` when none is under way.
    #[must_use]
    pub fn walk_progress(&self) -> Option<Progress> {
        self.walk.as_ref().map(|walk| walk.progress())
    }

    /// The bytes that commands have handed over to the walk, and that it has emitted, and that the consumer
    /// has not taken. Memory limits should leave them out: evicting keys only makes more of them.
    #[must_use]
    pub fn handed_bytes(&self) -> usize {
        self.walk.as_ref().map_or(0, |walk| walk.handed_bytes())
    }

    /// Whether more bytes wait than should: the caller reads no more commands that write until fewer do.
    #[must_use]
    pub fn is_walk_congested(&self) -> bool {
        self.walk.as_ref().is_some_and(|walk| walk.is_congested())
    }

    /// About how many bytes deleted values take that the walk has still to emit. Memory limits should leave
    /// them out, too.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.free.held_bytes()
    }

    /// How many keys flushed databases have that the walk has still to free.
    #[must_use]
    pub fn detached_keys(&self) -> usize {
        self.walk.as_ref().map_or(0, |walk| walk.detached.iter().map(|db| db.keys().len()).sum())
    }
}

impl Walk {
    fn step(
        &mut self,
        bytes: usize,
        dbs: &mut Dbs,
        free: &mut FreeQueue,
        recorder: &mut Recorder,
    ) -> Step {
        self.stream.begin_step(bytes.max(1));
        loop {
            if let Some(chunk) = self.stream.take_ready() {
                return Step::Chunk(chunk);
            }
            if let Some(outcome) = self.outcome {
                return Step::Over(outcome);
            }
            if self.stream.is_spent() {
                return Step::More;
            }
            if !self.queue.is_empty() {
                self.emit_first(dbs, free, recorder);
                continue;
            }
            self.free_detached(free);
            let unvisited = |db: &&mut Db| !db.is_visited();
            // What was flushed goes first: its memory is of no other use.
            let mut detached = std::mem::take(&mut self.detached);
            match detached.iter_mut().find(unvisited).or_else(|| dbs.iter_mut().find(unvisited)) {
                Some(db) => db.visit_page(self),
                None => self.finish(),
            }
            self.detached = detached;
        }
    }

    /// Emits some elements of the first object in the queue.
    fn emit_first(&mut self, dbs: &mut Dbs, free: &mut FreeQueue, recorder: &mut Recorder) {
        let Self { queue, stream, shadows, detached, hasher, .. } = self;
        let Some(root) = queue.front_mut() else { return };
        root.begin(stream);
        let id = root.id;
        let home = &shadows[&id];
        let object = match free.held_mut(id) {
            Some(object) => object,
            None => at_home(home, id, dbs, detached).expect("it has a shadow until it was emitted"),
        };
        if object.emit(*hasher, stream) {
            self.end_first();
            free.release(recorder, id);
        } else {
            let bytes = object.shadow_bytes();
            self.recount(id, bytes);
        }
    }

    /// Frees the flushed databases of which nothing is left to emit.
    fn free_detached(&mut self, free: &mut FreeQueue) {
        for db in self.detached.extract_if(.., |db| db.is_visited()) {
            free.database(db);
        }
    }

    fn finish(&mut self) {
        let is_mute = self.stream.is_mute();
        self.stream.finish(self.progress().keys_total);
        self.outcome = Some(if is_mute { Outcome::Ended } else { Outcome::Complete });
    }
}

/// The object with a shadow, if it is in a database.
fn at_home<'a>(
    shadowed: &Shadowed,
    id: ObjectId,
    dbs: &'a mut Dbs,
    detached: &'a mut [Db],
) -> Option<&'a mut Object> {
    let home = shadowed.home;
    let db = match dbs.index_of(home.db) {
        Some(index) => dbs.get_mut(index),
        None => detached.iter_mut().find(|db| db.id == home.db),
    };
    db?.shadowed_object(home.hash, id)
}

//! Builds the index of a log that no server has open.
//!
//! ```text
//!   Recovery ── every byte is checked ─► judged, its end tidied ─► index discarded ─► Build ─► closed
//! ```
//!
//! That is what a start does whose keys do not fit into memory, without the start: nothing is served, and the
//! next start finds an index that it may believe. Interrupted at any moment it leaves a log that every start
//! opens, and an index that the next build goes on with or begins anew.

use std::sync::Arc;

use indexing::Build;

use crate::engine::OpenLogError;
use crate::load::scan;

/// How far [`rebuild_index`] is, in percent of the step that it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuilding {
    /// The log is read and checked.
    Reading(u64),
    /// The index is built.
    Building(u64),
}

/// Reads and judges the log of `options.dir` as a start does, and builds its index anew.
///
/// # Errors
/// When a server uses the log, it is damaged, or the disk refuses. The index that is there stays until the log
/// was judged: it may be the only witness of what was durable.
pub fn rebuild_index(
    env: redo::Env,
    options: redo::Options,
    progress: &mut dyn FnMut(Rebuilding),
) -> Result<redo::Summary, OpenLogError> {
    let (disk, directory) = (Arc::clone(&env.disk), options.dir.join("index"));
    let mut recovery = redo::Recovery::open(env, options)?;
    let (database, seed) = (recovery.database(), recovery.hash_seed());
    recovery.note_durable(indexing::peek(&*disk, &directory, database.0)?.durable());
    let opened = scan(recovery, &mut |so_far| {
        progress(Rebuilding::Reading(so_far.bytes_done * 100 / so_far.bytes_total.max(1)));
    })?;
    indexing::discard(&*disk, &directory)?;
    let (reader, kept) = (opened.log.reader(), indexing::Options::default());
    let (mut build, _) = Build::begin(disk, &directory, reader, database.0, seed, kept)?;
    loop {
        let built = build.step()?;
        progress(Rebuilding::Building(built.percentage()));
        if built.is_done {
            return Ok(opened.summary);
        }
    }
}

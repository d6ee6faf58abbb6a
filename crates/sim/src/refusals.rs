//! What cannot be restored from an archive is refused: the error says what is nearest, and nothing is left that a server
//! starts on.
//!
//! ```text
//!          first ━━━━━━━━━━━ last      first ━━━━━━━━━━ last
//!     ✗                            ✗                          ✗       and what has rotted: the same state, or an error
//! ```

use archive::{Error, Keyed, Picture, Point, Target};
use base::Lsn;
use env::Disk as _;
use server::config::ArchivePlace;

use crate::archives::keys_of;
use crate::far::{Far, ROOT};
use crate::run::Run;

/// How far from a block it is looked for a nearer one than those that were said.
const NEAR: u64 = 500;

impl Run {
    /// Asks an archive for what it does not have, and one that has rotted.
    ///
    /// # Errors
    /// What is restored and must not be, or is refused in another way.
    pub(crate) fn refuse_what_is_not_there(
        &mut self,
        far: &dyn Target,
        place: &ArchivePlace,
    ) -> Result<(), String> {
        if !self.far.is_of_some_nature() {
            return Ok(());
        }
        let failed = |error: &dyn std::fmt::Display| format!("ARCHIVE: {error}");
        let database = archive::database_of(far, None).map_err(|error| failed(&error))?;
        let picture = Picture::read(far, database).map_err(|error| failed(&error))?;
        let mut wanted = Vec::new();
        let mut before = Lsn::ZERO;
        for range in &picture.ranges {
            if range.first > before.next() {
                // Its ends, and something between.
                let gap = range.first.0 - before.0 - 1;
                let between = before.0 + 1 + self.rng.below(gap);
                wanted.extend([before.0 + 1, between, range.first.0 - 1]);
            }
            before = range.last;
        }
        let from = self.rng.below(wanted.len() as u64 + 1);
        wanted.rotate_left(usize::try_from(from).expect("few"));
        wanted.truncate(2);
        wanted.extend([before.0 + 1, before.0 + 1 + self.rng.below(1000)]);
        for lsn in wanted.into_iter().map(Lsn).filter(|lsn| picture.chain(*lsn).is_none()) {
            self.tally.blocks_refused += 1;
            match self.bring_back(far, Point::Lsn(lsn.0))? {
                Ok(_) => return Err(format!("REFUSAL: block {lsn} is restored, and not there")),
                Err(error) => judge_refusal(lsn, &error, &picture)?,
            }
        }
        if self.rng.coin() { self.let_it_rot(&picture, place) } else { Ok(()) }
    }

    /// A bit of something turns that some state needs.
    fn let_it_rot(&mut self, picture: &Picture, place: &ArchivePlace) -> Result<(), String> {
        let at = usize::try_from(self.rng.below(picture.ranges.len() as u64)).expect("few");
        let range = &picture.ranges[at];
        let lsn = Lsn(range.first.0 + self.rng.below(range.last.0 - range.first.0 + 1));
        let copy: Far = self.far.fork();
        let disk = copy.disk();
        let Some(path) = self.any_object(&disk).filter(|_| lsn > Lsn::ZERO) else { return Ok(()) };
        let bytes = crate::liar::read(&disk, &path).expect("a disk without faults");
        if bytes.is_empty() {
            return Ok(());
        }
        let bit = u8::try_from(self.rng.below(8)).expect("eight");
        disk.flip_bit(&path, self.rng.below(bytes.len() as u64), bit);
        let rotten = Keyed::new(Box::new(copy.directory()), keys_of(place));
        match self.bring_back(&rotten, Point::Lsn(lsn.0))? {
            // Not needed, or gone round.
            Ok(back) => self.judge_of_owners(picture, &rotten, &back),
            Err(error) => {
                self.tally.rot_refused += 1;
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let text = error.to_string();
                let is_needed = picture.chain(lsn).is_some_and(|chain| {
                    chain.names().any(|name| path.ends_with(name.to_string()))
                });
                if is_needed && text.contains(&*name) {
                    return Ok(());
                }
                let path = path.display();
                Err(format!("REFUSAL: of block {lsn}, and {path} has rotted, it is said: {text}"))
            }
        }
    }

    /// Where any object of the archive is.
    fn any_object(&mut self, disk: &env_sim::SimDisk) -> Option<std::path::PathBuf> {
        let mut dirs = vec![std::path::PathBuf::from(ROOT)];
        let mut files = Vec::new();
        while let Some(dir) = dirs.pop() {
            for name in disk.list(&dir).ok()? {
                let path = dir.join(name);
                match disk.list(&path) {
                    Ok(_) => dirs.push(path),
                    Err(_) => files.push(path),
                }
            }
        }
        if files.is_empty() {
            return None;
        }
        files.sort();
        let at = usize::try_from(self.rng.below(files.len() as u64)).expect("few");
        Some(files.swap_remove(at))
    }
}

/// Whether the error says which blocks are nearest.
fn judge_refusal(lsn: Lsn, error: &Error, picture: &Picture) -> Result<(), String> {
    let text = error.to_string();
    let Error::NotThere { lsn: of, before, after } = error else {
        return Err(format!("REFUSAL: of block {lsn}, which is not there, it is said: {text}"));
    };
    let is_there = |at: &u64| picture.chain(Lsn(*at)).is_some();
    let nearest_before = (lsn.0.saturating_sub(NEAR)..lsn.0).rev().find(is_there);
    let nearest_after = (lsn.0 + 1..lsn.0 + NEAR).find(is_there);
    let is_nearest = |said: Option<Lsn>, nearest: Option<u64>| match (said, nearest) {
        (said, Some(nearest)) => said == Some(Lsn(nearest)) && text.contains(&nearest.to_string()),
        (Some(said), None) => said.0.abs_diff(lsn.0) >= NEAR && is_there(&said.0),
        (None, None) => true,
    };
    if *of == lsn && is_nearest(*before, nearest_before) && is_nearest(*after, nearest_after) {
        return Ok(());
    }
    Err(format!(
        "REFUSAL: {nearest_before:?} and {nearest_after:?} are nearest to {lsn}, it is said: {text}"
    ))
}

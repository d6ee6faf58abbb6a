//! How the server was configured, at the target: what a restore writes next to the data, when the server and its disks are gone.
//!
//! ```text
//!   config  100 ─────────── 340 ──── 340 ───────────►      each from its block on, until the next; of two of one block the later one
//!                 └ restore of block 200: the one of block 100
//! ```
//!
//! An object is put when what there is says something else, before the blocks that are shipped then. Of the last few only: what is older is removed, and
//! not known of a state that has been kept for longer. What a writer puts when a later one has begun before that block does not count, as in [`Picture`]:
//! it does not know yet that it is fenced.

use base::Lsn;
use redo::Id;

use crate::error::{Error, Result};
use crate::name::{Folder, Name};
use crate::object::ObjectReader;
use crate::picture::Picture;
use crate::target::Target;
use crate::texts::TextWriter;

/// The longest, in bytes.
const BYTES_MAX: u64 = 64 << 10;

/// So many are kept.
const COUNT_MAX: usize = 64;

/// How the server was configured when this block was the last one, without secrets; `None` if the archive does not know.
///
/// # Errors
/// When the archive cannot be read, or what it has is damaged.
pub(crate) fn as_of(
    target: &dyn Target,
    database: Id,
    picture: &Picture,
    lsn: Lsn,
) -> Result<Option<String>> {
    let names = target.list(database, Folder::Config)?;
    let (before, behind): (Vec<Name>, Vec<Name>) = names
        .into_iter()
        .filter(|name| counts(picture, name))
        .partition(|name| order_of(name).0 <= lsn);
    let then = before.into_iter().max_by_key(order_of);
    // An archive that begins with its server's last block has been told from the next one on.
    let first =
        || behind.into_iter().min_by_key(order_of).filter(|it| order_of(it).0 == lsn.next());
    then.or_else(first).map(|name| text_of(target, database, name)).transpose()
}

/// What an object says.
///
/// # Errors
/// When it is damaged, or cannot be read.
pub(crate) fn text_of(target: &dyn Target, database: Id, object: Name) -> Result<String> {
    ObjectReader::open(target, database, object)?.text(BYTES_MAX)
}

/// From which block on it counts, and which it is of that block.
const fn order_of(name: &Name) -> (Lsn, u64, u32) {
    match *name {
        Name::Config { lsn, writer, number } => (lsn, writer, number),
        _ => (Lsn::MAX, 0, 0),
    }
}

/// Whether no later writer had begun at that block.
fn counts(picture: &Picture, name: &Name) -> bool {
    let (lsn, writer, _) = order_of(name);
    picture.counts(writer, lsn)
}

/// See the file's top.
#[derive(Default)]
pub(crate) struct Configurations {
    /// What is to be there, if that was told since it was looked at.
    wanted: Option<Wanted>,
    /// What is there, once that was looked at: what does not count, and then what does, each ascending. And what the last one that counts says; `None` if
    /// that is not known.
    there: Option<Vec<Name>>,
    last: Option<String>,
    /// How many this process was told.
    count: u32,
}

/// A configuration that applies from this block on.
struct Wanted {
    lsn: Lsn,
    /// A number for one text: if nothing is heard of a put, what is there under its name is that text.
    number: u32,
    text: String,
}

impl Configurations {
    /// The server is configured so from this block on.
    pub(crate) fn tell(&mut self, from: Lsn, text: String) {
        self.count += 1;
        self.wanted = Some(Wanted { lsn: from, number: self.count, text });
    }

    /// Puts or removes one, if that is to be done. Returns whether it was.
    pub(crate) fn step(&mut self, to: &mut TextWriter<'_>) -> Result<bool> {
        let Some(wanted) = &self.wanted else { return Ok(false) };
        let there = match &mut self.there {
            Some(there) => there,
            none => {
                let picture = Picture::read(to.target, to.database)?;
                let mut there = to.target.list(to.database, Folder::Config)?;
                there.sort_unstable_by_key(|name| (counts(&picture, name), order_of(name)));
                let last = there.last().filter(|name| counts(&picture, name));
                // Another one takes the place of what cannot be read.
                self.last = last.and_then(|name| text_of(to.target, to.database, *name).ok());
                none.insert(there)
            }
        };
        if self.last.as_ref() != Some(&wanted.text) {
            let Wanted { lsn, number, .. } = *wanted;
            let name = Name::Config { lsn, writer: to.writer, number };
            match to.put(name, &wanted.text) {
                // What is archived is as good without.
                Err(Error::Target(error)) if error.is_refused() => {
                    self.wanted = None;
                    return Ok(false);
                }
                put => put?,
            }
            there.push(name);
            self.last = Some(wanted.text.clone());
            return Ok(true);
        }
        if there.len() > COUNT_MAX {
            let oldest = there.remove(0);
            match to.target.remove(to.database, &oldest) {
                Err(error) if !error.is_refused() => {
                    there.insert(0, oldest);
                    return Err(error.into());
                }
                // Where it is refused it stays.
                _ => return Ok(true),
            }
        }
        self.wanted = None;
        Ok(false)
    }
}

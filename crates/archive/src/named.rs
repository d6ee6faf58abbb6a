//! Names of backups, at the target: what they name is restored by its name, and never thinned out.
//!
//! The log's manifest says which there are. A name is put when its block is archived, and removed when this process has seen the
//! backup, and sees it no more. What was deleted while nothing was archived keeps its name until it is told to be forgotten.

use std::collections::HashSet;

use base::Lsn;
use redo::Id;

use crate::desk::NamedBlock;
use crate::error::{Error, Result};
use crate::name::{Folder, Name};
use crate::object::ObjectReader;
use crate::target::Target;
use crate::texts::TextWriter;

/// The longest name, in bytes.
const NAME_BYTES_MAX: u64 = 64;

/// A backup that the archive knows by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedBackup {
    /// Its name.
    pub name: String,
    /// The block after which the log was what it is of.
    pub lsn: Lsn,
    object: Name,
}

/// The backups that an archive knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchivedBackups {
    /// Ascending by their blocks.
    pub known: Vec<ArchivedBackup>,
    /// Objects that have a name and are damaged. What they name is kept all the same, and restored by the number of its block.
    pub damaged: Vec<Name>,
}

/// The backups that the archive knows.
///
/// # Errors
/// When the archive cannot be read.
pub fn backups(target: &dyn Target, database: Id) -> Result<ArchivedBackups> {
    let mut backups = ArchivedBackups::default();
    for object in target.list(database, Folder::Named)? {
        let Name::Named { lsn, .. } = object else { continue };
        match text_of(target, database, object) {
            Ok(name) => backups.known.push(ArchivedBackup { name, lsn, object }),
            Err(Error::Damaged { name, .. }) => backups.damaged.push(name),
            Err(error) => return Err(error),
        }
    }
    Ok(backups)
}

/// The name of a backup that an object has.
///
/// # Errors
/// When it is damaged, or cannot be read.
pub(crate) fn text_of(target: &dyn Target, database: Id, object: Name) -> Result<String> {
    ObjectReader::open(target, database, object)?.text(NAME_BYTES_MAX)
}

/// The block that a backup of this name is of, the newest if there are several.
///
/// # Errors
/// When there is none, or the archive cannot be read.
pub(crate) fn find(target: &dyn Target, database: Id, name: &str) -> Result<Lsn> {
    let ArchivedBackups { known, damaged } = backups(target, database)?;
    let found = known.into_iter().rev().find(|backup| backup.name == name);
    let none = || Error::NoBackup { name: name.to_owned(), damaged };
    found.map(|backup| backup.lsn).ok_or_else(none)
}

/// Removes the name of a backup from the archive; what it has named is thinned out as anything else. Returns whether there was one.
///
/// # Errors
/// When the archive cannot be read, or the name not be removed.
pub fn forget(target: &dyn Target, database: Id, name: &str) -> Result<bool> {
    let all = backups(target, database)?.known;
    let meant: Vec<_> = all.into_iter().filter(|backup| backup.name == name).collect();
    for backup in &meant {
        target.remove(database, &backup.object)?;
    }
    Ok(!meant.is_empty())
}

/// See the file's top.
#[derive(Default)]
pub(crate) struct Names {
    /// The backups of the log, and which were ever told.
    wanted: Vec<NamedBlock>,
    seen: HashSet<(u64, Lsn)>,
    /// What is at the target, once that was looked at.
    there: Option<Vec<Name>>,
    has_changed: bool,
    /// The first block that is named and not archived yet.
    next: Option<Lsn>,
}

impl Names {
    /// The log has these backups now.
    pub(crate) fn tell(&mut self, backups: Vec<NamedBlock>) {
        self.seen.extend(backups.iter().map(|backup| (backup.id, backup.lsn)));
        (self.wanted, self.has_changed) = (backups, true);
    }

    /// Puts or removes one, if that is to be done; blocks up to `archived` are there.
    pub(crate) fn step(&mut self, archived: Lsn, to: &mut TextWriter<'_>) -> Result<bool> {
        if !self.has_changed && self.next.is_none_or(|next| next > archived) {
            return Ok(false);
        }
        let there = match &mut self.there {
            Some(there) => there,
            none => none.insert(to.target.list(to.database, Folder::Named)?),
        };
        // A number alone may be given again, when a log was set back or its archive is of more than one.
        let missing = |backup: &&NamedBlock| !there.iter().any(|name| is_of(name, backup));
        let missing: Vec<&NamedBlock> = self.wanted.iter().filter(missing).collect();
        if let Some(backup) = missing.iter().find(|backup| backup.lsn <= archived)
            && let Ok(id) = u32::try_from(backup.id)
        {
            let name = Name::Named { lsn: backup.lsn, writer: to.writer, id };
            to.put(name, &backup.name)?;
            there.push(name);
            return Ok(true);
        }
        self.next = missing.iter().map(|backup| backup.lsn).filter(|lsn| *lsn > archived).min();
        let is_deleted = |name: &Name| {
            let is_seen = self.seen.contains(&identity(name));
            is_seen && !self.wanted.iter().any(|backup| is_of(name, backup))
        };
        if let Some(at) = there.iter().position(is_deleted) {
            let name = there.swap_remove(at);
            match to.target.remove(to.database, &name) {
                // It stays, and what it names.
                Err(error) if error.is_refused() => {}
                Err(error) => {
                    there.push(name);
                    return Err(error.into());
                }
                Ok(()) => {}
            }
            return Ok(true);
        }
        self.has_changed = false;
        Ok(false)
    }
}

/// The backup that a name is of: its number, and its block.
fn identity(name: &Name) -> (u64, Lsn) {
    match name {
        Name::Named { id, lsn, .. } => (u64::from(*id), *lsn),
        _ => (u64::MAX, Lsn::MAX),
    }
}

fn is_of(name: &Name, backup: &NamedBlock) -> bool {
    identity(name) == (backup.id, backup.lsn)
}

//! Several records by their addresses, with one wait for the device.
//!
//! ```text
//!   addresses ─► places, as far as they are in groups ─► the groups, read together ─► CRC ─► records
//!                     └── all others, and whatever was not as expected ──────────────► one by one
//! ```
//!
//! This is the short way only: a file that was replaced meanwhile, damage, an error of the device are
//! judged by [`Reader::record`], which looks the segment up again.

use std::sync::Arc;

use base::RecordAddr;
use env::{Disk, File, OnceRead, ReadTogether};

use crate::error::Result;
use crate::read::group_read::{GroupPlace, GroupWalk};
use crate::read::places::FoundRecord;
use crate::read::reader::Reader;
use crate::read::scan::SegmentFile;

/// So many groups are read together.
const GROUPS_MAX: usize = 32;

/// The disk's way to read together, made when it is first needed.
#[derive(Default)]
pub(crate) enum Together {
    #[default]
    Unknown,
    None,
    By(Box<dyn ReadTogether>),
}

impl Together {
    pub(crate) fn get(&mut self, disk: &dyn Disk) -> Option<&mut dyn ReadTogether> {
        if matches!(self, Self::Unknown) {
            *self = disk.read_together().map_or(Self::None, Self::By);
        }
        match self {
            Self::By(together) => Some(&mut **together),
            Self::Unknown | Self::None => None,
        }
    }
}

/// A record that a group has.
pub(crate) struct Planned {
    pub(crate) file: Arc<dyn File>,
    pub(crate) image: SegmentFile,
    pub(crate) place: GroupPlace,
}

impl Planned {
    /// The record, by a walk over its group.
    fn found(&self, walk: &mut GroupWalk<'_>) -> Result<FoundRecord> {
        FoundRecord::of(self.place.body(walk, &self.image)?)
            .map_err(|what| self.image.corrupt(0, what))
    }
}

impl Reader {
    /// Tells `each` the record at every one of `addrs`, by its place among them, as [`Reader::record`] returns
    /// it. It is told once of each, in any order.
    ///
    /// Those that lie next to each other in the log should be next to each other here: a group is read
    /// once for all of its records that are.
    pub fn records(
        &mut self,
        addrs: &[RecordAddr],
        each: &mut dyn FnMut(usize, Result<Option<FoundRecord>>),
    ) {
        let others = self.records_of_groups(addrs, &mut |at, found| each(at, Ok(Some(found))));
        for at in others {
            each(at, self.find_record(addrs[at]));
        }
        self.shrink();
    }

    /// As [`Reader::records`], of those that are where they were expected; returns the places of all others.
    pub fn records_of_groups(
        &mut self,
        addrs: &[RecordAddr],
        each: &mut dyn FnMut(usize, FoundRecord),
    ) -> Vec<usize> {
        let mut others = Vec::new();
        // Each may be in a file of its own, which stays open until all are read.
        let groups_max = self.open_files().clamp(1, GROUPS_MAX);
        let mut next = 0;
        while next < addrs.len() {
            // The records of each group, by place.
            let mut groups: Vec<Vec<(usize, Planned)>> = Vec::new();
            while let Some(addr) = addrs.get(next) {
                let Some(planned) = self.plan(*addr).ok().flatten() else {
                    others.push(next);
                    next += 1;
                    continue;
                };
                let is_full = groups.len() == groups_max;
                match groups.last_mut() {
                    Some(group) if group[0].1.place.id == planned.place.id => {
                        group.push((next, planned));
                    }
                    _ if is_full => break,
                    _ => groups.push(vec![(next, planned)]),
                }
                next += 1;
            }
            let reads: Vec<OnceRead<'_>> = groups
                .iter()
                .map(|group| {
                    let Planned { file, place, .. } = &group[0].1;
                    OnceRead { file: &**file, offset: place.read_from, len: place.read_bytes }
                })
                .collect();
            if let Some(together) = self.together() {
                together.read(&reads, &mut |which, read| {
                    let group = &groups[which];
                    let (_, first) = &group[0];
                    let is_right = |read: &&[u8]| first.place.check(read, &first.image).is_ok();
                    let read = read.ok().filter(is_right);
                    let mut walk = read.map(|read| first.place.walk(read));
                    for (at, planned) in group {
                        match walk.as_mut().and_then(|walk| planned.found(walk).ok()) {
                            Some(found) => each(*at, found),
                            None => others.push(*at),
                        }
                    }
                });
            }
        }
        others
    }
}

//! One disk, two recoveries: both must come to the same.
//!
//! ```text
//!   disk ─┬─ the server starts ────────► Found ─┐
//!         └─ copy ─ another start on it ► Found ─┴─ equal: state, keys, needed records
//! ```
//!
//! A start changes the disk that it reads. So it is copied before, and the copy is recovered in
//! another way: with an index if the server keeps none, and without if it keeps one.

use std::collections::{BTreeMap, BTreeSet};

use base::{DbId, Lsn, RecordAddr};

use crate::machine::Machine;
use crate::picture::Picture;
use crate::wiretap::lock;

/// What a recovery has come to.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    last_lsn: Lsn,
    picture: Picture,
    keys: BTreeMap<DbId, u64>,
    needed: BTreeSet<RecordAddr>,
}

impl Found {
    /// What this machine has started with.
    pub(crate) fn of(machine: &Machine, last_lsn: Lsn) -> Self {
        let addresses = lock(&machine.tap).addresses.clone();
        Self {
            last_lsn,
            picture: machine.recovered().clone(),
            keys: machine.keys(),
            needed: addresses.map(|addresses| addresses.needed()).unwrap_or_default(),
        }
    }

    /// Whether another recovery of the same disk has come to the same.
    ///
    /// # Errors
    /// The first difference.
    pub(crate) fn compare(&self, other: &Self) -> Result<(), String> {
        if self.last_lsn != other.last_lsn {
            return Err(format!(
                "TWINS: block {} is the last, or block {}",
                self.last_lsn, other.last_lsn
            ));
        }
        if self.picture != other.picture {
            let difference = self.picture.difference(&other.picture);
            return Err(format!("TWINS: these keys differ: {difference}"));
        }
        if self.keys != other.keys {
            return Err(format!("TWINS: keys by database {:?}, or {:?}", self.keys, other.keys));
        }
        match self.needed.symmetric_difference(&other.needed).next() {
            None => Ok(()),
            Some(addr) => Err(format!("TWINS: {addr} is needed after one of two recoveries")),
        }
    }
}

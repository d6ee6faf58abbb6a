//! A second keyspace, which follows the log of the server's as a replica would.
//!
//! ```text
//!   recovery ── records ──► the server's keyspace
//!                  └──────► Shadow ◄── blocks ── Wiretap
//! ```
//!
//! The state after a block is the shadow's: so all that is compared with what a recovery comes to is
//! what applying the blocks one after the other makes of it. Now and then it is compared with the
//! server's keyspace itself, and so is what either says that nothing needs any more.

use std::collections::BTreeSet;

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind};
use keyspace::{Keyspace, NoJournal, Survey};
use server::load::Filling;

use crate::addresses::Addresses;

/// A record that was logged, and where.
#[derive(Debug)]
pub(crate) struct Logged {
    kind: RecordKind,
    db: DbId,
    key: Box<[u8]>,
    object: ObjectId,
    sub: Box<[u8]>,
    value: Box<[u8]>,
    expires_at_ms: Option<i64>,
    addr: RecordAddr,
    lsn: Lsn,
}

impl Logged {
    pub(crate) fn new(record: &Record<'_>, addr: RecordAddr, lsn: Lsn) -> Self {
        Self {
            kind: record.kind,
            db: record.db,
            key: record.key.into(),
            object: record.object,
            sub: record.sub.into(),
            value: record.value.into(),
            expires_at_ms: record.expires_at_ms,
            addr,
            lsn,
        }
    }

    pub(crate) const fn lsn(&self) -> Lsn {
        self.lsn
    }

    pub(crate) const fn object(&self) -> ObjectId {
        self.object
    }

    fn record(&self) -> Record<'_> {
        Record {
            kind: self.kind,
            db: self.db,
            key: &self.key,
            object: self.object,
            sub: &self.sub,
            value: &self.value,
            expires_at_ms: self.expires_at_ms,
            // Applying a record asks nothing of it.
            is_new: false,
        }
    }
}

/// See the file's top.
pub(crate) struct Shadow {
    keyspace: Keyspace<NoJournal>,
    superseded: Vec<RecordAddr>,
    /// What nothing needs any more, as the shadow knows, without what it has not freed yet.
    retired: BTreeSet<RecordAddr>,
    /// What the server's keyspace had retired at the start and the shadow not: a whole keyspace was
    /// being logged when the life before ended, and what follows a log frees that with the next map.
    left_over: BTreeSet<RecordAddr>,
}

impl Shadow {
    fn new(keyspace: Keyspace<NoJournal>) -> Self {
        Self {
            keyspace,
            superseded: Vec::new(),
            retired: BTreeSet::new(),
            left_over: BTreeSet::new(),
        }
    }

    pub(crate) const fn keyspace(&self) -> &Keyspace<NoJournal> {
        &self.keyspace
    }

    /// Applies what was logged; no command is under way.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn apply(&mut self, logged: &[Logged]) -> Result<(), String> {
        for block in logged.chunk_by(|a, b| a.lsn == b.lsn) {
            for logged in block {
                let (record, addr, lsn) = (logged.record(), logged.addr, logged.lsn);
                let applied = self.keyspace.apply(&record, addr, lsn, &mut self.superseded);
                applied.map_err(|error| format!("UNAPPLIED: {addr} of block {lsn}: {error}"))?;
            }
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), String> {
        let ended = self.keyspace.end_block(&mut self.superseded);
        ended.map_err(|(error, addr)| format!("UNAPPLIED: {addr}: {error}"))?;
        for addr in self.superseded.drain(..) {
            if !self.retired.insert(addr) {
                return Err(format!("RETIRED TWICE: {addr}"));
            }
        }
        Ok(())
    }

    /// Whether it has retired what `retired` has; nothing of that waits to be freed.
    ///
    /// # Errors
    /// A record that only one of them has.
    pub(crate) fn compare_retired(&mut self, retired: &BTreeSet<RecordAddr>) -> Result<(), String> {
        if self.keyspace.waiting().0 > 0 {
            // The elements of the newest object, which was deleted: its root could come.
            return Ok(());
        }
        self.keyspace.free_all(&mut self.superseded);
        self.end_block()?;
        let is_left_over =
            |addr: &&RecordAddr| self.left_over.contains(addr) && !self.retired.contains(addr);
        let mut difference = self.retired.symmetric_difference(retired);
        match difference.find(|addr| !is_left_over(addr)) {
            None => Ok(()),
            Some(addr) => {
                let whose = if retired.contains(addr) { "the server's" } else { "the shadow's" };
                Err(format!("RETIRED: {addr} is garbage in {whose} keyspace alone"))
            }
        }
    }
}

/// Recovery fills the server's keyspace, and the shadow.
pub(crate) struct Twice {
    filling: Filling,
    shadow: Shadow,
    /// What the server's has retired.
    retired: BTreeSet<RecordAddr>,
    addresses: Option<Addresses>,
}

/// What a log was read into.
pub(crate) struct Filled {
    /// The server's.
    pub(crate) keyspace: Keyspace<NoJournal>,
    pub(crate) shadow: Shadow,
    /// What both have retired.
    pub(crate) retired: BTreeSet<RecordAddr>,
    pub(crate) addresses: Option<Addresses>,
}

impl Twice {
    /// Fills keyspaces that `new` makes, and `addresses`, if there are any.
    pub(crate) fn new(new: impl Fn() -> Filling, addresses: Option<Addresses>) -> Self {
        let shadow = Shadow::new(new().into_keyspace());
        Self { filling: new(), shadow, retired: BTreeSet::new(), addresses }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// What is wrong with the shadow.
    pub(crate) fn into_filled(self) -> Result<Filled, String> {
        let Self { filling, mut shadow, retired, addresses } = self;
        shadow.end_block()?;
        if addresses.is_some() {
            // Only runs with an index turn the log on.
            shadow.keyspace.free_all(&mut shadow.superseded);
            shadow.end_block()?;
            shadow.left_over = retired.difference(&shadow.retired).copied().collect();
        }
        shadow.compare_retired(&retired)?;
        Ok(Filled { keyspace: filling.into_keyspace(), shadow, retired, addresses })
    }

    fn note(&mut self, retired: &[RecordAddr]) {
        self.retired.extend(retired);
        if let Some(addresses) = &mut self.addresses {
            retired.iter().for_each(|addr| addresses.retire(*addr));
        }
    }
}

impl redo::Replay for Twice {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) {
        let before = retired.len();
        self.filling.apply(record, addr, lsn, retired);
        if let Some(addresses) = &mut self.addresses {
            addresses.note(record, addr, Lsn::ZERO);
        }
        self.note(&retired[before..]);
        let superseded = &mut self.shadow.superseded;
        // What is wrong with it the server's keyspace says.
        let _same_error = self.shadow.keyspace.apply(record, addr, lsn, superseded);
    }

    fn announce(&mut self, records: &[Record<'_>]) {
        self.filling.announce(records);
    }

    fn finish(&mut self, retired: &mut Vec<RecordAddr>) {
        let before = retired.len();
        self.filling.finish(retired);
        self.note(&retired[before..]);
    }

    fn rejected(&self) -> Option<(RecordAddr, String)> {
        self.filling.rejected()
    }
}

/// Recovery fills a shadow, and looks for what must be known of a log that is turned on.
pub(crate) struct Surveying {
    pub(crate) survey: Survey,
    pub(crate) twice: Twice,
    /// What the shadow alone calls garbage: the log is not told.
    garbage: Vec<RecordAddr>,
}

impl Surveying {
    pub(crate) const fn new(survey: Survey, twice: Twice) -> Self {
        Self { survey, twice, garbage: Vec::new() }
    }
}

impl redo::Replay for Surveying {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        _retired: &mut Vec<RecordAddr>,
    ) {
        self.survey.apply(record, addr).expect("the keyspace has logged it");
        redo::Replay::apply(&mut self.twice, record, addr, lsn, &mut self.garbage);
    }

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {
        self.survey.check().map_err(|(error, _)| error).expect("its databases have ids");
        redo::Replay::finish(&mut self.twice, &mut self.garbage);
    }
}

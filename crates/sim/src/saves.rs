//! Dumps into files, and whether each is what the data was at its mark.
//!
//! ```text
//!   BGSAVE ─► engine ─► Savers: stepped between everything else ─► /data/dump.rdb ─► the ledger's state at its block
//! ```
//!
//! After each start the file must still be one that was complete: of the block that it names.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base::Lsn;
use env::{Access, Disk};
use env_sim::{SimDisk, SimEntropy};
use rdb::{EntryId, Event, GroupBuilder, Limits, Reader, StreamNumbers};
use server::save::{SaveResult, SaveRunner, Saver, SaverStep, remove_temporaries};

use crate::life::Life;
use crate::machine::data_dir;
use crate::picture::{DumpedKey, Picture};
use crate::run::Run;
use crate::wiretap::lock;

/// Runs from this seed on write dumps.
pub(crate) const SAVE_SEEDS: u64 = 7_000_000_000;

/// Runs from this seed on merge dumps with the ones before, most of them.
pub(crate) const HOURGLASS_SEEDS: u64 = 13_000_000_000;

/// Whether a run of this seed does.
pub(crate) const fn merges_dumps(seed: u64) -> bool {
    seed >= HOURGLASS_SEEDS && seed % 4 != 3
}

/// How many steps the savers take at most to end.
const STEPS_MAX: usize = 100_000;

/// The threads that write dumps, as step machines.
#[derive(Clone, Default)]
pub(crate) struct Savers(Arc<Mutex<Vec<Saver>>>);

impl SaveRunner for Savers {
    fn run(&mut self, saver: Saver) -> std::io::Result<()> {
        lock(&self.0).push(saver);
        Ok(())
    }

    fn finish(&mut self) {
        for mut saver in lock(&self.0).drain(..) {
            let is_over = (0..STEPS_MAX).any(|_| saver.step() == SaverStep::Finished);
            assert!(is_over, "a saver that was given up has ended");
        }
    }
}

impl Savers {
    /// One of them does something. Returns how it has ended, if it has.
    pub(crate) fn step(&self, rng: &mut SimEntropy) -> Option<SaveResult> {
        let mut savers = lock(&self.0);
        if savers.is_empty() {
            return None;
        }
        let at = usize::try_from(rng.below(savers.len() as u64)).expect("few");
        if savers[at].step() != SaverStep::Finished {
            return None;
        }
        savers.swap_remove(at).result()
    }

    /// Whether one is at work.
    pub(crate) fn is_busy(&self) -> bool {
        !lock(&self.0).is_empty()
    }
}

/// Where the dump is.
fn dump_path() -> PathBuf {
    data_dir().join("dump.rdb")
}

/// Reads a dump: the block that it is of, and what is in it.
///
/// # Errors
/// What is wrong with it.
fn read(disk: &SimDisk, path: &Path) -> Result<Option<(Lsn, Picture)>, String> {
    let failed = |error: std::io::Error| error.to_string();
    if !disk.exists(path).map_err(failed)? {
        return Ok(None);
    }
    let file = disk.open(path, Access::Read).map_err(failed)?;
    let len = usize::try_from(file.len().map_err(failed)?).expect("it fits");
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).map_err(failed)?;
    parse(&bytes).map(Some).map_err(|what| format!("DUMP: {what}"))
}

/// The entry of a stream that is read.
#[derive(Default)]
struct DumpedEntry {
    id: Option<EntryId>,
    fields: Vec<u8>,
}

impl DumpedEntry {
    fn end(&mut self, key: &mut DumpedKey) {
        if let Some(id) = self.id.take() {
            key.part(id.to_string().as_bytes(), &self.fields);
        }
        self.fields.clear();
    }
}

fn parse(bytes: &[u8]) -> Result<(Lsn, Picture), String> {
    let mut reader = Reader::new(bytes, Limits::default()).map_err(|error| error.to_string())?;
    let (mut lsn, mut picture, mut database) = (Lsn::ZERO, Picture::default(), 0);
    let mut open: Option<DumpedKey> = None;
    let (mut entry, mut groups) = (DumpedEntry::default(), GroupBuilder::default());
    loop {
        let event = reader.next().map_err(|error| error.to_string())?;
        let key = open.as_mut();
        match event {
            Event::Aux { name: b"indelible-lsn", value } => {
                let text = String::from_utf8_lossy(value).into_owned();
                lsn = Lsn(text.parse().map_err(|_| format!("block {text:?}"))?);
            }
            Event::Database(index) => database = index,
            Event::Key(key) => {
                open = Some(DumpedKey::new(database, key.key, key.kind, key.expires_at_ms));
            }
            Event::String(bytes) => key.ok_or("a value without a key")?.part(b"", bytes),
            Event::Item(item) => key.ok_or("a value without a key")?.item(item),
            Event::Member(member) => key.ok_or("a value without a key")?.part(member, b""),
            Event::Scored(member, score) => {
                key.ok_or("a value without a key")?.scored(member, score);
            }
            Event::Field { name, value, expires_at_ms } => {
                key.ok_or("a value without a key")?.field(name, value, expires_at_ms);
            }
            Event::Entry(id) => {
                let key = key.ok_or("an entry without a key")?;
                entry.end(key);
                entry.id = Some(id);
            }
            Event::Pair(name, value) => {
                entry.fields.extend([name, b"=", value, b"&"].concat());
            }
            Event::Numbers(numbers) => {
                let key = key.ok_or("numbers without a key")?;
                entry.end(key);
                let StreamNumbers { last_id, max_deleted_id, entries_added } = numbers;
                let numbers = format!("{last_id} {entries_added} {max_deleted_id}");
                key.part(b"numbers", numbers.as_bytes());
            }
            Event::Group { name, last_id, entries_read } => {
                let before = groups.group(name, last_id, entries_read).map_err(|bad| bad.0)?;
                let key = key.ok_or("a group without a key")?;
                before.iter().for_each(|group| key.group(group));
            }
            Event::Pending(pending) => groups.pending(pending),
            Event::Consumer { name, seen_ms, active_ms } => {
                groups.consumer(name, seen_ms, active_ms);
            }
            Event::Held(id) => groups.held(id).map_err(|bad| bad.0)?,
            Event::EndOfKey => {
                let last = groups.finish().map_err(|bad| bad.0)?;
                if let (Some(group), Some(key)) = (last, key) {
                    key.group(&group);
                }
                picture.put_dumped(open.take().ok_or("an end without a key")?)?;
            }
            Event::Function(source) => picture.put_library(source),
            Event::End { .. } => return Ok((lsn, picture)),
            _ => {}
        }
    }
}

impl Run {
    /// Whether dumps are merged with the ones before.
    pub(crate) const fn merges_dumps(&self) -> bool {
        merges_dumps(self.plan.seed)
    }

    /// After a start: nothing of unfinished dumps is there, and a dump is one that was complete.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn judge_old_dump(&mut self) -> Result<(), String> {
        if self.plan.seed < SAVE_SEEDS || self.is_betrayed {
            return Ok(());
        }
        let disk = self.disk.fork();
        disk.set_faults(env_sim::Faults::default());
        remove_temporaries(&disk, &data_dir()).map_err(|error| error.to_string())?;
        let names = disk.list(&data_dir()).map_err(|error| error.to_string())?;
        let is_left = |name: &&std::ffi::OsString| {
            let name = name.to_string_lossy();
            name.contains("temp-") || name.contains("spill")
        };
        if let Some(name) = names.iter().find(is_left) {
            return Err(format!("DUMP: {} is left", name.display()));
        }
        match read(&disk, &dump_path())? {
            Some((lsn, found)) => self.ledger.judge_dump(lsn, &found),
            None if self.has_dump => Err("DUMP: one that was complete is gone".to_owned()),
            None => Ok(()),
        }
    }
}

impl Life<'_> {
    /// Savers do something.
    pub(crate) fn step_savers(&mut self) -> Result<(), String> {
        if !self.machine.savers.is_busy() || self.run.rng.coin() {
            return Ok(());
        }
        for _ in 0..=self.run.rng.below(6) {
            let Some(result) = self.machine.savers.step(&mut self.run.rng) else { continue };
            self.run.note(|| format!("a dump has ended: {result:?}"));
            if self.run.disk.is_crashed() || self.run.is_betrayed {
                continue;
            }
            match result {
                Ok(figures) => {
                    let disk = self.run.disk.fork();
                    disk.set_faults(env_sim::Faults::default());
                    let Some((lsn, found)) = read(&disk, &dump_path())? else {
                        return Err("DUMP: a complete one is not there".to_owned());
                    };
                    if lsn != figures.lsn {
                        return Err(format!("DUMP: of block {lsn}, not {}", figures.lsn));
                    }
                    (self.run.has_dump, self.run.tally.dumps) = (true, self.run.tally.dumps + 1);
                    self.run.tally.dumped_keys += figures.keys;
                    self.run.tally.spilled_dumps += u64::from(figures.spilled_bytes > 0);
                    self.run.tally.merged_dumps += u64::from(figures.made_of.last_lsn.is_some());
                    self.run.tally.copied_bytes += figures.made_of.copied_bytes;
                    if figures.lost_keys == 0 {
                        self.run.ledger.judge_dump(lsn, &found)?;
                    }
                }
                Err(why) => {
                    self.run.tally.dumps_failed += 1;
                    let is_excused = self.is_impaired || self.run.decayed.is_some();
                    if !is_excused && !self.run.index.is_damaged {
                        return Err(format!("DUMP: failed without a reason: {why}"));
                    }
                }
            }
        }
        Ok(())
    }
}

//! The redo log under a map that knows nothing of it: `cargo run -p indelible-redo --example durable_map -- DIR`
//!
//! ```text
//!   set ── append ─► address, kept in the map ── the key's previous address ─► retire (garbage)
//!   commit ─ seal, flush, durable    compact ─ without the garbage    open ─ replay into a new map
//! ```

use std::{collections::BTreeMap, error::Error, path::Path, sync::Arc};

use base::{DbId, Lsn, Record, RecordAddr, RecordKind};
use redo::{Compactor, Env, Flusher, Log, Opened, Options, Recovery, Replay, Step};

/// Any map: what it must remember of the log is one address a value.
#[derive(Default)]
struct Map(BTreeMap<Vec<u8>, (Vec<u8>, RecordAddr)>);

impl Replay for Map {
    /// The newest record of a key wins; the address of the one before is garbage.
    fn apply(&mut self, record: &Record<'_>, at: RecordAddr, _: Lsn, old: &mut Vec<RecordAddr>) {
        old.extend(self.0.remove(record.key).map(|(_, address)| address));
        if !record.kind.is_delete() {
            self.0.insert(record.key.to_vec(), (record.value.to_vec(), at));
        }
    }

    fn finish(&mut self, _: &mut Vec<RecordAddr>) {}
}

/// The map and its log. Flushers and compactor are stepped here; a server gives each a thread.
struct DurableMap {
    map: Map,
    log: Log,
    flushers: Vec<Flusher>,
    compactor: Compactor,
}

impl DurableMap {
    fn open(dir: &Path) -> redo::Result<Self> {
        let (disk, clock) = (Arc::new(env_os::OsDisk), Arc::new(env_os::OsClock::default()));
        let entropy = Box::new(env_os::OsEntropy);
        let env = Env { disk, clock, entropy, waker: Arc::new(|| {}) };
        let mut map = Map::default();
        let recovery = Recovery::open(env, Options::new(dir))?;
        let Opened { log, flushers, compactor, .. } = recovery.run(&mut map, &mut |_| {})?;
        Ok(Self { map, log, flushers, compactor })
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        let at = self.log.append(&Record::whole(RecordKind::String, DbId(0), key, value, None));
        if let Some((_, old)) = self.map.0.insert(key.to_vec(), (value.to_vec(), at)) {
            self.log.retire(old);
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some((_, old)) = self.map.0.remove(key) {
            self.log.append(&Record::key_deleted(DbId(0), key));
            self.log.retire(old);
        }
    }

    /// Everything since the last commit becomes durable, as a whole or not at all.
    fn commit(&mut self) {
        self.log.seal();
        self.work();
    }

    /// Copies what is alive to smaller files; no address changes.
    fn compact(&mut self) {
        self.log.compact_all();
        while self.log.is_compacting_all() {
            self.log.tick();
            self.work();
        }
    }

    fn close(mut self) {
        self.log.shutdown();
        self.work();
    }

    fn work(&mut self) {
        while self.flushers.iter_mut().any(|flusher| flusher.step() == Step::Worked)
            || self.compactor.step() == Step::Worked
        {}
        self.log.poll();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut map = DurableMap::open(std::env::args().nth(1).ok_or("which directory?")?.as_ref())?;
    println!("started {} times before", map.map.0.len());
    map.set(format!("start {}", map.map.0.len()).as_bytes(), b"now");
    map.remove(b"nothing");
    map.commit();
    map.compact();
    map.close();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(map: &DurableMap) -> Vec<(&[u8], &[u8])> {
        map.map.0.iter().map(|(key, (value, _))| (key.as_slice(), value.as_slice())).collect()
    }

    #[test]
    fn the_map_is_what_the_log_says() -> Result<(), Box<dyn Error>> {
        let dir = tempfile::tempdir()?;
        let mut map = DurableMap::open(dir.path())?;
        for round in 0..200 {
            for number in 0..100_u8 {
                map.set(&[number], format!("{round}").as_bytes());
            }
            map.commit();
        }
        map.remove(&[7]);
        map.commit();
        let bytes = map.log.stats().bytes;
        map.compact();
        assert!(map.log.stats().bytes * 10 < bytes, "the garbage is still there");
        map.set(b"never committed", b"");
        let addresses = map.map.0.clone();
        drop(map); // as by a crash

        let mut map = DurableMap::open(dir.path())?;
        let expected: Vec<_> = (0..100_u8).filter(|number| *number != 7).collect();
        let keys: Vec<_> = contents(&map).iter().map(|(key, _)| key[0]).collect();
        assert_eq!(keys, expected);
        assert!(contents(&map).iter().all(|(_, value)| *value == b"199"));
        assert!(map.map.0.iter().all(|(key, entry)| addresses[key] == *entry), "addresses stay");
        map.set(&[7], b"back");
        map.commit();
        map.close();
        let map = DurableMap::open(dir.path())?;
        assert_eq!(contents(&map)[7], (&[7][..], &b"back"[..]));
        Ok(())
    }
}

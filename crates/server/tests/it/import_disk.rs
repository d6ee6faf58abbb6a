//! A simulated disk with the files of a Redis server, imports into it, and what is in the log then.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use env::{Disk, Entropy};
use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
use keyspace::hash::Hash;
use keyspace::list::List;
use keyspace::set::Set;
use keyspace::zset::ZSet;
use keyspace::{Keyspace, Type};
use redo::{Compactor, Flusher, Opened, Scrubber, Step};
use server::config::{self, Config};
use server::engine::{BoxedLog, CloseError, DevicesError};
use server::import::{Built, Checked, ImportError, Place, Progress, Source, build, check};
use server::load::{Shape, load, log_options};
use server::owned_log::{LogWorkers, own};

/// When it is.
pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

thread_local! {
    /// How many logs' threads were ended.
    pub(crate) static FINISHED: Cell<u32> = const { Cell::new(0) };
}

/// Steps what a log has threads for when the log ends.
struct Stepped {
    flushers: Vec<Flusher>,
    compactor: Compactor,
    scrubber: Scrubber,
}

impl LogWorkers for Stepped {
    fn add_flushers(
        &mut self,
        _count_max: usize,
        _add: &mut dyn FnMut() -> Result<Vec<Flusher>, DevicesError>,
    ) -> Result<(), DevicesError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), CloseError> {
        FINISHED.set(FINISHED.get() + 1);
        for _ in 0..1000 {
            let mut is_finished = self.compactor.step() == Step::Finished;
            is_finished &= self.scrubber.step() == Step::Finished;
            for flusher in &mut self.flushers {
                is_finished &= flusher.step() == Step::Finished;
            }
            if is_finished {
                return Ok(());
            }
        }
        Err(CloseError::Unfinished)
    }
}

fn start(opened: Opened) -> io::Result<BoxedLog> {
    let Opened { log, flushers, compactor, .. } = opened;
    let scrubber = log.scrubber();
    Ok(own(log, Box::new(Stepped { flushers, compactor, scrubber })))
}

fn entropy() -> Box<dyn Entropy> {
    Box::new(SimEntropy::new(5))
}

/// A disk with these files, all durable.
pub(crate) fn disk_with(files: &[(&str, &[u8])]) -> SimDisk {
    let disk = SimDisk::new(7, Faults::default());
    for (path, bytes) in files {
        let path = Path::new(path);
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        let file = disk.create(path).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(path.parent().unwrap()).unwrap();
    }
    disk
}

/// A configuration with these options.
pub(crate) fn config(options: &[&str]) -> Config {
    let words: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
    config::load(None, &words).unwrap()
}

/// Checks what is at `path`.
pub(crate) fn check_at(
    disk: &SimDisk,
    path: &str,
    config: &Config,
) -> Result<Checked, ImportError> {
    check(&Source::open(disk, Path::new(path))?, config, &mut |_| {})
}

/// Imports what is at `path` into `/data`.
pub(crate) fn import(disk: &SimDisk, path: &str, config: &Config) -> Result<Built, ImportError> {
    import_into(disk, path, "/data", config, &mut |_| {})
}

/// Imports what is at `path` into `directory`, and tells how far it is.
pub(crate) fn import_into(
    disk: &SimDisk,
    path: &str,
    directory: &str,
    config: &Config,
    tell: &mut dyn FnMut(Progress),
) -> Result<Built, ImportError> {
    let source = Source::open(disk, Path::new(path))?;
    let checked = check(&source, config, tell)?;
    let place = Place {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimClock::new(NOW_MS)),
        entropy,
        directory: directory.into(),
        start,
    };
    build(&place, None, &source, &checked, config, tell)
}

/// Every key with its value as text, by database.
pub(crate) type Data = BTreeMap<(usize, String), String>;

/// What the log in `/data` has; `None` if there is none.
pub(crate) fn data(disk: &SimDisk, config: &Config) -> Option<Data> {
    if !redo::is_there(disk, Path::new("/data")) {
        return None;
    }
    let env = redo::Env {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimClock::new(NOW_MS)),
        entropy: entropy(),
        waker: Arc::new(|| {}),
    };
    let options = config.options();
    let recovery = redo::Recovery::open(env, log_options(&options, "/data".into())).unwrap();
    let shape = Shape::new(&options, NOW_MS);
    let (keyspace, _opened) = load(recovery, shape, None, &mut |_| {}).unwrap();
    Some(data_of(&mut keyspace.unwrap()))
}

/// What a keyspace has.
pub(crate) fn data_of(keyspace: &mut Keyspace) -> Data {
    let mut data = Data::new();
    for db in keyspace.databases() {
        let mut keys = Vec::new();
        keyspace.for_each_key(db, None, |key, value_type| keys.push((key.to_vec(), value_type)));
        for (key, value_type) in keys {
            let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
            let mut value = match value_type {
                Type::String => {
                    let value = keyspace.string(db, &key).unwrap().unwrap();
                    vec![text(value.as_bytes(&mut itoa::Buffer::new()))]
                }
                Type::List => keyspace
                    .read::<List>(db, &key)
                    .unwrap()
                    .unwrap()
                    .iter_from(0)
                    .map(text)
                    .collect(),
                Type::Set => {
                    keyspace.read::<Set>(db, &key).unwrap().unwrap().iter().map(text).collect()
                }
                Type::ZSet => {
                    let zset = keyspace.read::<ZSet>(db, &key).unwrap().unwrap();
                    zset.iter().map(|(member, score)| format!("{} {score}", text(member))).collect()
                }
                Type::Hash => {
                    let mut fields = Vec::new();
                    let hash = keyspace.read::<Hash>(db, &key).unwrap().unwrap();
                    hash.for_each_field(|field| {
                        let until = field.expires_at_ms.map(|at_ms| format!(" until {at_ms}"));
                        let (name, value) = (text(field.name), text(field.value));
                        fields.push(format!("{name}={value}{}", until.unwrap_or_default()));
                    });
                    fields
                }
                Type::Stream => unreachable!("not made here"),
            };
            if matches!(value_type, Type::Set | Type::Hash) {
                value.sort();
            }
            let expires = keyspace.expires_at_ms(db, &key).flatten();
            let expires = expires.map(|at_ms| format!(" until {at_ms}")).unwrap_or_default();
            let told = format!("{} {}{expires}", value_type.name(), value.join(","));
            data.insert((db.get(), text(&key)), told);
        }
    }
    data
}

//! The directory of an AOF: its manifest, and files that are dumps, commands or both. What was checked can be
//! loaded, unless only the keys can tell that it is wrong; and it is loaded as it was checked.
//!
//! The input is the manifest and the files `f0`, `f1` …, with [`SEPARATOR`] between them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::Disk;
use env_sim::{Faults, SimClock, SimDisk};
use keyspace::{Keyspace, NoJournal};
use server::config::{self, Config};
use server::import::{Contents, ImportError, Source, Target, Unusable, check};

const SEPARATOR: &[u8] = b"\x1e\x1e";

/// So many files there are at most.
const FILES_MAX: usize = 5;

pub(crate) fn run(input: &[u8]) {
    let disk = SimDisk::new(1, Faults::default());
    write(&disk, input);
    let options = ["--proto-max-bulk-len", "1mb", "--import-skip-unknown", "yes"];
    let config = config::load(None, &options.map(str::to_owned)).expect("they are options");
    let Ok(source) = Source::open(&disk, Path::new("/aof")) else { return };
    let (Some(first), Some(second)) = (load(&source, &config), load(&source, &config)) else {
        return;
    };
    assert_eq!(first, second);
}

/// What is there after the files were loaded, if they are good.
fn load(source: &Source, config: &Config) -> Option<Contents> {
    let checked = check(source, config, &mut |_| {}).ok()?;
    let keyspace = Keyspace::new(NoJournal, [1; 16], 16);
    let mut target = Target::in_memory(keyspace, Arc::new(SimClock::new(1_700_000_000_000)));
    match target.fill(source, &checked, &mut |_| {}) {
        Ok(contents) => {
            assert_eq!(contents.commands(), checked.contents.commands());
            Some(contents)
        }
        Err(ImportError::Duplicate { .. }) => None,
        Err(ImportError::Command { what: Unusable::Fails(_), .. }) => None,
        Err(error) => panic!("it was checked: {error}"),
    }
}

fn write(disk: &SimDisk, input: &[u8]) {
    disk.create_dir_all(Path::new("/aof")).expect("it has no faults");
    let mut rest = input;
    for number in 0..FILES_MAX {
        let end = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        let bytes = &rest[..end.unwrap_or(rest.len())];
        let path = match number {
            0 => PathBuf::from("/aof/a.manifest"),
            number => PathBuf::from(format!("/aof/f{}", number - 1)),
        };
        let file = disk.create(&path).expect("it has no faults");
        file.write_all_at(bytes, 0).expect("it has no faults");
        let Some(end) = end else { return };
        rest = &rest[end + SEPARATOR.len()..];
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let dump = b"REDIS0011\xfe\0\0\x01a\x011\x02\x01s\x01\x01m\xff\0\0\0\0\0\0\0\0";
    let commands = b"#TS:1\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n";
    let multi = b"*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$1\r\ns\r\n*1\r\n$4\r\nEXEC\r\n";
    let cut = b"*1\r\n$5\r\nMULTI\r\n*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nv\r\n";
    let base: &[u8] = b"file f0 seq 1 type b\n";
    let first: &[u8] = b"file f1 seq 1 type i\n";
    let second: &[u8] = b"# more\nfile \"f2\" seq 2 type i startoffset 0\n";
    let preamble = [&dump[..], commands].concat();
    let all = [
        vec![[base, first, second].concat(), dump.to_vec(), commands.to_vec(), multi.to_vec()],
        vec![[base, first].concat(), preamble, cut.to_vec()],
        vec![
            base.to_vec(),
            [&commands[..], b"*5\r\n$4\r\nXADD\r\n$1\r\nx\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\nv\r\n"]
                .concat(),
        ],
        vec![base.to_vec(), b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$10\r\n012".to_vec()],
    ];
    all.iter().map(|parts| parts.join(SEPARATOR)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_loaded() {
        for seed in seeds() {
            let disk = SimDisk::new(1, Faults::default());
            write(&disk, &seed);
            let options = ["--import-skip-unknown".to_owned(), "yes".to_owned()];
            let config = config::load(None, &options).expect("they are options");
            let source = Source::open(&disk, Path::new("/aof"));
            let source = source.unwrap_or_else(|error| panic!("{error}"));
            assert!(load(&source, &config).is_some(), "{}", seed.escape_ascii());
        }
    }
}

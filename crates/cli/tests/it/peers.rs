//! The servers that exchange dumps with this one: Redis 6.2, 7.0 and 8.2, and what else reads dumps.
//!
//! `tests/install-tools redis-peers` puts them below `target/peers`. Where they are missing, tests say so and are
//! skipped, unless `INDELIBLE_PEERS` says where they must be, as `make test` does.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Program, Server};
use crate::wire::Connection;

/// A server, and what is special about it.
pub(crate) struct Peer {
    pub(crate) version: &'static str,
    pub(crate) program: Program,
    /// The program that checks dumps, of the same version.
    pub(crate) check: PathBuf,
    /// What the encoding of small collections is called in its options.
    packing: &'static str,
    /// What lets DEBUG in, where that is asked for.
    debug: &'static [&'static str],
    /// Whether DEBUG DIGEST writes scores with seventeen digits, as here. From 7.2 on it writes the fewest that
    /// tell the score from all others.
    pub(crate) writes_all_digits: bool,
}

const DEBUG: &[&str] = &["--enable-debug-command", "yes"];

impl Peer {
    /// The options that every start has, and those that make small collections large ones.
    pub(crate) fn options(&self, more: &[&'static str]) -> Vec<&'static str> {
        [self.debug, &["--save", ""], more].concat()
    }

    /// Options by which no collection is packed.
    pub(crate) fn unpacked(&self) -> Vec<String> {
        let packing = self.packing;
        let mut options = vec!["--set-max-intset-entries".to_owned(), "0".to_owned()];
        for kind in ["hash", "zset"] {
            options.extend([format!("--{kind}-max-{packing}-entries"), "0".to_owned()]);
        }
        options
    }

    /// A new server of it with a dump, which it has loaded.
    pub(crate) fn load(&self, dump: &Path) -> Server {
        let server = self.program.start(&self.options(&[]));
        std::fs::copy(dump, server.directory().join("dump.rdb")).unwrap();
        let loaded = server.connect().words("DEBUG RELOAD NOSAVE").text();
        assert_eq!(loaded, "OK", "{}: {}", self.version, server.log());
        server
    }
}

/// Where everything is; nothing (and a line that says so) if it is not installed.
pub(crate) fn directory() -> Option<PathBuf> {
    let required = std::env::var_os("INDELIBLE_PEERS").map(PathBuf::from);
    let is_required = required.is_some();
    let directory = required
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"));
    let is_there = ["redis-6.2/installed.txt", "redis-8.2/installed.txt", "assets/encodings.rdb"]
        .iter()
        .all(|name| directory.join(name).exists());
    assert!(is_there || !is_required, "{} lacks some of the peers", directory.display());
    if !is_there {
        testing::skipped("Redis 6.2 and 8.2", "they are not installed (make test installs them)");
    }
    is_there.then_some(directory)
}

/// All servers, the oldest first.
pub(crate) fn all() -> Vec<Peer> {
    let Some(directory) = directory() else { return Vec::new() };
    let of_wheel = |version| {
        let home = directory.join(format!("redis-{version}"));
        let program = Program::at(&home.join("redis-server"));
        (program, home.join("redis-check-rdb"))
    };
    let (old, check_old) = of_wheel("6.2");
    let (new, check_new) = of_wheel("8.2");
    vec![
        Peer {
            version: "6.2",
            program: old,
            check: check_old,
            packing: "ziplist",
            debug: &[],
            writes_all_digits: true,
        },
        Peer {
            version: "7.0",
            program: Program::redis().expect("it comes with the others"),
            check: PathBuf::from("redis-check-rdb"),
            packing: "listpack",
            debug: DEBUG,
            writes_all_digits: true,
        },
        Peer {
            version: "8.2",
            program: new,
            check: check_new,
            packing: "listpack",
            debug: DEBUG,
            writes_all_digits: false,
        },
    ]
}

/// The one of this version.
pub(crate) fn of(version: &str) -> Option<Peer> {
    all().into_iter().find(|peer| peer.version == version)
}

/// What a program said that must succeed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = crate::damage::said(&output);
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Deletes what two versions have different fingerprints for: scores that are no integers.
pub(crate) fn delete_fractions(connection: &mut Connection) {
    let mut deleted = 0;
    for database in [0, 5, 6, 15] {
        assert_eq!(connection.words(&format!("SELECT {database}")).text(), "OK");
        let keys = connection.words("DEL zset:short zset:mixed zset:ends z z2 z3 z4");
        deleted += keys.text().parse::<u32>().unwrap();
    }
    assert!(deleted >= 9, "{deleted}");
    assert_eq!(connection.words("SELECT 0").text(), "OK");
}

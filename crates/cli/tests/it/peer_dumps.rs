//! The dumps and AOFs that Redis' own tests load, next to Redis 7.0: served with its fingerprint, or refused as it
//! refuses them. They are in its source package (`tests/tcl/fetch`).

use std::path::Path;
use std::process::{Command, Stdio};

use crate::import::{assert_serves, bad, good, import};
use crate::peers::{self, Peer};
use crate::process::{free_port, wait_for_exit, wait_until};
use crate::rdb_files::digest_of;

/// What Redis makes of a file.
struct Made {
    /// The fingerprint of what it serves; nothing if it does not start.
    digest: Option<String>,
    /// Keys that it left out because they are empty.
    empty: u64,
}

/// Starts Redis on a file as its dump or AOF.
fn made_of(peer: &Peer, file: &Path, is_aof: bool) -> Made {
    let directory = tempfile::tempdir().unwrap();
    let name = if is_aof { "appendonly.aof" } else { "dump.rdb" };
    let appends = ["--appendonly", if is_aof { "yes" } else { "no" }];
    std::fs::copy(file, directory.path().join(name)).unwrap();
    let options = peer.options(&appends);
    // One that refuses its file ends by itself; that is known before one waits for it to answer.
    let log = directory.path().join("log.txt");
    let mut command = peer.program.command(&["--port", &free_port().to_string(), "--dir"]);
    command.arg(directory.path()).args(&options).arg("--logfile").arg(&log);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let is_ready = || said().contains("Ready to accept connections");
    wait_until(|| is_ready() || child.try_wait().unwrap().is_some());
    let _already_gone = child.kill();
    let _code = wait_for_exit(&mut child);
    let (is_ready, said) = (is_ready(), said());
    if !is_ready {
        assert!(said.contains("rdb file reading failure"), "{said}");
        return Made { digest: None, empty: 0 };
    }
    let skipped = said.split("empty keys skipped: ").nth(1);
    let empty = skipped.and_then(|rest| rest.split(['.', '\n']).next()?.trim().parse().ok());
    // An AOF was made part of a directory: what is loaded now is that.
    let server = peer.program.start_on(directory.path(), &options);
    Made { digest: Some(digest_of(&mut server.connect())), empty: empty.unwrap_or(0) }
}

#[test]
fn the_dumps_of_redis_own_tests_are_what_it_makes_of_them() {
    let (Some(home), Some(peer)) = (peers::directory(), peers::of("7.0")) else { return };
    let (mut served, mut refused, mut empty) = (0, 0, 0);
    let mut files: Vec<_> = std::fs::read_dir(home.join("assets"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "rdb" || it == "aof"))
        .collect();
    files.sort();
    for file in &files {
        let is_aof = file.extension().is_some_and(|it| it == "aof");
        let made = made_of(&peer, file, is_aof);
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let imported = import(&[], &[file, &data]);
        let Some(digest) = made.digest else {
            let said = bad(&imported);
            assert!(!data.exists(), "{file:?}: {said}");
            refused += 1;
            continue;
        };
        let report = good(&imported);
        assert_serves(&data, &digest);
        let said = format!("keys without elements, left out: {}", made.empty);
        assert_eq!(report.contains(&said), made.empty > 0, "{file:?}: {report}");
        served += 1;
        empty += made.empty;
        if !is_aof {
            let run = |action: &str| {
                let program = env!("CARGO_BIN_EXE_indelible");
                peers::run(Command::new(program).args(["rdb", action]).arg(file))
            };
            assert!(run("check").contains("good: "), "{file:?}");
            assert_eq!(run("digest").trim_end(), digest, "{file:?}");
        }
    }
    // If they are other ones one day, this is to be looked at again.
    assert!(served >= 6 && refused >= 1 && empty >= 8, "{served} {refused} {empty}: {files:?}");
}

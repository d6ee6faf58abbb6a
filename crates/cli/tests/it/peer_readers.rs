//! Second opinions on what is written: `redis-check-rdb` of three versions, and rdbtools, which shares no line with
//! Redis and compares each value with what the server holds.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peers::{self, run};
use crate::process::{Program, Server};
use crate::rdb_files::fill;

/// The dumps that a server writes in every way, with the newest version that can read each.
fn written(directory: &Path) -> (Server, Vec<(PathBuf, u32)>) {
    let mut server = Program::indelible().start(&["--enable-debug-command", "yes", "--save", ""]);
    let mut connection = server.connect();
    fill(&mut connection);
    let mut dumps = Vec::new();
    for (version, number) in [("auto", 9), ("10", 10), ("11", 11), ("12", 12)] {
        for compression in ["yes", "no"] {
            for (name, value) in [("rdb-version", version), ("rdbcompression", compression)] {
                assert_eq!(connection.words(&format!("CONFIG SET {name} {value}")).text(), "OK");
            }
            assert_eq!(connection.words("SAVE").text(), "OK");
            let to = directory.join(format!("{version}-{compression}.rdb"));
            std::fs::copy(server.directory().join("dump.rdb"), &to).unwrap();
            dumps.push((to, number));
        }
    }
    let exported = directory.join("exported.rdb");
    server.kill();
    run(Command::new(env!("CARGO_BIN_EXE_indelible"))
        .arg("export")
        .arg(server.directory())
        .arg(&exported));
    dumps.push((exported, 9));
    server.restart();
    (server, dumps)
}

/// The newest version of dumps that each reads.
const READS: [(&str, u32); 3] = [("6.2", 9), ("7.0", 10), ("8.2", 12)];

#[test]
fn other_readers_find_in_dumps_what_the_server_holds() {
    let Some(home) = peers::directory() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (server, dumps) = written(directory.path());
    let keys: u64 = [0, 5, 15]
        .map(|database| {
            let mut connection = server.connect();
            connection.words(&format!("SELECT {database}"));
            connection.words("DBSIZE").text().parse::<u64>().unwrap()
        })
        .iter()
        .sum();
    for (peer, (version, newest)) in peers::all().iter().zip(READS) {
        assert_eq!(peer.version, version);
        for (dump, number) in &dumps {
            let output = Command::new(&peer.check).arg(dump).output().unwrap();
            let said = crate::damage::said(&output);
            let is_read = *number <= newest;
            assert_eq!(output.status.success(), is_read, "{version} {dump:?}: {said}");
            assert_eq!(said.contains("RDB looks OK!"), is_read, "{version} {dump:?}: {said}");
            assert!(!is_read || said.contains(&format!("{keys} keys read")), "{said}");
        }
    }
    let python = home.join("python/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/read-dump");
    let compare = |dump: &Path| {
        let mut command = Command::new(&python);
        command.arg(&script).arg(dump).arg(server.port.to_string());
        command
    };
    for (dump, _) in dumps.iter().filter(|(_, number)| *number == 9) {
        assert_eq!(run(&mut compare(dump)).trim_end(), format!("{keys} keys"));
    }
    // It sees what differs.
    let mut connection = server.connect();
    connection.words("ZADD zset:ends 0.25 d");
    let output = compare(&dumps[0].0).output().unwrap();
    assert!(!output.status.success());
    assert!(crate::damage::said(&output).contains("1 keys differ"));
}

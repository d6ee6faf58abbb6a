//! Dumps and AOFs of Redis 6.2, 7.0 and 8.2 are imported with the same fingerprint, and what this server writes of
//! them is loaded there with the fingerprint that they had.

use std::path::Path;
use std::process::Command;

use crate::import::{appending, assert_serves, good, import};
use crate::peers::{self, Peer, delete_fractions, run};
use crate::process::{Program, Server};
use crate::rdb_files::{digest_of, fill};

/// What makes a server write what it has in a form of its own.
const PLAIN: &[&str] = &["--rdbcompression", "no", "--rdbchecksum", "no"];

fn rdb(action: &str, file: &Path) -> String {
    run(Command::new(env!("CARGO_BIN_EXE_indelible")).args(["rdb", action]).arg(file))
}

/// A server here on imported data.
fn serve(data: &Path) -> Server {
    Program::indelible().start_on(data, &["--enable-debug-command", "yes"])
}

/// Checks that data which was imported from a peer is what the peer had, in both directions.
fn assert_goes_there_and_back(peer: &Peer, data: &Path, digest: &str) {
    let target = tempfile::tempdir().unwrap();
    let exported = target.path().join("exported.rdb");
    run(Command::new(env!("CARGO_BIN_EXE_indelible")).arg("export").arg(data).arg(&exported));
    let server = serve(data);
    let mut connection = server.connect();
    let here = digest_of(&mut connection);
    assert_eq!(here == digest, peer.writes_all_digits, "{}: {here} {digest}", peer.version);
    assert_eq!(connection.words("SAVE").text(), "OK");
    let saved = target.path().join("saved.rdb");
    std::fs::copy(data.join("dump.rdb"), &saved).unwrap();
    for file in [&exported, &saved] {
        assert_eq!(rdb("digest", file).trim_end(), here);
        let loaded = peer.load(file);
        assert_eq!(digest_of(&mut loaded.connect()), digest, "{} {file:?}", peer.version);
    }
    if !peer.writes_all_digits {
        let loaded = peer.load(&saved);
        let mut there = loaded.connect();
        delete_fractions(&mut connection);
        delete_fractions(&mut there);
        assert_eq!(digest_of(&mut connection), digest_of(&mut there), "{}", peer.version);
    }
}

#[test]
fn dumps_go_there_and_back() {
    for peer in peers::all() {
        let unpacked = peer.unpacked();
        let unpacked: Vec<&str> = unpacked.iter().map(String::as_str).collect();
        for options in [&[][..], PLAIN, &unpacked] {
            let server = peer.program.start(&[&peer.options(&[])[..], options].concat());
            let mut connection = server.connect();
            if peer.version == "7.0" || peer.version == "8.2" {
                // Items that are nodes by themselves.
                let set = connection.words("DEBUG QUICKLIST-PACKED-THRESHOLD 200b");
                assert_eq!(set.text(), "OK");
            }
            fill(&mut connection);
            let digest = digest_of(&mut connection);
            assert_eq!(connection.words("SAVE").text(), "OK");
            let file = server.directory().join("dump.rdb");
            let shown = rdb("check", &file);
            assert!(shown.contains(&format!("redis-ver: {}.", peer.version)), "{shown}");
            let directory = tempfile::tempdir().unwrap();
            let data = directory.path().join("data");
            good(&import(&[], &[&file, &data]));
            assert_goes_there_and_back(&peer, &data, &digest);
        }
    }
}

#[test]
fn aofs_go_there_and_back() {
    for peer in peers::all() {
        for options in [&["--aof-use-rdb-preamble", "yes"], &["--aof-use-rdb-preamble", "no"]] {
            let (server, digest) = appending(&peer.program, &peer.options(options));
            let is_directory = peer.version != "6.2";
            let name = if is_directory { "appendonlydir" } else { "appendonly.aof" };
            let source = server.directory().join(name);
            assert_eq!(source.is_dir(), is_directory);
            let directory = tempfile::tempdir().unwrap();
            let data = directory.path().join("data");
            good(&import(&[], &[&source, &data]));
            assert_goes_there_and_back(&peer, &data, &digest);
        }
    }
}

#[test]
fn a_start_imports_what_each_of_them_has_saved() {
    for peer in peers::all().into_iter().filter(|peer| peer.writes_all_digits) {
        let (server, digest) = appending(&peer.program, &peer.options(&[]));
        let data = server.directory();
        drop(serve_appended(&data));
        assert_serves(&data, &digest);
    }
}

fn serve_appended(data: &Path) -> Server {
    let options = ["--enable-debug-command", "yes", "--appendonly", "yes"];
    Program::indelible().start_on(data, &options)
}

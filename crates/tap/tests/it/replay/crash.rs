//! A MariaDB that syncs what it answers is killed under load: partial recovery on what it kept, and
//! the whole log on an empty server, have the same result.
//!
//! The load tolerates a second execution of a transaction, because one that was executed but not
//! answered is executed twice: its statements write values that the client knows, and no two
//! connections write the same rows.

use std::process::Stdio;
use std::time::{Duration, Instant};

use tap::replay::{Extent, replay};
use tap::{Entry, Protocol};

use super::mariadb::{Server, is_installed, load};
use super::proxy::Proxy;
use super::{output, replay_all};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/tap/tpcc_like.lua");
const SIZES: [&str; 3] = ["--warehouses=8", "--items=100", "--threads=8"];

#[test]
fn partial_recovery_comes_to_what_full_recovery_does() {
    if !is_installed() {
        return;
    }
    let mut server = Server::flushing(1);
    let proxy = Proxy::start(server.address, Protocol::Mysql);
    output(load(proxy.address, SCRIPT).args(SIZES).arg("prepare"));
    let prepared = proxy.entries().len();
    let mut running = load(proxy.address, SCRIPT)
        .args(SIZES)
        .args(["--time=60", "run"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(50);
    while proxy.entries().len() < prepared + 5000 {
        assert!(Instant::now() < deadline, "there is no load");
        std::thread::sleep(Duration::from_millis(5));
    }
    server.crash();
    assert!(!running.wait().unwrap().success(), "it has lost its server");
    let entries = proxy.entries();
    let requests = |entries: &[Entry]| {
        entries.iter().filter(|entry| matches!(entry, Entry::Request { .. })).count() as u64
    };

    let whole = Server::flushing(0);
    let report = replay_all(&entries, &whole.settings());
    assert_eq!(report.differences, []);
    assert!(report.sent > requests(&entries) / 2, "{report:?}");

    let (mut log, mut again) = (entries.iter().cloned().map(Ok), entries.iter().cloned().map(Ok));
    let extent = Extent::NotCompleted(&mut again);
    let report = replay(&mut log, extent, &server.settings(), &mut |_| {}).unwrap();
    println!("{} of {} requests", report.sent, requests(&entries));
    assert!(report.sent < 8 * 60, "no more than a transaction a connection: {report:?}");
    for difference in &report.differences {
        // It was executed, but could no longer be answered.
        assert!(difference.message.contains("Duplicate entry"), "{difference:?}");
    }
    let (full, partial) = (whole.dump(), server.dump());
    for (was, is) in full.lines().zip(partial.lines()) {
        assert_eq!(was, is);
    }
    assert_eq!(full.len(), partial.len());
}

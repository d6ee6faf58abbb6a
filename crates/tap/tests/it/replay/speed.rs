//! Measures how much faster requests are sent together than one after another; run it explicitly:
//! `cargo test --release -p indelible-tap --test it speed -- --ignored --nocapture --test-threads
//! 1`.

use std::process::Command;

use tap::replay::Settings;
use tap::{Entry, Protocol};

use super::proxy::Proxy;
use super::{has_program, mariadb, output, redis, replay_all};

/// Replays on empty servers, one request at a time and in parallel, and compares the results.
fn compare<S>(
    what: &str,
    entries: &[Entry],
    start: impl Fn() -> S,
    settings: impl Fn(&S) -> Settings,
    dump: impl Fn(&S) -> String,
) {
    let mut seconds = Vec::new();
    let mut dumps = Vec::new();
    for parallel in [false, true, false, true] {
        let server = start();
        let report = replay_all(entries, &Settings { parallel, ..settings(&server) });
        assert_eq!(report.differences, []);
        let took = report.took.as_secs_f64();
        println!(
            "{what}: parallel {parallel}: {} requests in {took:.2} s, {:.0} a second, {:.1} under way \
             at {} waits, {} waited for others",
            report.sent,
            report.sent as f64 / took,
            report.under_way_sum as f64 / report.polls as f64,
            report.polls,
            report.waited,
        );
        seconds.push(took);
        dumps.push(dump(&server));
    }
    assert!(dumps.windows(2).all(|pair| pair[0] == pair[1]));
    let ratio = seconds[0].min(seconds[2]) / seconds[1].min(seconds[3]);
    println!("{what}: {ratio:.2} times as fast");
}

#[test]
#[ignore = "a measurement"]
fn speed_of_redis() {
    if !has_program("redis-benchmark") {
        return;
    }
    for clients in ["8", "50"] {
        let original = redis::Server::start();
        let proxy = Proxy::start(original.address, Protocol::Resp);
        let port = proxy.address.port().to_string();
        output(
            Command::new("redis-benchmark")
                .args(["-p", &port, "-n", "60000", "-r", "100000", "-c", clients, "-d", "100"])
                .args(["-q", "-t", "set"]),
        );
        let dump = |server: &redis::Server| format!("{:?}", server.digest());
        let settings = |server: &redis::Server| super::settings(server.address, Protocol::Resp);
        let what = format!("redis, {clients} clients");
        compare(&what, &proxy.entries(), redis::Server::start, settings, dump);
    }
}

#[test]
#[ignore = "a measurement"]
fn speed_of_mariadb() {
    if !mariadb::is_installed() {
        return;
    }
    for (test, flushes) in [("oltp_read_write", 0), ("oltp_write_only", 0), ("oltp_write_only", 1)]
    {
        let original = mariadb::Server::flushing(flushes);
        let proxy = Proxy::start(original.address, Protocol::Mysql);
        let size = ["--tables=4", "--table-size=2000", "--threads=8"];
        mariadb::sysbench(proxy.address, test, &[&size[..], &["prepare"]].concat());
        let run = [&size[..], &["--events=3000", "run"]].concat();
        mariadb::sysbench(proxy.address, test, &run);
        let what = format!("mariadb, {test}, flush {flushes}");
        let start = || mariadb::Server::flushing(flushes);
        let (settings, dump) = (mariadb::Server::settings, mariadb::Server::dump);
        compare(&what, &proxy.entries(), start, settings, dump);
    }
}

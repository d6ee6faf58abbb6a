//! The tap on real networks: what a server was asked is in the log, whatever the network does; what
//! could not be recorded is told.

use crate::loop_device::LoopDisk;
use crate::network::{Namespace, Network, SERVER_INTERFACE, SERVER_IPS};
use crate::process::wait_until;
use crate::tap_process::{Redis, Tap, benchmark, inspect, log_command, set_bytes, sets_served};
use serde_json::Value;
use std::process::Output;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Requests that contain SET, their bytes, and how many of all requests were not answered.
fn sets(tap: &Tap) -> (u64, u64) {
    let requests = &tap.statistics(Some("SET"))["requests"]["query"];
    let number = |name: &str| requests[name].as_u64().unwrap_or(0);
    (number("count"), number("bytes"))
}

fn assert_whole(tap: &Tap, expected: (u64, u64)) {
    let all = tap.statistics(None);
    assert_eq!(all["gaps"], Value::Object(serde_json::Map::new()), "{}", tap.said());
    assert_eq!(sets(tap), expected);
    assert_eq!(all["not_completed"], 0, "{all}");
    assert_eq!(all["connections"], all["closed"], "{all}");
}

#[test]
fn every_request_is_in_the_log_on_loopback() {
    let Some(host) = Namespace::new() else { return };
    let Some(_redis) = Redis::start(&host) else { return };
    let mut tap = Tap::start(&host, "lo", &[]);
    benchmark(&host, "127.0.0.1", &["-n", "20000", "-c", "20", "-r", "1000"]);
    benchmark(&host, "::1", &["-n", "40000", "-c", "20", "-r", "1000", "-P", "16"]);
    let served = sets_served(&host, "127.0.0.1");
    assert!(served >= 60_000);
    assert_eq!(tap.stop(), Some(0), "{}", tap.said());
    assert_whole(&tap, (served, served * set_bytes(3)));
}

#[test]
fn every_request_is_in_the_log_between_two_machines_in_both_ip_versions() {
    let Some(network) = Network::new() else { return };
    let Some(_redis) = Redis::start(network.server()) else { return };
    let mut tap = Tap::start(network.server(), SERVER_INTERFACE, &[]);
    for ip in SERVER_IPS {
        benchmark(network.client(), ip, &["-n", "10000", "-c", "20", "-r", "1000"]);
    }
    let served = sets_served(network.client(), SERVER_IPS[0]);
    assert_eq!(tap.stop(), Some(0), "{}", tap.said());
    assert_whole(&tap, (served, served * set_bytes(3)));
}

#[test]
fn large_values_are_whole() {
    let Some(network) = Network::new() else { return };
    let Some(_redis) = Redis::start(network.server()) else { return };
    let mut tap = Tap::start(network.server(), SERVER_INTERFACE, &["--segment-size", "16M"]);
    // A machine that is busy with other things may take packets late; the ring has room for all of them.
    benchmark(
        network.client(),
        SERVER_IPS[0],
        &["-n", "200", "-c", "4", "-r", "9", "-d", "300000"],
    );
    let served = sets_served(network.client(), SERVER_IPS[0]);
    assert_eq!(tap.stop(), Some(0), "{}", tap.said());
    assert_whole(&tap, (served, served * set_bytes(300_000)));
    assert!(tap.log().join("0000000003.tap").exists(), "the log went on in other files");
}

#[test]
fn what_the_network_loses_and_brings_again_out_of_order_is_in_the_log_once() {
    let Some(network) = Network::new() else { return };
    let Some(_redis) = Redis::start(network.server()) else { return };
    if !network.lose(2, crate::tap_process::PORT) {
        return;
    }
    let mut tap = Tap::start(network.server(), SERVER_INTERFACE, &[]);
    benchmark(network.client(), SERVER_IPS[0], &["-n", "2000", "-c", "20", "-r", "1000"]);
    let small = sets_served(network.server(), "127.0.0.1");
    // What follows a lost part of a large value comes before it.
    benchmark(
        network.client(),
        SERVER_IPS[1],
        &["-n", "100", "-c", "8", "-r", "9", "-d", "100000"],
    );
    let large = sets_served(network.server(), "127.0.0.1") - small;
    assert_eq!(tap.stop(), Some(0), "{}", tap.said());
    let bytes = small * set_bytes(3) + large * set_bytes(100_000);
    assert_eq!(sets(&tap), (small + large, bytes));
    assert_eq!(tap.statistics(None)["gaps"], Value::Object(serde_json::Map::new()));
}

#[test]
fn a_storm_of_connections_is_followed_though_ports_are_used_again() {
    let Some(network) = Network::new() else { return };
    let Some(_redis) = Redis::start(network.server()) else { return };
    network.client().must_run("sysctl", &["-qw", "net.ipv4.ip_local_port_range=40000 43000"]);
    network.client().must_run("sysctl", &["-qw", "net.ipv4.tcp_tw_reuse=1"]);
    let mut tap = Tap::start(network.server(), SERVER_INTERFACE, &[]);
    for _ in 0..3 {
        benchmark(network.client(), SERVER_IPS[0], &["-n", "1400", "-c", "10", "-k", "0"]);
        // A port may be used again a second after its connection ended, by the kernel's rule.
        std::thread::sleep(std::time::Duration::from_millis(1100));
    }
    let served = sets_served(network.server(), "127.0.0.1");
    assert_eq!(tap.stop(), Some(0), "{}", tap.said());
    let all = tap.statistics(None);
    assert_eq!(sets(&tap), (served, served * set_bytes(3)));
    assert_eq!(all["gaps"], Value::Object(serde_json::Map::new()));
    assert!(all["connections"].as_u64() >= Some(4200), "{all}");
}

#[test]
fn a_connection_that_was_there_before_is_a_gap_and_followed_from_then_on() {
    let Some(host) = Namespace::new() else { return };
    let Some(_redis) = Redis::start(&host) else { return };
    let commands = "for i in 1 2 3; do echo SET before $i; done; touch \"$0\"; \
        until [ -e \"$1\" ]; do sleep 0.01; done; for i in 1 2 3 4 5 6; do echo SET after $i; done";
    let directory = tempfile::tempdir().unwrap();
    let (written, go) = (directory.path().join("written"), directory.path().join("go"));
    let mut client = host.command("sh");
    client.args(["-c", &format!("sh -c '{commands}' \"$0\" \"$1\" | redis-cli")]);
    let mut client =
        client.arg(&written).arg(&go).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until(|| written.exists() && sets_served(&host, "127.0.0.1") == 3);
    let mut tap = Tap::start(&host, "lo", &[]);
    std::fs::write(&go, "").unwrap();
    assert!(client.wait().unwrap().success());
    assert_eq!(tap.stop(), Some(1), "a log with a gap: {}", tap.said());
    assert!(tap.said().contains("mid_stream"), "{}", tap.said());
    // It takes a few requests and answers to be sure where requests begin.
    assert_eq!(
        tap.statistics(Some("SET\r\n$5\r\nafter\r\n$1\r\n6"))["requests"]["query"]["count"],
        1
    );
    assert_eq!(tap.statistics(Some("before"))["requests"], Value::Object(serde_json::Map::new()));
}

#[test]
fn packets_for_which_there_was_no_room_are_a_gap() {
    let Some(host) = Namespace::new() else { return };
    let Some(_redis) = Redis::start(&host) else { return };
    let mut tap = Tap::start(&host, "lo", &["--ring", "2M"]);
    tap.signal("-STOP");
    benchmark(&host, "127.0.0.1", &["-n", "50000", "-c", "20", "-r", "9"]);
    tap.signal("-CONT");
    // Then it has taken what was in the ring, and there is room again.
    wait_until(|| tap.said().contains("ring_overflow"));
    benchmark(&host, "127.0.0.1", &["-n", "100", "-c", "2", "-d", "77"]);
    assert_eq!(tap.stop(), Some(1), "{}", tap.said());
    let gaps = &tap.statistics(None)["gaps"];
    assert!(gaps["ring overflow"]["missing"].as_u64() > Some(0), "{gaps}");
    let later = &tap.statistics(Some("$77"))["requests"]["query"]["count"];
    assert_eq!(*later, 100, "what came afterwards is whole");
    let shown = inspect(tap.log()).args(["--gaps"]).output().unwrap();
    assert_eq!(shown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&shown.stdout).contains("GAP ring overflow"));
}

#[test]
fn a_full_disk_is_told_and_waited_for() {
    let Some(disk) = LoopDisk::new(16 << 20) else { return };
    let Some(host) = Namespace::new() else { return };
    let Some(_redis) = Redis::start(&host) else { return };
    let log = disk.path().join("log");
    let mut tap = Tap::start_on(&host, &log, &["--queue", "64M"]);
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![1; 8 << 20]).unwrap();
    benchmark(&host, "127.0.0.1", &["-n", "80", "-c", "4", "-d", "100000"]);
    wait_until(|| tap.said().contains("FULL"));
    std::fs::remove_file(&filler).unwrap();
    wait_until(|| tap.said().contains("there is room again"));
    let served = sets_served(&host, "127.0.0.1");
    assert_eq!(tap.stop(), Some(0), "nothing was lost: {}", tap.said());
    assert_eq!(sets(&tap), (served, served * set_bytes(100_000)));
}

#[test]
fn more_than_can_wait_for_a_full_disk_is_a_gap_after_which_connections_begin_anew() {
    let Some(disk) = LoopDisk::new(16 << 20) else { return };
    let Some(host) = Namespace::new() else { return };
    let Some(_redis) = Redis::start(&host) else { return };
    let log = disk.path().join("log");
    let mut tap = Tap::start_on(&host, &log, &["--queue", "1M"]);
    let filler = disk.path().join("filler");
    let room = room_below(&disk.path()) - (1 << 20);
    std::fs::write(&filler, vec![1; room]).unwrap();
    benchmark(&host, "127.0.0.1", &["-n", "80", "-c", "4", "-d", "100000"]);
    wait_until(|| tap.said().contains("FULL"));
    std::fs::remove_file(&filler).unwrap();
    wait_until(|| tap.said().contains("there is room again") && tap.said().contains("disk_full"));
    benchmark(&host, "127.0.0.1", &["-n", "100", "-c", "2", "-d", "77"]);
    assert_eq!(tap.stop(), Some(1), "{}", tap.said());
    let gaps = &tap.statistics(None)["gaps"];
    assert!(gaps["disk full"]["missing"].as_u64() > Some(1 << 20), "{gaps}");
    assert_eq!(tap.statistics(Some("$77"))["requests"]["query"]["count"], 100);
}

/// Bytes that can still be written below `path`.
fn room_below(path: &std::path::Path) -> usize {
    let disk: &dyn env::Disk = &env_os::OsDisk;
    usize::try_from(disk.available_bytes(path).unwrap()).unwrap()
}

#[test]
fn what_was_synced_is_there_after_the_tap_was_killed_and_the_log_goes_on_with_a_gap() {
    let Some(disk) = LoopDisk::new(64 << 20) else { return };
    let Some(host) = Namespace::new() else { return };
    let Some(_redis) = Redis::start(&host) else { return };
    let log = disk.path().join("log");
    let mut tap = Tap::start_on(&host, &log, &["--metrics", "127.0.0.1:9100"]);
    benchmark(&host, "127.0.0.1", &["-n", "2000", "-c", "5"]);
    let logged = || metric(&host, "indelible_tap_requests_total{class=\"query\"}");
    let served = sets_served(&host, "127.0.0.1");
    let is_durable = || metric(&host, "indelible_tap_lag_seconds") == 0.0;
    wait_until(|| logged() >= served as f64 && is_durable());
    tap.signal("-KILL");
    assert_eq!(tap.wait_for_exit(), None);
    assert_eq!(sets(&tap), (served, served * set_bytes(3)));
    // Requests that no server hears.
    benchmark(&host, "127.0.0.1", &["-n", "100", "-c", "5"]);
    let mut tap = Tap::start_on(&host, &log, &[]);
    benchmark(&host, "127.0.0.1", &["-n", "300", "-c", "5", "-d", "77"]);
    assert_eq!(tap.stop(), Some(0), "{}", tap.said());
    assert_eq!(tap.statistics(None)["gaps"]["nobody listened"]["count"], 1);
    assert_eq!(tap.statistics(Some("$77"))["requests"]["query"]["count"], 300);
    assert!(sets(&tap).0 >= served + 300);
}

#[test]
fn an_encrypted_connection_ends_the_tap_with_an_explanation() {
    let Some(host) = Namespace::new() else { return };
    let Some(_redis) = Redis::start(&host) else { return };
    let mut tap = Tap::start(&host, "lo", &[]);
    // The head of a TLS record with a ClientHello.
    let hello =
        "printf '\\026\\003\\001\\002\\000\\001\\000\\001\\374\\003\\003' >/dev/tcp/127.0.0.1/6379";
    host.must_run("bash", &["-c", hello]);
    assert_eq!(tap.wait_for_exit(), Some(3));
    assert!(tap.said().contains("encrypted (TLS)"), "{}", tap.said());
}

#[test]
fn what_is_missing_to_capture_is_said() {
    let Some(host) = Namespace::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let output = log_command(&host, "eth77", &log).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("no network interface 'eth77'"), "{}", text(&output));
    host.must_run("ip", &["link", "set", "lo", "down"]);
    let output = log_command(&host, "lo", &log).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("'lo' is down"), "{}", text(&output));
    let mut unprivileged = host.command("setpriv");
    unprivileged.args(["--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--regid=65534"]);
    unprivileged.args(["--clear-groups", env!("CARGO_BIN_EXE_indelible"), "tap", "log"]);
    unprivileged.args(["--interface", "lo", "--port", "6379", "--protocol", "resp", "--dir"]);
    let output = unprivileged.arg(&log).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("CAP_NET_RAW"), "{}", text(&output));
    assert!(!log.exists(), "nothing was begun");
}

#[test]
fn metrics_are_answered_and_no_capability_is_left() {
    let Some(host) = Namespace::new() else { return };
    let Some(_redis) = Redis::start(&host) else { return };
    let tap = Tap::start(&host, "lo", &["--metrics", "127.0.0.1:9100", "--cpu", "0,0"]);
    benchmark(&host, "127.0.0.1", &["-n", "1000", "-c", "5"]);
    wait_until(|| metric(&host, "indelible_tap_requests_total{class=\"query\"}") >= 1000.0);
    wait_until(|| metric(&host, "indelible_tap_lag_seconds") == 0.0);
    assert_eq!(metric(&host, "indelible_tap_packets_dropped_total"), 0.0);
    for thread in std::fs::read_dir(format!("/proc/{}/task", tap.pid())).unwrap() {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        for kind in ["CapEff", "CapPrm", "CapInh"] {
            let none = format!("{kind}:\t0000000000000000");
            assert!(status.contains(&none), "{status}");
        }
    }
}

/// A metric of the tap in `host` that answers on port 9100.
fn metric(host: &Namespace, name: &str) -> f64 {
    let ask =
        "exec 3<>/dev/tcp/127.0.0.1/9100; printf 'GET /metrics HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3";
    let answer = host.must_run("bash", &["-c", ask]);
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse::<f64>().unwrap())
}

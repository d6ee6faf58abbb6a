//! CONFIG SET appendonly while the server runs: the log in the directory stays as it is when it is
//! turned off, and holds what memory holds once it is on again; in between a crash brings back one
//! or the other.

use crate::fault_injection::Fault;
use crate::kill::Random;
use crate::process::{PATIENCE, Program, Server};
use crate::reload::fill;
use crate::wire::Connection;
use std::time::{Duration, Instant};

const OFF: [&str; 6] = ["--appendonly", "no", "--save", "", "--enable-debug-command", "yes"];
const ON: [&str; 4] = ["--appendonly", "yes", "--enable-debug-command", "yes"];

fn info(connection: &mut Connection, name: &str) -> String {
    let info = connection.words("INFO everything").text();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("{name} is not in {info}")).to_owned()
}

pub(crate) fn wait_until_on(connection: &mut Connection) {
    let started = Instant::now();
    while info(connection, "aof_rewrite_in_progress") == "1" {
        assert!(started.elapsed() < PATIENCE, "the log is not on");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(info(connection, "redo_enabled"), "1");
}

/// Turns the log off, as for a cache: with save points it would stay on, as Redis keeps the data.
fn turn_off(connection: &mut Connection) {
    let words = ["CONFIG", "SET", "save", "", "appendonly", "no"];
    assert_eq!(connection.call(&words).unwrap().text(), "OK");
}

#[test]
fn what_redis_keeps_after_config_set_is_kept() {
    // The first line of a playbook that says what is so already.
    let mut server = Program::indelible().start(&["--appendonly", "no"]);
    let mut connection = server.connect();
    assert_eq!(connection.words("MSET doomed 1 kept 1").text(), "OK");
    assert_eq!(connection.words("CONFIG SET appendonly no").text(), "OK");
    assert_eq!(connection.words("DEL doomed").text(), "1");
    assert_eq!(connection.words("SET new 1").text(), "OK");
    server.terminate();
    server.wait_for_exit();
    server.restart();
    let mut connection = server.connect();
    assert_eq!(connection.words("EXISTS doomed").text(), "0");
    assert_eq!(connection.words("EXISTS kept new").text(), "2");
    // A cache that is given save points.
    let mut server = Program::indelible().start(&["--appendonly", "no", "--save", ""]);
    let mut connection = server.connect();
    assert_eq!(connection.call(&["CONFIG", "SET", "save", "60 1"]).unwrap().text(), "OK");
    wait_until_on(&mut connection);
    assert_eq!(connection.words("SET a 1").text(), "OK");
    server.terminate();
    server.wait_for_exit();
    server.restart_with(&["--appendonly", "no", "--save", "60 1"]);
    assert_eq!(server.connect().words("GET a").text(), "1");
}

fn digest(server: &Server) -> String {
    server.connect().words("DEBUG DIGEST").text()
}

fn verify(server: &Server) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["log", "verify"])
        .arg(server.directory())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "log verify: {said}");
}

#[test]
fn a_log_that_is_turned_off_stays_as_it_is() {
    let mut server = Program::indelible().start(&ON);
    let mut connection = server.connect();
    assert_eq!(info(&mut connection, "aof_enabled"), "1");
    fill(&mut connection);
    let before = digest(&server);
    turn_off(&mut connection);
    assert_eq!(connection.words("SET after 1").text(), "OK");
    assert_eq!(connection.words("DEL hash").text(), "1");
    assert_eq!(info(&mut connection, "aof_enabled"), "0");
    assert_eq!(info(&mut connection, "redo_enabled"), "0");
    verify(&server);
    server.kill();
    server.restart();
    assert_eq!(digest(&server), before);
}

#[test]
fn a_log_that_is_turned_on_holds_everything_that_memory_has() {
    let mut server = Program::indelible().start(&OFF);
    let mut connection = server.connect();
    fill(&mut connection);
    connection.words("DEBUG POPULATE 20000 key 100");
    assert_eq!(connection.words("CONFIG SET appendonly yes").text(), "OK");
    wait_until_on(&mut connection);
    connection.words("SREM set m3");
    connection.words("SETRANGE large 10000 middle");
    connection.words("SET later 1");
    let before = digest(&server);
    server.kill();
    verify(&server);
    server.restart_with(&ON);
    assert_eq!(digest(&server), before);
}

#[test]
fn what_an_older_log_held_never_comes_back() {
    let mut server = Program::indelible().start(&ON);
    let mut connection = server.connect();
    fill(&mut connection);
    turn_off(&mut connection);
    connection.words("DEL string:1 list");
    connection.words("HDEL hash f1 f2 f3");
    connection.words("SREM set m1");
    connection.words("FLUSHDB");
    connection.words("SELECT 5");
    connection.words("DEL zset");
    assert_eq!(connection.words("CONFIG SET appendonly yes").text(), "OK");
    wait_until_on(&mut connection);
    connection.words("HDEL hash f4");
    let before = digest(&server);
    server.kill();
    for _ in 0..2 {
        server.restart();
        assert_eq!(digest(&server), before);
        let mut connection = server.connect();
        assert!(!connection.words("BGREWRITEAOF").is_error());
        wait_until_on(&mut connection);
        server.kill();
        verify(&server);
    }
}

#[test]
fn a_crash_while_it_is_turned_on_brings_back_the_old_state_or_the_new() {
    crash_while_it_is_turned_on(&ON);
}

#[test]
fn a_crash_while_it_is_turned_on_does_so_on_three_devices() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<String> = ["a", "b", "c"]
        .iter()
        .map(|name| directory.path().join(name).to_str().unwrap().to_owned())
        .collect();
    for path in &paths {
        std::fs::create_dir(path).unwrap();
    }
    let mut options = ON.to_vec();
    options.extend(["--log-devices", &paths[0], &paths[1], &paths[2]]);
    options.extend(["--log-segment-bytes", "1mb"]);
    crash_while_it_is_turned_on(&options);
}

/// Turns the log off and on again and kills the server at a moment of that, many times.
fn crash_while_it_is_turned_on(options: &[&str]) {
    let mut random = Random::from_environment();
    let mut server = Program::indelible().start(options);
    let mut connection = server.connect();
    fill(&mut connection);
    let mut seen = [0, 0];
    for round in 0..12 {
        let old = digest(&server);
        let mut connection = server.connect();
        turn_off(&mut connection);
        connection.words("FLUSHALL");
        connection.words(&format!("DEBUG POPULATE 30000 round:{round} 200"));
        connection.words(&format!("HSET hash f{round} v"));
        let new = digest(&server);
        assert_eq!(connection.words("CONFIG SET appendonly yes").text(), "OK");
        std::thread::sleep(Duration::from_millis(random.below(120)));
        server.kill();
        verify(&server);
        server.restart();
        let found = digest(&server);
        assert!(found == old || found == new, "round {round} brings back something else");
        seen[usize::from(found == new)] += 1;
    }
    println!("the old state came back {} times, the new one {} times", seen[0], seen[1]);
}

#[test]
fn clients_go_on_writing_while_it_is_turned_on_and_off() {
    let mut server = Program::indelible().start(&OFF);
    let mut admin = server.connect();
    admin.words("DEBUG POPULATE 50000 key 100");
    let mut writer = server.connect();
    let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let over = std::sync::Arc::clone(&is_over);
    let thread = std::thread::spawn(move || {
        let mut count = 0;
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            count += 1;
            assert_eq!(writer.words("INCR counter").text(), count.to_string());
            assert_eq!(writer.words(&format!("HSET hash f{count} v")).text(), "1");
        }
        count
    });
    for _ in 0..3 {
        assert_eq!(admin.words("CONFIG SET appendonly yes").text(), "OK");
        turn_off(&mut admin);
        assert_eq!(admin.words("CONFIG SET appendonly yes").text(), "OK");
        wait_until_on(&mut admin);
        turn_off(&mut admin);
    }
    assert_eq!(admin.words("CONFIG SET appendonly yes").text(), "OK");
    wait_until_on(&mut admin);
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    let count: u64 = thread.join().unwrap();
    server.kill();
    server.restart_with(&ON);
    let mut connection = server.connect();
    assert_eq!(connection.words("GET counter").text(), count.to_string());
    assert_eq!(connection.words("HLEN hash").text(), count.to_string());
    assert_eq!(connection.words("DBSIZE").text(), "50002");
}

#[test]
fn the_end_waits_until_everything_is_in_the_log() {
    let mut server = Program::indelible().start(&OFF);
    let mut connection = server.connect();
    connection.words("DEBUG POPULATE 100000");
    connection.send_bytes(b"CONFIG SET appendonly yes\r\nSHUTDOWN\r\n").unwrap();
    assert_eq!(server.wait_for_exit(), Some(0), "{}", server.log());
    server.restart_with(&ON);
    assert_eq!(server.connect().words("DBSIZE").text(), "100000");
}

#[test]
fn a_log_that_somebody_else_uses_is_refused_and_the_server_goes_on_without() {
    let other = Program::indelible().start(&ON);
    let server =
        Program::indelible().start(&[&OFF[..], &["--enable-protected-configs", "yes"]].concat());
    let mut connection = server.connect();
    connection.words("SET a 1");
    let directory = other.directory().display().to_string();
    assert_eq!(connection.words(&format!("CONFIG SET dir {directory}")).text(), "OK");
    assert_eq!(
        connection.words("CONFIG SET appendonly yes").text(),
        "ERR CONFIG SET failed (possibly related to argument 'appendonly') - \
         Unable to turn on AOF. Check server logs."
    );
    assert_eq!(connection.words("CONFIG GET appendonly").elements()[1].text(), "no");
    assert_eq!(connection.words("INCR a").text(), "2");
    assert!(server.log().contains("another process uses this data directory"), "{}", server.log());
}

#[test]
fn starting_without_a_log_where_there_is_one_is_warned_of() {
    let mut server = Program::indelible().start(&ON);
    server.connect().words("SET a 1");
    assert!(!server.log().contains("WARNING"));
    server.kill();
    server.restart_with(&OFF);
    assert!(server.log().contains("holds a redo log, and appendonly is no"), "{}", server.log());
    assert_eq!(server.connect().words("DBSIZE").text(), "0");
}

#[test]
fn the_event_loop_reads_nothing_of_a_log_that_is_opened() {
    if !Fault::is_possible() {
        return;
    }
    let server = Program::indelible().start(&ON);
    let mut connection = server.connect();
    fill(&mut connection);
    let before = digest(&server);
    // What the main thread reads from a file at a place fails from here on.
    let _fault = Fault::inject(&server, "indelible", "pread64:error=EIO");
    assert_eq!(connection.words("DEBUG RELOAD").text(), "OK");
    assert_eq!(digest(&server), before);
    turn_off(&mut connection);
    assert_eq!(connection.words("CONFIG SET appendonly yes").text(), "OK");
    wait_until_on(&mut connection);
    assert_eq!(digest(&server), before);
}

//! What the server says: to the terminal, to the log file, to the parent of a daemon.

use crate::process::{PATIENCE, Program, free_port, wait_until};
use crate::wire::Connection;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_indelible")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_daemon_that_serves_lets_its_parent_go_well() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (place, port) = (directory.path().to_str().unwrap(), free_port());
    let number = port.to_string();
    let (pid, log) = (at("pid"), at("log"));
    let arguments = [
        "server",
        "--daemonize",
        "yes",
        "--port",
        &number,
        "--dir",
        place,
        "--pidfile",
        pid.to_str().unwrap(),
        "--logfile",
        log.to_str().unwrap(),
    ];
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    // The parent waited until clients are served: no second attempt is needed.
    let mut client = Connection::open(port).unwrap();
    assert_eq!(client.words("SET a 1").text(), "OK");
    // A second one cannot have the directory, and its parent says so.
    let other = free_port().to_string();
    let mut refused = arguments;
    refused[4] = &other;
    let other_log = at("other.log");
    refused[10] = other_log.to_str().unwrap();
    let output = run(&refused);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("another process uses this data directory"),
        "{output:?}"
    );
    assert!(read(&other_log).contains("# Fatal error: "), "{}", read(&other_log));
    let _ended = client.call(&["SHUTDOWN"]);
    wait_until(|| !pid.exists());
}

#[test]
fn a_daemon_that_cannot_start_makes_its_parent_fail() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let port = free_port().to_string();
    let common = ["server", "--daemonize", "yes", "--port", &port, "--dir"];
    for (rest, why) in [
        (&["/nonexistent/directory"][..], "Can't chdir"),
        (&[place, "--bind", "192.0.2.1"], "listening socket"),
        (&[place, "--logfile", "/nonexistent/log"], "Can't open the log file"),
    ] {
        let output = run(&[&common[..], rest].concat());
        assert_eq!(output.status.code(), Some(1), "{rest:?}: {output:?}");
        assert!(text(&output.stderr).contains(why), "{rest:?}: {output:?}");
    }
}

#[test]
fn the_start_says_what_is_promised_and_where_it_is_kept() {
    let options = ["--maxmemory", "100mb", "--appendfsync", "everysec"];
    let server = Program::indelible().start(&options);
    let log = server.log();
    let info = server.connect().words("INFO server").text();
    for part in [
        "(commit ",
        &format!("Port {} of * -::*", server.port),
        "memory limit: 104857600 bytes, noeviction",
        &format!("Data directory {}, log devices: below it", server.directory().display()),
        "appendfsync everysec: a power failure can lose the last second",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains("No configuration file given"), "options were given: {log}");
    assert!(info.contains("indelible_durability:everysec"), "{info}");
    let server = Program::indelible().start(&["--appendonly", "no", "--save", ""]);
    assert!(server.log().contains("# Data directory"), "it is a warning: {}", server.log());
    assert!(server.log().contains("VOLATILE"), "{}", server.log());
    let info = server.connect().words("INFO server").text();
    assert!(info.contains("indelible_durability:volatile"), "{info}");
}

#[test]
fn what_is_done_to_the_data_is_logged_and_no_secret_is() {
    let server = Program::indelible().start(&[]);
    let mut client = server.connect();
    for call in [
        "SET a 1",
        "CONFIG SET maxmemory 50mb requirepass hush-hush",
        "CONFIG SET hz 20",
        "CONFIG SET hz 20",
        "BGSAVE",
        "CHECKPOINT",
    ] {
        let reply = client.words(call);
        assert!(!reply.is_error() || reply.text().contains("in progress"), "{call}: {reply:?}");
    }
    let started = Instant::now();
    for part in [
        "CONFIG SET maxmemory=52428800, requirepass=(redacted)",
        "CONFIG SET hz=20",
        "Background saving started",
        "DB saved on disk",
        "Checkpoint started",
        "Checkpoint finished after ",
    ] {
        while !server.log().contains(part) {
            assert!(started.elapsed() < PATIENCE, "{part}: {}", server.log());
        }
    }
    let log = server.log();
    assert_eq!(log.matches("CONFIG SET hz=20").count(), 1, "nothing changed: {log}");
    assert!(!log.contains("hush"), "{log}");
}

#[test]
fn a_log_file_that_is_moved_away_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("indelible.log");
    let server = Program::indelible().start(&["--logfile", log.to_str().unwrap()]);
    let mut client = server.connect();
    let moved = directory.path().join("indelible.log.1");
    std::fs::rename(&log, &moved).unwrap();
    let mut hz = 20;
    wait_until(|| {
        hz = if hz == 20 { 30 } else { 20 };
        assert_eq!(client.words(&format!("CONFIG SET hz {hz}")).text(), "OK");
        read(&log).contains("CONFIG SET hz=")
    });
    // Nothing is lost on the way: what is not in the one is in the other.
    assert!(read(&moved).contains("is starting"));
    assert!(!read(&log).contains("is starting"));
}

#[test]
fn a_wrong_line_is_in_the_log_file_that_came_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let output = run(&["server", "--logfile", log.to_str().unwrap(), "--maxmemory", "lots"]);
    assert_eq!(output.status.code(), Some(1));
    let logged = read(&log);
    assert!(logged.contains(" # Fatal error: ") && logged.contains("maxmemory"), "{logged}");
    assert_eq!(logged.lines().count(), 1, "{logged}");
}

#[test]
fn the_help_of_the_server_is_its_own() {
    let help = text(&run(&["server", "--help"]).stdout);
    for part in
        ["appendfsync always", "log-devices", "redis-server [FILE | -]", "docs/configuration.md"]
    {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(!help.contains("indelible transfer"), "{help}");
    assert!(text(&run(&["--help"]).stdout).contains("indelible transfer"));
}

#[test]
fn a_program_called_redis_server_is_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("redis-server");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_indelible"), &link).unwrap();
    let output = Command::new(&link).arg("--version").output().unwrap();
    assert!(text(&output.stdout).starts_with("Indelible server v="), "{output:?}");
    let help = Command::new(&link).arg("-h").output().unwrap();
    assert!(text(&help.stdout).contains("redis-server [FILE | -]"), "{help:?}");
    let file = directory.path().join("redis.conf");
    std::fs::write(&file, "maxmemory 1mb\n").unwrap();
    let program = Program::of_words(link.to_str().unwrap()).with_file(file.to_str().unwrap());
    let server = program.start(&[]);
    assert_eq!(server.connect().words("CONFIG GET maxmemory").elements()[1].text(), "1048576");
    // A file of that name, too, and it can go to the background.
    let copy = directory.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let copy = copy.join("redis-server");
    std::fs::copy(env!("CARGO_BIN_EXE_indelible"), &copy).unwrap();
    let (data, pid) = (directory.path().join("data"), directory.path().join("pid"));
    std::fs::create_dir(&data).unwrap();
    let port = free_port();
    let output = Command::new(&copy)
        .args([file.to_str().unwrap(), "--daemonize", "yes", "--port", &port.to_string()])
        .args(["--dir", data.to_str().unwrap(), "--pidfile", pid.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let _ended = Connection::open(port).unwrap().call(&["SHUTDOWN"]);
    wait_until(|| !pid.exists());
}

#[test]
fn debug_listpack_and_quicklist_write_the_elements_to_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let options = ["--enable-debug-command", "yes", "--logfile", log.to_str().unwrap()];
    let server = Program::indelible().start(&options);
    let mut client = server.connect();
    let long = "x".repeat(60);
    client.call(&["HSET", "h", "field", "two\nlines", "other", &long]).unwrap();
    let reply = client.words("DEBUG LISTPACK h");
    assert_eq!(reply.text(), "Listpack structure printed on stdout");
    let shown = format!("    3    60 \"{}\"…\n", &long[..40]);
    let expected =
        ["DEBUG LISTPACK: 4 elements\n", "    0     5 \"field\"\n", "\"two\\nlines\"\n", &shown];
    for line in expected {
        assert!(read(&log).contains(line), "{line:?} in {}", read(&log));
    }
    for number in 0..200 {
        client.words(&format!("RPUSH l {number}"));
    }
    assert_eq!(client.words("DEBUG QUICKLIST l").text(), "Quicklist structure printed on stdout");
    for line in ["DEBUG QUICKLIST: 200 elements\n", "  127     3 \"127\"\n", "  and 72 more\n"] {
        assert!(read(&log).contains(line), "{line:?} in {}", read(&log));
    }
    assert!(!read(&log).contains("\"128\""), "no more than that");
}

#[test]
fn a_panic_leaves_a_report_without_data_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let options = ["--enable-debug-command", "yes", "--logfile", log.to_str().unwrap()];
    let mut server = Program::indelible().start(&options);
    let mut client = server.connect();
    assert_eq!(client.words("SET secret-key secret-value").text(), "OK");
    assert!(client.call(&["DEBUG", "PANIC"]).is_err(), "the server ends");
    assert_ne!(server.wait_for_exit(), Some(0));
    let logged = read(&log);
    let report: Vec<&str> = logged.lines().filter(|it| it.contains("= CRASH REPORT =")).collect();
    let has = |part: &str| report.iter().any(|line| line.contains(part));
    let version = format!("indelible {} (", env!("CARGO_PKG_VERSION"));
    for part in [&*version, "debug.rs:", ": DEBUG PANIC", "of this thread: debug, with 1 argument"]
    {
        assert!(has(part), "{part} in {logged}");
    }
    assert!(!logged.contains("secret"), "{logged}");
    server.restart();
    assert_eq!(server.connect().words("GET secret-key").text(), "secret-value");
}

#[test]
fn a_log_of_json_has_an_object_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let options = ["--enable-debug-command", "yes", "--logfile", log.to_str().unwrap()];
    let server = Program::indelible().start(&[&options[..], &["--log-format", "json"]].concat());
    let mut client = server.connect();
    assert!(client.call(&["DEBUG", "LOG", "a \"word\"\nand\tmore"]).is_ok());
    for line in read(&log).lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["pid"], server.pid());
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    }
    let last: serde_json::Value = serde_json::from_str(read(&log).lines().last().unwrap()).unwrap();
    assert_eq!((&last["level"], &last["role"]), (&"warning".into(), &"primary".into()));
    assert_eq!(last["message"], "DEBUG LOG: a \"word\"\nand\tmore");
    assert_eq!(client.words("CONFIG SET log-format logfmt").text(), "OK");
    assert!(client.call(&["DEBUG", "LOG", "a \"word\"\nand\tmore"]).is_ok());
    let logged = read(&log);
    let last = logged.lines().last().unwrap();
    assert!(last.ends_with("level=warning message=\"DEBUG LOG: a 'word' and more\""), "{last}");
}

//! The admin page of a real server: its token, what it refuses, and that its figures are those of INFO.
//!
//! What the page is like without a server behind it is tested in `crates/admin`.

use crate::fault_injection::Fault;
use crate::open_metrics::{self, Family};
use crate::process::{PATIENCE, Program, Server, free_port, wait_until};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const BOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/indelible.json");
const WATCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/watch.md");

/// Starts a server with a page on a port of its own.
fn start(options: &[&str]) -> (Server, u16) {
    let port = free_port();
    let text = port.to_string();
    let server = Program::indelible().start(&[options, &["--admin-port", &text]].concat());
    (server, port)
}

fn token(server: &Server) -> String {
    std::fs::read_to_string(server.directory().join("admin-token")).unwrap().trim().to_owned()
}

/// Requests a path with a token; the status, the head and the body.
fn get(port: u16, path: &str, token: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let shown =
        if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{shown}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

fn metrics(port: u16, token: &str) -> BTreeMap<String, Family> {
    let (status, _, body) = get(port, "/metrics", token);
    assert_eq!(status, 200);
    open_metrics::parse(&body)
}

fn value(families: &BTreeMap<String, Family>, name: &str) -> f64 {
    families[name].samples.first().unwrap_or_else(|| panic!("{name}")).2
}

/// The figures on the page, by INFO's names.
fn figures(page: &str) -> BTreeMap<String, String> {
    let tags = page.split("<data value=\"").skip(1);
    let pairs = tags.map(|tag| {
        let (value, rest) = tag.split_once("\" data-field=\"").unwrap();
        (rest.split('"').next().unwrap().to_owned(), value.to_owned())
    });
    pairs.collect()
}

fn info(server: &Server) -> BTreeMap<String, String> {
    let text = server.connect().words("INFO everything").text();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

#[test]
fn a_page_needs_the_token_that_the_first_start_made() {
    let (mut server, port) = start(&[]);
    let file = server.directory().join("admin-token");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let log = server.log();
    assert!(log.contains(&format!("http://127.0.0.1:{port}/")), "{log}");
    assert!(log.contains(&format!("{}, which was made", file.display())), "{log}");
    let made = token(&server);
    assert!(!log.contains(&made), "the log has no secret");
    for path in ["/", "/metrics", "/x"] {
        let (status, head, body) = get(port, path, "");
        assert_eq!(status, 401);
        assert!(!format!("{head}{body}").to_lowercase().contains("indelible"), "{head}{body}");
        assert_eq!(get(port, path, "wrong").0, 401);
    }
    assert_eq!(get(port, "/", &made).0, 200);
    server.kill();
    server.restart();
    assert_eq!(token(&server), made, "the next start keeps it");
    assert_eq!(get(port, "/", &made).0, 200);
}

#[test]
fn there_is_no_page_unless_it_is_asked_for() {
    let server = Program::indelible().start(&[]);
    assert!(!server.directory().join("admin-token").exists());
    assert!(!server.log().contains("Admin page"), "{}", server.log());
    let reply = server.connect().words("CONFIG SET admin-port 8000").text();
    assert!(reply.contains("can't set immutable config"), "{reply}");
    let reply = server.connect().words("CONFIG GET admin-*");
    let words: Vec<String> = reply.elements().iter().map(|it| it.text()).collect();
    let expected = [
        ["admin-port", "0"],
        ["admin-bind", "127.0.0.1"],
        ["admin-token-file", "admin-token"],
        ["admin-hosts", ""],
    ];
    assert_eq!(words, expected.as_flattened());
}

#[test]
fn the_figures_are_those_of_info() {
    let (server, port) = start(&["--slowlog-log-slower-than", "0"]);
    let mut connection = server.connect();
    for key in 0..500 {
        connection.words(&format!("SET key:{key} value"));
        connection.words(&format!("SET key:{key} another"));
    }
    for command in ["BACKUP CREATE monday", "FLUSHDB", "SET a <b>bold</b>", "INCR a", "GET a"] {
        connection.words(command);
    }
    connection.words("CLIENT SETNAME <i>me</i>");
    let token = token(&server);
    // What changes with the time, or by asking.
    let moving = |name: &str| {
        [
            "uptime",
            "memory",
            "mem_",
            "instantaneous",
            "clients",
            "history_seconds",
            "connections",
            "commands",
            "rejected",
        ]
        .iter()
        .any(|part| name.contains(part))
    };
    let mut page = String::new();
    // Compaction may come in between: then it is looked at again.
    wait_until(|| {
        page = get(port, "/", &token).2;
        let (shown, info) = (figures(&page), info(&server));
        let compared = shown.iter().filter(|(name, _)| *name != "keys" && !moving(name));
        let (same, other): (Vec<_>, Vec<_>) = compared
            .partition(|(name, value)| info.get(*name).map_or("", String::as_str) == *value);
        println!("{} are the same, and not {other:?}", same.len());
        same.len() > 25 && other.is_empty() && shown["redo_durable_lsn"] == info["redo_durable_lsn"]
    });
    for text in ["monday", "FLUSHDB", "&lt;b&gt;bold&lt;/b&gt;", "&lt;i&gt;me&lt;/i&gt;"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("<b>bold"), "what clients have named is no markup");
    let of_info = [
        ("indelible_log_durable_lsn", "redo_durable_lsn"),
        ("indelible_log_records", "redo_records"),
        ("indelible_log_disk_bytes", "redo_disk_bytes"),
        ("indelible_backups", "backups"),
        ("indelible_error_replies", "total_error_replies"),
    ];
    wait_until(|| {
        let (families, info) = (metrics(port, &token), info(&server));
        let other = of_info.iter().find(|(metric, field)| {
            (value(&families, metric) - info[*field].parse::<f64>().unwrap()).abs() > 0.5
        });
        println!("{other:?}");
        other.is_none()
    });
    let families = metrics(port, &token);
    let body = get(port, "/metrics", &token).2;
    for text in ["key:", "monday", "bold", "me</i>"] {
        assert!(!body.contains(text), "{text} is in a label");
    }
    let syncs = &families["indelible_log_device_sync_seconds"].samples;
    let counted = syncs.iter().find(|it| it.0.ends_with("_count")).unwrap().2;
    assert!(counted >= 1.0, "syncs are measured");
}

#[test]
fn every_metric_of_the_board_and_of_the_alarms_is_there() {
    let (server, port) = start(&["--log-index", "yes", "--archive", "file:///tmp"]);
    server.connect().words("BACKUP CREATE a");
    server.connect().words("SET a b");
    let families = metrics(port, &token(&server));
    for file in [BOARD, WATCH] {
        let text = std::fs::read_to_string(file).unwrap();
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let words = text.split(|letter: char| !is_name(letter));
        let mut named = 0;
        for word in words.filter(|word| word.starts_with("indelible_") && !word.ends_with('_')) {
            let suffixes = ["", "_total", "_bucket", "_count", "_sum", "_info"];
            let is_there = suffixes.iter().any(|suffix| {
                word.strip_suffix(suffix).is_some_and(|name| families.contains_key(name))
            });
            // What is there only while something goes on.
            let is_passing =
                word.starts_with("indelible_loading_") || word.starts_with("indelible_recovery_");
            assert!(is_there || is_passing, "{word} of {file}");
            named += 1;
        }
        assert!(named > 10, "{file}: {named}");
    }
    let board = std::fs::read_to_string(BOARD).unwrap();
    serde_json::from_str::<serde_json::Value>(&board).unwrap();
}

#[test]
fn a_server_whose_executor_is_busy_is_shown_as_it_was() {
    if !Fault::is_possible() {
        return;
    }
    let (server, port) = start(&[]);
    server.connect().words("SET a b");
    let token = token(&server);
    assert!(get(port, "/", &token).2.contains("Your data is safe"));
    let fault = Fault::inject(&server, "indelible", "epoll_wait:delay_enter=8000000");
    wait_until(|| value(&metrics(port, &token), "indelible_up") < 0.5);
    let page = get(port, "/", &token).2;
    assert!(page.contains("The server has not answered for"), "{page}");
    assert_eq!(figures(&page)["redo_durable_lsn"], "1", "the last figures");
    drop(fault);
    wait_until(|| value(&metrics(port, &token), "indelible_up") > 0.5);
}

#[test]
fn a_server_that_reads_its_log_is_shown() {
    let (mut server, port) = start(&["--log-index", "no"]);
    let mut connection = server.connect();
    let value_of = "x".repeat(100);
    for key in 0..20_000 {
        let command = format!("SET key:{key} {value_of}");
        connection.send(&command.split(' ').collect::<Vec<_>>()).unwrap();
    }
    wait_until(|| server.connect().words("DBSIZE").text() == "20000");
    let token = token(&server);
    server.kill();
    let (redis_port, admin_port) = (free_port().to_string(), port.to_string());
    let data = server.directory().display().to_string();
    let options =
        ["--port", &redis_port, "--admin-port", &admin_port, "--dir", &data, "--log-index", "no"];
    let mut command = Program::indelible().command(&options);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    // While it is read the page is there, and afterwards it has all.
    let mut pages = Vec::new();
    wait_until(|| {
        if TcpStream::connect(("127.0.0.1", port)).is_err() {
            return false;
        }
        let (status, _, page) = get(port, "/", &token);
        assert_eq!(status, 200);
        pages.push(page);
        pages
            .last()
            .is_some_and(|page| figures(page).get("keys").is_some_and(|keys| keys == "20000"))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(pages.last().unwrap().contains("<h2 id=\"recovery-h\">"));
}

#[test]
fn a_log_that_has_failed_is_told_first() {
    if !Fault::is_possible() {
        return;
    }
    let (server, port) = start(&["--appendfsync", "always"]);
    let token = token(&server);
    server.connect().words("SET a b");
    assert!(get(port, "/", &token).2.contains("Your data is safe"));
    let _fault = Fault::inject(&server, "flusher-0", "fdatasync,pwritev2,pwrite64:error=EIO");
    // Its reply never comes.
    let mut writer = server.connect();
    let _gone = writer.send(&["SET", "a", "c"]);
    wait_until(|| value(&metrics(port, &token), "indelible_log_healthy") < 0.5);
    let page = get(port, "/", &token).2;
    assert!(page.contains("<title>(!) Act now"), "{page}");
    assert!(
        page.contains("Act now: <bdi>Writes are refused") && page.contains("Poisoned"),
        "{page}"
    );
    assert!(value(&metrics(port, &token), "indelible_writes_refused") > 0.5);
}

#[test]
fn a_port_that_is_taken_keeps_no_database_from_its_start() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let server = Program::indelible().start(&["--admin-port", &port]);
    assert_eq!(server.connect().words("PING").text(), "PONG");
    let log = server.log();
    let expected = format!("WARNING: admin page: cannot listen on 127.0.0.1:{port}: ");
    assert!(log.contains(&expected) && log.contains("starting without the page"), "{log}");
    assert!(log.contains("Give admin-port one that is free"), "{log}");
}

#[test]
fn a_flood_of_connections_takes_none_of_the_logs_descriptors() {
    let (server, port) = start(&[]);
    let token = token(&server);
    assert_eq!(get(port, "/", &token).0, 200);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    let before = open();
    let mut most = 0;
    let mut held = Vec::new();
    for _ in 0..400 {
        held.push(TcpStream::connect(("127.0.0.1", port)).unwrap());
        most = most.max(open());
    }
    assert!(most <= before + 33 + 2, "{before}, then {most}");
    assert_eq!(get(port, "/", &token).0, 200);
}

#[test]
fn a_sync_that_hangs_is_told_where_replies_wait_for_it() {
    if !Fault::is_possible() {
        return;
    }
    let (server, port) = start(&["--appendfsync", "always"]);
    let token = token(&server);
    server.connect().words("SET a b");
    assert!(get(port, "/", &token).2.contains("Your data is safe"));
    let fault =
        Fault::inject(&server, "flusher-0", "fdatasync,pwritev2,pwrite64:delay_enter=8000000");
    let mut writer = server.connect();
    writer.send(&["SET", "a", "c"]).unwrap();
    wait_until(|| value(&metrics(port, &token), "indelible_log_device_busy_seconds") >= 3.0);
    let page = get(port, "/", &token).2;
    assert!(page.contains("<title>(!) Act now") && !page.contains("Your data is safe"), "{page}");
    assert!(page.contains("1 replies are held: the log device"), "{page}");
    drop(fault);
    wait_until(|| get(port, "/", &token).2.contains("Your data is safe"));
}

#[test]
fn a_page_that_cannot_be_is_refused_at_the_start() {
    let port = free_port().to_string();
    let short = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("short-token-{port}"));
    std::fs::write(&short, "short\n").unwrap();
    let short_text = short.display().to_string();
    for (options, expected) in [
        (vec!["--admin-port", "1", "--admin-bind", "here"], "admin-bind 'here' is no address"),
        // An address for documents: no machine has it.
        (
            vec!["--admin-port", &port, "--admin-bind", "203.0.113.1"],
            "cannot listen on 203.0.113.1",
        ),
        (vec!["--admin-port", "1", "--admin-token-file", &short_text], "has no token"),
        (
            vec!["--admin-port", "1", "--admin-token-file", "/nowhere/token"],
            "admin-token-file /nowhere/token",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path().display().to_string();
        let server_port = free_port().to_string();
        let all = [&["--port", &server_port, "--dir", &dir][..], &options].concat();
        let output = Program::indelible().command(&all).output().unwrap();
        assert!(!output.status.success(), "{options:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{options:?}: {said}");
    }
    std::fs::remove_file(short).unwrap();
}

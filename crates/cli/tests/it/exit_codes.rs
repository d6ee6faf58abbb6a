//! What `indelible backup`, `restore` and `view` end with: 0, 1 for what cannot be done, 2 for damage, 3 for what is not the newest state.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::archive::{catch_up, files, info, place, restore, run, start};
use crate::damage::said;
use crate::process::{Program, wait_until};
use crate::rdb_files::fill;

fn code(words: &[&str]) -> (Option<i32>, Output) {
    let output = run(words);
    (output.status.code(), output)
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(output)))
}

/// Turns a bit of a file.
fn turn(path: &Path, at: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 2], at).unwrap();
}

/// Whether a server answers at a socket.
fn is_served(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let mut reply = [0; 7];
    let answered = stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut reply));
    answered.is_ok() && &reply == b"+PONG\r\n"
}

#[test]
fn what_is_damaged_in_an_archive_is_said_and_is_exit_code_2() {
    let (place, url) = place();
    let mut server = start(&url, &["--archive-keep", "24h:all"]);
    let mut connection = server.connect();
    fill(&mut connection);
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    connection.words("BACKUP CREATE named");
    for number in 0..4 {
        connection.words(&format!("SET key:{number} value"));
        catch_up(&mut connection);
    }
    wait_until(|| run(&["backup", "show", "named", &url]).status.success());
    server.kill();
    for command in ["list", "timeline", "verify"] {
        assert_eq!(code(&["backup", command, &url]).0, Some(0), "{command}");
    }
    // A name that cannot be read: a restore of it fails, and so nothing may call the archive good.
    for (folder, at) in [("named", 130), ("begin", 50), ("tidier", 70), ("writer", 45)] {
        let path = files(&url, folder).remove(0);
        turn(&path, at);
        let (found, output) = code(&["backup", "verify", &url]);
        assert_eq!(found, Some(2), "{folder}: {}", said(&output));
        let name = format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
        assert!(said(&output).contains(&name), "{}", said(&output));
        if folder == "named" {
            let into = place.path().join("into");
            assert!(!restore(&url, &into, &["--at", "named"]).status.success());
            for words in [["list", &url], ["timeline", &url]] {
                let (found, output) = code(&["backup", words[0], words[1]]);
                assert_eq!(found, Some(2), "{words:?}: {}", said(&output));
                assert!(said(&output).contains(&name), "{}", said(&output));
                let (found, output) = code(&["backup", words[0], words[1], "--json"]);
                assert_eq!(found, Some(2), "{words:?}: {}", said(&output));
                assert!(output.stdout.starts_with(if words[0] == "list" { b"[" } else { b"{" }));
            }
        }
        turn(&path, at);
    }
    // What is marked, and the mark is none.
    let logs = files(&url, "log");
    let marked = logs.last().unwrap().file_name().unwrap().to_str().unwrap();
    let marks = logs[0].parent().unwrap().with_file_name("damaged");
    fs::create_dir_all(&marks).unwrap();
    let mark = marks.join(format!("log.{marked}"));
    fs::write(&mark, "").unwrap();
    for words in [
        &["list", &url][..],
        &["timeline", &url],
        &["timeline", &url, "--json"],
        &["verify", &url],
        &["tidy", &url, "--dry-run", "--keep", "24h:all"],
    ] {
        let (found, output) = code(&[&["backup"][..], words].concat());
        assert_eq!(found, Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(marked), "{words:?}: {}", said(&output));
    }
    fs::remove_file(&mark).unwrap();
    assert_eq!(code(&["backup", "verify", &url]).0, Some(0));
}

/// What `restore --latest` says and ends with where an archive ends in a gap, all that begins with it does.
#[test]
fn what_is_not_the_newest_state_is_exit_code_3_of_every_command() {
    let (place, url) = place();
    let mut server = start(&url, &[]);
    let mut connection = server.connect();
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    for number in 0..6 {
        connection.words(&format!("SET key:{number} value"));
        catch_up(&mut connection);
    }
    server.kill();
    let near = place.path().to_str().unwrap();
    let other = Program::indelible().start(&[]);
    let address = format!("127.0.0.1:{}", other.port);
    let keys = ["restore", &url, "--latest", "--keys", "key:*", "--to", &address];
    let keys = [&keys[..], &["--temporary", near]].concat();
    let viewed = || {
        let socket = place.path().join("view.sock");
        let mut view = Command::new(env!("CARGO_BIN_EXE_indelible"))
            .args(["view", &url, "--latest", "--port", "0", "--until-input-ends"])
            .args(["--temporary", near, "--", "--logfile", "/dev/null", "--unixsocket"])
            .arg(&socket)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until(|| is_served(&socket));
        drop(view.stdin.take());
        view.wait_with_output().unwrap()
    };
    assert_eq!((code(&keys).0, viewed().status.code()), (Some(0), Some(0)));
    let logs = files(&url, "log");
    fs::remove_file(&logs[logs.len() / 2]).unwrap();
    let export = place.path().join("dump.rdb");
    let export = ["backup", "export", &url, export.to_str().unwrap(), "--latest"];
    let export = [&export[..], &["--temporary", near]].concat();
    let rehearsal = ["backup", "verify", &url, "--restore", "--temporary", near];
    let into = place.path().join("into");
    let outputs =
        [restore(&url, &into, &["--latest"]), run(&keys), viewed(), run(&export), run(&rehearsal)];
    for output in outputs {
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert!(said(&output).contains("NOT THE NEWEST STATE"), "{}", said(&output));
    }
}

#[test]
fn a_backup_that_has_lost_a_file_is_exit_code_2() {
    let options = ["--log-history-seconds", "0", "--log-compaction-invalid-min", "10"];
    let mut server = Program::indelible().start(&options);
    let mut connection = server.connect();
    for round in 0..2 {
        for number in 0..100 {
            connection.words(&format!("SET key:{number} {round}"));
        }
        connection.words("BACKUP CREATE one");
    }
    connection.words("BGREWRITEAOF");
    wait_until(|| info(&mut connection, "aof_rewrite_in_progress") == "0");
    let directory = server.directory();
    let directory = directory.to_str().unwrap();
    for command in ["list", "timeline", "verify"] {
        let (found, output) = code(&["backup", command, directory]);
        assert_eq!(found, Some(0), "{command}: {}", said(&output));
    }
    server.kill();
    fs::remove_dir_all(Path::new(directory).join("redo/history")).unwrap();
    server.restart();
    server.kill();
    for words in [&["list"][..], &["list", "--json"], &["timeline"], &["timeline", "--json"]] {
        let words = [&["backup", words[0], directory][..], &words[1..]].concat();
        let (found, output) = code(&words);
        assert_eq!(found, Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains("backup one has lost a file"), "{}", said(&output));
        assert!(words.len() < 4 || json(&output)["backups"][0]["state"] == "lost");
    }
}

#[test]
fn where_there_is_no_log_nothing_can_be_done_which_is_no_damage() {
    let empty = tempfile::tempdir().unwrap();
    let near = empty.path().join("near");
    fs::create_dir(&near).unwrap();
    let [empty, near] = [empty.path(), &near].map(|path| path.to_str().unwrap());
    let into = format!("{near}/into");
    for words in [
        &["restore", empty, "--latest", "--into", &into][..],
        &["restore", empty, "--latest", "--in-place"],
        &["view", empty, "--latest", "--port", "0", "--temporary", near],
        &["backup", "list", empty],
        &["backup", "timeline", empty],
        &["backup", "verify", empty],
        &["backup", "show", "7", empty],
        &["backup", "export", empty, &into, "--latest", "--temporary", near],
    ] {
        let (found, output) = code(words);
        assert_eq!(found, Some(1), "{words:?}: {}", said(&output));
        assert!(said(&output).contains("there is no redo log in"), "{}", said(&output));
    }
}

/// A program that reads the report gets one, also when the rehearsal fails.
#[test]
fn a_rehearsal_that_fails_is_told_as_json() {
    let place = tempfile::tempdir().unwrap();
    let mut server = Program::indelible().start(&[]);
    server.connect().words("SET key value");
    server.kill();
    let (directory, near) = (server.directory(), place.path().to_str().unwrap());
    let directory = directory.to_str().unwrap();
    let words = ["backup", "verify", directory, "--restore", "--json", "--temporary"];
    let (found, output) = code(&[&words[..], &[near]].concat());
    assert_eq!((found, json(&output)["restored"]["keys"].as_u64()), (Some(0), Some(1)));
    for more in [&[near, "--at", "99999999"][..], &["/nowhere/at/all"]] {
        let (found, output) = code(&[&words[..], more].concat());
        assert_eq!(found, Some(1), "{}", said(&output));
        let told = json(&output);
        assert_eq!(told["restored"]["failed"], true, "{told}");
        assert!(told["states"].is_array(), "{told}");
    }
}

/// Where a person looks there is a bar; a file gets a line each ten percent.
#[test]
fn how_far_it_is_is_a_bar_on_a_terminal() {
    if let Err(error) = Command::new("script").arg("--version").output() {
        testing::skipped("script", error);
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    for words in ["SET key value", "SET key other"] {
        connection.words(words);
    }
    server.kill();
    let directory = server.directory();
    let into = place.path().join("into");
    for words in [
        format!("restore {} --latest --into {}", directory.display(), into.display()),
        format!("backup list {}", directory.display()),
        format!("backup timeline {}", directory.display()),
        format!("backup verify {}", directory.display()),
        format!("restore {} --at 1 --in-place", directory.display()),
    ] {
        let command = format!("{} {words}", env!("CARGO_BIN_EXE_indelible"));
        // With a terminal of its own.
        let output = Command::new("script").args(["-qec", &command, "/dev/null"]).output().unwrap();
        assert!(output.status.success(), "{words}: {}", said(&output));
        let is_bar = |text: &str| text.contains(" [....") || text.contains(" [####");
        assert!(is_bar(&said(&output)), "{words}: {}", said(&output));
    }
    let output = run(&["backup", "verify", directory.to_str().unwrap()]);
    assert!(said(&output).contains("verifying: 0 %\n"), "{}", said(&output));
}

//! What the command line refuses, and how it says so: the line, what is wrong, exit code 1, nothing touched.

use crate::process::{Program, free_port, wait_for_exit};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// Runs the server with these arguments; it must end by itself.
pub(crate) fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = Program::indelible()
        .command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let code = wait_for_exit(&mut child);
    if code.is_none() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    (code, said(&output))
}

/// A port for a server that must not come to listen on it.
fn port() -> String {
    free_port().to_string()
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn indelible(arguments: &[&str]) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_indelible")).args(arguments).output().unwrap()
}

/// Every file below a directory with its bytes.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// The names below `Commands:` in a help of clap's.
fn commands_of(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty());
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[test]
fn the_help_names_everything_that_the_program_does() {
    let help = said(&indelible(&["--help"]));
    assert!(help.contains("\n  indelible server "), "{help}");
    for group in ["log", "transfer", "tap", "backup"] {
        let own = said(&indelible(&[group, "--help"]));
        let commands = commands_of(&own);
        assert!(commands.len() >= 3, "{own}");
        for command in commands {
            let line = format!("\n  indelible {group} {command}");
            assert!(help.contains(&line), "{group} {command} is missing in {help}");
        }
    }
    assert!(said(&indelible(&["server", "--help"])).contains("indelible --help"));
    for elsewhere in ["bench", "pages"] {
        let output = indelible(&[elsewhere, "--help"]);
        assert!(!output.status.success() && said(&output).contains("unknown command"));
    }
}

#[test]
fn a_bad_line_of_a_file_is_shown_with_its_number() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("redis.conf");
    for (text, number, line) in [
        ("port 0\nbogus-option 5\n", "2", "bogus-option 5"),
        ("# a comment\n\nmaxmemory lots\n", "3", "maxmemory lots"),
        ("appendfsync sometimes\n", "1", "appendfsync sometimes"),
        ("port 0\nport 70000\n", "2", "port 70000"),
        ("timeout\n", "1", "timeout"),
        ("requirepass \"unbalanced\n", "1", "requirepass \"unbalanced"),
    ] {
        std::fs::write(&file, text).unwrap();
        let (code, said) = refused(&[file.to_str().unwrap()]);
        assert_eq!(code, Some(1), "{text}: {said}");
        assert!(said.contains(&format!("line {number}")), "{text}: {said}");
        assert!(said.contains(line), "{text}: {said}");
    }
}

#[test]
fn a_bad_option_is_shown() {
    for (arguments, shown) in [
        (["--bogus-option", "5"], "bogus-option"),
        (["--maxmemory", "lots"], "maxmemory"),
        (["--appendonly", "perhaps"], "appendonly"),
        (["--log-segment-bytes", "1"], "log-segment-bytes"),
    ] {
        let (code, said) = refused(&arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains(shown), "{arguments:?}: {said}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let (code, said) = refused(&["/nowhere/redis.conf"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("/nowhere/redis.conf"), "{said}");
}

#[test]
fn configuration_is_read_from_the_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Program::indelible()
        .command(&["-"])
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"port 0\nnonsense 1\n").unwrap();
    assert_eq!(wait_for_exit(&mut child), Some(1));
    let said = said(&child.wait_with_output().unwrap());
    assert!(said.contains("line 2") && said.contains("nonsense 1"), "{said}");
}

#[test]
fn a_file_and_options_configure_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("redis.conf");
    std::fs::write(&file, "maxmemory-samples 7\nhz 50\nmaxmemory 64mb\n").unwrap();
    let path = file.to_str().unwrap().to_owned();
    // The file comes first on the command line; options override it.
    let server = Program::indelible().with_file(&path).start(&["--hz", "20"]);
    let mut connection = server.connect();
    for (name, value) in [("maxmemory-samples", "7"), ("hz", "20"), ("maxmemory", "67108864")] {
        let reply = connection.words(&format!("CONFIG GET {name}"));
        assert_eq!(reply.elements()[1].text(), value, "{name}");
    }
    assert_eq!(connection.words("CONFIG SET maxmemory-samples 9").text(), "OK");
    assert_eq!(connection.words("CONFIG REWRITE").text(), "OK");
    let rewritten = std::fs::read_to_string(&file).unwrap();
    assert!(rewritten.contains("maxmemory-samples 9"), "{rewritten}");
}

#[test]
fn the_version_is_printed() {
    for arguments in [&["--version"][..], &["server", "--version"]] {
        let output = indelible(arguments);
        assert!(output.status.success());
        assert!(said(&output).contains(env!("CARGO_PKG_VERSION")), "{}", said(&output));
    }
    let output = indelible(&["nonsense"]);
    assert!(!output.status.success());
}

#[test]
fn a_directory_in_use_is_refused_and_stays_in_use() {
    let server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    assert_eq!(connection.words("SET k v").text(), "OK");
    let directory = server.directory();
    let (code, said) = refused(&["--port", &port(), "--dir", directory.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("another process uses this data directory"), "{said}");
    assert_eq!(connection.words("GET k").text(), "v");
    assert_eq!(connection.words("SET k w").text(), "OK");
}

#[test]
fn a_newer_format_is_refused_and_not_touched() {
    let mut server = Program::indelible().start(&[]);
    assert_eq!(server.connect().words("SET k v").text(), "OK");
    server.kill();
    let manifest = server.directory().join("redo.manifest");
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes[8] = 99;
    std::fs::write(&manifest, bytes).unwrap();
    let before = contents(&server.directory());
    let (code, said) = refused(&["--port", &port(), "--dir", server.directory().to_str().unwrap()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("has format 99"), "{said}");
    assert!(contents(&server.directory()) == before, "files were changed");
}

#[test]
fn a_device_of_another_database_is_refused_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let device = directory.path().join("device");
    std::fs::create_dir(&device).unwrap();
    let device = device.to_str().unwrap();
    let mut owner = Program::indelible().start(&["--log-devices", device]);
    assert_eq!(owner.connect().words("SET k v").text(), "OK");
    owner.kill();
    let before = contents(directory.path());
    let other = tempfile::tempdir().unwrap();
    let other = other.path().to_str().unwrap();
    let (code, said) = refused(&["--port", &port(), "--dir", other, "--log-devices", device]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(device), "{said}");
    assert!(contents(directory.path()) == before, "files were changed");
    owner.restart();
    assert_eq!(owner.connect().words("GET k").text(), "v");
}

#[test]
fn a_missing_device_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| directory.path().join(name).display().to_string());
    paths.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let mut server = Program::indelible().start(&["--log-devices", &paths[0], &paths[1]]);
    assert_eq!(server.connect().words("SET k v").text(), "OK");
    server.kill();
    let data = server.directory();
    let (code, said) =
        refused(&["--port", &port(), "--dir", data.to_str().unwrap(), "--log-devices", &paths[0]]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&paths[1]), "{said}");
}

#[test]
fn a_corrupt_record_is_reported_with_file_and_place_and_never_served() {
    let mut server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    for i in 0..100 {
        assert_eq!(connection.words(&format!("SET key{i} {}", "v".repeat(100))).text(), "OK");
    }
    server.kill();
    server.restart();
    server.kill();
    let segment = contents(&server.directory())
        .into_iter()
        .filter(|(_, bytes)| bytes.windows(4).any(|window| window == b"key5"))
        .max_by_key(|(_, bytes)| bytes.len());
    let (path, mut bytes) = segment.expect("the keys are in some file");
    let at = bytes.windows(4).position(|window| window == b"key5").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let before = contents(&server.directory());
    let data = server.directory();
    let socket = data.with_file_name("socket");
    let listening = ["--port", "0", "--unixsocket", socket.to_str().unwrap()];
    let (code, said) = refused(&[&listening[..], &["--dir", data.to_str().unwrap()]].concat());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(path.file_name().unwrap().to_str().unwrap()), "{said}");
    assert!(contents(&server.directory()) == before, "files were changed");
    let output = indelible(&["log", "verify", data.to_str().unwrap()]);
    assert!(!output.status.success(), "verify finds nothing: {}", self::said(&output));
}

#[test]
fn a_data_directory_that_is_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let (code, said) = refused(&["--port", &port(), "--dir", path]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(path), "{said}");
}

#[test]
fn a_directory_without_a_log_is_not_called_good() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("dump.rdb"), "REDIS0011").unwrap();
    let missing = directory.path().join("missing");
    for place in [directory.path(), &missing] {
        for action in ["verify", "dump", "repair"] {
            let output = indelible(&["log", action, place.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(2), "{action}: {}", said(&output));
            assert!(said(&output).contains("there is no redo log in"), "{}", said(&output));
        }
    }
}

#[test]
fn a_log_that_lost_its_manifest_is_not_called_good() {
    let mut server = Program::indelible().start(&[]);
    assert_eq!(server.connect().words("SET a 1").text(), "OK");
    server.terminate();
    server.wait_for_exit();
    let place = server.directory();
    std::fs::remove_file(place.join("redo.manifest")).unwrap();
    for action in ["verify", "repair"] {
        let output = indelible(&["log", action, place.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{action}: {}", said(&output));
        assert!(said(&output).contains("redo.manifest"), "{}", said(&output));
    }
    for (words, code) in [(["backup", "list"], 2), (["backup", "verify"], 2), (["log", "tail"], 2)]
    {
        let output = indelible(&[&words[..], &[place.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", said(&output));
        assert!(said(&output).contains("indelible log repair"), "{}", said(&output));
    }
    let output = indelible(&["log", "repair", "--yes", place.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    server.restart();
    assert_eq!(server.connect().words("GET a").text(), "1");
}

#[test]
fn a_password_in_a_line_that_is_refused_is_not_in_the_log_file() {
    let directory = tempfile::tempdir().unwrap();
    let (log, file) = (directory.path().join("log.txt"), directory.path().join("redis.conf"));
    for line in [
        "user alice on >hunter2 ~* +@nope",
        "user alice #hunter2",
        "requirepass hunter2 b",
        "requirepass \"hunter2",
    ] {
        std::fs::write(&file, format!("logfile {}\n{line}\n", log.display())).unwrap();
        let (code, said) = refused(&[file.to_str().unwrap()]);
        assert_eq!(code, Some(1), "{said}");
        let logged = std::fs::read_to_string(&log).unwrap();
        assert!(logged.contains("line 2"), "{logged}");
        assert!(!logged.contains("hunter2"), "{logged}");
        // A service's messages are kept, too.
        assert!(!line.starts_with("user") || !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_directory_with_the_files_of_redis_is_not_taken_for_an_empty_one() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    std::fs::write(directory.path().join("dump.rdb"), "REDIS0011").unwrap();
    let port = crate::process::free_port().to_string();
    let (code, said) = refused(&["--port", &port, "--dir", place]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("dump.rdb") && said.contains("--ignore-redis-files yes"), "{said}");
    let server = Program::indelible().start_on(directory.path(), &["--ignore-redis-files", "yes"]);
    assert_eq!(server.connect().words("SET a 1").text(), "OK");
    assert_eq!(std::fs::read(directory.path().join("dump.rdb")).unwrap(), b"REDIS0011");
    let nameless = Program::indelible().start(&["--dbfilename", "", "--appendfilename", ""]);
    assert_eq!(nameless.connect().words("SET a 1").text(), "OK", "no name is no file");
}

#[test]
fn what_would_be_unsafe_to_ignore_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let log = directory.path().join("log.txt");
    for (options, reason) in [
        (&["--tls-port", "6390"][..], "No tls-cert-file configured!"),
        (&["--cluster-enabled", "yes"], "cluster mode is not supported yet"),
        (&["--min-replicas-to-write", "1"], "replication is not supported yet"),
        (&["--masterauth", "secret"], "replication is not supported yet"),
        (&[], "nothing to listen on"),
    ] {
        let common = ["--port", "0", "--dir", place, "--logfile", log.to_str().unwrap()];
        let (code, said) = refused(&[&common[..], options].concat());
        assert_eq!(code, Some(1), "{options:?}: {said}");
        assert!(said.contains(reason), "{options:?}: {said}");
        let logged = std::fs::read_to_string(&log).unwrap();
        assert!(logged.contains(reason), "it is in the log file, too: {logged}");
        std::fs::remove_file(&log).unwrap();
    }
}

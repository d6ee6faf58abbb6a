//! Continuous archiving by a real server, and what comes back when nothing else is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use tempfile::TempDir;

use crate::damage::said;
use crate::process::{Program, Server, wait_until};
use crate::rdb_files::{digest_of, fill};
use crate::wire::Connection;

/// Small segments that are compacted soon, and objects every twentieth of a second.
pub(crate) const OPTIONS: [&str; 14] = [
    "--enable-debug-command",
    "yes",
    "--enable-protected-configs",
    "yes",
    "--appendfsync",
    "always",
    "--log-segment-bytes",
    "1mb",
    "--log-compaction-invalid-min",
    "100",
    "--archive-interval-ms",
    "50",
    "--archive-object-bytes",
    "64kb",
];

/// A place for an archive, and its URL.
pub(crate) fn place() -> (TempDir, String) {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("archive");
    std::fs::create_dir(&directory).unwrap();
    let url = format!("file://{}", directory.display());
    (place, url)
}

pub(crate) fn start(url: &str, more: &[&str]) -> Server {
    Program::indelible().start(&[&OPTIONS[..], &["--archive", url], more].concat())
}

pub(crate) fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_indelible")).args(words).output().unwrap()
}

pub(crate) fn restore(url: &str, into: &Path, more: &[&str]) -> Output {
    run(&[&["restore", url, "--into", into.to_str().unwrap()], more].concat())
}

pub(crate) fn info(connection: &mut Connection, field: &str) -> String {
    let text = connection.words("INFO everything").text();
    let prefix = format!("{field}:");
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("{field}: {text}")).trim().to_owned()
}

pub(crate) fn number(connection: &mut Connection, field: &str) -> u64 {
    info(connection, field).parse().unwrap()
}

pub(crate) fn length(connection: &mut Connection) -> u64 {
    connection.words("LLEN order").text().parse().unwrap()
}

/// Waits until all that was answered is archived.
pub(crate) fn catch_up(connection: &mut Connection) -> u64 {
    let durable = number(connection, "redo_durable_lsn");
    wait_until(|| number(connection, "archive_lsn") >= durable);
    durable
}

/// Appends 1, 2, 3 … to a list, among other changes, until told to stop or the server is gone. Returns the last one that was
/// answered.
pub(crate) fn count_up(port: u16, stop: &AtomicBool) -> u64 {
    let mut connection = Connection::open(port).unwrap();
    for next in 1_u64.. {
        let number = next.to_string();
        let key = format!("key:{}", next % 50);
        let filler = "v".repeat(300);
        let is_answered = !stop.load(Ordering::Relaxed)
            && connection.call(&["SET", &key, &filler]).is_ok()
            && connection.call(&["RPUSH", "order", &number]).is_ok();
        if !is_answered {
            return next - 1;
        }
    }
    unreachable!("there is always a next number")
}

/// The list of what is in a directory, which must be 1, 2, 3 … Returns its length.
pub(crate) fn counted_in(directory: &Path) -> u64 {
    let server = Program::indelible().start_on(directory, &OPTIONS);
    let reply = server.connect().words("LRANGE order 0 -1");
    let list = reply.elements();
    for (reply, expected) in list.iter().zip(1_u64..) {
        assert_eq!(reply.text(), expected.to_string(), "in the order in which it was written");
    }
    list.len() as u64
}

#[test]
fn what_was_archived_comes_back_when_the_data_directory_is_gone() {
    for round in 0..3_u64 {
        let (place, url) = place();
        let mut server = start(&url, &[]);
        let mut connection = server.connect();
        fill(&mut connection);
        let (stop, port) = (AtomicBool::new(false), server.port);
        let (answered, archived, lsn) = scope(|scope| {
            let counter = scope.spawn(|| count_up(port, &stop));
            wait_until(|| info(&mut connection, "archive_state") == "streaming");
            wait_until(|| length(&mut connection) > 200 + 150 * round);
            if round == 1 {
                connection.words("BGREWRITEAOF");
            }
            let archived = length(&mut connection);
            let lsn = catch_up(&mut connection);
            server.kill();
            fs::remove_dir_all(server.directory()).unwrap();
            stop.store(true, Ordering::Relaxed);
            (counter.join().unwrap(), archived, lsn)
        });
        let [latest, earlier] = ["latest", "earlier"].map(|name| place.path().join(name));
        let output = restore(&url, &latest, &["--latest"]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("all of them read back"), "{}", said(&output));
        let counted = counted_in(&latest);
        assert!(counted >= archived, "{counted} of {archived} that were archived");
        println!("{} of {answered} were lost", answered.saturating_sub(counted));
        let output = restore(&url, &earlier, &["--at", &lsn.to_string()]);
        assert!(output.status.success(), "{}", said(&output));
        assert!((archived..=counted).contains(&counted_in(&earlier)));
        let output = run(&["backup", "verify", &url]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("all of it is good"), "{}", said(&output));
    }
}

/// The archive goes on where the server before has ended, and an orderly end ships everything.
#[test]
fn a_restart_goes_on_and_a_shutdown_ships_the_rest() {
    let (place, url) = place();
    let mut server = start(&url, &["--archive-interval-ms", "3600000"]);
    let mut connection = server.connect();
    fill(&mut connection);
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    for round in 0..3 {
        assert_eq!(number(&mut connection, "archive_writer"), round + 1);
        connection.words(&format!("SET round {round}"));
        let digest = digest_of(&mut connection);
        connection.send(&["SHUTDOWN"]).unwrap();
        server.wait_for_exit();
        let into = place.path().join(format!("into-{round}"));
        let output = restore(&url, &into, &["--latest"]);
        assert!(output.status.success(), "{}", said(&output));
        let restored = Program::indelible().start_on(&into, &OPTIONS);
        assert_eq!(digest_of(&mut restored.connect()), digest);
        server.restart();
        connection = server.connect();
        wait_until(|| info(&mut connection, "archive_state") == "streaming");
    }
    assert_eq!(number(&mut connection, "archive_bases"), 0, "the first copy is enough");
    assert_eq!(number(&mut connection, "archive_gaps"), 0);
    let timeline = said(&run(&["backup", "timeline", &url]));
    assert!(timeline.contains("each can be restored"), "{timeline}");
    assert!(!timeline.contains("are missing"), "{timeline}");
}

#[test]
fn flushall_is_undone_from_the_archive_after_all_else_is_gone() {
    let (place, url) = place();
    let mut server = start(&url, &[]);
    let mut connection = server.connect();
    fill(&mut connection);
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    let digest = digest_of(&mut connection);
    connection.words("FLUSHALL");
    connection.words("SET later on");
    catch_up(&mut connection);
    server.kill();
    fs::remove_dir_all(server.directory()).unwrap();
    let into = place.path().join("into");
    let dry = restore(&url, &into, &["--before", "flush", "--dry-run"]);
    assert!(dry.status.success() && said(&dry).contains("nothing was made"), "{}", said(&dry));
    assert!(!into.exists());
    let output = restore(&url, &into, &["--before", "flush", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["records"].as_u64() > Some(0) && told["database"].is_string(), "{told}");
    let restored = Program::indelible().start_on(&into, &OPTIONS);
    assert_eq!(digest_of(&mut restored.connect()), digest);
}

/// The server's disks are gone, and its configuration file with them.
#[test]
fn the_configuration_of_then_comes_back_from_the_archive_and_is_not_applied() {
    let (place, url) = place();
    let options = ["--hz", "37", "--archive-compression", "none"];
    let mut server = start(&url, &options);
    let mut connection = server.connect();
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    connection.words("SET before it");
    let before = catch_up(&mut connection).to_string();
    for words in [
        "CONFIG SET maxmemory 123mb",
        "CONFIG SET requirepass hunter2",
        "ACL SETUSER alice on >hunter2 ~a* +get",
    ] {
        assert_eq!(connection.words(words).text(), "OK");
    }
    let has_users =
        |path: &PathBuf| fs::read(path).unwrap().windows(10).any(|it| it == b"user alice");
    wait_until(|| files(&url, "config").iter().any(has_users));
    connection.words("SET after it");
    catch_up(&mut connection);
    server.kill();
    fs::remove_dir_all(server.directory()).unwrap();
    let shown = said(&run(&["backup", "show", &before, &url]));
    assert!(shown.lines().any(|line| line == "hz 37") && !shown.contains("123mb"), "{shown}");
    for (name, point) in [("then", &["--at", &before][..]), ("now", &["--latest"])] {
        let into = place.path().join(name);
        let output = restore(&url, &into, point);
        assert!(output.status.success(), "{}", said(&output));
        let written = fs::read_to_string(into.join("indelible.conf.restored")).unwrap();
        let has = |line: &str| written.lines().any(|it| it == line);
        assert!(has("hz 37") && has(&format!("archive {url}")), "{written}");
        assert_eq!(has("maxmemory 123mb"), name == "now", "{written}");
        assert_eq!(has("# requirepass is set, and left out here"), name == "now", "{written}");
        assert_eq!(
            written.contains("\nuser alice on sanitize-payload #"),
            name == "now",
            "{written}"
        );
        let restored = Program::indelible().start_on(&into, &OPTIONS);
        let hz = restored.connect().words("CONFIG GET hz");
        assert_eq!(hz.elements()[1].text(), "10", "not applied");
    }
    for folder in ["config", "log"] {
        let secret = |path: &PathBuf| fs::read(path).unwrap().windows(7).any(|it| it == b"hunter2");
        assert!(!files(&url, folder).iter().any(secret), "a password in {folder}");
    }
}

#[test]
fn an_archive_that_is_not_there_is_named_once() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("archive");
    for scheme in ["file:", "file://"] {
        let url = format!("{scheme}{}", missing.display());
        for output in
            [run(&["backup", "list", &url]), restore(&url, directory.path(), &["--latest"])]
        {
            assert_eq!(output.status.code(), Some(1));
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains(missing.to_str().unwrap()), "{error}");
            assert_eq!(error.matches("No such file").count(), 1, "{error}");
        }
    }
    let empty = format!("file://{}", directory.path().display());
    let output = run(&["backup", "list", &empty]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("there is no archive of a database there"));
}

#[test]
fn config_set_begins_and_ends_an_archive() {
    let (_place, url) = place();
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    assert_eq!(info(&mut connection, "archive_state"), "off");
    let wrong = ["/backups", "file://backups", "s3://", "s3:///shop", "s3://id:secret@shop"];
    for wrong in wrong.into_iter().chain(["transfer:host/shop", "transfer:host:7420"]) {
        let error = connection.words(&format!("CONFIG SET archive {wrong}")).text();
        assert!(error.contains("empty or a directory: file:///path"), "{error}");
    }
    fill(&mut connection);
    // The same place: RFC 8089 has both.
    let short = url.replace("file:///", "file:/");
    for (writer, place) in (1..).zip([&url, &short, &url]) {
        assert_eq!(connection.words(&format!("CONFIG SET archive {place}")).text(), "OK");
        wait_until(|| info(&mut connection, "archive_state") == "streaming");
        assert_eq!(number(&mut connection, "archive_writer"), writer);
        connection.words(&format!("SET writer {writer}"));
        catch_up(&mut connection);
        assert_eq!(connection.call(&["CONFIG", "SET", "archive", ""]).unwrap().text(), "OK");
        assert_eq!(info(&mut connection, "archive_state"), "off");
    }
    for (keep, reply) in [("24h:all 7d:hour", "OK"), ("24h", "24h:all 7d:hour 30d:day"), ("", "OK")]
    {
        let said = connection.call(&["CONFIG", "SET", "archive-keep", keep]).unwrap().text();
        assert!(said.contains(reply), "{said}");
    }
    let unprotected = Program::indelible().start(&[]);
    let error = unprotected.connect().words(&format!("CONFIG SET archive {url}")).text();
    assert!(error.contains("can't set protected config"), "{error}");
    // Off and on again: what comes is behind what there is.
    connection.words(&format!("CONFIG SET archive {url}"));
    for appendonly in ["no", "yes"] {
        let reply = connection.words(&format!("CONFIG SET appendonly {appendonly}")).text();
        assert_eq!(reply, "OK");
    }
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    connection.words("SET after on");
    catch_up(&mut connection);
}

#[test]
fn a_target_that_is_away_is_told_of_and_holds_nothing_up() {
    let (place, url) = place();
    let blocker = place.path().join("archive");
    fs::remove_dir(&blocker).unwrap();
    fs::write(&blocker, "a file").unwrap();
    let server = start(&url, &[]);
    let mut connection = server.connect();
    wait_until(|| info(&mut connection, "archive_state") == "away");
    let error = info(&mut connection, "archive_last_error");
    assert!(error.contains("cannot list") && error.contains("archive"), "{error}");
    assert_eq!(connection.words("SET served yes").text(), "OK");
    // Unless that is not wanted.
    assert_eq!(connection.words("CONFIG SET archive-required 1").text(), "OK");
    wait_until(|| connection.words("SET refused yes").text().starts_with("MISCONF The archive is"));
    let reply = connection.call(&["EVAL", "return redis.call('SET', 'a', 'b')", "0"]).unwrap();
    assert!(reply.text().contains("MISCONF The archive is"), "{}", reply.text());
    assert_eq!(connection.words("GET served").text(), "yes");
    for _ in 0..5 {
        assert_eq!(connection.words("CONFIG SET archive-required 0").text(), "OK");
        assert_eq!(connection.words("SET served yes").text(), "OK", "the next one is taken");
        assert_eq!(connection.words("CONFIG SET archive-required 1").text(), "OK");
        assert!(connection.words("SET refused yes").is_error(), "the next one is refused");
    }
    fs::remove_file(&blocker).unwrap();
    fs::create_dir(&blocker).unwrap();
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    catch_up(&mut connection);
    wait_until(|| connection.words("SET served again").text() == "OK");
    assert!(server.log().contains("cannot be used"), "{}", server.log());
}

/// All files of an archive's folder, by name; none if it is not there yet.
pub(crate) fn files(url: &str, folder: &str) -> Vec<PathBuf> {
    let root = PathBuf::from(url.strip_prefix("file://").unwrap());
    let database = fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    let Ok(files) = fs::read_dir(database.join(folder)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn damage_is_found_and_never_restored() {
    let (place, url) = place();
    // The first copy has the data.
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    fill(&mut connection);
    assert_eq!(connection.words(&format!("CONFIG SET archive {url}")).text(), "OK");
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    for number in 0..20 {
        connection.words(&format!("SET more {number}"));
        catch_up(&mut connection);
    }
    let last = info(&mut connection, "archive_lsn");
    drop(server);
    let into = place.path().join("into");
    for folder in ["base", "log"] {
        let path = files(&url, folder).remove(0);
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        let at = bad.len() - 3;
        bad[at] ^= 4;
        fs::write(&path, &bad).unwrap();
        let output = run(&["backup", "verify", &url]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("of the archive is damaged at byte"), "{}", said(&output));
        let output = restore(&url, &into, &["--at", &last]);
        assert!(!output.status.success(), "{}", said(&output));
        assert!(!into.join("redo.manifest").exists(), "it must not be startable");
        // The newest state that can be, if there is one, and what it is.
        let output = restore(&url, &into, &["--latest"]);
        let is_there = into.join("redo.manifest").exists();
        match folder {
            "base" => assert!(!output.status.success() && !is_there, "{}", said(&output)),
            _ => {
                assert_eq!(output.status.code(), Some(3), "{}", said(&output));
                assert!(said(&output).contains("NOT THE NEWEST STATE"), "{}", said(&output));
                assert!(
                    said(&output).contains("damaged or not to be read, and gone round: "),
                    "{}",
                    said(&output)
                );
                fs::remove_dir_all(&into).unwrap();
                let output = restore(&url, &into, &["--at", &last]);
                assert!(!output.status.success(), "{}", said(&output));
            }
        }
        fs::write(&path, &good).unwrap();
    }
    let output = restore(&url, &into, &["--latest"]);
    assert!(output.status.success(), "an unfinished restore is begun anew: {}", said(&output));
    // A block that is missing is an error that names the nearest, whatever is behind it.
    let logs = files(&url, "log");
    fs::remove_file(&logs[logs.len() / 2]).unwrap();
    let told = run(&["backup", "timeline", &url, "--json"]);
    let last = number_of(&String::from_utf8(told.stdout).unwrap(), "last_lsn");
    let output = restore(&url, &place.path().join("x"), &["--at", &(last + 1).to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains(&format!("the last that can is {last}")), "{}", said(&output));
    let output = restore(&url, &place.path().join("cut"), &["--latest"]);
    assert_eq!(output.status.code(), Some(3), "what is behind the gap is not in it");
    assert!(said(&output).contains("NOT THE NEWEST STATE"), "{}", said(&output));
    let told_by_all = |what: &str| {
        for command in ["verify", "timeline", "list"] {
            let output = run(&["backup", command, &url]);
            assert_eq!(output.status.code(), Some(3), "{command}: {}", said(&output));
            assert!(said(&output).contains(what), "{command}: {}", said(&output));
        }
    };
    told_by_all(&format!("NOT THE NEWEST STATE: block {last} is the newest"));
    for folder in ["base", "whole"] {
        fs::remove_file(files(&url, folder).remove(0)).unwrap();
        told_by_all("NOTHING CAN BE RESTORED");
    }
    for url in ["file:///nowhere/at/all", "ftp://bucket"] {
        let output = run(&["backup", "list", url]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    }
}

fn number_of(json: &str, field: &str) -> u64 {
    let told: serde_json::Value = serde_json::from_str(json).unwrap();
    told["restorable"].as_array().unwrap().last().unwrap()[field].as_u64().unwrap()
}

/// A key file of a new key.
fn key_file(place: &Path, name: &str) -> String {
    let path = place.join(name);
    let output = run(&["backup", "key"]);
    assert!(output.status.success() && output.stdout.len() == 65, "{}", said(&output));
    fs::write(&path, &output.stdout).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_change_stream_of_an_archive_is_that_of_its_server() {
    let (_place, url) = place();
    let server = start(&url, &[]);
    let mut connection = server.connect();
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    let begun = number(&mut connection, "archive_from_lsn");
    for round in 0..4 {
        for number in 0..200 {
            // A large hash, whose elements are told with their key.
            connection.words(&format!("HSET hash:{round} field:{number} {}", "v".repeat(30)));
        }
        connection.words(&format!("SELECT {round}"));
        connection.words("SET small value EX 1000");
        connection.words("RENAME small other");
        connection.words("SWAPDB 0 3");
        connection.words("SELECT 0");
        connection.words("DEL hash:0");
    }
    let last = catch_up(&mut connection);
    let address = format!("127.0.0.1:{}", server.port);
    let log = info(&mut connection, "redo_log_id");
    for from in [begun + 1, begun + 150, begun + 333, last - 1, last] {
        let from = from.to_string();
        let tail = |source: &str| run(&["log", "tail", source, "--from", &from, "--log", &log]);
        let (of_server, of_archive) = (tail(&address), tail(&url));
        assert!(of_server.status.success() && of_archive.status.success(), "{of_archive:?}");
        assert!(!of_server.stdout.is_empty());
        assert_eq!(of_archive.stdout, of_server.stdout, "from {from} on");
    }
    let behind = (last + 1).to_string();
    let nothing = run(&["log", "tail", &url, "--from", &behind]);
    assert!(nothing.status.success() && nothing.stdout.is_empty(), "{nothing:?}");
    let ahead = run(&["log", "tail", &url, "--from", &(last + 2).to_string()]);
    assert_eq!(ahead.status.code(), Some(1), "{ahead:?}");
    assert!(said(&ahead).contains("ahead of the log"), "{}", said(&ahead));
    let other = run(&["log", "tail", &url, "--from", &behind, "--log", &"0".repeat(32)]);
    assert_eq!((other.status.code(), other.stdout.len()), (Some(3), 0), "{other:?}");
    // What the archive has not from its beginning is refused: not given out in part.
    if begun > 1 {
        let gone = run(&["log", "tail", &url, "--from", "1"]);
        assert_eq!((gone.status.code(), gone.stdout.len()), (Some(3), 0), "{gone:?}");
    }
}

#[test]
fn an_encrypted_archive_is_restored_with_its_key_and_not_without() {
    let (place, url) = place();
    let [key, other] = ["key", "other"].map(|name| key_file(place.path(), name));
    let options = ["--archive-key-file", &key, "--archive-compression", "none"];
    let server = Program::indelible().start(&[&OPTIONS[..], &options].concat());
    let mut connection = server.connect();
    fill(&mut connection);
    let secret = "a secret that repeats, ".repeat(1000);
    connection.call(&["SET", "secret", &secret]).unwrap();
    connection.words(&format!("CONFIG SET archive {url}"));
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    connection.call(&["SET", "behind", &secret]).unwrap();
    catch_up(&mut connection);
    let shown = connection.words("CONFIG GET archive-key-file");
    let shown = shown.elements()[1].text();
    assert_eq!(shown, key, "the file is shown");
    let digits = fs::read_to_string(&key).unwrap();
    assert!(!server.log().contains(digits.trim()), "and the key is not");
    let raw = number(&mut connection, "archive_raw_bytes");
    assert!(number(&mut connection, "archive_bytes") >= raw);
    // From now on compressed, and with another key.
    connection.words("CONFIG SET archive-compression zstd:3");
    let reply = connection.call(&["CONFIG", "SET", "archive-key-file", &format!("{other} {key}")]);
    assert_eq!(reply.unwrap().text(), "OK");
    wait_until(|| number(&mut connection, "archive_writer") == 2);
    connection.call(&["SET", "secret", &secret.to_uppercase()]).unwrap();
    connection.words("BGREWRITEAOF");
    catch_up(&mut connection);
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    assert!(
        number(&mut connection, "archive_bytes") < number(&mut connection, "archive_raw_bytes")
    );
    let digest = digest_of(&mut connection);
    catch_up(&mut connection);
    drop(server);
    for folder in ["base", "log", "whole"] {
        for path in files(&url, folder) {
            let bytes = fs::read(&path).unwrap();
            assert!(
                !bytes.windows(8).any(|part| part.eq_ignore_ascii_case(b"a secret")),
                "{path:?}"
            );
        }
    }
    let into = place.path().join("into");
    for (keys, error) in [
        (&[][..], "and no key was given"),
        (&[&key][..], "which is none of those that were given"),
        (&[&url][..], "cannot be used"),
    ] {
        let keys: Vec<&str> = keys.iter().flat_map(|key| ["--key-file", key]).collect();
        let output = restore(&url, &into, &[&["--latest"], &keys[..]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(error) && !into.exists(), "{}", said(&output));
    }
    let keys = ["--key-file", &key, "--key-file", &other];
    let output = restore(&url, &into, &[&["--latest"], &keys[..]].concat());
    assert!(output.status.success(), "{}", said(&output));
    for command in ["list", "timeline", "verify"] {
        let output = run(&[&["backup", command, &url], &keys[..]].concat());
        assert!(output.status.success(), "{}", said(&output));
        let output = run(&["backup", command, &url]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    }
    let restored = Program::indelible().start_on(&into, &OPTIONS);
    assert_eq!(digest_of(&mut restored.connect()), digest);
}

#[test]
fn a_key_that_cannot_be_used_is_told_of_before_anything_is_written() {
    let (place, url) = place();
    let key = key_file(place.path(), "key");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let server = start(&url, &["--archive-key-file", &key]);
    let mut connection = server.connect();
    wait_until(|| info(&mut connection, "archive_state") == "failed");
    let error = info(&mut connection, "archive_last_error");
    assert!(error.contains("others than its owner may read it"), "{error}");
    assert!(server.log().contains("others than its owner may read it"), "{}", server.log());
    let written = fs::read_dir(url.strip_prefix("file://").unwrap()).unwrap().count();
    assert_eq!((written, connection.words("SET served yes").text()), (0, "OK".to_owned()));
    for (directive, wrong) in [("archive-compression", "zstd:0"), ("archive-compression", "lz4")] {
        let error = connection.words(&format!("CONFIG SET {directive} {wrong}")).text();
        assert!(error.contains("none or zstd:LEVEL"), "{error}");
    }
    let unprotected = Program::indelible().start(&[]);
    let error = unprotected.connect().words(&format!("CONFIG SET archive-key-file {key}")).text();
    assert!(error.contains("can't set protected config"), "{error}");
}

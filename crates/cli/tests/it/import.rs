//! `indelible import`: what Redis has saved, served with the same fingerprint; and what is refused.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::process::{Program, Server, free_port, wait_for_exit, wait_until};
use crate::rdb_files::{OPTIONS, digest_of, fill, text};
use crate::wire::{Connection, encode};

fn command(arguments: &[&str], paths: &[&Path]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("import").args(arguments).args(paths).stdin(Stdio::null());
    command
}

pub(crate) fn import(arguments: &[&str], paths: &[&Path]) -> Output {
    command(arguments, paths).output().unwrap()
}

/// What it printed, if it said that all is well.
pub(crate) fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

pub(crate) fn bad(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// Whether a server on this directory has data with this fingerprint.
pub(crate) fn assert_serves(directory: &Path, digest: &str) {
    let server = Program::indelible().start_on(directory, &["--enable-debug-command", "yes"]);
    assert_eq!(digest_of(&mut server.connect()), digest);
}

/// Commands that are rewritten on their way to an AOF, or are several there.
fn change(connection: &mut Connection) {
    for words in [
        "SELECT 0",
        "SETEX s:ex 1000 v",
        "SET s:px v PX 1000000",
        "SET s:float 1.5",
        "INCRBYFLOAT s:float 2.25",
        "SET s:get v EX 1000",
        "GETEX s:get PERSIST",
        "GETDEL s:px",
        "SET s:keep v EX 1000",
        "SET s:keep w KEEPTTL",
        "SETRANGE s:range 5 abc",
        "SETBIT s:bit 100 1",
        "BITFIELD s:field SET u8 0 200 INCRBY i5 10 1",
        "APPEND s:append abc",
        "MSET m:1 a m:2 b",
        "EXPIRE m:1 1000",
        "PEXPIREAT m:2 1",
        "RPUSH l a b c d",
        "LMOVE l l2 LEFT RIGHT",
        "BLPOP l 1",
        "BRPOPLPUSH l l3 1",
        "LINSERT l BEFORE d x",
        "SADD set a b c d e",
        "SPOP set 2",
        "SMOVE set set2 a",
        "ZADD z 1 a 2 b 3 c",
        "ZINCRBY z 0.1 a",
        "ZPOPMIN z",
        "BZPOPMAX z 1",
        "ZADD z2 1 x 2 y",
        "ZUNIONSTORE z3 2 z z2",
        "ZRANGESTORE z4 z3 0 -1",
        "HSET h a 1 b 2",
        "HINCRBYFLOAT h a 0.5",
        "HDEL h b",
        "COPY h h2",
        "COPY h h3 DB 7",
        "RENAME h2 h4",
        "MOVE h4 9",
        "SORT l3 ALPHA STORE sorted",
        "MULTI",
        "INCR t",
        "SELECT 3",
        "INCR t",
        "LPUSH tl a b",
        "EXEC",
        "SELECT 5",
        "FLUSHDB",
        "SET only this",
        "SWAPDB 5 6",
        "SELECT 0",
        "GEOADD geo 13.36 38.11 Palermo",
        "TTL m:1",
    ] {
        let reply = connection.words(words);
        assert!(!reply.is_error(), "{words}: {reply:?}");
    }
}

/// A Redis that appended to an AOF: filled, rewritten, changed since, and ended.
pub(crate) fn appending(redis: &Program, options: &[&str]) -> (Server, String) {
    let mut server = redis.start(&[&["--appendonly", "yes"], options].concat());
    let mut connection = server.connect();
    fill(&mut connection);
    assert!(!connection.words("BGREWRITEAOF").is_error());
    wait_until(|| {
        let info = connection.words("INFO persistence").text();
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    });
    change(&mut connection);
    let digest = digest_of(&mut connection);
    server.terminate();
    server.wait_for_exit();
    (server, digest)
}

/// A Redis that was filled, and the dump that it has saved.
fn saved_dump(options: &[&str]) -> Option<(Server, PathBuf, String)> {
    let server = Program::redis()?.start(&[&OPTIONS, options].concat());
    let mut connection = server.connect();
    fill(&mut connection);
    let digest = digest_of(&mut connection);
    assert_eq!(connection.words("SAVE").text(), "OK");
    let file = server.directory().join("dump.rdb");
    Some((server, file, digest))
}

#[test]
fn what_redis_saves_is_served_with_the_same_fingerprint() {
    let large = [
        "--hash-max-listpack-entries",
        "1",
        "--zset-max-listpack-entries",
        "1",
        "--set-max-intset-entries",
        "1",
    ];
    for options in [&[][..], &["--rdbcompression", "no", "--rdbchecksum", "no"], &large] {
        let Some((_server, file, digest)) = saved_dump(options) else { return };
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("new/data");
        let bytes = std::fs::read(&file).unwrap();
        let checked = good(&import(&["--check-only"], &[&file]));
        assert!(checked.contains("database 15: ") && checked.ends_with("good\n"), "{checked}");
        assert!(!data.exists());
        let report = good(&import(&[], &[&file, &data]));
        assert!(report.contains("database 0: ") && report.contains(" of log"), "{report}");
        assert_eq!(report.contains("no checksum"), options.contains(&"--rdbchecksum"), "{report}");
        assert_serves(&data, &digest);
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
        // Not into what is there by now.
        assert!(bad(&import(&[], &[&file, &data])).contains("is not empty"));
        assert_serves(&data, &digest);
    }
}

#[test]
fn what_redis_appends_is_served_with_the_same_fingerprint() {
    for options in [
        &["--aof-use-rdb-preamble", "yes"][..],
        &["--aof-use-rdb-preamble", "no"],
        &["--aof-timestamp-enabled", "yes"],
    ] {
        let Some(redis) = Program::redis() else { return };
        let (server, digest) = appending(&redis, &[&OPTIONS, options].concat());
        let source = server.directory().join("appendonlydir");
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        good(&import(&[], &[&source, &data]));
        assert_serves(&data, &digest);
        // The same in one file, as Redis had it before 7.0.
        let mut parts: Vec<PathBuf> =
            std::fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().path()).collect();
        parts.retain(|path| path.extension().is_none_or(|extension| extension != "manifest"));
        parts.sort();
        assert_eq!(parts.len(), 2, "{parts:?}");
        let whole: Vec<u8> = parts.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
        let file = directory.path().join("appendonly.aof");
        std::fs::write(&file, &whole).unwrap();
        let again = directory.path().join("again");
        good(&import(&[], &[&file, &again]));
        assert_serves(&again, &digest);
        // Without its last bytes, of which it says so.
        std::fs::write(&file, &whole[..whole.len() - 3]).unwrap();
        let cut = directory.path().join("cut");
        assert!(good(&import(&[], &[&file, &cut])).contains("bytes from byte"));
        let error =
            bad(&import(&["--aof-load-truncated", "no"], &[&file, &directory.path().join("no")]));
        assert!(error.contains("aof-load-truncated yes"), "{error}");
        assert!(!directory.path().join("no").exists());
    }
}

#[test]
fn what_cannot_be_imported_leaves_nothing() {
    let Some((_server, file, _)) = saved_dump(&[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path("flipped.rdb"), &bytes).unwrap();
    std::fs::write(path("cut.rdb"), &bytes[..middle]).unwrap();
    std::fs::write(path("text"), "no dump").unwrap();
    std::fs::create_dir_all(path("empty")).unwrap();
    for (source, says) in [
        ("flipped.rdb", "is damaged"),
        ("cut.rdb", "is damaged"),
        ("text", "no command begins there"),
        ("empty", "without the manifest"),
        ("missing", "cannot open"),
    ] {
        let error = bad(&import(&[], &[&path(source), &path("data")]));
        assert!(error.contains(says), "{error}");
        assert!(!path("data").exists(), "{source}");
    }
    // One that is noticed only when the keys are there.
    let double = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$4\r\nLPOP\r\n$1\r\na\r\n";
    std::fs::write(path("wrong.aof"), double).unwrap();
    let error = bad(&import(&[], &[&path("wrong.aof"), &path("data")]));
    assert!(error.contains("byte 27: the command LPOP a fails: WRONGTYPE"), "{error}");
    assert!(!path("data").exists());
    std::fs::create_dir_all(path("used/more")).unwrap();
    let error = bad(&import(&[], &[&file, &path("used")]));
    assert!(error.contains("is not empty"), "{error}");
    assert_eq!(std::fs::read_dir(path("used")).unwrap().count(), 1);
    let error = bad(&import(&["--databases", "15"], &[&file, &path("data")]));
    assert!(error.contains("--databases 16"), "{error}");
}

#[test]
fn what_cannot_be_read_twice_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (data, pipe) = (directory.path().join("data"), directory.path().join("pipe.rdb"));
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let socket = directory.path().join("socket");
    let _listening = UnixListener::bind(&socket).unwrap();
    let linked = directory.path().join("linked.aof.manifest");
    std::os::unix::fs::symlink("/dev/zero", &linked).unwrap();
    // Nothing writes into the pipe: to open it would wait for ever.
    for source in [Path::new("/dev/zero"), Path::new("/dev/null"), &pipe, &socket, &linked] {
        for arguments in [&[][..], &["--check-only"]] {
            let error = bad(&import(arguments, &[source, &data]));
            let says = format!("{} is neither a file nor a directory", source.display());
            assert!(error.starts_with(&says) && error.lines().count() == 1, "{error}");
            assert!(!data.exists(), "{source:?}");
        }
    }
    let mut child = command(&[], &[Path::new("/dev/stdin"), &data]);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let error = bad(&child.spawn().unwrap().wait_with_output().unwrap());
    assert!(error.contains("/dev/stdin is neither a file nor a directory"), "{error}");
    // Nor by a start, which would be just as long.
    std::fs::create_dir(&data).unwrap();
    std::fs::rename(&pipe, data.join("dump.rdb")).unwrap();
    let said = not_started(&data, &["--save", "3600 1"]);
    assert!(said.contains("dump.rdb is neither a file nor a directory"), "{said}");
}

/// A string, and below a name for each empty collections as Redis of before 7.0 may have written them.
fn dump_with_empty_keys() -> Vec<u8> {
    let values: [&[u8]; 5] = [
        b"\x01\x01l\0",
        b"\x02\x01s\0",
        b"\x0d\x01h\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff",
        b"\x12\x01q\x01\x02\x07\x07\0\0\0\0\0\xff",
        b"\0\x01a\x01v",
    ];
    [b"REDIS0010\xfe\0", &values.concat()[..], b"\xff", &[0; 8]].concat()
}

#[test]
fn keys_without_elements_are_left_out_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = (directory.path().join("dump.rdb"), directory.path().join("data"));
    std::fs::write(&file, dump_with_empty_keys()).unwrap();
    let counted = "keys without elements, left out: 4";
    let checked = good(&import(&["--check-only"], &[&file]));
    assert!(checked.contains(counted) && checked.contains("database 0: 1 keys"), "{checked}");
    let report = good(&import(&[], &[&file, &data]));
    assert!(report.contains(counted) && report.contains("database 0: 1 keys"), "{report}");
    let server = start_on(&data, &[]);
    assert_eq!(server.connect().words("KEYS *").elements().len(), 1);
    // A start imports it, or loads it into memory, in the same way.
    for options in [&["--save", "3600 1"][..], &["--appendonly", "no", "--save", ""]] {
        let data = tempfile::tempdir().unwrap();
        std::fs::copy(&file, data.path().join("dump.rdb")).unwrap();
        let server = start_on(data.path(), options);
        assert_eq!(server.connect().words("DBSIZE").text(), "1");
        assert!(server.log().contains(counted), "{}", server.log());
    }
}

#[test]
fn fields_that_keep_their_times_are_set() {
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = (directory.path().join("some.aof"), directory.path().join("data"));
    let write = |commands: &[&str]| {
        let encoded = |words: &&str| encode(&words.split(' ').collect::<Vec<_>>());
        std::fs::write(&file, commands.iter().flat_map(encoded).collect::<Vec<u8>>()).unwrap();
    };
    write(&[
        "HSET h a 1 b 2",
        "HSETEX h KEEPTTL FIELDS 2 a 1.5 c 3",
        "hsetex new keepttl fields 1 f v",
    ]);
    good(&import(&[], &[&file, &data]));
    let server = Program::indelible().start_on(&data, &[]);
    let mut connection = server.connect();
    for (words, value) in
        [("HGET h a", "1.5"), ("HGET h c", "3"), ("HLEN h", "3"), ("HGET new f", "v")]
    {
        assert_eq!(connection.words(words).text(), value, "{words}");
    }
    // What no server executes is refused.
    for words in [
        "HSETEX h PXAT 99999999999999 FIELDS 1 a 2",
        "HSETEX h KEEPTTL FIELDS 2 a 2",
        "HSETEX h KEEPTTL FIELDS 0",
        "HSETEX h KEEPTTL FIELDS",
    ] {
        write(&[words]);
        let error =
            bad(&import(&["--import-skip-unknown"], &[&file, &directory.path().join("no")]));
        assert!(error.contains("HSETEX"), "{error}");
    }
}

#[test]
fn what_is_not_served_is_refused_with_its_count_unless_it_may_be_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = (directory.path().join("dump.rdb"), directory.path().join("data"));
    std::fs::write(&file, dump_of_streams(&["a", "b"])).unwrap();
    let error = bad(&import(&[], &[&file, &data]));
    assert!(error.contains("2 keys of type stream"), "{error}");
    assert!(!data.exists());
    let report = good(&import(&["--import-skip-unknown"], &[&file, &data]));
    assert!(report.contains("not served, left out: 2 keys of type stream"), "{report}");
    assert!(report.contains("database 0: 1 keys"), "{report}");
}

/// A dump of Redis 8.6: streams, whose form this program does not have, and the string `a` in database 0.
fn dump_of_streams(keys: &[&str]) -> Vec<u8> {
    let mut dump = b"REDIS0013".to_vec();
    for key in keys {
        dump.extend_from_slice(&[26, u8::try_from(key.len()).unwrap()]);
        dump.extend_from_slice(key.as_bytes());
        // No nodes, no entries, no groups, no producers.
        dump.extend_from_slice(&[0; 15]);
    }
    dump.extend_from_slice(b"\0\x01a\x011\xff\0\0\0\0\0\0\0\0");
    dump
}

#[test]
fn an_import_that_was_killed_is_begun_again() {
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = (directory.path().join("many.aof"), directory.path().join("data"));
    let mut aof = Vec::new();
    for number in 0..200_000 {
        let (key, value) =
            (format!("key:{number}"), format!("value {number} {}", "x".repeat(number % 200)));
        let lengths = (key.len(), value.len());
        aof.extend_from_slice(
            format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n{value}\r\n", lengths.0, lengths.1)
                .as_bytes(),
        );
    }
    std::fs::write(&file, &aof).unwrap();
    let mut interrupted = 0;
    for delay_ms in [50, 100, 200, 400, 800, 1600] {
        let mut child = command(&[], &[&file, &data])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        let _ended = child.kill();
        let _status = child.wait();
        if data.join("redo.manifest").exists() {
            break;
        }
        if data.join("import-tmp").exists() {
            interrupted += 1;
            let said = not_started(&data, &[]);
            assert!(said.contains("an import into"), "{said}");
        }
    }
    if !data.join("redo.manifest").exists() {
        good(&import(&[], &[&file, &data]));
    }
    println!("interrupted {interrupted} times");
    let server = Program::indelible().start_on(&data, &[]);
    let mut connection = server.connect();
    assert_eq!(connection.words("DBSIZE").text(), "200000");
    assert!(connection.words("GET key:123456").text().starts_with("value 123456 x"));
    assert!(!data.join("import-tmp").exists());
}

#[test]
fn a_link_where_imports_are_made_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = (directory.path().join("one.aof"), directory.path().join("data"));
    std::fs::write(&file, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n").unwrap();
    std::fs::create_dir_all(&data).unwrap();
    std::fs::create_dir_all(directory.path().join("other")).unwrap();
    std::os::unix::fs::symlink("../other", data.join("import-tmp")).unwrap();
    let error = bad(&import(&[], &[&file, &data]));
    assert!(error.contains("import-tmp is a symbolic link"), "{error}");
}

/// A start with the options of [`assert_serves`].
fn start_on(directory: &Path, options: &[&str]) -> Server {
    let options = [&["--enable-debug-command", "yes"], options].concat();
    Program::indelible().start_on(directory, &options)
}

/// Why a server does not start on a directory.
fn not_started(directory: &Path, options: &[&str]) -> String {
    let mut command = Program::indelible().command(&["--port", &free_port().to_string(), "--dir"]);
    command.arg(directory).args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let code = wait_for_exit(&mut child);
    let _already_gone = child.kill();
    let output = child.wait_with_output().unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(code, Some(1), "{said}");
    said
}

#[test]
fn a_start_imports_the_dump_that_it_finds() {
    let Some((mut redis, file, digest)) = saved_dump(&[]) else { return };
    redis.kill();
    let (directory, bytes) = (redis.directory(), std::fs::read(&file).unwrap());
    let mut server = start_on(&directory, &[]);
    let mut connection = server.connect();
    assert_eq!(digest_of(&mut connection), digest);
    let log = server.log();
    assert!(log.contains("dump.rdb is there: it is imported"), "{log}");
    assert!(log.contains("Imported: database 0: "), "{log}");
    assert_eq!(connection.words("SET new 1").text(), "OK");
    let digest = digest_of(&mut connection);
    server.kill();
    // From now on the log counts, and a dump that is older than it is not worth a word.
    server.restart();
    assert_eq!(digest_of(&mut server.connect()), digest);
    assert_eq!(server.log().matches("it is imported").count(), 1);
    assert!(!server.log().contains("newer"), "{}", server.log());
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert!(!directory.join("import-tmp").exists());
    // One that is newer is.
    server.kill();
    std::fs::write(&file, &bytes).unwrap();
    server.restart();
    assert!(server.log().contains("dump.rdb is newer than the redo log"), "{}", server.log());
    assert_eq!(digest_of(&mut server.connect()), digest);
}

#[test]
fn a_start_imports_the_aof_that_redis_would_load() {
    let Some(redis) = Program::redis() else { return };
    let (redis, digest) = appending(&redis, &OPTIONS);
    let directory = redis.directory();
    std::fs::write(directory.join("dump.rdb"), "an old dump that no server loads").unwrap();
    // With appendonly no Redis would load the dump.
    let said = not_started(&directory, &["--appendonly", "no", "--save", "3600 1"]);
    assert!(said.contains("dump.rdb") && said.contains("--ignore-redis-files yes"), "{said}");
    // Where nothing says which of them it would load, neither is.
    let said = not_started(&directory, &[]);
    assert!(said.contains("dump.rdb") && said.contains(".aof.manifest"), "{said}");
    let device = directory.join("elsewhere");
    let options = ["--appendonly", "yes", "--log-devices", device.to_str().unwrap()];
    let server = start_on(&directory, &options);
    // The dump was written last.
    assert!(server.log().contains("dump.rdb is NEWER"), "{}", server.log());
    assert_eq!(digest_of(&mut server.connect()), digest);
    assert!(directory.join("elsewhere/device").exists());
}

#[test]
fn a_start_refuses_what_is_not_served_unless_it_may_be_left_out() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().to_owned();
    std::fs::write(directory.join("dump.rdb"), dump_of_streams(&["stream"])).unwrap();
    let said = not_started(&directory, &[]);
    assert!(
        said.contains("1 keys of type stream") && said.contains("import-skip-unknown yes"),
        "{said}"
    );
    assert!(!directory.join("redo.manifest").exists() && !directory.join("import-tmp").exists());
    let server = start_on(&directory, &["--import-skip-unknown", "yes"]);
    assert_eq!(server.connect().words("GET a").text(), "1");
    assert!(
        server.log().contains("not served, left out: 1 keys of type stream"),
        "{}",
        server.log()
    );
    // The next save does not take what was left out with it.
    let bytes = std::fs::read(directory.join("dump.rdb")).unwrap();
    assert_eq!(server.connect().words("SAVE").text(), "OK");
    assert_ne!(std::fs::read(directory.join("dump.rdb")).unwrap(), bytes);
    assert_eq!(std::fs::read(directory.join("dump.rdb.imported")).unwrap(), bytes);
}

#[test]
fn a_start_that_was_killed_while_it_imported_begins_again() {
    let Some(redis) = Program::redis() else { return };
    let mut redis = redis.start(&OPTIONS);
    let mut connection = redis.connect();
    assert!(!connection.words("DEBUG POPULATE 300000 key 100").is_error());
    assert!(!connection.words("SAVE").is_error());
    let digest = digest_of(&mut connection);
    redis.kill();
    let directory = redis.directory();
    let mut interrupted = 0;
    for delay_ms in [50, 100, 200, 300, 400, 500, 600, 800, 1000] {
        let mut command =
            Program::indelible().command(&["--port", &free_port().to_string(), "--dir"]);
        let mut child =
            command.arg(&directory).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        let _ended = child.kill();
        let _status = child.wait();
        interrupted += u32::from(directory.join("import-tmp").exists());
        if directory.join("redo.manifest").exists() {
            break;
        }
    }
    println!("interrupted {interrupted} times");
    let server = start_on(&directory, &[]);
    assert_eq!(digest_of(&mut server.connect()), digest);
    assert!(!directory.join("import-tmp").exists());
}

//! The change stream: a consumer that dies again and again, next to a server that does, has the same data at the end.
//!
//! The consumer keeps what it was told by the last block that it has seen as a whole, as a program would that writes
//! both into one transaction; what a reply has behind that is forgotten with it.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::change_consumer::{Bytes, Consumer, Content, Seen};
use crate::kill::Random;
use crate::process::{Program, Server, wait_until};
use crate::wire::{Connection, Reply};

/// Nothing is compacted unless it is asked for: then every block is whole.
const OPTIONS: [&str; 6] =
    ["--enable-debug-command", "yes", "--appendfsync", "always", "--log-compaction", "no"];

/// How often the server and the consumer die.
const ROUNDS: usize = 12;

const KEYS: u64 = 12;

fn call(connection: &mut Connection, arguments: &[&[u8]]) -> std::io::Result<Reply> {
    connection.call(arguments)
}

/// One random command; of large and small values of every type, on few keys.
fn command(random: &mut Random) -> Vec<Bytes> {
    let key = |random: &mut Random| format!("key \u{fc} {}", random.below(KEYS)).into_bytes();
    let word = |text: &str| text.as_bytes().to_vec();
    // Some are no text.
    let name = |random: &mut Random| match random.below(9) {
        0 => vec![0xff, 0, u8::try_from(random.below(200)).unwrap()],
        _ => format!("name {}", random.below(300)).into_bytes(),
    };
    let many = |verb: &str, width: usize, random: &mut Random| {
        let mut words = vec![word(verb), key(random)];
        for _ in 0..=random.below(80) {
            if verb == "ZADD" {
                words.push(format!("{}.5", random.below(1000)).into_bytes());
            }
            words.push(name(random));
            if width == 2 && verb != "ZADD" {
                words.push(vec![b'v'; usize::try_from(random.below(60)).unwrap()]);
            }
        }
        words
    };
    // Keys of their own: others would have no time to grow.
    let stream = |random: &mut Random| format!("stream {}", random.below(3)).into_bytes();
    let group = |random: &mut Random| format!("group {}", random.below(3)).into_bytes();
    let consumer = |random: &mut Random| format!("consumer {}", random.below(3)).into_bytes();
    let entry =
        |random: &mut Random| format!("{}-{}", random.below(400), random.below(3)).into_bytes();
    match random.below(42) {
        30..34 => {
            let mut words =
                vec![word("XADD"), stream(random), word("*"), word("field"), name(random)];
            if random.below(3) == 0 {
                words.splice(2..2, [word("MAXLEN"), word("~"), word("150")]);
            }
            if random.below(4) == 0 {
                // Ids that XDEL, XACK and XCLAIM find.
                words = vec![word("XADD"), stream(random), entry(random), word("f"), word("v")];
            }
            words
        }
        34 => vec![word("XDEL"), stream(random), entry(random), entry(random)],
        35 => {
            let at = word(if random.below(2) == 0 { "0" } else { "$" });
            vec![
                word("XGROUP"),
                word("CREATE"),
                stream(random),
                group(random),
                at,
                word("MKSTREAM"),
            ]
        }
        36 => match random.below(4) {
            0 => vec![word("XGROUP"), word("DESTROY"), stream(random), group(random)],
            1 => vec![
                word("XGROUP"),
                word("DELCONSUMER"),
                stream(random),
                group(random),
                consumer(random),
            ],
            2 => vec![word("XTRIM"), stream(random), word("MAXLEN"), word("20")],
            _ => vec![word("DEL"), stream(random)],
        },
        37..40 => {
            let count = (1 + random.below(9)).to_string().into_bytes();
            let words = [word("XREADGROUP"), word("GROUP"), group(random), consumer(random)];
            let rest = [word("COUNT"), count, word("STREAMS"), stream(random), word(">")];
            words.into_iter().chain(rest).collect()
        }
        40 => vec![word("XACK"), stream(random), group(random), entry(random), entry(random)],
        41 => {
            let words =
                [word("XCLAIM"), stream(random), group(random), consumer(random), word("0")];
            words.into_iter().chain([entry(random), entry(random), word("FORCE")]).collect()
        }
        0..4 => {
            let len = if random.below(3) == 0 { 9000 } else { 20 };
            vec![word("SET"), key(random), vec![b'x'; len]]
        }
        4 => vec![word("APPEND"), key(random), vec![b'y'; 5000]],
        5 => vec![word("SETRANGE"), key(random), word("7000"), word("zz")],
        6..10 => many("HSET", 2, random),
        10 => many("HDEL", 1, random),
        11..13 => many("SADD", 1, random),
        13 => many("SREM", 1, random),
        14..16 => many("ZADD", 2, random),
        16 => many("ZREM", 1, random),
        17..19 => many("RPUSH", 1, random),
        19 => many("LPUSH", 1, random),
        20 => {
            let at = name(random);
            vec![word("LINSERT"), key(random), word("BEFORE"), at, word("new")]
        }
        21 => vec![word("LTRIM"), key(random), word("3"), word("-4")],
        22 => vec![word("PEXPIREAT"), key(random), word("4000000000000")],
        23 => vec![word("PEXPIRE"), key(random), word("30")],
        24 => vec![word("PERSIST"), key(random)],
        25 => vec![word("DEL"), key(random)],
        26 => vec![word("RENAME"), key(random), key(random)],
        27 => vec![word("COPY"), key(random), key(random), word("DB"), word("1"), word("REPLACE")],
        28 => vec![word("MOVE"), key(random), word("2")],
        _ => match random.below(12) {
            0 => vec![word("FLUSHALL")],
            1 => vec![word("FLUSHDB")],
            2..5 => vec![word("SWAPDB"), word("0"), word("1")],
            _ => vec![word("SELECT"), random.below(3).to_string().into_bytes()],
        },
    }
}

/// Writes until the server is gone.
fn write(mut connection: Connection, seed: u64) {
    let mut random = Random(seed);
    let in_transaction = |random: &mut Random| random.below(6) == 0;
    loop {
        let count = if in_transaction(&mut random) { 2 + random.below(5) } else { 0 };
        let mut commands = Vec::new();
        if count > 0 {
            commands.push(vec![b"MULTI".to_vec()]);
        }
        (0..count.max(1)).for_each(|_| commands.push(command(&mut random)));
        if count > 0 {
            commands.push(vec![b"EXEC".to_vec()]);
        }
        for words in &commands {
            if connection.call(words).is_err() {
                return;
            }
        }
    }
}

/// Follows until told to stop, or the server is gone. What was not seen as a whole is forgotten.
fn follow(mut connection: Connection, consumer: &mut Consumer, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let after = consumer.last.to_string();
        let words = ["LOGTAIL", &after, "COUNT", "7", "BLOCK", "20"];
        let Ok(reply) = connection.call(&words) else { return };
        assert!(!reply.is_error(), "{reply:?}");
        let [last, blocks] = reply.elements() else { panic!("{reply:?}") };
        for block in blocks.elements() {
            consumer.take(&block.text());
            if stop.load(Ordering::Relaxed) {
                // It dies in the middle of a reply.
                return;
            }
        }
        assert_eq!(last.text(), consumer.last.to_string());
    }
}

/// The same by the program, which is killed after a while. A line that is whole is a whole block.
fn follow_by_program(server: &Server, consumer: &mut Consumer, pause: Duration) {
    let mut lines = tempfile::tempfile().unwrap();
    let (address, from) = (format!("127.0.0.1:{}", server.port), (consumer.last + 1).to_string());
    let mut command = tail_command(&address, &["--from", &from, "--follow"]);
    let follower = Follower(command.stdout(lines.try_clone().unwrap()).spawn().unwrap());
    std::thread::sleep(pause);
    drop(follower);
    let mut text = Vec::new();
    lines.seek(SeekFrom::Start(0)).unwrap();
    lines.read_to_end(&mut text).unwrap();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    String::from_utf8(text[..whole].to_vec()).unwrap().lines().for_each(|line| consumer.take(line));
}

/// Everything that a server has, by asking it.
fn ask(connection: &mut Connection) -> BTreeMap<(u64, Bytes), Seen> {
    let mut all = BTreeMap::new();
    for database in 0..16u64 {
        connection.words(&format!("SELECT {database}"));
        for key in connection.words("KEYS *").elements() {
            let Reply::Blob(_, key) = key else { panic!("{key:?}") };
            let mut ask = |words: &[&[u8]]| call(connection, words).unwrap();
            let value_type = ask(&[b"TYPE", key]).text();
            let blobs = |reply: Reply| -> Vec<Bytes> {
                let blob = |reply: &Reply| match reply {
                    Reply::Blob(_, bytes) => bytes.clone(),
                    other => panic!("{other:?}"),
                };
                reply.elements().iter().map(blob).collect()
            };
            let pairs = |list: Vec<Bytes>, value: fn(&[u8]) -> Bytes| {
                list.chunks(2).map(|pair| (pair[0].clone(), value(&pair[1]))).collect()
            };
            let bits = |text: &[u8]| {
                let score: f64 = std::str::from_utf8(text).unwrap().parse().unwrap();
                score.to_bits().to_le_bytes().to_vec()
            };
            let content = match value_type.as_str() {
                "string" => match ask(&[b"GET", key]) {
                    Reply::Blob(_, bytes) => Content::String(bytes),
                    // It has expired meanwhile.
                    _ => continue,
                },
                "list" => Content::List(blobs(ask(&[b"LRANGE", key, b"0", b"-1"]))),
                "hash" => Content::Pairs(pairs(blobs(ask(&[b"HGETALL", key])), <[u8]>::to_vec)),
                "set" => {
                    let members = blobs(ask(&[b"SMEMBERS", key])).into_iter();
                    Content::Pairs(members.map(|member| (member, Vec::new())).collect())
                }
                "zset" => {
                    let members = blobs(ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]));
                    Content::Pairs(pairs(members, bits))
                }
                "stream" => {
                    let about = ask(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]);
                    Content::Pairs(lines_of_stream(&about))
                }
                other => panic!("{other}"),
            };
            let expires_at_ms = ask(&[b"PEXPIRETIME", key]).text().parse().unwrap();
            let expires_at_ms = Some(expires_at_ms).filter(|at: &i64| *at > 0);
            let seen = Seen { value_type, expires_at_ms, content };
            all.insert((database, key.clone()), seen);
        }
    }
    all
}

/// What XINFO STREAM FULL says, as [`Content`] has it.
fn lines_of_stream(about: &Reply) -> BTreeMap<Bytes, Bytes> {
    let of = |about: &Reply, field: &str| -> Reply {
        let found = about.elements().chunks(2).find(|pair| pair[0].text() == field);
        found.unwrap_or_else(|| panic!("{field}: {about:?}"))[1].clone()
    };
    let mut lines = BTreeMap::new();
    let mut put =
        |name: String, value: String| _ = lines.insert(name.into_bytes(), value.into_bytes());
    let text = |about: &Reply, field: &str| of(about, field).text();
    put(
        "last".to_owned(),
        format!("{} {}", text(about, "last-generated-id"), text(about, "entries-added")),
    );
    for entry in of(about, "entries").elements() {
        let [id, fields] = entry.elements() else { panic!("{entry:?}") };
        let shown = fields.elements().iter().map(|it| match it {
            Reply::Blob(_, bytes) => bytes.escape_ascii().to_string(),
            other => panic!("{other:?}"),
        });
        put(format!("entry {}", id.text()), shown.collect::<Vec<_>>().join(" "));
    }
    for group in of(about, "groups").elements() {
        let name = text(group, "name");
        let read = match of(group, "entries-read") {
            Reply::Line(_, count) => String::from_utf8(count).unwrap(),
            _ => "null".to_owned(),
        };
        put(format!("group {name}"), format!("{} {read}", text(group, "last-delivered-id")));
        for pending in of(group, "pending").elements() {
            let [id, consumer, _, count] = pending.elements() else { panic!("{pending:?}") };
            let value = format!("{} {}", consumer.text(), count.text());
            put(format!("pending {name} {}", id.text()), value);
        }
        for consumer in of(group, "consumers").elements() {
            put(format!("consumer {name} {}", text(consumer, "name")), String::new());
        }
    }
    lines
}

fn info(connection: &mut Connection, field: &str) -> u64 {
    let text = connection.words("INFO everything").text();
    let prefix = format!("{field}:");
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("{field}: {text}")).trim().parse().unwrap()
}

/// Waits until what expires soon has, and is deleted; and until all is durable.
fn settle(server: &Server) {
    let mut connection = server.connect();
    std::thread::sleep(Duration::from_millis(60));
    wait_until(|| {
        (0..16).all(|database| {
            connection.words(&format!("SELECT {database}"));
            // What has expired and is not deleted is counted, and not shown.
            let shown = connection.words("KEYS *").elements().len();
            connection.words("DBSIZE").text() == shown.to_string()
        })
    });
    wait_until(|| {
        let open = info(&mut connection, "redo_open_lsn");
        open == info(&mut connection, "redo_durable_lsn") + 1
    });
}

/// Follows to the end of the log.
fn catch_up(server: &Server, consumer: &mut Consumer) {
    let mut connection = server.connect();
    let end = info(&mut connection, "redo_durable_lsn");
    while consumer.last < end {
        let after = consumer.last.to_string();
        let reply = connection.words(&format!("LOGTAIL {after} COUNT 1000"));
        assert!(!reply.is_error(), "{reply:?}");
        reply.elements()[1].elements().iter().for_each(|block| consumer.take(&block.text()));
    }
}

#[test]
fn a_consumer_that_dies_next_to_a_server_that_dies_has_the_same_data() {
    let mut random = Random::from_environment();
    let mut server = Program::indelible().start(&OPTIONS);
    let mut consumer = Consumer::default();
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (connection, seed) = (server.connect(), random.below(u64::MAX) + writer);
                scope.spawn(move || write(connection, seed));
            }
            for _ in 0..4 {
                let pause = Duration::from_millis(random.below(150));
                if random.below(2) == 0 {
                    follow_by_program(&server, &mut consumer, pause);
                    continue;
                }
                let (connection, stop) = (server.connect(), AtomicBool::new(false));
                std::thread::scope(|inner| {
                    inner.spawn(|| follow(connection, &mut consumer, &stop));
                    std::thread::sleep(pause);
                    stop.store(true, Ordering::Relaxed);
                });
            }
            server.kill();
        });
        server.restart();
        if round % 3 == 2 {
            settle(&server);
            catch_up(&server, &mut consumer);
            assert_eq!(consumer.seen(), ask(&mut server.connect()), "round {round}");
        }
    }
    assert!(consumer.changes > 1000, "{} changes", consumer.changes);
    // What it says of streams was compared; a server is not made of it.
    let mut connection = server.connect();
    for database in 0..16 {
        connection.words(&format!("SELECT {database}"));
        (0..3).for_each(|number| _ = connection.call(&["DEL", &format!("stream {number}")]));
    }
    settle(&server);
    catch_up(&server, &mut consumer);
    rebuild(&server, &consumer);
    // The directory says the same as the server.
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    let output = tail(&server.directory().display().to_string(), &[]);
    assert!(output.status.success(), "{output:?}");
    let mut other = Consumer::default();
    String::from_utf8(output.stdout).unwrap().lines().for_each(|line| other.take(line));
    assert_eq!((other.last, other.seen()), (consumer.last, consumer.seen()));
}

/// Gives what the consumer has to another server, which is then equal.
fn rebuild(server: &Server, consumer: &Consumer) {
    let other = Program::indelible().start(&OPTIONS);
    let mut connection = other.connect();
    for ((database, key), Seen { value_type, expires_at_ms, content }) in consumer.seen() {
        connection.words(&format!("SELECT {database}"));
        let mut words: Vec<Bytes> = match value_type.as_str() {
            "string" => vec![b"SET".to_vec()],
            "list" => vec![b"RPUSH".to_vec()],
            "hash" => vec![b"HSET".to_vec()],
            "set" => vec![b"SADD".to_vec()],
            _ => vec![b"ZADD".to_vec()],
        };
        words.push(key.clone());
        match content {
            Content::String(bytes) => words.push(bytes),
            Content::List(items) => words.extend(items),
            Content::Pairs(pairs) => {
                for (name, value) in pairs {
                    match value_type.as_str() {
                        "hash" => words.extend([name, value]),
                        "set" => words.push(name),
                        _ => {
                            let bits = u64::from_le_bytes(value.try_into().unwrap());
                            words.extend([f64::from_bits(bits).to_string().into_bytes(), name]);
                        }
                    }
                }
            }
        }
        assert!(!connection.call(&words).unwrap().is_error());
        if let Some(at) = expires_at_ms {
            let at = at.to_string();
            call(&mut connection, &[b"PEXPIREAT", &key, at.as_bytes()]).unwrap();
        }
    }
    let digest = |server: &Server| server.connect().words("DEBUG DIGEST").text();
    assert_eq!(digest(&other), digest(server));
}

fn tail_command(source: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(["log", "tail", source, "--json"]).args(more).stdin(Stdio::null());
    command
}

fn tail(source: &str, more: &[&str]) -> Output {
    tail_command(source, more).output().unwrap()
}

fn lsns(output: &[u8]) -> Vec<u64> {
    let text = std::str::from_utf8(output).unwrap();
    let lsn = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["lsn"].as_u64();
    text.lines().map(|line| lsn(line).unwrap()).collect()
}

#[test]
fn a_branch_is_not_taken_for_the_log_that_it_was_made_of() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    for number in 0..10 {
        connection.words(&format!("SET key {number}"));
    }
    let text = connection.words("INFO redo").text();
    let log = text.lines().find_map(|line| line.strip_prefix("redo_log_id:")).unwrap().to_owned();
    let address = format!("127.0.0.1:{}", server.port);
    let output = tail(&address, &["--log", &log]);
    let line = String::from_utf8(output.stdout).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap()["log"], log.as_str());
    let elsewhere = tempfile::tempdir().unwrap();
    let branch = elsewhere.path().join("branch");
    let mut restore = Command::new(env!("CARGO_BIN_EXE_indelible"));
    restore.arg("restore").arg(server.directory()).args(["--at", "5", "--into"]).arg(&branch);
    assert!(restore.output().unwrap().status.success());
    // The same number of blocks, others.
    let other = Program::indelible().start_on(&branch, &OPTIONS);
    let mut of_branch = other.connect();
    for number in 0..10 {
        of_branch.words(&format!("SET branch {number}"));
    }
    let refused = of_branch.words(&format!("LOGTAIL 8 LOG {log}")).text();
    assert!(refused.starts_with("LOGGONE block 8 of log"), "{refused}");
    let address = format!("127.0.0.1:{}", other.port);
    let refused = tail(&address, &["--from", "9", "--log", &log]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(3), 0), "{refused:?}");
    // Also where the number, or the end, is behind all that there is.
    for from in ["16", "now"] {
        let refused = tail(&address, &["--from", from, "--log", &log]);
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(3), 0), "{refused:?}");
    }
    let ahead = tail(&address, &["--from", "500"]);
    assert_eq!(ahead.status.code(), Some(1), "{ahead:?}");
    assert!(String::from_utf8_lossy(&ahead.stderr).contains("ahead of the log"), "{ahead:?}");
    assert!(tail(&address, &["--from", "now"]).status.success());
    // What both have may be followed by what this one has.
    let shared = tail(&address, &["--from", "6", "--log", &log]);
    assert!(shared.status.success(), "{shared:?}");
    assert_eq!(lsns(&shared.stdout), (6..=15).collect::<Vec<_>>());
    let bad = of_branch.words("LOGTAIL 8 LOG x").text();
    assert!(bad.contains("32 hexadecimal digits"), "{bad}");
    drop(other);
    let place = branch.display().to_string();
    let refused = tail(&place, &["--from", "9", "--log", &log]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(3), 0), "{refused:?}");
}

/// Kills it at the end of the test.
struct Follower(Child);

impl Drop for Follower {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_waited_for = self.0.wait();
    }
}

#[test]
fn the_program_follows_a_server() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    for number in 0..10 {
        connection.words(&format!("SET key {number}"));
    }
    let address = format!("127.0.0.1:{}", server.port);
    let output = tail(&address, &["--from", "4"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(lsns(&output.stdout), [4, 5, 6, 7, 8, 9, 10]);
    assert!(tail(&address, &["--from", "now"]).stdout.is_empty());
    let directory = server.directory().display().to_string();
    let output = tail(&directory, &[]);
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("give its HOST:PORT") && output.status.code() == Some(1), "{why}");
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("lines");
    let file = std::fs::File::create(&path).unwrap();
    let mut command = tail_command(&address, &["--from", "now", "--follow"]);
    let mut follower = Follower(command.stdout(file).spawn().unwrap());
    wait_until(|| info(&mut connection, "logtail_waiting") == 1);
    connection.words("SET key 11");
    connection.words("SET key 12");
    let read = |path: &Path| std::fs::read(path).unwrap();
    wait_until(|| read(&path).iter().filter(|byte| **byte == b'\n').count() == 2);
    assert_eq!(lsns(&read(&path)), [11, 12]);
    assert_eq!(info(&mut connection, "logtail_lag_blocks"), 0);
    drop(server);
    assert_eq!(follower.0.wait().unwrap().code(), Some(1), "the server is gone");
}

#[test]
fn a_block_that_is_gone_is_an_error_with_the_nearest() {
    let small = ["--log-segment-bytes", "1mb", "--log-history-seconds", "0"];
    let mut server = Program::indelible().start(&[&OPTIONS[..], &small].concat());
    let mut connection = server.connect();
    let value = "v".repeat(2000);
    for number in 0..2000 {
        connection.words(&format!("SET key:{} {value}", number % 10));
    }
    connection.words("BGREWRITEAOF");
    wait_until(|| info(&mut connection, "aof_rewrite_in_progress") == 0);
    assert!(info(&mut connection, "redo_compactions") > 0);
    connection.words("SET last 1");
    let gone = connection.words("LOGTAIL 5").text();
    assert!(gone.starts_with("LOGGONE block 6 is gone"), "{gone}");
    let nearest = gone.split("the blocks from ").nth(1).unwrap().split(' ').next().unwrap();
    let nearest: u64 = nearest.parse().unwrap();
    let end = info(&mut connection, "redo_durable_lsn");
    assert!((7..=end).contains(&nearest), "{gone}");
    let reply = connection.words(&format!("LOGTAIL {}", nearest - 1));
    assert!(!reply.is_error(), "{reply:?}");
    let count = u64::try_from(reply.elements()[1].elements().len()).unwrap();
    assert_eq!(count, (end + 1 - nearest).min(100));
    let refused = connection.words(&format!("LOGTAIL {}", nearest - 2)).text();
    assert!(refused.starts_with("LOGGONE"), "it is the nearest: {refused}");
    let address = format!("127.0.0.1:{}", server.port);
    let output = tail(&address, &["--from", "6"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{output:?}");
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    let directory = server.directory().display().to_string();
    let output = tail(&directory, &["--from", "6"]);
    let why = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{why}");
    assert!(why.contains(&format!("the blocks from {nearest} on are whole")), "{why}");
    let output = tail(&directory, &["--from", &nearest.to_string()]);
    assert_eq!(lsns(&output.stdout).first(), Some(&nearest));
}

#[test]
fn what_was_compacted_is_followed_for_as_long_as_history_has_it() {
    let small = ["--log-segment-bytes", "1mb", "--log-compaction-invalid-min", "100"];
    let mut server = Program::indelible().start(&[&OPTIONS[..], &small].concat());
    let mut connection = server.connect();
    let value = "v".repeat(2000);
    for round in 0..4 {
        for number in 0..600 {
            connection.words(&format!("SET key:{} {round}-{number}-{value}", number % 10));
            connection.words(&format!("HSET large:{round} {number} {value}"));
        }
        let flush = ["DEL large:0 large:1", "SWAPDB 0 1", "FLUSHDB", "SWAPDB 0 1"][round];
        // Its first note begins a segment, and is alone in it.
        connection.words(flush);
        connection.words("BGREWRITEAOF");
        wait_until(|| info(&mut connection, "aof_rewrite_in_progress") == 0);
    }
    settle(&server);
    assert!(info(&mut connection, "redo_compactions") > 3);
    let end = info(&mut connection, "redo_durable_lsn");
    let mut consumer = Consumer::default();
    catch_up(&server, &mut consumer);
    assert_eq!((consumer.last, consumer.seen()), (end, ask(&mut connection)));
    // Each position is one to begin at.
    let reply = connection.words("LOGTAIL 1700 COUNT 3");
    let lines: Vec<String> = reply.elements()[1].elements().iter().map(Reply::text).collect();
    assert_eq!(lsns(lines.join("\n").as_bytes()), [1701, 1702, 1703]);
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    let output = tail(&server.directory().display().to_string(), &["--from", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut other = Consumer::default();
    text.lines().for_each(|line| other.take(line));
    assert_eq!((other.last, other.seen()), (consumer.last, consumer.seen()));
    // The last blocks, too, of which the files are in history alone.
    let directory = server.directory().display().to_string();
    for from in end - 3..=end {
        let output = tail(&directory, &["--from", &from.to_string()]);
        assert_eq!(lsns(&output.stdout), (from..=end).collect::<Vec<_>>());
    }
    assert!(
        lines.iter().all(|line| text.contains(line.as_str())),
        "it is the same that a server says"
    );
}

#[test]
fn starts_and_ends_without_a_write_break_no_stream() {
    let mut server = Program::indelible().start(&["--enable-debug-command", "yes"]);
    server.connect().words("SET before 1");
    for _ in 0..4 {
        // A file with the note of a SHUTDOWN and nothing else.
        let _closes_without_a_reply = server.connect().call(&["SHUTDOWN"]);
        assert_eq!(server.wait_for_exit(), Some(0));
        server.restart();
        let mut connection = server.connect();
        connection.words("BGREWRITEAOF");
        wait_until(|| info(&mut connection, "aof_rewrite_in_progress") == 0);
    }
    server.connect().words("SET behind 1");
    settle(&server);
    let end = info(&mut server.connect(), "redo_durable_lsn");
    let output = tail(&format!("127.0.0.1:{}", server.port), &["--from", "1"]);
    let why = String::from_utf8(output.stderr).unwrap();
    assert_eq!((lsns(&output.stdout), why.as_str()), ((1..=end).collect(), ""));
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    let output = tail(&server.directory().display().to_string(), &["--from", "1"]);
    let found = lsns(&output.stdout);
    assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
    assert!(found.len() as u64 >= end);
}

#[test]
fn a_block_of_which_nothing_says_what_its_databases_are_is_gone() {
    let small = ["--log-segment-bytes", "1mb", "--log-compaction-invalid-min", "100"];
    let options = [&OPTIONS[..], &small, &["--log-history-seconds", "0"]].concat();
    let server = Program::indelible().start(&options);
    let mut connection = server.connect();
    let value = "v".repeat(2000);
    for number in 0..2000 {
        connection.words(&format!("SET key:{} {value}", number % 10));
    }
    // Behind every segment that is sealed.
    let position = info(&mut connection, "redo_durable_lsn");
    connection.words("SET before 1");
    connection.words("SWAPDB 0 1");
    connection.words("SET behind 1");
    let reply = connection.words(&format!("LOGTAIL {position} COUNT 1"));
    assert!(
        reply.elements()[1].elements()[0].text().contains(r#""db":0,"db_id":0,"key":"before""#)
    );
    assert_eq!(connection.words("CONFIG SET log-compaction yes").text(), "OK");
    wait_until(|| info(&mut connection, "redo_compactions") > 0);
    // That is where the server still is. Before it, a record of the databases may have been dropped.
    let next = position + 1;
    assert!(!connection.words(&format!("LOGTAIL {next} COUNT 1")).is_error());
    let gone = connection.words(&format!("LOGTAIL {}", position - 1)).text();
    assert!(gone.starts_with(&format!("LOGGONE block {position} is gone")), "{gone}");
    let nearest = gone.split("the blocks from ").nth(1).unwrap().split(' ').next().unwrap();
    let reply = connection.words(&format!("LOGTAIL {}", nearest.parse::<u64>().unwrap() - 1));
    assert!(!reply.is_error(), "{reply:?}");
}

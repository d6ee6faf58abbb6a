//! Streams on their way between servers: dumps, AOFs, payloads, exports, in both directions, and through every way to
//! write a dump.

use std::path::Path;
use std::process::Command;

use crate::export::seen_over_a_crash_and_exported;
use crate::import::{good, import};
use crate::instant_start::info;
use crate::log_index::wait_for_a_cut;
use crate::log_switch::wait_until_on;
use crate::peers;
use crate::process::{Program, Server, wait_until};
use crate::rdb_files::digest_of;
use crate::wire::{Connection, Reply};

const OPTIONS: [&str; 2] = ["--enable-debug-command", "yes"];

/// Makes streams of every kind.
fn fill(connection: &mut Connection) {
    let mut words = |words: &str| {
        let reply = connection.words(words);
        assert!(!reply.is_error(), "{words}: {}", reply.text());
    };
    for number in 1..=1500 {
        words(&format!("XADD many {number}-{} name value:{number} count {number}", number % 3));
        words(&format!("XADD shapes 7-{number} field{} {}", number % 5, number * 1_000_003));
    }
    words("XADD long 1-1 f short");
    let long = "x".repeat(20_000);
    words(&format!("XADD long 1-2 f {long} g {long}"));
    words("XADD long 1-3 f short");
    for number in (3..=900).step_by(7) {
        words(&format!("XDEL many {number}-{}", number % 3));
    }
    words("XTRIM shapes MAXLEN 700");
    words("XADD ends 18446744073709551615-18446744073709551615 f v");
    words("XADD empty 5-0 f v");
    words("XTRIM empty MAXLEN 0");
    words("XGROUP CREATE born g $ MKSTREAM");
    words("XADD expires 1-1 f v");
    words("EXPIRE expires 100000");
    words("XGROUP CREATE many workers 0");
    words("XGROUP CREATE many late 1000-1");
    words("XGROUP CREATE many unread $");
    words("XGROUP CREATECONSUMER many late idle");
    for number in 0..8 {
        words(&format!("XREADGROUP GROUP workers c{} COUNT 70 STREAMS many >", number % 3));
    }
    words("XREADGROUP GROUP late one COUNT 5 STREAMS many >");
    words("XREADGROUP GROUP late two NOACK COUNT 5 STREAMS many >");
    words("XACK many workers 1-1 2-2 100-1 101-2");
    words("XDEL many 4-1 5-2");
    words("XSETID shapes 9-9");
    words("SET other value");
    words("SELECT 3");
    words("XADD here 1-1 f v");
    words("SELECT 0");
}

const STREAMS: [&str; 8] =
    ["many", "shapes", "long", "ends", "empty", "born", "expires", "missing"];

/// A call and its reply.
fn asked(connection: &mut Connection, words: &str) -> String {
    format!("{words}: {:?}", connection.words(words))
}

/// What a client sees of the streams: entries by the fingerprint, and what groups know.
fn seen(connection: &mut Connection) -> Vec<String> {
    let mut seen = vec![digest_of(connection)];
    for stream in STREAMS {
        seen.push(asked(connection, &format!("XINFO GROUPS {stream}")));
        for group in ["workers", "late", "unread", "g"] {
            seen.push(asked(connection, &format!("XPENDING {stream} {group}")));
            for consumer in ["c0", "c1", "c2", "one", "two", "idle"] {
                // Without how long ago it was.
                let pending =
                    connection.words(&format!("XPENDING {stream} {group} - + 1000 {consumer}"));
                if pending.is_error() {
                    continue;
                }
                let listed = pending.elements().iter().map(|one| {
                    let one = one.elements();
                    (one[0].text(), one[1].text(), one[3].text())
                });
                let listed: Vec<_> = listed.collect();
                seen.push(format!("{stream} {group} {consumer} {}: {listed:?}", listed.len()));
            }
        }
        let info = connection.words(&format!("XINFO STREAM {stream}"));
        if !info.is_error() {
            // But for nodes of a tree, which is not there.
            let facts = info.elements().chunks(2);
            let facts = facts.filter(|pair| !pair[0].text().starts_with("radix"));
            seen.push(format!("{:?}", facts.collect::<Vec<_>>()));
        }
    }
    seen
}

/// A server of this program on this directory.
fn serve(directory: &Path, options: &[&str]) -> Server {
    Program::indelible().start_on(directory, &[&OPTIONS[..], options].concat())
}

/// Redis with the dump of a server.
fn loaded_by(program: &Program, from: &Server) -> Server {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(from.directory().join("dump.rdb"), directory.path().join("dump.rdb")).unwrap();
    program.start_on(directory.path(), &OPTIONS)
}

#[test]
fn what_redis_has_saved_is_imported_and_goes_back() {
    let Some(redis) = Program::redis() else { return };
    let server = redis
        .start(&[&OPTIONS[..], &["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]].concat());
    let mut connection = server.connect();
    fill(&mut connection);
    let expected = seen(&mut connection);
    assert_eq!(connection.words("SAVE").text(), "OK");
    let dump = server.directory().join("dump.rdb");
    let appends = server.directory().join("appendonlydir");
    for source in [&dump, &appends] {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let report = good(&import(&[], &[source, &data]));
        assert!(report.contains("stream 7"), "{report}");
        let own = serve(&data, &[]);
        let mut connection = own.connect();
        assert_eq!(seen(&mut connection), expected, "{}", source.display());
        assert_eq!(connection.words("SAVE").text(), "OK");
        assert_eq!(seen(&mut loaded_by(&redis, &own).connect()), expected);
    }
}

#[test]
fn payloads_go_both_ways() {
    let Some(redis) = Program::redis() else { return };
    let (theirs, own) = (redis.start(&OPTIONS), Program::indelible().start(&OPTIONS));
    let (mut theirs, mut own) = (theirs.connect(), own.connect());
    fill(&mut theirs);
    let expected = seen(&mut theirs);
    for stream in &STREAMS[..7] {
        let payload = theirs.words(&format!("DUMP {stream}")).bytes().to_vec();
        let ttl = theirs.words(&format!("PTTL {stream}")).text();
        let ttl = if ttl.starts_with('-') { "0".to_owned() } else { ttl };
        let words: [&[u8]; 4] = [b"RESTORE", stream.as_bytes(), ttl.as_bytes(), &payload];
        assert_eq!(own.call(&words).unwrap().text(), "OK", "{stream}");
        // And back, in place of what was there.
        let payload = own.words(&format!("DUMP {stream}")).bytes().to_vec();
        let words: [&[u8]; 5] =
            [b"RESTORE", stream.as_bytes(), ttl.as_bytes(), &payload, b"REPLACE"];
        assert_eq!(theirs.call(&words).unwrap().text(), "OK", "{stream}");
    }
    own.words("SET other value");
    own.words("SELECT 3");
    own.words("XADD here 1-1 f v");
    own.words("SELECT 0");
    assert_eq!(seen(&mut own), expected);
    assert_eq!(seen(&mut theirs), expected);
}

#[test]
fn every_way_to_a_dump_has_them() {
    let Some(redis) = Program::redis() else { return };
    for algorithm in ["bitmap", "piggyback", "hourglass", "fork"] {
        let own = Program::indelible()
            .start(&[&OPTIONS[..], &["--snapshot-algorithm", algorithm]].concat());
        let mut connection = own.connect();
        fill(&mut connection);
        for _ in 0..2 {
            let expected = seen(&mut connection);
            assert_eq!(connection.words("SAVE").text(), "OK", "{algorithm}");
            let there = loaded_by(&redis, &own);
            assert_eq!(seen(&mut there.connect()), expected, "{algorithm}");
            // The next one has all of them again.
            connection.words("XADD many * f v");
            connection.words("XREADGROUP GROUP workers c1 COUNT 10 STREAMS many >");
            connection.words("XACK many workers 7-1");
        }
    }
}

#[test]
fn an_export_and_a_restart_have_them() {
    let Some(redis) = Program::redis() else { return };
    let mut own = Program::indelible().start(&OPTIONS);
    fill(&mut own.connect());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump.rdb");
    let expected = seen_over_a_crash_and_exported(&mut own, seen, &file);
    assert!(std::fs::read(&file).unwrap().starts_with(b"REDIS0010"));
    assert_eq!(seen(&mut redis.start_on(directory.path(), &OPTIONS).connect()), expected);
}

/// When each consumer of `many` was seen, and got something.
fn active(connection: &mut Connection) -> Vec<String> {
    let full = connection.words("XINFO STREAM many FULL COUNT 1").elements().to_vec();
    let at = full.iter().position(|it| it.text() == "groups").unwrap();
    let mut times: Vec<String> = Vec::new();
    for group in full[at + 1].elements() {
        let group = group.elements();
        let at = group.iter().position(|it| it.text() == "consumers").unwrap();
        for consumer in group[at + 1].elements() {
            let consumer: Vec<String> =
                consumer.elements().iter().take(6).map(|it| it.text()).collect();
            times.push(consumer.join(" "));
        }
    }
    times
}

#[test]
fn the_form_of_7_2_says_when_a_consumer_got_something() {
    let Some(peer) = peers::of("8.2") else { return };
    let own = Program::indelible().start(&[&OPTIONS[..], &["--rdb-version", "11"]].concat());
    let mut connection = own.connect();
    fill(&mut connection);
    connection.words("XGROUP CREATECONSUMER many workers never");
    assert_eq!(connection.words("SAVE").text(), "OK");
    let expected = active(&mut connection);
    assert_eq!(expected.len(), 7, "{expected:?}");
    assert!(expected.iter().any(|it| it.ends_with("active-time -1")), "{expected:?}");
    let digest = digest_of(&mut connection);
    let there = peer.load(&own.directory().join("dump.rdb"));
    let mut there_connection = there.connect();
    assert_eq!(active(&mut there_connection), expected);
    assert_eq!(digest_of(&mut there_connection), digest);
    // And back.
    assert_eq!(there_connection.words("SAVE").text(), "OK");
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    good(&import(&[], &[&there.directory().join("dump.rdb"), &data]));
    let own = serve(&data, &[]);
    assert_eq!(active(&mut own.connect()), expected);
    assert_eq!(digest_of(&mut own.connect()), digest);
}

#[test]
fn a_payload_for_7_2_says_when_a_consumer_got_something() {
    let (Some(newer), Some(older)) = (peers::of("8.2"), Program::redis()) else { return };
    let own = Program::indelible().start(&OPTIONS);
    let mut own = own.connect();
    fill(&mut own);
    own.words("XGROUP CREATECONSUMER many workers never");
    let expected = active(&mut own);
    let (newer, older) = (newer.program.start(&newer.options(&[])), older.start(&OPTIONS));
    let (mut newer_connection, mut older_connection) = (newer.connect(), older.connect());
    let restore = |connection: &mut Connection, payload: &[u8]| {
        connection.call(&[&b"RESTORE"[..], b"many", b"0", payload, b"REPLACE"]).unwrap().text()
    };
    let payload = own.words("DUMP many").bytes().to_vec();
    assert_eq!(restore(&mut older_connection, &payload), "OK");
    assert_eq!(restore(&mut newer_connection, &payload), "OK");
    assert_ne!(active(&mut newer_connection), expected);
    for version in ["11", "12", "80"] {
        assert_eq!(own.words(&format!("CONFIG SET rdb-version {version}")).text(), "OK");
        let payload = own.words("DUMP many").bytes().to_vec();
        let refused = restore(&mut older_connection, &payload);
        assert!(refused.contains("DUMP payload version or checksum are wrong"), "{refused}");
        assert_eq!(restore(&mut newer_connection, &payload), "OK", "{version}");
        assert_eq!(active(&mut newer_connection), expected, "{version}");
        // And back.
        let payload = newer_connection.words("DUMP many").bytes().to_vec();
        assert_eq!(restore(&mut own, &payload), "OK", "{version}");
        assert_eq!(active(&mut own), expected, "{version}");
        newer_connection.words("DEL many");
        let migrate = format!("MIGRATE 127.0.0.1 {} many 0 20000 COPY", newer.port);
        assert_eq!(own.words(&migrate).text(), "OK", "{version}");
        assert_eq!(active(&mut newer_connection), expected, "{version}");
    }
}

#[test]
fn the_first_stream_of_a_log_may_come_in_a_script_that_names_it() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    let script = |source: &str| [b"EVAL", source.as_bytes(), b"1", b"s"].map(<[u8]>::to_vec);
    let hidden =
        "redis.call('SET', 'a', '1'); return redis.call('XA' .. 'DD', KEYS[1], '1-1', 'f', 'v')";
    let reply = connection.call(&script(hidden)).unwrap().text();
    assert!(reply.starts_with("ERR the log has no streams yet"), "{reply}");
    // A version that streams do not need.
    assert_eq!(connection.words("SAVE").text(), "OK");
    let dump = server.directory().join("dump.rdb");
    assert!(std::fs::read(&dump).unwrap().starts_with(b"REDIS0009"));
    let named = "redis.call('set', 'b', '1'); return redis.call('xadd', KEYS[1], '1-1', 'f', 'v')";
    assert_eq!(connection.call(&script(named)).unwrap().text(), "1-1");
    assert!(connection.call(&script(hidden)).unwrap().text().starts_with("ERR The ID specified"));
    assert_eq!(connection.words("XLEN s").text(), "1");
    assert_eq!(connection.words("SAVE").text(), "OK");
    assert!(std::fs::read(&dump).unwrap().starts_with(b"REDIS0010"));

    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    for words in ["MULTI", "SET a 1", "XADD s 1-1 f v", "XGROUP CREATE s g 0", "EXEC"] {
        assert!(!connection.words(words).is_error(), "{words}");
    }
    server.kill();
    server.restart();
    assert_eq!(server.connect().words("XLEN s").text(), "1");
    let payload = server.connect().words("DUMP s").bytes().to_vec();
    let other = Program::indelible().start(&OPTIONS);
    let mut connection = other.connect();
    connection.words("MULTI");
    connection.call(&[&b"RESTORE"[..], b"s", b"0", &payload]).unwrap();
    connection.words("APPEND a b");
    assert!(!connection.words("EXEC").is_error());
    assert_eq!(connection.words("XLEN s").text(), "1");
}

#[test]
fn followers_of_changes_are_told_of_streams() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    let mut told = |words: &[&str]| {
        let from = connection.words("LOGTAIL now").elements()[0].text();
        for words in words {
            assert!(!connection.words(words).is_error(), "{words}");
        }
        let lines = connection.words(&format!("LOGTAIL {from} BLOCK 5000"));
        let lines: Vec<String> =
            lines.elements()[1].elements().iter().map(|it| it.text()).collect();
        lines.concat()
    };
    let changes = told(&["XADD s 5-1 name value other 7"]);
    assert!(
        changes.contains(r#""op":"root""#) && changes.contains(r#""type":"stream""#),
        "{changes}"
    );
    let entries = r#""node":"5-1","entries_added":"1","entries":[{"id":"5-1","fields":[["name","value"],["other","7"]]}]"#;
    assert!(changes.contains(entries), "{changes}");
    assert!(
        changes.contains(r#""last_id":"5-1","entries_added":"1","max_deleted_id":"0-0""#),
        "{changes}"
    );
    let changes = told(&["XGROUP CREATE s g 0"]);
    assert!(changes.contains(r#""group":1,"name":"g","last_id":"0-0""#), "{changes}");
    let changes = told(&["XREADGROUP GROUP g c STREAMS s >"]);
    assert!(changes.contains(r#""group":1,"consumer":1,"name":"c""#), "{changes}");
    assert!(
        changes.contains(r#""group":1,"pending":"5-1","consumer":1,"delivered_ms":"#),
        "{changes}"
    );
    let changes = told(&["XACK s g 5-1"]);
    let gone = r#""op":"delete-element","db":0,"db_id":0,"key":"s","type":"stream""#;
    assert!(changes.contains(gone) && changes.contains(r#""pending":"5-1""#), "{changes}");
}

/// What the log has of a stream does not depend on the configuration with which it is read.
#[test]
fn limits_of_messages_come_from_the_configuration_and_stay() {
    let directory = tempfile::tempdir().unwrap();
    let always = ["--appendfsync", "always"];
    let mut server =
        serve(directory.path(), &[&always[..], &["--stream-idmp-duration", "3600"]].concat());
    let mut connection = server.connect();
    let limits = |connection: &mut Connection, key: &str| {
        let told = connection.words(&format!("XINFO STREAM {key}")).elements().to_vec();
        let at = told.iter().position(|it| it.text() == "idmp-duration").unwrap();
        (told[at + 1].text(), told[at + 3].text())
    };
    let both = |duration: &str, size: &str| (duration.to_owned(), size.to_owned());
    let first = connection.words("XADD s IDMP producer message * f v").text();
    assert_eq!(limits(&mut connection, "s"), both("3600", "100"));
    assert_eq!(connection.words("CONFIG SET stream-idmp-maxsize 7").text(), "OK");
    connection.words("XADD t IDMP producer message * f v");
    assert_eq!(limits(&mut connection, "t"), both("3600", "7"));
    assert_eq!(limits(&mut connection, "s"), both("3600", "100"));
    for (name, above) in [("stream-idmp-duration", 86_401), ("stream-idmp-maxsize", 10_001)] {
        for number in [0, -1, above] {
            let reply = connection.words(&format!("CONFIG SET {name} {number}"));
            assert!(reply.is_error() && reply.text().contains("must be between"), "{number}");
        }
        assert_eq!(connection.words(&format!("CONFIG SET {name} {}", above - 1)).text(), "OK");
    }
    server.kill();
    server = serve(directory.path(), &always);
    let mut connection = server.connect();
    assert_eq!(connection.words("XADD s IDMP producer message * f w").text(), first);
    assert_eq!(limits(&mut connection, "s"), both("3600", "100"));
    assert_eq!(limits(&mut connection, "t"), both("3600", "7"));
    connection.words("XADD u IDMP producer message * f v");
    assert_eq!(limits(&mut connection, "u"), both("100", "100"));
}

/// A producer that was not answered cannot know whether it was heard.
#[test]
fn a_message_is_recognized_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = serve(directory.path(), &["--appendfsync", "always"]);
    let mut connection = server.connect();
    assert!(connection.words("XCFGSET none IDMP-DURATION 5").is_error());
    connection.words("XADD s * f v");
    assert_eq!(connection.words("XCFGSET s IDMP-DURATION 86400").text(), "OK");
    let named = connection.words("XADD s IDMP producer message * f v").text();
    let automatic = connection.words("XADD s IDMPAUTO producer * f v g w").text();
    for _ in 0..2 {
        server.kill();
        server = serve(directory.path(), &["--appendfsync", "always"]);
        let mut connection = server.connect();
        assert_eq!(connection.words("XADD s IDMP producer message * f w").text(), named);
        assert_eq!(connection.words("XADD s IDMPAUTO producer * g w f v").text(), automatic);
        assert_eq!(connection.words("XLEN s").text(), "3");
        assert_eq!(connection.words("BGREWRITEAOF").kind(), b'+');
    }
    let mut connection = server.connect();
    assert_eq!(connection.words("COPY s copy").text(), "1");
    assert_eq!(connection.words("XADD copy IDMP producer message * f w").text(), named);
}

/// What two messages of a producer become, or became.
fn produced(connection: &mut Connection, key: &str) -> [String; 2] {
    let names = ["IDMP producer message", "IDMPAUTO producer"];
    names.map(|name| {
        let reply = connection.words(&format!("XADD {key} {name} * f v g w"));
        assert!(!reply.is_error(), "{}", reply.text());
        reply.text()
    })
}

/// A restored log draws its own seed of hashes.
#[test]
fn a_message_is_recognized_in_a_restored_log() {
    let server = Program::indelible().start(&["--appendfsync", "always"]);
    let mut connection = server.connect();
    connection.words("XADD s * f v");
    assert_eq!(connection.words("XCFGSET s IDMP-DURATION 86400").text(), "OK");
    let added = produced(&mut connection, "s");
    let stats = connection.words("INFO redo").text();
    let lsn = stats.lines().find_map(|line| line.strip_prefix("redo_durable_lsn:")).unwrap();
    let later = connection.words("XADD s IDMP producer later * f v").text();
    let elsewhere = tempfile::tempdir().unwrap();
    let into = elsewhere.path().join("restored");
    let mut restore = Command::new(env!("CARGO_BIN_EXE_indelible"));
    restore.arg("restore").arg(server.directory()).args(["--at", lsn.trim(), "--into"]).arg(&into);
    assert!(restore.output().unwrap().status.success());
    let restored = Program::indelible().start_on(&into, &[]);
    let mut connection = restored.connect();
    assert_eq!(produced(&mut connection, "s"), added);
    assert_eq!(connection.words("XLEN s").text(), "3");
    // What came later is not known.
    assert_ne!(connection.words("XADD s IDMP producer later * f v").text(), later);
}

/// A start by the index has the stream in the log only.
#[test]
fn a_message_is_recognized_in_a_stream_that_is_fetched() {
    let mut server =
        Program::indelible().start(&["--log-index", "yes", "--log-index-cut-bytes", "1mb"]);
    let mut connection = server.connect();
    let limits = "IDMP-DURATION 86400 IDMP-MAXSIZE 7";
    connection.words("XADD s * f v");
    assert_eq!(connection.words(&format!("XCFGSET s {limits}")).text(), "OK");
    for number in 0..500 {
        let words = format!("XADD s IDMP producer:{} {number} * f v", number % 50);
        assert!(!connection.words(&words).is_error());
    }
    let added = produced(&mut connection, "s");
    let info = format!("{:?}", connection.words("XINFO STREAM s"));
    wait_for_a_cut(&server);
    server.kill();
    server.restart();
    assert!(server.log().contains("DB opened by its index"));
    let mut connection = server.connect();
    assert_eq!(produced(&mut connection, "s"), added);
    assert_eq!(connection.words("XLEN s").text(), "503");
    assert_eq!(format!("{:?}", connection.words("XINFO STREAM s")), info);
}

#[test]
fn a_message_is_recognized_when_its_log_was_turned_on_later() {
    let mut server = Program::indelible().start(&["--appendonly", "no", "--save", ""]);
    let mut connection = server.connect();
    connection.words("XADD before * f v");
    assert_eq!(connection.words("XCFGSET before IDMP-DURATION 86400").text(), "OK");
    let before = produced(&mut connection, "before");
    assert_eq!(connection.words("CONFIG SET appendonly yes").text(), "OK");
    wait_until_on(&mut connection);
    let after = produced(&mut connection, "after");
    assert_eq!(connection.words("SET last 1").text(), "OK");
    assert_eq!(connection.words("WAITAOF 1 0 0").elements()[0].text(), "1");
    for _ in 0..2 {
        server.kill();
        server.restart_with(&["--appendonly", "yes"]);
        let mut connection = server.connect();
        assert_eq!(produced(&mut connection, "before"), before);
        assert_eq!(produced(&mut connection, "after"), after);
        assert_eq!(connection.words("XLEN before").text(), "3");
    }
}

/// The first message of a log begins new files, which it does not within a transaction or script.
#[test]
fn the_first_message_of_a_log_may_come_in_a_transaction_or_script() {
    let script = "return redis.call('XADD', KEYS[1], 'IDMP', 'producer', 'message', '*', 'f', 'v')";
    let limits = "return redis.call('xcfgset', KEYS[1], 'IDMP-MAXSIZE', '5')";
    let add = ["EVAL", script, "1", "s"];
    let set = ["EVAL", limits, "1", "s"];
    for way in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let mut server = serve(directory.path(), &["--appendfsync", "always"]);
        let mut connection = server.connect();
        connection.words("XADD s * f v");
        let added = match way {
            0 => {
                connection.words("MULTI");
                connection.words("SET a 1");
                connection.words("XADD s IDMP producer message * f v");
                connection.words("XADD s IDMP producer message * f w");
                let replies = connection.words("EXEC");
                let replies = replies.elements();
                assert_eq!(replies[1].text(), replies[2].text());
                replies[1].text()
            }
            1 => connection.call(&add).unwrap().text(),
            _ => {
                assert_eq!(connection.call(&set).unwrap().text(), "OK");
                connection.words("XADD s IDMP producer message * f v").text()
            }
        };
        assert!(added.contains('-') && !added.contains(' '), "{added}");
        assert_eq!(connection.call(&add).unwrap().text(), added, "{way}");
        assert_eq!(connection.words("RENAME s t").text(), "OK");
        server.kill();
        server = serve(directory.path(), &["--appendfsync", "always"]);
        let mut connection = server.connect();
        assert_eq!(connection.words("XADD t IDMP producer message * f v").text(), added, "{way}");
        assert_eq!(connection.words("XLEN t").text(), "2");
        assert_eq!(connection.words("MOVE t 3").text(), "1");
        connection.words("SELECT 3");
        assert_eq!(connection.words("XADD t IDMP producer message * f v").text(), added, "{way}");
    }
}

/// An older program that knows streams, and no messages, goes on reading the log.
#[test]
fn a_script_that_names_no_command_of_messages_lets_none_follow() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    let make = "return redis.call('XGROUP', 'CREATE', KEYS[1], 'g', '$', 'MKSTREAM')";
    let hidden = "return redis.call('XA' .. 'DD', KEYS[1], 'IDMP', 'p', 'm', '*', 'f', 'v')";
    let named = "return redis.call('XADD', KEYS[1], 'IDMP', 'p', 'm', '*', 'f', 'v')";
    assert_eq!(connection.call(&["EVAL", make, "1", "s"]).unwrap().text(), "OK");
    connection.words("MULTI");
    connection.call(&["EVAL", make, "1", "t"]).unwrap();
    assert_eq!(connection.words("EXEC").elements()[0].text(), "OK");
    let refused = connection.call(&["EVAL", hidden, "1", "s"]).unwrap().text();
    assert!(refused.starts_with("ERR the log has no messages of producers yet"), "{refused}");
    connection.words("MULTI");
    connection.call(&["EVAL", named, "1", "s"]).unwrap();
    let added = connection.words("EXEC").elements()[0].text();
    assert_eq!(connection.call(&["EVAL", hidden, "1", "s"]).unwrap().text(), added);
}

#[test]
fn one_that_waits_to_claim_is_called_when_it_can() {
    let server = Program::indelible().start(&OPTIONS);
    let (mut connection, mut waiting) = (server.connect(), server.connect());
    connection.words("XADD s 1-1 f v");
    connection.words("XGROUP CREATE s g 0");
    connection.words("XGROUP CREATE t g 0 MKSTREAM");
    let claim = "XREADGROUP GROUP g b BLOCK 0 CLAIM 200 STREAMS t s > >";
    let claim: Vec<&str> = claim.split(' ').collect();
    waiting.send(&claim).unwrap();
    let claimed = waiting.receive().unwrap();
    assert_eq!(claimed.elements()[0].elements()[1].elements()[0].elements()[3].text(), "0");
    // What is delivered after it began to wait it is not told of.
    waiting.send(&claim).unwrap();
    let claimed = waiting.receive().unwrap();
    let entry = claimed.elements()[0].elements()[1].elements()[0].clone();
    assert_eq!(entry.elements()[0].text(), "1-1");
    assert!(entry.elements()[2].text().parse::<u64>().unwrap() >= 200);
    assert_eq!(entry.elements()[3].text(), "1");
    let in_vain =
        ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "50", "CLAIM", "100000", "STREAMS", "s", ">"];
    assert_eq!(connection.call(&in_vain).unwrap().elements().len(), 0);
}

/// What XREADGROUP with CLAIM has of the first stream: ids, and how often each was delivered before.
fn claimed(reply: &Reply) -> Vec<(String, String)> {
    let entries = reply.elements()[0].elements()[1].elements().iter();
    entries.map(|entry| (entry.elements()[0].text(), entry.elements()[3].text())).collect()
}

#[test]
fn one_that_waits_to_claim_is_called_for_what_is_given_back_or_made_older() {
    let server = Program::indelible().start(&OPTIONS);
    let (mut connection, mut waiting) = (server.connect(), server.connect());
    connection.words("XADD s 1-1 f v");
    connection.words("XGROUP CREATE s g 0");
    connection.words("XREADGROUP GROUP g a STREAMS s >");
    // Longer than this test may take: nothing but the call ends the wait.
    let claim = "XREADGROUP GROUP g b BLOCK 0 CLAIM 9000000 STREAMS s >";
    let claim: Vec<&str> = claim.split(' ').collect();
    for (call, reply, count) in [
        ("XNACK s g FAIL IDS 1 1-1", ":1", "1"),
        ("XNACK s g SILENT IDS 1 1-1", ":1", "1"),
        ("XNACK s g FAIL RETRYCOUNT 7 IDS 1 1-1", ":1", "7"),
        ("XCLAIM s g c 0 1-1 IDLE 9000001 JUSTID", "1-1", "8"),
        ("XCLAIM s g c 0 1-1 TIME 1 JUSTID", "1-1", "9"),
    ] {
        waiting.send(&claim).unwrap();
        wait_until(|| info(&server, "blocked_clients") == "1");
        // What changes nothing for it does not end its wait.
        assert_eq!(connection.words("XNACK s g FAIL IDS 1 9-9").text(), "0");
        assert_eq!(connection.words("XCLAIM s g c 0 1-1 JUSTID").elements()[0].text(), "1-1");
        assert_eq!(info(&server, "blocked_clients"), "1", "before {call}");
        let found = connection.words(call);
        let found = found.elements().first().unwrap_or(&found);
        assert_eq!(found.text(), reply.trim_start_matches(':'), "{call}");
        let found = claimed(&waiting.receive().unwrap());
        assert_eq!(found, [("1-1".to_owned(), count.to_owned())], "{call}");
    }
    let held = connection.words("XPENDING s g - + 9 b");
    assert_eq!(held.elements()[0].elements()[3].text(), "10");
}

/// Makes a group of which six of nine entries were given back, in this order: 3, 1, 7, 5, 9 and 4, and 2 is held.
fn give_back(connection: &mut Connection) {
    for number in 1..=9 {
        connection.words(&format!("XADD s {number}-0 f v"));
    }
    for words in [
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g a COUNT 8 STREAMS s >",
        "XACK s g 6-0 8-0",
        "XNACK s g FAIL IDS 3 4-0 3-0 1-0",
        "XNACK s g SILENT IDS 1 7-0",
        "XNACK s g FATAL IDS 1 5-0",
        "XNACK s g FAIL RETRYCOUNT 40 FORCE IDS 1 9-0",
        "XNACK s g FAIL IDS 1 4-0",
    ] {
        let reply = connection.words(words);
        assert!(!reply.is_error(), "{words}: {}", reply.text());
    }
}

/// What was given back, in its order, and how often each was delivered.
const GIVEN_BACK: [(&str, &str); 6] = [
    ("3-0", "1"),
    ("1-0", "1"),
    ("7-0", "0"),
    ("5-0", "9223372036854775807"),
    ("9-0", "40"),
    ("4-0", "1"),
];

/// Each pending entry of the group, but for how long it has been so.
fn pending(connection: &mut Connection) -> Vec<[String; 3]> {
    let pending = connection.words("XPENDING s g - + 99");
    let pending = pending.elements().iter().map(Reply::elements);
    pending.map(|it| [it[0].text(), it[1].text(), it[3].text()]).collect()
}

#[test]
fn what_was_given_back_survives_a_kill_in_its_order() {
    let directory = tempfile::tempdir().unwrap();
    for indexed in ["no", "yes"] {
        let data = directory.path().join(indexed);
        let options =
            ["--appendfsync", "always", "--log-index", indexed, "--log-index-cut-bytes", "1mb"];
        let mut server = serve(&data, &options);
        give_back(&mut server.connect());
        let expected = pending(&mut server.connect());
        assert_eq!(expected.len(), 7, "{expected:?}");
        for _ in 0..2 {
            if indexed == "yes" {
                wait_for_a_cut(&server);
            }
            server.kill();
            server = serve(&data, &options);
            assert_eq!(server.log().contains("DB opened by its index"), indexed == "yes");
            assert_eq!(pending(&mut server.connect()), expected);
        }
        let mut connection = server.connect();
        let found =
            connection.words("XREADGROUP GROUP g b COUNT 6 CLAIM 9000000000000 STREAMS s >");
        assert_eq!(
            claimed(&found),
            GIVEN_BACK.map(|(id, count)| (id.to_owned(), count.to_owned()))
        );
        assert_eq!(connection.words("COPY s t").text(), "1");
        server.kill();
        server = serve(&data, &options);
        let held = pending(&mut server.connect());
        assert!(held.iter().all(|it| it[1] == if it[0] == "2-0" { "a" } else { "b" }), "{held:?}");
    }
}

/// Other servers know of no entry that waits and that no consumer has. A consumer without a name is one for them.
#[test]
fn others_are_told_that_a_consumer_without_a_name_has_what_was_given_back() {
    let Some(redis) = Program::redis() else { return };
    let mut own = Program::indelible().start(&OPTIONS);
    let mut connection = own.connect();
    give_back(&mut connection);
    let expected = pending(&mut connection);
    let digest = digest_of(&mut connection);
    let payload = connection.words("DUMP s").bytes().to_vec();
    let mut there = Vec::new();
    for algorithm in ["bitmap", "piggyback", "hourglass", "fork"] {
        let set = format!("CONFIG SET snapshot-algorithm {algorithm}");
        assert_eq!(connection.words(&set).text(), "OK");
        assert_eq!(connection.words("SAVE").text(), "OK", "{algorithm}");
        there.push((algorithm, loaded_by(&redis, &own)));
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump.rdb");
    seen_over_a_crash_and_exported(&mut own, |connection| pending(connection).concat(), &file);
    there.push(("an export", redis.start_on(directory.path(), &OPTIONS)));
    let sanitizing = ["--sanitize-dump-payload", "yes"];
    let newer = peers::of("8.2").map(|peer| peer.program.start(&peer.options(&sanitizing)));
    let restoring = [
        ("7.0", Some(redis.start(&[&OPTIONS[..], &sanitizing].concat()))),
        ("8.2", newer),
        ("own", Some(Program::indelible().start(&OPTIONS))),
    ];
    for (version, server) in restoring {
        let Some(server) = server else { continue };
        let words: [&[u8]; 4] = [b"RESTORE", b"s", b"0", &payload];
        assert_eq!(server.connect().call(&words).unwrap().text(), "OK", "{version}");
        there.push((version, server));
    }
    for (how, server) in &there {
        let mut connection = server.connect();
        assert_eq!(pending(&mut connection), expected, "{how}");
        assert_eq!(digest_of(&mut connection), digest, "{how}");
        let consumers = connection.words("XINFO CONSUMERS s g");
        let names: Vec<String> =
            consumers.elements().iter().map(|it| it.elements()[1].text()).collect();
        assert_eq!(names, ["", "a"], "{how}");
        // It gives it up, as every consumer does, and what it had can be claimed.
        let reply = connection.words("XCLAIM s g b 100000 3-0 JUSTID");
        assert_eq!(reply.elements()[0].text(), "3-0", "{how}");
        let reply = connection.words("XAUTOCLAIM s g b 100000 0 COUNT 9 JUSTID");
        let ids: Vec<String> = reply.elements()[1].elements().iter().map(|it| it.text()).collect();
        assert_eq!(ids, ["1-0", "4-0", "5-0", "7-0", "9-0"], "{how}");
        let calls =
            [&["XGROUP", "DELCONSUMER", "s", "g", ""][..], &["XGROUP", "DESTROY", "s", "g"]];
        let replies = calls.map(|call| connection.call(call).unwrap().text());
        assert_eq!(replies, ["0", "1"], "{how}");
    }
}

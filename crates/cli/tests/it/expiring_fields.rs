//! Fields of hashes that expire: reply by reply and event by event as Redis 8.2, on their way between servers, through every
//! way to write a dump, and over crashes.

use std::path::Path;

use crate::archive;
use crate::export::seen_over_a_crash_and_exported;
use crate::import::{good, import};
use crate::peers;
use crate::process::{Program, Server, wait_until};
use crate::rdb_files::{digest_of, text};
use crate::wire::Connection;

const OPTIONS: [&str; 2] = ["--enable-debug-command", "yes"];

fn serve(data: &Path) -> Server {
    Program::indelible().start_on(data, &OPTIONS)
}

/// A reply, as text; fields in any order.
fn shown(connection: &mut Connection, words: &str) -> String {
    let reply = connection.words(words);
    if words.starts_with("HSCAN") && !reply.is_error() {
        let [cursor, fields] = reply.elements() else { panic!("{words}: {reply:?}") };
        let fields = fields.elements().chunks(2);
        let mut fields: Vec<String> = fields
            .map(|pair| format!("{:?}", pair.iter().map(|it| it.text()).collect::<Vec<_>>()))
            .collect();
        fields.sort();
        return format!("{} {fields:?}", cursor.text());
    }
    let any_order = ["HGETALL", "HKEYS", "HVALS"].iter().any(|name| words.starts_with(name));
    if !any_order || reply.is_error() {
        return format!("{reply:?}");
    }
    let mut elements: Vec<String> = reply.elements().iter().map(|it| it.text()).collect();
    elements.sort();
    elements.join(" ")
}

/// What was told of keys since the last call.
fn events(connection: &mut Connection, listener: &mut Connection) -> Vec<String> {
    connection.words("PUBLISH mark x");
    let mut events = Vec::new();
    loop {
        let message = listener.receive().unwrap();
        let words: Vec<String> = message.elements().iter().map(|it| it.text()).collect();
        match words.as_slice() {
            [kind, .., channel, _] if kind == "pmessage" && channel == "mark" => return events,
            [kind, .., channel, key] if kind == "pmessage" => {
                events.push(format!("{channel} {key}"))
            }
            _ => {}
        }
    }
}

#[test]
fn replies_and_events_are_those_of_redis() {
    let Some(peer) = peers::of("8.2") else { return };
    let servers = [peer.program.start(&OPTIONS), Program::indelible().start(&OPTIONS)];
    let mut all = servers.each_ref().map(|server| {
        let (mut connection, mut listener) = (server.connect(), server.connect());
        connection.words("CONFIG SET notify-keyspace-events KEA");
        listener.words("PSUBSCRIBE __keyevent@0__:* mark");
        events(&mut connection, &mut listener);
        (connection, listener)
    });
    // Once small, and once with many other fields, which never expire.
    for is_large in [false, true] {
        for line in include_str!("expiring_fields.txt").lines().filter(|line| !line.is_empty()) {
            let [theirs, ours] = all.each_mut().map(|(connection, listener)| {
                let reply = shown(connection, line);
                (reply, events(connection, listener))
            });
            assert_eq!(ours, theirs, "{line} (large: {is_large})");
            if is_large && line.starts_with("HSET h a") {
                let fields: String = (0..200).map(|field| format!(" f{field} v")).collect();
                for (connection, listener) in &mut all {
                    connection.words(&format!("HSET h{fields}"));
                    events(connection, listener);
                }
            }
        }
        for (connection, listener) in &mut all {
            connection.words("FLUSHALL");
            events(connection, listener);
        }
    }
}

#[test]
fn a_key_may_have_to_be_there_or_not() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    for (words, reply) in [
        ("HSETEX h XX EX 100 FIELDS 1 a 1", "0"),
        ("HSETEX h NX EX 100 FIELDS 1 a 1", "1"),
        ("HSETEX h NX FIELDS 1 b 1", "0"),
        ("HSETEX h XX FNX FIELDS 1 b 1", "1"),
        ("HSETEX h FXX XX KEEPTTL FIELDS 2 a 2 b 2", "1"),
        ("HGET h a", "2"),
        ("HTTL h FIELDS 1 a", "100"),
        ("HSETEX h NX XX FIELDS 1 a 1", "ERR Only one of XX or NX arguments can be specified"),
    ] {
        let found = connection.words(words);
        let found =
            if found.elements().is_empty() { found.text() } else { found.elements()[0].text() };
        assert_eq!(found, reply, "{words}");
    }
}

/// Hashes small and large, with fields that expire and did.
fn fill(connection: &mut Connection) {
    let mut words = |words: &str| {
        let reply = connection.words(words);
        assert!(!reply.is_error(), "{words}: {}", reply.text());
    };
    words("HSET small a 1 b 2 c 3");
    words("HPEXPIREAT small 4000000000123 FIELDS 2 a b");
    words("HSET was a 1 b 2");
    words("HEXPIRE was 100000 FIELDS 1 a");
    words("HPERSIST was FIELDS 1 a");
    words("HSET plain a 1 b 2");
    for field in 0..400 {
        words(&format!("HSET large field{field} value:{field}"));
        words(&format!("HSET never field{field} value:{field}"));
    }
    for field in (0..400).step_by(3) {
        words(&format!("HPEXPIREAT large {} FIELDS 1 field{field}", 4_000_000_000_000_i64 + field));
    }
    let long = "x".repeat(20_000);
    words(&format!("HSETEX long PXAT 4000000000001 FIELDS 2 f {long} g short"));
    words("HSETEX both PXAT 4000000000002 FIELDS 1 f v");
    words("PEXPIREAT both 4000000009999");
    words("SELECT 3");
    words("HSETEX here EXAT 4000000000 FIELDS 1 f v");
    words("SELECT 0");
}

const HASHES: [&str; 8] = ["small", "was", "plain", "large", "never", "long", "both", "missing"];

/// What a client sees of the hashes: the fingerprint, and when fields expire.
fn seen(connection: &mut Connection) -> Vec<String> {
    let mut seen = vec![digest_of(connection)];
    let fields: String = (0..400).map(|field| format!(" field{field}")).collect();
    for hash in HASHES {
        for words in [
            format!("HPEXPIRETIME {hash} FIELDS 5 a b c f g"),
            format!("HPEXPIRETIME {hash} FIELDS 400{fields}"),
            format!("HLEN {hash}"),
            format!("PEXPIRETIME {hash}"),
        ] {
            seen.push(format!("{words}: {:?}", connection.words(&words)));
        }
    }
    seen
}

#[test]
fn what_redis_has_saved_is_imported_and_goes_back() {
    let Some(peer) = peers::of("8.2") else { return };
    let unpacked = peer.unpacked();
    let unpacked: Vec<&str> = unpacked.iter().map(String::as_str).collect();
    for options in [&[][..], &unpacked] {
        let appends = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
        let server = peer.program.start(&[&peer.options(&appends)[..], options].concat());
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
            assert!(report.contains("hash 7"), "{report}");
            let own = serve(&data);
            let mut connection = own.connect();
            assert_eq!(seen(&mut connection), expected, "{}", source.display());
            assert_eq!(connection.words("SAVE").text(), "OK");
            let there = peer.load(&own.directory().join("dump.rdb"));
            assert_eq!(seen(&mut there.connect()), expected);
        }
    }
}

#[test]
fn payloads_go_both_ways() {
    let Some(peer) = peers::of("8.2") else { return };
    let (theirs, own) = (peer.program.start(&OPTIONS), Program::indelible().start(&OPTIONS));
    let (mut theirs, mut own) = (theirs.connect(), own.connect());
    fill(&mut theirs);
    let expected = seen(&mut theirs);
    for hash in &HASHES[..7] {
        let payload = theirs.words(&format!("DUMP {hash}")).bytes().to_vec();
        let at = theirs.words(&format!("PEXPIRETIME {hash}")).text();
        let at = if at.starts_with('-') { "0".to_owned() } else { at };
        let words: [&[u8]; 5] = [b"RESTORE", hash.as_bytes(), at.as_bytes(), &payload, b"ABSTTL"];
        assert_eq!(own.call(&words).unwrap().text(), "OK", "{hash}");
        // And back, in place of what was there.
        let payload = own.words(&format!("DUMP {hash}")).bytes().to_vec();
        let words: [&[u8]; 6] =
            [b"RESTORE", hash.as_bytes(), at.as_bytes(), &payload, b"ABSTTL", b"REPLACE"];
        assert_eq!(theirs.call(&words).unwrap().text(), "OK", "{hash}");
    }
    for words in ["SELECT 3", "HSETEX here EXAT 4000000000 FIELDS 1 f v", "SELECT 0"] {
        assert!(!own.words(words).is_error(), "{words}");
    }
    assert_eq!(seen(&mut own), expected);
    assert_eq!(seen(&mut theirs), expected);
}

#[test]
fn every_way_to_a_dump_has_them() {
    let Some(peer) = peers::of("8.2") else { return };
    for algorithm in ["bitmap", "piggyback", "cou", "hourglass", "fork"] {
        let own = Program::indelible()
            .start(&[&OPTIONS[..], &["--snapshot-algorithm", algorithm]].concat());
        let mut connection = own.connect();
        // A dump without such fields comes first: what is merged with it must not be in its form.
        connection.words("HSET was x y");
        for field in 0..400 {
            connection.words(&format!("HSET large field{field} old"));
        }
        assert_eq!(connection.words("SAVE").text(), "OK", "{algorithm}");
        fill(&mut connection);
        for _ in 0..2 {
            let expected = seen(&mut connection);
            assert_eq!(connection.words("SAVE").text(), "OK", "{algorithm}");
            let dump = own.directory().join("dump.rdb");
            assert!(std::fs::read(&dump).unwrap().starts_with(b"REDIS0012"));
            assert_eq!(seen(&mut peer.load(&dump).connect()), expected, "{algorithm}");
            // The next one has all of them again.
            connection.words("HPEXPIREAT large 4000000000777 FIELDS 2 field1 field2");
            connection.words("HDEL large field6 field7");
            connection.words("HSET small a other");
        }
    }
}

#[test]
fn an_export_and_a_restart_have_them() {
    let Some(peer) = peers::of("8.2") else { return };
    let mut own = Program::indelible().start(&OPTIONS);
    fill(&mut own.connect());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump.rdb");
    let expected = seen_over_a_crash_and_exported(&mut own, seen, &file);
    assert!(std::fs::read(&file).unwrap().starts_with(b"REDIS0012"));
    assert_eq!(seen(&mut peer.load(&file).connect()), expected);
}

#[test]
fn fields_go_by_themselves_and_do_not_come_back() {
    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    for field in 0..5000 {
        connection.words(&format!("HSET large f{field} v"));
    }
    let fields: String = (0..4000).map(|field| format!(" f{field}")).collect();
    connection.words("HSET small a 1 b 2");
    connection.words("HSETEX all PX 1 FIELDS 1 a 1");
    connection.words("HPEXPIRE small 1 FIELDS 1 a");
    connection.words(&format!("HPEXPIRE large 1 FIELDS 4000{fields}"));
    let expired = |connection: &mut Connection| {
        connection.words("INFO stats").text().contains("expired_subkeys:4002\r\n")
    };
    wait_until(|| expired(&mut connection));
    assert_eq!(connection.words("DBSIZE").text(), "2");
    server.kill();
    server.restart();
    let mut connection = server.connect();
    for (words, reply) in [("HLEN large", "1000"), ("HLEN small", "1"), ("DBSIZE", "2")] {
        assert_eq!(connection.words(words).text(), reply, "{words}");
    }
}

#[test]
fn the_first_field_of_a_log_that_expires_may_come_in_a_script_that_names_the_command() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    let script = |source: &str| [b"EVAL", source.as_bytes(), b"1", b"h"].map(<[u8]>::to_vec);
    let hidden = "redis.call('HSET', KEYS[1], 'a', '1'); \
                  return redis.call('HEX' .. 'PIRE', KEYS[1], '100', 'FIELDS', '1', 'a')[1]";
    let reply = connection.call(&script(hidden)).unwrap().text();
    assert!(reply.starts_with("ERR the log has no fields that expire yet"), "{reply}");
    assert_eq!(connection.words("SAVE").text(), "OK");
    let dump = server.directory().join("dump.rdb");
    assert!(std::fs::read(&dump).unwrap().starts_with(b"REDIS0009"));
    // What could make one, and does not, changes no dump.
    assert_eq!(connection.call(&script("return 1 -- hexpire")).unwrap().text(), "1");
    assert_eq!(connection.words("SAVE").text(), "OK");
    assert!(std::fs::read(&dump).unwrap().starts_with(b"REDIS0009"));
    let named = hidden.replace("HEX' .. 'PIRE", "HEXPIRE");
    assert_eq!(connection.call(&script(&named)).unwrap().text(), "1");
    assert_eq!(connection.call(&script(hidden)).unwrap().text(), "1");
    assert_eq!(connection.words("SAVE").text(), "OK");
    assert!(std::fs::read(&dump).unwrap().starts_with(b"REDIS0012"));

    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    for words in ["MULTI", "HSET h a 1", "HEXPIRE h 1000 FIELDS 1 a", "EXEC"] {
        assert!(!connection.words(words).is_error(), "{words}");
    }
    server.kill();
    server.restart();
    let mut connection = server.connect();
    assert_ne!(connection.words("HTTL h FIELDS 1 a").elements()[0].text(), "-1");
    let payload = connection.words("DUMP h").bytes().to_vec();
    let other = Program::indelible().start(&OPTIONS);
    let mut connection = other.connect();
    connection.words("MULTI");
    connection.call(&[&b"RESTORE"[..], b"h", b"0", &payload]).unwrap();
    connection.words("APPEND a b");
    assert!(!connection.words("EXEC").is_error());
    assert_ne!(connection.words("HTTL h FIELDS 1 a").elements()[0].text(), "-1");
}

#[test]
fn followers_of_changes_are_told_when_fields_expire() {
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
    let changes = told(&["HSETEX small PXAT 4000000000123 FIELDS 1 a 1"]);
    assert!(changes.contains(r#""fields":[["a","1",4000000000123]]"#), "{changes}");
    let changes = told(&["HSET small b 2"]);
    assert!(changes.contains(r#""fields":[["a","1",4000000000123],["b","2"]]"#), "{changes}");
    let long = "x".repeat(400);
    told(&[&format!("HSET large f {long}")]);
    let changes = told(&["HSETEX large PXAT 4000000000123 FIELDS 1 g v"]);
    let field = r#""field":"g","expires_at_ms":4000000000123,"value":"v""#;
    assert!(changes.contains(field), "{changes}");
    let changes = told(&["HPEXPIREAT large 1 FIELDS 1 g"]);
    assert!(changes.contains(r#""op":"delete-element""#), "{changes}");
}

#[test]
fn a_hash_that_had_such_fields_comes_back_from_an_archive_and_is_changed_and_dumped() {
    let (place, url) = archive::place();
    let mut server = archive::start(&url, &[]);
    let mut connection = server.connect();
    for field in 0..300 {
        connection.words(&format!("HSET large field{field} value:{field}"));
    }
    for words in ["HEXPIRE large 100000 FIELDS 1 field7", "HPERSIST large FIELDS 1 field7"] {
        assert!(!connection.words(words).is_error(), "{words}");
    }
    let expected = digest_of(&mut connection);
    archive::catch_up(&mut connection);
    server.kill();
    for expiry in ["absolute", "never"] {
        let data = place.path().join(expiry);
        let output = archive::restore(&url, &data, &["--latest", "--expiry", expiry]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut own = serve(&data);
        let mut connection = own.connect();
        assert_eq!(digest_of(&mut connection), expected, "{expiry}");
        for words in ["MULTI", "SET before 1", "RENAME large other", "RENAME other large"] {
            assert!(!connection.words(words).is_error(), "{words}");
        }
        assert!(!connection.words("EXEC").is_error());
        connection.words("DEL before");
        assert_eq!(connection.words("SAVE").text(), "OK", "{expiry}");
        let dump = std::fs::read(own.directory().join("dump.rdb")).unwrap();
        assert!(dump.starts_with(b"REDIS0012"), "{expiry}");
        own.kill();
        own.restart();
        let mut connection = own.connect();
        assert_eq!(digest_of(&mut connection), expected, "{expiry}, after a crash");
        own.terminate();
        own.wait_for_exit();
        let file = place.path().join(format!("{expiry}.rdb"));
        let words = ["export", data.to_str().unwrap(), file.to_str().unwrap()];
        let output = archive::run(&words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(std::fs::read(&file).unwrap().starts_with(b"REDIS0012"));
    }
}

//! `indelible rdb`, and the reader and writer beneath it, next to Redis: what it saves is read, and what is
//! written is loaded, with the same fingerprint.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rdb::{Checksum, Event, Key, Kind, Limits, Reader, WriteOptions, Writer};

use crate::process::{Program, Server};
use crate::wire::Connection;

/// What Redis keeps no files of by itself with.
pub(crate) const OPTIONS: [&str; 4] = ["--enable-debug-command", "yes", "--save", ""];

fn rdb(arguments: &[&str], files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("rdb").args(arguments).args(files).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What it printed, if it said that all is well.
fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// What it printed, if it said that something is bad.
fn bad(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Strings of all lengths that matter to an encoding, and integers of all widths.
fn strings() -> Vec<Vec<u8>> {
    let mut strings: Vec<Vec<u8>> = [
        "0",
        "12",
        "-1",
        "127",
        "128",
        "-129",
        "4095",
        "-4096",
        "4096",
        "32767",
        "32768",
        "-32769",
        "8388607",
        "8388608",
        "2147483647",
        "2147483648",
        "-2147483649",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "007",
        "+1",
        "-0",
        "1.5",
        " 1",
        "",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    for length in [1, 20, 21, 44, 63, 64, 65, 100, 254, 255, 300, 4095, 4096, 16_384, 70_000] {
        strings.push(vec![b'x'; length]);
        let mixed = (0_u32..).map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes()[3]);
        strings.push(mixed.take(length).collect());
    }
    strings.push(vec![b'l'; 600_000]);
    strings
}

/// Every type in every encoding, large and small, in several databases, some of it expiring.
pub(crate) fn fill(connection: &mut Connection) {
    let mut call = |words: &[&[u8]]| {
        let reply = connection.call(words).unwrap();
        assert!(!reply.is_error(), "{} -> {reply:?}", words[0].escape_ascii());
    };
    let strings = strings();
    for (database, few) in [(0, 3), (5, 40), (15, 700)] {
        call(&[b"SELECT", database.to_string().as_bytes()]);
        for (number, value) in strings.iter().enumerate() {
            let key = format!("string:{number}:{}", "k".repeat(number * 3));
            call(&[b"SET", key.as_bytes(), value]);
            if number % 3 == 0 {
                call(&[
                    b"PEXPIRE",
                    key.as_bytes(),
                    format!("{}", 1_000_000_000 + number).as_bytes(),
                ]);
            }
        }
        for number in 0..few {
            let short = format!("element:{number}").into_bytes();
            let number_text = (i64::from(number) * 77_777 - 1_000_000).to_string().into_bytes();
            let text = &strings[number as usize % strings.len()];
            let score = format!("{}", f64::from(number) * 1.37 - 11.0);
            call(&[b"RPUSH", b"list:short", &short]);
            call(&[b"RPUSH", b"list:mixed", text]);
            call(&[b"SADD", b"set:integers", &number_text]);
            call(&[b"SADD", b"set:short", &short]);
            call(&[b"SADD", b"set:mixed", text]);
            call(&[b"ZADD", b"zset:short", score.as_bytes(), &short]);
            call(&[b"ZADD", b"zset:mixed", score.as_bytes(), text]);
            call(&[b"HSET", b"hash:short", &short, &number_text]);
            call(&[b"HSET", b"hash:mixed", text, &short]);
        }
        call(&[b"SADD", b"set:narrow", b"1", b"-32768", b"32767"]);
        call(&[b"SADD", b"set:wide", b"1", b"-9223372036854775808", b"9223372036854775807"]);
        call(&[b"ZADD", b"zset:ends", b"inf", b"a", b"-inf", b"b", b"1e300", b"c", b"0.1", b"d"]);
        call(&[b"EXPIRE", b"hash:short", b"100000"]);
        call(&[b"EXPIRE", b"list:mixed", b"100000"]);
    }
    call(&[b"SELECT", b"0"]);
}

pub(crate) fn digest_of(connection: &mut Connection) -> String {
    connection.words("DEBUG DIGEST").text()
}

/// A Redis that was filled, and the dump that it has saved.
fn saved(options: &[&str]) -> Option<(Server, PathBuf, String)> {
    let server = Program::redis()?.start(&[&OPTIONS, options].concat());
    let mut connection = server.connect();
    fill(&mut connection);
    let digest = digest_of(&mut connection);
    assert_eq!(connection.words("SAVE").text(), "OK");
    let file = server.directory().join("dump.rdb");
    Some((server, file, digest))
}

/// Reads a dump and writes it again, with these options.
fn write_again(from: &Path, to: &Path, options: WriteOptions) {
    let mut reader = Reader::new(File::open(from).unwrap(), Limits::default()).unwrap();
    let target = BufWriter::new(File::create(to).unwrap());
    let mut writer = Writer::begin(target, options).unwrap();
    loop {
        match reader.next().unwrap() {
            Event::Aux { name, value } => writer.aux(name, value).unwrap(),
            Event::Database(index) => writer.database(index).unwrap(),
            Event::Sizes { keys, expiring } => writer.sizes(keys, expiring).unwrap(),
            Event::Key(Key { key, kind: Kind::List, expires_at_ms, idle_s, frequency, .. }) => {
                // How many items there are is known when all are read.
                let key = key.to_vec();
                let mut items = Vec::new();
                while let Event::Item(item) = reader.next().unwrap() {
                    items.push(item.to_vec());
                }
                let count = Some(items.len() as u64);
                let kind = Kind::List;
                let key = Key { key: &key, kind, count, expires_at_ms, idle_s, frequency };
                writer.key(&key).unwrap();
                items.iter().for_each(|item| writer.item(item).unwrap());
                writer.end_of_key().unwrap();
            }
            Event::Key(key) => writer.key(&key).unwrap(),
            Event::String(value) => writer.string(value).unwrap(),
            Event::Item(item) => writer.item(item).unwrap(),
            Event::Member(member) => writer.member(member).unwrap(),
            Event::Scored(member, score) => writer.scored(member, score).unwrap(),
            Event::Field { name, value, expires_at_ms } => {
                writer.field(name, value, expires_at_ms).unwrap();
            }
            Event::EndOfKey => writer.end_of_key().unwrap(),
            Event::End { checksum } => {
                assert_eq!(checksum, Checksum::Right);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    writer.finish().unwrap().into_inner().unwrap().sync_all().unwrap();
}

#[test]
fn what_redis_saves_has_its_fingerprint() {
    for options in [
        &["--rdbcompression", "yes"][..],
        &["--rdbcompression", "no", "--rdbchecksum", "no"],
        &["--maxmemory-policy", "allkeys-lfu", "--maxmemory", "1gb"],
        &[
            "--maxmemory-policy",
            "allkeys-lru",
            "--maxmemory",
            "1gb",
            "--list-max-listpack-size",
            "-1",
        ],
    ] {
        let Some((_server, file, digest)) = saved(options) else { return };
        assert_eq!(good(&rdb(&["digest"], &[&file])).trim_end(), digest, "{options:?}");
        let shown = good(&rdb(&["check"], &[&file]));
        assert!(shown.contains("redis-ver: 7."), "{shown}");
        assert!(shown.contains("database 15: "), "{shown}");
        let sum =
            if options.contains(&"--rdbchecksum") { "no checksum" } else { "checksum is right" };
        assert!(shown.contains(sum), "{shown}");
    }
}

#[test]
fn what_is_written_is_loaded_by_redis() {
    let policy = ["--maxmemory-policy", "allkeys-lfu", "--maxmemory", "1gb"];
    let Some((server, file, digest)) = saved(&policy) else { return };
    let mut used = server.connect();
    for _ in 0..1000 {
        used.words("GET string:0:");
    }
    assert_eq!(used.words("SAVE").text(), "OK");
    let frequency = used.words("OBJECT FREQ string:0:").text();
    for options in [
        WriteOptions::default(),
        WriteOptions { compress: false, checksum: false, ..WriteOptions::default() },
        WriteOptions { version: rdb::Version::Redis(10), ..WriteOptions::default() },
    ] {
        let directory = tempfile::tempdir().unwrap();
        let written = directory.path().join("dump.rdb");
        write_again(&file, &written, options);
        assert_eq!(good(&rdb(&["digest"], &[&written])).trim_end(), digest);
        let same = good(&rdb(&["diff"], &[&file, &written]));
        assert!(
            same.contains("0 differ, 0 are only in the first dump, 0 only in the second"),
            "{same}"
        );
        let loaded =
            Program::redis().unwrap().start_on(directory.path(), &[&OPTIONS[..], &policy].concat());
        let mut connection = loaded.connect();
        assert_eq!(digest_of(&mut connection), digest, "{options:?}");
        assert_eq!(connection.words("OBJECT FREQ string:0:").text(), frequency);
        let ttl: i64 = connection.words("PTTL string:0:").text().parse().unwrap();
        assert!((900_000_000..=1_000_000_000).contains(&ttl), "{ttl}");
    }
}

#[test]
fn streams_and_functions_are_read() {
    let Some(redis) = Program::redis() else { return };
    let server = redis.start(&OPTIONS);
    let mut connection = server.connect();
    connection.words("SET a b");
    for words in [
        "XADD stream 1-1 field value",
        "XADD stream 1-2 field value other value",
        "XADD stream 1-3 field value",
        "XDEL stream 1-2",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
        "XREADGROUP GROUP group other COUNT 1 STREAMS stream >",
        "XADD empty 5-0 field value",
        "XTRIM empty MAXLEN 0",
        "SET c d",
        "DEL c",
    ] {
        assert!(!connection.words(words).is_error(), "{words}");
    }
    let code = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    assert_eq!(connection.call(&["FUNCTION", "LOAD", code]).unwrap().text(), "lib");
    assert_eq!(connection.words("SAVE").text(), "OK");
    let digest = digest_of(&mut connection);
    let file = server.directory().join("dump.rdb");
    let shown = good(&rdb(&["check"], &[&file]));
    assert!(shown.contains("database 0: 3 keys, 0 expire: string 1, stream 2"), "{shown}");
    assert!(shown.contains("libraries of functions: 1"), "{shown}");
    let output = rdb(&["digest"], &[&file]);
    assert_eq!(good(&output).trim_end(), digest);
    good(&rdb(&["diff"], &[&file, &file]));
    let before = server.directory().join("before.rdb");
    std::fs::copy(&file, &before).unwrap();
    // What a group knows counts, too.
    connection.words("XACK stream group 1-1");
    assert_eq!(connection.words("SAVE").text(), "OK");
    let output = rdb(&["diff"], &[&before, &file]);
    assert!(text(&output.stdout).contains("differs: database 0 key \"stream\""));
}

#[test]
fn what_differs_is_named() {
    let Some((server, first, _)) = saved(&[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let second = directory.path().join("second.rdb");
    let mut connection = server.connect();
    let save = |connection: &mut Connection, to: &Path| {
        assert_eq!(connection.words("SAVE").text(), "OK");
        std::fs::copy(&first, to).unwrap();
    };
    let before = directory.path().join("before.rdb");
    std::fs::copy(&first, &before).unwrap();
    // The same data, in another order.
    connection.words("DEBUG RELOAD");
    save(&mut connection, &second);
    good(&rdb(&["diff"], &[&before, &second]));
    for words in [
        "SELECT 5",
        "HSET hash:mixed another field",
        "PERSIST list:mixed",
        "DEL zset:ends",
        "SET new:key value",
        "MOVE set:short 6",
    ] {
        connection.words(words);
    }
    save(&mut connection, &second);
    let said = bad(&rdb(&["diff"], &[&before, &second]));
    let mut lines: Vec<&str> = said.lines().collect();
    let summary = lines.pop().unwrap();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "differs: database 5 key \"hash:mixed\"",
            "differs: database 5 key \"list:mixed\"",
            "only in the first: database 5 key \"set:short\"",
            "only in the first: database 5 key \"zset:ends\"",
            "only in the second: database 5 key \"new:key\"",
            "only in the second: database 6 key \"set:short\"",
        ]
    );
    assert!(summary.ends_with("2 differ, 2 are only in the first dump, 2 only in the second"));
    connection.words("FLUSHALL");
    for number in 0..250 {
        connection.words(&format!("SET {number} x"));
    }
    save(&mut connection, &second);
    let said = bad(&rdb(&["diff"], &[&second, &before]));
    assert!(said.lines().filter(|line| line.starts_with("only in")).count() == 100, "{said}");
    assert!(said.contains(" more\n"), "{said}");
}

#[test]
fn a_dump_that_is_damaged_is_named_with_the_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump.rdb");
    let mut writer = Writer::begin(Vec::new(), WriteOptions::default()).unwrap();
    let key = Key {
        key: b"k",
        kind: Kind::String,
        count: None,
        expires_at_ms: None,
        idle_s: None,
        frequency: None,
    };
    writer.key(&key).unwrap();
    writer.string(b"value").unwrap();
    writer.end_of_key().unwrap();
    let dump = writer.finish().unwrap();
    std::fs::write(&file, &dump).unwrap();
    good(&rdb(&["check"], &[&file]));
    let too_long = bad(&rdb(&["check", "--string-bytes-max", "4"], &[&file]));
    assert!(too_long.contains("at most 4 are read"), "{too_long}");
    let mut flipped = dump.clone();
    flipped[14] ^= 1;
    for (bytes, says) in [
        (&flipped[..], "is damaged at byte 27: its bytes do not add up to its checksum"),
        (&dump[..20], "is damaged at byte 20: it ends before its end mark"),
        (b"no dump at all", "begins with \"no dump a\""),
    ] {
        std::fs::write(&file, bytes).unwrap();
        for action in ["check", "digest"] {
            let said = bad(&rdb(&[action], &[&file]));
            assert!(said.contains(&format!("{} {says}", file.display())), "{said}");
        }
        bad(&rdb(&["diff"], &[&file, &file]));
    }
    let missing = bad(&rdb(&["check"], &[&directory.path().join("none")]));
    assert!(missing.contains("cannot open"), "{missing}");
}

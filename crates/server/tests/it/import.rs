//! Imports: what is refused, what is made, and what is there after a crash at any moment.

use std::path::Path;
use std::sync::Arc;

use env::{Access, Disk};
use env_sim::sweep::{self, Damage};
use env_sim::{SimClock, SimDisk};
use keyspace::{Keyspace, NoJournal};
use rdb::{Key, Kind, Version, WriteOptions, Writer};
use server::config::Config;
use server::import::{Source, Stage, Target, check, is_unfinished};

use crate::import_disk::{
    Data, FINISHED, NOW_MS, check_at, config, data, data_of, disk_with, import, import_into,
};

fn key(name: &[u8], kind: Kind, count: Option<u64>, expires_at_ms: Option<i64>) -> Key<'_> {
    Key { key: name, kind, count, expires_at_ms, idle_s: None, frequency: None }
}

/// A dump with every type, in two databases, one key of which has expired.
fn dump() -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), WriteOptions::default()).unwrap();
    writer.aux(b"redis-ver", b"7.0.15").unwrap();
    writer.database(0).unwrap();
    for (name, value, expires_at_ms) in [
        (&b"greeting"[..], &b"hello, world"[..], None),
        (b"number", b"42", Some(NOW_MS + 1_000_000)),
        (b"gone", b"over", Some(NOW_MS - 1)),
        (b"long", &[b'x'; 5000], None),
    ] {
        writer.key(&key(name, Kind::String, None, expires_at_ms)).unwrap();
        writer.string(value).unwrap();
        writer.end_of_key().unwrap();
    }
    writer.database(3).unwrap();
    writer.key(&key(b"list", Kind::List, Some(60), None)).unwrap();
    (0..60).for_each(|n| writer.item(format!("item {n}").as_bytes()).unwrap());
    writer.end_of_key().unwrap();
    writer.key(&key(b"set", Kind::Set, Some(40), Some(NOW_MS + 5))).unwrap();
    (0..40).for_each(|n| writer.member(format!("member {n}").as_bytes()).unwrap());
    writer.end_of_key().unwrap();
    writer.key(&key(b"zset", Kind::ZSet, Some(2), None)).unwrap();
    writer.scored(b"a", 1.5).unwrap();
    writer.scored(b"b", f64::INFINITY).unwrap();
    writer.end_of_key().unwrap();
    writer.key(&key(b"hash", Kind::Hash, Some(30), None)).unwrap();
    for n in 0..30 {
        let (name, value) = (format!("field {n}"), format!("value {n}"));
        writer.field(name.as_bytes(), value.as_bytes(), None).unwrap();
    }
    writer.end_of_key().unwrap();
    writer.finish().unwrap()
}

/// Commands as an AOF has them.
fn aof(commands: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        if command.starts_with('#') {
            bytes.extend_from_slice(format!("{command}\r\n").as_bytes());
            continue;
        }
        let words: Vec<&str> = command.split(' ').collect();
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }
    bytes
}

/// As text, a key a line.
fn lines(data: &Data) -> Vec<String> {
    data.iter().map(|((db, key), value)| format!("{db} {key} {value}")).collect()
}

const DUMP: &str = "/redis/dump.rdb";
const AOF: &str = "/redis/appendonly.aof";

/// What is there after these files were imported; what they are given as.
fn imported(files: &[(&str, &[u8])], source: &str, options: &[&str]) -> Vec<String> {
    let disk = disk_with(files);
    let config = config(options);
    import(&disk, source, &config).map_err(|error| error.to_string()).unwrap();
    lines(&data(&disk, &config).unwrap())
}

/// Why these files are refused; then there is nothing.
fn refused(files: &[(&str, &[u8])], source: &str, options: &[&str]) -> String {
    let disk = disk_with(files);
    let config = config(options);
    let Err(error) = import(&disk, source, &config) else { panic!("{source} was not refused") };
    assert_eq!(data(&disk, &config), None, "{error}");
    assert_nothing_is_left(&disk);
    error.to_string()
}

fn assert_nothing_is_left(disk: &SimDisk) {
    let left = disk.list(Path::new("/data")).unwrap_or_default();
    assert!(left.iter().all(|name| name == "redo.lock"), "{left:?}");
}

#[test]
fn a_dump_is_imported_without_what_has_expired() {
    let disk = disk_with(&[(DUMP, &dump())]);
    let config = config(&[]);
    let built = import(&disk, DUMP, &config).map_err(|error| error.to_string()).unwrap();
    assert_eq!(
        built.report.lines()[..3],
        [
            "database 0: 3 keys, 1 expire: string 3",
            "database 3: 4 keys, 1 expire: list 1, set 1, zset 1, hash 1",
            "keys that have expired, left out: 1",
        ]
    );
    let found = lines(&data(&disk, &config).unwrap());
    assert_eq!(found.len(), 7);
    assert_eq!(found[0], "0 greeting string hello, world");
    assert_eq!(found[2], format!("0 number string 42 until {}", NOW_MS + 1_000_000));
    assert_eq!(found[6], "3 zset zset a 1.5,b inf");
    assert!(found[4].starts_with("3 list list item 0,item 1,") && found[4].ends_with(",item 59"));
    assert!(found[5].ends_with(&format!(" until {}", NOW_MS + 5)), "{}", found[5]);
    assert_eq!(disk.list(Path::new("/data")).unwrap(), ["redo", "redo.lock", "redo.manifest"]);
}

#[test]
fn a_keyspace_without_a_log_can_be_filled() {
    let disk = disk_with(&[(DUMP, &dump())]);
    let config = config(&[]);
    let source = Source::open(&disk, Path::new(DUMP)).ok().unwrap();
    let checked = check(&source, &config, &mut |_| {}).ok().unwrap();
    let keyspace = Keyspace::new(NoJournal, [3; 16], 16);
    let mut target = Target::in_memory(keyspace, Arc::new(SimClock::new(NOW_MS)));
    assert_eq!(target.fill(&source, &checked, &mut |_| {}).ok().unwrap().keys(), 7);
    let filled = data_of(&mut target.into_keyspace());
    import(&disk, DUMP, &config).ok().unwrap();
    assert_eq!(Some(filled), data(&disk, &config));
}

#[test]
fn the_commands_of_an_aof_are_executed_in_order() {
    let file = aof(&[
        "#TS:1700000000",
        "SELECT 0",
        "SET a 1",
        "MULTI",
        "INCR a",
        "RPUSH l x y",
        "EXEC",
        "SELECT 2",
        "SADD s m",
        "#TS:1700000001",
        "SWAPDB 2 4",
        "SET gone x",
        "FLUSHDB",
        "SELECT 4",
        "HSET h f v",
        "PUBLISH c m",
        "DEL nothing",
    ]);
    assert_eq!(
        imported(&[(AOF, &file)], AOF, &[]),
        ["0 a string 2", "0 l list x,y", "4 h hash f=v", "4 s set m"]
    );
}

#[test]
fn keys_do_not_expire_while_an_aof_is_loaded() {
    let past = NOW_MS - 1000;
    let file = aof(&[
        // It had not expired when the commands were executed first.
        &format!("SET a 1 PXAT {past}"),
        "INCR a",
        "PERSIST a",
        &format!("SET b 1 PXAT {past}"),
        "RENAME b c",
        "SET d 1",
        &format!("PEXPIREAT d {past}"),
        &format!("PEXPIREAT d {}", NOW_MS + 1000),
        // What counts from now counts from when it is loaded, as in Redis.
        "SET e 1 EX 10",
    ]);
    assert_eq!(
        imported(&[(AOF, &file)], AOF, &[]),
        [
            "0 a string 2".to_owned(),
            format!("0 d string 1 until {}", NOW_MS + 1000),
            format!("0 e string 1 until {}", NOW_MS + 10_000),
        ]
    );
}

#[test]
fn commands_may_follow_a_dump_and_find_its_keys() {
    let file = [dump(), aof(&["SELECT 0", "PERSIST gone", "APPEND greeting !"])].concat();
    // Its name need not say what it is.
    for name in [AOF, "/redis/data"] {
        let found = imported(&[(name, &file)], name, &[]);
        assert_eq!(found[..2], ["0 gone string over", "0 greeting string hello, world!"]);
        assert_eq!(found.len(), 8);
    }
}

const MANIFEST: &str = "/redis/appendonlydir/appendonly.aof.manifest";
const BASE: &str = "/redis/appendonlydir/a.1.base.rdb";
const FIRST: &str = "/redis/appendonlydir/a.1.incr.aof";
const SECOND: &str = "/redis/appendonlydir/a.2.incr.aof";
const FILES: &[u8] =
    b"file a.1.base.rdb seq 1 type b\nfile old seq 1 type h\nfile a.1.incr.aof seq 1 type i\n\
                       file a.2.incr.aof seq 2 type i\n";

#[test]
fn the_files_of_a_directory_are_loaded_in_their_order() {
    let (base, first, second) = (
        dump(),
        aof(&["SELECT 3", "DEL list set zset hash"]),
        aof(&["SET greeting hi", "SET new 1"]),
    );
    // Redis writes a manifest by that name before it replaces the one that counts.
    let unfinished = "/redis/appendonlydir/temp-appendonly.aof.manifest";
    let files = [
        (MANIFEST, FILES),
        (BASE, &base[..]),
        (FIRST, &first[..]),
        (SECOND, &second[..]),
        (unfinished, b"file"),
    ];
    for source in ["/redis/appendonlydir", MANIFEST] {
        let found = imported(&files, source, &[]);
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(found[0], "0 greeting string hi");
    }
    let missing = refused(&files[..3], "/redis/appendonlydir", &[]);
    assert!(missing.contains("a.2.incr.aof"), "{missing}");
}

/// What is left out refuses nothing.
#[test]
fn a_transaction_that_is_cut_off_may_have_what_is_not_served() {
    let file = aof(&["SET a 1", "MULTI", "SET b 2", "FCALL f 0"]);
    assert_eq!(imported(&[(AOF, &file)], AOF, &[]), ["0 a string 1"]);
    let error = refused(&[(AOF, &aof(&["FCALL f 0", "MULTI", "FCALL g 0"]))], AOF, &[]);
    assert!(error.contains("yet: 1 commands fcall;"), "{error}");
}

#[test]
fn the_end_of_the_last_file_may_be_cut_off() {
    let whole = aof(&["SET a 1", "SET b 2", "MULTI", "SET c 3", "SET d 4", "EXEC", "SET e 5"]);
    let all = ["0 a string 1", "0 b string 2", "0 c string 3", "0 d string 4", "0 e string 5"];
    let ends = [0, 1, 2, 2, 2, 2, 4, 5];
    for len in 0..=whole.len() {
        let commands = whole[..len].split(|byte| *byte == b'*').count() - 1;
        let part = &whole[..len];
        let complete = (0..=commands.min(7))
            .rev()
            .find(|n| {
                aof(&["SET a 1", "SET b 2", "MULTI", "SET c 3", "SET d 4", "EXEC", "SET e 5"][..*n])
                    .len()
                    <= len
            })
            .unwrap();
        let found = imported(&[(AOF, part)], AOF, &[]);
        assert_eq!(found, all[..ends[complete]], "{len}");
        let is_cut =
            aof(&["SET a 1", "SET b 2", "MULTI", "SET c 3", "SET d 4", "EXEC", "SET e 5"]
                [..complete])
            .len()
                != len
                || (3..6).contains(&complete);
        let disk = disk_with(&[(AOF, part)]);
        let checked = check_at(&disk, AOF, &config(&[])).ok().unwrap();
        assert_eq!(checked.warnings.len(), usize::from(is_cut), "{len}");
        if is_cut {
            let error = refused(&[(AOF, part)], AOF, &["--aof-load-truncated", "no"]);
            assert!(error.contains("aof-load-truncated yes"), "{error}");
            // Not of a file that is not the last one.
            let files = [
                (
                    MANIFEST,
                    &b"file a.1.incr.aof seq 1 type i\nfile a.2.incr.aof seq 2 type i\n"[..],
                ),
                (FIRST, part),
                (SECOND, &whole[..]),
            ];
            let error = refused(&files, "/redis/appendonlydir", &[]);
            assert!(error.contains("only the last file may"), "{error}");
        }
    }
}

#[test]
fn libraries_of_a_transaction_that_does_not_end_are_left_out() {
    let load = "FUNCTION LOAD #!lua\tname=a\nredis.register_function('f',function()end)";
    let commands = ["SET a 1", "MULTI", load, "SET b 2", "EXEC"];
    for (count, keys) in [(3, 1), (4, 1), (5, 2)] {
        let part = aof(&commands[..count]);
        assert_eq!(imported(&[(AOF, &part[..])], AOF, &[]).len(), keys);
    }
}

#[test]
fn fields_keep_the_times_at_which_they_expire() {
    let options = WriteOptions { version: Version::Redis(12), ..WriteOptions::default() };
    let mut writer = Writer::begin(Vec::new(), options).unwrap();
    let goes = NOW_MS + 1;
    for name in [&b"one"[..], b"two"] {
        writer.hash_with_times(&key(name, Kind::Hash, Some(2), None)).unwrap();
        writer.field(b"stays", b"1", None).unwrap();
        writer.field(b"goes", b"1", Some(goes)).unwrap();
        writer.end_of_key().unwrap();
    }
    let file = writer.finish().unwrap();
    let hash = |name: &str| format!("0 {name} hash goes=1 until {goes},stays=1");
    assert_eq!(imported(&[(DUMP, &file)], DUMP, &[]), [hash("one"), hash("two")]);
    let file = aof(&[
        "HSET one stays 1 goes 0",
        &format!("HPEXPIREAT one {goes} FIELDS 1 goes"),
        // As Redis 8 writes HINCRBYFLOAT.
        "HSETEX one KEEPTTL FIELDS 1 goes 1",
        &format!("HSETEX two PXAT {goes} FIELDS 1 goes 1"),
        "HSET two stays 1 gone 2",
        // It had not expired when the commands were executed first.
        "HPEXPIREAT two 1 FIELDS 1 gone",
        "HDEL two gone",
    ]);
    assert_eq!(imported(&[(AOF, &file)], AOF, &[]), [hash("one"), hash("two")]);
}

#[test]
fn what_is_not_served_is_refused_with_counts_or_left_out() {
    let skip: &[&str] = &["--import-skip-unknown", "yes"];
    // RESTORE of an empty stream, and of a string, as Redis 7.0 has them.
    let payload = rdb::encode(&rdb::Value::String(b"1".to_vec()));
    let restore = |name: &str, key: &str, payload: &[u8]| {
        let head = format!("*4\r\n${}\r\n{name}\r\n$1\r\n{key}\r\n$1\r\n0\r\n", name.len());
        let len = format!("${}\r\n", payload.len());
        [head.as_bytes(), len.as_bytes(), payload, b"\r\n"].concat()
    };
    let mut foreign = payload[..payload.len() - 10].to_vec();
    foreign[0] = 28;
    let foreign = rdb::seal(foreign);
    let file = [
        restore("RESTORE-ASKING", "a", &payload),
        restore("RESTORE", "b", &payload),
        restore("RESTORE-ASKING", "c", &foreign),
        aof(&["NOSUCH x"]),
    ];
    assert_eq!(imported(&[(AOF, &file.concat())], AOF, skip), ["0 a string 1", "0 b string 1"]);
    let error = refused(&[(AOF, &file[..3].concat())], AOF, &[]);
    assert!(error.contains("1 commands restore of a type that is not served"), "{error}");
    let file = aof(&["VSIM p 1", "SET a 1", "VSIM p 1", "VADD p VALUES 1 1 m", "SCRIPT LOAD x"]);
    let error = refused(&[(AOF, &file)], AOF, &[]);
    assert!(error.contains("1 commands vadd, 2 commands vsim"), "{error}");
    assert_eq!(imported(&[(AOF, &file)], AOF, skip), ["0 a string 1"]);
}

#[test]
fn commands_that_cannot_be_executed_are_named_with_their_place() {
    let good = aof(&["SET a 1"]);
    let error = refused(&[(AOF, &aof(&["NOSUCH x y"]))], AOF, &[]);
    assert!(error.contains("NOSUCH x y is unknown"), "{error}");
    for (bad, says) in [
        ("INCR", "wrong number of arguments"),
        ("LPUSH a x", "LPUSH a x fails: WRONGTYPE"),
        ("EXEC", "stands in no transaction"),
        ("CONFIG SET maxmemory 1", "is one that no AOF has"),
        ("SELECT x", "names no database"),
        ("RENAME none other", "fails: ERR no such key"),
    ] {
        let error = refused(
            &[(AOF, &[good.clone(), aof(&[bad])].concat())],
            AOF,
            &["--import-skip-unknown", "yes"],
        );
        assert!(
            error.contains(&format!("{AOF}, byte 27: the command ")) && error.contains(says),
            "{error}"
        );
    }
    let error = refused(&[(AOF, &aof(&["MULTI", "SET a 1", "MULTI"]))], AOF, &[]);
    assert!(error.contains("stands in a transaction"), "{error}");
    let error = refused(&[(AOF, &[&good[..], b"\0\0\0"].concat())], AOF, &[]);
    assert!(error.contains("damaged at byte 27") && error.contains("redis-check-aof"), "{error}");
}

#[test]
fn databases_that_there_are_not_are_refused_with_their_number() {
    let error = refused(&[(DUMP, &dump())], DUMP, &["--databases", "3"]);
    assert!(
        error.contains("keys in database 3, and there are 3") && error.contains("--databases 4"),
        "{error}"
    );
    let error = refused(&[(AOF, &aof(&["SELECT 99", "SET a 1"]))], AOF, &[]);
    assert!(error.contains("--databases 100"), "{error}");
}

#[test]
fn what_stands_twice_in_a_dump_is_refused_by_name() {
    let write = |fill: &dyn Fn(&mut Writer<Vec<u8>>)| {
        let mut writer = Writer::begin(Vec::new(), WriteOptions::default()).unwrap();
        fill(&mut writer);
        writer.finish().unwrap()
    };
    let string = |writer: &mut Writer<Vec<u8>>| {
        writer.key(&key(b"twin", Kind::String, None, None)).unwrap();
        writer.string(b"1").unwrap();
        writer.end_of_key().unwrap();
    };
    let set = |writer: &mut Writer<Vec<u8>>, members: [&[u8]; 2]| {
        writer.key(&key(b"twin", Kind::Set, Some(2), None)).unwrap();
        members.iter().for_each(|member| writer.member(member).unwrap());
        writer.end_of_key().unwrap();
    };
    for (file, what) in [
        (write(&|writer| (0..2).for_each(|_| string(writer))), "a key"),
        (
            write(&|writer| {
                string(writer);
                set(writer, [b"a", b"b"]);
            }),
            "a key",
        ),
        (
            write(&|writer| {
                set(writer, [b"a", b"b"]);
                string(writer);
            }),
            "a key",
        ),
        (
            write(&|writer| {
                set(writer, [b"a", b"b"]);
                set(writer, [b"c", b"d"]);
            }),
            "a key",
        ),
        (write(&|writer| set(writer, [b"a", b"a"])), "an element"),
    ] {
        let error = refused(&[(DUMP, &file)], DUMP, &[]);
        assert!(
            error.contains(&format!("has {what} that stands twice")) && error.contains("'twin'"),
            "{error}"
        );
    }
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_dump_is_refused() {
    let dump = dump();
    let disk = disk_with(&[(DUMP, &dump)]);
    let image = sweep::image_of(&disk, &[Path::new("/redis")]);
    let config = config(&[]);
    for damage in sweep::damages(&image, 1) {
        if matches!(damage, Damage::Lose { .. }) {
            continue;
        }
        let damaged = damage.on(&image);
        let error = check_at(&damaged, DUMP, &config).err();
        assert!(error.is_some(), "{damage:?}");
        assert!(damaged.list(Path::new("/data")).is_err(), "{damage:?}");
    }
}

#[test]
fn a_dump_without_a_checksum_is_imported_and_said() {
    let mut dump = dump();
    let end = dump.len() - 8;
    dump[end..].fill(0);
    let disk = disk_with(&[(DUMP, &dump)]);
    let built = import(&disk, DUMP, &config(&[])).ok().unwrap();
    assert!(built.report.lines()[0].contains("has no checksum"), "{:?}", built.report.lines());
}

#[test]
fn what_is_nothing_to_import_is_said() {
    let nothing: &[(&str, &[u8])] =
        &[("/redis/other", b"what?"), ("/two/a.manifest", b"x"), ("/two/b.manifest", b"x")];
    for (source, says) in [
        ("/none", "not found"),
        ("/redis", "without the manifest of an AOF"),
        ("/two", "several manifests"),
        ("/redis/other", "no command begins there"),
        ("/two/a.manifest", "line 1"),
    ] {
        let error = refused(nothing, source, &[]);
        assert!(error.contains(says), "{source}: {error}");
    }
}

#[test]
fn a_log_that_is_there_is_not_touched() {
    let disk = disk_with(&[(DUMP, &dump()), (AOF, &aof(&["SET a 1"]))]);
    let config = config(&[]);
    import(&disk, DUMP, &config).ok().unwrap();
    let before = data(&disk, &config);
    let error = import(&disk, AOF, &config).err().unwrap().to_string();
    assert!(error.contains("holds a redo log"), "{error}");
    assert_eq!(data(&disk, &config), before);
}

/// The files of a directory that is imported, and nothing else.
fn start() -> SimDisk {
    disk_with(&[
        (MANIFEST, FILES),
        (BASE, &dump()),
        (FIRST, &aof(&["SELECT 3", "DEL list"])),
        (SECOND, &aof(&["SET new 1"])),
    ])
}

const DIRECTORY: &str = "/redis/appendonlydir";

/// Ends an import of these files at any moment: it has made a log with all of the data, or none; then the next
/// one makes it. Returns how many moments there are.
fn crash_everywhere(start: &SimDisk, config: &Config) -> u64 {
    let sources = sweep::image_of(start, &[Path::new(DIRECTORY)]);
    let whole = start.fork();
    import(&whole, DIRECTORY, config).map_err(|error| error.to_string()).unwrap();
    let expected = data(&whole, config);
    let (mut before, mut after) = (0, 0);
    let ios = sweep::crash_everywhere(
        start,
        |disk| import(disk, DIRECTORY, config).is_ok(),
        |disk, is_done| {
            assert_eq!(sweep::image_of(disk, &[Path::new(DIRECTORY)]), sources);
            let is_there = redo::is_there(disk, Path::new("/data"));
            assert!(is_there || !is_done, "what was said to be done is gone");
            // What is there is not looked at before the next one has removed what is left.
            let next =
                import(disk, DIRECTORY, config).map(|_| ()).map_err(|error| error.to_string());
            if is_there {
                after += 1;
                assert!(next.unwrap_err().contains("holds a redo log"));
            } else {
                before += 1;
                next.unwrap();
            }
            assert_eq!(data(disk, config), expected);
            assert!(!is_unfinished(disk, Path::new("/data")));
            assert!(!disk.exists(Path::new("/data/import-tmp")).unwrap());
        },
    );
    assert!(ios > 30 && before > 30 && after > 3, "{ios} {before} {after}");
    ios
}

/// The same, and the same again of the import that follows one which ended late.
fn survives_every_crash(options: &[&str]) {
    let config = config(options);
    let ios = crash_everywhere(&start(), &config);
    let ended_at = |n_ios| {
        let disk = start();
        disk.crash_at(n_ios, true);
        assert!(import(&disk, DIRECTORY, &config).is_err());
        disk.restart();
        (!redo::is_there(&disk, Path::new("/data"))).then_some(disk)
    };
    let last = (1..ios).rev().find_map(&ended_at);
    for disk in [ended_at(ios / 2), ended_at(ios * 3 / 4), last] {
        crash_everywhere(&disk.unwrap(), &config);
    }
}

#[test]
fn an_import_survives_every_crash() {
    survives_every_crash(&[]);
}

#[test]
fn an_import_onto_other_devices_survives_every_crash() {
    survives_every_crash(&["--log-devices", "/disk1/redo", "/disk2/redo"]);
}

#[test]
fn files_of_others_on_the_devices_stay() {
    let disk = disk_with(&[(DUMP, &dump()), ("/disk1/redo/notes", b"mine")]);
    let config = config(&["--log-devices", "/disk1/redo"]);
    for n_ios in [20, 30, 35, 40] {
        let disk = disk.fork();
        disk.crash_at(n_ios, true);
        let _crashed = import(&disk, DUMP, &config);
        disk.restart();
        import(&disk, DUMP, &config).ok().unwrap();
        assert!(disk.open(Path::new("/disk1/redo/notes"), Access::Read).is_ok());
    }
    // A device of another database is refused before anything is made on it.
    import(&disk, DUMP, &config).ok().unwrap();
    let other = sweep::image_of(&disk, &[Path::new("/disk1/redo"), Path::new("/redis")]);
    let disk = sweep::disk_of(&other);
    let error = import(&disk, DUMP, &config).err().unwrap().to_string();
    assert!(error.contains("/disk1/redo"), "{error}");
    assert_eq!(sweep::image_of(&disk, &[Path::new("/disk1/redo"), Path::new("/redis")]), other);
}

/// Copies everything below a directory.
fn copy(disk: &SimDisk, from: &str, to: &str) {
    disk.create_dir_all(Path::new(to)).unwrap();
    for name in disk.list(Path::new(from)).unwrap() {
        let name = name.to_str().unwrap();
        let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
        if disk.list(Path::new(&from)).is_ok() {
            copy(disk, &from, &to);
        } else {
            put(disk, &to, &read(disk, &from));
        }
    }
}

fn read(disk: &SimDisk, path: &str) -> Vec<u8> {
    let file = disk.open(Path::new(path), Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Makes a file, which takes the place of one of that name.
fn put(disk: &SimDisk, path: &str, bytes: &[u8]) {
    let new = format!("{path}.new");
    disk.create(Path::new(&new)).unwrap().write_all_at(bytes, 0).unwrap();
    disk.rename(Path::new(&new), Path::new(path)).unwrap();
}

/// An import into `/data` that ended in the middle, a copy of that directory in `/copy`, and the log that
/// the next import has made in `/data`.
fn copied_in_the_middle(config: &Config) -> SimDisk {
    for n_ios in (30..60).rev() {
        let disk = disk_with(&[(DUMP, &dump())]);
        disk.crash_at(n_ios, true);
        if import(&disk, DUMP, config).is_ok() {
            continue;
        }
        disk.restart();
        if !redo::is_there(&disk, Path::new("/data")) {
            assert!(redo::is_there(&disk, Path::new("/data/import-tmp")), "{n_ios}");
            copy(&disk, "/data", "/copy");
            import(&disk, DUMP, config).ok().unwrap();
            return disk;
        }
    }
    panic!("no import ended in the middle");
}

#[test]
fn a_copy_of_an_unfinished_import_takes_nothing_from_the_original() {
    let config_here = config(&[]);
    let disk = copied_in_the_middle(&config_here);
    let before = data(&disk, &config_here).unwrap();
    import_into(&disk, DUMP, "/copy", &config_here, &mut |_| {}).ok().unwrap();
    assert_eq!(data(&disk, &config_here), Some(before));
    assert!(redo::is_there(&disk, Path::new("/copy")));
    assert!(disk.list(Path::new("/copy/redo")).unwrap().len() > 1);

    // Of devices elsewhere it is not known whose they are.
    let elsewhere = config(&["--log-devices", "/disk1/redo"]);
    let disk = copied_in_the_middle(&elsewhere);
    // As if the import in the middle had ended then.
    let (build, copy) = (Path::new("/copy/import-tmp"), Path::new("/copy"));
    let mut built = redo::manifest::Manifest::read(&disk, build).unwrap().unwrap();
    let published = redo::manifest::Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
    (built.database, built.devices) = (published.database, published.devices);
    built.write(&disk, build).unwrap();
    let before = data(&disk, &elsewhere).unwrap();
    let error = redo::discard(&disk, build, copy).unwrap_err().to_string();
    assert!(error.contains("was begun for another data directory"), "{error}");
    assert_eq!(data(&disk, &elsewhere), Some(before));
}

#[test]
fn a_log_that_lies_where_imports_are_made_is_not_removed() {
    let config = config(&[]);
    let disk = disk_with(&[(DUMP, &dump())]);
    import(&disk, DUMP, &config).ok().unwrap();
    copy(&disk, "/data", "/outer/import-tmp");
    let image = |disk: &SimDisk| sweep::image_of(disk, &[Path::new("/outer/import-tmp")]);
    let before = image(&disk);
    let error = import_into(&disk, DUMP, "/outer", &config, &mut |_| {}).err().unwrap();
    assert!(error.to_string().contains("a redo log that no import has begun"), "{error}");
    assert_eq!(image(&disk), before);
    // Nor one that is being made.
    let (build, dir) = (Path::new("/new/import-tmp"), Path::new("/new"));
    redo::begin(&disk, build, dir, &[]).unwrap();
    let held = redo::lock(&disk, build).unwrap();
    assert!(redo::discard(&disk, build, dir).is_err());
    drop(held);
    redo::discard(&disk, build, dir).unwrap();
    assert!(disk.list(dir).unwrap().is_empty());
    // What is gone is not published.
    assert!(redo::publish(&disk, build, dir).is_err());
}

#[test]
fn the_threads_of_a_log_have_ended_before_its_files_are_removed() {
    for wrong in ["LPOP a", "SET b 1"] {
        let before = FINISHED.get();
        let error = imported_while(wrong);
        assert_eq!((error.is_some(), FINISHED.get()), (wrong == "LPOP a", before + 1), "{error:?}");
    }
}

/// Why a file with this command is not imported.
fn imported_while(command: &str) -> Option<String> {
    let disk = disk_with(&[(AOF, &aof(&["SET a 1", command]))]);
    import(&disk, AOF, &config(&[])).err().map(|error| error.to_string())
}

/// Whether it is noticed that files of that name are changed between the two passes.
fn assert_noticed(files: &[(&str, &[u8])], name: &str, change: &dyn Fn(&SimDisk)) {
    let disk = disk_with(files);
    let mut is_changed = false;
    let mut tell = |so_far: server::import::Progress| {
        if so_far.stage == Stage::Loading && !std::mem::replace(&mut is_changed, true) {
            change(&disk);
        }
    };
    let error = import_into(&disk, DIRECTORY, "/data", &config(&[]), &mut tell).err();
    let error = error.unwrap_or_else(|| panic!("{name} was not noticed")).to_string();
    assert!(error.contains(name) && error.contains("changed while it was imported"), "{error}");
    assert_eq!(data(&disk, &config(&[])), None);
    assert_nothing_is_left(&disk);
}

fn overwrite(disk: &SimDisk, path: &str, bytes: &[u8]) {
    disk.open(Path::new(path), Access::ReadWrite).unwrap().write_all_at(bytes, 0).unwrap();
}

#[test]
fn files_that_change_while_they_are_imported_are_noticed() {
    let (first, second) = (aof(&["SET a 1", "SET b 1"]), aof(&["SET c 1"]));
    let files = [(MANIFEST, FILES), (BASE, &dump()), (FIRST, &first[..]), (SECOND, &second[..])];
    let longer = [&second[..], &second[..]].concat();
    assert_noticed(&files, "a.2.incr.aof", &|disk| overwrite(disk, SECOND, &longer));
    assert_noticed(&files, "a.2.incr.aof", &|disk| put(disk, SECOND, &second));
    assert_noticed(&files, "appendonly.aof.manifest", &|disk| put(disk, MANIFEST, FILES));
}

/// Of which the file system tells nothing.
#[test]
fn a_second_pass_that_finds_something_else_is_noticed() {
    let (first, second) = (aof(&["SET a 1", "SET b 1"]), aof(&["SET c 1"]));
    let files = [(MANIFEST, FILES), (BASE, &dump()), (FIRST, &first[..]), (SECOND, &second[..])];
    // An annotation in place of a command.
    let mut fewer = vec![b'#'; second.len()];
    *fewer.last_mut().unwrap() = b'\n';
    assert_noticed(&files, "appendonlydir", &|disk| overwrite(disk, SECOND, &fewer));
    // A length that is longer than the file.
    let mut cut = first.clone();
    let at = cut.len() - 4;
    assert_eq!(&cut[at..], b"\n1\r\n");
    cut[at - 2] = b'9';
    assert_noticed(&files, "a.1.incr.aof", &|disk| overwrite(disk, FIRST, &cut));
}

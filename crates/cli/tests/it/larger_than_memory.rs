//! Data that is larger than `maxmemory`: values leave memory, and nothing of that is seen but in INFO.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::instant_start::info;
use crate::log_index::wait_for_a_cut;
use crate::process::{Program, Server, wait_until};
use crate::wire::{Connection, encode};

const KEYS: usize = 60_000;
const MAX_BYTES: u64 = 30 << 20;
const OPTIONS: [&str; 4] = ["--maxmemory", "30mb", "--maxmemory-policy", "cold-lfu"];

fn value(number: usize) -> String {
    format!("{number}:{}", "v".repeat(1000))
}

/// Writes twice as much as memory may hold.
fn fill(connection: &mut Connection) {
    let numbers: Vec<usize> = (0..KEYS).collect();
    for numbers in numbers.chunks(500) {
        let set = |number: &usize| encode(&["SET", &format!("key:{number}"), &value(*number)]);
        connection.send_bytes(&numbers.iter().flat_map(set).collect::<Vec<u8>>()).unwrap();
        numbers.iter().for_each(|_| assert_eq!(connection.receive().unwrap().text(), "OK"));
    }
}

fn number_of(server: &Server, name: &str) -> u64 {
    info(server, name).parse().unwrap()
}

/// Whether every key is there, with little of the values in memory.
fn check(server: &Server) {
    let mut connection = server.connect();
    assert_eq!(connection.words("DBSIZE").text(), KEYS.to_string());
    for number in (0..KEYS).step_by(7) {
        assert_eq!(connection.words(&format!("GET key:{number}")).text(), value(number));
    }
    let cold = number_of(server, "cold_values") + number_of(server, "cold_keys");
    assert!(cold > KEYS as u64 / 3, "{cold} are cold");
    assert_eq!(number_of(server, "evicted_keys"), 0);
    assert_eq!(number_of(server, "cold_failures"), 0);
    // What one command brings in is dropped before a later one, and what a start reads ahead of it
    // is done with in time.
    wait_until(|| number_of(server, "used_memory") < MAX_BYTES + (1 << 20));
}

#[test]
fn data_may_be_larger_than_memory_whatever_the_start() {
    let index = ["--log-index", "yes", "--log-index-cut-bytes", "1mb"];
    let mut server = Program::indelible().start(&[&OPTIONS[..], &index].concat());
    fill(&mut server.connect());
    check(&server);
    for more in [&index[..], &["--log-index", "no"], &["--recovery", "full"]] {
        server.kill();
        server.restart_with(&[&OPTIONS[..], more].concat());
        check(&server);
        wait_until(|| info(&server, "recovery_state") == "done");
        check(&server);
    }
}

/// All keys by SCAN, each once.
fn scanned(connection: &mut Connection, count: usize) -> BTreeSet<String> {
    let (mut keys, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        let reply = connection.words(&format!("SCAN {cursor} COUNT {count}"));
        let [next, batch] = reply.elements() else { panic!("a cursor and keys") };
        for key in batch.elements() {
            assert!(keys.insert(key.text()), "{} is there twice", key.text());
        }
        cursor = next.text();
        if cursor == "0" {
            return keys;
        }
    }
}

fn check_names(server: &Server) {
    let mut connection = server.connect();
    let all: BTreeSet<String> = (0..KEYS).map(|number| format!("key:{number}")).collect();
    assert!(scanned(&mut connection, 1000) == all, "SCAN returns every key");
    let listed = connection.words("KEYS key:123*");
    assert_eq!(listed.elements().len(), 111);
    assert!(listed.elements().iter().all(|key| all.contains(&key.text())));
    for _ in 0..20 {
        assert!(all.contains(&connection.words("RANDOMKEY").text()));
    }
    let transaction = ["MULTI", "KEYS key:123*", "RANDOMKEY", "SCAN 0", "EXEC"];
    let replies = transaction.map(|words| connection.words(words));
    assert_eq!(replies[4].elements()[0].elements().len(), 111);
}

#[test]
fn keys_leave_memory_after_their_values() {
    let more =
        ["--log-index", "yes", "--log-index-cut-bytes", "1mb", "--cold-keys-maxmemory", "1mb"];
    let options = [&OPTIONS[..], &more].concat();
    let mut server = Program::indelible().start(&options);
    fill(&mut server.connect());
    // Only what the index knows goes, and only when there is no room for what is wanted.
    let mut from = 0..;
    wait_until(|| {
        let mut connection = server.connect();
        for number in (from.next().unwrap() % 5..KEYS).step_by(5) {
            assert_eq!(connection.words(&format!("GET key:{number}")).text(), value(number));
        }
        number_of(&server, "cold_keys") > KEYS as u64 / 3
    });
    for round in 0..3 {
        let mut connection = server.connect();
        assert_eq!(connection.words("DBSIZE").text(), KEYS.to_string());
        check_names(&server);
        for number in (0..KEYS).step_by(7) {
            assert_eq!(connection.words(&format!("GET key:{number}")).text(), value(number));
        }
        // What is cold is found, and what is not there is not.
        for number in (round..KEYS).step_by(501) {
            let key = format!("key:{number}");
            assert_eq!(connection.words(&format!("EXISTS {key} no:{key}")).text(), "1");
            assert_eq!(connection.words(&format!("SETNX {key} other")).text(), "0");
            assert_eq!(connection.words(&format!("RENAME {key} other:{key}")).text(), "OK");
            assert_eq!(connection.words(&format!("GET {key}")).text(), "");
            assert_eq!(connection.words(&format!("RENAME other:{key} {key}")).text(), "OK");
            assert_eq!(connection.words(&format!("GET {key}")).text(), value(number));
        }
        assert_eq!(number_of(&server, "cold_failures"), 0);
        assert_eq!(number_of(&server, "evicted_keys"), 0);
        server.kill();
        server.restart_with(&options);
        if round == 1 {
            wait_until(|| info(&server, "recovery_state") == "done");
        }
    }
    let mut connection = server.connect();
    assert_eq!(connection.words("DEL key:17").text(), "1");
    assert_eq!(connection.words("FLUSHALL").text(), "OK");
    assert_eq!(connection.words("DBSIZE").text(), "0");
    assert_eq!(connection.words("GET key:1").text(), "");
    assert_eq!(scanned(&mut connection, 10), BTreeSet::new());
    assert_eq!(connection.words("SET key:1 new").text(), "OK");
    let count = |name: &str| number_of(&server, &format!("redo_{name}_records"));
    // The databases' record and the key's: what was cold is garbage like all else.
    wait_until(|| {
        let all = number_of(&server, "redo_records");
        all - count("invalid") - count("delete") == 2
    });
    server.kill();
    server.restart_with(&options);
    assert_eq!(server.connect().words("DBSIZE").text(), "1");
    assert_eq!(server.connect().words("GET key:1").text(), "new");
}

/// As quickly as it can be filled: the log has no index yet, which values of more than one record need to leave.
#[test]
fn large_values_may_leave_memory_of_a_server_that_was_just_started() {
    for index in [&[][..], &["--log-index", "yes"]] {
        let server = Program::indelible().start(&[&OPTIONS[..], index].concat());
        let mut connection = server.connect();
        let value = |number: usize| format!("{number:08}").repeat(1 << 16);
        let key = |number: usize| format!("large:{number}");
        for number in 0..120 {
            let reply = connection.call(&["SET", &key(number), &value(number)]).unwrap();
            assert_eq!(reply.text(), "OK", "{number}");
        }
        for number in 0..120 {
            let found = connection.call(&["GET", &key(number)]).unwrap();
            assert!(found.text() == value(number), "{number}");
        }
        assert!(number_of(&server, "cold_values") > 30);
    }
}

/// There are no values to speak of: only keys can leave, and the log is too small to have an index for its own sake.
#[test]
fn keys_may_leave_memory_of_a_server_whose_log_is_small() {
    const KEYS: usize = 200_000;
    let options = ["--maxmemory", "10mb", "--maxmemory-policy", "cold-lfu"];
    let server = Program::indelible().start(&options);
    let mut connection = server.connect();
    let numbers: Vec<usize> = (0..KEYS).collect();
    for numbers in numbers.chunks(500) {
        let set = |number: &usize| encode(&["SET", &format!("key:{number:012}"), "1"]);
        connection.send_bytes(&numbers.iter().flat_map(set).collect::<Vec<u8>>()).unwrap();
        numbers.iter().for_each(|_| assert_eq!(connection.receive().unwrap().text(), "OK"));
    }
    assert!(server.log().contains("Memory is full, and an index"), "{}", server.log());
    assert_eq!(connection.words("DBSIZE").text(), KEYS.to_string());
    assert!(number_of(&server, "cold_keys") > KEYS as u64 / 4);
    for number in (0..KEYS).step_by(997) {
        assert_eq!(connection.words(&format!("GET key:{number:012}")).text(), "1");
    }
}

#[test]
fn nothing_is_written_when_values_leave_memory() {
    let server = Program::indelible().start(&OPTIONS);
    fill(&mut server.connect());
    let written = info(&server, "redo_open_lsn");
    let fetches = number_of(&server, "cold_fetches");
    check(&server);
    assert!(number_of(&server, "cold_fetches") > fetches + 1000);
    assert_eq!(info(&server, "redo_open_lsn"), written);
}

#[test]
fn what_needs_no_value_reads_none() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    fill(&mut connection);
    let fetched =
        || number_of(&server, "cold_fetches") + number_of(&server, "cold_blocking_fetches");
    let before = fetched();
    for number in (0..KEYS).step_by(50) {
        let of_key = |command: &str| format!("{command} key:{number}");
        assert_eq!(connection.words(&of_key("EXISTS")).text(), "1");
        assert_eq!(connection.words(&of_key("TYPE")).text(), "string");
        assert_eq!(connection.words(&of_key("TTL")).text(), "-1");
        match number % 4 {
            0 => assert_eq!(connection.words(&of_key("DEL")).text(), "1"),
            _ => assert_eq!(connection.words(&format!("SET key:{number} new")).text(), "OK"),
        }
    }
    assert_eq!(connection.words("DBSIZE").text(), (KEYS - KEYS / 100).to_string());
    assert_eq!(fetched(), before);
}

#[test]
fn one_request_does_not_take_all_of_the_memory() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    fill(&mut connection);
    let refused = connection.call(&get(KEYS)).unwrap().text();
    assert!(refused.starts_with("OOM the values that this command needs"), "{refused}");
    let values = connection.call(&get(5000)).unwrap();
    assert_eq!(values.elements()[4999].text(), value(4999));
    assert_eq!(connection.words("MULTI").text(), "OK");
    assert_eq!(connection.call(&get(KEYS)).unwrap().text(), "QUEUED");
    let refused = connection.words("EXEC").text();
    assert!(refused.starts_with("EXECABORT Transaction discarded because of: OOM"), "{refused}");
    check(&server);
}

/// A request for so many values.
fn get(count: usize) -> Vec<String> {
    let names = (0..count).map(|number| format!("key:{number}"));
    ["MGET".to_owned()].into_iter().chain(names).collect()
}

/// An index, and no key that comes back unasked.
const COLD: [&str; 6] =
    ["--log-index", "yes", "--log-index-cut-bytes", "1mb", "--debug-restore-delay-ms", "3600000"];

#[test]
fn requests_for_values_of_unknown_size_are_bounded_too() {
    let mut server = Program::indelible().start(&[&OPTIONS[..], &COLD].concat());
    fill(&mut server.connect());
    wait_for_a_cut(&server);
    server.kill();
    server.restart_with(&[&OPTIONS[..], &COLD].concat());
    assert_eq!(number_of(&server, "recovery_keys_cold"), KEYS as u64 + 1);
    let mut connection = server.connect();
    let refused = connection.call(&get(KEYS)).unwrap().text();
    assert!(refused.starts_with("OOM the values that this command needs"), "{refused}");
    // Half of the memory, what was on its way when that had come, and the request.
    let peak_bytes = number_of(&server, "used_memory_peak");
    assert!(peak_bytes < MAX_BYTES / 2 * 3, "{peak_bytes}");
    let left = number_of(&server, "recovery_keys_cold");
    assert!(left > KEYS as u64 / 2, "{left}");
    let values = connection.call(&get(5000)).unwrap();
    assert_eq!(values.elements()[4999].text(), value(4999));
    assert_eq!(connection.words("MULTI").text(), "OK");
    assert_eq!(connection.call(&get(KEYS)).unwrap().text(), "QUEUED");
    let refused = connection.words("EXEC").text();
    assert!(refused.starts_with("EXECABORT Transaction discarded because of: OOM"), "{refused}");
    assert_eq!(number_of(&server, "cold_fetched_bytes"), 0);
}

/// What INFO says of what was read for requests that wait: the most that it was while `run` went on.
fn most_fetched_while(server: &Server, run: impl FnOnce()) -> u64 {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(number_of(server, "cold_fetched_bytes"));
            }
            most
        });
        run();
        is_over.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    })
}

#[test]
fn requests_of_many_clients_are_answered_within_one_budget() {
    let mut server = Program::indelible().start(&[&OPTIONS[..], &COLD].concat());
    fill(&mut server.connect());
    wait_for_a_cut(&server);
    // Replies of 48 MB wait for clients that read later: more than the system takes, and than memory holds.
    for (count, is_size_known) in [(2000, true), (4000, false)] {
        let most_bytes = most_fetched_while(&server, || ask_by_many(&server, count));
        // A quarter of memory, and what the oldest request needs: its values with what they take besides their bytes, or
        // 128 that are on their way and may be of any size.
        let oldest_bytes = if is_size_known { count as u64 * 1300 } else { 128 << 18 };
        let bound_bytes = MAX_BYTES / 4 + oldest_bytes + 1;
        assert!((1..bound_bytes).contains(&most_bytes), "{most_bytes} of {bound_bytes}");
        wait_until(|| number_of(&server, "cold_fetched_bytes") == 0);
        assert_eq!(number_of(&server, "cold_fetching_clients"), 0);
        assert_eq!(number_of(&server, "cold_failures"), 0);
        // Once more with values of unknown size.
        server.kill();
        server.restart_with(&[&OPTIONS[..], &COLD].concat());
    }
}

/// Twelve clients ask for so many values each, all at a time; one of them goes, and another client asks for one value.
fn ask_by_many(server: &Server, count: usize) {
    let mut connections: Vec<Connection> = (0..12).map(|_| server.connect()).collect();
    for (number, connection) in connections.iter_mut().enumerate() {
        let names = (0..count).map(|it| format!("key:{}", number * 5000 + it));
        let request: Vec<String> = ["MGET".to_owned()].into_iter().chain(names).collect();
        connection.send(&request).unwrap();
    }
    // A client that is gone leaves nothing behind that others would wait for.
    drop(connections.remove(3));
    assert_eq!(server.connect().words("GET key:59999").text(), value(59_999));
    for (number, connection) in connections.iter_mut().enumerate() {
        let number = if number < 3 { number } else { number + 1 };
        let values = connection.receive().unwrap();
        assert_eq!(values.elements().len(), count, "{}", values.text());
        for (at, found) in values.elements().iter().enumerate() {
            assert!(found.text() == value(number * 5000 + at), "{number}: {at}");
        }
    }
}

/// Adds entries of so many milliseconds to the stream `s`.
fn add(connection: &mut Connection, times_ms: std::ops::Range<usize>) {
    let times_ms: Vec<usize> = times_ms.collect();
    for times_ms in times_ms.chunks(500) {
        let add = |ms: &usize| encode(&["XADD", "s", &format!("{ms}-1"), "field", &ms.to_string()]);
        connection.send_bytes(&times_ms.iter().flat_map(add).collect::<Vec<u8>>()).unwrap();
        for ms in times_ms {
            assert_eq!(connection.receive().unwrap().text(), format!("{ms}-1"));
        }
    }
}

#[test]
fn an_addition_to_a_stream_of_the_log_reads_its_end() {
    const ENTRIES: usize = 100_000;
    let mut server = Program::indelible().start(&COLD);
    add(&mut server.connect(), 1..ENTRIES);
    assert_eq!(server.connect().words("XGROUP CREATE s g 0").text(), "OK");
    wait_for_a_cut(&server);
    let mut next = ENTRIES;
    for more in [1, 3000, 20] {
        server.kill();
        server.restart();
        let mut connection = server.connect();
        let low = connection.words("XADD s 1-1 field x").text();
        assert!(low.contains("equal or smaller than the target stream top item"), "{low}");
        add(&mut connection, next..next + more);
        next += more;
        let usage: usize = connection.words("MEMORY USAGE s").text().parse().unwrap();
        assert!(usage < 5_000 + more * 60, "{usage} bytes for {more} entries");
        assert_eq!(number_of(&server, "cold_values"), 1, "the others stay in the log");
        assert_eq!(number_of(&server, "cold_stream_ends"), 1);
    }
    let mut connection = server.connect();
    assert_eq!(connection.words("XLEN s").text(), (next - 1).to_string());
    assert_eq!(number_of(&server, "cold_values"), 0);
    let all = connection.words("XRANGE s - +");
    for (ms, entry) in (1..next).zip(all.elements()) {
        assert_eq!(entry.elements()[0].text(), format!("{ms}-1"));
        assert_eq!(entry.elements()[1].elements()[1].text(), ms.to_string());
    }
    assert_eq!(connection.words("XINFO GROUPS s").elements().len(), 1);
    server.kill();
    server.restart_with(&["--recovery", "full"]);
    assert_eq!(server.connect().words("XLEN s").text(), (next - 1).to_string());
}

#[test]
fn a_stream_that_is_added_to_while_keys_come_back_comes_back_too() {
    const ENTRIES: usize = 30_000;
    let index = ["--log-index", "yes", "--log-index-cut-bytes", "1mb"];
    let mut server = Program::indelible().start(&index);
    add(&mut server.connect(), 1..ENTRIES);
    wait_for_a_cut(&server);
    server.kill();
    server.restart_with(&[&index[..], &["--debug-restore-delay-ms", "3000"]].concat());
    let mut connection = server.connect();
    // Its root is another one than the index knew at the start.
    add(&mut connection, ENTRIES..ENTRIES + 3000);
    wait_until(|| info(&server, "recovery_keys_cold") == "0");
    wait_until(|| number_of(&server, "cold_values") + number_of(&server, "cold_stream_ends") == 0);
    // Nothing is in the log only any more.
    assert_eq!(connection.words("CONFIG SET appendonly no").text(), "OK");
    assert_eq!(connection.words("XLEN s").text(), (ENTRIES + 2999).to_string());
}

#[test]
fn whatever_is_done_to_a_stream_with_an_end_is_done_to_all_of_it() {
    const NAMES: [&str; 8] =
        ["sort", "restore", "copy", "rename", "exec", "script", "undeclared", "message"];
    let mut server = Program::indelible().start(&COLD);
    let mut connection = server.connect();
    let make = "for i = 1, 3000 do redis.call('XADD', KEYS[1], i .. '-1', 'field', i) end";
    for name in NAMES {
        connection.call(&["EVAL", make, "1", name]).unwrap();
    }
    assert_eq!(connection.words("RPUSH list 2 1").text(), "2");
    assert_eq!(connection.words("XADD other 7-1 field value").text(), "7-1");
    let message = connection.words("XADD message IDMP producer m1 * field x").text();
    wait_for_a_cut(&server);
    server.kill();
    server.restart_with(&COLD);
    let mut connection = server.connect();
    let add = |connection: &mut Connection, name: &str, ms: usize| {
        let added = connection.words(&format!("XADD {name} {ms}-1 field x")).text();
        assert_eq!(added, format!("{ms}-1"));
    };
    for name in NAMES {
        for ms in 5001..5040 {
            if name == "message" {
                // Its last id is of today.
                connection.words("XADD message * field x").text();
            } else {
                add(&mut connection, name, ms);
            }
        }
    }
    assert_eq!(number_of(&server, "cold_stream_ends"), NAMES.len() as u64);
    assert_eq!(number_of(&server, "cold_values"), NAMES.len() as u64);

    assert_eq!(connection.words("SORT list STORE sort").text(), "2");
    let restore =
        "return redis.call('RESTORE', KEYS[1], 0, redis.call('DUMP', KEYS[2]), 'REPLACE')";
    let restored = connection.call(&["EVAL", restore, "2", "restore", "other"]).unwrap();
    assert_eq!(restored.text(), "OK");
    assert_eq!(connection.words("COPY copy another REPLACE").text(), "1");
    assert_eq!(connection.words("RENAME rename renamed").text(), "OK");
    assert_eq!(connection.words("MULTI").text(), "OK");
    for queued in ["XADD exec 5040-1 field x", "XLEN exec", "XADD exec 5041-1 field x"] {
        assert_eq!(connection.words(queued).text(), "QUEUED");
    }
    let replies = connection.words("EXEC");
    let replies: Vec<String> = replies.elements().iter().map(|it| it.text()).collect();
    assert_eq!(replies, ["5040-1", "3040", "5041-1"]);
    let in_script = "return redis.call('XADD', 'undeclared', '5040-1', 'field', 'x')";
    assert_eq!(connection.call(&["EVAL", in_script, "0"]).unwrap().text(), "5040-1");
    let in_script =
        "redis.call('XADD', KEYS[1], '5040-1', 'f', 'x') return redis.call('XLEN', KEYS[1])";
    assert_eq!(connection.call(&["EVAL", in_script, "1", "script"]).unwrap().text(), "3040");
    let again = connection.words("XADD message IDMP producer m1 * field x").text();
    assert_eq!(again, message, "the message is known");
    // The script has added to its end alone.
    assert_eq!(number_of(&server, "cold_stream_ends"), 1);
    for restart in [None, Some(&[][..]), Some(&["--recovery", "full"])] {
        if let Some(options) = restart {
            server.kill();
            server.restart_with(&[&COLD[..], options].concat());
        }
        let mut connection = server.connect();
        let mut text = |command: &str| connection.words(command).text();
        assert_eq!((text("TYPE sort"), text("LLEN sort")), ("list".to_owned(), "2".to_owned()));
        assert_eq!((text("XLEN restore"), text("EXISTS rename")), ("1".to_owned(), "0".to_owned()));
        for (name, len) in [
            ("copy", 3039),
            ("another", 3039),
            ("renamed", 3039),
            ("exec", 3041),
            ("script", 3040),
            ("undeclared", 3040),
            ("message", 3040),
        ] {
            assert_eq!(text(&format!("XLEN {name}")), len.to_string(), "{name}");
        }
    }
    assert_eq!(server.connect().words("FLUSHALL").text(), "OK");
    server.kill();
    server.restart_with(&COLD);
    assert_eq!(server.connect().words("DBSIZE").text(), "0");
}

#[test]
fn what_only_the_command_can_name_is_bounded_too() {
    let server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    fill(&mut connection);
    for (list, count) in [("few", 3000), ("many", KEYS)] {
        let numbers = (0..count).map(|number| number.to_string());
        let push: Vec<String> =
            ["RPUSH", list].map(str::to_owned).into_iter().chain(numbers).collect();
        assert_eq!(connection.call(&push).unwrap().text(), count.to_string());
    }
    let sorted = connection.words("SORT few BY key:* ALPHA GET key:* LIMIT 0 10");
    assert_eq!(sorted.elements()[0].text(), value(0));
    for command in [
        "SORT many BY key:* ALPHA LIMIT 0 10",
        "SORT many BY nosort GET key:*",
        "SORT many BY nosort GET key:* STORE sorted",
    ] {
        let refused = connection.words(command);
        assert!(refused.is_error(), "{command}");
        let refused = refused.text();
        assert!(refused.starts_with("OOM the values that this command needs"), "{refused}");
    }
    assert_eq!(connection.words("EXISTS sorted").text(), "0");
    assert!(number_of(&server, "used_memory_peak") < 2 * MAX_BYTES);
    assert_eq!(connection.words("GET key:7").text(), value(7));
}

#[test]
fn the_log_cannot_be_turned_off_that_has_the_values() {
    let keeps = [&OPTIONS[..], &["--save", "", "--appendonly", "yes"]].concat();
    let server = Program::indelible().start(&keeps);
    let mut connection = server.connect();
    fill(&mut connection);
    let refused = connection.words("CONFIG SET appendonly no").text();
    assert!(refused.contains("are in the log only"), "{refused}");
    assert_eq!(connection.words("CONFIG SET maxmemory-policy noeviction").text(), "OK");
    let refused = connection.words("CONFIG SET appendonly no").text();
    assert!(refused.contains("are in the log only"), "{refused}");
    assert_eq!(connection.words("FLUSHALL").text(), "OK");
    assert_eq!(connection.words("CONFIG SET appendonly no").text(), "OK");
    let refused = connection.words("CONFIG SET maxmemory-policy cold-lru").text();
    assert!(refused.contains("need the redo log"), "{refused}");
    let mut options = OPTIONS.to_vec();
    options.extend(["--appendonly", "no", "--port", "0", "--unixsocket", "s", "--save", ""]);
    let output = Program::indelible().command(&options).output().unwrap();
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("need the redo log"), "{told}");
}

#[test]
fn a_value_that_has_decayed_is_told_and_no_other_suffers() {
    let server = Program::indelible()
        .start(&[&OPTIONS[..], &["--log-scrub-bytes-per-second", "0"]].concat());
    let mut connection = server.connect();
    fill(&mut connection);
    let is_cold = |number: usize| {
        // What takes so little has no value in memory.
        let used = server.connect().words(&format!("MEMORY USAGE key:{number}"));
        used.text().parse::<usize>().unwrap() < 500
    };
    // No other value ends like this one.
    let number = (10_000..KEYS).find(|number| is_cold(*number)).expect("most are");
    let needle = value(number).as_bytes()[..100].to_vec();
    let (path, at) = find(&server, &needle);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at + 50] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let told = connection.words(&format!("GET key:{number}"));
    assert!(told.is_error() && told.text().starts_with("CORRUPT "), "{}", told.text());
    let told = connection.words(&format!("APPEND key:{number} x"));
    assert!(told.is_error() && told.text().starts_with("CORRUPT "), "{}", told.text());
    let fine = (number + 1000) % KEYS;
    assert_eq!(connection.words(&format!("GET key:{fine}")).text(), value(fine));
    assert_eq!(connection.words(&format!("RENAME key:{fine} key:{number}")).text(), "OK");
    assert_eq!(connection.words(&format!("GET key:{number}")).text(), value(fine));
    // A new value needs nothing of the old one.
    assert_eq!(connection.words(&format!("SET key:{number} new")).text(), "OK");
    assert_eq!(connection.words(&format!("GET key:{number}")).text(), "new");
}

#[test]
fn what_needs_no_value_of_a_cold_key_reads_no_record() {
    let options = [
        ["--log-index", "yes"],
        ["--log-index-cut-bytes", "1mb"],
        ["--log-scrub-bytes-per-second", "0"],
        // Nothing comes back unasked.
        ["--debug-restore-delay-ms", "3600000"],
    ];
    let options = options.concat();
    let mut server = Program::indelible().start(&options);
    let mut connection = server.connect();
    fill(&mut connection);
    assert_eq!(connection.words("SADD set a b c").text(), "3");
    assert_eq!(connection.words("EXPIRE key:20000 10000").text(), "1");
    wait_for_a_cut(&server);
    server.kill();
    // None of these can be read.
    for number in 20_000..20_004 {
        let (path, at) = find(&server, &value(number).as_bytes()[..100]);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at + 50] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    server.restart_with(&options);
    let mut connection = server.connect();
    let mut says = |command: &str| connection.words(command).text();
    assert_eq!(says("EXISTS key:20000 key:20001 key:20002 key:20003 no"), "4");
    assert_eq!(says("TYPE key:20000"), "string");
    assert_eq!(says("TYPE set"), "set");
    let seconds: u64 = says("TTL key:20000").parse().unwrap();
    assert!((9_000..=10_000).contains(&seconds), "{seconds}");
    assert_eq!(says("TTL key:20001"), "-1");
    assert!(says("GET key:20001").starts_with("CORRUPT "));
    assert_eq!(says("SET key:20001 new"), "OK");
    assert_eq!(says("GET key:20001"), "new");
    assert_eq!(says("DEL key:20002 set"), "2");
    assert_eq!(says("MSET key:20003 other"), "OK");
    assert_eq!(says("DBSIZE"), KEYS.to_string());
    assert_eq!(number_of(&server, "cold_blocking_fetches"), 0);
    server.kill();
    server.restart_with(&options);
    let mut connection = server.connect();
    let mut says = |command: &str| connection.words(command).text();
    assert_eq!([says("GET key:20001"), says("GET key:20003")], ["new", "other"]);
    assert_eq!(says("GET key:20002"), "");
    assert_eq!(says("EXISTS key:20000 set"), "1");
}

#[test]
fn writers_wait_for_memory_and_are_not_refused() {
    const CLIENTS: usize = 32;
    let more = ["--log-index", "yes", "--appendfsync", "everysec"];
    let server = Program::indelible().start(&[&OPTIONS[..], &more].concat());
    fill(&mut server.connect());
    let clients = std::array::from_fn::<_, CLIENTS, _>(|client| (client, server.connect()));
    let told = std::thread::scope(|scope| {
        let threads = clients.map(|(client, mut connection)| {
            scope.spawn(move || {
                for step in 0..500 {
                    // All keys are as likely, so most of them are not in memory.
                    let number = (client * 500 + step) * 7919 % KEYS;
                    let key = format!("key:{number}");
                    let read = connection.call(&["GET", &key]).unwrap().text();
                    assert_eq!(read, value(number));
                    let wrote = connection.call(&["SET", &key, &value(number)]).unwrap().text();
                    if wrote != "OK" {
                        return Some(wrote);
                    }
                }
                None
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(told.into_iter().flatten().next(), None);
    check(&server);
}

#[test]
fn writers_are_refused_when_keys_alone_fill_memory() {
    let more = ["--log-index", "no", "--appendfsync", "everysec"];
    let server = Program::indelible().start(&[&OPTIONS[..], &more].concat());
    let mut connection = server.connect();
    let mut set = |numbers: std::ops::Range<usize>| {
        let set = |number| encode(&["SET", &format!("key:{number}"), "a value of some bytes"]);
        connection.send_bytes(&numbers.clone().flat_map(set).collect::<Vec<u8>>()).unwrap();
        let told: Vec<String> = numbers.map(|_| connection.receive().unwrap().text()).collect();
        told.into_iter().find(|told| told != "OK")
    };
    // 72 bytes each.
    let refused = (0..1000).find_map(|batch| set(batch * 1000..(batch + 1) * 1000));
    assert!(refused.is_some_and(|why| why.starts_with("OOM ")), "a million keys do not fit");
    let mut connection = server.connect();
    assert_eq!(connection.words("GET key:1").text(), "a value of some bytes");
    assert_eq!(connection.words("DEL key:1").text(), "1");
}

/// The file of the log that has these bytes, and where.
pub(crate) fn find(server: &Server, needle: &[u8]) -> (PathBuf, usize) {
    let mut directories = vec![server.directory()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) {
                return (path, at);
            }
        }
    }
    panic!("the value is in no file");
}

/// Turns bits all over the middle of the runs of an index.
fn damage_index(server: &Server) {
    for entry in std::fs::read_dir(server.directory().join("index")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "run") {
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            let len = file.metadata().unwrap().len();
            for at in (len / 4..len / 4 * 3).step_by(1024) {
                file.write_all_at(&[0x5a; 16], at).unwrap();
            }
        }
    }
}

#[test]
fn an_index_that_is_damaged_is_built_anew_while_the_server_runs() {
    let more =
        ["--log-index", "yes", "--log-index-cut-bytes", "1mb", "--cold-keys-maxmemory", "1mb"];
    let options = [&OPTIONS[..], &more].concat();
    let mut server = Program::indelible().start(&options);
    fill(&mut server.connect());
    wait_for_a_cut(&server);
    assert_eq!(server.connect().words("DEL any").text(), "1");
    server.kill();
    server.restart_with(&options);
    wait_until(|| info(&server, "recovery_state") == "done");
    assert!(number_of(&server, "cold_keys") > KEYS as u64 / 4);
    damage_index(&server);
    let mut connection = server.connect();
    let refused = (0..KEYS).find_map(|number| {
        let reply = connection.words(&format!("GET key:{number}"));
        assert!(reply.is_error() || reply.text() == value(number), "{reply:?}");
        reply.is_error().then(|| reply.text())
    });
    let refused = refused.unwrap();
    assert!(refused.starts_with("CORRUPT") && refused.contains("built anew"), "{refused}");
    // What was indexed before leaves memory all the while: there is room for what is written.
    let mut writes = (0..KEYS).step_by(3).cycle();
    wait_until(|| {
        for number in writes.by_ref().take(500) {
            let (key, value) = (format!("key:{number}"), value(number));
            let reply = connection.call(&["SET", &key, &value]).unwrap().text();
            assert!(reply == "OK" || reply.starts_with("CORRUPT"), "{reply}");
        }
        server.log().contains("The log index is built anew")
    });
    let mut number = 0;
    wait_until(|| {
        let mut read = |number: &usize| connection.words(&format!("GET key:{number}"));
        let good = (number..KEYS).take_while(|number| read(number).text() == value(*number));
        number += good.count();
        number == KEYS
    });
    assert_eq!(connection.words("DBSIZE").text(), KEYS.to_string());
    server.kill();
    server.restart_with(&options);
    wait_until(|| info(&server, "recovery_state") == "done");
    check(&server);
}

//! Commands that Debian's redis-server lacks. What they reply is tested in `crates/command`; here, that it is the same
//! when values have left memory, and that what they have done is there after a crash.

use crate::instant_start::info;
use crate::kill::Random;
use crate::process::{Program, Server, wait_until};
use crate::random_commands::{FORGETFUL, everything, index, random_word};
use crate::wire::Reply;

/// Commands of a run, and between two crashes.
const COMMANDS: u64 = 6_000;
const COMMANDS_A_CRASH: u64 = 1_500;

/// As those of [`crate::random_commands`].
#[rustfmt::skip]
const SHAPES: &[&str] = &[
    "SET k v", "SET k n", "SET k n", "SETBIT k b 1", "EXPIRE k 1000", "DEL k", "GET k",
    "RPUSH k v v v v v", "LRANGE k 0 -1", "SADD k f f f f f f f f", "SADD k n n n n", "ZADD k s f s f s f",
    "ZADD k n n n n n n",
    "SET k n IFEQ n", "SET k v IFNE v GET", "SET k n IFNE n EX 1000", "SET k v IFEQ n KEEPTTL",
    "DELEX k IFEQ n", "DELEX k IFNE v", "DELEX k", "DELIFEQ k n",
    "DIGEST k", "SET k n IFDEQ 9555e8555c62dcfd", "SET k n IFDNE 9555e8555c62dcfd", "DELEX k IFDEQ 0000000000000000",
    "MSETEX 2 k v k n", "MSETEX 2 k v k v NX EX 1000", "MSETEX 2 k n k n XX KEEPTTL",
    "INCREX k", "INCREX k BYINT n UBOUND 20", "INCREX k BYINT n LBOUND -5 UBOUND 25 SATURATE",
    "INCREX k BYFLOAT s EX 1000 ENX", "INCREX k BYINT n PERSIST", "INCREX k EXAT 1 ENX",
    "BITOP DIFF k k k", "BITOP DIFF1 k k k k", "BITOP ANDOR k k k k", "BITOP ONE k k k k",
    "SUNIONCARD 3 k k k", "SUNIONCARD 2 k k APPROX", "SDIFFCARD 2 k k", "SDIFFCARD 2 k k LIMIT 3",
    "ZUNIONSTORE k 2 k k AGGREGATE COUNT", "ZINTER 2 k k WEIGHTS 2 3 AGGREGATE COUNT WITHSCORES",
    "LMOVEM k k LEFT RIGHT", "LMOVEM k k LEFT LEFT COUNT 3 OBO", "LMOVEM k k RIGHT RIGHT EXACTLY 4 OBO",
    "LMOVEM k k RIGHT LEFT COUNT 9 BULK", "LMOVEM k k LEFT LEFT COUNT 4 BULK",
    "INCREX k BYINT n NX EX 1000", "INCREX k XX UBOUND 30",
    "GEOADD k s s f s s f s s f", "GEOSEARCH k BYPOLYGON 3 s s s s s s ASC WITHDIST",
    "GEOSEARCHSTORE k k BYPOLYGON 4 -170 -80 170 -80 170 80 -170 80 STOREDIST",
    "EVAL return(redis.call('SET',KEYS[1],ARGV[2],'IFEQ',ARGV[1])) 1 k n v",
    "EVAL return(redis.call('DELEX',KEYS[1],'IFNE',ARGV[1])) 1 k v",
    "EVAL return(redis.call('INCREX',KEYS[1],'BYINT',ARGV[1],'UBOUND','30')) 1 k n",
    "EVAL return(redis.call('LMOVEM',KEYS[1],KEYS[2],'LEFT','RIGHT','COUNT','3','OBO')) 2 k k",
    "EVAL return(redis.call('BLMOVEM',KEYS[1],KEYS[2],'LEFT','LEFT','0','EXACTLY','3','BULK')) 2 k k",
    "EVAL return(redis.call('SUNIONCARD','2',KEYS[1],KEYS[2])) 2 k k",
];

/// How often a command is called in a transaction: in one of as many calls.
const CALLS_A_TRANSACTION: u64 = 6;

#[test]
fn later_commands_do_the_same_while_values_leave_memory() {
    let mut random = Random::from_environment();
    let shared = ["--proto-max-bulk-len", "1mb", "--enable-debug-command", "yes"];
    let kept = Program::indelible();
    let kept = kept.start(&[&["--appendonly", "no", "--save", ""], &shared[..]].concat());
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut killed = Program::indelible().start(&[&durable, &shared[..], &FORGETFUL[..]].concat());
    let mut sides = [kept.connect(), killed.connect()];
    let mut departed = 0;
    for number in 1..=COMMANDS {
        let shape = SHAPES[index(&mut random, SHAPES.len())];
        let words: Vec<String> =
            shape.split(' ').map(|word| random_word(&mut random, word)).collect();
        let in_transaction = random.below(CALLS_A_TRANSACTION) == 0;
        let [expected, found] = sides.each_mut().map(|side| {
            if !in_transaction {
                return side.call(&words).unwrap();
            }
            assert!(!side.words("MULTI").is_error());
            side.call(&words).unwrap();
            side.words("EXEC")
        });
        assert_eq!(found, expected, "command {number}, {in_transaction}: {words:?}");
        if number % COMMANDS_A_CRASH == 0 {
            departed += info(&killed, "evicted_entries").parse::<u64>().unwrap();
            killed.kill();
            killed.restart();
            sides[1] = killed.connect();
            let [expected, found] = sides.each_mut().map(everything);
            assert_eq!(found, expected, "after {number} commands and a crash");
        }
    }
    assert!(departed > 0, "keys have left memory");
}

fn is_blocked(server: &Server, count: usize) -> bool {
    info(server, "blocked_clients") == count.to_string()
}

#[test]
fn elements_are_moved_when_there_are_enough() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Program::indelible().start(&durable);
    let (mut waiting, mut other) = (server.connect(), server.connect());
    for growth in
        ["RPUSH s 3", "LINSERT s BEFORE 1 0", "LMOVE feed s LEFT RIGHT", "SORT feed STORE s"]
    {
        other.words("DEL s d feed");
        other.words("RPUSH feed 3 1 2");
        waiting.send(&["BLMOVEM", "s", "d", "LEFT", "RIGHT", "0", "EXACTLY", "3", "BULK"]).unwrap();
        wait_until(|| is_blocked(&server, 1));
        assert_eq!(other.words("RPUSH s 1 2").text(), "2");
        assert_eq!(other.words("LLEN s").text(), "2");
        assert!(is_blocked(&server, 1), "two are too few");
        assert!(!other.words(growth).is_error());
        let moved = waiting.receive().unwrap();
        assert_eq!(moved.elements().len(), 3, "{growth}: {moved:?}");
        assert_eq!(moved.elements(), other.words("LRANGE d 0 -1").elements(), "{growth}");
        assert_eq!(other.words("EXISTS s").text(), "0", "{growth}");
    }
    waiting.send(&["BLMOVEM", "s", "d", "LEFT", "LEFT", "0", "COUNT", "9", "OBO"]).unwrap();
    wait_until(|| is_blocked(&server, 1));
    other.words("RPUSH s a b");
    let moved: Vec<String> =
        waiting.receive().unwrap().elements().iter().map(|it| it.text()).collect();
    assert_eq!(moved, ["b", "a"]);
    server.kill();
    server.restart();
    let mut again = server.connect();
    assert_eq!(again.words("LLEN d").text(), "5");
    assert_eq!(again.words("EXISTS s").text(), "0");
    again.words("RPUSH s 1");
    let over = again.words("BLMOVEM s d LEFT RIGHT 0.01 EXACTLY 2 BULK");
    assert_eq!(over, Reply::Null(b'*'));
    assert_eq!(again.words("LLEN s").text(), "1");
}

#[test]
fn elements_that_stay_are_not_logged_again() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = Program::indelible().start(&durable);
    let mut client = server.connect();
    let element = "x".repeat(1000);
    let mut push = vec!["RPUSH", "l"];
    push.extend([element.as_str(); 2000]);
    let logged = || info(&server, "redo_disk_bytes").parse::<u64>().unwrap();
    let empty = logged();
    client.call(&push).unwrap();
    let full = logged();
    assert!(full > empty + 2_000_000, "{empty} {full}");
    let moved = client.words("LMOVEM l l RIGHT RIGHT COUNT 2000 BULK");
    assert_eq!(moved.elements().len(), 2000);
    assert!(logged() < full + 100_000, "{full} {}", logged());
    assert_eq!(client.words("LLEN l").text(), "2000");
}

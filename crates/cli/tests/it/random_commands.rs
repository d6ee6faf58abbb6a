//! Random commands on few keys, sent to redis-server and to Indelible: every reply and in the end every
//! key must be the same.
//!
//! The keys are few, so that commands meet values of every type and size: small packed collections, large
//! ones, wrong types, keys that were just deleted. From time to time Indelible is killed and started again,
//! and must go on as if nothing had happened. The commands follow from a seed that is printed.

use crate::extremes;
use crate::instant_start::info;
use crate::kill::Random;
use crate::process::Program;
use crate::wire::{Connection, Reply};

/// Commands of a run.
const COMMANDS: u64 = 12_000;

/// Two of three values leave memory after every few commands, and keys after them, wherever they are known
/// to be.
#[rustfmt::skip]
pub(crate) const FORGETFUL: [&str; 8] = [
    "--debug-drop-values", "66", "--log-index", "yes", "--log-index-cut-bytes", "1mb",
    "--log-segment-bytes", "1mb",
];

/// Memory holds half of what [`Ballast`] has, so that what is not read for a while leaves it, keys as well.
#[rustfmt::skip]
pub(crate) const NARROW: [&str; 10] = [
    "--maxmemory", "32mb", "--maxmemory-policy", "cold-lru", "--cold-keys-maxmemory", "1",
    "--log-index", "yes", "--log-index-cut-bytes", "1mb",
];

/// Commands between two crashes.
const COMMANDS_A_CRASH: u64 = 3_000;

/// What a command looks like. `k` is a key, `v` a value, `f` a field or member, `n` a small number, `i` an
/// index, `s` a score, `r` a range of scores, `b` a bit offset. Ranges by name are
/// left out: they mean nothing where scores differ.
#[rustfmt::skip]
const SHAPES: &[&str] = &[
    "SET k v", "SET k v", "SET k n", "SET k v NX", "SET k v XX GET", "SET k v KEEPTTL", "GET k", "GET k",
    "GETSET k v", "GETDEL k", "APPEND k v", "STRLEN k", "INCR k", "DECRBY k n", "INCRBY k n",
    "INCRBYFLOAT k s", "SETRANGE k b v", "GETRANGE k i i", "MSET k v k v", "MGET k k k", "MSETNX k v k v",
    "SETBIT k b 1", "SETBIT k b 0", "GETBIT k b", "BITCOUNT k", "BITPOS k 1", "BITOP XOR k k k",
    "BITOP NOT k k", "BITFIELD k INCRBY u8 b n GET i16 b", "LCS k k LEN",
    "HSET k f v", "HSET k f v f v", "HSET k f v f v f v f v f v", "HSETNX k f v", "HGET k f", "HDEL k f",
    "HDEL k f f f", "HLEN k", "HEXISTS k f", "HINCRBY k f n", "HINCRBYFLOAT k f s", "HMGET k f f",
    "HSTRLEN k f", "HGETALL k", "HKEYS k", "HVALS k",
    "RPUSH k v", "LPUSH k v v", "RPUSH k v v v v v v v v", "LPOP k", "RPOP k", "LPOP k n", "RPOP k n",
    "LLEN k", "LINDEX k i", "LSET k i v", "LRANGE k i i", "LTRIM k i i", "LREM k n v",
    "LINSERT k BEFORE v v", "LINSERT k AFTER v v", "LPOS k v COUNT 0", "LMOVE k k LEFT RIGHT",
    "LMOVE k k RIGHT LEFT", "RPOPLPUSH k k", "LMPOP 2 k k LEFT COUNT 2", "RPUSHX k v",
    "SADD k f", "SADD k n n n", "SADD k f f f f f f f", "SREM k f", "SREM k n", "SCARD k", "SISMEMBER k f",
    "SMISMEMBER k f n", "SMEMBERS k", "SMOVE k k f", "SINTER k k", "SUNION k k", "SDIFF k k",
    "SINTERSTORE k k k", "SUNIONSTORE k k k", "SDIFFSTORE k k k", "SINTERCARD 2 k k",
    "ZADD k s f", "ZADD k s f s f s f s f", "ZADD k n f n f n f", "ZADD k GT CH s f", "ZADD k NX s f",
    "ZADD k XX INCR s f", "ZINCRBY k s f", "ZREM k f", "ZCARD k", "ZSCORE k f", "ZRANK k f",
    "ZREVRANK k f", "ZCOUNT k r r", "ZRANGE k i i WITHSCORES", "ZREVRANGE k i i", "ZRANGEBYSCORE k r r",
    "ZRANGE k r r BYSCORE REV LIMIT 1 3", "ZPOPMIN k",
    "ZPOPMAX k n", "ZREMRANGEBYRANK k i i", "ZREMRANGEBYSCORE k r r",
    "ZUNIONSTORE k 2 k k", "ZINTERSTORE k 2 k k", "ZDIFFSTORE k 2 k k", "ZUNION 2 k k WITHSCORES",
    "ZRANGESTORE k k i i", "ZMSCORE k f f", "ZINTERCARD 2 k k", "ZMPOP 2 k k MAX",
    "PFADD k f", "PFADD k f f f f f f f f", "PFADD k n", "PFCOUNT k", "PFCOUNT k k", "PFMERGE k k k",
    "GEOADD k s s f", "GEOADD k s s f s s f s s f", "GEOADD k CH s s f", "GEOPOS k f f", "GEODIST k f f km",
    "GEOHASH k f f", "GEOSEARCH k FROMLONLAT s s BYRADIUS 5000 km ASC WITHDIST",
    "GEOSEARCH k FROMMEMBER f BYBOX 3000 2000 mi DESC COUNT 5 WITHCOORD",
    "GEOSEARCHSTORE k k FROMLONLAT s s BYRADIUS 9000 km STOREDIST",
    "DEL k", "DEL k k", "UNLINK k", "EXISTS k k", "TYPE k", "RENAME k k", "RENAMENX k k", "COPY k k",
    "COPY k k REPLACE", "EXPIRE k 1000", "PERSIST k", "EXPIRE k 1000 NX", "TOUCH k",
    "SORT k ALPHA", "SORT k ALPHA STORE k", "SORT k BY nosort", "DBSIZE", "EXPIRE k -1", "KEYS *",
    "MOVE k 1", "COPY k k DB 1 REPLACE", "SWAPDB 0 1",
];

/// More than memory holds, in a database of its own: as it is read, all else has to leave.
pub(crate) struct Ballast(Connection);

impl Ballast {
    const COUNT: usize = 480;
    const BYTES: usize = 128 << 10;

    /// Of a server that has none yet, or has it from before a crash.
    pub(crate) fn open(mut connection: Connection) -> Self {
        assert_eq!(connection.words("SELECT 5").text(), "OK");
        if connection.words("DBSIZE").text() == "0" {
            for number in 0..Self::COUNT {
                let value = Self::value(number);
                let reply = connection.call(&["SET", &format!("ballast:{number}"), &value]);
                assert_eq!(reply.unwrap().text(), "OK");
            }
        }
        Self(connection)
    }

    fn value(number: usize) -> String {
        format!("{number:08}").repeat(Self::BYTES / 8)
    }

    /// Reads some of it.
    pub(crate) fn stir(&mut self, random: &mut Random) -> std::io::Result<()> {
        Self::read(&mut self.0, random)
    }

    /// The same by a connection that has selected its database.
    pub(crate) fn read(connection: &mut Connection, random: &mut Random) -> std::io::Result<()> {
        let number = index(random, Self::COUNT);
        let found = connection.call(&["GET", &format!("ballast:{number}")])?;
        assert!(found.text() == Self::value(number), "ballast:{number}");
        Ok(())
    }
}

#[test]
fn random_commands_get_the_same_replies() {
    compare(&[]);
}

#[test]
fn random_commands_get_the_same_replies_while_memory_is_full() {
    let Some(departed) = compare(&NARROW) else { return };
    assert!(departed > 0, "keys have left memory");
}

#[test]
fn random_commands_get_the_same_replies_while_values_leave_memory() {
    let Some(departed) = compare(&FORGETFUL) else { return };
    assert!(departed > 0, "keys have left memory");
}

/// How many keys have left memory meanwhile; `None` without a Redis.
fn compare(more: &[&str]) -> Option<u64> {
    let redis = Program::redis()?;
    let (mut departed, mut came) = (0, 0);
    let mut random = Random::from_environment();
    // So that no bit is so far away that both fill hundreds of megabytes with zeros.
    let shared = ["--proto-max-bulk-len", "1mb", "--enable-debug-command", "yes"];
    let redis = redis.start(&[&["--save", ""], &shared[..]].concat());
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut indelible = Program::indelible().start(&[&durable, &shared[..], more].concat());
    let mut sides = [redis.connect(), indelible.connect()];
    let mut ballast = (more == NARROW).then(|| {
        drop(Ballast::open(redis.connect()));
        Ballast::open(indelible.connect())
    });
    let mut history: Vec<String> = Vec::new();
    // What one command has to read of all data would not fit.
    let (share, has_digest) = if ballast.is_some() { (3, false) } else { (1, true) };
    for number in 1..=COMMANDS / share {
        if let Some(ballast) = &mut ballast {
            (0..4).for_each(|_| ballast.stir(&mut random).unwrap());
        }
        let calls = match random.below(20) {
            0 => transaction(&mut random),
            _ => vec![shape_words(&mut random)],
        };
        let fetched = (number % 20 == 0).then(|| info(&indelible, "cold_fetches"));
        for words in &calls {
            history.push(words.join(" "));
            let [expected, found] = sides.each_mut().map(|side| {
                let reply = side.call(words).unwrap();
                if words[0] == "EXEC" { ordered_each(&calls, reply) } else { ordered(words, reply) }
            });
            let recent = &history[history.len().saturating_sub(30)..];
            assert!(
                found == expected,
                "after {number} commands: {found:?}\nand not {expected:?}\nthe last ones: {recent:#?}"
            );
        }
        came += u32::from(fetched.is_some_and(|it| info(&indelible, "cold_fetches") != it));
        if number % (COMMANDS_A_CRASH / share) == 0 {
            departed += info(&indelible, "evicted_entries").parse::<u64>().unwrap();
            indelible.kill();
            indelible.restart();
            sides[1] = indelible.connect();
            ballast = ballast.map(|_| Ballast::open(indelible.connect()));
            let look = if has_digest { everything } else { every_key };
            let [expected, found] = sides.each_mut().map(look);
            assert_eq!(found, expected, "after {number} commands and a crash");
        }
    }
    assert!(
        ballast.is_none() || came > 5,
        "during {came} of the calls that were looked at a key came"
    );
    Some(departed)
}

/// A random call of one of the shapes.
pub(crate) fn shape_words(random: &mut Random) -> Vec<String> {
    let shape = SHAPES[index(random, SHAPES.len())];
    shape.split(' ').map(|word| random_word(random, word)).collect()
}

/// What leads a transaction to keys that nothing has named before: another database, or the data.
#[rustfmt::skip]
const DETOURS: &[&str] = &[
    "SELECT 0", "SELECT 1", "SWAPDB 0 1", "MOVE k 1", "MOVE k 0", "COPY k k DB 0 REPLACE",
    "SORT k ALPHA GET key*", "SORT k BY key* ALPHA", "BLMOVE k k LEFT RIGHT 0",
];

/// A transaction of random calls and detours, which ends in the first database; sometimes of a key that is
/// watched while another call is made.
fn transaction(random: &mut Random) -> Vec<Vec<String>> {
    let words = |random: &mut Random, shape: &str| -> Vec<String> {
        shape.split(' ').map(|word| random_word(random, word)).collect()
    };
    let mut calls = Vec::new();
    if random.below(3) == 0 {
        calls.extend([words(random, "WATCH k k"), words(random, "GET k")]);
    }
    calls.push(words(random, "MULTI"));
    for _ in 0..=random.below(6) {
        calls.push(match random.below(3) {
            0 => {
                let detour = DETOURS[index(random, DETOURS.len())];
                words(random, detour)
            }
            _ => shape_words(random),
        });
    }
    calls.extend([words(random, "SELECT 0"), words(random, "EXEC")]);
    calls
}

/// A random index of something so long.
pub(crate) fn index(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(u64::try_from(length).unwrap())).unwrap()
}

pub(crate) fn random_word(random: &mut Random, word: &str) -> String {
    if matches!(word, "n" | "i" | "s" | "r" | "b") && random.below(12) == 0 {
        return extremes::NUMBERS[index(random, extremes::NUMBERS.len())].to_owned();
    }
    match word {
        "k" => format!("key{}", random.below(10)),
        "v" => match random.below(8) {
            0 => random.below(1000).to_string(),
            1 => "x".repeat(index(random, 200)),
            // Fractions that a binary number holds exactly: Redis shows its rounding errors.
            2 => format!("{}.{}", random.below(50), 25 * (1 + random.below(3))),
            3 if random.below(20) == 0 => "long".repeat(index(random, 2000)),
            _ => format!("v{}", random.below(30)),
        },
        "f" => match random.below(10) {
            0 => random.below(30).to_string(),
            1 => format!("{}{}", "f".repeat(index(random, 90)), random.below(10)),
            _ => format!("f{}", random.below(400)),
        },
        "n" => (random.below(40).cast_signed() - 10).to_string(),
        "i" => (random.below(60).cast_signed() - 30).to_string(),
        "s" => match random.below(4) {
            0 => format!("{}.5", random.below(100)),
            1 => format!("-{}", random.below(100)),
            _ => random.below(100).to_string(),
        },
        "r" => match random.below(8) {
            0 => "-inf".to_owned(),
            1 => "+inf".to_owned(),
            2 => format!("({}", random.below(100)),
            _ => random.below(100).to_string(),
        },
        "b" => random.below(3000).to_string(),
        literal => literal.to_owned(),
    }
}

/// The reply with what Redis leaves unordered put in order.
fn ordered(words: &[String], reply: Reply) -> Reply {
    let width = match words[0].as_str() {
        "SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "HKEYS" | "HVALS" | "KEYS" => 1,
        "SORT" if words[2] == "BY" => 1,
        "HGETALL" => 2,
        _ => return reply,
    };
    let Reply::Many(kind, elements) = reply else { return reply };
    let mut groups: Vec<Vec<Reply>> = elements.chunks(width).map(<[Reply]>::to_vec).collect();
    groups.sort();
    Reply::Many(kind, groups.concat())
}

/// The same of the reply of EXEC, at the end of these calls.
fn ordered_each(calls: &[Vec<String>], reply: Reply) -> Reply {
    let Reply::Many(kind, replies) = reply else { return reply };
    let begin = calls.iter().position(|words| words[0] == "MULTI").expect("EXEC is behind one");
    let queued = calls[begin + 1..].iter();
    let replies = queued.zip(replies).map(|(words, reply)| ordered(words, reply)).collect();
    Reply::Many(kind, replies)
}

/// Every key of both databases in use, with its value, and Redis' own digest of it all.
pub(crate) fn everything(connection: &mut Connection) -> Vec<String> {
    let mut found = every_key(connection);
    found.push(connection.words("DEBUG DIGEST").text());
    found
}

/// Every key of both databases in use, with its value.
fn every_key(connection: &mut Connection) -> Vec<String> {
    let mut found = Vec::new();
    for database in ["0", "1"] {
        assert_eq!(connection.call(&["SELECT", database]).unwrap().text(), "OK");
        let mut keys: Vec<String> =
            connection.words("KEYS *").elements().iter().map(Reply::text).collect();
        keys.sort();
        for key in keys {
            let reading = match connection.words(&format!("TYPE {key}")).text().as_str() {
                "string" => format!("GET {key}"),
                "hash" => format!("HGETALL {key}"),
                "list" => format!("LRANGE {key} 0 -1"),
                "set" => format!("SMEMBERS {key}"),
                _ => format!("ZRANGE {key} 0 -1 WITHSCORES"),
            };
            let words: Vec<String> = reading.split(' ').map(str::to_owned).collect();
            let value = ordered(&words, connection.call(&words).unwrap());
            let expires = connection.words(&format!("TTL {key}")).text() != "-1";
            found.push(format!("{database} {key} expires: {expires} {value:?}"));
        }
    }
    assert_eq!(connection.words("SELECT 0").text(), "OK");
    found
}

//! Random rules for users, and random calls by them: the same replies and decisions as those of redis-server 7.0, and the
//! same lines as those of 8.2.
//!
//! The table here has commands that Redis 7.0 does not have, and calls of 7.2 with fewer arguments: a rule or a call of those
//! is left out of the comparison.

use acl::{ChannelDefault, Roster, Users};
use command_spec::table::{self, Command};
use fastrand::Rng;

use crate::redis::{Redis, Reply};

/// Changes of rules, and as many decisions, of the run that is part of the tests.
const SHORT: usize = 3_000;

/// Those of the long one.
const LONG: usize = 100_000;

/// Changes between two looks at all lines.
const CHANGES_A_LOOK: usize = 20;

const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];
const KEYS: [&str; 12] =
    ["a", "b", "ab", "abc", "app:1", "app:2", "tmp", "", "*", "streams", "store", "app:[x]"];
const PATTERNS: [&str; 14] = [
    "*", "a", "a*", "app:*", "app:?", "[ab]*", "tmp", "", "\\*", "x\"y", "(a)", "%R~x", "*b*",
    "[^a]",
];

#[test]
fn rules_and_decisions_are_those_of_redis() {
    decide(SHORT);
}

#[test]
#[ignore = "takes minutes"]
fn rules_and_decisions_are_those_of_redis_for_long() {
    decide(LONG);
}

#[test]
fn lines_are_those_of_redis() {
    tell(SHORT);
}

#[test]
#[ignore = "takes minutes"]
fn lines_are_those_of_redis_for_long() {
    tell(LONG);
}

fn decide(changes: usize) {
    let Some(mut pair) = Pair::start("7.0") else { return };
    for _ in 0..changes {
        pair.change();
        pair.decide();
    }
    println!(
        "{changes} changes, {} accepted; {} of {changes} calls allowed",
        pair.accepted, pair.allowed
    );
    assert!(pair.accepted > changes / 2 && pair.allowed > changes / 50, "little was compared");
}

fn tell(changes: usize) {
    let Some(mut pair) = Pair::start("8.2") else { return };
    for change in 0..changes {
        pair.change();
        if change % CHANGES_A_LOOK == 0 {
            pair.look();
        }
    }
    assert!(pair.accepted > changes / 2, "little was compared");
}

struct Pair {
    redis: Redis,
    users: Users,
    random: Rng,
    /// The commands that both have, with their subcommands.
    commands: Vec<String>,
    accepted: usize,
    allowed: usize,
}

impl Pair {
    fn start(version: &str) -> Option<Self> {
        let mut redis = Redis::start(version)?;
        let seed = std::env::var("INDELIBLE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        println!("INDELIBLE_SEED={seed}");
        let listed = redis.call(&[b"COMMAND", b"LIST"]);
        let mut commands: Vec<String> = listed.elements().iter().map(Reply::text).collect();
        commands.retain(|name| table::find(name.as_bytes()).is_some());
        assert!(commands.len() > 300);
        let users = Users::new(ChannelDefault::Nothing);
        let random = Rng::with_seed(seed);
        Some(Self { redis, users, random, commands, accepted: 0, allowed: 0 })
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.random.usize(..of.len())]
    }

    fn command(&mut self) -> String {
        let name = self.commands[self.random.usize(..self.commands.len())].clone();
        if self.random.u8(..8) == 0 { name.to_uppercase() } else { name }
    }

    /// Some rules for a user, or its end.
    fn change(&mut self) {
        let user = self.pick(&USERS);
        if self.random.u8(..40) == 0 {
            let reply = self.redis.call(&[b"ACL", b"DELUSER", user.as_bytes()]).text();
            assert_eq!(reply == "1", self.users.delete(user.as_bytes()), "{user}");
            return;
        }
        let count = self.random.usize(..4) + 1;
        let rules: Vec<String> = (0..count).map(|_| self.rule()).collect();
        let words: Vec<&[u8]> = rules.iter().map(String::as_bytes).collect();
        let call = [&[&b"ACL"[..], b"SETUSER", user.as_bytes()], &words[..]].concat();
        let expected = self.redis.call(&call).text();
        let got = match self.users.set_user(user.as_bytes(), &words) {
            Ok(_) => "OK".to_owned(),
            Err(error) => format!("ERR {error}"),
        };
        self.accepted += usize::from(got == "OK");
        assert_eq!(got, expected, "{user} {rules:?}");
    }

    fn rule(&mut self) -> String {
        match self.random.u8(..24) {
            0 => self
                .pick(&[
                    "on",
                    "off",
                    "nopass",
                    "resetpass",
                    "sanitize-payload",
                    "skip-sanitize-payload",
                ])
                .to_owned(),
            1 => {
                let sign = self.pick(&[">", "<", "#", "!"]);
                let hash = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
                let word = self.pick(&["x", "y", "", hash, &hash[1..], "X"]);
                format!("{sign}{word}")
            }
            2 if self.random.u8(..3) == 0 => {
                self.pick(&["reset", "clearselectors", "RESET"]).to_owned()
            }
            2 => self
                .pick(&[
                    "",
                    "nonsense",
                    "+",
                    "-",
                    "+@",
                    "-@nope",
                    "+nope",
                    "%",
                    "%~x",
                    "%RR~x",
                    "%X~y",
                    "%R",
                    "+get|",
                    "+|x",
                    "+config|get|x",
                    "-get|x",
                    "-config|nope",
                    "+config|nope",
                    "~a b",
                    "&a b",
                    "()",
                    "(",
                    "(on)",
                    "+@array",
                ])
                .to_owned(),
            3..=4 => self
                .pick(&["allkeys", "resetkeys", "~*", "RESETKEYS", "%RW~*", "%R~*", "%W~*"])
                .to_owned(),
            5 => self.pick(&["allchannels", "resetchannels", "&*", "resetchannels"]).to_owned(),
            6 => self.pick(&["allcommands", "nocommands", "+@all", "-@all", "-@ALL"]).to_owned(),
            7..=9 => {
                let sign = self.pick(&["+", "-"]);
                let category = *self.random.choice(&acl::categories().collect::<Vec<_>>()).unwrap();
                format!("{sign}@{category}")
            }
            10..=15 => {
                let sign = self.pick(&["+", "-"]);
                format!("{sign}{}", self.command())
            }
            16 => {
                let command =
                    self.pick(&["select", "GET", "set", "debug", "object", "config", "publish"]);
                let first = self.pick(&["0", "a", "A", "app:1", "get", "object", "c"]);
                format!("+{command}|{first}")
            }
            17..=19 => {
                let sign = self.pick(&["~", "%R~", "%W~", "%RW~", "%rw~", "%r~"]);
                format!("{sign}{}", self.pick(&PATTERNS))
            }
            20..=21 => format!("&{}", self.pick(&PATTERNS)),
            _ => self.selector(),
        }
    }

    fn selector(&mut self) -> String {
        let count = self.random.usize(..4);
        let mut inside = Vec::new();
        while inside.len() < count {
            let rule = self.rule();
            // Redis loses count of parentheses in parentheses, and makes no selector of unclosed quotes.
            if !rule.contains(['(', ')', '"']) {
                inside.push(rule);
            }
        }
        format!("({})", inside.join(" "))
    }

    /// A random call by a random user.
    fn decide(&mut self) {
        let user = self.pick(&USERS);
        let name = if self.random.bool() { self.command() } else { self.pick(&COMMON).to_owned() };
        let mut call: Vec<String> = name.split('|').map(str::to_owned).collect();
        let spec = table::find(name.to_lowercase().as_bytes()).unwrap();
        let least = usize::from(spec.arity.unsigned_abs());
        let len = if spec.arity > 0 { least } else { least + self.random.usize(..5) };
        while call.len() < len {
            let word = if self.random.u8(..4) == 0 { self.pick(&WORDS) } else { self.pick(&KEYS) };
            call.push(word.to_owned());
        }
        self.compare(user, &call);
    }

    fn compare(&mut self, user: &str, call: &[String]) {
        let call: Vec<&[u8]> = call.iter().map(String::as_bytes).collect();
        let dry = [&[&b"ACL"[..], b"DRYRUN", user.as_bytes()], &call[..]].concat();
        let expected = self.redis.call(&dry).text();
        let shown =
            call.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
        let Some(known) = self.users.by_name(user.as_bytes()) else {
            assert_eq!(expected, format!("ERR User '{user}' not found"));
            return;
        };
        let command = table::find_call(&call).unwrap();
        let is_no_call = !command.subcommands.is_empty() && call.len() > 1;
        let is_new = expected.starts_with("ERR wrong number of arguments");
        if is_no_call || is_new || !command.accepts(call.len()) || is_mended(command, &call) {
            return;
        }
        let got = match known.check(command, &call) {
            Ok(()) => "OK".to_owned(),
            Err(denial) => {
                let why = denial.dry_run(user.as_bytes(), command, &call);
                // In the words of 7.0, with which decisions are compared.
                String::from_utf8_lossy(&why).replacen(&format!("User {user}"), "This user", 1)
            }
        };
        self.allowed += usize::from(got == "OK");
        let line = String::from_utf8_lossy(&known.describe()).into_owned();
        assert_eq!(got, expected, "{user} {line}\n{shown}");
    }

    /// All lines.
    fn look(&mut self) {
        let lines = self.redis.call(&[b"ACL", b"LIST"]);
        let expected: Vec<String> = lines.elements().iter().map(Reply::text).collect();
        let got: Vec<String> =
            self.users.lines().map(|line| String::from_utf8_lossy(&line).into_owned()).collect();
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(&expected) {
            // As Redis writes what it cannot read.
            let got = got.replace("%RW~*", "~*").replace("\"~x\\\"y\"", "~x\"y");
            assert_eq!(got, expected.replace("%RW~*", "~*"));
        }
        self.read_again();
    }

    /// What is written comes back as what it was.
    fn read_again(&self) {
        let file = self.users.to_file();
        let roster = Roster::parse(&file, "f", ChannelDefault::Nothing)
            .unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&file)));
        let mut again = Users::new(ChannelDefault::Nothing);
        again.replace(roster);
        assert_eq!(String::from_utf8_lossy(&again.to_file()), String::from_utf8_lossy(&file));
        for (name, user) in self.users.iter() {
            let line = String::from_utf8_lossy(&user.describe()).into_owned();
            // `~*` and `&*` may have been patterns.
            let is_plain = !line.contains("~*") && !line.contains("&*");
            assert!(!is_plain || again.by_name(name) == Some(user), "{line}");
        }
    }
}

/// Whether a call differs: Redis 7.0 does not know it, does not find its keys (as a word looks like the keyword), or lets one that may read no key have all of them.
fn is_mended(command: Command, call: &[&[u8]]) -> bool {
    let count = |word: &[u8]| call.iter().filter(|it| it.eq_ignore_ascii_case(word)).count();
    match command.name {
        // WITHSCORE of Redis 7.2.
        "zrank" | "zrevrank" => call.len() != 3,
        // Wrong, and refused here before that is said.
        "migrate" => count(b"keys") > 0 && !call[3].is_empty(),
        "xreadgroup" => count(b"streams") > 1,
        "georadius" | "georadiusbymember" => count(b"store") + count(b"storedist") > 1,
        "pfmerge" => call.len() == 2,
        // Of what is no number of keys Redis finds no key at all.
        "zunionstore" | "zinterstore" | "zdiffstore" => {
            let count = std::str::from_utf8(call[2]).ok().and_then(|count| count.parse().ok());
            !count.is_some_and(|count: usize| (1..=call.len() - 3).contains(&count))
        }
        "psync" | "sync" => true,
        _ => false,
    }
}

/// Commands with keys or channels that are called more often than others.
const COMMON: [&str; 30] = [
    "get",
    "set",
    "del",
    "mget",
    "mset",
    "rename",
    "sort",
    "eval",
    "publish",
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "spublish",
    "unsubscribe",
    "zunionstore",
    "bitfield",
    "xread",
    "xreadgroup",
    "georadius",
    "georadiusbymember",
    "migrate",
    "object|freq",
    "memory|usage",
    "select",
    "config|get",
    "copy",
    "lmpop",
    "blpop",
    "exists",
    "pfcount",
];

const WORDS: [&str; 20] = [
    "1",
    "2",
    "0",
    "-1",
    "3",
    "get",
    "GET",
    "store",
    "STOREDIST",
    "streams",
    "STREAMS",
    "group",
    "count",
    "by",
    "limit",
    "keys",
    "noack",
    "block",
    "x",
    "incrby",
];

//! Random commands of every kind that changes or shows data: few keys, so that they meet.
//!
//! A key's first letter says which type it mostly has, so that most commands find what they are
//! for, and RENAME, COPY and SET see to it that some do not.

use std::collections::BTreeSet;

use base::DbIndex;
use env_sim::SimEntropy;

use crate::named::BACKUP_SEEDS;
use crate::saves::SAVE_SEEDS;
use crate::thinning::{rules_of, thins_out};

/// How many databases the server has.
pub(crate) const DATABASES: usize = 3;

/// From this seed on strings count elements, and sorted sets have places.
pub(crate) const FAMILY_SEEDS: u64 = 14_000_000_000;

/// From here on libraries of functions are loaded and deleted.
const LIBRARY_SEEDS: u64 = 16_000_000_000;

/// From here on scripts execute several commands; those of even seeds declare their keys.
pub(crate) const SCRIPT_SEEDS: u64 = 18_000_000_000;

/// From here on there are streams.
pub(crate) const STREAM_SEEDS: u64 = 23_000_000_000;

/// From here on fields of hashes expire.
pub(crate) const FIELD_SEEDS: u64 = 24_000_000_000;

/// Executes the commands that its arguments are, each after the number of its words, and replies with what they have
/// replied; an error if one of them has.
const SCRIPT: &str = "\
local replies, at, failed = {}, 1, false
while at <= #ARGV do
    local words = tonumber(ARGV[at])
    local reply = redis.pcall(unpack(ARGV, at + 1, at + words))
    failed = failed or (type(reply) == 'table' and reply.err ~= nil)
    replies[#replies + 1] = reply
    at = at + words + 1
end
if failed then return redis.error_reply('ERR a command has failed') end
return replies";

/// Keys of each type.
const KEYS: u64 = 3;

/// A command, and which keys its reply certainly shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Op {
    /// Name and arguments.
    pub(crate) args: Vec<Vec<u8>>,
    /// Keys of the client's database that the reply tells something of, if it is no error.
    pub(crate) shows: Vec<Vec<u8>>,
    /// What else the simulator must know.
    pub(crate) kind: Kind,
}

/// What the simulator must know of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    /// Nothing.
    #[default]
    Plain,
    /// It may make its client wait.
    Blocking,
    /// It begins a transaction.
    Multi,
    /// It executes one.
    Exec,
    /// It gives one up.
    Discard,
    /// It watches its keys.
    Watch,
    /// It changes the client's database to this one.
    Select(DbIndex),
    /// It waits for the log.
    WaitAof,
    /// It makes or deletes a backup, and is told when that is durable.
    Backup,
    /// It seals the open block: it starts a compaction, or changes the devices.
    Checkpoint,
    /// It makes the server sleep.
    Sleep,
    /// It sets what the client asks of the log: always, everysec, no, default.
    Durability(u8),
    /// It sets `appendfsync`: always, everysec, no.
    Policy(u8),
}

/// The names that [`Kind::Durability`] and [`Kind::Policy`] count.
pub(crate) const POLICIES: [&str; 4] = ["always", "everysec", "no", "default"];

/// Whether a word is one of the keys here.
fn is_key(word: &[u8]) -> bool {
    matches!(word, [b's' | b'h' | b'l' | b't' | b'z' | b'x', b'0'..=b'9'])
}

impl Op {
    /// A command of words.
    #[must_use]
    pub(crate) fn of(line: &str) -> Self {
        let args = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        Self { args, ..Self::default() }
    }

    /// Makes a library of functions of this name another one.
    fn library(name: &str, value: &str) -> Self {
        let source = format!(
            "#!lua name={name}\nredis.register_function('{name}', function() return '{value}' end)"
        );
        Self::of("FUNCTION LOAD REPLACE").arg(source.into_bytes())
    }

    /// A script that executes these, with their keys declared or not.
    fn script(ops: &[Self], declares: bool) -> Self {
        let mut shows: Vec<Vec<u8>> = ops.iter().flat_map(|op| op.shows.clone()).collect();
        shows.sort();
        shows.dedup();
        let words = ops.iter().flat_map(|op| op.args.iter().skip(1));
        let mut keys: Vec<_> = words.filter(|word| declares && is_key(word)).cloned().collect();
        keys.sort();
        keys.dedup();
        let mut args = vec![b"EVAL".to_vec(), SCRIPT.as_bytes().to_vec()];
        args.push(keys.len().to_string().into_bytes());
        args.extend(keys);
        for op in ops {
            args.push(op.args.len().to_string().into_bytes());
            args.extend(op.args.iter().cloned());
        }
        Self { args, shows, kind: Kind::Plain }
    }

    /// Brings the function `run`, which does what scripts do.
    pub(crate) fn script_library() -> Self {
        let source = format!(
            "#!lua name=scripts\nredis.register_function('run', function(KEYS, ARGV)\n{SCRIPT}\nend)"
        );
        Self::of("FUNCTION LOAD").arg(source.into_bytes())
    }

    /// A script as a call of that function.
    pub(crate) fn into_function_call(mut self) -> Self {
        self.args.splice(..2, [b"FCALL".to_vec(), b"run".to_vec()]);
        self
    }

    /// A command as a trace writes it: `{40 f v}` stands for `f0 v f1 v` and so on up to 39, a
    /// comma in the value of CONFIG SET for a blank, `LIBRARY name value` for the FUNCTION LOAD of one, and `SCRIPT a ; b` for a script that
    /// executes both.
    pub(crate) fn parse(line: &str) -> Self {
        if let Some((name, value)) =
            line.strip_prefix("LIBRARY ").and_then(|words| words.split_once(' '))
        {
            return Self::library(name, value);
        }
        if let Some(lines) = line.strip_prefix("SCRIPT ") {
            return Self::script(&lines.split(" ; ").map(Self::parse).collect::<Vec<_>>(), true);
        }
        let mut words = Vec::new();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('{') {
            let (inside, after) = after.split_once('}').expect("a brace is closed");
            let parts: Vec<&str> = inside.split(' ').collect();
            words.extend(before.split_whitespace().map(str::to_owned));
            let count: u32 = parts[0].parse().expect("a number of times");
            for number in 0..count {
                words.push(format!("{}{number}", parts[1]));
                words.extend(parts[2..].iter().map(|part| (*part).to_owned()));
            }
            rest = after;
        }
        words.extend(rest.split_whitespace().map(str::to_owned));
        if words[0] == "CONFIG"
            && let Some(value) = words.last_mut()
        {
            *value = value.replace(',', " ");
        }
        let kind = match words[0].as_str() {
            "MULTI" => Kind::Multi,
            "EXEC" => Kind::Exec,
            "WATCH" => Kind::Watch,
            "BLPOP" => Kind::Blocking,
            "WAITAOF" => Kind::WaitAof,
            "SELECT" => {
                let number = words[1].parse().expect("a number");
                Kind::Select(DbIndex::checked(number, DATABASES).expect("a database"))
            }
            "BGREWRITEAOF" | "CONFIG" => Kind::Checkpoint,
            _ => Kind::Plain,
        };
        const READS: [&str; 7] =
            ["GET", "HGETALL", "LRANGE", "SMEMBERS", "ZRANGE", "EXISTS", "PTTL"];
        let is_read = READS.contains(&words[0].as_str()) || kind == Kind::Watch;
        let shows = if is_read { vec![words[1].clone().into_bytes()] } else { vec![] };
        Self { args: words.into_iter().map(String::into_bytes).collect(), shows, kind }
    }

    fn shows(mut self, keys: &[&str]) -> Self {
        self.shows = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        self
    }

    fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    fn arg(mut self, arg: Vec<u8>) -> Self {
        self.args.push(arg);
        self
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let words = self.args.iter().map(|arg| {
            let text = arg.escape_ascii().to_string();
            if text.len() > 40 { format!("{}…({})", &text[..30], arg.len()) } else { text }
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// What makes up commands.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    rng: SimEntropy,
    /// Makes every value another one.
    serial: u64,
    /// Whether large values are made.
    pub(crate) large: bool,
    /// Whether dumps are.
    pub(crate) saves: bool,
    /// Whether strings count elements and sorted sets have places.
    has_families: bool,
    /// Whether there are streams.
    streams: bool,
    /// Whether fields of hashes expire.
    fields_expire: bool,
    /// Whether libraries of functions are.
    libraries: bool,
    /// Whether scripts are, and whether they declare their keys.
    scripts: Option<bool>,
    /// Whether named backups are, and their names; those that were to be deleted.
    backups: Option<Vec<String>>,
    pub(crate) deleted: BTreeSet<String>,
    /// Whether the rules by which the archive is thinned out change.
    /// The rules by which archives may be thinned out, if they are.
    keeps: Option<&'static [&'static str]>,
}

impl Workload {
    /// Of the run with this seed.
    pub(crate) fn new(rng: SimEntropy, seed: u64, large: bool) -> Self {
        let backups = (seed >= BACKUP_SEEDS).then(Vec::new);
        let (saves, has_families) = (seed >= SAVE_SEEDS, seed >= FAMILY_SEEDS);
        let libraries = seed >= LIBRARY_SEEDS;
        let scripts = (seed >= SCRIPT_SEEDS).then_some(seed & 1 == 0);
        Self {
            rng,
            serial: 0,
            large,
            saves,
            has_families,
            streams: seed >= STREAM_SEEDS,
            fields_expire: seed >= FIELD_SEEDS,
            libraries,
            scripts,
            backups,
            deleted: BTreeSet::new(),
            keeps: thins_out(seed).then(|| rules_of(seed)),
        }
    }

    /// Makes a backup of now or of the past, or deletes one.
    fn backup(&mut self) -> Option<Op> {
        let names = self.backups.as_ref()?;
        if !names.is_empty() && self.rng.below(3) == 0 {
            let at = usize::try_from(self.rng.below(names.len() as u64)).expect("few");
            let name = self.backups.as_mut()?.remove(at);
            let line = format!("BACKUP DELETE {name}");
            self.deleted.insert(name);
            return Some(Op::of(&line).kind(Kind::Backup));
        }
        let name = format!("n-{}", self.value());
        let at = match self.rng.below(6) {
            0 => " AT flush".to_owned(),
            1 => format!(" AT -{}s", self.rng.below(3)),
            2 => format!(" AT {}", self.rng.below(self.serial + 1)),
            _ => String::new(),
        };
        let line = format!("BACKUP CREATE {name}{at}");
        self.backups.as_mut()?.push(name);
        Some(Op::of(&line).kind(Kind::Backup))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.rng.below(end)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.rng.below(count) == 0
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[usize::try_from(self.rng.below(words.len() as u64)).expect("few")]
    }

    fn key(&mut self, kind: char) -> String {
        let kind = if self.one_in(25) { self.any_kind() } else { kind };
        let number = self.below(KEYS);
        format!("{kind}{number}")
    }

    fn any_kind(&mut self) -> char {
        if self.fields_expire && self.one_in(3) {
            return 'h';
        }
        if self.streams && self.one_in(4) {
            return 'x';
        }
        ['s', 'h', 'l', 't', 'z'][usize::try_from(self.rng.below(5)).expect("few")]
    }

    fn any_key(&mut self) -> String {
        let kind = self.any_kind();
        self.key(kind)
    }

    fn value(&mut self) -> String {
        self.serial += 1;
        format!("v{}", self.serial)
    }

    fn member(&mut self) -> String {
        format!("m{}", self.rng.below(12))
    }

    /// A value of many bytes.
    fn long(&mut self, bytes_max: u64) -> Vec<u8> {
        let bytes = usize::try_from(1 + self.below(bytes_max)).expect("small");
        let mut value = self.value().into_bytes();
        let filler = b'a' + (self.serial % 26) as u8;
        value.resize(bytes.max(value.len()), filler);
        value
    }

    /// The next command outside a transaction.
    pub(crate) fn next(&mut self) -> Op {
        match self.below(1000) {
            0..20 => Op::of("MULTI").kind(Kind::Multi),
            20..40 => {
                let key = self.any_key();
                Op::of(&format!("WATCH {key}")).shows(&[&key]).kind(Kind::Watch)
            }
            40..75 => self.server(),
            75..95 => self.blocking(),
            _ => self.data(),
        }
    }

    /// A command that may stand anywhere.
    pub(crate) fn data(&mut self) -> Op {
        if self.libraries && self.one_in(20) {
            return self.library();
        }
        if let Some(declares) = self.scripts
            && self.one_in(8)
        {
            return self.script(declares, 6);
        }
        self.change()
    }

    /// Whether scripts declare their keys.
    pub(crate) fn declares(&self) -> bool {
        self.scripts.unwrap_or(true)
    }

    /// A script that executes up to one more than so many commands.
    pub(crate) fn script(&mut self, declares: bool, ops_max: u64) -> Op {
        let mut ops: Vec<Op> = (0..=self.below(ops_max)).map(|_| self.change()).collect();
        // The keys that are declared are of the database that the script begins in.
        ops.retain(|op| !declares || op.args[0] != b"SWAPDB");
        Op::script(&ops, declares)
    }

    /// Whether the command with this name may read while everything waits: what others watch is looked for when
    /// databases are exchanged or emptied, and a script may come to a key that it has not declared, or that is in
    /// another database.
    pub(crate) fn may_wait(&self, command: &str) -> bool {
        match self.scripts {
            _ if ["swapdb", "flushdb", "flushall"].contains(&command) => true,
            None => false,
            Some(declares) => !declares || ["move", "copy"].contains(&command),
        }
    }

    /// A command that changes or shows data, and no script.
    pub(crate) fn change(&mut self) -> Op {
        if self.fields_expire && self.one_in(3) {
            return if self.one_in(3) { self.hash() } else { self.expiring_fields() };
        }
        if self.streams && self.one_in(3) {
            return self.stream();
        }
        match self.below(100) {
            0..22 => self.string(),
            22..38 => self.hash(),
            38..52 => self.list(),
            52..63 => self.set(),
            63..76 => self.zset(),
            76..98 => self.generic(),
            _ => self.flush(),
        }
    }

    fn library(&mut self) -> Op {
        let name = self.pick(&["one", "two", "three"]).to_owned();
        match self.below(12) {
            0 => Op::of("FUNCTION FLUSH"),
            1..4 => Op::of(&format!("FUNCTION DELETE {name}")),
            _ => Op::library(&name, &self.value()),
        }
    }

    fn flush(&mut self) -> Op {
        match self.below(6) {
            0 => Op::of("FLUSHALL"),
            1 | 2 => Op::of(self.pick(&["FLUSHDB", "FLUSHDB ASYNC"])),
            _ => {
                let (a, b) = (self.below(DATABASES as u64), self.below(DATABASES as u64));
                Op::of(&format!("SWAPDB {a} {b}"))
            }
        }
    }

    fn server(&mut self) -> Op {
        if self.backups.is_some()
            && self.one_in(4)
            && let Some(op) = self.backup()
        {
            return op;
        }
        if let Some(keeps) = self.keeps
            && self.one_in(6)
        {
            let keep = self.pick(keeps).as_bytes().to_vec();
            return Op::of("CONFIG SET archive-keep").arg(keep);
        }
        if self.saves && self.one_in(5) {
            return Op::of("BGSAVE").kind(Kind::Checkpoint);
        }
        match self.below(36) {
            0..6 => {
                let number = usize::try_from(self.below(DATABASES as u64)).expect("few");
                let db = DbIndex::checked(number, DATABASES).expect("below");
                Op::of(&format!("SELECT {db}")).kind(Kind::Select(db))
            }
            6..12 => {
                let timeout_ms = self.below(3) * 200;
                Op::of(&format!("WAITAOF 1 0 {timeout_ms}")).kind(Kind::WaitAof)
            }
            12..18 => {
                let last = if self.saves { "BGSAVE" } else { "BGREWRITEAOF" };
                Op::of(self.pick(&["BGREWRITEAOF", "CHECKPOINT", last])).kind(Kind::Checkpoint)
            }
            18..25 => {
                let level = self.below(4);
                let name = POLICIES[usize::try_from(level).expect("few")];
                let kind = Kind::Durability(u8::try_from(level).expect("few"));
                Op::of(&format!("CLIENT DURABILITY {name}")).kind(kind)
            }
            25..27 => {
                let level = self.below(3);
                let name = POLICIES[usize::try_from(level).expect("few")];
                let kind = Kind::Policy(u8::try_from(level).expect("few"));
                Op::of(&format!("CONFIG SET appendfsync {name}")).kind(kind)
            }
            27..29 => {
                let ms = 1 + self.below(40);
                Op::of(&format!("DEBUG SLEEP 0.{ms:03}")).kind(Kind::Sleep)
            }
            29 if self.saves => Op::of("SAVE").kind(Kind::Checkpoint),
            29 => Op::of("PING"),
            30 => Op::of("DEBUG RELOAD"),
            31 => self.devices(),
            32 => {
                let rate = 1_000_000 + self.serial;
                Op::of(&format!("CONFIG SET log-scrub-bytes-per-second {rate}"))
            }
            33 => Op::of("DBSIZE"),
            _ => Op::of("PING"),
        }
    }

    /// A change of the log's devices.
    pub(crate) fn devices(&mut self) -> Op {
        // What is listed no more is drained; the next start lists all of them again.
        let list = self.pick(&[
            "/device-0",
            "/device-1",
            "/device-0,/device-1",
            "/device-1,/device-2",
            "/device-2,/device-0",
            "/device-0,/device-1,/device-2",
        ]);
        Op::parse(&format!("CONFIG SET log-devices {list}"))
    }

    fn blocking(&mut self) -> Op {
        if self.streams && self.one_in(2) {
            return self.waiting_reader();
        }
        let (list, other, zset) = (self.key('l'), self.key('l'), self.key('z'));
        let timeout = self.pick(&["0.01", "0.1", "1", "0"]);
        let line = match self.below(5) {
            0 => format!("BLPOP {list} {other} {timeout}"),
            1 => format!("BRPOP {list} {timeout}"),
            2 => format!("BLMOVE {list} {other} LEFT RIGHT {timeout}"),
            3 => format!("BLMPOP {timeout} 1 {list} LEFT COUNT 2"),
            _ => format!("BZPOPMIN {zset} {timeout}"),
        };
        Op::of(&line).kind(Kind::Blocking)
    }

    /// A string or a sorted set that is more to its commands.
    fn family(&mut self) -> Op {
        let (key, other, member) = (self.key('s'), self.key('s'), self.member());
        let (places, more, place) = (self.key('z'), self.key('z'), self.below(180));
        match self.below(10) {
            0..3 => Op::of(&format!("PFADD {key} {member} {}", self.value())).shows(&[&key]),
            // It stores the count.
            3..5 => Op::of(&format!("PFCOUNT {key}")).shows(&[&key]),
            5 => Op::of(&format!("PFMERGE {key} {other}")),
            6 => Op::of(&format!("PFDEBUG TODENSE {key}")).shows(&[&key]),
            7 => Op::of(&format!("GEOADD {places} {place} 38 {member}")).shows(&[&places]),
            8 => Op::of(&format!(
                "GEOSEARCHSTORE {places} {more} FROMLONLAT {place} 38 BYRADIUS 2000 km"
            )),
            _ => Op::of(&format!("ZRANK {places} {member} WITHSCORE")).shows(&[&places]),
        }
    }

    /// A reader of streams that waits for entries.
    fn waiting_reader(&mut self) -> Op {
        let (stream, other) = (self.key('x'), self.key('x'));
        let (ms, group, consumer) =
            (self.pick(&["10", "100", "1000", "0"]), self.group(), self.consumer());
        let line = match self.below(4) {
            0 => format!("XREAD COUNT 3 BLOCK {ms} STREAMS {stream} {other} $ $"),
            1 => {
                format!("XREADGROUP GROUP {group} {consumer} COUNT 4 BLOCK {ms} STREAMS {stream} >")
            }
            2 => format!(
                "XREADGROUP GROUP {group} {consumer} BLOCK {ms} CLAIM 50 STREAMS {stream} {other} > >"
            ),
            _ => format!("XREADGROUP GROUP {group} {consumer} NOACK BLOCK {ms} STREAMS {stream} >"),
        };
        Op::of(&line).kind(Kind::Blocking)
    }

    fn group(&mut self) -> String {
        format!("g{}", self.rng.below(2))
    }

    fn consumer(&mut self) -> String {
        format!("c{}", self.rng.below(3))
    }

    /// The id of an entry that may be there.
    fn entry_id(&mut self) -> String {
        let serial = self.serial.saturating_sub(self.rng.below(60));
        format!("{}-{}", 1 + serial / 4, serial % 4)
    }

    fn stream(&mut self) -> Op {
        let (key, group, consumer) = (self.key('x'), self.group(), self.consumer());
        let (value, id) = (self.value(), self.entry_id());
        let (serial, count) = (self.serial, 1 + self.below(20));
        let references = self.pick(&["KEEPREF", "DELREF", "ACKED"]);
        let line = match self.below(44) {
            0..8 => format!("XADD {key} {}-{} f {value}", 1 + serial / 4, serial % 4),
            8 | 9 => format!("XADD {key} {}-{} f {value} g {id}", 1 + serial / 4, serial % 4),
            10 => format!("XADD {key} MAXLEN {count} {}-{} f {value}", 1 + serial / 4, serial % 4),
            11 => {
                format!("XADD {key} MAXLEN ~ {count} {}-{} h {value}", 1 + serial / 4, serial % 4)
            }
            12 if self.large => {
                let value = self.long(900);
                let id = format!("{}-{}", 1 + serial / 4, serial % 4);
                return Op::of(&format!("XADD {key} {id} f")).arg(value).shows(&[&key]);
            }
            12 => format!("XADD {key} * f {value}"),
            13 => {
                let message = serial % 5;
                match self.below(9) {
                    0 => format!(
                        "XCFGSET {key} IDMP-DURATION {count} IDMP-MAXSIZE {}",
                        count % 4 + 1
                    ),
                    1..4 => format!("XADD {key} IDMPAUTO {consumer} * f {message}"),
                    _ => format!("XADD {key} IDMP {consumer} m{message} * f {value}"),
                }
            }
            14 | 15 => format!("XDEL {key} {id} {}", self.entry_id()),
            16 => format!("XTRIM {key} MAXLEN {count}"),
            17 => format!("XTRIM {key} MINID {id}"),
            18 => format!("XSETID {key} {}-0 ENTRIESADDED {serial}", 2 + serial / 4),
            19..22 => format!("XGROUP CREATE {key} {group} 0 MKSTREAM"),
            22 => format!("XGROUP DESTROY {key} {group}"),
            23 => format!("XGROUP SETID {key} {group} {id}"),
            24 => format!("XGROUP CREATECONSUMER {key} {group} {consumer}"),
            25 => format!("XGROUP DELCONSUMER {key} {group} {consumer}"),
            26..30 => format!("XREADGROUP GROUP {group} {consumer} COUNT {count} STREAMS {key} >"),
            30 => format!("XREADGROUP GROUP {group} {consumer} STREAMS {key} 0"),
            31 => {
                format!("XREADGROUP GROUP {group} {consumer} NOACK COUNT {count} STREAMS {key} >")
            }
            32..34 => format!("XACK {key} {group} {id} {} {}", self.entry_id(), self.entry_id()),
            34 => format!("XCLAIM {key} {group} {consumer} 0 {id} {}", self.entry_id()),
            35 => format!("XAUTOCLAIM {key} {group} {consumer} 0 0 COUNT {count}"),
            36 => match self.below(4) {
                0 => format!("XPENDING {key} {group}"),
                1 => format!("XNACK {key} {group} SILENT IDS 1 {id} FORCE"),
                2 => format!("XNACK {key} {group} FAIL IDS 2 {id} {}", self.entry_id()),
                _ => format!("XNACK {key} {group} FATAL RETRYCOUNT {count} IDS 1 {id}"),
            },
            37 => format!("XREAD COUNT {count} STREAMS {key} 0"),
            43 => format!(
                "XREADGROUP GROUP {group} {consumer} COUNT {count} MAXSIZE 200 CLAIM 9 STREAMS {key} >"
            ),
            38 | 39 => format!("XDELEX {key} {references} IDS 2 {id} {}", self.entry_id()),
            40 | 41 => format!("XACKDEL {key} {group} {references} IDS 2 {id} {}", self.entry_id()),
            42 => format!("XTRIM {key} MAXLEN {count} {references}"),
            _ => format!("XRANGE {key} - +"),
        };
        Op::of(&line).shows(&[&key])
    }

    fn string(&mut self) -> Op {
        if self.has_families && self.one_in(5) {
            return self.family();
        }
        let (key, value) = (self.key('s'), self.value());
        let number = self.below(5000);
        match self.below(30) {
            0..8 => Op::of(&format!("SET {key} {value}")),
            8 | 9 => Op::of(&format!("SET {key} {value} PX {}", 1 + number)),
            10 => Op::of(&format!("SET {key} {value} KEEPTTL")),
            11 => {
                let condition = self.pick(&["NX", "XX", "GET"]);
                Op::of(&format!("SET {key} {value} {condition}")).shows(&[&key])
            }
            12 | 13 => Op::of(&format!("GET {key}")).shows(&[&key]),
            14 => Op::of(&format!("GETDEL {key}")).shows(&[&key]),
            15 => {
                let option = self.pick(&["PERSIST", "PX 300", "EX 2"]);
                Op::of(&format!("GETEX {key} {option}")).shows(&[&key])
            }
            16 | 17 => {
                let bytes = if self.large { 6000 } else { 60 };
                let value = self.long(bytes);
                Op::of(&format!("APPEND {key}")).arg(value).shows(&[&key])
            }
            18 | 19 => {
                let (offset, bytes) = if self.large { (18_000, 3000) } else { (100, 40) };
                let (offset, value) = (self.below(offset), self.long(bytes));
                Op::of(&format!("SETRANGE {key} {offset}")).arg(value).shows(&[&key])
            }
            20 => Op::of(&format!("STRLEN {key}")).shows(&[&key]),
            21 => Op::of(&format!("GETRANGE {key} {number} -1")).shows(&[&key]),
            22 | 23 => Op::of(&format!("INCRBY {key} {number}")).shows(&[&key]),
            24 => Op::of(&format!("SET {key} {number}")),
            25 => {
                let offset = if self.large { number * 20 } else { number / 20 };
                Op::of(&format!("SETBIT {key} {offset} 1")).shows(&[&key])
            }
            26 => {
                let (other, more) = (self.key('s'), self.value());
                Op::of(&format!("MSET {key} {value} {other} {more}"))
            }
            27 => {
                let other = self.key('s');
                Op::of(&format!("MGET {key} {other}")).shows(&[&key, &other])
            }
            28 if self.large => {
                let value = self.long(14_000);
                Op::of(&format!("SET {key}")).arg(value)
            }
            _ => Op::of(&format!("SETNX {key} {value}")).shows(&[&key]),
        }
    }

    fn hash(&mut self) -> Op {
        let (key, field, value) = (self.key('h'), self.member(), self.value());
        match self.below(20) {
            0..6 => Op::of(&format!("HSET {key} {field} {value}")).shows(&[&key]),
            6..9 => {
                let mut line = format!("HSET {key}");
                let count = if self.large { 60 } else { 25 };
                for at in 0..1 + self.below(count) {
                    line.push_str(&format!(" m{at} {}-padding", self.value()));
                }
                Op::of(&line).shows(&[&key])
            }
            9..12 => {
                let other = self.member();
                Op::of(&format!("HDEL {key} {field} {other}")).shows(&[&key])
            }
            12 => Op::of(&format!("HSETNX {key} {field} {value}")).shows(&[&key]),
            13 => Op::of(&format!("HINCRBY {key} n{field} 3")).shows(&[&key]),
            14 => Op::of(&format!("HGET {key} {field}")),
            15 => Op::of(&format!("HLEN {key}")).shows(&[&key]),
            _ => Op::of(&format!("HGETALL {key}")).shows(&[&key]),
        }
    }

    /// A command of fields that expire.
    fn expiring_fields(&mut self) -> Op {
        let (key, field, other) = (self.key('h'), self.member(), self.member());
        let value = self.value();
        let ms = self.pick(&["5", "50", "500", "5000", "100000"]);
        let condition = self.pick(&["NX ", "XX ", "GT ", "LT ", "", "", ""]);
        let line = match self.below(24) {
            0..4 => format!("HPEXPIRE {key} {ms} {condition}FIELDS 2 {field} {other}"),
            4 => format!("HEXPIRE {key} 1 {condition}FIELDS 1 {field}"),
            5 => format!("HPEXPIREAT {key} 1 FIELDS 2 {field} {other}"),
            6..8 => {
                let all: Vec<String> = (0..25).map(|at| format!("m{at}")).collect();
                format!("HPEXPIRE {key} {ms} FIELDS 25 {}", all.join(" "))
            }
            8..11 => format!("HSETEX {key} PX {ms} FIELDS 2 {field} {value} {other} {value}"),
            11 => format!("HSETEX {key} KEEPTTL FIELDS 1 {field} {value}"),
            12 => format!("HSETEX {key} FNX PX {ms} FIELDS 1 {field} {value}"),
            13 => format!("HGETEX {key} PX {ms} FIELDS 2 {field} {other}"),
            14 => format!("HGETEX {key} PERSIST FIELDS 1 {field}"),
            15 => format!("HPERSIST {key} FIELDS 2 {field} {other}"),
            16 => format!("HGETDEL {key} FIELDS 2 {field} {other}"),
            17 => format!("HINCRBY {key} n{field} 2"),
            18 => format!("HPEXPIRE {key} {ms} FIELDS 2 n{field} n{other}"),
            19 if self.large => {
                let value = self.long(400);
                let line = format!("HSETEX {key} PX {ms} FIELDS 1 {field}");
                return Op::of(&line).arg(value).shows(&[&key]);
            }
            19 => format!("HGET {key} {field}"),
            20 => format!("HTTL {key} FIELDS 2 {field} {other}"),
            21 => format!("HLEN {key}"),
            _ => format!("HGETALL {key}"),
        };
        Op::of(&line).shows(&[&key])
    }

    fn list(&mut self) -> Op {
        let (key, value, other) = (self.key('l'), self.value(), self.key('l'));
        let end = self.pick(&["L", "R"]);
        match self.below(20) {
            0..4 => Op::of(&format!("{end}PUSH {key} {value}")).shows(&[&key]),
            4..7 => {
                let mut line = format!("{end}PUSH {key}");
                let count = if self.large { 200 } else { 40 };
                for _ in 0..1 + self.below(count) {
                    line.push_str(&format!(" {}", self.value()));
                }
                Op::of(&line).shows(&[&key])
            }
            7..9 => Op::of(&format!("{end}POP {key}")).shows(&[&key]),
            9 => Op::of(&format!("{end}POP {key} {}", 1 + self.below(30))).shows(&[&key]),
            10 => Op::of(&format!("LSET {key} {} {value}", self.below(4))).shows(&[&key]),
            11 => Op::of(&format!("LINSERT {key} BEFORE v{} {value}", self.serial / 2)),
            12 => Op::of(&format!("LTRIM {key} {} -{}", self.below(5), 1 + self.below(5))),
            13 => {
                Op::of(&format!("LREM {key} 0 v{}", self.serial.saturating_sub(5))).shows(&[&key])
            }
            14 => Op::of(&format!("LMOVE {key} {other} LEFT RIGHT")).shows(&[&key]),
            15 => Op::of(&format!("LLEN {key}")).shows(&[&key]),
            _ => Op::of(&format!("LRANGE {key} 0 -1")).shows(&[&key]),
        }
    }

    fn set(&mut self) -> Op {
        let (key, member, other) = (self.key('t'), self.member(), self.key('t'));
        match self.below(16) {
            0..4 => {
                let more = self.below(100);
                Op::of(&format!("SADD {key} {member} {more}")).shows(&[&key])
            }
            4 => {
                let mut line = format!("SADD {key}");
                for at in 0..1 + self.below(60) {
                    line.push_str(&format!(" member-{at}"));
                }
                Op::of(&line).shows(&[&key])
            }
            5..8 => {
                Op::of(&format!("SREM {key} {member} member-{}", self.below(60))).shows(&[&key])
            }
            8 => Op::of(&format!("SPOP {key}")).shows(&[&key]),
            9 => Op::of(&format!("SPOP {key} {}", self.below(20))).shows(&[&key]),
            10 => Op::of(&format!("SMOVE {key} {other} {member}")),
            11 => Op::of(&format!("SUNIONSTORE {key} {other} {key}")),
            12 => Op::of(&format!("SDIFFSTORE {key} {key} {other}")),
            _ => Op::of(&format!("SMEMBERS {key}")).shows(&[&key]),
        }
    }

    fn zset(&mut self) -> Op {
        let (key, member, score) = (self.key('z'), self.member(), self.below(50));
        match self.below(18) {
            0..4 => Op::of(&format!("ZADD {key} {score} {member}")).shows(&[&key]),
            4 => {
                let mut line = format!("ZADD {key}");
                for at in 0..1 + self.below(50) {
                    line.push_str(&format!(" {} member-{at}", self.below(50)));
                }
                Op::of(&line).shows(&[&key])
            }
            5..7 => Op::of(&format!("ZREM {key} {member} member-{score}")).shows(&[&key]),
            7..9 => Op::of(&format!("ZINCRBY {key} 1.5 {member}")).shows(&[&key]),
            9 => Op::of(&format!("ZPOPMIN {key}")).shows(&[&key]),
            10 => Op::of(&format!("ZPOPMAX {key} 5")).shows(&[&key]),
            11 => Op::of(&format!("ZREMRANGEBYRANK {key} 0 2")).shows(&[&key]),
            12 => Op::of(&format!("ZREMRANGEBYSCORE {key} 0 {score}")).shows(&[&key]),
            13 => {
                let other = self.key('z');
                Op::of(&format!("ZRANGESTORE {key} {other} 0 9"))
            }
            _ => Op::of(&format!("ZRANGE {key} 0 -1 WITHSCORES")).shows(&[&key]),
        }
    }

    fn generic(&mut self) -> Op {
        let (key, other) = (self.any_key(), self.any_key());
        let db = self.below(DATABASES as u64);
        match self.below(28) {
            0..4 => Op::of(&format!("{} {key}", self.pick(&["DEL", "UNLINK"]))).shows(&[&key]),
            4 => Op::of(&format!("DEL {key} {other}")).shows(&[&key, &other]),
            5..8 => {
                let ms = 1 + self.below(4000);
                Op::of(&format!("PEXPIRE {key} {ms}")).shows(&[&key])
            }
            8 => Op::of(&format!("EXPIRE {key} {}", self.below(4))).shows(&[&key]),
            9 => {
                let at = 1_700_000_000_000 + self.below(40_000);
                Op::of(&format!("PEXPIREAT {key} {at}")).shows(&[&key])
            }
            10 | 11 => Op::of(&format!("PERSIST {key}")).shows(&[&key]),
            12..15 => Op::of(&format!("RENAME {key} {other}")).shows(&[&key]),
            15 => Op::of(&format!("RENAMENX {key} {other}")).shows(&[&key]),
            16 => Op::of(&format!("COPY {key} {other} DB {db} REPLACE")).shows(&[&key]),
            17 => Op::of(&format!("COPY {key} {other}")).shows(&[&key]),
            18 | 19 => Op::of(&format!("MOVE {key} {db}")),
            20 => Op::of(&format!("EXISTS {key} {other}")).shows(&[&key, &other]),
            21 => Op::of(&format!("TYPE {key}")).shows(&[&key]),
            22 | 23 => Op::of(&format!("PTTL {key}")).shows(&[&key]),
            24 => Op::of(&format!("DUMP {key}")).shows(&[&key]),
            25 => Op::of(&format!("SORT {key} ALPHA STORE {other}")),
            26 => Op::of(&format!("OBJECT ENCODING {key}")).shows(&[&key]),
            _ => Op::of("DBSIZE"),
        }
    }
}

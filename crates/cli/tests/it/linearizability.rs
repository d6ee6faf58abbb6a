//! Concurrent clients, a server that is killed under them, and a history that one server that never dies
//! could have made.
//!
//! ```text
//!   clients ──► server ✝ restart ✝ restart …      each client notes every call: when, what, the reply, when
//!      └─ histories ──► linearizability_check      an order in which every reply is right, across all crashes
//! ```
//!
//! Single commands are checked key by key, transactions over several keys as one history. At `always`
//! nothing may be lost and nothing that was seen may be taken back; a call that was cut off by the crash
//! happened before it or never. Besides the kill there is a power cut, where there is a disk to cut it from
//! ([`crate::loop_device`]): only then is what was not synced gone.

use crate::kill::{Random, compact_again_and_again, soak_time};
use crate::linearizability_check::{History, Model, Operation, check};
use crate::linearizability_models::{
    ACCOUNTS, Appends, BALANCE, Bank, BankCall, BankReply, Key, KeyCall, KeyReply, LISTS, Step,
    Value,
};
use crate::loop_device::LoopDisk;
use crate::process::{Program, Server};
use crate::random_commands::{Ballast, FORGETFUL, NARROW};
use crate::wire::{Connection, Reply, encode};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 8;

/// How long a test loads the server, restarts and the check not counted.
const TIME: Duration = Duration::from_secs(4);

const OPTIONS: [&str; 6] =
    ["--appendonly", "yes", "--appendfsync", "always", "--log-segment-bytes", "1mb"];

#[test]
fn single_keys_are_linearizable_across_crashes() {
    keys(TIME, &mut Random::from_environment(), &OPTIONS);
}

#[test]
fn single_keys_are_linearizable_while_values_leave_memory() {
    keys(TIME, &mut Random::from_environment(), &[&OPTIONS[..], &FORGETFUL].concat());
}

#[test]
fn single_keys_are_linearizable_while_memory_is_full() {
    let mut server = Program::indelible().start(&[&OPTIONS[..], &NARROW].concat());
    drop(Ballast::open(server.connect()));
    keys_of(&mut server, TIME, &mut Random::from_environment(), next_to_ballast);
    // After each start what fills memory comes back only for what leaves it.
    assert!(server.log().contains("DB opened by its index"), "{}", server.log());
}

#[test]
fn transfers_are_linearizable_while_values_leave_memory() {
    let mut server = Program::indelible().start(&[&OPTIONS[..], &FORGETFUL].concat());
    check_bank(&mut server, TIME, &mut Random::from_environment(), Server::kill);
}

#[test]
fn transfers_are_linearizable_across_crashes() {
    transfers(TIME, &mut Random::from_environment());
}

#[test]
fn appends_to_several_lists_are_linearizable_across_crashes() {
    appends(TIME, &mut Random::from_environment());
}

#[test]
fn transfers_are_linearizable_when_the_power_fails() {
    power_cuts(TIME, &mut Random::from_environment());
}

#[test]
#[ignore = "a soak: one run after the other, for INDELIBLE_SOAK_SECONDS"]
fn everything_is_linearizable_for_long() {
    let started = Instant::now();
    let time = soak_time();
    let mut random = Random::from_environment();
    while started.elapsed() < time {
        keys(2 * TIME, &mut random, &OPTIONS);
        keys(2 * TIME, &mut random, &[&OPTIONS[..], &FORGETFUL].concat());
        for run in [transfers, appends, power_cuts] {
            run(2 * TIME, &mut random);
        }
    }
}

/// Registers, counters and lists, each with a history of its own.
const KEYS: [&str; 7] =
    ["register:0", "register:1", "register:2", "count:0", "count:1", "list:0", "list:1"];

fn keys(time: Duration, random: &mut Random, options: &[&str]) {
    let mut server = Program::indelible().start(options);
    keys_of(&mut server, time, random, touch_a_key);
}

fn keys_of(
    server: &mut Server,
    time: Duration,
    random: &mut Random,
    act: fn(&mut Client<KeyCall, KeyReply>) -> io::Result<()>,
) {
    let history = survive(server, time, random, act, Server::kill);
    let mut by_key: Vec<History<Key>> = vec![Vec::new(); KEYS.len()];
    for (key, operation) in history {
        by_key[key].push(operation);
    }
    for (name, history) in KEYS.iter().zip(&by_key) {
        assert!(history.len() > 50, "{name} has a history of {}", history.len());
        if let Err(why) = check::<Key>(Value::Missing, history) {
            panic!("{name}: {why}");
        }
    }
}

fn transfers(time: Duration, random: &mut Random) {
    let devices = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| devices.path().join(name).display().to_string());
    paths.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let options = [&OPTIONS[..], &["--log-devices", &paths[0], &paths[1]]].concat();
    let mut server = Program::indelible().start(&options);
    check_bank(&mut server, time, random, Server::kill);
}

fn appends(time: Duration, random: &mut Random) {
    let mut server = Program::indelible().start(&OPTIONS);
    let history = survive(&mut server, time, random, append_and_read, Server::kill);
    check_one::<Appends>(Default::default(), history);
}

fn power_cuts(time: Duration, random: &mut Random) {
    let Some(mut disk) = LoopDisk::new(192 << 20) else { return };
    let mut server = Program::indelible().start_on(&disk.data(), &OPTIONS);
    let cut = |server: &mut Server| {
        let switch = disk.switch();
        server.begin_to_kill();
        switch.off();
        server.kill();
        disk.restore();
    };
    check_bank(&mut server, time, random, cut);
    // It must be gone before its disk is.
    drop(server);
}

fn check_bank(
    server: &mut Server,
    time: Duration,
    random: &mut Random,
    cut: impl FnMut(&mut Server),
) {
    for account in 0..ACCOUNTS {
        let set = server.connect().words(&format!("SET account:{account} {BALANCE}"));
        assert_eq!(set.text(), "OK");
    }
    let history = survive(server, time, random, transfer_or_look, cut);
    check_one::<Bank>([BALANCE; ACCOUNTS], history);
}

fn check_one<M: Model>(initial: M::State, history: Noted<M::Call, M::Reply>) {
    assert!(history.len() > 200, "a history of {}", history.len());
    let history = history.into_iter().map(|(_, operation)| operation).collect();
    if let Err(why) = check::<M>(initial, &history) {
        panic!("{why}");
    }
}

/// Operations with the objects that they were on.
type Noted<C, R> = Vec<(usize, Operation<C, R>)>;

/// A client and what it did.
struct Client<C, R> {
    number: usize,
    connection: Connection,
    random: Random,
    started: Instant,
    history: Noted<C, R>,
    /// How many values it has made up.
    values: u32,
}

impl<C, R> Client<C, R> {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap()
    }

    /// A value that no other client writes.
    fn value(&mut self) -> u32 {
        self.values += 1;
        self.values * 100 + u32::try_from(self.number).unwrap()
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).unwrap()
    }

    /// Two numbers below `bound`.
    fn two_below(&mut self, bound: usize) -> (usize, usize) {
        let one = self.below(bound);
        (one, (one + 1 + self.below(bound - 1)) % bound)
    }

    fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<Reply> {
        let reply = self.connection.call(words)?;
        assert!(!reply.is_error(), "{reply:?}");
        Ok(reply)
    }

    /// Makes a call and notes it, whether the reply comes or not.
    fn call(
        &mut self,
        object: usize,
        call: C,
        send: impl FnOnce(&mut Self) -> io::Result<R>,
    ) -> io::Result<()> {
        let from = self.now();
        let reply = send(self);
        // Without a reply the end is known later: when the server is gone.
        let to = if reply.is_ok() { self.now() } else { u64::MAX };
        let (client, failed) = (self.number, reply.as_ref().is_err());
        self.history.push((object, Operation { client, call, reply: reply.ok(), from, to }));
        if failed { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }

    /// Sends commands in MULTI all at once; the replies in EXEC's, or nothing when it was called off.
    fn multi(&mut self, commands: &[Vec<String>]) -> io::Result<Option<Vec<Reply>>> {
        let body: Vec<u8> = commands.iter().flat_map(|words| encode(words)).collect();
        let request = [encode(&["MULTI"]), body, encode(&["EXEC"])].concat();
        self.connection.send_bytes(&request)?;
        for _ in 0..=commands.len() {
            let reply = self.connection.receive()?;
            assert!(!reply.is_error(), "{reply:?}");
        }
        match self.connection.receive()? {
            Reply::Null(_) => Ok(None),
            Reply::Many(_, replies) => {
                assert!(!replies.iter().any(Reply::is_error), "{replies:?}");
                Ok(Some(replies))
            }
            reply => panic!("EXEC: {reply:?}"),
        }
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn integer(reply: &Reply) -> i64 {
    reply.text().parse().unwrap_or_else(|_| panic!("an account has lost its balance: {reply:?}"))
}

/// Mostly reads what fills the memory, so that the keys may leave it meanwhile.
fn next_to_ballast(client: &mut Client<KeyCall, KeyReply>) -> io::Result<()> {
    if client.below(3) == 0 {
        return touch_a_key(client);
    }
    client.connection.call(&["SELECT", "5"])?;
    Ballast::read(&mut client.connection, &mut client.random)?;
    client.connection.call(&["SELECT", "0"])?;
    Ok(())
}

/// A random command on a random key.
fn touch_a_key(client: &mut Client<KeyCall, KeyReply>) -> io::Result<()> {
    let key = client.below(KEYS.len());
    let name = KEYS[key];
    let value = client.value().to_string();
    let (call, line) = match (name.split_once(':').unwrap().0, client.below(20)) {
        (_, 0) => (KeyCall::Del, format!("DEL {name}")),
        ("register", 1..5) => (KeyCall::Set(value.clone()), format!("SET {name} {value}")),
        ("register", 5..8) => (KeyCall::Append(value.clone()), format!("APPEND {name} {value}")),
        ("register", 8..13) => return compare_and_set(client, key, value),
        ("count", 1..12) => (KeyCall::Incr, format!("INCR {name}")),
        ("list", 1..9) => (KeyCall::LPush(value.clone()), format!("LPUSH {name} {value}")),
        ("list", 9..16) => (KeyCall::RPop, format!("RPOP {name}")),
        ("list", _) => (KeyCall::LRange, format!("LRANGE {name} 0 -1")),
        _ => (KeyCall::Get, format!("GET {name}")),
    };
    client.call(key, call, |client| {
        let reply = client.send(&words(&line))?;
        let elements: Vec<String> = reply.elements().iter().map(Reply::text).collect();
        Ok(if elements.is_empty() { reply.text() } else { elements.join(",") })
    })
}

/// Sets a register if it holds what was read before.
fn compare_and_set(
    client: &mut Client<KeyCall, KeyReply>,
    key: usize,
    new: String,
) -> io::Result<()> {
    let name = KEYS[key];
    client.send(&["WATCH", name])?;
    let from = client.now();
    let old = client.send(&["GET", name])?.text();
    let read_at = client.now();
    let call = KeyCall::Cas(old.clone(), new.clone());
    let mut called_off = false;
    client.call(key, call, |client| {
        let done = client.multi(&[words(&format!("SET {name} {new}"))])?;
        called_off = done.is_none();
        Ok("OK".to_owned())
    })?;
    if called_off {
        // Then it was a read, at the time of the GET.
        let last = client.history.last_mut().expect("just noted");
        let (number, reply) = (client.number, Some(old));
        last.1 = Operation { client: number, call: KeyCall::Get, reply, from, to: read_at };
    }
    Ok(())
}

/// A random transaction of the bank.
fn transfer_or_look(client: &mut Client<BankCall, BankReply>) -> io::Result<()> {
    let (one, other) = client.two_below(ACCOUNTS);
    let amount = i64::try_from(1 + client.below(50)).unwrap();
    match client.below(10) {
        0..4 => {
            let call = BankCall::Transfer { from: one, to: other, amount };
            let commands = [
                words(&format!("DECRBY account:{one} {amount}")),
                words(&format!("INCRBY account:{other} {amount}")),
            ];
            client.call(0, call, |client| {
                let replies = client.multi(&commands)?.expect("nothing is watched");
                Ok(replies.iter().map(integer).collect())
            })
        }
        4..7 => move_watched(client, one, other, amount),
        7 => client.call(0, BankCall::Audit, |client| {
            let names = (0..ACCOUNTS).map(|account| format!("account:{account}"));
            let command: Vec<String> = ["MGET".to_owned()].into_iter().chain(names).collect();
            Ok(client.send(&command)?.elements().iter().map(integer).collect())
        }),
        _ => client.call(0, BankCall::Look { one, other }, |client| {
            let commands = [one, other].map(|account| words(&format!("GET account:{account}")));
            let replies = client.multi(&commands)?.expect("nothing is watched");
            Ok(replies.iter().map(integer).collect())
        }),
    }
}

/// Moves money as clients do that read before they write.
fn move_watched(
    client: &mut Client<BankCall, BankReply>,
    from: usize,
    to: usize,
    amount: i64,
) -> io::Result<()> {
    let names = [from, to].map(|account| format!("account:{account}"));
    client.send(&["WATCH", &names[0], &names[1]])?;
    let mut seen = [0; 2];
    for (account, (name, seen)) in [from, to].into_iter().zip(names.iter().zip(&mut seen)) {
        // What was read counts by itself, whatever becomes of the rest.
        client.call(0, BankCall::Look { one: account, other: account }, |client| {
            *seen = integer(&client.send(&["GET", name])?);
            Ok(vec![*seen; 2])
        })?;
    }
    let new = (seen[0] - amount, seen[1] + amount);
    let call = BankCall::Move { from, to, seen: (seen[0], seen[1]), new };
    let commands = [
        words(&format!("SET {} {}", names[0], new.0)),
        words(&format!("SET {} {}", names[1], new.1)),
    ];
    let mut called_off = false;
    client.call(0, call, |client| {
        called_off = client.multi(&commands)?.is_none();
        Ok(Vec::new())
    })?;
    if called_off {
        client.history.pop();
    }
    Ok(())
}

/// A transaction of appends and reads, and now and then a new start.
fn append_and_read(client: &mut Client<Vec<Step>, Vec<Vec<u32>>>) -> io::Result<()> {
    if client.below(50) == 0 {
        return client.call(0, Vec::new(), |client| {
            client.send(&words("DEL list:0 list:1 list:2"))?;
            Ok(Vec::new())
        });
    }
    let count = 1 + client.below(4);
    let steps: Vec<Step> = (0..count)
        .map(|_| {
            let list = client.below(LISTS);
            if client.below(2) == 0 { Step::Append(list, client.value()) } else { Step::Read(list) }
        })
        .collect();
    let commands: Vec<Vec<String>> = steps
        .iter()
        .map(|step| match step {
            Step::Append(list, value) => words(&format!("RPUSH list:{list} {value}")),
            Step::Read(list) => words(&format!("LRANGE list:{list} 0 -1")),
        })
        .collect();
    client.call(0, steps, |client| {
        let replies = client.multi(&commands)?.expect("nothing is watched");
        let numbers = |reply: &Reply| match reply {
            Reply::Many(_, elements) => elements.iter().map(number).collect(),
            reply => vec![number(reply)],
        };
        Ok(replies.iter().map(numbers).collect())
    })
}

fn number(reply: &Reply) -> u32 {
    reply.text().parse().unwrap()
}

/// Lets clients act, with `cut` again and again ending the server in the middle of it, and gives
/// everything that they noted. After the last crash they act once more.
fn survive<C: Send, R: Send>(
    server: &mut Server,
    time: Duration,
    random: &mut Random,
    act: fn(&mut Client<C, R>) -> io::Result<()>,
    mut cut: impl FnMut(&mut Server),
) -> Noted<C, R> {
    let started = Instant::now();
    let mut history = Vec::new();
    let (mut loaded, mut crashes) = (Duration::ZERO, 0);
    while loaded < time {
        let load = Duration::from_millis(50 + random.below(450));
        let seed = random.below(u64::MAX);
        let clients = (0..CLIENTS).map(|number| Client {
            number,
            connection: server.connect(),
            random: Random(seed.wrapping_add(number as u64)),
            started,
            history: Vec::new(),
            values: u32::try_from(crashes * 10_000).unwrap(),
        });
        let clients: Vec<Client<C, R>> = clients.collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let threads: Vec<_> = clients
                .into_iter()
                .map(|mut client| {
                    scope.spawn(move || {
                        while act(&mut client).is_ok() {}
                        client.history
                    })
                })
                .collect();
            let connection = server.connect();
            let stop = &stop;
            scope.spawn(move || compact_again_and_again(connection, stop));
            std::thread::sleep(load);
            assert!(server.is_running(), "the server ended by itself:\n{}", server.log());
            cut(server);
            stop.store(true, Ordering::Relaxed);
            let gone = u64::try_from(started.elapsed().as_nanos()).unwrap();
            // What was not answered happened before the server was gone, or never; what was asked only
            // then did not.
            history.extend(
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).filter_map(
                    |(object, operation): (usize, Operation<C, R>)| {
                        let to = if operation.reply.is_none() { gone } else { operation.to };
                        (operation.from <= to).then_some((object, Operation { to, ..operation }))
                    },
                ),
            );
        });
        server.restart();
        loaded += load;
        crashes += 1;
    }
    let lost = history.iter().filter(|(_, operation)| operation.reply.is_none()).count();
    assert!(lost > 0, "no crash met a call");
    println!("{} calls, {crashes} crashes, {lost} calls without a reply", history.len());
    history
}

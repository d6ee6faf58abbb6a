//! MIGRATE: between two servers of ours, to Redis and back; and with targets that refuse, are silent, lie, or die.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::instant_start::info;
use crate::kill::Random;
use crate::process::{Program, Server, wait_until};
use crate::rdb_files::{OPTIONS, digest_of, fill};
use crate::wire::{Connection, Reply};

/// What no test waits for.
const LONG: Duration = Duration::from_millis(300);

fn call(connection: &mut Connection, words: &[&[u8]]) -> Reply {
    connection.call(words).unwrap()
}

/// MIGRATE of one key, or of none, with options.
fn migrate(connection: &mut Connection, port: u16, key: &str, options: &str) -> String {
    let port = port.to_string();
    let mut words = vec!["MIGRATE", "127.0.0.1", &port, key, "0", "20000"];
    words.extend(options.split_whitespace());
    connection.call(&words).unwrap().text()
}

/// Moves every key of every database.
fn move_all(from: &Server, to: &Server) {
    let mut connection = from.connect();
    for database in ["0", "5", "15"] {
        assert_eq!(call(&mut connection, &[b"SELECT", database.as_bytes()]).text(), "OK");
        let keys = connection.words("KEYS *");
        let port = to.port.to_string();
        let mut words: Vec<Vec<u8>> =
            ["MIGRATE", "localhost", &port, "", database, "20000", "KEYS"]
                .map(|word| word.as_bytes().to_vec())
                .to_vec();
        let name = |key: &Reply| match key {
            Reply::Blob(_, name) => name.clone(),
            other => panic!("{other:?} is no name"),
        };
        words.extend(keys.elements().iter().map(name));
        assert!(words.len() > 20);
        assert_eq!(connection.call(&words).unwrap().text(), "OK");
        assert_eq!(connection.words("DBSIZE").text(), "0");
    }
}

fn move_around(servers: &[Server]) {
    fill(&mut servers[0].connect());
    let digest = digest_of(&mut servers[0].connect());
    for pair in servers.windows(2) {
        move_all(&pair[0], &pair[1]);
        assert_eq!(digest_of(&mut pair[1].connect()), digest);
        let mut connection = pair[1].connect();
        let left_ms: i64 = connection.words("PTTL string:0:").text().parse().unwrap();
        assert!((990_000_000..=1_000_000_000).contains(&left_ms), "{left_ms}");
        assert_eq!(connection.words("TTL set:short").text(), "-1");
    }
}

#[test]
fn every_value_comes_to_another_server_of_ours_and_is_gone_for_good() {
    let indelible = Program::indelible();
    let mut servers = [indelible.start(&OPTIONS), indelible.start(&OPTIONS)];
    move_around(&servers);
    let digest = digest_of(&mut servers[1].connect());
    for server in &mut servers {
        server.kill();
        server.restart();
    }
    assert_eq!(servers[0].connect().words("DBSIZE").text(), "0");
    assert_eq!(digest_of(&mut servers[1].connect()), digest);
}

#[test]
fn every_value_comes_to_redis_and_back() {
    let Some(redis) = Program::redis() else { return };
    let indelible = Program::indelible();
    move_around(&[indelible.start(&OPTIONS), redis.start(&OPTIONS), indelible.start(&OPTIONS)]);
}

#[test]
fn values_that_have_left_memory_come_as_well() {
    let cold = [
        "--maxmemory",
        "100mb",
        "--maxmemory-policy",
        "cold-lfu",
        "--debug-drop-values",
        "100",
        "--log-index",
        "yes",
        "--log-index-cut-bytes",
        "1mb",
    ];
    let options = [&OPTIONS[..], &cold].concat();
    let indelible = Program::indelible();
    let servers = [indelible.start(&options), indelible.start(&options)];
    fill(&mut servers[0].connect());
    let digest = digest_of(&mut servers[0].connect());
    let figure = |name: &str| info(&servers[0], name).parse::<u64>().unwrap();
    // Each look is an iteration, after which some values leave.
    wait_until(|| figure("cold_values") + figure("cold_keys") > 100);
    let fetches = figure("cold_fetches");
    move_all(&servers[0], &servers[1]);
    assert!(figure("cold_fetches") > fetches + 50);
    assert_eq!(digest_of(&mut servers[1].connect()), digest);
}

#[test]
fn options_are_as_in_redis() {
    let indelible = Program::indelible();
    let source = indelible.start(&OPTIONS);
    let targets = [Some(indelible), Program::redis()];
    for target in targets.into_iter().flatten().map(|program| program.start(&OPTIONS)) {
        let (mut here, mut there) = (source.connect(), target.connect());
        let port = target.port;
        here.words("MSET a 1 b 2 c 3");
        assert_eq!(migrate(&mut here, port, "a", "COPY"), "OK");
        assert_eq!(here.words("GET a").text() + &there.words("GET a").text(), "11");
        here.words("SET a 5");
        let busy =
            "ERR Target instance replied with error: BUSYKEY Target key name already exists.";
        assert_eq!(migrate(&mut here, port, "a", ""), busy);
        assert_eq!(here.words("GET a").text() + &there.words("GET a").text(), "51");
        // What is not busy goes all the same.
        assert_eq!(migrate(&mut here, port, "", "KEYS none b a"), busy);
        assert_eq!(here.words("EXISTS b").text() + &there.words("GET b").text(), "02");
        assert_eq!(migrate(&mut here, port, "", "REPLACE KEYS none a c"), "OK");
        assert_eq!(here.words("EXISTS a b c").text() + &there.words("GET a").text(), "05");
        assert_eq!(migrate(&mut here, port, "", "KEYS none a c"), "NOKEY");
        here.words("SET d 1");
        here.words("CONFIG SET notify-keyspace-events KEA");
        let mut listener = source.connect();
        listener.words("SUBSCRIBE __keyevent@0__:del");
        let port = port.to_string();
        assert_eq!(here.words(&format!("MIGRATE localhost {port} d 3 5000")).text(), "OK");
        assert_eq!(listener.receive().unwrap().elements()[2].text(), "d");
        there.words("SELECT 3");
        assert_eq!(there.words("GET d").text(), "1");
        here.words("SET e 1");
        let reply = here.words(&format!("MIGRATE localhost {port} e 99 5000 COPY")).text();
        assert_eq!(reply, "ERR Target instance replied with error: ERR DB index is out of range");
    }
}

#[test]
fn a_target_may_want_a_password() {
    let options = [&OPTIONS[..], &["--requirepass", "secret"]].concat();
    let indelible = Program::indelible();
    let source = indelible.start(&OPTIONS);
    let targets = [Some(indelible), Program::redis()];
    for program in targets.into_iter().flatten() {
        let server = program.start(&options);
        let (mut here, mut there) = (source.connect(), server.connect());
        there.words("AUTH secret");
        wait_until(|| there.words("GET a").kind() == b'$');
        here.words("MSET a 1 b 2");
        let refused = "ERR Target instance replied with error: ";
        let reply = migrate(&mut here, server.port, "a", "");
        assert_eq!(reply, format!("{refused}NOAUTH Authentication required."));
        for wrong in ["AUTH wrong", "AUTH2 default wrong", "AUTH2 stranger secret"] {
            let reply = migrate(&mut here, server.port, "a", wrong);
            assert!(reply.starts_with(&format!("{refused}WRONGPASS")), "{reply}");
        }
        assert_eq!(here.words("EXISTS a").text(), "1");
        assert_eq!(migrate(&mut here, server.port, "a", "AUTH secret"), "OK");
        assert_eq!(migrate(&mut here, server.port, "b", "AUTH2 default secret COPY"), "OK");
        assert_eq!(there.words("GET a").text() + &there.words("GET b").text(), "12");
    }
}

/// A target that does what a test says.
struct Fake {
    port: u16,
    told: Sender<&'static str>,
    heard: Receiver<Vec<u8>>,
    thread: JoinHandle<()>,
}

impl Fake {
    /// It accepts one connection, on which it says what it is told, and ends it when it is told nothing more.
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (told, says) = channel::<&'static str>();
        let (hears, heard) = channel();
        let thread = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            for words in says {
                match words {
                    "(reads)" => hears.send(read_request(&mut stream)).unwrap(),
                    // The other side may have gone.
                    words => _ = stream.write_all(words.as_bytes()),
                }
            }
        });
        Self { port, told, heard, thread }
    }

    fn says(&self, words: &'static str) {
        self.told.send(words).unwrap();
    }

    fn reads(&self) -> Vec<u8> {
        self.says("(reads)");
        self.heard.recv().unwrap()
    }

    fn ends(self) {
        drop(self.told);
        self.thread.join().unwrap();
    }
}

/// The words of a request, one after the other.
fn read_request(stream: &mut TcpStream) -> Vec<u8> {
    // A reader of one byte takes nothing of what comes behind.
    let mut reader = BufReader::with_capacity(1, stream);
    let mut number = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line[1..].trim().parse::<usize>().unwrap()
    };
    let count = number();
    let mut words = Vec::new();
    for _ in 0..count {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let mut word = vec![0; line[1..].trim().parse::<usize>().unwrap() + 2];
        reader.read_exact(&mut word).unwrap();
        words.extend_from_slice(&word[..word.len() - 2]);
        words.push(b' ');
    }
    words
}

#[test]
fn a_target_that_is_not_there_or_silent_ends_at_the_timeout_and_holds_no_writer_up() {
    let source = Program::indelible().start(&OPTIONS);
    let (mut here, mut writer) = (source.connect(), source.connect());
    here.words("SET a 1");
    let port = crate::process::free_port();
    let reply = here.words(&format!("MIGRATE 127.0.0.1 {port} a 0 20000")).text();
    assert_eq!(reply, "IOERR error or timeout writing to target instance");
    let reply = here.words(&format!("MIGRATE no.such.host.invalid {port} a 0 20000")).text();
    assert_eq!(reply, "IOERR error or timeout connecting to the client");
    let fake = Fake::new();
    let started = Instant::now();
    here.send(&["MIGRATE", "127.0.0.1", &fake.port.to_string(), "a", "0", "1500"]).unwrap();
    assert_eq!(fake.reads(), b"SELECT 0 ");
    assert_eq!(writer.words("SET b 1").text(), "OK");
    assert!(started.elapsed() < Duration::from_millis(1500), "it was not held up");
    assert_eq!(here.receive().unwrap().text(), "IOERR error or timeout reading to target instance");
    assert!(started.elapsed() >= Duration::from_millis(1500));
    assert_eq!(writer.words("GET a").text(), "1");
    fake.ends();
}

#[test]
fn writers_wait_while_values_are_on_their_way_and_readers_do_not() {
    let source = Program::indelible().start(&OPTIONS);
    let (mut here, mut reader, mut writer) = (source.connect(), source.connect(), source.connect());
    here.words("SET a 1 PX 3000");
    let fake = Fake::new();
    here.send(&["MIGRATE", "127.0.0.1", &fake.port.to_string(), "a", "0", "60000"]).unwrap();
    fake.reads();
    fake.says("+OK\r\n");
    assert!(fake.reads().starts_with(b"RESTORE a "));
    writer.send(&["INCR", "a"]).unwrap();
    assert_eq!(reader.words("GET a").text(), "1");
    assert!(writer.receive_within(LONG).unwrap().is_none(), "it waits");
    // The key stays although its time is over.
    wait_until(|| reader.words("EXISTS a").text() == "0");
    std::thread::sleep(LONG);
    assert_eq!(reader.words("DBSIZE").text(), "1");
    fake.says("+OK\r\n");
    assert_eq!(here.receive().unwrap().text(), "OK");
    assert_eq!(writer.receive().unwrap().text(), "1");
    assert_eq!(reader.words("PTTL a").text(), "-1", "it is another key");
    fake.ends();
}

#[test]
fn a_target_that_dies_in_the_middle_has_what_it_has_acknowledged() {
    let mut source = Program::indelible().start(&OPTIONS);
    let mut here = source.connect();
    let many: String = (0..100).map(|number| format!(" key:{number} v")).collect();
    here.words(&format!("MSET{many}"));
    let keys: String = (0..100).map(|number| format!(" key:{number}")).collect();
    let fake = Fake::new();
    let command = format!("MIGRATE 127.0.0.1 {} {} 0 20000 KEYS{keys}", fake.port, "\"\"");
    let words: Vec<&str> =
        command.split_whitespace().map(|word| if word == "\"\"" { "" } else { word }).collect();
    here.send(&words).unwrap();
    fake.reads();
    fake.says("+OK\r\n");
    for _ in 0..100 {
        fake.reads();
    }
    for _ in 0..40 {
        fake.says("+OK\r\n");
    }
    fake.says("+O");
    fake.ends();
    let reply = here.receive().unwrap().text();
    assert_eq!(reply, "IOERR error or timeout reading to target instance");
    source.kill();
    source.restart();
    let mut here = source.connect();
    assert_eq!(here.words("DBSIZE").text(), "60");
    assert_eq!(here.words("EXISTS key:39 key:40 key:99").text(), "2");
}

#[test]
fn a_client_that_is_killed_does_not_undo_what_was_sent() {
    let source = Program::indelible().start(&OPTIONS);
    let (mut here, mut other) = (source.connect(), source.connect());
    here.words("SET a 1");
    let id = here.words("CLIENT ID").text();
    let fake = Fake::new();
    here.send(&["MIGRATE", "127.0.0.1", &fake.port.to_string(), "a", "0", "20000"]).unwrap();
    fake.reads();
    fake.says("+OK\r\n");
    fake.reads();
    assert_eq!(other.words(&format!("CLIENT KILL ID {id}")).text(), "1");
    assert!(here.is_closed());
    assert_eq!(other.words("EXISTS a").text(), "1");
    fake.says("+OK\r\n");
    wait_until(|| other.words("EXISTS a").text() == "0");
    assert_eq!(other.words("SET b 1").text(), "OK");
    fake.ends();
}

#[test]
fn the_server_can_end_meanwhile() {
    let mut source = Program::indelible().start(&OPTIONS);
    let (mut here, mut other) = (source.connect(), source.connect());
    here.words("SET a 1");
    let fake = Fake::new();
    here.send(&["MIGRATE", "127.0.0.1", &fake.port.to_string(), "a", "0", "60000"]).unwrap();
    fake.reads();
    fake.says("+OK\r\n");
    fake.reads();
    let started = Instant::now();
    other.send(&["SHUTDOWN"]).unwrap();
    assert_eq!(source.wait_for_exit(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(30));
    fake.ends();
    source.restart();
    assert_eq!(source.connect().words("GET a").text(), "1");
}

#[test]
fn data_that_is_loaded_again_meanwhile_stays() {
    let source = Program::indelible().start(&OPTIONS);
    let (mut here, mut other) = (source.connect(), source.connect());
    here.words("SET a 1");
    let fake = Fake::new();
    here.send(&["MIGRATE", "127.0.0.1", &fake.port.to_string(), "a", "0", "60000"]).unwrap();
    fake.reads();
    fake.says("+OK\r\n");
    fake.reads();
    assert_eq!(other.words("DEBUG RELOAD").text(), "OK");
    let reply = here.receive().unwrap().text();
    assert!(reply.starts_with("IOERR the data is loaded again"), "{reply}");
    fake.says("+OK\r\n");
    fake.ends();
    assert_eq!(other.words("SET b 1").text(), "OK");
    assert_eq!(other.words("GET a").text(), "1");
}

#[test]
fn to_itself_it_comes_to_the_timeout() {
    let source = Program::indelible().start(&OPTIONS);
    let mut here = source.connect();
    here.words("SET a 1");
    let reply = here.words(&format!("MIGRATE 127.0.0.1 {} a 0 300", source.port)).text();
    assert_eq!(reply, "IOERR error or timeout reading to target instance");
    assert_eq!(here.words("GET a").text(), "1");
    assert_eq!(here.words("SET a 2").text(), "OK");
}

/// Keys that are moved while a server is killed, and what each has.
const KEYS: usize = 200;

fn value(number: usize) -> String {
    format!("{number}:{}", "v".repeat(20_000))
}

#[test]
fn a_kill_in_the_middle_leaves_every_key_at_least_at_one_side() {
    let indelible = Program::indelible();
    let options = ["--appendfsync", "always"];
    let mut random = Random::from_environment();
    let (mut both, mut moved) = (0, 0);
    for round in 0..8 {
        let mut servers = [indelible.start(&options), indelible.start(&options)];
        let [mut here, mut there] = servers.each_ref().map(Server::connect);
        for number in 0..KEYS {
            here.words(&format!("SET key:{number} {}", value(number)));
        }
        let names: Vec<String> = (0..KEYS).map(|number| format!("key:{number}")).collect();
        let port = servers[1].port.to_string();
        for chunk in names.chunks(20) {
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(chunk.iter().map(String::as_str));
            here.send(&words).unwrap();
        }
        std::thread::sleep(Duration::from_millis(random.below(120)));
        let victim = &mut servers[round % 2];
        victim.kill();
        // What goes on ends before it is looked at.
        victim.restart();
        if round % 2 == 1 {
            (0..KEYS / 20).for_each(|_| _ = here.receive().unwrap());
        }
        drop((here, there));
        [here, there] = servers.each_ref().map(Server::connect);
        for number in 0..KEYS {
            let found = [&mut here, &mut there]
                .map(|it| it.words(&format!("GET key:{number}")).text() == value(number));
            assert!(found[0] || found[1], "key:{number} is lost, round {round}");
            both += usize::from(found[0] && found[1]);
            moved += usize::from(!found[0]);
        }
    }
    println!("{moved} were moved, {both} are at both sides");
}

//! More than a server can take: clients that never read, ten thousand connections, values as large as they
//! may be, a device that is slow, memory that is full. Memory stays bounded, nothing acknowledged is lost,
//! and the others are served; how fast is printed, not asserted.

use crate::fault_injection::Fault;
use crate::process::{PATIENCE, Program, Server, wait_until};
use crate::wire::{Connection, encode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MB: u64 = 1 << 20;

/// How much larger than its parts memory may be: allocator, buffers on their way, other clients.
const SLACK_BYTES: u64 = 24 * MB;

const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// A figure of INFO.
fn info(connection: &mut Connection, name: &str) -> u64 {
    let text = connection.words("INFO everything").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().parse().unwrap()
}

/// The server's memory in the kernel's eyes: `VmRSS` now, `VmHWM` at the most.
fn resident_bytes(server: &Server, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// How long commands took.
#[derive(Default)]
struct Latencies(Vec<Duration>);

impl Latencies {
    fn measure(&mut self, connection: &mut Connection, words: &str, expected: &str) {
        let started = Instant::now();
        assert_eq!(connection.words(words).text(), expected, "{words}");
        self.0.push(started.elapsed());
    }

    fn report(mut self, what: &str) {
        self.0.sort();
        let at = |percent: usize| self.0[(self.0.len() - 1) * percent / 100];
        let (median, p99, most) = (at(50), at(99), at(100));
        println!(
            "{what}: {} commands, median {median:?}, 99 % {p99:?}, at most {most:?}",
            self.0.len()
        );
    }
}

#[test]
fn clients_that_never_read_take_bounded_memory() {
    let limit = ["--client-output-buffer-limit", "normal", "16mb", "1mb", "1"];
    let mut server = Program::indelible().start(&limit);
    let mut other = server.connect();
    assert_eq!(other.call(&["SET", "large", &"x".repeat(1 << 20)]).unwrap().text(), "OK");
    assert_eq!(other.words("SET k v").text(), "OK");
    let before = info(&mut other, "used_memory");
    let mut latencies = Latencies::default();
    let mut most = 0;
    let mut greedy: Vec<Connection> = (0..16).map(|_| server.connect()).collect();
    for (number, connection) in greedy.iter_mut().enumerate() {
        // Half of them stay below the hard limit and above the soft one.
        let count = if number % 2 == 0 { 2000 } else { 12 };
        // The server may close the connection while we still send.
        let _sent = connection.send_bytes(&encode(&["GET", "large"]).repeat(count));
        for _ in 0..20 {
            latencies.measure(&mut other, "GET k", "v");
        }
        most = most.max(info(&mut other, "used_memory"));
    }
    wait_until(|| {
        latencies.measure(&mut other, "GET k", "v");
        most = most.max(info(&mut other, "used_memory"));
        info(&mut other, "connected_clients") == 1
    });
    latencies.report("while others do not read");
    println!("memory before {before}, at the most {most}");
    // A buffer may be twice as large as what is in it.
    let allowed = before + 16 * 2 * 16 * MB + SLACK_BYTES;
    assert!(most < allowed, "{most} bytes used, {allowed} allowed");
    wait_until(|| info(&mut other, "used_memory") < before + SLACK_BYTES);
    assert!(server.is_running());
}

#[test]
fn clients_that_never_read_share_bounded_memory() {
    let server = Program::indelible().start(&["--maxmemory-clients", "32mb"]);
    let mut other = server.connect();
    assert_eq!(other.call(&["SET", "large", &"x".repeat(1 << 20)]).unwrap().text(), "OK");
    let before = info(&mut other, "used_memory");
    let mut most = 0;
    let mut greedy: Vec<Connection> = (0..16).map(|_| server.connect()).collect();
    for connection in &mut greedy {
        // Each alone is below the limit.
        let _sent = connection.send_bytes(&encode(&["GET", "large"]).repeat(12));
        most = most.max(info(&mut other, "used_memory"));
    }
    wait_until(|| {
        most = most.max(info(&mut other, "used_memory"));
        info(&mut other, "evicted_clients") > 0
    });
    println!("memory before {before}, at the most {most}");
    // While one client's requests are executed the sum may grow past the limit, by what they make.
    assert!(most < before + 2 * 32 * MB + SLACK_BYTES, "{most} bytes in use");
    assert_eq!(other.words("STRLEN large").text(), MB.to_string());
}

#[test]
fn ten_thousand_idle_connections_are_cheap() {
    const COUNT: u64 = 10_000;
    if !may_open_files(COUNT + 200) {
        return;
    }
    let server = Program::indelible().start(&["--maxclients", "10100"]);
    let mut active = server.connect();
    if info(&mut active, "maxclients") < COUNT + 1 {
        testing::skipped("open files", format_args!("the server may not open {COUNT} (ulimit -n)"));
        return;
    }
    assert_eq!(active.words("SET k v").text(), "OK");
    let before = info(&mut active, "used_memory");
    let mut idle = Vec::new();
    let started = Instant::now();
    for _ in 0..COUNT / 100 {
        let mut some: Vec<Connection> = (0..100).map(|_| server.connect()).collect();
        some.iter_mut().for_each(|connection| connection.send(&["PING"]).unwrap());
        for connection in &mut some {
            assert_eq!(connection.receive().unwrap().text(), "PONG");
        }
        idle.extend(some);
    }
    println!("{COUNT} connections in {:?}", started.elapsed());
    assert_eq!(info(&mut active, "connected_clients"), COUNT + 1);
    let each = (info(&mut active, "used_memory") - before) / COUNT;
    println!("{each} bytes each");
    assert!(each < 4096, "{each} bytes for an idle connection");
    let mut latencies = Latencies::default();
    for _ in 0..1000 {
        latencies.measure(&mut active, "GET k", "v");
        latencies.measure(&mut active, "SET k v", "OK");
    }
    latencies.report("beside 10,000 idle connections");
    for connection in idle.iter_mut().step_by(997) {
        assert_eq!(connection.words("GET k").text(), "v");
    }
    drop(idle);
    wait_until(|| info(&mut active, "connected_clients") == 1);
    wait_until(|| info(&mut active, "used_memory") < before + SLACK_BYTES);
}

/// Raises how many files this process may open, if need be and possible.
fn may_open_files(count: u64) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let has_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= count);
    let raised = Rlimit { current: Some(count.max(current.unwrap_or(0))), maximum };
    if has_enough(current) || (has_enough(maximum) && setrlimit(Resource::Nofile, raised).is_ok()) {
        return true;
    }
    testing::skipped("open files", format_args!("this process may not open {count} (ulimit -n)"));
    false
}

#[test]
fn a_value_of_512_mb_takes_bounded_memory_and_comes_back() {
    const BYTES: u64 = 512 * MB;
    if !has_free_memory(8 * BYTES) {
        return;
    }
    let mut server = Program::indelible().start(&DURABLE);
    let mut connection = server.connect();
    let before = resident_bytes(&server, "VmRSS");
    let started = Instant::now();
    let piece = vec![b'x'; usize::try_from(MB).unwrap()];
    connection
        .send_bytes(format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${BYTES}\r\n").as_bytes())
        .unwrap();
    for _ in 0..BYTES / MB {
        connection.send_bytes(&piece).unwrap();
    }
    connection.send_bytes(b"\r\n").unwrap();
    assert_eq!(patiently(&mut connection), "OK");
    let (most, after) = (resident_bytes(&server, "VmHWM"), resident_bytes(&server, "VmRSS"));
    println!(
        "SET of 512 MB in {:?}: {} MB at the most, {} MB afterwards",
        started.elapsed(),
        (most - before) / MB,
        after.saturating_sub(before) / MB
    );
    // What was received, the value, the block of the log; what a growing buffer leaves behind.
    assert!(most - before < 4 * BYTES + 2 * SLACK_BYTES, "{most} bytes for a value of {BYTES}");
    assert_eq!(connection.words("STRLEN large").text(), BYTES.to_string());
    assert_eq!(connection.words("GETRANGE large -3 -1").text(), "xxx");
    let refused = connection.words("APPEND large y");
    assert_eq!(refused.text(), "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    wait_until(|| info(&mut connection, "used_memory") < BYTES + BYTES / 8 + SLACK_BYTES);
    let mut refused = server.connect();
    let one_more = format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${}\r\n", BYTES + 1);
    refused.send_bytes(one_more.as_bytes()).unwrap();
    assert_eq!(refused.receive().unwrap().text(), "ERR Protocol error: invalid bulk length");
    assert!(refused.is_closed());
    server.kill();
    server.restart();
    let mut connection = server.connect();
    assert_eq!(connection.words("STRLEN large").text(), BYTES.to_string());
    assert_eq!(connection.words("GETRANGE large -3 -1").text(), "xxx");
}

/// The next reply, of a server that has much to do.
fn patiently(connection: &mut Connection) -> String {
    let started = Instant::now();
    loop {
        match connection.receive() {
            Ok(reply) => return reply.text(),
            Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
        }
    }
}

/// Whether so much memory is free; a line that says if not.
fn has_free_memory(bytes: u64) -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes: Option<u64> = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok()
    });
    let has_enough = kibibytes.is_some_and(|kibibytes| kibibytes * 1024 > bytes);
    if !has_enough {
        testing::skipped("free memory", format_args!("this test wants {bytes} bytes"));
    }
    has_enough
}

#[test]
fn a_slow_device_holds_up_writers_and_nobody_else() {
    const WRITERS: usize = 8;
    if !Fault::is_possible() {
        return;
    }
    let options = [&DURABLE[..], &["--log-in-flight-bytes", "1mb"]].concat();
    let mut server = Program::indelible().start(&options);
    let mut reader = server.connect();
    assert_eq!(reader.words("SET k v").text(), "OK");
    let before = info(&mut reader, "used_memory");
    // Each sync takes this long: plenty of time for reads in between.
    let fault = Fault::inject(&server, "flusher-0", "fdatasync:delay_enter=500000");
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let mut latencies = Latencies::default();
    let mut most = 0;
    std::thread::scope(|scope| {
        let kills = KillsServer(&mut server, &is_over);
        for (number, acknowledged) in acknowledged.iter().enumerate() {
            let connection = kills.0.connect();
            scope.spawn(move || overwrite_until_closed(connection, number, acknowledged));
        }
        let started = Instant::now();
        let mut rounds = 0;
        while rounds < 3 {
            wait_until(|| info(&mut reader, "redo_congested") == 1);
            let syncs = sync_count(&mut reader);
            for _ in 0..100 {
                latencies.measure(&mut reader, "GET k", "v");
            }
            most = most.max(info(&mut reader, "used_memory"));
            let held_back = info(&mut reader, "redo_clients_held_back");
            // All of that while the device was busy with one and the same sync.
            if sync_count(&mut reader) == syncs && held_back > 0 {
                rounds += 1;
            }
            assert!(started.elapsed() < PATIENCE, "readers do not get on");
        }
        // In the middle of it.
        kills.0.kill();
        drop(fault);
    });
    latencies.report("reads while writers wait for a slow device");
    println!("memory before {before}, at the most {most}");
    assert!(most < before + SLACK_BYTES, "{most} bytes in use");
    server.restart();
    let mut connection = server.connect();
    for (number, acknowledged) in acknowledged.iter().enumerate() {
        let found = connection.words(&format!("GET w{number}")).text();
        let found: u64 = found.trim_end_matches('.').parse().unwrap_or(0);
        let acknowledged = acknowledged.load(Ordering::Relaxed);
        assert!(found >= acknowledged, "writer {number} was told {acknowledged} and finds {found}");
    }
}

/// Ends the writers, also when the one that looks after them panics.
struct KillsServer<'a>(&'a mut Server, &'a AtomicBool);

impl Drop for KillsServer<'_> {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
        self.0.begin_to_kill();
    }
}

/// How many syncs the first device has had.
fn sync_count(connection: &mut Connection) -> String {
    let text = connection.words("INFO redo").text();
    let line =
        text.lines().find(|line| line.starts_with("redo_device:index=0")).unwrap().to_owned();
    let (_, rest) = line.split_once(",syncs=").unwrap();
    rest.split(',').next().unwrap().to_owned()
}

/// Sends one version of its key after the other, many at a time, and counts what is acknowledged.
fn overwrite_until_closed(mut connection: Connection, number: usize, acknowledged: &AtomicU64) {
    let mut receiver = connection.split();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let key = format!("w{number}");
            for version in 1_u64.. {
                // Padded, so that a few of them fill the log.
                if connection.send(&["SET", &key, &format!("{version:.<60000}")]).is_err() {
                    return;
                }
            }
        });
        while receiver.receive().is_ok_and(|reply| reply.text() == "OK") {
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    });
}

#[test]
fn memory_that_is_full_in_the_middle_of_a_transaction() {
    let options = [&DURABLE[..], &["--maxmemory", "24mb"]].concat();
    let mut server = Program::indelible().start(&options);
    let (mut client, mut other) = (server.connect(), server.connect());
    let large = "x".repeat(4 << 20);
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";

    // The limit is passed within EXEC: what was queued before is executed as a whole.
    assert_eq!(client.words("MULTI").text(), "OK");
    assert_eq!(client.words("SET small 1").text(), "QUEUED");
    assert_eq!(client.call(&["SET", "large:0", &large]).unwrap().text(), "QUEUED");
    assert_eq!(client.words("INCR small").text(), "QUEUED");
    let done: Vec<String> =
        client.words("EXEC").elements().iter().map(|reply| reply.text()).collect();
    assert_eq!(done, ["OK", "OK", "2"]);

    // Another client passes it between MULTI and EXEC: nothing is executed, and EXEC says why.
    assert_eq!(client.words("MULTI").text(), "OK");
    assert_eq!(client.words("INCR small").text(), "QUEUED");
    let mut count = 1;
    // A small command for a large value: what it sends is not part of what is too much.
    while !other.words(&format!("SETRANGE large:{count} {} x", large.len() - 1)).is_error() {
        count += 1;
    }
    assert_eq!(
        client.words("EXEC").text(),
        format!("EXECABORT Transaction discarded because of: {oom}")
    );
    assert_eq!(client.words("GET small").text(), "2");

    // It was passed before: nothing is queued, not even what takes no memory, and EXEC is refused.
    assert_eq!(client.words("MULTI").text(), "OK");
    assert_eq!(client.words("SET small 9").text(), oom);
    assert_eq!(client.words("GET small").text(), oom);
    let aborted = client.words("EXEC").text();
    assert!(aborted.starts_with("EXECABORT Transaction discarded because of"), "{aborted}");
    // What frees memory alone goes through.
    assert_eq!(client.words("DEL large:1").text(), "1");
    wait_until(|| client.words("INCR small").text() == "3");

    server.kill();
    // What a start needs for itself must not be in the way.
    server.restart();
    let mut client = server.connect();
    assert_eq!(client.words("GET small").text(), "3");
    assert_eq!(client.words("DBSIZE").text(), count.to_string());
    assert_eq!(client.words("STRLEN large:0").text(), large.len().to_string());
}

#[test]
fn keys_that_were_evicted_in_the_middle_of_transactions_stay_gone_after_a_crash() {
    let options = ["--maxmemory", "12mb", "--maxmemory-policy", "allkeys-random"];
    let mut server = Program::indelible().start(&[&DURABLE[..], &options].concat());
    let mut client = server.connect();
    let value = "x".repeat(20_000);
    for number in 0..1000 {
        let pair = [format!("a:{number}"), format!("b:{number}")];
        client.send(&["MULTI"]).unwrap();
        pair.iter().for_each(|key| client.send(&["SET", key, &value]).unwrap());
        client.send(&["EXEC"]).unwrap();
        for _ in 0..3 {
            assert!(!client.receive().unwrap().is_error());
        }
        assert_eq!(client.receive().unwrap().elements().len(), 2);
    }
    let evicted = info(&mut client, "evicted_keys");
    assert!(evicted > 500, "{evicted} keys evicted");
    let names = |client: &mut Connection| {
        let mut names: Vec<String> =
            client.words("KEYS *").elements().iter().map(|reply| reply.text()).collect();
        names.sort();
        names
    };
    let before = names(&mut client);
    server.kill();
    server.restart();
    let mut client = server.connect();
    let after = names(&mut client);
    // The first command after the start may evict again.
    assert!(after.iter().all(|name| before.contains(name)), "what was evicted is there again");
    for name in after.iter().take(50) {
        let len = client.words(&format!("STRLEN {name}")).text();
        assert!(len == "20000" || len == "0", "{name} has {len} bytes");
    }
}

#[test]
fn a_slow_sync_holds_up_no_reply_that_does_not_wait_for_it() {
    if !Fault::is_possible() {
        return;
    }
    let server = Program::indelible().start(&["--appendfsync", "no"]);
    let (mut waiter, mut writer) = (server.connect(), server.connect());
    assert_eq!(waiter.words("SET k v").text(), "OK");
    // Far longer than a thousand replies take on any machine; it ends with the fault.
    let fault = Fault::inject(&server, "flusher-0", "fdatasync:delay_enter=30000000");
    let is_synced = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(waiter.words("SET k w").text(), "OK");
            assert_eq!(waiter.words("WAITAOF 1 0 0").elements()[0].text(), "1");
            is_synced.store(true, Ordering::SeqCst);
        });
        wait_until(|| info(&mut writer, "blocked_clients") == 1);
        for _ in 0..1000 {
            assert!(!writer.words("INCR counter").is_error());
        }
        let came_first = !is_synced.load(Ordering::SeqCst);
        drop(fault);
        assert!(came_first, "a thousand replies waited for another client's sync");
    });
}

#[test]
fn what_was_flushed_is_freed_before_a_write_is_refused_for_memory() {
    let server = Program::indelible().start(&["--maxmemory", "48mb", "--appendfsync", "no"]);
    let mut connection = server.connect();
    let element = "x".repeat(100);
    let mut is_full = false;
    for batch in 0..10_000 {
        let mut words = vec!["HSET".to_owned(), "hash".to_owned()];
        words.extend((0..100).flat_map(|at| [format!("{batch}:{at}"), element.clone()]));
        if connection.call(&words).unwrap().text().starts_with("OOM") {
            is_full = true;
            break;
        }
    }
    assert!(is_full);
    connection.send_bytes(b"FLUSHALL ASYNC\r\nSET a 1\r\n").unwrap();
    assert_eq!(connection.receive().unwrap().text(), "OK");
    assert_eq!(connection.receive().unwrap().text(), "OK", "there is room, once it is freed");
}

//! Clients that wait for a key, for the end of a pause, or for a time.

use std::sync::atomic::Ordering;

use env::Clock;

use super::super::ClientKey;
use super::server::TestServer;

#[test]
fn blocked_clients_are_served_in_the_order_in_which_they_came() {
    let mut server = TestServer::new(&[]);
    let (first, second, pusher) = (server.connect(), server.connect(), server.connect());
    assert_eq!(server.send(first, "BLPOP a b 0\r\nPING\r\n"), "");
    assert_eq!(server.send(second, "BLPOP b 0\r\n"), "");
    assert_eq!(server.send(pusher, "RPUSH b x\r\n"), ":1\r\n");
    server.engine.end_iteration(true);
    assert_eq!(server.read(first), "*2\r\n$1\r\nb\r\n$1\r\nx\r\n+PONG\r\n");
    assert_eq!(server.read(second), "");
    server.send(pusher, "RPUSH b y z\r\n");
    assert_eq!(server.read(second), "*2\r\n$1\r\nb\r\n$1\r\ny\r\n");
    assert_eq!(server.send(pusher, "LRANGE b 0 -1\r\n"), "*1\r\n$1\r\nz\r\n");
}

/// What was looked up since the server began.
fn hits(server: &mut TestServer, client: ClientKey) -> u64 {
    let stats = server.send(client, "INFO stats\r\n");
    let hits = stats.lines().find_map(|line| line.strip_prefix("keyspace_hits:")).unwrap();
    hits.trim().parse().unwrap()
}

#[test]
fn each_of_many_that_wait_to_claim_is_called_once() {
    let hits_of = |clients: u64| {
        let mut server = TestServer::new(&[]);
        let asking = server.connect();
        server.send(asking, "XGROUP CREATE s g $ MKSTREAM\r\n");
        for number in 0..clients {
            let waiting = server.connect();
            let words = format!("XREADGROUP GROUP g c{number} BLOCK 0 CLAIM 100 STREAMS s >\r\n");
            assert_eq!(server.send(waiting, &words), "");
        }
        let before = hits(&mut server, asking);
        server.pass_ms(101);
        hits(&mut server, asking) - before
    };
    let of_one = hits_of(1);
    assert!(of_one > 0, "it has looked");
    assert_eq!(hits_of(1000), 1000 * of_one);
}

/// What one claims changes the stream, so all others look at it once more, and not once for each of them.
#[test]
fn many_that_wait_to_claim_are_called_a_few_times_each_when_some_can() {
    let hits_of = |clients: u64| {
        let mut server = TestServer::new(&[]);
        let asking = server.connect();
        let entries = clients / 2;
        for seq in 1..=entries {
            server.send(asking, &format!("XADD s 1-{seq} f v\r\n"));
        }
        server.send(asking, "XGROUP CREATE s g 0\r\n");
        server.send(asking, "XREADGROUP GROUP g a STREAMS s >\r\n");
        let waiting: Vec<ClientKey> = (0..clients)
            .map(|number| {
                let client = server.connect();
                let words = "COUNT 1 BLOCK 0 CLAIM 100 STREAMS s >";
                let words = format!("XREADGROUP GROUP g c{number} {words}\r\n");
                assert_eq!(server.send(client, &words), "");
                client
            })
            .collect();
        let before = hits(&mut server, asking);
        server.pass_ms(101);
        let hits = hits(&mut server, asking) - before;
        let served = waiting.into_iter().filter(|client| !server.read(*client).is_empty()).count();
        assert_eq!(served as u64, entries);
        hits
    };
    let (of_few, of_many) = (hits_of(10), hits_of(400));
    assert!(of_many <= 41 * of_few, "{of_few} {of_many}");
}

#[test]
fn one_that_waits_to_claim_is_served_in_its_time_whatever_others_find() {
    let mut server = TestServer::new(&[]);
    let (asking, first, second) = (server.connect(), server.connect(), server.connect());
    server.send(asking, "XADD s 1-1 f v\r\nXADD s 1-2 f v\r\n");
    server.send(asking, "XGROUP CREATE s g 0\r\nXGROUP CREATE t g 0 MKSTREAM\r\n");
    server.send(asking, "XREADGROUP GROUP g a STREAMS s >\r\n");
    server.pass_ms(100);
    for client in [first, second] {
        let words = "XREADGROUP GROUP g b COUNT 1 BLOCK 0 CLAIM 500 STREAMS t s > >\r\n";
        assert_eq!(server.send(client, words), "");
    }
    // It looks at one of the keys, and is to look at the other one all the same.
    server.pass_ms(100);
    server.send(asking, "MULTI\r\nXADD t 9-9 f v\r\nXDEL t 9-9\r\nEXEC\r\n");
    server.pass_ms(299);
    assert_eq!((server.read(first), server.read(second)), (String::new(), String::new()));
    server.pass_ms(1);
    let (first, second) = (server.read(first), server.read(second));
    assert!(first.contains("1-1") && !first.contains("1-2"), "{first}");
    assert!(second.contains("1-2") && !second.contains("1-1"), "{second}");
}

#[test]
fn a_blocked_client_gives_up_and_can_be_unblocked() {
    let mut server = TestServer::new(&[]);
    let (client, other) = (server.connect(), server.connect());
    server.send(client, "BLPOP a 1.5\r\n");
    server.pass_ms(1000);
    assert_eq!(server.read(client), "");
    server.pass_ms(600);
    assert_eq!(server.read(client), "*-1\r\n");
    server.send(client, "BLPOP a 0\r\n");
    assert_eq!(server.send(other, "CLIENT UNBLOCK 1 ERROR\r\n"), ":1\r\n");
    assert_eq!(server.read(client), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
}

#[test]
fn info_says_how_many_keys_are_waited_for() {
    let mut server = TestServer::new(&[]);
    let clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    let keys = |server: &mut TestServer| {
        let info = server.send(clients[0], "INFO clients\r\n");
        ["total_blocking_keys:", "total_blocking_keys_on_nokey:"].map(|name| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().parse::<u32>().unwrap()
        })
    };
    assert_eq!(keys(&mut server), [0, 0]);
    server.send(clients[0], "XGROUP CREATE s g $ MKSTREAM\r\n");
    server.send(clients[1], "BLPOP a b 0\r\n");
    server.send(clients[2], "BLPOP b 0\r\n");
    assert_eq!(keys(&mut server), [2, 0]);
    server.send(clients[3], "XREADGROUP GROUP g c BLOCK 0 STREAMS s >\r\n");
    assert_eq!(keys(&mut server), [3, 1]);
    assert_eq!(server.send(clients[0], "DEL s\r\n"), ":1\r\n");
    assert!(server.read(clients[3]).starts_with("-NOGROUP No such key 's'"));
    assert_eq!(keys(&mut server), [2, 0]);
}

#[test]
fn a_pause_holds_writers_until_it_is_over() {
    let mut server = TestServer::new(&[]);
    let (client, admin) = (server.connect(), server.connect());
    server.send(admin, "CLIENT PAUSE 1000 WRITE\r\n");
    assert_eq!(server.send(client, "GET a\r\nSET a 1\r\nGET a\r\n"), "$-1\r\n");
    server.pass_ms(1001);
    assert_eq!(server.read(client), "+OK\r\n$1\r\n1\r\n");
}

#[test]
fn a_client_that_wants_no_replies_gets_none_for_what_it_waited_for() {
    let mut server = TestServer::new(&[]);
    let (client, other) = (server.connect(), server.connect());
    assert_eq!(server.send(client, "CLIENT REPLY OFF\r\nBLPOP l 0\r\n"), "");
    server.send(other, "RPUSH l 1\r\n");
    assert_eq!(server.send(client, "BLPOP l 0.1\r\n"), "");
    server.pass_ms(200);
    assert_eq!(server.send(client, "CLIENT REPLY ON\r\n"), "+OK\r\n");
}

#[test]
fn expired_keys_go_by_themselves() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    server.send(client, "SET a 1 PX 100\r\nSET b 1\r\n");
    server.pass_ms(200);
    assert_eq!(server.send(client, "DBSIZE\r\n"), ":1\r\n");
}

#[test]
fn nothing_expires_while_writers_are_paused() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    server.send(client, "SET a 1 PX 100\r\nCLIENT PAUSE 1000 WRITE\r\n");
    server.pass_ms(500);
    assert_eq!(server.send(client, "GET a\r\nDBSIZE\r\n"), "$-1\r\n:1\r\n");
    server.pass_ms(600);
    assert_eq!(server.send(client, "DBSIZE\r\n"), ":0\r\n");
}

#[test]
fn nothing_expires_unasked_while_the_log_does_not_keep_up() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "no"]);
    let client = server.connect();
    let set = |number: usize| format!("SET key:{number} v PX 100\r\n");
    server.send(client, &(0..100).map(set).collect::<String>());
    assert_eq!(server.send(client, "DBSIZE\r\n"), ":100\r\n");
    log.0.lock().unwrap().is_congested = true;
    (0..20).for_each(|_| server.pass_ms(100));
    assert_eq!(server.send(client, "DBSIZE\r\n"), ":100\r\n");
    log.0.lock().unwrap().is_congested = false;
    (0..20).for_each(|_| server.pass_ms(100));
    assert_eq!(server.send(client, "DBSIZE\r\n"), ":0\r\n");
}

#[test]
fn nothing_happens_while_the_server_is_asked_to_sleep() {
    let mut server = TestServer::new(&["--enable-debug-command", "yes"]);
    let (sleeper, other) = (server.connect(), server.connect());
    assert_eq!(server.send(sleeper, "SET a 1\r\nDEBUG SLEEP 0.5\r\nGET a\r\n"), "");
    assert_eq!(server.send(other, "SET a 2\r\n"), "");
    assert_eq!(server.engine.until_next_event_us(), 500_000);
    server.pass_ms(499);
    assert_eq!(server.read(sleeper) + &server.read(other), "");
    server.pass_ms(1);
    assert_eq!(server.read(sleeper), "+OK\r\n+OK\r\n$1\r\n1\r\n");
    assert_eq!(server.read(other), "+OK\r\n");
    assert_eq!(server.send(sleeper, "GET a\r\nSLOWLOG LEN\r\n"), "$1\r\n2\r\n:1\r\n");
}

/// Its socket may have taken bytes again while nothing was sent.
#[test]
fn a_client_with_replies_to_get_is_looked_at_when_the_server_wakes() {
    let mut server = TestServer::new(&["--enable-debug-command", "yes"]);
    let (full, sleeper) = (server.connect(), server.connect());
    server.engine.receive(full, b"PING\r\n");
    server.engine.end_iteration(true);
    while server.engine.next_noted().is_some() {}
    server.send(sleeper, "DEBUG SLEEP 0.5\r\n");
    server.pass_ms(500);
    let noted: Vec<_> = std::iter::from_fn(|| server.engine.next_noted()).collect();
    assert!(noted.contains(&full), "{noted:?}");
    assert_eq!(server.read(full), "+PONG\r\n");
}

/// A request as clients send it: one of many arguments fits into no inline one.
fn request(words: &[&str], keys: &[String], last: &[&str]) -> String {
    let all =
        words.iter().copied().chain(keys.iter().map(String::as_str)).chain(last.iter().copied());
    let (mut count, mut bytes) = (0, String::new());
    for word in all {
        count += 1;
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    format!("*{count}\r\n{bytes}")
}

#[test]
fn two_hundred_thousand_keys_are_waited_for_and_watched_in_seconds() {
    // Time that grows with the square of the number is minutes here, by n log n it is a fraction of a second.
    const KEYS: usize = 200_000;
    let bound = std::time::Duration::from_secs(20);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key:{number}")).collect();
    let count = KEYS.to_string();
    let mut server = TestServer::new(&[]);
    let (client, other) = (server.connect(), server.connect());
    let waits = [
        request(&["BLPOP"], &keys, &["0"]),
        request(&["BLMPOP", "0", &count], &keys, &["LEFT"]),
        request(&["BZPOPMIN"], &keys, &["0"]),
    ];
    let started = std::time::Instant::now();
    for wait in waits {
        assert_eq!(server.send(client, &wait), "");
        assert_eq!(server.send(other, "CLIENT UNBLOCK 1\r\n"), ":1\r\n");
        assert_eq!(server.read(client), "*-1\r\n");
    }
    assert_eq!(server.send(client, &request(&["WATCH"], &keys, &[])), "+OK\r\n");
    assert_eq!(server.send(client, "UNWATCH\r\n"), "+OK\r\n");
    assert_eq!(server.send(client, &request(&["WATCH"], &keys, &[])), "+OK\r\n");
    assert_eq!(
        server.send(client, "MULTI\r\nPING\r\nEXEC\r\n"),
        "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n"
    );
    assert_eq!(server.send(client, &request(&["BLPOP"], &keys, &["0"])), "");
    server.engine.remove(client);
    let elapsed = started.elapsed();
    println!("{KEYS} keys: {elapsed:?}");
    assert!(elapsed < bound, "{elapsed:?}");
}

#[test]
fn keys_that_expire_together_are_deleted_soon_and_others_have_half_of_the_time() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let set = |number: usize| format!("SET key:{number} v PX 1\r\n");
    server.send(client, &(0..20_000).map(set).collect::<String>());
    let left = |server: &mut TestServer| -> usize {
        let size = server.send(client, "DBSIZE\r\n");
        size.trim_start_matches(':').trim().parse().unwrap()
    };
    // A sample takes a while.
    server.clock.us_per_look.store(100, Ordering::Relaxed);
    let start_us = server.clock.monotonic_us();
    let mut longest_us = 0;
    while left(&mut server) > 4_000 {
        let next_us = server.engine.next_event_us();
        let before_us = server.clock.monotonic_us();
        assert!(before_us < start_us + 1_000_000, "{} are left", left(&mut server));
        server.pass_ms(1.max(i64::try_from(next_us.saturating_sub(before_us)).unwrap() / 1000));
        let (next_us, now_us) = (server.engine.next_event_us(), server.clock.monotonic_us());
        longest_us = longest_us.max(next_us.saturating_sub(now_us));
    }
    assert!((500..=1_500).contains(&longest_us), "others have {longest_us} us in between");
}

//! Sockets in I/O threads (`io-threads 3`): the same to clients, whatever these do.

use crate::kill::Random;
use crate::process::{Program, Server, wait_until};
use crate::wire::{Connection, encode};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

fn start(options: &[&str]) -> Server {
    let server = Program::indelible().start(&[&["--io-threads", "3"], options].concat());
    let mut client = server.connect();
    assert!(client.words("INFO server").text().contains("io_threads_active:1\r\n"));
    server
}

#[test]
fn each_client_gets_its_own_replies_in_order_however_requests_are_cut_up() {
    let server = start(&["--appendfsync", "everysec"]);
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let client = server.connect();
            std::thread::spawn(move || work(client, number))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(server.connect().words("DBSIZE").text(), "8");
}

/// Appends to a list, in pieces of requests of random lengths, and checks every reply.
fn work(mut client: Connection, number: u64) {
    let mut random = Random(number + 1);
    let key = format!("list-{number}");
    for round in 0..40 {
        let count = 1 + random.below(200);
        let pad = "x".repeat(usize::try_from(random.below(3_000)).unwrap());
        let words = |turn: u64| [key.clone(), format!("{round}.{turn}.{pad}")];
        let mut bytes = Vec::new();
        for turn in 0..count {
            bytes.extend(encode(&[
                "GETSET".to_owned(),
                words(turn)[0].clone(),
                words(turn)[1].clone(),
            ]));
        }
        let mut reader = client.split();
        let sender = std::thread::spawn(move || {
            let mut at = 0;
            while at < bytes.len() {
                let piece =
                    (bytes.len() - at).min(1 + usize::try_from(random.below(9_000)).unwrap());
                client.send_bytes(&bytes[at..at + piece]).unwrap();
                at += piece;
            }
            (client, random)
        });
        for turn in 0..count {
            let reply = reader.receive().unwrap();
            if turn > 0 {
                assert_eq!(reply.text(), words(turn - 1)[1]);
            }
        }
        (client, random) = sender.join().unwrap();
    }
}

#[test]
fn values_larger_than_what_may_be_on_its_way_come_whole() {
    let server = start(&[]);
    let mut client = server.connect();
    let value: Vec<u8> = (0..20_000_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let set: [&[u8]; 3] = [b"SET", b"k", &value];
    assert_eq!(client.call(&set).unwrap().text(), "OK");
    for _ in 0..3 {
        client.send(&["GET", "k"]).unwrap();
    }
    for _ in 0..3 {
        assert!(client.receive().unwrap().bytes() == value);
    }
}

#[test]
fn a_client_that_does_not_read_is_held_to_its_limit_and_holds_up_no_other_one() {
    let server = start(&["--client-output-buffer-limit", "normal", "4mb", "0", "0"]);
    let mut other = server.connect();
    assert_eq!(other.words("SETRANGE k 999999 x").text(), "1000000");
    let mut deaf: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut deaf {
        client.send_bytes(&b"GET k\r\n".repeat(40)).unwrap();
    }
    wait_until(|| {
        assert_eq!(other.words("PING").text(), "PONG");
        other.words("INFO clients").text().contains("connected_clients:1\r\n")
    });
}

#[test]
fn a_client_that_stops_sending_and_one_that_quits_get_all_their_replies() {
    let server = start(&[]);
    let mut client = server.connect();
    assert_eq!(client.words("SETRANGE k 299999 x").text(), "300000");
    let one = "$300000\r\n".len() + 300_002;
    for last in ["", "QUIT\r\n"] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(&b"GET k\r\n".repeat(50)).unwrap();
        stream.write_all(last.as_bytes()).unwrap();
        if last.is_empty() {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        // The server is to be done with all of it before the first byte is read.
        let calls = if last.is_empty() { 50 } else { 100 };
        wait_until(|| {
            let stats = client.words("INFO commandstats").text();
            stats.contains(&format!("cmdstat_get:calls={calls},"))
        });
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = if last.is_empty() { "" } else { "+OK\r\n" };
        assert_eq!(all.len(), 50 * one + end.len());
        assert!(all.ends_with(format!("\r\n{end}").as_bytes()));
    }
    wait_until(|| client.words("INFO clients").text().contains("connected_clients:1\r\n"));
}

#[test]
fn a_client_that_is_killed_is_gone_though_it_reads_nothing() {
    let server = start(&[]);
    let mut client = server.connect();
    assert_eq!(client.words("SETRANGE k 999999 x").text(), "1000000");
    let mut deaf = server.connect();
    let id = deaf.words("CLIENT ID").text();
    deaf.send_bytes(&b"GET k\r\n".repeat(40)).unwrap();
    wait_until(|| !client.words(&format!("CLIENT LIST ID {id}")).text().contains("omem=0"));
    assert_eq!(client.words(&format!("CLIENT KILL ID {id}")).text(), "1");
    wait_until(|| client.words("INFO clients").text().contains("connected_clients:1\r\n"));
    let mut rest = Vec::new();
    // It reads what was on its way, and then that the connection has ended.
    while let Ok(Some(reply)) = deaf.receive_within(crate::process::PATIENCE) {
        rest.push(reply);
    }
    assert!(rest.len() < 40);
}

#[test]
fn a_client_that_has_not_authenticated_and_does_not_read_is_closed() {
    let server = start(&[]);
    let mut client = server.connect();
    assert_eq!(client.words("CONFIG SET requirepass secret").text(), "OK");
    let mut stranger = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    wait_until(|| client.words("INFO clients").text().contains("connected_clients:2\r\n"));
    // Refusals are not read. Each piece makes fewer bytes than may wait within a turn, and is dealt with before the next
    // one, so that it is the socket that does not take them.
    let (piece, mut refused) = (b"GET k\r\n".repeat(200), 0);
    wait_until(|| {
        let _is_closed_at_last = stranger.write_all(&piece);
        refused += 200;
        let mut is_closed = false;
        wait_until(|| {
            let stats = client.words("INFO commandstats").text();
            is_closed = client.words("INFO clients").text().contains("connected_clients:1\r\n");
            is_closed || stats.contains(&format!("rejected_calls={refused},"))
        });
        is_closed
    });
    assert!(refused > 10_000, "it was closed after {refused} refusals, before its socket was full");
}

#[test]
fn a_client_that_leaves_takes_nothing_more() {
    let server = start(&[]);
    let mut client = server.connect();
    assert_eq!(client.words("SETRANGE k 29999999 x").text(), "30000000");
    // It waits for an element, behind a reply that it does not read, and says that it sends nothing more.
    let mut leaving = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    leaving.write_all(b"GET k\r\nBLPOP q 0\r\n").unwrap();
    wait_until(|| client.words("INFO clients").text().contains("blocked_clients:1\r\n"));
    leaving.shutdown(Shutdown::Write).unwrap();
    wait_until(|| client.words("INFO clients").text().contains("blocked_clients:0\r\n"));
    assert_eq!(client.words("RPUSH q x").text(), "1");
    assert_eq!(client.words("LLEN q").text(), "1", "a client that has left took it");
    // What it was to get before it gets all the same.
    let mut all = Vec::new();
    leaving.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), "$30000000\r\n".len() + 30_000_002);
    wait_until(|| client.words("INFO clients").text().contains("connected_clients:1\r\n"));
}

#[test]
fn a_subscriber_that_leaves_is_forgotten_whatever_is_published() {
    let server = start(&[]);
    let mut client = server.connect();
    for _ in 0..50 {
        let mut leaving = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        leaving.write_all(b"SUBSCRIBE c\r\n").unwrap();
        wait_until(|| client.words("PUBSUB NUMSUB c").elements()[1].text() == "1");
        leaving.shutdown(Shutdown::Write).unwrap();
        wait_until(|| client.words("PUBLISH c message").text() == "0");
    }
    wait_until(|| client.words("INFO clients").text().contains("connected_clients:1\r\n"));
}

#[test]
fn messages_come_to_clients_of_every_thread() {
    let server = start(&[]);
    let mut all: Vec<_> = (0..9).map(|_| server.connect()).collect();
    for client in &mut all {
        client.words("SUBSCRIBE c");
    }
    let mut watcher = server.connect();
    assert_eq!(watcher.words("MONITOR").text(), "OK");
    let mut publisher = server.connect();
    for number in 0..200 {
        assert_eq!(publisher.words(&format!("PUBLISH c {number}")).text(), "9");
    }
    for client in &mut all {
        for number in 0..200 {
            assert_eq!(client.receive().unwrap().elements()[2].text(), number.to_string());
        }
    }
    for number in 0..200 {
        assert!(watcher.receive().unwrap().text().ends_with(&format!("\"c\" \"{number}\"")));
    }
}

#[test]
fn connections_that_come_and_go_do_not_get_what_was_for_others() {
    let server = start(&[]);
    let port = server.port;
    let threads: Vec<_> = (0..6)
        .map(|number: u32| {
            std::thread::spawn(move || {
                for turn in 0..200 {
                    let mut client = Connection::open(port).unwrap();
                    let word = format!("{number}-{turn}");
                    if turn % 3 == 0 {
                        // It leaves without its replies.
                        client.send_bytes(&encode(&["ECHO", &word]).repeat(50)).unwrap();
                        continue;
                    }
                    assert_eq!(client.words(&format!("ECHO {word}")).text(), word);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut client = server.connect();
    wait_until(|| client.words("INFO clients").text().contains("connected_clients:1\r\n"));
}

#[test]
fn the_last_replies_go_out_before_the_end() {
    for threads in ["1", "3"] {
        let options = ["--appendfsync", "always", "--io-threads", threads];
        let mut server = Program::indelible().start(&options);
        let mut last = server.connect();
        assert_eq!(last.words("SETRANGE large 99999 x").text(), "100000");
        last.send_bytes(b"SET k v\r\nGET large\r\nSHUTDOWN\r\n").unwrap();
        assert_eq!(last.receive().unwrap().text(), "OK");
        assert_eq!(last.receive().unwrap().bytes().len(), 100_000);
        assert!(last.is_closed());
        assert_eq!(server.wait_for_exit(), Some(0));
    }
}

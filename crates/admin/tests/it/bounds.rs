//! What a client can take: connections, bytes, time.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, connect, recv, socket_with};

use crate::browser::{PATIENCE, Page};

/// Whether the other end has ended the connection.
fn has_ended(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    match stream.read(&mut [0; 1024]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// How long a viewer waits for a connection, and for an answer.
const SOON: Duration = Duration::from_secs(5);

/// How many connections a flood of the two holds: with theirs the kernel's queue is never full, which would drop a viewer's, too.
const HELD: usize = 60;

/// Sets it at the end, whatever that is.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Begins a connection and does not wait for it.
fn begin_to_connect(address: SocketAddr) -> OwnedFd {
    let socket =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
    // What is dropped leaves nothing behind: its port is free for others.
    set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => socket,
        Err(error) => panic!("{error}"),
    }
}

/// Whether the server has ended a connection.
fn is_closed(socket: &OwnedFd) -> bool {
    let peeked = recv(socket, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(peeked, Err(Errno::AGAIN))
}

/// Sends a request and reads all of its answer.
fn send(page: &Page, stream: &mut TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n", page.bearer());
    stream.write_all(request.as_bytes()).unwrap();
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    while !text.ends_with(b"# EOF\n") {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&piece[..count]);
    }
    assert!(text.starts_with(b"HTTP/1.1 200 OK"));
}

#[test]
fn strangers_give_way_to_viewers_and_viewers_stay() {
    let page = Page::new();
    let mut viewer = page.connect();
    send(&page, &mut viewer);
    let mut strangers: Vec<TcpStream> = (0..80).map(|_| page.connect()).collect();
    let mut newer = page.connect();
    send(&page, &mut newer);
    let begun = Instant::now();
    while strangers.iter_mut().filter_map(|it| (!has_ended(it)).then_some(())).count() > 31 {
        assert!(begun.elapsed() < PATIENCE, "there are more than 32 connections");
    }
    send(&page, &mut viewer);
    send(&page, &mut newer);
}

#[test]
fn a_flood_of_connections_keeps_no_viewer_out() {
    let page = Page::new();
    let (is_over, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        // Also when a connect below fails: the scope waits for the flood.
        let over = SetWhenDropped(&is_over);
        for _ in 0..2 {
            scope.spawn(|| {
                let begin = || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    begin_to_connect(page.address)
                };
                let mut held: Vec<OwnedFd> = (0..HELD).map(|_| begin()).collect();
                while !is_over.load(Ordering::Relaxed) {
                    for socket in held.iter_mut().filter(|it| is_closed(it)) {
                        *socket = begin();
                    }
                }
            });
        }
        let is_answered = || {
            let mut stream = TcpStream::connect_timeout(&page.address, SOON)?;
            stream.set_read_timeout(Some(SOON))?;
            let request = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n", page.bearer());
            stream.write_all(request.as_bytes())?;
            let mut text = [0; 12];
            stream.read_exact(&mut text)?;
            Ok::<_, std::io::Error>(&text == b"HTTP/1.1 200")
        };
        // One may fail where this machine does not get to its request in time; of many the test does not wait for all.
        let failed = (0..20).filter(|_| !is_answered().unwrap_or(false)).take(6).count();
        drop(over);
        let begun = begun.load(Ordering::Relaxed);
        println!("{begun} connections of the flood");
        assert!(begun > 4 * HELD, "the flood has not gone on: {begun}");
        assert!(failed <= 5, "{failed} of 20 viewers were kept out");
    });
}

#[test]
fn viewers_that_are_quiet_give_way_where_all_are_viewers() {
    let page = Page::new();
    let mut viewers: Vec<TcpStream> = (0..32).map(|_| page.connect()).collect();
    viewers.iter_mut().for_each(|viewer| send(&page, viewer));
    let mut newer = page.connect();
    send(&page, &mut newer);
    assert!(has_ended(&mut viewers[0]), "the one that was quiet for longest");
    send(&page, &mut viewers[1]);
}

#[test]
fn a_request_that_is_too_long_or_too_slow_is_ended() {
    let page = Page::new();
    let mut long = page.connect();
    long.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let line = [b"x: ", &[b'y'; 1000][..], b"\r\n"].concat();
    let mut sent = 0;
    while sent < 1000 && long.write_all(&line).is_ok() {
        sent += 1;
    }
    let mut text = Vec::new();
    // It may be reset before it is read.
    let _ = long.read_to_end(&mut text);
    assert!(
        text.is_empty() || text.starts_with(b"HTTP/1.1 431"),
        "{}",
        String::from_utf8_lossy(&text)
    );
    let (begun, mut slow) = (Instant::now(), page.connect());
    slow.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nx: ").unwrap();
    let mut text = Vec::new();
    let _ = slow.read_to_end(&mut text);
    assert!((9..20).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[test]
fn a_client_that_never_reads_is_ended() {
    let page = Page::new();
    let begun = Instant::now();
    let mut deaf = page.connect();
    deaf.set_write_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n", page.bearer());
    // One request after the other until the answers fill what lies between, and it is not read from either.
    let ended = loop {
        if let Err(error) = deaf.write_all(request.as_bytes()) {
            break error;
        }
        assert!(begun.elapsed() < PATIENCE, "it may go on for ever");
    };
    let kind = ended.kind();
    assert!(
        !matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "only the client gave up"
    );
    assert!(page.server.asked.load(Ordering::Relaxed) < PATIENCE.as_secs());
}

#[test]
fn many_viewers_ask_the_server_once_a_second() {
    let page = Page::new();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(page.get("/", &[&page.bearer()]).status, 200);
                }
            });
        }
    });
    let asked = page.server.asked.load(Ordering::Relaxed);
    assert!(asked <= 1 + begun.elapsed().as_secs(), "{asked} in {:?}", begun.elapsed());
}

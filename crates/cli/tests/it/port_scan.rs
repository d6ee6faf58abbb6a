//! What a port scanner sees: which ports there are, and what each says before a password or a token was shown.

use crate::process::{PATIENCE, Program, Server, free_port, wait_until};
use crate::tls::listening_ports;
use crate::tls_client::{Certificates, TlsStream};
use crate::wire::{Connection, Reply, encode};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const PASSWORD: [&str; 2] = ["--requirepass", "secret"];

/// The beginning of a handshake of TLS, and nothing behind it.
const HALF_A_HELLO: [u8; 7] = [0x16, 3, 1, 2, 0, 1, 0];

/// What a scanner sends that knows other protocols, or none.
fn probes() -> Vec<Vec<u8>> {
    let mut probes: Vec<Vec<u8>> = [
        &b"\r\n\r\n"[..],
        b"HELP\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\nPING\r\n",
        b"OPTIONS * HTTP/1.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-scanner\r\n",
        b"EHLO scanner\r\n",
        b"stats\r\nversion\r\n",
        b"\"unfinished\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"*1\r\n$4\r\nINFO\r\n",
        b"*-1\r\nINFO\r\n",
        b"*1\r\n:4\r\n",
        b"*x\r\n",
        b"*11\r\n$4\r\nPING\r\n",
        b"*1\r\n$16385\r\n",
        b"*1\r\n$-1\r\n",
        b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
        &[0; 100],
        &[0xff; 100],
        &HALF_A_HELLO,
    ]
    .iter()
    .map(|probe| probe.to_vec())
    .collect();
    probes.push(vec![b'x'; 70_000]);
    probes
}

/// Ended when it is dropped.
struct Running(Child);

impl Running {
    fn start(options: &[&str]) -> Running {
        Running(Program::indelible().command(options).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_waited_for = self.0.wait();
    }
}

/// All that a port says to these bytes, until it ends the connection.
fn said(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may be closed while we send, and reset with what was not read.
    let _sent = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut said = Vec::new();
    if let Err(error) = stream.read_to_end(&mut said) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{}", bytes.escape_ascii());
    }
    said.escape_ascii().to_string()
}

/// The names of a server's commands, those with a bar too.
fn commands(server: &Server) -> BTreeSet<String> {
    let mut client = server.connect();
    assert_eq!(client.words("AUTH secret").text(), "OK");
    let names = client.words("COMMAND LIST");
    names.elements().iter().map(Reply::text).collect()
}

/// Calls of a command without arguments and with three.
fn calls(name: &str) -> [Vec<u8>; 2] {
    let words: Vec<&str> = name.split('|').collect();
    [encode(&words), encode(&[&words[..], &["x", "y", "z"]].concat())]
}

#[test]
fn before_auth_a_port_says_what_redis_says() {
    let Some(redis) = Program::redis() else { return };
    let [redis, ours] = [redis, Program::indelible()].map(|program| program.start(&PASSWORD));
    let mut client = ours.connect();
    assert_eq!(client.words("AUTH secret").text(), "OK");
    wait_until(|| client.words("PING").text() == "PONG");
    for probe in probes() {
        let [expected, found] = [&redis, &ours].map(|server| said(server.port, &probe));
        assert_eq!(found, expected, "{}", probe.escape_ascii());
    }
    let [known, own] = [&redis, &ours].map(commands);
    assert!(known.intersection(&own).count() > 200);
    for name in known.union(&own) {
        for call in calls(name) {
            let found = said(ours.port, &call);
            let is_refusal = ["-NOAUTH", "-ERR unknown", "-ERR wrong number of arguments"]
                .iter()
                .any(|begin| found.starts_with(begin));
            // AUTH, QUIT, RESET, and DEBUG, which is refused before.
            assert!(is_refusal || found == said(redis.port, &call), "{name}: {found}");
        }
    }
}

#[test]
fn with_tls_alone_two_ports_listen_and_neither_says_anything() {
    let certificates = Certificates::make();
    let (tls_port, admin_port) = (free_port(), free_port());
    let data = tempfile::tempdir().unwrap();
    let [tls_text, admin_text] = [tls_port, admin_port].map(|port| port.to_string());
    let mut options = vec!["--port", "0", "--tls-port", &tls_text, "--admin-port", &admin_text];
    options.extend(["--bind", "127.0.0.1", "--dir", data.path().to_str().unwrap()]);
    options.extend(PASSWORD);
    let own = certificates.options();
    options.extend(own.iter().map(String::as_str));
    let mut server = Running::start(&options);
    wait_until(|| {
        assert!(server.0.try_wait().unwrap().is_none(), "it has ended");
        [tls_port, admin_port].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
    });
    let listening: BTreeSet<u16> = listening_ports(server.0.id()).into_iter().collect();
    assert_eq!(listening, BTreeSet::from([tls_port, admin_port]));
    // One says nothing, one half a handshake: both wait for what they are told meanwhile.
    let began = Instant::now();
    let half_open: Vec<TcpStream> = [&[][..], &HALF_A_HELLO]
        .into_iter()
        .map(|bytes| {
            let mut stream = TcpStream::connect(("127.0.0.1", tls_port)).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        })
        .collect();
    for probe in probes() {
        assert_eq!(said(tls_port, &probe), "", "{}", probe.escape_ascii());
    }
    // Within TLS, before AUTH.
    let socket = || TcpStream::connect(("127.0.0.1", tls_port)).unwrap();
    for words in ["PING", "INFO", "CLIENT ID", "CONFIG GET *", "ACL WHOAMI", "SUBSCRIBE a"] {
        let mut client = Connection::over_tls(socket(), certificates.client()).unwrap();
        assert_eq!(client.words(words).text(), "NOAUTH Authentication required.", "{words}");
    }
    let mut web = TlsStream::over(socket(), certificates.client()).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut told = String::new();
    let _end = web.read_to_string(&mut told);
    assert!(!told.to_lowercase().contains("indelible"), "{told}");
    // The page has nothing for one without the token, and does not say whose it is.
    for probe in probes() {
        let told = said(admin_port, &probe).to_lowercase();
        let is_refusal = ["", "http/1.1 400 ", "http/1.1 401 ", "http/1.1 405 ", "http/1.0 "];
        assert!(is_refusal.iter().any(|begin| told.starts_with(begin)), "{told}");
        for word in ["indelible", "redis", "redo", "hyper", "server:", env!("CARGO_PKG_VERSION")] {
            assert!(!told.contains(word), "{word}: {told}");
        }
    }
    for mut stream in half_open {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        let _reset = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{rest:?}");
    }
    assert!(began.elapsed() >= Duration::from_secs(10), "{:?}", began.elapsed());
}

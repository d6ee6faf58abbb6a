//! Whatever a configuration forbids is forbidden: where it cannot be kept, the server does not start.

use crate::process::{Program, Server, wait_for_exit, wait_until};
use crate::wire::Connection;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::Stdio;

/// Lines under which a server that ignored them would take writes that it must not take, and a word of why
/// it does not start.
const REFUSED: &[(&str, &str)] = &[
    ("aclfile /nowhere/users.acl", "Error loading ACLs, opening file '/nowhere/users.acl'"),
    ("aclfile users.acl\nuser alice on", "please define either an ACL file or declare users"),
    ("user alice on\nuser alice off", "Duplicate user found"),
    ("user alice on >secret ~* &* +nope", "Unknown command or category name in ACL"),
    ("tls-port 7443", "No tls-cert-file configured!"),
    ("tls-port 7443\nport 0", "No tls-cert-file configured!"),
    ("tls-replication yes", "would not be encrypted"),
    ("tls-cluster yes", "would not be encrypted"),
    ("tls-client-cert-file client.crt", "the server opens no TLS connections"),
    ("tls-dh-params-file dh.pem", "Diffie-Hellman over finite fields is not supported"),
    ("tls-auto-reload-interval 60", "use CONFIG SET tls-cert-file"),
    ("masterauth secret", "replication is not supported"),
    ("primaryauth secret", "replication is not supported"),
    ("masteruser alice", "replication is not supported"),
    ("replicaof 127.0.0.1 6379", "replication is not supported"),
    ("slaveof 127.0.0.1 6379", "replication is not supported"),
    ("min-replicas-to-write 1", "replication is not supported"),
    ("min-slaves-to-write 1", "replication is not supported"),
    ("cluster-enabled yes", "cluster mode is not supported"),
    ("loadmodule /usr/lib/redis/auth.so", "modules and their directives are not supported"),
    ("sentinel monitor mine 127.0.0.1 6379 2", "Sentinel"),
    ("unixsocketgroup redis", "the group of the unix socket"),
    ("rdma-port 7000", "RDMA is not supported"),
    ("port 0", "nothing to listen on"),
    ("unixsocket \"\"\nport 0", "nothing to listen on"),
    ("bind \"\"", "nothing to listen on"),
];

#[test]
fn what_cannot_be_kept_stops_the_start_before_anything_is_made() {
    for (lines, why) in REFUSED {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let file = directory.path().join("redis.conf");
        // No line that comes later takes it back.
        let text = format!("port 6379\n{lines}\ndir {}\n", data.display());
        std::fs::write(&file, text).unwrap();
        let program = Program::indelible().with_file(file.to_str().unwrap());
        let mut child = program.command(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.as_mut().unwrap();
        let code = wait_for_exit(child);
        child.kill().unwrap_or_default();
        let mut said = String::new();
        std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
        assert_eq!(code, Some(1), "{lines}: {said}");
        assert!(said.contains(why), "{lines}: {said}");
        let made: Vec<_> = std::fs::read_dir(&data).unwrap().collect();
        assert!(made.is_empty(), "{lines}: {made:?}");
    }
}

#[test]
fn a_configuration_that_cannot_be_read_again_is_not_left_out_in_the_background() {
    let port = crate::process::free_port().to_string();
    let program = Program::indelible().with_file("-");
    let mut command = program.command(&["--daemonize", "yes", "--port", &port]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"requirepass secret\n").unwrap();
    drop(child.stdin.take());
    let code = wait_for_exit(&mut child);
    let mut said = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("daemonize yes needs a configuration in a file"), "{said}");
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    assert!(TcpStream::connect(address).is_err(), "something serves without the password");
}

#[test]
fn what_cannot_be_kept_cannot_be_set_later() {
    let server = Program::indelible().start(&[]);
    let mut client = server.connect();
    for (name, value) in [
        ("tls-port", "7443"),
        ("tls-replication", "yes"),
        ("tls-dh-params-file", "x"),
        ("masterauth", "secret"),
        ("primaryauth", "secret"),
        ("masteruser", "alice"),
        ("min-replicas-to-write", "1"),
        ("rdma-port", "7000"),
        ("aclfile", "x"),
        ("cluster-enabled", "yes"),
        ("unixsocketgroup", "x"),
        ("user", "default"),
        ("rename-command", "get"),
    ] {
        let reply = client.call(&["CONFIG", "SET", name, value]).unwrap();
        assert!(reply.is_error(), "{name}: {}", reply.text());
        assert!(!reply.text().contains("Bad directive"), "{name}: {}", reply.text());
    }
}

/// Sends a write without a password; its answer, or that the connection was closed.
fn plain_write(mut client: Connection) -> String {
    client.call(&["SET", "stranger", "1"]).map_or("closed".to_owned(), |reply| reply.text())
}

/// Waits until a server that asks for a password has loaded its data.
fn authenticated(server: &Server) -> Connection {
    let mut client = server.connect();
    assert_eq!(client.words("AUTH secret").text(), "OK");
    wait_until(|| !client.words("DBSIZE").text().starts_with("LOADING"));
    client
}

#[test]
fn a_password_is_asked_for() {
    let server = Program::indelible().start(&["--requirepass", "secret"]);
    assert!(plain_write(server.connect()).starts_with("NOAUTH"));
    for call in ["FLUSHALL", "KEYS *", "CONFIG SET requirepass x", "SUBSCRIBE a", "MONITOR"] {
        let reply = server.connect().words(call).text();
        assert!(reply.starts_with("NOAUTH"), "{call}: {reply}");
    }
    let mut client = authenticated(&server);
    assert_eq!(client.words("SET mine 1").text(), "OK");
    assert_eq!(client.words("DBSIZE").text(), "1");
    // One that Redis' CONFIG REWRITE has put next to requirepass does not take the password away.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("redis.conf");
    let text = "requirepass secret\nuser default on nopass sanitize-payload ~* &* +@all\n";
    std::fs::write(&file, text).unwrap();
    let server = Program::indelible().with_file(file.to_str().unwrap()).start(&[]);
    assert!(plain_write(server.connect()).starts_with("NOAUTH"));
    // And one that is set later counts for those that come.
    let server = Program::indelible().start(&[]);
    assert_eq!(server.connect().words("CONFIG SET requirepass secret").text(), "OK");
    assert!(plain_write(server.connect()).starts_with("NOAUTH"));
}

/// An address of this machine that is not the loopback's, if it has one.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the kernel only chooses a route.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn protected_mode_keeps_strangers_out() {
    let Some(address) = outer_address() else {
        testing::skipped("an address that is not the loopback's", "this machine has no other");
        return;
    };
    let from_outside = |port: u16| {
        let stream = TcpStream::connect(SocketAddr::new(address, port)).unwrap();
        plain_write(Connection::over(stream).unwrap())
    };
    let server = Program::indelible().start(&["--bind", "*"]);
    // It may have closed the connection before the write was sent.
    let answer = from_outside(server.port);
    assert!(answer.starts_with("DENIED") || answer == "closed", "{answer}");
    assert_eq!(server.connect().words("DBSIZE").text(), "0");
    let server = Program::indelible().start(&["--bind", "*", "--protected-mode", "no"]);
    assert_eq!(from_outside(server.port), "OK");
    let options = ["--bind", "*", "--protected-mode", "no", "--requirepass", "secret"];
    let server = Program::indelible().start(&options);
    assert!(from_outside(server.port).starts_with("NOAUTH"));
    // Where it binds is where it listens.
    let server = Program::indelible().start(&["--bind", "127.0.0.1", "--protected-mode", "no"]);
    assert!(TcpStream::connect(SocketAddr::new(address, server.port)).is_err());
}

#[test]
fn a_renamed_command_is_called_by_its_new_name_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("redis.conf");
    let text = "rename-command CONFIG s3cret\nrename-command FLUSHALL \"\"\n\
                rename-command SET put\nrename-command EVAL \"\"\n";
    std::fs::write(&file, text).unwrap();
    let programs = [Some(Program::indelible()), Program::redis()];
    let answers: Vec<Vec<String>> = programs
        .into_iter()
        .flatten()
        .map(|program| {
            let server = program.with_file(file.to_str().unwrap()).start(&[]);
            let mut client = server.connect();
            [
                "SET a 1",
                "put a 1",
                "PUT a 1 nx",
                "GET a",
                "CONFIG GET port2",
                "S3CRET GET port2",
                "s3cret",
                "s3cret nothing",
                "FLUSHALL",
                "flushall async",
                "COMMAND INFO config flushall set",
                "COMMAND GETKEYS put a 1",
                "COMMAND GETKEYS set a 1",
                "COMMAND DOCS flushall",
                "COMMAND LIST FILTERBY PATTERN flush*",
                "COMMAND LIST FILTERBY PATTERN config*",
                "MULTI",
                "put b 2",
                "SET c 3",
                "EXEC",
                "MULTI",
                "put b 2",
                "GET b",
                "EXEC",
                "DBSIZE",
            ]
            .map(|call| format!("{call}: {}", client.words(call).text()))
            .to_vec()
        })
        .collect();
    assert!(answers[0][0].contains("ERR unknown command 'SET'"), "{:?}", answers[0]);
    assert!(answers[0][1].ends_with("OK"), "{:?}", answers[0]);
    if let [here, by_redis] = answers.as_slice() {
        assert_eq!(here, by_redis);
    }
}

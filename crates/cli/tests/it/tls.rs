//! Connections over TLS: what is asked of clients, what a server without a plain port shows,
//! certificates that change, and tests of other files again, over TLS.

use crate::process::{PATIENCE, Program, Server, free_port, wait_for_exit, wait_until};
use crate::tls_client::{Certificates, EVERYWHERE, TlsStream};
use crate::wire::{Connection, Reply, encode};
use rcgen::ExtendedKeyUsagePurpose;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server with a plain port, for the test, and a TLS port.
struct Secured {
    server: Server,
    certificates: Certificates,
    port: u16,
}

impl Secured {
    fn start(options: &[&str]) -> Secured {
        Secured::start_with(Certificates::make(), options)
    }

    fn start_with(certificates: Certificates, options: &[&str]) -> Secured {
        let (port, own) = (free_port(), certificates.options());
        let port_text = port.to_string();
        let mut all = vec!["--tls-port", &port_text];
        all.extend(own.iter().map(String::as_str));
        all.extend(options);
        let server = Program::indelible().start(&all);
        Secured { server, certificates, port }
    }

    fn socket(&self) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    fn connect_as(&self, config: Arc<ClientConfig>) -> std::io::Result<Connection> {
        Connection::over_tls(self.socket(), config)
    }

    fn connect(&self) -> Connection {
        self.connect_as(self.certificates.client()).unwrap()
    }

    fn stream(&self) -> TlsStream {
        TlsStream::over(self.socket(), self.certificates.client()).unwrap()
    }

    /// The reply to PING of a client with this certificate, or why there is none.
    fn ping(&self, file: Option<&str>) -> Result<String, String> {
        let answer = |mut client: Connection| client.call(&["PING"]);
        let reply = self.connect_as(self.certificates.client_with(file)).and_then(answer);
        reply.map(|reply| reply.text()).map_err(|why| why.to_string())
    }

    /// CONFIG SET, by the plain port.
    fn set(&self, pairs: &[&str]) -> String {
        let call: Vec<&str> = ["CONFIG", "SET"].into_iter().chain(pairs.iter().copied()).collect();
        self.server.connect().call(&call).unwrap().text()
    }

    fn wait_for_clients(&self, count: usize) {
        let mut client = self.server.connect();
        let expected = format!("connected_clients:{count}\r\n");
        wait_until(|| client.words("INFO clients").text().contains(&expected));
    }
}

/// Runs a program of Redis; nothing (and a line that says so) if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let Ok(output) = Command::new(program).args(arguments).stdin(Stdio::null()).output() else {
        testing::skipped(program, "it is not installed (make test installs it)");
        return None;
    };
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn redis_cli_and_redis_benchmark_speak_it() {
    for threads in ["1", "3"] {
        let secured = Secured::start(&["--io-threads", threads]);
        let port = secured.port.to_string();
        let file = |name| secured.certificates.path(name);
        let (ca, certificate, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
        let tls = ["-p", &port, "--tls", "--cacert", &ca];
        let own = ["--cert", &certificate, "--key", &key];
        let cli = |options: &[&str], call: &[&str]| run("redis-cli", &[options, call].concat());
        let with_certificate = [tls.as_slice(), &own].concat();
        let Some((_, said)) = cli(&with_certificate, &["SET", "k", "v"]) else { return };
        assert_eq!(said, "OK\n");
        // Without a certificate it is not let in, until none is needed.
        let (_, said) = cli(&tls, &["GET", "k"]).unwrap();
        assert!(said.contains("Error"), "{said}");
        assert_eq!(secured.set(&["tls-auth-clients", "optional"]), "OK");
        assert_eq!(cli(&tls, &["GET", "k"]).unwrap().1, "v\n");
        let load = ["-q", "-n", "2000", "-c", "20", "-t", "set,get", "-P", "4"];
        let load = [with_certificate.as_slice(), &load].concat();
        let (is_good, said) = run("redis-benchmark", &load).unwrap();
        assert!(is_good && said.contains("requests per second"), "{said}");
    }
}

#[test]
fn what_clients_need_is_what_tls_auth_clients_says() {
    for threads in ["1", "2"] {
        let secured = Secured::start(&["--io-threads", threads]);
        secured.certificates.sign_by_stranger("stranger", "client");
        secured.certificates.sign("server-only", "client", ExtendedKeyUsagePurpose::ServerAuth);
        let pong = Ok("PONG".to_owned());
        for (auth, without, with) in
            [("yes", false, true), ("optional", true, true), ("no", true, true)]
        {
            assert_eq!(secured.set(&["tls-auth-clients", auth]), "OK");
            let answers = [None, Some("client")].map(|file| secured.ping(file) == pong);
            assert_eq!(answers, [without, with], "{auth}");
            // A certificate that is asked for must be good.
            for file in ["stranger", "server-only"] {
                assert_eq!(secured.ping(Some(file)) == pong, auth == "no", "{auth} {file}");
            }
        }
        secured.wait_for_clients(1);
        let log = secured.server.log();
        assert!(log.contains("# Error accepting a client connection: "), "{log}");
    }
}

#[test]
fn without_a_plain_port_nothing_is_said_in_plain() {
    let certificates = Certificates::make();
    let (tls_port, plain_port) = (free_port().to_string(), free_port());
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().to_str().unwrap();
    let mut options = vec!["--port", "0", "--tls-port", &tls_port, "--dir", directory];
    let own = certificates.options();
    options.extend(own.iter().map(String::as_str));
    options.extend(["--requirepass", "secret", "--bind", "127.0.0.1"]);
    let mut child = Program::indelible().command(&options).stdout(Stdio::null()).spawn().unwrap();
    let port: u16 = tls_port.parse().unwrap();
    let connect = || TcpStream::connect(("127.0.0.1", port));
    wait_until(|| connect().is_ok());
    // Its process listens at this port and no other one.
    assert_eq!(listening_ports(child.id()), [port]);
    assert!(TcpStream::connect(("127.0.0.1", plain_port)).is_err());
    // Redis' protocol, HTTP and nonsense get no answer, and are closed.
    for bytes in [&b"PING\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"GET / HTTP/1.1\r\n\r\n", &[0; 100]] {
        let mut socket = connect().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(bytes).unwrap();
        let mut said = Vec::new();
        // It may be reset, with what was not read.
        let _end = socket.read_to_end(&mut said);
        assert!(said.is_empty(), "{}", said.escape_ascii());
    }
    // Nothing before AUTH.
    let socket = connect().unwrap();
    let mut client = Connection::over_tls(socket, certificates.client()).unwrap();
    assert!(client.words("GET k").text().starts_with("NOAUTH"));
    assert_eq!(client.words("AUTH secret").text(), "OK");
    wait_until(|| client.words("SET k v").text() == "OK");
    assert!(client.words("INFO server").text().contains(&format!("tcp_port:{port}\r\n")));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The TCP ports that a process listens at.
pub(crate) fn listening_ports(pid: u32) -> Vec<u16> {
    let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|target| target.display().to_string())
        .collect();
    let mut ports = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_own = sockets.contains(&format!("socket:[{}]", fields[9]));
            if fields[3] == "0A" && is_own {
                let (_, port) = fields[1].rsplit_once(':').unwrap();
                ports.push(u16::from_str_radix(port, 16).unwrap());
            }
        }
    }
    ports
}

#[test]
fn a_handshake_that_is_not_finished_ends_after_ten_seconds() {
    for threads in ["1", "2"] {
        let secured = Secured::start(&["--io-threads", threads, "--maxclients", "6"]);
        let mut admin = secured.server.connect();
        let began = Instant::now();
        // One says nothing, one half a record, one the head of a large one, in small pieces for as
        // long as it may.
        let mut silent = secured.socket();
        let mut half = secured.socket();
        half.write_all(&[0x16, 3, 1, 2, 0, 1, 0]).unwrap();
        let mut slow = secured.socket();
        slow.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]).unwrap();
        wait_until(|| admin.words("INFO clients").text().contains("connected_clients:4\r\n"));
        assert_eq!(secured.ping(Some("client")), Ok("PONG".to_owned()));
        // The loop sleeps meanwhile, and serves others.
        wait_until(|| {
            let _may_be_closed = slow.write_all(&[0]);
            assert_eq!(admin.words("PING").text(), "PONG");
            admin.words("INFO clients").text().contains("connected_clients:1\r\n")
        });
        assert!(began.elapsed() >= Duration::from_secs(10), "{:?}", began.elapsed());
        for socket in [&mut silent, &mut half] {
            let mut rest = Vec::new();
            let _reset = socket.read_to_end(&mut rest);
            assert!(rest.is_empty(), "{rest:?}");
        }
        assert_eq!(secured.ping(Some("client")), Ok("PONG".to_owned()));
    }
}

#[test]
fn half_open_handshakes_do_not_keep_clients_out() {
    for threads in ["1", "2"] {
        let secured = Secured::start(&["--io-threads", threads, "--maxclients", "20"]);
        let mut admin = secured.server.connect();
        let mut silent: Vec<TcpStream> = (0..40).map(|_| secured.socket()).collect();
        for _ in 0..10 {
            assert_eq!(secured.ping(Some("client")), Ok("PONG".to_owned()));
            silent.extend((0..20).map(|_| secured.socket()));
        }
        // Clients have their places.
        let connect = |_| {
            let mut client = secured.connect();
            // The server knows that its handshake is done.
            assert_eq!(client.words("PING").text(), "PONG");
            client
        };
        let mut clients: Vec<Connection> = (0..18).map(connect).collect();
        silent.extend((0..20).map(|_| secured.socket()));
        for client in clients.iter_mut().chain([&mut admin]) {
            assert_eq!(client.words("PING").text(), "PONG");
        }
        let _last = secured.connect();
        wait_until(|| {
            let mut refused = secured.socket();
            refused.read(&mut [0]).unwrap_or(0) == 0
        });
    }
}

#[test]
fn a_certificate_is_replaced_and_no_connection_ends() {
    for threads in ["1", "2"] {
        let secured = Secured::start(&["--io-threads", threads]);
        let mut before = secured.connect();
        let old = secured.stream().server_certificate();
        // It is looked at when it is named again, and not before.
        let certificates = &secured.certificates;
        certificates.sign("server", "localhost", ExtendedKeyUsagePurpose::ServerAuth);
        assert_eq!(secured.stream().server_certificate(), old);
        let path = certificates.path("server.crt");
        assert_eq!(secured.set(&["tls-cert-file", &path]), "OK");
        let new = secured.stream().server_certificate();
        assert_ne!(new, old);
        assert_eq!(before.words("PING").text(), "PONG");
        assert_eq!(secured.connect().words("SET k v").text(), "OK");
        // What cannot be used changes nothing.
        certificates.write("empty.pem", "");
        certificates.sign("other", "localhost", ExtendedKeyUsagePurpose::ServerAuth);
        let (empty, other) = (certificates.path("empty.pem"), certificates.path("other.crt"));
        for (pairs, why) in [
            (
                ["tls-cert-file", "/nowhere/x.crt"],
                "tls-cert-file: cannot read /nowhere/x.crt: No such file",
            ),
            (["tls-cert-file", "/dev/zero"], "it is no regular file"),
            (["tls-key-file", &empty], "tls-key-file: there is no private key"),
            (["tls-ca-cert-file", &empty], "tls-ca-cert-file: there is no certificate (PEM) in"),
            (["tls-cert-file", &other], "KeyMismatch"),
            (["tls-protocols", "TLSv1.1 TLSv1.2"], "tls-protocols: TLSv1.1 is not supported"),
            (["tls-protocols", "TLSv7"], "Invalid tls-protocols specified."),
            (["tls-ciphers", "AES128-SHA"], "tls-ciphers: AES128-SHA is not supported"),
        ] {
            let refused = secured.set(&pairs);
            let expected = format!(
                "ERR CONFIG SET failed (possibly related to argument '{}') - Unable to update TLS configuration. \
                 Check server logs.",
                pairs[0]
            );
            assert_eq!(refused, expected);
            let log = secured.server.log();
            assert!(log.lines().last().unwrap().contains(why), "{pairs:?}: {log}");
            assert_eq!(secured.stream().server_certificate(), new, "{pairs:?}");
            let value = secured.server.connect().words(&format!("CONFIG GET {}", pairs[0]));
            assert_ne!(value.elements()[1].text(), pairs[1]);
        }
        // Both at once are taken, and another authority counts from now on.
        let both = ["tls-cert-file", &other, "tls-key-file", &certificates.path("other.key")];
        assert_eq!(secured.set(&both), "OK");
        assert_ne!(secured.stream().server_certificate(), new);
        assert_eq!(before.words("GET k").text(), "v");
    }
}

#[test]
fn versions_and_ciphers_are_those_that_are_configured() {
    let secured = Secured::start(&[]);
    let agreed = |version: &'static SupportedProtocolVersion| {
        let config = secured.certificates.client_of(Some("client"), &[version]);
        TlsStream::over(secured.socket(), config).map(|stream| stream.agreed()).ok()
    };
    assert!(agreed(&TLS12).is_some() && agreed(&TLS13).is_some());
    assert_eq!(secured.set(&["tls-protocols", "TLSv1.3"]), "OK");
    assert!(agreed(&TLS12).is_none() && agreed(&TLS13).is_some());
    assert_eq!(secured.set(&["tls-protocols", "tlsv1.2"]), "OK");
    assert!(agreed(&TLS12).is_some() && agreed(&TLS13).is_none());
    assert_eq!(secured.set(&["tls-protocols", ""]), "OK");
    let pairs = [
        "tls-ciphersuites",
        "TLS_CHACHA20_POLY1305_SHA256",
        "tls-ciphers",
        "DEFAULT:!CHACHA20:!AES256",
    ];
    assert_eq!(secured.set(&pairs), "OK");
    assert_eq!(agreed(&TLS13).unwrap(), "TLS13_CHACHA20_POLY1305_SHA256");
    assert_eq!(agreed(&TLS12).unwrap(), "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    // The server's own order, if it is asked for: rustls' clients begin with AES-256.
    let pairs = [
        "tls-ciphersuites",
        "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384",
        "tls-prefer-server-ciphers",
        "yes",
    ];
    assert_eq!(secured.set(&pairs), "OK");
    assert_eq!(agreed(&TLS13).unwrap(), "TLS13_CHACHA20_POLY1305_SHA256");
    assert_eq!(secured.set(&["tls-prefer-server-ciphers", "no"]), "OK");
    assert_eq!(agreed(&TLS13).unwrap(), "TLS13_AES_256_GCM_SHA384");
}

#[test]
fn sessions_are_resumed_unless_that_is_turned_off() {
    let secured = Secured::start(&[]);
    for version in [&TLS12, &TLS13] {
        let is_resumed = || {
            // A client keeps its sessions in its configuration.
            let config = secured.certificates.client_of(Some("client"), &[version]);
            let connect = || {
                let mut stream = TlsStream::over(secured.socket(), Arc::clone(&config)).unwrap();
                stream.write_all(&encode(&["PING"])).unwrap();
                stream.read_exact(&mut [0; 7]).unwrap();
                stream
            };
            let first = connect();
            assert!(!first.is_resumed());
            connect().is_resumed()
        };
        assert!(is_resumed(), "{version:?}");
        assert_eq!(secured.set(&["tls-session-caching", "no"]), "OK");
        assert!(!is_resumed(), "{version:?}");
        let pairs = ["tls-session-caching", "yes", "tls-session-cache-size", "10"];
        assert_eq!(secured.set(&pairs), "OK");
        assert!(is_resumed(), "{version:?}");
        assert_eq!(secured.set(&["tls-session-cache-timeout", "0"]), "OK");
        assert!(!is_resumed(), "{version:?}");
        let pairs = ["tls-session-cache-timeout", "300", "tls-session-cache-size", "0"];
        assert_eq!(secured.set(&pairs), "OK");
        assert!(is_resumed(), "{version:?}");
    }
}

/// The key of a certificate with the pass phrase `1234`, as `openssl pkcs8 -topk8 -v2 aes-256-cbc`
/// writes it: PBES2 with PBKDF2 (SHA-256) and AES-256-CBC. It is that of `server.crt` next to it.
const ENCRYPTED_KEY: &str = include_str!("tls_encrypted.key");
const CERTIFICATE_OF_ENCRYPTED_KEY: &str = include_str!("tls_encrypted.crt");

#[test]
fn a_key_with_a_pass_phrase_is_decrypted() {
    let secured = Secured::start(&[]);
    let certificates = &secured.certificates;
    certificates.write("encrypted.key", ENCRYPTED_KEY);
    certificates.write("encrypted.crt", CERTIFICATE_OF_ENCRYPTED_KEY);
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAA==\n\
               -----END RSA PRIVATE KEY-----\n";
    certificates.write("old.key", old);
    let (key, certificate) =
        (certificates.path("encrypted.key"), certificates.path("encrypted.crt"));
    let pair = ["tls-key-file", &key, "tls-cert-file", &certificate, "tls-key-file-pass"];
    for (pass, why) in
        [("", "is encrypted: set tls-key-file-pass"), ("12345", "cannot be decrypted")]
    {
        assert!(secured.set(&[&pair[..], &[pass]].concat()).starts_with("ERR"));
        let log = secured.server.log();
        assert!(log.lines().last().unwrap().contains(why), "{log}");
    }
    assert!(secured.set(&["tls-key-file", &certificates.path("old.key")]).starts_with("ERR"));
    assert!(secured.server.log().contains("openssl pkcs8 -topk8 -v2 aes-256-cbc -in "));
    assert_eq!(secured.set(&[&pair[..], &["1234"]].concat()), "OK");
    let log = secured.server.log();
    assert!(log.contains("tls-key-file-pass=(redacted)") && !log.contains("12345"), "{log}");
    assert_eq!(
        secured.server.connect().words("CONFIG GET tls-key-file-pass").elements()[1].text(),
        "1234"
    );
    let refused = secured.connect_as(certificates.client());
    assert!(refused.is_err(), "that certificate is not of the client's authority");
}

#[test]
fn a_client_is_the_user_that_its_certificate_names() {
    for threads in ["1", "2"] {
        let options = ["--tls-auth-clients-user", "cn", "--io-threads", threads];
        let secured = Secured::start(&[&options[..], &["--tls-auth-clients", "optional"]].concat());
        let mut admin = secured.server.connect();
        assert_eq!(admin.words("CONFIG GET tls-auth-clients-user").elements()[1].text(), "CN");
        assert_eq!(admin.words("ACL SETUSER alice on ~a* +get +ping +acl|whoami").text(), "OK");
        assert_eq!(admin.words("ACL SETUSER carol off ~* +@all").text(), "OK");
        for name in ["alice", "carol", "dave"] {
            secured.certificates.sign(name, name, ExtendedKeyUsagePurpose::ClientAuth);
        }
        let connect = |file| secured.connect_as(secured.certificates.client_with(file)).unwrap();
        let mut alice = connect(Some("alice"));
        assert_eq!(alice.words("ACL WHOAMI").text(), "alice");
        assert!(alice.words("GET b").text().starts_with("NOPERM"));
        assert_eq!(connect(None).words("ACL WHOAMI").text(), "default");
        // Without such a user, or with one that is off, it is what it would be without a
        // certificate, and ACL LOG says so.
        for name in ["carol", "dave"] {
            assert_eq!(admin.words("ACL LOG RESET").text(), "OK");
            let mut client = connect(Some(name));
            assert_eq!(client.words("ACL WHOAMI").text(), "default");
            let log = admin.words("ACL LOG");
            let texts: Vec<String> = log.elements()[0].elements().iter().map(Reply::text).collect();
            assert_eq!(log.elements().len(), 1);
            assert!(
                texts.iter().any(|text| text == "tls-cert") && texts.contains(&name.to_owned()),
                "{texts:?}"
            );
        }
        assert!(admin.words("INFO stats").text().contains("acl_access_denied_tls_cert:2\r\n"));
        // It must authenticate where the default user must.
        assert_eq!(admin.words("CONFIG SET requirepass secret").text(), "OK");
        assert!(connect(Some("dave")).words("GET a").text().starts_with("NOAUTH"));
        assert!(matches!(connect(Some("alice")).words("GET a"), Reply::Null(_)));
        // A user that is deleted loses the connection.
        assert_eq!(admin.words("ACL DELUSER alice").text(), "1");
        assert!(alice.is_closed());
        // Without being asked for a certificate names no user.
        assert_eq!(admin.words("ACL SETUSER dave on ~* +@all").text(), "OK");
        assert_eq!(admin.words("CONFIG SET tls-auth-clients-user off").text(), "OK");
        assert!(connect(Some("dave")).words("GET a").text().starts_with("NOAUTH"));
    }
}

#[test]
fn a_port_changes_between_plain_and_tls() {
    let secured = Secured::start(&[]);
    let unix = secured.server.port.to_string();
    let tls = secured.port.to_string();
    // Both stay open for those that are connected.
    let (mut plain, mut over_tls) = (secured.server.connect(), secured.connect());
    let mut set = |pairs: &[&str]| {
        let call: Vec<&str> = ["CONFIG", "SET"].into_iter().chain(pairs.iter().copied()).collect();
        plain.call(&call).unwrap().text()
    };
    let taken = "ERR CONFIG SET failed (possibly related to argument 'tls-port') - Unable to listen on this port. \
                 Check server logs.";
    assert_eq!(set(&["tls-port", &unix]), taken, "it is the plain port");
    assert_eq!(secured.ping(Some("client")), Ok("PONG".to_owned()));
    // They change places.
    assert_eq!(set(&["tls-port", &unix, "port", &tls]), "OK");
    assert_eq!(Connection::open(secured.port).unwrap().words("PING").text(), "PONG");
    let socket = TcpStream::connect(("127.0.0.1", secured.server.port)).unwrap();
    let mut swapped = Connection::over_tls(socket, secured.certificates.client()).unwrap();
    assert_eq!(swapped.words("PING").text(), "PONG");
    assert_eq!(set(&["tls-port", "0"]), "OK");
    assert!(TcpStream::connect(("127.0.0.1", secured.server.port)).is_err());
    assert_eq!(set(&["port", "0", "tls-port", &tls]), "OK");
    assert_eq!(secured.ping(Some("client")), Ok("PONG".to_owned()));
    for connection in [&mut plain, &mut over_tls, &mut swapped] {
        assert_eq!(connection.words("PING").text(), "PONG");
    }
}

#[test]
fn an_end_is_told_so_that_nothing_can_be_cut_off_unseen() {
    for threads in ["1", "2"] {
        let mut secured = Secured::start(&["--io-threads", threads]);
        let mut quitting = secured.stream();
        quitting.write_all(b"ECHO x\r\nQUIT\r\n").unwrap();
        let mut said = String::new();
        // An end without close_notify is an error.
        quitting.read_to_string(&mut said).unwrap();
        assert_eq!(said, "$1\r\nx\r\n+OK\r\n");
        let mut admin = secured.server.connect();
        let mut killed = secured.connect();
        let id = killed.words("CLIENT ID").text();
        assert_eq!(admin.words(&format!("CLIENT KILL ID {id}")).text(), "1");
        assert!(killed.is_closed());
        let mut last = secured.connect();
        last.send_bytes(b"SET k v\r\nSHUTDOWN\r\n").unwrap();
        assert_eq!(last.receive().unwrap().text(), "OK");
        assert!(last.is_closed());
        assert_eq!(secured.server.wait_for_exit(), Some(0));
    }
}

#[test]
fn what_is_missing_stops_the_start_and_says_what_to_do() {
    let certificates = Certificates::make();
    let file = |name: &str| certificates.path(name);
    let (certificate, key, ca) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let pair = format!("tls-cert-file {certificate}\ntls-key-file {key}");
    let certificate_only = format!("tls-cert-file {certificate}");
    let empty = tempfile::tempdir().unwrap();
    let empty_directory = format!("{pair}\ntls-ca-cert-dir {}", empty.path().display());
    let wrong_key = format!(
        "tls-cert-file {certificate}\ntls-key-file {}\ntls-auth-clients no",
        file("client.key")
    );
    let certificate_as_key = format!("tls-cert-file {certificate}\ntls-key-file {certificate}");
    let bad_cipher =
        format!("{pair}\ntls-ca-cert-file {ca}\ntls-ciphersuites TLS_AES_128_CCM_SHA256");
    for (lines, why) in [
        ("", "No tls-cert-file configured! It names a PEM file"),
        (certificate_only.as_str(), "No tls-key-file configured!"),
        (
            "tls-cert-file /no/x.crt\ntls-key-file /no/x.key",
            "tls-cert-file: cannot read /no/x.crt: No such file",
        ),
        (&pair, "To let clients connect without certificates: tls-auth-clients no"),
        (
            &empty_directory,
            "tls-ca-cert-dir: there is no certificate (PEM) of an authority whose time is now in",
        ),
        (&wrong_key, "KeyMismatch"),
        (&certificate_as_key, "tls-key-file: there is no private key"),
        (
            &bad_cipher,
            "tls-ciphersuites: TLS_AES_128_CCM_SHA256 is not supported; these are: TLS_AES_256_GCM",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let path = directory.path().join("redis.conf");
        let text = format!("port 0\ntls-port 7443\n{lines}\ndir {}\n", data.display());
        std::fs::write(&path, text).unwrap();
        let program = Program::indelible().with_file(path.to_str().unwrap());
        let mut child =
            program.command(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let code = wait_for_exit(&mut child);
        child.kill().unwrap_or_default();
        let mut said = String::new();
        child.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(code, Some(1), "{lines}: {said}");
        assert!(
            said.contains("Failed to configure TLS: ") && said.contains(why),
            "{lines}: {said}"
        );
        let made: Vec<_> = std::fs::read_dir(&data).unwrap().collect();
        assert!(made.is_empty(), "{lines}: {made:?}");
    }
}

#[test]
fn authorities_in_a_directory_count_too() {
    let certificates = Certificates::make();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    std::fs::copy(certificates.path("ca.crt"), directory.path().join("0a1b2c3d.0")).unwrap();
    std::fs::write(directory.path().join("README"), "no certificate").unwrap();
    std::fs::create_dir(directory.path().join("java")).unwrap();
    let options = ["--tls-ca-cert-file", "", "--tls-ca-cert-dir", path];
    let secured = Secured::start_with(certificates, &options);
    secured.certificates.sign_by_stranger("stranger", "client");
    assert_eq!(secured.ping(Some("client")), Ok("PONG".to_owned()));
    assert!(secured.ping(Some("stranger")).is_err() && secured.ping(None).is_err());
}

#[test]
fn what_a_clients_key_has_signed_counts_for_nothing() {
    let certificates = Certificates::make();
    certificates.sign_by_client("client", "forged", "admin");
    let chain = certificates.read("forged.crt") + &certificates.read("client.crt");
    certificates.write("chain.crt", &chain);
    certificates.write("chain.key", &certificates.read("forged.key"));
    // The certificates of the server and of clients lie next to the authority's.
    let directory = certificates.path("");
    let secured = Secured::start_with(
        certificates,
        &["--tls-ca-cert-file", "", "--tls-ca-cert-dir", &directory],
    );
    assert_eq!(secured.ping(Some("client")).unwrap(), "PONG");
    for forged in ["forged", "chain"] {
        assert!(secured.ping(Some(forged)).is_err(), "{forged}");
    }
    let reply = secured.set(&["tls-ca-cert-file", &secured.certificates.path("client.crt")]);
    assert!(reply.starts_with("ERR"), "{reply}");
    assert!(secured.server.log().contains("it is of no authority"));
    let info = secured.server.connect().words("INFO server").text();
    let listener = info.lines().find(|line| line.contains("name=tls,bind=")).unwrap();
    assert!(listener.ends_with(&format!("port={}", secured.port)), "{listener}");
}

#[test]
fn a_resumed_session_is_that_of_its_certificate() {
    let secured = Secured::start(&["--tls-auth-clients-user", "CN"]);
    let mut plain = secured.server.connect();
    assert_eq!(plain.words("ACL SETUSER client on resetpass ~* +@all").text(), "OK");
    for version in [&TLS12, &TLS13] {
        let config = secured.certificates.client_of(Some("client"), &[version]);
        let user = |is_resumed: bool| {
            let mut stream = TlsStream::over(secured.socket(), Arc::clone(&config)).unwrap();
            stream.write_all(&encode(&["ACL", "WHOAMI"])).unwrap();
            let mut said = [0; 12];
            stream.read_exact(&mut said).unwrap();
            assert_eq!(stream.is_resumed(), is_resumed, "{version:?}");
            String::from_utf8(said.to_vec()).unwrap()
        };
        assert!(user(false).starts_with("$6\r\nclient"));
        assert!(user(true).starts_with("$6\r\nclient"));
        assert_eq!(plain.words("ACL SETUSER client off").text(), "OK");
        assert!(user(true).starts_with("$7\r\ndefault"), "it is off");
        assert_eq!(plain.words("ACL SETUSER client on").text(), "OK");
        // Of the files of now nothing is known of sessions of before.
        assert_eq!(secured.set(&["tls-ca-cert-file", &secured.certificates.path("ca.crt")]), "OK");
        assert!(user(false).starts_with("$6\r\nclient"));
    }
}

#[test]
fn a_session_is_not_resumed_when_the_time_of_its_certificate_is_over() {
    let secured = Secured::start(&[]);
    for version in [&TLS12, &TLS13] {
        secured.certificates.sign_for(4, "short", "short");
        let config = secured.certificates.client_of(Some("short"), &[version]);
        let is_taken = || {
            let reply = secured
                .connect_as(Arc::clone(&config))
                .and_then(|mut connection| connection.call(&["PING"]));
            reply.is_ok_and(|reply| reply.text() == "PONG")
        };
        assert!(is_taken(), "{version:?}");
        wait_until(|| !is_taken());
    }
}

#[test]
fn the_log_is_followed_and_keys_are_brought_back_over_tls() {
    let secured = Secured::start(&[]);
    let mut client = secured.connect();
    assert_eq!(client.words("SET k v").text(), "OK");
    let address = format!("localhost:{}", secured.port);
    let file = |name| secured.certificates.path(name);
    let (ca, certificate, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
    let tail = ["log", "tail", &address];
    let tls = ["--tls", "--cacert", &ca, "--cert", &certificate, "--key", &key];
    let indelible = env!("CARGO_BIN_EXE_indelible");
    let (is_good, said) = run(indelible, &[&tail[..], &tls].concat()).unwrap();
    assert!(is_good && said.contains("\"key\":\"k\""), "{said}");
    // Without what it needs it gets nothing, and says why.
    for options in [&[][..], &tls[..3]] {
        let (is_good, said) = run(indelible, &[&tail[..], options].concat()).unwrap();
        assert!(!is_good && !said.contains("\"key\""), "{said}");
    }
    let backup = client.words("BACKUP CREATE first").text();
    assert!(!backup.starts_with("ERR"), "{backup}");
    assert_eq!(client.words("SET k changed").text(), "OK");
    let data = secured.server.directory();
    let data = data.to_str().unwrap();
    let restore = ["restore", data, "--at", "first", "--keys", "k", "--to", &address, "--replace"];
    let (is_good, said) = run(indelible, &[&restore[..], &tls].concat()).unwrap();
    assert!(is_good && said.contains("1 keys are back"), "{said}");
    assert_eq!(client.words("GET k").text(), "v");
}

/// Tests of connections that know no more of TLS than [`Connection::open`] does.
const OVER_TLS: &[&str] = &[
    "connections::a_long_pipeline_is_answered_in_order",
    "connections::a_subscriber_that_does_not_read_is_disconnected",
    "connections::an_idle_client_is_disconnected_after_the_timeout",
    "connections::an_inline_command_without_an_end_is_cut_off",
    "connections::hostile_bytes_neither_end_the_server_nor_fill_its_memory",
    "fail_closed::a_password_is_asked_for",
    "io_threads::a_client_that_does_not_read_is_held_to_its_limit_and_holds_up_no_other_one",
    "io_threads::a_client_that_is_killed_is_gone_though_it_reads_nothing",
    "io_threads::connections_that_come_and_go_do_not_get_what_was_for_others",
    "io_threads::each_client_gets_its_own_replies_in_order_however_requests_are_cut_up",
    "io_threads::messages_come_to_clients_of_every_thread",
    "io_threads::the_last_replies_go_out_before_the_end",
    "io_threads::values_larger_than_what_may_be_on_its_way_come_whole",
];

#[test]
fn tests_of_connections_pass_over_tls() {
    let certificates = Certificates::make();
    let directory = certificates.path("");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--exact").args(OVER_TLS).env(EVERYWHERE, directory);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let summary = format!("ok. {} passed; 0 failed; 0 ignored", OVER_TLS.len());
    assert!(said.contains(&summary), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

//! Users: what becomes of connections when they change, and what is told and kept of them.

use std::fs::File;

use super::restoring::cold_server;
use super::server::TestServer;
use super::threads::Threads;
use crate::engine::{ClientKey, Wanted};

/// A client that is this user, with the password `x`.
fn as_user(server: &mut TestServer, name: &str) -> ClientKey {
    let client = server.connect();
    assert_eq!(server.send(client, &format!("AUTH {name} x\r\n")), "+OK\r\n");
    client
}

/// Makes or changes users.
fn set(server: &mut TestServer, admin: ClientKey, users: &[&str]) {
    for rules in users {
        assert_eq!(server.send(admin, &format!("ACL SETUSER {rules}\r\n")), "+OK\r\n", "{rules}");
    }
}

/// What a client reads, which may be any bytes.
fn send_for_bytes(server: &mut TestServer, client: ClientKey, call: &str) -> Vec<u8> {
    server.engine.receive(client, call.as_bytes());
    server.engine.end_iteration(true);
    let bytes = server.engine.outgoing(client).bytes.to_vec();
    server.engine.sent(client, bytes.len());
    bytes
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_change_of_a_user_is_none_of_anothers() {
    let mut server = TestServer::new(&[]);
    let admin = server.connect();
    set(&mut server, admin, &["a on >x &news +@all", "b on >x +@all", "c on >x +@all"]);
    // Subscribed as one user, and another one since: as in Redis it keeps what it has.
    let client = as_user(&mut server, "a");
    server.send(client, "HELLO 3\r\nSUBSCRIBE news\r\nAUTH b x\r\n");
    set(&mut server, admin, &["c -get", "d on", "a -get"]);
    assert!(!server.ends(client));
    assert_eq!(server.send(admin, "PUBLISH news today\r\n"), ":1\r\n");
    assert!(server.read(client).contains("today"));
    assert_eq!(server.send(admin, "ACL DELUSER b\r\n"), ":1\r\n");
    assert!(server.ends(client));
}

#[test]
fn what_a_client_asked_to_hear_as_an_earlier_user_ends_with_that_users_right() {
    for (listen, lose) in [
        ("SUBSCRIBE news", "ACL SETUSER a resetchannels &other"),
        ("PSUBSCRIBE news", "ACL DELUSER a"),
        ("SSUBSCRIBE news", "ACL SETUSER a resetchannels"),
        ("MONITOR", "ACL SETUSER a -monitor"),
        ("MONITOR", "ACL DELUSER a"),
    ] {
        let mut server = TestServer::new(&[]);
        let admin = server.connect();
        set(&mut server, admin, &["a on >x &* +@all", "b on >x &* +@all"]);
        let [client, later, other] = [(); 3].map(|()| as_user(&mut server, "a"));
        server.send(client, &format!("HELLO 3\r\n{listen}\r\nAUTH b x\r\n"));
        // Asked for again by a user that may have it: that of the earlier one is no more.
        server.send(later, &format!("HELLO 3\r\n{listen}\r\nAUTH b x\r\n{listen}\r\n"));
        server.send(other, "AUTH b x\r\n");
        server.send(admin, &format!("{lose}\r\n"));
        assert!(server.ends(client), "{listen}, {lose}");
        assert!(!server.ends(later) && !server.ends(other), "{listen}, {lose}");
    }
}

#[test]
fn a_client_keeps_what_it_hears_when_it_authenticates_and_may_not_ask_for_more() {
    let mut server = TestServer::new(&[]);
    let admin = server.connect();
    set(&mut server, admin, &["a on >x &news &more +@all", "b on >x +@all"]);
    let client = as_user(&mut server, "a");
    server.send(client, "SUBSCRIBE news more\r\nUNSUBSCRIBE more\r\n");
    // RESP2: nothing but subscriptions until the last has ended.
    assert!(server.send(client, "AUTH b x\r\n").starts_with("-ERR Can't execute 'auth'"));
    server.send(client, "UNSUBSCRIBE\r\nHELLO 3\r\nSUBSCRIBE news\r\nAUTH b x\r\n");
    assert!(server.send(client, "SUBSCRIBE more\r\n").starts_with("-NOPERM"));
    assert!(server.send(client, "SUBSCRIBE news\r\n").starts_with("-NOPERM"));
    assert_eq!(server.send(admin, "PUBLISH news today\r\n"), ":1\r\n");
    assert!(server.read(client).contains("today"));
    assert_eq!(server.send(admin, "ACL DELUSER a\r\n"), ":1\r\n");
    assert!(server.ends(client));
}

#[test]
fn a_client_that_deletes_its_own_user_reads_all_replies() {
    let mut server = TestServer::new(&[]);
    let admin = server.connect();
    set(&mut server, admin, &["alice on >x ~* +@all"]);
    // More than may wait for one that has not authenticated.
    let value = "v".repeat(20 << 10);
    assert_eq!(server.send(admin, &format!("SET big {value}\r\n")), "+OK\r\n");
    let alice = as_user(&mut server, "alice");
    let replies = server.send(alice, "GET big\r\nACL DELUSER alice\r\nPING\r\n");
    assert_eq!(replies, format!("$20480\r\n{value}\r\n:1\r\n"));
    assert!(server.ends(alice));
}

#[test]
fn a_stranger_gets_no_name_by_hello() {
    let mut server = TestServer::new(&["--requirepass", "x"]);
    let client = server.connect();
    let refused = server.send(client, "HELLO 2 SETNAME me\r\n");
    assert!(refused.starts_with("-NOAUTH HELLO must be called with"), "{refused}");
    assert_eq!(server.send(client, "AUTH x\r\nCLIENT GETNAME\r\n"), "+OK\r\n$-1\r\n");
    let client = server.connect();
    server.send(client, "HELLO 2 SETNAME me AUTH default x\r\n");
    assert_eq!(server.send(client, "CLIENT GETNAME\r\n"), "$2\r\nme\r\n");
}

#[test]
fn a_name_of_any_bytes_is_told_as_it_is() {
    let mut server = TestServer::new(&[]);
    let admin = server.connect();
    set(&mut server, admin, &["\"\\xff\" on >x +acl|whoami"]);
    let client = as_user(&mut server, "\"\\xff\"");
    assert_eq!(send_for_bytes(&mut server, client, "ACL WHOAMI\r\n"), b"$1\r\n\xff\r\n");
    assert!(server.send(client, "GET k\r\n").starts_with("-NOPERM"));
    let log = send_for_bytes(&mut server, admin, "ACL LOG\r\n");
    assert!(has(&log, b"username\r\n$1\r\n\xff\r\n"), "{}", log.escape_ascii());
}

#[test]
fn a_script_with_debug_has_no_more_rights() {
    let mut server = TestServer::new(&["--enable-debug-command", "yes"]);
    let admin = server.connect();
    set(&mut server, admin, &["alice on >x ~* +@all -debug"]);
    assert_eq!(server.send(admin, "DEBUG SET-DISABLE-DENY-SCRIPTS 1\r\n"), "+OK\r\n");
    let script = "EVAL \"return redis.call('debug', 'digest')\" 0\r\n";
    let told = server.send(admin, script);
    assert!(told.starts_with('+'), "{told}");
    let alice = as_user(&mut server, "alice");
    let refused = server.send(alice, script);
    assert!(
        refused.contains("User alice has no permissions to run the 'debug' command"),
        "{refused}"
    );
}

#[test]
fn an_aclfile_is_a_file_of_some_size() {
    let directory = tempfile::tempdir().unwrap();
    let large = directory.path().join("large.acl");
    File::create(&large).unwrap().set_len((64 << 20) + 1).unwrap();
    for (path, why) in
        [("/dev/null", "it is no regular file"), (large.to_str().unwrap(), "more than 64 MB")]
    {
        let mut server = TestServer::new(&["--aclfile", path]);
        let admin = server.connect();
        let told = server.send(admin, "ACL LOAD\r\n");
        assert!(told.starts_with("-ERR Error loading ACLs, opening file"), "{told}");
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn what_is_kept_of_users_makes_the_same_users() {
    let mut server = TestServer::new(&[]);
    let admin = server.connect();
    let rules = [
        "alice on >x \"~\\xff'\\\"\" %R~b\\ &c +get +select|0 (~d +set)",
        "\"\\xfe\" off nopass +@all -@dangerous",
    ];
    set(&mut server, admin, &rules);
    let text = server.engine.configuration_to_keep();
    let again = crate::config::parse(text.as_bytes()).unwrap().make_users().unwrap();
    for name in [&b"alice"[..], b"\xfe"] {
        assert!(again.by_name(name).is_some(), "{text}");
        assert_eq!(again.by_name(name), server.engine.access.users.by_name(name), "{text}");
    }
}

#[test]
fn users_that_do_not_fit_are_said_to_be_left_out() {
    let mut server = TestServer::new(&[]);
    let admin = server.connect();
    for number in 0..200 {
        set(&mut server, admin, &[&format!("user-{number:0>99} on >x ~* +@all")]);
    }
    let text = server.engine.configuration_to_keep();
    assert!(text.ends_with("# The users do not fit, and are left out\n"), "{text}");
    assert!(!text.contains("user-") && text.len() <= 16 << 10, "{text}");
}

#[test]
fn nothing_is_read_ahead_for_a_call_that_will_be_refused() {
    let (mut server, _said) = cold_server(TestServer::with_log(&[]), 3);
    let threads = Threads::default();
    server.engine.fetch_from(Box::new(threads.clone()));
    let admin = server.connect();
    set(&mut server, admin, &["alice on >x ~mine:* +@all"]);
    let alice = as_user(&mut server, "alice");
    let get = |key: &str| format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
    let calls = ["mine:1", "secret", "mine:2"].map(get).concat();
    assert_eq!(server.send(alice, &calls), "");
    let mut asked = Vec::new();
    while let Some(Wanted::Missing(missing)) = threads.asked() {
        asked.push(String::from_utf8(missing.key.to_vec()).unwrap());
    }
    assert_eq!(asked, ["mine:1", "mine:2"]);
}

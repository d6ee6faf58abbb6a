//! Publish and subscribe.

use super::server::TestServer;

#[test]
fn messages_reach_channels_and_patterns() {
    let mut server = TestServer::new(&[]);
    let (listener, publisher) = (server.connect(), server.connect());
    server.send(listener, "SUBSCRIBE news\r\nPSUBSCRIBE n*\r\n");
    assert_eq!(server.send(publisher, "PUBLISH news hi\r\n"), ":2\r\n");
    assert_eq!(
        server.read(listener),
        "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n"
    );
    assert!(
        server
            .send(listener, "GET a\r\n")
            .starts_with("-ERR Can't execute 'get': only (P|S)SUBSCRIBE")
    );
}

#[test]
fn keyspace_notifications_are_messages() {
    let mut server = TestServer::new(&["--notify-keyspace-events", "KEA"]);
    let (listener, writer) = (server.connect(), server.connect());
    server.send(listener, "SUBSCRIBE __keyspace@0__:a __keyevent@0__:set\r\n");
    server.send(writer, "SET a 1\r\n");
    let messages = server.read(listener);
    assert!(messages.contains("__keyspace@0__:a\r\n$3\r\nset\r\n"), "{messages}");
    assert!(messages.contains("__keyevent@0__:set\r\n$1\r\na\r\n"), "{messages}");
}

#[test]
fn monitor_shows_no_passwords() {
    let mut server = TestServer::new(&[]);
    let (watcher, client) = (server.connect(), server.connect());
    assert_eq!(server.send(watcher, "MONITOR\r\n"), "+OK\r\n");
    for command in [
        "AUTH default hunter2",
        "HELLO 2 AUTH default hunter2",
        "HELLO 2 SETNAME auth AUTH default hunter2",
        "HELLO 2 AUTH default one AUTH default hunter2",
        "ACL SETUSER bob >hunter2",
    ] {
        server.send(client, &format!("{command}\r\n"));
    }
    server.send(client, "PING\r\n");
    let shown = server.read(watcher);
    assert!(shown.contains("\"PING\"") && !shown.contains("hunter2"), "{shown}");
}

//! What client libraries tell and ask at connect.

use super::server::TestServer;

#[test]
fn a_library_says_its_name_and_version() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    assert!(server.send(client, "CLIENT INFO\r\n").contains(" lib-name= lib-ver=\n"));
    let named =
        server.send(client, "CLIENT SETINFO lib-name redis-x\r\nCLIENT SETINFO LIB-VER 1.2\r\n");
    assert_eq!(named, "+OK\r\n+OK\r\n");
    // It is the same library after RESET.
    assert_eq!(server.send(client, "RESET\r\n"), "+RESET\r\n");
    for command in ["CLIENT LIST\r\n", "CLIENT INFO\r\n"] {
        let line = server.send(client, command);
        assert!(line.contains(" resp=2 lib-name=redis-x lib-ver=1.2\n"), "{line}");
    }
    assert_eq!(
        server
            .send(client, "*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nlib-name\r\n$3\r\na b\r\n"),
        "-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"
    );
    assert_eq!(
        server.send(client, "CLIENT SETINFO lib-os x\r\n"),
        "-ERR Unrecognized option 'lib-os'\r\n"
    );
    assert!(server.send(client, "CLIENT SETINFO lib-name\r\n").starts_with("-ERR wrong number"));
}

#[test]
fn a_client_that_does_not_touch_leaves_keys_idle() {
    let mut server = TestServer::new(&[]);
    let (client, other) = (server.connect(), server.connect());
    server.send(client, "SET a 1\r\n");
    server.pass_ms(100_000);
    assert_eq!(server.send(client, "CLIENT NO-TOUCH ON\r\n"), "+OK\r\n");
    assert!(server.send(client, "CLIENT INFO\r\n").contains(" flags=T "));
    for read in ["GET a\r\n", "STRLEN a\r\n", "MULTI\r\nGET a\r\nEXEC\r\n"] {
        server.send(client, read);
        assert_eq!(server.send(client, "OBJECT IDLETIME a\r\n"), ":100\r\n", "{read}");
    }
    assert_eq!(server.send(client, "TOUCH a\r\nOBJECT IDLETIME a\r\n"), ":1\r\n:0\r\n");
    server.pass_ms(100_000);
    server.send(client, "GET a\r\n");
    assert_eq!(server.send(other, "OBJECT IDLETIME a\r\nGET a\r\n"), ":100\r\n$1\r\n1\r\n");
    assert_eq!(server.send(other, "OBJECT IDLETIME a\r\n"), ":0\r\n");
    assert_eq!(server.send(client, "CLIENT NO-TOUCH maybe\r\n"), "-ERR syntax error\r\n");
    server.pass_ms(100_000);
    assert_eq!(server.send(client, "RESET\r\nGET a\r\n"), "+RESET\r\n$1\r\n1\r\n");
    assert_eq!(server.send(client, "OBJECT IDLETIME a\r\n"), ":0\r\n");
}

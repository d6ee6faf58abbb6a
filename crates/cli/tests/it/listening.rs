//! CONFIG SET port and bind: the server listens elsewhere, or goes on where it was.

use crate::process::{Program, free_port};
use crate::wire::Connection;
use std::net::TcpListener;

#[test]
fn a_new_port_takes_the_place_of_the_old_one() {
    let server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    let port = free_port();
    assert_eq!(connection.words(&format!("CONFIG SET port {port}")).text(), "OK");
    assert_eq!(connection.words("PING").text(), "PONG", "connections stay");
    assert_eq!(Connection::open(port).unwrap().words("PING").text(), "PONG");
    assert!(Connection::open(server.port).is_err(), "nobody listens there any more");
    assert_eq!(connection.words("CONFIG GET port").elements()[1].text(), port.to_string());
    assert!(connection.words("INFO server").text().contains(&format!("tcp_port:{port}")));
    assert_eq!(connection.words(&format!("CONFIG SET port {}", server.port)).text(), "OK");
    assert_eq!(server.connect().words("PING").text(), "PONG");
}

#[test]
fn a_port_that_is_taken_is_refused_and_nothing_changes() {
    let taken = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    assert_eq!(
        connection.words(&format!("CONFIG SET maxclients 77 port {port}")).text(),
        "ERR CONFIG SET failed (possibly related to argument 'port') - \
         Unable to listen on this port. Check server logs."
    );
    assert_eq!(connection.words("CONFIG GET maxclients").elements()[1].text(), "10000");
    assert_eq!(connection.words("CONFIG GET port").elements()[1].text(), server.port.to_string());
    assert_eq!(server.connect().words("PING").text(), "PONG");
}

#[test]
fn addresses_are_exchanged_and_wrong_ones_leave_the_old() {
    let server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    assert_eq!(connection.words("CONFIG SET bind 127.0.0.1").text(), "OK");
    assert_eq!(server.connect().words("PING").text(), "PONG");
    assert_eq!(
        connection.words("CONFIG SET bind 203.0.113.7").text(),
        "ERR CONFIG SET failed (possibly related to argument 'bind') - \
         Failed to bind to specified addresses."
    );
    assert_eq!(server.connect().words("PING").text(), "PONG");
    assert_eq!(connection.words("CONFIG GET bind").elements()[1].text(), "127.0.0.1");
    let both = ["CONFIG", "SET", "bind", "* -::*"];
    assert_eq!(connection.call(&both).unwrap().text(), "OK");
    assert_eq!(server.connect().words("PING").text(), "PONG");
}

#[test]
fn a_change_that_fails_elsewhere_changes_no_port() {
    let server = Program::indelible().start(&["--enable-protected-configs", "yes"]);
    let mut connection = server.connect();
    let port = free_port();
    let wrong = format!("CONFIG SET port {port} log-devices /proc/nowhere");
    let refused = connection.words(&wrong).text().to_owned();
    assert!(refused.contains("argument 'log-devices'"), "{refused}");
    assert_eq!(server.connect().words("PING").text(), "PONG");
    assert!(Connection::open(port).is_err());
    assert_eq!(connection.words("CONFIG GET port").elements()[1].text(), server.port.to_string());
}

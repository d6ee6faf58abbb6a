//! A wire that damages, and one that is cut.
//!
//! A proxy passes bytes between client and server, and at a chosen place on the way to the server
//! flips a bit or hangs up.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use transfer::Trust;

use crate::ends::{Receiver, VERIFICATION, directory, random_bytes, send};

/// What the wire does to the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// Flips one bit of the n-th byte to the server.
    FlipAt(u64),
    /// Passes nothing in either direction after the n-th byte to the server.
    CutAt(u64),
}

/// Starts a wire to `server` that damages its first connection, and returns its address.
pub(crate) fn wire(server: SocketAddr, trouble: Trouble) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(server).unwrap();
        let (to_client, from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || pass(from_server, to_client, None));
        pass(client, server, Some(trouble));
    });
    address
}

pub(crate) fn pass(mut from: TcpStream, mut to: TcpStream, trouble: Option<Trouble>) {
    let mut buffer = vec![0; 64 * 1024];
    let mut passed = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let end = passed + count as u64;
        let place = |at: u64| usize::try_from(at - passed).unwrap();
        match trouble {
            Some(Trouble::FlipAt(at)) if (passed..end).contains(&at) => buffer[place(at)] ^= 0x10,
            Some(Trouble::CutAt(at)) if (passed..end).contains(&at) => {
                // What was passed arrives; then both ends see that the peer is gone.
                let _gone = to.write_all(&buffer[..place(at)]);
                let _gone = from.shutdown(Shutdown::Both);
                break;
            }
            _ => {}
        }
        passed = end;
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _gone = to.shutdown(Shutdown::Both);
}

#[test]
fn a_flipped_bit_in_a_page_is_noticed_when_it_comes_in_and_mended() {
    let dir = directory();
    let file = dir.path().join("file");
    let bytes = random_bytes(1, 8 << 20);
    fs::write(&file, &bytes).unwrap();
    let receiver = Receiver::start();
    let address = wire(receiver.address, Trouble::FlipAt(3_000_000));
    let report = send(address, &file, &Trust::Loopback, VERIFICATION).unwrap();
    assert!(report.is_complete(), "{:?}", report.failures);
    assert_eq!(report.pages_sent_again, 1);
    assert!(fs::read(receiver.path("file")).unwrap() == bytes);
}

#[test]
fn a_flipped_bit_anywhere_is_mended_or_ends_the_transfer_but_never_arrives() {
    let dir = directory();
    let file = dir.path().join("file");
    let bytes = random_bytes(2, 100_000);
    fs::write(&file, &bytes).unwrap();
    let mut mended = 0;
    for at in (0..104).chain((104..100_000).step_by(1777)) {
        let receiver = Receiver::start();
        let address = wire(receiver.address, Trouble::FlipAt(at));
        match send(address, &file, &Trust::Loopback, VERIFICATION) {
            Ok(report) => {
                assert!(report.is_complete());
                assert!(fs::read(receiver.path("file")).unwrap() == bytes, "flipped at {at}");
                mended += report.pages_sent_again;
            }
            Err(error) => {
                assert!(!receiver.path("file").exists(), "flipped at {at}: {error}");
            }
        }
    }
    assert!(mended > 40, "{mended}");
}

//! What a receiver refuses, and what the client is told.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;

use base::checksum::crc32c;
use transfer::{Error, Limits, Token, Trust, Verification};

use crate::ends::{NO_LIMITS, Receiver, VERIFICATION, directory, send};

fn refusal(result: transfer::Result<transfer::Report>) -> String {
    match result {
        Err(Error::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_link_that_leads_out_stops_the_transfer_before_it_starts() {
    let dir = directory();
    for target in ["/etc/passwd", "../../x", "a/../../../x"] {
        let tree = dir.path().join("tree");
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("file"), "x").unwrap();
        symlink(target, tree.join("link")).unwrap();
        let receiver = Receiver::start();
        let why = refusal(receiver.send(&tree));
        assert!(why.contains("tree/link: the link leads out"), "{why}");
        assert!(!receiver.path("tree").exists());
        fs::remove_dir_all(tree).unwrap();
    }
}

#[test]
fn a_link_at_the_receiver_is_not_followed() {
    let dir = directory();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/file"), "x").unwrap();
    let outside = directory();
    let receiver = Receiver::start();
    fs::create_dir(receiver.path("tree")).unwrap();
    symlink(outside.path(), receiver.path("tree/sub")).unwrap();
    assert!(refusal(receiver.send(&tree)).contains("symbolic link"));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    // Nor is a file read through one.
    let remote = format!("{}/tree/sub/file", receiver.address).parse().unwrap();
    let to = directory();
    let progress = transfer::Progress::default();
    let fetched = transfer::fetch(
        &remote,
        to.path(),
        &Trust::Loopback,
        VERIFICATION,
        &NO_LIMITS,
        0,
        &progress,
    );
    assert!(refusal(fetched).contains("symbolic link"));
}

#[test]
fn more_than_the_stated_size_or_than_there_is_room_for_is_refused_before_it_starts() {
    let dir = directory();
    let file = dir.path().join("file");
    fs::write(&file, vec![7; 100_000]).unwrap();
    let limits = Limits { size_max_bytes: Some(99_999), keep_free_bytes: 0 };
    let receiver = Receiver::start_with(Trust::Loopback, limits);
    assert!(refusal(receiver.send(&file)).contains("--max-size"));
    let limits = Limits { size_max_bytes: Some(100_000), keep_free_bytes: 0 };
    assert!(Receiver::start_with(Trust::Loopback, limits).send(&file).unwrap().is_complete());

    let limits = Limits { size_max_bytes: None, keep_free_bytes: u64::MAX };
    let receiver = Receiver::start_with(Trust::Loopback, limits);
    assert!(refusal(receiver.send(&file)).contains("not enough room"));
    assert!(!receiver.path("file").exists());
    // The filler that the scheme needs is included.
    let receiver = Receiver::start();
    let verification = Verification { device_cache_bytes: u64::MAX / 2, ..VERIFICATION };
    let why = refusal(send(receiver.address, &file, &Trust::Loopback, verification));
    assert!(why.contains("not enough room"), "{why}");
}

#[test]
fn only_the_same_token_opens_the_door() {
    let dir = directory();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let token = Trust::Token(Token::random().unwrap());
    let other = Trust::Token(Token::random().unwrap());
    let receiver = Receiver::start_with(token.clone(), NO_LIMITS);
    let error = send(receiver.address, &file, &other, VERIFICATION).unwrap_err();
    assert!(matches!(error, Error::Token(_)), "{error}");
    let why = refusal(receiver.send(&file));
    assert!(why.contains("wants a token"), "{why}");
    assert!(send(receiver.address, &file, &token, VERIFICATION).unwrap().is_complete());
    let open = Receiver::start();
    let error = send(open.address, &file, &token, VERIFICATION).unwrap_err();
    assert!(matches!(error, Error::Token(_) | Error::BrokenOff), "{error}");
}

/// A frame built by hand from docs/format/transfer.md.
fn frame(kind: u8, head: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind, 0, 0, 0];
    frame.extend(u32::try_from(head.len()).unwrap().to_le_bytes());
    frame.extend([0; 4]);
    frame.extend(crc32c(head).to_le_bytes());
    frame.extend(crc32c(&frame).to_le_bytes());
    frame.extend(head);
    frame
}

/// A server's answer to a client that announces these entries.
fn answer_to(receiver: &Receiver, entries: &[Vec<u8>]) -> String {
    let mut socket = TcpStream::connect(receiver.address).unwrap();
    let mut hello = b"INDELTFR\x01\x00\x04\x01\x00\x03\x00".to_vec();
    hello.extend((1_u64 << 20).to_le_bytes());
    hello.extend([1, 0, 0]);
    socket.write_all(&frame(1, &hello)).unwrap();
    entries.iter().for_each(|entry| socket.write_all(&frame(3, entry)).unwrap());
    let count = u32::try_from(entries.len()).unwrap();
    socket.write_all(&frame(4, &count.to_le_bytes())).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn entry(path: &[u8], rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(path.len()).unwrap();
    [&length.to_le_bytes(), path, &0o644_u32.to_le_bytes(), &[0; 12], rest].concat()
}

#[test]
fn a_hostile_client_gets_nowhere() {
    let receiver = Receiver::start();
    let empty_file = [&[2][..], &[0; 16]].concat();
    for path in [
        &b"../escape"[..],
        b"/etc/cron.d/x",
        b"a/../../b",
        b"",
        b"a\0b",
        b".indelible-transfer/lock",
    ] {
        let answer = answer_to(&receiver, &[entry(path, &empty_file)]);
        assert!(answer.contains("path "), "{path:?}: {answer}");
    }
    let answer = answer_to(&receiver, &[entry(b"a", &empty_file), entry(b"a", &empty_file)]);
    assert!(answer.contains("comes twice"), "{answer}");
    let link = [&[3, 1, 0][..], b"/"].concat();
    assert!(answer_to(&receiver, &[entry(b"l", &link)]).contains("leads out"));
    let answer = answer_to(&receiver, &[entry(b"l", &[9])]);
    assert!(answer.contains("unknown kind of entry"), "{answer}");
    assert_eq!(fs::read_dir(receiver.dir.path()).unwrap().count(), 1, "only the staging directory");
}

#[test]
fn silent_clients_do_not_keep_others_out() {
    let token = Token::random().unwrap();
    let receiver = Receiver::start_with(Trust::Token(token.clone()), NO_LIMITS);
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut socket = TcpStream::connect(receiver.address).unwrap();
            // The first byte of a handshake whose rest never arrives.
            socket.write_all(&[0x16]).unwrap();
            socket
        })
        .collect();
    let dir = directory();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(
        send(receiver.address, &file, &Trust::Token(token), VERIFICATION).unwrap().is_complete()
    );
    drop(silent);
}

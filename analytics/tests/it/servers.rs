//! A dump that a server is asked for: this server has a script.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use analytics::{Error, Exported, Options, Source, export};

use crate::data::{dump, sample};
use crate::read_back::read_back;

const MARK: &str = "26eff17346e14f2095339fbc42f59ef52e541ae3";

/// Answers one client: each command with its line, the last one with bytes; then the connection ends.
fn serve(replies: Vec<(&'static str, Vec<u8>)>) -> (u16, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut requests = BufReader::new(stream);
        for (expected, reply) in replies {
            assert_eq!(request(&mut requests), expected);
            // A client that has seen enough goes away.
            if requests.get_mut().write_all(&reply).is_err() {
                break;
            }
        }
    });
    (port, server)
}

fn request(from: &mut BufReader<TcpStream>) -> String {
    let mut line = || {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let count: usize = line().strip_prefix('*').unwrap().parse().unwrap();
    let words = (0..count).map(|_| {
        line();
        line()
    });
    words.collect::<Vec<_>>().join(" ")
}

fn ask(
    address: &str,
    replies: Vec<(&'static str, Vec<u8>)>,
) -> (tempfile::TempDir, Result<Exported, Error>) {
    let (port, server) = serve(replies);
    let directory = tempfile::tempdir().unwrap();
    let source = Source::parse(&address.replace("PORT", &port.to_string()), None).unwrap();
    let exported = export(&source, &directory.path().join("out"), &Options::default(), |_| {});
    server.join().unwrap();
    (directory, exported)
}

/// What follows `REPLCONF capa eof`.
fn synced(bytes: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("REPLCONF capa eof", b"+OK\r\n".to_vec()),
        ("REPLCONF rdb-only 1", b"+OK\r\n".to_vec()),
        ("SYNC", bytes),
    ]
}

fn marked(behind: &str) -> Vec<u8> {
    [format!("$EOF:{MARK}\r\n").as_bytes(), &dump(&sample()), behind.as_bytes()].concat()
}

fn counted(bytes: usize, dump: &[u8]) -> Vec<u8> {
    [format!("$ {bytes}\r\n").replace(' ', "").as_bytes(), dump].concat()
}

#[test]
fn a_dump_between_marks_is_exported() {
    let (directory, exported) = ask("127.0.0.1:PORT", synced(marked(MARK)));
    assert_eq!(exported.unwrap().keys(), sample().len() as u64);
    assert_eq!(read_back(&directory.path().join("out")), sample());
}

#[test]
fn a_dump_of_known_length_is_exported_and_what_follows_ignored() {
    let dump = dump(&sample());
    let bytes =
        [b"\n\n".to_vec(), counted(dump.len(), &dump), b"*1\r\n$4\r\nPING\r\n".to_vec()].concat();
    let (directory, exported) = ask("redis://127.0.0.1:PORT", synced(bytes));
    exported.unwrap();
    assert_eq!(read_back(&directory.path().join("out")), sample());
}

#[test]
fn a_password_is_sent_first() {
    let mut replies = vec![("AUTH secret", b"+OK\r\n".to_vec())];
    replies.extend(synced(marked(MARK)));
    let (directory, exported) = ask("redis://:secret@127.0.0.1:PORT", replies);
    exported.unwrap();
    assert_eq!(read_back(&directory.path().join("out")), sample());
    let refused = b"-WRONGPASS invalid username-password pair\r\n".to_vec();
    let (_directory, exported) =
        ask("redis://me:secret@127.0.0.1:PORT", vec![("AUTH me secret", refused)]);
    let error = exported.unwrap_err().to_string();
    assert!(error.contains("answers AUTH with \"-WRONGPASS"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn an_older_server_knows_no_rdb_only() {
    let mut replies = synced(marked(MARK));
    for (_, reply) in &mut replies[..2] {
        *reply = b"-ERR Unrecognized REPLCONF option: rdb-only\r\n".to_vec();
    }
    let (directory, exported) = ask("127.0.0.1:PORT", replies);
    exported.unwrap();
    assert_eq!(read_back(&directory.path().join("out")), sample());
}

#[test]
fn a_dump_that_is_not_whole_leaves_nothing() {
    let dump = dump(&sample());
    let whole = marked(MARK);
    for (bytes, what) in [
        (whole[..whole.len() - 1].to_vec(), "cannot be read"),
        (whole[..whole.len() - 40].to_vec(), "cannot be read"),
        (whole[..whole.len() - 60].to_vec(), "cut short"),
        (whole[..48].to_vec(), "cut short"),
        (marked(&"0".repeat(40)), "another mark"),
        (counted(dump.len(), &dump[..dump.len() - 1]), "cut short"),
        (counted(dump.len() - 1, &dump), "cut short"),
        (counted(dump.len() + 1, &dump), "shorter than"),
        (b"-LOADING the data\r\n".to_vec(), "answers SYNC with \"-LOADING"),
        (b"+FULLRESYNC\r\n".to_vec(), "answers SYNC"),
        (Vec::new(), "cannot ask 127.0.0.1"),
    ] {
        let (directory, exported) = ask("127.0.0.1:PORT", synced(bytes));
        let error = exported.unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let source = Source::parse(&format!("127.0.0.1:{port}"), None).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let error = export(&source, &out, &Options::default(), |_| {}).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot ask 127.0.0.1:{port} for a dump: ")), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

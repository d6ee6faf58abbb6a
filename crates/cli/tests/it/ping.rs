//! `indelible ping`, as a health check asks it: what it says, and its exit code.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::Command;

use crate::process::{Program, free_port};

/// The exit code, and what was said.
fn ping(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    let output = command.arg("ping").args(arguments).output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// What `ping` says of a server that answers every connection with this.
fn ping_of_answer(answer: &'static str) -> (Option<i32>, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        scope.spawn(move || listener.accept().unwrap().0.write_all(answer.as_bytes()).unwrap());
        ping(&[&address])
    })
}

#[test]
fn a_server_that_serves_is_well() {
    let server = Program::indelible().start(&[]);
    let address = format!("127.0.0.1:{}", server.port);
    assert_eq!(ping(&[&address]), (Some(0), "PONG\n".to_owned()));
    assert_eq!(server.connect().words("CONFIG SET requirepass secret").text(), "OK");
    let (code, said) = ping(&[&address]);
    assert_eq!(code, Some(0), "it serves those that know the password: {said}");
    assert!(said.starts_with("NOAUTH"), "{said}");
}

#[test]
fn a_unix_socket_is_asked_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket").into_os_string().into_string().unwrap();
    let _server = Program::indelible().start(&["--unixsocket", &socket]);
    assert_eq!(ping(&[&socket]), (Some(0), "PONG\n".to_owned()));
    let missing = directory.path().join("missing").into_os_string().into_string().unwrap();
    let (code, said) = ping(&[&missing]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&missing), "{said}");
}

#[test]
fn a_server_that_is_not_there_or_does_not_answer_is_told_from_one_that_does_not_serve() {
    let (code, said) = ping(&[&format!("127.0.0.1:{}", free_port())]);
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = ping_of_answer("-LOADING Redis is loading the dataset in memory\r\n");
    assert_eq!(
        (code, said.as_str()),
        (Some(2), "LOADING Redis is loading the dataset in memory\n")
    );
    let (code, said) = ping_of_answer("-DENIED Redis is running in protected mode\r\n");
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = ping_of_answer("SSH-2.0-OpenSSH\r\n");
    assert_eq!(code, Some(1), "{said}");
    // The kernel connects what no one accepts.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (code, said) = ping(&[&address, "--timeout", "1"]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(ping(&[&address, "--timeout", "0"]).0, Some(1));
}

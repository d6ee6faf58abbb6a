//! A redis-server on a socket of its own, and as much of the protocol as a comparison needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running redis-server and a connection to it.
pub(crate) struct Redis {
    child: Child,
    stream: BufReader<UnixStream>,
    _directory: tempfile::TempDir,
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A status, an error with its code, a number, a string: its bytes.
    Text(Vec<u8>),
    /// Several of them.
    Many(Vec<Reply>),
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Many(replies) => replies.iter().map(Self::text).collect::<Vec<_>>().join(" "),
        }
    }

    pub(crate) fn elements(&self) -> &[Self] {
        match self {
            Self::Text(_) => &[],
            Self::Many(replies) => replies,
        }
    }
}

impl Redis {
    /// Starts one of this version, if it is installed: the one of the system, or one of `make test`.
    pub(crate) fn start(version: &str) -> Option<Self> {
        let peers = std::env::var_os("INDELIBLE_PEERS").map(PathBuf::from);
        let peers = peers
            .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"));
        let peer = peers.join(format!("redis-{version}/redis-server"));
        let program = if peer.exists() { peer } else { PathBuf::from("redis-server") };
        let said = Command::new(&program).arg("--version").output();
        let said = said.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
        if !said.as_ref().is_ok_and(|said| said.contains(&format!("v={version}."))) {
            testing::skipped(
                "redis-server",
                format!("version {version} is not installed: {said:?}"),
            );
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let child = Command::new(&program)
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .current_dir(&directory)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Some(Self { child, stream: BufReader::new(stream), _directory: directory })
    }

    /// Sends a call.
    pub(crate) fn send(&mut self, call: &[&[u8]]) {
        let mut request = format!("*{}\r\n", call.len()).into_bytes();
        for word in call {
            write!(request, "${}\r\n", word.len()).unwrap();
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).unwrap();
    }

    /// Reads a reply.
    pub(crate) fn receive(&mut self) -> Reply {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).unwrap();
        line.truncate(line.len() - 2);
        let rest = line.split_off(1);
        let len = || std::str::from_utf8(&rest).unwrap().parse::<i64>().unwrap();
        match line[0] {
            b'+' | b'-' | b':' => Reply::Text(rest),
            b'$' => {
                let mut text = vec![0; usize::try_from(len() + 2).unwrap_or(0)];
                self.stream.read_exact(&mut text).unwrap();
                text.truncate(text.len().saturating_sub(2));
                Reply::Text(text)
            }
            b'*' => Reply::Many((0..len()).map(|_| self.receive()).collect()),
            other => panic!("a reply of type {other}"),
        }
    }

    /// Sends a call and reads its reply.
    pub(crate) fn call(&mut self, call: &[&[u8]]) -> Reply {
        self.send(call);
        self.receive()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _already_waited_for = self.child.wait();
    }
}

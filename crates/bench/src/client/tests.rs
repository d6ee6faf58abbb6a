//! Clients against a server of a few lines that dies and forgets when it is told to.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::{Arguments, Distribution, Outcome, Task, WhenAway, measure};

/// A server of strings.
#[derive(Default)]
struct Server {
    keys: Mutex<HashMap<String, String>>,
    /// With so many requests more, the connection ends.
    left: AtomicUsize,
    /// So many requests are answered with LOADING then.
    loading: AtomicUsize,
    /// Whether writes are answered and not kept.
    forgets: AtomicBool,
}

impl Server {
    fn start(self: &Arc<Self>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Arc::clone(self);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, stream) = (Arc::clone(&server), stream.unwrap());
                // A client that goes away ends it.
                std::thread::spawn(move || server.serve(&stream));
            }
        });
        port
    }

    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        loop {
            let mut words = Vec::new();
            line.clear();
            reader.read_line(&mut line)?;
            let count = line.trim_start_matches('*').trim().parse().unwrap_or(0);
            for _ in 0..count {
                line.clear();
                reader.read_line(&mut line)?;
                let mut word = vec![0; line[1..].trim().parse::<usize>().unwrap() + 2];
                reader.read_exact(&mut word)?;
                words.push(String::from_utf8(word).unwrap().trim_end().to_owned());
            }
            if words.is_empty() {
                return Ok(());
            }
            if self.left.load(Ordering::SeqCst) == 1 {
                self.left.store(0, Ordering::SeqCst);
                return Ok(());
            }
            let _more = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                (left > 0).then(|| left - 1)
            });
            (&mut &*stream).write_all(self.answer(&words).as_bytes())?;
        }
    }

    fn answer(&self, words: &[String]) -> String {
        let loading = self.loading.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |loading| {
            (self.left.load(Ordering::SeqCst) == 0 && loading > 0).then(|| loading - 1)
        });
        if loading.is_ok() {
            return "-LOADING it is loading\r\n".to_owned();
        }
        let mut keys = self.keys.lock().unwrap();
        match words {
            [get, key] if get == "GET" => match keys.get(key) {
                Some(value) => format!("${}\r\n{value}\r\n", value.len()),
                None => "$-1\r\n".to_owned(),
            },
            [_, key, value] => {
                if !self.forgets.load(Ordering::SeqCst) {
                    keys.insert(key.clone(), value.clone());
                }
                "+OK\r\n".to_owned()
            }
            other => format!("-ERR {other:?}\r\n"),
        }
    }
}

fn run(task: Task, port: u16, ledger: Option<&Path>, seconds: f64) -> Outcome {
    let arguments = Arguments {
        task,
        port,
        keys: 100,
        first_key: 0,
        value_bytes: 50,
        fields: 0,
        distribution: Distribution::Uniform,
        reads: 0.5,
        seconds,
        settle: 0.0,
        connections: 1,
        pipeline: 4,
        rate: 0.0,
        when_away: WhenAway::Wait,
        ledger: ledger.map(Path::to_owned),
        steps: None,
        samples: None,
        seed: 1,
    };
    measure(&arguments).unwrap()
}

#[test]
fn a_server_that_keeps_what_it_answers_passes_its_death() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger");
    let server = Arc::new(Server::default());
    let port = server.start();
    assert_eq!(run(Task::Fill, port, Some(&ledger), 0.0).writes.count, 100);
    server.left.store(300, Ordering::SeqCst);
    server.loading.store(5, Ordering::SeqCst);
    let outcome = run(Task::Run, port, Some(&ledger), 0.5);
    let troubles = &outcome.troubles;
    assert_eq!((outcome.breaks, troubles.stale, troubles.wrong), (1, 0, 0), "{troubles:?}");
    assert!(troubles.errors.is_empty() && troubles.broken > 0, "{troubles:?}");
    assert_eq!(server.loading.load(Ordering::SeqCst), 0);
    let checked = run(Task::Check, port, Some(&ledger), 0.0).comparison.unwrap();
    assert_eq!((checked.keys, checked.writes_lost, checked.wrong), (100, 0, 0));
}

#[test]
fn what_is_answered_and_not_kept_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger");
    let server = Arc::new(Server::default());
    let port = server.start();
    run(Task::Fill, port, Some(&ledger), 0.0);
    server.forgets.store(true, Ordering::SeqCst);
    let outcome = run(Task::Run, port, Some(&ledger), 0.2);
    assert!(outcome.troubles.stale > 0, "{:?}", outcome.troubles);
    let checked = run(Task::Check, port, Some(&ledger), 0.0).comparison.unwrap();
    assert_eq!(checked.writes_lost, outcome.writes.count);
    assert!(checked.keys_behind > 0 && checked.wrong == 0, "{checked:?}");
    // It has been told: what is there now is what must stay.
    let again = run(Task::Check, port, Some(&ledger), 0.0).comparison.unwrap();
    assert_eq!((again.keys, again.writes_lost), (100, 0));
}

#[test]
fn a_value_of_another_key_is_wrong() {
    let server = Arc::new(Server::default());
    let port = server.start();
    run(Task::Fill, port, None, 0.0);
    let mut keys = server.keys.lock().unwrap();
    let other = keys["key:000000000001"].clone();
    keys.insert("key:000000000000".to_owned(), other);
    keys.remove("key:000000000002");
    drop(keys);
    let troubles = run(Task::Check, port, None, 0.0).troubles;
    assert_eq!((troubles.wrong, troubles.missing), (1, 1));
}

//! Clients against a server of a few lines that dies and forgets when it is told to.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Arguments, Load, Outcome, Task, WhenAway, Workload, measure};

/// How long a server stalls.
const STALL: Duration = Duration::from_millis(250);

/// A server of strings, and of one sorted set.
#[derive(Default)]
struct Server {
    keys: Mutex<HashMap<String, String>>,
    /// Scores and members.
    index: Mutex<BTreeSet<(i64, String)>>,
    /// Before it answers the request of this number, from 1 on, it sleeps for [`STALL`].
    stalls_in: AtomicUsize,
    /// Whether it sleeps for good.
    hangs: AtomicBool,
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
        let left = self
            .stalls_in
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left == Ok(1) {
            std::thread::sleep(STALL);
            while self.hangs.load(Ordering::SeqCst) {
                std::thread::park();
            }
        }
        let mut keys = self.keys.lock().unwrap();
        let mut index = self.index.lock().unwrap();
        match words {
            [zadd, _, score, name] if zadd == "ZADD" => {
                format!(":{}\r\n", u8::from(index.insert((score.parse().unwrap(), name.clone()))))
            }
            [zrem, _, name] if zrem == "ZREM" => {
                let before = index.len();
                index.retain(|(_, other)| other != name);
                format!(":{}\r\n", before - index.len())
            }
            [scan, _, from, _, _, _, count] if scan == "ZRANGEBYSCORE" => {
                let from = (from.parse().unwrap(), String::new());
                let names: Vec<&String> =
                    index.range(from..).take(count.parse().unwrap()).map(|it| &it.1).collect();
                let bulk = |name: &&String| format!("${}\r\n{name}\r\n", name.len());
                format!("*{}\r\n{}", names.len(), names.iter().map(bulk).collect::<String>())
            }
            [del, key] if del == "DEL" => {
                format!(":{}\r\n", u8::from(keys.remove(key).is_some()))
            }
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
    let load = Load {
        keys: 100,
        value_bytes: Some(50),
        reads: 0.5,
        seconds,
        connections: 1,
        pipeline: 4,
        seed: 1,
        ..Load::default()
    };
    measured(task, port, ledger, load)
}

fn measured(task: Task, port: u16, ledger: Option<&Path>, load: Load) -> Outcome {
    measure(&arguments(task, port, ledger, load), "test").unwrap()
}

fn arguments(task: Task, port: u16, ledger: Option<&Path>, load: Load) -> Arguments {
    Arguments {
        task,
        port,
        host: "127.0.0.1".to_owned(),
        first_key: 0,
        load,
        when_away: WhenAway::Wait,
        ledger: ledger.map(Path::to_owned),
        steps: None,
        samples: None,
    }
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

fn of_workload(workload: Workload) -> Load {
    Load {
        keys: 100,
        workload: Some(workload),
        fields: Some(0),
        value_bytes: Some(50),
        seconds: 0.3,
        connections: 3,
        pipeline: 2,
        seed: 1,
        ..Load::default()
    }
}

#[test]
fn workloads_find_what_they_have_inserted() {
    let server = Arc::new(Server::default());
    let port = server.start();
    for workload in [Workload::D, Workload::E, Workload::F] {
        let load = of_workload(workload);
        let filled = measured(Task::Fill, port, None, load.clone());
        assert_eq!((filled.writes.count, filled.requests), (100, 200), "{filled:?}");
        let outcome = measured(Task::Run, port, None, load.clone());
        assert_eq!(outcome.troubles.sum(), 0, "{outcome:?}");
        let count = |kind: &Option<super::Latencies>| kind.as_ref().map_or(0, |it| it.count);
        let counts = [
            outcome.reads.count,
            count(&outcome.inserts),
            count(&outcome.scans),
            count(&outcome.read_modify_writes),
        ];
        let is_used = match workload {
            Workload::D => [true, true, false, false],
            Workload::E => [false, true, true, false],
            _ => [true, false, false, true],
        };
        assert_eq!(counts.map(|count| count > 0), is_used, "{workload:?}: {outcome:?}");
        assert_eq!(counts.iter().sum::<u64>(), outcome.all.count);
        // Each but a read has two requests or more; some replies came too late to be counted.
        assert!(outcome.requests + 10 > outcome.all.count, "{outcome:?}");
        let inserted = usize::try_from(outcome.inserted).unwrap();
        assert_eq!(server.keys.lock().unwrap().len(), 100 + inserted);
        assert_eq!(server.index.lock().unwrap().len(), 100 + inserted);
        if inserted > 0 {
            let mut arguments = arguments(Task::Remove, port, None, load);
            (arguments.first_key, arguments.load.keys) = (100, outcome.inserted);
            assert_eq!(measure(&arguments, "test").unwrap().troubles.sum(), 0);
        }
        assert_eq!(server.keys.lock().unwrap().len(), 100);
        assert_eq!(server.index.lock().unwrap().len(), 100);
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error_unless_it_is_waited_for() {
    // Nothing listens on the port of a socket that does not listen itself.
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    drop(socket);
    let load = of_workload(Workload::C);
    for when_away in [WhenAway::Fail, WhenAway::Stop] {
        let arguments = Arguments { when_away, ..arguments(Task::Run, port, None, load.clone()) };
        let error = measure(&arguments, "test").unwrap_err().to_string();
        assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    }
    let waited = measured(Task::Run, port, None, Load { seconds: 0.1, ..load });
    assert_eq!(waited.all.count, 0);
}

#[test]
fn what_has_no_answer_at_the_end_is_told() {
    let server = Arc::new(Server::default());
    let port = server.start();
    let load = Load { rate: 1000.0, connections: 1, pipeline: 1, ..of_workload(Workload::C) };
    measured(Task::Fill, port, None, Load { rate: 0.0, ..load.clone() });
    server.hangs.store(true, Ordering::SeqCst);
    server.stalls_in.store(20, Ordering::SeqCst);
    let outcome = measured(Task::Run, port, None, load);
    // 300 were due; the first one asks whether the server is there.
    let (unanswered, answered) = (outcome.troubles.unanswered, outcome.all.count);
    assert!(unanswered > 200 && answered < 20, "{unanswered} and {answered}");
}

#[test]
fn a_stall_is_seen_by_all_that_were_due_in_it() {
    let server = Arc::new(Server::default());
    let port = server.start();
    let load = Load { rate: 1000.0, seconds: 1.0, ..of_workload(Workload::C) };
    measured(Task::Fill, port, None, load.clone());
    let closed = Load { rate: 0.0, corrected: true, ..load.clone() };
    // One connection, one at a time: the server is asked for nothing meanwhile.
    let [open, closed] = [load, closed].map(|load| Load { connections: 1, pipeline: 1, ..load });
    // The first one asks whether the server is there.
    server.stalls_in.store(2, Ordering::SeqCst);
    let open = measured(Task::Run, port, None, open);
    // Of the requests of a second, one each millisecond, 250 were due in the stall, so an eighth waited for 90 ms and
    // more; of fewer, as long as the server was looked for, no less.
    let waited = open.quantiles_us.iter().find(|(quantile, _)| *quantile >= 0.875);
    assert!(open.troubles.sum() == 0 && waited.unwrap().1 >= 90_000.0, "{open:?}");
    server.stalls_in.store(2, Ordering::SeqCst);
    let closed = measured(Task::Run, port, None, closed);
    let corrected = closed.corrected.unwrap();
    assert!(closed.all.max_us >= 250_000.0);
    // The stall took a quarter of the run: about as many are added as would have been asked for in it.
    assert!(
        corrected.latencies.count > closed.all.count * 11 / 10,
        "{:?} {corrected:?}",
        closed.all
    );
    assert_eq!(corrected.latencies.max_us, closed.all.max_us);
}

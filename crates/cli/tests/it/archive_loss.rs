//! What is lost when a server is killed under load and its data directory is removed: nothing that INFO had called archived, at most
//! the interval and a second of what was answered, and never the order.

use std::array::from_fn;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

use crate::archive::{OPTIONS, info, place, restore, start};
use crate::damage::said;
use crate::kill::soak_time;
use crate::process::{Program, Server, wait_until};
use crate::rdb_files::fill;
use crate::store::Store;
use crate::transfer::Receiver;
use crate::wire::Connection;
use crate::{archive_s3, archive_transfer};

const CLIENTS: usize = 3;

/// What may be lost of what was answered: the interval, and a second.
const INTERVAL_MS: u64 = 1000;
const PROMISE: Duration = Duration::from_millis(INTERVAL_MS + 1000);

/// A place for an archive.
struct Target<'a> {
    /// Starts a server that writes it.
    start: &'a dyn Fn() -> Server,
    /// Restores its newest state.
    restore: &'a dyn Fn(&Path) -> Output,
}

fn list_of(client: usize) -> String {
    format!("order:{client}")
}

/// Appends 1, 2, 3 … to the list of a client until told to stop or the server is gone. Returns when each was answered.
fn count_up(port: u16, client: usize, stop: &AtomicBool) -> Vec<Instant> {
    let mut connection = Connection::open(port).unwrap();
    let (list, filler, mut answered) = (list_of(client), "v".repeat(200), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let number = (answered.len() + 1).to_string();
        let key = format!("key:{}", answered.len() % 50);
        let is_answered = connection.call(&["SET", &key, &filler]).is_ok()
            && connection.call(&["RPUSH", &list, &number]).is_ok();
        if !is_answered {
            break;
        }
        answered.push(Instant::now());
    }
    answered
}

/// What a server has said of itself.
#[derive(Default)]
struct Watched {
    /// The lists had so many numbers at least by the time at which this block was durable.
    lengths: Vec<(u64, [u64; CLIENTS])>,
    /// The last block that it has called archived.
    archived: u64,
}

impl Watched {
    fn look(&mut self, connection: &mut Connection) {
        // What a reply shows is durable when it comes.
        let lengths = from_fn(|client| {
            connection.call(&["LLEN", &list_of(client)]).unwrap().text().parse().unwrap()
        });
        let text = connection.words("INFO everything").text();
        let number = |field: &str| -> u64 {
            let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            value.unwrap().trim().parse().unwrap()
        };
        self.lengths.push((number("redo_durable_lsn"), lengths));
        self.archived = number("archive_lsn");
    }

    /// How long the lists were at least in what was archived.
    fn archived_lengths(&self) -> [u64; CLIENTS] {
        let archived = self.lengths.iter().filter(|(durable, _)| *durable <= self.archived);
        archived.map(|(_, lengths)| *lengths).max().unwrap_or_default()
    }
}

/// Kills a server under load, removes its data, and looks at what comes back from its archive. Returns how many answered numbers were lost;
/// with `is_timed` none that was answered before the last [`PROMISE`].
fn lose(target: &Target<'_>, load: Duration, is_timed: bool) -> u64 {
    let mut server = (target.start)();
    let mut connection = server.connect();
    fill(&mut connection);
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    let (stop, port, mut watched) = (AtomicBool::new(false), server.port, Watched::default());
    let (answered, killed) = scope(|scope| {
        let stop = &stop;
        let clients: [_; CLIENTS] =
            from_fn(|client| scope.spawn(move || count_up(port, client, stop)));
        let begun = Instant::now();
        while begun.elapsed() < load || watched.archived_lengths().iter().sum::<u64>() == 0 {
            watched.look(&mut connection);
        }
        let killed = Instant::now();
        server.kill();
        fs::remove_dir_all(server.directory()).unwrap();
        stop.store(true, Ordering::Relaxed);
        (clients.map(|client| client.join().unwrap()), killed)
    });
    let place = tempfile::tempdir().unwrap();
    let into = place.path().join("into");
    let output = (target.restore)(&into);
    assert!(output.status.success(), "{}", said(&output));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["lsn"].as_u64() >= Some(watched.archived), "{} of {told}", watched.archived);
    let restored = Program::indelible().start_on(&into, &OPTIONS);
    let (mut connection, mut lost) = (restored.connect(), 0);
    for (client, answered) in answered.iter().enumerate() {
        let reply = connection.call(&["LRANGE", &list_of(client), "0", "-1"]).unwrap();
        let list = reply.elements();
        for (reply, expected) in list.iter().zip(1_u64..) {
            assert_eq!(reply.text(), expected.to_string(), "in the order in which it was written");
        }
        let counted = list.len() as u64;
        let archived = watched.archived_lengths()[client];
        assert!(counted >= archived, "{counted} of {archived} that were called archived");
        // One may have been executed and not answered.
        assert!(counted <= answered.len() as u64 + 1, "{counted} of {}", answered.len());
        let is_old = |at: &&Instant| killed.saturating_duration_since(**at) > PROMISE;
        let old = answered.iter().filter(is_old).count() as u64;
        assert!(!is_timed || counted >= old, "{counted} of {old} that were answered long before");
        lost += (answered.len() as u64).saturating_sub(counted);
    }
    lost
}

/// Loses a server of each kind of place.
fn lose_of_each(load: Duration, interval_ms: u64, is_timed: bool) {
    let options = ["--archive-interval-ms".to_owned(), interval_ms.to_string()];
    let options = options.each_ref().map(String::as_str);
    let newest = ["--latest", "--json"];
    let told = |what: &str, target: &Target<'_>| {
        let lost = lose(target, load, is_timed);
        println!("{what}: {lost} answered writes were lost");
    };
    let lose_at = |what: &str, url: &str| {
        let target = Target {
            start: &|| start(url, &options),
            restore: &|into| restore(url, into, &newest),
        };
        told(what, &target);
    };
    let (_place, url) = place();
    lose_at("a directory", &url);
    let there = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(there.path(), &["--device-cache", "64K"]);
    lose_at("another machine", &archive_transfer::url(&receiver));
    let store = Store::start();
    let target = Target {
        start: &|| archive_s3::start(store.address, &options),
        restore: &|into| archive_s3::restore(&store, into, &newest),
    };
    told("a bucket", &target);
}

#[test]
fn what_info_calls_archived_comes_back_in_order_from_everywhere() {
    lose_of_each(Duration::from_secs(1), 50, false);
}

#[test]
#[ignore = "a soak, by the clock: no more is lost than the interval and a second"]
fn no_more_is_lost_than_the_interval_and_a_second() {
    let started = Instant::now();
    while started.elapsed() < soak_time() {
        lose_of_each(3 * PROMISE, INTERVAL_MS, true);
    }
}

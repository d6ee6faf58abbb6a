//! Sessions: files are put once, read, listed and removed; and when one counts as read back from the medium.

use std::fs;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use transfer::{
    Error, Limits, RelativePath, Server, Service, Sessions, Stand, Store, Trust, Verification,
};

use crate::ends::{NO_LIMITS, directory, random_bytes};
use crate::wire::{Trouble, pass, wire};

/// What the device's cache is said to hold.
const CACHE_BYTES: u64 = 64 << 10;

struct Keeper {
    dir: TempDir,
    address: SocketAddr,
}

impl Keeper {
    fn start(limits: Limits) -> Self {
        Self::start_with(limits, Sessions::All)
    }

    fn start_with(limits: Limits, sessions: Sessions) -> Self {
        let dir = directory();
        let service = Service {
            dir: dir.path().to_owned(),
            trust: Trust::Loopback,
            limits,
            memory_bytes: 1 << 20,
            device_cache_bytes: CACHE_BYTES,
            sessions,
        };
        let server = Server::bind("127.0.0.1:0", service).unwrap();
        let address = server.address().unwrap();
        thread::spawn(move || server.run(&|_line| {}));
        Self { dir, address }
    }

    fn store(&self) -> Store {
        store(self.address)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("shop").join(name)
    }
}

fn store(address: SocketAddr) -> Store {
    let remote = format!("{address}/shop").parse().unwrap();
    Store::new(remote, Trust::Loopback, Verification::default())
}

fn path(text: &str) -> RelativePath {
    RelativePath::new(text).unwrap()
}

fn stand(put: u64, verified: u64, damaged: &[&str]) -> Stand {
    Stand { put, verified, damaged: damaged.iter().map(|name| path(name)).collect() }
}

/// A wire that can be cut as often as is wanted, and mends itself.
struct Wire {
    address: SocketAddr,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&sockets);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(server).unwrap();
                let copies = [client.try_clone().unwrap(), server.try_clone().unwrap()];
                all.lock().unwrap().extend(copies);
                let (to_client, from_server) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass(from_server, to_client, None));
                thread::spawn(move || pass(client, server, None));
            }
        });
        Self { address, sockets }
    }

    fn cut(&self) {
        for socket in self.sockets.lock().unwrap().drain(..) {
            let _gone = socket.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn a_file_is_put_once_and_is_read_listed_and_removed() {
    let keeper = Keeper::start(NO_LIMITS);
    let store = keeper.store();
    let (first, other) = (random_bytes(1, 3_000_000), random_bytes(2, 5000));
    assert_eq!(store.names(None, true).unwrap(), None, "nothing is there yet");
    assert!(store.put_new(&path("a/one"), &first).unwrap());
    assert!(!store.put_new(&path("a/one"), &other).unwrap(), "it is there");
    assert!(keeper.store().put_new(&path("a/empty"), b"").unwrap());
    assert!(fs::read(keeper.file("a/one")).unwrap() == first);
    assert_eq!(store.open(&path("a/one")).unwrap(), Some(3_000_000));
    assert_eq!(store.open(&path("a/two")).unwrap(), None);
    let mut part = vec![0; 2_500_001];
    store.read(&path("a/one"), 7, &mut part).unwrap();
    assert!(part == first[7..2_500_008]);
    assert!(store.read(&path("a/one"), 2_999_999, &mut part).is_err(), "it ends before");
    assert!(store.read(&path("a/two"), 0, &mut part[..1]).is_err());
    assert_eq!(store.names(None, true).unwrap(), Some(vec![b"a".to_vec()]));
    assert_eq!(store.names(None, false).unwrap(), Some(vec![]));
    let mut names = store.names(Some(&path("a")), false).unwrap().unwrap();
    names.sort_unstable();
    assert_eq!(names, [b"empty".to_vec(), b"one".to_vec()]);
    store.remove(&path("a/one")).unwrap();
    store.remove(&path("a/one")).unwrap();
    assert!(!keeper.file("a/one").exists());
    assert!(store.put_new(&path("a/one"), &other).unwrap());
}

#[test]
fn what_was_put_is_verified_when_as_much_as_the_cache_holds_has_come_behind_it() {
    let keeper = Keeper::start(NO_LIMITS);
    let store = keeper.store();
    store.put_new(&path("first"), &random_bytes(1, 10_000)).unwrap();
    assert_eq!(store.stand().unwrap(), stand(1, 0, &[]), "nothing has come behind it");
    store.put_new(&path("second"), &random_bytes(2, 60_000)).unwrap();
    assert_eq!(store.stand().unwrap(), stand(2, 0, &[]));
    store.put_new(&path("third"), &random_bytes(3, 10_000)).unwrap();
    assert_eq!(store.stand().unwrap(), stand(3, 1, &[]));
    store.put_new(&path("fourth"), &random_bytes(4, 200_000)).unwrap();
    assert_eq!(store.stand().unwrap(), stand(4, 3, &[]));
}

#[test]
fn what_is_read_back_as_something_else_is_told_of_once_and_what_was_removed_is_not() {
    let keeper = Keeper::start(NO_LIMITS);
    let store = keeper.store();
    for name in ["good", "bad", "shorter", "gone"] {
        store.put_new(&path(name), &random_bytes(1, 10_000)).unwrap();
    }
    let mut bytes = random_bytes(1, 10_000);
    fs::write(keeper.file("shorter"), &bytes[..9000]).unwrap();
    bytes[9999] ^= 1;
    fs::write(keeper.file("bad"), bytes).unwrap();
    store.remove(&path("gone")).unwrap();
    store.put_new(&path("more"), &random_bytes(2, 70_000)).unwrap();
    assert_eq!(store.stand().unwrap(), stand(5, 4, &["bad", "shorter"]));
    assert_eq!(store.stand().unwrap(), stand(5, 4, &[]));
}

/// So many that not each of them is told.
#[test]
fn behind_damage_that_is_not_told_nothing_is_said_to_be_verified() {
    let keeper = Keeper::start(NO_LIMITS);
    let store = keeper.store();
    for number in 0..103 {
        store.put_new(&path(&format!("file-{number}")), &random_bytes(1, 100)).unwrap();
    }
    for number in 0..103 {
        fs::remove_file(keeper.file(&format!("file-{number}"))).unwrap();
    }
    store.put_new(&path("good"), &random_bytes(2, 10_000)).unwrap();
    store.put_new(&path("more"), &random_bytes(3, 70_000)).unwrap();
    let told = store.stand().unwrap();
    assert_eq!((told.put, told.damaged.len(), told.verified), (105, 100, 100));
}

/// A power cut of a machine whose device lied, or `rm`.
#[test]
fn what_is_gone_and_was_not_removed_by_a_request_is_damaged() {
    let keeper = Keeper::start(NO_LIMITS);
    let (store, other) = (keeper.store(), keeper.store());
    for name in ["gone", "removed", "exchanged"] {
        store.put_new(&path(name), &random_bytes(1, 10_000)).unwrap();
    }
    fs::remove_file(keeper.file("gone")).unwrap();
    other.remove(&path("removed")).unwrap();
    other.remove(&path("exchanged")).unwrap();
    assert!(other.put_new(&path("exchanged"), &random_bytes(2, 9000)).unwrap());
    store.put_new(&path("more"), &random_bytes(3, 70_000)).unwrap();
    assert_eq!(store.stand().unwrap(), stand(4, 3, &["gone"]));
    assert_eq!(other.stand().unwrap(), stand(1, 0, &[]));
}

/// What holds archives may let nothing be removed, with the token, too.
#[test]
fn a_server_that_only_appends_lets_nothing_be_removed_or_replaced() {
    let keeper = Keeper::start_with(NO_LIMITS, Sessions::Append);
    let store = keeper.store();
    assert!(store.put_new(&path("file"), b"bytes").unwrap());
    let error = store.remove(&path("file")).unwrap_err();
    assert!(
        matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied),
        "{error:?}"
    );
    assert_eq!(store.open(&path("file")).unwrap(), Some(5), "the session goes on");
    let other = directory();
    let file = other.path().join("file");
    fs::write(&file, "other").unwrap();
    let sent =
        crate::ends::send(keeper.address, &file, &Trust::Loopback, crate::ends::VERIFICATION);
    assert!(matches!(&sent, Err(Error::Refused(why)) if why.contains("--sessions append")));
    let none = Keeper::start_with(NO_LIMITS, Sessions::No);
    let error = none.store().put_new(&path("file"), b"bytes").unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("--sessions")), "{error}");
    assert!(!none.file("file").exists());
}

#[test]
fn what_was_put_before_a_connection_was_lost_is_read_back_in_the_next_session() {
    let keeper = Keeper::start(NO_LIMITS);
    let wire = Wire::to(keeper.address);
    let store = store(wire.address);
    for name in ["good", "bad", "empty"] {
        let length = if name == "empty" { 0 } else { 30_000 };
        store.put_new(&path(name), &random_bytes(1, length)).unwrap();
    }
    assert_eq!(store.stand().unwrap(), stand(3, 0, &[]));
    wire.cut();
    let mut bytes = random_bytes(1, 30_000);
    bytes[0] ^= 1;
    fs::write(keeper.file("bad"), bytes).unwrap();
    assert_eq!(store.stand().unwrap(), stand(3, 0, &[]), "nothing has come behind it");
    store.put_new(&path("more"), &random_bytes(2, 70_000)).unwrap();
    // There is nothing to read back of the empty one.
    assert_eq!(store.stand().unwrap(), stand(4, 3, &["bad"]));
    store.put_new(&path("last"), &random_bytes(3, 70_000)).unwrap();
    assert_eq!(store.stand().unwrap(), stand(5, 4, &[]));
}

/// More than are expected before an answer is waited for, of which some were removed.
#[test]
fn many_files_are_expected_by_the_next_session() {
    let keeper = Keeper::start(NO_LIMITS);
    let wire = Wire::to(keeper.address);
    let store = store(wire.address);
    let name = |number: u64| path(&format!("file-{number}"));
    for number in 1..=300 {
        store.put_new(&name(number), &random_bytes(number, 100)).unwrap();
    }
    (1..=20).for_each(|number| store.remove(&name(number)).unwrap());
    wire.cut();
    fs::write(keeper.file("file-299"), random_bytes(7, 100)).unwrap();
    store.put_new(&path("more"), &random_bytes(1, 70_000)).unwrap();
    assert_eq!(store.stand().unwrap(), stand(301, 300, &["file-299"]));
}

/// The answer to an attempt was lost: the next one finds the file, and has it read back all the same.
#[test]
fn what_another_session_has_put_is_read_back_for_the_one_that_puts_it_again() {
    let keeper = Keeper::start(NO_LIMITS);
    let bytes = random_bytes(1, 30_000);
    assert!(keeper.store().put_new(&path("file"), &bytes).unwrap());
    let store = keeper.store();
    assert!(!store.put_new(&path("file"), &bytes).unwrap());
    assert_eq!(store.stand().unwrap(), stand(1, 0, &[]));
    store.put_new(&path("more"), &random_bytes(2, 70_000)).unwrap();
    assert_eq!(store.stand().unwrap(), stand(2, 1, &[]));
}

#[test]
fn what_there_is_no_room_for_is_refused_and_the_session_goes_on() {
    let keeper = Keeper::start(Limits { size_max_bytes: Some(100_000), keep_free_bytes: 0 });
    let store = keeper.store();
    let error = store.put_new(&path("long"), &random_bytes(1, 2_000_000)).unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("--max-size")), "{error}");
    assert!(!keeper.file("long").exists());
    assert!(store.put_new(&path("short"), &random_bytes(1, 100_000)).unwrap());
    let full = Keeper::start(Limits { size_max_bytes: None, keep_free_bytes: u64::MAX });
    assert!(full.store().put_new(&path("file"), b"bytes").is_err());
    assert!(!full.file("file").exists());
}

/// Links that lead out of the directory are not followed.
#[test]
fn nothing_outside_is_read_written_or_removed() {
    let (keeper, outside) = (Keeper::start(NO_LIMITS), directory());
    let store = keeper.store();
    fs::create_dir(keeper.dir.path().join("shop")).unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.path(), keeper.file("way")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), keeper.file("link")).unwrap();
    assert!(store.put_new(&path("way/new"), b"bytes").is_err());
    assert!(!store.put_new(&path("link"), b"bytes").unwrap(), "the name is taken");
    for name in ["way/secret", "link"] {
        assert!(store.open(&path(name)).is_err(), "{name}");
        assert!(store.read(&path(name), 0, &mut [0; 6]).is_err(), "{name}");
    }
    assert!(store.names(Some(&path("way")), false).is_err());
    assert!(store.remove(&path("way/secret")).is_err());
    assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_flipped_bit_on_the_way_never_arrives_and_half_a_file_never_appears() {
    let bytes = random_bytes(1, 20_000);
    let keeper = Keeper::start(NO_LIMITS);
    let (mut put, mut failed) = (0, 0);
    for (number, at) in (0..20_600).step_by(397).enumerate() {
        for trouble in [Trouble::FlipAt(at), Trouble::CutAt(at)] {
            let name = format!("{number}-{trouble:?}");
            let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
            let done = store(wire(keeper.address, trouble)).put_new(&path(&name), &bytes);
            let there = fs::read(keeper.file(&name));
            assert!(there.as_ref().map_or(true, |there| *there == bytes), "{trouble:?}");
            assert!(done.is_err() || there.is_ok(), "{trouble:?}");
            put += u64::from(done.is_ok());
            failed += u64::from(done.is_err());
        }
    }
    assert!(put > 0 && failed > 90, "{put} {failed}");
    let staged = keeper.dir.path().join(transfer::STAGING);
    // The server notices the last cut a little later.
    let begun = Instant::now();
    while fs::read_dir(&staged).unwrap().count() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(60), "what was cut off is left there");
        thread::sleep(Duration::from_millis(5));
    }
}

//! Disks that fail: what was acknowledged stays, what cannot be made durable is not acknowledged.
//!
//! The system calls of one thread of the log fail with EIO from a random moment on, under the load of the writers of
//! [`crate::kill`]. With one device the server becomes read-only and says why; with two it goes on with the
//! other one and says that too. A compactor that fails holds no client up. In the end the process is killed, the fault is gone, and everything is
//! compared with the ledgers. The calls: the sync of a segment, the write to it, and what makes the next
//! segment (its file, its name in the directory).

use crate::fault_injection::Fault;
use crate::kill::{Random, check_round, soak_time, verify_log, write_until, writers};
use crate::ledger::is_refusal;
use crate::process::{PATIENCE, Program, Server, wait_until};
use std::time::{Duration, Instant};

const OPTIONS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// The calls that fail, each in a server of its own.
const FAULTS: [&str; 4] = [
    "fdatasync,pwritev2:error=EIO",
    "pwrite64,pwritev2:error=EIO",
    "openat:error=EIO",
    "fsync:error=EIO",
];

#[test]
fn a_server_whose_only_disk_fails_is_read_only_and_keeps_what_it_has_acknowledged() {
    fail_only_disk(&mut Random::from_environment());
}

fn fail_only_disk(random: &mut Random) {
    if !Fault::is_possible() {
        return;
    }
    for fault in FAULTS {
        println!("{fault}");
        let mut server = Program::indelible().start(&OPTIONS);
        let mut writers = writers();
        let (enough, begins_at) = (Enough::new(), random.below(2000));
        let began = write_until(
            &mut server,
            &mut writers,
            true,
            true,
            |total, _| total > begins_at,
            |server| {
                let _fault = Fault::inject(server, "flusher-0", fault);
                enough.wait_for(|| health(server).contains("state=Poisoned"));
                is_read_only(server);
                server.kill();
            },
        );
        server.restart();
        check_round(&server, &mut writers, true, began);
        verify_log(&mut server);
    }
}

#[test]
fn a_server_with_two_disks_goes_on_when_one_fails() {
    fail_one_of_two_disks(&mut Random::from_environment());
}

fn fail_one_of_two_disks(random: &mut Random) {
    if !Fault::is_possible() {
        return;
    }
    for (round, fault) in FAULTS.into_iter().enumerate() {
        println!("{fault}");
        let directory = tempfile::tempdir().unwrap();
        let device = |name| directory.path().join(name).display().to_string();
        let devices = [device("a"), device("b")];
        let log_devices = ["--log-devices", &devices[0], &devices[1]];
        let mut server = Program::indelible().start(&[&OPTIONS[..], &log_devices].concat());
        let mut writers = writers();
        let (enough, begins_at) = (Enough::new(), random.below(2000));
        let failing = format!("flusher-{}", round % 2);
        let began = write_until(
            &mut server,
            &mut writers,
            true,
            true,
            |total, _| total > begins_at,
            |server| {
                let _fault = Fault::inject(server, &failing, fault);
                enough.wait_for(|| health(server).contains("state=Poisoned"));
                goes_on(server, &devices[round % 2]);
                server.kill();
            },
        );
        server.restart();
        assert!(!health(&server).contains("state=Poisoned"), "a start tries the disk again");
        check_round(&server, &mut writers, true, began);
        verify_log(&mut server);
    }
}

#[test]
#[ignore = "a soak: as many failing disks as there is time for"]
fn disks_fail_for_long() {
    let (started, mut random) = (Instant::now(), Random::from_environment());
    let time = soak_time();
    while started.elapsed() < time {
        fail_only_disk(&mut random);
        fail_one_of_two_disks(&mut random);
        fail_compactions(&mut random);
    }
}

#[test]
fn a_compaction_that_fails_costs_nothing() {
    fail_compactions(&mut Random::from_environment());
}

fn fail_compactions(random: &mut Random) {
    if !Fault::is_possible() {
        return;
    }
    for fault in FAULTS {
        println!("{fault}");
        let mut server = Program::indelible().start(&OPTIONS);
        let mut writers = writers();
        let (enough, begins_at) = (Enough::new(), random.below(4000));
        let began = write_until(
            &mut server,
            &mut writers,
            true,
            true,
            |total, _| total > begins_at,
            |server| {
                let _fault = Fault::inject(server, "compactor", fault);
                enough.wait_for(|| !health(server).contains("redo_compactions_failed:0"));
                assert_eq!(server.connect().words("SET after v").text(), "OK");
                server.kill();
            },
        );
        server.restart();
        check_round(&server, &mut writers, true, began);
        verify_log(&mut server);
    }
}

/// Waits for something, not for ever.
struct Enough(Instant);

impl Enough {
    fn new() -> Enough {
        Enough(Instant::now())
    }

    fn wait_for(&self, mut condition: impl FnMut() -> bool) {
        while !condition() {
            assert!(self.0.elapsed() < PATIENCE, "the condition did not come true");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What INFO says of the log.
fn health(server: &Server) -> String {
    server.connect().words("INFO redo").text()
}

/// Writes are refused with the reason, reads and the rest go on.
fn is_read_only(server: &Server) {
    let mut connection = server.connect();
    let refused = connection.words("SET k v");
    assert!(is_refusal(&refused) && refused.text().contains("Input/output error"), "{refused:?}");
    assert!(is_refusal(&connection.words("PING")), "health checks see it");
    wait_until(|| server.log().contains("has failed and takes nothing more until the next start"));
    assert_eq!(connection.words("GET nothing").text(), "");
    // What it counts may not be durable, and then it must not be shown.
    let order = connection.words("GET order");
    assert!(!order.is_error() || order.text().starts_with("MISCONF"), "{order:?}");
    assert!(health(server).contains("Input/output error"), "{}", health(server));
}

/// Everything is as always, but INFO names the failed device.
fn goes_on(server: &Server, failed: &str) {
    let mut connection = server.connect();
    for number in 0..50 {
        assert_eq!(connection.words(&format!("SET after:{number} v")).text(), "OK");
    }
    let info = health(server);
    let states: Vec<&str> = info.lines().filter(|line| line.starts_with("redo_device:")).collect();
    let is_failed = |line: &&&str| line.contains("state=Poisoned") && line.contains("Input/output");
    assert_eq!(states.len(), 2, "{info}");
    assert_eq!(states.iter().filter(is_failed).count(), 1, "{info}");
    assert!(states.iter().any(|line| line.contains("state=Healthy")), "{info}");
    assert!(states.iter().find(|line| line.contains(failed)).is_some_and(|line| is_failed(&line)));
}

//! `kill -9` at random moments under load: nothing acknowledged is lost, everything found is a prefix.
//!
//! Each test lives through [`ROUNDS`] crashes of one server. In every round three clients write single
//! commands at `always` and three write MULTI blocks at the server's `appendfsync` (`always` and `everysec`
//! in turn); the process is killed after a random count of acknowledgements, started again on the same
//! directory, and all that is there is compared with the ledgers ([`crate::ledger`]). At the end the log on
//! disk must verify.

use crate::ledger::{ORDER_KEY, Style, Writer};
use crate::process::{PATIENCE, Program, Server};
use crate::wire::Connection;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Crashes that a test lives through.
const ROUNDS: u64 = 20;

/// What `everysec` may lose: what was acknowledged within a second, and within another on a machine that is
/// busy. Behind a device that is late writers wait, however long that takes.
const EVERYSEC_LOSS_MAX: Duration = Duration::from_millis(2500);

#[test]
fn nothing_acknowledged_is_lost() {
    survive_kills(&[], false);
}

#[test]
fn nothing_acknowledged_is_lost_while_the_log_is_compacted() {
    survive_kills(&["--log-segment-bytes", "1mb"], true);
}

#[test]
fn nothing_acknowledged_is_lost_on_three_devices() {
    let devices = tempfile::tempdir().unwrap();
    let paths: Vec<String> =
        ["a", "b", "c"].map(|name| devices.path().join(name).display().to_string()).into();
    for path in &paths {
        std::fs::create_dir(path).unwrap();
    }
    survive_kills(&["--log-devices", &paths[0], &paths[1], &paths[2]], true);
}

/// How long an ignored test goes on: `INDELIBLE_SOAK_SECONDS`, else a minute.
pub(crate) fn soak_time() -> Duration {
    let seconds = std::env::var("INDELIBLE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(60))
}

/// A small deterministic source of random numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Seeded from `INDELIBLE_SEED`, else from a fixed number; prints the seed.
    pub(crate) fn from_environment() -> Random {
        let seed = std::env::var("INDELIBLE_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or(20_261_121);
        println!("INDELIBLE_SEED={seed}");
        Random(seed)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// As Redis, which hands a write to the kernel before it replies: its death alone loses nothing.
#[test]
fn a_kill_right_after_the_reply_loses_nothing_with_less_than_always_either() {
    for policy in ["everysec", "no"] {
        let options = ["--appendonly", "yes", "--appendfsync", policy];
        let mut server = Program::indelible().start(&options);
        for round in 0..10 {
            let mut connection = server.connect();
            assert_eq!(connection.words(&format!("SET key:{round} kept")).text(), "OK");
            server.kill();
            server.restart();
            let value = server.connect().words(&format!("GET key:{round}")).text();
            assert_eq!(value, "kept", "{policy}, round {round}");
        }
        verify_log(&mut server);
    }
}

fn survive_kills(options: &[&str], compacting: bool) {
    let mut random = Random::from_environment();
    let options = [&["--appendonly", "yes", "--appendfsync", "always"], options].concat();
    let mut server = Program::indelible().start(&options);
    let mut writers = writers();
    for round in 0..ROUNDS {
        let always = round % 2 == 0;
        // Two rounds are long enough for what everysec must have synced.
        let long = round % 10 == 9;
        let acknowledged_enough = random.below(3000);
        let enough = |total, elapsed| {
            if long { elapsed > Duration::from_secs(4) } else { total > acknowledged_enough }
        };
        let killed =
            write_until(&mut server, &mut writers, always, compacting, enough, Server::kill);
        server.restart();
        check_round(&server, &mut writers, always, killed);
    }
    verify_log(&mut server);
}

/// Three writers of single commands, and three of transactions.
pub(crate) fn writers() -> Vec<Writer> {
    let style = |number| if number < 3 { Style::Commands } else { Style::Transactions };
    (0..6).map(|number| Writer::new(style(number), number)).collect()
}

/// Lets all writers write, ends the server by `cut` when `enough` says so, and waits for the writers to
/// notice. When the cut began.
pub(crate) fn write_until(
    server: &mut Server,
    writers: &mut [Writer],
    always: bool,
    compacting: bool,
    enough: impl Fn(u64, Duration) -> bool,
    cut: impl FnOnce(&mut Server),
) -> Instant {
    let policy = if always { "always" } else { "everysec" };
    let mut control = server.connect();
    assert_eq!(control.words(&format!("CONFIG SET appendfsync {policy}")).text(), "OK");
    let (total, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for (number, writer) in (1..).zip(writers.iter_mut()) {
            let mut connection = server.connect();
            let total = &total;
            if writer.style() == Style::Commands && !always {
                assert_eq!(connection.words("CLIENT DURABILITY always").text(), "OK");
            }
            scope.spawn(move || writer.write(connection, number * number, total));
        }
        if compacting {
            let (connection, stop) = (server.connect(), &stop);
            scope.spawn(move || compact_again_and_again(connection, stop));
        }
        let ends = EndsWriters { server, stop: &stop };
        while !enough(total.load(Ordering::Relaxed), started.elapsed()) {
            let server = &mut *ends.server;
            assert!(server.is_running(), "the server ended by itself:\n{}", server.log());
            assert!(started.elapsed() < PATIENCE, "the writers do not get on");
            std::thread::sleep(Duration::from_millis(1));
        }
        let began = Instant::now();
        cut(ends.server);
        began
    })
}

/// Ends the threads that use the server, also when the one that looks after them panics.
struct EndsWriters<'a> {
    server: &'a mut Server,
    stop: &'a AtomicBool,
}

impl Drop for EndsWriters<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.server.begin_to_kill();
    }
}

/// Starts one compaction after the other until the connection breaks.
pub(crate) fn compact_again_and_again(mut connection: Connection, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) && connection.call(&["BGREWRITEAOF"]).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Compares what is there after a crash with what the writers were told before it.
pub(crate) fn check_round(server: &Server, writers: &mut [Writer], always: bool, killed: Instant) {
    let mut connection = server.connect();
    let order = connection.call(&["GET", ORDER_KEY]).unwrap().text();
    let order: u64 = if order.is_empty() { 0 } else { order.parse().unwrap() };
    let last = writers.iter().filter_map(Writer::last_acknowledgement).max();
    let end = last.map_or(killed, |last| last.min(killed));
    let mut transactions_there = 0;
    for (number, writer) in writers.iter_mut().enumerate() {
        let there = writer.check(&mut connection, always || number < 3, |_, when| {
            always || end.duration_since(when) > EVERYSEC_LOSS_MAX
        });
        if number >= 3 {
            transactions_there += there;
            let beyond = writer.kept_places().find(|&place| place > order);
            assert_eq!(beyond, None, "a transaction is there without those before it");
            let missing = writer.lost_places().find(|&place| place <= order);
            assert_eq!(missing, None, "a transaction is missing among those that are there");
        }
    }
    assert_eq!(transactions_there, order, "transactions there, and the count that they kept");
}

/// Stops the server in an orderly way and has the log on disk checked.
pub(crate) fn verify_log(server: &mut Server) {
    let _closes_without_a_reply = server.connect().call(&["SHUTDOWN"]);
    assert_eq!(server.wait_for_exit(), Some(0), "{}", server.log());
    if std::env::var_os("INDELIBLE_SERVER").is_some() {
        return;
    }
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["log", "verify"])
        .arg(server.directory())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "log verify: {said}");
}

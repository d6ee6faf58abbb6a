//! Power cuts on a real file system: what was acknowledged at `always` is there, what is there is a prefix.
//!
//! The same writers, ledgers and checks as in [`crate::kill`], but what was not synced is really gone
//! ([`crate::loop_device`]): a kill alone leaves the page cache, and with it whatever a forgotten sync would
//! have lost. Rounds cut in both ways in turn, at `always` and at `everysec`. With three disks the power
//! goes from one after the other, and in some rounds one of them has failed some milliseconds before, so that
//! the others have just taken over what it had.

use crate::fault_injection::Fault;
use crate::kill::{Random, check_round, soak_time, verify_log, write_until, writers};
use crate::loop_device::{LoopDisk, PowerSwitch, texts};
use crate::process::{Program, Server};
use std::time::{Duration, Instant};

/// Cuts that a test makes; many more while the time of a soak lasts.
const ROUNDS: u64 = 6;

/// Room for what the writers write, and for what the server sets aside: with less than two segments and two reserves beyond
/// its zeros it would prepare none.
const DISK_BYTES: u64 = 400 << 20;

#[test]
fn nothing_acknowledged_is_lost_when_the_power_fails() {
    survive_power_cuts(&mut Random::from_environment(), 1, &[]);
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_fails_while_the_log_is_compacted() {
    survive_power_cuts(&mut Random::from_environment(), 1, &["--log-segment-bytes", "1mb"]);
}

#[test]
fn nothing_acknowledged_is_lost_when_three_disks_fail_one_after_the_other() {
    survive_power_cuts(&mut Random::from_environment(), 3, &[]);
}

#[test]
#[ignore = "a soak: as many cuts as there is time for"]
fn nothing_acknowledged_is_lost_when_the_power_fails_for_long() {
    let started = Instant::now();
    let time = soak_time();
    let (mut random, mut count) = (Random::from_environment(), 0);
    while started.elapsed() < time {
        survive_power_cuts(&mut random, 1 + count % 3, &["--log-segment-bytes", "1mb"]);
        count += 1;
    }
    println!("{} power cuts", u64::try_from(count).unwrap() * ROUNDS);
}

fn survive_power_cuts(random: &mut Random, disk_count: usize, options: &[&str]) {
    let Some(mut disks) = LoopDisk::several(disk_count, DISK_BYTES) else { return };
    let mut all_options = vec!["--appendonly", "yes", "--appendfsync", "always"];
    let devices = texts(disks.iter().map(|disk| disk.path().join("log")));
    if disk_count > 1 {
        all_options.push("--log-devices");
        all_options.extend(devices.iter().map(String::as_str));
    }
    all_options.extend(options);
    let mut server = Program::indelible().start_on(&disks[0].data(), &all_options);
    let mut writers = writers();
    for round in 0..ROUNDS {
        let (always, by_copy) = (round % 2 == 0, round % 3 == 2);
        // The last round of the plain test is long enough for what everysec must have synced, and
        // nothing has it synced earlier: not by writing at always, and not by filling a segment.
        let long = round == ROUNDS - 1 && disk_count == 1 && options.is_empty();
        let active = if long { 5.. } else { 0.. };
        let acknowledged_enough = random.below(4000);
        // The first at once; what the kernel is doing on the others may come to its end, or not.
        let pauses: Vec<u64> =
            (0..disk_count).map(|nth| random.below(1 + 300 * nth as u64)).collect();
        let enough = |total, elapsed| {
            if long { elapsed > Duration::from_secs(4) } else { total > acknowledged_enough }
        };
        let compacting = !options.is_empty();
        let mut switches: Vec<PowerSwitch> = disks.iter().map(LoopDisk::switch).collect();
        switches.rotate_left(usize::try_from(random.below(disk_count as u64)).unwrap());
        let failing = (disk_count > 1 && round % 3 == 1).then(|| random.below(disk_count as u64));
        let cut = |server: &mut Server| {
            let _fault = failing.map(|disk| lose_disk(server, disk));
            server.begin_to_kill();
            for (switch, pause_us) in switches.into_iter().zip(pauses) {
                if !by_copy {
                    std::thread::sleep(Duration::from_micros(pause_us));
                    switch.off();
                }
            }
            server.kill();
        };
        let began = write_until(&mut server, &mut writers[active], always, compacting, enough, cut);
        for disk in &mut disks {
            if by_copy { disk.restore_copy() } else { disk.restore() }
        }
        server.restart();
        check_round(&server, &mut writers, always, began);
    }
    verify_log(&mut server);
}

/// Makes every sync of a disk fail, and lets the server go on without it for a moment. Nothing where
/// faults cannot be injected.
fn lose_disk(server: &Server, disk: u64) -> Option<Fault> {
    let fault = Fault::is_possible()
        .then(|| Fault::inject(server, &format!("flusher-{disk}"), "fdatasync,pwritev2:error=EIO"));
    std::thread::sleep(Duration::from_millis(50));
    fault
}

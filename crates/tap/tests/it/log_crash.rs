//! Power fails at every single I/O: what was synced survives, and what survives is a prefix of what
//! was written.

use std::path::Path;
use std::sync::Arc;

use env::Disk;
use env_sim::{Faults, SimDisk};
use tap::log::{self, Batch, Carried, Keep, Settings, Writer};
use tap::{Class, ConnectionNumber, Entry, Position, Result, Time};

const DIR: &str = "/log";
const CONNECTION: ConnectionNumber = ConnectionNumber(1);

/// What the log was asked for before the power failed.
#[derive(Default)]
struct Ledger {
    /// The last request passed to a write.
    written: u64,
    /// The last request covered by a sync.
    synced: u64,
}

fn payload(position: u64) -> Vec<u8> {
    let len = usize::try_from(position * 37 % 1500).unwrap();
    vec![u8::try_from(position % 251).unwrap(); len]
}

/// Writes batches of a few requests, a sync every third, a segment every 4 KiB, until the power
/// fails.
fn run(disk: &Arc<dyn Disk>, ledger: &mut Ledger) -> Result<()> {
    let settings =
        Settings { protocol: "raw".into(), keep: Keep { bytes_max: Some(20_000), age_max: None } };
    let mut writer = Writer::open(disk.clone(), Path::new(DIR), settings, Time(0))?;
    // What is readable now was read from the disk, and remains.
    ledger.written = writer.position().0;
    ledger.synced = ledger.written;
    let mut batch = Batch::after(writer.position());
    for round in 0..30 {
        for _ in 0..=round % 3 {
            let position = batch.position().0 + 1;
            batch.request(CONNECTION, Time(position), Class::Query, 7, 9, &payload(position));
        }
        ledger.written = batch.position().0;
        writer.write(&mut batch)?;
        batch.clear();
        if round % 3 == 2 {
            writer.sync()?;
            ledger.synced = writer.position().0;
        }
        if writer.segment_len_bytes() >= 4096 {
            let end = "127.0.0.1:7".parse().unwrap();
            let carried = Carried {
                connection: CONNECTION,
                opened: Time(0),
                client: end,
                server: end,
                requests: vec![b"carried".to_vec()],
            };
            writer.rotate(&[carried], CONNECTION, Time(0))?;
            ledger.synced = writer.position().0;
        }
    }
    writer.close()?;
    ledger.synced = ledger.written;
    Ok(())
}

/// Returns the position of the last readable request; each must be as written.
fn last_readable(disk: &Arc<dyn Disk>) -> u64 {
    let reader = match log::read(disk, Path::new(DIR), None) {
        Err(tap::Error::NoLog { .. }) => return 0,
        other => other.unwrap(),
    };
    let mut before = None;
    for entry in reader {
        let Entry::Request { position, payload: read, .. } = entry.unwrap() else { continue };
        if position == Position(0) {
            continue;
        }
        assert_eq!(read, payload(position.0), "request {}", position.0);
        assert!(before.is_none_or(|before| position.0 == before + 1), "a request is missing");
        before = Some(position.0);
    }
    before.unwrap_or(0)
}

#[test]
fn power_fails_at_every_io_of_a_log_and_of_the_one_that_continues_it() {
    let ios = {
        let sim = SimDisk::new(0, Faults::default());
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        run(&disk, &mut Ledger::default()).unwrap();
        sim.io_count()
    };
    assert!(ios > 40, "the run has something to crash in: {ios}");
    for seed in 0..6 {
        for first in 1..=ios {
            let sim = SimDisk::new(seed * 10_000 + first, Faults::default());
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let mut ledger = Ledger::default();
            // Once in the first life, and again at a varying place in the second.
            for crash in [first, 1 + (first * 7 + seed) % ios] {
                sim.crash_after(crash);
                let ended = run(&disk, &mut ledger);
                if sim.is_crashed() {
                    assert!(ended.is_err() || ledger.synced == ledger.written);
                }
                sim.restart();
                let last = last_readable(&disk);
                assert!(
                    (ledger.synced..=ledger.written).contains(&last),
                    "seed {seed}, I/O {first}: {} synced, {} written, {last} read",
                    ledger.synced,
                    ledger.written
                );
            }
            run(&disk, &mut ledger).unwrap();
            assert_eq!(last_readable(&disk), ledger.written);
        }
    }
}

//! What is kept of the past when a disk is full: history gives way, a backup goes when it is deleted, an archive waits.

use crate::archive::{OPTIONS as ARCHIVED, catch_up, info, number, restore, run};
use crate::damage::said;
use crate::full_disk::{Ledger, OPTIONS, VALUE_BYTES};
use crate::kill::verify_log;
use crate::loop_device::LoopDisk;
use crate::process::{Program, wait_until};
use crate::rdb_files::digest_of;

/// How much can be written on the disk, what is set aside for a full one apart.
const ROOM_BYTES: u64 = 24 << 20;

const DISK_BYTES: u64 = 96 << 20;

/// So many keys take more than half of that room.
const KEYS: usize = 800;

/// What was replaced is kept as long as there is room, and is no reason to refuse a write.
#[test]
fn history_gives_way_before_a_write_is_refused() {
    const FREE_BYTES: u64 = 19 << 20;
    let Some(disk) = LoopDisk::new(384 << 20) else { return };
    let room_bytes = 96 << 20;
    let history = ["--log-history-seconds", "3600", "--log-history-percentage", "1000"];
    let options = [&OPTIONS[..], &history].concat();
    let mut server = Program::indelible().start_on(&disk.data(), &options);
    disk.add_ballast(disk.available_bytes().saturating_sub(room_bytes));
    let (mut connection, mut ledger) = (server.connect(), Ledger::default());
    let mut kept = 0;
    for write in 0..3 * room_bytes / VALUE_BYTES as u64 {
        let key = format!("key:{}", write % 50);
        // A tenth of a disk stays free of history, which is looked at every second: this client writes no more in one.
        if disk.available_bytes() < FREE_BYTES {
            wait_until(|| {
                disk.available_bytes() >= FREE_BYTES
                    || number(&mut connection, "history_bytes") == 0
            });
        }
        if let Err(error) = ledger.write(&mut connection, &key) {
            // A compaction may be slower than the client, with nothing of the past left.
            assert_eq!(number(&mut connection, "history_bytes"), 0, "{error}");
            ledger.write_patiently(&mut connection, &key);
        }
        if write % 100 == 0 {
            kept = kept.max(number(&mut connection, "history_bytes"));
        }
    }
    let given_up = number(&mut connection, "history_given_up");
    assert!(kept > 0 && given_up > 0, "{kept} bytes were kept, {given_up} files given up");
    ledger.check(&mut connection);
    ledger.outlives_a_kill(&mut server);
}

/// A backup is held until it is deleted, which is taken on a disk that it has filled to the last byte; then there is room.
#[test]
fn a_backup_is_deleted_on_a_full_disk_and_its_room_comes_back() {
    let Some(disk) = LoopDisk::new(DISK_BYTES) else { return };
    let history = ["--log-history-seconds", "0", "--enable-debug-command", "yes"];
    let mut server =
        Program::indelible().start_on(&disk.data(), &[&OPTIONS[..], &history].concat());
    disk.add_ballast(disk.available_bytes().saturating_sub(ROOM_BYTES));
    let (mut connection, mut ledger) = (server.connect(), Ledger::default());
    for number in 0..KEYS {
        ledger.write(&mut connection, &format!("key:{number}")).unwrap();
    }
    let then = digest_of(&mut connection);
    assert!(!connection.words("BACKUP CREATE held").is_error());
    // All that it needs is replaced, and kept.
    let mut write = 0;
    let error = loop {
        match ledger.write(&mut connection, &format!("key:{}", write % KEYS)) {
            Ok(()) => write += 1,
            Err(error) => break error,
        }
        assert!(write < 10_000, "the disk does not become full");
    };
    assert!(error.contains("No space left on device"), "{error}");
    assert!(number(&mut connection, "backups_held_bytes") > 4 << 20);
    // It is whole; a restore needs room for a few links.
    disk.drop_ballast();
    let target = tempfile::tempdir().unwrap();
    let into = target.path().join("into");
    let directory = server.directory();
    let source = directory.to_str().unwrap();
    let words = ["restore", source, "--at", "held", "--into", into.to_str().unwrap()];
    let output = run(&words);
    assert!(output.status.success(), "{}", said(&output));
    disk.fill_with_ballast();
    assert_eq!(connection.words("BACKUP DELETE held").text(), "OK");
    ledger.write_patiently(&mut connection, "again");
    ledger.check(&mut connection);
    server.kill();
    server.restart();
    let mut connection = server.connect();
    ledger.check(&mut connection);
    assert_eq!(number(&mut connection, "backups"), 0);
    verify_log(&mut server);
    let restored = Program::indelible().start_on(&into, &ARCHIVED);
    assert_eq!(digest_of(&mut restored.connect()), then);
}

/// The archive's disk is full: the server goes on, says so, and when there is room everything is archived, in one piece.
#[test]
fn an_archive_whose_disk_was_full_goes_on_by_itself_and_lacks_nothing() {
    let Some(disk) = LoopDisk::new(DISK_BYTES) else { return };
    let place = disk.path().join("archive");
    std::fs::create_dir(&place).unwrap();
    let url = format!("file://{}", place.display());
    // What waits to be shipped is not compacted meanwhile.
    let options = ["--archive", &url, "--log-compaction", "no"];
    let mut server = Program::indelible().start(&[&ARCHIVED[..], &options].concat());
    let (mut connection, mut ledger) = (server.connect(), Ledger::default());
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    let mut states = Vec::new();
    for round in 0..3 {
        for number in 0..20 {
            ledger.write(&mut connection, &format!("key:{round}:{number}")).unwrap();
        }
        states.push((catch_up(&mut connection), digest_of(&mut connection)));
        disk.fill_with_ballast();
        for number in 0..20 {
            ledger.write(&mut connection, &format!("full:{round}:{number}")).unwrap();
        }
        wait_until(|| info(&mut connection, "archive_state") == "away");
        let error = info(&mut connection, "archive_last_error");
        assert!(error.contains("No space left on device"), "{error}");
        assert!(number(&mut connection, "archive_lag_blocks") > 0);
        // What is said to be archived is, on a disk without room, too.
        let (lsn, digest) = states.last().unwrap();
        assert!(number(&mut connection, "archive_lsn") >= *lsn);
        let target = tempfile::tempdir().unwrap();
        let into = target.path().join("full");
        let output = restore(&url, &into, &["--at", &lsn.to_string()]);
        assert!(output.status.success(), "{}", said(&output));
        let restored = Program::indelible().start_on(&into, &ARCHIVED);
        assert_eq!(&digest_of(&mut restored.connect()), digest);
        disk.drop_ballast();
        wait_until(|| info(&mut connection, "archive_state") == "streaming");
        states.push((catch_up(&mut connection), digest_of(&mut connection)));
    }
    assert_eq!(number(&mut connection, "archive_gaps"), 0);
    ledger.check(&mut connection);
    server.kill();
    let output = run(&["backup", "verify", &url]);
    assert!(output.status.success(), "{}", said(&output));
    let target = tempfile::tempdir().unwrap();
    for (lsn, digest) in states {
        let into = target.path().join(lsn.to_string());
        let output = restore(&url, &into, &["--at", &lsn.to_string()]);
        assert!(output.status.success(), "{}", said(&output));
        let restored = Program::indelible().start_on(&into, &ARCHIVED);
        assert_eq!(digest_of(&mut restored.connect()), digest, "{lsn}");
    }
}

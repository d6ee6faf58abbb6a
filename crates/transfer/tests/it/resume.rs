//! Transfers that break off at any moment and are resumed.

use std::fs;
use std::os::unix::fs::FileExt;

use transfer::{Error, Trust, Verification};

use crate::ends::{Receiver, VERIFICATION, directory, random_bytes, send};
use crate::wire::{Trouble, wire};

#[test]
fn a_transfer_that_was_cut_goes_on_with_the_pages_that_are_missing() {
    let dir = directory();
    let file = dir.path().join("file");
    let bytes = random_bytes(3, 24 << 20);
    fs::write(&file, &bytes).unwrap();
    let receiver = Receiver::start();
    let address = wire(receiver.address, Trouble::CutAt(16 << 20));
    let error = send(address, &file, &Trust::Loopback, VERIFICATION).unwrap_err();
    assert!(matches!(error, Error::BrokenOff), "{error}");
    assert!(!receiver.path("file").exists(), "nothing half-good appears");

    // The rest fits through a wire that is cut before the whole would.
    let address = wire(receiver.address, Trouble::CutAt(20 << 20));
    let report = send(address, &file, &Trust::Loopback, VERIFICATION).unwrap();
    assert!(report.is_complete());
    assert!(fs::read(receiver.path("file")).unwrap() == bytes);
    assert_eq!(report.verified_bytes, 24 << 20, "what was there is verified as well");
    assert_eq!(receiver.staged(), 0);
}

#[test]
fn a_cut_anywhere_leaves_nothing_half_good() {
    let dir = directory();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..6 {
        fs::write(tree.join(format!("{number}")), random_bytes(number, 700_000)).unwrap();
    }
    let receiver = Receiver::start();
    for at in (10..4_200_000).step_by(97_001) {
        let address = wire(receiver.address, Trouble::CutAt(at));
        // Some of them arrive before the cut.
        let _cut_or_not = send(address, &tree, &Trust::Loopback, VERIFICATION);
        for number in 0..6 {
            if let Ok(bytes) = fs::read(receiver.path(&format!("tree/{number}"))) {
                assert!(bytes == random_bytes(number, 700_000), "cut at {at}");
            }
        }
    }
    let report = receiver.send(&tree).unwrap();
    assert!(report.is_complete());
    assert_eq!(fs::read_dir(receiver.path("tree")).unwrap().count(), 6);
}

#[test]
fn a_file_that_changes_while_it_is_sent_does_not_arrive_and_is_named() {
    let dir = directory();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("still"), random_bytes(5, 100_000)).unwrap();
    let growing = tree.join("growing");
    fs::write(&growing, random_bytes(6, 40 << 20)).unwrap();
    let receiver = Receiver::start();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::File::options().write(true).open(&growing).unwrap();
            let mut byte = 0_u8;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                byte = byte.wrapping_add(1);
                file.write_all_at(&[byte], 39 << 20).unwrap();
            }
        });
        let report = receiver.send(&tree);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        report.unwrap()
    });
    assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
    assert_eq!(report.failures[0].path, "tree/growing");
    assert!(report.failures[0].what.contains("changed"), "{:?}", report.failures);
    assert!(!receiver.path("tree/growing").exists());
    assert!(receiver.path("tree/still").exists(), "the others arrive");
    assert_eq!(receiver.staged(), 0);
}

#[test]
fn two_transfers_of_one_file_do_not_meet() {
    let dir = directory();
    let file = dir.path().join("file");
    fs::write(&file, random_bytes(7, 8 << 20)).unwrap();
    let receiver = Receiver::start();
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let verification = Verification { verifiers: 1, ..VERIFICATION };
                    send(receiver.address, &file, &Trust::Loopback, verification)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(results.iter().any(Result::is_ok));
    for result in results {
        match result {
            Ok(report) => assert!(report.is_complete(), "{:?}", report.failures),
            Err(Error::Refused(why)) => assert!(why.contains("another transfer"), "{why}"),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(fs::read(receiver.path("file")).unwrap() == random_bytes(7, 8 << 20));
}

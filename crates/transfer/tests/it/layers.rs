//! Table 4.2 of the paper: faults in each layer of the receiver's storage, against each scheme.
//!
//! Sender, protocol and receiver are real; only the device is simulated, with host memory, a cache
//! of its own and flash. A fault is **detected** if pages are resent because of it, and **missed**
//! if the transfer reports success and the flash finally differs from what was sent.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use env::File;
use env_sim::{Damage, Fault, Layer, LayeredDevice};
use transfer::service::receive_one;
use transfer::{Destination, Origin, Report, Scheme, Trust, Verification};

use crate::ends::{directory, random_bytes, send};

const PAGE: u64 = 4096;
/// The files of a transfer, and the pages of each.
const FILES: u64 = 8;
const FILE_PAGES: u64 = 64;
/// The cache holds all of them: nothing reaches the flash unless it is displaced on purpose.
const CACHE_PAGES: u64 = 1024;
/// The file written to displace the others.
const FILLER: u64 = u64::MAX;

/// Files on a simulated device, named by their numbers.
struct Layers {
    device: LayeredDevice,
    apparent: Arc<Mutex<Vec<u32>>>,
}

impl Destination for Layers {
    fn offers(&self) -> Vec<(u32, Origin)> {
        Vec::new()
    }

    fn open_offered(&self, _entry: u32, _origin: Origin) -> io::Result<Box<dyn File>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn stage(&self, entry: u32, keep: bool) -> io::Result<Box<dyn File>> {
        if !keep {
            self.device.truncate(u64::from(entry));
        }
        Ok(self.device.open(u64::from(entry), false))
    }

    fn open_staged(&self, entry: u32, direct: bool) -> io::Result<Box<dyn File>> {
        Ok(self.device.open(u64::from(entry), direct))
    }

    fn settle(&self, _entry: u32) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.device.sync_all();
        Ok(())
    }

    fn appear(&self, entry: u32) -> io::Result<()> {
        self.apparent.lock().unwrap().push(entry);
        Ok(())
    }

    fn discard(&self, _entry: u32) {}

    fn filler(&self) -> io::Result<Box<dyn File>> {
        Ok(self.device.open(FILLER, false))
    }

    fn finish(&self) -> io::Result<Vec<(u32, io::Error)>> {
        Ok(Vec::new())
    }

    fn device_cache_bytes(&self) -> u64 {
        CACHE_PAGES * PAGE
    }
}

/// The outcome of a transfer.
struct Outcome {
    report: Report,
    /// Files that have appeared.
    apparent: usize,
    /// Files that have appeared but finally differ from what was sent.
    rotten: usize,
    device: LayeredDevice,
}

fn transfer_onto(faults: Vec<Fault>, scheme: Scheme, resends_max: u16) -> Outcome {
    let dir = directory();
    let contents = |file: u64| random_bytes(file, usize::try_from(FILE_PAGES * PAGE - 5).unwrap());
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for file in 0..FILES {
        fs::write(tree.join(file.to_string()), contents(file)).unwrap();
    }
    let device = LayeredDevice::new(CACHE_PAGES * PAGE, faults);
    let apparent = Arc::new(Mutex::new(Vec::new()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let verification = Verification { scheme, verifiers: 4, resends_max, device_cache_bytes: 0 };
    let report = std::thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (socket, _) = listener.accept().unwrap();
            let destination =
                |_| Layers { device: device.clone(), apparent: Arc::clone(&apparent) };
            receive_one(socket, 8 << 20, destination).unwrap()
        });
        let report = send(address, &tree, &Trust::Loopback, verification).unwrap();
        received.join().unwrap();
        report
    });
    let apparent = apparent.lock().unwrap().clone();
    // The directory is entry 0; the files follow in name order.
    let is_rotten = |&&entry: &&u32| {
        device.contents_in_the_end(u64::from(entry)) != contents(u64::from(entry) - 1)
    };
    let rotten = apparent.iter().filter(is_rotten).count();
    Outcome { report, apparent: apparent.len(), rotten, device }
}

/// Faults for pages of the third file, whenever they first enter a layer.
fn fault(layer: Layer, damage: Damage) -> Vec<Fault> {
    vec![Fault { layer, damage, pages: 2 * FILE_PAGES + 3..2 * FILE_PAGES + 7 }]
}

/// The results of Table 4.2.
fn finds(scheme: Scheme, layer: Layer) -> bool {
    match scheme {
        Scheme::Pipelined => layer == Layer::HostMemory,
        Scheme::Riva => layer != Layer::Flash,
        Scheme::Sp | Scheme::Spc => true,
        Scheme::Sequential => unreachable!("not in the table"),
    }
}

#[test]
fn table_4_2() {
    for damage in [Damage::FlippedBit, Damage::Dropped, Damage::Misdirected, Damage::Shorn] {
        for layer in [Layer::HostMemory, Layer::DeviceCache, Layer::Flash] {
            for scheme in [Scheme::Pipelined, Scheme::Riva, Scheme::Sp, Scheme::Spc] {
                let outcome = transfer_onto(fault(layer, damage), scheme, 3);
                let what = format!("{damage:?} in {layer:?} with {scheme}");
                let report = &outcome.report;
                assert!(report.is_complete(), "{what}: {:?}", report.failures);
                assert_eq!(outcome.apparent, usize::try_from(FILES).unwrap(), "{what}");
                let found = report.pages_sent_again > 0;
                assert_eq!(found, finds(scheme, layer), "{what}");
                assert_eq!(outcome.rotten, usize::from(!found), "{what}");
                assert!(outcome.device.damaged_pages() >= 4, "{what}: there was a fault");
            }
        }
    }
}

#[test]
fn without_faults_each_scheme_reads_from_its_layer() {
    let pages = FILES * FILE_PAGES;
    for scheme in Scheme::ALL {
        let outcome = transfer_onto(Vec::new(), scheme, 3);
        assert_eq!((outcome.rotten, outcome.report.pages_sent_again), (0, 0));
        let from = |layer| outcome.device.pages_read_from(layer);
        let read = [from(Layer::HostMemory), from(Layer::DeviceCache), from(Layer::Flash)];
        let expected = match scheme {
            Scheme::Pipelined => [pages, 0, 0],
            Scheme::Sequential | Scheme::Riva => [0, pages, 0],
            Scheme::Sp | Scheme::Spc => [0, 0, pages],
        };
        assert_eq!(read, expected, "{scheme}");
    }
}

#[test]
fn a_page_that_never_becomes_good_fails_its_file_and_no_other() {
    // Every page is damaged from some point on, however often it is sent.
    let faults = vec![Fault {
        layer: Layer::HostMemory,
        damage: Damage::FlippedBit,
        pages: 7 * FILE_PAGES + 9..u64::MAX,
    }];
    let outcome = transfer_onto(faults, Scheme::Spc, 2);
    assert_eq!(outcome.report.failures.len(), 1, "{:?}", outcome.report.failures);
    let failure = &outcome.report.failures[0];
    assert_eq!(failure.path, "tree/7");
    for part in ["page ", "sent with CRC32C 0x", "reads back as 0x", "sent again 2 times"] {
        assert!(failure.what.contains(part), "{}", failure.what);
    }
    assert_eq!((outcome.apparent, outcome.rotten), (7, 0), "nothing half-good appears");
}

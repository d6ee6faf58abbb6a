//! The whole program against a device that damages what it stores: Table 4.2 of the paper once more, with
//! the real page cache of the kernel as host memory.

use crate::device_mount::Mounted;
use crate::transfer::{Receiver, number, random_file, sender_for, text};
use env::Disk;
use env_os::OsDisk;
use env_sim::{Damage, Fault, Layer, LayeredDevice};

/// The cache of the device; the file is smaller, so that nothing gets to flash by itself.
const CACHE_BYTES: u64 = 8 << 20;
const FILE_BYTES: usize = 3 << 20;

/// Sends a file onto a device with a fault; pages that came again, and whether what is on flash in the end
/// is what was sent. Nothing where FUSE cannot be mounted.
fn send_onto(layer: Layer, damage: Damage, scheme: &str) -> Option<(u64, bool)> {
    let faults = vec![Fault { layer, damage, pages: 100..103 }];
    let from = tempfile::tempdir().unwrap();
    let flash = OsDisk.create(&from.path().join("flash")).unwrap();
    let device = LayeredDevice::backed_by(CACHE_BYTES, faults, flash);
    let mounted = Mounted::new(&device)?;
    let file = from.path().join("file");
    let contents = random_file(&file, FILE_BYTES);
    let receiver = Receiver::start(mounted.path(), &[]);
    let mut sender = sender_for(&file, &receiver.address, &CACHE_BYTES.to_string());
    sender.args(["--scheme", scheme]);
    let output = sender.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(device.damaged_pages() >= 1 || layer == Layer::Flash, "there was a fault");
    let again = number(&output, "pages_sent_again");
    drop(receiver);
    let is_good = mounted.contents_in_the_end(&device, "file") == contents;
    // All of it went through the cache to where the device keeps things for good.
    let stored = std::fs::metadata(from.path().join("flash")).unwrap().len();
    assert!(stored >= FILE_BYTES as u64 - 3 * 4096, "{stored} bytes in the backing file");
    Some((again, is_good))
}

#[test]
fn the_whole_program_finds_what_the_paper_says_each_scheme_finds() {
    for damage in [Damage::FlippedBit, Damage::Dropped, Damage::Misdirected] {
        for layer in [Layer::DeviceCache, Layer::Flash] {
            for scheme in ["pipelined", "riva", "sp", "spc"] {
                let Some((again, is_good)) = send_onto(layer, damage, scheme) else { return };
                let finds = match scheme {
                    "pipelined" => false,
                    "riva" => layer == Layer::DeviceCache,
                    _ => true,
                };
                assert_eq!(
                    (again > 0, is_good),
                    (finds, finds),
                    "{damage:?} in {layer:?} with {scheme}: {again} pages came again"
                );
            }
        }
    }
}

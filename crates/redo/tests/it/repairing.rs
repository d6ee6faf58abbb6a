//! Repairing: of whatever was damaged, exactly what is still good is served afterwards.
//!
//! The damages are those of the sweep. What is expected is computed from the log as it was before:
//! the blocks of which no byte is touched, in order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::RecordAddr;
use env::Disk;
use env_sim::SimDisk;
use env_sim::sweep::{Damage, Image, crash_everywhere, disk_of};
use redo::block::{self, BlockHeader};
use redo::{Error, FileError, Repair, RepairMode, RepairRequest, Replay, record};

use crate::harness::{Counter, Database, Keyspace};
use crate::sweep::{Shape, damages, device_failed, read_all, shapes};

const DIR: &str = "/data";
const NOW: RepairMode = RepairMode::CarryOut { now_ms: 1_700_000_000_000 };

fn repair(disk: &Arc<dyn Disk>, shape: &Shape, mode: RepairMode) -> redo::Result<Repair> {
    let devices = &shape.options.devices;
    redo::repair(
        disk,
        &RepairRequest { dir: Path::new(DIR), devices, lost: &[] },
        &mut Counter(9),
        mode,
    )
}

/// The blocks of a file by offset.
pub(crate) fn blocks_of(bytes: &[u8]) -> BTreeMap<usize, BlockHeader> {
    let headers = bytes.windows(block::HEADER_BYTES).enumerate();
    let headers =
        headers.map(|(at, bytes)| (at, BlockHeader::decode(bytes.first_chunk().unwrap())));
    headers.filter_map(|(at, header)| Some((at, header?))).collect()
}

/// Whether all bytes of `range` of the file are still there, here or under another name.
fn is_whole(damage: &Damage, path: &Path, range: std::ops::Range<usize>) -> bool {
    match damage {
        Damage::Flip { path: turned, at, .. } => turned != path || !range.contains(at),
        Damage::Cut { path: cut, len } => cut != path || range.end <= *len,
        Damage::Lose { path: removed } => removed != path,
        // Blocks are looked for in files that are named like segments.
        Damage::Exchange { path: a, other: b } => {
            let is_segment = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "redo");
            path != a && path != b || is_segment(a) && is_segment(b)
        }
        Damage::Append { .. } => true,
    }
}

/// What the good blocks say.
fn expected(shape: &Shape, damage: &Damage) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut blocks: BTreeMap<_, Vec<u8>> = BTreeMap::new();
    for (path, bytes) in &shape.image {
        if path.extension().is_none_or(|ext| ext != "redo") {
            continue;
        }
        for (at, header) in blocks_of(bytes) {
            let end = at + usize::try_from(header.block_bytes()).unwrap();
            if is_whole(damage, path, at..end) {
                blocks.insert(header.lsn, bytes[at + block::HEADER_BYTES..end].to_vec());
            }
        }
    }
    let mut keyspace = Keyspace::default();
    for (lsn, payload) in blocks {
        let mut rest = &payload[..];
        while !rest.is_empty() {
            let record = record::decode(&mut rest).unwrap();
            let addr = RecordAddr::new(base::SegmentId(1), 0);
            keyspace.apply(&record, addr, lsn, &mut Vec::new());
        }
    }
    keyspace.contents()
}

/// Whether repair rightly says that this is nothing to repair.
pub(crate) fn is_no_damage(error: &Error) -> bool {
    let is_nothing = |what: &str| what == "nothing says which log this was";
    match error {
        Error::File(FileError::NewerFormat { .. }) | Error::MissingDevice { .. } => true,
        Error::File(FileError::Corrupt { what, .. }) => is_nothing(what),
        _ => false,
    }
}

fn judge(shape: &Shape, damage: &Damage) -> Result<bool, String> {
    let image = damage.apply(&shape.image);
    let disk = disk_of(&image);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let shown = repair(&shared, shape, RepairMode::Show);
    if read_all(&disk) != image {
        return Err("showing has changed something".to_owned());
    }
    let shown = match shown {
        Err(error) if is_no_damage(&error) => return Ok(false),
        shown => shown.map_err(|error| error.to_string())?,
    };
    if !shown.is_needed() {
        return Ok(false);
    }
    let done = repair(&shared, shape, NOW).map_err(|error| format!("not repaired: {error}"))?;
    let now = read_all(&disk);
    is_kept(&image, &now)?;
    let devices = &shape.options.devices;
    let report = redo::verify(&shared, Path::new(DIR), devices).unwrap();
    if !report.is_good() {
        return Err(format!("{done}\nis not good afterwards: {report}"));
    }
    let database = Database::open_on(shared, shape.options.clone())
        .map_err(|error| format!("{done}\ndoes not start: {error}"))?;
    let (found, expected) = (database.keyspace.contents(), expected(shape, damage));
    let is_less =
        shape.states.values().all(|state| *state != found) || found != *shape.last_state();
    if done.to_string().contains("at least 0") {
        return Err(format!("{done}\ncounts nothing and calls it a bound"));
    }
    if is_less && done.lost_records == 0 && !done.lost_more {
        return Err(format!("{done}\nis said to lose nothing, and serves {found:?}"));
    }
    if found != expected {
        return Err(format!("{done}\nserves {found:?} instead of {expected:?}"));
    }
    Ok(true)
}

/// Every file is as it was, or is kept as it was.
fn is_kept(before: &Image, after: &Image) -> Result<(), String> {
    for (path, bytes) in before.iter().filter(|(path, _)| !path.ends_with("reserve")) {
        let is_copy = |(other, found): (&PathBuf, &Vec<u8>)| {
            other.file_name() == path.file_name() && found == bytes
        };
        if !after.iter().any(is_copy) {
            return Err(format!("{} is not kept", path.display()));
        }
    }
    Ok(())
}

#[test]
fn what_is_good_is_served_after_any_damage_and_the_old_files_are_kept() {
    let (mut repaired, mut failures) = (0, Vec::new());
    for shape in shapes() {
        // Every kind of damage, at places that differ from shape to shape.
        let stride = 5;
        for damage in damages(&shape).iter().skip(shape.name.len() % stride).step_by(stride) {
            match judge(&shape, damage) {
                Ok(was_needed) => repaired += usize::from(was_needed),
                Err(what) => failures.push(format!("{}: {damage:?}: {what}", shape.name)),
            }
        }
    }
    println!("{repaired} repairs");
    let shown: Vec<&str> = failures.iter().take(20).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), shown.join("\n"));
    assert!(repaired > 5000);
}

/// The segment of the failed device comes to the device that has parts of it, whose own segment is
/// older and was never sealed: that must not look as if it had been.
#[test]
fn a_segment_that_a_device_has_only_parts_of_may_be_written_anew_there() {
    let shape = device_failed();
    let names: Vec<_> = shape.image.keys().map(|path| path.to_string_lossy()).collect();
    let has = |name| names.iter().any(|found| found == name);
    assert!(has("/a/0000000001.redo") && has("/b/0000000002.redo"), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("/a/0000000002.p")), "{names:?}");
    let (mut repaired, mut failures) = (0, Vec::new());
    for damage in damages(&shape) {
        match judge(&shape, &damage) {
            Ok(was_needed) => repaired += usize::from(was_needed),
            Err(what) => failures.push(format!("{damage:?}: {what}")),
        }
    }
    let shown: Vec<&str> = failures.iter().take(20).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), shown.join("\n"));
    assert!(repaired > 500, "{repaired}");
}

/// A repair that is cut short is made again, and gives the same.
#[test]
fn a_crash_at_any_point_of_a_repair_is_made_good_by_another_one() {
    let mut crashes = 0;
    for shape in shapes() {
        let all = damages(&shape);
        for damage in all.iter().skip(shape.name.len()).step_by(all.len() / 12) {
            let image = damage.apply(&shape.image);
            let shared = |disk: &SimDisk| -> Arc<dyn Disk> { Arc::new(disk.clone()) };
            crashes += 2 * crash_everywhere(
                &disk_of(&image),
                |disk| repair(&shared(disk), &shape, NOW),
                |disk, first| {
                    let what = format!("{}: {damage:?}", shape.name);
                    let done = match repair(&shared(disk), &shape, NOW) {
                        Err(error) if is_no_damage(&error) => return,
                        done => done.unwrap_or_else(|error| panic!("{what}: {error}")),
                    };
                    let is_done = first.as_ref().is_ok_and(Repair::is_needed);
                    assert!(!(is_done && done.is_needed()), "{what}: it was not done");
                    let kept = is_kept(&image, &read_all(disk));
                    kept.unwrap_or_else(|error| panic!("{what}: {error}"));
                    let database = Database::open_on(shared(disk), shape.options.clone()).unwrap();
                    let found = database.keyspace.contents();
                    let was_needed = done.is_needed() || first.is_err() || is_done;
                    assert!(!was_needed || found == expected(&shape, damage), "{what}: {found:?}");
                },
            );
        }
    }
    assert!(crashes > 1000, "{crashes}");
}

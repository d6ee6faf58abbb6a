//! The log is written over zeros that were put there before (`log-preallocate`): what INFO and the files say of it,
//! and that everything is there after `kill -9`.

use crate::archive::run;
use crate::process::{Program, Server, wait_until};
use crate::wire::Connection;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

/// As many blocks as a device has written before zeros are prepared for it, and some more.
const BLOCKS: usize = 400;

const ALWAYS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Whether the file system of the data directory writes in place; says so if not.
fn writes_in_place(server: &Server) -> bool {
    let stat = Command::new("stat").args(["-f", "-c", "%T"]).arg(server.directory()).output();
    let name = String::from_utf8(stat.unwrap().stdout).unwrap();
    let does = matches!(name.trim(), "ext2/ext3" | "xfs");
    if !does {
        testing::skipped("a file system that writes in place", name.trim());
    }
    does
}

/// What INFO says of the first device under this name.
fn of_device(connection: &mut Connection, name: &str) -> String {
    let text = connection.words("INFO redo").text();
    let line = text.lines().find(|line| line.starts_with("redo_device:index=0")).unwrap();
    let (_, rest) = line.split_once(&format!(",{name}=")).unwrap();
    rest.split(',').next().unwrap().to_owned()
}

/// Sets keys one at a time, each a block of its own.
fn set_keys(connection: &mut Connection, from: usize, to: usize) {
    for number in from..to {
        assert_eq!(connection.words(&format!("SET key:{number} value:{number}")).text(), "OK");
    }
}

fn has_keys(connection: &mut Connection, to: usize) {
    for number in 0..to {
        let value = connection.words(&format!("GET key:{number}")).text();
        assert_eq!(value, format!("value:{number}"));
    }
}

/// The newest segment, and the files of zeros.
fn files(server: &Server) -> (PathBuf, usize) {
    let names = std::fs::read_dir(server.directory().join("redo")).unwrap();
    let paths: Vec<PathBuf> = names.map(|entry| entry.unwrap().path()).collect();
    let has_ending = |path: &&PathBuf, ending: &str| path.extension().is_some_and(|e| e == ending);
    let newest = paths.iter().filter(|path| has_ending(path, "redo")).max().unwrap().clone();
    (newest, paths.iter().filter(|path| has_ending(path, "tmp")).count())
}

#[test]
fn the_log_is_written_over_zeros() {
    let mut server = Program::indelible().start(&ALWAYS);
    if !writes_in_place(&server) {
        return;
    }
    let mut connection = server.connect();
    assert_eq!(of_device(&mut connection, "writes"), "growing");
    set_keys(&mut connection, 0, BLOCKS);
    wait_until(|| of_device(&mut connection, "spare") == "1");
    set_keys(&mut connection, BLOCKS, BLOCKS + 2);
    assert_eq!(of_device(&mut connection, "writes"), "over-zeros");

    // All of it is there, written, before the blocks are; and they do not make it longer.
    let (open, _) = files(&server);
    let before = std::fs::metadata(&open).unwrap();
    assert!(before.len() > 1 << 20 && before.len() % 4096 == 0, "{}", before.len());
    assert!(before.blocks() * 512 >= before.len(), "{} blocks", before.blocks());
    set_keys(&mut connection, BLOCKS + 2, 2 * BLOCKS);
    let after = std::fs::metadata(&open).unwrap();
    assert_eq!((before.len(), before.blocks()), (after.len(), after.blocks()));
    // What reads the open segment meanwhile takes what is behind its blocks as unwritten.
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("copy");
    let texts = [&server.directory(), &copy].map(|path| path.display().to_string());
    let restored = run(&["restore", &texts[0], "--latest", "--into", &texts[1]]);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    has_keys(&mut Program::indelible().start_on(&copy, &ALWAYS).connect(), 2 * BLOCKS);
    set_keys(&mut connection, 2 * BLOCKS, 3 * BLOCKS);

    server.kill();
    server.restart();
    let mut connection = server.connect();
    has_keys(&mut connection, 3 * BLOCKS);
    let (newest, temporary) = files(&server);
    let len = std::fs::metadata(&newest).unwrap().len();
    assert!(len < 1 << 20, "it was cut: {len}");
    assert_eq!(temporary, 0, "zeros of another life are removed");
    drop(connection);
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    let verified = run(&["log", "verify", &server.directory().display().to_string()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn the_log_grows_if_it_is_asked_to() {
    let options = [&ALWAYS[..], &["--log-preallocate", "no"]].concat();
    let server = Program::indelible().start(&options);
    let mut connection = server.connect();
    set_keys(&mut connection, 0, BLOCKS);
    assert_eq!(of_device(&mut connection, "writes"), "growing");
    assert_eq!((of_device(&mut connection, "spare").as_str(), files(&server).1), ("0", 0));
    if !writes_in_place(&server) {
        return;
    }
    assert_eq!(connection.words("CONFIG SET log-preallocate yes").text(), "OK");
    wait_until(|| of_device(&mut connection, "spare") == "1");
    assert_eq!(connection.words("CONFIG SET log-preallocate no").text(), "OK");
    wait_until(|| of_device(&mut connection, "spare") == "0" && files(&server).1 == 0);
}

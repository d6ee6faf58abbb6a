//! Files arrive as they were sent.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::ends::{NO_LIMITS, Receiver, VERIFICATION, directory, random_bytes, send};
use transfer::{Progress, Scheme, Token, Trust, Verification};

fn set_modified(path: &Path, seconds: u64, nanoseconds: u32) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// Creates a tree with every difficult kind of entry.
fn make_tree(top: &Path) {
    fs::create_dir_all(top.join("empty directory")).unwrap();
    fs::create_dir_all(top.join("deep/er/and/deeper")).unwrap();
    for (name, size) in [("empty", 0), ("one", 1), ("page", 4096), ("more", 4097), ("big", 3 << 20)]
    {
        fs::write(top.join(name), random_bytes(size as u64, size)).unwrap();
    }
    for name in [&b"new\nline"[..], b"-rf", b" ", b"\xff\xfe", b"\"quotes'", b"*", &[b'n'; 255]] {
        fs::write(top.join("deep/er").join(OsStr::from_bytes(name)), name).unwrap();
    }
    symlink("../one", top.join("deep/link")).unwrap();
    symlink("nowhere", top.join("deep/dangling")).unwrap();
    let sparse = fs::File::create(top.join("sparse")).unwrap();
    sparse.set_len(20 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"island", (9 << 20) + 123).unwrap();
    fs::set_permissions(top.join("one"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(top.join("more"), fs::Permissions::from_mode(0o755)).unwrap();
    set_modified(&top.join("one"), 1, 999_999_999);
    set_modified(&top.join("page"), 4_000_000_000, 1);
    fs::set_permissions(top.join("deep/er"), fs::Permissions::from_mode(0o555)).unwrap();
    set_modified(&top.join("deep/er"), 981_173_106, 5);
}

fn assert_same(one: &Path, other: &Path) {
    let (a, b) = (fs::symlink_metadata(one).unwrap(), fs::symlink_metadata(other).unwrap());
    assert_eq!(a.file_type(), b.file_type(), "{one:?}");
    assert_eq!((a.mtime(), a.mtime_nsec()), (b.mtime(), b.mtime_nsec()), "{one:?}");
    if a.is_symlink() {
        assert_eq!(fs::read_link(one).unwrap(), fs::read_link(other).unwrap());
        return;
    }
    assert_eq!(a.mode(), b.mode(), "{one:?}");
    if a.is_file() {
        assert!(fs::read(one).unwrap() == fs::read(other).unwrap(), "{one:?}");
        return;
    }
    let names = |dir: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(one), names(other));
    for name in names(one) {
        assert_same(&one.join(&name), &other.join(&name));
    }
}

#[test]
fn a_tree_arrives_as_it_is_with_every_scheme() {
    let dir = directory();
    let tree = dir.path().join("tree");
    make_tree(&tree);
    for scheme in Scheme::ALL {
        let receiver = Receiver::start();
        let verification = Verification { scheme, ..VERIFICATION };
        let report = send(receiver.address, &tree, &Trust::Loopback, verification).unwrap();
        assert!(report.is_complete(), "{:?}", report.failures);
        assert_same(&tree, &receiver.path("tree"));
        assert_eq!(report.verified_bytes, report.bytes);
        assert_eq!(report.filler_bytes > 0, scheme.waits_for_displacement());
        assert_eq!(report.files, 13);
        assert_eq!(receiver.staged(), 0);
        let blocks = fs::metadata(receiver.path("tree/sparse")).unwrap().blocks();
        assert!(blocks * 512 < 1 << 20, "holes stay holes: {blocks} blocks");
    }
}

#[test]
fn a_tree_that_is_there_is_compared_and_not_sent() {
    let dir = directory();
    let tree = dir.path().join("tree");
    make_tree(&tree);
    let receiver = Receiver::start();
    receiver.send(&tree).unwrap();
    let big = receiver.path("tree/big");
    let modified = fs::metadata(&big).unwrap().modified().unwrap();
    // Corruption that no modification time shows.
    let mut bytes = fs::read(&big).unwrap();
    bytes[1_000_000] ^= 1;
    fs::write(&big, bytes).unwrap();
    fs::File::open(&big).unwrap().set_modified(modified).unwrap();
    let report = receiver.send(&tree).unwrap();
    assert_same(&tree, &receiver.path("tree"));
    assert_eq!(report.verified_bytes, 3 << 20, "only the damaged file comes again");
    assert_eq!(report.unchanged_bytes, report.bytes - report.verified_bytes);
}

#[test]
fn a_tree_is_fetched_as_it_is_with_a_token() {
    let token = Trust::Token(Token::random().unwrap());
    let receiver = Receiver::start_with(token.clone(), NO_LIMITS);
    make_tree(&receiver.path("tree"));
    let remote = format!("{}/tree/deep", receiver.address).parse().unwrap();
    let to = directory();
    let fetch = |remote, to: &Path| {
        let progress = Progress::default();
        transfer::fetch(&remote, to, &token, VERIFICATION, &NO_LIMITS, 8 << 20, &progress).unwrap()
    };
    assert!(fetch(remote, to.path()).is_complete());
    assert_same(&receiver.path("tree/deep"), &to.path().join("deep"));
    let everything = directory();
    let report = fetch(receiver.address.to_string().parse().unwrap(), everything.path());
    assert!(report.is_complete());
    assert_same(&receiver.path("tree"), &everything.path().join("tree"));
}

#[test]
fn several_paths_go_below_a_directory_and_replace_what_is_there() {
    let dir = directory();
    let paths = [dir.path().join("a"), dir.path().join("b")];
    fs::write(&paths[0], "new").unwrap();
    fs::create_dir(&paths[1]).unwrap();
    let receiver = Receiver::start();
    fs::create_dir_all(receiver.path("in/to")).unwrap();
    fs::write(receiver.path("in/to/a"), "old, and longer").unwrap();
    let remote = format!("{}/in/to", receiver.address).parse().unwrap();
    let progress = Progress::default();
    let report =
        transfer::send(&paths, &remote, &Trust::Loopback, VERIFICATION, &progress).unwrap();
    assert!(report.is_complete());
    assert_eq!(fs::read(receiver.path("in/to/a")).unwrap(), b"new");
    assert!(receiver.path("in/to/b").is_dir());
    assert_eq!((progress.total_bytes(), progress.verified_bytes()), (3, 3));
}

#[test]
fn many_small_files_arrive() {
    let dir = directory();
    let tree = dir.path().join("tree");
    for number in 0..3000_usize {
        let file = tree.join(format!("{}/{number}", number % 7));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, random_bytes(number as u64, number % 5000)).unwrap();
    }
    let receiver = Receiver::start();
    let report = receiver.send(&tree).unwrap();
    assert_eq!((report.files, report.verified_bytes), (3000, report.bytes));
    assert_same(&tree, &receiver.path("tree"));
}

#[test]
fn sockets_and_pipes_are_left_out_and_named() {
    let dir = directory();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    fs::write(tree.join("file"), "x").unwrap();
    let report = Receiver::start().send(&tree).unwrap();
    assert_eq!((report.files, report.skipped.len()), (1, 1));
    assert!(report.skipped[0].starts_with("tree/socket: "), "{:?}", report.skipped);
}

//! Transfers between real processes: what a person sees, `kill -9` of either end, a disk that becomes full.

use crate::loop_device::LoopDisk;
use crate::process::wait_until;
use std::io::{BufRead, BufReader, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;

/// Bytes of a file that is killed in the middle.
const FILE_BYTES: usize = 64 << 20;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("transfer").stdin(Stdio::null()).env_remove("INDELIBLE_TRANSFER_TOKEN");
    command
}

/// A receiver, killed when dropped.
pub(crate) struct Receiver {
    child: Child,
    pub(crate) address: String,
}

impl Receiver {
    pub(crate) fn start(dir: &Path, options: &[&str]) -> Receiver {
        Self::start_at("127.0.0.1:0", dir, options)
    }

    pub(crate) fn start_at(address: &str, dir: &Path, options: &[&str]) -> Receiver {
        let mut command = program();
        command.arg("serve").arg(dir).args(["--listen", address, "--keep-free", "0"]);
        let mut child =
            command.args(options).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Receiver { child, address }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _already_waited_for = self.child.wait();
    }
}

fn sender(path: &Path, address: &str) -> Command {
    sender_for(path, address, "4M")
}

/// A sender that reckons with a device's cache of this size.
pub(crate) fn sender_for(path: &Path, address: &str, device_cache: &str) -> Command {
    let mut command = program();
    command.args(["send", "--json", "--device-cache", device_cache]).arg(path).arg(address);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn text(output: &Output) -> String {
    let all = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

/// A number of the JSON that a transfer prints.
pub(crate) fn number(output: &Output, name: &str) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let value = text.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("{text}"));
    value.split(|char: char| !char.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Bytes without a pattern.
pub(crate) fn random_file(path: &Path, bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let contents: Vec<u8> = words.take(bytes / 8).flatten().collect();
    std::fs::write(path, &contents).unwrap();
    contents
}

/// Bytes on disk of what is on its way.
fn staged_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir.join(".indelible-transfer")) else { return 0 };
    let staged = entries.filter_map(|entry| entry.ok()?.metadata().ok());
    staged.map(|file| file.size().min(file.blocks() * 512)).sum()
}

#[test]
fn a_file_with_any_name_arrives_and_json_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"\xff\n\"name\"");
    let file = dir.path().join(name);
    let contents = random_file(&file, 1 << 20);
    let receiver = Receiver::start(to.path(), &[]);
    let output = sender(&file, &format!("{}/sub", receiver.address)).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!((number(&output, "files"), number(&output, "verified_bytes")), (1, 1 << 20));
    assert!(std::fs::read(to.path().join("sub").join(name)).unwrap() == contents);

    let back = tempfile::tempdir().unwrap();
    let mut fetch = program();
    fetch.args(["fetch", &receiver.address]).arg(back.path()).args(["--device-cache", "1M"]);
    let output = fetch.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).starts_with("1 files, 1 directories, 0 links: 1.0 MiB in "));
    assert!(std::fs::read(back.path().join("sub").join(name)).unwrap() == contents);
}

#[test]
fn other_machines_want_a_token_and_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut serve = program();
    serve.arg("serve").arg(dir.path()).args(["--listen", "0.0.0.0:0"]);
    let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let told = lines.nth(1).unwrap().unwrap();
    let token = told.trim().strip_prefix("export INDELIBLE_TRANSFER_TOKEN=").unwrap().to_owned();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.trim().rsplit(':').next().unwrap().parse().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let address = format!("127.0.0.1:{port}/in");
    let without = sender(&file, &address).output().unwrap();
    let with = sender(&file, &address).env("INDELIBLE_TRANSFER_TOKEN", &token).output().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without).contains("wants a token"), "{}", text(&without));
    assert!(with.status.success(), "{}", text(&with));
}

/// Sends a file, and kills one end when so much of it is staged. What the destination was then.
fn kill_at(
    share: u64,
    which: impl Fn(&mut Receiver, &mut Child),
) -> (PathBuf, [tempfile::TempDir; 2]) {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let file = dirs[0].path().join("file");
    random_file(&file, FILE_BYTES);
    let to = dirs[1].path();
    let mut receiver = Receiver::start(to, &[]);
    let mut child = sender(&file, &receiver.address).spawn().unwrap();
    wait_until(|| {
        staged_bytes(to) >= FILE_BYTES as u64 * share / 100
            || to.join("file").exists()
            || child.try_wait().unwrap().is_some()
    });
    which(&mut receiver, &mut child);
    child.wait().unwrap();
    if let Ok(arrived) = std::fs::read(to.join("file")) {
        assert!(arrived == std::fs::read(&file).unwrap(), "half-good at {share} %");
    }
    (file, dirs)
}

#[test]
fn a_killed_receiver_and_a_killed_sender_leave_nothing_half_good_and_the_next_one_goes_on() {
    for share in [0, 20, 50, 90, 100] {
        for kill_receiver in [true, false] {
            let (file, dirs) =
                kill_at(
                    share,
                    |receiver, child| {
                        if kill_receiver { receiver.kill() } else { child.kill().unwrap() }
                    },
                );
            let to = dirs[1].path();
            let before = staged_bytes(to);
            let receiver = Receiver::start(to, &[]);
            let output = sender(&file, &receiver.address).output().unwrap();
            assert!(output.status.success(), "{}", text(&output));
            assert!(std::fs::read(to.join("file")).unwrap() == std::fs::read(&file).unwrap());
            let checked = number(&output, "verified_bytes") + number(&output, "unchanged_bytes");
            assert_eq!(checked, FILE_BYTES as u64, "{before} bytes were staged");
            assert_eq!(staged_bytes(to), 0);
        }
    }
}

#[test]
fn a_disk_that_is_too_small_is_refused_and_one_that_becomes_full_fails_the_file() {
    let Some(disk) = LoopDisk::new(96 << 20) else { return };
    let from = tempfile::tempdir().unwrap();
    let file = from.path().join("file");
    random_file(&file, FILE_BYTES);
    std::fs::create_dir(disk.data()).unwrap();
    let receiver = Receiver::start(&disk.data(), &[]);
    disk.add_ballast(disk.available_bytes() - (32 << 20));
    let output = sender(&file, &receiver.address).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("not enough room"), "{}", text(&output));
    disk.drop_ballast();

    // There is room when it begins, and then another process takes it.
    let tree = from.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for number in 0..(FILE_BYTES >> 20) {
        // Smaller than what space is reserved for.
        random_file(&tree.join(format!("{number:02}")), 1_000_000);
    }
    let (address, gate) = gate(&receiver.address, FILE_BYTES / 4);
    let child = sender(&tree, &address).spawn().unwrap();
    gate.wait();
    wait_until(|| staged_bytes(&disk.data()) > 0 || disk.data().join("tree/00").exists());
    disk.fill_with_ballast();
    gate.open();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("No space left"), "{}", text(&output));
    let arrived = std::fs::read_dir(disk.data().join("tree")).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let sent = std::fs::read(tree.join(entry.file_name())).unwrap();
        assert!(std::fs::read(entry.path()).unwrap() == sent, "half-good: {entry:?}");
    });
    // What came before is there, the others are named.
    let (arrived, files) = (arrived.count(), FILE_BYTES >> 20);
    assert!((1..files).contains(&arrived), "{arrived} of {files} files");
    assert_eq!(text(&output).matches("\"what\":").count(), files - arrived, "{}", text(&output));
    assert_eq!(staged_bytes(&disk.data()), 0);
    disk.drop_ballast();
    let output = sender(&tree, &receiver.address).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// A wire to a receiver that lets so many bytes through, and the others when it is told.
struct Gate {
    reached: mpsc::Receiver<()>,
    opened: mpsc::Sender<()>,
}

impl Gate {
    /// Waits until the sender stands before it.
    fn wait(&self) {
        self.reached.recv().unwrap();
    }

    fn open(&self) {
        self.opened.send(()).unwrap();
    }
}

/// Makes a gate; where to connect to.
fn gate(receiver: &str, bytes: usize) -> (String, Gate) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut to_server = TcpStream::connect(receiver).unwrap();
    let (reaches, reached) = mpsc::channel();
    let (opened, opens) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut from_client, _) = listener.accept().unwrap();
        let (mut back, mut answers) =
            (from_client.try_clone().unwrap(), to_server.try_clone().unwrap());
        let answering = std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
        let mut first = (&mut from_client).take(bytes as u64);
        std::io::copy(&mut first, &mut to_server).unwrap();
        reaches.send(()).unwrap();
        opens.recv().unwrap();
        // Either end may hang up now.
        let _ended = std::io::copy(&mut from_client, &mut to_server);
        let _gone = to_server.shutdown(Shutdown::Write);
        let _ended = answering.join();
    });
    (address, Gate { reached, opened })
}

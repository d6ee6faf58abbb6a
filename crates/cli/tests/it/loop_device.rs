//! Disks to break: an ext4 file system in a file, mounted through a loop device.
//!
//! ```text
//!   server ─► ext4 (page cache: what is not synced) ─► loop device ─► image file
//!                        ╎ lost by a cut                              └ kept
//! ```
//!
//! A power cut is made in one of two ways. A [`PowerSwitch`] leaves the file system no chance to write
//! another byte, in the middle of whatever it is doing (`FS_IOC_SHUTDOWN`). A process that syncs at that moment may
//! wrongly be told that it went well, so the processes that use the disk must have got their SIGKILL
//! before: then none of their threads comes back from the kernel. [`LoopDisk::restore_copy`] goes on with a
//! copy of the image that was taken while the file system was mounted: whatever had not reached the device
//! is not in it. The journal is committed only by a sync (`commit=300`), so nothing becomes
//! durable by luck, and nothing is ordered while the image is copied as long as no process syncs.
//!
//! Mounting needs root; without it, or without loop devices, tests say so and are skipped. Everything
//! is unmounted when the disk is dropped, and with it the loop device goes.

use crate::shutdown_ioctl;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A small disk of its own.
pub(crate) struct LoopDisk {
    directory: TempDir,
    is_mounted: bool,
}

impl LoopDisk {
    /// Makes and mounts a disk; nothing, and a line that says why, where that is not possible.
    pub(crate) fn new(bytes: u64) -> Option<LoopDisk> {
        match Self::try_new(bytes) {
            Ok(disk) => Some(disk),
            Err(why) => {
                testing::skipped("root and loop devices", why);
                None
            }
        }
    }

    /// So many disks, or none.
    pub(crate) fn several(count: usize, bytes: u64) -> Option<Vec<LoopDisk>> {
        (0..count).map(|_| Self::new(bytes)).collect()
    }

    fn try_new(bytes: u64) -> Result<LoopDisk, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut disk = LoopDisk { directory, is_mounted: false };
        let image = File::create(disk.image()).map_err(|error| error.to_string())?;
        image.set_len(bytes).map_err(|error| error.to_string())?;
        std::fs::create_dir(disk.path()).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(disk.image()))?;
        disk.try_mount()?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }

    /// A directory on it, for data.
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn try_mount(&mut self) -> Result<(), String> {
        let options = ["-t", "ext4", "-o", "loop,noatime,commit=300"];
        run(Command::new("mount").args(options).arg(self.image()).arg(self.path()))?;
        self.is_mounted = true;
        Ok(())
    }

    /// Unmounts it, once it is no longer in use.
    fn unmount(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while self.is_mounted {
            match run(Command::new("umount").arg(self.path())) {
                Ok(()) => self.is_mounted = false,
                Err(_) if started.elapsed() < Duration::from_secs(10) => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// What takes its power.
    pub(crate) fn switch(&self) -> PowerSwitch {
        PowerSwitch(File::open(self.path()).unwrap())
    }

    /// Mounts what is on the device after the power was lost. It must not be in use.
    ///
    /// A process with a mount namespace of its own (`ip netns exec` makes one) that was started while
    /// the disk was mounted keeps the file system alive behind the back of `umount`, and mounting the
    /// same file again would find that one, which has no power: so it goes on with a copy.
    pub(crate) fn restore(&mut self) {
        self.unmount().unwrap();
        let copy = self.copy_image();
        self.replace_image(&copy);
    }

    /// Takes the image as it is now, while the file system is mounted, and goes on with that. No process may
    /// be using the disk, so that nothing is synced meanwhile.
    pub(crate) fn restore_copy(&mut self) {
        let copy = self.copy_image();
        self.unmount().unwrap();
        self.replace_image(&copy);
    }

    fn copy_image(&self) -> PathBuf {
        let copy = self.directory.path().join("copy");
        run(Command::new("cp").arg("--sparse=always").arg(self.image()).arg(&copy)).unwrap();
        copy
    }

    fn replace_image(&mut self, copy: &Path) {
        std::fs::rename(copy, self.image()).unwrap();
        self.try_mount().unwrap();
    }

    /// Takes all the room that is left, in a file that [`LoopDisk::drop_ballast`] removes.
    pub(crate) fn fill_with_ballast(&self) {
        self.add_ballast(u64::MAX);
    }

    /// Takes so many bytes of the room that is left.
    pub(crate) fn add_ballast(&self, bytes: u64) {
        use std::io::Write;
        let path = self.ballast();
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        let mut written = 0;
        // Small pieces at the end, so that not a block is left.
        for piece_bytes in [1 << 20, 4096, 512] {
            let piece = vec![b'.'; piece_bytes];
            while written < bytes && file.write_all(&piece).is_ok() {
                written += piece.len() as u64;
            }
        }
        // What the page cache has promised, the device must keep.
        let _full = file.sync_all();
    }

    /// Gives the room back that the ballast takes.
    pub(crate) fn drop_ballast(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
        run(Command::new("sync").arg("-f").arg(self.path())).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// How many bytes can still be written.
    pub(crate) fn available_bytes(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.path()).unwrap();
        stat.f_bavail * stat.f_frsize
    }
}

/// See the file's top. It keeps the disk from being unmounted.
pub(crate) struct PowerSwitch(File);

impl PowerSwitch {
    /// From now on nothing reaches the device: what was not synced is gone.
    pub(crate) fn off(self) {
        shutdown_ioctl::shut_down(&self.0).unwrap();
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if let Err(why) = self.unmount() {
            // Let it go with its last user.
            let _nothing_else_to_do = run(Command::new("umount").arg("--lazy").arg(self.path()));
            println!("{} was in use: {why}", self.path().display());
        }
    }
}

/// Runs a command; what it says when it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// The paths as the words of `--log-devices`.
pub(crate) fn texts(paths: impl IntoIterator<Item = PathBuf>) -> Vec<String> {
    paths.into_iter().map(|path| path.display().to_string()).collect()
}

#[test]
fn a_disk_forgets_what_was_not_synced() {
    for by_copy in [false, true] {
        let Some(mut disk) = LoopDisk::new(16 << 20) else { return };
        let write = |name: &str, sync: bool| {
            let path = disk.path().join(name);
            std::fs::write(&path, name).unwrap();
            if sync {
                File::open(&path).unwrap().sync_all().unwrap();
            }
        };
        write("synced", true);
        write("not", false);
        if by_copy {
            disk.restore_copy();
        } else {
            disk.switch().off();
            assert!(std::fs::write(disk.path().join("late"), "").is_err());
            disk.restore();
        }
        let there = |name: &str| Path::new(&disk.path().join(name)).exists();
        assert_eq!(["synced", "not", "late"].map(there), [true, false, false], "{by_copy}");
    }
}

#[test]
fn a_disk_comes_back_although_somebody_keeps_the_file_system() {
    let Some(mut disk) = LoopDisk::new(16 << 20) else { return };
    let mut keeper = Command::new("unshare");
    keeper.args(["--mount", "--propagation", "private", "sh", "-c", "echo ready; exec sleep 60"]);
    let mut keeper = match keeper.stdout(Stdio::piped()).spawn() {
        Ok(keeper) => keeper,
        Err(why) => return testing::skipped("unshare", why),
    };
    let mut ready = [0; 6];
    keeper.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    disk.switch().off();
    disk.restore();
    let written = std::fs::write(disk.path().join("name"), "news");
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    written.unwrap();
}

//! What a server needs of the file system and the disk of a directory.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use rustix::fs::{OFlags, statvfs};

use super::Finding;
use crate::size::Size;

/// How many syncs are timed, at most.
const SYNCS: usize = 500;
/// For how long.
const SYNCING: Duration = Duration::from_secs(2);
/// A block of the log, if it is small.
const BLOCK_BYTES: usize = 4096;
/// How many files are looked at.
const FILES_MAX: usize = 100_000;
/// A clock may be behind the disk's by so much.
const AHEAD: Duration = Duration::from_secs(60);

/// A file system that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    kind: String,
    source: String,
    options: String,
}

/// Looks at a directory.
///
/// # Errors
/// When it is none, or nothing can be written there.
pub(super) fn look(directory: &Path) -> anyhow::Result<Vec<Finding>> {
    let shown = directory.display().to_string();
    let directory = fs::canonicalize(directory).with_context(|| shown.clone())?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = mount_of(&mounts, &directory);
    let mut findings = Vec::new();
    if let Some(mount) = &mount {
        findings.push(file_system(&shown, mount));
        findings.push(options(&shown, mount));
    }
    let (bytes, newest) = contents(&directory);
    findings.push(room(&shown, &directory, bytes)?);
    findings.extend(newest.and_then(|newest| times(&shown, newest, SystemTime::now())));
    let trial = Trial::begin(&directory)
        .with_context(|| format!("{shown}: nothing can be written there"))?;
    findings.push(trial.syncs(&shown)?);
    findings.push(trial.links(&shown));
    findings.push(trial.direct_writes(&shown));
    Ok(findings)
}

/// The file system that a path is on: of those with the longest mount point the last one, which covers the others.
fn mount_of(mounts: &str, path: &Path) -> Option<Mount> {
    let parse = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let mut right = right.split(' ');
        let (point, own) = (left.get(4)?, left.get(5)?);
        let (kind, source, common) = (right.next()?, right.next()?, right.next()?);
        let point = PathBuf::from(unescaped(point));
        let options = format!("{own},{common}");
        path.starts_with(&point).then(|| Mount {
            point,
            kind: kind.to_owned(),
            source: unescaped(source),
            options,
        })
    };
    mounts.lines().filter_map(parse).max_by_key(|mount| mount.point.components().count())
}

/// What the kernel writes of a space is `\040`.
fn unescaped(text: &str) -> String {
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    codes.iter().fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

fn file_system(of: &str, mount: &Mount) -> Finding {
    let kind = &*mount.kind;
    let is_remote = kind.starts_with("fuse") || kind.starts_with("nfs");
    let advice = match kind {
        "ext4" | "xfs" => None,
        "tmpfs" | "ramfs" => {
            Some("it is memory: nothing survives the end of the machine; put the log on a disk")
        }
        "overlay" | "aufs" => {
            Some("it is a container's own layer, and goes with it: mount a volume there")
        }
        "btrfs" | "zfs" => Some(
            "each write goes elsewhere, so a sync writes more than one on ext4 or XFS; on btrfs `chattr +C` of an empty directory avoids that, and its checksums: the log has its own",
        ),
        "cifs" | "smb3" | "9p" | "virtiofs" | "ceph" | "glusterfs" | "vboxsf" => Some(REMOTE),
        _ if is_remote => Some(REMOTE),
        _ => Some("the log was not tried there: ext4 and XFS are what it is tested on"),
    };
    Finding::new(of, "file system", format!("{kind} on {}", mount.source), advice)
}

const REMOTE: &str = "it is over a network, or another program's: whether a sync is one, and a lock holds, is up to that; put the log on a local disk";

fn options(of: &str, mount: &Mount) -> Finding {
    let has = |wanted: &[&str]| mount.options.split(',').any(|option| wanted.contains(&option));
    let advice = if has(&["nobarrier", "barrier=0"]) {
        Some(
            "without barriers a power failure loses what was acknowledged: mount without that option",
        )
    } else if mount.options.split(',').next() == Some("ro") {
        Some("it cannot be written to: mount it again with rw")
    } else if has(&["sync"]) {
        Some(
            "each write is synced, the index's too: mount without `sync`, the log syncs what must be",
        )
    } else {
        None
    };
    Finding::new(of, "mount options", mount.options.clone(), advice)
}

/// The bytes of the files in a directory, and when the newest one was written.
fn contents(directory: &Path) -> (u64, Option<SystemTime>) {
    let (mut bytes, mut newest, mut looked_at) = (0, None, 0);
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            looked_at += 1;
            let Ok(about) = entry.metadata() else { continue };
            if looked_at > FILES_MAX {
                return (bytes, newest);
            }
            if about.is_dir() {
                directories.push(entry.path());
            } else if about.is_file() {
                bytes += about.len();
                newest = newest.max(about.modified().ok());
            }
        }
    }
    (bytes, newest)
}

fn room(of: &str, directory: &Path, used: u64) -> anyhow::Result<Finding> {
    let about = statvfs(directory).with_context(|| of.to_owned())?;
    let (total, free) = (about.f_blocks * about.f_frsize, about.f_bavail * about.f_frsize);
    let seen =
        format!("{} of {} are free, {} are in use here", Size(free), Size(total), Size(used));
    let advice = if about.f_files > 0 && about.f_favail < 1000 {
        Some(
            "there is hardly a name left for another file (inodes): remove files, or make the file system anew with more",
        )
    } else if free < used || free < total / 20 {
        Some(
            "the log needs as much again as the data, and history and backups what is written in their time: make room before it is full, then writes are refused",
        )
    } else {
        None
    };
    Ok(Finding::new(of, "room", seen, advice))
}

/// Files from the future.
fn times(of: &str, newest: SystemTime, now: SystemTime) -> Option<Finding> {
    let ahead = newest.duration_since(now).ok().filter(|ahead| *ahead > AHEAD)?;
    let seen = format!("a file here was written {} s after now", ahead.as_secs());
    let advice = "the clock was set back, or was ahead: keys would expire late, and times of backups are wrong; let it be set by NTP or chrony before the server starts";
    Some(Finding::new(of, "clock", seen, Some(advice)))
}

/// A file that is made to try the disk, and removed.
struct Trial {
    path: PathBuf,
    file: File,
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.path);
    }
}

impl Trial {
    fn begin(directory: &Path) -> std::io::Result<Self> {
        let path = directory.join(format!("doctor.{}.tmp", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let trial = Self { path, file };
        trial.file.write_all_at(&[0; BLOCK_BYTES], 0)?;
        trial.file.sync_all()?;
        Ok(trial)
    }

    fn syncs(&self, of: &str) -> anyhow::Result<Finding> {
        let (begun, mut took) = (Instant::now(), Vec::new());
        while took.len() < SYNCS && begun.elapsed() < SYNCING {
            let byte = u8::try_from(took.len() % 251).expect("less than 251");
            let sent = Instant::now();
            self.file.write_all_at(&[byte; BLOCK_BYTES], 0).with_context(|| of.to_owned())?;
            self.file.sync_data().with_context(|| of.to_owned())?;
            took.push(sent.elapsed());
        }
        Ok(syncs(of, took))
    }

    /// History keeps what a compaction replaces by hard links.
    fn links(&self, of: &str) -> Finding {
        let other = self.path.with_extension("link");
        let linked = fs::hard_link(&self.path, &other);
        let _gone = fs::remove_file(&other);
        match linked {
            Ok(()) => Finding::good(of, "hard links", "yes"),
            Err(error) => Finding::new(
                of,
                "hard links",
                error.to_string(),
                Some(
                    "without them there is no history, and no backup of the past (log-history-seconds): use ext4 or XFS",
                ),
            ),
        }
    }

    fn direct_writes(&self, of: &str) -> Finding {
        let flags = OFlags::DIRECT.bits().cast_signed();
        let opened = OpenOptions::new().write(true).custom_flags(flags).open(&self.path);
        match opened {
            Ok(_) => Finding::good(of, "writes past the page cache", "yes"),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                Finding::good(of, "writes past the page cache", "no: the log is written through it")
            }
            Err(error) => Finding::good(of, "writes past the page cache", error.to_string()),
        }
    }
}

fn syncs(of: &str, mut took: Vec<Duration>) -> Finding {
    took.sort_unstable();
    let at = |share: usize| took.get((took.len() * share / 100).min(took.len() - 1)).copied();
    let [p50, p99, most] = [50, 99, 100].map(|share| at(share).unwrap_or_default());
    let seen = format!(
        "p50 {}, p99 {}, at most {} of {}",
        shown(p50),
        shown(p99),
        shown(most),
        took.len()
    );
    let advice = if p50 < Duration::from_micros(15) {
        Some(
            "no disk is as quick: a sync may be ignored (a hypervisor's cache, a file system in memory), and a power failure loses what was acknowledged; ask what is below",
        )
    } else if p50 > Duration::from_millis(10) {
        Some(
            "with appendfsync always a client that sends one write at a time gets fewer than a hundred a second: use a disk with a cache that survives, more clients, pipelines, or everysec",
        )
    } else if p99 > Duration::from_millis(100) {
        Some(
            "one write in a hundred waits for longer than a tenth of a second: look what else uses the disk, or whether it is throttled",
        )
    } else {
        None
    };
    Finding::new(of, "syncs", seen, advice)
}

fn shown(time: Duration) -> String {
    match time.as_micros() {
        us if us < 10_000 => format!("{us} µs"),
        us => format!("{} ms", us / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 22 0:40 / /tmp rw,nosuid - tmpfs tmpfs rw,size=10m
31 22 8:1 / /srv/my\\040data rw,relatime shared:5 - ext4 /dev/sda1 rw,barrier=0
32 22 0:50 / /srv/remote ro,relatime - nfs4 host:/export rw,vers=4.2
";

    #[test]
    fn a_path_is_on_the_file_system_that_is_nearest() {
        let of = |path: &str| mount_of(MOUNTS, Path::new(path)).unwrap();
        assert_eq!((&*of("/var/lib").kind, &*of("/var/lib").source), ("ext4", "/dev/vda"));
        assert_eq!(of("/tmpx").source, "/dev/vda", "names are compared whole");
        let advice =
            |path: &str| (file_system("", &of(path)).advice, options("", &of(path)).advice);
        assert_eq!(advice("/var"), (None, None));
        assert!(advice("/tmp/a").0.unwrap().contains("memory"));
        assert!(advice("/srv/my data/a").1.unwrap().contains("barriers"));
        let (kind, options) = advice("/srv/remote");
        assert!(kind.unwrap().contains("network") && options.unwrap().contains("rw"));
    }

    #[test]
    fn syncs_that_take_no_time_or_too_much_are_told() {
        let advice = |us: u64| syncs("", vec![Duration::from_micros(us); 100]).advice;
        assert!(advice(3).unwrap().contains("no disk is as quick"));
        assert_eq!(advice(200), None);
        assert!(advice(20_000).unwrap().contains("everysec"));
        let mut some = vec![Duration::from_micros(200); 98];
        some.extend([Duration::from_millis(300); 2]);
        assert!(syncs("", some).advice.unwrap().contains("throttled"));
    }

    #[test]
    fn a_directory_is_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), [0; 1000]).unwrap();
        let findings = look(directory.path()).unwrap();
        let whats: Vec<&str> = findings.iter().map(|finding| finding.what).collect();
        assert!(whats.contains(&"syncs") && whats.contains(&"room"), "{whats:?}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(look(&directory.path().join("none")).is_err());
        let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
        assert!(times("", now + hour, now).is_some() && times("", now, now).is_none());
    }
}

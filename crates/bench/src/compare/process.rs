//! What the kernel counts of a process and its children: processor time by thread, device bytes, memory.

use std::collections::BTreeMap;
use std::fs;

/// The kernel counts the processor time of a process in hundredths of a second.
const TICK_US: f64 = 10_000.0;

/// A server, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process(pub(super) u32);

/// Counts since the process started.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counts {
    /// Processor time in microseconds of the process and its children, those included that have ended.
    pub(super) cpu_us: f64,
    /// Processor time in microseconds of each thread that is there, by process, thread and name.
    pub(super) threads_us: BTreeMap<(u32, u32, String), f64>,
    /// Bytes that the process and its children had read from devices, and had written to them. `None` if it is not told.
    pub(super) device_bytes: Option<(u64, u64)>,
}

impl Process {
    /// Reads the counts; zeros when the process has ended.
    pub(super) fn counts(self) -> Counts {
        let mut counts = Counts::default();
        for pid in self.family() {
            let [user, system, of_children @ ..] = stat(pid).cpu_ticks;
            counts.cpu_us += (user + system) * TICK_US;
            counts.cpu_us += of_children.iter().sum::<f64>() * TICK_US;
            counts.threads_us.extend(threads(pid));
            if let Some((read, written)) = device_bytes(pid) {
                let sum = counts.device_bytes.get_or_insert_default();
                *sum = (sum.0 + read, sum.1 + written);
            }
        }
        counts
    }

    /// Returns the memory of the process and its children, where what they share counts once. The kernel walks
    /// their pages for it. `None` if it is not told.
    pub(super) fn pss_bytes(self) -> Option<u64> {
        self.family().into_iter().filter_map(pss_bytes).reduce(|one, other| one + other)
    }

    /// The words that it was started with; none when it has ended.
    pub(super) fn command(self) -> Vec<String> {
        let words = fs::read(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        let words = words.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    /// The process and all that descend from it.
    fn family(self) -> Vec<u32> {
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let parents: Vec<(u32, u32)> = numbers.map(|pid| (pid, stat(pid).parent)).collect();
        let mut family = vec![self.0];
        let mut at = 0;
        while at < family.len() {
            let children = parents.iter().filter(|(_, parent)| *parent == family[at]);
            let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
            family.extend(children);
            at += 1;
        }
        family
    }
}

/// What is used of `/proc/PID/stat`; zeros when the process has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Stat {
    parent: u32,
    /// User and system time, and those of children that were waited for.
    cpu_ticks: [f64; 4],
}

fn stat(pid: u32) -> Stat {
    stat_of(&fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default())
}

fn stat_of(text: &str) -> Stat {
    // The name of the program, in parentheses, may contain spaces.
    let fields: Vec<&str> =
        text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    Stat {
        parent: fields.get(1).and_then(|field| field.parse().ok()).unwrap_or_default(),
        cpu_ticks: [11, 12, 13, 14].map(|index| number(index).unwrap_or_default()),
    }
}

/// The threads of a process, by the scheduler's account, in nanoseconds; or by ticks where it has none.
fn threads(pid: u32) -> Vec<((u32, u32, String), f64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let thread = |task: fs::DirEntry| {
        let read = |name| fs::read_to_string(task.path().join(name)).ok();
        let number = task.file_name().to_str()?.parse().ok()?;
        let name = read("comm")?.trim().to_owned();
        let scheduled = read("schedstat").and_then(|text| {
            text.split_whitespace().next()?.parse::<f64>().ok().filter(|ns| *ns > 0.0)
        });
        let us = match scheduled {
            Some(ns) => ns / 1000.0,
            None => stat_of(&read("stat")?).cpu_ticks[..2].iter().sum::<f64>() * TICK_US,
        };
        Some(((pid, number, name), us))
    };
    tasks.filter_map(thread).collect()
}

fn device_bytes(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let of = |name| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((of("read_bytes:")?, of("write_bytes:")?))
}

fn pss_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let kb = |line: &str| {
        line.strip_prefix("Pss:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    text.lines().find_map(kb).map(|kb| kb * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_any_name() {
        let text = "7 (a) b (c) S 3 7 7 0 -1 4194304 1 2 3 4 50 60 70 80 20 0 1 0 9";
        assert_eq!(stat_of(text), Stat { parent: 3, cpu_ticks: [50.0, 60.0, 70.0, 80.0] });
        assert_eq!(stat_of(""), Stat::default());
    }

    #[test]
    fn a_thread_that_works_is_told_by_its_name() {
        let process = Process(std::process::id());
        let before = process.counts();
        let work = move || {
            let begun = std::time::Instant::now();
            let mut number = 1_u64;
            while begun.elapsed().as_millis() < 300 {
                number = std::hint::black_box(number.wrapping_mul(3));
            }
            process.counts()
        };
        let worker = std::thread::Builder::new().name("the-worker".to_owned()).spawn(work);
        let after = worker.unwrap().join().unwrap();
        // A processor may be shared: some of the 300 ms are the worker's.
        let us: f64 =
            after.threads_us.iter().filter(|(key, _)| key.2 == "the-worker").map(|it| *it.1).sum();
        assert!(us > 10_000.0 && us < 400_000.0, "{us}");
        assert!(after.cpu_us > before.cpu_us);
        assert!(process.pss_bytes().unwrap() > 100_000);
    }

    #[test]
    fn a_child_counts() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let family = Process(std::process::id()).family();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(family.contains(&child.id()) && family[0] == std::process::id(), "{family:?}");
    }
}

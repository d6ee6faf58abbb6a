//! What a server needs of the machine: open files, memory, connections that wait, a clock.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::size::Size;

const OF: &str = "machine";

/// What 10,000 clients, the default of maxclients, need, with what the server keeps for itself.
const FILES_MIN: u64 = 10_064;
/// The default of tcp-backlog.
const BACKLOG: u64 = 511;

/// Looks at the machine as a process of that number, or this one, sees it.
pub(super) fn look(process: Option<u32>) -> Vec<Finding> {
    let mut findings = vec![open_files(process), memory(process)];
    findings.extend(huge_pages(&read("/sys/kernel/mm/transparent_hugepage/enabled")));
    findings.extend(overcommit(&read("/proc/sys/vm/overcommit_memory")));
    findings.extend(backlog(&read("/proc/sys/net/core/somaxconn")));
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    findings.extend(clock(&read(source)));
    findings
}

/// A file's text; none if it cannot be read, as in a container.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn open_files(process: Option<u32>) -> Finding {
    let of_process = process.and_then(|pid| files_of(&read(&format!("/proc/{pid}/limits"))));
    let files =
        of_process.unwrap_or_else(|| getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX));
    let advice = (files < FILES_MIN).then_some(
        "that is less than 10,000 clients need, and maxclients is lowered: raise it with `ulimit -n 65536`, or LimitNOFILE= of the unit",
    );
    Finding::new(OF, "open files", format!("{files} at most"), advice)
}

/// The soft limit of open files in a `/proc/PID/limits`.
fn files_of(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn memory(process: Option<u32>) -> Finding {
    let info = read("/proc/meminfo");
    let kb = |name: &str| -> Option<u64> {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let (total, available) =
        (kb("MemTotal").unwrap_or(0) << 10, kb("MemAvailable").unwrap_or(0) << 10);
    let group = process.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let limit = limit_of(&read(&format!("/proc/{group}/cgroup"))).filter(|limit| *limit < total);
    let seen = format!("{} of {} are available", Size(available), Size(total));
    match limit {
        None => Finding::good(OF, "memory", seen),
        Some(limit) => {
            let seen = format!("{seen}; the control group may have {}", Size(limit));
            Finding::good(OF, "memory", format!("{seen}: maxmemory must be below that"))
        }
    }
}

/// The limit of memory of a control group, of either version.
fn limit_of(groups: &str) -> Option<u64> {
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (controllers, path) = (parts.nth(1)?, parts.next()?);
        let file = match controllers {
            "" => format!("/sys/fs/cgroup{path}/memory.max"),
            _ if controllers.split(',').any(|it| it == "memory") => {
                format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")
            }
            _ => return None,
        };
        read(&file).parse().ok()
    };
    groups.lines().find_map(of)
}

/// `always [madvise] never`
fn huge_pages(text: &str) -> Option<Finding> {
    let chosen = text.split(['[', ']']).nth(1)?;
    let advice = (chosen == "always").then_some(
        "memory that is given back in small pieces may stay in use: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    );
    Some(Finding::new(OF, "transparent huge pages", chosen, advice))
}

fn overcommit(text: &str) -> Option<Finding> {
    let advice = (text == "2").then_some(
        "memory may be refused while there is some: sysctl vm.overcommit_memory=0 (1 is not needed: nothing forks)",
    );
    (!text.is_empty()).then(|| Finding::new(OF, "vm.overcommit_memory", text, advice))
}

fn backlog(text: &str) -> Option<Finding> {
    let most: u64 = text.parse().ok()?;
    let advice = (most < BACKLOG).then_some(
        "fewer connections wait to be accepted than tcp-backlog says: sysctl net.core.somaxconn=511, or more",
    );
    Some(Finding::new(OF, "net.core.somaxconn", text, advice))
}

fn clock(text: &str) -> Option<Finding> {
    let is_slow = matches!(text, "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies");
    let advice = is_slow.then_some(
        "each look at the clock is a call of the kernel, and each command has some: choose tsc (or the hypervisor's) in /sys/devices/system/clocksource/clocksource0",
    );
    (!text.is_empty()).then(|| Finding::new(OF, "source of the clock", text, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_as_the_kernel_writes_it() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             95961                95961                processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(files_of(limits), Some(1024));
        let has_advice = |finding: Option<Finding>| finding.unwrap().advice.is_some();
        assert!(has_advice(huge_pages("[always] madvise never")));
        assert!(!has_advice(huge_pages("always [madvise] never")));
        assert!(has_advice(overcommit("2")) && !has_advice(overcommit("0")));
        assert!(has_advice(backlog("128")) && !has_advice(backlog("4096")));
        assert!(has_advice(clock("hpet")) && !has_advice(clock("tsc")));
        assert_eq!((huge_pages(""), overcommit(""), clock("")), (None, None, None));
        assert!(!look(None).is_empty());
    }
}

//! What of the figures a person must act on: is the data safe, is the server well.
//!
//! The thresholds are those of docs/watch.md, where each has its reason.

use std::time::Duration;

use crate::report::LogDevice;
use crate::watch::Picture;

/// A picture that is older than this is said to be.
const OLD: Duration = Duration::from_secs(3);

/// How long a write or sync of the log takes at most when a disk is well.
const BUSY: Duration = Duration::from_secs(3);

/// How full memory is, in percent, when that is worth a word.
const MEMORY_PERCENT: u128 = 90;

/// How urgent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// For information.
    Note,
    /// Look at it today.
    Look,
    /// Act now: data is lost, or may be, or writes are refused.
    Danger,
}

/// One thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// What was seen.
    pub(crate) what: String,
    /// What to do.
    pub(crate) advice: &'static str,
}

/// Looks for what is wrong, the most urgent first.
pub(crate) fn findings(picture: &Picture) -> Vec<Finding> {
    let mut list = List::default();
    age(picture, &mut list);
    log(picture, &mut list);
    picture.report.devices.iter().for_each(|it| device(it, picture, &mut list));
    data(picture, &mut list);
    recovery(picture, &mut list);
    copies(picture, &mut list);
    memory(picture, &mut list);
    list.0.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    list.0
}

#[derive(Default)]
struct List(Vec<Finding>);

impl List {
    fn add(&mut self, level: Level, what: impl Into<String>, advice: &'static str) {
        self.0.push(Finding { level, what: what.into(), advice });
    }
}

fn age(picture: &Picture, list: &mut List) {
    let age = picture.at.elapsed();
    if age >= OLD {
        list.add(
            Level::Look,
            format!("The server has not answered for {} seconds", age.as_secs()),
            "It is busy with a long command or script, or has ended. All figures are of then.",
        );
    }
}

fn log(picture: &Picture, list: &mut List) {
    let info = &picture.info;
    if info.is("loading") {
        return;
    }
    if !info.is("redo_enabled") {
        let (level, what, advice) = if info.is("redo_turning_on") {
            (Level::Note, "The redo log is being turned on", "Nothing is durable until it is on.")
        } else {
            (
                Level::Look,
                "The redo log is off: nothing survives the end of the server",
                "appendonly yes turns it on.",
            )
        };
        list.add(level, what, advice);
        return;
    }
    let health = info.text("redo_health");
    if !health.is_empty() && health != "ok" {
        list.add(
            Level::Danger,
            format!("Writes are refused: {health}"),
            "Reads go on and nothing that was answered is lost. docs/operations.md: a full disk, a disk that has failed.",
        );
    }
    if info.is("redo_congested") {
        list.add(
            Level::Look,
            format!(
                "The log does not keep up: {} clients are held back",
                info.number("redo_clients_held_back")
            ),
            "If this lasts for minutes, the disk is too slow for the load, or compaction has no room.",
        );
    }
    if info.number("redo_compactions_failed") > 0 {
        list.add(
            since_start(picture, "redo_compactions_failed"),
            format!(
                "{} compactions have failed since the start",
                info.number("redo_compactions_failed")
            ),
            "Mostly there is no room for the file that is written: see the free space, and the log file.",
        );
    }
    let (errors, healed) = (info.number("redo_scrub_errors"), info.number("redo_scrub_healed"));
    if errors > 0 {
        list.add(
            if healed < errors { Level::Danger } else { since_start(picture, "redo_scrub_errors") },
            format!(
                "{errors} damaged files were found in the log since the start, {healed} were mended from memory"
            ),
            "The disk gives back other bytes than were written: replace it. docs/operations.md: a disk that has failed.",
        );
    }
    if info.text("redo_policy") != "always" {
        list.add(
            Level::Note,
            format!("appendfsync is {}", info.text("redo_policy")),
            "A power failure can lose the last second of answered writes, or more with no.",
        );
    }
}

/// How urgent a counter is that does not go back: worth a look for a day after it rose.
fn since_start(picture: &Picture, field: &str) -> Level {
    if picture.rises.is_recent(field, picture.at) { Level::Look } else { Level::Note }
}

fn device(device: &LogDevice, picture: &Picture, list: &mut List) {
    let held = picture.info.number("redo_held_replies");
    if device.busy >= BUSY {
        let seconds = device.busy.as_secs();
        let what = format!("{} has been at one write or sync for {seconds} seconds", device.path);
        let (level, what) = match held {
            0 => (Level::Look, format!("The log device {what}")),
            _ => (Level::Danger, format!("{held} replies are held: the log device {what}")),
        };
        list.add(
            level,
            what,
            "What is answered with appendfsync always is safe, and all else waits. The disk hangs, or is far too slow.",
        );
    }
    let why = device.last_error.as_deref().unwrap_or("no reason is known");
    let is_refusing = picture.info.text("aof_last_write_status") != "ok";
    let level = if is_refusing { Level::Danger } else { Level::Look };
    match device.state.as_str() {
        "Full" => list.add(
            level,
            format!("The disk of {} is full", device.path),
            "Make room: BACKUP DELETE, DEL, or what others have left there. Writes are taken again by themselves.",
        ),
        "Poisoned" => list.add(
            level,
            format!("The log device {} has failed: {why}", device.path),
            "It is not written to again. Add another disk to log-devices, then take this one off the list.",
        ),
        "Draining" => list.add(
            Level::Note,
            format!("The log device {} is being emptied", device.path),
            "It can be taken away when it is no longer shown.",
        ),
        _ => {}
    }
}

fn data(picture: &Picture, list: &mut List) {
    let lost = picture.info.number("lost_values");
    if lost > 0 {
        list.add(
            Level::Danger,
            format!("{lost} values are lost in damage of the log"),
            "Commands that need one reply -CORRUPT. The log file has their names; restore them from a backup or an archive.",
        );
    }
}

fn recovery(picture: &Picture, list: &mut List) {
    let info = &picture.info;
    match info.text("recovery_state") {
        "loading" => list.add(
            Level::Note,
            format!("The data is being loaded: {} %", info.text("loading_loaded_perc")),
            "Clients are answered -LOADING until it is there.",
        ),
        "restoring" => list.add(
            Level::Note,
            format!("{} keys are still in the log only", info.number("recovery_keys_cold")),
            "Clients are served: a key that a command needs is read first.",
        ),
        "on_demand" if info.number("recovery_keys_cold") == 0 => {}
        "failing" | "on_demand" => list.add(
            Level::Look,
            format!("The warm-up has stopped: {}", info.text("recovery_last_error")),
            "Keys are read when they are needed. See the log file.",
        ),
        _ => {}
    }
    if info.is("redo_index_given_up") {
        list.add(
            Level::Look,
            format!("The index of the log was given up: {}", info.text("redo_index_last_error")),
            "The next start reads the whole log.",
        );
    }
}

fn copies(picture: &Picture, list: &mut List) {
    let info = &picture.info;
    let archive = info.text("archive_state");
    if matches!(archive, "away" | "gap" | "fenced" | "failed") {
        list.add(
            Level::Look,
            format!("The archive is {archive}: {}", info.text("archive_last_error")),
            "What is written now is on this machine only. docs/archiving.md.",
        );
    }
    if info.number("archive_damaged_objects") > 0 {
        list.add(
            since_start(picture, "archive_damaged_objects"),
            format!(
                "{} objects of the archive were found damaged since the start",
                info.number("archive_damaged_objects")
            ),
            "indelible archive verify says which.",
        );
    }
    if info.number("backups_lost") > 0 {
        list.add(
            Level::Look,
            format!("{} backups cannot be restored any more", info.number("backups_lost")),
            "A file that they need is gone. BACKUP DELETE them, and make a new one: BACKUP CREATE.",
        );
    }
    if !info.text("backup_verify_error").is_empty() {
        list.add(
            Level::Look,
            format!("A backup was not found good: {}", info.text("backup_verify_error")),
            "BACKUP STATUS name says of which.",
        );
    }
    if info.text("rdb_last_bgsave_status") == "err" {
        list.add(Level::Look, "The last dump has failed", "See the log file, and the free space.");
    }
}

fn memory(picture: &Picture, list: &mut List) {
    let info = &picture.info;
    let (used, most) = (info.number("used_memory"), info.number("maxmemory"));
    let percent = u128::from(used) * 100 / u128::from(most.max(1));
    if most > 0 && percent >= MEMORY_PERCENT && info.text("maxmemory_policy") == "noeviction" {
        list.add(
            Level::Look,
            format!("Memory is {percent} % full, and maxmemory-policy is noeviction"),
            "Writes are refused when it is full. Raise maxmemory, or let values leave memory (cold-lfu).",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use std::time::Instant;

    const GOOD: &str = "loading:0\nredo_enabled:1\nredo_health:ok\nredo_policy:always\naof_last_write_status:ok\n\
                        recovery_state:done\n";

    fn found(more: &str, devices: Vec<LogDevice>) -> Vec<(Level, String)> {
        let report = Report { info: format!("{GOOD}{more}"), devices, ..Report::default() };
        let picture = Picture::of(report, Instant::now(), Vec::new());
        findings(&picture).into_iter().map(|it| (it.level, it.what)).collect()
    }

    fn only(more: &str) -> (Level, String) {
        let mut all = found(more, Vec::new());
        assert_eq!(all.len(), 1, "{more}: {all:?}");
        all.remove(0)
    }

    #[test]
    fn a_server_that_is_well_is_left_alone() {
        assert_eq!(found("", Vec::new()), []);
    }

    #[test]
    fn each_figure_that_is_wrong_is_found() {
        for (more, level, word) in [
            ("redo_health:no room", Level::Danger, "no room"),
            ("lost_values:2", Level::Danger, "2 values"),
            ("redo_scrub_errors:2\nredo_scrub_healed:1", Level::Danger, "2 damaged"),
            ("redo_scrub_errors:1\nredo_scrub_healed:1", Level::Look, "1 damaged"),
            ("redo_congested:1\nredo_clients_held_back:3", Level::Look, "3 clients"),
            ("redo_compactions_failed:4", Level::Look, "4 compactions"),
            ("redo_enabled:0", Level::Look, "nothing survives"),
            ("redo_policy:everysec", Level::Note, "everysec"),
            ("recovery_state:restoring\nrecovery_keys_cold:9", Level::Note, "9 keys"),
            ("recovery_state:failing", Level::Look, "warm-up"),
            ("recovery_state:on_demand\nrecovery_keys_cold:1", Level::Look, "warm-up"),
            ("archive_damaged_objects:1", Level::Look, "1 objects"),
            ("archive_state:gap", Level::Look, "gap"),
            ("backups_lost:1", Level::Look, "1 backups"),
            ("rdb_last_bgsave_status:err", Level::Look, "dump"),
            ("used_memory:95\nmaxmemory:100\nmaxmemory_policy:noeviction", Level::Look, "95 %"),
        ] {
            let (found_level, what) = only(more);
            assert_eq!(found_level, level, "{more}");
            assert!(what.contains(word), "{what}");
        }
        assert_eq!(found("archive_state:streaming\narchive_state:off", Vec::new()), []);
        assert_eq!(found("recovery_state:on_demand\nrecovery_keys_cold:0", Vec::new()), []);
    }

    #[test]
    fn what_has_failed_long_ago_is_a_note() {
        for more in ["redo_compactions_failed:4", "redo_scrub_errors:1\nredo_scrub_healed:1"] {
            let report = Report { info: format!("{GOOD}{more}"), ..Report::default() };
            let mut picture = Picture::of(report, Instant::now(), Vec::new());
            picture.at += crate::rises::RECENT;
            let levels: Vec<Level> = findings(&picture).iter().map(|it| it.level).collect();
            assert_eq!(levels, [Level::Note], "{more}");
        }
    }

    #[test]
    fn a_device_that_hangs_is_a_danger_where_clients_wait_for_it() {
        let busy = |ms| LogDevice { busy: Duration::from_millis(ms), ..LogDevice::default() };
        assert_eq!(found("redo_held_replies:7", vec![busy(2999)]), []);
        let (level, what) = found("redo_held_replies:7", vec![busy(3000)]).remove(0);
        assert_eq!(level, Level::Danger);
        assert!(what.contains("7 replies are held") && what.contains("3 seconds"), "{what}");
        assert_eq!(found("redo_held_replies:0", vec![busy(3000)])[0].0, Level::Look);
    }

    #[test]
    fn a_device_that_others_replace_is_no_danger() {
        let failed = || LogDevice { state: "Poisoned".to_owned(), ..LogDevice::default() };
        assert_eq!(found("", vec![failed()])[0].0, Level::Look);
        let refusing = found("aof_last_write_status:err\nredo_health:x", vec![failed()]);
        assert!(refusing.iter().all(|(level, _)| *level == Level::Danger), "{refusing:?}");
    }
}

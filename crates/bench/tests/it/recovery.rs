//! `indelible-bench recovery`: each scheme restores what was acknowledged, whenever it is killed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn recovery(dir: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible-bench"));
    command.args(["recovery", "--keys", "2000", "--records-per-key", "12", "--clients", "20"]);
    command.args(["--requests", "500", "--pool-mb", "16", "--dir"]).arg(dir).args(options);
    command.stdin(Stdio::null()).output().unwrap()
}

fn number_of(json: &serde_json::Value, name: &str) -> u64 {
    json[name].as_u64().unwrap_or_else(|| panic!("{name} is missing in {json}"))
}

#[test]
fn each_scheme_restores_exactly_what_was_acknowledged_before_a_kill() {
    // One directory: the database that all of them start from is filled once.
    let dir = tempfile::tempdir().unwrap();
    for (scheme, from) in [
        ("slr", "restored"),
        ("ailir", "restored"),
        ("ailir-newest", "served"),
        ("silir", "restored"),
        ("runs", "restored"),
        // Again in the middle of a recovery.
        ("ailir", "served"),
        ("silir", "served"),
        ("runs", "served"),
    ] {
        let (json, csv) = (dir.path().join("run.json"), dir.path().join("run.csv"));
        let time = if from == "served" { "0.001" } else { "0.3" };
        let crash = ["--scheme", scheme, "--workload", "rw", "--crash-at", time];
        let crash = [&crash[..], &["--crash-from", from, "--crashes", "2"]].concat();
        let files = ["--check", "--json", json.to_str().unwrap(), "--csv", csv.to_str().unwrap()];
        let run = recovery(dir.path(), &[&crash[..], &files[..]].concat());
        let complaint = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{scheme}: {complaint}");
        let said = String::from_utf8_lossy(&run.stdout);
        let acknowledged: Vec<u64> = said
            .lines()
            .filter_map(|line| line.strip_prefix("every write is there that was acknowledged: "))
            .map(|count| count.parse().unwrap())
            .collect();
        assert_eq!(acknowledged.len(), 2, "{scheme}: {said}");
        // A millisecond after it serves there may be none yet.
        let may_be_none = from == "served";
        assert!(may_be_none || acknowledged.iter().all(|count| *count > 0), "{scheme}: {said}");

        let text = std::fs::read_to_string(&json).unwrap();
        let outcome: serde_json::Value = serde_json::from_str(&text).unwrap();
        for time in ["restored_ms", "complete_ms"] {
            assert!(number_of(&outcome, time) >= number_of(&outcome, "serving_ms"), "{text}");
        }
        let steps = std::fs::read_to_string(&csv).unwrap();
        let column = |line: &str, index: usize| -> u64 {
            line.split(',').nth(index).unwrap().parse().unwrap()
        };
        let requests: u64 = steps.lines().skip(1).map(|line| column(line, 1)).sum();
        assert_eq!(requests, 20 * 500, "{scheme}: each request is in one step\n{steps}");
        assert_eq!(column(steps.lines().last().unwrap(), 5), 2000, "{scheme}: all is restored");
    }
}

#[test]
fn only_slr_waits_for_the_whole_log() {
    let dir = tempfile::tempdir().unwrap();
    let read = |scheme| {
        let json = dir.path().join("run.json");
        let files = ["--scheme", scheme, "--workload", "ro", "--json", json.to_str().unwrap()];
        assert!(recovery(dir.path(), &files).status.success(), "{scheme}");
        let outcome = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        number_of(&outcome, "records_read")
    };
    assert_eq!(read("slr"), 2000 * 12);
    for scheme in ["ailir", "ailir-newest", "silir", "runs"] {
        assert_eq!(read(scheme), 0, "{scheme}: its index was complete");
    }
}

#[test]
fn the_schemes_of_the_paper_do_not_compact() {
    let dir = tempfile::tempdir().unwrap();
    for scheme in ["ailir", "ailir-newest", "silir"] {
        let run = recovery(dir.path(), &["--scheme", scheme, "--compaction"]);
        assert!(!run.status.success());
        let complaint = String::from_utf8_lossy(&run.stderr);
        assert!(complaint.contains("--compaction is for slr and runs"), "{complaint}");
    }
    for scheme in ["slr", "runs"] {
        let compacted = ["--scheme", scheme, "--compaction", "--crash-at", "0.3", "--check"];
        let run = recovery(dir.path(), &compacted);
        assert!(run.status.success(), "{scheme}: {}", String::from_utf8_lossy(&run.stderr));
    }
}

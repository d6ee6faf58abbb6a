//! What `indelible backup` says and does with one state of a log or an archive, and with an archive as a whole.

use std::fs;

use serde_json::Value;

use crate::archive::{OPTIONS, catch_up, files, info, place, restore, run, start};
use crate::damage::said;
use crate::process::{Program, wait_until};
use crate::rdb_files::{digest_of, fill};

fn json(words: &[&str]) -> Value {
    let output = run(words);
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A state of an archive and of a data directory: shown, as a dump, restored for nothing.
#[test]
fn a_state_is_shown_exported_and_rehearsed() {
    let (place, url) = place();
    let server = start(&url, &[]);
    let mut connection = server.connect();
    fill(&mut connection);
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    let reply = connection.words("BACKUP CREATE named");
    let lsn: u64 = reply.elements()[1].text().trim_start_matches("lsn ").parse().unwrap();
    let digest = digest_of(&mut connection);
    for number in 0..50 {
        connection.words(&format!("SET later:{number} value"));
    }
    connection.words("FLUSHALL");
    catch_up(&mut connection);
    let directory = server.directory();
    let directory = directory.to_str().unwrap();
    let named = |source: &str| {
        let shown = json(&["backup", "show", "named", source, "--json"]);
        shown["lsn"].as_u64() == Some(lsn)
    };
    wait_until(|| run(&["backup", "show", "named", &url]).status.success());
    assert!(named(&url) && named(directory));
    let shown = said(&run(&["backup", "show", "named", &url]));
    assert!(shown.contains("named: block") && shown.contains("a restore reads"), "{shown}");
    let timeline = json(&["backup", "timeline", &url, "--json"]);
    assert_eq!(timeline["backups"][0]["name"], "named");
    for source in [&url, directory] {
        let file = place.path().join("dump.rdb");
        let file = file.to_str().unwrap();
        let words = ["backup", "export", source, file, "--at", "named", "--json", "--temporary"];
        let told = json(&[&words[..], &[place.path().to_str().unwrap()]].concat());
        assert_eq!(told["lsn"].as_u64(), Some(lsn));
        assert!(told["keys"].as_u64() > Some(5), "{told}");
        let check = run(&["rdb", "check", file]);
        assert!(check.status.success(), "{}", said(&check));
        fs::remove_file(file).unwrap();
        let temporary = place.path().join("temporary");
        fs::create_dir_all(&temporary).unwrap();
        let words = ["backup", "verify", source, "--restore", "--at", "named", "--json"];
        let told = json(&[&words[..], &["--temporary", temporary.to_str().unwrap()]].concat());
        assert_eq!(told["restored"]["lsn"].as_u64(), Some(lsn), "{told}");
        assert!(told["restored"]["keys"].as_u64() > Some(5), "{told}");
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "all of it is removed");
    }
    // The named state is what it was, when the server and its disk are gone.
    drop(server);
    let into = place.path().join("into");
    let output = restore(&url, &into, &["--at", "named"]);
    assert!(output.status.success(), "{}", said(&output));
    let restored = Program::indelible().start_on(&into, &OPTIONS);
    assert_eq!(digest_of(&mut restored.connect()), digest);
    for words in [
        &["backup", "show", "nothing", &url][..],
        &["backup", "show", "99999999", &url],
        &["backup", "verify", directory, "--at", "named"],
        &["backup", "verify", "/nowhere", "--restore"],
        &["backup", "export", &url, "/nowhere/at/all.rdb", "--at", "nothing"],
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", said(&output));
    }
}

#[test]
fn an_archive_is_tidied_from_anywhere_and_a_dry_run_changes_nothing() {
    let (place, url) = place();
    let server = start(&url, &["--archive-keep", "24h:all 7d:hour"]);
    let mut connection = server.connect();
    fill(&mut connection);
    wait_until(|| info(&mut connection, "archive_state") == "streaming");
    connection.words("BACKUP CREATE named");
    connection.words("SET later on");
    catch_up(&mut connection);
    wait_until(|| run(&["backup", "show", "named", &url]).status.success());
    let digest = digest_of(&mut connection);
    let rules = ["--keep", "1s:all 1h:minute 7d:hour"];
    let tidied = json(&[&["backup", "tidy", &url, "--dry-run", "--json"][..], &rules].concat());
    assert_eq!(tidied["dry_run"], true);
    // The server's own, which says what ages go on from.
    assert_eq!(files_of(&url, "tidier").len(), 1);
    let words = ["backup", "tidy", &url, "--json", "--grace", "0"];
    let tidied = json(&[&words[..], &rules].concat());
    assert!(tidied["states_after"].as_u64() > Some(0), "{tidied}");
    assert_eq!(files(&url, "tidier").len(), 1);
    // The server goes on.
    connection.words("SET after that");
    catch_up(&mut connection);
    for at in ["--at=named", "--latest"] {
        let into = place.path().join(at);
        let output = restore(&url, &into, &[at]);
        assert!(output.status.success(), "{}", said(&output));
        if at == "--latest" {
            let restored = Program::indelible().start_on(&into, &OPTIONS);
            let mut restored = restored.connect();
            assert_eq!(restored.words("DEL after").text(), "1");
            assert_eq!(digest_of(&mut restored), digest);
        }
    }
    let output = run(&["backup", "tidy", &url, "--forget", "named"]);
    assert!(output.status.success(), "{}", said(&output));
    let directory = server.directory();
    for words in [
        &["backup", "tidy", &url][..],
        &["backup", "tidy", &url, "--keep", "often"],
        &["backup", "tidy", &url, "--forget", "nothing"],
        &["backup", "tidy", directory.to_str().unwrap(), "--keep", "1d:all"],
        &["backup", "tidy", "file:///nowhere/at/all", "--keep", "1d:all"],
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", said(&output));
    }
}

/// The files of a folder that may not be there.
fn files_of(url: &str, folder: &str) -> Vec<std::path::PathBuf> {
    let root = std::path::PathBuf::from(url.strip_prefix("file://").unwrap());
    let database = fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    let Ok(entries) = fs::read_dir(database.join(folder)) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

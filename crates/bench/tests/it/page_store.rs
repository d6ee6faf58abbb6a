//! `indelible-bench pages` on stores that are intact, damaged, open or missing; their files do not
//! change.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Output;

use pages::{Durability, Options, PageStore};

fn indelible(action: &[&str], directory: &Path) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_indelible-bench"))
        .arg("pages")
        .args(action)
        .arg(directory)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Creates a store without closing it, so that there is something to recover.
fn make(directory: &Path) {
    let store = PageStore::open_path(directory, Options::default()).unwrap();
    let transaction = store.begin().unwrap();
    transaction.table("fruit").insert("apple", "\"red\"\n").unwrap();
    transaction.table("fruit").insert([0xff, 0], [b'x'; 3]).unwrap();
    transaction.commit(Durability::Immediate).unwrap();
    store.checkpoint_all().unwrap();
    let transaction = store.begin().unwrap();
    for number in 0..2500_u32 {
        transaction.table("numbers").insert(number.to_be_bytes(), number.to_string()).unwrap();
    }
    transaction.table("numbers").insert("large", [b'L'; 20_000]).unwrap();
    transaction.commit(Durability::Immediate).unwrap();
}

fn files(directory: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn a_store_is_checked_and_shown_without_being_changed() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    make(directory);
    let before = files(directory);
    let checked = indelible(&["check"], directory);
    assert!(checked.status.success(), "{checked:?}");
    assert!(out(&checked).starts_with("good: 2 tables, 2503 keys, "), "{}", out(&checked));
    let stats = out(&indelible(&["stats"], directory));
    assert!(stats.contains("table \"fruit\" about 2 entries\n"), "{stats}");
    assert!(stats.contains("table \"numbers\" about "), "{stats}");
    let text = out(&indelible(&["dump"], directory));
    assert!(text.starts_with("\"fruit\" \"apple\" \"\\\"red\\\"\\n\"\n"), "{}", &text[..80]);
    assert_eq!(text.lines().count(), 2503);
    let json = out(&indelible(&["dump", "--table", "fruit", "--json"], directory));
    let expected = "{\"table\":\"fruit\",\"key\":\"apple\",\"value\":\"\\\"red\\\"\\u000a\"}\n\
                    {\"table\":\"fruit\",\"key_hex\":\"ff00\",\"value\":\"xxx\"}\n";
    assert_eq!(json, expected);
    assert!(files(directory) == before, "something was written");
}

#[test]
fn damage_is_found_and_said_where_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    make(directory);
    let path = directory.join("pages.data");
    let mut bytes = std::fs::read(&path).unwrap();
    // The leaf of "fruit", in either slot.
    let at = bytes.windows(5).position(|window| window == b"apple").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let checked = indelible(&["check"], directory);
    assert_eq!(checked.status.code(), Some(1));
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(said.contains("pages.data is corrupt at byte "), "{said}");
}

#[test]
fn what_is_open_or_no_store_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    for action in ["check", "stats", "dump"] {
        let missing = indelible(&[action], directory);
        assert_eq!(missing.status.code(), Some(1));
        let said = String::from_utf8(missing.stderr).unwrap();
        let expected = format!("there is no page store in {}: give", directory.display());
        assert!(said.contains(&expected) && !said.contains("not found"), "{said}");
    }
    assert!(files(directory).is_empty(), "a store was made");
    let store = PageStore::open_path(directory, Options::default()).unwrap();
    let busy = indelible(&["dump"], directory);
    assert_eq!(busy.status.code(), Some(1));
    let said = String::from_utf8(busy.stderr).unwrap();
    assert!(said.contains("another process has this store open"), "{said}");
    drop(store);
}

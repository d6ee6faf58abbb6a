//! A directory with segments of format 1: what it has leaves memory and comes back, as with those of format 2.

use std::path::Path;

use crate::instant_start::info;
use crate::process::{Program, Server, wait_until};

const FILES: [(&str, &str); 4] = [
    ("manifest", "redo.manifest"),
    ("device", "redo/device"),
    ("compacted-segment", "redo/0000000001.redo"),
    ("segment", "redo/0000000002.redo"),
];

/// Writes the files that a program of format 1 has left: a string, a set, and a counter that expires.
pub(crate) fn lay_out(directory: &Path) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../redo/tests/fixtures/v1");
    std::fs::create_dir_all(directory.join("redo")).unwrap();
    for (name, path) in FILES {
        let text = std::fs::read_to_string(fixtures.join(format!("{name}.hex"))).unwrap();
        let words = text.lines().flat_map(|line| line.split_whitespace().skip(1));
        let bytes: Vec<u8> = words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect();
        std::fs::write(directory.join(path), bytes).unwrap();
    }
}

fn number_of(server: &Server, name: &str) -> u64 {
    info(server, name).parse().unwrap()
}

/// What is in the log only is read from the segments as they are.
fn check(server: &Server, directory: &Path) {
    // A value leaves memory between two commands.
    wait_until(|| {
        server.connect().words("GET none");
        number_of(server, "cold_values") + number_of(server, "cold_keys") >= 2
    });
    let before = number_of(server, "cold_fetches");
    let mut connection = server.connect();
    assert_eq!(connection.words("DBSIZE").text(), "2");
    assert_eq!(connection.words("GET after").text(), "compaction");
    assert_eq!(connection.words("SISMEMBER s m").text(), "1");
    assert!(number_of(server, "cold_fetches") > before, "something was not in memory");
    assert_eq!(number_of(server, "cold_failures"), 0);
    for (_, path) in &FILES[2..] {
        assert_eq!(std::fs::read(directory.join(path)).unwrap()[8], 1, "{path} is of format 1");
    }
}

#[test]
fn what_segments_of_format_1_have_leaves_memory_and_comes_back() {
    for index in ["no", "yes"] {
        let options = ["--log-index", index, "--debug-drop-values", "100", "--maxmemory", "100mb"];
        // Nothing comes back unasked.
        let more = ["--maxmemory-policy", "cold-lfu", "--debug-restore-delay-ms", "3600000"];
        let options = [&options[..], &more].concat();
        let directory = tempfile::tempdir().unwrap();
        lay_out(directory.path());
        let mut server = Program::indelible().start_on(directory.path(), &options);
        check(&server, directory.path());
        // With an index the keys are cold as well, and this start goes by it.
        wait_until(|| {
            server.connect().words("GET none");
            let is_usable = || number_of(&server, "redo_index_usable") == 1;
            index == "no" || (number_of(&server, "cold_keys") > 0 && is_usable())
        });
        server.kill();
        server.restart();
        check(&server, directory.path());
        let is_by_index = server.log().contains("DB opened by its index");
        assert_eq!(is_by_index, index == "yes");
    }
}

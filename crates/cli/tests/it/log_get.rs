//! `indelible log get`: one record by its address, and what it says when there is none.

use std::process::{Command, Output};

use crate::process::{Program, Server};

fn log(server: &Server, action: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(["log", action]).arg(server.directory()).args(more).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_record_that_dump_shows_is_had_by_its_address() {
    let mut server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    for number in 0..300 {
        connection.words(&format!("SET key:{} value:{number}", number % 200));
    }
    connection.words("SADD s a b c");
    connection.words("DEL key:7");
    let in_use = log(&server, "get", &["1:0"]);
    assert_eq!(in_use.status.code(), Some(1));
    assert!(text(&in_use.stderr).contains("stop it"), "{}", text(&in_use.stderr));
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    let dump = text(&log(&server, "dump", &[]).stdout);
    let records: Vec<&str> = dump.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(records.len() > 300, "{dump}");
    for record in records.iter().step_by(37).chain(records.last()) {
        let address = record.split_whitespace().next().unwrap();
        let got = log(&server, "get", &[address]);
        assert!(got.status.success(), "{}", text(&got.stderr));
        assert_eq!(text(&got.stdout).trim_end_matches('\n'), *record);
    }
    let json = text(&log(&server, "get", &["--json", "1:1"]).stdout);
    assert!(json.starts_with(r#"{"type":"record","addr":"1:1","kind":"String","#), "{json}");
    assert!(json.contains(r#""new":true"#), "{json}");
    let none = log(&server, "get", &["1:99999"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("there is no record 1:99999"), "{}", text(&none.stderr));
    let bad = log(&server, "get", &["seven"]);
    assert!(text(&bad.stderr).contains("SEGMENT:ORDINAL"), "{}", text(&bad.stderr));
}

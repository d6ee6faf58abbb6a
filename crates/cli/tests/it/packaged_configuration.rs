//! The configuration that packages install, `packaging/indelible.conf`: it starts a server, every directive in it is
//! known, and it says the defaults.

use crate::process::Program;
use crate::stock_files::refusal;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/indelible.conf");

/// What a package sets otherwise than a server does without a file. The comments say so.
const OF_THE_PACKAGE: &[&str] = &["bind", "dir", "logfile"];

/// Lines that have no value that CONFIG GET could reply.
const WITHOUT_VALUE: &[&str] = &["include", "user", "rename-command"];

/// The lines with a directive, and whether each is switched off by a `#` in front.
fn lines(text: &str) -> Vec<(bool, &str)> {
    text.lines()
        .filter_map(|line| match line.strip_prefix('#') {
            Some(off) if off.starts_with(|first: char| first.is_ascii_lowercase()) => {
                Some((true, off))
            }
            Some(_) => None,
            None => Some((false, line)).filter(|_| !line.is_empty()),
        })
        .collect()
}

fn name_of(line: &str) -> &str {
    line.split(' ').next().unwrap()
}

#[test]
fn the_file_of_packages_starts_a_server_with_the_defaults() {
    let text = std::fs::read_to_string(FILE).unwrap();
    let lines = lines(&text);
    assert!(lines.len() > 70, "{}", lines.len());
    // A test has its own directory, and no right to write to the system's log.
    let packaged = Program::indelible().with_file(FILE).start(&["--logfile", ""]);
    let plain = Program::indelible().start(&[]);
    assert!(!packaged.log().contains("no effect"), "{}", packaged.log());
    let (mut packaged, mut plain) = (packaged.connect(), plain.connect());
    for (is_off, line) in lines {
        let name = name_of(line);
        if WITHOUT_VALUE.contains(&name) {
            continue;
        }
        let get = format!("CONFIG GET {name}");
        let value = packaged.words(&get);
        assert_eq!(value.elements().len(), 2, "{line}: there is no such directive");
        if !OF_THE_PACKAGE.contains(&name) && name != "port" {
            let default = plain.words(&get);
            assert_eq!(value.elements()[1].text(), default.elements()[1].text(), "{line} {is_off}");
        }
    }
    assert_eq!(packaged.words("CONFIG GET bind").elements()[1].text(), "127.0.0.1 -::1");
    for line in ["dir /var/lib/indelible", "logfile /var/log/indelible/indelible.log", "port 6379"]
    {
        assert!(text.contains(&format!("\n{line}\n")), "{line}");
    }
}

#[test]
fn each_line_that_is_switched_off_can_be_switched_on() {
    let text = std::fs::read_to_string(FILE).unwrap();
    for (is_off, line) in lines(&text) {
        if is_off && name_of(line) != "include" {
            assert_eq!(refusal(line), None, "{line}");
        }
    }
}

//! Commands on data, a line each: none ends the server, and what the log brings back is what is there.
//!
//! The words of a line are separated as in `redis.conf`. Commands that are not for a keyspace alone
//! (MULTI, SUBSCRIBE, CONFIG …) are passed over.

use resp::split_words;

use crate::session::Session;

/// As many lines as are executed.
const LINES_MAX: usize = 64;

/// A reply with more elements than this is asked for by a number alone, which is no error.
const COUNT_MAX: u64 = 10_000;

pub(crate) fn run(input: &[u8]) {
    let (mut session, logged) = Session::new();
    for line in input.split(|byte| *byte == b'\n').take(LINES_MAX) {
        let (mut text, mut ranges) = (Vec::new(), Vec::new());
        if split_words(line, &mut text, &mut ranges).is_none() {
            continue;
        }
        let arguments: Vec<&[u8]> = ranges.into_iter().map(|range| &text[range]).collect();
        if !asks_for_much(&arguments) {
            session.now_ms += 10;
            if let Some(reply) = session.try_run(&arguments) {
                assert!(reply.is_empty() || reply.ends_with(b"\r\n"), "{line:?}: {reply:?}");
            }
        }
    }
    let records = logged.take();
    let mut recovered =
        Session::of_records(records.iter().map(Vec::as_slice)).expect("records of a keyspace");
    recovered.now_ms = session.now_ms;
    let contents = session.contents();
    assert_eq!(recovered.contents(), contents, "recovered, and what was there");
}

fn asks_for_much(arguments: &[&[u8]]) -> bool {
    let is_much = |argument: &&[u8]| {
        let number = std::str::from_utf8(argument).ok().and_then(|text| text.parse::<i64>().ok());
        number.is_some_and(|number| number.unsigned_abs() > COUNT_MAX)
    };
    let is_random = arguments.first().is_some_and(|name| {
        [&b"SRANDMEMBER"[..], b"HRANDFIELD", b"ZRANDMEMBER"]
            .iter()
            .any(|random| name.eq_ignore_ascii_case(random))
    });
    is_random && arguments.iter().any(is_much)
}

/// The cases of the scripts that are compared with redis-server.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const SCRIPTS: [&str; 12] = [
        include_str!("../../../tests/conformance/bitops.txt"),
        include_str!("../../../tests/conformance/dump.txt"),
        include_str!("../../../tests/conformance/geo.txt"),
        include_str!("../../../tests/conformance/hash.txt"),
        include_str!("../../../tests/conformance/hyperloglog.txt"),
        include_str!("../../../tests/conformance/keys.txt"),
        include_str!("../../../tests/conformance/list.txt"),
        include_str!("../../../tests/conformance/scan.txt"),
        include_str!("../../../tests/conformance/set.txt"),
        include_str!("../../../tests/conformance/sort.txt"),
        include_str!("../../../tests/conformance/string.txt"),
        include_str!("../../../tests/conformance/zset.txt"),
    ];
    let cases = SCRIPTS.iter().flat_map(|script| script.split("\n== ").skip(1));
    cases
        .map(|case| {
            let lines = case.lines().skip(1).filter(|line| !line.starts_with(['#', '@']));
            lines.collect::<Vec<_>>().join("\n").into_bytes()
        })
        .collect()
}

//! Geographic indices: calls, and what redis-server 7.0.15 replies to them.

use crate::session::Session;
use resp::Protocol;

#[test]
fn replies_are_those_of_redis() {
    let mut session = Session::new();
    let mut lines = include_str!("geo.txt").lines();
    let mut calls = 0;
    while let (Some(call), Some(expected)) = (lines.next(), lines.next()) {
        let call = call.strip_prefix("> ").expect("calls and replies in turn");
        assert_eq!(session.run(call), expected, "{call}");
        calls += 1;
    }
    assert!(calls > 200, "{calls} calls");
}

#[test]
fn coordinates_are_numbers_in_resp3_and_distances_are_texts() {
    let mut session = Session::new();
    session.protocol = Protocol::Resp3;
    session.run("GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b");
    assert_eq!(session.run("GEOPOS g a x"), "*2 *2 ,13.36138933897018433 ,38.11555639549629859 _");
    assert_eq!(session.run("GEODIST g a b"), "$11 166274.1516");
    assert_eq!(session.events(), ["zadd g"]);
}

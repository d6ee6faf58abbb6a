//! What the admin page is told.

use std::sync::atomic::Ordering;

use super::server::TestServer;

#[test]
fn calls_are_those_of_info_and_times_those_of_what_was_tracked() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    // Longer than the last bound, which is 17 seconds.
    server.clock.us_per_look.store(20_000_000, Ordering::Relaxed);
    server.send(client, "GET a\r\n");
    server.clock.us_per_look.store(0, Ordering::Relaxed);
    let tracked = {
        let report = server.engine.report();
        report.commands.into_iter().find(|it| it.name == "get").unwrap()
    };
    let above = (tracked.latency.count, tracked.latency.up_to_us.last().copied());
    assert_eq!(above, (1, Some((1 << 24, 0))));
    assert_eq!(tracked.latency.sum, tracked.duration);
    server.send(client, "CONFIG SET latency-tracking no\r\n");
    server.clock.us_per_look.store(1000, Ordering::Relaxed);
    server.send(client, "GET a\r\n");
    server.clock.us_per_look.store(0, Ordering::Relaxed);
    let report = server.engine.report();
    let get = report.commands.iter().find(|it| it.name == "get").unwrap();
    assert_eq!(get.latency, tracked.latency, "it was not tracked");
    assert!(get.duration > tracked.duration);
    let expected = format!("cmdstat_get:calls={},usec={},", get.calls, get.duration.as_micros());
    assert!(report.info.contains(&expected), "{expected}: {}", report.info);
    assert_eq!(get.calls, 2);
}

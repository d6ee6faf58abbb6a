//! What a scrape has.

use crate::browser::Page;
use crate::open_metrics::parse;

#[test]
fn a_scrape_is_open_metrics() {
    let page = Page::new();
    let reply = page.get("/metrics", &[&page.bearer()]);
    let kind = reply.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    let families = parse(&reply.body);
    let value = |name: &str, labels: &str| {
        let (family, _) =
            families.iter().rfind(|(family, _)| name.starts_with(family.as_str())).unwrap();
        let found = families[family].samples.iter().find(|it| it.0 == name && it.1 == labels);
        found.unwrap_or_else(|| panic!("{name} {labels}")).2
    };
    for (name, labels, expected) in [
        ("indelible_up", "", 1.0),
        ("indelible_log_durable_lsn", "", 41.0),
        ("indelible_memory_used_bytes", "", 2048.0),
        ("indelible_log_healthy", "", 1.0),
        ("indelible_writes_refused", "", 0.0),
        ("indelible_executor_busy_seconds_total", "", 2.5),
        ("indelible_commands_processed_total", "", 12.0),
        ("indelible_keys", "db=\"0\"", 5.0),
        ("indelible_log_device_state", "device=\"0\",state=\"Healthy\"", 1.0),
        ("indelible_log_device_state", "device=\"0\",state=\"Full\"", 0.0),
        ("indelible_command_duration_seconds_count", "command=\"set\"", 7.0),
        ("indelible_command_duration_seconds_sum", "command=\"set\"", 0.00007),
    ] {
        assert!((value(name, labels) - expected).abs() < 1e-9, "{name} {labels}");
    }
    // What INFO does not have is no figure.
    assert!(!families.contains_key("indelible_loading_total_bytes"));
    assert!(!reply.body.contains("/data"), "no label is a path");
}

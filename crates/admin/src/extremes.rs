//! Neither page nor metrics panic, whatever a report says: a panic of this thread would end the database.
//!
//! Reports have every name that the page, the findings and the metrics look for, with values that are as large, as
//! small and as strange as they can be.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::metrics;
use crate::page;
use crate::report::{
    CommandLatency, Event, EventKind, Latency, LogDevice, Report, Shown, SlowCommand, ViewedClient,
};
use crate::watch::{Picture, Point};

const SOURCES: [&str; 7] = [
    include_str!("health.rs"),
    include_str!("metrics.rs"),
    include_str!("page/lists.rs"),
    include_str!("page/log.rs"),
    include_str!("page/memory.rs"),
    include_str!("page/timeline.rs"),
    include_str!("page/verdict.rs"),
];

/// What stands in quotes there and can be a name.
fn names() -> Vec<&'static str> {
    let is_name = |it: &&str| {
        !it.is_empty() && it.bytes().all(|it| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    let all: BTreeSet<&str> = SOURCES.iter().flat_map(|it| it.split('"')).filter(is_name).collect();
    all.into_iter().collect()
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![
        select(vec![0, 1, 2, 1 << 20, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX]),
        any::<u64>()
    ]
}

fn moment() -> impl Strategy<Value = i64> {
    prop_oneof![select(vec![i64::MIN, -1, 0, 1, 1_795_877_219, i64::MAX]), any::<i64>()]
}

/// Words that the page makes something of, or numbers.
fn value() -> impl Strategy<Value = String> {
    let words =
        ["", "0", "1", "ok", "err", "always", "loading", "restoring", "failing", "noeviction"];
    let others =
        ["gap", "streaming", "nan", "inf", "-1", "1e400", "keys=18446744073709551615,expires=3"];
    prop_oneof![
        select([&words[..], &others].concat()).prop_map(str::to_owned),
        count().prop_map(|it| it.to_string()),
        moment().prop_map(|it| it.to_string()),
        "\\PC{0,12}",
    ]
}

fn info() -> impl Strategy<Value = String> {
    let names = names();
    let values = vec(proptest::option::weighted(0.9, value()), names.len());
    let databases = vec((count(), count(), count()), 0..4);
    (values, databases).prop_map(move |(values, databases)| {
        let pairs = names.iter().zip(values);
        let lines = pairs.filter_map(|(name, value)| Some(format!("{name}:{}\r\n", value?)));
        let databases = databases.into_iter();
        let databases = databases
            .map(|(db, keys, expires)| format!("db{db}:keys={keys},expires={expires}\r\n"));
        lines.chain(databases).collect()
    })
}

fn latency() -> impl Strategy<Value = Latency> {
    let sum = (count(), 0_u32..1_000_000_000).prop_map(|(s, ns)| Duration::new(s, ns));
    // Any that there may be, or as many as there may be that rise.
    let rising = (0..300_u64).prop_map(|len| (0..len).map(|at| (at, at)).collect());
    let bounds = prop_oneof![vec((count(), count()), 0..300), rising];
    (count(), sum, bounds).prop_map(|(count, sum, up_to_us)| Latency { count, sum, up_to_us })
}

fn device() -> impl Strategy<Value = LogDevice> {
    let state = select(vec!["Healthy", "Draining", "Full", "Poisoned", "<?>"]);
    (any::<usize>(), value(), state, [(); 7].map(|()| count()), latency()).prop_map(
        |(index, path, state, numbers, syncs)| {
            let [
                segments,
                bytes,
                records,
                invalid_records,
                queued_bytes,
                written_bytes,
                written_blocks,
            ] = numbers;
            LogDevice {
                index,
                state: state.to_owned(),
                segments,
                bytes,
                records,
                invalid_records,
                queued_bytes,
                written_bytes,
                written_blocks,
                busy: syncs.sum,
                syncs,
                last_error: Some(path.clone()),
                path,
            }
        },
    )
}

fn command() -> impl Strategy<Value = CommandLatency> {
    (value(), latency(), count(), count()).prop_map(|(name, latency, calls, failed)| {
        CommandLatency { name, calls, duration: latency.sum, latency, rejected: failed, failed }
    })
}

fn slow() -> impl Strategy<Value = SlowCommand> {
    (moment(), moment(), count(), value()).prop_map(|(id, unix_s, duration_us, text)| SlowCommand {
        id,
        unix_s,
        duration_us,
        text: text.clone(),
        peer: text.clone(),
        client_name: text,
    })
}

fn client() -> impl Strategy<Value = ViewedClient> {
    (count(), count(), count(), value()).prop_map(|(id, age_s, memory_bytes, name)| ViewedClient {
        id,
        address: name.clone(),
        name: name.clone(),
        user: name.clone(),
        command: name.clone(),
        age_s,
        idle_s: age_s,
        flags: name,
        memory_bytes,
        output_bytes: memory_bytes,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let kinds =
        [EventKind::Backup, EventKind::LostBackup, EventKind::Point, EventKind::Command].to_vec();
    (select(kinds), count(), moment(), value()).prop_map(|(kind, lsn, unix_ms, text)| Event {
        kind,
        lsn,
        unix_ms,
        text,
    })
}

fn shown<T: std::fmt::Debug>(one: impl Strategy<Value = T>) -> impl Strategy<Value = Shown<T>> {
    (vec(one, 0..4), any::<usize>()).prop_map(|(some, total)| Shown { some, total })
}

fn point() -> impl Strategy<Value = Point> {
    (0..1_u64 << 32, count(), count()).prop_map(|(s, commands_per_s, blocks_per_s)| Point {
        at: Instant::now() + Duration::from_secs(s),
        commands_per_s,
        blocks_per_s,
        durable_lsn: blocks_per_s,
    })
}

prop_compose! {
    fn picture()(
        info in info(),
        devices in vec(device(), 0..3),
        commands in vec(command(), 0..4),
        slow in shown(slow()),
        clients in shown(client()),
        events in shown(event()),
        trail in vec(point(), 0..6),
        ahead_s in 0..1_u64 << 32,
    ) -> Picture {
        let report = Report { info, devices, commands, slow, clients, events };
        let at = Instant::now() + Duration::from_secs(ahead_s);
        Picture::of(report, at, trail)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_report_has_a_page_and_metrics(picture in picture()) {
        let page = page::render(Some(&picture));
        prop_assert!(page.ends_with("</html>\n"));
        let text = metrics::encode(Some(&picture));
        prop_assert!(text.ends_with("# EOF\n"));
    }
}

#[test]
fn the_names_are_those_that_are_looked_for() {
    let names = names();
    for name in
        ["redo_durable_lsn", "server_time_usec", "history_from_time", "maxmemory", "rdb_saves"]
    {
        assert!(names.contains(&name), "{name}");
    }
    assert!(names.len() > 100);
}

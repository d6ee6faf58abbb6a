//! TPC-C at a very small scale: on the tree in memory, on the page store, and with deliberate
//! damage.

use std::path::Path;

use super::schema::{
    DISTRICT, District, Key, NEW_ORDER, ORDER_LINE, Row, TABLES, WAREHOUSE, Warehouse,
};
use super::*;
use crate::engine::Table;

const SCALE: fn() -> Scale = || Scale::tiny(2);

fn arguments(engine: Kind, dir: &Path) -> Arguments {
    Arguments {
        engine,
        dir: dir.to_owned(),
        warehouses: 2,
        pool_mb: 4,
        commit: Commit::Group,
        abort_percent: None,
        seconds: 0.0,
        transactions: Some(2000),
        warmup_seconds: 0.0,
        threads: 1,
        seed: 7,
        run_seed: 7,
        json: None,
        load_only: false,
        recover: false,
        keep: false,
        online_log_percent: None,
        group_bytes: None,
        log_mb: None,
        checkpoint_mb: 60,
        trace: None,
        tiny: true,
    }
}

fn loaded(engine: Kind, dir: &Path) -> Box<dyn Engine> {
    let engine = engine.open(&Settings::new(dir, TABLES, Commit::Group)).unwrap();
    load::load(engine.as_ref(), SCALE(), 1, true).unwrap();
    consistency::check(engine.as_ref(), SCALE()).unwrap();
    engine
}

#[test]
fn every_kind_of_transaction_runs_and_leaves_the_conditions_true() {
    let dir = tempfile::tempdir().unwrap();
    let engine = loaded(Kind::Memory, dir.path());
    let arguments = arguments(Kind::Memory, dir.path());
    let tally = work(engine.as_ref(), &arguments, 1, Limit::Transactions(5000)).unwrap();
    consistency::check(engine.as_ref(), SCALE()).unwrap();
    assert_eq!(tally.ended(), 5000);
    let counts = tally.latencies_us.map(|latencies| latencies.len());
    assert!(
        counts[0] > 2100 && counts[1] > 2000 && counts[2..].iter().all(|&n| n > 130),
        "{counts:?}"
    );
    // One new order in a hundred.
    assert!((5..60).contains(&tally.rolled_back), "{}", tally.rolled_back);
}

#[test]
fn every_store_ends_in_the_same_state_as_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let dump = |kind: Kind, dir: &Path| {
        let engine = loaded(kind, dir);
        let mut arguments = arguments(kind, dir);
        arguments.abort_percent = Some(20.0);
        work(engine.as_ref(), &arguments, 3, Limit::Transactions(1500)).unwrap();
        consistency::check(engine.as_ref(), SCALE()).unwrap();
        let mut connection = engine.connect().unwrap();
        connection.begin().unwrap();
        // Rows with timestamps differ; the keys of all tables except history do not.
        let mut keys = Vec::new();
        for table in (0..TABLES.len()).map(Table).filter(|&table| table != schema::HISTORY) {
            let mut see = |key: &[u8], _: &[u8]| {
                keys.push((table.0, key.to_vec()));
                true
            };
            connection
                .scan(table, &[0], &[0xff; 40], crate::engine::Direction::Up, &mut see)
                .unwrap();
        }
        let mut rows = Vec::new();
        for table in [WAREHOUSE, DISTRICT, schema::CUSTOMER, schema::STOCK] {
            let mut see = |_: &[u8], row: &[u8]| {
                rows.push(row.to_vec());
                true
            };
            connection
                .scan(table, &[0], &[0xff; 40], crate::engine::Direction::Down, &mut see)
                .unwrap();
        }
        connection.abort().unwrap();
        drop(connection);
        engine.close().unwrap();
        (keys, rows)
    };
    let model = dump(Kind::Memory, dir.path());
    for kind in Kind::built_in() {
        let found = dump(kind, &dir.path().join(kind.name()));
        assert!(found == model, "{}", kind.name());
    }
}

#[test]
fn threads_in_each_others_way_leave_the_conditions_true() {
    for kind in Kind::built_in() {
        let dir = tempfile::tempdir().unwrap();
        let engine = loaded(kind, dir.path());
        let mut arguments = arguments(kind, dir.path());
        arguments.threads = 4;
        let tally = work(engine.as_ref(), &arguments, 1, Limit::Transactions(1000)).unwrap();
        assert_eq!(tally.ended(), 1000, "{}", kind.name());
        consistency::check(engine.as_ref(), SCALE()).unwrap();
        engine.close().unwrap();
    }
}

/// Returns the year-to-date total of warehouse 1, as seen by this connection's transaction.
fn total(connection: &mut dyn crate::engine::Connection) -> i64 {
    let row = connection.get(WAREHOUSE, &Key::of_warehouse(1)).unwrap().unwrap();
    Warehouse::decode(&row).unwrap().ytd
}

fn add_one(connection: &mut dyn crate::engine::Connection) {
    let key = Key::of_warehouse(1);
    let row = connection.get(WAREHOUSE, &key).unwrap().unwrap();
    let mut warehouse = Warehouse::decode(&row).unwrap();
    warehouse.ytd += 1;
    connection.put(WAREHOUSE, &key, &warehouse.encode()).unwrap();
}

#[test]
fn what_only_reads_sees_what_was_committed_before_it() {
    for kind in Kind::built_in() {
        let dir = tempfile::tempdir().unwrap();
        let engine = loaded(kind, dir.path());
        let mut writer = engine.connect().unwrap();
        let mut reader = engine.connect().unwrap();
        reader.begin_read().unwrap();
        let before = total(reader.as_mut());
        // With locks, these two would wait for each other.
        let is_snapshot = kind.store().reads_snapshots;
        if !is_snapshot {
            reader.commit().unwrap();
        }
        writer.begin().unwrap();
        add_one(writer.as_mut());
        writer.commit().unwrap();
        if is_snapshot {
            assert_eq!(total(reader.as_mut()), before, "{}", kind.name());
            reader.commit().unwrap();
        }
        reader.begin_read().unwrap();
        assert_eq!(total(reader.as_mut()), before + 1, "{}", kind.name());
        reader.abort().unwrap();
        drop((reader, writer));
        engine.close().unwrap();
    }
}

#[test]
fn what_a_closed_store_had_is_there_when_it_is_opened_again() {
    for kind in Kind::built_in() {
        let dir = tempfile::tempdir().unwrap();
        loaded(kind, dir.path()).close().unwrap();
        let settings = Settings::new(dir.path(), TABLES, Commit::Immediate);
        let engine = kind.open(&settings).unwrap();
        consistency::check(engine.as_ref(), SCALE()).unwrap();
        engine.close().unwrap();
    }
}

#[test]
fn loaded_data_are_copied_for_each_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut arguments = arguments(Kind::Pages, dir.path());
    arguments.json = Some(dir.path().join("out.json"));
    run(&arguments).unwrap();
    let loaded = Dataset::new(&arguments);
    assert!(loaded.is_loaded());
    run(&arguments).unwrap();
    let text = std::fs::read_to_string(dir.path().join("out.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["transactions"], 2000);
    assert!(json["counters"]["log_writes"].as_u64().unwrap() > 0);
}

#[test]
fn a_traced_run_wears_the_model_of_flash() {
    let dir = tempfile::tempdir().unwrap();
    let mut arguments = arguments(Kind::Pages, dir.path());
    let (trace, json) = (dir.path().join("trace"), dir.path().join("flash.json"));
    arguments.trace = Some(trace.clone());
    run(&arguments).unwrap();
    let flash = crate::flash::Arguments {
        trace,
        block_pages: 256,
        over_provisioning_percent: 7.0,
        read_us: 60.0,
        program_us: 600.0,
        erase_us: 3000.0,
        json: Some(json.clone()),
    };
    crate::flash::run(&flash).unwrap();
    let text = std::fs::read_to_string(json).unwrap();
    let outcome: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(outcome["host_writes"].as_u64().unwrap() > 100, "{outcome}");
    assert!(outcome["write_amplification"].as_f64().unwrap() >= 1.0, "{outcome}");
}

/// Damages a loaded store. Returns the number of the violated condition.
fn condition_broken_by(break_it: impl FnOnce(&mut dyn crate::engine::Connection)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let engine = loaded(Kind::Memory, dir.path());
    let mut connection = engine.connect().unwrap();
    connection.begin().unwrap();
    break_it(connection.as_mut());
    connection.commit().unwrap();
    let error = consistency::check(engine.as_ref(), SCALE()).unwrap_err();
    error.to_string()
}

#[test]
fn a_broken_condition_is_found() {
    let money = condition_broken_by(|connection| {
        let key = Key::of_warehouse(2);
        let row = connection.get(WAREHOUSE, &key).unwrap().unwrap();
        let mut warehouse = Warehouse::decode(&row).unwrap();
        warehouse.ytd += 1;
        connection.put(WAREHOUSE, &key, &warehouse.encode()).unwrap();
    });
    assert!(money.contains("condition 1"), "{money}");
    let next = condition_broken_by(|connection| {
        let key = Key::of_district(1, 3);
        let row = connection.get(DISTRICT, &key).unwrap().unwrap();
        let mut district = District::decode(&row).unwrap();
        district.next_order += 1;
        connection.put(DISTRICT, &key, &district.encode()).unwrap();
    });
    assert!(next.contains("condition 2"), "{next}");
    let gap = condition_broken_by(|connection| {
        connection.delete(NEW_ORDER, &Key::in_district(1, 1, 25)).unwrap();
    });
    assert!(gap.contains("condition 3"), "{gap}");
    let line = condition_broken_by(|connection| {
        connection.delete(ORDER_LINE, &Key::of_line(1, 1, 1, 5)).unwrap();
    });
    assert!(line.contains("condition 4"), "{line}");
}

//! Named backups: what is one, and what is refused.

use std::sync::atomic::Ordering;

use base::Lsn;

use super::server::TestServer;

#[test]
fn a_name_that_means_something_else_to_restore_is_refused() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    for name in ["4711", "-90s", "b-000042", "b-7", "sealed", "a/b", ""] {
        server.engine.receive(client, format!("BACKUP CREATE \"{name}\"\r\n").as_bytes());
        let reply = server.read(client);
        assert!(reply.starts_with("-ERR the name"), "{name}: {reply}");
    }
    for name in ["2026-11-26", "nightly", "b-side", "v4711"] {
        assert_eq!(server.send(client, &format!("BACKUP CREATE {name}\r\n")), "");
    }
    let names: Vec<_> = log.0.lock().unwrap().backups.iter().map(|it| it.name.clone()).collect();
    assert_eq!(names, ["2026-11-26", "nightly", "b-side", "v4711"]);
}

/// What others write next is not to be part of it, however busy the device is.
#[test]
fn a_backup_has_a_block_of_its_own_end_or_is_refused() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, other) = (server.connect(), server.connect());
    log.0.lock().unwrap().is_busy = true;
    log.0.lock().unwrap().holds_writes = true;
    for number in 0..200 {
        server.engine.receive(client, format!("BACKUP CREATE n{number}\r\n").as_bytes());
        server.engine.receive(other, b"SET a 1\r\n");
    }
    server.engine.receive(client, b"MULTI\r\nSET b 1\r\nBACKUP CREATE in-exec\r\nEXEC\r\n");
    let blocks: Vec<Lsn> = log.0.lock().unwrap().backups.iter().map(|it| it.lsn).collect();
    assert!((32..=65).contains(&blocks.len()), "{}", blocks.len());
    assert!(blocks.is_sorted_by(|a, b| a < b), "two have shared a block: {blocks:?}");
    assert!(*blocks.last().unwrap() < Lsn(log.0.lock().unwrap().open), "and its block is ended");
    // It gets further.
    let open = log.0.lock().unwrap().open;
    log.0.lock().unwrap().durable.store(open, Ordering::Relaxed);
    log.0.lock().unwrap().is_busy = false;
    log.0.lock().unwrap().holds_writes = false;
    server.engine.end_iteration(true);
    server.engine.receive(client, b"BACKUP CREATE later\r\n");
    assert_eq!(log.0.lock().unwrap().backups.last().unwrap().name, "later");
}

/// They may be what has filled it.
#[test]
fn a_full_disk_takes_that_a_backup_goes_and_none_that_comes() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    server.send(client, "BACKUP CREATE old\r\n");
    log.0.lock().unwrap().durable.store(100, Ordering::Relaxed);
    server.engine.log_advanced();
    server.read(client);
    log.0.lock().unwrap().read_only = true;
    let reply = server.send(client, "BACKUP CREATE new\r\n");
    assert!(reply.starts_with("-MISCONF"), "{reply}");
    assert_eq!(server.send(client, "BACKUP DELETE old\r\n"), "+OK\r\n");
    assert!(log.0.lock().unwrap().backups.is_empty());
    log.0.lock().unwrap().has_failed = true;
    let reply = server.send(client, "BACKUP DELETE old\r\n");
    assert!(reply.starts_with("-MISCONF"), "{reply}");
}

#[test]
fn whatever_deletes_the_sealed_backup_ends_its_cycle() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    log.0.lock().unwrap().durable.store(100, Ordering::Relaxed);
    server.engine.log_advanced();
    for delete in ["BACKUP CLEANUP", "BACKUP DELETE sealed"] {
        let state = |server: &mut TestServer| server.send(client, "BACKUP STATUS\r\n");
        assert_eq!(server.send(client, "BACKUP START\r\n"), "+OK\r\n");
        assert!(state(&mut server).contains("incrementing"));
        assert_eq!(server.send(client, "BACKUP SEAL\r\n"), "+OK\r\n");
        assert!(state(&mut server).contains("sealed"));
        log.0.lock().unwrap().backups[0].is_lost = true;
        let lost = state(&mut server);
        assert!(lost.contains("failed") && lost.contains("lost"), "{lost}");
        assert_eq!(server.send(client, &format!("{delete}\r\n")), "+OK\r\n");
        assert!(state(&mut server).contains("idle"), "{delete}");
    }
}

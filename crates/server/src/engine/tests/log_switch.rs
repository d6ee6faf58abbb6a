//! The log turned on and off: what the owner is asked for, and which clients wait.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use env::FileError;
use keyspace::Survey;

use super::server::{SharedLog, TestLog, TestServer};
use crate::engine::{ClientKey, HostRequest, OpenLogError, OpenedLog};

fn log() -> SharedLog {
    SharedLog(Arc::new(Mutex::new(TestLog { open: 1, ..TestLog::default() })))
}

fn opened(log: &SharedLog) -> OpenedLog {
    OpenedLog { log: Box::new(log.clone()), survey: Survey::default(), source: None }
}

#[test]
fn writers_wait_while_everything_is_logged_and_for_the_log_from_then_on() {
    let mut server = TestServer::new(&["--appendonly", "no"]);
    let (client, writer) = (server.connect(), server.connect());
    server.send(client, "SET a 1\r\n");
    assert_eq!(server.send(client, "CONFIG SET appendonly yes\r\nPING\r\n"), "");
    assert_eq!(server.engine.take_request(), Some(HostRequest::OpenLog));
    server.engine.log_looked_at(Ok(()));
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "+OK\r\n+PONG\r\n");
    assert_eq!(server.send(writer, "SET b 1\r\n"), "+OK\r\n", "nothing waits yet");
    let log = log();
    server.engine.log_opened(Ok(opened(&log)));
    server.engine.receive(writer, b"SET c 1\r\n");
    assert_eq!(server.read(writer), "", "everything is being logged");
    server.engine.request_shutdown("shutdown-on-sigterm");
    while server.engine.shard.log_state().is_copying() {
        server.engine.end_iteration(true);
    }
    assert_eq!(log.0.lock().unwrap().open, 2, "two keys and two maps are one block");
    let other = server.connect();
    let reply = server.send(other, "BGSAVE\r\n");
    assert_eq!(reply, "+Background saving scheduled\r\n", "a crash now keeps nothing");
    server.engine.end_iteration(true);
    assert_eq!(server.read(writer), "", "the write waits for its block");
    assert_eq!(server.engine.shutdown_requested(), None);
    log.0.lock().unwrap().durable.store(2, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(writer), "+OK\r\n");
    assert!(server.engine.shutdown_requested().is_some());
}

#[test]
fn there_is_no_backup_before_the_log_is_on() {
    let mut server = TestServer::new(&["--appendonly", "no"]);
    let (client, other) = (server.connect(), server.connect());
    assert_eq!(
        server.send(other, "BACKUP CREATE x\r\n"),
        "-ERR backups are of the redo log, and appendonly is no: CONFIG SET appendonly yes, or BGSAVE\r\n"
    );
    server.send(client, "CONFIG SET appendonly yes\r\n");
    assert_eq!(server.engine.take_request(), Some(HostRequest::OpenLog));
    server.engine.log_looked_at(Ok(()));
    server.engine.end_iteration(true);
    assert_eq!(
        server.send(other, "BACKUP CREATE x\r\n"),
        "-ERR the redo log is being turned on: try again when it is on (see INFO, redo_turning_on)\r\n"
    );
    let log = log();
    server.engine.log_opened(Ok(opened(&log)));
    while server.engine.shard.log_state().is_copying() {
        server.engine.end_iteration(true);
    }
    assert_eq!(server.send(other, "BACKUP LIST\r\n"), "*0\r\n");
}

/// Its library may be replaced between MULTI and EXEC: what the function did then says nothing.
#[test]
fn a_transaction_with_a_function_waits_while_everything_is_logged() {
    let mut server = TestServer::new(&["--appendonly", "no"]);
    let (client, writer) = (server.connect(), server.connect());
    let library = |flags: &str, body: &str| {
        let code = format!(
            "#!lua name=l\nredis.register_function{{function_name='f', callback=function() {body} end{flags}}}"
        );
        format!(
            "*4\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n$7\r\nREPLACE\r\n${}\r\n{code}\r\n",
            code.len()
        )
    };
    server.send(client, "SET a 1\r\n");
    let reads = library(", flags={'no-writes'}", "return 1");
    assert_eq!(server.send(client, &reads), "$1\r\nl\r\n");
    assert_eq!(server.send(writer, "MULTI\r\nFCALL f 0\r\n"), "+OK\r\n+QUEUED\r\n");
    let writes = library("", "return redis.call('SET', 'a', '2')");
    assert_eq!(server.send(client, &writes), "$1\r\nl\r\n");
    server.send(client, "CONFIG SET appendonly yes\r\n");
    assert_eq!(server.engine.take_request(), Some(HostRequest::OpenLog));
    server.engine.log_looked_at(Ok(()));
    server.engine.end_iteration(true);
    let log = log();
    server.engine.log_opened(Ok(opened(&log)));
    server.engine.receive(writer, b"EXEC\r\n");
    assert_eq!(server.read(writer), "", "everything is being logged");
    while server.engine.shard.log_state().is_copying() {
        server.engine.end_iteration(true);
    }
    let open = log.0.lock().unwrap().open;
    log.0.lock().unwrap().durable.store(open, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(writer), "*1\r\n+OK\r\n");
}

#[test]
fn a_log_that_cannot_be_opened_leaves_everything_as_it_was() {
    let mut server = TestServer::new(&["--appendonly", "no"]);
    let client = server.connect();
    server.send(client, "CONFIG SET appendonly yes\r\n");
    let in_use = FileError::InUse { path: "/data/lock".into(), what: "another process has it" };
    server.engine.log_looked_at(Err(OpenLogError::Log(in_use.into())));
    server.engine.end_iteration(true);
    assert!(server.read(client).ends_with("Unable to turn on AOF. Check server logs.\r\n"));
    assert!(server.send(client, "CONFIG GET appendonly\r\n").ends_with("no\r\n"));
    server.send(client, "CONFIG SET appendonly yes\r\n");
    server.engine.log_looked_at(Ok(()));
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "+OK\r\n");
    server.engine.log_opened(Err(OpenLogError::Panicked));
    assert!(server.send(client, "CONFIG GET appendonly\r\n").ends_with("no\r\n"));
    assert_eq!(server.send(client, "SET a 1\r\n"), "+OK\r\n");
}

#[test]
fn a_full_disk_while_everything_is_logged_turns_the_log_off_again() {
    let mut server = TestServer::new(&["--appendonly", "no"]);
    let client = server.connect();
    server.send(client, "SET a 1\r\nCONFIG SET appendonly yes\r\n");
    server.engine.log_looked_at(Ok(()));
    let log = log();
    log.0.lock().unwrap().read_only = true;
    server.engine.log_opened(Ok(opened(&log)));
    server.engine.end_iteration(true);
    server.read(client);
    assert!(server.send(client, "CONFIG GET appendonly\r\n").ends_with("no\r\n"));
    assert_eq!(server.send(client, "SET b 1\r\n"), "+OK\r\n");
}

#[test]
fn a_log_that_is_turned_off_while_it_is_opened_is_closed_again() {
    let mut server = TestServer::new(&["--appendonly", "no"]);
    let client = server.connect();
    server.send(client, "CONFIG SET appendonly yes\r\n");
    server.engine.log_looked_at(Ok(()));
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "+OK\r\n");
    assert_eq!(server.send(client, "CONFIG SET save \"\" appendonly no\r\n"), "+OK\r\n");
    let log = log();
    server.engine.log_opened(Ok(opened(&log)));
    assert!(log.0.lock().unwrap().is_closed, "nothing would ever close it");
    assert!(server.send(client, "INFO persistence\r\n").contains("aof_enabled:0"));
    assert_eq!(server.send(client, "SET a 1\r\n"), "+OK\r\n");
}

#[test]
fn a_log_that_is_turned_off_answers_whoever_waits_for_it() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, writer) = (server.connect(), server.connect());
    assert_eq!(server.send(writer, "SET a 1\r\n"), "");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    assert_eq!(server.send(client, "CONFIG SET save \"\" appendonly no\r\n"), "+OK\r\n");
    assert_eq!(server.read(writer), "+OK\r\n");
    assert_eq!(server.send(writer, "SET b 1\r\nGET b\r\n"), "+OK\r\n$1\r\n1\r\n");
    // The second block has the note of CONFIG SET.
    assert_eq!(log.0.lock().unwrap().open, 3, "nothing is logged any more");
}

#[test]
fn devices_do_not_change_while_the_log_is_being_opened() {
    let options = ["--appendonly", "no", "--enable-protected-configs", "yes"];
    let mut server = TestServer::new(&options);
    let (client, admin) = (server.connect(), server.connect());
    assert_eq!(server.send(admin, "CONFIG SET log-devices /a\r\n"), "+OK\r\n", "it is off");
    server.engine.set_loading(100, 50);
    is_refused(&mut server, admin, "CONFIG SET log-devices /b\r\n");
    let keyspace = keyspace::Keyspace::new(keyspace::NoJournal, [7; 16], 16);
    server.engine.loaded(keyspace, None);
    server.send(client, "CONFIG SET appendonly yes\r\n");
    is_refused(&mut server, admin, "CONFIG SET log-devices /b\r\n");
    is_refused(&mut server, admin, "CONFIG SET save \"\" appendonly no log-devices /b\r\n");
    server.engine.log_looked_at(Ok(()));
    let log = log();
    server.engine.log_opened(Ok(opened(&log)));
    is_refused(&mut server, admin, "CONFIG SET log-devices /b\r\n");
    while server.engine.shard.log_state().is_copying() {
        server.engine.end_iteration(true);
    }
    is_refused(&mut server, admin, "CONFIG SET log-devices /b\r\n");
    assert!(server.send(admin, "CONFIG GET log-devices\r\n").ends_with("/a\r\n"));
    log.0.lock().unwrap().durable.store(2, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.send(admin, "CONFIG SET log-devices /b\r\n"), "+OK\r\n");
}

fn is_refused(server: &mut TestServer, client: ClientKey, command: &str) {
    let said = server.send(client, command);
    assert!(said.contains("'log-devices') - the log is being opened, try again"), "{said}");
}

/// A log that is on but for its last block, which is not durable yet.
fn switching(settings: &[&str]) -> (TestServer, SharedLog) {
    let mut server = TestServer::new(&[&["--appendonly", "no"], settings].concat());
    let client = server.connect();
    server.send(client, "SET a 1\r\nCONFIG SET appendonly yes\r\n");
    server.engine.log_looked_at(Ok(()));
    let log = log();
    server.engine.log_opened(Ok(opened(&log)));
    while server.engine.shard.log_state().is_copying() {
        server.engine.end_iteration(true);
    }
    server.engine.end_iteration(true);
    (server, log)
}

#[test]
fn a_log_that_fails_with_its_last_block_is_on_and_has_failed() {
    let (mut server, log) = switching(&[]);
    let client = server.connect();
    assert_eq!(server.send(client, "WAITAOF 0 0 0\r\n"), "", "it waits for the switch");
    server.engine.request_shutdown("shutdown-on-sigterm");
    assert_eq!(server.engine.shutdown_requested(), None);
    log.0.lock().unwrap().has_failed = true;
    server.engine.end_iteration(true);
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "*2\r\n:1\r\n:0\r\n");
    assert!(server.send(client, "SET b 1\r\n").starts_with("-MISCONF "));
    assert!(server.engine.shutdown_requested().is_some());
}

#[test]
fn whoever_waits_for_the_switch_goes_on_after_a_reload() {
    let (mut server, log) = switching(&["--enable-debug-command", "yes"]);
    let (client, admin) = (server.connect(), server.connect());
    assert_eq!(server.send(client, "WAITAOF 1 0 0\r\n"), "", "it waits for the switch");
    assert_eq!(server.send(admin, "DEBUG RELOAD\r\n"), "");
    assert_eq!(server.engine.take_request(), Some(HostRequest::Reload));
    server.engine.unload().unwrap();
    server.engine.set_loading(100, 50);
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "");
    let keyspace = keyspace::Keyspace::new(keyspace::NoJournal, [7; 16], 16);
    server.engine.loaded(keyspace, Some(Box::new(log)));
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "*2\r\n:1\r\n:0\r\n");
    assert_eq!(server.read(admin), "+OK\r\n");
}

#[test]
fn a_log_that_is_closed_leaves_nothing_to_be_done_at_once() {
    let (mut server, _log) = TestServer::with_log(&[]);
    let client = server.connect();
    server.engine.tick();
    server.engine.receive(client, b"SET a 1\r\n");
    server.engine.end_iteration(false);
    server.engine.receive(client, b"CONFIG SET save \"\" appendonly no\r\n");
    server.engine.end_iteration(true);
    server.read(client);
    assert!(server.engine.until_next_event_us() > 0, "the event loop would never rest");
}

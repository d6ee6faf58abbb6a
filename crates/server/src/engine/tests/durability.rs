//! What waits for the log, and what becomes of it when the log takes nothing.

use std::sync::atomic::Ordering;

use base::DbIndex;

use super::server::{SharedLog, TestServer};

#[test]
fn a_write_is_answered_when_it_is_durable_and_a_reader_of_it_too() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (writer, reader) = (server.connect(), server.connect());
    assert_eq!(server.send(writer, "SET a 1\r\nPING\r\n"), "", "PING waits behind SET");
    assert_eq!(
        server.send(reader, "PING\r\nGET a\r\n"),
        "+PONG\r\n",
        "GET would show what may be lost"
    );
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.log_advanced();
    assert_eq!(server.read(writer), "+OK\r\n+PONG\r\n");
    assert_eq!(server.read(reader), "$1\r\n1\r\n");
}

#[test]
fn a_client_that_stops_sending_still_gets_its_replies() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    assert!(server.engine.end_of_input(client), "nothing is to be sent");
    assert_eq!(server.send(client, "SET a 1\r\n"), "");
    assert!(!server.engine.end_of_input(client));
    assert!(!server.ends(client));
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.log_advanced();
    assert!(server.ends(client));
    assert_eq!(server.read(client), "+OK\r\n");
}

#[test]
fn a_connection_may_ask_for_less_durability() {
    let (mut server, _log) = TestServer::with_log(&[]);
    let client = server.connect();
    assert_eq!(server.send(client, "CLIENT DURABILITY everysec\r\nSET a 1\r\n"), "+OK\r\n+OK\r\n");
    assert_eq!(
        server.send(client, "CLIENT DURABILITY default\r\nSET a 1\r\n"),
        "+OK\r\n",
        "SET waits again"
    );
}

#[test]
fn with_less_than_always_a_reply_leaves_when_its_write_is_written() {
    for policy in ["everysec", "no"] {
        let (mut server, log) = TestServer::with_log(&["--appendfsync", policy]);
        log.0.lock().unwrap().holds_writes = true;
        let (writer, reader) = (server.connect(), server.connect());
        assert_eq!(server.send(writer, "SET a 1\r\nPING\r\n"), "", "{policy}: a kill loses it");
        assert_eq!(server.send(reader, "PING\r\nGET a\r\n"), "+PONG\r\n", "{policy}: shown");
        log.0.lock().unwrap().holds_writes = false;
        server.engine.log_advanced();
        assert_eq!(server.read(writer), "+OK\r\n+PONG\r\n");
        assert_eq!(server.read(reader), "$1\r\n1\r\n");
    }
}

#[test]
fn on_a_log_that_has_failed_a_client_that_asks_for_less_can_read_everything() {
    let (mut server, log) = TestServer::with_log(&[]);
    log.0.lock().unwrap().holds_writes = true;
    let (writer, reader) = (server.connect(), server.connect());
    assert_eq!(server.send(writer, "SET a 1\r\n"), "");
    log.0.lock().unwrap().has_failed = true;
    server.pass_ms(200);
    assert_eq!(server.send(reader, "CLIENT DURABILITY no\r\nGET a\r\n"), "+OK\r\n$1\r\n1\r\n");
}

#[test]
fn on_a_log_that_has_failed_the_keys_can_be_listed_by_a_client_that_asks_for_less() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (writer, reader) = (server.connect(), server.connect());
    assert_eq!(server.send(writer, "SET a 1\r\n"), "");
    log.0.lock().unwrap().has_failed = true;
    server.pass_ms(200);
    let reads = [
        ("KEYS *", "*1\r\n$1\r\na\r\n"),
        ("SCAN 0", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n"),
        ("DBSIZE", ":1\r\n"),
        ("RANDOMKEY", "$1\r\na\r\n"),
        ("TYPE a", "+string\r\n"),
        ("GET a", "$1\r\n1\r\n"),
    ];
    for (command, _) in reads {
        let reply = server.send(reader, &format!("{command}\r\n"));
        assert!(reply.starts_with("-MISCONF What was read is not durable"), "{command}: {reply}");
        assert!(reply.contains("CLIENT DURABILITY no"), "{command}: {reply}");
    }
    assert_eq!(server.send(reader, "CLIENT DURABILITY no\r\n"), "+OK\r\n");
    for (command, wanted) in reads {
        let reply = server.send(reader, &format!("{command}\r\n"));
        assert!(reply.starts_with(wanted), "{command}: {reply}");
    }
    let transaction = server.send(reader, "MULTI\r\nKEYS *\r\nEXEC\r\n");
    assert_eq!(transaction, "+OK\r\n+QUEUED\r\n*1\r\n*1\r\n$1\r\na\r\n");
    assert!(server.send(reader, "SET b 1\r\n").starts_with("-MISCONF Errors writing"));
}

#[test]
fn waitaof_waits_for_the_log() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "everysec"]);
    let client = server.connect();
    assert_eq!(server.send(client, "SET a 1\r\nWAITAOF 1 0 0\r\nPING\r\n"), "+OK\r\n");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "*2\r\n:1\r\n:0\r\n+PONG\r\n");
}

#[test]
fn a_log_that_takes_nothing_refuses_writes_and_serves_reads() {
    let (mut server, log) = TestServer::with_log(&[]);
    log.0.lock().unwrap().read_only = true;
    let client = server.connect();
    assert!(
        server
            .send(client, "SET a 1\r\n")
            .starts_with("-MISCONF Errors writing to the redo log: the disk")
    );
    assert_eq!(server.send(client, "GET a\r\n"), "$-1\r\n");
}

#[test]
fn what_a_log_did_not_take_is_not_thrown_away_by_a_reload() {
    let (mut server, log) = TestServer::with_log(&["--enable-debug-command", "yes"]);
    let client = server.connect();
    log.0.lock().unwrap().read_only = true;
    assert!(server.send(client, "DEBUG RELOAD\r\n").starts_with("-MISCONF "));
    assert_eq!(server.engine.take_request(), None);
}

#[test]
fn clients_whose_writes_will_never_be_durable_are_disconnected() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (writer, reader) = (server.connect(), server.connect());
    assert_eq!(server.send(writer, "SET a 1\r\n"), "");
    log.0.lock().unwrap().has_failed = true;
    server.pass_ms(200);
    assert!(server.ends(writer));
    // Health checks ask by it.
    assert!(server.send(reader, "PING\r\n").starts_with("-MISCONF Errors writing"));
    // What it has written must not be shown, and there is no point in waiting for it.
    let reply = server.send(reader, "GET a\r\nECHO x\r\n");
    assert!(reply.starts_with("-MISCONF What was read is not durable"), "{reply}");
    assert!(reply.contains("the disk is gone (CLIENT DURABILITY no lets"), "{reply}");
    assert!(reply.ends_with("\r\n$1\r\nx\r\n"), "{reply}");
}

#[test]
fn a_newcomer_is_not_disconnected_for_its_predecessor() {
    let (mut server, log) = TestServer::with_log(&[]);
    let held = server.connect();
    log.0.lock().unwrap().holds_writes = true;
    assert_eq!(server.send(held, "SET a 1\r\n"), "");
    server.engine.remove(held);
    let newcomer = server.connect();
    assert_eq!(newcomer, held, "it has the place of the one that left");
    log.0.lock().unwrap().has_failed = true;
    server.pass_ms(200);
    assert!(!server.ends(newcomer));
    assert_eq!(server.send(newcomer, "ECHO x\r\n"), "$1\r\nx\r\n");
}

#[test]
fn a_reply_that_is_taken_back_takes_its_gate_along() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    let value = "x".repeat(500);
    server.send(client, &format!("SET a {value}\r\n"));
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "+OK\r\n");
    let silent = "CLIENT REPLY OFF\r\nMULTI\r\nGET a\r\nSET b 1\r\nEXEC\r\nCLIENT REPLY ON\r\n";
    assert_eq!(server.send(client, silent), "");
    log.0.lock().unwrap().durable.store(2, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "+OK\r\n");
}

#[test]
fn nothing_splits_the_block_of_a_transaction() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    for command in ["BGSAVE", "BGREWRITEAOF", "CHECKPOINT"] {
        let before = log.0.lock().unwrap().open;
        let sent = format!("MULTI\r\nSET a 1\r\n{command}\r\nSET b 1\r\nEXEC\r\n");
        server.engine.receive(client, sent.as_bytes());
        server.engine.end_iteration(true);
        assert_eq!(log.0.lock().unwrap().open, before + 1, "{command}");
    }
}

#[test]
fn a_log_that_takes_nothing_gets_nothing_from_expiry() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    server.send(client, "SET a 1 PX 100\r\nSADD s 1\r\nPEXPIRE s 100\r\nSADD t 1\r\n");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    server.read(client);
    log.0.lock().unwrap().read_only = true;
    server.pass_ms(200);
    assert_eq!(server.send(client, "DBSIZE\r\nGET a\r\n"), ":3\r\n$-1\r\n");
    assert_eq!(server.send(client, "SUNION s t\r\nEXISTS a s\r\n"), "*1\r\n$1\r\n1\r\n:0\r\n");
    assert_eq!(log.0.lock().unwrap().records, 0, "reads log nothing");
    log.0.lock().unwrap().read_only = false;
    server.pass_ms(200);
    assert_eq!(server.engine.keyspace().size(DbIndex::FIRST).0, 1);
}

#[test]
fn what_is_read_after_an_exchange_of_databases_waits_for_it() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, reader) = (server.connect(), server.connect());
    server.send(client, "SET a 1\r\n");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "+OK\r\n");
    server.engine.receive(client, b"SWAPDB 0 1\r\n");
    assert_eq!(server.send(reader, "SELECT 1\r\nGET a\r\n"), "+OK\r\n");
    log.0.lock().unwrap().durable.store(2, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(reader), "$1\r\n1\r\n");
}

#[test]
fn emptying_what_is_empty_waits_for_what_emptied_it() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, other) = (server.connect(), server.connect());
    server.send(client, "SET a 1\r\n");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    server.engine.receive(client, b"DEL a\r\n");
    assert_eq!(server.send(other, "FLUSHALL\r\n"), "");
}

/// What other clients have written in the same iteration is not undone with it.
#[test]
fn what_empties_databases_begins_a_block_and_what_was_before_it_is_kept() {
    for (words, expected) in [
        ("FLUSHALL", vec![1]),
        ("FLUSHDB async", vec![1]),
        ("SWAPDB 0 1", vec![1]),
        ("FLUSHALL whatever", vec![]),
        ("SWAPDB 0 99", vec![]),
        ("MULTI\r\nSET b 2\r\nFLUSHALL\r\nSET c 3\r\nEXEC", vec![1]),
        ("MULTI\r\nFLUSHALL\r\nDISCARD", vec![]),
        ("MULTI\r\nSET b 2\r\nEXEC", vec![]),
    ] {
        let (mut server, log) = TestServer::with_log(&[]);
        let (client, other) = (server.connect(), server.connect());
        server.engine.receive(other, b"SET a 1\r\n");
        server.engine.receive(client, format!("{words}\r\n").as_bytes());
        assert_eq!(log.0.lock().unwrap().points, expected, "{words}");
        let open = log.0.lock().unwrap().open;
        assert_eq!(open, 1 + expected.len() as u64, "{words}: one block, and no more");
    }
}

/// A client sends what makes blocks faster than a device takes them.
#[test]
fn what_empties_databases_makes_no_more_blocks_than_a_device_gets_done() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    let many = "SET a 1\r\nFLUSHALL\r\n".repeat(300);
    log.0.lock().unwrap().is_busy = true;
    server.engine.receive(client, many.as_bytes());
    let blocks = log.0.lock().unwrap().points.len();
    assert!((32..=65).contains(&blocks), "{blocks}");
    // Nothing in between: there is nothing to lose.
    server.engine.receive(client, "SWAPDB 0 1\r\n".repeat(300).as_bytes());
    assert_eq!(log.0.lock().unwrap().points.len(), blocks);
    log.0.lock().unwrap().is_busy = false;
    server.engine.receive(client, many.as_bytes());
    assert_eq!(log.0.lock().unwrap().points.len(), blocks + 300);
}

#[test]
fn a_wrong_type_is_told_when_it_is_durable() {
    let (mut server, _log) = TestServer::with_log(&[]);
    let (client, other) = (server.connect(), server.connect());
    server.send(client, "SET a 1\r\nLPUSH l 1\r\n");
    assert_eq!(server.send(other, "LPUSH a 1\r\n"), "");
    let other = server.connect();
    assert_eq!(server.send(other, "APPEND l 1\r\n"), "");
}

#[test]
fn a_message_does_not_overtake_what_its_sender_wrote() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, listener) = (server.connect(), server.connect());
    server.send(listener, "SUBSCRIBE c\r\n");
    server.send(client, "MULTI\r\nSET a 1\r\nPUBLISH c a\r\nEXEC\r\n");
    assert_eq!(server.read(listener), "");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert!(server.read(listener).ends_with("$1\r\na\r\n"));
}

#[test]
fn that_a_key_has_expired_is_not_told_before_its_expiry_is_durable() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "no"]);
    let client = server.connect();
    assert_eq!(server.send(client, "SET a 1 PX 100\r\n"), "+OK\r\n");
    log.0.lock().unwrap().has_failed = true;
    server.pass_ms(200);
    server.engine.end_iteration(true);
    server.send(client, "CLIENT DURABILITY always\r\n");
    let reply = server.send(client, "GET a\r\n");
    assert!(reply.starts_with("-MISCONF What was read is not durable"), "{reply}");
}

#[test]
fn a_dump_waits_until_it_is_known_what_is_garbage() {
    // This log never tells.
    let (mut server, _log) = TestServer::with_log(&["--appendfsync", "no"]);
    let client = server.connect();
    let saved = server.send(client, "LASTSAVE\r\n");
    assert_eq!(server.send(client, "BGSAVE\r\n"), "+Background saving scheduled\r\n");
    let again = server.send(client, "SAVE\r\n");
    assert_eq!(again, "-ERR Background save already in progress\r\n");
    assert_eq!(server.send(client, "LASTSAVE\r\n"), saved);
    let info = server.send(client, "INFO persistence\r\n");
    assert!(info.contains("rdb_bgsave_in_progress:1\r\n"), "{info}");
}

#[test]
fn a_shutdown_that_saves_can_be_asked_for_twice_and_aborted() {
    let (mut server, _log) = TestServer::with_log(&["--appendfsync", "no"]);
    let (saver, first, second, writer) =
        (server.connect(), server.connect(), server.connect(), server.connect());
    // No mark can be made of this log.
    assert_eq!(server.send(saver, "SAVE\r\n"), "");
    assert_eq!(server.send(first, "SHUTDOWN SAVE\r\n"), "");
    assert_eq!(server.send(second, "SHUTDOWN SAVE\r\n"), "");
    assert_eq!(server.send(writer, "SET a 1\r\n"), "", "it would not be in the dump");
    assert_eq!(server.engine.shutdown_requested(), None);
    let other = server.connect();
    assert_eq!(server.send(other, "CLIENT UNPAUSE\r\n"), "+OK\r\n");
    assert_eq!(server.send(other, "GET a\r\n"), "$-1\r\n");
    assert_eq!(server.send(other, "SHUTDOWN ABORT\r\n"), "+OK\r\n");
    server.engine.end_iteration(true);
    let refused = "-ERR Errors trying to SHUTDOWN. Check logs.\r\n";
    assert_eq!((server.read(first), server.read(second)), (refused.to_owned(), refused.to_owned()));
    assert!(server.read(saver).starts_with("-ERR SHUTDOWN was begun and aborted"));
    assert_eq!(server.read(writer), "+OK\r\n");
    assert_eq!(server.engine.shutdown_requested(), None);
    let again = server.send(other, "SHUTDOWN ABORT\r\n");
    assert_eq!(again, "-ERR No shutdown in progress.\r\n");
    server.send(other, "SHUTDOWN NOSAVE\r\n");
    assert!(server.engine.shutdown_requested().is_some());
}

#[test]
fn a_dump_of_a_log_that_fails_ends() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "no"]);
    let client = server.connect();
    assert_eq!(server.send(client, "SAVE\r\n"), "");
    log.0.lock().unwrap().has_failed = true;
    server.pass_ms(200);
    server.engine.end_iteration(true);
    assert!(server.read(client).starts_with("-ERR "), "it is not waited for");
    let info = server.send(client, "INFO persistence\r\n");
    assert!(info.contains("rdb_bgsave_in_progress:0\r\n"), "{info}");
    assert!(info.contains("rdb_last_bgsave_status:err\r\n"), "{info}");
}

#[test]
fn nothing_is_said_to_be_saved_that_is_not() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    let before = server.send(client, "LASTSAVE\r\n");
    log.0.lock().unwrap().has_failed = true;
    server.pass_ms(5000);
    for command in ["SAVE", "BGSAVE"] {
        let reply = server.send(client, &format!("{command}\r\n"));
        assert!(reply.starts_with("-MISCONF The redo log takes nothing"), "{command}: {reply}");
    }
    assert_eq!(server.send(client, "LASTSAVE\r\n"), before);
    let mut volatile = TestServer::new(&["--appendonly", "no"]);
    let client = volatile.connect();
    let set = "CONFIG SET snapshot-algorithm bitmap\r\n";
    assert_eq!(volatile.send(client, set), "+OK\r\n");
    for command in ["SAVE", "BGSAVE", "SHUTDOWN SAVE"] {
        let reply = volatile.send(client, &format!("{command}\r\n"));
        assert!(reply.starts_with("-ERR appendonly is no"), "{command}: {reply}");
    }
}

#[test]
fn the_size_of_the_log_is_in_its_section_of_info() {
    let (mut server, _log) = TestServer::with_log(&[]);
    let client = server.connect();
    let info = server.send(client, "INFO redo\r\n");
    for line in ["redo_disk_bytes:0", "redo_segments:0", "redo_health:ok"] {
        assert!(info.contains(&format!("{line}\r\n")), "{line}: {info}");
    }
}

#[test]
fn a_count_that_a_reader_finds_is_stored_only_where_it_may_be() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "no"]);
    let client = server.connect();
    let block = |log: &SharedLog| {
        let log = log.0.lock().unwrap();
        (log.open, log.records)
    };
    assert_eq!(server.send(client, "PFADD h a b c\r\n"), ":1\r\n");
    let before = block(&log);
    log.0.lock().unwrap().read_only = true;
    server.pass_ms(200);
    assert_eq!(server.send(client, "PFCOUNT h\r\n"), ":3\r\n");
    assert_eq!(block(&log), before, "the log takes nothing");
    log.0.lock().unwrap().read_only = false;
    server.pass_ms(200);
    assert_eq!(server.send(client, "CONFIG SET read-only yes\r\n"), "+OK\r\n");
    // The log notes that somewhere, in a block of its own.
    server.pass_ms(200);
    let before = block(&log);
    assert_eq!(server.send(client, "PFCOUNT h\r\n"), ":3\r\n");
    assert_eq!(block(&log), before, "the server is read only");
    let script = "EVAL_RO \"return redis.call('pfcount', KEYS[1])\" 1 h\r\n";
    let refusal = "-ERR Write commands are not allowed from read-only scripts.";
    assert!(server.send(client, script).starts_with(refusal));
    assert_eq!(block(&log), before, "nor does a script");
    assert_eq!(server.send(client, "CONFIG SET read-only no\r\n"), "+OK\r\n");
    server.pass_ms(200);
    let before = block(&log).0;
    assert_eq!(server.send(client, "PFCOUNT h\r\n"), ":3\r\n");
    assert_eq!(block(&log), (before + 1, 0), "now it is a write");
    assert_eq!(server.send(client, "PFCOUNT h\r\n"), ":3\r\n");
    assert_eq!(block(&log), (before + 1, 0), "once");
}

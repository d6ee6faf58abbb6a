//! DEBUG RELOAD and DEBUG LOADAOF: memory is thrown away and filled from the log again, and no client
//! notices.

use crate::process::Program;
use crate::wire::Connection;

/// Keys of every type and size, in two databases, one of them with an expiry.
pub(crate) fn fill(connection: &mut Connection) {
    for db in [0, 5] {
        assert_eq!(connection.words(&format!("SELECT {db}")).text(), "OK");
        for number in 0..200 {
            connection.words(&format!("SET string:{number} {db}:{number}"));
            connection.words(&format!("HSET hash f{number} {number}"));
            connection.words(&format!("SADD set m{number}"));
            connection.words(&format!("ZADD zset {number} m{number}"));
            connection.words(&format!("RPUSH list e{number}"));
        }
        connection.words("SETRANGE large 20000 end");
        connection.words("HSET small f v");
        connection.words("SET expiring v PX 100000000");
    }
    assert_eq!(connection.words("SELECT 0").text(), "OK");
}

#[test]
fn what_is_loaded_again_is_what_was_there() {
    for command in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
        let server = Program::indelible().start(&["--enable-debug-command", "yes"]);
        let mut connection = server.connect();
        fill(&mut connection);
        connection.words("DEL string:7");
        connection.words("SREM set m8");
        let before = connection.words("DEBUG DIGEST").text();
        for _ in 0..2 {
            assert_eq!(connection.words(command).text(), "OK");
            assert_eq!(connection.words("DEBUG DIGEST").text(), before);
        }
        assert!(connection.words("PTTL expiring").text().parse::<i64>().unwrap() > 90_000_000);
        assert_eq!(connection.words("SET after 1").text(), "OK");
        assert_eq!(connection.words("DBSIZE").text(), "207");
        let loaded = server.log().matches("DB loaded from the redo log").count();
        assert_eq!(loaded, 3, "{}", server.log());
    }
}

#[test]
fn clients_keep_what_they_wait_for_watch_and_have_selected() {
    let server = Program::indelible().start(&["--enable-debug-command", "yes"]);
    let (mut admin, mut blocked, mut watcher) =
        (server.connect(), server.connect(), server.connect());
    blocked.words("SELECT 3");
    blocked.send(&["BLPOP", "queue", "0"]).unwrap();
    watcher.words("SET watched 1");
    watcher.words("WATCH watched untouched");
    while !admin.words("CLIENT LIST").text().contains("cmd=blpop") {}
    // What waits in the same packet is executed when the data is back.
    admin.send_bytes(b"DEBUG RELOAD\r\nGET watched\r\n").unwrap();
    assert_eq!(admin.receive().unwrap().text(), "OK");
    assert_eq!(admin.receive().unwrap().text(), "1");
    watcher.words("MULTI");
    watcher.words("GET watched");
    assert_eq!(watcher.words("EXEC").elements().len(), 1);
    watcher.words("WATCH watched");
    assert_eq!(admin.words("DEBUG RELOAD").text(), "OK");
    admin.words("SET watched 2");
    watcher.words("MULTI");
    watcher.words("GET watched");
    assert!(watcher.words("EXEC").elements().is_empty(), "the key was changed after the reload");
    admin.words("SELECT 3");
    assert_eq!(admin.words("RPUSH queue x").text(), "1");
    assert_eq!(blocked.receive().unwrap().elements()[1].text(), "x");
}

#[test]
fn a_reload_in_a_transaction_comes_after_it() {
    let server = Program::indelible().start(&["--enable-debug-command", "yes"]);
    let mut connection = server.connect();
    for command in ["MULTI", "SET a 1", "DEBUG RELOAD", "INCR a"] {
        connection.words(command);
    }
    let replies = connection.words("EXEC");
    let replies: Vec<String> = replies.elements().iter().map(|reply| reply.text()).collect();
    assert_eq!(replies, ["OK", "OK", "2"]);
    let mut value = connection.words("GET a").text();
    while value.starts_with("LOADING") {
        value = connection.words("GET a").text();
    }
    assert_eq!(value, "2");
}

#[test]
fn without_a_log_there_is_nothing_to_load_and_everything_stays() {
    let server = Program::indelible().start(&[
        "--enable-debug-command",
        "yes",
        "--appendonly",
        "no",
        "--save",
        "",
    ]);
    let mut connection = server.connect();
    connection.words("SET a 1");
    assert_eq!(connection.words("DEBUG RELOAD").text(), "OK");
    assert_eq!(connection.words("GET a").text(), "1");
}

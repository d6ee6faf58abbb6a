//! Users: what a connection may do, what it loses when its user does, and where users are kept.

use crate::peers;
use crate::process::{Program, Server, wait_until};
use crate::wire::{Connection, Reply};
use std::fs;
use std::path::Path;
use std::process::Command;

const OPTIONS: [&str; 4] = ["--save", "", "--appendfsync", "no"];

/// Sends calls, each of which must be taken.
fn all_ok(connection: &mut Connection, calls: &[&str]) {
    for call in calls {
        let reply = connection.words(call);
        assert!(!reply.is_error(), "{call}: {}", reply.text());
    }
}

/// A connection that has authenticated.
fn as_user(server: &Server, user: &str, password: &str) -> Connection {
    let mut connection = server.connect();
    assert_eq!(connection.words(&format!("AUTH {user} {password}")).text(), "OK");
    connection
}

/// A connection to a server that has loaded: one with a password is taken for started when it
/// asks for it, which may be before.
fn loaded(server: &Server, password: &str) -> Connection {
    let mut connection = server.connect();
    all_ok(&mut connection, &[&format!("AUTH {password}")]);
    wait_until(|| !connection.words("PING").is_error());
    connection
}

/// The lines of ACL LIST.
fn lines(connection: &mut Connection) -> Vec<String> {
    connection.words("ACL LIST").elements().iter().map(Reply::text).collect()
}

#[test]
fn a_user_may_do_what_its_rules_say_and_no_more() {
    let server = Program::indelible().start(&OPTIONS);
    let mut admin = server.connect();
    all_ok(
        &mut admin,
        &["ACL SETUSER alice on >secret ~app:* +@read +@write -@dangerous", "SET other 1"],
    );
    let mut alice = as_user(&server, "alice", "secret");
    assert_eq!(alice.words("SET app:1 x").text(), "OK");
    for (call, why) in [
        ("GET other", "NOPERM No permissions to access a key"),
        ("FLUSHALL", "NOPERM User alice has no permissions to run the 'flushall' command"),
        (
            "ACL SETUSER alice allkeys",
            "NOPERM User alice has no permissions to run the 'acl|setuser' command",
        ),
        ("AUTH alice wrong", "WRONGPASS invalid username-password pair or user is disabled."),
    ] {
        assert_eq!(alice.words(call).text(), why, "{call}");
    }
    // It is still alice.
    assert_eq!(alice.words("GET app:1").text(), "x");
    let list = admin.words("CLIENT LIST").text();
    assert!(list.contains("user=alice") && list.contains("user=default"), "{list}");
    let log = admin.words("ACL LOG").elements().to_vec();
    let field = |entry: &Reply, name: &str| {
        let fields = entry.elements();
        let at = fields.iter().position(|it| it.text() == name).unwrap();
        fields[at + 1].text()
    };
    let told: Vec<[String; 4]> = log
        .iter()
        .map(|entry| ["reason", "context", "object", "username"].map(|name| field(entry, name)))
        .collect();
    let expected = [
        ["auth", "toplevel", "AUTH", "alice"],
        ["command", "toplevel", "acl|setuser", "alice"],
        ["command", "toplevel", "flushall", "alice"],
        ["key", "toplevel", "other", "alice"],
    ];
    assert_eq!(told, expected.map(|entry| entry.map(str::to_owned)));
    assert!(field(&log[0], "client-info").contains("user=alice"), "{log:?}");
    assert_eq!(["3", "0"], [field(&log[0], "entry-id"), field(&log[3], "entry-id")]);
    let stats = admin.words("INFO stats").text();
    for line in ["denied_auth:1", "denied_cmd:2", "denied_key:1", "denied_channel:0"] {
        assert!(stats.contains(&format!("acl_access_{line}")), "{line}: {stats}");
    }
    all_ok(&mut admin, &["CONFIG SET acllog-max-len 1"]);
    assert!(alice.words("GET another").is_error());
    assert_eq!(admin.words("ACL LOG").elements().len(), 1);
}

#[test]
fn what_a_user_loses_its_connections_lose() {
    let server = Program::indelible().start(&OPTIONS);
    let mut admin = server.connect();
    all_ok(&mut admin, &["ACL SETUSER alice on nopass ~* &* +@all", "SET k v"]);
    let mut alice = as_user(&server, "alice", "x");
    assert_eq!(alice.words("GET k").text(), "v");
    all_ok(&mut admin, &["ACL SETUSER alice -get"]);
    assert!(alice.words("GET k").text().starts_with("NOPERM"));
    // Between MULTI and EXEC: what is still allowed is executed, the rest says why not.
    all_ok(&mut alice, &["MULTI", "SET k w", "STRLEN k"]);
    all_ok(&mut admin, &["ACL SETUSER alice -strlen"]);
    let replies = alice.words("EXEC").elements().to_vec();
    assert_eq!(replies[0].text(), "OK");
    assert!(
        replies[1].text().starts_with("NOPERM ACLs rules changed between the moment"),
        "{replies:?}"
    );
    // One that is gone has no connections.
    let mut other = as_user(&server, "alice", "x");
    all_ok(&mut admin, &["ACL DELUSER alice"]);
    assert!(alice.is_closed() && other.is_closed());
    // And one of the same name that comes later is another one.
    all_ok(&mut admin, &["ACL SETUSER alice on nopass +@all"]);
    assert_eq!(as_user(&server, "alice", "x").words("ACL WHOAMI").text(), "alice");
}

#[test]
fn a_command_that_waits_does_not_go_on_without_the_right() {
    let server = Program::indelible().start(&OPTIONS);
    let mut admin = server.connect();
    all_ok(&mut admin, &["ACL SETUSER alice on nopass ~* &* +@all"]);
    let mut waiting: Vec<Connection> = (0..3).map(|_| as_user(&server, "alice", "x")).collect();
    for (connection, call) in waiting.iter_mut().zip([
        &["BLPOP", "list", "0"][..],
        &["BLPOP", "mine", "0"],
        &["XREAD", "BLOCK", "0", "STREAMS", "list", "$"],
    ]) {
        connection.send(call).unwrap();
    }
    wait_until(|| admin.words("INFO clients").text().contains("blocked_clients:3"));
    all_ok(&mut admin, &["ACL SETUSER alice resetkeys ~mine"]);
    for connection in [0, 2] {
        let reply = waiting[connection].receive().unwrap().text();
        let expected = "NOPERM No permissions to access a key";
        assert_eq!(reply, expected);
    }
    all_ok(&mut admin, &["RPUSH list a", "RPUSH mine b"]);
    assert_eq!(admin.words("LLEN list").text(), "1");
    assert_eq!(waiting[1].receive().unwrap().elements()[1].text(), "b");
    // It has lost the right, and not its connection.
    assert_eq!(waiting[0].words("PING").text(), "PONG");
    waiting[1].send(&["BLPOP", "mine", "0"]).unwrap();
    wait_until(|| admin.words("INFO clients").text().contains("blocked_clients:1"));
    all_ok(&mut admin, &["ACL DELUSER alice", "RPUSH mine c"]);
    assert!(waiting[1].is_closed());
    assert_eq!(admin.words("LLEN mine").text(), "1");
}

#[test]
fn a_subscriber_and_a_monitor_are_closed_when_they_may_listen_no_more() {
    let server = Program::indelible().start(&OPTIONS);
    let mut admin = server.connect();
    all_ok(&mut admin, &["ACL SETUSER alice on nopass &news &other +@all"]);
    let mut subscribers: Vec<Connection> = (0..2).map(|_| as_user(&server, "alice", "x")).collect();
    subscribers[0].words("SUBSCRIBE news");
    subscribers[1].words("SUBSCRIBE other");
    let mut monitor = as_user(&server, "alice", "x");
    all_ok(&mut monitor, &["MONITOR"]);
    all_ok(&mut admin, &["ACL SETUSER alice resetchannels &news"]);
    assert!(subscribers[1].is_closed());
    all_ok(&mut admin, &["PUBLISH news today"]);
    assert_eq!(subscribers[0].receive().unwrap().elements()[2].text(), "today");
    all_ok(&mut admin, &["ACL SETUSER alice -monitor"]);
    wait_until(|| !admin.words("CLIENT LIST").text().contains("cmd=monitor"));
}

/// What three users may do with a channel: one of before the configuration changed, one of after, and one that was reset since.
fn channels_by_default(program: &Program, start: &[&str], later: &str) -> Vec<String> {
    let server = program.start(&[&OPTIONS[..], start].concat());
    let mut admin = server.connect();
    all_ok(&mut admin, &["ACL SETUSER old on nopass +@all", "ACL SETUSER again on nopass +@all"]);
    all_ok(&mut admin, &[&format!("CONFIG SET acl-pubsub-default {later}")]);
    all_ok(
        &mut admin,
        &["ACL SETUSER new on nopass +@all", "ACL SETUSER again reset on nopass +@all"],
    );
    all_ok(&mut admin, &["ACL SETUSER old (+publish)"]);
    let mut told = vec![admin.words("CONFIG GET acl-pubsub-default").elements()[1].text()];
    // All publish before one subscribes: the reply counts the listeners.
    for command in ["PUBLISH news x", "PSUBSCRIBE n*"] {
        for user in ["old", "new", "again"] {
            told.push(as_user(&server, user, "x").words(command).text());
        }
    }
    told
}

#[test]
fn the_channels_of_a_new_user_are_those_of_acl_pubsub_default() {
    let refused = "NOPERM No permissions to access a channel";
    for (start, later) in [
        (&[][..], "resetchannels"),
        (&[], "allchannels"),
        (&["--acl-pubsub-default", "allchannels"], "resetchannels"),
    ] {
        let told = channels_by_default(&Program::indelible(), start, later);
        // `old` has got a selector since, which has the channels of then for PUBLISH.
        let (old, new) = (!start.is_empty(), later == "allchannels");
        let publish = |may| if may { "0" } else { refused };
        let subscribe = |may| if may { "" } else { refused };
        let expected = [
            later,
            publish(old || new),
            publish(new),
            publish(new),
            subscribe(old),
            subscribe(new),
            subscribe(new),
        ];
        assert_eq!(told, expected, "{start:?}, then {later}");
        if let Some(redis) = peers::of("8.2") {
            assert_eq!(
                told,
                channels_by_default(&redis.program, start, later),
                "Redis: {start:?}, {later}"
            );
        }
    }
}

#[test]
fn a_script_may_do_what_its_caller_may() {
    let server = Program::indelible().start(&OPTIONS);
    let mut admin = server.connect();
    all_ok(&mut admin, &["ACL SETUSER alice on nopass ~mine +@all -del", "SET other 1"]);
    let mut alice = as_user(&server, "alice", "x");
    let mut eval = |script: &str| alice.call(&["EVAL", script, "0"]).unwrap().text();
    assert_eq!(eval("return redis.call('set', 'mine', 1)"), "OK");
    let refused = eval("return redis.call('get', 'other')");
    assert!(
        refused.starts_with("ERR ACL failure in script: No permissions to access a key"),
        "{refused}"
    );
    let refused = eval("return redis.call('del', 'mine')");
    assert!(
        refused.contains("User alice has no permissions to run the 'del' command"),
        "{refused}"
    );
    assert_eq!(eval("return tostring(redis.acl_check_cmd('get', 'mine'))"), "true");
    assert_eq!(eval("return tostring(redis.acl_check_cmd('get', 'other'))"), "false");
    let log = admin.words("ACL LOG 1").elements()[0].elements().to_vec();
    assert_eq!([log[5].text(), log[7].text()], ["lua", "del"]);
}

/// A directory with a configuration file, and a server that has it.
fn with_configuration(text: &str) -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("redis.conf");
    fs::write(&file, text.replace("HERE", directory.path().to_str().unwrap())).unwrap();
    let server = Program::indelible().with_file(file.to_str().unwrap()).start(&OPTIONS);
    (directory, server)
}

/// What a server says that does not start with a configuration file.
fn refused(file: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .current_dir(file.parent().unwrap())
        .args(["server", file.to_str().unwrap(), "--port", "0", "--unixsocket", "/nowhere/socket"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_file_of_users_is_read_at_the_start_and_written_by_acl_save() {
    let directory = tempfile::tempdir().unwrap();
    let [file, configuration] = ["users.acl", "redis.conf"].map(|name| directory.path().join(name));
    fs::write(&file, "user alice on >secret ~app:* +@all\n").unwrap();
    fs::write(&configuration, format!("aclfile {}\n", file.display())).unwrap();
    let mut server =
        Program::indelible().with_file(configuration.to_str().unwrap()).start(&OPTIONS);
    let mut admin = server.connect();
    let mut alice = as_user(&server, "alice", "secret");
    all_ok(
        &mut admin,
        &[
            "ACL SETUSER bob on #81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9 +get ~b (+set ~c)",
            "ACL SAVE",
        ],
    );
    let told = lines(&mut admin);
    let written = fs::read_to_string(&file).unwrap();
    assert_eq!(written.lines().collect::<Vec<_>>(), told);
    assert!(!written.contains("secret"), "{written}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left");
    server.kill();
    server.restart();
    admin = server.connect();
    assert_eq!(lines(&mut admin), told);
    assert_eq!(as_user(&server, "bob", "bob").words("SET c 1").text(), "OK");
    assert!(alice.is_closed());

    // ACL LOAD is all or nothing, and ends what is not as it was.
    let mut alice = as_user(&server, "alice", "secret");
    let mut bob = as_user(&server, "bob", "bob");
    fs::write(&file, format!("{written}user carol on +nope\nuser carol on\n")).unwrap();
    let error = admin.words("ACL LOAD").text();
    let lines_of_file = written.lines().count();
    for part in [
        format!("users.acl:{}: Error in applying operation '+nope'", lines_of_file + 1),
        format!("Duplicate user 'carol' found on line {}", lines_of_file + 2),
        "no change to the previously active ACL rules was performed".to_owned(),
    ] {
        assert!(error.contains(&part), "{part}: {error}");
    }
    assert_eq!(lines(&mut admin), told);
    fs::write(&file, written.replace("+get", "+strlen")).unwrap();
    all_ok(&mut admin, &["ACL LOAD"]);
    assert!(bob.is_closed());
    assert!(alice.words("GET app:1").text().is_empty());
    assert_eq!(as_user(&server, "bob", "bob").words("STRLEN b").text(), "0");

    // CONFIG REWRITE leaves users to that file.
    all_ok(&mut admin, &["CONFIG REWRITE"]);
    let text = fs::read_to_string(&configuration).unwrap();
    assert!(!text.lines().any(|line| line.starts_with("user ")), "{text}");
}

#[test]
fn acl_load_ends_what_was_subscribed_as_a_user_that_has_lost_the_channel() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users.acl");
    let users = "user alice on nopass &news +@all\nuser carol on nopass &news +@all\n";
    fs::write(&file, users).unwrap();
    let server = Program::indelible()
        .start(&[&OPTIONS[..], &["--aclfile", file.to_str().unwrap()]].concat());
    let [mut of_alice, mut of_carol] = ["alice", "carol"].map(|user| {
        let mut listening = as_user(&server, user, "x");
        listening.words("HELLO 3");
        listening.words("SUBSCRIBE news");
        all_ok(&mut listening, &["AUTH carol x"]);
        listening
    });
    fs::write(&file, users.replacen("&news", "&other", 1)).unwrap();
    let mut admin = server.connect();
    all_ok(&mut admin, &["ACL LOAD"]);
    assert!(of_alice.is_closed());
    assert_eq!(admin.words("PUBLISH news today").text(), "1");
    assert_eq!(of_carol.receive().unwrap().elements()[2].text(), "today");
}

#[test]
fn a_server_does_not_start_with_users_that_are_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let configuration = |text: &str| {
        let text = text.replace("HERE", directory.path().to_str().unwrap());
        let log = at("log.txt");
        let _may_not_be_there = fs::remove_file(&log);
        fs::write(
            at("redis.conf"),
            format!("dir {}\nlogfile {}\n{text}", at("").display(), log.display()),
        )
        .unwrap();
        let said = refused(&at("redis.conf"));
        said + &fs::read_to_string(log).unwrap_or_default()
    };
    fs::write(at("users.acl"), "user alice on +nope\nuser bob on >hunter2 %\n").unwrap();
    for (text, expected) in [
        (
            "aclfile HERE/users.acl\n",
            "users.acl:1: Error in applying operation '+nope': Unknown command",
        ),
        ("aclfile HERE/users.acl\n", "users.acl:2: Syntax error"),
        ("aclfile HERE/none.acl\n", "none.acl': No such file or directory"),
        (
            "aclfile HERE/users.acl\nuser alice on\n",
            "please define either an ACL file or declare users directly",
        ),
        ("user alice on\nuser alice off\n", "Duplicate user found"),
        ("user alice +nope\n", "Unknown command or category name in ACL"),
        ("user alice on (~x +get\n", "Unmatched parenthesis"),
    ] {
        let said = configuration(text);
        assert!(said.contains(expected), "{text}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_user_that_is_off_is_told_of_at_the_start() {
    let (directory, _server) =
        with_configuration("logfile HERE/log.txt\nuser alice >secret +@all\nuser bob on +@all\n");
    let text = fs::read_to_string(directory.path().join("log.txt")).unwrap();
    let told: Vec<&str> = text.lines().filter(|line| line.contains("is disabled")).collect();
    let [told] = told.as_slice() else { panic!("{text}") };
    assert!(
        told.ends_with(
            "The user 'alice' is disabled (there is no 'on' modifier in the user description). Make \
             sure this is not a configuration error."
        ),
        "{told}"
    );
}

#[test]
fn config_rewrite_keeps_users_and_what_was_there_without_users() {
    let (directory, mut server) =
        with_configuration("# mine\nuser alice on >secret ~* +@all\nrequirepass hush\n");
    let file = directory.path().join("redis.conf");
    assert!(server.connect().words("GET a").text().starts_with("NOAUTH"));
    let mut admin = loaded(&server, "hush");
    all_ok(
        &mut admin,
        &["ACL SETUSER bob on nopass ~\"x +get", "ACL SETUSER default -flushall", "CONFIG REWRITE"],
    );
    let told = lines(&mut admin);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# mine\nuser alice on sanitize-payload #"), "{text}");
    assert!(!text.contains("secret") && text.contains("requirepass"), "{text}");
    server.kill();
    server.restart();
    let mut admin = loaded(&server, "hush");
    assert_eq!(lines(&mut admin), told);
    assert!(admin.words("FLUSHALL").text().starts_with("NOPERM"));

    // Yesterday's: one password, and a file without a word of users.
    let (directory, mut server) = with_configuration("requirepass hush\n");
    let file = directory.path().join("redis.conf");
    let mut admin = loaded(&server, "hush");
    all_ok(&mut admin, &["CONFIG SET hz 20", "CONFIG REWRITE"]);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("requirepass \"hush\"") && !text.contains("\nuser"), "{text}");
    all_ok(&mut admin, &["CONFIG SET requirepass other"]);
    let mut later = server.connect();
    assert!(later.words("AUTH hush").is_error());
    all_ok(&mut later, &["AUTH other"]);
    assert_eq!(later.call(&["CONFIG", "SET", "requirepass", ""]).unwrap().text(), "OK");
    all_ok(&mut server.connect(), &["PING"]);
    server.kill();
    server.restart();
    loaded(&server, "hush");
}

#[test]
fn a_backup_carries_the_users_and_a_restore_does_not_apply_them() {
    let mut server = Program::indelible().start(&["--save", ""]);
    let mut admin = server.connect();
    all_ok(&mut admin, &["SET k v", "ACL SETUSER alice on >hunter2 ~a +get", "BACKUP CREATE then"]);
    server.kill();
    let target = tempfile::tempdir().unwrap();
    let into = target.path().join("restored");
    let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args([
            "restore",
            server.directory().to_str().unwrap(),
            "--into",
            into.to_str().unwrap(),
            "--at",
            "then",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(into.join("indelible.conf.restored")).unwrap();
    assert!(
        text.lines().any(|line| line.starts_with("user alice on sanitize-payload #")),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
    let restored = Program::indelible().start_on(&into, &["--save", ""]);
    assert_eq!(restored.connect().words("ACL USERS").elements().len(), 1);
}

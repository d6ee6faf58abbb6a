//! What COMMAND tells of the table, against what a Redis 7.0 server tells.

use command::introspect;
use command::names::Names;
use command::table;
use resp::{Protocol, Writer};

fn command(protocol: Protocol, call: &[&str]) -> String {
    let call: Vec<&[u8]> = call.iter().map(|word| word.as_bytes()).collect();
    let mut reply = Writer::new(protocol);
    let command = table::resolve(&call).expect("a call of COMMAND");
    introspect::execute(command, &Names::default(), &call, &mut reply);
    String::from_utf8(reply.take()).expect("only text")
}

#[test]
fn infos_have_the_shape_of_redis() {
    let call = ["COMMAND", "INFO", "watch", "nope"];
    assert_eq!(
        command(Protocol::Resp2, &call),
        "*2\r\n*10\r\n$5\r\nwatch\r\n:-2\r\n*5\r\n+noscript\r\n+loading\r\n+stale\r\n+fast\r\n\
         +allow_busy\r\n:1\r\n:-1\r\n:1\r\n*2\r\n+@fast\r\n+@transaction\r\n*0\r\n*1\r\n*6\r\n\
         $5\r\nflags\r\n*1\r\n+RO\r\n$12\r\nbegin_search\r\n*4\r\n$4\r\ntype\r\n$5\r\nindex\r\n\
         $4\r\nspec\r\n*2\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n*4\r\n$4\r\ntype\r\n\
         $5\r\nrange\r\n$4\r\nspec\r\n*6\r\n$7\r\nlastkey\r\n:-1\r\n$7\r\nkeystep\r\n:1\r\n\
         $5\r\nlimit\r\n:0\r\n*0\r\n$-1\r\n"
    );
    assert_eq!(
        command(Protocol::Resp3, &call),
        "*2\r\n*10\r\n$5\r\nwatch\r\n:-2\r\n~5\r\n+noscript\r\n+loading\r\n+stale\r\n+fast\r\n\
         +allow_busy\r\n:1\r\n:-1\r\n:1\r\n~2\r\n+@fast\r\n+@transaction\r\n~0\r\n~1\r\n%3\r\n\
         $5\r\nflags\r\n~1\r\n+RO\r\n$12\r\nbegin_search\r\n%2\r\n$4\r\ntype\r\n$5\r\nindex\r\n\
         $4\r\nspec\r\n%1\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n%2\r\n$4\r\ntype\r\n\
         $5\r\nrange\r\n$4\r\nspec\r\n%3\r\n$7\r\nlastkey\r\n:-1\r\n$7\r\nkeystep\r\n:1\r\n\
         $5\r\nlimit\r\n:0\r\n~0\r\n_\r\n"
    );
}

#[test]
fn docs_have_the_shape_of_redis() {
    assert_eq!(
        command(Protocol::Resp3, &["COMMAND", "DOCS", "nope", "Auth"]),
        "%1\r\n$4\r\nauth\r\n%5\r\n$7\r\nsummary\r\n$29\r\nAuthenticates the connection.\r\n\
         $5\r\nsince\r\n$5\r\n1.0.0\r\n$5\r\ngroup\r\n$10\r\nconnection\r\n$10\r\ncomplexity\r\n\
         $4\r\nO(1)\r\n$9\r\narguments\r\n*2\r\n%4\r\n$4\r\nname\r\n$8\r\nusername\r\n\
         $4\r\ntype\r\n$6\r\nstring\r\n$5\r\nsince\r\n$5\r\n6.0.0\r\n$5\r\nflags\r\n~1\r\n+optional\r\n\
         %2\r\n$4\r\nname\r\n$8\r\npassword\r\n$4\r\ntype\r\n$6\r\nstring\r\n"
    );
}

#[test]
fn docs_tell_what_has_changed() {
    let docs = command(Protocol::Resp3, &["COMMAND", "DOCS", "hdel"]);
    let history = "$7\r\nhistory\r\n~1\r\n*2\r\n$5\r\n2.4.0\r\n$15\r\nSeveral fields.\r\n";
    assert!(docs.contains(&format!("{history}$9\r\narguments\r\n")), "{docs}");
    // What others have and Indelible has not is no history.
    let docs = command(Protocol::Resp2, &["COMMAND", "DOCS", "bgsave"]);
    assert!(!docs.contains("history") && !docs.contains("CANCEL"), "{docs}");
}

#[test]
fn lists_can_be_filtered() {
    let list = |filter: &[&str]| command(Protocol::Resp2, &[&["COMMAND", "LIST"], filter].concat());
    assert_eq!(
        list(&["filterby", "pattern", "UN[sw]*"]),
        "*2\r\n$11\r\nunsubscribe\r\n$7\r\nunwatch\r\n"
    );
    assert!(list(&["filterby", "aclcat", "transaction"]).starts_with("*5\r\n"));
    assert_eq!(list(&["filterby", "aclcat", "nope"]), "*0\r\n");
    assert_eq!(list(&["filterby", "module", "any"]), "*0\r\n");
    assert_eq!(list(&["nope"]), "-ERR syntax error\r\n");
}

/// The keys that COMMAND GETKEYSANDFLAGS finds, as `key=flags`, or its error.
fn keys_of(call: &str) -> String {
    let reply = command(
        Protocol::Resp2,
        &[&["COMMAND", "GETKEYSANDFLAGS"], call.split(' ').collect::<Vec<_>>().as_slice()].concat(),
    );
    if reply.starts_with('-') {
        return reply.trim_end().to_owned();
    }
    let mut found: Vec<String> = Vec::new();
    let mut lines = reply.lines().skip(1);
    while let Some(line) = lines.next() {
        if line.starts_with('$') {
            found.push(format!("{}=", lines.next().expect("a bulk string has a second line")));
        } else if let (Some(flag), Some(key)) = (line.strip_prefix('+'), found.last_mut()) {
            key.push_str(if key.ends_with('=') { "" } else { "," });
            key.push_str(flag);
        }
    }
    found.join(" ")
}

#[test]
fn keys_are_found_as_redis_finds_them() {
    for (call, keys) in [
        ("get a", "a=RO,access"),
        ("set a b", "a=OW,update"),
        ("set a b ex 10 GET", "a=RW,access,update"),
        ("mset a 1 b 2", "a=OW,update b=OW,update"),
        ("mset a 1 b", "a=OW,update b=OW,update"),
        ("copy a b", "a=RO,access b=OW,update"),
        ("object encoding a", "a=RO"),
        ("memory usage a", "a=RO"),
        ("watch a b", "a=RO b=RO"),
        ("bitfield a get u8 0 overflow wrap", "a=RO,access"),
        ("bitfield a get u8 0 set u8 0 1", "a=RW,access,update"),
        ("sort a by x* get y* store c store d", "a=RO,access d=OW,update"),
        ("sort a limit 1 2 store", "a=RO,access"),
        ("sort_ro a get x*", "a=RO,access"),
        ("sintercard 2 a b", "a=RO,access b=RO,access"),
        ("sintercard 5 a", "-ERR Invalid arguments specified for command"),
        ("sintercard 0 a", "-ERR Invalid arguments specified for command"),
        ("sintercard 01 a", "-ERR Invalid arguments specified for command"),
        ("nope a", "-ERR Invalid command specified"),
        ("object nope a", "-ERR Invalid command specified"),
        ("config get a", "-ERR The command has no key arguments"),
        ("ssubscribe a", "-ERR The command has no key arguments"),
        ("get a b", "-ERR Invalid number of arguments specified for command"),
    ] {
        assert_eq!(keys_of(call), keys, "{call}");
    }
}

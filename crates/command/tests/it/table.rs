//! The command table against what a Redis 7.0 server says about its commands.

use std::collections::BTreeMap;

use command::introspect;
use command::names::Names;
use command::spec::{BeginSearch, FindKeys, KeySpec, Spec};
use command::table;
use resp::{Protocol, Writer};

/// A line a command: name, arity, flags, first,last,step, categories, tips, key specs.
const REDIS_COMMANDS: &str = include_str!("redis-7.0-commands.txt");

/// Commands that Redis 7.0 does not have: our own, and those of Redis 7.2.
const OWN: [&str; 5] =
    ["checkpoint", "waitaof", "client|durability", "client|no-touch", "client|setinfo"];

fn sorted_list<T: ToString>(items: impl Iterator<Item = T>) -> String {
    let mut items: Vec<String> = items.map(|item| item.to_string()).collect();
    items.sort();
    if items.is_empty() { "-".to_owned() } else { items.join(",") }
}

fn key_spec(key: &KeySpec) -> String {
    let mut flags: Vec<String> = key.flags.names().map(str::to_lowercase).collect();
    flags.sort();
    let begin = match key.begin {
        BeginSearch::Index(index) => format!("index:{index}"),
        BeginSearch::Keyword { keyword, start_from } => format!("keyword:{keyword}:{start_from}"),
        BeginSearch::Unknown => "unknown".to_owned(),
    };
    let find = match key.find {
        FindKeys::Range { last, step, limit } => format!("range:{last}:{step}:{limit}"),
        FindKeys::KeyNum { count_index, first_key, step } => {
            format!("keynum:{count_index}:{first_key}:{step}")
        }
        FindKeys::Unknown => "unknown".to_owned(),
    };
    format!("{}@{begin}/{find}", flags.join("+"))
}

fn line(spec: &Spec) -> String {
    let (first, last, step) = spec.legacy_range();
    let keys: Vec<String> = spec.keys.iter().map(key_spec).collect();
    let keys = if keys.is_empty() { "-".to_owned() } else { keys.join(";") };
    [
        spec.name.to_owned(),
        spec.arity.to_string(),
        sorted_list(spec.flags.names()),
        format!("{first},{last},{step}"),
        sorted_list(spec.categories().names().map(|name| format!("@{name}"))),
        sorted_list(spec.tips.iter()),
        keys,
    ]
    .join(" ")
}

#[test]
fn every_fact_is_the_one_redis_tells() {
    let redis: BTreeMap<&str, &str> =
        REDIS_COMMANDS.lines().map(|line| (line.split(' ').next().unwrap(), line)).collect();
    for command in table::all().flat_map(|c| std::iter::once(c).chain(c.subcommands())) {
        if !OWN.contains(&command.name) {
            assert_eq!(line(&command), redis[command.name]);
        }
    }
}

#[test]
fn names_are_found_in_any_case_and_only_whole() {
    assert_eq!(table::lookup(b"MULTI").unwrap().name, "multi");
    assert_eq!(table::lookup(b"Config|Get").unwrap().name, "config|get");
    for unknown in [&b""[..], b"mult", b"multii", b"config|", b"config|get|x", b"nope|get"] {
        assert!(table::lookup(unknown).is_none(), "{unknown:?}");
    }
    for command in table::all() {
        assert_eq!(table::lookup(command.name.as_bytes()).unwrap().name, command.name);
    }
}

#[test]
fn ordinals_are_dense_and_tell_commands_apart() {
    let mut seen = vec![None; table::ORDINAL_COUNT];
    for command in table::all().flat_map(|c| std::iter::once(c).chain(c.subcommands())) {
        let slot = &mut seen[command.ordinal()];
        assert_eq!(slot.replace(command.name), None);
        let found = table::lookup(command.name.as_bytes()).unwrap();
        assert_eq!(found.ordinal(), command.ordinal());
    }
}

#[test]
fn unknown_commands_are_reported_as_redis_does() {
    let error = |call: &[&[u8]]| table::resolve(call).unwrap_err().to_string();
    assert_eq!(error(&[b"foo"]), "unknown command 'foo', with args beginning with: ");
    assert_eq!(
        error(&[b"f\r\no", b"bar", b"baz"]),
        "unknown command 'f  o', with args beginning with: 'bar' 'baz' "
    );
    assert_eq!(error(&[b"config", b"foo"]), "unknown subcommand 'foo'. Try CONFIG HELP.");
    // A container and its subcommand are two words in a call.
    assert!(table::resolve(&[b"config|get", b"x"]).is_err());
    let long = [b'x'; 300];
    assert_eq!(error(&[b"foo", &long, &long]).matches('x').count(), 128);
    assert_eq!(table::resolve(&[b"CONFIG"]).unwrap().name, "config");
    assert_eq!(table::resolve(&[b"CONFIG", b"GET", b"x"]).unwrap().name, "config|get");
}

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

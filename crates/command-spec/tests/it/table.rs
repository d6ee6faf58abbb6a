//! The command table against what a Redis 7.0 server says about its commands.

use std::collections::BTreeMap;

use command_spec::spec::{BeginSearch, FindKeys, KeySpec, Spec};
use command_spec::table;

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

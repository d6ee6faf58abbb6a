//! The command table against what servers say about their commands.

use std::collections::BTreeMap;

use command_spec::spec::{BeginSearch, FindKeys, KeySpec, Origin, Spec};
use command_spec::table::{self, Command};

/// A line a command of Redis 7.2: name, arity, flags, first,last,step, categories, tips, key specs.
const REDIS_COMMANDS: &str = include_str!("redis-7.2-commands.txt");

/// A line a command: its name, and the releases that have it.
const RELEASES: &str = include_str!("releases.txt");

fn known() -> impl Iterator<Item = Command> {
    table::known().flat_map(|command| std::iter::once(command).chain(command.known_subcommands()))
}

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
    let mut compared = 0;
    let mut differences = Vec::new();
    for command in known() {
        let Some(told) = redis.get(command.name) else { continue };
        compared += 1;
        if line(&command) != *told {
            differences.push(format!("{}\n  redis: {told}", line(&command)));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(compared, redis.len());
}

#[test]
fn names_are_found_in_any_case_and_only_whole() {
    assert_eq!(table::lookup(b"MULTI").unwrap().name, "multi");
    assert_eq!(table::lookup(b"Config|Get").unwrap().name, "config|get");
    for unknown in [&b""[..], b"mult", b"multii", b"config|", b"config|get|x", b"nope|get"] {
        assert!(table::lookup(unknown).is_none(), "{unknown:?}");
        assert!(table::find(unknown).is_none(), "{unknown:?}");
    }
    for command in table::all() {
        assert_eq!(table::lookup(command.name.as_bytes()).unwrap().name, command.name);
    }
}

#[test]
fn what_is_not_served_is_found_by_those_who_ask_for_it_only() {
    for command in known() {
        let name = command.name.as_bytes();
        assert_eq!(table::find(name).unwrap().ordinal(), command.ordinal(), "{}", command.name);
        assert_eq!(table::lookup(name).is_some(), command.served, "{}", command.name);
    }
    assert!(table::resolve(&[b"vadd", b"name", b"*"]).is_err());
    assert!(table::resolve(&[b"client", b"capa", b"redirect"]).is_err());
    assert!(table::all().all(|command| command.served));
}

#[test]
fn ordinals_are_dense_and_tell_commands_apart() {
    let mut seen = vec![None; table::ORDINAL_COUNT];
    for command in known() {
        let slot = &mut seen[command.ordinal()];
        assert_eq!(slot.replace(command.name), None);
        assert!(std::ptr::eq(command.spec(), table::SPECS[command.ordinal()]));
    }
    assert!(seen.iter().all(Option::is_some));
}

#[test]
fn names_are_in_the_table_once_and_subcommands_below_their_container() {
    let mut names: Vec<&str> = known().map(|command| command.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for container in table::known() {
        for sub in container.known_subcommands() {
            let (above, short) = sub.name.split_once('|').expect("a container and a name");
            assert_eq!(above, container.name);
            assert_eq!(short, sub.short_name());
            assert!(sub.subcommands.is_empty());
            assert!(container.served || !sub.served, "{}", sub.name);
        }
    }
}

/// Whether a server of this name and version has the command, by the table.
fn has(command: Command, server: &str, version: &str) -> bool {
    let number = |version: &str| -> Vec<u32> {
        version.split('.').map(|part| part.parse().expect("a number")).collect()
    };
    let since = match (server, command.origin) {
        ("redis", Origin::Common | Origin::Redis | Origin::RedisThenValkey(_))
        | ("valkey", Origin::Common | Origin::Valkey | Origin::ValkeyThenRedis(_)) => command.since,
        ("redis", Origin::ValkeyThenRedis(since)) | ("valkey", Origin::RedisThenValkey(since)) => {
            since
        }
        _ => return false,
    };
    number(since) <= number(version)
}

#[test]
fn each_server_has_what_the_table_says_of_it() {
    let told: BTreeMap<&str, Vec<&str>> = RELEASES
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, releases)| (name, releases.split(',').collect()))
        .collect();
    for name in told.keys() {
        assert!(table::find(name.as_bytes()).is_some(), "{name} is not in the table");
    }
    let releases = [
        ("redis", "7.2"),
        ("redis", "7.4"),
        ("redis", "8.0"),
        ("redis", "8.6"),
        ("valkey", "7.2"),
        ("valkey", "8.0"),
        ("valkey", "9.1"),
    ];
    for command in known().filter(|command| command.group.name() != "vector_set") {
        for (server, version) in releases {
            let in_release = told
                .get(command.name)
                .is_some_and(|releases| releases.contains(&format!("{server}-{version}").as_str()));
            let newest = format!("{version}.99");
            assert_eq!(
                has(command, server, &newest),
                in_release,
                "{} {server} {version}",
                command.name
            );
        }
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

//! `docs/compatibility.md` is made from the table. `INDELIBLE_WRITE_DOCS=1` writes it anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use command_spec::spec::{Group, Origin};
use command_spec::table::{self, Command};

/// The chapters, in the order of the page.
const CHAPTERS: [(Group, &str); 18] = [
    (Group::String, "Strings"),
    (Group::Bitmap, "Bitmaps"),
    (Group::List, "Lists"),
    (Group::Set, "Sets"),
    (Group::SortedSet, "Sorted sets"),
    (Group::Hash, "Hashes"),
    (Group::Generic, "Keys of any type"),
    (Group::Transactions, "Transactions"),
    (Group::PubSub, "Publish/subscribe"),
    (Group::Connection, "Connections"),
    (Group::Server, "The server"),
    (Group::Scripting, "Scripts and functions"),
    (Group::Stream, "Streams"),
    (Group::Geo, "Geographic indices"),
    (Group::HyperLogLog, "HyperLogLog"),
    (Group::Cluster, "Cluster"),
    (Group::Array, "Arrays"),
    (Group::VectorSet, "Vector sets"),
];

const HEAD: &str = "\
# Commands of Redis and Valkey, and which of them are here

This page is made from the command table (`crates/command-spec`); a test fails when it differs.

It has the commands of Redis up to 8.10 and of Valkey up to 9.1. *The same* means the same replies, errors and effects,
with the arguments of the newest of these versions, except for those that the page names. A command that is not here is an unknown
command, and `COMMAND` does not list it. Where a version of Redis alone is named that is older than 7.3, every Valkey has
it too. Commands of modules (JSON, search, time series, probabilistic types) are not here.

All of Redis 7.2 is here but for replication and cluster mode, and `INFO` and `HELLO` say so: `redis_version:7.2.4`, the
number that every Valkey tells its clients, too. What is newer shows since when it exists, here and in `COMMAND DOCS`.

";

/// The commands of a chapter that can be called, subcommands in place of their containers.
fn commands(group: Group) -> Vec<Command> {
    let mut commands: Vec<Command> = table::known()
        .filter(|command| command.group == group)
        .flat_map(|command| std::iter::once(command).chain(command.known_subcommands()))
        .filter(|command| command.is_callable())
        .collect();
    commands.sort_by_key(|command| command.name);
    commands
}

/// The name as people write it.
fn shown(command: Command) -> String {
    command.name.to_uppercase().replace('|', " ")
}

/// How a command that is here differs: it lacks options and the like of newer servers, or most of it.
fn difference(command: Command) -> String {
    let mut parts = Vec::new();
    if !command.limit.is_empty() {
        parts.push(command.limit.to_owned());
    }
    for change in command.history.iter().filter(|change| !change.served) {
        let what = change.what.trim_end_matches('.');
        parts.push(format!("{what} ({}).", change.origin.releases(change.since)));
    }
    if parts.is_empty() {
        return if command.origin == Origin::Indelible { "" } else { "the same" }.to_owned();
    }
    parts.join(" ")
}

fn chapter(group: Group, title: &str, out: &mut String) {
    let commands = commands(group);
    let (here, absent): (Vec<Command>, Vec<Command>) =
        commands.iter().partition(|command| command.served);
    let _infallible = writeln!(out, "## {title}\n");
    if !here.is_empty() {
        out.push_str("| here | since | how it differs |\n|---|---|---|\n");
        for command in here {
            let since = command.origin.releases(command.since);
            let _infallible =
                writeln!(out, "| `{}` | {since} | {} |", shown(command), difference(command));
        }
        out.push('\n');
    }
    if !absent.is_empty() {
        let mut by_release: BTreeMap<(bool, Vec<u32>, String, &str), Vec<String>> = BTreeMap::new();
        for command in absent {
            let number = command.since.split('.').map(|part| part.parse().expect("a number"));
            let release = (
                command.origin == Origin::Valkey,
                number.collect(),
                command.origin.releases(command.since),
                command.limit,
            );
            by_release.entry(release).or_default().push(format!("`{}`", shown(command)));
        }
        out.push_str("| not here | since | why |\n|---|---|---|\n");
        for ((_, _, since, why), names) in by_release {
            let _infallible = writeln!(out, "| {} | {since} | {why} |", names.join(", "));
        }
        out.push('\n');
    }
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    let all: Vec<Command> = CHAPTERS.iter().flat_map(|(group, _)| commands(*group)).collect();
    let count = |is_counted: &dyn Fn(&&Command) -> bool| all.iter().filter(is_counted).count();
    let own = count(&|command| command.origin == Origin::Indelible);
    let here = count(&|command| command.served) - own;
    let refused = count(&|command| command.limit.starts_with("Refused"));
    let _infallible = writeln!(
        out,
        "Of {} commands and subcommands {here} are here; {refused} of these are refused, as by a \
         server without\ncluster mode or modules. {own} more are Indelible's own.\n",
        all.len() - own
    );
    for (group, title) in CHAPTERS {
        chapter(group, title, &mut out);
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

#[test]
fn the_page_is_made_from_the_table() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let page = page();
    if std::env::var_os("INDELIBLE_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("docs can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    for (made, written) in page.lines().zip(written.lines()) {
        assert_eq!(made, written, "run with INDELIBLE_WRITE_DOCS=1");
    }
    assert!(
        page == written,
        "docs/compatibility.md is out of date: run with INDELIBLE_WRITE_DOCS=1"
    );
}

#[test]
fn what_is_not_here_says_why() {
    let silent: Vec<&str> = CHAPTERS
        .iter()
        .flat_map(|(group, _)| commands(*group))
        .filter(|command| !command.served && command.limit.is_empty())
        .map(|command| command.name)
        .collect();
    assert_eq!(silent, [""; 0]);
}

#[test]
fn all_of_redis_7_2_is_here_but_replication_and_the_cluster() {
    let is_of_7_2 = |command: &Command| {
        let mut parts = command.since.split('.').map(|part| part.parse::<u32>().expect("a number"));
        let since = (parts.next(), parts.next());
        command.origin == Origin::Common && since < (Some(7), Some(3))
    };
    let all = || CHAPTERS.iter().flat_map(|(group, _)| commands(*group)).filter(is_of_7_2);
    let absent: Vec<&str> = all().filter(|it| !it.served).map(|it| it.name).collect();
    assert_eq!(absent, ["failover", "psync", "restore-asking"]);
    for command in all() {
        for change in command.history.iter().filter(|change| !change.served) {
            assert!(change.origin != Origin::Common, "{}: {}", command.name, change.what);
            assert!(change.since >= "7.3", "{}: {}", command.name, change.what);
        }
    }
}

#[test]
fn each_command_has_a_chapter() {
    for command in table::known() {
        assert!(CHAPTERS.iter().any(|(group, _)| *group == command.group), "{}", command.name);
    }
}

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

A command that is not here is an unknown command, and `COMMAND` does not list it. Facts are those of
Redis 7.2 to 8.10 and of Valkey 8 and 9. Where a version of Redis alone is named that is older than
7.3, every Valkey has it too. Commands of modules (JSON, search, time series, probabilistic types)
are not here.

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

/// What a command that is here lacks: options and the like of newer servers, or most of it.
fn lacks(command: Command) -> String {
    let mut parts = Vec::new();
    if !command.limit.is_empty() {
        parts.push(command.limit.to_owned());
    }
    for change in command.history.iter().filter(|change| !change.served) {
        let what = change.what.trim_end_matches('.');
        parts.push(format!("{what} ({}).", change.origin.releases(change.since)));
    }
    parts.join(" ")
}

fn chapter(group: Group, title: &str, out: &mut String) {
    let commands = commands(group);
    let (here, absent): (Vec<Command>, Vec<Command>) =
        commands.iter().partition(|command| command.served);
    let _infallible = writeln!(out, "## {title}\n");
    if !here.is_empty() {
        out.push_str("| here | since | what it lacks |\n|---|---|---|\n");
        for command in here {
            let since = command.origin.releases(command.since);
            let _infallible =
                writeln!(out, "| `{}` | {since} | {} |", shown(command), lacks(command));
        }
        out.push('\n');
    }
    if !absent.is_empty() {
        let mut by_release: BTreeMap<(bool, Vec<u32>, String), Vec<String>> = BTreeMap::new();
        for command in absent {
            let number = command.since.split('.').map(|part| part.parse().expect("a number"));
            let release = (
                command.origin == Origin::Valkey,
                number.collect(),
                command.origin.releases(command.since),
            );
            by_release.entry(release).or_default().push(format!("`{}`", shown(command)));
        }
        out.push_str("| not here | since |\n|---|---|\n");
        for ((_, _, since), names) in by_release {
            let _infallible = writeln!(out, "| {} | {since} |", names.join(", "));
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
fn each_command_has_a_chapter() {
    for command in table::known() {
        assert!(CHAPTERS.iter().any(|(group, _)| *group == command.group), "{}", command.name);
    }
}

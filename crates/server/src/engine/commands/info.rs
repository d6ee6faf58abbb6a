//! INFO: the server in numbers, with Redis' sections and names, and a section of our own.

use std::fmt::Write as _;

use command::error::Done;

use super::super::{ClientKey, Engine};

#[path = "info_sections.rs"]
mod sections;

pub(super) use sections::line;

/// The version of Redis whose commands and replies are served.
///
/// Every Valkey tells its clients this one, too: the last Redis that it took over. What clients do by the
/// version, they have done with this number for years.
pub const REDIS_VERSION: &str = "7.2.4";

/// When INFO shows a section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Always.
    ByDefault,
    /// When all are asked for.
    WithAll,
    /// When it is asked for by its name.
    ByName,
}

use Shown::{ByDefault, ByName, WithAll};

/// A section: its name, when it is shown, and what writes it.
type Section = (&'static str, Shown, fn(&Engine, &mut String));

/// The sections in the order of the reply.
const SECTIONS: &[Section] = &[
    ("server", ByDefault, sections::server),
    ("clients", ByDefault, sections::clients),
    ("memory", ByDefault, sections::memory),
    ("persistence", ByDefault, sections::persistence),
    ("redo", ByDefault, super::info_redo::section),
    ("backup", ByDefault, super::info_backup::section),
    ("stats", ByDefault, sections::stats),
    ("replication", ByDefault, sections::replication),
    ("cpu", ByDefault, sections::cpu),
    ("modules", ByDefault, sections::modules),
    ("commandstats", WithAll, sections::commandstats),
    ("errorstats", ByDefault, sections::errorstats),
    ("latencystats", WithAll, sections::latencystats),
    ("cluster", ByDefault, sections::cluster),
    ("keyspace", ByDefault, sections::keyspace),
    ("debug", ByName, sections::debug),
];

/// INFO.
pub(super) fn info(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let wanted: Vec<String> =
        args[1..].iter().map(|name| super::text(name).to_ascii_lowercase()).collect();
    let is_wanted = |name: &str, shown: Shown| {
        if wanted.is_empty() {
            return shown == ByDefault;
        }
        wanted.iter().any(|word| match word.as_str() {
            "all" | "everything" => shown != ByName,
            "default" => shown == ByDefault,
            word => word == name,
        })
    };
    engine.time.refresh();
    let report = write(engine, is_wanted);
    engine.reply(key).verbatim("txt", &report);
    Ok(())
}

/// What INFO everything replies.
pub(in crate::engine) fn everything(engine: &Engine) -> String {
    write(engine, |_, shown| shown != ByName)
}

fn write(engine: &Engine, is_wanted: impl Fn(&str, Shown) -> bool) -> String {
    let mut report = String::new();
    for (name, shown, write) in SECTIONS {
        if !is_wanted(name, *shown) {
            continue;
        }
        if !report.is_empty() {
            report.push_str("\r\n");
        }
        let title = match *name {
            "cpu" => "CPU".to_owned(),
            name => name[..1].to_ascii_uppercase() + &name[1..],
        };
        let _infallible = std::write!(report, "# {title}\r\n");
        write(engine, &mut report);
    }
    report
}

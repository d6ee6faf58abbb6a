//! INFO: the server in numbers, with Redis' sections and names, and a section of our own.

use std::fmt::Write as _;

use command::error::Done;

use super::super::{ClientKey, Engine};

#[path = "info_sections.rs"]
mod sections;

pub(super) use sections::line;

/// The version of Redis whose commands and replies are served.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// A section: its name, whether INFO shows it by default, and what writes it.
type Section = (&'static str, bool, fn(&Engine, &mut String));

/// The sections in the order of the reply.
const SECTIONS: &[Section] = &[
    ("server", true, sections::server),
    ("clients", true, sections::clients),
    ("memory", true, sections::memory),
    ("persistence", true, sections::persistence),
    ("redo", true, super::info_redo::section),
    ("backup", true, super::info_backup::section),
    ("stats", true, sections::stats),
    ("replication", true, sections::replication),
    ("cpu", true, sections::cpu),
    ("modules", true, sections::modules),
    ("commandstats", false, sections::commandstats),
    ("errorstats", true, sections::errorstats),
    ("latencystats", false, sections::latencystats),
    ("cluster", true, sections::cluster),
    ("keyspace", true, sections::keyspace),
];

/// INFO.
pub(super) fn info(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let wanted: Vec<String> =
        args[1..].iter().map(|name| super::text(name).to_ascii_lowercase()).collect();
    let is_wanted = |name: &str, by_default: bool| {
        if wanted.is_empty() {
            return by_default;
        }
        wanted.iter().any(|word| match word.as_str() {
            "all" | "everything" => true,
            "default" => by_default,
            word => word == name,
        })
    };
    engine.time.refresh();
    let mut report = String::new();
    for (name, by_default, write) in SECTIONS {
        if !is_wanted(name, *by_default) {
            continue;
        }
        if !report.is_empty() {
            report.push_str("\r\n");
        }
        let title = match *name {
            "cpu" => "CPU".to_owned(),
            name => name[..1].to_ascii_uppercase() + &name[1..],
        };
        let _infallible = write!(report, "# {title}\r\n");
        write(engine, &mut report);
    }
    engine.reply(key).verbatim("txt", &report);
    Ok(())
}

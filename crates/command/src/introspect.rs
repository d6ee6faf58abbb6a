//! The replies of COMMAND and its subcommands, made from the table.
//!
//! The shapes are Redis 7.0's: sets where RESP3 has sets, simple strings for flags, fields that
//! would be empty left out. The order of the commands is the table's.

use base::glob;
use resp::Writer;

use crate::help::write_help;
use crate::keys;
use crate::names::Names;
use crate::spec::{Arg, ArgKind, BeginSearch, Categories, FindKeys, KeySpec, Spec};
use crate::table::Command;

/// Executes COMMAND or one of its subcommands: `command` is what [`crate::table::resolve`] found for
/// `arguments`, whose number is right for it, and `names` says what the commands are called.
pub fn execute(command: Command, names: &Names, arguments: &[&[u8]], reply: &mut Writer) {
    let rest = arguments.get(2..).unwrap_or_default();
    match command.name {
        "command" => write_infos(names.all(), reply),
        "command|count" => reply.count(names.all().count()),
        "command|list" => list(names, rest, reply),
        "command|info" => info(names, rest, reply),
        "command|docs" => docs(names, rest, reply),
        "command|getkeys" => get_keys(names, rest, false, reply),
        "command|getkeysandflags" => get_keys(names, rest, true, reply),
        _ => write_help(reply, "COMMAND", HELP),
    }
}

const HELP: &[&str] = &[
    "(no subcommand)",
    "    Return details about all Redis commands.",
    "COUNT",
    "    Return the total number of commands in this Redis server.",
    "LIST",
    "    Return a list of all commands in this Redis server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full Redis command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full Redis command.",
];

/// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern].
fn list(names: &Names, options: &[&[u8]], reply: &mut Writer) {
    let category = |name: &[u8]| Categories::by_name(name).unwrap_or(Categories::NONE);
    let is_wanted: Box<dyn Fn(&Spec) -> bool> = match *options {
        [] => Box::new(|_| true),
        [filter_by, kind, value] if filter_by.eq_ignore_ascii_case(b"filterby") => {
            match kind.to_ascii_lowercase().as_slice() {
                // There are no modules, so none of the commands is one's.
                b"module" => Box::new(|_| false),
                b"aclcat" => {
                    let wanted = category(value);
                    Box::new(move |spec| spec.categories().intersects(wanted))
                }
                b"pattern" => {
                    Box::new(|spec| glob::matches_ignoring_case(value, spec.name.as_bytes()))
                }
                _ => return reply.error("ERR syntax error"),
            }
        }
        _ => return reply.error("ERR syntax error"),
    };
    let mark = reply.mark();
    let mut count = 0;
    for command in names.all() {
        for listed in std::iter::once(command).chain(command.subcommands()) {
            if is_wanted(listed.spec()) {
                reply.bulk_str(listed.name);
                count += 1;
            }
        }
    }
    reply.finish_array(mark, count);
}

/// COMMAND INFO [name ...].
fn info(commands: &Names, names: &[&[u8]], reply: &mut Writer) {
    if names.is_empty() {
        return write_infos(commands.all(), reply);
    }
    reply.array(names.len());
    for name in names {
        match commands.lookup(name) {
            Some(command) => write_info(command, reply),
            None => reply.null(),
        }
    }
}

/// COMMAND DOCS [name ...].
fn docs(commands: &Names, names: &[&[u8]], reply: &mut Writer) {
    let mark = reply.mark();
    let mut count = 0;
    let mut write = |command: Command, reply: &mut Writer| {
        reply.bulk_str(command.name);
        write_docs(command, reply);
        count += 1;
    };
    if names.is_empty() {
        commands.all().for_each(|command| write(command, reply));
    } else {
        let found = names.iter().filter_map(|name| commands.lookup(name));
        found.for_each(|command| write(command, reply));
    }
    reply.finish_map(mark, count);
}

/// COMMAND GETKEYS and GETKEYSANDFLAGS: `call` is the call to look at.
fn get_keys(names: &Names, call: &[&[u8]], with_flags: bool, reply: &mut Writer) {
    let Ok(command) = names.resolve(call) else {
        return reply.error("ERR Invalid command specified");
    };
    let found = match keys::of_call(&command, call) {
        Ok(found) => found,
        Err(no_keys) => return reply.error(&format!("ERR {no_keys}")),
    };
    reply.array(found.len());
    for key in found {
        if with_flags {
            reply.array(2);
        }
        reply.bulk(call[key.index]);
        if with_flags {
            write_names(key.flags.names(), reply);
        }
    }
}

fn write_infos(commands: impl Iterator<Item = Command>, reply: &mut Writer) {
    let mark = reply.mark();
    let mut count = 0;
    for command in commands {
        write_info(command, reply);
        count += 1;
    }
    reply.finish_array(mark, count);
}

fn write_info(command: Command, reply: &mut Writer) {
    let (first, last, step) = command.legacy_range();
    reply.array(10);
    reply.bulk_str(command.name);
    reply.int(command.arity.into());
    write_names(command.flags.names(), reply);
    reply.int(first.into());
    reply.int(last.into());
    reply.int(step.into());
    let categories: Vec<String> =
        command.categories().names().map(|name| format!("@{name}")).collect();
    write_names(categories.iter().map(String::as_str), reply);
    reply.set(command.tips.len());
    command.tips.iter().for_each(|tip| reply.bulk_str(tip));
    reply.set(command.keys.len());
    command.keys.iter().for_each(|key| write_key_spec(key, reply));
    if command.spec().subcommands.is_empty() {
        reply.set(0);
    } else {
        write_infos(command.subcommands(), reply);
    }
}

/// A set of simple strings.
fn write_names<'a>(names: impl Iterator<Item = &'a str>, reply: &mut Writer) {
    let mark = reply.mark();
    let mut count = 0;
    for name in names {
        reply.simple(name);
        count += 1;
    }
    reply.finish_set(mark, count);
}

fn write_key_spec(key: &KeySpec, reply: &mut Writer) {
    if key.notes.is_empty() {
        reply.map(3);
    } else {
        reply.map(4);
        reply.bulk_str("notes");
        reply.bulk_str(key.notes);
    }
    reply.bulk_str("flags");
    write_names(key.flags.names(), reply);

    reply.bulk_str("begin_search");
    match key.begin {
        BeginSearch::Index(index) => {
            write_step("index", &[("index", index)], reply);
        }
        BeginSearch::Keyword { keyword, start_from } => {
            write_step_header("keyword", 2, reply);
            reply.bulk_str("keyword");
            reply.bulk_str(keyword);
            reply.bulk_str("startfrom");
            reply.int(start_from.into());
        }
        BeginSearch::Unknown => write_step("unknown", &[], reply),
    }

    reply.bulk_str("find_keys");
    match key.find {
        FindKeys::Range { last, step, limit } => {
            write_step("range", &[("lastkey", last), ("keystep", step), ("limit", limit)], reply);
        }
        FindKeys::KeyNum { count_index, first_key, step } => {
            let fields = [("keynumidx", count_index), ("firstkey", first_key), ("keystep", step)];
            write_step("keynum", &fields, reply);
        }
        FindKeys::Unknown => write_step("unknown", &[], reply),
    }
}

fn write_step(kind: &str, fields: &[(&str, i32)], reply: &mut Writer) {
    write_step_header(kind, fields.len(), reply);
    for &(name, value) in fields {
        reply.bulk_str(name);
        reply.int(value.into());
    }
}

fn write_step_header(kind: &str, field_count: usize, reply: &mut Writer) {
    reply.map(2);
    reply.bulk_str("type");
    reply.bulk_str(kind);
    reply.bulk_str("spec");
    reply.map(field_count);
}

fn write_docs(command: Command, reply: &mut Writer) {
    let spec = command.spec();
    let mut map = MapReply::begin(reply);
    map.text("summary", spec.summary);
    map.text("since", spec.since);
    map.text("group", spec.group.name());
    map.text("complexity", spec.complexity);
    let doc_flags = [(spec.deprecated.is_some(), "deprecated"), (spec.system, "syscmd")];
    let doc_flags = doc_flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name);
    if doc_flags.clone().next().is_some() {
        write_names(doc_flags, map.field("doc_flags"));
    }
    if let Some(deprecation) = spec.deprecated {
        map.text("deprecated_since", deprecation.since);
        map.text("replaced_by", deprecation.replaced_by);
    }
    let changes = spec.history.iter().filter(|change| change.served);
    if changes.clone().next().is_some() {
        let reply = map.field("history");
        reply.set(changes.clone().count());
        for change in changes {
            reply.array(2);
            reply.bulk_str(change.since);
            reply.bulk_str(change.what);
        }
    }
    if !spec.arguments.is_empty() {
        write_arguments(spec.arguments, map.field("arguments"));
    }
    if command.subcommands().next().is_some() {
        let reply = map.field("subcommands");
        reply.map(command.subcommands().count());
        for sub in command.subcommands() {
            reply.bulk_str(sub.name);
            write_docs(sub, reply);
        }
    }
    map.finish();
}

fn write_arguments(arguments: &[Arg], reply: &mut Writer) {
    reply.array(arguments.len());
    for argument in arguments {
        let mut map = MapReply::begin(reply);
        map.text("name", argument.name);
        map.text("type", argument.kind.name());
        if let Some(index) = argument.key_spec {
            map.field("key_spec_index").int(index.into());
        }
        let texts = [
            ("token", argument.token),
            ("since", argument.since),
            ("deprecated_since", argument.deprecated_since),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                map.text(name, text);
            }
        }
        if argument.flags.names().next().is_some() {
            write_names(argument.flags.names(), map.field("flags"));
        }
        if matches!(argument.kind, ArgKind::OneOf | ArgKind::Block) {
            write_arguments(argument.arguments, map.field("arguments"));
        }
        map.finish();
    }
}

/// A map whose length is known when its last field is written.
struct MapReply<'a> {
    reply: &'a mut Writer,
    mark: resp::Mark,
    length: usize,
}

impl<'a> MapReply<'a> {
    fn begin(reply: &'a mut Writer) -> Self {
        let mark = reply.mark();
        Self { reply, mark, length: 0 }
    }

    fn field(&mut self, name: &str) -> &mut Writer {
        self.reply.bulk_str(name);
        self.length += 1;
        self.reply
    }

    fn text(&mut self, name: &str, text: &str) {
        self.field(name).bulk_str(text);
    }

    fn finish(self) {
        self.reply.finish_map(self.mark, self.length);
    }
}

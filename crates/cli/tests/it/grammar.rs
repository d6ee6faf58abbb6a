//! The commands that a server says it has, and random calls of them that follow their grammar.
//!
//! ```text
//!  COMMAND, COMMAND DOCS ──► Grammar ──► Shape (a command) ──► [Slot] ──► words
//!                                         a walk of its arguments    a value for each slot
//! ```
//!
//! The grammar is the server's own, so a command that is added to the table is tested without a word here.
//! Where the documentation has no arguments (DEBUG, HELP texts) [`EXAMPLES`] has calls.

use crate::kill::Random;
use crate::wire::{Connection, Reply};
use std::collections::BTreeMap;

/// Commands that change their connection or end it: what follows needs a new one.
pub(crate) const CHANGE_CONNECTION: &[&str] = &[
    "auth",
    "client|kill",
    "client|reply",
    "discard",
    "exec",
    "hello",
    "monitor",
    "multi",
    "psubscribe",
    "punsubscribe",
    "quit",
    "reset",
    "select",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "unsubscribe",
    "watch",
    "client|tracking",
];

/// Calls of commands whose arguments are not documented; the slots are written as in [`slot_of`].
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "debug",
        &[
            "SLEEP :seconds",
            "DIGEST",
            "DIGEST-VALUE @key @key",
            "OBJECT @key",
            "LISTPACK @key",
            "QUICKLIST @key",
            "SDSLEN @key",
            "STRUCTSIZE",
            "POPULATE :count $prefix :size",
            "STRINGMATCH-LEN :len $pattern",
            "SET-ACTIVE-EXPIRE :flag",
            "QUICKLIST-PACKED-THRESHOLD :size",
            "HTSTATS :db",
            "HTSTATS-KEY @key",
            "PROTOCOL $type",
            "ERROR $line",
            "LOG $line",
            "REPLYBUFFER $kind :number",
            "PAUSE-CRON :flag",
            "JMAP",
            "RELOAD",
            "HELP",
        ],
    ),
    ("acl|setuser", &["$user $rule"]),
    ("pfdebug", &["GETREG @key", "DECODE @key", "ENCODING @key", "TODENSE @key", "$word @key"]),
];

/// One argument of a command, as COMMAND DOCS describes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Argument {
    pub(crate) name: String,
    kind: String,
    token: Option<String>,
    /// The version that has brought it, if the command is older.
    since: Option<String>,
    optional: bool,
    multiple: bool,
    multiple_token: bool,
    arguments: Vec<Argument>,
}

impl Argument {
    /// Whether a server of this version knows it.
    fn is_in(&self, version: [u32; 3]) -> bool {
        let number = |text: &str| text.parse::<u32>().expect("a number");
        self.since.as_ref().is_none_or(|since| {
            since.split('.').map(number).collect::<Vec<u32>>() <= version.to_vec()
        })
    }

    /// Drops what a server of this version does not know.
    fn keep(&mut self, version: [u32; 3]) {
        self.arguments.retain(|argument| argument.is_in(version));
        self.arguments.iter_mut().for_each(|argument| argument.keep(version));
    }
}

/// One command or subcommand.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// `config|get`.
    pub(crate) name: String,
    pub(crate) flags: Vec<String>,
    /// The chapter of the documentation it belongs to.
    pub(crate) group: String,
    arguments: Vec<Argument>,
    examples: Vec<Vec<Slot>>,
}

/// One word of a call: what may stand there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// This word and no other.
    Word(String),
    Key,
    /// A whole number, by its name.
    Integer(String),
    /// A number.
    Double(String),
    /// How many of the following slots are keys.
    KeyCount(usize),
    Pattern,
    /// Bytes, by their name.
    Text(String),
}

impl Slot {
    /// Whether a number stands there.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Slot::Integer(_) | Slot::Double(_) | Slot::KeyCount(_))
    }
}

/// The commands of a server by their names.
pub(crate) struct Grammar(pub(crate) BTreeMap<String, Shape>);

impl Grammar {
    /// Asks a server.
    pub(crate) fn of(connection: &mut Connection) -> Grammar {
        let mut shapes = BTreeMap::new();
        let infos = connection.words("COMMAND");
        for info in infos.elements() {
            add_infos(info, &mut shapes);
        }
        let docs = connection.words("COMMAND DOCS");
        add_docs(&docs, &mut shapes);
        for (name, calls) in EXAMPLES {
            if let Some(shape) = shapes.get_mut(*name) {
                shape.examples =
                    calls.iter().map(|call| call.split(' ').map(slot_of).collect()).collect();
            }
        }
        Grammar(shapes)
    }
}

/// `:name` is an integer, `@name` a key, `$name` a text, anything else itself.
fn slot_of(word: &str) -> Slot {
    match word.split_at(1) {
        (":", name) => Slot::Integer(name.to_owned()),
        ("@", _) => Slot::Key,
        ("$", name) => Slot::Text(name.to_owned()),
        _ => Slot::Word(word.to_owned()),
    }
}

/// Enters a command of COMMAND, or its subcommands if it has any: then it is nothing by itself.
fn add_infos(info: &Reply, shapes: &mut BTreeMap<String, Shape>) {
    let [name, _arity, flags, .., subcommands] = info.elements() else {
        panic!("COMMAND shows {info:?}");
    };
    for subcommand in subcommands.elements() {
        add_infos(subcommand, shapes);
    }
    if subcommands.elements().is_empty() || name.text() == "command" {
        let shape = Shape {
            name: name.text(),
            flags: flags.elements().iter().map(Reply::text).collect(),
            group: String::new(),
            arguments: Vec::new(),
            examples: Vec::new(),
        };
        shapes.insert(name.text(), shape);
    }
}

fn add_docs(docs: &Reply, shapes: &mut BTreeMap<String, Shape>) {
    for pair in docs.elements().chunks(2) {
        let (name, facts) = (pair[0].text(), &pair[1]);
        if let Some(subcommands) = field(facts, "subcommands") {
            add_docs(subcommands, shapes);
        }
        if let Some(shape) = shapes.get_mut(&name) {
            shape.group = field(facts, "group").map(Reply::text).unwrap_or_default();
            shape.arguments = field(facts, "arguments").map(arguments_of).unwrap_or_default();
        }
    }
}

fn arguments_of(reply: &Reply) -> Vec<Argument> {
    let one = |facts: &Reply| {
        let flags: Vec<String> = field(facts, "flags")
            .map(|flags| flags.elements().iter().map(Reply::text).collect())
            .unwrap_or_default();
        let has = |flag: &str| flags.iter().any(|found| found == flag);
        Argument {
            name: field(facts, "name").map(Reply::text).unwrap_or_default(),
            kind: field(facts, "type").map(Reply::text).unwrap_or_default(),
            token: field(facts, "token").map(Reply::text),
            since: field(facts, "since").map(Reply::text),
            optional: has("optional"),
            multiple: has("multiple"),
            multiple_token: has("multiple_token"),
            arguments: field(facts, "arguments").map(arguments_of).unwrap_or_default(),
        }
    };
    reply.elements().iter().map(one).collect()
}

/// A field of a map that is sent as a list of names and values.
fn field<'a>(map: &'a Reply, name: &str) -> Option<&'a Reply> {
    map.elements().chunks(2).find(|pair| pair[0].text() == name).map(|pair| &pair[1])
}

impl Shape {
    /// Without the arguments that a server of this version does not know.
    pub(crate) fn of_version(mut self, version: [u32; 3]) -> Shape {
        self.arguments.retain(|argument| argument.is_in(version));
        self.arguments.iter_mut().for_each(|argument| argument.keep(version));
        self
    }

    /// A random call: the name and a slot for each argument.
    pub(crate) fn call(&self, random: &mut Random) -> Vec<Slot> {
        let words = self.name.split('|').map(|word| Slot::Word(word.to_uppercase()));
        let mut call: Vec<Slot> = words.collect();
        if self.examples.is_empty() {
            walk(&self.arguments, random, &mut call);
            count_keys(&mut call);
        } else {
            let count = u64::try_from(self.examples.len()).unwrap();
            let example = &self.examples[usize::try_from(random.below(count)).unwrap()];
            call.extend(example.iter().cloned());
        }
        call
    }

    /// Whether its arguments are documented.
    pub(crate) fn has_grammar(&self) -> bool {
        self.examples.is_empty()
    }

    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|found| found == flag)
    }
}

fn walk(arguments: &[Argument], random: &mut Random, call: &mut Vec<Slot>) {
    for argument in arguments {
        if argument.optional && random.below(2) == 0 {
            continue;
        }
        let count = if argument.multiple { 1 + random.below(3) } else { 1 };
        for number in 0..count {
            if let Some(token) = argument.token.as_ref().filter(|token| !token.is_empty())
                && (number == 0 || argument.multiple_token)
            {
                call.push(Slot::Word(token.clone()));
            }
            walk_one(argument, random, call);
        }
    }
}

fn walk_one(argument: &Argument, random: &mut Random, call: &mut Vec<Slot>) {
    match argument.kind.as_str() {
        "pure-token" => {}
        "oneof" => {
            let count = u64::try_from(argument.arguments.len()).unwrap();
            let chosen = usize::try_from(random.below(count)).unwrap();
            walk(&argument.arguments[chosen..=chosen], random, call);
        }
        "block" => walk(&argument.arguments, random, call),
        "key" => call.push(Slot::Key),
        "pattern" => call.push(Slot::Pattern),
        "double" => call.push(Slot::Double(argument.name.clone())),
        "integer" if argument.name == "numkeys" => call.push(Slot::KeyCount(0)),
        "integer" | "unix-time" => call.push(Slot::Integer(argument.name.clone())),
        _ => call.push(Slot::Text(argument.name.clone())),
    }
}

/// Fills in how many keys follow a number of keys.
fn count_keys(call: &mut [Slot]) {
    for at in 0..call.len() {
        if call[at] == Slot::KeyCount(0) {
            let keys = call[at + 1..].iter().take_while(|slot| **slot == Slot::Key).count();
            call[at] = Slot::KeyCount(keys);
        }
    }
}

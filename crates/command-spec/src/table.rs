//! The command table: every command's spec, and the way from a name to it.
//!
//! The specs are static data, one file a group. A hash index over their names is computed by the
//! compiler, so a lookup is one hash of the name, one probe and one comparison, without allocation
//! and in any case of letters.
//!
//! Each command and each subcommand has an *ordinal*, a small dense number: handlers and per-command
//! statistics are plain arrays indexed by it. A container's subcommands have the numbers after its
//! own.

mod array;
mod bitmap;
mod cluster;
mod connection;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod list;
mod ordinals;
mod pubsub;
mod scripting;
mod server;
mod set;
mod sorted_set;
mod stream;
mod string;
mod transactions;
mod vector_set;

use std::ops::Deref;

use crate::spec::Spec;
pub use ordinals::by_ordinal;

static GROUPS: [&[Spec]; 24] = [
    string::COMMANDS,
    bitmap::COMMANDS,
    list::COMMANDS,
    set::COMMANDS,
    sorted_set::COMMANDS,
    sorted_set::algebra::COMMANDS,
    hash::COMMANDS,
    hash::expiry::COMMANDS,
    generic::COMMANDS,
    generic::transfer::COMMANDS,
    pubsub::COMMANDS,
    transactions::COMMANDS,
    connection::COMMANDS,
    cluster::COMMANDS,
    cluster::slots::COMMANDS,
    server::COMMANDS,
    server::newer::COMMANDS,
    server::replication::COMMANDS,
    stream::COMMANDS,
    geo::COMMANDS,
    hyperloglog::COMMANDS,
    scripting::COMMANDS,
    vector_set::COMMANDS,
    array::COMMANDS,
];

/// Slots of the hash index: a power of two, at least twice the number of commands.
const SLOT_COUNT: usize = 1024;

/// What is in a slot without a command.
const EMPTY: u16 = u16::MAX;

/// The ordinals of the commands, each at or after the slot that its name's hash says.
static INDEX: [u16; SLOT_COUNT] = build_index();

/// How many ordinals there are: commands and subcommands, those that are not served included.
pub const ORDINAL_COUNT: usize = count_ordinals();

/// The spec of each ordinal.
pub static SPECS: [&Spec; ORDINAL_COUNT] = specs();

/// A command of the table: its spec and its ordinal.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    spec: &'static Spec,
    ordinal: u16,
}

impl Command {
    /// The command with this ordinal, served or not.
    #[must_use]
    pub fn at(ordinal: usize) -> Option<Self> {
        let spec = *SPECS.get(ordinal)?;
        #[expect(clippy::cast_possible_truncation, reason = "the array is shorter")]
        let ordinal = ordinal as u16;
        Some(Self { spec, ordinal })
    }

    /// What is known about it.
    #[must_use]
    pub const fn spec(self) -> &'static Spec {
        self.spec
    }

    /// Its number, below [`ORDINAL_COUNT`].
    #[must_use]
    pub const fn ordinal(self) -> usize {
        self.ordinal as usize
    }

    /// Its subcommand called `name`, in any case of letters.
    #[must_use]
    pub fn subcommand(self, name: &[u8]) -> Option<Self> {
        self.known_subcommand(name).filter(|sub| sub.served)
    }

    /// Its subcommands that are served.
    pub fn subcommands(self) -> impl Iterator<Item = Self> {
        self.known_subcommands().filter(|sub| sub.served)
    }

    /// Its subcommands, served or not.
    pub fn known_subcommands(self) -> impl Iterator<Item = Self> {
        (self.ordinal + 1..)
            .zip(self.spec.subcommands)
            .map(|(ordinal, spec)| Self { spec, ordinal })
    }

    /// Its subcommand called `name`, served or not.
    fn known_subcommand(self, name: &[u8]) -> Option<Self> {
        // Most names differ in length already, which needs no look at their letters.
        let prefix_len = self.spec.name.len() + 1;
        self.known_subcommands().find(|sub| {
            let whole = sub.spec.name.as_bytes();
            whole.len() == prefix_len + name.len() && whole[prefix_len..].eq_ignore_ascii_case(name)
        })
    }
}

impl Deref for Command {
    type Target = Spec;

    fn deref(&self) -> &Spec {
        self.spec
    }
}

/// The command called `name`, in any case of letters. `name` may be that of a subcommand with its
/// container, as in `config|get`.
#[must_use]
pub fn lookup(name: &[u8]) -> Option<Command> {
    if let Some(bar) = name.iter().position(|&byte| byte == b'|') {
        return lookup_word(&name[..bar])?.subcommand(&name[bar + 1..]);
    }
    lookup_word(name)
}

/// The command called `name`, served or not, in any case of letters; `name` as in [`lookup`].
#[must_use]
pub fn find(name: &[u8]) -> Option<Command> {
    let Some(bar) = name.iter().position(|&byte| byte == b'|') else { return find_word(name) };
    find_word(&name[..bar])?.known_subcommand(&name[bar + 1..])
}

/// The command that a call means, served or not: a container's subcommand if it has the one that
/// the second argument names, otherwise the container.
#[must_use]
pub fn find_call(arguments: &[&[u8]]) -> Option<Command> {
    let command = find_word(arguments.first()?)?;
    let sub = arguments.get(1).and_then(|word| command.known_subcommand(word));
    Some(sub.unwrap_or(command))
}

/// The command that a call means: a container's subcommand if there is a second argument.
///
/// # Errors
/// What to tell the client when there is no such command.
pub fn resolve(arguments: &[&[u8]]) -> Result<Command, UnknownCommand> {
    resolve_as(arguments.first().and_then(|name| lookup_word(name)), arguments)
}

/// The same when the first word means `found`.
pub(crate) fn resolve_as(
    found: Option<Command>,
    arguments: &[&[u8]],
) -> Result<Command, UnknownCommand> {
    match (found, arguments.get(1)) {
        (Some(command), Some(sub)) if !command.subcommands.is_empty() => {
            command.subcommand(sub).ok_or_else(|| UnknownCommand::subcommand(arguments[0], sub))
        }
        (Some(command), _) => Ok(command),
        (None, _) => Err(UnknownCommand::command(arguments)),
    }
}

/// All commands that are served, without subcommands, group by group.
pub fn all() -> impl Iterator<Item = Command> {
    known().filter(|command| command.served)
}

/// All commands that are known, served or not, without subcommands, group by group.
pub fn known() -> impl Iterator<Item = Command> {
    let mut ordinal = 0;
    std::iter::from_fn(move || {
        let command = Command::at(ordinal)?;
        ordinal += usize::from(ordinals_of(command.spec));
        Some(command)
    })
}

/// A call of a command that does not exist; the text is the error reply, without `ERR`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct UnknownCommand {
    text: String,
}

/// How much of a client's bytes an error reply repeats.
const REPEATED_BYTES_MAX: usize = 128;

impl UnknownCommand {
    fn command(arguments: &[&[u8]]) -> Self {
        let name = arguments.first().copied().unwrap_or_default();
        let rest = arguments.get(1..).unwrap_or_default();
        let mut begin = Vec::new();
        for argument in rest {
            if begin.len() >= REPEATED_BYTES_MAX {
                break;
            }
            let room = REPEATED_BYTES_MAX - begin.len();
            begin.push(b'\'');
            begin.extend_from_slice(printable(argument, room));
            begin.extend_from_slice(b"' ");
        }
        Self::from_parts(&[
            b"unknown command '",
            printable(name, REPEATED_BYTES_MAX),
            b"', with args beginning with: ",
            &begin,
        ])
    }

    fn subcommand(container: &[u8], sub: &[u8]) -> Self {
        Self::from_parts(&[
            b"unknown subcommand '",
            printable(sub, REPEATED_BYTES_MAX),
            b"'. Try ",
            &printable(container, REPEATED_BYTES_MAX).to_ascii_uppercase(),
            b" HELP.",
        ])
    }

    /// Line ends become spaces: the text goes into a one-line reply.
    fn from_parts(parts: &[&[u8]]) -> Self {
        let text = String::from_utf8_lossy(&parts.concat()).replace(['\r', '\n'], " ");
        Self { text }
    }
}

/// The first `length_max` bytes, up to a NUL byte, as C's `%.*s` prints them.
fn printable(bytes: &[u8], length_max: usize) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len()).min(length_max)]
}

fn lookup_word(name: &[u8]) -> Option<Command> {
    find_word(name).filter(|command| command.served)
}

fn find_word(name: &[u8]) -> Option<Command> {
    let mut at = hash(name) & (SLOT_COUNT - 1);
    loop {
        let command = Command::at(usize::from(INDEX[at]))?;
        if command.spec.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        at = (at + 1) & (SLOT_COUNT - 1);
    }
}

/// FNV-1a over the first sixteen letters, which tell all names apart, and the length.
const fn hash(name: &[u8]) -> usize {
    let mut state = 0x811c_9dc5_u32;
    let mut at = 0;
    while at < name.len() && at < 16 {
        state = (state ^ (name[at] | 0x20) as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (state ^ (state >> 15)) as usize ^ name.len()
}

const fn build_index() -> [u16; SLOT_COUNT] {
    let mut index = [EMPTY; SLOT_COUNT];
    // The served ones first: what clients call is found at the first slot it can be in.
    insert(&mut index, true);
    insert(&mut index, false);
    index
}

const fn insert(index: &mut [u16; SLOT_COUNT], served: bool) {
    let mut ordinal = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        let mut position = 0;
        while position < GROUPS[group].len() {
            let spec = &GROUPS[group][position];
            if spec.served == served {
                let mut at = hash(spec.name.as_bytes()) & (SLOT_COUNT - 1);
                while index[at] != EMPTY {
                    at = (at + 1) & (SLOT_COUNT - 1);
                }
                index[at] = ordinal;
            }
            ordinal += ordinals_of(spec);
            position += 1;
        }
        group += 1;
    }
}

const fn specs() -> [&'static Spec; ORDINAL_COUNT] {
    let mut specs = [&Spec::BLANK; ORDINAL_COUNT];
    let mut ordinal = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        let mut position = 0;
        while position < GROUPS[group].len() {
            let spec = &GROUPS[group][position];
            specs[ordinal] = spec;
            ordinal += 1;
            let mut sub = 0;
            while sub < spec.subcommands.len() {
                specs[ordinal] = &spec.subcommands[sub];
                ordinal += 1;
                sub += 1;
            }
            position += 1;
        }
        group += 1;
    }
    specs
}

const fn count_ordinals() -> usize {
    let mut count = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        let mut position = 0;
        while position < GROUPS[group].len() {
            count += ordinals_of(&GROUPS[group][position]) as usize;
            position += 1;
        }
        group += 1;
    }
    count
}

const fn ordinals_of(spec: &Spec) -> u16 {
    assert!(spec.subcommands.len() < 1000);
    #[expect(clippy::cast_possible_truncation, reason = "asserted just above")]
    let subcommand_count = spec.subcommands.len() as u16;
    1 + subcommand_count
}

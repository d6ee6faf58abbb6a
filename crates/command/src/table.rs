//! The command table: every command's spec, and the way from a name to it.
//!
//! The specs are static data, one file a group. A hash index over their names is computed by the
//! compiler, so a lookup is one hash of the name, one probe and one comparison, without allocation
//! and in any case of letters.
//!
//! Each command and each subcommand has an *ordinal*, a small dense number: per-command statistics
//! are plain arrays indexed by it. A container's subcommands have the numbers after its own.

mod bitmap;
mod cluster;
mod connection;
mod generic;
mod hash;
mod list;
mod pubsub;
mod server;
mod set;
mod sorted_set;
mod string;
mod transactions;

use std::ops::Deref;

use crate::spec::{Action, Spec};

static GROUPS: [&[Spec]; 13] = [
    string::COMMANDS,
    bitmap::COMMANDS,
    list::COMMANDS,
    set::COMMANDS,
    sorted_set::COMMANDS,
    sorted_set::algebra::COMMANDS,
    hash::COMMANDS,
    generic::COMMANDS,
    pubsub::COMMANDS,
    transactions::COMMANDS,
    connection::COMMANDS,
    cluster::COMMANDS,
    server::COMMANDS,
];

/// Slots of the hash index: a power of two, at least twice the number of commands.
const SLOT_COUNT: usize = 1024;

/// A slot of the index: where in [`GROUPS`] the command is, and its ordinal.
#[derive(Clone, Copy)]
struct Slot {
    /// `u8::MAX` in an empty slot.
    group: u8,
    position: u8,
    ordinal: u16,
}

const EMPTY: Slot = Slot { group: u8::MAX, position: 0, ordinal: 0 };

static INDEX: [Slot; SLOT_COUNT] = build_index();

/// How many ordinals there are: commands and subcommands, the unsupported ones included.
pub const ORDINAL_COUNT: usize = count_ordinals();

/// A command of the table: its spec and its ordinal.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    spec: &'static Spec,
    ordinal: u16,
}

impl Command {
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
        self.subcommands().find(|sub| sub.short_name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Its subcommands.
    pub fn subcommands(self) -> impl Iterator<Item = Self> {
        (self.ordinal + 1..)
            .zip(self.spec.subcommands)
            .map(|(ordinal, spec)| Self { spec, ordinal })
            .filter(|sub| sub.is_served())
    }

    fn is_served(self) -> bool {
        !matches!(self.spec.action, Action::Unsupported)
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
    let mut next_ordinal = 0;
    GROUPS
        .iter()
        .flat_map(|group| group.iter())
        .map(move |spec| {
            let ordinal = next_ordinal;
            next_ordinal += ordinals_of(spec);
            Command { spec, ordinal }
        })
        .filter(|command| command.is_served())
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
    let mut at = hash(name) & (SLOT_COUNT - 1);
    loop {
        let slot = INDEX[at];
        if slot.group == u8::MAX {
            return None;
        }
        let spec = &GROUPS[usize::from(slot.group)][usize::from(slot.position)];
        if spec.name.as_bytes().eq_ignore_ascii_case(name) {
            let command = Command { spec, ordinal: slot.ordinal };
            return command.is_served().then_some(command);
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

const fn build_index() -> [Slot; SLOT_COUNT] {
    let mut index = [EMPTY; SLOT_COUNT];
    let mut ordinal = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        let mut position = 0;
        while position < GROUPS[group].len() {
            let spec = &GROUPS[group][position];
            let mut at = hash(spec.name.as_bytes()) & (SLOT_COUNT - 1);
            while index[at].group != u8::MAX {
                at = (at + 1) & (SLOT_COUNT - 1);
            }
            assert!(group < u8::MAX as usize && position <= u8::MAX as usize);
            #[expect(clippy::cast_possible_truncation, reason = "asserted just above")]
            let slot = Slot { group: group as u8, position: position as u8, ordinal };
            index[at] = slot;
            ordinal += ordinals_of(spec);
            position += 1;
        }
        group += 1;
    }
    index
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

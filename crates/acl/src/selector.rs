//! A set of permissions: commands, keys and channels that may be used together.

use std::collections::BTreeMap;

use command_spec::table::{self, Command};

use crate::commands::{self, CommandSet};
use crate::error::RuleError;
use crate::patterns::{ChannelDefault, Channels, KeyAccess, Keys};
use crate::rules;

/// A set of permissions. A call needs all of one selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub(crate) commands: CommandSet,
    /// Whether it began with all commands, those of later versions too.
    pub(crate) begins_with_all: bool,
    /// Of commands that are not allowed otherwise, the first arguments with which they are.
    pub(crate) first_arguments: BTreeMap<usize, Vec<Box<[u8]>>>,
    pub(crate) keys: Keys,
    pub(crate) channels: Channels,
}

impl Selector {
    /// One that allows nothing, but for the channels that are allowed by default.
    pub(crate) const fn new(default: ChannelDefault) -> Self {
        Self {
            commands: CommandSet::EMPTY,
            begins_with_all: false,
            first_arguments: BTreeMap::new(),
            keys: Keys::OneOf(Vec::new()),
            channels: default.channels(),
        }
    }

    /// Applies one rule.
    ///
    /// # Errors
    /// Why it cannot be. Nothing has changed then.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.keys = Keys::All,
            b"resetkeys" => self.keys = Keys::OneOf(Vec::new()),
            b"allchannels" | b"&*" => self.channels = Channels::All,
            b"resetchannels" => self.channels = Channels::OneOf(Vec::new()),
            b"allcommands" | b"+@all" => self.set_every_command(true),
            b"nocommands" | b"-@all" => self.set_every_command(false),
            _ => return self.apply_named(rule),
        }
        Ok(())
    }

    fn apply_named(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [b'~', pattern @ ..] => self.add_keys(pattern, KeyAccess::ALL),
            [b'%', rest @ ..] => {
                if self.keys == Keys::All {
                    return Err(RuleError::KeyAfterAll);
                }
                let (access, pattern) = rules::key_access(rest)?;
                self.add_keys(pattern, access)
            }
            [b'&', pattern @ ..] => self.add_channels(pattern),
            [sign @ (b'+' | b'-'), b'@', name @ ..] => self.set_category(name, *sign == b'+'),
            [b'+', name @ ..] => match name.iter().rposition(|&byte| byte == b'|') {
                Some(bar) => self.allow_part(name, bar),
                None => self.set_command(name, true),
            },
            [b'-', name @ ..] => self.set_command(name, false),
            _ => Err(RuleError::Syntax),
        }
    }

    fn add_keys(&mut self, pattern: &[u8], access: KeyAccess) -> Result<(), RuleError> {
        let Keys::OneOf(patterns) = &mut self.keys else { return Err(RuleError::KeyAfterAll) };
        rules::check_word(pattern)?;
        Keys::add(patterns, pattern, access);
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        let Channels::OneOf(patterns) = &mut self.channels else {
            return Err(RuleError::ChannelAfterAll);
        };
        rules::check_word(pattern)?;
        if !patterns.iter().any(|known| **known == *pattern) {
            patterns.push(pattern.into());
        }
        Ok(())
    }

    fn set_every_command(&mut self, are_allowed: bool) {
        self.commands = if are_allowed { CommandSet::full() } else { CommandSet::EMPTY };
        self.begins_with_all = are_allowed;
        self.first_arguments.clear();
    }

    fn set_category(&mut self, name: &[u8], are_allowed: bool) -> Result<(), RuleError> {
        let category = commands::category_called(name).ok_or(RuleError::Unknown)?;
        self.commands.set_all(&category.granted, are_allowed);
        self.first_arguments.retain(|ordinal, _| !category.granted.has(*ordinal));
        Ok(())
    }

    fn set_command(&mut self, name: &[u8], is_allowed: bool) -> Result<(), RuleError> {
        self.set(table::find(name).ok_or(RuleError::Unknown)?, is_allowed);
        Ok(())
    }

    /// Allows a command or forbids it, and its subcommands.
    pub(crate) fn set(&mut self, command: Command, is_allowed: bool) {
        self.first_arguments.remove(&command.ordinal());
        self.commands.set(command.ordinal(), is_allowed);
        for sub in command.known_subcommands() {
            self.commands.set(sub.ordinal(), is_allowed);
        }
    }

    /// `+command|part`: a subcommand, or a first argument of a command that has no subcommands.
    fn allow_part(&mut self, name: &[u8], bar: usize) -> Result<(), RuleError> {
        let command = table::find(&name[..bar]).ok_or(RuleError::Unknown)?;
        let part = &name[bar + 1..];
        if name[..bar].contains(&b'|') {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if part.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !command.subcommands.is_empty() {
            return self.set_command(name, true);
        }
        // Redis takes spaces, too, and makes a line of it that says something else.
        rules::check_word(part)?;
        if self.commands.has(command.ordinal()) {
            // It would be forgotten as soon as it meant something.
            return Ok(());
        }
        let known = self.first_arguments.entry(command.ordinal()).or_default();
        if !known.iter().any(|argument| argument.eq_ignore_ascii_case(part)) {
            known.push(part.into());
        }
        Ok(())
    }
}

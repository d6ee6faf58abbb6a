//! A set of permissions: commands, keys and channels that may be used together.

use std::collections::{BTreeMap, BTreeSet};

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
    /// The rules that made the commands of that beginning, in order and in small letters. None is overridden by a later one.
    pub(crate) command_rules: Vec<Box<[u8]>>,
    /// Of commands that are not allowed otherwise, the first arguments with which they are, in small letters.
    pub(crate) first_arguments: BTreeMap<usize, BTreeSet<Box<[u8]>>>,
    pub(crate) keys: Keys,
    pub(crate) channels: Channels,
}

impl Selector {
    /// One that allows nothing, but for the channels that are allowed by default.
    pub(crate) const fn new(default: ChannelDefault) -> Self {
        Self {
            commands: CommandSet::EMPTY,
            begins_with_all: false,
            command_rules: Vec::new(),
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
        if let [b'+' | b'-', name @ ..] = rule {
            self.apply_to_commands(rule, name)?;
            self.remember(rule);
            return Ok(());
        }
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
            _ => Err(RuleError::Syntax),
        }
    }

    /// A rule with a sign, and `name` behind that.
    fn apply_to_commands(&mut self, rule: &[u8], name: &[u8]) -> Result<(), RuleError> {
        let is_allowed = rule[0] == b'+';
        match (name, name.iter().rposition(|&byte| byte == b'|')) {
            ([b'@', category @ ..], _) => self.set_category(category, is_allowed),
            (_, Some(bar)) if is_allowed => self.allow_part(name, bar),
            _ => self.set_command(name, is_allowed),
        }
    }

    /// Adds a rule to those that are told, in place of the ones that it overrides: of the same name, or of a part of it.
    fn remember(&mut self, rule: &[u8]) {
        let rule = rule.to_ascii_lowercase().into_boxed_slice();
        let is_overridden =
            |known: &[u8]| matches!(known[1..].strip_prefix(&rule[1..]), Some([] | [b'|', ..]));
        self.command_rules.retain(|known| !is_overridden(known));
        self.command_rules.push(rule);
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
        self.command_rules.clear();
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
        known.insert(part.to_ascii_lowercase().into());
        Ok(())
    }
}

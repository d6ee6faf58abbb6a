//! A user as the rules that make an equal one: in ACL LIST, ACL GETUSER and files.
//!
//! The commands are told as Redis tells them: all or none of them first, then the category that fits
//! best, as long as one fits more than it does not, and at last single commands.

use command_spec::table::{Command, ORDINAL_COUNT};

use crate::commands::CATEGORIES;
use crate::patterns::{ChannelDefault, Channels};
use crate::selector::Selector;
use crate::user::{Passwords, Sanitize, User};

impl User {
    /// The rules that make this user of a new one.
    #[must_use]
    pub fn describe(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for flag in self.flags() {
            out.extend_from_slice(flag.as_bytes());
            out.push(b' ');
        }
        for password in self.passwords() {
            out.push(b'#');
            out.extend_from_slice(password.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(&self.root.rules().join(&b' '));
        for selector in &self.selectors {
            out.extend_from_slice(b" (");
            let rules = selector.rules();
            let rules: Vec<_> = rules.iter().map(|rule| in_parentheses(rule)).collect();
            out.extend_from_slice(&rules.join(&b' '));
            out.push(b')');
        }
        out
    }

    /// Its flags, as ACL GETUSER names them.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let is_on = if self.is_on { "on" } else { "off" };
        let sanitize = match self.sanitize {
            Sanitize::Unsaid => None,
            Sanitize::Yes => Some("sanitize-payload"),
            Sanitize::Skip => Some("skip-sanitize-payload"),
        };
        [Some(is_on), self.needs_no_password().then_some("nopass"), sanitize].into_iter().flatten()
    }

    /// Its passwords' SHA-256, in hexadecimal digits.
    pub fn passwords(&self) -> impl Iterator<Item = String> {
        let known = match &self.passwords {
            Passwords::Any => &[][..],
            Passwords::OneOf(known) => known,
        };
        known.iter().map(|hash| hash.to_hex())
    }

    /// The selector that rules outside of parentheses change.
    #[must_use]
    pub const fn root(&self) -> &Selector {
        &self.root
    }

    /// The selectors in parentheses.
    #[must_use]
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }
}

impl Selector {
    /// The rules for commands.
    #[must_use]
    pub fn describe_commands(&self) -> Vec<u8> {
        self.command_rules().join(&b' ')
    }

    /// The rules for keys.
    #[must_use]
    pub fn describe_keys(&self) -> Vec<u8> {
        self.keys.rules().join(&b' ')
    }

    /// The rules for channels.
    #[must_use]
    pub fn describe_channels(&self) -> Vec<u8> {
        self.channels.rules().join(&b' ')
    }

    fn rules(&self) -> Vec<Vec<u8>> {
        let mut rules = self.keys.rules();
        if self.channels != Channels::All {
            rules.push(b"resetchannels".to_vec());
        }
        rules.extend(self.channels.rules());
        rules.extend(self.command_rules());
        rules
    }

    fn command_rules(&self) -> Vec<Vec<u8>> {
        // What the rules so far allow.
        let mut told = Self::new(ChannelDefault::Nothing);
        let mut rules = Vec::new();
        let start: &[u8] = if self.begins_with_all { b"+@all" } else { b"-@all" };
        told.apply(start).expect("a rule of all versions");
        rules.push(start.to_vec());
        self.add_categories(&mut told, &mut rules);
        let mut ordinal = 0;
        while let Some(command) = Command::at(ordinal) {
            self.add_command(command, &mut told, &mut rules);
            for sub in command.known_subcommands() {
                self.add_command(sub, &mut told, &mut rules);
            }
            ordinal += 1 + command.spec().subcommands.len();
        }
        debug_assert!(ordinal == ORDINAL_COUNT && told.commands == self.commands);
        rules
    }

    /// Chooses the category that differs least as long as there is one that fits more than it differs.
    fn add_categories(&self, told: &mut Self, rules: &mut Vec<Vec<u8>>) {
        let adds = !self.begins_with_all;
        let mut rest = self.commands.clone();
        let mut left: Vec<_> = CATEGORIES.iter().collect();
        loop {
            let mut best: Option<(usize, u32, u32)> = None;
            for (index, category) in left.iter().enumerate() {
                let (on, off) = category.count(&rest);
                let (same, different) = if adds { (on, off) } else { (off, on) };
                let is_better = best.is_none_or(|(_, least, most)| {
                    different < least || (different == least && same > most)
                });
                if same > different && is_better {
                    best = Some((index, different, same));
                }
            }
            let Some((index, ..)) = best else { break };
            let category = left.remove(index);
            let sign = if adds { "+@" } else { "-@" };
            rules.push([sign, category.name].concat().into_bytes());
            told.commands.set_all(&category.granted, adds);
            rest.set_all(&category.granted, !adds);
        }
    }

    fn add_command(&self, command: Command, told: &mut Self, rules: &mut Vec<Vec<u8>>) {
        let is_allowed = self.commands.has(command.ordinal());
        if is_allowed != told.commands.has(command.ordinal()) {
            let sign = if is_allowed { "+" } else { "-" };
            rules.push([sign, command.name].concat().into_bytes());
            told.set(command, is_allowed);
        }
        for argument in self.first_arguments.get(&command.ordinal()).into_iter().flatten() {
            rules.push([b"+", command.name.as_bytes(), b"|", argument].concat());
        }
    }
}

/// A rule between parentheses: in quotes if it has a quote in it, or a parenthesis, which would end the selector.
fn in_parentheses(rule: &[u8]) -> Vec<u8> {
    if !rule.iter().any(|byte| matches!(byte, b'"' | b'\'' | b')')) {
        return rule.to_vec();
    }
    let mut quoted = vec![b'"'];
    for &byte in rule {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(byte);
    }
    quoted.push(b'"');
    quoted
}

//! A user as the rules that make an equal one: in ACL LIST, ACL GETUSER and files.
//!
//! The commands are told as Redis 7.2 tells them: all or none of them first, then the rules that were given, without those
//! that a later one overrides.

use crate::patterns::Channels;
use crate::selector::Selector;
use crate::user::{Passwords, User};

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
        let sanitize =
            if self.skips_sanitizing { "skip-sanitize-payload" } else { "sanitize-payload" };
        let nopass = self.needs_no_password().then_some("nopass");
        [Some(is_on), nopass, Some(sanitize)].into_iter().flatten()
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
        let start: &[u8] = if self.begins_with_all { b"+@all" } else { b"-@all" };
        let rules = self.command_rules.iter().map(|rule| &rule[..]);
        std::iter::once(start).chain(rules).map(<[u8]>::to_vec).collect()
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

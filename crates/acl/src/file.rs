//! Files of users: a line `user name rules…` for each.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::error::{FileErrors, RuleError};
use crate::patterns::ChannelDefault;
use crate::rules;
use crate::user::User;
use crate::users::{Users, text, without_secret};

/// The users of a file.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    users: BTreeMap<Box<[u8]>, User>,
}

impl Roster {
    /// Reads the lines of an aclfile; `name` is that of the file, for errors.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(lines: &[u8], name: &str, default: ChannelDefault) -> Result<Self, FileErrors> {
        let mut roster = Self::default();
        let mut errors = String::new();
        for (index, line) in lines.split(|&byte| byte == b'\n').enumerate() {
            roster.add_line(line, &format!("{name}:{}", index + 1), default, &mut errors);
        }
        if errors.is_empty() { Ok(roster) } else { Err(FileErrors(errors)) }
    }

    pub(crate) fn into_users(self) -> BTreeMap<Box<[u8]>, User> {
        self.users
    }

    fn add_line(&mut self, line: &[u8], place: &str, default: ChannelDefault, errors: &mut String) {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        let Some(start) = line.iter().position(|byte| !is_blank(byte)) else { return };
        let end = line.iter().rposition(|byte| !is_blank(byte)).unwrap_or(start);
        let words: Vec<&[u8]> = line[start..=end].split(|&byte| byte == b' ').collect();
        let [b"user", name, rules @ ..] = words.as_slice() else {
            write_to(
                errors,
                format_args!("{place} should start with user keyword followed by the username. "),
            );
            return;
        };
        if !rules::is_valid_name(name) {
            let name = text(name);
            write_to(
                errors,
                format_args!("'{place}: username '{name}' contains invalid characters. "),
            );
            return;
        }
        if self.users.contains_key(*name) {
            let (name, line) = (text(name), place.rsplit(':').next().unwrap_or_default());
            write_to(
                errors,
                format_args!("WARNING: Duplicate user '{name}' found on line {line}. "),
            );
            return;
        }
        let mut user = User::new(default);
        apply(&mut user, rules, place, errors);
        self.users.insert((*name).into(), user);
    }
}

/// Applies a line's rules and appends what is wrong with them: every unknown command, and the first of other errors,
/// without the rule, which may have a password in it, as a selector may that has an unknown command.
fn apply(user: &mut User, rules: &[&[u8]], place: &str, errors: &mut String) {
    let Ok(merged) = rules::merge_selectors(rules) else {
        write_to(errors, format_args!("{place}: Unmatched parenthesis in selector definition. "));
        return;
    };
    let mut is_first = true;
    for rule in &merged {
        match user.apply(rule.trim_ascii()) {
            Ok(()) => {}
            Err(error @ RuleError::Unknown) => {
                let rule = without_secret(rule);
                write_to(
                    errors,
                    format_args!("{place}: Error in applying operation '{rule}': {error}. "),
                );
            }
            Err(error) if std::mem::replace(&mut is_first, false) => {
                write_to(errors, format_args!("{place}: {error}. "));
            }
            Err(_) => {}
        }
    }
}

fn write_to(errors: &mut String, message: std::fmt::Arguments<'_>) {
    let _infallible = errors.write_fmt(message);
}

impl Users {
    /// The text of an aclfile with all users.
    #[must_use]
    pub fn to_file(&self) -> Vec<u8> {
        let mut file = Vec::new();
        for line in self.lines() {
            file.extend_from_slice(&line);
            file.push(b'\n');
        }
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(lines: &str) -> String {
        Roster::parse(lines.as_bytes(), "f", ChannelDefault::Nothing).unwrap_err().to_string()
    }

    const END: &str =
        "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";

    #[test]
    fn all_errors_of_a_file_are_told_with_their_lines() {
        for (lines, expected) in [
            ("x", "f:1 should start with user keyword followed by the username. "),
            ("\nuser", "f:2 should start with user keyword followed by the username. "),
            ("# comment\n", "f:1 should start with user keyword followed by the username. "),
            (
                "user a +nope +@nope\nuser b on",
                "f:1: Error in applying operation '+nope': Unknown command or category name in ACL. \
                 f:1: Error in applying operation '+@nope': Unknown command or category name in ACL. ",
            ),
            (
                "user a #12 %x",
                "f:1: The password hash must be exactly 64 characters and contain only \
                 lowercase hexadecimal characters. ",
            ),
            ("user a on\n user a on", "WARNING: Duplicate user 'a' found on line 2. "),
            (
                "user a (+nope >hunter2)",
                "f:1: Error in applying operation '((redacted)': Unknown command or category name in ACL. ",
            ),
            ("user a\tb on", "'f:1: username 'a\tb' contains invalid characters. "),
            ("user a (~x", "f:1: Unmatched parenthesis in selector definition. "),
        ] {
            assert_eq!(errors(lines), format!("{expected}{END}"), "{lines}");
        }
    }

    #[test]
    fn a_file_comes_back_as_it_was_written() {
        let mut users = Users::new(ChannelDefault::Nothing);
        let rules: [&[u8]; 7] =
            [b"on", b">secret", b"%R~a*", b"&c", b"+@read", b"+select|0", b"(~x +set)"];
        users.set_user(b"alice", &rules).unwrap();
        let file = users.to_file();
        let mut again = Users::new(ChannelDefault::Nothing);
        again.replace(Roster::parse(&file, "f", ChannelDefault::Nothing).unwrap());
        assert_eq!(again.to_file(), file);
        assert!(again.authenticate(b"alice", b"secret").is_some());
    }
}

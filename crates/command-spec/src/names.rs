//! Which command a name means: the table's own names, as `rename-command` has changed them.
//!
//! Only the name that clients call changes. What a command is called in replies, statistics and
//! COMMAND stays as it is in the table, as in Redis.

use std::collections::{BTreeMap, BTreeSet};

use crate::table::{self, Command, UnknownCommand};

/// Why a command cannot be renamed; displayed as Redis displays it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenameError {
    /// Nothing is called so.
    #[error("No such command in rename-command")]
    NoSuchCommand,
    /// The new name is another command's.
    #[error("Target command name already exists")]
    TargetExists,
}

/// See the file's top.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names in lower case that mean something else than in the table, or nothing any more.
    changed: BTreeMap<Vec<u8>, Option<Command>>,
    /// Ordinals of the commands that no name is left for.
    gone: BTreeSet<usize>,
}

impl Names {
    /// Calls the command `old` by the name `new` from now on, or takes it away when that is empty.
    ///
    /// # Errors
    /// When there is no such command, or the new name is taken.
    pub fn rename(&mut self, old: &str, new: &str) -> Result<(), RenameError> {
        let (old, new) = (old.to_ascii_lowercase(), new.to_ascii_lowercase());
        if old.contains('|') {
            return Err(RenameError::NoSuchCommand);
        }
        let Some(command) = self.lookup(old.as_bytes()) else {
            // A file that takes away what is not served, or hides it, has what it wants.
            let is_absent = table::find(old.as_bytes()).is_some() && !self.is_known(&old);
            if !is_absent {
                return Err(RenameError::NoSuchCommand);
            }
            if self.lookup(new.as_bytes()).is_some() {
                return Err(RenameError::TargetExists);
            }
            self.changed.insert(old.into_bytes(), None);
            return Ok(());
        };
        // Redis takes the old name away first: a command may keep its own.
        if old != new && self.lookup(new.as_bytes()).is_some() {
            return Err(RenameError::TargetExists);
        }
        self.changed.insert(old.into_bytes(), None);
        if new.is_empty() {
            self.gone.insert(command.ordinal());
        } else {
            self.changed.insert(new.into_bytes(), Some(command));
        }
        Ok(())
    }

    fn is_known(&self, name: &str) -> bool {
        self.changed.contains_key(name.as_bytes())
    }

    /// The command that is called `name`, in any case of letters. `name` may be that of a
    /// subcommand with its container, as in `config|get`.
    #[must_use]
    pub fn lookup(&self, name: &[u8]) -> Option<Command> {
        if self.changed.is_empty() {
            return table::lookup(name);
        }
        let (word, sub) = match name.iter().position(|&byte| byte == b'|') {
            Some(bar) => (&name[..bar], Some(&name[bar + 1..])),
            None => (name, None),
        };
        let command = match self.changed.get(&word.to_ascii_lowercase()) {
            Some(changed) => (*changed)?,
            None => table::lookup(word)?,
        };
        sub.map_or(Some(command), |sub| command.subcommand(sub))
    }

    /// The command that a call means: a container's subcommand if there is a second argument.
    ///
    /// # Errors
    /// What to tell the client when there is no such command.
    pub fn resolve(&self, arguments: &[&[u8]]) -> Result<Command, UnknownCommand> {
        if self.changed.is_empty() {
            return table::resolve(arguments);
        }
        let word = arguments.first().filter(|name| !name.contains(&b'|'));
        table::resolve_as(word.and_then(|name| self.lookup(name)), arguments)
    }

    /// All commands that can be called, without subcommands, in the table's order.
    pub fn all(&self) -> impl Iterator<Item = Command> {
        table::all().filter(|command| !self.gone.contains(&command.ordinal()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_command_has_its_new_name_only() {
        let mut names = Names::default();
        names.rename("Config", "Secret-Config").unwrap();
        assert!(names.lookup(b"config").is_none());
        assert!(names.lookup(b"config|get").is_none());
        assert_eq!(names.lookup(b"SECRET-config|get").unwrap().name, "config|get");
        assert_eq!(names.resolve(&[b"secret-config", b"set", b"a"]).unwrap().name, "config|set");
        assert!(names.resolve(&[b"config", b"get", b"a"]).is_err());
        assert_eq!(names.resolve(&[b"get", b"a"]).unwrap().name, "get");
        assert_eq!(names.all().count(), table::all().count());
        names.rename("get", "config").unwrap();
        assert_eq!(names.resolve(&[b"config", b"a"]).unwrap().name, "get");
        names.rename("secret-config", "").unwrap();
        assert!(names.lookup(b"secret-config").is_none());
        assert_eq!(names.all().count(), table::all().count() - 1);
        assert!(names.all().all(|command| command.name != "config"));
    }

    #[test]
    fn what_cannot_be_renamed_is_said() {
        let mut names = Names::default();
        assert_eq!(names.rename("nothing", ""), Err(RenameError::NoSuchCommand));
        assert_eq!(names.rename("config|get", ""), Err(RenameError::NoSuchCommand));
        assert_eq!(names.rename("get", "SET"), Err(RenameError::TargetExists));
        assert_eq!(names.rename("get", "get"), Ok(()));
        assert_eq!(names.lookup(b"get").unwrap().name, "get");
        assert_eq!(names.rename("set", ""), Ok(()));
        assert_eq!(names.rename("set", "x"), Err(RenameError::NoSuchCommand));
        assert_eq!(names.rename("get", "set"), Ok(()));
        assert_eq!(names.lookup(b"set").unwrap().name, "get");
    }

    #[test]
    fn commands_that_only_redis_has_can_be_taken_away() {
        for command in table::known().filter(|command| !command.served) {
            let name = command.name;
            let mut names = Names::default();
            assert_eq!(names.rename(name, "get"), Err(RenameError::TargetExists), "{name}");
            assert_eq!(names.rename(name, ""), Ok(()), "{name}");
            assert_eq!(names.rename(name, ""), Err(RenameError::NoSuchCommand), "{name}");
        }
    }
}

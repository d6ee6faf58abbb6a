//! Whether a user may make a call.

use command_spec::keys::{self, KeyAt};
use command_spec::spec::{Flags, Spec};
use command_spec::table::Command;

use crate::log::Reason;
use crate::patterns::{Channels, KeyAccess, Keys};
use crate::selector::Selector;
use crate::user::User;

/// Why a call is refused. Of several selectors' reasons the greatest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The command, or its subcommand.
    Command,
    /// All keys: the command returns data of keys that it does not name.
    AllKeys,
    /// The key at this position among the arguments.
    Key(usize),
    /// The channel at this position.
    Channel(usize),
}

impl Denial {
    /// What ACL LOG says was refused.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Command => Reason::Command,
            Self::AllKeys | Self::Key(_) => Reason::Key,
            Self::Channel(_) => Reason::Channel,
        }
    }

    /// The command, the key or the channel.
    #[must_use]
    pub fn object<'a>(self, command: Command, call: &[&'a [u8]]) -> &'a [u8] {
        match self {
            Self::Command => command.spec().name.as_bytes(),
            Self::AllKeys => b"*",
            Self::Key(index) | Self::Channel(index) => call[index],
        }
    }

    /// What a client of this user is told, with its code.
    #[must_use]
    pub fn error(self, user: &str, command: Command) -> String {
        format!("NOPERM {}", self.why(user, command))
    }

    /// What a script of this user is told.
    #[must_use]
    pub fn error_of_script(self, user: &str, command: Command) -> String {
        format!("ERR ACL failure in script: {}", self.why(user, command))
    }

    fn why(self, user: &str, command: Command) -> String {
        match self {
            Self::Command => {
                format!("User {user} has no permissions to run the '{}' command", command.name)
            }
            Self::AllKeys | Self::Key(_) => "No permissions to access a key".to_owned(),
            Self::Channel(_) => "No permissions to access a channel".to_owned(),
        }
    }

    /// Why a command that was queued is refused by EXEC.
    #[must_use]
    pub const fn error_of_exec(self) -> &'static str {
        match self {
            Self::Command => {
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
                 EXEC call. This command is no longer allowed for the following reason: no permission \
                 to execute the command or subcommand"
            }
            Self::AllKeys | Self::Key(_) => {
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
                 EXEC call. This command is no longer allowed for the following reason: no permission \
                 to touch the specified keys"
            }
            Self::Channel(_) => {
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
                 EXEC call. This command is no longer allowed for the following reason: no permission \
                 to access one of the channels used as arguments"
            }
        }
    }

    /// What ACL DRYRUN replies.
    #[must_use]
    pub fn dry_run(self, user: &[u8], command: Command, call: &[&[u8]]) -> Vec<u8> {
        let (begin, end): (&[u8], &[u8]) = match self {
            Self::Command => (b"run", b"command"),
            Self::AllKeys | Self::Key(_) => (b"access", b"key"),
            Self::Channel(_) => (b"access", b"channel"),
        };
        let object = self.object(command, call);
        [b"User ", user, b" has no permissions to ", begin, b" the '", object, b"' ", end].concat()
    }
}

/// What a call does with its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelUse {
    /// Sends to them, or subscribes to them.
    Channel,
    /// Subscribes to patterns.
    Pattern,
}

impl User {
    /// Whether it may make this call of `command`; `call` begins with the command's name.
    ///
    /// # Errors
    /// What it may not use.
    pub fn check(&self, command: Command, call: &[&[u8]]) -> Result<(), Denial> {
        let mut found = None;
        self.check_each(command, call, &mut found, |_| true)
    }

    /// Whether it may make this call, and in addition read every key: SORT with BY or GET.
    #[must_use]
    pub fn may_read_all_keys(&self, command: Command, call: &[&[u8]]) -> bool {
        let reads_all = |selector: &Selector| selector.keys.allow_all(KeyAccess::READ);
        self.check_each(command, call, &mut None, reads_all).is_ok()
    }

    /// Whether it may use a channel, or subscribe to a pattern.
    #[must_use]
    pub fn may_use_channel(&self, name: &[u8], how: ChannelUse) -> bool {
        let is_pattern = how == ChannelUse::Pattern;
        self.all_selectors().any(|selector| selector.channels.allow(name, is_pattern))
    }

    fn check_each(
        &self,
        command: Command,
        call: &[&[u8]],
        found: &mut Option<Vec<KeyAt>>,
        suffices: impl Fn(&Selector) -> bool,
    ) -> Result<(), Denial> {
        let mut denial = Denial::Command;
        for selector in self.all_selectors() {
            match selector.check(command, call, found) {
                Ok(()) if suffices(selector) => return Ok(()),
                Ok(()) => {}
                Err(reason) => denial = denial.max(reason),
            }
        }
        Err(denial)
    }
}

impl Selector {
    /// Whether it allows a call; `found` are the call's keys once they have been looked for.
    fn check(
        &self,
        command: Command,
        call: &[&[u8]],
        found: &mut Option<Vec<KeyAt>>,
    ) -> Result<(), Denial> {
        if !self.allows_command(command, call) {
            return Err(Denial::Command);
        }
        if command.spec().reads_all && !self.keys.allow_all(KeyAccess::READ) {
            return Err(Denial::AllKeys);
        }
        if self.keys != Keys::All && keys::has_keys(command.spec()) {
            // A call of which that cannot be told fails as wrong. Redis' own tests ask that it is not refused before.
            let found =
                found.get_or_insert_with(|| keys::of(command.spec(), call).unwrap_or_default());
            for key in found {
                if !self.keys.allow(call[key.index], KeyAccess::of(key.flags)) {
                    return Err(Denial::Key(key.index));
                }
            }
        }
        if self.channels != Channels::All
            && let Some((channels, how)) = channels_of(command.spec(), call.len())
        {
            for index in channels {
                if !self.channels.allow(call[index], how == ChannelUse::Pattern) {
                    return Err(Denial::Channel(index));
                }
            }
        }
        Ok(())
    }

    fn allows_command(&self, command: Command, call: &[&[u8]]) -> bool {
        if self.commands.has(command.ordinal()) || command.flags.has(Flags::NO_AUTH) {
            return true;
        }
        let Some(allowed) = self.first_arguments.get(&command.ordinal()) else { return false };
        call.get(1).is_some_and(|first| allowed.iter().any(|it| it.eq_ignore_ascii_case(first)))
    }
}

/// The positions of the channels that a call uses, and how. To unsubscribe needs no permission.
fn channels_of(spec: &Spec, len: usize) -> Option<(std::ops::Range<usize>, ChannelUse)> {
    if !spec.flags.has(Flags::PUBSUB) {
        return None;
    }
    match spec.name {
        "publish" | "spublish" => Some((1..len.min(2), ChannelUse::Channel)),
        "subscribe" | "ssubscribe" => Some((1..len, ChannelUse::Channel)),
        "psubscribe" => Some((1..len, ChannelUse::Pattern)),
        _ => None,
    }
}

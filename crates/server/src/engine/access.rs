//! Which user a connection is, and what follows from that.
//!
//! ```text
//!   AUTH, HELLO ──► Users::authenticate ──► Identity ─┐
//!   a request, a queued command, redis.call ──────────┴─► check ──► refused: ACL LOG, INFO
//!   SETUSER, DELUSER, LOAD, requirepass ──► users change ──► enforce: connections lose what their
//!                                                            users have lost
//! ```
//!
//! Every command is checked when it comes, again when EXEC executes it, and when a script calls it. So what
//! a user has lost is lost with the next command, and [`Engine::enforce_users`] has to look at what goes on without
//! one: subscriptions, waiting commands, MONITOR, and users that are gone. A client that authenticates again keeps what it
//! listens to, as in Redis; so subscriptions and MONITOR remember the user that asked for them, and end with its right, too.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use acl::{
    AclLog, ChannelDefault, ChannelUse, Context, Denial, Event, FileErrors, Reason, Roster, User,
    UserKey, Users,
};
use command::error::{CommandError, Done};
use command::spec::Flags;
use command::table::{self, Command};
use env::{FileError, Unpublished};

use super::client::{Closing, Opening, Peer, Session};
use super::pubsub::Kind;
use super::{ClientKey, Engine, PROTECTED_MODE};
use crate::config::Config;

/// A million users with short lines.
const ACL_FILE_BYTES_MAX: u64 = 64 << 20;

/// The user of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Identity {
    /// None yet: it may authenticate, and little else.
    #[default]
    Stranger,
    /// This one. If it is gone, the connection may do no more than a stranger.
    User(UserKey),
}

/// Why an aclfile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AclFileError {
    /// It cannot be read.
    #[error("Error loading ACLs, opening file '{path}': {source}")]
    Unreadable {
        /// The file, as the configuration names it.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// Lines of it are wrong.
    #[error(transparent)]
    Wrong(#[from] FileErrors),
}

/// See the file's top.
pub(crate) struct Access {
    pub(super) users: Users,
    pub(super) log: AclLog,
}

impl Access {
    /// The users of a configuration without an aclfile.
    ///
    /// # Panics
    /// If [`Config::check_start`] refuses the configuration.
    pub(super) fn new(config: &Config) -> Self {
        let mut users = config.make_users().expect("check_start has made them before");
        users.take_changed();
        Self { users, log: AclLog::default() }
    }

    /// What a new connection is: the default user, if that needs no password.
    pub(super) fn of_new_connection(&self) -> Identity {
        if self.is_open() { Identity::User(UserKey::DEFAULT) } else { Identity::Stranger }
    }

    /// Whether no one has to authenticate.
    fn is_open(&self) -> bool {
        let default = self.users.default_user();
        default.needs_no_password() && default.is_on()
    }

    /// The name of a user, in which there may be any bytes; a stranger is the default one.
    pub(super) fn name_of(&self, identity: Identity) -> &[u8] {
        let name = match identity {
            Identity::Stranger => None,
            Identity::User(user) => self.users.name_of(user),
        };
        name.unwrap_or(b"default")
    }

    /// The same, for a text.
    pub(super) fn text_of(&self, identity: Identity) -> Cow<'_, str> {
        String::from_utf8_lossy(self.name_of(identity))
    }

    fn user(&self, identity: Identity) -> Option<&User> {
        match identity {
            Identity::Stranger => None,
            Identity::User(user) => self.users.get(user),
        }
    }

    /// Whether a call is allowed.
    pub(super) fn check(
        &self,
        identity: Identity,
        command: Command,
        args: &[&[u8]],
    ) -> Result<(), Denial> {
        match self.user(identity) {
            Some(user) => user.check(command, args),
            None if command.flags.has(Flags::NO_AUTH) => Ok(()),
            None => Err(Denial::Command),
        }
    }

    /// Whether a connection may stay when these users have changed: its user is there, and what it hears may be heard by
    /// its user and by the one that asked for it, which may be another: AUTH ends no subscription.
    fn may_stay(&self, session: &Session, changed: &BTreeSet<UserKey>) -> bool {
        let keeps = |identity: Identity, may: &dyn Fn(&User) -> bool| {
            !has_changed(identity, changed) || self.user(identity).is_some_and(may)
        };
        let by_both = |maker: Identity, may: &dyn Fn(&User) -> bool| {
            keeps(session.identity, may) && keeps(maker, may)
        };
        keeps(session.identity, &|_| true)
            && session.monitor.is_none_or(|maker| by_both(maker, &may_monitor))
            && session
                .listens()
                .all(|(name, how, maker)| by_both(maker, &|user| user.may_use_channel(name, how)))
    }

    /// Whether a call is allowed, and the user may read every key.
    pub(super) fn may_read_all_keys(
        &self,
        identity: Identity,
        command: Command,
        args: &[&[u8]],
    ) -> bool {
        self.user(identity).is_some_and(|user| user.may_read_all_keys(command, args))
    }
}

/// Checks that a server can start with the aclfile that the configuration names, if it names one.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_acl_file(config: &Config) -> Result<(), AclFileError> {
    read_acl_file(config, config.channel_default()).map(|_| ())
}

/// The users of the file that the configuration names.
fn read_acl_file(config: &Config, default: ChannelDefault) -> Result<Option<Roster>, AclFileError> {
    let Some(path) = path_of_acl_file(config) else { return Ok(None) };
    let name = config.value("aclfile");
    let text = read_whole(&path)
        .map_err(|source| AclFileError::Unreadable { path: name.to_owned(), source })?;
    Ok(Some(Roster::parse(&text, name, default)?))
}

/// What is in a file that is one, and of a size that an aclfile has.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if about.len() > ACL_FILE_BYTES_MAX {
        return Err(io::Error::other("it has more than 64 MB"));
    }
    std::fs::read(path)
}

/// The file of the users, if there is one.
fn path_of_acl_file(config: &Config) -> Option<PathBuf> {
    let name = config.value("aclfile");
    (!name.is_empty()).then(|| Path::new(config.value("dir")).join(name))
}

impl Session {
    /// Whether it has not authenticated.
    pub(super) fn is_stranger(&self) -> bool {
        self.identity == Identity::Stranger
    }

    /// Each of its subscriptions, and the user that it was made as.
    fn listens(&self) -> impl Iterator<Item = (&[u8], ChannelUse, Identity)> {
        self.subscriptions.iter().flat_map(|subscriptions| {
            [
                (Kind::Channel, ChannelUse::Channel),
                (Kind::Pattern, ChannelUse::Pattern),
                (Kind::Shard, ChannelUse::Channel),
            ]
            .into_iter()
            .flat_map(|(kind, how)| {
                subscriptions.makers(kind).map(move |(name, maker)| (name, how, maker))
            })
        })
    }
}

impl Engine {
    /// Why the user of a client may not make a call; ACL LOG and INFO know it then.
    pub(super) fn denial(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
        context: Context,
    ) -> Option<Denial> {
        let identity = self.sessions[key].session.identity;
        let denial = self.access.check(identity, command, args).err()?;
        self.note_denial(key, denial, command, args, context);
        Some(denial)
    }

    /// Notes that a call was refused.
    pub(super) fn note_denial(
        &mut self,
        key: ClientKey,
        denial: Denial,
        command: Command,
        args: &[&[u8]],
        context: Context,
    ) {
        let user = self.access.name_of(self.sessions[key].session.identity).to_owned();
        let object = denial.object(command, args);
        let event = Event { reason: denial.reason(), context, object, user: &user };
        self.note_refused(key, event);
    }

    fn note_refused(&mut self, key: ClientKey, event: Event<'_>) {
        self.observed.counters.denied[event.reason as usize] += 1;
        let client = self.client_line(key);
        let len_max = self.config.number("acllog-max-len");
        self.access.log.add(event, client, self.time.unix_ms(), len_max);
    }

    /// A client's line of CLIENT LIST.
    pub(super) fn client_line(&self, key: ClientKey) -> String {
        let client = &self.sessions[key];
        client.line(self.time.now_us, &self.access.text_of(client.session.identity))
    }

    /// Makes a client the user of this name, if the password is right; `args` are those of the command that asks for it.
    pub(super) fn authenticate(
        &mut self,
        key: ClientKey,
        args: &[&[u8]],
        user: &[u8],
        password: &[u8],
    ) -> Done {
        if let Some(user) = self.access.users.authenticate(user, password) {
            self.sessions[key].session.identity = Identity::User(user);
            return Ok(());
        }
        let in_multi = self.in_transaction;
        let context = if in_multi { Context::Multi } else { Context::TopLevel };
        self.note_refused(key, Event { reason: Reason::Auth, context, object: args[0], user });
        Err(CommandError::other("WRONGPASS invalid username-password pair or user is disabled."))
    }

    /// Whether protected mode keeps connections of this kind out.
    pub(super) fn keeps_out(&self, peer: &Peer) -> bool {
        self.options.access.protected_mode
            && self.access.users.default_user().needs_no_password()
            && !peer.is_loopback
            && !peer.is_unix_socket
    }

    /// The TLS handshake of a client is done; `name` is the common name in its certificate, if it has shown one. With
    /// `tls-auth-clients-user CN` it is the user of that name. If there is none, or it is off, it stays what it is without a
    /// certificate, and may authenticate.
    pub fn secured(&mut self, key: ClientKey, name: Option<&[u8]>) {
        let now_us = self.time.now_us;
        let Some(client) = self.sessions.clients.get_mut(key) else { return };
        client.connection.opening = Opening::Done;
        client.connection.active_us = now_us;
        if self.keeps_out(&self.sessions[key].connection.peer) {
            self.observed.counters.rejected_connections += 1;
            self.sessions[key].connection.output.writer().raw(PROTECTED_MODE.as_bytes());
            self.end_client(key, Closing::AfterReply);
            return;
        }
        let Some(name) = name.filter(|_| self.options.access.takes_certificate_names) else {
            return;
        };
        let user = self.access.users.key_of(name);
        let is_on = |user: &UserKey| self.access.users.get(*user).is_some_and(User::is_on);
        if let Some(user) = user.filter(is_on) {
            self.sessions[key].session.identity = Identity::User(user);
        } else {
            let context = Context::TopLevel;
            let event = Event { reason: Reason::TlsCert, context, object: b"", user: name };
            self.note_refused(key, event);
        }
    }

    /// Takes from connections what their users have lost. The client that has changed the users, if one has, is told before
    /// it is closed.
    pub(super) fn enforce_users(&mut self, by: Option<ClientKey>) {
        let changed = self.access.users.take_changed();
        if changed.is_empty() {
            return;
        }
        self.archive_configuration();
        for key in self.sessions.clients.keys() {
            if self.sessions[key].session.is_stranger() {
                self.sessions[key].session.identity = self.access.of_new_connection();
            } else if !self.access.may_stay(&self.sessions[key].session, &changed) {
                self.expel(key, by);
            } else if has_changed(self.sessions[key].session.identity, &changed)
                && let Some(denial) = self.denial_of_wait(key)
            {
                self.end_wait_with_error(key, &denial);
            }
        }
    }

    /// Ends a connection whose user is gone, or has lost what it is there for.
    fn expel(&mut self, key: ClientKey, by: Option<ClientKey>) {
        if Some(key) == by {
            // What it is told need not fit what a stranger may have.
            self.end_client(key, Closing::AfterReply);
        } else {
            self.sessions[key].session.identity = Identity::Stranger;
            self.end_client(key, Closing::Now);
        }
    }

    /// Why a command that waits may not go on.
    fn denial_of_wait(&mut self, key: ClientKey) -> Option<String> {
        let session = &self.sessions[key].session;
        let wait = session.wait.as_deref().filter(|wait| wait.is_blocking())?;
        let (command, args) = match wait.call() {
            Some((command, args)) => (command, args.to_vec()),
            // It has no keys.
            None => session.last_command.map(|it| (it, vec![it.name.as_bytes().to_vec()]))?,
        };
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let denial = self.denial(key, command, &args, Context::TopLevel)?;
        Some(denial.error(&self.access.text_of(self.sessions[key].session.identity), command))
    }

    /// Brings a changed configuration to the users; `sets_password` if it says which password the default user has.
    pub(super) fn set_access(&mut self, sets_password: bool, by: ClientKey) {
        self.access.users.set_channel_default(self.config.channel_default());
        if sets_password {
            let password = self.config.value("requirepass").as_bytes();
            let is_set = self.access.users.require_password(password);
            is_set.expect("CONFIG SET has checked it");
            self.enforce_users(Some(by));
        }
    }

    /// Says which users of the configuration cannot be used.
    pub fn tell_of_users(&self) {
        for (name, _) in self.access.users.iter().filter(|(_, user)| !user.is_on()) {
            self.deps.logger.notice(&format!(
                "The user '{}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a \
                 configuration error.",
                name.escape_ascii()
            ));
        }
    }

    /// Takes the users of the aclfile, if there is one, in place of all others. Connections of users that are not in it, or are
    /// others now, end, but not those of the default user.
    ///
    /// # Errors
    /// What is wrong with the file. No user has changed then.
    pub fn load_acl_file(&mut self, by: Option<ClientKey>) -> Result<(), AclFileError> {
        let default = self.access.users.channel_default();
        let Some(roster) = read_acl_file(&self.config, default)? else { return Ok(()) };
        self.access.users.replace(roster);
        let password = self.config.value("requirepass");
        if !password.is_empty() && self.access.users.default_user().needs_no_password() {
            // The file does not say that none is needed any more.
            let is_set = self.access.users.require_password(password.as_bytes());
            is_set.expect("it was set before");
        }
        self.enforce_users(by);
        Ok(())
    }

    /// Writes the users to the aclfile.
    pub(super) fn save_acl_file(&self, path: &Path) -> Result<(), FileError> {
        let disk = self.deps.disk.as_ref();
        let new = Unpublished::create(disk, &temporary_of(path, &self.run_id))?;
        new.keep_permissions(disk, path)?;
        let written = new.file().write_all_at(&self.access.users.to_file(), 0);
        written.map_err(FileError::io(new.temporary(), "write"))?;
        new.publish(disk, path)?;
        Ok(())
    }

    /// The path of the aclfile for ACL LOAD and SAVE.
    pub(super) fn required_acl_file(&self) -> Result<PathBuf, CommandError> {
        path_of_acl_file(&self.config).ok_or(CommandError::other(
            "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the \
             ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file \
             set) in order to store users in the Redis configuration.",
        ))
    }

    /// Whether the users are those of a server that has no users but `requirepass`.
    pub(super) fn has_plain_users(&self) -> bool {
        let mut plain = Users::new(self.access.users.channel_default());
        let is_set = plain.require_password(self.config.value("requirepass").as_bytes());
        is_set.is_ok() && plain.lines().eq(self.access.users.lines())
    }

    /// The lines `user` that the configuration file needs: none if users are in an aclfile, or it says nothing of them.
    pub(super) fn lines_of_users(&self) -> Vec<Vec<u8>> {
        if self.has_plain_users() || !self.config.value("aclfile").is_empty() {
            return Vec::new();
        }
        self.access.users.lines().collect()
    }
}

/// Where the server with this id writes an aclfile, which other servers may have, too.
fn temporary_of(path: &Path, run_id: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", run_id.get(..16).unwrap_or(run_id)));
    path.with_file_name(name)
}

fn has_changed(identity: Identity, changed: &BTreeSet<UserKey>) -> bool {
    matches!(identity, Identity::User(user) if changed.contains(&user))
}

fn may_monitor(user: &User) -> bool {
    let call: [&[u8]; 1] = [b"monitor"];
    table::lookup(call[0]).is_none_or(|command| user.check(command, &call).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_write_an_aclfile_next_to_each_other() {
        let path = Path::new("/etc/users.acl");
        let [one, other] = ["1f", "2e"].map(|id| temporary_of(path, &id.repeat(20)));
        assert_eq!(one, Path::new("/etc/users.acl.1f1f1f1f1f1f1f1f.tmp"));
        assert_ne!(one, other);
    }
}

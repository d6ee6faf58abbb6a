//! The log of refusals: ACL LOG.

use std::collections::VecDeque;

/// Refusals of the same kind within this time are one entry.
const SAME_MS_MAX: u64 = 60_000;

/// How many of the latest entries are compared with a new one.
const COMPARED_MAX: usize = 10;

/// How much of a key's or a user's name is kept: the log is as long as the configuration says, and strangers
/// fill it.
const NAME_BYTES_MAX: usize = 1024;

/// How much of a client's line is kept, which has names that the client has chosen.
const CLIENT_BYTES_MAX: usize = 1024;

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A user's name with a password.
    Auth,
    /// A user's name in a certificate.
    TlsCert,
}

/// How many reasons there are.
pub const REASON_COUNT: usize = 5;

impl Reason {
    /// As ACL LOG shows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Auth => "auth",
            Self::TlsCert => "tls-cert",
        }
    }
}

/// Where a call came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A client.
    TopLevel,
    /// A transaction.
    Multi,
    /// A script or a function.
    Lua,
}

impl Context {
    /// As ACL LOG shows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TopLevel => "toplevel",
            Self::Multi => "multi",
            Self::Lua => "lua",
        }
    }
}

/// A refusal.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What was refused.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// The command, the key or the channel.
    pub object: &'a [u8],
    /// The name of the user.
    pub user: &'a [u8],
}

/// Refusals of the same kind.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Counts entries from 0.
    pub id: u64,
    /// How many refusals.
    pub count: u64,
    /// What was refused.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// The command, the key or the channel.
    pub object: Box<[u8]>,
    /// The name of the user.
    pub user: Box<[u8]>,
    /// The latest client, as CLIENT LIST shows it.
    pub client: String,
    /// When the first was, in Unix milliseconds.
    pub created_ms: i64,
    /// When the latest was, in Unix milliseconds.
    pub updated_ms: i64,
}

/// The latest refusals.
#[derive(Debug, Default)]
pub struct AclLog {
    /// The latest first.
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl AclLog {
    /// Adds a refusal at `now_ms` and keeps at most `len_max` entries.
    pub fn add(&mut self, event: Event<'_>, mut client: String, now_ms: i64, len_max: usize) {
        let (object, user) = (start(event.object), start(event.user));
        client.truncate(client.floor_char_boundary(CLIENT_BYTES_MAX));
        client.shrink_to_fit();
        let same = self.entries.iter().take(COMPARED_MAX).position(|entry| {
            entry.reason == event.reason
                && entry.context == event.context
                && entry.updated_ms.abs_diff(now_ms) <= SAME_MS_MAX
                && *entry.object == *object
                && *entry.user == *user
        });
        if let Some(mut entry) = same.and_then(|index| self.entries.remove(index)) {
            entry.count += 1;
            entry.client = client;
            entry.updated_ms = now_ms;
            self.entries.push_front(entry);
        } else {
            self.entries.push_front(Entry {
                id: self.next_id,
                count: 1,
                reason: event.reason,
                context: event.context,
                object: object.into(),
                user: user.into(),
                client,
                created_ms: now_ms,
                updated_ms: now_ms,
            });
            self.next_id += 1;
        }
        self.entries.truncate(len_max);
    }

    /// The entries, the latest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Forgets all entries.
    pub fn reset(&mut self) {
        self.entries.clear();
    }
}

fn start(name: &[u8]) -> &[u8] {
    &name[..name.len().min(NAME_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(object: &str) -> Event<'_> {
        let (reason, context) = (Reason::Key, Context::TopLevel);
        Event { reason, context, object: object.as_bytes(), user: b"alice" }
    }

    fn shown(log: &AclLog) -> Vec<(u64, u64, String)> {
        let text = |entry: &Entry| String::from_utf8_lossy(&entry.object).into_owned();
        log.entries().map(|entry| (entry.id, entry.count, text(entry))).collect()
    }

    #[test]
    fn the_same_within_a_minute_is_one_entry() {
        let mut log = AclLog::default();
        log.add(event("a"), "one".to_owned(), 1_000, 128);
        log.add(event("b"), "one".to_owned(), 2_000, 128);
        log.add(event("a"), "two".to_owned(), 61_000, 128);
        assert_eq!(shown(&log), [(0, 2, "a".to_owned()), (1, 1, "b".to_owned())]);
        assert_eq!(log.entries().next().unwrap().client, "two");
        // A minute is counted from the latest one on.
        log.add(event("a"), "two".to_owned(), 121_001, 128);
        assert_eq!(shown(&log)[0], (2, 1, "a".to_owned()));
    }

    #[test]
    fn it_is_no_longer_than_it_may_be_and_names_are_short() {
        let mut log = AclLog::default();
        for index in 0..100 {
            log.add(event(&index.to_string()), String::new(), 0, 8);
        }
        assert_eq!(log.entries().count(), 8);
        log.add(event(&"x".repeat(1 << 20)), String::new(), 0, 8);
        assert_eq!(log.entries().next().unwrap().object.len(), NAME_BYTES_MAX);
        // A byte of the last letter would be too much.
        log.add(event("y"), format!("x{}", "\u{e9}".repeat(CLIENT_BYTES_MAX)), 0, 8);
        let client = &log.entries().next().unwrap().client;
        assert_eq!((client.len(), client.capacity()), (CLIENT_BYTES_MAX - 1, CLIENT_BYTES_MAX - 1));
        log.add(event("y"), String::new(), 0, 0);
        assert_eq!(log.entries().count(), 0);
    }
}

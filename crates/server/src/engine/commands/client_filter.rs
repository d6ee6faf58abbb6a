//! Which clients CLIENT LIST and CLIENT KILL mean: those that have every mark that is wanted, and
//! none that is not (`NOT-`). A filter that is given again replaces the one before; ids add up.

use std::collections::BTreeSet;
use std::mem::discriminant;

use acl::{UserKey, Users};
use base::DbIndex;
use command::argument;
use command::error::CommandError;

use super::super::access::Identity;
use super::super::client::Client;
use super::{error, text};

/// Which command has the filter: by default CLIENT KILL skips the client that asks, and what Redis
/// says of wrong ids differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    List,
    Kill,
}

/// See the file's top.
#[derive(Debug)]
pub(super) struct Filter<'a> {
    wanted: Vec<Mark<'a>>,
    unwanted: Vec<Mark<'a>>,
    /// Whether the client that asks is left out.
    pub(super) skips_asker: bool,
}

/// Something that a client is or has.
#[derive(Debug)]
enum Mark<'a> {
    /// One of these.
    Ids(BTreeSet<u64>),
    Class(Class),
    User(UserKey),
    Address(&'a [u8]),
    LocalAddress(&'a [u8]),
    Ip(&'a [u8]),
    Name(&'a [u8]),
    LibraryName(&'a [u8]),
    LibraryVersion(&'a [u8]),
    /// All of these letters, each once: a value of megabytes says no more than these.
    Flags(BTreeSet<u8>),
    /// All of these letters, of which no client has any.
    Capabilities(&'a [u8]),
    Db(DbIndex),
    /// Connected for at least so many seconds.
    Age(u64),
    /// Without a request for at least so many seconds.
    Idle(u64),
}

/// The filters that have a value, and those of them that there are with `NOT-`.
const FILTERS: [&str; 14] = [
    "type", "user", "addr", "laddr", "ip", "name", "lib-name", "lib-ver", "flags", "capa", "db",
    "maxage", "idle", "skipme",
];
const DENIABLE_COUNT: usize = 11;

/// The letters of CLIENT LIST, in Valkey as well, and of CLIENT CAPA.
const FLAGS: &[u8] = b"AbBcdeEiIMNOPrRStTuUx";
const CAPABILITIES: &[u8] = b"r";

const ID_TOO_SMALL: CommandError = CommandError::other("ERR client-id should be greater than 0");

impl<'a> Filter<'a> {
    /// Reads the words behind CLIENT LIST or CLIENT KILL. There are these users and `databases` databases.
    pub(super) fn parse(
        mut words: &[&'a [u8]],
        asking: Asking,
        users: &Users,
        databases: usize,
    ) -> Result<Self, CommandError> {
        let skips_asker = asking == Asking::Kill;
        let mut filter = Self { wanted: Vec::new(), unwanted: Vec::new(), skips_asker };
        while let [word, rest @ ..] = words {
            if argument::is(word, "id") || argument::is(word, "not-id") {
                let is_wanted = argument::is(word, "id");
                let (ids, rest) = parse_ids(rest, asking, is_wanted)?;
                filter.add(Mark::Ids(ids), is_wanted);
                words = rest;
                continue;
            }
            let (name, is_wanted) = known(word).ok_or(CommandError::Syntax)?;
            let [value, rest @ ..] = rest else { return Err(CommandError::Syntax) };
            match name {
                "skipme" if argument::is(value, "yes") => filter.skips_asker = true,
                "skipme" if argument::is(value, "no") => filter.skips_asker = false,
                "skipme" => return Err(CommandError::Syntax),
                _ => filter.add(Mark::parse(name, value, is_wanted, users, databases)?, is_wanted),
            }
            words = rest;
        }
        Ok(filter)
    }

    /// The clients with this address.
    pub(super) fn of_address(address: &'a [u8]) -> Self {
        Self { wanted: vec![Mark::Address(address)], unwanted: Vec::new(), skips_asker: false }
    }

    fn add(&mut self, mark: Mark<'a>, is_wanted: bool) {
        let marks = if is_wanted { &mut self.wanted } else { &mut self.unwanted };
        match (marks.iter_mut().find(|it| discriminant(*it) == discriminant(&mark)), mark) {
            (Some(Mark::Ids(ids)), Mark::Ids(more)) => ids.extend(more),
            (Some(before), mark) => *before = mark,
            (None, mark) => marks.push(mark),
        }
    }

    pub(super) fn has(&self, client: &Client, now_us: u64) -> bool {
        self.wanted.iter().all(|mark| mark.is_on(client, now_us))
            && !self.unwanted.iter().any(|mark| mark.is_on(client, now_us))
    }
}

/// The name of a filter that has a value, without `NOT-`, and whether it was without.
fn known(word: &[u8]) -> Option<(&'static str, bool)> {
    let word = word.to_ascii_lowercase();
    let (name, known) = match word.strip_prefix(b"not-") {
        Some(name) => (name, &FILTERS[..DENIABLE_COUNT]),
        None => (word.as_slice(), &FILTERS[..]),
    };
    let name = known.iter().find(|known| known.as_bytes() == name)?;
    Some((name, name.len() == word.len()))
}

/// The ids behind ID or NOT-ID, and the words behind them.
fn parse_ids<'w, 'a>(
    words: &'w [&'a [u8]],
    asking: Asking,
    is_wanted: bool,
) -> Result<(BTreeSet<u64>, &'w [&'a [u8]]), CommandError> {
    const INVALID: CommandError = CommandError::other("ERR Invalid client ID");
    let mut ids = BTreeSet::new();
    let mut rest = words;
    while let [word, behind @ ..] = rest {
        let Some(id) = keyspace::parse_int(word) else { break };
        match u64::try_from(id) {
            Ok(id) if id > 0 => {
                ids.insert(id);
            }
            // No client has it.
            _ if is_wanted && asking == Asking::List => {}
            _ => return Err(ID_TOO_SMALL),
        }
        rest = behind;
    }
    let is_filter = |word: &[u8]| {
        argument::is(word, "id") || argument::is(word, "not-id") || known(word).is_some()
    };
    let has_ids = rest.len() < words.len();
    match (rest, asking) {
        ([word, ..], Asking::List) if is_wanted && !(has_ids && is_filter(word)) => Err(INVALID),
        ([_, ..], Asking::Kill) if is_wanted && !has_ids => Err(ID_TOO_SMALL),
        _ if !has_ids => Err(CommandError::Syntax),
        _ => Ok((ids, rest)),
    }
}

impl<'a> Mark<'a> {
    fn parse(
        name: &'static str,
        value: &'a [u8],
        is_wanted: bool,
        users: &Users,
        databases: usize,
    ) -> Result<Self, CommandError> {
        let letters = |known: &[u8]| {
            if value.iter().all(|letter| known.contains(letter)) {
                return Ok(value);
            }
            let filter = if is_wanted {
                "provided".to_owned()
            } else {
                format!("NOT-{}", name.to_ascii_uppercase())
            };
            Err(error(format!("ERR Unknown {name} found in the {filter} filter: {}", text(value))))
        };
        Ok(match name {
            "type" => Self::Class(Class::parse(value)?),
            "user" => Self::User(
                users
                    .key_of(value)
                    .ok_or_else(|| error(format!("ERR No such user '{}'", text(value))))?,
            ),
            "addr" => Self::Address(value),
            "laddr" => Self::LocalAddress(value),
            "ip" => Self::Ip(value),
            "name" => Self::Name(value),
            "lib-name" => Self::LibraryName(value),
            "lib-ver" => Self::LibraryVersion(value),
            "flags" => Self::Flags(letters(FLAGS)?.iter().copied().collect()),
            "capa" => Self::Capabilities(letters(CAPABILITIES)?),
            "db" => Self::Db(parse_db(value, is_wanted, databases)?),
            "maxage" => Self::Age(parse_seconds(value, name)?),
            "idle" => Self::Idle(parse_seconds(value, name)?),
            _ => return Err(CommandError::Syntax),
        })
    }

    fn is_on(&self, client: &Client, now_us: u64) -> bool {
        let Client { id, connection, session } = client;
        let seconds_since = |moment_us: u64| now_us.saturating_sub(moment_us) / 1_000_000;
        // What was not told is not the empty name.
        let is_called = |told: &[u8], name: &[u8]| !told.is_empty() && told == name;
        match self {
            Self::Ids(ids) => ids.contains(id),
            Self::Class(class) => class.has(client),
            Self::User(user) => match session.identity {
                Identity::Stranger => *user == UserKey::DEFAULT,
                Identity::User(key) => key == *user,
            },
            Self::Address(address) => connection.peer.address.as_bytes() == *address,
            Self::LocalAddress(address) => connection.peer.local_address.as_bytes() == *address,
            Self::Ip(ip) => {
                let peer = &connection.peer;
                !peer.is_unix_socket && ip_of(&peer.address).as_bytes() == *ip
            }
            Self::Name(name) => is_called(&session.name, name),
            Self::LibraryName(name) => is_called(&session.library_name, name),
            Self::LibraryVersion(version) => is_called(&session.library_version, version),
            Self::Flags(letters) => {
                let flags = client.flags();
                letters.iter().all(|letter| flags.as_bytes().contains(letter))
            }
            Self::Capabilities(letters) => letters.is_empty(),
            Self::Db(db) => session.db == *db,
            Self::Age(least_s) => seconds_since(connection.connected_us) >= *least_s,
            Self::Idle(least_s) => seconds_since(connection.active_us) >= *least_s,
        }
    }
}

/// `127.0.0.1` of `127.0.0.1:50000`, and `::1` of `[::1]:50000`.
fn ip_of(address: &str) -> &str {
    let ip = address.rsplit_once(':').map_or(address, |(ip, _)| ip);
    ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip)
}

fn parse_db(value: &[u8], is_wanted: bool, databases: usize) -> Result<DbIndex, CommandError> {
    let name = if is_wanted { "DB" } else { "NOT-DB" };
    let number = keyspace::parse_int(value)
        .ok_or_else(|| error(format!("ERR {name} is not an integer or out of range")))?;
    usize::try_from(number).ok().and_then(|number| DbIndex::checked(number, databases)).ok_or_else(
        || error(format!("ERR {name} number should be between 0 and {}", databases - 1)),
    )
}

/// The value of `maxage` or `idle`.
fn parse_seconds(value: &[u8], name: &str) -> Result<u64, CommandError> {
    let seconds = keyspace::parse_int(value)
        .ok_or_else(|| error(format!("ERR {name} is not an integer or out of range")))?;
    u64::try_from(seconds)
        .ok()
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| error(format!("ERR {name} should be greater than 0")))
}

/// The types of clients that can be asked for.
#[derive(Debug)]
enum Class {
    Normal,
    PubSub,
    /// There are none.
    Replication,
}

impl Class {
    fn parse(name: &[u8]) -> Result<Self, CommandError> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Self::Normal),
            b"pubsub" => Ok(Self::PubSub),
            b"replica" | b"slave" | b"master" | b"primary" => Ok(Self::Replication),
            _ => Err(error(format!("ERR Unknown client type '{}'", text(name)))),
        }
    }

    fn has(&self, client: &Client) -> bool {
        match self {
            Self::Normal => !client.is_subscribed(),
            Self::PubSub => client.is_subscribed(),
            Self::Replication => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use acl::ChannelDefault;

    use super::*;

    #[test]
    fn addresses_have_an_ip() {
        for (address, ip) in [("127.0.0.1:50000", "127.0.0.1"), ("[::1]:50000", "::1"), ("", "")] {
            assert_eq!(ip_of(address), ip);
        }
    }

    #[test]
    fn a_letter_is_looked_for_once_however_often_it_is_given() {
        let mark =
            Mark::parse("flags", &[b'N'; 1 << 20], true, &Users::new(ChannelDefault::Nothing), 16)
                .unwrap();
        assert!(matches!(mark, Mark::Flags(letters) if letters == BTreeSet::from([b'N'])));
    }

    #[test]
    fn what_is_known_has_a_value_and_can_be_denied_if_that_means_anything() {
        assert_eq!(known(b"Lib-Name"), Some(("lib-name", true)));
        assert_eq!(known(b"NOT-LIB-NAME"), Some(("lib-name", false)));
        assert_eq!(known(b"not-capa"), Some(("capa", false)));
        assert_eq!(known(b"not-db"), Some(("db", false)));
        for word in [&b"not-idle"[..], b"not-maxage", b"not-skipme", b"not-", b"not-not-db", b"id"]
        {
            assert_eq!(known(word), None);
        }
    }
}

//! What is known about a command before it runs.
//!
//! ```text
//!   Spec ── name, arity, flags, categories, tips            who may call it, when, how often
//!     ├──── keys: [KeySpec]     begin search → find keys    which arguments are keys
//!     ├──── summary, since, complexity, arguments: [Arg]    what COMMAND DOCS tells
//!     ├──── subcommands: [Spec]                             CONFIG GET, OBJECT ENCODING …
//!     └──── action                                          who executes it
//! ```
//!
//! Everything is `const`, so the whole table is read-only data in the binary: nothing is built
//! when the server starts and nothing can change while it runs.
//!
//! A key spec finds keys in two steps, as Redis 7.0's do. The *begin search* finds the argument
//! from which to look (a fixed position, or the one after a keyword); *find keys* then takes
//! a range from there, or reads a count (`numkeys`) and takes as many. A step that cannot be
//! described (SORT's `GET` patterns) is `Unknown`, and the command has a function for it in
//! [`crate::keys`].

mod sets;

use crate::context::Context;
use crate::error::CommandError;

pub use sets::{ArgFlags, Categories, Flags, KeyFlags};
pub(crate) use sets::{acl, flags, key_flags};

/// Executes a command: `arguments[0]` is the command's name, the reply goes into the context.
pub type Handler = fn(&mut Context<'_>, &[&[u8]]) -> Result<(), CommandError>;

/// Who executes a command.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// A handler of this crate, which sees the keyspace and nothing of the server.
    Data(Handler),
    /// The server itself: clients, configuration, transactions, pub/sub, the log.
    Server,
    /// Described but not served: lookups do not find it, so it is an unknown command.
    Unsupported,
}

/// All that is known about a command.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Lower-case name; that of a subcommand includes its container: `config|get`.
    pub name: &'static str,
    /// Number of arguments with the name itself; `-n` means at least `n`.
    pub arity: i8,
    /// When and how it may be called.
    pub flags: Flags,
    /// ACL categories that do not follow from the flags; [`Spec::categories`] has them all.
    pub acl: Categories,
    /// Hints for clients and proxies, in Redis' notation.
    pub tips: &'static [&'static str],
    /// Where the keys are.
    pub keys: &'static [KeySpec],
    /// The chapter of the documentation it belongs to.
    pub group: Group,
    /// The version of Redis (or of Indelible, for our own commands) that introduced it.
    pub since: &'static str,
    /// One line of what it does.
    pub summary: &'static str,
    /// How its cost grows.
    pub complexity: &'static str,
    /// Set when the documentation advises against it.
    pub deprecated: Option<Deprecation>,
    /// Meant for the server's own use rather than for applications.
    pub system: bool,
    /// The arguments after the name, as a tree.
    pub arguments: &'static [Arg],
    /// Subcommands; a container has nothing else to execute.
    pub subcommands: &'static [Spec],
    /// Who executes it.
    pub action: Action,
}

/// Since when, and in favour of what, a command is deprecated.
#[derive(Clone, Copy, Debug)]
pub struct Deprecation {
    /// The version that deprecated it.
    pub since: &'static str,
    /// What to use instead, in prose.
    pub replaced_by: &'static str,
}

impl Spec {
    /// A spec with nothing in it, from which the table's literals take what they leave out.
    pub const BLANK: Self = Self {
        name: "",
        arity: 0,
        flags: Flags::NONE,
        acl: Categories::NONE,
        tips: &[],
        keys: &[],
        group: Group::Generic,
        since: "1.0.0",
        summary: "",
        complexity: "",
        deprecated: None,
        system: false,
        arguments: &[],
        subcommands: &[],
        action: Action::Unsupported,
    };

    /// Whether a call with `argument_count` arguments, the name included, can be right.
    #[must_use]
    pub const fn accepts(&self, argument_count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity >= 0 { argument_count == wanted } else { argument_count >= wanted }
    }

    /// All ACL categories: the listed ones and those that follow from the flags.
    #[must_use]
    pub const fn categories(&self) -> Categories {
        let mut all = self.acl;
        let flags = self.flags;
        if flags.has(Flags::WRITE) {
            all = all.with(Categories::WRITE);
        }
        if flags.has(Flags::READONLY) {
            all = all.with(Categories::READ);
        }
        if flags.has(Flags::ADMIN) {
            all = all.with(Categories::ADMIN).with(Categories::DANGEROUS);
        }
        if flags.has(Flags::PUBSUB) {
            all = all.with(Categories::PUBSUB);
        }
        if flags.has(Flags::BLOCKING) {
            all = all.with(Categories::BLOCKING);
        }
        all.with(if flags.has(Flags::FAST) { Categories::FAST } else { Categories::SLOW })
    }

    /// The name without its container: `get` for `config|get`.
    #[must_use]
    pub fn short_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, short)| short)
    }

    /// First key, last key and step as the old, one-range form of COMMAND shows them.
    #[must_use]
    pub fn legacy_range(&self) -> (i32, i32, i32) {
        if let [
            KeySpec {
                begin: BeginSearch::Index(first),
                find: FindKeys::Range { last, step, .. },
                ..
            },
        ] = *self.keys
        {
            return (first, if last < 0 { last } else { first + last }, step);
        }
        // Several specs: those that are plain ranges, one directly after the other.
        let mut range: Option<(i32, i32)> = None;
        for key in self.keys {
            let (BeginSearch::Index(at), FindKeys::Range { last, step: 1, .. }) =
                (key.begin, key.find)
            else {
                continue;
            };
            if range.is_some_and(|(_, end)| end != at - 1) {
                continue;
            }
            let end = if last < 0 { last } else { at + last };
            range = Some(range.map_or((at, end), |(first, _)| (first, end)));
        }
        range.map_or((0, 0, 0), |(first, last)| (first, last, 1))
    }
}

/// The chapters of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Keys of any type.
    Generic,
    /// Strings.
    String,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Hashes.
    Hash,
    /// Bits of strings.
    Bitmap,
    /// Publish/subscribe.
    PubSub,
    /// Transactions.
    Transactions,
    /// Connections.
    Connection,
    /// The server.
    Server,
    /// Redis Cluster.
    Cluster,
}

impl Group {
    /// The name that COMMAND DOCS shows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Hash => "hash",
            Self::Bitmap => "bitmap",
            Self::PubSub => "pubsub",
            Self::Transactions => "transactions",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Cluster => "cluster",
        }
    }
}

/// One place where a command has keys.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// How to find the argument to start from.
    pub begin: BeginSearch,
    /// Which arguments from there are keys.
    pub find: FindKeys,
    /// What happens to them.
    pub flags: KeyFlags,
}

/// The first step of a key spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginSearch {
    /// At this position.
    Index(i32),
    /// After this word; the search goes forward from `start_from`, or backward if it is negative.
    Keyword {
        /// The word, in any case.
        keyword: &'static str,
        /// Where to start; negative positions count from the end.
        start_from: i32,
    },
    /// Cannot be described.
    Unknown,
}

/// The second step of a key spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindKeys {
    /// Every `step`th argument up to `last`.
    Range {
        /// The last one, relative to the first, or to the end of the arguments if it is negative.
        last: i32,
        /// The distance from one key to the next.
        step: i32,
        /// With `last` -1: the arguments are cut into so many parts and the first one is used.
        limit: i32,
    },
    /// As many as a number among the arguments says; positions are relative to the begin.
    KeyNum {
        /// Where the number is.
        count_index: i32,
        /// Where the first key is.
        first_key: i32,
        /// The distance from one key to the next.
        step: i32,
    },
    /// Cannot be described.
    Unknown,
}

impl KeySpec {
    /// The argument at `index` and nothing else.
    #[must_use]
    pub const fn one(index: i32, flags: KeyFlags) -> Self {
        Self::range(index, 0, 1, flags)
    }

    /// Every `step`th argument from `first` to `last`, which is relative to `first` or, when
    /// negative, to the end.
    #[must_use]
    pub const fn range(first: i32, last: i32, step: i32, flags: KeyFlags) -> Self {
        Self {
            begin: BeginSearch::Index(first),
            find: FindKeys::Range { last, step, limit: 0 },
            flags,
        }
    }

    /// A number at `index` and then as many keys.
    #[must_use]
    pub const fn counted(index: i32, flags: KeyFlags) -> Self {
        Self {
            begin: BeginSearch::Index(index),
            find: FindKeys::KeyNum { count_index: 0, first_key: 1, step: 1 },
            flags,
        }
    }

    /// Keys that only the command's own function finds.
    #[must_use]
    pub const fn unknown(flags: KeyFlags) -> Self {
        Self { begin: BeginSearch::Unknown, find: FindKeys::Unknown, flags }
    }
}

/// What an argument looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// Any bytes.
    String,
    /// A whole number.
    Integer,
    /// A floating point number.
    Double,
    /// A key.
    Key,
    /// A glob-style pattern.
    Pattern,
    /// A point in time since the epoch.
    UnixTime,
    /// A word that stands for itself.
    PureToken,
    /// One of the nested arguments.
    OneOf,
    /// All of the nested arguments.
    Block,
}

impl ArgKind {
    /// The name that COMMAND DOCS shows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Key => "key",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::PureToken => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }
}

/// One argument of a command, possibly made of others.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// What the documentation calls it.
    pub name: &'static str,
    /// What it looks like.
    pub kind: ArgKind,
    /// The word in front of it.
    pub token: Option<&'static str>,
    /// For keys: which of the command's key specs finds it.
    pub key_spec: Option<u8>,
    /// The version that introduced it, if the command is older.
    pub since: Option<&'static str>,
    /// The version that deprecated it.
    pub deprecated_since: Option<&'static str>,
    /// How often it appears.
    pub flags: ArgFlags,
    /// What it is made of.
    pub arguments: &'static [Arg],
}

impl Arg {
    const fn new(name: &'static str, kind: ArgKind) -> Self {
        Self {
            name,
            kind,
            token: None,
            key_spec: None,
            since: None,
            deprecated_since: None,
            flags: ArgFlags::NONE,
            arguments: &[],
        }
    }

    /// Any bytes.
    #[must_use]
    pub const fn string(name: &'static str) -> Self {
        Self::new(name, ArgKind::String)
    }

    /// A whole number.
    #[must_use]
    pub const fn integer(name: &'static str) -> Self {
        Self::new(name, ArgKind::Integer)
    }

    /// A floating point number.
    #[must_use]
    pub const fn double(name: &'static str) -> Self {
        Self::new(name, ArgKind::Double)
    }

    /// A key that the key spec number `key_spec` finds.
    #[must_use]
    pub const fn key(name: &'static str, key_spec: u8) -> Self {
        let mut arg = Self::new(name, ArgKind::Key);
        arg.key_spec = Some(key_spec);
        arg
    }

    /// A glob-style pattern.
    #[must_use]
    pub const fn pattern(name: &'static str) -> Self {
        Self::new(name, ArgKind::Pattern)
    }

    /// A point in time since the epoch.
    #[must_use]
    pub const fn unix_time(name: &'static str) -> Self {
        Self::new(name, ArgKind::UnixTime)
    }

    /// The word `token` itself.
    #[must_use]
    pub const fn word(name: &'static str, token: &'static str) -> Self {
        Self::new(name, ArgKind::PureToken).token(token)
    }

    /// One of `arguments`.
    #[must_use]
    pub const fn one_of(name: &'static str, arguments: &'static [Self]) -> Self {
        let mut arg = Self::new(name, ArgKind::OneOf);
        arg.arguments = arguments;
        arg
    }

    /// All of `arguments`.
    #[must_use]
    pub const fn block(name: &'static str, arguments: &'static [Self]) -> Self {
        let mut arg = Self::new(name, ArgKind::Block);
        arg.arguments = arguments;
        arg
    }

    /// With the word `token` in front.
    #[must_use]
    pub const fn token(mut self, token: &'static str) -> Self {
        self.token = Some(token);
        self
    }

    /// Found by the key spec number `key_spec` (for patterns that become keys).
    #[must_use]
    pub const fn key_spec(mut self, key_spec: u8) -> Self {
        self.key_spec = Some(key_spec);
        self
    }

    /// Introduced by this version.
    #[must_use]
    pub const fn since(mut self, version: &'static str) -> Self {
        self.since = Some(version);
        self
    }

    /// Deprecated by this version.
    #[must_use]
    pub const fn deprecated(mut self, version: &'static str) -> Self {
        self.deprecated_since = Some(version);
        self
    }

    /// May be left out.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.flags = self.flags.with(ArgFlags::OPTIONAL);
        self
    }

    /// May be repeated.
    #[must_use]
    pub const fn multiple(mut self) -> Self {
        self.flags = self.flags.with(ArgFlags::MULTIPLE);
        self
    }

    /// May be repeated, each time with its token.
    #[must_use]
    pub const fn multiple_with_token(mut self) -> Self {
        self.flags = self.flags.with(ArgFlags::MULTIPLE).with(ArgFlags::MULTIPLE_TOKEN);
        self
    }
}

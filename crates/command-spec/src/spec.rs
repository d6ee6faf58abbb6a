//! What is known about a command before it runs.
//!
//! ```text
//!   Spec ── name, arity, flags, categories, tips            which calls are allowed, and when
//!     ├──── keys: [KeySpec]     begin search → find keys    which arguments are keys
//!     ├──── summary, since, complexity, arguments: [Arg]    what COMMAND DOCS tells
//!     ├──── origin, history: [Change]                       which servers have it since when
//!     ├──── propagation                                     what a replica is sent
//!     ├──── subcommands: [Spec]                             CONFIG GET, OBJECT ENCODING …
//!     └──── served                                          whether Indelible executes it
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

mod arguments;
mod key_specs;
mod origin;
mod propagation;
mod sets;

pub use arguments::{Arg, ArgKind};
pub use key_specs::{BeginSearch, FindKeys, KeySpec};
pub use origin::{Change, Origin};
pub(crate) use propagation::{EXPIRED, always, when};
pub use propagation::{Propagation, Rewrite};
pub use sets::{ArgFlags, Categories, Flags, KeyFlags};
pub(crate) use sets::{acl, flags, key_flags};

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
    /// How it reaches a replica.
    pub propagation: Propagation,
    /// The version that introduced it, of the server that `origin` names first.
    pub since: &'static str,
    /// The servers that have it.
    pub origin: Origin,
    /// What has changed in it, where its arguments do not tell.
    pub history: &'static [Change],
    /// One line of what it does.
    pub summary: &'static str,
    /// How its cost grows.
    pub complexity: &'static str,
    /// Set when the documentation advises against it.
    pub deprecated: Option<Deprecation>,
    /// Returns data of keys that it does not name, of all of them.
    pub reads_all: bool,
    /// Meant for the server's own use rather than for applications.
    pub system: bool,
    /// The arguments after the name, as a tree.
    pub arguments: &'static [Arg],
    /// Subcommands; a container has nothing else to execute.
    pub subcommands: &'static [Spec],
    /// Served by Indelible; what is not served is an unknown command to its clients.
    pub served: bool,
    /// What Indelible does of it, in a sentence, if that is not all.
    pub limit: &'static str,
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
        propagation: Propagation::None,
        since: "1.0.0",
        origin: Origin::Common,
        history: &[],
        summary: "",
        complexity: "",
        deprecated: None,
        reads_all: false,
        system: false,
        arguments: &[],
        subcommands: &[],
        served: true,
        limit: "",
    };

    /// Whether a call with `argument_count` arguments, the name included, can be right.
    #[must_use]
    pub const fn accepts(&self, argument_count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity >= 0 { argument_count == wanted } else { argument_count >= wanted }
    }

    /// Whether there is something to execute: a container without its subcommand is never called.
    #[must_use]
    pub const fn is_callable(&self) -> bool {
        self.subcommands.is_empty() || self.accepts(1)
    }

    /// All ACL categories: the listed ones and those that follow from the flags.
    #[must_use]
    pub const fn categories(&self) -> Categories {
        let mut all = self.acl;
        let flags = self.flags;
        if flags.has(Flags::WRITE) {
            all = all.with(Categories::WRITE);
        }
        // A script that only reads is still a script.
        if flags.has(Flags::READONLY) && !all.has(Categories::SCRIPTING) {
            all = all.with(Categories::READ);
        }
        if flags.has(Flags::ADMIN) {
            all = all.with(Categories::ADMIN).with(Categories::DANGEROUS);
        }
        if flags.has(Flags::PUBSUB) {
            all = all.with(Categories::PUBSUB);
        }
        // Redis' commands of this category are for applications, and so are the users that have it.
        if flags.has(Flags::BLOCKING) && !flags.has(Flags::ADMIN) {
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
    /// Streams.
    Stream,
    /// Geographic indices in sorted sets.
    Geo,
    /// Counting with HyperLogLog.
    HyperLogLog,
    /// Scripts and functions.
    Scripting,
    /// Sets of vectors.
    VectorSet,
    /// Sparse arrays.
    Array,
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
            Self::Stream => "stream",
            Self::Geo => "geo",
            Self::HyperLogLog => "hyperloglog",
            Self::Scripting => "scripting",
            Self::VectorSet => "vector_set",
            Self::Array => "array",
        }
    }
}
